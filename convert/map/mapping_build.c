/* Tensors of the one side undone into atoms, and those of the other made of them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "cast.h"
#include "map/mapping_parts.h"
#include "source/derive.h"

static const swi_map_form *form_of(const swi_mapping *m, size_t side, uint32_t rule)
{
    return swi_form_of(m->model, side, rule);
}

static uint32_t parts_of(const swi_mapping *m, const swi_map_form *f, uint32_t rule)
{
    return f->join ? m->model->map->rules[rule].parts : 1;
}

static sw_status named(const swi_side *side, uint32_t id, sw_error *err)
{
    swi_quoted q;
    return swi_error_prefix(err, "tensor \"%s\"",
                            swi_quote_str(&q, swi_names_at(side->names, id, NULL)));
}

/* Replaces *at by what an operation made of it. */
static void take_over(swi_shaped *at, swi_shaped *made)
{
    swi_shaped_free(at);
    *at = *made;
    *made = (swi_shaped){0};
}

/* ---- undoing ----------------------------------------------------------------------------------
 */

/* Without what pads it. */
static sw_status open_tensor(const swi_mapping *m, const swi_present *have, uint32_t id,
                             swi_shaped *out, sw_error *err)
{
    const swi_side_tensor *t = &m->from->tensors[id];
    static const int64_t origin[SW_MAX_AXES];
    swi_shaped cut;
    sw_status st = swi_shaped_take(m->catalog, have->tensor[id], out, err);
    if (st == SW_OK && have->are_scales) {
        st = swi_shaped_spread(out, t->axes, t->bare, m->model->block, &cut, err);
        if (st == SW_OK)
            take_over(out, &cut);
        else
            swi_shaped_free(out);
        return st;
    }
    if (st != SW_OK || memcmp(t->shape, t->bare, t->axes * sizeof t->bare[0]) == 0)
        return st;
    st = swi_shaped_cut(out, origin, t->bare, &cut, err);
    if (st == SW_OK)
        take_over(out, &cut);
    else
        swi_shaped_free(out);
    return st;
}

static sw_status unstack(const swi_mapping *m, uint32_t id, uint32_t index, swi_shaped *at,
                         sw_error *err)
{
    const swi_map_form *f = form_of(m, m->in.from, m->from->tensors[id].rule);
    swi_shaped made;
    if (!f->stack)
        return SW_OK;
    sw_status st = swi_shaped_unstack(at, f->stack_dim, index, &made, err);
    if (st == SW_OK)
        take_over(at, &made);
    return st;
}

/* The shape of an atom as the form has it, before it is joined. */
static sw_status atom_shape(const swi_mapping *m, const swi_map_form *f, uint32_t atom,
                            uint32_t *axes, int64_t *shape, sw_error *err)
{
    const swi_atom *a = &m->model->atoms[atom];
    return swi_model_shape(m->model, f, a, axes, shape, err);
}

static sw_status unjoin(const swi_mapping *m, uint32_t id, uint32_t first, uint32_t part,
                        swi_shaped *at, sw_error *err)
{
    const swi_side_tensor *t = &m->from->tensors[id];
    const swi_map_form *f = form_of(m, m->in.from, t->rule);
    const uint32_t parts = parts_of(m, f, t->rule);
    int64_t sizes[SWI_MAP_PARTS_MAX], shape[SW_MAX_AXES], groups;
    swi_shaped made[SWI_MAP_PARTS_MAX];
    uint32_t axes;
    sw_status st = swi_model_groups(m->model, f, &groups, err);
    for (uint32_t i = 0; st == SW_OK && i < parts; i++, first = m->from->next[first]) {
        st = atom_shape(m, f, first, &axes, shape, err);
        sizes[i] = shape[f->join_dim];
    }
    if (st == SW_OK)
        st = swi_shaped_split(at, f->join_dim, groups, sizes, parts, made, err);
    if (st != SW_OK)
        return st;
    take_over(at, &made[part]);
    for (uint32_t i = 0; i < parts; i++)
        if (i != part)
            swi_shaped_free(&made[i]);
    return SW_OK;
}

/* The first of the atoms that are joined with this one. */
static uint32_t first_of_join(const swi_mapping *m, uint32_t id, uint32_t place, uint32_t parts)
{
    uint32_t atom = m->from->tensors[id].first;
    for (uint32_t i = place / parts * parts; i > 0; i--)
        atom = m->from->next[atom];
    return atom;
}

