#include "notation/division.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/text.h"
#include "notation/division_parts.h"

void swi_division_free(swi_division *d)
{
    if (d == NULL)
        return;
    swi_arena_free(&d->arena);
    free(d);
}

const swi_rules *swi_division_rules(const swi_division *d)
{
    return d->rules;
}

uint64_t swi_division_ranks(const swi_division *d)
{
    return d->meshes[0].ranks;
}

size_t swi_division_axis_count(const swi_division *d)
{
    return d->rules->meshes[0].axes;
}

swi_axis_size swi_division_axis(const swi_division *d, size_t i)
{
    return (swi_axis_size){.name = d->rules->meshes[0].axis[i].name, .size = d->meshes[0].size[i]};
}

/* ---- the numbers of expressions ------------------------------------------------------------- */

/* A name of the layout itself: a value of `let`, or an axis of a mesh. */
typedef struct known {
    const char *name;
    swi_expr_value value;
    const sw_error *failure; /* NULL: it has a value */
} known;

typedef struct making {
    swi_division *d;
    const swi_axis_size *given;
    size_t given_count;
    known *known;
    size_t known_count;
    swi_expr_scope scope;
} making;

static sw_status find_known(void *ctx, const char *name, swi_expr_value *out, bool *found,
                            sw_error *err)
{
    const making *m = ctx;
    for (size_t i = 0; i < m->known_count; i++) {
        const known *k = &m->known[i];
        if (strcmp(k->name, name) != 0)
            continue;
        if (k->failure != NULL) {
            if (err != NULL)
                *err = *k->failure;
            return k->failure->status;
        }
        *out = k->value;
        *found = true;
        return SW_OK;
    }
    *found = false;
    return SW_OK;
}

static sw_status keep_failure(swi_arena *arena, const sw_error *cause, sw_error **out,
                              sw_error *err)
{
    if (cause->status == SW_ERR_NOMEM)
        return swi_fail_nomem(err);
    sw_status st = swi_arena_alloc(arena, sizeof **out, (void **)out, err);
    if (st == SW_OK)
        **out = *cause;
    return st;
}

/* What fails here does so when it is used: not every model has every key. */
static sw_status know_lets(making *m, sw_error *err)
{
    const swi_rules *r = m->d->rules;
    sw_status st = SW_OK;
    for (size_t i = 0; st == SW_OK && i < r->let_count; i++) {
        const swi_rules_named *let = &r->lets[i];
        sw_error cause = {0}, *failure = NULL;
        known *k = &m->known[i];
        k->name = let->name;
        if (swi_expr_eval(let->value.expr, &m->scope, &k->value, &cause) != SW_OK) {
            (void)swi_yaml_fail_inside(r->doc, let->value.node, cause.status, &cause);
            st = keep_failure(&m->d->arena, &cause, &failure, err);
        }
        k->failure = failure;
        m->known_count++;
    }
    return st;
}

static sw_status eval_at_least(const making *m, const swi_rules_expr *e, int64_t least,
                               const char *clause, int64_t *out, sw_error *err)
{
    const swi_yaml *doc = m->d->rules->doc;
    sw_status st = swi_expr_eval_int(e->expr, &m->scope, out, err);
    if (st != SW_OK)
        return swi_yaml_fail_inside(doc, e->node, st, err);
    swi_quoted q;
    return *out >= least ? SW_OK
                         : swi_yaml_fail(doc, e->node, err, SW_ERR_CONFLICT, clause,
                                         "%s is %" PRId64 ", and must be at least %" PRId64,
                                         swi_quote_str(&q, swi_expr_text(e->expr)), *out, least);
}

/* ---- meshes --------------------------------------------------------------------------------- */

static const swi_axis_size *given_size(const making *m, const char *axis)
{
    for (size_t i = 0; i < m->given_count; i++)
        if (strcmp(m->given[i].name, axis) == 0)
            return &m->given[i];
    return NULL;
}

/* LAY-7 */
static sw_status check_given(const making *m, sw_error *err)
{
    const swi_rules *r = m->d->rules;
    swi_quoted q, file;
    for (size_t i = 0; i < m->given_count; i++) {
        if (!swi_rules_has_axis(r, m->given[i].name))
            return swi_fail_at(err, SW_ERR_ARG, "LAY-7", 0,
                               "the layout %s has no axis \"%s\" to give a size to; its mesh has "
                               "%s%s",
                               swi_quote_str(&file, swi_yaml_file(r->doc)),
                               swi_quote_str(&q, m->given[i].name), r->meshes[0].axis[0].name,
                               r->meshes[0].axes > 1 ? " and others" : "");
        if (m->given[i].size == 0)
            return swi_fail_at(err, SW_ERR_ARG, "LAY-7", 0, "axis %s has no ranks",
                               swi_quote_str(&q, m->given[i].name));
    }
    return SW_OK;
}

