/*
 * Reading a manifest. In this order, so that each step may lean on those before it:
 *   1. format and version, as any JSON document says them
 *   2. canonical form, of members that are not known here too
 *   3. the members
 *   4. the root
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "codec/json.h"
#include "codec/json_canon.h"
#include "native/manifest_internal.h"

#define MESHES_MAX 65536
#define LAYOUTS_MAX 65536

/* A layout whose mesh may not be read yet. */
typedef struct raw_layout {
    swi_native_layout layout;
    bool has_kind, has_mesh, has_placements;
    uint32_t placements;
    uint64_t offset_bytes;
} raw_layout;

typedef struct parse {
    swi_json_reader *json;
    const char *member; /* that is being read */
    swi_native_manifest m;
    bool is_ours; /* "format" is "shardwright" */
    raw_layout *layouts;
    size_t root_value_at;
} parse;

typedef sw_status (*read_fn)(parse *p, const swi_json_event *value, void *into, sw_error *err);

/* A member of an object: read into a struct at `offset` of it. */
typedef struct member {
    const char *name;
    read_fn read;
    size_t offset;
    bool optional;
} member;

/* ---- objects and lists --------------------------------------------------------------------- */

static sw_status wrong(const parse *p, const swi_json_event *at, const char *what, sw_error *err)
{
    return swi_fail_at(err, SW_ERR_FORMAT, SWI_MANIFEST_CLAUSE, at->offset_bytes,
                       "member \"%s\": %s", p->member, what);
}

static sw_status expect(const parse *p, const swi_json_event *value, swi_json_kind kind,
                        sw_error *err)
{
    if (value->kind == kind)
        return SW_OK;
    return swi_fail_at(err, SW_ERR_FORMAT, SWI_MANIFEST_CLAUSE, value->offset_bytes,
                       "member \"%s\": expected %s, found %s", p->member, swi_json_kind_name(kind),
                       swi_json_kind_name(value->kind));
}

static size_t find_member(const member *members, size_t count, const swi_json_event *key)
{
    size_t i = 0;
    while (i < count && (strlen(members[i].name) != key->size ||
                         memcmp(members[i].name, key->text, key->size) != 0))
        i++;
    return i;
}

/* Members that are not known are passed over: a newer minor version may have them. */
static sw_status read_object(parse *p, const swi_json_event *value, const member *members,
                             size_t count, void *into, sw_error *err)
{
    uint64_t seen = 0;
    swi_json_event event;
    sw_status status = expect(p, value, SWI_JSON_OBJECT_BEGIN, err);
    while (status == SW_OK) {
        status = swi_json_next(p->json, &event, err);
        if (status != SW_OK || event.kind == SWI_JSON_OBJECT_END)
            break;
        size_t i = find_member(members, count, &event);
        if (i == count) {
            status = swi_json_skip(p->json, err);
            continue;
        }
        seen |= (uint64_t)1 << i;
        status = swi_json_next(p->json, &event, err);
        p->member = members[i].name;
        if (status == SW_OK)
            status = members[i].read(p, &event, (uint8_t *)into + members[i].offset, err);
    }
    for (size_t i = 0; i < count && status == SW_OK; i++)
        if ((seen >> i & 1) == 0 && !members[i].optional)
            return swi_fail_at(err, SW_ERR_FORMAT, SWI_MANIFEST_CLAUSE, value->offset_bytes,
                               "member \"%s\" is missing", members[i].name);
    return status;
}

typedef struct list {
    size_t item_bytes, max;
    read_fn read; /* of an item */
} list;

/* Into the arena. */
static sw_status read_list(parse *p, const swi_json_event *value, const list *kind, void **items,
                           size_t *count, sw_error *err)
{
    const char *outer = p->member;
    void *grown = NULL, *room;
    size_t capacity = 0, n = 0;
    swi_json_event event;
    sw_status status = expect(p, value, SWI_JSON_ARRAY_BEGIN, err);
    while (status == SW_OK) {
        status = swi_json_next(p->json, &event, err);
        if (status != SW_OK || event.kind == SWI_JSON_ARRAY_END)
            break;
        if (n == kind->max)
            status = swi_fail_at(err, SW_ERR_LIMIT, SWI_MANIFEST_CLAUSE, event.offset_bytes,
                                 "member \"%s\": more than %zu", outer, kind->max);
        else
            status = swi_grow_array(&grown, &capacity, n + 1, kind->item_bytes, err);
        if (status == SW_OK)
            status = kind->read(p, &event, (uint8_t *)grown + n++ * kind->item_bytes, err);
        p->member = outer;
    }
    if (status == SW_OK)
        status = swi_arena_alloc(&p->m.arena, n * kind->item_bytes, &room, err);
    if (status == SW_OK) {
        if (n > 0)
            memcpy(room, grown, n * kind->item_bytes);
        *items = room;
        *count = n;
    }
    free(grown);
    return status;
}

