/* Carrying out the rules of a map: atoms in the order of registration, and what each side has. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/checked.h"
#include "base/text.h"
#include "map/model_parts.h"

/* Turns of all repeats and rules looked at in them: more is a mistake in a configuration. */
#define TURNS_MAX (UINT64_C(1) << 20)

/* Tensors of all sides together. */
#define NAMES_MAX (UINT64_C(1) << 21)

/* Tensors that are one. */
#define RING_MAX 256U

/* Names that the open repeats have together. */
#define VARS_MAX 64U

typedef struct loop {
    uint32_t begin; /* its step */
    int64_t at, to;
    size_t first_var; /* in the table: its variable, then its own lets */
    uint32_t group;   /* of the atoms in it */
} loop;

typedef struct tie {
    uint32_t atom;
    const char *to;
} tie;

typedef struct left_out {
    size_t side;
    uint32_t atom;
    const char *name; /* that the side would have for it, if it were not for `when` */
} left_out;

typedef struct expanding {
    swi_model *m;
    const swi_map *map;
    loop loops[SWI_YAML_MAX_DEPTH];
    size_t depth;
    swi_expr_var vars[VARS_MAX]; /* of the loops */
    swi_expr_vars table;
    swi_expr_scope scope;
    uint64_t turns, names;
    swi_buf name;
    tie *ties;
    size_t tie_count, tie_capacity;
    left_out *left;
    size_t left_count, left_capacity;
    swi_arena arena; /* of the names of both */
} expanding;

static sw_status eval_int(const expanding *x, const swi_expr *e, swi_yaml_node at, const char *what,
                          int64_t *out, sw_error *err)
{
    return swi_model_eval_size(x->m, &x->scope, e, at, what, out, err);
}

static sw_status holds(const expanding *x, const swi_expr *e, swi_yaml_node at, bool *out,
                       sw_error *err)
{
    sw_error cause = {0};
    *out = true;
    if (e == NULL)
        return SW_OK;
    sw_status st = swi_expr_eval_truth(e, &x->scope, out, &cause);
    if (st == SW_OK)
        return SW_OK;
    if (st == SW_ERR_NOMEM)
        return swi_fail_nomem(err);
    return swi_yaml_fail(x->map->doc, at, err, st, "MAP-5", "when \"%s\": %s", swi_expr_text(e),
                         cause.text);
}

/* ---- names ------------------------------------------------------------------------------------
 */

static void bind(const expanding *x, const swi_pattern *p, uint32_t part, swi_bindings *out)
{
    *out = (swi_bindings){.part = part};
    for (size_t i = 0; i < x->table.count; i++) {
        if (!swi_pattern_has_var(p, x->vars[i].name) || out->count == SWI_PATTERN_MAX_VARS ||
            x->vars[i].value.kind != SWI_EXPR_INT || x->vars[i].value.integer < 0)
            continue;
        out->items[out->count].name = x->vars[i].name;
        out->items[out->count++].value = (uint64_t)x->vars[i].value.integer;
    }
}

static sw_status make_name(expanding *x, const swi_pattern *p, uint32_t part, swi_yaml_node at,
                           sw_error *err)
{
    swi_bindings b;
    x->name.size = 0;
    bind(x, p, swi_pattern_part_count(p) > 1 ? part : 0, &b);
    if (b.count < swi_pattern_var_count(p))
        return swi_yaml_fail(x->map->doc, at, err, SW_ERR_FORMAT, "MAP-11",
                             "\"%s\": a variable in it is no whole number from 0 on",
                             swi_pattern_text(p));
    return swi_pattern_instantiate(p, &b, &x->name, err);
}

/* ---- atoms and the sides' tensors --------------------------------------------------------------
 */

