/*
 * A first look into all files of ranks, for what no file tells by itself: in which groups the
 * model was divided, and how long each rank's shard is of what FSDP1's optimizers keep flat.
 * Clauses RS-n are those of specs/rank_files.md.
 */
#ifndef SW_CONVERT_RANK_SURVEY_H
#define SW_CONVERT_RANK_SURVEY_H

#include "ranks/rank_reading.h"
#include "ranks/rank_series.h"

/* Which shard of what a group divides a rank has, as the model's shares tell. */
typedef struct swi_rank_place {
    uint64_t group, index; /* shard `index` of `group`; 0 of 0: not told */
    bool several;          /* different ones for different tensors */
} swi_rank_place;

typedef struct swi_rank_survey {
    const swi_rank_folder *folder;
    swi_rank_place *places; /* by rank */
    swi_names *rows;        /* 1-D states of parameters by number: name, with the item */
    int64_t *lengths;       /* of row i on rank r: [i * world + r]; -1: it has none */
    int64_t *offsets;       /* likewise, in the row; -1: nothing tells */
    int64_t *totals;        /* of each row */
    size_t length_capacity;
    swi_names *slices;          /* names of what is a view of a flat parameter on some rank */
    uint64_t shards;            /* that rows have; of the survey that is settled */
    bool placed, sharded, flat; /* DTensors, ShardedTensors, flat parameters were met */
    bool other_states;          /* states of parameters by number that have more dimensions */
    bool matrices;              /* tensors of the model that have more than one dimension */
    bool sections;              /* models or optimizers lie under keys of their own */
    bool has_rows;              /* RS-8: those states are rows */
} swi_rank_survey;

SW_MUST_USE sw_status swi_rank_survey_begin(const swi_rank_folder *folder, swi_rank_survey *out,
                                            sw_error *err);
/* A swi_rank_file_fn; ctx is the survey. */
SW_MUST_USE sw_status swi_rank_survey_file(void *ctx, const swi_file_of_rank *file,
                                           const swi_torch_file *tf, swi_torch_object *object,
                                           sw_error *err);
/* After the last file: decides what rows are. */
SW_MUST_USE sw_status swi_rank_survey_settle(swi_rank_survey *survey, sw_error *err);
void swi_rank_survey_end(swi_rank_survey *survey);

/* What a leaf is in the saved state dict. */
SW_MUST_USE sw_status swi_rank_leaf_role(const swi_torch_leaf *leaf, sw_role *out, sw_error *err);
/* "state", a number, a name: of an optimizer that was saved as torch has it. */
bool swi_is_numbered_state(const swi_torch_leaf *leaf);

/* The 1-D shards of a file: of which storage each is the data. */
typedef struct swi_flat_shards {
    uint32_t *of_storage; /* the tensor of the object; UINT32_MAX: none */
    size_t count;
} swi_flat_shards;
SW_MUST_USE sw_status swi_flat_shards_find(const swi_torch_file *tf, const swi_torch_object *object,
                                           swi_flat_shards *out, sw_error *err);
void swi_flat_shards_free(swi_flat_shards *shards);
/* The shard that a plain tensor is a view of; UINT32_MAX: none. */
uint32_t swi_flat_shard_under(const swi_flat_shards *shards, const swi_torch_tensor *t);

#endif
