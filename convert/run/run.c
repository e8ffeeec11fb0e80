#include "run/run.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/report.h"
#include "base/text.h"

void sw_run_free(sw_run *run)
{
    if (run == NULL)
        return;
    swi_listing_free(run->listing);
    swi_store_close(run->store);
    swi_arena_free(&run->arena);
    free(run->items);
    free(run->pointers);
    free(run);
}

const char *sw_run_root(const sw_run *run)
{
    return run->root;
}

size_t sw_run_count(const sw_run *run)
{
    return run->count;
}

bool sw_run_at(const sw_run *run, size_t i, sw_run_checkpoint *out)
{
    if (i >= run->count)
        return false;
    *out = run->items[i].found;
    return true;
}

bool sw_run_pointer_at(const sw_run *run, size_t i, sw_run_pointer *out)
{
    if (i >= run->pointer_count)
        return false;
    *out = run->pointers[i];
    return true;
}

int64_t sw_run_newest(const sw_run *run)
{
    return run->newest;
}

int64_t sw_run_newest_complete(const sw_run *run)
{
    return run->newest_complete;
}

/* ---- one checkpoint ------------------------------------------------------------------------ */

static sw_status keep_text(sw_run *run, const char *text, const char **out, sw_error *err)
{
    return swi_arena_text(&run->arena, text, strlen(text), out, err);
}

/* The worst of what was found, and how much more. */
static sw_status explain(sw_run *run, swi_candidate *c, const sw_report *found, sw_error *err)
{
    const sw_finding *f = sw_report_at(found, 0);
    uint64_t more = sw_report_total(found, SW_DEFECT) + sw_report_total(found, SW_DANGER) - 1;
    swi_buf text = {0};
    bool twice = strncmp(f->message, f->file, strlen(f->file)) == 0;
    sw_status st = swi_buf_printf(&text, err, "%s%s%s", twice ? "" : f->file,
                                  twice || f->file[0] == '\0' ? "" : ": ", f->message);
    if (st == SW_OK && more > 0)
        st = swi_buf_printf(&text, err, " (and %" PRIu64 " more)", more);
    if (st == SW_OK)
        st = swi_arena_text(&run->arena, (const char *)text.data, text.size, &c->found.why, err);
    swi_buf_free(&text);
    return st;
}

/* It could not be verified: it is nothing that is known, or something kept us from it. */
static sw_status not_verified(sw_run *run, swi_candidate *c, const sw_error *cause, sw_error *err)
{
    bool nothing = cause->status == SW_ERR_FORMAT;
    c->found.state = nothing ? SW_RUN_INCOMPLETE : SW_RUN_UNKNOWN;
    return keep_text(run, nothing ? "no checkpoint of a known kind is in it" : cause->text,
                     &c->found.why, err);
}

static sw_status take_summary(sw_run *run, swi_candidate *c, const sw_verify_summary *sum,
                              const sw_report *found, sw_error *err)
{
    c->found.tensors = sum->tensors;
    c->found.tensor_bytes = sum->tensor_bytes;
    c->found.has_step = sum->has_step;
    c->found.step = sum->step;
    sw_status st = keep_text(run, sum->framework, &c->found.framework, err);
    if (sw_report_total(found, SW_DANGER) > 0)
        c->found.state = SW_RUN_UNSAFE;
    else if (sw_report_total(found, SW_DEFECT) > 0)
        c->found.state = SW_RUN_INCOMPLETE;
    else
        c->found.state = SW_RUN_COMPLETE;
    return st == SW_OK && c->found.state != SW_RUN_COMPLETE ? explain(run, c, found, err) : st;
}

static sw_status judge(sw_run *run, swi_candidate *c, const sw_verify_options *options,
                       sw_report *found, sw_error *err)
{
    sw_verify_options o = options ? *options : (sw_verify_options){0};
    sw_verify_summary sum = {0};
    sw_error cause = {0};
    swi_buf path = {0};
    c->found = (sw_run_checkpoint){.name = c->name,
                                   .why = "",
                                   .framework = "",
                                   .has_number = c->told.unit != SWI_UNIT_NONE,
                                   .is_epoch = c->told.unit == SWI_UNIT_EPOCH,
                                   .number = c->told.number < 0 ? 0 : (uint64_t)c->told.number};
    if (c->told.unfinished) {
        c->found.state = SW_RUN_UNFINISHED;
        return keep_text(run, "its name says that its save was not finished", &c->found.why, err);
    }
    o.level = o.level == 0 ? SW_LEVEL_COVERAGE : o.level;
    sw_status st = swi_buf_printf(&path, err, "%s/%s", run->root, c->name);
    if (st == SW_OK)
        st = swi_buf_u8(&path, 0, err);
    if (st == SW_OK) {
        st = sw_verify((const char *)path.data, &o, found, &sum, &cause);
        sw_report_sort(found);
        if (st == SW_OK && sum.nothing_mapped)
            st = swi_fail(&cause, SW_ERR_NOTFOUND, "there is no model to hold it against");
        if (st != SW_OK && swi_error_of_machine(&cause)) {
            if (err != NULL)
                *err = cause;
        } else if (st != SW_OK) {
            st = not_verified(run, c, &cause, err);
        } else {
            st = take_summary(run, c, &sum, found, err);
        }
    }
    swi_buf_free(&path);
    return st;
}

