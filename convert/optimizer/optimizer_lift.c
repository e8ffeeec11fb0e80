/* Taking an optimizer's state dict apart, nested or flattened. Clauses OPT-1 to OPT-3. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "codec/pickle.h"
#include "optimizer/optimizer_parts.h"
#include "state/places.h"

/* ---- what both forms are made of ------------------------------------------------------------- */

static sw_status add_state(swi_lifting *l, uint32_t parameter, const void *name, size_t size,
                           sw_value v, sw_error *err)
{
    swi_optimizer *o = l->o;
    swi_opt_state state = {.parameter = parameter, .value = v};
    sw_status st = swi_arena_text(&o->arena, name, size, &state.name, err);
    if (st == SW_OK)
        st = swi_grow_array((void **)&o->states, &l->state_capacity, o->state_count + 1,
                            sizeof *o->states, err);
    if (st == SW_OK)
        o->states[o->state_count++] = state;
    return st;
}

static sw_status add_setting(swi_opt_setting **settings, size_t *count, size_t *capacity,
                             sw_value key, sw_value v, sw_error *err)
{
    sw_status st = swi_grow_array((void **)settings, capacity, *count + 1, sizeof **settings, err);
    if (st == SW_OK)
        (*settings)[(*count)++] = (swi_opt_setting){key, v};
    return st;
}

static sw_status add_group(swi_lifting *l, swi_opt_group **out, sw_error *err)
{
    swi_optimizer *o = l->o;
    sw_status st = swi_grow_array((void **)&o->groups, &l->group_capacity, o->group_count + 1,
                                  sizeof *o->groups, err);
    if (st == SW_OK)
        *out = &o->groups[o->group_count++];
    return st;
}

static sw_status join_group(swi_opt_group *group, uint32_t parameter, size_t *capacity,
                            sw_error *err)
{
    sw_status st = swi_grow_array((void **)&group->parameters, capacity, group->parameter_count + 1,
                                  sizeof *group->parameters, err);
    if (st == SW_OK)
        group->parameters[group->parameter_count++] = parameter;
    return st;
}

/* States in the order of the parameters; of one parameter in the order found. */
static sw_status sort_states(swi_optimizer *o, sw_error *err)
{
    swi_opt_state *sorted = NULL;
    size_t *next = NULL;
    size_t parameters = 0;
    for (size_t i = 0; i < o->state_count; i++)
        if (o->states[i].parameter >= parameters)
            parameters = (size_t)o->states[i].parameter + 1;
    sw_status st = swi_alloc_array(o->state_count, sizeof *sorted, (void **)&sorted, err);
    if (st == SW_OK)
        st = swi_alloc_array(parameters + 1, sizeof *next, (void **)&next, err);
    if (st == SW_OK) {
        for (size_t i = 0; i < o->state_count; i++)
            next[o->states[i].parameter + 1]++;
        for (size_t i = 0; i < parameters; i++)
            next[i + 1] += next[i];
        for (size_t i = 0; i < o->state_count; i++)
            sorted[next[o->states[i].parameter]++] = o->states[i];
        free(o->states);
        o->states = sorted;
        sorted = NULL;
    }
    free(sorted);
    free(next);
    return st;
}

/* ---- nested ---------------------------------------------------------------------------------- */

/* A parameter's key: a name, or an id in decimal (DCP makes text of ids); *is_id for numbers. */
static sw_status key_of(swi_lifting *l, sw_value v, char number[24], const void **text,
                        size_t *size, bool *is_id, sw_error *err)
{
    const uint8_t *data;
    int64_t id;
    *is_id = sw_value_int(l->g, v, &id);
    if (*is_id) {
        *size = (size_t)snprintf(number, 24, "%" PRId64, id);
        *text = number;
        return SW_OK;
    }
    if (sw_value_get_kind(l->g, v) != SW_VALUE_STR || !sw_value_bytes(l->g, v, &data, size) ||
        memchr(data, 0, *size) != NULL || *size == 0)
        return swi_opt_fail(l, err, SW_ERR_UNSUPPORTED, "OPT-1",
                            "a parameter is known neither by a name nor by a number");
    *text = data;
    return SW_OK;
}

