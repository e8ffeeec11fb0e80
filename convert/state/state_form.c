#include "state/state_form.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/report.h"
#include "base/text.h"
#include "map/mapping.h"
#include "model/value.h"
#include "select/names.h"
#include "select/select.h"
#include "state/modules.h"
#include "state/places.h"

typedef struct reforming {
    const sw_checkpoint *checkpoint;
    const swi_state_form *form;
    swi_state *state;
    sw_report *report;
    uint64_t cleaned;  /* wrapper parts that were taken off */
    bool keep_module;  /* a leading "module" is a part of the model */
    bool used_names;   /* that were given */
    bool numbers_stay; /* parameters are called by their numbers */
    sw_error *err;
} reforming;

/* ---- optimizers ------------------------------------------------------------------------------ */

static swi_opt_keying wanted_keying(const reforming *r, const swi_optimizer *o)
{
    switch (r->form->optimizer) {
    case SWI_FORM_IDS:
        return SWI_OPT_NESTED_IDS;
    case SWI_FORM_FLAT:
        return SWI_OPT_FLAT;
    case SWI_FORM_NAMES:
        return o->keying == SWI_OPT_FLAT ? SWI_OPT_FLAT : SWI_OPT_NESTED_NAMES;
    default:
        return SWI_OPT_NESTED_NAMES;
    }
}

static const char *keying_text(swi_opt_keying keying)
{
    static const char *const texts[] = {[SWI_OPT_NESTED_NAMES] = "nested, by name",
                                        [SWI_OPT_NESTED_IDS] = "by number",
                                        [SWI_OPT_FLAT] = "flattened"};
    return texts[keying];
}

static const char *names_from(const swi_optimizer *o)
{
    static const char *const texts[] = {
        [SWI_OPT_NAMED] = "",
        [SWI_OPT_NAMED_STORED] = "; the names are its own param_names",
        [SWI_OPT_NAMED_GIVEN] = "; the names are those of --param-names",
        [SWI_OPT_NAMED_BY_MODEL] = "; the names are the model's, in the order of its map",
        [SWI_OPT_NAMED_BY_ORDER] = "; the names are the model's, in the one order that fits",
    };
    return texts[o->named_by];
}

static sw_status say_form(const reforming *r, const swi_optimizer *o, swi_opt_keying to)
{
    const swi_finding_in in = {.severity = SW_NOTE, .code = "optimizer-form"};
    swi_buf path = {0};
    swi_quoted q;
    sw_status st = SW_OK;
    for (size_t i = 0; st == SW_OK && i < o->path_parts; i++)
        st = swi_buf_printf(&path, r->err, "%s%s", i > 0 ? "." : "", o->path[i]);
    if (st == SW_OK)
        st = swi_report_add(
            r->report, &in, r->err, "optimizer \"%s\": %zu parameters, %s; was %s%s",
            swi_quote(&q, path.size > 0 ? path.data : (const uint8_t *)"", path.size),
            o->parameter_count, keying_text(to), keying_text(o->keying), names_from(o));
    swi_buf_free(&path);
    return st;
}

/* OPT-15: what a group that lists parameters by FSDP's units becomes. */
static sw_status say_order(const reforming *r, swi_opt_ordered ordered)
{
    const bool changed = ordered == SWI_OPT_ORDER_CHANGED;
    const swi_finding_in in = {.severity = changed ? SW_NOTE : SW_WARNING,
                               .code = "optimizer-order"};
    if (ordered == SWI_OPT_ORDER_KEPT)
        return SW_OK;
    return swi_report_add(
        r->report, &in, r->err, "%s",
        changed
            ? "groups listed parameters by the modules that FSDP wrapped; they are numbered in "
              "the order of registration"
            : "groups seem to list parameters by the modules that FSDP wrapped, and are numbered "
              "so; the order of registration, which other optimizers have, is not known: "
              "--config or --param-names tells it");
}

static sw_status order_groups(reforming *r, swi_optimizer *o)
{
    const swi_opt_naming *given = &r->form->naming;
    swi_order own = {0};
    swi_opt_ordered ordered;
    sw_status st = SW_OK;
    const bool use_given = given->name_count > 0 && given->numbers == NULL;
    if (!use_given && r->state->ordered)
        st = swi_state_order(r->checkpoint, r->state, &own, r->err);
    if (st == SW_OK)
        st = swi_optimizer_order(o, use_given ? given->names : own.names,
                                 use_given ? given->name_count : own.count, &ordered, r->err);
    swi_order_free(&own);
    return st == SW_OK ? say_order(r, ordered) : st;
}

