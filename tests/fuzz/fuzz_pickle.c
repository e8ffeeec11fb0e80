/*
 * Any bytes as a pickle, with and without folding hooks, under small limits; what is read is
 * printed. The first byte picks the options. An input that begins with "hex" holds the bytes in
 * hexadecimal, so that seeds are text.
 */
#include <stdlib.h>
#include <string.h>

#include "codec/pickle.h"
#include "hex.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static sw_status make(void *ctx, sw_value_graph *g, sw_value args, sw_value *out, sw_error *err)
{
    (void)g, (void)args, (void)err;
    *out = swi_value_of_record(++*(uint64_t *)ctx);
    return SW_OK;
}

static sw_status build(void *ctx, sw_value_graph *g, sw_value object, sw_value state, sw_value *out,
                       sw_error *err)
{
    sw_value found;
    (void)err;
    (void)object;
    (void)swi_value_get(g, state, "k", &found);
    *out = swi_value_of_record(++*(uint64_t *)ctx);
    return SW_OK;
}

static sw_status build_items(void *ctx, sw_value_graph *g, sw_value object, const sw_value *items,
                             size_t pairs, sw_value *out, sw_error *err)
{
    (void)object, (void)err;
    for (size_t i = 0; i < 2 * pairs; i++)
        (void)sw_value_size(g, items[i]);
    *out = swi_value_of_record(++*(uint64_t *)ctx);
    return SW_OK;
}

static void read_once(const uint8_t *data, size_t size, uint8_t mode)
{
    uint64_t made = 0;
    static const swi_pickle_hook hooks[] = {{"m", "Size", make, NULL, NULL},
                                            {NULL, "C", NULL, build, NULL},
                                            {"m", "B", make, build, build_items}};
    const swi_pickle_options options = {.hooks = hooks,
                                        .hook_count = (mode & 1) != 0 ? 3 : 0,
                                        .hook_ctx = &made,
                                        .protocol0_persid = (mode & 2) != 0};
    const sw_limits limits = {.nodes = (mode & 4) != 0 ? 200 : 100000};
    sw_value_graph *graph = NULL;
    sw_value root = swi_value_none();
    swi_pickle_unsafe unsafe;
    sw_error err = {0};
    char *text = NULL;
    if (swi_graph_make(&limits, &graph, &err) != SW_OK)
        return;
    swi_cursor cursor = swi_cursor_make(data, size);
    sw_status status =
        swi_pickle_read(&cursor, &options, graph, &root, (mode & 8) != 0 ? NULL : &unsafe, &err);
    if (status != err.status || (status != SW_OK && (err.text[0] == '\0' || root.bits != 0)))
        __builtin_trap();
    if (status == SW_OK && sw_value_text(graph, root, 2000, &text, &err) == SW_OK &&
        strlen(text) > 2003)
        __builtin_trap();
    free(text);
    sw_value_graph_free(graph);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t count;
    uint8_t *bytes = bytes_of_hex(data, size, &count);
    if (bytes != NULL) {
        for (uint8_t mode = 0; mode < 16; mode++)
            read_once(bytes, count, mode);
    } else if (size > 0) {
        read_once(data + 1, size - 1, data[0]);
    }
    free(bytes);
    return 0;
}
