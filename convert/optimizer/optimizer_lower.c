/* The canonical form as a framework's state dict. Clause OPT-10. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/text.h"
#include "model/value.h"
#include "optimizer/optimizer.h"

typedef struct lowering {
    const swi_optimizer *o;
    sw_value_graph *g;
    sw_value *keys; /* of the parameters: text, or ids */
    bool *has_key;
    swi_buf text;
    sw_error *err;
} lowering;

/* A node of the state's graph, as one of the graph that is made. */
static sw_status take(lowering *l, sw_value v, sw_value *out)
{
    if (l->g == l->o->from->graph) {
        *out = v;
        return SW_OK;
    }
    return swi_graph_copy(l->g, l->o->from->graph, v, NULL, NULL, out, l->err);
}

static sw_status text(lowering *l, const char *s, sw_value *out)
{
    return swi_graph_text(l->g, SW_VALUE_STR, s, strlen(s), out, l->err);
}

static sw_status set(lowering *l, sw_value dict, sw_value key, sw_value v)
{
    const sw_value pair[2] = {key, v};
    return swi_graph_set_items(l->g, dict, pair, 1, l->err);
}

static sw_status set_text(lowering *l, sw_value dict, const char *key, sw_value v)
{
    sw_value k;
    sw_status st = text(l, key, &k);
    return st == SW_OK ? set(l, dict, k, v) : st;
}

static sw_status add_settings(lowering *l, sw_value dict, const swi_opt_setting *settings,
                              size_t count)
{
    sw_status st = SW_OK;
    for (size_t i = 0; st == SW_OK && i < count; i++) {
        sw_value key, v;
        st = take(l, settings[i].key, &key);
        if (st == SW_OK)
            st = take(l, settings[i].value, &v);
        if (st == SW_OK)
            st = set(l, dict, key, v);
    }
    return st;
}

/* ---- nested ---------------------------------------------------------------------------------- */

static sw_status make_keys(lowering *l, bool ids)
{
    int64_t next = 0;
    sw_status st = SW_OK;
    for (size_t i = 0; st == SW_OK && !ids && i < l->o->parameter_count; i++) {
        st = text(l, l->o->parameters[i], &l->keys[i]);
        l->has_key[i] = true;
    }
    for (size_t i = 0; st == SW_OK && ids && i < l->o->group_count; i++) {
        const swi_opt_group *group = &l->o->groups[i];
        for (size_t k = 0; st == SW_OK && k < group->parameter_count; k++) {
            st = swi_graph_int(l->g, next++, &l->keys[group->parameters[k]], l->err);
            l->has_key[group->parameters[k]] = true;
        }
    }
    return st;
}

/* A list with one element for each parameter of the group: its key, or its name. */
static sw_status member_list(lowering *l, const swi_opt_group *group, bool names, sw_value *out)
{
    sw_status st = swi_graph_sequence(l->g, SW_VALUE_LIST, NULL, 0, out, l->err);
    for (size_t i = 0; st == SW_OK && i < group->parameter_count; i++) {
        sw_value v = l->keys[group->parameters[i]];
        if (names)
            st = text(l, l->o->parameters[group->parameters[i]], &v);
        if (st == SW_OK)
            st = swi_graph_append(l->g, *out, &v, 1, l->err);
    }
    return st;
}

static sw_status add_group(lowering *l, sw_value groups, const swi_opt_group *group, bool ids)
{
    sw_value dict, list;
    sw_status st = swi_graph_dict(l->g, &dict, l->err);
    if (st == SW_OK)
        st = add_settings(l, dict, group->settings, group->setting_count);
    if (st == SW_OK && (l->o->has_param_names || (ids && l->o->keying == SWI_OPT_FLAT))) {
        st = member_list(l, group, true, &list);
        if (st == SW_OK)
            st = set_text(l, dict, "param_names", list);
    }
    if (st == SW_OK)
        st = member_list(l, group, false, &list);
    if (st == SW_OK)
        st = set_text(l, dict, "params", list);
    return st == SW_OK ? swi_graph_append(l->g, groups, &dict, 1, l->err) : st;
}

/* States [first, end) are those of one parameter. */
static sw_status add_states(lowering *l, sw_value states, size_t first, size_t end)
{
    uint32_t parameter = l->o->states[first].parameter;
    sw_value dict, v;
    if (!l->has_key[parameter]) {
        swi_quoted q;
        return swi_fail_at(l->err, SW_ERR_CONFLICT, "OPT-10", 0,
                           "optimizer: \"%s\" has states but is in no group, so it has no number",
                           swi_quote_str(&q, l->o->parameters[parameter]));
    }
    sw_status st = swi_graph_dict(l->g, &dict, l->err);
    for (size_t i = first; st == SW_OK && i < end; i++) {
        st = take(l, l->o->states[i].value, &v);
        if (st == SW_OK)
            st = set_text(l, dict, l->o->states[i].name, v);
    }
    return st == SW_OK ? set(l, states, l->keys[parameter], dict) : st;
}

