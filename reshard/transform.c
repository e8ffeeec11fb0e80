#include "transform.h"

#include <string.h>

#include "cast.h"
#include "cast_bits.h"

/*
 * Where the processor rounds as it does by default, which is tried, its float32 product is right
 * unless something is to be counted or is NaN. All else goes by way of float64, in
 * which every product of two of these types is exact, and normal or zero, so that modes which the
 * calling program has set do not matter: only the rounding is left, which is done in integers.
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

/* ---- to float32, which holds all of these ---------------------------------------------------- */

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

/* What turns elements of one type into bits of float32. */
typedef struct decoder {
    sw_dtype dtype;
    uint32_t of_byte[256];
} decoder;

static void decoder_begin(decoder *d, sw_dtype dtype)
{
    swi_cast_counts none = {0, 0};
    d->dtype = dtype;
    for (uint32_t byte = 0; sw_dtype_bytes(dtype) == 1 && byte < 256; byte++)
        d->of_byte[byte] =
            (uint32_t)swi_bits_narrow(byte_bits((uint8_t)byte, dtype), swi_f32_bits, &none);
}

static void decode(const decoder *d, const uint8_t *in, uint32_t *restrict out, size_t count)
{
    sw_tally ignored = {0};
    if (sw_dtype_bytes(d->dtype) == 1)
        for (size_t i = 0; i < count; i++)
            out[i] = d->of_byte[in[i]];
    else
        swi_cast(in, d->dtype, out, SW_F32, count, &ignored);
}

/* ---- the product, in float32 ---------------------------------------------------------------- */

#define F32_MAGNITUDE UINT32_C(0x7fffffff)
#define F32_INFINITE UINT32_C(0x7f800000)

static double as_double(uint64_t bits)
{
    double v;
    memcpy(&v, &bits, sizeof v);
    return v;
}

static uint32_t any_product(uint32_t a, uint32_t b, swi_cast_counts *count)
{
    uint64_t x = swi_bits_widen(a, swi_f32_bits), y = swi_bits_widen(b, swi_f32_bits), product;
    uint32_t a_magnitude = a & F32_MAGNITUDE, b_magnitude = b & F32_MAGNITUDE;
    if (a_magnitude > F32_INFINITE) {
        product = x;
    } else if (b_magnitude > F32_INFINITE) {
        product = y;
    } else if ((a_magnitude == F32_INFINITE && b_magnitude == 0) ||
               (b_magnitude == F32_INFINITE && a_magnitude == 0)) {
        product = quiet_nan(0);
    } else {
        double exact = as_double(x) * as_double(y);
        memcpy(&product, &exact, sizeof product);
    }
    return (uint32_t)swi_bits_narrow(product, swi_f32_bits, count);
}

/* Whether float32 is rounded to nearest, ties to even. */
static bool rounds_as_usual(void)
{
    volatile float one = 1, tie = 0x1p-24F, more = 0x1.8p-24F;
    volatile float kept = one + tie, up = one + more, down = -one - more;
    return kept == 1 && up == 1 + 0x1p-23F && down == -1 - 0x1p-23F;
}

/*
 * False: there is something to be counted, or NaN, or denormals are not kept, which makes zeros of
 * what is none.
 */
static bool usual_products(const uint32_t *restrict a, const uint32_t *restrict b,
                           uint32_t *restrict out, size_t count)
{
    uint32_t odd = 0;
    for (size_t i = 0; i < count; i++) {
        float x, y, product;
        memcpy(&x, &a[i], sizeof x);
        memcpy(&y, &b[i], sizeof y);
        product = x * y;
        memcpy(&out[i], &product, sizeof out[i]);
        uint32_t magnitude = out[i] & F32_MAGNITUDE;
        uint32_t vanished =
            (magnitude == 0) & ((a[i] & F32_MAGNITUDE) != 0) & ((b[i] & F32_MAGNITUDE) != 0);
        odd |= (magnitude >= F32_INFINITE) | vanished;
    }
    return odd == 0;
}

void swi_scale(const swi_scale_in *in, void *out, sw_dtype to, size_t count, sw_tally *tally)
{
    const uint8_t *elements = in->elements, *factors = in->factors;
    size_t element_bytes = sw_dtype_bytes(in->from), factor_bytes = sw_dtype_bytes(in->factor);
    size_t out_bytes = sw_dtype_bytes(to);
    uint8_t *result = out;
    bool usual = rounds_as_usual();
    decoder element, factor;
    swi_cast_counts seen = {0, 0};
    sw_tally casts = {0};
    decoder_begin(&element, in->from);
    decoder_begin(&factor, in->factor);
    for (size_t done = 0, n; done < count; done += n) {
        uint32_t a[CHUNK], b[CHUNK], products[CHUNK];
        n = count - done < CHUNK ? count - done : CHUNK;
        decode(&element, elements + done * element_bytes, a, n);
        decode(&factor, factors + done * factor_bytes, b, n);
        if (!usual || !usual_products(a, b, products, n))
            for (size_t i = 0; i < n; i++)
                products[i] = any_product(a[i], b[i], &seen);
        swi_cast(products, SW_F32, result + done * out_bytes, to, n, &casts);
    }
    tally->cast_elements += count;
    tally->cast_overflows += seen.overflows + casts.cast_overflows;
    tally->cast_underflows += seen.underflows + casts.cast_underflows;
}
