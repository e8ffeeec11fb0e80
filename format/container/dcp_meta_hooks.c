/*
 * Constructor hooks that fold the objects of a `.metadata` into rows as the pickle machine meets
 * them, so that a million chunks never become a graph. The classes by version: specs/dcp.md,
 * DCP-3.
 */
#include "container/dcp_internal.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/text.h"

#define TRANSFORM_LISTS_MAX 256u
/* Of a record's payload; what is left is the row. Small payloads are kept in less room. */
#define KIND_BITS 4

static const char *const field_names[SWI_DCP_FIELD_COUNT] = {
    [SWI_DCP_OFFSETS] = "offsets",
    [SWI_DCP_SIZES] = "sizes",
    [SWI_DCP_FQN] = "fqn",
    [SWI_DCP_INDEX] = "index",
    [SWI_DCP_OFFSET] = "offset",
    [SWI_DCP_PATH] = "relative_path",
    [SWI_DCP_LENGTH] = "length",
    [SWI_DCP_TRANSFORMS] = "transform_descriptors",
    [SWI_DCP_PROPERTIES] = "properties",
    [SWI_DCP_SIZE] = "size",
    [SWI_DCP_CHUNKS] = "chunks",
    [SWI_DCP_DTYPE] = "dtype",
};

sw_status swi_dcp_fail(sw_error *err, sw_status status, const char *clause, const char *fmt, ...)
{
    char text[SW_ERROR_TEXT_MAX];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    (void)swi_fail_at(err, status, clause, 0, "%s", text);
    if (err != NULL)
        err->has_offset = false;
    return status;
}

/* Where the small caches keep what they know of this very node. */
static size_t slot_of(sw_value v, size_t slots)
{
    return (size_t)(v.bits * UINT64_C(0x9e3779b97f4a7c15) >> 32) % slots;
}

static sw_value make_record(swi_dcp_kind kind, uint64_t index)
{
    return swi_value_of_record(index << KIND_BITS | (uint64_t)kind);
}

bool swi_dcp_record(sw_value v, swi_dcp_kind kind, uint32_t *index)
{
    uint64_t payload;
    if (!swi_value_record(v, &payload) || (payload & ((1U << KIND_BITS) - 1)) != (uint64_t)kind)
        return false;
    *index = (uint32_t)(payload >> KIND_BITS);
    return true;
}

const char *swi_dcp_describe(const sw_value_graph *g, sw_value v, char *room, size_t size)
{
    static const char *const kinds[] = {"None",    "a bool", "an int",     "an int", "a float",
                                        "complex", "a str",  "bytes",      "a list", "a tuple",
                                        "a dict",  "a set",  "a frozenset"};
    sw_value_object object;
    const char *module, *name;
    swi_quoted q, q2;
    sw_value_kind kind = sw_value_get_kind(g, v);
    if (kind == SW_VALUE_RECORD)
        return "an object of the index";
    if ((size_t)kind < sizeof(kinds) / sizeof(kinds[0]))
        return kinds[kind];
    if (!sw_value_global(g, v, &module, &name) &&
        !(sw_value_get_object(g, v, &object) &&
          sw_value_global(g, object.callable, &module, &name)))
        return "an object";
    snprintf(room, size, "%s.%s", swi_quote_str(&q, module), swi_quote_str(&q2, name));
    return room;
}

/* ---- fields of a state ------------------------------------------------------------------- */

/* The field of a key; keys are memoised by pickle, so that the same node means the same text. */
static swi_dcp_field field_of(swi_dcp_parsing *p, const sw_value_graph *g, sw_value key)
{
    size_t slot = slot_of(key, SWI_DCP_FIELD_CACHE);
    if (p->field_cache[slot].bits == key.bits)
        return p->field_cache[slot].field;
    unsigned f = 0;
    while (f < SWI_DCP_FIELD_COUNT && !swi_value_text_is(g, key, field_names[f]))
        f++;
    p->field_cache[slot].bits = key.bits;
    p->field_cache[slot].field = (swi_dcp_field)f;
    return (swi_dcp_field)f;
}

