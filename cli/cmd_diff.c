#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "element.h"

static const char help[] =
    "examples:\n"
    "  shardwright diff run/step-1000 exported            the weights, to the bit\n"
    "  shardwright diff run/step-1000 run/step-2000 --state\n"
    "  shardwright diff base tuned --expect-change 'layers.*.lora_*' --rtol 1e-3\n"
    "\n"
    "usage: shardwright diff A B [options]\n"
    "Compares what two checkpoints of any layout hold: names, shapes, types, values. Weights go "
    "by\n"
    "the names that convert gives them; names that one prefix makes the same are paired.\n"
    "  --state               everything else too: optimizer, other tensors, values\n"
    "  --section NAME        the part that is the model, where a side has several\n"
    "  --atol X, --rtol X    numbers are equal when |a - b| <= atol + rtol x |b|, of any\n"
    "                        floating-point type; NaN is equal to NaN\n"
    "  --only GLOB           tensors and values by name; repeatable\n"
    "  --expect-change GLOB  these tensors must differ, all others must not; repeatable\n"
    "  --shapes PATH         what flat parameters (FSDP1) are made of; see shardwright inspect\n"
    "  --from NAME, --threads N, --memory SIZE, --json, --quiet (only the exit code)\n"
    "\n"
    "exit codes: 0 equal, or different only where that was expected; 1 different; 2 could not\n"
    "(damaged, unknown, I/O); 4 --expect-change names no tensor\n";

typedef struct run {
    common c;
    const char *atol, *rtol;
    text_list only, expect;
    sw_diff_options options;
    sw_report *report;
    sw_diff_summary sum;
    sw_error err;
    sw_status status;
    json j;
} run;

static bool parse_number(const char *text, const char *name, double *out)
{
    char *end;
    if (text == NULL)
        return true;
    double value = strtod(text, &end);
    if (end == text || *end != '\0' || !isfinite(value) || value < 0) {
        fprintf(stderr, "shardwright diff: %s takes a number that is not negative\n", name);
        return false;
    }
    *out = value;
    return true;
}

static const char *kind_name(sw_difference_kind kind)
{
    switch (kind) {
    case SW_DIFF_ONLY_A:
        return "only-a";
    case SW_DIFF_ONLY_B:
        return "only-b";
    case SW_DIFF_DTYPE:
        return "dtype";
    case SW_DIFF_SHAPE:
        return "shape";
    case SW_DIFF_ELEMENTS:
        return "elements";
    case SW_DIFF_VALUE:
        return "value";
    case SW_DIFF_UNCHANGED:
        return "unchanged";
    }
    return "";
}

/* ---- text --------------------------------------------------------------------------------- */

static void print_both_shapes(const sw_difference *d)
{
    fputs("shape ", stdout);
    print_shape(stdout, d->axes_a, d->shape_a);
    fputs(" in A, ", stdout);
    print_shape(stdout, d->axes_b, d->shape_b);
    fputs(" in B", stdout);
}

static void print_first(const sw_difference *d)
{
    fputs("first difference at [", stdout);
    for (uint32_t k = 0; k < d->axes_a; k++)
        printf("%s%" PRId64, k ? ", " : "", d->at[k]);
    fputs("]: ", stdout);
    print_element(stdout, d->dtype_a, d->element_a);
    fputs(" in A, ", stdout);
    print_element(stdout, d->dtype_b, d->element_b);
    fputs(" in B", stdout);
}

static void print_difference(const sw_difference *d)
{
    fputs(d->expected ? "expected: " : "", stdout);
    fputs(d->is_value ? "value " : "", stdout);
    print_name(stdout, d->name_a ? d->name_a : d->name_b);
    if (d->name_a && d->name_b && strcmp(d->name_a, d->name_b) != 0) {
        fputs(" (in B ", stdout);
        print_name(stdout, d->name_b);
        fputc(')', stdout);
    }
    fputs(": ", stdout);
    switch (d->kind) {
    case SW_DIFF_ONLY_A:
    case SW_DIFF_ONLY_B:
        fputs(d->kind == SW_DIFF_ONLY_A ? "only in A" : "only in B", stdout);
        if (d->hint != NULL) {
            fputs("; the most alike of the other is ", stdout);
            print_name(stdout, d->hint);
        }
        break;
    case SW_DIFF_SHAPE:
        print_both_shapes(d);
        break;
    case SW_DIFF_DTYPE:
        printf("%s in A, %s in B", sw_dtype_name(d->dtype_a), sw_dtype_name(d->dtype_b));
        break;
    case SW_DIFF_ELEMENTS:
        print_first(d);
        break;
    case SW_DIFF_VALUE:
        printf("%s in A, %s in B", d->text_a, d->text_b);
        break;
    case SW_DIFF_UNCHANGED:
        fputs("is the same, and was to differ", stdout);
        break;
    }
    fputc('\n', stdout);
}

/* ---- JSON --------------------------------------------------------------------------------- */

static void json_element(json *j, const char *key, sw_dtype dtype, const uint8_t *data)
{
    char *text = NULL;
    size_t size = 0;
    FILE *to = open_memstream(&text, &size);
    if (to == NULL)
        return;
    print_element(to, dtype, data);
    fclose(to);
    json_text(j, key, text ? text : "");
    free(text);
}

