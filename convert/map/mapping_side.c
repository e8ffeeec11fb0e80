/* Names held against a side: which side it is, what is unknown, missing, of another shape. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/nearest.h"
#include "map/mapping_parts.h"

/* So many names are told one by one. */
#define TOLD_MAX 50

bool swi_mapping_source(const swi_mapping *m, const swi_present *have, uint32_t atom,
                        uint32_t *from_tensor, uint32_t *as_atom)
{
    uint32_t at = atom;
    do {
        const uint32_t t = m->from->tensor_of[at];
        if (t != SWI_NO_TENSOR && have->tensor[t] != SWI_NO_TENSOR) {
            *from_tensor = t;
            *as_atom = at;
            return true;
        }
        at = swi_next_tied(m->model, at);
    } while (at != atom);
    return false;
}

bool swi_mapping_is_there(const swi_mapping *m, uint32_t atom)
{
    const uint32_t group = m->model->atoms[atom].group;
    return group == SWI_NO_TENSOR || m->there[group];
}

/* ---- holding names against a side -------------------------------------------------------------
 */

typedef struct holding {
    const swi_model *model;
    size_t side;
    uint32_t *tensor; /* by the side's tensors */
    bool *there;      /* by group of the model: something of it is there */
    uint64_t unknown, missing;
    const char *first_unknown, *first_missing;
} holding;

/* MAP-10: the tensor that this one holds the block scales of, or -1. */
static int64_t scaled_by(const swi_model *m, size_t side, const char *name)
{
    const char *suffix = m->map->scales.suffix;
    size_t n = strlen(name), k = suffix != NULL ? strlen(suffix) : 0;
    if (!m->has_scales || n <= k || strcmp(name + n - k, suffix) != 0)
        return -1;
    return swi_names_find(m->sides[side].names, name, n - k);
}

static bool is_companion(const swi_model *m, size_t side, const char *name)
{
    return scaled_by(m, side, name) >= 0;
}

static bool is_known(const swi_model *m, size_t side, const char *name)
{
    return swi_model_ignores(m, side, name) || is_companion(m, side, name);
}

/* What is not there may be tied to what is: each of its atoms. */
static bool is_excused(const holding *h, uint32_t id)
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

static bool may_lack(const holding *h, uint32_t id)
{
    const swi_side *s = &h->model->sides[h->side];
    const swi_side_tensor *t = &s->tensors[id];
    const uint32_t group = h->model->atoms[t->first].group;
    return id >= s->own || h->model->map->rules[t->rule].optional ||
           (group != SWI_NO_TENSOR && !h->there[group]) || is_excused(h, id);
}

/* A turn of an optional repeat is there when anything of it is. */
static void find_groups(holding *h)
{
    const swi_side *s = &h->model->sides[h->side];
    for (uint32_t a = 0; a < swi_model_atom_count(h->model); a++) {
        const uint32_t group = h->model->atoms[a].group, t = s->tensor_of[a];
        if (group != SWI_NO_TENSOR && t != SWI_NO_TENSOR && h->tensor[t] != SWI_NO_TENSOR)
            h->there[group] = true;
    }
}

static void end_holding(holding *h)
{
    free(h->tensor);
    free(h->there);
    h->tensor = NULL;
    h->there = NULL;
}

static sw_status twice(const char *name, sw_error *err)
{
    swi_quoted q;
    return swi_fail(err, SW_ERR_CONFLICT,
                    "two tensors are called \"%s\" without what comes before their names; leave "
                    "one out with --drop",
                    swi_quote_str(&q, name));
}

static sw_status hold(holding *h, const swi_named *have, size_t count, sw_error *err)
{
    const swi_side *s = &h->model->sides[h->side];
    const uint32_t tensors = swi_names_count(s->names);
    sw_status st = swi_alloc_array(tensors, sizeof *h->tensor, (void **)&h->tensor, err);
    if (st == SW_OK)
        st = swi_alloc_array(h->model->group_count, sizeof *h->there, (void **)&h->there, err);
    if (st != SW_OK)
        return st;
    memset(h->tensor, 0xff, tensors * sizeof *h->tensor);
    for (size_t i = 0; i < count; i++) {
        int64_t id = swi_names_find(s->names, have[i].name, strlen(have[i].name));
        if (id >= 0 && h->tensor[id] != SWI_NO_TENSOR)
            return twice(have[i].name, err);
        if (id >= 0)
            h->tensor[id] = have[i].tensor;
        else if (!is_known(h->model, h->side, have[i].name) && h->unknown++ == 0)
            h->first_unknown = have[i].name;
    }
    find_groups(h);
    for (uint32_t i = 0; i < tensors; i++)
        if (h->tensor[i] == SWI_NO_TENSOR && !may_lack(h, i) && h->missing++ == 0)
            h->first_missing = swi_names_at(s->names, i, NULL);
    return SW_OK;
}

/* ---- which side it is -------------------------------------------------------------------------
 */

