/*
 * What goes into a target and under which names. Weights: the model's section of the saved state
 * dict, wrapper parts off, filters applied, ties resolved. State: all of it as it is, filters
 * applied.
 */
#ifndef SW_CONVERT_SELECT_H
#define SW_CONVERT_SELECT_H

#include "base/arena.h"
#include "framework.h"
#include "state/state_form.h"

typedef struct swi_selection {
    swi_chosen *items; /* in natural order of names, distinct */
    size_t count;
    const char *section; /* that was chosen; "" for the top */
    bool settled; /* of weights: chosen anew from what is written, they would have the same names */
    uint64_t dropped, optimizer, other, tied;
    uint64_t dropped_values; /* of a state dict, left out because it was asked */
    uint64_t values;         /* not carried, and nobody asked for that */
    /* Of a target that takes the state dict: */
    swi_state_part *leaves;
    size_t leaf_count;
    swi_state state;
    sw_checkpoint *derived; /* what the target made of it (reshape), or NULL; owned */
    swi_arena arena;
} swi_selection;

/*
 * SW_ERR_CONFLICT: several sections could be the model, or two names become one. The status of a
 * chosen tensor's defect when it is damaged. SW_ERR_ARG when nothing is left.
 */
SW_MUST_USE sw_status swi_select(const sw_checkpoint *checkpoint, const sw_convert_options *options,
                                 sw_report *report, swi_selection *out, sw_error *err);
/* The same, damaged or not: what is looked at alone. */
SW_MUST_USE sw_status swi_select_any(const sw_checkpoint *checkpoint,
                                     const sw_convert_options *options, sw_report *report,
                                     swi_selection *out, sw_error *err);
struct swi_remap;
typedef struct swi_select_in {
    const sw_checkpoint *checkpoint;
    const swi_state_form *form;
    struct swi_remap *remap; /* map/remap.h; NULL: no map */
    const struct swi_target *target;
    const struct swi_rules *rules; /* that of --layout; NULL: none */
    const sw_convert_options *options;
    sw_report *report;
} swi_select_in;
/*
 * The whole state dict in the form that the target wants, its tensors those of *whole: the
 * checkpoint, or what the map and then the target derive from it. SW_ERR_ARG: options that only
 * make sense for weights.
 */
SW_MUST_USE sw_status swi_select_state(const swi_select_in *in, const sw_checkpoint **whole,
                                       swi_selection *out, sw_error *err);
/* Into natural order of names. */
void swi_selection_sort(swi_selection *selection);
void swi_selection_free(swi_selection *selection);

/* ---- what both do ---- */

SW_MUST_USE sw_status swi_select_check_dtype(sw_dtype dtype, sw_error *err);
/* What the tensor is to be written as. */
sw_dtype swi_select_dtype(const sw_convert_options *options, const sw_tensor_info *info);
/* The note that wrapper parts were taken off names. */
SW_MUST_USE sw_status swi_select_say_cleaned(sw_report *report, uint64_t removed, sw_error *err);
bool swi_select_match(const char *const *globs, const char *a, const char *b);
/* The status of the first chosen tensor's defect, in the words of its finding. */
SW_MUST_USE sw_status swi_select_check_whole(const sw_checkpoint *checkpoint,
                                             const sw_report *report,
                                             const swi_selection *selection, sw_error *err);

#endif
