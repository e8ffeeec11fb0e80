/* The JSON writer: what it writes, as Python would, and that our reader gives it back. */
#include "harness/harness.h"

#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "codec/json.h"
#include "codec/json_write.h"

static void assert_text(swi_buf *out, const char *wanted)
{
    sw_error err = {0};
    assert_ok(swi_buf_u8(out, 0, &err), &err);
    assert_string_equal((const char *)out->data, wanted);
    swi_buf_free(out);
}

static void write_sample(swi_json_writer *w)
{
    swi_json_begin_object(w);
    swi_json_key_str(w, "a");
    swi_json_begin_array(w);
    swi_json_int(w, -1);
    swi_json_uint(w, UINT64_MAX);
    swi_json_bool(w, true);
    swi_json_bool(w, false);
    swi_json_null(w);
    swi_json_float(w, 0.5);
    swi_json_end(w);
    swi_json_key_str(w, "empty");
    swi_json_begin_object(w);
    swi_json_end(w);
    swi_json_key_str(w, "b");
    swi_json_begin_object(w);
    swi_json_key_str(w, "c");
    swi_json_begin_array(w);
    swi_json_end(w);
    swi_json_end(w);
    swi_json_end(w);
}

static void test_compact(void **state)
{
    (void)state;
    swi_buf out = {0};
    swi_json_writer w;
    sw_error err = {0};
    swi_json_start(&w, &out, SWI_JSON_COMPACT);
    write_sample(&w);
    assert_ok(swi_json_finish(&w, &err), &err);
    assert_text(&out, "{\"a\":[-1,18446744073709551615,true,false,null,0.5],\"empty\":{},"
                      "\"b\":{\"c\":[]}}");
}

static void test_indented(void **state)
{
    (void)state;
    swi_buf out = {0};
    swi_json_writer w;
    sw_error err = {0};
    swi_json_start(&w, &out, SWI_JSON_INDENT);
    write_sample(&w);
    assert_ok(swi_json_finish(&w, &err), &err);
    /* json.dumps(..., indent=2) */
    assert_text(&out, "{\n  \"a\": [\n    -1,\n    18446744073709551615,\n    true,\n    false,\n"
                      "    null,\n    0.5\n  ],\n  \"empty\": {},\n  \"b\": {\n    \"c\": []\n"
                      "  }\n}");
}

static void test_text(void **state)
{
    (void)state;
    static const char text[] = "q\" b\\ n\n t\t \x01\x1f\x7f/ \xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80";
    swi_buf out = {0};
    sw_error err = {0};
    assert_ok(swi_json_quote(&out, text, sizeof text - 1, &err), &err);
    assert_text(&out, "\"q\\\" b\\\\ n\\n t\\t \\u0001\\u001f\x7f/ "
                      "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\"");
    swi_json_writer w;
    swi_json_start(&w, &out, SWI_JSON_ASCII);
    swi_json_text(&w, text, sizeof text - 1);
    assert_ok(swi_json_finish(&w, &err), &err);
    /* json.dumps(...) */
    assert_text(&out, "\"q\\\" b\\\\ n\\n t\\t \\u0001\\u001f\x7f/ \\u00e9\\u20ac\\ud83d\\ude00\"");
}

static void test_broken_utf8(void **state)
{
    (void)state;
    swi_buf out = {0};
    sw_error err = {0};
    assert_ok(swi_json_quote(&out, "a\xff\xc3", 3, &err), &err);
    assert_text(&out, "\"a\xef\xbf\xbd\xef\xbf\xbd\"");
    assert_ok(swi_json_quote(&out, "\xed\xa0\x80z", 4, &err), &err);
    assert_text(&out, "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbdz\"");
    assert_ok(swi_json_quote(&out, "\0", 1, &err), &err);
    assert_text(&out, "\"\\u0000\"");
}

static void assert_float(double v, const char *wanted)
{
    swi_buf out = {0};
    swi_json_writer w;
    sw_error err = {0};
    swi_json_start(&w, &out, SWI_JSON_COMPACT);
    swi_json_float(&w, v);
    assert_ok(swi_json_finish(&w, &err), &err);
    assert_text(&out, wanted);
}

static void test_floats(void **state)
{
    (void)state;
    assert_float(0, "0.0");
    assert_float(-0.0, "-0.0");
    assert_float(1, "1.0");
    assert_float(0.1, "0.1");
    assert_float(1e-5, "1e-05");
    assert_float(1e300, "1e+300");
    assert_float(0.1 + 0.2, "0.30000000000000004");
    assert_float(5e-324, "4.94065645841247e-324");
    assert_float(NAN, "null");
    assert_float(INFINITY, "null");
    if (setlocale(LC_ALL, "de_DE.UTF-8") != NULL)
        assert_float(1.5, "1.5");
    setlocale(LC_ALL, "C");
}

