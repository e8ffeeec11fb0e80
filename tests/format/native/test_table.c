#include "native/table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "fuzz/hex.h"
#include "harness/harness.h"

/* Three tensors as version 1 of the format has them: made by another program from the
 * specification. At 32 ends of names, 48 ends of shapes, 64 layouts, 80 types, 88 roles, 96 flags,
 * 104 shapes, 144 digests, 240 names. */
static const char golden_hex[] = "hex"
                                 "53575441424c45310300000005000000"
                                 "10000000000000000000000000000000"
                                 "090000000c0000001000000000000000"
                                 "02000000020000000500000000000000"
                                 "00000000010000000000000000000000"
                                 "0c0b0100000000000102000000000000"
                                 "00010000000000000200000000000000"
                                 "03000000000000000000000000000000"
                                 "07000000000000000100000000000000"
                                 "00000000000000000000000000000000"
                                 "00000000000000000000000000000000"
                                 "000102030405060708090a0b0c0d0e0f"
                                 "101112131415161718191a1b1c1d1e1f"
                                 "00000000000000000000000000000000"
                                 "00000000000000000000000000000000"
                                 "612e77656967687400c3a900c3a97400";

static uint8_t *golden(size_t *size)
{
    uint8_t *data = bytes_of_hex((const uint8_t *)golden_hex, sizeof golden_hex - 1, size);
    assert_non_null(data);
    return data;
}

static void the_three(swi_native_tensor tensors[3])
{
    memset(tensors, 0, 3 * sizeof *tensors);
    tensors[0] = (swi_native_tensor){.name = "a.weight",
                                     .name_size = 8,
                                     .dtype = SW_F32,
                                     .role = SW_ROLE_PARAMETER,
                                     .axes = 2,
                                     .shape = {2, 3}};
    tensors[1] = (swi_native_tensor){.name = "\xc3\xa9",
                                     .name_size = 2,
                                     .dtype = SW_BF16,
                                     .role = SW_ROLE_OPTIMIZER,
                                     .layout = 1,
                                     .has_digest = true};
    for (uint8_t i = 0; i < SWI_DIGEST_BYTES; i++)
        tensors[1].digest.bytes[i] = i;
    tensors[2] = (swi_native_tensor){
        .name = "\xc3\xa9t", .name_size = 3, .dtype = SW_BOOL, .axes = 3, .shape = {0, 7, 1}};
}

static void expect_same(const swi_native_tensor *a, const swi_native_tensor *b)
{
    assert_int_equal(a->name_size, b->name_size);
    if (a->name_size > 0)
        assert_memory_equal(a->name, b->name, a->name_size);
    assert_int_equal(a->dtype, b->dtype);
    assert_int_equal(a->role, b->role);
    assert_int_equal(a->layout, b->layout);
    assert_int_equal(a->axes, b->axes);
    if (a->axes > 0)
        assert_memory_equal(a->shape, b->shape, a->axes * sizeof *a->shape);
    assert_int_equal(a->has_digest, b->has_digest);
    if (a->has_digest)
        assert_memory_equal(&a->digest, &b->digest, sizeof a->digest);
}

/* ---- as the specification has it ----------------------------------------------------------- */

static void version_1_is_written(void **state)
{
    (void)state;
    swi_native_tensor tensors[3];
    swi_buf out = {0};
    sw_error err = {0};
    size_t size;
    uint8_t *want = golden(&size);
    the_three(tensors);
    assert_ok(swi_buf_append_str(&out, "before", &err), &err);
    assert_ok(swi_native_table_write(tensors, 3, &out, &err), &err);
    assert_int_equal(out.size, 6 + size);
    assert_memory_equal(out.data + 6, want, size);
    swi_buf_free(&out);
    free(want);
}

static void version_1_is_read(void **state)
{
    (void)state;
    swi_native_tensor want[3], got;
    swi_native_table table;
    sw_error err = {0};
    size_t size;
    uint8_t *data = golden(&size);
    the_three(want);
    assert_ok(swi_native_table_read(data, size, 2, 2, &table, &err), &err);
    assert_int_equal(table.count, 3);
    for (uint32_t i = 0; i < 3; i++) {
        swi_native_table_at(&table, i, &got);
        expect_same(&got, &want[i]);
        assert_int_equal(swi_native_table_find(&table, want[i].name, want[i].name_size), i);
    }
    assert_int_equal(swi_native_table_find(&table, "", 0), -1);
    assert_int_equal(swi_native_table_find(&table, "a.weigh", 7), -1);
    assert_int_equal(swi_native_table_find(&table, "a.weightz", 9), -1);
    assert_int_equal(swi_native_table_find(&table, "\xc3\xa9u", 3), -1);
    free(data);
}

