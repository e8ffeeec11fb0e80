/* `.metadata`: the pickle becomes tables. */
#include "container/dcp_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/sniff.h"
#include "base/text.h"
#include "container/torch_file.h"

#define PART_INDEX 1u

/* ---- the fields of Metadata -------------------------------------------------------------- */

/* Tensors of one state_dict_metadata; a row that two names share gets chunks of its own. */
static sw_status add_tensor(swi_dcp_parsing *p, uint32_t name, uint32_t built, sw_error *err)
{
    swi_dcp_meta *m = p->meta;
    swi_dcp_tensor_row row = p->built[built];
    sw_status st;
    if (row.name != SWI_DCP_NONE) {
        void *chunks = m->chunks;
        if (row.chunk_count > p->limits.pieces - m->chunk_count ||
            row.chunk_count >= UINT32_MAX - m->chunk_count)
            return swi_fail(err, SW_ERR_LIMIT, "DCP index: more than %" PRIu64 " chunks",
                            p->limits.pieces);
        st = swi_grow_array(&chunks, &m->chunk_capacity, m->chunk_count + row.chunk_count,
                            sizeof(m->chunks[0]), err);
        m->chunks = chunks;
        if (st != SW_OK)
            return st;
        if (row.chunk_count > 0)
            memcpy(m->chunks + m->chunk_count, m->chunks + row.chunk_first,
                   row.chunk_count * sizeof(m->chunks[0]));
        row.chunk_first = (uint32_t)m->chunk_count;
        m->chunk_count += row.chunk_count;
    }
    p->built[built].name = name;
    row.name = name;
    void *room = m->tensors;
    st = swi_grow_array(&room, &m->tensor_capacity, m->tensor_count + 1, sizeof(row), err);
    m->tensors = room;
    if (st == SW_OK)
        m->tensors[m->tensor_count++] = row;
    return st;
}

static sw_status add_object(swi_dcp_parsing *p, uint32_t name, sw_error *err)
{
    swi_dcp_meta *m = p->meta;
    void *room = m->objects;
    sw_status st =
        swi_grow_array(&room, &m->object_capacity, m->object_count + 1, sizeof(m->objects[0]), err);
    m->objects = room;
    if (st == SW_OK)
        m->objects[m->object_count++] = (swi_dcp_object_row){name, SWI_DCP_NONE};
    return st;
}

static sw_status read_items(swi_dcp_parsing *p, const sw_value_graph *g, sw_value dict,
                            sw_error *err)
{
    char room[256];
    swi_quoted q;
    size_t count = sw_value_size(g, dict);
    sw_status st = SW_OK;
    for (size_t i = 0; i < count && st == SW_OK; i++) {
        sw_value key, value;
        uint32_t name, row;
        if (!sw_value_pair(g, dict, i, &key, &value))
            break;
        st = swi_dcp_name(p, g, key, &name, err);
        if (st != SW_OK)
            break;
        if (swi_dcp_record(value, SWI_DCP_K_TENSOR, &row))
            st = add_tensor(p, name, row, err);
        else if (swi_dcp_record(value, SWI_DCP_K_BYTES, &row))
            st = add_object(p, name, err);
        else
            st = swi_dcp_fail(err, SW_ERR_UNSUPPORTED, "DCP-3", "DCP index: %s is %s",
                              swi_quote_str(&q, swi_names_at(p->meta->names, name, NULL)),
                              swi_dcp_describe(g, value, room, sizeof(room)));
    }
    return st;
}

