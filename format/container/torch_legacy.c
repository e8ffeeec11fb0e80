#include "container/torch_legacy.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/checked.h"
#include "base/text.h"
#include "container/torch_internal.h"

#define VERSION 1001
/* How much is read at first; the pickles may need more. */
#define WINDOW_BYTES ((uint64_t)1 << 20)

/* 0x1950a86a20f9469cfc6c, little-endian. */
static const uint8_t magic[10] = {0x6C, 0xFC, 0x9C, 0x46, 0xF9, 0x20, 0x6A, 0xA8, 0x50, 0x19};

typedef struct reading {
    const swi_reader *reader;
    swi_torch_file *tf;
    swi_cursor cursor;     /* over the first bytes of the file */
    sw_value_graph *small; /* of all pickles but the object */
    sw_value keys;         /* a node of it */
} reading;

/* Each pickle lists its own dangerous names. */
static void add_unsafe(swi_pickle_unsafe *all, const swi_pickle_unsafe *more)
{
    all->total += more->total;
    for (uint32_t i = 0; i < more->listed && all->listed < SWI_PICKLE_UNSAFE_MAX; i++)
        all->at[all->listed++] = more->at[i];
}

/* One pickle of the row; `what` names it in errors. */
static sw_status next_pickle(reading *r, const char *what, sw_value_graph *graph, sw_value *out,
                             sw_error *err)
{
    const swi_pickle_options options = {.hook_ctx = r->tf, .persistent = swi_torch_on_persistent};
    swi_pickle_unsafe unsafe = {0};
    sw_status st = swi_pickle_read(&r->cursor, &options, graph, out, &unsafe, err);
    add_unsafe(&r->tf->unsafe, &unsafe);
    return st == SW_OK ? SW_OK : swi_error_prefix(err, "%s", what);
}

static sw_status read_magic(reading *r, sw_error *err)
{
    const uint8_t *data;
    size_t size;
    sw_value v;
    int64_t version;
    sw_status st = next_pickle(r, "the magic number", r->small, &v, err);
    if (st != SW_OK)
        return st;
    if (sw_value_get_kind(r->small, v) != SW_VALUE_BIGINT ||
        !sw_value_bytes(r->small, v, &data, &size) || size != sizeof magic ||
        memcmp(data, magic, size) != 0)
        return swi_fail_at(err, SW_ERR_FORMAT, "TL-1", 0, "not a torch.save file");
    uint64_t at = r->cursor.pos;
    st = next_pickle(r, "the version", r->small, &v, err);
    if (st != SW_OK)
        return st;
    if (!sw_value_int(r->small, v, &version) || version != VERSION)
        return swi_fail_at(err, SW_ERR_UNSUPPORTED, "TL-2", at,
                           "a version other than %d of the form before 1.6", VERSION);
    at = r->cursor.pos;
    st = next_pickle(r, "the system's facts", r->small, &v, err);
    if (st == SW_OK && sw_value_get_kind(r->small, v) != SW_VALUE_DICT)
        st = swi_fail_at(err, SW_ERR_FORMAT, "TL-3", at, "the system's facts are no dict");
    return st;
}

/* TL-1 to TL-5: the five pickles. */
static sw_status read_pickles(reading *r, sw_error *err)
{
    swi_torch_file *tf = r->tf;
    sw_status st = read_magic(r, err);
    if (st != SW_OK)
        return st;
    tf->pickle_offset_bytes = r->cursor.pos;
    st = next_pickle(r, tf->pickle_name, tf->graph, &tf->top, err);
    if (st != SW_OK)
        return st;
    uint64_t at = r->cursor.pos;
    st = next_pickle(r, "the list of storages", r->small, &r->keys, err);
    if (st == SW_OK && sw_value_get_kind(r->small, r->keys) != SW_VALUE_LIST)
        st = swi_fail_at(err, SW_ERR_FORMAT, "TL-5", at, "the list of storages is no list");
    return st;
}

/* ---- the first bytes: as many as the pickles need ------------------------------------------- */

static void drop_parsed(reading *r)
{
    swi_torch_file *tf = r->tf;
    sw_value_graph_free(r->small);
    sw_value_graph_free(tf->graph);
    swi_names_free(tf->keys);
    free(tf->storages);
    r->small = NULL;
    tf->graph = NULL;
    tf->keys = NULL;
    tf->storages = NULL;
    tf->storage_count = tf->storage_capacity = 0;
    tf->unsafe = (swi_pickle_unsafe){0};
}

static sw_status parse(reading *r, const uint8_t *data, size_t size, sw_error *err)
{
    drop_parsed(r);
    r->cursor = swi_cursor_make(data, size);
    sw_status st = swi_graph_make(&r->reader->limits, &r->small, err);
    if (st == SW_OK)
        st = swi_graph_make(&r->reader->limits, &r->tf->graph, err);
    if (st == SW_OK)
        st = swi_names_make(&r->tf->keys, err);
    return st == SW_OK ? read_pickles(r, err) : st;
}

/* Whether a parse failed because its input ended. */
static bool ended_early(sw_status st, const sw_error *err)
{
    return st == SW_ERR_FORMAT &&
           (strcmp(err->clause, "PKL-3") == 0 || strcmp(err->clause, "PKL-6") == 0);
}

static sw_status too_long(const reading *r, sw_error *err)
{
    return swi_fail_at(err, SW_ERR_LIMIT, "TL-4", 0,
                       "its pickles take more than %" PRIu64 " bytes (limit metadata_bytes)",
                       r->reader->limits.metadata_bytes);
}

