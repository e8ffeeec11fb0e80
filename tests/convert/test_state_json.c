/* state.json and the values of ranks: there and back, however deep; what is refused, and where. */
#include "harness/harness.h"

#include <stdlib.h>
#include <string.h>

#include "state/state_json.h"

static const char *name_of(const void *ctx, uint32_t index)
{
    (void)ctx;
    return index == 0 ? "model.w" : NULL;
}

static int64_t find(const void *ctx, const char *name, size_t size)
{
    (void)ctx;
    return size == 7 && memcmp(name, "model.w", size) == 0 ? 0 : -1;
}

static sw_status read_state(const swi_buf *text, swi_state *out, sw_error *err)
{
    return swi_state_json_read(text->data, text->size, NULL, find, NULL, out, err);
}

/* The values section of one of two files. */
static sw_status read_ranks(const char *text, uint32_t rank, swi_arena *names, swi_state *out,
                            sw_error *err)
{
    const swi_rank_values values = {
        .data = (const uint8_t *)text, .size = strlen(text), .rank = rank, .ranks = 2};
    return swi_state_json_read_ranks(&values, names, out, err);
}

static void append(swi_buf *out, const char *text)
{
    assert_int_equal(swi_buf_append_str(out, text, NULL), SW_OK);
}

static void assert_same_text(const swi_buf *a, const swi_buf *b)
{
    assert_int_equal(a->size, b->size);
    assert_memory_equal(a->data, b->data, a->size);
}

static void expect_back(const swi_buf *text, bool ordered)
{
    swi_state state = {0};
    swi_buf again = {0};
    sw_error err = {0};
    assert_ok(read_state(text, &state, &err), &err);
    assert_int_equal(state.ordered, ordered);
    assert_ok(swi_state_json_write(&state, state.root, name_of, NULL, &again, &err), &err);
    assert_same_text(text, &again);
    swi_buf_free(&again);
    swi_state_free(&state);
}

static void test_there_and_back(void **unused)
{
    (void)unused;
    swi_buf text = {0};
    append(&text, "{\"format\":1,\"ordered\":true,\"root\":{\"model\":{\"w\":{\"$tensor\":"
                  "\"model.w\"}},\"step\":{\"$tuple\":[7,0.5]}}}\n");
    expect_back(&text, true);
    text.size = 0;
    append(&text, "{\"format\":1,\"ordered\":false,\"root\":3}\n");
    expect_back(&text, false);
    swi_buf_free(&text);
}

/* torch.save takes what is nested as deep as Python's own limits allow; so does its text. */
static void test_any_depth(void **unused)
{
    (void)unused;
    static const char *const open[] = {"[", "{\"$tuple\":["}, *const close[] = {"]", "]}"};
    for (int kind = 0; kind < 2; kind++) {
        swi_buf text = {0};
        append(&text, "{\"format\":1,\"ordered\":true,\"root\":");
        for (int i = 0; i < 2000; i++)
            append(&text, open[kind]);
        append(&text, "1");
        for (int i = 0; i < 2000; i++)
            append(&text, close[kind]);
        append(&text, "}\n");
        expect_back(&text, true);
        swi_buf_free(&text);
    }
}

/* Values of six ranks in two files and in one: each file has those of its ranks, none is lost. */
static void test_values_of_ranks(void **unused)
{
    (void)unused;
    static const char *const of_two[] = {
        "{\"format\":1,\"values\":[[0,\"rng\",[1,2]],[2,\"rng\",{\"$bytes\":\"AAEC\"}]]}\n",
        "{\"format\":1,\"values\":[[5,\"rng\",null]]}\n"};
    swi_state state = {0};
    swi_arena names = {0};
    swi_buf out = {0};
    sw_error err = {0};
    assert_ok(swi_graph_make(NULL, &state.graph, &err), &err);
    for (uint32_t r = 0; r < 2; r++)
        assert_ok(read_ranks(of_two[r], r, &names, &state, &err), &err);
    assert_int_equal(state.scoped_count, 3);
    assert_int_equal(state.scoped[2].rank, 5);
    assert_string_equal(state.scoped[2].name, "rng");
    for (uint32_t r = 0; r < 2; r++) {
        const swi_buf text = {.data = (uint8_t *)(uintptr_t)of_two[r], .size = strlen(of_two[r])};
        out.size = 0;
        assert_ok(swi_state_json_write_ranks(&state, r, 2, &out, &err), &err);
        assert_same_text(&out, &text);
    }
    out.size = 0;
    assert_ok(swi_state_json_write_ranks(&state, 4, 6, &out, &err), &err);
    assert_int_equal(out.size, 0);
    swi_buf_free(&out);
    swi_state_free(&state);
    swi_arena_free(&names);
}

