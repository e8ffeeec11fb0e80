#include "model/value_node.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/arena.h"

/* ---- memory: chunks, and free blocks by size ---------------------------------------------- */

sw_status swi_graph_make(const sw_limits *limits, sw_value_graph **out, sw_error *err)
{
    sw_value_graph *g = calloc(1, sizeof *g);
    if (g == NULL)
        return swi_fail_nomem(err);
    g->node_limit = sw_limits_resolve(limits).nodes;
    g->bytes = sizeof *g;
    /* Without random bytes the hashes are as good, but a crafted file could make them slow. */
    if (getrandom(g->key, sizeof g->key, GRND_NONBLOCK) != (ssize_t)sizeof g->key) {
        g->key[0] = (uint64_t)(uintptr_t)g;
        g->key[1] = (uint64_t)(uintptr_t)out;
    }
    uint64_t empty;
    sw_status status = swi_node_alloc(g, 1, &empty, err); /* index 0: never a node */
    if (status == SW_OK)
        *swi_words(g, empty) = 0;
    if (status == SW_OK)
        status = swi_graph_dict(g, &g->globals, err);
    if (status != SW_OK) {
        sw_value_graph_free(g);
        return status;
    }
    *out = g;
    return SW_OK;
}

void sw_value_graph_free(sw_value_graph *graph)
{
    if (graph == NULL)
        return;
    for (size_t i = 0; i < graph->chunk_count; i++)
        free(graph->chunks[i].words);
    free(graph->chunks);
    free(graph->refs);
    free(graph->wide);
    free(graph);
}

uint64_t swi_graph_memory(const sw_value_graph *g)
{
    return g->bytes + g->chunk_capacity * sizeof *g->chunks + g->ref_capacity * sizeof *g->refs +
           g->wide_capacity * sizeof *g->wide;
}

uint64_t swi_graph_unfold_limit(const sw_value_graph *g)
{
    uint64_t places = g->nodes > g->node_limit / 64 ? g->node_limit : 64 * g->nodes + 65536;
    return places < g->node_limit ? places : g->node_limit;
}

static sw_status add_chunk(sw_value_graph *g, size_t words, uint64_t *index, sw_error *err)
{
    void *chunks = g->chunks;
    sw_status status =
        swi_grow_array(&chunks, &g->chunk_capacity, g->chunk_count + 1, sizeof *g->chunks, err);
    g->chunks = chunks;
    if (status != SW_OK)
        return status;
    if (words > SIZE_MAX / sizeof(uint64_t))
        return swi_fail_nomem(err);
    uint64_t *data = malloc(words * sizeof *data);
    if (data == NULL)
        return swi_fail_nomem(err);
    g->chunks[g->chunk_count] = (swi_value_chunk){.words = data, .size = words};
    g->bytes += words * sizeof *data;
    *index = (uint64_t)g->chunk_count++ << SWI_CHUNK_BITS;
    return SW_OK;
}

/* Blocks of a class hold at least its words; a request looks in the class that surely fits. */
static uint64_t *free_list(sw_value_graph *g, size_t words, bool for_request)
{
    if (words <= SWI_SMALL_WORDS)
        return &g->free_small[words];
    size_t k = 0;
    while (k + 1 < SWI_LARGE_CLASSES && ((size_t)64 << k) < words)
        k++;
    if (!for_request && ((size_t)64 << k) > words) {
        if (k == 0)
            return &g->free_small[SWI_SMALL_WORDS];
        k--;
    }
    return &g->free_large[k];
}

