/*
 * Reading files of ranks: which there are, what model they are of, who holds what. Clauses SH-n are
 * those of specs/sharded.md.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/report.h"
#include "base/text.h"
#include "sharded/container.h"

/* Missing files that are named one by one. */
#define NAMED_MAX 16U

/* ---- the model ---------------------------------------------------------------------------------
 */

/* SH-3: the files do not say what their tensors are parts of. */
static sw_status find_model(swi_sharded_reading *r, sw_error *err)
{
    const swi_model_ask ask = {.map = r->o->map,
                               .config = r->o->config,
                               .store = r->o->store,
                               .side = r->kind->side,
                               .limits = &r->o->limits};
    sw_error cause = {0};
    sw_status st = swi_model_find(&ask, &r->model, &cause);
    if (st == SW_ERR_NOTFOUND)
        return swi_fail(err, SW_ERR_INCOMPLETE,
                        "files of ranks do not say what they are parts of: %s", cause.text);
    if (st != SW_OK) {
        if (err != NULL)
            *err = cause;
        return st;
    }
    int64_t side = swi_model_side(r->model, r->kind->side);
    if (side < 0)
        return swi_fail(err, SW_ERR_UNSUPPORTED,
                        "the map %s has no side %s; give another with --map",
                        swi_model_name(r->model), r->kind->side);
    r->side = (size_t)side;
    r->tensors = swi_model_tensor_count(r->model, r->side);
    st = swi_alloc_array(r->tensors, sizeof *r->seen, (void **)&r->seen, err);
    for (size_t i = 0; st == SW_OK && i < r->tensors; i++)
        r->seen[i].id = UINT32_MAX;
    return st;
}

/* ---- which files -------------------------------------------------------------------------------
 */

static sw_status say_missing_rank(swi_sharded_reading *r, uint64_t rank, sw_error *err)
{
    const swi_rank_name is = {.rank = rank};
    char name[SWI_RANK_NAME_BYTES];
    swi_rank_name_print(r->kind->names[0], &is, name);
    const swi_finding_in in = {
        .severity = SW_DEFECT, .status = SW_ERR_INCOMPLETE, .code = "missing-file", .file = name};
    return swi_report_add(r->o->report, &in, err,
                          "there is no file of rank %" PRIu64 " of %" PRIu64, rank, r->ranks);
}

/* SH-2: every rank has a file. */
static sw_status check_ranks(swi_sharded_reading *r, sw_error *err)
{
    uint64_t missing = 0;
    sw_status st = SW_OK;
    size_t i = 0;
    for (uint64_t rank = 0; st == SW_OK && rank < r->ranks; rank++) {
        bool has = i < r->list.count && r->list.items[i].is.rank == rank;
        while (i < r->list.count && r->list.items[i].is.rank == rank)
            i++;
        if (!has && missing++ < NAMED_MAX)
            st = say_missing_rank(r, rank, err);
    }
    if (missing == 0 || st != SW_OK)
        return st;
    r->cut = true;
    swi_opening_incomplete(r->o);
    const swi_finding_in in = {
        .severity = SW_DEFECT, .status = SW_ERR_INCOMPLETE, .code = "missing-file"};
    return missing <= NAMED_MAX
               ? SW_OK
               : swi_report_add(r->o->report, &in, err,
                                "%" PRIu64 " of %" PRIu64 " ranks have no file", missing, r->ranks);
}

/* SH-4: what is left of a run of more ranks. */
static sw_status say_left_over(swi_sharded_reading *r, size_t i, sw_error *err)
{
    const swi_finding_in in = {.severity = SW_DEFECT,
                               .status = SW_ERR_CONFLICT,
                               .code = "mixed-files",
                               .file = r->list.items[i].path};
    return swi_report_add(r->o->report, &in, err,
                          "it is of a rank beyond the %" PRIu64 " that the other files are of",
                          r->ranks);
}

/* ---- what is in them ---------------------------------------------------------------------------
 */

