/*
 * More tensors over the bytes of a checkpoint: a builder that has all of it, its tensors under
 * their numbers, for what becomes a derived checkpoint (swi_checkpoint_derive).
 */
#ifndef SW_CONVERT_DERIVE_H
#define SW_CONVERT_DERIVE_H

#include "framework.h"
#include "shaped.h"

SW_MUST_USE sw_status swi_derive_begin(const sw_checkpoint *base, swi_builder **out, sw_error *err);
/* Adds a tensor; a name that is there already gets another in the derived catalog. */
SW_MUST_USE sw_status swi_derive_put(swi_builder *builder, const char *name, sw_role role,
                                     const swi_shaped *shaped, uint32_t *tensor, sw_error *err);
/* Takes the builder, whatever comes of it. No more tensors after that. */
SW_MUST_USE sw_status swi_derive_end(const sw_checkpoint *base, swi_builder *builder,
                                     sw_checkpoint **out, sw_error *err);

#endif
