/* States of an optimizer follow the parameters that they belong to. */
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "map/mapping_parts.h"
#include "model/value.h"

/* One optimizer under way. */
typedef struct following {
    swi_mapping *m;
    swi_optimizer *o;
    uint32_t *parameter; /* by tensor of `from`: its place in o->parameters, or SWI_NO_TENSOR */
    uint32_t *group;     /* by parameter of o: its group, or SWI_NO_TENSOR */
    const char **kinds;  /* names of states, each once */
    size_t kind_count;
    swi_opt_state **state; /* by kind and parameter; NULL: it has none */
    swi_present *shaped;   /* by kind: the states that have their parameter's shape */
    swi_present model;     /* parameters as if they were tensors: to ask what is there */
    bool *given;           /* by tensor of the catalog: some parameter has it for a counter */
    /* what it becomes */
    const char **names;
    uint32_t *new_group;
    size_t count;
    swi_opt_state *states;
    size_t state_count, state_capacity;
} following;

static sw_status refuse(const following *f, const char *name, sw_error *err, const char *why)
{
    swi_quoted q;
    (void)f;
    return swi_fail(err, SW_ERR_CONFLICT,
                    "optimizer: parameter \"%s\": %s; --drop-role optimizer leaves it behind",
                    swi_quote_str(&q, name), why);
}

/* ---- what there is ----------------------------------------------------------------------------
 */

static sw_status find_parameters(following *f, sw_error *err)
{
    const swi_side *side = f->m->from;
    const uint32_t tensors = swi_names_count(side->names);
    sw_status st = swi_alloc_array(tensors, sizeof *f->parameter, (void **)&f->parameter, err);
    if (st == SW_OK)
        st = swi_alloc_array(tensors, sizeof *f->model.tensor, (void **)&f->model.tensor, err);
    if (st == SW_OK)
        st = swi_alloc_array(f->o->parameter_count, sizeof *f->group, (void **)&f->group, err);
    if (st != SW_OK)
        return st;
    memset(f->parameter, 0xff, tensors * sizeof *f->parameter);
    memset(f->model.tensor, 0xff, tensors * sizeof *f->model.tensor);
    memset(f->group, 0xff, f->o->parameter_count * sizeof *f->group);
    for (size_t i = 0; i < f->o->parameter_count; i++) {
        const char *name = f->o->parameters[i];
        const int64_t id = swi_names_find(side->names, name, strlen(name));
        if (id < 0)
            return refuse(f, name, err, "the map does not know it");
        f->parameter[id] = (uint32_t)i;
        f->model.tensor[id] = (uint32_t)i;
    }
    for (size_t g = 0; g < f->o->group_count; g++)
        for (size_t i = 0; i < f->o->groups[g].parameter_count; i++)
            f->group[f->o->groups[g].parameters[i]] = (uint32_t)g;
    return SW_OK;
}

static size_t kind_of(const following *f, const char *name)
{
    for (size_t i = 0; i < f->kind_count; i++)
        if (strcmp(f->kinds[i], name) == 0)
            return i;
    return f->kind_count;
}

static sw_status find_states(following *f, sw_error *err)
{
    const size_t n = f->o->state_count;
    sw_status st = swi_alloc_array(n, sizeof *f->kinds, (void **)&f->kinds, err);
    for (size_t i = 0; st == SW_OK && i < n; i++) {
        const size_t kind = kind_of(f, f->o->states[i].name);
        if (kind == f->kind_count)
            f->kinds[f->kind_count++] = f->o->states[i].name;
        if (f->kind_count > 64)
            return swi_fail(err, SW_ERR_LIMIT, "optimizer: more than 64 kinds of states");
    }
    if (st == SW_OK)
        st = swi_alloc_array(f->kind_count * f->o->parameter_count, sizeof(swi_opt_state *),
                             (void **)&f->state, err);
    for (size_t i = 0; st == SW_OK && i < n; i++) {
        swi_opt_state *s = &f->o->states[i];
        f->state[kind_of(f, s->name) * f->o->parameter_count + s->parameter] = s;
    }
    return st;
}

static swi_opt_state *state_of(const following *f, size_t kind, uint32_t parameter)
{
    return f->state[kind * f->o->parameter_count + parameter];
}