static sw_status read_places(swi_dcp_parsing *p, const sw_value_graph *g, sw_value dict,
                             sw_error *err)
{
    char room[256];
    size_t count = sw_value_size(g, dict);
    for (size_t i = 0; i < count; i++) {
        sw_value key, value;
        uint32_t k, info;
        if (!sw_value_pair(g, dict, i, &key, &value))
            break;
        if (!swi_dcp_record(key, SWI_DCP_K_KEY, &k))
            return swi_dcp_fail(err, SW_ERR_UNSUPPORTED, "DCP-3",
                                "DCP index: a key of storage_data is %s",
                                swi_dcp_describe(g, key, room, sizeof(room)));
        if (!swi_dcp_record(value, SWI_DCP_K_INFO, &info))
            return swi_dcp_fail(err, SW_ERR_UNSUPPORTED, "DCP-3",
                                "DCP index: a value of storage_data is %s",
                                swi_dcp_describe(g, value, room, sizeof(room)));
        p->keys[k].info = info;
    }
    return SW_OK;
}

/* One part of a path: its text, or a position in a list as decimal. */
static sw_status add_part(swi_dcp_parsing *p, const sw_value_graph *g, sw_value v, bool *known,
                          sw_error *err)
{
    swi_dcp_meta *m = p->meta;
    const uint8_t *text;
    size_t size;
    int64_t number;
    char digits[24];
    uint32_t id, is_index = 0;
    if (sw_value_get_kind(g, v) == SW_VALUE_INT && sw_value_int(g, v, &number)) {
        size = (size_t)snprintf(digits, sizeof(digits), "%" PRId64, number);
        text = (const uint8_t *)digits;
        is_index = PART_INDEX;
    } else if (sw_value_get_kind(g, v) != SW_VALUE_STR || !sw_value_bytes(g, v, &text, &size) ||
               memchr(text, 0, size) != NULL) {
        *known = false;
        return SW_OK;
    }
    void *room = m->parts;
    sw_status st =
        swi_grow_array(&room, &m->part_capacity, m->part_count + 1, sizeof(uint32_t), err);
    m->parts = room;
    if (st == SW_OK)
        st = is_index ? swi_names_add(m->names, text, size, &id, NULL, err)
                      : swi_dcp_name(p, g, v, &id, err);
    if (st == SW_OK && id > UINT32_MAX / 2)
        st = swi_fail(err, SW_ERR_LIMIT, "DCP index: more names than can be kept");
    if (st == SW_OK)
        m->parts[m->part_count++] = id << 1 | is_index;
    return st;
}

static sw_status add_path(swi_dcp_parsing *p, const sw_value_graph *g, sw_value path,
                          swi_dcp_path_row *row, sw_error *err)
{
    swi_dcp_meta *m = p->meta;
    size_t count = sw_value_size(g, path), first = m->part_count;
    bool known =
        sw_value_get_kind(g, path) == SW_VALUE_TUPLE || sw_value_get_kind(g, path) == SW_VALUE_LIST;
    sw_status st = SW_OK;
    if (count > p->parts_max - m->part_count)
        return swi_fail(err, SW_ERR_LIMIT, "DCP index: more than %" PRIu64 " parts of paths",
                        p->parts_max);
    for (size_t i = 0; i < count && known && st == SW_OK; i++) {
        sw_value part;
        if (sw_value_item(g, path, i, &part))
            st = add_part(p, g, part, &known, err);
    }
    if (!known)
        m->part_count = first;
    *row = (swi_dcp_path_row){(uint32_t)first, (uint32_t)(m->part_count - first)};
    return st;
}

/* planner_data: what is not a path of names and numbers is as if it were not there. */
static sw_status read_paths(swi_dcp_parsing *p, const sw_value_graph *g, sw_value dict,
                            sw_error *err)
{
    swi_dcp_meta *m = p->meta;
    size_t count = sw_value_size(g, dict), capacity = 0;
    sw_status st = SW_OK;
    for (size_t i = 0; i < count && st == SW_OK; i++) {
        sw_value key, value;
        uint32_t name;
        if (!sw_value_pair(g, dict, i, &key, &value) || sw_value_get_kind(g, key) != SW_VALUE_STR)
            continue;
        st = swi_dcp_name(p, g, key, &name, err);
        void *room = m->paths;
        if (st == SW_OK)
            st = swi_grow_array(&room, &capacity, (size_t)name + 1, sizeof(m->paths[0]), err);
        m->paths = room;
        if (st != SW_OK)
            break;
        if (m->path_count <= name)
            m->path_count = (size_t)name + 1;
        st = add_path(p, g, value, &m->paths[name], err);
    }
    return st;
}

