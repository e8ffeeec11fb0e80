/*
 * A target layout: the destination as a catalog whose files, offsets and every byte are fixed
 * before one moves. Each file is tiled exactly: pieces of tensors, literals (headers, indexes) and
 * fills (padding), each byte once; freezing proves it.
 */
#ifndef SW_RESHARD_LAYOUT_H
#define SW_RESHARD_LAYOUT_H

#include "base/buf.h"
#include "codec/digest.h"
#include "model/catalog.h"

typedef struct swi_layout swi_layout;

SW_MUST_USE sw_status swi_layout_make(const sw_limits *limits, swi_layout **out, sw_error *err);
void swi_layout_free(swi_layout *layout);

/* Files are published in the order of their ids: the index or manifest comes last. */
SW_MUST_USE sw_status swi_layout_file(swi_layout *layout, const char *path, uint64_t bytes,
                                      uint32_t *file, sw_error *err);
/* Bytes that are known now; copied. */
SW_MUST_USE sw_status swi_layout_literal(swi_layout *layout, uint32_t file, uint64_t offset,
                                         const void *data, size_t size, sw_error *err);
SW_MUST_USE sw_status swi_layout_fill(swi_layout *layout, uint32_t file, uint64_t offset,
                                      uint64_t size, uint8_t byte, sw_error *err);
/*
 * Asks for the CRC-32 of [offset, offset + bytes) of the file, whatever fills it. *sum is its place
 * among the sums of that file, which are asked for in ascending order and do not overlap.
 */
SW_MUST_USE sw_status swi_layout_sum(swi_layout *layout, uint32_t file, uint64_t offset,
                                     uint64_t bytes, uint32_t *sum, sw_error *err);
/*
 * Bytes that are known only when all other bytes of their file are written: `make` is given the
 * file's sums and fills in all of `out`. It is called once for each such range, in their order in
 * the file, by one thread at a time; what it fails with ends the run. Sums do not reach into these
 * ranges. `ctx` is the layout's own once this succeeds, and freed with it (free_ctx NULL: not).
 */
typedef sw_status (*swi_late_fn)(void *ctx, const uint32_t *sums, uint8_t *out, size_t size,
                                 sw_error *err);
typedef struct swi_late {
    uint64_t offset_bytes;
    size_t size;
    swi_late_fn make;
    void *ctx;
    void (*free_ctx)(void *ctx);
} swi_late;
SW_MUST_USE sw_status swi_layout_late(swi_layout *layout, uint32_t file, const swi_late *late,
                                      sw_error *err);
/*
 * A packed file: what the layout says of it is a space of raw bytes, tiled like any file, that is
 * cut into chunks. Each chunk is encoded when its last byte comes, by whichever thread brought it,
 * and stored behind the one before it, so that the file is the same for any number of threads.
 * Tensors must be laid out in it in the order in which the plan walks them (swi_plan_next), or
 * memory is not bounded.
 */
typedef struct swi_packing {
    const uint64_t
        *chunk_ends; /* in the raw bytes, ascending; the last is all of them. ctx's own */
    size_t chunks;
    uint32_t align;      /* chunks begin at multiples of it; zeros between */
    const uint8_t *head; /* first in the file; ctx's own */
    size_t head_bytes;
    size_t (*room)(size_t raw_bytes); /* for what is encoded of so many bytes */
    /* Thread-safe. */
    sw_status (*encode)(void *ctx, size_t chunk, const uint8_t *raw, size_t size, uint8_t *out,
                        size_t *out_size, sw_error *err);
    /* Where the chunk lies in the file; chunk by chunk in order, one call at a time. */
    void (*placed)(void *ctx, size_t chunk, uint64_t offset, size_t size);
    /* What follows the last chunk, which ends at `end`; appended. After all chunks are placed. */
    sw_status (*finish)(void *ctx, uint64_t end, swi_buf *tail, sw_error *err);
    void *ctx;
    void (*free_ctx)(void *ctx); /* NULL: not; the layout's own once swi_layout_pack succeeds */
} swi_packing;
#define SWI_PACK_ALIGN_MAX 65536U
SW_MUST_USE sw_status swi_layout_pack(swi_layout *layout, uint32_t file, const swi_packing *packing,
                                      sw_error *err);
/*
 * A file whose bytes are made when all files before it are finished and all tensors are digested
 * (`digests`: by tensor of the layout's catalog). It is no file of bytes known before: 0 in the
 * catalog. ctx as above.
 */
typedef sw_status (*swi_made_fn)(void *ctx, const swi_digest *digests, swi_buf *out, sw_error *err);
typedef struct swi_made {
    swi_made_fn make;
    void *ctx;
    void (*free_ctx)(void *ctx);
} swi_made;
SW_MUST_USE sw_status swi_layout_made(swi_layout *layout, const char *path, const swi_made *made,
                                      uint32_t *file, sw_error *err);
