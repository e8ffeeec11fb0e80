/* Work by several threads: every range once, and the failure that one thread would have met. */
#include "harness/harness.h"

#include <stdatomic.h>

#include "base/together.h"

enum { COUNT = 1000 };

typedef struct work {
    atomic_uint seen[COUNT];
    uint64_t step;
    uint64_t bad[2]; /* fail at these */
} work;

static sw_status see(void *ctx, uint64_t from, uint64_t to, sw_error *err)
{
    work *w = ctx;
    if (from % w->step != 0 || to <= from || to - from > w->step)
        return swi_fail(err, SW_ERR_ARG, "no range");
    for (uint64_t i = from; i < to; i++) {
        atomic_fetch_add(&w->seen[i], 1);
        if (i == w->bad[0] || i == w->bad[1])
            return swi_fail(err, SW_ERR_CORRUPT, "at %d", (int)i);
    }
    return SW_OK;
}

static void test_every_range_once(void **state)
{
    (void)state;
    for (uint32_t threads = 0; threads < 9; threads += 2) {
        for (uint64_t step = 1; step <= 2 * COUNT; step = 3 * step + 1) {
            work w = {.step = step, .bad = {COUNT, COUNT}};
            sw_error err = {0};
            assert_ok(swi_together_ranges(threads, COUNT, step, see, &w, &err), &err);
            for (size_t i = 0; i < COUNT; i++)
                assert_int_equal(atomic_load(&w.seen[i]), 1);
        }
    }
    work none = {.step = 1};
    assert_int_equal(swi_together_ranges(4, 0, 1, see, &none, NULL), SW_OK);
}

static void test_the_lowest_failure_is_told(void **state)
{
    (void)state;
    for (int round = 0; round < 200; round++) {
        work w = {.step = 7, .bad = {500, (uint64_t)(501 + round)}};
        sw_error err = {0};
        assert_int_equal(swi_together_ranges(4, COUNT, w.step, see, &w, &err), SW_ERR_CORRUPT);
        assert_error(&err, SW_ERR_CORRUPT, "at 500");
        for (size_t i = 0; i < 500; i++)
            assert_int_equal(atomic_load(&w.seen[i]), 1);
        assert_int_equal(swi_together_ranges(4, COUNT, w.step, see, &w, NULL), SW_ERR_CORRUPT);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_range_once),
                                       cmocka_unit_test(test_the_lowest_failure_is_told)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
