/* Finding optimizers in a state dict, and the names of their parameters. specs/optimizer.md. */
#include "optimizer/optimizer.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "optimizer/optimizer_parts.h"
#include "select/names.h"
#include "state/places.h"

sw_status swi_opt_fail(const swi_lifting *l, sw_error *err, sw_status status, const char *clause,
                       const char *fmt, ...)
{
    char text[700];
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    sw_status st = swi_fail_at(err, status, clause, 0, "%s: %s", l->where, text);
    if (err != NULL)
        err->has_offset = false;
    return st;
}

bool swi_opt_text_begins(const sw_value_graph *g, sw_value v, const char *with)
{
    const uint8_t *data;
    size_t size, n = strlen(with);
    return sw_value_get_kind(g, v) == SW_VALUE_STR && sw_value_bytes(g, v, &data, &size) &&
           size >= n && memcmp(data, with, n) == 0;
}

/* ---- finding them ---------------------------------------------------------------------------- */

/* OPT-1: "param_groups" is a list of dicts that have "params"; "state" is a dict, or absent. */
static bool is_nested(const sw_value_graph *g, sw_value v)
{
    sw_value groups, state, group, dict, params;
    if (!swi_value_get(g, v, "param_groups", &groups) || !swi_value_is_sequence(g, groups))
        return false;
    bool has_state = swi_value_get(g, v, "state", &state);
    if (has_state && !sw_value_as_dict(g, state, &dict))
        return false;
    for (size_t i = 0; sw_value_item(g, groups, i, &group); i++) {
        if (!sw_value_as_dict(g, group, &dict) || !swi_value_get(g, dict, "params", &params) ||
            !swi_value_is_sequence(g, params))
            return false;
    }
    return has_state || sw_value_size(g, groups) > 0;
}

/* OPT-2: all keys begin with "state." or "param_groups."; one of the second kind, or the dict is
 * called an optimizer. */
static bool is_flat(const sw_value_graph *g, sw_value v, const char *name)
{
    sw_value dict, key, value;
    if (!sw_value_as_dict(g, v, &dict) || sw_value_size(g, dict) == 0)
        return false;
    bool groups = name != NULL && strncmp(name, "optim", 5) == 0;
    for (size_t i = 0; sw_value_pair(g, dict, i, &key, &value); i++) {
        bool group = swi_opt_text_begins(g, key, "param_groups.");
        if (!group && !swi_opt_text_begins(g, key, "state."))
            return false;
        groups = groups || group;
    }
    return groups;
}

/* ---- names ----------------------------------------------------------------------------------- */

/*
 * Whether the leading "module" of a parameter's name is a module's own: the model has the name so
 * too, and it is the key that torch gave (which never has DDP's), or not all of the model's tensors
 * have one.
 */
static sw_status model_keeps_module(const swi_lifting *l, const char *name, bool *out,
                                    sw_error *err)
{
    const sw_catalog *catalog = sw_checkpoint_catalog(l->checkpoint);
    const char *here, *inner, *section = NULL;
    swi_buf want = {0}, clean = {0};
    uint64_t removed = 0;
    sw_tensor_info info;
    sw_status st = swi_clean_name(name, false, &want, &removed, err);
    *out = false;
    for (size_t i = 0; st == SW_OK && sw_catalog_tensor(catalog, i, &info); i++) {
        sw_checkpoint_split_name(l->checkpoint, i, &here, &inner);
        if (info.role != SW_ROLE_PARAMETER)
            continue;
        clean.size = 0;
        st = swi_clean_name(inner, false, &clean, &removed, err);
        if (st == SW_OK && strcmp((const char *)clean.data, (const char *)want.data) == 0)
            section = here;
    }
    *out = section != NULL && l->o->named_by == SWI_OPT_NAMED;
    for (size_t i = 0; st == SW_OK && section && sw_catalog_tensor(catalog, i, &info); i++) {
        sw_checkpoint_split_name(l->checkpoint, i, &here, &inner);
        if (info.role == SW_ROLE_PARAMETER && strcmp(here, section) == 0 &&
            !swi_has_module_prefix(inner))
            *out = true;
    }
    swi_buf_free(&want);
    swi_buf_free(&clean);
    return st;
}

