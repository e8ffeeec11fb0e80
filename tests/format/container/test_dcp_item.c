/* Items of .distcp files as blobs; clauses are those of specs/dcp.md. */
#include "harness/harness.h"

#include <string.h>

#include <zstd.h>

#include "container/dcp_store.h"
#include "container/torch_file.h"
#include "format/mem_reader.h"
#include "format/recipe.h"

#define FRONT 333

static const float six[6] = {0, 1, 2, 3, 4, 5};
static const int64_t shape23[2] = {2, 3};

/* FRONT bytes, then the item (packed when zstd); the blob of it. */
static swi_blob place(swi_buf *file, const swi_buf *item, bool zstd, uint64_t bytes)
{
    sw_error err = {0};
    swi_blob blob = {.ops = &swi_blob_dcp_item,
                     .aux = zstd ? SWI_DCP_ZSTD : SWI_DCP_PLAIN,
                     .offset_bytes = FRONT,
                     .bytes = bytes};
    assert_ok(swi_buf_fill(file, 0xCD, FRONT, &err), &err);
    if (zstd) {
        size_t bound = ZSTD_compressBound(item->size);
        assert_ok(swi_buf_reserve(file, bound, &err), &err);
        size_t n = ZSTD_compress(file->data + FRONT, bound, item->data, item->size, 3);
        assert_false(ZSTD_isError(n));
        file->size += n;
    } else {
        recipe_bytes(file, item->data, item->size);
    }
    blob.stored_bytes = file->size - FRONT;
    assert_ok(swi_buf_fill(file, 0xDC, 55, &err), &err);
    return blob;
}

static void make_tensor(swi_buf *item)
{
    sw_error err = {0};
    assert_ok(swi_torch_write_tensor(item, SW_F32, 2, shape23, six, &err), &err);
}

/* An item of one bare tensor from a recipe. */
static void make_recipe(swi_buf *item, const char *pickle_text, const char *byteorder,
                        const void *data, size_t size)
{
    swi_buf pickle = {0};
    recipe(&pickle, pickle_text);
    const recipe_record r[] = {{"archive/data.pkl", pickle.data, pickle.size, false},
                               {"archive/byteorder", byteorder, strlen(byteorder), false},
                               {"archive/data/0", data, size, false},
                               {"archive/version", "3\n", 2, false},
                               {0}};
    recipe_archive(item, r);
    swi_buf_free(&pickle);
}

#define TENSOR(start, size, stride)                                                                \
    "proto:2 M:torch._utils/_rebuild_tensor_v2 ( ( 'storage' M:torch/FloatStorage '0' 'cpu' 6 t "  \
    "Q " start " ( " size " t ( " stride " t false M:collections/OrderedDict ) R t R ."

static void resolves_plain_and_zstd(void **state)
{
    (void)state;
    for (int zstd = 0; zstd < 2; zstd++) {
        swi_buf item = {0}, file = {0};
        sw_error err = {0};
        swi_extent e;
        mem_reader m;
        float got[6];
        make_tensor(&item);
        swi_blob blob = place(&file, &item, zstd, 24);
        mem_reader_init(&m, file.data, file.size);
        assert_ok(blob.ops->resolve(&blob, &m.pub, &(swi_blob_want){.dtype = SW_F32}, &e, &err),
                  &err);
        assert_int_equal(e.file, zstd ? SWI_FILE_SCRATCH : 0);
        assert_int_equal(e.dtype, SW_F32);
        assert_int_equal(e.stored_bytes, 24);
        assert_int_equal(e.start_bytes, 0);
        assert_true(e.has_crc);
        assert_int_equal(e.crc32, swi_crc32(0, six, 24));
        assert_false(e.strided);
        assert_false(e.swap);
        assert_ok(m.pub.read(&m.pub, e.file, e.offset_bytes, got, 24, &err), &err);
        assert_memory_equal(got, six, 24);
        mem_reader_end(&m);
        swi_buf_free(&item);
        swi_buf_free(&file);
    }
}

static void resolves_strides_and_byte_order(void **state)
{
    (void)state;
    swi_buf item = {0}, file = {0};
    sw_error err = {0};
    swi_extent e;
    mem_reader m;
    make_recipe(&item, TENSOR("1", "2 2 1", "1 3 1000"), "big", six, 24);
    swi_blob blob = place(&file, &item, false, 16);
    mem_reader_init(&m, file.data, file.size);
    assert_ok(blob.ops->resolve(&blob, &m.pub, &(swi_blob_want){.dtype = SW_DTYPE_NONE}, &e, &err),
              &err);
    assert_true(e.strided);
    assert_true(e.swap);
    assert_int_equal(e.start_bytes, 4);
    assert_int_equal(e.stored_bytes, 24);
    assert_int_equal(e.axes, 3);
    assert_int_equal(e.stride_bytes[0], 4);
    assert_int_equal(e.stride_bytes[1], 12);
    assert_int_equal(e.shape[0], 2);
    swi_buf_free(&item);
    swi_buf_free(&file);
}

