/*
 * Packed files while they are written (see swi_packing): raw bytes come in any order from any
 * thread, chunks are encoded by the thread that brings their last byte, and get their places in
 * order, so that the file does not depend on who was first. What waits for its place is bounded:
 * who is far ahead of the first chunk that is not whole waits, unless all others wait too.
 */
#ifndef SW_RESHARD_PACK_H
#define SW_RESHARD_PACK_H

#include "io/stream.h"
#include "layout.h"
#include "pool.h"

/*
 * Room for chunks, raw and encoded, that is handed on from chunk to chunk of all packed files of a
 * run, and the room in which their files are put together. Thread-safe.
 * `stream_bytes`: for the latter.
 */
typedef struct swi_pack_rooms swi_pack_rooms;
SW_MUST_USE sw_status swi_pack_rooms_make(uint64_t stream_bytes, swi_pack_rooms **out,
                                          sw_error *err);
void swi_pack_rooms_free(swi_pack_rooms *rooms);

typedef struct swi_packer swi_packer;

/* `ahead_bytes`: so far ahead a thread may be. All that is given is borrowed; no rooms: NULL. */
SW_MUST_USE sw_status swi_packer_make(const swi_packing *packing, uint64_t ahead_bytes,
                                      swi_pool *pool, swi_pack_rooms *rooms, swi_packer **out,
                                      sw_error *err);
void swi_packer_free(swi_packer *packer); /* before the file is closed */
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
