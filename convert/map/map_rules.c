#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "map/map_parse.h"

static const char *const rule_keys[] = {"shape", "when",     "tie",    "fill",
                                        "dtype", "optional", "buffer", NULL};
/* Of blocks of rules. */
static const char *const block_keys[] = {"repeat", "tensors", "interleave", "let", NULL};

static bool is_among(const char *name, const char *const *keys)
{
    for (size_t i = 0; keys[i] != NULL; i++)
        if (strcmp(keys[i], name) == 0)
            return true;
    return false;
}

bool swi_map_rule_key(const char *name)
{
    return is_among(name, rule_keys) || is_among(name, block_keys);
}

static int64_t side_of(const swi_map *m, const char *name)
{
    for (uint32_t i = 0; i < m->side_count; i++)
        if (strcmp(m->sides[i].name, name) == 0)
            return i;
    return -1;
}

static sw_status optional_expr(swi_map *m, swi_yaml_node at, const char *key, swi_expr **out,
                               sw_error *err)
{
    swi_yaml_node node = swi_yaml_find(m->doc, at, key);
    return swi_yaml_is_node(node) ? swi_map_read_expr(m, node, key, out, err) : SW_OK;
}

static sw_status read_dtype(const swi_map *m, swi_yaml_node at, const char *key, sw_dtype *out,
                            sw_error *err)
{
    const char *text;
    swi_yaml_node node = {0};
    sw_status st = swi_yaml_get_text(m->doc, at, key, &text, &node, err);
    if (st != SW_OK || text == NULL)
        return st;
    *out = sw_dtype_from_name(text);
    if (*out != SW_DTYPE_NONE)
        return SW_OK;
    return swi_yaml_fail(m->doc, node, err, SW_ERR_FORMAT, "MAP-7",
                         "%s: no element type is called so; there are float32, bfloat16 ...", key);
}

/* ---- how a side has the atoms -----------------------------------------------------------------
 */

static sw_status read_rearrange(swi_map *m, swi_yaml_node at, uint32_t parts, swi_map_form *f,
                                sw_error *err)
{
    swi_yaml_node node = swi_yaml_find(m->doc, at, "rearrange");
    if (!swi_yaml_is_node(node))
        return SW_OK;
    bool list = swi_yaml_kind_of(m->doc, node) == SWI_YAML_SEQUENCE;
    if (list && swi_yaml_count(m->doc, node) != parts)
        return swi_yaml_fail(m->doc, node, err, SW_ERR_FORMAT, "MAP-3",
                             "rearrange has %zu entries for %u parts", swi_yaml_count(m->doc, node),
                             parts);
    sw_status st = swi_map_room(m, parts, sizeof(swi_einops *), &f->rearrange, err);
    for (uint32_t i = 0; st == SW_OK && i < parts; i++) {
        swi_yaml_node one = list ? swi_yaml_item(m->doc, node, i) : node;
        if (!swi_map_is_blank(m, one))
            st = swi_map_read_einops(m, one, &f->rearrange[i], err);
    }
    return st;
}

static sw_status read_dim(const swi_map *m, swi_yaml_node at, const char *key, bool *has,
                          uint32_t *dim, sw_error *err)
{
    uint64_t n = UINT64_MAX;
    sw_status st = swi_yaml_get_uint(m->doc, at, key, &n, err);
    if (st != SW_OK || n == UINT64_MAX)
        return st;
    if (n >= SW_MAX_AXES)
        return swi_yaml_fail(m->doc, swi_yaml_find(m->doc, at, key), err, SW_ERR_FORMAT, "MAP-3",
                             "%s: dimensions are 0 to %d", key, SW_MAX_AXES - 1);
    *has = true;
    *dim = (uint32_t)n;
    return SW_OK;
}