sw_status swi_node_alloc(sw_value_graph *g, size_t words, uint64_t *index, sw_error *err)
{
    if (words >= SWI_NODE_OWN_WORDS)
        return add_chunk(g, words, index, err);
    uint64_t *list = words <= SWI_SMALL_WORDS ? &g->free_small[words] : free_list(g, words, true);
    if (*list != 0) {
        *index = *list;
        *list = *swi_words(g, *index);
        return SW_OK;
    }
    if (words > g->left) {
        /* Small graphs are many: they begin with small chunks. */
        size_t size = g->chunk_count == 0   ? SWI_NODE_OWN_WORDS / 2
                      : g->chunk_count == 1 ? SWI_CHUNK_WORDS / 8
                                            : SWI_CHUNK_WORDS;
        uint64_t fresh = 0;
        sw_status status = add_chunk(g, size < words ? SWI_CHUNK_WORDS : size, &fresh, err);
        if (status != SW_OK)
            return status;
        g->next = fresh;
        g->left = g->chunks[g->chunk_count - 1].size;
    }
    *index = g->next;
    g->next += words;
    g->left -= words;
    return SW_OK;
}

void swi_node_release(sw_value_graph *g, uint64_t index, size_t words)
{
    if (index == 0 || words == 0)
        return;
    if (words >= SWI_NODE_OWN_WORDS) {
        swi_value_chunk *chunk = &g->chunks[index >> SWI_CHUNK_BITS];
        g->bytes -= chunk->size * sizeof *chunk->words;
        free(chunk->words);
        *chunk = (swi_value_chunk){0};
        return;
    }
    uint64_t *list = words <= SWI_SMALL_WORDS ? &g->free_small[words] : free_list(g, words, false);
    *swi_words(g, index) = *list;
    *list = index;
}

sw_status swi_node_regrow(sw_value_graph *g, uint64_t *index, size_t old_words, size_t new_words,
                          sw_error *err)
{
    if (old_words >= SWI_NODE_OWN_WORDS) {
        swi_value_chunk *chunk = &g->chunks[*index >> SWI_CHUNK_BITS];
        if (new_words > SIZE_MAX / sizeof(uint64_t))
            return swi_fail_nomem(err);
        uint64_t *data = realloc(chunk->words, new_words * sizeof *data);
        if (data == NULL)
            return swi_fail_nomem(err);
        g->bytes += (new_words - chunk->size) * sizeof *data;
        *chunk = (swi_value_chunk){.words = data, .size = new_words};
        return SW_OK;
    }
    uint64_t fresh;
    sw_status status = swi_node_alloc(g, new_words, &fresh, err);
    if (status != SW_OK)
        return status;
    if (old_words > 0)
        memcpy(swi_words(g, fresh), swi_words(g, *index), old_words * sizeof(uint64_t));
    swi_node_release(g, *index, old_words);
    *index = fresh;
    return SW_OK;
}

sw_status swi_graph_charge(sw_value_graph *g, uint64_t count, sw_error *err)
{
    if (count > g->node_limit - g->nodes)
        return swi_fail(err, SW_ERR_LIMIT,
                        "values: more than %" PRIu64 " nodes and elements (limit nodes)",
                        g->node_limit);
    g->nodes += count;
    return SW_OK;
}

sw_status swi_node_make_slow(sw_value_graph *g, size_t words, uint64_t charge, uint64_t *index,
                             sw_error *err)
{
    sw_status status = swi_graph_charge(g, charge, err);
    if (status != SW_OK)
        return status;
    status = swi_node_alloc(g, words, index, err);
    if (status != SW_OK)
        g->nodes -= charge;
    return status;
}

/* ---- numbers and text --------------------------------------------------------------------- */

sw_value swi_value_none(void)
{
    return swi_value_of(SWI_TAG_NONE, 0);
}

sw_value swi_value_of_bool(bool v)
{
    return swi_value_of(SWI_TAG_BOOL, v ? 1 : 0);
}

/* A node of `words` words that holds no other values. Long ones count for more than one. */
static sw_status make_leaf(sw_value_graph *g, unsigned tag, size_t words, sw_value *out,
                           sw_error *err)
{
    uint64_t index;
    sw_status status = swi_node_make(g, words, 1 + words / 8, &index, err);
    if (status == SW_OK)
        *out = swi_value_of(tag, index);
    return status;
}

