/* What --to names: a framework, the form of optimizers, and options of the framework's own. */
#ifndef SW_CONVERT_TARGET_H
#define SW_CONVERT_TARGET_H

#include "base/buf.h"
#include "framework.h"

typedef struct swi_target {
    const swi_framework *framework;
    swi_opt_form form;           /* asked for, or the usual one of the name that was used */
    bool form_asked;             /* for, so it is no usual one */
    char names[32];              /* the side of a map whose names were asked for, or "" */
    swi_buf options;             /* behind the colon, without "optimizer="; terminated */
    bool one_file;               /* it is published as one file, not as a folder */
    const swi_framework *reader; /* that reads what was written */
    bool param_names;            /* optimizers by number are told their parameters' names too */
    bool assets;                 /* files beside the model have a place, whatever it takes */
    bool rank_values;            /* there is a place for the values that differ between ranks */
} swi_target;

/*
 * "dcp:ranks=2,optimizer=flat". `optimizer=` is common to all targets that hold optimizers in more
 * than one form; the rest is for the framework's layout to judge. SW_ERR_ARG: no target of that
 * name, or a form that it does not have.
 */
SW_MUST_USE sw_status swi_target_parse(const char *to, swi_target *out, sw_error *err);
/* A destination tensor that takes what was chosen, times its scale where it has one. */
SW_MUST_USE sw_status swi_target_tensor(swi_layout *layout, const swi_tensor_in *in,
                                        const swi_chosen *chosen, uint32_t *tensor, sw_error *err);
void swi_target_end(swi_target *target);

#endif
