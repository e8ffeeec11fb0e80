/*
 * PyTorch's first FullyShardedDataParallel as a target: its three kinds of state dicts. What they
 * lie in is the business of other targets: one file of torch.save (torch), a DCP folder (dcp);
 * here is what FSDP1 makes of the state dict. Clauses FS-n are those of specs/fsdp1.md.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/report.h"
#include "base/text.h"
#include "dcp/dcp.h"
#include "frameworks.h"
#include "fsdp1/fsdp1_module.h"
#include "fsdp1/fsdp1_options.h"
#include "fsdp1/fsdp1_ranks.h"
#include "state/modules.h"
#include "state/places.h"
#include "target/target.h"
#include "torch/torch.h"

/* ---- what the options make of it ------------------------------------------------------------- */

static sw_status choose(swi_target *target, sw_error *err)
{
    swi_fsdp1_options o;
    sw_status st = swi_fsdp1_options_parse((const char *)target->options.data, &o, err);
    if (st != SW_OK)
        return st;
    target->one_file = o.mode == SWI_FSDP1_FULL;
    target->reader = target->one_file ? &swi_framework_torch
                     : o.rank_files   ? &swi_framework_rank_files
                                      : &swi_framework_dcp;
    target->rank_values = o.rank_files;
    if ((o.mode == SWI_FSDP1_LOCAL || o.rank_files) && target->form == SWI_FORM_KEEP)
        return swi_fail_at(err, SW_ERR_ARG, "FS-31", 0,
                           "--to fsdp1: parameters are flattened by their names, so "
                           "optimizer=keep cannot keep what they are called");
    if (target->form != SWI_FORM_IDS || target->one_file)
        return SW_OK;
    if (!o.rank_files)
        return swi_fail_at(err, SW_ERR_ARG, "FS-31", 0,
                           "--to fsdp1: optimizer=ids is for mode=full and for files=ranks; in a "
                           "DCP folder FSDP1 has its optimizer by names");
    target->form = SWI_FORM_NAMES; /* numbers are given to the flat parameters */
    target->form_asked = false;
    return SW_OK;
}

/* ---- reshaping ------------------------------------------------------------------------------- */

typedef struct reshaping {
    const swi_reshape_in *in;
    swi_fsdp1_options options;
    swi_state *state;
    bool raw;
    swi_optimizer *optimizers;
    size_t optimizer_count;
    swi_fsdp1_order order;
    bool has_order;
    swi_fsdp1_module *modules;
    sw_value *dicts; /* of the modules */
    size_t module_count, module_capacity, dict_capacity;
    swi_flattening *flattening;
} reshaping;

static sw_status add_module(reshaping *r, sw_value dict, const swi_named *have, size_t count,
                            sw_error *err)
{
    sw_status st = SW_OK;
    if (!r->has_order)
        st = swi_fsdp1_order_find(r->in, have, count, &r->order, err);
    r->has_order = st == SW_OK;
    if (st == SW_OK)
        st = swi_grow_array((void **)&r->modules, &r->module_capacity, r->module_count + 1,
                            sizeof *r->modules, err);
    if (st == SW_OK)
        st = swi_grow_array((void **)&r->dicts, &r->dict_capacity, r->module_count + 1,
                            sizeof *r->dicts, err);
    if (st != SW_OK)
        return st;
    r->dicts[r->module_count] = dict;
    st = swi_fsdp1_module_make(r->in, &r->order, have, count, r->state->ordered,
                               &r->modules[r->module_count], err);
    r->module_count += st == SW_OK;
    return st;
}

static sw_status look_at(reshaping *r, sw_value v, sw_error *err)
{
    swi_named *have = NULL;
    size_t count = 0;
    sw_value dict;
    if (!sw_value_as_dict(r->state->graph, v, &dict))
        return SW_OK;
    sw_status st = swi_module_tensors(r->in->checkpoint, r->state->graph, dict, &have, &count, err);
    if (st == SW_OK && count > 0)
        st = add_module(r, dict, have, count, err);
    free(have);
    return st;
}

