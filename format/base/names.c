#include "base/names.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/checked.h"
#include "base/cursor.h"
#include "base/error.h"
#include "base/text.h"

#define FIRST_SLOTS ((size_t)64)

typedef struct entry {
    const char *text;
    uint32_t size;
} entry;

/* A slot is 0 when empty, else the low half of the hash over id + 1: most misses end here. */
struct swi_names {
    bool hashed; /* else all came in ascending order, and the slots are empty */
    uint64_t key[2];
    swi_name_list list; /* borrowed: the first ids */
    swi_arena text;
    entry *entries; /* of the ids behind those */
    size_t entry_capacity;
    uint64_t *slots;
    size_t slot_count; /* a power of two */
    uint32_t count;
};

static uint32_t list_end(const swi_name_list *list, uint32_t i)
{
    return swi_load_u32le(list->ends + 4 * (size_t)i);
}

/* id < count */
static entry entry_of(const swi_names *names, uint32_t id)
{
    const swi_name_list *list = &names->list;
    if (id >= list->count)
        return names->entries[id - list->count];
    const uint32_t start = id > 0 ? list_end(list, id - 1) : 0;
    return (entry){.text = list->text + start, .size = list_end(list, id) - start - 1};
}

/* ---- SipHash-1-3 --------------------------------------------------------------------------- */

static inline uint64_t rotl(uint64_t v, unsigned bits)
{
    return v << bits | v >> (64 - bits);
}

static inline void sip_round(uint64_t v[4])
{
    v[0] += v[1];
    v[1] = rotl(v[1], 13) ^ v[0];
    v[0] = rotl(v[0], 32);
    v[2] += v[3];
    v[3] = rotl(v[3], 16) ^ v[2];
    v[0] += v[3];
    v[3] = rotl(v[3], 21) ^ v[0];
    v[2] += v[1];
    v[1] = rotl(v[1], 17) ^ v[2];
    v[2] = rotl(v[2], 32);
}

static uint64_t sip_hash(const uint64_t key[2], const uint8_t *p, size_t size)
{
    uint64_t v[4] = {key[0] ^ 0x736f6d6570736575U, key[1] ^ 0x646f72616e646f6dU,
                     key[0] ^ 0x6c7967656e657261U, key[1] ^ 0x7465646279746573U};
    uint64_t last = (uint64_t)size << 56;
    for (; size >= 8; size -= 8, p += 8) {
        uint64_t word = swi_load_u64le(p);
        v[3] ^= word;
        sip_round(v);
        v[0] ^= word;
    }
    for (size_t i = 0; i < size; i++)
        last |= (uint64_t)p[i] << (8 * i);
    v[3] ^= last;
    sip_round(v);
    v[0] ^= last;
    v[2] ^= 0xff;
    for (int i = 0; i < 3; i++)
        sip_round(v);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}

static sw_status random_key(uint64_t key[2], sw_error *err)
{
    uint8_t bytes[16];
    size_t have = 0;
    while (have < sizeof bytes) {
        ssize_t n = getrandom(bytes + have, sizeof bytes - have, 0);
        if (n < 0 && errno != EINTR)
            return swi_fail_errno(err, errno, "getrandom");
        if (n > 0)
            have += (size_t)n;
    }
    key[0] = swi_load_u64le(bytes);
    key[1] = swi_load_u64le(bytes + 8);
    return SW_OK;
}

/* ---- the table ----------------------------------------------------------------------------- */

static uint64_t slot_value(uint64_t hash, uint32_t id)
{
    return hash << 32 | (id + 1U);
}

static size_t slot_start(const swi_names *names, uint64_t slot)
{
    return (size_t)(slot >> 32) & (names->slot_count - 1);
}

sw_status swi_names_make(swi_names **out, sw_error *err)
{
    swi_names *names = NULL;
    void *p;
    sw_status status = swi_alloc_array(1, sizeof *names, &p, err);
    if (status != SW_OK)
        return status;
    names = p;
    status = random_key(names->key, err);
    if (status == SW_OK)
        status = swi_alloc_array(FIRST_SLOTS, sizeof *names->slots, &p, err);
    if (status != SW_OK) {
        swi_names_free(names);
        return status;
    }
    names->slots = p;
    names->slot_count = FIRST_SLOTS;
    *out = names;
    return SW_OK;
}

void swi_names_free(swi_names *names)
{
    if (names == NULL)
        return;
    swi_arena_free(&names->text);
    free(names->entries);
    free(names->slots);
    free(names);
}

/* The slot that holds the string, or the empty one where it would go. */
static size_t find_slot(const swi_names *names, uint64_t hash, const void *text, size_t size)
{
    uint64_t wanted = hash << 32;
    size_t i = slot_start(names, wanted);
    for (;; i = (i + 1) & (names->slot_count - 1)) {
        uint64_t slot = names->slots[i];
        if (slot == 0)
            return i;
        if ((slot ^ wanted) >> 32 != 0)
            continue;
        const entry e = entry_of(names, (uint32_t)slot - 1U);
        if (e.size == size && (size == 0 || memcmp(e.text, text, size) == 0))
            return i;
    }
}

static sw_status grow_slots(swi_names *names, sw_error *err)
{
    void *p;
    size_t old_count = names->slot_count, new_count;
    if (!swi_mul_size(old_count, 2, &new_count))
        return swi_fail_nomem(err);
    sw_status status = swi_alloc_array(new_count, sizeof *names->slots, &p, err);
    if (status != SW_OK)
        return status;
    uint64_t *old = names->slots;
    names->slots = p;
    names->slot_count = new_count;
    for (size_t k = 0; k < old_count; k++) {
        if (old[k] == 0)
            continue;
        size_t i = slot_start(names, old[k]);
        while (names->slots[i] != 0)
            i = (i + 1) & (new_count - 1);
        names->slots[i] = old[k];
    }
    free(old);
    return SW_OK;
}

