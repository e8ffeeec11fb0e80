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
                               swi_work_threads(NULL), &kept->table, err);
    if (st == SW_OK && kept->table.count != kept->manifest.tensors)
        st = swi_fail(err, SW_ERR_CORRUPT, "%s has %" PRIu32 " tensors, the manifest says %" PRIu32,
                      SWI_NATIVE_TABLE, kept->table.count, kept->manifest.tensors);
    return st;
}

/* ---- shard files ----------------------------------------------------------------------------- */

static sw_status open_shard(const swi_opening *o, swi_native_kept *kept, size_t i, sw_error *err)
{
    const swi_native_manifest *m = &kept->manifest;
    const swi_native_expect expect = {.file = &m->shards[i],
                                      .rank = (uint32_t)i,
                                      .world = (uint32_t)m->shard_count,
                                      .save_id = m->save_id,
                                      .threads = swi_work_threads(NULL)};
    sw_status st = need_file(o, m->shards[i].file, err);
    return st == SW_OK ? swi_native_shard_open(o->store, &expect, &o->limits, &kept->shards[i], err)
                       : st;
}

static sw_status say_shard(const swi_opening *o, swi_native_kept *kept, size_t i, sw_error *err)
{
    sw_error cause = {0};
    sw_status st = open_shard(o, kept, i, &cause);
    swi_native_shard_free(&kept->shards[i]);
    if (swi_status_is_defect(st))
        return swi_report_defect(o->report, &cause, err);
    if (st != SW_ERR_IO && st != SW_ERR_NOMEM)
        return SW_OK;
    if (err != NULL)
        *err = cause;
    return st;
}

/* One file that is not as it was written is rarely alone: all of them are named. */
static sw_status say_others(const swi_opening *o, swi_native_kept *kept, size_t from, sw_error *err)
{
    sw_status st = SW_OK;
    for (size_t i = from; st == SW_OK && i < kept->manifest.shard_count; i++)
        st = say_shard(o, kept, i, err);
    return st;
}

static sw_status open_shards(const swi_opening *o, swi_native_kept *kept, sw_error *err)
{
    const swi_native_manifest *m = &kept->manifest;
    sw_error cause = {0};
    sw_status st =
        swi_alloc_array(m->shard_count, sizeof *kept->shards, (void **)&kept->shards, err);
    for (size_t i = 0; st == SW_OK && i < m->shard_count; i++) {
        st = open_shard(o, kept, i, &cause);
        kept->shard_count += st == SW_OK;
        if (st == SW_OK)
            continue;
        sw_status said =
            o->report != NULL && swi_status_is_defect(st) ? say_others(o, kept, i + 1, err) : SW_OK;
        if (said != SW_OK)
            return said;
        if (err != NULL)
            *err = cause;
        return st;
    }
    return st == SW_OK ? swi_native_chunks_make(kept->shards, kept->shard_count, &kept->chunks, err)
                       : st;
}

/* ---- the catalog ----------------------------------------------------------------------------- */

static sw_status add_tensors(swi_opening *o, const swi_native_kept *kept, sw_error *err)
{
    const swi_native_table *t = &kept->table;
    const swi_tensor_columns columns = {
        .names = {.text = (const char *)t->names, .ends = t->name_end, .count = t->count},
        .dtype = t->dtype,
        .role = t->role,
        .shape_end = t->shape_end,
        .shapes = t->shapes,
        .shape_numbers = t->shape_numbers};
    return swi_builder_tensors(o->builder, &columns, err);
}

/* The chunks of all shard files, numbered as swi_native_chunks does. */
typedef struct all_chunks {
    const swi_native_kept *kept;
    uint32_t *files; /* by shard: the id in the catalog */
} all_chunks;

/* What is known of the tensor that was asked for last. */
typedef struct form {
    const swi_native_table *table;
    sw_dtype dtype;
    uint32_t axes;
    int64_t shape[SW_MAX_AXES];
} form;

/* The pieces of a shard file. */
typedef struct walk {
    const all_chunks *all;
    size_t shard;
    form *form;
    swi_native_piece piece; /* where it is */
    swi_piece_sink *sink;
} walk;

static bool shape_of(const void *ctx, uint32_t tensor, swi_native_shape *out)
{
    form *f = *(form *const *)ctx;
    if (tensor >= f->table->count)
        return false;
    f->axes = swi_native_table_form(f->table, tensor, &f->dtype, f->shape);
    *out = (swi_native_shape){
        .axes = f->axes, .shape = f->shape, .element_bytes = sw_dtype_bytes(f->dtype)};
    return true;
}

/* One chunk that is all of its tensor: what most small ones are. */
static bool is_whole(const walk *w)
{
    const swi_native_piece *piece = &w->piece;
    for (uint32_t k = 0; k < piece->axes; k++)
        if (piece->chunk[k] != w->form->shape[k])
            return false;
    return !piece->flat;
}

