#include "native/manifest.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/harness.h"

/* A manifest of version 1, made by another program from the specification. */
static const char golden[] =
    ""
    "{\"assets\":[{\"bytes\":0,\"digest\":"
    "\"c0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c0\","
    "\"file\":\"config.json\"},"
    "{\"bytes\":12,\"digest\":\"c1c1c1c1c1c1c1c1c1c1c1c1c1c1c1c1c1c1c1c1c1c1c1c1c1c1c1c1c1c1c1c1\","
    "\"file\":\"tokenizer.json\"}],\"content\":"
    "\"d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0\","
    "\"format\":\"shardwright\",\"layouts\":[{\"kind\":\"boxes\"},{\"kind\":\"dtensor\","
    "\"mesh\":0,\"placements\":[\"S(0)\",\"SS(1,2)\"]},{\"kind\":\"flat\"},{\"kind\":\"dtensor\","
    "\"mesh\":1,\"placements\":[\"P(sum)\"]},{\"kind\":\"dtensor\","
    "\"mesh\":0,\"placements\":[\"R\",\"R\"]}],\"meshes\":[{\"axes\":[{\"name\":\"dp\","
    "\"size\":2},{\"name\":\"tp\",\"size\":4}]},{\"axes\":[{\"name\":\"\","
    "\"size\":8}]}],\"root\":\"6f34d7c79b5592d1213b8a43869bdc0c8e815c465d2ad5e3aab2fc6ee5fcfeb8\","
    "\"save_id\":\"000102030405060708090a0b0c0d0e0f\","
    "\"shards\":[{\"bytes\":4096,\"digest\":"
    "\"b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0\","
    "\"file\":\"rank-00000-of-00002.sws\"},"
    "{\"bytes\":9007199254740993,\"digest\":"
    "\"b1b1b1b1b1b1b1b1b1b1b1b1b1b1b1b1b1b1b1b1b1b1b1b1b1b1b1b1b1b1b1b1\","
    "\"file\":\"rank-00001-of-00002.sws\"}],\"state\":{\"bytes\":44,\"digest\":"
    "\"a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2\","
    "\"file\":\"state.json\"},"
    "\"table\":{\"bytes\":253,\"digest\":"
    "\"a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1\","
    "\"file\":\"tensors.swt\"},"
    "\"tensors\":3,\"version\":[1,0],\"writer\":\"golden \303\251 \\\"x\\\"\\\\\\t\\u0001\"}\n";
static const char golden_root[] =
    "6f34d7c79b5592d1213b8a43869bdc0c8e815c465d2ad5e3aab2fc6ee5fcfeb8";

static swi_digest digest_of(uint8_t byte)
{
    swi_digest digest;
    memset(&digest, byte, sizeof digest);
    return digest;
}

static swi_native_mesh meshes[2] = {
    {.axes = 2, .axis = {{"dp", 2}, {"tp", 4}}},
    {.axes = 1, .axis = {{"", 8}}},
};
static swi_native_layout layouts[5] = {
    {.kind = SWI_NATIVE_BOXES},
    {.kind = SWI_NATIVE_DTENSOR,
     .mesh = 0,
     .at = {{.kind = SWI_NATIVE_SHARD, .dim = 0},
            {.kind = SWI_NATIVE_STRIDED_SHARD, .dim = 1, .factor = 2}}},
    {.kind = SWI_NATIVE_FLAT},
    {.kind = SWI_NATIVE_DTENSOR, .mesh = 1, .at = {{.kind = SWI_NATIVE_PARTIAL, .op = "sum"}}},
    {.kind = SWI_NATIVE_DTENSOR, .mesh = 0},
};
static swi_native_file shards[2], assets[2];