sw_status swi_graph_int(sw_value_graph *g, int64_t v, sw_value *out, sw_error *err)
{
    if (swi_int_fits(v)) {
        *out = swi_value_of(SWI_TAG_INT, (uint64_t)v);
        return SW_OK;
    }
    sw_status status = make_leaf(g, SWI_TAG_INT64, 1, out, err);
    if (status == SW_OK)
        swi_node(g, *out)[0] = (uint64_t)v;
    return status;
}

sw_status swi_graph_float(sw_value_graph *g, double v, sw_value *out, sw_error *err)
{
    sw_status status = make_leaf(g, SWI_TAG_FLOAT, 1, out, err);
    if (status == SW_OK)
        memcpy(swi_node(g, *out), &v, sizeof v);
    return status;
}

sw_status swi_graph_complex(sw_value_graph *g, double re, double im, sw_value *out, sw_error *err)
{
    sw_status status = make_leaf(g, SWI_TAG_COMPLEX, 2, out, err);
    if (status == SW_OK) {
        memcpy(swi_node(g, *out), &re, sizeof re);
        memcpy(swi_node(g, *out) + 1, &im, sizeof im);
    }
    return status;
}

static sw_status make_bytes(sw_value_graph *g, unsigned tag, const void *data, size_t size,
                            sw_value *out, sw_error *err)
{
    size_t words = 1 + size / sizeof(uint64_t) + 1;
    sw_status status = make_leaf(g, tag, words, out, err);
    if (status != SW_OK)
        return status;
    uint64_t *node = swi_node(g, *out);
    node[0] = size;
    node[words - 1] = 0;
    if (size > 0)
        memcpy(node + 1, data, size);
    return SW_OK;
}

sw_status swi_graph_text(sw_value_graph *g, sw_value_kind kind, const void *data, size_t size,
                         sw_value *out, sw_error *err)
{
    unsigned tag = kind == SW_VALUE_STR ? SWI_TAG_STR : SWI_TAG_BYTES;
    if (tag == SWI_TAG_BYTES || size > SWI_INTERN_MAX_BYTES)
        return make_bytes(g, tag, data, size, out, err);
    uint64_t *slot = &g->intern[swi_hash_bytes(g->key, data, size) % SWI_INTERN_SLOTS];
    if (*slot != 0) {
        const uint64_t *node = swi_words(g, *slot);
        if (node[0] == size && (size == 0 || memcmp(node + 1, data, size) == 0)) {
            *out = swi_value_of(SWI_TAG_STR, *slot);
            return SW_OK;
        }
    }
    sw_status status = make_bytes(g, tag, data, size, out, err);
    if (status == SW_OK)
        *slot = out->bits >> SWI_TAG_BITS;
    return status;
}

sw_status swi_graph_bytearray(sw_value_graph *g, const void *data, size_t size, sw_value *out,
                              sw_error *err)
{
    sw_status status = make_bytes(g, SWI_TAG_BYTES, data, size, out, err);
    if (status == SW_OK)
        swi_node(g, *out)[0] |= ~SWI_SIZE_MASK;
    return status;
}

sw_status swi_graph_bigint(sw_value_graph *g, const uint8_t *data, size_t size, sw_value *out,
                           sw_error *err)
{
    uint8_t fill = size > 0 && (data[size - 1] & 0x80) != 0 ? 0xff : 0;
    while (size > 1 && data[size - 1] == fill && ((data[size - 2] ^ fill) & 0x80) == 0)
        size--;
    if (size > sizeof(uint64_t))
        return make_bytes(g, SWI_TAG_BIGINT, data, size, out, err);
    uint64_t v = 0;
    for (size_t i = sizeof v; i-- > 0;)
        v = v << 8 | (i < size ? data[i] : fill);
    return swi_graph_int(g, (int64_t)v, out, err);
}

/* ---- containers --------------------------------------------------------------------------- */

