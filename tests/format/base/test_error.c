/* Errors: what the record holds, and what survives when the text is too long. */
#include "harness/harness.h"

#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"

static void test_fail(void **state)
{
    (void)state;
    sw_error err = {0};
    assert_int_equal(swi_fail(&err, SW_ERR_CORRUPT, "%s: needs %d", "f", 7), SW_ERR_CORRUPT);
    assert_error(&err, SW_ERR_CORRUPT, "f: needs 7");
    assert_false(err.has_offset);
    assert_int_equal(err.sys_errno, 0);
    assert_int_equal(swi_fail(NULL, SW_ERR_LIMIT, "x"), SW_ERR_LIMIT);
    sw_error_clear(&err);
    assert_int_equal(err.status, SW_OK);
    assert_string_equal(err.text, "");
}

static void test_fail_at(void **state)
{
    (void)state;
    sw_error err = {0};
    char longer[3000];
    memset(longer, 'x', sizeof longer);
    longer[sizeof longer - 1] = '\0';
    swi_fail_at(&err, SW_ERR_FORMAT, "ZIP-7", 40, "%s", longer);
    assert_true(err.has_offset);
    assert_int_equal(err.offset_bytes, 40);
    assert_string_equal(err.clause, "ZIP-7");
    assert_contains(err.text, "xxx [ZIP-7]");
    swi_error_shift(&err, 100);
    assert_int_equal(err.offset_bytes, 140);
    swi_error_shift(&err, UINT64_MAX);
    assert_true(err.offset_bytes == UINT64_MAX);
    swi_fail_at(&err, SW_ERR_FORMAT, NULL, 0, "short");
    assert_string_equal(err.text, "short");
    assert_string_equal(err.clause, "");
}

static void test_errno(void **state)
{
    (void)state;
    sw_error err = {0};
    char longer[3000];
    memset(longer, 'p', sizeof longer);
    longer[sizeof longer - 1] = '\0';
    assert_int_equal(swi_fail_errno(&err, ENOSPC, "%s: write", longer), SW_ERR_IO);
    assert_error(&err, SW_ERR_IO, ": No space left on device");
    assert_int_equal(err.sys_errno, ENOSPC);
    assert_int_equal(swi_fail_nomem(&err), SW_ERR_NOMEM);
    assert_error(&err, SW_ERR_NOMEM, "out of memory");
}

static void test_prefix_and_wrap(void **state)
{
    (void)state;
    sw_error err = {0};
    assert_int_equal(swi_error_prefix(&err, "nothing"), SW_OK);
    assert_string_equal(err.text, "");
    swi_fail_at(&err, SW_ERR_CORRUPT, "TF-1", 5, "inner");
    assert_int_equal(swi_error_prefix(&err, "rank %d", 3), SW_ERR_CORRUPT);
    assert_string_equal(err.text, "rank 3: inner [TF-1]");
    assert_int_equal(err.offset_bytes, 5);
    /* Arguments may point into the record that is written. */
    swi_fail(&err, SW_ERR_IO, "outer (%s)", err.text);
    assert_string_equal(err.text, "outer (rank 3: inner [TF-1])");
}

/* A cut in the middle of a character would make the text invalid UTF-8. */
static void test_cut_at_a_character(void **state)
{
    (void)state;
    for (size_t shift = 0; shift < 4; shift++) {
        char text[2000] = "";
        size_t n = 0;
        for (; n < shift; n++)
            text[n] = 'a';
        for (; n + 4 < sizeof text; n += 4)
            memcpy(text + n, "\xf0\x9f\x92\xa9", 4);
        sw_error err = {0};
        swi_fail(&err, SW_ERR_ARG, "%s", text);
        assert_in_range(strlen(err.text), SW_ERROR_TEXT_MAX - 4, SW_ERROR_TEXT_MAX - 1);
        assert_true(swi_utf8_valid(err.text, strlen(err.text)));
        swi_error_prefix(&err, "b");
        assert_true(swi_utf8_valid(err.text, strlen(err.text)));
    }
}

static void test_names(void **state)
{
    (void)state;
    assert_string_equal(sw_status_name(SW_OK), "OK");
    assert_string_equal(sw_status_name(SW_ERR_CANCELED), "CANCELED");
    assert_string_equal(sw_status_name((sw_status)99), "UNKNOWN");
    assert_string_equal(sw_status_name((sw_status)-1), "UNKNOWN");
    assert_string_equal(sw_severity_name(SW_DANGER), "danger");
    assert_string_equal(sw_version(), SW_VERSION_STRING);
    for (int s = SW_OK; s <= SW_ERR_CANCELED; s++)
        assert_string_not_equal(sw_status_name((sw_status)s), "UNKNOWN");
}

static void test_limits(void **state)
{
    (void)state;
    sw_limits all = sw_limits_resolve(NULL);
    assert_int_equal(all.metadata_bytes, 4LL << 30);
    assert_int_equal(all.header_bytes, 100000000);
    assert_int_equal(all.nodes, 64 << 20);
    assert_int_equal(all.tensors, 16 << 20);
    assert_int_equal(all.pieces, 64 << 20);
    assert_int_equal(all.files, 1 << 20);
    assert_int_equal(all.depth, 512);
    assert_int_equal(all.open_files, 512);
    sw_limits some = {.depth = 3, .open_files = 9};
    some = sw_limits_resolve(&some);
    assert_int_equal(some.depth, 3);
    assert_int_equal(some.open_files, 9);
    assert_int_equal(some.files, 1 << 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fail),
        cmocka_unit_test(test_fail_at),
        cmocka_unit_test(test_errno),
        cmocka_unit_test(test_prefix_and_wrap),
        cmocka_unit_test(test_cut_at_a_character),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_limits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
