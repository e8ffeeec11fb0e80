/* A state dict without some of its leaves. */
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/text.h"
#include "model/value.h"
#include "state/state.h"

/* A container that is visited, and what is left of it. */
typedef struct level {
    sw_value copy;     /* LIST or DICT of what is kept */
    bool list, hole;   /* hole: an element is lost */
    size_t kept, lost; /* leaves, at any depth */
} level;

typedef struct keeping {
    const swi_state *state;
    const swi_state_part *parts;
    size_t count, next;
    level *levels;
    size_t depth, capacity;
    sw_value root;
} keeping;

/* Paths of parts have positions as "#0". */
static bool is_part(const swi_state_part *part, const swi_state_leaf *leaf)
{
    if (part->parts != leaf->parts)
        return false;
    for (size_t i = 0; i < leaf->parts; i++) {
        const char *text = part->path[i];
        if (leaf->is_index[i] && *text++ != '#')
            return false;
        if (strcmp(text, leaf->path[i]) != 0)
            return false;
    }
    return true;
}

static sw_status add(keeping *k, const swi_state_leaf *at, sw_value v, sw_error *err)
{
    const level *top = &k->levels[k->depth - 1];
    const sw_value pair[2] = {at->key, v};
    if (top->list)
        return swi_graph_append(k->state->graph, top->copy, &v, 1, err);
    return swi_graph_set_items(k->state->graph, top->copy, pair, 1, err);
}

static sw_status on_leaf(void *ctx, const swi_state_leaf *leaf, sw_error *err)
{
    keeping *k = ctx;
    bool kept = k->next < k->count && is_part(&k->parts[k->next], leaf);
    k->next += kept;
    if (k->depth == 0) /* what was saved is the leaf */
        return SW_OK;
    level *top = &k->levels[k->depth - 1];
    top->kept += kept;
    top->lost += !kept;
    top->hole = top->hole || !kept;
    return kept ? add(k, leaf, leaf->value, err) : SW_OK;
}

static sw_status on_enter(void *ctx, const swi_state_leaf *at, sw_error *err)
{
    keeping *k = ctx;
    sw_value dict;
    sw_value_graph *g = k->state->graph;
    sw_status st =
        swi_grow_array((void **)&k->levels, &k->capacity, k->depth + 1, sizeof *k->levels, err);
    if (st != SW_OK)
        return st;
    level *l = &k->levels[k->depth];
    *l = (level){.list = !sw_value_as_dict(g, at->value, &dict)};
    st = l->list ? swi_graph_sequence(g, SW_VALUE_LIST, NULL, 0, &l->copy, err)
                 : swi_graph_dict(g, &l->copy, err);
    k->depth += st == SW_OK;
    return st;
}

/* The container with what is kept of it: a mapping of its own class again. */
static sw_status rebuild(const keeping *k, const level *l, sw_value v, sw_value *out, sw_error *err)
{
    sw_value_object object;
    *out = l->copy;
    if (!sw_value_get_object(k->state->graph, v, &object))
        return SW_OK;
    object.items = l->copy;
    return swi_graph_object(k->state->graph, &object, out, err);
}

static sw_status on_leave(void *ctx, const swi_state_leaf *at, sw_error *err)
{
    keeping *k = ctx;
    const level l = k->levels[--k->depth];
    level *above = k->depth > 0 ? &k->levels[k->depth - 1] : NULL;
    sw_value v = at->value;
    sw_status st = SW_OK;
    swi_quoted q;
    if (above != NULL) {
        above->kept += l.kept;
        above->lost += l.lost;
    }
    if (l.kept == 0 && l.lost > 0 && above != NULL) {
        above->hole = true;
        return SW_OK;
    }
    if (l.list && l.hole)
        return swi_fail(err, SW_ERR_ARG,
                        "the list \"%s\" of the state dict cannot be left without some of its "
                        "elements; leave out all of it, or none",
                        at->parts > 0 ? swi_quote_str(&q, at->path[at->parts - 1]) : "");
    if (l.lost > 0)
        st = rebuild(k, &l, v, &v, err);
    if (st == SW_OK && above != NULL)
        st = add(k, at, v, err);
    k->root = v;
    return st;
}

sw_status swi_state_keep(const swi_state *state, const swi_state_part *kept, size_t count,
                         sw_value *root, sw_error *err)
{
    keeping k = {.state = state, .parts = kept, .count = count, .root = state->root};
    const swi_state_visitor visitor = {
        .leaf = on_leaf, .enter = on_enter, .leave = on_leave, .ctx = &k};
    sw_status st = swi_state_visit(state, &visitor, err);
    if (st == SW_OK && k.next < count)
        st = swi_fail(err, SW_ERR_ARG, "the state dict has no part \"%s\"", kept[k.next].name);
    free(k.levels);
    if (st == SW_OK)
        *root = k.root;
    return st;
}
