/*
 * The saved state dict as a whole: nested dicts, lists and tuples whose leaves are values and
 * references to tensors of the catalog (SW_VALUE_TENSOR). Every reader can give it, every writer of
 * training state starts from it; what frameworks do to it on the way (flattening, keying by number)
 * is theirs to undo here and to do again there.
 */
#ifndef SW_CONVERT_STATE_H
#define SW_CONVERT_STATE_H

#include "base/names.h"
#include "framework.h"

/* A value of which ranks saved different ones under one key; or a tensor, which is theirs alone. */
typedef struct swi_state_scoped {
    int64_t rank;
    const char *name; /* that the first rank's has in the catalog; borrowed from the checkpoint */
    sw_value value;   /* may be a TENSOR */
} swi_state_scoped;

typedef struct swi_state {
    sw_value_graph *graph; /* owned */
    sw_value root;         /* a DICT, or any value that was saved bare */
    /* Dicts of modules are in the order in which they were saved: that of registration. */
    bool ordered;
    /* Values that differ from those of the first rank, which are in `root`; owned. */
    swi_state_scoped *scoped;
    size_t scoped_count;
    /* The parameters of its modules, by their names in these, where a target's reshape knows them:
     * what else is in a module is a buffer. Owned; NULL: nothing says. */
    swi_names *parameters;
} swi_state;

/*
 * Asks the checkpoint's framework; one without a state of its own gives one DICT from tensor names
 * to tensors. Memory: nodes for tensors and values, no tensor bytes. Values that cannot be read are
 * SW_ERR_CORRUPT with their name; unsafe ones SW_ERR_UNSAFE. What the catalog does not hold (parts
 * that are missing or not supported, which opening reported) is not in the state. A tensor that is
 * part of a value of its own (a tuple of tensors in a DCP folder) is the call that rebuilds it,
 * with a PERSISTENT node for its storage. Either that carries its bytes
 * (swi_torch_carried_storage), or it means something in that item alone, and a writer refuses it.
 */
SW_MUST_USE sw_status swi_checkpoint_state(const sw_checkpoint *checkpoint, swi_state *out,
                                           sw_error *err);
void swi_state_free(swi_state *state);
/* Makes the root of a state whose graph is there: one DICT from the names of all tensors of the
 * catalog to them, in its order. */
SW_MUST_USE sw_status swi_state_of_names(const sw_checkpoint *checkpoint, swi_state *state,
                                         sw_error *err);

/* Whether they are the same value for sure: written alike. Fails on NOMEM alone. */
SW_MUST_USE sw_status swi_value_same(const sw_value_graph *g, sw_value v, const sw_value_graph *h,
                                     sw_value w, bool *out, sw_error *err);

/* The node at a path of DICT keys ("model", "a.b") and list positions ("#0"); false: none. */
bool swi_state_find(const swi_state *state, const char *const *path, size_t parts, sw_value *out);

/*
 * Walks all leaves in order with an explicit stack (shared containers once a place; refused with
 * SW_ERR_UNSUPPORTED: cycles, keys that are neither text nor a plain number, and 0 and "0" in one
 * dict; more steps than sw_limits.nodes: SW_ERR_LIMIT): `path` and `is_index` have `parts` entries,
 * borrowed for the call. Keys are as Python's str() gives them: 0 is "0", as DCP has them.
 */
typedef struct swi_state_leaf {
    const char *const *path;
    const bool *is_index;
    size_t parts;
    sw_value key; /* that it has in its DICT; of elements of lists none */
    sw_value value;
    bool is_tensor;
    uint32_t tensor;
} swi_state_leaf;
typedef sw_status (*swi_state_leaf_fn)(void *ctx, const swi_state_leaf *leaf, sw_error *err);
/*
 * How deep containers are descended: torch's rule since 2.4 (mappings always; lists that directly
 * hold a tensor, a mapping or such a list; tuples never), which is how DCP flattens.
 */
SW_MUST_USE sw_status swi_state_walk(const swi_state *state, swi_state_leaf_fn fn, void *ctx,
                                     sw_error *err);
/* The same, told of the containers on the way too: with their own paths, before and after what they
 * hold. */
typedef struct swi_state_visitor {
    swi_state_leaf_fn leaf, enter, leave;
    void *ctx;
} swi_state_visitor;
SW_MUST_USE sw_status swi_state_visit(const swi_state *state, const swi_state_visitor *visitor,
                                      sw_error *err);

/*
 * The state dict with these leaves alone (a part of its own, in order), as nodes of its graph:
 * containers of which nothing is left go too, those that lose nothing are the same nodes.
 * SW_ERR_ARG: a list would lose an element, and those behind it their places.
 */
SW_MUST_USE sw_status swi_state_keep(const swi_state *state, const swi_state_part *kept,
                                     size_t count, sw_value *root, sw_error *err);

/*
 * A value whose tensors are to be parts of it, as DCP keeps those inside tuples: when there are any
 * *graph is a new one (to be freed) with a copy, *out, in which they bring their bytes, compared
 * with their CRCs; else *graph is NULL and *out is `v`. SW_ERR_UNSUPPORTED: more than
 * SWI_TORCH_CARRIED_MAX bytes of them.
 */
SW_MUST_USE sw_status swi_state_carry(const swi_target_in *in, sw_value v, sw_value_graph **graph,
                                      sw_value *out, sw_error *err);
/*
 * The same into a graph of the caller's, whatever `v` is: tensors for which `stays` (NULL: none) is
 * true stay references.
 */
typedef bool (*swi_tensor_stays_fn)(const void *ctx, uint32_t tensor);
SW_MUST_USE sw_status swi_state_carry_into(const swi_target_in *in, sw_value v,
                                           swi_tensor_stays_fn stays, const void *ctx,
                                           sw_value_graph *to, sw_value *out, sw_error *err);

#endif
