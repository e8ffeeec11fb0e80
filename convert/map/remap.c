#include "map/remap.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/report.h"
#include "io/store.h"
#include "map/agree.h"
#include "map/holding.h"
#include "select/names.h"

void swi_remap_free(swi_remap *r)
{
    sw_checkpoint_close(r->derived);
    swi_mapping_free(r->mapping);
    swi_model_free(r->model);
    *r = (swi_remap){0};
}

/* ---- whether, and which ------------------------------------------------------------------------
 */

/* The side that the target wants; NULL: whatever names there are. */
static const char *wanted_side(const swi_remap_in *in)
{
    const swi_framework *f = in->target->framework;
    if (f->side != NULL)
        return f->side;
    return in->target->names[0] != '\0' ? in->target->names : f->usual_side;
}

static bool is_asked_for(const swi_remap_in *in)
{
    return in->target->framework->side != NULL || in->target->names[0] != '\0' ||
           in->options->open.map != NULL || in->options->from_names != NULL ||
           in->options->dequantise;
}

/* Something says what the model is. */
static bool may_be_known(const swi_remap_in *in)
{
    return in->options->assets != NULL || in->options->open.config != NULL ||
           swi_checkpoint_framework(in->source)->side != NULL;
}

/* A map that was given says what the files of the source are, and nothing of the target. */
static bool is_for_reading(const swi_remap_in *in)
{
    return swi_checkpoint_framework(in->source)->side != NULL && in->options->from_names == NULL &&
           !in->options->dequantise;
}

/* Tensors were left out by choice. */
static bool is_partial(const swi_remap_in *in)
{
    return in->options->only != NULL || in->options->drop != NULL;
}

static bool means_unknown(sw_status st)
{
    return st == SW_ERR_NOTFOUND || st == SW_ERR_INCOMPLETE || st == SW_ERR_CONFLICT;
}

sw_status swi_remap_model(const swi_remap_in *in, const char *side, swi_model **out, sw_error *err)
{
    swi_store *assets = NULL;
    swi_model_ask ask = {.map = in->options->open.map,
                         .config = in->options->open.config,
                         .store = swi_checkpoint_store(in->source),
                         .side = side,
                         .untie = in->options->untie,
                         .limits = in->limits};
    sw_status st = SW_OK;
    if (in->options->assets != NULL)
        st = swi_store_open_posix(in->options->assets, &assets, err);
    ask.store2 = assets;
    if (st == SW_OK)
        st = swi_model_find(&ask, out, err);
    swi_store_close(assets);
    return st;
}

sw_status swi_remap_names(const swi_selection *s, swi_named **out, sw_error *err)
{
    sw_status st = swi_alloc_array(s->count, sizeof **out, (void **)out, err);
    for (size_t i = 0; st == SW_OK && i < s->count; i++)
        (*out)[i] = (swi_named){.name = s->items[i].name, .tensor = s->items[i].source};
    return st;
}

static sw_status find_sides(const swi_remap_in *in, const swi_model *model, const char *wanted,
                            size_t *from, size_t *to, sw_error *err)
{
    swi_named *names = NULL;
    const char *asked = in->options->from_names;
    const int64_t side = swi_model_side(model, wanted);
    if (side < 0)
        return swi_fail(err, SW_ERR_NOTFOUND, "map %s has no side %s", swi_model_name(model),
                        wanted);
    if (asked == NULL)
        asked = swi_checkpoint_framework(in->source)->side;
    *to = (size_t)side;
    sw_status st = swi_remap_names(in->weights, &names, err);
    if (st == SW_OK)
        st = swi_model_detect(model, names, in->weights->count, asked, is_partial(in), from, err);
    free(names);
    return st;
}

static sw_status say(const swi_remap_in *in, const swi_model *model, size_t from, size_t to,
                     sw_error *err)
{
    const swi_finding_in f = {.severity = SW_NOTE, .code = "mapped"};
    return swi_report_add(in->report, &f, err,
                          "the tensors are those of side %s of map %s; they "
                          "become those of side %s",
                          swi_model_side_name(model, from), swi_model_name(model),
                          swi_model_side_name(model, to));
}

static sw_status decide(const swi_remap_in *in, const char *wanted, swi_remap *made, sw_error *err)
{
    size_t from = 0;
    sw_status st = swi_remap_model(in, wanted, &made->model, err);
    if (st == SW_OK)
        st = find_sides(in, made->model, wanted, &from, &made->side, err);
    if (st != SW_OK)
        return st;
    const swi_mapping_in mapping = {
        .model = made->model,
        .from = from,
        .to = made->side,
        .source = in->source,
        .copies = in->target->framework->takes == SWI_TAKES_STATE,
        .partial = is_partial(in),
        .dequantise = in->options->dequantise,
        .report = in->report,
    };
    if (from == made->side && !is_asked_for(in))
        return SW_OK;
    st = swi_mapping_begin(&mapping, &made->mapping, err);
    return st == SW_OK ? say(in, made->model, from, made->side, err) : st;
}