sw_status swi_mapping_atom(swi_mapping *m, const swi_present *have, uint32_t id, uint32_t atom,
                           swi_shaped *out, sw_error *err)
{
    const swi_side_tensor *t = &m->from->tensors[id];
    const swi_map_form *f = form_of(m, m->in.from, t->rule);
    const uint32_t parts = parts_of(m, f, t->rule), place = m->place[atom];
    const swi_atom *a = &m->model->atoms[atom];
    swi_rearrange how, back;
    bool rearranged = false;
    swi_shaped at, made;
    sw_status st = open_tensor(m, have, id, &at, err);
    if (st != SW_OK)
        return named(m->from, id, err);
    st = unstack(m, id, place / parts, &at, err);
    if (st == SW_OK && f->join)
        st = unjoin(m, id, first_of_join(m, id, place, parts), place % parts, &at, err);
    if (st == SW_OK)
        st = swi_model_rearrange(m->model, f, a->part, a->axes, a->shape, &rearranged, &how, err);
    if (st == SW_OK && rearranged) {
        swi_rearrange_inverse(&how, &back);
        st = swi_shaped_rearrange(&at, &back, &made, err);
        if (st == SW_OK)
            take_over(&at, &made);
    }
    if (st == SW_OK) {
        *out = at;
        return SW_OK;
    }
    swi_shaped_free(&at);
    return named(m->from, id, err);
}

/* ---- making -----------------------------------------------------------------------------------
 */

uint64_t swi_mapping_pattern(double v, sw_dtype dtype)
{
    sw_tally tally = {0};
    uint64_t bits = 0;
    swi_cast(&v, SW_F64, &bits, dtype, 1, &tally);
    return bits;
}

static sw_status zero_blob(swi_mapping *m, uint32_t *blob, sw_error *err)
{
    static const uint8_t zero[16];
    if (!m->has_zero) {
        sw_status st = swi_builder_constant(m->builder, zero, 1, sizeof zero, &m->zero_blob, err);
        if (st != SW_OK)
            return st;
        m->has_zero = true;
    }
    *blob = m->zero_blob;
    return SW_OK;
}

static sw_status fill_atom(swi_mapping *m, uint32_t atom, swi_shaped *out, sw_error *err)
{
    const swi_atom *a = &m->model->atoms[atom];
    const swi_map_rule *r = &m->model->map->rules[a->rule];
    const uint64_t bits = swi_mapping_pattern(r->fill, r->dtype);
    const uint32_t size = sw_dtype_bytes(r->dtype);
    uint32_t blob;
    sw_status st = swi_builder_constant(m->builder, &bits, size, size, &blob, err);
    return st == SW_OK ? swi_shaped_fill(r->dtype, a->axes, a->shape, blob, out, err) : st;
}

/* An atom as the target's side has it, not yet joined. */
static sw_status make_part(swi_mapping *m, const swi_present *have, const swi_map_form *f,
                           uint32_t atom, swi_shaped *out, sw_error *err)
{
    const swi_atom *a = &m->model->atoms[atom];
    uint32_t from, as;
    swi_rearrange how;
    bool rearranged = false;
    sw_status st;
    if (swi_mapping_source(m, have, atom, &from, &as))
        st = swi_mapping_atom(m, have, from, as, out, err);
    else
        st = fill_atom(m, atom, out, err);
    if (st != SW_OK)
        return st;
    st = swi_model_rearrange(m->model, f, a->part, a->axes, a->shape, &rearranged, &how, err);
    if (st == SW_OK && rearranged) {
        swi_shaped made;
        st = swi_shaped_rearrange(out, &how, &made, err);
        if (st == SW_OK)
            take_over(out, &made);
    }
    if (st != SW_OK)
        swi_shaped_free(out);
    return st;
}

static void free_all(swi_shaped *items, size_t count)
{
    for (size_t i = 0; i < count; i++)
        swi_shaped_free(&items[i]);
}

/* Parts of one element of what is stacked; *atom goes on to the next element's. */
static sw_status make_joined(swi_mapping *m, const swi_present *have, uint32_t rule, uint32_t *atom,
                             swi_shaped *out, sw_error *err)
{
    const swi_map_form *f = form_of(m, m->in.to, rule);
    const uint32_t parts = parts_of(m, f, rule);
    swi_shaped made[SWI_MAP_PARTS_MAX];
    uint32_t n = 0;
    int64_t groups;
    sw_status st = swi_model_groups(m->model, f, &groups, err);
    for (; st == SW_OK && n < parts; *atom = m->to->next[*atom]) {
        st = make_part(m, have, f, *atom, &made[n], err);
        n += st == SW_OK;
    }
    if (st == SW_OK && !f->join) {
        *out = made[0];
        return SW_OK;
    }
    if (st == SW_OK)
        st = swi_shaped_join(made, parts, f->join_dim, groups, out, err);
    free_all(made, n);
    return st;
}

static sw_status pad(swi_mapping *m, const swi_side_tensor *t, swi_shaped *at, sw_error *err)
{
    uint32_t blob = 0;
    sw_status st = SW_OK;
    for (uint32_t k = 0; st == SW_OK && k < t->axes; k++) {
        swi_shaped made;
        if (t->shape[k] == t->bare[k])
            continue;
        st = zero_blob(m, &blob, err);
        if (st == SW_OK)
            st = swi_shaped_pad(at, k, t->shape[k], blob, &made, err);
        if (st == SW_OK)
            take_over(at, &made);
    }
    return st;
}

