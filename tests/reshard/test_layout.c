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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_whole_layout),         cmocka_unit_test(test_a_gap),
        cmocka_unit_test(test_a_missing_end),        cmocka_unit_test(test_twice),
        cmocka_unit_test(test_a_tensor_with_a_hole), cmocka_unit_test(test_what_is_refused_at_once),
        cmocka_unit_test(test_any_order_of_axes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
