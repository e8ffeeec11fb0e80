/* Regions of many tensors into memory, against brute force. */
#include "world.h"

#include "regions.h"

/* ---- random regions ------------------------------------------------------------------------- */

typedef struct target {
    swi_region region;
    uint8_t *memory;
    uint64_t bytes;
} target;

#define FREE_BYTE 0xa5

/* Strides of a random order of axes, with gaps; returns the bytes that they reach over. */
static uint64_t random_strides(world *w, const sw_tensor_info *info, swi_region *r)
{
    uint64_t reach = sw_dtype_bytes(info->dtype);
    uint32_t order[SW_MAX_AXES];
    for (uint32_t k = 0; k < info->axes; k++) {
        uint32_t j = (uint32_t)world_below(w, k + 1);
        order[k] = order[j];
        order[j] = k;
    }
    for (uint32_t i = 0; i < info->axes; i++) {
        uint64_t length = (uint64_t)r->length[order[i]];
        uint64_t stride = reach + world_below(w, 2) * world_below(w, 40);
        r->stride_bytes[order[i]] = (int64_t)stride;
        reach += length > 0 ? stride * (length - 1) : 0;
    }
    return reach;
}

static void make_target(world *w, target *t)
{
    sw_tensor_info info;
    uint64_t elements = 1;
    *t = (target){.region = {.tensor = (uint32_t)world_below(w, w->count)}};
    assert_true(sw_catalog_tensor(w->catalog, t->region.tensor, &info));
    for (uint32_t k = 0; k < info.axes; k++) {
        uint64_t size = (uint64_t)info.shape[k];
        t->region.offset[k] = (int64_t)world_below(w, size + 1);
        t->region.length[k] = (int64_t)world_below(w, size - (uint64_t)t->region.offset[k] + 1);
        if (world_below(w, 3) == 0) {
            t->region.offset[k] = 0;
            t->region.length[k] = info.shape[k];
        }
        elements *= (uint64_t)t->region.length[k];
    }
    swi_region_make_dense(&info, &t->region);
    t->bytes = elements * sw_dtype_bytes(info.dtype);
    if (world_below(w, 2) == 0)
        t->bytes = random_strides(w, &info, &t->region);
    t->memory = malloc(t->bytes + 1);
    assert_non_null(t->memory);
    memset(t->memory, FREE_BYTE, t->bytes + 1);
    t->region.out = t->memory;
}

/* Every element where it belongs, and nothing else touched. */
static void verify_target(const world *w, target *t)
{
    const world_tensor *of = &w->tensors[t->region.tensor];
    uint32_t size = sw_dtype_bytes(of->dtype);
    uint64_t elements = 1;
    for (uint32_t k = 0; k < of->axes; k++)
        elements *= (uint64_t)t->region.length[k];
    for (uint64_t e = 0; e < elements; e++) {
        uint64_t left = e, flat = 0, stride = 1;
        uint8_t *at = t->memory, expected[16];
        for (uint32_t k = of->axes; k > 0; k--) {
            uint64_t i = left % (uint64_t)t->region.length[k - 1];
            left /= (uint64_t)t->region.length[k - 1];
            flat += (i + (uint64_t)t->region.offset[k - 1]) * stride;
            stride *= (uint64_t)of->shape[k - 1];
            at += i * (uint64_t)t->region.stride_bytes[k - 1];
        }
        world_put(expected, of, t->region.tensor, flat);
        assert_memory_equal(at, expected, size);
        memset(at, FREE_BYTE, size);
    }
    for (uint64_t i = 0; i <= t->bytes; i++)
        assert_int_equal(t->memory[i], FREE_BYTE);
}

static void test_any_regions(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 300; seed++) {
        world w = {.encoded = seed % 3 == 0,
                   .strided = seed % 2 == 0,
                   .replicas = seed % 5 == 0,
                   .crc = seed % 7 < 3};
        sw_error err = {0};
        sw_tally tally = {0};
        target targets[12];
        swi_region regions[12];
        const sw_work_options work = {.threads = 1 + (uint32_t)seed % 5};
        world_make(&w, seed + 41000);
        size_t count = world_below(&w, 13);
        for (size_t i = 0; i < count; i++) {
            make_target(&w, &targets[i]);
            regions[i] = targets[i].region;
        }
        assert_ok(swi_regions_load(&w.source, regions, count, NULL, &work, NULL, &tally, &err),
                  &err);
        for (size_t i = 0; i < count; i++) {
            verify_target(&w, &targets[i]);
            free(targets[i].memory);
        }
        world_free(&w);
    }
}

