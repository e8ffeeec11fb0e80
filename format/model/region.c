#include "model/region.h"

#include <stdlib.h>

#include "base/arena.h"

typedef struct box_key {
    int64_t at;
    uint32_t box;
} box_key;

/* Keys [start, end) that are known not to split on `failed` axes in a row before `axis`. */
typedef struct box_part {
    size_t start;
    size_t end;
    uint32_t axis;
    uint32_t failed;
} box_part;

/* Where a box begins or ends to cover `delta` elements of each slab. */
typedef struct box_edge {
    int64_t at;
    int64_t delta;
} box_edge;

typedef struct sweep {
    swi_region_work *work;
    const swi_boxes *boxes;
    box_key *keys;
    size_t parts;
} sweep;

void swi_region_work_free(swi_region_work *work)
{
    free(work->keys);
    free(work->parts);
    free(work->edges);
    *work = (swi_region_work){0};
}

static int64_t start_of(const swi_boxes *b, size_t box, uint32_t axis)
{
    return b->offset[box * b->axes + axis];
}

static int64_t length_of(const swi_boxes *b, size_t box, uint32_t axis)
{
    return b->length[box * b->axes + axis];
}

static int64_t end_of(const swi_boxes *b, size_t box, uint32_t axis)
{
    return start_of(b, box, axis) + length_of(b, box, axis);
}

static int compare_keys(const void *x, const void *y)
{
    const box_key *a = x;
    const box_key *b = y;
    if (a->at != b->at)
        return a->at < b->at ? -1 : 1;
    return a->box < b->box ? -1 : a->box > b->box;
}

static void sort_keys(const swi_boxes *boxes, box_key *keys, size_t count, uint32_t axis)
{
    bool sorted = true;
    for (size_t i = 0; i < count; i++) {
        keys[i].at = start_of(boxes, keys[i].box, axis);
        sorted = sorted && (i == 0 || compare_keys(&keys[i - 1], &keys[i]) <= 0);
    }
    if (!sorted)
        qsort(keys, count, sizeof *keys, compare_keys);
}

static sw_status push_part(sweep *s, box_part part, sw_error *err)
{
    if (part.end - part.start < 2)
        return SW_OK;
    sw_status status = swi_grow_array(&s->work->parts, &s->work->part_capacity, s->parts + 1,
                                      sizeof(box_part), err);
    if (status == SW_OK)
        ((box_part *)s->work->parts)[s->parts++] = part;
    return status;
}

/* Sorts a part on its axis and pushes what it falls into. */
static sw_status split_part(sweep *s, const box_part *part, sw_error *err)
{
    const swi_boxes *b = s->boxes;
    size_t start = part->start;
    int64_t end = INT64_MIN;
    uint32_t next = (part->axis + 1) % b->axes;
    sw_status status = SW_OK;
    sort_keys(b, s->keys + start, part->end - start, part->axis);
    for (size_t i = part->start; i < part->end && status == SW_OK; i++) {
        int64_t box_end = end_of(b, s->keys[i].box, part->axis);
        if (i > start && s->keys[i].at >= end) {
            status = push_part(s, (box_part){start, i, next, 1}, err);
            start = i;
        }
        end = box_end > end ? box_end : end;
    }
    if (status == SW_OK)
        status = push_part(
            s, (box_part){start, part->end, next, start == part->start ? part->failed + 1 : 1},
            err);
    return status;
}

static bool boxes_meet(const swi_boxes *b, size_t x, size_t y)
{
    for (uint32_t k = 0; k < b->axes; k++)
        if (start_of(b, x, k) >= end_of(b, y, k) || start_of(b, y, k) >= end_of(b, x, k))
            return false;
    return true;
}

/* The axis on which boxes are shortest against the whole: fewest pairs remain there. */
static uint32_t best_axis(const sweep *s, const box_part *part)
{
    uint32_t best = 0;
    double best_share = 0;
    for (uint32_t k = 0; k < s->boxes->axes; k++) {
        double sum = 0;
        for (size_t i = part->start; i < part->end; i++)
            sum += (double)length_of(s->boxes, s->keys[i].box, k);
        double share = sum / (double)s->boxes->view[k];
        if (k == 0 || share < best_share) {
            best = k;
            best_share = share;
        }
    }
    return best;
}

/* More elements than the box around them all has room for. */
static bool is_overfull(const sweep *s, const box_part *part)
{
    const swi_boxes *b = s->boxes;
    double room = 1;
    double held = 0;
    for (uint32_t k = 0; k < b->axes; k++) {
        int64_t lo = INT64_MAX;
        int64_t hi = 0;
        for (size_t i = part->start; i < part->end; i++) {
            int64_t start = start_of(b, s->keys[i].box, k);
            int64_t end = end_of(b, s->keys[i].box, k);
            lo = start < lo ? start : lo;
            hi = end > hi ? end : hi;
        }
        room *= (double)(hi - lo);
    }
    for (size_t i = part->start; i < part->end; i++) {
        double volume = 1;
        for (uint32_t k = 0; k < b->axes; k++)
            volume *= (double)length_of(b, s->keys[i].box, k);
        held += volume;
    }
    return held > room * 1.000001; /* doubles: only when it is certain */
}

