/* Signing a checkpoint (specs/signing.md). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/text.h"
#include "check/oms_check.h"
#include "check/real_path.h"
#include "check/signature.h"
#include "check/statement.h"

typedef struct signing {
    const char *path;
    const sw_sign_options *options;
    sw_signature_format format;
    swi_key *key;
    swi_buf out; /* the path of the signature, terminated */
    swi_buf payload;
    sw_report *report;
    sw_sign_summary sum;
} signing;

/* ---- where it goes ------------------------------------------------------------------------ */

/* Into the folder `root`, or beside the file that it is. */
static sw_status choose_out(signing *s, const char *root, bool is_file, sw_error *err)
{
    const bool oms = s->format == SW_SIGNATURE_OMS;
    if (s->options->out != NULL)
        return swi_buf_printf(&s->out, err, "%s", s->options->out);
    size_t size = strlen(root);
    while (size > 1 && root[size - 1] == '/')
        size--;
    sw_status status = swi_buf_append(&s->out, root, size, err);
    if (status == SW_OK)
        status = is_file ? swi_buf_printf(&s->out, err, ".sig")
                         : swi_buf_printf(&s->out, err, "/%s",
                                          oms ? SWI_SIGNATURE_OMS_NAME : SWI_SIGNATURE_NAME);
    return status;
}

static bool is_file(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

/* ---- what is signed ----------------------------------------------------------------------- */

static sw_status state_files(signing *s, sw_error *err)
{
    swi_oms oms = {0};
    swi_digest root;
    swi_quoted q;
    if (!swi_key_is_ec(s->key))
        return swi_fail(err, SW_ERR_UNSUPPORTED,
                        "%s: OMS bundles are signed with EC keys (P-256, P-384, P-521), this is "
                        "%s; --format shardwright takes it",
                        swi_quote_str(&q, s->options->key), swi_key_kind(s->key));
    sw_status status = choose_out(s, s->path, is_file(s->path), err);
    const swi_oms_in in = {.path = s->path,
                           .signature = (char *)s->out.data,
                           .limits = s->options->open.limits,
                           .work = &s->options->work};
    if (status == SW_OK)
        status = swi_oms_make(&in, &oms, &s->sum.bytes, err);
    if (status == SW_OK)
        status = swi_oms_root(&oms, &root, err);
    if (status == SW_OK) {
        swi_digest_text(&root, s->sum.root);
        s->sum.files = oms.count;
        status = swi_oms_write(&oms, &s->payload, err);
    }
    swi_oms_free(&oms);
    return status;
}

static sw_status state_checkpoint(signing *s, const sw_checkpoint *c, const char *name,
                                  sw_error *err)
{
    swi_statement statement = {0};
    sw_tally tally = {0};
    sw_status status =
        swi_statement_make(c, name, &s->options->work, s->report, &statement, &tally, err);
    if (status == SW_OK) {
        swi_digest_text(&statement.tensors.root, s->sum.root);
        s->sum.tensors = statement.tensors.count;
        s->sum.bytes = tally.read_bytes;
        status = swi_statement_write(&statement, &s->payload, err);
    }
    swi_statement_free(&statement);
    return status;
}

/* What opening found: a signature would vouch for it. */
static sw_status refuse_findings(const signing *s, sw_error *err)
{
    swi_quoted q;
    if (sw_report_total(s->report, SW_DANGER) > 0)
        return swi_fail(err, SW_ERR_UNSAFE,
                        "%s: holds unsafe content and is not signed; see "
                        "shardwright verify",
                        swi_quote_str(&q, s->path));
    if (sw_report_total(s->report, SW_DEFECT) > 0)
        return swi_fail(err, SW_ERR_CORRUPT,
                        "%s: has defects and is not signed; see shardwright verify",
                        swi_quote_str(&q, s->path));
    return SW_OK;
}

static sw_status state_content(signing *s, sw_error *err)
{
    sw_checkpoint *c = NULL;
    char *real = NULL;
    sw_status status = sw_checkpoint_open(s->path, &s->options->open, s->report, &c, err);
    if (status != SW_OK)
        return status;
    const bool alone = swi_checkpoint_alone(c);
    const char *at = alone ? s->path : sw_checkpoint_root(c);
    status = refuse_findings(s, err);
    if (status == SW_OK)
        status = choose_out(s, at, alone, err);
    if (status == SW_OK)
        status = swi_real_path(at, &real, err);
    if (status == SW_OK)
        status = state_checkpoint(s, c, swi_last_part(real), err);
    free(real);
    sw_checkpoint_close(c);
    return status;
}

/* ---- signing ------------------------------------------------------------------------------ */

static sw_status publish(signing *s, sw_error *err)
{
    swi_buf text = {0};
    sw_status status = swi_signature_file_write(s->format, s->key, &s->payload, &text, err);
    if (status == SW_OK)
        status = swi_signature_publish((char *)s->out.data, s->options->overwrite, &text, err);
    swi_buf_free(&text);
    return status;
}

static sw_status describe(signing *s, sw_error *err)
{
    snprintf(s->sum.out, sizeof s->sum.out, "%s", (char *)s->out.data);
    snprintf(s->sum.key, sizeof s->sum.key, "%s", swi_key_kind(s->key));
    return swi_key_hint(s->key, s->sum.hint, err);
}

static sw_status sign(signing *s, sw_error *err)
{
    const sw_sign_options *o = s->options;
    sw_status status = swi_signing_key_read(o->key, o->passphrase_file, &s->key, err);
    if (status == SW_OK)
        status = s->format == SW_SIGNATURE_OMS ? state_files(s, err) : state_content(s, err);
    if (status == SW_OK)
        status = describe(s, err);
    return status == SW_OK ? publish(s, err) : status;
}

sw_status sw_sign(const char *path, const sw_sign_options *options, sw_report *report,
                  sw_sign_summary *out, sw_error *err)
{
    signing s = {.path = path, .options = options, .report = report};
    sw_report *own = NULL;
    sw_status status = SW_OK;
    if (path == NULL || options == NULL || options->key == NULL)
        return swi_fail(err, SW_ERR_ARG, "sw_sign: a path and a key are needed");
    s.format = options->format != 0 ? options->format : SW_SIGNATURE_SHARDWRIGHT;
    if (report == NULL)
        status = sw_report_make(&own, err);
    if (own != NULL)
        s.report = own;
    if (status == SW_OK)
        status = sign(&s, err);
    sw_report_free(own);
    swi_key_free(s.key);
    swi_buf_free(&s.out);
    swi_buf_free(&s.payload);
    if (status == SW_OK && out != NULL)
        *out = s.sum;
    return status;
}