/* ---- scalars ------------------------------------------------------------------------------- */

static sw_status read_text(parse *p, const swi_json_event *value, void *into, sw_error *err)
{
    sw_status status = expect(p, value, SWI_JSON_STRING, err);
    if (status != SW_OK)
        return status;
    if (value->size > 0 && memchr(value->text, 0, value->size) != NULL)
        return wrong(p, value, "a text with the character 0 in it", err);
    return swi_arena_text(&p->m.arena, value->text, value->size, into, err);
}

static sw_status read_u64(parse *p, const swi_json_event *value, void *into, sw_error *err)
{
    sw_status status = expect(p, value, SWI_JSON_INT, err);
    if (status == SW_OK)
        *(uint64_t *)into = (uint64_t)value->integer; /* canonical: not negative */
    return status;
}

static sw_status read_u32(parse *p, const swi_json_event *value, void *into, sw_error *err)
{
    sw_status status = expect(p, value, SWI_JSON_INT, err);
    if (status != SW_OK)
        return status;
    if (value->integer < 0 || value->integer > UINT32_MAX)
        return wrong(p, value, "a number of 2^32 or more", err);
    *(uint32_t *)into = (uint32_t)value->integer;
    return SW_OK;
}

static sw_status read_digest(parse *p, const swi_json_event *value, void *into, sw_error *err)
{
    sw_status status = expect(p, value, SWI_JSON_STRING, err);
    if (status == SW_OK && !swi_digest_parse(value->text, value->size, into))
        return wrong(p, value, "expected 64 lower-case hex digits", err);
    return status;
}

/* ---- 1. format and version ----------------------------------------------------------------- */

static sw_status read_format(parse *p, const swi_json_event *value, void *into, sw_error *err)
{
    static const char name[] = "shardwright";
    (void)into;
    p->is_ours = value->kind == SWI_JSON_STRING && value->size == sizeof name - 1 &&
                 memcmp(value->text, name, sizeof name - 1) == 0;
    if (p->is_ours)
        return SW_OK;
    return wrong(p, value, "not \"shardwright\": no manifest of a native checkpoint", err);
}

static sw_status read_version(parse *p, const swi_json_event *value, void *into, sw_error *err)
{
    static const list kind = {.item_bytes = sizeof(uint32_t), .max = 2, .read = read_u32};
    swi_native_manifest *m = into;
    void *numbers;
    size_t count;
    sw_status status = read_list(p, value, &kind, &numbers, &count, err);
    if (status != SW_OK)
        return status;
    if (count != 2)
        return wrong(p, value, "expected two numbers", err);
    m->major = ((const uint32_t *)numbers)[0];
    m->minor = ((const uint32_t *)numbers)[1];
    return SW_OK;
}

/* ---- 3. the members ------------------------------------------------------------------------ */

static sw_status read_save_id(parse *p, const swi_json_event *value, void *into, sw_error *err)
{
    static const char rest[] = "00000000000000000000000000000000";
    char text[SWI_DIGEST_TEXT];
    swi_digest wide;
    sw_status status = expect(p, value, SWI_JSON_STRING, err);
    if (status != SW_OK)
        return status;
    memcpy(text + sizeof rest - 1, rest, sizeof rest);
    if (value->size == sizeof rest - 1)
        memcpy(text, value->text, value->size);
    if (value->size != sizeof rest - 1 || !swi_digest_parse(text, SWI_DIGEST_TEXT - 1, &wide))
        return wrong(p, value, "expected 32 lower-case hex digits", err);
    memcpy(into, wide.bytes, SWI_SAVE_ID_BYTES);
    return SW_OK;
}

static sw_status read_content(parse *p, const swi_json_event *value, void *into, sw_error *err)
{
    swi_native_manifest *m = into;
    m->has_content = value->kind != SWI_JSON_STRING || value->size > 0;
    return m->has_content ? read_digest(p, value, &m->content, err) : SW_OK;
}

