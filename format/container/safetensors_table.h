/* Inside of safetensors*.c: the packed tables of an open file. */
#ifndef SW_CONTAINER_SAFETENSORS_TABLE_H
#define SW_CONTAINER_SAFETENSORS_TABLE_H

#include "base/names.h"
#include "container/safetensors.h"

/* Element kinds that the format names, in its own (ascending) order. */
typedef struct swi_st_kind {
    const char *name;
    uint8_t bits;
    sw_dtype dtype; /* SW_DTYPE_NONE: none of ours */
} swi_st_kind;

#define SWI_ST_KINDS 22
extern const swi_st_kind swi_st_kinds[SWI_ST_KINDS];

#define SWI_ST_NO_OFFSETS UINT32_MAX

typedef struct swi_st_row {
    uint64_t begin, end; /* from the start of data */
    uint32_t name;       /* in names */
    uint32_t shape_at;   /* in dims */
    uint32_t offsets_at; /* in saved, or SWI_ST_NO_OFFSETS */
    uint16_t kind;       /* in swi_st_kinds; from SWI_ST_KINDS on: in unknown */
    uint8_t axes;
} swi_st_row;

struct swi_st {
    swi_names *names; /* of tensors; ids in the order of the header */
    swi_st_row *rows; /* by offset, then name */
    size_t count, row_capacity;
    uint32_t *row_of; /* by name id */
    int64_t *dims;
    size_t dim_count, dim_capacity;
    int64_t *saved;
    size_t saved_count, saved_capacity;
    swi_names *unknown;   /* names of element kinds that the format does not have */
    swi_names *meta_keys; /* NULL without __metadata__ */
    swi_arena meta_text;
    const char **meta_values; /* by key id */
    size_t meta_capacity;
    uint64_t sharding_offset_bytes; /* of the text of DCP_SHARDING_INFO, in the header */
    uint64_t data_offset_bytes;
};

/* NULL for a scalar: dims may be NULL then. */
static inline const int64_t *swi_st_row_shape(const swi_st *st, const swi_st_row *row)
{
    return row->axes > 0 ? st->dims + row->shape_at : NULL;
}

/*
 * Fills names, rows (in the order of the header), dims, unknown and meta_* from the JSON. Each
 * row's size is proved against its range, the ranges among each other are not. Positions in errors
 * count from the header's start.
 */
SW_MUST_USE sw_status swi_st_parse_header(swi_st *st, const uint8_t *data, size_t size,
                                          const sw_limits *limits, sw_error *err);
/* Fills `saved` from DCP_SHARDING_INFO, if there is one. Rows are sorted and row_of is made. */
SW_MUST_USE sw_status swi_st_parse_sharding(swi_st *st, const sw_limits *limits, sw_error *err);
/* The dtype's name of a row. */
const char *swi_st_row_kind(const swi_st *st, const swi_st_row *row);

/* Appends to an array of a table. */
SW_MUST_USE sw_status swi_st_push_i64(int64_t **items, size_t *count, size_t *capacity, int64_t v,
                                      sw_error *err);

#endif
