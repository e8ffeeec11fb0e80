#include "harness/harness.h"

#include <string.h>

#include <zstd.h>

#include "codec/zstd.h"
#include "format/mem_reader.h"

/* `size` bytes, half of them random, as one frame (behind `lead` bytes of something else). */
static void make_frame(swi_buf *plain, swi_buf *packed, size_t size, size_t lead)
{
    sw_error err = {0};
    harness_prng prng = {size};
    assert_ok(swi_buf_fill(plain, 7, size, &err), &err);
    for (size_t i = 0; i < size; i += 4096)
        harness_random_fill(&prng, plain->data + i, size - i < 2048 ? size - i : 2048);
    assert_ok(swi_buf_fill(packed, 0xEE, lead, &err), &err);
    size_t bound = ZSTD_compressBound(size);
    assert_ok(swi_buf_reserve(packed, bound, &err), &err);
    size_t n = ZSTD_compress(packed->data + lead, bound, plain->data, size, 1);
    assert_false(ZSTD_isError(n));
    packed->size += n;
}

static sw_status to_buf(void *ctx, const uint8_t *data, size_t size, sw_error *err)
{
    return swi_buf_append(ctx, data, size, err);
}

static void good_stream(void **state)
{
    (void)state;
    static const size_t sizes[] = {0, 1, 1000, 131072, 131073, 3000000};
    for (size_t i = 0; i < 6; i++) {
        swi_buf plain = {0}, packed = {0}, got = {0};
        sw_error err = {0};
        mem_reader m;
        make_frame(&plain, &packed, sizes[i], 100);
        mem_reader_init(&m, packed.data, packed.size);
        assert_ok(swi_zstd_decode(&m.pub, 0, 100, packed.size - 100, sizes[i], to_buf, &got, &err),
                  &err);
        assert_int_equal(got.size, sizes[i]);
        if (sizes[i] > 0)
            assert_memory_equal(got.data, plain.data, sizes[i]);
        swi_buf_free(&plain);
        swi_buf_free(&packed);
        swi_buf_free(&got);
    }
}

static void good_two_frames(void **state)
{
    (void)state;
    swi_buf plain = {0}, packed = {0}, got = {0};
    sw_error err = {0};
    mem_reader m;
    make_frame(&plain, &packed, 5000, 0);
    size_t one = packed.size;
    assert_ok(swi_buf_reserve(&packed, one, &err), &err);
    assert_ok(swi_buf_append(&packed, packed.data, one, &err), &err);
    mem_reader_init(&m, packed.data, packed.size);
    assert_ok(swi_zstd_decode(&m.pub, 0, 0, packed.size, 10000, to_buf, &got, &err), &err);
    assert_int_equal(got.size, 10000);
    assert_memory_equal(got.data + 5000, plain.data, 5000);
    swi_buf_free(&plain);
    swi_buf_free(&packed);
    swi_buf_free(&got);
}

static void bad_cut_at_any_length(void **state)
{
    (void)state;
    swi_buf plain = {0}, packed = {0};
    make_frame(&plain, &packed, 3000, 0);
    for (size_t size = 0; size < packed.size; size++) {
        swi_buf got = {0};
        sw_error err = {0};
        mem_reader m;
        mem_reader_init(&m, packed.data, size);
        (void)!swi_zstd_decode(&m.pub, 0, 0, size, 3000, to_buf, &got, &err);
        assert_error(&err, SW_ERR_CORRUPT, "zstd: ");
        assert_true(err.has_offset);
        swi_buf_free(&got);
    }
    swi_buf_free(&plain);
    swi_buf_free(&packed);
}

static void bad_trailing_and_limit(void **state)
{
    (void)state;
    swi_buf plain = {0}, packed = {0}, got = {0};
    sw_error err = {0};
    mem_reader m;
    make_frame(&plain, &packed, 3000, 0);
    mem_reader_init(&m, packed.data, packed.size);
    (void)!swi_zstd_decode(&m.pub, 0, 0, packed.size, 2999, to_buf, &got, &err);
    assert_error(&err, SW_ERR_LIMIT, "more than 2999 decoded bytes");
    size_t frame = packed.size;
    assert_ok(swi_buf_append_str(&packed, "trailing", &err), &err);
    mem_reader_init(&m, packed.data, packed.size);
    (void)!swi_zstd_decode(&m.pub, 0, 0, packed.size, 3000, to_buf, &got, &err);
    assert_error(&err, SW_ERR_CORRUPT, "Unknown frame descriptor");
    assert_in_range(err.offset_bytes, frame, packed.size);
    swi_buf_free(&plain);
    swi_buf_free(&packed);
    swi_buf_free(&got);
}

static void bad_window(void **state)
{
    (void)state;
    /* A frame that declares a window of 1 GiB. */
    static const uint8_t frame[] = {0x28, 0xb5, 0x2f, 0xfd, 0x00, 20 << 3, 0x01, 0x00, 0x00};
    swi_buf got = {0};
    sw_error err = {0};
    mem_reader m;
    mem_reader_init(&m, frame, sizeof(frame));
    (void)!swi_zstd_decode(&m.pub, 0, 0, sizeof(frame), 100, to_buf, &got, &err);
    assert_error(&err, SW_ERR_LIMIT, "window of more than 128 MiB");
    swi_buf_free(&got);
}

static void view_reads_anywhere(void **state)
{
    (void)state;
    const size_t size = 1500000;
    swi_buf plain = {0}, packed = {0};
    sw_error err = {0};
    swi_zstd_view *view;
    mem_reader m;
    harness_prng prng = {5};
    make_frame(&plain, &packed, size, 33);
    mem_reader_init(&m, packed.data, packed.size);
    assert_ok(swi_zstd_view_open(&m.pub, 0, 33, packed.size - 33, size, &view, &err), &err);
    assert_int_equal(swi_zstd_view_bytes(view), size);
    const swi_reader *r = swi_zstd_view_reader(view);
    static uint8_t room[300000];
    for (int i = 0; i < 60; i++) {
        size_t n = (size_t)harness_random_below(&prng, i % 3 ? 5000 : sizeof(room));
        size_t at = (size_t)harness_random_below(&prng, size - n + 1);
        assert_ok(r->read(r, 0, at, room, n, &err), &err);
        assert_memory_equal(room, plain.data + at, n);
    }
    assert_ok(r->read(r, 0, size - 10, room, 10, &err), &err);
    assert_memory_equal(room, plain.data + size - 10, 10);
    (void)!r->read(r, 0, size - 10, room, 11, &err);
    assert_error(&err, SW_ERR_CORRUPT, "11 bytes at 1499990 of 1500000 decoded bytes");
    swi_zstd_view_free(view);
    swi_buf_free(&plain);
    swi_buf_free(&packed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(good_stream),
        cmocka_unit_test(good_two_frames),
        cmocka_unit_test(bad_cut_at_any_length),
        cmocka_unit_test(bad_trailing_and_limit),
        cmocka_unit_test(bad_window),
        cmocka_unit_test(view_reads_anywhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
