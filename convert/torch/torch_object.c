/* From the pickled object of a file to one that holds no more than its values. */
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "model/value.h"
#include "torch/torch.h"

typedef struct making {
    const swi_torch_file *tf;
    bool parts; /* DTensors stand for their local parts */
    swi_torch_object *object;
    swi_torch_carrier carrier;
} making;

/* A call of torch that rebuilds some tensor. */
static bool is_rebuild(const sw_value_graph *g, sw_value v)
{
    sw_value_object o;
    const char *module, *name;
    return sw_value_get_object(g, v, &o) && sw_value_global(g, o.callable, &module, &name) &&
           (strcmp(module, "torch._utils") == 0 || strcmp(module, "torch._tensor") == 0) &&
           strncmp(name, "_rebuild_", strlen("_rebuild_")) == 0;
}

/* Of what an object is BUILT with: a dict, or (attributes, slots). */
static bool attribute_in(const sw_value_graph *g, sw_value state, const char *name, sw_value *out)
{
    sw_value part;
    if (sw_value_get_kind(g, state) == SW_VALUE_DICT)
        return swi_value_get(g, state, name, out);
    for (size_t i = 0; sw_value_item(g, state, i, &part); i++)
        if (swi_value_get(g, part, name, out))
            return true;
    return false;
}

static bool attribute_of(const sw_value_graph *g, sw_value v, const char *name, sw_value *out)
{
    sw_value_object o;
    return sw_value_get_object(g, v, &o) && o.has_state && attribute_in(g, o.state, name, out);
}

/* RF-6: _rebuild_from_type_v2(f, DTensor, arguments, (None, {"_local_tensor": ..., "_spec": ...})),
 * and in newer ones the rank: _spec.mesh._rank. */
static bool local_part(const sw_value_graph *g, sw_value v, sw_value *out, int64_t *rank)
{
    sw_value_object o;
    sw_value type, state, inner;
    const char *module, *name;
    int64_t n;
    if (!sw_value_get_object(g, v, &o) || !sw_value_item(g, o.args, 1, &type) ||
        !sw_value_global(g, type, &module, &name) || strcmp(name, "DTensor") != 0 ||
        strncmp(module, "torch.distributed.", strlen("torch.distributed.")) != 0 ||
        !sw_value_item(g, o.args, 3, &state) || !attribute_in(g, state, "_local_tensor", out))
        return false;
    if (attribute_in(g, state, "_spec", &inner) && attribute_of(g, inner, "mesh", &inner) &&
        attribute_of(g, inner, "_rank", &inner) && sw_value_int(g, inner, &n))
        *rank = n;
    return true;
}

/* A record whose CRC is wrong is a finding of verify, not the end of all. */
static sw_status carry_or_leave(void *ctx, const sw_value_graph *from, sw_value v,
                                sw_value_graph *to, bool *replaced, sw_value *out, sw_error *err)
{
    making *m = ctx;
    sw_error cause = {0};
    sw_status st = swi_torch_carry_map(&m->carrier, from, v, to, replaced, out, &cause);
    if (st == SW_OK || st == SW_ERR_CORRUPT)
        return SW_OK;
    if (err != NULL)
        *err = cause;
    return st;
}

/* TS-6: with its storages' bytes, unless it is broken. */
static sw_status add_opaque(making *m, const sw_value_graph *from, sw_value v, sw_value_graph *to,
                            const sw_error *cause, sw_value *out, sw_error *err)
{
    swi_torch_object *object = m->object;
    swi_torch_opaque found = {.status = cause->status};
    swi_graph_map_fn carry = cause->status == SW_ERR_UNSUPPORTED ? carry_or_leave : NULL;
    sw_status st = swi_graph_copy(to, from, v, carry, m, &found.node, err);
    if (st == SW_OK)
        st = swi_arena_text(&object->arena, cause->text, strlen(cause->text), &found.why, err);
    if (st == SW_OK)
        st = swi_grow_array((void **)&object->opaque, &object->opaque_capacity,
                            object->opaque_count + 1, sizeof found, err);
    if (st != SW_OK)
        return st;
    object->opaque[object->opaque_count++] = found;
    *out = found.node;
    return SW_OK;
}