/* ---- larger ones ---------------------------------------------------------------------------- */

static void make_one(world *w, int64_t rows, int64_t columns, const int64_t parts[2])
{
    w->plain = true;
    w->count = 1;
    w->fixed_parts = parts;
    w->tensors[0] = (world_tensor){.name = "t0",
                                   .dtype = SW_BF16,
                                   .axes = 2,
                                   .shape = {rows, columns},
                                   .elements = (uint64_t)(rows * columns)};
    world_build(w);
}

/* Windows of several threads: 4 MB of a tensor, transposed on the way into a wider matrix. */
static void test_many_windows(void **state)
{
    static const int64_t parts[] = {5, 3};
    (void)state;
    for (uint32_t encoded = 0; encoded < 2; encoded++) {
        for (uint32_t strided = 0; strided < 2; strided++) {
            world w = {.encoded = encoded != 0, .crc = encoded == 0};
            sw_error err = {0};
            sw_tally tally = {0};
            const sw_work_options work = {.threads = 5, .memory_bytes = 6 << 20};
            make_one(&w, 2100, 1000, parts);
            target t = {.region = {.length = {2100, 1000}}, .bytes = 2100 * 1000 * 2};
            t.region.stride_bytes[0] = strided ? 2 : 2000;
            t.region.stride_bytes[1] = strided ? 2 * 2200 : 2;
            t.bytes = strided ? 2 * 2200 * 1000 : 2 * 2100 * 1000;
            t.memory = malloc(t.bytes + 1);
            assert_non_null(t.memory);
            memset(t.memory, FREE_BYTE, t.bytes + 1);
            t.region.out = t.memory;
            assert_ok(swi_regions_load(&w.source, &t.region, 1, NULL, &work, NULL, &tally, &err),
                      &err);
            verify_target(&w, &t);
            /* Every record passed whole, in whatever windows. */
            assert_true(tally.checked_bytes >= 2100 * 1000 * 2);
            assert_int_equal(tally.unchecked_bytes, 0);
            free(t.memory);
            world_free(&w);
        }
    }
}

/* Rows 10 to 20 of chunks of 8 rows: two of 64 are read, once each. */
static void test_only_what_is_needed_is_read(void **state)
{
    static const int64_t parts[] = {64, 1};
    world w = {.encoded = true};
    sw_error err = {0};
    sw_tally tally = {0};
    uint8_t *out = malloc(10 * 100 * 2);
    (void)state;
    assert_non_null(out);
    make_one(&w, 512, 100, parts);
    swi_region r = {.offset = {10}, .length = {10, 100}, .stride_bytes = {200, 2}, .out = out};
    assert_ok(swi_regions_load(&w.source, &r, 1, NULL, NULL, NULL, &tally, &err), &err);
    assert_int_equal(tally.read_bytes, 2 * (8 * 200 + WORLD_PREFIX));
    assert_int_equal(tally.checked_bytes, tally.read_bytes);
    /* A part of a record with a CRC is read, and counted as unchecked. */
    world_free(&w);
    w = (world){.crc = true};
    tally = (sw_tally){0};
    make_one(&w, 512, 100, (const int64_t[]){1, 1});
    assert_ok(swi_regions_load(&w.source, &r, 1, NULL, NULL, NULL, &tally, &err), &err);
    assert_int_equal(tally.read_bytes, 10 * 200);
    assert_int_equal(tally.unchecked_bytes, 10 * 200);
    assert_int_equal(tally.checked_bytes, 0);
    world_free(&w);
    free(out);
}

/* ---- what goes wrong ------------------------------------------------------------------------ */

static void flip_at(const world *w, const swi_blob *blob)
{
    sw_error err = {0};
    swi_file *file;
    uint8_t byte;
    assert_ok(swi_store_open_write(w->store, swi_catalog_path(w->catalog, blob->file), &file, &err),
              &err);
    assert_ok(swi_file_read(file, blob->offset_bytes, &byte, 1, &err), &err);
    byte ^= 1;
    assert_ok(swi_file_write(file, blob->offset_bytes, &byte, 1, &err), &err);
    swi_file_close(file);
}

