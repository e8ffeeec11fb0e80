/*
 * The storage of torch.distributed.checkpoint (DCP): the pickled index `.metadata` and the items in
 * `__R_I.distcp`. Here: bytes <-> names, dtypes, chunks, places. What they mean together is
 * convert/dcp. Clauses DCP-n are those of specs/dcp.md.
 */
#ifndef SW_CONTAINER_DCP_STORE_H
#define SW_CONTAINER_DCP_STORE_H

#include "codec/pickle.h"
#include "model/blob.h"

/* A parsed `.metadata`, packed: a million chunks take about 100 bytes each. Immutable. */
typedef struct swi_dcp_meta swi_dcp_meta;

typedef struct swi_dcp_place {
    bool found;          /* storage_data has an entry for this item */
    uint32_t file;       /* index of a relative path */
    uint32_t transforms; /* index of a list of transforms, 0: none */
    uint64_t offset_bytes;
    uint64_t stored_bytes;
} swi_dcp_place;

typedef struct swi_dcp_tensor {
    const char *name;
    size_t name_size;
    sw_dtype dtype; /* SW_DTYPE_NONE: a dtype unknown to us, see dtype_name */
    const char *dtype_name;
    uint32_t axes;
    int64_t shape[SW_MAX_AXES];
    uint64_t chunk_first, chunk_count;
} swi_dcp_tensor;

typedef struct swi_dcp_chunk {
    int64_t offset[SW_MAX_AXES];
    int64_t length[SW_MAX_AXES];
    swi_dcp_place place;
} swi_dcp_chunk;

typedef struct swi_dcp_object { /* a BYTES item */
    const char *name;
    size_t name_size;
    swi_dcp_place place;
} swi_dcp_object;

/*
 * Parses one `.metadata` (any protocol, any version of the classes), all that the feed has.
 * Dangerous globals are listed in *unsafe and make it SW_ERR_UNSAFE after the parse. Classes
 * outside the closed table of DCP are SW_ERR_UNSUPPORTED by name unless they lie in storage_meta or
 * planner_data.
 */
SW_MUST_USE sw_status swi_dcp_meta_parse(swi_feed *feed, const sw_limits *limits,
                                         swi_pickle_unsafe *unsafe, swi_dcp_meta **out,
                                         sw_error *err);
void swi_dcp_meta_free(swi_dcp_meta *meta);
uint64_t swi_dcp_meta_memory(const swi_dcp_meta *meta);
size_t swi_dcp_tensor_count(const swi_dcp_meta *meta);
void swi_dcp_tensor_at(const swi_dcp_meta *meta, size_t i, swi_dcp_tensor *out);
void swi_dcp_chunk_at(const swi_dcp_meta *meta, uint64_t i, uint32_t axes, swi_dcp_chunk *out);
size_t swi_dcp_object_count(const swi_dcp_meta *meta);
void swi_dcp_object_at(const swi_dcp_meta *meta, size_t i, swi_dcp_object *out);
/* Relative paths of payload files, raw: check them before use. */
size_t swi_dcp_file_count(const swi_dcp_meta *meta);
const char *swi_dcp_file_at(const swi_dcp_meta *meta, size_t i);
/* Items of storage_data that belong to no tensor chunk and no object; their first name. */
uint64_t swi_dcp_orphans(const swi_dcp_meta *meta, const char **first_name);
/* "1.0.0", or "" when the file does not say. */
const char *swi_dcp_version(const swi_dcp_meta *meta);
/*
 * The path of a flattened key in the nested state dict (planner_data): part i as text, *is_index
 * for list positions. false: no planner data for this name, or fewer parts.
 */
bool swi_dcp_path_part(const swi_dcp_meta *meta, const char *name, size_t i, const char **part,
                       bool *is_index);
/* Transforms list k in the order to undo them: "stream.zstd/1" ...; NULL past the end. */
const char *swi_dcp_transform_at(const swi_dcp_meta *meta, uint32_t transforms, size_t i);

/*
 * An item of a .distcp file: a torch.save archive of one tensor or one object. blob->aux is one of
 * SWI_DCP_PLAIN, SWI_DCP_ZSTD. Resolves by reading the item's directory and data.pkl; checks all
 * its CRCs.
 */
extern const swi_blob_ops swi_blob_dcp_item;
enum { SWI_DCP_PLAIN = 0, SWI_DCP_ZSTD = 1 };

/* Writing `.metadata` (protocol 4, class names of torch >= 2.3). */
typedef struct swi_dcp_write_chunk {
    const int64_t *offset, *length;
    const char *path;
    uint64_t offset_bytes, stored_bytes;
} swi_dcp_write_chunk;
typedef struct swi_dcp_write_item {
    const char *name;
    const char *const *path_parts; /* planner path; an index of a list is given as "#N" */
    size_t path_count;
    bool is_object; /* one chunk with the place, no shape */
    sw_dtype dtype;
    uint32_t axes;
    const int64_t *shape;
    const swi_dcp_write_chunk *chunks;
    size_t chunk_count;
} swi_dcp_write_item;
SW_MUST_USE sw_status swi_dcp_meta_write(swi_buf *out, const swi_dcp_write_item *items,
                                         size_t count, sw_error *err);

#endif
