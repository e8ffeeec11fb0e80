/* Building and freezing catalogs: what is found, said and marked; order; memory. */
#include "kit.h"

/* ---- sound ones ------------------------------------------------------------------------------ */

static void test_sound(void **state)
{
    (void)state;
    kit k = start(1000);
    uint32_t w = add_tensor(&k, "layer.weight", 2, (int64_t[]){4, 4});
    uint32_t s = add_tensor(&k, "step", 0, NULL);
    uint32_t e = add_tensor(&k, "empty", 2, (int64_t[]){0, 7});
    add_box(&k, w, 2, (int64_t[]){4, 4}, (int64_t[]){2, 0}, (int64_t[]){2, 4});
    add_box(&k, s, 0, NULL, NULL, NULL);
    add_box(&k, w, 2, (int64_t[]){4, 4}, (int64_t[]){0, 0}, (int64_t[]){2, 4});
    add_box(&k, w, 2, (int64_t[]){4, 4}, (int64_t[]){4, 0}, (int64_t[]){0, 4}); /* dropped */
    finish(&k);
    assert_int_equal(sw_report_count(k.report), 0);
    assert_int_equal(sw_catalog_tensor_count(k.c), 3);
    assert_int_equal(sw_catalog_piece_count(k.c), 3);
    assert_int_equal(sw_catalog_file_count(k.c), 1);
    assert_int_equal(sw_catalog_find(k.c, "layer.weight"), w);
    assert_int_equal(sw_catalog_find(k.c, "layer"), -1);

    sw_tensor_info info = info_of(&k, w);
    assert_string_equal(info.name, "layer.weight");
    assert_int_equal(info.dtype, SW_F32);
    assert_int_equal(info.axes, 2);
    assert_int_equal(info.shape[1], 4);
    assert_int_equal(info.elements, 16);
    assert_int_equal(info.bytes, 64);
    assert_int_equal(info.piece_count, 2);
    assert_int_equal(info.held_elements, 16);
    assert_int_equal(info.role, SW_ROLE_PARAMETER);
    assert_int_equal(info.alias_of, -1);
    swi_piece p;
    swi_tensor_piece(k.c, w, 0, &p); /* ascending, whatever order they came in */
    assert_int_equal(p.offset[0], 0);
    swi_tensor_piece(k.c, w, 1, &p);
    assert_int_equal(p.offset[0], 2);
    assert_int_equal(p.length[1], 4);
    assert_int_equal(p.stride_bytes[0], 16);
    info = info_of(&k, s);
    assert_int_equal(info.elements, 1);
    assert_int_equal(info.held_elements, 1);
    info = info_of(&k, e);
    assert_int_equal(info.elements, 0);
    assert_int_equal(info.piece_count, 0);
    assert_int_equal(swi_tensor_defect(k.c, e), SW_OK);
    assert_false(sw_catalog_tensor(k.c, 3, &info));
    end(&k);
}

static void test_values_files_blobs(void **state)
{
    (void)state;
    sw_error err = {0};
    kit k = start(1000);
    uint32_t v = add_blob(&k, 10, 20);
    assert_ok(swi_builder_value(k.b, &(swi_value_in){"rng", 3, 1, v}, &err), &err);
    assert_ok(swi_builder_value(k.b, &(swi_value_in){"rng", 3, 0, v}, &err), &err);
    assert_ok(swi_builder_value(k.b, &(swi_value_in){"rng", 3, -1, v}, &err), &err);
    finish(&k);
    sw_value_info value;
    assert_int_equal(sw_catalog_value_count(k.c), 3);
    assert_true(sw_catalog_value_at(k.c, 0, &value));
    assert_string_equal(value.name, "rng");
    assert_int_equal(value.rank, 1);
    assert_int_equal(value.bytes, 20);
    assert_int_equal(swi_value_blob(k.c, 0), v);
    assert_true(sw_catalog_value_at(k.c, 2, &value));
    assert_string_equal(value.name, "rng");
    assert_int_equal(value.rank, -1);
    assert_false(sw_catalog_value_at(k.c, 3, &value));
    sw_file_info file;
    assert_true(sw_catalog_file(k.c, 0, &file));
    assert_string_equal(file.path, "a.distcp");
    assert_int_equal(file.bytes, 1000);
    assert_false(sw_catalog_file(k.c, 1, &file));
    assert_string_equal(swi_catalog_path_of(k.c, 0), "a.distcp");
    swi_blob blob;
    swi_catalog_blob(k.c, v, &blob);
    assert_ptr_equal(blob.ops, &swi_blob_slice);
    assert_int_equal(blob.aux, 5);
    assert_int_equal(blob.offset_bytes, 10);
    assert_int_equal(blob.bytes, 20);
    end(&k);
}

