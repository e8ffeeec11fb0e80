/*
 * The pieces of one tensor as what execution asks for: which boxes of bytes make up the elements
 * [lo, hi)? Shared by plan, load and compare.
 */
#ifndef SW_RESHARD_COVER_H
#define SW_RESHARD_COVER_H

#include "lookup.h"
#include "plan.h"

typedef struct swi_cover {
    const sw_catalog *catalog;
    uint32_t tensor; /* whose pieces they are: the owner of an alias */
    uint32_t element_bytes;
    uint64_t piece_count;
    swi_lookup *lookup; /* NULL: so few pieces that all are tried */
    uint8_t *dropped;   /* a bit per piece: a copy of what others hold; NULL: none */
    bool again;         /* others are copies of one another in part, and are moved both */
} swi_cover;

/*
 * With `once` copies that lie inside of others are left out. Those that overlap only in part are
 * moved both, the later one last: SW_ERR_UNSUPPORTED when such a tensor is not whole, where nothing
 * would tell what is held. Errors name the tensor.
 */
SW_MUST_USE sw_status swi_cover_make(const sw_catalog *catalog, uint32_t tensor, bool once,
                                     swi_cover *out, sw_error *err);
void swi_cover_end(swi_cover *cover); /* ends with {0} */
uint64_t swi_cover_memory(const swi_cover *cover);

/* The first piece from `from` on that can meet [lo, hi), or -1. Thread-safe. */
int64_t swi_cover_next(const swi_cover *cover, uint64_t lo, uint64_t hi, uint64_t from);

/*
 * Replaces the moves by those of [lo, hi), merged to the fewest axes; window offsets count from lo.
 * *held (may be NULL): elements that they move, each once. Thread-safe but for *moves.
 */
SW_MUST_USE sw_status swi_cover_moves(const swi_cover *cover, uint64_t lo, uint64_t hi,
                                      swi_moves *moves, uint64_t *held, sw_error *err);

/* Adds the moves of piece i in [lo, hi) to *moves, and its elements there to *held. */
SW_MUST_USE sw_status swi_cover_piece_moves(const swi_cover *cover, uint64_t i, uint64_t lo,
                                            uint64_t hi, swi_moves *moves, uint64_t *held,
                                            sw_error *err);
/* Whether other pieces hold elements of this one, all or perhaps some. */
bool swi_cover_is_copy(const swi_cover *cover, uint64_t piece);

#endif
