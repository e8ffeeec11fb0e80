#include "scan.h"

#include <stdlib.h>

#include "base/arena.h"
#include "base/checked.h"
#include "owners.h"
#include "pool.h"

#define BUFFER_MAX ((uint64_t)1 << 20)
#define BUFFER_MIN ((uint64_t)64 << 10)

typedef struct scan {
    const swi_source *source;
    sw_report *report;
    swi_pool *pool;
    uint32_t *order; /* blobs by file and offset */
    swi_owners *owners;
    uint32_t count;
    uint32_t next;
} scan;

typedef struct worker {
    uint32_t blob;
    uint8_t *buffer;
    size_t buffer_bytes;
    sw_tally tally;
} worker;

/* ---- the order --------------------------------------------------------------------
 */

typedef struct key {
    uint32_t file;
    uint32_t blob;
    uint64_t offset;
} key;

static int by_place(const void *left, const void *right)
{
    const key *a = left, *b = right;
    if (a->file != b->file)
        return a->file < b->file ? -1 : 1;
    if (a->offset != b->offset)
        return a->offset < b->offset ? -1 : 1;
    return (a->blob > b->blob) - (a->blob < b->blob);
}

/* Blobs outside of their file have been reported; a record that blobs share is read once. */
static bool is_wanted(const sw_catalog *catalog, const swi_blob *blob, const swi_blob *before)
{
    if (!swi_range_inside(blob->offset_bytes, blob->stored_bytes,
                          swi_catalog_file_bytes(catalog, blob->file)))
        return false;
    return before == NULL || before->ops != blob->ops || before->file != blob->file ||
           before->aux != blob->aux || before->offset_bytes != blob->offset_bytes ||
           before->stored_bytes != blob->stored_bytes;
}

/* Fills order with the wanted blobs; returns their stored bytes. */
static uint64_t fill_order(scan *s, const key *keys, uint32_t count)
{
    uint64_t bytes = 0;
    swi_blob blob, before;
    for (uint32_t i = 0; i < count; i++) {
        swi_catalog_blob(s->source->catalog, keys[i].blob, &blob);
        if (!is_wanted(s->source->catalog, &blob, s->count > 0 ? &before : NULL))
            continue;
        s->order[s->count++] = keys[i].blob;
        bytes += blob.stored_bytes;
        before = blob;
    }
    return bytes;
}

static sw_status make_order(scan *s, uint64_t *bytes, sw_error *err)
{
    uint32_t count = swi_catalog_blob_count(s->source->catalog);
    void *keys, *order;
    sw_status status = swi_alloc_array(count, sizeof(key), &keys, err);
    if (status != SW_OK)
        return status;
    status = swi_alloc_array(count, sizeof(uint32_t), &order, err);
    if (status != SW_OK) {
        free(keys);
        return status;
    }
    s->order = order;
    for (uint32_t i = 0; i < count; i++) {
        swi_blob blob;
        swi_catalog_blob(s->source->catalog, i, &blob);
        ((key *)keys)[i] = (key){.file = blob.file, .blob = i, .offset = blob.offset_bytes};
    }
    if (count > 1)
        qsort(keys, count, sizeof(key), by_place);
    *bytes = fill_order(s, keys, count);
    free(keys);
    return SW_OK;
}

/* ---- the work
 * ------------------------------------------------------------------------------------- */

static bool take(void *ctx, void *arg)
{
    scan *s = ctx;
    worker *w = arg;
    if (s->next >= s->count)
        return false;
    w->blob = s->order[s->next++];
    return true;
}

static sw_status check_one(void *ctx, void *arg, sw_error *err)
{
    const scan *s = ctx;
    worker *w = arg;
    swi_blob blob;
    swi_catalog_blob(s->source->catalog, w->blob, &blob);
    const swi_blob_label label = swi_owner_label(s->owners, w->blob);
    swi_blob_check check = {0};
    sw_status status = blob.ops->check(&blob, s->source->reader, &label, w->buffer, w->buffer_bytes,
                                       s->report, &check, err);
    w->tally.read_bytes += blob.stored_bytes;
    w->tally.checked_bytes += check.checked_bytes;
    w->tally.unchecked_bytes += check.unchecked_bytes;
    atomic_fetch_add(&s->pool->done_bytes, blob.stored_bytes);
    return status;
}

static sw_status run(scan *s, const sw_work_options *work, uint64_t bytes, sw_tally *tally,
                     sw_error *err)
{
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
        status = swi_pool_run(s->pool, &job, list, threads, work, bytes, err);
    for (uint32_t i = 0; i < threads && workers != NULL && tally != NULL; i++) {
        const sw_tally *t = &((const worker *)workers)[i].tally;
        tally->read_bytes += t->read_bytes;
        tally->checked_bytes += t->checked_bytes;
        tally->unchecked_bytes += t->unchecked_bytes;
    }
    free(buffers);
    free(list);
    free(workers);
    return status;
}

sw_status swi_scan(const swi_source *source, const sw_work_options *work, sw_report *report,
                   sw_tally *tally, sw_error *err)
{
    swi_pool pool = {0};
    scan s = {.source = source, .report = report, .pool = &pool};
    uint64_t bytes = 0;
    sw_status status = swi_pool_init(&pool, err);
    if (status == SW_OK)
        status = make_order(&s, &bytes, err);
    if (status == SW_OK)
        status = swi_owners_make(source->catalog, &s.owners, err);
    if (status == SW_OK)
        status = run(&s, work, bytes, tally, err);
    free(s.order);
    swi_owners_free(s.owners);
    swi_pool_end(&pool);
    return status;
}