static sw_status size_axis(making *m, const swi_rules_named *axis, uint64_t *size, sw_error *err)
{
    const swi_axis_size *given = given_size(m, axis->name);
    int64_t n = 1;
    sw_status st = given != NULL ? SW_OK : eval_at_least(m, &axis->value, 1, "LAY-1", &n, err);
    if (st != SW_OK)
        return st;
    *size = given != NULL ? given->size : (uint64_t)n;
    if (*size > SWI_MESH_RANKS_MAX)
        return swi_yaml_fail(m->d->rules->doc, axis->value.node, err, SW_ERR_LIMIT, "LAY-1",
                             "axis %s has %" PRIu64 " ranks; at most %" PRIu64 " are known here",
                             axis->name, *size, SWI_MESH_RANKS_MAX);
    m->known[m->known_count++] =
        (known){.name = axis->name, .value = swi_expr_of_int((int64_t)*size)};
    return SW_OK;
}

static sw_status size_mesh(making *m, size_t i, sw_error *err)
{
    const swi_rules *r = m->d->rules;
    const swi_rules_mesh *from = &r->meshes[i];
    swi_mesh_sizes *to = &m->d->meshes[i];
    sw_status st = SW_OK;
    for (uint32_t a = 0; st == SW_OK && a < from->axes; a++)
        st = size_axis(m, &from->axis[a], &to->size[a], err);
    if (st != SW_OK)
        return st;
    to->ranks = 1;
    for (uint32_t a = from->axes; a-- > 0;) {
        to->stride[a] = to->ranks;
        if (to->size[a] > SWI_MESH_RANKS_MAX / to->ranks)
            return swi_yaml_fail(r->doc, from->node, err, SW_ERR_LIMIT, "LAY-1",
                                 "a mesh of more than %" PRIu64 " ranks", SWI_MESH_RANKS_MAX);
        to->ranks *= to->size[a];
    }
    if (to->ranks == m->d->meshes[0].ranks)
        return SW_OK;
    swi_quoted q;
    return swi_yaml_fail(r->doc, from->node, err, SW_ERR_CONFLICT, "LAY-1",
                         "mesh %s has %" PRIu64 " ranks, and the first mesh %" PRIu64
                         "; they are the same ranks: make the sizes of its axes fit",
                         swi_quote_str(&q, from->name), to->ranks, m->d->meshes[0].ranks);
}

static sw_status size_meshes(making *m, sw_error *err)
{
    const swi_rules *r = m->d->rules;
    sw_status st = swi_arena_alloc(&m->d->arena, r->mesh_count * sizeof *m->d->meshes,
                                   (void **)&m->d->meshes, err);
    for (size_t i = 0; st == SW_OK && i < r->mesh_count; i++)
        st = size_mesh(m, i, err);
    return st;
}

/* ---- rules ---------------------------------------------------------------------------------- */

static sw_status eval_numbers(const making *m, const swi_rule *rule, const swi_rule_numbers *n,
                              sw_error *err)
{
    sw_status st = SW_OK;
    for (size_t i = 0; st == SW_OK && i < rule->part_count; i++)
        st = eval_at_least(m, &rule->parts[i], 0, "LAY-3", &n->parts[i], err);
    for (size_t i = 0; st == SW_OK && i < rule->unit_count; i++)
        st = eval_at_least(m, &rule->units[i], 1, "LAY-4", &n->units[i], err);
    return st;
}

static sw_status number_rules(making *m, sw_error *err)
{
    const swi_rules *r = m->d->rules;
    swi_arena *arena = &m->d->arena;
    sw_status st =
        swi_arena_alloc(arena, r->count * sizeof *m->d->numbers, (void **)&m->d->numbers, err);
    for (size_t i = 0; st == SW_OK && i < r->count; i++) {
        swi_rule_numbers *n = &m->d->numbers[i];
        const swi_rule *rule = &r->rules[i];
        sw_error cause = {0};
        st = swi_arena_alloc(arena, rule->part_count * sizeof *n->parts, (void **)&n->parts, err);
        if (st == SW_OK)
            st = swi_arena_alloc(arena, rule->unit_count * sizeof *n->units, (void **)&n->units,
                                 err);
        if (st == SW_OK && eval_numbers(m, rule, n, &cause) != SW_OK)
            st = keep_failure(arena, &cause, &n->failure, err);
    }
    return st;
}

sw_status swi_division_make(const swi_rules *rules, const swi_expr_scope *scope,
                            const swi_axis_size *given, size_t given_count, swi_division **out,
                            sw_error *err)
{
    making m = {.given = given, .given_count = given_count};
    if (rules->mesh_count == 0)
        return swi_fail_at(err, SW_ERR_ARG, "LAY-9", 0, "the layout has no mesh and no rules");
    m.scope = (swi_expr_scope){.find = find_known, .ctx = &m, .outer = scope};
    size_t names = rules->let_count + rules->mesh_count * SWI_MESH_AXES_MAX;
    sw_status st = swi_alloc_array(1, sizeof *m.d, (void **)&m.d, err);
    if (st == SW_OK)
        st = swi_alloc_array(names, sizeof *m.known, (void **)&m.known, err);
    if (st == SW_OK) {
        m.d->rules = rules;
        st = check_given(&m, err);
    }
    if (st == SW_OK)
        st = know_lets(&m, err);
    if (st == SW_OK)
        st = size_meshes(&m, err);
    if (st == SW_OK)
        st = number_rules(&m, err);
    free(m.known);
    if (st == SW_OK)
        *out = m.d;
    else
        swi_division_free(m.d);
    return st;
}
