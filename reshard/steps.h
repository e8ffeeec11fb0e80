/* How a tensor is walked in windows: flat intervals that stay boxes. */
#ifndef SW_RESHARD_STEPS_H
#define SW_RESHARD_STEPS_H

#include "plan.h"

typedef struct swi_steps {
    uint64_t elements;
    uint64_t step;  /* elements of a window */
    uint64_t outer; /* windows do not reach over a multiple of it */
} swi_steps;

/*
 * At most `window_bytes` of `element_bytes` each, and usually no more than SWI_WINDOW_USUAL: more
 * where pieces are spread (swi_spread_of) and reads would be short.
 */
swi_steps swi_steps_make(const sw_tensor_info *info, uint32_t element_bytes, uint64_t spread,
                         uint64_t window_bytes);
/* The window that begins at *at, which goes on behind it; false at the end. {0} has none. */
bool swi_steps_next(const swi_steps *steps, uint64_t *at, uint64_t *lo, uint64_t *hi);

/*
 * How many times as much the tensor's first piece spans as it holds: a column shard of k has about
 * k.
 */
uint64_t swi_spread_of(const sw_catalog *catalog, uint32_t tensor);

#endif