typedef struct counts {
    size_t ids, names;
} counts;

static sw_status lift_member(swi_lifting *l, swi_opt_group *group, sw_value v, size_t *capacity,
                             counts *seen, sw_error *err)
{
    char number[24];
    const void *text;
    size_t size;
    bool is_id, is_new;
    uint32_t parameter;
    sw_status st = key_of(l, v, number, &text, &size, &is_id, err);
    if (st == SW_OK)
        st = swi_names_add(l->keys, text, size, &parameter, &is_new, err);
    if (st != SW_OK)
        return st;
    seen->ids += is_id;
    seen->names += !is_id;
    if (!is_new) {
        swi_quoted q;
        return swi_opt_fail(l, err, SW_ERR_CONFLICT, "OPT-3", "parameter %s is in two groups",
                            swi_quote(&q, text, size));
    }
    return join_group(group, parameter, capacity, err);
}

/* OPT-6: the names that torch (2.6 and later) stores when it was given them. */
static sw_status lift_stored_names(swi_lifting *l, const swi_opt_group *group, sw_value names,
                                   sw_error *err)
{
    sw_value v;
    if (!swi_value_is_sequence(l->g, names) || sw_value_size(l->g, names) != group->parameter_count)
        return swi_opt_fail(l, err, SW_ERR_CONFLICT, "OPT-6",
                            "param_names has %zu names for the %zu parameters of its group",
                            sw_value_size(l->g, names), group->parameter_count);
    for (size_t i = 0; sw_value_item(l->g, names, i, &v); i++) {
        const uint8_t *data;
        size_t size;
        uint32_t p = group->parameters[i];
        if (sw_value_get_kind(l->g, v) != SW_VALUE_STR || !sw_value_bytes(l->g, v, &data, &size) ||
            memchr(data, 0, size) != NULL)
            return swi_opt_fail(l, err, SW_ERR_FORMAT, "OPT-6",
                                "param_names holds what is no text");
        sw_status st = swi_grow_array((void **)&l->stored_names, &l->stored_capacity, (size_t)p + 1,
                                      sizeof *l->stored_names, err);
        if (st != SW_OK)
            return st;
        l->stored_names[p] = (const char *)data;
    }
    l->o->has_param_names = true;
    return SW_OK;
}

static sw_status lift_group(swi_lifting *l, sw_value v, counts *seen, sw_error *err)
{
    swi_opt_group *group;
    sw_value dict = v, key, value, params, names, member;
    size_t member_capacity = 0, setting_capacity = 0;
    (void)sw_value_as_dict(l->g, v, &dict);
    sw_status st = add_group(l, &group, err);
    if (st != SW_OK || !swi_value_get(l->g, dict, "params", &params))
        return st;
    for (size_t i = 0; st == SW_OK && sw_value_item(l->g, params, i, &member); i++)
        st = lift_member(l, group, member, &member_capacity, seen, err);
    if (st == SW_OK && swi_value_get(l->g, dict, "param_names", &names))
        st = lift_stored_names(l, group, names, err);
    for (size_t i = 0; st == SW_OK && sw_value_pair(l->g, dict, i, &key, &value); i++) {
        if (!swi_value_text_is(l->g, key, "params") && !swi_value_text_is(l->g, key, "param_names"))
            st = add_setting(&group->settings, &group->setting_count, &setting_capacity, key, value,
                             err);
    }
    return st;
}

