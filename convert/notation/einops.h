/*
 * Rearrangements (specs/notation.md, NT-4), written as in einops: "(a two i) h -> (a i two) h".
 * Each side has one group per dimension, outermost factor first; both sides have the same factors.
 * `1` is a dimension of size 1. Nothing is repeated or reduced, so every rearrangement can be
 * undone.
 *
 * Immutable; may be shared by threads. Errors have in offset_bytes the place inside the text, for
 * swi_yaml_fail_inside: FORMAT and LIMIT of parsing; of solving FORMAT for a name without a size
 * and CONFLICT for sizes that do not fit the shape.
 */
#ifndef SW_CONVERT_NOTATION_EINOPS_H
#define SW_CONVERT_NOTATION_EINOPS_H

#include "notation/expr.h"
#include "shaped.h"

#define SWI_EINOPS_MAX_BYTES 256U

typedef struct swi_einops swi_einops;
/* The text is copied. */
SW_MUST_USE sw_status swi_einops_parse(const char *text, size_t size, swi_einops **out,
                                       sw_error *err);
void swi_einops_free(swi_einops *einops);
const char *swi_einops_text(const swi_einops *einops);
/* Dimensions of the left and of the right side. */
uint32_t swi_einops_axes(const swi_einops *einops, bool right);
/* The names, in the order of the left side, and where they stand. */
size_t swi_einops_name_count(const swi_einops *einops);
const char *swi_einops_name(const swi_einops *einops, size_t i, size_t *offset_bytes);

/*
 * The numbers for a tensor of this shape. Names get their sizes from the scope (NULL: none), which
 * must give integers >= 0; in each group at most one name may be left to what the dimension says.
 * `reverse`: from the right side to the left; `shape` is then that of the right. At most
 * SW_MAX_AXES factors and dimensions.
 */
SW_MUST_USE sw_status swi_einops_solve(const swi_einops *einops, bool reverse, const int64_t *shape,
                                       uint32_t axes, const swi_expr_scope *scope,
                                       swi_rearrange *out, sw_error *err);

#endif
