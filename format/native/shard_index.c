/* The index of a shard file: its records, checked as a whole, then walked and picked. */
#include <inttypes.h>
#include <string.h>

#include "base/arena.h"
#include "base/cursor.h"
#include "base/together.h"
#include "native/shard_parts.h"

#define MARK_CHUNKS 1024U   /* from mark to mark */
#define RANGE_CHUNKS 65536U /* checked at a time */

/* A piece as it is written. */
typedef struct record {
    uint64_t at; /* in the file */
    uint8_t kind, axes;
    uint64_t chunks;
    swi_native_piece piece;
} record;

/* How many bytes of the index are records of pieces; those of chunks follow. */
static uint64_t pieces_bytes(const swi_native_shard *shard)
{
    return shard->index_bytes - shard->chunk_count * SWI_CHUNK_BYTES;
}

/* ---- chunks -------------------------------------------------------------------------------- */

void swi_native_chunk_at(const swi_native_shard *shard, uint64_t i, swi_native_chunk *out)
{
    const uint8_t *p = shard->chunks + (size_t)i * SWI_CHUNK_BYTES;
    out->offset_bytes = swi_load_u64le(p);
    out->stored_bytes = swi_load_u32le(p + 8);
    out->codec = p[12];
    memcpy(out->digest.bytes, p + 16, SWI_DIGEST_BYTES);
}

/* Where the record of a chunk begins in the file. */
static uint64_t chunk_record_at(const swi_native_shard *shard, uint64_t i)
{
    return shard->index_at + pieces_bytes(shard) + i * SWI_CHUNK_BYTES;
}

static sw_status check_chunk(const swi_native_shard *shard, uint64_t i, uint64_t *end,
                             sw_error *err)
{
    const uint8_t *p = shard->chunks + (size_t)i * SWI_CHUNK_BYTES;
    uint64_t record_at = chunk_record_at(shard, i), at = swi_load_u64le(p), place;
    uint32_t stored = swi_load_u32le(p + 8);
    if (!swi_shard_chunk_place(*end, shard->head.align, &place) || at != place)
        return swi_fail_at(err, SW_ERR_CORRUPT, "NAT-9", record_at,
                           "chunk %" PRIu64 " begins at %" PRIu64 ", what lies before it ends at "
                           "%" PRIu64 " and chunks are aligned to %" PRIu32,
                           i, at, *end, shard->head.align);
    if (stored == 0 || stored > SWI_CHUNK_STORED_MAX(SWI_CHUNK_RAW_MAX) ||
        !swi_range_inside(at, stored, shard->values_at))
        return swi_fail_at(err, SW_ERR_CORRUPT, "NAT-9", record_at + 8,
                           "chunk %" PRIu64 " of %" PRIu32 " bytes at %" PRIu64 " does not fit "
                           "before the values, %" PRIu64,
                           i, stored, at, shard->values_at);
    if (p[12] > SWI_CHUNK_PLANES)
        return swi_fail_at(err, SW_ERR_UNSUPPORTED, "NAT-13", record_at + 12,
                           "chunk %" PRIu64 " is of codec %u, which version %d does not have", i,
                           (unsigned)p[12], SWI_NATIVE_MAJOR);
    if ((p[13] | p[14] | p[15]) != 0)
        return swi_fail_at(err, SW_ERR_CORRUPT, "NAT-13", record_at + 13,
                           "the record of chunk %" PRIu64 " is not zero where it has to be", i);
    *end = at + stored;
    return SW_OK;
}

/* Where a chunk ends; before the first the head does. */
static uint64_t end_before(const swi_native_shard *shard, uint64_t i)
{
    if (i == 0)
        return SWI_NATIVE_HEAD_BYTES;
    const uint8_t *p = shard->chunks + ((size_t)i - 1) * SWI_CHUNK_BYTES;
    return swi_load_u64le(p) + swi_load_u32le(p + 8);
}

static sw_status check_chunks(const swi_native_shard *shard, uint64_t from, uint64_t to,
                              sw_error *err)
{
    uint64_t end = end_before(shard, from);
    for (uint64_t i = from; i < to; i++) {
        sw_status status = check_chunk(shard, i, &end, err);
        if (status != SW_OK)
            return status;
    }
    if (to < shard->chunk_count || end == shard->values_at)
        return SW_OK;
    return swi_fail_at(err, SW_ERR_CORRUPT, "NAT-9", end,
                       "the chunks end at %" PRIu64 ", the values begin at %" PRIu64, end,
                       shard->values_at);
}

/* ---- pieces -------------------------------------------------------------------------------- */

static sw_status bad_piece(const record *r, uint64_t at, sw_error *err, const char *why)
{
    return swi_fail_at(err, SW_ERR_CORRUPT, "NAT-13", r->at + at,
                       "a piece of tensor %" PRIu32 " %s", r->piece.tensor, why);
}

