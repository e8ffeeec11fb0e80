/* What only a file system can do to us: links, FIFOs, folders in the way, files cut while open. */
#include "harness/harness.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "io/store.h"

static char *at(const char *dir, const char *name)
{
    return harness_path(dir, "%s", name);
}

static swi_store *open_store(const char *root)
{
    sw_error err = {0};
    swi_store *store = NULL;
    assert_ok(swi_store_open_posix(root, &store, &err), &err);
    return store;
}

/* DIR/ck is the checkpoint, DIR/outside holds what it must not reach. */
static swi_store *make_trap(const char *dir)
{
    harness_write_text(at(dir, "outside/secret"), "secret");
    harness_write_text(at(dir, "ck/real/file"), "inside");
    assert_int_equal(symlink("../outside", at(dir, "ck/dirlink")), 0);
    assert_int_equal(symlink("real", at(dir, "ck/inner")), 0);
    assert_int_equal(symlink("../outside/secret", at(dir, "ck/filelink")), 0);
    assert_int_equal(symlink("nowhere", at(dir, "ck/dangling")), 0);
    assert_int_equal(symlink("loop", at(dir, "ck/loop")), 0);
    assert_int_equal(mkfifo(at(dir, "ck/fifo"), 0600), 0);
    return open_store(at(dir, "ck"));
}

static void test_links_in_the_middle(void **state)
{
    sw_error err = {0};
    swi_file *file = NULL;
    swi_entry entry;
    swi_store *store = make_trap(*state);
    static const char *const paths[] = {"dirlink/secret", "inner/file", "dirlink/new"};
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(swi_store_open_read(store, paths[i], &file, &err), SW_ERR_UNSAFE);
        assert_error(&err, SW_ERR_UNSAFE, "leads through a symbolic link");
        assert_contains(err.text, paths[i]);
        assert_int_equal(swi_store_create(store, paths[i], &file, &err), SW_ERR_UNSAFE);
        assert_int_equal(swi_store_open_write(store, paths[i], &file, &err), SW_ERR_UNSAFE);
        assert_int_equal(swi_store_remove(store, paths[i], &err), SW_ERR_UNSAFE);
        assert_int_equal(swi_store_stat(store, paths[i], &entry, &err), SW_ERR_UNSAFE);
    }
    assert_int_equal(swi_store_list(store, "dirlink", 9, NULL, NULL, &err), SW_ERR_UNSAFE);
    assert_int_equal(swi_store_sync_dir(store, "dirlink", &err), SW_ERR_UNSAFE);
    assert_true(harness_exists(at(*state, "outside/secret")));
    assert_false(harness_exists(at(*state, "outside/new")));
    swi_store_close(store);
}

static void test_links_at_the_end(void **state)
{
    sw_error err = {0};
    swi_file *file = NULL;
    swi_entry entry;
    char got[6];
    swi_store *store = make_trap(*state);
    assert_ok(swi_store_stat(store, "filelink", &entry, &err), &err);
    assert_true(entry.is_link);
    assert_int_equal(entry.kind, SWI_ENTRY_FILE);
    assert_int_equal(entry.bytes, 6);
    assert_ok(swi_store_open_read(store, "filelink", &file, &err), &err);
    assert_ok(swi_file_read(file, 0, got, 6, &err), &err);
    assert_memory_equal(got, "secret", 6);
    swi_file_close(file);
    assert_int_equal(swi_store_open_write(store, "filelink", &file, &err), SW_ERR_UNSAFE);
    assert_error(&err, SW_ERR_UNSAFE, "is a symbolic link, which is not written through");
    assert_int_equal(swi_store_create(store, "filelink", &file, &err), SW_ERR_EXISTS);
    assert_int_equal(swi_store_create(store, "dangling", &file, &err), SW_ERR_EXISTS);
    assert_int_equal(swi_store_open_read(store, "dangling", &file, &err), SW_ERR_NOTFOUND);
    assert_error(&err, SW_ERR_NOTFOUND, "ck/dangling: symbolic link that leads nowhere: No such");
    assert_int_equal(swi_store_open_read(store, "loop", &file, &err), SW_ERR_IO);
    assert_error(&err, SW_ERR_IO, "symbolic link that leads nowhere: Too many levels");
    assert_int_equal(swi_store_open_read(store, "inner", &file, &err), SW_ERR_FORMAT);
    assert_int_equal(swi_store_open_read(store, "fifo", &file, &err), SW_ERR_FORMAT);
    assert_error(&err, SW_ERR_FORMAT, "ck/fifo: is not a regular file, expected a file");
    assert_int_equal(swi_store_open_write(store, "fifo", &file, &err), SW_ERR_FORMAT);
    assert_ok(swi_store_remove(store, "filelink", &err), &err);
    assert_true(harness_exists(at(*state, "outside/secret")));
    swi_store_close(store);
}

