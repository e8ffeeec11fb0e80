/* Value graphs: what goes in comes out, keys, drops, limits, and the text for people. */
#include "harness/harness.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/value_node.h"

static sw_value_graph *make(uint64_t nodes)
{
    const sw_limits limits = {.nodes = nodes};
    sw_value_graph *g = NULL;
    sw_error err = {0};
    assert_ok(swi_graph_make(&limits, &g, &err), &err);
    return g;
}

static sw_value integer(sw_value_graph *g, int64_t v)
{
    sw_error err = {0};
    sw_value out;
    assert_ok(swi_graph_int(g, v, &out, &err), &err);
    return out;
}

static sw_value real(sw_value_graph *g, double v)
{
    sw_error err = {0};
    sw_value out;
    assert_ok(swi_graph_float(g, v, &out, &err), &err);
    return out;
}

static sw_value text(sw_value_graph *g, const char *s)
{
    sw_error err = {0};
    sw_value out;
    assert_ok(swi_graph_text(g, SW_VALUE_STR, s, strlen(s), &out, &err), &err);
    return out;
}

static sw_value sequence(sw_value_graph *g, sw_value_kind kind, const sw_value *items, size_t n)
{
    sw_error err = {0};
    sw_value out;
    assert_ok(swi_graph_sequence(g, kind, items, n, &out, &err), &err);
    return out;
}

static sw_value dict(sw_value_graph *g)
{
    sw_error err = {0};
    sw_value out;
    assert_ok(swi_graph_dict(g, &out, &err), &err);
    return out;
}

static void set(sw_value_graph *g, sw_value d, sw_value key, sw_value value)
{
    sw_error err = {0};
    const sw_value pair[2] = {key, value};
    assert_ok(swi_graph_set_items(g, d, pair, 1, &err), &err);
}

static void check_shows(const sw_value_graph *g, sw_value v, const char *expected)
{
    sw_error err = {0};
    char *shown = NULL;
    assert_ok(sw_value_text(g, v, 4096, &shown, &err), &err);
    assert_string_equal(shown, expected);
    free(shown);
}

/* ---- scalars ------------------------------------------------------------------------------------
 */

static void test_integers(void **state)
{
    static const int64_t cases[] = {0,
                                    1,
                                    -1,
                                    ((int64_t)1 << 58) - 1,
                                    (int64_t)1 << 58,
                                    -((int64_t)1 << 58),
                                    -((int64_t)1 << 58) - 1,
                                    INT64_MAX,
                                    INT64_MIN};
    sw_value_graph *g = make(0);
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int64_t back = 12345;
        sw_value v = integer(g, cases[i]);
        assert_int_equal(sw_value_get_kind(g, v), SW_VALUE_INT);
        assert_true(sw_value_int(g, v, &back));
        assert_true(back == cases[i]);
    }
    double untouched = 5;
    assert_false(sw_value_float(g, integer(g, 1), &untouched));
    assert_true(untouched > 4.9);
    sw_value_graph_free(g);
}

static void test_big_integers_become_small(void **state)
{
    sw_value_graph *g = make(0);
    sw_error err = {0};
    sw_value v;
    int64_t back = 0;
    const uint8_t *data;
    size_t size;
    (void)state;
    assert_ok(swi_graph_bigint(g, (const uint8_t *)"", 0, &v, &err), &err);
    assert_true(sw_value_int(g, v, &back) && back == 0);
    assert_ok(swi_graph_bigint(g, (const uint8_t *)"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\xff", 10,
                               &v, &err),
              &err);
    assert_true(sw_value_int(g, v, &back) && back == -2);
    assert_ok(swi_graph_bigint(g, (const uint8_t *)"\0\0\0\0\0\0\0\x80\0\0\0", 11, &v, &err), &err);
    assert_int_equal(sw_value_get_kind(g, v), SW_VALUE_BIGINT);
    assert_true(sw_value_bytes(g, v, &data, &size));
    assert_int_equal(size, 9);
    check_shows(g, v, "0x8000000000000000");
    sw_value_graph_free(g);
}

