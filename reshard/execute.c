#include "execute.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/arena.h"
#include "base/text.h"
#include "execute_parts.h"
#include "leftovers.h"

#define BOUNCE_MAX ((uint64_t)512 << 10)
/* A thread that would get less is not started. */
#define THREAD_MIN ((uint64_t)256 << 10)
/*
 * Three parts are for packing: what came of chunks, as much again of what was encoded, and as much
 * for the blocks of files.
 */
#define PACK_SHARE 5U
#define EXTENT_SLOTS 4096U
#define ALIGN ((uint64_t)4096)

/* ---- the budget ----------------------------------------------------------------------------- */

/*
 * Bytes in the destination's type for `*of` bytes of source, factors included, at worst; 0 when
 * all is written as it is read.
 */
static uint64_t find_growth(const sw_catalog *source, const swi_layout *layout, uint64_t *of)
{
    const sw_catalog *target = swi_layout_catalog(layout);
    uint64_t growth = 0;
    *of = 1;
    for (uint32_t t = 0; t < sw_catalog_tensor_count(target); t++) {
        sw_tensor_info to, from, factor = {.dtype = SW_DTYPE_NONE};
        int64_t scale = swi_layout_scale_of(layout, t);
        (void)sw_catalog_tensor(target, t, &to);
        if (!sw_catalog_tensor(source, swi_layout_source(layout, t), &from) ||
            (scale >= 0 && !sw_catalog_tensor(source, (uint32_t)scale, &factor)) ||
            (scale < 0 && from.dtype == to.dtype))
            continue;
        uint64_t a = sw_dtype_bytes(to.dtype);
        uint64_t b = (uint64_t)sw_dtype_bytes(from.dtype) + sw_dtype_bytes(factor.dtype);
        if (b != 0 && (growth == 0 || a * *of > growth * b)) {
            growth = a;
            *of = b;
        }
    }
    return growth;
}

static uint64_t align_down(uint64_t bytes)
{
    return bytes > ALIGN ? bytes / ALIGN * ALIGN : bytes;
}

swi_budget swi_execute_budget(const sw_work_options *work, const sw_catalog *source,
                              const swi_layout *layout)
{
    uint64_t of, growth = find_growth(source, layout, &of);
    uint64_t memory = swi_work_memory(work), ahead = 0;
    if (swi_layout_is_packed(layout)) {
        ahead = memory / PACK_SHARE;
        memory -= 3 * ahead;
    }
    const swi_chunk_sizes sizes = swi_chunk_sizes_of(source);
    const swi_decoded_share share =
        swi_decoded_divide(&sizes, memory, swi_work_threads(work), THREAD_MIN);
    uint64_t each = share.each_bytes;
    uint64_t bounce = align_down(each / 8 < BOUNCE_MAX ? each / 8 : BOUNCE_MAX);
    if (bounce < sizes.stored)
        bounce = (sizes.stored + 63) / 64 * 64;
    uint64_t rest = each - bounce - 2 * ALIGN;
    swi_budget budget = {
        .threads = share.threads,
        .chunk_slots = share.slots,
        .chunk_bytes = sizes.raw,
        .ahead_bytes = ahead,
        .bounce_bytes = (size_t)bounce,
        .window_bytes = (size_t)align_down(rest / (of + growth) * of),
    };
    if (growth != 0)
        budget.out_bytes = (size_t)(budget.window_bytes / of * growth + ALIGN);
    return budget;
}

uint64_t swi_execute_window_bytes(const sw_work_options *work, const sw_catalog *source,
                                  const swi_layout *layout)
{
    return swi_execute_budget(work, source, layout).window_bytes;
}

/* ---- workers -------------------------------------------------------------------------------- */

static void free_worker(swi_worker *w)
{
    if (w == NULL)
        return;
    free(w->memory);
    swi_moves_free(&w->moves);
    free(w);
}

static sw_status make_worker(swi_run *run, swi_extents *extents, swi_crc_track *track,
                             sw_report *report, swi_worker **out, sw_error *err)
{
    void *p;
    sw_status status = swi_alloc_array(1, sizeof(swi_worker), &p, err);
    if (status != SW_OK)
        return status;
    swi_worker *w = p;
    const swi_budget *b = &run->budget;
    /* Not zeroed: pages that are not used are not touched. */
    if (posix_memalign(&p, ALIGN, b->window_bytes + 64 + b->out_bytes + 64 + b->bounce_bytes) !=
        0) {
        free(w);
        return swi_fail_nomem(err);
    }
    w->run = run;
    w->memory = p;
    w->bounce = w->memory;
    w->in = w->bounce + b->bounce_bytes;
    w->out = w->in + (b->window_bytes + 127) / 64 * 64;
    w->fetch = (swi_fetch){
        .source = run->source,
        .extents = extents,
        .track = track,
        .report = report,
        .bounce = w->bounce,
        .bounce_bytes = b->bounce_bytes,
        .tally = &w->tally,
    };
    *out = w;
    return SW_OK;
}

static bool take(void *ctx, void *worker)
{
    return swi_unit_take(ctx, &((swi_worker *)worker)->unit);
}

static sw_status work_unit(void *ctx, void *worker, sw_error *err)
{
    (void)ctx;
    return swi_unit_do(worker, err);
}

