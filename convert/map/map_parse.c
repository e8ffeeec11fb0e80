#include <stdlib.h>
#include <string.h>

#include "base/nearest.h"
#include "base/text.h"
#include "map/map_parse.h"

/* ---- what the map owns ------------------------------------------------------------------------
 */

typedef struct swi_map_owned {
    void *thing;
    void (*end)(void *);
} owned;

static void end_expr(void *p)
{
    swi_expr_free(p);
}

static void end_pattern(void *p)
{
    swi_pattern_free(p);
}

static void end_einops(void *p)
{
    swi_einops_free(p);
}

static void end_rules(void *p)
{
    swi_rules_free(p);
}

void swi_map_free(swi_map *map)
{
    if (map == NULL)
        return;
    for (size_t i = 0; i < map->owned_count; i++)
        map->owned[i].end(map->owned[i].thing);
    free(map->owned);
    free(map->visible.names);
    free(map->rules);
    free(map->steps);
    swi_arena_free(&map->arena);
    swi_yaml_free(map->doc);
    free(map);
}

/* Room first, so that what was made is never lost. */
static sw_status reserve_owned(swi_map *m, sw_error *err)
{
    return swi_grow_array((void **)&m->owned, &m->owned_capacity, m->owned_count + 1,
                          sizeof *m->owned, err);
}

static void own(swi_map *m, void *thing, void (*end)(void *))
{
    m->owned[m->owned_count++] = (owned){thing, end};
}

/* ---- scalars that mean something --------------------------------------------------------------
 */

static sw_status scalar(const swi_map *m, swi_yaml_node node, const char *what, const char **text,
                        size_t *size, sw_error *err)
{
    sw_status st = swi_yaml_expect(m->doc, node, SWI_YAML_SCALAR, what, err);
    if (st == SW_OK)
        *text = swi_yaml_text(m->doc, node, size);
    return st;
}

/* ---- names that are seen -----------------------------------------------------------------------
 */

static bool sees(const swi_map *m, const char *name)
{
    for (size_t i = m->visible.first; i < m->visible.count; i++)
        if (strcmp(m->visible.names[i], name) == 0)
            return true;
    const swi_map_side *axes = m->visible.axes;
    for (size_t i = 0; axes != NULL && i < axes->layout_count; i++)
        if (swi_rules_has_axis(axes->layouts[i].rules, name))
            return true;
    return strcmp(name, "config") == 0;
}

sw_status swi_map_show_name(swi_map *m, swi_yaml_node at, sw_error *err)
{
    const char *name = swi_yaml_text(m->doc, at, NULL);
    swi_quoted q;
    if (strcmp(name, "config") == 0)
        return swi_yaml_fail(m->doc, at, err, SW_ERR_FORMAT, "MAP-11",
                             "\"config\" is the configuration itself; choose another name");
    if (sees(m, name))
        return swi_yaml_fail(m->doc, at, err, SW_ERR_FORMAT, "MAP-11",
                             "\"%s\" hides a name that is defined around it; choose another",
                             swi_quote_str(&q, name));
    if (m->visible.count == SWI_MAP_NAMES_MAX)
        return swi_yaml_fail(m->doc, at, err, SW_ERR_LIMIT, "MAP-11", "more than %u names",
                             SWI_MAP_NAMES_MAX);
    sw_status st = swi_grow_array((void **)&m->visible.names, &m->visible.capacity,
                                  m->visible.count + 1, sizeof *m->visible.names, err);
    if (st == SW_OK)
        m->visible.names[m->visible.count++] = name;
    return st;
}

static sw_status undefined(const swi_map *m, swi_yaml_node node, const char *name, size_t offset,
                           const char *by, sw_error *err)
{
    swi_nearest near = swi_nearest_begin(name, strlen(name));
    swi_quoted q, r;
    for (size_t i = m->visible.first; i < m->visible.count; i++)
        swi_nearest_offer(&near, m->visible.names[i]);
    sw_status st =
        swi_fail_at(err, SW_ERR_FORMAT, "MAP-11", offset, "%s defines \"%s\"%s%s%s", by,
                    swi_quote_str(&q, name), near.found ? "; did you mean \"" : "",
                    near.found ? swi_quote_str(&r, near.found) : "", near.found ? "\"?" : "");
    return swi_yaml_fail_inside(m->doc, node, st, err);
}

