/*
 * Hugging Face safetensors: one file, or shards with an index, or the per-rank shards that torch's
 * own HF storage leaves (each file says where in the global tensor its parts begin).
 */
#include "hf/hf.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/checked.h"
#include "base/names.h"
#include "base/report.h"
#include "base/text.h"
#include "container/safetensors.h"
#include "frameworks.h"
#include "io/filecache.h"
#include "sharded/sharded.h"
#include "source/shards.h"

#define SUFFIX ".safetensors"
#define INDEX_SUFFIX SUFFIX ".index.json"

static bool is_shard(const swi_listing_entry *e)
{
    return e->kind == SWI_ENTRY_FILE && swi_has_suffix(e->name, SUFFIX) &&
           !swi_sharded_owns(e->name);
}

/* A lone index, or one numbered file of several, is a part of a checkpoint and none by itself. */
static sw_status claim(const swi_store *store, const swi_listing *listing, swi_claim *out,
                       sw_error *err)
{
    const size_t count = swi_listing_count(listing);
    (void)store;
    (void)err;
    *out = SWI_CLAIM_NONE;
    for (size_t i = 0; *out == SWI_CLAIM_NONE && i < count; i++) {
        const swi_listing_entry *e = swi_listing_at(listing, i);
        const bool index = e->kind == SWI_ENTRY_FILE && swi_has_suffix(e->name, INDEX_SUFFIX);
        uint64_t number, of;
        size_t stem;
        if (!index && !is_shard(e))
            continue;
        const bool part =
            index || (swi_shard_numbered(e->name, SUFFIX, &number, &of, &stem) && of > 1);
        *out = count == 1 && part ? SWI_CLAIM_PART : SWI_CLAIM_WHOLE;
    }
    return SW_OK;
}

/* ---- the files that make the checkpoint ---------------------------------------------------- */

typedef struct shard {
    const char *name; /* in the listing or in the index */
    uint64_t bytes;
    bool missing;
    uint32_t file; /* in the catalog */
    swi_st *st;    /* NULL: could not be read */
} shard;

/* What is known of a tensor name. */
typedef struct known {
    uint32_t id;          /* in the catalog; UINT32_MAX: not made yet */
    uint32_t first_shard; /* where it was met first */
} known;

typedef struct reading {
    swi_opening *o;
    swi_shards found;
    shard *shards;
    size_t count;
    swi_names *tensors; /* index of `known` by name */
    known *known;
    size_t known_capacity;
    int64_t *shapes; /* global shapes of tensors in parts, SW_MAX_AXES each */
    size_t shape_capacity;
    bool parts; /* some file holds parts of tensors */
} reading;

static sw_status finding(reading *r, sw_severity severity, sw_status status, const char *code,
                         const char *file, const char *tensor, const char *text, sw_error *err)
{
    swi_finding_in in = {
        .severity = severity, .status = status, .code = code, .file = file, .tensor = tensor};
    return swi_report_add(r->o->report, &in, err, "%s", text);
}

static sw_status find_shards(reading *r, sw_error *err)
{
    r->found = (swi_shards){.o = r->o,
                            .suffix = SUFFIX,
                            .index_suffix = INDEX_SUFFIX,
                            .first_index = "model" INDEX_SUFFIX,
                            .belongs = is_shard};
    sw_status st = swi_shards_find(&r->found, err);
    if (st == SW_OK)
        st = swi_alloc_array(r->found.count, sizeof *r->shards, (void **)&r->shards, err);
    if (st != SW_OK)
        return st;
    for (; r->count < r->found.count; r->count++) {
        const swi_shard *s = &r->found.items[r->count];
        r->shards[r->count] = (shard){.name = s->name, .bytes = s->bytes, .missing = s->missing};
    }
    return SW_OK;
}

/* ---- their headers ------------------------------------------------------------------------- */

static const char *shard_path(const void *ctx, uint32_t id)
{
    const reading *r = ctx;
    return r->shards[id].name;
}

