/* Encoded blobs: the cache of decoded chunks, and everything that reads through it. */
#include "world.h"

#include <pthread.h>

#include "compare.h"
#include "decoded.h"
#include "digest.h"
#include "load.h"

/* ---- the cache ------------------------------------------------------------------------------ */

static swi_decoded_found ask(swi_decoded *d, uint32_t blob, bool find_only, uint32_t *slot,
                             uint8_t **bytes)
{
    const swi_decoded_ask in = {.blob = blob, .raw_bytes = 10, .find_only = find_only};
    return swi_decoded_get(d, &in, slot, bytes);
}

static void fill(swi_decoded *d, uint32_t blob)
{
    uint32_t slot = 99;
    uint8_t *bytes = NULL;
    assert_int_equal(ask(d, blob, false, &slot, &bytes), SWI_DECODED_TO_FILL);
    memset(bytes, (int)blob, 10);
    swi_decoded_filled(d, slot, true);
    swi_decoded_release(d, slot, 1);
}

static bool is_there(swi_decoded *d, uint32_t blob)
{
    uint32_t slot;
    uint8_t *bytes;
    swi_decoded_found found = ask(d, blob, true, &slot, &bytes);
    if (found == SWI_DECODED_ABSENT)
        return false;
    assert_int_equal(found, SWI_DECODED_HELD);
    assert_int_equal(bytes[9], blob);
    swi_decoded_release(d, slot, 0);
    return true;
}

static void test_the_least_used_goes_first(void **state)
{
    sw_error err = {0};
    swi_decoded *d = NULL;
    (void)state;
    assert_ok(swi_decoded_make(3, 10, &d, &err), &err);
    for (uint32_t blob = 1; blob <= 3; blob++)
        fill(d, blob);
    assert_true(is_there(d, 1));
    fill(d, 4);
    assert_false(is_there(d, 2));
    assert_true(is_there(d, 1) && is_there(d, 3) && is_there(d, 4));
    /* One that was copied as a whole goes before others. */
    uint32_t slot;
    uint8_t *bytes;
    assert_int_equal(ask(d, 4, false, &slot, &bytes), SWI_DECODED_HELD);
    swi_decoded_release(d, slot, 9);
    fill(d, 5);
    assert_false(is_there(d, 4));
    assert_true(is_there(d, 1) && is_there(d, 3) && is_there(d, 5));
    swi_decoded_free(d);
}

static void test_what_is_held_stays(void **state)
{
    sw_error err = {0};
    swi_decoded *d = NULL;
    uint32_t first, second, slot;
    uint8_t *bytes;
    (void)state;
    assert_ok(swi_decoded_make(2, 10, &d, &err), &err);
    assert_int_equal(ask(d, 1, false, &first, &bytes), SWI_DECODED_TO_FILL);
    assert_int_equal(ask(d, 1, false, &slot, &bytes), SWI_DECODED_BUSY);
    assert_int_equal(ask(d, 1, true, &slot, &bytes), SWI_DECODED_BUSY);
    assert_int_equal(ask(d, 2, false, &second, &bytes), SWI_DECODED_TO_FILL);
    assert_int_equal(ask(d, 3, false, &slot, &bytes), SWI_DECODED_BUSY);
    assert_int_equal(ask(d, 3, true, &slot, &bytes), SWI_DECODED_ABSENT);
    /* What could not be decoded leaves its slot. */
    swi_decoded_filled(d, first, false);
    assert_int_equal(ask(d, 1, true, &slot, &bytes), SWI_DECODED_ABSENT);
    fill(d, 3);
    swi_decoded_filled(d, second, true);
    fill(d, 4);
    assert_false(is_there(d, 3));
    swi_decoded_release(d, second, 0);
    swi_decoded_free(d);
    assert_ok(swi_decoded_make(0, 10, &d, &err), &err);
    assert_null(d);
}

typedef struct user {
    swi_decoded *d;
    uint64_t seed;
    uint64_t filled;
    bool wrong;
} user;

