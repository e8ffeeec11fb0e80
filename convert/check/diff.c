/* What two checkpoints hold, side by side, whatever their layouts. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/report.h"
#include "base/text.h"
#include "cast.h"
#include "check/coordinates.h"
#include "check/diff_value.h"
#include "check/pairing.h"
#include "compare.h"
#include "load.h"
#include "select/select.h"

typedef struct side {
    sw_checkpoint *checkpoint;
    const sw_catalog *catalog;
    swi_source source;
    swi_selection selection;
    bool *selected; /* by index */
    swi_named *names;
    size_t count;
} side;

typedef struct diffing {
    const sw_diff_options *options;
    sw_difference_fn fn;
    void *ctx;
    sw_report *report;
    sw_diff_summary sum;
    side a, b;
    swi_tolerance tolerance;
    bool any_expected;
    bool section_met; /* a side has the section that was asked for */
} diffing;

static bool matches(const char *const *globs, const char *name)
{
    for (; name != NULL && globs != NULL && *globs != NULL; globs++) {
        if (swi_glob_match(*globs, name))
            return true;
    }
    return false;
}

static bool is_wanted(const diffing *d, const char *name)
{
    return d->options->only == NULL || matches(d->options->only, name);
}

/* ---- opening and names -------------------------------------------------------------------- */

/*
 * The weights of one side: of the section that was asked for, or where there is none of that name,
 * those at the top. In another section they would be something else.
 */
static sw_status select_side(diffing *d, side *s, sw_error *err)
{
    static const sw_convert_options plain = {0};
    const sw_convert_options asked = {.section = d->options->section};
    sw_error cause = {0};
    sw_status st = swi_select(s->checkpoint, &asked, NULL, &s->selection, &cause);
    if (st == SW_OK) {
        d->section_met = true;
        return SW_OK;
    }
    if (st == SW_ERR_NOTFOUND && asked.section != NULL &&
        swi_select(s->checkpoint, &plain, NULL, &s->selection, err) == SW_OK) {
        if (s->selection.section[0] == '\0')
            return SW_OK;
        swi_selection_free(&s->selection);
    }
    if (err != NULL)
        *err = cause;
    return st;
}

static sw_status open_side(diffing *d, const char *path, side *s, char *framework, sw_error *err)
{
    sw_status st = sw_checkpoint_open(path, &d->options->open, d->report, &s->checkpoint, err);
    if (st != SW_OK)
        return st;
    s->catalog = sw_checkpoint_catalog(s->checkpoint);
    s->source = swi_checkpoint_source(s->checkpoint);
    snprintf(framework, sizeof d->sum.framework_a, "%s", sw_checkpoint_framework(s->checkpoint));
    size_t tensors = sw_catalog_tensor_count(s->catalog);
    size_t values = sw_catalog_value_count(s->catalog);
    st = swi_alloc_array(tensors, sizeof *s->selected, (void **)&s->selected, err);
    if (st == SW_OK)
        st = swi_alloc_array(tensors > values ? tensors : values, sizeof *s->names,
                             (void **)&s->names, err);
    if (st != SW_OK)
        return st;
    sw_error cause = {0};
    st = select_side(d, s, &cause);
    if (st == SW_ERR_ARG && d->options->state)
        return SW_OK; /* a checkpoint without weights */
    if (st != SW_OK && err != NULL)
        *err = cause;
    return st;
}

static sw_status no_section(const diffing *d, sw_error *err)
{
    swi_quoted q;
    return swi_fail(err, SW_ERR_NOTFOUND,
                    "--section %s: neither side has tensors in a part of that name; see inspect",
                    swi_quote_str(&q, d->options->section));
}

static void close_side(side *s)
{
    swi_selection_free(&s->selection);
    free(s->selected);
    free(s->names);
    sw_checkpoint_close(s->checkpoint);
}

static void add_name(const diffing *d, side *s, const char *name, size_t index)
{
    if (is_wanted(d, name))
        s->names[s->count++] = (swi_named){.name = name, .index = (uint32_t)index};
}

static void name_weights(const diffing *d, side *s)
{
    s->count = 0;
    for (size_t i = 0; i < s->selection.count; i++) {
        s->selected[s->selection.items[i].source] = true;
        add_name(d, s, s->selection.items[i].name, s->selection.items[i].source);
    }
}

static void name_others(const diffing *d, side *s)
{
    s->count = 0;
    for (size_t i = 0; i < sw_catalog_tensor_count(s->catalog); i++) {
        sw_tensor_info info;
        sw_catalog_tensor(s->catalog, i, &info);
        if (!s->selected[i])
            add_name(d, s, info.name, i);
    }
}

static void name_values(const diffing *d, side *s)
{
    s->count = 0;
    for (size_t i = 0; i < sw_catalog_value_count(s->catalog); i++) {
        sw_value_info info;
        sw_catalog_value_at(s->catalog, i, &info);
        add_name(d, s, info.name, i);
    }
}

