/*
 * Converting: open, select, lay out, prove, move, publish. No step looks at what the frameworks on
 * either side are; no tensor byte passes through here.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/report.h"
#include "base/text.h"
#include "check/replica_check.h"
#include "compare.h"
#include "convert.h"
#include "execute.h"
#include "flat/unflatten.h"
#include "io/txn.h"
#include "map/registration.h"
#include "map/remap.h"
#include "notation/rules.h"
#include "optimizer/param_names.h"
#include "plan_show.h"
#include "select/select.h"
#include "select/ties.h"
#include "source/held.h"
#include "source/identity.h"
#include "state/values.h"
#include "target/publish.h"
#include "target/target.h"

typedef struct job {
    const char *source_path, *dest;
    sw_checkpoint *given; /* the source, opened by the caller; NULL: it is at source_path */
    const sw_convert_options *options;
    swi_target target;
    swi_param_names param_names;
    bool order_of_model;  /* they are what its map and configuration say */
    uint8_t *layout_text; /* of --layout */
    size_t layout_size;
    swi_rules *rules;
    sw_limits limits;
    sw_report *report;
    sw_convert_summary *sum;
    sw_open_options open;
    sw_checkpoint *source;
    swi_remap remap;
    const sw_checkpoint *whole; /* the source, or what a map derives from it */
    swi_assets assets;
    swi_selection selection;
    swi_layout *layout;
    char id[SWI_IDENTITY_TEXT];
} job;

static sw_status find_target(job *j, sw_error *err)
{
    sw_status st = swi_target_parse(j->options->to, &j->target, err);
    if (st == SW_OK)
        snprintf(j->sum->target, sizeof j->sum->target, "%s", j->target.framework->name);
    return st;
}

static sw_status read_param_names(job *j, sw_error *err)
{
    const char *path = j->options->param_names;
    if (path == NULL)
        return SW_OK;
    if (j->target.framework->optimizer_forms == 0)
        return swi_fail(err, SW_ERR_ARG,
                        "--param-names is for targets that hold the optimizer, --to %s does not",
                        j->target.framework->name);
    return swi_param_names_read(path, &j->limits, j->options->keep_prefixes, &j->param_names, err);
}

/* LAY-9: rules say how tensors are cut, units which modules are wrapped; a target wants one. */
static sw_status check_layout(const job *j, sw_error *err)
{
    const char *name = j->target.framework->name;
    size_t units;
    (void)swi_rules_units(j->rules, &units);
    if (j->target.framework->wraps && swi_rules_count(j->rules) > 0)
        return swi_fail_at(err, SW_ERR_ARG, "LAY-9", 0,
                           "--to %s divides in its own way: of a layout it takes the units "
                           "(units: [\"model.layers.{n}\"]); leave mesh and rules out",
                           name);
    if (!j->target.framework->wraps && units > 0)
        return swi_fail_at(err, SW_ERR_ARG, "LAY-9", 0,
                           "units are the modules that a target wraps, and --to %s wraps none; "
                           "leave them out",
                           name);
    return SW_OK;
}

static sw_status read_layout(job *j, sw_error *err)
{
    const char *path = j->options->layout;
    if (path == NULL)
        return SW_OK;
    if (j->target.framework->side != NULL)
        return swi_fail(err, SW_ERR_ARG,
                        "--to %s divides as side %s of the map says: give another --map, not "
                        "--layout",
                        j->target.framework->name, j->target.framework->side);
    if (!j->target.framework->divides)
        return swi_fail(err, SW_ERR_ARG,
                        "--layout is for targets whose ranks hold parts of tensors, --to %s has "
                        "whole ones",
                        j->target.framework->name);
    sw_status st = swi_read_file(path, SWI_YAML_MAX_BYTES, &j->layout_text, &j->layout_size, err);
    if (st == SW_OK)
        st = swi_rules_parse_text(j->layout_text, j->layout_size, path, &j->limits, &j->rules, err);
    if (st == SW_OK)
        st = check_layout(j, err);
    return st == SW_OK ? SW_OK : swi_error_prefix(err, "--layout");
}

