/* Opening a native checkpoint: the manifest, the table, every index; each held against its digest.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/report.h"
#include "base/text.h"
#include "model/value.h"
#include "native/native.h"
#include "native/section.h"
#include "pool.h"

void swi_native_kept_free(void *p)
{
    swi_native_kept *kept = p;
    if (kept == NULL)
        return;
    swi_native_chunks_free(kept->chunks);
    for (size_t i = 0; i < kept->shard_count; i++)
        swi_native_shard_free(&kept->shards[i]);
    free(kept->shards);
    free(kept->table_bytes);
    swi_native_manifest_free(&kept->manifest);
    swi_state_free(&kept->state);
    free(kept->values);
    swi_arena_free(&kept->arena);
    free(kept);
}

/* ---- the manifest and the table -------------------------------------------------------------- */

static sw_status read_manifest(const swi_opening *o, swi_native_kept *kept, sw_error *err)
{
    uint8_t *data = NULL;
    size_t size = 0;
    if (swi_listing_find(o->listing, SWI_NATIVE_MANIFEST) == NULL)
        return swi_fail_at(err, SW_ERR_INCOMPLETE, "NAT-1", 0,
                           "there is no %s, which is written last: a save that was not finished",
                           SWI_NATIVE_MANIFEST);
    sw_status st = swi_store_read_all(o->store, SWI_NATIVE_MANIFEST, o->limits.metadata_bytes,
                                      &data, &size, err);
    if (st != SW_OK)
        return st;
    st = swi_native_manifest_read(data, size, &o->limits, &kept->manifest, err);
    free(data);
    return st;
}

static sw_status need_file(const swi_opening *o, const char *name, sw_error *err)
{
    if (swi_listing_find(o->listing, name) != NULL)
        return SW_OK;
    return swi_fail_at(err, SW_ERR_INCOMPLETE, "NAT-3", 0,
                       "%s: the manifest lists it and it is not there", name);
}

sw_status swi_native_read_section(const swi_opening *o, const swi_native_file *file, uint8_t **data,
                                  sw_error *err)
{
    sw_status st = need_file(o, file->file, err);
    return st == SW_OK
               ? swi_native_file_read(o->store, file, &o->limits, swi_work_threads(NULL), data, err)
               : st;
}

static sw_status read_table(const swi_opening *o, swi_native_kept *kept, sw_error *err)
{
    size_t size = (size_t)kept->manifest.table.bytes;
    sw_status st = swi_native_read_section(o, &kept->manifest.table, &kept->table_bytes, err);
    if (st != SW_OK)
        return st;
    st = swi_native_table_read(kept->table_bytes, size, (uint32_t)kept->manifest.layout_count,
                               &kept->table, err);
    if (st == SW_OK && kept->table.count != kept->manifest.tensors)
        st = swi_fail(err, SW_ERR_CORRUPT, "%s has %" PRIu32 " tensors, the manifest says %" PRIu32,
                      SWI_NATIVE_TABLE, kept->table.count, kept->manifest.tensors);
    return st;
}

/* ---- shard files ----------------------------------------------------------------------------- */

static sw_status open_shards(const swi_opening *o, swi_native_kept *kept, sw_error *err)
{
    const swi_native_manifest *m = &kept->manifest;
    sw_status st =
        swi_alloc_array(m->shard_count, sizeof *kept->shards, (void **)&kept->shards, err);
    for (size_t i = 0; st == SW_OK && i < m->shard_count; i++) {
        const swi_native_expect expect = {.file = &m->shards[i],
                                          .rank = (uint32_t)i,
                                          .world = (uint32_t)m->shard_count,
                                          .save_id = m->save_id,
                                          .threads = swi_work_threads(NULL)};
        st = need_file(o, m->shards[i].file, err);
        if (st == SW_OK)
            st = swi_native_shard_open(o->store, &expect, &o->limits, &kept->shards[i], err);
        kept->shard_count += st == SW_OK;
    }
    return st == SW_OK ? swi_native_chunks_make(kept->shards, kept->shard_count, &kept->chunks, err)
                       : st;
}

/* ---- the catalog ----------------------------------------------------------------------------- */

