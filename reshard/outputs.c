#include "outputs.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/arena.h"
#include "base/monitor.h"
#include "base/text.h"
#include "pack.h"
#include "sums.h"

/* Ranges this long are handed to the system for writing at once, shorter ones wait for the sync. */
#define WRITE_BEHIND_MIN ((uint64_t)1 << 20)

typedef struct output {
    _Atomic(swi_file *) file;  /* NULL: not open */
    atomic_uint_fast64_t left; /* bytes that are not written yet, but for the late ones */
    atomic_bool whole;
    bool skipped;
    swi_packer *packer;   /* NULL: it is not packed */
    uint64_t bytes_found; /* of a packed or a made file, when it is finished */
} output;

struct swi_outputs {
    const swi_layout *layout;
    const swi_sink *sink;
    swi_pool *pool;
    output *files;
    uint32_t count;
    uint64_t bytes, late_bytes;
    swi_sums *sums;
    swi_pack_rooms *rooms; /* NULL: no file is packed */
    pthread_mutex_t opening;
    pthread_mutex_t lock; /* for what follows, and for waiting */
    pthread_cond_t changed;
    bool ended; /* no more writes will come */
    bool ok;    /* then: and all that should have come did */
    sw_error error;
    pthread_t finisher;
};

/* ---- opening ------------------------------------------------------------------------------- */

static sw_status open_file(swi_outputs *o, uint32_t id, swi_file **out, sw_error *err)
{
    *out = atomic_load(&o->files[id].file);
    if (*out != NULL)
        return SW_OK;
    sw_status status = SW_OK;
    (void)pthread_mutex_lock(&o->opening);
    *out = atomic_load(&o->files[id].file);
    if (*out == NULL) {
        status = o->sink->open(o->sink->ctx, id, out, err);
        if (status == SW_OK)
            atomic_store(&o->files[id].file, *out);
    }
    (void)pthread_mutex_unlock(&o->opening);
    return status;
}

/* ---- finishing ------------------------------------------------------------------------------ */

/* Waits until file `id` is whole; false when it will not be. */
static bool wait_whole(swi_outputs *o, uint32_t id)
{
    (void)pthread_mutex_lock(&o->lock);
    while (!atomic_load(&o->files[id].whole) && !o->ended)
        (void)pthread_cond_wait(&o->changed, &o->lock);
    (void)pthread_mutex_unlock(&o->lock);
    return atomic_load(&o->files[id].whole) && !atomic_load(&o->pool->stopped);
}

/* Waits until all writes and digests are done; false when they will not be. */
static bool wait_end(swi_outputs *o)
{
    (void)pthread_mutex_lock(&o->lock);
    while (!o->ended)
        (void)pthread_cond_wait(&o->changed, &o->lock);
    (void)pthread_mutex_unlock(&o->lock);
    return o->ok;
}

static sw_status write_made(swi_outputs *o, uint32_t id, const swi_made *made, sw_error *err)
{
    swi_buf bytes = {0};
    swi_file *file = NULL;
    sw_status status = made->make(made->ctx, o->sink->digests, &bytes, err);
    if (status == SW_OK)
        status = open_file(o, id, &file, err);
    if (status == SW_OK && bytes.size > 0)
        status = swi_file_write(file, 0, bytes.data, bytes.size, err);
    o->files[id].bytes_found = bytes.size;
    swi_buf_free(&bytes);
    return status;
}

/* What comes last in a file; false: it will not be whole. */
static bool complete(swi_outputs *o, uint32_t id)
{
    output *f = &o->files[id];
    const swi_made *made = swi_layout_made_at(o->layout, id);
    sw_status status;
    if (made != NULL) {
        if (!wait_end(o))
            return false;
        status = write_made(o, id, made, &o->error);
        atomic_store(&f->whole, status == SW_OK);
    } else {
        if (!wait_whole(o, id))
            return false;
        swi_file *file = atomic_load(&f->file);
        status = f->packer != NULL ? swi_packer_finish(f->packer, file, &f->bytes_found, &o->error)
                                   : swi_sums_finish(o->sums, id, file, &o->error);
    }
    if (status != SW_OK)
        swi_pool_fail(o->pool, UINT64_MAX, &o->error);
    return status == SW_OK;
}

