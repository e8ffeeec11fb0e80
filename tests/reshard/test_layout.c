/* Layouts: what is refused while they are made, and the faults that freezing finds. */
#include "harness/harness.h"

#include <stdlib.h>
#include <string.h>

#include "layout.h"

static swi_layout *make(void)
{
    sw_error err = {0};
    swi_layout *layout = NULL;
    uint32_t file;
    assert_ok(swi_layout_make(NULL, &layout, &err), &err);
    assert_ok(swi_layout_file(layout, "out/a", 20, &file, &err), &err);
    assert_int_equal(file, 0);
    return layout;
}

/* A tensor of 2 x 4 bytes. */
static uint32_t add_tensor(swi_layout *layout, const char *name)
{
    sw_error err = {0};
    const int64_t shape[] = {2, 4};
    uint32_t tensor;
    swi_tensor_in in = {name, strlen(name), SW_U8, 2, shape, SW_ROLE_PARAMETER};
    assert_ok(swi_layout_tensor(layout, &in, 5, &tensor, &err), &err);
    return tensor;
}

static sw_status add_rows(swi_layout *layout, uint32_t tensor, int64_t row, int64_t rows,
                          uint64_t offset, sw_error *err)
{
    swi_piece p = {.axes = 2, .view = {2, 4}, .offset = {row, 0}, .length = {rows, 4}};
    swi_piece_make_dense(&p, 1);
    return swi_layout_piece(layout, tensor, 0, offset, (uint64_t)rows * 4, &p, err);
}

static void test_whole_layout(void **state)
{
    sw_error err = {0};
    swi_layout *layout = make();
    uint32_t t = add_tensor(layout, "t");
    swi_literal l;
    (void)state;
    assert_ok(swi_layout_fill(layout, 0, 14, 6, 7, &err), &err);
    assert_ok(swi_layout_literal(layout, 0, 0, "head", 4, &err), &err);
    assert_ok(swi_layout_literal(layout, 0, 4, "", 0, &err), &err);
    assert_ok(add_rows(layout, t, 1, 1, 10, &err), &err);
    assert_ok(add_rows(layout, t, 0, 1, 6, &err), &err);
    assert_ok(swi_layout_fill(layout, 0, 4, 2, 9, &err), &err);
    assert_ok(swi_layout_freeze(layout, &err), &err);
    assert_int_equal(swi_layout_source(layout, t), 5);
    assert_int_equal(swi_layout_literal_count(layout, 0), 3);
    swi_layout_literal_at(layout, 0, 0, &l);
    assert_int_equal(l.offset_bytes, 0);
    assert_memory_equal(l.data, "head", 4);
    swi_layout_literal_at(layout, 0, 1, &l);
    assert_int_equal(l.offset_bytes, 4);
    assert_null(l.data);
    assert_int_equal(l.fill, 9);
    swi_layout_literal_at(layout, 0, 2, &l);
    assert_int_equal(l.size, 6);
    assert_int_equal(swi_layout_file(layout, "late", 1, &t, &err), SW_ERR_ARG);
    assert_error(&err, SW_ERR_ARG, "frozen");
    swi_layout_free(layout);
}

static void test_a_gap(void **state)
{
    sw_error err = {0};
    swi_layout *layout = make();
    (void)state;
    assert_ok(swi_layout_fill(layout, 0, 0, 5, 0, &err), &err);
    assert_ok(swi_layout_fill(layout, 0, 8, 12, 0, &err), &err);
    assert_int_equal(swi_layout_freeze(layout, &err), SW_ERR_ARG);
    assert_error(&err, SW_ERR_ARG, "out/a: nothing fills bytes 5 to 8");
    swi_layout_free(layout);
}

static void test_a_missing_end(void **state)
{
    sw_error err = {0};
    swi_layout *layout = make();
    (void)state;
    assert_ok(swi_layout_fill(layout, 0, 0, 19, 0, &err), &err);
    assert_int_equal(swi_layout_freeze(layout, &err), SW_ERR_ARG);
    assert_error(&err, SW_ERR_ARG, "out/a: nothing fills bytes 19 to 20");
    swi_layout_free(layout);
}

