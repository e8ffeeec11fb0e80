/* A checkpoint held against what its model's configuration says it must have. */
#ifndef SW_CONVERT_VERIFY_MODEL_H
#define SW_CONVERT_VERIFY_MODEL_H

#include "framework.h"

/*
 * The tensors of the model, by the names that convert gives them, against the side of the map that
 * they are of or nearest to (MAP-12, MAP-13). Findings: "map-unknown", "map-missing", "map-shape",
 * "tied-differ", "conflict" (defects: it cannot be told which tensors are the model), "no-map"
 * (warning: there is nothing to hold against what), "map-ignored", "tied" (notes). Fills the
 * summary's part about the model. An error is of the configuration or the map, or of this machine.
 */
SW_MUST_USE sw_status swi_verify_model(const sw_checkpoint *checkpoint,
                                       const sw_verify_options *options, sw_report *report,
                                       sw_verify_summary *summary, sw_error *err);

#endif
