/* Reading intervals, comparing tensors of two layouts, scanning all blobs. */
#include "world.h"

#include "compare.h"
#include "load.h"
#include "scan.h"

static void test_any_interval(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 80; seed++) {
        world w = {.strided = seed % 2 == 0, .replicas = seed % 5 == 0, .encoded = seed % 3 == 0};
        sw_error err = {0};
        world_make(&w, seed + 11000);
        for (uint32_t id = 0; id < w.count; id++) {
            const world_tensor *t = &w.tensors[id];
            uint32_t es = sw_dtype_bytes(t->dtype);
            uint8_t *out = malloc(t->elements * es + 1), expected[16];
            assert_non_null(out);
            for (int q = 0; q < 10; q++) {
                uint64_t lo = world_below(&w, t->elements + 1);
                uint64_t hi = lo + world_below(&w, t->elements - lo + 1);
                out[(hi - lo) * es] = 0xa5;
                assert_ok(swi_load_interval(&w.source, id, lo, hi, out, &err), &err);
                for (uint64_t i = lo; i < hi; i++) {
                    world_put(expected, t, id, i);
                    assert_memory_equal(out + (i - lo) * es, expected, es);
                }
                assert_int_equal(out[(hi - lo) * es], 0xa5);
            }
            free(out);
        }
        world_free(&w);
    }
}

/* "holed": rows 0 and 2 of three. */
static sw_catalog *holed(void)
{
    sw_error err = {0};
    swi_builder *builder = NULL;
    sw_catalog *catalog = NULL;
    const int64_t shape[] = {3, 4};
    uint32_t file, tensor;
    swi_tensor_in in = {"holed", 5, SW_U8, 2, shape, SW_ROLE_PARAMETER};
    assert_ok(swi_builder_make(NULL, &builder, &err), &err);
    assert_ok(swi_builder_file(builder, world_path(0), 8, &file, &err), &err);
    assert_ok(swi_builder_tensor(builder, &in, &tensor, &err), &err);
    for (int64_t row = 0; row < 3; row += 2) {
        swi_blob blob = {.ops = &swi_blob_slice,
                         .file = file,
                         .offset_bytes = (uint64_t)row * 2,
                         .stored_bytes = 4,
                         .bytes = 4};
        swi_piece p = {.axes = 2,
                       .view = {3, 4},
                       .offset = {row, 0},
                       .length = {1, 4},
                       .stride_bytes = {4, 1}};
        assert_ok(swi_builder_blob(builder, &blob, &p.blob, &err), &err);
        assert_ok(swi_builder_piece(builder, tensor, &p, &err), &err);
    }
    assert_ok(swi_builder_freeze(builder, NULL, &catalog, &err), &err);
    return catalog;
}

static void test_holes(void **state)
{
    sw_error err = {0};
    sw_catalog *catalog = holed();
    swi_store *store = NULL;
    swi_file *file = NULL;
    swi_filecache *cache = NULL;
    sw_limits limits = sw_limits_resolve(NULL);
    uint8_t out[12];
    (void)state;
    assert_ok(swi_store_open_memory(&store, &err), &err);
    assert_ok(swi_store_create(store, world_path(0), &file, &err), &err);
    assert_ok(swi_file_write(file, 0, "abcdefgh", 8, &err), &err);
    swi_file_close(file);
    assert_ok(swi_filecache_make(store, 1, swi_catalog_path_of, catalog, &limits, &cache, &err),
              &err);
    const swi_source source = {.catalog = catalog, .reader = swi_filecache_reader(cache)};
    assert_ok(swi_load_interval(&source, 0, 8, 12, out, &err), &err);
    assert_memory_equal(out, "efgh", 4);
    assert_int_equal(swi_load_interval(&source, 0, 2, 5, out, &err), SW_ERR_INCOMPLETE);
    assert_error(&err, SW_ERR_INCOMPLETE, "tensor \"holed\": only 2 of the 3 elements from 2 on");
    assert_int_equal(swi_load_interval(&source, 0, 5, 13, out, &err), SW_ERR_ARG);
    assert_error(&err, SW_ERR_ARG, "elements 5 to 13 of 12");
    assert_int_equal(swi_load_interval(&source, 1, 0, 1, out, &err), SW_ERR_ARG);
    swi_filecache_free(cache);
    swi_store_close(store);
    sw_catalog_free(catalog);
}

