/* Sums of what was written, against those of the files; literals that are made of them. */
#include "world.h"

#include "cast.h"

static void read_file(const world_sink *sink, uint32_t file, uint8_t **data, size_t *size)
{
    sw_error err = {0};
    const char *path = swi_catalog_path(swi_layout_catalog(sink->layout), file);
    assert_ok(swi_store_read_all(sink->store, path, UINT32_MAX, data, size, &err), &err);
}

/* Each file ends with its sums. */
static void check_sums(const world_sink *sink)
{
    for (uint32_t f = 0; f < sw_catalog_file_count(swi_layout_catalog(sink->layout)); f++) {
        uint8_t *data;
        size_t size;
        read_file(sink, f, &data, &size);
        for (size_t i = 0; i < swi_layout_sum_count(sink->layout, f); i++) {
            swi_sum range = swi_layout_sum_at(sink->layout, f, i);
            uint32_t crc = swi_crc32(0, data + range.offset_bytes, range.bytes);
            const uint8_t *at = data + swi_layout_late_at(sink->layout, f, 0)->offset_bytes + 4 * i;
            uint32_t found = (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 |
                             (uint32_t)at[3] << 24;
            if (found != crc)
                fail_msg("file %u, sum %zu: %08x, expected %08x", f, i, found, crc);
        }
        free(data);
    }
}

static void run(const world *w, const swi_layout *layout, world_sink *sink,
                const swi_budget *budget)
{
    sw_error err = {0};
    sw_tally tally = {0};
    uint64_t bytes = 0;
    world_sink_make(sink, layout);
    const swi_execute_in in = {
        .source = &w->source, .layout = layout, .sink = &sink->sink, .budget = *budget};
    assert_ok(swi_execute_job(&in, NULL, &tally, &err), &err);
    for (uint32_t f = 0; f < sw_catalog_file_count(swi_layout_catalog(layout)); f++)
        bytes += swi_catalog_file_bytes(swi_layout_catalog(layout), f);
    assert_int_equal(tally.written_bytes, bytes);
    assert_int_equal(sink->finished, sw_catalog_file_count(swi_layout_catalog(layout)));
}

/* Strided pieces, literals and fills, by any number of threads and in windows of any size. */
static void test_random_ranges(void **state)
{
    static const uint32_t threads[] = {1, 2, 7, 16};
    static const size_t windows[] = {16, 100, 4096, 1 << 20};
    (void)state;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        world w = {.late = true, .strided = seed % 2 == 0, .replicas = seed % 3 == 0};
        world_make(&w, seed + 9000);
        swi_layout *layout = world_layout(&w);
        for (size_t i = 0; i < 16; i++) {
            world_sink sink;
            swi_budget budget = {.threads = threads[i / 4],
                                 .window_bytes = windows[i % 4],
                                 .bounce_bytes = 64 + 100 * i};
            run(&w, layout, &sink, &budget);
            world_verify(&w, layout, sink.store);
            check_sums(&sink);
            swi_store_close(sink.store);
        }
        swi_layout_free(layout);
        world_free(&w);
    }
}

/* More parts than are kept at once: what was given up is read back. */
static void test_too_many_parts(void **state)
{
    static const int64_t shape[] = {4, 150000}, whole[] = {1, 1};
    world w = {.count = 1, .plain = true, .fixed_parts = whole};
    sw_error err = {0};
    swi_layout *layout = NULL;
    uint32_t file, tensor, sum;
    uint64_t bytes = 600000;
    world_sink sink;
    swi_tensor_in in = {"t0", 2, SW_U8, 2, shape, SW_ROLE_PARAMETER};
    swi_piece p = {.axes = 2, .view = {4, 150000}, .length = {4, 150000}, .stride_bytes = {1, 4}};
    swi_late late = {.offset_bytes = bytes, .size = 4, .make = world_make_late};
    (void)state;
    w.tensors[0] = (world_tensor){
        .name = "t0", .dtype = SW_U8, .axes = 2, .shape = {4, 150000}, .elements = bytes};
    world_build(&w);
    assert_ok(swi_layout_make(NULL, &layout, &err), &err);
    assert_ok(swi_layout_file(layout, "f", bytes + 4, &file, &err), &err);
    assert_ok(swi_layout_tensor(layout, &in, 0, &tensor, &err), &err);
    assert_ok(swi_layout_piece(layout, tensor, file, 0, bytes, &p, &err), &err);
    assert_ok(swi_layout_sum(layout, file, 0, bytes, &sum, &err), &err);
    assert_ok(swi_layout_late(layout, file, &late, &err), &err);
    assert_ok(swi_layout_freeze(layout, &err), &err);
    swi_budget budget = {.threads = 1, .window_bytes = 150000, .bounce_bytes = 1};
    run(&w, layout, &sink, &budget);
    check_sums(&sink);
    swi_store_close(sink.store);
    swi_layout_free(layout);
    world_free(&w);
}

