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
#include "ranks/rank_folder.h"
#include "ranks/rank_meta.h"
#include "ranks/rank_reading.h"
#include "ranks/rank_series.h"
#include "select/sections.h"

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
static sw_status claim_index(const swi_store *store, const swi_listing *listing, swi_claim *out,
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

/* RS-1: an index tells more than names. One file of a series stands for its folder. */
static sw_status claim(const swi_store *store, const swi_listing *listing, swi_claim *out,
                       sw_error *err)
{
    sw_status st = claim_index(store, listing, out, err);
    if (st == SW_OK && *out == SWI_CLAIM_NONE && swi_rank_series_any(listing))
        *out = swi_listing_count(listing) > 1 ? SWI_CLAIM_WHOLE : SWI_CLAIM_PART;
    return st;
}

/* ---- files --------------------------------------------------------------------------------- */

typedef struct reading {
    swi_opening *o;
    swi_rank_meta *meta;
    swi_rank_reading r;
    swi_block_part box; /* of the tensor that was placed last */
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
    const swi_file_of_rank file = {.path = path, .item = item, .rank = rank};
    bool there;
    sw_status st = swi_rank_reading_add(&r->r, &file, &there, err);
    return st == SW_OK && !there ? missing_file(r, path, rank, err) : st;
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
        st = swi_arena_text(&r->r.arena, e->name, size, &item, err);
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
        swi_rank_meta_find(r->meta, leaf->parts, leaf->count, r->r.ranks.rank, &known, &t, err);
    if (st != SW_OK)
        return st;
    if (!known && met->share != NULL)
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
    if (st == SW_OK && swi_names_find(r->r.fill.names, name.data, size) < 0)
        st = add_hole(r, i, &path, (const char *)name.data, err);
    swi_buf_free(&name);
    return st;
}

static sw_status add_facts(reading *r, sw_error *err)
{
    sw_status st = swi_opening_fact(r->o, "ranks", err, "%" PRIu64, swi_rank_meta_world(r->meta));
    return st == SW_OK ? swi_torch_say_checksums(&r->r.fill, err) : st;
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

static sw_status open_indexed(swi_opening *o, sw_error *err)
{
    reading r = {.o = o};
    sw_status st = swi_rank_reading_begin(o, place, &r, &r.r, err);
    if (st == SW_OK)
        st = read_meta(&r, err);
    if (st == SW_OK)
        st = find_files(&r, err);
    if (st == SW_OK)
        st = swi_rank_reading_each(&r.r, swi_rank_reading_put, &r.r, err);
    for (size_t i = 0; st == SW_OK && i < swi_rank_meta_tensor_count(r.meta); i++)
        st = add_unmet(&r, i, err);
    if (st == SW_OK)
        st = add_facts(&r, err);
    swi_rank_reading_end(&r.r);
    swi_rank_meta_free(r.meta);
    return st;
}

static sw_status open_rank_files(swi_opening *o, sw_error *err)
{
    swi_claim index;
    sw_status st = claim_index(o->store, o->listing, &index, err);
    if (st != SW_OK)
        return st;
    return index != SWI_CLAIM_NONE ? open_indexed(o, err) : swi_rank_folder_open(o, err);
}

const swi_framework swi_framework_rank_files = {
    .name = "ranks",
    .title = "Files of ranks (torch.save)",
    .claim = claim,
    .open = open_rank_files,
    .state = swi_torch_state,
    .value = swi_torch_value,
};
