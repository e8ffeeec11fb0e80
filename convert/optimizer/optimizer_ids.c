/*
 * Names for numbered parameters. A state dict of torch's optimizers says "parameter 7"; which that
 * is follows from the order in which the module registered its parameters, if at all. Every
 * assignment that keeps the order within each group and fits the shapes of all states is a
 * candidate: with exactly one the names are known. Clauses OPT-5 to OPT-9.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "optimizer/optimizer_parts.h"
#include "select/names.h"

#define DEAD_MAX_BYTES ((uint64_t)64 << 20) /* of positions that are known to lead nowhere */
#define NO_CHOICE UINT32_MAX

typedef struct search {
    swi_lifting *l;
    swi_opt_candidate *items;
    size_t count;
    /* states of parameter i: [first[i], first[i + 1]) */
    size_t *first;
    /* The way to here: for each candidate the group that takes it, group_count: none. */
    uint32_t *choice;
    uint32_t *position; /* in each group */
    size_t depth;
    size_t placed, best; /* parameters */
    uint32_t *witness;   /* the first assignment: candidate by parameter */
    uint32_t *second;
    size_t found;
    size_t *found_at; /* assignments found when the depth was entered */
    swi_names *dead;
    swi_buf key;
    uint32_t stuck; /* a parameter that could not be placed on the longest way */
} search;

/* ---- shapes -------------------------------------------------------------------------------------
 */

/*
 * OPT-8: a parameter fits a tensor unless it has tensors among its states that tell a shape and
 * none of them has the tensor's.
 */
static bool fits_shapes(const search *s, uint32_t parameter, const swi_opt_candidate *c)
{
    const sw_catalog *catalog = sw_checkpoint_catalog(s->l->checkpoint);
    bool yes = false, no = false;
    for (size_t i = s->first[parameter]; c->has_shape && i < s->first[parameter + 1]; i++) {
        const swi_opt_state *state = &s->l->o->states[i];
        uint32_t tensor;
        sw_tensor_info info;
        if (!sw_value_tensor(s->l->g, state->value, &tensor) ||
            !sw_catalog_tensor(catalog, tensor, &info))
            continue;
        swi_opt_says says = swi_opt_shape_says(state->name, &info, c->axes, c->shape);
        if (says == SWI_OPT_SAYS_NEVER)
            return false;
        yes = yes || says == SWI_OPT_SAYS_YES;
        no = no || says == SWI_OPT_SAYS_NO;
    }
    return yes || !no;
}

static bool fits(const search *s, uint32_t parameter, const swi_opt_candidate *c)
{
    const swi_opt_naming *naming = &s->l->naming;
    uint32_t tensor;
    if (naming->may_be == NULL)
        return fits_shapes(s, parameter, c);
    for (size_t i = s->first[parameter]; i < s->first[parameter + 1]; i++)
        if (sw_value_tensor(s->l->g, s->l->o->states[i].value, &tensor) &&
            !naming->may_be(naming->may_be_ctx, (size_t)(c - s->items), tensor))
            return false;
    return true;
}

static bool has_shape(const search *s, uint32_t parameter)
{
    static const swi_opt_candidate nothing = {.has_shape = true, .axes = UINT32_MAX};
    return !fits_shapes(s, parameter, &nothing);
}

/* ---- the search: which group takes each candidate ----------------------------------------------
 */

static const swi_opt_group *group_at(const search *s, size_t i)
{
    return &s->l->o->groups[i];
}

/* The next parameter of a group, or NO_CHOICE. */
static uint32_t next_of(const search *s, size_t group)
{
    const swi_opt_group *g = group_at(s, group);
    return s->position[group] < g->parameter_count ? g->parameters[s->position[group]] : NO_CHOICE;
}

static sw_status make_key(search *s, sw_error *err)
{
    s->key.size = 0;
    sw_status st = swi_buf_u64le(&s->key, s->depth, err);
    return st == SW_OK ? swi_buf_append(&s->key, s->position,
                                        s->l->o->group_count * sizeof *s->position, err)
                       : st;
}