typedef struct fields {
    sw_value at[SWI_DCP_FIELD_COUNT];
    uint32_t present; /* bits */
} fields;

static bool has(const fields *f, swi_dcp_field field)
{
    return (f->present >> field & 1u) != 0;
}

static void set_field(swi_dcp_parsing *p, const sw_value_graph *g, sw_value key, sw_value value,
                      fields *out)
{
    swi_dcp_field field = field_of(p, g, key);
    if (field == SWI_DCP_FIELD_COUNT)
        return; /* unknown fields are left alone */
    out->at[field] = value;
    out->present |= 1u << field;
}

static sw_status too_many_fields(size_t count, sw_error *err)
{
    return swi_dcp_fail(err, SW_ERR_LIMIT, "DCP-3", "DCP index: an object with %zu fields", count);
}

/* A dict; of a class with slots the second of (None, dict). */
static sw_status read_fields(swi_dcp_parsing *p, const sw_value_graph *g, sw_value state,
                             const char *class, fields *out, sw_error *err)
{
    char room[256];
    sw_value key, value;
    if (sw_value_get_kind(g, state) == SW_VALUE_TUPLE && sw_value_size(g, state) == 2)
        (void)sw_value_item(g, state, 1, &state);
    if (sw_value_get_kind(g, state) != SW_VALUE_DICT)
        return swi_dcp_fail(err, SW_ERR_FORMAT, "DCP-3", "DCP index: the state of %s is %s", class,
                            swi_dcp_describe(g, state, room, sizeof(room)));
    if (sw_value_size(g, state) > SWI_DCP_STATE_MAX)
        return too_many_fields(sw_value_size(g, state), err);
    out->present = 0;
    for (size_t i = 0; sw_value_pair(g, state, i, &key, &value); i++)
        set_field(p, g, key, value, out);
    return SW_OK;
}

/* Makes of the fields of an object the record that takes its place. */
typedef sw_status (*fold_fn)(swi_dcp_parsing *p, sw_value_graph *g, const fields *f, sw_value *out,
                             sw_error *err);

static sw_status fold_state(swi_dcp_parsing *p, sw_value_graph *g, sw_value state,
                            const char *class, fold_fn fold, sw_value *out, sw_error *err)
{
    fields f;
    sw_status st = read_fields(p, g, state, class, &f, err);
    return st == SW_OK ? fold(p, g, &f, out, err) : st;
}

static sw_status fold_items(swi_dcp_parsing *p, sw_value_graph *g, const sw_value *items,
                            size_t pairs, fold_fn fold, sw_value *out, sw_error *err)
{
    fields f;
    if (pairs > SWI_DCP_STATE_MAX)
        return too_many_fields(pairs, err);
    f.present = 0;
    for (size_t i = 0; i < pairs; i++)
        set_field(p, g, items[2 * i], items[2 * i + 1], &f);
    return fold(p, g, &f, out, err);
}

/* The two hooks of a class: for a state, and for the items of one that was never made. */
#define FOLDED(fold, class)                                                                        \
    static sw_status fold##_state(void *ctx, sw_value_graph *g, sw_value object, sw_value state,   \
                                  sw_value *out, sw_error *err)                                    \
    {                                                                                              \
        (void)object;                                                                              \
        return fold_state(ctx, g, state, class, fold, out, err);                                   \
    }                                                                                              \
    static sw_status fold##_items(void *ctx, sw_value_graph *g, sw_value object,                   \
                                  const sw_value *items, size_t pairs, sw_value *out,              \
                                  sw_error *err)                                                   \
    {                                                                                              \
        (void)object;                                                                              \
        return fold_items(ctx, g, items, pairs, fold, out, err);                                   \
    }

static sw_status wrong_field(const sw_value_graph *g, const fields *f, const char *class,
                             swi_dcp_field field, sw_error *err)
{
    char room[256];
    return swi_dcp_fail(
        err, SW_ERR_FORMAT, "DCP-3", "DCP index: %s.%s is %s", class, field_names[field],
        has(f, field) ? swi_dcp_describe(g, f->at[field], room, sizeof(room)) : "missing");
}

