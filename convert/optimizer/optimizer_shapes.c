/* What the shape of a state tells about that of its parameter. Clause OPT-8. */
#include <string.h>

#include "optimizer/optimizer_parts.h"

static bool is_one_of(const char *text, const char *const *known, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(known[i], text) == 0)
            return true;
    }
    return false;
}

/* States of torch's optimizers that have their parameter's shape, scalars too. */
static bool is_like_parameter(const char *state)
{
    static const char *const states[] = {"exp_avg", "exp_avg_sq", "max_exp_avg_sq",
                                         "exp_inf", "square_avg", "momentum_buffer",
                                         "sum",     "acc_delta",  "prev"};
    return is_one_of(state, states, sizeof states / sizeof states[0]);
}

/* Adafactor keeps sums over one axis: *behind of them from the end. */
static bool is_factor(const char *state, uint32_t *behind)
{
    static const char *const rows[] = {"row_var", "exp_avg_sq_row"};
    static const char *const columns[] = {"col_var", "exp_avg_sq_col"};
    bool row = is_one_of(state, rows, 2);
    *behind = row ? 0 : 1;
    return row || is_one_of(state, columns, 2);
}

/* The shape without the axis that was summed over, which torch keeps as 1. */
static bool is_shape_of_factor(const sw_tensor_info *info, uint32_t behind, uint32_t axes,
                               const int64_t *shape)
{
    uint32_t at = 0;
    if (axes < 2 || axes > SW_MAX_AXES)
        return false;
    const uint32_t summed = axes - 1 - behind;
    for (uint32_t k = 0; k < axes; k++) {
        int64_t size = k == summed ? 1 : shape[k];
        if (k == summed && info->axes == axes - 1)
            continue;
        if (at >= info->axes || info->shape[at++] != size)
            return false;
    }
    return at == info->axes;
}

swi_opt_says swi_opt_shape_says(const char *state, const sw_tensor_info *info, uint32_t axes,
                                const int64_t *shape)
{
    uint32_t behind;
    if (is_factor(state, &behind))
        return is_shape_of_factor(info, behind, axes, shape) ? SWI_OPT_SAYS_YES
                                                             : SWI_OPT_SAYS_NEVER;
    if (info->axes == 0 && !is_like_parameter(state))
        return SWI_OPT_SAYS_NOTHING;
    return info->axes == axes && memcmp(info->shape, shape, axes * sizeof *shape) == 0
               ? SWI_OPT_SAYS_YES
               : SWI_OPT_SAYS_NO;
}
