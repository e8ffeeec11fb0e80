#include "scan.h"

#include <stdlib.h>

#include "base/arena.h"
#include "owners.h"
#include "pool.h"

#define BUFFER_MAX ((uint64_t)1 << 20)
#define BUFFER_MIN ((uint64_t)64 << 10)
/* The system reads so much before it is asked for, while threads hash. */
#define AHEAD_BYTES ((uint64_t)16 << 20)
/* So much at once at least: records may be small, and the disk is never to run out of work. */
#define AHEAD_STEP ((uint64_t)2 << 20)
#define AHEAD_GAP ((uint64_t)64 << 10) /* between records that are asked for together */

typedef struct scan {
    const swi_source *source;
    const swi_scan_in *in;
    const swi_portion *portion;
    sw_report *report;
    swi_pool *pool;
    swi_owners *owners;
    uint32_t next, ahead;              /* records that are taken next, and asked for next */
    uint64_t taken_bytes, ahead_bytes; /* of those before */
} scan;

typedef struct worker {
    bool done; /* a record, which is not in the account yet */
    uint32_t record;
    uint32_t ahead_begin, ahead_end; /* records that it asks the system for first */
    swi_blob blob;
    swi_blob_check check;
    uint8_t *buffer;
    size_t buffer_bytes;
    sw_tally tally;
} worker;

/* One thread at a time takes, so what the one before was found to be is written down here. */
static void account(const scan *s, worker *w)
{
    if (!w->done)
        return;
    w->done = false;
    if (s->in->without != NULL)
        s->in->without[w->record] = w->check.unchecked_bytes > 0;
    if (s->in->files != NULL && w->blob.file != SWI_NO_FILE) {
        swi_blob_check *file = &s->in->files[w->blob.file];
        file->checked_bytes += w->check.checked_bytes;
        file->differing_bytes += w->check.differing_bytes;
        file->unchecked_bytes += w->check.unchecked_bytes;
    }
}

static uint64_t record_bytes(const scan *s, uint32_t record)
{
    swi_blob blob;
    swi_catalog_blob(s->source->catalog, swi_portion_at(s->portion, record), &blob);
    return blob.stored_bytes;
}

static void take_ahead(scan *s, worker *w)
{
    const uint32_t count = swi_portion_count(s->portion);
    w->ahead_begin = w->ahead_end = s->ahead;
    if (s->ahead_bytes - s->taken_bytes > AHEAD_BYTES - AHEAD_STEP)
        return;
    while (s->ahead < count && s->ahead_bytes - s->taken_bytes < AHEAD_BYTES)
        s->ahead_bytes += record_bytes(s, s->ahead++);
    w->ahead_end = s->ahead;
}

static bool take(void *ctx, void *arg)
{
    scan *s = ctx;
    worker *w = arg;
    account(s, w);
    if (s->next >= swi_portion_count(s->portion))
        return false;
    take_ahead(s, w);
    s->taken_bytes += record_bytes(s, s->next);
    w->record = s->next++;
    return true;
}

/* A large record is read on by its one reader, as the system sees by itself. */
static void ask_for(const scan *s, uint32_t file, uint64_t begin, uint64_t end)
{
    const swi_reader *reader = s->source->reader;
    const uint64_t size = end - begin;
    if (size > 0)
        reader->read_ahead(reader, file, begin, size < AHEAD_BYTES ? size : AHEAD_BYTES);
}

static void read_ahead(const scan *s, const worker *w)
{
    uint64_t begin = 0, end = 0;
    uint32_t file = SWI_NO_FILE;
    for (uint32_t i = w->ahead_begin; i < w->ahead_end; i++) {
        swi_blob blob;
        swi_catalog_blob(s->source->catalog, swi_portion_at(s->portion, i), &blob);
        if (blob.file == SWI_NO_FILE)
            continue;
        if (blob.file != file || blob.offset_bytes > end + AHEAD_GAP) {
            ask_for(s, file, begin, end);
            file = blob.file;
            begin = end = blob.offset_bytes;
        }
        if (blob.offset_bytes + blob.stored_bytes > end)
            end = blob.offset_bytes + blob.stored_bytes; /* it lies inside its file */
    }
    ask_for(s, file, begin, end);
}

static sw_status check_one(void *ctx, void *arg, sw_error *err)
{
    const scan *s = ctx;
    worker *w = arg;
    const uint32_t id = swi_portion_at(s->portion, w->record);
    const swi_blob_label label = swi_owner_label(s->owners, id);
    read_ahead(s, w);
    swi_catalog_blob(s->source->catalog, id, &w->blob);
    w->check = (swi_blob_check){0};
    sw_status status = w->blob.ops->check(&w->blob, s->source->reader, &label, w->buffer,
                                          w->buffer_bytes, s->report, &w->check, err);
    w->done = true;
    w->tally.read_bytes += w->blob.stored_bytes;
    w->tally.checked_bytes += w->check.checked_bytes;
    w->tally.unchecked_bytes += w->check.unchecked_bytes;
    atomic_fetch_add(&s->pool->done_bytes, w->blob.stored_bytes);
    return status;
}

static sw_status run(scan *s, sw_tally *tally, sw_error *err)
{
    const sw_work_options *work = s->in->work;
    uint32_t threads = swi_work_threads(work);
    uint64_t each = swi_work_memory(work) / threads;
    each = each < BUFFER_MIN ? BUFFER_MIN : each > BUFFER_MAX ? BUFFER_MAX : each;
    void *workers = NULL, *list = NULL, *buffers = NULL;
    sw_status status = swi_alloc_array(threads, sizeof(worker), &workers, err);
    if (status == SW_OK)
        status = swi_alloc_array(threads, sizeof(void *), &list, err);
    if (status == SW_OK)
        status = swi_alloc_array(threads, (size_t)each, &buffers, err);
    for (uint32_t i = 0; i < threads && status == SW_OK; i++) {
        worker *w = (worker *)workers + i;
        *w = (worker){.buffer = (uint8_t *)buffers + i * each, .buffer_bytes = (size_t)each};
        ((void **)list)[i] = w;
    }
    const swi_job job = {.ctx = s, .take = take, .work = check_one};
    if (status == SW_OK)
        status =
            swi_pool_run(s->pool, &job, list, threads, work, swi_portion_bytes(s->portion), err);
    for (uint32_t i = 0; i < threads && workers != NULL && tally != NULL; i++)
        swi_tally_add(tally, &((const worker *)workers)[i].tally);
    free(buffers);
    free(list);
    free(workers);
    return status;
}

sw_status swi_scan(const swi_source *source, const swi_scan_in *in, sw_report *report,
                   sw_tally *tally, sw_error *err)
{
    static const swi_scan_in all = {0};
    swi_pool pool = {0};
    swi_portion *own = NULL;
    scan s = {.source = source, .in = in ? in : &all, .report = report, .pool = &pool};
    sw_status status = swi_pool_init(&pool, err);
    if (status == SW_OK && s.in->portion == NULL)
        status = swi_portion_make(source->catalog, NULL, &own, err);
    s.portion = own != NULL ? own : s.in->portion;
    if (status == SW_OK)
        status = swi_owners_make(source->catalog, &s.owners, err);
    if (status == SW_OK)
        status = run(&s, tally, err);
    swi_portion_free(own);
    swi_owners_free(s.owners);
    swi_pool_end(&pool);
    return status;
}