/* What is wrong with the numbers of a torch.Size, or SW_OK and they are in *v. */
static sw_status size_numbers(const sw_value_graph *g, sw_value args, int64_t *v, size_t *count,
                              sw_error *err)
{
    sw_value list = swi_value_none(), item;
    size_t size = 0;
    if (sw_value_size(g, args) == 1 && sw_value_item(g, args, 0, &list)) {
        sw_value_kind kind = sw_value_get_kind(g, list);
        size = sw_value_size(g, list);
        if (kind != SW_VALUE_TUPLE && kind != SW_VALUE_LIST)
            return swi_dcp_fail(err, SW_ERR_FORMAT, "DCP-3",
                                "DCP index: a torch.Size of no numbers");
    } else if (sw_value_size(g, args) > 1) {
        return swi_dcp_fail(err, SW_ERR_FORMAT, "DCP-3", "DCP index: a torch.Size of no numbers");
    }
    if (size > SW_MAX_AXES)
        return swi_dcp_fail(err, SW_ERR_UNSUPPORTED, "DCP-3",
                            "DCP index: a tensor of %zu axes, at most %d are supported", size,
                            SW_MAX_AXES);
    for (size_t i = 0; i < size; i++)
        if (!sw_value_item(g, list, i, &item) || !sw_value_int(g, item, &v[i]))
            return swi_dcp_fail(err, SW_ERR_FORMAT, "DCP-3",
                                "DCP index: a torch.Size of no numbers");
    *count = size;
    return SW_OK;
}

/* torch.Size((2, 3)), also torch.Size([2, 3]) and torch.Size() */
static sw_status make_size(void *ctx, sw_value_graph *g, sw_value args, sw_value *out,
                           sw_error *err)
{
    int64_t v[SW_MAX_AXES];
    sw_value list;
    size_t count = 0;
    if (!sw_value_item(g, args, 0, &list) || sw_value_size(g, args) != 1 ||
        !swi_value_ints(g, list, SW_MAX_AXES, v, &count)) {
        sw_status st = size_numbers(g, args, v, &count, err);
        if (st != SW_OK)
            return st;
    }
    for (size_t i = 0; i < count; i++)
        if (v[i] < 0)
            return swi_dcp_fail(err, SW_ERR_CORRUPT, "DCP-3",
                                "DCP index: a torch.Size with %" PRId64, v[i]);
    uint32_t index = 0;
    sw_status st = swi_dcp_size_store(ctx, (uint32_t)count, v, &index, err);
    if (st == SW_OK)
        *out = make_record(SWI_DCP_K_SIZE, index);
    return st;
}

/* ---- names ------------------------------------------------------------------------------- */

static sw_status intern(swi_names *names, const sw_value_graph *g, sw_value v, uint32_t *id,
                        sw_error *err)
{
    const uint8_t *text;
    size_t size;
    if (sw_value_get_kind(g, v) != SW_VALUE_STR || !sw_value_bytes(g, v, &text, &size))
        return swi_dcp_fail(err, SW_ERR_FORMAT, "DCP-3", "DCP index: a name that is no text");
    if (memchr(text, 0, size) != NULL) {
        swi_quoted q;
        return swi_dcp_fail(err, SW_ERR_FORMAT, "DCP-3", "DCP index: a name with a zero byte: %s",
                            swi_quote(&q, text, size));
    }
    return swi_names_add(names, text, size, id, NULL, err);
}

sw_status swi_dcp_name(swi_dcp_parsing *p, const sw_value_graph *g, sw_value v, uint32_t *id,
                       sw_error *err)
{
    size_t slot = slot_of(v, SWI_DCP_CACHE);
    if (p->name_cache[slot].bits == v.bits) {
        *id = p->name_cache[slot].id;
        return SW_OK;
    }
    sw_status st = intern(p->meta->names, g, v, id, err);
    if (st == SW_OK) {
        p->name_cache[slot].bits = v.bits;
        p->name_cache[slot].id = *id;
    }
    return st;
}