static const struct {
    const char *pickle;
    uint64_t bytes;
    swi_blob_want want;
    sw_status status;
    const char *clause, *text;
} refused[] = {
    {TENSOR("0", "2 3", "3 1"),
     24,
     {.dtype = SW_F16},
     SW_ERR_CORRUPT,
     "DCP-8",
     "the item holds float32, the index says float16"},
    {TENSOR("0", "2 3", "3 1"),
     20,
     {.dtype = SW_F32},
     SW_ERR_CORRUPT,
     "DCP-8",
     "holds a tensor of 24 bytes, the index says 20"},
    {TENSOR("0", "2 3", "3 1"),
     24,
     {SW_F32, true, 2, {3, 2}},
     SW_ERR_CORRUPT,
     "DCP-8",
     "holds a tensor of shape [2, 3], the index says [3, 2]"},
    {TENSOR("0", "2 3", "1 2"),
     24,
     {SW_F32, true, 1, {6}},
     SW_ERR_CORRUPT,
     "DCP-8",
     "holds a tensor of shape [2, 3], the index says [6]"},
    {TENSOR("0", "2 3", "3 1"),
     24,
     {SW_F32, true, 0, {0}},
     SW_ERR_CORRUPT,
     "DCP-8",
     "holds a tensor of shape [2, 3], the index says []"},
    {TENSOR("1", "2 3", "3 1"),
     24,
     {.dtype = SW_F32},
     SW_ERR_CORRUPT,
     "TF-7",
     "reaches to element 6"},
    {"proto:2 M:os/system ( 'x' t R .", 24, {.dtype = SW_F32}, SW_ERR_UNSAFE, "DCP-8", "os.system"},
    {"proto:2 7 .", 24, {.dtype = SW_F32}, SW_ERR_FORMAT, "TF-7", "not a tensor"},
    {"proto:2 M:torch._tensor/_rebuild_from_type_v2 ( 1 2 3 4 t R .",
     24,
     {.dtype = SW_F32},
     SW_ERR_UNSUPPORTED,
     "TF-8",
     "_rebuild_from_type_v2"},
};

static void resolve_refuses(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
        swi_buf item = {0}, file = {0};
        sw_error err = {0};
        swi_extent e = {.axes = 99};
        mem_reader m;
        make_recipe(&item, refused[i].pickle, "little", six, 24);
        swi_blob blob = place(&file, &item, false, refused[i].bytes);
        mem_reader_init(&m, file.data, file.size);
        (void)!blob.ops->resolve(&blob, &m.pub, &refused[i].want, &e, &err);
        assert_error(&err, refused[i].status, refused[i].text);
        assert_string_equal(err.clause, refused[i].clause);
        assert_int_equal(e.axes, 99);
        swi_buf_free(&item);
        swi_buf_free(&file);
    }
}

static void resolve_refuses_ranges(void **state)
{
    (void)state;
    swi_buf item = {0}, file = {0};
    sw_error err = {0};
    swi_extent e;
    mem_reader m;
    make_tensor(&item);
    swi_blob blob = place(&file, &item, false, 24);
    mem_reader_init(&m, file.data, file.size);
    blob.offset_bytes = UINT64_MAX;
    (void)!blob.ops->resolve(&blob, &m.pub, &(swi_blob_want){.dtype = SW_F32}, &e, &err);
    assert_error(&err, SW_ERR_CORRUPT, "outside any file");
    blob.offset_bytes = FRONT;
    blob.stored_bytes -= 1;
    (void)!blob.ops->resolve(&blob, &m.pub, &(swi_blob_want){.dtype = SW_F32}, &e, &err);
    assert_error(&err, SW_ERR_CORRUPT, "cut after");
    blob.stored_bytes = UINT32_MAX;
    (void)!blob.ops->resolve(&blob, &m.pub, &(swi_blob_want){.dtype = SW_F32}, &e, &err);
    assert_error(&err, SW_ERR_CORRUPT, "ends early");
    blob.aux = 7;
    (void)!blob.ops->resolve(&blob, &m.pub, &(swi_blob_want){.dtype = SW_F32}, &e, &err);
    assert_error(&err, SW_ERR_ARG, "unknown kind 7");
    swi_buf_free(&item);
    swi_buf_free(&file);
}

