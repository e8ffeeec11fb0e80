/* Planes of elements of 2 and 4 bytes, 32 elements at a time. */
#include "codec/planes.h"

#if defined(__x86_64__)

#include <immintrin.h>

#define STEP ((size_t)32)
#define AHEAD 2048
#define LINE 64
#define TARGET __attribute__((target("avx2")))

TARGET static inline __m256i load(const uint8_t *p)
{
    return _mm256_loadu_si256((const void *)p);
}

TARGET static inline void store(uint8_t *p, __m256i x)
{
    _mm256_storeu_si256((void *)p, x);
}

/*
 * Asks for the lines that come later: between processor and memory there are more streams here than
 * it follows by itself. May lie behind the end of an array; nothing is touched.
 */
static inline void will_read(const uint8_t *p)
{
    __builtin_prefetch((const void *)((uintptr_t)p + AHEAD), 0);
}

static inline void will_write(const uint8_t *p)
{
    __builtin_prefetch((const void *)((uintptr_t)p + AHEAD), 1);
}

/* What is left behind the last whole step. */
static void split_rest(swi_planes_shape shape, const uint8_t *raw, size_t from, size_t count,
                       uint8_t *const *planes)
{
    uint8_t *rest[SWI_PLANES_MAX];
    for (uint32_t k = 0; k < shape.element_bytes; k++)
        rest[k] = planes[k] + from;
    swi_planes_portable()->split(shape, raw + from * shape.element_bytes, count - from, rest);
}

static void merge_rest(swi_planes_shape shape, const uint8_t *const *planes, size_t from,
                       size_t count, uint8_t *raw)
{
    const uint8_t *rest[SWI_PLANES_MAX];
    for (uint32_t k = 0; k < shape.element_bytes; k++)
        rest[k] = planes[k] + from;
    swi_planes_portable()->merge(shape, rest, count - from, raw + from * shape.element_bytes);
}

/* Each 16-bit number turned: `left` and `right` add up to 16, and 0 and 16 leave it as it is. */
TARGET static inline __m256i turn16(__m256i x, __m128i left, __m128i right)
{
    return _mm256_or_si256(_mm256_sll_epi16(x, left), _mm256_srl_epi16(x, right));
}

TARGET static inline __m256i turn32(__m256i x, __m128i left, __m128i right)
{
    return _mm256_or_si256(_mm256_sll_epi32(x, left), _mm256_srl_epi32(x, right));
}

TARGET static void split2(swi_planes_shape shape, const uint8_t *raw, size_t count,
                          uint8_t *const *planes)
{
    const __m128i left = _mm_cvtsi32_si128(shape.rotated);
    const __m128i right = _mm_cvtsi32_si128(16 - shape.rotated);
    const __m256i low = _mm256_set1_epi16(0xFF);
    size_t i = 0;
    for (; i + STEP <= count; i += STEP) {
        will_read(raw + 2 * i);
        will_write(planes[0] + i);
        will_write(planes[1] + i);
        __m256i a = turn16(load(raw + 2 * i), left, right);
        __m256i b = turn16(load(raw + 2 * i + 32), left, right);
        __m256i l = _mm256_packus_epi16(_mm256_and_si256(a, low), _mm256_and_si256(b, low));
        __m256i h = _mm256_packus_epi16(_mm256_srli_epi16(a, 8), _mm256_srli_epi16(b, 8));
        store(planes[0] + i, _mm256_permute4x64_epi64(l, 0xD8));
        store(planes[1] + i, _mm256_permute4x64_epi64(h, 0xD8));
    }
    split_rest(shape, raw, i, count, planes);
}

TARGET static void merge2(swi_planes_shape shape, const uint8_t *const *planes, size_t count,
                          uint8_t *raw)
{
    const __m128i left = _mm_cvtsi32_si128(16 - shape.rotated);
    const __m128i right = _mm_cvtsi32_si128(shape.rotated);
    size_t i = 0;
    for (; i + STEP <= count; i += STEP) {
        will_read(planes[0] + i);
        will_read(planes[1] + i);
        will_write(raw + 2 * i);
        __m256i l = _mm256_permute4x64_epi64(load(planes[0] + i), 0xD8);
        __m256i h = _mm256_permute4x64_epi64(load(planes[1] + i), 0xD8);
        store(raw + 2 * i, turn16(_mm256_unpacklo_epi8(l, h), left, right));
        store(raw + 2 * i + 32, turn16(_mm256_unpackhi_epi8(l, h), left, right));
    }
    merge_rest(shape, planes, i, count, raw);
}

