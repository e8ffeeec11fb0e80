/*
 * A catalog over the bytes of another (CAT-17): a copy of all but the tensors. What the tensors
 * said of the shapes of whole blobs is kept by blob, so that kinds that record shapes can still
 * hold theirs against it, whatever becomes of the pieces.
 */
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "model/catalog_tables.h"

/* Ids are the order of first use, so that adding them in order keeps them. */
static sw_status copy_names(swi_names *to, const swi_names *from, sw_error *err)
{
    sw_status status = SW_OK;
    for (uint32_t i = 0; i < swi_names_count(from) && status == SW_OK; i++) {
        size_t size;
        uint32_t id;
        const char *text = swi_names_at(from, i, &size);
        status = swi_names_add(to, text, size, &id, NULL, err);
    }
    return status;
}

static sw_status copy_files(sw_catalog *to, const sw_catalog *from, sw_error *err)
{
    size_t count = swi_names_count(from->paths);
    sw_status status = swi_grow_array((void **)&to->file_bytes, &to->file_capacity, count,
                                      sizeof *to->file_bytes, err);
    if (status == SW_OK)
        status = copy_names(to->paths, from->paths, err);
    if (status == SW_OK && count > 0)
        memcpy(to->file_bytes, from->file_bytes, count * sizeof *to->file_bytes);
    return status;
}

static sw_status copy_values(sw_catalog *to, const sw_catalog *from, sw_error *err)
{
    sw_status status = swi_grow_array((void **)&to->values, &to->value_capacity, from->value_count,
                                      sizeof *to->values, err);
    if (status == SW_OK)
        status = copy_names(to->value_names, from->value_names, err);
    if (status == SW_OK && from->value_count > 0)
        memcpy(to->values, from->values, from->value_count * sizeof *to->values);
    if (status == SW_OK)
        to->value_count = from->value_count;
    return status;
}

/* ---- shapes of blobs ------------------------------------------------------------------------- */

/* The first piece in each blob: its tensor plus 1, and which of that tensor's. */
typedef struct owner {
    uint32_t tensor;
    uint32_t piece;
} owner;

static void find_owners(const sw_catalog *from, owner *owners)
{
    for (uint32_t t = 0; t < from->tensor_count; t++) {
        for (uint32_t i = 0; i < from->tensors[t].piece_count; i++) {
            swi_piece p;
            swi_tensor_piece(from, t, i, &p);
            if (owners[p.blob].tensor == 0)
                owners[p.blob] = (owner){t + 1, i};
        }
    }
}

static sw_status make_wants(sw_catalog *to, const sw_catalog *from, sw_error *err)
{
    uint32_t count = swi_catalog_blob_count(from);
    void *p = NULL;
    sw_status status = swi_alloc_array(count, sizeof(owner), &p, err);
    if (status != SW_OK)
        return status;
    owner *owners = p;
    find_owners(from, owners);
    for (uint32_t b = 0; b < count && status == SW_OK; b++) {
        uint8_t record[SWI_RECORD_MAX];
        swi_blob_want want = {.has_shape = false};
        if (owners[b].tensor > 0)
            swi_piece_want(from, owners[b].tensor - 1, owners[b].piece, &want);
        status = swi_packed_add(&to->wants, record, swi_pack_want(&want, record), err);
    }
    free(owners);
    return status;
}

/* ---- the builder ----------------------------------------------------------------------------- */

sw_status swi_builder_from(const sw_catalog *from, const sw_limits *limits, swi_builder **out,
                           sw_error *err)
{
    swi_builder *b = NULL;
    sw_status status = swi_builder_make(limits, &b, err);
    if (status != SW_OK)
        return status;
    sw_catalog *c = b->catalog;
    status = copy_files(c, from, err);
    if (status == SW_OK)
        status = copy_values(c, from, err);
    if (status == SW_OK)
        status = swi_packed_copy(&c->blobs, &from->blobs, err);
    if (status == SW_OK && from->wants.count > 0)
        status = swi_packed_copy(&c->wants, &from->wants, err);
    else if (status == SW_OK)
        status = make_wants(c, from, err);
    if (status != SW_OK) {
        swi_builder_free(b);
        return status;
    }
    memcpy(c->kinds, from->kinds, sizeof c->kinds);
    c->kind_count = from->kind_count;
    *out = b;
    return SW_OK;
}

sw_status swi_builder_over(const sw_catalog *from, const sw_limits *limits, swi_builder **out,
                           sw_error *err)
{
    swi_builder *b = NULL;
    sw_status status = swi_builder_make(limits, &b, err);
    if (status != SW_OK)
        return status;
    status = copy_files(b->catalog, from, err);
    if (status == SW_OK)
        *out = b;
    else
        swi_builder_free(b);
    return status;
}

sw_status swi_builder_take(swi_builder *builder, const sw_catalog *from, uint32_t tensor,
                           uint64_t piece, uint32_t *id, sw_error *err)
{
    uint8_t record[SWI_RECORD_MAX];
    sw_catalog *c = builder->catalog;
    swi_piece p;
    swi_blob blob;
    swi_blob_want want;
    swi_tensor_piece(from, tensor, piece, &p);
    swi_piece_want(from, tensor, piece, &want);
    swi_catalog_blob(from, p.blob, &blob);
    sw_status status = swi_builder_blob(builder, &blob, id, err);
    return status == SW_OK ? swi_packed_add(&c->wants, record, swi_pack_want(&want, record), err)
                           : status;
}
