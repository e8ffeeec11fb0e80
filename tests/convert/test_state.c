/* The saved state dict: put together from DCP folders and taken apart as torch flattens it. */
#include "convert/state_fixture.h"

static const int64_t shape[2] = {4, 3};

static swi_state state_of(const sw_checkpoint *c)
{
    swi_state s = {0};
    sw_error err = {0};
    must(swi_checkpoint_state(c, &s, &err));
    return s;
}

/* ---- walking: leaves as lines ---------------------------------------------------------------- */

typedef struct lines {
    const swi_state *state;
    swi_buf text;
} lines;

static sw_status add_line(void *ctx, const swi_state_leaf *leaf, sw_error *unused)
{
    lines *l = ctx;
    sw_error err = {0};
    (void)unused;
    char *text = NULL;
    uint32_t tensor = 77;
    for (size_t i = 0; i < leaf->parts; i++)
        must(swi_buf_printf(&l->text, &err, "%s%s%s", i > 0 ? "/" : "",
                            leaf->is_index[i] ? "#" : "", leaf->path[i]));
    must(sw_value_text(l->state->graph, leaf->value, 100, &text, &err));
    assert_int_equal(leaf->is_tensor, sw_value_tensor(l->state->graph, leaf->value, &tensor));
    assert_true(!leaf->is_tensor || tensor == leaf->tensor);
    must(swi_buf_printf(&l->text, &err, " = %s\n", text));
    free(text);
    return SW_OK;
}

static void check_walk(const swi_state *s, const char *expected)
{
    lines l = {.state = s};
    sw_error err = {0};
    must(swi_state_walk(s, add_line, &l, &err));
    must(swi_buf_u8(&l.text, 0, &err));
    assert_string_equal((const char *)l.text.data, expected);
    swi_buf_free(&l.text);
}

static void check_text_walks(const char *pickle, const char *expected)
{
    swi_state s = state_of_text(pickle, 0);
    check_walk(&s, expected);
    swi_state_free(&s);
}

/* A list is descended where it directly holds a tensor, a mapping or such a list; a tuple never. */
static void test_torchs_rule(void **state)
{
    (void)state;
    check_text_walks("PROTO 4 ; EMPTY_DICT ; MARK ; "
                     "BINUNICODE plain ; EMPTY_LIST ; MARK ; BININT1 1 ; BININT1 2 ; APPENDS ; "
                     "BINUNICODE empty ; EMPTY_LIST ; "
                     "BINUNICODE none ; EMPTY_DICT ; "
                     "BINUNICODE mixed ; EMPTY_LIST ; MARK ; BININT1 5 ; BININT1 0 ; BINPERSID ; "
                     "APPENDS ; "
                     "BINUNICODE dicts ; EMPTY_LIST ; EMPTY_DICT ; BINUNICODE a ; BININT1 1 ; "
                     "SETITEM ; APPEND ; "
                     "BINUNICODE deep ; EMPTY_LIST ; MARK ; EMPTY_LIST ; EMPTY_LIST ; BININT1 1 ; "
                     "BINPERSID ; APPEND ; APPEND ; EMPTY_LIST ; BININT1 9 ; APPEND ; APPENDS ; "
                     "BINUNICODE flat ; EMPTY_LIST ; MARK ; EMPTY_LIST ; EMPTY_LIST ; APPEND ; "
                     "APPENDS ; "
                     "BINUNICODE tuple ; BININT1 2 ; BINPERSID ; TUPLE1 ; "
                     "BINUNICODE lists_of_tuples ; EMPTY_LIST ; BININT1 2 ; BINPERSID ; TUPLE1 ; "
                     "APPEND ; "
                     "BINUNICODE a.b ; GLOBAL collections OrderedDict ; EMPTY_TUPLE ; REDUCE ; "
                     "BININT1 7 ; NONE ; SETITEM ; SETITEMS ; STOP",
                     "plain = [1, 2]\n"
                     "empty = []\n"
                     "mixed/#0 = 5\n"
                     "mixed/#1 = <tensor 0>\n"
                     "dicts/#0/a = 1\n"
                     "deep/#0/#0/#0 = <tensor 1>\n"
                     "deep/#1 = [9]\n"
                     "flat = [[[]]]\n"
                     "tuple = (<tensor 2>,)\n"
                     "lists_of_tuples = [(<tensor 2>,)]\n"
                     "a.b/7 = None\n");
}

