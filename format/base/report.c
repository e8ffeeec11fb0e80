#include "base/report.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/text.h"

#define KEPT_MAX ((size_t)10000)
#define SEVERITIES 4
/* Longer than any path that a system takes in one part; longer names are cut in the middle. */
#define NAME_MAX_BYTES 1024

struct sw_report {
    pthread_mutex_t lock;
    sw_finding *items; /* each owns one block: `code` is its start, the other texts follow in it */
    size_t count;
    size_t capacity;
    size_t kept[SEVERITIES];
    uint64_t total[SEVERITIES];
};

const char *sw_severity_name(sw_severity severity)
{
    static const char *const names[SEVERITIES] = {"note", "warning", "defect", "danger"};
    return (unsigned)severity < SEVERITIES ? names[severity] : "unknown";
}

sw_status sw_report_make(sw_report **out, sw_error *err)
{
    void *p;
    sw_status status = swi_alloc_array(1, sizeof(sw_report), &p, err);
    if (status != SW_OK)
        return status;
    sw_report *report = p;
    int rc = pthread_mutex_init(&report->lock, NULL);
    if (rc != 0) {
        free(report);
        return swi_fail_errno(err, rc, "pthread_mutex_init");
    }
    *out = report;
    return SW_OK;
}

static void free_texts(const sw_finding *finding)
{
    free((void *)(uintptr_t)finding->code);
}

void sw_report_free(sw_report *report)
{
    if (report == NULL)
        return;
    for (size_t i = 0; i < report->count; i++)
        free_texts(&report->items[i]);
    free(report->items);
    (void)pthread_mutex_destroy(&report->lock);
    free(report);
}

/* A mutex that was made and is not held by this thread cannot fail to lock or unlock. */
static void lock_report(const sw_report *report)
{
    (void)pthread_mutex_lock((pthread_mutex_t *)(uintptr_t)&report->lock);
}

static void unlock_report(const sw_report *report)
{
    (void)pthread_mutex_unlock((pthread_mutex_t *)(uintptr_t)&report->lock);
}

/* ---- reading ------------------------------------------------------------------------------- */

size_t sw_report_count(const sw_report *report)
{
    if (report == NULL)
        return 0;
    lock_report(report);
    size_t count = report->count;
    unlock_report(report);
    return count;
}

const sw_finding *sw_report_at(const sw_report *report, size_t i)
{
    if (report == NULL || i >= report->count)
        return NULL;
    return &report->items[i];
}

uint64_t sw_report_total(const sw_report *report, sw_severity severity)
{
    if (report == NULL || (unsigned)severity >= SEVERITIES)
        return 0;
    lock_report(report);
    uint64_t total = report->total[severity];
    unlock_report(report);
    return total;
}

static int compare_u64(uint64_t a, uint64_t b)
{
    return (a > b) - (a < b);
}

/* What the contract names, then every other field, so that the order is total. */
static int compare_findings(const void *left, const void *right)
{
    const sw_finding *a = left, *b = right;
    int order = (int)b->severity - (int)a->severity;
    if (order == 0) /* a file's own fault comes before what follows from it elsewhere */
        order = (a->file[0] == '\0') - (b->file[0] == '\0');
    if (order == 0)
        order = strcmp(a->file, b->file);
    if (order == 0)
        order = (int)a->has_offset - (int)b->has_offset;
    if (order == 0)
        order = compare_u64(a->offset_bytes, b->offset_bytes);
    if (order == 0)
        order = strcmp(a->code, b->code);
    if (order == 0)
        order = strcmp(a->tensor, b->tensor);
    if (order == 0)
        order = strcmp(a->message, b->message);
    return order != 0 ? order : (int)a->status - (int)b->status;
}

void sw_report_sort(sw_report *report)
{
    if (report == NULL)
        return;
    lock_report(report);
    if (report->count > 1)
        qsort(report->items, report->count, sizeof *report->items, compare_findings);
    unlock_report(report);
}

/* ---- adding -------------------------------------------------------------------------------- */

/* The next text of a finding's block: written at *at, which moves on. */
static const char *place(char **at, const char *text)
{
    size_t size = strlen(text) + 1;
    char *start = memcpy(*at, text, size);
    *at += size;
    return start;
}

static sw_status make_finding(const swi_finding_in *in, const char *message, sw_finding *out,
                              sw_error *err)
{
    const char *code = in->code != NULL ? in->code : "";
    char file[NAME_MAX_BYTES] = "", tensor[NAME_MAX_BYTES] = "";
    if (in->file != NULL)
        (void)swi_quote_into(file, sizeof file, in->file, strlen(in->file));
    if (in->tensor != NULL)
        (void)swi_quote_into(tensor, sizeof tensor, in->tensor, strlen(in->tensor));
    size_t size = strlen(code) + strlen(file) + strlen(tensor) + strlen(message) + 4;
    char *at = malloc(size);
    if (at == NULL)
        return swi_fail_nomem(err);
    *out = (sw_finding){
        .severity = in->severity,
        .status = in->status,
        .has_offset = in->has_offset,
        .offset_bytes = in->has_offset ? in->offset_bytes : 0,
    };
    out->code = place(&at, code);
    out->file = place(&at, file);
    out->tensor = place(&at, tensor);
    out->message = place(&at, message);
    return SW_OK;
}

