/* Shardwright's own signature (specs/signing.md, SIG-3 to SIG-10). */
#include "convert/signing_fixture.h"

static void sign_with(const char *path, const char *key, const char *out)
{
    const sw_sign_options options = {.key = key, .out = out, .overwrite = true};
    sw_error err = {0};
    assert_ok(sw_sign(path, &options, NULL, NULL, &err), &err);
}

/* The payload of a signature file. Free it. */
static char *payload_of(const char *path)
{
    size_t size;
    uint8_t *text = harness_read(path, &size);
    swi_signature_file file = {0};
    sw_error err = {0};
    assert_ok(swi_signature_file_read(text, size, NULL, &file, &err), &err);
    assert_int_equal(file.format, SW_SIGNATURE_SHARDWRIGHT);
    char *payload = malloc(file.envelope.payload.size + 1);
    assert_non_null(payload);
    memcpy(payload, file.envelope.payload.data, file.envelope.payload.size);
    payload[file.envelope.payload.size] = '\0';
    swi_signature_file_free(&file);
    free(text);
    return payload;
}

static void every_kind_of_key(void **state)
{
    (void)state;
    static const char *const keys[][3] = {{"ed.pem", "ed.pub", "ed25519"},
                                          {"p256.pem", "p256.pub", "p-256"},
                                          {"p384.pem", "p384.pub", "p-384"},
                                          {"p521.pem", "p521.pub", "p-521"}};
    write_keys();
    make_demo("demo");
    for (size_t i = 0; i < 4; i++) {
        outcome o;
        sign_with("demo", keys[i][0], NULL);
        run_signed("demo", "demo/checkpoint.sig", keys[i][1], &o);
        assert_fine(&o);
        assert_int_equal(o.verified.signature.verdict, SW_SIGNED_CONTENT);
        assert_string_equal(o.verified.signature.key, keys[i][2]);
        assert_string_equal(o.verified.signature.name, "demo");
        assert_int_equal(o.verified.signature.tensors, o.verified.tensors);
        assert_int_equal(o.verified.signature.matched_tensors, o.verified.tensors);
        outcome_free(&o);
        assert_not_signed("demo", "demo/checkpoint.sig", keys[(i + 1) % 4][1], "signature-key",
                          "demo/checkpoint.sig", "made with another key");
    }
}

static void right_after_a_reshard(void **state)
{
    (void)state;
    static const char *const targets[] = {"dcp:ranks=1", "dcp:ranks=3", "native:ranks=1",
                                          "native:ranks=5"};
    write_keys();
    make_demo("demo");
    sign_with("demo", "ed.pem", "signed");
    for (size_t i = 0; i < sizeof targets / sizeof targets[0]; i++) {
        outcome o;
        const sw_convert_options options = {.to = targets[i], .overwrite = true};
        run_convert("demo", "again", &options, &o);
        assert_fine(&o);
        outcome_free(&o);
        assert_signed("again", "signed", "ed.pub", SW_SIGNED_CONTENT);
        sign_with("again", "p256.pem", NULL);
        assert_signed("demo", "again/checkpoint.sig", "p256.pub", SW_SIGNED_CONTENT);
    }
}

static void convert_good(const char *source, const char *dest, const char *target)
{
    outcome o;
    const sw_convert_options options = {.to = target};
    run_convert(source, dest, &options, &o);
    assert_fine(&o);
    outcome_free(&o);
}

