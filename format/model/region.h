/*
 * Geometry of many boxes of one view: are they disjoint, and what do they leave out. Nothing here
 * is all-pairs and nothing touches single elements, so that a million boxes of huge tensors are
 * proven in the time that sorting takes.
 */
#ifndef SW_MODEL_REGION_H
#define SW_MODEL_REGION_H

#include "base/error.h"

/* Box i is offset[i * axes + k] and length[i * axes + k] on axis k; none is empty. */
typedef struct swi_boxes {
    uint32_t axes;
    size_t count; /* below 2^32 */
    const int64_t *view;
    const int64_t *offset;
    const int64_t *length;
} swi_boxes;

/*
 * Room that is reused from tensor to tensor, and what may still be spent on geometry that sorting
 * alone does not settle; {0} and the two budgets to begin with.
 */
typedef struct swi_region_work {
    void *keys;
    size_t key_capacity;
    void *parts;
    size_t part_capacity;
    void *edges;
    size_t edge_capacity;
    uint64_t sort_budget; /* boxes sorted, each time counted */
    uint64_t pair_budget; /* pairs of boxes compared */
} swi_region_work;

void swi_region_work_free(swi_region_work *work);

typedef enum swi_disjoint {
    SWI_DISJOINT = 0,
    SWI_OVERLAP,      /* a and b share elements */
    SWI_OVERLAP_SOME, /* some two do: there is not enough room for all */
    SWI_UNPROVEN      /* a budget ran out */
} swi_disjoint;

/*
 * Recursive sweep: sorted on one axis, boxes fall into groups that do not touch; each group is
 * sorted on the next axis, until groups are single boxes or no axis splits them any more. Rows,
 * columns and grids of any size take O(axes n log n). What no axis splits is compared in pairs.
 */
SW_MUST_USE sw_status swi_boxes_disjoint(swi_region_work *work, const swi_boxes *boxes,
                                         swi_disjoint *out, size_t *a, size_t *b, sw_error *err);

/*
 * The first flat index that disjoint boxes leave out; the view's element count when none is.
 * O(axes n log n): axis by axis the first slab that is not full, then only the boxes in it.
 */
SW_MUST_USE sw_status swi_boxes_missing(swi_region_work *work, const swi_boxes *boxes,
                                        uint64_t *flat, sw_error *err);

#endif
