/*
 * Checkpoints of meta-pytorch/torch_checkpointing: each item of a state dict in a file of
 * torch.save a rank, `model_3.pt`, in which DTensors are the parts of that rank; metadata.pkl says
 * of what. Clauses RF-n are those of specs/rank_files.md.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/report.h"
#include "base/text.h"
#include "frameworks.h"
#include "model/value.h"
#include "ranks/rank_meta.h"
#include "select/sections.h"
#include "torch/torch.h"

#define SUFFIX ".pt"
#define HEAD_BYTES 64

static const char first_key[] = "metadata";

/* A pickle that begins with that key. */
static bool is_index(const uint8_t *head, size_t size)
{
    for (size_t i = 1; size > 0 && head[0] == 0x80 && i + sizeof first_key - 1 <= size; i++)
        if (memcmp(head + i, first_key, sizeof first_key - 1) == 0)
            return true;
    return false;
}

/* "train_state_3.pt" -> "train_state" of rank 3; the size of the item, 0: another name. */
static size_t item_of_name(const char *name, uint64_t *rank)
{
    size_t size = strlen(name), suffix = strlen(SUFFIX);
    if (!swi_has_suffix(name, SUFFIX))
        return 0;
    size_t end = size - suffix, from = end;
    while (from > 0 && name[from - 1] >= '0' && name[from - 1] <= '9' && end - from < 10)
        from--;
    if (from == end || from < 2 || name[from - 1] != '_')
        return 0;
    *rank = strtoull(name + from, NULL, 10);
    return from - 1;
}

static bool has_rank_zero(const swi_listing *listing)
{
    for (size_t i = 0; i < swi_listing_count(listing); i++) {
        const swi_listing_entry *e = swi_listing_at(listing, i);
        uint64_t rank;
        if (e->kind == SWI_ENTRY_FILE && item_of_name(e->name, &rank) > 0 && rank == 0)
            return true;
    }
    return false;
}

/* RF-1: one that is damaged is still meant to be one, where files of ranks lie beside it. */
static sw_status claim(const swi_store *store, const swi_listing *listing, swi_claim *out,
                       sw_error *err)
{
    const swi_listing_entry *e = swi_listing_find(listing, SWI_RANK_META_NAME);
    uint8_t head[HEAD_BYTES];
    size_t size = 0;
    sw_error cause = {0};
    *out = SWI_CLAIM_NONE;
    if (e == NULL || e->kind != SWI_ENTRY_FILE)
        return SW_OK;
    sw_status st = swi_store_head(store, SWI_RANK_META_NAME, head, sizeof head, &size, &cause);
    if (st == SW_ERR_NOMEM)
        return swi_fail_nomem(err);
    if (st == SW_OK && is_index(head, size))
        *out = swi_listing_count(listing) > 1 ? SWI_CLAIM_WHOLE : SWI_CLAIM_PART;
    else if (has_rank_zero(listing))
        *out = SWI_CLAIM_PART;
    return SW_OK;
}

/* ---- files --------------------------------------------------------------------------------- */

typedef struct rank_file {
    const char *path, *item;
    uint64_t rank, bytes;
    bool missing;
} rank_file;

typedef struct reading {
    swi_opening *o;
    swi_rank_meta *meta;
    swi_arena arena;
    rank_file *files;
    size_t count, capacity;
    swi_torch_filling fill;
    swi_torch_ranks ranks;
    swi_block_part box; /* of the tensor that was placed last */
    size_t readable;
    sw_error last; /* why a file could not be read */
} reading;

static sw_status missing_file(reading *r, const char *path, uint64_t rank, sw_error *err)
{
    swi_finding_in in = {
        .severity = SW_DEFECT, .status = SW_ERR_INCOMPLETE, .code = "missing-file", .file = path};
    swi_opening_incomplete(r->o);
    return swi_report_add(r->o->report, &in, err,
                          "%s has it as a file of rank %" PRIu64 ", and it is not there",
                          SWI_RANK_META_NAME, rank);
}