static sw_status say_unreadable(swi_sharded_reading *r, sw_status status, sw_error *cause,
                                sw_error *err)
{
    const swi_rank_file *f = &r->list.items[r->file];
    swi_quoted q;
    const swi_finding_in in = {.severity = SW_DEFECT,
                               .status = status,
                               .code = "unreadable-file",
                               .file = f->path,
                               .has_offset = cause->has_offset,
                               .offset_bytes = cause->offset_bytes};
    r->cut = true;
    swi_opening_incomplete(r->o);
    sw_status st = swi_report_error(r->o->report, &in, cause, err);
    swi_error_prefix(cause, "%s", swi_quote_str(&q, f->path));
    r->last = *cause;
    return st;
}

static sw_status read_file(swi_sharded_reading *r, size_t i, sw_error *err)
{
    sw_status unreadable = SW_OK;
    sw_error cause = {0};
    swi_quoted q;
    r->file = (uint32_t)i;
    sw_status st = r->kind->container->read(r, r->file, NULL, NULL, &unreadable, &cause, err);
    if (st == SW_OK && unreadable == SW_OK) {
        r->readable++;
        return SW_OK;
    }
    if (st == SW_OK && !swi_could_not_work(unreadable))
        return say_unreadable(r, unreadable, &cause, err);
    if (st == SW_OK) {
        st = unreadable;
        if (err != NULL)
            *err = cause;
    }
    return swi_error_prefix(err, "%s", swi_quote_str(&q, r->list.items[i].path));
}

static sw_status read_rank(swi_sharded_reading *r, size_t *at, sw_error *err)
{
    uint64_t rank = r->list.items[*at].is.rank;
    sw_status st = SW_OK;
    bool beyond = rank >= r->ranks;
    for (; st == SW_OK && *at < r->list.count && r->list.items[*at].is.rank == rank; ++*at)
        st = beyond ? say_left_over(r, *at, err) : read_file(r, *at, err);
    if (st == SW_OK && !beyond)
        swi_rank_note_lacking(r, rank);
    return st;
}

static sw_status read_all(swi_sharded_reading *r, sw_error *err)
{
    sw_status st = SW_OK;
    for (size_t i = 0; st == SW_OK && i < r->list.count;)
        st = read_rank(r, &i, err);
    if (st != SW_OK || r->readable > 0)
        return st;
    if (err != NULL)
        *err = r->last;
    return r->last.status;
}

/* ---- all of it ---------------------------------------------------------------------------------
 */

static sw_status add_facts(swi_sharded_reading *r, sw_error *err)
{
    sw_status st = swi_opening_fact(r->o, "ranks", err, "%" PRIu64, r->ranks);
    if (st == SW_OK && r->list.count > r->ranks)
        st = swi_opening_fact(r->o, "files", err, "%zu", r->list.count);
    return st == SW_OK ? swi_opening_fact(r->o, "map", err, "%s, side %s", swi_model_name(r->model),
                                          r->kind->side)
                       : st;
}

static sw_status read_ranks(swi_sharded_reading *r, sw_error *err)
{
    const swi_rank_container *c = r->kind->container;
    sw_status st = swi_filecache_make(r->o->store, (uint32_t)r->list.count, swi_rank_list_path,
                                      &r->list, &r->o->limits, &r->cache, err);
    if (st == SW_OK)
        st = swi_rank_decide(r, err);
    if (st == SW_OK)
        st = check_ranks(r, err);
    if (st == SW_OK && c->begin != NULL)
        st = c->begin(r, err);
    if (st == SW_OK)
        st = read_all(r, err);
    if (st == SW_OK)
        st = swi_rank_say_lacking(r, err);
    if (st == SW_OK && c->finish != NULL)
        st = c->finish(r, err);
    if (c->end != NULL)
        c->end(r);
    return st;
}

sw_status swi_sharded_open(const swi_sharded_kind *kind, swi_opening *o, sw_error *err)
{
    swi_sharded_reading r = {.kind = kind, .o = o};
    sw_status st = swi_rank_list_find(kind, o->listing, &r.list, err);
    if (st == SW_OK)
        st = find_model(&r, err);
    if (st == SW_OK)
        st = read_ranks(&r, err);
    if (st == SW_OK)
        st = add_facts(&r, err);
    swi_filecache_free(r.cache);
    swi_division_free(r.division);
    swi_model_free(r.model);
    swi_rank_list_free(&r.list);
    free(r.seen);
    return st;
}
