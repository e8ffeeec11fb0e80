#include "ranks/rank_meta.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/checked.h"
#include "base/names.h"
#include "base/text.h"
#include "codec/json.h"
#include "codec/pickle.h"
#include "container/torch_file.h"

#define VERSION "2.0"
#define DTENSOR "DTensorShardingMetadata"
#define TORCH_FILES "TorchSerialization"

struct swi_rank_meta {
    sw_value_graph *graph;
    uint64_t world;
    sw_value *layouts; /* of each item: rank -> file */
    size_t layout_capacity;
    swi_names *items;
    swi_names *paths; /* of tensors: item and path, zeros between */
    sw_value *groups; /* by path */
    size_t group_capacity;
    swi_buf path;
};

void swi_rank_meta_free(swi_rank_meta *meta)
{
    if (meta == NULL)
        return;
    sw_value_graph_free(meta->graph);
    swi_names_free(meta->items);
    swi_names_free(meta->paths);
    swi_buf_free(&meta->path);
    free(meta->layouts);
    free(meta->groups);
    free(meta);
}

uint64_t swi_rank_meta_memory(const swi_rank_meta *meta)
{
    return swi_graph_memory(meta->graph) + swi_names_memory(meta->paths) +
           meta->group_capacity * sizeof *meta->groups;
}

uint64_t swi_rank_meta_world(const swi_rank_meta *meta)
{
    return meta->world;
}

size_t swi_rank_meta_item_count(const swi_rank_meta *meta)
{
    return swi_names_count(meta->items);
}

const char *swi_rank_meta_item(const swi_rank_meta *meta, size_t i)
{
    return swi_names_at(meta->items, (uint32_t)i, NULL);
}

size_t swi_rank_meta_tensor_count(const swi_rank_meta *meta)
{
    return swi_names_count(meta->paths);
}

const char *swi_rank_meta_path(const swi_rank_meta *meta, size_t i, size_t *size)
{
    return swi_names_at(meta->paths, (uint32_t)i, size);
}

/* ---- reading ------------------------------------------------------------------------------- */

static sw_status malformed(sw_error *err, const char *what)
{
    return swi_fail_at(err, SW_ERR_FORMAT, "RF-2", 0, "%s %s", SWI_RANK_META_NAME, what);
}

static bool text_of(const sw_value_graph *g, sw_value v, const uint8_t **data, size_t *size)
{
    return sw_value_get_kind(g, v) == SW_VALUE_STR && sw_value_bytes(g, v, data, size) &&
           memchr(*data, 0, *size) == NULL;
}

static sw_status add_part(swi_buf *out, const sw_value_graph *g, sw_value part, sw_error *err)
{
    const uint8_t *data;
    size_t size;
    int64_t number;
    sw_status st = out->size > 0 ? swi_buf_u8(out, 0, err) : SW_OK;
    if (st != SW_OK)
        return st;
    if (text_of(g, part, &data, &size))
        return swi_buf_append(out, data, size, err);
    if (sw_value_int(g, part, &number))
        return swi_buf_printf(out, err, "%" PRId64, number);
    return malformed(err, "has a path of neither texts nor numbers");
}

/* RF-3: a key is a path as a JSON list: ["state","layers.0.weight","exp_avg"]. */
static sw_status read_path(swi_rank_meta *m, const char *item, sw_value key,
                           const sw_limits *limits, sw_error *err)
{
    const uint8_t *data;
    size_t size;
    sw_value_graph *g = NULL;
    sw_value root, part;
    m->path.size = 0;
    if (!text_of(m->graph, key, &data, &size))
        return malformed(err, "has a path that is no text");
    sw_status st = swi_buf_append_str(&m->path, item, err);
    if (st == SW_OK)
        st = swi_json_parse(data, size, limits, &g, &root, err);
    if (st == SW_OK && sw_value_get_kind(g, root) != SW_VALUE_LIST)
        st = malformed(err, "has a path that is no list");
    for (size_t i = 0; st == SW_OK && sw_value_item(g, root, i, &part); i++)
        st = add_part(&m->path, g, part, err);
    sw_value_graph_free(g);
    return st;
}

