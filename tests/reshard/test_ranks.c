/* Rank files: fused arrays, copies and scaled tensors, written byte by byte as they were asked for.
 */
#include "ranks.h"

#include "compare.h"
#include "digest.h"
#include "replicas.h"
#include "shaped.h"
#include "transform.h"

static swi_budget small_budget(world *w)
{
    swi_budget b = {
        .threads = 1 + (uint32_t)world_below(w, 4),
        .window_bytes = 16 + (size_t)world_below(w, 2) * (size_t)world_below(w, 4000),
        .bounce_bytes = 64 + 16 * (size_t)world_below(w, 64),
    };
    b.out_bytes = 4 * b.window_bytes + 64;
    return b;
}

static void write_all(const swi_source *source, const swi_layout *layout, world_sink *sink,
                      const swi_budget *budget, sw_tally *tally)
{
    sw_error err = {0};
    const swi_execute_in in = {
        .source = source, .layout = layout, .sink = &sink->sink, .budget = *budget};
    assert_ok(swi_execute_job(&in, NULL, tally, &err), &err);
    assert_int_equal(sink->finished, sw_catalog_file_count(swi_layout_catalog(layout)));
}

static void free_all(uint8_t *expected[WORLD_TENSORS_MAX], const world *w)
{
    for (uint32_t id = 0; id < w->count; id++)
        free(expected[id]);
}

static uint64_t all_bytes(const swi_layout *layout)
{
    uint64_t bytes = 0;
    for (uint32_t f = 0; f < WORLD_FILES; f++)
        bytes += swi_catalog_file_bytes(swi_layout_catalog(layout), f);
    return bytes;
}

/* Each copy is written once, and what they are copies of is hashed once. */
static void test_arrays_and_copies(void **state)
{
    static ranks r;
    (void)state;
    for (uint64_t seed = 1; seed <= 240; seed++) {
        world w = {.strided = seed % 3 == 0, .crc = seed % 4 == 0, .late = seed % 5 == 0};
        uint8_t *expected[WORLD_TENSORS_MAX];
        swi_digest written[WORLD_TENSORS_MAX] = {0}, right[WORLD_TENSORS_MAX] = {0};
        world_sink sink;
        sw_error err = {0};
        sw_tally tally = {0};
        world_make(&w, seed + 20000);
        ranks_begin(&r, &w, seed % 2 == 0);
        ranks_make(&r);
        ranks_expect(&r, expected);
        world_sink_make(&sink, r.layout);
        sink.sink.digests = seed % 3 != 1 ? written : NULL;
        swi_budget budget = small_budget(&w);
        write_all(&w.source, r.layout, &sink, &budget, &tally);
        ranks_verify(&r, expected, sink.store);
        const swi_digest_in all = {0};
        assert_int_equal(tally.written_bytes, all_bytes(r.layout));
        assert_ok(swi_catalog_digests(&w.source, &all, NULL, right, NULL, &err), &err);
        if (sink.sink.digests != NULL)
            assert_memory_equal(written, right, w.count * sizeof written[0]);
        free_all(expected, &w);
        swi_store_close(sink.store);
        ranks_free(&r);
        world_free(&w);
    }
}

static bool skip_done(const void *ctx, uint32_t file)
{
    return ((const world_sink *)ctx)->done[file];
}