static sw_status file_name(swi_dcp_parsing *p, const sw_value_graph *g, sw_value v, uint32_t *id,
                           sw_error *err)
{
    size_t slot = slot_of(v, 64);
    if (p->file_cache[slot].bits == v.bits) {
        *id = p->file_cache[slot].id;
        return SW_OK;
    }
    sw_status st = intern(p->meta->files, g, v, id, err);
    if (st == SW_OK) {
        p->file_cache[slot].bits = v.bits;
        p->file_cache[slot].id = *id;
    }
    return st;
}

/* ---- the classes ------------------------------------------------------------------------- */

/* NEWOBJ of a class whose BUILD follows. */
static sw_status make_pending(void *ctx, sw_value_graph *g, sw_value args, sw_value *out,
                              sw_error *err)
{
    swi_dcp_parsing *p = ctx;
    if (sw_value_size(g, args) != 0)
        return swi_dcp_fail(err, SW_ERR_UNSUPPORTED, "DCP-3",
                            "DCP index: an object made with arguments");
    *out = make_record(SWI_DCP_K_PENDING, p->pending++ & UINT32_MAX);
    return SW_OK;
}

static sw_status fold_chunk(swi_dcp_parsing *p, sw_value_graph *g, const fields *f, sw_value *out,
                            sw_error *err)
{
    swi_dcp_meta *m = p->meta;
    swi_dcp_chunk_row row = {.place = SWI_DCP_NONE};
    if (!has(f, SWI_DCP_OFFSETS) ||
        !swi_dcp_record(f->at[SWI_DCP_OFFSETS], SWI_DCP_K_SIZE, &row.offset))
        return wrong_field(g, f, "ChunkStorageMetadata", SWI_DCP_OFFSETS, err);
    if (!has(f, SWI_DCP_SIZES) ||
        !swi_dcp_record(f->at[SWI_DCP_SIZES], SWI_DCP_K_SIZE, &row.length))
        return wrong_field(g, f, "ChunkStorageMetadata", SWI_DCP_SIZES, err);
    if (m->chunk_count >= p->limits.pieces || m->chunk_count >= UINT32_MAX - 1)
        return swi_fail(err, SW_ERR_LIMIT, "DCP index: more than %" PRIu64 " chunks",
                        p->limits.pieces);
    void *room = m->chunks;
    sw_status st = swi_grow_raw(&room, &m->chunk_capacity, m->chunk_count + 1, sizeof(row), err);
    m->chunks = room;
    if (st != SW_OK)
        return st;
    m->chunks[m->chunk_count] = row;
    *out = make_record(SWI_DCP_K_CHUNK, m->chunk_count++);
    return SW_OK;
}
FOLDED(fold_chunk, "ChunkStorageMetadata")

/* A tuple (dtype, layout, requires_grad, memory format, pin_memory), or a dict of the same. */
static sw_status build_properties(void *ctx, sw_value_graph *g, sw_value object, sw_value state,
                                  sw_value *out, sw_error *err)
{
    swi_dcp_parsing *p = ctx;
    sw_value dtype = swi_value_none();
    const char *module, *name;
    char room[256];
    uint32_t id;
    (void)object;
    if (sw_value_get_kind(g, state) == SW_VALUE_DICT) {
        fields f;
        sw_status st = read_fields(p, g, state, "TensorProperties", &f, err);
        if (st != SW_OK)
            return st;
        if (has(&f, SWI_DCP_DTYPE))
            dtype = f.at[SWI_DCP_DTYPE];
    } else if (sw_value_get_kind(g, state) == SW_VALUE_TUPLE) {
        (void)sw_value_item(g, state, 0, &dtype);
    }
    if (!sw_value_global(g, dtype, &module, &name))
        return swi_dcp_fail(err, SW_ERR_FORMAT, "DCP-3", "DCP index: TensorProperties.dtype is %s",
                            swi_dcp_describe(g, dtype, room, sizeof(room)));
    if (strcmp(module, "torch") != 0) {
        name = swi_dcp_describe(g, dtype, room, sizeof(room));
    }
    sw_status st = swi_names_add(p->meta->dtypes, name, strlen(name), &id, NULL, err);
    if (st == SW_OK)
        *out = make_record(SWI_DCP_K_PROPERTIES, id);
    return st;
}