static sw_status read_root(parse *p, const swi_json_event *value, void *into, sw_error *err)
{
    p->root_value_at = value->offset_bytes;
    return read_digest(p, value, into, err);
}

static sw_status read_file(parse *p, const swi_json_event *value, void *into, sw_error *err)
{
    static const member members[] = {
        {"bytes", read_u64, offsetof(swi_native_file, bytes), false},
        {"digest", read_digest, offsetof(swi_native_file, digest), false},
        {"file", read_text, offsetof(swi_native_file, file), false},
    };
    return read_object(p, value, members, sizeof members / sizeof members[0], into, err);
}

static sw_status read_named_file(parse *p, const swi_json_event *value, void *into,
                                 const char *name, sw_error *err)
{
    swi_native_file *file = into;
    const char *outer = p->member;
    sw_status status = read_file(p, value, file, err);
    p->member = outer;
    if (status == SW_OK && strcmp(file->file, name) != 0)
        return wrong(p, value, "its file has another name than every checkpoint gives it", err);
    return status;
}

static sw_status read_table(parse *p, const swi_json_event *value, void *into, sw_error *err)
{
    return read_named_file(p, value, into, SWI_NATIVE_TABLE, err);
}

static sw_status read_state(parse *p, const swi_json_event *value, void *into, sw_error *err)
{
    return read_named_file(p, value, into, SWI_NATIVE_STATE, err);
}

static sw_status read_shards(parse *p, const swi_json_event *value, void *into, sw_error *err)
{
    static const list kind = {sizeof(swi_native_file), SWI_NATIVE_RANKS_MAX, read_file};
    swi_native_manifest *m = into;
    void *items;
    sw_status status = read_list(p, value, &kind, &items, &m->shard_count, err);
    if (status != SW_OK)
        return status;
    m->shards = items;
    const char *what = swi_manifest_wrong_shards(m);
    return what != NULL ? wrong(p, value, what, err) : SW_OK;
}

static sw_status read_assets(parse *p, const swi_json_event *value, void *into, sw_error *err)
{
    static const list kind = {sizeof(swi_native_file), SIZE_MAX, read_file};
    swi_native_manifest *m = into;
    void *items;
    sw_status status = read_list(p, value, &kind, &items, &m->asset_count, err);
    if (status != SW_OK)
        return status;
    m->assets = items;
    const char *what = swi_manifest_wrong_assets(m);
    return what != NULL ? wrong(p, value, what, err) : SW_OK;
}

static sw_status read_axis(parse *p, const swi_json_event *value, void *into, sw_error *err)
{
    static const member members[] = {
        {"name", read_text, offsetof(swi_native_axis, name), false},
        {"size", read_u64, offsetof(swi_native_axis, size), false},
    };
    return read_object(p, value, members, sizeof members / sizeof members[0], into, err);
}

static sw_status read_axes(parse *p, const swi_json_event *value, void *into, sw_error *err)
{
    static const list kind = {sizeof(swi_native_axis), SWI_NATIVE_MESH_AXES_MAX, read_axis};
    swi_native_mesh *mesh = into;
    void *items;
    size_t count;
    sw_status status = read_list(p, value, &kind, &items, &count, err);
    if (status != SW_OK)
        return status;
    mesh->axes = (uint32_t)count;
    if (count > 0)
        memcpy(mesh->axis, items, count * sizeof *mesh->axis);
    const char *what = swi_manifest_wrong_mesh(mesh);
    return what != NULL ? wrong(p, value, what, err) : SW_OK;
}

static sw_status read_mesh(parse *p, const swi_json_event *value, void *into, sw_error *err)
{
    static const member members[] = {{"axes", read_axes, 0, false}};
    return read_object(p, value, members, 1, into, err);
}

static sw_status read_meshes(parse *p, const swi_json_event *value, void *into, sw_error *err)
{
    static const list kind = {sizeof(swi_native_mesh), MESHES_MAX, read_mesh};
    swi_native_manifest *m = into;
    void *items;
    sw_status status = read_list(p, value, &kind, &items, &m->mesh_count, err);
    if (status == SW_OK)
        m->meshes = items;
    return status;
}

/* ---- layouts ------------------------------------------------------------------------------- */