/* All states of one parameter. */
static sw_status lift_states(swi_lifting *l, sw_value key, sw_value v, counts *seen, sw_error *err)
{
    char number[24];
    const void *text;
    size_t size, name_size;
    bool is_id, is_new;
    uint32_t parameter;
    sw_value dict, name, value;
    const uint8_t *name_text;
    swi_quoted q;
    sw_status st = key_of(l, key, number, &text, &size, &is_id, err);
    if (st == SW_OK)
        st = swi_names_add(l->keys, text, size, &parameter, &is_new, err);
    if (st != SW_OK)
        return st;
    if (is_new && (is_id || seen->ids > 0))
        return swi_opt_fail(l, err, SW_ERR_CONFLICT, "OPT-3", "id %s has states but no group",
                            swi_quote(&q, text, size));
    if (!sw_value_as_dict(l->g, v, &dict))
        return swi_opt_fail(l, err, SW_ERR_UNSUPPORTED, "OPT-1", "the states of %s are no dict",
                            swi_quote(&q, text, size));
    for (size_t i = 0; st == SW_OK && sw_value_pair(l->g, dict, i, &name, &value); i++) {
        if (sw_value_get_kind(l->g, name) != SW_VALUE_STR ||
            !sw_value_bytes(l->g, name, &name_text, &name_size) ||
            memchr(name_text, 0, name_size) != NULL)
            return swi_opt_fail(l, err, SW_ERR_UNSUPPORTED, "OPT-1",
                                "a state of %s has a name that is no text",
                                swi_quote(&q, text, size));
        st = add_state(l, parameter, name_text, name_size, value, err);
    }
    return st;
}

sw_status swi_opt_lift_nested(swi_lifting *l, sw_value dict, sw_error *err)
{
    sw_value groups, states, key, value, group;
    size_t extra_capacity = 0;
    counts seen = {0};
    sw_status st = SW_OK;
    if (swi_value_get(l->g, dict, "param_groups", &groups)) {
        for (size_t i = 0; st == SW_OK && sw_value_item(l->g, groups, i, &group); i++)
            st = lift_group(l, group, &seen, err);
    }
    if (st == SW_OK && seen.ids > 0 && seen.names > 0)
        return swi_opt_fail(l, err, SW_ERR_UNSUPPORTED, "OPT-1",
                            "some parameters are known by name and some by number");
    if (swi_value_get(l->g, dict, "state", &states) && sw_value_as_dict(l->g, states, &states)) {
        for (size_t i = 0; st == SW_OK && sw_value_pair(l->g, states, i, &key, &value); i++)
            st = lift_states(l, key, value, &seen, err);
    }
    for (size_t i = 0; st == SW_OK && sw_value_pair(l->g, dict, i, &key, &value); i++) {
        if (!swi_value_text_is(l->g, key, "state") && !swi_value_text_is(l->g, key, "param_groups"))
            st = add_setting(&l->o->extras, &l->o->extra_count, &extra_capacity, key, value, err);
    }
    l->o->keying = seen.ids > 0 ? SWI_OPT_NESTED_IDS : SWI_OPT_NESTED_NAMES;
    return st == SW_OK ? sort_states(l->o, err) : st;
}

/* ---- flattened ------------------------------------------------------------------------------- */

/* A setting of one parameter: "param_groups.NAME.SETTING". */
typedef struct row {
    uint32_t parameter, order;
    const char *text; /* of the key */
    sw_value key, value;
} row;

typedef struct flat {
    swi_lifting *l;
    row *rows;
    size_t count, capacity;
    swi_names *known;   /* names that the groups have */
    swi_names *sorts;   /* groups by what their settings are, as bytes */
    size_t *capacities; /* of the groups' members */
    size_t capacities_capacity;
    swi_buf bytes;
} flat;

/* The text of a key behind a prefix. */
static bool behind(const swi_lifting *l, sw_value key, const char *prefix, const char **rest,
                   size_t *size)
{
    const uint8_t *data;
    if (!swi_opt_text_begins(l->g, key, prefix) || !sw_value_bytes(l->g, key, &data, size))
        return false;
    *rest = (const char *)data + strlen(prefix);
    *size -= strlen(prefix);
    return true;
}

static sw_status no_parts(const swi_lifting *l, const char *rest, size_t size, sw_error *err)
{
    swi_quoted q;
    return swi_opt_fail(l, err, SW_ERR_FORMAT, "OPT-2", "key \"%s\" is not NAME.STATE",
                        swi_quote(&q, rest, size));
}

/* Bytes before the last dot of [0, size); 0: none. */
static size_t before_dot(const char *text, size_t size)
{
    while (size > 0 && text[size - 1] != '.')
        size--;
    return size > 0 ? size - 1 : 0;
}

