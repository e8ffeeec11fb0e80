/* Conversions of random checkpoints to random layouts and back, element by element. */
#include "world.h"

#include "cast.h"

static swi_budget small_budget(world *w)
{
    swi_budget b = {
        .threads = 1 + (uint32_t)world_below(w, 4),
        .window_bytes = 16 + (size_t)world_below(w, 2) * (size_t)world_below(w, 4000),
        .bounce_bytes = 64 + 16 * (size_t)world_below(w, 64),
    };
    return b;
}

static void convert(const swi_source *source, const swi_layout *layout, world_sink *sink,
                    const swi_budget *budget, sw_tally *tally)
{
    sw_error err = {0};
    sw_report *report = NULL;
    assert_ok(sw_report_make(&report, &err), &err);
    const swi_execute_in in = {
        .source = source, .layout = layout, .sink = &sink->sink, .budget = *budget};
    assert_ok(swi_execute_job(&in, report, tally, &err), &err);
    assert_int_equal(sw_report_count(report), 0);
    assert_int_equal(sink->opened, sink->finished);
    assert_int_equal(sink->finished, sw_catalog_file_count(swi_layout_catalog(layout)));
    sw_report_free(report);
}

/* Source -> B, proven; then B -> C with B's catalog as the source. */
static void there_and_on(world *w)
{
    sw_error err = {0};
    sw_tally tally = {0};
    swi_layout *b = world_layout(w), *c = world_layout(w);
    world_sink to_b, to_c;
    world_sink_make(&to_b, b);
    world_sink_make(&to_c, c);
    swi_budget budget = small_budget(w);
    convert(&w->source, b, &to_b, &budget, &tally);
    world_verify(w, b, to_b.store);

    swi_filecache *cache = NULL;
    sw_limits limits = sw_limits_resolve(NULL);
    const sw_catalog *catalog = swi_layout_catalog(b);
    assert_ok(swi_filecache_make(to_b.store, WORLD_FILES, swi_catalog_path_of, catalog, &limits,
                                 &cache, &err),
              &err);
    const swi_source again = {.catalog = catalog, .reader = swi_filecache_reader(cache)};
    budget = small_budget(w);
    convert(&again, c, &to_c, &budget, &tally);
    world_verify(w, c, to_c.store);
    swi_filecache_free(cache);
    swi_layout_free(b);
    swi_layout_free(c);
    swi_store_close(to_b.store);
    swi_store_close(to_c.store);
}

static void test_random_meshes(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 150; seed++) {
        world w = {0};
        world_make(&w, seed);
        there_and_on(&w);
        world_free(&w);
    }
}

static void test_records_with_strides_swaps_and_crcs(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 150; seed++) {
        world w = {.strided = true, .crc = seed % 2 == 0};
        world_make(&w, seed + 1000);
        there_and_on(&w);
        world_free(&w);
    }
}

static void test_replicas(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 50; seed++) {
        world w = {.replicas = true, .crc = seed % 2 == 0};
        world_make(&w, seed + 2000);
        there_and_on(&w);
        world_free(&w);
    }
}

/* ---- the same bytes whatever the threads -------------------------------------------------------
 */

static void same_files(const swi_layout *layout, const swi_store *a, const swi_store *b)
{
    const sw_catalog *catalog = swi_layout_catalog(layout);
    for (uint32_t f = 0; f < sw_catalog_file_count(catalog); f++) {
        sw_error err = {0};
        uint8_t *x, *y;
        size_t nx, ny;
        const char *path = swi_catalog_path(catalog, f);
        assert_ok(swi_store_read_all(a, path, UINT32_MAX, &x, &nx, &err), &err);
        assert_ok(swi_store_read_all(b, path, UINT32_MAX, &y, &ny, &err), &err);
        assert_int_equal(nx, ny);
        assert_memory_equal(x, y, nx);
        free(x);
        free(y);
    }
}

