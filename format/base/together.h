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

#endif