static swi_native_manifest the_golden(void)
{
    swi_native_manifest m = {.writer = "golden \xc3\xa9 \"x\"\\\t\x01",
                             .meshes = meshes,
                             .mesh_count = 2,
                             .layouts = layouts,
                             .layout_count = 5,
                             .table = {"tensors.swt", 253, digest_of(0xa1)},
                             .state = {"state.json", 44, digest_of(0xa2)},
                             .shards = shards,
                             .shard_count = 2,
                             .assets = assets,
                             .asset_count = 2,
                             .tensors = 3,
                             .has_content = true,
                             .content = digest_of(0xd0)};
    for (uint8_t i = 0; i < SWI_SAVE_ID_BYTES; i++)
        m.save_id[i] = i;
    shards[0] = (swi_native_file){"rank-00000-of-00002.sws", 4096, digest_of(0xb0)};
    shards[1] = (swi_native_file){"rank-00001-of-00002.sws", 9007199254740993, digest_of(0xb1)};
    assets[0] = (swi_native_file){"config.json", 0, digest_of(0xc0)};
    assets[1] = (swi_native_file){"tokenizer.json", 12, digest_of(0xc1)};
    return m;
}

/* ---- as the specification has it ----------------------------------------------------------- */

static void version_1_is_written(void **state)
{
    (void)state;
    swi_native_manifest m = the_golden();
    swi_buf out = {0};
    sw_error err = {0};
    char text[SWI_DIGEST_TEXT];
    assert_ok(swi_buf_append_str(&out, "before", &err), &err);
    assert_ok(swi_native_manifest_write(&m, &out, &err), &err);
    assert_int_equal(out.size, 6 + sizeof golden - 1);
    assert_memory_equal(out.data + 6, golden, sizeof golden - 1);
    swi_digest_text(&m.root, text);
    assert_string_equal(text, golden_root);
    swi_buf_free(&out);
}

static void expect_file(const swi_native_file *got, const swi_native_file *want)
{
    assert_string_equal(got->file, want->file);
    assert_true(got->bytes == want->bytes);
    assert_memory_equal(&got->digest, &want->digest, sizeof got->digest);
}

static void expect_layouts(const swi_native_manifest *m)
{
    assert_int_equal(m->mesh_count, 2);
    assert_int_equal(m->meshes[0].axes, 2);
    assert_string_equal(m->meshes[0].axis[1].name, "tp");
    assert_int_equal(m->meshes[0].axis[1].size, 4);
    assert_int_equal(m->layout_count, 5);
    for (size_t i = 0; i < 5; i++)
        assert_int_equal(m->layouts[i].kind, layouts[i].kind);
    assert_int_equal(m->layouts[1].at[0].kind, SWI_NATIVE_SHARD);
    assert_int_equal(m->layouts[1].at[1].dim, 1);
    assert_int_equal(m->layouts[1].at[1].factor, 2);
    assert_int_equal(m->layouts[3].mesh, 1);
    assert_string_equal(m->layouts[3].at[0].op, "sum");
    for (size_t i = 0; i < 5; i++)
        assert_int_equal(swi_native_layout_is_partial(m, i), i == 3);
}

static void version_1_is_read(void **state)
{
    (void)state;
    swi_native_manifest want = the_golden(), m;
    sw_error err = {0};
    char text[SWI_DIGEST_TEXT];
    assert_ok(swi_native_manifest_read((const uint8_t *)golden, sizeof golden - 1, NULL, &m, &err),
              &err);
    assert_int_equal(m.major, 1);
    assert_int_equal(m.minor, 0);
    assert_string_equal(m.writer, want.writer);
    assert_memory_equal(m.save_id, want.save_id, sizeof m.save_id);
    expect_layouts(&m);
    expect_file(&m.table, &want.table);
    expect_file(&m.state, &want.state);
    assert_int_equal(m.shard_count, 2);
    assert_int_equal(m.asset_count, 2);
    for (size_t i = 0; i < 2; i++) {
        expect_file(&m.shards[i], &shards[i]);
        expect_file(&m.assets[i], &assets[i]);
    }
    assert_int_equal(m.tensors, 3);
    assert_true(m.has_content);
    assert_memory_equal(&m.content, &want.content, sizeof m.content);
    swi_digest_text(&m.root, text);
    assert_string_equal(text, golden_root);
    swi_native_manifest_free(&m);
    swi_native_manifest_free(NULL);
}