/* Files of an earlier run are left alone, whoever else has copies of what they hold. */
static void test_resumed(void **state)
{
    static ranks r;
    (void)state;
    for (uint64_t seed = 1; seed <= 80; seed++) {
        world w = {.crc = seed % 2 == 0};
        uint8_t *expected[WORLD_TENSORS_MAX];
        world_sink sink;
        sw_tally tally = {0};
        uint64_t left = 0;
        world_make(&w, seed + 21000);
        ranks_begin(&r, &w, true);
        ranks_make(&r);
        ranks_expect(&r, expected);
        world_sink_make(&sink, r.layout);
        swi_budget budget = small_budget(&w);
        write_all(&w.source, r.layout, &sink, &budget, &tally);
        /* Some files again, on top of nothing but what the first run left of the others. */
        for (uint32_t f = 0; f < WORLD_FILES; f++) {
            sw_error err = {0};
            sink.done[f] = world_below(&w, 2) == 0;
            if (sink.done[f])
                continue;
            left += swi_catalog_file_bytes(swi_layout_catalog(r.layout), f);
            assert_ok(swi_store_remove(sink.store, world_path(f), &err), &err);
        }
        sw_error err = {0};
        sw_tally again = {0};
        sink.sink.skip = skip_done;
        swi_digest written[WORLD_TENSORS_MAX] = {0}, right[WORLD_TENSORS_MAX] = {0};
        const swi_digest_in all = {0};
        sink.sink.digests = seed % 3 == 0 ? written : NULL;
        const swi_execute_in in = {.source = &w.source,
                                   .layout = r.layout,
                                   .sink = &sink.sink,
                                   .budget = small_budget(&w)};
        assert_ok(swi_execute_job(&in, NULL, &again, &err), &err);
        assert_int_equal(again.written_bytes, left);
        assert_ok(swi_catalog_digests(&w.source, &all, NULL, right, NULL, &err), &err);
        if (sink.sink.digests != NULL)
            assert_memory_equal(written, right, w.count * sizeof written[0]);
        ranks_verify(&r, expected, sink.store);
        free_all(expected, &w);
        swi_store_close(sink.store);
        ranks_free(&r);
        world_free(&w);
    }
}

static void prove(const swi_source *source, const swi_layout *layout, uint64_t window_bytes)
{
    sw_error err = {0};
    swi_plan *plan = NULL;
    assert_ok(swi_plan_make(source->catalog, layout, window_bytes, NULL, NULL, &plan, &err), &err);
    assert_ok(swi_plan_check(plan, source->catalog, layout, NULL, &err), &err);
    swi_plan_free(plan);
}

/* What was written is a source like any other: from rank files to other rank files. */
static void test_from_ranks_to_ranks(void **state)
{
    static ranks r, next;
    (void)state;
    for (uint64_t seed = 1; seed <= 120; seed++) {
        world w = {0};
        uint8_t *expected[WORLD_TENSORS_MAX];
        world_sink first, second;
        sw_error err = {0};
        sw_tally tally = {0};
        swi_filecache *cache = NULL;
        sw_limits limits = sw_limits_resolve(NULL);
        world_make(&w, seed + 22000);
        ranks_begin(&r, &w, seed % 3 != 0);
        ranks_begin(&next, &w, true);
        ranks_make(&r);
        ranks_make(&next);
        ranks_expect(&r, expected);
        world_sink_make(&first, r.layout);
        world_sink_make(&second, next.layout);
        swi_budget budget = small_budget(&w);
        write_all(&w.source, r.layout, &first, &budget, &tally);
        const sw_catalog *catalog = swi_layout_catalog(r.layout);
        assert_ok(swi_filecache_make(first.store, WORLD_FILES, swi_catalog_path_of, catalog,
                                     &limits, &cache, &err),
                  &err);
        const swi_source written = {.catalog = catalog, .reader = swi_filecache_reader(cache)};
        prove(&written, next.layout, 1 + world_below(&w, 300));
        write_all(&written, next.layout, &second, &budget, &tally);
        ranks_verify(&next, expected, second.store);
        swi_filecache_free(cache);
        free_all(expected, &w);
        swi_store_close(first.store);
        swi_store_close(second.store);
        ranks_free(&r);
        ranks_free(&next);
        world_free(&w);
    }
}

/* ---- scaled tensors ------------------------------------------------------------------------- */

/* The product of whole tensors. */
static void expect_scaled(const ranks *r, uint8_t *expected[WORLD_TENSORS_MAX], sw_tally *tally)
{
    ranks_expect(r, expected);
    for (uint32_t id = 0; id < 4; id += 2) {
        const world_tensor *t = &r->w->tensors[id];
        const swi_scale_in in = {expected[id], t->dtype, expected[id + 1],
                                 r->w->tensors[id + 1].dtype};
        uint8_t *out = malloc((size_t)t->elements * 4 + 1);
        assert_non_null(out);
        swi_scale(&in, out, r->dtypes[id], (size_t)t->elements, tally);
        free(expected[id]);
        expected[id] = out;
    }
}