/* SIG-9: the very files only where all of their bytes were looked at. */
static void the_very_files(void **state)
{
    (void)state;
    write_keys();
    make_demo("demo");
    convert_good("demo", "n", "native:ranks=2");
    sign_with("n", "ed.pem", NULL);
    assert_signed("n", "n/checkpoint.sig", "ed.pub", SW_SIGNED_FILES);
    harness_copy_tree("n", "copy");
    assert_signed("copy", "n/checkpoint.sig", "ed.pub", SW_SIGNED_FILES);
    outcome o;
    const sw_verify_options shallow = {
        .level = SW_LEVEL_COVERAGE, .signature = "n/checkpoint.sig", .key = "ed.pub"};
    outcome_begin(&o);
    o.status = sw_verify("copy", &shallow, o.report, &o.verified, &o.err);
    assert_fine(&o);
    assert_int_equal(o.verified.signature.verdict, SW_SIGNED_CONTENT);
    outcome_free(&o);
    convert_good("n", "again", "native:ranks=3,codec=zstd");
    assert_signed("again", "n/checkpoint.sig", "ed.pub", SW_SIGNED_CONTENT);
    convert_good("again", "dcp", "dcp:ranks=2");
    assert_signed("dcp", "n/checkpoint.sig", "ed.pub", SW_SIGNED_CONTENT);
    convert_good("dcp", "file", "torch");
    assert_signed("file", "n/checkpoint.sig", "ed.pub", SW_SIGNED_CONTENT);
    /* shards of another run, whose manifest goes with them: all is well but the signature */
    size_t size;
    uint8_t *bytes = harness_read("copy/rank-00001-of-00002.sws", &size);
    bytes[4096] ^= 1;
    harness_write("copy/rank-00001-of-00002.sws", bytes, size);
    run_signed("copy", "n/checkpoint.sig", "ed.pub", &o);
    assert_true(bad_findings(&o) > 0);
    assert_int_equal(o.verified.signature.verdict, SW_SIGNED_NOT);
    outcome_free(&o);
    free(bytes);
}

/* The same tensors by name and shape, of another run. */
static void another_run(void **state)
{
    (void)state;
    write_keys();
    write_st_one("a.safetensors", "w", 2, 2, 1);
    write_st_one("b.safetensors", "w", 2, 2, 2);
    convert_good("a.safetensors", "a", "native");
    convert_good("b.safetensors", "b", "native");
    sign_with("a", "ed.pem", NULL);
    assert_signed("a", "a/checkpoint.sig", "ed.pub", SW_SIGNED_FILES);
    outcome o;
    run_signed("b", "a/checkpoint.sig", "ed.pub", &o);
    assert_found(&o, SW_DEFECT, "digest-mismatch", NULL, "w", "");
    assert_int_equal(bad_findings(&o), 1);
    assert_int_equal(o.verified.signature.verdict, SW_SIGNED_NOT);
    outcome_free(&o);
}

static void other_values(void **state)
{
    (void)state;
    write_keys();
    make_demo("demo");
    sign_with("demo", "ed.pem", "good.sig");
    char *good = payload_of("good.sig");
    char *at = strstr(good, "\"values\":\"");
    assert_non_null(at);
    at[10] = at[10] == '0' ? '1' : '0';
    write_signature("bad.sig", SW_SIGNATURE_SHARDWRIGHT, ed25519_private, good);
    assert_not_signed("demo", "bad.sig", "ed.pub", "signature-values", NULL,
                      "are not those that were signed");
    free(good);
}

static void wrong_after_a_change(void **state)
{
    (void)state;
    write_keys();
    make_demo("demo");
    sign_with("demo", "ed.pem", "signed");
    outcome o;
    const sw_convert_options weights = {.to = "hf"};
    run_convert("demo", "hf", &weights, &o);
    assert_fine(&o);
    outcome_free(&o);
    assert_not_signed("hf", "signed", "ed.pub", "signature-other", "signed",
                      "no tensor that is signed is in this one");
    const sw_convert_options part = {.to = "dcp",
                                     .drop = (const char *const[]){"*layers.0.*", NULL}};
    run_convert("demo", "part", &part, &o);
    assert_fine(&o);
    outcome_free(&o);
    run_signed("part", "signed", "ed.pub", &o);
    assert_int_equal(o.verified.signature.verdict, SW_SIGNED_NOT);
    assert_true(o.verified.signature.matched_tensors > 0);
    assert_found(&o, SW_DEFECT, "digest-missing", NULL, NULL, "the checkpoint has not");
    outcome_free(&o);
}