static const struct {
    const char *text, *says;
    sw_status status;
    int64_t at; /* -1: no position */
} wrong[] = {
    {"{\"format\":2,\"ordered\":true,\"root\":1}\n", "its format is 2", SW_ERR_UNSUPPORTED, -1},
    {"{\"ordered\":true,\"root\":1}\n", "no \"format\"", SW_ERR_FORMAT, -1},
    {"{\"format\":1,\"ordered\":1,\"root\":1}\n", "VAL-1", SW_ERR_FORMAT, -1},
    {"{\"format\":1,\"ordered\":true,\"root\":1,\"x\":1}\n", "VAL-1", SW_ERR_FORMAT, -1},
    {"{\"format\":1,\"ordered\":true,\"root\":1}", "byte 36", SW_ERR_FORMAT, 36},
    {"{\"format\":1,\"ordered\":true, \"root\":1}\n", "byte 27", SW_ERR_FORMAT, 27},
    {"{\"ordered\":true,\"format\":1,\"root\":1}\n", "byte 2", SW_ERR_FORMAT, 2},
    {"{\"format\":1,\"ordered\":true,\"root\":1.50}\n", "byte 37", SW_ERR_FORMAT, 37},
    {"{\"format\":1,\"ordered\":true,\"root\":\"\\u000a\"}\n", "byte 36", SW_ERR_FORMAT, 36},
    {"{\"format\":1,\"ordered\":true,\"root\":{\"$dict\":[[1,1],[true,2]]}}\n", "byte 47",
     SW_ERR_FORMAT, 47},
    {"{\"format\":1,\"ordered\":true,\"root\":{\"$id\":0,\"$value\":[]}}\n", "byte 34",
     SW_ERR_FORMAT, 34},
    {"{\"format\":1,\"ordered\":true,\"root\":{\"$tensor\":\"b\"}}\n", "no tensor \"b\"",
     SW_ERR_CORRUPT, -1},
    {"{\"format\":1,\"ordered\":true,\"root\":[1}\n", "JSON: expected", SW_ERR_FORMAT, 36},
};

static void test_what_is_refused(void **unused)
{
    (void)unused;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        const swi_buf text = {.data = (uint8_t *)(uintptr_t)wrong[i].text,
                              .size = strlen(wrong[i].text)};
        swi_state state = {0};
        sw_error err = {0};
        sw_status st = read_state(&text, &state, &err);
        if (st != wrong[i].status || strstr(err.text, wrong[i].says) == NULL ||
            (wrong[i].at >= 0 && (!err.has_offset || err.offset_bytes != (uint64_t)wrong[i].at)))
            fail_msg("%s: %s: %s", wrong[i].text, sw_status_name(st), err.text);
        assert_null(state.graph);
    }
}

/* Whatever the order in which they are met: the text is one, and no other is read. */
static void test_values_of_ranks_have_one_order(void **unused)
{
    (void)unused;
    static const char right[] =
        "{\"format\":1,\"values\":[[0,\"b\",1],[2,\"a\",2],[2,\"aa\",3],[10,\"a\",4]]}\n";
    static const int orders[][4] = {{0, 1, 2, 3}, {3, 2, 1, 0}, {1, 3, 0, 2}, {2, 0, 3, 1}};
    const swi_buf want = {.data = (uint8_t *)(uintptr_t)right, .size = strlen(right)};
    swi_state state = {0}, other = {0};
    swi_state_scoped mixed[4];
    swi_arena names = {0};
    swi_buf out = {0};
    sw_error err = {0};
    assert_ok(swi_graph_make(NULL, &state.graph, &err), &err);
    assert_ok(read_ranks(right, 0, &names, &state, &err), &err);
    assert_int_equal(state.scoped_count, 4);
    other = (swi_state){.graph = state.graph, .scoped = mixed, .scoped_count = 4};
    for (size_t k = 0; k < sizeof orders / sizeof orders[0]; k++) {
        for (size_t i = 0; i < 4; i++)
            mixed[i] = state.scoped[orders[k][i]];
        out.size = 0;
        assert_ok(swi_state_json_write_ranks(&other, 0, 2, &out, &err), &err);
        assert_same_text(&out, &want);
    }
    mixed[0] = mixed[3];
    assert_int_equal(swi_state_json_write_ranks(&other, 0, 2, &out, &err), SW_ERR_UNSUPPORTED);
    assert_contains(err.text, "rank 2 has two values \"a\"");
    swi_buf_free(&out);
    swi_state_free(&state);
    swi_arena_free(&names);
}

/* A section with the values of a rank of another file, out of order, twice, or with nothing. */
static void test_other_ranks_are_refused(void **unused)
{
    (void)unused;
    static const char *const texts[] = {"{\"format\":1,\"values\":[[1,\"rng\",1]]}\n",
                                        "{\"format\":1,\"values\":[[-2,\"rng\",1]]}\n",
                                        "{\"format\":1,\"values\":[[0,\"rng\\u0000\",1]]}\n",
                                        "{\"format\":1,\"values\":[[0,\"rng\"]]}\n",
                                        "{\"format\":1,\"values\":[[2,\"a\",1],[0,\"a\",1]]}\n",
                                        "{\"format\":1,\"values\":[[0,\"b\",1],[0,\"a\",1]]}\n",
                                        "{\"format\":1,\"values\":[[0,\"a\",1],[0,\"a\",2]]}\n",
                                        "{\"format\":1,\"values\":[]}\n"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        swi_state state = {0};
        swi_arena names = {0};
        sw_error err = {0};
        assert_ok(swi_graph_make(NULL, &state.graph, &err), &err);
        sw_status st = read_ranks(texts[i], 0, &names, &state, &err);
        if (st != SW_ERR_FORMAT || state.scoped_count != 0)
            fail_msg("%s: %s", texts[i], sw_status_name(st));
        swi_state_free(&state);
        swi_arena_free(&names);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_there_and_back),
        cmocka_unit_test(test_any_depth),
        cmocka_unit_test(test_values_of_ranks),
        cmocka_unit_test(test_what_is_refused),
        cmocka_unit_test(test_other_ranks_are_refused),
        cmocka_unit_test(test_values_of_ranks_have_one_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