static sw_status read_tensors(swi_rank_meta *m, const char *item, sw_value dict,
                              const sw_limits *limits, sw_error *err)
{
    sw_value key, groups;
    for (size_t i = 0; sw_value_pair(m->graph, dict, i, &key, &groups); i++) {
        uint32_t id;
        bool is_new;
        sw_status st = read_path(m, item, key, limits, err);
        if (st == SW_OK)
            st = swi_names_add(m->paths, m->path.data, m->path.size, &id, &is_new, err);
        if (st == SW_OK && (!is_new || sw_value_get_kind(m->graph, groups) != SW_VALUE_LIST))
            st = malformed(err,
                           is_new ? "has a tensor without a list of groups" : "has one path twice");
        if (st == SW_OK)
            st = swi_grow_array((void **)&m->groups, &m->group_capacity, (size_t)id + 1,
                                sizeof *m->groups, err);
        if (st != SW_OK)
            return st;
        m->groups[id] = groups;
    }
    return SW_OK;
}

static sw_status read_item(swi_rank_meta *m, sw_value name, sw_value item, const sw_limits *limits,
                           sw_error *err)
{
    const uint8_t *data;
    size_t size;
    sw_value tensors, layout;
    uint32_t id;
    if (!text_of(m->graph, name, &data, &size) || size == 0)
        return malformed(err, "has an item without a name");
    if (!swi_value_get(m->graph, item, "nested_path_to_metadata", &tensors) ||
        sw_value_get_kind(m->graph, tensors) != SW_VALUE_DICT ||
        !swi_value_get(m->graph, item, "rank_to_layout_info", &layout) ||
        sw_value_get_kind(m->graph, layout) != SW_VALUE_DICT)
        return malformed(err, "has an item without tensors or files");
    sw_status st = swi_names_add(m->items, data, size, &id, NULL, err);
    if (st == SW_OK)
        st = swi_grow_array((void **)&m->layouts, &m->layout_capacity, (size_t)id + 1,
                            sizeof *m->layouts, err);
    if (st != SW_OK)
        return st;
    m->layouts[id] = layout;
    return read_tensors(m, swi_names_at(m->items, id, NULL), tensors, limits, err);
}

/* RF-2: one pickle of plain dicts. */
static sw_status read_root(swi_rank_meta *m, sw_value root, const sw_limits *limits, sw_error *err)
{
    sw_value items, world, version, name, item;
    int64_t ranks;
    if (!swi_value_get(m->graph, root, "metadata", &items) ||
        sw_value_get_kind(m->graph, items) != SW_VALUE_DICT ||
        !swi_value_get(m->graph, root, "world_size", &world) ||
        !sw_value_int(m->graph, world, &ranks) || ranks < 1)
        return malformed(err, "has no items, or no number of ranks");
    if (!swi_value_get(m->graph, root, "version", &version) ||
        !swi_value_text_is(m->graph, version, VERSION))
        return swi_fail_at(err, SW_ERR_UNSUPPORTED, "RF-2", 0,
                           "%s is of another version than " VERSION, SWI_RANK_META_NAME);
    if ((uint64_t)ranks > limits->files)
        return swi_fail(err, SW_ERR_LIMIT, "%s tells of %" PRId64 " ranks", SWI_RANK_META_NAME,
                        ranks);
    m->world = (uint64_t)ranks;
    sw_status st = SW_OK;
    for (size_t i = 0; st == SW_OK && sw_value_pair(m->graph, items, i, &name, &item); i++)
        st = read_item(m, name, item, limits, err);
    return st;
}