static sw_status add_tensor(swi_torch_object *object, const swi_torch_tensor *t, bool is_part,
                            sw_value *out, sw_error *err)
{
    if (object->tensor_count >= UINT32_MAX)
        return swi_fail(err, SW_ERR_LIMIT, "more tensors than can be numbered");
    sw_status st = swi_grow_array((void **)&object->tensors, &object->tensor_capacity,
                                  object->tensor_count + 1, sizeof *t, err);
    if (st == SW_OK)
        st = swi_grow_array((void **)&object->is_part, &object->part_capacity,
                            object->tensor_count + 1, sizeof *object->is_part, err);
    if (st != SW_OK)
        return st;
    object->is_part[object->tensor_count] = is_part;
    object->tensors[object->tensor_count] = *t;
    *out = swi_value_of_tensor((uint32_t)object->tensor_count++);
    return SW_OK;
}

static bool ours(sw_status st)
{
    return st == SW_ERR_NOMEM || st == SW_ERR_LIMIT || st == SW_ERR_ARG;
}

static sw_status map(void *ctx, const sw_value_graph *from, sw_value v, sw_value_graph *to,
                     bool *replaced, sw_value *out, sw_error *err)
{
    making *m = ctx;
    swi_torch_tensor t;
    sw_error cause = {0};
    if (!is_rebuild(from, v))
        return carry_or_leave(ctx, from, v, to, replaced, out, err); /* a storage by itself */
    sw_value local = v;
    bool is_part = m->parts && local_part(from, v, &local, &m->object->rank);
    sw_status st = swi_torch_get_tensor(m->tf, local, &t, &cause);
    if (ours(st)) {
        if (err != NULL)
            *err = cause;
        return st;
    }
    *replaced = true;
    return st == SW_OK ? add_tensor(m->object, &t, is_part, out, err)
                       : add_opaque(m, from, v, to, &cause, out, err);
}

static int by_node(const void *a, const void *b)
{
    uint64_t x = ((const swi_torch_opaque *)a)->node.bits;
    uint64_t y = ((const swi_torch_opaque *)b)->node.bits;
    return x < y ? -1 : x > y;
}

const swi_torch_opaque *swi_torch_opaque_at(const swi_torch_object *object, sw_value v)
{
    const swi_torch_opaque key = {.node = v};
    return object->opaque_count == 0
               ? NULL
               : bsearch(&key, object->opaque, object->opaque_count, sizeof key, by_node);
}

sw_status swi_torch_object_make(const swi_torch_file *tf, const swi_reader *reader, bool parts,
                                swi_torch_object *out, sw_error *err)
{
    swi_torch_object object = {.rank = -1};
    making m = {.tf = tf, .parts = parts, .object = &object};
    sw_status st = swi_graph_make(&reader->limits, &object.graph, err);
    if (st == SW_OK)
        st = swi_torch_carry_begin(&m.carrier, tf, reader, SWI_TORCH_CARRIED_MAX, err);
    if (st == SW_OK)
        st = swi_graph_copy(object.graph, swi_torch_graph(tf), swi_torch_root(tf), map, &m,
                            &object.root, err);
    if (st == SW_OK)
        st = swi_alloc_array(object.tensor_count, sizeof *object.catalog_of,
                             (void **)&object.catalog_of, err);
    swi_torch_carry_end(&m.carrier);
    if (st != SW_OK) {
        swi_torch_object_free(&object);
        return st;
    }
    memset(object.catalog_of, 0xff, object.tensor_count * sizeof *object.catalog_of);
    if (object.opaque_count > 1)
        qsort(object.opaque, object.opaque_count, sizeof *object.opaque, by_node);
    *out = object;
    return SW_OK;
}

void swi_torch_object_free(swi_torch_object *object)
{
    sw_value_graph_free(object->graph);
    free(object->tensors);
    free(object->is_part);
    free(object->catalog_of);
    free(object->opaque);
    swi_arena_free(&object->arena);
    *object = (swi_torch_object){0};
}