static sw_status pair_sides(diffing *d, sw_error *err)
{
    swi_prefix prefix;
    swi_quoted room;
    swi_pair_names(d->a.names, d->a.count, d->b.names, d->b.count, &prefix);
    if (prefix.names == 0)
        return SW_OK;
    swi_finding_in in = {.severity = SW_NOTE, .code = "prefix"};
    return swi_report_add(
        d->report, &in, err, "%zu names were paired by a prefix: those of %s begin with \"%s\"",
        prefix.names, prefix.on_b ? "B" : "A", swi_quote(&room, prefix.text, prefix.size));
}

/* ---- saying ------------------------------------------------------------------------------- */

static void tell(diffing *d, sw_difference *diff)
{
    diff->expected = diff->kind != SW_DIFF_UNCHANGED && !diff->is_value &&
                     (matches(d->options->expect_change, diff->name_a) ||
                      matches(d->options->expect_change, diff->name_b));
    if (diff->expected)
        d->sum.expected++;
    else
        d->sum.differences++;
    if (d->fn != NULL)
        d->fn(d->ctx, diff);
}

static void describe(const side *s, uint32_t index, sw_dtype *dtype, uint32_t *axes, int64_t *shape)
{
    sw_tensor_info info;
    sw_catalog_tensor(s->catalog, index, &info);
    *dtype = info.dtype;
    *axes = info.axes;
    memcpy(shape, info.shape, sizeof info.shape);
}

static void tell_only(diffing *d, const swi_named *name, bool in_a, bool is_value)
{
    const side *other = in_a ? &d->b : &d->a;
    sw_difference diff = {.kind = in_a ? SW_DIFF_ONLY_A : SW_DIFF_ONLY_B,
                          .is_value = is_value,
                          .hint = swi_nearest_name(name->name, other->names, other->count)};
    if (in_a)
        diff.name_a = name->name;
    else
        diff.name_b = name->name;
    if (!is_value && in_a)
        describe(&d->a, name->index, &diff.dtype_a, &diff.axes_a, diff.shape_a);
    else if (!is_value)
        describe(&d->b, name->index, &diff.dtype_b, &diff.axes_b, diff.shape_b);
    if (!is_value && matches(d->options->expect_change, name->name))
        d->any_expected = true;
    tell(d, &diff);
}

static void start_pair(const diffing *d, const swi_named *name, sw_difference *diff)
{
    const swi_named *other = &d->b.names[name->other];
    *diff = (sw_difference){.name_a = name->name, .name_b = other->name};
    describe(&d->a, name->index, &diff->dtype_a, &diff->axes_a, diff->shape_a);
    describe(&d->b, other->index, &diff->dtype_b, &diff->axes_b, diff->shape_b);
}

static bool is_number(sw_dtype dtype)
{
    return dtype == SW_F64 || swi_cast_possible(dtype, SW_F64);
}

/* What can be told without reading; kind 0: the elements must be compared. */
static void judge(const diffing *d, sw_difference *diff, swi_pair *pair)
{
    bool numbers = is_number(diff->dtype_a) && is_number(diff->dtype_b);
    bool close = d->options->tolerant && numbers;
    if (diff->axes_a != diff->axes_b ||
        memcmp(diff->shape_a, diff->shape_b, diff->axes_a * sizeof diff->shape_a[0]) != 0)
        diff->kind = SW_DIFF_SHAPE;
    else if (diff->dtype_a != diff->dtype_b && !close)
        diff->kind = SW_DIFF_DTYPE;
    pair->skip = diff->kind != 0;
    pair->close = close ? &d->tolerance : NULL;
}

static sw_status tell_pair(diffing *d, const swi_named *name, const swi_pair *pair, sw_error *err)
{
    sw_difference diff;
    swi_pair again = {0};
    sw_status st = SW_OK;
    start_pair(d, name, &diff);
    judge(d, &diff, &again);
    bool must_differ = matches(d->options->expect_change, diff.name_a) ||
                       matches(d->options->expect_change, diff.name_b);
    d->any_expected = d->any_expected || must_differ;
    d->sum.compared++;
    if (diff.kind == 0 && pair->equal) {
        d->sum.equal++;
        diff.kind = SW_DIFF_UNCHANGED;
        if (must_differ)
            tell(d, &diff);
        return SW_OK;
    }
    if (diff.kind == 0) {
        diff.kind = SW_DIFF_ELEMENTS;
        swi_coordinates(diff.axes_a, diff.shape_a, pair->first, diff.at);
        st = swi_load_interval(&d->a.source, pair->a, pair->first, pair->first + 1, diff.element_a,
                               err);
        if (st == SW_OK)
            st = swi_load_interval(&d->b.source, pair->b, pair->first, pair->first + 1,
                                   diff.element_b, err);
    }
    if (st == SW_OK)
        tell(d, &diff);
    return st;
}

