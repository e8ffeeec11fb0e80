/*
 * The packed form of a `.metadata`, and what is only needed while it is parsed. Shared by
 * dcp_meta.c (tables, getters), dcp_meta_hooks.c (folding) and dcp_meta_join.c (places).
 */
#ifndef SW_CONTAINER_DCP_INTERNAL_H
#define SW_CONTAINER_DCP_INTERNAL_H

#include "base/names.h"
#include "container/dcp_store.h"

#define SWI_DCP_NONE UINT32_MAX

typedef struct swi_dcp_chunk_row {
    uint32_t offset, length; /* sizes in `words` */
    uint32_t place;          /* of infos; SWI_DCP_NONE */
} swi_dcp_chunk_row;

typedef struct swi_dcp_tensor_row {
    uint32_t name;
    uint32_t dtype; /* of dtypes */
    uint32_t size;
    uint32_t chunk_first, chunk_count;
} swi_dcp_tensor_row;

typedef struct swi_dcp_object_row {
    uint32_t name;
    uint32_t place;
} swi_dcp_object_row;

typedef struct swi_dcp_info_row {
    uint64_t offset_bytes, stored_bytes;
    uint32_t file;
    uint32_t transforms;
} swi_dcp_info_row;

/* A key of storage_data; only while parsing. */
typedef struct swi_dcp_key_row {
    uint32_t name;
    uint32_t offset; /* SWI_DCP_NONE: it has none */
    uint32_t hint;   /* position in the chunks; SWI_DCP_NONE */
    uint32_t info;   /* what it maps to; SWI_DCP_NONE: not (yet) in storage_data */
} swi_dcp_key_row;

typedef struct swi_dcp_path_row {
    uint32_t first, count; /* of parts */
} swi_dcp_path_row;

struct swi_dcp_meta {
    swi_names *names; /* of items, and the parts of their paths */
    swi_names *files;
    swi_names *dtypes;
    swi_names *transforms; /* each list as its parts joined by newlines; id + 1 is its index */
    /*
     * Sizes: a head (axes, bit 8: wide), then a word an axis, or two (low, high) when one does not
     * fit in 32 bits. Named by the index of the head.
     */
    uint32_t *words;
    size_t word_count, word_capacity;
    swi_dcp_chunk_row *chunks;
    size_t chunk_count, chunk_capacity;
    swi_dcp_tensor_row *tensors;
    size_t tensor_count, tensor_capacity;
    swi_dcp_object_row *objects;
    size_t object_count, object_capacity;
    swi_dcp_info_row *infos;
    size_t info_count, info_capacity;
    swi_dcp_path_row *paths; /* by name, path_count of them; NULL without planner_data */
    size_t path_count;
    uint32_t *parts; /* name << 1 | is_index */
    size_t part_count, part_capacity;
    const char **transform_texts; /* parts of all lists, NULL behind each list */
    size_t *transform_first;      /* by list index */
    swi_arena arena;              /* of the transform texts */
    char version[32];
    uint64_t orphans;
    uint32_t first_orphan; /* name */
};

#define SWI_DCP_CACHE 1024u        /* a power of 2 */
#define SWI_DCP_FIELD_CACHE 128u   /* a power of 2 */
#define SWI_DCP_STATE_MAX 64u      /* fields of one object, the unknown ones included */
#define SWI_DCP_TRANSFORMS_MAX 16u /* of one item */

typedef enum swi_dcp_field {
    SWI_DCP_OFFSETS,
    SWI_DCP_SIZES,
    SWI_DCP_FQN,
    SWI_DCP_INDEX,
    SWI_DCP_OFFSET,
    SWI_DCP_PATH,
    SWI_DCP_LENGTH,
    SWI_DCP_TRANSFORMS,
    SWI_DCP_PROPERTIES,
    SWI_DCP_SIZE,
    SWI_DCP_CHUNKS,
    SWI_DCP_DTYPE,
    SWI_DCP_FIELD_COUNT
} swi_dcp_field;

/* What a record of the pickle is; it comes with an index (see swi_dcp_record). */
typedef enum swi_dcp_kind {
    SWI_DCP_K_SIZE = 1,
    SWI_DCP_K_PENDING, /* made, its BUILD is to come; the index only makes it unique */
    SWI_DCP_K_CHUNK,
    SWI_DCP_K_PROPERTIES, /* index: dtype */
    SWI_DCP_K_TENSOR,
    SWI_DCP_K_BYTES,
    SWI_DCP_K_KEY,
    SWI_DCP_K_INFO
} swi_dcp_kind;

typedef struct swi_dcp_parsing {
    swi_dcp_meta *meta;
    /* Pieces are also bounded by the input: a memo could repeat a list of chunks for 2 bytes. */
    sw_limits limits;
    uint64_t parts_max; /* of planner_data, for the same reason */
    swi_dcp_key_row *keys;
    size_t key_count, key_capacity;
    /* Tensors in the order in which they were built, their names unknown yet. */
    swi_dcp_tensor_row *built;
    size_t built_count, built_capacity;
    uint32_t chunks_taken; /* rows below belong to tensors */
    uint64_t pending;
    uint32_t recent[2]; /* sizes made last */
    unsigned recent_at;
    struct {
        uint64_t bits;
        uint32_t id;
    } name_cache[SWI_DCP_CACHE], file_cache[64];
    struct {
        uint64_t bits;
        swi_dcp_field field;
    } field_cache[SWI_DCP_FIELD_CACHE];
} swi_dcp_parsing;

extern const swi_pickle_hook swi_dcp_hooks[];
extern const size_t swi_dcp_hook_count;

/* A failure with a clause and no position yet: the pickle machine adds it. */
sw_status swi_dcp_fail(sw_error *err, sw_status status, const char *clause, const char *fmt, ...)
    SW_PRINTF(4, 5);
/* Whether the value is a record of that kind. */
bool swi_dcp_record(sw_value v, swi_dcp_kind kind, uint32_t *index);
/* How foreign objects are called in messages: "module.Class", or the kind of value. */
const char *swi_dcp_describe(const sw_value_graph *g, sw_value v, char *room, size_t size);
SW_MUST_USE sw_status swi_dcp_name(swi_dcp_parsing *p, const sw_value_graph *g, sw_value v,
                                   uint32_t *id, sw_error *err);

SW_MUST_USE sw_status swi_dcp_size_store(swi_dcp_parsing *p, uint32_t axes, const int64_t *v,
                                         uint32_t *out, sw_error *err);
uint32_t swi_dcp_size_axes(const swi_dcp_meta *meta, uint32_t size);
void swi_dcp_size_get(const swi_dcp_meta *meta, uint32_t size, int64_t *out);
/* Any order that is total; 0: equal. */
int swi_dcp_size_compare(const swi_dcp_meta *meta, uint32_t a, uint32_t b);
/* "(0, 4)" */
const char *swi_dcp_size_text(const swi_dcp_meta *meta, uint32_t size, char *room, size_t bytes);

/* Gives each chunk and object its place; keys refer to infos. */
SW_MUST_USE sw_status swi_dcp_join(swi_dcp_parsing *p, sw_error *err);

#endif
