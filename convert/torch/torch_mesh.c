#include "torch/torch_mesh.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/checked.h"
#include "base/cursor.h"
#include "base/error.h"
#include "model/value.h"
#include "torch/attributes.h"

#define FLATS_MAX 32
#define NAME_MAX_BYTES 255

/* Where the ranks of a mesh are in its rank map: each axis is made of one or more flat ones. */
typedef struct mesh_layout {
    uint32_t axes, flats;
    uint64_t size[SWI_MESH_AXES_MAX]; /* of the axes */
    uint64_t shape[FLATS_MAX], stride[FLATS_MAX];
    uint64_t count; /* of all ranks */
} mesh_layout;

/* The ranks that a tensor of the file lists; data is the caller's to free. */
typedef struct rank_list {
    int64_t *at;
    uint64_t count;
    uint32_t axes;
    int64_t shape[SW_MAX_AXES];
} rank_list;

sw_status swi_mesh_reader_begin(swi_mesh_reader *r, const swi_torch_file *tf,
                                const swi_reader *reader, swi_meshes *out, swi_arena *arena,
                                sw_error *err)
{
    static const sw_limits few = {.nodes = 1 << 16};
    const sw_limits limits = sw_limits_resolve(&few);
    *r = (swi_mesh_reader){.tf = tf, .out = out, .arena = arena, .left = SWI_MESH_RANKS_ALL_MAX};
    sw_status st = swi_names_make(&r->nodes, err);
    if (st == SW_OK)
        st = swi_names_make(&r->contents, err);
    if (st == SW_OK)
        st = swi_graph_make(&limits, &r->carried, err);
    if (st == SW_OK)
        st = swi_torch_carry_begin(&r->carrier, tf, reader, SWI_TORCH_CARRIED_MAX, err);
    return st;
}

void swi_mesh_reader_end(swi_mesh_reader *r)
{
    swi_torch_carry_end(&r->carrier);
    sw_value_graph_free(r->carried);
    swi_names_free(r->nodes);
    swi_names_free(r->contents);
    free(r->mesh_of);
    *r = (swi_mesh_reader){0};
}

void swi_meshes_free(swi_meshes *meshes)
{
    free(meshes->at);
    *meshes = (swi_meshes){0};
}

int64_t swi_mesh_number(const swi_mesh *mesh, int64_t rank)
{
    if (rank >= 0 && (uint64_t)rank < mesh->count && mesh->ranks[rank] == rank)
        return rank; /* mostly at its place */
    for (uint64_t i = 0; i < mesh->count; i++)
        if (mesh->ranks[i] == rank)
            return (int64_t)i;
    return -1;
}

/* ---- tensors of ranks ---------------------------------------------------------------------- */

/* The bytes of the storage that a tensor is a view of, compared with their CRC-32. */
static sw_status storage_of(swi_mesh_reader *r, sw_value tensor, swi_torch_carried *out,
                            sw_error *err)
{
    const sw_value_graph *g = swi_torch_graph(r->tf);
    sw_value_object o;
    sw_value storage, carried;
    bool replaced = false;
    sw_status st = SW_OK;
    if (sw_value_get_object(g, tensor, &o) && sw_value_item(g, o.args, 0, &storage))
        st = swi_torch_carry_map(&r->carrier, g, storage, r->carried, &replaced, &carried, err);
    if (st == SW_OK && (!replaced || !swi_torch_carried_storage(r->carried, carried, out)))
        st = swi_fail(err, SW_ERR_UNSUPPORTED,
                      "the ranks of its mesh lie in a storage that is not read here");
    return st;
}