/* Whatever a piece and a blob hold comes back, as far as it means anything. */
static void test_packing_is_lossless(void **state)
{
    (void)state;
    sw_error err = {0};
    kit k = start(UINT64_MAX);
    swi_blob in = {.ops = &swi_blob_slice,
                   .file = k.file,
                   .aux = UINT32_MAX,
                   .offset_bytes = UINT64_C(1) << 62,
                   .stored_bytes = 1,
                   .bytes = UINT64_MAX};
    uint32_t id;
    assert_ok(swi_builder_blob(k.b, &in, &id, &err), &err);
    uint32_t t = add_tensor(&k, "t", 2, (int64_t[]){6, 200});
    swi_piece p = {.blob = id,
                   .axes = 4,
                   .base_bytes = INT64_C(1) << 40,
                   .view = {2, 3, 100, 2},
                   .offset = {1, 0, 20, 1},
                   .length = {1, 3, 80, 1},
                   .stride_bytes = {17, -(INT64_C(1) << 33), 4, -99}};
    swi_piece whole = {.blob = id, .axes = 1, .view = {1200}, .length = {1200}};
    swi_piece_make_dense(&whole, 4);
    add_piece(&k, t, &p);
    add_piece(&k, t, &whole);
    finish(&k);
    swi_piece q;
    swi_tensor_piece(k.c, t, 1, &q);
    assert_int_equal(q.blob, p.blob);
    assert_int_equal(q.axes, p.axes);
    assert_int_equal(q.base_bytes, p.base_bytes);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(q.view[i], p.view[i]);
        assert_int_equal(q.offset[i], p.offset[i]);
        assert_int_equal(q.length[i], p.length[i]);
        assert_int_equal(q.stride_bytes[i], p.stride_bytes[i]);
    }
    swi_tensor_piece(k.c, t, 0, &q);
    assert_int_equal(q.axes, 1);
    assert_int_equal(q.view[0], 1200);
    assert_int_equal(q.length[0], 1200);
    assert_int_equal(q.offset[0], 0);
    assert_int_equal(q.base_bytes, 0);
    assert_int_equal(q.stride_bytes[0], 4);
    swi_blob out;
    swi_catalog_blob(k.c, id, &out);
    assert_int_equal(out.aux, in.aux);
    assert_int_equal(out.offset_bytes, in.offset_bytes);
    assert_int_equal(out.stored_bytes, in.stored_bytes);
    assert_true(out.bytes == UINT64_MAX);
    end(&k);
}

/* ---- what is refused at once ----------------------------------------------------------------- */

