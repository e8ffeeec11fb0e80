#include "io/store.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/checked.h"
#include "io/store_ops.h"

/* ---- paths --------------------------------------------------------------------------------- */

static sw_status fail_path(sw_error *err, const char *path, const char *why)
{
    swi_quoted room;
    return swi_fail(err, SW_ERR_UNSAFE, "path \"%s\" %s", swi_quote_str(&room, path), why);
}

sw_status swi_path_check(const char *path, sw_error *err)
{
    if (path == NULL || path[0] == '\0')
        return fail_path(err, path, "is empty");
    if (path[0] == '/')
        return fail_path(err, path, "is absolute: paths in a checkpoint are relative");
    for (const char *part = path;;) {
        size_t size = strcspn(part, "/");
        if (size == 0)
            return fail_path(err, path, "has an empty part");
        if (size == 1 && part[0] == '.')
            return fail_path(err, path, "has a part \".\"");
        if (size == 2 && part[0] == '.' && part[1] == '.')
            return fail_path(err, path, "has a part \"..\": it would leave the checkpoint");
        if (part[size] == '\0')
            return SW_OK;
        part += size + 1;
    }
}

static sw_status check_dir(const char *dir, sw_error *err)
{
    return dir != NULL && dir[0] == '\0' ? SW_OK : swi_path_check(dir, err);
}

sw_status swi_store_join(const char *root, const char *path, char **out, sw_error *err)
{
    swi_buf buf = {0};
    sw_status status = SW_OK;
    if (strcmp(root, ".") != 0) {
        size_t size = strlen(root);
        status = swi_buf_append(&buf, root, size, err);
        if (status == SW_OK && path[0] != '\0' && size != 0 && root[size - 1] != '/')
            status = swi_buf_u8(&buf, '/', err);
    } else if (path[0] == '\0') {
        status = swi_buf_u8(&buf, '.', err);
    }
    if (status == SW_OK)
        status = swi_buf_append(&buf, path, strlen(path) + 1, err);
    if (status != SW_OK) {
        swi_buf_free(&buf);
        return status;
    }
    *out = (char *)buf.data;
    return SW_OK;
}

const char *swi_store_label(swi_quoted *room, const char *root, const char *path)
{
    char *joined;
    if (swi_store_join(root, path, &joined, NULL) != SW_OK)
        return swi_quote_str(room, path);
    (void)swi_quote_str(room, joined);
    free(joined);
    return room->text;
}

sw_status swi_fail_not_file(sw_error *err, const char *root, const char *path, swi_entry_kind kind)
{
    swi_quoted room;
    return swi_fail(err, SW_ERR_FORMAT, "%s: is %s, expected a file",
                    swi_store_label(&room, root, path),
                    kind == SWI_ENTRY_DIR ? "a directory" : "not a regular file");
}

/* ---- stores -------------------------------------------------------------------------------- */

void swi_store_close(swi_store *store)
{
    if (store != NULL)
        store->ops->close(store);
}

const char *swi_store_root(const swi_store *store)
{
    return store->root;
}

sw_status swi_store_stat(const swi_store *store, const char *path, swi_entry *out, sw_error *err)
{
    sw_status status = swi_path_check(path, err);
    return status == SW_OK ? store->ops->stat(store, path, out, err) : status;
}

sw_status swi_store_read_link(const swi_store *store, const char *path, char *room, size_t size,
                              sw_error *err)
{
    swi_quoted q;
    sw_status status = swi_path_check(path, err);
    if (status != SW_OK)
        return status;
    if (store->ops->read_link == NULL)
        return swi_fail(err, SW_ERR_ARG, "%s: is no link", swi_quote_str(&q, path));
    return store->ops->read_link(store, path, room, size, err);
}

sw_status swi_store_open_read(const swi_store *store, const char *path, swi_file **out,
                              sw_error *err)
{
    sw_status status = swi_path_check(path, err);
    return status == SW_OK ? store->ops->open_read(store, path, out, err) : status;
}

sw_status swi_store_create(swi_store *store, const char *path, swi_file **out, sw_error *err)
{
    sw_status status = swi_path_check(path, err);
    return status == SW_OK ? store->ops->create(store, path, out, err) : status;
}

sw_status swi_store_open_write(swi_store *store, const char *path, swi_file **out, sw_error *err)
{
    sw_status status = swi_path_check(path, err);
    return status == SW_OK ? store->ops->open_write(store, path, out, err) : status;
}

sw_status swi_store_remove(swi_store *store, const char *path, sw_error *err)
{
    sw_status status = swi_path_check(path, err);
    return status == SW_OK ? store->ops->remove(store, path, err) : status;
}

sw_status swi_store_sync_dir(swi_store *store, const char *dir, sw_error *err)
{
    sw_status status = check_dir(dir, err);
    return status == SW_OK ? store->ops->sync_dir(store, dir, err) : status;
}

