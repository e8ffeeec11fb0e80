/*
 * The paths of a DCP folder's keys in the nested state dict, kept when its indexes are gone. A key
 * is its path joined with dots, so a path is kept as the sizes of its parts: mostly 8 bytes and one
 * a part. (Reading the index again when the state is asked for would cost its parse, and might meet
 * another file.) Clause DCP-12 of specs/dcp.md.
 */
#ifndef SW_CONVERT_DCP_PATHS_H
#define SW_CONVERT_DCP_PATHS_H

#include "base/buf.h"
#include "container/dcp_store.h"

typedef struct swi_dcp_paths swi_dcp_paths;

typedef enum swi_dcp_of { SWI_DCP_TENSORS = 0, SWI_DCP_VALUES } swi_dcp_of;

SW_MUST_USE sw_status swi_dcp_paths_make(swi_dcp_paths **out, sw_error *err);
void swi_dcp_paths_free(void *paths);
/* Keeps the path that the index gives for this key, the name of tensor or value `index`. */
SW_MUST_USE sw_status swi_dcp_paths_add(swi_dcp_paths *paths, const swi_dcp_meta *meta,
                                        swi_dcp_of of, size_t index, const char *key,
                                        sw_error *err);

/* Room for one path, reused from call to call. */
typedef struct swi_dcp_path {
    const char **parts; /* terminated; lists' positions as decimal text */
    bool *is_index;
    size_t count;
    size_t part_capacity, index_capacity;
    swi_buf text;
} swi_dcp_path;

/* The key itself as the one part where no path is known. */
SW_MUST_USE sw_status swi_dcp_paths_get(const swi_dcp_paths *paths, swi_dcp_of of, size_t index,
                                        const char *key, swi_dcp_path *out, sw_error *err);
void swi_dcp_path_end(swi_dcp_path *path);

#endif