/* Whether the report holds a finding of that severity; the first one's text. */
static const sw_finding *first_of(const sw_report *report, sw_severity severity)
{
    for (size_t i = 0; report != NULL && i < sw_report_count(report); i++) {
        const sw_finding *f = sw_report_at(report, i);
        if (f->severity == severity)
            return f;
    }
    return NULL;
}

/* A source that is read by a model's configuration is read by that of the assets, if they have one.
 */
static sw_status set_config(job *j, sw_error *err)
{
    swi_store *store = NULL;
    swi_entry entry;
    sw_error cause = {0};
    j->open = j->options->open;
    if (j->open.param_names == NULL)
        j->open.param_names = j->options->param_names;
    if (j->open.config != NULL || j->options->assets == NULL)
        return SW_OK;
    sw_status st = swi_store_open_posix(j->options->assets, &store, &cause);
    if (st == SW_OK && swi_store_stat(store, "config.json", &entry, &cause) == SW_OK)
        j->open.config = j->options->assets;
    swi_store_close(store);
    return st == SW_ERR_NOMEM ? swi_fail_nomem(err) : SW_OK; /* reading them will say the rest */
}

/* FS-14: a weight of one axis under the name of a flat parameter is nobody's weight. */
static sw_status refuse_rows(const job *j, sw_error *err)
{
    const swi_rows_left left = swi_checkpoint_rows_left(j->source);
    const bool wants_states =
        j->target.framework->takes == SWI_TAKES_STATE && !j->options->drop_optimizer;
    if (left == SWI_ROWS_NONE || (left == SWI_ROWS_OF_OPTIMIZERS && !wants_states))
        return SW_OK;
    for (size_t i = 0; j->report != NULL && i < sw_report_count(j->report); i++) {
        const sw_finding *f = sw_report_at(j->report, i);
        if (strcmp(f->code, "flat-parameters") == 0)
            return swi_fail_at(
                err, SW_ERR_INCOMPLETE, "FS-14", 0, "\"%s\": %s%s", f->tensor, f->message,
                left == SWI_ROWS_OF_MODEL ? ""
                                          : "; --drop-role optimizer leaves the optimizer behind");
    }
    return swi_fail_at(err, SW_ERR_INCOMPLETE, "FS-14", 0,
                       "flat parameters, of which nothing tells what is in them; --shapes does");
}

static sw_status open_source(job *j, sw_error *err)
{
    sw_status st = set_config(j, err);
    if (st == SW_OK && j->given != NULL)
        j->source = j->given;
    else if (st == SW_OK)
        st = sw_checkpoint_open(j->source_path, &j->open, j->report, &j->source, err);
    if (st != SW_OK)
        return st;
    snprintf(j->sum->framework, sizeof j->sum->framework, "%s", sw_checkpoint_framework(j->source));
    st = swi_values_scan(j->source, j->report, err);
    if (st != SW_OK)
        return st;
    const sw_finding *danger = first_of(j->report, SW_DANGER);
    if (danger == NULL || j->options->drop_unsafe)
        return refuse_rows(j, err);
    return swi_fail_at(err, SW_ERR_UNSAFE, "", danger->offset_bytes,
                       "%s: %s; --drop-unsafe converts the tensors and leaves it behind",
                       danger->file, danger->message);
}

/*
 * A defect anywhere is a doubt about the whole, so it refuses the conversion, unless the caller has
 * said what is to be left out: then only what remains must be whole (selection sees to that).
 */
