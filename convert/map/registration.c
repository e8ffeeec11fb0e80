#include "map/registration.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/names.h"
#include "base/report.h"

/* Of two that are one the module has the first. */
static void leave_out_tied(const swi_model *model, size_t side, bool *left_out)
{
    swi_model_tensor t;
    for (size_t i = 0; swi_model_tensor_at(model, side, i, &t); i++) {
        const int64_t to = t.tied_to != NULL ? swi_model_tensor_find(model, side, t.tied_to) : -1;
        if (to >= 0)
            left_out[(size_t)to > i ? (size_t)to : i] = true;
    }
}

static sw_status leave_out_lacking(const swi_model *model, size_t side, const swi_named *have,
                                   size_t count, bool *left_out, sw_error *err)
{
    swi_names *names = NULL;
    swi_model_tensor t;
    uint32_t id;
    sw_status st = swi_names_make(&names, err);
    for (size_t i = 0; st == SW_OK && i < count; i++)
        st = swi_names_add(names, have[i].name, strlen(have[i].name), &id, NULL, err);
    for (size_t i = 0; st == SW_OK && swi_model_tensor_at(model, side, i, &t); i++)
        left_out[i] = left_out[i] || t.buffer || t.constant ||
                      (t.optional && swi_names_find(names, t.name, strlen(t.name)) < 0);
    swi_names_free(names);
    return st;
}

sw_status swi_registration_of(const swi_model *model, size_t side, const swi_named *have,
                              size_t count, swi_param_names *out, sw_error *err)
{
    const size_t tensors = swi_model_tensor_count(model, side);
    swi_param_names made = {0};
    swi_model_tensor t;
    bool *left_out = NULL;
    sw_status st = swi_alloc_array(tensors, sizeof *left_out, (void **)&left_out, err);
    if (st == SW_OK)
        st = swi_alloc_array(tensors, sizeof *made.items, (void **)&made.items, err);
    if (st == SW_OK) {
        leave_out_tied(model, side, left_out);
        st = leave_out_lacking(model, side, have, count, left_out, err);
    }
    for (size_t i = 0; st == SW_OK && swi_model_tensor_at(model, side, i, &t); i++) {
        if (left_out[i])
            continue;
        st = swi_arena_text(&made.arena, t.name, strlen(t.name), &made.items[made.count], err);
        made.count += st == SW_OK;
    }
    free(left_out);
    if (st == SW_OK)
        *out = made;
    else
        swi_param_names_free(&made);
    return st;
}

static sw_status find(const swi_remap_in *in, const swi_model *model, swi_param_names *out,
                      sw_error *err)
{
    const char *asked = in->options->from_names;
    swi_named *names = NULL;
    size_t side = 0;
    if (asked == NULL)
        asked = swi_checkpoint_framework(in->source)->side;
    sw_status st = swi_remap_names(in->weights, &names, err);
    if (st == SW_OK)
        st = swi_model_detect(model, names, in->weights->count, asked, true, &side, err);
    if (st == SW_OK)
        st = swi_registration_of(model, side, names, in->weights->count, out, err);
    free(names);
    return st;
}

sw_status swi_registration_find(const swi_remap_in *in, const swi_model *model,
                                swi_param_names *out, sw_error *err)
{
    const swi_finding_in unknown = {.severity = SW_WARNING, .code = "no-map"};
    swi_model *found = NULL;
    sw_error cause = {0};
    sw_status st = SW_OK;
    if (model == NULL)
        st = swi_remap_model(in, NULL, &found, &cause);
    if (st == SW_OK)
        st = find(in, model != NULL ? model : found, out, &cause);
    swi_model_free(found);
    if ((st == SW_ERR_NOTFOUND && cause.sys_errno == 0) || st == SW_ERR_INCOMPLETE ||
        st == SW_ERR_CONFLICT)
        return swi_report_add(in->report, &unknown, err,
                              "the order of the model's parameters is not known: %s", cause.text);
    if (st != SW_OK && err != NULL)
        *err = cause;
    return st;
}
