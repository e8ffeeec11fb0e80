/* The cases of tests/convert/values/cases.txt, clause by clause of specs/values.md. */
#include "harness/harness.h"

#include <stdlib.h>
#include <string.h>

#include "state/state_json.h"

#define CASES SW_SOURCE_DIR "/tests/convert/values/cases.txt"

static const char *name_of(const void *ctx, uint32_t index)
{
    (void)ctx;
    return index == 0 ? "w" : NULL;
}

static int64_t find(const void *ctx, const char *name, size_t size)
{
    (void)ctx;
    return size == 1 && name[0] == 'w' ? 0 : -1;
}

static sw_status take(const char *kind, const swi_buf *text, swi_state *state, swi_arena *names,
                      swi_buf *again, sw_error *err)
{
    if (strcmp(kind, "ranks") != 0) {
        sw_status st = swi_state_json_read(text->data, text->size, NULL, find, NULL, state, err);
        return st == SW_OK ? swi_state_json_write(state, state->root, name_of, NULL, again, err)
                           : st;
    }
    const swi_rank_values values = {.data = text->data, .size = text->size, .rank = 1, .ranks = 2};
    sw_status st = swi_graph_make(NULL, &state->graph, err);
    if (st == SW_OK)
        st = swi_state_json_read_ranks(&values, names, state, err);
    return st == SW_OK ? swi_state_json_write_ranks(state, 1, 2, again, err) : st;
}

/* The whole document that the line is of. */
static void document(const char *kind, const char *text, swi_buf *out)
{
    const bool value = strcmp(kind, "value") == 0;
    if (value)
        assert_int_equal(swi_buf_append_str(out, "{\"format\":1,\"ordered\":true,\"root\":", NULL),
                         SW_OK);
    for (; *text != '\0'; text++) {
        const bool feed = !value && text[0] == '\\' && text[1] == 'n';
        assert_int_equal(swi_buf_u8(out, feed ? '\n' : (uint8_t)*text, NULL), SW_OK);
        text += feed;
    }
    assert_int_equal(swi_buf_append_str(out, value ? "}\n" : "\n", NULL), SW_OK);
}

static void run_case(const char *line, bool good, const char *kind, const char *text)
{
    swi_state state = {0};
    swi_arena names = {0};
    swi_buf all = {0}, again = {0};
    sw_error err = {0};
    document(kind, text, &all);
    const sw_status st = take(kind, &all, &state, &names, &again, &err);
    if (good &&
        (st != SW_OK || again.size != all.size || memcmp(again.data, all.data, all.size) != 0))
        fail_msg("%s: %s: %s", line, sw_status_name(st), err.text);
    if (!good && st != SW_ERR_FORMAT && st != SW_ERR_CORRUPT && st != SW_ERR_UNSUPPORTED)
        fail_msg("%s: %s", line, sw_status_name(st));
    swi_buf_free(&all);
    swi_buf_free(&again);
    swi_state_free(&state);
    swi_arena_free(&names);
}

static char *word(char **at)
{
    char *begin = *at, *end = strchr(begin, ' ');
    assert_non_null(end);
    *end = '\0';
    *at = end + 1;
    return begin;
}

static void test_cases(void **unused)
{
    (void)unused;
    size_t size, good = 0, bad = 0;
    char *all = (char *)harness_read(CASES, &size), *next = NULL;
    for (char *line = all; line < all + size; line = next) {
        char copy[512], *at = copy;
        char *end = memchr(line, '\n', (size_t)(all + size - line));
        assert_non_null(end);
        *end = '\0';
        next = end + 1;
        if (line[0] == '#' || line[0] == '\0')
            continue;
        assert_true(strlen(line) < sizeof copy);
        memcpy(copy, line, strlen(line) + 1);
        const bool is_good = strcmp(word(&at), "good") == 0;
        const char *kind = word(&at);
        if (!is_good)
            (void)word(&at); /* the clause */
        run_case(line, is_good, kind, at);
        good += is_good;
        bad += !is_good;
    }
    assert_true(good >= 35 && bad >= 90);
    free(all);
}

/* VAL-1, of a caller's limits: more values than they allow. */
static void test_limits(void **unused)
{
    (void)unused;
    static const char text[] = "{\"format\":1,\"values\":[[0,\"a\",[1,2,3,4,5,6,7,8,9]]]}\n";
    const sw_limits few = {.nodes = 8};
    swi_rank_values values = {
        .data = (const uint8_t *)text, .size = strlen(text), .rank = 0, .ranks = 1};
    for (int i = 0; i < 2; i++) {
        swi_state state = {0};
        swi_arena names = {0};
        sw_error err = {0};
        values.limits = i == 0 ? NULL : &few;
        assert_ok(swi_graph_make(NULL, &state.graph, &err), &err);
        assert_int_equal(swi_state_json_read_ranks(&values, &names, &state, &err),
                         i == 0 ? SW_OK : SW_ERR_LIMIT);
        swi_state_free(&state);
        swi_arena_free(&names);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_cases), cmocka_unit_test(test_limits)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
