#include "map/holding.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/text.h"
#include "map/mapping_parts.h"

void swi_holding_free(swi_holding *h)
{
    free(h->tensor);
    free(h->there);
    h->tensor = NULL;
    h->there = NULL;
}

int64_t swi_model_scaled_by(const swi_model *m, size_t side, const char *name)
{
    const char *suffix = m->map->scales.suffix;
    size_t n = strlen(name), k = suffix != NULL ? strlen(suffix) : 0;
    if (!m->has_scales || n <= k || strcmp(name + n - k, suffix) != 0)
        return -1;
    return swi_names_find(m->sides[side].names, name, n - k);
}

bool swi_model_bears(const swi_model *m, size_t side, const char *name)
{
    return swi_model_ignores(m, side, name) || swi_model_scaled_by(m, side, name) >= 0;
}

/* ---- names ------------------------------------------------------------------------------------
 */

/* What is not there may be tied to what is: each of its atoms. */
static bool is_excused(const swi_holding *h, uint32_t id)
{
    const swi_side *s = &h->model->sides[h->side];
    for (uint32_t a = s->tensors[id].first; a != SWI_NO_TENSOR; a = s->next[a]) {
        uint32_t b = swi_next_tied(h->model, a);
        /* names that only a source may have stand beside the side's own, not for them */
        while (b != a && (!swi_side_has(s, b) || h->tensor[s->tensor_of[b]] == SWI_NO_TENSOR))
            b = swi_next_tied(h->model, b);
        if (b == a)
            return false;
    }
    return true;
}

static bool may_lack(const swi_holding *h, uint32_t id)
{
    const swi_side *s = &h->model->sides[h->side];
    const swi_side_tensor *t = &s->tensors[id];
    const uint32_t group = h->model->atoms[t->first].group;
    return id >= s->own || h->model->map->rules[t->rule].optional ||
           (group != SWI_NO_TENSOR && !h->there[group]) || is_excused(h, id);
}

bool swi_holding_lacks(const swi_holding *h, uint32_t id)
{
    return h->tensor[id] == SWI_NO_TENSOR && !may_lack(h, id);
}

/* A turn of an optional repeat is there when anything of it is. */
static void find_groups(swi_holding *h)
{
    const swi_side *s = &h->model->sides[h->side];
    for (uint32_t a = 0; a < swi_model_atom_count(h->model); a++) {
        const uint32_t group = h->model->atoms[a].group, t = s->tensor_of[a];
        if (group != SWI_NO_TENSOR && t != SWI_NO_TENSOR && h->tensor[t] != SWI_NO_TENSOR)
            h->there[group] = true;
    }
}

static sw_status twice(const char *name, sw_error *err)
{
    swi_quoted q;
    return swi_fail(err, SW_ERR_CONFLICT,
                    "two tensors are called \"%s\" without what comes before their names; leave "
                    "one out with --drop",
                    swi_quote_str(&q, name));
}

static sw_status hold(swi_holding *h, sw_error *err)
{
    const swi_side *s = &h->model->sides[h->side];
    const uint32_t tensors = swi_names_count(s->names);
    sw_status st = swi_alloc_array(tensors, sizeof *h->tensor, (void **)&h->tensor, err);
    if (st == SW_OK)
        st = swi_alloc_array(h->model->group_count, sizeof *h->there, (void **)&h->there, err);
    if (st != SW_OK)
        return st;
    memset(h->tensor, 0xff, tensors * sizeof *h->tensor);
    for (size_t i = 0; i < h->count; i++) {
        const char *name = h->have[i].name;
        const int64_t id = swi_names_find(s->names, name, strlen(name));
        if (id >= 0 && h->tensor[id] != SWI_NO_TENSOR)
            return twice(name, err);
        if (id >= 0)
            h->tensor[id] = h->have[i].tensor;
        if (id >= 0 || swi_model_bears(h->model, h->side, name))
            h->known++;
        else if (h->unknown++ == 0)
            h->first_unknown = name;
    }
    find_groups(h);
    for (uint32_t i = 0; i < tensors; i++)
        if (swi_holding_lacks(h, i) && h->missing++ == 0)
            h->first_missing = swi_names_at(s->names, i, NULL);
    return SW_OK;
}

sw_status swi_holding_make(const swi_model *model, size_t side, const swi_named *have, size_t count,
                           swi_holding *out, sw_error *err)
{
    swi_holding made = {.model = model, .side = side, .have = have, .count = count};
    sw_status st = hold(&made, err);
    if (st == SW_OK)
        *out = made;
    else
        swi_holding_free(&made);
    return st;
}

/* A turn of an optional repeat that is not there is tied to nothing. */
static bool is_there(const swi_holding *h, uint32_t atom)
{
    const uint32_t group = h->model->atoms[atom].group;
    return group == SWI_NO_TENSOR || h->there[group];
}

