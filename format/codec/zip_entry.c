/* One entry of a zip archive: its local header, payload and descriptor agree with the directory. */
#include "codec/zip_internal.h"

#include "codec/crc32.h"

static const swi_zip_item *whole(const swi_zip_entry *pub)
{
    return (const swi_zip_item *)pub;
}

uint64_t swi_zip_entry_end(const swi_zip *zip, const swi_zip_entry *pub)
{
    return zip->offset + whole(pub)->end;
}

/* A size or CRC of the local header: the true one, or 0 where a descriptor follows. */
static bool local_agrees(const swi_zip_item *e, uint64_t field, uint64_t value)
{
    uint64_t clamped = value < NONE32 ? value : NONE32;
    return field == clamped || field == value || (field == 0 && (e->flags & FLAG_DESCRIPTOR));
}

/* Extra fields of the local header: well formed, zip64 true, padding nothing but padding. */
static const char *local_extra(swi_cursor *extra, const swi_zip_item *e)
{
    while (swi_cursor_left(extra) > 0) {
        uint16_t id, size;
        uint64_t bytes;
        swi_cursor field;
        if (!swi_get_u16le(extra, &id) || !swi_get_u16le(extra, &size) ||
            !swi_get_sub(extra, size, &field))
            return "an extra field of its local header runs over";
        bool padding = true;
        for (size_t i = 0; i < field.size; i++)
            padding &= field.data[i] == 'Z';
        /* Padding under another name is padding whose name was damaged. */
        if (id == EXTRA_PADDING ? !padding : (padding && size > 0))
            return "the padding of its local header was changed";
        if (id == EXTRA_ZIP64 && e->pub.bytes >= NONE32 &&
            (!swi_get_u64le(&field, &bytes) || bytes != e->pub.bytes))
            return "the zip64 field of its local header has another size";
    }
    return NULL;
}

static const char *check_local(const swi_zip_item *e, const uint8_t *p)
{
    if (swi_load_u32le(p) != SIG_LOCAL)
        return "there is no local header where the directory says";
    if (swi_load_u16le(p + 26) != e->name_size ||
        memcmp(p + LOCAL_BYTES, e->pub.name, e->name_size) != 0)
        return "its local header has another name";
    if (swi_load_u16le(p + 6) != e->flags || swi_load_u16le(p + 8) != e->pub.method)
        return "its local header has other flags or another method";
    if (!local_agrees(e, swi_load_u32le(p + 14), e->pub.crc32) ||
        !local_agrees(e, swi_load_u32le(p + 18), e->pub.stored_bytes) ||
        !local_agrees(e, swi_load_u32le(p + 22), e->pub.bytes))
        return "its local header has another CRC or size";
    return NULL;
}

static sw_status fail_entry(const swi_zip *zip, const swi_zip_item *e, const char *clause,
                            uint64_t pos, const char *what, sw_error *err)
{
    swi_quoted q;
    return swi_fail_at(err, SW_ERR_CORRUPT, clause, zip->offset + pos, "zip archive: record %s: %s",
                       swi_quote_str(&q, e->pub.name), what);
}

sw_status swi_zip_payload(const swi_zip *zip, const swi_reader *reader, const swi_zip_entry *pub,
                          uint64_t *offset, sw_error *err)
{
    const swi_zip_item *e = whole(pub);
    uint64_t start = pub->header_offset_bytes, room_bytes = e->end - start;
    size_t fixed = LOCAL_BYTES + (size_t)e->name_size;
    size_t ask = room_bytes < fixed + 128 ? (size_t)room_bytes : fixed + 128;
    swi_buf room = {0};
    const uint8_t *p;
    const char *wrong = NULL;
    sw_status st = swi_zip_get(zip, reader, start, ask, &room, &p, err);
    if (st != SW_OK)
        goto done;
    wrong = check_local(e, p);
    if (wrong != NULL)
        goto done;
    size_t size = fixed + swi_load_u16le(p + 28);
    if (room_bytes < size || room_bytes - size < pub->stored_bytes) {
        wrong = "its payload runs into what follows";
        goto done;
    }
    if (size > ask)
        st = swi_zip_get(zip, reader, start, size, &room, &p, err);
    if (st != SW_OK)
        goto done;
    swi_cursor extra = swi_cursor_make(p + fixed, size - fixed);
    wrong = local_extra(&extra, e);
    if (wrong == NULL)
        *offset = zip->offset + start + size;
done:
    swi_buf_free(&room);
    return wrong != NULL ? fail_entry(zip, e, "ZIP-11", start, wrong, err) : st;
}

/* Whether the bytes are a descriptor of this entry, with or without signature, 4 or 8 byte sizes.
 */