/* Rows of a list of chunks that is not simply the rows made last: copied behind one another. */
static sw_status copy_chunks(swi_dcp_parsing *p, const sw_value_graph *g, sw_value list,
                             uint32_t *first, sw_error *err)
{
    swi_dcp_meta *m = p->meta;
    size_t count = sw_value_size(g, list);
    void *room = m->chunks;
    if (count > p->limits.pieces - m->chunk_count || count >= UINT32_MAX - m->chunk_count)
        return swi_fail(err, SW_ERR_LIMIT, "DCP index: more than %" PRIu64 " chunks",
                        p->limits.pieces);
    sw_status st =
        swi_grow_raw(&room, &m->chunk_capacity, m->chunk_count + count, sizeof(m->chunks[0]), err);
    m->chunks = room;
    if (st != SW_OK)
        return st;
    *first = (uint32_t)m->chunk_count;
    for (size_t i = 0; i < count; i++) {
        sw_value item;
        uint32_t row;
        if (sw_value_item(g, list, i, &item) && swi_dcp_record(item, SWI_DCP_K_CHUNK, &row))
            m->chunks[m->chunk_count++] = m->chunks[row];
    }
    return SW_OK;
}

/* The chunks of a tensor as a run of rows. */
static sw_status take_chunks(swi_dcp_parsing *p, const sw_value_graph *g, sw_value list,
                             swi_dcp_tensor_row *t, sw_error *err)
{
    size_t count = sw_value_size(g, list);
    bool run = true;
    char room[256];
    for (size_t i = 0; i < count; i++) {
        sw_value item;
        uint32_t row;
        if (!sw_value_item(g, list, i, &item) || !swi_dcp_record(item, SWI_DCP_K_CHUNK, &row))
            return swi_dcp_fail(err, SW_ERR_UNSUPPORTED, "DCP-3", "DCP index: a chunk that is %s",
                                swi_dcp_describe(g, item, room, sizeof(room)));
        if (i == 0)
            t->chunk_first = row;
        run &= row == t->chunk_first + i;
    }
    t->chunk_count = (uint32_t)count;
    /* Rows that another tensor has already are that one's: places are found by tensor. */
    sw_status st = SW_OK;
    if (!run || t->chunk_first < p->chunks_taken)
        st = copy_chunks(p, g, list, &t->chunk_first, err);
    if (st == SW_OK && count > 0)
        p->chunks_taken = t->chunk_first + (uint32_t)count;
    return st;
}

static sw_status fold_tensor(swi_dcp_parsing *p, sw_value_graph *g, const fields *f, sw_value *out,
                             sw_error *err)
{
    swi_dcp_tensor_row row = {.name = SWI_DCP_NONE};
    if (!has(f, SWI_DCP_PROPERTIES) ||
        !swi_dcp_record(f->at[SWI_DCP_PROPERTIES], SWI_DCP_K_PROPERTIES, &row.dtype))
        return wrong_field(g, f, "TensorStorageMetadata", SWI_DCP_PROPERTIES, err);
    if (!has(f, SWI_DCP_SIZE) || !swi_dcp_record(f->at[SWI_DCP_SIZE], SWI_DCP_K_SIZE, &row.size))
        return wrong_field(g, f, "TensorStorageMetadata", SWI_DCP_SIZE, err);
    if (!has(f, SWI_DCP_CHUNKS) || sw_value_get_kind(g, f->at[SWI_DCP_CHUNKS]) != SW_VALUE_LIST)
        return wrong_field(g, f, "TensorStorageMetadata", SWI_DCP_CHUNKS, err);
    sw_status st = take_chunks(p, g, f->at[SWI_DCP_CHUNKS], &row, err);
    if (st != SW_OK)
        return st;
    if (p->built_count >= p->limits.tensors || p->built_count >= UINT32_MAX - 1)
        return swi_fail(err, SW_ERR_LIMIT, "DCP index: more than %" PRIu64 " tensors",
                        p->limits.tensors);
    void *room = p->built;
    st = swi_grow_raw(&room, &p->built_capacity, p->built_count + 1, sizeof(row), err);
    p->built = room;
    if (st != SW_OK)
        return st;
    p->built[p->built_count] = row;
    *out = make_record(SWI_DCP_K_TENSOR, p->built_count++);
    return SW_OK;
}
FOLDED(fold_tensor, "TensorStorageMetadata")

