#include "pack.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/arena.h"
#include "base/monitor.h"

#define RING_MIN ((size_t)64)
/* Chunks that one thread stores at once. */
#define BATCH 32
/* Room for larger chunks is kept for the next ones: so much at most. */
#define SMALL_ROOM ((size_t)64 << 10)
#define ROOM_SIZES 8U
#define SPARE_MAX 32
#define SPARE_BYTES ((size_t)6 << 20)
#define WAIT_NS 20000000L

/* A chunk that is under way. */
typedef struct slot {
    uint8_t *raw;  /* owned; NULL: nothing of it came, or all at once */
    uint64_t left; /* raw bytes that did not come yet */
    bool begun, encoded;
    uint8_t *stored; /* owned */
    size_t stored_bytes;
} slot;

struct swi_packer {
    const swi_packing *in;
    uint64_t ahead_bytes;
    swi_pool *pool;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    slot *ring; /* of chunk c at c % capacity; those from `next` on */
    size_t capacity;
    size_t next;        /* the first chunk without a place */
    uint64_t end;       /* of the last one that has a place */
    swi_stream *stream; /* NULL: nothing has a place yet */
    uint32_t waiters;   /* threads that wait and were not told since that more have places */
    uint64_t told;      /* how often they were */
    swi_pack_rooms *rooms;
};

/* What got its place and is to be written. */
typedef struct placed {
    uint8_t *stored; /* owned */
    size_t size;
    uint64_t offset, raw_bytes, gap_bytes;
} placed;

typedef struct batch {
    placed items[BATCH];
    size_t count;
} batch;

static void lock_packer(swi_packer *p)
{
    (void)pthread_mutex_lock(&p->lock);
}

static void unlock_packer(swi_packer *p)
{
    (void)pthread_mutex_unlock(&p->lock);
}

static uint64_t chunk_begin(const swi_packer *p, size_t chunk)
{
    return chunk > 0 ? p->in->chunk_ends[chunk - 1] : 0;
}

static uint64_t chunk_bytes(const swi_packer *p, size_t chunk)
{
    return p->in->chunk_ends[chunk] - chunk_begin(p, chunk);
}

/* ---- rooms ----------------------------------------------------------------------------------- */

/* Room of each size, a power of two, from SMALL_ROOM on. */
struct swi_pack_rooms {
    pthread_mutex_t lock;
    uint8_t *spare[ROOM_SIZES][SPARE_MAX];
    size_t spares[ROOM_SIZES];
    size_t bytes; /* of all that are spare */
    swi_lanes *lanes;
};

sw_status swi_pack_rooms_make(uint64_t stream_bytes, swi_pack_rooms **out, sw_error *err)
{
    void *p;
    sw_status st = swi_alloc_array(1, sizeof(swi_pack_rooms), &p, err);
    if (st != SW_OK)
        return st;
    swi_pack_rooms *rooms = p;
    st = swi_lanes_make(stream_bytes, &rooms->lanes, err);
    int rc = st == SW_OK ? pthread_mutex_init(&rooms->lock, NULL) : 0;
    if (rc != 0)
        st = swi_fail_errno(err, rc, "pthread_mutex_init");
    if (st != SW_OK) {
        swi_lanes_free(rooms->lanes);
        free(rooms);
        return st;
    }
    *out = rooms;
    return SW_OK;
}

void swi_pack_rooms_free(swi_pack_rooms *rooms)
{
    if (rooms == NULL)
        return;
    for (size_t k = 0; k < ROOM_SIZES; k++)
        for (size_t i = 0; i < rooms->spares[k]; i++)
            free(rooms->spare[k][i]);
    swi_lanes_free(rooms->lanes);
    (void)pthread_mutex_destroy(&rooms->lock);
    free(rooms);
}

/* The number of its size; ROOM_SIZES: it is not kept. */
static size_t room_size(const swi_pack_rooms *rooms, size_t size)
{
    size_t k = 0;
    if (rooms == NULL || size < SMALL_ROOM)
        return ROOM_SIZES;
    while (k < ROOM_SIZES && SMALL_ROOM << k < size)
        k++;
    return k;
}