static void test_keys_as_str_gives_them(void **state)
{
    (void)state;
    check_text_walks("PROTO 4 ; EMPTY_DICT ; MARK ; BININT1 0 ; NONE ; BININT -5 ; EMPTY_DICT ; "
                     "NONE ; NONE ; SETITEM ; BINFLOAT 0.5 ; NONE ; SETITEMS ; STOP",
                     "0 = None\n-5/None = None\n0.5 = None\n");
    check_text_walks("PROTO 4 ; EMPTY_DICT ; NEWTRUE ; NONE ; SETITEM ; STOP", "True = None\n");
    check_text_walks("PROTO 4 ; BININT1 0 ; BINPERSID ; STOP", " = <tensor 0>\n");
    check_text_walks("PROTO 4 ; EMPTY_DICT ; STOP", "");
}

static void test_shared_containers_have_each_place(void **state)
{
    (void)state;
    check_text_walks("PROTO 4 ; EMPTY_DICT ; MARK ; BINUNICODE a ; EMPTY_DICT ; MEMOIZE ; "
                     "BINUNICODE x ; BININT1 1 ; SETITEM ; BINUNICODE b ; BINGET 0 ; SETITEMS ; "
                     "STOP",
                     "a/x = 1\nb/x = 1\n");
}

/* Deeper than the walk's first room: numbers are still right. */
static void test_deep_paths(void **state)
{
    swi_buf text = {0};
    sw_error err = {0};
    (void)state;
    must(swi_buf_append_str(&text, "PROTO 4 ; ", &err));
    for (int i = 0; i < 300; i++)
        must(swi_buf_append_str(&text, "EMPTY_LIST ; EMPTY_DICT ; BININT1 3 ; ", &err));
    must(swi_buf_append_str(&text, "NONE ; ", &err));
    for (int i = 0; i < 300; i++)
        must(swi_buf_append_str(&text, "SETITEM ; APPEND ; ", &err));
    must(swi_buf_append_str(&text, "STOP", &err));
    must(swi_buf_u8(&text, 0, &err));
    swi_buf expected = {0};
    for (int i = 0; i < 300; i++)
        must(swi_buf_append_str(&expected, i > 0 ? "/#0/3" : "#0/3", &err));
    must(swi_buf_append_str(&expected, " = None\n", &err));
    must(swi_buf_u8(&expected, 0, &err));
    check_text_walks((const char *)text.data, (const char *)expected.data);
    swi_buf_free(&text);
    swi_buf_free(&expected);
}

static void test_walks_refused(void **state)
{
    static const struct {
        const char *pickle, *text;
        sw_status status;
    } cases[] = {
        {"PROTO 4 ; EMPTY_DICT ; MEMOIZE ; BINUNICODE a ; BINGET 0 ; SETITEM ; STOP",
         "a container holds itself", SW_ERR_UNSUPPORTED},
        {"PROTO 4 ; EMPTY_DICT ; EMPTY_TUPLE ; NONE ; SETITEM ; STOP",
         "a key is neither text nor a plain number", SW_ERR_UNSUPPORTED},
        {"PROTO 4 ; EMPTY_DICT ; BINUNICODE 1 ; NONE ; SETITEM ; BININT1 1 ; EMPTY_DICT ; SETITEM "
         "; "
         "STOP",
         "a key \"1\" is there as text, and as a number or constant", SW_ERR_UNSUPPORTED},
        {"PROTO 4 ; EMPTY_DICT ; BINUNICODE 'a\\x00b' ; NONE ; SETITEM ; STOP",
         "a key is neither text nor a plain number", SW_ERR_UNSUPPORTED},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        swi_state s = state_of_text(cases[i].pickle, 0);
        lines l = {.state = &s};
        sw_error err = {0};
        assert_int_equal(swi_state_walk(&s, add_line, &l, &err), cases[i].status);
        assert_error(&err, cases[i].status, cases[i].text);
        swi_buf_free(&l.text);
        swi_state_free(&s);
    }
}

