/* The parts of the DCP reader. Clauses DCP-n are those of specs/dcp.md. */
#ifndef SW_CONVERT_DCP_H
#define SW_CONVERT_DCP_H

#include "container/dcp_store.h"
#include "framework.h"

/* What one index gives, while it is put into the catalog. */
typedef struct swi_dcp_part {
    swi_dcp_meta *meta;
    const char *path; /* of the index, in the folder */
    int64_t rank;     /* whose index it is; -1: of all ranks */
} swi_dcp_part;

/* Puts all tensors, values and files of the indexes into the catalog's builder. */
SW_MUST_USE sw_status swi_dcp_fill(swi_opening *o, const swi_dcp_part *parts, size_t count,
                                   sw_error *err);

/* The folder that N ranks of an FSDP2 run would have written. */
SW_MUST_USE sw_status swi_dcp_layout(const swi_target_in *in, swi_layout *layout, sw_error *err);

/* "__3_0.distcp" -> 3, "__3.metadata" -> 3, else -1. */
int64_t swi_dcp_file_rank(const char *name, const char *suffix);

#endif