static sw_status add_file(reading *r, const char *path, const char *item, uint64_t rank,
                          sw_error *err)
{
    const swi_listing_entry *known = swi_listing_find(r->o->listing, path);
    swi_entry entry = {.kind = SWI_ENTRY_OTHER};
    sw_error cause = {0};
    sw_status st =
        swi_grow_array((void **)&r->files, &r->capacity, r->count + 1, sizeof *r->files, err);
    if (st != SW_OK)
        return st;
    rank_file *f = &r->files[r->count];
    if (known != NULL) {
        entry.kind = known->kind;
        entry.bytes = known->bytes;
    } else if (swi_store_stat(r->o->store, path, &entry, &cause) != SW_OK &&
               cause.status != SW_ERR_NOTFOUND) {
        if (err != NULL)
            *err = cause;
        return cause.status;
    }
    *f = (rank_file){.item = item, .rank = rank, .bytes = entry.bytes};
    f->missing = entry.kind != SWI_ENTRY_FILE || cause.status == SW_ERR_NOTFOUND;
    st = swi_arena_text(&r->arena, path, strlen(path), &f->path, err);
    r->count += st == SW_OK;
    return st == SW_OK && f->missing ? missing_file(r, f->path, rank, err) : st;
}

static bool is_known_item(const reading *r, const char *name, size_t size)
{
    for (size_t i = 0; i < swi_rank_meta_item_count(r->meta); i++) {
        const char *item = swi_rank_meta_item(r->meta, i);
        if (strlen(item) == size && memcmp(item, name, size) == 0)
            return true;
    }
    return false;
}

static sw_status say_stale(reading *r, const char *name, sw_error *err)
{
    swi_finding_in in = {.severity = SW_WARNING, .code = "stale-file", .file = name};
    return swi_report_add(r->o->report, &in, err,
                          "a file of a rank beyond the %" PRIu64
                          " of %s: left over from an earlier save; it is not read",
                          swi_rank_meta_world(r->meta), SWI_RANK_META_NAME);
}

/* RF-4: what was saved without a resharder is in files of its own, and not in the metadata. */
static sw_status add_others(reading *r, uint64_t of_rank, sw_error *err)
{
    sw_status st = SW_OK;
    for (size_t i = 0; st == SW_OK && i < swi_listing_count(r->o->listing); i++) {
        const swi_listing_entry *e = swi_listing_at(r->o->listing, i);
        uint64_t rank = 0;
        const char *item;
        size_t size = e->kind == SWI_ENTRY_FILE ? item_of_name(e->name, &rank) : 0;
        bool stale = rank >= swi_rank_meta_world(r->meta);
        if (size > 0 && stale && of_rank == 0)
            st = say_stale(r, e->name, err);
        if (size == 0 || stale || rank != of_rank || is_known_item(r, e->name, size))
            continue;
        st = swi_arena_text(&r->arena, e->name, size, &item, err);
        if (st == SW_OK)
            st = add_file(r, e->name, item, rank, err);
    }
    return st;
}

/* Rank after rank, so that the first one that has a name is the lowest. */
static sw_status find_files(reading *r, sw_error *err)
{
    sw_status st = SW_OK;
    for (uint64_t rank = 0; st == SW_OK && rank < swi_rank_meta_world(r->meta); rank++) {
        for (size_t i = 0; st == SW_OK && i < swi_rank_meta_item_count(r->meta); i++) {
            const char *path;
            st = swi_rank_meta_file(r->meta, i, rank, &path, err);
            if (st == SW_OK)
                st = add_file(r, path, swi_rank_meta_item(r->meta, i), rank, err);
        }
        if (st == SW_OK)
            st = add_others(r, rank, err);
    }
    return st;
}

/* ---- what is in them ----------------------------------------------------------------------- */

static sw_status place(void *ctx, const swi_torch_met *met, swi_torch_box *out, sw_error *err)
{
    reading *r = ctx;
    const swi_torch_leaf *leaf = met->leaf;
    swi_rank_tensor t = {0};
    bool known;
    sw_status st =
        swi_rank_meta_find(r->meta, leaf->parts, leaf->count, r->ranks.rank, &known, &t, err);
    if (st != SW_OK)
        return st;
    if (!known && met->is_part)
        return swi_fail(err, SW_ERR_UNSUPPORTED, "a part of a DTensor of which %s does not tell",
                        SWI_RANK_META_NAME);
    out->is_own = !known;
    out->replicated = t.replicated;
    out->axes = t.axes;
    memcpy(out->shape, t.shape, sizeof out->shape);
    memcpy(out->local, t.length, sizeof out->local);
    r->box = (swi_block_part){{0}, {0}, {0}};
    memcpy(r->box.offset, t.offset, sizeof r->box.offset);
    memcpy(r->box.length, t.length, sizeof r->box.length);
    out->parts = &r->box;
    out->part_count = 1;
    return SW_OK;
}