/* 2^30 places of 31 dicts. */
static void test_a_bomb_is_limited(void **state)
{
    swi_buf text = {0};
    sw_error err = {0};
    char step[160];
    (void)state;
    must(swi_buf_append_str(&text, "PROTO 4 ; EMPTY_DICT ; MEMOIZE ; POP ; ", &err));
    for (int i = 0; i < 30; i++) {
        snprintf(step, sizeof step,
                 "EMPTY_DICT ; MEMOIZE ; MARK ; BININT1 0 ; BINGET %d ; BININT1 1 ; BINGET %d ; "
                 "SETITEMS ; %s",
                 i, i, i < 29 ? "POP ; " : "STOP");
        must(swi_buf_append_str(&text, step, &err));
    }
    must(swi_buf_u8(&text, 0, &err));
    swi_state s = state_of_text((const char *)text.data, 5000);
    lines l = {.state = &s};
    assert_int_equal(swi_state_walk(&s, add_line, &l, &err), SW_ERR_LIMIT);
    assert_error(&err, SW_ERR_LIMIT, "more than 5000 places");
    swi_buf_free(&text);
    swi_state_free(&s);
}

static void test_find(void **state)
{
    swi_state s = state_of_text("PROTO 4 ; EMPTY_DICT ; BINUNICODE a.b ; EMPTY_LIST ; MARK ; "
                                "BININT1 1 ; BININT1 2 ; TUPLE1 ; APPENDS ; SETITEM ; STOP",
                                0);
    const char *const good[] = {"a.b", "#1", "#0"};
    const char *const bad[][2] = {{"a", ""}, {"a.b", "1"}, {"a.b", "#2"}, {"a.b", "#x"}};
    sw_value v = {55};
    (void)state;
    assert_true(swi_state_find(&s, good, 3, &v));
    check_value(s.graph, v, "2");
    assert_true(swi_state_find(&s, good, 0, &v));
    assert_true(v.bits == s.root.bits);
    v.bits = 55;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_false(swi_state_find(&s, bad[i], 2, &v));
    assert_true(v.bits == 55);
    swi_state_free(&s);
}

/* ---- DCP folders ------------------------------------------------------------------------------
 */

static void test_dcp_is_nested_again(void **state)
{
    const char *dir = harness_path(*state, "ckpt");
    dcp_world *w = dcp_begin();
    dcp_whole(w, "model/a.weight", 0, 2, shape, 0);
    dcp_whole(w, "optimizer/state/a.weight/exp_avg", 0, 2, shape, 0);
    dcp_text(w, "optimizer/state/a.weight/step", 0, "BININT1 3");
    dcp_text(w, "optimizer/param_groups/#1/lr", 0, "BINFLOAT 0.5");
    dcp_text(w, "optimizer/param_groups/#0/lr", 0, "BINFLOAT 0.25");
    dcp_text(w, "optimizer/param_groups/#0/betas", 0, "BINFLOAT 0.5 ; BINFLOAT 0.75 ; TUPLE2");
    dcp_text(w, "extra/list/#3", 0, "EMPTY_LIST ; BININT1 1 ; APPEND");
    dcp_whole(w, "extra/list/#1", 0, 2, shape, 0);
    dcp_end(w, dir);
    sw_checkpoint *c = open_good(dir);
    swi_state s = state_of(c);
    assert_true(s.ordered);
    assert_int_equal(s.scoped_count, 0);
    check_value(
        s.graph, s.root,
        "{\"model\": {\"a.weight\": <tensor 0>}, "
        "\"optimizer\": {\"state\": {\"a.weight\": {\"exp_avg\": <tensor 1>, \"step\": 3}}, "
        "\"param_groups\": [{\"lr\": 0.25, \"betas\": (0.5, 0.75)}, {\"lr\": 0.5}]}, "
        "\"extra\": {\"list\": [{}, <tensor 2>, {}, [1]]}}");
    check_walk(&s, "model/a.weight = <tensor 0>\n"
                   "optimizer/state/a.weight/exp_avg = <tensor 1>\n"
                   "optimizer/state/a.weight/step = 3\n"
                   "optimizer/param_groups/#0/lr = 0.25\n"
                   "optimizer/param_groups/#0/betas = (0.5, 0.75)\n"
                   "optimizer/param_groups/#1/lr = 0.5\n"
                   "extra/list/#1 = <tensor 2>\n"
                   "extra/list/#3 = [1]\n");
    swi_state_free(&s);
    sw_checkpoint_close(c);
}

