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
#include "target/leaf_division.h"
#include "target/model_config.h"
#include "target/st_file.h"
#include "target/target.h"
#include "torch/placements.h"

typedef struct laying {
    swi_target_in in; /* with the options that are left */
    swi_layout *layout;
    swi_native_plan *plan;
    swi_leaf_division division;
    swi_buf options;
    uint32_t *by_name; /* leaves that are tensors, by table number */
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
        st = swi_buf_u8(&l->options, 0, err);
    l->in.options = (const char *)l->options.data;
    return st;
}

/* ---- tensors --------------------------------------------------------------------------------- */

static const swi_state_part *leaf_of(const laying *l, uint32_t i)
{
    return &l->in.leaves[l->by_name[i]];
}

/* Insertion of runs would do: names come nearly sorted, but not by bytes. */
static void sift(laying *l, size_t at, size_t count)
{
    for (size_t child; (child = 2 * at + 1) < count; at = child) {
        uint32_t *v = l->by_name;
        if (child + 1 < count && strcmp(leaf_of(l, (uint32_t)child)->tensor->name,
                                        leaf_of(l, (uint32_t)child + 1)->tensor->name) < 0)
            child++;
        if (strcmp(leaf_of(l, (uint32_t)at)->tensor->name,
                   leaf_of(l, (uint32_t)child)->tensor->name) >= 0)
            return;
        uint32_t swap = v[at];
        v[at] = v[child];
        v[child] = swap;
    }
}

static void sort_names(laying *l, size_t count)
{
    for (size_t i = count / 2; i > 0; i--)
        sift(l, i - 1, count);
    for (size_t i = count; i > 1; i--) {
        uint32_t swap = l->by_name[0];
        l->by_name[0] = l->by_name[i - 1];
        l->by_name[i - 1] = swap;
        sift(l, 0, i - 1);
    }
}

static sw_status list_tensors(laying *l, sw_error *err)
{
    size_t count = 0;
    bool *met = NULL;
    sw_status st = swi_alloc_array(l->in.leaf_count, sizeof *l->by_name, (void **)&l->by_name, err);
    if (st == SW_OK)
        st = swi_alloc_array(sw_catalog_tensor_count(sw_checkpoint_catalog(l->in.source)),
                             sizeof *met, (void **)&met, err);
    for (size_t i = 0; st == SW_OK && i < l->in.leaf_count; i++) {
        const swi_chosen *c = l->in.leaves[i].tensor;
        if (c == NULL || met[c->source]) /* what stands in several places is there once */
            continue;
        met[c->source] = true;
        l->by_name[count++] = (uint32_t)i;
    }
    free(met);
    if (st == SW_OK)
        st = swi_native_plan_tensors(l->plan, (uint32_t)count, err);
    if (st != SW_OK)
        return st;
    sort_names(l, count);
    for (uint32_t i = 0; i < count; i++) {
        const swi_chosen *c = leaf_of(l, i)->tensor;
        swi_native_tensor *t = &l->plan->tensors[i];
        sw_tensor_info info;
        sw_catalog_tensor(sw_checkpoint_catalog(l->in.source), c->source, &info);
        *t = (swi_native_tensor){.name = c->name,
                                 .name_size = strlen(c->name),
                                 .dtype = c->dtype,
                                 .role = info.role,
                                 .axes = info.axes};
        memcpy(t->shape, info.shape, sizeof t->shape);
    }
    return SW_OK;
}