static sw_status read_kind(parse *p, const swi_json_event *value, void *into, sw_error *err)
{
    static const char *const names[] = {"dtensor", "flat", "boxes"};
    raw_layout *raw = into;
    sw_status status = expect(p, value, SWI_JSON_STRING, err);
    if (status != SW_OK)
        return status;
    for (int i = 0; i < 3; i++) {
        if (value->size != strlen(names[i]) || memcmp(value->text, names[i], value->size) != 0)
            continue;
        raw->layout.kind = (swi_native_layout_kind)i;
        return SW_OK;
    }
    return wrong(p, value, "expected \"dtensor\", \"flat\" or \"boxes\"", err);
}

static sw_status read_layout_mesh(parse *p, const swi_json_event *value, void *into, sw_error *err)
{
    raw_layout *raw = into;
    raw->has_mesh = true;
    return read_u32(p, value, &raw->layout.mesh, err);
}

static sw_status read_placement(parse *p, const swi_json_event *value, void *into, sw_error *err)
{
    swi_native_placement *placement = into;
    const char *op;
    size_t op_size;
    sw_status status = expect(p, value, SWI_JSON_STRING, err);
    if (status != SW_OK)
        return status;
    if (!swi_placement_read(value->text, value->size, placement, &op, &op_size))
        return wrong(p, value, "a placement is R, S(d), SS(d,f) or P(op)", err);
    if (placement->kind != SWI_NATIVE_PARTIAL)
        return SW_OK;
    return swi_arena_text(&p->m.arena, op, op_size, &placement->op, err);
}

static sw_status read_placements(parse *p, const swi_json_event *value, void *into, sw_error *err)
{
    static const list kind = {sizeof(swi_native_placement), SWI_NATIVE_MESH_AXES_MAX,
                              read_placement};
    raw_layout *raw = into;
    void *items;
    size_t count;
    sw_status status = read_list(p, value, &kind, &items, &count, err);
    if (status != SW_OK)
        return status;
    raw->has_placements = true;
    raw->placements = (uint32_t)count;
    if (count > 0)
        memcpy(raw->layout.at, items, count * sizeof *raw->layout.at);
    return SW_OK;
}

static sw_status read_layout(parse *p, const swi_json_event *value, void *into, sw_error *err)
{
    static const member members[] = {
        {"kind", read_kind, 0, false},
        {"mesh", read_layout_mesh, 0, true},
        {"placements", read_placements, 0, true},
    };
    raw_layout *raw = into;
    raw->offset_bytes = value->offset_bytes;
    return read_object(p, value, members, sizeof members / sizeof members[0], into, err);
}

static sw_status read_layouts(parse *p, const swi_json_event *value, void *into, sw_error *err)
{
    static const list kind = {sizeof(raw_layout), LAYOUTS_MAX, read_layout};
    swi_native_manifest *m = into;
    void *items;
    sw_status status = read_list(p, value, &kind, &items, &m->layout_count, err);
    if (status == SW_OK)
        p->layouts = items;
    return status;
}

/* Now that the meshes are known. */
static sw_status take_layouts(parse *p, sw_error *err)
{
    swi_native_manifest *m = &p->m;
    void *room;
    sw_status status = swi_arena_alloc(&m->arena, m->layout_count * sizeof *m->layouts, &room, err);
    if (status != SW_OK)
        return status;
    m->layouts = room;
    for (size_t i = 0; i < m->layout_count; i++) {
        const raw_layout *raw = &p->layouts[i];
        m->layouts[i] = raw->layout;
        if (raw->layout.kind != SWI_NATIVE_DTENSOR)
            continue;
        if (!raw->has_mesh || !raw->has_placements || raw->layout.mesh >= m->mesh_count ||
            raw->placements != m->meshes[raw->layout.mesh].axes)
            return swi_fail_at(err, SW_ERR_FORMAT, "NAT-6", raw->offset_bytes,
                               "layout %zu: a dtensor has a mesh that is there, and a placement "
                               "for each of its axes",
                               i);
    }
    return SW_OK;
}

/* ---- all ----------------------------------------------------------------------------------- */

