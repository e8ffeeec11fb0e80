/* What of a checkpoint is not as a side of the model has it, for people. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/nearest.h"
#include "base/text.h"
#include "map/holding.h"
#include "map/name_groups.h"

/* So many groups of names are told one by one. */
#define TOLD_MAX 50

typedef struct telling {
    const swi_holding *h;
    const swi_side *side;
    const swi_holding_tell *in;
    swi_names *shapes; /* what is said of them: the kinds of groups */
} telling;

static const char *side_name(const telling *t)
{
    return swi_model_side_name(t->h->model, t->h->side);
}

static const char *map_name(const telling *t)
{
    return swi_model_name(t->h->model);
}

static uint64_t elements_of(uint32_t axes, const int64_t *shape)
{
    uint64_t n = 0;
    (void)swi_shape_elements(axes, shape, &n);
    return n;
}

typedef sw_status (*say_fn)(const telling *t, const swi_name_group *group,
                            const swi_finding_in *finding, sw_error *err);

/* One finding for each group of the names that are chosen. */
static sw_status say_groups(const telling *t, const swi_name_in *names, size_t count, bool whole,
                            swi_finding_in finding, say_fn say, sw_error *err)
{
    swi_name_groups groups = {0};
    sw_status st = swi_name_groups_make(names, count, whole, &groups, err);
    for (size_t i = 0; st == SW_OK && i < groups.count && i < TOLD_MAX; i++) {
        finding.tensor = groups.items[i].text;
        st = say(t, &groups.items[i], &finding, err);
    }
    finding.tensor = "";
    if (st == SW_OK && groups.count > TOLD_MAX)
        st = swi_report_add(t->in->report, &finding, err, "and %zu more such lines",
                            groups.count - TOLD_MAX);
    swi_name_groups_free(&groups);
    return st;
}

/* ---- unknown ----------------------------------------------------------------------------------
 */

/* A tensor that is there is not what a wrong name was meant to be. */
static const char *meant(const telling *t, const char *name)
{
    swi_nearest near = swi_nearest_begin(name, strlen(name));
    for (uint32_t i = 0; i < t->side->own; i++)
        if (t->h->tensor[i] == SWI_NO_TENSOR)
            swi_nearest_offer(&near, swi_names_at(t->side->names, i, NULL));
    return near.found;
}

static sw_status say_unknown(const telling *t, const swi_name_group *group,
                             const swi_finding_in *finding, sw_error *err)
{
    const char *near = meant(t, group->first);
    char count[48] = "";
    swi_quoted q;
    if (group->count > 1)
        snprintf(count, sizeof count, "%" PRIu64 " tensors: ", group->count);
    return swi_report_add(t->in->report, finding, err,
                          "%sside %s of map %s has no such tensor%s%s%s", count, side_name(t),
                          map_name(t), near ? "; did you mean \"" : "",
                          near ? swi_quote_str(&q, near) : "", near ? "\"?" : "");
}

static sw_status say_ignored(const telling *t, const char *name, sw_error *err)
{
    const swi_finding_in in = {.severity = SW_NOTE, .code = "map-ignored", .tensor = name};
    if (!swi_model_ignores(t->h->model, t->h->side, name))
        return SW_OK;
    return swi_report_add(t->in->report, &in, err,
                          "left out: models compute it anew when they are made");
}

static sw_status tell_unknown(const telling *t, sw_error *err)
{
    static const swi_finding_in finding = {
        .severity = SW_DEFECT, .status = SW_ERR_NOTFOUND, .code = "map-unknown"};
    const swi_holding *h = t->h;
    swi_name_in *names = NULL;
    sw_status st = swi_alloc_array(h->count, sizeof *names, (void **)&names, err);
    for (size_t i = 0; st == SW_OK && i < h->count; i++) {
        const char *name = h->have[i].name;
        const bool own = swi_names_find(t->side->names, name, strlen(name)) >= 0;
        const bool borne = !own && swi_model_bears(h->model, h->side, name);
        names[i] = (swi_name_in){.name = name, .chosen = !own && !borne};
        if (borne)
            st = say_ignored(t, name, err);
    }
    if (st == SW_OK)
        st = say_groups(t, names, h->count, true, finding, say_unknown, err);
    free(names);
    return st;
}

/* ---- missing ----------------------------------------------------------------------------------
 */

