/* One rule of a layout, as it is written: which tensors, which axes split what, and how. */
#include <stdio.h>
#include <string.h>

#include "base/nearest.h"
#include "base/text.h"
#include "notation/rules_parts.h"

sw_status swi_rules_read_patterns(swi_rules *r, swi_yaml_node mapping, const char *key,
                                  swi_pattern ***out, size_t *count, sw_error *err)
{
    swi_yaml_list list = {0};
    sw_status st = swi_yaml_get_list(r->doc, mapping, key, &list, err);
    if (st == SW_OK)
        st = swi_arena_alloc(&r->arena, list.count * sizeof **out, (void **)out, err);
    for (size_t i = 0; st == SW_OK && i < list.count; i++) {
        size_t size;
        const char *text = swi_yaml_text(r->doc, list.items[i], &size);
        st = swi_pattern_parse(text, size, &(*out)[i], err);
        if (st != SW_OK)
            return swi_yaml_fail_inside(r->doc, list.items[i], st, err);
        *count += 1;
    }
    return st;
}

static sw_status read_patterns(swi_rules *r, swi_rule *rule, sw_error *err)
{
    swi_yaml_node node;
    sw_status st = swi_yaml_require(r->doc, rule->node, "a rule", "tensor", &node, err);
    return st == SW_OK ? swi_rules_read_patterns(r, rule->node, "tensor", &rule->patterns,
                                                 &rule->pattern_count, err)
                       : st;
}

static sw_status read_rule_mesh(const swi_rules *r, swi_rule *rule, sw_error *err)
{
    swi_yaml_node node;
    const char *name = NULL;
    sw_status st = swi_yaml_get_text(r->doc, rule->node, "mesh", &name, &node, err);
    if (st != SW_OK || name == NULL)
        return st;
    swi_nearest nearest = swi_nearest_begin(name, strlen(name));
    for (size_t i = 1; i < r->mesh_count; i++) {
        swi_nearest_offer(&nearest, r->meshes[i].name);
        rule->mesh = i;
        if (strcmp(r->meshes[i].name, name) == 0)
            return SW_OK;
    }
    swi_quoted q, near;
    return swi_yaml_fail(r->doc, node, err, SW_ERR_FORMAT, "LAY-1",
                         "no mesh is called \"%s\"%s%s%s; name one of meshes, or leave it out for "
                         "the first one",
                         swi_quote_str(&q, name), nearest.found != NULL ? "; did you mean \"" : "",
                         nearest.found != NULL ? swi_quote_str(&near, nearest.found) : "",
                         nearest.found != NULL ? "\"?" : "");
}

static sw_status no_axis(const swi_rules *r, swi_yaml_node node, const swi_rules_mesh *m,
                         const char *text, size_t size, sw_error *err)
{
    char known[256];
    size_t used = 0;
    swi_quoted q, name;
    known[0] = '\0';
    for (uint32_t a = 0; a < m->axes && used < sizeof known; a++)
        used += (size_t)snprintf(known + used, sizeof known - used, "%s%s", a > 0 ? ", " : "",
                                 m->axis[a].name);
    return swi_yaml_fail(r->doc, node, err, SW_ERR_FORMAT, "LAY-1",
                         "\"%s\" is no axis of mesh%s%s; there %s %s, and _ for not split",
                         swi_quote(&q, text, size), m->name != NULL ? " " : "",
                         m->name != NULL ? swi_quote_str(&name, m->name) : "",
                         m->axes == 1 ? "is" : "are", known);
}

static bool is_used(const swi_rule *rule, uint32_t entries, uint32_t axis)
{
    for (uint32_t i = 0; i < entries; i++)
        for (uint32_t k = 0; k < rule->entries[i].count; k++)
            if (rule->entries[i].axis[k] == axis)
                return true;
    return false;
}

static sw_status read_axis(const swi_rules *r, swi_rule *rule, swi_yaml_node node, const char *text,
                           size_t size, sw_error *err)
{
    const swi_rules_mesh *m = &r->meshes[rule->mesh];
    swi_rules_entry *e = &rule->entries[rule->entry_count];
    swi_quoted q;
    uint32_t axis = 0;
    while (axis < m->axes &&
           (strlen(m->axis[axis].name) != size || memcmp(m->axis[axis].name, text, size) != 0))
        axis++;
    if (axis == m->axes)
        return no_axis(r, node, m, text, size, err);
    if (is_used(rule, rule->entry_count + 1, axis))
        return swi_yaml_fail(r->doc, node, err, SW_ERR_FORMAT, "LAY-1",
                             "axis %s splits this tensor twice; an axis stands once in a rule",
                             swi_quote(&q, text, size));
    e->axis[e->count++] = axis;
    return SW_OK;
}

