/* Whole JSON documents as value graphs. */
#include "harness/harness.h"

#include <math.h>
#include <string.h>

#include "codec/json.h"

static sw_value parse(const char *text, sw_value_graph **graph)
{
    sw_value root = {0};
    sw_error err = {0};
    assert_ok(swi_json_parse(text, strlen(text), NULL, graph, &root, &err), &err);
    return root;
}

static void assert_str(const sw_value_graph *g, sw_value v, const char *wanted)
{
    const uint8_t *data;
    size_t size;
    assert_int_equal(sw_value_get_kind(g, v), SW_VALUE_STR);
    assert_true(sw_value_bytes(g, v, &data, &size));
    assert_int_equal(size, strlen(wanted));
    assert_memory_equal(data, wanted, size);
}

static sw_value item(const sw_value_graph *g, sw_value v, size_t i)
{
    sw_value out = {0};
    assert_true(sw_value_item(g, v, i, &out));
    return out;
}

static sw_value member(const sw_value_graph *g, sw_value v, size_t i, const char *name)
{
    sw_value key = {0}, value = {0};
    assert_true(sw_value_pair(g, v, i, &key, &value));
    assert_str(g, key, name);
    return value;
}

static void test_scalars(void **state)
{
    (void)state;
    sw_value_graph *g = NULL;
    sw_value v = parse("[null,true,false,-7,2.5,\"t\\n\",9223372036854775808,NaN,-Infinity]", &g);
    assert_int_equal(sw_value_get_kind(g, v), SW_VALUE_LIST);
    assert_int_equal(sw_value_size(g, v), 9);
    assert_int_equal(sw_value_get_kind(g, item(g, v, 0)), SW_VALUE_NONE);
    bool b = false;
    assert_true(sw_value_bool(g, item(g, v, 1), &b) && b);
    assert_true(sw_value_bool(g, item(g, v, 2), &b) && !b);
    int64_t n = 0;
    assert_true(sw_value_int(g, item(g, v, 3), &n));
    assert_int_equal(n, -7);
    double d = 0;
    assert_true(sw_value_float(g, item(g, v, 4), &d) && d == 2.5);
    assert_str(g, item(g, v, 5), "t\n");
    assert_true(sw_value_float(g, item(g, v, 6), &d) && d == 9223372036854775808.0);
    assert_true(sw_value_float(g, item(g, v, 7), &d) && isnan(d));
    assert_true(sw_value_float(g, item(g, v, 8), &d) && isinf(d) && d < 0);
    sw_value_graph_free(g);
}

static void test_nesting(void **state)
{
    (void)state;
    sw_value_graph *g = NULL;
    sw_value v = parse("{\"b\":{\"x\":1,\"a\":[]},\"a\":[{\"x\":2},{\"x\":3}],\"c\":{}}", &g);
    assert_int_equal(sw_value_get_kind(g, v), SW_VALUE_DICT);
    assert_int_equal(sw_value_size(g, v), 3);
    /* In the order of the text. The same key in several objects is no duplicate. */
    sw_value b = member(g, v, 0, "b");
    int64_t n = 0;
    assert_true(sw_value_int(g, member(g, b, 0, "x"), &n));
    assert_int_equal(n, 1);
    assert_int_equal(sw_value_size(g, member(g, b, 1, "a")), 0);
    sw_value a = member(g, v, 1, "a");
    assert_int_equal(sw_value_size(g, a), 2);
    assert_true(sw_value_int(g, member(g, item(g, a, 1), 0, "x"), &n));
    assert_int_equal(n, 3);
    assert_int_equal(sw_value_get_kind(g, member(g, v, 2, "c")), SW_VALUE_DICT);
    sw_value_graph_free(g);
}

static void test_duplicates(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t position;
    } cases[] = {
        {"{\"a\":1,\"a\":1}", 7},
        {"{\"x\":{\"k\":{},\"z\":[],\"k\":0}}", 20},
        {"{\"b\":1,\"a\":1,\"b\":2,\"a\":2}", 13},
        {"{\"a\":1,\"\\u0061\":1}", 7},
        {"{\"\":1,\"\":1}", 6},
        {"[{\"a\":{\"a\":{}}},{\"a\":1,\"b\":2,\"a\":3}]", 29},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        sw_value_graph *g = NULL;
        sw_value v = {.bits = 77};
        sw_error err = {0};
        assert_int_equal(swi_json_parse(cases[i].text, strlen(cases[i].text), NULL, &g, &v, &err),
                         SW_ERR_FORMAT);
        assert_error(&err, SW_ERR_FORMAT, "is there twice");
        assert_int_equal(err.offset_bytes, cases[i].position);
        assert_null(g);
        assert_int_equal(v.bits, 77);
    }
}

static void test_bad_documents(void **state)
{
    (void)state;
    sw_value_graph *g = NULL;
    sw_value v = {.bits = 77};
    sw_error err = {0};
    assert_int_equal(swi_json_parse("{\"a\":[1,2}", 10, NULL, &g, &v, &err), SW_ERR_FORMAT);
    assert_error(&err, SW_ERR_FORMAT, "expected ',' or ']'");
    assert_int_equal(err.offset_bytes, 9);
    assert_int_equal(swi_json_parse("", 0, NULL, &g, &v, &err), SW_ERR_FORMAT);
    assert_int_equal(swi_json_parse("[] x", 4, NULL, &g, &v, &err), SW_ERR_FORMAT);
    assert_int_equal(err.offset_bytes, 3);
    const sw_limits shallow = {.depth = 2};
    assert_int_equal(swi_json_parse("[[[]]]", 6, &shallow, &g, &v, &err), SW_ERR_LIMIT);
    const sw_limits few = {.nodes = 4};
    assert_int_equal(swi_json_parse("[1.5,2.5,3.5,4.5,5.5]", 21, &few, &g, &v, &err), SW_ERR_LIMIT);
    assert_null(g);
    assert_int_equal(v.bits, 77);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_scalars),
        cmocka_unit_test(test_nesting),
        cmocka_unit_test(test_duplicates),
        cmocka_unit_test(test_bad_documents),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
