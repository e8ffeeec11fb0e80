/* Storages whose bytes are carried in the graph of a value: sixth parts of their ids. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "codec/crc32.h"
#include "container/torch_internal.h"
#include "model/piece.h"
#include "model/value.h"

#define ID_PARTS 6

static sw_status read_bytes(const swi_torch_carrier *c, const swi_torch_storage *s,
                            sw_value_graph *to, sw_value *out, sw_error *err)
{
    void *data = NULL;
    size_t size = (size_t)s->bytes; /* within max_bytes */
    sw_status st = swi_alloc_array(size > 0 ? size : 1, 1, &data, err);
    if (st == SW_OK && size > 0)
        st = c->reader->read(c->reader, c->tf->file, s->offset_bytes, data, size, err);
    uint32_t found = st == SW_OK && s->has_crc ? swi_crc32(0, data, size) : s->crc32;
    if (st == SW_OK && s->has_crc && found != s->crc32)
        st = swi_fail_at(err, SW_ERR_CORRUPT, "ZIP-14", s->offset_bytes,
                         "storage %s has CRC-32 %08" PRIx32 ", the archive says %08" PRIx32, s->key,
                         found, s->crc32);
    if (st == SW_OK)
        st = swi_graph_text(to, SW_VALUE_BYTES, data, size, out, err);
    free(data);
    return st;
}

/* Without the key, which is the file's, so that the same value is the same wherever it was. */
static sw_status make_id(const swi_torch_carrier *c, const swi_torch_storage *s, const char *module,
                         const char *class, sw_value_graph *to, sw_value *out, sw_error *err)
{
    sw_value parts[ID_PARTS];
    sw_status st = swi_graph_text(to, SW_VALUE_STR, "storage", 7, &parts[0], err);
    if (st == SW_OK)
        st = swi_graph_global(to, module, class, &parts[1], err);
    if (st == SW_OK)
        st = swi_graph_text(to, SW_VALUE_STR, "", 0, &parts[2], err);
    if (st == SW_OK)
        st = swi_graph_text(to, SW_VALUE_STR, "cpu", 3, &parts[3], err);
    if (st == SW_OK)
        st = swi_graph_int(to, (int64_t)(s->bytes / s->element_bytes), &parts[4], err);
    if (st == SW_OK)
        st = read_bytes(c, s, to, &parts[5], err);
    if (st == SW_OK)
        st = swi_graph_sequence(to, SW_VALUE_TUPLE, parts, ID_PARTS, out, err);
    return st;
}

/* Of quantised ones there are bytes, and larger units that nothing here has a type for. */
static bool can_carry(const swi_torch_carrier *c, const swi_torch_storage *s)
{
    return !c->tf->swapped && s->bytes <= c->left_bytes &&
           (s->dtype != SW_DTYPE_NONE || s->element_bytes == 1);
}

sw_status swi_torch_carry_map(void *ctx, const sw_value_graph *from, sw_value v, sw_value_graph *to,
                              bool *replaced, sw_value *out, sw_error *err)
{
    swi_torch_carrier *c = ctx;
    sw_value id, key, class, fresh;
    const uint8_t *text;
    const char *module, *name;
    size_t size;
    if (!sw_value_persistent(from, v, &id) || !sw_value_item(from, id, 1, &class) ||
        !sw_value_global(from, class, &module, &name) || !sw_value_item(from, id, 2, &key) ||
        !sw_value_bytes(from, key, &text, &size))
        return SW_OK;
    int64_t index = swi_names_find(c->tf->keys, text, size);
    if (index < 0 || (uint64_t)index >= c->tf->storage_count)
        return SW_OK;
    const swi_torch_storage *s = &c->tf->storages[index];
    sw_value *made = &c->made[index];
    sw_status st = SW_OK;
    if (made->bits == 0) {
        if (!can_carry(c, s))
            return SW_OK;
        st = make_id(c, s, module, name, to, &fresh, err);
        if (st == SW_OK)
            st = swi_graph_persistent(to, fresh, made, err);
        c->left_bytes -= s->bytes;
    }
    *replaced = st == SW_OK;
    *out = *made;
    return st;
}

sw_status swi_torch_carry_begin(swi_torch_carrier *carrier, const swi_torch_file *tf,
                                const swi_reader *reader, uint64_t max_bytes, sw_error *err)
{
    swi_torch_carrier c = {.tf = tf, .reader = reader, .left_bytes = max_bytes};
    sw_status st = swi_alloc_array(tf->storage_count, sizeof *c.made, (void **)&c.made, err);
    if (st == SW_OK)
        *carrier = c;
    return st;
}

void swi_torch_carry_end(swi_torch_carrier *carrier)
{
    free(carrier->made);
    *carrier = (swi_torch_carrier){0};
}

/* ---- tensors of a catalog ----------------------------------------------------------------------
 */

/* Stays failed, so that the code reads like the value. */
typedef struct making {
    sw_value_graph *g;
    sw_status st;
    sw_error *err;
} making;

static sw_value text(making *m, const char *s)
{
    sw_value v = swi_value_none();
    if (m->st == SW_OK)
        m->st = swi_graph_text(m->g, SW_VALUE_STR, s, strlen(s), &v, m->err);
    return v;
}

static sw_value global(making *m, const char *module, const char *name)
{
    sw_value v = swi_value_none();
    if (m->st == SW_OK)
        m->st = swi_graph_global(m->g, module, name, &v, m->err);
    return v;
}