static void test_records(void **state)
{
    sw_value_graph *g = make(0);
    uint64_t payload = 0;
    (void)state;
    sw_value v = swi_value_of_record(((uint64_t)1 << 56) - 1);
    assert_int_equal(sw_value_get_kind(g, v), SW_VALUE_RECORD);
    assert_true(swi_value_record(v, &payload));
    assert_true(payload == ((uint64_t)1 << 56) - 1);
    assert_false(swi_value_record(swi_value_none(), &payload));
    sw_value_graph_free(g);
}

static void test_tensors(void **state)
{
    sw_value_graph *g = make(0);
    uint32_t index = 5;
    (void)state;
    sw_value v = swi_value_of_tensor(UINT32_MAX);
    assert_int_equal(sw_value_get_kind(g, v), SW_VALUE_TENSOR);
    assert_true(sw_value_tensor(g, v, &index));
    assert_true(index == UINT32_MAX);
    check_shows(g, v, "<tensor 4294967295>");
    assert_false(sw_value_tensor(g, integer(g, 3), &index));
    assert_true(index == UINT32_MAX);
    assert_false(swi_value_record(v, &(uint64_t){0}));
    sw_value_graph_free(g);
}

/* ---- containers
 * ----------------------------------------------------------------------------------- */

static void test_lists_grow(void **state)
{
    sw_value_graph *g = make(0);
    sw_error err = {0};
    sw_value item;
    int64_t v;
    (void)state;
    sw_value list = sequence(g, SW_VALUE_LIST, NULL, 0);
    for (int64_t i = 0; i < 100000; i++) {
        item = integer(g, i);
        assert_ok(swi_graph_append(g, list, &item, 1, &err), &err);
    }
    assert_int_equal(sw_value_size(g, list), 100000);
    for (int64_t i = 0; i < 100000; i++)
        assert_true(sw_value_item(g, list, (size_t)i, &item) && sw_value_int(g, item, &v) &&
                    v == i);
    assert_false(sw_value_item(g, list, 100000, &item));
    assert_int_equal(swi_graph_append(g, integer(g, 1), &item, 1, &err), SW_ERR_ARG);
    sw_value_graph_free(g);
}

static void test_keys_are_pythons(void **state)
{
    sw_value_graph *g = make(0);
    sw_error err = {0};
    (void)state;
    sw_value d = dict(g);
    set(g, d, integer(g, 1), text(g, "a"));
    set(g, d, text(g, "1"), text(g, "b"));
    set(g, d, real(g, 1.0), text(g, "c"));
    set(g, d, swi_value_of_bool(true), text(g, "d"));
    const sw_value pair[2] = {integer(g, 2), text(g, "x")};
    const sw_value other[2] = {real(g, 2.0), text(g, "x")};
    const sw_value third[2] = {integer(g, 2), text(g, "y")};
    sw_value nested = sequence(g, SW_VALUE_TUPLE, pair, 2);
    sw_value again = sequence(g, SW_VALUE_TUPLE, other, 2);
    set(g, d, sequence(g, SW_VALUE_TUPLE, &nested, 1), text(g, "e"));
    set(g, d, sequence(g, SW_VALUE_TUPLE, &again, 1), text(g, "f"));
    set(g, d, sequence(g, SW_VALUE_TUPLE, third, 2), text(g, "g"));
    sw_value bytes;
    assert_ok(swi_graph_text(g, SW_VALUE_BYTES, "1", 1, &bytes, &err), &err);
    set(g, d, bytes, text(g, "h"));
    check_shows(g, d,
                "{1: \"d\", \"1\": \"b\", ((2, \"x\"),): \"f\", (2, \"y\"): \"g\", b\"1\": \"h\"}");
    sw_value_graph_free(g);
}

