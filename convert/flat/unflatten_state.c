/*
 * The state dict with parameters in the places of rows. While it is changed, tensors of the base
 * have their numbers, and those of the new catalog theirs behind them; then all get the new ones.
 */
#include <stdlib.h>
#include <string.h>

#include "flat/unflatten_parts.h"
#include "model/value.h"
#include "state/places.h"

static sw_value made(const swi_unflat *u, uint32_t tensor)
{
    return swi_value_of_tensor((uint32_t)u->tensor_count + tensor);
}

/* ---- the model --------------------------------------------------------------------------------
 */

static const swi_unflat_tensor *tensor_at(const swi_unflat *u, const sw_value_graph *g, sw_value v)
{
    uint32_t tensor;
    return sw_value_tensor(g, v, &tensor) && tensor < u->tensor_count ? &u->tensors[tensor] : NULL;
}

/* A flat parameter of the model; those of optimizers are replaced with their optimizer. */
static bool is_model_row(const swi_unflat *u, const sw_value_graph *g, sw_value v)
{
    const swi_unflat_tensor *t = tensor_at(u, g, v);
    return t != NULL && t->is_row && t->before == u->model_before;
}

static bool holds_rows(const swi_unflat *u, const sw_value_graph *g, sw_value dict)
{
    sw_value key, value;
    for (size_t i = 0; sw_value_pair(g, dict, i, &key, &value); i++)
        if (is_model_row(u, g, value))
            return true;
    return false;
}

static sw_status set_parameter(const swi_unflat *u, sw_value_graph *g, sw_value dict, size_t shape,
                               uint32_t tensor, sw_error *err)
{
    const char *name = u->shapes->items[shape].name;
    sw_value pair[2] = {{0}, made(u, tensor)};
    sw_status st = swi_graph_text(g, SW_VALUE_STR, name, strlen(name), &pair[0], err);
    return st == SW_OK ? swi_graph_set_items(g, dict, pair, 1, err) : st;
}

/* By shape: the tensors that parameters became, and their other names. */
static sw_status list_parameters(const swi_unflat *u, uint32_t **out, sw_error *err)
{
    uint32_t *list = NULL;
    sw_status st = swi_alloc_array(u->shapes->count, sizeof *list, (void **)&list, err);
    if (st != SW_OK)
        return st;
    for (size_t i = 0; i < u->shapes->count; i++)
        list[i] = u->tied[i];
    for (size_t n = 0; n < u->in.notes->row_count; n++) {
        const swi_unflat_tensor *t = &u->tensors[u->in.notes->rows[n].tensor];
        for (size_t i = 0; u->in.notes->rows[n].unit != NULL && i < t->row->count; i++)
            list[t->row->items[i].parameter] = t->first + (uint32_t)i;
    }
    *out = list;
    return SW_OK;
}

static sw_status set_parameters(const swi_unflat *u, sw_value_graph *g, sw_value dict,
                                sw_error *err)
{
    uint32_t *list = NULL;
    sw_status st = list_parameters(u, &list, err);
    for (size_t i = 0; st == SW_OK && i < u->shapes->count; i++)
        if (list[i] != SWI_NOT_MADE)
            st = set_parameter(u, g, dict, i, list[i], err);
    free(list);
    return st;
}

/* FS-13: all parameters in the order of registration where the first row was; slices go. */
static sw_status expand_module(const swi_unflat *u, sw_value_graph *g, sw_value dict, sw_error *err)
{
    sw_value fresh, pair[2];
    bool done = false;
    sw_status st = swi_graph_dict(g, &fresh, err);
    for (size_t i = 0; st == SW_OK && sw_value_pair(g, dict, i, &pair[0], &pair[1]); i++) {
        const swi_unflat_tensor *t = tensor_at(u, g, pair[1]);
        const bool row = is_model_row(u, g, pair[1]);
        const bool goes = t != NULL && t->row == NULL && t->first == SWI_NOT_MADE;
        if (row && !done)
            st = set_parameters(u, g, fresh, err);
        else if (!row && !goes)
            st = swi_graph_set_items(g, fresh, pair, 1, err);
        done = done || row;
    }
    if (st == SW_OK)
        swi_graph_dict_swap(g, dict, fresh);
    return st;
}

