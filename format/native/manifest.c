/* What a manifest may hold, its root, and how it is written. Read by manifest_read.c. */
#include "native/manifest.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "codec/json_write.h"
#include "io/store.h"
#include "native/manifest_internal.h"

bool swi_native_layout_is_partial(const swi_native_manifest *manifest, size_t layout)
{
    const swi_native_layout *l = &manifest->layouts[layout];
    if (l->kind != SWI_NATIVE_DTENSOR)
        return false;
    for (uint32_t k = 0; k < manifest->meshes[l->mesh].axes; k++)
        if (l->at[k].kind == SWI_NATIVE_PARTIAL)
            return true;
    return false;
}

void swi_native_shard_name(uint32_t rank, uint32_t world, char name[SWI_NATIVE_SHARD_NAME])
{
    (void)snprintf(name, SWI_NATIVE_SHARD_NAME, "rank-%05" PRIu32 "-of-%05" PRIu32 ".sws", rank,
                   world);
}

void swi_native_manifest_free(swi_native_manifest *manifest)
{
    if (manifest == NULL)
        return;
    swi_arena_free(&manifest->arena);
    *manifest = (swi_native_manifest){0};
}

/* ---- what a manifest may hold -------------------------------------------------------------- */

const char *swi_manifest_wrong_mesh(const swi_native_mesh *mesh)
{
    if (mesh->axes == 0 || mesh->axes > SWI_NATIVE_MESH_AXES_MAX)
        return "a mesh has 1 to 8 axes";
    for (uint32_t i = 0; i < mesh->axes; i++) {
        if (!swi_utf8_valid(mesh->axis[i].name, strlen(mesh->axis[i].name)))
            return "the name of an axis is not text in UTF-8";
        if (mesh->axis[i].size == 0 || mesh->axis[i].size > INT64_MAX)
            return "an axis of a mesh has a size of at least 1";
        for (uint32_t k = 0; k < i; k++)
            if (strcmp(mesh->axis[i].name, mesh->axis[k].name) == 0)
                return "two axes of a mesh have the same name";
    }
    return NULL;
}

const char *swi_manifest_wrong_layout(const swi_native_layout *layout, uint32_t axes)
{
    for (uint32_t k = 0; layout->kind == SWI_NATIVE_DTENSOR && k < axes; k++) {
        const char *op;
        size_t op_size;
        char text[SWI_PLACEMENT_TEXT];
        swi_native_placement same;
        if (layout->at[k].kind == SWI_NATIVE_PARTIAL &&
            (layout->at[k].op == NULL || strlen(layout->at[k].op) > SWI_NATIVE_OP_MAX))
            return "a placement that is none";
        swi_placement_write(&layout->at[k], text);
        if (!swi_placement_read(text, strlen(text), &same, &op, &op_size))
            return "a placement that is none";
    }
    return NULL;
}

static bool ends_with(const char *name, const char *end)
{
    size_t size = strlen(name), tail = strlen(end);
    return size >= tail && strcmp(name + size - tail, end) == 0;
}

static bool is_asset_name(const char *name)
{
    sw_error unused;
    return name[0] != '.' && strchr(name, '/') == NULL && swi_path_check(name, &unused) == SW_OK &&
           strcmp(name, SWI_NATIVE_MANIFEST) != 0 && strcmp(name, SWI_NATIVE_TABLE) != 0 &&
           strcmp(name, SWI_NATIVE_STATE) != 0 && !ends_with(name, ".sws") &&
           !ends_with(name, ".sig");
}

const char *swi_manifest_wrong_assets(const swi_native_manifest *m)
{
    for (size_t i = 0; i < m->asset_count; i++) {
        if (!is_asset_name(m->assets[i].file))
            return "an asset has a plain name that no other file of a checkpoint has, no *.sws or "
                   "*.sig";
        if (i > 0 && strcmp(m->assets[i - 1].file, m->assets[i].file) >= 0)
            return "assets are in ascending order of their names";
    }
    return NULL;
}

const char *swi_manifest_wrong_shards(const swi_native_manifest *m)
{
    if (m->shard_count == 0 || m->shard_count > SWI_NATIVE_RANKS_MAX)
        return "there are 1 to 16384 shard files";
    for (size_t i = 0; i < m->shard_count; i++) {
        char want[SWI_NATIVE_SHARD_NAME];
        swi_native_shard_name((uint32_t)i, (uint32_t)m->shard_count, want);
        if (strcmp(m->shards[i].file, want) != 0)
            return "shard files are called rank-RRRRR-of-WWWWW.sws, by rank from 0";
    }
    return NULL;
}