static sw_status say_missing(const telling *t, const swi_name_group *group,
                             const swi_finding_in *finding, sw_error *err)
{
    if (group->count == 1)
        return swi_report_add(t->in->report, finding, err,
                              "the checkpoint lacks it: side %s of map %s has it (%" PRIu64
                              " elements)",
                              side_name(t), map_name(t), group->elements);
    return swi_report_add(t->in->report, finding, err,
                          "the checkpoint lacks all of them: side %s of map %s has %" PRIu64
                          " tensors there (%" PRIu64 " elements)",
                          side_name(t), map_name(t), group->count, group->elements);
}

static sw_status tell_missing(const telling *t, sw_error *err)
{
    static const swi_finding_in finding = {
        .severity = SW_DEFECT, .status = SW_ERR_INCOMPLETE, .code = "map-missing"};
    swi_name_in *names = NULL;
    sw_status st = swi_alloc_array(t->side->own, sizeof *names, (void **)&names, err);
    for (uint32_t i = 0; st == SW_OK && i < t->side->own; i++)
        names[i] = (swi_name_in){
            .name = swi_names_at(t->side->names, i, NULL),
            .chosen = swi_holding_lacks(t->h, i),
            .elements = elements_of(t->side->tensors[i].axes, t->side->tensors[i].shape)};
    if (st == SW_OK)
        st = say_groups(t, names, t->side->own, true, finding, say_missing, err);
    free(names);
    return st;
}

/* ---- shapes -----------------------------------------------------------------------------------
 */

static bool has_shape(const swi_side_tensor *t, const sw_tensor_info *info)
{
    return info->axes == t->axes &&
           (t->axes == 0 || memcmp(info->shape, t->shape, t->axes * sizeof t->shape[0]) == 0);
}

/* "[V, H]": the sizes as the map says them, of a tensor that is one atom as it is. */
static sw_status add_expression(const telling *t, uint32_t id, swi_buf *out, sw_error *err)
{
    const swi_side_tensor *s = &t->side->tensors[id];
    const swi_map_rule *r = &t->h->model->map->rules[s->rule];
    const uint32_t part = t->h->model->atoms[s->first].part;
    sw_status st = SW_OK;
    if (s->count != 1 || s->axes == 0 || r->forms[t->h->side].rearrange != NULL ||
        r->forms[t->h->side].pad_count > 0)
        return SW_OK;
    for (uint32_t k = 0; st == SW_OK && k < r->axes; k++)
        st = swi_buf_printf(out, err, "%s%s", k == 0 ? "[" : ", ",
                            swi_expr_text(r->shape[part * r->axes + k]));
    return st == SW_OK ? swi_buf_append_str(out, "], ", err) : st;
}

/* Fewer elements than it should have, or all of them in one dimension. */
static bool looks_flat(const sw_tensor_info *info, const swi_side_tensor *t)
{
    const uint64_t found = elements_of(info->axes, info->shape);
    const uint64_t wanted = elements_of(t->axes, t->shape);
    if (found > 0 && found < wanted && wanted % found == 0)
        return true;
    return wanted > 0 && (found == 0 || (info->axes == 1 && t->axes > 1));
}

/* What the sizes look like. */
static sw_status add_hint(const sw_tensor_info *info, const swi_side_tensor *t, swi_buf *out,
                          sw_error *err)
{
    static const char shard[] = "flat or sharded values, not a finished export";
    const uint64_t found = elements_of(info->axes, info->shape);
    const uint64_t wanted = elements_of(t->axes, t->shape);
    if (looks_flat(info, t) && found > 0 && found < wanted && wanted % found == 0)
        return swi_buf_printf(out, err, ": %s (1/%" PRIu64 " of the elements)", shard,
                              wanted / found);
    if (looks_flat(info, t))
        return swi_buf_printf(out, err, ": %s", shard);
    if (wanted > 0 && found > wanted && found % wanted == 0)
        return swi_buf_printf(out, err, " (%" PRIu64 " times the elements)", found / wanted);
    return swi_buf_append_str(out, "; is it the configuration of this model?", err);
}

