/* Which pieces are a tensor's, and what that alone proves: for the freeze. */
#ifndef SW_MODEL_CATALOG_GROUP_H
#define SW_MODEL_CATALOG_GROUP_H

#include "model/catalog_tables.h"

/* What pieces in files hold, repeated ones counted each time. */
typedef struct swi_held_bytes {
    uint64_t bytes; /* saturated */
    uint64_t most;  /* of one tensor's pieces, and which */
    uint32_t most_tensor;
} swi_held_bytes;
void swi_held_bytes_add(swi_held_bytes *all, uint32_t tensor, uint64_t bytes);

/* Tensors by the range of so many, for threads. */
#define SWI_PROOF_RANGE 8192U
typedef struct swi_proven {
    bool all; /* each tensor is complete, by one piece inside its blob or by none where none is due
               */
    uint32_t first_piece, piece_count;
    swi_held_bytes held; /* by all of them, if `all` */
} swi_proven;

/* The order of pieces, as they were added, from where they can be moved. */
SW_MUST_USE sw_status swi_order_make(sw_catalog *c, sw_error *err);
/*
 * Tells all tensors their pieces. When those came tensor by tensor, ascending, nothing is moved and
 * *out says by range what is proven (to be freed; with `prove`: all blobs lie inside their files);
 * else the catalog has an order and *out is NULL.
 */
SW_MUST_USE sw_status swi_group_pieces(const swi_builder *builder, bool prove, swi_proven **out,
                                       sw_error *err);

/* It needs no piece and has none. */
bool swi_needs_no_piece(const swi_tensor_row *t);
/*
 * One piece that is all of its tensor, inside its blob: nothing to sort, and complete. The catalog
 * has no order. *held_bytes: in files.
 */
bool swi_has_whole_piece(const sw_catalog *c, const swi_tensor_row *t, uint64_t *held_bytes);

#endif