/* Which a reader takes for a number of bytes. */
static bool are_sizes(const swi_native_file *files, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (files[i].bytes > INT64_MAX)
            return false;
    return true;
}

static const char *wrong_files(const swi_native_manifest *m)
{
    if (!are_sizes(m->shards, m->shard_count) || !are_sizes(m->assets, m->asset_count) ||
        !are_sizes(&m->table, 1) || !are_sizes(&m->state, 1))
        return "a file of 2^63 bytes or more";
    const char *what = swi_manifest_wrong_shards(m);
    if (what == NULL)
        what = swi_manifest_wrong_assets(m);
    if (what == NULL && (strcmp(m->table.file, SWI_NATIVE_TABLE) != 0 ||
                         strcmp(m->state.file, SWI_NATIVE_STATE) != 0))
        what = "the table is tensors.swt, the state is state.json";
    return what;
}

static const char *wrong_layouts(const swi_native_manifest *m)
{
    const char *what = NULL;
    for (size_t i = 0; i < m->mesh_count && what == NULL; i++)
        what = swi_manifest_wrong_mesh(&m->meshes[i]);
    for (size_t i = 0; i < m->layout_count && what == NULL; i++) {
        const swi_native_layout *layout = &m->layouts[i];
        if (layout->kind == SWI_NATIVE_DTENSOR && layout->mesh >= m->mesh_count)
            return "a layout of a mesh that is not there";
        what = swi_manifest_wrong_layout(
            layout, layout->kind == SWI_NATIVE_DTENSOR ? m->meshes[layout->mesh].axes : 0);
    }
    return what;
}

/* ---- the root ------------------------------------------------------------------------------ */

sw_status swi_manifest_root(const uint8_t *data, size_t size, size_t root_at, swi_digest *out,
                            sw_error *err)
{
    size_t behind = root_at + SWI_MANIFEST_ROOT_BYTES;
    const swi_bytes parts[] = {{data, root_at}, {data + behind, size - 1 - behind}};
    return swi_digest_bytes(parts, 2, out, err);
}

/* ---- writing: the members of every object in ascending order ------------------------------- */

static void write_digest(swi_json_writer *w, const char *key, const swi_digest *digest)
{
    char text[SWI_DIGEST_TEXT];
    swi_digest_text(digest, text);
    swi_json_key_str(w, key);
    swi_json_str(w, text);
}

static void write_file(swi_json_writer *w, const swi_native_file *file)
{
    swi_json_begin_object(w);
    swi_json_key_str(w, "bytes");
    swi_json_uint(w, file->bytes);
    write_digest(w, "digest", &file->digest);
    swi_json_key_str(w, "file");
    swi_json_str(w, file->file);
    swi_json_end(w);
}

static void write_files(swi_json_writer *w, const char *key, const swi_native_file *files,
                        size_t count)
{
    swi_json_key_str(w, key);
    swi_json_begin_array(w);
    for (size_t i = 0; i < count; i++)
        write_file(w, &files[i]);
    swi_json_end(w);
}

static void write_mesh(swi_json_writer *w, const swi_native_mesh *mesh)
{
    swi_json_begin_object(w);
    swi_json_key_str(w, "axes");
    swi_json_begin_array(w);
    for (uint32_t i = 0; i < mesh->axes; i++) {
        swi_json_begin_object(w);
        swi_json_key_str(w, "name");
        swi_json_str(w, mesh->axis[i].name);
        swi_json_key_str(w, "size");
        swi_json_uint(w, mesh->axis[i].size);
        swi_json_end(w);
    }
    swi_json_end(w);
    swi_json_end(w);
}

static void write_layout(swi_json_writer *w, const swi_native_manifest *m,
                         const swi_native_layout *layout)
{
    static const char *const kinds[] = {
        [SWI_NATIVE_DTENSOR] = "dtensor", [SWI_NATIVE_FLAT] = "flat", [SWI_NATIVE_BOXES] = "boxes"};
    swi_json_begin_object(w);
    swi_json_key_str(w, "kind");
    swi_json_str(w, kinds[layout->kind]);
    if (layout->kind == SWI_NATIVE_DTENSOR) {
        swi_json_key_str(w, "mesh");
        swi_json_uint(w, layout->mesh);
        swi_json_key_str(w, "placements");
        swi_json_begin_array(w);
        for (uint32_t k = 0; k < m->meshes[layout->mesh].axes; k++) {
            char text[SWI_PLACEMENT_TEXT];
            swi_placement_write(&layout->at[k], text);
            swi_json_str(w, text);
        }
        swi_json_end(w);
    }
    swi_json_end(w);
}