/* A frame that decodes to far more than its tensor has. */
static void zstd_bomb(void **state)
{
    (void)state;
    swi_buf item = {0}, file = {0};
    sw_error err = {0};
    swi_extent e;
    mem_reader m;
    assert_ok(swi_buf_fill(&item, 0, (size_t)40 << 20, &err), &err);
    swi_blob blob = place(&file, &item, true, 24);
    mem_reader_init(&m, file.data, file.size);
    (void)!blob.ops->resolve(&blob, &m.pub, &(swi_blob_want){.dtype = SW_F32}, &e, &err);
    assert_error(&err, SW_ERR_CORRUPT, "decodes to more than its tensor of 24 bytes can need");
    assert_string_equal(err.clause, "DCP-11");
    assert_int_equal(m.scratch.size, 0);
    swi_buf_free(&item);
    swi_buf_free(&file);
}

typedef struct checked {
    sw_report *report;
    swi_blob_check tally;
} checked;

static void check(const swi_blob *blob, const swi_buf *file, checked *c)
{
    static const swi_blob_label label = {
        .file = "__0_0.distcp", .name = "w", .want = {.dtype = SW_F32}};
    uint8_t buffer[128];
    sw_error err = {0};
    mem_reader m;
    mem_reader_init(&m, file->data, file->size);
    *c = (checked){0};
    assert_ok(sw_report_make(&c->report, &err), &err);
    assert_ok(
        blob->ops->check(blob, &m.pub, &label, buffer, sizeof(buffer), c->report, &c->tally, &err),
        &err);
    mem_reader_end(&m);
}

static void checks_plain_and_zstd(void **state)
{
    (void)state;
    for (int zstd = 0; zstd < 2; zstd++) {
        swi_buf item = {0}, file = {0};
        checked c;
        make_tensor(&item);
        swi_blob blob = place(&file, &item, zstd, 24);
        check(&blob, &file, &c);
        assert_int_equal(sw_report_count(c.report), 0);
        assert_in_range(c.tally.checked_bytes, 150, 400);
        assert_int_equal(c.tally.unchecked_bytes, 0);
        sw_report_free(c.report);
        blob.bytes = 28; /* what the index says is part of the check */
        check(&blob, &file, &c);
        assert_int_equal(sw_report_count(c.report), 1);
        assert_string_equal(sw_report_at(c.report, 0)->code, "bad-item");
        assert_contains(sw_report_at(c.report, 0)->message, "24 bytes, the index says 28");
        sw_report_free(c.report);
        /* So is its dtype. */
        swi_buf other = {0}, placed = {0};
        sw_error err = {0};
        assert_ok(swi_torch_write_tensor(&other, SW_I32, 2, shape23, six, &err), &err);
        blob = place(&placed, &other, zstd, 24);
        check(&blob, &placed, &c);
        assert_int_equal(sw_report_count(c.report), 1);
        assert_contains(sw_report_at(c.report, 0)->message, "holds int32, the index says float32");
        sw_report_free(c.report);
        swi_buf_free(&other);
        swi_buf_free(&placed);
        swi_buf_free(&item);
        swi_buf_free(&file);
    }
}

/* The blob still gives the six numbers, densely. */
static void same_tensor(const swi_blob *blob, const swi_buf *file)
{
    mem_reader m;
    sw_error err = {0};
    swi_extent e;
    float got[6];
    mem_reader_init(&m, file->data, file->size);
    assert_ok(blob->ops->resolve(blob, &m.pub, &(swi_blob_want){.dtype = SW_F32}, &e, &err), &err);
    assert_false(e.strided || e.swap);
    assert_ok(m.pub.read(&m.pub, e.file, e.offset_bytes + e.start_bytes, got, 24, &err), &err);
    assert_memory_equal(got, six, 24);
    mem_reader_end(&m);
}

/*
 * Every bit of a compressed item: found, or harmless: the frame decodes to the same bytes, to other
 * ones where nothing is covered, or to an archive whose root has another name everywhere.
 */
