/* What every kind of store promises, on disk and in memory alike; and the checks of paths. */
#include "harness/harness.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "io/store.h"

static void test_path_check(void **state)
{
    (void)state;
    static const struct {
        const char *path, *why;
    } bad[] = {
        {"", "is empty"},
        {"/etc/passwd", "is absolute"},
        {"a//b", "has an empty part"},
        {"a/", "has an empty part"},
        {".", "has a part \".\""},
        {"./a", "has a part \".\""},
        {"a/./b", "has a part \".\""},
        {"..", "has a part \"..\": it would leave the checkpoint"},
        {"../a", "has a part \"..\""},
        {"a/../../b", "has a part \"..\""},
        {"a/..", "has a part \"..\""},
    };
    static const char *const good[] = {"a",    "a/b.c",          "..a", "a../b", "...",
                                       ".hid", "a b\n/\xff\xfe", "-",   "c:\\x"};
    sw_error err = {0};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(swi_path_check(bad[i].path, &err), SW_ERR_UNSAFE);
        assert_error(&err, SW_ERR_UNSAFE, bad[i].why);
    }
    assert_int_equal(swi_path_check(NULL, &err), SW_ERR_UNSAFE);
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++)
        assert_ok(swi_path_check(good[i], &err), &err);
    assert_int_equal(swi_path_check("a/\x1b[2J/../b", &err), SW_ERR_UNSAFE);
    assert_contains(err.text, "a/\\x1b[2J/../b");
}

/* ---- the same on both kinds
 * ---------------------------------------------------------------------- */

static void put(swi_store *store, const char *path, const char *text)
{
    sw_error err = {0};
    swi_file *file = NULL;
    assert_ok(swi_store_create(store, path, &file, &err), &err);
    assert_ok(swi_file_write(file, 0, text, strlen(text), &err), &err);
    assert_ok(swi_file_sync(file, &err), &err);
    swi_file_close(file);
}

static void check_refusals(swi_store *store)
{
    sw_error err = {0};
    swi_file *file = (swi_file *)store;
    swi_entry entry;
    static const char *const paths[] = {"/a", "../a", "a/../b", "", "a//b"};
    for (size_t i = 0; i < 5; i++) {
        assert_int_equal(swi_store_open_read(store, paths[i], &file, &err), SW_ERR_UNSAFE);
        assert_int_equal(swi_store_open_write(store, paths[i], &file, &err), SW_ERR_UNSAFE);
        assert_int_equal(swi_store_create(store, paths[i], &file, &err), SW_ERR_UNSAFE);
        assert_int_equal(swi_store_remove(store, paths[i], &err), SW_ERR_UNSAFE);
        assert_int_equal(swi_store_stat(store, paths[i], &entry, &err), SW_ERR_UNSAFE);
        assert_error(&err, SW_ERR_UNSAFE, "path \"");
    }
    assert_int_equal(swi_store_sync_dir(store, "..", &err), SW_ERR_UNSAFE);
    assert_int_equal(swi_store_list(store, "a/..", 9, NULL, NULL, &err), SW_ERR_UNSAFE);
    assert_int_equal(swi_store_open_read(store, "no", &file, &err), SW_ERR_NOTFOUND);
    assert_error(&err, SW_ERR_NOTFOUND, "no");
    assert_int_equal(swi_store_open_read(store, "no/deep/er", &file, &err), SW_ERR_NOTFOUND);
    assert_int_equal(swi_store_open_write(store, "no", &file, &err), SW_ERR_NOTFOUND);
    assert_int_equal(swi_store_remove(store, "no", &err), SW_ERR_NOTFOUND);
    assert_int_equal(swi_store_stat(store, "no", &entry, &err), SW_ERR_NOTFOUND);
    assert_ptr_equal(file, store); /* untouched */
}

