/*
 * Value graphs to pickles. What Python's pickler would write for the same value, by the same means:
 * everything that can be referred to again goes to the memo; what cannot be made before its parts
 * (tuples, calls, sets of protocol 2) and turns up inside itself is written a second time there,
 * and the outer attempt is then thrown away. Clauses PKL-24 ff.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "codec/pickle.h"
#include "model/value_table.h"

#define BATCH 1000  /* items of one APPENDS or SETITEMS, as Python's pickler has it */
#define ATTEMPTS 64 /* at one node that is inside itself */

/* In the table: the memo's number once there is one, before that how often it is being made. */
#define IN_MEMO ((uint64_t)1 << 63)

/* Globals that are part of how a value is written. */
typedef enum helper {
    HELPER_ENCODE,
    HELPER_BYTEARRAY,
    HELPER_SET,
    HELPER_FROZENSET,
    HELPER_COMPLEX,
    HELPER_GETATTR,
    HELPER_COUNT
} helper;

/* A node of which a part was written. */
typedef struct frame {
    sw_value v;
    size_t next; /* what comes next: an element; of an OBJECT see object_step */
    size_t item; /* of an OBJECT's items */
} frame;

typedef struct emitter {
    swi_pickle_writer *w;
    const sw_value_graph *g;
    swi_pickle_leaf_fn leaf;
    void *ctx;
    swi_value_table met;
    uint32_t helpers[HELPER_COUNT]; /* their memos */
    bool has_helper[HELPER_COUNT];
    frame *stack;
    size_t depth, capacity;
    sw_error *err;
} emitter;

static sw_status op(emitter *e, char opcode)
{
    return swi_pickle_op(e->w, opcode, e->err);
}

static sw_status ops(emitter *e, const char *opcodes)
{
    return swi_buf_append_str(e->w->out, opcodes, e->err);
}

/* ---- the memo -------------------------------------------------------------------------------- */

static bool in_memo(const emitter *e, sw_value v, uint32_t *memo)
{
    const uint64_t *number = swi_value_table_find(&e->met, v);
    if (number == NULL || (*number & IN_MEMO) == 0)
        return false;
    *memo = (uint32_t)*number;
    return true;
}

static sw_status put(emitter *e, sw_value v)
{
    uint32_t memo;
    sw_status status = swi_pickle_put(e->w, &memo, e->err);
    return status != SW_OK ? status : swi_value_table_set(&e->met, v, memo | IN_MEMO, e->err);
}

static sw_status push(emitter *e, sw_value v)
{
    uint64_t *attempts = swi_value_table_find(&e->met, v);
    uint64_t before = attempts != NULL && (*attempts & IN_MEMO) == 0 ? *attempts : 0;
    if (before == ATTEMPTS)
        return swi_fail(e->err, SW_ERR_UNSUPPORTED,
                        "pickle: a value that is part of itself in %d ways cannot be written",
                        ATTEMPTS);
    sw_status status = SW_OK;
    if (attempts == NULL)
        status = swi_value_table_set(&e->met, v, 1, e->err);
    else if ((*attempts & IN_MEMO) == 0)
        *attempts = before + 1;
    if (status == SW_OK)
        status = swi_grow_array((void **)&e->stack, &e->capacity, e->depth + 1, sizeof *e->stack,
                                e->err);
    if (status == SW_OK)
        e->stack[e->depth++] = (frame){.v = v};
    return status;
}

/* ---- what needs no frame --------------------------------------------------------------------- */

static sw_status put_head(emitter *e, uint8_t opcode, uint64_t size, size_t width)
{
    uint8_t head[9] = {opcode};
    for (size_t i = 0; i < width; i++)
        head[1 + i] = (uint8_t)(size >> 8 * i);
    return swi_buf_append(e->w->out, head, 1 + width, e->err);
}

static sw_status put_counted(emitter *e, uint8_t opcode, size_t width, const void *data,
                             size_t size)
{
    sw_status status = put_head(e, opcode, size, width);
    return status != SW_OK ? status : swi_buf_append(e->w->out, data, size, e->err);
}

