/*
 * A native checkpoint as a target: tensors are cut over ranks by a layout or in rows, each part
 * into a grid of chunks, and each element is written once, by one of the ranks that hold it.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "codec/crc32.h"
#include "native/native.h"
#include "native/native_plan.h"
#include "source/held.h"
#include "target/leaf_division.h"
#include "target/model_config.h"
#include "target/st_file.h"
#include "target/target.h"
#include "torch/placements.h"

/* A leaf that is a tensor, by its name. */
typedef struct named_leaf {
    const char *name;
    const swi_state_part *leaf;
} named_leaf;

typedef struct laying {
    swi_target_in in; /* with the options that are left */
    swi_layout *layout;
    swi_native_plan *plan;
    swi_leaf_division division;
    bool keep; /* the division that the source has */
    swi_buf options;
    named_leaf *leaves; /* that are tensors, by table number */
} laying;

/* ---- options --------------------------------------------------------------------------------- */

static bool is_option(const char *text, size_t size, const char *name, const char **value,
                      size_t *value_size)
{
    size_t n = strlen(name);
    if (size <= n || memcmp(text, name, n) != 0 || text[n] != '=')
        return false;
    *value = text + n + 1;
    *value_size = size - n - 1;
    return true;
}

static sw_status parse_codec(const char *text, size_t size, swi_chunk_codec *out, sw_error *err)
{
    static const struct {
        const char *name;
        swi_chunk_codec codec;
    } known[] = {
        {"planes", SWI_CHUNK_PLANES}, {"zstd", SWI_CHUNK_ZSTD}, {"stored", SWI_CHUNK_STORED}};
    swi_quoted q;
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (strlen(known[i].name) == size && memcmp(known[i].name, text, size) == 0) {
            *out = known[i].codec;
            return SW_OK;
        }
    }
    return swi_fail(err, SW_ERR_ARG, "--to native:codec=%s: there are planes, zstd and stored",
                    swi_quote(&q, text, size));
}

static sw_status parse_level(const char *text, size_t size, int *out, sw_error *err)
{
    swi_quoted q;
    int n = 0;
    for (size_t i = 0; i < size && n < 100; i++)
        n = text[i] >= '0' && text[i] <= '9' ? n * 10 + (text[i] - '0') : 100;
    if (size == 0 || n < 1 || n > 19)
        return swi_fail(err, SW_ERR_ARG, "--to native:level=%s: zstd has the levels 1 to 19",
                        swi_quote(&q, text, size));
    *out = n;
    return SW_OK;
}

/* Where nothing else is asked for, ranks hold what they held in the source. */
static sw_status keep_division(laying *l, sw_error *err)
{
    const uint32_t ranks = swi_held_ranks(l->in.source);
    l->keep = ranks > 0 && l->options.size == 0 && l->in.rules == NULL;
    return l->keep ? swi_buf_printf(&l->options, err, "ranks=%" PRIu32, ranks) : SW_OK;
}

/* Takes codec= and level= out; what is left tells how ranks divide tensors. */
static sw_status take_options(laying *l, sw_error *err)
{
    const char *text = l->in.options;
    sw_status st = SW_OK;
    l->plan->choice = (swi_chunk_choice){.codec = SWI_CHUNK_PLANES};
    while (st == SW_OK && *text != '\0') {
        const char *value;
        size_t n = strcspn(text, ","), size;
        if (is_option(text, n, "codec", &value, &size))
            st = parse_codec(value, size, &l->plan->choice.codec, err);
        else if (is_option(text, n, "level", &value, &size))
            st = parse_level(value, size, &l->plan->choice.level, err);
        else
            st = swi_buf_printf(&l->options, err, "%s%.*s", l->options.size > 0 ? "," : "", (int)n,
                                text);
        text += n + (text[n] == ',');
    }
    if (st == SW_OK)
        st = keep_division(l, err);
    if (st == SW_OK)
        st = swi_buf_u8(&l->options, 0, err);
    l->in.options = (const char *)l->options.data;
    return st;
}

