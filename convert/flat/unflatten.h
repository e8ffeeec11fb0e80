/*
 * Rows become parameters: a checkpoint in which FSDP1 left flat parameters, and flat states of them
 * in optimizers, is read as if they had never been flattened. On pieces alone; the catalog and the
 * state dict change, no byte moves. Clauses FS-n are those of specs/fsdp1.md.
 */
#ifndef SW_CONVERT_FLAT_UNFLATTEN_H
#define SW_CONVERT_FLAT_UNFLATTEN_H

#include "flat/notes.h"
#include "framework.h"
#include "source/identity.h"
#include "state/state.h"

typedef struct swi_unflat swi_unflat;

typedef struct swi_unflat_in {
    const sw_checkpoint *base; /* with the rows; must outlive what is made of it */
    const swi_row_notes *notes;
    const sw_open_options *options; /* map, config, shapes; may be NULL */
    sw_limits limits;
    sw_report *report;
} swi_unflat_in;

/*
 * FS-2: notes the rows that their names tell, beside those that are noted: tensors of one axis
 * called
 * "_flat_param" or "flat_param", and states of what is called so.
 */
SW_MUST_USE sw_status swi_note_named_rows(const sw_checkpoint *checkpoint, swi_row_notes *notes,
                                          sw_error *err);
/*
 * *out NULL: nothing tells what is in the rows; they stay as they are, and the finding
 * "flat-parameters" says what is missing; so do those of optimizers alone, where only their model's
 * can be undone. Else *catalog has the parameters in their place, whose
 * files, blobs and values are those of the base. What is known and does not fit is an error:
 * CONFLICT (sums, shapes, two ways that both fit), INCOMPLETE (parameters that are in no row), ARG
 * (shapes without an order), NOTFOUND.
 */
SW_MUST_USE sw_status swi_unflatten(const swi_unflat_in *in, swi_unflat **out, sw_catalog **catalog,
                                    sw_error *err);
void swi_unflat_free(swi_unflat *unflat);

/* The rows that the model had, one for each wrapped module; NULL: it had none. */
const struct swi_rows *swi_unflat_rows(const swi_unflat *unflat);
/* Where tensor i of the new catalog lies in the saved state dict. */
void swi_unflat_section(const swi_unflat *unflat, uint32_t tensor, const char **section,
                        const char **name);
/* The state dict of the base with the parameters in the places of rows, in the order of
 * registration, and optimizers by name. */
SW_MUST_USE sw_status swi_unflat_state(const swi_unflat *unflat, swi_state *out, sw_error *err);

/* Whether rows of optimizers are left as they are, since nothing tells which is whose. */
bool swi_unflat_is_partial(const swi_unflat *unflat);
/* Whether names that the user gave for numbers named optimizers here. `unflat` may be NULL. */
bool swi_unflat_has_names(const swi_unflat *unflat);
/* What lies where in the rows: others would give other tensors. */
void swi_unflat_identify(const swi_unflat *unflat, swi_identity *identity);

#endif
