#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/checked.h"
#include "io/store_ops.h"

/* The bytes of a file: owned by its name and by every open file, freed with the last of them. */
typedef struct node {
    swi_buf data;
    size_t refs;
} node;

typedef struct named_node {
    char *path;
    node *node;
} named_node;

/*
 * A sorted list of full paths; directories exist where a path leads through them. One lock for all:
 * this store is for tests and fuzzers, and for small things.
 */
typedef struct memory_store {
    swi_store base;
    pthread_mutex_t lock;
    named_node *items;
    size_t count;
    size_t capacity;
} memory_store;

typedef struct memory_file {
    swi_file base;
    memory_store *store; /* outlives its files */
    node *node;
} memory_file;

static memory_store *lock_store(const swi_store *store)
{
    memory_store *memory = (memory_store *)(uintptr_t)store;
    (void)pthread_mutex_lock(&memory->lock);
    return memory;
}

static void unlock_store(memory_store *memory)
{
    (void)pthread_mutex_unlock(&memory->lock);
}

static void drop_node(node *n)
{
    if (--n->refs > 0)
        return;
    swi_buf_free(&n->data);
    free(n);
}

/* ---- names --------------------------------------------------------------------------------- */

/* The index of the first path that is not before `path`. */
static size_t lower_bound(const memory_store *memory, const char *path)
{
    size_t low = 0, high = memory->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (strcmp(memory->items[middle].path, path) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static node *find_node(const memory_store *memory, const char *path)
{
    size_t i = lower_bound(memory, path);
    bool found = i < memory->count && strcmp(memory->items[i].path, path) == 0;
    return found ? memory->items[i].node : NULL;
}

/* What follows "DIR/" in `path`, or NULL when it is not in that directory. */
static const char *inside(const char *path, const char *dir)
{
    size_t size = strlen(dir);
    if (size == 0)
        return path;
    return strncmp(path, dir, size) == 0 && path[size] == '/' ? path + size + 1 : NULL;
}

static bool is_dir(const memory_store *memory, const char *path)
{
    for (size_t i = lower_bound(memory, path); i < memory->count; i++) {
        if (inside(memory->items[i].path, path) != NULL)
            return true;
        if (strncmp(memory->items[i].path, path, strlen(path)) != 0)
            return false;
    }
    return false;
}

static sw_status fail_missing(sw_error *err, const swi_store *store, const char *path)
{
    swi_quoted room;
    return swi_fail(err, SW_ERR_NOTFOUND, "%s: no such file or directory",
                    swi_store_label(&room, store->root, path));
}

/* ---- files --------------------------------------------------------------------------------- */

static sw_status memory_read(const swi_file *file, uint64_t offset, void *data, size_t size,
                             size_t *got, sw_error *err)
{
    (void)err;
    const memory_file *f = (const memory_file *)file;
    memory_store *memory = lock_store(&f->store->base);
    const swi_buf *bytes = &f->node->data;
    size_t n = 0;
    if (offset < bytes->size) {
        n = bytes->size - (size_t)offset;
        if (n > size)
            n = size;
        memcpy(data, bytes->data + offset, n);
    }
    unlock_store(memory);
    *got = n;
    return SW_OK;
}

static uint64_t memory_size_now(const swi_file *file)
{
    const memory_file *f = (const memory_file *)file;
    memory_store *memory = lock_store(&f->store->base);
    uint64_t bytes = f->node->data.size;
    unlock_store(memory);
    return bytes;
}

/* Called under the lock. */
static sw_status resize(node *n, uint64_t bytes, sw_error *err)
{
    size_t size;
    if (!swi_u64_to_size(bytes, &size))
        return swi_fail_nomem(err);
    if (size > n->data.size)
        return swi_buf_fill(&n->data, 0, size - n->data.size, err);
    n->data.size = size;
    return SW_OK;
}

static sw_status memory_writev(swi_file *file, uint64_t offset, const swi_slice *slices,
                               size_t count, sw_error *err)
{
    const memory_file *f = (const memory_file *)file;
    uint64_t end = offset;
    for (size_t i = 0; i < count; i++)
        end += slices[i].size; /* the sum was checked */
    if (end == offset)
        return SW_OK;
    memory_store *memory = lock_store(&f->store->base);
    sw_status status = end > f->node->data.size ? resize(f->node, end, err) : SW_OK;
    for (size_t i = 0; i < count && status == SW_OK; i++) {
        if (slices[i].size != 0)
            memcpy(f->node->data.data + offset, slices[i].data, slices[i].size);
        offset += slices[i].size;
    }
    unlock_store(memory);
    return status;
}

static sw_status memory_reserve(swi_file *file, uint64_t bytes, sw_error *err)
{
    const memory_file *f = (const memory_file *)file;
    memory_store *memory = lock_store(&f->store->base);
    sw_status status = resize(f->node, bytes, err);
    unlock_store(memory);
    return status;
}

static void memory_write_behind(swi_file *file, uint64_t offset, uint64_t size)
{
    (void)file, (void)offset, (void)size;
}

static void memory_read_ahead(const swi_file *file, uint64_t offset, uint64_t size)
{
    (void)file, (void)offset, (void)size;
}

static sw_status memory_sync(swi_file *file, sw_error *err)
{
    (void)file, (void)err;
    return SW_OK;
}

static void memory_file_close(swi_file *file)
{
    memory_file *f = (memory_file *)file;
    memory_store *memory = lock_store(&f->store->base);
    drop_node(f->node);
    unlock_store(memory);
    free(file->label);
    free(f);
}

static const swi_file_ops memory_file_ops = {
    .read = memory_read,
    .size_now = memory_size_now,
    .writev = memory_writev,
    .reserve = memory_reserve,
    .write_behind = memory_write_behind,
    .read_ahead = memory_read_ahead,
    .sync = memory_sync,
    .close = memory_file_close,
};

/* Called under the lock. */
static sw_status make_file(memory_store *memory, const char *path, node *n, bool writable,
                           swi_file **out, sw_error *err)
{
    void *p;
    sw_status status = swi_alloc_array(1, sizeof(memory_file), &p, err);
    if (status != SW_OK)
        return status;
    memory_file *file = p;
    status = swi_store_join(memory->base.root, path, &file->base.label, err);
    if (status != SW_OK) {
        free(file);
        return status;
    }
    file->base.ops = &memory_file_ops;
    file->base.writable = writable;
    atomic_init(&file->base.bytes, n->data.size);
    file->store = memory;
    file->node = n;
    n->refs++;
    *out = &file->base;
    return SW_OK;
}

/* ---- the store ----------------------------------------------------------------------------- */

static void memory_close(swi_store *store)
{
    memory_store *memory = (memory_store *)store;
    for (size_t i = 0; i < memory->count; i++) {
        drop_node(memory->items[i].node);
        free(memory->items[i].path);
    }
    free(memory->items);
    (void)pthread_mutex_destroy(&memory->lock);
    free(store->root);
    free(memory);
}

/*
 * The names in a directory, once each: paths are sorted, but "a-b" comes between "a" and "a/c", so
 * that a name may come again later. Returns false when there is no such directory.
 */
static sw_status copy_names(const memory_store *memory, const char *dir, char ***out, size_t *count,
                            sw_error *err)
{
    char **names = NULL;
    size_t capacity = 0, n = 0;
    sw_status status = SW_OK;
    for (size_t i = 0; i < memory->count && status == SW_OK; i++) {
        const char *rest = inside(memory->items[i].path, dir);
        if (rest == NULL)
            continue;
        size_t size = strcspn(rest, "/");
        bool seen = false;
        for (size_t k = 0; k < n && !seen; k++)
            seen = strlen(names[k]) == size && memcmp(names[k], rest, size) == 0;
        if (seen)
            continue;
        status = swi_grow_array((void **)&names, &capacity, n + 1, sizeof *names, err);
        if (status == SW_OK && (names[n] = strndup(rest, size)) == NULL)
            status = swi_fail_nomem(err);
        if (status == SW_OK)
            n++;
    }
    *out = names;
    *count = n;
    return status;
}

static sw_status memory_names(const swi_store *store, const char *dir, swi_name_sink sink,
                              void *ctx, sw_error *err)
{
    char **names = NULL;
    size_t count = 0;
    memory_store *memory = lock_store(store);
    sw_status status = copy_names(memory, dir, &names, &count, err);
    unlock_store(memory);
    if (status == SW_OK && count == 0 && dir[0] != '\0')
        status = fail_missing(err, store, dir);
    for (size_t i = 0; i < count; i++) {
        if (status == SW_OK)
            status = sink(ctx, names[i], err);
        free(names[i]);
    }
    free(names);
    return status;
}

static sw_status memory_stat(const swi_store *store, const char *path, swi_entry *out,
                             sw_error *err)
{
    memory_store *memory = lock_store(store);
    const node *n = find_node(memory, path);
    swi_entry entry = {.path = path, .kind = n != NULL ? SWI_ENTRY_FILE : SWI_ENTRY_DIR};
    bool found = n != NULL || is_dir(memory, path);
    if (n != NULL)
        entry.bytes = n->data.size;
    unlock_store(memory);
    if (!found)
        return fail_missing(err, store, path);
    *out = entry;
    return SW_OK;
}

static sw_status open_file(const swi_store *store, const char *path, bool writable, swi_file **out,
                           sw_error *err)
{
    memory_store *memory = lock_store(store);
    node *n = find_node(memory, path);
    sw_status status;
    if (n != NULL)
        status = make_file(memory, path, n, writable, out, err);
    else if (is_dir(memory, path))
        status = swi_fail_not_file(err, store->root, path, SWI_ENTRY_DIR);
    else
        status = fail_missing(err, store, path);
    unlock_store(memory);
    return status;
}

static sw_status memory_open_read(const swi_store *store, const char *path, swi_file **out,
                                  sw_error *err)
{
    return open_file(store, path, false, out, err);
}

static sw_status memory_open_write(swi_store *store, const char *path, swi_file **out,
                                   sw_error *err)
{
    return open_file(store, path, true, out, err);
}

/* Whether some part of the way to `path` is a file. */
static bool leads_through_file(const memory_store *memory, const char *path)
{
    for (size_t i = 0; i < memory->count; i++)
        if (inside(path, memory->items[i].path) != NULL)
            return true;
    return false;
}

static sw_status insert_node(memory_store *memory, const char *path, sw_error *err)
{
    void *p;
    sw_status status = swi_grow_array((void **)&memory->items, &memory->capacity, memory->count + 1,
                                      sizeof *memory->items, err);
    if (status == SW_OK)
        status = swi_alloc_array(1, sizeof(node), &p, err);
    if (status != SW_OK)
        return status;
    node *n = p;
    char *copy = strdup(path);
    if (copy == NULL) {
        free(n);
        return swi_fail_nomem(err);
    }
    size_t i = lower_bound(memory, path);
    memmove(&memory->items[i + 1], &memory->items[i], (memory->count - i) * sizeof *memory->items);
    n->refs = 1;
    memory->items[i] = (named_node){.path = copy, .node = n};
    memory->count++;
    return SW_OK;
}

static void remove_at(memory_store *memory, size_t i)
{
    drop_node(memory->items[i].node);
    free(memory->items[i].path);
    memmove(&memory->items[i], &memory->items[i + 1],
            (memory->count - i - 1) * sizeof *memory->items);
    memory->count--;
}

static sw_status memory_create(swi_store *store, const char *path, swi_file **out, sw_error *err)
{
    memory_store *memory = lock_store(store);
    swi_quoted room;
    sw_status status = SW_OK;
    if (find_node(memory, path) != NULL || is_dir(memory, path))
        status =
            swi_fail(err, SW_ERR_EXISTS, "%s: exists", swi_store_label(&room, store->root, path));
    else if (leads_through_file(memory, path))
        status = swi_fail(err, SW_ERR_NOTFOUND, "%s: a part of the path is a file",
                          swi_store_label(&room, store->root, path));
    else
        status = insert_node(memory, path, err);
    if (status == SW_OK) {
        status = make_file(memory, path, find_node(memory, path), true, out, err);
        if (status != SW_OK)
            remove_at(memory, lower_bound(memory, path));
    }
    unlock_store(memory);
    return status;
}

static sw_status memory_remove(swi_store *store, const char *path, sw_error *err)
{
    memory_store *memory = lock_store(store);
    sw_status status = SW_OK;
    if (find_node(memory, path) != NULL)
        remove_at(memory, lower_bound(memory, path));
    else
        status = fail_missing(err, store, path);
    unlock_store(memory);
    return status;
}

static sw_status memory_sync_dir(swi_store *store, const char *dir, sw_error *err)
{
    (void)store, (void)dir, (void)err;
    return SW_OK;
}

static uint64_t memory_free_bytes(const swi_store *store)
{
    (void)store;
    return UINT64_MAX;
}

static const swi_store_ops memory_ops = {
    .close = memory_close,
    .names = memory_names,
    .stat = memory_stat,
    .open_read = memory_open_read,
    .create = memory_create,
    .open_write = memory_open_write,
    .remove = memory_remove,
    .sync_dir = memory_sync_dir,
    .free_bytes = memory_free_bytes,
};

sw_status swi_store_open_memory(swi_store **out, sw_error *err)
{
    void *p;
    sw_status status = swi_alloc_array(1, sizeof(memory_store), &p, err);
    if (status != SW_OK)
        return status;
    memory_store *memory = p;
    memory->base.ops = &memory_ops;
    status = swi_store_join("memory:", "", &memory->base.root, err);
    if (status != SW_OK) {
        free(memory);
        return status;
    }
    int rc = pthread_mutex_init(&memory->lock, NULL);
    if (rc != 0) {
        free(memory->base.root);
        free(memory);
        return swi_fail_errno(err, rc, "pthread_mutex_init");
    }
    *out = &memory->base;
    return SW_OK;
}