static void test_refusals(void **state)
{
    (void)state;
    sw_error err = {0};
    kit k = start(100);
    uint32_t id = 99;
    int64_t shape[11] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    swi_tensor_in in = {"t", 1, SW_F32, 1, shape, SW_ROLE_OTHER};
    assert_ok(swi_builder_tensor(k.b, &in, &id, &err), &err);
    assert_int_equal(swi_builder_tensor(k.b, &in, &id, &err), SW_ERR_CONFLICT);
    assert_error(&err, SW_ERR_CONFLICT, "tensor \"t\" is there twice");
    in = (swi_tensor_in){"a\xff"
                         "b",
                         3,
                         SW_F32,
                         1,
                         shape,
                         SW_ROLE_OTHER};
    assert_int_equal(swi_builder_tensor(k.b, &in, &id, &err), SW_ERR_FORMAT);
    assert_error(&err, SW_ERR_FORMAT, "\"a\\xffb\": the name is not valid UTF-8");
    in = (swi_tensor_in){"a\0b", 3, SW_F32, 1, shape, SW_ROLE_OTHER};
    assert_int_equal(swi_builder_tensor(k.b, &in, &id, &err), SW_ERR_FORMAT);
    in = (swi_tensor_in){"deep", 4, SW_F32, 11, shape, SW_ROLE_OTHER};
    assert_int_equal(swi_builder_tensor(k.b, &in, &id, &err), SW_ERR_UNSUPPORTED);
    assert_error(&err, SW_ERR_UNSUPPORTED, "\"deep\": 11 axes, at most 10");
    in = (swi_tensor_in){"none", 4, SW_DTYPE_NONE, 1, shape, SW_ROLE_OTHER};
    assert_int_equal(swi_builder_tensor(k.b, &in, &id, &err), SW_ERR_ARG);
    static const int64_t hostile[][3] = {{INT64_MAX, INT64_MAX, 0},
                                         {INT64_MAX, 1, 1},
                                         {INT64_MIN, 1, 1},
                                         {-1, 0, 1},
                                         {INT64_C(1) << 31, INT64_C(1) << 31, 2}};
    for (size_t i = 0; i < sizeof hostile / sizeof hostile[0]; i++) {
        in = (swi_tensor_in){"big", 3, SW_F32, 3, hostile[i], SW_ROLE_OTHER};
        assert_int_equal(swi_builder_tensor(k.b, &in, &id, &err), SW_ERR_FORMAT);
        assert_error(&err, SW_ERR_FORMAT, "\"big\": a size is negative or too large");
    }
    assert_int_equal(id, 0);

    swi_blob blob = {.ops = &swi_blob_slice, .file = 7};
    assert_int_equal(swi_builder_blob(k.b, &blob, &id, &err), SW_ERR_ARG);
    blob = (swi_blob){.ops = NULL, .file = 0};
    assert_int_equal(swi_builder_blob(k.b, &blob, &id, &err), SW_ERR_ARG);
    uint32_t ok_blob = add_blob(&k, 0, 4);
    swi_piece p = {.blob = ok_blob + 1};
    assert_int_equal(swi_builder_piece(k.b, 0, &p, &err), SW_ERR_ARG);
    p.blob = ok_blob;
    assert_int_equal(swi_builder_piece(k.b, 1, &p, &err), SW_ERR_ARG);
    p.axes = 11;
    assert_int_equal(swi_builder_piece(k.b, 0, &p, &err), SW_ERR_ARG);

    assert_int_equal(swi_builder_file(k.b, "a.distcp", 101, &id, &err), SW_ERR_CONFLICT);
    assert_error(&err, SW_ERR_CONFLICT, "a.distcp: was 100 bytes long, is now 101");
    assert_ok(swi_builder_file(k.b, "a.distcp", 100, &id, &err), &err);
    assert_int_equal(id, k.file);
    assert_ok(swi_builder_value(k.b, &(swi_value_in){"v", 1, 3, ok_blob}, &err), &err);
    assert_int_equal(swi_builder_value(k.b, &(swi_value_in){"v", 1, 3, ok_blob}, &err),
                     SW_ERR_CONFLICT);
    assert_error(&err, SW_ERR_CONFLICT, "value \"v\" is there twice");
    assert_int_equal(swi_builder_value(k.b, &(swi_value_in){"w", 1, 3, 50}, &err), SW_ERR_ARG);
    assert_int_equal(swi_builder_value(k.b, &(swi_value_in){"\xc0", 1, 3, ok_blob}, &err),
                     SW_ERR_FORMAT);
    end(&k);
}

static void test_limits(void **state)
{
    (void)state;
    sw_error err = {0};
    swi_builder *b;
    sw_limits limits = {.tensors = 1, .pieces = 1, .files = 1};
    uint32_t id = 0;
    assert_ok(swi_builder_make(&limits, &b, &err), &err);
    assert_ok(swi_builder_file(b, "a", 8, &id, &err), &err);
    assert_int_equal(swi_builder_file(b, "b", 8, &id, &err), SW_ERR_LIMIT);
    assert_error(&err, SW_ERR_LIMIT, "more than 1 files");
    swi_tensor_in in = {"t", 1, SW_U8, 0, NULL, SW_ROLE_OTHER};
    assert_ok(swi_builder_tensor(b, &in, &id, &err), &err);
    in.name = "u";
    assert_int_equal(swi_builder_tensor(b, &in, &id, &err), SW_ERR_LIMIT);
    assert_error(&err, SW_ERR_LIMIT, "more than 1 tensors");
    swi_blob blob = {.ops = &swi_blob_slice, .stored_bytes = 1, .bytes = 1};
    assert_ok(swi_builder_blob(b, &blob, &id, &err), &err);
    assert_int_equal(swi_builder_blob(b, &blob, &id, &err), SW_ERR_LIMIT);
    swi_piece p = {0};
    assert_ok(swi_builder_piece(b, 0, &p, &err), &err);
    assert_int_equal(swi_builder_piece(b, 0, &p, &err), SW_ERR_LIMIT);
    assert_error(&err, SW_ERR_LIMIT, "more than 1 pieces");
    swi_builder_free(b);
    swi_builder_free(NULL);
    sw_catalog_free(NULL);
}