/* ---- tensors --------------------------------------------------------------------------------- */

static const swi_state_part *leaf_of(const laying *l, uint32_t i)
{
    return l->leaves[i].leaf;
}

static int by_bytes(const void *left, const void *right)
{
    return strcmp(((const named_leaf *)left)->name, ((const named_leaf *)right)->name);
}

static sw_status list_tensors(laying *l, sw_error *err)
{
    size_t count = 0;
    bool *met = NULL;
    sw_status st = swi_alloc_array(l->in.leaf_count, sizeof *l->leaves, (void **)&l->leaves, err);
    if (st == SW_OK)
        st = swi_alloc_array(sw_catalog_tensor_count(sw_checkpoint_catalog(l->in.source)),
                             sizeof *met, (void **)&met, err);
    for (size_t i = 0; st == SW_OK && i < l->in.leaf_count; i++) {
        const swi_chosen *c = l->in.leaves[i].tensor;
        if (c == NULL || met[c->source]) /* what stands in several places is there once */
            continue;
        met[c->source] = true;
        l->leaves[count++] = (named_leaf){c->name, &l->in.leaves[i]};
    }
    free(met);
    if (st == SW_OK)
        st = swi_native_plan_tensors(l->plan, (uint32_t)count, err);
    if (st != SW_OK)
        return st;
    if (count > 1)
        qsort(l->leaves, count, sizeof *l->leaves, by_bytes);
    for (uint32_t i = 0; i < count; i++) {
        const swi_chosen *c = leaf_of(l, i)->tensor;
        swi_native_tensor *t = &l->plan->tensors[i];
        sw_tensor_info info;
        swi_held held;
        sw_catalog_tensor(sw_checkpoint_catalog(l->in.source), c->source, &info);
        *t = (swi_native_tensor){.name = c->name,
                                 .name_size = strlen(c->name),
                                 .dtype = c->dtype,
                                 .role = info.role,
                                 .axes = info.axes};
        memcpy(t->shape, info.shape, sizeof t->shape);
        if (swi_held_tensor(l->in.source, c->source, &held) && held.partial) {
            t->axes = held.axes;
            memcpy(t->shape, held.shape, sizeof t->shape);
        }
    }
    return SW_OK;
}

/* ---- how tensors are divided ----------------------------------------------------------------- */

static void set_placements(const swi_placements *placed, swi_native_layout *out)
{
    static const swi_native_placement_kind kinds[] = {[SWI_REPLICATE] = SWI_NATIVE_REPLICATE,
                                                      [SWI_SHARD] = SWI_NATIVE_SHARD,
                                                      [SWI_STRIDED_SHARD] =
                                                          SWI_NATIVE_STRIDED_SHARD,
                                                      [SWI_PARTIAL] = SWI_NATIVE_PARTIAL};
    for (uint32_t a = 0; a < placed->axes; a++)
        out->at[a] = (swi_native_placement){.kind = kinds[placed->at[a].kind],
                                            .dim = placed->at[a].dim,
                                            .factor = placed->at[a].split_factor,
                                            .op = placed->at[a].op};
}

/* The mesh of the cut in the manifest; axes of one rank are left out unless all are. */
static sw_status find_layout(laying *l, const swi_cut *cut, const swi_native_tensor *t,
                             uint32_t *out, sw_error *err)
{
    swi_cut_axis all[SWI_MESH_AXES_MAX], axes[SWI_MESH_AXES_MAX];
    uint32_t number, count = 0;
    swi_placements placed;
    swi_native_mesh mesh = {0};
    swi_native_layout layout = {.kind = SWI_NATIVE_DTENSOR};
    const uint32_t given = swi_cut_axes(cut, all, &number);
    for (uint32_t a = 0; a < given; a++)
        if (all[a].size > 1 || (a + 1 == given && count == 0))
            axes[count++] = all[a];
    swi_place_axes(axes, count, &placed);
    mesh.axes = count;
    for (uint32_t a = 0; a < count; a++)
        mesh.axis[a] = (swi_native_axis){.name = axes[a].name, .size = axes[a].size};
    set_placements(&placed, &layout);
    if (cut->axes != t->axes)
        layout.kind = SWI_NATIVE_FLAT;
    else if (!swi_placed_is_cut(&placed, cut, t->axes, t->shape))
        layout.kind = SWI_NATIVE_BOXES;
    return swi_native_plan_layout(l->plan, &layout, &mesh, out, err);
}