/* BytesStorageMetadata has no fields and, in most versions, no BUILD. */
static sw_status make_bytes(void *ctx, sw_value_graph *g, sw_value args, sw_value *out,
                            sw_error *err)
{
    (void)ctx, (void)g, (void)args, (void)err;
    *out = make_record(SWI_DCP_K_BYTES, 0);
    return SW_OK;
}

static sw_status build_bytes(void *ctx, sw_value_graph *g, sw_value object, sw_value state,
                             sw_value *out, sw_error *err)
{
    (void)ctx, (void)g, (void)state, (void)err;
    *out = object;
    return SW_OK;
}

static sw_status fold_key(swi_dcp_parsing *p, sw_value_graph *g, const fields *f, sw_value *out,
                          sw_error *err)
{
    int64_t hint;
    swi_dcp_key_row row = {.offset = SWI_DCP_NONE, .hint = SWI_DCP_NONE, .info = SWI_DCP_NONE};
    if (!has(f, SWI_DCP_FQN))
        return wrong_field(g, f, "MetadataIndex", SWI_DCP_FQN, err);
    sw_status st = swi_dcp_name(p, g, f->at[SWI_DCP_FQN], &row.name, err);
    if (st != SW_OK)
        return st;
    if (has(f, SWI_DCP_OFFSET) && sw_value_get_kind(g, f->at[SWI_DCP_OFFSET]) != SW_VALUE_NONE &&
        !swi_dcp_record(f->at[SWI_DCP_OFFSET], SWI_DCP_K_SIZE, &row.offset))
        return wrong_field(g, f, "MetadataIndex", SWI_DCP_OFFSET, err);
    if (has(f, SWI_DCP_INDEX) && sw_value_int(g, f->at[SWI_DCP_INDEX], &hint) && hint >= 0 &&
        hint < (int64_t)UINT32_MAX)
        row.hint = (uint32_t)hint;
    void *room = p->keys;
    if (p->key_count >= UINT32_MAX - 1)
        return swi_fail(err, SW_ERR_LIMIT, "DCP index: more items than can be kept");
    st = swi_grow_raw(&room, &p->key_capacity, p->key_count + 1, sizeof(row), err);
    p->keys = room;
    if (st != SW_OK)
        return st;
    p->keys[p->key_count] = row;
    *out = make_record(SWI_DCP_K_KEY, p->key_count++);
    return SW_OK;
}
FOLDED(fold_key, "MetadataIndex")

/* The list of transforms as one text; its id + 1. */
static sw_status transforms_of(swi_dcp_parsing *p, const sw_value_graph *g, sw_value list,
                               uint32_t *out, sw_error *err)
{
    swi_buf text = {0};
    sw_status st = SW_OK;
    size_t count = sw_value_size(g, list);
    if (count > SWI_DCP_TRANSFORMS_MAX)
        return swi_dcp_fail(err, SW_ERR_LIMIT, "DCP-11", "DCP index: an item with %zu transforms",
                            count);
    for (size_t i = 0; i < count && st == SW_OK; i++) {
        sw_value item;
        const uint8_t *part;
        size_t size;
        if (!sw_value_item(g, list, i, &item) || sw_value_get_kind(g, item) != SW_VALUE_STR ||
            !sw_value_bytes(g, item, &part, &size) || memchr(part, '\n', size) != NULL ||
            memchr(part, 0, size) != NULL) {
            st = swi_dcp_fail(err, SW_ERR_FORMAT, "DCP-11",
                              "DCP index: a transform that has no name");
            break;
        }
        st = swi_buf_append(&text, part, size, err);
        if (st == SW_OK)
            st = swi_buf_u8(&text, '\n', err);
    }
    if (st == SW_OK && count > 0)
        st = swi_names_add(p->meta->transforms, text.data, text.size, out, NULL, err);
    if (st == SW_OK && swi_names_count(p->meta->transforms) > TRANSFORM_LISTS_MAX)
        st = swi_fail(err, SW_ERR_LIMIT, "DCP index: more than %u lists of transforms",
                      TRANSFORM_LISTS_MAX);
    if (st == SW_OK)
        *out = count > 0 ? *out + 1 : 0;
    swi_buf_free(&text);
    return st;
}