static bool get_axes(swi_cursor *c, uint32_t axes, int64_t *out)
{
    uint64_t v = 0;
    for (uint32_t k = 0; k < axes; k++)
        if (!swi_get_u64le(c, &v) || !swi_u64_to_i64(v, &out[k]))
            return false;
    return true;
}

/* Its lengths, and those of its chunks, are such that there is a grid of so many. */
static bool has_grid(const record *r)
{
    uint64_t chunks;
    return swi_native_grid_count(&r->piece, 1, &chunks) && chunks == r->chunks;
}

static bool axes_fit_kind(const record *r)
{
    if (r->kind == SWI_PIECE_BOX)
        return r->axes <= SW_MAX_AXES;
    return r->axes == (r->kind == SWI_PIECE_FLAT ? 1 : 0);
}

/* The record at the cursor, which is inside the pieces of the index; all but its tensor's shape.
 * What it has no numbers for stays in *r as it is. */
static sw_status read_piece(const swi_native_shard *shard, swi_cursor *c, record *r, sw_error *err)
{
    const uint8_t *p;
    r->at = shard->index_at + c->pos;
    if (!swi_get_bytes(c, SWI_PIECE_BYTES, &p))
        return swi_fail_at(err, SW_ERR_CORRUPT, "NAT-13", r->at,
                           "the record of a piece is cut by those of chunks");
    r->piece.tensor = swi_load_u32le(p);
    r->kind = p[4];
    r->axes = p[5];
    r->chunks = swi_load_u64le(p + 8);
    if (r->kind > SWI_PIECE_WHOLE || (p[6] | p[7]) != 0)
        return bad_piece(r, 4, err, "is of no kind that there is");
    if (!axes_fit_kind(r))
        return bad_piece(r, 5, err, "has a number of axes that is not that of its kind");
    if (swi_cursor_left(c) / SWI_PIECE_AXIS_BYTES < r->axes)
        return bad_piece(r, 0, err, "has a record that is cut by those of chunks");
    r->piece.flat = r->kind == SWI_PIECE_FLAT;
    r->piece.axes = r->axes;
    if (!get_axes(c, r->axes, r->piece.offset) || !get_axes(c, r->axes, r->piece.length) ||
        !get_axes(c, r->axes, r->piece.chunk))
        return bad_piece(r, SWI_PIECE_BYTES, err, "has a number of more than 63 bits");
    if (r->kind == SWI_PIECE_WHOLE ? r->chunks != 1 : !has_grid(r))
        return bad_piece(r, 8, err, "is not cut into as many chunks as it says");
    return SW_OK;
}

static swi_cursor piece_records(const swi_native_shard *shard)
{
    return swi_cursor_make(shard->index, (size_t)pieces_bytes(shard));
}

/* The piece has the chunks up to `end`. */
static void set_marks(swi_native_shard *shard, const swi_native_walk *piece, uint64_t end)
{
    uint64_t k = piece->chunk / MARK_CHUNKS + (piece->chunk % MARK_CHUNKS != 0);
    for (; k * MARK_CHUNKS < end; k++)
        shard->marks[k] = *piece;
}

static sw_status check_pieces(swi_native_shard *shard, sw_error *err)
{
    swi_cursor c = piece_records(shard);
    uint64_t chunks = 0;
    uint32_t before = 0;
    record r = {0};
    for (uint64_t i = 0; i < shard->piece_count; i++) {
        const swi_native_walk here = {c.pos, i, chunks};
        sw_status status = read_piece(shard, &c, &r, err);
        if (status != SW_OK)
            return status;
        if (r.piece.tensor < before)
            return bad_piece(&r, 0, err, "follows one of a later tensor");
        if (r.chunks > shard->chunk_count - chunks)
            return bad_piece(&r, 8, err, "has more chunks than are left");
        before = r.piece.tensor;
        chunks += r.chunks;
        set_marks(shard, &here, chunks);
    }
    if (chunks == shard->chunk_count && swi_cursor_left(&c) == 0)
        return SW_OK;
    return swi_fail_at(err, SW_ERR_CORRUPT, "NAT-13", shard->index_at + c.pos,
                       "the pieces have %" PRIu64 " chunks of %" PRIu64 ", and %zu bytes are left "
                       "behind their records",
                       chunks, shard->chunk_count, swi_cursor_left(&c));
}

/* Pieces are checked by one thread, as each begins where the one before it ends. */
static sw_status check_part(void *ctx, uint64_t from, uint64_t to, sw_error *err)
{
    swi_native_shard *shard = ctx;
    (void)to;
    if (from == 0)
        return check_pieces(shard, err);
    const uint64_t first = (from - 1) * RANGE_CHUNKS, left = shard->chunk_count - first;
    return check_chunks(shard, first, first + (left < RANGE_CHUNKS ? left : RANGE_CHUNKS), err);
}

