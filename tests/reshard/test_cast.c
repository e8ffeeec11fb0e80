/* Casts against a reference that works on values, not on bits: nearest by distance, ties to even.
 */
#include "harness/harness.h"

#include <math.h>
#include <string.h>

#include "cast.h"

typedef struct format {
    sw_dtype dtype;
    int exponent_bits;
    int mantissa_bits;
} format;

static const format formats[] = {
    {SW_F16, 5, 10}, {SW_BF16, 8, 7}, {SW_F32, 8, 23}, {SW_F64, 11, 52}};

/* The value of a pattern, by the definition of the format. */
static double value_of(uint64_t bits, const format *f)
{
    uint64_t mantissa = bits & ((UINT64_C(1) << f->mantissa_bits) - 1);
    int exponent = (int)(bits >> f->mantissa_bits & ((UINT64_C(1) << f->exponent_bits) - 1));
    int e_max = (1 << f->exponent_bits) - 1, bias = e_max / 2;
    double sign = bits >> (f->mantissa_bits + f->exponent_bits) & 1 ? -1.0 : 1.0;
    if (exponent == e_max)
        return mantissa != 0 ? NAN : sign * INFINITY;
    if (exponent == 0)
        return sign * ldexp((double)mantissa, 1 - bias - f->mantissa_bits);
    return sign * ldexp((double)(mantissa | UINT64_C(1) << f->mantissa_bits),
                        exponent - bias - f->mantissa_bits);
}

/* The magnitude pattern nearest to |v|, by bisection over the ordered patterns. */
static uint64_t nearest(double v, const format *f)
{
    uint64_t infinite = ((UINT64_C(1) << f->exponent_bits) - 1) << f->mantissa_bits;
    uint64_t lo = 0, hi = infinite;
    v = fabs(v);
    if (isinf(v))
        return infinite;
    while (hi - lo > 1) {
        uint64_t mid = lo + (hi - lo) / 2;
        if (value_of(mid, f) <= v)
            lo = mid;
        else
            hi = mid;
    }
    double below = value_of(lo, f);
    /* Infinity stands where the next number would be. */
    double above = hi == infinite ? below + (below - value_of(lo - 1, f)) : value_of(hi, f);
    double down = v - below, up = above - v;
    if (down != up)
        return down < up ? lo : hi;
    return lo & 1 ? hi : lo;
}

static uint64_t get(const void *data, size_t i, sw_dtype dtype)
{
    uint64_t bits = 0;
    memcpy(&bits, (const uint8_t *)data + i * sw_dtype_bytes(dtype), sw_dtype_bytes(dtype));
    return bits;
}

static void check_one(uint64_t in, uint64_t out, const format *from, const format *to,
                      sw_tally *expected)
{
    uint64_t sign_in = in >> (sw_dtype_bytes(from->dtype) * 8 - 1);
    uint64_t sign_out = out >> (sw_dtype_bytes(to->dtype) * 8 - 1);
    uint64_t magnitude = out & ~(UINT64_C(1) << (sw_dtype_bytes(to->dtype) * 8 - 1));
    uint64_t infinite = ((UINT64_C(1) << to->exponent_bits) - 1) << to->mantissa_bits;
    double v = value_of(in, from);
    assert_int_equal(sign_in, sign_out);
    expected->cast_elements++;
    if (isnan(v)) {
        assert_true(magnitude > infinite);
        assert_true(magnitude >> (to->mantissa_bits - 1) & 1);
        return;
    }
    if (magnitude != nearest(v, to))
        fail_msg("%s %llx to %s: %llx, expected %llx", sw_dtype_name(from->dtype),
                 (unsigned long long)in, sw_dtype_name(to->dtype), (unsigned long long)magnitude,
                 (unsigned long long)nearest(v, to));
    expected->cast_overflows += !isinf(v) && magnitude == infinite;
    expected->cast_underflows += v != 0 && magnitude == 0;
}

static void check_all(const void *in, size_t count, const format *from, const format *to)
{
    static uint8_t out[65536 * 8];
    sw_tally tally = {0}, expected = {0};
    assert_true(count <= 65536);
    swi_cast(in, from->dtype, out, to->dtype, count, &tally);
    for (size_t i = 0; i < count; i++)
        check_one(get(in, i, from->dtype), get(out, i, to->dtype), from, to, &expected);
    assert_int_equal(tally.cast_elements, expected.cast_elements);
    assert_int_equal(tally.cast_overflows, expected.cast_overflows);
    assert_int_equal(tally.cast_underflows, expected.cast_underflows);
}

