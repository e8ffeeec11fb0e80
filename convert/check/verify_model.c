#include "check/verify_model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/text.h"
#include "check/coordinates.h"
#include "compare.h"
#include "map/holding.h"
#include "select/select.h"

#define COMPARE_BYTES ((size_t)1 << 20)

typedef struct checking {
    const sw_checkpoint *checkpoint;
    const sw_catalog *catalog;
    const sw_verify_options *options;
    sw_report *report;
    sw_verify_summary *sum;
    const swi_model *model;
    swi_holding holding;
} checking;

/* ---- what is tied -----------------------------------------------------------------------------
 */

static sw_status say_differ(const checking *k, const swi_tied_pair *pair, const char *how,
                            sw_error *err)
{
    const swi_finding_in in = {.severity = SW_DEFECT,
                               .status = SW_ERR_CONFLICT,
                               .code = "tied-differ",
                               .tensor = pair->name};
    swi_quoted q;
    return swi_report_add(k->report, &in, err,
                          "the configuration says that it and \"%s\" are one, but %s",
                          swi_quote_str(&q, pair->other), how);
}

static sw_status compare_elements(const checking *k, const swi_tied_pair *pair, sw_error *err)
{
    const swi_source source = swi_checkpoint_source(k->checkpoint);
    char at[SWI_COORDINATES_TEXT], how[SWI_COORDINATES_TEXT + 64];
    swi_compare_in in = {.a = &source,
                         .b = &source,
                         .tensor_a = pair->tensor,
                         .tensor_b = pair->other_tensor,
                         .buffer_bytes = COMPARE_BYTES};
    sw_tensor_info info;
    bool equal = true;
    uint64_t first = 0;
    sw_status st = swi_alloc_array(COMPARE_BYTES, 1, (void **)&in.buffer, err);
    if (st == SW_OK)
        st = swi_compare(&in, &equal, &first, err);
    free(in.buffer);
    if (st != SW_OK || equal)
        return st;
    (void)sw_catalog_tensor(k->catalog, pair->tensor, &info);
    swi_coordinates_text(&info, first, at);
    snprintf(how, sizeof how, "they differ, first at %s", at);
    return say_differ(k, pair, how, err);
}

/* Damaged ones, and those of a wrong shape, have their own findings. */
static bool can_compare(const checking *k, const swi_tied_pair *pair, sw_tensor_info *a,
                        sw_tensor_info *b)
{
    return sw_catalog_tensor(k->catalog, pair->tensor, a) &&
           sw_catalog_tensor(k->catalog, pair->other_tensor, b) && a->axes == b->axes &&
           memcmp(a->shape, b->shape, sizeof a->shape) == 0 &&
           swi_tensor_defect(k->catalog, pair->tensor) == SW_OK &&
           swi_tensor_defect(k->catalog, pair->other_tensor) == SW_OK;
}

static sw_status compare_pair(const checking *k, const swi_tied_pair *pair, sw_error *err)
{
    sw_tensor_info a, b;
    if (!pair->plain || !can_compare(k, pair, &a, &b))
        return SW_OK;
    if (a.dtype == b.dtype)
        return compare_elements(k, pair, err);
    char how[96];
    snprintf(how, sizeof how, "one is %s and the other %s", sw_dtype_name(a.dtype),
             sw_dtype_name(b.dtype));
    return say_differ(k, pair, how, err);
}

static sw_status say_tied(const checking *k, const swi_tied_pair *pair, sw_error *err)
{
    const bool first = pair->tensor != SWI_NO_TENSOR;
    const bool both = first && pair->other_tensor != SWI_NO_TENSOR;
    const swi_finding_in in = {
        .severity = SW_NOTE, .code = "tied", .tensor = first ? pair->name : pair->other};
    swi_quoted q;
    return swi_report_add(k->report, &in, err, "tied to \"%s\", as the configuration says; %s",
                          swi_quote_str(&q, first ? pair->other : pair->name),
                          both ? "both are stored" : "stored once");
}

static sw_status check_ties(const checking *k, sw_error *err)
{
    const bool reads = k->options->level == 0 || k->options->level >= SW_LEVEL_DIGEST;
    uint32_t atom = 0;
    swi_tied_pair pair;
    sw_status st = SW_OK;
    while (st == SW_OK && swi_holding_tied(&k->holding, &atom, &pair)) {
        const bool one = pair.tensor != SWI_NO_TENSOR, other = pair.other_tensor != SWI_NO_TENSOR;
        if (one || other)
            st = say_tied(k, &pair, err);
        if (st == SW_OK && one && other && reads)
            st = compare_pair(k, &pair, err);
    }
    return st;
}