static sw_status describe(void *ctx, const swi_entry *entry, sw_error *err)
{
    return swi_buf_printf(ctx, err, "%s:%c%s:%d ", entry->path, "fdo"[entry->kind],
                          entry -> is_link ? "l" : "", (int)entry->bytes);
}

static void test_list_says_what_links_are(void **state)
{
    sw_error err = {0};
    swi_buf seen = {0};
    swi_store *store = make_trap(*state);
    assert_ok(swi_store_list(store, "", 9, describe, &seen, &err), &err);
    assert_ok(swi_buf_u8(&seen, 0, &err), &err);
    assert_string_equal((char *)seen.data, "dangling:ol:0 dirlink:dl:0 fifo:o:0 filelink:fl:6 "
                                           "inner:dl:0 loop:ol:0 real:d:0 ");
    swi_buf_free(&seen);
    swi_store_close(store);
}

static void test_where_links_point(void **state)
{
    sw_error err = {0};
    swi_store *store = make_trap(*state);
    char room[18];
    assert_ok(swi_store_read_link(store, "filelink", room, sizeof room, &err), &err);
    assert_string_equal(room, "../outside/secret");
    assert_ok(swi_store_read_link(store, "filelink", room, 8, &err), &err);
    assert_string_equal(room, "../outs");
    assert_int_equal(swi_store_read_link(store, "real", room, sizeof room, &err), SW_ERR_ARG);
    assert_string_equal(err.text, "real: is no link");
    assert_int_equal(swi_store_read_link(store, "none", room, sizeof room, &err), SW_ERR_NOTFOUND);
    assert_int_not_equal(swi_store_read_link(store, "../x", room, sizeof room, &err), SW_OK);
    swi_store_close(store);
}

static void test_roots(void **state)
{
    sw_error err = {0};
    swi_store *store = NULL;
    swi_file *file = NULL;
    harness_write_text(at(*state, "sub/model.bin"), "x");
    /* The folder of a single file. */
    store = open_store(at(*state, "sub/model.bin"));
    assert_string_equal(swi_store_root(store), at(*state, "sub"));
    assert_ok(swi_store_open_read(store, "model.bin", &file, &err), &err);
    swi_file_close(file);
    swi_store_close(store);
    store = open_store(at(*state, "sub///"));
    assert_string_equal(swi_store_root(store), at(*state, "sub"));
    swi_store_close(store);
    /* A root may be reached through a link: the user named it. */
    assert_int_equal(symlink("sub", at(*state, "link")), 0);
    store = open_store(at(*state, "link"));
    swi_store_close(store);
    harness_write_text("here.bin", "x");
    store = open_store("here.bin");
    assert_string_equal(swi_store_root(store), ".");
    assert_int_equal(swi_store_open_read(store, "no", &file, &err), SW_ERR_NOTFOUND);
    assert_string_equal(err.text, "no: cannot open: No such file or directory");
    swi_store_close(store);
    store = open_store("/");
    assert_int_equal(swi_store_open_read(store, "no-such", &file, &err), SW_ERR_NOTFOUND);
    assert_string_equal(err.text, "/no-such: cannot open: No such file or directory");
    swi_store_close(store);
    assert_int_equal(swi_store_open_posix("", &store, &err), SW_ERR_ARG);
    assert_int_equal(swi_store_open_posix("nope/x", &store, &err), SW_ERR_NOTFOUND);
    assert_error(&err, SW_ERR_NOTFOUND, "nope/x: cannot open: No such file or directory");
    assert_int_equal(mkfifo("pipe", 0600), 0);
    assert_int_equal(swi_store_open_posix("pipe", &store, &err), SW_ERR_FORMAT);
    assert_error(&err, SW_ERR_FORMAT, "pipe: is neither a directory nor a regular file");
}