/* TV-3: whole numbers of 32 or 64 bits, at any strides. */
static sw_status read_ranks(swi_mesh_reader *r, sw_value v, rank_list *out, sw_error *err)
{
    swi_torch_tensor t;
    swi_torch_carried storage;
    rank_list list = {0};
    sw_status st = swi_torch_get_tensor(r->tf, v, &t, err);
    if (st != SW_OK)
        return swi_error_prefix(err, "the ranks of its mesh");
    if (t.dtype != SW_I32 && t.dtype != SW_I64)
        return swi_fail(err, SW_ERR_UNSUPPORTED, "a mesh whose ranks are of %s",
                        sw_dtype_name(t.dtype));
    if (t.elements > SWI_MESH_RANKS_MAX || t.elements > r->left)
        return swi_fail(err, SW_ERR_LIMIT, "meshes of more than %" PRIu64 " ranks",
                        SWI_MESH_RANKS_MAX);
    r->left -= t.elements;
    st = storage_of(r, v, &storage, err);
    if (st == SW_OK)
        st = swi_alloc_array(t.elements, sizeof *list.at, (void **)&list.at, err);
    if (st != SW_OK)
        return st;
    const size_t element = sw_dtype_bytes(t.dtype);
    for (uint64_t i = 0; i < t.elements; i++) {
        uint64_t at = t.start_elements, left = i;
        for (uint32_t k = t.axes; k-- > 0; left /= (uint64_t)t.shape[k])
            at += left % (uint64_t)t.shape[k] * (uint64_t)t.stride_elements[k];
        swi_cursor c = swi_cursor_make(storage.data + at * element, element);
        uint32_t narrow = 0;
        uint64_t wide = 0;
        if (element == 4 ? swi_get_u32le(&c, &narrow) : swi_get_u64le(&c, &wide))
            list.at[i] = element == 4 ? (int64_t)(int32_t)narrow : (int64_t)wide;
    }
    list.count = t.elements;
    list.axes = t.axes;
    memcpy(list.shape, t.shape, sizeof list.shape);
    *out = list;
    return SW_OK;
}

/* ---- layouts: torch 2.9 and later ----------------------------------------------------------- */

static bool number(const sw_value_graph *g, sw_value v, uint64_t *out)
{
    int64_t n;
    if (!sw_value_int(g, v, &n) || n < 0)
        return false;
    *out = (uint64_t)n;
    return true;
}

/* The tuple or list that something is, also in a torch.Size; false: it is none. */
static bool sequence(const sw_value_graph *g, sw_value v, sw_value *out)
{
    sw_value_object o;
    if (swi_value_is_call(g, v, "torch", "Size") &&
        (!sw_value_get_object(g, v, &o) || !sw_value_item(g, o.args, 0, &v)))
        return false;
    sw_value_kind kind = sw_value_get_kind(g, v);
    *out = v;
    return kind == SW_VALUE_TUPLE || kind == SW_VALUE_LIST;
}

/* One more axis: a shape and a stride, or as many of each when it was made of several. */
static bool add_axis(const sw_value_graph *g, sw_value shape, sw_value stride, mesh_layout *l)
{
    sw_value shapes, strides, n = shape, by = stride;
    const bool many = sequence(g, shape, &shapes);
    const size_t flats = many ? sw_value_size(g, shapes) : 1;
    uint64_t size = 1;
    if (l->axes == SWI_MESH_AXES_MAX || flats > FLATS_MAX - l->flats ||
        (many && (!sequence(g, stride, &strides) || sw_value_size(g, strides) != flats)))
        return false;
    for (size_t i = 0; i < flats; i++, l->flats++) {
        if ((many && (!sw_value_item(g, shapes, i, &n) || !sw_value_item(g, strides, i, &by))) ||
            !number(g, n, &l->shape[l->flats]) || !number(g, by, &l->stride[l->flats]) ||
            l->shape[l->flats] == 0 || !swi_mul_u64(size, l->shape[l->flats], &size))
            return false;
    }
    l->size[l->axes++] = size;
    return swi_mul_u64(l->count, size, &l->count) && l->count <= SWI_MESH_RANKS_MAX;
}

/* Torch 2.9 and 2.10: the shapes of all axes, and their strides; of one axis also bare numbers. */
static bool add_axes(const sw_value_graph *g, sw_value shape, sw_value stride, mesh_layout *l)
{
    sw_value shapes, strides, n, by;
    if (!sequence(g, shape, &shapes))
        return add_axis(g, shape, stride, l);
    if (!sequence(g, stride, &strides) || sw_value_size(g, strides) != sw_value_size(g, shapes))
        return false;
    for (size_t i = 0; sw_value_item(g, shapes, i, &n) && sw_value_item(g, strides, i, &by); i++)
        if (!add_axis(g, n, by, l))
            return false;
    return true;
}

