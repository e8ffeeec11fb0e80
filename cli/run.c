/* What the audit of a run found, as text and as JSON. */
#include <inttypes.h>
#include <string.h>

#include "cli.h"

static const char *state_name(sw_run_state state)
{
    static const char *const names[] = {[SW_RUN_COMPLETE] = "complete",
                                        [SW_RUN_INCOMPLETE] = "incomplete",
                                        [SW_RUN_UNSAFE] = "unsafe",
                                        [SW_RUN_UNFINISHED] = "unfinished",
                                        [SW_RUN_UNKNOWN] = "unknown"};
    return names[state];
}

static const char *pointer_name(sw_pointer_verdict verdict)
{
    static const char *const names[] = {[SW_POINTER_TRUE] = "true",
                                        [SW_POINTER_BEHIND] = "behind",
                                        [SW_POINTER_INCOMPLETE] = "incomplete",
                                        [SW_POINTER_MISSING] = "missing",
                                        [SW_POINTER_UNKNOWN] = "unknown"};
    return names[verdict];
}

static int exit_code(const sw_run *run, const sw_report *report)
{
    int64_t newest = sw_run_newest(run);
    sw_run_checkpoint c;
    bool any = false;
    if (sw_report_total(report, SW_DANGER) > 0)
        return EXIT_REFUSED;
    if (sw_report_total(report, SW_DEFECT) > 0)
        return EXIT_FOUND;
    for (size_t i = 0; sw_run_at(run, i, &c); i++) {
        any = any || c.state == SW_RUN_COMPLETE;
        if (c.state == SW_RUN_UNKNOWN && (newest < 0 || (int64_t)i == newest))
            return EXIT_FAILED;
    }
    return any ? EXIT_DONE : EXIT_FOUND;
}

/* ---- text ---------------------------------------------------------------------------------- */

static void show_checkpoint(const sw_run_checkpoint *c)
{
    fputs("  ", stdout);
    print_name(stdout, c->name);
    printf("  %s", state_name(c->state));
    if (c->framework[0] != '\0') {
        printf("  %s, %" PRIu64 " tensors, ", c->framework, c->tensors);
        print_bytes(stdout, c->tensor_bytes);
    }
    if (c->has_step)
        printf(", step %" PRIu64, c->step);
    fputc('\n', stdout);
}

static void show_one(const sw_run *run, const char *label, int64_t i)
{
    sw_run_checkpoint c;
    printf("%s: ", label);
    if (i >= 0 && sw_run_at(run, (size_t)i, &c))
        print_name(stdout, c.name);
    else
        fputs("none", stdout);
    fputc('\n', stdout);
}

static void show_text(const common *c, const sw_run *run, const sw_report *report, int code)
{
    sw_run_checkpoint one;
    sw_run_pointer p;
    show_findings(c, report, stdout);
    if (c->quiet)
        return;
    print_name(stdout, sw_run_root(run));
    printf(": a run of %zu checkpoints\n", sw_run_count(run));
    for (size_t i = 0; sw_run_at(run, i, &one); i++)
        show_checkpoint(&one);
    for (size_t i = 0; sw_run_pointer_at(run, i, &p); i++) {
        fputs("  ", stdout);
        print_name(stdout, p.name);
        printf(" -> %s  %s\n", p.says, pointer_name(p.verdict));
    }
    if (sw_run_newest(run) >= 0) {
        show_one(run, "newest", sw_run_newest(run));
        show_one(run, "newest complete", sw_run_newest_complete(run));
    } else {
        puts("no name tells which is the newest");
    }
    if (code == EXIT_DONE)
        puts("ok");
    show_advice(c, report, NULL, stdout);
}

/* ---- JSON ---------------------------------------------------------------------------------- */

static void json_checkpoint(json *j, const sw_run_checkpoint *c)
{
    json_object(j, NULL);
    json_text(j, "name", c->name);
    json_text(j, "state", state_name(c->state));
    if (c->why[0] != '\0')
        json_text(j, "why", c->why);
    if (c->framework[0] != '\0') {
        json_text(j, "framework", c->framework);
        json_number(j, "tensors", c->tensors);
        json_number(j, "tensor_bytes", c->tensor_bytes);
    }
    if (c->has_number) {
        json_number(j, "number", c->number);
        json_text(j, "unit", c->is_epoch ? "epoch" : "step");
    }
    if (c->has_step)
        json_number(j, "step", c->step);
    json_close_object(j);
}

static void json_named(json *j, const char *key, const sw_run *run, int64_t i)
{
    sw_run_checkpoint c;
    if (i >= 0 && sw_run_at(run, (size_t)i, &c))
        json_text(j, key, c.name);
}

static void json_run(json *j, const sw_run *run)
{
    sw_run_checkpoint c;
    sw_run_pointer p;
    json_object(j, "run");
    json_text(j, "root", sw_run_root(run));
    json_named(j, "newest", run, sw_run_newest(run));
    json_named(j, "newest_complete", run, sw_run_newest_complete(run));
    json_array(j, "checkpoints");
    for (size_t i = 0; sw_run_at(run, i, &c); i++)
        json_checkpoint(j, &c);
    json_close_array(j);
    json_array(j, "pointers");
    for (size_t i = 0; sw_run_pointer_at(run, i, &p); i++) {
        json_object(j, NULL);
        json_text(j, "name", p.name);
        json_text(j, "says", p.says);
        if (p.to[0] != '\0')
            json_text(j, "to", p.to);
        json_text(j, "verdict", pointer_name(p.verdict));
        json_close_object(j);
    }
    json_close_array(j);
    json_close_object(j);
}

static void show_failed(const char *verb, const common *c, const sw_report *report,
                        const sw_error *err, int code)
{
    json j;
    if (!c->json) {
        show_error(verb, err);
        return;
    }
    json_begin(&j, stdout);
    json_text(&j, "command", verb);
    json_text(&j, "path", c->positional[0]);
    json_text(&j, "verdict", verdict(code));
    json_integer(&j, "exit", code);
    json_error(&j, err);
    json_findings(&j, report);
    json_end(&j);
}

static void show_json(const char *verb, const common *c, const sw_run *run, const sw_report *report,
                      int code)
{
    json j;
    json_begin(&j, stdout);
    json_text(&j, "command", verb);
    json_text(&j, "path", c->positional[0]);
    json_text(&j, "verdict", verdict(code));
    json_integer(&j, "exit", code);
    json_run(&j, run);
    json_findings(&j, report);
    json_end(&j);
}

/* ---- the audit ----------------------------------------------------------------------------- */

/* Whether what kept it from being audited will be met, and told better, by the verb itself. */
static bool is_left_to_verb(sw_status st, bool always)
{
    return !always && st != SW_ERR_NOMEM && st != SW_ERR_CANCELED && st != SW_ERR_IO;
}

bool audit_run(const char *verb, const common *c, const sw_verify_options *options, bool always,
               int *code)
{
    sw_report *report = NULL;
    sw_run *run = NULL;
    sw_error err = {0};
    sw_status st = sw_report_make(&report, &err);
    if (st == SW_OK)
        st = sw_run_audit(c->positional[0], options, always, report, &run, &err);
    bool done = run != NULL || (st != SW_OK && !is_left_to_verb(st, always));
    sw_report_sort(report);
    if (run != NULL) {
        *code = exit_code(run, report);
        if (c->json)
            show_json(verb, c, run, report, *code);
        else
            show_text(c, run, report, *code);
    } else if (done) {
        *code = exit_of(st);
        show_failed(verb, c, report, &err, *code);
    }
    sw_run_free(run);
    sw_report_free(report);
    return done;
}