static void *run_finisher(void *arg)
{
    swi_outputs *o = arg;
    for (uint32_t id = 0; id < o->count; id++) {
        output *f = &o->files[id];
        if (f->skipped)
            continue;
        if (!complete(o, id))
            return NULL;
        atomic_fetch_add(&o->pool->done_bytes, swi_layout_late_bytes(o->layout, id));
        swi_file *file = atomic_exchange(&f->file, NULL);
        if (o->sink->finish(o->sink->ctx, id, file, &o->error) != SW_OK) {
            swi_pool_fail(o->pool, UINT64_MAX, &o->error);
            return NULL;
        }
    }
    return NULL;
}

/* ---- making --------------------------------------------------------------------------------- */

static void free_outputs(swi_outputs *o)
{
    swi_monitor_end(&o->lock, &o->changed);
    (void)pthread_mutex_destroy(&o->opening);
    swi_sums_free(o->sums);
    for (uint32_t id = 0; id < o->count; id++)
        swi_packer_free(o->files[id].packer);
    swi_pack_rooms_free(o->rooms);
    free(o->files);
    free(o);
}

static sw_status init_locks(swi_outputs *o, sw_error *err)
{
    int rc = pthread_mutex_init(&o->opening, NULL);
    if (rc != 0)
        return swi_fail_errno(err, rc, "pthread_mutex_init");
    sw_status status = swi_monitor_make(&o->lock, &o->changed, err);
    if (status != SW_OK)
        (void)pthread_mutex_destroy(&o->opening);
    return status;
}

/* A packer for each packed file; what may wait in memory is a part of the budget. */
static sw_status make_packers(swi_outputs *o, uint64_t ahead_bytes, sw_error *err)
{
    sw_status status =
        swi_layout_is_packed(o->layout) ? swi_pack_rooms_make(ahead_bytes, &o->rooms, err) : SW_OK;
    for (uint32_t id = 0; id < o->count && status == SW_OK; id++) {
        const swi_packing *packing = swi_layout_packing(o->layout, id);
        if (packing != NULL)
            status =
                swi_packer_make(packing, ahead_bytes, o->pool, o->rooms, &o->files[id].packer, err);
    }
    return status;
}

static void fill_files(swi_outputs *o)
{
    const sw_catalog *catalog = swi_layout_catalog(o->layout);
    for (uint32_t id = 0; id < o->count; id++) {
        output *f = &o->files[id];
        uint64_t bytes = swi_catalog_file_bytes(catalog, id);
        atomic_init(&f->file, NULL);
        atomic_init(&f->left, bytes - swi_layout_late_bytes(o->layout, id));
        atomic_init(&f->whole, false);
        f->skipped = o->sink->skip != NULL && !swi_layout_is_packed(o->layout) &&
                     o->sink->skip(o->sink->ctx, id);
        if (f->skipped)
            continue;
        o->bytes += bytes;
        o->late_bytes += swi_layout_late_bytes(o->layout, id);
    }
}

sw_status swi_outputs_make(const swi_layout *layout, const swi_sink *sink, uint64_t ahead_bytes,
                           swi_pool *pool, swi_outputs **out, sw_error *err)
{
    void *p, *files;
    uint32_t count = (uint32_t)sw_catalog_file_count(swi_layout_catalog(layout));
    sw_status status = swi_alloc_array(1, sizeof(swi_outputs), &p, err);
    if (status != SW_OK)
        return status;
    swi_outputs *o = p;
    status = swi_alloc_array(count, sizeof(output), &files, err);
    if (status == SW_OK) {
        o->files = files;
        status = swi_sums_make(layout, &o->sums, err);
    }
    if (status == SW_OK)
        status = init_locks(o, err);
    if (status != SW_OK) {
        swi_sums_free(o->sums);
        free(o->files);
        free(o);
        return status;
    }
    o->layout = layout;
    o->sink = sink;
    o->pool = pool;
    o->count = count;
    fill_files(o);
    status = make_packers(o, ahead_bytes, err);
    if (status != SW_OK) {
        free_outputs(o);
        return status;
    }
    int rc = pthread_create(&o->finisher, NULL, run_finisher, o);
    if (rc != 0) {
        free_outputs(o);
        return swi_fail_errno(err, rc, "pthread_create");
    }
    *out = o;
    return SW_OK;
}

