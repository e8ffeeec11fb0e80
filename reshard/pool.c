#include "pool.h"

#include <sched.h>
#include <stdlib.h>
#include <time.h>

#include "base/arena.h"
#include "base/monitor.h"

#define THREADS_MAX 16U
#define MEMORY_DEFAULT ((uint64_t)40 << 20)
#define TICK_NS 100000000L

uint32_t swi_work_threads(const sw_work_options *work)
{
    if (work != NULL && work->threads != 0)
        return work->threads < 1024 ? work->threads : 1024;
    cpu_set_t set;
    CPU_ZERO(&set);
    int count = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
    if (count < 1)
        return 1;
    return (uint32_t)count < THREADS_MAX ? (uint32_t)count : THREADS_MAX;
}

uint64_t swi_work_memory(const sw_work_options *work)
{
    return work != NULL && work->memory_bytes != 0 ? work->memory_bytes : MEMORY_DEFAULT;
}

sw_status swi_pool_init(swi_pool *pool, sw_error *err)
{
    *pool = (swi_pool){.failed_unit = UINT64_MAX};
    sw_status status = swi_monitor_make(&pool->lock, &pool->changed, err);
    if (status != SW_OK)
        return status;
    pool->made = true;
    return SW_OK;
}

void swi_pool_end(swi_pool *pool)
{
    if (!pool->made)
        return;
    swi_monitor_end(&pool->lock, &pool->changed);
    pool->made = false;
}

static void fail_locked(swi_pool *pool, uint64_t unit, const sw_error *error)
{
    atomic_store(&pool->stopped, true);
    if (pool->error.status == SW_OK || unit < pool->failed_unit) {
        pool->error = *error;
        pool->failed_unit = unit;
    }
}

void swi_pool_fail(swi_pool *pool, uint64_t unit, const sw_error *error)
{
    (void)pthread_mutex_lock(&pool->lock);
    fail_locked(pool, unit, error);
    (void)pthread_mutex_unlock(&pool->lock);
}

typedef struct thread {
    swi_pool *pool;
    const swi_job *job;
    void *worker;
    pthread_t id;
} thread;

static void *run_thread(void *arg)
{
    const thread *t = arg;
    swi_pool *pool = t->pool;
    for (;;) {
        (void)pthread_mutex_lock(&pool->lock);
        bool more = !atomic_load(&pool->stopped) && t->job->take(t->job->ctx, t->worker);
        uint64_t unit = pool->next_unit++;
        (void)pthread_mutex_unlock(&pool->lock);
        if (!more)
            break;
        sw_error error = {0};
        if (t->job->work(t->job->ctx, t->worker, &error) != SW_OK)
            swi_pool_fail(pool, unit, &error);
    }
    (void)pthread_mutex_lock(&pool->lock);
    pool->running--;
    (void)pthread_cond_broadcast(&pool->changed);
    (void)pthread_mutex_unlock(&pool->lock);
    return NULL;
}

static bool report_progress(swi_pool *pool, const sw_work_options *work, uint64_t total_bytes)
{
    if (work == NULL || work->progress == NULL)
        return true;
    uint64_t done = atomic_load(&pool->done_bytes);
    const sw_progress progress = {
        .done_bytes = done < total_bytes ? done : total_bytes,
        .total_bytes = total_bytes,
    };
    return work->progress(work->progress_ctx, &progress);
}

static void cancel(swi_pool *pool)
{
    sw_error error = {0};
    (void)swi_fail(&error, SW_ERR_CANCELED, "stopped as asked");
    swi_pool_fail(pool, UINT64_MAX, &error);
}

/* Waits a tick or until no thread runs; says whether some still do. */
static bool wait_tick(swi_pool *pool)
{
    struct timespec until;
    (void)clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += TICK_NS;
    if (until.tv_nsec >= 1000000000L) {
        until.tv_nsec -= 1000000000L;
        until.tv_sec++;
    }
    (void)pthread_mutex_lock(&pool->lock);
    int rc = 0;
    while (pool->running > 0 && rc == 0)
        rc = pthread_cond_timedwait(&pool->changed, &pool->lock, &until);
    bool running = pool->running > 0;
    (void)pthread_mutex_unlock(&pool->lock);
    return running;
}

static uint32_t start_threads(swi_pool *pool, thread *threads, uint32_t count)
{
    uint32_t started = 0;
    int rc = 0;
    for (; started < count && rc == 0; started += rc == 0) {
        (void)pthread_mutex_lock(&pool->lock);
        pool->running++;
        (void)pthread_mutex_unlock(&pool->lock);
        rc = pthread_create(&threads[started].id, NULL, run_thread, &threads[started]);
    }
    if (rc == 0)
        return started;
    (void)pthread_mutex_lock(&pool->lock);
    pool->running--;
    (void)pthread_mutex_unlock(&pool->lock);
    /* Fewer threads do the same work; none at all cannot. */
    sw_error error = {0};
    (void)swi_fail_errno(&error, rc, "pthread_create");
    if (started == 0)
        swi_pool_fail(pool, UINT64_MAX, &error);
    return started;
}

/* Others than the pool's own threads may still fail it. */
static sw_status get_error(swi_pool *pool, sw_error *err)
{
    (void)pthread_mutex_lock(&pool->lock);
    sw_status status = pool->error.status;
    if (status != SW_OK && err != NULL)
        *err = pool->error;
    (void)pthread_mutex_unlock(&pool->lock);
    return status;
}

sw_status swi_pool_run(swi_pool *pool, const swi_job *job, void *const *workers, uint32_t count,
                       const sw_work_options *work, uint64_t total_bytes, sw_error *err)
{
    void *p;
    sw_status status = swi_alloc_array(count, sizeof(thread), &p, err);
    if (status != SW_OK)
        return status;
    thread *threads = p;
    for (uint32_t i = 0; i < count; i++)
        threads[i] = (thread){.pool = pool, .job = job, .worker = workers[i]};
    uint32_t started = 0;
    if (report_progress(pool, work, total_bytes))
        started = start_threads(pool, threads, count);
    else
        cancel(pool);
    while (wait_tick(pool))
        if (!report_progress(pool, work, total_bytes))
            cancel(pool);
    for (uint32_t i = 0; i < started; i++)
        (void)pthread_join(threads[i].id, NULL);
    free(threads);
    if (get_error(pool, NULL) == SW_OK && !report_progress(pool, work, total_bytes))
        cancel(pool);
    return get_error(pool, err);
}

void swi_tally_add(sw_tally *sum, const sw_tally *tally)
{
    sum->read_bytes += tally->read_bytes;
    sum->written_bytes += tally->written_bytes;
    sum->checked_bytes += tally->checked_bytes;
    sum->unchecked_bytes += tally->unchecked_bytes;
    sum->cast_elements += tally->cast_elements;
    sum->cast_overflows += tally->cast_overflows;
    sum->cast_underflows += tally->cast_underflows;
}
