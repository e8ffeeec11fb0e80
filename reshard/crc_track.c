#include "crc_track.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "codec/crc32.h"

/* At most 16 Ki records in flight and 64 Ki parts that have not met: under 4 MiB. */
#define BUCKETS 1024U
#define RECORDS_MAX 16384U
#define PARTS_MAX 65536U

typedef struct part {
    uint64_t at, end;
    uint32_t crc;
} part;

typedef struct record {
    struct record *next; /* of its bucket */
    uint32_t blob;
    part *parts; /* ascending, not touching one another */
    size_t count, capacity;
} record;

struct swi_crc_track {
    pthread_mutex_t lock;
    record *buckets[BUCKETS];
    uint32_t record_count;
    uint32_t part_count;
    uint32_t *given; /* blobs */
    size_t given_count, given_capacity;
    atomic_uchar *done; /* a bit per blob: compared, given up or claimed */
};

sw_status swi_crc_track_make(uint32_t blob_count, swi_crc_track **out, sw_error *err)
{
    void *p, *bits;
    sw_status status = swi_alloc_array(1, sizeof(swi_crc_track), &p, err);
    if (status != SW_OK)
        return status;
    swi_crc_track *track = p;
    status = swi_alloc_array(blob_count / 8 + 1, 1, &bits, err);
    if (status != SW_OK) {
        free(track);
        return status;
    }
    track->done = bits;
    int rc = pthread_mutex_init(&track->lock, NULL);
    if (rc != 0) {
        free(bits);
        free(track);
        return swi_fail_errno(err, rc, "pthread_mutex_init");
    }
    *out = track;
    return SW_OK;
}

static void free_record(record *r)
{
    free(r->parts);
    free(r);
}

void swi_crc_track_free(swi_crc_track *track)
{
    if (track == NULL)
        return;
    for (uint32_t b = 0; b < BUCKETS; b++) {
        for (record *r = track->buckets[b], *next; r != NULL; r = next) {
            next = r->next;
            free_record(r);
        }
    }
    (void)pthread_mutex_destroy(&track->lock);
    free(track->given);
    free(track->done);
    free(track);
}

bool swi_crc_track_claim(swi_crc_track *track, uint32_t blob)
{
    unsigned char bit = (unsigned char)(1U << (blob % 8));
    return (atomic_fetch_or(&track->done[blob / 8], bit) & bit) == 0;
}

static bool is_done(swi_crc_track *track, uint32_t blob)
{
    return atomic_load(&track->done[blob / 8]) >> (blob % 8) & 1;
}

/* ---- under the lock ------------------------------------------------------------------------- */

static record **find(swi_crc_track *track, uint32_t blob)
{
    record **at = &track->buckets[blob % BUCKETS];
    while (*at != NULL && (*at)->blob != blob)
        at = &(*at)->next;
    return at;
}

static void forget(swi_crc_track *track, record **at)
{
    record *r = *at;
    *at = r->next;
    track->record_count--;
    track->part_count -= (uint32_t)r->count;
    free_record(r);
}

static sw_status give_up(swi_crc_track *track, record **at, uint32_t blob, sw_error *err)
{
    sw_status status = swi_grow_array((void **)&track->given, &track->given_capacity,
                                      track->given_count + 1, sizeof *track->given, err);
    if (status != SW_OK)
        return status;
    track->given[track->given_count++] = blob;
    (void)swi_crc_track_claim(track, blob);
    if (*at != NULL)
        forget(track, at);
    return SW_OK;
}