static sw_status read_pickle(swi_rank_meta *m, const uint8_t *data, size_t size, sw_report *report,
                             sw_value *root, sw_error *err)
{
    swi_cursor cursor = swi_cursor_make(data, size);
    swi_pickle_unsafe unsafe = {0};
    sw_error cause = {0};
    sw_status st = swi_pickle_read(&cursor, NULL, m->graph, root, &unsafe, &cause);
    if (st == SW_ERR_NOMEM)
        return swi_fail_nomem(err);
    if (unsafe.total > 0) {
        st = swi_pickle_report(&unsafe, SWI_RANK_META_NAME, "", report, err);
        return st != SW_OK ? st
                           : swi_fail_at(err, SW_ERR_UNSAFE, "RF-2", unsafe.at[0].offset_bytes,
                                         "%s would run code when loaded: it names %s",
                                         SWI_RANK_META_NAME, unsafe.at[0].name);
    }
    if (st == SW_OK && swi_cursor_left(&cursor) > 0)
        return malformed(err, "does not end with its pickle");
    if (st != SW_OK) {
        if (err != NULL)
            *err = cause;
        swi_error_prefix(err, "%s", SWI_RANK_META_NAME);
    }
    return st;
}

sw_status swi_rank_meta_parse(const uint8_t *data, size_t size, const sw_limits *limits,
                              sw_report *report, swi_rank_meta **out, sw_error *err)
{
    swi_rank_meta *m = NULL;
    sw_value root;
    sw_status st = swi_alloc_array(1, sizeof *m, (void **)&m, err);
    if (st == SW_OK)
        st = swi_graph_make(limits, &m->graph, err);
    if (st == SW_OK)
        st = swi_names_make(&m->items, err);
    if (st == SW_OK)
        st = swi_names_make(&m->paths, err);
    if (st == SW_OK)
        st = read_pickle(m, data, size, report, &root, err);
    if (st == SW_OK)
        st = read_root(m, root, limits, err);
    if (st != SW_OK) {
        swi_rank_meta_free(m);
        return st;
    }
    *out = m;
    return SW_OK;
}

/* ---- files --------------------------------------------------------------------------------- */

static bool find_number(const sw_value_graph *g, sw_value dict, uint64_t number, sw_value *out)
{
    sw_value key;
    int64_t n;
    /* written in order: mostly at its place */
    if (sw_value_pair(g, dict, (size_t)number, &key, out) && sw_value_int(g, key, &n) && n >= 0 &&
        (uint64_t)n == number)
        return true;
    for (size_t i = 0; sw_value_pair(g, dict, i, &key, out); i++)
        if (sw_value_int(g, key, &n) && n >= 0 && (uint64_t)n == number)
            return true;
    return false;
}

/* RF-4: {item}_{rank}.pt, or the path that is given. */
sw_status swi_rank_meta_file(swi_rank_meta *m, size_t item, uint64_t rank, const char **path,
                             sw_error *err)
{
    const sw_value_graph *g = m->graph;
    const char *name = swi_rank_meta_item(m, item);
    sw_value layout, given, format, type;
    const uint8_t *data;
    size_t size;
    swi_quoted q;
    m->path.size = 0;
    if (!find_number(g, m->layouts[item], rank, &layout))
        return swi_fail_at(err, SW_ERR_CONFLICT, "RF-4", 0,
                           "%s has no file of rank %" PRIu64 " for \"%s\"", SWI_RANK_META_NAME,
                           rank, swi_quote_str(&q, name));
    sw_status st = SW_OK;
    if (sw_value_get_kind(g, layout) == SW_VALUE_NONE) {
        st = swi_buf_printf(&m->path, err, "%s_%" PRIu64 ".pt", name, rank);
    } else if (!swi_value_get(g, layout, "file_path", &given) || !text_of(g, given, &data, &size) ||
               !swi_value_get(g, layout, "serialization_format", &format) ||
               !swi_value_get(g, format, "type", &type)) {
        st = malformed(err, "has a file without a path or a form");
    } else if (!swi_value_text_is(g, type, TORCH_FILES)) {
        st = swi_fail_at(err, SW_ERR_UNSUPPORTED, "RF-4", 0,
                         "\"%s\" is stored in another form than " TORCH_FILES,
                         swi_quote_str(&q, name));
    } else {
        st = swi_buf_append(&m->path, data, size, err);
    }
    if (st == SW_OK)
        st = swi_buf_u8(&m->path, 0, err);
    if (st != SW_OK)
        return st;
    st = swi_path_check((const char *)m->path.data, err);
    if (st != SW_OK)
        return swi_error_prefix(err, "%s names a file", SWI_RANK_META_NAME);
    *path = (const char *)m->path.data;
    return SW_OK;
}

