/*
 * What a native checkpoint will be, while it is laid out and while it is written: its tensors, what
 * each rank writes of them, and what is known only when it is written (chunks, digests). The
 * layout's own from swi_native_plan_lay_last on.
 */
#ifndef SW_CONVERT_NATIVE_PLAN_H
#define SW_CONVERT_NATIVE_PLAN_H

#include "layout.h"
#include "native/native.h"

/* The shard file of a rank. */
typedef struct swi_native_writing {
    struct swi_native_plan *plan;
    uint32_t rank, file; /* of the layout */
    swi_native_piece *pieces;
    size_t piece_count, piece_capacity;
    uint64_t chunk_count;
    uint64_t *chunk_ends;     /* in raw bytes */
    swi_native_chunk *chunks; /* filled while they are written */
    uint8_t *chunk_element;   /* bytes of an element, by chunk */
    bool *whole;              /* by piece: all of its tensor in one chunk */
    swi_buf values;           /* of this rank */
    uint8_t head[SWI_NATIVE_HEAD_BYTES];
} swi_native_writing;

typedef struct swi_native_plan {
    swi_chunk_choice choice;
    swi_chunk_coder *coder;
    swi_native_manifest manifest;
    size_t mesh_capacity, layout_capacity, asset_capacity;
    swi_native_tensor *tensors; /* as in the table */
    uint32_t tensor_count;
    swi_native_writing *ranks;
    uint32_t rank_count;
    swi_arena arena;
} swi_native_plan;

SW_MUST_USE sw_status swi_native_plan_make(swi_native_plan **out, sw_error *err);
void swi_native_plan_free(void *plan);
SW_MUST_USE sw_status swi_native_plan_ranks(swi_native_plan *plan, uint32_t ranks, sw_error *err);
SW_MUST_USE sw_status swi_native_plan_tensors(swi_native_plan *plan, uint32_t count, sw_error *err);
/* The number of this layout on this mesh, which is added if it is new; names are copied. */
SW_MUST_USE sw_status swi_native_plan_layout(swi_native_plan *plan, const swi_native_layout *layout,
                                             const swi_native_mesh *mesh, uint32_t *out,
                                             sw_error *err);
/* Pieces come in the order of the table. */
SW_MUST_USE sw_status swi_native_plan_piece(swi_native_plan *plan, uint32_t rank,
                                            const swi_native_piece *piece, sw_error *err);
/* The values of which ranks saved different ones, in the files of their ranks (NAT-13). */
SW_MUST_USE sw_status swi_native_plan_values(swi_native_plan *plan, const swi_target_in *in,
                                             sw_error *err);
/* The file of a rank, whose pieces are all known; in the order of ranks. */
SW_MUST_USE sw_status swi_native_plan_lay_shard(swi_native_plan *plan, uint32_t rank,
                                                swi_layout *layout, sw_error *err);
SW_MUST_USE sw_status swi_native_plan_lay_state(swi_native_plan *plan, const swi_target_in *in,
                                                swi_layout *layout, sw_error *err);
SW_MUST_USE sw_status swi_native_plan_lay_asset(swi_native_plan *plan, const char *path,
                                                const void *data, size_t size, swi_layout *layout,
                                                sw_error *err);
/* The table and the manifest. *given: the plan is the layout's own now. */
SW_MUST_USE sw_status swi_native_plan_lay_last(swi_native_plan *plan, swi_layout *layout,
                                               bool *given, sw_error *err);

#endif