bool swi_outputs_skips(const swi_outputs *outputs, uint32_t file)
{
    return outputs->files[file].skipped;
}

uint64_t swi_outputs_bytes(const swi_outputs *outputs)
{
    return outputs->bytes;
}

/* ---- writing -------------------------------------------------------------------------------- */

static void count_down(swi_outputs *o, uint32_t id, uint64_t bytes)
{
    atomic_fetch_add(&o->pool->done_bytes, bytes);
    if (atomic_fetch_sub(&o->files[id].left, bytes) != bytes)
        return;
    (void)pthread_mutex_lock(&o->lock);
    atomic_store(&o->files[id].whole, true);
    (void)pthread_cond_broadcast(&o->changed);
    (void)pthread_mutex_unlock(&o->lock);
}

sw_status swi_outputs_write(swi_outputs *outputs, uint32_t file, uint64_t offset,
                            const swi_slice *slices, size_t count, sw_error *err)
{
    swi_file *out;
    uint64_t bytes = 0, stored = 0;
    swi_packer *packer = outputs->files[file].packer;
    for (size_t i = 0; i < count; i++)
        bytes += slices[i].size;
    sw_status status = open_file(outputs, file, &out, err);
    if (status == SW_OK && packer != NULL) {
        status = swi_packer_write(packer, out, offset, slices, count, &stored, err);
        if (status == SW_OK && (stored > 0 || count == 0))
            count_down(outputs, file, stored);
        return status;
    }
    if (status == SW_OK && bytes > 0)
        status = swi_file_writev(out, offset, slices, count, err);
    if (status == SW_OK)
        status = swi_sums_add(outputs->sums, file, offset, slices, count, err);
    if (status != SW_OK)
        return status;
    if (bytes >= WRITE_BEHIND_MIN)
        swi_file_write_behind(out, offset, bytes);
    count_down(outputs, file, bytes);
    return SW_OK;
}

/* ---- ending --------------------------------------------------------------------------------- */

/* A file that was not given back is not whole: the plan left bytes of it out. */
static sw_status check_all_whole(const swi_outputs *o, sw_error *err)
{
    for (uint32_t id = 0; id < o->count; id++) {
        const output *f = &o->files[id];
        if (f->skipped || atomic_load(&f->whole))
            continue;
        swi_quoted room;
        const sw_catalog *catalog = swi_layout_catalog(o->layout);
        return swi_fail(err, SW_ERR_CONFLICT,
                        "%s: %" PRIu64 " bytes were not written (a defect of this program)",
                        swi_quote_str(&room, swi_catalog_path(catalog, id)),
                        (uint64_t)atomic_load(&f->left));
    }
    return SW_OK;
}

/* Late bytes; and of packed and made files what they became in place of what was laid out. */
static void add_written(const swi_outputs *o, sw_tally *tally)
{
    tally->written_bytes += o->late_bytes;
    for (uint32_t id = 0; id < o->count; id++) {
        const bool made = swi_layout_made_at(o->layout, id) != NULL;
        if (!made && o->files[id].packer == NULL)
            continue;
        tally->written_bytes -= swi_catalog_file_bytes(swi_layout_catalog(o->layout), id);
        tally->written_bytes += o->files[id].bytes_found;
    }
}

sw_status swi_outputs_end(swi_outputs *outputs, bool ok, sw_tally *tally, sw_error *err)
{
    if (outputs == NULL)
        return SW_OK;
    (void)pthread_mutex_lock(&outputs->lock);
    outputs->ended = true;
    outputs->ok = ok;
    (void)pthread_cond_broadcast(&outputs->changed);
    (void)pthread_mutex_unlock(&outputs->lock);
    (void)pthread_join(outputs->finisher, NULL);
    sw_status status = outputs->error.status;
    if (ok && status != SW_OK && err != NULL)
        *err = outputs->error;
    if (ok && status == SW_OK)
        status = check_all_whole(outputs, err);
    if (ok && status == SW_OK && tally != NULL)
        add_written(outputs, tally);
    for (uint32_t id = 0; id < outputs->count; id++) {
        output *f = &outputs->files[id];
        swi_packer_free(f->packer); /* it may be writing yet */
        f->packer = NULL;
        swi_file_close(atomic_load(&f->file));
    }
    free_outputs(outputs);
    return ok ? status : SW_OK;
}
