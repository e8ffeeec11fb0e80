/*
 * Names for what a saved object holds: keys and positions on the way to it (TS-3). Torch's modules
 * name their tensors as their state dicts would.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/text.h"
#include "model/value.h"
#include "select/sections.h"
#include "torch/torch.h"

/* Names cost steps as well: long keys on a long way are in the name of each thing behind them. */
#define NAME_BYTES_A_STEP 16
/* A look into a container for tensors gives up, and says yes, after so many containers. */
#define LOOK_MAX 65536

typedef enum mode {
    MODE_DICT,   /* pairs under their keys */
    MODE_ITEMS,  /* elements under their positions */
    MODE_OBJECT, /* an object's items, state and arguments, under its own name */
    MODE_STATES, /* the parts of a state of several, likewise */
    MODE_MODULE  /* the state of a torch.nn.Module */
} mode;

typedef struct frame {
    sw_value node;
    mode mode;
    size_t next;
    bool joins;  /* keys continue the last part of the path */
    bool module; /* inside a module: only tensors are named */
    size_t part_count, path_bytes;
} frame;

typedef struct walk {
    const swi_torch_object *object;
    const sw_value_graph *g;
    uint64_t steps_left;
    swi_torch_leaf_fn fn;
    void *ctx;
    bool *too_deep;
    frame *frames;
    size_t depth, capacity;
    swi_buf path; /* the parts, a zero between them */
    size_t starts[SWI_PATH_PARTS_MAX];
    bool is_index[SWI_PATH_PARTS_MAX];
    size_t part_count;
    swi_buf name;
    sw_value *look; /* containers still to be looked into */
    size_t look_capacity;
} walk;

static sw_status steps(walk *w, uint64_t count, sw_error *err)
{
    if (w->steps_left < count)
        return swi_fail(err, SW_ERR_LIMIT,
                        "its containers hold each other so often that they unfold into more than "
                        "any genuine file holds");
    w->steps_left -= count;
    return SW_OK;
}

static sw_status step(walk *w, sw_error *err)
{
    return steps(w, 1, err);
}

/* ---- the path ----------------------------------------------------------------------------------
 */

static sw_status add_part(walk *w, const void *text, size_t size, bool index, bool joins,
                          sw_error *err)
{
    bool fresh = w->part_count == 0 || (!joins && w->part_count < SWI_PATH_PARTS_MAX);
    sw_status st = SW_OK;
    if (w->part_count > 0)
        st = swi_buf_u8(&w->path, fresh ? 0 : '.', err);
    if (fresh && st == SW_OK) {
        w->starts[w->part_count] = w->path.size;
        w->is_index[w->part_count++] = index;
    }
    return st == SW_OK ? swi_buf_append(&w->path, text, size, err) : st;
}

static sw_status add_key(walk *w, const frame *f, sw_value key, sw_error *err)
{
    const uint8_t *data;
    size_t size;
    int64_t number;
    char digits[24];
    if (sw_value_int(w->g, key, &number)) {
        int n = snprintf(digits, sizeof digits, "%" PRId64, number);
        return add_part(w, digits, (size_t)n, false, f->joins, err);
    }
    if (sw_value_get_kind(w->g, key) == SW_VALUE_STR && sw_value_bytes(w->g, key, &data, &size) &&
        memchr(data, 0, size) == NULL)
        return add_part(w, data, size, false, f->joins, err);
    char *text = NULL;
    sw_status st = sw_value_text(w->g, key, 256, &text, err);
    if (st == SW_OK)
        st = add_part(w, text, strlen(text), false, f->joins, err);
    free(text);
    return st;
}

static sw_status add_index(walk *w, const frame *f, size_t i, sw_error *err)
{
    char digits[24];
    int n = snprintf(digits, sizeof digits, "%zu", i);
    return add_part(w, digits, (size_t)n, true, f->joins, err);
}

/* ---- what is worth going into -------------------------------------------------------------------
 */

static bool is_container(sw_value_kind kind)
{
    return kind == SW_VALUE_LIST || kind == SW_VALUE_TUPLE || kind == SW_VALUE_DICT ||
           kind == SW_VALUE_SET || kind == SW_VALUE_FROZENSET || kind == SW_VALUE_OBJECT;
}

/* Child i of a container, whatever it is; false: there is none. */
static bool child_at(const sw_value_graph *g, sw_value v, size_t i, sw_value *out)
{
    sw_value key;
    sw_value_object o;
    if (sw_value_get_object(g, v, &o)) {
        *out = i == 0 ? o.items : i == 1 ? o.state : o.args;
        return i < 3;
    }
    return sw_value_pair(g, v, i, &key, out) || sw_value_item(g, v, i, out);
}

