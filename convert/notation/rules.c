/* Layouts as they are written: documents, names, meshes, the list of rules; rules_rule.c reads one.
 */
#include "notation/rules.h"

#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "io/store.h"
#include "notation/lex.h"
#include "notation/pattern_cover.h"
#include "notation/rules_parts.h"

#define VERSION "1"
#define AXIS_NAME_MAX 63U
#define COMPARED_MAX 100000U /* pairs of patterns, for rules that cannot be reached */

void swi_rules_free(swi_rules *r)
{
    if (r == NULL)
        return;
    for (size_t i = 0; i < r->let_count; i++)
        swi_expr_free(r->lets[i].value.expr);
    for (size_t i = 0; i < r->mesh_count; i++)
        for (uint32_t a = 0; a < r->meshes[i].axes; a++)
            swi_expr_free(r->meshes[i].axis[a].value.expr);
    for (size_t i = 0; i < r->count; i++) {
        const swi_rule *rule = &r->rules[i];
        for (size_t k = 0; k < rule->pattern_count; k++)
            swi_pattern_free(rule->patterns[k]);
        for (size_t k = 0; k < rule->part_count; k++)
            swi_expr_free(rule->parts[k].expr);
        for (size_t k = 0; k < rule->unit_count; k++)
            swi_expr_free(rule->units[k].expr);
    }
    for (size_t i = 0; i < r->unit_count; i++)
        swi_pattern_free(r->units[i]);
    swi_arena_free(&r->arena);
    swi_yaml_free(r->own);
    free(r);
}

/* ---- texts ---------------------------------------------------------------------------------- */

sw_status swi_rules_bad(const swi_rules *r, swi_yaml_node node, const char *clause,
                        const char *what, sw_error *err)
{
    swi_quoted q;
    size_t size;
    const char *text = swi_yaml_text(r->doc, node, &size);
    return swi_yaml_fail(r->doc, node, err, SW_ERR_FORMAT, clause, "\"%s\" %s",
                         swi_quote(&q, text, size), what);
}

static bool is_name(const char *text, size_t size)
{
    return size > 0 && size <= AXIS_NAME_MAX && swi_lex_name(text) == size &&
           strcmp(text, "_") != 0;
}

static bool is_known(const swi_rules *r, const char *name)
{
    for (size_t i = 0; i < r->let_count; i++)
        if (strcmp(r->lets[i].name, name) == 0)
            return true;
    return swi_rules_has_axis(r, name);
}

/* A name of a value or of an axis: expressions can use each, so each is there once. */
static sw_status read_name(const swi_rules *r, swi_yaml_node key, const char **out, sw_error *err)
{
    size_t size;
    const char *text = swi_yaml_text(r->doc, key, &size);
    if (!is_name(text, size))
        return swi_rules_bad(r, key, "LAY-1",
                             "is no name: letters, digits and _, and no digit first", err);
    if (is_known(r, text))
        return swi_rules_bad(r, key, "LAY-1", "is the name of another axis or value of this layout",
                             err);
    *out = text;
    return SW_OK;
}

sw_status swi_rules_read_expr(const swi_rules *r, swi_yaml_node node, const char *what,
                              swi_rules_expr *out, sw_error *err)
{
    size_t size;
    sw_status st = swi_yaml_expect(r->doc, node, SWI_YAML_SCALAR, what, err);
    if (st != SW_OK)
        return st;
    const char *text = swi_yaml_text(r->doc, node, &size);
    st = swi_expr_compile(text, size, &out->expr, err);
    if (st != SW_OK)
        return swi_yaml_fail_inside(r->doc, node, st, err);
    out->node = node;
    return SW_OK;
}

static sw_status read_named(const swi_rules *r, swi_yaml_node mapping, size_t i, const char *what,
                            swi_rules_named *out, sw_error *err)
{
    swi_yaml_node key, value;
    swi_yaml_pair(r->doc, mapping, i, &key, &value);
    sw_status st = read_name(r, key, &out->name, err);
    return st == SW_OK ? swi_rules_read_expr(r, value, what, &out->value, err) : st;
}

/* ---- names and meshes ----------------------------------------------------------------------- */

