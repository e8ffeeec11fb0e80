/*
 * Three ways, the cheapest that fits (CAT-9):
 *   intervals  every piece is one run of the flat index space: one walk, whatever the views
 *   boxes      all views have a common refinement: recursive sweep; volumes tell the coverage
 *   runs       anything else: each piece cut into its flat runs, within a budget
 */
#include "model/catalog_coverage.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/checked.h"
#include "model/steps.h"

#define RUNS_MAX ((uint64_t)1 << 20) /* for one tensor, besides its pieces */

typedef struct run {
    uint64_t first;
    uint64_t end;
    size_t piece;
} run;

void swi_cover_budget(swi_cover_work *work, uint64_t pieces)
{
    const uint64_t base = (uint64_t)1 << 26;
    work->region.sort_budget = base + 256 * pieces;
    work->region.pair_budget = base + 16 * pieces;
    work->run_budget = base + 16 * pieces;
}

void swi_cover_work_free(swi_cover_work *work)
{
    swi_region_work_free(&work->region);
    free(work->offset);
    free(work->length);
    free(work->index);
    free(work->runs);
    *work = (swi_cover_work){0};
}

/* ---- a walk over flat runs, ascending by first index ----------------------------------------- */

typedef struct walk {
    uint64_t end;  /* all before it has been judged */
    size_t holder; /* the piece that reaches `end` */
} walk;

static void walk_run(walk *w, const run *r, bool replicas, swi_cover *out)
{
    if (r->first > w->end && !out->has_missing) {
        out->has_missing = true;
        out->first_missing = w->end;
    }
    if (r->first < w->end && !replicas && out->disjoint == SWI_DISJOINT) {
        out->disjoint = SWI_OVERLAP;
        out->a = w->holder < r->piece ? w->holder : r->piece;
        out->b = w->holder < r->piece ? r->piece : w->holder;
        out->first_shared = r->first;
    }
    if (r->end <= w->end)
        return;
    out->held += r->end - (r->first > w->end ? r->first : w->end);
    w->end = r->end;
    w->holder = r->piece;
}

static void walk_finish(const walk *w, uint64_t elements, swi_cover *out)
{
    if (w->end < elements && !out->has_missing) {
        out->has_missing = true;
        out->first_missing = w->end;
    }
}

static void cover_intervals(const swi_cover_in *in, swi_cover *out)
{
    walk w = {0};
    swi_piece p;
    for (size_t i = 0; i < in->count; i++) {
        in->get(in->ctx, i, &p);
        walk_run(&w, &(run){swi_piece_first(&p), swi_piece_end(&p), i}, in->replicas, out);
    }
    walk_finish(&w, in->elements, out);
}

/* ---- runs ------------------------------------------------------------------------------------ */

/* A piece's runs are `size` long; the axes before `inner` tell them apart. */
typedef struct run_form {
    uint32_t inner;
    uint64_t size;
    uint64_t count;
} run_form;

static run_form form_of(const swi_piece *p)
{
    run_form f = {.inner = p->axes, .size = 1, .count = 1};
    while (f.inner > 0) {
        uint32_t k = --f.inner;
        f.size *= (uint64_t)p->length[k];
        if (p->length[k] != p->view[k])
            break;
    }
    for (uint32_t k = 0; k < f.inner; k++)
        f.count *= (uint64_t)p->length[k];
    return f;
}

static void write_runs(const swi_piece *p, const run_form *form, size_t piece, run *out)
{
    int64_t at[SW_MAX_AXES];
    memcpy(at, p->offset, sizeof at);
    for (uint64_t i = 0; i < form->count; i++) {
        uint64_t flat = 0;
        for (uint32_t k = 0; k < p->axes; k++)
            flat = flat * (uint64_t)p->view[k] + (uint64_t)at[k];
        out[i] = (run){flat, flat + form->size, piece};
        for (uint32_t k = form->inner; k-- > 0;) {
            if (++at[k] < p->offset[k] + p->length[k])
                break;
            at[k] = p->offset[k];
        }
    }
}

static int compare_runs(const void *x, const void *y)
{
    const run *a = x;
    const run *b = y;
    if (a->first != b->first)
        return a->first < b->first ? -1 : 1;
    if (a->piece != b->piece)
        return a->piece < b->piece ? -1 : 1;
    return 0;
}

static uint64_t count_runs(const swi_cover_in *in, uint64_t limit)
{
    uint64_t total = 0;
    swi_piece p;
    for (size_t i = 0; i < in->count && total <= limit; i++) {
        in->get(in->ctx, i, &p);
        if (!swi_add_u64(total, form_of(&p).count, &total))
            return UINT64_MAX;
    }
    return total;
}

