/* What the values of tensors show in one pass. */
#ifndef SW_RESHARD_STATS_H
#define SW_RESHARD_STATS_H

#include "codec/digest.h"
#include "plan.h"

typedef struct swi_stats {
    bool known; /* false: not wanted, damaged or unreadable; then all else is zero */
    uint64_t nans, infinities, zeros;   /* elements; of complex ones either part counts */
    uint64_t first_nan, first_infinity; /* flat indices, when there are some */
    bool constant;                      /* all elements have the same bits */
    swi_digest content;                 /* to find duplicates: the tensor's digest */
} swi_stats;

/* The wanted tensors (by index; NULL: all), in parallel; out[i] by index. */
SW_MUST_USE sw_status swi_catalog_stats(const swi_source *source, const bool *want,
                                        const sw_work_options *work, swi_stats *out, sw_error *err);

#endif
