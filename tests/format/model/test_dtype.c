#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "model/dtype.h"

static void test_every_name_comes_back(void **state)
{
    (void)state;
    for (int i = SW_DTYPE_NONE + 1; i < SW_DTYPE_COUNT; i++) {
        const char *name = sw_dtype_name((sw_dtype)i);
        assert_non_null(name);
        assert_int_equal(sw_dtype_from_name(name), i);
        uint32_t bytes = sw_dtype_bytes((sw_dtype)i);
        uint32_t unit = sw_dtype_swap_bytes((sw_dtype)i);
        assert_true(bytes >= 1 && bytes <= 16);
        assert_true(unit >= 1 && bytes % unit == 0);
    }
    assert_string_equal(sw_dtype_name(SW_DTYPE_NONE), "none");
    assert_int_equal(sw_dtype_bytes(SW_DTYPE_NONE), 0);
    assert_int_equal(sw_dtype_bytes((sw_dtype)99), 0);
    assert_string_equal(sw_dtype_name((sw_dtype)99), "none");
}

static void test_aliases(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        sw_dtype dtype;
    } cases[] = {
        {"f32", SW_F32},
        {"F32", SW_F32},
        {"float", SW_F32},
        {"torch.float32", SW_F32},
        {"double", SW_F64},
        {"half", SW_F16},
        {"bf16", SW_BF16},
        {"BF16", SW_BF16},
        {"BFloat16", SW_BF16},
        {"long", SW_I64},
        {"int", SW_I32},
        {"short", SW_I16},
        {"byte", SW_U8},
        {"char", SW_I8},
        {"F8_E4M3", SW_F8_E4M3FN},
        {"F8_E5M2", SW_F8_E5M2},
        {"F8_E8M0", SW_F8_E8M0FNU},
        {"C64", SW_C64},
        {"quint8", SW_BITS8},
        {"none", SW_DTYPE_NONE},
        {"", SW_DTYPE_NONE},
        {"torch.", SW_DTYPE_NONE},
        {"float3", SW_DTYPE_NONE},
        {"qint32", SW_DTYPE_NONE},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_int_equal(sw_dtype_from_name(cases[i].name), cases[i].dtype);
    assert_int_equal(sw_dtype_from_name(NULL), SW_DTYPE_NONE);
}

static void test_floats(void **state)
{
    (void)state;
    assert_true(sw_dtype_is_float(SW_BF16));
    assert_true(sw_dtype_is_float(SW_F8_E5M2FNUZ));
    assert_false(sw_dtype_is_float(SW_C64));
    assert_false(sw_dtype_is_float(SW_BOOL));
    assert_false(sw_dtype_is_float(SW_BITS16));
}

static void test_swap(void **state)
{
    (void)state;
    static const uint8_t in[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    for (int i = SW_DTYPE_NONE + 1; i < SW_DTYPE_COUNT; i++) {
        uint8_t data[17] = {0};
        size_t unit = sw_dtype_swap_bytes((sw_dtype)i);
        memcpy(data + 1, in, sizeof in); /* not aligned */
        swi_swap_elements(data + 1, sizeof in, (sw_dtype)i);
        for (size_t k = 0; k < sizeof in; k++)
            assert_int_equal(data[1 + k], in[k / unit * unit + (unit - 1 - k % unit)]);
        swi_swap_elements(data + 1, sizeof in, (sw_dtype)i);
        assert_memory_equal(data + 1, in, sizeof in);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_name_comes_back),
        cmocka_unit_test(test_aliases),
        cmocka_unit_test(test_floats),
        cmocka_unit_test(test_swap),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