static sw_status read_pad(swi_map *m, swi_yaml_node at, swi_map_form *f, sw_error *err)
{
    swi_yaml_node node = swi_yaml_find(m->doc, at, "pad");
    if (!swi_yaml_is_node(node))
        return SW_OK;
    sw_status st = swi_yaml_expect(m->doc, node, SWI_YAML_SEQUENCE, "pad", err);
    if (st != SW_OK)
        return st;
    f->pad_count = swi_yaml_count(m->doc, node);
    if (f->pad_count > SW_MAX_AXES)
        return swi_yaml_fail(m->doc, node, err, SW_ERR_FORMAT, "MAP-3",
                             "pad: at most %d dimensions", SW_MAX_AXES);
    st = swi_map_room(m, f->pad_count, sizeof(swi_expr *), &f->pad, err);
    for (size_t i = 0; st == SW_OK && i < f->pad_count; i++) {
        swi_yaml_node one = swi_yaml_item(m->doc, node, i);
        if (!swi_map_is_blank(m, one))
            st = swi_map_read_expr(m, one, "a size of pad", &f->pad[i], err);
    }
    return st;
}

static sw_status read_form(swi_map *m, swi_yaml_node node, swi_map_form *f, sw_error *err)
{
    f->at = node;
    if (swi_yaml_kind_of(m->doc, node) == SWI_YAML_SCALAR) {
        bool drop = !swi_yaml_is_quoted(m->doc, node) &&
                    strcmp(swi_yaml_text(m->doc, node, NULL), "drop") == 0;
        f->has = drop ? SWI_MAP_DROP : SWI_MAP_HAS;
        return drop ? SW_OK : swi_map_read_name(m, node, "a name", &f->name, err);
    }
    static const char *const known[] = {"name",  "when", "rearrange", "join", "groups",
                                        "stack", "pad",  "cast",      NULL};
    swi_yaml_node name;
    f->has = SWI_MAP_HAS;
    sw_status st = swi_yaml_known_keys(m->doc, node, "a side of a rule", known, err);
    if (st == SW_OK)
        st = swi_yaml_require(m->doc, node, "a side of a rule", "name", &name, err);
    if (st == SW_OK)
        st = swi_map_read_name(m, name, "a name", &f->name, err);
    if (st == SW_OK)
        st = optional_expr(m, node, "when", &f->when, err);
    if (st == SW_OK)
        st = read_dim(m, node, "join", &f->join, &f->join_dim, err);
    if (st == SW_OK)
        st = optional_expr(m, node, "groups", &f->groups, err);
    if (st == SW_OK)
        st = read_dim(m, node, "stack", &f->stack, &f->stack_dim, err);
    if (st == SW_OK)
        st = read_dtype(m, node, "cast", &f->cast, err);
    return st == SW_OK ? read_pad(m, node, f, err) : st;
}

static bool has_operations(const swi_map_form *f)
{
    return f->rearrange != NULL || f->join || f->stack || f->pad_count > 0 || f->groups != NULL ||
           f->cast != SW_DTYPE_NONE;
}

/* MAP-3: the parts of the two names must be accounted for. */
static sw_status check_form(const swi_map *m, const swi_map_rule *r, const swi_map_form *f,
                            sw_error *err)
{
    const uint32_t parts = swi_pattern_part_count(f->name);
    const char *wrong = NULL;
    if (f->join && (r->parts == 1 || parts > 1))
        wrong = "join is for a rule with {a,b} in its first name and none in this one";
    else if (!f->join && parts != r->parts)
        wrong = "the list {a,b} of this name is not as long as that of the rule's first name, and "
                "there is no join";
    else if (f->groups != NULL && !f->join)
        wrong = "groups without join";
    return wrong == NULL ? SW_OK
                         : swi_yaml_fail(m->doc, f->at, err, SW_ERR_FORMAT, "MAP-3", "%s", wrong);
}

/* ---- rules ------------------------------------------------------------------------------------
 */

