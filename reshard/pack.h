/*
 * Packed files while they are written (see swi_packing): raw bytes come in any order from any
 * thread, chunks are encoded by the thread that brings their last byte, and get their places in
 * order, so that the file does not depend on who was first. What waits for its place is bounded:
 * who is far ahead of the first chunk that is not whole waits, unless all others wait too.
 */
#ifndef SW_RESHARD_PACK_H
#define SW_RESHARD_PACK_H

#include "io/store.h"
#include "layout.h"
#include "pool.h"

typedef struct swi_packer swi_packer;

/* `ahead_bytes`: so far ahead a thread may be. Borrows the packing and the pool. */
SW_MUST_USE sw_status swi_packer_make(const swi_packing *packing, uint64_t ahead_bytes,
                                      swi_pool *pool, swi_packer **out, sw_error *err);
void swi_packer_free(swi_packer *packer);
/*
 * The slices one after another from raw byte `offset` on; each byte once. Thread-safe.
 * *stored_raw_bytes: raw bytes of the chunks that were stored by this call.
 */
SW_MUST_USE sw_status swi_packer_write(swi_packer *packer, swi_file *file, uint64_t offset,
                                       const swi_slice *slices, size_t count,
                                       uint64_t *stored_raw_bytes, sw_error *err);
/* Head and tail, when all chunks are stored. *bytes: of the whole file. */
SW_MUST_USE sw_status swi_packer_finish(swi_packer *packer, swi_file *file, uint64_t *bytes,
                                        sw_error *err);

#endif
