/* The nested state dict of a DCP folder. Clause DCP-15 of specs/dcp.md. */
#ifndef SW_CONVERT_DCP_STATE_H
#define SW_CONVERT_DCP_STATE_H

#include "state/state.h"

SW_MUST_USE sw_status swi_dcp_state(const sw_checkpoint *checkpoint, swi_state *out, sw_error *err);

#endif
