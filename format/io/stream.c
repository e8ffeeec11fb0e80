#include "io/stream.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/monitor.h"

#define LANES 2U
#define BLOCKS ((size_t)4) /* of a lane */
#define BLOCK_MAX ((uint64_t)1 << 20)
#define BLOCK_ALIGN SWI_DIRECT_ALIGN
/* Without a lane the system is asked to write out stretches of this length at once. */
#define BEHIND_MIN ((uint64_t)4 << 20)

struct swi_lanes {
    pthread_mutex_t lock;
    uint8_t *spare[LANES]; /* room of lanes that nobody uses; NULL: not made yet */
    uint32_t count;        /* of those */
    size_t block_bytes;
};

struct swi_stream {
    swi_lanes *lanes;
    swi_file *file;
    uint8_t *room; /* BLOCKS blocks: block b of the file at b % BLOCKS; NULL: no lane was free */
    size_t block_bytes;
    pthread_t writer;
    pthread_mutex_t lock; /* of what follows */
    pthread_cond_t changed;
    uint64_t first;        /* the first block that is not written yet */
    size_t filled[BLOCKS]; /* bytes that are there, of the blocks from `first` on */
    uint64_t end;          /* bytes of the file; UINT64_MAX: not known yet */
    bool stopped;          /* dropped, or writing failed */
    sw_error error;
    uint64_t behind, reach; /* without a lane: asked to be written out, and put, up to there */
};

/* ---- lanes ----------------------------------------------------------------------------------- */

sw_status swi_lanes_make(uint64_t memory_bytes, swi_lanes **out, sw_error *err)
{
    void *p;
    sw_status st = swi_alloc_array(1, sizeof(swi_lanes), &p, err);
    if (st != SW_OK)
        return st;
    swi_lanes *lanes = p;
    uint64_t each = memory_bytes / (LANES * BLOCKS) / BLOCK_ALIGN * BLOCK_ALIGN;
    if (each < BLOCK_ALIGN)
        each = BLOCK_ALIGN;
    lanes->block_bytes = (size_t)(each < BLOCK_MAX ? each : BLOCK_MAX);
    lanes->count = LANES;
    int rc = pthread_mutex_init(&lanes->lock, NULL);
    if (rc != 0) {
        free(lanes);
        return swi_fail_errno(err, rc, "pthread_mutex_init");
    }
    *out = lanes;
    return SW_OK;
}

void swi_lanes_free(swi_lanes *lanes)
{
    if (lanes == NULL)
        return;
    for (uint32_t i = 0; i < LANES; i++)
        free(lanes->spare[i]);
    (void)pthread_mutex_destroy(&lanes->lock);
    free(lanes);
}

/* *room stays NULL when no lane is free. */
static sw_status take_lane(swi_lanes *lanes, uint8_t **room, sw_error *err)
{
    uint8_t *spare = NULL;
    void *p;
    (void)pthread_mutex_lock(&lanes->lock);
    bool taken = lanes->count > 0;
    if (taken) {
        lanes->count--;
        spare = lanes->spare[lanes->count];
        lanes->spare[lanes->count] = NULL;
    }
    (void)pthread_mutex_unlock(&lanes->lock);
    if (!taken || spare != NULL) {
        *room = spare;
        return SW_OK;
    }
    /* Not zeroed: blocks that are not used are not touched. */
    if (posix_memalign(&p, BLOCK_ALIGN, BLOCKS * lanes->block_bytes) == 0) {
        *room = p;
        return SW_OK;
    }
    (void)pthread_mutex_lock(&lanes->lock);
    lanes->count++;
    (void)pthread_mutex_unlock(&lanes->lock);
    return swi_fail_nomem(err);
}

static void give_lane(swi_lanes *lanes, uint8_t *room)
{
    if (room == NULL)
        return;
    (void)pthread_mutex_lock(&lanes->lock);
    lanes->spare[lanes->count++] = room;
    (void)pthread_mutex_unlock(&lanes->lock);
}