/* *done says whether the budget was enough; when not, *out is as it was. */
static sw_status cover_runs(swi_cover_work *work, const swi_cover_in *in, swi_cover *out,
                            bool *done, sw_error *err)
{
    uint64_t limit = RUNS_MAX + 4 * (uint64_t)in->count;
    if (limit > work->run_budget)
        limit = work->run_budget;
    uint64_t total = count_runs(in, limit);
    *done = total <= limit;
    if (!*done)
        return SW_OK;
    work->run_budget -= total;
    sw_status status =
        swi_grow_array(&work->runs, &work->run_capacity, (size_t)total, sizeof(run), err);
    if (status != SW_OK)
        return status;
    run *runs = work->runs;
    size_t n = 0;
    swi_piece p;
    for (size_t i = 0; i < in->count; i++) {
        in->get(in->ctx, i, &p);
        run_form form = form_of(&p);
        write_runs(&p, &form, i, runs + n);
        n += (size_t)form.count;
    }
    qsort(runs, n, sizeof *runs, compare_runs);
    walk w = {0};
    for (size_t i = 0; i < n; i++)
        walk_run(&w, &runs[i], in->replicas, out);
    walk_finish(&w, in->elements, out);
    return SW_OK;
}

/* ---- boxes of one view ----------------------------------------------------------------------- */

/* Boxes being filled. */
typedef struct box_list {
    swi_cover_work *work;
    swi_boxes *boxes;
    size_t piece;
    uint64_t limit;
    bool full;
} box_list;

static sw_status add_box(void *ctx, const swi_piece *part, sw_error *err)
{
    box_list *list = ctx;
    swi_cover_work *work = list->work;
    size_t n = list->boxes->count, axes = part->axes, room = (n + 1) * axes;
    if (n >= list->limit) {
        list->full = true;
        return SW_OK;
    }
    sw_status status =
        swi_grow_array(&work->offset, &work->offset_capacity, room, sizeof(int64_t), err);
    if (status == SW_OK)
        status = swi_grow_array(&work->length, &work->length_capacity, room, sizeof(int64_t), err);
    if (status == SW_OK)
        status = swi_grow_array(&work->index, &work->index_capacity, n + 1, sizeof(size_t), err);
    if (status != SW_OK)
        return status;
    memcpy((int64_t *)work->offset + n * axes, part->offset, axes * sizeof(int64_t));
    memcpy((int64_t *)work->length + n * axes, part->length, axes * sizeof(int64_t));
    ((size_t *)work->index)[n] = list->piece;
    list->boxes->count++;
    return SW_OK;
}

static bool same_place(const swi_piece *p, const swi_piece *q)
{
    size_t size = p->axes * sizeof(int64_t);
    return p->axes == q->axes && memcmp(p->view, q->view, size) == 0 &&
           memcmp(p->offset, q->offset, size) == 0 && memcmp(p->length, q->length, size) == 0;
}

/* Axes that say nothing are left out; what the bytes are does not matter here. */
static void get_simple(const swi_cover_in *in, size_t i, swi_piece *out)
{
    in->get(in->ctx, i, out);
    swi_piece_simplify(out, 1);
}

/*
 * Fills boxes from the pieces; copies of the same box, which are neighbours, once for replicas. Not
 * *done when pieces fall into too many boxes.
 */
static sw_status load_boxes(swi_cover_work *work, const swi_cover_in *in, const swi_steps *steps,
                            swi_boxes *boxes, uint64_t *volume, bool *done, sw_error *err)
{
    box_list list = {.work = work, .boxes = boxes, .limit = RUNS_MAX + 4 * (uint64_t)in->count};
    swi_piece p, before;
    sw_status status = SW_OK;
    *volume = 0;
    for (size_t i = 0; i < in->count && status == SW_OK && !list.full; i++) {
        get_simple(in, i, &p);
        if (in->replicas && i > 0 && same_place(&p, &before))
            continue;
        before = p;
        list.piece = i;
        status = swi_piece_refine_to(&p, steps, add_box, &list, err);
        if (!swi_add_u64(*volume, swi_piece_elements(&p), volume))
            *volume = UINT64_MAX;
    }
    boxes->offset = work->offset;
    boxes->length = work->length;
    *done = !list.full;
    return status;
}

static uint64_t first_shared(const swi_boxes *boxes, size_t x, size_t y)
{
    uint64_t flat = 0;
    for (uint32_t k = 0; k < boxes->axes; k++) {
        int64_t p = boxes->offset[x * boxes->axes + k];
        int64_t q = boxes->offset[y * boxes->axes + k];
        flat = flat * (uint64_t)boxes->view[k] + (uint64_t)(p > q ? p : q);
    }
    return flat;
}