/* ---- what is refused ----------------------------------------------------------------------- */

/* The golden text with `from` replaced; *at: where. */
static char *changed(const char *from, const char *to, size_t *at)
{
    const char *found = strstr(golden, from);
    if (found == NULL)
        fail_msg("no %s in the text", from);
    *at = (size_t)(found - golden);
    char *text = malloc(sizeof golden + strlen(to));
    assert_non_null(text);
    memcpy(text, golden, *at);
    memcpy(text + *at, to, strlen(to));
    memcpy(text + *at + strlen(to), found + strlen(from), strlen(found + strlen(from)) + 1);
    return text;
}

/* Writes the right root into the text. */
static void reroot(char *text)
{
    swi_hasher *hasher;
    swi_digest root;
    sw_error err = {0};
    char digits[SWI_DIGEST_TEXT];
    char *at = strstr(text, ",\"root\":\"");
    assert_non_null(at);
    char *behind = at + 74;
    assert_ok(swi_hasher_make(&hasher, &err), &err);
    assert_ok(swi_hasher_begin(hasher, &err), &err);
    assert_ok(swi_hasher_add(hasher, text, (size_t)(at - text), &err), &err);
    assert_ok(swi_hasher_add(hasher, behind, strlen(behind) - 1, &err), &err);
    assert_ok(swi_hasher_end(hasher, &root, &err), &err);
    swi_hasher_free(hasher);
    swi_digest_text(&root, digits);
    memcpy(at + 9, digits, 64);
}

typedef struct bad {
    const char *from, *to;
    sw_status status;
    int64_t position; /* from where `from` is; NOWHERE: not compared */
    const char *text;
} bad;

#define NOWHERE INT64_MIN