/* ---- names and shapes -------------------------------------------------------------------------
 */

static sw_status find_side(const checking *k, const swi_named *names, size_t count, size_t *side,
                           sw_error *err)
{
    const char *own = swi_checkpoint_framework(k->checkpoint)->side;
    return own != NULL ? swi_model_detect(k->model, names, count, own, false, side, err)
                       : swi_model_nearest(k->model, names, count, side, err);
}

static sw_status check_names(checking *k, const swi_selection *selection, sw_error *err)
{
    const swi_holding_tell tell = {.catalog = k->catalog, .report = k->report};
    sw_verify_summary *s = k->sum;
    swi_named *names = NULL;
    size_t side = 0;
    sw_status st = swi_alloc_array(selection->count, sizeof *names, (void **)&names, err);
    for (size_t i = 0; st == SW_OK && i < selection->count; i++)
        names[i] = (swi_named){selection->items[i].name, selection->items[i].source};
    if (st == SW_OK)
        st = find_side(k, names, selection->count, &side, err);
    if (st == SW_OK)
        st = swi_holding_make(k->model, side, names, selection->count, &k->holding, err);
    if (st == SW_OK)
        st = swi_holding_say(&k->holding, &tell, &s->misshapen_tensors, NULL, err);
    if (st == SW_OK) {
        snprintf(s->map, sizeof s->map, "%s", swi_model_name(k->model));
        snprintf(s->side, sizeof s->side, "%s", swi_model_side_name(k->model, side));
        s->known_tensors = k->holding.known;
        s->unknown_tensors = k->holding.unknown;
        s->missing_tensors = k->holding.missing;
        st = check_ties(k, err);
    }
    swi_holding_free(&k->holding);
    free(names);
    return st;
}

/* The caller asked for a check that cannot be made; all else can. */
static sw_status nothing_to_check(const checking *k, const sw_error *cause, sw_error *err)
{
    const swi_finding_in in = {.severity = SW_WARNING, .status = cause->status, .code = "no-map"};
    k->sum->nothing_mapped = true;
    return swi_report_add(k->report, &in, err, "not held against a model: %s", cause->text);
}

/* Which tensors are the model. *found: it can be told; else that is said. */
static sw_status select_model(const checking *k, swi_selection *out, bool *found, sw_error *err)
{
    const sw_convert_options options = {.section = k->options->section};
    const swi_finding_in several = {
        .severity = SW_DEFECT, .status = SW_ERR_CONFLICT, .code = "conflict"};
    sw_error cause = {0};
    sw_status st = swi_select_any(k->checkpoint, &options, NULL, out, &cause);
    *found = st == SW_OK;
    if (st == SW_ERR_CONFLICT)
        return swi_report_error(k->report, &several, &cause, err);
    if (st == SW_ERR_NOTFOUND || st == SW_ERR_ARG)
        return nothing_to_check(k, &cause, err);
    if (st != SW_OK && err != NULL)
        *err = cause;
    return st;
}

sw_status swi_verify_model(const sw_checkpoint *checkpoint, const sw_verify_options *options,
                           sw_report *report, sw_verify_summary *summary, sw_error *err)
{
    const swi_model_ask ask = {.map = options->open.map,
                               .config = options->open.config,
                               .store = swi_checkpoint_store(checkpoint),
                               .side = swi_checkpoint_framework(checkpoint)->side,
                               .limits = options->open.limits};
    checking k = {.checkpoint = checkpoint,
                  .catalog = sw_checkpoint_catalog(checkpoint),
                  .options = options,
                  .report = report,
                  .sum = summary};
    swi_model *model = NULL;
    swi_selection selection = {0};
    sw_error cause = {0};
    bool found = false;
    sw_status st = swi_model_find(&ask, &model, &cause);
    if (st == SW_ERR_NOTFOUND && cause.sys_errno == 0)
        return nothing_to_check(&k, &cause, err);
    if (st != SW_OK && err != NULL)
        *err = cause;
    k.model = model;
    if (st == SW_OK)
        st = select_model(&k, &selection, &found, err);
    if (st == SW_OK && found)
        st = check_names(&k, &selection, err);
    swi_selection_free(&selection);
    swi_model_free(model);
    return st;
}
