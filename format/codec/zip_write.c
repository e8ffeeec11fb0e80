/*
 * Writing zip archives as PyTorch lays them out (specs/torch_zip.md, ZIP-20 and following): stored
 * records with a padding field that aligns each payload, zero sizes in local headers, a data
 * descriptor behind each payload that is not empty, and a zip64 trailer always.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/checked.h"
#include "base/text.h"
#include "codec/zip.h"

#define MAX32 0xFFFFFFFFu
#define FLAGS_EMPTY 0x0800u /* UTF-8 name */
#define FLAGS_DATA 0x0808u  /* and a descriptor */
#define ALIGNMENT_MAX 32768u
#define DESCRIPTOR_BYTES 16u
#define DESCRIPTOR64_BYTES 24u

typedef struct record {
    const char *name;
    uint16_t name_size;
    uint32_t crc32;
    uint64_t bytes;
    uint64_t offset_bytes;
} record;

struct swi_zip_writer {
    swi_arena arena;
    record *records;
    size_t count, capacity;
    uint64_t cursor; /* bytes of the archive so far */
    uint32_t alignment;
    bool open; /* between begin and end */
};

sw_status swi_zip_writer_make(uint32_t alignment, swi_zip_writer **out, sw_error *err)
{
    void *room;
    if (alignment == 0 || alignment > ALIGNMENT_MAX)
        return swi_fail(err, SW_ERR_ARG, "zip: an alignment of %" PRIu32 " bytes", alignment);
    sw_status st = swi_alloc_array(1, sizeof(swi_zip_writer), &room, err);
    if (st != SW_OK)
        return st;
    swi_zip_writer *w = room;
    w->alignment = alignment;
    *out = w;
    return SW_OK;
}

void swi_zip_writer_free(swi_zip_writer *w)
{
    if (w == NULL)
        return;
    swi_arena_free(&w->arena);
    free(w->records);
    free(w);
}

static bool is_zip64(const record *r)
{
    return r->bytes >= MAX32 || r->offset_bytes >= MAX32;
}

static uint32_t clamp32(uint64_t v)
{
    return v < MAX32 ? (uint32_t)v : MAX32;
}

/* The zip64 field: only what overflows. The compressed size is not known yet in a local header. */
static sw_status zip64_field(swi_buf *out, const record *r, bool local, sw_error *err)
{
    bool size = r->bytes >= MAX32, offset = r->offset_bytes >= MAX32;
    sw_status st = swi_buf_u16le(out, 1, err);
    if (st == SW_OK)
        st = swi_buf_u16le(out, (uint16_t)((size ? 16 : 0) + (offset ? 8 : 0)), err);
    if (st == SW_OK && size)
        st = swi_buf_u64le(out, r->bytes, err);
    if (st == SW_OK && size)
        st = swi_buf_u64le(out, local ? 0 : r->bytes, err);
    if (st == SW_OK && offset)
        st = swi_buf_u64le(out, r->offset_bytes, err);
    return st;
}

static size_t zip64_field_bytes(const record *r)
{
    if (!is_zip64(r))
        return 0;
    return 4u + (r->bytes >= MAX32 ? 16u : 0u) + (r->offset_bytes >= MAX32 ? 8u : 0u);
}

/* Sixteen-bit numbers one after another. */
static sw_status put16(swi_buf *out, const uint16_t *v, size_t count, sw_error *err)
{
    sw_status st = SW_OK;
    for (size_t i = 0; i < count && st == SW_OK; i++)
        st = swi_buf_u16le(out, v[i], err);
    return st;
}

static uint16_t flags_of(const record *r)
{
    return r->bytes > 0 ? FLAGS_DATA : FLAGS_EMPTY;
}