static sw_status refuse_defects(const job *j, sw_error *err)
{
    const sw_convert_options *o = j->options;
    const sw_finding *f = first_of(j->report, SW_DEFECT);
    if (f == NULL || o->only != NULL || o->drop != NULL || o->drop_optimizer)
        return SW_OK;
    sw_status status = f->status != SW_OK ? f->status : SW_ERR_CORRUPT;
    bool begins_so = f->file[0] && strncmp(f->message, f->file, strlen(f->file)) == 0;
    const char *file = begins_so ? "" : f->file, *tensor = f->tensor;
    return swi_fail(err, status,
                    "%s%s%s%s%s%s; verify lists all that is wrong, and --drop-role optimizer or "
                    "--only converts what is whole",
                    file, file[0] ? ": " : "", tensor[0] ? "\"" : "", tensor,
                    tensor[0] ? "\": " : "", f->message);
}

/* NAT-7: terms that are not added up are no elements yet, and have no digest. */
static sw_status refuse_terms(const job *j, sw_error *err)
{
    const bool held = j->target.framework->holds_terms;
    for (uint32_t i = 0; i < swi_checkpoint_own_tensors(j->source); i++) {
        sw_tensor_info info;
        swi_held tensor;
        swi_quoted q;
        if ((held && j->options->digests == NULL) || !swi_held_tensor(j->source, i, &tensor) ||
            !tensor.partial)
            continue;
        sw_catalog_tensor(sw_checkpoint_catalog(j->source), i, &info);
        return swi_fail_at(err, SW_ERR_UNSUPPORTED, "NAT-7", 0,
                           "tensor \"%s\": its ranks hold terms of it that are not added up "
                           "(Partial), %s; reduce it before it is saved",
                           swi_quote_str(&q, info.name),
                           held ? "which have no digest" : "and native alone keeps them");
    }
    return SW_OK;
}

/* The one floating-point type of the tensors to be written, or SW_DTYPE_NONE. */
static sw_dtype common_dtype(const swi_selection *s)
{
    sw_dtype found = SW_DTYPE_NONE;
    for (size_t i = 0; i < s->count; i++) {
        sw_dtype d = s->items[i].dtype;
        if (!sw_dtype_is_float(d) || d == found)
            continue;
        if (found != SW_DTYPE_NONE)
            return SW_DTYPE_NONE;
        found = d;
    }
    return found;
}

/* A source that brings its own configuration has what goes beside the weights too. */
static const char *assets_folder(const job *j)
{
    if (j->options->assets != NULL)
        return j->options->assets;
    const bool own = j->remap.mapping != NULL && j->target.framework->takes == SWI_TAKES_WEIGHTS &&
                     swi_listing_find(swi_checkpoint_listing(j->source), "config.json") != NULL;
    return own ? sw_checkpoint_root(j->source) : NULL;
}

static sw_status read_assets(job *j, sw_error *err)
{
    bool changed = false;
    sw_status st;
    const char *folder = assets_folder(j);
    if (folder == NULL)
        return SW_OK;
    st = swi_assets_read(folder, &j->limits, &j->assets, err);
    if (st != SW_OK || j->target.framework->takes == SWI_TAKES_STATE)
        return st; /* they are copied as they are */
    /* a map says itself what is tied */
    if (st == SW_OK && j->remap.mapping == NULL)
        st = swi_resolve_ties(j->source, &j->assets, j->options, j->report, &j->selection, err);
    sw_dtype dtype = common_dtype(&j->selection);
    if (st == SW_OK)
        st = swi_assets_adjust(&j->assets, dtype ? sw_dtype_name(dtype) : NULL, j->options->untie,
                               j->options->dequantise, &j->limits, &changed, err);
    if (st == SW_OK && changed) {
        swi_finding_in in = {.severity = SW_NOTE, .code = "config-changed", .file = "config.json"};
        st = swi_report_add(j->report, &in, err,
                            "config.json says now what the weights are (dtype, tied embeddings)");
    }
    if (st == SW_OK && !j->assets.has_config) {
        swi_finding_in in = {.severity = SW_WARNING, .code = "no-config"};
        st = swi_report_add(j->report, &in, err, "the assets folder has no config.json");
    }
    return st;
}