static bool means_could_not_work(sw_status st)
{
    return st == SW_ERR_NOMEM || st == SW_ERR_IO;
}

static sw_status open_headers(reading *r, sw_error *err)
{
    swi_filecache *cache = NULL;
    size_t readable = 0;
    sw_error last = {0};
    sw_status st = swi_filecache_make(r->o->store, (uint32_t)r->count, shard_path, r, &r->o->limits,
                                      &cache, err);
    for (uint32_t i = 0; st == SW_OK && i < r->count; i++) {
        shard *s = &r->shards[i];
        sw_error cause = {0};
        if (s->missing)
            continue;
        sw_status opened = swi_st_open(swi_filecache_reader(cache), i, s->bytes, &s->st, &cause);
        if (opened == SW_OK) {
            readable++;
            continue;
        }
        if (means_could_not_work(opened)) {
            st = opened;
            if (err != NULL)
                *err = cause;
            break;
        }
        last = cause;
        swi_opening_incomplete(r->o);
        swi_finding_in in = {.severity = SW_DEFECT,
                             .status = opened,
                             .code = "unreadable-file",
                             .file = s->name,
                             .has_offset = cause.has_offset,
                             .offset_bytes = cause.offset_bytes};
        st = swi_report_error(r->o->report, &in, &cause, err);
    }
    swi_filecache_free(cache);
    if (st == SW_OK && readable == 0 && last.status != SW_OK) {
        if (err != NULL)
            *err = last;
        return r->count == 1 ? swi_error_prefix(err, "%s", r->shards[0].name) : last.status;
    }
    if (st == SW_OK && readable == 0)
        return swi_fail(err, SW_ERR_INCOMPLETE, "none of its safetensors files is there");
    return st;
}

/* ---- tensors ------------------------------------------------------------------------------- */

static bool in_parts(const reading *r, const shard *s, size_t i)
{
    uint32_t axes;
    (void)r;
    return swi_st_saved_offsets(s->st, i, &axes) != NULL;
}

/* HF-7: the global size of a tensor in parts is what its parts reach. */
static sw_status grow_shape(reading *r, uint32_t name, const swi_st_tensor *t,
                            const int64_t *offset, sw_error *err)
{
    sw_status st = swi_grow_array((void **)&r->shapes, &r->shape_capacity,
                                  ((size_t)name + 1) * SW_MAX_AXES, sizeof *r->shapes, err);
    for (uint32_t k = 0; st == SW_OK && k < t->axes; k++) {
        int64_t end, *size = &r->shapes[(size_t)name * SW_MAX_AXES + k];
        if (!swi_add_i64(offset ? offset[k] : 0, t->shape[k], &end))
            return swi_fail_at(err, SW_ERR_CORRUPT, "HF-7", 0, "a saved offset is too large");
        if (end > *size)
            *size = end;
    }
    return st;
}

static sw_status duplicate(reading *r, uint32_t name, const shard *s, const char *text,
                           sw_error *err)
{
    const char *tensor = swi_names_at(r->tensors, name, NULL);
    const shard *first = &r->shards[r->known[name].first_shard];
    swi_finding_in in = {.severity = SW_DEFECT,
                         .status = SW_ERR_CONFLICT,
                         .code = "duplicate-tensor",
                         .file = s->name,
                         .tensor = tensor};
    swi_quoted q;
    return swi_report_add(r->o->report, &in, err, "%s %s", text, swi_quote_str(&q, first->name));
}

/* First pass: names, and how large tensors in parts are. */
static sw_status meet_tensors(reading *r, uint32_t which, sw_error *err)
{
    shard *s = &r->shards[which];
    sw_status st = SW_OK;
    for (size_t i = 0; st == SW_OK && i < swi_st_count(s->st); i++) {
        swi_st_tensor t;
        uint32_t name, axes = 0;
        bool is_new;
        swi_st_at(s->st, i, &t);
        st = swi_names_add(r->tensors, t.name, t.name_size, &name, &is_new, err);
        if (st == SW_OK)
            st = swi_grow_array((void **)&r->known, &r->known_capacity, (size_t)name + 1,
                                sizeof *r->known, err);
        if (st != SW_OK)
            return st;
        if (is_new)
            r->known[name] = (known){.id = UINT32_MAX, .first_shard = which};
        const int64_t *offset = swi_st_saved_offsets(s->st, i, &axes);
        r->parts = r->parts || offset != NULL;
        st = grow_shape(r, name, &t, offset, err);
    }
    return st;
}

