#include "transform.h"

#include <string.h>

#include "cast.h"
#include "cast_bits.h"

/*
 * In float64 every product of two of these types is exact, and normal or zero: what modes the
 * calling program has set does not matter to it. Only the roundings are done in integers.
 */

/* Elements that are worked on at a time: a multiple of what a block of vectors takes. */
#define CHUNK ((size_t)512)

static bool is_byte(sw_dtype dtype)
{
    return dtype == SW_F8_E4M3FN || dtype == SW_F8_E5M2 || dtype == SW_F8_E4M3FNUZ ||
           dtype == SW_F8_E5M2FNUZ;
}

static bool is_wide(sw_dtype dtype)
{
    return dtype == SW_F16 || dtype == SW_BF16 || dtype == SW_F32;
}

bool swi_scale_possible(sw_dtype from, sw_dtype factor, sw_dtype to)
{
    return (is_byte(from) || is_wide(from)) &&
           (is_byte(factor) || is_wide(factor) || factor == SW_F8_E8M0FNU) && is_wide(to);
}

/* ---- to float64 ----------------------------------------------------------------------------- */

static double number(uint64_t bits)
{
    double v;
    memcpy(&v, &bits, sizeof v);
    return v;
}

static uint64_t bits_of(double v)
{
    uint64_t bits;
    memcpy(&bits, &v, sizeof bits);
    return bits;
}

static uint64_t quiet_nan(uint64_t sign)
{
    return sign << 63 | SWI_F64_INFINITE | SWI_F64_QUIET;
}

/* The finite numbers of a float8 type, and its one zero of each sign. */
static uint64_t byte_number(uint64_t byte, uint32_t mantissa_bits, uint64_t bias)
{
    uint64_t mantissa = (byte & ((1U << mantissa_bits) - 1)) << (52 - mantissa_bits);
    return swi_bits_finite(byte >> 7, (byte & 0x7f) >> mantissa_bits, mantissa, bias);
}

static uint64_t byte_bits(uint8_t byte, sw_dtype dtype)
{
    switch (dtype) {
    case SW_F8_E4M3FN: /* no infinities: all ones is NaN */
        return (byte & 0x7f) == 0x7f ? quiet_nan(byte >> 7) : byte_number(byte, 3, 7);
    case SW_F8_E5M2: /* as float16 cut to a byte */
        return swi_bits_widen(byte, (swi_float_bits){5, 2});
    case SW_F8_E4M3FNUZ: /* what would be the negative zero is NaN */
        return byte == 0x80 ? quiet_nan(1) : byte_number(byte, 3, 8);
    case SW_F8_E5M2FNUZ:
        return byte == 0x80 ? quiet_nan(1) : byte_number(byte, 2, 16);
    default: /* float8_e8m0fnu: an exponent alone */
        return byte == 0xff ? quiet_nan(0) : ((uint64_t)byte + 1023 - 127) << 52;
    }
}

/* What turns elements of one type into float64. */
typedef struct decoder {
    sw_dtype dtype;
    double of_byte[256];
} decoder;

static void decoder_begin(decoder *d, sw_dtype dtype)
{
    d->dtype = dtype;
    for (uint32_t byte = 0; sw_dtype_bytes(dtype) == 1 && byte < 256; byte++)
        d->of_byte[byte] = number(byte_bits((uint8_t)byte, dtype));
}

static double from_f32(uint32_t bits)
{
    uint32_t exponent = bits >> 23 & 0xff;
    if (exponent - 1 < 0xfe) /* neither zero nor denormal, infinite or NaN */
        return number((uint64_t)(bits >> 31) << 63 |
                      (((uint64_t)(bits & 0x7fffffff) << 29) + (UINT64_C(896) << 52)));
    return number(swi_bits_widen(bits, swi_f32_bits));
}