static sw_status add_row(flat *f, sw_value value, const char *rest, size_t size, sw_error *err)
{
    sw_value_graph *g = f->l->state->graph;
    size_t name = before_dot(rest, size);
    row r = {.order = (uint32_t)f->count, .text = rest + name + 1, .value = value};
    if (name == 0 || name + 1 == size || memchr(rest, 0, size) != NULL || f->count >= UINT32_MAX)
        return no_parts(f->l, rest, size, err);
    sw_status st = swi_names_add(f->l->keys, rest, name, &r.parameter, NULL, err);
    if (st == SW_OK)
        st = swi_graph_text(g, SW_VALUE_STR, rest + name + 1, size - name - 1, &r.key, err);
    if (st == SW_OK)
        st = swi_grow_array((void **)&f->rows, &f->capacity, f->count + 1, sizeof *f->rows, err);
    if (st == SW_OK)
        f->rows[f->count++] = r;
    return st;
}

/* OPT-2: the name ends at the last dot behind which the groups know a parameter, else at the last
 * one. */
static sw_status add_flat_state(flat *f, sw_value value, const char *rest, size_t size,
                                sw_error *err)
{
    swi_lifting *l = f->l;
    size_t name = before_dot(rest, size);
    uint32_t parameter;
    for (size_t at = name; at > 0; at = before_dot(rest, at)) {
        if (swi_names_find(f->known, rest, at) >= 0) {
            name = at;
            break;
        }
    }
    if (name == 0 || name + 1 == size || memchr(rest, 0, size) != NULL)
        return no_parts(l, rest, size, err);
    sw_status st = swi_names_add(l->keys, rest, name, &parameter, NULL, err);
    return st == SW_OK ? add_state(l, parameter, rest + name + 1, size - name - 1, value, err) : st;
}

static int by_parameter(const void *a, const void *b)
{
    const row *p = a, *q = b;
    if (p->parameter != q->parameter)
        return p->parameter < q->parameter ? -1 : 1;
    return p->order < q->order ? -1 : p->order > q->order;
}

/* Small tensors (a learning rate may be one) are compared by what they hold. */
static sw_status leaf_bytes(void *ctx, swi_pickle_writer *w, const sw_value_graph *graph,
                            sw_value v, sw_error *err)
{
    const flat *f = ctx;
    uint32_t tensor = 0;
    sw_tensor_info info;
    uint8_t data[64];
    if (!sw_value_tensor(graph, v, &tensor))
        return swi_fail(err, SW_ERR_UNSUPPORTED, "a part of a tensor among the settings");
    if (!sw_catalog_tensor(sw_checkpoint_catalog(f->l->checkpoint), tensor, &info) ||
        info.bytes > sizeof data)
        return swi_buf_printf(w->out, err, "tensor %" PRIu32, tensor);
    sw_status st = sw_checkpoint_read(f->l->checkpoint, tensor, 0, info.elements, data, err);
    if (st == SW_OK)
        st = swi_buf_printf(w->out, err, "dtype %d, axes %" PRIu32 ":", (int)info.dtype, info.axes);
    return st == SW_OK ? swi_buf_append(w->out, data, (size_t)info.bytes, err) : st;
}

static int by_key(const void *a, const void *b)
{
    const row *p = a, *q = b;
    int order = strcmp(p->text, q->text);
    return order != 0 ? order : p->order < q->order ? -1 : p->order > q->order;
}

static int by_order(const void *a, const void *b)
{
    const row *p = a, *q = b;
    return p->order < q->order ? -1 : p->order > q->order;
}

/* What the settings of a parameter are, as bytes that are equal for equal ones in any order. */
static sw_status settings_bytes(flat *f, size_t first, size_t end, sw_error *err)
{
    swi_pickle_writer w;
    f->bytes.size = 0;
    qsort(f->rows + first, end - first, sizeof *f->rows, by_key);
    sw_status st = swi_pickle_begin(&w, &f->bytes, 4, err);
    for (size_t i = first; st == SW_OK && i < end; i++) {
        st = swi_pickle_emit(&w, f->l->g, f->rows[i].key, leaf_bytes, f, err);
        if (st == SW_OK)
            st = swi_pickle_emit(&w, f->l->g, f->rows[i].value, leaf_bytes, f, err);
    }
    qsort(f->rows + first, end - first, sizeof *f->rows, by_order);
    return st;
}

