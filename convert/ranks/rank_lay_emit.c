/* The objects of files of ranks: the state dict with the parts of one rank in it (RF-22, RF-23). */
#include <inttypes.h>
#include <string.h>

#include "base/checked.h"
#include "base/text.h"
#include "model/value.h"
#include "ranks/rank_laying.h"
#include "torch/placements.h"
#include "torch/torch_storages.h"

/* ---- what a rank holds -------------------------------------------------------------------------
 */

void swi_rank_local(const swi_rank_entry *e, uint32_t rank, swi_local *out)
{
    if (e->of_rank != UINT32_MAX && e->of_rank != rank) {
        *out = (swi_local){.axes = 1};
        return;
    }
    if (e->how.form != SWI_RANK_WHOLE) {
        swi_cut_local(&e->how.cut, swi_cut_of_rank(&e->how.cut, rank), out);
        return;
    }
    uint64_t elements = 1;
    out->axes = e->axes;
    memcpy(out->view, e->shape, sizeof out->view);
    memcpy(out->shape, e->shape, sizeof out->shape);
    memset(&out->parts[0], 0, sizeof out->parts[0]);
    memcpy(out->parts[0].length, e->shape, sizeof e->shape);
    for (uint32_t k = 0; k < e->axes; k++)
        elements *= e->shape[k] != 0;
    out->count = elements > 0;
}

bool swi_rank_cut_same(const swi_rank_cut *a, const swi_rank_cut *b)
{
    return a->form == b->form &&
           (a->form == SWI_RANK_WHOLE ||
            (a->cut.rule == b->cut.rule && a->cut.holdings == b->cut.holdings));
}

/* ---- meshes and placements ---------------------------------------------------------------------
 */

/* The axes of more than one rank; of a mesh of one rank the first that splits. */
static uint32_t kept_axes(const swi_cut_axis *axes, uint32_t count, uint32_t *kept)
{
    uint32_t n = 0, first = 0;
    for (uint32_t a = 0; a < count; a++)
        if (axes[a].size > 1)
            kept[n++] = a;
    while (n == 0 && first + 1 < count && !axes[first].splits)
        first++;
    if (n == 0)
        kept[n++] = first;
    return n;
}

static sw_status find_mesh(swi_rank_plan *plan, uint32_t number, const swi_cut_axis *axes,
                           uint32_t count, uint32_t *out, sw_error *err)
{
    for (*out = 0; *out < plan->mesh_count; (*out)++)
        if (plan->meshes[*out].number == number)
            return SW_OK;
    if (plan->mesh_count == SWI_TORCH_OUT_MESHES)
        return swi_fail(err, SW_ERR_LIMIT, "more than %u meshes in one file", SWI_TORCH_OUT_MESHES);
    swi_rank_mesh made = {.number = number};
    made.out.axes = kept_axes(axes, count, made.axis);
    made.out.device = plan->in.device;
    made.out.number = plan->mesh_count;
    for (uint32_t a = 0; a < made.out.axes; a++) {
        made.out.size[a] = axes[made.axis[a]].size;
        made.out.names[a] = axes[made.axis[a]].name;
        if (number == 0)
            made.out.names[a] =
                plan->in.axis_names != NULL ? plan->in.axis_names[made.axis[a]] : NULL;
    }
    plan->meshes[plan->mesh_count++] = made;
    return SW_OK;
}

/* Those of a tensor, and the same as whoever writes them has them. */
static swi_placements place_axes(const swi_rank_mesh *mesh, const swi_cut_axis *all,
                                 swi_torch_out_placement *out)
{
    static const swi_torch_out_placing kinds[] = {[SWI_REPLICATE] = SWI_TORCH_REPLICATE,
                                                  [SWI_SHARD] = SWI_TORCH_SHARD,
                                                  [SWI_STRIDED_SHARD] = SWI_TORCH_STRIDED_SHARD};
    swi_cut_axis axes[SWI_MESH_AXES_MAX];
    swi_placements placed;
    for (uint32_t a = 0; a < mesh->out.axes; a++)
        axes[a] = all[mesh->axis[a]];
    swi_place_axes(axes, mesh->out.axes, &placed);
    for (uint32_t a = 0; a < placed.axes; a++)
        out[a] = (swi_torch_out_placement){.kind = kinds[placed.at[a].kind],
                                           .dim = placed.at[a].dim,
                                           .split_factor = placed.at[a].split_factor};
    return placed;
}

static sw_status no_dtensor(const swi_rank_entry *e, sw_error *err)
{
    swi_quoted q;
    return swi_fail_at(
        err, SW_ERR_UNSUPPORTED, "RF-22", 0,
        "tensor \"%s\" is divided as no placements of a DTensor say: axes divide a "
        "dimension as torch.chunk does, each what those before it in the mesh leave, "
        "or (a later one first) all of it; use other dims, or files=dcp",
        swi_quote_str(&q, e->leaf->name));
}

sw_status swi_rank_place(swi_rank_plan *plan, swi_rank_entry *e, sw_error *err)
{
    swi_cut_axis axes[SWI_MESH_AXES_MAX];
    uint32_t number;
    const uint32_t count = swi_cut_axes(&e->how.cut, axes, &number);
    sw_status st = find_mesh(plan, number, axes, count, &e->mesh, err);
    if (st != SW_OK)
        return st;
    const swi_rank_mesh *mesh = &plan->meshes[e->mesh];
    const swi_placements read = place_axes(mesh, axes, e->placements);
    plan->meshes_needed = true;
    const bool of_all = e->of_rank == UINT32_MAX || plan->ranks == 1;
    return of_all && swi_placed_is_cut(&read, &e->how.cut, e->axes, e->shape) ? SW_OK
                                                                              : no_dtensor(e, err);
}

