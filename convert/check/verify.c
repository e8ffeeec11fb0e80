/* Verifying: everything that can be told without knowing what the values should be. */
#include <stdio.h>
#include <string.h>

#include "base/report.h"
#include "check/hash.h"
#include "check/replica_check.h"
#include "check/signature_check.h"
#include "check/verify_model.h"
#include "check/verify_portion.h"
#include "check/verify_values.h"
#include "run/step_found.h"
#include "run/times_check.h"
#include "scan.h"
#include "source/folder.h"

/* Whether a finding says what the error ends with: the reader reported it before it gave up. */
static bool is_said(const sw_error *cause, const sw_report *report)
{
    size_t size = strlen(cause->text);
    for (size_t i = 0; i < sw_report_count(report); i++) {
        const sw_finding *f = sw_report_at(report, i);
        size_t n = strlen(f->message);
        if (f->severity >= SW_DEFECT && n <= size &&
            strcmp(cause->text + size - n, f->message) == 0)
            return true;
    }
    return false;
}

/* An error of a recognised checkpoint becomes a finding; the work is done then. */
static sw_status as_finding(const sw_error *cause, sw_report *report, sw_error *err)
{
    bool unsafe = cause->status == SW_ERR_UNSAFE;
    /* of what is unsafe the reader has named each global already */
    if ((unsafe && sw_report_total(report, SW_DANGER) > 0) || is_said(cause, report))
        return SW_OK;
    return swi_report_defect(report, cause, err);
}

/* The step that it tells, held against its name. */
static sw_status find_step(const sw_checkpoint *c, const char *path, sw_report *report,
                           sw_verify_summary *s, sw_error *err)
{
    swi_step_found found;
    sw_status st = swi_step_find(c, path, &found, err);
    if (st == SW_OK)
        st = swi_step_check_name(path, &found, report, err);
    if (st == SW_OK && found.number >= 0) {
        s->has_step = true;
        s->step = (uint64_t)found.number;
    }
    return st;
}

static void describe(const sw_checkpoint *c, sw_verify_summary *s)
{
    const sw_catalog *catalog = sw_checkpoint_catalog(c);
    snprintf(s->framework, sizeof s->framework, "%s", sw_checkpoint_framework(c));
    snprintf(s->root, sizeof s->root, "%s", sw_checkpoint_root(c));
    s->tensors = sw_catalog_tensor_count(catalog);
    s->pieces = sw_catalog_piece_count(catalog);
    s->values = sw_catalog_value_count(catalog);
    s->files = sw_catalog_file_count(catalog);
    for (size_t i = 0; i < s->tensors; i++) {
        sw_tensor_info info;
        if (sw_catalog_tensor(catalog, i, &info))
            s->tensor_bytes += info.bytes;
    }
}

/* Whether an error of reading is of the files themselves: the scan has told of it already. */
static bool told_by_scan(sw_status st)
{
    return swi_status_is_defect(st) || st == SW_ERR_UNSUPPORTED;
}

static sw_status check_replicas(const swi_verify_portion *portion, sw_report *report, sw_error *err)
{
    size_t count = sw_catalog_tensor_count(sw_checkpoint_catalog(portion->checkpoint));
    for (uint32_t i = 0; i < count; i++) {
        bool equal;
        sw_error cause = {0};
        sw_status st = SW_OK;
        if (portion->tensors[i])
            st = swi_replica_check(portion->checkpoint, i, report, &equal, &cause);
        if (st != SW_OK && !told_by_scan(st)) {
            if (err != NULL)
                *err = cause;
            return st;
        }
    }
    return SW_OK;
}

/* What blobs do not cover, by those who know it; and the other files of the folder. */
static sw_status check_rest(const swi_verify_portion *portion, sw_report *report, sw_tally *tally,
                            sw_error *err)
{
    const swi_audit_in in = {.checkpoint = portion->checkpoint,
                             .work = &portion->options->work,
                             .report = report,
                             .vouched = portion->vouched};
    const swi_framework *framework = swi_checkpoint_framework(portion->checkpoint);
    sw_status st = framework->audit != NULL ? framework->audit(&in, err) : SW_OK;
    for (size_t i = 0; st == SW_OK && i < swi_vouched_count(portion->vouched); i++) {
        swi_vouched_file f;
        swi_vouched_at(portion->vouched, i, &f);
        tally->checked_bytes += f.checked;
        tally->unchecked_bytes += f.without;
    }
    if (st == SW_OK)
        st = swi_folder_check(portion->checkpoint, report, portion->vouched, err);
    return st;
}

static sw_status check_bytes(const swi_verify_portion *portion, sw_report *report,
                             sw_verify_summary *s, sw_error *err)
{
    const swi_source source = swi_checkpoint_source(portion->checkpoint);
    const swi_scan_in in = {.work = &portion->options->work,
                            .portion = portion->blobs,
                            .files = portion->files,
                            .without = portion->without};
    sw_status st = swi_scan(&source, &in, report, &s->tally, err);
    if (st == SW_OK)
        st = check_replicas(portion, report, err);
    if (st == SW_OK && portion->rest)
        st = check_rest(portion, report, &s->tally, err);
    s->nothing_to_check = s->tally.checked_bytes == 0 && s->tally.unchecked_bytes > 0;
    return st;
}