/* Rows [first, end) are the settings of one parameter: it joins those that have the same. */
static sw_status group_rows(flat *f, size_t first, size_t end, sw_error *err)
{
    uint32_t id;
    bool is_new;
    swi_opt_group *group;
    size_t capacity = 0;
    sw_status st = settings_bytes(f, first, end, err);
    if (st == SW_OK)
        st = swi_names_add(f->sorts, f->bytes.data, f->bytes.size, &id, &is_new, err);
    if (st == SW_OK)
        st = swi_grow_array((void **)&f->capacities, &f->capacities_capacity, (size_t)id + 1,
                            sizeof *f->capacities, err);
    if (st == SW_OK && is_new)
        st = add_group(f->l, &group, err);
    if (st != SW_OK)
        return st;
    group = &f->l->o->groups[id];
    for (size_t i = first; st == SW_OK && is_new && i < end; i++) {
        if (strcmp(f->rows[i].text, "param_names") == 0) {
            f->l->o->has_param_names = true;
            continue;
        }
        st = add_setting(&group->settings, &group->setting_count, &capacity, f->rows[i].key,
                         f->rows[i].value, err);
    }
    return st == SW_OK ? join_group(group, f->rows[first].parameter, &f->capacities[id], err) : st;
}

static sw_status note_known(flat *f, const char *rest, size_t size, sw_error *err)
{
    size_t name = before_dot(rest, size);
    uint32_t id;
    if (name == 0 || name + 1 == size)
        return no_parts(f->l, rest, size, err);
    return swi_names_add(f->known, rest, name, &id, NULL, err);
}

/* Parameters are in the order of their states: that is the optimizer's own, while settings are
 * values, which the ranks of a DCP folder share out. */
static sw_status lift_keys(flat *f, sw_value dict, sw_error *err)
{
    sw_value key, value;
    const char *rest;
    size_t size;
    sw_status st = SW_OK;
    for (size_t i = 0; st == SW_OK && sw_value_pair(f->l->g, dict, i, &key, &value); i++) {
        if (behind(f->l, key, "param_groups.", &rest, &size))
            st = note_known(f, rest, size, err);
    }
    for (size_t i = 0; st == SW_OK && sw_value_pair(f->l->g, dict, i, &key, &value); i++) {
        if (behind(f->l, key, "state.", &rest, &size))
            st = add_flat_state(f, value, rest, size, err);
    }
    for (size_t i = 0; st == SW_OK && sw_value_pair(f->l->g, dict, i, &key, &value); i++) {
        if (behind(f->l, key, "param_groups.", &rest, &size))
            st = add_row(f, value, rest, size, err);
    }
    return st;
}

static sw_status lift_flat(flat *f, sw_value dict, sw_error *err)
{
    sw_status st = lift_keys(f, dict, err);
    if (st != SW_OK)
        return st;
    if (f->count > 1)
        qsort(f->rows, f->count, sizeof *f->rows, by_parameter);
    for (size_t first = 0, end; st == SW_OK && first < f->count; first = end) {
        for (end = first + 1; end < f->count && f->rows[end].parameter == f->rows[first].parameter;)
            end++;
        st = group_rows(f, first, end, err);
    }
    return st == SW_OK ? sort_states(f->l->o, err) : st;
}

sw_status swi_opt_lift_flat(swi_lifting *l, sw_value dict, sw_error *err)
{
    flat f = {.l = l};
    l->o->keying = SWI_OPT_FLAT;
    sw_status st = swi_names_make(&f.sorts, err);
    if (st == SW_OK)
        st = swi_names_make(&f.known, err);
    if (st == SW_OK)
        st = lift_flat(&f, dict, err);
    swi_names_free(f.sorts);
    swi_names_free(f.known);
    swi_buf_free(&f.bytes);
    free(f.rows);
    free(f.capacities);
    return st;
}