static sw_status check_uses(const swi_map *m, swi_yaml_node node, const swi_expr *e, sw_error *err)
{
    for (size_t i = 0; i < swi_expr_use_count(e); i++) {
        const swi_expr_use use = swi_expr_use_at(e, i);
        if (!sees(m, use.name))
            return undefined(m, node, use.name, use.offset_bytes, "nothing", err);
    }
    return SW_OK;
}

sw_status swi_map_read_expr(swi_map *m, swi_yaml_node node, const char *what, swi_expr **out,
                            sw_error *err)
{
    const char *text;
    size_t size;
    swi_expr *e;
    sw_status st = scalar(m, node, what, &text, &size, err);
    if (st == SW_OK)
        st = reserve_owned(m, err);
    if (st != SW_OK)
        return st;
    st = swi_expr_compile(text, size, &e, err);
    if (st != SW_OK)
        return swi_yaml_fail_inside(m->doc, node, st, err);
    own(m, e, end_expr);
    *out = e;
    return check_uses(m, node, e, err);
}

sw_status swi_map_read_pattern(swi_map *m, swi_yaml_node node, const char *what, swi_pattern **out,
                               sw_error *err)
{
    const char *text;
    size_t size;
    swi_pattern *p;
    sw_status st = scalar(m, node, what, &text, &size, err);
    if (st == SW_OK)
        st = reserve_owned(m, err);
    if (st != SW_OK)
        return st;
    st = swi_pattern_parse(text, size, &p, err);
    if (st != SW_OK)
        return swi_yaml_fail_inside(m->doc, node, st, err);
    own(m, p, end_pattern);
    *out = p;
    return SW_OK;
}

sw_status swi_map_read_name(swi_map *m, swi_yaml_node node, const char *what, swi_pattern **out,
                            sw_error *err)
{
    sw_status st = swi_map_read_pattern(m, node, what, out, err);
    if (st != SW_OK)
        return st;
    if (!swi_pattern_is_invertible(*out))
        return swi_yaml_fail(m->doc, node, err, SW_ERR_FORMAT, "MAP-3",
                             "a name of a rule has {n} and {a,b} alone: *, ** and (a|b) do not say "
                             "what to write");
    for (size_t i = 0; i < swi_pattern_var_count(*out); i++) {
        size_t offset, k = m->visible.loops;
        const char *var = swi_pattern_var(*out, i, &offset);
        while (k < m->visible.count && strcmp(m->visible.names[k], var) != 0)
            k++;
        if (k == m->visible.count)
            return undefined(m, node, var, offset, "no repeat around the rule", err);
    }
    return SW_OK;
}

sw_status swi_map_read_einops(swi_map *m, swi_yaml_node node, swi_einops **out, sw_error *err)
{
    const char *text;
    size_t size;
    swi_einops *e;
    sw_status st = scalar(m, node, "a rearrangement", &text, &size, err);
    if (st == SW_OK)
        st = reserve_owned(m, err);
    if (st != SW_OK)
        return st;
    st = swi_einops_parse(text, size, &e, err);
    if (st != SW_OK)
        return swi_yaml_fail_inside(m->doc, node, st, err);
    own(m, e, end_einops);
    *out = e;
    return SW_OK;
}

bool swi_map_is_blank(const swi_map *m, swi_yaml_node node)
{
    return swi_yaml_kind_of(m->doc, node) == SWI_YAML_SCALAR && !swi_yaml_is_quoted(m->doc, node) &&
           strcmp(swi_yaml_text(m->doc, node, NULL), "_") == 0;
}

sw_status swi_map_room(swi_map *m, size_t count, size_t size, void *out, sw_error *err)
{
    void *p;
    sw_status st = swi_arena_alloc(&m->arena, (count + 1) * size, &p, err);
    if (st == SW_OK)
        memcpy(out, &p, sizeof p);
    return st;
}

/* ---- let, write, ignore -----------------------------------------------------------------------
 */

