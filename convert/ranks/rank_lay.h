/*
 * Files of torch.save that each rank of a run would have written, as a target: the state dict once
 * a rank, in which tensors are the parts that this rank holds. Clauses RF-n are those of
 * specs/rank_files.md.
 */
#ifndef SW_CONVERT_RANK_LAY_H
#define SW_CONVERT_RANK_LAY_H

#include "framework.h"
#include "notation/division.h"

/* More of them and what every file says of all would be most of what is written. */
#define SWI_RANK_LAY_MAX 4096U

struct swi_target;

/* "files=ranks" among a target's options asks for files of ranks in place of its usual ones. */
#define SWI_FILES_OPTION "files"
bool swi_rank_files_asked(const char *options);
/*
 * What that makes of a target: who reads it, optimizers by number with their parameters' names
 * beside it, a place for each rank's values. SW_ERR_ARG: other files. files=NAME of the target's
 * own kind is taken out.
 */
SW_MUST_USE sw_status swi_rank_choose_files(struct swi_target *target, sw_error *err);

/* What stands for a tensor in the files. */
typedef enum swi_rank_form {
    SWI_RANK_WHOLE = 0, /* a plain tensor, all of it in every file; `cut` is not set */
    SWI_RANK_DTENSOR,   /* a DTensor on the mesh of the division */
    SWI_RANK_SHARDED,   /* a ShardedTensor, whose parts are boxes that do not overlap */
    SWI_RANK_LOCAL      /* a plain tensor: what the rank holds, and nothing tells of what */
} swi_rank_form;

typedef struct swi_rank_cut {
    swi_rank_form form;
    swi_cut cut;
} swi_rank_cut;

typedef struct swi_rank_lay_in {
    const swi_target_in *in; /* what its state and its leaves are must outlive the layout */
    const swi_division *division;
    /* How the tensor of this leaf is cut: by the division, in boxes of its shape, one a rank. */
    sw_status (*cut)(void *ctx, const swi_state_part *leaf, swi_rank_cut *out, sw_error *err);
    /* What the division is a part of: the layout's own as soon as this is called (NULL: not). */
    void *ctx;
    void (*free_ctx)(void *ctx);
    /* Of the mesh, which has the axes of the division that a run of torch had: */
    const char *device;            /* "cuda": what the ranks ran on */
    const char *const *axis_names; /* by axis of the division; NULL: the mesh has no names */
    int fsdp_version;              /* 1, 2: said in fsdp_config.json */
} swi_rank_lay_in;

/*
 * Lays out, for W ranks, `model_world_size_W_rank_R.pt`, `optim_world_size_W_rank_R.pt` (where
 * there is an optimizer), `extra_state_world_size_W_rank_R.pt` (what is neither), fsdp_config.json,
 * and assets under huggingface/. Values of which the ranks of the source had different ones go to
 * their rank's file where there were as many ranks. SW_ERR_LIMIT: more than SWI_RANK_LAY_MAX ranks.
 */
SW_MUST_USE sw_status swi_rank_lay(const swi_rank_lay_in *in, swi_layout *layout, sw_error *err);

/* The same as a framework's layout: DTensors, divided by the options or by --layout (RF-20). */
SW_MUST_USE sw_status swi_rank_layout(const swi_target_in *in, swi_layout *layout, sw_error *err);

#endif
