/* A store of one file that is made of lent memory. */
#include "harness/harness.h"

#include <stdlib.h>
#include <string.h>

#include "io/lent.h"

#define PARTS 5

static const char bytes[] = "abcdefghijklmnopqrst";

/* Slices of these sizes, one behind the other. */
static swi_store *lend(swi_slice slices[PARTS])
{
    static const size_t sizes[PARTS] = {3, 0, 1, 9, 7};
    swi_store *store = NULL;
    sw_error err = {0};
    size_t at = 0;
    for (size_t i = 0; i < PARTS; i++) {
        slices[i] = (swi_slice){sizes[i] > 0 ? bytes + at : NULL, sizes[i]};
        at += sizes[i];
    }
    assert_int_equal(at, sizeof bytes - 1);
    assert_ok(swi_store_open_lent("lent:", "data", slices, PARTS, &store, &err), &err);
    return store;
}

static void test_any_range(void **state)
{
    swi_slice slices[PARTS];
    swi_store *store = lend(slices);
    swi_file *file = NULL;
    sw_error err = {0};
    (void)state;
    assert_ok(swi_store_open_read(store, "data", &file, &err), &err);
    assert_int_equal(swi_file_bytes(file), sizeof bytes - 1);
    for (size_t from = 0; from < sizeof bytes; from++) {
        for (size_t to = from; to < sizeof bytes; to++) {
            char room[sizeof bytes];
            assert_ok(swi_file_read(file, from, room, to - from, &err), &err);
            assert_memory_equal(room, bytes + from, to - from);
        }
        char room[sizeof bytes + 1];
        assert_int_equal(swi_file_read(file, from, room, sizeof bytes - from, &err),
                         SW_ERR_CORRUPT);
    }
    swi_file_close(file);
    swi_store_close(store);
}

static sw_status count(void *ctx, const swi_entry *entry, sw_error *err)
{
    (void)err;
    assert_string_equal(entry->path, "data");
    assert_int_equal(entry->bytes, sizeof bytes - 1);
    ++*(int *)ctx;
    return SW_OK;
}

static void test_store(void **state)
{
    swi_slice slices[PARTS];
    swi_store *store = lend(slices);
    swi_entry a;
    swi_file *file = NULL;
    sw_error err = {0};
    int entries = 0;
    (void)state;
    assert_ok(swi_store_list(store, "", 10, count, &entries, &err), &err);
    assert_int_equal(entries, 1);
    assert_int_equal(swi_store_list(store, "folder", 10, count, &entries, &err), SW_ERR_NOTFOUND);
    assert_int_equal(swi_store_stat(store, "other", &a, &err), SW_ERR_NOTFOUND);
    assert_error(&err, SW_ERR_NOTFOUND, "other");
    assert_ok(swi_store_stat(store, "data", &a, &err), &err);
    assert_int_equal(a.bytes, sizeof bytes - 1);
    assert_int_equal(swi_store_open_read(store, "other", &file, &err), SW_ERR_NOTFOUND);
    assert_int_equal(swi_store_create(store, "new", &file, &err), SW_ERR_UNSUPPORTED);
    assert_error(&err, SW_ERR_UNSUPPORTED, "is not written");
    assert_int_equal(swi_store_open_write(store, "data", &file, &err), SW_ERR_UNSUPPORTED);
    assert_int_equal(swi_store_remove(store, "data", &err), SW_ERR_UNSUPPORTED);
    swi_store_close(store);
}

static void test_sizes(void **state)
{
    const swi_slice slices[] = {{bytes, SIZE_MAX / 2}, {bytes, SIZE_MAX / 2}, {bytes, 2}};
    swi_store *store = NULL;
    swi_file *file = NULL;
    sw_error err = {0};
    (void)state;
    assert_int_equal(swi_store_open_lent("lent:", "data", slices, 3, &store, &err), SW_ERR_LIMIT);
    assert_error(&err, SW_ERR_LIMIT, "too large together");
    assert_int_equal(swi_store_open_lent("lent:", "../data", slices, 0, &store, &err),
                     SW_ERR_UNSAFE);
    assert_ok(swi_store_open_lent("lent:", "data", NULL, 0, &store, &err), &err);
    assert_ok(swi_store_open_read(store, "data", &file, &err), &err);
    assert_int_equal(swi_file_bytes(file), 0);
    swi_file_close(file);
    swi_store_close(store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_any_range),
        cmocka_unit_test(test_store),
        cmocka_unit_test(test_sizes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
