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
    uint64_t term; /* for whoever lays it out: of a Partial tensor, which one of its terms */
} swi_native_piece;

/*
 * The lengths of chunks for a piece that is not empty: offset and length are set, chunk is filled.
 * `shape` is that of the tensor, whose rows the piece may not fill; NULL for a flat piece. A
 * deterministic rule of this writer, not of the format:
 * - a chunk has at most 1 MiB, and from its first to its last element lie at most 2 MiB of the
 * whole tensor, so that few chunks are open at a time when a tensor is written or read in row-major
 * order;
 * - a piece of more than 1 MiB has chunks of at most 1/64 of the tensor's rows (axis 0) and 1/4 of
 * its columns (every other axis of 64 or more), but none is made smaller than 128 KiB for that: so
 * 1/64 of the rows reads little else, and 1/8 of the columns at most twice its bytes;
 * - an axis is cut into a power of two of equal chunks (rounded up; the last may be shorter, or
 * missing).
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