static void test_scaled(void **state)
{
    static ranks r;
    (void)state;
    for (uint64_t seed = 1; seed <= 200; seed++) {
        world w = {.strided = seed % 3 == 0, .crc = seed % 2 == 0};
        uint8_t *expected[WORLD_TENSORS_MAX];
        swi_digest digests[WORLD_TENSORS_MAX] = {0};
        world_sink sink;
        sw_error err = {0};
        sw_tally tally = {0}, right = {0};
        ranks_scaled_world(&w, seed + 23000);
        ranks_begin(&r, &w, seed % 2 == 0);
        ranks_scale(&r);
        r.left_out[1] = true; /* the factors of 2 are in the destination besides */
        ranks_make(&r);
        assert_int_equal(swi_layout_scale_of(r.layout, r.id[0]), 1);
        assert_int_equal(swi_layout_scale_of(r.layout, r.id[2]), 3);
        assert_int_equal(swi_layout_scale_of(r.layout, r.id[3]), -1);
        expect_scaled(&r, expected, &right);
        world_sink_make(&sink, r.layout);
        sink.sink.digests = digests;
        swi_budget budget = small_budget(&w);
        write_all(&w.source, r.layout, &sink, &budget, &tally);
        ranks_verify(&r, expected, sink.store);
        assert_int_equal(tally.cast_elements, right.cast_elements);
        assert_int_equal(tally.cast_overflows, right.cast_overflows);
        assert_int_equal(tally.cast_underflows, right.cast_underflows);
        for (uint32_t id = 0; id < 4; id += 2) {
            swi_digest_tree *tree = NULL;
            swi_digest of[WORLD_TENSORS_MAX];
            const swi_digest_part part = {.tensor = r.id[id],
                                          .dtype = r.dtypes[id],
                                          .elements = w.tensors[id].elements,
                                          .data = expected[id]};
            assert_ok(swi_digest_tree_make(swi_layout_catalog(r.layout), of, &tree, &err), &err);
            assert_ok(swi_digest_tree_add(tree, &part, &err), &err);
            assert_memory_equal(&of[r.id[id]], &digests[r.id[id]], sizeof of[0]);
            swi_digest_tree_free(tree);
        }
        free_all(expected, &w);
        swi_store_close(sink.store);
        ranks_free(&r);
        world_free(&w);
    }
}

/* The public call, in one budget after another: memory holds elements, factors and results. */
static void test_scaled_in_any_budget(void **state)
{
    static ranks r;
    (void)state;
    for (uint64_t seed = 1; seed <= 12; seed++) {
        world w = {0};
        uint8_t *expected[WORLD_TENSORS_MAX];
        sw_tally right = {0};
        ranks_scaled_world(&w, seed + 24000);
        ranks_begin(&r, &w, true);
        ranks_scale(&r);
        ranks_make(&r);
        expect_scaled(&r, expected, &right);
        for (uint64_t mib = 1; mib <= 64; mib *= 8) {
            world_sink sink;
            sw_error err = {0};
            sw_tally tally = {0};
            const sw_work_options work = {.threads = 3, .memory_bytes = mib << 20};
            swi_budget b = swi_execute_budget(&work, w.catalog, r.layout);
            assert_true((b.window_bytes + b.out_bytes + b.bounce_bytes) * b.threads <= mib << 20);
            world_sink_make(&sink, r.layout);
            assert_ok(swi_execute(&w.source, r.layout, &sink.sink, &work, NULL, &tally, &err),
                      &err);
            ranks_verify(&r, expected, sink.store);
            swi_store_close(sink.store);
        }
        free_all(expected, &w);
        ranks_free(&r);
        world_free(&w);
    }
}

