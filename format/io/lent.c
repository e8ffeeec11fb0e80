#include "io/lent.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/checked.h"
#include "io/store_ops.h"

typedef struct lent_store {
    swi_store base;
    char *name;
    const swi_slice *slices;
    uint64_t *ends; /* of each slice in the file */
    size_t count;
} lent_store;

typedef struct lent_file {
    swi_file base;
    const lent_store *store; /* outlives its files */
} lent_file;

static uint64_t bytes_of(const lent_store *s)
{
    return s->count > 0 ? s->ends[s->count - 1] : 0;
}

/* The first slice that ends behind the offset. */
static size_t slice_at(const lent_store *s, uint64_t offset)
{
    size_t low = 0, high = s->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (s->ends[middle] <= offset)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static sw_status lent_read(const swi_file *file, uint64_t offset, void *data, size_t size,
                           size_t *got, sw_error *err)
{
    const lent_store *s = ((const lent_file *)file)->store;
    uint8_t *out = data;
    size_t done = 0;
    (void)err;
    for (size_t i = slice_at(s, offset); i < s->count && done < size; i++) {
        const swi_slice *slice = &s->slices[i];
        const size_t skip = (size_t)(offset + done - (s->ends[i] - slice->size));
        size_t n = slice->size - skip;
        if (n > size - done)
            n = size - done;
        if (n > 0)
            memcpy(out + done, (const uint8_t *)slice->data + skip, n);
        done += n;
    }
    *got = done;
    return SW_OK;
}

static uint64_t lent_size_now(const swi_file *file)
{
    return bytes_of(((const lent_file *)file)->store);
}

static void lent_read_ahead(const swi_file *file, uint64_t offset, uint64_t size)
{
    (void)file, (void)offset, (void)size;
}

static void lent_file_close(swi_file *file)
{
    free(file->label);
    free(file);
}

static const swi_file_ops lent_file_ops = {
    .read = lent_read,
    .size_now = lent_size_now,
    .read_ahead = lent_read_ahead,
    .close = lent_file_close,
};

static void lent_close(swi_store *store)
{
    lent_store *s = (lent_store *)store;
    free(s->ends);
    free(s->name);
    free(s->base.root);
    free(s);
}

static sw_status lent_names(const swi_store *store, const char *dir, swi_name_sink sink, void *ctx,
                            sw_error *err)
{
    const lent_store *s = (const lent_store *)store;
    swi_quoted room;
    if (dir[0] != '\0')
        return swi_fail(err, SW_ERR_NOTFOUND, "%s: no such file or directory",
                        swi_store_label(&room, store->root, dir));
    return sink(ctx, s->name, err);
}

static sw_status lent_stat(const swi_store *store, const char *path, swi_entry *out, sw_error *err)
{
    const lent_store *s = (const lent_store *)store;
    swi_quoted room;
    if (strcmp(path, s->name) != 0)
        return swi_fail(err, SW_ERR_NOTFOUND, "%s: no such file or directory",
                        swi_store_label(&room, store->root, path));
    *out = (swi_entry){.path = path, .kind = SWI_ENTRY_FILE, .bytes = bytes_of(s)};
    return SW_OK;
}

static sw_status lent_open_read(const swi_store *store, const char *path, swi_file **out,
                                sw_error *err)
{
    swi_entry entry;
    lent_file *file = NULL;
    sw_status st = lent_stat(store, path, &entry, err);
    if (st == SW_OK)
        st = swi_alloc_array(1, sizeof *file, (void **)&file, err);
    if (st == SW_OK)
        st = swi_store_join(store->root, path, &file->base.label, err);
    if (st != SW_OK) {
        free(file);
        return st;
    }
    file->base.ops = &lent_file_ops;
    atomic_init(&file->base.bytes, entry.bytes);
    file->store = (const lent_store *)store;
    *out = &file->base;
    return SW_OK;
}

static sw_status refuse(const swi_store *store, const char *path, sw_error *err)
{
    swi_quoted room;
    return swi_fail(err, SW_ERR_UNSUPPORTED, "%s: memory that is lent is not written",
                    swi_store_label(&room, store->root, path));
}

static sw_status lent_create(swi_store *store, const char *path, swi_file **out, sw_error *err)
{
    (void)out;
    return refuse(store, path, err);
}

static sw_status lent_change(swi_store *store, const char *path, sw_error *err)
{
    return refuse(store, path, err);
}

static uint64_t lent_free_bytes(const swi_store *store)
{
    (void)store;
    return UINT64_MAX;
}

static const swi_store_ops lent_ops = {
    .close = lent_close,
    .names = lent_names,
    .stat = lent_stat,
    .open_read = lent_open_read,
    .create = lent_create,
    .open_write = lent_create,
    .remove = lent_change,
    .sync_dir = lent_change,
    .free_bytes = lent_free_bytes,
};

static sw_status add_up(lent_store *s, sw_error *err)
{
    uint64_t end = 0;
    sw_status st = swi_alloc_array(s->count, sizeof *s->ends, (void **)&s->ends, err);
    for (size_t i = 0; st == SW_OK && i < s->count; i++) {
        if (!swi_add_u64(end, s->slices[i].size, &end) || end > INT64_MAX)
            return swi_fail(err, SW_ERR_LIMIT, "the memory that is lent is too large together");
        s->ends[i] = end;
    }
    return st;
}

sw_status swi_store_open_lent(const char *root, const char *name, const swi_slice *slices,
                              size_t count, swi_store **out, sw_error *err)
{
    lent_store *s = NULL;
    sw_status st = swi_path_check(name, err);
    if (st == SW_OK)
        st = swi_alloc_array(1, sizeof *s, (void **)&s, err);
    if (st != SW_OK)
        return st;
    s->base.ops = &lent_ops;
    s->slices = slices;
    s->count = count;
    s->base.root = strdup(root);
    s->name = strdup(name);
    st = s->base.root != NULL && s->name != NULL ? add_up(s, err) : swi_fail_nomem(err);
    if (st != SW_OK) {
        lent_close(&s->base);
        return st;
    }
    *out = &s->base;
    return SW_OK;
}
