/*
 * The folder in which a trainer saves the parts of one checkpoint beside each other: which of its
 * entries are what. Clauses TR-n are those of specs/trainer.md.
 */
#ifndef SW_CONVERT_TRAINER_PARTS_H
#define SW_CONVERT_TRAINER_PARTS_H

#include "base/arena.h"
#include "framework.h"

typedef enum swi_part_kind {
    SWI_PART_MODEL = 0, /* also one that has the optimizer with it */
    SWI_PART_OPTIMIZER,
    SWI_PART_BESIDE /* schedulers, random states, progress */
} swi_part_kind;

typedef struct swi_trainer_part {
    swi_part_kind kind;
    const char *name; /* in the folder; "": the folder itself; borrowed from the listing */
    const char *key;  /* of the state dict it goes under; "": it brings its own keys */
    int64_t rank;     /* whose random states they are; -1: it is of no rank alone */
} swi_trainer_part;

typedef struct swi_trainer_parts {
    swi_trainer_part *items; /* the model first, then in natural order of names */
    size_t count, capacity;
    size_t models, others;
    swi_arena arena; /* keys */
} swi_trainer_parts;

SW_MUST_USE sw_status swi_trainer_parts_find(const swi_listing *listing, swi_trainer_parts *out,
                                             sw_error *err);
void swi_trainer_parts_free(swi_trainer_parts *parts);

#endif
