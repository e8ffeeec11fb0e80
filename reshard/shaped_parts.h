/*
 * What the operations on shaped tensors are made of; shared by the files shaped*.c alone.
 *
 * A piece is first aligned: cut and refined until its view consists of whole groups of axes, one
 * group for each wanted dimension. Then the groups are reordered, or one of them (a line) is moved,
 * cut or repeated. What comes out is simplified, and at the end what lies side by side is merged.
 */
#ifndef SW_RESHARD_SHAPED_PARTS_H
#define SW_RESHARD_SHAPED_PARTS_H

#include "shaped.h"

typedef struct swi_pieces {
    swi_piece *items;
    size_t count, capacity;
} swi_pieces;

void swi_pieces_free(swi_pieces *list); /* ends with {0} */
/* SW_ERR_LIMIT beyond SWI_SHAPED_PIECES_MAX. */
SW_MUST_USE sw_status swi_pieces_add(swi_pieces *list, const swi_piece *piece, sw_error *err);
/* Adds the piece once for each index of its axis, narrowed to it. */
SW_MUST_USE sw_status swi_pieces_add_singles(swi_pieces *list, const swi_piece *piece,
                                             uint32_t axis, sw_error *err);
/*
 * Puts pieces together that are one box of one blob. Same elements at the same bytes; reordered.
 * Pieces are simplified.
 */
void swi_pieces_merge(swi_pieces *list, uint32_t element_bytes);

/* ---- one operation under way ----------------------------------------------------------------- */

typedef struct swi_shaping {
    uint32_t element_bytes;
    swi_pieces out;                  /* what came out so far, simplified */
    swi_pieces aligned, work, lines; /* scratch */
} swi_shaping;

void swi_shaping_end(swi_shaping *shaping);

/* Adds to `out`, simplified. */
SW_MUST_USE sw_status swi_shaping_out(swi_shaping *shaping, const swi_piece *piece, sw_error *err);

/*
 * Replaces `aligned` by the piece's elements in pieces whose views are made of a group of axes for
 * each dimension (none for a dimension of size 1). The dimensions are the last ones: their product
 * divides the piece's elements, and what is left over makes the axes before the first group.
 */
SW_MUST_USE sw_status swi_shaping_align(swi_shaping *shaping, const swi_piece *piece,
                                        uint32_t count, const int64_t *dims, sw_error *err);
/* The group of dimension d are the axes first[d] to first[d + 1]. */
void swi_aligned_groups(const swi_piece *aligned, uint32_t count, const int64_t *dims,
                        uint32_t first[SW_MAX_AXES + 1]);

/* What happens to one dimension: `size` long, with `inner` elements behind each of its indexes. */
typedef struct swi_line {
    int64_t size, inner;
    int64_t new_size;
    int64_t lo, hi, at; /* [lo, hi) comes to `at`, the rest is left out */
    int64_t block;      /* not 0: instead, each element becomes so many (the last ones fewer) */
} swi_line;
/* Does it to each piece; the results are added to `out`. */
SW_MUST_USE sw_status swi_shaping_line(swi_shaping *shaping, const swi_piece *pieces, size_t count,
                                       const swi_line *line, sw_error *err);

/* ---- results --------------------------------------------------------------------------------- */

/* SW_ERR_ARG unless the type has elements and their bytes stay countable. */
SW_MUST_USE sw_status swi_shaped_check(const swi_shaped *shaped, sw_error *err);
bool swi_shaped_has_elements(const swi_shaped *shaped);
/* Hands `out` over as head's pieces, merged; `head` says the rest. */
void swi_shaped_finish(swi_shaping *shaping, const swi_shaped *head, swi_shaped *out);
/* Elements behind one index of the dimension; the tensor has elements. */
int64_t swi_shaped_inner(const swi_shaped *shaped, uint32_t dim);
SW_MUST_USE sw_status swi_shaped_check_dim(const swi_shaped *shaped, uint32_t dim, sw_error *err);

#endif
