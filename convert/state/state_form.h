/*
 * The form that a target wants of a state dict: how its optimizers are keyed, and names without
 * wrapper parts, the same for the modules and for the optimizers that train them. A step between
 * reading the state and choosing what of it is written; everything else stays as it is.
 */
#ifndef SW_CONVERT_STATE_FORM_H
#define SW_CONVERT_STATE_FORM_H

#include "optimizer/optimizer.h"

struct swi_mapping;

typedef struct swi_state_form {
    swi_opt_form optimizer;  /* SWI_FORM_KEEP: nothing is changed, names neither */
    bool without_optimizers; /* none is written: only the names of modules are changed */
    bool param_names;        /* by number: with names beside it, where they can be known */
    bool lenient;            /* perhaps none is: what cannot be taken apart stays as it is */
    swi_opt_naming naming;
    struct swi_mapping *mapping; /* modules and optimizers get other names; NULL: they do not */
} swi_state_form;

/*
 * Changes the state in place; dicts that are shared are changed for all. What was done is said:
 * notes "optimizer-form" (each optimizer that changed its keying), "names-cleaned", warning
 * "param-names-unused". Errors are those of optimizer.h, and SW_ERR_CONFLICT when two names of a
 * module become one. A state that could not be reformed may be changed in part.
 */
SW_MUST_USE sw_status swi_state_reform(const sw_checkpoint *checkpoint, const swi_state_form *form,
                                       swi_state *state, sw_report *report, sw_error *err);

#endif
