/*
 * Copies of the same elements that several ranks wrote must agree: nothing tells which of two that
 * differ is right.
 */
#ifndef SW_RESHARD_REPLICAS_H
#define SW_RESHARD_REPLICAS_H

#include "plan.h"

/*
 * Compares every copy in a tensor's pieces, bit by bit, with what the other pieces hold, in windows
 * of half the buffer (at least 64 KiB, the caller's). *equal is true for a tensor without copies;
 * when false, *first is the flat index of the first differing element of the copy, which lies in
 * blob *copy.
 */
SW_MUST_USE sw_status swi_replicas_compare(const swi_source *source, uint32_t tensor,
                                           uint8_t *buffer, size_t buffer_bytes, bool *equal,
                                           uint64_t *first, uint32_t *copy, sw_error *err);

#endif
