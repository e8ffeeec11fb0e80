/*
 * Hugging Face safetensors as a target: shards by size, an index when there is more than one, and
 * the files of the assets folder beside them.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/checked.h"
#include "base/report.h"
#include "base/text.h"
#include "container/hf_index.h"
#include "container/safetensors.h"
#include "hf/hf.h"
#include "target/model_config.h"
#include "target/st_file.h"
#include "target/target.h"

#define DEFAULT_SHARD_BYTES UINT64_C(5000000000)

typedef struct tensor {
    uint32_t chosen;
    uint32_t shard;
    sw_tensor_info info; /* of the source */
    uint64_t bytes;      /* in the destination */
} tensor;

typedef struct laying {
    const swi_target_in *in;
    swi_layout *layout;
    tensor *tensors;
    uint32_t shard_count;
    char (*files)[64]; /* names of the shards */
} laying;

static sw_status parse_options(const char *options, uint64_t *shard_bytes, sw_error *err)
{
    *shard_bytes = DEFAULT_SHARD_BYTES;
    while (*options != '\0') {
        const char *end = strchr(options, ',');
        size_t n = end ? (size_t)(end - options) : strlen(options);
        if (n <= 6 || strncmp(options, "shard=", 6) != 0 ||
            !swi_parse_size(options + 6, n - 6, shard_bytes)) {
            swi_quoted q;
            return swi_fail(err, SW_ERR_ARG,
                            "--to hf:%s: not an option; there is shard=SIZE with SIZE like 5GB, "
                            "500MB",
                            swi_quote(&q, options, n));
        }
        options += n + (end != NULL);
    }
    return SW_OK;
}

/* Tensors in order fill shards up to the size; one that is larger has a shard of its own. */
static sw_status split(laying *l, uint64_t shard_bytes, sw_error *err)
{
    const sw_catalog *catalog = sw_checkpoint_catalog(l->in->source);
    uint64_t used = 0;
    uint32_t shard = 0;
    for (size_t i = 0; i < l->in->count; i++) {
        tensor *t = &l->tensors[i];
        t->chosen = (uint32_t)i;
        sw_catalog_tensor(catalog, l->in->chosen[i].source, &t->info);
        if (!swi_mul_u64(t->info.elements, sw_dtype_bytes(l->in->chosen[i].dtype), &t->bytes))
            return swi_fail(err, SW_ERR_LIMIT, "a tensor is too large");
        if (used > 0 && (t->bytes > shard_bytes || used > shard_bytes - t->bytes)) {
            shard++;
            used = 0;
        }
        t->shard = shard;
        used += t->bytes;
    }
    l->shard_count = shard + 1;
    return SW_OK;
}

static sw_status name_shards(laying *l, sw_error *err)
{
    sw_status st = swi_alloc_array(l->shard_count, sizeof *l->files, (void **)&l->files, err);
    for (uint32_t i = 0; st == SW_OK && i < l->shard_count; i++) {
        if (l->shard_count == 1)
            snprintf(l->files[i], sizeof l->files[i], "model.safetensors");
        else
            snprintf(l->files[i], sizeof l->files[i], "model-%05u-of-%05u.safetensors", i + 1,
                     l->shard_count);
    }
    return st;
}

static const swi_chosen *chosen_of(const laying *l, const tensor *t)
{
    return &l->in->chosen[t->chosen];
}

static sw_status add_tensors(laying *l, uint32_t file, const tensor *first,
                             const swi_st_tensor *heads, size_t count, sw_error *err)
{
    for (size_t i = 0; i < count; i++) {
        const swi_chosen *c = chosen_of(l, &first[i]);
        const sw_tensor_info *info = &first[i].info;
        swi_tensor_in in = {.name = c->name,
                            .name_size = strlen(c->name),
                            .dtype = c->dtype,
                            .axes = info->axes,
                            .shape = info->shape,
                            .role = SW_ROLE_PARAMETER};
        uint32_t id;
        sw_status st = swi_target_tensor(l->layout, &in, c, &id, err);
        if (st != SW_OK)
            return st;
        if (info->elements == 0)
            continue;
        swi_piece piece = {.axes = info->axes};
        memcpy(piece.view, info->shape, sizeof piece.view);
        memcpy(piece.length, info->shape, sizeof piece.length);
        swi_piece_make_dense(&piece, sw_dtype_bytes(c->dtype));
        st = swi_layout_piece(l->layout, id, file, heads[i].offset_bytes, heads[i].bytes, &piece,
                              err);
        if (st != SW_OK)
            return st;
    }
    return SW_OK;
}

