/*
 * A piece says which elements of a global tensor lie at which bytes of a blob: a box in a view.
 *
 * A view is a factorisation of the tensor's flattened row-major index space into axes (so a reshape
 * is free): flat = sum over k of i[k] * (product of view[k+1..]). A box is an offset and a length
 * per view axis. The element at view index i lies at byte base + sum of (i[k] - offset[k]) *
 * stride[k] of the blob. A scalar has one element and no axes. Elements are whole bytes.
 *
 * Everything that a map or a layout does to a piece is one of refine, permute, embed, crop;
 * everything that execution needs is the intersection with a flat interval. All are closed on
 * pieces, so no byte moves for them. Functions that could overflow have been given numbers that
 * swi_piece_check accepted.
 */
#ifndef SW_MODEL_PIECE_H
#define SW_MODEL_PIECE_H

#include "base/error.h"

typedef struct swi_piece {
    uint32_t blob; /* index in its catalog */
    uint32_t axes;
    int64_t base_bytes;
    int64_t view[SW_MAX_AXES];
    int64_t offset[SW_MAX_AXES];
    int64_t length[SW_MAX_AXES];
    int64_t stride_bytes[SW_MAX_AXES];
} swi_piece;

/* The most pieces that a box ∩ flat interval can give. */
#define SWI_INTERVAL_MAX (2 * SW_MAX_AXES)

/* The number of elements of a shape; false on a negative size or on overflow. */
bool swi_shape_elements(uint32_t axes, const int64_t *shape, uint64_t *out);

/* "[3, 4]" for messages. */
#define SWI_SHAPE_TEXT 256
void swi_shape_text(uint32_t axes, const int64_t *shape, char text[SWI_SHAPE_TEXT]);

/* Fills strides for a dense row-major box of `length`. */
void swi_piece_make_dense(swi_piece *piece, uint32_t element_bytes);
bool swi_piece_is_dense(const swi_piece *piece, uint32_t element_bytes);

/*
 * SW_ERR_CORRUPT unless: axes within bounds, sizes non-negative, every box range inside its view
 * axis, the view has `elements` elements, no overflow, and all bytes lie in [0, blob_bytes).
 */
SW_MUST_USE sw_status swi_piece_check(const swi_piece *piece, uint64_t elements,
                                      uint32_t element_bytes, uint64_t blob_bytes, sw_error *err);

bool swi_piece_is_empty(const swi_piece *piece);
uint64_t swi_piece_elements(const swi_piece *piece);
/* Flat index of the first element, and of the last one plus one; the piece is not empty. */
uint64_t swi_piece_first(const swi_piece *piece);
uint64_t swi_piece_end(const swi_piece *piece);
/* Whether the box covers one whole run of the flat index space. */
bool swi_piece_is_interval(const swi_piece *piece);

/*
 * The part of the piece whose flat indexes lie in [lo, hi): at most SWI_INTERVAL_MAX pieces, in
 * ascending flat order within each axis split; returns how many.
 */
size_t swi_piece_in_interval(const swi_piece *piece, uint64_t lo, uint64_t hi,
                             swi_piece out[SWI_INTERVAL_MAX]);

/*
 * Splits view axis `axis` (of size a multiple of `inner`) into outer x inner. A box that does not
 * lie whole on inner blocks becomes up to 3 pieces. Returns how many; 0 when `inner` does not fit.
 */
size_t swi_piece_refine(const swi_piece *piece, uint32_t axis, int64_t inner, swi_piece out[3]);
/* The piece in the tensor whose view axes are reordered: new axis k is old axis order[k]. */
void swi_piece_permute(const swi_piece *piece, const uint32_t *order, swi_piece *out);
/* The piece in a tensor whose view axis `axis` is `size` long and holds the old one from `at` on.
 */
SW_MUST_USE bool swi_piece_embed(const swi_piece *piece, uint32_t axis, int64_t size, int64_t at,
                                 swi_piece *out);
/* The piece in the tensor cut to [lo, hi) of view axis `axis`; false when nothing is left. */
bool swi_piece_crop(const swi_piece *piece, uint32_t axis, int64_t lo, int64_t hi, swi_piece *out);
/*
 * Merges neighbouring axes where view and strides allow it and drops axes of length and view 1.
 * Same elements at the same bytes.
 */
void swi_piece_simplify(swi_piece *piece, uint32_t element_bytes);

#endif
