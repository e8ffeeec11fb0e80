/* The shapes of the sides' tensors, by the operations that make them. */
#include <inttypes.h>
#include <string.h>

#include "base/checked.h"
#include "base/text.h"
#include "map/model_parts.h"

sw_status swi_model_eval_size(const swi_model *m, const swi_expr_scope *scope, const swi_expr *e,
                              swi_yaml_node at, const char *what, int64_t *out, sw_error *err)
{
    sw_error cause = {0};
    int64_t n = 0;
    sw_status st = swi_expr_eval_int(e, scope, &n, &cause);
    if (st == SW_OK && n >= 0) {
        *out = n;
        return SW_OK;
    }
    if (st == SW_ERR_NOMEM)
        return swi_fail_nomem(err);
    if (st == SW_OK)
        return swi_yaml_fail(m->map->doc, at, err, SW_ERR_CONFLICT, "MAP-4",
                             "%s \"%s\" is %" PRId64 ", which is negative", what, swi_expr_text(e),
                             n);
    return swi_yaml_fail(m->map->doc, at, err, st, "MAP-4", "%s \"%s\": %s", what, swi_expr_text(e),
                         cause.text);
}

static sw_status wrong(swi_model *m, size_t side, uint32_t id, const char *why, sw_error *err)
{
    const swi_side *s = &m->sides[side];
    swi_quoted q;
    return swi_yaml_fail(m->map->doc, swi_form_of(m, side, s->tensors[id].rule)->at, err,
                         SW_ERR_CONFLICT, "MAP-4", "side %s: \"%s\": %s", m->map->sides[side].name,
                         swi_quote_str(&q, swi_names_at(s->names, id, NULL)), why);
}

/* The parts from *atom on, joined; *atom goes on to those of the next element of what is stacked.
 */
static sw_status join_shape(swi_model *m, size_t side, uint32_t id, uint32_t *atom,
                            int64_t out[SW_MAX_AXES], sw_error *err)
{
    const swi_side *s = &m->sides[side];
    swi_side_tensor *t = &s->tensors[id];
    const swi_map_form *f = swi_form_of(m, side, t->rule);
    const uint32_t parts = f->join ? m->map->rules[t->rule].parts : 1;
    int64_t shape[SW_MAX_AXES] = {0}, groups;
    uint32_t axes;
    sw_status st = swi_model_shape(m, f, &m->atoms[*atom], &t->axes, out, err);
    if (st == SW_OK)
        st = swi_model_groups(m, f, &groups, err);
    if (st == SW_OK && f->join && f->join_dim >= t->axes)
        return wrong(m, side, id, "join: there is no such dimension", err);
    for (uint32_t i = 0; st == SW_OK && i < parts; i++, *atom = s->next[*atom]) {
        if (*atom == SWI_NO_TENSOR)
            return wrong(m, side, id, "not all of its parts are there", err);
        st = swi_model_shape(m, f, &m->atoms[*atom], &axes, shape, err);
        if (st != SW_OK)
            break;
        if (f->join && shape[f->join_dim] % groups != 0)
            return wrong(m, side, id, "a part does not divide into its groups", err);
        for (uint32_t k = 0; k < t->axes; k++)
            if (axes != t->axes || (shape[k] != out[k] && (!f->join || k != f->join_dim)))
                return wrong(m, side, id, "its parts do not fit together", err);
        if (i > 0 && !swi_add_i64(out[f->join_dim], shape[f->join_dim], &out[f->join_dim]))
            return wrong(m, side, id, "too large", err);
    }
    return st;
}

/* All that is stacked must be of one shape. */
static sw_status stack_shape(swi_model *m, size_t side, uint32_t id, sw_error *err)
{
    swi_side_tensor *t = &m->sides[side].tensors[id];
    const swi_map_form *f = swi_form_of(m, side, t->rule);
    const uint32_t parts = f->join ? m->map->rules[t->rule].parts : 1;
    int64_t shape[SW_MAX_AXES];
    uint32_t atom = t->first;
    if (t->count % parts != 0 || (!f->stack && t->count != parts))
        return wrong(m, side, id, "not all of its parts are there", err);
    sw_status st = join_shape(m, side, id, &atom, t->shape, err);
    while (st == SW_OK && atom != SWI_NO_TENSOR) {
        const uint32_t axes = t->axes;
        st = join_shape(m, side, id, &atom, shape, err);
        if (st == SW_OK &&
            (t->axes != axes || memcmp(shape, t->shape, axes * sizeof shape[0]) != 0))
            return wrong(m, side, id, "stack: what is stacked differs in shape", err);
    }
    if (st != SW_OK || !f->stack)
        return st;
    if (t->axes == SW_MAX_AXES || f->stack_dim > t->axes)
        return wrong(m, side, id, "stack: there is no such dimension", err);
    memmove(&t->shape[f->stack_dim + 1], &t->shape[f->stack_dim],
            (t->axes - f->stack_dim) * sizeof t->shape[0]);
    t->shape[f->stack_dim] = t->count / parts;
    t->axes++;
    return SW_OK;
}

static sw_status pad_shape(swi_model *m, size_t side, uint32_t id, sw_error *err)
{
    swi_side_tensor *t = &m->sides[side].tensors[id];
    const swi_map_form *f = swi_form_of(m, side, t->rule);
    memcpy(t->bare, t->shape, sizeof t->bare);
    if (f->pad_count > t->axes)
        return wrong(m, side, id, "pad: there is no such dimension", err);
    for (size_t k = 0; k < f->pad_count; k++) {
        if (f->pad[k] == NULL)
            continue;
        sw_status st =
            swi_model_eval_size(m, &m->scope, f->pad[k], f->at, "a size of pad", &t->shape[k], err);
        if (st != SW_OK)
            return st;
        if (t->shape[k] < t->bare[k])
            return wrong(m, side, id, "pad: shorter than it is", err);
    }
    uint64_t elements;
    return swi_shape_elements(t->axes, t->shape, &elements) ? SW_OK
                                                            : wrong(m, side, id, "too large", err);
}

static sw_status set_side(swi_model *m, size_t side, sw_error *err)
{
    sw_status st = SW_OK;
    for (uint32_t id = 0; st == SW_OK && id < swi_names_count(m->sides[side].names); id++) {
        st = stack_shape(m, side, id, err);
        if (st == SW_OK)
            st = pad_shape(m, side, id, err);
    }
    return st;
}

sw_status swi_model_set_shapes(swi_model *m, sw_error *err)
{
    sw_status st = SW_OK;
    for (size_t i = 0; st == SW_OK && i < m->map->side_count; i++)
        st = set_side(m, i, err);
    return st;
}