bool swi_holding_tied(const swi_holding *h, uint32_t *atom, swi_tied_pair *out)
{
    const swi_side *s = &h->model->sides[h->side];
    for (; *atom < swi_model_atom_count(h->model); *atom += 1) {
        const uint32_t tie = h->model->atoms[*atom].tie;
        if (tie == SWI_NO_TENSOR || !is_there(h, *atom) || !is_there(h, tie))
            continue;
        const uint32_t t = s->tensor_of[*atom], u = s->tensor_of[tie];
        if (t == SWI_NO_TENSOR || u == SWI_NO_TENSOR)
            continue;
        *out = (swi_tied_pair){.name = swi_names_at(s->names, t, NULL),
                               .other = swi_names_at(s->names, u, NULL),
                               .tensor = h->tensor[t],
                               .other_tensor = h->tensor[u],
                               .plain = swi_mapping_is_plain(h->model, h->side, t) &&
                                        swi_mapping_is_plain(h->model, h->side, u)};
        *atom += 1;
        return true;
    }
    return false;
}

/* ---- which side it is -------------------------------------------------------------------------
 */

static sw_status no_side(const swi_holding *best, sw_error *err)
{
    const swi_model *m = best->model;
    swi_quoted q, r;
    char unknown[512] = "", missing[512] = "";
    if (best->unknown > 0)
        snprintf(unknown, sizeof unknown, "; %" PRIu64 " names are unknown to it, first \"%s\"",
                 best->unknown, swi_quote_str(&q, best->first_unknown));
    if (best->missing > 0)
        snprintf(missing, sizeof missing, "; %" PRIu64 " of its tensors are missing, first \"%s\"",
                 best->missing, swi_quote_str(&r, best->first_missing));
    return swi_fail(err, best->unknown > 0 ? SW_ERR_NOTFOUND : SW_ERR_INCOMPLETE,
                    "the tensors are of no side of map %s; the nearest is %s%s%s; --from-names "
                    "SIDE holds them against one and lists all, --map takes another map",
                    m->map->name, m->map->sides[best->side].name, unknown, missing);
}

static sw_status asked_side(const swi_model *m, const char *asked, size_t *side, sw_error *err)
{
    const int64_t found = swi_model_side(m, asked);
    swi_quoted q;
    if (found < 0)
        return swi_fail(err, SW_ERR_NOTFOUND, "map %s has no side \"%s\"", m->map->name,
                        swi_quote_str(&q, asked));
    *side = (size_t)found;
    return SW_OK;
}

/* Fewer wrong names are nearer, if any is right. */
static bool is_nearer(const swi_holding *a, const swi_holding *b)
{
    if (b->model == NULL || (a->known > 0) != (b->known > 0))
        return b->model == NULL || a->known > 0;
    return a->known > 0 && a->unknown + a->missing < b->unknown + b->missing;
}

/* What is allocated of the results is freed. */
typedef struct fitting {
    swi_holding nearest;
    size_t first, second; /* sides that fit */
    size_t count;
} fitting;

static sw_status hold_all(const swi_model *m, const swi_named *have, size_t count, bool partial,
                          fitting *out, sw_error *err)
{
    sw_status st = SW_OK;
    for (size_t i = 0; st == SW_OK && i < m->map->side_count; i++) {
        swi_holding h;
        if (!m->sides[i].able || m->sides[i].own == 0)
            continue;
        st = swi_holding_make(m, i, have, count, &h, err);
        if (st != SW_OK)
            break;
        swi_holding_free(&h);
        if (h.unknown == 0 && (h.missing == 0 || partial)) {
            *(out->count == 0 ? &out->first : &out->second) = i;
            out->count++;
        }
        if (is_nearer(&h, &out->nearest))
            out->nearest = h;
    }
    if (st == SW_OK && out->nearest.model == NULL)
        return swi_fail(err, SW_ERR_NOTFOUND,
                        "no side of map %s has tensors of such a model; is it the configuration "
                        "of this model?",
                        m->map->name);
    return st;
}

sw_status swi_model_detect(const swi_model *m, const swi_named *have, size_t count,
                           const char *asked, bool partial, size_t *side, sw_error *err)
{
    fitting f = {0};
    if (asked != NULL)
        return asked_side(m, asked, side, err);
    sw_status st = hold_all(m, have, count, partial, &f, err);
    if (st != SW_OK)
        return st;
    if (f.count == 0)
        return no_side(&f.nearest, err);
    if (f.count > 1)
        return swi_fail(err, SW_ERR_CONFLICT,
                        "the names fit the sides %s and %s of map %s; say which with "
                        "--from-names",
                        m->map->sides[f.first].name, m->map->sides[f.second].name, m->map->name);
    *side = f.first;
    return SW_OK;
}

sw_status swi_model_nearest(const swi_model *m, const swi_named *have, size_t count, size_t *side,
                            sw_error *err)
{
    fitting f = {0};
    sw_status st = hold_all(m, have, count, false, &f, err);
    if (st == SW_OK)
        *side = f.nearest.side;
    return st;
}