static sw_status lay_out(job *j, sw_error *err)
{
    sw_status st = swi_layout_make(&j->limits, &j->layout, err);
    if (st != SW_OK)
        return st;
    swi_target_in in = {
        .source = j->whole,
        .chosen = j->selection.items,
        .count = j->selection.count,
        .model = j->remap.model,
        .side = j->remap.side,
        .state = j->selection.state.graph != NULL ? &j->selection.state : NULL,
        .leaves = j->selection.leaves,
        .leaf_count = j->selection.leaf_count,
        .assets = &j->assets,
        .rules = j->rules,
        .target = &j->target,
        .options = (const char *)j->target.options.data,
        .convert = j->options,
        .limits = j->limits,
        .report = j->report,
    };
    st = j->target.framework->layout(&in, j->layout, err);
    if (st == SW_OK)
        st = swi_layout_freeze(j->layout, err);
    return st;
}

static void summarise(job *j)
{
    const sw_catalog *catalog = swi_layout_catalog(j->layout);
    sw_convert_summary *s = j->sum;
    s->tensors = sw_catalog_tensor_count(catalog) + swi_layout_view_count(j->layout);
    s->files = sw_catalog_file_count(catalog);
    for (size_t i = 0; i < s->files; i++) {
        sw_file_info f;
        if (sw_catalog_file(catalog, i, &f))
            s->bytes += f.bytes;
    }
    s->dropped_tensors = j->selection.dropped;
    s->dropped_values = j->selection.dropped_values;
    s->optimizer_tensors = j->selection.optimizer;
    s->other_tensors = j->selection.other;
    s->tied_tensors = j->selection.tied;
    s->values = j->selection.values;
    s->incomplete =
        swi_checkpoint_incomplete(j->source) ||
        (j->target.framework->takes == SWI_TAKES_WEIGHTS && swi_checkpoint_opaque(j->source));
    s->partial = s->incomplete ||
                 (j->target.framework->holds_optimizer && s->optimizer_tensors > 0) ||
                 (j->target.framework->holds_values && s->values > 0);
    uint64_t memory =
        j->options->work.memory_bytes ? j->options->work.memory_bytes : UINT64_C(40) << 20;
    s->peak_memory_bytes =
        memory + sw_catalog_memory(catalog) + sw_catalog_memory(sw_checkpoint_catalog(j->whole));
    if (s->peak_memory_bytes < swi_checkpoint_open_memory(j->source))
        s->peak_memory_bytes = swi_checkpoint_open_memory(j->source);
}

/* The proof that precedes every move. */
static sw_status prove(const job *j, sw_error *err)
{
    const sw_catalog *source = sw_checkpoint_catalog(j->whole);
    swi_plan *plan = NULL;
    uint64_t window = swi_execute_window_bytes(&j->options->work, source, j->layout);
    sw_status st = swi_plan_make(source, j->layout, window, NULL, NULL, &plan, err);
    if (st == SW_OK)
        st = swi_plan_check(plan, source, j->layout, &j->options->work, err);
    swi_plan_free(plan);
    return st;
}

/* What the target made of the source: the order of things in it is in no option. */
static void identify_pieces(const job *j, uint32_t tensor, swi_identity *id)
{
    const sw_catalog *catalog = sw_checkpoint_catalog(j->whole);
    sw_tensor_info info;
    (void)sw_catalog_tensor(catalog, tensor, &info);
    for (uint64_t i = 0; i < info.piece_count; i++) {
        swi_piece piece;
        swi_tensor_piece(catalog, tensor, i, &piece);
        swi_identity_number(id, piece.blob);
        swi_identity_number(id, (uint64_t)piece.base_bytes);
        for (uint32_t k = 0; k < piece.axes; k++) {
            swi_identity_number(id, (uint64_t)piece.view[k]);
            swi_identity_number(id, (uint64_t)piece.offset[k]);
            swi_identity_number(id, (uint64_t)piece.length[k]);
            swi_identity_number(id, (uint64_t)piece.stride_bytes[k]);
        }
    }
}