static void test_any_number_of_threads(void **state)
{
    static const uint32_t threads[] = {2, 7, 16};
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        world w = {.strided = true, .crc = true};
        world_sink one, many;
        sw_tally tally_one = {0};
        world_make(&w, seed + 3000);
        swi_layout *layout = world_layout(&w);
        swi_budget budget = {.threads = 1, .window_bytes = 64, .bounce_bytes = 128};
        world_sink_make(&one, layout);
        convert(&w.source, layout, &one, &budget, &tally_one);
        for (size_t i = 0; i < 3; i++) {
            sw_tally tally = {0};
            budget.threads = threads[i];
            world_sink_make(&many, layout);
            convert(&w.source, layout, &many, &budget, &tally);
            same_files(layout, one.store, many.store);
            assert_int_equal(tally.written_bytes, tally_one.written_bytes);
            assert_int_equal(tally.checked_bytes, tally_one.checked_bytes);
            swi_store_close(many.store);
        }
        swi_store_close(one.store);
        swi_layout_free(layout);
        world_free(&w);
    }
}

/* The public call, with its own budget and the defaults. */
static void test_default_budget(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 10; seed++) {
        world w = {.crc = true};
        world_sink sink;
        sw_error err = {0};
        sw_tally tally = {0};
        uint64_t bytes = 0;
        world_make(&w, seed + 3100);
        swi_layout *layout = world_layout(&w);
        world_sink_make(&sink, layout);
        assert_ok(swi_execute(&w.source, layout, &sink.sink, NULL, NULL, &tally, &err), &err);
        world_verify(&w, layout, sink.store);
        for (uint32_t f = 0; f < WORLD_FILES; f++)
            bytes += swi_catalog_file_bytes(swi_layout_catalog(layout), f);
        assert_int_equal(tally.written_bytes, bytes);
        assert_true(swi_execute_window_bytes(NULL, w.catalog, layout) >= 1 << 20);
        swi_store_close(sink.store);
        swi_layout_free(layout);
        world_free(&w);
    }
}

static void test_budget_is_kept(void **state)
{
    world w = {.crc = true};
    (void)state;
    world_make(&w, 3200);
    swi_layout *layout = world_layout(&w);
    for (uint32_t threads = 1; threads <= 64; threads *= 2) {
        for (uint64_t mib = 1; mib <= 256; mib *= 4) {
            sw_work_options work = {.threads = threads, .memory_bytes = mib << 20};
            swi_budget b = swi_execute_budget(&work, w.catalog, layout);
            assert_true(b.threads >= 1 && b.threads <= threads);
            assert_true((b.window_bytes + b.out_bytes + b.bounce_bytes) * b.threads <= mib << 20);
            assert_true(b.window_bytes * b.threads >= (mib << 20) / 2);
        }
    }
    swi_layout_free(layout);
    world_free(&w);
}

/* Flips a bit of the record of some blob; returns the blob. */
static uint32_t damage(world *w)
{
    sw_error err = {0};
    swi_blob blob;
    swi_file *file;
    uint8_t byte;
    uint32_t id = (uint32_t)world_below(w, swi_catalog_blob_count(w->catalog));
    swi_catalog_blob(w->catalog, id, &blob);
    uint64_t at = blob.offset_bytes + world_below(w, blob.stored_bytes);
    assert_ok(swi_store_open_write(w->store, swi_catalog_path(w->catalog, blob.file), &file, &err),
              &err);
    assert_ok(swi_file_read(file, at, &byte, 1, &err), &err);
    byte = (uint8_t)(byte ^ 1U << world_below(w, 8));
    assert_ok(swi_file_write(file, at, &byte, 1, &err), &err);
    swi_file_close(file);
    return id;
}

static bool skip_done(const void *ctx, uint32_t file)
{
    return ((const world_sink *)ctx)->done[file];
}

