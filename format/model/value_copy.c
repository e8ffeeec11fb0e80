/*
 * A deep copy. Containers are made empty when they are met and filled later, from a list of what is
 * to be filled: no recursion, cycles need no care, and a tuple of our own can be filled although
 * Python's cannot. Dicts are filled last, when the tuples among their keys are whole.
 */
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "model/value_node.h"
#include "model/value_table.h"

typedef struct pair {
    sw_value from, to;
} pair;

typedef struct pairs {
    pair *items;
    size_t count, capacity;
} pairs;

typedef struct copier {
    sw_value_graph *to;
    const sw_value_graph *from;
    swi_graph_map_fn map;
    void *map_ctx;
    swi_value_table met;
    pairs open;  /* to be filled */
    pairs dicts; /* to be filled when all else is */
    sw_error *err;
} copier;

static sw_status add(pairs *list, sw_value from, sw_value to, sw_error *err)
{
    sw_status status = swi_grow_array((void **)&list->items, &list->capacity, list->count + 1,
                                      sizeof *list->items, err);
    if (status == SW_OK)
        list->items[list->count++] = (pair){from, to};
    return status;
}

/* ---- one node ------------------------------------------------------------------------------- */

static bool is_leaf(sw_value v)
{
    const uint64_t nodes = (uint64_t)1 << SWI_TAG_LIST | (uint64_t)1 << SWI_TAG_TUPLE |
                           (uint64_t)1 << SWI_TAG_DICT | (uint64_t)1 << SWI_TAG_SET |
                           (uint64_t)1 << SWI_TAG_FROZENSET | (uint64_t)1 << SWI_TAG_OBJECT |
                           (uint64_t)1 << SWI_TAG_PERSISTENT;
    unsigned tag = swi_value_tag(v);
    return tag >= SWI_TAG_COUNT || (nodes >> tag & 1) == 0;
}

static sw_status copy_text(copier *c, sw_value v, sw_value *out)
{
    const uint8_t *data = NULL;
    size_t size = 0;
    (void)sw_value_bytes(c->from, v, &data, &size);
    switch (swi_value_tag(v)) {
    case SWI_TAG_BIGINT:
        return swi_graph_bigint(c->to, data, size, out, c->err);
    case SWI_TAG_BYTES:
        if (sw_value_is_bytearray(c->from, v))
            return swi_graph_bytearray(c->to, data, size, out, c->err);
        return swi_graph_text(c->to, SW_VALUE_BYTES, data, size, out, c->err);
    default:
        return swi_graph_text(c->to, SW_VALUE_STR, data, size, out, c->err);
    }
}

static sw_status copy_leaf(copier *c, sw_value v, sw_value *out)
{
    int64_t whole;
    double re, im;
    const char *module, *name;
    if (sw_value_int(c->from, v, &whole))
        return swi_graph_int(c->to, whole, out, c->err);
    if (sw_value_float(c->from, v, &re))
        return swi_graph_float(c->to, re, out, c->err);
    if (sw_value_complex(c->from, v, &re, &im))
        return swi_graph_complex(c->to, re, im, out, c->err);
    if (sw_value_global(c->from, v, &module, &name))
        return swi_graph_global(c->to, module, name, out, c->err);
    unsigned tag = swi_value_tag(v);
    if (tag == SWI_TAG_STR || tag == SWI_TAG_BYTES || tag == SWI_TAG_BIGINT)
        return copy_text(c, v, out);
    *out = v; /* none, bool, record, tensor, the empty tuple */
    return SW_OK;
}

static sw_status make_fixed(copier *c, sw_value v, sw_value *out)
{
    size_t count = sw_value_size(c->from, v);
    uint64_t index;
    sw_status status = swi_node_make(c->to, 1 + count, 1 + (uint64_t)count, &index, c->err);
    if (status != SW_OK)
        return status;
    uint64_t *node = swi_words(c->to, index);
    memset(node, 0, (1 + count) * sizeof *node);
    node[0] = count;
    *out = swi_value_of(swi_value_tag(v), index);
    return SW_OK;
}

static sw_status make_empty(copier *c, sw_value v, sw_value *out)
{
    static const sw_value_object nothing = {.args = {SWI_TAG_TUPLE}};
    switch (swi_value_tag(v)) {
    case SWI_TAG_LIST:
        return swi_graph_sequence(c->to, SW_VALUE_LIST, NULL, 0, out, c->err);
    case SWI_TAG_SET:
        return swi_graph_sequence(c->to, SW_VALUE_SET, NULL, 0, out, c->err);
    case SWI_TAG_DICT:
        return swi_graph_dict(c->to, out, c->err);
    case SWI_TAG_OBJECT:
        return swi_graph_object(c->to, &nothing, out, c->err);
    case SWI_TAG_PERSISTENT:
        return swi_graph_persistent(c->to, swi_value_none(), out, c->err);
    default:
        return make_fixed(c, v, out);
    }
}

/* Text that is long enough to matter is copied once, as nodes are. */
static bool is_shared_leaf(sw_value v)
{
    unsigned tag = swi_value_tag(v);
    return tag == SWI_TAG_STR || tag == SWI_TAG_BYTES || tag == SWI_TAG_BIGINT;
}

/* Whether the caller gives something else for it; numbers and text are not asked for. */
static sw_status replace(copier *c, sw_value v, bool *replaced, sw_value *out)
{
    *replaced = false;
    unsigned tag = swi_value_tag(v);
    if (c->map == NULL || (is_leaf(v) && tag != SWI_TAG_RECORD && tag != SWI_TAG_TENSOR))
        return SW_OK;
    return c->map(c->map_ctx, c->from, v, c->to, replaced, out, c->err);
}

