/* What the values of a tensor show in one pass. */
#ifndef SW_RESHARD_STATS_H
#define SW_RESHARD_STATS_H

#include "codec/digest.h"
#include "plan.h"

typedef struct swi_stats {
    uint64_t nans, infinities, zeros;
    uint64_t first_nan; /* flat index, when nans > 0 */
    bool constant;      /* all elements have the same bits */
    swi_digest content; /* to find duplicates: its tensor digest */
} swi_stats;

/* All tensors, in parallel; out[i] by index. Damaged ones are left zero. */
SW_MUST_USE sw_status swi_catalog_stats(const swi_source *source, const sw_work_options *work,
                                        swi_stats *out, sw_tally *tally, sw_error *err);

#endif