/* A state of the parameter's own shape, which goes where its elements go. */
static bool is_shaped(const following *f, uint32_t from, const swi_opt_state *s, uint32_t *tensor)
{
    const swi_side_tensor *t = &f->m->from->tensors[from];
    sw_tensor_info info;
    return sw_value_tensor(f->o->from->graph, s->value, tensor) &&
           sw_catalog_tensor(f->m->catalog, *tensor, &info) && info.axes == t->axes &&
           t->axes > 0 && memcmp(info.shape, t->shape, t->axes * sizeof t->shape[0]) == 0;
}

static sw_status find_shaped(following *f, sw_error *err)
{
    const uint32_t tensors = swi_names_count(f->m->from->names);
    sw_status st = swi_alloc_array(f->kind_count, sizeof *f->shaped, (void **)&f->shaped, err);
    for (size_t k = 0; st == SW_OK && k < f->kind_count; k++) {
        uint32_t tensor;
        st = swi_alloc_array(tensors, sizeof tensor, (void **)&f->shaped[k].tensor, err);
        for (uint32_t t = 0; st == SW_OK && t < tensors; t++) {
            const uint32_t p = f->parameter[t];
            const swi_opt_state *s = p != SWI_NO_TENSOR ? state_of(f, k, p) : NULL;
            f->shaped[k].tensor[t] =
                s != NULL && is_shaped(f, t, s, &tensor) ? tensor : SWI_NO_TENSOR;
        }
    }
    return st;
}

/* ---- one parameter of the target's side --------------------------------------------------------
 */

static sw_status put_name(following *f, const char *parameter, const char *state, const char **out,
                          sw_error *err)
{
    swi_buf b = {0};
    sw_status st = swi_buf_printf(&b, err, "optimizer.state.%s.%s", parameter, state);
    if (st == SW_OK)
        st = swi_arena_text(&f->m->arena, (const char *)b.data, b.size, out, err);
    swi_buf_free(&b);
    return st;
}

/* A counter that several get is each one's own: counted up in place it would be counted twice. */
static sw_status own_counter(following *f, uint32_t to, size_t kind, sw_value *value, sw_error *err)
{
    const char *full;
    swi_shaped shaped;
    uint32_t tensor;
    if (!sw_value_tensor(f->o->from->graph, *value, &tensor))
        return SW_OK;
    if (!f->given[tensor]) {
        f->given[tensor] = true;
        return SW_OK;
    }
    sw_status st = swi_shaped_take(f->m->catalog, tensor, &shaped, err);
    if (st != SW_OK)
        return st;
    st = put_name(f, swi_names_at(f->m->to->names, to, NULL), f->kinds[kind], &full, err);
    if (st == SW_OK)
        st = swi_mapping_put(f->m, full, SW_ROLE_OPTIMIZER, &shaped, &tensor, err);
    swi_shaped_free(&shaped);
    if (st == SW_OK)
        *value = swi_value_of_tensor(tensor);
    return st;
}

static sw_status add_state(following *f, uint32_t parameter, const char *name, sw_value value,
                           sw_error *err)
{
    sw_status st = swi_grow_array((void **)&f->states, &f->state_capacity, f->state_count + 1,
                                  sizeof *f->states, err);
    if (st == SW_OK)
        f->states[f->state_count++] =
            (swi_opt_state){.parameter = parameter, .name = name, .value = value};
    return st;
}

static sw_status map_shaped(following *f, size_t kind, uint32_t to, uint32_t parameter,
                            sw_error *err)
{
    const char *name = swi_names_at(f->m->to->names, to, NULL), *full;
    swi_shaped shaped;
    uint32_t id;
    sw_status st = SW_OK;
    if (!swi_mapping_is_same(f->m, &f->shaped[kind], to, &id)) {
        st = swi_mapping_build(f->m, &f->shaped[kind], to, &shaped, err);
        if (st != SW_OK)
            return st;
        st = put_name(f, name, f->kinds[kind], &full, err);
        if (st == SW_OK)
            st = swi_mapping_put(f->m, full, SW_ROLE_OPTIMIZER, &shaped, &id, err);
        swi_shaped_free(&shaped);
    }
    return st == SW_OK ? add_state(f, parameter, f->kinds[kind], swi_value_of_tensor(id), err) : st;
}

