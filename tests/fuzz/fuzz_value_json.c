/*
 * Values as tagged JSON, whatever the text is: what is read is written and read again as the same.
 * The same text as state.json, and as the values of ranks.
 */
#include <stdlib.h>
#include <string.h>

#include "codec/json.h"
#include "state/state_json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool holds)
{
    if (!holds)
        __builtin_trap();
}

static const char *const names[] = {"a", "b"};

static const char *name_of(const void *ctx, uint32_t index)
{
    (void)ctx;
    return index < 2 ? names[index] : NULL;
}

static int64_t find(const void *ctx, const char *name, size_t size)
{
    (void)ctx;
    for (int64_t i = 0; i < 2; i++)
        if (size == 1 && name[0] == names[i][0])
            return i;
    return -1;
}

static sw_limits limits_of(void)
{
    return sw_limits_resolve(&(sw_limits){.nodes = 20000, .depth = 100});
}

/* The text of the value that the text stands for; false: it stands for none. */
static bool again(const void *data, size_t size, swi_buf *out)
{
    const sw_limits limits = limits_of();
    sw_value_graph *json = NULL, *graph = NULL;
    sw_value root, v;
    sw_status st = swi_json_parse(data, size, &limits, &json, &root, NULL);
    if (st == SW_OK)
        st = swi_graph_make(&limits, &graph, NULL);
    if (st == SW_OK)
        st = swi_value_json_read(json, root, graph, find, NULL, &v, NULL);
    if (st == SW_OK)
        st = swi_value_json_write(graph, v, name_of, NULL, out, NULL);
    sw_value_graph_free(json);
    sw_value_graph_free(graph);
    return st == SW_OK;
}

static void check_value(const uint8_t *data, size_t size)
{
    swi_buf first = {0}, second = {0};
    if (again(data, size, &first)) {
        must(again(first.data, first.size, &second));
        must(first.size == second.size && memcmp(first.data, second.data, first.size) == 0);
    }
    swi_buf_free(&first);
    swi_buf_free(&second);
}

static sw_status read_ranks(const uint8_t *data, size_t size, swi_arena *arena, swi_state *state)
{
    const swi_rank_values text = {.data = data, .size = size, .rank = 0, .ranks = 1};
    return swi_state_json_read_ranks(&text, arena, state, NULL);
}

static void check_state(const uint8_t *data, size_t size)
{
    const sw_limits limits = limits_of();
    swi_state state = {0};
    swi_arena arena = {0};
    sw_status st = swi_state_json_read(data, size, &limits, find, NULL, &state, NULL);
    if (st == SW_OK) /* one text is not both */
        must(read_ranks(data, size, &arena, &state) != SW_OK);
    swi_state_free(&state);
    st = swi_graph_make(&limits, &state.graph, NULL);
    if (st == SW_OK)
        st = read_ranks(data, size, &arena, &state);
    must(st != SW_OK || state.scoped_count > 0);
    swi_state_free(&state);
    swi_arena_free(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    check_value(data, size);
    check_state(data, size);
    return 0;
}
