#include "target/leaf_division.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "map/model.h"
#include "select/sections.h"

#define OPTIONS_MAX (2U * SWI_MESH_AXES_MAX)
#define AXIS_NAME_MAX 64U

/* What there is without a layout: rows over dp, all of it again for each of replicate (DCP-21). */
static const char rows[] = "layout: 1\n"
                           "mesh: {replicate: 1, dp: 1, tp: 1}\n"
                           "rules:\n"
                           "  - {tensor: '**', dims: [dp]}\n";

/* ---- options -------------------------------------------------------------------------------- */

typedef struct options {
    char names[OPTIONS_MAX][AXIS_NAME_MAX];
    const char *text[OPTIONS_MAX]; /* where they stand */
    swi_axis_size given[OPTIONS_MAX];
    size_t count;
} options;

static bool parse_count(const char *text, size_t size, uint64_t *out)
{
    uint64_t n = 0;
    for (size_t i = 0; i < size; i++) {
        if (text[i] < '0' || text[i] > '9' || n > SWI_TARGET_RANKS_MAX)
            return false;
        n = n * 10 + (uint64_t)(text[i] - '0');
    }
    *out = n;
    return n > 0 && n <= SWI_TARGET_RANKS_MAX;
}

/* "ranks=8", "dp=8": the last one of a name counts. */
static bool parse_option(options *o, const char *text, size_t size)
{
    const char *equals = memchr(text, '=', size);
    size_t name = equals != NULL ? (size_t)(equals - text) : 0, i = 0;
    uint64_t n;
    if (name == 0 || name >= AXIS_NAME_MAX || !parse_count(equals + 1, size - name - 1, &n))
        return false;
    bool ranks = name == strlen("ranks") && memcmp(text, "ranks", name) == 0;
    const char *axis = ranks ? "dp" : text;
    name = ranks ? strlen("dp") : name;
    while (i < o->count && (strlen(o->names[i]) != name || memcmp(o->names[i], axis, name) != 0))
        i++;
    if (i == OPTIONS_MAX)
        return false;
    memcpy(o->names[i], axis, name);
    o->names[i][name] = '\0';
    o->text[i] = text;
    o->given[i] = (swi_axis_size){.name = o->names[i], .size = n};
    o->count += i == o->count;
    return true;
}

static sw_status no_option(const swi_leaf_division *d, const char *text, size_t size, sw_error *err)
{
    swi_quoted q;
    return swi_fail(err, SW_ERR_ARG,
                    "--to %s:%s: not an option; there are ranks=N (or dp=N), replicate=R, with a "
                    "layout tp=T and its other axes, together up to %u ranks, and %s",
                    d->of.target, swi_quote(&q, text, size), SWI_TARGET_RANKS_MAX,
                    d->of.more_options);
}

static sw_status parse_options(const swi_leaf_division *d, options *out, sw_error *err)
{
    const char *text = d->of.in->options;
    while (*text != '\0') {
        size_t n = strcspn(text, ",");
        if (!parse_option(out, text, n))
            return no_option(d, text, n, err);
        text += n + (text[n] == ',');
    }
    return SW_OK;
}

/* ---- rules ---------------------------------------------------------------------------------- */

static uint64_t size_of(const options *o, const char *axis)
{
    for (size_t i = 0; i < o->count; i++)
        if (strcmp(o->names[i], axis) == 0)
            return o->given[i].size;
    return 1;
}

/* Without a layout there are rows: another axis has nothing to split. */
static sw_status check_rows(const swi_leaf_division *d, const options *o, sw_error *err)
{
    for (size_t i = 0; i < o->count; i++)
        if (!swi_rules_has_axis(d->own, o->names[i]))
            return no_option(d, o->text[i], strcspn(o->text[i], ","), err);
    if (size_of(o, "tp") > 1)
        return swi_fail(err, SW_ERR_ARG,
                        "--to %s:tp=%" PRIu64 ": how tensors are split is not known without "
                        "--layout FILE; shardwright inspect CHECKPOINT --emit-layout writes that "
                        "of a checkpoint that has one, and maps know one: names=hf",
                        d->of.target, size_of(o, "tp"));
    return SW_OK;
}

/* How the map says that ranks divide the tensors of its side; NULL: it does not. */
static const swi_rules *side_rules(const swi_target_in *in)
{
    return in->model != NULL && swi_model_layout_count(in->model, in->side) > 0
               ? swi_model_layout(in->model, in->side, 0)
               : NULL;
}