static const bad bads[] = {
    /* who it is */
    {"\"shardwright\"", "\"other\"", SW_ERR_FORMAT, 0, "no manifest of a native checkpoint"},
    {"\"format\":\"shardwright\",", "", SW_ERR_FORMAT, NOWHERE, "\"format\" is missing"},
    {"[1,0]", "[2,0]", SW_ERR_UNSUPPORTED, NOWHERE, "version 2.0 of the native format"},
    {"[1,0]", "[0,3]", SW_ERR_UNSUPPORTED, NOWHERE, "version 0.3 of the native format"},
    {"[1,0]", "[1]", SW_ERR_FORMAT, 0, "expected two numbers"},
    {"[1,0]", "[1,0,0]", SW_ERR_LIMIT, 5, "more than 2"},
    {"[1,0]", "\"1.0\"", SW_ERR_FORMAT, 0, "expected an array, found a string"},
    /* form */
    {"\"tensors\":3", "\"tensors\": 3", SW_ERR_FORMAT, 10, "white space"},
    {"\"tensors\":3", "\"tensors\":3.0", SW_ERR_FORMAT, 10, "not an integer"},
    {"\"tensors\":3", "\"tensors\":3,\"tensors\":3", SW_ERR_FORMAT, 12, "a key that is not"},
    {"{\"assets\"", "{\"zebra\":1,\"assets\"", SW_ERR_FORMAT, 11, "a key that is not"},
    {"\"writer\"", "\"wrate\":[1, 2],\"writer\"", SW_ERR_FORMAT, 11, "white space"},
    {"\n", "", SW_ERR_FORMAT, 0, "one line feed"},
    {"\n", "\n{}", SW_ERR_FORMAT, 1, "JSON: expected"},
    /* members */
    {"\"tensors\":3,", "", SW_ERR_FORMAT, NOWHERE, "\"tensors\" is missing"},
    {"\"tensors\":3", "\"tensors\":4294967296", SW_ERR_FORMAT, 10, "2^32"},
    {"\"tensors\":3", "\"tensors\":\"3\"", SW_ERR_FORMAT, 10, "expected an integer"},
    {"\"content\":\"d0", "\"content\":\"D0", SW_ERR_FORMAT, 10, "64 lower-case hex"},
    {"\"content\":\"d0", "\"content\":\"0", SW_ERR_FORMAT, 10, "64 lower-case hex"},
    {"\"000102", "\"00010", SW_ERR_FORMAT, 0, "32 lower-case hex"},
    {"\"000102", "\"00010X", SW_ERR_FORMAT, 0, "32 lower-case hex"},
    {"golden ", "golden \\u0000", SW_ERR_FORMAT, -1, "the character 0"},
    /* files */
    {"config.json", ".config", SW_ERR_FORMAT, NOWHERE, "\"assets\": an asset has a plain name"},
    {"config.json", "a/config", SW_ERR_FORMAT, NOWHERE, "plain name"},
    {"config.json", "", SW_ERR_FORMAT, NOWHERE, "plain name"},
    {"config.json", "..", SW_ERR_FORMAT, NOWHERE, "plain name"},
    {"config.json", "model.sig", SW_ERR_FORMAT, NOWHERE, "plain name"},
    {"config.json", "rank-00000-of-00002.sws", SW_ERR_FORMAT, NOWHERE, "plain name"},
    {"config.json", "manifest.json", SW_ERR_FORMAT, NOWHERE, "plain name"},
    {"config.json", "state.json", SW_ERR_FORMAT, NOWHERE, "plain name"},
    {"tokenizer.json", "tensors.swt", SW_ERR_FORMAT, NOWHERE, "plain name"},
    {"config.json", "tokenizer.json", SW_ERR_FORMAT, NOWHERE, "ascending order"},
    {"config.json", "u", SW_ERR_FORMAT, NOWHERE, "ascending order"},
    {"rank-00001", "rank-00000", SW_ERR_FORMAT, NOWHERE, "by rank from 0"},
    {"rank-00001-of-00002", "rank-00001-of-00003", SW_ERR_FORMAT, NOWHERE, "by rank from 0"},
    {"tensors.swt", "tensors.swa", SW_ERR_FORMAT, NOWHERE, "\"table\": its file has another"},
    {"state.json", "other.json", SW_ERR_FORMAT, NOWHERE, "\"state\": its file has another"},
    {"\"bytes\":12,", "", SW_ERR_FORMAT, -1, "\"bytes\" is missing"},
    /* meshes and layouts */
    {"\"size\":2", "\"size\":0", SW_ERR_FORMAT, NOWHERE, "a size of at least 1"},
    {"\"tp\"", "\"dp\"", SW_ERR_FORMAT, NOWHERE, "the same name"},
    {"[{\"name\":\"\",\"size\":8}]", "[]", SW_ERR_FORMAT, NOWHERE, "1 to 8 axes"},
    {"\"boxes\"", "\"box\"", SW_ERR_FORMAT, 0, "expected \"dtensor\""},
    {"\"mesh\":1", "\"mesh\":2", SW_ERR_FORMAT, -18, "layout 3: a dtensor has a mesh"},
    {"\"mesh\":1,", "", SW_ERR_FORMAT, -18, "layout 3: a dtensor has a mesh"},
    {"\"R\",\"R\"", "\"R\"", SW_ERR_FORMAT, NOWHERE, "layout 4: a dtensor has a mesh"},
    {"S(0)", "S(10)", SW_ERR_FORMAT, -1, "a placement is"},
    {"S(0)", "S(00)", SW_ERR_FORMAT, -1, "a placement is"},
    {"S(0)", "S(0", SW_ERR_FORMAT, -1, "a placement is"},
    {"S(0)", "S(0))", SW_ERR_FORMAT, -1, "a placement is"},
    {"S(0)", "S(-1)", SW_ERR_FORMAT, -1, "a placement is"},
    {"S(0)", "RR", SW_ERR_FORMAT, -1, "a placement is"},
    {"SS(1,2)", "SS(1,0)", SW_ERR_FORMAT, -1, "a placement is"},
    {"SS(1,2)", "SS(1,99999999999999999999)", SW_ERR_FORMAT, -1, "a placement is"},
    {"P(sum)", "P()", SW_ERR_FORMAT, -1, "a placement is"},
    {"P(sum)", "P(a b)", SW_ERR_FORMAT, -1, "a placement is"},
    {"P(sum)", "P(a23456789012345678901234567890123)", SW_ERR_FORMAT, -1, "a placement is"},
};

