/*
 * Views by their steps. A step is the flat distance of two neighbours on an axis, the product of
 * the axes behind it; a view of n elements has steps from n (not listed) down to 1. Two views have
 * a common refinement when of any two of their steps one divides the other.
 */
#ifndef SW_MODEL_STEPS_H
#define SW_MODEL_STEPS_H

#include "model/piece.h"

/* Ascending, without 1 and each once. */
typedef struct swi_steps {
    uint32_t count;
    int64_t at[SW_MAX_AXES];
} swi_steps;

/* False, nothing added, when it conflicts with one that is there, or there is no room. */
bool swi_steps_add(swi_steps *steps, int64_t step);
/* Adds all steps of a view without a zero; false when one cannot be added. */
bool swi_steps_add_view(swi_steps *steps, uint32_t axes, const int64_t *view);

/*
 * The piece cut and refined until every step is one of its view's; calls `fn` for each part, which
 * are at most 3 for each step that is new to it. Steps and view do not conflict, no axis has a view
 * of 1, the piece is not empty. SW_ERR_LIMIT when that takes more than SW_MAX_AXES axes.
 */
typedef sw_status (*swi_part_fn)(void *ctx, const swi_piece *part, sw_error *err);
SW_MUST_USE sw_status swi_piece_refine_to(const swi_piece *piece, const swi_steps *steps,
                                          swi_part_fn fn, void *ctx, sw_error *err);

#endif
