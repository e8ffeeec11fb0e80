/*
 * Elements taken apart into byte planes and put together again: plane k has the k-th byte (the
 * least significant first) of every element. Whole arrays, no state; pure moves of bytes, so every
 * implementation gives the same.
 */
#ifndef SW_CODEC_PLANES_H
#define SW_CODEC_PLANES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SWI_PLANES_MAX 16

/* Elements of so many bytes can be divided: 1, 2, 4, 8, 16. */
static inline bool swi_planes_can(uint32_t element_bytes)
{
    return element_bytes > 0 && element_bytes <= SWI_PLANES_MAX &&
           (element_bytes & (element_bytes - 1)) == 0;
}

/* Whether elements of so many bytes can be rotated: 2 and 4, where an exponent of 8 bits then fills
 * the last plane. */
static inline bool swi_planes_can_rotate(uint32_t element_bytes)
{
    return element_bytes == 2 || element_bytes == 4;
}

typedef struct swi_planes_shape {
    uint32_t element_bytes; /* swi_planes_can */
    bool rotated;           /* each element by one bit to the left, as little-endian number */
} swi_planes_shape;

typedef struct swi_planes_ops {
    /* `raw` has count elements, planes[k] room for count bytes; nothing overlaps. */
    void (*split)(swi_planes_shape shape, const uint8_t *raw, size_t count, uint8_t *const *planes);
    void (*merge)(swi_planes_shape shape, const uint8_t *const *planes, size_t count, uint8_t *raw);
} swi_planes_ops;

/* For any processor. */
const swi_planes_ops *swi_planes_portable(void);
/* NULL where the processor has no AVX2. */
const swi_planes_ops *swi_planes_avx2(void);
/* The fastest that this processor has. */
const swi_planes_ops *swi_planes_best(void);

#endif