static sw_status read_shape(swi_map *m, swi_yaml_node at, swi_map_rule *r, sw_error *err)
{
    swi_yaml_node node;
    sw_status st = swi_yaml_require(m->doc, at, "a rule", "shape", &node, err);
    if (st == SW_OK)
        st = swi_yaml_expect(m->doc, node, SWI_YAML_SEQUENCE, "shape", err);
    if (st != SW_OK)
        return st;
    const size_t count = swi_yaml_count(m->doc, node);
    const bool each =
        count > 0 && swi_yaml_kind_of(m->doc, swi_yaml_item(m->doc, node, 0)) == SWI_YAML_SEQUENCE;
    if (each && count != r->parts)
        return swi_yaml_fail(m->doc, node, err, SW_ERR_FORMAT, "MAP-4",
                             "shape has %zu entries for %u parts", count, r->parts);
    const swi_yaml_node first = each ? swi_yaml_item(m->doc, node, 0) : node;
    const size_t axes = swi_yaml_count(m->doc, first);
    if (axes > SW_MAX_AXES)
        return swi_yaml_fail(m->doc, node, err, SW_ERR_FORMAT, "MAP-4", "at most %d dimensions",
                             SW_MAX_AXES);
    r->axes = (uint32_t)axes;
    st = swi_map_room(m, r->parts * axes, sizeof(swi_expr *), &r->shape, err);
    for (size_t i = 0; st == SW_OK && i < r->parts; i++) {
        swi_yaml_node one = each ? swi_yaml_item(m->doc, node, i) : node;
        st = swi_yaml_expect(m->doc, one, SWI_YAML_SEQUENCE, "the shape of a part", err);
        if (st == SW_OK && swi_yaml_count(m->doc, one) != axes)
            st = swi_yaml_fail(m->doc, one, err, SW_ERR_FORMAT, "MAP-4",
                               "the parts differ in their number of dimensions");
        for (size_t k = 0; st == SW_OK && k < axes; k++)
            st = swi_map_read_expr(m, swi_yaml_item(m->doc, one, k), "a size",
                                   &r->shape[i * axes + k], err);
    }
    return st;
}

static sw_status read_tie(swi_map *m, swi_yaml_node at, swi_map_rule *r, sw_error *err)
{
    static const char *const known[] = {"to", "when", NULL};
    swi_yaml_node node = swi_yaml_find(m->doc, at, "tie"), to;
    if (!swi_yaml_is_node(node))
        return SW_OK;
    sw_status st = swi_yaml_known_keys(m->doc, node, "tie", known, err);
    if (st == SW_OK)
        st = swi_yaml_require(m->doc, node, "tie", "to", &to, err);
    if (st == SW_OK)
        st = swi_map_read_name(m, to, "the name of an atom", &r->tie, err);
    if (st == SW_OK && (r->parts != 1 || swi_pattern_part_count(r->tie) != 1))
        st = swi_yaml_fail(m->doc, node, err, SW_ERR_FORMAT, "MAP-6",
                           "a tie is of one atom to one: neither side of it may have {a,b}");
    return st == SW_OK ? optional_expr(m, node, "when", &r->tie_when, err) : st;
}

/* Digits, sign, point and exponent alone: no "inf", "nan" or "0x1". */
static bool read_number(const char *text, double *out)
{
    char *end;
    if (*text == '\0' || text[strspn(text, "+-.0123456789eE")] != '\0')
        return false;
    *out = strtod(text, &end);
    return end != text && *end == '\0' && isfinite(*out);
}

static sw_status read_fill(const swi_map *m, swi_yaml_node at, swi_map_rule *r, sw_error *err)
{
    const char *text;
    swi_yaml_node node = {0};
    sw_status st = swi_yaml_get_text(m->doc, at, "fill", &text, &node, err);
    if (st == SW_OK)
        st = read_dtype(m, at, "dtype", &r->dtype, err);
    if (st != SW_OK || text == NULL)
        return st;
    r->fills = true;
    if (!read_number(text, &r->fill))
        return swi_yaml_fail(m->doc, node, err, SW_ERR_FORMAT, "MAP-7",
                             "fill: not a finite number");
    if (r->dtype != SW_F32 && r->dtype != SW_BF16 && r->dtype != SW_F16 && r->dtype != SW_F64)
        return swi_yaml_fail(m->doc, at, err, SW_ERR_FORMAT, "MAP-7",
                             "a rule with fill needs dtype: float32, bfloat16, float16 or float64");
    const double most = r->dtype == SW_F16 ? 65504 : r->dtype == SW_F64 ? DBL_MAX : FLT_MAX;
    if (fabs(r->fill) > most)
        return swi_yaml_fail(m->doc, node, err, SW_ERR_FORMAT, "MAP-7",
                             "fill: the type cannot hold it");
    return SW_OK;
}