/* The same 3000 keys again and again, text, numbers and tuples, against an array. */
static void test_large_dicts_find_their_keys(void **state)
{
    enum { KEYS = 3000 };
    static int64_t expected[KEYS];
    sw_value_graph *g = make(0);
    harness_prng prng = {42};
    sw_value d = dict(g), found;
    int64_t v;
    (void)state;
    for (int i = 0; i < KEYS; i++)
        expected[i] = -1;
    for (int step = 0; step < 20000; step++) {
        int64_t k = (int64_t)harness_random_below(&prng, KEYS);
        char name[32];
        (void)snprintf(name, sizeof name, "layer.%lld.weight", (long long)k);
        const sw_value parts[2] = {integer(g, k), text(g, "x")};
        sw_value key = k % 3 == 0   ? text(g, name)
                       : k % 3 == 1 ? integer(g, k)
                                    : sequence(g, SW_VALUE_TUPLE, parts, 2);
        bool had = swi_dict_find(g, d, key, &found);
        assert_true(had == (expected[k] >= 0));
        if (had)
            assert_true(sw_value_int(g, found, &v) && v == expected[k]);
        expected[k] = step;
        set(g, d, key, integer(g, step));
        if (k % 3 == 0)
            assert_true(swi_value_get(g, d, name, &found) && sw_value_int(g, found, &v) &&
                        v == step);
    }
    size_t used = 0;
    for (int i = 0; i < KEYS; i++)
        used += expected[i] >= 0;
    assert_int_equal(sw_value_size(g, d), used);
    assert_false(swi_value_get(g, d, "layer.1.weight", &found));
    assert_false(swi_value_get(g, d, "", &found));
    sw_value_graph_free(g);
}

static void test_records_as_keys(void **state)
{
    sw_value_graph *g = make(0);
    sw_value d = dict(g), found;
    int64_t v;
    (void)state;
    for (uint64_t i = 0; i < 50000; i++) {
        /* in order, and spread over the high bits only */
        set(g, d, swi_value_of_record(i), integer(g, (int64_t)i));
        set(g, d, swi_value_of_record((i + 1) << 32), integer(g, (int64_t)i + 7));
    }
    assert_int_equal(sw_value_size(g, d), 100000);
    assert_true(swi_dict_find(g, d, swi_value_of_record((uint64_t)500 << 32), &found));
    assert_true(sw_value_int(g, found, &v) && v == 506);
    sw_value_graph_free(g);
}

/* Keys made to fall on each other must not: this would take minutes. */
static void test_crafted_keys_are_no_trap(void **state)
{
    sw_value_graph *g = make(0);
    sw_value d = dict(g), found;
    int64_t v;
    (void)state;
    for (int64_t i = 0; i < 100000; i++) {
        sw_value part = integer(g, i);
        for (int k = 0; k < 4; k++)
            part = sequence(g, SW_VALUE_TUPLE, &part, 1);
        set(g, d, part, integer(g, i));
        set(g, d, real(g, (double)NAN), integer(g, i));
    }
    assert_int_equal(sw_value_size(g, d), 200000);
    sw_value part = real(g, 77777.0);
    for (int k = 0; k < 4; k++)
        part = sequence(g, SW_VALUE_TUPLE, &part, 1);
    assert_true(swi_dict_find(g, d, part, &found) && sw_value_int(g, found, &v) && v == 77777);
    sw_value_graph_free(g);

    /* a key of 2^40 parts, twice */
    g = make(0);
    d = dict(g);
    for (int twice = 0; twice < 2; twice++) {
        part = integer(g, 1);
        for (int k = 0; k < 40; k++) {
            const sw_value both[2] = {part, part};
            part = sequence(g, SW_VALUE_TUPLE, both, 2);
        }
        for (int k = 0; k < 100; k++)
            set(g, d, k % 20 == 0 ? part : integer(g, k), part);
    }
    assert_true(swi_dict_find(g, d, part, &found) && found.bits == part.bits);
    assert_int_equal(sw_value_size(g, d), 95 + 2);
    sw_value_graph_free(g);
}

