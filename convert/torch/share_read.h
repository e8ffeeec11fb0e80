/* Reading shares from the object of a file. Clauses TV-n are those of specs/torch_values.md. */
#ifndef SW_CONVERT_SHARE_READ_H
#define SW_CONVERT_SHARE_READ_H

#include "torch/torch_mesh.h"

/* A call that rebuilds a DTensor or a ShardedTensor, also with Parameters around it. */
typedef struct swi_share_call {
    swi_share_kind kind;
    bool before_2_5; /* a DTensor whose class is where it was before torch 2.5 */
    sw_value args;   /* (class, dtype, shape, ...); none before 1.13 */
    sw_value state;
} swi_share_call;
bool swi_share_find(const sw_value_graph *g, sw_value v, swi_share_call *out);

/*
 * What it is a part of, and that part. A shard of which the rank has nothing is a tensor without
 * elements, of lengths of zero. SW_ERR_UNSUPPORTED names what is not read.
 */
SW_MUST_USE sw_status swi_share_read(swi_mesh_reader *meshes, const swi_share_call *call,
                                     swi_share *share, swi_torch_tensor *local, sw_error *err);

#endif