/* The byte of an element in the file, found by walking the pieces. */
typedef struct seek {
    uint64_t flat, byte;
    bool found;
} seek;

static void seek_one(void *ctx, uint64_t flat, uint64_t byte)
{
    seek *s = ctx;
    if (flat == s->flat) {
        s->byte = byte;
        s->found = true;
    }
}

static void flip_element(world *w, uint32_t id, uint64_t flat)
{
    sw_error err = {0};
    sw_tensor_info info;
    assert_true(sw_catalog_tensor(w->catalog, id, &info));
    for (uint64_t i = 0; i < info.piece_count; i++) {
        swi_piece p;
        swi_blob blob;
        seek s = {.flat = flat};
        uint8_t byte;
        swi_file *file;
        swi_tensor_piece(w->catalog, id, i, &p);
        world_each(&p, seek_one, &s);
        if (!s.found)
            continue;
        swi_catalog_blob(w->catalog, p.blob, &blob);
        assert_ok(
            swi_store_open_write(w->store, swi_catalog_path(w->catalog, blob.file), &file, &err),
            &err);
        assert_ok(swi_file_read(file, blob.offset_bytes + s.byte, &byte, 1, &err), &err);
        byte ^= 0x10;
        assert_ok(swi_file_write(file, blob.offset_bytes + s.byte, &byte, 1, &err), &err);
        swi_file_close(file);
        return;
    }
    fail_msg("no such element");
}

/* The same tensors in another cut; then with one element changed. */
static void test_compare(void **state)
{
    uint32_t compared = 0;
    (void)state;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        world a = {0}, b;
        sw_error err = {0};
        uint8_t buffer[256];
        world_make(&a, seed + 12000);
        b = a;
        b.strided = false;
        b.prng.state = seed;
        world_build(&b);
        for (uint32_t id = 0; id < a.count; id++) {
            bool equal = false;
            uint64_t first = 0, n = a.tensors[id].elements;
            const swi_compare_in in = {.a = &a.source,
                                       .tensor_a = id,
                                       .b = &b.source,
                                       .tensor_b = id,
                                       .buffer = buffer,
                                       .buffer_bytes = sizeof buffer};
            assert_ok(swi_compare(&in, &equal, &first, &err), &err);
            assert_true(equal);
            if (n == 0)
                continue;
            uint64_t flat = world_below(&a, n);
            flip_element(&b, id, flat);
            assert_ok(swi_compare(&in, &equal, &first, &err), &err);
            assert_false(equal);
            assert_int_equal(first, flat);
            compared++;
        }
        world_free(&a);
        world_free(&b);
    }
    assert_true(compared > 100);
}

/* ---- scan --------------------------------------------------------------------------------------
 */

static void test_scan_finds_each_flip(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        world w = {.crc = true};
        sw_error err = {0};
        sw_report *report = NULL;
        sw_tally tally = {0};
        sw_work_options work = {.threads = 1 + (uint32_t)(seed % 5)};
        char damaged[32] = "";
        uint64_t bytes = 0;
        world_make(&w, seed + 13000);
        for (uint32_t i = 0; i < swi_catalog_blob_count(w.catalog); i++) {
            swi_blob blob;
            swi_catalog_blob(w.catalog, i, &blob);
            bytes += blob.stored_bytes;
        }
        for (uint32_t id = 0; id < w.count && damaged[0] == '\0'; id++) {
            if (w.tensors[id].elements == 0)
                continue;
            flip_element(&w, id, world_below(&w, w.tensors[id].elements));
            memcpy(damaged, w.tensors[id].name, sizeof damaged);
        }
        assert_ok(sw_report_make(&report, &err), &err);
        assert_ok(swi_scan(&w.source, &(swi_scan_in){.work = &work}, report, &tally, &err), &err);
        assert_int_equal(sw_report_count(report), damaged[0] != '\0');
        if (damaged[0] != '\0') {
            assert_string_equal(sw_report_at(report, 0)->code, "crc-mismatch");
            assert_string_equal(sw_report_at(report, 0)->tensor, damaged);
            assert_true(tally.checked_bytes < bytes);
        }
        assert_int_equal(tally.read_bytes, bytes);
        assert_int_equal(tally.unchecked_bytes, 0);
        sw_report_free(report);
        world_free(&w);
    }
}

