/* OMS bundles (specs/signing.md): the published vector, every rule of the statement, files. */
#include "convert/signing_fixture.h"

#include "check/oms.h"

/* ---- the vector ---------------------------------------------------------------------------- */

typedef struct file {
    const char *name, *content, *digest;
} file;
enum { CONFIG, EMPTY, SUB_A, SUB_X, WEIGHTS };
static const file files[] = {
    {"config.json", "{}\n", "ca3d163bab055381827226140568f3bef7eaac187cebd76878e0b63e9e442356"},
    {"empty.bin", "", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
    {"sub/a.bin", "abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
    {"sub-x", "1", "6b86b273ff34fce19d6b804eff5a3f5747ada4eaa22f1d49c01e52ddb7875b4b"},
    {"weights.bin", "0123456789abcdefghijk",
     "a65a5ae7491ca88e40ed70f669993f0156a109ac44d219180884cd2dda4ab7a8"}};
static const int by_component[] = {CONFIG, EMPTY, SUB_A, SUB_X, WEIGHTS};
static const int by_text[] = {CONFIG, EMPTY, SUB_X, SUB_A, WEIGHTS};

static void make_model(const char *folder)
{
    for (size_t i = 0; i < 5; i++) {
        char *path = harness_path(folder, "%s", files[i].name);
        harness_write_text(path, files[i].content);
        free(path);
    }
}

static void assert_sha256(const char *text, const char *want)
{
    swi_hasher *hasher;
    swi_digest digest;
    char found[SWI_DIGEST_TEXT];
    sw_error err = {0};
    assert_ok(swi_hasher_make(&hasher, &err), &err);
    assert_ok(swi_hasher_begin(hasher, &err), &err);
    assert_ok(swi_hasher_add(hasher, text, strlen(text), &err), &err);
    assert_ok(swi_hasher_end(hasher, &digest, &err), &err);
    swi_digest_text(&digest, found);
    assert_string_equal(found, want);
    swi_hasher_free(hasher);
}

/* The statement as it is written, in this order. */
static char *statement(const int *order)
{
    static const char *const ignored[] = {".git", ".gitattributes", ".github", ".gitignore"};
    swi_oms oms = {.subject = "demo"};
    swi_buf text = {0};
    sw_error err = {0};
    for (size_t i = 0; i < 4; i++)
        assert_ok(swi_oms_add_ignored(&oms, ignored[i], &err), &err);
    for (size_t i = 0; i < 5; i++) {
        swi_digest digest;
        assert_true(swi_digest_parse(files[order[i]].digest, 64, &digest));
        assert_ok(swi_oms_add(&oms, files[order[i]].name, &digest, &err), &err);
    }
    assert_ok(swi_oms_write(&oms, &text, &err), &err);
    assert_ok(swi_buf_u8(&text, 0, &err), &err);
    swi_oms_free(&oms);
    return (char *)text.data;
}

static char *bundle(const char *payload, const char *hint, const char *signature)
{
    swi_buf text = {0}, base64 = {0};
    sw_error err = {0};
    assert_ok(swi_base64_write(payload, strlen(payload), &base64, &err), &err);
    assert_ok(swi_buf_printf(
                  &text, &err,
                  "{\"mediaType\":\"application/vnd.dev.sigstore.bundle.v0.3+json\","
                  "\"verificationMaterial\":{\"publicKey\":{\"hint\":\"%s\"},\"tlogEntries\":[]},"
                  "\"dsseEnvelope\":{\"payload\":\"%.*s\",\"payloadType\":\"application/"
                  "vnd.in-toto+json\",\"signatures\":[{\"sig\":\"%s\",\"keyid\":\"\"}]}}",
                  hint, (int)base64.size, (char *)base64.data, signature),
              &err);
    swi_buf_free(&base64);
    return (char *)text.data;
}

static const char p256_by_component[] =
    "MEUCIQD3KbKPNNemxCgbjxNhU4F2OqXvh1QQLTjh5m2HO4m4YgIgPuiLSCkA2MM5DfMW0FD49D9oebZ5t9qqTT8VlDWac"
    "ds=";
static const char p256_by_text[] =
    "MEUCIQC/1pHQ5Mf8YZ7/LddDoeuRJiI/lclWaoJ9SGir+m258AIgXSVG543IlxkA/WM48K77Cb+mPBeNEzw7kDVz9ONgi"
    "5I=";
static const char p384_by_component[] =
    "MGYCMQDqbUm7yl7UEvub0fM2SlZpNEpVrsscO9ZvO02gbKsBHaROqAw+5Zne9g5tc1MgdmoCMQClxtpDFY+bR3py7EDYv"
    "HFf0xlwuZlNtyHU0P6E7z4wVQIY1gsMWxcBHoUL/6jbyHs=";

/* The demo model, keys, and demo/model.sig as it was published. */
static void make_vector(void)
{
    char *text = statement(by_component);
    char *sig = bundle(text, P256_HINT, p256_by_component);
    make_model("demo");
    write_keys();
    harness_write_text("demo/model.sig", sig);
    free(sig);
    free(text);
}

static void published_bundles(void **state)
{
    (void)state;
    make_vector();
    char *component = statement(by_component), *text = statement(by_text);
    assert_int_equal(strlen(component), 974);
    assert_sha256(component, "305b1c665dfcdf6b66e56579e595076f1c8285907d8624727baa1af4a0d42fa7");
    assert_int_equal(strlen(text), 974);
    assert_sha256(text, "6cbb98d9945a7c5a6cd6a28d33e6fb96b23ad21453d13771ef1462f348f6e4dd");
    char *p384 = bundle(component, P384_HINT, p384_by_component);
    char *other = bundle(text, P256_HINT, p256_by_text);
    char *unnamed = bundle(component, "", p256_by_component);
    harness_write_text("p384.sig", p384);
    harness_write_text("text.sig", other);
    harness_write_text("unnamed.sig", unnamed);
    assert_signed("demo", "demo/model.sig", "p256.pub", SW_SIGNED_FILES);
    harness_remove("demo/model.sig");
    assert_signed("demo", "p384.sig", "p384.pub", SW_SIGNED_FILES);
    assert_signed("demo", "text.sig", "p256.pub", SW_SIGNED_FILES);
    assert_signed("demo", "unnamed.sig", "p256.pub", SW_SIGNED_FILES);
    assert_not_signed("demo", "unnamed.sig", "p384.pub", "signature-bad", "unnamed.sig",
                      "is not this key's");
    free(component);
    free(text);
    free(p384);
    free(other);
    free(unnamed);
}

/* What is listed as a shard, from a file's bytes. */
static void add_shard(swi_buf *list, swi_hasher *roots, int which, size_t begin, const char *how)
{
    const file *f = &files[which];
    size_t left = strlen(f->content) - begin, size = left < 2 ? left : 2;
    char hex[SWI_DIGEST_TEXT];
    swi_digest digest;
    swi_hasher *hasher;
    sw_error err = {0};
    assert_ok(swi_hasher_make(&hasher, &err), &err);
    assert_ok(swi_hasher_begin(hasher, &err), &err);
    assert_ok(swi_hasher_add(hasher, f->content + begin, size, &err), &err);
    assert_ok(swi_hasher_end(hasher, &digest, &err), &err);
    swi_hasher_free(hasher);
    swi_digest_text(&digest, hex);
    assert_ok(swi_hasher_add(roots, digest.bytes, sizeof digest.bytes, &err), &err);
    assert_ok(swi_buf_printf(list, &err,
                             "%s{\"name\":\"%s:%zu:%zu\",\"algorithm\":\"%s\",\"digest\":\"%s\"}",
                             list->size > 0 ? "," : "", f->name, begin, begin + size, how, hex),
              &err);
}

/* The statement of shards of 2 bytes, in the two spellings. */
static char *shards(bool as_specified, const char *size)
{
    static const size_t sorted[] = {0, 10, 12, 14, 16, 18, 20, 2, 4, 6, 8};
    const int *order = as_specified ? by_text : by_component;
    const char *how = as_specified ? "sha256" : "sha256-sharded-2";
    swi_buf list = {0}, text = {0};
    swi_hasher *roots;
    swi_digest root;
    char hex[SWI_DIGEST_TEXT];
    sw_error err = {0};
    assert_ok(swi_hasher_make(&roots, &err), &err);
    assert_ok(swi_hasher_begin(roots, &err), &err);
    for (size_t i = 0; i < 5; i++) {
        size_t bytes = strlen(files[order[i]].content);
        for (size_t k = 0; k < (bytes + 1) / 2; k++)
            add_shard(&list, roots, order[i],
                      as_specified && order[i] == WEIGHTS ? sorted[k] : 2 * k, how);
    }
    assert_ok(swi_hasher_end(roots, &root, &err), &err);
    swi_hasher_free(roots);
    swi_digest_text(&root, hex);
    assert_ok(
        swi_buf_printf(&text, &err,
                       "{\"_type\":\"https://in-toto.io/Statement/v1\",\"subject\":[{\"name\":"
                       "\"demo\",\"digest\":{\"sha256\":\"%s\"}}],\"predicateType\":\"https://"
                       "model_signing/signature/v1.0\",\"predicate\":{\"serialization\":{\"method\""
                       ":\"shards\",\"hash_type\":\"sha256\",\"shard_size\":%s,\"allow_symlinks\":"
                       "false,\"ignore_paths\":[\".git\",\".gitattributes\",\".github\","
                       "\".gitignore\"]},\"resources\":[%.*s]}}",
                       hex, size, (int)list.size, (char *)list.data),
        &err);
    swi_buf_free(&list);
    return (char *)text.data;
}

static void shards_in_both_spellings(void **state)
{
    (void)state;
    make_model("demo");
    write_keys();
    char *tool = shards(false, "2"), *spec = shards(true, "2"), *real = shards(false, "2.0");
    assert_int_equal(strlen(tool), 2547);
    assert_sha256(tool, "ef87b3609b9eb5bd2650abdc0048fcda5768e36e2bd8d0a4281260f1ccb7e19d");
    assert_int_equal(strlen(spec), 2387);
    assert_sha256(spec, "265df6da70666e205df0ff429b3a43ee74dd8839fceb6eb1d70deea4de0a20c0");
    write_signature("tool.sig", SW_SIGNATURE_OMS, p256_private, tool);
    write_signature("spec.sig", SW_SIGNATURE_OMS, p384_private, spec);
    write_signature("real.sig", SW_SIGNATURE_OMS, p521_private, real);
    assert_signed("demo", "tool.sig", "p256.pub", SW_SIGNED_FILES);
    assert_signed("demo", "spec.sig", "p384.pub", SW_SIGNED_FILES);
    assert_signed("demo", "real.sig", "p521.pub", SW_SIGNED_FILES);
    outcome o;
    run_signed("demo", "tool.sig", "p256.pub", &o);
    assert_found(&o, SW_NOTE, "signature-empty-file", "empty.bin", NULL, "anybody may add");
    assert_int_equal(o.verified.signature.files, 16);
    assert_int_equal(o.verified.signature.matched_files, 16);
    outcome_free(&o);
    harness_write_text("demo/weights.bin", "0123456789abcdefgHijk");
    assert_not_signed("demo", "spec.sig", "p384.pub", "signature-mismatch", "weights.bin",
                      "its bytes are not those");
    harness_write_text("demo/weights.bin", "0123456789abcdefghij");
    assert_not_signed("demo", "spec.sig", "p384.pub", "signature-missing", "weights.bin",
                      "it is shorter than what was signed");
    harness_write_text("demo/weights.bin", "0123456789abcdefghijkl");
    assert_not_signed("demo", "spec.sig", "p384.pub", "signature-mismatch", "weights.bin",
                      "its part from byte 20 ends at 22");
    harness_write_text("demo/weights.bin", "0123456789abcdefghijk");
    harness_write_text("demo/more", "x");
    assert_not_signed("demo", "tool.sig", "p256.pub", "signature-unlisted", "more",
                      "was not signed");
    free(tool);
    free(spec);
    free(real);
}

/* ---- what is changed shows ------------------------------------------------------------------ */

static void published_failures(void **state)
{
    (void)state;
    make_vector();
    static const char sig[] = "demo/model.sig", key[] = "p256.pub";
    harness_write_text("demo/weights.bin", "1123456789abcdefghijk");
    assert_not_signed("demo", sig, key, "signature-mismatch", "weights.bin",
                      "SHA-256 e8e1c9bc12748934e29f6e3fcfd980300a9b3fe3680dc1bf9c4cb59a95f9b419 "
                      "here");
    make_model("demo");
    harness_write_text("demo/new/dir/x", "1");
    assert_not_signed("demo", sig, key, "signature-unlisted", "new/dir/x",
                      "it is here, and was not signed");
    harness_remove("demo/new");
    harness_write_text("demo/.hidden", "1");
    assert_not_signed("demo", sig, key, "signature-unlisted", ".hidden", "was not signed");
    harness_remove("demo/.hidden");
    harness_remove("demo/empty.bin");
    assert_not_signed("demo", sig, key, "signature-missing", "empty.bin",
                      "it was signed, and is not here");
    make_model("demo");
    assert_not_signed("demo", sig, "p384.pub", "signature-key", sig, "made with another key");
    assert_signed("demo", sig, key, SW_SIGNED_FILES);
}

/* Each edit of the bundle, and what is said of it. */
static void edited_bundles(void **state)
{
    (void)state;
    static const struct {
        const char *from, *to, *code, *says;
    } edits[] = {
        {"acds=", "acdt=", "signature-malformed", "is no base64"},
        {"Wacds=", "Wacd+=", "signature-malformed", "is no base64"},
        {"Wacds=", "Wacd0=", "signature-bad", "one of both was changed"},
        {"eyJfdHlwZSI6", "eyJfdHlwZSI7", "signature-bad", "one of both was changed"},
        {"\"keyid\":\"\"}]}}", "\"keyid\"", "signature-malformed", ""},
        {"bundle.v0.3", "bundle.v0.4", "signature-malformed", "\"mediaType\" is"},
        {"vnd.in-toto+json", "vnd.in-toto", "signature-malformed", "\"payloadType\" is"},
        {"\"tlogEntries\":[]", "\"more\":[]", "signature-malformed", "unknown member \"more\""},
        {"{\"mediaType\"", "{\"mediaType\":\"\",\"mediaType\"", "signature-malformed", ""},
        {",\"keyid\":\"\"", ",\"x\":\"\"", "signature-malformed", "unknown member \"x\""},
        {"{\"hint\":\"4975", "{\"hint\":\"5975", "signature-key", "made with another key"},
        {"{\"hint\":\"4975c", "{\"hint\":\"4975C", "signature-malformed", "\"hint\" is no SHA-256"},
        {"\"publicKey\"", "\"certificate\"", "signature-malformed", "unknown member"},
    };
    make_vector();
    size_t size;
    char *good = (char *)harness_read("demo/model.sig", &size);
    for (size_t i = 0; i < sizeof edits / sizeof edits[0]; i++) {
        char *bad = replaced(good, edits[i].from, edits[i].to);
        harness_write_text("demo/model.sig", bad);
        assert_not_signed("demo", "demo/model.sig", "p256.pub", edits[i].code, "demo/model.sig",
                          edits[i].says);
        free(bad);
    }
    harness_write_text("demo/model.sig", "");
    assert_not_signed("demo", "demo/model.sig", "p256.pub", "signature-malformed", NULL, "");
    for (size_t cut = 1; cut < size; cut += 97) {
        harness_write("demo/model.sig", good, size - cut);
        assert_not_signed("demo", "demo/model.sig", "p256.pub", "signature-malformed", NULL, "");
    }
    free(good);
}

/* Bundles of other versions and hands: old ones without a hint, several signatures, white space. */
static void other_bundles(void **state)
{
    (void)state;
    static const struct {
        const char *from, *to;
    } edits[] = {
        {"\"hint\":\"" P256_HINT "\"", "\"rawBytes\":\"AAAA\",\"keyDetails\":\"x\""},
        {"\"tlogEntries\":[]", "\"timestampVerificationData\":{},\"tlogEntries\":[]"},
        {",\"tlogEntries\":[]", ""},
        {"[{\"sig\"", "[{\"sig\":\"AAAA\"},\n  {\"sig\""},
        {",\"keyid\":\"\"}", ",\"keyid\":null}, {\"sig\":\"\"}"},
        {"{\"mediaType\":", " {\n\t\"mediaType\" : "},
    };
    make_vector();
    size_t size;
    char *good = (char *)harness_read("demo/model.sig", &size);
    for (size_t i = 0; i < sizeof edits / sizeof edits[0]; i++) {
        char *text = replaced(good, edits[i].from, edits[i].to);
        harness_write_text("demo/model.sig", text);
        assert_signed("demo", "demo/model.sig", "p256.pub", SW_SIGNED_FILES);
        free(text);
    }
    free(good);
}

/* Signed all right, and saying what cannot be or should not. */
static void edited_statements(void **state)
{
    (void)state;
    static const struct {
        const char *from, *to, *says;
    } edits[] = {
        {"Statement/v1", "Statement/v2", "\"_type\" is"},
        {"signature/v1.0", "signature/v2.0", "\"predicateType\" is"},
        {"\"demo\"", "7", "member \"name\" is no text"},
        {"}}],\"predicateType\"", "}},{}],\"predicateType\"", "2 subjects, expected 1"},
        {"\"sha256\":\"db3ab10b", "\"sha256\":\"db3ab10c", "not that of the listed resources"},
        {"\"sha256\":\"db3ab10b", "\"sha256\":\"DB3AB10B", "is no SHA-256"},
        {"\"files\"", "\"blobs\"", "method \"blobs\""},
        {"\"files\"", "\"files\",\"shard_size\":2", "\"files\" have no \"shard_size\""},
        {"\"files\"", "\"shards\"", "no member \"shard_size\""},
        {"\"files\"", "\"shards\",\"shard_size\":0", "is no number of bytes"},
        {"\"files\"", "\"shards\",\"shard_size\":1.5", "is no number of bytes"},
        {"\"files\"", "\"shards\",\"shard_size\":1e300", "is no number of bytes"},
        {"\"files\"", "\"shards\",\"shard_size\":2", "names no shard of 2 bytes"},
        {"\"hash_type\":\"sha256\"", "\"hash_type\":\"blake2b\"", "\"hash_type\" is \"blake2b\""},
        {"\"allow_symlinks\":false,", "", "no member \"allow_symlinks\""},
        {"\"allow_symlinks\":false", "\"allow_symlinks\":0", "neither true nor false"},
        {"\"allow_symlinks\"", "\"x\":1,\"allow_symlinks\"", "unknown member \"x\""},
        {"\".gitignore\"]", "\".\"]", "the whole model is ignored"},
        {"\".gitignore\"]", "\"../x\"]", "\"../x\" is no path in the model"},
        {"\".gitignore\"]", "\"a//b\"]", "is no path in the model"},
        {"\".gitignore\"]", "\"\"]", "is no path in the model"},
        {"\".gitignore\"]", "7]", "an ignored path is no text"},
        {"\"name\":\"sub-x\"", "\"name\":\"config.json\"", "\"config.json\" is listed twice"},
        {"\"name\":\"sub-x\"", "\"name\":\"../x\"", "\"../x\" is no path in the model"},
        {"\"name\":\"sub-x\"", "\"name\":\"./sub-x\"", "is no path in the model"},
        {"\"name\":\"sub-x\"", "\"name\":\"/sub-x\"", "is no path in the model"},
        {"\"name\":\"sub-x\"", "\"name\":\"sub-x/\"", "is no path in the model"},
        {"\"name\":\"sub-x\"", "\"name\":\"sub-x\\u0000y\"", "is no path in the model"},
        {"\"name\":\"sub-x\"", "\"name\":\"\"", "is no path in the model"},
        {"\"algorithm\":\"sha256\"", "\"algorithm\":\"sha256-sharded-2\"", "algorithm \"sha256-sh"},
        {"\"digest\":\"ca3d16", "\"digest\":\"CA3D16", "is no SHA-256"},
        {"\"resources\":[", "\"resources\":[],\"x\":[", "unknown member"},
        {"\"predicate\":{", "\"more\":1,\"predicate\":{", "unknown member \"more\""},
        {"\"predicate\":{", "\"predicate\":7,\"predicate\":{", ""},
    };
    make_vector();
    char *good = statement(by_component);
    for (size_t i = 0; i < sizeof edits / sizeof edits[0]; i++) {
        char *bad = replaced(good, edits[i].from, edits[i].to);
        write_signature("bad.sig", SW_SIGNATURE_OMS, p256_private, bad);
        harness_remove("demo/model.sig");
        assert_not_signed("demo", "bad.sig", "p256.pub", "signature-malformed", "bad.sig",
                          edits[i].says);
        free(bad);
    }
    char *at = strstr(good, "\"resources\":[");
    assert_non_null(at);
    snprintf(at, strlen(at), "\"resources\":[]}}");
    write_signature("bad.sig", SW_SIGNATURE_OMS, p256_private, good);
    assert_not_signed("demo", "bad.sig", "p256.pub", "signature-malformed", NULL,
                      "lists no file, so nothing is signed");
    free(good);
}

/* Spellings of shards that are none. */
static void edited_shards(void **state)
{
    (void)state;
    static const char *const names[] = {"sub-x:0:3",
                                        "sub-x:1:2",
                                        "sub-x:00:1",
                                        "sub-x: 0:1",
                                        "sub-x:+0:1",
                                        "sub-x:0:01",
                                        "sub-x:1",
                                        "sub-x::1",
                                        "sub-x:2:2",
                                        "0:1",
                                        "sub-x:0:18446744073709551617"};
    make_model("demo");
    write_keys();
    char *good = shards(false, "2");
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char *bad = replaced(good, "sub-x:0:1", names[i]);
        write_signature("bad.sig", SW_SIGNATURE_OMS, p256_private, bad);
        assert_not_signed("demo", "bad.sig", "p256.pub", "signature-malformed", NULL,
                          "names no shard of 2 bytes");
        free(bad);
    }
    free(good);
}

/* ---- signing ------------------------------------------------------------------------------- */

static void sign_files(const char *path, const sw_sign_options *options)
{
    sw_error err = {0};
    sw_sign_options o = *options;
    o.format = SW_SIGNATURE_OMS;
    assert_ok(sw_sign(path, &o, NULL, NULL, &err), &err);
}

static void assert_no_signing(const char *path, const sw_sign_options *options, sw_status status,
                              const char *text)
{
    sw_error err = {0};
    sw_sign_options o = *options;
    o.format = SW_SIGNATURE_OMS;
    assert_int_equal(sw_sign(path, &o, NULL, NULL, &err), status);
    assert_error(&err, status, text);
}

static void signed_here(void **state)
{
    (void)state;
    static const char *const keys[][2] = {
        {"p256.pem", "p256.pub"}, {"p384.pem", "p384.pub"}, {"p521.pem", "p521.pub"}};
    write_keys();
    make_model("demo");
    harness_write_text("demo/.hid/x", "1");
    harness_write_text("demo/.git/config", "1");
    harness_write_text("demo/sub/.git/k", "1");
    harness_write_text("demo/model.sig.partial-7369676e/model.sig", "left by a killed run");
    sw_error err = {0};
    sw_sign_summary sum;
    const sw_sign_options first = {.key = "p256.pem", .format = SW_SIGNATURE_OMS};
    assert_ok(sw_sign("demo/", &first, NULL, &sum, &err), &err);
    assert_string_equal(sum.out, "demo/model.sig");
    assert_string_equal(sum.key, "p-256");
    assert_string_equal(sum.hint, P256_HINT);
    assert_int_equal(sum.files, 7);
    assert_int_equal(sum.bytes, 30);
    assert_false(harness_exists("demo/model.sig.partial-7369676e"));
    for (size_t i = 0; i < 3; i++) {
        sign_files("demo", &(sw_sign_options){.key = keys[i][0], .overwrite = true});
        assert_signed("demo", "demo/model.sig", keys[i][1], SW_SIGNED_FILES);
        assert_signed("./demo/sub/..", "demo/model.sig", keys[i][1], SW_SIGNED_FILES);
    }
    harness_write_text("demo/sub/.git/k", "2");
    assert_not_signed("demo", "demo/model.sig", "p521.pub", "signature-mismatch", "sub/.git/k", "");
    harness_write_text("demo/sub/.git/k", "1");
    harness_write_text("demo/.git/config", "2");
    harness_write_text("demo/checkpoint.sig", "whatever");
    outcome o;
    run_signed("demo", "demo/model.sig", "p521.pub", &o);
    assert_fine(&o);
    assert_found(&o, SW_NOTE, "signature-ignored", ".git", NULL, "it is not signed");
    assert_found(&o, SW_NOTE, "signature-ignored", "checkpoint.sig", NULL, "it is not signed");
    assert_found(&o, SW_NOTE, "no-checkpoint", NULL, NULL, "no checkpoint");
    assert_string_equal(o.verified.signature.name, "demo");
    outcome_free(&o);
}

static void one_file_is_a_model(void **state)
{
    (void)state;
    write_keys();
    harness_write_text("model.bin", "abc");
    sign_files("model.bin", &(sw_sign_options){.key = "p256.pem"});
    assert_true(harness_exists("model.bin.sig"));
    assert_signed("model.bin", "model.bin.sig", "p256.pub", SW_SIGNED_FILES);
    size_t size;
    char *text = (char *)harness_read("model.bin.sig", &size);
    swi_signature_file parsed = {0};
    sw_error err = {0};
    assert_ok(swi_signature_file_read(text, size, NULL, &parsed, &err), &err);
    assert_ok(swi_buf_u8(&parsed.envelope.payload, 0, &err), &err);
    assert_contains((char *)parsed.envelope.payload.data, "\"resources\":[{\"name\":\".\",");
    char *named =
        replaced((char *)parsed.envelope.payload.data, "\"name\":\".\"", "\"name\":\"model.bin\"");
    write_signature("model.bin.sig", SW_SIGNATURE_OMS, p256_private, named);
    assert_signed("model.bin", "model.bin.sig", "p256.pub", SW_SIGNED_FILES);
    harness_write_text("model.bin", "abd");
    assert_not_signed("model.bin", "model.bin.sig", "p256.pub", "signature-mismatch", "model.bin",
                      "");
    swi_signature_file_free(&parsed);
    free(named);
    free(text);
}

static void what_is_not_signed(void **state)
{
    (void)state;
    const sw_sign_options with = {.key = "p256.pem"};
    write_keys();
    assert_int_equal(mkdir("empty", 0777), 0);
    assert_int_equal(mkdir("empty/folder", 0777), 0);
    assert_no_signing("empty", &with, SW_ERR_INCOMPLETE, "no file is in it");
    assert_no_signing("nowhere", &with, SW_ERR_NOTFOUND, "nowhere");
    make_model("demo");
    assert_no_signing("demo", &(sw_sign_options){.key = "ed.pem"}, SW_ERR_UNSUPPORTED,
                      "are signed with EC keys");
    assert_no_signing("demo", &(sw_sign_options){.key = "nokey"}, SW_ERR_NOTFOUND, "nokey");
    assert_int_equal(symlink("config.json", "demo/link"), 0);
    assert_no_signing("demo", &with, SW_ERR_UNSAFE, "link: is a symbolic link");
    harness_remove("demo/link");
    assert_int_equal(symlink("sub", "demo/link"), 0);
    assert_no_signing("demo", &with, SW_ERR_UNSAFE, "link: is a symbolic link");
    harness_remove("demo/link");
    assert_int_equal(mkfifo("demo/pipe", 0666), 0);
    assert_no_signing("demo", &with, SW_ERR_UNSAFE, "pipe: is neither a file nor a folder");
    harness_remove("demo/pipe");
    harness_write_text("demo/bad\xff", "");
    assert_no_signing("demo", &with, SW_ERR_UNSUPPORTED, "is not UTF-8");
    harness_remove("demo/bad\xff");
    assert_false(harness_exists("demo/model.sig"));
    harness_write_text("demo/model.sig", "my notes");
    assert_no_signing("demo", &with, SW_ERR_EXISTS, "exists");
    assert_no_signing("demo", &(sw_sign_options){.key = "p256.pem", .overwrite = true},
                      SW_ERR_EXISTS, "is no signature, and is not replaced");
    assert_no_signing("demo", &(sw_sign_options){.key = "p256.pem", .out = "none/x"},
                      SW_ERR_NOTFOUND, "none");
}

/* Links may come after the signature; ignored ones do no harm. */
static void links_are_not_signed(void **state)
{
    (void)state;
    write_keys();
    make_model("demo");
    harness_write_text("demo/.git/x", "1");
    assert_int_equal(symlink("x", "demo/.git/link"), 0);
    sign_files("demo", &(sw_sign_options){.key = "p256.pem"});
    assert_int_equal(symlink("config.json", "demo/link"), 0);
    assert_not_signed("demo", "demo/model.sig", "p256.pub", "signature-unlisted", "link",
                      "a symbolic link");
    harness_remove("demo/link");
    assert_int_equal(rename("demo/weights.bin", "w"), 0);
    assert_int_equal(symlink("../w", "demo/weights.bin"), 0);
    outcome o;
    run_signed("demo", "demo/model.sig", "p256.pub", &o);
    assert_found(&o, SW_DEFECT, "signature-unlisted", "weights.bin", NULL, "a symbolic link");
    assert_found(&o, SW_DEFECT, "signature-missing", "weights.bin", NULL, "is not here");
    outcome_free(&o);
}

static void unreadable_folders_are_no_less(void **state)
{
    (void)state;
    if (geteuid() == 0)
        skip();
    write_keys();
    make_model("demo");
    assert_int_equal(chmod("demo/sub", 0), 0);
    assert_no_signing("demo", &(sw_sign_options){.key = "p256.pem"}, SW_ERR_IO, "sub");
    assert_int_equal(chmod("demo/sub", 0777), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        test_here(published_bundles),    test_here(shards_in_both_spellings),
        test_here(published_failures),   test_here(edited_bundles),
        test_here(other_bundles),        test_here(edited_statements),
        test_here(edited_shards),        test_here(signed_here),
        test_here(one_file_is_a_model),  test_here(what_is_not_signed),
        test_here(links_are_not_signed), test_here(unreadable_folders_are_no_less),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
