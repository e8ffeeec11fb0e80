/*
 * An open checkpoint. opening.c is what readers put into it, open.c how it is opened, checkpoint.c
 * what it answers, and its end.
 */
#ifndef SW_CONVERT_CHECKPOINT_PARTS_H
#define SW_CONVERT_CHECKPOINT_PARTS_H

#include <pthread.h>

#include "base/arena.h"
#include "flat/notes.h"
#include "flat/unflatten.h"
#include "source/detect.h"
#include "view.h"

typedef struct swi_fact {
    const char *key, *value;
} swi_fact;

typedef struct swi_place_name {
    const char *section, *name; /* NULL: at the top, under the tensor's own name */
} swi_place_name;

struct sw_checkpoint {
    swi_detected at;
    swi_filecache *cache;
    sw_catalog *catalog;
    swi_arena arena;
    swi_place_name *sections;
    size_t section_capacity;
    swi_fact *facts;
    size_t fact_count, fact_capacity;
    sw_limits limits;
    uint64_t open_memory;
    const void *given; /* instead of files: what it was opened from */
    void *kept;        /* of the framework */
    void (*free_kept)(void *);
    const char *temp_dir;
    pthread_mutex_t lock; /* of the view */
    bool has_lock;
    swi_source source;
    swi_view view; /* of the tensor read last: reading on costs no second look at its parts */
    bool has_view;
    bool incomplete, opaque;
    swi_row_notes rows;
    bool derived; /* all but catalog, lock and view belong to another */
    uint32_t own; /* derived: tensors of that one */
    /* Of a checkpoint without its rows: what they were undone with, and the one that has them. */
    swi_unflat *unflat;
    sw_checkpoint *rowed; /* owned where owns_rowed */
    bool owns_rowed;
};

#endif
