/* The grid of chunks that a piece of a native checkpoint is cut into (NAT-11). */
#ifndef SW_NATIVE_GRID_H
#define SW_NATIVE_GRID_H

#include "base/error.h"

/* A piece of a tensor and its chunks. */
typedef struct swi_native_piece {
    uint32_t tensor; /* number in the table */
    bool flat;       /* an interval of the flattened tensor: one axis */
    uint32_t axes;
    int64_t offset[SW_MAX_AXES], length[SW_MAX_AXES], chunk[SW_MAX_AXES];
} swi_native_piece;

/*
 * The lengths of chunks for a piece of `length`, in a tensor (or, flat, an interval) whose rows the
 * piece may not fill: piece->offset, length are set, chunk is filled. A deterministic rule of this
 * writer, not of the format: chunks of at most 1 MiB; of large pieces many enough that a 1/64 slice
 * of rows and a 1/8 slice of columns read little else, but none below 128 KiB for that; and from
 * the first to the last element of a chunk at most 2 MiB of the whole tensor (of `row` = the
 * tensor's shape; flat: NULL) where that is possible, so that few are open at a time when a tensor
 * is written or read in row-major order. Cuts of an axis are into powers of two of equal chunks
 * (ceil).
 */
void swi_native_chunk_lengths(swi_native_piece *piece, const int64_t *shape,
                              uint32_t element_bytes);

/* How many chunks it has; false: not as NAT-11 has it (empty, a chunk over 4 MiB, numbers that
 * overflow). */
bool swi_native_grid_count(const swi_native_piece *piece, uint32_t element_bytes, uint64_t *out);
/* The box of chunk i, in the tensor (or of the flattened one). */
void swi_native_grid_box(const swi_native_piece *piece, uint64_t i, int64_t *offset,
                         int64_t *length);

#endif
