/*
 * The parts of undoing rows: unflatten_fit.c finds what lies where in the model's rows,
 * unflatten_optimizer.c which rows the states of optimizers are of, unflatten.c makes the catalog,
 * unflatten_state.c the state dict.
 */
#ifndef SW_CONVERT_FLAT_UNFLATTEN_PARTS_H
#define SW_CONVERT_FLAT_UNFLATTEN_PARTS_H

#include "base/names.h"
#include "flat/rows.h"
#include "flat/unflatten.h"
#include "optimizer/optimizer.h"
#include "optimizer/param_names.h"

#define SWI_NOT_MADE UINT32_MAX

/* What becomes of a tensor of the base. */
typedef struct swi_unflat_tensor {
    const swi_row *row; /* it gives a tensor for each item of it; NULL: it stays, or goes */
    bool is_row;        /* and is cut for that; else each gets a copy (a step counter) */
    uint32_t first;     /* of those in the new catalog; SWI_NOT_MADE: it goes */
    const char *before; /* of a tensor with a row: what comes before the parameter's name */
    const char *after;  /* and behind it: "exp_avg"; NULL: nothing */
} swi_unflat_tensor;

typedef enum swi_unflat_keyed {
    SWI_KEYED_BY_PARAMETER = 0, /* each parameter has its own states (use_orig_params) */
    SWI_KEYED_BY_UNIT           /* the states of a flat parameter */
} swi_unflat_keyed;

/* A tensor of the new catalog. */
typedef struct swi_unflat_section_name {
    const char *section, *name;
} swi_unflat_section_name;

/* Where a parameter lies in the model's rows. */
typedef struct swi_unflat_place {
    uint64_t shard; /* elements of each shard of its row; 0: it lies in none */
    uint64_t at;
} swi_unflat_place;

struct swi_unflat {
    swi_unflat_in in;
    const sw_catalog *catalog; /* of the base */
    size_t tensor_count;       /* of it */
    swi_unflat_tensor *tensors;
    bool has_model;                /* rows of a model: */
    const char *section;           /* that it is in */
    bool has_optimizers;           /* rows of optimizers: */
    bool states_stay;              /* they are left as they are */
    swi_param_names given;         /* names for its numbers */
    swi_unflat_keyed keyed;        /* whose states they are */
    uint64_t shards;               /* of them */
    swi_shapes *shapes;            /* owned */
    bool *left_out;                /* by shape: it lies beside the rows; NULL: none */
    swi_rows units;                /* with places; of the model, or those that the shapes name */
    const char **unit_names;       /* "layers.0._flat_param", by row of `units` */
    swi_unflat_place *places;      /* by shape; NULL: the model has no rows */
    swi_rows singles;              /* each parameter as a row of its own */
    uint32_t *single_of;           /* by shape: its row there; SWI_NOT_MADE: none */
    uint32_t *tied;                /* by shape: the tensor of the new catalog, or SWI_NOT_MADE */
    const char *model_before;      /* what the names of the model's parameters begin with */
    uint32_t model_row;            /* one of its rows */
    uint32_t align;                /* of the model's rows; 0: their places are recorded */
    swi_unflat_section_name *made; /* by tensor of the new catalog */
    size_t made_capacity;
    swi_arena arena;
};

/* ---- shapes -----------------------------------------------------------------------------------
 */

/*
 * Where shapes come from, one after the other: what the caller named; else each side of the model
 * that is known of the checkpoint, "hf" first; else, for optimizers alone, the checkpoint's own
 * tensors. *out NULL: no more. *given: the caller named them, so they must fit,
 * and there are no others.
 */
SW_MUST_USE sw_status swi_unflat_shapes(const swi_unflat *u, size_t attempt, swi_shapes **out,
                                        bool *given, sw_error *err);

/* ---- the model --------------------------------------------------------------------------------
 */

/* FS-6 to FS-9: places of all parameters in the rows of the model, by u->shapes. */
SW_MUST_USE sw_status swi_unflat_fit(swi_unflat *u, sw_error *err);
/* Units that the shapes name, where the model has no rows itself; none if they name none. */
SW_MUST_USE sw_status swi_unflat_units(swi_unflat *u, sw_error *err);
SW_MUST_USE sw_status swi_unflat_name_units(swi_unflat *u, sw_error *err);
/* Names of the units, and u->singles. */
SW_MUST_USE sw_status swi_unflat_name_rows(swi_unflat *u, sw_error *err);

/* The tensor of the new catalog that a parameter of the model's rows became; SWI_NOT_MADE. */
uint32_t swi_unflat_parameter(const swi_unflat *u, size_t shape);

/* ---- optimizers -------------------------------------------------------------------------------
 */

/* FS-10, FS-11: takes the optimizers of the state dict apart, their parameters called as the rows
 * are: by parameters or by units. */
SW_MUST_USE sw_status swi_unflat_lift(const swi_unflat *u, swi_unflat_keyed keyed,
                                      const swi_state *state, swi_optimizer **out, size_t *count,
                                      sw_error *err);
/* Finds which it is, and sets u->tensors of all states. */
SW_MUST_USE sw_status swi_unflat_states(swi_unflat *u, const swi_state *state, sw_error *err);
/* Appends the simple ways to wrap modules that would fit the optimizer's rows; nothing: none. */
SW_MUST_USE sw_status swi_unflat_suggest(swi_unflat *u, const swi_state *state, swi_buf *out,
                                         sw_error *err);
/* The row of a parameter of such an optimizer, or NULL. */
const swi_row *swi_unflat_row_of(const swi_unflat *u, const char *parameter);

#endif
