/* Graphs to pickles: bytes as Python's pickler has them, what is shared, cycles, what is refused.
 */
#include <stdio.h>

#include "format/codec/pickle_roundtrip.h"
#include "format/codec/pickle_text.h"

#define must(call) assert_ok((call), &err)

typedef struct sample {
    sw_value_graph *g;
    sw_value v;
} sample;

static sample read_text(const char *pickle)
{
    swi_buf bytes = {0};
    sw_error err = {0};
    sample s;
    pickle_assemble(pickle, &bytes);
    swi_cursor cursor = swi_cursor_make(bytes.data, bytes.size);
    must(swi_graph_make(NULL, &s.g, &err));
    must(swi_pickle_read(&cursor, NULL, s.g, &s.v, NULL, &err));
    swi_buf_free(&bytes);
    return s;
}

static void check_bytes(const sample *s, int protocol, const char *expected)
{
    swi_buf out = {0}, bytes = {0};
    sw_error err = {0};
    must(emit_pickle(&out, protocol, s->g, s->v, &err));
    pickle_assemble(expected, &bytes);
    assert_int_equal(out.size, bytes.size);
    assert_memory_equal(out.data, bytes.data, bytes.size);
    swi_buf_free(&out);
    swi_buf_free(&bytes);
}

static void test_bytes_are_pythons(void **state)
{
    static const struct {
        const char *pickle, *two, *four;
    } cases[] = {
        {"PROTO 4 ; EMPTY_DICT ; MARK ; BINUNICODE a ; NONE ; BINUNICODE b ; BINUNICODE a ; "
         "SETITEMS ; STOP",
         "PROTO 2 ; EMPTY_DICT ; BINPUT 0 ; MARK ; BINUNICODE a ; BINPUT 1 ; NONE ; BINUNICODE b ; "
         "BINPUT 2 ; BINGET 1 ; SETITEMS ; STOP",
         "PROTO 4 ; EMPTY_DICT ; MEMOIZE ; MARK ; SHORT_BINUNICODE a ; MEMOIZE ; NONE ; "
         "SHORT_BINUNICODE b ; MEMOIZE ; BINGET 1 ; SETITEMS ; STOP"},
        {"PROTO 4 ; EMPTY_LIST ; BININT1 1 ; APPEND ; STOP",
         "PROTO 2 ; EMPTY_LIST ; BINPUT 0 ; BININT1 1 ; APPEND ; STOP",
         "PROTO 4 ; EMPTY_LIST ; MEMOIZE ; BININT1 1 ; APPEND ; STOP"},
        {"PROTO 4 ; SHORT_BINBYTES '\\xffa' ; STOP",
         "PROTO 2 ; GLOBAL _codecs encode ; BINPUT 0 ; BINUNICODE '\\xc3\\xbfa' ; "
         "BINUNICODE latin1 ; TUPLE2 ; REDUCE ; BINPUT 1 ; STOP",
         "PROTO 4 ; SHORT_BINBYTES '\\xffa' ; MEMOIZE ; STOP"},
        {"PROTO 4 ; GLOBAL collections OrderedDict ; EMPTY_TUPLE ; REDUCE ; BININT1 1 ; "
         "BININT1 2 ; SETITEM ; STOP",
         "PROTO 2 ; GLOBAL collections OrderedDict ; BINPUT 0 ; EMPTY_TUPLE ; REDUCE ; BINPUT 1 ; "
         "BININT1 1 ; BININT1 2 ; SETITEM ; STOP",
         "PROTO 4 ; SHORT_BINUNICODE collections ; SHORT_BINUNICODE OrderedDict ; STACK_GLOBAL ; "
         "MEMOIZE ; EMPTY_TUPLE ; REDUCE ; MEMOIZE ; BININT1 1 ; BININT1 2 ; SETITEM ; STOP"},
        {"PROTO 4 ; EMPTY_SET ; MARK ; BININT1 1 ; ADDITEMS ; STOP",
         "PROTO 2 ; GLOBAL __builtin__ set ; BINPUT 0 ; EMPTY_LIST ; BININT1 1 ; APPEND ; TUPLE1 ; "
         "REDUCE ; BINPUT 1 ; STOP",
         "PROTO 4 ; EMPTY_SET ; MEMOIZE ; MARK ; BININT1 1 ; ADDITEMS ; STOP"},
        {"PROTO 4 ; GLOBAL m A.B ; STOP",
         "PROTO 2 ; GLOBAL __builtin__ getattr ; BINPUT 0 ; GLOBAL m A ; BINUNICODE B ; TUPLE2 ; "
         "REDUCE ; BINPUT 1 ; STOP",
         "PROTO 4 ; SHORT_BINUNICODE m ; SHORT_BINUNICODE A.B ; STACK_GLOBAL ; MEMOIZE ; STOP"},
        {"PROTO 4 ; GLOBAL m C ; EMPTY_TUPLE ; NEWOBJ ; EMPTY_DICT ; BUILD ; STOP",
         "PROTO 2 ; GLOBAL m C ; BINPUT 0 ; EMPTY_TUPLE ; NEWOBJ ; BINPUT 1 ; EMPTY_DICT ; "
         "BINPUT 2 ; BUILD ; STOP",
         "PROTO 4 ; SHORT_BINUNICODE m ; SHORT_BINUNICODE C ; STACK_GLOBAL ; MEMOIZE ; "
         "EMPTY_TUPLE ; NEWOBJ ; MEMOIZE ; EMPTY_DICT ; MEMOIZE ; BUILD ; STOP"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        sample s = read_text(cases[i].pickle);
        check_bytes(&s, 2, cases[i].two);
        check_bytes(&s, 4, cases[i].four);
        check_roundtrip(s.g, s.v);
        sw_value_graph_free(s.g);
    }
}

/* What is inside itself, through each kind of container. */
static void test_cycles(void **state)
{
    static const char *const cases[] = {
        /* a list in itself */
        "PROTO 4 ; EMPTY_LIST ; MEMOIZE ; BINGET 0 ; APPEND ; STOP",
        /* a dict in itself, and in an OrderedDict in it */
        "PROTO 4 ; EMPTY_DICT ; MEMOIZE ; BININT1 1 ; GLOBAL collections OrderedDict ; EMPTY_TUPLE "
        "; REDUCE ; BININT1 2 ; BINGET 0 ; SETITEM ; SETITEM ; STOP",
        /* a tuple of one, of four, through a list */
        "PROTO 4 ; EMPTY_LIST ; MEMOIZE ; BINGET 0 ; TUPLE1 ; MEMOIZE ; APPEND ; POP ; BINGET 1 ; "
        "STOP",
        "PROTO 4 ; EMPTY_LIST ; MEMOIZE ; MARK ; NONE ; BINGET 0 ; NONE ; NONE ; TUPLE ; MEMOIZE ; "
        "APPEND ; POP ; BINGET 1 ; STOP",
        /* an object among its own arguments, with state and items */
        "PROTO 4 ; GLOBAL m C ; EMPTY_LIST ; MEMOIZE ; TUPLE1 ; REDUCE ; MEMOIZE ; EMPTY_DICT ; "
        "MEMOIZE ; NONE ; BINGET 1 ; SETITEM ; BUILD ; BININT1 1 ; APPEND ; POP ; BINGET 0 ; "
        "BINGET 1 ; APPEND ; POP ; BINGET 1 ; STOP",
        /* a set and a frozen set that hold an object whose state is they */
        "PROTO 4 ; EMPTY_SET ; MEMOIZE ; MARK ; GLOBAL m C ; EMPTY_TUPLE ; NEWOBJ ; BINGET 0 ; "
        "BUILD ; ADDITEMS ; STOP",
        "PROTO 4 ; GLOBAL m C ; EMPTY_TUPLE ; NEWOBJ ; MEMOIZE ; MARK ; BINGET 0 ; NONE ; "
        "FROZENSET "
        "; MEMOIZE ; BUILD ; POP ; BINGET 1 ; STOP",
        /* a tuple that is a key of a dict that is the state of an object in the tuple */
        "PROTO 4 ; GLOBAL m C ; EMPTY_TUPLE ; NEWOBJ ; MEMOIZE ; BININT1 7 ; TUPLE2 ; MEMOIZE ; "
        "POP "
        "; BINGET 0 ; EMPTY_DICT ; BINGET 1 ; BININT1 3 ; SETITEM ; BUILD ; POP ; BINGET 1 ; STOP",
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        sample s = read_text(cases[i]);
        check_roundtrip(s.g, s.v);
        sw_value_graph_free(s.g);
    }
}

static void test_keys_are_found_in_a_copy(void **state)
{
    sample s = read_text("PROTO 4 ; EMPTY_DICT ; MARK ; BININT1 1 ; BINUNICODE x ; TUPLE2 ; "
                         "BININT1 5 ; BININT1 2 ; BININT1 6 ; SETITEMS ; STOP");
    sw_error err = {0};
    sw_value_graph *to;
    sw_value copy, pair[2], key, found;
    int64_t number = 0;
    (void)state;
    must(swi_graph_make(NULL, &to, &err));
    must(swi_graph_copy(to, s.g, s.v, NULL, NULL, &copy, &err));
    must(swi_graph_int(to, 1, &pair[0], &err));
    must(swi_graph_text(to, SW_VALUE_STR, "x", 1, &pair[1], &err));
    must(swi_graph_sequence(to, SW_VALUE_TUPLE, pair, 2, &key, &err));
    assert_true(swi_dict_find(to, copy, key, &found));
    assert_true(sw_value_int(to, found, &number) && number == 5);
    sw_value_graph_free(to);
    sw_value_graph_free(s.g);
}

/* Many elements go in batches; a batch of one needs no mark. */
static void test_batches(void **state)
{
    (void)state;
    for (size_t count = 999; count <= 2001; count += count % 1000 == 1 ? 998 : 1) {
        sample s = {0};
        sw_error err = {0};
        sw_value pair[2], items[2];
        must(swi_graph_make(NULL, &s.g, &err));
        must(swi_graph_sequence(s.g, SW_VALUE_LIST, NULL, 0, &items[0], &err));
        must(swi_graph_dict(s.g, &items[1], &err));
        for (size_t i = 0; i < count; i++) {
            must(swi_graph_int(s.g, (int64_t)i, &pair[0], &err));
            pair[1] = pair[0];
            must(swi_graph_append(s.g, items[0], pair, 1, &err));
            must(swi_graph_set_items(s.g, items[1], pair, 1, &err));
        }
        must(swi_graph_sequence(s.g, SW_VALUE_TUPLE, items, 2, &s.v, &err));
        check_roundtrip(s.g, s.v);
        sw_value_graph_free(s.g);
    }
}

static void test_deep_and_shared(void **state)
{
    sample s = {0};
    sw_error err = {0};
    (void)state;
    must(swi_graph_make(NULL, &s.g, &err));
    must(swi_graph_sequence(s.g, SW_VALUE_LIST, NULL, 0, &s.v, &err));
    /* each holds the one below twice: 2^200000 elements if it were a tree */
    for (int i = 0; i < 200000; i++) {
        const sw_value twice[2] = {s.v, s.v};
        must(swi_graph_sequence(s.g, i % 2 ? SW_VALUE_LIST : SW_VALUE_TUPLE, twice, 2, &s.v, &err));
    }
    check_roundtrip(s.g, s.v);
    sw_value_graph_free(s.g);
}

static void test_equal_texts_are_one_memo(void **state)
{
    sample s = {0};
    sw_error err = {0};
    char text[8];
    (void)state;
    /* more texts than the graph's cache holds, then all again: new nodes, and the same bytes */
    must(swi_graph_make(NULL, &s.g, &err));
    must(swi_graph_sequence(s.g, SW_VALUE_LIST, NULL, 0, &s.v, &err));
    for (int i = 0; i < 20000; i++) {
        sw_value v;
        int size = snprintf(text, sizeof text, "%d", i % 10000);
        must(swi_graph_text(s.g, SW_VALUE_STR, text, (size_t)size, &v, &err));
        must(swi_graph_append(s.g, s.v, &v, 1, &err));
    }
    swi_buf out = {0};
    must(emit_pickle(&out, 2, s.g, s.v, &err));
    const char last[] = "j\x10\x27\0\0e.";
    assert_memory_equal(out.data + out.size - 7, last, 7);
    swi_buf_free(&out);
    check_roundtrip(s.g, s.v);
    sw_value_graph_free(s.g);
}

/* ---- leaves and the map ---------------------------------------------------------------------- */

static sw_status tensor_for_call(void *ctx, const sw_value_graph *from, sw_value v,
                                 sw_value_graph *to, bool *replaced, sw_value *out, sw_error *err)
{
    uint32_t *next = ctx;
    (void)to;
    (void)err;
    if (!swi_value_is_call(from, v, "torch._utils", "_rebuild_tensor_v2"))
        return SW_OK;
    *replaced = true;
    *out = swi_value_of_tensor((*next)++);
    return SW_OK;
}

static void test_map_makes_tensors(void **state)
{
    sample s =
        read_text("PROTO 2 ; MARK ; GLOBAL torch._utils _rebuild_tensor_v2 ; BINPUT 0 ; NONE "
                  "; BINPERSID ; TUPLE1 ; REDUCE ; BINPUT 1 ; BINGET 1 ; BINGET 0 ; "
                  "EMPTY_TUPLE ; REDUCE ; TUPLE ; STOP");
    sw_error err = {0};
    sw_value_graph *to;
    sample copy;
    uint32_t next = 4;
    char *shown = NULL;
    (void)state;
    must(swi_graph_make(NULL, &to, &err));
    must(swi_graph_copy(to, s.g, s.v, tensor_for_call, &next, &copy.v, &err));
    copy.g = to;
    must(sw_value_text(to, copy.v, 200, &shown, &err));
    assert_string_equal(shown, "(<tensor 4>, <tensor 4>, <tensor 5>)");
    check_bytes(&copy, 2,
                "PROTO 2 ; BININT1 4 ; BINPERSID ; BINPUT 0 ; BINGET 0 ; BININT1 5 ; BINPERSID ; "
                "BINPUT 1 ; TUPLE3 ; BINPUT 2 ; STOP");
    free(shown);
    sw_value_graph_free(to);
    sw_value_graph_free(s.g);
}

static sw_status failing_map(void *ctx, const sw_value_graph *from, sw_value v, sw_value_graph *to,
                             bool *replaced, sw_value *out, sw_error *err)
{
    (void)ctx, (void)to, (void)out;
    *replaced = false;
    if (sw_value_get_kind(from, v) != SW_VALUE_SET)
        return SW_OK;
    return swi_fail(err, SW_ERR_UNSUPPORTED, "no sets here");
}

static void test_refused(void **state)
{
    static const struct {
        const char *pickle, *text;
        int protocol;
    } cases[] = {
        {"PROTO 4 ; NONE ; BINPERSID ; STOP", "a tensor or a part of one cannot be written", 4},
        {"PROTO 4 ; EMPTY_SET ; MEMOIZE ; MARK ; BINGET 0 ; ADDITEMS ; STOP",
         "a value that is part of itself in 64 ways", 2},
        {"PROTO 4 ; EMPTY_SET ; MEMOIZE ; MARK ; BINGET 0 ; TUPLE1 ; ADDITEMS ; STOP",
         "a value that is part of itself in 64 ways", 2},
        {"PROTO 3 ; GLOBAL copy_reg f ; TUPLE1 ; STOP", "protocol 2 has no name for copy_reg.f", 2},
        {"PROTO 3 ; GLOBAL builtins reduce ; TUPLE1 ; STOP",
         "protocol 2 has no name for builtins.reduce", 2},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        sample s = read_text(cases[i].pickle);
        swi_pickle_writer w;
        swi_buf out = {0};
        sw_error err = {0};
        must(swi_pickle_begin(&w, &out, cases[i].protocol, &err));
        assert_int_equal(swi_pickle_emit(&w, s.g, s.v, NULL, NULL, &err), SW_ERR_UNSUPPORTED);
        assert_error(&err, SW_ERR_UNSUPPORTED, cases[i].text);
        swi_buf_free(&out);
        sw_value_graph_free(s.g);
    }
}

static void test_copies_refused(void **state)
{
    sample s = read_text("PROTO 4 ; EMPTY_LIST ; MARK ; EMPTY_SET ; EMPTY_DICT ; EMPTY_LIST ; "
                         "EMPTY_LIST ; APPENDS ; STOP");
    const sw_limits few = {.nodes = 5};
    sw_error err = {0};
    sw_value_graph *to;
    sw_value copy = {77};
    (void)state;
    must(swi_graph_make(&few, &to, &err));
    assert_int_equal(swi_graph_copy(to, s.g, s.v, failing_map, NULL, &copy, &err),
                     SW_ERR_UNSUPPORTED);
    assert_error(&err, SW_ERR_UNSUPPORTED, "no sets here");
    err = (sw_error){0};
    assert_int_equal(swi_graph_copy(to, s.g, s.v, NULL, NULL, &copy, &err), SW_ERR_LIMIT);
    assert_error(&err, SW_ERR_LIMIT, "more than 5 nodes");
    assert_true(copy.bits == 77);
    sw_value_graph_free(to);
    sw_value_graph_free(s.g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bytes_are_pythons),
        cmocka_unit_test(test_cycles),
        cmocka_unit_test(test_keys_are_found_in_a_copy),
        cmocka_unit_test(test_batches),
        cmocka_unit_test(test_deep_and_shared),
        cmocka_unit_test(test_equal_texts_are_one_memo),
        cmocka_unit_test(test_map_makes_tensors),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_copies_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