/* ---- what is said of it -------------------------------------------------------------------- */

static bool is_newer(const sw_run *run, int64_t than, const swi_candidate *c)
{
    if (c->told.unit == SWI_UNIT_NONE || c->told.unfinished)
        return false;
    if (than < 0)
        return true;
    const swi_step_name *other = &run->items[than].told;
    return c->told.unit != other->unit ? c->told.unit > other->unit
                                       : c->told.number >= other->number;
}

/* By names alone, so that it is known before any is judged. */
static void find_newest(sw_run *run)
{
    run->newest = -1;
    for (size_t i = 0; i < run->count; i++)
        if (is_newer(run, run->newest, &run->items[i]))
            run->newest = (int64_t)i;
}

static void find_newest_complete(sw_run *run)
{
    run->newest_complete = -1;
    for (size_t i = 0; i < run->count; i++)
        if (run->items[i].found.state == SW_RUN_COMPLETE &&
            is_newer(run, run->newest_complete, &run->items[i]))
            run->newest_complete = (int64_t)i;
}

/* What verifying one checkpoint found from `least` on, with its folder before the file's name. */
static sw_status take_over(const swi_candidate *c, const sw_report *found, sw_severity least,
                           sw_report *report, sw_error *err)
{
    for (size_t i = 0; i < sw_report_count(found); i++) {
        const sw_finding *f = sw_report_at(found, i);
        swi_buf file = {0};
        swi_finding_in in = {.severity = f->severity,
                             .status = f->status,
                             .code = f->code,
                             .tensor = f->tensor,
                             .has_offset = f->has_offset,
                             .offset_bytes = f->offset_bytes};
        if (f->severity < least || f->severity == SW_DEFECT) /* what is defective is said in all */
            continue;
        sw_status st =
            swi_buf_printf(&file, err, "%s%s%s", c->name, f->file[0] != '\0' ? "/" : "", f->file);
        if (st == SW_OK)
            st = swi_buf_u8(&file, 0, err);
        in.file = (const char *)file.data;
        if (st == SW_OK)
            st = swi_report_add(report, &in, err, "%s", f->message);
        swi_buf_free(&file);
        if (st != SW_OK)
            return st;
    }
    return SW_OK;
}

/* `counts`: what is wrong with it is wrong with the run. */
static sw_status say(const swi_candidate *c, bool counts, sw_report *report, sw_error *err)
{
    static const struct {
        const char *code, *text;
        sw_severity newest, other;
    } words[] = {
        [SW_RUN_INCOMPLETE] = {"incomplete-checkpoint", "not complete", SW_DEFECT, SW_WARNING},
        [SW_RUN_UNSAFE] = {"unsafe-checkpoint", "unsafe", SW_DANGER, SW_DANGER},
        [SW_RUN_UNFINISHED] = {"unfinished-checkpoint", "left over", SW_NOTE, SW_NOTE},
        [SW_RUN_UNKNOWN] = {"unknown-checkpoint", "could not be judged", SW_WARNING, SW_WARNING},
    };
    if (c->found.state == SW_RUN_COMPLETE)
        return SW_OK;
    swi_finding_in in = {.severity =
                             counts ? words[c->found.state].newest : words[c->found.state].other,
                         .code = words[c->found.state].code,
                         .file = c->name};
    return swi_report_add(report, &in, err, "%s: %s", words[c->found.state].text, c->found.why);
}

