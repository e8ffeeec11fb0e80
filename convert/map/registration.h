/*
 * The order in which a model registers its parameters, as its map and configuration say: what names
 * the parameters of optimizers that number them (specs/optimizer.md, OPT-5).
 */
#ifndef SW_CONVERT_MAP_REGISTRATION_H
#define SW_CONVERT_MAP_REGISTRATION_H

#include "map/remap.h"
#include "optimizer/param_names.h"

/*
 * Of one side: buffers are left out, of tied tensors all but the first, and what is optional
 * unless `have` has it.
 */
SW_MUST_USE sw_status swi_registration_of(const swi_model *model, size_t side,
                                          const swi_named *have, size_t count, swi_param_names *out,
                                          sw_error *err);

/*
 * Of the source of a conversion, whose tensors are in->weights, by `model` (NULL: found as
 * swi_remap_begin finds one). Where it cannot be told, *out stays empty and "no-map" (a warning)
 * says why.
 */
SW_MUST_USE sw_status swi_registration_find(const swi_remap_in *in, const swi_model *model,
                                            swi_param_names *out, sw_error *err);

#endif