/* OPT-4: names as found, wrappers off. */
static sw_status clean_names(swi_lifting *l, sw_error *err)
{
    swi_optimizer *o = l->o;
    bool keeps = false;
    sw_status st = SW_OK;
    if (o->parameter_count > 0 && swi_has_module_prefix(o->parameters[0]))
        st = model_keeps_module(l, o->parameters[0], &keeps, err);
    if (st == SW_OK)
        st =
            swi_clean_names(o->parameters, o->parameter_count, !keeps, &o->arena, &o->cleaned, err);
    return st;
}

/* As found; the keys that they are borrowed from go with the lifting. */
static sw_status keep_names(swi_lifting *l, sw_error *err)
{
    swi_optimizer *o = l->o;
    sw_status st = SW_OK;
    for (size_t i = 0; st == SW_OK && i < o->parameter_count; i++)
        st = swi_arena_text(&o->arena, o->parameters[i], strlen(o->parameters[i]),
                            &o->parameters[i], err);
    return st;
}

static sw_status refuse_equal(swi_lifting *l, const char **names, size_t count, sw_error *err)
{
    swi_names *seen = NULL;
    sw_status st = swi_names_make(&seen, err);
    for (size_t i = 0; st == SW_OK && i < count; i++) {
        uint32_t id;
        bool is_new;
        swi_quoted q;
        st = swi_names_add(seen, names[i], strlen(names[i]), &id, &is_new, err);
        if (st == SW_OK && !is_new)
            st = swi_opt_fail(l, err, SW_ERR_CONFLICT, "OPT-4", "two parameters are called \"%s\"",
                              swi_quote_str(&q, names[i]));
    }
    swi_names_free(seen);
    return st;
}

static sw_status name_parameters(swi_lifting *l, sw_error *err)
{
    swi_optimizer *o = l->o;
    o->parameter_count = swi_names_count(l->keys);
    sw_status st =
        swi_alloc_array(o->parameter_count, sizeof *o->parameters, (void **)&o->parameters, err);
    if (st != SW_OK)
        return st;
    for (uint32_t i = 0; i < o->parameter_count; i++)
        o->parameters[i] = swi_names_at(l->keys, i, NULL);
    if (o->keying == SWI_OPT_NESTED_IDS && !l->naming.numbers_stay)
        st = swi_opt_name_ids(l, o->parameters, err);
    if (st == SW_OK) /* those of the model's tensors are clean */
        st = l->naming.keep_prefixes || o->named_by >= SWI_OPT_NAMED_GIVEN ? keep_names(l, err)
                                                                           : clean_names(l, err);
    return st == SW_OK ? refuse_equal(l, o->parameters, o->parameter_count, err) : st;
}

/* ---- all of them ------------------------------------------------------------------------------
 */

static sw_status note_path(swi_lifting *l, const swi_places *s, size_t at, sw_error *err)
{
    swi_optimizer *o = l->o;
    const char **path = NULL;
    void *room;
    for (size_t k = at; s->items[k].part != NULL; k = s->items[k].parent)
        o->path_parts++;
    sw_status st = swi_arena_alloc(&o->arena, o->path_parts * sizeof *path, &room, err);
    if (st != SW_OK)
        return st;
    path = room;
    o->path = path;
    size_t left = o->path_parts;
    for (size_t k = at; st == SW_OK && s->items[k].part != NULL; k = s->items[k].parent)
        st = swi_arena_text(&o->arena, s->items[k].part, strlen(s->items[k].part), &path[--left],
                            err);
    if (st != SW_OK)
        return st;
    swi_buf joined = {0};
    for (size_t i = 0; st == SW_OK && i < o->path_parts; i++)
        st = swi_buf_printf(&joined, err, "%s%s", i > 0 ? "." : "", path[i]);
    char shown[96] = "";
    (void)swi_quote_into(shown, sizeof shown, joined.data ? joined.data : (const uint8_t *)"",
                         joined.size);
    (void)snprintf(l->where, sizeof l->where, "optimizer \"%s\"", shown);
    swi_buf_free(&joined);
    return st;
}