static sw_status make_tensor(reading *r, uint32_t name, const swi_st_tensor *t, bool parts,
                             sw_error *err)
{
    swi_tensor_in in = {.name = t->name,
                        .name_size = t->name_size,
                        .dtype = t->dtype,
                        .axes = t->axes,
                        .shape = parts ? &r->shapes[(size_t)name * SW_MAX_AXES] : t->shape,
                        .role = SW_ROLE_PARAMETER};
    return swi_builder_tensor(r->o->builder, &in, &r->known[name].id, err);
}

static sw_status add_part(reading *r, const shard *s, const swi_st_tensor *t, uint32_t name,
                          const int64_t *offset, sw_error *err)
{
    swi_blob blob = {.ops = &swi_blob_slice,
                     .file = s->file,
                     .offset_bytes = t->offset_bytes,
                     .stored_bytes = t->bytes,
                     .bytes = t->bytes};
    swi_piece piece = {.axes = t->axes};
    sw_status st = swi_builder_blob(r->o->builder, &blob, &piece.blob, err);
    if (st != SW_OK)
        return st;
    const int64_t *view = offset ? &r->shapes[(size_t)name * SW_MAX_AXES] : t->shape;
    for (uint32_t k = 0; k < t->axes; k++) {
        piece.view[k] = view[k];
        piece.offset[k] = offset ? offset[k] : 0;
        piece.length[k] = t->shape[k];
    }
    swi_piece_make_dense(&piece, sw_dtype_bytes(t->dtype));
    return t->bytes > 0 ? swi_builder_piece(r->o->builder, r->known[name].id, &piece, err) : SW_OK;
}

/* Second pass: pieces. */
static sw_status add_tensor(reading *r, uint32_t which, size_t i, sw_error *err)
{
    shard *s = &r->shards[which];
    swi_st_tensor t;
    uint32_t axes;
    swi_st_at(s->st, i, &t);
    const int64_t *offset = swi_st_saved_offsets(s->st, i, &axes);
    if (t.dtype == SW_DTYPE_NONE) {
        swi_opening_incomplete(r->o);
        return finding(r, SW_WARNING, SW_ERR_UNSUPPORTED, "unknown-dtype", s->name, t.name,
                       "its element type is not known here; it is left out", err);
    }
    uint32_t name = (uint32_t)swi_names_find(r->tensors, t.name, t.name_size);
    bool is_new = r->known[name].id == UINT32_MAX;
    if (!is_new && !in_parts(r, s, i)) {
        swi_builder_mark(r->o->builder, r->known[name].id, SW_ERR_CONFLICT);
        return duplicate(r, name, s, "it lies here and also in", err);
    }
    sw_status st = is_new ? make_tensor(r, name, &t, offset != NULL, err) : SW_OK;
    if (st == SW_OK && !is_new &&
        !swi_builder_same(r->o->builder, r->known[name].id, t.dtype, t.axes,
                          &r->shapes[(size_t)name * SW_MAX_AXES])) {
        swi_builder_mark(r->o->builder, r->known[name].id, SW_ERR_CONFLICT);
        return duplicate(r, name, s, "its dtype or number of axes is not the same as in", err);
    }
    return st == SW_OK ? add_part(r, s, &t, name, offset, err) : st;
}

