/*
 * What a tensor in a file of torch.save is a part of, as the file itself records it: a DTensor
 * (placements on a mesh) or a ShardedTensor (offsets and sizes). Clauses TV-n are those of
 * specs/torch_values.md. Nothing is executed.
 */
#ifndef SW_CONVERT_TORCH_VALUES_H
#define SW_CONVERT_TORCH_VALUES_H

#include "torch/placements.h"

/* A mesh of ranks, as a DeviceMesh has it. */
typedef struct swi_mesh {
    uint32_t axes;
    uint64_t size[SWI_MESH_AXES_MAX];
    const char *name[SWI_MESH_AXES_MAX]; /* NULL: it has none */
    const int64_t *ranks;                /* row-major, as many as the sizes multiply to */
    uint64_t count;
    int64_t rank; /* that saved the file, where the mesh tells; -1 */
} swi_mesh;
/* Where a rank is in the mesh (row-major); -1: it is not in it. */
int64_t swi_mesh_number(const swi_mesh *mesh, int64_t rank);

/* The meshes of a file; equal ones are one. */
typedef struct swi_meshes {
    swi_mesh *at;
    size_t count;
} swi_meshes;
void swi_meshes_free(swi_meshes *meshes);

typedef enum swi_share_kind {
    SWI_SHARE_PLACED = 0, /* the local tensor of a DTensor */
    SWI_SHARE_SHARD       /* the local shard of a ShardedTensor; it may have none */
} swi_share_kind;

typedef struct swi_share {
    swi_share_kind kind;
    uint32_t axes;
    int64_t shape[SW_MAX_AXES]; /* of the global tensor */
    /* PLACED: */
    uint32_t mesh;             /* index in the object's meshes */
    swi_placements placements; /* with the sizes of the mesh */
    /* SHARD: the box of this rank (lengths of zero: none), and how many shards there are. */
    int64_t offset[SW_MAX_AXES], length[SW_MAX_AXES];
    uint64_t shards;
    int64_t rank; /* that it says it is of; -1: not told */
    /* The ranks of its process group, and which of them this is: of a shard group the
     * local_world_size and local_rank that it states; 0 and -1: not told. */
    uint64_t group;
    int64_t group_rank;
} swi_share;
/* The mesh of a PLACED one; NULL for others and for none. */
const swi_mesh *swi_mesh_of(const swi_meshes *meshes, const swi_share *share);

#endif
