/* Where local tensors belong, and what is wrong with those that have no place. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/nearest.h"
#include "base/report.h"
#include "base/text.h"
#include "sharded/reading.h"

#define SHAPE_TEXT 160

sw_status swi_rank_say(swi_sharded_reading *r, sw_status status, const char *code,
                       const char *tensor, sw_error *err, const char *fmt, ...)
{
    char text[512];
    swi_finding_in in = {.severity = SW_DEFECT,
                         .status = status,
                         .code = code,
                         .file = r->list.items[r->file].path,
                         .tensor = tensor};
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    swi_utf8_trim(text);
    swi_opening_incomplete(r->o);
    return swi_report_add(r->o->report, &in, err, "%s", text);
}

static const char *shape_text(uint32_t axes, const int64_t *shape, char out[SHAPE_TEXT])
{
    size_t used = 1;
    out[0] = '[';
    for (uint32_t k = 0; k < axes && used + 24 < SHAPE_TEXT; k++) {
        int n = snprintf(out + used, SHAPE_TEXT - used, "%s%" PRId64, k > 0 ? ", " : "", shape[k]);
        used += n > 0 ? (size_t)n : 0;
    }
    out[used] = ']';
    out[used + 1] = '\0';
    return out;
}

/* SH-6. */
static sw_status say_unknown(swi_sharded_reading *r, const char *name, sw_error *err)
{
    swi_nearest nearest = swi_nearest_begin(name, strlen(name));
    swi_model_tensor t;
    swi_quoted q;
    for (size_t i = 0; swi_model_tensor_at(r->model, r->side, i, &t); i++)
        swi_nearest_offer(&nearest, t.name);
    return swi_rank_say(r, SW_ERR_CONFLICT, "unknown-tensor", name, err,
                        "the map %s knows no %s tensor of this name%s%s; if it is another model "
                        "give --config or --map",
                        swi_model_name(r->model), r->kind->side,
                        nearest.found != NULL ? ": nearest is " : "",
                        nearest.found != NULL ? swi_quote_str(&q, nearest.found) : "");
}

/* Every rank has it; once is enough. */
static sw_status say_ignored(swi_sharded_reading *r, const char *name, sw_error *err)
{
    const swi_finding_in in = {.severity = SW_NOTE,
                               .code = "map-ignored",
                               .file = r->list.items[r->file].path,
                               .tensor = name};
    if (r->list.items[r->file].is.rank > 0)
        return SW_OK;
    return swi_report_add(r->o->report, &in, err,
                          "left out: models compute it anew when they are made");
}

/* SH-7: a rank has each tensor once. */
static sw_status say_twice(swi_sharded_reading *r, const swi_rank_seen *seen, const char *name,
                           sw_error *err)
{
    const char *other = r->list.items[seen->file - 1].path;
    swi_quoted q;
    if (seen->id != UINT32_MAX)
        swi_builder_mark(r->o->builder, seen->id, SW_ERR_CONFLICT);
    return swi_rank_say(r, SW_ERR_CONFLICT, "duplicate-tensor", name, err,
                        "this rank has it twice: here and in %s", swi_quote_str(&q, other));
}

static bool is_shape(const swi_local *local, const swi_rank_tensor_in *t)
{
    return local->axes == t->axes &&
           (t->axes == 0 || memcmp(local->shape, t->shape, t->axes * sizeof *t->shape) == 0);
}

/* SH-5. */
static sw_status say_shape(swi_sharded_reading *r, const swi_rank_tensor_in *t,
                           const swi_model_tensor *whole, sw_error *err)
{
    char found[SHAPE_TEXT], expected[SHAPE_TEXT], of[SHAPE_TEXT];
    return swi_rank_say(r, SW_ERR_CONFLICT, "bad-shape", t->name, err,
                        "%s; rank %" PRIu64 " of %" PRIu64 " has %s of %s by the configuration; if "
                        "that is another model's give --config",
                        shape_text(t->axes, t->shape, found), r->list.items[r->file].is.rank,
                        r->ranks, shape_text(r->local.axes, r->local.shape, expected),
                        shape_text(whole->axes, whole->shape, of));
}

/* How the rank that is read has the tensor; false: the model's tensor cannot be divided so. */
static sw_status divide(swi_sharded_reading *r, const swi_model_tensor *whole, swi_rank_place *out,
                        bool *divided, sw_error *err)
{
    swi_cut cut;
    sw_error cause = {0};
    sw_status st = swi_divide(r->division, whole->name, whole->axes, whole->shape, &cut, &cause);
    *divided = st == SW_OK;
    if (st == SW_ERR_NOMEM)
        return swi_fail_nomem(err);
    if (st != SW_OK)
        return swi_rank_say(r, st, "bad-tensor", whole->name, err, "%s", cause.text);
    swi_cut_local(&cut, swi_cut_of_rank(&cut, r->list.items[r->file].is.rank), &r->local);
    out->axes = whole->axes;
    memcpy(out->shape, whole->shape, sizeof out->shape);
    out->replicated = cut.copies > 1 || cut.overlap;
    out->local = &r->local;
    return SW_OK;
}