/* One bit of one tensor; nothing else is looked at. */
static void one_bit(void **state)
{
    (void)state;
    write_keys();
    write_st_one("a.safetensors", "w", 2, 2, 1);
    sign_with("a.safetensors", "ed.pem", NULL);
    assert_true(harness_exists("a.safetensors.sig"));
    assert_signed("a.safetensors", "a.safetensors.sig", "ed.pub", SW_SIGNED_CONTENT);
    size_t size;
    uint8_t *bytes = harness_read("a.safetensors", &size);
    for (size_t bit = 0; bit < 32; bit += 5) {
        bytes[size - 16 + bit / 8] ^= (uint8_t)(1U << bit % 8);
        harness_write("a.safetensors", bytes, size);
        outcome o;
        run_signed("a.safetensors", "a.safetensors.sig", "ed.pub", &o);
        const sw_finding *f = assert_found(&o, SW_DEFECT, "digest-mismatch", NULL, "w", "");
        assert_int_equal(f->status, SW_ERR_UNTRUSTED);
        assert_int_equal(bad_findings(&o), 1);
        assert_int_equal(o.verified.signature.verdict, SW_SIGNED_NOT);
        outcome_free(&o);
        bytes[size - 16 + bit / 8] ^= (uint8_t)(1U << bit % 8);
    }
    free(bytes);
}

static void edited_statements(void **state)
{
    (void)state;
    static const struct {
        const char *from, *to, *says;
    } edits[] = {
        {"\"format\":1", "\"format\":2", "format 2; known is 1"},
        {"\"format\":1", "\"format\":\"1\"", "\"format\" is no number"},
        {"\"format\":1,", "", "no member \"format\""},
        {"\"format\":1", "\"format\":1,\"more\":1", "unknown member \"more\""},
        {"\"format\":1", "\"format\":1,\"format\":1", ""},
        {"\"name\":\"a.safetensors\",", "", "no member \"name\""},
        {"\"tensors\":", "\"native\":\"12\",\"tensors\":", "\"native\" is no SHA-256"},
        {"\"values\":\"", "\"values\":\"x", "\"values\" is no SHA-256"},
        {"\"values\":", "\"value\":", "unknown member \"value\""},
        {"shardwright-digests 1", "shardwright-digests 2", "it does not begin with"},
        {"# names all", "# names weights", "is not of all tensors as they are"},
        {"# root", "# as bfloat16\\n# root", "is not of all tensors as they are"},
        {"# root", "# only w\\n# root", "is not of all tensors as they are"},
        {"  w\\n", "  v\\n", ""},
    };
    write_keys();
    write_st_one("a.safetensors", "w", 2, 2, 1);
    sign_with("a.safetensors", "ed.pem", "good.sig");
    char *good = payload_of("good.sig");
    for (size_t i = 0; i < sizeof edits / sizeof edits[0]; i++) {
        char *bad = replaced(good, edits[i].from, edits[i].to);
        write_signature("bad.sig", SW_SIGNATURE_SHARDWRIGHT, ed25519_private, bad);
        assert_not_signed("a.safetensors", "bad.sig", "ed.pub", "signature-malformed", "bad.sig",
                          edits[i].says);
        free(bad);
    }
    /* an OMS payload in an own envelope, and the reverse */
    write_signature("bad.sig", SW_SIGNATURE_OMS, p256_private, good);
    assert_not_signed("a.safetensors", "bad.sig", "p256.pub", "signature-malformed", "bad.sig",
                      "unknown member");
    free(good);
}

