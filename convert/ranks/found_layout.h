/*
 * The layout that a checkpoint's pieces have: found by trying meshes and rules, and telling the
 * simplest that gives exactly these boxes to these ranks. Clause LAY-8 of specs/notation.md.
 */
#ifndef SW_CONVERT_FOUND_LAYOUT_H
#define SW_CONVERT_FOUND_LAYOUT_H

#include "base/arena.h"
#include "base/buf.h"
#include "framework.h"
#include "notation/division.h"

#define SWI_FOUND_AXES 3U  /* of a mesh that is tried */
#define SWI_FOUND_DIMS 4U  /* the first of a tensor, that may be split */
#define SWI_FOUND_WAYS 256 /* to split by so many axes */

/* One way to split a tensor: axes, each along a dimension, in the order in which they do. */
typedef struct swi_found_way {
    uint32_t count, axis[SWI_FOUND_AXES], dim[SWI_FOUND_AXES];
} swi_found_way;

typedef struct swi_ways {
    uint64_t bits[SWI_FOUND_WAYS / 64];
} swi_ways;

typedef struct swi_found_tensor {
    uint32_t id;
    const char *name;     /* in the module; borrowed from the checkpoint */
    swi_ways fits;        /* the ways that give exactly its pieces */
    const int64_t *parts; /* with these parts of the first dimension that is split (LAY-3) */
    size_t part_count;    /* 0: it is no row of parts */
} swi_found_tensor;

typedef struct swi_found {
    uint64_t ranks, pieces;
    uint32_t axes;
    uint64_t size[SWI_FOUND_AXES];
    swi_found_way ways[SWI_FOUND_WAYS]; /* of so many axes, those of few splits first */
    size_t way_count;
    swi_found_tensor *tensors; /* parameters of the model that have dimensions and elements */
    size_t count, explained;
    swi_arena arena; /* of the parts */
} swi_found;

SW_MUST_USE sw_status swi_find_layout(const sw_checkpoint *checkpoint, swi_found *out,
                                      sw_error *err);
void swi_found_end(swi_found *found);
/* As a document of the notation; *untold: tensors that no rule describes. */
SW_MUST_USE sw_status swi_found_text(const swi_found *found, swi_buf *out, size_t *untold,
                                     sw_error *err);

/* "a>b, _, c": what stands in `dims: [...]`. */
SW_MUST_USE sw_status swi_found_dims(const swi_found_way *way, const char *const *names,
                                     swi_buf *out, sw_error *err);
bool swi_ways_any(const swi_ways *ways);
bool swi_ways_has(const swi_ways *ways, size_t way);

#endif