static void no_tensors_are_a_table_too(void **state)
{
    (void)state;
    swi_buf out = {0};
    sw_error err = {0};
    swi_native_table table;
    assert_ok(swi_native_table_write(NULL, 0, &out, &err), &err);
    assert_int_equal(out.size, 32);
    assert_ok(swi_native_table_read(out.data, out.size, 0, 2, &table, &err), &err);
    assert_int_equal(table.count, 0);
    assert_int_equal(swi_native_table_find(&table, "x", 1), -1);
    swi_buf_free(&out);
}

/* ---- what is refused ----------------------------------------------------------------------- */

typedef struct bad {
    size_t at;
    uint8_t value;
    int64_t position;
    const char *text;
} bad;

static const bad bads[] = {
    {0, 'X', 0, "does not begin with a head"},
    {8, 4, 8, "bytes of names need"},
    {12, 4, 8, "bytes of names need"},
    {16, 17, 8, "the file has 256"},
    {20, 1, 16, "more than 4 GiB"},
    {31, 1, 31, "must be zero"},
    {44, 1, 44, "must be zero"},
    {60, 1, 60, "must be zero"},
    {79, 1, 79, "must be zero"},
    {83, 1, 83, "must be zero"},
    {95, 1, 95, "must be zero"},
    {99, 1, 99, "must be zero"},
    {36, 7, 36, "tensor 1 of 3: ends of names"},
    {36, 9, 36, "tensor 1 of 3: ends of names"},
    {40, 17, 40, "tensor 2 of 3: ends of names"},
    {40, 15, 16, "ends of names"},
    {32, 13, 36, "tensor 1 of 3: ends of names"},
    {52, 1, 52, "tensor 1 of 3: ends of shapes"},
    {56, 4, 12, "ends of shapes"},
    {56, 6, 56, "tensor 2 of 3: ends of shapes"},
    {64, 2, 64, "tensor 0 of 3: a layout"},
    {71, 1, 68, "tensor 1 of 3: a layout"},
    {80, 0, 80, "tensor 0 of 3: no such type"},
    {82, 25, 82, "tensor 2 of 3: no such type"},
    {90, 3, 90, "tensor 2 of 3: no such role"},
    {97, 3, 97, "tensor 1 of 3: flags"},
    {96, 2, 96, "tensor 0 of 3: flags"},
    {97, 0, 176, "tensor 1 of 3: a content digest"},
    {143, 0x80, 120, "tensor 2 of 3: a size"},
    {111, 0x7f, 104, "tensor 0 of 3: a size"},
    {175, 1, 144, "tensor 0 of 3: a content digest"},
    {242, 0, 240, "tensor 0 of 3: its name does not end with the only 0"},
    {248, 'a', 240, "tensor 0 of 3: its name does not end with the only 0"},
    {255, 'a', 252, "tensor 2 of 3: its name does not end with the only 0"},
    {36, 11, 249, "tensor 1 of 3: its name does not end with the only 0"},
    {36, 13, 249, "tensor 1 of 3: its name does not end with the only 0"},
    {250, 't', 249, "not text in UTF-8"},
    {253, 0, 252, "not text in UTF-8"},
    {240, 0x7f, 0, NULL},
    {249, 0xc2, 0, NULL},
    {252, 0xc2, 252, "tensor 2 of 3: its name is not behind"},
};

static void what_is_wrong_is_refused_where_it_is(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof bads / sizeof bads[0]; i++) {
        swi_native_table table = {.count = 77};
        sw_error err = {0};
        size_t size;
        uint8_t *data = golden(&size);
        data[bads[i].at] = bads[i].value;
        sw_status status = swi_native_table_read(data, size, 2, 2, &table, &err);
        if (bads[i].text == NULL) {
            assert_ok(status, &err);
        } else {
            assert_error(&err, SW_ERR_CORRUPT, bads[i].text);
            assert_contains(err.text, "tensors.swt");
            assert_contains(err.text, "[NAT-8]");
            assert_int_equal(err.offset_bytes, bads[i].position);
            assert_int_equal(table.count, 77);
        }
        free(data);
    }
}

static void every_cut_is_refused(void **state)
{
    (void)state;
    size_t size;
    uint8_t *data = golden(&size);
    for (size_t cut = 0; cut <= size + 1; cut++) {
        uint8_t *part = calloc(1, cut > 0 ? cut : 1); /* so that reading beyond is seen */
        assert_non_null(part);
        memcpy(part, data, cut < size ? cut : size);
        swi_native_table table;
        sw_error err = {0};
        sw_status status = swi_native_table_read(part, cut, 2, 2, &table, &err);
        assert_int_equal(status, cut == size ? SW_OK : SW_ERR_CORRUPT);
        free(part);
    }
    free(data);
}

