/*
 * Floating-point numbers as bits, by way of those of float64. All in integers: what the processor's
 * conversions give depends on the rounding and flush-to-zero modes that the calling program may
 * have set. Shared by cast and transform alone.
 */
#ifndef SW_RESHARD_CAST_BITS_H
#define SW_RESHARD_CAST_BITS_H

#include <stdbool.h>
#include <stdint.h>

/* Binary floating point: 1 sign bit, exponent bits, mantissa bits. */
typedef struct swi_float_bits {
    uint32_t exponent_bits;
    uint32_t mantissa_bits;
} swi_float_bits;

static const swi_float_bits swi_f16_bits = {5, 10}, swi_bf16_bits = {8, 7}, swi_f32_bits = {8, 23};

/* Finite numbers that became infinite, and others that became zero. */
typedef struct swi_cast_counts {
    uint64_t overflows;
    uint64_t underflows;
} swi_cast_counts;

#define SWI_F64_QUIET (UINT64_C(1) << 51)
#define SWI_F64_INFINITE (UINT64_C(0x7ff) << 52)

/*
 * (-1)^sign x 1.mantissa x 2^(exponent - bias), or 0.mantissa x 2^(1 - bias) for exponent 0, where
 * `mantissa` has 52 bits.
 */
static inline uint64_t swi_bits_finite(uint64_t sign, uint64_t exponent, uint64_t mantissa,
                                       uint64_t bias)
{
    uint64_t shift_bias = 1023 - bias;
    if (exponent != 0)
        return sign << 63 | (exponent + shift_bias) << 52 | mantissa;
    if (mantissa == 0)
        return sign << 63;
    /* A denormal: the leading one moves to the place that is not stored. */
    uint32_t shift = (uint32_t)__builtin_clzll(mantissa) - 11;
    mantissa = mantissa << shift & ((UINT64_C(1) << 52) - 1);
    return sign << 63 | (shift_bias + 1 - shift) << 52 | mantissa;
}

static inline uint64_t swi_bits_widen(uint64_t bits, swi_float_bits in)
{
    uint32_t m_bits = in.mantissa_bits, e_max = (1U << in.exponent_bits) - 1;
    uint64_t sign = bits >> (in.exponent_bits + m_bits);
    uint64_t exponent = bits >> m_bits & e_max;
    uint64_t mantissa = (bits & ((UINT64_C(1) << m_bits) - 1)) << (52 - m_bits);
    if (exponent == e_max)
        return sign << 63 | SWI_F64_INFINITE | mantissa | (mantissa != 0 ? SWI_F64_QUIET : 0);
    return swi_bits_finite(sign, exponent, mantissa, e_max / 2);
}

static inline uint64_t swi_bits_round(uint64_t v, uint32_t shift)
{
    uint64_t half = UINT64_C(1) << (shift - 1), rest = v & (half * 2 - 1), q = v >> shift;
    return q + (rest > half || (rest == half && (q & 1) != 0));
}

/* Rounds to nearest, ties to even. */
static inline uint64_t swi_bits_narrow(uint64_t bits, swi_float_bits out, swi_cast_counts *count)
{
    uint32_t m_bits = out.mantissa_bits, e_max = (1U << out.exponent_bits) - 1;
    uint64_t sign = bits >> 63 << (out.exponent_bits + m_bits);
    uint64_t infinite = (uint64_t)e_max << m_bits;
    uint64_t magnitude = bits & ~(UINT64_C(1) << 63),
             mantissa = magnitude & (SWI_F64_QUIET * 2 - 1);
    if (magnitude > SWI_F64_INFINITE)
        return sign | infinite | UINT64_C(1) << (m_bits - 1) | mantissa >> (52 - m_bits);
    if (magnitude == SWI_F64_INFINITE || magnitude == 0)
        return sign | (magnitude != 0 ? infinite : 0);
    int64_t exponent = (int64_t)(magnitude >> 52) - 1023 + e_max / 2;
    uint64_t result = 0;
    if (exponent >= (int64_t)e_max) {
        result = infinite;
    } else if (exponent > 0) {
        uint64_t whole = mantissa | UINT64_C(1) << 52;
        result = ((uint64_t)(exponent - 1) << m_bits) + swi_bits_round(whole, 52 - m_bits);
    } else if (magnitude >> 52 != 0 && exponent > -54) {
        uint64_t whole = mantissa | UINT64_C(1) << 52;
        uint32_t shift = 52 - m_bits + (uint32_t)(1 - exponent);
        result = shift < 64 ? swi_bits_round(whole, shift) : 0;
    }
    count->overflows += result == infinite;
    count->underflows += result == 0;
    return sign | result;
}

#endif
