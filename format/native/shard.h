/*
 * Shard files of a native checkpoint (specs/native.md): head, chunks, values of the rank, index,
 * foot. And the kind of blob that a chunk is: its digest is compared whenever it is read.
 */
#ifndef SW_NATIVE_SHARD_H
#define SW_NATIVE_SHARD_H

#include "base/buf.h"
#include "codec/chunk_codec.h"
#include "codec/section_digest.h"
#include "io/store.h"
#include "model/blob.h"
#include "native/grid.h"
#include "native/manifest.h"

#define SWI_NATIVE_HEAD_BYTES 64
#define SWI_NATIVE_FOOT_BYTES 160

typedef struct swi_native_head {
    uint32_t rank, world, align;
    uint8_t save_id[SWI_SAVE_ID_BYTES];
} swi_native_head;

typedef struct swi_native_chunk {
    uint64_t offset_bytes;
    uint32_t stored_bytes;
    uint8_t codec;
    swi_digest digest;
} swi_native_chunk;

/* ---- writing */

void swi_native_head_write(const swi_native_head *head, uint8_t out[SWI_NATIVE_HEAD_BYTES]);
/* What follows the last chunk, which ends at `chunks_end` of the file, appended. */
typedef struct swi_native_tail {
    const swi_native_piece *pieces; /* ascending by tensor */
    size_t piece_count;
    const swi_native_chunk *chunks; /* of all pieces in order */
    size_t chunk_count;
    const void *values; /* the rank's own, or size 0 */
    size_t values_bytes;
    uint64_t chunks_end;
    uint32_t threads; /* to hash it by */
    /* Pieces that are all of their tensor in one chunk are written as kind 2 where this says so. */
    const bool *whole; /* by piece; NULL: none is */
} swi_native_tail;
/* *file: bytes and digest of the whole file, for the manifest. */
SW_MUST_USE sw_status swi_native_tail_write(const swi_native_head *head,
                                            const swi_native_tail *tail, swi_buf *out,
                                            swi_native_file *file, sw_error *err);

/* ---- reading */

typedef struct swi_native_walk {
    uint64_t at, piece, chunk; /* {0} to begin; chunk: the first of the piece that was given */
} swi_native_walk;

typedef struct swi_native_shard {
    swi_native_head head;
    uint64_t bytes, values_at, values_bytes, index_at, index_bytes;
    uint64_t piece_count, chunk_count;
    uint8_t *index;         /* owned: the index as it was read, digest compared */
    const uint8_t *chunks;  /* in it */
    uint8_t *values;        /* owned; NULL: none */
    swi_native_walk *marks; /* owned: on the way through the pieces */
} swi_native_shard;
/*
 * Reads head, foot, values and index of a shard file and holds them against the manifest:
 * SW_ERR_CORRUPT (a digest or number differs, with position), SW_ERR_NOTFOUND, SW_ERR_UNTRUSTED: it
 * is of another save or another rank. SW_ERR_UNSUPPORTED: a newer major version, an unknown codec.
 * Checks all records: offsets ascend as NAT-9 has it, counts add up. Errors begin with the file's
 * name. limits->metadata_bytes bounds the index and the values.
 */
typedef struct swi_native_expect {
    const swi_native_file *file;
    uint32_t rank, world;
    const uint8_t *save_id;
    uint32_t threads;
} swi_native_expect;
SW_MUST_USE sw_status swi_native_shard_open(const swi_store *store, const swi_native_expect *expect,
                                            const sw_limits *limits, swi_native_shard *out,
                                            sw_error *err);
void swi_native_shard_free(swi_native_shard *shard);
/* i < chunk_count */
void swi_native_chunk_at(const swi_native_shard *shard, uint64_t i, swi_native_chunk *out);
/* The pieces in order: *at is 0 at first; false at the end. `axes_of` tells the shape of a tensor
 * (kind 2). SW_ERR_CORRUPT: outside the tensor, a wrong number of chunks. Of the piece's numbers
 * those of its axes are set. */
typedef struct swi_native_shape {
    uint32_t axes;
    const int64_t *shape; /* or read it by copies: valid till the next call */
    uint32_t element_bytes;
} swi_native_shape;
typedef bool (*swi_native_shape_fn)(const void *ctx, uint32_t tensor, swi_native_shape *out);
/* A walk that begins with the piece that the chunk (< chunk_count) is of, or a few before it. */
void swi_native_walk_near(const swi_native_shard *shard, uint64_t chunk, swi_native_walk *out);
SW_MUST_USE sw_status swi_native_piece_next(const swi_native_shard *shard, swi_native_walk *walk,
                                            swi_native_shape_fn shape_of, const void *ctx,
                                            swi_native_piece *out, uint64_t *first_chunk,
                                            uint64_t *chunks, bool *more, sw_error *err);

/* ---- chunks as blobs */

/*
 * The chunks of all shard files of a checkpoint. blob->aux: number of the chunk among all (of shard
 * 0, of shard 1, ...); the ops are this object's own and live as long as it. resolve gives an
 * encoded extent; decode compares the digest, then decodes. check reads and compares only the
 * digest.
 */
typedef struct swi_native_chunks swi_native_chunks;
/* Takes nothing over: the shards must outlive it. */
SW_MUST_USE sw_status swi_native_chunks_make(const swi_native_shard *shards, size_t count,
                                             swi_native_chunks **out, sw_error *err);
void swi_native_chunks_free(swi_native_chunks *chunks);
/* The kind of blob that all of them are. */
const swi_blob_ops *swi_native_chunks_ops(const swi_native_chunks *chunks);
/* The blob of a chunk of a shard file; `file` is its id in the catalog. SW_ERR_LIMIT: more than
 * 2^32 chunks. SW_ERR_CORRUPT: so many raw bytes cannot be stored in it (NAT-13). Errors of this
 * and of swi_native_piece_next name no file. */
SW_MUST_USE sw_status swi_native_chunks_blob(const swi_native_chunks *chunks, size_t shard,
                                             uint64_t chunk, uint32_t file, uint64_t raw_bytes,
                                             swi_blob *out, sw_error *err);
/* Whether the bytes of the shard file between its chunks are zero (NAT-9): *zero, and where the
 * first other one is. Reads only those. */
SW_MUST_USE sw_status swi_native_padding_check(const swi_native_shard *shard,
                                               const swi_reader *reader, uint32_t file, bool *zero,
                                               uint64_t *at, sw_error *err);

#endif
