/* Files of ranks while they are laid out, and while what is late in them is made: rank_lay*.c. */
#ifndef SW_CONVERT_RANK_LAYING_H
#define SW_CONVERT_RANK_LAYING_H

#include "base/arena.h"
#include "container/torch_parts_write.h"
#include "ranks/rank_lay.h"
#include "state/state.h"

/* A mesh that some tensors are divided by. Axes of one rank are not in it. */
typedef struct swi_rank_mesh {
    uint32_t number;                  /* of the layout's mesh */
    uint32_t axis[SWI_MESH_AXES_MAX]; /* of that mesh, by axis of this one */
    swi_torch_out_mesh out;           /* without a rank */
} swi_rank_mesh;

/* A tensor that is written. */
typedef struct swi_rank_entry {
    uint32_t source;            /* of the source catalog */
    const swi_state_part *leaf; /* NULL: it is a part of a value */
    sw_dtype dtype;
    uint32_t axes;
    int64_t shape[SW_MAX_AXES];
    swi_rank_cut how;
    uint32_t mesh; /* of a DTensor */
    swi_torch_out_placement placements[SWI_MESH_AXES_MAX];
    uint32_t same_as; /* the entry that has the same elements: tied; or itself */
    uint32_t tensor;  /* of the layout */
    uint32_t of_rank; /* whose object alone has it; UINT32_MAX: all have */
    bool laid;        /* it is in the layout */
} swi_rank_entry;

/* The files of one name. */
typedef struct swi_rank_series {
    const char *name;   /* "model", as the files are called */
    const char *prefix; /* of the names of what it holds, for whoever reads the files */
    sw_value root;
    sw_value *root_of;    /* by rank; NULL: that of all */
    uint32_t *storage_of; /* by entry; UINT32_MAX: it is in no file of the series */
    uint32_t *entries;    /* by storage */
    uint32_t count;       /* storages of tensors; that of the mesh follows */
} swi_rank_series;

#define SWI_RANK_SERIES 3U

/* The layout's own from the first late part on: what makes those. */
typedef struct swi_rank_plan {
    swi_rank_lay_in in; /* without what is needed at once alone */
    sw_value_graph *graph;
    uint32_t ranks;
    swi_rank_series series[SWI_RANK_SERIES];
    size_t series_count;
    swi_rank_entry *entries;
    size_t count, capacity;
    uint32_t *entry_of; /* by tensor of the source; UINT32_MAX: none */
    swi_rank_mesh meshes[SWI_TORCH_OUT_MESHES];
    uint32_t mesh_count;
    bool meshes_needed; /* some tensor is a DTensor */
    swi_arena arena;
} swi_rank_plan;

/* What else is in an object: storages whose bytes are its own. */
typedef struct swi_rank_carried {
    swi_torch_carried *items;
    size_t count, capacity;
} swi_rank_carried;

/* RF-21: finds the series, and in them the values of each rank (RF-24). */
SW_MUST_USE sw_status swi_rank_divide_state(swi_rank_plan *plan, sw_error *err);
/* The object of a rank's file of a series, appended; carried->count is 0 before. */
SW_MUST_USE sw_status swi_rank_emit(const swi_rank_plan *plan, const swi_rank_series *series,
                                    uint32_t rank, swi_buf *out, swi_rank_carried *carried,
                                    sw_error *err);
/* The mesh by which a tensor is cut, and its placements; SW_ERR_UNSUPPORTED: no DTensor says so. */
SW_MUST_USE sw_status swi_rank_place(swi_rank_plan *plan, swi_rank_entry *entry, sw_error *err);
/* What a rank holds of a tensor. */
void swi_rank_local(const swi_rank_entry *entry, uint32_t rank, swi_local *out);
/* Whether `at` and `to` are the same cut of tensors of one shape. */
bool swi_rank_cut_same(const swi_rank_cut *a, const swi_rank_cut *b);

#endif