/* ---- records larger than a step and runs that go straight to their place
 * ------------------------- */

/* One tensor, cut `parts` ways on each axis. */
static void make_large(world *w, sw_dtype dtype, int64_t rows, int64_t columns,
                       const int64_t parts[2])
{
    world_tensor *t = &w->tensors[0];
    *t = (world_tensor){.name = "t0", .dtype = dtype, .axes = 2, .shape = {rows, columns}};
    t->elements = (uint64_t)(rows * columns);
    w->count = 1;
    w->crc = true;
    w->fixed_parts = parts;
    world_build(w);
}

static void large(sw_dtype dtype, int64_t rows, int64_t columns, const int64_t from[2],
                  const int64_t to[2])
{
    world w = {.prng = {.state = 1}, .plain = true};
    world_sink sink;
    sw_error err = {0};
    sw_tally tally = {0};
    make_large(&w, dtype, rows, columns, from);
    w.fixed_parts = to;
    swi_layout *layout = world_layout(&w);
    world_sink_make(&sink, layout);
    assert_ok(swi_execute(&w.source, layout, &sink.sink, NULL, NULL, &tally, &err), &err);
    world_verify(&w, layout, sink.store);
    assert_int_equal(tally.checked_bytes, w.tensors[0].elements * sw_dtype_bytes(dtype));
    assert_int_equal(tally.unchecked_bytes, 0);
    swi_store_close(sink.store);
    swi_layout_free(layout);
    world_free(&w);
}

static void test_large_records(void **state)
{
    static const int64_t one[] = {1, 1}, rows[] = {3, 1}, columns[] = {1, 3}, grid[] = {2, 7};
    (void)state;
    large(SW_BF16, 1000, 2100, one, rows);
    large(SW_F32, 24, 60000, columns, one); /* rows of a shard: 80 KB */
    large(SW_F32, 24, 60000, one, columns);
    large(SW_F64, 70, 10000, grid, rows);
}

/* An earlier run wrote rows 0 to 9: a bit of them is still looked at. */
static void test_resumed_in_the_middle_of_a_record(void **state)
{
    static const int64_t one[] = {1, 1}, two[] = {2, 1};
    (void)state;
    for (uint64_t bit = 0; bit < 2; bit++) {
        world w = {.prng = {.state = 1}, .plain = true};
        world_sink sink;
        sw_report *report = NULL;
        sw_error err = {0};
        sw_tally tally = {0};
        swi_blob blob;
        make_large(&w, SW_U8, 20, 100, one);
        w.fixed_parts = two;
        swi_layout *layout = world_layout(&w);
        const sw_catalog *catalog = swi_layout_catalog(layout);
        swi_piece p;
        swi_tensor_piece(catalog, 0, 0, &p);
        swi_catalog_blob(catalog, p.blob, &blob);
        world_sink_make(&sink, layout);
        sink.sink.skip = skip_done;
        sink.done[blob.file] = true; /* takes the first half, and the second lies elsewhere */
        if (bit == 1)
            (void)damage(&w);
        assert_ok(sw_report_make(&report, &err), &err);
        /* Windows so small that the first half is not read along. */
        const swi_execute_in in = {
            .source = &w.source,
            .layout = layout,
            .sink = &sink.sink,
            .budget = {.threads = 2, .window_bytes = 300, .bounce_bytes = 64},
        };
        sw_status status = swi_execute_job(&in, report, &tally, &err);
        swi_blob second;
        swi_tensor_piece(catalog, 0, 1, &p);
        swi_catalog_blob(catalog, p.blob, &second);
        assert_int_not_equal(second.file, blob.file);
        if (bit == 0) {
            assert_ok(status, &err);
            assert_int_equal(tally.checked_bytes, 2000);
        } else {
            assert_error(&err, SW_ERR_CORRUPT, "expected ");
            assert_int_equal(sw_report_count(report), 1);
            assert_string_equal(sw_report_at(report, 0)->tensor, "t0");
        }
        sw_report_free(report);
        swi_store_close(sink.store);
        swi_layout_free(layout);
        world_free(&w);
    }
}