static void read_version(swi_dcp_meta *m, const sw_value_graph *g, sw_value v)
{
    const uint8_t *text;
    size_t size;
    if (sw_value_get_kind(g, v) != SW_VALUE_STR || !sw_value_bytes(g, v, &text, &size))
        return;
    for (size_t i = 0; i < size && i + 1 < sizeof(m->version); i++)
        m->version[i] = text[i] > ' ' && text[i] < 0x7F ? (char)text[i] : '?';
}

static bool is_metadata(const sw_value_graph *g, sw_value v, sw_value_object *object)
{
    const char *module, *name;
    return sw_value_get_object(g, v, object) &&
           sw_value_global(g, object->callable, &module, &name) && strcmp(name, "Metadata") == 0 &&
           (strcmp(module, "torch.distributed.checkpoint.metadata") == 0 ||
            strcmp(module, "torch.distributed._shard.checkpoint.metadata") == 0);
}

static sw_status need_dict(const sw_value_graph *g, sw_value state, const char *field,
                           sw_value *out, sw_error *err)
{
    char room[256];
    bool there = swi_value_get(g, state, field, out);
    if (there && sw_value_get_kind(g, *out) == SW_VALUE_DICT)
        return SW_OK;
    return swi_dcp_fail(err, SW_ERR_FORMAT, "DCP-3", "DCP index: Metadata.%s is %s", field,
                        there ? swi_dcp_describe(g, *out, room, sizeof(room)) : "missing");
}

static sw_status read_metadata(swi_dcp_parsing *p, const sw_value_graph *g, sw_value root,
                               sw_error *err)
{
    sw_value_object object;
    sw_value v;
    char room[256];
    if (!is_metadata(g, root, &object))
        return swi_dcp_fail(err, SW_ERR_FORMAT, "DCP-2", "not a DCP index: the pickle holds %s",
                            swi_dcp_describe(g, root, room, sizeof(room)));
    sw_status st = need_dict(g, object.state, "state_dict_metadata", &v, err);
    if (st == SW_OK)
        st = read_items(p, g, v, err);
    if (st == SW_OK && !(swi_value_get(g, object.state, "storage_data", &v) &&
                         sw_value_get_kind(g, v) == SW_VALUE_NONE)) {
        st = need_dict(g, object.state, "storage_data", &v, err);
        if (st == SW_OK)
            st = read_places(p, g, v, err);
    }
    if (st == SW_OK && swi_value_get(g, object.state, "planner_data", &v) &&
        sw_value_get_kind(g, v) == SW_VALUE_DICT)
        st = read_paths(p, g, v, err);
    if (st == SW_OK && swi_value_get(g, object.state, "version", &v))
        read_version(p->meta, g, v);
    return st;
}

/* ---- what the tables must agree on ------------------------------------------------------- */

/* Chunks have as many axes as their tensor (DCP-4). */
static sw_status check_axes(const swi_dcp_meta *m, sw_error *err)
{
    for (size_t t = 0; t < m->tensor_count; t++) {
        const swi_dcp_tensor_row *row = &m->tensors[t];
        uint32_t axes = swi_dcp_size_axes(m, row->size);
        for (uint32_t i = 0; i < row->chunk_count; i++) {
            const swi_dcp_chunk_row *chunk = &m->chunks[row->chunk_first + i];
            if (swi_dcp_size_axes(m, chunk->offset) == axes &&
                swi_dcp_size_axes(m, chunk->length) == axes)
                continue;
            swi_quoted q;
            return swi_dcp_fail(err, SW_ERR_CORRUPT, "DCP-4",
                                "DCP index: tensor %s has %" PRIu32 " axes, its chunk %" PRIu32
                                " has %" PRIu32 " offsets and %" PRIu32 " sizes",
                                swi_quote_str(&q, swi_names_at(m->names, row->name, NULL)), axes, i,
                                swi_dcp_size_axes(m, chunk->offset),
                                swi_dcp_size_axes(m, chunk->length));
        }
    }
    return SW_OK;
}

