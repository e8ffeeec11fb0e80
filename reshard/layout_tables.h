/* What a layout is made of: shared by the files layout*.c alone. */
#ifndef SW_RESHARD_LAYOUT_TABLES_H
#define SW_RESHARD_LAYOUT_TABLES_H

#include "base/arena.h"
#include "layout.h"
#include "model/region.h"

typedef struct swi_literal_row {
    uint32_t file;
    uint8_t fill;
    uint64_t offset;
    uint64_t size;
    const uint8_t *data;
} swi_literal_row;

typedef struct swi_target_row {
    uint32_t source;
    int64_t scale; /* -1: none */
    sw_dtype dtype;
} swi_target_row;

typedef struct swi_sum_row {
    uint32_t file;
    swi_sum range;
} swi_sum_row;

typedef struct swi_late_row {
    uint32_t file;
    swi_late in;
} swi_late_row;

typedef struct swi_file_row {
    uint64_t bytes, late_bytes;
    uint64_t sum_end; /* of the last sum */
    uint32_t sum_count;
    swi_packing *packing; /* NULL: it is not packed; owned */
    swi_made *made;       /* likewise */
} swi_file_row;

struct swi_layout {
    swi_builder *builder;      /* until frozen */
    sw_catalog *catalog;       /* from then on */
    swi_arena arena;           /* the literals' bytes */
    swi_literal_row *literals; /* once frozen: by file and offset */
    size_t literal_count, literal_capacity;
    size_t *first_literal; /* of each file, and one past the last */
    swi_sum_row *sums;     /* once frozen: by file, in the order asked */
    size_t sum_count, sum_capacity;
    size_t *first_sum;
    swi_late_row *lates; /* as the literals */
    size_t late_count, late_capacity;
    size_t *first_late;
    swi_target_row *targets; /* by tensor */
    size_t target_count, target_capacity;
    swi_layout_view *views;
    size_t view_count, view_capacity;
    swi_file_row *files;
    size_t file_count, file_capacity;
    bool packed;            /* some file is packed or made */
    swi_region_work region; /* of the blocks */
    int64_t *boxes;
    size_t box_capacity;
};

/* Bytes of a file. */
typedef struct swi_range {
    uint32_t file;
    uint64_t offset;
    uint64_t size;
} swi_range;

/* SW_ERR_ARG unless the layout is open and has such a tensor. */
SW_MUST_USE sw_status swi_layout_check_tensor(const swi_layout *layout, uint32_t tensor,
                                              sw_error *err);
/* The blob, for pieces of the tensor, that is a range of a file; of no bytes: there is none. */
SW_MUST_USE sw_status swi_layout_blob(swi_layout *layout, uint32_t tensor, const swi_range *range,
                                      uint32_t *blob, sw_error *err);

#endif