static sw_status expand_modules(const swi_unflat *u, swi_state *state, sw_error *err)
{
    swi_places places = {0};
    sw_value dict;
    sw_status st = swi_places_begin(&places, state->graph, state->root, err);
    for (size_t i = 0; st == SW_OK && i < places.count; i++) {
        if (sw_value_as_dict(state->graph, places.items[i].v, &dict) &&
            holds_rows(u, state->graph, dict))
            st = expand_module(u, state->graph, dict, err);
        else
            st = swi_places_below(&places, i, err);
    }
    swi_places_end(&places);
    return st;
}

/* ---- optimizers -------------------------------------------------------------------------------
 */

/* What an optimizer's parameters become. */
typedef struct expanding {
    const swi_unflat *u;
    swi_optimizer *o;
    const swi_row **rows; /* by parameter; NULL: it stays what it is */
    uint32_t *first;      /* likewise: the first that it becomes */
    const char **names;   /* of what they become */
    size_t count;
    size_t *begin; /* by parameter: its states in `by`, and one past the last */
    size_t *by;    /* states by parameter, in the order found */
    swi_opt_state *states;
    size_t state_count, state_capacity;
} expanding;

static size_t items_of(const swi_row *row)
{
    return row != NULL ? row->count : 1;
}

static sw_status find_rows(expanding *x, sw_error *err)
{
    const swi_optimizer *o = x->o;
    sw_status st = swi_alloc_array(o->parameter_count, sizeof(swi_row *), (void **)&x->rows, err);
    if (st == SW_OK)
        st = swi_alloc_array(o->parameter_count, sizeof *x->first, (void **)&x->first, err);
    for (size_t p = 0; st == SW_OK && p < o->parameter_count; p++) {
        x->rows[p] = swi_unflat_row_of(x->u, o->parameters[p]);
        x->first[p] = (uint32_t)x->count;
        x->count += items_of(x->rows[p]);
    }
    return st;
}

static sw_status name_parameters(expanding *x, sw_error *err)
{
    swi_optimizer *o = x->o;
    sw_status st = swi_alloc_array(x->count, sizeof *x->names, (void **)&x->names, err);
    for (size_t p = 0; st == SW_OK && p < o->parameter_count; p++) {
        const swi_row *row = x->rows[p];
        for (size_t i = 0; st == SW_OK && i < items_of(row); i++) {
            const char *name =
                row != NULL ? x->u->shapes->items[row->items[i].parameter].name : o->parameters[p];
            st = swi_arena_text(&o->arena, name, strlen(name), &x->names[x->first[p] + i], err);
        }
    }
    return st;
}

static sw_status add_state(expanding *x, uint32_t parameter, const swi_opt_state *s, sw_value value,
                           sw_error *err)
{
    sw_status st = swi_grow_array((void **)&x->states, &x->state_capacity, x->state_count + 1,
                                  sizeof *x->states, err);
    if (st == SW_OK)
        x->states[x->state_count++] =
            (swi_opt_state){.parameter = parameter, .name = s->name, .value = value};
    return st;
}

static sw_status sort_states(expanding *x, sw_error *err)
{
    const swi_optimizer *o = x->o;
    sw_status st =
        swi_alloc_array(o->parameter_count + 2, sizeof *x->begin, (void **)&x->begin, err);
    if (st == SW_OK)
        st = swi_alloc_array(o->state_count, sizeof *x->by, (void **)&x->by, err);
    if (st != SW_OK)
        return st;
    for (size_t k = 0; k < o->state_count; k++)
        x->begin[o->states[k].parameter + 2]++;
    for (size_t p = 0; p < o->parameter_count; p++)
        x->begin[p + 2] += x->begin[p + 1];
    for (size_t k = 0; k < o->state_count; k++)
        x->by[x->begin[o->states[k].parameter + 1]++] = k;
    return SW_OK;
}