/* That of the source. */
static sw_status held_layout(laying *l, const swi_held *held, uint32_t *out, sw_error *err)
{
    static const swi_native_layout_kind kinds[] = {[SWI_HELD_BOXES] = SWI_NATIVE_BOXES,
                                                   [SWI_HELD_FLAT] = SWI_NATIVE_FLAT,
                                                   [SWI_HELD_PLACED] = SWI_NATIVE_DTENSOR};
    swi_native_mesh mesh = {0};
    swi_native_layout layout = {.kind = kinds[held->kind]};
    if (held->kind == SWI_HELD_PLACED) {
        mesh.axes = held->placements.axes;
        set_placements(&held->placements, &layout);
    }
    for (uint32_t a = 0; a < mesh.axes; a++)
        mesh.axis[a] = (swi_native_axis){.name = held->names[a], .size = held->placements.size[a]};
    return swi_native_plan_layout(l->plan, &layout, &mesh, out, err);
}

/* A layout in which every rank has all of it. */
static sw_status whole_layout(laying *l, uint32_t *out, sw_error *err)
{
    swi_native_mesh mesh = {0};
    swi_native_layout layout = {.kind = SWI_NATIVE_DTENSOR};
    const size_t given = swi_division_axis_count(l->division.division);
    for (size_t a = 0; a < given; a++) {
        const swi_axis_size axis = swi_division_axis(l->division.division, a);
        if (axis.size > 1 || (a + 1 == given && mesh.axes == 0))
            mesh.axis[mesh.axes++] = (swi_native_axis){.name = axis.name, .size = axis.size};
    }
    return swi_native_plan_layout(l->plan, &layout, &mesh, out, err);
}

static uint32_t name_hash(const swi_native_tensor *t)
{
    return swi_crc32(0, t->name, t->name_size);
}

/* Adds what a rank writes of a tensor: its chunks are chosen here. */
static sw_status add_piece(laying *l, uint32_t rank, swi_native_piece *piece, sw_error *err)
{
    const swi_native_tensor *t = &l->plan->tensors[piece->tensor];
    swi_native_chunk_lengths(piece, piece->flat ? NULL : t->shape, sw_dtype_bytes(t->dtype));
    return swi_native_plan_piece(l->plan, rank, piece, err);
}

/* Part p of what a rank holds. */
static sw_status add_part(laying *l, uint32_t tensor, uint32_t rank, const swi_local *local,
                          size_t p, sw_error *err)
{
    swi_native_piece piece = {.tensor = tensor,
                              .flat = local->axes != l->plan->tensors[tensor].axes,
                              .axes = local->axes};
    memcpy(piece.offset, local->parts[p].offset, sizeof piece.offset);
    memcpy(piece.length, local->parts[p].length, sizeof piece.length);
    return add_piece(l, rank, &piece, err);
}

/* Each part goes to one of the ranks that hold it, as it is. */
static sw_status keep_tensor(laying *l, uint32_t tensor, const swi_held *held, sw_error *err)
{
    swi_native_tensor *t = &l->plan->tensors[tensor];
    sw_status st = held_layout(l, held, &t->layout, err);
    for (size_t i = 0; st == SW_OK && i < held->part_count; i++) {
        swi_held_part part;
        swi_held_part_at(l->in.source, leaf_of(l, tensor)->tensor->source, i, &part);
        const uint32_t rank = part.ranks[name_hash(t) % part.rank_count];
        swi_native_piece piece = {
            .tensor = tensor, .term = part.term, .flat = part.flat, .axes = part.axes};
        memcpy(piece.offset, part.offset, sizeof piece.offset);
        memcpy(piece.length, part.length, sizeof piece.length);
        st = add_piece(l, rank % l->division.ranks, &piece, err);
    }
    return st;
}