static sw_status read_options(swi_map *m, swi_yaml_node at, swi_map_rule *r, sw_error *err)
{
    sw_status st = read_shape(m, at, r, err);
    if (st == SW_OK)
        st = optional_expr(m, at, "when", &r->when, err);
    if (st == SW_OK)
        st = read_tie(m, at, r, err);
    if (st == SW_OK)
        st = read_fill(m, at, r, err);
    if (st == SW_OK)
        st = swi_yaml_get_bool(m->doc, at, "optional", &r->optional, err);
    return st == SW_OK ? swi_yaml_get_bool(m->doc, at, "buffer", &r->buffer, err) : st;
}

/* The sides of a rule; the first that has the atoms names them. */
static sw_status read_forms(swi_map *m, swi_yaml_node at, swi_map_rule *r, sw_error *err)
{
    bool named = false;
    sw_status st = swi_map_room(m, m->side_count, sizeof *r->forms, &r->forms, err);
    for (size_t i = 0; st == SW_OK && i < swi_yaml_count(m->doc, at); i++) {
        swi_yaml_node key, value;
        swi_yaml_pair(m->doc, at, i, &key, &value);
        const char *name = swi_yaml_text(m->doc, key, NULL);
        if (is_among(name, rule_keys))
            continue;
        if (is_among(name, block_keys))
            return swi_yaml_fail(m->doc, key, err, SW_ERR_FORMAT, "MAP-9",
                                 "\"%s\" is for a block of rules, which has its rules in tensors",
                                 name);
        int64_t side = side_of(m, name);
        if (side < 0)
            return swi_yaml_fail(m->doc, key, err, SW_ERR_FORMAT, "MAP-11",
                                 "\"%s\" is neither a key of a rule nor one of the map's sides",
                                 name);
        st = read_form(m, value, &r->forms[side], err);
        if (st != SW_OK || named || r->forms[side].has != SWI_MAP_HAS)
            continue;
        named = true;
        r->canonical = (uint32_t)side;
        if (has_operations(&r->forms[side]))
            st = swi_yaml_fail(m->doc, value, err, SW_ERR_FORMAT, "MAP-1",
                               "the first side of a rule names its atoms: no operations but when");
    }
    if (st == SW_OK && !named)
        st = swi_yaml_fail(m->doc, at, err, SW_ERR_FORMAT, "MAP-1", "a rule that no side has");
    return st;
}

/* `rearrange` can be read when the number of parts is known. */
static sw_status finish_forms(swi_map *m, swi_map_rule *r, sw_error *err)
{
    sw_status st = SW_OK;
    for (uint32_t i = 0; st == SW_OK && i < m->side_count; i++) {
        swi_map_form *f = &r->forms[i];
        if (f->has != SWI_MAP_HAS)
            continue;
        if (swi_yaml_kind_of(m->doc, f->at) == SWI_YAML_MAPPING)
            st = read_rearrange(m, f->at, r->parts, f, err);
        if (st == SW_OK && i == r->canonical && f->rearrange != NULL)
            st = swi_yaml_fail(m->doc, f->at, err, SW_ERR_FORMAT, "MAP-1",
                               "the first side of a rule names its atoms: no operations but when");
        if (st == SW_OK)
            st = check_form(m, r, f, err);
    }
    return st;
}

static sw_status add_step(swi_map *m, const swi_map_step *step, sw_error *err)
{
    sw_status st = swi_grow_array((void **)&m->steps, &m->step_capacity, m->step_count + 1,
                                  sizeof *m->steps, err);
    if (st == SW_OK)
        m->steps[m->step_count++] = *step;
    return st;
}