static void *use(void *arg)
{
    user *u = arg;
    harness_prng prng = {.state = u->seed};
    for (int i = 0; i < 4000; i++) {
        uint32_t slot, blob = (uint32_t)harness_random_below(&prng, 12);
        const swi_decoded_ask in = {.blob = blob, .raw_bytes = 64, .wait = true};
        uint8_t *bytes;
        if (swi_decoded_get(u->d, &in, &slot, &bytes) == SWI_DECODED_TO_FILL) {
            bool ok = harness_random_below(&prng, 5) != 0;
            memset(bytes, (int)blob + 1, 64);
            u->filled++;
            swi_decoded_filled(u->d, slot, ok);
            if (!ok)
                continue;
        }
        for (int k = 0; k < 64; k++)
            u->wrong = u->wrong || bytes[k] != blob + 1;
        swi_decoded_release(u->d, slot, harness_random_below(&prng, 64));
    }
    return NULL;
}

/* More threads than slots: all come to an end, and none sees another's bytes. */
static void test_many_threads_few_slots(void **state)
{
    (void)state;
    for (uint32_t slots = 1; slots <= 6; slots++) {
        sw_error err = {0};
        swi_decoded *d = NULL;
        pthread_t threads[8];
        user users[8];
        assert_ok(swi_decoded_make(slots, 64, &d, &err), &err);
        for (uint32_t i = 0; i < 8; i++) {
            users[i] = (user){.d = d, .seed = slots * 100 + i};
            assert_int_equal(pthread_create(&threads[i], NULL, use, &users[i]), 0);
        }
        for (uint32_t i = 0; i < 8; i++) {
            assert_int_equal(pthread_join(threads[i], NULL), 0);
            assert_false(users[i].wrong);
            assert_true(users[i].filled > 0);
        }
        swi_decoded_free(d);
    }
}

/* ---- the budget ----------------------------------------------------------------------------- */

static void test_memory_is_divided(void **state)
{
    (void)state;
    for (uint64_t mib = 1; mib <= 256; mib *= 2) {
        for (uint32_t threads = 1; threads <= 64; threads *= 2) {
            for (uint64_t kib = 0; kib <= 16384; kib = kib == 0 ? 1 : kib * 4) {
                const swi_chunk_sizes sizes = {.raw = kib << 10, .stored = (kib << 10) * 2 / 3};
                const uint64_t own = (uint64_t)256 << 10, memory = mib << 20;
                swi_decoded_share s = swi_decoded_divide(&sizes, memory, threads, own);
                assert_true(s.threads >= 1 && s.threads <= threads);
                assert_true(s.each_bytes >= own + sizes.stored);
                assert_true(kib == 0 ? s.slots == 0 : s.slots >= s.threads);
                assert_true(s.slots <= SWI_DECODED_SLOTS_MAX);
                if (own + sizes.raw + sizes.stored <= memory)
                    assert_true(s.slots * sizes.raw + s.threads * s.each_bytes <= memory);
                else
                    assert_int_equal(s.threads, 1);
            }
        }
    }
}

/* What the executor takes for a tensor in two chunks of 1 MB. */
static void test_the_executor_keeps_its_budget(void **state)
{
    static const int64_t two[] = {1, 2};
    world w = {.encoded = true, .plain = true, .count = 1, .fixed_parts = two};
    (void)state;
    w.tensors[0] = (world_tensor){
        .name = "t0", .dtype = SW_U8, .axes = 2, .shape = {1000, 2000}, .elements = 2000000};
    world_build(&w);
    swi_layout *layout = world_layout(&w);
    for (uint32_t threads = 1; threads <= 64; threads *= 2) {
        for (uint64_t mib = 3; mib <= 300; mib *= 3) {
            sw_work_options work = {.threads = threads, .memory_bytes = mib << 20};
            swi_budget b = swi_execute_budget(&work, w.catalog, layout);
            uint64_t each = b.window_bytes + b.out_bytes + b.bounce_bytes;
            assert_int_equal(b.chunk_bytes, 1000000);
            assert_true(b.bounce_bytes >= 1000000 + WORLD_PREFIX);
            assert_true(b.window_bytes >= 200000);
            assert_true(b.threads >= 1 && b.threads <= threads && b.chunk_slots >= b.threads);
            assert_true(each * b.threads + b.chunk_slots * b.chunk_bytes <= mib << 20);
        }
    }
    swi_layout_free(layout);
    world_free(&w);
}