/* The states of one parameter for all that it becomes. */
static sw_status expand_states(expanding *x, uint32_t p, sw_error *err)
{
    const swi_optimizer *o = x->o;
    sw_status st = SW_OK;
    for (size_t i = 0; st == SW_OK && i < items_of(x->rows[p]); i++) {
        for (size_t k = x->begin[p]; st == SW_OK && k < x->begin[p + 1]; k++) {
            const swi_opt_state *s = &o->states[x->by[k]];
            const swi_unflat_tensor *t = tensor_at(x->u, o->from->graph, s->value);
            const bool cut = t != NULL && t->row != NULL;
            st = add_state(x, x->first[p] + (uint32_t)i, s,
                           cut ? made(x->u, t->first + (uint32_t)i) : s->value, err);
        }
    }
    return st;
}

/* What a row was made of has the order of its module; an optimizer has that of the model. */
static int by_parameter(const void *a, const void *b)
{
    const uint32_t *x = a, *y = b;
    return x[0] < y[0] ? -1 : x[0] > y[0];
}

/* The place of one of those that a parameter becomes in the order of registration. */
static uint32_t order_of(const expanding *x, uint32_t p, size_t item)
{
    const swi_row *row = x->rows[p];
    return row != NULL ? row->items[item].parameter : 0;
}

/* FS-13: of rows in the order of registration; of single parameters the order that is there. */
static sw_status expand_group(const expanding *x, swi_opt_group *group, sw_error *err)
{
    struct {
        uint32_t order, parameter;
    } *sorted = NULL;
    uint32_t *list = NULL;
    size_t n = 0;
    for (size_t i = 0; i < group->parameter_count; i++)
        n += items_of(x->rows[group->parameters[i]]);
    sw_status st = swi_alloc_array(n, sizeof *list, (void **)&list, err);
    if (st == SW_OK)
        st = swi_alloc_array(n, sizeof *sorted, (void **)&sorted, err);
    if (st != SW_OK) {
        free(list);
        return st;
    }
    n = 0;
    for (size_t i = 0; i < group->parameter_count; i++) {
        const uint32_t p = group->parameters[i];
        for (size_t k = 0; k < items_of(x->rows[p]); k++, n++) {
            sorted[n].order = order_of(x, p, k);
            sorted[n].parameter = x->first[p] + (uint32_t)k;
        }
    }
    if (x->u->keyed == SWI_KEYED_BY_UNIT && n > 1)
        qsort(sorted, n, sizeof *sorted, by_parameter);
    for (size_t i = 0; i < n; i++)
        list[i] = sorted[i].parameter;
    free(sorted);
    free(group->parameters);
    group->parameters = list;
    group->parameter_count = n;
    return SW_OK;
}

static void take_over(expanding *x)
{
    swi_optimizer *o = x->o;
    free(o->parameters);
    free(o->states);
    o->parameters = x->names;
    o->parameter_count = x->count;
    o->states = x->states;
    o->state_count = x->state_count;
    x->names = NULL;
    x->states = NULL;
}

static bool has_rows(const swi_unflat *u, const swi_optimizer *o)
{
    for (size_t i = 0; i < o->state_count; i++) {
        const swi_unflat_tensor *t = tensor_at(u, o->from->graph, o->states[i].value);
        if (t != NULL && t->row != NULL)
            return true;
    }
    return false;
}

