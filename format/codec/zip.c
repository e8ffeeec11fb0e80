/* Reading zip archives, backwards as they are meant to be: end record, directory, entry. */
#include "codec/zip_internal.h"

/* What the end records say. */
typedef struct end_record {
    uint64_t at; /* in the archive: of the first end record, where the directory ends */
    uint64_t count, dir_bytes, dir_offset;
} end_record;

static sw_status fail(const swi_zip *zip, sw_status status, const char *clause, uint64_t pos,
                      const char *what, sw_error *err)
{
    return swi_fail_at(err, status, clause, zip->offset + pos, "zip archive: %s", what);
}

/* ---- reading ----------------------------------------------------------------------------- */

static sw_status read_window(const swi_zip *zip, const swi_reader *reader, uint64_t pos,
                             uint64_t size, swi_zip_window *w, sw_error *err)
{
    size_t want;
    if (!swi_u64_to_size(size, &want))
        return swi_fail(err, SW_ERR_LIMIT, "zip archive: a directory of %" PRIu64 " bytes", size);
    swi_buf_free(&w->bytes);
    sw_status st = swi_buf_reserve(&w->bytes, want ? want : 1, err);
    if (st == SW_OK && want > 0)
        st = reader->read(reader, zip->file, zip->offset + pos, w->bytes.data, want, err);
    if (st != SW_OK)
        return st;
    w->bytes.size = want;
    w->pos = pos;
    return SW_OK;
}

static const uint8_t *in_window(const swi_zip_window *w, uint64_t pos, size_t size)
{
    if (w->bytes.size == 0 || pos < w->pos)
        return NULL;
    uint64_t at = pos - w->pos;
    return swi_range_inside(at, size, w->bytes.size) ? w->bytes.data + at : NULL;
}

const uint8_t *swi_zip_cached(const swi_zip *zip, uint64_t pos, size_t size)
{
    const uint8_t *p = in_window(&zip->tail, pos, size);
    return p != NULL ? p : in_window(&zip->head, pos, size);
}

sw_status swi_zip_get(const swi_zip *zip, const swi_reader *reader, uint64_t pos, size_t size,
                      swi_buf *room, const uint8_t **out, sw_error *err)
{
    const uint8_t *p = swi_zip_cached(zip, pos, size);
    if (p == NULL) {
        room->size = 0;
        sw_status st = swi_buf_reserve(room, size ? size : 1, err);
        if (st == SW_OK && size > 0)
            st = reader->read(reader, zip->file, zip->offset + pos, room->data, size, err);
        if (st != SW_OK)
            return st;
        p = room->data;
    }
    *out = p;
    return SW_OK;
}

/* ---- end records ------------------------------------------------------------------------- */

/* Position of the end record in the window: its comment must reach the end exactly. */
static bool find_end(const swi_zip_window *tail, size_t *at)
{
    size_t size = tail->bytes.size;
    if (size < END_BYTES)
        return false;
    size_t lowest = size - END_BYTES > COMMENT_MAX ? size - END_BYTES - COMMENT_MAX : 0;
    for (size_t pos = size - END_BYTES + 1; pos-- > lowest;) {
        const uint8_t *p = tail->bytes.data + pos;
        if (p[0] == 'P' && swi_load_u32le(p) == SIG_END &&
            swi_load_u16le(p + 20) == size - pos - END_BYTES) {
            *at = pos;
            return true;
        }
    }
    return false;
}

static sw_status read_tail(swi_zip *zip, const swi_reader *reader, size_t *end_at, sw_error *err)
{
    uint64_t size = zip->bytes < TAIL_FIRST_BYTES ? zip->bytes : TAIL_FIRST_BYTES;
    sw_status st = read_window(zip, reader, zip->bytes - size, size, &zip->tail, err);
    if (st != SW_OK)
        return st;
    if (find_end(&zip->tail, end_at))
        return SW_OK;
    uint64_t most = END_BYTES + COMMENT_MAX;
    if (size < zip->bytes) {
        size = zip->bytes < most ? zip->bytes : most;
        st = read_window(zip, reader, zip->bytes - size, size, &zip->tail, err);
        if (st != SW_OK)
            return st;
        if (find_end(&zip->tail, end_at))
            return SW_OK;
    }
    return swi_fail_at(err, SW_ERR_CORRUPT, "ZIP-1", zip->offset + zip->bytes,
                       "zip archive: no end record: the archive is cut after %" PRIu64
                       " bytes, or is none",
                       zip->bytes);
}

