/* Where the part of a rank lies in a tensor that a DTensor's placements divide. */
#ifndef SW_CONVERT_PLACEMENTS_H
#define SW_CONVERT_PLACEMENTS_H

#include "notation/division.h"
#include "shardwright_format.h"

typedef enum swi_placement_kind {
    SWI_REPLICATE = 0,
    SWI_SHARD,
    SWI_STRIDED_SHARD, /* divides what later axes of the mesh divide first (FSDP over TP) */
    SWI_PARTIAL        /* each has a term of all of it, which are still to be reduced */
} swi_placement_kind;

typedef struct swi_placement {
    swi_placement_kind kind;
    uint32_t dim;          /* of the tensor: of SHARD and STRIDED_SHARD */
    uint64_t split_factor; /* of STRIDED_SHARD */
    const char *op;        /* of PARTIAL: "sum" */
} swi_placement;

/* A placement for each axis of a mesh. */
typedef struct swi_placements {
    uint32_t axes;                       /* of the mesh */
    uint64_t size[SWI_MESH_AXES_MAX];    /* of the mesh, each at least 1 */
    swi_placement at[SWI_MESH_AXES_MAX]; /* dim is checked by whoever fills it */
} swi_placements;

/* Whether an axis of the mesh divides dimension `dim`. */
bool swi_placed_divides(const swi_placements *placements, uint32_t axis, uint32_t dim);

/*
 * The box of the rank with this number in the mesh (row-major), as torch.chunk divides; it may be
 * empty. SW_ERR_UNSUPPORTED: a strided placement that is not the product of the later axes that
 * divide the same dimension.
 */
SW_MUST_USE sw_status swi_placed_box(const swi_placements *placements, uint64_t number,
                                     uint32_t axes, const int64_t *shape, int64_t *offset,
                                     int64_t *length, sw_error *err);

/*
 * The placements on a mesh of these axes of a cut: a plain shard divides what the axes before it
 * leave, a strided one what those behind it leave. Whether they place every rank's part where it is
 * is for swi_placed_box to tell.
 */
void swi_place_axes(const swi_cut_axis *axes, uint32_t count, swi_placements *out);

/* Whether the placements give every rank of the cut's division the one box that the cut gives it.
 */
bool swi_placed_is_cut(const swi_placements *placements, const swi_cut *cut, uint32_t axes,
                       const int64_t *shape);

#endif
