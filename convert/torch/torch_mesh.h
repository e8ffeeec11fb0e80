/* The DeviceMeshes of a torch.save file. Clauses TV-n are those of specs/torch_values.md. */
#ifndef SW_CONVERT_TORCH_MESH_H
#define SW_CONVERT_TORCH_MESH_H

#include "base/arena.h"
#include "base/names.h"
#include "container/torch_file.h"
#include "torch/torch_values.h"

/* Of one mesh, and of all meshes of a file together: more is SW_ERR_LIMIT. */
#define SWI_MESH_RANKS_ALL_MAX ((uint64_t)1 << 24)

typedef struct swi_mesh_reader {
    const swi_torch_file *tf;
    swi_meshes *out; /* the texts and ranks of which are the arena's */
    swi_arena *arena;
    size_t capacity;
    swi_names *nodes; /* that were read: index of `mesh_of` */
    uint32_t *mesh_of;
    size_t mesh_of_capacity;
    swi_names *contents;     /* what is in a mesh: its index in `out` */
    sw_value_graph *carried; /* storages with their bytes, by `carrier` */
    swi_torch_carrier carrier;
    uint64_t left; /* ranks that may still be read */
} swi_mesh_reader;

/* Borrows all that it is given until _end, which leaves *out and the arena alone. */
SW_MUST_USE sw_status swi_mesh_reader_begin(swi_mesh_reader *r, const swi_torch_file *tf,
                                            const swi_reader *reader, swi_meshes *out,
                                            swi_arena *arena, sw_error *err);
void swi_mesh_reader_end(swi_mesh_reader *r);
/* The index of the mesh that a DeviceMesh is. SW_ERR_UNSUPPORTED: a form that is not known. */
SW_MUST_USE sw_status swi_mesh_read(swi_mesh_reader *r, sw_value v, uint32_t *index, sw_error *err);

#endif
