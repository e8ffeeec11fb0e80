/*
 * A small sample checkpoint: what a training run of a toy model on 4 ranks (FSDP, AdamW) leaves
 * with torch.distributed.checkpoint. Every element holds its own flat index (plus a number of the
 * tensor's), so that any re-ordering shows.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "container/dcp_store.h"
#include "container/torch_file.h"
#include "framework.h"
#include "io/txn.h"
#include "source/identity.h"

#define RANKS 4
#define ITEMS_MAX 128

typedef struct parameter {
    const char *name;
    uint32_t axes;
    int64_t shape[2];
} parameter;

/* Sizes that divide evenly by nothing, on purpose. */
static const parameter parameters[] = {
    {"embedding.weight", 2, {250, 48}},     {"layers.0.norm.weight", 1, {48, 0}},
    {"layers.0.up.weight", 2, {100, 48}},   {"layers.0.down.weight", 2, {48, 100}},
    {"layers.1.norm.weight", 1, {48, 0}},   {"layers.1.up.weight", 2, {100, 48}},
    {"layers.1.down.weight", 2, {48, 100}}, {"norm.weight", 1, {3, 0}},
};
#define PARAMETERS (sizeof parameters / sizeof parameters[0])

typedef struct item {
    char name[96];
    char path_text[3][96];
    const char *path[3];
    size_t path_count;
    bool is_object;
    uint32_t axes;
    int64_t shape[2];
    int64_t offset[RANKS][2], length[RANKS][2];
    swi_dcp_write_chunk chunks[RANKS];
    size_t chunk_count;
} item;

typedef struct demo {
    item *items;
    size_t count;
    swi_buf files[RANKS];
    char names[RANKS][24];
} demo;

static item *new_item(demo *d, const char *a, const char *b, const char *c)
{
    item *it = &d->items[d->count++];
    const char *parts[3] = {a, b, c};
    size_t used = 0;
    for (size_t i = 0; i < 3 && parts[i] != NULL; i++) {
        const char *key = parts[i][0] == '#' ? parts[i] + 1 : parts[i];
        int n = snprintf(it->name + used, sizeof it->name - used, "%s%s", i ? "." : "", key);
        used += n > 0 ? (size_t)n : 0;
        snprintf(it->path_text[i], sizeof it->path_text[i], "%s", parts[i]);
        it->path[i] = it->path_text[i];
        it->path_count++;
    }
    return it;
}

/* Rows of rank r by the rule of torch.chunk. */
static void rows_of(int64_t rows, int rank, int64_t *first, int64_t *count)
{
    int64_t chunk = (rows + RANKS - 1) / RANKS;
    *first = chunk * rank < rows ? chunk * rank : rows;
    *count = rows - *first < chunk ? rows - *first : chunk;
}

static sw_status write_rows(demo *d, item *it, int rank, uint32_t number, sw_error *err)
{
    int64_t first, count, width = it->axes > 1 ? it->shape[1] : 1;
    float *data = NULL;
    rows_of(it->shape[0], rank, &first, &count);
    sw_status st = swi_alloc_array((size_t)(count * width), sizeof *data, (void **)&data, err);
    if (st != SW_OK)
        return st;
    for (int64_t i = 0; i < count * width; i++)
        data[i] = (float)(first * width + i) + (float)number / 64.0F;
    size_t k = it->chunk_count++;
    swi_buf *file = &d->files[rank];
    it->offset[k][0] = first;
    it->length[k][0] = count;
    it->length[k][1] = width;
    uint64_t start = file->size;
    st = swi_torch_write_tensor(file, SW_F32, it->axes, it->length[k], data, err);
    it->chunks[k] = (swi_dcp_write_chunk){.offset = it->offset[k],
                                          .length = it->length[k],
                                          .path = d->names[rank],
                                          .offset_bytes = start,
                                          .stored_bytes = file->size - start};
    free(data);
    return st;
}

static sw_status add_rows(demo *d, const parameter *p, const char *a, const char *b, const char *c,
                          uint32_t number, sw_error *err)
{
    item *it = new_item(d, a, b, c);
    it->axes = p->axes;
    memcpy(it->shape, p->shape, sizeof it->shape);
    sw_status st = SW_OK;
    for (int rank = 0; st == SW_OK && rank < RANKS; rank++) {
        int64_t first, count;
        rows_of(p->shape[0], rank, &first, &count);
        if (count > 0)
            st = write_rows(d, it, rank, number, err);
    }
    return st;
}

/* The step counter: a scalar, the same on all ranks, written once. */
static sw_status add_step(demo *d, const char *key, int rank, sw_error *err)
{
    static const float step = 100.0F;
    item *it = new_item(d, "optimizer", key, NULL);
    uint64_t start = d->files[rank].size;
    sw_status st = swi_torch_write_tensor(&d->files[rank], SW_F32, 0, NULL, &step, err);
    it->chunks[it->chunk_count++] =
        (swi_dcp_write_chunk){.offset = it->offset[0],
                              .length = it->length[0],
                              .path = d->names[rank],
                              .offset_bytes = start,
                              .stored_bytes = d->files[rank].size - start};
    return st;
}

