/* Writing of shard files: the head, and all that follows the last chunk. */
#include <inttypes.h>
#include <string.h>

#include "native/shard_parts.h"

/* Little-endian numbers and bytes into room that is known to suffice. */
typedef struct pen {
    uint8_t *at;
} pen;

static void put_number(pen *p, uint64_t v, size_t size)
{
    for (size_t i = 0; i < size; i++)
        *p->at++ = (uint8_t)(v >> 8 * i);
}

static void put_bytes(pen *p, const void *data, size_t size)
{
    memcpy(p->at, data, size);
    p->at += size;
}

static void put_zeros(pen *p, size_t size)
{
    memset(p->at, 0, size);
    p->at += size;
}

void swi_native_head_write(const swi_native_head *head, uint8_t out[SWI_NATIVE_HEAD_BYTES])
{
    pen p = {out};
    put_bytes(&p, SWI_SHARD_MAGIC, SWI_SHARD_MAGIC_BYTES);
    put_number(&p, SWI_NATIVE_MAJOR, 2);
    put_number(&p, SWI_NATIVE_MINOR, 2);
    put_number(&p, head->rank, 4);
    put_number(&p, head->world, 4);
    put_number(&p, head->align, 4);
    put_bytes(&p, head->save_id, SWI_SAVE_ID_BYTES);
    put_zeros(&p, SWI_SHARD_HEAD_ZEROS);
}

static void foot_write(const swi_shard_foot *foot, uint8_t out[SWI_NATIVE_FOOT_BYTES])
{
    pen p = {out};
    put_number(&p, foot->values_at, 8);
    put_number(&p, foot->values_bytes, 8);
    put_bytes(&p, foot->values_digest.bytes, SWI_DIGEST_BYTES);
    put_number(&p, foot->index_at, 8);
    put_number(&p, foot->index_bytes, 8);
    put_bytes(&p, foot->index_digest.bytes, SWI_DIGEST_BYTES);
    put_number(&p, foot->file_bytes, 8);
    put_number(&p, foot->piece_count, 8);
    put_number(&p, foot->chunk_count, 8);
    put_zeros(&p, SWI_SHARD_FOOT_ZEROS);
    put_bytes(&p, SWI_SHARD_FOOT_MAGIC, SWI_SHARD_MAGIC_BYTES);
}

sw_status swi_shard_digest(const uint8_t head[SWI_NATIVE_HEAD_BYTES],
                           const uint8_t foot[SWI_NATIVE_FOOT_BYTES], swi_digest *out,
                           sw_error *err)
{
    const swi_bytes parts[] = {{head, SWI_NATIVE_HEAD_BYTES}, {foot, SWI_NATIVE_FOOT_BYTES}};
    return swi_digest_bytes(parts, 2, out, err);
}

/* ---- the index ----------------------------------------------------------------------------- */

static bool is_whole(const swi_native_tail *tail, size_t i)
{
    return tail->whole != NULL && tail->whole[i];
}

/* Pieces ascend, and the chunks that they are cut into are those that there are. */
static sw_status check_pieces(const swi_native_tail *tail, sw_error *err)
{
    uint64_t chunks = 0, all = 0;
    for (size_t i = 0; i < tail->piece_count; i++) {
        const swi_native_piece *piece = &tail->pieces[i];
        if (i > 0 && piece->tensor < piece[-1].tensor)
            return swi_fail(err, SW_ERR_ARG, "piece %zu is of tensor %" PRIu32 ", after %" PRIu32,
                            i, piece->tensor, piece[-1].tensor);
        if (!swi_native_grid_count(piece, 1, &chunks) || (is_whole(tail, i) && chunks != 1) ||
            !swi_add_u64(all, chunks, &all))
            return swi_fail(err, SW_ERR_ARG, "piece %zu (tensor %" PRIu32 ") has no such grid", i,
                            piece->tensor);
    }
    if (all != tail->chunk_count)
        return swi_fail(err, SW_ERR_ARG, "pieces of %" PRIu64 " chunks, %zu were written", all,
                        tail->chunk_count);
    return SW_OK;
}

/* Each chunk lies where NAT-9 has it. */
static sw_status check_chunks(const swi_native_head *head, const swi_native_tail *tail,
                              sw_error *err)
{
    uint64_t end = SWI_NATIVE_HEAD_BYTES, at;
    if (!swi_shard_align_ok(head->align))
        return swi_fail(err, SW_ERR_ARG, "chunks cannot be aligned to %" PRIu32, head->align);
    for (size_t i = 0; i < tail->chunk_count; i++) {
        const swi_native_chunk *chunk = &tail->chunks[i];
        if (!swi_shard_chunk_place(end, head->align, &at) || chunk->offset_bytes != at ||
            chunk->stored_bytes == 0 ||
            chunk->stored_bytes > SWI_CHUNK_STORED_MAX(SWI_CHUNK_RAW_MAX))
            return swi_fail(err, SW_ERR_ARG,
                            "chunk %zu: %" PRIu32 " bytes at %" PRIu64 ", behind %" PRIu64, i,
                            chunk->stored_bytes, chunk->offset_bytes, end);
        end = at + chunk->stored_bytes;
    }
    if (end != tail->chunks_end)
        return swi_fail(err, SW_ERR_ARG, "the chunks end at %" PRIu64 ", not at %" PRIu64, end,
                        tail->chunks_end);
    return SW_OK;
}