/* TV-4: since 2.11 a list of axes, each with a shape and a stride. */
static bool read_layout(const sw_value_graph *g, sw_value v, mesh_layout *out)
{
    mesh_layout l = {.count = 1};
    sw_value axes, axis, shape, stride;
    if (!swi_attribute(g, v, "axes", &axes)) {
        if (!swi_attribute(g, v, "shape", &shape) || !swi_attribute(g, v, "stride", &stride) ||
            !add_axes(g, shape, stride, &l))
            return false;
    } else {
        if (!sequence(g, axes, &axes))
            return false;
        for (size_t i = 0; sw_value_item(g, axes, i, &axis); i++)
            if (!swi_attribute(g, axis, "shape", &shape) ||
                !swi_attribute(g, axis, "stride", &stride) || !add_axis(g, shape, stride, &l))
                return false;
    }
    *out = l;
    return true;
}

static bool find_rank(const rank_list *map, int64_t rank, uint64_t *at)
{
    for (uint64_t i = 0; i < map->count; i++)
        if (map->at[i] == rank) {
            *at = i;
            return true;
        }
    return false;
}

/*
 * TV-5: a part of a rank map may lie at several places in it. This one is where the rank is that
 * saved the file: its strides divide each other, so each coordinate can be read off. Before 2.11
 * that rank is not told, but the ranks of the mesh are listed.
 */
static sw_status find_base(const sw_value_graph *g, sw_value mesh, const mesh_layout *l,
                           const rank_list *map, uint64_t *base, sw_error *err)
{
    sw_value v, list;
    int64_t rank;
    uint64_t own, from = 0;
    *base = 0;
    if (l->count == map->count)
        return SW_OK;
    if (swi_attribute(g, mesh, "_rank", &v) && sw_value_int(g, v, &rank) &&
        find_rank(map, rank, &own)) {
        for (uint32_t f = 0; f < l->flats; f++)
            if (l->stride[f] > 0)
                from += own / l->stride[f] % l->shape[f] * l->stride[f];
    } else if (!swi_attribute(g, mesh, "_flatten_mesh_list", &v) || !sequence(g, v, &list) ||
               !sw_value_item(g, list, 0, &v) || !sw_value_int(g, v, &rank) ||
               !find_rank(map, rank, &own)) {
        return swi_fail(err, SW_ERR_UNSUPPORTED,
                        "a part of a mesh of which nothing tells which part it is");
    }
    if (!swi_sub_u64(own, from, base))
        return swi_fail(err, SW_ERR_CORRUPT, "a mesh whose axes overlap");
    return SW_OK;
}

static sw_status spread(const mesh_layout *l, uint64_t base, const rank_list *map, int64_t **out,
                        sw_error *err)
{
    int64_t *ranks = NULL;
    sw_status st = swi_alloc_array(l->count, sizeof *ranks, (void **)&ranks, err);
    for (uint64_t i = 0; st == SW_OK && i < l->count; i++) {
        uint64_t at = base, left = i, way;
        for (uint32_t f = l->flats; f-- > 0; left /= l->shape[f])
            if (!swi_mul_u64(left % l->shape[f], l->stride[f], &way) || !swi_add_u64(at, way, &at))
                at = UINT64_MAX;
        if (at < map->count)
            ranks[i] = map->at[at];
        else
            st = swi_fail(err, SW_ERR_CORRUPT, "a mesh that reaches beyond its %" PRIu64 " ranks",
                          map->count);
    }
    if (st != SW_OK) {
        free(ranks);
        return st;
    }
    *out = ranks;
    return SW_OK;
}

/* ---- a mesh -------------------------------------------------------------------------------- */

/* TV-4: by `_layout` and `_rank_map`. The ranks are the caller's to free. */
static sw_status read_mapped(swi_mesh_reader *r, sw_value v, sw_value layout, swi_mesh *m,
                             int64_t **ranks, sw_error *err)
{
    const sw_value_graph *g = swi_torch_graph(r->tf);
    mesh_layout l;
    rank_list map = {0};
    sw_value list;
    uint64_t base;
    if (!read_layout(g, layout, &l) || !swi_attribute(g, v, "_rank_map", &list))
        return swi_fail(err, SW_ERR_UNSUPPORTED, "a mesh whose layout is not understood");
    sw_status st = read_ranks(r, list, &map, err);
    if (st == SW_OK && l.count > r->left)
        st = swi_fail(err, SW_ERR_LIMIT, "meshes of more than %" PRIu64 " ranks",
                      SWI_MESH_RANKS_ALL_MAX);
    if (st == SW_OK)
        st = find_base(g, v, &l, &map, &base, err);
    if (st == SW_OK)
        st = spread(&l, base, &map, ranks, err);
    if (st == SW_OK) {
        r->left -= l.count;
        m->axes = l.axes;
        memcpy(m->size, l.size, sizeof m->size);
        m->count = l.count;
    }
    free(map.at);
    return st;
}

