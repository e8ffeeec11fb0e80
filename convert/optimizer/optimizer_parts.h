/*
 * The parts of the optimizer hub: optimizer.c finds optimizers and names their parameters,
 * optimizer_lift.c takes them apart, optimizer_candidates.c what numbered
 * parameters may be, optimizer_ids.c which they are,
 * optimizer_shapes.c what shapes tell of them.
 */
#ifndef SW_CONVERT_OPTIMIZER_PARTS_H
#define SW_CONVERT_OPTIMIZER_PARTS_H

#include "base/names.h"
#include "optimizer/optimizer.h"

/* One optimizer while it is lifted. */
typedef struct swi_lifting {
    const sw_checkpoint *checkpoint;
    const swi_state *state;
    const sw_value_graph *g;
    swi_opt_naming naming;
    swi_optimizer *o;
    swi_names *keys; /* as found: a name, or an id in decimal; ids are parameters' indexes */
    const char **stored_names; /* param_names, by parameter; NULL: none */
    size_t stored_capacity;
    size_t state_capacity, group_capacity;
    char where[128]; /* for messages: optimizer "optimizer" */
} swi_lifting;

/* A failure of this optimizer, with its clause. */
sw_status swi_opt_fail(const swi_lifting *l, sw_error *err, sw_status status, const char *clause,
                       const char *fmt, ...) SW_PRINTF(5, 6);

bool swi_opt_text_begins(const sw_value_graph *g, sw_value v, const char *with);

/* Keys, groups, states and extras of one optimizer; parameters have no names yet. */
SW_MUST_USE sw_status swi_opt_lift_nested(swi_lifting *l, sw_value dict, sw_error *err);
SW_MUST_USE sw_status swi_opt_lift_flat(swi_lifting *l, sw_value dict, sw_error *err);

/* Whether a parameter of which this is a state may have this shape. */
typedef enum swi_opt_says {
    SWI_OPT_SAYS_NOTHING = 0,
    SWI_OPT_SAYS_YES,
    SWI_OPT_SAYS_NO,   /* unless another state says yes */
    SWI_OPT_SAYS_NEVER /* whatever others say */
} swi_opt_says;
swi_opt_says swi_opt_shape_says(const char *state, const sw_tensor_info *info, uint32_t axes,
                                const int64_t *shape);

/* A tensor of the model that may be a numbered parameter. */
typedef struct swi_opt_candidate {
    const char *name;
    bool has_shape; /* of the checkpoint's tensor of that name */
    uint32_t axes;
    int64_t shape[SW_MAX_AXES];
} swi_opt_candidate;
/* In the order of registration (OPT-7); free() them. */
SW_MUST_USE sw_status swi_opt_candidates(swi_lifting *l, swi_opt_candidate **items, size_t *count,
                                         sw_error *err);
/* What numbers do not tell, and how it may be told. */
sw_status swi_opt_ask(const swi_lifting *l, sw_error *err, sw_status status, const char *clause,
                      const char *text);

/* names[i]: the name of parameter i, borrowed from the lifting's arena. Clauses OPT-5 to OPT-9. */
SW_MUST_USE sw_status swi_opt_name_ids(swi_lifting *l, const char **names, sw_error *err);

#endif
