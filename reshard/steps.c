#include "steps.h"

uint64_t swi_spread_of(const sw_catalog *catalog, uint32_t tensor)
{
    sw_tensor_info info;
    swi_piece piece;
    if (!sw_catalog_tensor(catalog, tensor, &info) || info.piece_count == 0)
        return 1;
    swi_tensor_piece(catalog, tensor, 0, &piece);
    return (swi_piece_end(&piece) - swi_piece_first(&piece)) / swi_piece_elements(&piece);
}

/*
 * Whole rows of the innermost axes that fit; the axis that does not fit is cut in equal parts and
 * the ones outside of it are never straddled, so that windows stay boxes.
 */
static swi_steps choose(const sw_tensor_info *info, uint64_t max_elements)
{
    swi_steps steps = {.elements = info->elements};
    uint64_t row = 1, outer = 1;
    for (uint32_t k = info->axes; k > 0 && outer <= max_elements; k--) {
        row = outer;
        outer *= (uint64_t)info->shape[k - 1];
    }
    if (outer <= max_elements || outer == 0) {
        steps.step = steps.outer = outer != 0 ? outer : 1;
        return steps;
    }
    uint64_t rows = outer / row, fit = max_elements / row;
    uint64_t parts = (rows + fit - 1) / fit;
    steps.step = (rows + parts - 1) / parts * row;
    steps.outer = outer;
    return steps;
}

swi_steps swi_steps_make(const sw_tensor_info *info, uint32_t element_bytes, uint64_t spread,
                         uint64_t window_bytes)
{
    uint64_t usual = window_bytes < SWI_WINDOW_USUAL ? window_bytes : SWI_WINDOW_USUAL;
    uint64_t wanted =
        spread < window_bytes / SWI_RUN_WANTED ? spread * SWI_RUN_WANTED : window_bytes;
    uint64_t bytes = spread > 1 && wanted > usual ? wanted : usual;
    return choose(info, bytes > element_bytes ? bytes / element_bytes : 1);
}

bool swi_steps_next(const swi_steps *steps, uint64_t *at, uint64_t *lo, uint64_t *hi)
{
    if (*at >= steps->elements)
        return false;
    uint64_t left = steps->outer - *at % steps->outer;
    *lo = *at;
    *hi = *at + (left < steps->step ? left : steps->step);
    *at = *hi;
    return true;
}