/* ---- the object --------------------------------------------------------------------------------
 */

typedef struct emitting {
    const swi_rank_plan *plan;
    const swi_rank_series *series;
    uint32_t rank;
    swi_torch_parts_emitter emitter;
    swi_torch_out_mesh meshes[SWI_TORCH_OUT_MESHES];
    swi_rank_carried *carried;
} emitting;

static sw_status emit_storage(emitting *e, swi_pickle_writer *w, const sw_value_graph *graph,
                              sw_value v, sw_error *err)
{
    swi_torch_carried storage;
    sw_status st = swi_torch_need_carried(graph, v, &storage, err);
    if (st == SW_OK)
        st = swi_grow_array((void **)&e->carried->items, &e->carried->capacity,
                            e->carried->count + 1, sizeof *e->carried->items, err);
    if (st != SW_OK)
        return st;
    const uint32_t before = e->series->count + e->plan->meshes_needed;
    const uint32_t number = before + (uint32_t)e->carried->count;
    e->carried->items[e->carried->count++] = storage;
    return swi_torch_emit_carried(&e->emitter.plain, w, &storage, number, err);
}

static void box_of(const void *ctx, uint64_t i, swi_torch_out_box *out)
{
    const swi_cut *cut = ctx;
    swi_local local;
    swi_cut_local(cut, i, &local);
    memset(out, 0, sizeof *out);
    memcpy(out->length, local.shape, sizeof out->length);
    if (local.count > 0)
        memcpy(out->offset, local.parts[0].offset, sizeof out->offset);
    out->rank = swi_cut_rank(cut, i, 0);
}

static sw_status emit_sharded(emitting *e, swi_pickle_writer *w, const swi_rank_entry *entry,
                              const swi_torch_out_tensor *local, sw_error *err)
{
    swi_cut_axis axes[SWI_MESH_AXES_MAX];
    uint32_t number, dim = 0;
    const uint32_t count = swi_cut_axes(&entry->how.cut, axes, &number);
    for (uint32_t a = 0; a < count; a++)
        if (axes[a].splits)
            dim = axes[a].dim;
    const swi_torch_out_sharded out = {.local = *local,
                                       .shape = entry->shape,
                                       .device = e->plan->in.device,
                                       .dim = dim,
                                       .boxes = entry->how.cut.holdings,
                                       .own = swi_cut_of_rank(&entry->how.cut, e->rank),
                                       .ranks = e->plan->ranks,
                                       .rank = e->rank,
                                       .box = box_of,
                                       .ctx = &entry->how.cut};
    return swi_torch_emit_sharded(&e->emitter, w, &out, err);
}

static sw_status emit_tensor(void *ctx, swi_pickle_writer *w, const sw_value_graph *graph,
                             sw_value v, sw_error *err)
{
    emitting *e = ctx;
    uint32_t tensor;
    swi_local local;
    if (!sw_value_tensor(graph, v, &tensor))
        return emit_storage(e, w, graph, v, err);
    const swi_rank_entry *entry = &e->plan->entries[e->plan->entry_of[tensor]];
    uint64_t elements = 0;
    swi_rank_local(entry, e->rank, &local);
    (void)swi_shape_elements(local.axes, local.shape, &elements);
    swi_piece dense = {.axes = local.axes};
    memcpy(dense.length, local.shape, sizeof dense.length);
    swi_piece_make_dense(&dense, 1);
    const swi_torch_out_tensor plain = {.dtype = entry->dtype,
                                        .storage = e->series->storage_of[entry->same_as],
                                        .storage_elements = elements,
                                        .axes = local.axes,
                                        .shape = local.shape,
                                        .stride_elements = dense.stride_bytes};
    if (entry->how.form == SWI_RANK_SHARDED)
        return emit_sharded(e, w, entry, &plain, err);
    if (entry->how.form != SWI_RANK_DTENSOR)
        return swi_torch_emit(&e->emitter.plain, w, &plain, err);
    const swi_torch_out_dtensor out = {.local = plain,
                                       .shape = entry->shape,
                                       .mesh = &e->meshes[entry->mesh],
                                       .placements = entry->placements};
    return swi_torch_emit_dtensor(&e->emitter, w, &out, err);
}

sw_status swi_rank_emit(const swi_rank_plan *plan, const swi_rank_series *series, uint32_t rank,
                        swi_buf *out, swi_rank_carried *carried, sw_error *err)
{
    emitting e = {.plan = plan,
                  .series = series,
                  .rank = rank,
                  .emitter.plain = {.form = SWI_TORCH_ZIP, .remembers = true},
                  .carried = carried};
    swi_pickle_writer w;
    for (uint32_t i = 0; i < plan->mesh_count; i++) {
        e.meshes[i] = plan->meshes[i].out;
        e.meshes[i].storage = series->count;
        swi_torch_out_mesh_number(&e.meshes[i], rank);
    }
    const sw_value root = series->root_of != NULL ? series->root_of[rank] : series->root;
    sw_status st = swi_pickle_begin(&w, out, 2, err);
    if (st == SW_OK)
        st = swi_pickle_emit(&w, plan->graph, root, emit_tensor, &e, err);
    return st == SW_OK ? swi_pickle_op(&w, '.', err) : st;
}
