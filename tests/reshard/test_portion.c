/* Portions of a catalog: every record in exactly one part, of as good as equal bytes. */
#include "harness/harness.h"

#include <stdlib.h>

#include "portion.h"
#include "scan.h"
#include "world.h"

/* Which part holds the record of each blob; each is in exactly one, and those wanted alone. */
static void cut(const sw_catalog *catalog, const bool *wanted, uint64_t parts, uint64_t *part_of)
{
    const uint32_t count = swi_catalog_blob_count(catalog);
    uint64_t whole = 0, largest = 0, sum = 0;
    sw_error err = {0};
    for (uint32_t b = 0; b < count; b++) {
        swi_blob blob;
        swi_catalog_blob(catalog, b, &blob);
        part_of[b] = UINT64_MAX;
        largest = blob.stored_bytes > largest ? blob.stored_bytes : largest;
        whole += wanted == NULL || wanted[b] ? blob.stored_bytes : 0;
    }
    for (uint64_t i = 0; i < parts; i++) {
        const swi_portion_in in = {.wanted = wanted, .part = i, .parts = parts};
        swi_portion *p = NULL;
        uint64_t bytes = 0;
        assert_ok(swi_portion_make(catalog, &in, &p, &err), &err);
        for (uint32_t k = 0; k < swi_portion_count(p); k++) {
            const uint32_t b = swi_portion_at(p, k);
            swi_blob blob;
            swi_catalog_blob(catalog, b, &blob);
            bytes += blob.stored_bytes;
            assert_int_equal(swi_portion_find(p, b), k);
        }
        assert_int_equal(swi_portion_bytes(p), bytes);
        assert_true(bytes <= whole / parts + 1 + largest);
        for (uint32_t b = 0; b < count; b++) {
            if (swi_portion_find(p, b) == SWI_NOT_IN_PORTION)
                continue;
            assert_int_equal(part_of[b], UINT64_MAX);
            part_of[b] = i;
        }
        sum += bytes;
        swi_portion_free(p);
    }
    assert_int_equal(sum, whole);
    for (uint32_t b = 0; b < count; b++)
        assert_int_equal(part_of[b] != UINT64_MAX, wanted == NULL || wanted[b]);
}

static void test_every_record_once(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 40; seed++) {
        world w = {.crc = true};
        world_make(&w, 24000 + seed);
        const uint32_t count = swi_catalog_blob_count(w.source.catalog);
        bool *wanted = calloc(count + 1, sizeof *wanted);
        uint64_t *part_of = calloc(count + 1, sizeof *part_of);
        assert_true(wanted != NULL && part_of != NULL);
        for (uint32_t b = 0; b < count; b++)
            wanted[b] = world_below(&w, 3) > 0;
        cut(w.source.catalog, NULL, 1, part_of);
        cut(w.source.catalog, NULL, 1 + world_below(&w, 9), part_of);
        cut(w.source.catalog, NULL, 1000, part_of);
        cut(w.source.catalog, wanted, 1 + world_below(&w, 9), part_of);
        free(wanted);
        free(part_of);
        world_free(&w);
    }
}

/* What a part leaves out of each file, and what the scan of it says, make up the records. */
static void test_account(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 20; seed++) {
        world w = {.crc = seed % 2 == 0};
        sw_error err = {0};
        world_make(&w, 24100 + seed);
        const size_t files = sw_catalog_file_count(w.source.catalog);
        swi_portion *all = NULL;
        assert_ok(swi_portion_make(w.source.catalog, NULL, &all, &err), &err);
        const uint64_t whole = swi_portion_bytes(all);
        uint64_t checked = 0, without = 0;
        for (uint64_t i = 0; i < 3; i++) {
            swi_portion *p = NULL;
            sw_tally tally = {0};
            swi_blob_check *by_file = calloc(files + 1, sizeof *by_file);
            uint64_t left = 0, told = 0;
            assert_ok(swi_portion_make(w.source.catalog, &(swi_portion_in){.part = i, .parts = 3},
                                       &p, &err),
                      &err);
            bool *bare = calloc(swi_portion_count(p) + 1, sizeof *bare);
            assert_true(by_file != NULL && bare != NULL);
            const swi_scan_in in = {.portion = p, .files = by_file, .without = bare};
            assert_ok(swi_scan(&w.source, &in, NULL, &tally, &err), &err);
            for (uint32_t f = 0; f < files; f++) {
                left += swi_portion_left_out(p, f);
                told += by_file[f].checked_bytes + by_file[f].unchecked_bytes;
            }
            assert_int_equal(left + swi_portion_bytes(p), whole);
            assert_int_equal(told, tally.checked_bytes + tally.unchecked_bytes);
            assert_int_equal(tally.read_bytes, swi_portion_bytes(p));
            for (uint32_t k = 0; k < swi_portion_count(p) && !w.crc; k++)
                assert_true(bare[k]);
            checked += tally.checked_bytes;
            without += tally.unchecked_bytes;
            free(by_file);
            free(bare);
            swi_portion_free(p);
        }
        assert_int_equal(w.crc ? checked : without, whole);
        swi_portion_free(all);
        world_free(&w);
    }
}

static void test_no_such_part(void **state)
{
    world w = {0};
    sw_error err = {0};
    swi_portion *p = NULL;
    (void)state;
    world_make(&w, 24200);
    assert_int_equal(
        swi_portion_make(w.source.catalog, &(swi_portion_in){.part = 3, .parts = 3}, &p, &err),
        SW_ERR_ARG);
    assert_error(&err, SW_ERR_ARG, "no such part");
    assert_null(p);
    world_free(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_record_once),
        cmocka_unit_test(test_account),
        cmocka_unit_test(test_no_such_part),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