static void test_twice(void **state)
{
    sw_error err = {0};
    swi_layout *layout = make();
    uint32_t t = add_tensor(layout, "t");
    (void)state;
    assert_ok(add_rows(layout, t, 0, 2, 0, &err), &err);
    assert_ok(swi_layout_fill(layout, 0, 7, 13, 0, &err), &err);
    assert_int_equal(swi_layout_freeze(layout, &err), SW_ERR_ARG);
    assert_error(&err, SW_ERR_ARG, "out/a: bytes from 7 on are there twice");
    swi_layout_free(layout);
}

static void test_a_tensor_with_a_hole(void **state)
{
    sw_error err = {0};
    swi_layout *layout = make();
    uint32_t t = add_tensor(layout, "holed");
    (void)state;
    assert_ok(add_rows(layout, t, 0, 1, 0, &err), &err);
    assert_ok(swi_layout_fill(layout, 0, 4, 16, 0, &err), &err);
    assert_int_equal(swi_layout_freeze(layout, &err), SW_ERR_ARG);
    assert_error(&err, SW_ERR_ARG, "layout: tensor \"holed\": ");
    swi_layout_free(layout);
}

static void test_what_is_refused_at_once(void **state)
{
    sw_error err = {0};
    swi_layout *layout = make();
    uint32_t t = add_tensor(layout, "t"), file;
    (void)state;
    assert_int_equal(swi_layout_file(layout, "out/a", 20, &file, &err), SW_ERR_ARG);
    assert_error(&err, SW_ERR_ARG, "\"out/a\" is there twice");
    assert_int_equal(swi_layout_fill(layout, 0, 15, 6, 0, &err), SW_ERR_ARG);
    assert_error(&err, SW_ERR_ARG, "6 bytes at 15 of file 0 pass its end, 20");
    assert_int_equal(swi_layout_fill(layout, 0, UINT64_MAX, 2, 0, &err), SW_ERR_ARG);
    assert_int_equal(swi_layout_literal(layout, 3, 0, "x", 1, &err), SW_ERR_ARG);
    assert_error(&err, SW_ERR_ARG, "no file 3");
    assert_int_equal(add_rows(layout, 9, 0, 1, 0, &err), SW_ERR_ARG);
    assert_error(&err, SW_ERR_ARG, "no tensor 9");
    /* A piece that leaves bytes free, one that starts late, one that is too large. */
    swi_piece p = {.axes = 2, .view = {2, 4}, .length = {2, 4}, .stride_bytes = {5, 1}};
    assert_int_equal(swi_layout_piece(layout, t, 0, 0, 9, &p, &err), SW_ERR_ARG);
    assert_error(&err, SW_ERR_ARG, "a piece of tensor 0 does not fill the 9 bytes at 0");
    p.stride_bytes[0] = 4;
    p.base_bytes = 1;
    assert_int_equal(swi_layout_piece(layout, t, 0, 0, 8, &p, &err), SW_ERR_ARG);
    p.base_bytes = 0;
    assert_int_equal(swi_layout_piece(layout, t, 0, 0, 7, &p, &err), SW_ERR_ARG);
    assert_ok(swi_layout_piece(layout, t, 0, 0, 8, &p, &err), &err);
    swi_layout_free(layout);
}

static void test_any_order_of_axes(void **state)
{
    sw_error err = {0};
    swi_layout *layout = make();
    uint32_t t = add_tensor(layout, "t");
    swi_piece p = {.axes = 2, .view = {2, 4}, .length = {2, 4}, .stride_bytes = {1, 2}};
    (void)state;
    assert_ok(swi_layout_piece(layout, t, 0, 12, 8, &p, &err), &err);
    assert_ok(swi_layout_fill(layout, 0, 0, 12, 0, &err), &err);
    assert_ok(swi_layout_freeze(layout, &err), &err);
    swi_layout_free(layout);
}