static void json_difference(json *j, const sw_difference *d)
{
    json_object(j, NULL);
    json_text(j, "kind", kind_name(d->kind));
    json_bool(j, "is_value", d->is_value);
    json_bool(j, "expected", d->expected);
    if (d->name_a != NULL)
        json_text(j, "name_a", d->name_a);
    if (d->name_b != NULL)
        json_text(j, "name_b", d->name_b);
    if (d->hint != NULL)
        json_text(j, "hint", d->hint);
    if (d->dtype_a != SW_DTYPE_NONE) {
        json_text(j, "dtype_a", sw_dtype_name(d->dtype_a));
        json_shape(j, "shape_a", d->axes_a, d->shape_a);
    }
    if (d->dtype_b != SW_DTYPE_NONE) {
        json_text(j, "dtype_b", sw_dtype_name(d->dtype_b));
        json_shape(j, "shape_b", d->axes_b, d->shape_b);
    }
    if (d->kind == SW_DIFF_ELEMENTS) {
        json_shape(j, "at", d->axes_a, d->at);
        json_element(j, "element_a", d->dtype_a, d->element_a);
        json_element(j, "element_b", d->dtype_b, d->element_b);
    }
    if (d->kind == SW_DIFF_VALUE) {
        json_text(j, "text_a", d->text_a);
        json_text(j, "text_b", d->text_b);
    }
    json_close_object(j);
}

static void json_summary(json *j, const sw_diff_summary *s)
{
    json_text(j, "framework_a", s->framework_a);
    json_text(j, "framework_b", s->framework_b);
    json_number(j, "tensors_a", s->tensors_a);
    json_number(j, "tensors_b", s->tensors_b);
    json_number(j, "compared", s->compared);
    json_number(j, "equal", s->equal);
    json_number(j, "values", s->values);
    json_number(j, "difference_count", s->differences);
    json_number(j, "expected_count", s->expected);
}

/* ---- the run ------------------------------------------------------------------------------ */

static void on_difference(void *ctx, const sw_difference *d)
{
    run *r = ctx;
    if (r->c.json)
        json_difference(&r->j, d);
    else if (!r->c.quiet)
        print_difference(d);
}

static int exit_code(const run *r)
{
    if (r->status != SW_OK)
        return exit_of(r->status);
    if (r->sum.differences > 0)
        return EXIT_FOUND;
    return r->sum.nothing_expected ? EXIT_NOTHING : EXIT_DONE;
}

static void show_summary(const run *r, int code)
{
    const sw_diff_summary *s = &r->sum;
    printf("%" PRIu64 " of %" PRIu64 " tensors that both have are equal", s->equal, s->compared);
    if (s->values > 0)
        printf(", %" PRIu64 " values compared", s->values);
    if (s->expected > 0)
        printf(", %" PRIu64 " expected differences", s->expected);
    fputc('\n', stdout);
    if (code == EXIT_FOUND)
        printf("DIFFERENT: %" PRIu64 " difference%s\n", s->differences,
               s->differences == 1 ? "" : "s");
    else if (code == EXIT_NOTHING)
        puts("UNCHECKED: --expect-change names no tensor");
    else
        puts("ok");
}

static void do_work(run *r)
{
    progress p;
    r->options.tolerant = r->atol != NULL || r->rtol != NULL;
    r->options.only = r->only.items;
    r->options.expect_change = r->expect.items;
    r->options.open = r->c.open;
    r->status = sw_report_make(&r->report, &r->err);
    if (r->status != SW_OK)
        return;
    if (r->c.json) {
        json_begin(&r->j, stdout);
        json_text(&r->j, "command", "diff");
        json_text(&r->j, "a", r->c.positional[0]);
        json_text(&r->j, "b", r->c.positional[1]);
        json_array(&r->j, "differences");
    }
    r->options.work = work_begin(&r->c, &p);
    r->status = sw_diff(r->c.positional[0], r->c.positional[1], &r->options, on_difference, r,
                        r->report, &r->sum, &r->err);
    work_end(&p);
    sw_report_sort(r->report);
}

static int finish(run *r)
{
    int code = exit_code(r);
    if (r->c.json && r->report != NULL) {
        json_close_array(&r->j);
        json_integer(&r->j, "exit", code);
        if (r->status != SW_OK)
            json_error(&r->j, &r->err);
        else
            json_summary(&r->j, &r->sum);
        json_findings(&r->j, r->report);
        json_end(&r->j);
        return code;
    }
    if (r->report != NULL)
        show_findings(&r->c, r->report, r->status == SW_OK ? stdout : stderr);
    if (r->status != SW_OK)
        show_error("diff", &r->err);
    else if (!r->c.quiet)
        show_summary(r, code);
    return code;
}

int cmd_diff(int argc, char **argv)
{
    run r = {0};
    const opt options[] = {
        {"--state", OPT_FLAG, &r.options.state}, {"--section", OPT_TEXT, &r.options.section},
        {"--atol", OPT_TEXT, &r.atol},           {"--rtol", OPT_TEXT, &r.rtol},
        {"--only", OPT_LIST, &r.only},           {"--expect-change", OPT_LIST, &r.expect}};
    int code = EXIT_USAGE;
    if (!parse_options(argc, argv, options, sizeof options / sizeof options[0], 2, &r.c))
        goto done;
    if (r.c.help) {
        fputs(help, stdout);
        code = EXIT_DONE;
        goto done;
    }
    if (r.c.positional_count != 2) {
        fputs("shardwright diff: two paths are needed; see shardwright diff --help\n", stderr);
        goto done;
    }
    if (!parse_number(r.atol, "--atol", &r.options.atol) ||
        !parse_number(r.rtol, "--rtol", &r.options.rtol))
        goto done;
    do_work(&r);
    code = finish(&r);
done:
    sw_report_free(r.report);
    text_list_free(&r.only);
    text_list_free(&r.expect);
    return code;
}
