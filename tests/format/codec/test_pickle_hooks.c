/* Constructor hooks: what they are given, what takes the object's place, what is reused. */
#include "harness/harness.h"

#include <stdio.h>

#include "codec/pickle.h"
#include "format/codec/pickle_text.h"

typedef struct seen {
    int64_t sums[8]; /* of each Size made */
    size_t sizes;
    size_t chunks;
    size_t kept;
    sw_value_graph *graph;
} seen;

static sw_status make_size(void *ctx, sw_value_graph *g, sw_value args, sw_value *out,
                           sw_error *err)
{
    seen *s = ctx;
    sw_value tuple, item;
    int64_t v, sum = 0;
    if (!sw_value_item(g, args, 0, &tuple))
        return swi_fail(err, SW_ERR_FORMAT, "a Size of nothing");
    for (size_t i = 0; sw_value_item(g, tuple, i, &item); i++)
        sum += sw_value_int(g, item, &v) ? v : 0;
    swi_graph_drop(g, tuple);
    s->sums[s->sizes % 8] = sum;
    *out = swi_value_of_record(s->sizes++);
    return SW_OK;
}

static sw_status build_chunk(void *ctx, sw_value_graph *g, sw_value object, sw_value state,
                             sw_value *out, sw_error *err)
{
    seen *s = ctx;
    sw_value offsets;
    uint64_t payload;
    if (sw_value_get_kind(g, object) != SW_VALUE_OBJECT ||
        !swi_value_get(g, state, "offsets", &offsets) || !swi_value_record(offsets, &payload))
        return swi_fail(err, SW_ERR_FORMAT, "a Chunk without offsets");
    *out = swi_value_of_record(100 + s->chunks++);
    return SW_OK;
}

/* A class that is seen when it is made and again when it is built. */
static sw_status make_both(void *ctx, sw_value_graph *g, sw_value args, sw_value *out,
                           sw_error *err)
{
    (void)ctx;
    (void)g;
    (void)args;
    (void)err;
    *out = swi_value_of_record(7);
    return SW_OK;
}

static sw_status build_both(void *ctx, sw_value_graph *g, sw_value object, sw_value state,
                            sw_value *out, sw_error *err)
{
    uint64_t payload = 0;
    (void)ctx;
    (void)err;
    assert_true(swi_value_record(object, &payload) && payload == 7);
    assert_int_equal(sw_value_get_kind(g, state), SW_VALUE_DICT);
    *out = swi_value_of_record(8);
    return SW_OK;
}

/* Keeps what it is given: nothing may be reused. */
static sw_status build_keep(void *ctx, sw_value_graph *g, sw_value object, sw_value state,
                            sw_value *out, sw_error *err)
{
    (void)g;
    (void)object;
    (void)err;
    ((seen *)ctx)->kept++;
    *out = state;
    return SW_OK;
}

static const swi_pickle_hook hooks[] = {
    {"torch", "Size", make_size, NULL, NULL},
    {NULL, "Chunk", NULL, build_chunk, NULL},
    {"m", "Both", make_both, build_both, NULL},
    {"m", "Keep", NULL, build_keep, NULL},
};

static sw_status run(const char *pickle, seen *s, sw_value *root, sw_error *err)
{
    const swi_pickle_options options = {
        .hooks = hooks, .hook_count = sizeof hooks / sizeof hooks[0], .hook_ctx = s};
    swi_buf bytes = {0};
    swi_pickle_unsafe unsafe;
    *s = (seen){0};
    *err = (sw_error){0};
    pickle_assemble(pickle, &bytes);
    swi_cursor cursor = swi_cursor_make(bytes.data, bytes.size);
    sw_error made = {0};
    assert_ok(swi_graph_make(NULL, &s->graph, &made), &made);
    sw_status status = swi_pickle_read(&cursor, &options, s->graph, root, &unsafe, err);
    swi_buf_free(&bytes);
    return status;
}