/* The zip64 end record, which the locator at `locator` of the archive points to. */
static sw_status read_end64(const swi_zip *zip, const swi_reader *reader, uint64_t locator,
                            const uint8_t *loc, end_record *end, sw_error *err)
{
    swi_buf room = {0};
    sw_status st = SW_OK;
    uint64_t at = swi_load_u64le(loc + 8);
    uint32_t disks = swi_load_u32le(loc + 16);
    if (swi_load_u32le(loc + 4) != 0 || disks > 1)
        return fail(zip, SW_ERR_CORRUPT, "ZIP-2", locator, "it spans several disks", err);
    if (at > locator || locator - at < END64_BYTES)
        return fail(zip, SW_ERR_CORRUPT, "ZIP-3", locator,
                    "the zip64 locator points outside the archive", err);
    const uint8_t *p;
    st = swi_zip_get(zip, reader, at, END64_BYTES, &room, &p, err);
    if (st != SW_OK)
        goto done;
    if (swi_load_u32le(p) != SIG_END64 || swi_load_u64le(p + 4) != locator - at - 12) {
        st = fail(zip, SW_ERR_CORRUPT, "ZIP-3", at,
                  "the zip64 end record is not where its locator says", err);
        goto done;
    }
    if (swi_load_u32le(p + 16) != 0 || swi_load_u32le(p + 20) != 0) {
        st = fail(zip, SW_ERR_CORRUPT, "ZIP-2", at, "it spans several disks", err);
        goto done;
    }
    end->at = at;
    end->count = swi_load_u64le(p + 32);
    end->dir_bytes = swi_load_u64le(p + 40);
    end->dir_offset = swi_load_u64le(p + 48);
    if (swi_load_u64le(p + 24) != end->count)
        st = fail(zip, SW_ERR_CORRUPT, "ZIP-3", at, "the zip64 end record counts entries twofold",
                  err);
done:
    swi_buf_free(&room);
    return st;
}

/* A field of the plain end record: the true value, or all ones where zip64 has it. */
static bool end_agrees(uint64_t field, uint64_t value, uint64_t ones)
{
    return field == value || field == ones;
}

static sw_status read_end(const swi_zip *zip, const swi_reader *reader, size_t end_at,
                          end_record *end, sw_error *err)
{
    const uint8_t *p = zip->tail.bytes.data + end_at;
    uint64_t pos = zip->tail.pos + end_at;
    uint32_t count = swi_load_u16le(p + 10);
    uint32_t dir_bytes = swi_load_u32le(p + 12);
    uint32_t dir_offset = swi_load_u32le(p + 16);
    if (swi_load_u16le(p + 4) != 0 || swi_load_u16le(p + 6) != 0)
        return fail(zip, SW_ERR_CORRUPT, "ZIP-2", pos, "it spans several disks", err);
    if (swi_load_u16le(p + 8) != count)
        return fail(zip, SW_ERR_CORRUPT, "ZIP-4", pos, "the end record counts entries twofold",
                    err);
    *end =
        (end_record){.at = pos, .count = count, .dir_bytes = dir_bytes, .dir_offset = dir_offset};
    if (pos < LOCATOR64_BYTES)
        return SW_OK;
    swi_buf room = {0};
    const uint8_t *loc;
    sw_status st =
        swi_zip_get(zip, reader, pos - LOCATOR64_BYTES, LOCATOR64_BYTES, &room, &loc, err);
    if (st == SW_OK && swi_load_u32le(loc) == SIG_LOCATOR64)
        st = read_end64(zip, reader, pos - LOCATOR64_BYTES, loc, end, err);
    swi_buf_free(&room);
    if (st != SW_OK)
        return st;
    if (!end_agrees(count, end->count, 0xFFFF) || !end_agrees(dir_bytes, end->dir_bytes, NONE32) ||
        !end_agrees(dir_offset, end->dir_offset, NONE32))
        return fail(zip, SW_ERR_CORRUPT, "ZIP-4", pos,
                    "the end record and the zip64 end record disagree", err);
    return SW_OK;
}

