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

#endif