/* ---- findings -------------------------------------------------------------------------------- */

static void test_outside(void **state)
{
    (void)state;
    static const int64_t view[] = {4, 4};
    kit k = start(1000);
    uint32_t t = add_tensor(&k, "t", 2, view);
    uint32_t u = add_tensor(&k, "u", 2, view);
    add_box(&k, t, 2, view, (int64_t[]){2, 0}, (int64_t[]){3, 4});
    add_box(&k, t, 2, view, (int64_t[]){0, 0}, (int64_t[]){2, 4});
    add_box(&k, t, 2, view, (int64_t[]){-1, 0}, (int64_t[]){2, 4});
    swi_piece p = {.axes = 2, .view = {4, 4}, .length = {4, 4}, .blob = add_blob(&k, 0, 60)};
    swi_piece_make_dense(&p, 4);
    add_piece(&k, u, &p);
    p.stride_bytes[0] = INT64_MAX;
    add_piece(&k, u, &p);
    p.view[0] = INT64_MAX;
    add_piece(&k, u, &p);
    finish(&k);
    assert_int_equal(sw_report_count(k.report), 2);
    expect_finding(&k, 0, "outside", SW_ERR_CORRUPT, "t",
                   "2 of 3 pieces lie outside their tensor or their bytes; the first: axis 0: "
                   "offset 2 and length 3 lie outside its size 4");
    expect_finding(&k, 1, "outside", SW_ERR_CORRUPT, "u",
                   "3 of 3 pieces lie outside their tensor or their bytes; the first: needs bytes "
                   "0 to 64 of 60");
    assert_string_equal(sw_report_at(k.report, 1)->file, "a.distcp");
    assert_int_equal(swi_tensor_defect(k.c, t), SW_ERR_CORRUPT);
    assert_int_equal(info_of(&k, t).piece_count, 1); /* what is kept can be relied on */
    assert_int_equal(info_of(&k, t).held_elements, 8);
    assert_int_equal(info_of(&k, u).piece_count, 0);
    end(&k);
}

static void test_zero_and_negative_strides(void **state)
{
    (void)state;
    kit k = start(1000);
    uint32_t t = add_tensor(&k, "expanded", 2, (int64_t[]){5, 4});
    uint32_t u = add_tensor(&k, "flipped", 1, (int64_t[]){4});
    swi_piece p = {.axes = 2,
                   .view = {5, 4},
                   .length = {5, 4},
                   .stride_bytes = {0, 4},
                   .blob = add_blob(&k, 0, 16)};
    add_piece(&k, t, &p);
    p = (swi_piece){.axes = 1,
                    .base_bytes = 12,
                    .view = {4},
                    .length = {4},
                    .stride_bytes = {-4},
                    .blob = add_blob(&k, 0, 16)};
    add_piece(&k, u, &p);
    finish(&k);
    assert_int_equal(sw_report_count(k.report), 0);
    swi_piece q;
    swi_tensor_piece(k.c, t, 0, &q);
    assert_int_equal(q.stride_bytes[0], 0);
    swi_tensor_piece(k.c, u, 0, &q);
    assert_int_equal(q.stride_bytes[0], -4);
    assert_int_equal(q.base_bytes, 12);
    end(&k);
}

