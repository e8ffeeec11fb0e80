#include "element.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

static uint64_t load(const uint8_t *p, uint32_t size)
{
    uint64_t v = 0;
    for (uint32_t i = size; i > 0; i--)
        v = v << 8 | p[i - 1];
    return v;
}

static double half_value(uint16_t h)
{
    int exponent = h >> 10 & 31, mantissa = h & 1023;
    double v = exponent == 0    ? ldexp(mantissa, -24)
               : exponent == 31 ? (mantissa ? (double)NAN : (double)INFINITY)
                                : ldexp(mantissa + 1024, exponent - 25);
    return h & 0x8000 ? -v : v;
}

static float bits_to_float(uint32_t bits)
{
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

/* Whether all bits of the exponent are set: an infinity or no number. */
static bool is_finite(sw_dtype dtype, const uint8_t *p)
{
    uint64_t bits = load(p, sw_dtype_bytes(dtype));
    uint64_t exponent = dtype == SW_F16    ? UINT64_C(0x7c00)
                        : dtype == SW_BF16 ? UINT64_C(0x7f80)
                        : dtype == SW_F32  ? UINT64_C(0x7f800000)
                                           : UINT64_C(0x7ff0000000000000);
    return (bits & exponent) != exponent;
}

static void print_float(FILE *to, sw_dtype dtype, const uint8_t *p)
{
    uint64_t bits = load(p, sw_dtype_bytes(dtype));
    double d;
    switch (dtype) {
    case SW_F16:
        fprintf(to, "%.5g", half_value((uint16_t)bits));
        break;
    case SW_BF16:
        fprintf(to, "%.4g", (double)bits_to_float((uint32_t)bits << 16));
        break;
    case SW_F32:
        fprintf(to, "%.9g", (double)bits_to_float((uint32_t)bits));
        break;
    default:
        memcpy(&d, &bits, sizeof d);
        fprintf(to, "%.17g", d);
        break;
    }
}

static void print_pair(FILE *to, sw_dtype half, const uint8_t *p)
{
    fputc('(', to);
    print_float(to, half, p);
    fputc(',', to);
    print_float(to, half, p + sw_dtype_bytes(half));
    fputc(')', to);
}

static void print_signed(FILE *to, const uint8_t *p, uint32_t size)
{
    unsigned shift = 64 - 8 * size;
    fprintf(to, "%" PRId64, (int64_t)(load(p, size) << shift) >> shift);
}

void print_element(FILE *to, sw_dtype dtype, const uint8_t *data)
{
    uint32_t size = sw_dtype_bytes(dtype);
    switch (dtype) {
    case SW_BOOL:
        fputs(data[0] ? "True" : "False", to);
        break;
    case SW_U8:
    case SW_U16:
    case SW_U32:
    case SW_U64:
        fprintf(to, "%" PRIu64, load(data, size));
        break;
    case SW_I8:
    case SW_I16:
    case SW_I32:
    case SW_I64:
        print_signed(to, data, size);
        break;
    case SW_F16:
    case SW_BF16:
    case SW_F32:
    case SW_F64:
        print_float(to, dtype, data);
        break;
    case SW_C32:
        print_pair(to, SW_F16, data);
        break;
    case SW_C64:
        print_pair(to, SW_F32, data);
        break;
    case SW_C128:
        print_pair(to, SW_F64, data);
        break;
    default:
        fprintf(to, "0x%0*" PRIx64, (int)(2 * size), load(data, size));
        break;
    }
}

void print_json_element(FILE *to, sw_dtype dtype, const uint8_t *data)
{
    bool bare = false;
    switch (dtype) {
    case SW_BOOL:
        fputs(data[0] ? "true" : "false", to);
        return;
    case SW_U8:
    case SW_I8:
    case SW_U16:
    case SW_I16:
    case SW_U32:
    case SW_I32:
    case SW_U64:
    case SW_I64:
        bare = true;
        break;
    case SW_F16:
    case SW_BF16:
    case SW_F32:
    case SW_F64:
        bare = is_finite(dtype, data);
        break;
    default:
        break;
    }
    if (!bare)
        fputc('"', to);
    print_element(to, dtype, data);
    if (!bare)
        fputc('"', to);
}
