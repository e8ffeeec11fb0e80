#include "cast.h"

#include <string.h>

/*
 * All in integers: what the processor's conversions give depends on the rounding and flush-to-zero
 * modes that the calling program may have set.
 */

/* Binary floating point: 1 sign bit, exponent bits, mantissa bits. */
typedef struct layout {
    uint32_t exponent_bits;
    uint32_t mantissa_bits;
} layout;

static const layout f16_layout = {5, 10}, bf16_layout = {8, 7}, f32_layout = {8, 23};

static bool is_castable(sw_dtype dtype)
{
    return dtype == SW_F16 || dtype == SW_BF16 || dtype == SW_F32 || dtype == SW_F64;
}

bool swi_cast_possible(sw_dtype from, sw_dtype to)
{
    return from == to ? sw_dtype_bytes(from) > 0 : is_castable(from) && is_castable(to);
}

typedef struct counts {
    uint64_t overflows;
    uint64_t underflows;
} counts;

/* ---- any to any, by way of float64 bits ------------------------------------------------------ */

#define F64_NAN_QUIET (UINT64_C(1) << 51)
#define F64_INFINITE (UINT64_C(0x7ff) << 52)

static uint64_t widen(uint64_t bits, layout in)
{
    uint32_t m_bits = in.mantissa_bits, e_max = (1U << in.exponent_bits) - 1;
    uint64_t sign = bits >> (in.exponent_bits + m_bits) << 63;
    uint64_t exponent = bits >> m_bits & e_max;
    uint64_t mantissa = (bits & ((UINT64_C(1) << m_bits) - 1)) << (52 - m_bits);
    uint64_t bias = 1023 - e_max / 2;
    if (exponent == e_max)
        return sign | F64_INFINITE | mantissa | (mantissa != 0 ? F64_NAN_QUIET : 0);
    if (exponent != 0)
        return sign | (exponent + bias) << 52 | mantissa;
    if (mantissa == 0)
        return sign;
    /* A denormal: the leading one moves to the place that is not stored. */
    uint32_t shift = (uint32_t)__builtin_clzll(mantissa) - 11;
    mantissa = mantissa << shift & ((UINT64_C(1) << 52) - 1);
    return sign | (bias + 1 - shift) << 52 | mantissa;
}

static uint64_t round_shift(uint64_t v, uint32_t shift)
{
    uint64_t half = UINT64_C(1) << (shift - 1), rest = v & (half * 2 - 1), q = v >> shift;
    return q + (rest > half || (rest == half && (q & 1) != 0));
}

static uint64_t narrow(uint64_t bits, layout out, counts *count)
{
    uint32_t m_bits = out.mantissa_bits, e_max = (1U << out.exponent_bits) - 1;
    uint64_t sign = bits >> 63 << (out.exponent_bits + m_bits);
    uint64_t infinite = (uint64_t)e_max << m_bits;
    uint64_t magnitude = bits & ~(UINT64_C(1) << 63),
             mantissa = magnitude & (F64_NAN_QUIET * 2 - 1);
    if (magnitude > F64_INFINITE)
        return sign | infinite | UINT64_C(1) << (m_bits - 1) | mantissa >> (52 - m_bits);
    if (magnitude == F64_INFINITE || magnitude == 0)
        return sign | (magnitude != 0 ? infinite : 0);
    int64_t exponent = (int64_t)(magnitude >> 52) - 1023 + e_max / 2;
    uint64_t result = 0;
    if (exponent >= (int64_t)e_max) {
        result = infinite;
    } else if (exponent > 0) {
        uint64_t whole = mantissa | UINT64_C(1) << 52;
        result = ((uint64_t)(exponent - 1) << m_bits) + round_shift(whole, 52 - m_bits);
    } else if (magnitude >> 52 != 0 && exponent > -54) {
        uint64_t whole = mantissa | UINT64_C(1) << 52;
        uint32_t shift = 52 - m_bits + (uint32_t)(1 - exponent);
        result = shift < 64 ? round_shift(whole, shift) : 0;
    }
    count->overflows += result == infinite;
    count->underflows += result == 0;
    return sign | result;
}

static uint64_t load_f64(const uint8_t *in, sw_dtype from)
{
    uint16_t half;
    uint32_t word;
    uint64_t whole;
    switch (from) {
    case SW_F16:
        memcpy(&half, in, sizeof half);
        return widen(half, f16_layout);
    case SW_BF16:
        memcpy(&half, in, sizeof half);
        return widen(half, bf16_layout);
    case SW_F32:
        memcpy(&word, in, sizeof word);
        return widen(word, f32_layout);
    default:
        memcpy(&whole, in, sizeof whole);
        return whole;
    }
}

