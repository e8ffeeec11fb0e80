#include "state/state_digest.h"

#include <stdlib.h>
#include <string.h>

#include "codec/value_json.h"

/* The first byte of what is hashed: no tensor, list or section begins so (DIG-6, NAT-4). */
#define DOMAIN 5

/* A value with where it stands, as bytes in `text`. */
typedef struct record {
    const uint8_t *data; /* set when all are there, for sorting */
    size_t begin, size;
} record;

typedef struct gathering {
    const sw_catalog *catalog;
    const sw_value_graph *graph;
    swi_buf text; /* of all records */
    record *records;
    size_t count, capacity;
} gathering;

static const char *name_of(const void *ctx, uint32_t index)
{
    sw_tensor_info info;
    const gathering *g = ctx;
    return sw_catalog_tensor(g->catalog, index, &info) ? info.name : NULL;
}

static sw_status add_sized(swi_buf *out, const char *text, sw_error *err)
{
    size_t size = strlen(text);
    sw_status status = swi_buf_u64le(out, size, err);
    return status == SW_OK ? swi_buf_append(out, text, size, err) : status;
}

static sw_status end_record(gathering *g, size_t begin, sw_value v, sw_error *err)
{
    sw_status status = swi_value_json_write(g->graph, v, name_of, g, &g->text, err);
    if (status == SW_OK)
        status = swi_grow_array((void **)&g->records, &g->capacity, g->count + 1,
                                sizeof *g->records, err);
    if (status == SW_OK)
        g->records[g->count++] = (record){.begin = begin, .size = g->text.size - begin};
    return status;
}

/* Of all ranks: 0, how many steps its path has, each with its kind; the value. */
static sw_status add_leaf(void *ctx, const swi_state_leaf *leaf, sw_error *err)
{
    gathering *g = ctx;
    size_t begin = g->text.size;
    if (leaf->is_tensor)
        return SW_OK;
    sw_status status = swi_buf_u8(&g->text, 0, err);
    if (status == SW_OK)
        status = swi_buf_u64le(&g->text, leaf->parts, err);
    for (size_t i = 0; i < leaf->parts && status == SW_OK; i++) {
        status = swi_buf_u8(&g->text, leaf->is_index[i], err);
        if (status == SW_OK)
            status = add_sized(&g->text, leaf->path[i], err);
    }
    return status == SW_OK ? end_record(g, begin, leaf->value, err) : status;
}

/* Of one rank: 1, the rank, the name; the value. */
static sw_status add_scoped(gathering *g, const swi_state_scoped *scoped, sw_error *err)
{
    size_t begin = g->text.size;
    sw_status status = swi_buf_u8(&g->text, 1, err);
    if (status == SW_OK)
        status = swi_buf_u64le(&g->text, (uint64_t)scoped->rank, err);
    if (status == SW_OK)
        status = add_sized(&g->text, scoped->name, err);
    return status == SW_OK ? end_record(g, begin, scoped->value, err) : status;
}

static int by_bytes(const void *left, const void *right)
{
    const record *a = left, *b = right;
    int order = memcmp(a->data, b->data, a->size < b->size ? a->size : b->size);
    return order != 0 ? order : (a->size > b->size) - (a->size < b->size);
}

static sw_status hash(gathering *g, swi_digest *out, sw_error *err)
{
    swi_hasher *hasher = NULL;
    swi_buf head = {0};
    for (size_t i = 0; i < g->count; i++)
        g->records[i].data = g->text.data + g->records[i].begin;
    if (g->count > 1)
        qsort(g->records, g->count, sizeof *g->records, by_bytes);
    sw_status status = swi_buf_u8(&head, DOMAIN, err);
    if (status == SW_OK)
        status = swi_buf_u64le(&head, g->count, err);
    if (status == SW_OK)
        status = swi_hasher_make(&hasher, err);
    if (status == SW_OK)
        status = swi_hasher_begin(hasher, err);
    for (size_t i = 0; i < g->count && status == SW_OK; i++) {
        status = swi_buf_u64le(&head, g->records[i].size, err);
        if (status == SW_OK)
            status = swi_hasher_add(hasher, head.data, head.size, err);
        if (status == SW_OK)
            status = swi_hasher_add(hasher, g->records[i].data, g->records[i].size, err);
        head.size = 0;
    }
    if (status == SW_OK)
        status = swi_hasher_add(hasher, head.data, head.size, err);
    if (status == SW_OK)
        status = swi_hasher_end(hasher, out, err);
    swi_hasher_free(hasher);
    swi_buf_free(&head);
    return status;
}

sw_status swi_state_digest(const sw_checkpoint *checkpoint, const swi_state *state, swi_digest *out,
                           sw_error *err)
{
    gathering g = {.catalog = sw_checkpoint_catalog(checkpoint), .graph = state->graph};
    sw_status status = swi_state_walk(state, add_leaf, &g, err);
    for (size_t i = 0; i < state->scoped_count && status == SW_OK; i++)
        status = add_scoped(&g, &state->scoped[i], err);
    if (status == SW_OK)
        status = hash(&g, out, err);
    swi_buf_free(&g.text);
    free(g.records);
    return status;
}
