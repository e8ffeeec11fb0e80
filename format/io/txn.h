/*
 * Publishing: a destination is complete under its name or absent. The protocol, numbered as in
 * txn.c:
 *   1  make DEST.partial-ID, or take up the one that a killed run left (same ID: same source,
 *      target and options), under an exclusive lock; another running process is SW_ERR_EXISTS
 *   2  write files in it; fsync each when whole
 *   3  append a line for each finished file to the journal (.journal inside it) and fsync that
 *   4  write the index or manifest last
 *   5  remove the journal and scratch files, fsync directories bottom-up
 *   6  rename to DEST; never replaces unless told to: then exchange and remove the old one
 *      (RENAME_EXCHANGE; where the file system has none: rename the old one aside, rename, remove)
 *   7  fsync the parent
 * A run killed at any time leaves DEST old or new, and the partial folder to resume from. Where
 * there is no RENAME_EXCHANGE, a run killed within step 6 can leave the old one aside, as
 * DEST.old-ID; the next run puts it back.
 *
 * Files may be finished by several threads at once; begin, commit and end are for one.
 */
#ifndef SW_IO_TXN_H
#define SW_IO_TXN_H

#include "io/store.h"

typedef struct swi_txn swi_txn;

typedef struct swi_txn_options {
    const char *id;   /* lower-case hex, 8 to 64 characters */
    bool overwrite;   /* an existing DEST (a directory or a file) is replaced at commit */
    bool fresh;       /* nothing of an earlier run is taken up: it may have been of other data */
    bool single_file; /* DEST is one file (the only one in the partial folder) not a directory */
} swi_txn_options;

/*
 * SW_ERR_EXISTS when DEST exists and overwrite is off (checked here and again at commit), or when
 * another process works on the same partial folder. SW_ERR_IO when the parent cannot be written.
 */
SW_MUST_USE sw_status swi_txn_begin(const char *dest, const swi_txn_options *options, swi_txn **out,
                                    sw_error *err);
/*
 * What begin would say of DEST, as far as it can be told without writing: its folder is there and
 * may be written, DEST may be replaced or is not there. *free_bytes: of DEST's file system, for
 * what a partial folder of this ID does not hold already (then UINT64_MAX).
 */
SW_MUST_USE sw_status swi_txn_look(const char *dest, const swi_txn_options *options,
                                   uint64_t *free_bytes, sw_error *err);
/* The partial folder as a store. */
swi_store *swi_txn_store(swi_txn *txn);
/* The path of the partial folder, for messages. */
const char *swi_txn_partial(const swi_txn *txn);
/*
 * Whether an earlier run finished this file with this size (it is kept); else it must be made, and
 * what there is of another size is removed.
 */
bool swi_txn_has(swi_txn *txn, const char *path, uint64_t bytes);
/* How many finished files were taken up from an earlier run. */
uint64_t swi_txn_resumed(const swi_txn *txn);
/* Steps 2 and 3 for one file: syncs it, closes it, journals it. The file is closed in any case. */
SW_MUST_USE sw_status swi_txn_finish_file(swi_txn *txn, const char *path, swi_file *file,
                                          sw_error *err);
/* A whole small file: create, write, finish. Replaces one that an earlier run left. */
SW_MUST_USE sw_status swi_txn_put(swi_txn *txn, const char *path, const void *data, size_t size,
                                  sw_error *err);
/* A file that will not be published; removed at commit. */
SW_MUST_USE sw_status swi_txn_scratch(swi_txn *txn, swi_file **out, sw_error *err);
/*
 * Steps 5 to 7. Every file in the partial folder must have been finished (else SW_ERR_ARG, named).
 * On failure DEST is as before and the partial folder stays.
 */
SW_MUST_USE sw_status swi_txn_commit(swi_txn *txn, sw_error *err);
/*
 * The same for several as one: step 5 for all, then steps 6 and 7 one by one in their order; when
 * one fails, what got its name is taken back. Only a kill between the renames leaves the first ones
 * published and the last ones not.
 */
SW_MUST_USE sw_status swi_txn_commit_all(swi_txn *const *txns, size_t count, sw_error *err);
/* After a commit: the path of an old destination that could not be removed, or NULL. */
const char *swi_txn_leftover(const swi_txn *txn);
/*
 * Ends the transaction. Not committed: the partial folder stays when some file was finished and
 * `keep` is true (the next run resumes), else it is removed.
 */
void swi_txn_end(swi_txn *txn, bool keep);

#endif