/* LAY-1: `_`, `tp`, `tp>dp`. */
static sw_status read_entry(const swi_rules *r, swi_rule *rule, swi_yaml_node node, sw_error *err)
{
    size_t size, used = 0;
    sw_status st = swi_yaml_expect(r->doc, node, SWI_YAML_SCALAR, "an entry of dims", err);
    const char *text = st == SW_OK ? swi_yaml_text(r->doc, node, &size) : "_";
    bool whole = strcmp(text, "_") == 0;
    while (st == SW_OK && !whole && used <= size) {
        size_t end = used + strcspn(text + used, ">"), from = used;
        used = end + 1;
        while (from < end && text[from] == ' ')
            from++;
        while (end > from && text[end - 1] == ' ')
            end--;
        st = read_axis(r, rule, node, text + from, end - from, err);
    }
    if (st == SW_OK && !whole && rule->first_split < 0)
        rule->first_split = (int32_t)rule->entry_count;
    rule->entry_count += st == SW_OK;
    return st;
}

static sw_status read_dims(swi_rules *r, swi_rule *rule, swi_yaml_node node, sw_error *err)
{
    bool one = swi_yaml_kind_of(r->doc, node) == SWI_YAML_SCALAR;
    sw_status st = one ? SW_OK : swi_yaml_expect(r->doc, node, SWI_YAML_SEQUENCE, "dims", err);
    size_t count = one ? 1 : swi_yaml_count(r->doc, node);
    if (st == SW_OK && count > SW_MAX_AXES)
        st = swi_yaml_fail(r->doc, node, err, SW_ERR_LIMIT, "LAY-1",
                           "dims has %zu entries; a tensor has at most %d dimensions", count,
                           SW_MAX_AXES);
    if (st == SW_OK)
        st =
            swi_arena_alloc(&r->arena, count * sizeof *rule->entries, (void **)&rule->entries, err);
    for (size_t i = 0; st == SW_OK && i < count; i++)
        st = read_entry(r, rule, one ? node : swi_yaml_item(r->doc, node, i), err);
    return st;
}

static sw_status read_cut(swi_rules *r, swi_rule *rule, sw_error *err)
{
    swi_yaml_node dims = swi_yaml_find(r->doc, rule->node, "dims");
    swi_yaml_node flat = swi_yaml_find(r->doc, rule->node, "flat");
    rule->first_split = -1;
    rule->flat = swi_yaml_is_node(flat);
    if (rule->flat == swi_yaml_is_node(dims))
        return swi_yaml_fail(r->doc, rule->node, err, SW_ERR_FORMAT, "LAY-5",
                             "a rule has either dims or flat: dims: [dp] splits the first "
                             "dimension, dims: [] none");
    if (!rule->flat)
        return read_dims(r, rule, dims, err);
    sw_status st = swi_yaml_expect(r->doc, flat, SWI_YAML_SCALAR, "flat", err);
    if (st == SW_OK)
        st = read_dims(r, rule, flat, err);
    return st == SW_OK && rule->first_split < 0 ? swi_rules_bad(r, flat, "LAY-5", "is no axis", err)
                                                : st;
}

static sw_status read_numbers(swi_rules *r, const swi_rule *rule, const char *key,
                              swi_rules_expr **out, size_t *count, sw_error *err)
{
    swi_yaml_list list = {0};
    sw_status st = swi_yaml_get_list(r->doc, rule->node, key, &list, err);
    if (st == SW_OK && list.count > SWI_RULE_PARTS_MAX)
        st = swi_yaml_fail(r->doc, rule->node, err, SW_ERR_LIMIT, "LAY-3",
                           "%s has %zu numbers, at most %u are read", key, list.count,
                           SWI_RULE_PARTS_MAX);
    if (st == SW_OK)
        st = swi_arena_alloc(&r->arena, list.count * sizeof **out, (void **)out, err);
    for (size_t i = 0; st == SW_OK && i < list.count; i++) {
        st = swi_rules_read_expr(r, list.items[i], key, &(*out)[i], err);
        *count += st == SW_OK;
    }
    return st;
}

