/*
 * Expressions of layouts and maps (specs/notation.md, NT-2): `config.head_dim ?? H / A`. Compiled
 * once into a small postfix program, evaluated any number of times. An expression is immutable and
 * may be shared by threads.
 *
 * Errors have in offset_bytes the place inside the text, for swi_yaml_fail_inside. Of compiling:
 * FORMAT, LIMIT. Of evaluating: FORMAT for a name that nothing defines, CONFLICT for values that do
 * not fit (a division with a rest, an overflow, a comparison of a text with a number).
 */
#ifndef SW_CONVERT_NOTATION_EXPR_H
#define SW_CONVERT_NOTATION_EXPR_H

#include "base/error.h"

#define SWI_EXPR_MAX_BYTES 1024U
#define SWI_EXPR_MAX_STEPS 256U /* operands and operators */
#define SWI_EXPR_MAX_DEPTH 64U  /* values, and operators, that wait */

typedef enum swi_expr_kind {
    SWI_EXPR_NONE, /* also what a config key is that is absent */
    SWI_EXPR_BOOL,
    SWI_EXPR_INT,
    SWI_EXPR_FLOAT,
    SWI_EXPR_TEXT,
    SWI_EXPR_LIST,
    SWI_EXPR_OBJECT /* a JSON object: only for dotted access and comparison with none */
} swi_expr_kind;

/* Borrows what it refers to: from the expression, the scope, or the graph. */
typedef struct swi_expr_value swi_expr_value;
struct swi_expr_value {
    swi_expr_kind kind;
    union {
        bool truth;
        int64_t integer;
        double number;
        struct {
            const char *text; /* not terminated */
            size_t size;
        };
        struct {
            const swi_expr_value *items; /* a LIST literal; NULL: the list `json` of `graph` */
            size_t count;
            const sw_value_graph *graph;
            sw_value json; /* of a LIST or OBJECT */
        };
    };
};

swi_expr_value swi_expr_none(void);
swi_expr_value swi_expr_of_bool(bool truth);
swi_expr_value swi_expr_of_int(int64_t integer);
swi_expr_value swi_expr_of_text(const char *text); /* borrowed */
/* A node of a JSON document (codec/json.h). What JSON does not know becomes NONE. */
swi_expr_value swi_expr_of_json(const sw_value_graph *graph, sw_value v);
/* Item i < count of a LIST. */
swi_expr_value swi_expr_item(const swi_expr_value *list, size_t i);
/* "a number", "a text" ...: for messages. */
const char *swi_expr_kind_name(swi_expr_kind kind);

/*
 * Where names come from: the innermost scope that knows the name. `find` sets *found and *out, or
 * fails (a let variable whose own expression fails). Of `config.rope_parameters.rope_theta` it is
 * asked for "config"; the rest is looked up in the OBJECT that it gives.
 */
typedef struct swi_expr_scope swi_expr_scope;
struct swi_expr_scope {
    sw_status (*find)(void *ctx, const char *name, swi_expr_value *out, bool *found, sw_error *err);
    void *ctx;
    const swi_expr_scope *outer; /* asked next; NULL: none */
};

/* Asks the scope (NULL: none) and those around it; *out is untouched where none knows the name. */
SW_MUST_USE sw_status swi_expr_look_up(const swi_expr_scope *scope, const char *name,
                                       swi_expr_value *out, bool *found, sw_error *err);

/* The ready-made scope: a table. Usage: {.find = swi_expr_find_var, .ctx = &vars}. */
typedef struct swi_expr_var {
    const char *name;
    swi_expr_value value;
} swi_expr_var;
typedef struct swi_expr_vars {
    const swi_expr_var *items;
    size_t count;
} swi_expr_vars;
sw_status swi_expr_find_var(void *vars, const char *name, swi_expr_value *out, bool *found,
                            sw_error *err);

typedef struct swi_expr swi_expr;
/* The text is copied. */
SW_MUST_USE sw_status swi_expr_compile(const char *text, size_t size, swi_expr **out,
                                       sw_error *err);
void swi_expr_free(swi_expr *expr);
const char *swi_expr_text(const swi_expr *expr);

/* scope NULL: no names. `and`, `or` and `??` leave out what they do not need. */
SW_MUST_USE sw_status swi_expr_eval(const swi_expr *expr, const swi_expr_scope *scope,
                                    swi_expr_value *out, sw_error *err);
/* The result must be an integer. */
SW_MUST_USE sw_status swi_expr_eval_int(const swi_expr *expr, const swi_expr_scope *scope,
                                        int64_t *out, sw_error *err);
/* The result must be a condition: true or false; none counts as false. */
SW_MUST_USE sw_status swi_expr_eval_truth(const swi_expr *expr, const swi_expr_scope *scope,
                                          bool *out, sw_error *err);

/* The names that it uses, each use once: "H", "config". */
typedef struct swi_expr_use {
    const char *name;    /* what a scope is asked for */
    const char *path;    /* what follows the first dot, "" when there is none */
    size_t offset_bytes; /* in the text */
} swi_expr_use;
size_t swi_expr_use_count(const swi_expr *expr);
swi_expr_use swi_expr_use_at(const swi_expr *expr, size_t i);

#endif
