#include "map/agree.h"

#include <inttypes.h>
#include <string.h>

#include "base/text.h"
#include "map/model_parts.h"

static const swi_expr_var *find_number(const swi_model *m, const char *name)
{
    for (size_t i = 0; i < m->let_vars.count; i++) {
        const swi_expr_var *var = &m->lets[i];
        if (var->value.kind == SWI_EXPR_INT && strcmp(var->name, name) == 0)
            return var;
    }
    return NULL;
}

static const char *expression(const swi_model *m, const char *name)
{
    for (size_t i = 0; i < m->map->let_count; i++)
        if (strcmp(m->map->lets[i].name, name) == 0)
            return swi_expr_text(m->map->lets[i].expr);
    return name;
}

static sw_status compare(const swi_model *m, const swi_model *other, const char *path,
                         sw_report *report, sw_error *err)
{
    const swi_finding_in in = {.severity = SW_WARNING, .code = "config-differs", .file = path};
    for (size_t i = 0; i < m->let_vars.count; i++) {
        const swi_expr_var *a = &m->lets[i];
        const swi_expr_var *b = find_number(other, a->name);
        if (a->value.kind != SWI_EXPR_INT || b == NULL || a->value.integer == b->value.integer)
            continue;
        return swi_report_add(report, &in, err,
                              "%s (%s) is %" PRId64 " by this file, but %" PRId64
                              " by the configuration that is used; if that is another model's the "
                              "result is wrong",
                              a->name, expression(m, a->name), b->value.integer, a->value.integer);
    }
    return SW_OK;
}

static sw_status hold_file(const swi_model *m, const char *map, const char *path, sw_report *report,
                           sw_error *err)
{
    swi_model *other = NULL;
    sw_error cause = {0};
    const swi_model_ask ask = {
        .map = map != NULL ? map : m->map->name, .config = path, .limits = &m->limits};
    sw_status st = swi_model_find(&ask, &other, &cause);
    if (st == SW_OK)
        st = compare(m, other, path, report, err);
    else
        st = st == SW_ERR_NOMEM ? swi_fail_nomem(err) : SW_OK;
    swi_model_free(other);
    return st;
}

/* A name that an earlier side has is looked at there. */
static bool is_repeated(const swi_model *m, size_t side)
{
    for (size_t i = 0; i < side; i++)
        if (m->map->sides[i].config != NULL &&
            strcmp(m->map->sides[i].config, m->map->sides[side].config) == 0)
            return true;
    return false;
}

sw_status swi_model_agree(const swi_model *m, const char *map, const char *folder,
                          sw_report *report, sw_error *err)
{
    sw_status st = SW_OK;
    for (size_t i = 0; st == SW_OK && i < m->map->side_count; i++) {
        const char *name = m->map->sides[i].config;
        swi_buf path = {0};
        if (name == NULL || is_repeated(m, i))
            continue;
        st = swi_buf_printf(&path, err, "%s/%s", folder, name);
        if (st == SW_OK)
            st = swi_buf_append(&path, "", 1, err);
        if (st == SW_OK)
            st = hold_file(m, map, (const char *)path.data, report, err);
        swi_buf_free(&path);
    }
    return st;
}