/* ---- groups of names ---------------------------------------------------------------------- */

typedef sw_status (*pair_fn)(diffing *d, size_t at, const void *what, sw_error *err);

/* All names of both sides in order; those of B only where A has no pair for them. */
static sw_status walk(diffing *d, bool values, pair_fn fn, const void *what, sw_error *err)
{
    sw_status st = SW_OK;
    for (size_t i = 0, j = 0; st == SW_OK && (i < d->a.count || j < d->b.count);) {
        if (j < d->b.count && d->b.names[j].other >= 0) {
            j++;
            continue;
        }
        bool is_a = i < d->a.count &&
                    (j == d->b.count || strcmp(d->a.names[i].name, d->b.names[j].name) <= 0);
        if (!is_a)
            tell_only(d, &d->b.names[j++], false, values);
        else if (d->a.names[i].other < 0)
            tell_only(d, &d->a.names[i++], true, values);
        else
            st = fn(d, i++, what, err);
    }
    return st;
}

static sw_status walk_tensor(diffing *d, size_t at, const void *what, sw_error *err)
{
    return tell_pair(d, &d->a.names[at], (const swi_pair *)what + at, err);
}

static sw_status diff_tensors(diffing *d, sw_error *err)
{
    void *room;
    sw_status st = pair_sides(d, err);
    if (st == SW_OK)
        st = swi_alloc_array(d->a.count, sizeof(swi_pair), &room, err);
    if (st != SW_OK)
        return st;
    swi_pair *pairs = room;
    for (size_t i = 0; i < d->a.count; i++) {
        const swi_named *name = &d->a.names[i];
        sw_difference diff;
        pairs[i].skip = true;
        if (name->other < 0)
            continue;
        pairs[i].a = name->index;
        pairs[i].b = d->b.names[name->other].index;
        start_pair(d, name, &diff);
        judge(d, &diff, &pairs[i]);
    }
    d->sum.tensors_a += d->a.count;
    d->sum.tensors_b += d->b.count;
    st = swi_compare_pairs(&d->a.source, &d->b.source, pairs, d->a.count, &d->options->work, err);
    if (st == SW_OK)
        st = walk(d, false, walk_tensor, pairs, err);
    free(pairs);
    return st;
}

static sw_status walk_value(diffing *d, size_t at, const void *what, sw_error *err)
{
    const swi_named *name = &d->a.names[at], *other = &d->b.names[name->other];
    swi_value_difference found = {0};
    (void)what;
    d->sum.values++;
    sw_status st =
        swi_diff_value(d->a.checkpoint, name->index, d->b.checkpoint, other->index, &found, err);
    if (st == SW_OK && !found.equal) {
        sw_difference diff = {.kind = SW_DIFF_VALUE,
                              .is_value = true,
                              .name_a = name->name,
                              .name_b = other->name,
                              .text_a = found.a,
                              .text_b = found.b};
        tell(d, &diff);
    }
    swi_value_difference_free(&found);
    return st;
}

static sw_status diff_all(diffing *d, sw_error *err)
{
    name_weights(d, &d->a);
    name_weights(d, &d->b);
    sw_status st = diff_tensors(d, err);
    if (st != SW_OK || !d->options->state)
        return st;
    name_others(d, &d->a);
    name_others(d, &d->b);
    st = diff_tensors(d, err);
    if (st != SW_OK)
        return st;
    name_values(d, &d->a);
    name_values(d, &d->b);
    st = pair_sides(d, err);
    return st == SW_OK ? walk(d, true, walk_value, NULL, err) : st;
}

sw_status sw_diff(const char *a, const char *b, const sw_diff_options *options,
                  sw_difference_fn on_difference, void *ctx, sw_report *report,
                  sw_diff_summary *out, sw_error *err)
{
    static const sw_diff_options defaults = {0};
    diffing d = {.options = options ? options : &defaults,
                 .fn = on_difference,
                 .ctx = ctx,
                 .report = report};
    if (a == NULL || b == NULL || out == NULL)
        return swi_fail(err, SW_ERR_ARG, "sw_diff: two paths and out are needed");
    d.tolerance = (swi_tolerance){.atol = d.options->atol, .rtol = d.options->rtol};
    sw_status st = open_side(&d, a, &d.a, d.sum.framework_a, err);
    if (st == SW_OK)
        st = open_side(&d, b, &d.b, d.sum.framework_b, err);
    if (st == SW_OK && d.options->section != NULL && !d.section_met)
        st = no_section(&d, err);
    if (st == SW_OK)
        st = diff_all(&d, err);
    d.sum.nothing_expected = d.options->expect_change != NULL && !d.any_expected;
    close_side(&d.a);
    close_side(&d.b);
    if (st == SW_OK)
        *out = d.sum;
    return st;
}
