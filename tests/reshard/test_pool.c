/* Threads that take units in order: all are done, the earliest error wins, progress is told. */
#include "harness/harness.h"

#include <string.h>

#include "pool.h"

#define UNITS 500U

typedef struct fixture {
    swi_pool pool;
    uint32_t next, end;
    atomic_uint done[UNITS];
    uint32_t fails, fails_later; /* these units fail; UINT32_MAX: none */
    bool earlier_first;          /* the one of lower number fails before the other */
    atomic_bool later_begun;
} fixture;

static bool take(void *ctx, void *worker)
{
    fixture *f = ctx;
    if (f->next == f->end)
        return false;
    *(uint32_t *)worker = f->next++;
    return true;
}

static sw_status work_unit(void *ctx, void *worker, sw_error *err)
{
    fixture *f = ctx;
    uint32_t unit = *(uint32_t *)worker;
    if (unit == f->fails) {
        while (!atomic_load(f->earlier_first ? &f->later_begun : &f->pool.stopped)) {
        }
        return swi_fail(err, SW_ERR_CORRUPT, "unit %u", unit);
    }
    if (unit == f->fails_later) {
        atomic_store(&f->later_begun, true);
        while (f->earlier_first && !atomic_load(&f->pool.stopped)) {
        }
        return swi_fail(err, SW_ERR_IO, "unit %u", unit);
    }
    /* so that the number of units that are begun does not hang on the scheduler */
    while (f->fails != UINT32_MAX && unit > f->fails_later && !atomic_load(&f->pool.stopped)) {
    }
    atomic_fetch_add(&f->done[unit], 1);
    atomic_fetch_add(&f->pool.done_bytes, 10);
    return SW_OK;
}

static sw_status run(fixture *f, uint32_t threads, const sw_work_options *work, sw_error *err)
{
    uint32_t taken[8];
    void *workers[8];
    const swi_job job = {.ctx = f, .take = take, .work = work_unit};
    for (uint32_t i = 0; i < threads; i++)
        workers[i] = &taken[i];
    assert_ok(swi_pool_init(&f->pool, err), err);
    sw_status status = swi_pool_run(&f->pool, &job, workers, threads, work, f->end * 10, err);
    swi_pool_end(&f->pool);
    return status;
}

static void test_each_unit_once(void **state)
{
    (void)state;
    for (uint32_t threads = 1; threads <= 8; threads++) {
        static fixture f;
        sw_error err = {0};
        memset(&f, 0, sizeof f);
        f.end = UNITS;
        f.fails = f.fails_later = UINT32_MAX;
        assert_ok(run(&f, threads, NULL, &err), &err);
        for (uint32_t i = 0; i < UNITS; i++)
            assert_int_equal(atomic_load(&f.done[i]), 1);
    }
}

/* Unit 7 fails after or before unit 9: its error is the one, and what comes later is not begun. */
static void test_the_earliest_error_wins(void **state)
{
    (void)state;
    for (uint32_t round = 0; round < 14; round++) {
        static fixture f;
        sw_error err = {0};
        uint32_t done = 0, threads = 2 + round / 2;
        memset(&f, 0, sizeof f);
        f.end = UNITS;
        f.fails = 7;
        f.fails_later = 9;
        f.earlier_first = round % 2 == 0;
        assert_int_equal(run(&f, threads, NULL, &err), SW_ERR_CORRUPT);
        assert_error(&err, SW_ERR_CORRUPT, "unit 7");
        for (uint32_t i = 0; i < 7; i++)
            assert_int_equal(atomic_load(&f.done[i]), 1);
        for (uint32_t i = 0; i < UNITS; i++)
            done += atomic_load(&f.done[i]);
        if (threads == 2) /* one waits in unit 7, the other does 8 and fails in 9 */
            assert_int_equal(done, 8);
    }
}

typedef struct watched {
    uint32_t calls;
    sw_progress last;
} watched;

static bool watch(void *ctx, const sw_progress *progress)
{
    watched *w = ctx;
    assert_true(progress->done_bytes >= w->last.done_bytes);
    w->calls++;
    w->last = *progress;
    return true;
}

static void test_progress(void **state)
{
    static fixture f;
    sw_error err = {0};
    watched w = {0};
    const sw_work_options work = {.progress = watch, .progress_ctx = &w};
    (void)state;
    f.end = UNITS;
    f.fails = f.fails_later = UINT32_MAX;
    assert_ok(run(&f, 3, &work, &err), &err);
    assert_true(w.calls >= 2);
    assert_int_equal(w.last.done_bytes, UNITS * 10);
    assert_int_equal(w.last.total_bytes, UNITS * 10);
}

static void test_options(void **state)
{
    const sw_work_options asked = {.threads = 5, .memory_bytes = 77};
    (void)state;
    assert_int_equal(swi_work_threads(&asked), 5);
    assert_int_equal(swi_work_memory(&asked), 77);
    assert_true(swi_work_threads(NULL) >= 1 && swi_work_threads(NULL) <= 16);
    assert_int_equal(swi_work_memory(NULL), 40 << 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_unit_once),
        cmocka_unit_test(test_the_earliest_error_wins),
        cmocka_unit_test(test_progress),
        cmocka_unit_test(test_options),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
