/*
 * Files of torch.save from a few words: tensors in nested dicts, as zip archives or as the stream
 * before 1.6.
 */
#ifndef TESTS_CONVERT_TORCH_FIXTURE_H
#define TESTS_CONVERT_TORCH_FIXTURE_H

#include "convert/fixture.h"
#include "format/recipe.h"

#define TORCH_STORAGES 64

typedef struct torch_world {
    swi_buf pickle; /* of the object, without its head and its STOP */
    swi_buf storages[TORCH_STORAGES];
    char keys[TORCH_STORAGES][24];
    const char *class_name[TORCH_STORAGES];
    size_t element[TORCH_STORAGES];
    size_t count;
    bool legacy; /* ids of six parts */
} torch_world;

static inline torch_world *torch_begin(bool legacy)
{
    torch_world *w = calloc(1, sizeof *w);
    assert_non_null(w);
    w->legacy = legacy;
    return w;
}

/* More of the object, as a recipe (format/recipe.h). */
static inline void torch_say(torch_world *w, const char *text)
{
    recipe(&w->pickle, text);
}

static inline void torch_key(torch_world *w, const char *key)
{
    recipe_text(&w->pickle, key, strlen(key));
}

/* A storage of these bytes; its number. */
static inline size_t torch_storage(torch_world *w, const char *class_name, size_t element,
                                   const void *data, size_t bytes)
{
    assert_true(w->count < TORCH_STORAGES);
    size_t i = w->count++;
    snprintf(w->keys[i], sizeof w->keys[i], "%zu", i);
    w->class_name[i] = class_name;
    w->element[i] = element;
    recipe_bytes(&w->storages[i], data, bytes);
    return i;
}

/* The call that rebuilds a view of a storage, as one value on the stack. */
static inline void torch_view(torch_world *w, size_t storage, int64_t start, uint32_t axes,
                              const int64_t *shape, const int64_t *stride)
{
    char text[512];
    int n = snprintf(text, sizeof text,
                     "M:torch._utils/_rebuild_tensor_v2 ( ( 'storage' M:torch/%s '%s' 'cpu' %zu %s "
                     "t Q %lld ( ",
                     w->class_name[storage], w->keys[storage],
                     w->storages[storage].size / w->element[storage], w->legacy ? "N" : "",
                     (long long)start);
    for (uint32_t k = 0; k < axes; k++)
        n += snprintf(text + n, sizeof text - (size_t)n, "%lld ", (long long)shape[k]);
    n += snprintf(text + n, sizeof text - (size_t)n, "t ( ");
    for (uint32_t k = 0; k < axes; k++)
        n += snprintf(text + n, sizeof text - (size_t)n, "%lld ", (long long)stride[k]);
    n += snprintf(text + n, sizeof text - (size_t)n, "t false M:collections/OrderedDict ) R t R");
    assert_true((size_t)n < sizeof text);
    torch_say(w, text);
}

/* A float32 tensor on a storage of its own, whose elements are data[]. */
static inline void torch_floats(torch_world *w, const char *key, uint32_t axes,
                                const int64_t *shape, const float *data)
{
    int64_t stride[SW_MAX_AXES] = {0};
    int64_t n = 1;
    for (uint32_t k = axes; k-- > 0; n *= shape[k])
        stride[k] = n;
    size_t s = torch_storage(w, "FloatStorage", 4, data, (size_t)n * 4);
    if (key != NULL)
        torch_key(w, key);
    torch_view(w, s, 0, axes, shape, stride);
}

/* The same with elements base, base + 1 ... */
static inline void torch_ramp(torch_world *w, const char *key, uint32_t axes, const int64_t *shape,
                              float base)
{
    size_t n = 1;
    for (uint32_t k = 0; k < axes; k++)
        n *= (size_t)shape[k];
    float *data = calloc(n + 1, sizeof *data);
    assert_non_null(data);
    for (size_t i = 0; i < n; i++)
        data[i] = base + (float)i;
    torch_floats(w, key, axes, shape, data);
    free(data);
}

static inline void torch_free(torch_world *w)
{
    for (size_t i = 0; i < w->count; i++)
        swi_buf_free(&w->storages[i]);
    swi_buf_free(&w->pickle);
    free(w);
}

static inline void torch_pickle(torch_world *w, swi_buf *out)
{
    recipe(out, "proto:2");
    recipe_bytes(out, w->pickle.data, w->pickle.size);
    recipe(out, ".");
}

typedef struct torch_file_options {
    const char *byteorder; /* NULL: little */
    bool no_crc;           /* of any record */
    bool skip_data;        /* storages without CRC and without data */
} torch_file_options;

static inline void torch_zip(torch_world *w, swi_buf *out, const torch_file_options *options)
{
    static const torch_file_options plain;
    const torch_file_options *o = options ? options : &plain;
    const char *order = o->byteorder ? o->byteorder : "little";
    recipe_record records[TORCH_STORAGES + 4] = {{0}};
    char names[TORCH_STORAGES][40];
    swi_buf pickle = {0};
    size_t n = 0;
    torch_pickle(w, &pickle);
    records[n++] = (recipe_record){"archive/data.pkl", pickle.data, pickle.size, o->no_crc};
    records[n++] = (recipe_record){"archive/byteorder", order, strlen(order), o->no_crc};
    for (size_t i = 0; i < w->count; i++) {
        snprintf(names[i], sizeof names[i], "archive/data/%s", w->keys[i]);
        if (o->skip_data)
            memset(w->storages[i].data, 0, w->storages[i].size);
        records[n++] = (recipe_record){names[i], w->storages[i].data, w->storages[i].size,
                                       o->no_crc || o->skip_data};
    }
    records[n] = (recipe_record){"archive/version", "3\n", 2, o->no_crc};
    recipe_archive(out, records);
    swi_buf_free(&pickle);
}

static inline void torch_write_zip(torch_world *w, const char *path,
                                   const torch_file_options *options)
{
    swi_buf out = {0};
    torch_zip(w, &out, options);
    harness_write(path, out.data, out.size);
    swi_buf_free(&out);
}

static inline void torch_number(swi_buf *out, uint64_t number)
{
    uint8_t bytes[8];
    for (int i = 0; i < 8; i++)
        bytes[i] = (uint8_t)(number >> (8 * i));
    recipe_bytes(out, bytes, 8);
}

/* The five pickles up to the storages. */
static inline void torch_legacy_head(torch_world *w, swi_buf *out)
{
    static const uint8_t magic[] = {0x80, 0x02, 0x8A, 0x0A, 0x6C, 0xFC, 0x9C, 0x46,
                                    0xF9, 0x20, 0x6A, 0xA8, 0x50, 0x19, 0x2E};
    recipe_bytes(out, magic, sizeof magic);
    recipe(out, "proto:2 1001 . proto:2 } ( 'protocol_version' 1001 'little_endian' true u .");
    torch_pickle(w, out);
    recipe(out, "proto:2 ] (");
    for (size_t i = 0; i < w->count; i++)
        recipe_text(out, w->keys[i], strlen(w->keys[i]));
    recipe(out, "e .");
}

static inline void torch_write_legacy(torch_world *w, const char *path)
{
    swi_buf out = {0};
    torch_legacy_head(w, &out);
    for (size_t i = 0; i < w->count; i++) {
        torch_number(&out, w->storages[i].size / w->element[i]);
        recipe_bytes(&out, w->storages[i].data, w->storages[i].size);
    }
    harness_write(path, out.data, out.size);
    swi_buf_free(&out);
}

#endif
