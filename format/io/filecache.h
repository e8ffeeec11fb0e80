/*
 * The files of a catalog, opened on demand, at most so many at once (thousands of shards under a
 * low descriptor limit must work), read by id. Thread-safe. Implements the reads that model/blob.h
 * asks for.
 */
#ifndef SW_IO_FILECACHE_H
#define SW_IO_FILECACHE_H

#include "base/reader.h"
#include "io/store.h"

typedef struct swi_filecache swi_filecache;

/*
 * `path_of` names file `id` (0 .. count-1); both must outlive the cache. `store` is borrowed.
 */
typedef const char *(*swi_path_of_fn)(const void *ctx, uint32_t id);
SW_MUST_USE sw_status swi_filecache_make(const swi_store *store, uint32_t count,
                                         swi_path_of_fn path_of, const void *ctx,
                                         const sw_limits *limits, swi_filecache **out,
                                         sw_error *err);
void swi_filecache_free(swi_filecache *cache);

/* The reads, as base/reader.h has them; errors begin with the file's path. Lives in the cache. */
const swi_reader *swi_filecache_reader(swi_filecache *cache);
/*
 * Lends a writable file for decoded bytes (NULL: none any more); borrowed. Places in the file
 * before are void.
 */
void swi_filecache_set_scratch(swi_filecache *cache, swi_file *scratch);
/*
 * Where the cache makes a nameless file for decoded bytes when they need room and none is lent;
 * NULL: nowhere. Borrowed.
 */
void swi_filecache_set_temp_dir(swi_filecache *cache, const char *dir);

#endif
