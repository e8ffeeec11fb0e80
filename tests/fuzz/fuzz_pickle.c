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

typedef struct outcome {
    sw_status status;
    sw_error err;
    char *text;
} outcome;

static void read_feed(swi_feed *feed, uint8_t mode, outcome *out)
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
    sw_error *err = &out->err;
    if (swi_graph_make(&limits, &graph, err) != SW_OK)
        return;
    out->status =
        swi_pickle_read_feed(feed, &options, graph, &root, (mode & 8) != 0 ? NULL : &unsafe, err);
    if (out->status != err->status ||
        (out->status != SW_OK && (err->text[0] == '\0' || root.bits != 0)))
        __builtin_trap();
    if (out->status == SW_OK && sw_value_text(graph, root, 2000, &out->text, err) == SW_OK &&
        strlen(out->text) > 2003)
        __builtin_trap();
    sw_value_graph_free(graph);
}

typedef struct input {
    const uint8_t *data;
    size_t size;
} input;

static sw_status read_input(void *ctx, uint64_t offset, void *data, size_t size, sw_error *err)
{
    const input *in = ctx;
    (void)err;
    if (offset > in->size || size > in->size - offset)
        __builtin_trap();
    memcpy(data, in->data + offset, size);
    return SW_OK;
}

/* All in memory, and through the smallest window: the same. */
static void read_once(const uint8_t *data, size_t size, uint8_t mode)
{
    outcome whole = {0}, parts = {0};
    input in = {data, size};
    swi_feed feed = swi_feed_of_memory(data, size);
    read_feed(&feed, mode, &whole);
    uint64_t end = swi_feed_position(&feed);
    feed = swi_feed_of(read_input, &in, size);
    feed.window_bytes = size < 512 ? 2 : 256; /* each cut costs */
    read_feed(&feed, mode, &parts);
    if (whole.status != parts.status || strcmp(whole.err.text, parts.err.text) != 0 ||
        whole.err.offset_bytes != parts.err.offset_bytes ||
        (whole.text == NULL) != (parts.text == NULL) ||
        (whole.status == SW_OK && swi_feed_position(&feed) != end) ||
        (whole.text != NULL && strcmp(whole.text, parts.text) != 0))
        __builtin_trap();
    swi_feed_end(&feed);
    free(whole.text);
    free(parts.text);
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
