#include "torch/placements.h"

#include <inttypes.h>
#include <string.h>

#include "base/error.h"

bool swi_placed_divides(const swi_placements *p, uint32_t axis, uint32_t dim)
{
    const swi_placement_kind kind = p->at[axis].kind;
    return (kind == SWI_SHARD || kind == SWI_STRIDED_SHARD) && p->at[axis].dim == dim;
}

/*
 * The axes of the mesh that divide dimension d, in the order in which they do: plain ones from left
 * to right, then strided ones from right to left, each of which says how many parts there are then.
 */
static sw_status order_of(const swi_placements *p, uint32_t d, uint32_t order[SWI_MESH_AXES_MAX],
                          uint32_t *count, sw_error *err)
{
    uint32_t plain = 0, n = 0;
    for (uint32_t a = 0; a < p->axes; a++)
        if (p->at[a].kind == SWI_SHARD && p->at[a].dim == d)
            order[plain++] = a;
    n = plain;
    for (uint32_t a = p->axes; a-- > 0;) {
        uint64_t parts = 1;
        if (p->at[a].kind != SWI_STRIDED_SHARD || p->at[a].dim != d)
            continue;
        for (uint32_t b = a + 1; b < p->axes; b++)
            if (swi_placed_divides(p, b, d))
                parts *= p->size[b];
        if (parts != p->at[a].split_factor)
            return swi_fail(err, SW_ERR_UNSUPPORTED,
                            "a strided placement of %" PRIu64 " over %" PRIu64
                            " parts: its order is not known here",
                            p->at[a].split_factor, parts);
        order[n++] = a;
    }
    *count = n;
    return SW_OK;
}

sw_status swi_placed_box(const swi_placements *p, uint64_t number, uint32_t axes,
                         const int64_t *shape, int64_t *offset, int64_t *length, sw_error *err)
{
    uint64_t coordinate[SWI_MESH_AXES_MAX];
    for (uint32_t a = p->axes; a-- > 0; number /= p->size[a])
        coordinate[a] = number % p->size[a];
    for (uint32_t d = 0; d < axes; d++) {
        uint32_t order[SWI_MESH_AXES_MAX], count = 0;
        sw_status st = order_of(p, d, order, &count, err);
        if (st != SW_OK)
            return st;
        offset[d] = 0;
        length[d] = shape[d];
        for (uint32_t i = 0; i < count; i++)
            swi_chunk(p->size[order[i]], coordinate[order[i]], &offset[d], &length[d]);
    }
    return SW_OK;
}

void swi_place_axes(const swi_cut_axis *axes, uint32_t count, swi_placements *out)
{
    *out = (swi_placements){.axes = count};
    for (uint32_t a = 0; a < count; a++) {
        uint64_t factor = 1;
        out->size[a] = axes[a].size;
        if (!axes[a].splits)
            continue;
        for (uint32_t b = a + 1; b < count; b++)
            if (axes[b].splits && axes[b].dim == axes[a].dim && axes[b].turn < axes[a].turn)
                factor *= axes[b].size;
        out->at[a] = (swi_placement){.kind = factor > 1 ? SWI_STRIDED_SHARD : SWI_SHARD,
                                     .dim = axes[a].dim,
                                     .split_factor = factor};
    }
}

static bool is_box(const swi_local *local, uint32_t axes, const int64_t *offset,
                   const int64_t *length)
{
    bool empty = false;
    if (local->axes != axes || local->count > 1)
        return false;
    for (uint32_t k = 0; k < axes; k++) {
        empty = empty || length[k] == 0;
        if (local->shape[k] != length[k])
            return false;
    }
    return empty || memcmp(local->parts[0].offset, offset, axes * sizeof *offset) == 0;
}

bool swi_placed_is_cut(const swi_placements *placements, const swi_cut *cut, uint32_t axes,
                       const int64_t *shape)
{
    const uint64_t ranks = cut->holdings * cut->copies;
    for (uint64_t rank = 0; rank < ranks; rank++) {
        int64_t offset[SW_MAX_AXES], length[SW_MAX_AXES];
        swi_local local;
        swi_cut_local(cut, swi_cut_of_rank(cut, rank), &local);
        if (swi_placed_box(placements, rank, axes, shape, offset, length, NULL) != SW_OK ||
            !is_box(&local, axes, offset, length))
            return false;
    }
    return true;
}