static void test_every_16_bit_input(void **state)
{
    static uint16_t in[65536];
    (void)state;
    for (uint32_t i = 0; i < 65536; i++)
        in[i] = (uint16_t)i;
    for (size_t from = 0; from < 2; from++)
        for (size_t to = 0; to < 4; to++)
            if (from != to)
                check_all(in, 65536, &formats[from], &formats[to]);
}

/* The border between two numbers of `to`, and its neighbours, as patterns of `from`. */
static size_t add_borders(uint8_t *in, const format *from, const format *to, harness_prng *prng,
                          size_t count)
{
    size_t bytes = sw_dtype_bytes(from->dtype), n = 0;
    uint64_t infinite = ((UINT64_C(1) << to->exponent_bits) - 1) << to->mantissa_bits;
    while (n + 3 <= count) {
        uint64_t pick = harness_random_below(prng, 4) != 0 ? harness_random_below(prng, infinite)
                        : harness_random(prng) & 1         ? infinite - 1
                                                           : harness_random_below(prng, 4);
        double below = value_of(pick, to), above = value_of(pick + 1, to);
        if (isinf(above))
            above = below + (below - value_of(pick - 1, to));
        uint64_t middle = nearest(below / 2 + above / 2, from);
        for (uint64_t k = 0; k < 3; k++, n++) {
            uint64_t bits = middle + k - (middle > 0);
            bits |= (harness_random(prng) & 1) << (bytes * 8 - 1);
            memcpy(in + n * bytes, &bits, bytes);
        }
    }
    return n;
}

static void test_wide_inputs(void **state)
{
    static uint8_t in[60000 * 8];
    harness_prng prng = {.state = 5};
    (void)state;
    for (size_t from = 2; from < 4; from++) {
        for (size_t to = 0; to < 4; to++) {
            if (from == to)
                continue;
            harness_random_fill(&prng, in, sizeof in);
            check_all(in, 20000, &formats[from], &formats[to]);
            size_t n = add_borders(in, &formats[from], &formats[to], &prng, 30000);
            check_all(in, n, &formats[from], &formats[to]);
        }
    }
}

static void test_special_values(void **state)
{
    (void)state;
    const uint32_t in[] = {0,          0x80000000, 0x7f800000, 0xff800000, 0x7f800001, 0xffc00000,
                           0x7f7fffff, 0x00000001, 0x00007fff, 0x00008000, 0x00008001, 0x3f808000,
                           0x3f818000, 0x3f7fffff, 0x47800000, 0x477fefff, 0x477ff000, 0x33000000};
    const uint16_t expected[] = {0, 0x8000, 0x7f80, 0xff80, 0x7fc0, 0xffc0, 0x7f80, 0,      0,
                                 0, 1,      0x3f80, 0x3f82, 0x3f80, 0x4780, 0x4780, 0x4780, 0x3300};
    uint16_t out[18];
    sw_tally tally = {0};
    swi_cast(in, SW_F32, out, SW_BF16, 18, &tally);
    for (size_t i = 0; i < 18; i++)
        assert_int_equal(out[i], expected[i]);
    assert_int_equal(tally.cast_elements, 18);
    assert_int_equal(tally.cast_overflows, 1);
    assert_int_equal(tally.cast_underflows, 3);
}

/* Any count: blocks and what is left over, at any alignment. */
static void test_any_count_and_alignment(void **state)
{
    uint8_t in[200], out[200], one[8];
    harness_prng prng = {.state = 9};
    (void)state;
    harness_random_fill(&prng, in, sizeof in);
    for (size_t shift = 0; shift < 3; shift++) {
        for (size_t count = 0; count <= 40; count++) {
            sw_tally tally = {0};
            memset(out, 0xee, sizeof out);
            swi_cast(in + shift, SW_F32, out + shift, SW_BF16, count, &tally);
            for (size_t i = 0; i < count; i++) {
                swi_cast(in + shift + 4 * i, SW_F32, one, SW_BF16, 1, &tally);
                assert_memory_equal(out + shift + 2 * i, one, 2);
            }
            assert_int_equal(out[shift + 2 * count], 0xee);
        }
    }
}

static void test_what_can_be_cast(void **state)
{
    (void)state;
    assert_true(swi_cast_possible(SW_F32, SW_BF16));
    assert_true(swi_cast_possible(SW_I64, SW_I64));
    assert_false(swi_cast_possible(SW_I64, SW_F32));
    assert_false(swi_cast_possible(SW_F32, SW_F8_E4M3FN));
    assert_false(swi_cast_possible(SW_DTYPE_NONE, SW_DTYPE_NONE));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_16_bit_input), cmocka_unit_test(test_wide_inputs),
        cmocka_unit_test(test_special_values),     cmocka_unit_test(test_any_count_and_alignment),
        cmocka_unit_test(test_what_can_be_cast),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