/* The boxes share elements, or may do: what they hold together is counted by runs, if it can be. */
static sw_status cover_union(swi_cover_work *work, const swi_cover_in *in, uint64_t volume,
                             swi_cover *out, sw_error *err)
{
    bool done;
    swi_cover_in as_union = *in;
    swi_cover found = {0};
    as_union.replicas = in->replicas || out->disjoint != SWI_UNPROVEN;
    sw_status status = cover_runs(work, &as_union, &found, &done, err);
    if (status != SW_OK)
        return status;
    if (!done) {
        out->held = volume < in->elements ? volume : in->elements;
        if (in->replicas)
            out->disjoint = SWI_UNPROVEN;
        return SW_OK;
    }
    out->held = found.held;
    out->has_missing = found.has_missing;
    out->first_missing = found.first_missing;
    if (in->replicas || out->disjoint == SWI_UNPROVEN) {
        out->disjoint = found.disjoint;
        out->a = found.a;
        out->b = found.b;
        out->first_shared = found.first_shared;
    }
    return SW_OK;
}

/* The view that has these steps. */
static void view_of(const swi_steps *steps, uint64_t elements, int64_t view[SW_MAX_AXES],
                    uint32_t *axes)
{
    int64_t above = (int64_t)elements;
    *axes = 0;
    for (uint32_t i = steps->count; i-- > 0;) {
        view[(*axes)++] = above / steps->at[i];
        above = steps->at[i];
    }
    view[(*axes)++] = above;
}

static sw_status cover_boxes(swi_cover_work *work, const swi_cover_in *in, const swi_steps *steps,
                             swi_cover *out, bool *done, sw_error *err)
{
    int64_t view[SW_MAX_AXES];
    swi_boxes boxes = {.view = view};
    view_of(steps, in->elements, view, &boxes.axes);
    uint64_t volume = 0;
    size_t a = 0;
    size_t b = 0;
    sw_status status = load_boxes(work, in, steps, &boxes, &volume, done, err);
    if (status == SW_OK && *done)
        status = swi_boxes_disjoint(&work->region, &boxes, &out->disjoint, &a, &b, err);
    if (status != SW_OK || !*done)
        return status;
    if (out->disjoint == SWI_OVERLAP) {
        out->a = ((size_t *)work->index)[a];
        out->b = ((size_t *)work->index)[b];
        out->first_shared = first_shared(&boxes, a, b);
    }
    if (out->disjoint != SWI_DISJOINT)
        return cover_union(work, in, volume, out, err);
    out->held = volume;
    if (volume == in->elements)
        return SW_OK;
    out->has_missing = true;
    return swi_boxes_missing(&work->region, &boxes, &out->first_missing, err);
}

/* ---- the choice ------------------------------------------------------------------------------ */

/* What all pieces are: intervals, and of which common view (only if they are no intervals). */
typedef struct outline {
    bool intervals;
    bool one_view;
    swi_steps steps;
    uint64_t volume;
} outline;

static void outline_of(const swi_cover_in *in, outline *out)
{
    *out = (outline){.intervals = true, .one_view = true};
    swi_piece p;
    for (size_t i = 0; i < in->count; i++) {
        get_simple(in, i, &p);
        if (!swi_add_u64(out->volume, swi_piece_elements(&p), &out->volume))
            out->volume = UINT64_MAX;
        out->intervals = out->intervals && swi_piece_is_interval(&p);
        out->one_view = out->one_view && swi_steps_add_view(&out->steps, p.axes, p.view);
    }
    out->one_view = out->one_view && out->steps.count < SW_MAX_AXES;
}

sw_status swi_cover_tensor(swi_cover_work *work, const swi_cover_in *in, swi_cover *out,
                           sw_error *err)
{
    swi_cover found = {0};
    outline all;
    bool done = true;
    sw_status status = SW_OK;
    outline_of(in, &all);
    if (all.intervals)
        cover_intervals(in, &found);
    else if (all.one_view)
        status = cover_boxes(work, in, &all.steps, &found, &done, err);
    if (status == SW_OK && !all.intervals && (!all.one_view || !done))
        status = cover_runs(work, in, &found, &done, err);
    if (status != SW_OK)
        return status;
    if (!done) {
        found.disjoint = SWI_UNPROVEN;
        found.held = all.volume < in->elements ? all.volume : in->elements;
    }
    *out = found;
    return SW_OK;
}