/* {item: what the file holds} */
static sw_status under_item(swi_torch_object *object, const char *item, sw_error *err)
{
    sw_value pair[2] = {{0}, object->root}, dict;
    sw_status st = swi_graph_text(object->graph, SW_VALUE_STR, item, strlen(item), &pair[0], err);
    if (st == SW_OK)
        st = swi_graph_dict(object->graph, &dict, err);
    if (st == SW_OK)
        st = swi_graph_set_items(object->graph, dict, pair, 1, err);
    if (st == SW_OK)
        object->root = dict;
    return st;
}

/* Of a later rank only the values that differ from the first one's are kept. */
static void forget_repeated(swi_torch_kept *kept, size_t values_before)
{
    if (kept->value_count > values_before)
        kept->objects[kept->object_count - 1].repeats = true;
    else
        swi_torch_object_free(&kept->objects[--kept->object_count]);
}

static bool is_first(const reading *r, const rank_file *f)
{
    for (const rank_file *g = r->files; g < f; g++)
        if (g->item == f->item && !g->missing)
            return false;
    return true;
}

/* RF-6: files that changed places would give each other's rows. */
static sw_status wrong_rank(reading *r, const rank_file *f, int64_t rank, sw_error *err)
{
    swi_finding_in in = {
        .severity = SW_DEFECT, .status = SW_ERR_CONFLICT, .code = "wrong-rank", .file = f->path};
    swi_opening_incomplete(r->o);
    return swi_report_add(r->o->report, &in, err,
                          "it stands for rank %" PRIu64 ", and rank %" PRId64 " saved it", f->rank,
                          rank);
}

static sw_status put_in(reading *r, const rank_file *f, const swi_torch_file *tf,
                        const swi_reader *reader, sw_error *err)
{
    swi_torch_kept *kept = r->fill.kept;
    swi_torch_object object = {0};
    size_t values = kept->value_count;
    swi_opening_memory(r->o, 2 * swi_graph_memory(swi_torch_graph(tf)));
    sw_status st = swi_torch_object_make(tf, reader, true, &object, err);
    if (st == SW_OK)
        st = under_item(&object, f->item, err);
    if (st != SW_OK) {
        swi_torch_object_free(&object);
        return st;
    }
    if (object.rank >= 0 && (uint64_t)object.rank != f->rank)
        st = wrong_rank(r, f, object.rank, err);
    r->ranks.rank = f->rank;
    if (st != SW_OK) {
        swi_torch_object_free(&object);
        return st;
    }
    st = swi_torch_fill(&r->fill, tf, f->path, f->bytes, &object, err);
    if (st == SW_OK && f->rank > 0 && !is_first(r, f))
        forget_repeated(kept, values);
    return st == SW_OK ? SW_OK : swi_error_prefix(err, "%s", f->path);
}

static bool could_not_work(sw_status st)
{
    return st == SW_ERR_NOMEM || st == SW_ERR_IO || st == SW_ERR_LIMIT;
}

static sw_status read_file(reading *r, const swi_reader *reader, uint32_t i, sw_error *err)
{
    const rank_file *f = &r->files[i];
    swi_torch_file *tf = NULL;
    swi_pickle_unsafe unsafe = {0};
    sw_error cause = {0};
    sw_status opened = swi_torch_open_file(reader, i, f->bytes, &unsafe, &tf, &cause);
    sw_status st = swi_pickle_report(&unsafe, f->path, "", r->o->report, err);
    r->fill.kept->unsafe = r->fill.kept->unsafe || unsafe.total > 0;
    if (st == SW_OK && opened == SW_OK) {
        st = put_in(r, f, tf, reader, err);
        r->readable++;
    } else if (st == SW_OK && could_not_work(opened)) {
        st = opened;
        if (err != NULL)
            *err = cause;
    } else if (st == SW_OK) {
        swi_finding_in in = {.severity = SW_DEFECT,
                             .status = opened,
                             .code = "unreadable-file",
                             .file = f->path,
                             .has_offset = cause.has_offset,
                             .offset_bytes = cause.offset_bytes};
        swi_opening_incomplete(r->o);
        st = swi_report_error(r->o->report, &in, &cause, err);
    }
    swi_torch_free(tf);
    return st;
}

static const char *path_of(const void *ctx, uint32_t id)
{
    const reading *r = ctx;
    return r->files[id].path;
}

static sw_status read_files(reading *r, sw_error *err)
{
    swi_filecache *cache = NULL;
    sw_status st =
        swi_filecache_make(r->o->store, (uint32_t)r->count, path_of, r, &r->o->limits, &cache, err);
    for (uint32_t i = 0; st == SW_OK && i < r->count; i++)
        if (!r->files[i].missing)
            st = read_file(r, swi_filecache_reader(cache), i, err);
    swi_filecache_free(cache);
    return st;
}

/* ---- what is missing ----------------------------------------------------------------------- */

