/* How many ranks wrote what is there, and by which of the layouts that a map allows. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/report.h"
#include "base/text.h"
#include "sharded/container.h"

/*
 * So many more ranks than there are files for are tried, as the last files may be missing, and so
 * many fewer, as files of a larger run may be left.
 */
#define MORE_RANKS 64U

/* The shapes that one rank's files have. */
typedef struct recorded {
    size_t number; /* among the tensors of the side */
    uint32_t axes;
    int64_t shape[SW_MAX_AXES];
} recorded;

typedef struct deciding {
    swi_sharded_reading *r;
    uint64_t rank; /* that they are of */
    recorded *items;
    size_t count, capacity;
} deciding;

static sw_status record(void *ctx, const swi_rank_tensor_in *t, sw_error *err)
{
    deciding *d = ctx;
    int64_t number = swi_model_tensor_find(d->r->model, d->r->side, t->name);
    if (number < 0)
        return SW_OK;
    sw_status st =
        swi_grow_array((void **)&d->items, &d->capacity, d->count + 1, sizeof *d->items, err);
    if (st != SW_OK)
        return st;
    recorded *item = &d->items[d->count++];
    item->number = (size_t)number;
    item->axes = t->axes;
    if (t->axes > 0)
        memcpy(item->shape, t->shape, t->axes * sizeof *t->shape);
    return SW_OK;
}

/* Of the first rank all of whose files can be read. */
static sw_status record_rank(deciding *d, sw_error *err)
{
    const swi_rank_list *list = &d->r->list;
    for (size_t i = 0; i < list->count;) {
        bool whole = true;
        d->rank = list->items[i].is.rank;
        d->count = 0;
        for (; i < list->count && list->items[i].is.rank == d->rank; i++) {
            sw_status unreadable = SW_OK;
            sw_error cause = {0};
            sw_status st =
                d->r->kind->container->read(d->r, (uint32_t)i, record, d, &unreadable, &cause, err);
            if (st != SW_OK)
                return st;
            whole = whole && unreadable == SW_OK;
        }
        if (whole)
            return SW_OK;
    }
    d->count = 0;
    return SW_OK;
}

static sw_status fits(const deciding *d, const swi_division *division, bool *out, sw_error *err)
{
    swi_model_tensor t;
    swi_cut cut;
    swi_local local;
    *out = false;
    for (size_t i = 0; i < d->count; i++) {
        const recorded *item = &d->items[i];
        sw_error cause = {0};
        (void)swi_model_tensor_at(d->r->model, d->r->side, item->number, &t);
        sw_status st = swi_divide(division, t.name, t.axes, t.shape, &cut, &cause);
        if (st == SW_ERR_NOMEM)
            return swi_fail_nomem(err);
        if (st != SW_OK)
            return SW_OK;
        swi_cut_local(&cut, swi_cut_of_rank(&cut, d->rank), &local);
        if (local.axes != item->axes ||
            memcmp(local.shape, item->shape, item->axes * sizeof *item->shape) != 0)
            return SW_OK;
    }
    *out = true;
    return SW_OK;
}

static sw_status make_division(const swi_sharded_reading *r, uint64_t ranks, size_t layout,
                               swi_division **out, sw_error *err)
{
    const swi_axis_size given = {r->kind->axis, ranks};
    const swi_rules *rules = swi_model_layout(r->model, r->side, layout);
    sw_status st = swi_division_make(rules, swi_model_scope(r->model), &given, 1, out, err);
    if (st == SW_OK && swi_division_ranks(*out) != ranks) {
        uint64_t made = swi_division_ranks(*out);
        swi_division_free(*out);
        *out = NULL;
        return swi_fail(err, SW_ERR_UNSUPPORTED,
                        "the map %s divides %s files over %" PRIu64
                        " ranks where there are %" PRIu64 " along \"%s\"",
                        swi_model_name(r->model), r->kind->side, made, ranks, r->kind->axis);
    }
    return st;
}

static void take(swi_sharded_reading *r, swi_division *division, uint64_t ranks)
{
    swi_division_free(r->division);
    r->division = division;
    r->ranks = ranks;
}

/* All layouts for so many ranks; *fit: one was taken. Without any that fits the first is taken. */
static sw_status try_ranks(const deciding *d, uint64_t ranks, bool *fit, sw_error *err)
{
    swi_sharded_reading *r = d->r;
    *fit = false;
    for (size_t i = 0; i < swi_model_layout_count(r->model, r->side) && !*fit; i++) {
        swi_division *division = NULL;
        sw_status st = make_division(r, ranks, i, &division, err);
        if (st == SW_OK)
            st = fits(d, division, fit, err);
        if (st != SW_OK) {
            swi_division_free(division);
            return st;
        }
        if (*fit || r->division == NULL)
            take(r, division, ranks);
        else
            swi_division_free(division);
    }
    return SW_OK;
}

/* SH-4. */
static sw_status choose(const deciding *d, sw_error *err)
{
    uint64_t files = d->r->list.ranks;
    bool fit = false;
    sw_status st = try_ranks(d, files, &fit, err);
    for (uint64_t n = files + 1; st == SW_OK && !fit && n <= files + MORE_RANKS; n++)
        st = try_ranks(d, n, &fit, err);
    for (uint64_t n = files - 1; st == SW_OK && !fit && n > d->rank && n + MORE_RANKS >= files; n--)
        st = try_ranks(d, n, &fit, err);
    return st;
}

sw_status swi_rank_decide(swi_sharded_reading *r, sw_error *err)
{
    deciding d = {.r = r};
    if (swi_model_layout_count(r->model, r->side) == 0)
        return swi_fail(err, SW_ERR_UNSUPPORTED,
                        "the map %s does not say how ranks divide %s files; give another with "
                        "--map",
                        swi_model_name(r->model), r->kind->side);
    sw_status st = record_rank(&d, err);
    if (st == SW_OK)
        st = choose(&d, err);
    free(d.items);
    return st;
}
