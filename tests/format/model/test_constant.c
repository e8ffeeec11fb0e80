/* Catalogs made from others, and constants in no file (CAT-16, CAT-17). */
#include "kit.h"

/* A file, a tensor of two blobs, and a value. */
static kit source(void)
{
    kit k = start(1000);
    sw_error err = {0};
    uint32_t w = add_tensor(&k, "w", 2, (int64_t[]){4, 6});
    uint32_t value = add_blob(&k, 900, 50), other;
    add_box(&k, w, 2, (int64_t[]){4, 6}, (int64_t[]){0, 0}, (int64_t[]){2, 6});
    add_box(&k, w, 2, (int64_t[]){4, 6}, (int64_t[]){2, 0}, (int64_t[]){2, 6});
    assert_ok(swi_builder_file(k.b, "other", UINT64_MAX, &other, &err), &err);
    const swi_value_in global = {"args", 4, -1, value}, ranked = {"args", 4, 7, value};
    assert_ok(swi_builder_value(k.b, &global, &err), &err);
    assert_ok(swi_builder_value(k.b, &ranked, &err), &err);
    finish(&k);
    return k;
}

static void same_blob(const sw_catalog *a, const sw_catalog *b, uint32_t id)
{
    swi_blob x, y;
    swi_catalog_blob(a, id, &x);
    swi_catalog_blob(b, id, &y);
    assert_ptr_equal(x.ops, y.ops);
    assert_int_equal(x.file, y.file);
    assert_int_equal(x.aux, y.aux);
    assert_int_equal(x.offset_bytes, y.offset_bytes);
    assert_int_equal(x.stored_bytes, y.stored_bytes);
    assert_int_equal(x.bytes, y.bytes);
}

/* The two halves of "w" as tensors of their own, in a catalog over the same bytes. */
static void test_from(void **state)
{
    (void)state;
    sw_error err = {0};
    kit k = source(), made = {0};
    assert_ok(sw_report_make(&made.report, &err), &err);
    assert_ok(swi_builder_from(k.c, NULL, &made.b, &err), &err);
    for (uint64_t i = 0; i < 2; i++) {
        uint32_t t = add_tensor(&made, i == 0 ? "top" : "bottom", 2, (int64_t[]){2, 6});
        swi_piece p;
        swi_tensor_piece(k.c, 0, i, &p);
        p.view[0] = 2;
        p.offset[0] = 0;
        add_piece(&made, t, &p);
    }
    finish(&made);
    assert_int_equal(sw_report_count(made.report), 0);
    assert_int_equal(sw_catalog_tensor_count(made.c), 2);
    assert_int_equal(sw_catalog_file_count(made.c), 2);
    for (uint32_t f = 0; f < 2; f++) {
        assert_string_equal(swi_catalog_path(made.c, f), swi_catalog_path(k.c, f));
        assert_int_equal(swi_catalog_file_bytes(made.c, f), swi_catalog_file_bytes(k.c, f));
    }
    assert_int_equal(swi_catalog_blob_count(made.c), swi_catalog_blob_count(k.c));
    for (uint32_t b = 0; b < swi_catalog_blob_count(k.c); b++)
        same_blob(k.c, made.c, b);
    assert_int_equal(sw_catalog_value_count(made.c), 2);
    for (size_t v = 0; v < 2; v++) {
        sw_value_info x, y;
        assert_true(sw_catalog_value_at(k.c, v, &x) && sw_catalog_value_at(made.c, v, &y));
        assert_string_equal(x.name, y.name);
        assert_int_equal(x.rank, y.rank);
        assert_int_equal(swi_value_blob(k.c, v), swi_value_blob(made.c, v));
    }
    end(&k);
    end(&made);
}

/* What a kind may hold against the shape that it records is the source's shape, not the map's. */
static void test_shapes_stay(void **state)
{
    (void)state;
    sw_error err = {0};
    kit k = source(), made = {0}, again = {0};
    swi_blob_want want;
    uint32_t constant, t;
    swi_piece p;
    assert_ok(swi_builder_from(k.c, NULL, &made.b, &err), &err);
    assert_ok(swi_builder_constant(made.b, "", 1, 4, &constant, &err), &err);
    t = add_tensor(&made, "turned", 2, (int64_t[]){12, 2});
    swi_tensor_piece(k.c, 0, 1, &p);
    add_piece(
        &made, t,
        &(swi_piece){
            .blob = p.blob, .axes = 2, .view = {12, 2}, .length = {6, 2}, .stride_bytes = {8, 4}});
    add_piece(&made, t,
              &(swi_piece){.blob = constant,
                           .axes = 2,
                           .view = {12, 2},
                           .offset = {6, 0},
                           .length = {6, 2},
                           .stride_bytes = {0, 0}});
    assert_ok(swi_builder_freeze(made.b, NULL, &made.c, &err), &err);
    made.b = NULL;
    swi_piece_want(made.c, t, 0, &want);
    assert_true(want.has_shape);
    assert_int_equal(want.dtype, SW_F32);
    assert_int_equal(want.axes, 2);
    assert_int_equal(want.shape[0], 2);
    assert_int_equal(want.shape[1], 6);
    swi_piece_want(made.c, t, 1, &want);
    assert_false(want.has_shape);
    /* Made from that one in turn. */
    assert_ok(swi_builder_from(made.c, NULL, &again.b, &err), &err);
    t = add_tensor(&again, "flat", 1, (int64_t[]){12});
    add_piece(
        &again, t,
        &(swi_piece){.blob = p.blob, .axes = 1, .view = {12}, .length = {12}, .stride_bytes = {4}});
    assert_ok(swi_builder_freeze(again.b, NULL, &again.c, &err), &err);
    again.b = NULL;
    swi_piece_want(again.c, t, 0, &want);
    assert_true(want.has_shape && want.axes == 2 && want.shape[1] == 6);
    end(&k);
    end(&made);
    end(&again);
}

