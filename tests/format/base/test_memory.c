/* Buffers, arenas and growing arrays: contents, alignment, and nothing lost when there is no room.
 */
#include "harness/harness.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/buf.h"

static void test_buf_appends(void **state)
{
    (void)state;
    sw_error err = {0};
    swi_buf buf = {0};
    assert_ok(swi_buf_append(&buf, NULL, 0, &err), &err);
    assert_null(buf.data);
    assert_ok(swi_buf_append(&buf, "ab", 2, &err), &err);
    assert_ok(swi_buf_append_str(&buf, "c", &err), &err);
    assert_ok(swi_buf_printf(&buf, &err, "%d-%s", 12, "x"), &err);
    assert_ok(swi_buf_fill(&buf, 0xee, 3, &err), &err);
    assert_ok(swi_buf_u8(&buf, 1, &err), &err);
    assert_ok(swi_buf_u16le(&buf, 0x0203, &err), &err);
    assert_ok(swi_buf_u32le(&buf, 0x04050607, &err), &err);
    assert_ok(swi_buf_u64le(&buf, 0x08090a0b0c0d0e0f, &err), &err);
    static const char want[] = "abc12-x\xee\xee\xee\x01\x03\x02\x07\x06\x05\x04"
                               "\x0f\x0e\x0d\x0c\x0b\x0a\x09\x08";
    assert_int_equal(buf.size, sizeof want - 1);
    assert_memory_equal(buf.data, want, sizeof want - 1);
    swi_buf_free(&buf);
    assert_null(buf.data);
    assert_int_equal(buf.size, 0);
}

static void test_buf_failure_keeps_content(void **state)
{
    (void)state;
    sw_error err = {0};
    swi_buf buf = {0};
    assert_ok(swi_buf_append_str(&buf, "kept", &err), &err);
    assert_int_equal(swi_buf_reserve(&buf, SIZE_MAX, &err), SW_ERR_NOMEM);
    assert_error(&err, SW_ERR_NOMEM, "out of memory");
    assert_int_equal(swi_buf_fill(&buf, 0, SIZE_MAX / 2, &err), SW_ERR_NOMEM);
    assert_int_equal(swi_buf_append(&buf, "x", SIZE_MAX - 2, &err), SW_ERR_NOMEM);
    assert_int_equal(buf.size, 4);
    assert_memory_equal(buf.data, "kept", 4);
    swi_buf_free(&buf);
}

static void test_arena_is_zeroed_aligned_and_apart(void **state)
{
    (void)state;
    sw_error err = {0};
    swi_arena arena = {0};
    harness_prng prng = {1};
    enum { COUNT = 3000 };
    static uint8_t *places[COUNT];
    static size_t sizes[COUNT];
    for (size_t i = 0; i < COUNT; i++) {
        sizes[i] = (size_t)harness_random_below(&prng, i % 100 == 0 ? 100000 : 200);
        if (i % 3 == 0) {
            assert_ok(swi_arena_bytes(&arena, sizes[i], &places[i], &err), &err);
        } else {
            void *p;
            assert_ok(swi_arena_alloc(&arena, sizes[i], &p, &err), &err);
            assert_int_equal((uintptr_t)p % 8, 0);
            places[i] = p;
            for (size_t k = 0; k < sizes[i]; k++)
                assert_int_equal(places[i][k], 0);
        }
        assert_non_null(places[i]);
        memset(places[i], (int)(i % 251 + 1), sizes[i]);
    }
    size_t used = 0;
    for (size_t i = 0; i < COUNT; i++) {
        used += sizes[i];
        for (size_t k = 0; k < sizes[i]; k++)
            assert_int_equal(places[i][k], i % 251 + 1);
    }
    assert_true(arena.total_bytes >= used);
    assert_true(arena.total_bytes < used * 2 + (1 << 20));
    swi_arena_free(&arena);
    assert_int_equal(arena.total_bytes, 0);
}

static void test_arena_text_and_limits(void **state)
{
    (void)state;
    sw_error err = {0};
    swi_arena arena = {0};
    const char *text;
    assert_ok(swi_arena_text(&arena, "a\0bc", 3, &text, &err), &err);
    assert_memory_equal(text, "a\0b\0", 4);
    assert_ok(swi_arena_text(&arena, NULL, 0, &text, &err), &err);
    assert_string_equal(text, "");
    size_t before = arena.total_bytes;
    void *p = &arena;
    assert_int_equal(swi_arena_alloc(&arena, SIZE_MAX - 3, &p, &err), SW_ERR_NOMEM);
    assert_ptr_equal(p, &arena);
    assert_int_equal(swi_arena_text(&arena, "x", SIZE_MAX, &text, &err), SW_ERR_NOMEM);
    assert_int_equal(arena.total_bytes, before);
    swi_arena_free(&arena);
}

static void test_arrays(void **state)
{
    (void)state;
    sw_error err = {0};
    void *p = NULL;
    assert_int_equal(swi_alloc_array(SIZE_MAX / 2, 4, &p, &err), SW_ERR_NOMEM);
    assert_null(p);
    assert_ok(swi_alloc_array(0, 8, &p, &err), &err);
    assert_non_null(p);
    free(p);
    uint64_t *items = NULL;
    size_t capacity = 0;
    for (size_t i = 0; i < 1000; i++) {
        assert_ok(swi_grow_array((void **)&items, &capacity, i + 1, sizeof *items, &err), &err);
        assert_true(capacity > i);
        assert_int_equal(items[i], 0);
        items[i] = i + 1;
    }
    uint64_t *same = items;
    size_t had = capacity;
    assert_int_equal(swi_grow_array((void **)&items, &capacity, SIZE_MAX / 4, 8, &err),
                     SW_ERR_NOMEM);
    assert_ptr_equal(items, same);
    assert_int_equal(capacity, had);
    for (size_t i = 0; i < 1000; i++)
        assert_int_equal(items[i], i + 1);
    free(items);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_buf_appends),
        cmocka_unit_test(test_buf_failure_keeps_content),
        cmocka_unit_test(test_arena_is_zeroed_aligned_and_apart),
        cmocka_unit_test(test_arena_text_and_limits),
        cmocka_unit_test(test_arrays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