static sw_status read_rule(swi_map *m, swi_yaml_node at, sw_error *err)
{
    sw_status st = swi_grow_array((void **)&m->rules, &m->rule_capacity, m->rule_count + 1,
                                  sizeof *m->rules, err);
    if (st != SW_OK)
        return st;
    swi_map_rule *r = &m->rules[m->rule_count];
    *r = (swi_map_rule){.at = at};
    st = read_forms(m, at, r, err);
    if (st != SW_OK)
        return st;
    r->parts = swi_pattern_part_count(r->forms[r->canonical].name);
    if (r->parts > SWI_MAP_PARTS_MAX)
        return swi_yaml_fail(m->doc, at, err, SW_ERR_LIMIT, "MAP-3", "at most %u parts",
                             SWI_MAP_PARTS_MAX);
    st = read_options(m, at, r, err);
    if (st == SW_OK)
        st = finish_forms(m, r, err);
    if (st == SW_OK)
        m->rule_count++;
    return st;
}

/* One rule, or several whose atoms are registered in turn (MAP-15). */
static sw_status read_rules(swi_map *m, swi_yaml_node at, sw_error *err)
{
    static const char *const known[] = {"interleave", NULL};
    swi_yaml_node list = swi_yaml_find(m->doc, at, "interleave");
    swi_map_step step = {.kind = SWI_MAP_RULES, .rule = (uint32_t)m->rule_count, .at = at};
    sw_status st = SW_OK;
    if (!swi_yaml_is_node(list)) {
        st = read_rule(m, at, err);
    } else {
        st = swi_yaml_known_keys(m->doc, at, "interleave", known, err);
        if (st == SW_OK)
            st = swi_yaml_expect(m->doc, list, SWI_YAML_SEQUENCE, "interleave", err);
        if (st == SW_OK && swi_yaml_count(m->doc, list) == 0)
            st = swi_yaml_fail(m->doc, list, err, SW_ERR_FORMAT, "MAP-15",
                               "interleave without rules");
        for (size_t i = 0; st == SW_OK && i < swi_yaml_count(m->doc, list); i++) {
            swi_yaml_node one = swi_yaml_item(m->doc, list, i);
            st = swi_yaml_expect(m->doc, one, SWI_YAML_MAPPING, "a rule", err);
            if (st == SW_OK)
                st = read_rule(m, one, err);
            if (st == SW_OK && m->rules[m->rule_count - 1].parts != m->rules[step.rule].parts)
                st = swi_yaml_fail(m->doc, one, err, SW_ERR_FORMAT, "MAP-15",
                                   "the rules of interleave differ in their number of parts");
        }
    }
    step.count = (uint32_t)m->rule_count - step.rule;
    return st == SW_OK ? add_step(m, &step, err) : st;
}

/* ---- repeats ----------------------------------------------------------------------------------
 */

/* {n: L} or {n: [a, b]} */
static sw_status read_range(swi_map *m, swi_yaml_node node, swi_map_step *s, sw_error *err)
{
    swi_yaml_node key, value;
    sw_status st = swi_yaml_expect(m->doc, node, SWI_YAML_MAPPING, "repeat", err);
    if (st != SW_OK)
        return st;
    if (swi_yaml_count(m->doc, node) != 1)
        return swi_yaml_fail(m->doc, node, err, SW_ERR_FORMAT, "MAP-9",
                             "repeat has one variable: {n: COUNT}; nest for more");
    swi_yaml_pair(m->doc, node, 0, &key, &value);
    s->var = swi_yaml_text(m->doc, key, NULL);
    if (swi_yaml_kind_of(m->doc, value) == SWI_YAML_SCALAR) {
        st = swi_map_read_expr(m, value, "the count of a repeat", &s->to, err);
    } else if (swi_yaml_kind_of(m->doc, value) != SWI_YAML_SEQUENCE ||
               swi_yaml_count(m->doc, value) != 2) {
        st = swi_yaml_fail(m->doc, value, err, SW_ERR_FORMAT, "MAP-9",
                           "a range is a count or a list of two: [FROM, END]");
    } else {
        st = swi_map_read_expr(m, swi_yaml_item(m->doc, value, 0), "the begin", &s->from, err);
        if (st == SW_OK)
            st = swi_map_read_expr(m, swi_yaml_item(m->doc, value, 1), "the end", &s->to, err);
    }
    return st == SW_OK ? swi_map_show_name(m, key, err) : st;
}