static sw_status expand_optimizer(const swi_unflat *u, swi_optimizer *o, sw_value_graph *graph,
                                  sw_error *err)
{
    expanding x = {.u = u, .o = o};
    sw_value fresh;
    if (!has_rows(u, o))
        return SW_OK;
    sw_status st = find_rows(&x, err);
    if (st == SW_OK)
        st = name_parameters(&x, err);
    if (st == SW_OK)
        st = sort_states(&x, err);
    for (uint32_t p = 0; st == SW_OK && p < o->parameter_count; p++)
        st = expand_states(&x, p, err);
    for (size_t g = 0; st == SW_OK && g < o->group_count; g++)
        st = expand_group(&x, &o->groups[g], err);
    if (st == SW_OK)
        take_over(&x);
    if (st == SW_OK)
        st = swi_optimizer_lower(o, SWI_OPT_NESTED_NAMES, graph, &fresh, err);
    if (st == SW_OK)
        swi_graph_dict_swap(graph, o->dict, fresh);
    free(x.rows);
    free(x.first);
    free(x.names);
    free(x.begin);
    free(x.by);
    free(x.states);
    return st;
}

static sw_status expand_optimizers(const swi_unflat *u, swi_state *state, sw_error *err)
{
    swi_optimizer *optimizers = NULL;
    size_t count = 0;
    if (!u->has_optimizers || u->states_stay)
        return SW_OK;
    sw_status st = swi_unflat_lift(u, u->keyed, state, &optimizers, &count, err);
    for (size_t i = 0; st == SW_OK && i < count; i++)
        st = expand_optimizer(u, &optimizers[i], state->graph, err);
    swi_optimizers_free(optimizers, count);
    return st;
}

/* ---- numbers of the new catalog ---------------------------------------------------------------
 */

static sw_status renumber(void *ctx, const sw_value_graph *from, sw_value v, sw_value_graph *to,
                          bool *replaced, sw_value *out, sw_error *err)
{
    const swi_unflat *u = ctx;
    uint32_t tensor;
    (void)to;
    if (!sw_value_tensor(from, v, &tensor))
        return SW_OK;
    const bool old = tensor < u->tensor_count;
    if (old && (u->tensors[tensor].row != NULL || u->tensors[tensor].first == SWI_NOT_MADE))
        return swi_fail(err, SW_ERR_UNSUPPORTED,
                        "the state dict holds a flat tensor where no module and no optimizer has "
                        "it");
    *replaced = true;
    *out = swi_value_of_tensor(old ? u->tensors[tensor].first : tensor - (uint32_t)u->tensor_count);
    return SW_OK;
}

static sw_status renumbered(const swi_unflat *u, swi_state *state, sw_error *err)
{
    sw_value_graph *graph = NULL;
    sw_value root;
    sw_status st = swi_graph_make(&u->in.limits, &graph, err);
    if (st == SW_OK)
        st = swi_graph_copy(graph, state->graph, state->root, renumber, (void *)(uintptr_t)u, &root,
                            err);
    for (size_t i = 0; st == SW_OK && i < state->scoped_count; i++)
        st = swi_graph_copy(graph, state->graph, state->scoped[i].value, renumber,
                            (void *)(uintptr_t)u, &state->scoped[i].value, err);
    if (st != SW_OK) {
        sw_value_graph_free(graph);
        return st;
    }
    sw_value_graph_free(state->graph);
    state->graph = graph;
    state->root = root;
    return SW_OK;
}

sw_status swi_unflat_state(const swi_unflat *u, swi_state *out, sw_error *err)
{
    swi_state state = {0};
    sw_status st = swi_checkpoint_state(u->in.base, &state, err);
    if (st == SW_OK && u->has_model)
        st = expand_modules(u, &state, err);
    if (st == SW_OK)
        st = expand_optimizers(u, &state, err);
    if (st == SW_OK)
        st = renumbered(u, &state, err);
    if (st == SW_OK) {
        state.ordered = state.ordered || u->shapes->ordered;
        *out = state;
    } else {
        swi_state_free(&state);
    }
    return st;
}
