/*
 * A map's rules being carried out for one configuration. model_expand.c leads and evaluates,
 * model_atoms.c makes the atoms and gives each to the sides' tensors, model_ties.c makes one of
 * those that are tied. The shapes of the sides' tensors follow (model_shapes.c).
 */
#ifndef SW_CONVERT_MAP_MODEL_EXPAND_H
#define SW_CONVERT_MAP_MODEL_EXPAND_H

#include "base/arena.h"
#include "map/model_parts.h"

/* Names that the open repeats have together. */
#define SWI_EXPAND_VARS_MAX 64U

typedef struct swi_expand_loop {
    uint32_t begin; /* its step */
    int64_t at, to;
    size_t first_var; /* in the table: its variable, then its own lets */
    uint32_t group;   /* of the atoms in it */
} swi_expand_loop;

typedef struct swi_expand_tie {
    uint32_t atom;
    const char *to; /* the canonical name of the other */
} swi_expand_tie;

typedef struct swi_expand_left {
    size_t side;
    uint32_t atom;
    const char *name; /* that the side would have for it, if it were not for `when` */
} swi_expand_left;

typedef struct swi_expanding {
    swi_model *m;
    const swi_map *map;
    swi_expand_loop loops[SWI_YAML_MAX_DEPTH];
    size_t depth;
    swi_expr_var vars[SWI_EXPAND_VARS_MAX]; /* of the loops */
    swi_expr_vars table;
    swi_expr_scope scope;
    uint64_t turns, names;
    swi_buf name; /* the one made last */
    swi_expand_tie *ties;
    size_t tie_count, tie_capacity;
    swi_expand_left *left;
    size_t left_count, left_capacity;
    swi_arena arena; /* of the names of both */
} swi_expanding;

/* ---- model_expand.c --------------------------------------------------------------------------
 */

/* A number of at least 0; `what` names it in the error (MAP-4). */
SW_MUST_USE sw_status swi_expand_int(const swi_expanding *x, const swi_expr *e, swi_yaml_node at,
                                     const char *what, int64_t *out, sw_error *err);
/* A `when` (MAP-5); NULL holds. */
SW_MUST_USE sw_status swi_expand_holds(const swi_expanding *x, const swi_expr *e, swi_yaml_node at,
                                       bool *out, sw_error *err);

/* ---- model_atoms.c ---------------------------------------------------------------------------
 */

/* All rules, the repeats turn by turn. */
SW_MUST_USE sw_status swi_expand_rules(swi_expanding *x, sw_error *err);
/* x->name becomes the name that the pattern gives this part now. */
SW_MUST_USE sw_status swi_expand_name(swi_expanding *x, const swi_pattern *p, uint32_t part,
                                      swi_yaml_node at, sw_error *err);
/* The tensor called x->name on that side, which one rule must make whole. */
SW_MUST_USE sw_status swi_expand_side_tensor(swi_expanding *x, size_t side, uint32_t rule,
                                             const swi_map_form *f, uint32_t *out, sw_error *err);
/* The atom is the next one of tensor `id`. */
void swi_expand_put(swi_side *s, uint32_t id, uint32_t atom);

/* ---- model_ties.c ----------------------------------------------------------------------------
 */

/*
 * Notes an atom that the side leaves out for its `when`: it may be tied to what the side has, and a
 * source may have either then (MAP-6).
 */
SW_MUST_USE sw_status swi_expand_leave_out(swi_expanding *x, size_t side, const swi_map_form *f,
                                           uint32_t atom, sw_error *err);
/* Notes the tie of an atom: rules further on may make the one that it is tied to. */
SW_MUST_USE sw_status swi_expand_note_tie(swi_expanding *x, uint32_t rule, uint32_t atom,
                                          sw_error *err);
/* Once all atoms are there: those that are tied are one. */
SW_MUST_USE sw_status swi_expand_set_ties(const swi_expanding *x, sw_error *err);
/* Then: what only a source may have, behind all that the side has itself. */
SW_MUST_USE sw_status swi_expand_add_sources(swi_expanding *x, sw_error *err);

#endif
