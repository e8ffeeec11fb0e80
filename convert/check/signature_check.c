#include "check/signature_check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/report.h"
#include "base/text.h"
#include "check/hash.h"
#include "check/oms_check.h"
#include "check/signature.h"

static sw_status say(sw_report *report, const char *code, const char *file, const char *message,
                     sw_error *err)
{
    const swi_finding_in in = {
        .severity = SW_DEFECT, .status = SW_ERR_UNTRUSTED, .code = code, .file = file};
    return swi_report_add(report, &in, err, "%s", message);
}

/* ---- the signature itself ------------------------------------------------------------------ */

/* What is wrong with what was read, unless it is this machine. */
static sw_status say_malformed(const swi_signed *s, const sw_error *cause, sw_report *report,
                               sw_error *err)
{
    const swi_finding_in in = {.severity = SW_DEFECT,
                               .status = SW_ERR_UNTRUSTED,
                               .code = "signature-malformed",
                               .file = s->path,
                               .has_offset = cause->has_offset,
                               .offset_bytes = cause->offset_bytes};
    if (swi_could_not_work(cause->status)) {
        if (err != NULL)
            *err = *cause;
        return cause->status;
    }
    return swi_report_error(report, &in, cause, err);
}

/* Whether it is this key's. A hint that names another key words the finding. */
static sw_status check_key(const swi_signed *s, const swi_signature_file *file, const swi_key *key,
                           sw_report *report, sw_signature_summary *summary, bool *good,
                           sw_error *err)
{
    bool right = false;
    snprintf(summary->key, sizeof summary->key, "%s", swi_key_kind(key));
    sw_status status = swi_key_hint(key, summary->hint, err);
    if (status == SW_OK)
        status = swi_dsse_check(&file->envelope, key, &right, err);
    if (status != SW_OK)
        return status;
    const bool named = file->hint[0] != '\0';
    if (named && strcmp(file->hint, summary->hint) != 0)
        return say(report, "signature-key", s->path, "it was made with another key than this one",
                   err);
    if (!right)
        return say(report, "signature-bad", s->path,
                   named ? "the signature is not that of what is signed: one of both was changed"
                         : "the signature is not this key's: it is another's, or something was "
                           "changed",
                   err);
    *good = true;
    return SW_OK;
}

static sw_status read_statement(swi_signed *s, const swi_signature_file *file,
                                const sw_limits *limits, sw_signature_summary *summary,
                                sw_error *err)
{
    const swi_buf *payload = &file->envelope.payload;
    const bool oms = s->format == SW_SIGNATURE_OMS;
    sw_status status =
        oms ? swi_oms_read(payload->data, payload->size, limits, &s->oms, err)
            : swi_statement_read(payload->data, payload->size, limits, &s->statement, err);
    if (status != SW_OK)
        return status;
    const char *name = oms ? s->oms.subject : s->statement.name;
    (void)swi_quote_into(summary->name, sizeof summary->name, name, strlen(name));
    return SW_OK;
}

static sw_status open_file(swi_signed *s, const uint8_t *data, size_t size, const swi_key *key,
                           const sw_limits *limits, sw_report *report,
                           sw_signature_summary *summary, sw_error *err)
{
    swi_signature_file file = {0};
    sw_error cause = {0};
    bool good = false;
    sw_status status = swi_signature_file_read(data, size, limits, &file, &cause);
    if (status != SW_OK)
        return say_malformed(s, &cause, report, err);
    summary->format = s->format = file.format;
    status = check_key(s, &file, key, report, summary, &good, err);
    if (status == SW_OK && good) {
        s->good = read_statement(s, &file, limits, summary, &cause) == SW_OK;
        if (!s->good)
            status = say_malformed(s, &cause, report, err);
    }
    swi_signature_file_free(&file);
    return status;
}