/* ---- writing --------------------------------------------------------------------------------- */

static uint8_t *block_of(const swi_stream *s, uint64_t block)
{
    return s->room + (size_t)(block % BLOCKS) * s->block_bytes;
}

/* Under the lock: how many blocks from the first one on are full and lie together in memory. */
static size_t full_blocks(const swi_stream *s)
{
    size_t n = 0, at = (size_t)(s->first % BLOCKS);
    while (at + n < BLOCKS && s->filled[at + n] == s->block_bytes)
        n++;
    return n;
}

/* Under the lock, which is open meanwhile: the file gets `bytes` from the first block on. */
static void write_blocks(swi_stream *s, size_t bytes)
{
    sw_error error = {0};
    const uint8_t *data = block_of(s, s->first);
    const uint64_t offset = s->first * s->block_bytes;
    (void)pthread_mutex_unlock(&s->lock);
    sw_status st = swi_file_write(s->file, offset, data, bytes, &error);
    if (st == SW_OK)
        swi_file_write_behind(s->file, offset, bytes);
    (void)pthread_mutex_lock(&s->lock);
    if (st != SW_OK) {
        s->error = error;
        s->stopped = true;
    }
    for (size_t done = 0; done < bytes; done += s->block_bytes)
        s->filled[s->first++ % BLOCKS] = 0;
    (void)pthread_cond_broadcast(&s->changed);
}

static void *run_writer(void *arg)
{
    swi_stream *s = arg;
    (void)pthread_mutex_lock(&s->lock);
    while (!s->stopped) {
        size_t full = full_blocks(s);
        if (full > 0)
            write_blocks(s, full * s->block_bytes);
        else if (s->end != UINT64_MAX)
            break;
        else
            (void)pthread_cond_wait(&s->changed, &s->lock);
    }
    uint64_t left = s->end - s->first * s->block_bytes;
    if (!s->stopped && left > 0) {
        swi_file_direct(s->file, false); /* what is left need not be whole sectors */
        write_blocks(s, (size_t)left);
    }
    (void)pthread_mutex_unlock(&s->lock);
    return NULL;
}

/* ---- opening --------------------------------------------------------------------------------- */

static sw_status start_writer(swi_stream *s, sw_error *err)
{
    sw_status st = s->lanes != NULL ? take_lane(s->lanes, &s->room, err) : SW_OK;
    if (st != SW_OK || s->room == NULL)
        return st;
    s->block_bytes = s->lanes->block_bytes;
    swi_file_direct(s->file, true);
    int rc = pthread_create(&s->writer, NULL, run_writer, s);
    if (rc == 0)
        return SW_OK;
    swi_file_direct(s->file, false);
    give_lane(s->lanes, s->room);
    return swi_fail_errno(err, rc, "pthread_create");
}

sw_status swi_stream_open(swi_lanes *lanes, swi_file *file, swi_stream **out, sw_error *err)
{
    void *p;
    sw_status st = swi_alloc_array(1, sizeof(swi_stream), &p, err);
    if (st != SW_OK)
        return st;
    swi_stream *s = p;
    *s = (swi_stream){.lanes = lanes, .file = file, .end = UINT64_MAX};
    st = swi_monitor_make(&s->lock, &s->changed, err);
    if (st != SW_OK) {
        free(s);
        return st;
    }
    st = start_writer(s, err);
    if (st != SW_OK) {
        swi_monitor_end(&s->lock, &s->changed);
        free(s);
        return st;
    }
    *out = s;
    return SW_OK;
}

/* ---- putting --------------------------------------------------------------------------------- */

static sw_status failed(const swi_stream *s, sw_error *err)
{
    if (s->error.status == SW_OK)
        return swi_fail(err, SW_ERR_CANCELED, "writing was stopped");
    if (err != NULL)
        *err = s->error;
    return s->error.status;
}