/* A counter: the same in all that become one. */
static sw_status same_state(following *f, const swi_opt_state *a, const swi_opt_state *b,
                            sw_error *err)
{
    const sw_value_graph *g = f->o->from->graph;
    uint32_t t, u;
    bool same = false;
    if (sw_value_tensor(g, a->value, &t) && sw_value_tensor(g, b->value, &u)) {
        sw_tensor_info x, y;
        (void)sw_catalog_tensor(f->m->catalog, t, &x);
        (void)sw_catalog_tensor(f->m->catalog, u, &y);
        if (x.elements != 1 || y.elements != 1 || x.dtype != y.dtype || x.axes != y.axes)
            return refuse(f, f->o->parameters[b->parameter], err,
                          "a state has neither its shape nor one element, and the map changes it");
        const swi_must must = {
            .kind = SWI_MUST_AGREE, .tensor = t, .other = u, .name = x.name, .other_name = y.name};
        return t == u ? SW_OK : swi_mapping_must(f->m, &must, err);
    }
    sw_status st = swi_value_same(g, a->value, g, b->value, &same, err);
    if (st == SW_OK && !same)
        st = refuse(f, f->o->parameters[b->parameter], err,
                    "a state that is one number (step) differs from that of one that it is joined "
                    "with");
    return st;
}

/* Elements in an order of their own (rows, columns, blocks) cannot follow what moves those of the
 * parameter. */
static sw_status check_stays(const following *f, const swi_opt_state *s, uint32_t to, sw_error *err)
{
    sw_tensor_info info;
    uint32_t tensor, same;
    if (!sw_value_tensor(f->o->from->graph, s->value, &tensor) ||
        !sw_catalog_tensor(f->m->catalog, tensor, &info) || info.elements == 1 ||
        swi_mapping_is_same(f->m, &f->model, to, &same))
        return SW_OK;
    return refuse(f, f->o->parameters[s->parameter], err,
                  "a state has neither its shape nor one element, and the map changes it");
}

/* The sources of a tensor of `to`, without those that repeat: each tensor of `from` once in a row.
 */
typedef struct source_walk {
    uint32_t atom, from;
} source_walk;

static bool next_source(const following *f, source_walk *w)
{
    while (w->atom != SWI_NO_TENSOR) {
        uint32_t from = SWI_NO_TENSOR, as;
        const bool there = swi_mapping_source(f->m, &f->model, w->atom, &from, &as);
        w->atom = f->m->to->next[w->atom];
        if (there && from != w->from) {
            w->from = from;
            return true;
        }
    }
    return false;
}

static source_walk sources_of(const following *f, uint32_t to)
{
    return (source_walk){.atom = f->m->to->tensors[to].first, .from = SWI_NO_TENSOR};
}

static sw_status map_state(following *f, size_t kind, uint32_t to, uint32_t parameter,
                           sw_error *err)
{
    source_walk w = sources_of(f, to);
    const swi_opt_state *first = NULL;
    bool some = false, none = false, shaped = false, other = false;
    uint32_t tensor;
    sw_status st = SW_OK;
    while (st == SW_OK && next_source(f, &w)) {
        const swi_opt_state *s = state_of(f, kind, f->parameter[w.from]);
        some = some || s != NULL;
        none = none || s == NULL;
        if (s == NULL)
            continue;
        const bool fits = is_shaped(f, w.from, s, &tensor);
        shaped = shaped || fits;
        other = other || !fits;
        if (!fits && first != NULL)
            st = same_state(f, first, s, err);
        first = first != NULL ? first : s;
    }
    if (st != SW_OK || !some)
        return st;
    const char *name = swi_names_at(f->m->to->names, to, NULL);
    if (none)
        return refuse(f, name, err, "of those that it is made of some have a state, some have not");
    if (shaped && other)
        return refuse(f, name, err,
                      "of those that it is made of some have a state of another form");
    if (shaped)
        return map_shaped(f, kind, to, parameter, err);
    sw_value value = first->value;
    st = check_stays(f, first, to, err);
    if (st == SW_OK)
        st = own_counter(f, to, kind, &value, err);
    return st == SW_OK ? add_state(f, parameter, f->kinds[kind], value, err) : st;
}