static void test_globals_are_one_node(void **state)
{
    sw_value_graph *g = make(0);
    sw_error err = {0};
    sw_value a, b, c;
    const char *module, *name;
    char longer[SWI_GLOBAL_MAX_BYTES + 2];
    (void)state;
    assert_ok(swi_graph_global(g, "torch", "Size", &a, &err), &err);
    assert_ok(swi_graph_global(g, "torch", "Size", &b, &err), &err);
    assert_ok(swi_graph_global(g, "torchS", "ize", &c, &err), &err);
    assert_true(a.bits == b.bits && a.bits != c.bits);
    assert_true(sw_value_global(g, a, &module, &name));
    assert_string_equal(module, "torch");
    assert_string_equal(name, "Size");
    memset(longer, 'x', sizeof longer - 1);
    longer[sizeof longer - 1] = '\0';
    assert_int_equal(swi_graph_global(g, "m", longer, &a, &err), SW_ERR_LIMIT);
    sw_value_graph_free(g);
}

static void test_objects(void **state)
{
    sw_value_graph *g = make(0);
    sw_error err = {0};
    sw_value v, found;
    sw_value_object object = {.is_new = true, .has_items = true}, back;
    (void)state;
    assert_ok(swi_graph_global(g, "m", "D", &object.callable, &err), &err);
    object.args = sequence(g, SW_VALUE_TUPLE, NULL, 0);
    object.items = dict(g);
    set(g, object.items, text(g, "k"), integer(g, 3));
    assert_ok(swi_graph_object(g, &object, &v, &err), &err);
    assert_true(swi_value_is_call(g, v, "m", "D"));
    assert_false(swi_value_is_call(g, v, "m", "d"));
    assert_true(sw_value_get_object(g, v, &back));
    assert_true(back.is_new && back.has_items && !back.has_state);
    assert_true(swi_value_get(g, v, "k", &found));
    assert_true(sw_value_as_dict(g, v, &found) && found.bits == object.items.bits);
    object.has_state = true;
    object.state = v;
    assert_ok(swi_graph_object_update(g, v, &object, &err), &err);
    check_shows(g, v, "<m.D {\"k\": 3} state ...>");
    sw_value_graph_free(g);
}

/* ---- drops
 * ------------------------------------------------------------------------------------------ */

static void test_dropped_memory_is_used_again(void **state)
{
    sw_value_graph *g = make(100);
    (void)state;
    uint64_t memory = 0;
    for (int i = 0; i < 100000; i++) {
        const sw_value items[3] = {integer(g, i), integer(g, i), integer(g, i)};
        sw_value t = sequence(g, SW_VALUE_TUPLE, items, 3);
        sw_value l = sequence(g, SW_VALUE_LIST, items, 3);
        sw_value d = dict(g);
        for (int k = 0; k < 20; k++)
            set(g, d, integer(g, k), t);
        swi_graph_drop(g, d);
        swi_graph_drop(g, l);
        swi_graph_drop(g, t);
        if (i == 10)
            memory = swi_graph_memory(g);
    }
    assert_int_equal(swi_graph_memory(g), memory);
    sw_value_graph_free(g);
}

static void test_references_say_who_is_shared(void **state)
{
    sw_value_graph *g = make(0);
    sw_error err = {0};
    sw_value one = integer(g, 1), item;
    (void)state;
    sw_value t = sequence(g, SW_VALUE_TUPLE, &one, 1);
    assert_ok(swi_graph_put(g, 0, t, &err), &err);
    assert_ok(swi_graph_put(g, 1, t, &err), &err);
    swi_graph_drop(g, t); /* two references: kept */
    sw_value other = sequence(g, SW_VALUE_TUPLE, &one, 1);
    assert_true(other.bits != t.bits);
    assert_true(sw_value_item(g, t, 0, &item) && item.bits == one.bits);
    swi_graph_forget(g);
    swi_graph_drop(g, swi_value_none());
    swi_graph_drop(g, one);
    swi_graph_drop(g, sequence(g, SW_VALUE_TUPLE, NULL, 0));
    sw_value_graph_free(g);
}

