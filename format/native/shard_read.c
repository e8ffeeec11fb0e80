/* Opening a shard file: head, foot, values and index, all held against the manifest. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/cursor.h"
#include "base/text.h"
#include "native/section.h"
#include "native/shard_parts.h"

/* A shard file while it is opened. */
typedef struct opening {
    const swi_native_expect *expect;
    const sw_limits *limits; /* resolved */
    swi_file *file;
    uint64_t bytes; /* as the file system says */
    uint8_t head_bytes[SWI_NATIVE_HEAD_BYTES], foot_bytes[SWI_NATIVE_FOOT_BYTES];
    swi_shard_foot foot;
    swi_native_shard shard;
} opening;

/* Whether the next `count` bytes are zero; moves on. */
static bool get_zeros(swi_cursor *c, size_t count)
{
    const uint8_t *p;
    uint8_t any = 0;
    if (!swi_get_bytes(c, count, &p))
        return false;
    for (size_t i = 0; i < count; i++)
        any |= p[i];
    return any == 0;
}

static bool get_magic(swi_cursor *c, const char *magic)
{
    const uint8_t *p;
    return swi_get_bytes(c, SWI_SHARD_MAGIC_BYTES, &p) &&
           memcmp(p, magic, SWI_SHARD_MAGIC_BYTES) == 0;
}

static bool get_digest(swi_cursor *c, swi_digest *out)
{
    const uint8_t *p;
    if (!swi_get_bytes(c, SWI_DIGEST_BYTES, &p))
        return false;
    memcpy(out->bytes, p, SWI_DIGEST_BYTES);
    return true;
}

/* ---- head ---------------------------------------------------------------------------------- */

static void id_text(const uint8_t *id, char text[2 * SWI_SAVE_ID_BYTES + 1])
{
    swi_digest wide = {{0}};
    char whole[SWI_DIGEST_TEXT];
    memcpy(wide.bytes, id, SWI_SAVE_ID_BYTES);
    swi_digest_text(&wide, whole);
    memcpy(text, whole, 2 * (size_t)SWI_SAVE_ID_BYTES);
    text[2 * SWI_SAVE_ID_BYTES] = '\0';
}

static sw_status check_version(uint16_t major, uint16_t minor, sw_error *err)
{
    if (major == SWI_NATIVE_MAJOR)
        return SW_OK;
    return swi_fail_at(err, SW_ERR_UNSUPPORTED, "NAT-2", SWI_SHARD_MAGIC_BYTES,
                       "is of version %u.%u of the native format, this program reads %d.x: use a "
                       "newer one",
                       (unsigned)major, (unsigned)minor, SWI_NATIVE_MAJOR);
}

/* Whose file it is: another save's or rank's is no damage. */
static sw_status check_owner(const opening *o, sw_error *err)
{
    const swi_native_head *head = &o->shard.head;
    const swi_native_expect *expect = o->expect;
    char is[2 * SWI_SAVE_ID_BYTES + 1], must[2 * SWI_SAVE_ID_BYTES + 1];
    if (memcmp(head->save_id, expect->save_id, SWI_SAVE_ID_BYTES) != 0) {
        id_text(head->save_id, is);
        id_text(expect->save_id, must);
        return swi_fail_at(err, SW_ERR_UNTRUSTED, "NAT-10", 24,
                           "is of save %s, the manifest is of save %s", is, must);
    }
    if (head->rank != expect->rank || head->world != expect->world)
        return swi_fail_at(err, SW_ERR_UNTRUSTED, "NAT-10", 12,
                           "is of rank %" PRIu32 " of %" PRIu32 ", the manifest has it as rank "
                           "%" PRIu32 " of %" PRIu32,
                           head->rank, head->world, expect->rank, expect->world);
    return SW_OK;
}