/* ---- casts on the way ---------------------------------------------------------------------------
 */

static const int64_t cast_shape[] = {37, 19};

static swi_layout *cast_layout(sw_dtype dtype, uint64_t elements)
{
    sw_error err = {0};
    swi_layout *layout = NULL;
    uint32_t file, tensor;
    uint64_t bytes = elements * sw_dtype_bytes(dtype);
    swi_tensor_in in = {"t0", 2, dtype, 2, cast_shape, SW_ROLE_PARAMETER};
    swi_piece p = {.axes = 2, .view = {37, 19}, .length = {37, 19}};
    swi_piece_make_dense(&p, sw_dtype_bytes(dtype));
    assert_ok(swi_layout_make(NULL, &layout, &err), &err);
    assert_ok(swi_layout_file(layout, "cast", bytes, &file, &err), &err);
    assert_ok(swi_layout_tensor(layout, &in, 0, &tensor, &err), &err);
    assert_ok(swi_layout_piece(layout, tensor, file, 0, bytes, &p, &err), &err);
    assert_ok(swi_layout_freeze(layout, &err), &err);
    return layout;
}

static void cast_one(sw_dtype from, sw_dtype to, uint64_t seed)
{
    world w = {.count = 1, .strided = seed % 2 == 0, .prng = {.state = seed}};
    world_tensor *t = &w.tensors[0];
    uint64_t elements = 37 * 19;
    uint8_t in[37 * 19 * 8], out[37 * 19 * 8], *got;
    size_t size;
    sw_error err = {0};
    sw_tally tally = {0}, expected = {0};
    world_sink sink;
    *t = (world_tensor){.name = "t0", .dtype = from, .axes = 2, .elements = elements};
    memcpy(t->shape, cast_shape, sizeof cast_shape);
    world_build(&w);
    swi_layout *layout = cast_layout(to, elements);
    swi_budget budget = swi_execute_budget(NULL, w.catalog, layout);
    budget.window_bytes = 16 + 8 * (size_t)world_below(&w, 100);
    budget.out_bytes = budget.window_bytes * 4 + 64;
    world_sink_make(&sink, layout);
    convert(&w.source, layout, &sink, &budget, &tally);
    for (uint64_t i = 0; i < elements; i++)
        world_put(in + i * sw_dtype_bytes(from), t, 0, i);
    swi_cast(in, from, out, to, elements, &expected);
    assert_ok(swi_store_read_all(sink.store, "cast", UINT32_MAX, &got, &size, &err), &err);
    assert_int_equal(size, elements * sw_dtype_bytes(to));
    assert_memory_equal(got, out, size);
    assert_int_equal(tally.cast_elements, from != to ? elements : 0);
    assert_int_equal(tally.cast_overflows, expected.cast_overflows);
    assert_int_equal(tally.cast_underflows, expected.cast_underflows);
    free(got);
    swi_store_close(sink.store);
    swi_layout_free(layout);
    world_free(&w);
}

static void test_casts(void **state)
{
    static const sw_dtype types[] = {SW_F16, SW_BF16, SW_F32, SW_F64};
    (void)state;
    for (uint64_t from = 0; from < 4; from++)
        for (uint64_t to = 0; to < 4; to++)
            for (uint64_t seed = 1; seed <= 4; seed++)
                cast_one(types[from], types[to], seed * 100 + from * 4 + to);
}

/* ---- CRCs
 * ----------------------------------------------------------------------------------------- */

