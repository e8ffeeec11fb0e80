/*
 * What a program has put together to be saved, and the checkpoint that it is: one that lies in no
 * file, so that saving it is converting it.
 */
#ifndef SW_CONVERT_SAVE_H
#define SW_CONVERT_SAVE_H

#include "base/arena.h"
#include "base/names.h"
#include "framework.h"
#include "model/value.h"

typedef struct swi_saved_tensor {
    const char *name;            /* its path with dots: in the catalog */
    const char *section, *inner; /* select/sections.h */
    sw_role role;
    sw_dtype dtype;
    uint32_t axes;
    int64_t shape[SW_MAX_AXES];
} swi_saved_tensor;

/* One call of sw_save_tensor: some elements of a tensor, in memory of the caller. */
typedef struct swi_saved_piece {
    uint32_t tensor;
    swi_piece piece; /* of a blob that is all of its memory */
} swi_saved_piece;

struct sw_save {
    sw_limits limits; /* resolved */
    bool in_order;
    swi_arena arena;  /* names */
    swi_names *names; /* of tensors: ids are their indices */
    swi_saved_tensor *tensors;
    size_t tensor_capacity;
    swi_saved_piece *pieces;
    swi_slice *memory; /* by piece */
    size_t piece_count, piece_capacity, memory_capacity;
    sw_value_graph *graph; /* the state dict; tensors in it by index */
    sw_value root;
};

/* The checkpoint that it is now; the save must outlive it and stay as it is. Findings: what its
 * pieces lack or hold twice. */
SW_MUST_USE sw_status swi_save_open(const sw_save *save, sw_report *report, sw_checkpoint **out,
                                    sw_error *err);

#endif
