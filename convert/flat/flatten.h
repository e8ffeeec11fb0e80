/*
 * The parameters of a module become rows (flat/rows.h), one tensor for each wrapped module, as
 * FSDP1 keeps them; and the states of an optimizer with them. On pieces alone: no byte moves. The
 * rows lie in a derived checkpoint, whose first tensors are those of the source. Clauses FS-n are
 * those of specs/fsdp1.md.
 */
#ifndef SW_CONVERT_FLAT_FLATTEN_H
#define SW_CONVERT_FLAT_FLATTEN_H

#include "flat/rows.h"
#include "framework.h"
#include "optimizer/optimizer.h"

#define SWI_FLAT_PARAM "_flat_param"

/* A module of the state dict, and what becomes of it. */
typedef struct swi_flat_module {
    const swi_shapes *shapes; /* ordered */
    const swi_rows *rows;     /* of them, placed without alignment */
    const int64_t *tensors;   /* by shape: the tensor of the source under that name; -1: none */
    const bool *left_out;     /* by shape: it is in no row, as a buffer; NULL: none */
} swi_flat_module;

typedef struct swi_flattening swi_flattening;
/* `source` must outlive it. */
SW_MUST_USE sw_status swi_flatten_begin(const sw_checkpoint *source, swi_flattening **out,
                                        sw_error *err);
void swi_flatten_free(swi_flattening *f);

/*
 * FS-21: in the module's dict the parameters of each row are replaced by "UNIT._flat_param"; other
 * names of tied ones go, which must be equal bit for bit (SW_ERR_CONFLICT with the first
 * difference); all else stays under its name, behind the rows. SW_ERR_CONFLICT: parameters of one
 * row that differ in type; SW_ERR_INCOMPLETE: a parameter that the source does not have.
 */
SW_MUST_USE sw_status swi_flatten_module(swi_flattening *f, sw_value_graph *graph, sw_value dict,
                                         const swi_flat_module *module, sw_error *err);
/*
 * FS-23: whether an optimizer can train flat parameters: of each row all are in one group or none
 * is, and all have states or none has. SW_ERR_CONFLICT names two that differ.
 */
SW_MUST_USE sw_status swi_flatten_check(const swi_optimizer *optimizer,
                                        const swi_flat_module *module, sw_error *err);
/*
 * FS-24: the parameters of an optimizer become the rows, which are called as in the module; its
 * states follow: those of the shapes of the parameters become rows with zeros behind them, up to
 * `shards` shards of one size; others (step) must be equal in all of a row.
 */
SW_MUST_USE sw_status swi_flatten_optimizer(swi_flattening *f, swi_optimizer *optimizer,
                                            const swi_flat_module *module, uint64_t shards,
                                            sw_error *err);
/* The derived checkpoint, which borrows from the source. No more rows after that. */
SW_MUST_USE sw_status swi_flatten_end(swi_flattening *f, sw_checkpoint **out, sw_error *err);

/* The index of the parameter that this name of a module is of, ties resolved; -1: of none. */
int64_t swi_flat_parameter(const swi_flat_module *module, const char *name);

#endif
