/*
 * The journal of a transaction: which files of a partial folder are whole and durable. A text file
 * of lines "LENGTH HASH PAYLOAD", of which the first names the transaction:
 *     shardwright-journal 1 ID
 *     + BYTES PATH        finished
 *     - PATH              no longer
 * A line that a crash cut or garbled ends the journal: it and what follows is ignored and written
 * over. Not thread-safe.
 */
#ifndef SW_IO_JOURNAL_H
#define SW_IO_JOURNAL_H

#include "base/names.h"
#include "io/store.h"

#define SWI_JOURNAL_NAME ".journal"

typedef struct swi_journal {
    swi_store *store; /* borrowed */
    swi_file *file;
    uint64_t end; /* of the good lines */
    swi_names *paths;
    uint64_t *bytes; /* by id in paths: size of a finished file, or UINT64_MAX */
    size_t capacity;
    uint64_t finished;
} swi_journal;

/* Reads the journal of the store, or makes one; another ID's journal counts as empty. */
SW_MUST_USE sw_status swi_journal_open(swi_journal *journal, swi_store *store, const char *id,
                                       sw_error *err);
void swi_journal_close(swi_journal *journal); /* ends with {0} */
/* false when the file is not known as finished. */
bool swi_journal_find(const swi_journal *journal, const char *path, uint64_t *bytes);
/* Durable when they return. */
SW_MUST_USE sw_status swi_journal_add(swi_journal *journal, const char *path, uint64_t bytes,
                                      sw_error *err);
SW_MUST_USE sw_status swi_journal_drop(swi_journal *journal, const char *path, sw_error *err);
/* Removes the file, keeping what is known; swi_journal_restore writes it anew. */
SW_MUST_USE sw_status swi_journal_remove(swi_journal *journal, sw_error *err);
SW_MUST_USE sw_status swi_journal_restore(swi_journal *journal, const char *id, sw_error *err);

#endif
