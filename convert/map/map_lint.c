/* What is wrong with a map that can be read: names that nothing binds or uses (MAP-11). */
#include <string.h>

#include "map/map.h"

static sw_status complain(const swi_map *m, swi_yaml_node at, sw_error *err, const char *what,
                          const char *name)
{
    return swi_yaml_fail(m->doc, at, err, SW_ERR_FORMAT, "MAP-11", "%s \"%s\"", what, name);
}

static bool expr_uses(const swi_expr *e, const char *name)
{
    for (size_t i = 0; e != NULL && i < swi_expr_use_count(e); i++)
        if (strcmp(swi_expr_use_at(e, i).name, name) == 0)
            return true;
    return false;
}

static bool einops_uses(const swi_einops *e, const char *name)
{
    for (size_t i = 0; e != NULL && i < swi_einops_name_count(e); i++)
        if (strcmp(swi_einops_name(e, i, NULL), name) == 0)
            return true;
    return false;
}

static bool form_uses(const swi_map_form *f, uint32_t parts, const char *name)
{
    bool used = expr_uses(f->when, name) || expr_uses(f->groups, name);
    for (size_t i = 0; !used && i < f->pad_count; i++)
        used = expr_uses(f->pad[i], name);
    for (uint32_t i = 0; !used && f->rearrange != NULL && i < parts; i++)
        used = einops_uses(f->rearrange[i], name);
    return used;
}

static bool rule_uses(const swi_map *m, const swi_map_rule *r, const char *name)
{
    bool used = expr_uses(r->when, name) || expr_uses(r->tie_when, name);
    for (uint32_t i = 0; !used && i < r->parts * r->axes; i++)
        used = expr_uses(r->shape[i], name);
    for (uint32_t i = 0; !used && i < m->side_count; i++)
        used = form_uses(&r->forms[i], r->parts, name);
    return used;
}

static bool side_uses(const swi_map_side *s, const char *name)
{
    bool used = expr_uses(s->when, name);
    for (size_t i = 0; !used && i < s->let_count; i++)
        used = expr_uses(s->lets[i].expr, name);
    for (size_t i = 0; !used && i < s->key_count; i++)
        used = expr_uses(s->keys[i].expr, name);
    for (size_t i = 0; !used && i < s->layout_count; i++)
        used = expr_uses(s->layouts[i].when, name) || swi_rules_uses(s->layouts[i].rules, name);
    return used;
}

static bool map_uses(const swi_map *m, const char *name)
{
    bool used = expr_uses(m->scales.block, name) || expr_uses(m->scales.when, name);
    for (size_t i = 0; !used && i < m->let_count; i++)
        used = expr_uses(m->lets[i].expr, name);
    for (size_t i = 0; !used && i < m->side_count; i++)
        used = side_uses(&m->sides[i], name);
    for (size_t i = 0; !used && i < m->rule_count; i++)
        used = rule_uses(m, &m->rules[i], name);
    for (size_t i = 0; !used && i < m->step_count; i++) {
        const swi_map_step *s = &m->steps[i];
        used = expr_uses(s->from, name) || expr_uses(s->to, name) || expr_uses(s->when, name);
        for (size_t k = 0; !used && k < s->let_count; k++)
            used = expr_uses(s->lets[k].expr, name);
    }
    return used;
}

/* A variable of a repeat that is a name of `let` as well would hide it. */
static sw_status check_repeats(const swi_map *m, sw_error *err)
{
    for (size_t i = 0; i < m->step_count; i++) {
        const char *var = m->steps[i].var;
        for (size_t k = 0; var != NULL && k < m->let_count; k++)
            if (strcmp(m->lets[k].name, var) == 0)
                return complain(m, m->steps[i].at, err, "repeat hides the name of let", var);
        for (size_t k = i; var != NULL && k-- > 0;)
            if (m->steps[k].kind == SWI_MAP_BEGIN && m->steps[k].other > i &&
                m->steps[k].var != NULL && strcmp(m->steps[k].var, var) == 0)
                return complain(m, m->steps[i].at, err, "repeat hides that of a repeat around it",
                                var);
    }
    return SW_OK;
}

static sw_status check_lets(const swi_map *m, sw_error *err)
{
    for (size_t i = 0; i < m->let_count; i++)
        if (!map_uses(m, m->lets[i].name))
            return complain(m, m->lets[i].at, err, "let: nothing uses", m->lets[i].name);
    for (size_t k = 0; k < m->side_count; k++)
        for (size_t i = 0; i < m->sides[k].let_count; i++)
            if (!map_uses(m, m->sides[k].lets[i].name))
                return complain(m, m->sides[k].lets[i].at, err, "let: nothing uses",
                                m->sides[k].lets[i].name);
    return SW_OK;
}

static sw_status check_sides(const swi_map *m, sw_error *err)
{
    for (size_t k = 0; k < m->side_count; k++) {
        bool used = false;
        for (size_t i = 0; !used && i < m->rule_count; i++)
            used = m->rules[i].forms[k].has != SWI_MAP_NOT;
        if (!used)
            return complain(m, m->sides[k].at, err, "sides: no rule has", m->sides[k].name);
    }
    return SW_OK;
}

sw_status swi_map_lint(const swi_map *map, sw_error *err)
{
    sw_status st = check_repeats(map, err);
    if (st == SW_OK)
        st = check_lets(map, err);
    return st == SW_OK ? check_sides(map, err) : st;
}
