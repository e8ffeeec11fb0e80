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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_meshes),
        cmocka_unit_test(test_records_with_strides_swaps_and_crcs),
        cmocka_unit_test(test_replicas),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