/* Not zeroed. Small rooms are the allocator's business. */
static uint8_t *take_room(swi_pack_rooms *rooms, size_t size)
{
    uint8_t *room = NULL;
    size_t k = room_size(rooms, size);
    if (k == ROOM_SIZES)
        return malloc(size > 0 ? size : 1);
    (void)pthread_mutex_lock(&rooms->lock);
    if (rooms->spares[k] > 0) {
        room = rooms->spare[k][--rooms->spares[k]];
        rooms->bytes -= SMALL_ROOM << k;
    }
    (void)pthread_mutex_unlock(&rooms->lock);
    return room != NULL ? room : malloc(SMALL_ROOM << k);
}

/* `size`: as it was taken for. */
static void give_room(swi_pack_rooms *rooms, uint8_t *room, size_t size)
{
    size_t k = room_size(rooms, size);
    if (k < ROOM_SIZES && room != NULL) {
        (void)pthread_mutex_lock(&rooms->lock);
        if (rooms->spares[k] < SPARE_MAX && rooms->bytes < SPARE_BYTES) {
            rooms->spare[k][rooms->spares[k]++] = room;
            rooms->bytes += SMALL_ROOM << k;
            room = NULL;
        }
        (void)pthread_mutex_unlock(&rooms->lock);
    }
    free(room);
}

/* ---- making ---------------------------------------------------------------------------------- */

sw_status swi_packer_make(const swi_packing *packing, uint64_t ahead_bytes, swi_pool *pool,
                          swi_pack_rooms *rooms, swi_packer **out, sw_error *err)
{
    void *p = NULL, *ring = NULL;
    sw_status st = swi_alloc_array(1, sizeof(swi_packer), &p, err);
    if (st == SW_OK)
        st = swi_alloc_array(RING_MIN, sizeof(slot), &ring, err);
    if (st == SW_OK)
        st = swi_monitor_make(&((swi_packer *)p)->lock, &((swi_packer *)p)->changed, err);
    if (st != SW_OK) {
        free(p);
        free(ring);
        return st;
    }
    swi_packer *made = p;
    made->in = packing;
    made->ahead_bytes = ahead_bytes;
    made->pool = pool;
    made->ring = ring;
    made->capacity = RING_MIN;
    made->end = packing->head_bytes;
    made->rooms = rooms;
    *out = made;
    return SW_OK;
}

void swi_packer_free(swi_packer *packer)
{
    if (packer == NULL)
        return;
    for (size_t i = 0; i < packer->capacity; i++) {
        free(packer->ring[i].raw);
        free(packer->ring[i].stored);
    }
    free(packer->ring);
    swi_stream_free(packer->stream);
    swi_monitor_end(&packer->lock, &packer->changed);
    free(packer);
}

/* ---- chunks under way ------------------------------------------------------------------------ */

