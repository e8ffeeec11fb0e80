/* Values as tagged JSON: every kind there and back, and what is refused (specs/values.md). */
#include "harness/harness.h"

#include <stdlib.h>
#include <string.h>

#include "codec/json.h"
#include "codec/value_json.h"

static const char *const names[] = {"model.w", "b"};

static const char *name_of(const void *ctx, uint32_t index)
{
    (void)ctx;
    return index < 2 ? names[index] : NULL;
}

static int64_t find(const void *ctx, const char *name, size_t size)
{
    (void)ctx;
    for (int64_t i = 0; i < 2; i++)
        if (strlen(names[i]) == size && memcmp(names[i], name, size) == 0)
            return i;
    return -1;
}

static sw_status read_text(const char *text, sw_value_graph **graph, sw_value *v, sw_error *err)
{
    sw_value_graph *json = NULL;
    sw_value root;
    sw_limits limits = sw_limits_resolve(NULL);
    sw_error own = {0};
    assert_ok(swi_json_parse(text, strlen(text), &limits, &json, &root, &own), &own);
    assert_ok(swi_graph_make(&limits, graph, &own), &own);
    sw_status st = swi_value_json_read(json, root, *graph, find, NULL, v, err);
    sw_value_graph_free(json);
    return st;
}

/* ---- texts that are written so --------------------------------------------------------------- */

static const char *const texts[] = {
    "null",
    "true",
    "[false,0,-7,9223372036854775807,-9223372036854775808]",
    "[0.5,-0.0,1e+300,1.0,4.94065645841247e-324]",
    "[{\"$float\":\"nan\"},{\"$float\":\"inf\"},{\"$float\":\"-inf\"}]",
    "{\"$float\":\"7ff8000000000001\"}",
    "{\"$float\":\"fff8000000000000\"}",
    "{\"$int\":\"000000000000000001\"}",
    "{\"$complex\":[1.0,{\"$float\":\"nan\"}]}",
    "\"text \\\"with\\\\ \\u0001 \xc3\xa9\"",
    "{\"$str\":\"eda080\"}",
    "{\"$bytes\":\"AAEC/w==\"}",
    "{\"$bytes\":\"\"}",
    "{\"$bytearray\":\"AAEC\"}",
    "[]",
    "{}",
    "{\"b\":1,\"a\":[2,{\"c\":null}]}",
    "{\"$tuple\":[]}",
    "{\"$tuple\":[1,{\"$tuple\":[0.9,0.999]}]}",
    "{\"$set\":[1,2]}",
    "{\"$frozenset\":[\"a\"]}",
    "{\"$dict\":[[1,\"one\"],[{\"$tuple\":[1,2]},null],[\"k\",true]]}",
    "{\"$dict\":[[\"$ref\",0]]}",
    "{\"$global\":[\"torch\",\"float32\"]}",
    "{\"$object\":[{\"$global\":[\"collections\",\"OrderedDict\"]},{\"$tuple\":[]},null,{\"a\":1},"
    "4]}",
    "{\"$object\":[{\"$global\":[\"m\",\"C\"]},{\"$tuple\":[1]},{\"x\":2},null,3]}",
    "{\"$persistent\":{\"$tuple\":[\"storage\",\"0\"]}}",
    "{\"$tensor\":\"model.w\"}",
    "{\"model\":{\"w\":{\"$tensor\":\"model.w\"}},\"b\":{\"$tensor\":\"b\"}}",
    "[{\"$id\":0,\"$value\":[1]},{\"$ref\":0},{\"$ref\":0}]",
    "{\"$id\":0,\"$value\":[{\"$ref\":0}]}",
    "{\"$id\":0,\"$value\":{\"self\":{\"$ref\":0}}}",
    "[{\"$id\":0,\"$value\":{\"$set\":[1]}},{\"$id\":1,\"$value\":[]},{\"$ref\":1},{\"$ref\":0}]",
};

static void test_there_and_back(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        sw_value_graph *graph = NULL;
        sw_value v;
        swi_buf out = {0};
        sw_error err = {0};
        sw_status st = read_text(texts[i], &graph, &v, &err);
        if (st == SW_OK)
            st = swi_value_json_write(graph, v, name_of, NULL, &out, &err);
        if (st != SW_OK)
            fail_msg("%s: %s", texts[i], err.text);
        if (out.size != strlen(texts[i]) || memcmp(out.data, texts[i], out.size) != 0)
            fail_msg("%s: became %.*s", texts[i], (int)out.size, (const char *)out.data);
        swi_buf_free(&out);
        sw_value_graph_free(graph);
    }
}

