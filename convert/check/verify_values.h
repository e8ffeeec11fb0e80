/* What the values of a checkpoint's tensors give cause to doubt. */
#ifndef SW_CONVERT_VERIFY_VALUES_H
#define SW_CONVERT_VERIFY_VALUES_H

#include "framework.h"

/*
 * Reads every wanted tensor (by index) once. Findings: "nan", "infinity", "suspicious-duplicate"
 * (warnings), "all-zero", "constant", "duplicate" (notes). Tensors that are damaged or cannot be
 * read are passed over: other levels tell of them.
 */
SW_MUST_USE sw_status swi_verify_values(const sw_checkpoint *checkpoint, const bool *want,
                                        const sw_work_options *work, sw_report *report,
                                        sw_error *err);

#endif
