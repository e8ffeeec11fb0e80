/*
 * How a target divides the tensors of a state dict over ranks: by a layout (specs/notation.md), or
 * in rows as FSDP2 does. Clauses DCP-n are those of specs/dcp.md.
 */
#ifndef SW_CONVERT_LEAF_DIVISION_H
#define SW_CONVERT_LEAF_DIVISION_H

#include "base/names.h"
#include "framework.h"
#include "notation/division.h"
#include "optimizer/optimizer.h"

#define SWI_TARGET_RANKS_MAX 16384U

/* What is divided, and how messages call it. The texts are borrowed. */
typedef struct swi_leaf_division_in {
    const swi_target_in *in;
    const char *target;       /* "dcp" */
    const char *what;         /* "a DCP folder" */
    const char *more_options; /* that there are besides: "codec=planes" */
    bool flat_too;            /* intervals of the flattened tensor are parts like any */
} swi_leaf_division_in;

/* For a DCP folder, and files of ranks in its place. */
swi_leaf_division_in swi_leaf_division_dcp(const swi_target_in *in);

typedef struct swi_leaf_division {
    swi_leaf_division_in of;
    swi_rules *own; /* of rows; NULL: the rules are given */
    swi_division *division;
    uint32_t ranks; /* of all axes */
    bool *used;     /* by rule */
    /* With rules that are given, which go by names: */
    swi_names *names;    /* of the parameters that are written */
    uint32_t *parameter; /* tensors of the source, by those names */
    size_t parameter_capacity;
    swi_optimizer *optimizers;
    size_t optimizer_count;
    const char **state_of; /* by tensor of the source: its parameter; NULL: it is no state */
    swi_buf name;
} swi_leaf_division;

/*
 * From the target's options (ranks=N or dp=N, replicate=R, tp=T and the other axes of a layout),
 * --layout and the model. SW_ERR_ARG tells what is wrong with them.
 */
SW_MUST_USE sw_status swi_leaf_division_make(const swi_leaf_division_in *in, swi_leaf_division *out,
                                             sw_error *err);
void swi_leaf_division_end(swi_leaf_division *d);
/*
 * How the tensor of this leaf is cut. *whole: it is not, and any rank may write it; `out` is not
 * set then.
 */
SW_MUST_USE sw_status swi_leaf_cut(swi_leaf_division *d, const swi_state_part *leaf, bool *whole,
                                   swi_cut *out, sw_error *err);
/* LAY-6: warns of rules of --layout that no tensor met. A map's are for all of its models. */
SW_MUST_USE sw_status swi_leaf_division_say(const swi_leaf_division *d, sw_error *err);

#endif
