/*
 * A map as it is written (specs/notation.md, MAP-1 to MAP-16): rules that say how the tensors of
 * each side are made of the model's atoms. What it means for one configuration is a model
 * (model.h).
 *
 * Immutable once read; may be shared by threads.
 */
#ifndef SW_CONVERT_MAP_MAP_H
#define SW_CONVERT_MAP_MAP_H

#include "base/arena.h"
#include "codec/yaml.h"
#include "notation/einops.h"
#include "notation/expr.h"
#include "notation/pattern.h"
#include "notation/rules.h"

#define SWI_MAP_SIDES_MAX 16U
#define SWI_MAP_PARTS_MAX 16U

typedef struct swi_map_let {
    const char *name;
    swi_expr *expr;
    swi_yaml_node at;
} swi_map_let;

/* A key of a configuration file that a target writes. */
typedef struct swi_map_key {
    const char *key;
    swi_expr *expr;
    swi_yaml_node at;
} swi_map_key;

/* One of the ways in which the rank files of a side divide. */
typedef struct swi_map_layout {
    swi_rules *rules;
    swi_expr *when; /* NULL: always */
} swi_map_layout;

typedef struct swi_map_side {
    const char *name;
    const char *config; /* its configuration file, or NULL */
    swi_expr *when;     /* NULL: it can hold every such model */
    swi_map_let *lets;  /* instead of the map's, when that is the configuration at hand */
    size_t let_count;
    swi_map_key *keys; /* what `write` says */
    size_t key_count;
    swi_pattern **ignore;
    size_t ignore_count;
    swi_map_layout *layouts;
    size_t layout_count;
    swi_yaml_node at;
} swi_map_side;

/* How one side has the atoms of a rule. */
typedef enum swi_map_has { SWI_MAP_NOT = 0, SWI_MAP_HAS, SWI_MAP_DROP } swi_map_has;
typedef struct swi_map_form {
    swi_map_has has;
    swi_yaml_node at;
    swi_pattern *name;
    swi_expr *when;         /* NULL: always */
    swi_einops **rearrange; /* by part; NULL: none of them */
    bool join, stack;
    uint32_t join_dim, stack_dim;
    swi_expr *groups; /* NULL: 1 */
    swi_expr **pad;   /* sizes of the first pad_count dimensions; NULL: as it is */
    size_t pad_count;
    sw_dtype cast; /* SW_DTYPE_NONE: none */
} swi_map_form;

typedef struct swi_map_rule {
    swi_yaml_node at;
    uint32_t canonical;  /* the side that names the atoms */
    swi_map_form *forms; /* by side */
    uint32_t parts;
    uint32_t axes;
    swi_expr **shape; /* parts x axes */
    swi_expr *when;
    swi_pattern *tie; /* NULL: none */
    swi_expr *tie_when;
    bool fills;            /* MAP-7 */
    bool optional, buffer; /* MAP-8 */
    double fill;
    sw_dtype dtype; /* SW_DTYPE_NONE: whatever it is */
} swi_map_rule;

/*
 * The rules in order: what is between a BEGIN and its END is repeated. The atoms of the rules of
 * one step are registered in turn, part by part.
 */
typedef enum swi_map_step_kind { SWI_MAP_RULES, SWI_MAP_BEGIN, SWI_MAP_END } swi_map_step_kind;
typedef struct swi_map_step {
    swi_map_step_kind kind;
    uint32_t rule, count; /* RULES */
    const char *var;      /* BEGIN; NULL: only `when` */
    swi_expr *from, *to;  /* from NULL: 0 */
    swi_expr *when;       /* NULL: always */
    swi_map_let *lets;    /* of each turn */
    size_t let_count;
    bool optional;  /* each turn is there whole or not at all */
    uint32_t other; /* BEGIN: the step of its END; END: that of its BEGIN */
    swi_yaml_node at;
} swi_map_step;

/* Companions of atoms of float8 types: MAP-10. */
typedef struct swi_map_scales {
    const char *suffix; /* NULL: none */
    swi_expr *block, *when;
    swi_yaml_node at;
} swi_map_scales;

typedef struct swi_map {
    swi_yaml *doc;
    uint8_t *text; /* that it was read from */
    size_t text_size;
    const char *name;
    const char **models;
    size_t model_count;
    swi_map_let *lets;
    size_t let_count;
    swi_map_side *sides;
    uint32_t side_count;
    swi_map_rule *rules;
    size_t rule_count, rule_capacity;
    swi_map_step *steps;
    size_t step_count, step_capacity;
    swi_map_scales scales;
    swi_arena arena;
    /* names that expressions may use, while it is read: see map_parse.h */
    struct swi_map_visible {
        const char **names;
        size_t count, capacity;
        size_t first;             /* those before are not seen */
        size_t loops;             /* from here on those of repeats */
        const swi_map_side *axes; /* whose layouts' axes are names too; NULL: none */
    } visible;
    /* what is freed with it */
    struct swi_map_owned *owned;
    size_t owned_count, owned_capacity;
} swi_map;

/* `file` is for messages. SW_ERR_FORMAT and SW_ERR_LIMIT with file, line and column. */
SW_MUST_USE sw_status swi_map_parse(const void *data, size_t size, const char *file,
                                    const sw_limits *limits, swi_map **out, sw_error *err);
void swi_map_free(swi_map *map);

/* What map_lint.c adds to parsing: MAP-11. */
SW_MUST_USE sw_status swi_map_lint(const swi_map *map, sw_error *err);

#endif