static sw_status local_header(swi_buf *out, const record *r, uint16_t padding, sw_error *err)
{
    uint16_t extra = (uint16_t)(zip64_field_bytes(r) + 4u + padding);
    /* needed, flags, method, time, date, CRC, stored size, size: all but the flags zero */
    const uint16_t fields[13] = {0, flags_of(r), 0, 0, 0, 0, 0, 0, 0, 0, 0, r->name_size, extra};
    sw_status st = swi_buf_u32le(out, 0x04034b50u, err);
    if (st == SW_OK)
        st = put16(out, fields, 13, err);
    if (st == SW_OK)
        st = swi_buf_append(out, r->name, r->name_size, err);
    if (st == SW_OK && is_zip64(r))
        st = zip64_field(out, r, true, err);
    if (st == SW_OK)
        st = swi_buf_append(out, "FB", 2, err);
    if (st == SW_OK)
        st = swi_buf_u16le(out, padding, err);
    if (st == SW_OK)
        st = swi_buf_fill(out, 'Z', padding, err);
    return st;
}

sw_status swi_zip_writer_begin(swi_zip_writer *w, const char *name, uint64_t bytes, swi_buf *out,
                               sw_error *err)
{
    swi_quoted q;
    size_t name_size = strlen(name);
    if (w->open || name_size == 0 || name_size > UINT16_MAX)
        return swi_fail(err, SW_ERR_ARG, "zip: record %s cannot begin", swi_quote_str(&q, name));
    void *room = w->records;
    sw_status st = swi_grow_array(&room, &w->capacity, w->count + 1, sizeof(record), err);
    w->records = room;
    if (st != SW_OK)
        return st;
    record *r = &w->records[w->count];
    *r = (record){.name_size = (uint16_t)name_size, .bytes = bytes, .offset_bytes = w->cursor};
    st = swi_arena_text(&w->arena, name, name_size, &r->name, err);
    if (st != SW_OK)
        return st;
    uint64_t start, end;
    if (!swi_add_u64(w->cursor, 30u + name_size + 4u + zip64_field_bytes(r), &start) ||
        !swi_add_u64(start, bytes, &end) || end > (uint64_t)INT64_MAX)
        return swi_fail(err, SW_ERR_LIMIT, "zip: record %s of %" PRIu64 " bytes does not fit",
                        swi_quote_str(&q, name), bytes);
    uint64_t over = start % w->alignment;
    uint16_t padding = (uint16_t)(over > 0 ? w->alignment - over : 0);
    size_t before = out->size;
    st = local_header(out, r, padding, err);
    if (st != SW_OK) {
        out->size = before;
        return st;
    }
    w->cursor = start + padding + bytes;
    w->count++;
    w->open = true;
    return SW_OK;
}

sw_status swi_zip_descriptor(uint64_t bytes, uint32_t crc32, size_t size, swi_buf *out,
                             sw_error *err)
{
    size_t before = out->size;
    if (size != DESCRIPTOR_BYTES && size != DESCRIPTOR64_BYTES)
        return swi_fail(err, SW_ERR_ARG, "zip: no descriptor has %zu bytes", size);
    sw_status st = swi_buf_u32le(out, 0x08074b50u, err);
    if (st == SW_OK)
        st = swi_buf_u32le(out, crc32, err);
    for (int i = 0; i < 2 && st == SW_OK; i++)
        st = size == DESCRIPTOR64_BYTES ? swi_buf_u64le(out, bytes, err)
                                        : swi_buf_u32le(out, (uint32_t)bytes, err);
    if (st != SW_OK)
        out->size = before;
    return st;
}

sw_status swi_zip_writer_end(swi_zip_writer *w, uint32_t crc32, swi_buf *out, sw_error *err)
{
    if (!w->open)
        return swi_fail(err, SW_ERR_ARG, "zip: no record to end");
    record *r = &w->records[w->count - 1];
    size_t size = r->bytes == 0 ? 0 : is_zip64(r) ? DESCRIPTOR64_BYTES : DESCRIPTOR_BYTES;
    r->crc32 = crc32;
    sw_status st = size > 0 ? swi_zip_descriptor(r->bytes, crc32, size, out, err) : SW_OK;
    if (st != SW_OK)
        return st;
    w->cursor += size;
    w->open = false;
    return SW_OK;
}

