#include "codec/planes.h"

#include <string.h>

/* A loop for each size: with a constant one, compilers make vector code of it. */

static inline uint32_t load(const uint8_t *p, uint32_t bytes)
{
    uint32_t x = 0;
    for (uint32_t k = 0; k < bytes; k++)
        x |= (uint32_t)p[k] << 8 * k;
    return x;
}

static inline void store(uint8_t *p, uint32_t x, uint32_t bytes)
{
    for (uint32_t k = 0; k < bytes; k++)
        p[k] = (uint8_t)(x >> 8 * k);
}

/* Elements of up to 4 bytes, rotated by `turn` bits, 0 or 1, to the left. */
static inline void split_number(uint32_t bytes, uint32_t turn, const uint8_t *restrict raw,
                                size_t count, uint8_t *const *planes)
{
    uint32_t top = 8 * bytes - 1;
    for (size_t i = 0; i < count; i++) {
        uint32_t x = load(raw + i * bytes, bytes);
        x = x << turn | x >> 1 >> (top - turn);
        for (uint32_t k = 0; k < bytes; k++)
            planes[k][i] = (uint8_t)(x >> 8 * k);
    }
}

static inline void merge_number(uint32_t bytes, uint32_t turn, const uint8_t *const *planes,
                                size_t count, uint8_t *restrict raw)
{
    uint32_t top = 8 * bytes - 1;
    uint32_t all = bytes == 4 ? UINT32_MAX : ((uint32_t)1 << 8 * bytes) - 1;
    for (size_t i = 0; i < count; i++) {
        uint32_t x = 0;
        for (uint32_t k = 0; k < bytes; k++)
            x |= (uint32_t)planes[k][i] << 8 * k;
        x = x >> turn | (x << 1 << (top - turn) & all);
        store(raw + i * bytes, x, bytes);
    }
}

static inline void split_bytes(uint32_t bytes, const uint8_t *restrict raw, size_t count,
                               uint8_t *const *planes)
{
    for (uint32_t k = 0; k < bytes; k++) {
        uint8_t *restrict plane = planes[k];
        for (size_t i = 0; i < count; i++)
            plane[i] = raw[i * bytes + k];
    }
}

static inline void merge_bytes(uint32_t bytes, const uint8_t *const *planes, size_t count,
                               uint8_t *restrict raw)
{
    for (uint32_t k = 0; k < bytes; k++) {
        const uint8_t *restrict plane = planes[k];
        for (size_t i = 0; i < count; i++)
            raw[i * bytes + k] = plane[i];
    }
}

static void portable_split(swi_planes_shape shape, const uint8_t *raw, size_t count,
                           uint8_t *const *planes)
{
    switch (shape.element_bytes) {
    case 1:
        memcpy(planes[0], raw, count);
        return;
    case 2:
        split_number(2, shape.rotated, raw, count, planes);
        return;
    case 4:
        split_number(4, shape.rotated, raw, count, planes);
        return;
    case 8:
        split_bytes(8, raw, count, planes);
        return;
    default:
        split_bytes(16, raw, count, planes);
        return;
    }
}

static void portable_merge(swi_planes_shape shape, const uint8_t *const *planes, size_t count,
                           uint8_t *raw)
{
    switch (shape.element_bytes) {
    case 1:
        memcpy(raw, planes[0], count);
        return;
    case 2:
        merge_number(2, shape.rotated, planes, count, raw);
        return;
    case 4:
        merge_number(4, shape.rotated, planes, count, raw);
        return;
    case 8:
        merge_bytes(8, planes, count, raw);
        return;
    default:
        merge_bytes(16, planes, count, raw);
        return;
    }
}

const swi_planes_ops *swi_planes_portable(void)
{
    static const swi_planes_ops ops = {.split = portable_split, .merge = portable_merge};
    return &ops;
}

const swi_planes_ops *swi_planes_best(void)
{
    const swi_planes_ops *avx2 = swi_planes_avx2();
    return avx2 != NULL ? avx2 : swi_planes_portable();
}
