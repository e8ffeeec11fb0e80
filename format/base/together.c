#include "base/together.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/arena.h"

typedef struct helper {
    swi_hand hand;
    void *ctx;
    pthread_t thread;
    sw_status status;
    sw_error error;
} helper;

static void *run(void *argument)
{
    helper *me = argument;
    me->status = me->hand(me->ctx, &me->error);
    return NULL;
}

/* Fewer do the same work. */
static size_t start(helper *helpers, size_t count, swi_hand hand, void *ctx)
{
    for (size_t i = 0; i < count; i++) {
        helpers[i].hand = hand;
        helpers[i].ctx = ctx;
        if (pthread_create(&helpers[i].thread, NULL, run, &helpers[i]) != 0)
            return i;
    }
    return count;
}

sw_status swi_together(uint32_t hands, swi_hand hand, void *ctx, sw_error *err)
{
    if (hands <= 1)
        return hand(ctx, err);
    void *room;
    size_t count = (hands < SWI_HANDS_MAX ? hands : SWI_HANDS_MAX) - 1;
    sw_status status = swi_alloc_array(count, sizeof(helper), &room, err);
    if (status != SW_OK)
        return status;
    helper *helpers = room;
    size_t started = start(helpers, count, hand, ctx);
    status = hand(ctx, err);
    for (size_t i = 0; i < started; i++) {
        (void)pthread_join(helpers[i].thread, NULL);
        if (status == SW_OK && helpers[i].status != SW_OK) {
            status = helpers[i].status;
            if (err != NULL)
                *err = helpers[i].error;
        }
    }
    free(helpers);
    return status;
}

/* ---- ranges ---------------------------------------------------------------------------------- */

typedef struct ranges {
    swi_range_hand hand;
    void *ctx;
    uint64_t count, step;
    atomic_uint_fast64_t next; /* number of the first range that nobody has taken yet */
    atomic_bool failed;
    pthread_mutex_t lock;
    uint64_t lowest; /* of the ranges that failed, under the lock */
    sw_error error;  /* its error */
} ranges;

static void note_failure(ranges *r, uint64_t range, const sw_error *error)
{
    (void)pthread_mutex_lock(&r->lock);
    if (!atomic_load(&r->failed) || range < r->lowest) {
        r->lowest = range;
        r->error = *error;
        atomic_store(&r->failed, true);
    }
    (void)pthread_mutex_unlock(&r->lock);
}

static sw_status take_ranges(void *ctx, sw_error *err)
{
    ranges *r = ctx;
    sw_error error;
    const uint64_t all = r->count / r->step + (r->count % r->step != 0);
    while (!atomic_load_explicit(&r->failed, memory_order_relaxed)) {
        const uint64_t i = atomic_fetch_add_explicit(&r->next, 1, memory_order_relaxed);
        if (i >= all)
            break;
        const uint64_t from = i * r->step, left = r->count - from;
        if (r->hand(r->ctx, from, from + (left < r->step ? left : r->step), &error) != SW_OK)
            note_failure(r, i, &error);
    }
    (void)err; /* whoever has failed says it by range */
    return SW_OK;
}

sw_status swi_together_ranges(uint32_t threads, uint64_t count, uint64_t step, swi_range_hand hand,
                              void *ctx, sw_error *err)
{
    ranges r = {
        .hand = hand, .ctx = ctx, .count = count, .step = step, .lock = PTHREAD_MUTEX_INITIALIZER};
    const uint64_t all = count / step + (count % step != 0);
    atomic_init(&r.next, 0);
    atomic_init(&r.failed, false);
    sw_status status = swi_together(all < threads ? (uint32_t)all : threads, take_ranges, &r, err);
    (void)pthread_mutex_destroy(&r.lock);
    if (status != SW_OK || !atomic_load(&r.failed))
        return status;
    if (err != NULL)
        *err = r.error;
    return r.error.status;
}