/* The tensor of this name on that side, which one rule must make whole. */
static sw_status side_tensor(expanding *x, size_t side, uint32_t rule, const swi_map_form *f,
                             uint32_t *out, sw_error *err)
{
    swi_side *s = &x->m->sides[side];
    bool is_new;
    swi_quoted q;
    const char *name = (const char *)x->name.data;
    sw_status st = swi_names_add(s->names, name, x->name.size, out, &is_new, err);
    if (st == SW_OK && !is_new && s->tensors[*out].rule == rule && (f->join || f->stack))
        return SW_OK;
    if (st == SW_OK && !is_new)
        return swi_yaml_fail(x->map->doc, f->at, err, SW_ERR_CONFLICT, "MAP-11",
                             "side %s: \"%s\" is made twice", x->map->sides[side].name,
                             swi_quote(&q, name, x->name.size));
    if (st == SW_OK && x->names++ == NAMES_MAX)
        return swi_yaml_fail(x->map->doc, f->at, err, SW_ERR_LIMIT, "MAP-9",
                             "the sides have too many tensors");
    if (st == SW_OK)
        st = swi_grow_array((void **)&s->tensors, &s->capacity, (size_t)*out + 1,
                            sizeof *s->tensors, err);
    if (st != SW_OK)
        return st;
    s->tensors[*out] =
        (swi_side_tensor){.rule = rule, .first = SWI_NO_TENSOR, .last = SWI_NO_TENSOR};
    return SW_OK;
}

static void put_atom(swi_side *s, uint32_t id, uint32_t atom)
{
    swi_side_tensor *t = &s->tensors[id];
    s->tensor_of[atom] = id;
    if (t->count++ == 0)
        t->first = atom;
    else
        s->next[t->last] = atom;
    t->last = atom;
}

/* It may be tied to what the side has: a source may have either then (MAP-6). */
static sw_status leave_out(expanding *x, size_t side, const swi_map_form *f, uint32_t atom,
                           sw_error *err)
{
    if (f->join || f->stack)
        return SW_OK;
    sw_status st = make_name(x, f->name, x->m->atoms[atom].part, f->at, err);
    if (st == SW_OK)
        st = swi_grow_array((void **)&x->left, &x->left_capacity, x->left_count + 1,
                            sizeof *x->left, err);
    if (st != SW_OK)
        return st;
    left_out *l = &x->left[x->left_count];
    *l = (left_out){.side = side, .atom = atom};
    st = swi_arena_text(&x->arena, (const char *)x->name.data, x->name.size, &l->name, err);
    x->left_count += st == SW_OK;
    return st;
}

static sw_status put_on_side(expanding *x, size_t side, uint32_t rule, uint32_t atom, sw_error *err)
{
    const swi_map_form *f = swi_form_of(x->m, side, rule);
    swi_side *s = &x->m->sides[side];
    uint32_t id;
    bool has = f->has == SWI_MAP_HAS && s->able;
    sw_status st = swi_grow_array((void **)&s->tensor_of, &s->tensor_of_capacity, (size_t)atom + 1,
                                  sizeof *s->tensor_of, err);
    if (st == SW_OK)
        st = swi_grow_array((void **)&s->next, &s->next_capacity, (size_t)atom + 1, sizeof *s->next,
                            err);
    if (st != SW_OK)
        return st;
    s->tensor_of[atom] = s->next[atom] = SWI_NO_TENSOR;
    if (!has)
        return SW_OK;
    st = holds(x, f->when, f->at, &has, err);
    if (st == SW_OK && !has)
        return leave_out(x, side, f, atom, err);
    if (st == SW_OK)
        st = make_name(x, f->name, x->m->atoms[atom].part, f->at, err);
    if (st == SW_OK)
        st = side_tensor(x, side, rule, f, &id, err);
    if (st == SW_OK)
        put_atom(s, id, atom);
    return st;
}

/* Rules further on may make the atom that this one is tied to. */
static sw_status note_tie(expanding *x, uint32_t rule, uint32_t atom, sw_error *err)
{
    const swi_map_rule *r = &x->map->rules[rule];
    bool in_force;
    if (r->tie == NULL)
        return SW_OK;
    sw_status st = holds(x, r->tie_when, r->at, &in_force, err);
    if (st != SW_OK || !in_force)
        return st;
    st = make_name(x, r->tie, 0, r->at, err);
    if (st == SW_OK)
        st = swi_grow_array((void **)&x->ties, &x->tie_capacity, x->tie_count + 1, sizeof *x->ties,
                            err);
    if (st != SW_OK)
        return st;
    tie *t = &x->ties[x->tie_count];
    t->atom = atom;
    st = swi_arena_text(&x->arena, (const char *)x->name.data, x->name.size, &t->to, err);
    x->tie_count += st == SW_OK;
    return st;
}