static sw_status reserve(swi_opening *o, const swi_native_kept *kept, sw_error *err)
{
    swi_catalog_room room = {.tensors = kept->table.count,
                             .shape_numbers = kept->table.shape_numbers,
                             .name_bytes = kept->table.name_bytes};
    for (size_t i = 0; i < kept->shard_count; i++)
        room.blobs += kept->shards[i].chunk_count; /* each in memory: no overflow */
    room.pieces = room.blobs;
    return swi_builder_reserve(o->builder, &room, err);
}

static sw_status add_tensors(swi_opening *o, const swi_native_kept *kept, sw_error *err)
{
    sw_status st = reserve(o, kept, err);
    for (uint32_t i = 0; st == SW_OK && i < kept->table.count; i++) {
        swi_native_tensor t;
        uint32_t id;
        swi_native_table_at(&kept->table, i, &t);
        const swi_tensor_in in = {.name = t.name,
                                  .name_size = t.name_size,
                                  .dtype = t.dtype,
                                  .axes = t.axes,
                                  .shape = t.shape,
                                  .role = t.role};
        st = swi_builder_tensor(o->builder, &in, &id, err);
    }
    return st;
}

typedef struct shapes {
    const swi_native_table *table;
    swi_native_tensor *tensor; /* the last one asked for */
} shapes;

static bool shape_of(const void *ctx, uint32_t tensor, swi_native_shape *out)
{
    const shapes *s = ctx;
    if (tensor >= s->table->count)
        return false;
    swi_native_table_at(s->table, tensor, s->tensor);
    *out = (swi_native_shape){.axes = s->tensor->axes,
                              .shape = s->tensor->shape,
                              .element_bytes = sw_dtype_bytes(s->tensor->dtype)};
    return true;
}

/* A chunk of the piece: a blob of its own, dense. */
static sw_status add_chunk(swi_opening *o, const swi_native_kept *kept, size_t shard, uint32_t file,
                           const swi_native_piece *piece, const swi_native_tensor *t, uint64_t i,
                           uint64_t chunk, sw_error *err)
{
    swi_piece made = {.axes = piece->axes};
    swi_blob blob;
    int64_t elements = 1;
    for (uint32_t k = 0; k < t->axes; k++)
        elements *= t->shape[k];
    if (piece->flat)
        made.view[0] = elements;
    else
        memcpy(made.view, t->shape, sizeof made.view);
    swi_native_grid_box(piece, i, made.offset, made.length);
    swi_piece_make_dense(&made, sw_dtype_bytes(t->dtype));
    uint64_t bytes = swi_piece_elements(&made) * sw_dtype_bytes(t->dtype);
    sw_status st = swi_native_chunks_blob(kept->chunks, shard, chunk + i, file, bytes, &blob, err);
    if (st == SW_OK)
        st = swi_builder_blob(o->builder, &blob, &made.blob, err);
    return st == SW_OK ? swi_builder_piece(o->builder, piece->tensor, &made, err) : st;
}

/* One chunk that is all of its tensor: what most small ones are. */
static bool is_whole(const swi_native_piece *piece, const swi_native_tensor *t)
{
    for (uint32_t k = 0; k < piece->axes; k++)
        if (piece->chunk[k] != t->shape[k])
            return false;
    return !piece->flat;
}

static sw_status add_whole(swi_opening *o, const swi_native_kept *kept, size_t shard, uint32_t file,
                           uint32_t tensor, const swi_native_tensor *t, uint64_t chunk,
                           sw_error *err)
{
    uint64_t bytes = sw_dtype_bytes(t->dtype);
    swi_blob blob;
    uint32_t id;
    for (uint32_t k = 0; k < t->axes; k++)
        bytes *= (uint64_t)t->shape[k];
    sw_status st = swi_native_chunks_blob(kept->chunks, shard, chunk, file, bytes, &blob, err);
    if (st == SW_OK)
        st = swi_builder_blob(o->builder, &blob, &id, err);
    return st == SW_OK ? swi_builder_whole(o->builder, tensor, id, err) : st;
}