static sw_status make_fixed(sw_value_graph *g, unsigned tag, const sw_value *items, size_t count,
                            sw_value *out, sw_error *err)
{
    if (count == 0 && tag == SWI_TAG_TUPLE) {
        *out = SWI_EMPTY_TUPLE;
        return SW_OK;
    }
    if (count >= SWI_COUNT_MASK)
        return swi_fail(err, SW_ERR_LIMIT, "values: a container of %zu elements", count);
    uint64_t index;
    sw_status status = swi_node_make(g, 1 + count, 1 + (uint64_t)count, &index, err);
    if (status != SW_OK)
        return status;
    uint64_t *node = swi_words(g, index);
    node[0] = count;
    if (count > 0)
        memcpy(node + 1, items, count * sizeof *items);
    *out = swi_value_of(tag, index);
    return SW_OK;
}

sw_status swi_graph_sequence(sw_value_graph *g, sw_value_kind kind, const sw_value *items,
                             size_t count, sw_value *out, sw_error *err)
{
    if (kind == SW_VALUE_TUPLE)
        return make_fixed(g, SWI_TAG_TUPLE, items, count, out, err);
    if (kind == SW_VALUE_FROZENSET)
        return make_fixed(g, SWI_TAG_FROZENSET, items, count, out, err);
    uint64_t index;
    sw_status status = swi_node_make(g, 3, 1, &index, err);
    if (status != SW_OK)
        return status;
    memset(swi_words(g, index), 0, 3 * sizeof(uint64_t));
    sw_value made = swi_value_of(kind == SW_VALUE_LIST ? SWI_TAG_LIST : SWI_TAG_SET, index);
    status = swi_graph_append(g, made, items, count, err);
    if (status == SW_OK)
        *out = made;
    else
        swi_graph_drop(g, made);
    return status;
}

sw_status swi_graph_append(sw_value_graph *g, sw_value list, const sw_value *items, size_t count,
                           sw_error *err)
{
    if (swi_value_tag(list) != SWI_TAG_LIST && swi_value_tag(list) != SWI_TAG_SET)
        return swi_fail(err, SW_ERR_ARG, "values: append to what is no list");
    if (count == 0)
        return SW_OK;
    uint64_t *node = swi_node(g, list);
    size_t have = swi_head_count(node[0]);
    size_t need = have + count;
    if (count >= SWI_COUNT_MASK - have)
        return swi_fail(err, SW_ERR_LIMIT, "values: a list of more than 2^32 elements");
    sw_status status = swi_graph_charge(g, count, err);
    if (status != SW_OK)
        return status;
    if (need > node[1]) {
        size_t capacity = have == 0 ? count : need + need / 2;
        uint64_t block = node[2];
        status = swi_node_regrow(g, &block, (size_t)node[1], capacity, err);
        if (status != SW_OK) {
            g->nodes -= count;
            return status;
        }
        node = swi_node(g, list);
        node[1] = capacity;
        node[2] = block;
    }
    memcpy(swi_words(g, node[2]) + have, items, count * sizeof *items);
    node[0] += count;
    return SW_OK;
}

sw_status swi_graph_list_set(sw_value_graph *g, sw_value list, size_t i, sw_value v, sw_error *err)
{
    if (swi_value_tag(list) != SWI_TAG_LIST || i >= sw_value_size(g, list))
        return swi_fail(err, SW_ERR_ARG, "values: no element %zu of a list", i);
    swi_words(g, swi_node(g, list)[2])[i] = v.bits;
    return SW_OK;
}