static sw_status central_entry(swi_buf *out, const record *r, sw_error *err)
{
    /* made by, needed, flags, method, time, date */
    const uint16_t first[6] = {0, 0, flags_of(r), 0, 0, 0};
    /* name, extra and comment length, disk, attributes (2 + 4 bytes) */
    const uint16_t second[7] = {r->name_size, (uint16_t)zip64_field_bytes(r), 0, 0, 0, 0, 0};
    sw_status st = swi_buf_u32le(out, 0x02014b50u, err);
    if (st == SW_OK)
        st = put16(out, first, 6, err);
    if (st == SW_OK)
        st = swi_buf_u32le(out, r->crc32, err);
    for (int i = 0; i < 2 && st == SW_OK; i++)
        st = swi_buf_u32le(out, clamp32(r->bytes), err);
    if (st == SW_OK)
        st = put16(out, second, 7, err);
    if (st == SW_OK)
        st = swi_buf_u32le(out, clamp32(r->offset_bytes), err);
    if (st == SW_OK)
        st = swi_buf_append(out, r->name, r->name_size, err);
    if (st == SW_OK && is_zip64(r))
        st = zip64_field(out, r, false, err);
    return st;
}

static sw_status trailer64(swi_buf *out, uint64_t count, uint64_t bytes, uint64_t offset,
                           sw_error *err)
{
    const uint64_t totals[4] = {count, count, bytes, offset};
    sw_status st = swi_buf_u32le(out, 0x06064b50u, err);
    if (st == SW_OK)
        st = swi_buf_u64le(out, 44, err);
    if (st == SW_OK)
        st = swi_buf_u16le(out, 0x031E, err);
    if (st == SW_OK)
        st = swi_buf_u16le(out, 0x002D, err);
    if (st == SW_OK)
        st = swi_buf_u64le(out, 0, err); /* disk, disk of the directory */
    for (int i = 0; i < 4 && st == SW_OK; i++)
        st = swi_buf_u64le(out, totals[i], err);
    if (st == SW_OK)
        st = swi_buf_u32le(out, 0x07064b50u, err);
    if (st == SW_OK)
        st = swi_buf_u32le(out, 0, err);
    if (st == SW_OK)
        st = swi_buf_u64le(out, offset + bytes, err);
    if (st == SW_OK)
        st = swi_buf_u32le(out, 1, err);
    return st;
}

static sw_status trailer(swi_buf *out, uint64_t count, uint64_t bytes, uint64_t offset,
                         sw_error *err)
{
    uint16_t count16 = count < UINT16_MAX ? (uint16_t)count : UINT16_MAX;
    const uint16_t counts[4] = {0, 0, count16, count16};
    sw_status st = swi_buf_u32le(out, 0x06054b50u, err);
    if (st == SW_OK)
        st = put16(out, counts, 4, err);
    if (st == SW_OK)
        st = swi_buf_u32le(out, clamp32(bytes), err);
    if (st == SW_OK)
        st = swi_buf_u32le(out, clamp32(offset), err);
    if (st == SW_OK)
        st = swi_buf_u16le(out, 0, err);
    return st;
}

sw_status swi_zip_writer_finish(swi_zip_writer *w, swi_buf *out, sw_error *err)
{
    if (w->open)
        return swi_fail(err, SW_ERR_ARG, "zip: the last record was not ended");
    size_t before = out->size;
    sw_status st = SW_OK;
    for (size_t i = 0; i < w->count && st == SW_OK; i++)
        st = central_entry(out, &w->records[i], err);
    uint64_t bytes = out->size - before;
    if (st == SW_OK)
        st = trailer64(out, w->count, bytes, w->cursor, err);
    if (st == SW_OK)
        st = trailer(out, w->count, bytes, w->cursor, err);
    if (st != SW_OK)
        out->size = before;
    return st;
}
