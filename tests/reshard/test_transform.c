/* Elements times factors, against values that follow from the definitions of the types. */
#include "harness/harness.h"

#include <fenv.h>
#include <math.h>
#include <string.h>
#ifdef __SSE__
#include <xmmintrin.h>
#endif

#include "cast.h"
#include "transform.h"

static const sw_dtype elements_of[] = {SW_F8_E4M3FN, SW_F8_E5M2, SW_F8_E4M3FNUZ, SW_F8_E5M2FNUZ,
                                       SW_F16,       SW_BF16,    SW_F32};
static const sw_dtype factors_of[] = {SW_F32,     SW_BF16,        SW_F16,         SW_F8_E8M0FNU,
                                      SW_F8_E5M2, SW_F8_E5M2FNUZ, SW_F8_E4M3FNUZ, SW_F8_E4M3FN};
static const sw_dtype results_of[] = {SW_F32, SW_BF16, SW_F16};

/* A float8 number by its definition: OCP for fn, e5m2 and e8m0fnu, Graphcore and AMD for fnuz. */
static double byte_value(sw_dtype dtype, uint8_t byte)
{
    double sign = byte >> 7 ? -1 : 1;
    int e4 = byte >> 3 & 15, m3 = byte & 7, e5 = byte >> 2 & 31, m2 = byte & 3;
    switch (dtype) {
    case SW_F8_E4M3FN:
        if (e4 == 15 && m3 == 7)
            return NAN;
        return sign * (e4 == 0 ? ldexp(m3, -9) : ldexp(8 + m3, e4 - 10));
    case SW_F8_E4M3FNUZ:
        if (byte == 0x80)
            return NAN;
        return sign * (e4 == 0 ? ldexp(m3, -10) : ldexp(8 + m3, e4 - 11));
    case SW_F8_E5M2:
        if (e5 == 31)
            return m2 == 0 ? sign * INFINITY : NAN;
        return sign * (e5 == 0 ? ldexp(m2, -16) : ldexp(4 + m2, e5 - 17));
    case SW_F8_E5M2FNUZ:
        if (byte == 0x80)
            return NAN;
        return sign * (e5 == 0 ? ldexp(m2, -17) : ldexp(4 + m2, e5 - 18));
    default: /* float8_e8m0fnu */
        return byte == 255 ? NAN : ldexp(1, byte - 127);
    }
}

static double value_at(const void *data, size_t i, sw_dtype dtype)
{
    const uint8_t *at = (const uint8_t *)data + i * sw_dtype_bytes(dtype);
    sw_tally ignored = {0};
    double v;
    if (sw_dtype_bytes(dtype) == 1)
        return byte_value(dtype, *at);
    swi_cast(at, dtype, &v, SW_F64, 1, &ignored);
    return v;
}

/* What is right, and what is to be counted. */
static void check(const swi_scale_in *in, sw_dtype to, size_t count)
{
    static uint8_t out[65536 * 4];
    sw_tally tally = {0}, expected = {.cast_elements = count};
    assert_true(count <= 65536);
    swi_scale(in, out, to, count, &tally);
    for (size_t i = 0; i < count; i++) {
        double a = value_at(in->elements, i, in->from), b = value_at(in->factors, i, in->factor);
        float product = (float)(a * b);
        sw_tally one = {0};
        uint32_t right = 0, got = 0;
        swi_cast(&product, SW_F32, &right, to, 1, &one);
        memcpy(&got, out + i * sw_dtype_bytes(to), sw_dtype_bytes(to));
        double result = value_at(out, i, to);
        if (isnan(product) ? !isnan(result) : got != right)
            fail_msg("%s %a x %s %a in %s: %x, expected %x", sw_dtype_name(in->from), a,
                     sw_dtype_name(in->factor), b, sw_dtype_name(to), got, right);
        expected.cast_overflows += isfinite(a) && isfinite(b) && isinf(result);
        expected.cast_underflows += a != 0 && b != 0 && result == 0;
    }
    assert_int_equal(tally.cast_elements, expected.cast_elements);
    assert_int_equal(tally.cast_overflows, expected.cast_overflows);
    assert_int_equal(tally.cast_underflows, expected.cast_underflows);
}

/* Every float8 number of every type times many factors, in every type of result. */
static void test_every_byte(void **state)
{
    static const float factors[] = {
        1,      -1,       0.3F, -0.0F,           0,     0x1p-100F, 0x1p120F, 1e9F,      448.F,
        1e-40F, INFINITY, NAN,  0x1.fffffep127F, 3e-5F, 7.F,       -1e-3F,   0x1p-149F, -INFINITY};
    (void)state;
    for (size_t t = 0; t < 4; t++) {
        uint8_t bytes[256];
        float same[256];
        for (size_t i = 0; i < 256; i++)
            bytes[i] = (uint8_t)i;
        for (size_t f = 0; f < sizeof factors / sizeof factors[0]; f++) {
            const swi_scale_in in = {bytes, elements_of[t], same, SW_F32};
            for (size_t i = 0; i < 256; i++)
                same[i] = factors[f];
            for (size_t r = 0; r < 3; r++)
                check(&in, results_of[r], 256);
        }
    }
}