static bool is_descriptor(const swi_zip_item *e, const uint8_t *p, size_t size)
{
    if (size == 16 || size == 24) {
        if (swi_load_u32le(p) != SIG_DESCRIPTOR)
            return false;
        p += 4;
        size -= 4;
    }
    if (swi_load_u32le(p) != e->pub.crc32)
        return false;
    if (size == 12)
        return swi_load_u32le(p + 4) == e->pub.stored_bytes &&
               swi_load_u32le(p + 8) == e->pub.bytes;
    return swi_load_u64le(p + 4) == e->pub.stored_bytes && swi_load_u64le(p + 12) == e->pub.bytes;
}

sw_status swi_zip_check_descriptor(const swi_zip *zip, const swi_reader *reader,
                                   const swi_zip_entry *pub, uint64_t payload, uint64_t *stray,
                                   sw_error *err)
{
    const swi_zip_item *e = whole(pub);
    uint64_t pos = payload - zip->offset + pub->stored_bytes;
    uint64_t gap = e->end - pos;
    if (!(e->flags & FLAG_DESCRIPTOR)) {
        *stray = gap;
        return SW_OK;
    }
    size_t size = gap >= 24 ? 24 : gap >= 20 ? 20 : gap >= 16 ? 16 : 12;
    if (gap < size)
        return fail_entry(zip, e, "ZIP-13", pos, "no room for its data descriptor", err);
    swi_buf room = {0};
    const uint8_t *p;
    sw_status st = swi_zip_get(zip, reader, pos, size, &room, &p, err);
    if (st == SW_OK && !is_descriptor(e, p, size)) {
        /* Bytes that belong to nothing may follow a shorter one. */
        for (size = size > 12 ? size - 4 : 0; size >= 12 && !is_descriptor(e, p, size);)
            size -= 4;
    }
    if (st == SW_OK && size < 12)
        st = fail_entry(zip, e, "ZIP-13", pos,
                        "its data descriptor and the directory disagree on CRC or sizes", err);
    if (st == SW_OK)
        *stray = gap - size;
    swi_buf_free(&room);
    return st;
}

sw_status swi_zip_crc(const swi_zip *zip, const swi_reader *reader, const swi_zip_entry *entry,
                      uint64_t payload, uint8_t *buffer, size_t buffer_bytes, uint32_t *crc,
                      sw_error *err)
{
    uint32_t run = 0;
    uint64_t left = entry->stored_bytes;
    const uint8_t *cached =
        left <= SIZE_MAX ? swi_zip_cached(zip, payload - zip->offset, (size_t)left) : NULL;
    if (cached != NULL) {
        *crc = swi_crc32(0, cached, (size_t)left);
        return SW_OK;
    }
    while (left > 0) {
        size_t size = left < buffer_bytes ? (size_t)left : buffer_bytes;
        sw_status st = reader->read(reader, zip->file, payload, buffer, size, err);
        if (st != SW_OK)
            return st;
        run = swi_crc32(run, buffer, size);
        payload += size;
        left -= size;
    }
    *crc = run;
    return SW_OK;
}

bool swi_zip_crc_agrees(const swi_zip_entry *entry, uint32_t real, bool *computed)
{
    *computed = entry->crc32 != 0 || real == 0;
    return entry->crc32 == real || entry->crc32 == 0;
}

sw_status swi_zip_read(const swi_zip *zip, const swi_reader *reader, const swi_zip_entry *entry,
                       uint64_t max_bytes, swi_buf *out, sw_error *err)
{
    uint64_t at;
    size_t size;
    swi_quoted q;
    bool computed;
    if (entry->method != 0)
        return swi_fail_at(err, SW_ERR_UNSUPPORTED, "ZIP-6",
                           zip->offset + entry->header_offset_bytes,
                           "zip archive: record %s is compressed", swi_quote_str(&q, entry->name));
    if (entry->bytes > max_bytes || !swi_u64_to_size(entry->bytes, &size))
        return swi_fail_at(err, SW_ERR_LIMIT, "ZIP-12", zip->offset + entry->header_offset_bytes,
                           "zip archive: record %s has %" PRIu64 " bytes, the limit is %" PRIu64,
                           swi_quote_str(&q, entry->name), entry->bytes, max_bytes);
    sw_status st = swi_zip_payload(zip, reader, entry, &at, err);
    if (st == SW_OK)
        st = swi_buf_reserve(out, size ? size : 1, err);
    if (st != SW_OK)
        return st;
    uint8_t *to = out->data + out->size;
    const uint8_t *cached = swi_zip_cached(zip, at - zip->offset, size);
    if (cached != NULL)
        memcpy(to, cached, size);
    else if (size > 0)
        st = reader->read(reader, zip->file, at, to, size, err);
    if (st != SW_OK)
        return st;
    uint32_t real = swi_crc32(0, to, size);
    if (!swi_zip_crc_agrees(entry, real, &computed))
        return swi_fail_at(err, SW_ERR_CORRUPT, "ZIP-14", at,
                           "zip archive: record %s: its CRC-32 is %08" PRIx32
                           ", the directory says %08" PRIx32,
                           swi_quote_str(&q, entry->name), real, entry->crc32);
    out->size += size;
    return SW_OK;
}
