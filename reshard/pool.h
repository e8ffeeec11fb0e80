/*
 * A few threads that take units of work in order. Of several errors that of the earliest unit wins:
 * units before it are always finished, later ones are not begun.
 */
#ifndef SW_RESHARD_POOL_H
#define SW_RESHARD_POOL_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/error.h"
#include "shardwright_reshard.h"

typedef struct swi_pool {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool made;
    uint64_t next_unit; /* number of the unit that is taken next */
    uint64_t failed_unit;
    sw_error error; /* its error; status SW_OK: none */
    uint32_t running;
    atomic_uint waiting; /* threads that wait for what others of them bring (pack.c) */
    atomic_bool stopped;
    atomic_uint_fast64_t done_bytes; /* for progress; work adds to it */
} swi_pool;

/* `take` is called by one thread at a time; false: nothing is left. `work` does what it took. */
typedef struct swi_job {
    void *ctx;
    bool (*take)(void *ctx, void *worker);
    sw_status (*work)(void *ctx, void *worker, sw_error *err);
} swi_job;

SW_MUST_USE sw_status swi_pool_init(swi_pool *pool, sw_error *err);
void swi_pool_end(swi_pool *pool);
/*
 * One thread per worker; returns when all have ended. The caller's thread reports progress at the
 * beginning, ten times a second and at the end; false from it is SW_ERR_CANCELED.
 */
SW_MUST_USE sw_status swi_pool_run(swi_pool *pool, const swi_job *job, void *const *workers,
                                   uint32_t count, const sw_work_options *work,
                                   uint64_t total_bytes, sw_error *err);
/* Ends the run with this error unless an earlier unit's is there. From any thread. */
void swi_pool_fail(swi_pool *pool, uint64_t unit, const sw_error *error);

/* Threads to use: as asked for, else the processors of this process, at most 16. */
uint32_t swi_work_threads(const sw_work_options *work);
uint64_t swi_work_memory(const sw_work_options *work);
void swi_tally_add(sw_tally *sum, const sw_tally *tally);

#endif