static sw_status no_side(const swi_model *m, const holding *best, sw_error *err)
{
    swi_quoted q, r;
    char unknown[512] = "", missing[512] = "";
    if (best->model == NULL)
        return swi_fail(err, SW_ERR_NOTFOUND,
                        "no side of map %s has tensors of such a model; is it the configuration "
                        "of this model?",
                        m->map->name);
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

/* Fewer wrong names are nearer. */
static bool is_nearer(const holding *a, const holding *b)
{
    return a->unknown + a->missing < b->unknown + b->missing;
}

sw_status swi_model_detect(const swi_model *m, const swi_named *have, size_t count,
                           const char *asked, bool partial, size_t *side, sw_error *err)
{
    holding best = {0};
    int64_t found = -1;
    sw_status st = SW_OK;
    if (asked != NULL)
        return asked_side(m, asked, side, err);
    best.unknown = UINT64_MAX / 2;
    for (size_t i = 0; st == SW_OK && i < m->map->side_count; i++) {
        holding h = {.model = m, .side = i};
        if (!m->sides[i].able || swi_names_count(m->sides[i].names) == 0)
            continue;
        st = hold(&h, have, count, err);
        end_holding(&h);
        const bool fits = h.unknown == 0 && (h.missing == 0 || partial);
        if (st == SW_OK && fits && found >= 0)
            return swi_fail(err, SW_ERR_CONFLICT,
                            "the names fit the sides %s and %s of map %s; say which with "
                            "--from-names",
                            m->map->sides[found].name, m->map->sides[i].name, m->map->name);
        if (fits)
            found = (int64_t)i;
        if (is_nearer(&h, &best))
            best = h;
    }
    if (st == SW_OK && found < 0)
        return no_side(m, &best, err);
    if (st == SW_OK)
        *side = (size_t)found;
    return st;
}

/* ---- what is wrong with it --------------------------------------------------------------------
 */

static sw_status say_unknown(const swi_mapping *m, const char *name, uint64_t told, sw_error *err)
{
    swi_nearest near = swi_nearest_begin(name, strlen(name));
    const swi_finding_in in = {
        .severity = SW_DEFECT, .status = SW_ERR_NOTFOUND, .code = "map-unknown", .tensor = name};
    swi_quoted q;
    if (told >= TOLD_MAX)
        return SW_OK;
    for (uint32_t i = 0; i < swi_names_count(m->from->names); i++)
        swi_nearest_offer(&near, swi_names_at(m->from->names, i, NULL));
    return swi_report_add(m->in.report, &in, err, "side %s of map %s has no such tensor%s%s%s",
                          swi_model_side_name(m->model, m->in.from), swi_model_name(m->model),
                          near.found ? "; did you mean \"" : "",
                          near.found ? swi_quote_str(&q, near.found) : "", near.found ? "\"?" : "");
}

static sw_status say_missing(const swi_mapping *m, const char *name, uint64_t told, sw_error *err)
{
    const swi_finding_in in = {
        .severity = SW_DEFECT, .status = SW_ERR_INCOMPLETE, .code = "map-missing", .tensor = name};
    if (told >= TOLD_MAX)
        return SW_OK;
    return swi_report_add(m->in.report, &in, err,
                          "the checkpoint lacks it: side %s of map %s has it",
                          swi_model_side_name(m->model, m->in.from), swi_model_name(m->model));
}

static sw_status say_ignored(const swi_mapping *m, const char *name, sw_error *err)
{
    const swi_finding_in in = {.severity = SW_NOTE, .code = "map-ignored", .tensor = name};
    if (!swi_model_ignores(m->model, m->in.from, name))
        return SW_OK;
    return swi_report_add(m->in.report, &in, err,
                          "left out: models compute it anew when they are made");
}

static sw_status check_shape(const swi_mapping *m, uint32_t id, uint32_t tensor, sw_error *err)
{
    const swi_side_tensor *t = &m->from->tensors[id];
    const swi_map_form *f = swi_form_of(m->model, m->in.from, t->rule);
    sw_tensor_info info;
    char found[SWI_SHAPE_TEXT], expected[SWI_SHAPE_TEXT];
    swi_quoted q;
    (void)sw_catalog_tensor(m->catalog, tensor, &info);
    if (info.axes == t->axes &&
        (t->axes == 0 || memcmp(info.shape, t->shape, t->axes * sizeof t->shape[0]) == 0))
        return SW_OK;
    swi_shape_text(info.axes, info.shape, found);
    swi_shape_text(t->axes, t->shape, expected);
    const bool flat = info.axes == 1 && t->axes > 1;
    return swi_fail(err, SW_ERR_CONFLICT,
                    "tensor \"%s\" has the shape %s in the checkpoint and %s by %s (map %s, line "
                    "%zu)%s; is it the configuration of this model?",
                    swi_quote_str(&q, swi_names_at(m->from->names, id, NULL)), found, expected,
                    m->model->config_file ? m->model->config_file : "the map",
                    swi_model_name(m->model), swi_yaml_line(m->model->map->doc, f->at),
                    flat ? ": flat or sharded values, not a finished export" : "");
}

static sw_status check_names(swi_mapping *m, const swi_named *have, size_t count, holding *h,
                             sw_error *err)
{
    uint64_t told = 0;
    sw_status st = SW_OK;
    for (size_t i = 0; st == SW_OK && i < count; i++) {
        if (swi_names_find(m->from->names, have[i].name, strlen(have[i].name)) >= 0)
            continue;
        st = is_known(m->model, m->in.from, have[i].name)
                 ? say_ignored(m, have[i].name, err)
                 : say_unknown(m, have[i].name, told++, err);
    }
    told = 0;
    for (uint32_t i = 0; st == SW_OK && !m->in.partial && i < swi_names_count(m->from->names); i++)
        if (h->tensor[i] == SWI_NO_TENSOR && !may_lack(h, i))
            st = say_missing(m, swi_names_at(m->from->names, i, NULL), told++, err);
    return st;
}

/* A scale has one element for each block, ragged at the ends. */
static sw_status check_scale(const swi_mapping *m, uint32_t id, const swi_named *scale,
                             sw_error *err)
{
    const swi_side_tensor *t = &m->from->tensors[id];
    sw_tensor_info info;
    int64_t expected[SW_MAX_AXES] = {0};
    char found_text[SWI_SHAPE_TEXT], expected_text[SWI_SHAPE_TEXT];
    swi_quoted q;
    (void)sw_catalog_tensor(m->catalog, scale->tensor, &info);
    bool fits = m->block_axes == t->axes && info.axes == t->axes;
    for (uint32_t k = 0; k < t->axes && m->block_axes == t->axes; k++) {
        expected[k] = t->shape[k] / m->block[k] + (t->shape[k] % m->block[k] != 0);
        fits = fits && expected[k] == info.shape[k];
    }
    if (fits)
        return SW_OK;
    swi_shape_text(info.axes, info.shape, found_text);
    swi_shape_text(t->axes, expected, expected_text);
    return swi_fail_at(err, SW_ERR_CONFLICT, "MAP-10", 0,
                       "tensor \"%s\": the scales have the shape %s, expected is %s by the block "
                       "size of the configuration",
                       swi_quote_str(&q, scale->name), found_text, expected_text);
}

static sw_status find_scales(swi_mapping *m, const swi_named *named, size_t count, sw_error *err)
{
    const uint32_t tensors = swi_names_count(m->from->names);
    free(m->scales.tensor);
    m->scales = (swi_present){.are_scales = true};
    sw_status st =
        swi_alloc_array(tensors, sizeof *m->scales.tensor, (void **)&m->scales.tensor, err);
    for (uint32_t i = 0; st == SW_OK && i < tensors; i++)
        m->scales.tensor[i] = SWI_NO_TENSOR;
    for (size_t i = 0; st == SW_OK && i < count; i++) {
        const int64_t id = scaled_by(m->model, m->in.from, named[i].name);
        if (id < 0 || swi_names_find(m->from->names, named[i].name, strlen(named[i].name)) >= 0)
            continue;
        st = check_scale(m, (uint32_t)id, &named[i], err);
        m->scales.tensor[id] = named[i].tensor;
    }
    return st;
}

sw_status swi_mapping_meet(swi_mapping *m, const swi_named *named, size_t count, swi_present *have,
                           sw_error *err)
{
    holding h = {.model = m->model, .side = m->in.from};
    swi_quoted q;
    sw_status st = hold(&h, named, count, err);
    if (st == SW_OK)
        st = check_names(m, named, count, &h, err);
    if (st == SW_OK && h.unknown > 0)
        st = swi_fail(err, SW_ERR_NOTFOUND,
                      "%" PRIu64 " tensors are unknown to side %s of map %s, first \"%s\"; the "
                      "report lists them; --drop leaves them out",
                      h.unknown, swi_model_side_name(m->model, m->in.from),
                      swi_model_name(m->model), swi_quote_str(&q, h.first_unknown));
    if (st == SW_OK && h.missing > 0 && !m->in.partial)
        st = swi_fail(err, SW_ERR_INCOMPLETE,
                      "%" PRIu64 " tensors that side %s of map %s has are missing, first \"%s\"; "
                      "the report lists them",
                      h.missing, swi_model_side_name(m->model, m->in.from),
                      swi_model_name(m->model), swi_quote_str(&q, h.first_missing));
    for (uint32_t i = 0; st == SW_OK && i < swi_names_count(m->from->names); i++)
        if (h.tensor[i] != SWI_NO_TENSOR)
            st = check_shape(m, i, h.tensor[i], err);
    if (st == SW_OK)
        st = find_scales(m, named, count, err);
    if (st == SW_OK) {
        have->tensor = h.tensor;
        h.tensor = NULL;
        if (m->model->group_count > 0)
            memcpy(m->there, h.there, m->model->group_count * sizeof *m->there);
    }
    end_holding(&h);
    return st;
}