sw_status swi_map_read_lets(swi_map *m, swi_yaml_node at, swi_map_let **out, size_t *count,
                            sw_error *err)
{
    *count = 0;
    if (!swi_yaml_is_node(at))
        return SW_OK;
    sw_status st = swi_yaml_expect(m->doc, at, SWI_YAML_MAPPING, "let", err);
    if (st == SW_OK)
        st = swi_map_room(m, swi_yaml_count(m->doc, at), sizeof **out, out, err);
    for (size_t i = 0; st == SW_OK && i < swi_yaml_count(m->doc, at); i++) {
        swi_yaml_node key, value;
        swi_yaml_pair(m->doc, at, i, &key, &value);
        swi_map_let *let = &(*out)[i];
        let->name = swi_yaml_text(m->doc, key, NULL);
        let->at = key;
        st = swi_map_read_expr(m, value, "the value of a name of let", &let->expr, err);
        if (st == SW_OK)
            st = swi_map_show_name(m, key, err);
        *count = i + 1;
    }
    return st;
}

static sw_status read_keys(swi_map *m, swi_yaml_node at, swi_map_side *side, sw_error *err)
{
    if (!swi_yaml_is_node(at))
        return SW_OK;
    sw_status st = swi_yaml_expect(m->doc, at, SWI_YAML_MAPPING, "write", err);
    if (st == SW_OK)
        st = swi_map_room(m, swi_yaml_count(m->doc, at), sizeof *side->keys, &side->keys, err);
    for (size_t i = 0; st == SW_OK && i < swi_yaml_count(m->doc, at); i++) {
        swi_yaml_node key, value;
        swi_yaml_pair(m->doc, at, i, &key, &value);
        side->keys[i].key = swi_yaml_text(m->doc, key, NULL);
        side->keys[i].at = key;
        st = swi_map_read_expr(m, value, "the value of a key of write", &side->keys[i].expr, err);
        side->key_count = i + 1;
    }
    return st;
}

static sw_status read_ignore(swi_map *m, swi_yaml_node at, swi_map_side *side, sw_error *err)
{
    swi_yaml_list list;
    sw_status st = swi_yaml_get_list(m->doc, at, "ignore", &list, err);
    if (st == SW_OK)
        st = swi_map_room(m, list.count, sizeof *side->ignore, &side->ignore, err);
    for (size_t i = 0; st == SW_OK && i < list.count; i++) {
        st = swi_map_read_pattern(m, list.items[i], "a name to ignore", &side->ignore[i], err);
        side->ignore_count = i + 1;
    }
    return st;
}

static sw_status read_layout(swi_map *m, swi_yaml_node at, swi_map_layout *out, sw_error *err)
{
    swi_yaml_node when = swi_yaml_find(m->doc, at, "when");
    sw_status st = reserve_owned(m, err);
    if (st == SW_OK)
        st = swi_rules_parse(m->doc, at, &out->rules, err);
    if (st != SW_OK)
        return st;
    own(m, out->rules, end_rules);
    return swi_yaml_is_node(when) ? swi_map_read_expr(m, when, "when", &out->when, err) : SW_OK;
}

/* `layout: ONE` or `layouts: [...]`: alternatives. */
static sw_status read_layouts(swi_map *m, swi_yaml_node at, swi_map_side *side, sw_error *err)
{
    swi_yaml_node one = swi_yaml_find(m->doc, at, "layout");
    swi_yaml_node all = swi_yaml_find(m->doc, at, "layouts");
    if (swi_yaml_is_node(one) && swi_yaml_is_node(all))
        return swi_yaml_fail(m->doc, all, err, SW_ERR_FORMAT, "MAP-14",
                             "a side has layout or layouts, not both");
    sw_status st = SW_OK;
    size_t count = swi_yaml_is_node(one) ? 1 : 0;
    if (swi_yaml_is_node(all)) {
        st = swi_yaml_expect(m->doc, all, SWI_YAML_SEQUENCE, "layouts", err);
        count = st == SW_OK ? swi_yaml_count(m->doc, all) : 0;
    }
    if (st == SW_OK)
        st = swi_map_room(m, count, sizeof *side->layouts, &side->layouts, err);
    for (size_t i = 0; st == SW_OK && i < count; i++) {
        swi_yaml_node node = swi_yaml_is_node(one) ? one : swi_yaml_item(m->doc, all, i);
        st = read_layout(m, node, &side->layouts[i], err);
        side->layout_count = i + 1;
    }
    return st;
}