static void check_files(swi_store *store)
{
    sw_error err = {0};
    swi_file *file = NULL;
    swi_entry entry;
    char got[32] = "";
    put(store, "d/e/one", "0123456789");
    assert_int_equal(swi_store_create(store, "d/e/one", &file, &err), SW_ERR_EXISTS);
    assert_error(&err, SW_ERR_EXISTS, "d/e/one");
    assert_int_equal(swi_store_create(store, "d/e", &file, &err), SW_ERR_EXISTS);
    assert_int_equal(swi_store_create(store, "d/e/one/two", &file, &err), SW_ERR_NOTFOUND);
    assert_int_equal(swi_store_open_read(store, "d/e", &file, &err), SW_ERR_FORMAT);
    assert_error(&err, SW_ERR_FORMAT, "is a directory, expected a file");
    assert_ok(swi_store_stat(store, "d/e/one", &entry, &err), &err);
    assert_int_equal(entry.kind, SWI_ENTRY_FILE);
    assert_int_equal(entry.bytes, 10);
    assert_string_equal(entry.path, "d/e/one");
    assert_ok(swi_store_stat(store, "d", &entry, &err), &err);
    assert_int_equal(entry.kind, SWI_ENTRY_DIR);
    assert_ok(swi_store_open_read(store, "d/e/one", &file, &err), &err);
    assert_int_equal(swi_file_bytes(file), 10);
    assert_ok(swi_file_read(file, 3, got, 4, &err), &err);
    assert_memory_equal(got, "3456", 4);
    assert_ok(swi_file_read(file, 10, NULL, 0, &err), &err);
    assert_int_equal(swi_file_write(file, 0, "x", 1, &err), SW_ERR_ARG);
    assert_error(&err, SW_ERR_ARG, "opened for reading");
    swi_file_close(file);
}

static void check_short_reads(swi_store *store)
{
    sw_error err = {0};
    swi_file *file = NULL;
    char got[32];
    put(store, "short", "0123456789");
    assert_ok(swi_store_open_read(store, "short", &file, &err), &err);
    assert_int_equal(swi_file_read(file, 8, got, 3, &err), SW_ERR_CORRUPT);
    assert_error(&err, SW_ERR_CORRUPT,
                 "short: needs 3 bytes at offset 8, but the file holds 10 bytes");
    assert_true(err.has_offset);
    assert_int_equal(err.offset_bytes, 8);
    assert_int_equal(swi_file_read(file, 11, got, 1, &err), SW_ERR_CORRUPT);
    assert_int_equal(swi_file_read(file, UINT64_MAX, got, 1, &err), SW_ERR_CORRUPT);
    assert_int_equal(swi_file_read(file, UINT64_MAX - 1, got, 5, &err), SW_ERR_CORRUPT);
    assert_error(&err, SW_ERR_CORRUPT, "needs 5 bytes at offset 18446744073709551614");
    assert_int_equal(swi_file_read(file, INT64_MAX, got, 1, &err), SW_ERR_CORRUPT);
    swi_file_close(file);
}

static void check_writes(swi_store *store)
{
    sw_error err = {0};
    swi_file *file = NULL;
    uint8_t *data = NULL;
    size_t size;
    assert_ok(swi_store_create(store, "w", &file, &err), &err);
    assert_ok(swi_file_reserve(file, 8, &err), &err);
    assert_int_equal(swi_file_bytes(file), 8);
    const swi_slice slices[] = {{"ab", 2}, {NULL, 0}, {"cde", 3}, {"", 0}, {"f", 1}};
    assert_ok(swi_file_writev(file, 1, slices, 5, &err), &err);
    assert_ok(swi_file_writev(file, 4, slices, 0, &err), &err);
    swi_file_write_behind(file, 0, 8);
    swi_file_read_ahead(file, 0, 8);
    swi_file_read_ahead(file, UINT64_MAX, 8);
    assert_int_equal(swi_file_bytes(file), 8);
    assert_ok(swi_file_write(file, 10, "xy", 2, &err), &err);
    assert_int_equal(swi_file_bytes(file), 12);
    assert_int_equal(swi_file_write(file, UINT64_MAX - 1, "xyz", 3, &err), SW_ERR_ARG);
    assert_int_equal(swi_file_write(file, INT64_MAX, "xyz", 3, &err), SW_ERR_ARG);
    assert_error(&err, SW_ERR_ARG, "past the largest file size");
    assert_int_equal(swi_file_reserve(file, UINT64_MAX, &err), SW_ERR_ARG);
    swi_file_close(file);
    assert_ok(swi_store_read_all(store, "w", 12, &data, &size, &err), &err);
    assert_int_equal(size, 12);
    assert_memory_equal(data, "\0abcdef\0\0\0xy\0", 13); /* and one more zero */
    free(data);
    data = NULL;
    assert_int_equal(swi_store_read_all(store, "w", 11, &data, &size, &err), SW_ERR_LIMIT);
    assert_error(&err, SW_ERR_LIMIT, "w: holds 12 bytes, the limit is 11");
    assert_null(data);
    assert_ok(swi_store_open_write(store, "w", &file, &err), &err);
    assert_ok(swi_file_reserve(file, 3, &err), &err);
    assert_ok(swi_file_write(file, 0, "A", 1, &err), &err);
    swi_file_close(file);
    assert_ok(swi_store_read_all(store, "w", 99, &data, &size, &err), &err);
    assert_int_equal(size, 3);
    assert_memory_equal(data, "Aab", 3);
    free(data);
}

