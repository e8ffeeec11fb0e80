/*
 * Blobs of encoded extents ("chunks") after decoding, kept in a bounded cache that the threads of a
 * job share: windows of several threads ask for parts of the same chunk, which is read and decoded
 * once as long as there is room.
 *
 * A thread holds at most one slot at a time and waits for nothing while it does: so whoever waits
 * here, for a chunk that another decodes or for a slot, is served in the end, however few slots.
 */
#ifndef SW_RESHARD_DECODED_H
#define SW_RESHARD_DECODED_H

#include "model/catalog.h"

typedef struct swi_decoded swi_decoded;

/* ---- what it takes ------------------------------------------------------------------------- */

/* Of the largest chunk, in bytes. {0}: nothing is encoded. */
typedef struct swi_chunk_sizes {
    uint64_t raw; /* decoded */
    uint64_t stored;
} swi_chunk_sizes;

/* Of a catalog: a walk over its blobs. */
swi_chunk_sizes swi_chunk_sizes_of(const sw_catalog *catalog);
/* Of the pieces of one tensor, or of its owner when it is another name without its own. */
swi_chunk_sizes swi_chunk_sizes_of_tensor(const sw_catalog *catalog, uint32_t tensor);

/* How the memory of a job is divided. */
typedef struct swi_decoded_share {
    uint32_t threads;    /* at least one */
    uint32_t slots;      /* of sizes.raw bytes; at least one a thread; 0: nothing is encoded */
    uint64_t each_bytes; /* for a thread, room for a stored record included */
} swi_decoded_share;

/*
 * Of at most so many threads, which need `thread_bytes` each besides a record and a slot. With too
 * little memory for even one thread it is given what it needs.
 */
swi_decoded_share swi_decoded_divide(const swi_chunk_sizes *sizes, uint64_t memory_bytes,
                                     uint32_t threads, uint64_t thread_bytes);

/* ---- the cache ----------------------------------------------------------------------------- */

/* More slots than SWI_DECODED_SLOTS_MAX are not made. slots 0 gives NULL. */
#define SWI_DECODED_SLOTS_MAX 256U
SW_MUST_USE sw_status swi_decoded_make(uint32_t slots, uint64_t slot_bytes, swi_decoded **out,
                                       sw_error *err);
void swi_decoded_free(swi_decoded *decoded);

typedef enum swi_decoded_found {
    SWI_DECODED_HELD = 1, /* *bytes are the chunk's, until swi_decoded_release */
    SWI_DECODED_TO_FILL, /* *bytes are to be made by the caller, who says swi_decoded_filled then */
    SWI_DECODED_ABSENT,  /* it is not there, and no slot was asked for */
    SWI_DECODED_BUSY     /* another thread is at it, or at every slot */
} swi_decoded_found;

typedef struct swi_decoded_ask {
    uint32_t blob;
    uint64_t raw_bytes; /* of the chunk, at most slot_bytes */
    bool find_only;     /* give no slot where it is absent */
    bool wait;          /* never BUSY */
} swi_decoded_ask;

swi_decoded_found swi_decoded_get(swi_decoded *decoded, const swi_decoded_ask *ask, uint32_t *slot,
                                  uint8_t **bytes);
/* It was decoded and is held from now on; or it could not be (then it is let go). */
void swi_decoded_filled(swi_decoded *decoded, uint32_t slot, bool ok);
/* `used_bytes` of it were copied: what was used once as a whole is given up first. */
void swi_decoded_release(swi_decoded *decoded, uint32_t slot, uint64_t used_bytes);

#endif