static void test_random_floats_come_back(void **state)
{
    (void)state;
    harness_prng prng = {.state = 7};
    for (int i = 0; i < 20000; i++) {
        uint64_t bits = harness_random(&prng);
        double v;
        memcpy(&v, &bits, sizeof v);
        if (!isfinite(v))
            continue;
        swi_buf out = {0};
        swi_json_writer w;
        sw_error err = {0};
        swi_json_start(&w, &out, SWI_JSON_COMPACT);
        swi_json_float(&w, v);
        assert_ok(swi_json_finish(&w, &err), &err);
        swi_json_reader *reader = NULL;
        swi_json_event event;
        assert_ok(swi_json_reader_make(out.data, out.size, NULL, &reader, &err), &err);
        assert_ok(swi_json_next(reader, &event, &err), &err);
        assert_int_equal(event.kind, SWI_JSON_FLOAT);
        assert_memory_equal(&event.number, &v, sizeof v);
        swi_json_reader_free(reader);
        swi_buf_free(&out);
    }
}

typedef void (*misuse)(swi_json_writer *w);

static void value_without_key(swi_json_writer *w)
{
    swi_json_begin_object(w);
    swi_json_int(w, 1);
}

static void key_in_array(swi_json_writer *w)
{
    swi_json_begin_array(w);
    swi_json_key_str(w, "a");
}

static void two_keys(swi_json_writer *w)
{
    swi_json_begin_object(w);
    swi_json_key_str(w, "a");
    swi_json_key_str(w, "b");
}

static void key_then_end(swi_json_writer *w)
{
    swi_json_begin_object(w);
    swi_json_key_str(w, "a");
    swi_json_end(w);
}

static void two_values(swi_json_writer *w)
{
    swi_json_int(w, 1);
    swi_json_int(w, 2);
}

static void end_of_nothing(swi_json_writer *w)
{
    swi_json_end(w);
}

static void not_complete(swi_json_writer *w)
{
    swi_json_begin_array(w);
}

static void nothing(swi_json_writer *w)
{
    (void)w;
}

static void test_misuse(void **state)
{
    (void)state;
    static const struct {
        misuse call;
        const char *text;
    } cases[] = {
        {value_without_key, "a value without a key"},
        {key_in_array, "a key that is not in an object"},
        {two_keys, "a key that is not in an object"},
        {key_then_end, "nothing to end here"},
        {two_values, "a second value at the top"},
        {end_of_nothing, "nothing to end here"},
        {not_complete, "not complete"},
        {nothing, "not complete"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        swi_buf out = {0};
        swi_json_writer w;
        sw_error err = {0};
        swi_json_start(&w, &out, SWI_JSON_COMPACT);
        cases[i].call(&w);
        assert_int_equal(swi_json_finish(&w, &err), SW_ERR_ARG);
        assert_error(&err, SW_ERR_ARG, cases[i].text);
        /* The first failure stays. */
        swi_json_null(&w);
        swi_json_end(&w);
        assert_int_equal(swi_json_finish(&w, &err), SW_ERR_ARG);
        assert_error(&err, SW_ERR_ARG, cases[i].text);
        swi_buf_free(&out);
    }
}

static void test_depth(void **state)
{
    (void)state;
    swi_buf out = {0};
    swi_json_writer w;
    sw_error err = {0};
    swi_json_start(&w, &out, SWI_JSON_COMPACT);
    for (int i = 0; i < SWI_JSON_WRITE_DEPTH; i++)
        swi_json_begin_array(&w);
    for (int i = 0; i < SWI_JSON_WRITE_DEPTH; i++)
        swi_json_end(&w);
    assert_ok(swi_json_finish(&w, &err), &err);
    assert_int_equal(out.size, 2 * SWI_JSON_WRITE_DEPTH);
    swi_json_start(&w, &out, SWI_JSON_COMPACT);
    for (int i = 0; i <= SWI_JSON_WRITE_DEPTH; i++)
        swi_json_begin_array(&w);
    assert_int_equal(swi_json_finish(&w, &err), SW_ERR_LIMIT);
    assert_error(&err, SW_ERR_LIMIT, "nested deeper than 1024");
    swi_buf_free(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_compact), cmocka_unit_test(test_indented),
        cmocka_unit_test(test_text),    cmocka_unit_test(test_broken_utf8),
        cmocka_unit_test(test_floats),  cmocka_unit_test(test_random_floats_come_back),
        cmocka_unit_test(test_misuse),  cmocka_unit_test(test_depth),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