sw_status swi_rank_place_of(swi_sharded_reading *r, const swi_rank_tensor_in *tensor,
                            swi_rank_place *out, sw_error *err)
{
    int64_t number = swi_model_tensor_find(r->model, r->side, tensor->name);
    swi_rank_place place = {.left_out = true};
    swi_model_tensor whole;
    bool divided;
    *out = place;
    if (number < 0)
        return swi_model_ignores(r->model, r->side, tensor->name)
                   ? say_ignored(r, tensor->name, err)
                   : say_unknown(r, tensor->name, err);
    swi_rank_seen *seen = &r->seen[number];
    if (seen->file > 0 && r->list.items[seen->file - 1].is.rank == r->list.items[r->file].is.rank)
        return say_twice(r, seen, tensor->name, err);
    seen->file = r->file + 1;
    (void)swi_model_tensor_at(r->model, r->side, (size_t)number, &whole);
    sw_status st = divide(r, &whole, &place, &divided, err);
    if (st == SW_OK && divided && !is_shape(&r->local, tensor)) {
        divided = false;
        st = say_shape(r, tensor, &whole, err);
    }
    seen->told = seen->told || !divided;
    place.left_out = !divided;
    place.number = (size_t)number;
    if (st == SW_OK)
        *out = place;
    return st;
}

/* ---- what is lacking ---------------------------------------------------------------------------
 */

void swi_rank_note_lacking(swi_sharded_reading *r, uint64_t rank)
{
    for (size_t i = 0; i < r->tensors; i++) {
        swi_rank_seen *seen = &r->seen[i];
        bool has = seen->file > 0 && r->list.items[seen->file - 1].is.rank == rank;
        if (!has && seen->lacked == 0)
            seen->lacked = (uint32_t)rank + 1;
    }
}

/* SH-8: of tensors that are one, either may be there; some need not be. */
static void excuse(swi_sharded_reading *r)
{
    swi_model_tensor t;
    for (size_t i = 0; swi_model_tensor_at(r->model, r->side, i, &t); i++) {
        swi_rank_seen *seen = &r->seen[i];
        int64_t other =
            t.tied_to != NULL ? swi_model_tensor_find(r->model, r->side, t.tied_to) : -1;
        bool lone = seen->file == 0 && !seen->told;
        if (lone && (t.optional || (other >= 0 && r->seen[other].file > 0)))
            seen->told = true;
        if (other >= 0 && r->seen[other].file == 0 && seen->file > 0)
            r->seen[other].told = true;
    }
}

/* The first part that the rank may have had and has not. */
static void next_part(const swi_sharded_reading *r, uint64_t rank, char out[SWI_RANK_NAME_BYTES])
{
    swi_rank_name next = {.rank = rank};
    for (size_t i = swi_rank_list_first(&r->list, rank);
         i < r->list.count && r->list.items[i].is.rank == rank; i++)
        if (r->list.items[i].is.part == next.part)
            next.part++;
    swi_rank_name_print(r->kind->names[0], &next, out);
}

static sw_status say_lacking(swi_sharded_reading *r, const swi_rank_seen *seen, const char *name,
                             sw_error *err)
{
    uint64_t rank = seen->lacked - 1;
    const char *who = seen->file > 0 ? "other ranks have it, this one has not" : "no rank has it";
    char part[SWI_RANK_NAME_BYTES];
    r->file = (uint32_t)swi_rank_list_first(&r->list, rank);
    if (!r->kind->parts)
        return swi_rank_say(r, SW_ERR_INCOMPLETE, "missing-tensor", name, err, "%s", who);
    next_part(r, rank, part);
    return swi_rank_say(r, SW_ERR_INCOMPLETE, "missing-tensor", name, err,
                        "%s; if there was a file %s, fetch it", who, part);
}

/* All of it is a hole. Its type is not known: the model's or that of others stands for it. */
static sw_status add_hole(swi_sharded_reading *r, const swi_model_tensor *t, sw_error *err)
{
    uint32_t id;
    const swi_tensor_in in = {.name = t->name,
                              .name_size = strlen(t->name),
                              .dtype = t->dtype != SW_DTYPE_NONE ? t->dtype : SW_U8,
                              .axes = t->axes,
                              .shape = t->shape,
                              .role = SW_ROLE_PARAMETER};
    return swi_builder_tensor(r->o->builder, &in, &id, err);
}

sw_status swi_rank_say_lacking(swi_sharded_reading *r, sw_error *err)
{
    swi_model_tensor t;
    sw_status st = SW_OK;
    excuse(r);
    for (size_t i = 0; st == SW_OK && swi_model_tensor_at(r->model, r->side, i, &t); i++) {
        const swi_rank_seen *seen = &r->seen[i];
        if (seen->lacked > 0 && !seen->told && !r->cut)
            st = say_lacking(r, seen, t.name, err);
        if (st == SW_OK && seen->file == 0 && !seen->told)
            st = add_hole(r, &t, err);
    }
    return st;
}