static sw_status add_pieces(swi_opening *o, const swi_native_kept *kept, size_t shard,
                            sw_error *err)
{
    swi_native_tensor t;
    const shapes s = {.table = &kept->table, .tensor = &t};
    const swi_native_file *listed = &kept->manifest.shards[shard];
    swi_native_walk walk = {0};
    bool more = true;
    uint32_t file;
    sw_status st = swi_builder_file(o->builder, listed->file, listed->bytes, &file, err);
    while (st == SW_OK && more) {
        swi_native_piece piece;
        uint64_t first = 0, chunks = 0;
        st = swi_native_piece_next(&kept->shards[shard], &walk, shape_of, &s, &piece, &first,
                                   &chunks, &more, err);
        if (st != SW_OK)
            return swi_error_prefix(err, "%s", listed->file);
        bool whole = more && is_whole(&piece, &t);
        if (whole)
            st = add_whole(o, kept, shard, file, piece.tensor, &t, first, err);
        for (uint64_t i = 0; st == SW_OK && more && !whole && i < chunks; i++)
            st = add_chunk(o, kept, shard, file, &piece, &t, i, first, err);
    }
    return st;
}

static bool is_partial(const swi_native_manifest *m, size_t layout)
{
    const swi_native_layout *l = &m->layouts[layout];
    return l->kind == SWI_NATIVE_DTENSOR &&
           swi_native_layout_is_partial(l, m->meshes[l->mesh].axes);
}

static bool has_partial(const swi_native_manifest *m)
{
    for (size_t i = 0; i < m->layout_count; i++)
        if (is_partial(m, i))
            return true;
    return false;
}

/* NAT-7: terms that are not added up are shown and never taken for the tensor. */
static sw_status mark_partial(swi_opening *o, const swi_native_kept *kept, sw_error *err)
{
    const swi_native_manifest *m = &kept->manifest;
    sw_status st = SW_OK;
    for (uint32_t i = 0; st == SW_OK && i < kept->table.count; i++) {
        swi_native_tensor t;
        swi_quoted q;
        swi_native_table_at(&kept->table, i, &t);
        if (!is_partial(m, t.layout))
            continue;
        swi_builder_allow_replicas(o->builder, i);
        swi_builder_mark(o->builder, i, SW_ERR_UNSUPPORTED);
        const swi_finding_in in = {.severity = SW_WARNING,
                                   .status = SW_ERR_UNSUPPORTED,
                                   .code = "partial",
                                   .tensor = swi_quote(&q, t.name, t.name_size)};
        st = swi_report_add(o->report, &in, err,
                            "its ranks hold terms of it that are not added up (Partial); reduce "
                            "it before it is saved, or leave it out with --drop");
    }
    return st;
}

static sw_status add_facts(swi_opening *o, const swi_native_manifest *m, sw_error *err)
{
    char root[SWI_DIGEST_TEXT];
    swi_digest_text(&m->root, root);
    sw_status st = swi_opening_fact(o, "root", err, "%s", root);
    if (st == SW_OK)
        st = swi_opening_fact(o, "writer", err, "%s", m->writer);
    return st == SW_OK ? swi_opening_fact(o, "ranks", err, "%zu", m->shard_count) : st;
}

static sw_status fill(swi_opening *o, swi_native_kept *kept, sw_error *err)
{
    sw_status st = read_manifest(o, kept, err);
    if (st == SW_OK)
        st = read_table(o, kept, err);
    if (st == SW_OK)
        st = open_shards(o, kept, err);
    if (st == SW_OK)
        st = add_tensors(o, kept, err);
    for (size_t i = 0; st == SW_OK && i < kept->shard_count; i++)
        st = add_pieces(o, kept, i, err);
    if (st == SW_OK && has_partial(&kept->manifest))
        st = mark_partial(o, kept, err);
    if (st == SW_OK)
        st = swi_native_read_state(o, kept, err);
    return st == SW_OK ? add_facts(o, &kept->manifest, err) : st;
}

sw_status swi_native_open(swi_opening *o, sw_error *err)
{
    swi_native_kept *kept = NULL;
    sw_status st = swi_alloc_array(1, sizeof *kept, (void **)&kept, err);
    if (st != SW_OK)
        return st;
    kept->limits = o->limits;
    swi_opening_keep(o, kept, swi_native_kept_free);
    return fill(o, kept, err);
}