/* ---- conversions ---------------------------------------------------------------------------- */

static swi_budget chunk_budget(world *w)
{
    const swi_chunk_sizes sizes = swi_chunk_sizes_of(w->catalog);
    swi_budget b = {
        .threads = 1 + (uint32_t)world_below(w, 8),
        .window_bytes = 16 + (size_t)world_below(w, 2) * (size_t)world_below(w, 4000),
        .bounce_bytes = 64 + 16 * (size_t)world_below(w, 64),
        .chunk_slots = 1 + (uint32_t)world_below(w, 6),
        .chunk_bytes = sizes.raw,
    };
    if (b.bounce_bytes < sizes.stored)
        b.bounce_bytes = sizes.stored;
    return b;
}

/* Of the records that hold elements. */
static uint64_t encoded_bytes(const world *w)
{
    uint64_t bytes = 0;
    for (uint32_t id = 0; id < w->count; id++) {
        sw_tensor_info info;
        assert_true(sw_catalog_tensor(w->catalog, id, &info));
        for (uint64_t i = 0; i < info.piece_count; i++) {
            swi_piece piece;
            swi_blob blob;
            swi_tensor_piece(w->catalog, id, i, &piece);
            swi_catalog_blob(w->catalog, piece.blob, &blob);
            if (blob.ops == &world_encoded_ops && swi_piece_elements(&piece) > 0)
                bytes += blob.stored_bytes;
        }
    }
    return bytes;
}

/* Random layouts, budgets, threads; each chunk is checked, and counted once. */
static void test_random_layouts(void **state)
{
    uint64_t encoded = 0;
    (void)state;
    for (uint64_t seed = 1; seed <= 200; seed++) {
        world w = {.encoded = true, .strided = seed % 3 == 0};
        world_sink sink;
        sw_error err = {0};
        sw_tally tally = {0};
        world_make(&w, seed + 31000);
        swi_layout *layout = world_layout(&w);
        world_sink_make(&sink, layout);
        const swi_execute_in in = {
            .source = &w.source, .layout = layout, .sink = &sink.sink, .budget = chunk_budget(&w)};
        assert_ok(swi_execute_job(&in, NULL, &tally, &err), &err);
        world_verify(&w, layout, sink.store);
        assert_int_equal(tally.checked_bytes, encoded_bytes(&w));
        encoded += tally.checked_bytes;
        swi_store_close(sink.store);
        swi_layout_free(layout);
        world_free(&w);
    }
    assert_true(encoded > 100000);
}

/* Bytes that are shared by elements: replicas of encoded chunks, in parts of each other. */
static void test_replicas(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        world w = {.encoded = true, .replicas = true};
        world_sink sink;
        sw_error err = {0};
        sw_tally tally = {0};
        world_make(&w, seed + 32000);
        swi_layout *layout = world_layout(&w);
        world_sink_make(&sink, layout);
        assert_ok(swi_execute(&w.source, layout, &sink.sink, NULL, NULL, &tally, &err), &err);
        world_verify(&w, layout, sink.store);
        swi_store_close(sink.store);
        swi_layout_free(layout);
        world_free(&w);
    }
}

/* 512 x 512 bytes in a grid of 4 x 4 chunks of 16 KB. */
static void make_grid(world *w)
{
    static const int64_t grid[] = {4, 4};
    *w = (world){.encoded = true, .plain = true, .count = 1, .fixed_parts = grid};
    w->tensors[0] = (world_tensor){
        .name = "t0", .dtype = SW_U8, .axes = 2, .shape = {512, 512}, .elements = 512 * 512};
    world_build(w);
}