static void test_short_file(void **state)
{
    (void)state;
    sw_error err = {0};
    kit k = start(100);
    uint32_t t[3];
    static const char *const names[] = {"first", "second", "third"};
    for (int i = 0; i < 3; i++)
        t[i] = add_tensor(&k, names[i], 1, (int64_t[]){10});
    for (int i = 0; i < 3; i++) {
        swi_piece p = {.axes = 1, .view = {10}, .length = {5}};
        swi_piece_make_dense(&p, 4);
        p.blob = add_blob(&k, (uint64_t)i * 40, 40);
        add_piece(&k, t[2 - i], &p); /* the first tensor lies in the last 40 of 120 bytes */
        p.offset[0] = 5;
        p.base_bytes = 20;
        add_piece(&k, t[2 - i], &p);
    }
    uint32_t a_value = add_blob(&k, 90, 11);
    assert_ok(swi_builder_value(k.b, &(swi_value_in){"args", 4, -1, a_value}, &err), &err);
    assert_ok(swi_builder_file(k.b, "only_values", 3, &k.file, &err), &err);
    assert_ok(swi_builder_value(k.b, &(swi_value_in){"rng", 3, 2, add_blob(&k, 0, 4)}, &err), &err);
    assert_ok(swi_builder_file(k.b, "wrapping", 3, &k.file, &err), &err);
    (void)add_blob(&k, UINT64_MAX, 4);
    finish(&k);
    assert_int_equal(sw_report_count(k.report), 3);
    expect_finding(&k, 0, "short-file", SW_ERR_CORRUPT, "first",
                   "needs 120 bytes, file holds 100: cut, or not fully copied (tensors hit: 1, "
                   "values: 1)");
    assert_string_equal(sw_report_at(k.report, 0)->file, "a.distcp");
    assert_true(sw_report_at(k.report, 0)->has_offset);
    assert_int_equal(sw_report_at(k.report, 0)->offset_bytes, 100);
    expect_finding(&k, 1, "short-file", SW_ERR_CORRUPT, "rng", "needs 4 bytes, file holds 3");
    expect_finding(&k, 2, "short-file", SW_ERR_CORRUPT, "",
                   "needs 18446744073709551615 bytes, file holds 3");
    assert_int_equal(swi_tensor_defect(k.c, t[0]), SW_ERR_CORRUPT);
    assert_int_equal(swi_tensor_defect(k.c, t[1]), SW_OK);
    assert_int_equal(info_of(&k, t[0]).piece_count, 2);
    end(&k);
}

static void test_marks_and_no_report(void **state)
{
    (void)state;
    sw_error err = {0};
    kit k = start(100);
    uint32_t t = add_tensor(&k, "t", 1, (int64_t[]){4});
    uint32_t u = add_tensor(&k, "u", 1, (int64_t[]){4});
    swi_builder_mark(k.b, t, SW_ERR_UNSUPPORTED);
    swi_builder_mark(k.b, t, SW_ERR_CORRUPT);
    swi_builder_mark(k.b, 17, SW_ERR_CORRUPT);
    assert_ok(swi_builder_freeze(k.b, NULL, &k.c, &err), &err);
    k.b = NULL;
    assert_int_equal(swi_tensor_defect(k.c, t), SW_ERR_UNSUPPORTED);
    assert_int_equal(swi_tensor_defect(k.c, u), SW_ERR_INCOMPLETE);
    end(&k);
}