static void test_a_flipped_bit(void **state)
{
    uint32_t found = 0;
    (void)state;
    for (uint64_t seed = 1; seed <= 150; seed++) {
        world w = {.crc = true, .strided = seed % 3 == 0};
        world_sink sink;
        sw_error err = {0};
        sw_report *report = NULL;
        sw_tally tally = {0};
        swi_blob blob;
        world_make(&w, seed + 4000);
        swi_layout *layout = world_layout(&w);
        if (swi_catalog_blob_count(w.catalog) > 0) {
            world_sink_make(&sink, layout);
            swi_catalog_blob(w.catalog, damage(&w), &blob);
            swi_budget budget = small_budget(&w);
            const swi_execute_in in = {
                .source = &w.source, .layout = layout, .sink = &sink.sink, .budget = budget};
            assert_ok(sw_report_make(&report, &err), &err);
            sw_status status = swi_execute_job(&in, report, &tally, &err);
            /* A record with gaps that no span takes in is not read whole: it is counted. */
            if (status == SW_OK) {
                assert_true(tally.unchecked_bytes > 0);
            } else {
                const sw_finding *finding = sw_report_at(report, 0);
                assert_error(&err, SW_ERR_CORRUPT, "tensor \"t");
                assert_contains(err.text, "expected ");
                assert_contains(err.text, swi_catalog_path(w.catalog, blob.file));
                assert_int_equal(sw_report_count(report), 1);
                assert_string_equal(finding->code, "crc-mismatch");
                assert_int_equal(finding->offset_bytes, blob.offset_bytes);
                assert_int_equal(finding->status, SW_ERR_CORRUPT);
                found++;
            }
            sw_report_free(report);
            swi_store_close(sink.store);
        }
        swi_layout_free(layout);
        world_free(&w);
    }
    assert_true(found > 80);
}

/* ---- failures
 * --------------------------------------------------------------------------------------- */

typedef struct failing_reader {
    swi_reader reader;
    const swi_reader *inner;
    atomic_uint left; /* reads until one fails */
} failing_reader;

static sw_status failing_read(const swi_reader *self, uint32_t file, uint64_t offset, void *data,
                              size_t size, sw_error *err)
{
    failing_reader *f = self->ctx;
    if (atomic_fetch_sub(&f->left, 1) == 1)
        return swi_fail(err, SW_ERR_IO, "the disk is on fire");
    return f->inner->read(f->inner, file, offset, data, size, err);
}

static void test_a_failed_read(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 100; seed++) {
        world w = {.strided = true};
        world_sink sink;
        sw_error err = {0};
        sw_tally tally = {0};
        world_make(&w, seed + 8000);
        swi_layout *layout = world_layout(&w);
        failing_reader f = {.reader = *w.source.reader, .inner = w.source.reader};
        f.reader.read = failing_read;
        f.reader.ctx = &f;
        atomic_store(&f.left, 1 + (unsigned)world_below(&w, 30));
        const swi_source source = {.catalog = w.catalog, .reader = &f.reader};
        world_sink_make(&sink, layout);
        const swi_execute_in in = {
            .source = &source, .layout = layout, .sink = &sink.sink, .budget = small_budget(&w)};
        sw_status status = swi_execute_job(&in, NULL, &tally, &err);
        if (status != SW_OK) {
            assert_error(&err, SW_ERR_IO, "the disk is on fire");
            assert_contains(err.text, "tensor \"t");
            assert_true(sink.finished < WORLD_FILES);
        } else {
            assert_true(atomic_load(&f.left) > 0);
            world_verify(&w, layout, sink.store);
        }
        swi_store_close(sink.store);
        swi_layout_free(layout);
        world_free(&w);
    }
}

typedef struct failing_sink {
    world_sink inner;
    uint32_t bad_file;
    int how; /* 0: open, 1: write, 2: finish */
} failing_sink;

