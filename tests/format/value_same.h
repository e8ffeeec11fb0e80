/* Whether two graphs are the same: kinds, contents, order, and what is shared with what. */
#ifndef TESTS_VALUE_SAME_H
#define TESTS_VALUE_SAME_H

#include <stdlib.h>
#include <string.h>

#include "model/value_table.h"

typedef struct same_walk {
    const sw_value_graph *g, *h;
    swi_value_table there, back; /* node of g -> node of h, and the other way */
    struct same_pair {
        sw_value a, b;
    } * stack;
    size_t depth, capacity;
} same_walk;

static inline void same_push(same_walk *w, sw_value a, sw_value b)
{
    if (w->depth == w->capacity) {
        w->capacity = w->capacity * 2 + 64;
        w->stack = realloc(w->stack, w->capacity * sizeof *w->stack);
        if (w->stack == NULL)
            abort();
    }
    w->stack[w->depth++] = (struct same_pair){a, b};
}

static inline bool same_scalars(const same_walk *w, sw_value a, sw_value b, sw_value_kind kind)
{
    int64_t whole[2] = {0};
    double re[2] = {0}, im[2] = {0};
    const uint8_t *data[2] = {NULL};
    const char *module[2] = {NULL}, *name[2] = {NULL};
    size_t size[2] = {0};
    if (kind == SW_VALUE_INT)
        return sw_value_int(w->g, a, &whole[0]) && sw_value_int(w->h, b, &whole[1]) &&
               whole[0] == whole[1];
    if (sw_value_float(w->g, a, &re[0]) && sw_value_float(w->h, b, &re[1]))
        return memcmp(&re[0], &re[1], sizeof re[0]) == 0;
    if (sw_value_complex(w->g, a, &re[0], &im[0]) && sw_value_complex(w->h, b, &re[1], &im[1]))
        return memcmp(&re[0], &re[1], 8) == 0 && memcmp(&im[0], &im[1], 8) == 0;
    if (sw_value_bytes(w->g, a, &data[0], &size[0]) && sw_value_bytes(w->h, b, &data[1], &size[1]))
        return size[0] == size[1] && (size[0] == 0 || memcmp(data[0], data[1], size[0]) == 0) &&
               sw_value_is_bytearray(w->g, a) == sw_value_is_bytearray(w->h, b);
    if (sw_value_global(w->g, a, &module[0], &name[0]) &&
        sw_value_global(w->h, b, &module[1], &name[1]))
        return strcmp(module[0], module[1]) == 0 && strcmp(name[0], name[1]) == 0;
    return a.bits == b.bits;
}

static inline bool same_parts(same_walk *w, sw_value a, sw_value b)
{
    sw_value p[2], q[2];
    sw_value_object o = {0}, r = {0};
    if (sw_value_size(w->g, a) != sw_value_size(w->h, b))
        return false;
    for (size_t i = 0; sw_value_item(w->g, a, i, &p[0]) && sw_value_item(w->h, b, i, &q[0]); i++)
        same_push(w, p[0], q[0]);
    for (size_t i = 0;
         sw_value_pair(w->g, a, i, &p[0], &p[1]) && sw_value_pair(w->h, b, i, &q[0], &q[1]); i++) {
        same_push(w, p[0], q[0]);
        same_push(w, p[1], q[1]);
    }
    if (sw_value_persistent(w->g, a, &p[0]) && sw_value_persistent(w->h, b, &q[0]))
        same_push(w, p[0], q[0]);
    if (!sw_value_get_object(w->g, a, &o) || !sw_value_get_object(w->h, b, &r))
        return true;
    same_push(w, o.callable, r.callable);
    same_push(w, o.args, r.args);
    /* A batch of nothing adds nothing: an empty one is as good as none. */
    bool items = o.has_items && sw_value_size(w->g, o.items) > 0;
    bool other = r.has_items && sw_value_size(w->h, r.items) > 0;
    if (items && other)
        same_push(w, o.items, r.items);
    if (o.has_state)
        same_push(w, o.state, r.state);
    return o.is_new == r.is_new && items == other && o.has_state == r.has_state;
}

static inline bool same_nodes(same_walk *w, sw_value a, sw_value b)
{
    sw_error err;
    sw_value_kind kind = sw_value_get_kind(w->g, a);
    if (kind != sw_value_get_kind(w->h, b))
        return false;
    bool array = sw_value_is_bytearray(w->g, a);
    bool node = (kind >= SW_VALUE_LIST && kind <= SW_VALUE_FROZENSET) || kind == SW_VALUE_OBJECT ||
                kind == SW_VALUE_PERSISTENT || array;
    if (node && !(kind == SW_VALUE_TUPLE && sw_value_size(w->g, a) == 0)) {
        const uint64_t *there = swi_value_table_find(&w->there, a);
        const uint64_t *back = swi_value_table_find(&w->back, b);
        if (there != NULL || back != NULL)
            return there != NULL && back != NULL && *there == b.bits && *back == a.bits;
        if (swi_value_table_set(&w->there, a, b.bits, &err) != SW_OK ||
            swi_value_table_set(&w->back, b, a.bits, &err) != SW_OK)
            abort();
    }
    return node && !array ? same_parts(w, a, b) : same_scalars(w, a, b, kind);
}

static inline bool same_values(const sw_value_graph *g, sw_value a, const sw_value_graph *h,
                               sw_value b)
{
    same_walk w = {.g = g, .h = h, .there = {.graph = g}, .back = {.graph = h}};
    bool same = true;
    same_push(&w, a, b);
    while (same && w.depth > 0) {
        struct same_pair next = w.stack[--w.depth];
        same = same_nodes(&w, next.a, next.b);
    }
    swi_value_table_free(&w.there);
    swi_value_table_free(&w.back);
    free(w.stack);
    return same;
}

#endif
