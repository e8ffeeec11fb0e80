/* From the pickled object of a file to one that holds no more than its values. */
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "model/value.h"
#include "torch/share_read.h"
#include "torch/torch.h"

#define NO_SHARE UINT32_MAX

typedef struct making {
    const swi_torch_file *tf;
    bool parts; /* DTensors and ShardedTensors stand for what the rank has of them */
    swi_torch_object *object;
    swi_torch_carrier carrier;
    swi_mesh_reader meshes;
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

static sw_status add_share(swi_torch_object *object, const swi_share *share, uint32_t *number,
                           sw_error *err)
{
    *number = NO_SHARE;
    if (share == NULL)
        return SW_OK;
    sw_status st = swi_grow_array((void **)&object->shares, &object->share_capacity,
                                  object->share_count + 1, sizeof *share, err);
    if (st != SW_OK)
        return st;
    *number = (uint32_t)object->share_count;
    object->shares[object->share_count++] = *share;
    if (object->rank < 0)
        object->rank = share->rank;
    return SW_OK;
}

static sw_status add_tensor(swi_torch_object *object, const swi_torch_tensor *t,
                            const swi_share *share, sw_value *out, sw_error *err)
{
    uint32_t number;
    if (object->tensor_count >= UINT32_MAX)
        return swi_fail(err, SW_ERR_LIMIT, "more tensors than can be numbered");
    sw_status st = swi_grow_array((void **)&object->tensors, &object->tensor_capacity,
                                  object->tensor_count + 1, sizeof *t, err);
    if (st == SW_OK)
        st = swi_grow_array((void **)&object->share_of, &object->share_of_capacity,
                            object->tensor_count + 1, sizeof *object->share_of, err);
    if (st == SW_OK)
        st = add_share(object, share, &number, err);
    if (st != SW_OK)
        return st;
    object->share_of[object->tensor_count] = number;
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
    swi_share_call call;
    swi_share share;
    sw_error cause = {0};
    sw_status st;
    const bool is_share = m->parts && swi_share_find(from, v, &call);
    if (is_share)
        st = swi_share_read(&m->meshes, &call, &share, &t, &cause);
    else if (is_rebuild(from, v))
        st = swi_torch_get_tensor(m->tf, v, &t, &cause);
    else
        return carry_or_leave(ctx, from, v, to, replaced, out, err); /* a storage by itself */
    if (ours(st)) {
        if (err != NULL)
            *err = cause;
        return st;
    }
    *replaced = true;
    return st == SW_OK ? add_tensor(m->object, &t, is_share ? &share : NULL, out, err)
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
    if (st == SW_OK && parts)
        st = swi_mesh_reader_begin(&m.meshes, tf, reader, &object.meshes, &object.arena, err);
    if (st == SW_OK)
        st = swi_graph_copy(object.graph, swi_torch_graph(tf), swi_torch_root(tf), map, &m,
                            &object.root, err);
    if (st == SW_OK)
        st = swi_alloc_array(object.tensor_count, sizeof *object.catalog_of,
                             (void **)&object.catalog_of, err);
    swi_torch_carry_end(&m.carrier);
    swi_mesh_reader_end(&m.meshes);
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

const swi_share *swi_torch_share_of(const swi_torch_object *object, uint32_t tensor)
{
    uint32_t share = object->share_of[tensor];
    return share != NO_SHARE ? &object->shares[share] : NULL;
}

void swi_torch_object_forget(swi_torch_object *object)
{
    free(object->tensors);
    free(object->share_of);
    free(object->shares);
    swi_meshes_free(&object->meshes);
    object->tensors = NULL;
    object->share_of = NULL;
    object->shares = NULL;
}

void swi_torch_object_free(swi_torch_object *object)
{
    sw_value_graph_free(object->graph);
    swi_torch_object_forget(object);
    free(object->catalog_of);
    free(object->opaque);
    swi_arena_free(&object->arena);
    *object = (swi_torch_object){0};
}

/* ---- what was left out ---------------------------------------------------------------------- */

static bool is_left_out(const swi_torch_object *object, sw_value v)
{
    uint32_t number;
    return sw_value_tensor(object->graph, v, &number) && number < object->tensor_count &&
           object->catalog_of[number] == SWI_TORCH_LEFT_OUT;
}

/* The dict without them; where it lies does not change. */
static sw_status prune_dict(swi_torch_object *object, sw_value dict, sw_error *err)
{
    sw_value_graph *g = object->graph;
    sw_value pair[2], fresh;
    bool any = false;
    for (size_t i = 0; !any && sw_value_pair(g, dict, i, &pair[0], &pair[1]); i++)
        any = is_left_out(object, pair[1]);
    if (!any)
        return SW_OK;
    sw_status st = swi_graph_dict(g, &fresh, err);
    for (size_t i = 0; st == SW_OK && sw_value_pair(g, dict, i, &pair[0], &pair[1]); i++)
        if (!is_left_out(object, pair[1]))
            st = swi_graph_set_items(g, fresh, pair, 1, err);
    if (st == SW_OK)
        swi_graph_dict_swap(g, dict, fresh);
    return st;
}

sw_status swi_torch_prune(swi_torch_object *object, sw_error *err)
{
    const sw_value_graph *g = object->graph;
    uint64_t steps = swi_graph_unfold_limit(g);
    sw_value *stack = NULL, dict, key, v;
    size_t depth = 0, capacity = 0;
    sw_status st = SW_OK;
    v = object->root;
    for (;;) {
        if (sw_value_as_dict(g, v, &dict)) {
            st = prune_dict(object, dict, err);
            for (size_t i = 0; st == SW_OK && sw_value_pair(g, dict, i, &key, &v); i++) {
                sw_value inner;
                if (!sw_value_as_dict(g, v, &inner))
                    continue;
                st = swi_grow_array((void **)&stack, &capacity, depth + 1, sizeof *stack, err);
                if (st == SW_OK)
                    stack[depth++] = v;
            }
        }
        if (st != SW_OK || depth == 0 || steps-- == 0)
            break;
        v = stack[--depth];
    }
    free(stack);
    return st;
}
