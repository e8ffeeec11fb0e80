/* Clauses RF-n are those of specs/rank_files.md. */
#include "ranks/rank_reading.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/report.h"
#include "model/value.h"
#include "ranks/rank_series.h"

/* ---- RF-9: one save, one step ---------------------------------------------------------------- */

/* A counter of the whole run: what schedulers and trainers count, and the optimizer: "state", a
 * parameter, "step". */
static bool is_counter(const swi_torch_leaf *leaf)
{
    static const char *const counters[] = {"last_epoch", "_step_count", "global_step", "iteration"};
    const char *last = leaf->count > 0 ? leaf->parts[leaf->count - 1] : "";
    for (size_t i = 0; i < sizeof counters / sizeof counters[0]; i++)
        if (strcmp(last, counters[i]) == 0)
            return true;
    return leaf->count >= 3 && strcmp(last, "step") == 0 &&
           strcmp(leaf->parts[leaf->count - 3], "state") == 0;
}

/* Files of ranks that were at different steps are of different saves, whatever else fits. */
static sw_status differs(void *ctx, const swi_torch_leaf *leaf, const swi_torch_object *object,
                         const swi_torch_value_at *first, sw_error *err)
{
    swi_rank_reading *r = ctx;
    int64_t here, there;
    if (!is_counter(leaf) || !sw_value_int(object->graph, leaf->node, &here) ||
        !sw_value_int(r->fill.kept->objects[first->object].graph, first->node, &there))
        return SW_OK;
    swi_finding_in in = {.severity = SW_DEFECT,
                         .status = SW_ERR_CONFLICT,
                         .code = "steps-differ",
                         .file = r->now->path,
                         .tensor = leaf->name};
    swi_opening_incomplete(r->o);
    return swi_report_add(r->o->report, &in, err,
                          "rank %" PRIu64 " was at %" PRId64 ", and the first rank at %" PRId64
                          ": their files are of different saves",
                          r->now->rank, here, there);
}

/* ---- begin and end -------------------------------------------------------------------------- */

static sw_status place(void *ctx, const swi_torch_met *met, swi_torch_box *out, sw_error *err)
{
    const swi_rank_reading *r = ctx;
    return r->place(r->place_ctx, met, out, err);
}

sw_status swi_rank_reading_begin(swi_opening *o, swi_rank_place_fn place_fn, void *ctx,
                                 swi_rank_reading *out, sw_error *err)
{
    *out = (swi_rank_reading){.o = o, .place = place_fn, .place_ctx = ctx};
    out->ranks = (swi_torch_ranks){.place = place, .differs = differs, .ctx = out};
    sw_status st = swi_torch_filling_begin(o, &out->fill, err);
    out->fill.ranks = &out->ranks;
    return st;
}

void swi_rank_reading_end(swi_rank_reading *r)
{
    swi_torch_filling_end(&r->fill);
    swi_arena_free(&r->arena);
    free(r->files);
    *r = (swi_rank_reading){0};
}

/* ---- which files ---------------------------------------------------------------------------- */

/* What lies at the path; SWI_ENTRY_OTHER: nothing. */
static sw_status look_up(const swi_rank_reading *r, const char *path, swi_entry *out, sw_error *err)
{
    const swi_listing_entry *known = swi_listing_find(r->o->listing, path);
    sw_error cause = {0};
    *out = (swi_entry){.kind = SWI_ENTRY_OTHER};
    if (known != NULL) {
        out->kind = known->kind;
        out->bytes = known->bytes;
        return SW_OK;
    }
    sw_status st = swi_store_stat(r->o->store, path, out, &cause);
    if (st == SW_OK)
        return SW_OK;
    *out = (swi_entry){.kind = SWI_ENTRY_OTHER};
    if (st == SW_ERR_NOTFOUND)
        return SW_OK;
    if (err != NULL)
        *err = cause;
    return st;
}

sw_status swi_rank_reading_add(swi_rank_reading *r, const swi_file_of_rank *file, bool *there,
                               sw_error *err)
{
    swi_entry entry;
    sw_status st = look_up(r, file->path, &entry, err);
    if (st == SW_OK)
        st = swi_grow_array((void **)&r->files, &r->capacity, r->count + 1, sizeof *r->files, err);
    if (st != SW_OK)
        return st;
    swi_file_of_rank *f = &r->files[r->count];
    *f = *file;
    f->bytes = entry.bytes;
    f->missing = entry.kind != SWI_ENTRY_FILE;
    *there = !f->missing;
    st = swi_arena_text(&r->arena, file->path, strlen(file->path), &f->path, err);
    if (st == SW_OK && file->item != NULL)
        st = swi_arena_text(&r->arena, file->item, strlen(file->item), &f->item, err);
    r->count += st == SW_OK;
    return st;
}

/* ---- opening them --------------------------------------------------------------------------- */

