/*
 * Tied weights: the configuration says that two matrices over the vocabulary are one. They are
 * found by shape, proven equal bit by bit, and written once; never dropped on the flag alone.
 */
#ifndef SW_CONVERT_TIES_H
#define SW_CONVERT_TIES_H

#include "select/select.h"
#include "target/model_config.h"

/*
 * With the flag off or `untie` set nothing is done. Two candidates that differ are
 * SW_ERR_CONFLICT with the first differing element. Which name stays: the one that the optimizer
 * has state for; when that does not tell them apart, both stay. Findings "tied", "tied-kept".
 */
SW_MUST_USE sw_status swi_resolve_ties(const sw_checkpoint *checkpoint, const swi_assets *assets,
                                       const sw_convert_options *options, sw_report *report,
                                       swi_selection *selection, sw_error *err);

#endif
