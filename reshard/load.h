/* Reading parts of a tensor into memory, whatever pieces it lies in. */
#ifndef SW_RESHARD_LOAD_H
#define SW_RESHARD_LOAD_H

#include "plan.h"

/*
 * Elements [lo, hi) of the flattened tensor, dense, into `out` of (hi - lo) x element size bytes.
 * Holes are SW_ERR_INCOMPLETE.
 */
SW_MUST_USE sw_status swi_load_interval(const swi_source *source, uint32_t tensor, uint64_t lo,
                                        uint64_t hi, void *out, sw_error *err);

/*
 * All of a tensor, dense, after the records that it lies in were read as a whole and compared with
 * their CRCs: for the few small ones that become part of a value. A difference is SW_ERR_CORRUPT,
 * besides a finding in `report` (may be NULL).
 */
SW_MUST_USE sw_status swi_load_checked(const swi_source *source, uint32_t tensor, void *out,
                                       sw_report *report, sw_error *err);

#endif