static sw_status failing_open(void *ctx, uint32_t file, swi_file **out, sw_error *err)
{
    failing_sink *s = ctx;
    sw_status status;
    if (file == s->bad_file && s->how == 0)
        return swi_fail(err, SW_ERR_IO, "no room to open");
    status = world_sink_open(&s->inner, file, out, err);
    if (status == SW_OK && file == s->bad_file && s->how == 1) {
        swi_file_close(*out);
        status = swi_store_open_read(
            s->inner.store, swi_catalog_path(swi_layout_catalog(s->inner.layout), file), out, err);
    }
    return status;
}

static sw_status failing_finish(void *ctx, uint32_t file, swi_file *written, sw_error *err)
{
    failing_sink *s = ctx;
    if (file == s->bad_file && s->how == 2) {
        swi_file_close(written);
        return swi_fail(err, SW_ERR_IO, "no room to finish");
    }
    return world_sink_finish(&s->inner, file, written, err);
}

static void test_a_failed_destination(void **state)
{
    static const char *const texts[] = {"no room to open", "opened for reading",
                                        "no room to finish"};
    (void)state;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        world w = {0};
        failing_sink sink = {.bad_file = (uint32_t)(seed % 3), .how = (int)(seed / 3 % 3)};
        sw_error err = {0};
        sw_tally tally = {0};
        world_make(&w, seed + 9000);
        swi_layout *layout = world_layout(&w);
        world_sink_make(&sink.inner, layout);
        const swi_sink failing = {.ctx = &sink, .open = failing_open, .finish = failing_finish};
        const swi_execute_in in = {
            .source = &w.source, .layout = layout, .sink = &failing, .budget = small_budget(&w)};
        sw_status status = swi_execute_job(&in, NULL, &tally, &err);
        if (sink.how == 1 &&
            swi_catalog_file_bytes(swi_layout_catalog(layout), sink.bad_file) == 0) {
            assert_ok(status, &err); /* nothing is written to an empty file */
        } else {
            assert_int_not_equal(status, SW_OK);
            assert_contains(err.text, texts[sink.how]);
            /* No file behind the bad one is finished: order matters, the index comes last. */
            assert_true(sink.inner.finished <= sink.bad_file);
        }
        swi_store_close(sink.inner.store);
        swi_layout_free(layout);
        world_free(&w);
    }
}

static bool stop(void *ctx, const sw_progress *progress)
{
    uint32_t *calls = ctx;
    (void)progress;
    return --*calls > 0;
}

/* Stopped before the first unit, and after the last: nothing is said to be done. */
static void test_stopped_by_progress(void **state)
{
    (void)state;
    for (uint32_t calls = 1; calls <= 2; calls++) {
        world w = {0};
        world_sink sink;
        sw_error err = {0};
        sw_tally tally = {0};
        uint32_t left = calls;
        sw_work_options work = {.progress = stop, .progress_ctx = &left};
        world_make(&w, 9500);
        swi_layout *layout = world_layout(&w);
        world_sink_make(&sink, layout);
        assert_int_equal(swi_execute(&w.source, layout, &sink.sink, &work, NULL, &tally, &err),
                         SW_ERR_CANCELED);
        assert_error(&err, SW_ERR_CANCELED, "stopped as asked");
        if (calls == 1)
            assert_int_equal(sink.opened, 0);
        swi_store_close(sink.store);
        swi_layout_free(layout);
        world_free(&w);
    }
}

/* ---- going on after an earlier run
 * ------------------------------------------------------------------- */

/* Some files are there already: they are left alone, the rest is made, all CRCs are still checked.
 */
