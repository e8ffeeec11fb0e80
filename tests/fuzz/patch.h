/*
 * Input that changes a few bytes of something well formed, so that a fuzzer gets deep without a
 * corpus: after the first byte of the input come patches of three bytes, position (16 bits) and
 * value. A value of 0 cuts there when the position's top bit is set.
 */
#ifndef TESTS_FUZZ_PATCH_H
#define TESTS_FUZZ_PATCH_H

#include "base/buf.h"

static inline void patch(swi_buf *base, const uint8_t *data, size_t size)
{
    for (size_t i = 0; i + 3 <= size && base->size > 0; i += 3) {
        size_t at = (size_t)(data[i] | data[i + 1] << 8);
        if (at >= 0x8000 && data[i + 2] == 0)
            base->size = (at & 0x7FFF) % base->size;
        else
            base->data[(at & 0x7FFF) % base->size] = data[i + 2];
    }
}

#endif