/* Bytes that lie in one block. */
static sw_status put_part(swi_stream *s, uint64_t block, size_t at, const uint8_t *data,
                          size_t size, sw_error *err)
{
    sw_status st = SW_OK;
    (void)pthread_mutex_lock(&s->lock);
    while (!s->stopped && block >= s->first + BLOCKS)
        (void)pthread_cond_wait(&s->changed, &s->lock);
    if (s->stopped)
        st = failed(s, err);
    (void)pthread_mutex_unlock(&s->lock);
    if (st != SW_OK)
        return st;
    memcpy(block_of(s, block) + at, data, size);
    (void)pthread_mutex_lock(&s->lock);
    s->filled[block % BLOCKS] += size;
    if (s->filled[block % BLOCKS] == s->block_bytes)
        (void)pthread_cond_broadcast(&s->changed);
    (void)pthread_mutex_unlock(&s->lock);
    return SW_OK;
}

static sw_status put_slice(swi_stream *s, uint64_t offset, const swi_slice *slice, sw_error *err)
{
    sw_status st = SW_OK;
    for (size_t done = 0, n; done < slice->size && st == SW_OK; done += n) {
        uint64_t block = (offset + done) / s->block_bytes;
        size_t at = (size_t)((offset + done) % s->block_bytes);
        n = s->block_bytes - at;
        if (n > slice->size - done)
            n = slice->size - done;
        st = put_part(s, block, at, (const uint8_t *)slice->data + done, n, err);
    }
    return st;
}

/* Without a lane. */
static sw_status put_at_once(swi_stream *s, uint64_t offset, const swi_slice *slices, size_t count,
                             sw_error *err)
{
    sw_status st = swi_file_writev(s->file, offset, slices, count, err);
    uint64_t from = 0, size = 0;
    for (size_t i = 0; i < count; i++)
        offset += slices[i].size;
    (void)pthread_mutex_lock(&s->lock);
    if (offset > s->reach)
        s->reach = offset;
    if (s->reach - s->behind >= BEHIND_MIN) {
        from = s->behind;
        size = s->reach - s->behind;
        s->behind = s->reach;
    }
    (void)pthread_mutex_unlock(&s->lock);
    if (st == SW_OK && size > 0)
        swi_file_write_behind(s->file, from, size);
    return st;
}

sw_status swi_stream_put(swi_stream *stream, uint64_t offset, const swi_slice *slices, size_t count,
                         sw_error *err)
{
    sw_status st = SW_OK;
    if (stream->room == NULL)
        return put_at_once(stream, offset, slices, count, err);
    for (size_t i = 0; i < count && st == SW_OK; i++) {
        st = put_slice(stream, offset, &slices[i], err);
        offset += slices[i].size;
    }
    return st;
}

/* ---- ending ---------------------------------------------------------------------------------- */

/* The writer comes to its end, and the lane is free for the next. */
static void join_writer(swi_stream *s)
{
    if (s->room == NULL)
        return;
    (void)pthread_mutex_lock(&s->lock);
    if (s->end == UINT64_MAX)
        s->stopped = true;
    (void)pthread_cond_broadcast(&s->changed);
    (void)pthread_mutex_unlock(&s->lock);
    (void)pthread_join(s->writer, NULL);
    swi_file_direct(s->file, false);
    give_lane(s->lanes, s->room);
    s->room = NULL;
}

sw_status swi_stream_end(swi_stream *stream, uint64_t end, sw_error *err)
{
    if (stream->room == NULL)
        return SW_OK;
    (void)pthread_mutex_lock(&stream->lock);
    stream->end = end;
    (void)pthread_mutex_unlock(&stream->lock);
    join_writer(stream);
    return stream->error.status == SW_OK ? SW_OK : failed(stream, err);
}

void swi_stream_free(swi_stream *stream)
{
    if (stream == NULL)
        return;
    join_writer(stream);
    swi_monitor_end(&stream->lock, &stream->changed);
    free(stream);
}