/* ---- arrays of several parts --------------------------------------------------------------- */

static sw_status add_block(swi_layout *layout, uint32_t tensor, const int64_t shape[2],
                           const swi_block_part *parts, size_t count, sw_error *err)
{
    static const int64_t view[] = {2, 4};
    const swi_block block = {
        .axes = 2, .view = view, .shape = shape, .parts = parts, .part_count = count};
    return swi_layout_block(layout, tensor, 0, 4, &block, err);
}

/* Columns 2 and 3, then column 0, of the tensor of 2 x 4 bytes; column 1 elsewhere. */
static void test_a_block(void **state)
{
    static const int64_t shape[] = {2, 3};
    static const swi_block_part parts[] = {
        {{0, 2}, {2, 2}, {0, 0}}, {{0, 3}, {0, 1}, {0, 0}}, {{0, 0}, {2, 1}, {0, 2}}};
    sw_error err = {0};
    swi_layout *layout = make();
    uint32_t t = add_tensor(layout, "t");
    swi_piece p = {.axes = 2, .view = {2, 4}, .offset = {0, 1}, .length = {2, 1}};
    (void)state;
    swi_piece_make_dense(&p, 1);
    assert_ok(add_block(layout, t, shape, parts, 3, &err), &err);
    assert_ok(swi_layout_piece(layout, t, 0, 10, 2, &p, &err), &err);
    assert_ok(swi_layout_fill(layout, 0, 0, 4, 0, &err), &err);
    assert_ok(swi_layout_fill(layout, 0, 12, 8, 0, &err), &err);
    assert_ok(swi_layout_freeze(layout, &err), &err);
    const sw_catalog *catalog = swi_layout_catalog(layout);
    swi_blob blob;
    assert_int_equal(swi_catalog_blob_count(catalog), 2);
    swi_tensor_piece(catalog, t, 0, &p); /* column 0 */
    swi_catalog_blob(catalog, p.blob, &blob);
    assert_int_equal(blob.offset_bytes, 4);
    assert_int_equal(blob.bytes, 6);
    assert_int_equal(p.base_bytes, 2);
    swi_tensor_piece(catalog, t, 2, &p); /* columns 2 and 3 */
    assert_int_equal(p.base_bytes, 0);
    assert_int_equal(p.length[0] * p.length[1], 4);
    swi_layout_free(layout);
}

static void refuse_block(const int64_t shape[2], const swi_block_part *parts, size_t count,
                         const char *text)
{
    sw_error err = {0};
    swi_layout *layout = make();
    uint32_t t = add_tensor(layout, "t");
    assert_int_equal(add_block(layout, t, shape, parts, count, &err), SW_ERR_ARG);
    assert_error(&err, SW_ERR_ARG, text);
    swi_layout_free(layout);
}

static void test_blocks_that_are_refused(void **state)
{
    static const int64_t shape[] = {2, 3}, negative[] = {2, -3}, large[] = {9, 9};
    static const int64_t huge[] = {INT64_MAX, 8};
    static const swi_block_part overlap[] = {{{0, 0}, {2, 2}, {0, 0}}, {{0, 2}, {2, 2}, {0, 1}}};
    static const swi_block_part hole[] = {{{0, 0}, {2, 2}, {0, 0}}, {{0, 2}, {1, 1}, {1, 2}}};
    static const swi_block_part outside[] = {{{0, 0}, {2, 3}, {0, 1}}};
    static const swi_block_part before[] = {{{0, 0}, {2, 3}, {0, -1}}};
    static const swi_block_part backwards[] = {{{0, 0}, {2, -1}, {0, 1}}};
    static const swi_block_part all[] = {{{0, 0}, {9, 9}, {0, 0}}};
    (void)state;
    refuse_block(shape, overlap, 2, "a block of tensor 0: two of its parts overlap in the array");
    refuse_block(shape, hole, 2, "a block of tensor 0: no part fills element 2 of the array");
    refuse_block(shape, NULL, 0, "no part fills element 0 of the array");
    refuse_block(shape, outside, 1, "a part lies outside of it");
    refuse_block(shape, before, 1, "a part lies outside of it");
    refuse_block(shape, backwards, 1, "a part lies outside of it");
    refuse_block(negative, overlap, 2, "its array has no size");
    refuse_block(huge, overlap, 2, "its array has no size");
    refuse_block(large, all, 1, "81 bytes at 4 of file 0 pass its end, 20");
}