static sw_status lower_nested(lowering *l, bool ids, sw_value *out)
{
    const swi_optimizer *o = l->o;
    sw_value root, states, groups;
    sw_status st = make_keys(l, ids);
    if (st == SW_OK)
        st = swi_graph_dict(l->g, &root, l->err);
    if (st == SW_OK)
        st = swi_graph_dict(l->g, &states, l->err);
    if (st == SW_OK)
        st = swi_graph_sequence(l->g, SW_VALUE_LIST, NULL, 0, &groups, l->err);
    for (size_t first = 0, end; st == SW_OK && first < o->state_count; first = end) {
        for (end = first + 1;
             end < o->state_count && o->states[end].parameter == o->states[first].parameter;)
            end++;
        st = add_states(l, states, first, end);
    }
    for (size_t i = 0; st == SW_OK && i < o->group_count; i++)
        st = add_group(l, groups, &o->groups[i], ids);
    if (st == SW_OK)
        st = set_text(l, root, "state", states);
    if (st == SW_OK)
        st = set_text(l, root, "param_groups", groups);
    if (st == SW_OK)
        st = add_settings(l, root, o->extras, o->extra_count);
    if (st == SW_OK)
        *out = root;
    return st;
}

/* ---- flattened ------------------------------------------------------------------------------- */

static sw_status set_joined(lowering *l, sw_value dict, const char *kind, const char *parameter,
                            const char *last, size_t last_size, sw_value v)
{
    sw_value key, taken;
    l->text.size = 0;
    sw_status st = swi_buf_printf(&l->text, l->err, "%s.", kind);
    if (st == SW_OK)
        st = swi_buf_append_str(&l->text, parameter, l->err);
    if (st == SW_OK)
        st = swi_buf_u8(&l->text, '.', l->err);
    if (st == SW_OK)
        st = swi_buf_append(&l->text, last, last_size, l->err);
    if (st == SW_OK)
        st = swi_graph_text(l->g, SW_VALUE_STR, l->text.data, l->text.size, &key, l->err);
    if (st == SW_OK && swi_dict_find(l->g, dict, key, &taken)) {
        swi_quoted q;
        return swi_fail_at(l->err, SW_ERR_CONFLICT, "OPT-10", 0,
                           "optimizer: flattened, two things get the key \"%s\"",
                           swi_quote(&q, l->text.data, l->text.size));
    }
    return st == SW_OK ? set(l, dict, key, v) : st;
}

static sw_status take_joined(lowering *l, sw_value dict, const char *kind, const char *parameter,
                             const char *last, size_t last_size, sw_value v)
{
    sw_value taken;
    sw_status st = take(l, v, &taken);
    return st == SW_OK ? set_joined(l, dict, kind, parameter, last, last_size, taken) : st;
}

/* Every setting of the group for each of its parameters; without one there is nothing to say. */
static sw_status add_flat_group(lowering *l, sw_value root, const swi_opt_group *group)
{
    const sw_value_graph *from = l->o->from->graph;
    sw_status st = SW_OK;
    sw_value names;
    if (l->o->has_param_names)
        st = member_list(l, group, true, &names);
    for (size_t i = 0; st == SW_OK && i < group->parameter_count; i++) {
        const char *name = l->o->parameters[group->parameters[i]];
        if (l->o->has_param_names)
            st = set_joined(l, root, "param_groups", name, "param_names", strlen("param_names"),
                            names);
        for (size_t k = 0; st == SW_OK && k < group->setting_count; k++) {
            const uint8_t *key;
            size_t size;
            swi_quoted q;
            if (sw_value_get_kind(from, group->settings[k].key) != SW_VALUE_STR ||
                !sw_value_bytes(from, group->settings[k].key, &key, &size) || size == 0 ||
                memchr(key, '.', size) != NULL)
                return swi_fail_at(l->err, SW_ERR_UNSUPPORTED, "OPT-10", 0,
                                   "optimizer: a setting of \"%s\" has a name that cannot be "
                                   "flattened",
                                   swi_quote_str(&q, name));
            st = take_joined(l, root, "param_groups", name, (const char *)key, size,
                             group->settings[k].value);
        }
    }
    return st;
}

static sw_status lower_flat(lowering *l, sw_value *out)
{
    const swi_optimizer *o = l->o;
    sw_value root;
    sw_status st = swi_graph_dict(l->g, &root, l->err);
    for (size_t i = 0; st == SW_OK && i < o->state_count; i++)
        st = take_joined(l, root, "state", o->parameters[o->states[i].parameter], o->states[i].name,
                         strlen(o->states[i].name), o->states[i].value);
    for (size_t i = 0; st == SW_OK && i < o->group_count; i++)
        st = add_flat_group(l, root, &o->groups[i]);
    if (st == SW_OK)
        st = add_settings(l, root, o->extras, o->extra_count);
    if (st == SW_OK)
        *out = root;
    return st;
}

sw_status swi_optimizer_lower(const swi_optimizer *optimizer, swi_opt_keying keying,
                              sw_value_graph *graph, sw_value *out, sw_error *err)
{
    lowering l = {.o = optimizer, .g = graph, .err = err};
    size_t count = optimizer->parameter_count;
    sw_status st = swi_alloc_array(count, sizeof *l.keys, (void **)&l.keys, err);
    if (st == SW_OK)
        st = swi_alloc_array(count, sizeof *l.has_key, (void **)&l.has_key, err);
    if (st == SW_OK)
        st = keying == SWI_OPT_FLAT ? lower_flat(&l, out)
                                    : lower_nested(&l, keying == SWI_OPT_NESTED_IDS, out);
    free(l.keys);
    free(l.has_key);
    swi_buf_free(&l.text);
    return st;
}