static void store_f64(uint64_t bits, uint8_t *out, sw_dtype to, counts *count)
{
    uint16_t half;
    uint32_t word;
    switch (to) {
    case SW_F16:
    case SW_BF16:
        half = (uint16_t)narrow(bits, to == SW_F16 ? f16_layout : bf16_layout, count);
        memcpy(out, &half, sizeof half);
        break;
    case SW_F32:
        word = (uint32_t)narrow(bits, f32_layout, count);
        memcpy(out, &word, sizeof word);
        break;
    default:
        memcpy(out, &bits, sizeof bits);
        break;
    }
}

static void cast_any(const uint8_t *in, sw_dtype from, uint8_t *out, sw_dtype to, size_t elements,
                     counts *count)
{
    size_t in_bytes = sw_dtype_bytes(from), out_bytes = sw_dtype_bytes(to);
    for (size_t i = 0; i < elements; i++)
        store_f64(load_f64(in + i * in_bytes, from), out + i * out_bytes, to, count);
}

/* ---- the pairs that matter, in blocks that compilers make vectors of ---------------------------
 */

#define BLOCK 16
#define F32_MAGNITUDE UINT32_C(0x7fffffff)
#define F32_INFINITE UINT32_C(0x7f800000)

static void f32_to_bf16_block(const uint32_t in[restrict BLOCK], uint16_t out[restrict BLOCK],
                              counts *count)
{
    uint32_t overflows = 0, underflows = 0;
    for (size_t i = 0; i < BLOCK; i++) {
        uint32_t x = in[i], magnitude = x & F32_MAGNITUDE;
        uint32_t rounded = (x + 0x7fff + (x >> 16 & 1)) >> 16;
        uint32_t r = magnitude > F32_INFINITE ? (x >> 16 | 0x40) : rounded;
        overflows += (magnitude < F32_INFINITE) & ((r & 0x7fff) == 0x7f80);
        underflows += (magnitude != 0) & ((r & 0x7fff) == 0);
        out[i] = (uint16_t)r;
    }
    count->overflows += overflows;
    count->underflows += underflows;
}

static void bf16_to_f32_block(const uint16_t in[restrict BLOCK], uint32_t out[restrict BLOCK])
{
    for (size_t i = 0; i < BLOCK; i++) {
        uint32_t x = (uint32_t)in[i] << 16;
        out[i] = (x & F32_MAGNITUDE) > F32_INFINITE ? x | UINT32_C(0x400000) : x;
    }
}

/* Whole blocks; returns how many elements they were. */
static size_t f32_to_bf16(const uint8_t *in, uint8_t *out, size_t elements, counts *count)
{
    size_t done = 0;
    for (; elements - done >= BLOCK; done += BLOCK) {
        uint32_t from[BLOCK];
        uint16_t to[BLOCK];
        memcpy(from, in + done * sizeof from[0], sizeof from);
        f32_to_bf16_block(from, to, count);
        memcpy(out + done * sizeof to[0], to, sizeof to);
    }
    return done;
}

static size_t bf16_to_f32(const uint8_t *in, uint8_t *out, size_t elements)
{
    size_t done = 0;
    for (; elements - done >= BLOCK; done += BLOCK) {
        uint16_t from[BLOCK];
        uint32_t to[BLOCK];
        memcpy(from, in + done * sizeof from[0], sizeof from);
        bf16_to_f32_block(from, to);
        memcpy(out + done * sizeof to[0], to, sizeof to);
    }
    return done;
}

void swi_cast(const void *in, sw_dtype from, void *out, sw_dtype to, size_t count, sw_tally *tally)
{
    if (from == to) {
        memcpy(out, in, count * sw_dtype_bytes(from));
        return;
    }
    const uint8_t *src = in;
    uint8_t *dst = out;
    counts seen = {0, 0};
    size_t done = 0;
    if (from == SW_F32 && to == SW_BF16)
        done = f32_to_bf16(src, dst, count, &seen);
    else if (from == SW_BF16 && to == SW_F32)
        done = bf16_to_f32(src, dst, count);
    cast_any(src + done * sw_dtype_bytes(from), from, dst + done * sw_dtype_bytes(to), to,
             count - done, &seen);
    tally->cast_elements += count;
    tally->cast_overflows += seen.overflows;
    tally->cast_underflows += seen.underflows;
}