static sw_status reform_optimizer(reforming *r, swi_optimizer *o)
{
    const swi_opt_keying to = wanted_keying(r, o);
    sw_value fresh;
    sw_status st = SW_OK;
    r->cleaned += o->cleaned;
    r->keep_module = r->keep_module || (o->named_by == SWI_OPT_NAMED && o->parameter_count > 0 &&
                                        swi_has_module_prefix(o->parameters[0]));
    r->used_names = r->used_names || o->named_by == SWI_OPT_NAMED_GIVEN;
    const bool add_names =
        r->form->param_names && to == SWI_OPT_NESTED_IDS && !o->has_param_names && !r->numbers_stay;
    if (to == o->keying && o->cleaned == 0 && r->form->mapping == NULL && !add_names)
        return SW_OK;
    o->has_param_names = o->has_param_names || add_names;
    if (r->form->mapping != NULL)
        st = swi_mapping_optimizer(r->form->mapping, o, r->err);
    else if (to == SWI_OPT_NESTED_IDS && o->keying != SWI_OPT_NESTED_IDS)
        st = order_groups(r, o);
    if (st == SW_OK)
        st = swi_optimizer_lower(o, to, r->state->graph, &fresh, r->err);
    if (st == SW_OK && to != o->keying)
        st = say_form(r, o, to);
    if (st == SW_OK)
        swi_graph_dict_swap(r->state->graph, o->dict, fresh);
    return st;
}

/* Numbers stay numbers where nothing wants their names, or, if these are not needed, they cannot be
 * known. */
static sw_status lift_optimizers(reforming *r, swi_optimizer **out, size_t *count, sw_error *cause)
{
    swi_opt_naming naming = r->form->naming;
    const bool by_number = r->form->optimizer == SWI_FORM_IDS && r->form->mapping == NULL;
    r->numbers_stay = by_number && !r->form->param_names;
    naming.numbers_stay = r->numbers_stay;
    sw_status st = swi_optimizers_lift(r->checkpoint, r->state, &naming, out, count, cause);
    if (!by_number || r->numbers_stay || (st != SW_ERR_CONFLICT && st != SW_ERR_INCOMPLETE))
        return st;
    r->numbers_stay = naming.numbers_stay = true;
    return swi_optimizers_lift(r->checkpoint, r->state, &naming, out, count, cause);
}

static sw_status reform_optimizers(reforming *r)
{
    swi_optimizer *optimizers = NULL;
    size_t count = 0;
    sw_error cause = {0};
    sw_status st = lift_optimizers(r, &optimizers, &count, &cause);
    if (st != SW_OK) {
        if (r->form->lenient && st != SW_ERR_NOMEM && st != SW_ERR_IO)
            return SW_OK;
        if (r->err != NULL)
            *r->err = cause;
        return st;
    }
    for (size_t i = 0; st == SW_OK && i < count; i++)
        st = reform_optimizer(r, &optimizers[i]);
    swi_optimizers_free(optimizers, count);
    return st;
}

/* ---- modules --------------------------------------------------------------------------------- */

static bool is_parameter(const reforming *r, sw_value v)
{
    return swi_value_is_parameter(r->checkpoint, r->state->graph, v);
}

/* Whether the dict is a module's: it holds parameters. *all_module: all of them begin so. */
static bool is_module(const reforming *r, sw_value dict, bool *all_module)
{
    const sw_value_graph *g = r->state->graph;
    sw_value key, v;
    bool any = false;
    *all_module = true;
    for (size_t i = 0; sw_value_pair(g, dict, i, &key, &v); i++) {
        const char *name = is_parameter(r, v) ? swi_key_text(g, key) : NULL;
        any = any || name != NULL;
        *all_module = *all_module && (name == NULL || swi_has_module_prefix(name));
    }
    return any;
}

static sw_status clean_key(reforming *r, sw_value key, bool drop_module, sw_value *out)
{
    sw_value_graph *g = r->state->graph;
    const char *name = swi_key_text(g, key);
    swi_buf clean = {0};
    *out = key;
    if (name == NULL)
        return SW_OK;
    const uint64_t before = r->cleaned;
    sw_status st = swi_clean_name(name, drop_module, &clean, &r->cleaned, r->err);
    if (st == SW_OK && r->cleaned != before)
        st = swi_graph_text(g, SW_VALUE_STR, clean.data, clean.size - 1, out, r->err);
    swi_buf_free(&clean);
    return st;
}

static sw_status same_name(const reforming *r, sw_value key)
{
    swi_quoted q;
    const char *name = swi_key_text(r->state->graph, key);
    return swi_fail(r->err, SW_ERR_CONFLICT,
                    "state dict: two names of a module would become \"%s\"; --keep-prefix leaves "
                    "names as they are, --drop leaves one out",
                    swi_quote_str(&q, name != NULL ? name : ""));
}

static sw_status clean_module(reforming *r, sw_value dict, bool drop_module)
{
    sw_value_graph *g = r->state->graph;
    const uint64_t before = r->cleaned;
    sw_value fresh, pair[2], there;
    sw_status st = swi_graph_dict(g, &fresh, r->err);
    for (size_t i = 0; st == SW_OK && sw_value_pair(g, dict, i, &pair[0], &pair[1]); i++) {
        st = clean_key(r, pair[0], drop_module, &pair[0]);
        if (st == SW_OK && swi_dict_find(g, fresh, pair[0], &there))
            st = same_name(r, pair[0]);
        if (st == SW_OK)
            st = swi_graph_set_items(g, fresh, pair, 1, r->err);
    }
    if (st == SW_OK && r->cleaned != before)
        swi_graph_dict_swap(g, dict, fresh);
    return st;
}

