/* How a dimension is divided: the one place where torch.chunk's arithmetic is. */
#ifndef SW_CONVERT_NOTATION_CHUNK_H
#define SW_CONVERT_NOTATION_CHUNK_H

#include <stdint.h>

#define SWI_MESH_AXES_MAX 8

/*
 * Part i < parts of [*offset, *offset + *length), as torch.chunk gives them: parts of
 * ceil(length / parts), the last ones shorter or empty. *length >= 0.
 */
static inline void swi_chunk(uint64_t parts, uint64_t i, int64_t *offset, int64_t *length)
{
    uint64_t n = (uint64_t)*length;
    uint64_t step = n / parts + (n % parts != 0);
    uint64_t from = step != 0 && i > n / step ? n : i * step;
    from = from > n ? n : from;
    uint64_t to = n - from > step ? from + step : n;
    *offset += (int64_t)from;
    *length = (int64_t)(to - from);
}

#endif
