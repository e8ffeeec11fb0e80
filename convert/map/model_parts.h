/* What a model is made of, for model*.c and the mapping (mapping*.c). */
#ifndef SW_CONVERT_MAP_MODEL_PARTS_H
#define SW_CONVERT_MAP_MODEL_PARTS_H

#include "base/names.h"
#include "map/map.h"
#include "map/model.h"

#define SWI_NO_TENSOR UINT32_MAX

/* A tensor of the model as small as any side has it. Its index is its place in the order. */
typedef struct swi_atom {
    uint32_t rule, part;
    uint32_t axes;
    uint32_t tie;   /* the atom that it is tied to; SWI_NO_TENSOR */
    uint32_t ring;  /* the next of those that are one with it; its own index where there is none */
    uint32_t group; /* of those that are there together or not at all; SWI_NO_TENSOR: always */
    int64_t shape[SW_MAX_AXES];
} swi_atom;

/* A tensor of a side: atoms that one rule gives, in order: parts fastest, then what is stacked. */
typedef struct swi_side_tensor {
    uint32_t rule;
    uint32_t first, last, count; /* atoms */
    uint32_t axes;
    int64_t shape[SW_MAX_AXES];
    int64_t bare[SW_MAX_AXES]; /* before padding */
} swi_side_tensor;

typedef struct swi_side {
    swi_names *names; /* of the tensors: same index */
    swi_side_tensor *tensors;
    size_t capacity;
    /* Those that a target has; behind them are those that only a source may have: names of tied
     * atoms that the side leaves out for their `when` (MAP-6). */
    uint32_t own;
    uint32_t *tensor_of; /* by atom: the tensor that has it, or SWI_NO_TENSOR */
    size_t tensor_of_capacity;
    uint32_t *next; /* by atom: the next one of its tensor, or SWI_NO_TENSOR */
    size_t next_capacity;
    bool able;         /* it can hold this model */
    bool *prefers;     /* by layout of the map: its `when` holds */
    uint32_t *layouts; /* the order that this gives */
} swi_side;

/* It has a tensor of its own for the atom. */
static inline bool swi_side_has(const swi_side *side, uint32_t atom)
{
    return side->tensor_of[atom] < side->own;
}

struct swi_model {
    swi_map *map; /* owned */
    sw_limits limits;
    sw_value_graph *config; /* owned; NULL: none */
    swi_expr_var config_var;
    swi_expr_vars config_vars;
    swi_expr_var *lets;
    swi_expr_vars let_vars;
    swi_expr_scope outer, scope; /* the configuration; the names of `let`, then that */
    char *config_file;           /* for messages, or NULL */
    uint8_t *config_text;
    size_t config_size;
    bool untied; /* the text says otherwise, the caller that it is not */
    swi_names *atom_names;
    swi_atom *atoms; /* same index */
    size_t atom_capacity;
    uint32_t group_count;
    swi_side *sides; /* as the map's */
    bool has_scales; /* MAP-10: tensors of float8 types have companions */
    int64_t block[SW_MAX_AXES];
    uint32_t block_axes;
};

static inline uint32_t swi_model_atom_count(const swi_model *model)
{
    return swi_names_count(model->atom_names);
}

static inline const swi_map_form *swi_form_of(const swi_model *model, size_t side, uint32_t rule)
{
    return &model->map->rules[rule].forms[side];
}

/* ---- model_expand.c ---------------------------------------------------------------------------
 */

/* Atoms and the tensors of every side, from the map's rules. */
SW_MUST_USE sw_status swi_model_expand(swi_model *model, sw_error *err);

/* ---- model_shapes.c: the shapes of the sides' tensors -----------------------------------------
 */

/* A whole number from 0 on; else MAP-4 at the node, with what it is and the text. */
SW_MUST_USE sw_status swi_model_eval_size(const swi_model *model, const swi_expr_scope *scope,
                                          const swi_expr *expr, swi_yaml_node at, const char *what,
                                          int64_t *out, sw_error *err);
/* Of all tensors of all sides, whose atoms are known. */
SW_MUST_USE sw_status swi_model_set_shapes(swi_model *model, sw_error *err);

/* ---- model.c ----------------------------------------------------------------------------------
 */

/* A configuration as it was read. */
typedef struct swi_model_config {
    sw_value_graph *graph; /* NULL: none */
    sw_value root;
    uint8_t *text;
    size_t size;
    bool untied;    /* by the caller, in the graph alone */
    char file[256]; /* its name, for messages */
    char key[64];   /* the name by which sides know it */
} swi_model_config;
void swi_model_config_free(swi_model_config *config); /* ends with {0} */

/*
 * A model of these; both are its own from then on, whatever comes of it (*config ends with {0}).
 * `side`: whose configuration it is (its own `let` counts), or SIZE_MAX.
 */
SW_MUST_USE sw_status swi_model_make(swi_map *map, swi_model_config *config, size_t side,
                                     const sw_limits *limits, swi_model **out, sw_error *err);
/* The rearrangement of the atoms of this part by a form, for such a shape; false: none. */
SW_MUST_USE sw_status swi_model_rearrange(const swi_model *model, const swi_map_form *form,
                                          uint32_t part, uint32_t axes, const int64_t *shape,
                                          bool *has, swi_rearrange *out, sw_error *err);
/* The shape of an atom as a form has it, before it is joined. */
SW_MUST_USE sw_status swi_model_shape(const swi_model *model, const swi_map_form *form,
                                      const swi_atom *atom, uint32_t *axes, int64_t *shape,
                                      sw_error *err);
/* The `groups` of a form. */
SW_MUST_USE sw_status swi_model_groups(const swi_model *model, const swi_map_form *form,
                                       int64_t *out, sw_error *err);

#endif