sw_status swi_mapping_build(swi_mapping *m, const swi_present *have, uint32_t id, swi_shaped *out,
                            sw_error *err)
{
    const swi_side_tensor *t = &m->to->tensors[id];
    const swi_map_form *f = form_of(m, m->in.to, t->rule);
    const size_t count = t->count / parts_of(m, f, t->rule);
    swi_shaped *items = NULL;
    uint32_t atom = t->first;
    size_t n = 0;
    sw_status st = swi_alloc_array(count, sizeof *items, (void **)&items, err);
    for (; st == SW_OK && n < count; n++)
        st = make_joined(m, have, t->rule, &atom, &items[n], err);
    if (st == SW_OK && f->stack) {
        st = swi_shaped_stack(items, count, f->stack_dim, out, err);
    } else if (st == SW_OK) {
        *out = items[0];
        items[0] = (swi_shaped){0};
    }
    if (st == SW_OK && (st = pad(m, t, out, err)) != SW_OK)
        swi_shaped_free(out);
    if (items != NULL)
        free_all(items, count);
    free(items);
    return st == SW_OK ? SW_OK : named(m->to, id, err);
}

/* ---- as it is ---------------------------------------------------------------------------------
 */

bool swi_mapping_is_plain(const swi_model *model, size_t side, uint32_t tensor)
{
    const swi_side_tensor *t = &model->sides[side].tensors[tensor];
    const swi_map_form *f = swi_form_of(model, side, t->rule);
    const bool rearranges =
        f->rearrange != NULL && f->rearrange[model->atoms[t->first].part] != NULL;
    return !rearranges && !f->join && !f->stack && memcmp(t->shape, t->bare, sizeof t->bare) == 0;
}

bool swi_mapping_is_same(const swi_mapping *m, const swi_present *have, uint32_t id,
                         uint32_t *tensor)
{
    const swi_side_tensor *t = &m->to->tensors[id];
    uint32_t from, as;
    if (m->in.from == m->in.to) {
        *tensor = have->tensor[id];
        return *tensor != SWI_NO_TENSOR;
    }
    if (!swi_mapping_source(m, have, t->first, &from, &as))
        return false;
    if (!swi_mapping_is_plain(m->model, m->in.to, id) ||
        !swi_mapping_is_plain(m->model, m->in.from, from))
        return false;
    *tensor = have->tensor[from];
    return true;
}

/* ---- into the derived catalog -----------------------------------------------------------------
 */

sw_status swi_mapping_put(swi_mapping *m, const char *name, sw_role role, const swi_shaped *shaped,
                          uint32_t *tensor, sw_error *err)
{
    return swi_derive_put(m->builder, name, role, shaped, tensor, err);
}

sw_status swi_mapping_must(swi_mapping *m, const swi_must *must, sw_error *err)
{
    sw_status st = swi_grow_array((void **)&m->musts, &m->must_capacity, m->must_count + 1,
                                  sizeof *m->musts, err);
    if (st == SW_OK)
        m->musts[m->must_count++] = *must;
    return st;
}

/* Dimension by dimension: what lies behind its bare size, of what is within those before. */
sw_status swi_mapping_pads(swi_mapping *m, const swi_present *have, uint32_t id, sw_error *err)
{
    const swi_side_tensor *t = &m->from->tensors[id];
    int64_t offset[SW_MAX_AXES] = {0}, length[SW_MAX_AXES];
    const char *name = swi_names_at(m->from->names, id, NULL);
    swi_shaped whole, cut;
    if (memcmp(t->shape, t->bare, sizeof t->bare) == 0)
        return SW_OK;
    sw_status st = swi_shaped_take(m->catalog, have->tensor[id], &whole, err);
    if (st != SW_OK)
        return st;
    memcpy(length, t->shape, sizeof length);
    for (uint32_t k = 0; st == SW_OK && k < t->axes; k++) {
        swi_must must = {.kind = SWI_MUST_ZERO, .name = name};
        if (t->shape[k] == t->bare[k])
            continue;
        offset[k] = t->bare[k];
        length[k] = t->shape[k] - t->bare[k];
        st = swi_shaped_cut(&whole, offset, length, &cut, err);
        if (st != SW_OK)
            break;
        st = swi_mapping_put(m, name, SW_ROLE_OTHER, &cut, &must.tensor, err);
        swi_shaped_free(&cut);
        if (st == SW_OK)
            st = swi_mapping_must(m, &must, err);
        offset[k] = 0;
        length[k] = t->bare[k];
    }
    swi_shaped_free(&whole);
    return st;
}