static sw_status emit_bigint(emitter *e, const uint8_t *data, size_t size)
{
    if (size <= UINT8_MAX)
        return put_counted(e, 0x8a, 1, data, size);
    if (size > INT32_MAX)
        return swi_fail(e->err, SW_ERR_UNSUPPORTED,
                        "pickle: an integer of %zu bytes cannot be written", size);
    return put_counted(e, 0x8b, 4, data, size);
}

/* A global that is part of how a value is written, not of the value. */
static sw_status emit_helper(emitter *e, helper which)
{
    static const struct {
        const char *module, *name;
    } names[HELPER_COUNT] = {
        [HELPER_ENCODE] = {"_codecs", "encode"},    [HELPER_BYTEARRAY] = {"builtins", "bytearray"},
        [HELPER_SET] = {"builtins", "set"},         [HELPER_FROZENSET] = {"builtins", "frozenset"},
        [HELPER_COMPLEX] = {"builtins", "complex"}, [HELPER_GETATTR] = {"builtins", "getattr"},
    };
    if (e->has_helper[which])
        return swi_pickle_get(e->w, e->helpers[which], e->err);
    sw_status status = swi_pickle_global(e->w, names[which].module, names[which].name, e->err);
    if (status == SW_OK)
        status = swi_pickle_put(e->w, &e->helpers[which], e->err);
    e->has_helper[which] = status == SW_OK;
    return status;
}

/* Protocol 2 has no bytes: they are text of the same code points, encoded by a call. */
static sw_status bytes_as_text(emitter *e, const uint8_t *data, size_t size)
{
    uint64_t high = 0;
    for (size_t i = 0; i < size; i++)
        high += data[i] >> 7;
    if (size + high > UINT32_MAX)
        return swi_fail(e->err, SW_ERR_UNSUPPORTED,
                        "pickle: %zu bytes cannot be written under protocol 2", size);
    sw_status status = emit_helper(e, HELPER_ENCODE);
    if (status == SW_OK)
        status = put_head(e, 'X', size + high, 4);
    if (status == SW_OK)
        status = swi_buf_reserve(e->w->out, size + (size_t)high, e->err);
    for (size_t i = 0; status == SW_OK && i < size; i++) {
        const uint8_t two[2] = {(uint8_t)(0xc0 | data[i] >> 6), (uint8_t)(0x80 | (data[i] & 0x3f))};
        status = data[i] < 0x80 ? swi_buf_u8(e->w->out, data[i], e->err)
                                : swi_buf_append(e->w->out, two, 2, e->err);
    }
    if (status == SW_OK)
        status = swi_pickle_str(e->w, "latin1", 6, e->err);
    return status != SW_OK ? status : ops(e, "\x86R"); /* TUPLE2, REDUCE */
}

static sw_status emit_bytes(emitter *e, sw_value v, const uint8_t *data, size_t size)
{
    bool array = sw_value_is_bytearray(e->g, v);
    sw_status status = array ? emit_helper(e, HELPER_BYTEARRAY) : SW_OK;
    if (status != SW_OK)
        return status;
    if (array && size == 0)
        status = op(e, ')');
    else if (e->w->protocol < 4)
        status = bytes_as_text(e, data, size);
    else if (size <= UINT8_MAX)
        status = put_counted(e, 'C', 1, data, size);
    else
        status = size <= UINT32_MAX ? put_counted(e, 'B', 4, data, size)
                                    : put_counted(e, 0x8e, 8, data, size);
    if (status == SW_OK && array)
        status = ops(e, size == 0 ? "R" : "\x85R"); /* TUPLE1, REDUCE */
    return status != SW_OK ? status : put(e, v);
}

/* "a..b", ".a", "a.": no attribute is called "". */
static bool has_empty_part(const char *name)
{
    size_t n = strlen(name);
    return n == 0 || name[0] == '.' || name[n - 1] == '.' || strstr(name, "..") != NULL;
}