static sw_status note_dead(search *s, sw_error *err)
{
    uint32_t id;
    if (swi_names_memory(s->dead) > DEAD_MAX_BYTES)
        return swi_opt_ask(s->l, err, SW_ERR_LIMIT, "OPT-8",
                           "there are too many ways to give them the model's tensors");
    sw_status st = make_key(s, err);
    return st == SW_OK ? swi_names_add(s->dead, s->key.data, s->key.size, &id, NULL, err) : st;
}

static sw_status is_dead(search *s, bool *out, sw_error *err)
{
    size_t left = s->l->o->parameter_count - s->placed;
    *out = left > s->count - s->depth;
    if (*out)
        return SW_OK;
    sw_status st = make_key(s, err);
    *out = st == SW_OK && swi_names_find(s->dead, s->key.data, s->key.size) >= 0;
    return st;
}

static void note_assignment(search *s)
{
    uint32_t *to = s->found++ == 0 ? s->witness : s->second;
    size_t groups = s->l->o->group_count;
    memset(s->position, 0, groups * sizeof *s->position);
    for (uint32_t i = 0; i < s->count; i++) {
        if (s->choice[i] < groups) {
            to[next_of(s, s->choice[i])] = i;
            s->position[s->choice[i]]++;
        }
    }
}

static void note_best(search *s)
{
    if (s->placed < s->best)
        return;
    s->best = s->placed;
    s->stuck = NO_CHOICE;
    for (size_t i = 0; s->stuck == NO_CHOICE && i < s->l->o->group_count; i++)
        s->stuck = next_of(s, i);
}

/* Takes back the choice at this depth. */
static void undo(search *s)
{
    uint32_t group = s->choice[s->depth];
    if (group < s->l->o->group_count) {
        s->position[group]--;
        s->placed--;
    }
}

/* The next choice at this depth; false: there is none left. */
static bool choose(search *s)
{
    size_t groups = s->l->o->group_count;
    uint32_t *choice = &s->choice[s->depth];
    while (*choice == NO_CHOICE || *choice < groups) {
        *choice = *choice == NO_CHOICE ? 0 : *choice + 1;
        uint32_t parameter = *choice < groups ? next_of(s, *choice) : NO_CHOICE;
        if (*choice == groups)
            return true;
        if (parameter == NO_CHOICE || !fits(s, parameter, &s->items[s->depth]))
            continue;
        s->position[*choice]++;
        s->placed++;
        note_best(s);
        return true;
    }
    return false;
}

/* Back to the depth before, whose choice is taken back; *done: there is none. */
static sw_status go_back(search *s, bool *done, sw_error *err)
{
    sw_status st = SW_OK;
    if (s->depth < s->count && s->found == s->found_at[s->depth])
        st = note_dead(s, err);
    *done = s->depth == 0;
    if (*done)
        return st;
    s->depth--;
    undo(s);
    return st;
}

static sw_status enter(search *s, bool *entered, sw_error *err)
{
    bool dead;
    *entered = false;
    sw_status st = is_dead(s, &dead, err);
    if (st != SW_OK || dead)
        return st;
    *entered = true;
    if (s->depth < s->count) {
        s->choice[s->depth] = NO_CHOICE;
        s->found_at[s->depth] = s->found;
    }
    return SW_OK;
}

/* Restores the positions that the way to here has. */
static void replay(search *s)
{
    memset(s->position, 0, s->l->o->group_count * sizeof *s->position);
    for (size_t i = 0; i < s->depth; i++) {
        if (s->choice[i] < s->l->o->group_count)
            s->position[s->choice[i]]++;
    }
}

static sw_status run(search *s, sw_error *err)
{
    bool entered, done = false;
    sw_status st = enter(s, &entered, err);
    if (!entered)
        return st;
    while (st == SW_OK && !done && s->found < 2) {
        if (s->depth == s->count) {
            note_assignment(s);
            replay(s);
            st = go_back(s, &done, err);
            continue;
        }
        if (!choose(s)) {
            st = go_back(s, &done, err);
            continue;
        }
        s->depth++;
        st = enter(s, &entered, err);
        if (st == SW_OK && !entered) {
            s->depth--;
            undo(s);
        }
    }
    return st;
}

