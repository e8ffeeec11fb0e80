/* Atoms in the order of registration, and the tensors of the sides that have them. */
#include <inttypes.h>

#include "base/text.h"
#include "map/model_expand.h"

/* Turns of all repeats and rules looked at in them: more is a mistake in a configuration. */
#define TURNS_MAX (UINT64_C(1) << 20)

/* Tensors of all sides together. */
#define NAMES_MAX (UINT64_C(1) << 21)

/* ---- names ------------------------------------------------------------------------------------
 */

static void bind(const swi_expanding *x, const swi_pattern *p, uint32_t part, swi_bindings *out)
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

sw_status swi_expand_name(swi_expanding *x, const swi_pattern *p, uint32_t part, swi_yaml_node at,
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
sw_status swi_expand_side_tensor(swi_expanding *x, size_t side, uint32_t rule,
                                 const swi_map_form *f, uint32_t *out, sw_error *err)
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

void swi_expand_put(swi_side *s, uint32_t id, uint32_t atom)
{
    swi_side_tensor *t = &s->tensors[id];
    s->tensor_of[atom] = id;
    if (t->count++ == 0)
        t->first = atom;
    else
        s->next[t->last] = atom;
    t->last = atom;
}

static sw_status put_on_side(swi_expanding *x, size_t side, uint32_t rule, uint32_t atom,
                             sw_error *err)
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
    st = swi_expand_holds(x, f->when, f->at, &has, err);
    if (st == SW_OK && !has)
        return swi_expand_leave_out(x, side, f, atom, err);
    if (st == SW_OK)
        st = swi_expand_name(x, f->name, x->m->atoms[atom].part, f->at, err);
    if (st == SW_OK)
        st = swi_expand_side_tensor(x, side, rule, f, &id, err);
    if (st == SW_OK)
        swi_expand_put(s, id, atom);
    return st;
}

static uint32_t group_of(const swi_expanding *x)
{
    return x->depth > 0 ? x->loops[x->depth - 1].group : SWI_NO_TENSOR;
}

static sw_status add_atom(swi_expanding *x, uint32_t rule, uint32_t part, sw_error *err)
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
        st = swi_expand_int(x, r->shape[part * r->axes + k], r->at, "size", &atom.shape[k], err);
    atom.tie = SWI_NO_TENSOR;
    if (st == SW_OK && !swi_shape_elements(atom.axes, atom.shape, &elements))
        return swi_yaml_fail(x->map->doc, r->at, err, SW_ERR_CONFLICT, "MAP-4",
                             "the shape has too many elements");
    if (st == SW_OK)
        st = swi_expand_name(x, r->forms[r->canonical].name, part, r->at, err);
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
    st = swi_expand_note_tie(x, rule, id, err);
    for (size_t side = 0; st == SW_OK && side < x->map->side_count; side++)
        st = put_on_side(x, side, rule, id, err);
    return st;
}

/* Rules of one step: their parts in turn. */
static sw_status add_rules(swi_expanding *x, const swi_map_step *step, sw_error *err)
{
    sw_status st = SW_OK;
    uint32_t parts = step->count > 0 ? x->map->rules[step->rule].parts : 0;
    for (uint32_t p = 0; st == SW_OK && p < parts; p++) {
        for (uint32_t i = 0; st == SW_OK && i < step->count; i++) {
            const swi_map_rule *r = &x->map->rules[step->rule + i];
            bool there;
            st = swi_expand_holds(x, r->when, r->at, &there, err);
            if (st == SW_OK && there)
                st = add_atom(x, step->rule + i, p, err);
        }
    }
    return st;
}

/* ---- repeats ----------------------------------------------------------------------------------
 */

/* What is new in a turn: the variable, what `let` makes of it, a group of its own. */
static sw_status begin_turn(swi_expanding *x, sw_error *err)
{
    swi_expand_loop *l = &x->loops[x->depth - 1];
    const swi_map_step *s = &x->map->steps[l->begin];
    sw_status st = SW_OK;
    x->table.count = l->first_var;
    if (l->first_var + s->let_count + 1 > SWI_EXPAND_VARS_MAX)
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

static sw_status begin_loop(swi_expanding *x, uint32_t *pc, sw_error *err)
{
    const swi_map_step *s = &x->map->steps[*pc];
    swi_expand_loop l = {.begin = *pc, .to = 1, .first_var = x->table.count, .group = group_of(x)};
    bool there;
    sw_status st = swi_expand_holds(x, s->when, s->at, &there, err);
    if (st == SW_OK && there && s->to != NULL)
        st = swi_expand_int(x, s->to, s->at, "the count of a repeat", &l.to, err);
    if (st == SW_OK && there && s->from != NULL)
        st = swi_expand_int(x, s->from, s->at, "the begin of a repeat", &l.at, err);
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

static sw_status end_loop(swi_expanding *x, uint32_t *pc, sw_error *err)
{
    swi_expand_loop *l = &x->loops[x->depth - 1];
    if (++l->at < l->to) {
        *pc = l->begin + 1;
        return begin_turn(x, err);
    }
    x->table.count = l->first_var;
    x->depth--;
    *pc += 1;
    return SW_OK;
}

sw_status swi_expand_rules(swi_expanding *x, sw_error *err)
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