/* Where no name tells a number, every one counts. */
static sw_status judge_all(sw_run *run, const sw_verify_options *options, sw_report *report,
                           sw_error *err)
{
    sw_status st = SW_OK;
    for (size_t i = 0; st == SW_OK && i < run->count; i++) {
        sw_report *found = NULL;
        bool counts = run->newest < 0 || (int64_t)i == run->newest;
        sw_severity least = run->newest < 0 ? SW_WARNING : counts ? SW_NOTE : SW_DANGER;
        st = sw_report_make(&found, err);
        if (st == SW_OK)
            st = judge(run, &run->items[i], options, found, err);
        if (st == SW_OK)
            st = say(&run->items[i], counts, report, err);
        if (st == SW_OK)
            st = take_over(&run->items[i], found, least, report, err);
        sw_report_free(found);
    }
    return st;
}

/* ---- the run ------------------------------------------------------------------------------- */

/* What may not be looked into is no run. */
static sw_status find_one(const char *path, const sw_limits *limits, sw_run **out, bool *is_run,
                          sw_error *err)
{
    sw_error cause = {0};
    sw_status st = swi_run_find(path, false, limits, out, is_run, &cause);
    if (st == SW_OK || !swi_error_of_machine(&cause))
        return SW_OK;
    if (err != NULL)
        *err = cause;
    return st;
}

/* The one folder of `above` that is a run; NULL: none, or several. */
static sw_status find_below(const sw_run *above, const sw_limits *limits, sw_run **out,
                            sw_error *err)
{
    sw_run *found = NULL;
    size_t count = 0;
    sw_status st = SW_OK;
    for (size_t i = 0; st == SW_OK && i < swi_listing_count(above->listing); i++) {
        const swi_listing_entry *e = swi_listing_at(above->listing, i);
        swi_buf path = {0};
        sw_run *run = NULL;
        bool is_run = false;
        if (e->kind != SWI_ENTRY_DIR || e->is_link || e->name[0] == '.')
            continue;
        st = swi_buf_printf(&path, err, "%s/%s", above->root, e->name);
        if (st == SW_OK)
            st = swi_buf_u8(&path, 0, err);
        if (st == SW_OK)
            st = find_one((const char *)path.data, limits, &run, &is_run, err);
        swi_buf_free(&path);
        if (is_run && count++ == 0) {
            found = run;
            run = NULL;
        }
        sw_run_free(run);
    }
    if (st == SW_OK && count == 1)
        *out = found;
    else
        sw_run_free(found);
    return st;
}

static sw_status say_below(const char *path, const sw_run *run, sw_report *report, sw_error *err)
{
    swi_quoted a, b;
    swi_finding_in in = {.severity = SW_NOTE, .code = "other-folder"};
    return swi_report_add(report, &in, err, "%s is not itself a run; using %s",
                          swi_quote_str(&a, path), swi_quote_str(&b, run->root));
}

/* *out: NULL when there is none. */
static sw_status find_run(const char *path, const sw_verify_options *options, bool always,
                          sw_report *report, sw_run **out, sw_error *err)
{
    sw_limits limits = sw_limits_resolve(options ? options->open.limits : NULL);
    sw_run *run = NULL, *below = NULL;
    swi_quoted q;
    bool is_run = false;
    sw_status st = swi_run_find(path, always, &limits, &run, &is_run, err);
    if (st != SW_OK)
        return st;
    if (!is_run && run->count == 0)
        st = find_below(run, &limits, &below, err);
    if (st == SW_OK && below != NULL)
        st = say_below(path, below, report, err);
    else if (st == SW_OK && !is_run && always)
        st = swi_fail(err, SW_ERR_FORMAT, "%s: no checkpoints are in it, nor one level below",
                      swi_quote_str(&q, path));
    if (st == SW_OK && is_run) {
        *out = run;
        run = NULL;
    } else if (st == SW_OK) {
        *out = below;
        below = NULL;
    }
    sw_run_free(run);
    sw_run_free(below);
    return st;
}

sw_status sw_run_audit(const char *path, const sw_verify_options *options, bool always,
                       sw_report *report, sw_run **out, sw_error *err)
{
    sw_run *run = NULL;
    struct stat found;
    if (path == NULL || report == NULL || out == NULL)
        return swi_fail(err, SW_ERR_ARG, "sw_run_audit: path, report and out are needed");
    if (!always && stat(path, &found) == 0 && !S_ISDIR(found.st_mode)) {
        *out = NULL;
        return SW_OK;
    }
    sw_status st = find_run(path, options, always, report, &run, err);
    if (st != SW_OK)
        return st;
    if (run != NULL) {
        find_newest(run);
        st = judge_all(run, options, report, err);
        find_newest_complete(run);
        if (st == SW_OK)
            st = swi_run_pointers(run, report, err);
    }
    if (st != SW_OK) {
        sw_run_free(run);
        return st;
    }
    *out = run;
    return SW_OK;
}
