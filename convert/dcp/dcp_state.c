/*
 * Puts the flattened keys of a DCP folder back to where they were: each at its path, texts as keys
 * of dicts and numbers as positions in lists. What left no key (empty dicts) is known from the hole
 * that it leaves in a list, and nowhere else.
 */
#include "dcp/dcp_state.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/text.h"
#include "dcp/dcp.h"
#include "dcp/dcp_paths.h"
#include "model/value_table.h"

/* What stands in a list where nothing was put yet. */
#define HOLE (UINT64_MAX >> 8)

typedef struct builder {
    const sw_checkpoint *checkpoint;
    const sw_catalog *catalog;
    const swi_dcp_paths *paths;
    swi_state *state;
    sw_value_graph *g;
    size_t keys;          /* in all: no list is longer */
    swi_value_table ours; /* containers made here; others were in values */
    sw_value *lists;
    size_t list_count, list_capacity;
    swi_dcp_path path;
    size_t scoped_capacity;
    sw_error *err;
} builder;

static sw_status clash(builder *b, const char *key)
{
    swi_quoted q;
    return swi_fail_at(b->err, SW_ERR_CONFLICT, "DCP-15", 0,
                       "key \"%s\" has the place of another key in the state dict",
                       swi_quote_str(&q, key));
}

/* ---- containers ---------------------------------------------------------------------------- */

static sw_status make_container(builder *b, bool list, sw_value *out)
{
    sw_status st = list ? swi_graph_sequence(b->g, SW_VALUE_LIST, NULL, 0, out, b->err)
                        : swi_graph_dict(b->g, out, b->err);
    if (st == SW_OK)
        st = swi_value_table_set(&b->ours, *out, 1, b->err);
    if (st == SW_OK && list)
        st = swi_grow_array((void **)&b->lists, &b->list_capacity, b->list_count + 1,
                            sizeof *b->lists, b->err);
    if (st == SW_OK && list)
        b->lists[b->list_count++] = *out;
    return st;
}

static bool is_hole(sw_value v)
{
    uint64_t payload;
    return swi_value_record(v, &payload) && payload == HOLE;
}

/* Position as the text of an index says it; the reader made the text from a number. */
static bool position_of(const builder *b, const char *text, size_t *out)
{
    char *end;
    unsigned long long v = strtoull(text, &end, 10);
    if (*end != '\0' || end == text || v >= b->keys)
        return false;
    *out = (size_t)v;
    return true;
}

static sw_status put_in_list(builder *b, sw_value list, size_t at, sw_value v)
{
    sw_value hole = swi_value_of_record(HOLE);
    sw_status st = SW_OK;
    while (st == SW_OK && sw_value_size(b->g, list) <= at)
        st = swi_graph_append(b->g, list, &hole, 1, b->err);
    return st == SW_OK ? swi_graph_list_set(b->g, list, at, v, b->err) : st;
}

/* What lies at part i of the path in `at`: *found, or where it is to be put. */
typedef struct slot {
    sw_value in;
    const char *part; /* of the path */
    bool list, found;
    size_t position;
    sw_value value;
} slot;

static sw_status look(builder *b, sw_value at, size_t i, const char *key, slot *out)
{
    const char *part = b->path.parts[i];
    *out = (slot){.in = at, .part = part, .list = sw_value_get_kind(b->g, at) == SW_VALUE_LIST};
    if (out->list != b->path.is_index[i] && !(i == 0 && !out->list))
        return clash(b, key);
    if (!out->list) {
        out->found = swi_value_get(b->g, at, part, &out->value);
        return SW_OK;
    }
    if (!position_of(b, part, &out->position)) {
        swi_quoted q;
        return swi_fail_at(b->err, SW_ERR_CORRUPT, "DCP-15", 0,
                           "key \"%s\" has position %s in a list, of %zu keys in all",
                           swi_quote_str(&q, key), part, b->keys);
    }
    out->found = sw_value_item(b->g, at, out->position, &out->value) && !is_hole(out->value);
    return SW_OK;
}

static sw_status put(builder *b, const slot *s, sw_value v)
{
    sw_value pair[2] = {{0}, v};
    if (s->list)
        return put_in_list(b, s->in, s->position, v);
    sw_status st = swi_graph_text(b->g, SW_VALUE_STR, s->part, strlen(s->part), &pair[0], b->err);
    return st == SW_OK ? swi_graph_set_items(b->g, s->in, pair, 1, b->err) : st;
}

/* The slot at the end of the path, the containers above it made. */
static sw_status walk_to(builder *b, const char *key, slot *out)
{
    sw_value at = b->state->root;
    for (size_t i = 0;; i++) {
        sw_status st = look(b, at, i, key, out);
        if (st != SW_OK || i + 1 == b->path.count)
            return st;
        bool list = b->path.is_index[i + 1];
        if (!out->found) {
            st = make_container(b, list, &at);
            if (st == SW_OK)
                st = put(b, out, at);
            if (st != SW_OK)
                return st;
            continue;
        }
        at = out->value;
        if (swi_value_table_find(&b->ours, at) == NULL)
            return clash(b, key);
    }
}

/* ---- leaves -------------------------------------------------------------------------------- */

static sw_status add_tensor(builder *b, size_t i)
{
    sw_tensor_info info;
    slot s;
    (void)sw_catalog_tensor(b->catalog, i, &info);
    sw_status st = swi_dcp_paths_get(b->paths, SWI_DCP_TENSORS, i, info.name, &b->path, b->err);
    if (st == SW_OK)
        st = walk_to(b, info.name, &s);
    if (st == SW_OK && s.found)
        return clash(b, info.name);
    return st == SW_OK ? put(b, &s, swi_value_of_tensor((uint32_t)i)) : st;
}

