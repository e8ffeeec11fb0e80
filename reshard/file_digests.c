#include "file_digests.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/arena.h"
#include "base/checked.h"
#include "base/text.h"
#include "pool.h"

#define BUFFER_MAX ((uint64_t)1 << 20)
#define BUFFER_MIN ((uint64_t)64 << 10)

typedef struct hashing {
    const swi_store *store;
    const swi_file_part *parts;
    swi_digest *digests;
    size_t count, next;
    swi_pool pool;
} hashing;

typedef struct worker {
    size_t part;
    swi_hasher *hasher;
    uint8_t *buffer;
    size_t buffer_bytes;
} worker;

static bool take(void *ctx, void *arg)
{
    hashing *h = ctx;
    worker *w = arg;
    if (h->next >= h->count)
        return false;
    w->part = h->next++;
    return true;
}

static sw_status hash_range(hashing *h, const worker *w, const swi_file *file,
                            const swi_file_part *part, sw_error *err)
{
    sw_status status = SW_OK;
    /* what is left of a part after the run was stopped is of no use to anybody */
    for (uint64_t at = part->begin;
         at < part->end && status == SW_OK && !atomic_load(&h->pool.stopped);) {
        uint64_t left = part->end - at;
        size_t now = left < w->buffer_bytes ? (size_t)left : w->buffer_bytes;
        status = swi_file_read(file, at, w->buffer, now, err);
        if (status == SW_OK)
            status = swi_hasher_add(w->hasher, w->buffer, now, err);
        at += now;
        atomic_fetch_add(&h->pool.done_bytes, now);
    }
    return status;
}

static sw_status hash_part(void *ctx, void *arg, sw_error *err)
{
    hashing *h = ctx;
    worker *w = arg;
    const swi_file_part *part = &h->parts[w->part];
    swi_quoted q;
    swi_file *file;
    sw_status status = swi_store_open_read(h->store, part->path, &file, err);
    if (status != SW_OK)
        return status;
    if (swi_file_bytes(file) != part->file_bytes)
        status = swi_fail(err, SW_ERR_CORRUPT,
                          "%s: had %" PRIu64 " bytes a moment ago and has %" PRIu64
                          " now; nobody may write into it meanwhile",
                          swi_quote_str(&q, part->path), part->file_bytes, swi_file_bytes(file));
    if (status == SW_OK)
        swi_file_read_ahead(file, part->begin, part->end - part->begin);
    if (status == SW_OK)
        status = swi_hasher_begin(w->hasher, err);
    if (status == SW_OK)
        status = hash_range(h, w, file, part, err);
    if (status == SW_OK)
        status = swi_hasher_end(w->hasher, &h->digests[w->part], err);
    swi_file_close(file);
    return status;
}

static sw_status run(hashing *h, const sw_work_options *work, uint64_t bytes, sw_error *err)
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
        ((void **)list)[i] = w;
        w->buffer = (uint8_t *)buffers + i * (size_t)each;
        w->buffer_bytes = (size_t)each;
        status = swi_hasher_make(&w->hasher, err);
    }
    const swi_job job = {.ctx = h, .take = take, .work = hash_part};
    if (status == SW_OK)
        status = swi_pool_run(&h->pool, &job, list, threads, work, bytes, err);
    for (uint32_t i = 0; i < threads && workers != NULL; i++)
        swi_hasher_free(((worker *)workers + i)->hasher);
    free(buffers);
    free(list);
    free(workers);
    return status;
}

sw_status swi_file_digests(const swi_store *store, const swi_file_part *parts, size_t count,
                           const sw_work_options *work, swi_digest *digests, uint64_t *read_bytes,
                           sw_error *err)
{
    hashing h = {.store = store, .parts = parts, .digests = digests, .count = count};
    uint64_t bytes = 0;
    for (size_t i = 0; i < count; i++) {
        uint64_t size = 0;
        if (!swi_sub_u64(parts[i].end, parts[i].begin, &size) || !swi_add_u64(bytes, size, &bytes))
            return swi_fail(err, SW_ERR_ARG, "a part of a file that cannot be");
    }
    sw_status status = swi_pool_init(&h.pool, err);
    if (status == SW_OK)
        status = run(&h, work, bytes, err);
    swi_pool_end(&h.pool);
    if (status == SW_OK)
        *read_bytes += bytes;
    return status;
}
