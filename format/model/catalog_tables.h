/*
 * What a catalog is made of: shared by the files catalog_*.c alone. A builder fills the tables, the
 * freeze proves and trims them, the getters read them.
 */
#ifndef SW_MODEL_CATALOG_TABLES_H
#define SW_MODEL_CATALOG_TABLES_H

#include "base/buf.h"
#include "base/names.h"
#include "model/catalog.h"

#define SWI_NO_ALIAS UINT32_MAX
#define SWI_BLOB_KINDS_MAX 64

/* ---- records of variable length -------------------------------------------------------------- */

/* In blocks of so many records, each with bytes of its own: so that threads can fill blocks side by
 * side, and tables grow without being copied. */
#define SWI_PACKED_BLOCK 65536U

/* Record i begins at byte at[i] of block i / SWI_PACKED_BLOCK. */
typedef struct swi_packed {
    swi_buf *blocks;
    size_t block_capacity;
    uint32_t *at;
    size_t at_capacity;
    size_t count;
} swi_packed;

/* Room for the longest record. */
#define SWI_RECORD_MAX (16 + 10 * (2 + 4 * SW_MAX_AXES))

SW_MUST_USE sw_status swi_packed_add(swi_packed *packed, const uint8_t *record, size_t size,
                                     sw_error *err);
/*
 * An empty one gets the tables for `count` records; blocks and places are then filled by whoever
 * knows them, and the records are there once `count` is set.
 */
SW_MUST_USE sw_status swi_packed_begin(swi_packed *packed, size_t count, sw_error *err);
/* Fills an empty one; on failure it may be filled in part. */
SW_MUST_USE sw_status swi_packed_copy(swi_packed *to, const swi_packed *from, sw_error *err);
void swi_packed_trim(swi_packed *packed);
void swi_packed_free(swi_packed *packed);
uint64_t swi_packed_memory(const swi_packed *packed);

static inline const uint8_t *swi_packed_at(const swi_packed *packed, size_t i)
{
    return packed->blocks[i / SWI_PACKED_BLOCK].data + packed->at[i];
}

/* What a piece leaves out because its tensor says it already. */
typedef struct swi_pack_context {
    uint32_t axes;
    const int64_t *shape;
    uint32_t element_bytes;
} swi_pack_context;

size_t swi_pack_piece(const swi_pack_context *ctx, const swi_piece *piece, uint8_t *record);
void swi_unpack_piece(const swi_pack_context *ctx, const uint8_t *record, swi_piece *out);
/* The same for all of the tensor, dense from the blob's first byte on; and whether a record says
 * so.
 */
size_t swi_pack_whole(const swi_pack_context *ctx, uint32_t blob, uint8_t *record);
bool swi_unpack_whole(const uint8_t *record, uint32_t *blob);
/* `kind` stands for blob->ops. */
size_t swi_pack_blob(const swi_blob *blob, uint8_t kind, uint8_t *record);
void swi_unpack_blob(const uint8_t *record, uint8_t *kind, swi_blob *out);
/* The shape alone. */
size_t swi_pack_want(const swi_blob_want *want, uint8_t *record);
void swi_unpack_want(const uint8_t *record, swi_blob_want *want);

/* Shrinks an array to `count` elements; a failure leaves it as it is. */
void swi_trim_array(void **items, size_t *capacity, size_t count, size_t size);

/* ---- tables ---------------------------------------------------------------------------------- */

typedef struct swi_tensor_row {
    uint64_t elements;
    uint64_t held;
    uint32_t shape; /* index of its first axis in `shapes` */
    uint32_t first_piece;
    uint32_t piece_count;
    uint32_t alias_of;
    uint8_t dtype;
    uint8_t role;
    uint8_t axes;
    uint8_t defect;
    bool replicas;
} swi_tensor_row;

typedef struct swi_value_row {
    int64_t rank;
    uint32_t key; /* in value_names: the name, for a rank's value then a 0 and the rank */
    uint32_t blob;
} swi_value_row;

struct sw_catalog {
    swi_names *names; /* of tensors: same index */
    swi_tensor_row *tensors;
    size_t tensor_capacity;
    size_t tensor_count;
    int64_t *shapes;
    size_t shape_capacity;
    size_t shape_count;
    swi_packed pieces;
    uint32_t *order; /* of the pieces, by tensor and first element; NULL: as they were added */
    size_t order_capacity;
    uint64_t piece_count; /* kept ones */
    swi_packed blobs;
    swi_packed wants; /* of blobs of the catalog that it was made from; empty when from none */
    const swi_blob_ops *kinds[SWI_BLOB_KINDS_MAX];
    uint8_t kind_count;
    swi_names *paths; /* of files: same index */
    uint64_t *file_bytes;
    size_t file_capacity;
    swi_names *value_names;
    swi_value_row *values;
    size_t value_capacity;
    size_t value_count;
};

struct swi_builder {
    sw_catalog *catalog;
    sw_limits limits;
    uint32_t *tensor_of; /* of each piece */
    size_t tensor_of_capacity;
    uint32_t threads; /* 0: this one alone */
    size_t fitting;   /* so many blobs at the beginning are known to lie inside their files */
    bool has_aliases;
};

/* The number of a kind of blobs. */
SW_MUST_USE sw_status swi_builder_kind(sw_catalog *c, const swi_blob_ops *ops, uint8_t *kind,
                                       sw_error *err);
/* Type and shape of a tensor, not its name. */
SW_MUST_USE sw_status swi_check_form(const swi_tensor_in *in, uint64_t *elements, sw_error *err);

/* Field by field, as a row that is put together elsewhere is waited for when it is copied. */
static inline void swi_row_set(swi_tensor_row *row, const swi_tensor_in *in, uint64_t elements,
                               uint32_t shape)
{
    row->elements = elements;
    row->held = 0;
    row->shape = shape;
    row->first_piece = row->piece_count = 0;
    row->alias_of = SWI_NO_ALIAS;
    row->dtype = (uint8_t)in->dtype;
    row->role = (uint8_t)in->role;
    row->axes = (uint8_t)in->axes;
    row->defect = SW_OK;
    row->replicas = false;
}

static inline const int64_t *swi_shape_of(const sw_catalog *c, const swi_tensor_row *t)
{
    return t->axes == 0 ? NULL : c->shapes + t->shape;
}

static inline swi_pack_context swi_context_of(const sw_catalog *c, const swi_tensor_row *t)
{
    return (swi_pack_context){t->axes, swi_shape_of(c, t), sw_dtype_bytes((sw_dtype)t->dtype)};
}

/* The first defect stays. */
static inline void swi_mark(swi_tensor_row *t, sw_status defect)
{
    if (t->defect == SW_OK)
        t->defect = (uint8_t)defect;
}

#endif