static sw_status lift_at(swi_lifting *l, const swi_places *s, size_t at, bool nested, sw_error *err)
{
    sw_value v = s->items[at].v, dict = v;
    l->o->from = l->state;
    (void)sw_value_as_dict(l->g, v, &dict);
    l->o->dict = dict;
    sw_status st = note_path(l, s, at, err);
    if (st == SW_OK)
        st = swi_names_make(&l->keys, err);
    if (st == SW_OK)
        st = nested ? swi_opt_lift_nested(l, dict, err) : swi_opt_lift_flat(l, dict, err);
    if (st == SW_OK)
        st = name_parameters(l, err);
    swi_names_free(l->keys);
    free(l->stored_names);
    return st;
}

typedef struct found {
    swi_optimizer *items;
    size_t count, capacity;
} found;

static sw_status look_at(const swi_lifting *base, swi_places *s, size_t at, found *all,
                         sw_error *err)
{
    bool nested = is_nested(s->graph, s->items[at].v);
    if (!nested && !is_flat(s->graph, s->items[at].v, s->items[at].part))
        return swi_places_below(s, at, err);
    sw_status st = swi_grow_array((void **)&all->items, &all->capacity, all->count + 1,
                                  sizeof *all->items, err);
    if (st != SW_OK)
        return st;
    swi_lifting l = *base;
    l.o = &all->items[all->count++];
    return lift_at(&l, s, at, nested, err);
}

sw_status swi_optimizers_lift(const sw_checkpoint *checkpoint, const swi_state *state,
                              const swi_opt_naming *naming, swi_optimizer **out, size_t *count,
                              sw_error *err)
{
    swi_places s = {0};
    const swi_lifting base = {.checkpoint = checkpoint,
                              .state = state,
                              .g = state->graph,
                              .naming = naming != NULL ? *naming : (swi_opt_naming){0}};
    found all = {0};
    sw_status st = swi_places_begin(&s, state->graph, state->root, err);
    for (size_t i = 0; st == SW_OK && i < s.count; i++)
        st = look_at(&base, &s, i, &all, err);
    swi_places_end(&s);
    if (st != SW_OK) {
        swi_optimizers_free(all.items, all.count);
        return st;
    }
    *out = all.items;
    *count = all.count;
    return SW_OK;
}

void swi_optimizers_free(swi_optimizer *optimizers, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        swi_optimizer *o = &optimizers[i];
        for (size_t k = 0; k < o->group_count; k++) {
            free(o->groups[k].settings);
            free(o->groups[k].parameters);
        }
        free(o->groups);
        free(o->states);
        free(o->extras);
        free(o->parameters);
        swi_arena_free(&o->arena);
    }
    free(optimizers);
}

/* ---- asking ---------------------------------------------------------------------------------- */

static bool has_states(const swi_optimizer *o, const char *name)
{
    for (size_t i = 0; i < o->state_count; i++) {
        if (strcmp(o->parameters[o->states[i].parameter], name) == 0)
            return true;
    }
    return false;
}

/* With a leading "module" and without: which it is the optimizers know. */
static sw_status ask(const swi_optimizer *optimizers, size_t count, const char *name, bool *known,
                     sw_error *err)
{
    swi_buf clean = {0};
    uint64_t removed = 0;
    sw_status st = SW_OK;
    for (int drop_module = 0; st == SW_OK && drop_module < 2; drop_module++) {
        clean.size = 0;
        st = swi_clean_name(name, drop_module == 1, &clean, &removed, err);
        for (size_t i = 0; st == SW_OK && i < count; i++)
            *known = *known || has_states(&optimizers[i], (const char *)clean.data);
    }
    swi_buf_free(&clean);
    return st;
}

sw_status swi_optimizers_know(const sw_checkpoint *checkpoint, const char *const *names,
                              size_t count, bool *known, sw_error *err)
{
    swi_state state = {0};
    swi_optimizer *optimizers = NULL;
    size_t optimizer_count = 0;
    sw_error cause = {0};
    memset(known, 0, count * sizeof *known);
    sw_status st = swi_checkpoint_state(checkpoint, &state, &cause);
    if (st == SW_OK)
        st = swi_optimizers_lift(checkpoint, &state, NULL, &optimizers, &optimizer_count, &cause);
    for (size_t i = 0; st == SW_OK && i < count; i++)
        st = ask(optimizers, optimizer_count, names[i], &known[i], &cause);
    swi_optimizers_free(optimizers, optimizer_count);
    swi_state_free(&state);
    if (st != SW_ERR_NOMEM && st != SW_ERR_IO)
        return SW_OK;
    if (err != NULL)
        *err = cause;
    return st;
}