static void test_aliases(void **state)
{
    (void)state;
    static const int64_t shape[] = {2, 2};
    kit k = start(100);
    uint32_t tied = add_tensor(&k, "lm", 2, shape);
    uint32_t chain = add_tensor(&k, "chain", 1, (int64_t[]){4});
    uint32_t owner = add_tensor(&k, "emb", 2, shape);
    uint32_t other = add_tensor(&k, "other", 1, (int64_t[]){5});
    uint32_t loop_a = add_tensor(&k, "loop_a", 2, shape);
    uint32_t loop_b = add_tensor(&k, "loop_b", 2, shape);
    add_box(&k, owner, 2, shape, (int64_t[]){0, 0}, (int64_t[]){1, 2});
    swi_builder_alias(k.b, tied, owner);
    swi_builder_alias(k.b, chain, tied);
    swi_builder_alias(k.b, other, owner);
    swi_builder_alias(k.b, loop_a, loop_b);
    swi_builder_alias(k.b, loop_b, loop_a);
    swi_builder_alias(k.b, owner, owner);
    finish(&k);
    sw_report_sort(k.report);
    assert_int_equal(sw_report_count(k.report), 3);
    expect_finding(&k, 0, "alias", SW_ERR_CONFLICT, "loop_a",
                   "said to share the storage of \"loop_b\", which is no owner itself");
    expect_finding(&k, 1, "alias", SW_ERR_CONFLICT, "other",
                   "said to share the storage of \"emb\", which has another type or element count");
    expect_finding(&k, 2, "hole", SW_ERR_INCOMPLETE, "emb", "shards hold 2 of 4 elements");
    assert_int_equal(info_of(&k, tied).alias_of, owner);
    assert_int_equal(info_of(&k, chain).alias_of, owner);
    assert_int_equal(info_of(&k, owner).alias_of, -1);
    assert_int_equal(info_of(&k, tied).piece_count, 1);
    assert_int_equal(info_of(&k, tied).held_elements, 2);
    assert_int_equal(swi_tensor_defect(k.c, chain), SW_ERR_INCOMPLETE);
    assert_int_equal(sw_catalog_piece_count(k.c), 1);
    swi_piece p;
    swi_tensor_piece(k.c, chain, 0, &p);
    assert_int_equal(p.axes, 2);
    assert_int_equal(p.length[0], 1);
    end(&k);
}

/* ---- size ------------------------------------------------------------------------------------ */

static uint64_t bound(uint64_t pieces, uint64_t tensors, uint64_t name_bytes)
{
    return 160 * (pieces + tensors) + name_bytes + (64 << 10);
}

/* A million chunks of a thousand tensors, each in an item of its own, in the order of ranks. */
static void test_million_chunks(void **state)
{
    (void)state;
    enum { TENSORS = 1000, RANKS = 1000 };
    sw_error err = {0};
    kit k = start(UINT64_C(1) << 50);
    char name[64];
    uint64_t name_bytes = 0;
    for (int t = 0; t < TENSORS; t++) {
        (void)snprintf(name, sizeof name, "model.layers.%d.mlp.weight", t);
        name_bytes += strlen(name) + 1;
        (void)add_tensor(&k, name, 2, (int64_t[]){4 * RANKS, 4096});
    }
    for (int r = 0; r < RANKS; r++)
        for (int t = 0; t < TENSORS; t++) {
            swi_blob blob = {.ops = &swi_blob_slice,
                             .file = k.file,
                             .offset_bytes = (uint64_t)(r * TENSORS + t) * 66000,
                             .stored_bytes = 65900,
                             .bytes = 65536};
            swi_piece p = {.axes = 2,
                           .view = {4 * RANKS, 4096},
                           .offset = {4 * (r * 7 % RANKS), 0},
                           .length = {4, 4096}};
            swi_piece_make_dense(&p, 4);
            assert_ok(swi_builder_blob(k.b, &blob, &p.blob, &err), &err);
            assert_ok(swi_builder_piece(k.b, (uint32_t)t, &p, &err), &err);
        }
    finish(&k);
    assert_int_equal(sw_report_count(k.report), 0);
    assert_int_equal(sw_catalog_piece_count(k.c), TENSORS * RANKS);
    assert_in_range(sw_catalog_memory(k.c), 1 << 20,
                    bound(TENSORS * RANKS, TENSORS, name_bytes) / 2);
    for (int t = 0; t < TENSORS; t += 99)
        for (int i = 0; i < RANKS; i++) {
            swi_piece p;
            swi_tensor_piece(k.c, (uint32_t)t, (uint64_t)i, &p);
            assert_int_equal(p.offset[0], 4 * i);
            swi_blob blob;
            swi_catalog_blob(k.c, p.blob, &blob);
            assert_int_equal(blob.offset_bytes / 66000 % TENSORS, t);
            assert_int_equal(blob.offset_bytes / 66000 / TENSORS * 7 % RANKS, i);
        }
    end(&k);
}