/* What keeps the checkpoint from being held against the list is a finding, as elsewhere. */
static sw_status check_digests(const sw_checkpoint *c, const sw_verify_options *options,
                               sw_report *report, sw_verify_summary *s, sw_error *err)
{
    swi_digest_list list = {0};
    sw_error cause = {0};
    sw_status st = swi_digests_read(options->digests, &options->open, &list, err);
    if (st != SW_OK)
        return st;
    st = swi_digests_check(c, &list, options, report, s, &cause);
    swi_digest_list_free(&list);
    if (st != SW_OK && swi_status_is_defect(st))
        return as_finding(&cause, report, err);
    if (st != SW_OK && err != NULL)
        *err = cause;
    return st;
}

static sw_status check_values(const swi_verify_portion *portion, sw_report *report, sw_error *err)
{
    const sw_checkpoint *c = portion->checkpoint;
    sw_status st = swi_verify_values(c, portion->tensors, &portion->options->work, report, err);
    if (st == SW_OK)
        st = swi_steps_check(c, report, err);
    if (st == SW_OK)
        st = swi_times_check(c, report, err);
    return st;
}

/* What keeps the checkpoint from being held against its signature is a finding, as elsewhere. */
static sw_status check_signed(const sw_checkpoint *c, const swi_signed *s,
                              const sw_verify_options *options, sw_report *report,
                              sw_verify_summary *sum, sw_error *err)
{
    const bool deep = options->level == 0 || options->level >= SW_LEVEL_DIGEST;
    const bool proven = deep && sw_report_total(report, SW_DEFECT) == 0;
    sw_error cause = {0};
    if (!s->good || s->format != SW_SIGNATURE_SHARDWRIGHT)
        return SW_OK;
    sw_status st = swi_signed_check_content(s, c, proven, options, report, &sum->signature, &cause);
    if (st != SW_OK && swi_status_is_defect(st))
        return as_finding(&cause, report, err);
    if (st != SW_OK && err != NULL)
        *err = cause;
    return st;
}

/* Everything that is asked of a checkpoint that could be opened. */
static sw_status check_open(const sw_checkpoint *c, const char *path, const swi_signed *s,
                            const sw_verify_options *o, sw_report *report, sw_verify_summary *sum,
                            sw_error *err)
{
    const bool rows = swi_checkpoint_rows_left(c) == SWI_ROWS_OF_MODEL; /* said already */
    swi_verify_portion portion;
    describe(c, sum);
    sw_status st = swi_verify_portion_make(c, o, report, &portion, err);
    if (st == SW_OK)
        st = find_step(c, path, report, sum, err);
    if (st == SW_OK && portion.reads)
        st = check_bytes(&portion, report, sum, err);
    if (st == SW_OK && o->level >= SW_LEVEL_VALUES)
        st = check_values(&portion, report, err);
    if (st == SW_OK && !rows && (o->open.config != NULL || o->open.map != NULL))
        st = swi_verify_model(c, o, report, sum, err);
    if (st == SW_OK && o->digests != NULL)
        st = check_digests(c, o, report, sum, err);
    if (st == SW_OK)
        st = check_signed(c, s, o, report, sum, err);
    if (st == SW_OK)
        st = swi_verify_account(&portion, sum, err);
    swi_verify_portion_free(&portion);
    return st;
}

/* Files that are no checkpoint may be signed too. */
static sw_status note_no_checkpoint(const sw_error *cause, sw_report *report, sw_error *err)
{
    const swi_finding_in in = {.severity = SW_NOTE, .code = "no-checkpoint"};
    return swi_report_error(report, &in, cause, err);
}

static sw_status check_checkpoint(const char *path, const swi_signed *s, const sw_verify_options *o,
                                  sw_report *report, sw_verify_summary *sum, sw_error *err)
{
    sw_checkpoint *c = NULL;
    sw_error cause = {0};
    bool recognised = false;
    sw_status st = swi_checkpoint_open(path, &o->open, report, &recognised, &c, &cause);
    if (st == SW_OK) {
        st = check_open(c, path, s, o, report, sum, err);
        sw_checkpoint_close(c);
        return st;
    }
    if (recognised && swi_status_is_defect(st))
        return as_finding(&cause, report, err);
    const bool of_files = o->signature != NULL && s->format != SW_SIGNATURE_SHARDWRIGHT;
    if (!recognised && st == SW_ERR_FORMAT && of_files)
        return note_no_checkpoint(&cause, report, err);
    if (err != NULL)
        *err = cause;
    return st;
}

sw_status sw_verify(const char *path, const sw_verify_options *options, sw_report *report,
                    sw_verify_summary *out, sw_error *err)
{
    static const sw_verify_options defaults = {0};
    sw_verify_summary sum = {0};
    swi_signed s = {0};
    if (path == NULL || report == NULL || out == NULL)
        return swi_fail(err, SW_ERR_ARG, "sw_verify: path, report and out are needed");
    const sw_verify_options *o = options ? options : &defaults;
    sw_status st = SW_OK;
    if ((o->digests != NULL || o->signature != NULL) && (o->tensors != NULL || o->parts != 0))
        return swi_fail(err, SW_ERR_ARG,
                        "sw_verify: digest lists and signatures are of a whole checkpoint, not of "
                        "some tensors or a part");
    if (o->signature != NULL)
        st = swi_signed_open(o, report, &s, &sum.signature, err);
    if (st == SW_OK)
        st = check_checkpoint(path, &s, o, report, &sum, err);
    if (st == SW_OK && s.good && s.format == SW_SIGNATURE_OMS)
        st = swi_signed_check_files(&s, path, o, report, &sum.signature, err);
    swi_signed_close(&s);
    if (st == SW_OK)
        *out = sum;
    return st;
}
