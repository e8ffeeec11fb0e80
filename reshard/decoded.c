#include "decoded.h"

#include <stdlib.h>

#include "base/arena.h"
#include "base/checked.h"
#include "base/monitor.h"

#define ALIGN ((uint64_t)64)

/* ---- what it takes ------------------------------------------------------------------------- */

static void take_in(swi_chunk_sizes *sizes, const swi_blob *blob)
{
    /* Larger ones are refused before they are read. */
    if (blob->ops->decode == NULL || blob->bytes > SWI_ENCODED_MAX ||
        blob->stored_bytes > SWI_ENCODED_MAX)
        return;
    sizes->raw = blob->bytes > sizes->raw ? blob->bytes : sizes->raw;
    sizes->stored = blob->stored_bytes > sizes->stored ? blob->stored_bytes : sizes->stored;
}

swi_chunk_sizes swi_chunk_sizes_of(const sw_catalog *catalog)
{
    swi_chunk_sizes sizes = {0};
    uint32_t count = swi_catalog_blob_count(catalog);
    for (uint32_t i = 0; i < count; i++) {
        swi_blob blob;
        swi_catalog_blob(catalog, i, &blob);
        take_in(&sizes, &blob);
    }
    return sizes;
}

swi_chunk_sizes swi_chunk_sizes_of_tensor(const sw_catalog *catalog, uint32_t tensor)
{
    swi_chunk_sizes sizes = {0};
    sw_tensor_info info = {0};
    while (sw_catalog_tensor(catalog, tensor, &info) && info.piece_count == 0 &&
           info.alias_of >= 0 && (uint32_t)info.alias_of != tensor)
        tensor = (uint32_t)info.alias_of;
    for (uint64_t i = 0; i < info.piece_count; i++) {
        swi_piece piece;
        swi_blob blob;
        swi_tensor_piece(catalog, tensor, i, &piece);
        swi_catalog_blob(catalog, piece.blob, &blob);
        take_in(&sizes, &blob);
    }
    return sizes;
}

swi_decoded_share swi_decoded_divide(const swi_chunk_sizes *sizes, uint64_t memory_bytes,
                                     uint32_t threads, uint64_t thread_bytes)
{
    uint64_t raw = (sizes->raw + ALIGN - 1) / ALIGN * ALIGN;
    uint64_t own = thread_bytes + sizes->stored;
    uint64_t fit = memory_bytes / (own + raw);
    swi_decoded_share share = {.threads = fit < threads ? (uint32_t)fit : threads};
    if (share.threads == 0)
        share.threads = 1;
    if (raw > 0) {
        uint64_t slots = memory_bytes / 2 / raw;
        if (slots < share.threads)
            slots = share.threads;
        share.slots = slots < SWI_DECODED_SLOTS_MAX ? (uint32_t)slots : SWI_DECODED_SLOTS_MAX;
    }
    /* Half of the memory is for the slots, but no thread gets less than it needs. */
    uint64_t most = memory_bytes > own * share.threads ? memory_bytes - own * share.threads : 0;
    if (raw > 0 && share.slots > most / raw && share.slots > share.threads)
        share.slots = most / raw > share.threads ? (uint32_t)(most / raw) : share.threads;
    uint64_t taken = share.slots * raw;
    share.each_bytes = memory_bytes > taken ? (memory_bytes - taken) / share.threads : 0;
    if (share.each_bytes < own)
        share.each_bytes = own;
    return share;
}

/* ---- the cache ----------------------------------------------------------------------------- */

typedef struct slot {
    uint64_t key;  /* blob + 1; 0: empty */
    bool ready;    /* else it is being filled by who holds it */
    uint32_t held; /* by so many threads */
    uint64_t used; /* when it was asked for last */
    uint64_t left; /* bytes that were not copied from it yet */
} slot;

struct swi_decoded {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool has_locks;
    uint32_t count;
    uint64_t slot_bytes;
    uint64_t clock;
    uint8_t *memory;
    slot slots[];
};

static sw_status begin_memory(swi_decoded *d, uint64_t slot_bytes, sw_error *err)
{
    void *p;
    uint64_t bytes;
    if (!swi_add_u64(slot_bytes, ALIGN - 1, &d->slot_bytes))
        return swi_fail_nomem(err);
    d->slot_bytes -= d->slot_bytes % ALIGN;
    /* Not zeroed: pages that are not used are not touched. */
    if (!swi_mul_u64(d->slot_bytes, d->count, &bytes) || bytes > SIZE_MAX ||
        posix_memalign(&p, ALIGN, (size_t)bytes) != 0)
        return swi_fail_nomem(err);
    d->memory = p;
    return SW_OK;
}

