/* A window over bytes in order. */
#include "harness/harness.h"

#include "base/error.h"
#include "base/feed.h"

#define BYTES 1000U

typedef struct input {
    uint8_t bytes[BYTES];
    unsigned reads;
    unsigned fail_at; /* the n-th read fails; 0: none */
} input;

static input made(void)
{
    input in = {0};
    for (size_t i = 0; i < BYTES; i++)
        in.bytes[i] = (uint8_t)(i * 7 + i / 256);
    return in;
}

static sw_status read_input(void *ctx, uint64_t offset, void *data, size_t size, sw_error *err)
{
    input *in = ctx;
    if (++in->reads == in->fail_at)
        return swi_fail(err, SW_ERR_IO, "no");
    assert_true(offset <= BYTES && size <= BYTES - offset);
    memcpy(data, in->bytes + offset, size);
    return SW_OK;
}

static void good_every_byte_once(void **state)
{
    (void)state;
    static const size_t windows[] = {1, 2, 16, 999, 1000, 5000};
    for (size_t w = 0; w < sizeof windows / sizeof windows[0]; w++) {
        input in = made();
        sw_error err = {0};
        swi_feed feed = swi_feed_of(read_input, &in, BYTES);
        feed.window_bytes = windows[w];
        for (size_t i = 0; i < BYTES; i++) {
            uint8_t byte;
            assert_int_equal(swi_feed_position(&feed), i);
            assert_int_equal(swi_feed_left(&feed), BYTES - i);
            assert_ok(swi_feed_more(&feed, 1 + i % 3, &err), &err);
            assert_true(swi_get_u8(&feed.cursor, &byte));
            assert_int_equal(byte, in.bytes[i]);
        }
        assert_ok(swi_feed_more(&feed, 1, &err), &err);
        assert_int_equal(swi_feed_left(&feed), 0);
        if (windows[w] > 2) /* up to two bytes are still held */
            assert_true(in.reads <= BYTES / (windows[w] - 2) + 2);
        swi_feed_end(&feed);
    }
}

static void good_wants_more_than_the_window(void **state)
{
    (void)state;
    input in = made();
    sw_error err = {0};
    const uint8_t *bytes;
    swi_feed feed = swi_feed_of(read_input, &in, BYTES);
    feed.window_bytes = 8;
    assert_ok(swi_feed_more(&feed, 4, &err), &err);
    assert_true(swi_skip(&feed.cursor, 3));
    assert_ok(swi_feed_more(&feed, 500, &err), &err);
    assert_true(swi_get_bytes(&feed.cursor, 500, &bytes));
    assert_memory_equal(bytes, in.bytes + 3, 500);
    assert_ok(swi_feed_more(&feed, SIZE_MAX, &err), &err);
    assert_int_equal(swi_cursor_left(&feed.cursor), BYTES - 503);
    assert_int_equal(feed.behind, 0);
    swi_feed_end(&feed);
}

static void bad_read_leaves_what_is_held(void **state)
{
    (void)state;
    input in = made();
    sw_error err = {0};
    const uint8_t *bytes;
    in.fail_at = 2;
    swi_feed feed = swi_feed_of(read_input, &in, BYTES);
    feed.window_bytes = 8;
    assert_ok(swi_feed_more(&feed, 8, &err), &err);
    assert_true(swi_skip(&feed.cursor, 5));
    assert_int_equal(swi_feed_more(&feed, 100, &err), SW_ERR_IO);
    assert_int_equal(swi_feed_position(&feed), 5);
    assert_true(swi_get_bytes(&feed.cursor, 3, &bytes));
    assert_memory_equal(bytes, in.bytes + 5, 3);
    assert_ok(swi_feed_more(&feed, 1, &err), &err);
    assert_true(swi_get_bytes(&feed.cursor, 8, &bytes));
    assert_memory_equal(bytes, in.bytes + 8, 8);
    swi_feed_end(&feed);
}

static void good_memory_is_not_copied(void **state)
{
    (void)state;
    input in = made();
    sw_error err = {0};
    swi_feed feed = swi_feed_of_memory(in.bytes, BYTES);
    assert_ok(swi_feed_more(&feed, SIZE_MAX, &err), &err);
    assert_ptr_equal(feed.cursor.data, in.bytes);
    assert_int_equal(swi_feed_left(&feed), BYTES);
    swi_feed_end(&feed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(good_every_byte_once),
        cmocka_unit_test(good_wants_more_than_the_window),
        cmocka_unit_test(bad_read_leaves_what_is_held),
        cmocka_unit_test(good_memory_is_not_copied),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
