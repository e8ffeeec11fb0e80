/*
 * manifest.json of a native checkpoint (specs/native.md): what belongs to it, and the root digest
 * over all. Read strictly: what is not canonical is refused, so that one text stands for one
 * manifest.
 */
#ifndef SW_NATIVE_MANIFEST_H
#define SW_NATIVE_MANIFEST_H

#include "base/arena.h"
#include "base/buf.h"
#include "codec/digest.h"

#define SWI_NATIVE_MANIFEST "manifest.json"
#define SWI_NATIVE_TABLE "tensors.swt"
#define SWI_NATIVE_STATE "state.json"
#define SWI_NATIVE_MAJOR 1
#define SWI_NATIVE_MINOR 0
#define SWI_SAVE_ID_BYTES 16
/* Room for the name of a shard file. */
#define SWI_NATIVE_SHARD_NAME 40
#define SWI_NATIVE_RANKS_MAX 16384U
#define SWI_NATIVE_MESH_AXES_MAX 8U

/* rank-RRRRR-of-WWWWW.sws */
void swi_native_shard_name(uint32_t rank, uint32_t world, char name[SWI_NATIVE_SHARD_NAME]);

typedef struct swi_native_axis {
    const char *name;
    uint64_t size;
} swi_native_axis;
typedef struct swi_native_mesh {
    uint32_t axes;
    swi_native_axis axis[SWI_NATIVE_MESH_AXES_MAX];
} swi_native_mesh;

typedef enum swi_native_layout_kind {
    SWI_NATIVE_DTENSOR = 0,
    SWI_NATIVE_FLAT,
    SWI_NATIVE_BOXES
} swi_native_layout_kind;
typedef enum swi_native_placement_kind {
    SWI_NATIVE_REPLICATE = 0,
    SWI_NATIVE_SHARD,
    SWI_NATIVE_STRIDED_SHARD,
    SWI_NATIVE_PARTIAL
} swi_native_placement_kind;
typedef struct swi_native_placement {
    swi_native_placement_kind kind;
    uint32_t dim;    /* of SHARD, STRIDED_SHARD */
    uint64_t factor; /* of STRIDED_SHARD */
    const char *op;  /* of PARTIAL: "sum" */
} swi_native_placement;
typedef struct swi_native_layout {
    swi_native_layout_kind kind;
    uint32_t mesh; /* of DTENSOR; as many placements as it has axes */
    swi_native_placement at[SWI_NATIVE_MESH_AXES_MAX];
} swi_native_layout;
/* The op of a Partial placement: 1 to SWI_NATIVE_OP_MAX letters, digits and '_' (NAT-6). */
#define SWI_NATIVE_OP_MAX 32
bool swi_native_is_op(const char *text, size_t size);

/* A file and what vouches for it. */
typedef struct swi_native_file {
    const char *file;
    uint64_t bytes;
    swi_digest digest;
} swi_native_file;

typedef struct swi_native_manifest {
    uint32_t major, minor;
    const char *writer;
    uint8_t save_id[SWI_SAVE_ID_BYTES];
    swi_native_mesh *meshes;
    size_t mesh_count;
    swi_native_layout *layouts;
    size_t layout_count;
    swi_native_file table, state;
    swi_native_file *shards; /* by rank */
    size_t shard_count;
    swi_native_file *assets; /* ascending by name */
    size_t asset_count;
    uint32_t tensors;
    bool has_content;
    swi_digest content; /* root of the list of all content digests */
    swi_digest root;    /* filled by writing and reading */
    swi_arena arena;    /* of what was read */
} swi_native_manifest;
/* Whether some placement of this layout is Partial (NAT-7). */
bool swi_native_layout_is_partial(const swi_native_manifest *manifest, size_t layout);

/* Appends the file's text; sets manifest->root. SW_ERR_ARG: a name or number that cannot be in one.
 */
SW_MUST_USE sw_status swi_native_manifest_write(swi_native_manifest *manifest, swi_buf *out,
                                                sw_error *err);
/*
 * SW_ERR_UNSUPPORTED: another major version, by name. SW_ERR_FORMAT: no manifest, or not as NAT-5
 * has it, with the position. SW_ERR_LIMIT: more of something than any has. SW_ERR_CORRUPT: the root
 * does not fit. Names of files are as NAT-5 has them: plain and distinct.
 */
SW_MUST_USE sw_status swi_native_manifest_read(const uint8_t *data, size_t size,
                                               const sw_limits *limits, swi_native_manifest *out,
                                               sw_error *err);
void swi_native_manifest_free(swi_native_manifest *manifest);
/* Whether the first bytes of a file are those of a manifest: format is "shardwright", or they are
 * cut within the assets, which come before it. */
bool swi_native_manifest_looks(const uint8_t *head, size_t size);

#endif
