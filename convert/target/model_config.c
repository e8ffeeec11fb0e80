#include "target/model_config.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/text.h"
#include "codec/json.h"

#define ASSET_MAX (UINT64_C(256) << 20)

static bool is_weights(const char *name)
{
    static const char *const suffixes[] = {".safetensors", ".bin",  ".pt",      ".pth",  ".ckpt",
                                           ".distcp",      ".gguf", ".h5",      ".onnx", ".msgpack",
                                           ".index.json",  ".npz",  ".metadata"};
    for (size_t i = 0; i < sizeof suffixes / sizeof suffixes[0]; i++) {
        if (swi_has_suffix(name, suffixes[i]))
            return true;
    }
    return name[0] == '.';
}

void swi_assets_free(swi_assets *assets)
{
    for (size_t i = 0; i < assets->count; i++) {
        free(assets->items[i].path);
        free(assets->items[i].data);
    }
    free(assets->items);
    *assets = (swi_assets){0};
}

static sw_status read_one(const swi_store *store, const char *name, swi_assets *a, sw_error *err)
{
    sw_status st =
        swi_grow_array((void **)&a->items, &a->capacity, a->count + 1, sizeof *a->items, err);
    if (st != SW_OK)
        return st;
    swi_asset *item = &a->items[a->count];
    *item = (swi_asset){0};
    st = swi_alloc_array(strlen(name) + 1, 1, (void **)&item->path, err);
    if (st != SW_OK)
        return st;
    memcpy(item->path, name, strlen(name));
    st = swi_store_read_all(store, name, ASSET_MAX, &item->data, &item->size, err);
    if (st != SW_OK) {
        free(item->path);
        return st;
    }
    a->count++;
    return SW_OK;
}

static swi_asset *find_config(const swi_assets *a)
{
    for (size_t i = 0; i < a->count; i++) {
        if (strcmp(a->items[i].path, "config.json") == 0)
            return &a->items[i];
    }
    return NULL;
}

static sw_status read_config(swi_assets *a, const sw_limits *limits, sw_error *err)
{
    const swi_asset *config = find_config(a);
    sw_value_graph *g = NULL;
    sw_value root, v;
    if (config == NULL)
        return SW_OK;
    sw_status st = swi_json_parse(config->data, config->size, limits, &g, &root, err);
    if (st != SW_OK)
        return swi_error_prefix(err, "config.json");
    bool tied;
    int64_t vocabulary;
    a->has_config = true;
    if (swi_value_get(g, root, "tie_word_embeddings", &v) && sw_value_bool(g, v, &tied))
        a->tied = tied;
    if (swi_value_get(g, root, "vocab_size", &v) && sw_value_int(g, v, &vocabulary))
        a->vocabulary = vocabulary;
    sw_value_graph_free(g);
    return SW_OK;
}

sw_status swi_assets_read(const char *folder, const sw_limits *limits, swi_assets *out,
                          sw_error *err)
{
    swi_assets a = {0};
    swi_store *store = NULL;
    swi_listing *listing = NULL;
    sw_status st = swi_store_open_posix(folder, &store, err);
    if (st == SW_OK)
        st = swi_listing_make(store, NULL, limits, &listing, err);
    for (size_t i = 0; st == SW_OK && i < swi_listing_count(listing); i++) {
        const swi_listing_entry *e = swi_listing_at(listing, i);
        swi_quoted q;
        if (e->kind == SWI_ENTRY_FILE && !is_weights(e->name))
            st = read_one(store, e->name, &a, err);
        else if (e->kind == SWI_ENTRY_OTHER && !is_weights(e->name))
            st =
                swi_fail(err, SW_ERR_INCOMPLETE,
                         "%s: a link to nothing, or no regular file; put the file there, or remove "
                         "the name",
                         swi_quote_str(&q, e->name));
    }
    if (st == SW_OK)
        st = read_config(&a, limits, err);
    swi_listing_free(listing);
    swi_store_close(store);
    if (st != SW_OK) {
        swi_assets_free(&a);
        swi_quoted q;
        return swi_error_prefix(err, "--assets %s", swi_quote_str(&q, folder));
    }
    *out = a;
    return SW_OK;
}

/* ---- adjusting config.json: one token replaced, every other byte kept --------------------- */

typedef struct token {
    size_t begin, end;
    bool found;
} token;

static bool key_is(const swi_json_event *e, const char *key)
{
    return e->size == strlen(key) && memcmp(e->text, key, e->size) == 0;
}

/* The end of the string token that begins at `begin` (validated by the reader before). */
static size_t string_end(const uint8_t *data, size_t size, size_t begin)
{
    size_t i = begin + 1;
    while (i < size && data[i] != '"')
        i += data[i] == '\\' ? 2 : 1;
    return i < size ? i + 1 : size;
}