static void test_damage_is_found_where_it_is_read(void **state)
{
    static const int64_t parts[] = {4, 1};
    (void)state;
    for (uint32_t encoded = 0; encoded < 2; encoded++) {
        world w = {.encoded = encoded != 0, .crc = encoded == 0};
        sw_error err = {0};
        sw_report *report = NULL;
        swi_blob blob;
        uint8_t out[100 * 2 * 40];
        make_one(&w, 40, 100, parts);
        swi_region r = {.length = {10, 100}, .stride_bytes = {200, 2}, .out = out};
        swi_catalog_blob(w.catalog, 2, &blob);
        flip_at(&w, &blob);
        assert_ok(swi_regions_load(&w.source, &r, 1, NULL, NULL, NULL, NULL, &err), &err);
        r.offset[0] = 20;
        assert_ok(sw_report_make(&report, &err), &err);
        assert_int_equal(swi_regions_load(&w.source, &r, 1, NULL, NULL, report, NULL, &err),
                         SW_ERR_CORRUPT);
        assert_error(&err, SW_ERR_CORRUPT, "tensor \"t0[20:30, 0:100]\": ");
        assert_contains(err.text, swi_catalog_path(w.catalog, blob.file));
        assert_int_equal(err.offset_bytes, blob.offset_bytes);
        assert_int_equal(sw_report_count(report), 1);
        assert_string_equal(sw_report_at(report, 0)->tensor, "t0[20:30, 0:100]");
        sw_report_free(report);
        world_free(&w);
    }
}

/* A tensor with a hole is refused, in whatever region of it. */
static void test_defects_are_refused(void **state)
{
    sw_error err = {0};
    swi_builder *builder = NULL;
    sw_catalog *catalog = NULL;
    const int64_t shape[] = {8};
    uint32_t file, tensor;
    uint8_t out[8];
    swi_tensor_in in = {"holed", 5, SW_U8, 1, shape, SW_ROLE_PARAMETER};
    (void)state;
    assert_ok(swi_builder_make(NULL, &builder, &err), &err);
    assert_ok(swi_builder_file(builder, world_path(0), 8, &file, &err), &err);
    assert_ok(swi_builder_tensor(builder, &in, &tensor, &err), &err);
    swi_blob blob = {.ops = &swi_blob_slice, .file = file, .stored_bytes = 4, .bytes = 4};
    swi_piece p = {.axes = 1, .view = {8}, .length = {4}, .stride_bytes = {1}};
    assert_ok(swi_builder_blob(builder, &blob, &p.blob, &err), &err);
    assert_ok(swi_builder_piece(builder, tensor, &p, &err), &err);
    assert_ok(swi_builder_freeze(builder, NULL, &catalog, &err), &err);
    const swi_source source = {.catalog = catalog};
    const swi_region r = {.length = {2}, .stride_bytes = {1}, .out = out};
    assert_int_equal(swi_regions_load(&source, &r, 1, NULL, NULL, NULL, NULL, &err),
                     SW_ERR_INCOMPLETE);
    assert_error(&err, SW_ERR_INCOMPLETE, "tensor \"holed\" is damaged (INCOMPLETE)");
    sw_catalog_free(catalog);
}

static bool stop_at_once(void *ctx, const sw_progress *progress)
{
    *(sw_progress *)ctx = *progress;
    return false;
}

static void test_it_is_stopped(void **state)
{
    static const int64_t parts[] = {4, 1};
    world w = {.encoded = true};
    sw_error err = {0};
    sw_progress last = {0};
    uint8_t out[40 * 200];
    const sw_work_options work = {.progress = stop_at_once, .progress_ctx = &last};
    (void)state;
    make_one(&w, 40, 100, parts);
    const swi_region r = {.length = {40, 100}, .stride_bytes = {200, 2}, .out = out};
    assert_int_equal(swi_regions_load(&w.source, &r, 1, NULL, &work, NULL, NULL, &err),
                     SW_ERR_CANCELED);
    assert_int_equal(last.total_bytes, sizeof out);
    world_free(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_any_regions),
        cmocka_unit_test(test_many_windows),
        cmocka_unit_test(test_only_what_is_needed_is_read),
        cmocka_unit_test(test_damage_is_found_where_it_is_read),
        cmocka_unit_test(test_defects_are_refused),
        cmocka_unit_test(test_it_is_stopped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