static sw_status identify(job *j, sw_error *err)
{
    const sw_convert_options *o = j->options;
    swi_identity id;
    swi_identity_begin(&id);
    swi_identity_text(&id, sw_version());
    sw_status st = swi_identity_source(&id, j->source, err);
    if (st != SW_OK)
        return st;
    swi_identity_text(&id, o->to);
    swi_identity_number(&id, j->selection.count);
    for (size_t i = 0; i < j->selection.count; i++) {
        swi_identity_text(&id, j->selection.items[i].name);
        swi_identity_number(&id, j->selection.items[i].source);
        swi_identity_number(&id, j->selection.items[i].dtype);
        swi_identity_number(&id, (uint64_t)(j->selection.items[i].scale + 1));
    }
    for (size_t i = 0; j->selection.derived != NULL && i < j->selection.count; i++)
        identify_pieces(j, j->selection.items[i].source, &id);
    swi_identity_number(&id, j->selection.leaf_count);
    for (size_t i = 0; i < j->selection.leaf_count; i++)
        swi_identity_text(&id, j->selection.leaves[i].name);
    if (j->remap.mapping != NULL)
        swi_mapping_identify(j->remap.mapping, &id);
    else if (j->remap.model != NULL)
        swi_model_identify(j->remap.model, &id);
    for (size_t i = 0; i < j->param_names.count; i++) {
        swi_identity_text(&id, j->param_names.items[i]);
        if (j->param_names.numbers != NULL)
            swi_identity_number(&id, j->param_names.numbers[i]);
    }
    swi_identity_number(&id, j->layout_size);
    swi_identity_bytes(&id, j->layout_text, j->layout_size);
    for (size_t i = 0; i < j->assets.count; i++) {
        swi_identity_text(&id, j->assets.items[i].path);
        swi_identity_bytes(&id, j->assets.items[i].data, j->assets.items[i].size);
    }
    swi_identity_end(&id, j->id);
    return SW_OK;
}

/* Files of ranks that are of different steps make no model, whether it shows in it or not. */
static sw_status compare_counters(const job *j, sw_error *err)
{
    bool equal = true;
    if (j->options->drop_optimizer || j->options->drop != NULL || j->options->only != NULL)
        return SW_OK;
    sw_status st = swi_counters_check(j->whole, j->report, &equal, err);
    return st != SW_OK || equal
               ? st
               : swi_fail(err, SW_ERR_CONFLICT,
                          "the optimizer's counters differ from rank to rank: the files are of "
                          "different saves; take a step that all ranks saved");
}

/* Copies of chosen tensors must agree, whichever the plan will take. */
static sw_status compare_replicas(const job *j, sw_error *err)
{
    for (size_t i = 0; i < j->selection.count; i++) {
        sw_tensor_info info;
        swi_quoted q;
        bool equal;
        sw_status st =
            swi_replica_check(j->whole, j->selection.items[i].source, j->report, &equal, err);
        if (st != SW_OK)
            return st;
        if (equal)
            continue;
        sw_catalog_tensor(sw_checkpoint_catalog(j->whole), j->selection.items[i].source, &info);
        return swi_fail(err, SW_ERR_CONFLICT,
                        "tensor \"%s\": ranks saved copies that differ, and nothing tells which "
                        "is right; leave it out with --drop",
                        swi_quote_str(&q, info.name));
    }
    return SW_OK;
}

static swi_remap_in remap_in(const job *j, const swi_selection *weights)
{
    return (swi_remap_in){.source = j->source,
                          .target = &j->target,
                          .options = j->options,
                          .weights = weights,
                          .limits = &j->limits,
                          .report = j->report};
}