static void test_cast_on_the_way(void **state)
{
    static const int64_t shape[] = {900};
    world w = {.count = 1};
    sw_error err = {0};
    swi_layout *layout = NULL;
    uint32_t file, tensor, sum;
    world_sink sink;
    swi_tensor_in in = {"t0", 2, SW_BF16, 1, shape, SW_ROLE_PARAMETER};
    swi_piece p = {.axes = 1, .view = {900}, .length = {900}, .stride_bytes = {2}};
    swi_late late = {.offset_bytes = 1800, .size = 4, .make = world_make_late};
    (void)state;
    w.tensors[0] =
        (world_tensor){.name = "t0", .dtype = SW_F32, .axes = 1, .shape = {900}, .elements = 900};
    world_build(&w);
    assert_ok(swi_layout_make(NULL, &layout, &err), &err);
    assert_ok(swi_layout_file(layout, "f", 1804, &file, &err), &err);
    assert_ok(swi_layout_tensor(layout, &in, 0, &tensor, &err), &err);
    assert_ok(swi_layout_piece(layout, tensor, file, 0, 1800, &p, &err), &err);
    assert_ok(swi_layout_sum(layout, file, 0, 1800, &sum, &err), &err);
    assert_ok(swi_layout_late(layout, file, &late, &err), &err);
    assert_ok(swi_layout_freeze(layout, &err), &err);
    swi_budget budget = {.threads = 3, .window_bytes = 400, .out_bytes = 400, .bounce_bytes = 64};
    run(&w, layout, &sink, &budget);
    check_sums(&sink);
    swi_store_close(sink.store);
    swi_layout_free(layout);
    world_free(&w);
}

/* ---- literals alone ---------------------------------------------------------------------------
 */

typedef struct counted {
    int made, freed;
    bool fails;
} counted;

static sw_status make_counted(void *ctx, const uint32_t *sums, uint8_t *out, size_t size,
                              sw_error *err)
{
    counted *c = ctx;
    (void)sums;
    c->made++;
    if (c->fails)
        return swi_fail(err, SW_ERR_LIMIT, "it cannot be made");
    memset(out, 'x', size);
    return SW_OK;
}

static void free_counted(void *ctx)
{
    ((counted *)ctx)->freed++;
}

static swi_layout *alone(counted *c)
{
    sw_error err = {0};
    swi_layout *layout = NULL;
    uint32_t file;
    swi_late late = {.size = 5, .make = make_counted, .ctx = c, .free_ctx = free_counted};
    assert_ok(swi_layout_make(NULL, &layout, &err), &err);
    assert_ok(swi_layout_file(layout, "alone", 5, &file, &err), &err);
    assert_ok(swi_layout_late(layout, file, &late, &err), &err);
    assert_ok(swi_layout_file(layout, "other", 0, &file, &err), &err);
    assert_ok(swi_layout_freeze(layout, &err), &err);
    return layout;
}

static void test_nothing_but_late(void **state)
{
    world w = {.count = 1};
    counted c = {0};
    world_sink sink;
    uint8_t *data;
    size_t size;
    (void)state;
    world_make(&w, 5);
    swi_layout *layout = alone(&c);
    swi_budget budget = {.threads = 2, .window_bytes = 64, .bounce_bytes = 64};
    run(&w, layout, &sink, &budget);
    read_file(&sink, 0, &data, &size);
    assert_int_equal(size, 5);
    assert_memory_equal(data, "xxxxx", 5);
    free(data);
    assert_int_equal(c.made, 1);
    assert_int_equal(c.freed, 0);
    swi_store_close(sink.store);
    swi_layout_free(layout);
    assert_int_equal(c.freed, 1);
    world_free(&w);
}