static void expect_bad(const bad *b, const char *text, size_t at)
{
    swi_native_manifest m = {.tensors = 77};
    sw_error err = {0};
    sw_status status =
        swi_native_manifest_read((const uint8_t *)text, strlen(text), NULL, &m, &err);
    if (status != b->status)
        print_error("%s -> %s\n", b->from, b->to);
    assert_error(&err, b->status, b->text);
    assert_contains(err.text, "manifest.json");
    assert_int_equal(m.tensors, 77);
    if (b->position != NOWHERE && (int64_t)err.offset_bytes != (int64_t)at + b->position)
        fail_msg("%s -> %s: position %d", b->from, b->to,
                 (int)((int64_t)err.offset_bytes - (int64_t)at));
}

static void what_is_wrong_is_refused_where_it_is(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof bads / sizeof bads[0]; i++) {
        size_t at;
        char *text = changed(bads[i].from, bads[i].to, &at);
        expect_bad(&bads[i], text, at);
        free(text);
    }
}

static void no_byte_changes_unseen(void **state)
{
    (void)state;
    char text[sizeof golden];
    for (size_t bit = 0; bit < (sizeof golden - 1) * 8; bit++) {
        swi_native_manifest m;
        sw_error err = {0};
        memcpy(text, golden, sizeof golden);
        text[bit / 8] = (char)(text[bit / 8] ^ (char)(1U << bit % 8));
        assert_int_not_equal(
            swi_native_manifest_read((const uint8_t *)text, sizeof golden - 1, NULL, &m, &err),
            SW_OK);
    }
    size_t at;
    char *other = changed("\"tensors\":3", "\"tensors\":4", &at);
    const bad b = {"", "", SW_ERR_CORRUPT, NOWHERE, "root digest is not that of the text"};
    expect_bad(&b, other, at);
    free(other);
}

static void every_cut_is_refused(void **state)
{
    (void)state;
    for (size_t cut = 0; cut < sizeof golden - 1; cut++) {
        swi_native_manifest m;
        sw_error err = {0};
        uint8_t *part = malloc(cut + 1);
        assert_non_null(part);
        memcpy(part, golden, cut);
        assert_int_equal(swi_native_manifest_read(part, cut, NULL, &m, &err), SW_ERR_FORMAT);
        free(part);
    }
}

/* NAT-2: members that are not known, in every object; under the root like all others. */
static void a_newer_minor_version_is_read(void **state)
{
    (void)state;
    static const char *const changes[][2] = {
        {"[1,0]", "[1,77]"},
        {"\"writer\"", "\"wide\":{\"a\":[null,true,{\"b\":{}}]},\"writer\""},
        {"\"kind\":\"boxes\"", "\"aim\":[],\"kind\":\"boxes\""},
        {"\"bytes\":12", "\"armor\":\"none\",\"bytes\":12"},
        {"{\"assets\"", "{\"added\":false,\"assets\""},
    };
    for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++) {
        swi_native_manifest m;
        sw_error err = {0};
        size_t at;
        char *text = changed(changes[i][0], changes[i][1], &at);
        assert_int_equal(
            swi_native_manifest_read((const uint8_t *)text, strlen(text), NULL, &m, &err),
            SW_ERR_CORRUPT);
        reroot(text);
        assert_ok(swi_native_manifest_read((const uint8_t *)text, strlen(text), NULL, &m, &err),
                  &err);
        assert_int_equal(m.minor, i == 0 ? 77 : 0);
        swi_native_manifest_free(&m);
        free(text);
    }
}