static swi_layout *whole_layout(const world *w)
{
    sw_error err = {0};
    swi_layout *layout = NULL;
    uint32_t file, tensor;
    const world_tensor *t = &w->tensors[0];
    swi_tensor_in in = {t->name, 2, t->dtype, 2, t->shape, SW_ROLE_PARAMETER};
    swi_piece p = {.axes = 2, .view = {512, 512}, .length = {512, 512}};
    swi_piece_make_dense(&p, 1);
    assert_ok(swi_layout_make(NULL, &layout, &err), &err);
    assert_ok(swi_layout_file(layout, "whole", t->elements, &file, &err), &err);
    assert_ok(swi_layout_tensor(layout, &in, 0, &tensor, &err), &err);
    assert_ok(swi_layout_piece(layout, tensor, file, 0, t->elements, &p, &err), &err);
    assert_ok(swi_layout_freeze(layout, &err), &err);
    return layout;
}

static unsigned decodes(void)
{
    unsigned sum = 0;
    for (uint32_t i = 0; i < world_record_count; i++)
        sum += atomic_load(&world_records[i].decoded);
    return sum;
}

/* Windows of 8 rows touch 4 chunks each, whose neighbours need them again. */
static void test_chunks_are_decoded_once(void **state)
{
    (void)state;
    for (uint32_t threads = 1; threads <= 8; threads *= 2) {
        world w;
        world_sink sink;
        sw_error err = {0};
        sw_tally tally = {0};
        make_grid(&w);
        swi_layout *layout = whole_layout(&w);
        world_sink_make(&sink, layout);
        const swi_execute_in in = {
            .source = &w.source,
            .layout = layout,
            .sink = &sink.sink,
            .budget = {.threads = threads,
                       .window_bytes = 8 * 512,
                       .bounce_bytes = 17000,
                       .chunk_slots = threads == 1 ? 4 : 16, /* a row of them; no one is late */
                       .chunk_bytes = 128 * 128},
        };
        assert_ok(swi_execute_job(&in, NULL, &tally, &err), &err);
        world_verify(&w, layout, sink.store);
        assert_int_equal(decodes(), 16);
        assert_int_equal(tally.read_bytes, 16 * (128 * 128 + WORLD_PREFIX));
        assert_int_equal(tally.checked_bytes, tally.read_bytes);
        assert_int_equal(tally.unchecked_bytes, 0);
        swi_store_close(sink.store);
        swi_layout_free(layout);
        world_free(&w);
    }
}

/* ---- damage --------------------------------------------------------------------------------- */

static void flip(world *w, const swi_blob *blob)
{
    sw_error err = {0};
    swi_file *file;
    uint8_t byte;
    uint64_t at = blob->offset_bytes + world_below(w, blob->stored_bytes);
    assert_ok(swi_store_open_write(w->store, swi_catalog_path(w->catalog, blob->file), &file, &err),
              &err);
    assert_ok(swi_file_read(file, at, &byte, 1, &err), &err);
    byte = (uint8_t)(byte ^ 1U << world_below(w, 8));
    assert_ok(swi_file_write(file, at, &byte, 1, &err), &err);
    swi_file_close(file);
}

static void expect_damage(const world *w, const swi_blob *blob, const sw_error *err)
{
    char place[64];
    (void)snprintf(place, sizeof place, "at %llu: crc is ", (unsigned long long)blob->offset_bytes);
    assert_error(err, SW_ERR_CORRUPT, "tensor \"t0\": ");
    assert_contains(err->text, swi_catalog_path(w->catalog, blob->file));
    assert_contains(err->text, place);
    assert_true(err->has_offset);
    assert_int_equal(err->offset_bytes, blob->offset_bytes);
}

