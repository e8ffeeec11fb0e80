/* Which step of a run a name tells of: "step-1000", "checkpoint-500", "epoch=3-step=100.ckpt". */
#ifndef SW_CONVERT_STEP_NAME_H
#define SW_CONVERT_STEP_NAME_H

#include <stdbool.h>
#include <stdint.h>

typedef enum swi_step_unit {
    SWI_UNIT_NONE = 0, /* the name tells no number: "best", "step-final" */
    SWI_UNIT_EPOCH,
    SWI_UNIT_STEP
} swi_step_unit;

typedef struct swi_step_name {
    swi_step_unit unit;
    int64_t number;  /* -1 without a unit */
    bool counted;    /* the word before the number counts steps: step, iter, update */
    bool unfinished; /* a name of the time before a save is done: "tmp-checkpoint-500" */
} swi_step_name;

/* `name` is that of one file or folder: no '/'. */
void swi_step_of_name(const char *name, swi_step_name *out);

#endif