uint64_t swi_store_free_bytes(const swi_store *store)
{
    return store->ops->free_bytes(store);
}

/* ---- listing ------------------------------------------------------------------------------- */

typedef struct name_list {
    const swi_store *store;
    const char *dir;
    uint64_t max_entries;
    swi_arena arena;
    const char **items;
    size_t count;
    size_t capacity;
} name_list;

static sw_status collect_name(void *ctx, const char *name, sw_error *err)
{
    name_list *list = ctx;
    if (list->count >= list->max_entries) {
        swi_quoted room;
        return swi_fail(err, SW_ERR_LIMIT, "%s: holds more than %" PRIu64 " entries",
                        swi_store_label(&room, list->store->root, list->dir), list->max_entries);
    }
    sw_status status = swi_grow_array((void **)&list->items, &list->capacity, list->count + 1,
                                      sizeof *list->items, err);
    if (status != SW_OK)
        return status;
    const char *copy;
    status = swi_arena_text(&list->arena, name, strlen(name), &copy, err);
    if (status == SW_OK)
        list->items[list->count++] = copy;
    return status;
}

static int compare_names(const void *left, const void *right)
{
    return strcmp(*(const char *const *)left, *(const char *const *)right);
}

static sw_status visit_names(const name_list *list, swi_list_fn fn, void *ctx, sw_error *err)
{
    swi_buf path = {0};
    sw_status status = SW_OK;
    for (size_t i = 0; i < list->count && status == SW_OK; i++) {
        path.size = 0;
        if (list->dir[0] != '\0')
            status = swi_buf_printf(&path, err, "%s/", list->dir);
        if (status == SW_OK)
            status = swi_buf_append(&path, list->items[i], strlen(list->items[i]) + 1, err);
        if (status != SW_OK)
            break;
        swi_entry entry;
        sw_error local;
        status = list->store->ops->stat(list->store, (const char *)path.data, &entry, &local);
        if (status == SW_OK)
            status = fn(ctx, &entry, err);
        else if (status == SW_ERR_NOTFOUND)
            status = SW_OK; /* removed since its name was read */
        else if (err != NULL)
            *err = local;
    }
    swi_buf_free(&path);
    return status;
}

sw_status swi_store_list(const swi_store *store, const char *dir, uint64_t max_entries,
                         swi_list_fn fn, void *ctx, sw_error *err)
{
    sw_status status = check_dir(dir, err);
    if (status != SW_OK)
        return status;
    name_list list = {.store = store, .dir = dir, .max_entries = max_entries};
    status = store->ops->names(store, dir, collect_name, &list, err);
    if (status == SW_OK && list.count > 1)
        qsort(list.items, list.count, sizeof *list.items, compare_names);
    if (status == SW_OK)
        status = visit_names(&list, fn, ctx, err);
    free(list.items);
    swi_arena_free(&list.arena);
    return status;
}

/* ---- files --------------------------------------------------------------------------------- */

uint64_t swi_file_bytes(const swi_file *file)
{
    return atomic_load(&file->bytes);
}

sw_status swi_file_read(const swi_file *file, uint64_t offset, void *data, size_t size,
                        sw_error *err)
{
    if (size == 0)
        return SW_OK;
    size_t got = 0;
    sw_status status = file->ops->read(file, offset, data, size, &got, err);
    if (status != SW_OK || got == size)
        return status;
    swi_quoted room;
    return swi_fail_at(err, SW_ERR_CORRUPT, NULL, offset,
                       "%s: needs %zu bytes at offset %" PRIu64 ", but the file holds %" PRIu64
                       " bytes (it was cut, or what describes it is wrong)",
                       swi_quote_str(&room, file->label), size, offset, file->ops->size_now(file));
}

sw_status swi_file_writev(swi_file *file, uint64_t offset, const swi_slice *slices, size_t count,
                          sw_error *err)
{
    swi_quoted room;
    uint64_t end = offset;
    for (size_t i = 0; i < count; i++)
        if (!swi_add_u64(end, slices[i].size, &end) || end > INT64_MAX)
            return swi_fail(err, SW_ERR_ARG, "%s: write past the largest file size",
                            swi_quote_str(&room, file->label));
    if (!file->writable)
        return swi_fail(err, SW_ERR_ARG, "%s: opened for reading",
                        swi_quote_str(&room, file->label));
    sw_status status = file->ops->writev(file, offset, slices, count, err);
    if (status != SW_OK || end == offset)
        return status;
    uint64_t bytes = atomic_load(&file->bytes);
    while (bytes < end && !atomic_compare_exchange_weak(&file->bytes, &bytes, end)) {
    }
    return SW_OK;
}