/* ---- what came of it
 * ----------------------------------------------------------------------------- */

static void shape_text(const search *s, uint32_t parameter, char *out, size_t size)
{
    const sw_catalog *catalog = sw_checkpoint_catalog(s->l->checkpoint);
    (void)snprintf(out, size, "no shape");
    for (size_t i = s->first[parameter]; i < s->first[parameter + 1]; i++) {
        uint32_t tensor;
        sw_tensor_info info;
        if (!sw_value_tensor(s->l->g, s->l->o->states[i].value, &tensor) ||
            !sw_catalog_tensor(catalog, tensor, &info) || info.axes == 0)
            continue;
        size_t used = 0;
        for (uint32_t k = 0; k < info.axes && used + 24 < size; k++)
            used += (size_t)snprintf(out + used, size - used, "%s%" PRId64, k > 0 ? "x" : "shape ",
                                     info.shape[k]);
        return;
    }
}

static sw_status refuse_none(const search *s, sw_error *err)
{
    char text[300], shape[120];
    size_t count = s->l->o->parameter_count;
    if (s->count == 0)
        return swi_opt_ask(s->l, err, SW_ERR_INCOMPLETE, "OPT-8", "there is no model beside them");
    if (s->stuck == NO_CHOICE || s->best == count || count > s->count) {
        (void)snprintf(text, sizeof text, "%zu of them cannot be %zu tensors of the model", count,
                       s->count);
        return swi_opt_ask(s->l, err, SW_ERR_INCOMPLETE, "OPT-8", text);
    }
    shape_text(s, s->stuck, shape, sizeof shape);
    (void)snprintf(text, sizeof text,
                   "no order of the model's %zu tensors fits their shapes: number %s (%s) finds no "
                   "place",
                   s->count, swi_names_at(s->l->keys, s->stuck, NULL), shape);
    return swi_opt_ask(s->l, err, SW_ERR_INCOMPLETE, "OPT-8", text);
}

static sw_status refuse_two(const search *s, uint32_t parameter, uint32_t a, uint32_t b,
                            const char *why, sw_error *err)
{
    char text[700];
    swi_quoted first, second;
    (void)snprintf(text, sizeof text, "number %s may be \"%.200s\" or \"%.200s\"%s",
                   swi_names_at(s->l->keys, parameter, NULL),
                   swi_quote_str(&first, s->items[a].name),
                   swi_quote_str(&second, s->items[b].name), why);
    return swi_opt_ask(s->l, err, SW_ERR_CONFLICT, "OPT-8", text);
}

static sw_status take_ordered(search *s, const char **names, sw_error *err)
{
    sw_status st = run(s, err);
    if (st != SW_OK)
        return st;
    if (s->found == 0)
        return refuse_none(s, err);
    for (uint32_t p = 0; p < s->l->o->parameter_count; p++) {
        if (s->found > 1 && s->witness[p] != s->second[p])
            return refuse_two(s, p, s->witness[p], s->second[p], ": both fit all shapes in order",
                              err);
        names[p] = s->items[s->witness[p]].name;
    }
    return SW_OK;
}

/* OPT-9: without an order only what has a shape of its own can be known. */
static sw_status take_unordered(search *s, const char **names, sw_error *err)
{
    for (uint32_t p = 0; p < s->l->o->parameter_count; p++) {
        uint32_t one = NO_CHOICE;
        for (uint32_t i = 0; i < s->count; i++) {
            if (!fits(s, p, &s->items[i]))
                continue;
            if (one != NO_CHOICE)
                return refuse_two(s, p, one, i,
                                  ": the order of the model's parameters is not known here", err);
            one = i;
        }
        s->stuck = p;
        s->best = p;
        if (one == NO_CHOICE || !has_shape(s, p))
            return refuse_none(s, err);
        names[p] = s->items[one].name;
    }
    return SW_OK;
}

