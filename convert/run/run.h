/*
 * A run: a folder that holds checkpoints of many steps. What is in it (run_find.c), what each is
 * worth (run.c), and whether what points at the latest one tells the truth (run_pointers.c).
 */
#ifndef SW_CONVERT_RUN_H
#define SW_CONVERT_RUN_H

#include "base/arena.h"
#include "framework.h"
#include "run/step_name.h"

/* One that may be a checkpoint of the run. */
typedef struct swi_candidate {
    const char *name; /* in the run's folder; in the run's arena */
    swi_step_name told;
    bool sure; /* recognised by what is in it, not only by its name */
    bool drop;
    sw_run_checkpoint found; /* names and texts in the run's arena */
} swi_candidate;

struct sw_run {
    swi_arena arena;
    const char *root;
    swi_store *store;
    swi_listing *listing;
    swi_candidate *items; /* by number, those without one last */
    size_t count, capacity;
    sw_run_pointer *pointers;
    size_t pointer_count, pointer_capacity;
    int64_t newest, newest_complete; /* items; -1: none */
};

/* Opens the folder and fills root, store, listing and items. *is_run: see sw_run_audit. */
SW_MUST_USE sw_status swi_run_find(const char *path, bool always, const sw_limits *limits,
                                   sw_run **out, bool *is_run, sw_error *err);

/* A name that says where the newest checkpoint is, or another link into the run. */
bool swi_run_is_pointer(const swi_listing_entry *entry);
/* Fills the pointers of a run whose items are judged; what they say wrongly goes to `report`. */
SW_MUST_USE sw_status swi_run_pointers(sw_run *run, sw_report *report, sw_error *err);

#endif