typedef struct constant {
    bool is_int;
    int64_t integer;
    double number;
} constant;

static sw_status emit_constant(void *ctx, swi_pickle_writer *w, sw_error *err)
{
    const constant *c = ctx;
    return c->is_int ? swi_pickle_int(w, c->integer, err) : swi_pickle_float(w, c->number, err);
}

static sw_status add_value(demo *d, const char *a, const char *b, constant value, sw_error *err)
{
    item *it = new_item(d, a, b, NULL);
    it->is_object = true;
    uint64_t start = d->files[0].size;
    sw_status st = swi_torch_write_value(&d->files[0], emit_constant, &value, err);
    it->chunks[it->chunk_count++] = (swi_dcp_write_chunk){
        .path = d->names[0], .offset_bytes = start, .stored_bytes = d->files[0].size - start};
    return st;
}

static sw_status fill(demo *d, sw_error *err)
{
    constant epoch = {.is_int = true, .integer = 3}, rate = {.number = 3e-4};
    char key[96];
    sw_status st = add_value(d, "trainer", "epoch", epoch, err);
    if (st == SW_OK)
        st = add_value(d, "trainer", "learning_rate", rate, err);
    for (uint32_t i = 0; st == SW_OK && i < PARAMETERS; i++) {
        const parameter *p = &parameters[i];
        st = add_rows(d, p, "model", p->name, NULL, i, err);
        snprintf(key, sizeof key, "state.%s.exp_avg", p->name);
        if (st == SW_OK)
            st = add_rows(d, p, "optimizer", key, NULL, i + 16, err);
        snprintf(key, sizeof key, "state.%s.exp_avg_sq", p->name);
        if (st == SW_OK)
            st = add_rows(d, p, "optimizer", key, NULL, i + 32, err);
        snprintf(key, sizeof key, "state.%s.step", p->name);
        if (st == SW_OK)
            st = add_step(d, key, (int)(i % RANKS), err);
    }
    return st;
}

static sw_status write_index(demo *d, swi_txn *txn, sw_error *err)
{
    swi_dcp_write_item *items = NULL;
    swi_buf index = {0};
    sw_status st = swi_alloc_array(d->count, sizeof *items, (void **)&items, err);
    if (st != SW_OK)
        return st;
    for (size_t i = 0; i < d->count; i++) {
        const item *it = &d->items[i];
        items[i] = (swi_dcp_write_item){.name = it->name,
                                        .path_parts = it->path,
                                        .path_count = it->path_count,
                                        .is_object = it->is_object,
                                        .dtype = SW_F32,
                                        .axes = it->axes,
                                        .shape = it->shape,
                                        .chunks = it->chunks,
                                        .chunk_count = it->chunk_count};
    }
    st = swi_dcp_meta_write(&index, items, d->count, err);
    if (st == SW_OK)
        st = swi_txn_put(txn, ".metadata", index.data, index.size, err);
    swi_buf_free(&index);
    free(items);
    return st;
}

static sw_status publish(demo *d, const char *dest, sw_error *err)
{
    swi_identity identity;
    char id[SWI_IDENTITY_TEXT];
    swi_txn *txn = NULL;
    swi_identity_begin(&identity);
    swi_identity_text(&identity, "demo");
    swi_identity_text(&identity, sw_version());
    swi_identity_end(&identity, id);
    swi_txn_options options = {.id = id};
    sw_status st = swi_txn_begin(dest, &options, &txn, err);
    for (int rank = 0; st == SW_OK && rank < RANKS; rank++)
        st = swi_txn_put(txn, d->names[rank], d->files[rank].data, d->files[rank].size, err);
    if (st == SW_OK)
        st = write_index(d, txn, err);
    if (st == SW_OK)
        st = swi_txn_commit(txn, err);
    swi_txn_end(txn, false);
    return st;
}

sw_status sw_demo(const char *dest, sw_error *err)
{
    demo d = {0};
    if (dest == NULL)
        return swi_fail(err, SW_ERR_ARG, "sw_demo: a destination is needed");
    sw_status st = swi_alloc_array(ITEMS_MAX, sizeof *d.items, (void **)&d.items, err);
    for (int rank = 0; rank < RANKS; rank++)
        snprintf(d.names[rank], sizeof d.names[rank], "__%d_0.distcp", rank);
    if (st == SW_OK)
        st = fill(&d, err);
    if (st == SW_OK)
        st = publish(&d, dest, err);
    for (int rank = 0; rank < RANKS; rank++)
        swi_buf_free(&d.files[rank]);
    free(d.items);
    return st;
}