static swi_disjoint compare_pairs(sweep *s, const box_part *part, size_t *a, size_t *b)
{
    uint32_t axis = best_axis(s, part);
    sort_keys(s->boxes, s->keys + part->start, part->end - part->start, axis);
    for (size_t i = part->start; i < part->end; i++) {
        int64_t end = end_of(s->boxes, s->keys[i].box, axis);
        for (size_t j = i + 1; j < part->end && s->keys[j].at < end; j++) {
            uint32_t x = s->keys[i].box;
            uint32_t y = s->keys[j].box;
            if (s->work->pair_budget == 0)
                return is_overfull(s, part) ? SWI_OVERLAP_SOME : SWI_UNPROVEN;
            s->work->pair_budget--;
            if (!boxes_meet(s->boxes, x, y))
                continue;
            *a = x < y ? x : y;
            *b = x < y ? y : x;
            return SWI_OVERLAP;
        }
    }
    return SWI_DISJOINT;
}

static sw_status run_sweep(sweep *s, swi_disjoint *out, size_t *a, size_t *b, sw_error *err)
{
    swi_disjoint verdict = SWI_DISJOINT;
    while (s->parts > 0) {
        box_part part = ((box_part *)s->work->parts)[--s->parts];
        size_t count = part.end - part.start;
        if (part.failed < s->boxes->axes && s->work->sort_budget >= count) {
            s->work->sort_budget -= count;
            sw_status status = split_part(s, &part, err);
            if (status != SW_OK)
                return status;
            continue;
        }
        swi_disjoint found = compare_pairs(s, &part, a, b);
        if (found == SWI_OVERLAP || found == SWI_OVERLAP_SOME) {
            *out = found;
            return SW_OK;
        }
        if (found == SWI_UNPROVEN)
            verdict = found;
    }
    *out = verdict;
    return SW_OK;
}

static sw_status take_keys(swi_region_work *work, size_t count, box_key **out, sw_error *err)
{
    sw_status status =
        swi_grow_array(&work->keys, &work->key_capacity, count, sizeof(box_key), err);
    if (status != SW_OK)
        return status;
    *out = work->keys;
    for (size_t i = 0; i < count; i++)
        (*out)[i].box = (uint32_t)i;
    return SW_OK;
}

sw_status swi_boxes_disjoint(swi_region_work *work, const swi_boxes *boxes, swi_disjoint *out,
                             size_t *a, size_t *b, sw_error *err)
{
    sweep s = {.work = work, .boxes = boxes};
    if (boxes->count < 2) {
        *out = SWI_DISJOINT;
        return SW_OK;
    }
    if (boxes->axes == 0) {
        *a = 0;
        *b = 1;
        *out = SWI_OVERLAP;
        return SW_OK;
    }
    sw_status status = take_keys(work, boxes->count, &s.keys, err);
    if (status == SW_OK)
        status = push_part(&s, (box_part){.end = boxes->count}, err);
    if (status == SW_OK)
        status = run_sweep(&s, out, a, b, err);
    return status;
}

/* ---- the first element left out -------------------------------------------------------------- */

static int compare_edges(const void *x, const void *y)
{
    const box_edge *a = x;
    const box_edge *b = y;
    if (a->at != b->at)
        return a->at < b->at ? -1 : 1;
    return a->delta < b->delta ? -1 : a->delta > b->delta;
}

/* The first index on `axis` whose slab of `slab` elements the boxes in `keys` do not fill. */
static int64_t first_open_slab(const swi_boxes *b, const box_key *keys, size_t count, uint32_t axis,
                               int64_t slab, box_edge *edges)
{
    size_t n = 0;
    for (size_t i = 0; i < count; i++) {
        int64_t volume = 1;
        for (uint32_t k = axis + 1; k < b->axes; k++)
            volume *= length_of(b, keys[i].box, k);
        edges[n++] = (box_edge){start_of(b, keys[i].box, axis), volume};
        edges[n++] = (box_edge){end_of(b, keys[i].box, axis), -volume};
    }
    qsort(edges, n, sizeof *edges, compare_edges);
    int64_t covered = 0;
    int64_t at = 0;
    for (size_t i = 0; i < n;) {
        if (edges[i].at > at && covered < slab)
            return at;
        at = edges[i].at;
        for (; i < n && edges[i].at == at; i++)
            covered += edges[i].delta;
    }
    return at;
}

/* Keeps the keys of boxes that hold index `at` of the axis. */
static size_t keep_slab(const swi_boxes *b, box_key *keys, size_t count, uint32_t axis, int64_t at)
{
    size_t kept = 0;
    for (size_t i = 0; i < count; i++)
        if (start_of(b, keys[i].box, axis) <= at && at < end_of(b, keys[i].box, axis))
            keys[kept++] = keys[i];
    return kept;
}

sw_status swi_boxes_missing(swi_region_work *work, const swi_boxes *boxes, uint64_t *flat,
                            sw_error *err)
{
    box_key *keys;
    uint64_t result = 0;
    int64_t slab = 1;
    for (uint32_t k = 0; k < boxes->axes; k++)
        slab *= boxes->view[k];
    if (slab == 0 || (boxes->axes == 0 && boxes->count > 0)) {
        *flat = (uint64_t)slab;
        return SW_OK;
    }
    size_t count = boxes->count;
    sw_status status = take_keys(work, count, &keys, err);
    if (status == SW_OK)
        status = swi_grow_array(&work->edges, &work->edge_capacity, 2 * count + 1, sizeof(box_edge),
                                err);
    if (status != SW_OK)
        return status;
    for (uint32_t k = 0; k < boxes->axes; k++) {
        slab /= boxes->view[k];
        int64_t at = first_open_slab(boxes, keys, count, k, slab, work->edges);
        result += (uint64_t)at * (uint64_t)slab;
        if (at >= boxes->view[k])
            break; /* nothing is left out: only on the first axis */
        count = keep_slab(boxes, keys, count, k, at);
    }
    *flat = result;
    return SW_OK;
}
