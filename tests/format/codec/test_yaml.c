/* The strict subset of YAML: what a document holds, what is refused and where, places of errors. */
#include "harness/harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codec/yaml.h"

static swi_yaml *parse(const char *text)
{
    swi_yaml *doc = NULL;
    sw_error err = {0};
    assert_ok(swi_yaml_parse(text, strlen(text), "m.yaml", NULL, &doc, &err), &err);
    return doc;
}

static void assert_text(const swi_yaml *doc, swi_yaml_node node, const char *wanted)
{
    assert_true(swi_yaml_is_node(node));
    assert_int_equal(swi_yaml_kind_of(doc, node), SWI_YAML_SCALAR);
    size_t size;
    assert_string_equal(swi_yaml_text(doc, node, &size), wanted);
    assert_int_equal(size, strlen(wanted));
}

static void assert_place(const swi_yaml *doc, swi_yaml_node node, size_t line, size_t column)
{
    assert_int_equal(swi_yaml_line(doc, node), line);
    assert_int_equal(swi_yaml_column(doc, node), column);
}

static void test_document(void **state)
{
    (void)state;
    swi_yaml *doc =
        parse("# a map\n---\nname: \"a \\\"b\\\\\"\nrules:\n  - {from: 'x.{n}', dim: 0}\n"
              "  - [1, '2', []]\n  -\nlast: 'it''s'\n...\n");
    swi_yaml_node root = swi_yaml_root(doc);
    assert_string_equal(swi_yaml_file(doc), "m.yaml");
    assert_int_equal(swi_yaml_kind_of(doc, root), SWI_YAML_MAPPING);
    assert_int_equal(swi_yaml_count(doc, root), 3);
    assert_place(doc, root, 3, 1);
    swi_yaml_node name = swi_yaml_find(doc, root, "name");
    assert_text(doc, name, "a \"b\\");
    assert_true(swi_yaml_is_quoted(doc, name));
    assert_place(doc, name, 3, 7);
    assert_false(swi_yaml_is_node(swi_yaml_find(doc, root, "nam")));
    assert_text(doc, swi_yaml_find(doc, root, "last"), "it's");
    swi_yaml_node rules = swi_yaml_find(doc, root, "rules");
    assert_int_equal(swi_yaml_kind_of(doc, rules), SWI_YAML_SEQUENCE);
    assert_int_equal(swi_yaml_count(doc, rules), 3);
    swi_yaml_node items = swi_yaml_item(doc, rules, 1);
    assert_int_equal(swi_yaml_count(doc, items), 3);
    assert_text(doc, swi_yaml_item(doc, items, 0), "1");
    assert_false(swi_yaml_is_quoted(doc, swi_yaml_item(doc, items, 0)));
    assert_true(swi_yaml_is_quoted(doc, swi_yaml_item(doc, items, 1)));
    assert_int_equal(swi_yaml_count(doc, swi_yaml_item(doc, items, 2)), 0);
    assert_text(doc, swi_yaml_item(doc, rules, 2), "");
    assert_int_equal(swi_yaml_count(doc, swi_yaml_item(doc, rules, 2)), 0);
    swi_yaml_free(doc);
    swi_yaml_free(NULL);
}

static void test_pairs(void **state)
{
    (void)state;
    swi_yaml *doc = parse("b: 1\na: 2\r\n\"c d\": w{1,3,2}.weight\n");
    swi_yaml_node key, value;
    swi_yaml_pair(doc, swi_yaml_root(doc), 1, &key, &value);
    assert_text(doc, key, "a");
    assert_text(doc, value, "2");
    swi_yaml_pair(doc, swi_yaml_root(doc), 2, &key, &value);
    assert_text(doc, key, "c d");
    assert_text(doc, value, "w{1,3,2}.weight");
    assert_place(doc, key, 3, 1);
    assert_place(doc, value, 3, 8);
    swi_yaml_free(doc);
}

static void test_scalar_document(void **state)
{
    (void)state;
    swi_yaml *doc = parse("just text");
    assert_text(doc, swi_yaml_root(doc), "just text");
    assert_int_equal(swi_yaml_count(doc, swi_yaml_root(doc)), 0);
    assert_false(swi_yaml_is_node(swi_yaml_find(doc, swi_yaml_root(doc), "text")));
    swi_yaml_free(doc);
}