/* The names of the model's tensors tell which side of a map they are of. */
static sw_status begin_map(job *j, const swi_selection *weights, sw_error *err)
{
    const swi_remap_in in = remap_in(j, weights);
    return swi_remap_begin(&in, &j->remap, err);
}

static sw_status select_weights(job *j, sw_error *err)
{
    sw_status st = swi_select(j->source, j->options, j->report, &j->selection, err);
    if (st == SW_OK)
        st = begin_map(j, &j->selection, err);
    return st == SW_OK
               ? swi_remap_weights(&j->remap, j->options, j->source, &j->selection, &j->whole, err)
               : st;
}

static bool wants_map(const job *j)
{
    return j->target.names[0] != '\0' || j->options->from_names != NULL || j->options->dequantise;
}

/* Whether names for numbered parameters may be wanted, and something says what the model is. */
static bool wants_order(const job *j)
{
    const sw_open_options *open = &j->options->open;
    const bool stay = j->target.form == SWI_FORM_KEEP || j->target.form == SWI_FORM_IDS;
    return j->param_names.count == 0 && (j->target.names[0] != '\0' || !stay) &&
           (open->config != NULL || open->map != NULL || j->remap.model != NULL);
}

static sw_status read_order(job *j, const swi_selection *weights, sw_error *err)
{
    const swi_remap_in in = remap_in(j, weights);
    j->order_of_model = true;
    return swi_registration_find(&in, j->remap.model, &j->param_names, err);
}

static sw_status read_model(job *j, sw_error *err)
{
    swi_selection weights = {0};
    sw_error cause = {0};
    if (!wants_map(j) && !wants_order(j))
        return SW_OK;
    sw_status st = swi_select(j->source, j->options, NULL, &weights, &cause);
    if (st != SW_OK) {
        if (!wants_map(j) && st != SW_ERR_NOMEM && st != SW_ERR_IO)
            return SW_OK; /* whoever needs an order says that there is none */
        if (err != NULL)
            *err = cause;
        return st;
    }
    if (wants_map(j))
        st = begin_map(j, &weights, err);
    if (st == SW_OK && wants_order(j))
        st = read_order(j, &weights, err);
    swi_selection_free(&weights);
    return st;
}

static sw_status select_state(job *j, sw_error *err)
{
    sw_status st = read_model(j, err);
    if (st != SW_OK)
        return st;
    swi_state_form form = {.optimizer = j->target.form,
                           .naming = {.names = j->param_names.items,
                                      .numbers = j->param_names.numbers,
                                      .name_count = j->param_names.count,
                                      .by_model = j->order_of_model},
                           .param_names = j->target.param_names,
                           .mapping = j->remap.mapping};
    if (swi_unflat_has_names(swi_checkpoint_unflat(j->source)))
        form.naming = (swi_opt_naming){0}; /* opening the source has used them */
    if (form.mapping != NULL && form.optimizer == SWI_FORM_KEEP && !j->target.form_asked)
        form.optimizer = SWI_FORM_NAMES;
    const swi_select_in in = {.checkpoint = j->source,
                              .form = &form,
                              .remap = &j->remap,
                              .target = &j->target,
                              .rules = j->rules,
                              .options = j->options,
                              .report = j->report};
    return swi_select_state(&in, &j->whole, &j->selection, err);
}

static sw_status select_parts(job *j, sw_error *err)
{
    return j->target.framework->takes == SWI_TAKES_STATE ? select_state(j, err)
                                                         : select_weights(j, err);
}

