/*
 * PyTorch's torch.distributed.checkpoint (DCP): the index `.metadata` says which chunks of which
 * tensors lie where in `__R_I.distcp`. With use_collectives=False each rank has an index of its
 * own,
 * `__R.metadata`, and the checkpoint is their union.
 */
#include "dcp/dcp.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/report.h"
#include "base/text.h"
#include "dcp/dcp_state.h"
#include "frameworks.h"
#include "ranges.h"
#include "ranks/rank_lay.h"

/* Reading an index takes at most so many times its size, itself included (tests/bench measures). */
#define PARSE_FACTOR 4

int64_t swi_dcp_file_rank(const char *name, const char *suffix)
{
    if (name[0] != '_' || name[1] != '_')
        return -1;
    const char *p = name + 2;
    int64_t rank = 0;
    size_t digits = 0;
    for (; *p >= '0' && *p <= '9' && digits < 9; p++, digits++)
        rank = rank * 10 + (*p - '0');
    if (digits == 0)
        return -1;
    if (strcmp(suffix, ".metadata") == 0)
        return strcmp(p, suffix) == 0 ? rank : -1;
    return *p == '_' && swi_has_suffix(p, suffix) ? rank : -1;
}

static bool is_index(const char *name)
{
    return strcmp(name, ".metadata") == 0 || swi_dcp_file_rank(name, ".metadata") >= 0;
}

static bool has_index(const swi_listing *listing)
{
    for (size_t i = 0; i < swi_listing_count(listing); i++) {
        const swi_listing_entry *e = swi_listing_at(listing, i);
        if (e->kind == SWI_ENTRY_FILE && is_index(e->name))
            return true;
    }
    return false;
}

/* An index alone is a part: what it names lies elsewhere, or is lost. */
static swi_claim claim_of(const swi_listing *listing)
{
    if (has_index(listing))
        return swi_listing_count(listing) > 1 ? SWI_CLAIM_WHOLE : SWI_CLAIM_PART;
    for (size_t i = 0; i < swi_listing_count(listing); i++) {
        const swi_listing_entry *e = swi_listing_at(listing, i);
        if (e->kind == SWI_ENTRY_FILE && swi_has_suffix(e->name, ".distcp"))
            return SWI_CLAIM_PART;
    }
    return SWI_CLAIM_NONE;
}

static sw_status claim(const swi_store *store, const swi_listing *listing, swi_claim *out,
                       sw_error *err)
{
    (void)store;
    (void)err;
    *out = claim_of(listing);
    return SW_OK;
}

/* DCP-1: the index is the commit record; without it there is no checkpoint. */
static sw_status no_index(const swi_opening *o, sw_error *err)
{
    uint64_t *ranks = NULL;
    size_t count = 0, capacity = 0;
    for (size_t i = 0; i < swi_listing_count(o->listing); i++) {
        const char *name = swi_listing_at(o->listing, i)->name;
        int64_t rank = swi_dcp_file_rank(name, ".distcp");
        if (rank < 0)
            continue;
        sw_status st = swi_grow_array((void **)&ranks, &capacity, count + 1, sizeof *ranks, err);
        if (st != SW_OK) {
            free(ranks);
            return st;
        }
        ranks[count++] = (uint64_t)rank;
    }
    swi_ranges text = {0};
    swi_ranges_add_all(&text, ranks, count);
    free(ranks);
    const char *tmp = swi_listing_find(o->listing, ".metadata.tmp")
                          ? "; .metadata.tmp is there: the save was cut before it was committed"
                          : "; look for it on the node of rank 0, or take an earlier checkpoint";
    return swi_fail_at(err, SW_ERR_INCOMPLETE, "DCP-1", 0,
                       "not a complete DCP folder: .metadata is missing; %zu payload files of "
                       "ranks %s are present%s",
                       count, swi_ranges_text(&text), tmp);
}

static sw_status refuse_unsafe(swi_opening *o, const char *path, const swi_pickle_unsafe *unsafe,
                               sw_error *err)
{
    sw_error cause = err != NULL ? *err : (sw_error){.status = SW_ERR_UNSAFE};
    sw_status st = swi_pickle_report(unsafe, path, "", o->report, err);
    if (st != SW_OK)
        return st;
    if (err != NULL)
        *err = cause;
    return SW_ERR_UNSAFE;
}