/* All pairs of two float8 types. */
static void test_every_pair_of_bytes(void **state)
{
    static uint8_t elements[65536], factors[65536];
    (void)state;
    for (uint32_t i = 0; i < 65536; i++) {
        elements[i] = (uint8_t)i;
        factors[i] = (uint8_t)(i >> 8);
    }
    for (size_t t = 0; t < 4; t++)
        for (size_t f = 3; f < 8; f++)
            for (size_t r = 0; r < 3; r++) {
                const swi_scale_in in = {elements, elements_of[t], factors, factors_of[f]};
                check(&in, results_of[r], 65536);
            }
}

static void test_every_16_bit_element(void **state)
{
    static uint16_t elements[65536];
    static float factors[65536];
    (void)state;
    for (uint32_t i = 0; i < 65536; i++) {
        elements[i] = (uint16_t)i;
        factors[i] = ldexpf(1.F + (float)(i * 2654435761U >> 9) * 0x1p-23F, (int)(i % 61) - 30);
    }
    for (size_t t = 4; t < 6; t++)
        for (size_t r = 0; r < 3; r++) {
            const swi_scale_in in = {elements, elements_of[t], factors, SW_F32};
            check(&in, results_of[r], 65536);
        }
}

/* Any bits of any two types, at any count, at odd addresses. */
static void test_any_bits(void **state)
{
    static uint8_t elements[2100 * 4], factors[2100 * 4];
    harness_prng prng = {.state = 5};
    (void)state;
    for (int round = 0; round < 1500; round++) {
        sw_dtype from = elements_of[harness_random_below(&prng, 7)];
        sw_dtype factor = factors_of[harness_random_below(&prng, 8)];
        sw_dtype to = results_of[harness_random_below(&prng, 3)];
        size_t count = (size_t)harness_random_below(&prng, 2000);
        size_t shift = (size_t)harness_random_below(&prng, 16);
        for (size_t i = 0; i < sizeof elements; i++) {
            elements[i] = (uint8_t)harness_random(&prng);
            factors[i] = (uint8_t)harness_random(&prng);
        }
        assert_true(swi_scale_possible(from, factor, to));
        const swi_scale_in in = {elements + shift, from, factors + shift / 2, factor};
        check(&in, to, count);
    }
}

/* The same bits whatever the caller has told the processor to do with what is not exact. */
static void check_modes(const float *elements, const float *factors, size_t count)
{
    static const int modes[] = {FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO};
    float right[512], out[512];
    sw_tally ignored = {0};
    const swi_scale_in in = {elements, SW_F32, factors, SW_F32};
    check(&in, SW_F32, count);
    swi_scale(&in, right, SW_F32, count, &ignored);
    for (size_t m = 0; m < 3; m++) {
        assert_int_equal(fesetround(modes[m]), 0);
        swi_scale(&in, out, SW_F32, count, &ignored);
        (void)fesetround(FE_TONEAREST);
        assert_memory_equal(out, right, count * sizeof out[0]);
    }
#ifdef __SSE__
    unsigned usual = _mm_getcsr();
    _mm_setcsr(usual | 0x8040); /* denormals, read or made, are zero */
    swi_scale(&in, out, SW_F32, count, &ignored);
    _mm_setcsr(usual);
    assert_memory_equal(out, right, count * sizeof out[0]);
#endif
}

/* Products around one, others that are denormal, and of denormals; nothing is to be counted. */
static void test_rounding_modes(void **state)
{
    harness_prng prng = {.state = 9};
    (void)state;
    for (int range = 0; range < 3; range++) {
        float elements[512], factors[512];
        for (size_t i = 0; i < 512; i++) {
            float a = 1.F + (float)harness_random_below(&prng, 1 << 23) * 0x1p-23F;
            float b = 1.F + (float)harness_random_below(&prng, 1 << 23) * 0x1p-23F;
            elements[i] = range == 0 ? a : range == 1 ? ldexpf(a, -70) : ldexpf(a, -130);
            factors[i] = range == 0 ? -b : range == 1 ? ldexpf(b, -60) : ldexpf(-b, 40);
        }
        check_modes(elements, factors, 512);
    }
}

static void test_what_can_be_scaled(void **state)
{
    (void)state;
    assert_true(swi_scale_possible(SW_F8_E4M3FN, SW_F8_E8M0FNU, SW_BF16));
    assert_false(swi_scale_possible(SW_F8_E8M0FNU, SW_F32, SW_BF16));
    assert_false(swi_scale_possible(SW_F64, SW_F32, SW_F32));
    assert_false(swi_scale_possible(SW_F32, SW_F64, SW_F32));
    assert_false(swi_scale_possible(SW_I8, SW_F32, SW_F32));
    assert_false(swi_scale_possible(SW_F8_E4M3FN, SW_F32, SW_F64));
    assert_false(swi_scale_possible(SW_F8_E4M3FN, SW_F32, SW_F8_E4M3FN));
    assert_false(swi_scale_possible(SW_F4_E2M1FN_X2, SW_F32, SW_BF16));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_byte),           cmocka_unit_test(test_every_pair_of_bytes),
        cmocka_unit_test(test_every_16_bit_element), cmocka_unit_test(test_any_bits),
        cmocka_unit_test(test_rounding_modes),       cmocka_unit_test(test_what_can_be_scaled),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