/* The lists of transforms as texts that can be handed out. */
static sw_status split_transforms(swi_dcp_meta *m, sw_error *err)
{
    uint32_t lists = swi_names_count(m->transforms);
    size_t parts = 0;
    void *room;
    for (uint32_t l = 0; l < lists; l++) {
        for (const char *s = swi_names_at(m->transforms, l, NULL); *s != 0; s++)
            parts += *s == '\n';
        parts++;
    }
    sw_status st = swi_alloc_array((size_t)lists + 1, sizeof(size_t), &room, err);
    if (st != SW_OK)
        return st;
    m->transform_first = room;
    st = swi_alloc_array(parts + 1, sizeof(char *), &room, err);
    if (st != SW_OK)
        return st;
    m->transform_texts = room;
    size_t at = 0;
    for (uint32_t l = 0; l < lists && st == SW_OK; l++) {
        const char *s = swi_names_at(m->transforms, l, NULL);
        m->transform_first[l] = at;
        while (*s != 0 && st == SW_OK) {
            size_t size = strcspn(s, "\n");
            st = swi_arena_text(&m->arena, s, size, &m->transform_texts[at++], err);
            s += size + (s[size] == '\n');
        }
        m->transform_texts[at++] = NULL;
    }
    return st;
}

/* ---- parsing ----------------------------------------------------------------------------- */

static sw_status make_meta(swi_dcp_parsing *p, sw_error *err)
{
    void *room;
    sw_status st = swi_alloc_array(1, sizeof(swi_dcp_meta), &room, err);
    if (st != SW_OK)
        return st;
    p->meta = room;
    p->recent[0] = p->recent[1] = SWI_DCP_NONE;
    for (size_t i = 0; i < SWI_DCP_FIELD_CACHE; i++)
        p->field_cache[i].bits = UINT64_MAX;
    for (size_t i = 0; i < SWI_DCP_CACHE; i++)
        p->name_cache[i].bits = UINT64_MAX;
    for (size_t i = 0; i < 64; i++)
        p->file_cache[i].bits = UINT64_MAX;
    st = swi_names_make(&p->meta->names, err);
    if (st == SW_OK)
        st = swi_names_make(&p->meta->files, err);
    if (st == SW_OK)
        st = swi_names_make(&p->meta->dtypes, err);
    if (st == SW_OK)
        st = swi_names_make(&p->meta->transforms, err);
    return st;
}

/* Runs the pickle and reads its tables; the graph does not outlive it. */
static sw_status parse_pickle(swi_dcp_parsing *p, swi_feed *feed, swi_pickle_unsafe *unsafe,
                              sw_error *err)
{
    sw_value_graph *g = NULL;
    sw_value root;
    sw_status st = swi_graph_make(&p->limits, &g, err);
    if (st != SW_OK)
        return st;
    const swi_pickle_options options = {
        .hooks = swi_dcp_hooks, .hook_count = swi_dcp_hook_count, .hook_ctx = p};
    st = swi_pickle_read_feed(feed, &options, g, &root, unsafe, err);
    if (st == SW_OK && swi_feed_left(feed) != 0)
        st = swi_fail_at(err, SW_ERR_CORRUPT, "DCP-2", swi_feed_position(feed),
                         "DCP index: %" PRIu64 " bytes behind its end", swi_feed_left(feed));
    if (st == SW_OK)
        st = read_metadata(p, g, root, err);
    sw_value_graph_free(g);
    return st;
}

