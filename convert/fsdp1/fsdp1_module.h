/*
 * What FSDP1 makes of a module of the state dict: its parameters in the order of registration, the
 * wrapped modules, and the row of each. Clauses FS-n are those of specs/fsdp1.md.
 */
#ifndef SW_CONVERT_FSDP1_MODULE_H
#define SW_CONVERT_FSDP1_MODULE_H

#include "flat/flatten.h"
#include "map/mapping.h"

/* FS-25: what says the order of parameters: --shapes, the model of map and configuration, or, where
 * neither is there, each module's own dict. */
typedef struct swi_fsdp1_order {
    swi_shapes *shapes; /* NULL: the dict's own order */
    swi_model *model;   /* whose side `side` they are, where its configuration was found; or NULL */
    const swi_model *of_model; /* that one, or the one of the map in use */
    size_t side;
    sw_error why; /* no model is known; for the message when the dict has no order either */
} swi_fsdp1_order;

/* `have`: the tensors of the module, by which the side of a model is told. */
SW_MUST_USE sw_status swi_fsdp1_order_find(const swi_reshape_in *in, const swi_named *have,
                                           size_t count, swi_fsdp1_order *out, sw_error *err);
void swi_fsdp1_order_end(swi_fsdp1_order *order);

typedef struct swi_fsdp1_module {
    swi_flat_module flat; /* of what follows */
    swi_shapes *own;      /* of the dict, when nothing else says them */
    swi_rows rows;
    int64_t *tensors;
    bool *left_out;
    const char *units_from; /* what said which modules are wrapped; NULL: nothing, only the root */
    size_t unit_count;
    swi_arena arena;
} swi_fsdp1_module;

/*
 * The rows of a module with these tensors, in the order of its dict (`ordered`: it is that of
 * registration). SW_ERR_INCOMPLETE: nothing says the order (--shapes does); SW_ERR_CONFLICT: a
 * tensor that has another shape or is not known; SW_ERR_ARG: a pattern of units that matches none.
 */
SW_MUST_USE sw_status swi_fsdp1_module_make(const swi_reshape_in *in, const swi_fsdp1_order *order,
                                            const swi_named *have, size_t count, bool ordered,
                                            swi_fsdp1_module *out, sw_error *err);
void swi_fsdp1_module_free(swi_fsdp1_module *module);

#endif