/* References of few bits and of many, set again from one to the other. */
static void test_wide_references(void **state)
{
    sw_value_graph *g = make(0);
    sw_error err = {0};
    (void)state;
    const sw_value values[] = {swi_value_none(), swi_value_of_record(1),
                               swi_value_of_record(UINT64_C(1) << 40), integer(g, -3),
                               integer(g, INT64_MIN)};
    const size_t count = sizeof values / sizeof values[0];
    for (size_t i = 0; i < 200; i++)
        assert_ok(swi_graph_put(g, i, values[i % count], &err), &err);
    for (size_t i = 0; i < 200; i++)
        assert_true(swi_ref_at(g, i).bits == values[i % count].bits);
    for (size_t i = 0; i < 200; i++)
        assert_ok(swi_graph_put(g, i, values[(i / 3 + 1) % count], &err), &err);
    for (size_t i = 0; i < 200; i++)
        assert_true(swi_ref_at(g, i).bits == values[(i / 3 + 1) % count].bits);
    assert_int_equal(g->refs_set, 200);
    assert_ok(swi_graph_put(g, 1000, values[2], &err), &err);
    assert_int_equal(swi_value_tag(swi_ref_at(g, 999)), SWI_TAG_UNSET);
    assert_true(swi_ref_at(g, 1000).bits == values[2].bits);
    sw_value t = sequence(g, SW_VALUE_TUPLE, &values[0], 1);
    assert_ok(swi_graph_put(g, 5, t, &err), &err);
    assert_ok(swi_graph_replace(g, t, values[2], &err), &err);
    assert_true(swi_ref_at(g, 5).bits == values[2].bits);
    sw_value_graph_free(g);
}

static void test_limit(void **state)
{
    sw_value_graph *g = make(50);
    sw_error err = {0};
    sw_value item = swi_value_none(), v = swi_value_of_record(1);
    sw_value list = sequence(g, SW_VALUE_LIST, NULL, 0);
    sw_status status = SW_OK;
    size_t count = 0;
    (void)state;
    while (status == SW_OK && count++ < 100)
        status = swi_graph_append(g, list, &item, 1, &err);
    assert_error(&err, SW_ERR_LIMIT, "more than 50 nodes and elements (limit nodes)");
    assert_true(count < 51);
    assert_int_equal(sw_value_size(g, list), count - 1);
    assert_int_equal(swi_graph_float(g, 1.0, &v, &err), SW_ERR_LIMIT);
    assert_int_equal(swi_graph_sequence(g, SW_VALUE_TUPLE, &item, 1, &v, &err), SW_ERR_LIMIT);
    assert_int_equal(swi_graph_text(g, SW_VALUE_BYTES, "abc", 3, &v, &err), SW_ERR_LIMIT);
    assert_true(v.bits == swi_value_of_record(1).bits);
    sw_value_graph_free(g);
}

/* ---- the text
 * ---------------------------------------------------------------------------------------- */

static void test_text_of_strings(void **state)
{
    sw_value_graph *g = make(0);
    (void)state;
    check_shows(g, text(g, "a\"b\\\n\x1b[0m"), "\"a\\\"b\\\\\\n\\x1b[0m\"");
    /* multi-byte characters at every place of the steps in which text is escaped */
    for (size_t lead = 0; lead < 45; lead++) {
        char raw[100] = "", expected[110];
        memset(raw, 'x', lead);
        strncat(raw, "\xe2\x82\xac\xf0\x9f\x98\x80", sizeof raw - lead - 1);
        (void)snprintf(expected, sizeof expected, "\"%s\"", raw);
        check_shows(g, text(g, raw), expected);
    }
    sw_value_graph_free(g);
}

