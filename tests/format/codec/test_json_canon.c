#include "codec/json_canon.h"

#include <string.h>

#include "harness/harness.h"

static void what_is_canonical(void **state)
{
    (void)state;
    static const char *const good[] = {
        "{}\n",
        "[]\n",
        "0\n",
        "9223372036854775807\n",
        "null\n",
        "\"\"\n",
        "[true,false,null,0,10,\"a\"]\n",
        "{\"\":0,\"A\":{\"z\":1},\"a\":{\"a\":[],\"b\":[{\"a\":1},{\"a\":2}]},\"aa\":1,"
        "\"\xc3\xa9\":2}\n",
        "\"\\\"\\\\\\b\\f\\n\\r\\t\\u0000\\u001f\x7f/\xc3\xa9\xf0\x9f\x98\x80\"\n",
    };
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        sw_error err = {0};
        assert_ok(swi_json_check_canonical(good[i], strlen(good[i]), NULL, &err), &err);
    }
}

typedef struct bad {
    const char *text;
    uint64_t position;
    const char *message;
} bad;

static const bad bads[] = {
    {"", 0, "JSON: expected"},
    {"{}", 2, "one line feed"},
    {"{}\n\n", 2, "one line feed"},
    {"{} ", 2, "one line feed"},
    {"{}\n0", 3, "JSON: expected"},
    {" {}\n", 0, "white space"},
    {"[1, 2]\n", 3, "white space"},
    {"{\"a\" :1}\n", 4, "white space"},
    {"{\"a\":1\n}\n", 6, "white space"},
    {"{\"b\":1,\"a\":2}\n", 7, "a key that is not behind"},
    {"{\"a\":1,\"a\":2}\n", 7, "a key that is not behind"},
    {"{\"\":1,\"\":2}\n", 6, "a key that is not behind"},
    {"{\"ab\":1,\"a\":2}\n", 8, "a key that is not behind"},
    {"{\"a\":{\"c\":1,\"d\":{}},\"b\":{\"b\":{},\"a\":0}}\n", 32, "a key that is not behind"},
    {"[-1]\n", 1, "below 0"},
    {"[-0]\n", 1, "another spelling"},
    {"[1.0]\n", 1, "not an integer"},
    {"[1e3]\n", 1, "not an integer"},
    {"[9223372036854775808]\n", 1, "not an integer"},
    {"[01]\n", 2, "JSON: expected"},
    {"[\"\\/\"]\n", 2, "another spelling"},
    {"[\"\\u0041\"]\n", 2, "another spelling"},
    {"[\"\\u000a\"]\n", 3, "another spelling"},
    {"[\"\\u001F\"]\n", 7, "another spelling"},
    {"[\"\\u00e9\"]\n", 2, "another spelling"},
    {"{\"\\u0061\":1}\n", 2, "another spelling"},
    {"[\"\xff\"]\n", 2, "JSON"},
};

static void what_is_not(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof bads / sizeof bads[0]; i++) {
        sw_error err = {0};
        assert_int_equal(swi_json_check_canonical(bads[i].text, strlen(bads[i].text), NULL, &err),
                         SW_ERR_FORMAT);
        assert_error(&err, SW_ERR_FORMAT, bads[i].message);
        if (err.offset_bytes != bads[i].position)
            fail_msg("%s: position %d", bads[i].text, (int)err.offset_bytes);
    }
}

static void depth_is_bounded(void **state)
{
    (void)state;
    static const char text[] = "[[[[]]]]\n";
    sw_limits limits = {.depth = 3};
    sw_error err = {0};
    assert_int_equal(swi_json_check_canonical(text, sizeof text - 1, &limits, &err), SW_ERR_LIMIT);
    limits.depth = 4;
    assert_ok(swi_json_check_canonical(text, sizeof text - 1, &limits, &err), &err);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_canonical),
        cmocka_unit_test(what_is_not),
        cmocka_unit_test(depth_is_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