/* The rings of an atom and of the one that it is tied to become one. */
static sw_status join_rings(const expanding *x, uint32_t atom, sw_error *err)
{
    swi_atom *atoms = x->m->atoms;
    const uint32_t to = atoms[atom].tie, next = atoms[to].ring;
    const swi_yaml_node at = x->map->rules[atoms[atom].rule].at;
    uint32_t size = 1;
    for (uint32_t a = next; a != to; a = atoms[a].ring, size++)
        if (a == atom)
            return swi_yaml_fail(x->map->doc, at, err, SW_ERR_CONFLICT, "MAP-6",
                                 "tie: the two are tied already, by other ties");
    for (uint32_t a = atoms[atom].ring; a != atom; a = atoms[a].ring)
        size++;
    if (size >= RING_MAX)
        return swi_yaml_fail(x->map->doc, at, err, SW_ERR_LIMIT, "MAP-6",
                             "tie: more than %u tensors are one", RING_MAX);
    atoms[to].ring = atoms[atom].ring;
    atoms[atom].ring = next;
    return SW_OK;
}

static sw_status set_ties(const expanding *x, sw_error *err)
{
    sw_status st = SW_OK;
    for (size_t i = 0; st == SW_OK && i < x->tie_count; i++) {
        const tie *t = &x->ties[i];
        swi_atom *atom = &x->m->atoms[t->atom];
        const swi_map_rule *r = &x->map->rules[atom->rule];
        const int64_t to = swi_names_find(x->m->atom_names, t->to, strlen(t->to));
        swi_quoted q;
        if (to < 0 || (uint32_t)to == t->atom)
            return swi_yaml_fail(x->map->doc, r->at, err, SW_ERR_FORMAT, "MAP-6",
                                 "tie: no other rule makes an atom \"%s\"",
                                 swi_quote_str(&q, t->to));
        const swi_atom *other = &x->m->atoms[to];
        if (other->axes != atom->axes || memcmp(other->shape, atom->shape, sizeof atom->shape) != 0)
            return swi_yaml_fail(x->map->doc, r->at, err, SW_ERR_CONFLICT, "MAP-6",
                                 "tie: the shapes of the two differ");
        atom->tie = (uint32_t)to;
        st = join_rings(x, t->atom, err);
    }
    return st;
}

static bool is_tied_on(const expanding *x, const left_out *l)
{
    const swi_side *s = &x->m->sides[l->side];
    uint32_t a = x->m->atoms[l->atom].ring;
    while (a != l->atom && !swi_side_has(s, a))
        a = x->m->atoms[a].ring;
    return a != l->atom;
}

/* What only a source may have, behind all that the side has itself. */
static sw_status add_sources(expanding *x, sw_error *err)
{
    sw_status st = SW_OK;
    for (size_t i = 0; i < x->map->side_count; i++)
        x->m->sides[i].own = swi_names_count(x->m->sides[i].names);
    for (size_t i = 0; st == SW_OK && i < x->left_count; i++) {
        const left_out *l = &x->left[i];
        swi_side *s = &x->m->sides[l->side];
        const uint32_t rule = x->m->atoms[l->atom].rule;
        uint32_t id;
        if (!is_tied_on(x, l) || swi_names_find(s->names, l->name, strlen(l->name)) >= 0)
            continue;
        x->name.size = 0;
        st = swi_buf_append_str(&x->name, l->name, err);
        if (st == SW_OK)
            st = side_tensor(x, l->side, rule, swi_form_of(x->m, l->side, rule), &id, err);
        if (st == SW_OK)
            put_atom(s, id, l->atom);
    }
    return st;
}

static uint32_t group_of(const expanding *x)
{
    return x->depth > 0 ? x->loops[x->depth - 1].group : SWI_NO_TENSOR;
}