static void test_resumed(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        world w = {.crc = true};
        world_sink whole, rest;
        sw_tally tally = {0}, tally_rest = {0};
        sw_error err = {0};
        world_make(&w, seed + 10000);
        swi_layout *layout = world_layout(&w);
        const sw_catalog *catalog = swi_layout_catalog(layout);
        swi_budget budget = small_budget(&w);
        world_sink_make(&whole, layout);
        world_sink_make(&rest, layout);
        convert(&w.source, layout, &whole, &budget, &tally);
        uint64_t left = 0;
        for (uint32_t f = 0; f < WORLD_FILES; f++) {
            rest.done[f] = world_below(&w, 2) == 0;
            left += rest.done[f] ? 0 : swi_catalog_file_bytes(catalog, f);
        }
        rest.sink.skip = skip_done;
        const swi_execute_in in = {
            .source = &w.source, .layout = layout, .sink = &rest.sink, .budget = budget};
        bool before[WORLD_FILES];
        memcpy(before, rest.done, sizeof before);
        assert_ok(swi_execute_job(&in, NULL, &tally_rest, &err), &err);
        assert_int_equal(tally_rest.written_bytes, left);
        for (uint32_t f = 0; f < WORLD_FILES; f++) {
            uint8_t *x, *y;
            size_t nx, ny;
            const char *path = swi_catalog_path(catalog, f);
            if (before[f]) {
                swi_entry entry;
                assert_int_equal(swi_store_stat(rest.store, path, &entry, &err), SW_ERR_NOTFOUND);
                continue;
            }
            assert_ok(swi_store_read_all(whole.store, path, UINT32_MAX, &x, &nx, &err), &err);
            assert_ok(swi_store_read_all(rest.store, path, UINT32_MAX, &y, &ny, &err), &err);
            assert_int_equal(nx, ny);
            assert_memory_equal(x, y, nx);
            free(x);
            free(y);
        }
        swi_store_close(whole.store);
        swi_store_close(rest.store);
        swi_layout_free(layout);
        world_free(&w);
    }
}

/* A record that the earlier run had read in part, or will not be read whole, is still checked. */
static void test_resumed_with_a_flipped_bit(void **state)
{
    uint32_t found = 0, untouched = 0;
    (void)state;
    for (uint64_t seed = 1; seed <= 150; seed++) {
        world w = {.crc = true};
        world_sink sink;
        sw_report *report = NULL;
        sw_tally tally = {0};
        sw_error err = {0};
        world_make(&w, seed + 10500);
        swi_layout *layout = world_layout(&w);
        world_sink_make(&sink, layout);
        sink.sink.skip = skip_done;
        sink.done[0] = true;
        const swi_execute_in in = {
            .source = &w.source, .layout = layout, .sink = &sink.sink, .budget = small_budget(&w)};
        if (swi_catalog_blob_count(w.catalog) > 0) {
            (void)damage(&w);
            assert_ok(sw_report_make(&report, &err), &err);
            sw_status status = swi_execute_job(&in, report, &tally, &err);
            if (status != SW_OK) {
                assert_error(&err, SW_ERR_CORRUPT, "expected ");
                assert_int_equal(sw_report_count(report), 1);
                assert_memory_equal(sw_report_at(report, 0)->tensor, "t", 1);
            }
            found += status != SW_OK;
            untouched += status == SW_OK && tally.unchecked_bytes == 0;
            sw_report_free(report);
        }
        swi_store_close(sink.store);
        swi_layout_free(layout);
        world_free(&w);
    }
    assert_true(found > 60);
    assert_true(untouched > 0); /* those that only file 0 takes of */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_meshes),
        cmocka_unit_test(test_records_with_strides_swaps_and_crcs),
        cmocka_unit_test(test_replicas),
        cmocka_unit_test(test_any_number_of_threads),
        cmocka_unit_test(test_default_budget),
        cmocka_unit_test(test_budget_is_kept),
        cmocka_unit_test(test_large_records),
        cmocka_unit_test(test_resumed_in_the_middle_of_a_record),
        cmocka_unit_test(test_casts),
        cmocka_unit_test(test_a_flipped_bit),
        cmocka_unit_test(test_a_failed_read),
        cmocka_unit_test(test_a_failed_destination),
        cmocka_unit_test(test_stopped_by_progress),
        cmocka_unit_test(test_resumed),
        cmocka_unit_test(test_resumed_with_a_flipped_bit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