/*
 * A full list makes room for what is worse than its mildest entry: a flood of notes cannot hide a
 * danger. Returns the index to replace, or KEPT_MAX when nothing is milder.
 */
static size_t find_milder(const sw_report *report, sw_severity severity)
{
    sw_severity mildest = SW_NOTE;
    while (mildest < severity && report->kept[mildest] == 0)
        mildest++;
    if (mildest >= severity)
        return KEPT_MAX;
    size_t i = report->count;
    while (i > 0 && report->items[i - 1].severity != mildest)
        i--;
    return i > 0 ? i - 1 : KEPT_MAX;
}

/* Takes over the finding's texts unless it fails. Called under the lock. */
static sw_status keep_finding(sw_report *report, const sw_finding *finding, sw_error *err)
{
    if (report->count < KEPT_MAX) {
        sw_status status = swi_grow_array((void **)&report->items, &report->capacity,
                                          report->count + 1, sizeof *report->items, err);
        if (status != SW_OK)
            return status;
        report->items[report->count++] = *finding;
    } else {
        size_t i = find_milder(report, finding->severity);
        if (i == KEPT_MAX) {
            free_texts(finding);
            report->total[finding->severity]++;
            return SW_OK;
        }
        report->kept[report->items[i].severity]--;
        free_texts(&report->items[i]);
        memmove(&report->items[i], &report->items[i + 1],
                (report->count - i - 1) * sizeof *report->items);
        report->items[report->count - 1] = *finding;
    }
    report->kept[finding->severity]++;
    report->total[finding->severity]++;
    return SW_OK;
}

static sw_status add_text(sw_report *report, const swi_finding_in *in, const char *message,
                          sw_error *err)
{
    if ((unsigned)in->severity >= SEVERITIES)
        return swi_fail(err, SW_ERR_ARG, "no such severity: %d", (int)in->severity);
    sw_finding finding;
    sw_status status = make_finding(in, message, &finding, err);
    if (status != SW_OK)
        return status;
    lock_report(report);
    status = keep_finding(report, &finding, err);
    unlock_report(report);
    if (status != SW_OK)
        free_texts(&finding);
    return status;
}

sw_status swi_report_add(sw_report *report, const swi_finding_in *in, sw_error *err,
                         const char *fmt, ...)
{
    if (report == NULL)
        return SW_OK;
    char message[SW_ERROR_TEXT_MAX];
    va_list args;
    va_start(args, fmt);
    if (vsnprintf(message, sizeof message, fmt, args) < 0)
        message[0] = '\0';
    va_end(args);
    swi_utf8_trim(message);
    return add_text(report, in, message, err);
}

sw_status swi_report_error(sw_report *report, const swi_finding_in *in, const sw_error *cause,
                           sw_error *err)
{
    if (report == NULL)
        return SW_OK;
    swi_finding_in with = *in;
    if (!with.has_offset && cause->has_offset) {
        with.has_offset = true;
        with.offset_bytes = cause->offset_bytes;
    }
    /* The cause may be *err itself: its text is copied before anything can fail. */
    char message[SW_ERROR_TEXT_MAX];
    memcpy(message, cause->text, sizeof message);
    message[sizeof message - 1] = '\0';
    if (with.status == SW_OK)
        with.status = cause->status;
    return add_text(report, &with, message, err);
}

bool swi_status_is_defect(sw_status st)
{
    switch (st) {
    case SW_ERR_FORMAT:
    case SW_ERR_CORRUPT:
    case SW_ERR_INCOMPLETE:
    case SW_ERR_CONFLICT:
    case SW_ERR_UNSAFE:
    case SW_ERR_UNTRUSTED:
        return true;
    default:
        return false;
    }
}

static const char *finding_code(sw_status st)
{
    switch (st) {
    case SW_ERR_FORMAT:
        return "malformed";
    case SW_ERR_CORRUPT:
        return "corrupt";
    case SW_ERR_INCOMPLETE:
        return "incomplete";
    case SW_ERR_CONFLICT:
        return "conflict";
    case SW_ERR_UNSAFE:
        return "unsafe";
    default:
        return "untrusted";
    }
}

sw_status swi_report_defect(sw_report *report, const sw_error *cause, sw_error *err)
{
    const swi_finding_in in = {
        .severity = cause->status == SW_ERR_UNSAFE ? SW_DANGER : SW_DEFECT,
        .status = cause->status,
        .code = finding_code(cause->status),
        .has_offset = cause->has_offset,
        .offset_bytes = cause->offset_bytes,
    };
    return swi_report_error(report, &in, cause, err);
}
