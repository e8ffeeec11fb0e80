/* The JSON header of a safetensors file into packed tables [ST-3 .. ST-10]. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/text.h"
#include "codec/json.h"
#include "container/safetensors_table.h"

/* Kinds that the format does not have, in one file: more is no file of any writer. */
#define UNKNOWN_KINDS_MAX 1000

enum { SEEN_DTYPE = 1, SEEN_SHAPE = 2, SEEN_OFFSETS = 4, SEEN_ALL = 7 };

typedef struct header {
    swi_st *st;
    swi_json_reader *json;
    swi_json_event event; /* the last one read */
    uint64_t max_tensors;
} header;

static sw_status next(header *h, sw_error *err)
{
    return swi_json_next(h->json, &h->event, err);
}

static sw_status fail(const header *h, const char *clause, const char *what, sw_error *err)
{
    return swi_fail_at(err, SW_ERR_FORMAT, clause, h->event.offset_bytes, "%s, found %s", what,
                       swi_json_kind_name(h->event.kind));
}

static bool text_is(const swi_json_event *event, const char *text)
{
    size_t size = strlen(text);
    return event->size == size && memcmp(event->text, text, size) == 0;
}

/* Names are handed out as C strings. */
static sw_status refuse_nul(const header *h, const char *clause, const char *what, sw_error *err)
{
    if (h->event.size == 0 || memchr(h->event.text, 0, h->event.size) == NULL)
        return SW_OK;
    return swi_fail_at(err, SW_ERR_UNSUPPORTED, clause, h->event.offset_bytes,
                       "%s with a NUL character in it", what);
}

sw_status swi_st_push_i64(int64_t **items, size_t *count, size_t *capacity, int64_t v,
                          sw_error *err)
{
    void *p = *items;
    sw_status status = swi_grow_array(&p, capacity, *count + 1, sizeof **items, err);
    *items = p;
    if (status == SW_OK)
        (*items)[(*count)++] = v;
    return status;
}

/* ---- __metadata__ -------------------------------------------------------------------------- */

/* A key was read; its value follows. */
static sw_status read_meta_pair(header *h, sw_error *err)
{
    swi_st *st = h->st;
    uint32_t id;
    bool is_new;
    bool is_sharding = text_is(&h->event, "DCP_SHARDING_INFO");
    sw_status status = refuse_nul(h, "ST-5", "a key of __metadata__", err);
    if (status == SW_OK)
        status = swi_names_add(st->meta_keys, h->event.text, h->event.size, &id, &is_new, err);
    if (status == SW_OK && !is_new)
        status = swi_fail_at(err, SW_ERR_FORMAT, "ST-5", h->event.offset_bytes,
                             "__metadata__ has a key twice");
    if (status == SW_OK)
        status = next(h, err);
    if (status != SW_OK)
        return status;
    if (h->event.kind != SWI_JSON_STRING)
        return fail(h, "ST-5", "__metadata__: expected a string", err);
    status = refuse_nul(h, "ST-5", "a value of __metadata__", err);
    if (status != SW_OK)
        return status;
    void *p = (void *)st->meta_values;
    status = swi_grow_array(&p, &st->meta_capacity, (size_t)id + 1, sizeof *st->meta_values, err);
    st->meta_values = (const char **)p;
    if (is_sharding)
        st->sharding_offset_bytes = h->event.offset_bytes;
    if (status == SW_OK)
        status =
            swi_arena_text(&st->meta_text, h->event.text, h->event.size, &st->meta_values[id], err);
    return status;
}

static sw_status read_metadata(header *h, sw_error *err)
{
    if (h->st->meta_keys != NULL)
        return swi_fail_at(err, SW_ERR_FORMAT, "ST-4", h->event.offset_bytes,
                           "__metadata__ is there twice");
    sw_status status = swi_names_make(&h->st->meta_keys, err);
    if (status == SW_OK)
        status = next(h, err);
    if (status != SW_OK || h->event.kind == SWI_JSON_NULL)
        return status;
    if (h->event.kind != SWI_JSON_OBJECT_BEGIN)
        return fail(h, "ST-5", "__metadata__: expected an object", err);
    for (;;) {
        status = next(h, err);
        if (status != SW_OK || h->event.kind == SWI_JSON_OBJECT_END)
            return status;
        status = read_meta_pair(h, err);
        if (status != SW_OK)
            return status;
    }
}

/* ---- a tensor ------------------------------------------------------------------------------ */

