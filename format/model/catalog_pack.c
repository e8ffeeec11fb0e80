/*
 * Pieces and blobs as records of variable length. A piece of a plain row shard takes about a dozen
 * bytes instead of 344. What is unpacked here was packed here: it is not foreign.
 */
#include "model/catalog_tables.h"

#include <stdlib.h>
#include <string.h>

#include "base/checked.h"

#define BLOCK SWI_PACKED_BLOCK

/* First byte of a piece: its axes, and what needs no telling. */
enum {
    AXES_MASK = 15,
    VIEW_IS_SHAPE = 16,
    IS_DENSE = 32,
    IS_WHOLE = 64, /* the box is the whole view */
    BASE_IS_ZERO = 128,
    IS_TENSOR = VIEW_IS_SHAPE | IS_DENSE | IS_WHOLE | BASE_IS_ZERO
};

static uint8_t *put(uint8_t *p, uint64_t v)
{
    while (v >= 128) {
        *p++ = (uint8_t)(v | 128);
        v >>= 7;
    }
    *p++ = (uint8_t)v;
    return p;
}

static const uint8_t *get(const uint8_t *p, uint64_t *out)
{
    uint64_t v = 0;
    unsigned shift = 0;
    for (; *p >= 128; p++, shift += 7)
        v |= (uint64_t)(*p & 127) << shift;
    *out = v | (uint64_t)*p << shift;
    return p + 1;
}

/* Small numbers of either sign stay short. */
static uint8_t *put_signed(uint8_t *p, int64_t v)
{
    return put(p, (uint64_t)v << 1 ^ (v < 0 ? UINT64_MAX : 0));
}

static const uint8_t *get_signed(const uint8_t *p, int64_t *out)
{
    uint64_t v;
    p = get(p, &v);
    *out = (int64_t)(v >> 1 ^ (v & 1 ? UINT64_MAX : 0));
    return p;
}

static uint8_t *put_all(uint8_t *p, const int64_t *v, uint32_t count)
{
    for (uint32_t k = 0; k < count; k++)
        p = put(p, (uint64_t)v[k]);
    return p;
}

static const uint8_t *get_all(const uint8_t *p, int64_t *out, uint32_t count)
{
    for (uint32_t k = 0; k < count; k++) {
        uint64_t v;
        p = get(p, &v);
        out[k] = (int64_t)v;
    }
    return p;
}

/* Of a few numbers, one by one: a call or a string instruction would cost more than all of them. */
static void copy_all(int64_t *to, const int64_t *from, uint32_t count)
{
    for (uint32_t k = count; k-- > 0;)
        to[k] = from[k];
}

/* ---- pieces ---------------------------------------------------------------------------------- */

static bool is_whole(const swi_piece *piece)
{
    for (uint32_t k = 0; k < piece->axes; k++)
        if (piece->offset[k] != 0 || piece->length[k] != piece->view[k])
            return false;
    return true;
}

static uint8_t first_byte(const swi_pack_context *ctx, const swi_piece *piece)
{
    unsigned head = piece->axes;
    if (piece->axes == ctx->axes &&
        (ctx->axes == 0 || memcmp(piece->view, ctx->shape, ctx->axes * sizeof(int64_t)) == 0))
        head |= VIEW_IS_SHAPE;
    if (swi_piece_is_dense(piece, ctx->element_bytes))
        head |= IS_DENSE;
    if (is_whole(piece))
        head |= IS_WHOLE;
    if (piece->base_bytes == 0)
        head |= BASE_IS_ZERO;
    return (uint8_t)head;
}

size_t swi_pack_piece(const swi_pack_context *ctx, const swi_piece *piece, uint8_t *record)
{
    uint8_t head = first_byte(ctx, piece);
    uint8_t *p = record;
    *p++ = head;
    p = put(p, piece->blob);
    if ((head & BASE_IS_ZERO) == 0)
        p = put_signed(p, piece->base_bytes);
    if ((head & VIEW_IS_SHAPE) == 0)
        p = put_all(p, piece->view, piece->axes);
    if ((head & IS_WHOLE) == 0) {
        p = put_all(p, piece->offset, piece->axes);
        p = put_all(p, piece->length, piece->axes);
    }
    for (uint32_t k = 0; k < piece->axes && (head & IS_DENSE) == 0; k++)
        p = put_signed(p, piece->stride_bytes[k]);
    return (size_t)(p - record);
}

void swi_unpack_piece(const swi_pack_context *ctx, const uint8_t *record, swi_piece *out)
{
    const uint8_t *p = record;
    uint8_t head = *p++;
    uint64_t blob;
    out->axes = head & AXES_MASK;
    p = get(p, &blob);
    out->blob = (uint32_t)blob;
    out->base_bytes = 0;
    if ((head & BASE_IS_ZERO) == 0)
        p = get_signed(p, &out->base_bytes);
    if ((head & VIEW_IS_SHAPE) == 0)
        p = get_all(p, out->view, out->axes);
    else
        copy_all(out->view, ctx->shape, out->axes);
    if ((head & IS_WHOLE) == 0) {
        p = get_all(p, out->offset, out->axes);
        p = get_all(p, out->length, out->axes);
    } else {
        memset(out->offset, 0, sizeof out->offset);
        copy_all(out->length, out->view, out->axes);
    }
    if ((head & IS_DENSE) != 0)
        swi_piece_make_dense(out, ctx->element_bytes);
    for (uint32_t k = 0; k < out->axes && (head & IS_DENSE) == 0; k++)
        p = get_signed(p, &out->stride_bytes[k]);
}

