/*
 * The document is written again, event by event, and held against what it was read from: so the
 * writer alone says what a string or a number looks like. What is left is the order of keys.
 */
#include "codec/json_canon.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/text.h"
#include "codec/json.h"
#include "codec/json_write.h"

typedef struct canon {
    const uint8_t *data;
    size_t size;
    size_t done; /* bytes that were written alike */
    swi_json_reader *reader;
    swi_json_writer writer;
    swi_buf out;    /* of the writer: emptied after each event */
    swi_buf keys;   /* the last key of each open object, one behind the other */
    size_t *starts; /* in keys, by open container */
    size_t depth, start_capacity;
    bool *seen; /* whether there was a key, likewise */
    size_t seen_capacity;
} canon;

static sw_status differs(size_t offset, const char *what, sw_error *err)
{
    return swi_fail_at(err, SW_ERR_FORMAT, NULL, offset, "JSON: not in canonical form: %s", what);
}

static sw_status push(canon *c, sw_error *err)
{
    void *starts = c->starts, *seen = c->seen;
    sw_status status =
        swi_grow_array(&starts, &c->start_capacity, c->depth + 1, sizeof *c->starts, err);
    c->starts = starts;
    if (status == SW_OK)
        status = swi_grow_array(&seen, &c->seen_capacity, c->depth + 1, sizeof *c->seen, err);
    c->seen = seen;
    if (status != SW_OK)
        return status;
    c->starts[c->depth] = c->keys.size;
    c->seen[c->depth++] = false;
    return SW_OK;
}

static void pop(canon *c)
{
    c->keys.size = c->starts[--c->depth];
}

static sw_status take_key(canon *c, const swi_json_event *e, sw_error *err)
{
    size_t start = c->starts[c->depth - 1];
    bool *seen = &c->seen[c->depth - 1];
    if (*seen && swi_bytes_order(c->keys.data != NULL ? c->keys.data + start : NULL,
                                 c->keys.size - start, e->text, e->size) >= 0)
        return differs(e->offset_bytes, "a key that is not behind the one before it", err);
    *seen = true;
    c->keys.size = start;
    swi_json_key(&c->writer, e->text, e->size);
    return swi_buf_append(&c->keys, e->text, e->size, err);
}

static sw_status write_event(canon *c, const swi_json_event *e, sw_error *err)
{
    switch (e->kind) {
    case SWI_JSON_OBJECT_BEGIN:
        swi_json_begin_object(&c->writer);
        return push(c, err);
    case SWI_JSON_ARRAY_BEGIN:
        swi_json_begin_array(&c->writer);
        return push(c, err);
    case SWI_JSON_OBJECT_END:
    case SWI_JSON_ARRAY_END:
        swi_json_end(&c->writer);
        pop(c);
        return SW_OK;
    case SWI_JSON_KEY:
        return take_key(c, e, err);
    case SWI_JSON_STRING:
        swi_json_text(&c->writer, e->text, e->size);
        return SW_OK;
    case SWI_JSON_INT:
        if (e->integer < 0)
            return differs(e->offset_bytes, "a number below 0", err);
        swi_json_int(&c->writer, e->integer);
        return SW_OK;
    case SWI_JSON_FLOAT:
        return differs(e->offset_bytes, "a number that is not an integer below 2^63", err);
    case SWI_JSON_NULL:
        swi_json_null(&c->writer);
        return SW_OK;
    default: /* DONE never comes here */
        swi_json_bool(&c->writer, e->kind == SWI_JSON_TRUE);
        return SW_OK;
    }
}

/* Holds what was written against the text, and moves on. */
static sw_status compare(canon *c, sw_error *err)
{
    if (c->writer.failure.status != SW_OK) {
        if (err != NULL)
            *err = c->writer.failure;
        return c->writer.failure.status;
    }
    for (size_t i = 0; i < c->out.size; i++)
        if (c->done + i >= c->size || c->data[c->done + i] != c->out.data[i])
            return differs(c->done + i, "white space, or another spelling of the same", err);
    c->done += c->out.size;
    c->out.size = 0;
    return SW_OK;
}

static sw_status check_all(canon *c, sw_error *err)
{
    for (;;) {
        swi_json_event event;
        sw_status status = swi_json_next(c->reader, &event, err);
        if (status != SW_OK)
            return status;
        if (event.kind == SWI_JSON_DONE)
            break;
        status = write_event(c, &event, err);
        if (status == SW_OK)
            status = compare(c, err);
        if (status != SW_OK)
            return status;
    }
    if (c->size != c->done + 1 || c->data[c->done] != '\n')
        return differs(c->done, "it must end with one line feed", err);
    return SW_OK;
}

sw_status swi_json_check_canonical(const void *data, size_t size, const sw_limits *limits,
                                   sw_error *err)
{
    canon c = {.data = data, .size = size};
    swi_json_start(&c.writer, &c.out, SWI_JSON_COMPACT);
    sw_status status = swi_json_reader_make(data, size, limits, &c.reader, err);
    if (status == SW_OK)
        status = check_all(&c, err);
    swi_json_reader_free(c.reader);
    swi_buf_free(&c.out);
    swi_buf_free(&c.keys);
    free(c.starts);
    free(c.seen);
    return status;
}