static void zstd_every_flipped_bit(void **state)
{
    (void)state;
    swi_buf item = {0}, file = {0};
    size_t harmless = 0;
    make_tensor(&item);
    swi_blob blob = place(&file, &item, true, 24);
    for (size_t bit = FRONT * 8; bit < (FRONT + blob.stored_bytes) * 8; bit++) {
        checked c;
        file.data[bit / 8] ^= (uint8_t)(1u << bit % 8);
        check(&blob, &file, &c);
        if (sw_report_total(c.report, SW_DEFECT) + sw_report_total(c.report, SW_DANGER) == 0) {
            same_tensor(&blob, &file);
            harmless++;
        } else {
            assert_true(sw_report_at(c.report, 0)->has_offset);
            assert_in_range(sw_report_at(c.report, 0)->offset_bytes, FRONT,
                            FRONT + blob.stored_bytes);
        }
        sw_report_free(c.report);
        file.data[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    assert_in_range(harmless, 0, blob.stored_bytes); /* one in eight at most */
    swi_buf_free(&item);
    swi_buf_free(&file);
}

static void opaque_bytes(void **state)
{
    (void)state;
    static const char raw[] = "bytes of a custom planner, no archive";
    swi_buf item = {0}, file = {0};
    sw_error err = {0};
    mem_reader m;
    checked c;
    sw_value_graph *g;
    sw_value root;
    const uint8_t *data;
    size_t size;
    recipe_bytes(&item, raw, sizeof(raw));
    swi_blob blob = place(&file, &item, false, UINT64_MAX);
    mem_reader_init(&m, file.data, file.size);
    assert_ok(blob.ops->load_value(&blob, &m.pub, &g, &root, &err), &err);
    assert_int_equal(sw_value_get_kind(g, root), SW_VALUE_BYTES);
    assert_true(sw_value_bytes(g, root, &data, &size));
    assert_int_equal(size, sizeof(raw));
    assert_memory_equal(data, raw, size);
    sw_value_graph_free(g);
    check(&blob, &file, &c);
    assert_int_equal(sw_report_count(c.report), 0);
    assert_int_equal(c.tally.unchecked_bytes, sizeof(raw));
    sw_report_free(c.report);
    /* A tensor may not be that. */
    blob.bytes = 24;
    check(&blob, &file, &c);
    assert_int_equal(sw_report_total(c.report, SW_DEFECT), 1);
    sw_report_free(c.report);
    m.pub.limits.metadata_bytes = 10;
    blob.bytes = UINT64_MAX;
    (void)!blob.ops->load_value(&blob, &m.pub, &g, &root, &err);
    assert_error(&err, SW_ERR_LIMIT, "the limit is 10");
    swi_buf_free(&item);
    swi_buf_free(&file);
}

static sw_status emit_int(void *ctx, swi_pickle_writer *w, sw_error *err)
{
    (void)ctx;
    return swi_pickle_int(w, 1234567, err);
}

static void loads_values(void **state)
{
    (void)state;
    for (int zstd = 0; zstd < 2; zstd++) {
        swi_buf item = {0}, file = {0};
        sw_error err = {0};
        mem_reader m;
        sw_value_graph *g;
        sw_value root;
        int64_t v;
        assert_ok(swi_torch_write_value(&item, emit_int, NULL, &err), &err);
        swi_blob blob = place(&file, &item, zstd, UINT64_MAX);
        mem_reader_init(&m, file.data, file.size);
        assert_ok(blob.ops->load_value(&blob, &m.pub, &g, &root, &err), &err);
        assert_true(sw_value_int(g, root, &v));
        assert_int_equal(v, 1234567);
        sw_value_graph_free(g);
        swi_buf_free(&item);
        swi_buf_free(&file);
    }
}

static void loading_refuses_unsafe(void **state)
{
    (void)state;
    swi_buf item = {0}, file = {0};
    sw_error err = {0};
    mem_reader m;
    sw_value_graph *g = NULL;
    sw_value root;
    make_recipe(&item, "proto:2 M:builtins/eval ( '1' t R .", "little", six, 24);
    swi_blob blob = place(&file, &item, false, UINT64_MAX);
    mem_reader_init(&m, file.data, file.size);
    (void)!blob.ops->load_value(&blob, &m.pub, &g, &root, &err);
    assert_error(&err, SW_ERR_UNSAFE, "eval");
    assert_string_equal(err.clause, "DCP-10");
    assert_null(g);
    swi_buf_free(&item);
    swi_buf_free(&file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(resolves_plain_and_zstd),
        cmocka_unit_test(resolves_strides_and_byte_order),
        cmocka_unit_test(resolve_refuses),
        cmocka_unit_test(resolve_refuses_ranges),
        cmocka_unit_test(zstd_bomb),
        cmocka_unit_test(checks_plain_and_zstd),
        cmocka_unit_test(zstd_every_flipped_bit),
        cmocka_unit_test(opaque_bytes),
        cmocka_unit_test(loads_values),
        cmocka_unit_test(loading_refuses_unsafe),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