/* They come before the map's own, so they see each other alone. */
static sw_status read_own_lets(swi_map *m, swi_yaml_node at, swi_map_side *side, sw_error *err)
{
    const size_t all = m->visible.count;
    m->visible.first = all;
    sw_status st =
        swi_map_read_lets(m, swi_yaml_find(m->doc, at, "let"), &side->lets, &side->let_count, err);
    m->visible.first = 0;
    m->visible.count = all;
    return st;
}

static sw_status read_side(swi_map *m, swi_yaml_node key, swi_yaml_node at, swi_map_side *side,
                           sw_error *err)
{
    static const char *const known[] = {"config", "when",   "let",     "write",
                                        "ignore", "layout", "layouts", NULL};
    swi_yaml_node when;
    side->name = swi_yaml_text(m->doc, key, NULL);
    side->at = key;
    sw_status st = swi_yaml_known_keys(m->doc, at, "a side", known, err);
    if (st == SW_OK)
        st = swi_yaml_get_text(m->doc, at, "config", &side->config, NULL, err);
    if (st == SW_OK)
        st = read_own_lets(m, at, side, err);
    if (st == SW_OK)
        st = read_ignore(m, at, side, err);
    when = swi_yaml_find(m->doc, at, "when");
    if (st == SW_OK && swi_yaml_is_node(when))
        st = swi_map_read_expr(m, when, "when", &side->when, err);
    if (st == SW_OK)
        st = read_layouts(m, at, side, err);
    if (st != SW_OK)
        return st;
    m->visible.axes = side;
    st = read_keys(m, swi_yaml_find(m->doc, at, "write"), side, err);
    m->visible.axes = NULL;
    return st;
}

static sw_status read_sides(swi_map *m, swi_yaml_node root, sw_error *err)
{
    swi_yaml_node at, key, value;
    sw_status st = swi_yaml_require(m->doc, root, "a map", "sides", &at, err);
    if (st == SW_OK)
        st = swi_yaml_expect(m->doc, at, SWI_YAML_MAPPING, "sides", err);
    if (st != SW_OK)
        return st;
    size_t count = swi_yaml_count(m->doc, at);
    if (count == 0 || count > SWI_MAP_SIDES_MAX)
        return swi_yaml_fail(m->doc, at, err, SW_ERR_FORMAT, "MAP-2", "a map has 1 to %u sides",
                             SWI_MAP_SIDES_MAX);
    st = swi_map_room(m, count, sizeof *m->sides, &m->sides, err);
    for (size_t i = 0; st == SW_OK && i < count; i++) {
        swi_yaml_pair(m->doc, at, i, &key, &value);
        if (swi_map_rule_key(swi_yaml_text(m->doc, key, NULL)))
            return swi_yaml_fail(m->doc, key, err, SW_ERR_FORMAT, "MAP-1",
                                 "a side cannot be called \"%s\": rules have a key of that name",
                                 swi_yaml_text(m->doc, key, NULL));
        m->side_count = (uint32_t)i + 1;
        st = read_side(m, key, value, &m->sides[i], err);
    }
    return st;
}

/* ---- the head ---------------------------------------------------------------------------------
 */

/* "{name}_scale_inv": what follows the name of the atom. */
static sw_status read_suffix(swi_map *m, swi_yaml_node at, sw_error *err)
{
    static const char begin[] = "{name}";
    swi_yaml_node node;
    sw_status st = swi_yaml_require(m->doc, at, "scales", "name", &node, err);
    if (st == SW_OK)
        st = swi_yaml_expect(m->doc, node, SWI_YAML_SCALAR, "name", err);
    if (st != SW_OK)
        return st;
    const char *text = swi_yaml_text(m->doc, node, NULL);
    if (strncmp(text, begin, sizeof begin - 1) != 0 || text[sizeof begin - 1] == '\0')
        return swi_yaml_fail(m->doc, node, err, SW_ERR_FORMAT, "MAP-10",
                             "the name of a scale is \"{name}\" and something behind it");
    m->scales.suffix = text + sizeof begin - 1;
    return SW_OK;
}

