/* Comparison, to the bit, of tensors of any two layouts, streaming. */
#ifndef SW_RESHARD_COMPARE_H
#define SW_RESHARD_COMPARE_H

#include "plan.h"

typedef struct swi_compare_in {
    const swi_source *a, *b;
    uint32_t tensor_a, tensor_b;
    bool scaled;
    uint32_t scale;  /* then the tensor of `a` whose elements are factors of those of tensor_a */
    uint8_t *buffer; /* the caller's */
    size_t buffer_bytes; /* at least 64 KiB */
} swi_compare_in;

/*
 * Whether b holds what a holds, cast to b's dtype where it is another (between floating-point
 * types), or what a scaled tensor is made to (see swi_layout_scale). The same shape is the caller's
 * to check. *equal; when not, *first is the flat index of the first differing element.
 */
SW_MUST_USE sw_status swi_compare(const swi_compare_in *in, bool *equal, uint64_t *first,
                                  sw_error *err);
/*
 * The same of every piece of b by itself: copies may share elements in any way, and each must be
 * right. When not equal, the first difference that is found lies in blob *blob of b.
 */
SW_MUST_USE sw_status swi_compare_pieces(const swi_compare_in *in, bool *equal, uint64_t *first,
                                         uint32_t *blob, sw_error *err);

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
