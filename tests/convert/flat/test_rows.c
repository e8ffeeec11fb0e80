/* Rows of flattened parameters: which parameters, in which order, at which places. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "flat/rows.h"

static swi_shape shapes_items[] = {
    {.name = "embed.w", .axes = 2, .shape = {5, 2}, .tied_to = -1},
    {.name = "layers.0.q.w", .axes = 1, .shape = {3}, .tied_to = -1},
    {.name = "layers.0.k.w", .axes = 1, .shape = {7}, .tied_to = -1},
    {.name = "layers.0.count", .axes = 0, .tied_to = -1, .buffer = true},
    {.name = "layers.1.q.w", .axes = 1, .shape = {4}, .tied_to = -1},
    {.name = "layers.10.q.w", .axes = 1, .shape = {1}, .tied_to = -1},
    {.name = "norm.w", .axes = 0, .tied_to = -1},
    {.name = "head.w", .axes = 2, .shape = {5, 2}, .tied_to = 0},
};
static const swi_shapes shapes = {
    .items = shapes_items, .count = sizeof shapes_items / sizeof shapes_items[0], .ordered = true};

static void expect_row(const swi_row *row, const char *unit, size_t count,
                       const uint32_t *parameters)
{
    assert_string_equal(row->unit, unit);
    assert_int_equal(row->count, count);
    for (size_t i = 0; i < count; i++)
        assert_int_equal(row->items[i].parameter, parameters[i]);
}

static void test_units(void **state)
{
    static const char *const units[] = {"layers.10", "layers.1", "layers.0"};
    swi_rows rows;
    sw_error err = {0};
    (void)state;
    assert_int_equal(swi_rows_of_units(&shapes, NULL, units, 3, &rows, &err), SW_OK);
    assert_int_equal(rows.count, 4); /* the root first: its module is above the others */
    expect_row(&rows.items[0], "", 2, (const uint32_t[]){0, 6});
    expect_row(&rows.items[1], "layers.0", 2, (const uint32_t[]){1, 2});
    expect_row(&rows.items[2], "layers.1", 1, (const uint32_t[]){4});
    expect_row(&rows.items[3], "layers.10", 1, (const uint32_t[]){5});
    swi_rows_free(&rows);
}

/* A unit inside a unit, one without parameters of its own, and a root that has none left. */
static void test_nested_units(void **state)
{
    static const char *const units[] = {"layers.0", "layers", "layers.0.q", "embed", "norm"};
    static const bool left_out[] = {false, false, true, false, false, false, false, false};
    swi_rows rows;
    sw_error err = {0};
    (void)state;
    assert_int_equal(swi_rows_of_units(&shapes, left_out, units, 5, &rows, &err), SW_OK);
    assert_int_equal(rows.count, 4);
    expect_row(&rows.items[0], "embed", 1, (const uint32_t[]){0});
    expect_row(&rows.items[1], "layers", 2, (const uint32_t[]){4, 5});
    expect_row(&rows.items[2], "layers.0.q", 1, (const uint32_t[]){1});
    expect_row(&rows.items[3], "norm", 1, (const uint32_t[]){6});
    swi_rows_free(&rows);
}

static void test_places(void **state)
{
    swi_row_item items[] = {{.elements = 10}, {.elements = 3}, {.elements = 7}};
    swi_row row = {.unit = "", .items = items, .count = 3};
    sw_error err = {0};
    (void)state;
    assert_int_equal(swi_row_place(&row, 1, 4, &err), SW_OK);
    assert_int_equal(items[1].at, 10);
    assert_int_equal(items[2].at, 13);
    assert_int_equal(row.total, 20); /* the padding of the shards is behind it */
    assert_int_equal(swi_row_place(&row, 8, 4, &err), SW_OK);
    assert_int_equal(items[1].at, 16);
    assert_int_equal(items[2].at, 24);
    assert_int_equal(row.total, 32); /* 31, and one that makes it four equal shards */
    assert_int_equal(swi_row_shard(row.total, 4), 8);
    assert_int_equal(swi_row_shard(20, 3), 7);
    items[0].elements = UINT64_MAX;
    assert_int_equal(swi_row_place(&row, 8, 4, &err), SW_ERR_LIMIT);
}

static void test_patterns(void **state)
{
    swi_pattern *patterns[2] = {NULL, NULL};
    swi_arena arena = {0};
    const char **units;
    size_t count;
    sw_error err = {0};
    (void)state;
    assert_int_equal(swi_pattern_parse("layers.{n}", 10, &patterns[0], &err), SW_OK);
    assert_int_equal(swi_units_matching(&shapes, patterns, 1, &arena, &units, &count, &err), SW_OK);
    assert_int_equal(count, 3);
    assert_string_equal(units[0], "layers.0");
    assert_string_equal(units[2], "layers.10");
    assert_int_equal(swi_pattern_parse("blocks.*", 8, &patterns[1], &err), SW_OK);
    assert_int_equal(swi_units_matching(&shapes, patterns, 2, &arena, &units, &count, &err),
                     SW_ERR_ARG);
    assert_non_null(strstr(err.text, "blocks.*"));
    swi_pattern_free(patterns[0]);
    swi_pattern_free(patterns[1]);
    swi_arena_free(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_units),
        cmocka_unit_test(test_nested_units),
        cmocka_unit_test(test_places),
        cmocka_unit_test(test_patterns),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
