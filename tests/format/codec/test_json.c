/* The event reader of codec/json: what RFC 8259 takes and refuses, and where it says that it is. */
#include "harness/harness.h"

#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codec/json.h"

/* ---- a document as a line of its events -------------------------------------------------- */

static void note(swi_buf *line, const swi_json_event *event)
{
    static const char marks[] = "{}[]ks##tfn.";
    sw_error err = {0};
    assert_ok(swi_buf_u8(line, (uint8_t)marks[event->kind], &err), &err);
    if (event->kind == SWI_JSON_KEY || event->kind == SWI_JSON_STRING) {
        assert_ok(swi_buf_append(line, "(", 1, &err), &err);
        assert_ok(swi_buf_append(line, event->text, event->size, &err), &err);
        assert_ok(swi_buf_append(line, ")", 1, &err), &err);
    } else if (event->kind == SWI_JSON_INT) {
        assert_ok(swi_buf_printf(line, &err, "%lld ", (long long)event->integer), &err);
    } else if (event->kind == SWI_JSON_FLOAT) {
        assert_ok(swi_buf_printf(line, &err, "~%.17g ", event->number), &err);
    }
}

static sw_status events_of(const void *data, size_t size, const sw_limits *limits, swi_buf *line,
                           sw_error *err)
{
    swi_json_reader *reader = NULL;
    /* An exact copy, so that a sanitizer sees a read past its end. */
    uint8_t *copy = malloc(size > 0 ? size : 1);
    assert_non_null(copy);
    memcpy(copy, data, size);
    sw_status status = swi_json_reader_make(copy, size, limits, &reader, err);
    swi_json_event event = {.kind = SWI_JSON_NULL};
    while (status == SW_OK && event.kind != SWI_JSON_DONE) {
        status = swi_json_next(reader, &event, err);
        if (status == SW_OK && line != NULL)
            note(line, &event);
    }
    if (status == SW_OK) {
        assert_ok(swi_json_next(reader, &event, err), err);
        assert_int_equal(event.kind, SWI_JSON_DONE);
    }
    swi_json_reader_free(reader);
    free(copy);
    return status;
}

static void assert_events(const char *document, const char *wanted)
{
    swi_buf line = {0};
    sw_error err = {0};
    sw_status status = events_of(document, strlen(document), NULL, &line, &err);
    if (status != SW_OK)
        print_error("document: %s\n", document);
    assert_ok(status, &err);
    assert_ok(swi_buf_u8(&line, 0, &err), &err);
    assert_string_equal((const char *)line.data, wanted);
    swi_buf_free(&line);
}

static void assert_bad_bytes(const void *data, size_t size, uint64_t position, const char *text)
{
    sw_error err = {0};
    sw_status status = events_of(data, size, NULL, NULL, &err);
    if (status != SW_ERR_FORMAT || err.offset_bytes != position)
        print_error("document: %.*s: %s at %llu\n", (int)size, (const char *)data, err.text,
                    (unsigned long long)err.offset_bytes);
    assert_error(&err, SW_ERR_FORMAT, text);
    assert_int_equal(status, SW_ERR_FORMAT);
    assert_true(err.has_offset);
    assert_int_equal(err.offset_bytes, position);
}

static void assert_bad(const char *document, uint64_t position, const char *text)
{
    assert_bad_bytes(document, strlen(document), position, text);
}

/* ---- good documents ---------------------------------------------------------------------- */

static void test_structures(void **state)
{
    (void)state;
    assert_events("{}", "{}.");
    assert_events("[]", "[].");
    assert_events(" \t\r\n[ ] \n", "[].");
    assert_events("null", "n.");
    assert_events("true", "t.");
    assert_events(" false ", "f.");
    assert_events("\"\"", "s().");
    assert_events("{\"a\":1,\"b\":[true,false,null],\"c\":{\"d\":{}}}",
                  "{k(a)#1 k(b)[tfn]k(c){k(d){}}}.");
    assert_events("{ \"a\" : [ 1 , [ ] , { } ] , \"\" : \"\" }", "{k(a)[#1 []{}]k()s()}.");
    /* Duplicates are the caller's. */
    assert_events("{\"a\":1,\"a\":2}", "{k(a)#1 k(a)#2 }.");
}

static void test_numbers(void **state)
{
    (void)state;
    assert_events("[0,-0,1,-1,10]", "[#0 #0 #1 #-1 #10 ].");
    assert_events("9223372036854775807", "#9223372036854775807 .");
    assert_events("-9223372036854775808", "#-9223372036854775808 .");
    assert_events("9223372036854775808", "#~9.2233720368547758e+18 .");
    assert_events("-9223372036854775809", "#~-9.2233720368547758e+18 .");
    assert_events("18446744073709551616", "#~1.8446744073709552e+19 .");
    assert_events("[1.5,-0.25,1e2,1E+2,1e-2,0e0]", "[#~1.5 #~-0.25 #~100 #~100 #~0.01 #~0 ].");
    assert_events("0.1", "#~0.10000000000000001 .");
    assert_events("5e-324", "#~4.9406564584124654e-324 .");
    assert_events("1e-999", "#~0 .");
}

