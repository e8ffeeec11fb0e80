#include "io/filecache.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "base/arena.h"
#include "base/checked.h"
#include "base/monitor.h"
#include "base/text.h"
#include "io/temp.h"

#define OPEN_MIN 1U
#define SCRATCH_ALIGN 4096U
#define NO_SLOT UINT32_MAX

/*
 * A slot is free (id == NO_SLOT), opening (file NULL, users > 0), in use (users > 0) or idle. Only
 * idle slots are in the list, least recently used first.
 */
typedef struct slot {
    swi_file *file;
    uint32_t id;
    uint32_t users;
    uint32_t newer, older; /* neighbours in the list of idle slots */
} slot;

struct swi_filecache {
    swi_reader reader;
    const swi_store *store;
    swi_path_of_fn path_of;
    const void *path_ctx;
    uint32_t count;
    pthread_mutex_t lock;
    pthread_cond_t changed; /* a file was opened, failed to open, or fell idle */
    uint32_t *slot_of;      /* by file id: slot + 1, or 0 */
    slot *slots;
    uint32_t slot_count;
    uint32_t used_slots; /* slots from here on were never used */
    uint32_t free_slot;  /* a list of the free ones through `newer` */
    uint32_t oldest, newest;
    swi_file *scratch; /* lent, or `own` */
    uint64_t scratch_end;
    swi_file *own;
    const char *temp_dir;
};

/* A mutex that was made and is not held by this thread cannot fail to lock or unlock. */
static void lock_cache(swi_filecache *cache)
{
    (void)pthread_mutex_lock(&cache->lock);
}

static void unlock_cache(swi_filecache *cache)
{
    (void)pthread_mutex_unlock(&cache->lock);
}

/* ---- slots, under the lock ------------------------------------------------------------------- */

static void idle_append(swi_filecache *cache, uint32_t s)
{
    slot *it = &cache->slots[s];
    it->older = cache->newest;
    it->newer = NO_SLOT;
    if (cache->newest != NO_SLOT)
        cache->slots[cache->newest].newer = s;
    else
        cache->oldest = s;
    cache->newest = s;
}

static void idle_remove(swi_filecache *cache, uint32_t s)
{
    const slot *it = &cache->slots[s];
    if (it->older != NO_SLOT)
        cache->slots[it->older].newer = it->newer;
    else
        cache->oldest = it->newer;
    if (it->newer != NO_SLOT)
        cache->slots[it->newer].older = it->older;
    else
        cache->newest = it->older;
}

static void free_slot(swi_filecache *cache, uint32_t s)
{
    cache->slots[s] = (slot){.id = NO_SLOT, .newer = cache->free_slot};
    cache->free_slot = s;
}

/* Takes the file that was idle longest out of the cache; NULL when all are in use. */
static swi_file *evict(swi_filecache *cache)
{
    uint32_t s = cache->oldest;
    if (s == NO_SLOT)
        return NULL;
    swi_file *file = cache->slots[s].file;
    idle_remove(cache, s);
    cache->slot_of[cache->slots[s].id] = 0;
    free_slot(cache, s);
    return file;
}

/* A free slot, with *stale to be closed first; NO_SLOT when every one is in use. */
static uint32_t take_slot(swi_filecache *cache, swi_file **stale)
{
    if (cache->free_slot == NO_SLOT && cache->used_slots == cache->slot_count)
        *stale = evict(cache);
    uint32_t s = cache->free_slot;
    if (s != NO_SLOT)
        cache->free_slot = cache->slots[s].newer;
    else if (cache->used_slots < cache->slot_count)
        s = cache->used_slots++;
    return s;
}

/* ---- opening --------------------------------------------------------------------------------- */

/* Out of descriptors: idle files are closed one by one until it works. Not under the lock. */
static sw_status open_id(swi_filecache *cache, uint32_t id, swi_file **out, sw_error *err)
{
    const char *path = cache->path_of(cache->path_ctx, id);
    for (;;) {
        sw_error local;
        sw_status status = swi_store_open_read(cache->store, path, out, &local);
        if (status == SW_OK)
            return SW_OK;
        swi_file *stale = NULL;
        if (local.sys_errno == EMFILE || local.sys_errno == ENFILE) {
            lock_cache(cache);
            stale = evict(cache);
            unlock_cache(cache);
        }
        if (stale == NULL) {
            if (err != NULL)
                *err = local;
            return status;
        }
        swi_file_close(stale);
    }
}