static sw_status find_modules(reshaping *r, sw_error *err)
{
    swi_places places;
    sw_status st = swi_places_begin(&places, r->state->graph, r->state->root, err);
    for (size_t i = 0; st == SW_OK && i < places.count; i++) {
        st = look_at(r, places.items[i].v, err);
        if (st == SW_OK)
            st = swi_places_below(&places, i, err);
    }
    swi_places_end(&places);
    return st;
}

/* The module that an optimizer trains: one that has all of its parameters. */
static sw_status module_of(const reshaping *r, const swi_optimizer *o, const swi_fsdp1_module **out,
                           sw_error *err)
{
    for (size_t m = 0; m < r->module_count; m++) {
        bool all = true;
        for (size_t i = 0; all && i < o->parameter_count; i++)
            all = swi_flat_parameter(&r->modules[m].flat, o->parameters[i]) >= 0;
        *out = &r->modules[m];
        if (all)
            return SW_OK;
    }
    return swi_fail_at(err, SW_ERR_CONFLICT, "FS-23", 0,
                       "optimizer: no module of the state dict has all of its parameters as "
                       "parameters; --drop-role optimizer leaves it behind");
}

/* What has told the rows tells what is a parameter, which an optimizer of rows does not. */
static sw_status note_parameters(reshaping *r, const swi_flat_module *m, sw_error *err)
{
    sw_status st = SW_OK;
    if (r->state->parameters == NULL)
        st = swi_names_make(&r->state->parameters, err);
    for (size_t i = 0; st == SW_OK && i < m->shapes->count; i++) {
        const char *name = m->shapes->items[i].name;
        uint32_t id;
        bool is_new;
        if (swi_flat_parameter(m, name) >= 0)
            st = swi_names_add(r->state->parameters, name, strlen(name), &id, &is_new, err);
    }
    return st;
}

static sw_status flatten_optimizer(reshaping *r, swi_optimizer *o, sw_error *err)
{
    const swi_fsdp1_module *m = NULL;
    sw_value fresh = {0};
    sw_status st = module_of(r, o, &m, err);
    if (st == SW_OK && !r->raw)
        return swi_flatten_check(o, &m->flat, err);
    if (st == SW_OK)
        st = swi_flatten_optimizer(r->flattening, o, &m->flat, r->options.ranks, err);
    if (st == SW_OK)
        st = swi_optimizer_lower(o, SWI_OPT_NESTED_IDS, r->state->graph, &fresh, err);
    if (st == SW_OK)
        swi_graph_dict_swap(r->state->graph, o->dict, fresh);
    return st;
}

static sw_status say(const reshaping *r, const swi_fsdp1_module *m, sw_error *err)
{
    const swi_finding_in in = {.severity = SW_NOTE, .code = "flattened"};
    size_t parameters = 0;
    for (size_t i = 0; i < m->rows.count; i++)
        parameters += m->rows.items[i].count;
    if (m->units_from == NULL)
        return swi_report_add(
            r->in->report, &in, err,
            "%zu parameters make %zu flat parameter, in the order of %s; only the root is wrapped, "
            "as nothing says more (units of --layout: layout: 1, units: [\"model.layers.{n}\"])",
            parameters, m->rows.count, m->flat.shapes->from);
    return swi_report_add(r->in->report, &in, err,
                          "%zu parameters make %zu flat parameters, in the order of %s; the root "
                          "and %zu modules are wrapped, which %s says",
                          parameters, m->rows.count, m->flat.shapes->from, m->unit_count,
                          m->units_from);
}

