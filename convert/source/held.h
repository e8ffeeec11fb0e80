/*
 * How the ranks of a run hold its tensors, where a checkpoint tells it: what a target that is not
 * told how to divide them keeps.
 */
#ifndef SW_CONVERT_HELD_H
#define SW_CONVERT_HELD_H

#include "framework.h"
#include "torch/placements.h"

typedef enum swi_held_kind {
    SWI_HELD_BOXES = 0, /* as they come */
    SWI_HELD_FLAT,      /* intervals of the elements in a row */
    SWI_HELD_PLACED     /* what placements on a mesh give to each rank */
} swi_held_kind;

/* All of a tensor. What it points to is the checkpoint's. */
typedef struct swi_held {
    swi_held_kind kind;
    swi_placements placements; /* of PLACED */
    const char *const *names;  /* of the axes of their mesh */
    /*
     * Its ranks hold terms that are not added up (a Partial placement). The catalog has as many
     * tensors of its shape as there are terms, one behind the other: along its first axis, or along
     * one of their own where it has none.
     */
    bool partial;
    uint64_t terms; /* 1 unless it is partial */
    uint32_t axes;
    int64_t shape[SW_MAX_AXES]; /* of one */
    size_t part_count;
} swi_held;

/* Some elements of it, once for all ranks that hold just these. Not empty. */
typedef struct swi_held_part {
    uint64_t term;
    bool flat;     /* an interval of the elements in a row: one axis */
    uint32_t axes; /* else those of the tensor */
    int64_t offset[SW_MAX_AXES], length[SW_MAX_AXES];
    const uint32_t *ranks; /* ascending; the checkpoint's */
    size_t rank_count;     /* at least 1 */
} swi_held_part;

/* What a framework gives. */
typedef struct swi_held_ops {
    uint32_t (*ranks)(const sw_checkpoint *checkpoint);
    void (*tensor)(const sw_checkpoint *checkpoint, uint32_t tensor, swi_held *out);
    void (*part)(const sw_checkpoint *checkpoint, uint32_t tensor, size_t i, swi_held_part *out);
} swi_held_ops;

/* How many ranks there were; 0: nothing tells. */
uint32_t swi_held_ranks(const sw_checkpoint *checkpoint);
/* False: nothing tells of this tensor. It may be one that a map made. */
bool swi_held_tensor(const sw_checkpoint *checkpoint, uint32_t tensor, swi_held *out);
/* Part i < part_count, in the order of terms, then of first elements. */
void swi_held_part_at(const sw_checkpoint *checkpoint, uint32_t tensor, size_t i,
                      swi_held_part *out);

#endif