static bool any_skipped(const swi_run *run)
{
    for (uint32_t f = 0; f < sw_catalog_file_count(run->target); f++)
        if (swi_outputs_skips(run->outputs, f))
            return true;
    return false;
}

/* ---- digests -------------------------------------------------------------------------------- */

/* Tensors without elements are in no window. */
static sw_status digest_empty(const swi_run *run, sw_error *err)
{
    sw_status status = SW_OK;
    for (uint32_t t = 0; t < sw_catalog_tensor_count(run->target) && status == SW_OK; t++) {
        sw_tensor_info info;
        (void)sw_catalog_tensor(run->target, t, &info);
        const swi_digest_part none = {.tensor = t, .dtype = info.dtype};
        if (info.elements == 0)
            status = swi_digest_tree_add(run->digests, &none, err);
    }
    return status;
}

/* ---- the run -------------------------------------------------------------------------------- */

typedef struct parts {
    swi_source source; /* as it was given, with a place for decoded chunks */
    swi_decoded *decoded;
    swi_pool pool;
    swi_plan *plan;
    swi_outputs *outputs;
    swi_extents *extents;
    swi_crc_track *track;
    swi_digest_tree *digests;
    void **workers;
    uint32_t worker_count;
} parts;

static sw_status make_parts(parts *p, swi_run *run, const swi_sink *sink, sw_report *report,
                            sw_error *err)
{
    void *workers;
    const swi_budget *b = &run->budget;
    sw_status status = swi_pool_init(&p->pool, err);
    if (status == SW_OK)
        status = swi_decoded_make(b->chunk_slots, b->chunk_bytes, &p->decoded, err);
    p->source.decoded = p->decoded;
    if (status == SW_OK)
        status = swi_plan_make(
            run->source->catalog, run->layout, run->budget.window_bytes,
            sink->digests == NULL && !swi_layout_is_packed(run->layout) ? sink->skip : NULL,
            sink->ctx, &p->plan, err);
    if (status == SW_OK && sink->digests != NULL)
        status = swi_digest_tree_make(run->target, sink->digests, &p->digests, err);
    if (status == SW_OK)
        status = swi_extents_make(run->source, EXTENT_SLOTS, &p->extents, err);
    if (status == SW_OK)
        status = swi_crc_track_make(swi_catalog_blob_count(run->source->catalog), &p->track, err);
    if (status == SW_OK)
        status = swi_alloc_array(run->budget.threads, sizeof(void *), &workers, err);
    if (status != SW_OK)
        return status;
    p->workers = workers;
    for (; p->worker_count < run->budget.threads; p->worker_count++) {
        swi_worker *w = NULL;
        status = make_worker(run, p->extents, p->track, report, &w, err);
        if (status != SW_OK)
            return status;
        p->workers[p->worker_count] = w;
    }
    run->plan = p->plan;
    run->digests = p->digests;
    status =
        swi_outputs_make(run->layout, sink, run->budget.ahead_bytes, &p->pool, &p->outputs, err);
    run->outputs = p->outputs;
    return status;
}

static void free_parts(parts *p)
{
    for (uint32_t i = 0; i < p->worker_count; i++)
        free_worker(p->workers[i]);
    free(p->workers);
    swi_crc_track_free(p->track);
    swi_digest_tree_free(p->digests);
    swi_extents_free(p->extents);
    swi_decoded_free(p->decoded);
    swi_plan_free(p->plan);
    swi_pool_end(&p->pool);
}

sw_status swi_execute_job(const swi_execute_in *in, sw_report *report, sw_tally *tally,
                          sw_error *err)
{
    parts p = {.source = *in->source};
    swi_run run = {
        .source = &p.source,
        .layout = in->layout,
        .target = swi_layout_catalog(in->layout),
        .budget = in->budget,
    };
    sw_status status = make_parts(&p, &run, in->sink, report, err);
    if (status != SW_OK)
        goto done;
    const swi_job job = {.ctx = &run, .take = take, .work = work_unit};
    status = swi_pool_run(&p.pool, &job, p.workers, p.worker_count, in->work,
                          swi_outputs_bytes(p.outputs), err);
    if (status == SW_OK) {
        sw_error error = {0};
        status =
            swi_fetch_leftovers(&((swi_worker *)p.workers[0])->fetch, any_skipped(&run), &error);
        if (status == SW_OK && run.digests != NULL)
            status = digest_empty(&run, &error);
        if (status != SW_OK) {
            swi_pool_fail(&p.pool, UINT64_MAX, &error); /* nothing more is finished */
            if (err != NULL)
                *err = error;
        }
    }
    for (uint32_t i = 0; i < p.worker_count && tally != NULL; i++)
        swi_tally_add(tally, &((const swi_worker *)p.workers[i])->tally);
done:
    if (p.outputs != NULL) {
        sw_status ended = swi_outputs_end(p.outputs, status == SW_OK, tally, err);
        status = status == SW_OK ? ended : status;
    }
    free_parts(&p);
    return status;
}

sw_status swi_execute(const swi_source *source, const swi_layout *layout, const swi_sink *sink,
                      const sw_work_options *work, sw_report *report, sw_tally *tally,
                      sw_error *err)
{
    const swi_execute_in in = {
        .source = source,
        .layout = layout,
        .sink = sink,
        .work = work,
        .budget = swi_execute_budget(work, source->catalog, layout),
    };
    return swi_execute_job(&in, report, tally, err);
}
