/* Carrying out a map's rules for one configuration: what sides are able to, then step by step. */
#include "map/model_expand.h"

#include <stdlib.h>

sw_status swi_expand_int(const swi_expanding *x, const swi_expr *e, swi_yaml_node at,
                         const char *what, int64_t *out, sw_error *err)
{
    return swi_model_eval_size(x->m, &x->scope, e, at, what, out, err);
}

sw_status swi_expand_holds(const swi_expanding *x, const swi_expr *e, swi_yaml_node at, bool *out,
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

/* ---- what sides are able to -------------------------------------------------------------------
 */

/* `when` of the side and of its layouts; those that hold come first. */
static sw_status look_at_side(const swi_expanding *x, size_t side, sw_error *err)
{
    const swi_map_side *from = &x->map->sides[side];
    swi_side *s = &x->m->sides[side];
    size_t n = 0;
    sw_status st = swi_expand_holds(x, from->when, from->at, &s->able, err);
    if (st == SW_OK)
        st = swi_alloc_array(from->layout_count, sizeof *s->layouts, (void **)&s->layouts, err);
    if (st == SW_OK)
        st = swi_alloc_array(from->layout_count, sizeof *s->prefers, (void **)&s->prefers, err);
    for (size_t i = 0; st == SW_OK && i < from->layout_count; i++) {
        st = swi_expand_holds(x, from->layouts[i].when, from->at, &s->prefers[i], err);
        if (st == SW_OK && s->prefers[i])
            s->layouts[n++] = (uint32_t)i;
    }
    for (size_t i = 0; st == SW_OK && i < from->layout_count; i++)
        if (!s->prefers[i])
            s->layouts[n++] = (uint32_t)i;
    return st;
}

static sw_status wrong_block(const swi_expanding *x, sw_error *err)
{
    return swi_yaml_fail(x->map->doc, x->map->scales.at, err, SW_ERR_CONFLICT, "MAP-10",
                         "block \"%s\" must be a list of at most %d sizes of at least 1",
                         swi_expr_text(x->map->scales.block), SW_MAX_AXES);
}

/* MAP-10 */
static sw_status set_scales(const swi_expanding *x, sw_error *err)
{
    const swi_map_scales *s = &x->map->scales;
    swi_expr_value v;
    if (s->suffix == NULL)
        return SW_OK;
    sw_status st = swi_expand_holds(x, s->when, s->at, &x->m->has_scales, err);
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
    swi_expanding x = {.m = m, .map = m->map};
    sw_status st = SW_OK;
    x.table.items = x.vars;
    x.scope = (swi_expr_scope){.find = swi_expr_find_var, .ctx = &x.table, .outer = &m->scope};
    for (size_t i = 0; st == SW_OK && i < m->map->side_count; i++)
        st = look_at_side(&x, i, err);
    if (st == SW_OK)
        st = set_scales(&x, err);
    if (st == SW_OK)
        st = swi_expand_rules(&x, err);
    if (st == SW_OK)
        st = swi_expand_set_ties(&x, err);
    if (st == SW_OK)
        st = swi_expand_add_sources(&x, err);
    if (st == SW_OK)
        st = swi_model_set_shapes(m, err);
    swi_buf_free(&x.name);
    free(x.ties);
    free(x.left);
    swi_arena_free(&x.arena);
    return st;
}
