/*
 * Where files live: a vtable over positional, vectored reads and writes, so that everything above
 * works alike on a file system, in memory (tests, fuzzers) and later on object storage.
 *
 * A store is a rooted tree. Paths in it are relative, '/'-separated, UTF-8 or raw bytes, without
 * empty, "." or ".." parts and without a leading '/': anything else is SW_ERR_UNSAFE, whoever
 * supplies it. On a file system no part but the last may be a symbolic link; a last part that is a
 * link to a regular file is followed when reading (Hugging Face's cache is made of them) and never
 * when writing. Stores and files may be used by many threads at once.
 */
#ifndef SW_IO_STORE_H
#define SW_IO_STORE_H

#include "base/error.h"
#include "base/feed.h"

typedef struct swi_store swi_store;
typedef struct swi_file swi_file;

typedef enum swi_entry_kind {
    SWI_ENTRY_FILE = 0,
    SWI_ENTRY_DIR,
    SWI_ENTRY_OTHER /* device, socket, FIFO, dangling or looping link */
} swi_entry_kind;

typedef struct swi_entry {
    const char *path; /* relative to the store's root, borrowed for the call */
    swi_entry_kind kind;
    bool is_link; /* reached through a symbolic link; kind and bytes are the target's */
    uint64_t bytes;
    int64_t mtime_ns; /* last change of the content, since the epoch; 0: not known */
} swi_entry;

/* A directory on disk, opened for reading; or the folder of a single file. */
SW_MUST_USE sw_status swi_store_open_posix(const char *root, swi_store **out, sw_error *err);
/* An empty tree in memory. */
SW_MUST_USE sw_status swi_store_open_memory(swi_store **out, sw_error *err);
void swi_store_close(swi_store *store);
/* How the root is called in messages. */
const char *swi_store_root(const swi_store *store);

/* SW_ERR_UNSAFE unless `path` may be used in a store (see above). */
SW_MUST_USE sw_status swi_path_check(const char *path, sw_error *err);

/*
 * Entries of a directory ("" = the root), sorted by name bytewise, without "." and "..". `fn`
 * returns SW_OK to go on. More than `max_entries` is SW_ERR_LIMIT.
 */
typedef sw_status (*swi_list_fn)(void *ctx, const swi_entry *entry, sw_error *err);
SW_MUST_USE sw_status swi_store_list(const swi_store *store, const char *dir, uint64_t max_entries,
                                     swi_list_fn fn, void *ctx, sw_error *err);
/* SW_ERR_NOTFOUND when there is none. out->path is `path`. */
SW_MUST_USE sw_status swi_store_stat(const swi_store *store, const char *path, swi_entry *out,
                                     sw_error *err);

/* Where a symbolic link points, cut to size - 1 bytes. SW_ERR_ARG: it is none. */
SW_MUST_USE sw_status swi_store_read_link(const swi_store *store, const char *path, char *room,
                                          size_t size, sw_error *err);

SW_MUST_USE sw_status swi_store_open_read(const swi_store *store, const char *path, swi_file **out,
                                          sw_error *err);
/* Makes a new file (SW_ERR_EXISTS when there is one), parents are made too. */
SW_MUST_USE sw_status swi_store_create(swi_store *store, const char *path, swi_file **out,
                                       sw_error *err);
/* Opens an existing file for writing. */
SW_MUST_USE sw_status swi_store_open_write(swi_store *store, const char *path, swi_file **out,
                                           sw_error *err);
SW_MUST_USE sw_status swi_store_remove(swi_store *store, const char *path, sw_error *err);
/* Makes the names in a directory ("" = the root) durable. */
SW_MUST_USE sw_status swi_store_sync_dir(swi_store *store, const char *dir, sw_error *err);

uint64_t swi_file_bytes(const swi_file *file); /* at the time it was opened, or as written since */
/*
 * Exactly `size` bytes: short reads and EINTR are continued; a file that ends early is
 * SW_ERR_CORRUPT with the expected and found size (it was cut after it was opened or described).
 */
SW_MUST_USE sw_status swi_file_read(const swi_file *file, uint64_t offset, void *data, size_t size,
                                    sw_error *err);
SW_MUST_USE sw_status swi_file_write(swi_file *file, uint64_t offset, const void *data, size_t size,
                                     sw_error *err);
typedef struct swi_slice {
    const void *data;
    size_t size;
} swi_slice;
/* The slices one after another from `offset` on. */
SW_MUST_USE sw_status swi_file_writev(swi_file *file, uint64_t offset, const swi_slice *slices,
                                      size_t count, sw_error *err);
/* Sets the size and reserves the space: SW_ERR_IO (ENOSPC) now rather than halfway. */
SW_MUST_USE sw_status swi_file_reserve(swi_file *file, uint64_t bytes, sw_error *err);
/*
 * Whether writes go past the system's cache; while they do, offset, size and address of each are
 * multiples of SWI_DIRECT_ALIGN. A hint: it stays as it is where the file system is better off with
 * its cache (over a network, say). Nobody writes meanwhile.
 */
#define SWI_DIRECT_ALIGN ((uint64_t)4096)
void swi_file_direct(swi_file *file, bool on);
/* Asks the system to start writing this range back; a hint, cannot fail. */
void swi_file_write_behind(swi_file *file, uint64_t offset, uint64_t size);
/* Tells the system that a range will be read soon / is not needed again; hints. */
void swi_file_read_ahead(const swi_file *file, uint64_t offset, uint64_t size);
SW_MUST_USE sw_status swi_file_sync(swi_file *file, sw_error *err);
/* Reading: never fails in a way that matters. Writing: call swi_file_sync first. */
void swi_file_close(swi_file *file);

/* A file from its first byte to its last; larger than max_bytes is SW_ERR_LIMIT. */
SW_MUST_USE sw_status swi_store_feed(const swi_store *store, const char *path, uint64_t max_bytes,
                                     swi_feed *out, sw_error *err);

/* A whole small file into memory (free with free()); larger than max_bytes is SW_ERR_LIMIT. */
SW_MUST_USE sw_status swi_store_read_all(const swi_store *store, const char *path,
                                         uint64_t max_bytes, uint8_t **data, size_t *size,
                                         sw_error *err);

/* The same for a file that a user names by its path. */
SW_MUST_USE sw_status swi_read_file(const char *path, uint64_t max_bytes, uint8_t **data,
                                    size_t *size, sw_error *err);

/* The first bytes of a file, at most `room`; how many in *size. */
SW_MUST_USE sw_status swi_store_head(const swi_store *store, const char *path, uint8_t *data,
                                     size_t room, size_t *size, sw_error *err);

/* Bytes that the file system of the store has free for us; UINT64_MAX when it cannot say. */
uint64_t swi_store_free_bytes(const swi_store *store);

#endif