static sw_status read_head(opening *o, sw_error *err)
{
    swi_native_head *head = &o->shard.head;
    swi_cursor c = swi_cursor_make(o->head_bytes, sizeof o->head_bytes);
    uint16_t major = 0, minor = 0;
    const uint8_t *id = NULL;
    sw_status status = swi_file_read(o->file, 0, o->head_bytes, sizeof o->head_bytes, err);
    if (status != SW_OK)
        return status;
    if (!get_magic(&c, SWI_SHARD_MAGIC))
        return swi_fail_at(err, SW_ERR_CORRUPT, "NAT-10", 0, "does not begin as a shard file does");
    if (!swi_get_u16le(&c, &major) || !swi_get_u16le(&c, &minor) ||
        !swi_get_u32le(&c, &head->rank) || !swi_get_u32le(&c, &head->world) ||
        !swi_get_u32le(&c, &head->align) || !swi_get_bytes(&c, SWI_SAVE_ID_BYTES, &id))
        return swi_fail(err, SW_ERR_CORRUPT, "its head is cut");
    status = check_version(major, minor, err);
    if (status != SW_OK)
        return status;
    memcpy(head->save_id, id, SWI_SAVE_ID_BYTES);
    status = check_owner(o, err);
    if (status != SW_OK)
        return status;
    if (!swi_shard_align_ok(head->align))
        return swi_fail_at(err, SW_ERR_CORRUPT, "NAT-9", 20,
                           "aligns its chunks to %" PRIu32 ", expected a power of two of at most "
                           "%u",
                           head->align, SWI_SHARD_ALIGN_MAX);
    if (!get_zeros(&c, SWI_SHARD_HEAD_ZEROS))
        return swi_fail_at(err, SW_ERR_CORRUPT, "NAT-10", c.pos - SWI_SHARD_HEAD_ZEROS,
                           "the end of its head is not zero");
    return SW_OK;
}

/* ---- foot ---------------------------------------------------------------------------------- */

/* Chunks, values, index and foot lie one behind the other (NAT-9). */
static sw_status check_sections(const opening *o, sw_error *err)
{
    const swi_shard_foot *f = &o->foot;
    uint64_t at = o->bytes - SWI_NATIVE_FOOT_BYTES, end;
    if (f->file_bytes != o->bytes)
        return swi_fail_at(err, SW_ERR_CORRUPT, "NAT-10", at + 96,
                           "holds %" PRIu64 " bytes, its foot says %" PRIu64, o->bytes,
                           f->file_bytes);
    if (!swi_add_u64(f->values_at, f->values_bytes, &end) || end != f->index_at)
        return swi_fail_at(err, SW_ERR_CORRUPT, "NAT-9", at,
                           "values of %" PRIu64 " bytes at %" PRIu64 " do not end at the index, "
                           "%" PRIu64,
                           f->values_bytes, f->values_at, f->index_at);
    if (!swi_add_u64(f->index_at, f->index_bytes, &end) || end != at)
        return swi_fail_at(err, SW_ERR_CORRUPT, "NAT-9", at + 48,
                           "an index of %" PRIu64 " bytes at %" PRIu64 " does not end at the "
                           "foot, %" PRIu64,
                           f->index_bytes, f->index_at, at);
    return SW_OK;
}

/* As many records as the foot says can lie in the index. */
static sw_status check_counts(const opening *o, sw_error *err)
{
    const swi_shard_foot *f = &o->foot;
    uint64_t chunks, pieces, all;
    if (swi_mul_u64(f->chunk_count, SWI_CHUNK_BYTES, &chunks) &&
        swi_mul_u64(f->piece_count, SWI_PIECE_BYTES, &pieces) &&
        swi_add_u64(chunks, pieces, &all) && all <= f->index_bytes)
        return SW_OK;
    return swi_fail_at(err, SW_ERR_CORRUPT, "NAT-10", o->bytes - SWI_NATIVE_FOOT_BYTES + 104,
                       "%" PRIu64 " pieces and %" PRIu64 " chunks do not fit an index of "
                       "%" PRIu64 " bytes",
                       f->piece_count, f->chunk_count, f->index_bytes);
}

static sw_status read_foot(opening *o, sw_error *err)
{
    swi_shard_foot *f = &o->foot;
    swi_cursor c = swi_cursor_make(o->foot_bytes, sizeof o->foot_bytes);
    uint64_t at = o->bytes - SWI_NATIVE_FOOT_BYTES;
    swi_digest digest;
    sw_status status = swi_file_read(o->file, at, o->foot_bytes, sizeof o->foot_bytes, err);
    if (status == SW_OK)
        status = swi_shard_digest(o->head_bytes, o->foot_bytes, &digest, err);
    if (status != SW_OK)
        return status;
    if (memcmp(&digest, &o->expect->file->digest, sizeof digest) != 0)
        return swi_native_digest_differs("NAT-10", at, "its head with its foot", &digest,
                                         &o->expect->file->digest, err);
    if (!swi_get_u64le(&c, &f->values_at) || !swi_get_u64le(&c, &f->values_bytes) ||
        !get_digest(&c, &f->values_digest) || !swi_get_u64le(&c, &f->index_at) ||
        !swi_get_u64le(&c, &f->index_bytes) || !get_digest(&c, &f->index_digest) ||
        !swi_get_u64le(&c, &f->file_bytes) || !swi_get_u64le(&c, &f->piece_count) ||
        !swi_get_u64le(&c, &f->chunk_count))
        return swi_fail(err, SW_ERR_CORRUPT, "its foot is cut");
    if (!get_zeros(&c, SWI_SHARD_FOOT_ZEROS) || !get_magic(&c, SWI_SHARD_FOOT_MAGIC))
        return swi_fail_at(err, SW_ERR_CORRUPT, "NAT-10", at + 120,
                           "does not end as a shard file does");
    status = check_sections(o, err);
    return status == SW_OK ? check_counts(o, err) : status;
}