static sw_status set_mapped(reforming *r, const swi_mapped_list *list, sw_value fresh)
{
    sw_value_graph *g = r->state->graph;
    sw_status st = SW_OK;
    for (size_t i = 0; st == SW_OK && i < list->count; i++) {
        const swi_mapped *m = &list->items[i];
        sw_value pair[2] = {{0}, swi_value_of_tensor(m->tensor)};
        if (m->scale >= 0 || m->dtype != SW_DTYPE_NONE)
            return swi_fail(r->err, SW_ERR_UNSUPPORTED,
                            "tensor \"%s\": a state dict is not cast or dequantised on the way; "
                            "convert to hf first",
                            m->name);
        st = swi_graph_text(g, SW_VALUE_STR, m->name, strlen(m->name), &pair[0], r->err);
        if (st == SW_OK)
            st = swi_graph_set_items(g, fresh, pair, 1, r->err);
    }
    return st;
}

/* What is no tensor of the model stays, behind what is. */
static sw_status map_module(reforming *r, sw_value dict)
{
    sw_value_graph *g = r->state->graph;
    swi_named *names = NULL;
    swi_mapped_list list = {0};
    sw_value fresh, pair[2];
    size_t count;
    bool known = false;
    sw_status st = swi_module_tensors(r->checkpoint, g, dict, &names, &count, r->err);
    for (size_t i = 0; st == SW_OK && !known && i < count; i++)
        known = swi_mapping_knows(r->form->mapping, names[i].name);
    if (!known) { /* tensors of something else */
        free(names);
        return st;
    }
    if (st == SW_OK)
        st = swi_mapping_model(r->form->mapping, names, count, &list, r->err);
    if (st == SW_OK)
        st = swi_graph_dict(g, &fresh, r->err);
    if (st == SW_OK)
        st = set_mapped(r, &list, fresh);
    for (size_t i = 0; st == SW_OK && sw_value_pair(g, dict, i, &pair[0], &pair[1]); i++)
        if (!is_parameter(r, pair[1]) || swi_key_text(g, pair[0]) == NULL)
            st = swi_graph_set_items(g, fresh, pair, 1, r->err);
    if (st == SW_OK)
        swi_graph_dict_swap(g, dict, fresh);
    free(names);
    free(list.items);
    return st;
}

static sw_status reform_module(reforming *r, sw_value dict, bool drop_module)
{
    sw_status st = SW_OK;
    if (!r->form->naming.keep_prefixes)
        st = clean_module(r, dict, drop_module);
    return st == SW_OK && r->form->mapping != NULL ? map_module(r, dict) : st;
}

static sw_status reform_modules(reforming *r)
{
    swi_places places;
    sw_status st = swi_places_begin(&places, r->state->graph, r->state->root, r->err);
    for (size_t i = 0; st == SW_OK && i < places.count; i++) {
        sw_value dict;
        bool all_module;
        if (sw_value_as_dict(r->state->graph, places.items[i].v, &dict) &&
            is_module(r, dict, &all_module))
            st = reform_module(r, dict, all_module && !r->keep_module);
        if (st == SW_OK)
            st = swi_places_below(&places, i, r->err);
    }
    swi_places_end(&places);
    return st;
}

/* ---- both ------------------------------------------------------------------------------------ */

static sw_status say_unused(const reforming *r)
{
    const swi_finding_in in = {.severity = SW_WARNING, .code = "param-names-unused"};
    if (r->form->naming.name_count == 0 || r->form->naming.by_model || r->used_names)
        return SW_OK;
    return swi_report_add(r->report, &in, r->err,
                          "the names of --param-names are not needed: no optimizer that is written "
                          "has numbers without names");
}

sw_status swi_state_reform(const sw_checkpoint *checkpoint, const swi_state_form *form,
                           swi_state *state, sw_report *report, sw_error *err)
{
    reforming r = {
        .checkpoint = checkpoint, .form = form, .state = state, .report = report, .err = err};
    sw_status st = SW_OK;
    if (form->optimizer != SWI_FORM_KEEP && !form->without_optimizers)
        st = reform_optimizers(&r);
    if (st == SW_OK && form->optimizer == SWI_FORM_KEEP && form->mapping != NULL)
        st = swi_fail(err, SW_ERR_ARG,
                      "optimizer=keep leaves all names as they are, so no map can change them");
    if (st == SW_OK && form->optimizer != SWI_FORM_KEEP &&
        (form->mapping != NULL || !form->naming.keep_prefixes))
        st = reform_modules(&r);
    if (st == SW_OK)
        st = swi_select_say_cleaned(report, r.cleaned, err);
    return st == SW_OK ? say_unused(&r) : st;
}