static sw_status unreadable(swi_rank_reading *r, swi_file_of_rank *f, const sw_error *cause,
                            sw_error *err)
{
    swi_finding_in in = {.severity = SW_DEFECT,
                         .status = cause->status,
                         .code = "unreadable-file",
                         .file = f->path,
                         .has_offset = cause->has_offset,
                         .offset_bytes = cause->offset_bytes};
    if (swi_could_not_work(cause->status)) {
        if (err != NULL)
            *err = *cause;
        return cause->status;
    }
    f->missing = true;
    swi_opening_incomplete(r->o);
    return swi_report_error(r->o->report, &in, cause, err);
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

static sw_status give(swi_rank_reading *r, const swi_file_of_rank *f, const swi_torch_file *tf,
                      const swi_reader *reader, swi_rank_file_fn fn, void *ctx, sw_error *err)
{
    swi_torch_object object = {0};
    swi_opening_memory(r->o, 2 * swi_graph_memory(swi_torch_graph(tf)));
    sw_status st = swi_torch_object_make(tf, reader, true, &object, err);
    if (st == SW_OK && f->item != NULL)
        st = under_item(&object, f->item, err);
    if (st == SW_OK)
        st = fn(ctx, f, tf, &object, err);
    swi_torch_object_free(&object);
    return st == SW_OK ? SW_OK : swi_error_prefix(err, "%s", f->path);
}

static sw_status open_one(swi_rank_reading *r, const swi_reader *reader, uint32_t i,
                          swi_rank_file_fn fn, void *ctx, sw_error *err)
{
    swi_file_of_rank *f = &r->files[i];
    swi_torch_file *tf = NULL;
    swi_pickle_unsafe unsafe = {0};
    sw_error cause = {0};
    sw_status opened = swi_torch_open_file(reader, i, f->bytes, &unsafe, &tf, &cause);
    sw_status st = SW_OK;
    if (!f->looked)
        st = swi_pickle_report(&unsafe, f->path, "", r->o->report, err);
    f->looked = true;
    r->fill.kept->unsafe = r->fill.kept->unsafe || unsafe.total > 0;
    if (st == SW_OK)
        st = opened == SW_OK ? give(r, f, tf, reader, fn, ctx, err) : unreadable(r, f, &cause, err);
    swi_torch_free(tf);
    return st;
}

static const char *path_of(const void *ctx, uint32_t id)
{
    const swi_rank_reading *r = ctx;
    return r->files[id].path;
}

sw_status swi_rank_reading_each(swi_rank_reading *r, swi_rank_file_fn fn, void *ctx, sw_error *err)
{
    swi_filecache *cache = NULL;
    sw_status st =
        swi_filecache_make(r->o->store, (uint32_t)r->count, path_of, r, &r->o->limits, &cache, err);
    for (uint32_t i = 0; st == SW_OK && i < r->count; i++)
        if (!r->files[i].missing)
            st = open_one(r, swi_filecache_reader(cache), i, fn, ctx, err);
    swi_filecache_free(cache);
    return st;
}

/* ---- into the catalog ----------------------------------------------------------------------- */

/* RF-6, RS-4: files that changed places would give each other's parts. */
static sw_status check_rank(swi_rank_reading *r, const swi_file_of_rank *f,
                            const swi_torch_file *tf, const swi_torch_object *object, sw_error *err)
{
    swi_finding_in in = {
        .severity = SW_DEFECT, .status = SW_ERR_CONFLICT, .code = "wrong-rank", .file = f->path};
    int64_t rank = object->rank;
    bool inside = rank >= 0;
    if (!inside)
        rank = swi_series_saved_rank(f->path, swi_torch_saved_as(tf));
    if (rank < 0 || (uint64_t)rank == f->rank)
        return SW_OK;
    swi_opening_incomplete(r->o);
    return swi_report_add(r->o->report, &in, err,
                          inside ? "it stands for rank %" PRIu64 ", and rank %" PRId64 " saved it"
                                 : "it stands for rank %" PRIu64
                                   ", and was saved as the file of rank %" PRId64,
                          f->rank, rank);
}

/* RF-7: of what every rank saved the first one's is kept, and the values that differ from it. */
static void forget_repeated(swi_torch_kept *kept, size_t values_before)
{
    if (kept->value_count > values_before)
        kept->objects[kept->object_count - 1].repeats = true;
    else
        swi_torch_object_free(&kept->objects[--kept->object_count]);
}

sw_status swi_rank_reading_put(void *ctx, const swi_file_of_rank *f, const swi_torch_file *tf,
                               swi_torch_object *object, sw_error *err)
{
    swi_rank_reading *r = ctx;
    swi_torch_kept *kept = r->fill.kept;
    size_t values = kept->value_count, news = r->fill.news;
    sw_status st = check_rank(r, f, tf, object, err);
    if (st != SW_OK)
        return st;
    r->now = f;
    r->ranks.rank = f->rank;
    st = swi_torch_fill(&r->fill, tf, f->path, f->bytes, object, err);
    if (st == SW_OK && r->fill.news == news)
        forget_repeated(kept, values);
    return st;
}
