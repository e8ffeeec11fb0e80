#include "check/oms.h"

#include <stdlib.h>
#include <string.h>

#include "check/oms_words.h"
#include "codec/json_write.h"

void swi_oms_free(swi_oms *oms)
{
    free(oms->items);
    free(oms->ignored);
    swi_arena_free(&oms->arena);
    *oms = (swi_oms){0};
}

sw_status swi_oms_add(swi_oms *oms, const char *name, const swi_digest *digest, sw_error *err)
{
    const char *copy;
    sw_status status = swi_grow_array((void **)&oms->items, &oms->capacity, oms->count + 1,
                                      sizeof *oms->items, err);
    if (status == SW_OK)
        status = swi_arena_text(&oms->arena, name, strlen(name), &copy, err);
    if (status == SW_OK)
        oms->items[oms->count++] = (swi_oms_resource){.name = copy, .digest = *digest};
    return status;
}

sw_status swi_oms_add_ignored(swi_oms *oms, const char *path, sw_error *err)
{
    const char *copy;
    sw_status status = swi_grow_array((void **)&oms->ignored, &oms->ignored_capacity,
                                      oms->ignored_count + 1, sizeof *oms->ignored, err);
    if (status == SW_OK)
        status = swi_arena_text(&oms->arena, path, strlen(path), &copy, err);
    if (status == SW_OK)
        oms->ignored[oms->ignored_count++] = copy;
    return status;
}

bool swi_oms_ignores(const swi_oms *oms, const char *path)
{
    for (size_t i = 0; i < oms->ignored_count; i++) {
        size_t size = strlen(oms->ignored[i]);
        if (strncmp(path, oms->ignored[i], size) == 0 && (path[size] == '\0' || path[size] == '/'))
            return true;
    }
    return false;
}

sw_status swi_oms_root(const swi_oms *oms, swi_digest *out, sw_error *err)
{
    swi_hasher *hasher;
    sw_status status = swi_hasher_make(&hasher, err);
    if (status != SW_OK)
        return status;
    status = swi_hasher_begin(hasher, err);
    for (size_t i = 0; i < oms->count && status == SW_OK; i++)
        status = swi_hasher_add(hasher, oms->items[i].digest.bytes, SWI_DIGEST_BYTES, err);
    if (status == SW_OK)
        status = swi_hasher_end(hasher, out, err);
    swi_hasher_free(hasher);
    return status;
}

/* ---- writing ------------------------------------------------------------------------------ */

static void write_pair(swi_json_writer *w, const char *key, const char *text)
{
    swi_json_key_str(w, key);
    swi_json_str(w, text);
}

static void write_subject(swi_json_writer *w, const char *name, const swi_digest *root)
{
    char text[SWI_DIGEST_TEXT];
    swi_digest_text(root, text);
    swi_json_key_str(w, "subject");
    swi_json_begin_array(w);
    swi_json_begin_object(w);
    write_pair(w, "name", name);
    swi_json_key_str(w, "digest");
    swi_json_begin_object(w);
    write_pair(w, "sha256", text);
    swi_json_end(w);
    swi_json_end(w);
    swi_json_end(w);
}

static void write_serialization(swi_json_writer *w, const swi_oms *oms)
{
    swi_json_key_str(w, "serialization");
    swi_json_begin_object(w);
    write_pair(w, "method", SWI_OMS_FILES);
    write_pair(w, "hash_type", SWI_OMS_HASH);
    swi_json_key_str(w, "allow_symlinks");
    swi_json_bool(w, false);
    swi_json_key_str(w, "ignore_paths");
    swi_json_begin_array(w);
    for (size_t i = 0; i < oms->ignored_count; i++)
        swi_json_str(w, oms->ignored[i]);
    swi_json_end(w);
    swi_json_end(w);
}

static void write_resources(swi_json_writer *w, const swi_oms *oms)
{
    swi_json_key_str(w, "resources");
    swi_json_begin_array(w);
    for (size_t i = 0; i < oms->count; i++) {
        char text[SWI_DIGEST_TEXT];
        swi_digest_text(&oms->items[i].digest, text);
        swi_json_begin_object(w);
        write_pair(w, "name", oms->items[i].name);
        write_pair(w, "algorithm", SWI_OMS_HASH);
        write_pair(w, "digest", text);
        swi_json_end(w);
    }
    swi_json_end(w);
}

sw_status swi_oms_write(const swi_oms *oms, swi_buf *out, sw_error *err)
{
    swi_digest root;
    swi_json_writer w;
    sw_status status = swi_oms_root(oms, &root, err);
    if (status != SW_OK)
        return status;
    swi_json_start(&w, out, SWI_JSON_COMPACT);
    swi_json_begin_object(&w);
    write_pair(&w, "_type", SWI_OMS_TYPE);
    write_subject(&w, oms->subject, &root);
    write_pair(&w, "predicateType", SWI_OMS_PREDICATE);
    swi_json_key_str(&w, "predicate");
    swi_json_begin_object(&w);
    write_serialization(&w, oms);
    write_resources(&w, oms);
    swi_json_end(&w);
    swi_json_end(&w);
    return swi_json_finish(&w, err);
}