/* A weight of 300 x 200 with a scale for each block of 128 x 128, cut over ranks and files. */
static void test_block_scales(void **state)
{
    static const int64_t shape[] = {300, 200}, blocks[] = {128, 128};
    static ranks r;
    (void)state;
    for (uint64_t seed = 1; seed <= 6; seed++) {
        world w = {.count = 2, .crc = seed % 2 == 0, .prng = {.state = seed}};
        sw_error err = {0};
        sw_tally tally = {0}, right = {0};
        swi_builder *builder = NULL;
        sw_catalog *catalog = NULL;
        world_sink sink;
        uint32_t id;
        w.tensors[0] = (world_tensor){"t0", SW_F8_E4M3FN, 2, {300, 200}, 60000, {0}};
        w.tensors[1] = (world_tensor){"t1", SW_F32, 2, {3, 2}, 6, {0}};
        world_build(&w);
        assert_ok(swi_builder_from(w.catalog, NULL, &builder, &err), &err);
        for (uint32_t i = 0; i < 2; i++) {
            const swi_shaped_name name = {w.tensors[i].name, 2, SW_ROLE_PARAMETER};
            swi_shaped taken = {0}, spread = {0};
            assert_ok(swi_shaped_take(w.catalog, i, &taken, &err), &err);
            if (i == 1)
                assert_ok(swi_shaped_spread(&taken, 2, shape, blocks, &spread, &err), &err);
            assert_ok(swi_shaped_put(builder, &name, i == 1 ? &spread : &taken, &id, &err), &err);
            swi_shaped_free(&taken);
            swi_shaped_free(&spread);
        }
        assert_ok(swi_builder_freeze(builder, NULL, &catalog, &err), &err);
        uint8_t *elements = malloc(60000), *factors = malloc(240000), *made = malloc(120000);
        assert_true(elements != NULL && factors != NULL && made != NULL);
        for (uint64_t i = 0; i < 60000; i++) {
            world_put(elements + i, &w.tensors[0], 0, i);
            world_put(factors + 4 * i, &w.tensors[1], 1, i / 200 / 128 * 2 + i % 200 / 128);
        }
        const swi_scale_in in = {elements, SW_F8_E4M3FN, factors, SW_F32};
        uint8_t *expected[WORLD_TENSORS_MAX] = {made};
        swi_scale(&in, made, SW_BF16, 60000, &right);
        ranks_begin(&r, &w, seed > 3);
        r.left_out[1] = true;
        r.dtypes[0] = SW_BF16;
        r.scales[0] = 1;
        ranks_make(&r);
        const swi_source mapped = {.catalog = catalog, .reader = w.source.reader};
        prove(&mapped, r.layout, 1 + world_below(&w, 100000));
        world_sink_make(&sink, r.layout);
        swi_budget budget = small_budget(&w);
        write_all(&mapped, r.layout, &sink, &budget, &tally);
        ranks_verify(&r, expected, sink.store);
        assert_int_equal(tally.cast_overflows, right.cast_overflows);
        free(elements);
        free(factors);
        free(made);
        swi_store_close(sink.store);
        ranks_free(&r);
        sw_catalog_free(catalog);
        world_free(&w);
    }
}

/* ---- looking back --------------------------------------------------------------------------- */

/* The first difference that is to be found when a byte of a file is another. */
typedef struct seek {
    uint64_t byte, element_bytes, flat;
    bool found;
} seek;

static void seek_one(void *ctx, uint64_t flat, uint64_t byte)
{
    seek *s = ctx;
    if (s->byte < byte || s->byte >= byte + s->element_bytes)
        return;
    s->flat = flat;
    s->found = true;
}

static void flip(swi_store *store, uint32_t file, uint64_t at)
{
    sw_error err = {0};
    swi_file *f = NULL;
    uint8_t byte;
    assert_ok(swi_store_open_write(store, world_path(file), &f, &err), &err);
    assert_ok(swi_file_read(f, at, &byte, 1, &err), &err);
    byte ^= 0x40;
    assert_ok(swi_file_write(f, at, &byte, 1, &err), &err);
    swi_file_close(f);
}

static swi_compare_in compare_of(const ranks *r, const swi_source *written, uint32_t id,
                                 uint8_t *buffer, size_t size)
{
    return (swi_compare_in){.a = &r->w->source,
                            .b = written,
                            .tensor_a = id,
                            .tensor_b = r->id[id],
                            .scaled = r->scales[id] >= 0,
                            .scale = (uint32_t)(r->scales[id] >= 0 ? r->scales[id] : 0),
                            .buffer = buffer,
                            .buffer_bytes = size};
}

typedef struct holders {
    uint64_t flat;
    uint32_t count;
} holders;

static void count_one(void *ctx, uint64_t flat, uint64_t byte)
{
    holders *h = ctx;
    (void)byte;
    h->count += flat == h->flat;
}

/* How many places hold the element. */
static uint32_t count_holders(const ranks *r, uint32_t tensor, uint64_t flat)
{
    holders h = {.flat = flat};
    for (uint32_t i = 0; i < r->count; i++)
        if (r->blocks[i].tensor == tensor)
            ranks_each(&r->blocks[i], 1, count_one, &h);
    return h.count;
}

