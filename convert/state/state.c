#include "state/state.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/text.h"
#include "codec/pickle.h"
#include "flat/unflatten.h"
#include "model/value_table.h"

static sw_status pickled(const sw_value_graph *g, sw_value v, swi_buf *out, sw_error *err)
{
    swi_pickle_writer w;
    sw_status st = swi_pickle_begin(&w, out, 4, err);
    return st == SW_OK ? swi_pickle_emit(&w, g, v, NULL, NULL, err) : st;
}

sw_status swi_value_same(const sw_value_graph *g, sw_value v, const sw_value_graph *h, sw_value w,
                         bool *out, sw_error *err)
{
    swi_buf p = {0}, q = {0};
    sw_error cause = {0};
    sw_status st = pickled(g, v, &p, &cause);
    if (st == SW_OK)
        st = pickled(h, w, &q, &cause);
    *out = st == SW_OK && p.size == q.size && memcmp(p.data, q.data, p.size) == 0;
    swi_buf_free(&p);
    swi_buf_free(&q);
    return st == SW_ERR_NOMEM ? swi_fail_nomem(err) : SW_OK;
}

void swi_state_free(swi_state *state)
{
    sw_value_graph_free(state->graph);
    free(state->scoped);
    swi_names_free(state->parameters);
    *state = (swi_state){0};
}

sw_status swi_state_of_names(const sw_checkpoint *checkpoint, swi_state *state, sw_error *err)
{
    const sw_catalog *catalog = sw_checkpoint_catalog(checkpoint);
    sw_status st = swi_graph_dict(state->graph, &state->root, err);
    sw_tensor_info info;
    for (size_t i = 0; st == SW_OK && sw_catalog_tensor(catalog, i, &info); i++) {
        sw_value pair[2] = {{0}, swi_value_of_tensor((uint32_t)i)};
        st =
            swi_graph_text(state->graph, SW_VALUE_STR, info.name, strlen(info.name), &pair[0], err);
        if (st == SW_OK)
            st = swi_graph_set_items(state->graph, state->root, pair, 1, err);
    }
    return st;
}

sw_status swi_checkpoint_state(const sw_checkpoint *checkpoint, swi_state *out, sw_error *err)
{
    const swi_framework *framework = swi_checkpoint_framework(checkpoint);
    if (swi_checkpoint_unflat(checkpoint) != NULL)
        return swi_unflat_state(swi_checkpoint_unflat(checkpoint), out, err);
    if (framework->state != NULL)
        return framework->state(checkpoint, out, err);
    swi_state state = {0};
    const sw_limits limits = swi_checkpoint_limits(checkpoint);
    sw_status st = swi_graph_make(&limits, &state.graph, err);
    if (st == SW_OK)
        st = swi_state_of_names(checkpoint, &state, err);
    if (st == SW_OK)
        *out = state;
    else
        swi_state_free(&state);
    return st;
}

/* ---- finding ------------------------------------------------------------------------------- */

/* A list's element by "#0". */
static bool element_of(const sw_value_graph *g, sw_value list, const char *part, sw_value *out)
{
    char *end;
    if (part[0] != '#' || part[1] < '0' || part[1] > '9')
        return false;
    unsigned long long i = strtoull(part + 1, &end, 10);
    return *end == '\0' && i < SIZE_MAX && sw_value_item(g, list, (size_t)i, out);
}

bool swi_state_find(const swi_state *state, const char *const *path, size_t parts, sw_value *out)
{
    sw_value at = state->root;
    for (size_t i = 0; i < parts; i++) {
        sw_value_kind kind = sw_value_get_kind(state->graph, at);
        bool list = kind == SW_VALUE_LIST || kind == SW_VALUE_TUPLE;
        if (list ? !element_of(state->graph, at, path[i], &at)
                 : !swi_value_get(state->graph, at, path[i], &at))
            return false;
    }
    *out = at;
    return true;
}

/* ---- walking ------------------------------------------------------------------------------- */

typedef struct level {
    sw_value node, items; /* items: the LIST, or the DICT of a mapping */
    size_t next;
    sw_value key;  /* of the element that is visited, in a dict */
    char *text;    /* of the key, when the graph has no such text; owned */
    char room[24]; /* the same, for numbers */
    bool in_room;
} level;

/* What is known of a list: see terminal(). */
enum { LIST_OPEN = 1, LIST_TERMINAL, LIST_DESCENDED };

typedef struct walk {
    const swi_state *state;
    const sw_value_graph *g;
    const swi_state_visitor *visitor;
    level *levels;
    size_t depth, capacity;
    const char **path;
    size_t path_capacity;
    bool *is_index;
    size_t index_capacity;
    swi_value_table open; /* containers on the way here */
    swi_value_table lists;
    struct list_step {
        sw_value list;
        size_t next;
    } * stack; /* of terminal() */
    size_t stack_capacity;
    uint64_t steps, limit;
    sw_error *err;
} walk;