static sw_status choose_rules(swi_leaf_division *d, const options *o, const swi_rules **out,
                              sw_error *err)
{
    const swi_target_in *in = d->of.in;
    *out = in->rules;
    if (*out == NULL && size_of(o, "tp") > 1)
        *out = side_rules(in);
    if (*out != NULL)
        return SW_OK;
    sw_status st = swi_rules_parse_text(rows, strlen(rows), "rows", &in->limits, &d->own, err);
    *out = d->own;
    return st == SW_OK ? check_rows(d, o, err) : st;
}

static sw_status make_division(swi_leaf_division *d, sw_error *err)
{
    options o = {.count = 0};
    const swi_rules *rules = NULL;
    sw_status st = parse_options(d, &o, err);
    if (st == SW_OK)
        st = choose_rules(d, &o, &rules, err);
    if (st == SW_OK)
        st = swi_division_make(rules,
                               d->of.in->model != NULL ? swi_model_scope(d->of.in->model) : NULL,
                               o.given, o.count, &d->division, err);
    if (st == SW_OK && swi_division_ranks(d->division) > SWI_TARGET_RANKS_MAX)
        st = swi_fail(err, SW_ERR_ARG, "--to %s: more than %u ranks in all", d->of.target,
                      SWI_TARGET_RANKS_MAX);
    if (st != SW_OK)
        return st;
    d->ranks = (uint32_t)swi_division_ranks(d->division);
    return swi_alloc_array(swi_rules_count(rules), sizeof *d->used, (void **)&d->used, err);
}

/* ---- names ---------------------------------------------------------------------------------- */

/* The name of the leaf in its module, in d->name. */
static sw_status name_leaf(swi_leaf_division *d, const swi_state_part *leaf, sw_error *err)
{
    swi_section section = {0};
    sw_status st = swi_section_of_leaf(leaf, &section, err);
    d->name.size = 0;
    if (st == SW_OK)
        st = swi_buf_append(&d->name, section.name.data, section.name.size, err);
    swi_section_end(&section);
    return st;
}

static sw_status add_parameter(swi_leaf_division *d, const swi_state_part *leaf, sw_error *err)
{
    uint32_t id;
    bool is_new;
    sw_status st = name_leaf(d, leaf, err);
    if (st == SW_OK)
        st = swi_names_add(d->names, d->name.data, strlen((const char *)d->name.data), &id, &is_new,
                           err);
    if (st == SW_OK)
        st = swi_grow_array((void **)&d->parameter, &d->parameter_capacity, (size_t)id + 1,
                            sizeof *d->parameter, err);
    if (st == SW_OK && is_new)
        d->parameter[id] = leaf->tensor->source;
    return st;
}

static sw_status learn_parameters(swi_leaf_division *d, bool *optimizer, sw_error *err)
{
    const sw_catalog *catalog = sw_checkpoint_catalog(d->of.in->source);
    sw_status st = swi_names_make(&d->names, err);
    for (size_t i = 0; st == SW_OK && i < d->of.in->leaf_count; i++) {
        const swi_state_part *leaf = &d->of.in->leaves[i];
        sw_tensor_info info;
        if (leaf->tensor == NULL || !sw_catalog_tensor(catalog, leaf->tensor->source, &info))
            continue;
        *optimizer = *optimizer || (info.role == SW_ROLE_OPTIMIZER && info.axes > 0);
        if (info.role == SW_ROLE_PARAMETER)
            st = add_parameter(d, leaf, err);
    }
    return st;
}

/* DCP-21: a state is divided as its parameter is. */
static sw_status learn_states(swi_leaf_division *d, sw_error *err)
{
    const sw_checkpoint *source = d->of.in->source;
    size_t tensors = sw_catalog_tensor_count(sw_checkpoint_catalog(source));
    sw_status st = swi_alloc_array(tensors, sizeof *d->state_of, (void **)&d->state_of, err);
    if (st == SW_OK)
        st = swi_optimizers_lift(source, d->of.in->state, NULL, &d->optimizers, &d->optimizer_count,
                                 err);
    for (size_t i = 0; st == SW_OK && i < d->optimizer_count; i++) {
        const swi_optimizer *o = &d->optimizers[i];
        for (size_t k = 0; k < o->state_count; k++) {
            uint32_t tensor;
            if (sw_value_tensor(d->of.in->state->graph, o->states[k].value, &tensor))
                d->state_of[tensor] = o->parameters[o->states[k].parameter];
        }
    }
    return st;
}

