/* What was saved, from the objects that an open checkpoint keeps. */
#include "base/arena.h"
#include "base/text.h"
#include "model/value.h"
#include "torch/torch.h"

/* Tensors of an object are numbered by the object, those of a state by the catalog. */
static sw_status map(void *ctx, const sw_value_graph *from, sw_value v, sw_value_graph *to,
                     bool *replaced, sw_value *out, sw_error *err)
{
    const swi_torch_object *object = ctx;
    uint32_t number;
    (void)to;
    if (!sw_value_tensor(from, v, &number))
        return SW_OK;
    if (number >= object->tensor_count || object->catalog_of[number] == UINT32_MAX)
        return swi_fail(err, SW_ERR_UNSUPPORTED,
                        "the object holds a tensor where nothing gives it a name of its own");
    *replaced = true;
    *out = swi_value_of_tensor(object->catalog_of[number]);
    return SW_OK;
}

/* Values of later ranks that differ from those of the first. */
static sw_status add_scoped(const sw_checkpoint *checkpoint, const swi_torch_kept *kept,
                            swi_state *state, sw_error *err)
{
    size_t capacity = 0;
    sw_status st = SW_OK;
    for (size_t i = 0; st == SW_OK && i < kept->value_count; i++) {
        const swi_torch_value_at *at = &kept->values[i];
        sw_value_info info;
        swi_state_scoped scoped = {.rank = at->rank};
        if (at->rank < 0 || !sw_catalog_value_at(sw_checkpoint_catalog(checkpoint), i, &info))
            continue;
        scoped.name = info.name;
        st = swi_graph_copy(state->graph, kept->objects[at->object].graph, at->node, NULL, NULL,
                            &scoped.value, err);
        if (st == SW_OK)
            st = swi_grow_array((void **)&state->scoped, &capacity, state->scoped_count + 1,
                                sizeof scoped, err);
        if (st == SW_OK)
            state->scoped[state->scoped_count++] = scoped;
    }
    return st;
}

/* The shards of a model, and the files of ranks, hold parts of one state dict. */
static sw_status join(const swi_torch_kept *kept, swi_state *state, sw_error *err)
{
    sw_status st = swi_graph_dict(state->graph, &state->root, err);
    for (size_t i = 0; st == SW_OK && i < kept->object_count; i++) {
        swi_torch_object *object = &kept->objects[i];
        sw_value copy, dict, pair[2];
        if (object->repeats)
            continue;
        st = swi_graph_copy(state->graph, object->graph, object->root, map, object, &copy, err);
        if (st == SW_OK && !sw_value_as_dict(state->graph, copy, &dict))
            st = swi_fail(err, SW_ERR_UNSUPPORTED, "a shard of a model that holds no dict");
        for (size_t k = 0; st == SW_OK && sw_value_pair(state->graph, dict, k, &pair[0], &pair[1]);
             k++)
            st = swi_graph_set_items(state->graph, state->root, pair, 1, err);
    }
    return st;
}

sw_status swi_torch_state(const sw_checkpoint *checkpoint, swi_state *out, sw_error *err)
{
    const swi_torch_kept *kept = swi_checkpoint_kept(checkpoint);
    swi_state state = {.ordered = true};
    swi_torch_object *first = kept->objects;
    if (kept->unsafe)
        return swi_fail(err, SW_ERR_UNSAFE,
                        "the object names what would run code when it is loaded by Python");
    sw_status st = swi_graph_make(&kept->limits, &state.graph, err);
    if (st == SW_OK && kept->object_count == 1)
        st = swi_graph_copy(state.graph, first->graph, first->root, map, first, &state.root, err);
    else if (st == SW_OK)
        st = join(kept, &state, err);
    if (st == SW_OK)
        st = add_scoped(checkpoint, kept, &state, err);
    if (st == SW_OK)
        *out = state;
    else
        swi_state_free(&state);
    return st;
}

sw_status swi_torch_value(const sw_checkpoint *checkpoint, size_t i, sw_value_graph **graph,
                          sw_value *root, sw_error *err)
{
    const swi_torch_kept *kept = swi_checkpoint_kept(checkpoint);
    sw_value_graph *made = NULL;
    if (i >= kept->value_count)
        return swi_fail(err, SW_ERR_ARG, "value %zu is not in the catalog", i);
    const swi_torch_value_at *at = &kept->values[i];
    sw_status st = swi_graph_make(&kept->limits, &made, err);
    if (st == SW_OK)
        st = swi_graph_copy(made, kept->objects[at->object].graph, at->node, NULL, NULL, root, err);
    if (st != SW_OK) {
        sw_value_graph_free(made);
        return st;
    }
    *graph = made;
    return SW_OK;
}
