/* sw_load: what is refused and how it is said, structs of other versions, calls side by side. */
#include "convert/fixture.h"

#include <pthread.h>

#define ROWS 6
#define COLUMNS 4

/* "w" of 6 x 4 floats that count up, in a safetensors file. */
static sw_checkpoint *open_one(const char *dir)
{
    sw_checkpoint *c = NULL;
    sw_error err = {0};
    write_st_one(harness_path(dir, "model.safetensors"), "w", ROWS, COLUMNS, 0);
    assert_ok(sw_checkpoint_open(dir, NULL, NULL, &c, &err), &err);
    return c;
}

static sw_region region_of(float *out, size_t out_bytes)
{
    return (sw_region){.struct_bytes = sizeof(sw_region),
                       .tensor = "w",
                       .dtype = SW_F32,
                       .axes = 2,
                       .offset = {1, 2},
                       .length = {2, 2},
                       .out = out,
                       .out_bytes = out_bytes};
}

static void test_a_box(void **state)
{
    sw_checkpoint *c = open_one(*state);
    sw_error err = {0};
    sw_tally tally = {0};
    float out[4], wide[7] = {0}, row[4];
    sw_region r[3] = {region_of(out, sizeof out), region_of(wide, sizeof wide),
                      region_of(row, sizeof row)};
    r[1].strided = true;
    r[1].stride_bytes[0] = 4; /* columns first */
    r[1].stride_bytes[1] = 20;
    r[2].offset[0] = 5;
    r[2].offset[1] = 0;
    r[2].length[0] = 1;
    r[2].length[1] = 4;
    assert_ok(sw_load(c, r, 3, NULL, NULL, &tally, &err), &err);
    assert_true(out[0] == 6 && out[1] == 7 && out[2] == 10 && out[3] == 11);
    assert_true(wide[0] == 6 && wide[5] == 7 && wide[1] == 10 && wide[6] == 11);
    assert_true(wide[2] == 0 && wide[3] == 0 && wide[4] == 0);
    for (int i = 0; i < 4; i++)
        assert_true(row[i] == (float)(20 + i));
    assert_int_equal(tally.checked_bytes, 0);
    assert_true(tally.unchecked_bytes > 0 && tally.unchecked_bytes == tally.read_bytes);
    assert_ok(sw_load(c, NULL, 0, NULL, NULL, NULL, &err), &err);
    sw_checkpoint_close(c);
}

/* Each is refused before anything is written, in the second of two regions. */
static void refused(const sw_checkpoint *c, sw_region bad, sw_status status, const char *text)
{
    sw_error err = {0};
    float out[4] = {-1, -1, -1, -1};
    sw_region r[2] = {region_of(out, sizeof out), bad};
    assert_int_equal(sw_load(c, r, 2, NULL, NULL, NULL, &err), status);
    assert_error(&err, status, text);
    assert_contains(err.text, "region 1: tensor \"");
    assert_true(out[0] == -1 && out[3] == -1);
    assert_int_equal(sw_load(c, r, 2, NULL, NULL, NULL, NULL), status);
}

static void test_what_is_refused(void **state)
{
    sw_checkpoint *c = open_one(*state);
    float out[24];
    const sw_region good = region_of(out, sizeof out);
    sw_region r = good;
    r.tensor = "v";
    refused(c, r, SW_ERR_NOTFOUND, "tensor \"v\": there is no such tensor");
    r.tensor = NULL;
    refused(c, r, SW_ERR_NOTFOUND, "there is no such tensor");
    r = good;
    r.dtype = SW_BF16;
    refused(c, r, SW_ERR_ARG, "it is float32, not bfloat16");
    r = good;
    r.axes = 1;
    refused(c, r, SW_ERR_ARG, "a region of 1 axes, the tensor has 2");
    r = good;
    r.offset[1] = 3;
    refused(c, r, SW_ERR_ARG, "axis 1: 2 elements from 3 on, its size is 4");
    r.offset[1] = -1;
    refused(c, r, SW_ERR_ARG, "axis 1: 2 elements from -1 on");
    r.offset[1] = INT64_MAX;
    refused(c, r, SW_ERR_ARG, "its size is 4");
    r = good;
    r.length[0] = INT64_MAX;
    refused(c, r, SW_ERR_ARG, "axis 0: ");
    r = good;
    r.out_bytes = 15;
    refused(c, r, SW_ERR_ARG, "the region takes 16 bytes, out has 15");
    r = good;
    r.out = NULL;
    refused(c, r, SW_ERR_ARG, "out has 0");
    r.length[0] = 0;
    sw_error err = {0};
    assert_ok(sw_load(c, &r, 1, NULL, NULL, NULL, &err), &err);
    sw_checkpoint_close(c);
}

