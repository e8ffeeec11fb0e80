/*
 * The parts of shapes.h: shapes.c (the list, and what a path is), shapes_state.c (of checkpoints),
 * shapes_yaml.c (documents), shapes_text.c (writes documents), shapes_emit.c (of what they are
 * written).
 */
#ifndef SW_CONVERT_FLAT_SHAPES_PARTS_H
#define SW_CONVERT_FLAT_SHAPES_PARTS_H

#include "base/buf.h"
#include "flat/shapes.h"
#include "framework.h"

/* ---- shapes.c ---------------------------------------------------------------------------------
 */

/* Empty and ordered. `from` is copied. */
SW_MUST_USE sw_status swi_shapes_make(const char *from, swi_shapes **out, sw_error *err);
/* The name is copied. SW_ERR_CONFLICT: it is there already. SW_ERR_LIMIT: no such size. */
SW_MUST_USE sw_status swi_shapes_add(swi_shapes *shapes, const swi_shape *item, sw_error *err);
/* Two of them are one: the first in order. */
void swi_shapes_tie(swi_shapes *shapes, int64_t a, int64_t b);
/* Of several that are tied in a row all are other names of the first. */
void swi_shapes_settle_ties(swi_shapes *shapes);
SW_MUST_USE sw_status swi_shapes_text(swi_shapes *shapes, const char *text, const char **out,
                                      sw_error *err);

/* Where documents find what they name. */
typedef struct swi_shapes_ask {
    const char *map; /* names the map of a configuration, or NULL */
    const sw_limits *limits;
    bool alone; /* a document must hold its parameters itself */
} swi_shapes_ask;
/* All that swi_shapes_read knows; `alone`: but documents. */
SW_MUST_USE sw_status swi_shapes_source(const char *path, const swi_shapes_ask *ask,
                                        swi_shapes **out, sw_error *err);

/* ---- shapes_state.c ---------------------------------------------------------------------------
 */

/* The model's part of the state dict. */
SW_MUST_USE sw_status swi_shapes_of_checkpoint(const sw_checkpoint *checkpoint, const char *from,
                                               swi_shapes **out, sw_error *err);

/* Of tensors of a module in the order of its dict, which is not one if the names are sorted. */
SW_MUST_USE sw_status swi_shapes_of_tensors(const sw_catalog *catalog, const swi_chosen *items,
                                            size_t count, const char *from, swi_shapes **out,
                                            sw_error *err);

/* ---- shapes_yaml.c ----------------------------------------------------------------------------
 */

/* A document (SHP-n); `file` is its path: other paths in it count from its folder. */
SW_MUST_USE sw_status swi_shapes_parse(const void *data, size_t size, const char *file,
                                       const swi_shapes_ask *ask, swi_shapes **out, sw_error *err);

/* ---- shapes_text.c ----------------------------------------------------------------------------
 */

/*
 * As a document, terminated: all but buffers. SW_ERR_UNSUPPORTED: one that reads as the same cannot
 * be written; it says why.
 */
SW_MUST_USE sw_status swi_shapes_write(const swi_shapes *shapes, swi_buf *out, sw_error *err);

#endif