/* Protocol 2 cannot name what is inside a class: Class.Name is getattr(Class, "Name"). */
static sw_status emit_global(emitter *e, sw_value v)
{
    const char *module = "", *name = "";
    (void)sw_value_global(e->g, v, &module, &name);
    sw_status status = SW_OK;
    if (e->w->protocol >= 4 || strchr(name, '.') == NULL) {
        status = swi_pickle_global(e->w, module, name, e->err);
        return status != SW_OK ? status : put(e, v);
    }
    if (has_empty_part(name))
        return swi_fail(e->err, SW_ERR_UNSUPPORTED,
                        "pickle: protocol 2 cannot write a global whose name has an empty part");
    for (const char *p = name; status == SW_OK && *p != '\0'; p++)
        status = *p == '.' ? emit_helper(e, HELPER_GETATTR) : SW_OK;
    size_t size = strcspn(name, ".");
    char first[SWI_GLOBAL_MAX_BYTES + 1];
    memcpy(first, name, size);
    first[size] = '\0';
    if (status == SW_OK)
        status = swi_pickle_global(e->w, module, first, e->err);
    while (status == SW_OK && name[size] == '.') {
        name += size + 1;
        size = strcspn(name, ".");
        status = swi_pickle_str(e->w, name, size, e->err);
        if (status == SW_OK)
            status = ops(e, "\x86R");
    }
    return status != SW_OK ? status : put(e, v);
}

static sw_status emit_complex(emitter *e, double re, double im)
{
    sw_status status = emit_helper(e, HELPER_COMPLEX);
    if (status == SW_OK)
        status = swi_pickle_float(e->w, re, e->err);
    if (status == SW_OK)
        status = swi_pickle_float(e->w, im, e->err);
    return status != SW_OK ? status : ops(e, "\x86R");
}

static sw_status emit_text(emitter *e, sw_value v, sw_value_kind kind)
{
    const uint8_t *data = NULL;
    size_t size = 0;
    (void)sw_value_bytes(e->g, v, &data, &size);
    if (kind == SW_VALUE_BIGINT)
        return emit_bigint(e, data, size);
    if (kind == SW_VALUE_BYTES)
        return emit_bytes(e, v, data, size);
    sw_status status = swi_pickle_str(e->w, data, size, e->err);
    return status != SW_OK ? status : put(e, v);
}

/* What only the caller can write: tensors, persistent ids, records. */
static sw_status emit_leaf(emitter *e, sw_value v)
{
    if (e->leaf == NULL)
        return swi_fail(e->err, SW_ERR_UNSUPPORTED,
                        "pickle: a tensor or a part of one cannot be written here");
    sw_status status = e->leaf(e->ctx, e->w, e->g, v, e->err);
    return status != SW_OK ? status : put(e, v);
}

static sw_status emit_scalar(emitter *e, sw_value v, sw_value_kind kind)
{
    bool flag = false;
    int64_t whole = 0;
    double re = 0, im = 0;
    switch (kind) {
    case SW_VALUE_NONE:
        return op(e, 'N');
    case SW_VALUE_BOOL:
        (void)sw_value_bool(e->g, v, &flag);
        return op(e, (char)(flag ? 0x88 : 0x89));
    case SW_VALUE_INT:
        (void)sw_value_int(e->g, v, &whole);
        return swi_pickle_int(e->w, whole, e->err);
    case SW_VALUE_FLOAT:
        (void)sw_value_float(e->g, v, &re);
        return swi_pickle_float(e->w, re, e->err);
    case SW_VALUE_COMPLEX:
        (void)sw_value_complex(e->g, v, &re, &im);
        return emit_complex(e, re, im);
    case SW_VALUE_GLOBAL:
        return emit_global(e, v);
    case SW_VALUE_STR:
    case SW_VALUE_BYTES:
    case SW_VALUE_BIGINT:
        return emit_text(e, v, kind);
    default:
        return emit_leaf(e, v);
    }
}

/* ---- containers: how they begin ----------------------------------------------------------------
 */