static sw_status read_scales(swi_map *m, swi_yaml_node at, sw_error *err)
{
    static const char *const known[] = {"name", "block", "when", NULL};
    swi_map_scales *s = &m->scales;
    swi_yaml_node block, when;
    if (!swi_yaml_is_node(at))
        return SW_OK;
    s->at = at;
    sw_status st = swi_yaml_known_keys(m->doc, at, "scales", known, err);
    if (st == SW_OK)
        st = swi_yaml_require(m->doc, at, "scales", "block", &block, err);
    if (st == SW_OK)
        st = swi_map_read_expr(m, block, "block", &s->block, err);
    if (st == SW_OK)
        st = read_suffix(m, at, err);
    when = swi_yaml_find(m->doc, at, "when");
    if (st == SW_OK && swi_yaml_is_node(when))
        st = swi_map_read_expr(m, when, "when", &s->when, err);
    return st;
}

static sw_status read_models(swi_map *m, swi_yaml_node root, sw_error *err)
{
    swi_yaml_list list;
    sw_status st = swi_yaml_get_list(m->doc, root, "models", &list, err);
    if (st == SW_OK)
        st = swi_map_room(m, list.count, sizeof *m->models, &m->models, err);
    for (size_t i = 0; st == SW_OK && i < list.count; i++)
        m->models[m->model_count++] = swi_yaml_text(m->doc, list.items[i], NULL);
    return st;
}

static sw_status read_head(swi_map *m, swi_yaml_node root, sw_error *err)
{
    static const char *const known[] = {"map",   "name",    "models", "let",
                                        "sides", "tensors", "scales", NULL};
    uint64_t version = 0;
    sw_status st = swi_yaml_known_keys(m->doc, root, "a map", known, err);
    if (st == SW_OK)
        st = swi_yaml_get_uint(m->doc, root, "map", &version, err);
    if (st == SW_OK && version != 1)
        st = swi_yaml_fail(m->doc, root, err, version > 1 ? SW_ERR_UNSUPPORTED : SW_ERR_FORMAT,
                           "MAP-1",
                           version > 1 ? "a map of version %llu; known here: 1"
                                       : "no map: it does not begin with \"map: 1\"%.0llu",
                           (unsigned long long)version);
    if (st == SW_OK)
        st = swi_yaml_get_text(m->doc, root, "name", &m->name, NULL, err);
    if (st == SW_OK && m->name == NULL)
        st = swi_yaml_fail(m->doc, root, err, SW_ERR_FORMAT, "MAP-1", "a map lacks the key name");
    if (st == SW_OK)
        st = read_models(m, root, err);
    if (st == SW_OK)
        st = swi_map_read_lets(m, swi_yaml_find(m->doc, root, "let"), &m->lets, &m->let_count, err);
    if (st == SW_OK)
        st = read_sides(m, root, err);
    if (st == SW_OK)
        st = read_scales(m, swi_yaml_find(m->doc, root, "scales"), err);
    m->visible.loops = m->visible.count;
    return st;
}

sw_status swi_map_parse(const void *data, size_t size, const char *file, const sw_limits *limits,
                        swi_map **out, sw_error *err)
{
    swi_map *m = NULL;
    swi_yaml_node root, tensors;
    sw_status st = swi_alloc_array(1, sizeof *m, (void **)&m, err);
    if (st != SW_OK)
        return st;
    st = swi_yaml_parse(data, size, file, limits, &m->doc, err);
    if (st != SW_OK)
        goto done;
    root = swi_yaml_root(m->doc);
    st = swi_arena_bytes(&m->arena, size, &m->text, err);
    if (st != SW_OK)
        goto done;
    memcpy(m->text, data, size);
    m->text_size = size;
    st = read_head(m, root, err);
    if (st == SW_OK)
        st = swi_yaml_require(m->doc, root, "a map", "tensors", &tensors, err);
    if (st == SW_OK)
        st = swi_map_read_tensors(m, tensors, err);
    if (st == SW_OK)
        st = swi_map_lint(m, err);
    if (st != SW_OK)
        goto done;
    *out = m;
    m = NULL;
done:
    swi_map_free(m);
    return st;
}