static sw_status add_atom(expanding *x, uint32_t rule, uint32_t part, sw_error *err)
{
    swi_model *m = x->m;
    const swi_map_rule *r = &x->map->rules[rule];
    swi_atom atom = {.rule = rule, .part = part, .axes = r->axes, .group = group_of(x)};
    uint32_t id;
    bool is_new;
    swi_quoted q;
    uint64_t elements;
    sw_status st = SW_OK;
    for (uint32_t k = 0; st == SW_OK && k < r->axes; k++)
        st = eval_int(x, r->shape[part * r->axes + k], r->at, "size", &atom.shape[k], err);
    atom.tie = SWI_NO_TENSOR;
    if (st == SW_OK && !swi_shape_elements(atom.axes, atom.shape, &elements))
        return swi_yaml_fail(x->map->doc, r->at, err, SW_ERR_CONFLICT, "MAP-4",
                             "the shape has too many elements");
    if (st == SW_OK)
        st = make_name(x, r->forms[r->canonical].name, part, r->at, err);
    if (st == SW_OK && swi_model_atom_count(m) >= m->limits.tensors)
        st = swi_fail(err, SW_ERR_LIMIT, "the model has more than %" PRIu64 " tensors",
                      m->limits.tensors);
    if (st == SW_OK)
        st = swi_names_add(m->atom_names, x->name.data, x->name.size, &id, &is_new, err);
    if (st != SW_OK)
        return st;
    if (!is_new)
        return swi_yaml_fail(x->map->doc, r->at, err, SW_ERR_CONFLICT, "MAP-11",
                             "\"%s\" is made twice", swi_quote(&q, x->name.data, x->name.size));
    st = swi_grow_array((void **)&m->atoms, &m->atom_capacity, (size_t)id + 1, sizeof *m->atoms,
                        err);
    if (st != SW_OK)
        return st;
    atom.ring = id;
    m->atoms[id] = atom;
    st = note_tie(x, rule, id, err);
    for (size_t side = 0; st == SW_OK && side < x->map->side_count; side++)
        st = put_on_side(x, side, rule, id, err);
    return st;
}

/* Rules of one step: their parts in turn. */
static sw_status add_rules(expanding *x, const swi_map_step *step, sw_error *err)
{
    sw_status st = SW_OK;
    uint32_t parts = step->count > 0 ? x->map->rules[step->rule].parts : 0;
    for (uint32_t p = 0; st == SW_OK && p < parts; p++) {
        for (uint32_t i = 0; st == SW_OK && i < step->count; i++) {
            const swi_map_rule *r = &x->map->rules[step->rule + i];
            bool there;
            st = holds(x, r->when, r->at, &there, err);
            if (st == SW_OK && there)
                st = add_atom(x, step->rule + i, p, err);
        }
    }
    return st;
}

/* ---- repeats ----------------------------------------------------------------------------------
 */

/* What is new in a turn: the variable, what `let` makes of it, a group of its own. */
static sw_status begin_turn(expanding *x, sw_error *err)
{
    loop *l = &x->loops[x->depth - 1];
    const swi_map_step *s = &x->map->steps[l->begin];
    sw_status st = SW_OK;
    x->table.count = l->first_var;
    if (l->first_var + s->let_count + 1 > VARS_MAX)
        return swi_yaml_fail(x->map->doc, s->at, err, SW_ERR_LIMIT, "MAP-9",
                             "the repeats around this one have too many names");
    if (s->optional)
        l->group = x->m->group_count++;
    if (s->var != NULL)
        x->vars[x->table.count++] = (swi_expr_var){.name = s->var, .value = swi_expr_of_int(l->at)};
    for (size_t i = 0; st == SW_OK && i < s->let_count; i++) {
        sw_error cause = {0};
        swi_expr_value v;
        st = swi_expr_eval(s->lets[i].expr, &x->scope, &v, &cause);
        if (st == SW_ERR_NOMEM)
            return swi_fail_nomem(err);
        if (st != SW_OK)
            return swi_yaml_fail(x->map->doc, s->lets[i].at, err, st, "NT-2", "let %s: \"%s\": %s",
                                 s->lets[i].name, swi_expr_text(s->lets[i].expr), cause.text);
        x->vars[x->table.count++] = (swi_expr_var){.name = s->lets[i].name, .value = v};
    }
    return st;
}

static sw_status begin_loop(expanding *x, uint32_t *pc, sw_error *err)
{
    const swi_map_step *s = &x->map->steps[*pc];
    loop l = {.begin = *pc, .to = 1, .first_var = x->table.count, .group = group_of(x)};
    bool there;
    sw_status st = holds(x, s->when, s->at, &there, err);
    if (st == SW_OK && there && s->to != NULL)
        st = eval_int(x, s->to, s->at, "the count of a repeat", &l.to, err);
    if (st == SW_OK && there && s->from != NULL)
        st = eval_int(x, s->from, s->at, "the begin of a repeat", &l.at, err);
    if (st != SW_OK)
        return st;
    if (!there || l.at >= l.to) {
        *pc = s->other + 1;
        return SW_OK;
    }
    x->loops[x->depth++] = l;
    *pc += 1;
    return begin_turn(x, err);
}

static sw_status end_loop(expanding *x, uint32_t *pc, sw_error *err)
{
    loop *l = &x->loops[x->depth - 1];
    if (++l->at < l->to) {
        *pc = l->begin + 1;
        return begin_turn(x, err);
    }
    x->table.count = l->first_var;
    x->depth--;
    *pc += 1;
    return SW_OK;
}