/* One bit of one chunk: by the executor with any number of threads, by load, digest and compare. */
static void test_a_flipped_bit_is_found(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 16; i++) {
        world w;
        world_sink sink;
        sw_error err = {0};
        sw_report *report = NULL;
        swi_blob blob;
        uint8_t *out = malloc(512 * 512);
        assert_non_null(out);
        make_grid(&w);
        swi_layout *layout = whole_layout(&w);
        world_sink_make(&sink, layout);
        swi_catalog_blob(w.catalog, i, &blob);
        flip(&w, &blob);
        swi_budget budget = chunk_budget(&w);
        budget.threads = 1 + i % 7;
        const swi_execute_in in = {
            .source = &w.source, .layout = layout, .sink = &sink.sink, .budget = budget};
        assert_ok(sw_report_make(&report, &err), &err);
        assert_int_equal(swi_execute_job(&in, report, NULL, &err), SW_ERR_CORRUPT);
        expect_damage(&w, &blob, &err);
        assert_true(sw_report_count(report) > 0);
        const sw_finding *finding = sw_report_at(report, 0);
        assert_string_equal(finding->code, "undecodable");
        assert_string_equal(finding->tensor, "t0");
        assert_string_equal(finding->file, swi_catalog_path(w.catalog, blob.file));
        assert_int_equal(finding->offset_bytes, blob.offset_bytes);

        assert_int_equal(swi_load_interval(&w.source, 0, 0, 512 * 512, out, &err), SW_ERR_CORRUPT);
        expect_damage(&w, &blob, &err);
        swi_digest digest;
        const swi_digest_in all = {0};
        assert_int_equal(swi_catalog_digests(&w.source, &all, NULL, &digest, NULL, &err),
                         SW_ERR_CORRUPT);
        expect_damage(&w, &blob, &err);
        swi_pair pair = {0};
        assert_int_equal(swi_compare_pairs(&w.source, &w.source, &pair, 1, NULL, &err),
                         SW_ERR_CORRUPT);
        expect_damage(&w, &blob, &err);
        sw_report_free(report);
        free(out);
        swi_store_close(sink.store);
        swi_layout_free(layout);
        world_free(&w);
    }
}

/* ---- hash, compare -------------------------------------------------------------------------- */

/* Encoded or not, the digests are the same, and all is checked on the way. */
static void test_digests_and_pairs(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        world a = {.encoded = true}, b;
        sw_error err = {0};
        swi_digest of_a[WORLD_TENSORS_MAX], of_b[WORLD_TENSORS_MAX];
        swi_pair pairs[WORLD_TENSORS_MAX] = {0};
        sw_tally tally = {0};
        const swi_digest_in all = {0};
        const sw_work_options work = {.threads = 1 + (uint32_t)seed % 6, .memory_bytes = 1 << 20};
        world_make(&a, seed + 33000);
        assert_ok(swi_catalog_digests(&a.source, &all, &work, of_a, &tally, &err), &err);
        assert_true(tally.checked_bytes >= encoded_bytes(&a));
        b = a;
        b.encoded = false;
        b.prng.state = seed;
        world_build_beside(&b);
        assert_ok(swi_catalog_digests(&b.source, &all, &work, of_b, NULL, &err), &err);
        assert_memory_equal(of_a, of_b, a.count * sizeof of_a[0]);
        for (uint32_t id = 0; id < a.count; id++)
            pairs[id] = (swi_pair){.a = id, .b = id};
        assert_ok(swi_compare_pairs(&a.source, &b.source, pairs, a.count, &work, &err), &err);
        for (uint32_t id = 0; id < a.count; id++)
            assert_true(pairs[id].equal);
        world_free(&a);
        world_free(&b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_least_used_goes_first),
        cmocka_unit_test(test_what_is_held_stays),
        cmocka_unit_test(test_many_threads_few_slots),
        cmocka_unit_test(test_memory_is_divided),
        cmocka_unit_test(test_the_executor_keeps_its_budget),
        cmocka_unit_test(test_random_layouts),
        cmocka_unit_test(test_replicas),
        cmocka_unit_test(test_chunks_are_decoded_once),
        cmocka_unit_test(test_a_flipped_bit_is_found),
        cmocka_unit_test(test_digests_and_pairs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