sw_status swi_file_write(swi_file *file, uint64_t offset, const void *data, size_t size,
                         sw_error *err)
{
    swi_slice slice = {.data = data, .size = size};
    return swi_file_writev(file, offset, &slice, 1, err);
}

sw_status swi_file_reserve(swi_file *file, uint64_t bytes, sw_error *err)
{
    swi_quoted room;
    if (!file->writable || bytes > INT64_MAX)
        return swi_fail(err, SW_ERR_ARG, "%s: cannot reserve %" PRIu64 " bytes",
                        swi_quote_str(&room, file->label), bytes);
    sw_status status = file->ops->reserve(file, bytes, err);
    if (status == SW_OK)
        atomic_store(&file->bytes, bytes);
    return status;
}

void swi_file_direct(swi_file *file, bool on)
{
    if (file->ops->direct != NULL)
        file->ops->direct(file, on);
}

void swi_file_write_behind(swi_file *file, uint64_t offset, uint64_t size)
{
    file->ops->write_behind(file, offset, size);
}

void swi_file_read_ahead(const swi_file *file, uint64_t offset, uint64_t size)
{
    file->ops->read_ahead(file, offset, size);
}

sw_status swi_file_sync(swi_file *file, sw_error *err)
{
    return file->ops->sync(file, err);
}

void swi_file_close(swi_file *file)
{
    if (file != NULL)
        file->ops->close(file);
}

sw_status swi_store_head(const swi_store *store, const char *path, uint8_t *data, size_t room,
                         size_t *size, sw_error *err)
{
    swi_file *file = NULL;
    sw_status status = swi_store_open_read(store, path, &file, err);
    if (status != SW_OK)
        return status;
    uint64_t whole = swi_file_bytes(file);
    size_t n = whole < room ? (size_t)whole : room;
    if (n > 0)
        status = swi_file_read(file, 0, data, n, err);
    swi_file_close(file);
    if (status == SW_OK)
        *size = n;
    return status;
}

static sw_status check_size(const swi_file *file, uint64_t max_bytes, sw_error *err)
{
    swi_quoted room;
    uint64_t bytes = swi_file_bytes(file);
    if (bytes <= max_bytes && bytes < SIZE_MAX)
        return SW_OK;
    return swi_fail(err, SW_ERR_LIMIT, "%s: holds %" PRIu64 " bytes, the limit is %" PRIu64,
                    swi_quote_str(&room, file->label), bytes, max_bytes);
}

sw_status swi_store_read_all(const swi_store *store, const char *path, uint64_t max_bytes,
                             uint8_t **data, size_t *size, sw_error *err)
{
    swi_file *file = NULL;
    void *bytes = NULL;
    sw_status status = swi_store_open_read(store, path, &file, err);
    if (status != SW_OK)
        return status;
    status = check_size(file, max_bytes, err);
    if (status != SW_OK)
        goto done;
    uint64_t whole = swi_file_bytes(file);
    status = swi_alloc_array((size_t)whole + 1, 1, &bytes, err);
    if (status == SW_OK)
        status = swi_file_read(file, 0, bytes, (size_t)whole, err);
    if (status != SW_OK)
        goto done;
    *data = bytes;
    *size = (size_t)whole;
    bytes = NULL;
done:
    free(bytes);
    swi_file_close(file);
    return status;
}

sw_status swi_read_file(const char *path, uint64_t max_bytes, uint8_t **data, size_t *size,
                        sw_error *err)
{
    const char *slash = strrchr(path, '/');
    swi_store *store = NULL;
    swi_quoted room;
    struct stat found;
    if (stat(path, &found) == 0 && S_ISDIR(found.st_mode))
        return swi_fail(err, SW_ERR_ARG, "%s: is a directory, expected a file",
                        swi_quote_str(&room, path));
    sw_status status = swi_store_open_posix(path, &store, err);
    if (status != SW_OK)
        return status;
    status = swi_store_read_all(store, slash ? slash + 1 : path, max_bytes, data, size, err);
    swi_store_close(store);
    return status;
}

static sw_status read_feed(void *ctx, uint64_t offset, void *data, size_t size, sw_error *err)
{
    return swi_file_read(ctx, offset, data, size, err);
}

static void end_feed(void *ctx)
{
    swi_file_close(ctx);
}

sw_status swi_store_feed(const swi_store *store, const char *path, uint64_t max_bytes,
                         swi_feed *out, sw_error *err)
{
    swi_file *file = NULL;
    sw_status status = swi_store_open_read(store, path, &file, err);
    if (status == SW_OK)
        status = check_size(file, max_bytes, err);
    if (status != SW_OK) {
        swi_file_close(file);
        return status;
    }
    *out = swi_feed_of(read_feed, file, swi_file_bytes(file));
    out->end = end_feed;
    return SW_OK;
}
