/*
 * What a kind of store implements; included by the kinds and by store.c alone. Paths that arrive
 * here have passed swi_path_check. Errors begin with the label of the file: root and path, escaped.
 */
#ifndef SW_IO_STORE_OPS_H
#define SW_IO_STORE_OPS_H

#include <stdatomic.h>

#include "base/text.h"
#include "io/store.h"

/* Takes one name of a directory; fails with SW_ERR_LIMIT or SW_ERR_NOMEM. */
typedef sw_status (*swi_name_sink)(void *ctx, const char *name, sw_error *err);

typedef struct swi_store_ops {
    void (*close)(swi_store *store);
    /* Every name in `dir` ("" = the root), in any order, without "." and "..". */
    sw_status (*names)(const swi_store *store, const char *dir, swi_name_sink sink, void *ctx,
                       sw_error *err);
    sw_status (*stat)(const swi_store *store, const char *path, swi_entry *out, sw_error *err);
    /* NULL: it has no links. */
    sw_status (*read_link)(const swi_store *store, const char *path, char *room, size_t size,
                           sw_error *err);
    sw_status (*open_read)(const swi_store *store, const char *path, swi_file **out, sw_error *err);
    sw_status (*create)(swi_store *store, const char *path, swi_file **out, sw_error *err);
    sw_status (*open_write)(swi_store *store, const char *path, swi_file **out, sw_error *err);
    sw_status (*remove)(swi_store *store, const char *path, sw_error *err);
    sw_status (*sync_dir)(swi_store *store, const char *dir, sw_error *err);
    uint64_t (*free_bytes)(const swi_store *store);
} swi_store_ops;

struct swi_store {
    const swi_store_ops *ops;
    char *root;
};

typedef struct swi_file_ops {
    /* As many of `size` bytes as there are, *got says how many: less only at the end. */
    sw_status (*read)(const swi_file *file, uint64_t offset, void *data, size_t size, size_t *got,
                      sw_error *err);
    uint64_t (*size_now)(const swi_file *file);
    sw_status (*writev)(swi_file *file, uint64_t offset, const swi_slice *slices, size_t count,
                        sw_error *err);
    sw_status (*reserve)(swi_file *file, uint64_t bytes, sw_error *err);
    void (*direct)(swi_file *file, bool on); /* NULL: there is no cache to pass */
    void (*write_behind)(swi_file *file, uint64_t offset, uint64_t size);
    void (*read_ahead)(const swi_file *file, uint64_t offset, uint64_t size);
    sw_status (*sync)(swi_file *file, sw_error *err);
    void (*close)(swi_file *file);
} swi_file_ops;

struct swi_file {
    const swi_file_ops *ops;
    char *label; /* root and path, raw */
    bool writable;
    _Atomic uint64_t bytes;
};

/* "ROOT/PATH", without a root of "."; free with free(). */
SW_MUST_USE sw_status swi_store_join(const char *root, const char *path, char **out, sw_error *err);
/* The same, escaped, for a message. */
const char *swi_store_label(swi_quoted *room, const char *root, const char *path);
/* "LABEL: is a directory, expected a file" and the like. */
sw_status swi_fail_not_file(sw_error *err, const char *root, const char *path, swi_entry_kind kind);

/* A posix store over an open directory, which it takes over and closes, also when it fails. */
SW_MUST_USE sw_status swi_store_from_dir(int dir_fd, const char *root, swi_store **out,
                                         sw_error *err);

#endif