/* 8 elements of 4 bytes: the bytes of each plane in a 64-bit lane of its own, by plane. */
TARGET static inline __m256i gather4(const uint8_t *raw, __m128i left, __m128i right)
{
    const __m256i by_plane = _mm256_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15,
                                              0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    const __m256i lanes = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    __m256i x = turn32(load(raw), left, right);
    return _mm256_permutevar8x32_epi32(_mm256_shuffle_epi8(x, by_plane), lanes);
}

TARGET static void split4(swi_planes_shape shape, const uint8_t *raw, size_t count,
                          uint8_t *const *planes)
{
    const __m128i left = _mm_cvtsi32_si128(shape.rotated);
    const __m128i right = _mm_cvtsi32_si128(32 - shape.rotated);
    size_t i = 0;
    for (; i + STEP <= count; i += STEP) {
        will_read(raw + 4 * i);
        will_read(raw + 4 * i + LINE);
        for (size_t k = 0; k < 4; k++)
            will_write(planes[k] + i);
        __m256i a = gather4(raw + 4 * i, left, right), b = gather4(raw + 4 * i + 32, left, right);
        __m256i c = gather4(raw + 4 * i + 64, left, right);
        __m256i d = gather4(raw + 4 * i + 96, left, right);
        __m256i ab02 = _mm256_unpacklo_epi64(a, b), ab13 = _mm256_unpackhi_epi64(a, b);
        __m256i cd02 = _mm256_unpacklo_epi64(c, d), cd13 = _mm256_unpackhi_epi64(c, d);
        store(planes[0] + i, _mm256_permute2x128_si256(ab02, cd02, 0x20));
        store(planes[1] + i, _mm256_permute2x128_si256(ab13, cd13, 0x20));
        store(planes[2] + i, _mm256_permute2x128_si256(ab02, cd02, 0x31));
        store(planes[3] + i, _mm256_permute2x128_si256(ab13, cd13, 0x31));
    }
    split_rest(shape, raw, i, count, planes);
}

TARGET static void merge4(swi_planes_shape shape, const uint8_t *const *planes, size_t count,
                          uint8_t *raw)
{
    const __m128i left = _mm_cvtsi32_si128(32 - shape.rotated);
    const __m128i right = _mm_cvtsi32_si128(shape.rotated);
    size_t i = 0;
    for (; i + STEP <= count; i += STEP) {
        for (size_t k = 0; k < 4; k++)
            will_read(planes[k] + i);
        will_write(raw + 4 * i);
        will_write(raw + 4 * i + LINE);
        __m256i p0 = load(planes[0] + i), p1 = load(planes[1] + i);
        __m256i p2 = load(planes[2] + i), p3 = load(planes[3] + i);
        __m256i l0 = _mm256_unpacklo_epi8(p0, p1), l1 = _mm256_unpackhi_epi8(p0, p1);
        __m256i h0 = _mm256_unpacklo_epi8(p2, p3), h1 = _mm256_unpackhi_epi8(p2, p3);
        __m256i a = turn32(_mm256_unpacklo_epi16(l0, h0), left, right);
        __m256i b = turn32(_mm256_unpackhi_epi16(l0, h0), left, right);
        __m256i c = turn32(_mm256_unpacklo_epi16(l1, h1), left, right);
        __m256i d = turn32(_mm256_unpackhi_epi16(l1, h1), left, right);
        store(raw + 4 * i, _mm256_permute2x128_si256(a, b, 0x20));
        store(raw + 4 * i + 32, _mm256_permute2x128_si256(c, d, 0x20));
        store(raw + 4 * i + 64, _mm256_permute2x128_si256(a, b, 0x31));
        store(raw + 4 * i + 96, _mm256_permute2x128_si256(c, d, 0x31));
    }
    merge_rest(shape, planes, i, count, raw);
}

static void avx2_split(swi_planes_shape shape, const uint8_t *raw, size_t count,
                       uint8_t *const *planes)
{
    if (shape.element_bytes == 2)
        split2(shape, raw, count, planes);
    else if (shape.element_bytes == 4)
        split4(shape, raw, count, planes);
    else
        swi_planes_portable()->split(shape, raw, count, planes);
}

static void avx2_merge(swi_planes_shape shape, const uint8_t *const *planes, size_t count,
                       uint8_t *raw)
{
    if (shape.element_bytes == 2)
        merge2(shape, planes, count, raw);
    else if (shape.element_bytes == 4)
        merge4(shape, planes, count, raw);
    else
        swi_planes_portable()->merge(shape, planes, count, raw);
}

const swi_planes_ops *swi_planes_avx2(void)
{
    static const swi_planes_ops ops = {.split = avx2_split, .merge = avx2_merge};
    return __builtin_cpu_supports("avx2") ? &ops : NULL;
}

#else

const swi_planes_ops *swi_planes_avx2(void)
{
    return NULL;
}

#endif