static sw_status token_end(const swi_asset *config, swi_json_reader *r, const swi_json_event *e,
                           size_t *end, sw_error *err)
{
    swi_json_event last = *e;
    size_t depth = 0;
    sw_status st = SW_OK;
    *end = e->kind == SWI_JSON_STRING ? string_end(config->data, config->size, e->offset_bytes)
                                      : e->offset_bytes + strlen("true");
    do {
        depth += last.kind == SWI_JSON_OBJECT_BEGIN || last.kind == SWI_JSON_ARRAY_BEGIN;
        if (depth == 0)
            return SW_OK;
        st = swi_json_next(r, &last, err);
        depth -= last.kind == SWI_JSON_OBJECT_END || last.kind == SWI_JSON_ARRAY_END;
        *end = last.offset_bytes + 1;
    } while (st == SW_OK && depth > 0);
    return st;
}

/* The value of a key of the outermost object. */
static sw_status find_token(const swi_asset *config, const char *key, swi_json_kind kind,
                            const sw_limits *limits, token *out, sw_error *err)
{
    swi_json_reader *r = NULL;
    swi_json_event e;
    *out = (token){0};
    sw_status st = swi_json_reader_make(config->data, config->size, limits, &r, err);
    if (st == SW_OK) {
        swi_json_allow_nonfinite(r);
        st = swi_json_next(r, &e, err);
    }
    while (st == SW_OK && !out->found) {
        st = swi_json_next(r, &e, err);
        if (st != SW_OK || e.kind != SWI_JSON_KEY)
            break;
        if (!key_is(&e, key)) {
            st = swi_json_skip(r, err);
            continue;
        }
        st = swi_json_next(r, &e, err);
        if (st != SW_OK || e.kind != kind)
            break;
        out->found = true;
        out->begin = e.offset_bytes;
        st = token_end(config, r, &e, &out->end, err);
    }
    swi_json_reader_free(r);
    return st;
}

static sw_status replace(swi_asset *config, token t, const char *text, bool *changed, sw_error *err)
{
    size_t n = strlen(text);
    if (!t.found || (t.end - t.begin == n && memcmp(config->data + t.begin, text, n) == 0))
        return SW_OK;
    swi_buf b = {0};
    sw_status st = swi_buf_append(&b, config->data, t.begin, err);
    if (st == SW_OK)
        st = swi_buf_append(&b, text, n, err);
    if (st == SW_OK)
        st = swi_buf_append(&b, config->data + t.end, config->size - t.end, err);
    if (st != SW_OK) {
        swi_buf_free(&b);
        return st;
    }
    free(config->data);
    config->data = b.data;
    config->size = b.size;
    *changed = true;
    return SW_OK;
}

static size_t back_over_space(const uint8_t *data, size_t at)
{
    while (at > 0 && strchr(" \t\r\n", data[at - 1]) != NULL)
        at--;
    return at;
}

/* From the key to the comma behind its value, or from the comma before it. */
static token whole_member(const swi_asset *config, const char *key, token value)
{
    const uint8_t *data = config->data;
    size_t begin = back_over_space(data, value.begin);
    begin = back_over_space(data, begin > 0 ? begin - 1 : 0); /* the colon */
    const size_t n = strlen(key);
    if (begin < n + 2 || memcmp(data + begin - n - 1, key, n) != 0)
        return (token){0}; /* spelled with escapes */
    begin -= n + 2;
    size_t end = value.end;
    while (end < config->size && strchr(" \t\r\n", data[end]) != NULL)
        end++;
    if (end < config->size && data[end] == ',')
        return (token){.begin = back_over_space(data, begin), .end = end + 1, .found = true};
    begin = back_over_space(data, begin);
    begin -= begin > 0 && data[begin - 1] == ',';
    return (token){.begin = begin, .end = value.end, .found = true};
}

static sw_status remove_member(swi_asset *config, const char *key, const sw_limits *limits,
                               bool *changed, sw_error *err)
{
    token t;
    sw_status st = find_token(config, key, SWI_JSON_OBJECT_BEGIN, limits, &t, err);
    if (st != SW_OK || !t.found)
        return st;
    return replace(config, whole_member(config, key, t), "", changed, err);
}

sw_status swi_assets_adjust(swi_assets *assets, const char *dtype, bool untie, bool dequantised,
                            const sw_limits *limits, bool *changed, sw_error *err)
{
    static const char *const keys[] = {"torch_dtype", "dtype"};
    swi_asset *config = find_config(assets);
    sw_status st = SW_OK;
    token t;
    char text[64];
    *changed = false;
    if (config == NULL)
        return SW_OK;
    if (dtype != NULL && strlen(dtype) + 3 <= sizeof text) {
        text[0] = '"';
        memcpy(text + 1, dtype, strlen(dtype));
        memcpy(text + 1 + strlen(dtype), "\"", 2);
        for (size_t i = 0; st == SW_OK && i < 2; i++) {
            st = find_token(config, keys[i], SWI_JSON_STRING, limits, &t, err);
            if (st == SW_OK)
                st = replace(config, t, text, changed, err);
        }
    }
    if (st == SW_OK && dequantised)
        st = remove_member(config, "quantization_config", limits, changed, err);
    if (st == SW_OK && untie) {
        st = find_token(config, "tie_word_embeddings", SWI_JSON_TRUE, limits, &t, err);
        if (st == SW_OK)
            st = replace(config, t, "false", changed, err);
    }
    return st == SW_OK ? SW_OK : swi_error_prefix(err, "config.json");
}
