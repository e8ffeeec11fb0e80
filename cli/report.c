#include <inttypes.h>
#include <signal.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli.h"

#define SHOWN_MAX 50
/* Of one code: a missing file is not lost among the holes that it makes. */
#define SHOWN_OF_CODE 8
#define CODES_MAX 32

void show_error(const char *verb, const sw_error *err)
{
    fprintf(stderr, "shardwright %s: %s", verb, err->text);
    if (err->has_offset && err->offset_bytes > 0)
        fprintf(stderr, " (at byte %" PRIu64 ")", err->offset_bytes);
    fputc('\n', stderr);
}

void json_error(json *j, const sw_error *err)
{
    json_object(j, "error");
    json_text(j, "status", sw_status_name(err->status));
    json_text(j, "message", err->text);
    if (err->has_offset)
        json_number(j, "offset_bytes", err->offset_bytes);
    if (err->clause[0] != '\0')
        json_text(j, "clause", err->clause);
    json_close_object(j);
}

static void show_finding(const sw_finding *f, FILE *to)
{
    fprintf(to, "%s: ", sw_severity_name(f->severity));
    if (f->file[0] != '\0' && strncmp(f->message, f->file, strlen(f->file)) != 0)
        fprintf(to, "%s: ", f->file);
    if (f->tensor[0] != '\0')
        fprintf(to, "\"%s\": ", f->tensor);
    fputs(f->message, to);
    if (f->has_offset && f->offset_bytes > 0)
        fprintf(to, " (at byte %" PRIu64 ")", f->offset_bytes);
    fprintf(to, " [%s]\n", f->code);
}

typedef struct code_counts {
    const char *codes[CODES_MAX];
    size_t shown[CODES_MAX];
    size_t count;
} code_counts;

/* Whether one more of that code is to be shown. */
static bool count_code(code_counts *c, const char *code)
{
    size_t i = 0;
    while (i < c->count && strcmp(c->codes[i], code) != 0)
        i++;
    if (i == CODES_MAX)
        return true;
    if (i == c->count)
        c->codes[c->count++] = code;
    return c->shown[i]++ < SHOWN_OF_CODE;
}

void show_findings(const common *c, const sw_report *report, FILE *to)
{
    code_counts codes = {0};
    uint64_t shown = 0, total = 0;
    for (size_t i = 0; i < sw_report_count(report) && shown < SHOWN_MAX; i++) {
        const sw_finding *f = sw_report_at(report, i);
        if ((f->severity == SW_NOTE && c->quiet) || !count_code(&codes, f->code))
            continue;
        show_finding(f, to);
        shown++;
    }
    for (sw_severity s = c->quiet ? SW_WARNING : SW_NOTE; s <= SW_DANGER; s++)
        total += sw_report_total(report, s);
    if (total > shown)
        fprintf(to, "... and %" PRIu64 " more; --json lists them\n", total - shown);
}

void json_findings(json *j, const sw_report *report)
{
    json_array(j, "findings");
    for (size_t i = 0; i < sw_report_count(report); i++) {
        const sw_finding *f = sw_report_at(report, i);
        json_object(j, NULL);
        json_text(j, "severity", sw_severity_name(f->severity));
        json_text(j, "code", f->code);
        if (f->status != SW_OK)
            json_text(j, "status", sw_status_name(f->status));
        json_text(j, "file", f->file);
        json_text(j, "tensor", f->tensor);
        if (f->has_offset)
            json_number(j, "offset_bytes", f->offset_bytes);
        json_text(j, "message", f->message);
        json_close_object(j);
    }
    json_close_array(j);
    json_object(j, "finding_counts");
    for (sw_severity s = SW_NOTE; s <= SW_DANGER; s++)
        json_number(j, sw_severity_name(s), sw_report_total(report, s));
    json_close_object(j);
}

void json_tally(json *j, const sw_tally *t)
{
    json_object(j, "bytes");
    json_number(j, "read", t->read_bytes);
    json_number(j, "written", t->written_bytes);
    json_number(j, "checked", t->checked_bytes);
    json_number(j, "unchecked", t->unchecked_bytes);
    json_close_object(j);
}

void json_cast(json *j, const sw_tally *t)
{
    json_object(j, "cast");
    json_number(j, "elements", t->cast_elements);
    json_number(j, "overflows", t->cast_overflows);
    json_number(j, "underflows", t->cast_underflows);
    json_close_object(j);
}

int exit_of(sw_status status)
{
    switch (status) {
    case SW_OK:
        return EXIT_DONE;
    case SW_ERR_UNSAFE:
    case SW_ERR_EXISTS:
    case SW_ERR_LIMIT:
    case SW_ERR_UNTRUSTED:
        return EXIT_REFUSED;
    case SW_ERR_CANCELED:
        return stop_signal() ? EXIT_SIGNAL + stop_signal() : EXIT_FAILED;
    default:
        return EXIT_FAILED;
    }
}

/* ---- progress and signals ------------------------------------------------------------------ */

static volatile sig_atomic_t caught;

static void on_signal(int number)
{
    caught = number;
}

int stop_signal(void)
{
    return caught;
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static bool on_progress(void *ctx, const sw_progress *state)
{
    progress *p = ctx;
    double t = now();
    if (p->on && t - p->started > 0.5 && t - p->last >= 0.2 && state->total_bytes > 0) {
        double part = (double)state->done_bytes / (double)state->total_bytes;
        double rate = (double)state->done_bytes / (t - p->started);
        fprintf(stderr, "\r%3.0f %%  ", 100 * part);
        print_bytes(stderr, state->done_bytes);
        fputs(" of ", stderr);
        print_bytes(stderr, state->total_bytes);
        fputs(", ", stderr);
        print_bytes(stderr, (uint64_t)rate);
        fputs("/s   ", stderr);
        fflush(stderr);
        p->last = t;
        p->shown = true;
    }
    return caught == 0;
}

sw_work_options work_begin(const common *c, progress *p)
{
    struct sigaction action = {0};
    action.sa_handler = on_signal;
    action.sa_flags = (int)SA_RESETHAND; /* the second one ends at once */
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    *p = (progress){.on = !c->quiet && !c->json && isatty(STDERR_FILENO), .started = now()};
    return (sw_work_options){
        .threads = c->threads,
        .memory_bytes = c->memory_bytes,
        .progress = on_progress,
        .progress_ctx = p,
    };
}

void work_end(progress *p)
{
    if (p->shown)
        fprintf(stderr, "\r%60s\r", "");
    p->shown = false;
}
