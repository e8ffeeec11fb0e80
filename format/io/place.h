/*
 * The names of a transaction in the folder that holds its destination, and how they change: lock,
 * rename, exchange, remove. All by file descriptor of that folder. Not thread-safe.
 */
#ifndef SW_IO_PLACE_H
#define SW_IO_PLACE_H

#include "io/store.h"

typedef struct swi_place {
    int parent_fd;
    int dir_fd;   /* the partial folder; holds the lock */
    int lock_fd;  /* holds it where a directory cannot be locked; else -1 */
    char *parent; /* paths for messages */
    char *dest;
    char *partial;
    const char *dest_name; /* names in the parent; into the paths above */
    const char *partial_name;
    char *old_name; /* where the old destination stays meanwhile, if it cannot be exchanged */
} swi_place;

/* How the new one got to its name, so that it can be undone. */
typedef enum swi_moved {
    SWI_MOVED_NOT = 0,
    SWI_MOVED_NEW,       /* nothing had the name */
    SWI_MOVED_EXCHANGED, /* the old one now has the name that the new one had */
    SWI_MOVED_ASIDE      /* the old one now is old_name */
} swi_moved;

/* Opens the parent of `dest` and makes the names; `place` ends as closed when it fails. */
SW_MUST_USE sw_status swi_place_open(swi_place *place, const char *dest, const char *id,
                                     sw_error *err);
void swi_place_close(swi_place *place);
SW_MUST_USE sw_status swi_place_dest_exists(const swi_place *place, bool *out, sw_error *err);
/* Whether step 1 could make or take up the partial folder, found out without making it. */
SW_MUST_USE sw_status swi_place_may_write(const swi_place *place, sw_error *err);
/* Whether a partial folder is there to be taken up. */
SW_MUST_USE sw_status swi_place_partial_exists(const swi_place *place, bool *out, sw_error *err);
/* Step 1: makes or takes up the partial folder, and locks it. */
SW_MUST_USE sw_status swi_place_lock(swi_place *place, sw_error *err);
/* What a run left that was killed while it replaced the destination. */
SW_MUST_USE sw_status swi_place_repair(swi_place *place, sw_error *err);
/*
 * Step 6: `from` (the partial folder or a file in it, as a path from the parent) gets the
 * destination's name.
 */
SW_MUST_USE sw_status swi_place_move(swi_place *place, const char *from, bool overwrite,
                                     swi_moved *moved, sw_error *err);
/* Step 7. */
SW_MUST_USE sw_status swi_place_sync(const swi_place *place, sw_error *err);
void swi_place_undo(swi_place *place, const char *from, swi_moved moved);
/*
 * Removes a file or a tree in the parent. Nothing there is fine; so is a folder that another run
 * holds the lock of.
 */
SW_MUST_USE sw_status swi_place_remove(const swi_place *place, const char *name, sw_error *err);
/* The emptied partial folder itself, whose lock we hold. */
SW_MUST_USE sw_status swi_place_remove_partial(const swi_place *place, sw_error *err);

#endif