static sw_status shape_text(const telling *t, uint32_t id, const sw_tensor_info *info, swi_buf *out,
                            sw_error *err)
{
    const swi_model *m = t->h->model;
    const swi_side_tensor *s = &t->side->tensors[id];
    char found[SWI_SHAPE_TEXT], expected[SWI_SHAPE_TEXT];
    swi_shape_text(info->axes, info->shape, found);
    swi_shape_text(s->axes, s->shape, expected);
    out->size = 0;
    sw_status st = swi_buf_printf(out, err, "the shape is %s, but %s by %s (", found, expected,
                                  m->config_file ? m->config_file : "the map");
    if (st == SW_OK)
        st = add_expression(t, id, out, err);
    if (st == SW_OK)
        st = swi_buf_printf(out, err, "map %s, line %zu)", map_name(t),
                            swi_yaml_line(m->map->doc, swi_form_of(m, t->h->side, s->rule)->at));
    return st == SW_OK ? add_hint(info, s, out, err) : st;
}

static sw_status say_shape(const telling *t, const swi_name_group *group,
                           const swi_finding_in *finding, sw_error *err)
{
    const char *text = swi_names_at(t->shapes, group->kind, NULL);
    if (group->count == 1)
        return swi_report_add(t->in->report, finding, err, "%s", text);
    return swi_report_add(t->in->report, finding, err, "%" PRIu64 " tensors: %s", group->count,
                          text);
}

static sw_status tell_shapes(telling *t, uint64_t *misshapen, sw_error *first, sw_error *err)
{
    static const swi_finding_in finding = {
        .severity = SW_DEFECT, .status = SW_ERR_CONFLICT, .code = "map-shape"};
    const uint32_t count = swi_names_count(t->side->names);
    swi_name_in *names = NULL;
    swi_buf text = {0};
    swi_quoted q;
    *misshapen = 0;
    sw_status st = swi_alloc_array(count, sizeof *names, (void **)&names, err);
    for (uint32_t i = 0; st == SW_OK && i < count; i++) {
        sw_tensor_info info;
        names[i].name = swi_names_at(t->side->names, i, NULL);
        if (t->h->tensor[i] == SWI_NO_TENSOR ||
            !sw_catalog_tensor(t->in->catalog, t->h->tensor[i], &info) ||
            has_shape(&t->side->tensors[i], &info))
            continue;
        names[i].chosen = true;
        st = shape_text(t, i, &info, &text, err);
        if (st == SW_OK)
            st = swi_names_add(t->shapes, text.data, text.size, &names[i].kind, NULL, err);
        if (st == SW_OK && (*misshapen)++ == 0 && first != NULL)
            (void)swi_fail(first, SW_ERR_CONFLICT, "tensor \"%s\": %.*s",
                           swi_quote_str(&q, names[i].name), (int)text.size,
                           (const char *)text.data);
    }
    if (st == SW_OK && *misshapen > 0)
        st = say_groups(t, names, count, false, finding, say_shape, err);
    swi_buf_free(&text);
    free(names);
    return st;
}

sw_status swi_holding_say(const swi_holding *h, const swi_holding_tell *in, uint64_t *misshapen,
                          sw_error *first_misshapen, sw_error *err)
{
    telling t = {.h = h, .side = &h->model->sides[h->side], .in = in};
    sw_status st = swi_names_make(&t.shapes, err);
    if (st == SW_OK)
        st = tell_unknown(&t, err);
    if (st == SW_OK && !in->partial && h->missing > 0)
        st = tell_missing(&t, err);
    if (st == SW_OK)
        st = tell_shapes(&t, misshapen, first_misshapen, err);
    swi_names_free(t.shapes);
    return st;
}

sw_status swi_holding_refuse_flat(const swi_holding *h, const sw_catalog *catalog, sw_error *err)
{
    const swi_holding_tell tell = {.catalog = catalog};
    const telling t = {.h = h, .side = &h->model->sides[h->side], .in = &tell};
    swi_buf text = {0};
    swi_quoted q;
    sw_status st = SW_OK;
    for (uint32_t i = 0; st == SW_OK && i < swi_names_count(t.side->names); i++) {
        const swi_side_tensor *wanted = &t.side->tensors[i];
        sw_tensor_info info;
        if (h->tensor[i] == SWI_NO_TENSOR || !sw_catalog_tensor(catalog, h->tensor[i], &info) ||
            has_shape(wanted, &info) || !looks_flat(&info, wanted))
            continue;
        st = shape_text(&t, i, &info, &text, err);
        if (st == SW_OK)
            st = swi_fail(err, SW_ERR_CONFLICT, "tensor \"%s\": %.*s",
                          swi_quote_str(&q, swi_names_at(t.side->names, i, NULL)), (int)text.size,
                          (const char *)text.data);
    }
    swi_buf_free(&text);
    return st;
}