/* The box of chunk i of the piece, dense. */
static void make_piece(const walk *w, uint64_t i, swi_piece *out)
{
    const form *f = w->form;
    int64_t elements = 1;
    for (uint32_t k = 0; k < f->axes; k++)
        elements *= f->shape[k];
    *out = (swi_piece){.axes = w->piece.axes};
    if (w->piece.flat)
        out->view[0] = elements;
    else
        memcpy(out->view, f->shape, sizeof out->view);
    swi_native_grid_box(&w->piece, i, out->offset, out->length);
    swi_piece_make_dense(out, sw_dtype_bytes(f->dtype));
}

/* Chunk i of the piece, which is number `chunk` of the file: a blob of its own. */
static sw_status put_chunk(const walk *w, uint64_t i, uint64_t chunk, sw_error *err)
{
    const swi_native_chunks *chunks = w->all->kept->chunks;
    const uint32_t file = w->all->files[w->shard], unit = sw_dtype_bytes(w->form->dtype);
    uint64_t bytes = unit;
    swi_piece piece;
    swi_blob blob;
    sw_status st;
    if (is_whole(w)) {
        for (uint32_t k = 0; k < w->form->axes; k++)
            bytes *= (uint64_t)w->form->shape[k];
        st = swi_native_chunks_blob(chunks, w->shard, chunk, file, bytes, &blob, err);
        return st == SW_OK ? swi_sink_whole(w->sink, w->piece.tensor, &blob, err) : st;
    }
    make_piece(w, i, &piece);
    bytes *= swi_piece_elements(&piece);
    st = swi_native_chunks_blob(chunks, w->shard, chunk, file, bytes, &blob, err);
    return st == SW_OK ? swi_sink_piece(w->sink, w->piece.tensor, &piece, &blob, err) : st;
}

/* Chunks [from, to) of a shard file. */
static sw_status put_shard(walk *w, uint64_t from, uint64_t to, sw_error *err)
{
    const swi_native_shard *shard = &w->all->kept->shards[w->shard];
    swi_native_walk at = {0};
    sw_status st = SW_OK;
    bool more = from < to;
    if (more)
        swi_native_walk_near(shard, from, &at);
    while (st == SW_OK && more && from < to) {
        uint64_t first = 0, count = 0;
        st = swi_native_piece_next(shard, &at, shape_of, &w->form, &w->piece, &first, &count, &more,
                                   err);
        for (; st == SW_OK && more && from < to && from < first + count; from++)
            st = put_chunk(w, from - first, from, err);
    }
    return st == SW_OK ? st
                       : swi_error_prefix(err, "%s", w->all->kept->manifest.shards[w->shard].file);
}

static sw_status put_chunks(const void *ctx, uint64_t from, uint64_t to, swi_piece_sink *sink,
                            sw_error *err)
{
    const all_chunks *all = ctx;
    form f = {.table = &all->kept->table};
    walk w = {.all = all, .form = &f, .sink = sink};
    uint64_t first = 0;
    sw_status st = SW_OK;
    for (; st == SW_OK && w.shard < all->kept->shard_count && first < to; w.shard++) {
        const uint64_t count = all->kept->shards[w.shard].chunk_count, end = first + count;
        if (end > from)
            st = put_shard(&w, from > first ? from - first : 0, to < end ? to - first : count, err);
        first = end;
    }
    return st;
}

static sw_status add_files(swi_opening *o, const swi_native_kept *kept, uint32_t *files,
                           sw_error *err)
{
    sw_status st = SW_OK;
    for (size_t i = 0; st == SW_OK && i < kept->shard_count; i++) {
        const swi_native_file *listed = &kept->manifest.shards[i];
        st = swi_builder_file(o->builder, listed->file, listed->bytes, &files[i], err);
    }
    return st;
}

static sw_status add_chunks(swi_opening *o, const swi_native_kept *kept, sw_error *err)
{
    all_chunks all = {.kept = kept};
    swi_piece_list list = {
        .ops = swi_native_chunks_ops(kept->chunks), .put = put_chunks, .ctx = &all};
    sw_status st = swi_alloc_array(kept->shard_count, sizeof *all.files, (void **)&all.files, err);
    if (st == SW_OK)
        st = add_files(o, kept, all.files, err);
    for (size_t i = 0; i < kept->shard_count; i++)
        list.count += kept->shards[i].chunk_count; /* each in memory: no overflow */
    if (st == SW_OK)
        st = swi_builder_pieces(o->builder, &list, err);
    free(all.files);
    return st;
}

static bool has_partial(const swi_native_manifest *m)
{
    for (size_t i = 0; i < m->layout_count; i++)
        if (swi_native_layout_is_partial(m, i))
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
        if (!swi_native_layout_is_partial(m, t.layout))
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
    swi_builder_threads(o->builder, swi_work_threads(NULL));
    sw_status st = read_manifest(o, kept, err);
    if (st == SW_OK)
        st = read_table(o, kept, err);
    if (st == SW_OK)
        st = open_shards(o, kept, err);
    if (st == SW_OK)
        st = add_tensors(o, kept, err);
    if (st == SW_OK)
        st = add_chunks(o, kept, err);
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