static void check_shows(const char *pickle, const char *expected)
{
    seen s;
    sw_value root;
    sw_error err;
    char *text = NULL;
    assert_ok(run(pickle, &s, &root, &err), &err);
    assert_ok(sw_value_text(s.graph, root, 1000, &text, &err), &err);
    assert_string_equal(text, expected);
    free(text);
    sw_value_graph_free(s.graph);
}

#define SIZE_OF(a, b)                                                                              \
    "BININT1 " a " ; BININT1 " b " ; TUPLE2 ; MEMOIZE ; TUPLE1 ; MEMOIZE ; REDUCE ; "

static void test_objects_become_records(void **state)
{
    (void)state;
    check_shows("PROTO 4 ; GLOBAL torch Size ; MEMOIZE ; " SIZE_OF("3", "4") "MEMOIZE ; STOP",
                "<record 0>");
    check_shows(
        "PROTO 4 ; GLOBAL any Chunk ; EMPTY_TUPLE ; NEWOBJ ; MEMOIZE ; EMPTY_DICT ; MEMOIZE ; "
        "BINUNICODE offsets ; GLOBAL torch Size ; " SIZE_OF(
            "3", "4") "SETITEM ; BUILD ; BINGET 0 ; TUPLE2 ; STOP",
        "(<record 100>, <record 100>)");
    check_shows("PROTO 4 ; GLOBAL m Both ; EMPTY_TUPLE ; NEWOBJ ; MEMOIZE ; EMPTY_DICT ; BUILD ; "
                "BINGET 0 ; TUPLE2 ; STOP",
                "(<record 8>, <record 8>)");
    check_shows("PROTO 2 ; MARK ; GLOBAL m Both ; OBJ ; STOP", "<record 7>");
    check_shows("PROTO 4 ; GLOBAL other Size ; EMPTY_TUPLE ; REDUCE ; STOP", "<other.Size()>");
}

static void test_nested_objects_find_their_hooks(void **state)
{
    (void)state;
    /* one is made, another is made and built inside it, then the first is built */
    check_shows(
        "PROTO 4 ; GLOBAL m Both ; EMPTY_TUPLE ; NEWOBJ ; EMPTY_DICT ; NONE ; GLOBAL m Both ; "
        "EMPTY_TUPLE ; NEWOBJ ; EMPTY_DICT ; BUILD ; SETITEM ; BUILD ; STOP",
        "<record 8>");
}

static void test_what_a_hook_keeps_is_kept(void **state)
{
    (void)state;
    check_shows("PROTO 4 ; GLOBAL m Keep ; EMPTY_TUPLE ; NEWOBJ ; MEMOIZE ; EMPTY_DICT ; MEMOIZE ; "
                "INT 1 ; INT 2 ; SETITEM ; BUILD ; EMPTY_DICT ; BINGET 1 ; TUPLE3 ; STOP",
                "({1: 2}, {}, {1: 2})");
}

static void check_fails(const char *pickle, const char *clause, const char *says)
{
    seen s;
    sw_value root;
    sw_error err;
    (void)!run(pickle, &s, &root, &err);
    assert_error(&err, SW_ERR_FORMAT, says);
    assert_string_equal(err.clause, clause);
    assert_true(err.has_offset);
    sw_value_graph_free(s.graph);
}

static void test_references_to_folded_parts_are_refused(void **state)
{
    (void)state;
    check_fails("PROTO 4 ; GLOBAL torch Size ; " SIZE_OF("3", "4") "POP ; BINGET 0 ; STOP",
                "PKL-20", "memo 0 is part of an object that is already folded");
    check_fails("PROTO 4 ; GLOBAL torch Size ; " SIZE_OF("3", "4") "POP ; BINGET 1 ; STOP",
                "PKL-20", "memo 1 is part");
    check_fails(
        "PROTO 4 ; GLOBAL m Both ; EMPTY_TUPLE ; NEWOBJ ; EMPTY_DICT ; MEMOIZE ; BUILD ; POP ; "
        "BINGET 0 ; STOP",
        "PKL-20", "memo 0 is part");
}