/* Bounds of the directory, and its bytes in the tail window. */
static sw_status read_directory(swi_zip *zip, const swi_reader *reader, const end_record *end,
                                sw_error *err)
{
    uint64_t stop;
    if (!swi_add_u64(end->dir_offset, end->dir_bytes, &stop) || stop != end->at)
        return swi_fail_at(err, SW_ERR_CORRUPT, "ZIP-5", zip->offset + end->at,
                           "zip archive: the directory of %" PRIu64 " bytes at %" PRIu64
                           " does not end at its end record at %" PRIu64,
                           end->dir_bytes, end->dir_offset, end->at);
    if (end->count > end->dir_bytes / CENTRAL_BYTES)
        return swi_fail_at(err, SW_ERR_CORRUPT, "ZIP-5", zip->offset + end->at,
                           "zip archive: %" PRIu64 " entries do not fit in a directory of %" PRIu64
                           " bytes",
                           end->count, end->dir_bytes);
    if (end->dir_bytes > reader->limits.metadata_bytes || end->count >= UINT32_MAX)
        return swi_fail_at(err, SW_ERR_LIMIT, "ZIP-5", zip->offset + end->dir_offset,
                           "zip archive: the directory has %" PRIu64
                           " bytes, the limit is %" PRIu64,
                           end->dir_bytes, reader->limits.metadata_bytes);
    if (end->dir_offset >= zip->tail.pos)
        return SW_OK;
    return read_window(zip, reader, end->dir_offset, zip->bytes - end->dir_offset, &zip->tail, err);
}

/* ---- directory entries ------------------------------------------------------------------- */

/*
 * A name that would leave the place it is unpacked to is hostile (UNSAFE); one that no writer gives
 * is what a flipped bit leaves (CORRUPT).
 */
static sw_status judge_name(const uint8_t *name, size_t size)
{
    if (size == 0 || memchr(name, 0, size) != NULL || !swi_utf8_valid(name, size))
        return SW_ERR_CORRUPT;
    sw_status st = name[0] == '/' || memchr(name, '\\', size) != NULL ? SW_ERR_UNSAFE : SW_OK;
    size_t part = 0;
    for (size_t i = 0; i <= size; i++) {
        if (i < size && name[i] != '/')
            continue;
        size_t length = i - part;
        if (length == 2 && name[part] == '.' && name[part + 1] == '.')
            return SW_ERR_UNSAFE;
        if (st == SW_OK && ((length == 1 && name[part] == '.') || (length == 0 && i < size)))
            st = SW_ERR_CORRUPT;
        part = i + 1;
    }
    return st;
}

/* Takes the next value of a zip64 field into *value where that is all ones. */
static bool take64(swi_cursor *field, uint64_t *value)
{
    return *value != NONE32 || swi_get_u64le(field, value);
}

/* The extra fields of a directory entry: only zip64 matters. */
static const char *central_extra(swi_cursor *extra, swi_zip_entry *e)
{
    bool seen = false;
    bool wanted =
        e->bytes == NONE32 || e->stored_bytes == NONE32 || e->header_offset_bytes == NONE32;
    while (swi_cursor_left(extra) > 0) {
        uint16_t id, size;
        swi_cursor field;
        if (!swi_get_u16le(extra, &id) || !swi_get_u16le(extra, &size) ||
            !swi_get_sub(extra, size, &field))
            return "an extra field of the directory runs over";
        if (id != EXTRA_ZIP64)
            continue;
        if (seen || !wanted)
            return "a zip64 field that nothing asks for";
        seen = true;
        if (!take64(&field, &e->bytes) || !take64(&field, &e->stored_bytes) ||
            !take64(&field, &e->header_offset_bytes) || swi_cursor_left(&field) != 0)
            return "the zip64 field has another size than its entry asks for";
    }
    return wanted && !seen ? "an entry without the zip64 field that it asks for" : NULL;
}

static sw_status check_entry(const swi_zip *zip, const swi_zip_item *e, uint64_t pos, sw_error *err)
{
    swi_quoted q;
    if (e->flags & FLAG_ENCRYPTED)
        return swi_fail_at(err, SW_ERR_UNSUPPORTED, "ZIP-6", zip->offset + pos,
                           "zip archive: record %s is encrypted", swi_quote_str(&q, e->pub.name));
    if (e->flags & ~FLAGS_KNOWN)
        return swi_fail_at(err, SW_ERR_UNSUPPORTED, "ZIP-6", zip->offset + pos,
                           "zip archive: record %s has unknown flags 0x%04x",
                           swi_quote_str(&q, e->pub.name), e->flags);
    if (e->pub.method != 0 && e->pub.method != 8)
        return swi_fail_at(err, SW_ERR_UNSUPPORTED, "ZIP-6", zip->offset + pos,
                           "zip archive: record %s has compression method %u",
                           swi_quote_str(&q, e->pub.name), e->pub.method);
    if (e->pub.method == 0 && e->pub.bytes != e->pub.stored_bytes)
        return swi_fail_at(err, SW_ERR_CORRUPT, "ZIP-9", zip->offset + pos,
                           "zip archive: record %s is stored with %" PRIu64
                           " bytes and holds %" PRIu64,
                           swi_quote_str(&q, e->pub.name), e->pub.stored_bytes, e->pub.bytes);
    return SW_OK;
}

