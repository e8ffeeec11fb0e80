/*
 * A shard file of every kind of piece, built through the writer, and digests set right again after
 * its bytes were changed, so that the checks behind them are reached. For tests and fuzzers: no
 * cmocka here.
 */
#ifndef TESTS_FORMAT_NATIVE_SHARD_SAMPLE_H
#define TESTS_FORMAT_NATIVE_SHARD_SAMPLE_H

#include <string.h>

#include "base/checked.h"
#include "base/cursor.h"
#include "io/store.h"
#include "native/shard.h"

#define SAMPLE_NAME "rank-00001-of-00003.sws"
#define SAMPLE_PIECES 5
#define SAMPLE_CHUNKS_MAX 32
#define SAMPLE_TENSORS 5
#define SAMPLE_VALUES "{\"format\":1,\"values\":[[\"rng\",7]]}"

typedef struct sample {
    swi_native_head head;
    swi_buf bytes; /* the file */
    swi_native_file file;
    swi_native_piece pieces[SAMPLE_PIECES];
    bool whole[SAMPLE_PIECES];
    swi_native_chunk chunks[SAMPLE_CHUNKS_MAX];
    size_t chunk_count;
    uint64_t chunks_end;
} sample;

typedef struct sample_tensor {
    uint32_t axes;
    int64_t shape[3];
    uint32_t element_bytes;
} sample_tensor;

/* Number 1 has no piece in this file, number 4 two. */
static const sample_tensor sample_tensors[SAMPLE_TENSORS] = {
    {2, {5, 7}, 2}, {1, {9}, 1}, {3, {2, 5, 3}, 4}, {0, {0}, 8}, {2, {4, 2}, 1}};

static inline bool sample_shape(const void *ctx, uint32_t tensor, swi_native_shape *out)
{
    (void)ctx;
    if (tensor >= SAMPLE_TENSORS)
        return false;
    const sample_tensor *t = &sample_tensors[tensor];
    *out =
        (swi_native_shape){.axes = t->axes, .shape = t->shape, .element_bytes = t->element_bytes};
    return true;
}

static inline void sample_pieces(sample *s)
{
    static const swi_native_piece pieces[SAMPLE_PIECES] = {
        {.tensor = 0, .axes = 2, .offset = {1, 0}, .length = {4, 7}, .chunk = {3, 4}},
        {.tensor = 2, .flat = true, .axes = 1, .offset = {4}, .length = {17}, .chunk = {6}},
        {.tensor = 3},
        {.tensor = 4, .axes = 2, .offset = {0, 0}, .length = {2, 2}, .chunk = {1, 2}},
        {.tensor = 4, .axes = 2, .offset = {3, 1}, .length = {1, 1}, .chunk = {1, 1}}};
    memcpy(s->pieces, pieces, sizeof pieces);
    s->whole[2] = true;
}

/* What a chunk's elements are: bytes that differ from chunk to chunk. */
static inline uint8_t sample_byte(size_t chunk, size_t i)
{
    return (uint8_t)(chunk * 37 + i * 5 + 1);
}

static inline uint64_t sample_raw_bytes(const swi_native_piece *piece, uint64_t i)
{
    int64_t offset[SW_MAX_AXES], length[SW_MAX_AXES];
    uint64_t bytes = sample_tensors[piece->tensor].element_bytes;
    swi_native_grid_box(piece, i, offset, length);
    for (uint32_t k = 0; k < piece->axes; k++)
        bytes *= (uint64_t)length[k];
    return bytes;
}

static inline bool sample_hash(const void *data, size_t size, swi_digest *out)
{
    swi_hasher *hasher = NULL;
    bool done = swi_hasher_make(&hasher, NULL) == SW_OK &&
                swi_hasher_begin(hasher, NULL) == SW_OK &&
                swi_hasher_add(hasher, data, size, NULL) == SW_OK &&
                swi_hasher_end(hasher, out, NULL) == SW_OK;
    swi_hasher_free(hasher);
    return done;
}