/* ---- how tensors are divided ----------------------------------------------------------------- */

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
    for (uint32_t a = 0; a < count; a++) {
        static const swi_native_placement_kind kinds[] = {[SWI_REPLICATE] = SWI_NATIVE_REPLICATE,
                                                          [SWI_SHARD] = SWI_NATIVE_SHARD,
                                                          [SWI_STRIDED_SHARD] =
                                                              SWI_NATIVE_STRIDED_SHARD};
        mesh.axis[a] = (swi_native_axis){.name = axes[a].name, .size = axes[a].size};
        layout.at[a] = (swi_native_placement){.kind = kinds[placed.at[a].kind],
                                              .dim = placed.at[a].dim,
                                              .factor = placed.at[a].split_factor};
    }
    if (cut->axes != t->axes)
        layout.kind = SWI_NATIVE_FLAT;
    for (uint64_t r = 0; layout.kind == SWI_NATIVE_DTENSOR && r < l->division.ranks; r++) {
        int64_t offset[SW_MAX_AXES], length[SW_MAX_AXES];
        swi_local local;
        bool empty = false, same = true;
        swi_cut_local(cut, swi_cut_of_rank(cut, r), &local);
        if (local.count > 1 ||
            swi_placed_box(&placed, r, t->axes, t->shape, offset, length, NULL) != SW_OK) {
            layout.kind = SWI_NATIVE_BOXES;
            break;
        }
        for (uint32_t k = 0; k < t->axes; k++) {
            empty = empty || length[k] == 0;
            same = same && local.shape[k] == length[k];
        }
        if (!same || (!empty && local.count == 1 &&
                      memcmp(local.parts[0].offset, offset, t->axes * sizeof *offset) != 0))
            layout.kind = SWI_NATIVE_BOXES;
    }
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

/* Part p of what a rank holds. */
static sw_status add_part(laying *l, uint32_t tensor, uint32_t rank, const swi_local *local,
                          size_t p, sw_error *err)
{
    const swi_native_tensor *t = &l->plan->tensors[tensor];
    swi_native_piece piece = {
        .tensor = tensor, .flat = local->axes != t->axes, .axes = local->axes};
    memcpy(piece.offset, local->parts[p].offset, sizeof piece.offset);
    memcpy(piece.length, local->parts[p].length, sizeof piece.length);
    swi_native_chunk_lengths(&piece, piece.flat ? NULL : t->shape, sw_dtype_bytes(t->dtype));
    return swi_native_plan_piece(l->plan, rank, &piece, err);
}

static sw_status divide_tensor(laying *l, uint32_t tensor, sw_error *err)
{
    swi_native_tensor *t = &l->plan->tensors[tensor];
    swi_local local;
    swi_cut cut;
    bool whole = false, empty = false;
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

static sw_status lay_pieces(laying *l, uint32_t tensor, uint32_t id, sw_error *err)
{
    const swi_native_tensor *t = &l->plan->tensors[tensor];
    const uint32_t element = sw_dtype_bytes(t->dtype);
    sw_status st = SW_OK;
    for (uint32_t r = 0; st == SW_OK && r < l->division.ranks; r++) {
        swi_native_writing *w = &l->plan->ranks[r];
        for (; st == SW_OK && w->laid < w->piece_count && w->pieces[w->laid].tensor == tensor;
             w->laid++) {
            const swi_native_piece *piece = &w->pieces[w->laid];
            uint64_t chunks = 0;
            swi_piece made = {.axes = piece->axes};
            (void)swi_native_grid_count(piece, element, &chunks);
            if (piece->flat)
                (void)swi_shape_elements(t->axes, t->shape, (uint64_t *)&made.view[0]);
            else
                memcpy(made.view, t->shape, sizeof made.view);
            for (uint64_t c = 0; st == SW_OK && c < chunks; c++, w->chunk_laid++) {
                uint64_t at = w->chunk_laid > 0 ? w->chunk_ends[w->chunk_laid - 1] : 0;
                swi_native_grid_box(piece, c, made.offset, made.length);
                swi_piece_make_dense(&made, element);
                st = swi_layout_piece(l->layout, id, w->file, at, w->chunk_ends[w->chunk_laid] - at,
                                      &made, err);
            }
        }
    }
    return st;
}

static sw_status lay_tensors(laying *l, sw_error *err)
{
    sw_status st = SW_OK;
    for (uint32_t i = 0; st == SW_OK && i < l->plan->tensor_count; i++) {
        const swi_native_tensor *t = &l->plan->tensors[i];
        const swi_tensor_in in = {.name = t->name,
                                  .name_size = t->name_size,
                                  .dtype = t->dtype,
                                  .axes = t->axes,
                                  .shape = t->shape,
                                  .role = t->role};
        uint32_t id;
        st = swi_target_tensor(l->layout, &in, leaf_of(l, i)->tensor, &id, err);
        if (st == SW_OK)
            st = lay_pieces(l, i, id, err);
    }
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
    sw_status st = take_options(l, err);
    if (st == SW_OK)
        st = swi_leaf_division_make(&l->in, true, &l->division, err);
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
    free(l->by_name);
    free(l);
    return st;
}
