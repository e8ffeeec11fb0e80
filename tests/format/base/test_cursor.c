/* The cursor and the arithmetic that guard every foreign number: all or nothing. */
#include "harness/harness.h"

#include <string.h>

#include "base/checked.h"
#include "base/cursor.h"

static void test_all_or_nothing(void **state)
{
    (void)state;
    const uint8_t data[] = {1, 2, 3, 4, 5, 6, 7};
    swi_cursor c = swi_cursor_make(data, sizeof data);
    uint64_t v64 = 42;
    uint32_t v32;
    uint16_t v16;
    uint8_t v8;
    const uint8_t *p = NULL;
    swi_cursor sub;
    assert_false(swi_get_u64le(&c, &v64));
    assert_int_equal(v64, 42);
    assert_int_equal(c.pos, 0);
    assert_true(swi_get_u32le(&c, &v32));
    assert_int_equal(v32, 0x04030201);
    assert_false(swi_get_bytes(&c, 4, &p));
    assert_false(swi_get_bytes(&c, SIZE_MAX, &p));
    assert_false(swi_get_sub(&c, 4, &sub));
    assert_null(p);
    assert_true(swi_get_u16le(&c, &v16));
    assert_int_equal(v16, 0x0605);
    assert_true(swi_peek_u8(&c, &v8) && v8 == 7);
    assert_true(swi_get_u8(&c, &v8) && v8 == 7);
    assert_false(swi_get_u8(&c, &v8));
    assert_false(swi_peek_u8(&c, &v8));
    assert_false(swi_skip(&c, 1));
    assert_false(swi_seek(&c, 8));
    assert_int_equal(c.pos, 7);
    assert_true(swi_seek(&c, 0) && swi_skip(&c, 7));
    assert_int_equal(swi_cursor_left(&c), 0);
}

static void test_numbers_and_lines(void **state)
{
    (void)state;
    swi_cursor c = swi_cursor_make("\xff\xfe\xfd\xfc\xfb\xfa\xf9\xf8"
                                   "\x80\0\0\0\0\0\0\x01"
                                   "one\n\ncut",
                                   24);
    uint64_t v;
    const uint8_t *line;
    size_t size;
    assert_true(swi_get_u64le(&c, &v));
    assert_true(v == 0xf8f9fafbfcfdfeffU);
    assert_true(swi_get_u64be(&c, &v));
    assert_true(v == 0x8000000000000001U);
    assert_true(swi_get_line(&c, &line, &size));
    assert_int_equal(size, 3);
    assert_memory_equal(line, "one", 3);
    assert_true(swi_get_line(&c, &line, &size));
    assert_int_equal(size, 0);
    assert_false(swi_get_line(&c, &line, &size));
    assert_int_equal(swi_cursor_left(&c), 3);
    swi_cursor empty = swi_cursor_make(NULL, 0);
    assert_false(swi_get_line(&empty, &line, &size));
}

static void test_checked(void **state)
{
    (void)state;
    uint64_t u = 7;
    int64_t i = 7;
    size_t s = 7;
    assert_false(swi_add_u64(UINT64_MAX, 1, &u));
    assert_false(swi_sub_u64(1, 2, &u));
    assert_false(swi_mul_u64(UINT64_MAX / 2 + 1, 2, &u));
    assert_false(swi_add_i64(INT64_MAX, 1, &i));
    assert_false(swi_mul_i64(INT64_MIN, -1, &i));
    assert_false(swi_mul_size(SIZE_MAX / 2 + 1, 2, &s));
    assert_false(swi_u64_to_i64((uint64_t)INT64_MAX + 1, &i));
    assert_int_equal(u, 7);
    assert_int_equal(i, 7);
    assert_int_equal(s, 7);
    assert_true(swi_sub_u64(5, 5, &u) && u == 0);
    assert_true(swi_u64_to_i64(INT64_MAX, &i) && i == INT64_MAX);
    assert_true(swi_range_inside(10, 0, 10));
    assert_true(swi_range_inside(4, 6, 10));
    assert_false(swi_range_inside(4, 7, 10));
    assert_false(swi_range_inside(11, 0, 10));
    assert_false(swi_range_inside(2, UINT64_MAX, 10));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_or_nothing),
        cmocka_unit_test(test_numbers_and_lines),
        cmocka_unit_test(test_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
