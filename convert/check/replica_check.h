/* Copies that ranks saved of the same elements, compared: by verify, and before every conversion.
 */
#ifndef SW_CONVERT_REPLICA_CHECK_H
#define SW_CONVERT_REPLICA_CHECK_H

#include "framework.h"

/* Tensor by tensor; one that differs is a finding "replicas-differ" (CONFLICT) with file, tensor,
 * and the coordinates of the first differing element. Damaged tensors are left out. */
SW_MUST_USE sw_status swi_replica_check(const sw_checkpoint *checkpoint, uint32_t tensor,
                                        sw_report *report, bool *equal, sw_error *err);

/*
 * The first counters of updates ("step") that optimizers have, of which ranks saved copies: one
 * that differs tells that files of ranks are of different saves, whatever is taken of them.
 * Findings as above.
 */
SW_MUST_USE sw_status swi_counters_check(const sw_checkpoint *checkpoint, sw_report *report,
                                         bool *equal, sw_error *err);

#endif