static sw_status read_lets(swi_rules *r, swi_yaml_node node, sw_error *err)
{
    if (!swi_yaml_is_node(node))
        return SW_OK;
    sw_status st = swi_yaml_expect(r->doc, node, SWI_YAML_MAPPING, "let", err);
    size_t count = st == SW_OK ? swi_yaml_count(r->doc, node) : 0;
    if (st == SW_OK)
        st = swi_arena_alloc(&r->arena, count * sizeof *r->lets, (void **)&r->lets, err);
    for (size_t i = 0; st == SW_OK && i < count; i++) {
        st = read_named(r, node, i, "a value of let", &r->lets[i], err);
        r->let_count += st == SW_OK;
    }
    return st;
}

static sw_status read_mesh(swi_rules *r, const char *name, swi_yaml_node node, sw_error *err)
{
    swi_rules_mesh *m = &r->meshes[r->mesh_count];
    sw_status st = swi_yaml_expect(r->doc, node, SWI_YAML_MAPPING, "mesh", err);
    if (st != SW_OK)
        return st;
    *m = (swi_rules_mesh){.name = name, .node = node};
    r->mesh_count++;
    size_t count = swi_yaml_count(r->doc, node);
    if (count == 0 || count > SWI_MESH_AXES_MAX)
        return swi_yaml_fail(r->doc, node, err, SW_ERR_FORMAT, "LAY-1",
                             "a mesh has 1 to %d axes, not %zu: mesh: {dp: 2, tp: 4}",
                             SWI_MESH_AXES_MAX, count);
    for (size_t i = 0; st == SW_OK && i < count; i++) {
        st = read_named(r, node, i, "the size of an axis", &m->axis[i], err);
        m->axes += st == SW_OK;
    }
    return st;
}

static sw_status read_meshes(swi_rules *r, swi_yaml_node root, sw_error *err)
{
    swi_yaml_node first, others = swi_yaml_find(r->doc, root, "meshes"), key, value;
    bool more = swi_yaml_is_node(others);
    sw_status st = swi_yaml_require(r->doc, root, "a layout", "mesh", &first, err);
    if (st == SW_OK && more)
        st = swi_yaml_expect(r->doc, others, SWI_YAML_MAPPING, "meshes", err);
    size_t count = st == SW_OK && more ? swi_yaml_count(r->doc, others) : 0;
    if (st == SW_OK)
        st = swi_arena_alloc(&r->arena, (count + 1) * sizeof *r->meshes, (void **)&r->meshes, err);
    if (st == SW_OK)
        st = read_mesh(r, NULL, first, err);
    for (size_t i = 0; st == SW_OK && i < count; i++) {
        swi_yaml_pair(r->doc, others, i, &key, &value);
        st = read_mesh(r, swi_yaml_text(r->doc, key, NULL), value, err);
    }
    return st;
}

bool swi_rules_has_axis(const swi_rules *r, const char *axis)
{
    for (size_t i = 0; i < r->mesh_count; i++)
        for (uint32_t a = 0; a < r->meshes[i].axes; a++)
            if (strcmp(r->meshes[i].axis[a].name, axis) == 0)
                return true;
    return false;
}

static bool uses(const swi_rules_expr *e, const char *name)
{
    for (size_t i = 0; i < swi_expr_use_count(e->expr); i++)
        if (strcmp(swi_expr_use_at(e->expr, i).name, name) == 0)
            return true;
    return false;
}

static bool any_uses(const swi_rules_expr *exprs, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (uses(&exprs[i], name))
            return true;
    return false;
}

bool swi_rules_uses(const swi_rules *r, const char *name)
{
    for (size_t i = 0; i < r->let_count; i++)
        if (uses(&r->lets[i].value, name))
            return true;
    for (size_t i = 0; i < r->mesh_count; i++)
        for (uint32_t a = 0; a < r->meshes[i].axes; a++)
            if (uses(&r->meshes[i].axis[a].value, name))
                return true;
    for (size_t i = 0; i < r->count; i++) {
        const swi_rule *rule = &r->rules[i];
        if (any_uses(rule->parts, rule->part_count, name) ||
            any_uses(rule->units, rule->unit_count, name))
            return true;
    }
    return false;
}

/* ---- rules ---------------------------------------------------------------------------------- */