/* Gives back what the tables have room for and do not use. */
static void trim(swi_dcp_meta *m)
{
    swi_names_trim(m->names);
    struct {
        void **items;
        size_t count, size;
    } tables[] = {
        {(void **)&m->words, m->word_count, sizeof(m->words[0])},
        {(void **)&m->chunks, m->chunk_count, sizeof(m->chunks[0])},
        {(void **)&m->infos, m->info_count, sizeof(m->infos[0])},
        {(void **)&m->tensors, m->tensor_count, sizeof(m->tensors[0])},
        {(void **)&m->parts, m->part_count, sizeof(m->parts[0])},
    };
    for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++) {
        if (tables[i].count == 0)
            continue;
        void *smaller = realloc(*tables[i].items, tables[i].count * tables[i].size);
        if (smaller != NULL)
            *tables[i].items = smaller;
    }
}

sw_status swi_dcp_meta_parse(swi_feed *feed, const sw_limits *limits, swi_pickle_unsafe *unsafe,
                             swi_dcp_meta **out, sw_error *err)
{
    void *room;
    swi_pickle_unsafe own = {0};
    if (unsafe == NULL)
        unsafe = &own;
    sw_status st = swi_feed_more(feed, 1, err);
    if (st != SW_OK)
        return st;
    const uint64_t size = swi_feed_left(feed);
    const char *looks = swi_sniff(feed->cursor.data, feed->cursor.size);
    if (looks != NULL && strcmp(looks, "a pickle") != 0)
        return swi_fail_at(err, SW_ERR_FORMAT, "DCP-2", 0, "not a DCP index: it is %s", looks);
    st = swi_alloc_array(1, sizeof(swi_dcp_parsing), &room, err);
    if (st != SW_OK)
        return st;
    swi_dcp_parsing *p = room;
    p->limits = sw_limits_resolve(limits);
    if (p->limits.pieces > size / 8 + 64)
        p->limits.pieces = size / 8 + 64;
    p->parts_max = size < UINT32_MAX - 64 ? (size_t)size + 64 : UINT32_MAX - 64;
    st = make_meta(p, err);
    if (st == SW_OK)
        st = parse_pickle(p, feed, unsafe, err);
    if (unsafe->total > 0 && st != SW_ERR_NOMEM && st != SW_ERR_LIMIT)
        st = swi_fail_at(err, SW_ERR_UNSAFE, "DCP-2", unsafe->at[0].offset_bytes,
                         "DCP index: it names %s, which would run when it is loaded",
                         unsafe->at[0].name);
    if (st == SW_OK)
        st = check_axes(p->meta, err);
    if (st == SW_OK)
        st = swi_dcp_join(p, err);
    if (st == SW_OK)
        st = split_transforms(p->meta, err);
    if (st == SW_OK) {
        trim(p->meta);
        *out = p->meta;
    } else {
        swi_dcp_meta_free(p->meta);
    }
    free(p->keys);
    free(p->built);
    free(p);
    return st;
}

void swi_dcp_meta_free(swi_dcp_meta *meta)
{
    if (meta == NULL)
        return;
    swi_names_free(meta->names);
    swi_names_free(meta->files);
    swi_names_free(meta->dtypes);
    swi_names_free(meta->transforms);
    swi_arena_free(&meta->arena);
    free(meta->words);
    free(meta->chunks);
    free(meta->tensors);
    free(meta->objects);
    free(meta->infos);
    free(meta->paths);
    free(meta->parts);
    free(meta->transform_texts);
    free(meta->transform_first);
    free(meta);
}

/* ---- getters ----------------------------------------------------------------------------- */

uint64_t swi_dcp_meta_memory(const swi_dcp_meta *m)
{
    return sizeof(*m) + swi_names_memory(m->names) + swi_names_memory(m->files) +
           swi_names_memory(m->dtypes) + swi_names_memory(m->transforms) + m->arena.total_bytes +
           m->word_count * sizeof(m->words[0]) + m->chunk_count * sizeof(m->chunks[0]) +
           m->tensor_count * sizeof(m->tensors[0]) + m->object_count * sizeof(m->objects[0]) +
           m->info_count * sizeof(m->infos[0]) + m->path_count * sizeof(m->paths[0]) +
           m->part_count * sizeof(m->parts[0]);
}