static sw_status load(builder *b, size_t i, sw_value *out)
{
    sw_value_graph *graph = NULL;
    sw_value root;
    sw_status st = sw_checkpoint_value(b->checkpoint, i, &graph, &root, b->err);
    if (st == SW_OK)
        st = swi_graph_copy(b->g, graph, root, NULL, NULL, out, b->err);
    sw_value_graph_free(graph);
    return st;
}

/* DCP-16: the same key of another rank. */
static sw_status add_scoped(builder *b, const sw_value_info *info, sw_value first, sw_value v)
{
    bool equal;
    swi_state *state = b->state;
    sw_status st = swi_value_same(b->g, first, b->g, v, &equal, b->err);
    if (st != SW_OK || equal)
        return st;
    st = swi_grow_array((void **)&state->scoped, &b->scoped_capacity, state->scoped_count + 1,
                        sizeof *state->scoped, b->err);
    if (st == SW_OK)
        state->scoped[state->scoped_count++] =
            (swi_state_scoped){.rank = info->rank, .name = info->name, .value = v};
    return st;
}

static sw_status add_value(builder *b, size_t i)
{
    sw_value_info info;
    sw_value v;
    slot s;
    (void)sw_catalog_value_at(b->catalog, i, &info);
    sw_status st = swi_dcp_paths_get(b->paths, SWI_DCP_VALUES, i, info.name, &b->path, b->err);
    if (st == SW_OK)
        st = walk_to(b, info.name, &s);
    if (st == SW_OK && s.found &&
        (info.rank < 0 || swi_value_table_find(&b->ours, s.value) != NULL))
        return clash(b, info.name);
    if (st == SW_OK)
        st = load(b, i, &v);
    if (st != SW_OK)
        return st;
    return s.found ? add_scoped(b, &info, s.value, v) : put(b, &s, v);
}

/* What left a hole was an empty dict, or held nothing else. */
static sw_status fill_holes(builder *b)
{
    sw_status st = SW_OK;
    for (size_t i = 0; st == SW_OK && i < b->list_count; i++) {
        sw_value item, empty;
        for (size_t k = 0; st == SW_OK && sw_value_item(b->g, b->lists[i], k, &item); k++) {
            if (!is_hole(item))
                continue;
            st = swi_graph_dict(b->g, &empty, b->err);
            if (st == SW_OK)
                st = swi_graph_list_set(b->g, b->lists[i], k, empty, b->err);
        }
    }
    return st;
}

/* ---- the order ----------------------------------------------------------------------------- */

/* The lowest rank that wrote a piece of the tensor; -1: not known. */
static int64_t first_writer(const sw_catalog *catalog, uint32_t tensor, uint64_t pieces)
{
    int64_t first = -1;
    for (uint64_t i = 0; i < pieces; i++) {
        swi_piece piece;
        swi_blob blob;
        swi_tensor_piece(catalog, tensor, i, &piece);
        swi_catalog_blob(catalog, piece.blob, &blob);
        const char *path = swi_catalog_path(catalog, blob.file);
        const char *slash = strrchr(path, '/');
        int64_t rank = swi_dcp_file_rank(slash ? slash + 1 : path, ".distcp");
        if (rank < 0)
            return -1;
        first = first < 0 || rank < first ? rank : first;
    }
    return first;
}

/*
 * DCP-17: an index lists what rank 0 wrote in the order of its state dict, then what only rank 1
 * wrote, and so on. The parameters are in order when one rank has a part of each.
 */
static bool is_ordered(const sw_catalog *catalog)
{
    int64_t writer = -1;
    sw_tensor_info info;
    for (size_t i = 0; sw_catalog_tensor(catalog, i, &info); i++) {
        if (info.role != SW_ROLE_PARAMETER || info.piece_count == 0)
            continue;
        int64_t rank = first_writer(catalog, (uint32_t)i, info.piece_count);
        if (rank < 0 || (writer >= 0 && rank != writer))
            return false;
        writer = rank;
    }
    return true;
}

static sw_status build(builder *b)
{
    size_t tensors = sw_catalog_tensor_count(b->catalog);
    size_t values = sw_catalog_value_count(b->catalog);
    b->keys = tensors + values;
    sw_status st = make_container(b, false, &b->state->root);
    for (size_t i = 0; st == SW_OK && i < tensors; i++)
        st = add_tensor(b, i);
    for (size_t i = 0; st == SW_OK && i < values; i++)
        st = add_value(b, i);
    return st == SW_OK ? fill_holes(b) : st;
}

sw_status swi_dcp_state(const sw_checkpoint *checkpoint, swi_state *out, sw_error *err)
{
    swi_state state = {.ordered = is_ordered(sw_checkpoint_catalog(checkpoint))};
    const sw_limits limits = swi_checkpoint_limits(checkpoint);
    builder b = {.checkpoint = checkpoint,
                 .catalog = sw_checkpoint_catalog(checkpoint),
                 .paths = swi_checkpoint_kept(checkpoint),
                 .state = &state,
                 .err = err};
    sw_status st = swi_graph_make(&limits, &state.graph, err);
    b.g = state.graph;
    b.ours.graph = state.graph;
    if (st == SW_OK)
        st = build(&b);
    swi_value_table_free(&b.ours);
    swi_dcp_path_end(&b.path);
    free(b.lists);
    if (st == SW_OK)
        *out = state;
    else
        swi_state_free(&state);
    return st;
}
