/* Aligning: a piece in views that fit given dimensions, in as few pieces as that takes. */
#include <inttypes.h>
#include <string.h>

#include "shaped_parts.h"

/*
 * Where the dimensions begin in the flat index: ends[d] is the product of those from d on. A view
 * has such steps too. Two steps of which neither divides the other have no common view.
 */
typedef struct steps {
    uint32_t count;
    int64_t at[SW_MAX_AXES + 1];
} steps;

static steps steps_of(uint32_t count, const int64_t *dims)
{
    steps s = {.count = count};
    s.at[count] = 1;
    for (uint32_t d = count; d-- > 0;)
        s.at[d] = s.at[d + 1] * dims[d];
    return s;
}

static int64_t common_divisor(int64_t a, int64_t b)
{
    while (b != 0) {
        int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* The axis above the first step of the view that does not fit, and how much of it to take apart. */
static bool find_conflict(const swi_piece *p, const steps *want, uint32_t *axis, int64_t *inner)
{
    int64_t step = 1;
    for (uint32_t k = p->axes; k-- > 1;) {
        step *= p->view[k];
        for (uint32_t d = want->count; d-- > 0;) {
            if (step % want->at[d] == 0 || want->at[d] % step == 0)
                continue;
            int64_t size = p->view[k - 1];
            int64_t repeat = want->at[d] / common_divisor(want->at[d], step);
            *axis = k - 1;
            *inner = size % repeat == 0 && p->axes < SW_MAX_AXES ? repeat : size;
            return true;
        }
    }
    return false;
}

/*
 * Takes the axis apart, index by index, within blocks of `inner`: both steps meet again at the
 * block's edge. A single index joins the axis below, and the step between them is gone.
 */
static sw_status take_apart(swi_shaping *s, const swi_piece *p, uint32_t axis, int64_t inner,
                            sw_error *err)
{
    swi_piece parts[3];
    if (inner == p->view[axis])
        return swi_pieces_add_singles(&s->work, p, axis, err);
    size_t count = swi_piece_refine(p, axis, inner, parts);
    sw_status status = SW_OK;
    for (size_t i = 0; i < count && status == SW_OK; i++)
        status = swi_pieces_add_singles(&s->work, &parts[i], axis + 1, err);
    return status;
}

/* The axis that a wanted step falls inside of. */
static bool find_inside(const swi_piece *p, const steps *want, uint32_t *axis, int64_t *inner)
{
    int64_t step = 1;
    for (uint32_t k = p->axes; k-- > 0;) {
        for (uint32_t d = want->count; d-- > 0;) {
            if (want->at[d] <= step || want->at[d] >= step * p->view[k])
                continue;
            *axis = k;
            *inner = want->at[d] / step;
            return true;
        }
        step *= p->view[k];
    }
    return false;
}

/* Each step splits a piece in at most three, so that two of them wait at each depth. */
#define WAITING_MAX (2 * (SW_MAX_AXES + 1) + 1)

/* Refines until every wanted step is one of the view's; none of them conflict. */
static sw_status refine_all(swi_shaping *s, const swi_piece *piece, const steps *want,
                            sw_error *err)
{
    swi_piece waiting[WAITING_MAX];
    size_t count = 1;
    sw_status status = SW_OK;
    waiting[0] = *piece;
    while (count > 0 && status == SW_OK) {
        uint32_t axis;
        int64_t inner;
        swi_piece p = waiting[--count];
        if (!find_inside(&p, want, &axis, &inner)) {
            status = swi_pieces_add(&s->aligned, &p, err);
            continue;
        }
        size_t parts = swi_piece_refine(&p, axis, inner, waiting + count);
        if (parts == 0)
            return swi_fail(err, SW_ERR_LIMIT,
                            "a piece of it would need more than %d axes to be split so",
                            SW_MAX_AXES);
        count += parts;
    }
    return status;
}

sw_status swi_shaping_align(swi_shaping *shaping, const swi_piece *piece, uint32_t count,
                            const int64_t *dims, sw_error *err)
{
    const steps want = steps_of(count, dims);
    shaping->aligned.count = 0;
    shaping->work.count = 0;
    sw_status status = swi_pieces_add(&shaping->work, piece, err);
    while (shaping->work.count > 0 && status == SW_OK) {
        uint32_t axis;
        int64_t inner;
        swi_piece p = shaping->work.items[--shaping->work.count];
        swi_piece_simplify(&p, shaping->element_bytes);
        if (find_conflict(&p, &want, &axis, &inner))
            status = take_apart(shaping, &p, axis, inner, err);
        else
            status = refine_all(shaping, &p, &want, err);
    }
    return status;
}

void swi_aligned_groups(const swi_piece *aligned, uint32_t count, const int64_t *dims,
                        uint32_t first[SW_MAX_AXES + 1])
{
    uint32_t axis = aligned->axes;
    first[count] = axis;
    for (uint32_t d = count; d-- > 0;) {
        int64_t size = 1;
        while (size < dims[d])
            size *= aligned->view[--axis];
        first[d] = axis;
    }
}