typedef struct bad {
    const char *text;
    sw_status status;
    const char *place, *message, *clause;
    uint64_t offset;
} bad;

static void assert_bad(const void *data, size_t size, const bad *wanted)
{
    swi_yaml *doc = NULL;
    sw_error err = {0};
    sw_status status = swi_yaml_parse(data, size, "m.yaml", NULL, &doc, &err);
    if (status != wanted->status)
        fail_msg("%s: %s %s", wanted->text, sw_status_name(status), err.text);
    assert_null(doc);
    assert_error(&err, wanted->status, wanted->message);
    char place[64];
    snprintf(place, sizeof place, "m.yaml:%s: ", wanted->place);
    if (strncmp(err.text, place, strlen(place)) != 0)
        fail_msg("%s: wanted at %s", err.text, place);
    assert_string_equal(err.clause, wanted->clause);
    assert_true(err.has_offset);
    assert_int_equal(err.offset_bytes, wanted->offset);
}

static void test_refused(void **state)
{
    (void)state;
    static const bad cases[] = {
        {"a: &x 1", SW_ERR_UNSUPPORTED, "1:4", "an anchor (&) is not allowed", "NT-1.2", 3},
        {"a: &x [1]", SW_ERR_UNSUPPORTED, "1:4", "an anchor", "NT-1.2", 3},
        {"- &x\n  a: 1", SW_ERR_UNSUPPORTED, "1:3", "an anchor", "NT-1.2", 2},
        {"a: 1\nb: *layer", SW_ERR_UNSUPPORTED, "2:4", "begins with * needs quotes", "NT-1.2", 8},
        {"a: **", SW_ERR_FORMAT, "1:5", "begins with * needs quotes", "NT-1.2", 4},
        {"a: !!int 1", SW_ERR_UNSUPPORTED, "1:4", "a tag (!) is", "NT-1.2", 3},
        {"a: !x {}", SW_ERR_UNSUPPORTED, "1:4", "a tag (!) is", "NT-1.2", 3},
        {"! a", SW_ERR_UNSUPPORTED, "1:1", "a tag (!) is", "NT-1.2", 0},
        {"%YAML 1.1\n---\na: 1", SW_ERR_UNSUPPORTED, "1:1", "a directive (%)", "NT-1.2", 0},
        {"%TAG ! a:\n---\na: 1", SW_ERR_UNSUPPORTED, "1:1", "a directive (%)", "NT-1.2", 0},
        {"a: 1\n---\nb: 1", SW_ERR_UNSUPPORTED, "2:1", "a second document", "NT-1.2", 5},
        {"a: 1\n...\n---\nb: 1", SW_ERR_UNSUPPORTED, "3:1", "a second document", "NT-1.2", 9},
        {"a: 1\n<<: {b: 1}", SW_ERR_UNSUPPORTED, "2:1", "a merge key (<<)", "NT-1.2", 5},
        {"? [1]\n: 2", SW_ERR_UNSUPPORTED, "1:3", "a key that is a list", "NT-1.2", 2},
        {"{{a: 1}: 2}", SW_ERR_UNSUPPORTED, "1:2", "a key that is a list", "NT-1.2", 1},
        {"a: |\n  x", SW_ERR_UNSUPPORTED, "1:4", "a block scalar", "NT-1.2", 3},
        {"a: >\n  x", SW_ERR_UNSUPPORTED, "1:4", "a block scalar", "NT-1.2", 3},
        {"a: x\n  y", SW_ERR_UNSUPPORTED, "1:4", "over several lines", "NT-1.2", 3},
        {"a: \"x\n  y\"", SW_ERR_UNSUPPORTED, "1:4", "over several lines", "NT-1.2", 3},
        {"a: \"x\\ny\"", SW_ERR_UNSUPPORTED, "1:4", "an escape other than", "NT-1.2", 3},
        {"a: \"x\\0y\"", SW_ERR_UNSUPPORTED, "1:4", "an escape other than", "NT-1.2", 3},
        {"a: 1\nb: 2\na: 3", SW_ERR_FORMAT, "3:1", "key \"a\" is there twice", "NT-1.3", 10},
        {"x: {k: {}, z: [], 'k': 0}", SW_ERR_FORMAT, "1:19", "key \"k\" is there twice", "NT-1.3",
         18},
        {"a:\n\t- 1", SW_ERR_FORMAT, "2:1", "cannot start any token", "NT-1.2", 3},
        {"a: [1, 23", SW_ERR_FORMAT, "1:10", "flow sequence, begun at 1:4", "NT-1.2", 9},
        {"a: 'x", SW_ERR_FORMAT, "1:6", "quoted scalar, begun at 1:4", "NT-1.2", 5},
        {"\xC3\xA4: 1\n\xC3\xA4\xC3\xA4: ]", SW_ERR_FORMAT, "2:5", "YAML", "NT-1.2", 12},
        {"", SW_ERR_FORMAT, "1:1", "the document is empty", "NT-1.1", 0},
        {"# only this\n", SW_ERR_FORMAT, "1:1", "the document is empty", "NT-1.1", 0},
        {"a: 1\nb: \xFF", SW_ERR_FORMAT, "2:4", "no UTF-8", "NT-1.1", 8},
        {"\xEF\xBB\xBF"
         "a: 1",
         SW_ERR_FORMAT, "1:1", "a byte order mark", "NT-1.1", 0},
        {"a: 1\rb: 2", SW_ERR_FORMAT, "1:5", "a line end other than", "NT-1.1", 4},
        {"a: x\xC2\x85", SW_ERR_FORMAT, "1:5", "a control character", "NT-1.1", 4},
        {"a: x\xE2\x80\xA8", SW_ERR_FORMAT, "1:5", "a line end other than", "NT-1.1", 4},
        {"a: \x01", SW_ERR_FORMAT, "1:4", "a control character", "NT-1.1", 3},
        {"a: \xEF\xBB\xBF", SW_ERR_FORMAT, "1:4", "a byte order mark", "NT-1.1", 3},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_bad(cases[i].text, strlen(cases[i].text), &cases[i]);
    const bad nul = {"", SW_ERR_FORMAT, "1:4", "a NUL byte", "NT-1.1", 3};
    assert_bad("a: \0 1", 6, &nul);
}

static char *repeated(const char *text, size_t count)
{
    size_t size = strlen(text);
    char *out = malloc(size * count + 1);
    assert_non_null(out);
    for (size_t i = 0; i < count; i++)
        memcpy(out + i * size, text, size);
    out[size * count] = '\0';
    return out;
}

static void test_bombs(void **state)
{
    (void)state;
    char *deep = repeated("[", 100000);
    const bad levels = {"", SW_ERR_LIMIT, "1:33", "more than 32 levels", "NT-1.1", 32};
    assert_bad(deep, strlen(deep), &levels);
    char *indented = repeated("- ", 100000);
    const bad dashes = {"", SW_ERR_LIMIT, "1:65", "more than 32 levels", "NT-1.1", 64};
    assert_bad(indented, strlen(indented), &dashes);
    char *wide = repeated("- a\n", 70000);
    const bad nodes = {"", SW_ERR_LIMIT, "65536:3", "more than 65536 nodes", "NT-1.1", 262142};
    assert_bad(wide, strlen(wide), &nodes);
    char *large = repeated("# text\n", 200000);
    swi_yaml *doc = NULL;
    sw_error err = {0};
    assert_int_equal(swi_yaml_parse(large, strlen(large), "m.yaml", NULL, &doc, &err),
                     SW_ERR_LIMIT);
    assert_error(&err, SW_ERR_LIMIT, "m.yaml: 1400000 bytes, at most 1048576");
    const sw_limits few = {.nodes = 3, .depth = 1};
    assert_int_equal(swi_yaml_parse("{a: 1, b: 2}", 12, "m", &few, &doc, &err), SW_ERR_LIMIT);
    assert_int_equal(swi_yaml_parse("[[]]", 4, "m", &few, &doc, &err), SW_ERR_LIMIT);
    assert_ok(swi_yaml_parse("[a, b]", 6, "m", &few, &doc, &err), &err);
    swi_yaml_free(doc);
    free(deep);
    free(indented);
    free(wide);
    free(large);
}

static void test_fail(void **state)
{
    (void)state;
    swi_yaml *doc = parse("a: x\n\xC3\xA4\xC3\xA4: 'y''z'\nc: \"\\\\q\"\nd: u\xC3\xBCv\n");
    swi_yaml_node root = swi_yaml_root(doc), key, y, c = swi_yaml_find(doc, root, "c");
    swi_yaml_pair(doc, root, 1, &key, &y);
    sw_error err = {0};
    assert_int_equal(swi_yaml_fail(doc, y, &err, SW_ERR_CONFLICT, "NT-9.9", "%d of %s", 3, "it"),
                     SW_ERR_CONFLICT);
    assert_error(&err, SW_ERR_CONFLICT, "m.yaml:2:5: 3 of it [NT-9.9]");
    assert_int_equal(err.offset_bytes, 11);
    /* The z is byte 2 of the text, 4 characters behind the quote. */
    struct {
        swi_yaml_node node;
        uint64_t offset;
        const char *text;
        uint64_t wanted;
    } cases[] = {
        {swi_yaml_find(doc, root, "a"), 0, "m.yaml:1:4: no [NT-2.1]", 3},
        {swi_yaml_find(doc, root, "a"), 1, "m.yaml:1:5: no [NT-2.1]", 4},
        {swi_yaml_find(doc, root, "a"), 99, "m.yaml:1:5: no [NT-2.1]", 4},
        {y, 0, "m.yaml:2:6: no [NT-2.1]", 12},
        {y, 2, "m.yaml:2:9: no [NT-2.1]", 15},
        {c, 1, "m.yaml:3:7: no [NT-2.1]", 24},
        {swi_yaml_find(doc, root, "d"), 3, "m.yaml:4:6: no [NT-2.1]", 33},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        sw_status status = swi_fail_at(&err, SW_ERR_FORMAT, "NT-2.1", cases[i].offset, "no");
        assert_int_equal(swi_yaml_fail_inside(doc, cases[i].node, status, &err), SW_ERR_FORMAT);
        assert_string_equal(err.text, cases[i].text);
        assert_string_equal(err.clause, "NT-2.1");
        assert_int_equal(err.offset_bytes, cases[i].wanted);
    }
    assert_int_equal(swi_yaml_fail_inside(doc, y, swi_fail(&err, SW_ERR_ARG, "no"), &err),
                     SW_ERR_ARG);
    assert_string_equal(err.text, "m.yaml:2:5: no");
    assert_int_equal(swi_yaml_fail_inside(doc, y, SW_OK, &err), SW_OK);
    assert_int_equal(swi_yaml_fail_inside(doc, y, SW_ERR_ARG, NULL), SW_ERR_ARG);
    swi_yaml_free(doc);
}

static void test_known_keys(void **state)
{
    (void)state;
    static const char *const known[] = {"dim", "split", NULL};
    swi_yaml *doc = parse("- {dim: 0}\n- {dim: 0, spit: 1}\n- {zzzzz: 1}\n- text\n- []\n-\n");
    swi_yaml_node root = swi_yaml_root(doc), found;
    static const char *const wanted[] = {
        NULL,
        "m.yaml:2:12: unknown key \"spit\" in a rule; did you mean \"split\"? known: dim, split "
        "[NT-1.5]",
        "m.yaml:3:4: unknown key \"zzzzz\" in a rule; known: dim, split [NT-1.5]",
        "m.yaml:4:3: a rule must be a mapping, is a text [NT-1.4]",
        "m.yaml:5:3: a rule must be a mapping, is a list [NT-1.4]",
        "m.yaml:6:2: a rule must be a mapping, is left out [NT-1.4]",
    };
    for (size_t i = 0; i < swi_yaml_count(doc, root); i++) {
        sw_error err = {0};
        sw_status status =
            swi_yaml_known_keys(doc, swi_yaml_item(doc, root, i), "a rule", known, &err);
        assert_int_equal(status, wanted[i] == NULL ? SW_OK : SW_ERR_FORMAT);
        assert_string_equal(err.text, wanted[i] == NULL ? "" : wanted[i]);
    }
    sw_error err = {0};
    swi_yaml_node first = swi_yaml_item(doc, root, 0);
    assert_ok(swi_yaml_require(doc, first, "a rule", "dim", &found, &err), &err);
    assert_text(doc, found, "0");
    assert_int_equal(swi_yaml_require(doc, first, "a rule", "split", &found, &err), SW_ERR_FORMAT);
    assert_string_equal(err.text, "m.yaml:1:3: a rule lacks the key \"split\" [NT-1.5]");
    swi_yaml_free(doc);
}

static void test_values(void **state)
{
    (void)state;
    swi_yaml *doc = parse("t: text\nempty:\nquoted: ''\nyes: true\nno: false\nb: True\nqb: 'true'\n"
                          "n: 18446744073709551615\nbig: 18446744073709551616\nz: 07\nqn: '7'\n"
                          "neg: -1\nlist: [a, b]\nnested: [a, [b]]\nnone: []\nmap: {}\n");
    swi_yaml_node root = swi_yaml_root(doc), node;
    sw_error err = {0};
    const char *text = "as before";
    assert_ok(swi_yaml_get_text(doc, root, "t", &text, &node, &err), &err);
    assert_string_equal(text, "text");
    assert_place(doc, node, 1, 4);
    assert_ok(swi_yaml_get_text(doc, root, "quoted", &text, NULL, &err), &err);
    assert_string_equal(text, "");
    assert_int_equal(swi_yaml_get_text(doc, root, "empty", &text, &node, &err), SW_ERR_FORMAT);
    assert_error(&err, SW_ERR_FORMAT, "m.yaml:2:7: empty must be a text, is left out");
    assert_int_equal(swi_yaml_get_text(doc, root, "list", &text, &node, &err), SW_ERR_FORMAT);
    assert_error(&err, SW_ERR_FORMAT, "list must be a text, is a list");
    assert_string_equal(text, "");
    assert_ok(swi_yaml_get_text(doc, root, "absent", &text, &node, &err), &err);
    assert_null(text);
    assert_false(swi_yaml_is_node(node));

    bool truth = false;
    assert_ok(swi_yaml_get_bool(doc, root, "yes", &truth, &err), &err);
    assert_true(truth);
    assert_ok(swi_yaml_get_bool(doc, root, "absent", &truth, &err), &err);
    assert_true(truth);
    assert_int_equal(swi_yaml_get_bool(doc, root, "b", &truth, &err), SW_ERR_FORMAT);
    assert_error(&err, SW_ERR_FORMAT, "m.yaml:6:4: b must be true or false, is \"True\"");
    assert_int_equal(swi_yaml_get_bool(doc, root, "qb", &truth, &err), SW_ERR_FORMAT);
    assert_error(&err, SW_ERR_FORMAT, "is a text in quotes");
    assert_ok(swi_yaml_get_bool(doc, root, "no", &truth, &err), &err);
    assert_false(truth);

    uint64_t n = 5;
    assert_ok(swi_yaml_get_uint(doc, root, "absent", &n, &err), &err);
    assert_int_equal(n, 5);
    assert_ok(swi_yaml_get_uint(doc, root, "n", &n, &err), &err);
    assert_true(n == UINT64_MAX);
    static const char *const numbers[] = {"big", "z", "qn", "neg", "t", "map"};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        assert_int_equal(swi_yaml_get_uint(doc, root, numbers[i], &n, &err), SW_ERR_FORMAT);
        assert_error(&err, SW_ERR_FORMAT, "must be");
    }

    swi_yaml_list list;
    assert_ok(swi_yaml_get_list(doc, root, "list", &list, &err), &err);
    assert_int_equal(list.count, 2);
    assert_text(doc, list.items[1], "b");
    assert_ok(swi_yaml_get_list(doc, root, "t", &list, &err), &err);
    assert_int_equal(list.count, 1);
    assert_text(doc, list.items[0], "text");
    assert_ok(swi_yaml_get_list(doc, root, "absent", &list, &err), &err);
    assert_int_equal(list.count, 0);
    assert_int_equal(swi_yaml_get_list(doc, root, "nested", &list, &err), SW_ERR_FORMAT);
    assert_error(&err, SW_ERR_FORMAT, "m.yaml:14:13: nested must be a text, is a list");
    assert_int_equal(swi_yaml_get_list(doc, root, "none", &list, &err), SW_ERR_FORMAT);
    assert_error(&err, SW_ERR_FORMAT, "m.yaml:15:7: none is an empty list");
    assert_int_equal(swi_yaml_get_list(doc, root, "map", &list, &err), SW_ERR_FORMAT);
    assert_error(&err, SW_ERR_FORMAT, "map must be a text, is a mapping");
    swi_yaml_free(doc);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_document),        cmocka_unit_test(test_pairs),
        cmocka_unit_test(test_scalar_document), cmocka_unit_test(test_refused),
        cmocka_unit_test(test_bombs),           cmocka_unit_test(test_fail),
        cmocka_unit_test(test_known_keys),      cmocka_unit_test(test_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
