/*
 * Which tensors of a model are buffers: every rank has them whole, and they are no parameters of a
 * wrapper that divides those. No state dict says it; clause RF-25 of specs/rank_files.md.
 */
#ifndef SW_CONVERT_BUFFERS_H
#define SW_CONVERT_BUFFERS_H

#include "base/names.h"
#include "framework.h"
#include "select/sections.h"

typedef struct swi_buffers {
    const sw_checkpoint *source;
    const swi_names *parameters;   /* all of them; NULL: not known */
    swi_names *trained;            /* parameters that an optimizer has in its groups */
    bool source_cuts;              /* ranks of the source had parts of parameters */
    const struct swi_model *model; /* NULL: none is known */
    size_t side;
    swi_names *said; /* taken for buffers although nothing but how they lie speaks for it */
    sw_report *report;
    swi_section section;
} swi_buffers;

SW_MUST_USE sw_status swi_buffers_begin(const swi_target_in *in, swi_buffers *out, sw_error *err);
void swi_buffers_end(swi_buffers *buffers);
/* Whether the tensor of this leaf is one. Warning "taken-for-buffer", once a tensor: it was stored
 * whole, and neither a model nor an optimizer tells more. */
SW_MUST_USE sw_status swi_buffers_are(swi_buffers *buffers, const swi_state_part *leaf, bool *out,
                                      sw_error *err);

#endif
