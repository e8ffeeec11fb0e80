/* From the pickled object of a file to one that holds no more than its values. */
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "model/value.h"
#include "torch.h"

typedef struct making {
    const swi_torch_file *tf;
    swi_torch_object *object;
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

static sw_status add_opaque(swi_torch_object *object, const sw_value_graph *from, sw_value v,
                            sw_value_graph *to, const sw_error *cause, sw_value *out, sw_error *err)
{
    swi_torch_opaque found = {.status = cause->status};
    sw_status st = swi_graph_copy(to, from, v, NULL, NULL, &found.node, err);
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

static sw_status add_tensor(swi_torch_object *object, const swi_torch_tensor *t, sw_value *out,
                            sw_error *err)
{
    if (object->tensor_count >= UINT32_MAX)
        return swi_fail(err, SW_ERR_LIMIT, "more tensors than can be numbered");
    sw_status st = swi_grow_array((void **)&object->tensors, &object->tensor_capacity,
                                  object->tensor_count + 1, sizeof *t, err);
    if (st != SW_OK)
        return st;
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
        return SW_OK;
    sw_status st = swi_torch_get_tensor(m->tf, v, &t, &cause);
    if (ours(st)) {
        if (err != NULL)
            *err = cause;
        return st;
    }
    *replaced = true;
    return st == SW_OK ? add_tensor(m->object, &t, out, err)
                       : add_opaque(m->object, from, v, to, &cause, out, err);
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

sw_status swi_torch_object_make(const swi_torch_file *tf, const sw_limits *limits,
                                swi_torch_object *out, sw_error *err)
{
    swi_torch_object object = {0};
    making m = {.tf = tf, .object = &object};
    sw_status st = swi_graph_make(limits, &object.graph, err);
    if (st == SW_OK)
        st = swi_graph_copy(object.graph, swi_torch_graph(tf), swi_torch_root(tf), map, &m,
                            &object.root, err);
    if (st == SW_OK)
        st = swi_alloc_array(object.tensor_count, sizeof *object.catalog_of,
                             (void **)&object.catalog_of, err);
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
    free(object->catalog_of);
    free(object->opaque);
    swi_arena_free(&object->arena);
    *object = (swi_torch_object){0};
}