/* Two names for one record: it is read once. */
static void test_scan_reads_a_shared_record_once(void **state)
{
    world w = {.crc = true};
    sw_error err = {0};
    sw_tally tally = {0};
    swi_builder *builder = NULL;
    sw_catalog *catalog = NULL;
    const int64_t shape[] = {8};
    uint32_t file;
    (void)state;
    world_make(&w, 13002);
    memset(&world_records[0], 0, sizeof world_records[0]);
    world_records[0].stored = 8;
    swi_file *bytes;
    assert_ok(swi_store_open_write(w.store, world_path(0), &bytes, &err), &err);
    assert_ok(swi_file_write(bytes, 0, "0123456789abcdef", 16, &err), &err);
    swi_file_close(bytes);
    assert_ok(swi_builder_make(NULL, &builder, &err), &err);
    assert_ok(swi_builder_file(builder, world_path(0), UINT32_MAX, &file, &err), &err);
    for (int i = 0; i < 3; i++) {
        char name[2] = {(char)('a' + i), 0};
        uint32_t tensor;
        swi_tensor_in in = {name, 1, SW_U8, 1, shape, SW_ROLE_PARAMETER};
        swi_blob blob = {.ops = &world_ops,
                         .file = file,
                         .offset_bytes = i == 2 ? 8 : 0,
                         .stored_bytes = 8,
                         .bytes = 8};
        swi_piece p = {.axes = 1, .view = {8}, .length = {8}, .stride_bytes = {1}};
        assert_ok(swi_builder_tensor(builder, &in, &tensor, &err), &err);
        assert_ok(swi_builder_blob(builder, &blob, &p.blob, &err), &err);
        assert_ok(swi_builder_piece(builder, tensor, &p, &err), &err);
    }
    assert_ok(swi_builder_freeze(builder, NULL, &catalog, &err), &err);
    const swi_source source = {.catalog = catalog, .reader = w.source.reader};
    assert_ok(swi_scan(&source, NULL, NULL, &tally, &err), &err);
    assert_int_equal(tally.read_bytes, 16);
    assert_int_equal(tally.unchecked_bytes, 16);
    sw_catalog_free(catalog);
    world_free(&w);
}

static bool stop_at_once(void *ctx, const sw_progress *progress)
{
    sw_progress *last = ctx;
    *last = *progress;
    return false;
}

static void test_scan_is_stopped(void **state)
{
    world w = {.crc = true};
    sw_error err = {0};
    sw_tally tally = {0};
    sw_progress last = {.total_bytes = 0};
    sw_work_options work = {.progress = stop_at_once, .progress_ctx = &last};
    (void)state;
    world_make(&w, 13001);
    assert_int_equal(swi_scan(&w.source, &(swi_scan_in){.work = &work}, NULL, &tally, &err),
                     SW_ERR_CANCELED);
    assert_error(&err, SW_ERR_CANCELED, "stopped as asked");
    assert_true(last.total_bytes > 0);
    assert_int_equal(tally.read_bytes, 0);
    world_free(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_any_interval),
        cmocka_unit_test(test_holes),
        cmocka_unit_test(test_compare),
        cmocka_unit_test(test_scan_finds_each_flip),
        cmocka_unit_test(test_scan_is_stopped),
        cmocka_unit_test(test_scan_reads_a_shared_record_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