/* What is one list twice is one list again, and what is inside itself is. */
static void test_shared_is_shared(void **state)
{
    (void)state;
    sw_value_graph *graph = NULL;
    sw_value v, a, b, inside;
    sw_error err = {0};
    assert_ok(read_text("[{\"$id\":0,\"$value\":[1]},{\"$ref\":0}]", &graph, &v, &err), &err);
    assert_true(sw_value_item(graph, v, 0, &a) && sw_value_item(graph, v, 1, &b));
    assert_int_equal(a.bits, b.bits);
    sw_value_graph_free(graph);
    assert_ok(read_text("{\"$id\":0,\"$value\":[{\"$ref\":0}]}", &graph, &v, &err), &err);
    assert_true(sw_value_item(graph, v, 0, &inside));
    assert_int_equal(inside.bits, v.bits);
    sw_value_graph_free(graph);
}

/* ---- texts that are refused ------------------------------------------------------------------ */

static const struct {
    const char *text, *says;
    sw_status status;
} wrong[] = {
    {"{\"$tupel\":[]}", "a tag that is none", SW_ERR_FORMAT},
    {"{\"$tuple\":{}}", "a tagged container is a list", SW_ERR_FORMAT},
    {"{\"$tuple\":[],\"x\":1}", "alone in its object", SW_ERR_FORMAT},
    {"{\"$float\":\"NaN\"}", "none of nan, inf, -inf", SW_ERR_FORMAT},
    {"{\"$float\":\"7FF8000000000001\"}", "none of nan, inf, -inf", SW_ERR_FORMAT},
    {"{\"$int\":\"abc\"}", "half a byte", SW_ERR_FORMAT},
    {"{\"$int\":\"zz\"}", "no hexadecimal digits", SW_ERR_FORMAT},
    {"{\"$complex\":[1.0]}", "a list of two floats", SW_ERR_FORMAT},
    {"{\"$dict\":[[1]]}", "a list of pairs", SW_ERR_FORMAT},
    {"{\"$dict\":[1]}", "a list of pairs", SW_ERR_FORMAT},
    {"{\"$global\":[\"m\"]}", "a module and a name", SW_ERR_FORMAT},
    {"{\"$global\":[\"m\",\"n\\u0000\"]}", "a module and a name", SW_ERR_FORMAT},
    {"{\"$object\":[1,2,3]}", "a list of five", SW_ERR_FORMAT},
    {"{\"$object\":[null,{\"$tuple\":[]},null,null,8]}", "a number of 0 to 7", SW_ERR_FORMAT},
    {"{\"$object\":[null,[],null,null,0]}", "a tuple", SW_ERR_FORMAT},
    {"{\"$object\":[null,{\"$tuple\":[]},null,1,4]}", "a list or a dict", SW_ERR_FORMAT},
    {"{\"$ref\":0}", "nothing has yet", SW_ERR_FORMAT},
    {"{\"$ref\":-1}", "nothing has yet", SW_ERR_FORMAT},
    {"{\"$id\":1,\"$value\":[]}", "not the next number", SW_ERR_FORMAT},
    {"{\"$id\":0}", "not the next number", SW_ERR_FORMAT},
    {"{\"$id\":0,\"$value\":1}", "no container", SW_ERR_FORMAT},
    {"{\"$tensor\":\"x\"}", "there is no tensor \"x\"", SW_ERR_CORRUPT},
};

static void test_what_is_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        sw_value_graph *graph = NULL;
        sw_value v;
        sw_error err = {0};
        sw_status st = read_text(wrong[i].text, &graph, &v, &err);
        if (st != wrong[i].status || strstr(err.text, wrong[i].says) == NULL)
            fail_msg("%s: %s: %s", wrong[i].text, sw_status_name(st), err.text);
        sw_value_graph_free(graph);
    }
}

/* An object inside itself, a tensor without a name, lists that unfold without end. */
static void test_what_cannot_be_written(void **state)
{
    (void)state;
    sw_value_graph *g = NULL;
    sw_limits limits = sw_limits_resolve(NULL);
    sw_value v = swi_value_of_tensor(2), tuple[2];
    swi_buf out = {0};
    sw_error err = {0};
    assert_ok(swi_graph_make(&limits, &g, &err), &err);
    assert_int_equal(swi_value_json_write(g, v, name_of, NULL, &out, &err), SW_ERR_UNSUPPORTED);
    assert_ok(swi_graph_int(g, 1, &v, &err), &err);
    for (int i = 0; i < 40; i++) {
        tuple[0] = tuple[1] = v;
        assert_ok(swi_graph_sequence(g, SW_VALUE_TUPLE, tuple, 2, &v, &err), &err);
    }
    assert_int_equal(swi_value_json_write(g, v, name_of, NULL, &out, &err), SW_ERR_LIMIT);
    sw_value_graph_free(g);
    swi_buf_free(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_there_and_back),
        cmocka_unit_test(test_shared_is_shared),
        cmocka_unit_test(test_what_is_refused),
        cmocka_unit_test(test_what_cannot_be_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