/* Fills slot `s`, which this thread has marked as opening. Called and returns under the lock. */
static sw_status open_slot(swi_filecache *cache, uint32_t s, swi_file *stale, sw_error *err)
{
    uint32_t id = cache->slots[s].id;
    swi_file *file = NULL;
    unlock_cache(cache);
    swi_file_close(stale);
    sw_status status = open_id(cache, id, &file, err);
    lock_cache(cache);
    if (status == SW_OK) {
        cache->slots[s].file = file;
    } else {
        cache->slot_of[id] = 0;
        free_slot(cache, s);
    }
    (void)pthread_cond_broadcast(&cache->changed);
    return status;
}

/*
 * Pins the file: it stays open until let_go. A thread waits for a slot only while it pins nothing,
 * so that some thread always goes on.
 */
static sw_status pin(swi_filecache *cache, uint32_t id, uint32_t *out, sw_error *err)
{
    if (id >= cache->count)
        return swi_fail(err, SW_ERR_ARG, "no file %" PRIu32 ": there are %" PRIu32, id,
                        cache->count);
    sw_status status = SW_OK;
    lock_cache(cache);
    for (;;) {
        uint32_t s = cache->slot_of[id];
        if (s != 0 && cache->slots[s - 1].file != NULL) {
            *out = s - 1;
            if (cache->slots[s - 1].users++ == 0)
                idle_remove(cache, s - 1);
            break;
        }
        swi_file *stale = NULL;
        uint32_t taken = s == 0 ? take_slot(cache, &stale) : NO_SLOT;
        if (taken == NO_SLOT) {
            (void)pthread_cond_wait(&cache->changed, &cache->lock);
            continue;
        }
        cache->slots[taken] = (slot){.id = id, .users = 1};
        cache->slot_of[id] = taken + 1;
        status = open_slot(cache, taken, stale, err);
        *out = taken;
        break;
    }
    unlock_cache(cache);
    return status;
}

static void let_go(swi_filecache *cache, uint32_t s)
{
    lock_cache(cache);
    if (--cache->slots[s].users == 0) {
        idle_append(cache, s);
        (void)pthread_cond_broadcast(&cache->changed);
    }
    unlock_cache(cache);
}

/* ---- the reader ------------------------------------------------------------------------------ */

static swi_file *scratch_of(swi_filecache *cache)
{
    lock_cache(cache);
    swi_file *scratch = cache->scratch;
    unlock_cache(cache);
    return scratch;
}

static sw_status fail_no_scratch(sw_error *err)
{
    return swi_fail(err, SW_ERR_UNSUPPORTED, "needs room for decoded bytes, and there is none");
}

static sw_status cache_read(const swi_reader *self, uint32_t file, uint64_t offset, void *data,
                            size_t size, sw_error *err)
{
    swi_filecache *cache = self->ctx;
    if (file == SWI_FILE_SCRATCH) {
        swi_file *scratch = scratch_of(cache);
        return scratch != NULL ? swi_file_read(scratch, offset, data, size, err)
                               : fail_no_scratch(err);
    }
    uint32_t s;
    sw_status status = pin(cache, file, &s, err);
    if (status != SW_OK)
        return status;
    status = swi_file_read(cache->slots[s].file, offset, data, size, err);
    let_go(cache, s);
    return status;
}

static void cache_read_ahead(const swi_reader *self, uint32_t file, uint64_t offset, uint64_t size)
{
    swi_filecache *cache = self->ctx;
    uint32_t s;
    if (file == SWI_FILE_SCRATCH || pin(cache, file, &s, NULL) != SW_OK)
        return;
    swi_file_read_ahead(cache->slots[s].file, offset, size);
    let_go(cache, s);
}

/* Under the lock: a lent file, or one of its own. */
static sw_status need_scratch(swi_filecache *cache, sw_error *err)
{
    if (cache->scratch != NULL)
        return SW_OK;
    if (cache->temp_dir == NULL)
        return fail_no_scratch(err);
    if (cache->own == NULL) {
        sw_status status = swi_temp_open(cache->temp_dir, &cache->own, err);
        if (status != SW_OK) {
            swi_error_prefix(err, "room for decoded bytes (TMPDIR says where)");
            return status;
        }
    }
    cache->scratch = cache->own;
    return SW_OK;
}

