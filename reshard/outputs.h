/*
 * The destination's files while they are written: opened when the first byte comes, counted down,
 * and finished in the order of their ids by a thread of their own, so that syncing one overlaps the
 * work on the next.
 */
#ifndef SW_RESHARD_OUTPUTS_H
#define SW_RESHARD_OUTPUTS_H

#include "execute.h"
#include "pool.h"

typedef struct swi_outputs swi_outputs;

/*
 * Starts the thread that finishes files; what it fails with ends the pool. `ahead_bytes`: how far
 * ahead of a packed file's first open chunk a thread may be (pack.h).
 */
SW_MUST_USE sw_status swi_outputs_make(const swi_layout *layout, const swi_sink *sink,
                                       uint64_t ahead_bytes, swi_pool *pool, swi_outputs **out,
                                       sw_error *err);
bool swi_outputs_skips(const swi_outputs *outputs, uint32_t file);
/* Bytes that this run will write. */
uint64_t swi_outputs_bytes(const swi_outputs *outputs);
/* Thread-safe. No slices: the file is opened, as an empty one must be. */
SW_MUST_USE sw_status swi_outputs_write(swi_outputs *outputs, uint32_t file, uint64_t offset,
                                        const swi_slice *slices, size_t count, sw_error *err);
/*
 * Waits for the files that are whole to be finished; with `ok` all must be, and made files are made
 * now. Closes what is left open, frees all. Adds to *tally (may be NULL) what was written besides
 * the bytes that swi_outputs_write was given.
 */
SW_MUST_USE sw_status swi_outputs_end(swi_outputs *outputs, bool ok, sw_tally *tally,
                                      sw_error *err);

#endif
