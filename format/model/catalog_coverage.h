/* Whether the pieces of one tensor are disjoint, and what they leave out. */
#ifndef SW_MODEL_CATALOG_COVERAGE_H
#define SW_MODEL_CATALOG_COVERAGE_H

#include "model/piece.h"
#include "model/region.h"

/*
 * The pieces, all accepted by swi_piece_check and not empty, ascending by first and then by end
 * flat index.
 */
typedef struct swi_cover_in {
    uint64_t elements;
    bool replicas; /* sharing elements is no conflict */
    size_t count;
    void (*get)(const void *ctx, size_t i, swi_piece *out);
    const void *ctx;
} swi_cover_in;

typedef struct swi_cover {
    uint64_t held;    /* elements that some piece holds */
    bool has_missing; /* held is exact and less than all; first_missing is the first of them */
    uint64_t first_missing;
    swi_disjoint disjoint; /* never an overlap for replicas */
    size_t a, b;           /* SWI_OVERLAP: two pieces that share elements, a < b */
    uint64_t first_shared; /* and the first flat index that both hold */
} swi_cover;

/* Room and budgets, reused from tensor to tensor; {0}, then swi_cover_budget. */
typedef struct swi_cover_work {
    swi_region_work region;
    void *offset;
    size_t offset_capacity;
    void *length;
    size_t length_capacity;
    void *index; /* box -> piece */
    size_t index_capacity;
    void *runs;
    size_t run_capacity;
    uint64_t run_budget;
} swi_cover_work;

/* What all tensors of a catalog with so many pieces may cost together. */
void swi_cover_budget(swi_cover_work *work, uint64_t pieces);
void swi_cover_work_free(swi_cover_work *work);

SW_MUST_USE sw_status swi_cover_tensor(swi_cover_work *work, const swi_cover_in *in, swi_cover *out,
                                       sw_error *err);

#endif
