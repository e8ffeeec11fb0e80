/* Tensors in pickles, as torch.save writes them (specs/torch_zip.md, TF-5, TF-7 and TF-10). */
#include <string.h>

#include "container/torch_emitting.h"
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
    SLOT_END = SLOT_DTYPE + SW_DTYPE_COUNT
};
_Static_assert(SLOT_END <= SWI_TORCH_EMITTER_SLOTS, "each name has a slot of its own");

typedef struct emitting {
    swi_torch_emitting to;
    swi_torch_form form;
} emitting;

static emitting begin(swi_torch_emitter *emitter, swi_pickle_writer *w, sw_error *err)
{
    return (emitting){
        .to = {.w = w, .memo = emitter->memo, .remembers = emitter->remembers, .err = err},
        .form = emitter->form};
}

static void key(swi_torch_emitting *e, uint32_t storage)
{
    char digits[SWI_TORCH_KEY_BYTES];
    swi_torch_key(storage, digits);
    swi_te_text(e, digits);
}

/* TF-5; TL-4: the form before 1.6 says also what it is a view of. */
static void persistent(emitting *to, uint32_t slot, const char *module, const char *class,
                       uint32_t storage, uint64_t count)
{
    swi_torch_emitting *e = &to->to;
    swi_te_op(e, '(');
    swi_te_word(e, SLOT_STORAGE, "storage");
    swi_te_global(e, slot, module, class);
    key(e, storage);
    swi_te_word(e, SLOT_CPU, "cpu");
    swi_te_int(e, (int64_t)count);
    if (to->form == SWI_TORCH_LEGACY)
        swi_te_op(e, 'N');
    swi_te_op(e, 't');
    swi_te_op(e, 'Q'); /* BINPERSID */
}

sw_status swi_torch_emit(swi_torch_emitter *emitter, swi_pickle_writer *w,
                         const swi_torch_out_tensor *t, sw_error *err)
{
    const char *class = swi_torch_class_of(t->dtype);
    emitting to = begin(emitter, w, err);
    swi_torch_emitting *e = &to.to;
    if (class != NULL)
        swi_te_global(e, SLOT_REBUILD_V2, "torch._utils", "_rebuild_tensor_v2");
    else
        swi_te_global(e, SLOT_REBUILD_V3, "torch._utils", "_rebuild_tensor_v3");
    swi_te_op(e, '(');
    if (class != NULL)
        persistent(&to, SLOT_CLASS + (uint32_t)t->dtype, "torch", class, t->storage,
                   t->storage_elements);
    else
        persistent(&to, SLOT_UNTYPED, "torch.storage", "UntypedStorage", t->storage,
                   t->storage_elements * sw_dtype_bytes(t->dtype));
    swi_te_int(e, (int64_t)t->start_elements);
    swi_te_ints(e, t->axes, t->shape);
    swi_te_ints(e, t->axes, t->stride_elements);
    swi_te_op(e, '\x89'); /* NEWFALSE: requires_grad */
    swi_te_global(e, SLOT_ORDERED_DICT, "collections", "OrderedDict");
    swi_te_op(e, ')');
    swi_te_op(e, 'R');
    if (class == NULL)
        swi_te_global(e, SLOT_DTYPE + (uint32_t)t->dtype, "torch", swi_torch_dtype_name(t->dtype));
    swi_te_op(e, 't');
    swi_te_op(e, 'R');
    return e->st;
}

sw_status swi_torch_emit_carried(swi_torch_emitter *emitter, swi_pickle_writer *w,
                                 const swi_torch_carried *storage, uint32_t number, sw_error *err)
{
    emitting to = begin(emitter, w, err);
    persistent(&to, SWI_TE_NO_SLOT, storage->module, storage->name, number, storage->is.elements);
    return to.to.st;
}