static sw_status add_tensors(reading *r, sw_error *err)
{
    sw_status st = swi_names_make(&r->tensors, err);
    for (uint32_t i = 0; st == SW_OK && i < r->count; i++) {
        if (r->shards[i].st != NULL)
            st = meet_tensors(r, i, err);
    }
    for (uint32_t i = 0; st == SW_OK && i < r->count; i++) {
        shard *s = &r->shards[i];
        if (s->st == NULL)
            continue;
        st = swi_builder_file(r->o->builder, s->name, s->bytes, &s->file, err);
        for (size_t k = 0; st == SW_OK && k < swi_st_count(s->st); k++)
            st = add_tensor(r, i, k, err);
    }
    return st;
}

/* ---- the index against the files ------------------------------------------------------------ */

static sw_status check_index(reading *r, sw_error *err)
{
    sw_status st = SW_OK;
    uint64_t total, bytes = 0;
    if (r->found.index == NULL)
        return SW_OK;
    for (size_t i = 0; st == SW_OK && i < swi_hf_index_count(r->found.index); i++) {
        const char *name;
        uint32_t file;
        if (!swi_hf_index_at(r->found.index, i, &name, &file) || r->shards[file].st == NULL)
            continue;
        if (swi_st_find(r->shards[file].st, name) >= 0)
            continue;
        swi_opening_incomplete(r->o);
        st = finding(r, SW_DEFECT, SW_ERR_INCOMPLETE, "missing-tensor", r->shards[file].name, name,
                     "the index places this tensor in this file and it is not there", err);
    }
    for (size_t k = 0; st == SW_OK && k < r->count; k++) {
        const swi_st *file = r->shards[k].st;
        for (size_t i = 0; st == SW_OK && file != NULL && i < swi_st_count(file); i++) {
            swi_st_tensor t;
            swi_st_at(file, i, &t);
            bytes += t.bytes;
            if (swi_hf_index_find(r->found.index, t.name) < 0)
                st = finding(r, SW_DEFECT, SW_ERR_CONFLICT, "unlisted-tensor", r->shards[k].name,
                             t.name, "the index does not name this tensor: loaders will miss it",
                             err);
        }
    }
    if (st != SW_OK || !swi_hf_index_total_size(r->found.index, &total) || total == bytes)
        return st;
    swi_finding_in in = {.severity = SW_WARNING, .code = "total-size", .file = r->found.index_name};
    return swi_report_add(r->o->report, &in, err,
                          "total_size says %" PRIu64 " bytes and the tensors have %" PRIu64, total,
                          bytes);
}

/* What the headers of all files take while they are put together. */
static uint64_t tables_memory(const reading *r)
{
    uint64_t bytes = r->tensors ? swi_names_memory(r->tensors) : 0;
    for (size_t i = 0; i < r->count; i++) {
        if (r->shards[i].st != NULL)
            bytes += swi_st_memory(r->shards[i].st) + swi_st_data_offset(r->shards[i].st);
    }
    return bytes;
}

static sw_status open_hf(swi_opening *o, sw_error *err)
{
    reading r = {.o = o};
    sw_status st = find_shards(&r, err);
    if (st == SW_OK)
        st = open_headers(&r, err);
    if (st == SW_OK)
        st = add_tensors(&r, err);
    if (st == SW_OK)
        st = check_index(&r, err);
    if (st == SW_OK)
        st = r.parts ? SW_OK : swi_shards_say_no_index(&r.found, err);
    if (st == SW_OK)
        st = swi_opening_fact(o, "shards", err, "%zu", r.count);
    swi_opening_memory(o, tables_memory(&r));
    for (size_t i = 0; i < r.count; i++)
        swi_st_free(r.shards[i].st);
    swi_shards_free(&r.found);
    swi_names_free(r.tensors);
    free(r.shards);
    free(r.known);
    free(r.shapes);
    return st;
}

const swi_framework swi_framework_hf = {
    .name = "hf",
    .title = "Hugging Face safetensors",
    .target = "hf[:shard=5GB,names=SIDE]",
    .usual_side = "hf",
    .claim = claim,
    .open = open_hf,
    .layout = swi_hf_layout,
};
