/* The parts of the reader of torch.save files. Clauses TS-n are those of specs/torch.md. */
#ifndef SW_CONVERT_TORCH_H
#define SW_CONVERT_TORCH_H

#include "base/arena.h"
#include "base/names.h"
#include "container/torch_file.h"
#include "framework.h"
#include "layout.h"
#include "state/state.h"
#include "torch/torch_values.h"

/* ---- the object of a file, without what only tensors need ----------------------------------- */

/* What looks like a tensor and is none here: sparse, quantised, of a subclass; or a broken one. */
typedef struct swi_torch_opaque {
    sw_value node;
    sw_status status; /* SW_ERR_UNSUPPORTED, or what is wrong with it */
    const char *why;
} swi_torch_opaque;

#define SWI_TORCH_NO_TENSOR UINT32_MAX /* of the catalog */
/* It is no tensor of the catalog, and no part of the state dict. */
#define SWI_TORCH_LEFT_OUT (UINT32_MAX - 1)

/*
 * A copy of the object in which each plain tensor is a TENSOR node: its number in `tensors`. What
 * is opaque is copied whole, as the calls that would have rebuilt it.
 */
typedef struct swi_torch_object {
    sw_value_graph *graph;
    sw_value root;
    swi_torch_tensor *tensors; /* only while the file is put into the catalog */
    uint32_t *share_of;        /* of each tensor, see swi_torch_share_of; likewise */
    size_t tensor_count, tensor_capacity, share_of_capacity;
    swi_share *shares; /* likewise */
    size_t share_count, share_capacity;
    swi_meshes meshes; /* of the shares; likewise */
    /* Of each tensor: its first name's index; UINT32_MAX: not reached, or SWI_TORCH_LEFT_OUT. */
    uint32_t *catalog_of;
    bool has_left_out;
    int64_t rank;             /* that saved it, as the first share tells; -1: not told */
    bool repeats;             /* what another rank saved too: no part of the state dict */
    swi_torch_opaque *opaque; /* sorted by node */
    size_t opaque_count, opaque_capacity;
    swi_arena arena; /* texts of the opaque ones */
} swi_torch_object;

/*
 * `parts`: of a DTensor or ShardedTensor what the rank that saved it has is a tensor with a share,
 * else it is opaque. One of which the rank has nothing is a tensor of no elements, on no storage.
 */
SW_MUST_USE sw_status swi_torch_object_make(const swi_torch_file *tf, const swi_reader *reader,
                                            bool parts, swi_torch_object *out, sw_error *err);
void swi_torch_object_free(swi_torch_object *object);
/* What a tensor is a part of; NULL: it is a plain tensor. */
const swi_share *swi_torch_share_of(const swi_torch_object *object, uint32_t tensor);
/* Frees what is there only while the file is put into the catalog. */
void swi_torch_object_forget(swi_torch_object *object);
/* Takes the tensors that were left out from the dicts of the object. */
SW_MUST_USE sw_status swi_torch_prune(swi_torch_object *object, sw_error *err);
/* What is opaque about a node, or NULL. */
const swi_torch_opaque *swi_torch_opaque_at(const swi_torch_object *object, sw_value v);

/* ---- the walk: names for what the object holds (TS-3) ---------------------------------------- */

#define SWI_TORCH_DEPTH_MAX 256

typedef struct swi_torch_leaf {
    sw_value node; /* a TENSOR, an opaque one, or any value that holds neither */
    const char *name;
    const char *const *parts; /* that the name is joined of */
    const bool *is_index;
    size_t count;
} swi_torch_leaf;

typedef sw_status (*swi_torch_leaf_fn)(void *ctx, const swi_torch_leaf *leaf, sw_error *err);
/*
 * In the order of the object, which may hold itself; *too_deep: something lies deeper than that.
 * SW_ERR_LIMIT when it unfolds into more places than swi_graph_unfold_limit, long names counted.
 */
SW_MUST_USE sw_status swi_torch_walk(const swi_torch_object *object, swi_torch_leaf_fn fn,
                                     void *ctx, bool *too_deep, sw_error *err);

/* ---- the catalog ------------------------------------------------------------------------------
 */

/* Where the values of the catalog are: kept with the checkpoint. */
typedef struct swi_torch_value_at {
    uint32_t object; /* index in objects */
    sw_value node;
    int64_t rank; /* whose it is, where it differs from the first one; else -1 */
} swi_torch_value_at;
/* A tensor that a later rank has for itself, and the name under which the first one has its own. */
typedef struct swi_torch_own {
    uint32_t tensor;
    int64_t rank;
    const char *name; /* in the arena of its object */
} swi_torch_own;
typedef struct swi_torch_kept {
    swi_torch_object *objects; /* one a file that could be read */
    size_t object_count;
    swi_torch_value_at *values; /* by index in the catalog */
    size_t value_count, value_capacity;
    swi_torch_own *own;
    size_t own_count, own_capacity;
    sw_limits limits;
    bool unsafe; /* dangerous names were met */
} swi_torch_kept;