static sw_value integer(making *m, int64_t n)
{
    sw_value v = swi_value_none();
    if (m->st == SW_OK)
        m->st = swi_graph_int(m->g, n, &v, m->err);
    return v;
}

static sw_value tuple(making *m, const sw_value *items, size_t count)
{
    sw_value v = swi_value_none();
    if (m->st == SW_OK)
        m->st = swi_graph_sequence(m->g, SW_VALUE_TUPLE, items, count, &v, m->err);
    return v;
}

static sw_value ints(making *m, uint32_t count, const int64_t *numbers)
{
    sw_value items[SW_MAX_AXES];
    for (uint32_t k = 0; k < count; k++)
        items[k] = integer(m, numbers[k]);
    return tuple(m, items, count);
}

static sw_value call(making *m, const sw_value_object *object)
{
    sw_value v = swi_value_none();
    if (m->st == SW_OK)
        m->st = swi_graph_object(m->g, object, &v, m->err);
    return v;
}

/* TF-5, with the bytes as its sixth part. */
static sw_value dense_storage(making *m, const swi_torch_dense *t, uint64_t elements)
{
    const char *class = swi_torch_class_of(t->dtype);
    const uint64_t bytes = elements * sw_dtype_bytes(t->dtype);
    sw_value id, v = swi_value_none(), data = swi_value_none();
    if (m->st == SW_OK)
        m->st = swi_graph_text(m->g, SW_VALUE_BYTES, t->data, (size_t)bytes, &data, m->err);
    const sw_value parts[ID_PARTS] = {text(m, "storage"),
                                      class != NULL ? global(m, "torch", class)
                                                    : global(m, "torch.storage", "UntypedStorage"),
                                      text(m, ""),
                                      text(m, "cpu"),
                                      integer(m, (int64_t)(class != NULL ? elements : bytes)),
                                      data};
    id = tuple(m, parts, ID_PARTS);
    if (m->st == SW_OK)
        m->st = swi_graph_persistent(m->g, id, &v, m->err);
    return v;
}

static sw_value no_hooks(making *m)
{
    sw_value_object hooks = {.callable = global(m, "collections", "OrderedDict"),
                             .args = tuple(m, NULL, 0),
                             .has_items = true};
    if (m->st == SW_OK)
        m->st = swi_graph_dict(m->g, &hooks.items, m->err);
    return call(m, &hooks);
}

sw_status swi_torch_carry_dense(sw_value_graph *graph, const swi_torch_dense *t, sw_value *out,
                                sw_error *err)
{
    making m = {.g = graph, .err = err};
    const char *dtype = swi_torch_dtype_name(t->dtype);
    const bool typed = swi_torch_class_of(t->dtype) != NULL;
    int64_t stride[SW_MAX_AXES], run = 1;
    uint64_t elements;
    if (dtype == NULL)
        return swi_fail(err, SW_ERR_UNSUPPORTED, "torch does not have %s", sw_dtype_name(t->dtype));
    if (!swi_shape_elements(t->axes, t->shape, &elements) || elements > SWI_TORCH_CARRIED_MAX)
        return swi_fail(err, SW_ERR_LIMIT, "a tensor is too large for a part of a value");
    for (uint32_t k = t->axes; k-- > 0; run *= t->shape[k] > 0 ? t->shape[k] : 1)
        stride[k] = run;
    const sw_value args[] = {dense_storage(&m, t, elements),
                             integer(&m, 0),
                             ints(&m, t->axes, t->shape),
                             ints(&m, t->axes, stride),
                             swi_value_of_bool(false),
                             no_hooks(&m),
                             typed ? swi_value_none() : global(&m, "torch", dtype)};
    const sw_value_object object = {
        .callable = global(&m, "torch._utils", typed ? "_rebuild_tensor_v2" : "_rebuild_tensor_v3"),
        .args = tuple(&m, args, typed ? 6 : 7)};
    sw_value v = call(&m, &object);
    if (m.st == SW_OK)
        *out = v;
    return m.st;
}

/* ---- what is carried ---------------------------------------------------------------------------
 */

bool swi_torch_carried_storage(const sw_value_graph *graph, sw_value v, swi_torch_carried *out)
{
    sw_value id, class, count, bytes;
    swi_torch_carried c = {0};
    size_t size;
    int64_t elements;
    if (!sw_value_persistent(graph, v, &id) || sw_value_size(graph, id) != ID_PARTS ||
        !sw_value_item(graph, id, 5, &bytes) || sw_value_get_kind(graph, bytes) != SW_VALUE_BYTES ||
        !sw_value_bytes(graph, bytes, &c.data, &size) || !sw_value_item(graph, id, 1, &class) ||
        !sw_value_global(graph, class, &c.module, &c.name) ||
        !sw_value_item(graph, id, 4, &count) || !sw_value_int(graph, count, &elements) ||
        elements < 0)
        return false;
    const swi_torch_class *typed = swi_torch_find_class(c.name);
    c.untyped = typed == NULL;
    c.is.dtype = typed != NULL && typed->dtype != SW_DTYPE_NONE ? typed->dtype : SW_U8;
    c.is.elements = (uint64_t)elements;
    if (size % (size_t)sw_dtype_bytes(c.is.dtype) != 0 ||
        size / sw_dtype_bytes(c.is.dtype) != c.is.elements)
        return false;
    *out = c;
    return true;
}