/* It goes on as any builder: files, blobs and values are found again, new ones are added. */
static void test_from_goes_on(void **state)
{
    (void)state;
    sw_error err = {0};
    kit k = source(), made = {0};
    uint32_t id;
    assert_ok(sw_report_make(&made.report, &err), &err);
    assert_ok(swi_builder_from(k.c, NULL, &made.b, &err), &err);
    assert_ok(swi_builder_file(made.b, "a.distcp", 1000, &id, &err), &err);
    assert_int_equal(id, 0);
    assert_int_equal(swi_builder_file(made.b, "a.distcp", 999, &id, &err), SW_ERR_CONFLICT);
    const swi_value_in again = {"args", 4, 7, 0}, new_one = {"step", 4, -1, 0};
    assert_int_equal(swi_builder_value(made.b, &again, &err), SW_ERR_CONFLICT);
    assert_error(&err, SW_ERR_CONFLICT, "value \"args\" is there twice");
    assert_ok(swi_builder_value(made.b, &new_one, &err), &err);
    assert_int_equal(add_blob(&made, 0, 8), swi_catalog_blob_count(k.c));
    finish(&made);
    assert_int_equal(sw_catalog_value_count(made.c), 3);
    end(&k);
    end(&made);
}

/* From one with nothing in it, and from one of more blobs than one block of the packing. */
static void test_from_sizes(void **state)
{
    (void)state;
    sw_error err = {0};
    const uint32_t counts[] = {0, 1, 65536, 65537, 200000};
    for (size_t i = 0; i < 5; i++) {
        kit k = start(UINT64_MAX), made = {0};
        for (uint32_t b = 0; b < counts[i]; b++)
            (void)add_blob(&k, b * UINT64_C(1000), b);
        finish(&k);
        assert_ok(swi_builder_from(k.c, NULL, &made.b, &err), &err);
        assert_ok(swi_builder_freeze(made.b, NULL, &made.c, &err), &err);
        made.b = NULL;
        assert_int_equal(swi_catalog_blob_count(made.c), counts[i]);
        for (uint32_t b = 0; b < counts[i]; b += 97)
            same_blob(k.c, made.c, b);
        assert_in_range(sw_catalog_memory(made.c), 1,
                        sw_catalog_memory(k.c) + 1024 + 7 * counts[i]);
        end(&k);
        end(&made);
    }
}

/* ---- constants ------------------------------------------------------------------------------- */

/* A tensor of 2^40 elements that is one number: no file, no lack of bytes, no trap of CAT-15. */
static void test_constant(void **state)
{
    (void)state;
    sw_error err = {0};
    kit k = start(1000);
    const uint8_t one[] = {0, 0, 0x80, 0x3f};
    const int64_t n = INT64_C(1) << 20;
    uint32_t t = add_tensor(&k, "scales", 2, (int64_t[]){n, n}), blob = 0;
    assert_ok(swi_builder_constant(k.b, one, 4, 4, &blob, &err), &err);
    add_piece(&k, t, &(swi_piece){.blob = blob, .axes = 2, .view = {n, n}, .length = {n, n}});
    finish(&k);
    assert_int_equal(sw_report_count(k.report), 0);
    assert_int_equal(info_of(&k, t).held_elements, (uint64_t)(n * n));
    swi_blob found;
    swi_catalog_blob(k.c, blob, &found);
    assert_ptr_equal(found.ops, &swi_blob_constant);
    assert_int_equal(found.file, SWI_NO_FILE);
    assert_int_equal(found.stored_bytes, 0);
    assert_string_equal(swi_catalog_path(k.c, found.file), "");
    swi_piece p;
    swi_tensor_piece(k.c, t, 0, &p);
    assert_int_equal(p.stride_bytes[0], 0);
    end(&k);
}

static void test_constant_faults(void **state)
{
    (void)state;
    sw_error err = {0};
    kit k = start(1000);
    uint32_t blob = 77, t = add_tensor(&k, "t", 1, (int64_t[]){3});
    assert_int_equal(swi_builder_constant(k.b, "", 0, 4, &blob, &err), SW_ERR_ARG);
    assert_error(&err, SW_ERR_ARG, "a pattern of 0: patterns have 1 to 8 bytes");
    assert_int_equal(swi_builder_constant(k.b, "123456789", 9, 9, &blob, &err), SW_ERR_ARG);
    assert_error(&err, SW_ERR_ARG, "a pattern of 9");
    assert_int_equal(swi_builder_constant(k.b, "1", 1, UINT64_MAX, &blob, &err), SW_ERR_ARG);
    assert_int_equal(blob, 77);
    swi_blob slice = {.ops = &swi_blob_slice, .file = SWI_NO_FILE};
    assert_int_equal(swi_builder_blob(k.b, &slice, &blob, &err), SW_ERR_ARG);
    assert_error(&err, SW_ERR_ARG, "a blob of file 4294967295, which is not there");
    /* Dense elements of more bytes than it presents. */
    assert_ok(swi_builder_constant(k.b, "\0", 1, 11, &blob, &err), &err);
    add_piece(
        &k, t,
        &(swi_piece){.blob = blob, .axes = 1, .view = {3}, .length = {3}, .stride_bytes = {4}});
    finish(&k);
    expect_finding(&k, 0, "outside", SW_ERR_CORRUPT, "t", "needs bytes 0 to 12 of 11");
    end(&k);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_from),         cmocka_unit_test(test_shapes_stay),
        cmocka_unit_test(test_from_goes_on), cmocka_unit_test(test_from_sizes),
        cmocka_unit_test(test_constant),     cmocka_unit_test(test_constant_faults),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