sw_status swi_shard_check_records(swi_native_shard *shard, uint32_t threads, sw_error *err)
{
    const uint64_t count = shard->chunk_count;
    sw_status status = swi_alloc_array((size_t)(count / MARK_CHUNKS) + 1, sizeof *shard->marks,
                                       (void **)&shard->marks, err);
    return status == SW_OK
               ? swi_together_ranges(threads, 2 + count / RANGE_CHUNKS, 1, check_part, shard, err)
               : status;
}

/* ---- the walk ------------------------------------------------------------------------------ */

static bool elements_of(const swi_native_shape *shape, int64_t *out)
{
    int64_t all = 1;
    for (uint32_t k = 0; k < shape->axes; k++)
        if (!swi_mul_i64(all, shape->shape[k], &all))
            return false;
    *out = all;
    return true;
}

/* What a record of the third kind leaves unsaid. */
static sw_status fit_whole(record *r, const swi_native_shape *shape, sw_error *err)
{
    swi_native_piece *piece = &r->piece;
    uint64_t bytes = shape->element_bytes;
    bool is_small = true;
    piece->axes = shape->axes;
    for (uint32_t k = 0; k < shape->axes; k++) {
        if (shape->shape[k] < 1)
            return bad_piece(r, 0, err, "is all of a tensor without elements");
        piece->offset[k] = 0;
        piece->length[k] = piece->chunk[k] = shape->shape[k];
        is_small = is_small && swi_mul_u64(bytes, (uint64_t)shape->shape[k], &bytes);
    }
    if (is_small && bytes <= SWI_CHUNK_RAW_MAX)
        return SW_OK;
    return bad_piece(r, 8, err, "has chunks of more than 4194304 bytes");
}

/* No number here is negative, so that differences do not overflow. */
static bool inside(const swi_native_piece *piece, const swi_native_shape *shape)
{
    int64_t elements = 0;
    if (piece->flat)
        return elements_of(shape, &elements) && piece->length[0] <= elements - piece->offset[0];
    for (uint32_t k = 0; k < piece->axes; k++)
        if (piece->length[k] > shape->shape[k] - piece->offset[k])
            return false;
    return true;
}

/* The piece is one of this tensor. */
static sw_status fit(record *r, const swi_native_shape *shape, sw_error *err)
{
    uint64_t chunks;
    if (r->kind == SWI_PIECE_WHOLE)
        return fit_whole(r, shape, err);
    if (r->kind == SWI_PIECE_BOX && r->axes != shape->axes)
        return bad_piece(r, 5, err, "has another number of axes than the tensor");
    if (!inside(&r->piece, shape))
        return bad_piece(r, SWI_PIECE_BYTES, err, "reaches out of the tensor");
    if (!swi_native_grid_count(&r->piece, shape->element_bytes, &chunks) || chunks != r->chunks)
        return bad_piece(r, 8, err, "has chunks of more than 4194304 bytes");
    return SW_OK;
}

/* Of a million small ones no more than there is. */
static void copy_piece(const swi_native_piece *from, swi_native_piece *to)
{
    to->tensor = from->tensor;
    to->axes = from->axes;
    to->flat = from->flat;
    for (uint32_t k = 0; k < from->axes; k++) {
        to->offset[k] = from->offset[k];
        to->length[k] = from->length[k];
        to->chunk[k] = from->chunk[k];
    }
}

void swi_native_walk_near(const swi_native_shard *shard, uint64_t chunk, swi_native_walk *out)
{
    *out = shard->marks[chunk / MARK_CHUNKS];
}

sw_status swi_native_piece_next(const swi_native_shard *shard, swi_native_walk *walk,
                                swi_native_shape_fn shape_of, const void *ctx,
                                swi_native_piece *out, uint64_t *first_chunk, uint64_t *chunks,
                                bool *more, sw_error *err)
{
    swi_cursor c = piece_records(shard);
    swi_native_shape shape = {0};
    record r;
    r.piece.axes = 0;
    if (walk->piece >= shard->piece_count) {
        *more = false;
        return SW_OK;
    }
    if (!swi_seek(&c, (size_t)walk->at))
        return swi_fail(err, SW_ERR_ARG, "no walk over this shard file");
    sw_status status = read_piece(shard, &c, &r, err);
    if (status != SW_OK)
        return status;
    if (!shape_of(ctx, r.piece.tensor, &shape))
        return bad_piece(&r, 0, err, "is of none in the table");
    status = fit(&r, &shape, err);
    if (status != SW_OK)
        return status;
    copy_piece(&r.piece, out);
    *first_chunk = walk->chunk;
    *chunks = r.chunks;
    *more = true;
    *walk = (swi_native_walk){c.pos, walk->piece + 1, walk->chunk + r.chunks};
    return SW_OK;
}
