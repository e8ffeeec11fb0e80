/* DCP_SHARDING_INFO: where each tensor of a shard lies in the whole one [ST-17]. */
#include <inttypes.h>
#include <string.h>

#include "base/checked.h"
#include "base/text.h"
#include "codec/json.h"
#include "container/safetensors_table.h"

/* The innermost is a JSON text inside a string of the header: positions are told in words. */
typedef struct sharding {
    swi_st *st;
    swi_json_reader *json;
    swi_json_event event;
} sharding;

static sw_status fail(const sharding *s, const char *what, sw_error *err)
{
    return swi_fail_at(err, SW_ERR_FORMAT, "ST-17", s->event.offset_bytes, "%s", what);
}

static sw_status next(sharding *s, sw_error *err)
{
    return swi_json_next(s->json, &s->event, err);
}

static sw_status expect(sharding *s, swi_json_kind kind, const char *what, sw_error *err)
{
    sw_status status = next(s, err);
    if (status == SW_OK && s->event.kind != kind)
        return fail(s, what, err);
    return status;
}

/* The array of saved_offsets; a NULL row: a tensor that is not here, read and dropped. */
static sw_status read_offsets(sharding *s, swi_st_row *row, sw_error *err)
{
    swi_st *st = s->st;
    sw_status status = expect(s, SWI_JSON_ARRAY_BEGIN, "saved_offsets is no array", err);
    if (status != SW_OK)
        return status;
    if (row == NULL)
        return swi_json_skip_rest(s->json, &s->event, err);
    if (row->offsets_at != SWI_ST_NO_OFFSETS)
        return fail(s, "saved_offsets are there twice", err);
    if (st->saved_count >= SWI_ST_NO_OFFSETS)
        return swi_fail_at(err, SW_ERR_LIMIT, "ST-17", 0, "more than 2^32 saved offsets");
    uint32_t at = (uint32_t)st->saved_count;
    const int64_t *shape = swi_st_row_shape(st, row);
    for (uint32_t axis = 0; axis < row->axes; axis++) {
        int64_t end;
        status = expect(s, SWI_JSON_INT, "saved_offsets: fewer integers than dimensions", err);
        if (status != SW_OK)
            return status;
        if (s->event.integer < 0 || !swi_add_i64(s->event.integer, shape[axis], &end))
            return fail(s, "saved_offsets: an offset out of range", err);
        status = swi_st_push_i64(&st->saved, &st->saved_count, &st->saved_capacity,
                                 s->event.integer, err);
        if (status != SW_OK)
            return status;
    }
    row->offsets_at = at;
    return expect(s, SWI_JSON_ARRAY_END, "saved_offsets: more integers than dimensions", err);
}

static sw_status read_entry(sharding *s, swi_st_row *row, sw_error *err)
{
    sw_status status = expect(s, SWI_JSON_OBJECT_BEGIN, "a tensor's entry is no object", err);
    while (status == SW_OK) {
        status = next(s, err);
        if (status != SW_OK || s->event.kind == SWI_JSON_OBJECT_END)
            return status;
        static const char key[] = "saved_offsets";
        if (s->event.size == sizeof key - 1 && memcmp(s->event.text, key, sizeof key - 1) == 0)
            status = read_offsets(s, row, err);
        else
            status = swi_json_skip(s->json, err);
    }
    return status;
}

static sw_status read_tensor(sharding *s, sw_error *err)
{
    swi_st *st = s->st;
    int64_t id = swi_names_find(st->names, s->event.text, s->event.size);
    swi_st_row *row = id >= 0 ? &st->rows[st->row_of[id]] : NULL;
    sw_status status = read_entry(s, row, err);
    if (status == SW_OK || id < 0)
        return status;
    size_t size;
    const char *name = swi_names_at(st->names, (uint32_t)id, &size);
    swi_quoted room;
    (void)swi_error_prefix(err, "tensor \"%s\"", swi_quote(&room, name, size));
    return status;
}

static sw_status read_all(sharding *s, sw_error *err)
{
    sw_status status = expect(s, SWI_JSON_OBJECT_BEGIN, "it is no JSON object", err);
    while (status == SW_OK) {
        status = next(s, err);
        if (status == SW_OK && s->event.kind == SWI_JSON_OBJECT_END)
            return next(s, err);
        if (status == SW_OK)
            status = read_tensor(s, err);
    }
    return status;
}

sw_status swi_st_parse_sharding(swi_st *st, const sw_limits *limits, sw_error *err)
{
    const char *text = swi_st_meta(st, "DCP_SHARDING_INFO");
    if (text == NULL)
        return SW_OK;
    sharding s = {.st = st};
    sw_status status = swi_json_reader_make(text, strlen(text), limits, &s.json, err);
    if (status == SW_OK)
        status = read_all(&s, err);
    if (err != NULL && (status == SW_ERR_FORMAT || status == SW_ERR_LIMIT)) {
        uint64_t inside = err->has_offset ? err->offset_bytes : 0;
        status =
            swi_fail_at(err, status, "ST-17", st->sharding_offset_bytes,
                        "DCP_SHARDING_INFO: byte %" PRIu64 " of its text: %s", inside, err->text);
    }
    swi_json_reader_free(s.json);
    return status;
}