/* The rule before number i that has a pattern which matches all that this one does, or NULL. */
static sw_status find_cover(swi_rules *r, size_t i, const swi_pattern *pattern,
                            const swi_rule **out, sw_error *err)
{
    sw_status st = SW_OK;
    *out = NULL;
    for (size_t k = 0; k < i; k++) {
        const swi_rule *by = &r->rules[k];
        for (size_t o = 0; o < by->pattern_count; o++) {
            bool covered = false;
            if (r->compared++ < COMPARED_MAX)
                st = swi_pattern_covers(by->patterns[o], pattern, &covered, err);
            if (covered)
                *out = by;
            if (st != SW_OK || covered)
                return st;
        }
    }
    return st;
}

/* LAY-6: for each of its patterns there is one before that matches all that it matches. */
static sw_status check_reached(swi_rules *r, size_t i, sw_error *err)
{
    const swi_rule *rule = &r->rules[i], *by = NULL;
    for (size_t p = 0; p < rule->pattern_count; p++) {
        sw_status st = find_cover(r, i, rule->patterns[p], &by, err);
        if (st != SW_OK || by == NULL)
            return st;
    }
    swi_quoted q;
    return swi_yaml_fail(r->doc, rule->node, err, SW_ERR_FORMAT, "LAY-6",
                         "no tensor can reach this rule: \"%s\" in line %zu matches all that it "
                         "matches; put this one before it",
                         swi_quote_str(&q, swi_pattern_text(by->patterns[0])),
                         swi_yaml_line(r->doc, by->node));
}

static sw_status read_rules(swi_rules *r, swi_yaml_node root, sw_error *err)
{
    swi_yaml_node node;
    sw_status st = swi_yaml_require(r->doc, root, "a layout", "rules", &node, err);
    if (st == SW_OK)
        st = swi_yaml_expect(r->doc, node, SWI_YAML_SEQUENCE, "rules", err);
    if (st != SW_OK)
        return st;
    size_t count = swi_yaml_count(r->doc, node);
    if (count == 0 || count > SWI_RULES_MAX)
        return swi_yaml_fail(r->doc, node, err, SW_ERR_FORMAT, "LAY-6",
                             "a layout has 1 to %u rules, not %zu", SWI_RULES_MAX, count);
    st = swi_arena_alloc(&r->arena, count * sizeof *r->rules, (void **)&r->rules, err);
    for (size_t i = 0; st == SW_OK && i < count; i++) {
        r->rules[i].node = swi_yaml_item(r->doc, node, i);
        r->count++;
        st = swi_rule_read(r, &r->rules[i], err);
        if (st == SW_OK)
            st = check_reached(r, i, err);
    }
    return st;
}

/* ---- documents ------------------------------------------------------------------------------ */

static sw_status read_version(const swi_rules *r, swi_yaml_node root, bool alone, sw_error *err)
{
    static const char *const keys[] = {"layout", "when",  "let",   "mesh",
                                       "meshes", "rules", "units", NULL};
    swi_yaml_node node = {0};
    const char *text = NULL;
    sw_status st = swi_yaml_known_keys(r->doc, root, "a layout", keys, err);
    if (st == SW_OK && alone)
        st = swi_yaml_require(r->doc, root, "a layout in a file of its own", "layout", &node, err);
    if (st == SW_OK)
        st = swi_yaml_get_text(r->doc, root, "layout", &text, &node, err);
    if (st == SW_OK && text != NULL &&
        (strcmp(text, VERSION) != 0 || swi_yaml_is_quoted(r->doc, node)))
        return swi_yaml_fail(r->doc, node, err, SW_ERR_UNSUPPORTED, NULL,
                             "this is version 1 of layouts: layout: 1");
    return st;
}

/* LAY-9. */
static sw_status read_units(swi_rules *r, swi_yaml_node root, bool alone, sw_error *err)
{
    swi_yaml_node node = swi_yaml_find(r->doc, root, "units");
    if (!swi_yaml_is_node(node))
        return SW_OK;
    if (!alone)
        return swi_yaml_fail(r->doc, node, err, SW_ERR_FORMAT, "LAY-9",
                             "units are for a layout in a file of its own: which modules are "
                             "wrapped is a run's choice");
    return swi_rules_read_patterns(r, root, "units", &r->units, &r->unit_count, err);
}

