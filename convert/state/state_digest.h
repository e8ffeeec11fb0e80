/* One digest of all values that are saved beside tensors (specs/signing.md, SIG-8). */
#ifndef SW_CONVERT_STATE_DIGEST_H
#define SW_CONVERT_STATE_DIGEST_H

#include "codec/digest.h"
#include "state/state.h"

/*
 * The same for every layout, and for every order of keys. SW_ERR_UNSUPPORTED: the state cannot be
 * walked (state.h), or a value cannot be written as text (codec/value_json.h).
 */
SW_MUST_USE sw_status swi_state_digest(const sw_checkpoint *checkpoint, const swi_state *state,
                                       swi_digest *out, sw_error *err);

#endif
