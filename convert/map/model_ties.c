/* Atoms that are one tensor (MAP-6), and what a source may have for them. */
#include <string.h>

#include "base/text.h"
#include "map/model_expand.h"

/* Tensors that are one. */
#define RING_MAX 256U

/* It may be tied to what the side has: a source may have either then (MAP-6). */
sw_status swi_expand_leave_out(swi_expanding *x, size_t side, const swi_map_form *f, uint32_t atom,
                               sw_error *err)
{
    if (f->join || f->stack)
        return SW_OK;
    sw_status st = swi_expand_name(x, f->name, x->m->atoms[atom].part, f->at, err);
    if (st == SW_OK)
        st = swi_grow_array((void **)&x->left, &x->left_capacity, x->left_count + 1,
                            sizeof *x->left, err);
    if (st != SW_OK)
        return st;
    swi_expand_left *l = &x->left[x->left_count];
    *l = (swi_expand_left){.side = side, .atom = atom};
    st = swi_arena_text(&x->arena, (const char *)x->name.data, x->name.size, &l->name, err);
    x->left_count += st == SW_OK;
    return st;
}

/* Rules further on may make the atom that this one is tied to. */
sw_status swi_expand_note_tie(swi_expanding *x, uint32_t rule, uint32_t atom, sw_error *err)
{
    const swi_map_rule *r = &x->map->rules[rule];
    bool in_force;
    if (r->tie == NULL)
        return SW_OK;
    sw_status st = swi_expand_holds(x, r->tie_when, r->at, &in_force, err);
    if (st != SW_OK || !in_force)
        return st;
    st = swi_expand_name(x, r->tie, 0, r->at, err);
    if (st == SW_OK)
        st = swi_grow_array((void **)&x->ties, &x->tie_capacity, x->tie_count + 1, sizeof *x->ties,
                            err);
    if (st != SW_OK)
        return st;
    swi_expand_tie *t = &x->ties[x->tie_count];
    t->atom = atom;
    st = swi_arena_text(&x->arena, (const char *)x->name.data, x->name.size, &t->to, err);
    x->tie_count += st == SW_OK;
    return st;
}

/* The rings of an atom and of the one that it is tied to become one. */
static sw_status join_rings(const swi_expanding *x, uint32_t atom, sw_error *err)
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

sw_status swi_expand_set_ties(const swi_expanding *x, sw_error *err)
{
    sw_status st = SW_OK;
    for (size_t i = 0; st == SW_OK && i < x->tie_count; i++) {
        const swi_expand_tie *t = &x->ties[i];
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

static bool is_tied_on(const swi_expanding *x, const swi_expand_left *l)
{
    const swi_side *s = &x->m->sides[l->side];
    uint32_t a = x->m->atoms[l->atom].ring;
    while (a != l->atom && !swi_side_has(s, a))
        a = x->m->atoms[a].ring;
    return a != l->atom;
}

/* What only a source may have, behind all that the side has itself. */
sw_status swi_expand_add_sources(swi_expanding *x, sw_error *err)
{
    sw_status st = SW_OK;
    for (size_t i = 0; i < x->map->side_count; i++)
        x->m->sides[i].own = swi_names_count(x->m->sides[i].names);
    for (size_t i = 0; st == SW_OK && i < x->left_count; i++) {
        const swi_expand_left *l = &x->left[i];
        swi_side *s = &x->m->sides[l->side];
        const uint32_t rule = x->m->atoms[l->atom].rule;
        uint32_t id;
        if (!is_tied_on(x, l) || swi_names_find(s->names, l->name, strlen(l->name)) >= 0)
            continue;
        x->name.size = 0;
        st = swi_buf_append_str(&x->name, l->name, err);
        if (st == SW_OK)
            st = swi_expand_side_tensor(x, l->side, rule, swi_form_of(x->m, l->side, rule), &id,
                                        err);
        if (st == SW_OK)
            swi_expand_put(s, id, l->atom);
    }
    return st;
}