static sw_status count_step(walk *w)
{
    if (w->steps++ < w->limit)
        return SW_OK;
    return swi_fail(w->err, SW_ERR_LIMIT,
                    "state dict: more than %" PRIu64 " places, what is shared counted each time; "
                    "no genuine one shares so much",
                    w->limit);
}

/* Marks the list and those that hold it. */
static sw_status mark_lists(walk *w, size_t depth, uint64_t mark)
{
    sw_status st = SW_OK;
    for (size_t i = 0; st == SW_OK && i < depth; i++)
        st = swi_value_table_set(&w->lists, w->stack[i].list, mark, w->err);
    return st;
}

static sw_status open_list(walk *w, size_t *depth, sw_value list)
{
    sw_status st = swi_grow_array((void **)&w->stack, &w->stack_capacity, *depth + 1,
                                  sizeof *w->stack, w->err);
    if (st == SW_OK)
        st = swi_value_table_set(&w->lists, list, LIST_OPEN, w->err);
    if (st == SW_OK)
        w->stack[(*depth)++] = (struct list_step){.list = list};
    return st;
}

/*
 * Whether torch (2.4 and later) takes the list as one leaf: it holds no tensor, no mapping and no
 * list that is descended, directly.
 */
static sw_status terminal(walk *w, sw_value list, bool *out)
{
    size_t depth = 0;
    sw_value item, dict;
    const uint64_t *known = swi_value_table_find(&w->lists, list);
    sw_status st = known == NULL ? open_list(w, &depth, list) : SW_OK;
    while (st == SW_OK && depth > 0) {
        struct list_step *top = &w->stack[depth - 1];
        if (!sw_value_item(w->g, top->list, top->next++, &item)) {
            st = swi_value_table_set(&w->lists, top->list, LIST_TERMINAL, w->err);
            depth--;
            continue;
        }
        sw_value_kind kind = sw_value_get_kind(w->g, item);
        known = kind == SW_VALUE_LIST ? swi_value_table_find(&w->lists, item) : NULL;
        if (kind == SW_VALUE_TENSOR || sw_value_as_dict(w->g, item, &dict) ||
            (known != NULL && *known == LIST_DESCENDED)) {
            st = mark_lists(w, depth, LIST_DESCENDED);
            depth = 0;
        } else if (kind == SW_VALUE_LIST && known == NULL) {
            st = open_list(w, &depth, item);
        }
    }
    if (st != SW_OK)
        return st;
    known = swi_value_table_find(&w->lists, list);
    *out = known == NULL || *known != LIST_DESCENDED;
    return SW_OK;
}

static sw_status is_leaf(walk *w, sw_value v, sw_value *items, bool *out)
{
    *out = false;
    if (sw_value_as_dict(w->g, v, items))
        return SW_OK;
    *items = v;
    *out = true;
    return sw_value_get_kind(w->g, v) == SW_VALUE_LIST ? terminal(w, v, out) : SW_OK;
}

/* Numbers are in the levels, which move when they grow. */
static void point_at_rooms(walk *w)
{
    for (size_t i = 0; i < w->depth; i++) {
        if (w->levels[i].in_room)
            w->path[i] = w->levels[i].room;
    }
}

static sw_status say(walk *w, swi_state_leaf_fn fn, sw_value v)
{
    if (fn == NULL)
        return SW_OK;
    swi_state_leaf leaf = {.path = w->path, .is_index = w->is_index, .parts = w->depth, .value = v};
    if (w->depth > 0)
        leaf.key = w->levels[w->depth - 1].key;
    leaf.is_tensor = sw_value_tensor(w->g, v, &leaf.tensor);
    return fn(w->visitor->ctx, &leaf, w->err);
}

static sw_status enter(walk *w, sw_value v, sw_value items)
{
    size_t capacity = w->capacity;
    uint64_t *open = swi_value_table_find(&w->open, v);
    if (open != NULL && *open != 0)
        return swi_fail(w->err, SW_ERR_UNSUPPORTED, "state dict: a container holds itself");
    sw_status st = say(w, w->visitor->enter, v);
    if (st == SW_OK)
        st = swi_value_table_set(&w->open, v, 1, w->err);
    if (st == SW_OK)
        st = swi_grow_array((void **)&w->levels, &w->capacity, w->depth + 1, sizeof *w->levels,
                            w->err);
    if (st == SW_OK)
        st = swi_grow_array((void **)&w->path, &w->path_capacity, w->depth + 1, sizeof *w->path,
                            w->err);
    if (st == SW_OK)
        st = swi_grow_array((void **)&w->is_index, &w->index_capacity, w->depth + 1,
                            sizeof *w->is_index, w->err);
    if (w->capacity != capacity)
        point_at_rooms(w);
    if (st == SW_OK)
        w->levels[w->depth++] = (level){.node = v, .items = items};
    return st;
}