/* Whether it says something of tensors; one with units alone does not. */
static bool has_rules(const swi_rules *r, swi_yaml_node root)
{
    return r->unit_count == 0 || swi_yaml_is_node(swi_yaml_find(r->doc, root, "mesh")) ||
           swi_yaml_is_node(swi_yaml_find(r->doc, root, "meshes")) ||
           swi_yaml_is_node(swi_yaml_find(r->doc, root, "rules"));
}

/* Takes the document, on failure too. */
static sw_status read_doc(const swi_yaml *doc, swi_yaml *own, swi_yaml_node root, swi_rules **out,
                          sw_error *err)
{
    swi_rules *r = NULL;
    sw_status st = swi_alloc_array(1, sizeof *r, (void **)&r, err);
    if (st != SW_OK) {
        swi_yaml_free(own);
        return st;
    }
    r->own = own;
    r->doc = doc;
    st = read_version(r, root, own != NULL, err);
    if (st == SW_OK)
        st = read_units(r, root, own != NULL, err);
    if (st == SW_OK)
        st = read_lets(r, swi_yaml_find(doc, root, "let"), err);
    const bool rules = st == SW_OK && has_rules(r, root);
    if (rules)
        st = read_meshes(r, root, err);
    if (st == SW_OK && rules)
        st = read_rules(r, root, err);
    if (st == SW_OK)
        *out = r;
    else
        swi_rules_free(r);
    return st;
}

sw_status swi_rules_parse(const swi_yaml *doc, swi_yaml_node node, swi_rules **out, sw_error *err)
{
    return read_doc(doc, NULL, node, out, err);
}

sw_status swi_rules_parse_text(const void *data, size_t size, const char *file,
                               const sw_limits *limits, swi_rules **out, sw_error *err)
{
    swi_yaml *doc = NULL;
    sw_status st = swi_yaml_parse(data, size, file, limits, &doc, err);
    return st == SW_OK ? read_doc(doc, doc, swi_yaml_root(doc), out, err) : st;
}

sw_status swi_rules_read(const char *path, const sw_limits *limits, swi_rules **out, sw_error *err)
{
    uint8_t *data = NULL;
    size_t size = 0;
    sw_status st = swi_read_file(path, SWI_YAML_MAX_BYTES, &data, &size, err);
    if (st == SW_OK)
        st = swi_rules_parse_text(data, size, path, limits, out, err);
    free(data);
    return st;
}

/* ---- telling -------------------------------------------------------------------------------- */

size_t swi_rules_count(const swi_rules *r)
{
    return r->count;
}

swi_pattern *const *swi_rules_units(const swi_rules *r, size_t *count)
{
    *count = r->unit_count;
    return r->units;
}

const char *swi_rules_pattern(const swi_rules *r, size_t rule)
{
    return swi_pattern_text(r->rules[rule].patterns[0]);
}

sw_status swi_rules_show(const swi_rules *r, size_t rule, swi_buf *out, sw_error *err)
{
    const swi_rule *s = &r->rules[rule];
    sw_status st = swi_buf_append_str(out, s->flat ? "flat: " : "dims: [", err);
    for (uint32_t i = 0; st == SW_OK && i < s->entry_count; i++) {
        const swi_rules_entry *e = &s->entries[i];
        st = swi_buf_append_str(out, i > 0 ? ", " : "", err);
        if (st == SW_OK && e->count == 0)
            st = swi_buf_append_str(out, "_", err);
        for (uint32_t k = 0; st == SW_OK && k < e->count; k++)
            st = swi_buf_printf(out, err, "%s%s", k > 0 ? ">" : "",
                                r->meshes[s->mesh].axis[e->axis[k]].name);
    }
    return st == SW_OK && !s->flat ? swi_buf_append_str(out, "]", err) : st;
}

sw_status swi_rules_say_unused(const swi_rules *r, const bool *used, sw_report *report,
                               sw_error *err)
{
    sw_status st = SW_OK;
    swi_quoted q;
    for (size_t i = 0; st == SW_OK && i < r->count; i++) {
        swi_finding_in in = {
            .severity = SW_WARNING, .code = "unused-rule", .file = swi_yaml_file(r->doc)};
        if (!used[i])
            st = swi_report_add(report, &in, err, "no tensor met the rule \"%s\" in line %zu",
                                swi_quote_str(&q, swi_rules_pattern(r, i)),
                                swi_yaml_line(r->doc, r->rules[i].node));
    }
    return st;
}