/* ---- tensors ------------------------------------------------------------------------------- */

/* Number i of a tuple or list of whole numbers that are not negative. */
static bool number_at(const sw_value_graph *g, sw_value v, size_t i, uint64_t *out)
{
    sw_value item;
    int64_t n;
    if (!sw_value_item(g, v, i, &item) || !sw_value_int(g, item, &n) || n < 0)
        return false;
    *out = (uint64_t)n;
    return true;
}

/* Where a number is in a sequence. */
static bool index_of(const sw_value_graph *g, sw_value v, uint64_t number, uint64_t *out)
{
    uint64_t n;
    *out = number; /* mostly at its place */
    if (number_at(g, v, (size_t)number, &n) && n == number)
        return true;
    for (size_t i = 0; number_at(g, v, i, &n); i++) {
        *out = i;
        if (n == number)
            return true;
    }
    return false;
}

static bool read_placement(const sw_value_graph *g, sw_value v, uint32_t axes, swi_placement *out)
{
    sw_value type, dim, factor;
    int64_t d, f = 0;
    *out = (swi_placement){.kind = SWI_REPLICATE};
    if (!swi_value_get(g, v, "type", &type))
        return false;
    if (swi_value_text_is(g, type, "Replicate"))
        return true;
    bool strided = swi_value_text_is(g, type, "StridedShard");
    if (!strided && !swi_value_text_is(g, type, "Shard"))
        return false;
    if (!swi_value_get(g, v, "dim", &dim) || !sw_value_int(g, dim, &d))
        return false;
    d = d < 0 && d >= -(int64_t)axes ? d + (int64_t)axes : d;
    if (strided &&
        (!swi_value_get(g, v, "split_factor", &factor) || !sw_value_int(g, factor, &f) || f < 1))
        return false;
    *out = (swi_placement){.kind = strided ? SWI_STRIDED_SHARD : SWI_SHARD,
                           .dim = (uint32_t)d,
                           .split_factor = (uint64_t)f};
    return d >= 0 && d < (int64_t)axes;
}

static bool read_mesh(const sw_value_graph *g, sw_value data, swi_placements *out, sw_value *ranks)
{
    sw_value mesh, shape;
    uint64_t all = 1;
    if (!swi_value_get(g, data, "mesh_spec", &mesh) ||
        !swi_value_get(g, mesh, "mesh_shape", &shape) ||
        !swi_value_get(g, mesh, "mesh_data", ranks) || sw_value_size(g, shape) > SWI_MESH_AXES_MAX)
        return false;
    out->axes = (uint32_t)sw_value_size(g, shape);
    for (uint32_t a = 0; a < out->axes; a++)
        if (!number_at(g, shape, a, &out->size[a]) || out->size[a] == 0 ||
            !swi_mul_u64(all, out->size[a], &all))
            return false;
    return all == sw_value_size(g, *ranks);
}

static bool read_placements(const sw_value_graph *g, sw_value data, uint32_t axes,
                            swi_placements *out)
{
    sw_value list, v;
    if (!swi_value_get(g, data, "placements", &list) || sw_value_size(g, list) != out->axes)
        return false;
    for (uint32_t a = 0; a < out->axes; a++)
        if (!sw_value_item(g, list, a, &v) || !read_placement(g, v, axes, &out->at[a]))
            return false;
    return true;
}

