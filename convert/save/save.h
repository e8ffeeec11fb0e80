/*
 * What a program has put together to be saved, and the checkpoint that it is: one that lies in no
 * file, so that saving it is converting it.
 */
#ifndef SW_CONVERT_SAVE_H
#define SW_CONVERT_SAVE_H

#include "base/arena.h"
#include "base/names.h"
#include "framework.h"
#include "model/value.h"
#include "select/sections.h"
#include "source/held.h"
#include "state/state.h"

/* Placements on a mesh, each once; texts and ranks are in the arena. */
typedef struct swi_saved_layout {
    const char *names[SWI_MESH_AXES_MAX]; /* of the axes */
    const uint32_t *ranks;                /* of the mesh, row-major; NULL: 0, 1, 2 ... */
    uint64_t count;                       /* of them */
    swi_placements placements;
    bool partial;    /* some placement is Partial */
    bool replicated; /* several ranks hold the same elements */
    bool computed;   /* the placements tell what each rank has (swi_placed_box) */
    uint64_t terms;
} swi_saved_layout;

#define SWI_SAVED_NO_LAYOUT UINT32_MAX

typedef struct swi_saved_tensor {
    const char *name;            /* its path with dots: in the catalog */
    const char *section, *inner; /* select/sections.h */
    sw_role role;
    sw_dtype dtype;
    uint32_t axes;
    int64_t shape[SW_MAX_AXES];
    uint32_t layout;  /* of the save's; or SWI_SAVED_NO_LAYOUT */
    bool boxes, flat; /* it has parts that are so */
} swi_saved_tensor;

/* One call of sw_save_tensor: some elements of a tensor, in memory of the caller. */
typedef struct swi_saved_piece {
    uint32_t tensor, rank;
    uint64_t term;   /* of a Partial tensor */
    bool flat;       /* the view is all elements in a row */
    swi_piece piece; /* of one term; its blob is all of the memory */
} swi_saved_piece;

/* A leaf of a value that is of one rank alone. */
typedef struct swi_saved_scoped {
    uint64_t call; /* that brought it; 0: it was refused */
    swi_state_scoped of;
} swi_saved_scoped;

struct sw_save {
    sw_limits limits; /* resolved */
    bool in_order;
    uint32_t ranks; /* 0: nobody says that there are several */
    int64_t rank;   /* whose values come; -1: of all */
    swi_arena arena;
    swi_names *names; /* of tensors: ids are their indices */
    swi_saved_tensor *tensors;
    size_t tensor_capacity;
    swi_saved_layout *layouts;
    size_t layout_count, layout_capacity;
    swi_saved_piece *pieces;
    swi_slice *memory; /* by piece */
    size_t piece_count, piece_capacity, memory_capacity;
    sw_value_graph *graph; /* the state dict; tensors in it by index */
    sw_value root;
    swi_names *scoped_names;  /* "RANK/NAME": ids are indices of: */
    swi_saved_scoped *scoped; /* with values in the graph */
    uint64_t scoped_calls;
    size_t scoped_capacity;
};

/* ---- places in the state dict --------------------------------------------------------------- */

/* "model/layers.0.weight" as its keys, which live as long as the save. */
SW_MUST_USE sw_status swi_save_path(sw_save *save, const char *name, swi_path *out, sw_error *err);
/* The keys with dots between them; likewise. */
SW_MUST_USE sw_status swi_save_join(sw_save *save, const swi_path *path, const char **out,
                                    sw_error *err);
/* Puts a value of the graph there. SW_ERR_CONFLICT. */
SW_MUST_USE sw_status swi_save_put(const sw_save *save, const char *name, const swi_path *path,
                                   sw_value v, sw_error *err);
/* What is there; false: nothing. */
bool swi_save_get(const sw_save *save, const swi_path *path, sw_value *out);
/* SW_ERR_CONFLICT: "NAME": why. */
sw_status swi_save_clash(const char *name, const char *why, sw_error *err);

/* ---- layouts of tensors --------------------------------------------------------------------- */

/* The number of a tensor's layout, which is checked and added if it is new. */
SW_MUST_USE sw_status swi_save_layout(sw_save *save, const sw_tensor_data *tensor, uint32_t *out,
                                      sw_error *err);
/* Of the rank, which is one of the mesh, the box of the tensor (if that is computed), and the term.
 */
SW_MUST_USE sw_status swi_save_place(const swi_saved_layout *layout, const sw_tensor_data *tensor,
                                     int64_t *offset, int64_t *length, uint64_t *term,
                                     sw_error *err);

/* The checkpoint that it is now; the save must outlive it and stay as it is. Findings: what its
 * pieces lack or hold twice. */
SW_MUST_USE sw_status swi_save_open(const sw_save *save, sw_report *report, sw_checkpoint **out,
                                    sw_error *err);

#endif