static sw_status check_size(const opening *o, sw_error *err)
{
    if (o->bytes == o->expect->file->bytes)
        return SW_OK;
    return swi_fail_at(err, SW_ERR_CORRUPT, "NAT-10", o->bytes,
                       "holds %" PRIu64 " bytes, the manifest says %" PRIu64, o->bytes,
                       o->expect->file->bytes);
}

/* ---- sections ------------------------------------------------------------------------------ */

static sw_status read_sections(opening *o, sw_error *err)
{
    const swi_shard_foot *f = &o->foot;
    swi_native_shard *shard = &o->shard;
    shard->bytes = o->bytes;
    shard->values_at = f->values_at;
    shard->values_bytes = f->values_bytes;
    shard->index_at = f->index_at;
    shard->index_bytes = f->index_bytes;
    shard->piece_count = f->piece_count;
    shard->chunk_count = f->chunk_count;
    const swi_native_section values = {
        .what = "its section of values",
        .at = f->values_at,
        .bytes = f->values_bytes,
        .digest = f->values_digest,
    };
    const swi_native_section index = {
        .what = "its index",
        .at = f->index_at,
        .bytes = f->index_bytes,
        .digest = f->index_digest,
    };
    sw_status status = swi_native_section_read(o->file, &values, o->limits, o->expect->threads,
                                               &shard->values, err);
    if (status == SW_OK)
        status = swi_native_section_read(o->file, &index, o->limits, o->expect->threads,
                                         &shard->index, err);
    if (status == SW_OK && shard->index != NULL)
        shard->chunks = shard->index + (f->index_bytes - f->chunk_count * SWI_CHUNK_BYTES);
    return status;
}

/* ---- open ---------------------------------------------------------------------------------- */

static sw_status open_checked(opening *o, sw_error *err)
{
    if (o->bytes < SWI_NATIVE_HEAD_BYTES + SWI_NATIVE_FOOT_BYTES)
        return swi_fail_at(err, SW_ERR_CORRUPT, "NAT-10", o->bytes,
                           "holds %" PRIu64 " bytes: too short for a shard file, the manifest "
                           "says %" PRIu64,
                           o->bytes, o->expect->file->bytes);
    sw_status status = read_head(o, err);
    if (status == SW_OK)
        status = check_size(o, err);
    if (status == SW_OK)
        status = read_foot(o, err);
    if (status == SW_OK)
        status = read_sections(o, err);
    if (status == SW_OK)
        status = swi_shard_check_records(&o->shard, o->expect->threads, err);
    return status;
}

sw_status swi_native_shard_open(const swi_store *store, const swi_native_expect *expect,
                                const sw_limits *limits, swi_native_shard *out, sw_error *err)
{
    const sw_limits resolved = sw_limits_resolve(limits);
    opening o = {.expect = expect, .limits = &resolved};
    swi_quoted q;
    sw_status status = swi_store_open_read(store, expect->file->file, &o.file, err);
    if (status != SW_OK)
        return status; /* names the file itself */
    o.bytes = swi_file_bytes(o.file);
    status = open_checked(&o, err);
    swi_file_close(o.file);
    if (status != SW_OK) {
        swi_native_shard_free(&o.shard);
        return swi_error_prefix(err, "%s", swi_quote_str(&q, expect->file->file));
    }
    *out = o.shard;
    return SW_OK;
}

void swi_native_shard_free(swi_native_shard *shard)
{
    free(shard->index);
    free(shard->values);
    free(shard->marks);
    *shard = (swi_native_shard){0};
}
