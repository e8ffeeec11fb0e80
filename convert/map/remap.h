/*
 * The map of a conversion: whether one is needed, which, and what it makes of what was selected.
 */
#ifndef SW_CONVERT_MAP_REMAP_H
#define SW_CONVERT_MAP_REMAP_H

#include "map/mapping.h"
#include "select/select.h"
#include "target/target.h"

typedef struct swi_remap {
    swi_model *model;     /* NULL: no map is needed */
    swi_mapping *mapping; /* NULL: the names are those that the target wants already */
    sw_checkpoint *derived;
    size_t side; /* of the target */
} swi_remap;

typedef struct swi_remap_in {
    const sw_checkpoint *source;
    const swi_target *target;
    const sw_convert_options *options;
    const swi_selection *weights; /* the model's tensors, by the names that tell the side */
    const sw_limits *limits;
    sw_report *report;
} swi_remap_in;

/* The model that the caller or what lies there says, which has this side (NULL: any). */
SW_MUST_USE sw_status swi_remap_model(const swi_remap_in *in, const char *side, swi_model **out,
                                      sw_error *err);
/* What was selected, as the model's functions want it; free() it. */
SW_MUST_USE sw_status swi_remap_names(const swi_selection *selection, swi_named **out,
                                      sw_error *err);
/*
 * A map is needed where the target is a side of maps, where the caller asks for one, for names or
 * for block scales to be multiplied in (a map that only says how the source is read asks for
 * nothing); and a target of published names (hf) gets one where the configuration says which and
 * the source is of another side. Note "mapped" says what was decided.
 */
SW_MUST_USE sw_status swi_remap_begin(const swi_remap_in *in, swi_remap *out, sw_error *err);
/* Nothing more will be mapped: the derived checkpoint, the source itself where nothing is. */
SW_MUST_USE sw_status swi_remap_end(swi_remap *remap, const sw_checkpoint *source,
                                    const sw_checkpoint **out, sw_error *err);
/* The weights that were selected, mapped; ends it. */
SW_MUST_USE sw_status swi_remap_weights(swi_remap *remap, const sw_convert_options *options,
                                        const sw_checkpoint *source, swi_selection *selection,
                                        const sw_checkpoint **out, sw_error *err);
void swi_remap_free(swi_remap *remap); /* ends with {0} */

#endif