static uint32_t axes_written(const swi_native_tail *tail, size_t i)
{
    return is_whole(tail, i) ? 0 : tail->pieces[i].axes;
}

static bool index_bytes(const swi_native_tail *tail, size_t *out)
{
    size_t all, axes = 0, more;
    for (size_t i = 0; i < tail->piece_count; i++)
        axes += axes_written(tail, i);
    if (!swi_mul_size(tail->chunk_count, SWI_CHUNK_BYTES, &all) ||
        !swi_mul_size(tail->piece_count, SWI_PIECE_BYTES, &more) ||
        !swi_add_size(all, more, &all) || !swi_mul_size(axes, SWI_PIECE_AXIS_BYTES, &more))
        return false;
    return swi_add_size(all, more, out);
}

static void put_axes(pen *p, const int64_t *numbers, uint32_t axes)
{
    for (uint32_t k = 0; k < axes; k++)
        put_number(p, (uint64_t)numbers[k], 8);
}

static void put_piece(pen *p, const swi_native_tail *tail, size_t i)
{
    const swi_native_piece *piece = &tail->pieces[i];
    uint32_t axes = axes_written(tail, i);
    uint64_t chunks = 0;
    (void)swi_native_grid_count(piece, 1, &chunks); /* it has been counted before */
    put_number(p, piece->tensor, 4);
    put_number(p,
               is_whole(tail, i) ? SWI_PIECE_WHOLE
               : piece->flat     ? SWI_PIECE_FLAT
                                 : SWI_PIECE_BOX,
               1);
    put_number(p, axes, 1);
    put_zeros(p, 2);
    put_number(p, chunks, 8);
    put_axes(p, piece->offset, axes);
    put_axes(p, piece->length, axes);
    put_axes(p, piece->chunk, axes);
}

static void put_chunk(pen *p, const swi_native_chunk *chunk)
{
    put_number(p, chunk->offset_bytes, 8);
    put_number(p, chunk->stored_bytes, 4);
    put_number(p, chunk->codec, 1);
    put_zeros(p, 3);
    put_bytes(p, chunk->digest.bytes, SWI_DIGEST_BYTES);
}

static void put_index(uint8_t *out, const swi_native_tail *tail)
{
    pen p = {out};
    for (size_t i = 0; i < tail->piece_count; i++)
        put_piece(&p, tail, i);
    for (size_t i = 0; i < tail->chunk_count; i++)
        put_chunk(&p, &tail->chunks[i]);
}

/* ---- the tail ------------------------------------------------------------------------------ */

/* Values, index and foot into `at`, which has room for them. */
static sw_status put_tail(const swi_native_head *head, const swi_native_tail *tail,
                          size_t index_size, uint8_t *at, swi_native_file *file, sw_error *err)
{
    swi_shard_foot foot = {.values_at = tail->chunks_end,
                           .values_bytes = tail->values_bytes,
                           .index_at = tail->chunks_end + tail->values_bytes,
                           .index_bytes = index_size,
                           .piece_count = tail->piece_count,
                           .chunk_count = tail->chunk_count};
    uint8_t begin[SWI_NATIVE_HEAD_BYTES], *index = at + tail->values_bytes;
    uint8_t *end = index + index_size;
    foot.file_bytes = foot.index_at + foot.index_bytes + SWI_NATIVE_FOOT_BYTES;
    if (tail->values_bytes > 0)
        memcpy(at, tail->values, tail->values_bytes);
    put_index(index, tail);
    sw_status status =
        swi_section_digest(at, tail->values_bytes, tail->threads, &foot.values_digest, err);
    if (status == SW_OK)
        status = swi_section_digest(index, index_size, tail->threads, &foot.index_digest, err);
    if (status != SW_OK)
        return status;
    foot_write(&foot, end);
    swi_native_head_write(head, begin);
    status = swi_shard_digest(begin, end, &file->digest, err);
    if (status == SW_OK)
        file->bytes = foot.file_bytes;
    return status;
}

sw_status swi_native_tail_write(const swi_native_head *head, const swi_native_tail *tail,
                                swi_buf *out, swi_native_file *file, sw_error *err)
{
    size_t index_size, size;
    uint64_t end;
    sw_status status = check_pieces(tail, err);
    if (status == SW_OK)
        status = check_chunks(head, tail, err);
    if (status != SW_OK)
        return status;
    if (!index_bytes(tail, &index_size) || !swi_add_size(tail->values_bytes, index_size, &size) ||
        !swi_add_size(size, SWI_NATIVE_FOOT_BYTES, &size) ||
        !swi_add_u64(tail->chunks_end, size, &end))
        return swi_fail(err, SW_ERR_LIMIT, "a shard file of more than 2^64 bytes");
    status = swi_buf_reserve(out, size, err);
    if (status == SW_OK)
        status = put_tail(head, tail, index_size, out->data + out->size, file, err);
    if (status == SW_OK)
        out->size += size;
    return status;
}