static void test_one_that_fails(void **state)
{
    world w = {.count = 1};
    counted c = {.fails = true};
    world_sink sink;
    sw_error err = {0};
    (void)state;
    world_make(&w, 5);
    swi_layout *layout = alone(&c);
    world_sink_make(&sink, layout);
    assert_int_equal(swi_execute(&w.source, layout, &sink.sink, NULL, NULL, NULL, &err),
                     SW_ERR_LIMIT);
    assert_error(&err, SW_ERR_LIMIT, "alone: it cannot be made");
    assert_int_equal(sink.finished, 0);
    swi_store_close(sink.store);
    swi_layout_free(layout);
    assert_int_equal(c.freed, 1);
    world_free(&w);
}

static bool skip_first(const void *ctx, uint32_t file)
{
    (void)ctx;
    return file == 0;
}

static void test_a_finished_file_needs_none(void **state)
{
    world w = {.count = 1};
    counted c = {.fails = true};
    world_sink sink;
    sw_error err = {0};
    (void)state;
    world_make(&w, 5);
    swi_layout *layout = alone(&c);
    world_sink_make(&sink, layout);
    sink.sink.skip = skip_first;
    assert_ok(swi_execute(&w.source, layout, &sink.sink, NULL, NULL, NULL, &err), &err);
    assert_int_equal(c.made, 0);
    assert_int_equal(sink.finished, 1);
    swi_store_close(sink.store);
    swi_layout_free(layout);
    world_free(&w);
}

/* ---- what is refused --------------------------------------------------------------------------
 */

static void test_refused(void **state)
{
    sw_error err = {0};
    swi_layout *layout = NULL;
    uint32_t file, sum;
    counted c = {0};
    swi_late late = {.offset_bytes = 4, .size = 5, .make = make_counted, .ctx = &c};
    (void)state;
    assert_ok(swi_layout_make(NULL, &layout, &err), &err);
    assert_ok(swi_layout_file(layout, "f", 8, &file, &err), &err);
    assert_int_equal(swi_layout_late(layout, file, &late, &err), SW_ERR_ARG);
    assert_error(&err, SW_ERR_ARG, "5 bytes at 4 of file 0 pass its end, 8");
    late.size = 0;
    assert_int_equal(swi_layout_late(layout, file, &late, &err), SW_ERR_ARG);
    assert_int_equal(swi_layout_sum(layout, file, 4, 5, &sum, &err), SW_ERR_ARG);
    assert_ok(swi_layout_sum(layout, file, 2, 3, &sum, &err), &err);
    assert_int_equal(swi_layout_sum(layout, file, 4, 1, &sum, &err), SW_ERR_ARG);
    assert_error(&err, SW_ERR_ARG, "a sum from 4 on of file 0 does not follow");
    late.size = 4;
    assert_ok(swi_layout_late(layout, file, &late, &err), &err);
    assert_ok(swi_layout_fill(layout, file, 0, 4, 0, &err), &err);
    assert_int_equal(swi_layout_freeze(layout, &err), SW_ERR_ARG);
    assert_error(&err, SW_ERR_ARG, "the sum from 2 on of file 0 reaches into bytes");
    swi_layout_free(layout);
}

static void test_late_bytes_are_tiled(void **state)
{
    sw_error err = {0};
    swi_layout *layout = NULL;
    uint32_t file;
    swi_late late = {.offset_bytes = 4, .size = 3, .make = make_counted};
    (void)state;
    assert_ok(swi_layout_make(NULL, &layout, &err), &err);
    assert_ok(swi_layout_file(layout, "f", 8, &file, &err), &err);
    assert_ok(swi_layout_late(layout, file, &late, &err), &err);
    assert_ok(swi_layout_fill(layout, file, 0, 4, 0, &err), &err);
    assert_int_equal(swi_layout_freeze(layout, &err), SW_ERR_ARG);
    assert_error(&err, SW_ERR_ARG, "f: nothing fills bytes 7 to 8");
    swi_layout_free(layout);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_ranges),   cmocka_unit_test(test_too_many_parts),
        cmocka_unit_test(test_cast_on_the_way), cmocka_unit_test(test_nothing_but_late),
        cmocka_unit_test(test_one_that_fails),  cmocka_unit_test(test_a_finished_file_needs_none),
        cmocka_unit_test(test_refused),         cmocka_unit_test(test_late_bytes_are_tiled),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
