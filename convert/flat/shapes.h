/*
 * What files of flat parameters lack: the parameters of the model, their shapes, and the order in
 * which they were registered. Read from what the caller names (--shapes): a torch state dict, the
 * model's configuration with its map, or a small YAML document. Clauses SHP-n are those of
 * specs/shapes.md. Immutable; may be shared by threads.
 */
#ifndef SW_CONVERT_FLAT_SHAPES_H
#define SW_CONVERT_FLAT_SHAPES_H

#include "base/names.h"
#include "notation/pattern.h"
#include "shardwright_format.h"

struct swi_model;

typedef struct swi_shape {
    const char *name; /* in the module, wrapper parts off */
    uint32_t axes;
    int64_t shape[SW_MAX_AXES];
    bool buffer;     /* it is known to be no parameter */
    bool may_be;     /* nothing tells whether it is a parameter (state dicts), or there (maps) */
    int64_t tied_to; /* index of the one, before it, whose other name this is; -1: none */
} swi_shape;

typedef struct swi_shapes {
    swi_shape *
        items; /* in the order of registration where `ordered`; none: a document says units alone */
    size_t count;
    bool ordered;
    const char *unordered; /* why it is not, for messages; "" where it is */
    /* Modules that FSDP wrapped, as patterns of their names; the root is always one. Only a YAML
     * document can say. */
    swi_pattern *const *units;
    size_t unit_count;
    bool has_units;
    int use_orig_params; /* -1: not said */
    uint32_t align;   /* elements that each parameter is aligned to in the flat one; 0: not said */
    const char *from; /* for messages: "run.yaml", "config.json by the map NAME" */
    /* Private: */
    swi_names *names; /* of the items: same index */
    size_t capacity;
    swi_arena arena;
} swi_shapes;

/*
 * From a path of the user's: a torch state dict (also one that holds it under one key), a
 * configuration file or a folder with one (`map` names the map, or NULL), or a YAML document.
 * Errors name the file and the place; SW_ERR_ARG: the file has no shapes or no such thing (what it
 * may be is said); SW_ERR_CONFLICT: a name twice.
 */
SW_MUST_USE sw_status swi_shapes_read(const char *path, const char *map, const sw_limits *limits,
                                      swi_shapes **out, sw_error *err);
/* The parameters of one side of a model, ordered. */
SW_MUST_USE sw_status swi_shapes_of_model(const struct swi_model *model, size_t side,
                                          swi_shapes **out, sw_error *err);
void swi_shapes_free(swi_shapes *shapes);
/* Index of the tensor of this name, or -1. */
int64_t swi_shapes_find(const swi_shapes *shapes, const char *name);

#endif