/* ---- ascending order ----------------------------------------------------------------------- */

static bool is_behind(const swi_names *names, const void *text, size_t size)
{
    if (names->count == 0)
        return true;
    const entry last = entry_of(names, names->count - 1);
    return swi_bytes_order(last.text, last.size, text, size) < 0;
}

static int64_t bisect(const swi_names *names, const void *text, size_t size)
{
    uint32_t low = 0, high = names->count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        const entry e = entry_of(names, middle);
        int order = swi_bytes_order(e.text, e.size, text, size);
        if (order == 0)
            return middle;
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return -1;
}

/* From now on by hash. */
static sw_status hash_all(swi_names *names, sw_error *err)
{
    sw_status status = SW_OK;
    while (names->count > names->slot_count / 4 * 3 && status == SW_OK)
        status = grow_slots(names, err);
    for (uint32_t id = 0; id < names->count && status == SW_OK; id++) {
        const entry e = entry_of(names, id);
        uint64_t slot = slot_value(sip_hash(names->key, (const uint8_t *)e.text, e.size), id);
        size_t i = slot_start(names, slot);
        while (names->slots[i] != 0)
            i = (i + 1) & (names->slot_count - 1);
        names->slots[i] = slot;
    }
    names->hashed = status == SW_OK;
    return status;
}

/* ---- adding and finding -------------------------------------------------------------------- */

static sw_status append(swi_names *names, const void *text, size_t size, sw_error *err)
{
    const char *copy;
    const uint32_t own = names->count - names->list.count;
    if (size >= UINT32_MAX || names->count >= UINT32_MAX - 1)
        return swi_fail(err, SW_ERR_LIMIT,
                        "a table of names holds at most 2^32 - 2 names, each "
                        "shorter than 4 GiB");
    sw_status status = swi_grow_raw((void **)&names->entries, &names->entry_capacity,
                                    (size_t)own + 1, sizeof(entry), err);
    if (status == SW_OK)
        status = swi_arena_text(&names->text, text, size, &copy, err);
    if (status != SW_OK)
        return status;
    names->entries[own] = (entry){.text = copy, .size = (uint32_t)size};
    names->count++;
    return SW_OK;
}

/* Which is not there yet. */
static sw_status append_hashed(swi_names *names, const void *text, size_t size, uint64_t hash,
                               sw_error *err)
{
    sw_status status = SW_OK;
    if ((size_t)names->count + 1 > names->slot_count / 4 * 3)
        status = grow_slots(names, err);
    if (status == SW_OK)
        status = append(names, text, size, err);
    if (status == SW_OK)
        names->slots[find_slot(names, hash, text, size)] = slot_value(hash, names->count - 1);
    return status;
}

static void found(uint32_t at, bool is_now, uint32_t *id, bool *is_new)
{
    *id = at;
    if (is_new != NULL)
        *is_new = is_now;
}

sw_status swi_names_add(swi_names *names, const void *text, size_t size, uint32_t *id, bool *is_new,
                        sw_error *err)
{
    sw_status status = SW_OK;
    if (!names->hashed && is_behind(names, text, size)) {
        status = append(names, text, size, err);
        if (status == SW_OK)
            found(names->count - 1, true, id, is_new);
        return status;
    }
    if (!names->hashed)
        status = hash_all(names, err);
    if (status != SW_OK)
        return status;
    uint64_t hash = sip_hash(names->key, text, size);
    uint64_t slot = names->slots[find_slot(names, hash, text, size)];
    if (slot != 0) {
        found((uint32_t)slot - 1U, false, id, is_new);
        return SW_OK;
    }
    status = append_hashed(names, text, size, hash, err);
    if (status == SW_OK)
        found(names->count - 1, true, id, is_new);
    return status;
}

/* The list says all that entries would: a million of them take no memory. */
sw_status swi_names_borrow(swi_names *names, const swi_name_list *list, sw_error *err)
{
    if (names->count > 0 || names->hashed || list->count >= UINT32_MAX - 1)
        return swi_fail(err, SW_ERR_ARG, "a list of names into a set that is not empty");
    names->list = *list;
    names->count = list->count;
    return SW_OK;
}

/* ---- asking -------------------------------------------------------------------------------- */

int64_t swi_names_find(const swi_names *names, const void *text, size_t size)
{
    if (!names->hashed)
        return bisect(names, text, size);
    size_t i = find_slot(names, sip_hash(names->key, text, size), text, size);
    return names->slots[i] != 0 ? (int64_t)((uint32_t)names->slots[i] - 1U) : -1;
}

uint32_t swi_names_count(const swi_names *names)
{
    return names->count;
}

const char *swi_names_at(const swi_names *names, uint32_t id, size_t *size)
{
    if (id >= names->count)
        return NULL;
    const entry e = entry_of(names, id);
    if (size != NULL)
        *size = e.size;
    return e.text;
}

uint64_t swi_names_memory(const swi_names *names)
{
    return sizeof *names + names->text.total_bytes + names->entry_capacity * sizeof(entry) +
           names->slot_count * sizeof *names->slots;
}

void swi_names_trim(swi_names *names)
{
    const size_t own = names->count - names->list.count;
    if (own == 0 || own == names->entry_capacity)
        return;
    /* A failure to shrink leaves the larger block, which is as good. */
    void *p = realloc(names->entries, own * sizeof(entry));
    if (p == NULL)
        return;
    names->entries = p;
    names->entry_capacity = own;
}
