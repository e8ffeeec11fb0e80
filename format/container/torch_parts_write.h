/*
 * What stands in a pickle of torch.save for a tensor of which a rank holds a part: a DTensor on a
 * mesh, or a ShardedTensor, in the form of torch 2.13 (specs/torch_values.md). Nothing is checked.
 */
#ifndef SW_CONTAINER_TORCH_PARTS_WRITE_H
#define SW_CONTAINER_TORCH_PARTS_WRITE_H

#include "container/torch_file.h"

#define SWI_TORCH_MESH_AXES 8U

/* A mesh of the ranks 0 .. ranks - 1, row-major; or of those of `root` that share what it lacks. */
typedef struct swi_torch_out_mesh swi_torch_out_mesh;
struct swi_torch_out_mesh {
    const char *device;                                              /* "cuda" */
    uint32_t axes;                                                   /* at least 1 */
    uint64_t size[SWI_TORCH_MESH_AXES], stride[SWI_TORCH_MESH_AXES]; /* of the ranks */
    const char *names[SWI_TORCH_MESH_AXES]; /* names[0] NULL: it has none */
    uint64_t group[SWI_TORCH_MESH_AXES];    /* the process groups of the rank, by number */
    uint64_t ranks, rank;                   /* of all, and the one that saves */
    uint32_t storage;                       /* that lists all ranks: int32 */
    const swi_torch_out_mesh *root;         /* NULL: it is one itself */
    uint32_t number;                        /* of meshes of one pickle: < SWI_TORCH_OUT_MESHES */
};
/*
 * Fills in stride, ranks and group of a root mesh whose sizes are set and which torch's
 * init_device_mesh made as the first one of its process.
 */
void swi_torch_out_mesh_number(swi_torch_out_mesh *mesh, uint64_t rank);

typedef enum swi_torch_out_placing {
    SWI_TORCH_REPLICATE = 0,
    SWI_TORCH_SHARD,
    SWI_TORCH_STRIDED_SHARD
} swi_torch_out_placing;
typedef struct swi_torch_out_placement {
    swi_torch_out_placing kind;
    uint32_t dim;
    uint64_t split_factor;
} swi_torch_out_placement;

#define SWI_TORCH_OUT_MESHES 8U
#define SWI_TORCH_PARTS_SLOTS 128U
/* For the tensors of one pickle; begins with the emitter of plain ones, and otherwise zeroed. */
typedef struct swi_torch_parts_emitter {
    swi_torch_emitter plain;
    uint32_t memo[SWI_TORCH_PARTS_SLOTS];
} swi_torch_parts_emitter;

typedef struct swi_torch_out_dtensor {
    swi_torch_out_tensor local;
    const int64_t *shape; /* of the whole; as many axes as the local one has */
    const swi_torch_out_mesh *mesh;
    const swi_torch_out_placement *placements; /* by axis of the mesh */
} swi_torch_out_dtensor;
SW_MUST_USE sw_status swi_torch_emit_dtensor(swi_torch_parts_emitter *emitter, swi_pickle_writer *w,
                                             const swi_torch_out_dtensor *tensor, sw_error *err);

/* A box, and the rank that holds it; with a length of 0 there is none. */
typedef struct swi_torch_out_box {
    int64_t offset[SW_MAX_AXES], length[SW_MAX_AXES];
    uint64_t rank;
} swi_torch_out_box;
typedef struct swi_torch_out_sharded {
    swi_torch_out_tensor local;
    const int64_t *shape;
    const char *device;
    uint32_t dim;         /* along which it is cut */
    uint64_t boxes, own;  /* of the process group, and which the local one is */
    uint64_t ranks, rank; /* of all, and the one that saves */
    void (*box)(const void *ctx, uint64_t i, swi_torch_out_box *out); /* i < boxes */
    const void *ctx;
} swi_torch_out_sharded;
SW_MUST_USE sw_status swi_torch_emit_sharded(swi_torch_parts_emitter *emitter, swi_pickle_writer *w,
                                             const swi_torch_out_sharded *tensor, sw_error *err);

#endif