/* TV-4: by `mesh`, before 2.9; likewise. */
static sw_status read_plain(swi_mesh_reader *r, sw_value tensor, swi_mesh *m, int64_t **ranks,
                            sw_error *err)
{
    rank_list list;
    sw_status st = read_ranks(r, tensor, &list, err);
    if (st != SW_OK)
        return st;
    *ranks = list.at;
    if (list.axes > SWI_MESH_AXES_MAX)
        return swi_fail(err, SW_ERR_UNSUPPORTED, "a mesh of %u axes", list.axes);
    m->count = list.count;
    m->axes = list.axes;
    for (uint32_t a = 0; a < list.axes; a++)
        m->size[a] = (uint64_t)list.shape[a];
    return SW_OK;
}

/* TV-6: the rank that saved the file, where the mesh tells it, or at which coordinates it is. */
static int64_t own_rank(const sw_value_graph *g, sw_value v, const swi_mesh *m,
                        const int64_t *ranks)
{
    sw_value where;
    int64_t rank, coordinate[SWI_MESH_AXES_MAX];
    uint32_t count;
    uint64_t at = 0;
    if (swi_attribute(g, v, "_rank", &where) && sw_value_int(g, where, &rank))
        return rank >= 0 ? rank : -1;
    if (!swi_attribute(g, v, "_coordinate_on_dim", &where) ||
        !swi_sizes(g, where, SWI_MESH_AXES_MAX, coordinate, &count) || count != m->axes)
        return -1;
    for (uint32_t a = 0; a < count; a++) {
        if ((uint64_t)coordinate[a] >= m->size[a])
            return -1;
        at = at * m->size[a] + (uint64_t)coordinate[a];
    }
    return ranks[at];
}

static int by_rank(const void *a, const void *b)
{
    const int64_t *x = a, *y = b;
    return *x < *y ? -1 : *x > *y;
}

/* TV-3: of ranks in order, none is negative and each is there once. */
static sw_status check_sorted(const int64_t *ranks, uint64_t count, sw_error *err)
{
    if (ranks[0] < 0)
        return swi_fail(err, SW_ERR_CORRUPT, "a mesh with rank %" PRId64, ranks[0]);
    for (uint64_t i = 1; i < count; i++)
        if (ranks[i] == ranks[i - 1])
            return swi_fail(err, SW_ERR_CORRUPT, "a mesh that has rank %" PRId64 " twice",
                            ranks[i]);
    return SW_OK;
}

static sw_status check_ranks(const int64_t *ranks, uint64_t count, sw_error *err)
{
    int64_t *sorted = NULL;
    uint64_t ordered = 1;
    if (count == 0)
        return swi_fail(err, SW_ERR_CORRUPT, "a mesh of no ranks");
    while (ordered < count && ranks[ordered] >= ranks[ordered - 1])
        ordered++;
    if (ordered == count) /* as they mostly are, in meshes that come by the hundred */
        return check_sorted(ranks, count, err);
    sw_status st = swi_alloc_array(count, sizeof *sorted, (void **)&sorted, err);
    if (st != SW_OK)
        return st;
    memcpy(sorted, ranks, count * sizeof *ranks);
    qsort(sorted, count, sizeof *sorted, by_rank);
    st = check_sorted(sorted, count, err);
    free(sorted);
    return st;
}