static sw_status flatten(reshaping *r, sw_checkpoint **out, sw_error *err)
{
    sw_status st = swi_flatten_begin(r->in->checkpoint, &r->flattening, err);
    for (size_t i = 0; st == SW_OK && i < r->optimizer_count; i++)
        st = flatten_optimizer(r, &r->optimizers[i], err);
    for (size_t i = 0; st == SW_OK && i < r->module_count; i++) {
        if (r->options.mode == SWI_FSDP1_LOCAL)
            st = swi_flatten_module(r->flattening, r->state->graph, r->dicts[i],
                                    &r->modules[i].flat, err);
        if (st == SW_OK)
            st = note_parameters(r, &r->modules[i].flat, err);
        if (st == SW_OK)
            st = say(r, &r->modules[i], err);
    }
    return st == SW_OK ? swi_flatten_end(r->flattening, out, err) : st;
}

static sw_status lift(reshaping *r, sw_error *err)
{
    sw_error cause = {0};
    if (r->in->without_optimizers)
        return SW_OK;
    sw_status st = swi_optimizers_lift(r->in->checkpoint, r->state, NULL, &r->optimizers,
                                       &r->optimizer_count, &cause);
    if (st == SW_OK || (r->in->lenient && st != SW_ERR_NOMEM && st != SW_ERR_IO))
        return SW_OK;
    if (err != NULL)
        *err = cause;
    return st;
}

static sw_status reshape(const swi_reshape_in *in, swi_state *state, sw_checkpoint **out,
                         sw_error *err)
{
    reshaping r = {.in = in, .state = state};
    sw_status st = swi_fsdp1_options_parse((const char *)in->target->options.data, &r.options, err);
    if (st != SW_OK)
        return st;
    r.raw = swi_fsdp1_is_raw(&r.options, in->target);
    if (r.options.mode != SWI_FSDP1_LOCAL && !r.raw)
        return SW_OK;
    st = lift(&r, err);
    if (st == SW_OK && (r.options.mode == SWI_FSDP1_LOCAL || r.optimizer_count > 0)) {
        st = find_modules(&r, err);
        if (st == SW_OK)
            st = flatten(&r, out, err);
    }
    swi_optimizers_free(r.optimizers, r.optimizer_count);
    for (size_t i = 0; i < r.module_count; i++)
        swi_fsdp1_module_free(&r.modules[i]);
    free(r.modules);
    free(r.dicts);
    swi_fsdp1_order_end(&r.order);
    swi_flatten_free(r.flattening);
    return st;
}

/* ---- laying out ------------------------------------------------------------------------------ */

static sw_status lay(const swi_target_in *in, swi_layout *layout, sw_error *err)
{
    swi_fsdp1_options o;
    char options[64];
    swi_target_in own = *in;
    sw_status st = swi_fsdp1_options_parse(in->options, &o, err);
    if (st != SW_OK)
        return st;
    own.rules = NULL; /* of a layout only the units count */
    own.options = "";
    if (o.mode == SWI_FSDP1_FULL)
        return swi_torch_layout(&own, layout, err);
    if (o.rank_files)
        return swi_fsdp1_lay_ranks(&own, &o, layout, err);
    snprintf(options, sizeof options, "dp=%" PRIu64 ",replicate=%" PRIu64, o.ranks, o.replicate);
    own.options = options;
    return swi_dcp_layout(&own, layout, err);
}

const swi_framework swi_framework_fsdp1 = {
    .name = "fsdp1",
    .title = "PyTorch FSDP1 (full, sharded or local state dict)",
    .target = "fsdp1[:dp=N][,mode=sharded|full|local][,replicate=R]",
    .takes = SWI_TAKES_STATE,
    .optimizer_forms = SWI_FORM_BIT(SWI_FORM_KEEP) | SWI_FORM_BIT(SWI_FORM_NESTED) |
                       SWI_FORM_BIT(SWI_FORM_FLAT) | SWI_FORM_BIT(SWI_FORM_IDS),
    .optimizer_form = SWI_FORM_NAMES,
    .choose = choose,
    .reshape = reshape,
    .layout = lay,
    .holds_optimizer = true,
    .holds_values = true,
    .divides = true,
    .wraps = true,
    .reader = &swi_framework_dcp,
};