size_t swi_pack_whole(const swi_pack_context *ctx, uint32_t blob, uint8_t *record)
{
    *record = (uint8_t)(IS_TENSOR | ctx->axes);
    return (size_t)(put(record + 1, blob) - record);
}

bool swi_unpack_whole(const uint8_t *record, uint32_t *blob)
{
    uint64_t id;
    if ((*record & IS_TENSOR) != IS_TENSOR)
        return false;
    (void)get(record + 1, &id);
    *blob = (uint32_t)id;
    return true;
}

/* ---- blobs ----------------------------------------------------------------------------------- */

size_t swi_pack_blob(const swi_blob *blob, uint8_t kind, uint8_t *record)
{
    uint8_t *p = record;
    *p++ = kind;
    p = put(p, blob->file);
    p = put(p, blob->aux);
    p = put(p, blob->offset_bytes);
    p = put(p, blob->stored_bytes);
    p = put(p, blob->bytes + 1); /* UINT64_MAX, not resolved, is the short one */
    return (size_t)(p - record);
}

void swi_unpack_blob(const uint8_t *record, uint8_t *kind, swi_blob *out)
{
    uint64_t file;
    uint64_t aux;
    uint64_t bytes;
    *kind = *record;
    const uint8_t *p = get(record + 1, &file);
    p = get(p, &aux);
    p = get(p, &out->offset_bytes);
    p = get(p, &out->stored_bytes);
    (void)get(p, &bytes);
    out->file = (uint32_t)file;
    out->aux = (uint32_t)aux;
    out->bytes = bytes - 1;
}

size_t swi_pack_want(const swi_blob_want *want, uint8_t *record)
{
    uint8_t *p = record;
    *p++ = (uint8_t)(want->has_shape ? want->axes + 1 : 0);
    if (want->has_shape)
        p = put_all(p, want->shape, want->axes);
    return (size_t)(p - record);
}

void swi_unpack_want(const uint8_t *record, swi_blob_want *want)
{
    want->has_shape = *record > 0;
    want->axes = want->has_shape ? *record - 1U : 0;
    (void)get_all(record + 1, want->shape, want->axes);
}

/* ---- the container --------------------------------------------------------------------------- */

static size_t blocks_of(size_t count)
{
    return count / BLOCK + (count % BLOCK != 0);
}

sw_status swi_packed_add(swi_packed *packed, const uint8_t *record, size_t size, sw_error *err)
{
    const size_t i = packed->count;
    sw_status status =
        swi_grow_raw((void **)&packed->at, &packed->at_capacity, i + 1, sizeof *packed->at, err);
    if (status == SW_OK)
        status = swi_grow_array((void **)&packed->blocks, &packed->block_capacity, i / BLOCK + 1,
                                sizeof *packed->blocks, err);
    if (status == SW_OK)
        status = swi_buf_append(&packed->blocks[i / BLOCK], record, size, err);
    if (status != SW_OK)
        return status;
    packed->at[i] = (uint32_t)(packed->blocks[i / BLOCK].size - size);
    packed->count++;
    return SW_OK;
}

sw_status swi_packed_begin(swi_packed *packed, size_t count, sw_error *err)
{
    sw_status status = swi_reserve_array((void **)&packed->at, &packed->at_capacity, count,
                                         sizeof *packed->at, err);
    return status == SW_OK ? swi_grow_array((void **)&packed->blocks, &packed->block_capacity,
                                            blocks_of(count), sizeof *packed->blocks, err)
                           : status;
}

sw_status swi_packed_copy(swi_packed *to, const swi_packed *from, sw_error *err)
{
    if (from->count == 0)
        return SW_OK;
    sw_status status = swi_packed_begin(to, from->count, err);
    for (size_t b = 0; b < blocks_of(from->count) && status == SW_OK; b++)
        status = swi_buf_append(&to->blocks[b], from->blocks[b].data, from->blocks[b].size, err);
    if (status != SW_OK)
        return status;
    memcpy(to->at, from->at, from->count * sizeof *to->at);
    to->count = from->count;
    return SW_OK;
}

void swi_trim_array(void **items, size_t *capacity, size_t count, size_t size)
{
    if (count >= *capacity)
        return;
    if (count == 0) {
        free(*items);
        *items = NULL;
        *capacity = 0;
        return;
    }
    void *p = realloc(*items, count * size);
    if (p == NULL)
        return;
    *items = p;
    *capacity = count;
}

void swi_packed_trim(swi_packed *packed)
{
    for (size_t b = 0; b < blocks_of(packed->count); b++)
        swi_trim_array((void **)&packed->blocks[b].data, &packed->blocks[b].capacity,
                       packed->blocks[b].size, 1);
    swi_trim_array((void **)&packed->at, &packed->at_capacity, packed->count, sizeof *packed->at);
}

void swi_packed_free(swi_packed *packed)
{
    for (size_t b = 0; b < packed->block_capacity; b++)
        swi_buf_free(&packed->blocks[b]);
    free(packed->blocks);
    free(packed->at);
    *packed = (swi_packed){0};
}

uint64_t swi_packed_memory(const swi_packed *packed)
{
    uint64_t bytes =
        packed->block_capacity * sizeof *packed->blocks + packed->at_capacity * sizeof *packed->at;
    for (size_t b = 0; b < blocks_of(packed->count); b++)
        bytes += packed->blocks[b].capacity;
    return bytes;
}