sw_status swi_decoded_make(uint32_t slots, uint64_t slot_bytes, swi_decoded **out, sw_error *err)
{
    void *p;
    if (slots == 0 || slot_bytes == 0) {
        *out = NULL;
        return SW_OK;
    }
    uint32_t count = slots < SWI_DECODED_SLOTS_MAX ? slots : SWI_DECODED_SLOTS_MAX;
    sw_status status =
        swi_alloc_array(1, sizeof(swi_decoded) + (size_t)count * sizeof(slot), &p, err);
    if (status != SW_OK)
        return status;
    swi_decoded *d = p;
    d->count = count;
    status = swi_monitor_make(&d->lock, &d->changed, err);
    d->has_locks = status == SW_OK;
    if (status == SW_OK)
        status = begin_memory(d, slot_bytes, err);
    if (status != SW_OK) {
        swi_decoded_free(d);
        return status;
    }
    *out = d;
    return SW_OK;
}

void swi_decoded_free(swi_decoded *decoded)
{
    if (decoded == NULL)
        return;
    if (decoded->has_locks)
        swi_monitor_end(&decoded->lock, &decoded->changed);
    free(decoded->memory);
    free(decoded);
}

static slot *find(swi_decoded *d, uint32_t blob)
{
    for (uint32_t i = 0; i < d->count; i++)
        if (d->slots[i].key == (uint64_t)blob + 1)
            return &d->slots[i];
    return NULL;
}

/* Whether a goes before b: an empty one, one that was used up, one that was asked for earlier. */
static bool goes_before(const slot *a, const slot *b)
{
    if ((a->key == 0) != (b->key == 0))
        return a->key == 0;
    if ((a->left == 0) != (b->left == 0))
        return a->left == 0;
    return a->used < b->used;
}

/* The slot to give up; NULL: all are held. */
static slot *find_room(swi_decoded *d)
{
    slot *best = NULL;
    for (uint32_t i = 0; i < d->count; i++) {
        slot *s = &d->slots[i];
        if (s->held == 0 && (best == NULL || goes_before(s, best)))
            best = s;
    }
    return best;
}

/* One look under the lock; BUSY: something has to change first. */
static swi_decoded_found look(swi_decoded *d, const swi_decoded_ask *ask, slot **out)
{
    slot *s = find(d, ask->blob);
    if (s != NULL && !s->ready)
        return SWI_DECODED_BUSY;
    if (s == NULL && ask->find_only)
        return SWI_DECODED_ABSENT;
    swi_decoded_found found = SWI_DECODED_HELD;
    if (s == NULL) {
        s = find_room(d);
        if (s == NULL)
            return SWI_DECODED_BUSY;
        *s = (slot){.key = (uint64_t)ask->blob + 1, .left = ask->raw_bytes};
        found = SWI_DECODED_TO_FILL;
    }
    s->held++;
    s->used = ++d->clock;
    *out = s;
    return found;
}

swi_decoded_found swi_decoded_get(swi_decoded *decoded, const swi_decoded_ask *ask,
                                  uint32_t *slot_id, uint8_t **bytes)
{
    slot *s = NULL;
    swi_decoded_found found;
    (void)pthread_mutex_lock(&decoded->lock);
    while ((found = look(decoded, ask, &s)) == SWI_DECODED_BUSY && ask->wait)
        (void)pthread_cond_wait(&decoded->changed, &decoded->lock);
    (void)pthread_mutex_unlock(&decoded->lock);
    if (s != NULL) {
        *slot_id = (uint32_t)(s - decoded->slots);
        *bytes = decoded->memory + *slot_id * decoded->slot_bytes;
    }
    return found;
}

void swi_decoded_filled(swi_decoded *decoded, uint32_t slot_id, bool ok)
{
    slot *s = &decoded->slots[slot_id];
    (void)pthread_mutex_lock(&decoded->lock);
    if (ok)
        s->ready = true;
    else
        *s = (slot){0}; /* who waits for it tries by itself */
    (void)pthread_cond_broadcast(&decoded->changed);
    (void)pthread_mutex_unlock(&decoded->lock);
}

void swi_decoded_release(swi_decoded *decoded, uint32_t slot_id, uint64_t used_bytes)
{
    slot *s = &decoded->slots[slot_id];
    (void)pthread_mutex_lock(&decoded->lock);
    s->left -= used_bytes < s->left ? used_bytes : s->left;
    s->held--;
    if (s->held == 0)
        (void)pthread_cond_broadcast(&decoded->changed);
    (void)pthread_mutex_unlock(&decoded->lock);
}