/* Dangerous names are refused, whatever else is wrong with it. */
static sw_status parse_index(swi_opening *o, const char *path, swi_feed *feed, swi_dcp_part *out,
                             sw_error *err)
{
    swi_pickle_unsafe unsafe = {0};
    swi_opening_memory(o, PARSE_FACTOR * swi_feed_left(feed));
    sw_status st = swi_dcp_meta_parse(feed, &o->limits, &unsafe, &out->meta, err);
    if (unsafe.total == 0 || st == SW_ERR_NOMEM)
        return st == SW_OK ? SW_OK : swi_error_prefix(err, "%s", path);
    if (st == SW_OK) {
        swi_dcp_meta_free(out->meta);
        out->meta = NULL;
    }
    if (st == SW_OK || (err != NULL && err->status != SW_ERR_UNSAFE))
        swi_fail_at(err, SW_ERR_UNSAFE, "DCP-2", unsafe.at[0].offset_bytes,
                    "%s would run code when loaded: it names %s", path, unsafe.at[0].name);
    return refuse_unsafe(o, path, &unsafe, err);
}

static sw_status read_index(swi_opening *o, const char *path, swi_dcp_part *out, sw_error *err)
{
    swi_feed feed;
    sw_status st = swi_store_feed(o->store, path, o->limits.metadata_bytes, &feed, err);
    if (st != SW_OK)
        return st;
    st = parse_index(o, path, &feed, out, err);
    swi_feed_end(&feed);
    if (st == SW_OK)
        out->path = path;
    return st;
}

static int by_rank(const void *a, const void *b)
{
    const swi_dcp_part *p = a, *q = b;
    return p->rank < q->rank ? -1 : p->rank > q->rank;
}

static sw_status missing_ranks(swi_opening *o, const swi_dcp_part *parts, size_t count,
                               sw_error *err)
{
    swi_ranges gaps = {0};
    int64_t next = 0;
    for (size_t i = 0; i < count; i++) {
        for (; next < parts[i].rank && next < 1000000; next++)
            swi_ranges_add(&gaps, (uint64_t)next);
        next = parts[i].rank + 1;
    }
    if (gaps.count == 0)
        return SW_OK;
    swi_opening_incomplete(o);
    swi_finding_in in = {
        .severity = SW_DEFECT, .status = SW_ERR_INCOMPLETE, .code = "missing-rank"};
    return swi_report_add(o->report, &in, err,
                          "the index files (__R.metadata) of ranks %s are missing",
                          swi_ranges_text(&gaps));
}

static sw_status read_rank_indexes(swi_opening *o, swi_dcp_part **parts, size_t *count,
                                   sw_error *err)
{
    size_t capacity = 0;
    for (size_t i = 0; i < swi_listing_count(o->listing); i++) {
        const char *name = swi_listing_at(o->listing, i)->name;
        int64_t rank = swi_dcp_file_rank(name, ".metadata");
        if (rank < 0)
            continue;
        sw_status st = swi_grow_array((void **)parts, &capacity, *count + 1, sizeof **parts, err);
        if (st == SW_OK)
            st = read_index(o, name, &(*parts)[*count], err);
        if (st != SW_OK)
            return st;
        (*parts)[*count].rank = rank;
        *count += 1;
    }
    if (*count > 1)
        qsort(*parts, *count, sizeof **parts, by_rank);
    return missing_ranks(o, *parts, *count, err);
}

static sw_status open_dcp(swi_opening *o, sw_error *err)
{
    swi_dcp_part *parts = NULL;
    size_t count = 0;
    sw_status st = SW_OK;
    if (!has_index(o->listing))
        return no_index(o, err);
    if (swi_listing_find(o->listing, ".metadata") != NULL) {
        st = swi_alloc_array(1, sizeof *parts, (void **)&parts, err);
        if (st == SW_OK)
            st = read_index(o, ".metadata", &parts[0], err);
        if (st == SW_OK) {
            parts[0].rank = -1;
            count = 1;
        }
    } else {
        st = read_rank_indexes(o, &parts, &count, err);
    }
    if (st == SW_OK)
        st = swi_dcp_fill(o, parts, count, err);
    for (size_t i = 0; i < count; i++)
        swi_dcp_meta_free(parts[i].meta);
    free(parts);
    return st;
}

const swi_framework swi_framework_dcp = {
    .name = "dcp",
    .title = "PyTorch distributed checkpoint (DCP)",
    .alias = "fsdp2",
    .target = "dcp[:ranks=N][,replicate=R][,tp=T][,files=ranks]",
    .takes = SWI_TAKES_STATE,
    .optimizer_forms =
        SWI_FORM_BIT(SWI_FORM_KEEP) | SWI_FORM_BIT(SWI_FORM_NESTED) | SWI_FORM_BIT(SWI_FORM_FLAT),
    .optimizer_form = SWI_FORM_NAMES,
    .alias_form = SWI_FORM_NAMES,
    .claim = claim,
    .open = open_dcp,
    .state = swi_dcp_state,
    .choose = swi_rank_choose_files,
    .layout = swi_dcp_layout,
    .holds_optimizer = true,
    .holds_values = true,
    .divides = true,
};