static sw_status fold_info(swi_dcp_parsing *p, sw_value_graph *g, const fields *f, sw_value *out,
                           sw_error *err)
{
    swi_dcp_meta *m = p->meta;
    int64_t offset, length;
    swi_dcp_info_row row = {0};
    if (!has(f, SWI_DCP_PATH))
        return wrong_field(g, f, "_StorageInfo", SWI_DCP_PATH, err);
    if (!has(f, SWI_DCP_OFFSET) || !sw_value_int(g, f->at[SWI_DCP_OFFSET], &offset) || offset < 0)
        return wrong_field(g, f, "_StorageInfo", SWI_DCP_OFFSET, err);
    if (!has(f, SWI_DCP_LENGTH) || !sw_value_int(g, f->at[SWI_DCP_LENGTH], &length) || length < 0)
        return wrong_field(g, f, "_StorageInfo", SWI_DCP_LENGTH, err);
    sw_status st = file_name(p, g, f->at[SWI_DCP_PATH], &row.file, err);
    if (st == SW_OK && has(f, SWI_DCP_TRANSFORMS))
        st = transforms_of(p, g, f->at[SWI_DCP_TRANSFORMS], &row.transforms, err);
    if (st != SW_OK)
        return st;
    row.offset_bytes = (uint64_t)offset;
    row.stored_bytes = (uint64_t)length;
    void *room = m->infos;
    if (m->info_count >= UINT32_MAX - 1)
        return swi_fail(err, SW_ERR_LIMIT, "DCP index: more items than can be kept");
    st = swi_grow_raw(&room, &m->info_capacity, m->info_count + 1, sizeof(row), err);
    m->infos = room;
    if (st != SW_OK)
        return st;
    m->infos[m->info_count] = row;
    *out = make_record(SWI_DCP_K_INFO, m->info_count++);
    return SW_OK;
}
FOLDED(fold_info, "_StorageInfo")

#define META "torch.distributed.checkpoint.metadata"
#define META_113 "torch.distributed._shard.checkpoint.metadata"
#define FILES "torch.distributed.checkpoint.filesystem"
#define FILES_113 "torch.distributed._shard.checkpoint.filesystem"
#define SHARDED "torch.distributed._shard.sharded_tensor.metadata"

const swi_pickle_hook swi_dcp_hooks[] = {
    {"torch", "Size", make_size, NULL, NULL},
    {META, "ChunkStorageMetadata", make_pending, fold_chunk_state, fold_chunk_items},
    {META_113, "ChunkStorageMetadata", make_pending, fold_chunk_state, fold_chunk_items},
    {META, "MetadataIndex", make_pending, fold_key_state, fold_key_items},
    {META_113, "MetadataIndex", make_pending, fold_key_state, fold_key_items},
    {FILES, "_StorageInfo", make_pending, fold_info_state, fold_info_items},
    {FILES_113, "_StorageInfo", make_pending, fold_info_state, fold_info_items},
    {META, "TensorStorageMetadata", make_pending, fold_tensor_state, fold_tensor_items},
    {META_113, "TensorStorageMetadata", make_pending, fold_tensor_state, fold_tensor_items},
    {META, "TensorProperties", make_pending, build_properties, NULL},
    {SHARDED, "TensorProperties", make_pending, build_properties, NULL},
    {META, "BytesStorageMetadata", make_bytes, build_bytes, NULL},
    {META_113, "BytesStorageMetadata", make_bytes, build_bytes, NULL},
};
const size_t swi_dcp_hook_count = sizeof(swi_dcp_hooks) / sizeof(swi_dcp_hooks[0]);