static sw_status cache_scratch_take(const swi_reader *self, uint64_t size, uint64_t *offset,
                                    sw_error *err)
{
    swi_filecache *cache = self->ctx;
    uint64_t end;
    lock_cache(cache);
    sw_status status = need_scratch(cache, err);
    if (status != SW_OK) {
        /* said */
    } else if (!swi_add_u64(cache->scratch_end, size, &end) || end > INT64_MAX - SCRATCH_ALIGN) {
        status = swi_fail(err, SW_ERR_LIMIT, "no room for %" PRIu64 " decoded bytes", size);
    } else {
        *offset = cache->scratch_end;
        cache->scratch_end = (end + SCRATCH_ALIGN - 1) / SCRATCH_ALIGN * SCRATCH_ALIGN;
    }
    unlock_cache(cache);
    return status;
}

static sw_status cache_scratch_write(const swi_reader *self, uint64_t offset, const void *data,
                                     size_t size, sw_error *err)
{
    swi_file *scratch = scratch_of(self->ctx);
    return scratch != NULL ? swi_file_write(scratch, offset, data, size, err)
                           : fail_no_scratch(err);
}

/* ---- making and ending ----------------------------------------------------------------------- */

/* At most half of the descriptors that the process may have: outputs and others need some too. */
static uint32_t slots_wanted(uint32_t count, uint32_t open_files)
{
    struct rlimit files;
    uint32_t wanted = open_files;
    if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur / 2 < wanted)
        wanted = (uint32_t)(files.rlim_cur / 2);
    if (wanted > count)
        wanted = count;
    return wanted < OPEN_MIN ? OPEN_MIN : wanted;
}

sw_status swi_filecache_make(const swi_store *store, uint32_t count, swi_path_of_fn path_of,
                             const void *ctx, const sw_limits *limits, swi_filecache **out,
                             sw_error *err)
{
    void *p = NULL, *slots = NULL, *slot_of = NULL;
    sw_limits resolved = sw_limits_resolve(limits);
    uint32_t slot_count = slots_wanted(count, resolved.open_files);
    sw_status status = swi_alloc_array(1, sizeof(swi_filecache), &p, err);
    if (status == SW_OK)
        status = swi_alloc_array(slot_count, sizeof(slot), &slots, err);
    if (status == SW_OK)
        status = swi_alloc_array(count, sizeof(uint32_t), &slot_of, err);
    if (status == SW_OK)
        status = swi_monitor_make(&((swi_filecache *)p)->lock, &((swi_filecache *)p)->changed, err);
    if (status != SW_OK) {
        free(p);
        free(slots);
        free(slot_of);
        return status;
    }
    swi_filecache *cache = p;
    cache->reader = (swi_reader){
        .read = cache_read,
        .read_ahead = cache_read_ahead,
        .scratch_take = cache_scratch_take,
        .scratch_write = cache_scratch_write,
        .ctx = cache,
        .limits = resolved,
    };
    cache->store = store;
    cache->path_of = path_of;
    cache->path_ctx = ctx;
    cache->count = count;
    cache->slots = slots;
    cache->slot_of = slot_of;
    cache->slot_count = slot_count;
    cache->free_slot = cache->oldest = cache->newest = NO_SLOT;
    *out = cache;
    return SW_OK;
}

void swi_filecache_free(swi_filecache *cache)
{
    if (cache == NULL)
        return;
    for (uint32_t s = 0; s < cache->used_slots; s++)
        swi_file_close(cache->slots[s].file);
    swi_file_close(cache->own);
    free(cache->slots);
    free(cache->slot_of);
    swi_monitor_end(&cache->lock, &cache->changed);
    free(cache);
}

const swi_reader *swi_filecache_reader(swi_filecache *cache)
{
    return &cache->reader;
}

void swi_filecache_set_scratch(swi_filecache *cache, swi_file *scratch)
{
    lock_cache(cache);
    cache->scratch = scratch;
    cache->scratch_end = 0;
    unlock_cache(cache);
}

void swi_filecache_set_temp_dir(swi_filecache *cache, const char *dir)
{
    lock_cache(cache);
    cache->temp_dir = dir;
    unlock_cache(cache);
}
