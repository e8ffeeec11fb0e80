/*
 * Keys of DICT nodes. Equal as in Python: by value for numbers (1, 1.0 and True are one key), text
 * and tuples of them; by identity for the rest, and for what would be slow to look at again and
 * again: text of more than SWI_DICT_KEY_BYTES, tuples deeper than KEY_MAX_DEPTH or of more than
 * KEY_BUDGET parts in all (tuples of tuples counted; long text counts for more).
 */
#include "model/value_node.h"

#include <string.h>

#define KEY_BUDGET 80
#define KEY_MAX_DEPTH 8
#define FEW_PAIRS 4    /* the smallest capacity */
#define LINEAR_PAIRS 8 /* dicts of more pairs have a hash block */

/* ---- hashing ------------------------------------------------------------------------------- */

static uint64_t mix(uint64_t a, uint64_t b)
{
    __extension__ typedef unsigned __int128 wide;
    wide product = (wide)a * b;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

uint64_t swi_hash_bytes(const uint64_t key[2], const void *data, size_t size)
{
    const uint8_t *p = data;
    uint64_t h = key[0] ^ size;
    uint64_t word;
    for (; size >= sizeof word; p += sizeof word, size -= sizeof word) {
        memcpy(&word, p, sizeof word);
        h = mix(h ^ word, key[1] | 1);
    }
    word = 0;
    if (size > 0)
        memcpy(&word, p, size);
    h = mix(h ^ word, key[1] | 1);
    return mix(h ^ key[1], key[0] | 1);
}

/* BOOL, INT and FLOAT that are a whole number of 64 bits. */
static bool as_whole(const sw_value_graph *g, sw_value v, int64_t *out)
{
    double real;
    bool flag;
    if (sw_value_int(g, v, out))
        return true;
    if (sw_value_bool(g, v, &flag)) {
        *out = flag;
        return true;
    }
    if (!sw_value_float(g, v, &real) || !(real >= -9223372036854775808.0) ||
        !(real < 9223372036854775808.0) || real != (double)(int64_t)real)
        return false;
    *out = (int64_t)real;
    return true;
}

static uint64_t hash_identity(const sw_value_graph *g, sw_value v)
{
    return mix(v.bits ^ g->key[0], g->key[1] | 1);
}

static uint64_t hash_scalar(const sw_value_graph *g, sw_value v)
{
    int64_t whole;
    double real;
    const uint8_t *data;
    size_t size;
    if (as_whole(g, v, &whole))
        return swi_hash_bytes(g->key, &whole, sizeof whole);
    if (sw_value_float(g, v, &real) && real == real)
        return swi_hash_bytes(g->key, &real, sizeof real);
    if (sw_value_bytes(g, v, &data, &size) && size <= SWI_DICT_KEY_BYTES)
        return swi_hash_bytes(g->key, data, size);
    return hash_identity(g, v); /* NaN too: it is equal to nothing else */
}

/* What looking at a part of a key takes off the budget; false: the budget is spent. */
static bool spend(const sw_value_graph *g, sw_value v, size_t *budget)
{
    const uint8_t *data;
    size_t size = 0;
    (void)sw_value_bytes(g, v, &data, &size);
    if (size > SWI_DICT_KEY_BYTES)
        size = 0; /* compared by identity */
    if (1 + size / 64 > *budget)
        return false;
    *budget -= 1 + size / 64;
    return true;
}

typedef struct level {
    sw_value v;
    size_t next;
} level;

/* Goes to the next part of the innermost tuple that has one; false: all were seen. */
static bool next_part(const sw_value_graph *g, level *stack, size_t *depth, sw_value *part)
{
    while (*depth > 0) {
        level *top = &stack[*depth - 1];
        if (sw_value_item(g, top->v, top->next, part)) {
            top->next++;
            return true;
        }
        --*depth;
    }
    return false;
}

/*
 * Records are numbered by our own hooks, usually from 0 up, and a dict of a million of them is
 * filled in that order: neighbours stay neighbours, so that the hash block is walked, not jumped.
 */
static uint64_t hash_record(sw_value v)
{
    uint64_t payload = v.bits >> SWI_TAG_BITS;
    return payload + ((payload >> 24) * 0x9e3779b97f4a7c15U >> 32);
}

static uint64_t hash_key(const sw_value_graph *g, sw_value v)
{
    level stack[KEY_MAX_DEPTH];
    size_t depth = 0, budget = KEY_BUDGET;
    uint64_t h = g->key[0];
    sw_value part = v;
    if (swi_value_tag(v) == SWI_TAG_RECORD)
        return hash_record(v);
    if (swi_value_tag(v) != SWI_TAG_TUPLE)
        return hash_scalar(g, v);
    do {
        bool is_tuple = swi_value_tag(part) == SWI_TAG_TUPLE;
        if (!spend(g, part, &budget) || (is_tuple && depth == KEY_MAX_DEPTH))
            return hash_identity(g, v);
        h = mix(h ^ (is_tuple ? sw_value_size(g, part) : hash_scalar(g, part)), g->key[1] | 1);
        if (is_tuple)
            stack[depth++] = (level){.v = part};
    } while (next_part(g, stack, &depth, &part));
    return h;
}

/* ---- equality ------------------------------------------------------------------------------ */

static bool scalars_equal(const sw_value_graph *g, sw_value a, sw_value b)
{
    int64_t whole_a, whole_b;
    double real_a, real_b;
    const uint8_t *data_a, *data_b;
    size_t size_a, size_b;
    if (a.bits == b.bits)
        return true;
    unsigned tag = swi_value_tag(a);
    if (tag == swi_value_tag(b) && sw_value_bytes(g, a, &data_a, &size_a) &&
        sw_value_bytes(g, b, &data_b, &size_b))
        return size_a == size_b && size_a <= SWI_DICT_KEY_BYTES &&
               (size_a == 0 || memcmp(data_a, data_b, size_a) == 0);
    if (tag == SWI_TAG_STR || tag == SWI_TAG_RECORD)
        return false;
    if (as_whole(g, a, &whole_a))
        return as_whole(g, b, &whole_b) && whole_a == whole_b;
    return sw_value_float(g, a, &real_a) && sw_value_float(g, b, &real_b) && real_a == real_b;
}

static bool keys_equal(const sw_value_graph *g, sw_value a, sw_value b)
{
    level stack_a[KEY_MAX_DEPTH], stack_b[KEY_MAX_DEPTH];
    size_t depth_a = 0, depth_b = 0, budget = KEY_BUDGET;
    bool more;
    do {
        if (!spend(g, a, &budget))
            return false;
        bool tuples = a.bits != b.bits && swi_value_tag(a) == SWI_TAG_TUPLE &&
                      swi_value_tag(b) == SWI_TAG_TUPLE;
        if (tuples ? depth_a == KEY_MAX_DEPTH || sw_value_size(g, a) != sw_value_size(g, b)
                   : !scalars_equal(g, a, b))
            return false;
        if (tuples) {
            stack_a[depth_a++] = (level){.v = a};
            stack_b[depth_b++] = (level){.v = b};
        }
        /* of equal size on every level: both end together */
        more = next_part(g, stack_a, &depth_a, &a);
    } while (next_part(g, stack_b, &depth_b, &b) && more);
    return true;
}

/* Surely different keys: texts that differ in size or in their first bytes. */
static inline bool clearly_differ(const sw_value_graph *g, sw_value a, sw_value b)
{
    if (swi_value_tag(a) != SWI_TAG_STR || swi_value_tag(b) != SWI_TAG_STR)
        return false;
    const uint64_t *text_a = swi_node(g, a);
    const uint64_t *text_b = swi_node(g, b);
    return text_a[0] != text_b[0] || text_a[1] != text_b[1];
}

/* keys_equal, with the usual answers first. */
static inline bool same_key(const sw_value_graph *g, sw_value a, sw_value b)
{
    if (a.bits == b.bits)
        return true;
    unsigned tag = swi_value_tag(a);
    if (tag == SWI_TAG_RECORD)
        return false;
    return !clearly_differ(g, a, b) && keys_equal(g, a, b);
}

/* ---- the dict ------------------------------------------------------------------------------ */

size_t swi_dict_index_words(uint64_t capacity)
{
    return capacity > LINEAR_PAIRS ? (size_t)capacity : 0; /* two slots a word, half full at most */
}

sw_status swi_graph_dict(sw_value_graph *g, sw_value *out, sw_error *err)
{
    uint64_t index;
    sw_status status = swi_node_make(g, 4, 1, &index, err);
    if (status != SW_OK)
        return status;
    memset(swi_words(g, index), 0, 4 * sizeof(uint64_t));
    *out = swi_value_of(SWI_TAG_DICT, index);
    return SW_OK;
}

static uint32_t get_slot(const uint64_t *index, uint64_t slot)
{
    return (uint32_t)(index[slot >> 1] >> (slot & 1) * 32);
}

static void set_slot(uint64_t *index, uint64_t slot, uint32_t pair)
{
    unsigned shift = (unsigned)(slot & 1) * 32;
    index[slot >> 1] = (index[slot >> 1] & ~(SWI_COUNT_MASK << shift)) | (uint64_t)pair << shift;
}

/* The pair of the key, or -1 and the free slot where it belongs. */
static int64_t find_pair(const sw_value_graph *g, const uint64_t *node, sw_value key,
                         uint64_t *free_slot)
{
    size_t count = swi_head_count(node[0]);
    if (node[3] == 0) {
        const uint64_t *pairs = count > 0 ? swi_words(g, node[2]) : NULL;
        for (size_t i = 0; i < count; i++) {
            if (same_key(g, (sw_value){pairs[2 * i]}, key))
                return (int64_t)i;
        }
        return -1;
    }
    const uint64_t *pairs = swi_words(g, node[2]);
    const uint64_t *index = swi_words(g, node[3]);
    uint64_t mask = node[1] * 2 - 1;
    for (uint64_t slot = hash_key(g, key) & mask;; slot = (slot + 1) & mask) {
        uint32_t pair = get_slot(index, slot);
        if (pair == 0) {
            *free_slot = slot;
            return -1;
        }
        if (same_key(g, (sw_value){pairs[2 * (size_t)(pair - 1)]}, key))
            return pair - 1;
    }
}

static void fill_index(const sw_value_graph *g, const uint64_t *node)
{
    const uint64_t *pairs = swi_words(g, node[2]);
    uint64_t *index = swi_words(g, node[3]);
    size_t count = swi_head_count(node[0]);
    uint64_t mask = node[1] * 2 - 1;
    memset(index, 0, swi_dict_index_words(node[1]) * sizeof *index);
    for (size_t i = 0; i < count; i++) {
        uint64_t slot = hash_key(g, (sw_value){pairs[2 * i]}) & mask;
        while (get_slot(index, slot) != 0)
            slot = (slot + 1) & mask;
        set_slot(index, slot, (uint32_t)i + 1);
    }
}

/* Room for `need` pairs: capacities are powers of two. */
static sw_status reserve(sw_value_graph *g, sw_value dict, size_t need, sw_error *err)
{
    uint64_t *node = swi_node(g, dict);
    size_t old = (size_t)node[1];
    if (need <= old)
        return SW_OK;
    size_t capacity = old == 0 ? FEW_PAIRS : old;
    while (capacity < need)
        capacity *= 2;
    uint64_t index = node[3];
    uint64_t block = node[2];
    sw_status status = SW_OK;
    if (swi_dict_index_words(capacity) > 0)
        status = swi_node_alloc(g, swi_dict_index_words(capacity), &index, err);
    if (status != SW_OK)
        return status;
    status = swi_node_regrow(g, &block, old * 2, capacity * 2, err);
    node = swi_node(g, dict);
    if (status != SW_OK) {
        if (index != node[3])
            swi_node_release(g, index, swi_dict_index_words(capacity));
        return status;
    }
    if (index != node[3])
        swi_node_release(g, node[3], swi_dict_index_words(old));
    node[1] = capacity;
    node[2] = block;
    node[3] = index;
    if (index != 0)
        fill_index(g, node);
    return SW_OK;
}

/*
 * The state of an ordinary object: up to 4 clearly different texts into a new dict, in a block that
 * waits to be used again. false: none of that, nothing was done.
 */
static bool set_few(sw_value_graph *g, uint64_t *node, const sw_value *pairs, size_t pair_count)
{
    const size_t words = 2 * FEW_PAIRS;
    uint64_t block = g->free_small[words];
    if (node[1] != 0 || pair_count > FEW_PAIRS || block == 0 ||
        2 * (uint64_t)pair_count > g->node_limit - g->nodes)
        return false;
    for (size_t i = 1; i < pair_count; i++) {
        for (size_t k = 0; k < i; k++) {
            if (!clearly_differ(g, pairs[2 * i], pairs[2 * k]))
                return false;
        }
    }
    uint64_t *to = swi_words(g, block);
    g->free_small[words] = *to;
    g->nodes += 2 * (uint64_t)pair_count;
    for (size_t i = 0; i < 2 * pair_count; i++)
        to[i] = pairs[i].bits;
    node[0] += pair_count;
    node[1] = FEW_PAIRS;
    node[2] = block;
    return true;
}

sw_status swi_graph_set_items(sw_value_graph *g, sw_value dict, const sw_value *pairs,
                              size_t pair_count, sw_error *err)
{
    if (swi_value_tag(dict) != SWI_TAG_DICT)
        return swi_fail(err, SW_ERR_ARG, "values: items set in what is no dict");
    if (pair_count == 0 || set_few(g, swi_node(g, dict), pairs, pair_count))
        return SW_OK;
    size_t have = swi_head_count(swi_node(g, dict)[0]);
    if (pair_count >= (SWI_COUNT_MASK >> 1) - have)
        return swi_fail(err, SW_ERR_LIMIT, "values: a dict of more than 2^31 pairs");
    sw_status status = swi_graph_charge(g, 2 * (uint64_t)pair_count, err);
    if (status != SW_OK)
        return status;
    status = reserve(g, dict, have + pair_count, err);
    if (status != SW_OK) {
        g->nodes -= 2 * (uint64_t)pair_count;
        return status;
    }
    uint64_t *node = swi_node(g, dict);
    uint64_t *block = swi_words(g, node[2]);
    for (size_t i = 0; i < pair_count; i++) {
        uint64_t slot = 0;
        int64_t at = find_pair(g, node, pairs[2 * i], &slot);
        if (at >= 0) {
            block[2 * (size_t)at + 1] = pairs[2 * i + 1].bits;
            g->nodes -= 2;
            continue;
        }
        size_t last = swi_head_count(node[0]);
        block[2 * last] = pairs[2 * i].bits;
        block[2 * last + 1] = pairs[2 * i + 1].bits;
        node[0]++;
        if (node[3] != 0)
            set_slot(swi_words(g, node[3]), slot, (uint32_t)last + 1);
    }
    return SW_OK;
}

void swi_graph_dict_swap(sw_value_graph *g, sw_value a, sw_value b)
{
    if (swi_value_tag(a) != SWI_TAG_DICT || swi_value_tag(b) != SWI_TAG_DICT)
        return;
    uint64_t *p = swi_node(g, a), *q = swi_node(g, b);
    uint64_t counts = (p[0] ^ q[0]) & SWI_COUNT_MASK; /* the links are the nodes' own */
    p[0] ^= counts;
    q[0] ^= counts;
    for (size_t i = 1; i < 4; i++) {
        uint64_t word = p[i];
        p[i] = q[i];
        q[i] = word;
    }
}

bool swi_dict_find(const sw_value_graph *g, sw_value dict, sw_value key, sw_value *out)
{
    if (swi_value_tag(dict) != SWI_TAG_DICT)
        return false;
    const uint64_t *node = swi_node(g, dict);
    uint64_t slot;
    int64_t at = find_pair(g, node, key, &slot);
    if (at < 0)
        return false;
    *out = (sw_value){swi_words(g, node[2])[2 * (size_t)at + 1]};
    return true;
}

static bool text_equal(const sw_value_graph *g, sw_value v, const char *text, size_t size)
{
    if (swi_value_tag(v) != SWI_TAG_STR)
        return false;
    const uint64_t *node = swi_node(g, v);
    return node[0] == size && (size == 0 || memcmp(node + 1, text, size) == 0);
}

bool swi_value_get(const sw_value_graph *g, sw_value dict, const char *key, sw_value *out)
{
    if (swi_value_tag(dict) != SWI_TAG_DICT && !sw_value_as_dict(g, dict, &dict))
        return false;
    const uint64_t *node = swi_node(g, dict);
    size_t count = swi_head_count(node[0]);
    if (count == 0)
        return false;
    const uint64_t *pairs = swi_words(g, node[2]);
    size_t size = strlen(key);
    uint64_t mask = node[1] * 2 - 1;
    uint64_t slot = node[3] != 0 ? swi_hash_bytes(g->key, key, size) & mask : 0;
    for (size_t i = 0;; i++, slot++) {
        size_t at = i;
        if (node[3] != 0) {
            at = get_slot(swi_words(g, node[3]), slot & mask);
            if (at-- == 0)
                return false;
        } else if (i == count) {
            return false;
        }
        if (text_equal(g, (sw_value){pairs[2 * at]}, key, size)) {
            *out = (sw_value){pairs[2 * at + 1]};
            return true;
        }
    }
}

bool swi_value_text_is(const sw_value_graph *g, sw_value v, const char *text)
{
    return text_equal(g, v, text, strlen(text));
}