/* Whether the parameter is there, and in which group. */
static sw_status find_group(const following *f, uint32_t to, bool *there, uint32_t *group,
                            sw_error *err)
{
    source_walk w = sources_of(f, to);
    const char *name = swi_names_at(f->m->to->names, to, NULL);
    uint32_t from, as;
    bool lacking = false;
    *there = false;
    for (uint32_t a = f->m->to->tensors[to].first; a != SWI_NO_TENSOR; a = f->m->to->next[a])
        lacking = lacking || !swi_mapping_source(f->m, &f->model, a, &from, &as);
    while (next_source(f, &w)) {
        const uint32_t g = f->group[f->parameter[w.from]];
        if (*there && g != *group)
            return refuse(f, name, err, "those that it is made of are in different groups");
        *there = true;
        *group = g;
    }
    if (*there && lacking)
        return refuse(f, name, err, "of those that it is made of some are not trained");
    return SW_OK;
}

/* One of a ring of tied tensors is the parameter: the first. */
static bool stands_back(const following *f, uint32_t to)
{
    const uint32_t atom = f->m->to->tensors[to].first;
    for (uint32_t a = swi_next_tied(f->m->model, atom); a != atom;
         a = swi_next_tied(f->m->model, a))
        if (a < atom && swi_side_has(f->m->to, a))
            return true;
    return false;
}

static sw_status map_parameter(following *f, uint32_t to, sw_error *err)
{
    bool there;
    uint32_t group = SWI_NO_TENSOR;
    if (stands_back(f, to))
        return SW_OK;
    sw_status st = find_group(f, to, &there, &group, err);
    if (st != SW_OK || !there)
        return st;
    const uint32_t place = (uint32_t)f->count++;
    const char *name = swi_names_at(f->m->to->names, to, NULL);
    f->new_group[place] = group;
    st = swi_arena_text(&f->o->arena, name, strlen(name), &f->names[place], err);
    for (size_t k = 0; st == SW_OK && k < f->kind_count; k++)
        st = map_state(f, k, to, place, err);
    return st;
}

/* ---- what it becomes ---------------------------------------------------------------------------
 */

static sw_status set_groups(following *f, sw_error *err)
{
    sw_status st = SW_OK;
    for (uint32_t g = 0; st == SW_OK && g < f->o->group_count; g++) {
        swi_opt_group *group = &f->o->groups[g];
        uint32_t *room;
        size_t n = 0;
        for (size_t i = 0; i < f->count; i++)
            n += f->new_group[i] == g;
        st = swi_alloc_array(n, sizeof *room, (void **)&room, err);
        if (st != SW_OK)
            break;
        free(group->parameters);
        group->parameters = room;
        group->parameter_count = 0;
        for (uint32_t i = 0; i < f->count; i++)
            if (f->new_group[i] == g)
                group->parameters[group->parameter_count++] = i;
    }
    return st;
}

/* The optimizer owns its lists (optimizer.h). */
static void take_over(following *f)
{
    free(f->o->parameters);
    free(f->o->states);
    f->o->parameters = f->names;
    f->o->parameter_count = f->count;
    f->o->states = f->states;
    f->o->state_count = f->state_count;
    f->names = NULL;
    f->states = NULL;
}

sw_status swi_mapping_optimizer(swi_mapping *m, swi_optimizer *o, sw_error *err)
{
    following f = {.m = m, .o = o};
    const uint32_t tensors = m->to->own;
    sw_status st = find_parameters(&f, err);
    if (st == SW_OK)
        st = find_states(&f, err);
    if (st == SW_OK)
        st = find_shaped(&f, err);
    if (st == SW_OK)
        st = swi_alloc_array(sw_catalog_tensor_count(m->catalog), sizeof *f.given,
                             (void **)&f.given, err);
    if (st == SW_OK)
        st = swi_alloc_array(tensors, sizeof *f.names, (void **)&f.names, err);
    if (st == SW_OK)
        st = swi_alloc_array(tensors, sizeof *f.new_group, (void **)&f.new_group, err);
    for (uint32_t t = 0; st == SW_OK && t < tensors; t++)
        st = map_parameter(&f, t, err);
    if (st == SW_OK)
        st = set_groups(&f, err);
    if (st == SW_OK)
        take_over(&f);
    for (size_t k = 0; f.shaped != NULL && k < f.kind_count; k++)
        free(f.shaped[k].tensor);
    free(f.shaped);
    free(f.parameter);
    free(f.model.tensor);
    free(f.group);
    free(f.given);
    free(f.kinds);
    free(f.state);
    free(f.names);
    free(f.new_group);
    free(f.states);
    return st;
}