static sw_status open_set(emitter *e, sw_value v, bool frozen)
{
    sw_status status;
    if (e->w->protocol < 4) {
        status = emit_helper(e, frozen ? HELPER_FROZENSET : HELPER_SET);
        return status != SW_OK ? status : op(e, ']');
    }
    if (frozen)
        return op(e, '(');
    status = op(e, (char)0x8f);
    return status != SW_OK ? status : put(e, v);
}

/* Writes the value, or begins it and leaves the rest to a frame. */
static sw_status emit_value(emitter *e, sw_value v)
{
    uint32_t memo;
    sw_value_kind kind = sw_value_get_kind(e->g, v);
    if (in_memo(e, v, &memo))
        return swi_pickle_get(e->w, memo, e->err);
    if (kind == SW_VALUE_TUPLE && sw_value_size(e->g, v) == 0)
        return op(e, ')');
    if (!(kind >= SW_VALUE_LIST && kind <= SW_VALUE_FROZENSET) && kind != SW_VALUE_OBJECT)
        return emit_scalar(e, v, kind);
    sw_status status = push(e, v);
    if (status != SW_OK)
        return status;
    switch (kind) {
    case SW_VALUE_LIST:
    case SW_VALUE_DICT:
        status = op(e, kind == SW_VALUE_LIST ? ']' : '}');
        return status != SW_OK ? status : put(e, v);
    case SW_VALUE_TUPLE:
        return sw_value_size(e->g, v) > 3 ? op(e, '(') : SW_OK;
    case SW_VALUE_SET:
    case SW_VALUE_FROZENSET:
        return open_set(e, v, kind == SW_VALUE_FROZENSET);
    default:
        return SW_OK;
    }
}

/* ---- containers: elements and ends -------------------------------------------------------------
 */

/*
 * What stands between the elements of a container of `count`, before element i: the end of a batch
 * and the mark of the next. `one` is the opcode for a batch of one without a mark, 0: none.
 */
static sw_status batch(emitter *e, size_t i, size_t count, char one, char many)
{
    sw_status status = SW_OK;
    if (i > 0 && (i % BATCH == 0 || i == count)) {
        size_t size = (i - 1) % BATCH + 1;
        status = op(e, size == 1 && one != 0 ? one : many);
    }
    if (status == SW_OK && i < count && i % BATCH == 0 && (count - i > 1 || one == 0))
        status = op(e, '(');
    return status;
}

/* The parts of a node are on the stack: makes it of them, unless one of them has made it. */
static sw_status close_with(emitter *e, sw_value v, const char *make, const char *undo)
{
    uint32_t memo;
    e->depth--;
    sw_status status;
    if (in_memo(e, v, &memo)) {
        status = ops(e, undo);
        return status != SW_OK ? status : swi_pickle_get(e->w, memo, e->err);
    }
    status = ops(e, make);
    return status != SW_OK ? status : put(e, v);
}

static sw_status close_tuple(emitter *e, sw_value v, size_t count)
{
    static const char *const makes[] = {")", "\x85", "\x86", "\x87"};
    static const char *const undos[] = {"", "0", "00", "000"};
    return count > 3 ? close_with(e, v, "t", "1") : close_with(e, v, makes[count], undos[count]);
}

/* Elements of a list, lists of protocol 2's sets, sets, tuples. */
static sw_status sequence_step(emitter *e, sw_value_kind kind)
{
    frame *f = &e->stack[e->depth - 1];
    sw_value v = f->v, item;
    size_t i = f->next++, count = sw_value_size(e->g, v);
    bool old = e->w->protocol < 4;
    sw_status status = SW_OK;
    if (kind == SW_VALUE_LIST || (old && kind != SW_VALUE_TUPLE))
        status = batch(e, i, count, 'a', 'e');
    else if (kind == SW_VALUE_SET)
        status = batch(e, i, count, 0, (char)0x90);
    if (status != SW_OK)
        return status;
    if (sw_value_item(e->g, v, i, &item))
        return emit_value(e, item);
    if (kind == SW_VALUE_TUPLE)
        return close_tuple(e, v, count);
    if (kind == SW_VALUE_FROZENSET)
        return old ? close_with(e, v, "\x85R", "00") : close_with(e, v, "\x91", "1");
    if (kind == SW_VALUE_SET && old)
        return close_with(e, v, "\x85R", "00");
    e->depth--;
    return SW_OK;
}