/* A planner of another kind: the key is not the path joined with dots; and no path at all. */
static void test_paths_that_are_not_the_key(void **state)
{
    const char *dir = harness_path(*state, "ckpt");
    dcp_world *w = dcp_begin();
    dcp_item *it = dcp_whole(w, "a/b.c/#0", 0, 2, shape, 0);
    snprintf(it->key, sizeof it->key, "a.b.c");
    it = dcp_whole(w, "a/x", 0, 2, shape, 0);
    snprintf(it->key, sizeof it->key, "a/x and more");
    it = dcp_whole(w, "left", 0, 2, shape, 0);
    snprintf(it->key, sizeof it->key, "a.b.z");
    it->path_count = 0;
    dcp_end(w, dir);
    sw_checkpoint *c = open_good(dir);
    swi_state s = state_of(c);
    check_value(s.graph, s.root,
                "{\"a\": {\"b.c\": [<tensor 0>], \"x\": <tensor 1>}, \"a.b.z\": <tensor 2>}");
    swi_state_free(&s);
    sw_checkpoint_close(c);
}

static void test_dcp_refused(void **state)
{
    static const struct {
        const char *first, *second, *text;
        sw_status status;
        bool object;
    } cases[] = {
        {"a", "a/b", "key \"a.b\" has the place of another key", SW_ERR_CONFLICT, false},
        {"a", "a/#0", "key \"a.0\" has the place of another key", SW_ERR_CONFLICT, true},
        {"a/b/c", "a/b", "key \"a.b\" has the place of another key", SW_ERR_CONFLICT, false},
        {"a/#0", "a/b", "key \"a.b\" has the place of another key", SW_ERR_CONFLICT, false},
        {"a/b", "a/#0", "key \"a.0\" has the place of another key", SW_ERR_CONFLICT, false},
        {"x", "a/#999999999", "position 999999999 in a list, of 2 keys", SW_ERR_CORRUPT, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *dir = harness_path(*state, "ckpt%zu", i);
        sw_error err = {0};
        dcp_world *w = dcp_begin();
        if (cases[i].object)
            dcp_text(w, cases[i].first, 0, "EMPTY_LIST ; NONE ; APPEND");
        else
            dcp_whole(w, cases[i].first, 0, 2, shape, 0);
        if (cases[i].object)
            dcp_text(w, cases[i].second, 0, "NONE");
        else
            dcp_whole(w, cases[i].second, 0, 2, shape, 0);
        dcp_end(w, dir);
        sw_checkpoint *c = open_good(dir);
        swi_state s = {.scoped_count = 9};
        assert_int_equal(swi_checkpoint_state(c, &s, &err), cases[i].status);
        assert_error(&err, cases[i].status, cases[i].text);
        assert_string_equal(err.clause, "DCP-15");
        assert_int_equal(s.scoped_count, 9);
        sw_checkpoint_close(c);
    }
}

static void test_values_that_cannot_be_read_are_named(void **state)
{
    const char *dir = harness_path(*state, "ckpt");
    sw_error err = {0};
    dcp_world *w = dcp_begin();
    dcp_whole(w, "a", 0, 2, shape, 0);
    dcp_text(w, "b", 0, "GLOBAL os system ; BINUNICODE x ; TUPLE1 ; REDUCE");
    dcp_end(w, dir);
    sw_checkpoint *c = open_good(dir);
    swi_state s;
    assert_int_equal(swi_checkpoint_state(c, &s, &err), SW_ERR_UNSAFE);
    assert_error(&err, SW_ERR_UNSAFE, "value \"b\"");
    assert_contains(err.text, "os.system");
    sw_checkpoint_close(c);
}

/* Each rank an index of its own: equal values are one, others are kept with their rank. */
static void test_values_of_ranks(void **state)
{
    static const int64_t zero[2] = {0}, half[2] = {2, 3}, second[2] = {2, 0};
    const char *dir = harness_path(*state, "ckpt");
    dcp_world *w = dcp_begin();
    dcp_item *it = dcp_tensor(w, "model/w", 2, shape, 0);
    dcp_chunk(w, it, 0, zero, half);
    dcp_chunk(w, it, 1, second, half);
    dcp_text(w, "same", 0, "BINUNICODE x");
    dcp_text(w, "rng", 0, "BININT1 1");
    dcp_text(w, "same", 1, "BINUNICODE x");
    dcp_text(w, "rng", 1, "BININT1 2");
    dcp_write_files(w, dir);
    dcp_write_index(w, dir, "__0.metadata", 0);
    dcp_write_index(w, dir, "__1.metadata", 1);
    dcp_free(w);
    sw_checkpoint *c = open_good(dir);
    swi_state s = state_of(c);
    check_value(s.graph, s.root, "{\"model\": {\"w\": <tensor 0>}, \"same\": \"x\", \"rng\": 1}");
    assert_int_equal(s.scoped_count, 1);
    assert_int_equal(s.scoped[0].rank, 1);
    assert_string_equal(s.scoped[0].name, "rng");
    check_value(s.graph, s.scoped[0].value, "2");
    swi_state_free(&s);
    sw_checkpoint_close(c);
}

/* Parameters that only rank 1 wrote come behind those of rank 0, wherever they were. */
static void test_order_is_known_or_not(void **state)
{
    static const int64_t zero[2] = {0}, half[2] = {2, 3}, second[2] = {2, 0};
    for (int both = 0; both < 2; both++) {
        const char *dir = harness_path(*state, "ckpt%d", both);
        dcp_world *w = dcp_begin();
        dcp_whole(w, "model/w", 0, 2, shape, 0);
        if (both) {
            dcp_item *it = dcp_tensor(w, "model/v", 2, shape, 0);
            dcp_chunk(w, it, 0, zero, half);
            dcp_chunk(w, it, 1, second, half);
        } else {
            dcp_whole(w, "model/v", 1, 2, shape, 0);
        }
        dcp_whole(w, "rest/x", 1, 2, shape, 0);
        dcp_end(w, dir);
        sw_checkpoint *c = open_good(dir);
        swi_state s = state_of(c);
        assert_int_equal(s.ordered, both == 1);
        swi_state_free(&s);
        sw_checkpoint_close(c);
    }
}

static void test_names_alone(void **state)
{
    const char *dir = *state;
    write_st_one(harness_path(dir, "hf/model.safetensors"), "a.b", 2, 3, 0);
    sw_checkpoint *c = open_good(harness_path(dir, "hf"));
    swi_state s = state_of(c);
    assert_false(s.ordered);
    check_value(s.graph, s.root, "{\"a.b\": <tensor 0>}");
    check_walk(&s, "a.b = <tensor 0>\n");
    swi_state_free(&s);
    sw_checkpoint_close(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_torchs_rule),
        cmocka_unit_test(test_keys_as_str_gives_them),
        cmocka_unit_test(test_shared_containers_have_each_place),
        cmocka_unit_test(test_deep_paths),
        cmocka_unit_test(test_walks_refused),
        cmocka_unit_test(test_a_bomb_is_limited),
        cmocka_unit_test(test_find),
        test_in_dir(test_dcp_is_nested_again),
        test_in_dir(test_paths_that_are_not_the_key),
        test_in_dir(test_dcp_refused),
        test_in_dir(test_values_that_cannot_be_read_are_named),
        test_in_dir(test_values_of_ranks),
        test_in_dir(test_order_is_known_or_not),
        test_in_dir(test_names_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