static void test_shared_parts_survive(void **state)
{
    (void)state;
    /* the inner tuple was referred to before the hook dropped it */
    check_shows("PROTO 4 ; GLOBAL torch Size ; BININT1 3 ; BININT1 4 ; TUPLE2 ; MEMOIZE ; TUPLE1 ; "
                "BINGET 0 ; POP ; REDUCE ; BINGET 0 ; TUPLE2 ; STOP",
                "(<record 0>, (3, 4))");
    /* DUP is a second way too */
    check_shows("PROTO 4 ; BININT1 3 ; TUPLE1 ; DUP ; GLOBAL torch Size ; MEMOIZE ; POP ; TUPLE1 ; "
                "BINPUT 9 ; POP ; BINGET 0 ; BINGET 9 ; REDUCE ; TUPLE2 ; STOP",
                "((3,), <record 0>)");
    /* the state dict of one object is an element of another value as well */
    check_shows(
        "PROTO 4 ; EMPTY_LIST ; GLOBAL m Both ; EMPTY_TUPLE ; NEWOBJ ; EMPTY_DICT ; MEMOIZE ; "
        "NONE ; BINGET 0 ; SETITEM ; BUILD ; APPEND ; BINGET 0 ; TUPLE2 ; STOP",
        "([<record 8>], {None: ...})");
}

static void test_failures_of_hooks_have_a_position(void **state)
{
    seen s;
    sw_value root;
    sw_error err;
    (void)state;
    (void)!run("GLOBAL torch Size ; EMPTY_TUPLE ; REDUCE ; STOP", &s, &root, &err);
    assert_error(&err, SW_ERR_FORMAT, "a Size of nothing");
    assert_true(err.has_offset && err.offset_bytes == 13);
    sw_value_graph_free(s.graph);
}

/* A hundred thousand folded objects take no more memory than a hundred. */
static void test_memory_is_reused(void **state)
{
    static const char one[] =
        "GLOBAL any Chunk ; EMPTY_TUPLE ; NEWOBJ ; MEMOIZE ; EMPTY_DICT ; MEMOIZE ; "
        "MARK ; BINUNICODE offsets ; GLOBAL torch Size ; BININT1 3 ; BININT1 4 ; "
        "TUPLE2 ; MEMOIZE ; TUPLE1 ; MEMOIZE ; REDUCE ; MEMOIZE ; BINUNICODE x ; "
        "NONE ; SETITEMS ; BUILD ; POP";
    uint64_t memory[2] = {0};
    (void)state;
    for (int k = 0; k < 2; k++) {
        seen s = {0};
        sw_value root;
        sw_error err = {0};
        swi_buf part = {0}, bytes = {0};
        pickle_assemble(one, &part);
        for (int i = 0; i < (k == 0 ? 100 : 100000); i++)
            pickle_put(&bytes, part.data, part.size);
        pickle_put(&bytes, "N.", 2);
        const swi_pickle_options options = {.hooks = hooks, .hook_count = 4, .hook_ctx = &s};
        swi_cursor cursor = swi_cursor_make(bytes.data, bytes.size);
        assert_ok(swi_graph_make(NULL, &s.graph, &err), &err);
        assert_ok(swi_pickle_read(&cursor, &options, s.graph, &root, NULL, &err), &err);
        assert_int_equal(s.chunks, k == 0 ? 100 : 100000);
        memory[k] = swi_graph_memory(s.graph);
        sw_value_graph_free(s.graph);
        swi_buf_free(&bytes);
        swi_buf_free(&part);
    }
    assert_int_equal(memory[0], memory[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_objects_become_records),
        cmocka_unit_test(test_nested_objects_find_their_hooks),
        cmocka_unit_test(test_what_a_hook_keeps_is_kept),
        cmocka_unit_test(test_references_to_folded_parts_are_refused),
        cmocka_unit_test(test_shared_parts_survive),
        cmocka_unit_test(test_failures_of_hooks_have_a_position),
        cmocka_unit_test(test_memory_is_reused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