static sw_status parse_entry(swi_zip *zip, swi_cursor *c, uint64_t pos, swi_zip_item *e,
                             sw_error *err)
{
    const uint8_t *p, *name;
    swi_cursor extra;
    if (!swi_get_bytes(c, CENTRAL_BYTES, &p) || swi_load_u32le(p) != SIG_CENTRAL)
        return fail(zip, SW_ERR_CORRUPT, "ZIP-5", pos, "no directory entry where one should be",
                    err);
    e->flags = swi_load_u16le(p + 8);
    e->name_size = swi_load_u16le(p + 28);
    e->pub.method = swi_load_u16le(p + 10);
    e->pub.crc32 = swi_load_u32le(p + 16);
    e->pub.stored_bytes = swi_load_u32le(p + 20);
    e->pub.bytes = swi_load_u32le(p + 24);
    e->pub.header_offset_bytes = swi_load_u32le(p + 42);
    if (!swi_get_bytes(c, e->name_size, &name) || !swi_get_sub(c, swi_load_u16le(p + 30), &extra) ||
        !swi_skip(c, swi_load_u16le(p + 32)))
        return fail(zip, SW_ERR_CORRUPT, "ZIP-5", pos, "a directory entry runs over", err);
    if (swi_load_u16le(p + 34) != 0)
        return fail(zip, SW_ERR_CORRUPT, "ZIP-2", pos, "it spans several disks", err);
    sw_status st = judge_name(name, e->name_size);
    if (st != SW_OK) {
        swi_quoted q;
        return swi_fail_at(err, st, "ZIP-7", zip->offset + pos, "zip archive: %s record name %s",
                           st == SW_ERR_UNSAFE ? "unsafe" : "malformed",
                           swi_quote(&q, name, e->name_size));
    }
    st = swi_arena_text(&zip->arena, (const char *)name, e->name_size, &e->pub.name, err);
    if (st != SW_OK)
        return st;
    const char *wrong = central_extra(&extra, &e->pub);
    if (wrong != NULL)
        return fail(zip, SW_ERR_CORRUPT, "ZIP-8", pos, wrong, err);
    return check_entry(zip, e, pos, err);
}

static sw_status same_name(const swi_zip *zip, const char *name, uint64_t pos, sw_error *err)
{
    swi_quoted q;
    return swi_fail_at(err, SW_ERR_CORRUPT, "ZIP-7", zip->offset + pos,
                       "zip archive: two records are called %s", swi_quote_str(&q, name));
}

static sw_status check_unique(swi_zip *zip, size_t i, uint64_t pos, sw_error *err)
{
    const swi_zip_item *e = &zip->entries[i];
    if (zip->names == NULL) {
        for (size_t k = 0; k < i; k++)
            if (strcmp(zip->entries[k].pub.name, e->pub.name) == 0)
                return same_name(zip, e->pub.name, pos, err);
        return SW_OK;
    }
    uint32_t id;
    bool is_new;
    sw_status st = swi_names_add(zip->names, e->pub.name, e->name_size, &id, &is_new, err);
    if (st == SW_OK && !is_new)
        st = same_name(zip, e->pub.name, pos, err);
    return st;
}

static int by_header(const void *a, const void *b)
{
    const swi_zip_item *x = *(const swi_zip_item *const *)a, *y = *(const swi_zip_item *const *)b;
    return (x->pub.header_offset_bytes > y->pub.header_offset_bytes) -
           (x->pub.header_offset_bytes < y->pub.header_offset_bytes);
}