/* A million tensors of one piece, and one tensor of a million. */
static void test_million_tensors(void **state)
{
    (void)state;
    enum { COUNT = 1000000 };
    kit k = start(UINT64_C(1) << 50);
    char name[64];
    uint64_t name_bytes = 0;
    for (int t = 0; t < COUNT; t++) {
        (void)snprintf(name, sizeof name, "t.%d", t);
        name_bytes += strlen(name) + 1;
        uint32_t id = add_tensor(&k, name, 2, (int64_t[]){64, 64});
        add_box(&k, id, 2, (int64_t[]){64, 64}, (int64_t[]){0, 0}, (int64_t[]){64, 64});
    }
    finish(&k);
    assert_int_equal(sw_report_count(k.report), 0);
    assert_in_range(sw_catalog_memory(k.c), 1 << 20, bound(COUNT, COUNT, name_bytes));
    assert_int_equal(sw_catalog_find(k.c, "t.777777"), 777777);
    end(&k);
}

static void test_big_tensors(void **state)
{
    (void)state;
    kit k = start(UINT64_C(1) << 60);
    uint32_t grid = add_tensor(&k, "grid", 2, (int64_t[]){300 << 10, 300 << 10});
    uint32_t cols = add_tensor(&k, "cols", 2, (int64_t[]){1 << 20, 2000});
    uint32_t rows = add_tensor(&k, "rows", 2, (int64_t[]){200000, 64});
    for (int64_t i = 0; i < 300; i++)
        for (int64_t j = 0; j < 300; j++)
            if (i != 299 || j != 17)
                add_box(&k, grid, 2, (int64_t[]){300 << 10, 300 << 10},
                        (int64_t[]){j << 10, i << 10}, (int64_t[]){1 << 10, 1 << 10});
    for (int64_t i = 2000; i-- > 0;)
        add_box(&k, cols, 2, (int64_t[]){1 << 20, 2000}, (int64_t[]){0, i},
                (int64_t[]){1 << 20, 1});
    for (int64_t i = 0; i < 200000; i++)
        add_box(&k, rows, 2, (int64_t[]){200000, 64}, (int64_t[]){i, 0}, (int64_t[]){1, 64});
    finish(&k);
    assert_int_equal(sw_report_count(k.report), 1);
    expect_finding(&k, 0, "hole", SW_ERR_INCOMPLETE, "grid", "first missing at [17408, 306176]");
    swi_piece p;
    swi_tensor_piece(k.c, cols, 1234, &p);
    assert_int_equal(p.offset[1], 1234);
    assert_int_equal(info_of(&k, rows).held_elements, 200000 * 64);
    end(&k);
}

static void test_slices(void **state)
{
    (void)state;
    sw_error err = {0};
    swi_blob blob = {
        .ops = &swi_blob_slice, .file = 3, .offset_bytes = 40, .stored_bytes = 60, .bytes = 60};
    swi_extent extent = {.file = 99};
    swi_blob_check tally = {.checked_bytes = 1, .unchecked_bytes = 2};
    assert_ok(blob.ops->resolve(&blob, NULL, &(swi_blob_want){.dtype = SW_F32}, &extent, &err),
              &err);
    assert_int_equal(extent.file, 3);
    assert_int_equal(extent.offset_bytes, 40);
    assert_int_equal(extent.stored_bytes, 60);
    assert_int_equal(extent.start_bytes, 0);
    assert_int_equal(extent.dtype, SW_DTYPE_NONE);
    assert_false(extent.has_crc || extent.swap || extent.strided);
    assert_ok(blob.ops->check(&blob, NULL, NULL, NULL, 0, NULL, &tally, &err), &err);
    assert_int_equal(tally.checked_bytes, 1);
    assert_int_equal(tally.unchecked_bytes, 62);
    assert_true(blob.ops->load_value == NULL);
    blob.bytes = 64;
    assert_int_equal(
        blob.ops->resolve(&blob, NULL, &(swi_blob_want){.dtype = SW_F32}, &extent, &err),
        SW_ERR_CORRUPT);
    assert_error(&err, SW_ERR_CORRUPT, "slice at 40: needs 64 bytes, holds 60");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sound),
        cmocka_unit_test(test_values_files_blobs),
        cmocka_unit_test(test_packing_is_lossless),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_outside),
        cmocka_unit_test(test_zero_and_negative_strides),
        cmocka_unit_test(test_short_file),
        cmocka_unit_test(test_marks_and_no_report),
        cmocka_unit_test(test_aliases),
        cmocka_unit_test(test_million_chunks),
        cmocka_unit_test(test_million_tensors),
        cmocka_unit_test(test_big_tensors),
        cmocka_unit_test(test_slices),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