static sw_status divide_tensor(laying *l, uint32_t tensor, sw_error *err)
{
    swi_native_tensor *t = &l->plan->tensors[tensor];
    swi_local local;
    swi_held held;
    swi_cut cut;
    bool whole = false, empty = false;
    if (swi_held_tensor(l->in.source, leaf_of(l, tensor)->tensor->source, &held) &&
        (l->keep || held.partial))
        return keep_tensor(l, tensor, &held, err);
    for (uint32_t k = 0; k < t->axes; k++)
        empty = empty || t->shape[k] == 0;
    sw_status st = swi_leaf_cut(&l->division, leaf_of(l, tensor), &whole, &cut, err);
    if (st != SW_OK)
        return st;
    if (whole) {
        memset(&local, 0, sizeof local);
        local.axes = t->axes;
        local.count = empty ? 0 : 1;
        memcpy(local.parts[0].length, t->shape, sizeof t->shape);
        st = whole_layout(l, &t->layout, err);
        if (st == SW_OK && !empty)
            st = add_part(l, tensor, name_hash(t) % l->division.ranks, &local, 0, err);
        return st;
    }
    st = find_layout(l, &cut, t, &t->layout, err);
    for (uint64_t h = 0; st == SW_OK && h < cut.holdings; h++) {
        const uint64_t rank = swi_cut_rank(&cut, h, name_hash(t) % cut.copies);
        swi_cut_local(&cut, h, &local);
        for (size_t p = 0; st == SW_OK && p < local.count; p++)
            st = add_part(l, tensor, (uint32_t)rank, &local, p, err);
    }
    return st;
}

/* ---- laying ------------------------------------------------------------------------------------
 */

static sw_status lay_shards(laying *l, sw_error *err)
{
    sw_status st = SW_OK;
    for (uint32_t r = 0; st == SW_OK && r < l->division.ranks; r++)
        st = swi_native_plan_lay_shard(l->plan, r, l->layout, err);
    return st;
}

/* Terms that are not added up lie one behind the other in the source (swi_held.partial). */
static void move_to_term(const sw_tensor_info *all, const swi_native_tensor *t,
                         const swi_native_piece *piece, swi_piece *out)
{
    uint64_t elements = 0;
    (void)swi_shape_elements(t->axes, t->shape, &elements);
    if (all->elements == elements)
        return;
    out->view[0] = piece->flat ? (int64_t)all->elements : all->shape[0];
    if (t->axes == 0 && !piece->flat) {
        out->axes = 1;
        out->length[0] = 1;
        out->offset[0] = 0;
    }
    out->offset[0] +=
        (int64_t)piece->term * (piece->flat || t->axes == 0 ? (int64_t)elements : t->shape[0]);
}

/* A part of a tensor, chunk by chunk; *chunk: the number of its first one in the file. */
static sw_status lay_piece(const laying *l, const swi_native_writing *w,
                           const swi_native_piece *piece, uint64_t *chunk, sw_error *err)
{
    const swi_native_tensor *t = &l->plan->tensors[piece->tensor];
    const uint32_t element = sw_dtype_bytes(t->dtype);
    swi_piece made = {0};
    uint64_t chunks = 0, elements = 0;
    sw_tensor_info all;
    sw_status st = SW_OK;
    (void)sw_catalog_tensor(sw_checkpoint_catalog(l->in.source),
                            leaf_of(l, piece->tensor)->tensor->source, &all);
    (void)swi_native_grid_count(piece, element, &chunks);
    (void)swi_shape_elements(t->axes, t->shape, &elements);
    for (uint64_t c = 0; st == SW_OK && c < chunks; c++, (*chunk)++) {
        uint64_t at = *chunk > 0 ? w->chunk_ends[*chunk - 1] : 0;
        made.axes = piece->axes;
        memcpy(made.view, t->shape, sizeof made.view);
        if (piece->flat)
            made.view[0] = (int64_t)elements;
        swi_native_grid_box(piece, c, made.offset, made.length);
        move_to_term(&all, t, piece, &made);
        swi_piece_make_dense(&made, element);
        st = swi_layout_piece(l->layout, piece->tensor, w->file, at, w->chunk_ends[*chunk] - at,
                              &made, err);
    }
    return st;
}

