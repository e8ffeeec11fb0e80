/*
 * Whether configurations that lie around say the same as the one that is used: one of another model
 * whose shapes are the same changes what its tensors mean, and nothing else tells.
 */
#ifndef SW_CONVERT_MAP_AGREE_H
#define SW_CONVERT_MAP_AGREE_H

#include "base/report.h"
#include "map/model.h"

/*
 * Each configuration file of a side of the model's map that lies in `folder`: warning
 * "config-differs" with the first number of the map's `let` that is another one by it. A file that
 * makes no model is passed over. `map`: what the model's map was found by (swi_model_ask), or NULL.
 */
SW_MUST_USE sw_status swi_model_agree(const swi_model *model, const char *map, const char *folder,
                                      sw_report *report, sw_error *err);

#endif