static void its_first_bytes_are_known(void **state)
{
    (void)state;
    const uint8_t *head = (const uint8_t *)golden;
    assert_true(swi_native_manifest_looks(head, sizeof golden - 1));
    size_t format = (size_t)(strstr(golden, ",\"layouts\"") - golden);
    for (size_t cut = 0; cut < sizeof golden - 1; cut++)
        assert_int_equal(swi_native_manifest_looks(head, cut), cut >= strlen("{\"assets\":["));
    assert_true(format > 100);
    static const char *const others[] = {"",
                                         "{}",
                                         "[]",
                                         "{\"format\":\"x\"}",
                                         "{\"assets\":1}",
                                         "{\"assets\":[]}",
                                         "{\"architectures\":["};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        assert_false(swi_native_manifest_looks((const uint8_t *)others[i], strlen(others[i])));
    static const char spaced[] = "{ \"version\": [2, 0], \"format\" : \"shardwright\" ";
    assert_true(swi_native_manifest_looks((const uint8_t *)spaced, sizeof spaced - 1));
}

/* ---- writing ------------------------------------------------------------------------------- */

static void refuse_to_write(swi_native_manifest m, const char *text)
{
    swi_buf out = {0};
    sw_error err = {0};
    assert_int_equal(swi_native_manifest_write(&m, &out, &err), SW_ERR_ARG);
    assert_error(&err, SW_ERR_ARG, text);
    assert_int_equal(out.size, 0);
    swi_buf_free(&out);
}

static void what_no_reader_takes_is_not_written(void **state)
{
    (void)state;
    swi_native_manifest m = the_golden();
    m.writer = "\xff";
    refuse_to_write(m, "writer");
    m = the_golden();
    m.shard_count = 1;
    refuse_to_write(m, "rank-RRRRR-of-WWWWW.sws");
    m = the_golden();
    m.shard_count = 0;
    refuse_to_write(m, "1 to 16384");
    m = the_golden();
    assets[0].file = "x/y";
    refuse_to_write(m, "plain name");
    m = the_golden();
    shards[0].bytes = (uint64_t)1 << 63;
    refuse_to_write(m, "2^63");
    m = the_golden();
    m.mesh_count = 1;
    refuse_to_write(m, "a mesh that is not there");
    m = the_golden();
    m.table.file = "table";
    refuse_to_write(m, "tensors.swt");
    swi_native_layout layout = {
        .kind = SWI_NATIVE_DTENSOR, .mesh = 1, .at = {{.kind = SWI_NATIVE_PARTIAL, .op = "a b"}}};
    m = the_golden();
    m.layouts = &layout;
    m.layout_count = 1;
    refuse_to_write(m, "a placement that is none");
    layout.at[0] = (swi_native_placement){.kind = SWI_NATIVE_SHARD, .dim = SW_MAX_AXES};
    refuse_to_write(m, "a placement that is none");
}

static void the_least_comes_back(void **state)
{
    (void)state;
    swi_native_manifest m = the_golden(), back;
    swi_buf out = {0};
    sw_error err = {0};
    shards[0].file = "rank-00000-of-00001.sws";
    m.shard_count = 1;
    m.writer = "";
    m.has_content = false;
    m.asset_count = m.layout_count = m.mesh_count = 0;
    assert_ok(swi_native_manifest_write(&m, &out, &err), &err);
    assert_ok(swi_native_manifest_read(out.data, out.size, NULL, &back, &err), &err);
    assert_false(back.has_content);
    assert_int_equal(back.asset_count + back.layout_count + back.mesh_count, 0);
    assert_memory_equal(&back.root, &m.root, sizeof m.root);
    swi_native_manifest_free(&back);
    swi_buf_free(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(version_1_is_written),
        cmocka_unit_test(version_1_is_read),
        cmocka_unit_test(what_is_wrong_is_refused_where_it_is),
        cmocka_unit_test(no_byte_changes_unseen),
        cmocka_unit_test(every_cut_is_refused),
        cmocka_unit_test(a_newer_minor_version_is_read),
        cmocka_unit_test(its_first_bytes_are_known),
        cmocka_unit_test(what_no_reader_takes_is_not_written),
        cmocka_unit_test(the_least_comes_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
