/* Comparison, to the bit, of tensors of any two layouts, streaming. */
#ifndef SW_RESHARD_COMPARE_H
#define SW_RESHARD_COMPARE_H

#include "plan.h"

/*
 * Whether b holds what a holds, cast to b's dtype where it is another (between floating-point
 * types). The same shape is the caller's to check. *equal; when not, *first is the flat index of
 * the first differing element. `buffer` of buffer_bytes (at least 64 KiB) is the caller's.
 */
SW_MUST_USE sw_status swi_compare(const swi_source *a, uint32_t tensor_a, const swi_source *b,
                                  uint32_t tensor_b, uint8_t *buffer, size_t buffer_bytes,
                                  bool *equal, uint64_t *first, sw_error *err);

/*
 * The same for numbers within tolerances: |a - b| <= atol + rtol x |b|, in float64. NaN is equal to
 * NaN, an infinity to itself. Both must be of a floating-point type that can be cast (see cast.h).
 */
typedef struct swi_tolerance {
    double atol, rtol;
} swi_tolerance;

/* Two tensors of one shape, and what came out. */
typedef struct swi_pair {
    uint32_t a, b;
    const swi_tolerance *close; /* NULL: to the bit, of one type */
    bool skip;
    bool equal;     /* out */
    uint64_t first; /* out: flat index of the first differing element */
} swi_pair;

/* Every pair by itself, in parallel over pairs. A tensor that cannot be read is the error. */
SW_MUST_USE sw_status swi_compare_pairs(const swi_source *a, const swi_source *b, swi_pair *pairs,
                                        size_t count, const sw_work_options *work, sw_error *err);

#endif
