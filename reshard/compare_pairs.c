/* Many comparisons at once, exact or within tolerances. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/checked.h"
#include "base/text.h"
#include "cast.h"
#include "compare.h"
#include "pool.h"
#include "view.h"

#define BUFFER_BYTES ((size_t)2 << 20)
/* Of one element: as it lies and as float64, of both sides. */
#define CLOSE_STEP (BUFFER_BYTES / 32)

/* ---- within tolerances -------------------------------------------------------------------- */

static bool is_close(double a, double b, const swi_tolerance *t)
{
    if (a == b || (isnan(a) && isnan(b)))
        return true;
    if (isinf(a) || isinf(b))
        return false;
    return fabs(a - b) <= t->atol + t->rtol * fabs(b);
}

static sw_status read_numbers(swi_view *view, uint64_t lo, uint64_t count, uint8_t *room,
                              double *out, sw_error *err)
{
    sw_tally ignored = {0};
    bool cast = view->info.dtype != SW_F64;
    sw_status status = swi_view_read(view, lo, lo + count, cast ? (void *)room : (void *)out, err);
    if (status == SW_OK && cast)
        swi_cast(room, view->info.dtype, out, SW_F64, (size_t)count, &ignored);
    return status;
}

static sw_status close_views(swi_view *a, swi_view *b, swi_pair *pair, uint8_t *buffer,
                             sw_error *err)
{
    double *left = (double *)(void *)buffer, *right = left + CLOSE_STEP;
    uint8_t *room = (uint8_t *)(right + CLOSE_STEP);
    pair->equal = true;
    for (uint64_t lo = 0; lo < a->info.elements; lo += CLOSE_STEP) {
        uint64_t left_over = a->info.elements - lo;
        uint64_t count = left_over < CLOSE_STEP ? left_over : CLOSE_STEP;
        sw_status status = read_numbers(a, lo, count, room, left, err);
        if (status == SW_OK)
            status = read_numbers(b, lo, count, room, right, err);
        if (status != SW_OK)
            return status;
        for (uint64_t i = 0; i < count; i++) {
            if (is_close(left[i], right[i], pair->close))
                continue;
            pair->equal = false;
            pair->first = lo + i;
            return SW_OK;
        }
    }
    return SW_OK;
}

static bool is_number(sw_dtype dtype)
{
    return dtype == SW_F64 || swi_cast_possible(dtype, SW_F64);
}

static sw_status compare_close(const swi_source *a, const swi_source *b, swi_pair *pair,
                               uint8_t *buffer, sw_error *err)
{
    swi_view left = {0}, right = {0};
    swi_quoted room;
    sw_status status = swi_view_open(a, pair->a, &left, err);
    if (status == SW_OK)
        status = swi_view_open(b, pair->b, &right, err);
    if (status == SW_OK && (left.info.elements != right.info.elements ||
                            !is_number(left.info.dtype) || !is_number(right.info.dtype)))
        status = swi_fail(err, SW_ERR_ARG, "tensor \"%s\": no numbers of the same count",
                          swi_quote_str(&room, left.info.name));
    if (status == SW_OK)
        status = close_views(&left, &right, pair, buffer, err);
    swi_view_close(&left);
    swi_view_close(&right);
    return status;
}

/* ---- all of them -------------------------------------------------------------------------- */

typedef struct pairs_run {
    swi_source a, b;
    swi_decoded *decoded_a, *decoded_b; /* theirs */
    swi_pair *pairs;
    size_t count, next;
    swi_pool *pool;
} pairs_run;

typedef struct pairs_worker {
    size_t pair;
    uint8_t *buffer;
} pairs_worker;

static bool take(void *ctx, void *arg)
{
    pairs_run *r = ctx;
    pairs_worker *w = arg;
    while (r->next < r->count && r->pairs[r->next].skip)
        r->next++;
    if (r->next >= r->count)
        return false;
    w->pair = r->next++;
    return true;
}