/* What is counted over all files. */
typedef struct swi_torch_totals {
    uint64_t storages, storage_bytes;
    uint64_t bare_storages; /* without CRC-32 */
    uint64_t used_bytes;    /* that tensors of the catalog take, ties once */
    uint64_t files, legacy_files, swapped_files;
} swi_torch_totals;

/* What a tensor of a rank's file is in the checkpoint. */
typedef struct swi_torch_box {
    bool left_out;   /* it is not put in; whoever decided that has said why */
    bool is_own;     /* no part of another one; then nothing else is set */
    bool replicated; /* other ranks hold the same elements */
    uint32_t axes;
    int64_t shape[SW_MAX_AXES];  /* of the tensor of the checkpoint */
    int64_t local[SW_MAX_AXES];  /* of what the rank has of it */
    const swi_block_part *parts; /* the boxes that this is made of, borrowed until the next call */
    size_t part_count;
} swi_torch_box;

/* A tensor of a file on its way to its place. */
typedef struct swi_torch_met {
    const swi_torch_leaf *leaf;
    const swi_torch_tensor *tensor;
    const swi_share *share; /* NULL: a plain tensor */
    const swi_mesh *mesh;   /* of a share that is PLACED, else NULL */
} swi_torch_met;

/* How the files of ranks make one checkpoint. */
typedef struct swi_torch_ranks {
    /* Fails on what is wrong with this tensor (a finding then), and on NOMEM. */
    sw_status (*place)(void *ctx, const swi_torch_met *met, swi_torch_box *out, sw_error *err);
    /* A value that differs from the first rank's is told. May be NULL. */
    sw_status (*differs)(void *ctx, const swi_torch_leaf *leaf, const swi_torch_object *object,
                         const swi_torch_value_at *first, sw_error *err);
    void *ctx;
    uint64_t rank; /* of the file that is being put in */
} swi_torch_ranks;

typedef struct swi_torch_filling {
    swi_opening *o;
    swi_torch_kept *kept;
    swi_names *names;     /* of tensors: index of `ids` and `files` */
    const char **file_of; /* where a name was met first */
    size_t file_capacity;
    swi_names *views; /* exact views of storages: index of `owners` */
    uint32_t *owners; /* the first tensor that is this view */
    size_t owner_capacity;
    const swi_torch_ranks *ranks; /* NULL: every tensor is whole */
    uint32_t *id_of;              /* with ranks: the tensor of a name that ranks have parts of */
    size_t id_capacity;
    swi_names *values; /* with ranks: names, and which value of `kept` was the first */
    uint32_t *value_of;
    size_t value_capacity;
    size_t news; /* with ranks: names, of tensors and values, that were met for the first time */
    swi_torch_totals totals;
} swi_torch_filling;

/* The saved state dict as it was; the shards of a model as one dict. */
SW_MUST_USE sw_status swi_torch_state(const sw_checkpoint *checkpoint, swi_state *out,
                                      sw_error *err);
/* TS-15: in the state dict each parameter's states are those of its own name. */
SW_MUST_USE sw_status swi_torch_own_states(const sw_catalog *catalog, swi_state *state,
                                           sw_error *err);
SW_MUST_USE sw_status swi_torch_value(const sw_checkpoint *checkpoint, size_t i,
                                      sw_value_graph **graph, sw_value *root, sw_error *err);

/* A file as a target. */
SW_MUST_USE sw_status swi_torch_layout(const swi_target_in *in, swi_layout *layout, sw_error *err);

/* What is kept of the files (swi_torch_kept) goes to the checkpoint at once. */
SW_MUST_USE sw_status swi_torch_filling_begin(swi_opening *o, swi_torch_filling *f, sw_error *err);
/* The fact "checksums": how many storages carry a CRC-32. */
SW_MUST_USE sw_status swi_torch_say_checksums(const swi_torch_filling *f, sw_error *err);
/* Puts a file into the catalog; takes the object over (into kept->objects). */
SW_MUST_USE sw_status swi_torch_fill(swi_torch_filling *f, const swi_torch_file *tf,
                                     const char *path, uint64_t bytes, swi_torch_object *object,
                                     sw_error *err);
void swi_torch_filling_end(swi_torch_filling *f);

#endif