/* The lists of rules that are open. */
typedef struct open_list {
    swi_yaml_node list;
    size_t next;
    uint32_t begin;   /* its step */
    size_t visible;   /* names around it */
    bool is_optional; /* it, or one around it */
} open_list;

static sw_status open_repeat(swi_map *m, swi_yaml_node at, const open_list *around, open_list *out,
                             sw_error *err)
{
    const size_t visible = m->visible.count;
    static const char *const known[] = {"repeat", "when", "let", "optional", "tensors", NULL};
    swi_yaml_node range = swi_yaml_find(m->doc, at, "repeat"), list;
    swi_map_step s = {.kind = SWI_MAP_BEGIN, .at = at};
    sw_status st = swi_yaml_known_keys(m->doc, at, "a block of rules", known, err);
    if (st == SW_OK)
        st = optional_expr(m, at, "when", &s.when, err);
    if (st == SW_OK && swi_yaml_is_node(range))
        st = read_range(m, range, &s, err);
    if (st == SW_OK)
        st = swi_map_read_lets(m, swi_yaml_find(m->doc, at, "let"), &s.lets, &s.let_count, err);
    if (st == SW_OK)
        st = swi_yaml_get_bool(m->doc, at, "optional", &s.optional, err);
    if (st == SW_OK && s.optional && around->is_optional)
        st = swi_yaml_fail(m->doc, at, err, SW_ERR_FORMAT, "MAP-9",
                           "optional inside of what is optional");
    if (st == SW_OK)
        st = swi_yaml_require(m->doc, at, "a block of rules", "tensors", &list, err);
    if (st == SW_OK)
        st = swi_yaml_expect(m->doc, list, SWI_YAML_SEQUENCE, "tensors", err);
    if (st == SW_OK)
        st = add_step(m, &s, err);
    if (st == SW_OK)
        *out = (open_list){.list = list,
                           .begin = (uint32_t)m->step_count - 1,
                           .visible = visible,
                           .is_optional = s.optional || around->is_optional};
    return st;
}

static sw_status close_repeat(swi_map *m, const open_list *l, sw_error *err)
{
    const swi_map_step s = {.kind = SWI_MAP_END, .other = l->begin, .at = l->list};
    sw_status st = add_step(m, &s, err);
    if (st == SW_OK)
        m->steps[l->begin].other = (uint32_t)m->step_count - 1;
    m->visible.count = l->visible;
    return st;
}

static bool is_block(const swi_map *m, swi_yaml_node at)
{
    return swi_yaml_kind_of(m->doc, at) == SWI_YAML_MAPPING &&
           swi_yaml_is_node(swi_yaml_find(m->doc, at, "tensors"));
}

sw_status swi_map_read_tensors(swi_map *m, swi_yaml_node at, sw_error *err)
{
    open_list open[SWI_YAML_MAX_DEPTH];
    size_t depth = 0;
    sw_status st = swi_yaml_expect(m->doc, at, SWI_YAML_SEQUENCE, "tensors", err);
    if (st == SW_OK)
        open[depth++] = (open_list){.list = at};
    while (st == SW_OK && depth > 0) {
        open_list *l = &open[depth - 1];
        if (l->next == swi_yaml_count(m->doc, l->list)) {
            depth--;
            st = depth > 0 ? close_repeat(m, l, err) : SW_OK;
            continue;
        }
        swi_yaml_node one = swi_yaml_item(m->doc, l->list, l->next++);
        st = swi_yaml_expect(m->doc, one, SWI_YAML_MAPPING, "a rule", err);
        if (st == SW_OK && !is_block(m, one)) {
            st = read_rules(m, one, err);
        } else if (st == SW_OK && depth == SWI_YAML_MAX_DEPTH) {
            st = swi_yaml_fail(m->doc, one, err, SW_ERR_LIMIT, "MAP-9", "nested too deep");
        } else if (st == SW_OK) {
            st = open_repeat(m, one, l, &open[depth], err);
            depth++;
        }
    }
    return st;
}