sw_status swi_signed_open(const sw_verify_options *options, sw_report *report, swi_signed *out,
                          sw_signature_summary *summary, sw_error *err)
{
    const sw_limits limits = sw_limits_resolve(options->open.limits);
    swi_signed s = {.path = options->signature};
    swi_key *key = NULL;
    uint8_t *data = NULL;
    size_t size = 0;
    if (options->key == NULL)
        return swi_fail(
            err, SW_ERR_ARG,
            "a signature says nothing without the public key that it must be made with");
    sw_status status = swi_verifying_key_read(options->key, &key, err);
    if (status == SW_OK)
        status = swi_read_file(options->signature, limits.metadata_bytes, &data, &size, err);
    if (status == SW_OK)
        status = open_file(&s, data, size, key, &limits, report, summary, err);
    free(data);
    swi_key_free(key);
    if (status != SW_OK)
        swi_signed_close(&s);
    else
        *out = s;
    return status;
}

void swi_signed_close(swi_signed *s)
{
    swi_statement_free(&s->statement);
    swi_oms_free(&s->oms);
    *s = (swi_signed){0};
}

/* ---- what it says ------------------------------------------------------------------------- */

sw_status swi_signed_check_files(const swi_signed *s, const char *path,
                                 const sw_verify_options *options, sw_report *report,
                                 sw_signature_summary *summary, sw_error *err)
{
    const swi_oms_in in = {
        .path = path, .signature = s->path, .limits = options->open.limits, .work = &options->work};
    const uint64_t before = sw_report_total(report, SW_DEFECT);
    sw_status status = swi_oms_check(&in, &s->oms, report, summary, err);
    if (status == SW_OK && sw_report_total(report, SW_DEFECT) == before)
        summary->verdict = SW_SIGNED_FILES;
    return status;
}

static sw_status check_tensors(const swi_signed *s, const sw_checkpoint *checkpoint,
                               const sw_verify_options *options, sw_report *report,
                               sw_signature_summary *summary, bool *other, sw_error *err)
{
    sw_verify_summary counts = {0};
    const swi_digest_list *list = &s->statement.tensors;
    sw_status status = swi_digests_check(checkpoint, list, options, report, &counts, err);
    summary->tensors = counts.listed_tensors;
    summary->matched_tensors = counts.matched_tensors;
    *other = counts.nothing_listed &&
             list->count + sw_catalog_tensor_count(sw_checkpoint_catalog(checkpoint)) > 0;
    if (status == SW_OK && *other)
        status = say(report, "signature-other", s->path,
                     "it is of another checkpoint: no tensor that is signed is in this one", err);
    return status;
}

static sw_status check_values(const swi_signed *s, const sw_checkpoint *checkpoint,
                              sw_report *report, sw_error *err)
{
    swi_digest found;
    sw_status status = swi_statement_values(checkpoint, &found, err);
    if (status == SW_OK && memcmp(&found, &s->statement.values, sizeof found) != 0)
        status =
            say(report, "signature-values", NULL,
                "its values (steps, groups, arguments ...) are not those that were signed", err);
    return status;
}

sw_status swi_signed_check_content(const swi_signed *s, const sw_checkpoint *checkpoint,
                                   bool proven, const sw_verify_options *options, sw_report *report,
                                   sw_signature_summary *summary, sw_error *err)
{
    swi_digest root;
    const uint64_t before = sw_report_total(report, SW_DEFECT);
    const swi_statement *statement = &s->statement;
    if (proven && statement->has_native && swi_statement_native(checkpoint, &root) &&
        memcmp(&root, &statement->native, sizeof root) == 0) {
        summary->tensors = summary->matched_tensors = statement->tensors.count;
        summary->verdict = SW_SIGNED_FILES;
        return SW_OK;
    }
    bool other = false;
    sw_status status = check_tensors(s, checkpoint, options, report, summary, &other, err);
    if (status == SW_OK && !other)
        status = check_values(s, checkpoint, report, err);
    if (status == SW_OK && sw_report_total(report, SW_DEFECT) == before)
        summary->verdict = SW_SIGNED_CONTENT;
    return status;
}
