/* The parts of a layout as it is written, for rules*.c, division.c and cut.c. */
#ifndef SW_CONVERT_NOTATION_RULES_PARTS_H
#define SW_CONVERT_NOTATION_RULES_PARTS_H

#include "base/arena.h"
#include "notation/chunk.h"
#include "notation/expr.h"
#include "notation/pattern.h"
#include "notation/rules.h"

/* An expression and its place. */
typedef struct swi_rules_expr {
    swi_yaml_node node;
    swi_expr *expr;
} swi_rules_expr;

typedef struct swi_rules_named {
    const char *name;
    swi_rules_expr value;
} swi_rules_named;

typedef struct swi_rules_mesh {
    const char *name; /* NULL: the first one */
    swi_yaml_node node;
    uint32_t axes;
    swi_rules_named axis[SWI_MESH_AXES_MAX]; /* slowest first */
} swi_rules_mesh;

/* An entry of `dims`: axes of the rule's mesh, in the order in which they split; 0: `_`. */
typedef struct swi_rules_entry {
    uint32_t count;
    uint32_t axis[SWI_MESH_AXES_MAX];
} swi_rules_entry;

typedef struct swi_rule {
    swi_yaml_node node;
    swi_pattern **patterns;
    size_t pattern_count;
    size_t mesh; /* its number */
    bool flat;   /* the one entry is of all elements in a row */
    bool even;
    uint64_t copies; /* bit p: several ranks may hold the same unit of part p */
    swi_rules_entry *entries;
    uint32_t entry_count;
    int32_t first_split; /* entry; -1: none splits */
    swi_rules_expr *parts, *units;
    size_t part_count, unit_count;
} swi_rule;

struct swi_rules {
    swi_yaml *own; /* NULL: the document is another's */
    const swi_yaml *doc;
    swi_arena arena;
    swi_rules_named *lets;
    size_t let_count;
    swi_rules_mesh *meshes;
    size_t mesh_count;
    swi_rule *rules;
    size_t count;
    swi_pattern **units; /* of wrapped modules */
    size_t unit_count;
    size_t compared; /* pairs of patterns, while it is read */
};

/* ---- rules.c -------------------------------------------------------------------------------- */

/* FORMAT: the text of the node, and what is wrong with it. */
sw_status swi_rules_bad(const swi_rules *r, swi_yaml_node node, const char *clause,
                        const char *what, sw_error *err);
/* `what` is what should stand there, for messages. */
SW_MUST_USE sw_status swi_rules_read_expr(const swi_rules *r, swi_yaml_node node, const char *what,
                                          swi_rules_expr *out, sw_error *err);

/* ---- rules_rule.c --------------------------------------------------------------------------- */

/* The patterns that are a key's value, a list or one; none where the key is absent. */
SW_MUST_USE sw_status swi_rules_read_patterns(swi_rules *r, swi_yaml_node mapping, const char *key,
                                              swi_pattern ***out, size_t *count, sw_error *err);
/* Reads rule->node into the rest of *rule, which is zero; names and meshes are there already. */
SW_MUST_USE sw_status swi_rule_read(swi_rules *r, swi_rule *rule, sw_error *err);

#endif
