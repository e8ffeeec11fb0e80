/* One piece of work by several threads, where format/ hashes or checks much at once. */
#ifndef SW_BASE_TOGETHER_H
#define SW_BASE_TOGETHER_H

#include "base/error.h"

#define SWI_HANDS_MAX 64U

/* Takes parts of the work, by an atomic counter in ctx, until there are none. */
typedef sw_status (*swi_hand)(void *ctx, sw_error *err);

/*
 * Runs `hand` in this thread and in up to hands - 1 others at once (0 as 1; as many as can be
 * started), and waits for all. The failure of one is returned; the others are not told.
 */
SW_MUST_USE sw_status swi_together(uint32_t hands, swi_hand hand, void *ctx, sw_error *err);

/*
 * [0, count) in ranges of `step`, the last may be shorter, by up to `threads` threads. Ranges are
 * taken in ascending order, and none after one has failed: the failure that is returned is that of
 * the lowest range that fails, as with one thread.
 */
typedef sw_status (*swi_range_hand)(void *ctx, uint64_t from, uint64_t to, sw_error *err);
SW_MUST_USE sw_status swi_together_ranges(uint32_t threads, uint64_t count, uint64_t step,
                                          swi_range_hand hand, void *ctx, sw_error *err);

#endif