sw_status swi_graph_global(sw_value_graph *g, const char *module, const char *name, sw_value *out,
                           sw_error *err)
{
    char both[SWI_GLOBAL_MAX_BYTES + 2];
    size_t module_size = strlen(module);
    size_t name_size = strlen(name);
    if (module_size > SWI_GLOBAL_MAX_BYTES || name_size > SWI_GLOBAL_MAX_BYTES - module_size)
        return swi_fail(err, SW_ERR_LIMIT, "values: the name of a global has more than %d bytes",
                        SWI_GLOBAL_MAX_BYTES);
    memcpy(both, module, module_size + 1);
    memcpy(both + module_size + 1, name, name_size);
    sw_value pair[2];
    sw_status status =
        swi_graph_text(g, SW_VALUE_STR, both, module_size + 1 + name_size, &pair[0], err);
    if (status != SW_OK || swi_dict_find(g, g->globals, pair[0], out))
        return status;
    sw_value parts[2];
    status = swi_graph_text(g, SW_VALUE_STR, module, module_size, &parts[0], err);
    if (status == SW_OK)
        status = swi_graph_text(g, SW_VALUE_STR, name, name_size, &parts[1], err);
    if (status == SW_OK)
        status = make_leaf(g, SWI_TAG_GLOBAL, 3, &pair[1], err);
    if (status != SW_OK)
        return status;
    uint64_t *node = swi_node(g, pair[1]);
    node[0] = 0;
    node[1] = parts[0].bits >> SWI_TAG_BITS;
    node[2] = parts[1].bits >> SWI_TAG_BITS;
    status = swi_graph_set_items(g, g->globals, pair, 1, err);
    if (status == SW_OK)
        *out = pair[1];
    return status;
}

static void store_object(uint64_t *node, const sw_value_object *object)
{
    node[0] = (node[0] & ~SWI_COUNT_MASK) | (object->is_new ? SWI_OBJECT_NEW : 0) |
              (object->has_state ? SWI_OBJECT_STATE : 0) |
              (object->has_items ? SWI_OBJECT_ITEMS : 0);
    node[1] = object->callable.bits;
    node[2] = object->args.bits;
    node[3] = object->has_state ? object->state.bits : 0;
    node[4] = object->has_items ? object->items.bits : 0;
}

sw_status swi_graph_object(sw_value_graph *g, const sw_value_object *object, sw_value *out,
                           sw_error *err)
{
    sw_value made;
    sw_status status = make_leaf(g, SWI_TAG_OBJECT, 5, &made, err);
    if (status != SW_OK)
        return status;
    swi_node(g, made)[0] = 0;
    store_object(swi_node(g, made), object);
    *out = made;
    return SW_OK;
}

sw_status swi_graph_object_update(sw_value_graph *g, sw_value v, const sw_value_object *object,
                                  sw_error *err)
{
    if (swi_value_tag(v) != SWI_TAG_OBJECT)
        return swi_fail(err, SW_ERR_ARG, "values: an update of what is no object");
    store_object(swi_node(g, v), object);
    return SW_OK;
}

sw_status swi_graph_persistent(sw_value_graph *g, sw_value id, sw_value *out, sw_error *err)
{
    sw_status status = make_leaf(g, SWI_TAG_PERSISTENT, 1, out, err);
    if (status == SW_OK)
        swi_node(g, *out)[0] = id.bits;
    return status;
}

sw_value swi_value_of_record(uint64_t payload)
{
    return swi_value_of(SWI_TAG_RECORD, payload);
}

sw_value swi_value_of_tensor(uint32_t index)
{
    return swi_value_of(SWI_TAG_TENSOR, index);
}

/* ---- numbered references, and giving nodes back -------------------------------------------- */

void swi_graph_forget(sw_value_graph *g)
{
    free(g->refs);
    free(g->wide);
    g->refs = NULL;
    g->wide = NULL;
    g->ref_count = g->ref_capacity = 0;
    g->wide_count = g->wide_capacity = 0;
    g->refs_set = 0;
}

static sw_status grow_refs(sw_value_graph *g, size_t number, sw_error *err)
{
    if (number >= SWI_REFS_MAX)
        return swi_fail(err, SW_ERR_LIMIT, "values: more than 2^31 numbered references");
    if (number >= g->ref_capacity) {
        /* No zeroing: pages that are not used yet take no memory. */
        size_t capacity = number + number / 2 + 64;
        if (capacity > SWI_REFS_MAX)
            capacity = SWI_REFS_MAX;
        uint32_t *refs = realloc(g->refs, capacity * sizeof *refs);
        if (refs == NULL)
            return swi_fail_nomem(err);
        g->refs = refs;
        g->ref_capacity = capacity;
    }
    while (g->ref_count <= number)
        g->refs[g->ref_count++] = SWI_TAG_UNSET;
    return SW_OK;
}

