/* Tensors in pickles, as torch.save writes them (specs/torch_zip.md, TF-5, TF-7 and TF-10). */
#include <string.h>

#include "container/torch_internal.h"

enum {
    SLOT_REBUILD_V2,
    SLOT_REBUILD_V3,
    SLOT_ORDERED_DICT,
    SLOT_STORAGE,
    SLOT_CPU,
    SLOT_UNTYPED,
    SLOT_CLASS, /* one a dtype */
    SLOT_DTYPE = SLOT_CLASS + SW_DTYPE_COUNT,
    SLOT_END = SLOT_DTYPE + SW_DTYPE_COUNT,
    SLOT_NONE /* is not remembered */
};
_Static_assert(SLOT_END <= SWI_TORCH_EMITTER_SLOTS, "each name has a slot of its own");

typedef struct emitting {
    swi_torch_emitter *e;
    swi_pickle_writer *w;
    sw_status st; /* stays failed, so that the code reads like the pickle */
    sw_error *err;
} emitting;

static void op(emitting *e, char opcode)
{
    if (e->st == SW_OK)
        e->st = swi_pickle_op(e->w, opcode, e->err);
}

static void integer(emitting *e, int64_t v)
{
    if (e->st == SW_OK)
        e->st = swi_pickle_int(e->w, v, e->err);
}

static void text(emitting *e, const char *s)
{
    if (e->st == SW_OK)
        e->st = swi_pickle_str(e->w, s, strlen(s), e->err);
}

static void ints(emitting *e, uint32_t count, const int64_t *items)
{
    op(e, '(');
    for (uint32_t i = 0; i < count; i++)
        integer(e, items[i]);
    op(e, 't');
}

static void key(emitting *e, uint32_t storage)
{
    char digits[SWI_TORCH_KEY_BYTES];
    swi_torch_key(storage, digits);
    text(e, digits);
}

/* Whether the memo has what `slot` stands for; it is on the stack then. */
static bool recalled(emitting *e, uint32_t slot)
{
    if (!e->e->remembers || slot == SLOT_NONE || e->st != SW_OK || e->e->memo[slot] == 0)
        return false;
    e->st = swi_pickle_get(e->w, e->e->memo[slot] - 1, e->err);
    return true;
}

static void remember(emitting *e, uint32_t slot)
{
    uint32_t memo;
    if (!e->e->remembers || slot == SLOT_NONE || e->st != SW_OK)
        return;
    e->st = swi_pickle_put(e->w, &memo, e->err);
    if (e->st == SW_OK)
        e->e->memo[slot] = memo + 1;
}

static void global(emitting *e, uint32_t slot, const char *module, const char *name)
{
    if (recalled(e, slot) || e->st != SW_OK)
        return;
    e->st = swi_pickle_global(e->w, module, name, e->err);
    remember(e, slot);
}

static void word(emitting *e, uint32_t slot, const char *s)
{
    if (recalled(e, slot))
        return;
    text(e, s);
    remember(e, slot);
}

/* TF-5; TL-4: the form before 1.6 says also what it is a view of. */
static void persistent(emitting *e, uint32_t slot, const char *module, const char *class,
                       uint32_t storage, uint64_t count)
{
    op(e, '(');
    word(e, SLOT_STORAGE, "storage");
    global(e, slot, module, class);
    key(e, storage);
    word(e, SLOT_CPU, "cpu");
    integer(e, (int64_t)count);
    if (e->e->form == SWI_TORCH_LEGACY)
        op(e, 'N');
    op(e, 't');
    op(e, 'Q'); /* BINPERSID */
}

sw_status swi_torch_emit(swi_torch_emitter *emitter, swi_pickle_writer *w,
                         const swi_torch_out_tensor *t, sw_error *err)
{
    const char *class = swi_torch_class_of(t->dtype);
    emitting e = {.e = emitter, .w = w, .err = err};
    if (class != NULL)
        global(&e, SLOT_REBUILD_V2, "torch._utils", "_rebuild_tensor_v2");
    else
        global(&e, SLOT_REBUILD_V3, "torch._utils", "_rebuild_tensor_v3");
    op(&e, '(');
    if (class != NULL)
        persistent(&e, SLOT_CLASS + (uint32_t)t->dtype, "torch", class, t->storage,
                   t->storage_elements);
    else
        persistent(&e, SLOT_UNTYPED, "torch.storage", "UntypedStorage", t->storage,
                   t->storage_elements * sw_dtype_bytes(t->dtype));
    integer(&e, (int64_t)t->start_elements);
    ints(&e, t->axes, t->shape);
    ints(&e, t->axes, t->stride_elements);
    op(&e, '\x89'); /* NEWFALSE: requires_grad */
    global(&e, SLOT_ORDERED_DICT, "collections", "OrderedDict");
    op(&e, ')');
    op(&e, 'R');
    if (class == NULL)
        global(&e, SLOT_DTYPE + (uint32_t)t->dtype, "torch", swi_torch_dtype_name(t->dtype));
    op(&e, 't');
    op(&e, 'R');
    return e.st;
}

sw_status swi_torch_emit_carried(swi_torch_emitter *emitter, swi_pickle_writer *w,
                                 const swi_torch_carried *storage, uint32_t number, sw_error *err)
{
    emitting e = {.e = emitter, .w = w, .err = err};
    persistent(&e, SLOT_NONE, storage->module, storage->name, number, storage->is.elements);
    return e.st;
}
