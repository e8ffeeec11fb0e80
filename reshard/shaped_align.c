/* Aligning: a piece in views that fit given dimensions, in as few pieces as that takes. */
#include "base/divisor.h"
#include "model/steps.h"
#include "shaped_parts.h"

/* Where the dimensions begin in the flat index: that they are dimensions makes them fit. */
static swi_steps steps_of(uint32_t count, const int64_t *dims)
{
    swi_steps steps = {0};
    int64_t step = 1;
    for (uint32_t d = count; d-- > 0;) {
        step *= dims[d];
        (void)swi_steps_add(&steps, step);
    }
    return steps;
}

/* The axis above the first step of the view that does not fit, and how much of it to take apart. */
static bool find_conflict(const swi_piece *p, const swi_steps *want, uint32_t *axis, int64_t *inner)
{
    int64_t step = 1;
    for (uint32_t k = p->axes; k-- > 1;) {
        step *= p->view[k];
        for (uint32_t d = 0; d < want->count; d++) {
            if (step % want->at[d] == 0 || want->at[d] % step == 0)
                continue;
            int64_t size = p->view[k - 1];
            int64_t common = (int64_t)swi_common_divisor((uint64_t)want->at[d], (uint64_t)step);
            int64_t repeat = want->at[d] / common;
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

static sw_status add_aligned(void *ctx, const swi_piece *part, sw_error *err)
{
    swi_shaping *s = ctx;
    return swi_pieces_add(&s->aligned, part, err);
}

sw_status swi_shaping_align(swi_shaping *shaping, const swi_piece *piece, uint32_t count,
                            const int64_t *dims, sw_error *err)
{
    const swi_steps want = steps_of(count, dims);
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
            status = swi_piece_refine_to(&p, &want, add_aligned, shaping, err);
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