/* What lies beside the source, and what is copied beside the result. */
static sw_status hold_configs(const swi_remap_in *in, const swi_model *model, sw_error *err)
{
    const char *map = in->options->open.map, *assets = in->options->assets;
    sw_status st = swi_model_agree(model, map, sw_checkpoint_root(in->source), in->report, err);
    return st == SW_OK && assets != NULL ? swi_model_agree(model, map, assets, in->report, err)
                                         : st;
}

/* What is written as it is, under the names that loaders of the model expect, is the model's. */
static sw_status refuse_flat(const swi_remap_in *in, const swi_remap *made, sw_error *err)
{
    swi_holding holding = {0};
    swi_named *names = NULL;
    if (made->mapping != NULL || in->target->framework->takes != SWI_TAKES_WEIGHTS)
        return SW_OK;
    sw_status st = swi_remap_names(in->weights, &names, err);
    if (st == SW_OK)
        st = swi_holding_make(made->model, made->side, names, in->weights->count, &holding, err);
    if (st == SW_OK)
        st = swi_holding_refuse_flat(&holding, sw_checkpoint_catalog(in->source), err);
    swi_holding_free(&holding);
    free(names);
    return st;
}

sw_status swi_remap_begin(const swi_remap_in *in, swi_remap *out, sw_error *err)
{
    const char *wanted = wanted_side(in);
    swi_remap made = {0};
    sw_error cause = {0};
    if (!is_asked_for(in) && (wanted == NULL || !may_be_known(in)))
        return SW_OK;
    if (wanted == NULL && is_for_reading(in))
        return SW_OK;
    if (wanted == NULL)
        return swi_fail(err, SW_ERR_ARG,
                        "--map, --from-names and --dequant are for names that the target is to "
                        "have: say which with --to %s:names=SIDE",
                        in->target->framework->name);
    sw_status st = decide(in, wanted, &made, &cause);
    if (st == SW_OK)
        st = hold_configs(in, made.model, &cause);
    if (st == SW_OK) {
        st = refuse_flat(in, &made, err);
        if (st == SW_OK)
            *out = made;
        else
            swi_remap_free(&made);
        return st;
    }
    swi_remap_free(&made);
    if (!is_asked_for(in) && means_unknown(st))
        return SW_OK;
    if (err != NULL)
        *err = cause;
    return st;
}

/* ---- what becomes of the selection -------------------------------------------------------------
 */

sw_status swi_remap_end(swi_remap *r, const sw_checkpoint *source, const sw_checkpoint **out,
                        sw_error *err)
{
    *out = source;
    if (r->mapping == NULL)
        return SW_OK;
    sw_status st = swi_mapping_end(r->mapping, &r->derived, err);
    if (st == SW_OK)
        st = swi_mapping_check(r->mapping, r->derived, err);
    if (st == SW_OK)
        *out = r->derived;
    return st;
}

/* What only a map has is chosen by its name there. */
static bool is_chosen(const sw_convert_options *o, const char *name)
{
    return (o->only == NULL || swi_select_match(o->only, name, name)) &&
           !swi_select_match(o->drop, name, name);
}

static sw_status take_mapped(swi_remap *r, const sw_convert_options *options,
                             const swi_mapped_list *list, swi_selection *s, sw_error *err)
{
    const sw_catalog *catalog = sw_checkpoint_catalog(r->derived);
    swi_chosen *items = NULL;
    sw_status st = swi_alloc_array(list->count, sizeof *items, (void **)&items, err);
    if (st != SW_OK)
        return st;
    size_t count = 0;
    for (size_t i = 0; i < list->count; i++) {
        const swi_mapped *m = &list->items[i];
        sw_tensor_info info;
        if (m->constant && !is_chosen(options, m->name))
            continue;
        (void)sw_catalog_tensor(catalog, m->tensor, &info);
        swi_chosen *item = &items[count++];
        *item = (swi_chosen){.source = m->tensor, .name = m->name, .scale = m->scale};
        item->dtype = m->dtype != SW_DTYPE_NONE ? m->dtype : swi_select_dtype(options, &info);
        if (m->scale >= 0)
            item->dtype = options->dtype != SW_DTYPE_NONE ? options->dtype : SW_BF16;
    }
    free(s->items);
    s->items = items;
    s->count = count;
    swi_selection_sort(s);
    return SW_OK;
}

sw_status swi_remap_weights(swi_remap *r, const sw_convert_options *options,
                            const sw_checkpoint *source, swi_selection *s,
                            const sw_checkpoint **out, sw_error *err)
{
    swi_named *names = NULL;
    swi_mapped_list list = {0};
    *out = source;
    if (r->mapping == NULL)
        return SW_OK;
    sw_status st = swi_remap_names(s, &names, err);
    if (st == SW_OK)
        st = swi_mapping_model(r->mapping, names, s->count, &list, err);
    if (st == SW_OK && list.count == 0)
        st = swi_fail(err, SW_ERR_ARG, "no tensor is left to write");
    if (st == SW_OK)
        st = swi_remap_end(r, source, out, err);
    if (st == SW_OK)
        st = take_mapped(r, options, &list, s, err);
    free(list.items);
    free(names);
    return st;
}
