/* What was saved, from the objects that an open checkpoint keeps. */
#include <stdlib.h>

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
    if (number >= object->tensor_count || object->catalog_of[number] >= SWI_TORCH_LEFT_OUT)
        return swi_fail(err, SW_ERR_UNSUPPORTED,
                        "the object holds a tensor where nothing gives it a name of its own");
    *replaced = true;
    *out = swi_value_of_tensor(object->catalog_of[number]);
    return SW_OK;
}

static sw_status add_one(swi_state *state, size_t *capacity, const swi_state_scoped *scoped,
                         sw_error *err)
{
    sw_status st = swi_grow_array((void **)&state->scoped, capacity, state->scoped_count + 1,
                                  sizeof *scoped, err);
    if (st == SW_OK)
        state->scoped[state->scoped_count++] = *scoped;
    return st;
}

/* Values of later ranks that differ from those of the first, and tensors that are theirs alone. */
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
            st = add_one(state, &capacity, &scoped, err);
    }
    for (size_t i = 0; st == SW_OK && i < kept->own_count; i++) {
        const swi_torch_own *own = &kept->own[i];
        const swi_state_scoped scoped = {
            .rank = own->rank, .name = own->name, .value = swi_value_of_tensor(own->tensor)};
        st = add_one(state, &capacity, &scoped, err);
    }
    return st;
}

/* ---- one of several ------------------------------------------------------------------------- */

/* Two dicts, of which the second's pairs go into the first. */
typedef struct dicts {
    sw_value into, from;
} dicts;

typedef struct joining {
    swi_torch_object *object;
    sw_value_graph *to;
    dicts *stack;
    size_t depth, capacity;
    uint64_t steps_left;
} joining;

static sw_status push(joining *j, sw_value into, sw_value from, sw_error *err)
{
    sw_status st =
        swi_grow_array((void **)&j->stack, &j->capacity, j->depth + 1, sizeof *j->stack, err);
    if (st == SW_OK)
        j->stack[j->depth++] = (dicts){into, from};
    return st;
}

/* What is there already stays; of dicts that both have, what only the second has is added. */
static sw_status join_pair(joining *j, sw_value into, sw_value key, sw_value v, sw_error *err)
{
    const sw_value_graph *g = j->object->graph;
    sw_value pair[2], known, a, b;
    sw_status st = swi_graph_copy(j->to, g, key, map, j->object, &pair[0], err);
    if (st != SW_OK)
        return st;
    if (swi_dict_find(j->to, into, pair[0], &known))
        return sw_value_as_dict(j->to, known, &a) && sw_value_as_dict(g, v, &b) ? push(j, a, b, err)
                                                                                : SW_OK;
    st = swi_graph_copy(j->to, g, v, map, j->object, &pair[1], err);
    return st == SW_OK ? swi_graph_set_items(j->to, into, pair, 1, err) : st;
}

static sw_status join_dicts(joining *j, sw_error *err)
{
    sw_status st = SW_OK;
    while (st == SW_OK && j->depth > 0) {
        dicts d = j->stack[--j->depth];
        sw_value key, v;
        for (size_t i = 0; st == SW_OK && sw_value_pair(j->object->graph, d.from, i, &key, &v);
             i++) {
            st = join_pair(j, d.into, key, v, err);
            if (st == SW_OK && j->steps_left-- == 0)
                st =
                    swi_fail(err, SW_ERR_LIMIT,
                             "its dicts hold each other more often than those of any genuine file");
        }
    }
    return st;
}

/* The shards of a model, and the files of ranks, hold parts of one state dict. */
static sw_status join(swi_torch_object *object, swi_state *state, sw_error *err)
{
    joining j = {
        .object = object, .to = state->graph, .steps_left = swi_graph_unfold_limit(object->graph)};
    sw_value into, from;
    if (!sw_value_as_dict(state->graph, state->root, &into) ||
        !sw_value_as_dict(object->graph, object->root, &from))
        return swi_fail(err, SW_ERR_UNSUPPORTED,
                        "a shard of a model, or a file of a rank, that holds no dict");
    sw_status st = push(&j, into, from, err);
    if (st == SW_OK)
        st = join_dicts(&j, err);
    free(j.stack);
    return st;
}

/* The first object as it is, and what others have beside it. */
static sw_status join_all(const swi_torch_kept *kept, swi_state *state, sw_error *err)
{
    bool first = true;
    sw_status st = SW_OK;
    for (size_t i = 0; st == SW_OK && i < kept->object_count; i++) {
        swi_torch_object *o = &kept->objects[i];
        if (o->repeats)
            continue;
        st = first ? swi_graph_copy(state->graph, o->graph, o->root, map, o, &state->root, err)
                   : join(o, state, err);
        first = false;
    }
    return st == SW_OK && first ? swi_graph_dict(state->graph, &state->root, err) : st;
}

sw_status swi_torch_state(const sw_checkpoint *checkpoint, swi_state *out, sw_error *err)
{
    const swi_torch_kept *kept = swi_checkpoint_kept(checkpoint);
    swi_state state = {.ordered = true};
    if (kept->unsafe)
        return swi_fail(err, SW_ERR_UNSAFE,
                        "the object names what would run code when it is loaded by Python");
    sw_status st = swi_graph_make(&kept->limits, &state.graph, err);
    if (st == SW_OK)
        st = join_all(kept, &state, err);
    if (st == SW_OK)
        st = swi_torch_own_states(sw_checkpoint_catalog(checkpoint), &state, err);
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
    if (i >= kept->value_count)
        return swi_fail(err, SW_ERR_ARG, "value %zu is not in the catalog", i);
    const swi_torch_value_at *at = &kept->values[i];
    return swi_graph_copy_out(kept->objects[at->object].graph, at->node, &kept->limits, graph, root,
                              err);
}