/* Whether a tensor lies somewhere in the value. */
static sw_status holds_tensor(walk *w, sw_value v, bool *out, sw_error *err)
{
    size_t count = 0, met = 0;
    sw_status st = SW_OK;
    *out = false;
    for (;;) {
        sw_value child;
        for (size_t i = 0; st == SW_OK && child_at(w->g, v, i, &child); i++) {
            sw_value_kind kind = sw_value_get_kind(w->g, child);
            if (kind == SW_VALUE_TENSOR || swi_torch_opaque_at(w->object, child) != NULL) {
                *out = true;
                return SW_OK;
            }
            st = step(w, err);
            if (st == SW_OK && is_container(kind))
                st = swi_grow_array((void **)&w->look, &w->look_capacity, count + 1,
                                    sizeof *w->look, err);
            if (st == SW_OK && is_container(kind))
                w->look[count++] = child;
        }
        if (st != SW_OK || count == 0)
            return st;
        v = w->look[--count];
        if (++met > LOOK_MAX) {
            *out = true;
            return SW_OK;
        }
    }
}

static bool is_mapping(const sw_value_graph *g, sw_value v)
{
    sw_value dict;
    return sw_value_as_dict(g, v, &dict);
}

static bool list_has_mapping(const sw_value_graph *g, sw_value v)
{
    sw_value item;
    for (size_t i = 0; sw_value_item(g, v, i, &item); i++)
        if (is_mapping(g, item))
            return true;
    return false;
}

/* TS-4: mappings are gone into, lists of mappings, and whatever holds a tensor. */
static sw_status worth_entering(walk *w, sw_value v, bool module, bool *out, sw_error *err)
{
    sw_value dict;
    sw_value_kind kind = sw_value_get_kind(w->g, v);
    if (!is_container(kind)) {
        *out = false;
        return SW_OK;
    }
    if (!module && sw_value_as_dict(w->g, v, &dict) && sw_value_size(w->g, dict) > 0) {
        *out = true;
        return SW_OK;
    }
    if (!module && kind == SW_VALUE_LIST && list_has_mapping(w->g, v)) {
        *out = true;
        return SW_OK;
    }
    return holds_tensor(w, v, out, err);
}

static bool is_module_state(const sw_value_graph *g, sw_value v)
{
    sw_value part;
    return sw_value_get_kind(g, v) == SW_VALUE_DICT && swi_value_get(g, v, "_parameters", &part) &&
           swi_value_get(g, v, "_modules", &part);
}

/* ---- the walk ----------------------------------------------------------------------------------
 */

static mode mode_of(const sw_value_graph *g, sw_value v)
{
    switch (sw_value_get_kind(g, v)) {
    case SW_VALUE_DICT:
        return MODE_DICT;
    case SW_VALUE_OBJECT:
        return MODE_OBJECT;
    default:
        return MODE_ITEMS;
    }
}

/* Goes into a container; one that is being walked already holds itself and is left alone. */
static sw_status enter(walk *w, sw_value v, mode how, bool joins, bool module, sw_error *err)
{
    for (size_t i = 0; i < w->depth; i++)
        if (w->frames[i].node.bits == v.bits)
            return SW_OK;
    if (w->depth >= SWI_TORCH_DEPTH_MAX) {
        *w->too_deep = true;
        return SW_OK;
    }
    sw_status st =
        swi_grow_array((void **)&w->frames, &w->capacity, w->depth + 1, sizeof *w->frames, err);
    if (st != SW_OK)
        return st;
    w->frames[w->depth++] = (frame){.node = v,
                                    .mode = how,
                                    .joins = joins,
                                    .module = module,
                                    .part_count = w->part_count,
                                    .path_bytes = w->path.size};
    return SW_OK;
}

static sw_status give(walk *w, sw_value v, sw_error *err)
{
    const char *parts[SWI_PATH_PARTS_MAX];
    bool tensor = sw_value_get_kind(w->g, v) == SW_VALUE_TENSOR;
    if (w->part_count == 0) {
        const swi_torch_leaf bare = {.node = v, .name = tensor ? "tensor" : "value"};
        return w->fn(w->ctx, &bare, err);
    }
    size_t size = w->path.size;
    sw_status st = steps(w, size / NAME_BYTES_A_STEP, err);
    if (st == SW_OK)
        st = swi_buf_u8(&w->path, 0, err);
    w->name.size = 0;
    if (st == SW_OK)
        st = swi_buf_append(&w->name, w->path.data, w->path.size, err);
    w->path.size = size;
    if (st != SW_OK)
        return st;
    for (size_t i = 0; i < w->part_count; i++) {
        parts[i] = (const char *)w->path.data + w->starts[i];
        if (i > 0)
            w->name.data[w->starts[i] - 1] = '.';
    }
    const swi_torch_leaf leaf = {.node = v,
                                 .name = (const char *)w->name.data,
                                 .parts = parts,
                                 .is_index = w->is_index,
                                 .count = w->part_count};
    return w->fn(w->ctx, &leaf, err);
}