/* The chunk of a raw byte. */
static size_t chunk_at(const swi_packer *p, uint64_t offset)
{
    size_t lo = 0, hi = p->in->chunks;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (p->in->chunk_ends[mid] <= offset)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

/* Under the lock: makes the ring reach to the chunk. */
static sw_status need_slot(swi_packer *p, size_t chunk, sw_error *err)
{
    void *fresh;
    size_t capacity = p->capacity;
    while (chunk - p->next >= capacity)
        capacity *= 2;
    if (capacity == p->capacity)
        return SW_OK;
    sw_status st = swi_alloc_array(capacity, sizeof(slot), &fresh, err);
    if (st != SW_OK)
        return st;
    for (size_t i = 0; i < p->capacity; i++)
        ((slot *)fresh)[(p->next + i) % capacity] = p->ring[(p->next + i) % p->capacity];
    free(p->ring);
    p->ring = fresh;
    p->capacity = capacity;
    return SW_OK;
}

/* Whether everybody who could bring what is missing waits too. */
static bool all_wait(swi_packer *p)
{
    (void)pthread_mutex_lock(&p->pool->lock);
    bool all = atomic_load(&p->pool->waiting) >= p->pool->running;
    (void)pthread_mutex_unlock(&p->pool->lock);
    return all;
}

/* Under the lock: whether this chunk is far ahead of the first one that is not whole. */
static bool is_early(const swi_packer *p, size_t chunk)
{
    return p->next < p->in->chunks && chunk > p->next &&
           chunk_begin(p, chunk) > chunk_begin(p, p->next) + p->ahead_bytes;
}

static void wait_tick(swi_packer *p)
{
    struct timespec until;
    (void)clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += WAIT_NS;
    if (until.tv_nsec >= 1000000000L) {
        until.tv_nsec -= 1000000000L;
        until.tv_sec++;
    }
    (void)pthread_cond_timedwait(&p->changed, &p->lock, &until);
}

/*
 * Under the lock: waits while the chunk is early. Who was told that more have places counts as
 * waiting only when it has seen that it still must: else all would seem to wait while the one who
 * can go on is not running yet, and the others would go ahead as far as they like.
 */
static void wait_turn(swi_packer *p, size_t chunk)
{
    uint64_t told = 0;
    bool counted = false;
    while (is_early(p, chunk) && !atomic_load(&p->pool->stopped)) {
        if (!counted) {
            p->waiters++;
            atomic_fetch_add(&p->pool->waiting, 1);
            told = p->told;
            counted = true;
        }
        if (all_wait(p))
            break;
        wait_tick(p);
        counted = told == p->told;
    }
    if (!counted)
        return;
    p->waiters--;
    atomic_fetch_sub(&p->pool->waiting, 1);
}

/* Under the lock. */
static void tell_waiters(swi_packer *p)
{
    atomic_fetch_sub(&p->pool->waiting, p->waiters);
    p->waiters = 0;
    p->told++;
    (void)pthread_cond_broadcast(&p->changed);
}

/* ---- placing --------------------------------------------------------------------------------- */

/* Under the lock: all that can get their places now, as many as a batch holds. */
static void place_ready(swi_packer *p, batch *b)
{
    for (b->count = 0; b->count < BATCH && p->next < p->in->chunks; b->count++) {
        slot *s = &p->ring[p->next % p->capacity];
        if (!s->encoded)
            break;
        uint64_t align = p->in->align > 0 ? p->in->align : 1;
        uint64_t offset = (p->end + align - 1) / align * align;
        b->items[b->count] = (placed){.stored = s->stored,
                                      .size = s->stored_bytes,
                                      .offset = offset,
                                      .raw_bytes = chunk_bytes(p, p->next),
                                      .gap_bytes = offset - p->end};
        p->in->placed(p->in->ctx, p->next, offset, s->stored_bytes);
        p->end = offset + s->stored_bytes;
        *s = (slot){0};
        p->next++;
    }
    if (b->count > 0)
        tell_waiters(p);
}

static sw_status store(swi_packer *p, const placed *item, sw_error *err)
{
    static const uint8_t zeros[SWI_PACK_ALIGN_MAX];
    const swi_slice slices[2] = {{.data = zeros, .size = (size_t)item->gap_bytes},
                                 {.data = item->stored, .size = item->size}};
    size_t first = item->gap_bytes > 0 ? 0 : 1;
    return swi_stream_put(p->stream, item->offset - item->gap_bytes, slices + first, 2 - first,
                          err);
}

/* Whoever comes first opens the stream, and owes its head. */
static sw_status need_stream(swi_packer *p, swi_file *file, sw_error *err)
{
    lock_packer(p);
    bool opens = p->stream == NULL;
    sw_status st =
        opens ? swi_stream_open(p->rooms != NULL ? p->rooms->lanes : NULL, file, &p->stream, err)
              : SW_OK;
    unlock_packer(p);
    const swi_slice head = {.data = p->in->head, .size = p->in->head_bytes};
    return opens && st == SW_OK && head.size > 0 ? swi_stream_put(p->stream, 0, &head, 1, err) : st;
}

/* Writes what can be placed; chunks that become ready meanwhile too. */
static sw_status store_ready(swi_packer *p, swi_file *file, uint64_t *raw_bytes, sw_error *err)
{
    batch b;
    sw_status st = need_stream(p, file, err);
    while (st == SW_OK) {
        lock_packer(p);
        place_ready(p, &b);
        unlock_packer(p);
        for (size_t i = 0; i < b.count; i++) {
            if (st == SW_OK)
                st = store(p, &b.items[i], err);
            *raw_bytes += b.items[i].raw_bytes;
            give_room(p->rooms, b.items[i].stored, p->in->room((size_t)b.items[i].raw_bytes));
        }
        if (b.count == 0)
            break;
    }
    return st;
}

/* ---- encoding -------------------------------------------------------------------------------- */

/* All raw bytes of the chunk are there: encodes them into a slot, and stores what can be. */
static sw_status encode(swi_packer *p, size_t chunk, const uint8_t *raw, sw_error *err)
{
    size_t raw_bytes = (size_t)chunk_bytes(p, chunk), size = 0;
    uint8_t *room = take_room(p->rooms, p->in->room(raw_bytes));
    if (room == NULL)
        return swi_fail_nomem(err);
    sw_status st = p->in->encode(p->in->ctx, chunk, raw, raw_bytes, room, &size, err);
    if (st != SW_OK) {
        free(room);
        return st;
    }
    lock_packer(p);
    slot *s = &p->ring[chunk % p->capacity];
    s->stored = room;
    s->stored_bytes = size;
    s->encoded = true;
    give_room(p->rooms, s->raw, raw_bytes);
    s->raw = NULL;
    unlock_packer(p);
    return SW_OK;
}

/* Some bytes of one chunk. *whole: its raw bytes, when these were the last. */
static sw_status take_part(swi_packer *p, size_t chunk, uint64_t at, const uint8_t *data,
                           size_t size, const uint8_t **whole, sw_error *err)
{
    uint8_t *raw = NULL;
    uint64_t bytes = chunk_bytes(p, chunk);
    lock_packer(p);
    wait_turn(p, chunk);
    sw_status st = need_slot(p, chunk, err);
    if (st == SW_OK) {
        slot *s = &p->ring[chunk % p->capacity];
        if (!s->begun) {
            s->left = bytes;
            s->begun = true;
        }
        if (s->raw == NULL && size < bytes) {
            s->raw = take_room(p->rooms, (size_t)bytes);
            st = s->raw == NULL ? swi_fail_nomem(err) : SW_OK;
        }
        raw = s->raw;
    }
    unlock_packer(p);
    if (st != SW_OK)
        return st;
    if (raw != NULL)
        memcpy(raw + at, data, size);
    lock_packer(p);
    slot *s = &p->ring[chunk % p->capacity];
    s->left -= size;
    *whole = s->left > 0 ? NULL : raw != NULL ? raw : data;
    unlock_packer(p);
    return SW_OK;
}

static sw_status write_slice(swi_packer *p, swi_file *file, uint64_t offset, const swi_slice *slice,
                             uint64_t *raw_bytes, sw_error *err)
{
    const uint8_t *data = slice->data;
    sw_status st = SW_OK;
    for (size_t done = 0, n; done < slice->size && st == SW_OK; done += n) {
        const uint8_t *whole = NULL;
        size_t chunk = chunk_at(p, offset + done);
        if (chunk == p->in->chunks)
            return swi_fail(err, SW_ERR_ARG, "raw byte %" PRIu64 " is in no chunk", offset + done);
        uint64_t left = p->in->chunk_ends[chunk] - (offset + done);
        n = slice->size - done < left ? slice->size - done : (size_t)left;
        st =
            take_part(p, chunk, offset + done - chunk_begin(p, chunk), data + done, n, &whole, err);
        if (st == SW_OK && whole != NULL)
            st = encode(p, chunk, whole, err);
        if (st == SW_OK && whole != NULL)
            st = store_ready(p, file, raw_bytes, err);
    }
    return st;
}

sw_status swi_packer_write(swi_packer *packer, swi_file *file, uint64_t offset,
                           const swi_slice *slices, size_t count, uint64_t *stored_raw_bytes,
                           sw_error *err)
{
    sw_status st = SW_OK;
    for (size_t i = 0; i < count && st == SW_OK; i++) {
        st = write_slice(packer, file, offset, &slices[i], stored_raw_bytes, err);
        offset += slices[i].size;
    }
    return st;
}

sw_status swi_packer_finish(swi_packer *packer, swi_file *file, uint64_t *bytes, sw_error *err)
{
    swi_buf tail = {0};
    sw_status st = need_stream(packer, file, err);
    if (st == SW_OK)
        st = packer->in->finish(packer->in->ctx, packer->end, &tail, err);
    const swi_slice slice = {.data = tail.data, .size = tail.size};
    *bytes = packer->end + tail.size;
    if (st == SW_OK && tail.size > 0)
        st = swi_stream_put(packer->stream, packer->end, &slice, 1, err);
    if (st == SW_OK)
        st = swi_stream_end(packer->stream, *bytes, err);
    swi_buf_free(&tail);
    return st;
}