/* The copy of a node, perhaps to be filled later. */
static sw_status visit(copier *c, sw_value v, sw_value *out)
{
    const uint64_t *known = swi_value_table_find(&c->met, v);
    bool replaced, leaf = is_leaf(v) || v.bits == SWI_EMPTY_TUPLE.bits;
    if (known != NULL) {
        out->bits = *known;
        return SW_OK;
    }
    sw_status status = replace(c, v, &replaced, out);
    if (status != SW_OK)
        return status;
    if (leaf && !replaced) {
        status = copy_leaf(c, v, out);
        if (status != SW_OK || !is_shared_leaf(v))
            return status;
    } else if (!replaced) {
        status = make_empty(c, v, out);
        if (status == SW_OK)
            status = add(swi_value_tag(v) == SWI_TAG_DICT ? &c->dicts : &c->open, v, *out, c->err);
    }
    return status != SW_OK ? status : swi_value_table_set(&c->met, v, out->bits, c->err);
}

/* ---- filling --------------------------------------------------------------------------------- */

static sw_status fill_object(copier *c, sw_value from, sw_value to)
{
    sw_value_object object;
    (void)sw_value_get_object(c->from, from, &object);
    sw_status status = visit(c, object.callable, &object.callable);
    if (status == SW_OK)
        status = visit(c, object.args, &object.args);
    if (status == SW_OK && object.has_items)
        status = visit(c, object.items, &object.items);
    if (status == SW_OK && object.has_state)
        status = visit(c, object.state, &object.state);
    return status != SW_OK ? status : swi_graph_object_update(c->to, to, &object, c->err);
}

static sw_status fill(copier *c, sw_value from, sw_value to)
{
    unsigned tag = swi_value_tag(from);
    sw_value item, fresh;
    sw_status status = SW_OK;
    if (tag == SWI_TAG_OBJECT)
        return fill_object(c, from, to);
    if (sw_value_persistent(c->from, from, &item)) {
        status = visit(c, item, &fresh);
        if (status == SW_OK)
            swi_node(c->to, to)[0] = fresh.bits;
        return status;
    }
    bool fixed = tag == SWI_TAG_TUPLE || tag == SWI_TAG_FROZENSET;
    for (size_t i = 0; status == SW_OK && sw_value_item(c->from, from, i, &item); i++) {
        status = visit(c, item, &fresh);
        if (status == SW_OK && fixed)
            swi_node(c->to, to)[1 + i] = fresh.bits;
        else if (status == SW_OK)
            status = swi_graph_append(c->to, to, &fresh, 1, c->err);
    }
    return status;
}

/* Makes the nodes below a dict, so that they are filled before it is. */
static sw_status visit_pairs(copier *c, sw_value from)
{
    sw_value both[2], fresh;
    sw_status status = SW_OK;
    for (size_t i = 0; status == SW_OK && sw_value_pair(c->from, from, i, &both[0], &both[1]);
         i++) {
        for (size_t k = 0; status == SW_OK && k < 2; k++) {
            if (!is_leaf(both[k]))
                status = visit(c, both[k], &fresh);
        }
    }
    return status;
}

static sw_status fill_dict(copier *c, sw_value from, sw_value to)
{
    sw_value both[2];
    sw_status status = SW_OK;
    for (size_t i = 0; status == SW_OK && sw_value_pair(c->from, from, i, &both[0], &both[1]);
         i++) {
        status = visit(c, both[0], &both[0]);
        if (status == SW_OK)
            status = visit(c, both[1], &both[1]);
        if (status == SW_OK)
            status = swi_graph_set_items(c->to, to, both, 1, c->err);
    }
    return status;
}

static sw_status run(copier *c)
{
    size_t seen = 0;
    sw_status status = SW_OK;
    while (status == SW_OK && (c->open.count > 0 || seen < c->dicts.count)) {
        if (c->open.count > 0) {
            pair next = c->open.items[--c->open.count];
            status = fill(c, next.from, next.to);
        } else {
            status = visit_pairs(c, c->dicts.items[seen++].from);
        }
    }
    for (size_t i = 0; status == SW_OK && i < c->dicts.count; i++)
        status = fill_dict(c, c->dicts.items[i].from, c->dicts.items[i].to);
    return status;
}

sw_status swi_graph_copy(sw_value_graph *to, const sw_value_graph *from, sw_value v,
                         swi_graph_map_fn map, void *ctx, sw_value *out, sw_error *err)
{
    copier c = {.to = to, .from = from, .map = map, .map_ctx = ctx, .err = err};
    c.met.graph = from;
    sw_value copy;
    sw_status status = visit(&c, v, &copy);
    if (status == SW_OK)
        status = run(&c);
    if (status == SW_OK)
        *out = copy;
    swi_value_table_free(&c.met);
    free(c.open.items);
    free(c.dicts.items);
    return status;
}

sw_status swi_graph_copy_out(const sw_value_graph *from, sw_value v, const sw_limits *limits,
                             sw_value_graph **graph, sw_value *root, sw_error *err)
{
    sw_value_graph *made = NULL;
    sw_status st = swi_graph_make(limits, &made, err);
    if (st == SW_OK)
        st = swi_graph_copy(made, from, v, NULL, NULL, root, err);
    if (st != SW_OK) {
        sw_value_graph_free(made);
        return st;
    }
    *graph = made;
    return SW_OK;
}