/* One list of tensors, one table: what is read at all is written back alike. */
static void what_is_read_is_written_alike(void **state)
{
    (void)state;
    size_t size, readable = 0;
    uint8_t *data = golden(&size);
    for (size_t bit = 0; bit < size * 8; bit++) {
        swi_native_table table;
        swi_native_tensor tensors[3];
        swi_buf out = {0};
        sw_error err = {0};
        data[bit / 8] = (uint8_t)(data[bit / 8] ^ 1U << bit % 8);
        if (swi_native_table_read(data, size, UINT32_MAX, 2, &table, &err) == SW_OK) {
            readable++;
            for (uint32_t i = 0; i < 3; i++)
                swi_native_table_at(&table, i, &tensors[i]);
            assert_ok(swi_native_table_write(tensors, 3, &out, &err), &err);
            assert_int_equal(out.size, size);
            assert_memory_equal(out.data, data, size);
        }
        swi_buf_free(&out);
        data[bit / 8] = (uint8_t)(data[bit / 8] ^ 1U << bit % 8);
    }
    assert_true(readable > 300); /* shapes, digests, names */
    free(data);
}

static void refuse_to_write(const swi_native_tensor *tensors, uint32_t count, const char *text)
{
    swi_buf out = {0};
    sw_error err = {0};
    assert_int_equal(swi_native_table_write(tensors, count, &out, &err), SW_ERR_ARG);
    assert_error(&err, SW_ERR_ARG, text);
    assert_int_equal(out.size, 0);
    swi_buf_free(&out);
}

static void what_no_table_can_hold_is_not_written(void **state)
{
    (void)state;
    swi_native_tensor t[3];
    the_three(t);
    t[2].name_size = 2;
    refuse_to_write(t, 3, "is not behind");
    t[2].name_size = 1;
    refuse_to_write(t, 3, "not text in UTF-8");
    the_three(t);
    t[0].name = "a\0weight";
    refuse_to_write(t, 3, "not text in UTF-8");
    the_three(t);
    t[1].dtype = SW_DTYPE_NONE;
    refuse_to_write(t, 3, "\xc3\xa9");
    the_three(t);
    t[0].shape[1] = -1;
    refuse_to_write(t, 3, "shape");
    the_three(t);
    t[0].shape[1] = (int64_t)1 << 60;
    refuse_to_write(t, 3, "shape");
    the_three(t);
    t[0].axes = SW_MAX_AXES + 1;
    refuse_to_write(t, 3, "shape");
}

/* ---- many ---------------------------------------------------------------------------------- */

static void make_tensor(harness_prng *prng, size_t i, char *name, swi_native_tensor *t)
{
    int size = snprintf(name, 64, "layer.%05zu.%.*s", i, (int)harness_random_below(prng, 20),
                        "a.long.name.of.a.weight");
    *t = (swi_native_tensor){.name = name,
                             .name_size = (size_t)size,
                             .dtype = (sw_dtype)(1 + harness_random_below(prng, 24)),
                             .role = (sw_role)harness_random_below(prng, 3),
                             .layout = (uint32_t)harness_random_below(prng, 5),
                             .axes = (uint32_t)harness_random_below(prng, SW_MAX_AXES + 1),
                             .has_digest = harness_random_below(prng, 2) == 1};
    for (uint32_t k = 0; k < t->axes; k++)
        t->shape[k] = (int64_t)harness_random_below(prng, 40);
    if (t->has_digest)
        harness_random_fill(prng, &t->digest, sizeof t->digest);
}

static void many_tensors_come_back(void **state)
{
    (void)state;
    enum { COUNT = 3000 };
    static char names[COUNT][64];
    static swi_native_tensor tensors[COUNT];
    harness_prng prng = {9};
    swi_buf out = {0};
    sw_error err = {0};
    swi_native_table table;
    for (size_t i = 0; i < COUNT; i++)
        make_tensor(&prng, i, names[i], &tensors[i]);
    assert_ok(swi_native_table_write(tensors, COUNT, &out, &err), &err);
    assert_ok(swi_native_table_read(out.data, out.size, 5, 2, &table, &err), &err);
    for (uint32_t i = 0; i < COUNT; i++) {
        swi_native_tensor got;
        swi_native_table_at(&table, i, &got);
        expect_same(&got, &tensors[i]);
        assert_int_equal(swi_native_table_find(&table, names[i], tensors[i].name_size), i);
    }
    swi_buf_free(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(version_1_is_written),
        cmocka_unit_test(version_1_is_read),
        cmocka_unit_test(no_tensors_are_a_table_too),
        cmocka_unit_test(what_is_wrong_is_refused_where_it_is),
        cmocka_unit_test(every_cut_is_refused),
        cmocka_unit_test(what_is_read_is_written_alike),
        cmocka_unit_test(what_no_table_can_hold_is_not_written),
        cmocka_unit_test(many_tensors_come_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