static void test_file_cut_while_open(void **state)
{
    sw_error err = {0};
    swi_file *file = NULL;
    char got[100];
    harness_write_text(at(*state, "f"), "0123456789");
    swi_store *store = open_store(*state);
    assert_ok(swi_store_open_read(store, "f", &file, &err), &err);
    harness_truncate(at(*state, "f"), 4);
    assert_int_equal(swi_file_read(file, 0, got, 10, &err), SW_ERR_CORRUPT);
    assert_error(&err, SW_ERR_CORRUPT,
                 "/f: needs 10 bytes at offset 0, but the file holds 4 bytes");
    swi_file_close(file);
    swi_store_close(store);
}

static void test_time_of_any_year(void **state)
{
    sw_error err = {0};
    swi_entry entry;
    harness_write_text(at(*state, "f"), "x");
    swi_store *store = open_store(*state);
    static const struct {
        int64_t seconds, want;
    } cases[] = {{1700000000, 1700000000000000005},
                 {1LL << 33, (1LL << 33) * 1000000000 + 5},
                 {15000000000, INT64_MAX}};
    for (size_t i = 0; i < 3; i++) {
        const struct timespec times[2] = {{.tv_sec = cases[i].seconds, .tv_nsec = 5},
                                          {.tv_sec = cases[i].seconds, .tv_nsec = 5}};
        struct stat st;
        if (utimensat(AT_FDCWD, at(*state, "f"), times, 0) != 0 ||
            stat(at(*state, "f"), &st) != 0 || st.st_mtim.tv_sec != cases[i].seconds)
            continue; /* not every file system keeps every time */
        assert_ok(swi_store_stat(store, "f", &entry, &err), &err);
        assert_true(entry.mtime_ns == cases[i].want);
    }
    swi_store_close(store);
}

/* A full disk is noticed at the reservation, and the limit of the process as what it is. */
static void test_reserve_that_cannot_be(void **state)
{
    sw_error err = {0};
    swi_file *file = NULL;
    swi_store *store = open_store(*state);
    assert_ok(swi_store_create(store, "big", &file, &err), &err);
    assert_int_equal(swi_file_reserve(file, INT64_MAX, &err), SW_ERR_IO);
    assert_contains(err.text, "/big: cannot ");
    assert_int_not_equal(err.sys_errno, 0);
    swi_file_close(file);
    swi_store_close(store);
}

static void test_long_names(void **state)
{
    sw_error err = {0};
    swi_file *file = NULL;
    swi_store *store = open_store(*state);
    char path[600];
    memset(path, 'n', sizeof path - 1);
    path[sizeof path - 1] = '\0';
    assert_int_equal(swi_store_create(store, path, &file, &err), SW_ERR_IO);
    assert_error(&err, SW_ERR_IO, "File name too long");
    memcpy(path + 300, "/x", 3);
    assert_int_equal(swi_store_open_read(store, path, &file, &err), SW_ERR_IO);
    assert_error(&err, SW_ERR_IO, "File name too long");
    swi_store_close(store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_links_in_the_middle, harness_dir_setup,
                                        harness_dir_teardown),
        cmocka_unit_test_setup_teardown(test_links_at_the_end, harness_dir_setup,
                                        harness_dir_teardown),
        cmocka_unit_test_setup_teardown(test_list_says_what_links_are, harness_dir_setup,
                                        harness_dir_teardown),
        cmocka_unit_test_setup_teardown(test_where_links_point, harness_dir_setup,
                                        harness_dir_teardown),
        cmocka_unit_test_setup_teardown(test_roots, harness_dir_setup, harness_dir_teardown),
        cmocka_unit_test_setup_teardown(test_file_cut_while_open, harness_dir_setup,
                                        harness_dir_teardown),
        cmocka_unit_test_setup_teardown(test_time_of_any_year, harness_dir_setup,
                                        harness_dir_teardown),
        cmocka_unit_test_setup_teardown(test_reserve_that_cannot_be, harness_dir_setup,
                                        harness_dir_teardown),
        cmocka_unit_test_setup_teardown(test_long_names, harness_dir_setup, harness_dir_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
