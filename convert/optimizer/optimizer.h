/*
 * The optimizer hub: one canonical form between all frameworks. Per parameter NAME a set of states
 * (exp_avg, exp_avg_sq, step, master ...), each a tensor or a value kept as found; and parameter
 * groups: every hyper-parameter, and the names of the parameters. Readers' keyings (nested,
 * flattened, by integer id) are lifted into it, writers' are lowered from it.
 *
 * Ids become names by `param_names` if the groups store them; else by the order of the model's
 * parameters if exactly one order-preserving assignment fits the shapes of all states (buffers and
 * ties left out); else the lift is refused (SW_ERR_CONFLICT: two fit, named; SW_ERR_INCOMPLETE:
 * none) and asks for --param-names. Never a guess. Clauses OPT-n are those of specs/optimizer.md.
 */
#ifndef SW_CONVERT_OPTIMIZER_H
#define SW_CONVERT_OPTIMIZER_H

#include "base/arena.h"
#include "state/state.h"

typedef struct swi_opt_state {
    uint32_t parameter; /* index in parameters */
    const char *name;   /* "exp_avg" */
    sw_value value;     /* SW_VALUE_TENSOR, or any value, in the state's graph */
} swi_opt_state;

typedef struct swi_opt_setting {
    sw_value key; /* as found: text mostly */
    sw_value value;
} swi_opt_setting;

typedef struct swi_opt_group {
    swi_opt_setting *settings; /* in the order found, without "params" and "param_names" */
    size_t setting_count;
    uint32_t *parameters; /* indexes, in order */
    size_t parameter_count;
} swi_opt_group;

typedef enum swi_opt_keying {
    SWI_OPT_NESTED_NAMES, /* {"state": {name: {...}}, "param_groups": [{..., "params": [name]}]} */
    SWI_OPT_NESTED_IDS,   /* the same with integer ids: torch's Optimizer.state_dict() */
    SWI_OPT_FLAT          /* "state.NAME.STATE", "param_groups.NAME.SETTING" */
} swi_opt_keying;

/* Where the names of an optimizer's parameters are from. */
typedef enum swi_opt_named_by {
    SWI_OPT_NAMED = 0,      /* it has them itself */
    SWI_OPT_NAMED_STORED,   /* param_names */
    SWI_OPT_NAMED_GIVEN,    /* --param-names */
    SWI_OPT_NAMED_BY_MODEL, /* the order of its map and configuration */
    SWI_OPT_NAMED_BY_ORDER  /* the one assignment to the model's tensors that fits */
} swi_opt_named_by;

typedef struct swi_optimizer {
    const swi_state *from;   /* whose graph the values are nodes of */
    const char *const *path; /* where in the state dict it lies ("optimizer") */
    size_t path_parts;
    sw_value dict;         /* there: the DICT that was taken apart */
    swi_opt_keying keying; /* how it was found */
    bool has_param_names;  /* the groups stored them */
    swi_opt_named_by named_by;
    uint64_t cleaned;        /* wrapper parts that were taken off names */
    const char **parameters; /* canonical names: as the module calls them, wrappers off */
    size_t parameter_count;
    swi_opt_state *states; /* by parameter, in the order found */
    size_t state_count;
    swi_opt_group *groups;
    size_t group_count;
    swi_opt_setting *extras; /* what else stood beside "state" and "param_groups" */
    size_t extra_count;
    swi_arena arena;
} swi_optimizer;

/* How parameters get their names. */
typedef struct swi_opt_naming {
    /* For numbers without param_names: the names of all parameters of the model in the order of
     * registration, each with the tensor of that name in the checkpoint, wrappers off unless they
     * are kept. NULL: none given. */
    const char *const *names;
    /* NULL: names are in the order of registration; else each is that of the parameter with this
     * number. */
    const uint64_t *numbers;
    /* Whether name `i` may be that of a parameter that has this tensor for a state, in place of the
     * shapes that the checkpoint has; NULL: states have their parameters' shapes. */
    bool (*may_be)(const void *ctx, size_t i, uint32_t tensor);
    const void *may_be_ctx;
    size_t name_count;
    bool by_model;      /* a map says them, not the user */
    bool keep_prefixes; /* wrapper parts stay */
    bool numbers_stay;  /* numbered parameters are called by their numbers, in decimal */
} swi_opt_naming;

/*
 * All optimizers of a state dict, wherever they lie in it. `naming` may be NULL. `state` must
 * outlive them.
 */
SW_MUST_USE sw_status swi_optimizers_lift(const sw_checkpoint *checkpoint, const swi_state *state,
                                          const swi_opt_naming *naming, swi_optimizer **out,
                                          size_t *count, sw_error *err);
void swi_optimizers_free(swi_optimizer *optimizers, size_t count);

/*
 * Which of these parameters of the model (names as its tensors have them, with wrapper parts or
 * without) some optimizer of the checkpoint has states for. Nothing is known of any where the
 * optimizers cannot be read or taken apart; fails only for want of memory and on I/O.
 */
SW_MUST_USE sw_status swi_optimizers_know(const sw_checkpoint *checkpoint, const char *const *names,
                                          size_t count, bool *known, sw_error *err);

typedef enum swi_opt_ordered {
    SWI_OPT_ORDER_KEPT = 0,
    SWI_OPT_ORDER_CHANGED, /* parameters were by FSDP's units and are in the order of `names` now */
    SWI_OPT_ORDER_UNKNOWN  /* they are by units, it seems, and `names` lacks some */
} swi_opt_ordered;
/*
 * OPT-15: for numbers, groups that list parameters by the modules that FSDP wrapped list them in
 * the order of registration, which `names` is. Any other order stays: it is the optimizer's own.
 */
SW_MUST_USE sw_status swi_optimizer_order(swi_optimizer *optimizer, const char *const *names,
                                          size_t count, swi_opt_ordered *out, sw_error *err);

/*
 * The optimizer's state dict in another keying, as a value of `graph` (the state's own, or another
 * into which the values are copied). Ids are positions over the groups' parameters in order;
 * settings of the flat form are repeated per parameter, and a group without parameters is not in
 * it. SW_ERR_CONFLICT: a parameter with state is in no group and has no id; SW_ERR_UNSUPPORTED: the
 * flat form has no place for a setting whose name holds a dot.
 */
SW_MUST_USE sw_status swi_optimizer_lower(const swi_optimizer *optimizer, swi_opt_keying keying,
                                          sw_value_graph *graph, sw_value *out, sw_error *err);

#endif