static sw_status read_dtype(header *h, swi_st_row *row, sw_error *err)
{
    sw_status status = next(h, err);
    if (status != SW_OK)
        return status;
    if (h->event.kind != SWI_JSON_STRING)
        return fail(h, "ST-7", "dtype: expected a string", err);
    for (uint16_t i = 0; i < SWI_ST_KINDS; i++)
        if (text_is(&h->event, swi_st_kinds[i].name)) {
            row->kind = i;
            return SW_OK;
        }
    uint32_t id;
    status = refuse_nul(h, "ST-7", "a dtype", err);
    if (status == SW_OK)
        status = swi_names_add(h->st->unknown, h->event.text, h->event.size, &id, NULL, err);
    if (status != SW_OK)
        return status;
    if (id >= UNKNOWN_KINDS_MAX)
        return swi_fail_at(err, SW_ERR_LIMIT, "ST-7", h->event.offset_bytes,
                           "more than %d unknown dtypes", UNKNOWN_KINDS_MAX);
    row->kind = (uint16_t)(SWI_ST_KINDS + id);
    return SW_OK;
}

static sw_status read_shape(header *h, swi_st_row *row, sw_error *err)
{
    swi_st *st = h->st;
    sw_status status = next(h, err);
    if (status != SW_OK)
        return status;
    if (h->event.kind != SWI_JSON_ARRAY_BEGIN)
        return fail(h, "ST-8", "shape: expected an array", err);
    if (st->dim_count > UINT32_MAX)
        return swi_fail_at(err, SW_ERR_LIMIT, "ST-8", h->event.offset_bytes,
                           "more than 2^32 dimensions in all");
    row->shape_at = (uint32_t)st->dim_count;
    row->axes = 0;
    for (;;) {
        status = next(h, err);
        if (status != SW_OK || h->event.kind == SWI_JSON_ARRAY_END)
            return status;
        if (h->event.kind != SWI_JSON_INT)
            return fail(h, "ST-8", "shape: expected an integer", err);
        if (h->event.integer < 0)
            return swi_fail_at(err, SW_ERR_FORMAT, "ST-8", h->event.offset_bytes,
                               "shape: %" PRId64 " is negative", h->event.integer);
        if (row->axes == SW_MAX_AXES)
            return swi_fail_at(err, SW_ERR_UNSUPPORTED, "ST-8", h->event.offset_bytes,
                               "more than %d dimensions", SW_MAX_AXES);
        status =
            swi_st_push_i64(&st->dims, &st->dim_count, &st->dim_capacity, h->event.integer, err);
        if (status != SW_OK)
            return status;
        row->axes++;
    }
}

static sw_status read_offsets(header *h, swi_st_row *row, sw_error *err)
{
    uint64_t *const ends[2] = {&row->begin, &row->end};
    sw_status status = next(h, err);
    if (status != SW_OK)
        return status;
    if (h->event.kind != SWI_JSON_ARRAY_BEGIN)
        return fail(h, "ST-9", "data_offsets: expected an array of two integers", err);
    for (int i = 0; i < 2; i++) {
        status = next(h, err);
        if (status != SW_OK)
            return status;
        if (h->event.kind != SWI_JSON_INT)
            return fail(h, "ST-9", "data_offsets: expected two integers", err);
        if (h->event.integer < 0)
            return swi_fail_at(err, SW_ERR_FORMAT, "ST-9", h->event.offset_bytes,
                               "data_offsets: %" PRId64 " is negative", h->event.integer);
        *ends[i] = (uint64_t)h->event.integer;
    }
    if (row->begin > row->end)
        return swi_fail_at(err, SW_ERR_FORMAT, "ST-9", h->event.offset_bytes,
                           "data_offsets: begin %" PRIu64 " lies behind end %" PRIu64, row->begin,
                           row->end);
    status = next(h, err);
    if (status == SW_OK && h->event.kind != SWI_JSON_ARRAY_END)
        return fail(h, "ST-9", "data_offsets: expected two integers, not more", err);
    return status;
}

/* The key of a field was read. */
static sw_status read_field(header *h, swi_st_row *row, unsigned *seen, sw_error *err)
{
    static const char *const names[] = {"dtype", "shape", "data_offsets"};
    static sw_status (*const readers[])(header *, swi_st_row *,
                                        sw_error *) = {read_dtype, read_shape, read_offsets};
    for (unsigned i = 0; i < 3; i++) {
        if (!text_is(&h->event, names[i]))
            continue;
        if ((*seen & 1U << i) != 0)
            return swi_fail_at(err, SW_ERR_FORMAT, "ST-6", h->event.offset_bytes,
                               "%s is there twice", names[i]);
        *seen |= 1U << i;
        return readers[i](h, row, err);
    }
    return swi_json_skip(h->json, err);
}