/* A destination tensor that takes its elements from tensor `source` of the source catalog. */
SW_MUST_USE sw_status swi_layout_tensor(swi_layout *layout, const swi_tensor_in *in,
                                        uint32_t source, uint32_t *tensor, sw_error *err);
/*
 * Its pieces may share elements: copies (a norm that every rank's file holds, a head that two ranks
 * hold), of all of a piece or of a part. Every piece is written whole.
 */
SW_MUST_USE sw_status swi_layout_replicas(swi_layout *layout, uint32_t tensor, sw_error *err);
/*
 * Its elements are those of `source` times those of tensor `scale` of the source catalog, which has
 * the same shape (a block scale repeats along axes of stride 0): the product in float32, then cast
 * to the destination's type (see transform.h).
 */
SW_MUST_USE sw_status swi_layout_scale(swi_layout *layout, uint32_t tensor, uint32_t scale,
                                       sw_error *err);
/*
 * A piece of it, whose blob is [offset, offset + bytes) of the file; piece->blob is ignored. The
 * elements must lie dense in that range (any order of axes).
 */
SW_MUST_USE sw_status swi_layout_piece(swi_layout *layout, uint32_t tensor, uint32_t file,
                                       uint64_t offset, uint64_t bytes, const swi_piece *piece,
                                       sw_error *err);
/*
 * A dense row-major array of a file that is made of several boxes of one tensor: a rank's slices of
 * each part of a fused matrix. The array has an axis for each one of a view of the tensor.
 */
typedef struct swi_block_part {
    int64_t offset[SW_MAX_AXES]; /* in the view */
    int64_t length[SW_MAX_AXES]; /* in both */
    int64_t place[SW_MAX_AXES];  /* in the array */
} swi_block_part;
typedef struct swi_block {
    uint32_t axes;
    const int64_t *view;  /* a factorisation of the tensor (see model/piece.h) */
    const int64_t *shape; /* of the array */
    const swi_block_part *parts;
    size_t part_count;
} swi_block;
/* The array begins at `offset` of the file. SW_ERR_ARG unless the parts tile it exactly. */
SW_MUST_USE sw_status swi_layout_block(swi_layout *layout, uint32_t tensor, uint32_t file,
                                       uint64_t offset, const swi_block *block, sw_error *err);
/*
 * A tensor of the destination without bytes of its own: there it sees those of others (tied
 * weights, views of one storage), and what it sees is tensor `source` of the source catalog.
 */
typedef struct swi_layout_view {
    const char *name; /* copied */
    uint32_t source;
    sw_dtype dtype; /* of what it sees */
} swi_layout_view;
SW_MUST_USE sw_status swi_layout_see(swi_layout *layout, const swi_layout_view *view,
                                     sw_error *err);
/* Proves the tiling of every file and the coverage of every tensor. SW_ERR_ARG names the fault. */
SW_MUST_USE sw_status swi_layout_freeze(swi_layout *layout, sw_error *err);

/* After freezing: */
const sw_catalog *swi_layout_catalog(const swi_layout *layout);
uint32_t swi_layout_source(const swi_layout *layout, uint32_t tensor);
/* The tensor of the source catalog whose elements scale it; -1: none does. */
int64_t swi_layout_scale_of(const swi_layout *layout, uint32_t tensor);
size_t swi_layout_view_count(const swi_layout *layout);
const swi_layout_view *swi_layout_view_at(const swi_layout *layout, size_t i);
typedef struct swi_literal {
    uint64_t offset_bytes;
    const uint8_t *data; /* NULL: a fill */
    uint64_t size;
    uint8_t fill;
} swi_literal;
size_t swi_layout_literal_count(const swi_layout *layout, uint32_t file);
void swi_layout_literal_at(const swi_layout *layout, uint32_t file, size_t i, swi_literal *out);
/* Literals that are made late are not among those. */
typedef struct swi_sum {
    uint64_t offset_bytes, bytes;
} swi_sum;
size_t swi_layout_sum_count(const swi_layout *layout, uint32_t file);
/* Number `first` + i of all sums of the layout is sum i of the file. */
size_t swi_layout_sum_first(const swi_layout *layout, uint32_t file);
swi_sum swi_layout_sum_at(const swi_layout *layout, uint32_t file, size_t i);
const swi_packing *swi_layout_packing(const swi_layout *layout, uint32_t file); /* NULL: none */
const swi_made *swi_layout_made_at(const swi_layout *layout, uint32_t file);    /* NULL: none */
/* Whether some file is packed or made: its bytes are not known before, nothing of it is resumed. */
bool swi_layout_is_packed(const swi_layout *layout);
size_t swi_layout_late_count(const swi_layout *layout, uint32_t file);
const swi_late *swi_layout_late_at(const swi_layout *layout, uint32_t file, size_t i);
/* Of all late literals of the file together. */
uint64_t swi_layout_late_bytes(const swi_layout *layout, uint32_t file);

#endif
