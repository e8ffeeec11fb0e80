/*
 * Memory that is freed all at once: names, packed pieces, graphs. Chunks of growing size (up to
 * 1 MiB, larger requests get their own). Pointers stay valid until the arena is freed. Not shared
 * by threads while it grows.
 */
#ifndef SW_BASE_ARENA_H
#define SW_BASE_ARENA_H

#include "shardwright_format.h"

typedef struct swi_arena_chunk swi_arena_chunk;

typedef struct swi_arena {
    swi_arena_chunk *chunks; /* newest first */
    uint8_t *next;
    size_t left;
    size_t total_bytes; /* all chunks, headers included */
} swi_arena;

void swi_arena_free(swi_arena *arena); /* ends with {0} */
/* `size` bytes, zeroed, aligned to 8. A size of 0 gives a valid pointer. */
SW_MUST_USE sw_status swi_arena_alloc(swi_arena *arena, size_t size, void **out, sw_error *err);
/* `size` bytes without alignment or zeroing. */
SW_MUST_USE sw_status swi_arena_bytes(swi_arena *arena, size_t size, uint8_t **out, sw_error *err);
/* A terminated copy. */
SW_MUST_USE sw_status swi_arena_text(swi_arena *arena, const char *text, size_t size,
                                     const char **out, sw_error *err);

/*
 * calloc(count, size) with the overflow check and the error; free with free(). A count of 0 gives a
 * valid pointer.
 */
SW_MUST_USE sw_status swi_alloc_array(size_t count, size_t size, void **out, sw_error *err);
/*
 * Makes room for at least `need` elements in a growing array: *items of *capacity elements, new
 * room zeroed. Unchanged on failure. The raw one leaves new room as it is: for large tables whose
 * rows are written whole, so that room that is not used yet takes no memory. Reserving, raw too, is
 * for exactly the elements that are known to come.
 */
SW_MUST_USE sw_status swi_grow_raw(void **items, size_t *capacity, size_t need, size_t size,
                                   sw_error *err);
SW_MUST_USE sw_status swi_reserve_array(void **items, size_t *capacity, size_t need, size_t size,
                                        sw_error *err);
SW_MUST_USE sw_status swi_grow_array(void **items, size_t *capacity, size_t need, size_t size,
                                     sw_error *err);

#endif