static sw_status learn_names(swi_leaf_division *d, sw_error *err)
{
    bool optimizer = false;
    if (d->own != NULL)
        return SW_OK;
    sw_status st = learn_parameters(d, &optimizer, err);
    return st == SW_OK && optimizer ? learn_states(d, err) : st;
}

swi_leaf_division_in swi_leaf_division_dcp(const swi_target_in *in)
{
    return (swi_leaf_division_in){.in = in,
                                  .target = "dcp",
                                  .what = "a DCP folder",
                                  .more_options =
                                      "files=ranks with device=cpu|cuda and mesh=NAME+NAME"};
}

sw_status swi_leaf_division_make(const swi_leaf_division_in *in, swi_leaf_division *out,
                                 sw_error *err)
{
    swi_leaf_division made = {.of = *in};
    sw_status st = make_division(&made, err);
    if (st == SW_OK)
        st = learn_names(&made, err);
    if (st == SW_OK)
        *out = made;
    else
        swi_leaf_division_end(&made);
    return st;
}

void swi_leaf_division_end(swi_leaf_division *d)
{
    swi_division_free(d->division);
    swi_rules_free(d->own);
    swi_names_free(d->names);
    swi_optimizers_free(d->optimizers, d->optimizer_count);
    swi_buf_free(&d->name);
    free(d->used);
    free(d->parameter);
    free(d->state_of);
    *d = (swi_leaf_division){0};
}

/* ---- one tensor ----------------------------------------------------------------------------- */

/* The name by which the rules know a tensor; NULL: it is written whole. */
static sw_status rule_name(swi_leaf_division *d, const swi_state_part *leaf,
                           const sw_tensor_info *info, const char **out, sw_error *err)
{
    sw_tensor_info parameter;
    *out = leaf->name;
    if (d->own != NULL)
        return SW_OK;
    if (info->role != SW_ROLE_OPTIMIZER) {
        sw_status st = name_leaf(d, leaf, err);
        *out = (const char *)d->name.data;
        return st;
    }
    *out = d->state_of != NULL ? d->state_of[leaf->tensor->source] : NULL;
    if (*out == NULL)
        return SW_OK;
    int64_t id = swi_names_find(d->names, *out, strlen(*out));
    if (id >= 0 && (!sw_catalog_tensor(sw_checkpoint_catalog(d->of.in->source), d->parameter[id],
                                       &parameter) ||
                    parameter.axes != info->axes ||
                    memcmp(parameter.shape, info->shape, info->axes * sizeof *info->shape) != 0))
        *out = NULL;
    return SW_OK;
}

/* What is refused of the tensor: words, what is divided, words. */
static sw_status refuse(const swi_leaf_division *d, const swi_state_part *leaf, size_t rule,
                        const char *why, const char *behind, sw_error *err)
{
    swi_quoted q, pattern;
    return swi_fail_at(
        err, SW_ERR_UNSUPPORTED, "DCP-21", 0, "tensor \"%s\": %s %s %s (rule \"%s\")",
        swi_quote_str(&q, leaf->name), why, d->of.what, behind,
        swi_quote_str(&pattern, swi_rules_pattern(swi_division_rules(d->division), rule)));
}

sw_status swi_leaf_cut(swi_leaf_division *d, const swi_state_part *leaf, bool *whole, swi_cut *out,
                       sw_error *err)
{
    sw_tensor_info info;
    const char *name;
    swi_cut cut;
    sw_catalog_tensor(sw_checkpoint_catalog(d->of.in->source), leaf->tensor->source, &info);
    *whole = info.role == SW_ROLE_OTHER || info.axes == 0 || info.elements == 0;
    if (*whole)
        return SW_OK;
    sw_status st = rule_name(d, leaf, &info, &name, err);
    *whole = name == NULL;
    if (st != SW_OK || *whole)
        return st;
    st = swi_divide(d->division, name, info.axes, info.shape, &cut, err);
    if (st != SW_OK)
        return st;
    d->used[cut.rule] = true;
    if (cut.axes != info.axes && !d->of.flat_too)
        return refuse(d, leaf, cut.rule, "a flat row of elements is no box of it, as",
                      "has them; use dims", err);
    if (cut.overlap)
        return refuse(d, leaf, cut.rule, "ranks hold some of the same elements beside others, and",
                      "has each once", err);
    *out = cut;
    return SW_OK;
}

sw_status swi_leaf_division_say(const swi_leaf_division *d, sw_error *err)
{
    return d->of.in->rules == NULL
               ? SW_OK
               : swi_rules_say_unused(d->of.in->rules, d->used, d->of.in->report, err);
}