static void decode(const decoder *d, const uint8_t *in, double *restrict out, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        uint16_t half;
        uint32_t word;
        switch (d->dtype) {
        case SW_F32:
            memcpy(&word, in + i * sizeof word, sizeof word);
            out[i] = from_f32(word);
            break;
        case SW_BF16:
            memcpy(&half, in + i * sizeof half, sizeof half);
            out[i] = from_f32((uint32_t)half << 16);
            break;
        case SW_F16:
            memcpy(&half, in + i * sizeof half, sizeof half);
            out[i] = number(swi_bits_widen(half, swi_f16_bits));
            break;
        default:
            out[i] = d->of_byte[in[i]];
            break;
        }
    }
}

/* ---- the product, in float32 ---------------------------------------------------------------- */

#define F64_MAGNITUDE (~(UINT64_C(1) << 63))
/* The smallest normal float32, and what surely rounds to a finite one. */
#define F32_SMALLEST (UINT64_C(897) << 52)
#define F32_SAFE (UINT64_C(1150) << 52)

static uint32_t any_product(double a, double b, swi_cast_counts *count)
{
    uint64_t x = bits_of(a), y = bits_of(b);
    uint64_t x_magnitude = x & F64_MAGNITUDE, y_magnitude = y & F64_MAGNITUDE;
    uint64_t product;
    if (x_magnitude > SWI_F64_INFINITE)
        product = x;
    else if (y_magnitude > SWI_F64_INFINITE)
        product = y;
    else if ((x_magnitude == SWI_F64_INFINITE && y_magnitude == 0) ||
             (y_magnitude == SWI_F64_INFINITE && x_magnitude == 0))
        product = quiet_nan(0);
    else
        product = bits_of(a * b);
    return (uint32_t)swi_bits_narrow(product, swi_f32_bits, count);
}

/* Zeros and numbers that are normal in float32 too; *odd: there were others. */
static uint32_t usual_product(double a, double b, uint32_t *odd)
{
    uint64_t product = bits_of(a * b), magnitude = product & F64_MAGNITUDE;
    uint32_t sign = (uint32_t)(product >> 63) << 31;
    uint32_t rounded = (uint32_t)((magnitude + 0x0fffffff + (magnitude >> 29 & 1)) >> 29);
    bool usual = magnitude - F32_SMALLEST < F32_SAFE - F32_SMALLEST;
    *odd |= !usual & (magnitude != 0);
    return sign | (usual ? rounded - (UINT32_C(896) << 23) : 0);
}

static void multiply(const double *restrict a, const double *restrict b, uint32_t *restrict out,
                     size_t count, swi_cast_counts *seen)
{
    uint32_t odd = 0;
    for (size_t i = 0; i < count; i++)
        out[i] = usual_product(a[i], b[i], &odd);
    for (size_t i = 0; odd != 0 && i < count; i++)
        out[i] = any_product(a[i], b[i], seen);
}

void swi_scale(const swi_scale_in *in, void *out, sw_dtype to, size_t count, sw_tally *tally)
{
    const uint8_t *elements = in->elements, *factors = in->factors;
    size_t element_bytes = sw_dtype_bytes(in->from), factor_bytes = sw_dtype_bytes(in->factor);
    size_t out_bytes = sw_dtype_bytes(to);
    uint8_t *result = out;
    decoder element, factor;
    swi_cast_counts seen = {0, 0};
    sw_tally casts = {0};
    decoder_begin(&element, in->from);
    decoder_begin(&factor, in->factor);
    for (size_t done = 0, n; done < count; done += n) {
        double a[CHUNK], b[CHUNK];
        uint32_t products[CHUNK];
        n = count - done < CHUNK ? count - done : CHUNK;
        decode(&element, elements + done * element_bytes, a, n);
        decode(&factor, factors + done * factor_bytes, b, n);
        multiply(a, b, products, n, &seen);
        swi_cast(products, SW_F32, result + done * out_bytes, to, n, &casts);
    }
    tally->cast_elements += count;
    tally->cast_overflows += seen.overflows + casts.cast_overflows;
    tally->cast_underflows += seen.underflows + casts.cast_underflows;
}