static bool read_shape(const sw_value_graph *g, sw_value data, swi_rank_tensor *out)
{
    sw_value shape, dtype;
    const uint8_t *text;
    size_t size;
    char name[32];
    if (!swi_value_get(g, data, "global_shape", &shape) || sw_value_size(g, shape) > SW_MAX_AXES ||
        !swi_value_get(g, data, "dtype", &dtype) || !text_of(g, dtype, &text, &size))
        return false;
    out->axes = (uint32_t)sw_value_size(g, shape);
    for (uint32_t k = 0; k < out->axes; k++) {
        uint64_t n;
        if (!number_at(g, shape, k, &n))
            return false;
        out->shape[k] = (int64_t)n;
    }
    out->dtype = SW_DTYPE_NONE;
    if (size > 6 && size - 6 < sizeof name && memcmp(text, "torch.", 6) == 0) {
        memcpy(name, text + 6, size - 6);
        name[size - 6] = '\0';
        out->dtype = swi_torch_dtype(name);
    }
    return true;
}

/* RF-5: the part of a rank under the placements of its group. */
static sw_status read_group(const sw_value_graph *g, sw_value group, uint64_t rank,
                            swi_rank_tensor *out, sw_error *err)
{
    sw_value sharding, type, data, ranks;
    swi_placements p = {0};
    uint64_t number;
    if (!swi_value_get(g, group, "sharding_metadata", &sharding) ||
        !swi_value_get(g, sharding, "type", &type) || !swi_value_get(g, sharding, "data", &data))
        return malformed(err, "has a group without how it is sharded");
    if (!swi_value_text_is(g, type, DTENSOR))
        return swi_fail_at(err, SW_ERR_UNSUPPORTED, "RF-5", 0,
                           "it is sharded otherwise than as " DTENSOR);
    if (!read_shape(g, data, out) || !read_mesh(g, data, &p, &ranks) ||
        !read_placements(g, data, out->axes, &p) || !index_of(g, ranks, rank, &number))
        return malformed(err, "has a shape, mesh or placements that are not understood");
    out->replicated = false;
    for (uint32_t a = 0; a < p.axes; a++)
        out->replicated = out->replicated || (p.at[a].kind == SWI_REPLICATE && p.size[a] > 1);
    return swi_placed_box(&p, number, out->axes, out->shape, out->offset, out->length, err);
}

sw_status swi_rank_meta_find(const swi_rank_meta *m, const char *const *path, size_t parts,
                             uint64_t rank, bool *known, swi_rank_tensor *out, sw_error *err)
{
    swi_buf key = {0};
    sw_status st = SW_OK;
    for (size_t i = 0; st == SW_OK && i < parts; i++) {
        if (i > 0)
            st = swi_buf_u8(&key, 0, err);
        if (st == SW_OK)
            st = swi_buf_append_str(&key, path[i], err);
    }
    int64_t id = st == SW_OK ? swi_names_find(m->paths, key.data, key.size) : -1;
    swi_buf_free(&key);
    *known = false;
    sw_value group, ranks;
    uint64_t at;
    for (size_t i = 0; id >= 0 && sw_value_item(m->graph, m->groups[id], i, &group); i++) {
        if (!swi_value_get(m->graph, group, "ranks", &ranks) ||
            !index_of(m->graph, ranks, rank, &at))
            continue;
        *known = true;
        return read_group(m->graph, group, rank, out, err);
    }
    return st;
}

sw_status swi_rank_meta_tensor(const swi_rank_meta *m, size_t i, swi_rank_tensor *out,
                               sw_error *err)
{
    sw_value group, ranks;
    uint64_t rank;
    if (!sw_value_item(m->graph, m->groups[i], 0, &group) ||
        !swi_value_get(m->graph, group, "ranks", &ranks) || !number_at(m->graph, ranks, 0, &rank))
        return malformed(err, "has a tensor that no rank has");
    return read_group(m->graph, group, rank, out, err);
}
