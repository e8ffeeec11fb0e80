/* What the tests of signatures share: key files, edited texts, runs. */
#ifndef TESTS_CONVERT_SIGNING_FIXTURE_H
#define TESTS_CONVERT_SIGNING_FIXTURE_H

#include "convert/fixture.h"

#include "check/signature.h"
#include "format/signing_keys.h"

/* Each test works inside its folder. */
static inline int enter(void **state)
{
    return harness_dir_setup(state) == 0 && chdir(*state) == 0 ? 0 : -1;
}

static inline int leave(void **state)
{
    return chdir("..") == 0 ? harness_dir_teardown(state) : -1;
}

#define test_here(name) cmocka_unit_test_setup_teardown(name, enter, leave)

static inline void write_keys(void)
{
    harness_write_text("ed.pem", ed25519_private);
    harness_write_text("ed.pub", ed25519_public);
    harness_write_text("p256.pem", p256_private);
    harness_write_text("p256.pub", p256_public);
    harness_write_text("p384.pem", p384_private);
    harness_write_text("p384.pub", p384_public);
    harness_write_text("p521.pem", p521_private);
    harness_write_text("p521.pub", p521_public);
}

/* The text with its first `from`, which must be there, replaced. Free it. */
static inline char *replaced(const char *text, const char *from, const char *to)
{
    const char *at = strstr(text, from);
    if (at == NULL)
        fail_msg("no \"%s\" in \"%s\"", from, text);
    char *out = malloc(strlen(text) + strlen(to) + 1);
    assert_non_null(out);
    snprintf(out, strlen(text) + strlen(to) + 1, "%.*s%s%s", (int)(at - text), text, to,
             at + strlen(from));
    return out;
}

/* A signature of this payload, made with a private key. */
static inline void write_signature(const char *path, sw_signature_format format, const char *pem,
                                   const char *payload)
{
    swi_key *key = NULL;
    swi_buf text = {0};
    sw_error err = {0};
    const swi_buf bytes = {.data = (uint8_t *)(uintptr_t)payload, .size = strlen(payload)};
    assert_ok(swi_key_read_private(pem, strlen(pem), NULL, &key, &err), &err);
    assert_ok(swi_signature_file_write(format, key, &bytes, &text, &err), &err);
    harness_write(path, text.data, text.size);
    swi_buf_free(&text);
    swi_key_free(key);
}

static inline void run_signed(const char *path, const char *signature, const char *key, outcome *o)
{
    const sw_verify_options options = {.signature = signature, .key = key};
    outcome_begin(o);
    o->status = sw_verify(path, &options, o->report, &o->verified, &o->err);
    sw_report_sort(o->report);
}

static inline void assert_signed(const char *path, const char *signature, const char *key,
                                 sw_signed verdict)
{
    outcome o;
    run_signed(path, signature, key, &o);
    assert_fine(&o);
    assert_int_equal(o.verified.signature.verdict, verdict);
    outcome_free(&o);
}

/* One defect of that code alone, UNTRUSTED unless it tells of something missing. */
static inline void assert_not_signed(const char *path, const char *signature, const char *key,
                                     const char *code, const char *file, const char *text)
{
    outcome o;
    run_signed(path, signature, key, &o);
    assert_ok(o.status, &o.err);
    const sw_finding *f = assert_found(&o, SW_DEFECT, code, file, NULL, text);
    assert_int_equal(f->status,
                     strstr(code, "missing") != NULL ? SW_ERR_INCOMPLETE : SW_ERR_UNTRUSTED);
    if (bad_findings(&o) != 1)
        show_outcome(&o);
    assert_int_equal(bad_findings(&o), 1);
    assert_int_equal(o.verified.signature.verdict, SW_SIGNED_NOT);
    outcome_free(&o);
}

#endif
