/*
 * A model: a map (specs/notation.md) together with a configuration, so that the tensors of each of
 * its sides are known by name, shape and order. Immutable once made; shared by threads.
 *
 * Sides are what the map calls them ("hf", "torchtitan", "vllm"); their numbers are good for one
 * model alone.
 */
#ifndef SW_CONVERT_MAP_MODEL_H
#define SW_CONVERT_MAP_MODEL_H

#include "base/buf.h"
#include "io/store.h"
#include "notation/division.h"
#include "notation/expr.h"
#include "shardwright_convert.h"
#include "source/identity.h"

typedef struct swi_model swi_model;

/* Where maps and configurations are looked for. */
typedef struct swi_model_ask {
    const char *map;        /* name of an embedded map, or path of a file; NULL: by configuration */
    const char *config;     /* a configuration file, or a folder with one; NULL: not given */
    const char *config_by;  /* what gave it, before what is wrong with it; NULL: "--config" */
    const swi_store *store; /* a folder that may hold one (the checkpoint's); NULL: none */
    const swi_store *store2; /* looked into first (--assets); NULL: none */
    const char *side; /* the map must have this side, whose own configuration counts too; NULL */
    bool untie;       /* the embeddings are not tied, whatever the configuration says */
    const sw_limits *limits;
} swi_model_ask;

/*
 * SW_ERR_NOTFOUND: no configuration, or no map for what it says; with what would help. Of a map or
 * configuration that is wrong: SW_ERR_FORMAT with file, line and column, SW_ERR_ARG.
 */
SW_MUST_USE sw_status swi_model_find(const swi_model_ask *ask, swi_model **out, sw_error *err);
void swi_model_free(swi_model *model);

/* All that it was made of. */
void swi_model_identify(const swi_model *model, swi_identity *identity);
const char *swi_model_name(const swi_model *model); /* of the map */
size_t swi_model_side_count(const swi_model *model);
const char *swi_model_side_name(const swi_model *model, size_t side);
/* -1: the map has no such side. */
int64_t swi_model_side(const swi_model *model, const char *name);

/* One tensor of a side, in the order in which the model registers its parameters. */
typedef struct swi_model_tensor {
    const char *name;
    uint32_t axes;
    int64_t shape[SW_MAX_AXES];
    sw_dtype dtype;      /* SW_DTYPE_NONE: whatever it is */
    bool optional;       /* a checkpoint may lack it */
    bool constant;       /* it holds one number that the map knows */
    bool buffer;         /* it is no parameter */
    const char *tied_to; /* the name on this side of the one that it is tied to, or NULL */
} swi_model_tensor;
size_t swi_model_tensor_count(const swi_model *model, size_t side);
bool swi_model_tensor_at(const swi_model *model, size_t side, size_t i, swi_model_tensor *out);
/* Other names of the side's tensors, which it leaves out and a source may have (MAP-6): tied_to is
 * set, and the shape that of the one it names. */
size_t swi_model_copy_count(const swi_model *model, size_t side);
bool swi_model_copy_at(const swi_model *model, size_t side, size_t i, swi_model_tensor *out);
/* Index of the tensor of that name, or -1. */
int64_t swi_model_tensor_find(const swi_model *model, size_t side, const char *name);
/* Whether files of this side may hold it and it is left out (it is computed anew). */
bool swi_model_ignores(const swi_model *model, size_t side, const char *name);

/*
 * How its rank files may divide (LAY-n), with the scope that their expressions want: alternatives,
 * those whose `when` holds first. A target writes by the first. Count 0: not said.
 */
size_t swi_model_layout_count(const swi_model *model, size_t side);
const swi_rules *swi_model_layout(const swi_model *model, size_t side, size_t i);
const swi_expr_scope *swi_model_scope(const swi_model *model);

/* The name of its configuration file ("params.json"), or NULL. */
const char *swi_model_config_name(const swi_model *model, size_t side);
/*
 * Its text as a target writes it, from the map's `write`, whose expressions may also use what
 * `sizes` knows (the axes of the target's mesh; NULL: nothing). SW_ERR_NOTFOUND: the map does not
 * say.
 */
SW_MUST_USE sw_status swi_model_write_config(const swi_model *model, size_t side,
                                             const swi_expr_scope *sizes, swi_buf *out,
                                             sw_error *err);

#endif