static sw_status lay_pieces(const laying *l, const swi_native_writing *w, sw_error *err)
{
    uint64_t chunk = 0;
    sw_status st = SW_OK;
    for (size_t i = 0; st == SW_OK && i < w->piece_count; i++)
        st = lay_piece(l, w, &w->pieces[i], &chunk, err);
    return st;
}

/* The layout's tensors are those of the table, under the same numbers. */
static sw_status lay_tensors(laying *l, sw_error *err)
{
    sw_status st = SW_OK;
    for (uint32_t i = 0; st == SW_OK && i < l->plan->tensor_count; i++) {
        const swi_native_tensor *t = &l->plan->tensors[i];
        sw_tensor_info all;
        uint32_t id;
        sw_catalog_tensor(sw_checkpoint_catalog(l->in.source), leaf_of(l, i)->tensor->source, &all);
        const swi_tensor_in in = {.name = t->name,
                                  .name_size = t->name_size,
                                  .dtype = t->dtype,
                                  .axes = all.axes,
                                  .shape = all.shape,
                                  .role = t->role};
        st = swi_target_tensor(l->layout, &in, leaf_of(l, i)->tensor, &id, err);
    }
    for (uint32_t r = 0; st == SW_OK && r < l->division.ranks; r++)
        st = lay_pieces(l, &l->plan->ranks[r], err);
    return st;
}

static sw_status lay_beside(laying *l, sw_error *err)
{
    const swi_assets *assets = l->in.assets;
    sw_status st = swi_native_plan_lay_state(l->plan, &l->in, l->layout, err);
    for (size_t i = 0; st == SW_OK && assets != NULL && i < assets->count; i++)
        st = swi_native_plan_lay_asset(l->plan, assets->items[i].path, assets->items[i].data,
                                       assets->items[i].size, l->layout, err);
    return st;
}

static sw_status lay_out(laying *l, sw_error *err)
{
    const swi_leaf_division_in division = {.in = &l->in,
                                           .target = "native",
                                           .what = "a native checkpoint",
                                           .more_options = "codec=planes|zstd|stored, level=N",
                                           .flat_too = true};
    sw_status st = take_options(l, err);
    if (st == SW_OK)
        st = swi_leaf_division_make(&division, &l->division, err);
    if (st == SW_OK)
        st = swi_native_plan_ranks(l->plan, l->division.ranks, err);
    if (st == SW_OK)
        st = list_tensors(l, err);
    for (uint32_t i = 0; st == SW_OK && i < l->plan->tensor_count; i++)
        st = divide_tensor(l, i, err);
    if (st == SW_OK)
        st = swi_native_plan_values(l->plan, &l->in, err);
    if (st == SW_OK)
        st = lay_shards(l, err);
    if (st == SW_OK)
        st = lay_tensors(l, err);
    if (st == SW_OK)
        st = lay_beside(l, err);
    return st == SW_OK ? swi_leaf_division_say(&l->division, err) : st;
}

sw_status swi_native_layout_out(const swi_target_in *in, swi_layout *layout, sw_error *err)
{
    laying *l = NULL;
    bool given = false;
    sw_status st = swi_alloc_array(1, sizeof *l, (void **)&l, err);
    if (st != SW_OK)
        return st;
    l->in = *in;
    l->layout = layout;
    st = swi_native_plan_make(&l->plan, err);
    if (st == SW_OK)
        st = lay_out(l, err);
    if (st == SW_OK)
        st = swi_native_plan_lay_last(l->plan, layout, &given, err);
    if (!given)
        swi_native_plan_free(l->plan);
    swi_leaf_division_end(&l->division);
    swi_buf_free(&l->options);
    free(l->leaves);
    free(l);
    return st;
}
