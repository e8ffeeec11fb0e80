#include "model/steps.h"

#include <string.h>

bool swi_steps_add(swi_steps *steps, int64_t step)
{
    uint32_t place = 0;
    if (step == 1)
        return true;
    for (uint32_t i = 0; i < steps->count; i++) {
        if (steps->at[i] == step)
            return true;
        if (steps->at[i] % step != 0 && step % steps->at[i] != 0)
            return false;
        place += steps->at[i] < step ? 1 : 0;
    }
    if (steps->count == SW_MAX_AXES)
        return false;
    memmove(steps->at + place + 1, steps->at + place, (steps->count - place) * sizeof steps->at[0]);
    steps->at[place] = step;
    steps->count++;
    return true;
}

bool swi_steps_add_view(swi_steps *steps, uint32_t axes, const int64_t *view)
{
    int64_t step = 1;
    for (uint32_t k = axes; k-- > 1;) {
        step *= view[k];
        if (!swi_steps_add(steps, step))
            return false;
    }
    return true;
}

/* The axis that a step falls inside of, and its place there. */
static bool find_inside(const swi_piece *p, const swi_steps *steps, uint32_t *axis, int64_t *inner)
{
    int64_t step = 1;
    for (uint32_t k = p->axes; k-- > 0;) {
        for (uint32_t i = 0; i < steps->count; i++) {
            if (steps->at[i] <= step || steps->at[i] >= step * p->view[k])
                continue;
            *axis = k;
            *inner = steps->at[i] / step;
            return true;
        }
        step *= p->view[k];
    }
    return false;
}

/* Each step splits a piece in at most three, so that two of them wait at each depth. */
#define WAITING_MAX (2 * SW_MAX_AXES + 3)

sw_status swi_piece_refine_to(const swi_piece *piece, const swi_steps *steps, swi_part_fn fn,
                              void *ctx, sw_error *err)
{
    swi_piece waiting[WAITING_MAX];
    size_t count = 1;
    sw_status status = SW_OK;
    waiting[0] = *piece;
    while (count > 0 && status == SW_OK) {
        uint32_t axis;
        int64_t inner;
        swi_piece p = waiting[--count];
        if (!find_inside(&p, steps, &axis, &inner)) {
            status = fn(ctx, &p, err);
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
