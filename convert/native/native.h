/*
 * Shardwright's own format as a framework: what is shared by the files of convert/native alone.
 * Clauses NAT-n are those of specs/native.md.
 */
#ifndef SW_CONVERT_NATIVE_H
#define SW_CONVERT_NATIVE_H

#include "base/arena.h"
#include "native/shard.h"
#include "native/table.h"
#include "state/state.h"

/* A value of the state, for the catalog. */
typedef struct swi_native_value {
    sw_value node;
    int64_t rank; /* -1: of all */
} swi_native_value;

/* What an open checkpoint keeps. */
typedef struct swi_native_kept {
    swi_native_manifest manifest;
    uint8_t *table_bytes;
    swi_native_table table;
    swi_native_shard *shards; /* by rank */
    size_t shard_count;       /* that are open */
    swi_native_chunks *chunks;
    swi_state state;          /* tensors are numbered as in the table */
    bool is_table;            /* its root is all names of the table, made when it is asked for */
    swi_native_value *values; /* of the catalog, in its order */
    size_t value_count, value_capacity;
    swi_arena arena; /* names of values of ranks */
    sw_limits limits;
} swi_native_kept;

void swi_native_kept_free(void *kept);

/* A whole file that the manifest vouches for as one section; to be freed. SW_ERR_INCOMPLETE: it is
 * not there. */
SW_MUST_USE sw_status swi_native_read_section(const swi_opening *o, const swi_native_file *file,
                                              uint8_t **data, sw_error *err);

/* Reads state.json and the values of the ranks, and puts values and sections into the opening. */
SW_MUST_USE sw_status swi_native_read_state(swi_opening *o, swi_native_kept *kept, sw_error *err);
SW_MUST_USE sw_status swi_native_state(const sw_checkpoint *checkpoint, swi_state *out,
                                       sw_error *err);
SW_MUST_USE sw_status swi_native_value_of(const sw_checkpoint *checkpoint, size_t i,
                                          sw_value_graph **graph, sw_value *root, sw_error *err);

SW_MUST_USE sw_status swi_native_open(swi_opening *o, sw_error *err);
/* What no blob covers: padding, assets, files that are not listed. */
SW_MUST_USE sw_status swi_native_audit(const swi_audit_in *in, sw_error *err);

SW_MUST_USE sw_status swi_native_layout_out(const swi_target_in *in, swi_layout *layout,
                                            sw_error *err);

#endif
