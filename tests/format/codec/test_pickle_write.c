/* The emitter: its bytes are those of Python's pickler, and the machine reads them back. */
#include "harness/harness.h"

#include <stdio.h>
#include <string.h>

#include "codec/pickle.h"
#include "format/codec/pickle_text.h"

#define must(call) assert_ok((call), &err)

static void check_bytes(const swi_buf *out, const char *expected)
{
    swi_buf bytes = {0};
    pickle_assemble(expected, &bytes);
    assert_int_equal(out->size, bytes.size);
    assert_memory_equal(out->data, bytes.data, bytes.size);
    swi_buf_free(&bytes);
}

static void test_integers(void **state)
{
    static const struct {
        int64_t v;
        const char *bytes;
    } cases[] = {
        {0, "BININT1 0"},
        {255, "BININT1 255"},
        {256, "BININT2 256"},
        {65535, "BININT2 65535"},
        {65536, "BININT 65536"},
        {-1, "BININT -1"},
        {INT32_MAX, "BININT 0x7fffffff"},
        {INT32_MIN, "BININT -2147483648"},
        {2147483648, "LONG1 '\\x00\\x00\\x00\\x80\\x00'"},
        {-2147483649, "LONG1 '\\xff\\xff\\xff\\x7f\\xff'"},
        {549755813887, "LONG1 '\\xff\\xff\\xff\\xff\\x7f'"},
        {INT64_MAX, "LONG1 '\\xff\\xff\\xff\\xff\\xff\\xff\\xff\\x7f'"},
        {INT64_MIN, "LONG1 '\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x80'"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        swi_pickle_writer w;
        swi_buf out = {0};
        sw_error err = {0};
        char expected[100];
        (void)snprintf(expected, sizeof expected, "PROTO 2 ; %s", cases[i].bytes);
        must(swi_pickle_begin(&w, &out, 2, &err));
        must(swi_pickle_int(&w, cases[i].v, &err));
        check_bytes(&out, expected);
        must(swi_pickle_op(&w, '.', &err));
        sw_value_graph *graph;
        sw_value root;
        int64_t back = 0;
        swi_cursor cursor = swi_cursor_make(out.data, out.size);
        must(swi_graph_make(NULL, &graph, &err));
        must(swi_pickle_read(&cursor, NULL, graph, &root, NULL, &err));
        assert_true(sw_value_int(graph, root, &back) && back == cases[i].v);
        sw_value_graph_free(graph);
        swi_buf_free(&out);
    }
}

static void write_sample(swi_pickle_writer *w, swi_buf *out, int protocol)
{
    sw_error err = {0};
    uint32_t memo = 99;
    must(swi_pickle_begin(w, out, protocol, &err));
    must(swi_pickle_op(w, '(', &err));
    must(swi_pickle_global(w, "builtins", "set", &err));
    must(swi_pickle_put(w, &memo, &err));
    assert_int_equal(memo, 0);
    must(swi_pickle_str(w, "caf\xc3\xa9", 5, &err));
    must(swi_pickle_float(w, 1.5, &err));
    must(swi_pickle_op(w, (char)0x88, &err));
    must(swi_pickle_get(w, memo, &err));
    must(swi_pickle_op(w, 't', &err));
    must(swi_pickle_op(w, '.', &err));
}

static void test_protocols(void **state)
{
    swi_pickle_writer w;
    swi_buf out = {0};
    (void)state;
    write_sample(&w, &out, 2);
    check_bytes(&out, "PROTO 2 ; MARK ; GLOBAL __builtin__ set ; BINPUT 0 ; "
                      "BINUNICODE 'caf\\xc3\\xa9' ; BINFLOAT 1.5 ; NEWTRUE ; BINGET 0 ; TUPLE ; "
                      "STOP");
    out.size = 0;
    write_sample(&w, &out, 4);
    check_bytes(&out, "PROTO 4 ; MARK ; SHORT_BINUNICODE builtins ; SHORT_BINUNICODE set ; "
                      "STACK_GLOBAL ; MEMOIZE ; SHORT_BINUNICODE 'caf\\xc3\\xa9' ; BINFLOAT 1.5 ; "
                      "NEWTRUE ; BINGET 0 ; TUPLE ; STOP");
    swi_buf_free(&out);
}

static void test_long_text_and_many_memos(void **state)
{
    swi_pickle_writer w;
    swi_buf out = {0};
    sw_error err = {0};
    char text[300];
    uint32_t memo = 0;
    (void)state;
    memset(text, 'x', sizeof text);
    must(swi_pickle_begin(&w, &out, 4, &err));
    must(swi_pickle_str(&w, text, sizeof text, &err));
    assert_memory_equal(out.data + 2, "X\x2c\x01\0\0xx", 7);
    out.size = 0;
    must(swi_pickle_begin(&w, &out, 2, &err));
    must(swi_pickle_op(&w, 'N', &err));
    for (int i = 0; i < 258; i++)
        must(swi_pickle_put(&w, &memo, &err));
    assert_int_equal(memo, 257);
    must(swi_pickle_get(&w, 256, &err));
    assert_memory_equal(out.data + out.size - 15, "r\0\1\0\0r\1\1\0\0j\0\1\0\0", 15);
    assert_int_equal(swi_pickle_get(&w, 258, &err), SW_ERR_ARG);
    assert_error(&err, SW_ERR_ARG, "memo 258 is not set");
    swi_buf_free(&out);
}

static void test_refused(void **state)
{
    swi_pickle_writer w;
    swi_buf out = {0};
    sw_error err = {0};
    (void)state;
    assert_int_equal(swi_pickle_begin(&w, &out, 3, &err), SW_ERR_ARG);
    assert_error(&err, SW_ERR_ARG, "protocol 3 cannot be written");
    err = (sw_error){0};
    must(swi_pickle_begin(&w, &out, 2, &err));
    assert_int_equal(swi_pickle_global(&w, "a\nb", "c", &err), SW_ERR_UNSUPPORTED);
    assert_error(&err, SW_ERR_UNSUPPORTED, "line break");
    assert_int_equal(out.size, 2);
    swi_buf_free(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_integers),
        cmocka_unit_test(test_protocols),
        cmocka_unit_test(test_long_text_and_many_memos),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