static void test_number_in_a_foreign_locale(void **state)
{
    (void)state;
    /* Whatever the decimal point of the program is, that of JSON is '.'. */
    static const char *const names[] = {"de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8", "C.UTF-8"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (setlocale(LC_ALL, names[i]) != NULL)
            break;
    assert_events("[1.5,2.25e1]", "[#~1.5 #~22.5 ].");
    setlocale(LC_ALL, "C");
}

static void test_strings(void **state)
{
    (void)state;
    assert_events("\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"", "s(\"\\/\b\f\n\r\t).");
    assert_events("\"a\\u0041b\"", "s(aAb).");
    assert_events("\"\\u00e9\\u20AC\"", "s(\xc3\xa9\xe2\x82\xac).");
    assert_events("\"\\ud83d\\ude00\"", "s(\xf0\x9f\x98\x80).");
    assert_events("\"\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80\"",
                  "s(\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80).");
    assert_events("{\"k\\u0065y\":\"\x7f\"}", "{k(key)s(\x7f)}.");
    assert_events("[\"\\u0041\",\"plain\"]", "[s(A)s(plain)].");
    swi_buf line = {0};
    sw_error err = {0};
    assert_ok(events_of("\"a\\u0000b\"", 10, NULL, &line, &err), &err);
    assert_int_equal(line.size, 7);
    assert_memory_equal(line.data, "s(a\0b).", 7);
    swi_buf_free(&line);
}

/* ---- bad documents ----------------------------------------------------------------------- */

static void test_bad_structures(void **state)
{
    (void)state;
    assert_bad("", 0, "expected a value, found the end of the document");
    assert_bad("  ", 2, "expected a value, found the end of the document");
    assert_bad("{", 1, "expected a key, found the end");
    assert_bad("[", 1, "expected a value, found the end");
    assert_bad("}", 0, "expected a value, found '}'");
    assert_bad("{]", 1, "expected a key, found ']'");
    assert_bad("[}", 1, "expected a value, found '}'");
    assert_bad("[1}", 2, "expected ',' or ']', found '}'");
    assert_bad("{\"a\":1]", 6, "expected ',' or '}', found ']'");
    assert_bad("[1,]", 3, "expected a value, found ']'");
    assert_bad("[,1]", 1, "expected a value, found ','");
    assert_bad("{\"a\":1,}", 7, "expected a key, found '}'");
    assert_bad("{,}", 1, "expected a key, found ','");
    assert_bad("[1 2]", 3, "expected ',' or ']', found '2'");
    assert_bad("{\"a\" 1}", 5, "expected ':', found '1'");
    assert_bad("{\"a\"}", 4, "expected ':', found '}'");
    assert_bad("{\"a\":}", 5, "expected a value, found '}'");
    assert_bad("{a:1}", 1, "expected a key, found 'a'");
    assert_bad("{1:1}", 1, "expected a key, found '1'");
    assert_bad("{'a':1}", 1, "expected a key, found '''");
    assert_bad("{} {}", 3, "expected the end of the document, found '{'");
    assert_bad("1,", 1, "expected the end of the document, found ','");
    assert_bad("[1],", 3, "expected the end of the document");
    assert_bad("// c\n1", 0, "expected a value, found '/'");
    assert_bad("[1,/**/2]", 3, "expected a value, found '/'");
    assert_bad("\xef\xbb\xbf{}", 0, "expected a value, found byte 0xef");
    assert_bad("\v1", 0, "found byte 0x0b");
    assert_bad_bytes("{}\0", 3, 2, "expected the end of the document, found byte 0x00");
    assert_bad_bytes("\0", 1, 0, "found byte 0x00");
    assert_bad("True", 0, "expected a value, found 'T'");
    assert_bad("[tru]", 1, "expected a value, found 't'");
    assert_bad("nul", 0, "expected a value, found 'n'");
    assert_bad("nullx", 4, "expected the end of the document, found 'x'");
}

static void test_bad_numbers(void **state)
{
    (void)state;
    assert_bad("01", 1, "found '1'");
    assert_bad("-01", 2, "found '1'");
    assert_bad("-", 1, "expected a digit, found the end");
    assert_bad("[-]", 2, "expected a digit, found ']'");
    assert_bad("+1", 0, "expected a value, found '+'");
    assert_bad(".5", 0, "expected a value, found '.'");
    assert_bad("1.", 2, "expected a digit");
    assert_bad("[1.e3]", 3, "expected a digit, found 'e'");
    assert_bad("1e", 2, "expected a digit");
    assert_bad("[1e+]", 4, "expected a digit, found ']'");
    assert_bad("0x10", 1, "found 'x'");
    assert_bad("1_000", 1, "found '_'");
    assert_bad("1e999", 0, "too large for a double");
    assert_bad("[-1e999]", 1, "too large for a double");
    /* Not JSON, although Python writes them: only where they are asked for. */
    assert_bad("NaN", 0, "expected a value, found 'N'");
    assert_bad("[Infinity]", 1, "expected a value, found 'I'");
    assert_bad("-Infinity", 1, "expected a digit, found 'I'");
}

static void test_bad_strings(void **state)
{
    (void)state;
    assert_bad("\"", 1, "expected the rest of a string, found the end");
    assert_bad("\"ab", 3, "expected the rest of a string, found the end");
    assert_bad("\"a\nb\"", 2, "expected the rest of a string, found byte 0x0a");
    assert_bad_bytes("\"a\0b\"", 5, 2, "found byte 0x00");
    assert_bad("\"\\", 2, "expected an escape, found the end");
    assert_bad("\"\\x41\"", 2, "expected an escape, found 'x'");
    assert_bad("\"\\'\"", 2, "expected an escape, found '''");
    assert_bad_bytes("\"\\\0\"", 4, 2, "expected an escape, found byte 0x00");
    assert_bad("\"\\u12\"", 5, "expected four hexadecimal digits, found '\"'");
    assert_bad("\"\\u12g4\"", 5, "expected four hexadecimal digits, found 'g'");
    assert_bad("\"\\U0041\"", 2, "expected an escape, found 'U'");
    assert_bad("\"a\\ud800\"", 2, "a high surrogate without a low one");
    assert_bad("\"a\\ud800x\\udc00\"", 2, "a high surrogate without a low one");
    assert_bad("\"a\\ud800\\u0041\"", 2, "a high surrogate without a low one");
    assert_bad("\"a\\ud800\\ud800\"", 2, "a high surrogate without a low one");
    assert_bad("\"a\\udc00\"", 2, "a low surrogate without a high one");
    assert_bad("\"ab\xff\"", 3, "not UTF-8");
    assert_bad("\"\xc0\xaf\"", 1, "not UTF-8");
    assert_bad("\"abcdefghi\xe2\x82\"", 10, "not UTF-8");
    assert_bad("\"\xed\xa0\x80\"", 1, "not UTF-8");
    assert_bad("\"\xf4\x90\x80\x80\"", 1, "not UTF-8");
    assert_bad("\"\\n\xe9\"", 3, "not UTF-8");
    assert_bad("{\"\xff\":1}", 2, "not UTF-8");
}

/* ---- bounds ------------------------------------------------------------------------------ */

static void test_depth(void **state)
{
    (void)state;
    enum { DEPTH = 512 };
    char text[2 * DEPTH + 2];
    memset(text, '[', DEPTH);
    memset(text + DEPTH, ']', DEPTH);
    sw_error err = {0};
    assert_ok(events_of(text, 2 * (size_t)DEPTH, NULL, NULL, &err), &err);

    memset(text, '[', DEPTH + 1);
    assert_int_equal(events_of(text, DEPTH + 1, NULL, NULL, &err), SW_ERR_LIMIT);
    assert_error(&err, SW_ERR_LIMIT, "nested deeper than 512 containers");
    assert_int_equal(err.offset_bytes, DEPTH);

    const sw_limits three = {.depth = 3};
    static const char mixed[] = "[{\"a\":[{}]}]";
    assert_int_equal(events_of(mixed, strlen(mixed), &three, NULL, &err), SW_ERR_LIMIT);
    assert_int_equal(err.offset_bytes, 7);
    const sw_limits four = {.depth = 4};
    swi_buf line = {0};
    assert_ok(events_of(mixed, strlen(mixed), &four, &line, &err), &err);
    assert_int_equal(line.size, strlen("[{k(a)[{}]}]."));
    assert_memory_equal(line.data, "[{k(a)[{}]}].", line.size);
    swi_buf_free(&line);
}

static void test_long_number(void **state)
{
    (void)state;
    char digits[1100];
    memset(digits, '9', sizeof digits);
    sw_error err = {0};
    assert_int_equal(events_of(digits, sizeof digits, NULL, NULL, &err), SW_ERR_LIMIT);
    assert_error(&err, SW_ERR_LIMIT, "a number of 1100 characters");
    memset(digits, '0', sizeof digits);
    digits[1] = '.';
    assert_ok(events_of(digits, 1024, NULL, NULL, &err), &err);
}

/* Every prefix of a document is an error at its end or before, and nothing else. */
static void test_every_prefix(void **state)
{
    (void)state;
    static const char text[] = "{\"a\\u00e9\xc3\xa9\": [1, -2.5e-3, true, false, null, {}, []],"
                               " \"b\": {\"\\ud83d\\ude00\": \"\\n\"}}";
    sw_error err = {0};
    assert_ok(events_of(text, sizeof text - 1, NULL, NULL, &err), &err);
    for (size_t size = 0; size < sizeof text - 1; size++) {
        assert_int_equal(events_of(text, size, NULL, NULL, &err), SW_ERR_FORMAT);
        assert_true(err.has_offset && err.offset_bytes <= size);
    }
}

static void test_every_changed_byte(void **state)
{
    (void)state;
    static const char text[] = "{\"a\\u00e9\":[1,-2.5e-3,true,null,{}],\"b\":\"\xc3\xa9\"}";
    char changed[sizeof text];
    for (size_t i = 0; i < sizeof text - 1; i++)
        for (int byte = 0; byte < 256; byte++) {
            memcpy(changed, text, sizeof text);
            changed[i] = (char)byte;
            sw_error err = {0};
            sw_status status = events_of(changed, sizeof text - 1, NULL, NULL, &err);
            assert_true(status == SW_OK || status == SW_ERR_FORMAT);
            assert_true(status == SW_OK || err.offset_bytes <= sizeof text - 1);
        }
}

/* ---- the other calls --------------------------------------------------------------------- */

static void test_skip(void **state)
{
    (void)state;
    static const char text[] = "{\"a\":{\"x\":[[1],{}]},\"b\":2,\"c\":[3,[4]],\"d\":5}";
    swi_json_reader *reader = NULL;
    swi_json_event event;
    sw_error err = {0};
    assert_ok(swi_json_reader_make(text, sizeof text - 1, NULL, &reader, &err), &err);
    assert_ok(swi_json_next(reader, &event, &err), &err);
    for (const char *key = "abc"; *key != '\0'; key++) {
        assert_ok(swi_json_next(reader, &event, &err), &err);
        assert_int_equal(event.kind, SWI_JSON_KEY);
        assert_int_equal(event.text[0], *key);
        assert_ok(swi_json_skip(reader, &err), &err);
    }
    assert_ok(swi_json_next(reader, &event, &err), &err);
    assert_int_equal(event.offset_bytes, 38);
    assert_ok(swi_json_next(reader, &event, &err), &err);
    assert_int_equal(event.kind, SWI_JSON_INT);
    assert_int_equal(event.integer, 5);
    assert_int_equal(event.offset_bytes, 42);
    swi_json_reader_free(reader);
}

static void test_skip_of_a_bad_value(void **state)
{
    (void)state;
    static const char text[] = "{\"a\":[1,[2,}]}";
    swi_json_reader *reader = NULL;
    swi_json_event event;
    sw_error err = {0};
    assert_ok(swi_json_reader_make(text, sizeof text - 1, NULL, &reader, &err), &err);
    assert_ok(swi_json_next(reader, &event, &err), &err);
    assert_ok(swi_json_next(reader, &event, &err), &err);
    assert_int_equal(swi_json_skip(reader, &err), SW_ERR_FORMAT);
    assert_int_equal(err.offset_bytes, 11);
    swi_json_reader_free(reader);
}

static void test_nonfinite(void **state)
{
    (void)state;
    static const char text[] = "[NaN, Infinity,-Infinity, -1]";
    swi_json_reader *reader = NULL;
    swi_json_event event;
    sw_error err = {0};
    assert_ok(swi_json_reader_make(text, sizeof text - 1, NULL, &reader, &err), &err);
    swi_json_allow_nonfinite(reader);
    double got[3];
    assert_ok(swi_json_next(reader, &event, &err), &err);
    for (int i = 0; i < 3; i++) {
        assert_ok(swi_json_next(reader, &event, &err), &err);
        assert_int_equal(event.kind, SWI_JSON_FLOAT);
        got[i] = event.number;
    }
    assert_true(isnan(got[0]));
    assert_true(isinf(got[1]) && got[1] > 0);
    assert_true(isinf(got[2]) && got[2] < 0);
    assert_ok(swi_json_next(reader, &event, &err), &err);
    assert_int_equal(event.integer, -1);
    swi_json_reader_free(reader);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_structures),
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_number_in_a_foreign_locale),
        cmocka_unit_test(test_strings),
        cmocka_unit_test(test_bad_structures),
        cmocka_unit_test(test_bad_numbers),
        cmocka_unit_test(test_bad_strings),
        cmocka_unit_test(test_depth),
        cmocka_unit_test(test_long_number),
        cmocka_unit_test(test_every_prefix),
        cmocka_unit_test(test_every_changed_byte),
        cmocka_unit_test(test_skip),
        cmocka_unit_test(test_skip_of_a_bad_value),
        cmocka_unit_test(test_nonfinite),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