static sw_status prepare(search *s, sw_error *err)
{
    const swi_optimizer *o = s->l->o;
    size_t n = s->count + 1;
    sw_status st =
        swi_alloc_array(o->parameter_count + 1, sizeof *s->first, (void **)&s->first, err);
    if (st == SW_OK)
        st = swi_alloc_array(n, sizeof *s->choice, (void **)&s->choice, err);
    if (st == SW_OK)
        st = swi_alloc_array(n, sizeof *s->found_at, (void **)&s->found_at, err);
    if (st == SW_OK)
        st = swi_alloc_array(o->group_count, sizeof *s->position, (void **)&s->position, err);
    if (st == SW_OK)
        st = swi_alloc_array(o->parameter_count, sizeof *s->witness, (void **)&s->witness, err);
    if (st == SW_OK)
        st = swi_alloc_array(o->parameter_count, sizeof *s->second, (void **)&s->second, err);
    if (st == SW_OK)
        st = swi_names_make(&s->dead, err);
    if (st != SW_OK)
        return st;
    for (size_t i = 0; i < o->state_count; i++)
        s->first[o->states[i].parameter + 1]++;
    for (size_t i = 0; i < o->parameter_count; i++)
        s->first[i + 1] += s->first[i];
    note_best(s);
    return SW_OK;
}

static void end(search *s)
{
    free(s->items);
    free(s->first);
    free(s->choice);
    free(s->found_at);
    free(s->position);
    free(s->witness);
    free(s->second);
    swi_names_free(s->dead);
    swi_buf_free(&s->key);
}

/* OPT-6: all parameters have stored names. */
static bool take_stored(const swi_lifting *l, const char **names)
{
    for (size_t i = 0; i < l->o->parameter_count; i++) {
        if (i >= l->stored_capacity || l->stored_names[i] == NULL)
            return false;
        names[i] = l->stored_names[i];
    }
    return true;
}

/* OPT-6: every number has its name, and its states do not speak against it. */
static sw_status take_numbered(search *s, const char **names, sw_error *err)
{
    const swi_opt_naming *naming = &s->l->naming;
    char text[400];
    swi_quoted q;
    size_t k = 0; /* they mostly follow each other */
    for (uint32_t i = 0; i < s->l->o->parameter_count; i++) {
        const char *key = swi_names_at(s->l->keys, i, NULL);
        const uint64_t number = strtoull(key, NULL, 10);
        size_t tried = 0;
        while (tried < naming->name_count && naming->numbers[k] != number) {
            k = (k + 1) % naming->name_count;
            tried++;
        }
        if (tried < naming->name_count && fits(s, i, &s->items[k])) {
            names[i] = naming->names[k];
            continue;
        }
        if (tried == naming->name_count)
            (void)snprintf(text, sizeof text, "number %s has no name among those given", key);
        else
            (void)snprintf(text, sizeof text,
                           "number %s cannot be \"%.160s\": its states have another shape", key,
                           swi_quote_str(&q, naming->names[k]));
        return swi_opt_fail(s->l, err, SW_ERR_CONFLICT, "OPT-6", "%s", text);
    }
    return SW_OK;
}

sw_status swi_opt_name_ids(swi_lifting *l, const char **names, sw_error *err)
{
    search s = {.l = l};
    l->o->named_by = SWI_OPT_NAMED_STORED;
    if (take_stored(l, names))
        return SW_OK;
    l->o->named_by = l->naming.name_count == 0 ? SWI_OPT_NAMED_BY_ORDER
                     : l->naming.by_model      ? SWI_OPT_NAMED_BY_MODEL
                                               : SWI_OPT_NAMED_GIVEN;
    sw_status st = swi_opt_candidates(l, &s.items, &s.count, err);
    if (st == SW_OK)
        st = prepare(&s, err);
    if (st == SW_OK && l->naming.numbers != NULL)
        st = take_numbered(&s, names, err);
    else if (st == SW_OK && (l->state->ordered || l->naming.name_count > 0))
        st = take_ordered(&s, names, err);
    else if (st == SW_OK)
        st = take_unordered(&s, names, err);
    end(&s);
    return st;
}