/* A cast of all that is written may be done again when it is hashed, or be done to the source. */
static swi_publish_in publish_in(const job *j)
{
    const bool all = j->target.framework->takes == SWI_TAKES_WEIGHTS;
    const bool rows = j->selection.derived != NULL; /* as they were laid out, not undone */
    return (swi_publish_in){
        .source = j->whole,
        .layout = j->layout,
        .dest = j->dest,
        .one_file = j->target.one_file,
        .by_pieces = j->target.framework->side != NULL || rows,
        .open = {.from = j->target.reader->name,
                 .map = rows ? NULL : j->open.map,
                 .config = rows ? NULL : j->open.config,
                 .limits = j->open.limits},
        .id = j->id,
        .once = j->given != NULL,
        .hashed = {.weights = j->selection.settled, .as = all ? j->options->dtype : SW_DTYPE_NONE},
        .options = j->options,
        .report = j->report};
}

/* Before the proof, which may take a while: what cannot be written is refused at once. */
static sw_status check_destination(const job *j, sw_error *err)
{
    if (j->dest == NULL)
        return SW_OK;
    swi_publish_in in = publish_in(j);
    return swi_publish_check(&in, err);
}

static sw_status prepare(job *j, sw_error *err)
{
    sw_status st = find_target(j, err);
    if (st == SW_OK)
        st = read_param_names(j, err);
    if (st == SW_OK)
        st = read_layout(j, err);
    if (st == SW_OK)
        st = open_source(j, err);
    if (st == SW_OK) {
        sw_report_sort(j->report);
        st = refuse_defects(j, err);
    }
    if (st == SW_OK)
        st = refuse_terms(j, err);
    if (st == SW_OK)
        st = select_parts(j, err);
    if (st == SW_OK)
        st = compare_counters(j, err);
    if (st == SW_OK)
        st = compare_replicas(j, err);
    if (st == SW_OK)
        st = read_assets(j, err);
    if (st == SW_OK)
        st = lay_out(j, err);
    if (st == SW_OK)
        st = identify(j, err);
    if (st == SW_OK)
        st = check_destination(j, err);
    if (st == SW_OK)
        st = prove(j, err);
    if (st == SW_OK)
        summarise(j);
    return st;
}

static sw_status run(job *j, sw_plan_fn on_plan, void *plan_ctx, sw_convert_summary *out,
                     sw_error *err)
{
    sw_convert_summary sum = {0};
    j->sum = &sum;
    j->limits = sw_limits_resolve(j->options->open.limits);
    sw_status st = prepare(j, err);
    if (st == SW_OK)
        swi_plan_show_rules(&j->remap, j->options);
    if (st == SW_OK)
        swi_plan_show_tensors(j->layout, j->whole, on_plan, plan_ctx);
    if (st == SW_OK && !j->options->dry_run) {
        swi_publish_in in = publish_in(j);
        st = swi_publish(&in, &sum, err);
    }
    swi_layout_free(j->layout);
    swi_target_end(&j->target);
    swi_param_names_free(&j->param_names);
    swi_rules_free(j->rules);
    free(j->layout_text);
    swi_selection_free(&j->selection);
    swi_assets_free(&j->assets);
    swi_remap_free(&j->remap);
    if (j->given == NULL)
        sw_checkpoint_close(j->source);
    if (st == SW_OK)
        *out = sum;
    return st;
}

sw_status swi_convert(sw_checkpoint *source, const char *dest, const sw_convert_options *options,
                      sw_report *report, sw_convert_summary *out, sw_error *err)
{
    job j = {.given = source, .dest = dest, .options = options, .report = report};
    return run(&j, NULL, NULL, out, err);
}

sw_status sw_convert(const char *source, const char *dest, const sw_convert_options *options,
                     sw_plan_fn on_plan, void *plan_ctx, sw_report *report, sw_convert_summary *out,
                     sw_error *err)
{
    if (source == NULL || options == NULL || report == NULL || out == NULL ||
        (dest == NULL && !options->dry_run))
        return swi_fail(err, SW_ERR_ARG, "sw_convert: source, dest, options and report are needed");
    job j = {.source_path = source, .dest = dest, .options = options, .report = report};
    return run(&j, on_plan, plan_ctx, out, err);
}
