/*
 * A tensor as a value: an element type, a shape and the pieces that hold it, outside of any
 * catalog. What a map does to tensors (specs/catalog.md, CAT-18 to CAT-27) are operations on such
 * values, each closed on pieces: no byte is read or moved, the same blobs stay behind them.
 *
 * Every operation checks all numbers, leaves its inputs alone and its output untouched on failure;
 * `out` is overwritten, not freed, and may not be an input. SW_ERR_ARG with a reason: sizes that do
 * not divide or fit, dtypes that differ. SW_ERR_LIMIT: the result would need more than SW_MAX_AXES
 * axes, or more than SWI_SHAPED_PIECES_MAX pieces. Results are merged to few pieces: what is held
 * in a few row or column shards stays a few pieces. Values are independent of each other; one may
 * be read by many threads.
 */
#ifndef SW_RESHARD_SHAPED_H
#define SW_RESHARD_SHAPED_H

#include "model/catalog.h"

#define SWI_SHAPED_PIECES_MAX ((size_t)1 << 18)

typedef struct swi_shaped {
    sw_dtype dtype;
    uint32_t axes;
    int64_t shape[SW_MAX_AXES];
    swi_piece *pieces; /* each view is a factorisation of the shape's elements; none is empty */
    size_t count, capacity;
    bool replicas;    /* pieces that overlap are copies of the same elements */
    sw_status defect; /* of the tensor it came from: see swi_tensor_defect */
} swi_shaped;

/* ---- from a catalog and into one ------------------------------------------------------------- */

/* The tensor's pieces, those of its owner when it is another name (alias) without its own. */
SW_MUST_USE sw_status swi_shaped_take(const sw_catalog *catalog, uint32_t tensor, swi_shaped *out,
                                      sw_error *err);
/* Only the pieces that can meet the flat interval [lo, hi): enough for what is cut out of there. */
SW_MUST_USE sw_status swi_shaped_take_near(const sw_catalog *catalog, uint32_t tensor, uint64_t lo,
                                           uint64_t hi, swi_shaped *out, sw_error *err);
SW_MUST_USE sw_status swi_shaped_copy(const swi_shaped *in, swi_shaped *out, sw_error *err);
void swi_shaped_free(swi_shaped *shaped); /* ends with {0} */

typedef struct swi_shaped_name {
    const char *name;
    size_t name_size;
    sw_role role;
} swi_shaped_name;
/*
 * Adds it as a tensor with its pieces, replicas and defect. Its blobs are the builder's: it was
 * taken from the catalog that the builder was made from (swi_builder_from), or filled from a
 * constant of that builder.
 */
SW_MUST_USE sw_status swi_shaped_put(swi_builder *builder, const swi_shaped_name *name,
                                     const swi_shaped *shaped, uint32_t *id, sw_error *err);

/* ---- order of elements ----------------------------------------------------------------------- */

/*
 * einops in numbers. Source dimension d is the product of the next in_count[d] factors, slowest
 * first; the factors are put into a new order; destination dimension d is the product of the next
 * out_count[d] of them. "(a two i) h -> (a i two) h" with two = 2, i = 4, a = 3, h = 5:
 * size {3, 2, 4, 5}, in_count {3, 1}, order {0, 2, 1, 3}, out_count {3, 1}. A dimension of size 1
 * may have no factor. A reshape is one with the order kept.
 */
typedef struct swi_rearrange {
    uint32_t factors;
    int64_t size[SW_MAX_AXES];   /* in the order of the source */
    uint32_t order[SW_MAX_AXES]; /* destination factor k is source factor order[k] */
    uint32_t in_axes, out_axes;
    uint32_t in_count[SW_MAX_AXES];
    uint32_t out_count[SW_MAX_AXES];
} swi_rearrange;

SW_MUST_USE sw_status swi_shaped_rearrange(const swi_shaped *in, const swi_rearrange *how,
                                           swi_shaped *out, sw_error *err);
/* The way back. `how` is one that swi_shaped_rearrange takes. */
void swi_rearrange_inverse(const swi_rearrange *how, swi_rearrange *out);
/* The same elements in row-major order under another shape of as many elements. */
SW_MUST_USE sw_status swi_shaped_reshape(const swi_shaped *in, uint32_t axes, const int64_t *shape,
                                         swi_shaped *out, sw_error *err);

/* ---- several tensors and one ----------------------------------------------------------------- */

/*
 * Concatenation along `dim` (groups 1). With groups g each part is divided in g equal runs along
 * dim, and the result is run 0 of every part, run 1 of every part and so on: grouped q/k/v, or
 * alternating rows with as many groups as rows. Parts agree in dtype and in the other dimensions.
 */
SW_MUST_USE sw_status swi_shaped_join(const swi_shaped *parts, size_t count, uint32_t dim,
                                      int64_t groups, swi_shaped *out, sw_error *err);
/* The way back: fills parts[count], of sizes[i] along dim each; the sizes add up to that of `in`.
 */
SW_MUST_USE sw_status swi_shaped_split(const swi_shaped *in, uint32_t dim, int64_t groups,
                                       const int64_t *sizes, size_t count, swi_shaped *parts,
                                       sw_error *err);
/* A new dimension `dim` of size `count`; the parts are equal in dtype and shape. */
SW_MUST_USE sw_status swi_shaped_stack(const swi_shaped *parts, size_t count, uint32_t dim,
                                       swi_shaped *out, sw_error *err);
/* Part `index` of dimension `dim`, which is gone then. */
SW_MUST_USE sw_status swi_shaped_unstack(const swi_shaped *in, uint32_t dim, int64_t index,
                                         swi_shaped *out, sw_error *err);

/* ---- boxes ----------------------------------------------------------------------------------- */

/* The box as a tensor of its own. */
SW_MUST_USE sw_status swi_shaped_cut(const swi_shaped *in, const int64_t *offset,
                                     const int64_t *length, swi_shaped *out, sw_error *err);
/* Appends local's elements to `global` (whose dtype and shape are set) as the box at `at`. */
SW_MUST_USE sw_status swi_shaped_embed(swi_shaped *global, const swi_shaped *local,
                                       const int64_t *at, sw_error *err);
/* A tensor of one value: every element is the first one of the constant blob. */
SW_MUST_USE sw_status swi_shaped_fill(sw_dtype dtype, uint32_t axes, const int64_t *shape,
                                      uint32_t constant_blob, swi_shaped *out, sw_error *err);
/* Dimension `dim` grown to `size`, the new end filled from the constant blob. */
SW_MUST_USE sw_status swi_shaped_pad(const swi_shaped *in, uint32_t dim, int64_t size,
                                     uint32_t constant_blob, swi_shaped *out, sw_error *err);
/*
 * Block-wise repetition: element i of the result is in[i[k] / blocks[k]] (scales of blocks as a
 * tensor of the weight's shape). `in` has ceil(shape[k] / blocks[k]) elements along k; the last
 * block may be cut. A dimension whose blocks do not divide it takes a piece a block.
 */
SW_MUST_USE sw_status swi_shaped_spread(const swi_shaped *in, uint32_t axes, const int64_t *shape,
                                        const int64_t *blocks, swi_shaped *out, sw_error *err);

#endif