static void fill_place(const swi_dcp_meta *m, uint32_t info, swi_dcp_place *out)
{
    *out = (swi_dcp_place){0};
    if (info == SWI_DCP_NONE)
        return;
    const swi_dcp_info_row *row = &m->infos[info];
    *out = (swi_dcp_place){.found = true,
                           .file = row->file,
                           .transforms = row->transforms,
                           .offset_bytes = row->offset_bytes,
                           .stored_bytes = row->stored_bytes};
}

size_t swi_dcp_tensor_count(const swi_dcp_meta *meta)
{
    return meta->tensor_count;
}

void swi_dcp_tensor_at(const swi_dcp_meta *meta, size_t i, swi_dcp_tensor *out)
{
    const swi_dcp_tensor_row *row = &meta->tensors[i];
    *out = (swi_dcp_tensor){.axes = swi_dcp_size_axes(meta, row->size),
                            .chunk_first = row->chunk_first,
                            .chunk_count = row->chunk_count};
    out->name = swi_names_at(meta->names, row->name, &out->name_size);
    out->dtype_name = swi_names_at(meta->dtypes, row->dtype, NULL);
    out->dtype = swi_torch_dtype(out->dtype_name);
    swi_dcp_size_get(meta, row->size, out->shape);
}

void swi_dcp_chunk_at(const swi_dcp_meta *meta, uint64_t i, uint32_t axes, swi_dcp_chunk *out)
{
    const swi_dcp_chunk_row *row = &meta->chunks[i];
    (void)axes; /* the same as the tensor's, proven when it was parsed */
    swi_dcp_size_get(meta, row->offset, out->offset);
    swi_dcp_size_get(meta, row->length, out->length);
    fill_place(meta, row->place, &out->place);
}

size_t swi_dcp_object_count(const swi_dcp_meta *meta)
{
    return meta->object_count;
}

void swi_dcp_object_at(const swi_dcp_meta *meta, size_t i, swi_dcp_object *out)
{
    out->name = swi_names_at(meta->names, meta->objects[i].name, &out->name_size);
    fill_place(meta, meta->objects[i].place, &out->place);
}

size_t swi_dcp_file_count(const swi_dcp_meta *meta)
{
    return swi_names_count(meta->files);
}

const char *swi_dcp_file_at(const swi_dcp_meta *meta, size_t i)
{
    return swi_names_at(meta->files, (uint32_t)i, NULL);
}

uint64_t swi_dcp_orphans(const swi_dcp_meta *meta, const char **first_name)
{
    if (meta->orphans > 0)
        *first_name = swi_names_at(meta->names, meta->first_orphan, NULL);
    return meta->orphans;
}

const char *swi_dcp_version(const swi_dcp_meta *meta)
{
    return meta->version;
}

bool swi_dcp_path_part(const swi_dcp_meta *meta, const char *name, size_t i, const char **part,
                       bool *is_index)
{
    int64_t id = swi_names_find(meta->names, name, strlen(name));
    if (id < 0 || (uint64_t)id >= meta->path_count || i >= meta->paths[id].count)
        return false;
    uint32_t packed = meta->parts[meta->paths[id].first + i];
    *part = swi_names_at(meta->names, packed >> 1, NULL);
    *is_index = (packed & PART_INDEX) != 0;
    return true;
}

const char *swi_dcp_transform_at(const swi_dcp_meta *meta, uint32_t transforms, size_t i)
{
    if (transforms == 0 || transforms > swi_names_count(meta->transforms))
        return NULL;
    const char *const *texts =
        (const char *const *)meta->transform_texts + meta->transform_first[transforms - 1];
    for (size_t k = 0; k < i; k++)
        if (texts[k] == NULL)
            return NULL;
    return texts[i];
}