/* The number of bytes that shape and dtype ask for is that of the range [ST-10]. */
static sw_status check_size(const header *h, const swi_st_row *row, size_t offset, sw_error *err)
{
    const int64_t *shape = swi_st_row_shape(h->st, row);
    uint64_t elements, bits;
    if (!swi_shape_elements(row->axes, shape, &elements))
        return swi_fail_at(err, SW_ERR_FORMAT, "ST-8", offset, "shape: too many elements");
    if (row->kind >= SWI_ST_KINDS)
        return SW_OK;
    const swi_st_kind *kind = &swi_st_kinds[row->kind];
    if (!swi_mul_u64(elements, kind->bits, &bits))
        return swi_fail_at(err, SW_ERR_FORMAT, "ST-8", offset, "shape: too many elements");
    if (bits % 8 != 0)
        return swi_fail_at(err, SW_ERR_FORMAT, "ST-10", offset,
                           "%" PRIu64 " elements of %s do not fill whole bytes", elements,
                           kind->name);
    if (row->end - row->begin != bits / 8)
        return swi_fail_at(err, SW_ERR_FORMAT, "ST-10", offset,
                           "%" PRIu64 " elements of %s need %" PRIu64
                           " bytes, data_offsets [%" PRIu64 ", %" PRIu64 "] hold %" PRIu64,
                           elements, kind->name, bits / 8, row->begin, row->end,
                           row->end - row->begin);
    if (kind->dtype == SW_F4_E2M1FN_X2 && shape[row->axes - 1] % 2 != 0)
        return swi_fail_at(err, SW_ERR_UNSUPPORTED, "ST-14", offset,
                           "F4 with a last dimension of %" PRId64
                           ": two elements share a byte, so it must be even",
                           shape[row->axes - 1]);
    return SW_OK;
}

/* The value of a tensor's key, which lay at `offset`. */
static sw_status read_entry(header *h, swi_st_row *row, size_t offset, sw_error *err)
{
    unsigned seen = 0;
    sw_status status = next(h, err);
    if (status != SW_OK)
        return status;
    if (h->event.kind != SWI_JSON_OBJECT_BEGIN)
        return fail(h, "ST-6", "expected an object", err);
    for (;;) {
        status = next(h, err);
        if (status != SW_OK)
            return status;
        if (h->event.kind == SWI_JSON_OBJECT_END)
            break;
        status = read_field(h, row, &seen, err);
        if (status != SW_OK)
            return status;
    }
    if (seen != SEEN_ALL)
        return swi_fail_at(err, SW_ERR_FORMAT, "ST-6", offset, "no %s",
                           (seen & SEEN_DTYPE) == 0   ? "dtype"
                           : (seen & SEEN_SHAPE) == 0 ? "shape"
                                                      : "data_offsets");
    return check_size(h, row, offset, err);
}

static sw_status read_tensor(header *h, sw_error *err)
{
    swi_st *st = h->st;
    size_t offset = h->event.offset_bytes;
    swi_st_row row = {.offsets_at = SWI_ST_NO_OFFSETS};
    bool is_new;
    void *p = st->rows;
    if (st->count >= h->max_tensors)
        return swi_fail_at(err, SW_ERR_LIMIT, "ST-4", offset, "more than %" PRIu64 " tensors",
                           h->max_tensors);
    sw_status status = refuse_nul(h, "ST-4", "a tensor name", err);
    if (status == SW_OK)
        status = swi_grow_array(&p, &st->row_capacity, st->count + 1, sizeof row, err);
    st->rows = p;
    if (status == SW_OK)
        status = swi_names_add(st->names, h->event.text, h->event.size, &row.name, &is_new, err);
    if (status != SW_OK)
        return status;
    if (is_new)
        status = read_entry(h, &row, offset, err);
    else
        status = swi_fail_at(err, SW_ERR_FORMAT, "ST-4", offset, "the name is there twice");
    if (status == SW_OK) {
        st->rows[st->count++] = row;
        return SW_OK;
    }
    size_t size;
    const char *name = swi_names_at(st->names, row.name, &size);
    swi_quoted room;
    (void)swi_error_prefix(err, "tensor \"%s\"", swi_quote(&room, name, size));
    return status;
}

/* ---- the whole ----------------------------------------------------------------------------- */

static sw_status read_all(header *h, sw_error *err)
{
    sw_status status = next(h, err);
    if (status != SW_OK)
        return status;
    if (h->event.kind != SWI_JSON_OBJECT_BEGIN)
        return fail(h, "ST-3", "header: expected an object", err);
    for (;;) {
        status = next(h, err);
        if (status != SW_OK)
            return status;
        if (h->event.kind == SWI_JSON_OBJECT_END)
            return next(h, err); /* only white space behind it */
        if (text_is(&h->event, "__metadata__"))
            status = read_metadata(h, err);
        else
            status = read_tensor(h, err);
        if (status != SW_OK)
            return status;
    }
}

sw_status swi_st_parse_header(swi_st *st, const uint8_t *data, size_t size, const sw_limits *limits,
                              sw_error *err)
{
    header h = {.st = st, .max_tensors = limits->tensors};
    sw_status status = swi_json_reader_make(data, size, limits, &h.json, err);
    if (status == SW_OK)
        status = read_all(&h, err);
    /* What the JSON reader found wrong is a matter of ST-3. */
    if (status == SW_ERR_FORMAT && err != NULL && err->clause[0] == '\0')
        status = swi_fail_at(err, status, "ST-3", err->offset_bytes, "header: %s", err->text);
    swi_json_reader_free(h.json);
    return status;
}