static void test_strides_that_are_refused(void **state)
{
    sw_checkpoint *c = open_one(*state);
    float out[24];
    sw_region r = region_of(out, sizeof out);
    r.strided = true;
    r.stride_bytes[0] = 8;
    r.stride_bytes[1] = -4;
    refused(c, r, SW_ERR_ARG, "axis 1: with a stride of -4 bytes elements would overlap");
    r.stride_bytes[1] = 3;
    refused(c, r, SW_ERR_ARG, "axis 1: with a stride of 3 bytes elements would overlap");
    r.stride_bytes[0] = 4;
    r.stride_bytes[1] = 4;
    refused(c, r, SW_ERR_ARG, "elements would overlap");
    r.stride_bytes[0] = INT64_MAX;
    refused(c, r, SW_ERR_ARG, "axis 0: strides pass all bounds");
    r.stride_bytes[0] = 96;
    refused(c, r, SW_ERR_ARG, "the region takes 104 bytes, out has 96");
    sw_checkpoint_close(c);
}

/* A caller of a later version: longer structs, of which the rest is zero. */
static void test_structs_of_other_versions(void **state)
{
    sw_checkpoint *c = open_one(*state);
    sw_error err = {0};
    float out[2][4];
    struct later {
        sw_region known;
        uint64_t more;
    } r[2] = {{.known = region_of(out[0], sizeof out[0])},
              {.known = region_of(out[1], sizeof out[1])}};
    r[0].known.struct_bytes = r[1].known.struct_bytes = sizeof r[0];
    assert_ok(sw_load(c, &r[0].known, 2, NULL, NULL, NULL, &err), &err);
    assert_true(out[0][0] == 6 && out[1][3] == 11);
    r[1].more = 1;
    assert_int_equal(sw_load(c, &r[0].known, 2, NULL, NULL, NULL, &err), SW_ERR_UNSUPPORTED);
    assert_error(&err, SW_ERR_UNSUPPORTED, "region 1: tensor \"w\": byte ");
    r[1].known.struct_bytes = sizeof(sw_region);
    assert_int_equal(sw_load(c, &r[0].known, 2, NULL, NULL, NULL, &err), SW_ERR_ARG);
    assert_error(&err, SW_ERR_ARG, "that of the first one");
    r[0].known.struct_bytes = sizeof(sw_region) - 1;
    assert_int_equal(sw_load(c, &r[0].known, 1, NULL, NULL, NULL, &err), SW_ERR_ARG);
    assert_error(&err, SW_ERR_ARG, "struct_bytes of a region is");
    sw_checkpoint_close(c);
}

/* A file that is missing makes tensors that are refused; others are read. */
static void test_damaged_tensors(void **state)
{
    char *dir = harness_path(*state, "demo");
    sw_checkpoint *c = NULL;
    sw_report *report = NULL;
    sw_error err = {0};
    make_demo(dir);
    assert_int_equal(unlink(harness_path(dir, "__1_0.distcp")), 0);
    assert_ok(sw_report_make(&report, &err), &err);
    assert_ok(sw_checkpoint_open(dir, NULL, report, &c, &err), &err);
    float out[48];
    sw_region r = {.struct_bytes = sizeof r,
                   .tensor = "model.embedding.weight",
                   .axes = 2,
                   .length = {1, 48},
                   .out = out,
                   .out_bytes = sizeof out};
    assert_int_equal(sw_load(c, &r, 1, NULL, NULL, NULL, &err), SW_ERR_INCOMPLETE);
    assert_error(&err, SW_ERR_INCOMPLETE, "tensor \"model.embedding.weight\" is damaged");
    sw_report_free(report);
    sw_checkpoint_close(c);
}

#define MATRIX_ROWS 4096
#define MATRIX_COLUMNS 2048