static sw_status lay_shard(laying *l, uint32_t shard, const tensor *first, size_t count,
                           sw_error *err)
{
    static const char *const metadata[] = {"format", "pt"};
    swi_st_tensor *heads = NULL;
    uint32_t file = 0;
    sw_status st = swi_alloc_array(count, sizeof *heads, (void **)&heads, err);
    for (size_t i = 0; st == SW_OK && i < count; i++) {
        const swi_chosen *c = chosen_of(l, &first[i]);
        heads[i] = (swi_st_tensor){.name = c->name,
                                   .name_size = strlen(c->name),
                                   .dtype = c->dtype,
                                   .axes = first[i].info.axes};
        memcpy(heads[i].shape, first[i].info.shape, sizeof heads[i].shape);
    }
    const swi_st_file in = {.path = l->files[shard],
                            .tensors = heads,
                            .count = count,
                            .metadata = metadata,
                            .pairs = 1};
    if (st == SW_OK)
        st = swi_st_file_lay(l->layout, &in, &file, err);
    if (st == SW_OK)
        st = add_tensors(l, file, first, heads, count, err);
    free(heads);
    return st;
}

static sw_status lay_index(laying *l, sw_error *err)
{
    swi_hf_index_entry *entries = NULL;
    swi_buf text = {0};
    uint64_t bytes = 0, elements = 0;
    sw_status st = swi_alloc_array(l->in->count, sizeof *entries, (void **)&entries, err);
    if (st != SW_OK)
        return st;
    for (size_t i = 0; i < l->in->count; i++) {
        entries[i].name = l->in->chosen[i].name;
        entries[i].file = l->files[l->tensors[i].shard];
        bytes += l->tensors[i].bytes;
        elements += l->tensors[i].info.elements;
    }
    st = swi_hf_index_write(&text, entries, l->in->count, bytes, elements, err);
    if (st == SW_OK)
        st = swi_lay_bytes(l->layout, "model.safetensors.index.json", text.data, text.size, err);
    swi_buf_free(&text);
    free(entries);
    return st;
}

static sw_status lay_shards(laying *l, sw_error *err)
{
    sw_status st = SW_OK;
    for (size_t i = 0; st == SW_OK && i < l->in->count;) {
        size_t end = i;
        while (end < l->in->count && l->tensors[end].shard == l->tensors[i].shard)
            end++;
        st = lay_shard(l, l->tensors[i].shard, &l->tensors[i], end - i, err);
        i = end;
    }
    return st;
}

sw_status swi_hf_layout(const swi_target_in *in, swi_layout *layout, sw_error *err)
{
    laying l = {.in = in, .layout = layout};
    uint64_t shard_bytes;
    sw_status st = parse_options(in->options, &shard_bytes, err);
    if (st == SW_OK)
        st = swi_alloc_array(in->count, sizeof *l.tensors, (void **)&l.tensors, err);
    if (st == SW_OK)
        st = split(&l, shard_bytes, err);
    if (st == SW_OK)
        st = swi_st_file_check_dtypes(in, err);
    if (st == SW_OK)
        st = name_shards(&l, err);
    if (st == SW_OK)
        st = lay_shards(&l, err);
    for (size_t i = 0; st == SW_OK && in->assets != NULL && i < in->assets->count; i++)
        st = swi_lay_bytes(layout, in->assets->items[i].path, in->assets->items[i].data,
                           in->assets->items[i].size, err);
    if (st == SW_OK && l.shard_count > 1)
        st = lay_index(&l, err);
    free(l.files);
    free(l.tensors);
    return st;
}
