/* What is wrong with a map that can be read: what it defines and nothing uses (MAP-11). */
#include <string.h>

#include "base/arena.h"
#include "base/names.h"
#include "base/text.h"
#include "map/map.h"

/* Names that something uses. */
typedef struct linting {
    const swi_map *m;
    swi_names *used;
    sw_status st;
    sw_error *err;
} linting;

static void note(linting *l, const char *name)
{
    uint32_t id;
    if (l->st == SW_OK)
        l->st = swi_names_add(l->used, name, strlen(name), &id, NULL, l->err);
}

static void note_expr(linting *l, const swi_expr *e)
{
    for (size_t i = 0; e != NULL && i < swi_expr_use_count(e); i++)
        note(l, swi_expr_use_at(e, i).name);
}

static void note_lets(linting *l, const swi_map_let *lets, size_t count)
{
    for (size_t i = 0; i < count; i++)
        note_expr(l, lets[i].expr);
}

static void note_einops(linting *l, const swi_einops *e)
{
    for (size_t i = 0; e != NULL && i < swi_einops_name_count(e); i++)
        note(l, swi_einops_name(e, i, NULL));
}

static void note_pattern(linting *l, const swi_pattern *p)
{
    for (size_t i = 0; p != NULL && i < swi_pattern_var_count(p); i++)
        note(l, swi_pattern_var(p, i, NULL));
}

static void note_form(linting *l, const swi_map_form *f, uint32_t parts)
{
    note_pattern(l, f->name);
    note_expr(l, f->when);
    note_expr(l, f->groups);
    for (size_t i = 0; i < f->pad_count; i++)
        note_expr(l, f->pad[i]);
    for (uint32_t i = 0; f->rearrange != NULL && i < parts; i++)
        note_einops(l, f->rearrange[i]);
}

static void note_rule(linting *l, const swi_map_rule *r)
{
    note_expr(l, r->when);
    note_pattern(l, r->tie);
    note_expr(l, r->tie_when);
    for (uint32_t i = 0; i < r->parts * r->axes; i++)
        note_expr(l, r->shape[i]);
    for (uint32_t i = 0; i < l->m->side_count; i++)
        note_form(l, &r->forms[i], r->parts);
}

static void note_side(linting *l, const swi_map_side *s)
{
    note_expr(l, s->when);
    note_lets(l, s->lets, s->let_count);
    for (size_t i = 0; i < s->key_count; i++)
        note_expr(l, s->keys[i].expr);
    for (size_t i = 0; i < s->layout_count; i++)
        note_expr(l, s->layouts[i].when);
}

static void note_all(linting *l)
{
    const swi_map *m = l->m;
    note_expr(l, m->scales.block);
    note_expr(l, m->scales.when);
    note_lets(l, m->lets, m->let_count);
    for (size_t i = 0; i < m->side_count; i++)
        note_side(l, &m->sides[i]);
    for (size_t i = 0; i < m->rule_count; i++)
        note_rule(l, &m->rules[i]);
    for (size_t i = 0; i < m->step_count; i++) {
        note_expr(l, m->steps[i].from);
        note_expr(l, m->steps[i].to);
        note_expr(l, m->steps[i].when);
        note_lets(l, m->steps[i].lets, m->steps[i].let_count);
    }
}

/* Layouts answer for one name. */
static bool layouts_use(const swi_map *m, const char *name)
{
    for (size_t i = 0; i < m->side_count; i++)
        for (size_t k = 0; k < m->sides[i].layout_count; k++)
            if (swi_rules_uses(m->sides[i].layouts[k].rules, name))
                return true;
    return false;
}

static void check_lets(linting *l, const swi_map_let *lets, size_t count)
{
    swi_quoted q;
    for (size_t i = 0; l->st == SW_OK && i < count; i++) {
        const char *name = lets[i].name;
        if (swi_names_find(l->used, name, strlen(name)) < 0 && !layouts_use(l->m, name))
            l->st = swi_yaml_fail(l->m->doc, lets[i].at, l->err, SW_ERR_FORMAT, "MAP-11",
                                  "let: nothing uses \"%s\"", swi_quote_str(&q, name));
    }
}

static void check_sides(linting *l)
{
    const swi_map *m = l->m;
    for (size_t k = 0; l->st == SW_OK && k < m->side_count; k++) {
        bool used = false;
        swi_quoted q;
        for (size_t i = 0; !used && i < m->rule_count; i++)
            used = m->rules[i].forms[k].has == SWI_MAP_HAS;
        if (!used)
            l->st = swi_yaml_fail(m->doc, m->sides[k].at, l->err, SW_ERR_FORMAT, "MAP-11",
                                  "sides: no rule has \"%s\"", swi_quote_str(&q, m->sides[k].name));
    }
}

sw_status swi_map_lint(const swi_map *map, sw_error *err)
{
    linting l = {.m = map, .err = err};
    l.st = swi_names_make(&l.used, err);
    note_all(&l);
    check_lets(&l, map->lets, map->let_count);
    for (size_t i = 0; i < map->side_count; i++)
        check_lets(&l, map->sides[i].lets, map->sides[i].let_count);
    for (size_t i = 0; i < map->step_count; i++)
        check_lets(&l, map->steps[i].lets, map->steps[i].let_count);
    check_sides(&l);
    swi_names_free(l.used);
    return l.st;
}
