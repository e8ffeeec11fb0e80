#include "codec/planes.h"

#include <string.h>

#include "base/cursor.h"

/* Loops over arrays that do not overlap, for constant sizes: compilers make vector code of them. */

static void split2(uint32_t turn, const uint8_t *restrict raw, size_t count,
                   uint8_t *restrict plane0, uint8_t *restrict plane1)
{
    for (size_t i = 0; i < count; i++) {
        uint32_t x = swi_load_u16le(raw + 2 * i);
        x = x << turn | x >> (16 - turn);
        plane0[i] = (uint8_t)x;
        plane1[i] = (uint8_t)(x >> 8);
    }
}

static void merge2(uint32_t turn, const uint8_t *restrict plane0, const uint8_t *restrict plane1,
                   size_t count, uint8_t *restrict raw)
{
    for (size_t i = 0; i < count; i++) {
        uint32_t x = (uint32_t)(plane0[i] | plane1[i] << 8);
        x = x >> turn | x << (16 - turn);
        raw[2 * i] = (uint8_t)x;
        raw[2 * i + 1] = (uint8_t)(x >> 8);
    }
}

static void split4(uint32_t turn, const uint8_t *restrict raw, size_t count, uint8_t *const *planes)
{
    uint8_t *restrict plane0 = planes[0], *restrict plane1 = planes[1];
    uint8_t *restrict plane2 = planes[2], *restrict plane3 = planes[3];
    for (size_t i = 0; i < count; i++) {
        uint32_t x = swi_load_u32le(raw + 4 * i);
        x = x << turn | x >> 1 >> (31 - turn);
        plane0[i] = (uint8_t)x;
        plane1[i] = (uint8_t)(x >> 8);
        plane2[i] = (uint8_t)(x >> 16);
        plane3[i] = (uint8_t)(x >> 24);
    }
}

static void merge4(uint32_t turn, const uint8_t *const *planes, size_t count, uint8_t *restrict raw)
{
    const uint8_t *restrict plane0 = planes[0], *restrict plane1 = planes[1];
    const uint8_t *restrict plane2 = planes[2], *restrict plane3 = planes[3];
    for (size_t i = 0; i < count; i++) {
        uint32_t x = (uint32_t)plane0[i] | (uint32_t)plane1[i] << 8 | (uint32_t)plane2[i] << 16 |
                     (uint32_t)plane3[i] << 24;
        x = x >> turn | x << 1 << (31 - turn);
        raw[4 * i] = (uint8_t)x;
        raw[4 * i + 1] = (uint8_t)(x >> 8);
        raw[4 * i + 2] = (uint8_t)(x >> 16);
        raw[4 * i + 3] = (uint8_t)(x >> 24);
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
        split2(shape.rotated, raw, count, planes[0], planes[1]);
        return;
    case 4:
        split4(shape.rotated, raw, count, planes);
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
        merge2(shape.rotated, planes[0], planes[1], count, raw);
        return;
    case 4:
        merge4(shape.rotated, planes, count, raw);
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
