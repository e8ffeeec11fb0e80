/* Whether a tensor holds one value alone. */
#ifndef SW_RESHARD_UNIFORM_H
#define SW_RESHARD_UNIFORM_H

#include "plan.h"

/*
 * *holds: every element is the element of these bytes (little-endian; 8 bytes at most, wider
 * elements repeat them); else *first is the first one that is not. `buffer` of at least one element
 * is the caller's.
 */
SW_MUST_USE sw_status swi_uniform(const swi_source *source, uint32_t tensor, uint64_t pattern,
                                  void *buffer, size_t buffer_bytes, bool *holds, uint64_t *first,
                                  sw_error *err);

#endif