static void test_text_is_cut(void **state)
{
    sw_value_graph *g = make(0);
    sw_error err = {0};
    char *shown = NULL;
    (void)state;
    sw_value list = sequence(g, SW_VALUE_LIST, NULL, 0);
    sw_value item = integer(g, 7);
    for (int i = 0; i < 1000; i++)
        assert_ok(swi_graph_append(g, list, &item, 1, &err), &err);
    for (size_t max = 0; max < 40; max++) {
        assert_ok(sw_value_text(g, list, max, &shown, &err), &err);
        assert_true(strlen(shown) <= max + 3);
        assert_string_equal(shown + strlen(shown) - 3, "...");
        free(shown);
    }
    sw_value_graph_free(g);
}

static void test_text_of_floats(void **state)
{
    sw_value_graph *g = make(0);
    (void)state;
    check_shows(g, real(g, 0.1), "0.1");
    check_shows(g, real(g, 1.0 / 3), "0.3333333333333333");
    check_shows(g, real(g, 3e-4), "0.0003");
    check_shows(g, real(g, -5), "-5.0");
    check_shows(g, real(g, 1e22), "1e+22");
    sw_value_graph_free(g);
}

/* Few pairs and many, with hash blocks; who refers to a dict finds what it holds now. */
static void test_dicts_exchange_what_they_hold(void **state)
{
    sw_value_graph *g = make(0);
    (void)state;
    for (size_t size = 0; size < 40; size += 13) {
        sw_value a = dict(g), b = dict(g), found;
        sw_value list[2] = {a, b};
        sw_value holder = sequence(g, SW_VALUE_LIST, list, 2);
        for (size_t i = 0; i < size; i++)
            set(g, a, integer(g, (int64_t)i), integer(g, (int64_t)i + 100));
        set(g, b, text(g, "x"), text(g, "y"));
        swi_graph_dict_swap(g, a, b);
        assert_int_equal(sw_value_size(g, a), 1);
        assert_int_equal(sw_value_size(g, b), size);
        for (size_t i = 0; i < size; i++) {
            int64_t n = 0;
            assert_true(swi_dict_find(g, b, integer(g, (int64_t)i), &found));
            assert_true(sw_value_int(g, found, &n));
            assert_int_equal(n, (int64_t)i + 100);
        }
        set(g, b, text(g, "new"), integer(g, 1));
        set(g, a, text(g, "x"), integer(g, 2));
        assert_int_equal(sw_value_size(g, b), size + 1);
        check_shows(g, a, "{\"x\": 2}");
        assert_true(sw_value_item(g, holder, 0, &found) && found.bits == a.bits);
    }
    sw_value none = swi_value_none(), d = dict(g);
    swi_graph_dict_swap(g, none, d); /* what is no dict stays */
    check_shows(g, d, "{}");
    sw_value_graph_free(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_dicts_exchange_what_they_hold),
        cmocka_unit_test(test_integers),
        cmocka_unit_test(test_big_integers_become_small),
        cmocka_unit_test(test_records),
        cmocka_unit_test(test_tensors),
        cmocka_unit_test(test_lists_grow),
        cmocka_unit_test(test_keys_are_pythons),
        cmocka_unit_test(test_large_dicts_find_their_keys),
        cmocka_unit_test(test_records_as_keys),
        cmocka_unit_test(test_crafted_keys_are_no_trap),
        cmocka_unit_test(test_globals_are_one_node),
        cmocka_unit_test(test_objects),
        cmocka_unit_test(test_dropped_memory_is_used_again),
        cmocka_unit_test(test_references_say_who_is_shared),
        cmocka_unit_test(test_wide_references),
        cmocka_unit_test(test_limit),
        cmocka_unit_test(test_text_of_strings),
        cmocka_unit_test(test_text_is_cut),
        cmocka_unit_test(test_text_of_floats),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