/* Each block with one byte changed, and whole again. */
static uint32_t find_flips(const ranks *r, const swi_source *written, swi_store *store,
                           uint8_t *buffer, size_t size)
{
    uint32_t found = 0;
    for (uint32_t i = 0; i < r->count; i++) {
        const rank_block *b = &r->blocks[i];
        sw_error err = {0};
        bool equal = true;
        uint64_t first = 0;
        uint32_t blob_id = UINT32_MAX;
        swi_blob blob;
        if (b->bytes == 0)
            continue;
        seek s = {.byte = b->at + world_below(r->w, b->bytes),
                  .element_bytes = sw_dtype_bytes(ranks_dtype(r, b->tensor))};
        ranks_each(b, (uint32_t)s.element_bytes, seek_one, &s);
        assert_true(s.found);
        flip(store, b->file, s.byte);
        const swi_compare_in in = compare_of(r, written, b->tensor, buffer, size);
        assert_ok(swi_compare_pieces(&in, &equal, &first, &blob_id, &err), &err);
        assert_false(equal);
        assert_int_equal(first, s.flat);
        swi_catalog_blob(written->catalog, blob_id, &blob);
        assert_int_equal(blob.file, b->file);
        assert_int_equal(blob.offset_bytes, b->at);
        uint32_t copies = count_holders(r, b->tensor, s.flat);
        assert_ok(swi_replicas_compare(written, r->id[b->tensor], buffer, size, &equal, &first,
                                       &blob_id, &err),
                  &err);
        assert_int_equal(equal, copies == 1);
        if (!equal)
            assert_int_equal(first, s.flat);
        if (!r->copies) {
            assert_ok(swi_compare(&in, &equal, &first, &err), &err);
            assert_false(equal);
            assert_int_equal(first, s.flat);
        }
        flip(store, b->file, s.byte);
        found++;
    }
    return found;
}

/* Every piece and every copy is compared, with what the source is scaled or cast to. */
static void test_compare_pieces(void **state)
{
    static ranks r;
    uint32_t found = 0;
    (void)state;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        world w = {0};
        uint8_t buffer[400];
        world_sink sink;
        sw_error err = {0};
        sw_tally tally = {0};
        swi_filecache *cache = NULL;
        sw_limits limits = sw_limits_resolve(NULL);
        ranks_scaled_world(&w, seed + 25000);
        ranks_begin(&r, &w, seed % 2 == 0);
        ranks_scale(&r);
        r.left_out[1] = true;
        ranks_make(&r);
        world_sink_make(&sink, r.layout);
        swi_budget budget = small_budget(&w);
        write_all(&w.source, r.layout, &sink, &budget, &tally);
        const sw_catalog *catalog = swi_layout_catalog(r.layout);
        assert_ok(swi_filecache_make(sink.store, WORLD_FILES, swi_catalog_path_of, catalog, &limits,
                                     &cache, &err),
                  &err);
        const swi_source written = {.catalog = catalog, .reader = swi_filecache_reader(cache)};
        for (uint32_t id = 0; id < w.count; id++) {
            bool equal = false;
            uint64_t first;
            uint32_t blob;
            const swi_compare_in in = compare_of(&r, &written, id, buffer, sizeof buffer);
            if (r.left_out[id])
                continue;
            assert_ok(swi_compare_pieces(&in, &equal, &first, &blob, &err), &err);
            assert_true(equal);
            assert_ok(swi_compare(&in, &equal, &first, &err), &err);
            assert_true(equal);
            assert_ok(swi_replicas_compare(&written, r.id[id], buffer, sizeof buffer, &equal,
                                           &first, &blob, &err),
                      &err);
            assert_true(equal);
        }
        found += find_flips(&r, &written, sink.store, buffer, sizeof buffer);
        swi_filecache_free(cache);
        swi_store_close(sink.store);
        ranks_free(&r);
        world_free(&w);
    }
    assert_true(found > 300);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_arrays_and_copies),    cmocka_unit_test(test_resumed),
        cmocka_unit_test(test_from_ranks_to_ranks),  cmocka_unit_test(test_scaled),
        cmocka_unit_test(test_scaled_in_any_budget), cmocka_unit_test(test_block_scales),
        cmocka_unit_test(test_compare_pieces),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
