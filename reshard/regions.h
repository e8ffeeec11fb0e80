/*
 * Regions of many tensors into memory: each region is cut out of its tensor as a tensor of its own
 * (shaped.h), and these are read in windows, in the order of files, by a few threads. Only records
 * that hold something of a region are read.
 */
#ifndef SW_RESHARD_REGIONS_H
#define SW_RESHARD_REGIONS_H

#include "plan.h"

/* A box of a tensor, and where its elements go. */
typedef struct swi_region {
    uint32_t tensor;
    int64_t offset[SW_MAX_AXES], length[SW_MAX_AXES]; /* by axis of the tensor, inside of it */
    uint8_t *out; /* of the first element; may be NULL when there is none */
    /* From an element to the next one of an axis; no negative ones, no two elements overlap. */
    int64_t stride_bytes[SW_MAX_AXES];
} swi_region;

/* Strides of row-major order without gaps. */
void swi_region_make_dense(const sw_tensor_info *tensor, swi_region *region);

/*
 * Tensors with a defect are refused before anything is read. CRCs and digests are compared of every
 * record that passes whole (and of every encoded one): a difference is SW_ERR_CORRUPT and a
 * finding. Errors name the tensor and the region. What lies in the regions' memory after a failure
 * is undefined. `limits` as for opening; `work`, `report`, `tally` may be NULL.
 */
SW_MUST_USE sw_status swi_regions_load(const swi_source *source, const swi_region *regions,
                                       size_t count, const sw_limits *limits,
                                       const sw_work_options *work, sw_report *report,
                                       sw_tally *tally, sw_error *err);

#endif
