/* The helpers themselves: what other tests lean on. */
#include "harness/harness.h"

#include <stdlib.h>
#include <string.h>

static void test_files(void **state)
{
    char *path = harness_path(*state, "a/b%d/c.bin", 7);
    harness_write(path, "\x00\x01\x02", 3);
    assert_int_equal(harness_file_size(path), 3);
    harness_flip_bit(path, 8 + 1);
    size_t size = 0;
    uint8_t *data = harness_read(path, &size);
    assert_int_equal(size, 3);
    assert_memory_equal(data, "\x00\x03\x02", 4);
    harness_truncate(path, 1);
    assert_int_equal(harness_file_size(path), 1);
    char *copy = harness_path(*state, "copy");
    char *from = harness_path(*state, "a");
    harness_copy_tree(from, copy);
    char *copied = harness_path(*state, "copy/b7/c.bin");
    assert_true(harness_exists(copied));
    harness_remove(copy);
    assert_false(harness_exists(copied));
    free(data);
    free(path);
    free(copy);
    free(from);
    free(copied);
}

static void test_run(void **state)
{
    (void)state;
    const char *const argv[] = {"sh", "-c", "echo out; echo err >&2; exit 3", NULL};
    harness_result result;
    harness_run(argv, &result);
    assert_int_equal(result.exit_code, 3);
    assert_string_equal(result.out, "out\n");
    assert_string_equal(result.err, "err\n");
    harness_result_free(&result);
    const char *const killed[] = {"sh", "-c", "kill -9 $$", NULL};
    harness_run(killed, &result);
    assert_int_equal(result.exit_code, 128 + 9);
    harness_result_free(&result);
}

static void test_random_repeats(void **state)
{
    (void)state;
    harness_prng a = {7};
    harness_prng b = {7};
    uint64_t seen = 0;
    for (int i = 0; i < 1000; i++) {
        uint64_t value = harness_random_below(&a, 10);
        assert_int_equal(value, harness_random_below(&b, 10));
        seen |= UINT64_C(1) << value;
    }
    assert_int_equal(seen, 0x3ff);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_files, harness_dir_setup, harness_dir_teardown),
        cmocka_unit_test(test_run),
        cmocka_unit_test(test_random_repeats),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