/* Names are shown and compared, nothing depends on them: what is no text is none. */
static sw_status read_names(swi_mesh_reader *r, sw_value v, swi_mesh *m, sw_error *err)
{
    const sw_value_graph *g = swi_torch_graph(r->tf);
    sw_value names, name;
    const uint8_t *text;
    size_t size;
    sw_status st = SW_OK;
    if (!swi_attribute(g, v, "_mesh_dim_names", &names) &&
        !swi_attribute(g, v, "mesh_dim_names", &names))
        return SW_OK;
    for (uint32_t a = 0; st == SW_OK && a < m->axes && sw_value_item(g, names, a, &name); a++)
        if (sw_value_get_kind(g, name) == SW_VALUE_STR && sw_value_bytes(g, name, &text, &size) &&
            size <= NAME_MAX_BYTES)
            st = swi_arena_text(r->arena, (const char *)text, size, &m->name[a], err);
    return st;
}

/* What is in a mesh as bytes: equal ones are one mesh. */
static sw_status contents_of(const swi_mesh *m, const int64_t *ranks, swi_buf *key, sw_error *err)
{
    sw_status st = swi_buf_append(key, &m->axes, sizeof m->axes, err);
    if (st == SW_OK)
        st = swi_buf_append(key, m->size, sizeof m->size, err);
    if (st == SW_OK)
        st = swi_buf_append(key, &m->rank, sizeof m->rank, err);
    for (uint32_t a = 0; st == SW_OK && a < m->axes; a++) {
        st = swi_buf_u8(key, m->name[a] != NULL, err);
        if (st == SW_OK && m->name[a] != NULL)
            st = swi_buf_append(key, m->name[a], strlen(m->name[a]) + 1, err);
    }
    return st == SW_OK ? swi_buf_append(key, ranks, m->count * sizeof *ranks, err) : st;
}

static sw_status add_mesh(swi_mesh_reader *r, swi_mesh *m, const int64_t *ranks, uint32_t *index,
                          sw_error *err)
{
    swi_buf key = {0};
    void *kept;
    bool is_new = false;
    sw_status st = contents_of(m, ranks, &key, err);
    if (st == SW_OK)
        st = swi_names_add(r->contents, key.data, key.size, index, &is_new, err);
    swi_buf_free(&key);
    if (st != SW_OK || !is_new)
        return st;
    st = swi_grow_array((void **)&r->out->at, &r->capacity, (size_t)*index + 1, sizeof *m, err);
    if (st == SW_OK)
        st = swi_arena_alloc(r->arena, m->count * sizeof *ranks, &kept, err);
    if (st != SW_OK)
        return st;
    memcpy(kept, ranks, m->count * sizeof *ranks);
    m->ranks = kept;
    r->out->at[*index] = *m;
    r->out->count = (size_t)*index + 1;
    return SW_OK;
}

static sw_status read_new(swi_mesh_reader *r, sw_value v, uint32_t *index, sw_error *err)
{
    const sw_value_graph *g = swi_torch_graph(r->tf);
    swi_mesh m = {.rank = -1};
    int64_t *ranks = NULL;
    sw_value from;
    sw_status st;
    if (swi_attribute(g, v, "_layout", &from))
        st = read_mapped(r, v, from, &m, &ranks, err);
    else if (swi_attribute(g, v, "mesh", &from))
        st = read_plain(r, from, &m, &ranks, err);
    else
        st = swi_fail(err, SW_ERR_UNSUPPORTED, "a mesh in a form that is not understood");
    if (st == SW_OK)
        st = check_ranks(ranks, m.count, err);
    if (st == SW_OK)
        m.rank = own_rank(g, v, &m, ranks);
    if (st == SW_OK)
        st = read_names(r, v, &m, err);
    if (st == SW_OK)
        st = add_mesh(r, &m, ranks, index, err);
    free(ranks);
    return st;
}

sw_status swi_mesh_read(swi_mesh_reader *r, sw_value v, uint32_t *index, sw_error *err)
{
    int64_t known = swi_names_find(r->nodes, &v.bits, sizeof v.bits);
    uint32_t node;
    if (known >= 0) {
        *index = r->mesh_of[known];
        return SW_OK;
    }
    sw_status st = read_new(r, v, index, err);
    if (st == SW_OK)
        st = swi_grow_array((void **)&r->mesh_of, &r->mesh_of_capacity,
                            (size_t)swi_names_count(r->nodes) + 1, sizeof *r->mesh_of, err);
    if (st == SW_OK)
        st = swi_names_add(r->nodes, &v.bits, sizeof v.bits, &node, NULL, err);
    if (st == SW_OK)
        r->mesh_of[node] = *index;
    return st;
}