/* A part of what the tensor does not have, and axes that no piece has: seen at the end, at once. */
static void test_a_block_outside_its_tensor(void **state)
{
    static const int64_t shape[] = {2, 4};
    static const swi_block_part parts[] = {{{0, 1}, {2, 4}, {0, 0}}};
    sw_error err = {0};
    swi_layout *layout = make();
    uint32_t t = add_tensor(layout, "far");
    const swi_block deep = {.axes = SW_MAX_AXES + 1};
    (void)state;
    assert_int_equal(swi_layout_block(layout, t, 0, 0, &deep, &err), SW_ERR_ARG);
    assert_error(&err, SW_ERR_ARG, "it has too many axes");
    assert_int_equal(add_block(layout, 3, shape, parts, 1, &err), SW_ERR_ARG);
    assert_error(&err, SW_ERR_ARG, "no tensor 3");
    assert_ok(add_block(layout, t, shape, parts, 1, &err), &err);
    assert_ok(swi_layout_fill(layout, 0, 0, 4, 0, &err), &err);
    assert_ok(swi_layout_fill(layout, 0, 12, 8, 0, &err), &err);
    assert_int_equal(swi_layout_freeze(layout, &err), SW_ERR_ARG);
    assert_error(&err, SW_ERR_ARG, "layout: tensor \"far\": ");
    swi_layout_free(layout);
}

/* ---- copies --------------------------------------------------------------------------------- */

/* Row 0 twice: a fault, unless they are said to be copies. A hole is one in any case. */
static void test_copies(void **state)
{
    (void)state;
    for (int how = 0; how < 3; how++) {
        sw_error err = {0};
        swi_layout *layout = make();
        uint32_t t = add_tensor(layout, "twice");
        if (how > 0)
            assert_ok(swi_layout_replicas(layout, t, &err), &err);
        assert_ok(add_rows(layout, t, 0, how == 2 ? 1 : 2, 0, &err), &err);
        assert_ok(add_rows(layout, t, 0, 1, 8, &err), &err);
        assert_ok(swi_layout_fill(layout, 0, how == 2 ? 4 : 12, how == 2 ? 4 : 8, 0, &err), &err);
        if (how == 2)
            assert_ok(swi_layout_fill(layout, 0, 12, 8, 0, &err), &err);
        sw_status status = swi_layout_freeze(layout, &err);
        if (how == 1)
            assert_ok(status, &err);
        else
            assert_error(&err, SW_ERR_ARG, "layout: tensor \"twice\": ");
        if (how == 2)
            assert_contains(err.text, "shards hold 4 of 8 elements");
        assert_int_equal(swi_layout_replicas(layout, t, &err), SW_ERR_ARG);
        assert_error(&err, SW_ERR_ARG, "frozen");
        swi_layout_free(layout);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_whole_layout),
        cmocka_unit_test(test_a_gap),
        cmocka_unit_test(test_a_missing_end),
        cmocka_unit_test(test_twice),
        cmocka_unit_test(test_a_tensor_with_a_hole),
        cmocka_unit_test(test_what_is_refused_at_once),
        cmocka_unit_test(test_any_order_of_axes),
        cmocka_unit_test(test_a_block),
        cmocka_unit_test(test_blocks_that_are_refused),
        cmocka_unit_test(test_a_block_outside_its_tensor),
        cmocka_unit_test(test_copies),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