/* Sets each entry's end and proves that none overlaps the next or the directory. */
static sw_status check_layout(swi_zip *zip, uint64_t dir_offset, sw_error *err)
{
    swi_zip_item **order;
    void *room;
    sw_status st = swi_alloc_array(zip->count, sizeof(*order), &room, err);
    if (st != SW_OK)
        return st;
    order = room;
    for (size_t i = 0; i < zip->count; i++)
        order[i] = &zip->entries[i];
    qsort(order, zip->count, sizeof(*order), by_header);
    for (size_t i = 0; i < zip->count && st == SW_OK; i++) {
        swi_zip_item *e = order[i];
        uint64_t least = LOCAL_BYTES + (uint64_t)e->name_size, start = e->pub.header_offset_bytes;
        e->end = i + 1 < zip->count ? order[i + 1]->pub.header_offset_bytes : dir_offset;
        if (e->end > dir_offset)
            e->end = dir_offset;
        if (!swi_add_u64(least, e->pub.stored_bytes, &least) || start > e->end ||
            least > e->end - start) {
            swi_quoted q;
            st = swi_fail_at(err, SW_ERR_CORRUPT, "ZIP-10",
                             zip->offset + (start < e->end ? start : e->end),
                             "zip archive: record %s of %" PRIu64 " bytes at %" PRIu64
                             " runs into what begins at %" PRIu64,
                             swi_quote_str(&q, e->pub.name), e->pub.stored_bytes, start, e->end);
        }
    }
    free(room);
    return st;
}

static sw_status parse_directory(swi_zip *zip, const end_record *end, sw_error *err)
{
    void *room;
    sw_status st = swi_alloc_array((size_t)end->count, sizeof(swi_zip_item), &room, err);
    if (st != SW_OK)
        return st;
    zip->entries = room;
    if (end->count > FEW) {
        st = swi_names_make(&zip->names, err);
        if (st != SW_OK)
            return st;
    }
    size_t start = (size_t)(end->dir_offset - zip->tail.pos);
    swi_cursor c = swi_cursor_make(zip->tail.bytes.data + start, (size_t)end->dir_bytes);
    for (; zip->count < end->count; zip->count++) {
        uint64_t pos = end->dir_offset + c.pos;
        st = parse_entry(zip, &c, pos, &zip->entries[zip->count], err);
        if (st == SW_OK)
            st = check_unique(zip, zip->count, pos, err);
        if (st != SW_OK)
            return st;
    }
    if (swi_cursor_left(&c) != 0)
        return fail(zip, SW_ERR_CORRUPT, "ZIP-5", end->dir_offset + c.pos,
                    "the directory has more bytes than entries", err);
    return check_layout(zip, end->dir_offset, err);
}

sw_status swi_zip_open(const swi_reader *reader, uint32_t file, uint64_t offset, uint64_t bytes,
                       swi_zip **out, sw_error *err)
{
    void *room;
    size_t end_at;
    end_record end = {0};
    uint64_t file_end;
    if (!swi_add_u64(offset, bytes, &file_end))
        return swi_fail(err, SW_ERR_CORRUPT,
                        "zip archive: %" PRIu64 " bytes at %" PRIu64 " lie outside any file", bytes,
                        offset);
    sw_status st = swi_alloc_array(1, sizeof(swi_zip), &room, err);
    if (st != SW_OK)
        return st;
    swi_zip *zip = room;
    zip->file = file;
    zip->offset = offset;
    zip->bytes = bytes;
    st = read_tail(zip, reader, &end_at, err);
    if (st == SW_OK)
        st = read_end(zip, reader, end_at, &end, err);
    if (st == SW_OK)
        st = read_directory(zip, reader, &end, err);
    if (st == SW_OK)
        st = parse_directory(zip, &end, err);
    if (st == SW_OK && zip->tail.pos > 0) {
        uint64_t size = zip->tail.pos < HEAD_BYTES ? zip->tail.pos : HEAD_BYTES;
        st = read_window(zip, reader, 0, size, &zip->head, err);
    }
    if (st != SW_OK) {
        swi_zip_free(zip);
        return st;
    }
    *out = zip;
    return SW_OK;
}

void swi_zip_free(swi_zip *zip)
{
    if (zip == NULL)
        return;
    swi_buf_free(&zip->head.bytes);
    swi_buf_free(&zip->tail.bytes);
    swi_arena_free(&zip->arena);
    swi_names_free(zip->names);
    free(zip->entries);
    free(zip);
}

size_t swi_zip_count(const swi_zip *zip)
{
    return zip->count;
}

const swi_zip_entry *swi_zip_at(const swi_zip *zip, size_t i)
{
    return i < zip->count ? &zip->entries[i].pub : NULL;
}

const swi_zip_entry *swi_zip_find(const swi_zip *zip, const char *name)
{
    if (zip->names != NULL) {
        int64_t id = swi_names_find(zip->names, name, strlen(name));
        return id < 0 ? NULL : &zip->entries[id].pub;
    }
    for (size_t i = 0; i < zip->count; i++)
        if (strcmp(zip->entries[i].pub.name, name) == 0)
            return &zip->entries[i].pub;
    return NULL;
}