/* Key or value i of a dict's pairs; behind the last one only what ends them. */
static sw_status pair_step(emitter *e, sw_value dict, size_t i)
{
    sw_value both[2];
    sw_status status = i % 2 == 0 ? batch(e, i / 2, sw_value_size(e->g, dict), 's', 'u') : SW_OK;
    if (status != SW_OK || !sw_value_pair(e->g, dict, i / 2, &both[0], &both[1]))
        return status;
    return emit_value(e, both[i % 2]);
}

static size_t item_count(const emitter *e, const sw_value_object *object)
{
    if (!object->has_items)
        return 0;
    bool dict = sw_value_get_kind(e->g, object->items) == SW_VALUE_DICT;
    return sw_value_size(e->g, object->items) * (dict ? 2 : 1);
}

static sw_status item_step(emitter *e, sw_value items, size_t i)
{
    sw_value item;
    if (sw_value_get_kind(e->g, items) == SW_VALUE_DICT)
        return pair_step(e, items, i);
    sw_status status = batch(e, i, sw_value_size(e->g, items), 'a', 'e');
    if (status != SW_OK || !sw_value_item(e->g, items, i, &item))
        return status;
    return emit_value(e, item);
}

enum { OBJECT_CALLABLE = 0, OBJECT_ARGS, OBJECT_MAKE, OBJECT_ITEMS, OBJECT_STATE, OBJECT_END };

/* Callable and arguments are on the stack. When they hold the object it is made, and whole. */
static sw_status make_object(emitter *e, sw_value v, bool is_new)
{
    uint32_t memo;
    if (in_memo(e, v, &memo))
        return close_with(e, v, "", "00");
    sw_status status = op(e, (char)(is_new ? 0x81 : 'R'));
    return status != SW_OK ? status : put(e, v);
}

static sw_status object_step(emitter *e)
{
    frame *f = &e->stack[e->depth - 1];
    sw_value_object object = {0};
    size_t i;
    (void)sw_value_get_object(e->g, f->v, &object);
    switch (f->next) {
    case OBJECT_CALLABLE:
        f->next++;
        return emit_value(e, object.callable);
    case OBJECT_ARGS:
        f->next++;
        if (sw_value_get_kind(e->g, object.args) != SW_VALUE_TUPLE)
            return swi_fail(e->err, SW_ERR_ARG, "pickle: the arguments of a call are no tuple");
        return emit_value(e, object.args);
    case OBJECT_MAKE:
        f->next++;
        return make_object(e, f->v, object.is_new);
    case OBJECT_ITEMS:
        i = f->item++;
        if (i >= item_count(e, &object))
            f->next++;
        return object.has_items ? item_step(e, object.items, i) : SW_OK;
    case OBJECT_STATE:
        f->next++;
        return object.has_state ? emit_value(e, object.state) : SW_OK;
    default:
        e->depth--;
        return object.has_state ? op(e, 'b') : SW_OK;
    }
}

static sw_status step(emitter *e)
{
    frame *f = &e->stack[e->depth - 1];
    sw_value_kind kind = sw_value_get_kind(e->g, f->v);
    if (kind == SW_VALUE_OBJECT)
        return object_step(e);
    if (kind != SW_VALUE_DICT)
        return sequence_step(e, kind);
    size_t i = f->next++;
    if (i / 2 >= sw_value_size(e->g, f->v))
        e->depth--;
    return pair_step(e, f->v, i);
}

sw_status swi_pickle_emit(swi_pickle_writer *w, const sw_value_graph *graph, sw_value v,
                          swi_pickle_leaf_fn leaf, void *ctx, sw_error *err)
{
    emitter e = {.w = w, .g = graph, .leaf = leaf, .ctx = ctx, .err = err};
    e.met.graph = graph;
    sw_status status = emit_value(&e, v);
    while (status == SW_OK && e.depth > 0)
        status = step(&e);
    swi_value_table_free(&e.met);
    free(e.stack);
    return status;
}