static sw_status read_members(parse *p, const uint8_t *data, size_t size, const sw_limits *limits,
                              const member *members, size_t count, sw_error *err)
{
    swi_json_event event;
    sw_status status = swi_json_reader_make(data, size, limits, &p->json, err);
    if (status != SW_OK)
        return status;
    p->member = "";
    status = swi_json_next(p->json, &event, err);
    if (status == SW_OK && event.kind != SWI_JSON_OBJECT_BEGIN)
        status = swi_fail_at(err, SW_ERR_FORMAT, SWI_MANIFEST_CLAUSE, event.offset_bytes,
                             "expected an object, found %s", swi_json_kind_name(event.kind));
    if (status == SW_OK)
        status = read_object(p, &event, members, count, &p->m, err);
    if (status == SW_OK)
        status = swi_json_next(p->json, &event, err); /* DONE, or more than a document */
    swi_json_reader_free(p->json);
    p->json = NULL;
    return status;
}

static sw_status check_version(parse *p, const uint8_t *data, size_t size, const sw_limits *limits,
                               sw_error *err)
{
    static const member members[] = {
        {"format", read_format, 0, false},
        {"version", read_version, 0, false},
    };
    sw_status status = read_members(p, data, size, limits, members, 2, err);
    if (status == SW_OK && p->m.major != SWI_NATIVE_MAJOR)
        return swi_fail_at(err, SW_ERR_UNSUPPORTED, "NAT-2", 0,
                           "version %" PRIu32 ".%" PRIu32
                           " of the native format; this program reads version %d: use a newer one",
                           p->m.major, p->m.minor, SWI_NATIVE_MAJOR);
    return status;
}

static sw_status check_root(const parse *p, const uint8_t *data, size_t size, sw_error *err)
{
    static const char before[] = ",\"root\":";
    char text[SWI_DIGEST_TEXT];
    swi_digest root;
    size_t root_at = p->root_value_at - (sizeof before - 1);
    sw_status status = swi_manifest_root(data, size, root_at, &root, err);
    if (status != SW_OK || memcmp(&root, &p->m.root, sizeof root) == 0)
        return status;
    swi_digest_text(&root, text);
    return swi_fail_at(err, SW_ERR_CORRUPT, SWI_MANIFEST_CLAUSE, p->root_value_at,
                       "the root digest is not that of the text, which is %s: changed after it was "
                       "written",
                       text);
}

static sw_status read_all(parse *p, const uint8_t *data, size_t size, const sw_limits *limits,
                          sw_error *err)
{
    static const member members[] = {
        {"assets", read_assets, 0, false},
        {"content", read_content, 0, false},
        {"layouts", read_layouts, 0, false},
        {"meshes", read_meshes, 0, false},
        {"root", read_root, offsetof(swi_native_manifest, root), false},
        {"save_id", read_save_id, offsetof(swi_native_manifest, save_id), false},
        {"shards", read_shards, 0, false},
        {"state", read_state, offsetof(swi_native_manifest, state), false},
        {"table", read_table, offsetof(swi_native_manifest, table), false},
        {"tensors", read_u32, offsetof(swi_native_manifest, tensors), false},
        {"writer", read_text, offsetof(swi_native_manifest, writer), false},
    };
    sw_status status = check_version(p, data, size, limits, err);
    if (status == SW_OK)
        status = swi_json_check_canonical(data, size, limits, err);
    if (status == SW_OK)
        status =
            read_members(p, data, size, limits, members, sizeof members / sizeof members[0], err);
    if (status == SW_OK)
        status = take_layouts(p, err);
    if (status == SW_OK)
        status = check_root(p, data, size, err);
    return status;
}

sw_status swi_native_manifest_read(const uint8_t *data, size_t size, const sw_limits *limits,
                                   swi_native_manifest *out, sw_error *err)
{
    parse p = {0};
    sw_status status = read_all(&p, data, size, limits, err);
    if (status != SW_OK) {
        swi_arena_free(&p.m.arena);
        (void)swi_error_prefix(err, "%s", SWI_NATIVE_MANIFEST);
        return status;
    }
    *out = p.m;
    return SW_OK;
}

bool swi_native_manifest_looks(const uint8_t *head, size_t size)
{
    static const char start[] = "{\"assets\":[";
    static const member members[] = {{"format", read_format, 0, false}};
    parse p = {0};
    sw_error err = {0};
    size_t whole = swi_utf8_prefix(head, size); /* it may be cut within a character */
    sw_status status = read_members(&p, head, whole, NULL, members, 1, &err);
    if (status == SW_OK || p.is_ours)
        return true;
    /* Cut within the list of assets, which comes before the format. */
    return status == SW_ERR_FORMAT && err.offset_bytes == whole && whole >= sizeof start - 1 &&
           memcmp(head, start, sizeof start - 1) == 0;
}