static sw_status run(expanding *x, sw_error *err)
{
    sw_status st = SW_OK;
    for (uint32_t pc = 0; st == SW_OK && pc < x->map->step_count;) {
        const swi_map_step *s = &x->map->steps[pc];
        x->turns += 1 + s->count;
        if (x->turns > TURNS_MAX)
            return swi_yaml_fail(x->map->doc, s->at, err, SW_ERR_LIMIT, "MAP-9",
                                 "the repeats have too many turns");
        switch (s->kind) {
        case SWI_MAP_BEGIN:
            st = begin_loop(x, &pc, err);
            break;
        case SWI_MAP_END:
            st = end_loop(x, &pc, err);
            break;
        default:
            st = add_rules(x, s, err);
            pc++;
        }
    }
    return st;
}

/* ---- what sides are able to -------------------------------------------------------------------
 */

/* `when` of the side and of its layouts; those that hold come first. */
static sw_status look_at_side(const expanding *x, size_t side, sw_error *err)
{
    const swi_map_side *from = &x->map->sides[side];
    swi_side *s = &x->m->sides[side];
    size_t n = 0;
    sw_status st = holds(x, from->when, from->at, &s->able, err);
    if (st == SW_OK)
        st = swi_alloc_array(from->layout_count, sizeof *s->layouts, (void **)&s->layouts, err);
    if (st == SW_OK)
        st = swi_alloc_array(from->layout_count, sizeof *s->prefers, (void **)&s->prefers, err);
    for (size_t i = 0; st == SW_OK && i < from->layout_count; i++) {
        st = holds(x, from->layouts[i].when, from->at, &s->prefers[i], err);
        if (st == SW_OK && s->prefers[i])
            s->layouts[n++] = (uint32_t)i;
    }
    for (size_t i = 0; st == SW_OK && i < from->layout_count; i++)
        if (!s->prefers[i])
            s->layouts[n++] = (uint32_t)i;
    return st;
}

static sw_status wrong_block(const expanding *x, sw_error *err)
{
    return swi_yaml_fail(x->map->doc, x->map->scales.at, err, SW_ERR_CONFLICT, "MAP-10",
                         "block \"%s\" must be a list of at most %d sizes of at least 1",
                         swi_expr_text(x->map->scales.block), SW_MAX_AXES);
}

/* MAP-10 */
static sw_status set_scales(const expanding *x, sw_error *err)
{
    const swi_map_scales *s = &x->map->scales;
    swi_expr_value v;
    if (s->suffix == NULL)
        return SW_OK;
    sw_status st = holds(x, s->when, s->at, &x->m->has_scales, err);
    if (st != SW_OK || !x->m->has_scales)
        return st;
    st = swi_expr_eval(s->block, &x->scope, &v, err);
    if (st == SW_ERR_NOMEM)
        return st;
    if (st != SW_OK || v.kind != SWI_EXPR_LIST || v.count == 0 || v.count > SW_MAX_AXES)
        return wrong_block(x, err);
    for (size_t i = 0; i < v.count; i++) {
        const swi_expr_value size = swi_expr_item(&v, i);
        if (size.kind != SWI_EXPR_INT || size.integer < 1)
            return wrong_block(x, err);
        x->m->block[i] = size.integer;
    }
    x->m->block_axes = (uint32_t)v.count;
    return SW_OK;
}

sw_status swi_model_expand(swi_model *m, sw_error *err)
{
    expanding x = {.m = m, .map = m->map};
    sw_status st = SW_OK;
    x.table.items = x.vars;
    x.scope = (swi_expr_scope){.find = swi_expr_find_var, .ctx = &x.table, .outer = &m->scope};
    for (size_t i = 0; st == SW_OK && i < m->map->side_count; i++)
        st = look_at_side(&x, i, err);
    if (st == SW_OK)
        st = set_scales(&x, err);
    if (st == SW_OK)
        st = run(&x, err);
    if (st == SW_OK)
        st = set_ties(&x, err);
    if (st == SW_OK)
        st = add_sources(&x, err);
    if (st == SW_OK)
        st = swi_model_set_shapes(m, err);
    swi_buf_free(&x.name);
    free(x.ties);
    free(x.left);
    swi_arena_free(&x.arena);
    return st;
}