/* Every byte of the file that changes is said. */
static void edited_files(void **state)
{
    (void)state;
    write_keys();
    write_st_one("a.safetensors", "w", 2, 2, 1);
    sign_with("a.safetensors", "ed.pem", "good.sig");
    size_t size;
    uint8_t *text = harness_read("good.sig", &size);
    for (size_t i = 0; i < size; i += 7) {
        uint8_t kept = text[i];
        text[i] = kept == 'x' ? 'y' : 'x';
        harness_write("bad.sig", text, size);
        outcome o;
        run_signed("a.safetensors", "bad.sig", "ed.pub", &o);
        assert_ok(o.status, &o.err);
        assert_int_equal(bad_findings(&o), 1);
        assert_int_equal(o.verified.signature.verdict, SW_SIGNED_NOT);
        outcome_free(&o);
        text[i] = kept;
    }
    for (size_t cut = 1; cut < size; cut += 41) {
        harness_write("bad.sig", text, size - cut);
        assert_not_signed("a.safetensors", "bad.sig", "ed.pub", "signature-malformed", "bad.sig",
                          "");
    }
    free(text);
}

static void calls_that_cannot_be(void **state)
{
    (void)state;
    outcome o;
    sw_error err = {0};
    sw_sign_options options = {0};
    write_keys();
    make_demo("demo");
    assert_int_equal(sw_sign("demo", &options, NULL, NULL, &err), SW_ERR_ARG);
    run_signed("demo", "p256.pem", NULL, &o);
    assert_run_refused(&o, SW_ERR_ARG, "without the public key", NULL);
    outcome_free(&o);
    run_signed("demo", "none.sig", "ed.pub", &o);
    assert_run_refused(&o, SW_ERR_NOTFOUND, "none.sig", NULL);
    outcome_free(&o);
    run_signed("demo", "none.sig", "none.pub", &o);
    assert_run_refused(&o, SW_ERR_NOTFOUND, "none.pub", NULL);
    outcome_free(&o);
    run_signed("demo", "none.sig", "ed.pem", &o);
    assert_run_refused(&o, SW_ERR_FORMAT, "ed.pem: is a private key", NULL);
    outcome_free(&o);
    assert_int_equal(mkdir("nothing", 0777), 0);
    options.key = "ed.pem";
    assert_int_equal(sw_sign("nothing", &options, NULL, NULL, &err), SW_ERR_FORMAT);
    assert_error(&err, SW_ERR_FORMAT, "no checkpoint");
}

static void defects_are_not_signed(void **state)
{
    (void)state;
    sw_error err = {0};
    const sw_sign_options options = {.key = "ed.pem"};
    write_keys();
    make_demo("demo");
    harness_remove("demo/__2_0.distcp");
    assert_int_equal(sw_sign("demo", &options, NULL, NULL, &err), SW_ERR_CORRUPT);
    assert_error(&err, SW_ERR_CORRUPT, "has defects and is not signed");
    assert_false(harness_exists("demo/checkpoint.sig"));
}

static void keys_with_a_passphrase(void **state)
{
    (void)state;
    sw_error err = {0};
    write_keys();
    make_demo("demo");
    harness_write_text("enc.pem", encrypted_pkcs8);
    harness_write_text("right", ENCRYPTED_WITH "\r\nand more\n");
    harness_write_text("wrong", "open Sesame\n");
    sw_sign_options options = {.key = "enc.pem"};
    assert_int_equal(sw_sign("demo", &options, NULL, NULL, &err), SW_ERR_ARG);
    assert_error(&err, SW_ERR_ARG, "enc.pem: is encrypted; name the file with its passphrase");
    options.passphrase_file = "wrong";
    assert_int_equal(sw_sign("demo", &options, NULL, NULL, &err), SW_ERR_ARG);
    assert_error(&err, SW_ERR_ARG, "enc.pem: is encrypted, and the passphrase does not open it");
    options.passphrase_file = "right";
    assert_ok(sw_sign("demo", &options, NULL, NULL, &err), &err);
    assert_signed("demo", "demo/checkpoint.sig", "p384.pub", SW_SIGNED_CONTENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        test_here(every_kind_of_key),
        test_here(right_after_a_reshard),
        test_here(the_very_files),
        test_here(another_run),
        test_here(other_values),
        test_here(wrong_after_a_change),
        test_here(one_bit),
        test_here(edited_statements),
        test_here(edited_files),
        test_here(calls_that_cannot_be),
        test_here(keys_with_a_passphrase),
        test_here(defects_are_not_signed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