static sw_status leave(walk *w)
{
    level *l = &w->levels[--w->depth];
    free(l->text);
    sw_status st = swi_value_table_set(&w->open, l->node, 0, w->err);
    return st == SW_OK ? say(w, w->visitor->leave, l->node) : st;
}

/* 1 and "1" in one dict would be one place. */
static sw_status refuse_twin(const walk *w, const level *l, const char *text)
{
    sw_value ignored;
    if (!swi_value_get(w->g, l->items, text, &ignored))
        return SW_OK;
    swi_quoted q;
    return swi_fail(w->err, SW_ERR_UNSUPPORTED,
                    "state dict: a key \"%s\" is there as text, and as a number or constant",
                    swi_quote_str(&q, text));
}

/* The key as str() of Python gives it. */
static sw_status key_text(walk *w, level *l, sw_value key, const char **out)
{
    const uint8_t *data;
    size_t size;
    int64_t number;
    bool flag;
    sw_value_kind kind = sw_value_get_kind(w->g, key);
    free(l->text);
    l->text = NULL;
    *out = l->room;
    l->in_room = true;
    if (sw_value_int(w->g, key, &number)) {
        (void)snprintf(l->room, sizeof l->room, "%" PRId64, number);
    } else if (sw_value_bool(w->g, key, &flag)) {
        (void)snprintf(l->room, sizeof l->room, "%s", flag ? "True" : "False");
    } else if (kind == SW_VALUE_NONE) {
        (void)snprintf(l->room, sizeof l->room, "None");
    } else if (kind == SW_VALUE_FLOAT) {
        sw_status st = sw_value_text(w->g, key, 64, &l->text, w->err);
        *out = l->text;
        l->in_room = false;
        return st;
    } else if (kind == SW_VALUE_STR && sw_value_bytes(w->g, key, &data, &size) &&
               memchr(data, 0, size) == NULL) {
        *out = (const char *)data;
        l->in_room = false;
    } else {
        return swi_fail(w->err, SW_ERR_UNSUPPORTED,
                        "state dict: a key is neither text nor a plain number");
    }
    return kind == SW_VALUE_STR ? SW_OK : refuse_twin(w, l, *out);
}

/* The next element of the container on top; *done: there is none. */
static sw_status next_element(walk *w, sw_value *v, bool *done)
{
    level *l = &w->levels[w->depth - 1];
    bool list = sw_value_get_kind(w->g, l->items) == SW_VALUE_LIST;
    size_t i = l->next++;
    w->is_index[w->depth - 1] = list;
    if (list) {
        *done = !sw_value_item(w->g, l->items, i, v);
        (void)snprintf(l->room, sizeof l->room, "%zu", i);
        w->path[w->depth - 1] = l->room;
        l->in_room = true;
        return SW_OK;
    }
    *done = !sw_value_pair(w->g, l->items, i, &l->key, v);
    return *done ? SW_OK : key_text(w, l, l->key, &w->path[w->depth - 1]);
}

static sw_status step(walk *w)
{
    sw_value v, items;
    bool done, leaf;
    sw_status st = next_element(w, &v, &done);
    if (st == SW_OK && done)
        return leave(w);
    if (st == SW_OK)
        st = count_step(w);
    if (st == SW_OK)
        st = is_leaf(w, v, &items, &leaf);
    if (st != SW_OK || leaf)
        return st == SW_OK ? say(w, w->visitor->leaf, v) : st;
    return enter(w, v, items);
}

sw_status swi_state_visit(const swi_state *state, const swi_state_visitor *visitor, sw_error *err)
{
    walk w = {.state = state, .g = state->graph, .visitor = visitor, .err = err};
    w.open.graph = w.lists.graph = state->graph;
    w.limit = swi_graph_unfold_limit(state->graph);
    sw_value items;
    bool leaf;
    sw_status st = is_leaf(&w, state->root, &items, &leaf);
    if (st == SW_OK)
        st = leaf ? say(&w, visitor->leaf, state->root) : enter(&w, state->root, items);
    while (st == SW_OK && w.depth > 0)
        st = step(&w);
    for (size_t i = 0; i < w.depth; i++)
        free(w.levels[i].text);
    free(w.levels);
    free(w.path);
    free(w.is_index);
    free(w.stack);
    swi_value_table_free(&w.open);
    swi_value_table_free(&w.lists);
    return st;
}

sw_status swi_state_walk(const swi_state *state, swi_state_leaf_fn fn, void *ctx, sw_error *err)
{
    const swi_state_visitor visitor = {.leaf = fn, .ctx = ctx};
    return swi_state_visit(state, &visitor, err);
}