static uint64_t pair_bytes(const pairs_run *r, const swi_pair *pair)
{
    sw_tensor_info info;
    return sw_catalog_tensor(r->a.catalog, pair->a, &info) ? info.bytes : 0;
}

static sw_status compare_one(void *ctx, void *arg, sw_error *err)
{
    pairs_run *r = ctx;
    pairs_worker *w = arg;
    swi_pair *pair = &r->pairs[w->pair];
    const swi_compare_in in = {.a = &r->a,
                               .tensor_a = pair->a,
                               .b = &r->b,
                               .tensor_b = pair->b,
                               .buffer = w->buffer,
                               .buffer_bytes = BUFFER_BYTES};
    sw_status status = pair->close != NULL ? compare_close(&r->a, &r->b, pair, w->buffer, err)
                                           : swi_compare(&in, &pair->equal, &pair->first, err);
    atomic_fetch_add(&r->pool->done_bytes, pair_bytes(r, pair));
    return status;
}

/* Of the memory: threads, and room for the decoded chunks of both sides. */
static sw_status share_memory(pairs_run *r, const sw_work_options *work, uint32_t *threads,
                              sw_error *err)
{
    const swi_chunk_sizes a = swi_chunk_sizes_of(r->a.catalog);
    const swi_chunk_sizes b = swi_chunk_sizes_of(r->b.catalog);
    const swi_chunk_sizes both = {.raw = a.raw + b.raw, .stored = a.stored + b.stored};
    const swi_decoded_share share = swi_decoded_divide(
        &both, swi_work_memory(work), swi_work_threads(work), BUFFER_BYTES + (BUFFER_BYTES >> 1));
    sw_status status = swi_decoded_make(share.slots, a.raw, &r->decoded_a, err);
    if (status == SW_OK)
        status = swi_decoded_make(share.slots, b.raw, &r->decoded_b, err);
    r->a.decoded = r->decoded_a;
    r->b.decoded = r->decoded_b;
    *threads = share.threads;
    return status;
}

static sw_status run_pairs(pairs_run *r, const sw_work_options *work, uint64_t bytes, sw_error *err)
{
    uint32_t threads;
    void *workers = NULL, *list = NULL, *buffers = NULL;
    sw_status status = share_memory(r, work, &threads, err);
    if (status == SW_OK)
        status = swi_alloc_array(threads, sizeof(pairs_worker), &workers, err);
    if (status == SW_OK)
        status = swi_alloc_array(threads, sizeof(void *), &list, err);
    if (status == SW_OK)
        status = swi_alloc_array(threads, BUFFER_BYTES, &buffers, err);
    for (uint32_t i = 0; i < threads && status == SW_OK; i++) {
        pairs_worker *w = (pairs_worker *)workers + i;
        w->buffer = (uint8_t *)buffers + i * BUFFER_BYTES;
        ((void **)list)[i] = w;
    }
    const swi_job job = {.ctx = r, .take = take, .work = compare_one};
    if (status == SW_OK)
        status = swi_pool_run(r->pool, &job, list, threads, work, bytes, err);
    free(buffers);
    free(list);
    free(workers);
    return status;
}

sw_status swi_compare_pairs(const swi_source *a, const swi_source *b, swi_pair *pairs, size_t count,
                            const sw_work_options *work, sw_error *err)
{
    swi_pool pool = {0};
    pairs_run r = {.a = *a, .b = *b, .pairs = pairs, .count = count, .pool = &pool};
    uint64_t bytes = 0;
    for (size_t i = 0; i < count; i++) {
        if (!pairs[i].skip && !swi_add_u64(bytes, pair_bytes(&r, &pairs[i]), &bytes))
            bytes = UINT64_MAX;
    }
    sw_status status = swi_pool_init(&pool, err);
    if (status == SW_OK)
        status = run_pairs(&r, work, bytes, err);
    swi_decoded_free(r.decoded_a);
    swi_decoded_free(r.decoded_b);
    swi_pool_end(&pool);
    return status;
}