/* What the metadata says of a tensor is not understood. */
static sw_status bad_tensor(reading *r, const char *name, const sw_error *cause, sw_error *err)
{
    swi_finding_in in = {.severity = SW_DEFECT,
                         .status = cause->status,
                         .code = "bad-tensor",
                         .file = SWI_RANK_META_NAME,
                         .tensor = name};
    if (cause->status == SW_ERR_NOMEM)
        return swi_fail_nomem(err);
    swi_opening_incomplete(r->o);
    return swi_report_error(r->o->report, &in, cause, err);
}

static sw_status add_hole(reading *r, size_t i, const swi_path *path, const char *name,
                          sw_error *err)
{
    swi_rank_tensor t = {0};
    swi_section section = {0};
    sw_error cause = {0};
    uint32_t id;
    if (swi_rank_meta_tensor(r->meta, i, &t, &cause) != SW_OK)
        return bad_tensor(r, name, &cause, err);
    sw_status st = swi_section_of(path, name, &section, err);
    const swi_tensor_in in = {.name = name,
                              .name_size = strlen(name),
                              .dtype = t.dtype != SW_DTYPE_NONE ? t.dtype : SW_U8,
                              .axes = t.axes,
                              .shape = t.shape,
                              .role = section.role};
    if (st == SW_OK)
        st = swi_builder_tensor(r->o->builder, &in, &id, err);
    if (st == SW_OK)
        st = swi_opening_section(r->o, id, (const char *)section.section.data,
                                 (const char *)section.name.data, err);
    swi_section_end(&section);
    return st;
}

/* A tensor of the metadata of which no file has a part: all of it is a hole. */
static sw_status add_unmet(reading *r, size_t i, sw_error *err)
{
    swi_path path = {0};
    swi_buf name = {0};
    size_t size;
    const char *parts = swi_rank_meta_path(r->meta, i, &size);
    sw_status st = swi_buf_append(&name, parts, size, err);
    if (st == SW_OK)
        st = swi_buf_u8(&name, 0, err);
    for (size_t at = 0; st == SW_OK && at <= size; at += strlen(parts + at) + 1) {
        if (path.count < SWI_PATH_PARTS_MAX)
            path.parts[path.count++] = parts + at;
        if (at > 0)
            name.data[at - 1] = '.';
    }
    if (st == SW_OK && swi_names_find(r->fill.names, name.data, size) < 0)
        st = add_hole(r, i, &path, (const char *)name.data, err);
    swi_buf_free(&name);
    return st;
}

static sw_status add_facts(reading *r, sw_error *err)
{
    sw_status st = swi_opening_fact(r->o, "ranks", err, "%" PRIu64, swi_rank_meta_world(r->meta));
    return st == SW_OK ? swi_torch_say_checksums(&r->fill, err) : st;
}

/* ---- the framework ------------------------------------------------------------------------- */

static sw_status read_meta(reading *r, sw_error *err)
{
    uint8_t *data = NULL;
    size_t size = 0;
    sw_status st = swi_store_read_all(r->o->store, SWI_RANK_META_NAME, r->o->limits.metadata_bytes,
                                      &data, &size, err);
    if (st == SW_OK)
        st = swi_rank_meta_parse(data, size, &r->o->limits, r->o->report, &r->meta, err);
    free(data);
    if (st == SW_OK)
        swi_opening_memory(r->o, size + swi_rank_meta_memory(r->meta));
    return st;
}

static sw_status open_rank_files(swi_opening *o, sw_error *err)
{
    reading r = {.o = o};
    sw_status st = swi_torch_filling_begin(o, &r.fill, err);
    r.ranks = (swi_torch_ranks){.place = place, .ctx = &r};
    r.fill.ranks = &r.ranks;
    if (st == SW_OK)
        st = read_meta(&r, err);
    if (st == SW_OK)
        st = find_files(&r, err);
    if (st == SW_OK)
        st = read_files(&r, err);
    for (size_t i = 0; st == SW_OK && i < swi_rank_meta_tensor_count(r.meta); i++)
        st = add_unmet(&r, i, err);
    if (st == SW_OK)
        st = add_facts(&r, err);
    swi_torch_filling_end(&r.fill);
    swi_rank_meta_free(r.meta);
    swi_arena_free(&r.arena);
    free(r.files);
    return st;
}

const swi_framework swi_framework_rank_files = {
    .name = "ranks",
    .title = "Files of ranks (torch_checkpointing)",
    .claim = claim,
    .open = open_rank_files,
    .state = swi_torch_state,
    .value = swi_torch_value,
};
