/*
 * Rows: parameters flattened (row-major) one behind the other, as FSDP1 keeps those of each wrapped
 * module. What lies where in a row, and what each shard of it holds. Pure arithmetic: no files, no
 * catalogs. Clauses FS-n are those of specs/fsdp1.md.
 */
#ifndef SW_CONVERT_FLAT_ROWS_H
#define SW_CONVERT_FLAT_ROWS_H

#include "base/arena.h"
#include "flat/shapes.h"

typedef struct swi_row_item {
    uint32_t parameter; /* index in the shapes */
    uint64_t at;        /* of its first element in the row */
    uint64_t elements;
} swi_row_item;

/* How many elements it has. SW_ERR_LIMIT on overflow. */
SW_MUST_USE sw_status swi_shape_count(const swi_shape *shape, uint64_t *out, sw_error *err);

/* The parameters of one wrapped module. */
typedef struct swi_row {
    const char *unit; /* name of the module, "" for the root */
    swi_row_item *items;
    size_t count;
    uint64_t total; /* elements, padding between parameters included; not that of shards */
} swi_row;

typedef struct swi_rows {
    swi_row *items; /* in the order in which the modules are registered */
    size_t count;
    swi_arena arena;
} swi_rows;

/*
 * FS-3: which parameters each unit has: those of its subtree that no unit below it has, in the
 * order of registration, other names of tied ones left out, and those of left_out[] (by shape;
 * NULL: none). `units`: names of modules; the root is always one. Units without parameters are left
 * out. No places are set.
 */
SW_MUST_USE sw_status swi_rows_of_units(const swi_shapes *shapes, const bool *left_out,
                                        const char *const *units, size_t count, swi_rows *out,
                                        sw_error *err);
/*
 * The modules that patterns name ("model.layers.{n}"), among those that hold parameters, in the
 * order of registration, in an arena. SW_ERR_ARG: a pattern that matches none.
 */
SW_MUST_USE sw_status swi_units_matching(const swi_shapes *shapes, swi_pattern *const *patterns,
                                         size_t count, swi_arena *arena, const char ***units,
                                         size_t *unit_count, sw_error *err);
void swi_rows_free(swi_rows *rows);

/*
 * FS-4: places with each parameter aligned to `align` elements (1: none), and the total. With
 * align > 1 the padding of the world size is a part of the row: `shards` (else 1). SW_ERR_LIMIT on
 * overflow.
 */
SW_MUST_USE sw_status swi_row_place(swi_row *row, uint32_t align, uint64_t shards, sw_error *err);
/* FS-5: elements of each shard of a row of so many: ceil(total / shards). */
uint64_t swi_row_shard(uint64_t total, uint64_t shards);

#endif