/* The next chunk, stored as it is. */
static inline bool sample_chunk(sample *s, uint64_t raw_bytes)
{
    uint8_t raw[256];
    swi_native_chunk *chunk = &s->chunks[s->chunk_count];
    size_t size = (size_t)raw_bytes, align = s->head.align;
    if (size > sizeof raw || s->chunk_count == SAMPLE_CHUNKS_MAX ||
        swi_buf_fill(&s->bytes, 0, (align - s->bytes.size % align) % align, NULL) != SW_OK)
        return false;
    for (size_t i = 0; i < size; i++)
        raw[i] = sample_byte(s->chunk_count, i);
    *chunk = (swi_native_chunk){.offset_bytes = s->bytes.size, .stored_bytes = (uint32_t)raw_bytes};
    s->chunk_count++;
    return sample_hash(raw, size, &chunk->digest) &&
           swi_buf_append(&s->bytes, raw, size, NULL) == SW_OK;
}

static inline bool sample_chunks(sample *s)
{
    for (size_t i = 0; i < SAMPLE_PIECES; i++) {
        uint64_t count, bytes = sample_tensors[s->pieces[i].tensor].element_bytes;
        if (!swi_native_grid_count(&s->pieces[i], (uint32_t)bytes, &count))
            return false;
        for (uint64_t c = 0; c < count; c++)
            if (!sample_chunk(s, sample_raw_bytes(&s->pieces[i], c)))
                return false;
    }
    s->chunks_end = s->bytes.size;
    return true;
}

static inline swi_native_tail sample_tail(const sample *s)
{
    return (swi_native_tail){.pieces = s->pieces,
                             .piece_count = SAMPLE_PIECES,
                             .chunks = s->chunks,
                             .chunk_count = s->chunk_count,
                             .values = SAMPLE_VALUES,
                             .values_bytes = sizeof SAMPLE_VALUES - 1,
                             .chunks_end = s->chunks_end,
                             .whole = s->whole};
}

static inline bool sample_make(sample *s, uint32_t align)
{
    uint8_t head[SWI_NATIVE_HEAD_BYTES];
    *s = (sample){.head = {.rank = 1, .world = 3, .align = align}, .file = {.file = SAMPLE_NAME}};
    for (size_t i = 0; i < SWI_SAVE_ID_BYTES; i++)
        s->head.save_id[i] = (uint8_t)(0xA0 + i);
    sample_pieces(s);
    swi_native_head_write(&s->head, head);
    if (swi_buf_append(&s->bytes, head, sizeof head, NULL) != SW_OK || !sample_chunks(s))
        return false;
    swi_native_tail tail = sample_tail(s);
    return swi_native_tail_write(&s->head, &tail, &s->bytes, &s->file, NULL) == SW_OK &&
           s->file.bytes == s->bytes.size;
}

static inline void sample_free(sample *s)
{
    swi_buf_free(&s->bytes);
}

/* ---- setting digests right ------------------------------------------------------------------ */

static inline bool sample_seal_section(const swi_buf *file, uint8_t *place)
{
    uint64_t at = swi_load_u64le(place), bytes = swi_load_u64le(place + 8);
    swi_digest digest;
    if (at > file->size || bytes > file->size - at)
        return true; /* nothing to hash: refused before */
    if (swi_section_digest(file->data + at, (size_t)bytes, 0, &digest, NULL) != SW_OK)
        return false;
    memcpy(place + 16, digest.bytes, SWI_DIGEST_BYTES);
    return true;
}

/* Digests of values, index, head and foot are those of the file's bytes. */
static inline bool sample_seal(const swi_buf *file, swi_native_file *of)
{
    uint8_t ends[SWI_NATIVE_HEAD_BYTES + SWI_NATIVE_FOOT_BYTES];
    of->bytes = file->size;
    if (file->size < sizeof ends)
        return true;
    uint8_t *foot = file->data + file->size - SWI_NATIVE_FOOT_BYTES;
    if (!sample_seal_section(file, foot) || !sample_seal_section(file, foot + 48))
        return false;
    memcpy(ends, file->data, SWI_NATIVE_HEAD_BYTES);
    memcpy(ends + SWI_NATIVE_HEAD_BYTES, foot, SWI_NATIVE_FOOT_BYTES);
    return sample_hash(ends, sizeof ends, &of->digest);
}

#endif