/* A value whose name is on the path. */
static sw_status visit(walk *w, sw_value v, bool joins, bool module, sw_error *err)
{
    bool into = false;
    if (sw_value_get_kind(w->g, v) == SW_VALUE_TENSOR || swi_torch_opaque_at(w->object, v) != NULL)
        return give(w, v, err);
    sw_status st = worth_entering(w, v, module, &into, err);
    if (st != SW_OK)
        return st;
    if (into)
        return enter(w, v, mode_of(w->g, v), joins, module, err);
    return module ? SW_OK : give(w, v, err);
}

/* Part i of an object: its items always, state and arguments for the tensors in them. */
static sw_status visit_object(walk *w, const frame *f, size_t i, bool *more, sw_error *err)
{
    sw_value part;
    bool holds = true;
    *more = child_at(w->g, f->node, i, &part);
    if (!*more || !is_container(sw_value_get_kind(w->g, part)))
        return SW_OK;
    if (i == 1 && is_module_state(w->g, part))
        return enter(w, part, MODE_MODULE, f->joins, true, err);
    sw_status st = i == 0 ? SW_OK : holds_tensor(w, part, &holds, err);
    if (st != SW_OK || !holds)
        return st;
    bool several = i == 1 && sw_value_get_kind(w->g, part) == SW_VALUE_TUPLE;
    return enter(w, part, several ? MODE_STATES : mode_of(w->g, part), f->joins, f->module || i > 0,
                 err);
}

static sw_status visit_module(walk *w, const frame *f, sw_value key, sw_value v, sw_error *err)
{
    bool plain = swi_value_text_is(w->g, key, "_parameters") ||
                 swi_value_text_is(w->g, key, "_buffers") ||
                 swi_value_text_is(w->g, key, "_modules");
    if (plain)
        return is_container(sw_value_get_kind(w->g, v))
                   ? enter(w, v, mode_of(w->g, v), f->joins, true, err)
                   : SW_OK;
    sw_status st = add_key(w, f, key, err);
    return st == SW_OK ? visit(w, v, true, true, err) : st;
}

/* Child `i` of the frame; *more false: there is none. The frame may move. */
static sw_status visit_child(walk *w, const frame *f, size_t i, bool *more, sw_error *err)
{
    sw_value key, v;
    sw_status st;
    switch (f->mode) {
    case MODE_OBJECT:
        return visit_object(w, f, i, more, err);
    case MODE_MODULE:
        *more = sw_value_pair(w->g, f->node, i, &key, &v);
        return *more ? visit_module(w, f, key, v, err) : SW_OK;
    case MODE_STATES:
        *more = sw_value_item(w->g, f->node, i, &v);
        return *more && is_container(sw_value_get_kind(w->g, v))
                   ? enter(w, v, mode_of(w->g, v), f->joins, f->module, err)
                   : SW_OK;
    case MODE_DICT:
        *more = sw_value_pair(w->g, f->node, i, &key, &v);
        st = *more ? add_key(w, f, key, err) : SW_OK;
        break;
    default:
        *more = sw_value_item(w->g, f->node, i, &v);
        st = *more ? add_index(w, f, i, err) : SW_OK;
        break;
    }
    return st == SW_OK && *more ? visit(w, v, f->module, f->module, err) : st;
}

sw_status swi_torch_walk(const swi_torch_object *object, swi_torch_leaf_fn fn, void *ctx,
                         bool *too_deep, sw_error *err)
{
    walk w = {.object = object,
              .g = object->graph,
              .steps_left = swi_graph_unfold_limit(object->graph),
              .fn = fn,
              .ctx = ctx,
              .too_deep = too_deep};
    *too_deep = false;
    sw_status st = visit(&w, object->root, false, false, err);
    while (st == SW_OK && w.depth > 0) {
        frame f = w.frames[w.depth - 1];
        bool more = false;
        w.part_count = f.part_count;
        w.path.size = f.path_bytes;
        w.frames[w.depth - 1].next++;
        size_t depth = w.depth;
        st = step(&w, err);
        if (st == SW_OK)
            st = visit_child(&w, &f, f.next, &more, err);
        if (st == SW_OK && !more)
            w.depth = depth - 1;
    }
    swi_buf_free(&w.path);
    swi_buf_free(&w.name);
    free(w.frames);
    free(w.look);
    return st;
}