/* The first part that ends behind `at`. */
static size_t find_part(const record *r, uint64_t at)
{
    size_t lo = 0, hi = r->count;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (r->parts[mid].end <= at)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

static void join(part *a, const part *b)
{
    a->crc = swi_crc32_combine(a->crc, b->crc, b->end - b->at);
    a->end = b->end;
}

/* Puts the part at its place; parts that touch become one. There is room for one more. */
static void insert(swi_crc_track *track, record *r, size_t i, const part *in)
{
    bool left = i > 0 && r->parts[i - 1].end == in->at;
    bool right = i < r->count && r->parts[i].at == in->end;
    if (left) {
        join(&r->parts[i - 1], in);
        if (!right)
            return;
        join(&r->parts[i - 1], &r->parts[i]);
        memmove(&r->parts[i], &r->parts[i + 1], (r->count - i - 1) * sizeof *r->parts);
        r->count--;
        track->part_count--;
    } else if (right) {
        part whole = *in;
        join(&whole, &r->parts[i]);
        r->parts[i] = whole;
    } else {
        memmove(&r->parts[i + 1], &r->parts[i], (r->count - i) * sizeof *r->parts);
        r->parts[i] = *in;
        r->count++;
        track->part_count++;
    }
}

static sw_status make_record(swi_crc_track *track, record **at, uint32_t blob, sw_error *err)
{
    void *p;
    sw_status status = swi_alloc_array(1, sizeof(record), &p, err);
    if (status != SW_OK)
        return status;
    record *r = p;
    r->blob = blob;
    *at = r;
    track->record_count++;
    return SW_OK;
}

static sw_status add_part(swi_crc_track *track, const swi_crc_part *in, swi_crc_result *result,
                          uint32_t *found, sw_error *err)
{
    record **at = find(track, in->blob);
    part p = {.at = in->at, .end = in->at + in->size, .crc = in->crc};
    if (*at == NULL && track->record_count >= RECORDS_MAX)
        return give_up(track, at, in->blob, err);
    sw_status status = *at == NULL ? make_record(track, at, in->blob, err) : SW_OK;
    if (status != SW_OK)
        return status;
    record *r = *at;
    size_t i = find_part(r, p.at);
    if (i < r->count && r->parts[i].at < p.end) {
        if (r->parts[i].at <= p.at && p.end <= r->parts[i].end)
            return SW_OK; /* seen before */
        return give_up(track, at, in->blob, err);
    }
    if (track->part_count >= PARTS_MAX)
        return give_up(track, at, in->blob, err);
    status = swi_grow_array((void **)&r->parts, &r->capacity, r->count + 1, sizeof *r->parts, err);
    if (status != SW_OK)
        return status;
    insert(track, r, i, &p);
    if (r->parts[0].at != 0 || r->parts[0].end != in->record_bytes)
        return SW_OK;
    *found = r->parts[0].crc;
    *result = *found == in->expected ? SWI_CRC_RIGHT : SWI_CRC_WRONG;
    (void)swi_crc_track_claim(track, in->blob);
    forget(track, at);
    return SW_OK;
}

sw_status swi_crc_track_add(swi_crc_track *track, const swi_crc_part *in, swi_crc_result *result,
                            uint32_t *found, sw_error *err)
{
    *result = SWI_CRC_MORE;
    if (in->size == 0 || is_done(track, in->blob))
        return SW_OK;
    (void)pthread_mutex_lock(&track->lock);
    sw_status status = SW_OK;
    if (in->at == 0 && in->size == in->record_bytes) {
        /* Whole in one: what came in parts before is no longer needed. */
        record **at = find(track, in->blob);
        if (*at != NULL)
            forget(track, at);
        if (swi_crc_track_claim(track, in->blob)) {
            *found = in->crc;
            *result = in->crc == in->expected ? SWI_CRC_RIGHT : SWI_CRC_WRONG;
        }
    } else if (!is_done(track, in->blob)) {
        status = add_part(track, in, result, found, err);
    }
    (void)pthread_mutex_unlock(&track->lock);
    return status;
}

sw_status swi_crc_track_left(const swi_crc_track *track, swi_crc_left_fn fn, void *ctx,
                             sw_error *err)
{
    sw_status status = SW_OK;
    for (size_t i = 0; i < track->given_count && status == SW_OK; i++)
        status = fn(ctx, track->given[i], false, 0, err);
    for (uint32_t b = 0; b < BUCKETS; b++) {
        for (const record *r = track->buckets[b]; r != NULL && status == SW_OK; r = r->next) {
            uint64_t seen = 0;
            for (size_t i = 0; i < r->count; i++)
                seen += r->parts[i].end - r->parts[i].at;
            status = fn(ctx, r->blob, true, seen, err);
        }
    }
    return status;
}
