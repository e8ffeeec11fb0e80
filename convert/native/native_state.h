/* The saved state dict of a native checkpoint: state.json, and the values of ranks in their files
 * (NAT-13). */
#ifndef SW_CONVERT_NATIVE_STATE_H
#define SW_CONVERT_NATIVE_STATE_H

#include "base/buf.h"
#include "framework.h"

/* The text of state.json: the leaves that are written, in their containers. */
SW_MUST_USE sw_status swi_native_write_state(const swi_target_in *in, swi_buf *out, sw_error *err);
/*
 * The values section of a file: those of each rank r of the source with r % ranks == rank. Nothing
 * is appended where there are none. Tensors of one rank alone are not carried: a warning tells of
 * them.
 */
SW_MUST_USE sw_status swi_native_write_rank_values(const swi_target_in *in, uint32_t rank,
                                                   uint32_t ranks, swi_buf *out, sw_error *err);

#endif