/* Reads the box of the native matrix; returns what was read of it, all of it checked. */
static uint64_t read_box(const sw_checkpoint *c, float *out, int64_t row, int64_t rows,
                         int64_t column, int64_t columns)
{
    sw_error err = {0};
    sw_tally tally = {0};
    sw_region r = region_of(out, (size_t)(rows * columns) * sizeof *out);
    r.offset[0] = row;
    r.offset[1] = column;
    r.length[0] = rows;
    r.length[1] = columns;
    assert_ok(sw_load(c, &r, 1, NULL, NULL, &tally, &err), &err);
    for (int64_t i = 0; i < rows; i++)
        assert_true(out[i * columns] == (float)((row + i) * MATRIX_COLUMNS + column));
    assert_int_equal(tally.checked_bytes, tally.read_bytes);
    return tally.read_bytes;
}

/* One of 64 parts of the rows, and one of 4 of the columns, of a native checkpoint of 32 MiB. */
static void test_slices_read_little(void **state)
{
    char *source = harness_path(*state, "in"), *dest = harness_path(*state, "native");
    const uint64_t bytes = sizeof(float) * MATRIX_ROWS * MATRIX_COLUMNS;
    const uint64_t chunk = UINT64_C(128) << 10; /* of this matrix (format/native/grid.h) */
    const int64_t rows = MATRIX_ROWS / 64, columns = MATRIX_COLUMNS / 4;
    sw_checkpoint *c = NULL;
    sw_error err = {0};
    outcome o;
    float *out = malloc(bytes / 4);
    assert_non_null(out);
    write_st_one(harness_path(source, "model.safetensors"), "w", MATRIX_ROWS, MATRIX_COLUMNS, 0);
    run_convert(source, dest, &(sw_convert_options){.to = "native:codec=stored,ranks=1"}, &o);
    assert_fine(&o);
    outcome_free(&o);
    assert_ok(sw_checkpoint_open(dest, NULL, NULL, &c, &err), &err);
    for (int64_t part = 0; part < 64; part += 7)
        assert_true(read_box(c, out, part * rows, rows, 0, MATRIX_COLUMNS) <=
                    bytes / 64 + bytes / 64 / 20 + 2 * chunk);
    for (int64_t part = 0; part < 4; part++)
        assert_true(read_box(c, out, 0, MATRIX_ROWS, part * columns, columns) <= bytes / 4 * 2);
    /* Over the borders of chunks, each is still read once. */
    assert_true(read_box(c, out, 1000, 100, 500, 600) <= 3 * 3 * chunk);
    free(out);
    sw_checkpoint_close(c);
}

/* ---- side by side --------------------------------------------------------------------------- */

typedef struct caller {
    const sw_checkpoint *checkpoint;
    int64_t row;
    bool right;
} caller;

static void *call(void *arg)
{
    caller *me = arg;
    me->right = true;
    for (int i = 0; i < 50; i++) {
        float out[COLUMNS];
        sw_region r = region_of(out, sizeof out);
        r.offset[0] = me->row;
        r.offset[1] = 0;
        r.length[0] = 1;
        r.length[1] = COLUMNS;
        if (sw_load(me->checkpoint, &r, 1, NULL, NULL, NULL, NULL) != SW_OK ||
            out[3] != (float)(me->row * COLUMNS + 3))
            me->right = false;
    }
    return NULL;
}

static void test_calls_side_by_side(void **state)
{
    sw_checkpoint *c = open_one(*state);
    pthread_t threads[ROWS];
    caller callers[ROWS];
    for (int i = 0; i < ROWS; i++) {
        callers[i] = (caller){.checkpoint = c, .row = i};
        assert_int_equal(pthread_create(&threads[i], NULL, call, &callers[i]), 0);
    }
    for (int i = 0; i < ROWS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_true(callers[i].right);
    }
    sw_checkpoint_close(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        test_in_dir(test_a_box),
        test_in_dir(test_what_is_refused),
        test_in_dir(test_strides_that_are_refused),
        test_in_dir(test_structs_of_other_versions),
        test_in_dir(test_damaged_tensors),
        test_in_dir(test_slices_read_little),
        test_in_dir(test_calls_side_by_side),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