static void write_before_root(swi_json_writer *w, const swi_native_manifest *m)
{
    write_files(w, "assets", m->assets, m->asset_count);
    if (m->has_content) {
        write_digest(w, "content", &m->content);
    } else {
        swi_json_key_str(w, "content");
        swi_json_str(w, "");
    }
    swi_json_key_str(w, "format");
    swi_json_str(w, "shardwright");
    swi_json_key_str(w, "layouts");
    swi_json_begin_array(w);
    for (size_t i = 0; i < m->layout_count; i++)
        write_layout(w, m, &m->layouts[i]);
    swi_json_end(w);
    swi_json_key_str(w, "meshes");
    swi_json_begin_array(w);
    for (size_t i = 0; i < m->mesh_count; i++)
        write_mesh(w, &m->meshes[i]);
    swi_json_end(w);
}

static void write_behind_root(swi_json_writer *w, const swi_native_manifest *m)
{
    char id[2 * SWI_SAVE_ID_BYTES + 1];
    for (size_t i = 0; i < SWI_SAVE_ID_BYTES; i++)
        (void)snprintf(id + 2 * i, 3, "%02x", (unsigned)m->save_id[i]);
    swi_json_key_str(w, "save_id");
    swi_json_str(w, id);
    write_files(w, "shards", m->shards, m->shard_count);
    swi_json_key_str(w, "state");
    write_file(w, &m->state);
    swi_json_key_str(w, "table");
    write_file(w, &m->table);
    swi_json_key_str(w, "tensors");
    swi_json_uint(w, m->tensors);
    swi_json_key_str(w, "version");
    swi_json_begin_array(w);
    swi_json_uint(w, SWI_NATIVE_MAJOR);
    swi_json_uint(w, SWI_NATIVE_MINOR);
    swi_json_end(w);
    swi_json_key_str(w, "writer");
    swi_json_str(w, m->writer);
}

static sw_status check(const swi_native_manifest *m, sw_error *err)
{
    const char *what = wrong_files(m);
    if (what == NULL)
        what = wrong_layouts(m);
    if (what == NULL && !swi_utf8_valid(m->writer, strlen(m->writer)))
        what = "the writer's name is not text in UTF-8";
    if (what == NULL)
        return SW_OK;
    return swi_fail(err, SW_ERR_ARG, "%s: %s", SWI_NATIVE_MANIFEST, what);
}

/* Puts the root into the place that was left for it. */
static sw_status fill_root(swi_native_manifest *m, uint8_t *text, size_t size, size_t root_at,
                           sw_error *err)
{
    char digits[SWI_DIGEST_TEXT];
    swi_digest root;
    sw_status status = swi_manifest_root(text, size, root_at, &root, err);
    if (status != SW_OK)
        return status;
    swi_digest_text(&root, digits);
    memcpy(text + root_at + SWI_MANIFEST_ROOT_BYTES - SWI_DIGEST_TEXT, digits, SWI_DIGEST_TEXT - 1);
    m->root = root;
    return SW_OK;
}

sw_status swi_native_manifest_write(swi_native_manifest *manifest, swi_buf *out, sw_error *err)
{
    static const swi_digest none;
    swi_json_writer w;
    size_t start = out->size;
    sw_status status = check(manifest, err);
    if (status != SW_OK)
        return status;
    swi_json_start(&w, out, SWI_JSON_COMPACT);
    swi_json_begin_object(&w);
    write_before_root(&w, manifest);
    size_t root_at = out->size - start;
    write_digest(&w, "root", &none);
    write_behind_root(&w, manifest);
    swi_json_end(&w);
    status = swi_json_finish(&w, err);
    if (status == SW_OK)
        status = swi_buf_u8(out, '\n', err);
    if (status == SW_OK)
        status = fill_root(manifest, out->data + start, out->size - start, root_at, err);
    if (status != SW_OK)
        out->size = start;
    return status;
}