/* Nothing says where the pickles end but their own parse: the window grows until they fit. */
static sw_status parse_head(reading *r, sw_error *err)
{
    const uint64_t bytes = r->tf->bytes, limit = r->reader->limits.metadata_bytes;
    uint64_t most = bytes < limit ? bytes : limit;
    uint64_t window = most < WINDOW_BYTES ? most : WINDOW_BYTES;
    for (;;) {
        void *data = NULL;
        size_t size;
        sw_error cause = {0};
        if (!swi_u64_to_size(window, &size))
            return too_long(r, err);
        sw_status st = swi_alloc_array(size, 1, &data, &cause);
        if (st == SW_OK)
            st = r->reader->read(r->reader, r->tf->file, 0, data, size, &cause);
        if (st == SW_OK)
            st = parse(r, data, size, &cause);
        free(data);
        bool more = ended_early(st, &cause);
        if (more && window == most && most < bytes)
            return too_long(r, err);
        if (!more || window == most) {
            if (st != SW_OK && err != NULL)
                *err = cause;
            return st;
        }
        window = window > most / 4 ? most : window * 4;
    }
}

/* ---- storages -------------------------------------------------------------------------------- */

static sw_status cut(const reading *r, const swi_torch_storage *s, uint64_t need, uint64_t at,
                     sw_error *err)
{
    return swi_fail_at(err, SW_ERR_CORRUPT, "TL-6", at,
                       "the file is cut: storage %s needs %" PRIu64 " bytes from %" PRIu64
                       " on, the file ends at %" PRIu64,
                       s->key, need, at, r->tf->bytes);
}

/* TL-6: the number of elements, then exactly as many bytes as the object says. */
static sw_status place_storage(reading *r, swi_torch_storage *s, uint64_t *at, sw_error *err)
{
    uint8_t head[8];
    uint64_t count, bytes;
    if (!swi_range_inside(*at, sizeof head, r->tf->bytes))
        return cut(r, s, sizeof head, *at, err);
    sw_status st = r->reader->read(r->reader, r->tf->file, *at, head, sizeof head, err);
    if (st != SW_OK)
        return st;
    count = swi_load_u64le(head);
    if (!swi_mul_u64(count, s->element_bytes, &bytes) || bytes != s->bytes)
        return swi_fail_at(err, SW_ERR_CORRUPT, "TL-6", *at,
                           "storage %s holds %" PRIu64 " elements, the object says %" PRIu64,
                           s->key, count, s->bytes / s->element_bytes);
    *at += sizeof head;
    if (!swi_range_inside(*at, bytes, r->tf->bytes))
        return cut(r, s, bytes, *at, err);
    s->offset_bytes = *at;
    s->has_crc = bytes == 0;
    *at += bytes;
    return SW_OK;
}

static sw_status bad_key(const reading *r, const char *what, const uint8_t *key, size_t size,
                         sw_error *err)
{
    swi_quoted q;
    return swi_fail_at(err, SW_ERR_CORRUPT, "TL-5", r->cursor.pos, "the list of storages: %s %s",
                       swi_quote(&q, key, size), what);
}

static sw_status place_storages(reading *r, sw_error *err)
{
    swi_torch_file *tf = r->tf;
    uint64_t at = r->cursor.pos;
    size_t count = sw_value_size(r->small, r->keys);
    void *room;
    sw_status st = swi_alloc_array(tf->storage_count, 1, &room, err);
    if (st != SW_OK)
        return st;
    uint8_t *placed = room;
    for (size_t i = 0; st == SW_OK && i < count; i++) {
        sw_value v;
        const uint8_t *key = NULL;
        size_t size = 0;
        int64_t index = -1;
        if (sw_value_item(r->small, r->keys, i, &v) && sw_value_bytes(r->small, v, &key, &size))
            index = swi_names_find(tf->keys, key, size);
        if (index < 0)
            st = bad_key(r, "is not in the object", key, size, err);
        else if (placed[index])
            st = bad_key(r, "is there twice", key, size, err);
        if (st != SW_OK)
            break;
        placed[index] = 1;
        st = place_storage(r, &tf->storages[index], &at, err);
    }
    for (size_t i = 0; st == SW_OK && i < tf->storage_count; i++)
        if (!placed[i])
            st = bad_key(r, "is missing", (const uint8_t *)tf->storages[i].key,
                         strlen(tf->storages[i].key), err);
    free(placed);
    tf->end_bytes = at;
    return st;
}

sw_status swi_torch_open_legacy(const swi_reader *reader, uint32_t file, uint64_t bytes,
                                swi_pickle_unsafe *keep, swi_torch_file **out, sw_error *err)
{
    void *room;
    sw_status st = swi_alloc_array(1, sizeof(swi_torch_file), &room, err);
    if (st != SW_OK)
        return st;
    swi_torch_file *tf = room;
    reading r = {.reader = reader, .tf = tf};
    tf->file = file;
    tf->bytes = bytes;
    tf->legacy = true;
    tf->pickle_name = "the object";
    st = parse_head(&r, err);
    if (st == SW_OK)
        st = place_storages(&r, err);
    sw_value_graph_free(r.small);
    if (keep != NULL)
        *keep = tf->unsafe;
    if (st != SW_OK) {
        swi_torch_free(tf);
        return st;
    }
    *out = tf;
    return SW_OK;
}