/* Many slices of every length, over what one system call takes. */
static void check_many_slices(swi_store *store)
{
    enum { COUNT = 3000 };
    static uint8_t bytes[COUNT * 20];
    static swi_slice slices[COUNT];
    sw_error err = {0};
    swi_file *file = NULL;
    harness_prng prng = {11};
    harness_random_fill(&prng, bytes, sizeof bytes);
    size_t used = 0;
    for (size_t i = 0; i < COUNT; i++) {
        size_t size = (size_t)harness_random_below(&prng, 20);
        slices[i] = (swi_slice){.data = bytes + used, .size = size};
        used += size;
    }
    uint8_t *data = NULL;
    size_t size = 0;
    assert_ok(swi_store_create(store, "many", &file, &err), &err);
    assert_ok(swi_file_writev(file, 5, slices, COUNT, &err), &err);
    swi_file_close(file);
    assert_ok(swi_store_read_all(store, "many", 1 << 20, &data, &size, &err), &err);
    assert_int_equal(size, used + 5);
    assert_memory_equal(data + 5, bytes, used);
    free(data);
}

static sw_status append_entry(void *ctx, const swi_entry *entry, sw_error *err)
{
    return swi_buf_printf(ctx, err, "%s%s ", entry->path, entry->kind == SWI_ENTRY_DIR ? "/" : "");
}

static sw_status stop_at_once(void *ctx, const swi_entry *entry, sw_error *err)
{
    (void)ctx, (void)entry, (void)err;
    return SW_ERR_CANCELED;
}

static void check_list(swi_store *store)
{
    sw_error err = {0};
    swi_buf seen = {0};
    static const char *const paths[] = {"l/b", "l/a-b",  "l/a/x", "l/a/y",
                                        "l/B", "l/\xff", "l/a.b", "l/\xc3\xa4"};
    for (size_t i = 0; i < 8; i++)
        put(store, paths[i], "");
    assert_ok(swi_store_list(store, "l", 7, append_entry, &seen, &err), &err);
    assert_ok(swi_buf_u8(&seen, 0, &err), &err);
    assert_string_equal((char *)seen.data, "l/B l/a/ l/a-b l/a.b l/b l/\xc3\xa4 l/\xff ");
    assert_int_equal(swi_store_list(store, "l", 6, append_entry, &seen, &err), SW_ERR_LIMIT);
    assert_error(&err, SW_ERR_LIMIT, "l: holds more than 6 entries");
    assert_int_equal(swi_store_list(store, "l/b", 9, append_entry, &seen, &err), SW_ERR_NOTFOUND);
    assert_int_equal(swi_store_list(store, "nope", 9, append_entry, &seen, &err), SW_ERR_NOTFOUND);
    assert_int_equal(swi_store_list(store, "l", 9, stop_at_once, NULL, &err), SW_ERR_CANCELED);
    assert_ok(swi_store_sync_dir(store, "l/a", &err), &err);
    assert_ok(swi_store_sync_dir(store, "", &err), &err);
    assert_ok(swi_store_remove(store, "l/a/x", &err), &err);
    assert_ok(swi_store_remove(store, "l/a/y", &err), &err);
    assert_int_equal(swi_store_remove(store, "l/a/y", &err), SW_ERR_NOTFOUND);
    swi_buf_free(&seen);
}

static void check_all(swi_store *store)
{
    check_refusals(store);
    check_files(store);
    check_short_reads(store);
    check_writes(store);
    check_many_slices(store);
    check_list(store);
    assert_true(swi_store_free_bytes(store) > 0);
    swi_store_close(store);
}

static void test_on_disk(void **state)
{
    sw_error err = {0};
    swi_store *store = NULL;
    assert_ok(swi_store_open_posix(*state, &store, &err), &err);
    assert_string_equal(swi_store_root(store), *state);
    check_all(store);
}

static void test_in_memory(void **state)
{
    (void)state;
    sw_error err = {0};
    swi_store *store = NULL;
    swi_file *file = NULL;
    uint64_t bytes = 0;
    assert_ok(swi_store_open_memory(&store, &err), &err);
    /* An open file outlives its name. */
    put(store, "gone", "x");
    assert_ok(swi_store_open_read(store, "gone", &file, &err), &err);
    assert_ok(swi_store_remove(store, "gone", &err), &err);
    assert_ok(swi_file_read(file, 0, &bytes, 1, &err), &err);
    swi_file_close(file);
    assert_int_equal(swi_store_free_bytes(store), UINT64_MAX);
    check_all(store);
    swi_store_close(NULL);
    swi_file_close(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_path_check),
        cmocka_unit_test_setup_teardown(test_on_disk, harness_dir_setup, harness_dir_teardown),
        cmocka_unit_test(test_in_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