static sw_status read_word(const swi_rules *r, const swi_rule *rule, const char *key,
                           const char *const words[2], bool *second, sw_error *err)
{
    swi_yaml_node node;
    const char *text = NULL;
    sw_status st = swi_yaml_get_text(r->doc, rule->node, key, &text, &node, err);
    if (st != SW_OK || text == NULL)
        return st;
    *second = strcmp(text, words[1]) == 0;
    if ((*second || strcmp(text, words[0]) == 0) && !swi_yaml_is_quoted(r->doc, node))
        return SW_OK;
    swi_quoted q;
    return swi_yaml_fail(r->doc, node, err, SW_ERR_FORMAT, "LAY-2",
                         "%s is %s or %s, without quotes, not \"%s\"", key, words[0], words[1],
                         swi_quote_str(&q, text));
}

/* `copies: true`, or a list with one of true and false for each part. */
static sw_status read_copies(swi_rules *r, swi_rule *rule, sw_error *err)
{
    swi_yaml_list list;
    sw_status st = swi_yaml_get_list(r->doc, rule->node, "copies", &list, err);
    if (st != SW_OK || list.count == 0)
        return st;
    if (list.count > 1 && list.count != rule->part_count)
        return swi_yaml_fail(r->doc, rule->node, err, SW_ERR_FORMAT, "LAY-4",
                             "copies has %zu entries for %zu parts", list.count, rule->part_count);
    for (size_t i = 0; i < list.count; i++) {
        const char *text = swi_yaml_text(r->doc, list.items[i], NULL);
        const bool yes = strcmp(text, "true") == 0;
        if ((!yes && strcmp(text, "false") != 0) || swi_yaml_is_quoted(r->doc, list.items[i]))
            return swi_yaml_fail(r->doc, list.items[i], err, SW_ERR_FORMAT, "LAY-4",
                                 "copies is true or false, without quotes");
        if (yes)
            rule->copies |= list.count == 1 ? UINT64_MAX : UINT64_C(1) << i;
    }
    if (rule->copies != 0 && rule->unit_count == 0)
        return swi_yaml_fail(r->doc, rule->node, err, SW_ERR_FORMAT, "LAY-4",
                             "copies needs units: of what may several ranks hold the same?");
    return SW_OK;
}

/* LAY-2, LAY-3, LAY-4. */
static sw_status read_how(swi_rules *r, swi_rule *rule, sw_error *err)
{
    static const char *const splits[2] = {"chunk", "even"};
    sw_status st = read_word(r, rule, "split", splits, &rule->even, err);
    if (st == SW_OK)
        st = read_numbers(r, rule, "parts", &rule->parts, &rule->part_count, err);
    if (st == SW_OK)
        st = read_numbers(r, rule, "units", &rule->units, &rule->unit_count, err);
    if (st != SW_OK)
        return st;
    size_t parts = rule->part_count, units = rule->unit_count;
    if ((parts > 0 || units > 0) && (rule->flat || rule->first_split < 0))
        return swi_yaml_fail(r->doc, rule->node, err, SW_ERR_FORMAT, "LAY-3",
                             "parts and units are of the first dimension that dims splits; this "
                             "rule has none");
    if (units > 1 && units != parts)
        return swi_yaml_fail(r->doc, rule->node, err, SW_ERR_FORMAT, "LAY-4",
                             "units has %zu numbers for %zu parts; give one for each part, or one "
                             "for all",
                             units, parts > 0 ? parts : 1);
    return read_copies(r, rule, err);
}

sw_status swi_rule_read(swi_rules *r, swi_rule *rule, sw_error *err)
{
    static const char *const keys[] = {"tensor", "dims",  "flat",   "mesh", "split",
                                       "parts",  "units", "copies", NULL};
    sw_status st = swi_yaml_known_keys(r->doc, rule->node, "a rule of a layout", keys, err);
    if (st == SW_OK)
        st = read_rule_mesh(r, rule, err);
    if (st == SW_OK)
        st = read_patterns(r, rule, err);
    if (st == SW_OK)
        st = read_cut(r, rule, err);
    return st == SW_OK ? read_how(r, rule, err) : st;
}
