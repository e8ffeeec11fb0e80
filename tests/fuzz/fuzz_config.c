/*
 * Any bytes as config.json: when it is taken it can be adjusted, is the same but for what was
 * adjusted, and a second time there is nothing to do.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "codec/json.h"
#include "format/value_same.h"
#include "target/model_config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char folder[64], file[80];

static void must(bool holds)
{
    if (!holds)
        __builtin_trap();
}

static void remove_folder(void)
{
    (void)remove(file);
    (void)rmdir(folder);
}

static void make_folder(void)
{
    (void)snprintf(folder, sizeof folder, "%s/fuzz_config.XXXXXX",
                   access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    if (mkdtemp(folder) == NULL)
        abort();
    (void)snprintf(file, sizeof file, "%s/config.json", folder);
    (void)atexit(remove_folder);
}

static bool is_adjusted(const sw_value_graph *g, sw_value key)
{
    return swi_value_text_is(g, key, "dtype") || swi_value_text_is(g, key, "torch_dtype") ||
           swi_value_text_is(g, key, "tie_word_embeddings");
}

static void check_adjusted(const sw_value_graph *g, sw_value key, sw_value before,
                           const sw_value_graph *h, sw_value after)
{
    bool tied;
    if (!swi_value_text_is(g, key, "tie_word_embeddings")) {
        bool text = sw_value_get_kind(g, before) == SW_VALUE_STR;
        must(text ? swi_value_text_is(h, after, "bfloat16") : same_values(g, before, h, after));
    } else if (sw_value_bool(g, before, &tied)) {
        must(sw_value_bool(h, after, &tied) && !tied);
    } else {
        must(same_values(g, before, h, after));
    }
}

static void compare(const swi_asset *a, const swi_asset *b, const sw_limits *limits)
{
    sw_value_graph *g = NULL, *h = NULL;
    sw_value before, after, key, value, other_key, other;
    must(swi_json_parse(a->data, a->size, limits, &g, &before, NULL) == SW_OK);
    must(swi_json_parse(b->data, b->size, limits, &h, &after, NULL) == SW_OK);
    if (sw_value_get_kind(g, before) != SW_VALUE_DICT)
        must(same_values(g, before, h, after));
    must(sw_value_size(g, before) == sw_value_size(h, after));
    for (size_t i = 0; sw_value_pair(g, before, i, &key, &value); i++) {
        must(sw_value_pair(h, after, i, &other_key, &other) && same_values(g, key, h, other_key));
        if (is_adjusted(g, key))
            check_adjusted(g, key, value, h, other);
        else
            must(same_values(g, value, h, other));
    }
    sw_value_graph_free(g);
    sw_value_graph_free(h);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const sw_limits limits = sw_limits_resolve(NULL);
    swi_assets assets = {0}, fresh = {0};
    bool changed, again;
    sw_error err = {0};
    if (folder[0] == '\0')
        make_folder();
    FILE *f = fopen(file, "wb");
    if (f == NULL || fwrite(data, 1, size, f) != size || fclose(f) != 0)
        abort();
    if (swi_assets_read(folder, &limits, &assets, &err) != SW_OK)
        return 0;
    must(assets.count == 1 && assets.has_config);
    must(swi_assets_adjust(&assets, "bfloat16", true, true, &limits, &changed, &err) == SW_OK);
    must(swi_assets_read(folder, &limits, &fresh, &err) == SW_OK);
    compare(&fresh.items[0], &assets.items[0], &limits);
    must(swi_assets_adjust(&assets, "bfloat16", true, true, &limits, &again, &err) == SW_OK &&
         !again);
    must(changed == (fresh.items[0].size != assets.items[0].size ||
                     memcmp(fresh.items[0].data, assets.items[0].data, assets.items[0].size) != 0));
    swi_assets_free(&assets);
    swi_assets_free(&fresh);
    return 0;
}
