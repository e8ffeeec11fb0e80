/* The step that a checkpoint itself tells, and whether its parts are of one step. */
#ifndef SW_CONVERT_STEP_FOUND_H
#define SW_CONVERT_STEP_FOUND_H

#include "framework.h"

typedef struct swi_step_found {
    int64_t number;  /* -1: nothing tells */
    bool by_trainer; /* from trainer_state.json; else from a value */
    char where[128]; /* the file or the value; foreign text */
} swi_step_found;

/*
 * `global_step` of trainer_state.json in the folder that was asked for (`path`) or in the one that
 * was opened; else a whole number that a value of the state dict called step, global_step or
 * iteration is. What cannot be read tells nothing; fails on NOMEM and on I/O.
 */
SW_MUST_USE sw_status swi_step_find(const sw_checkpoint *checkpoint, const char *path,
                                    swi_step_found *out, sw_error *err);

/*
 * Holds the step against the one that the folder's name tells: "step-differs", a warning where
 * Trainer's own file says otherwise, else a note.
 */
SW_MUST_USE sw_status swi_step_check_name(const char *path, const swi_step_found *found,
                                          sw_report *report, sw_error *err);

/*
 * Whether the optimizer's states were all updated as often. Where the counters of each file agree
 * and those of two files do not, the files are of two saves: "mixed-steps", a warning; else some
 * parameters were trained less: "steps-vary", a note.
 */
SW_MUST_USE sw_status swi_steps_check(const sw_checkpoint *checkpoint, sw_report *report,
                                      sw_error *err);

#endif