sw_status swi_ref_set(sw_value_graph *g, size_t number, sw_value v, sw_error *err)
{
    uint32_t *ref = &g->refs[number];
    if (swi_ref_fits(v)) {
        *ref = (uint32_t)v.bits;
        return SW_OK;
    }
    if ((*ref & SWI_TAG_MASK) == SWI_TAG_WIDE) {
        g->wide[*ref >> SWI_TAG_BITS] = v;
        return SW_OK;
    }
    if (g->wide_count > UINT32_MAX >> SWI_TAG_BITS)
        return swi_fail(err, SW_ERR_LIMIT, "values: more than 2^27 large numbered references");
    void *wide = g->wide;
    sw_status status =
        swi_grow_raw(&wide, &g->wide_capacity, g->wide_count + 1, sizeof *g->wide, err);
    g->wide = wide;
    if (status != SW_OK)
        return status;
    *ref = (uint32_t)g->wide_count << SWI_TAG_BITS | SWI_TAG_WIDE;
    g->wide[g->wide_count++] = v;
    return SW_OK;
}

sw_status swi_graph_put(sw_value_graph *g, uint64_t number, sw_value v, sw_error *err)
{
    if (number >= g->ref_count) {
        sw_status status = grow_refs(g, number > SIZE_MAX ? SIZE_MAX : (size_t)number, err);
        if (status != SW_OK)
            return status;
    }
    bool fresh = swi_value_tag(swi_ref_at(g, number)) == SWI_TAG_UNSET;
    sw_status status = swi_ref_set(g, number, v, err);
    if (status != SW_OK)
        return status;
    g->refs_set += fresh;
    if (swi_value_has_head(v)) {
        uint64_t *head = swi_node(g, v);
        *head |= *head >> 32 != 0 ? SWI_LINK_SHARED : (number + 1) << 32;
    }
    return SW_OK;
}

sw_status swi_graph_replace(sw_value_graph *g, sw_value old, sw_value fresh, sw_error *err)
{
    if (!swi_value_has_head(old))
        return SW_OK;
    uint64_t number = (*swi_node(g, old) & SWI_LINK_NUMBER) >> 32;
    if (number == 0 || number > g->ref_count || swi_ref_at(g, number - 1).bits != old.bits)
        return SW_OK;
    if (!swi_ref_fits(fresh) || !swi_ref_fits(old))
        return swi_ref_set(g, number - 1, fresh, err);
    g->refs[number - 1] = (uint32_t)fresh.bits;
    return SW_OK;
}

/* What a node and what hangs on it alone count for, and their blocks go back. */
static uint64_t release_parts(sw_value_graph *g, sw_value v, const uint64_t *node)
{
    size_t count = swi_head_count(node[0]);
    uint64_t index = v.bits >> SWI_TAG_BITS;
    switch (swi_value_tag(v)) {
    case SWI_TAG_TUPLE:
    case SWI_TAG_FROZENSET:
        swi_node_release(g, index, 1 + count);
        return 1 + count;
    case SWI_TAG_LIST:
    case SWI_TAG_SET:
        swi_node_release(g, node[2], (size_t)node[1]);
        swi_node_release(g, index, 3);
        return 1 + count;
    case SWI_TAG_DICT:
        swi_node_release(g, node[2], (size_t)node[1] * 2);
        swi_node_release(g, node[3], swi_dict_index_words(node[1]));
        swi_node_release(g, index, 4);
        return 1 + 2 * (uint64_t)count;
    default:
        swi_node_release(g, index, 5);
        return 1;
    }
}

void swi_graph_drop(sw_value_graph *g, sw_value v)
{
    if (!swi_value_has_head(v))
        return;
    const uint64_t *node = swi_node(g, v);
    uint64_t head = node[0];
    if ((head & SWI_LINK_SHARED) != 0)
        return;
    if ((head & SWI_LINK_NUMBER) != 0)
        (void)!swi_graph_replace(g, v, (sw_value){SWI_TAG_DROPPED}, NULL); /* which always fits */
    g->nodes -= release_parts(g, v, node);
}
