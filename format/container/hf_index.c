#include "container/hf_index.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/names.h"
#include "base/text.h"
#include "codec/json.h"
#include "codec/json_write.h"
#include "io/store.h"

struct swi_hf_index {
    swi_names *tensors; /* ids in the order of the document */
    swi_names *files;
    uint32_t *file_of; /* by tensor id */
    size_t file_of_capacity;
    bool has_total;
    uint64_t total_bytes;
};

typedef struct parser {
    swi_hf_index *index;
    swi_json_reader *json;
    swi_json_event event;
    sw_limits limits;
    bool has_map, has_metadata;
} parser;

/* ---- reading [IDX-1 .. IDX-5] ---------------------------------------------------------------- */

static sw_status next(parser *p, sw_error *err)
{
    return swi_json_next(p->json, &p->event, err);
}

static sw_status fail(const parser *p, const char *clause, const char *what, sw_error *err)
{
    return swi_fail_at(err, SW_ERR_FORMAT, clause, p->event.offset_bytes, "%s, found %s", what,
                       swi_json_kind_name(p->event.kind));
}

static bool text_is(const swi_json_event *event, const char *text)
{
    size_t size = strlen(text);
    return event->size == size && memcmp(event->text, text, size) == 0;
}

static bool has_nul(const swi_json_event *event)
{
    return event->size > 0 && memchr(event->text, 0, event->size) != NULL;
}

static sw_status read_name(parser *p, uint32_t *id, sw_error *err)
{
    swi_hf_index *index = p->index;
    swi_quoted room;
    bool is_new;
    if (has_nul(&p->event))
        return swi_fail_at(err, SW_ERR_UNSUPPORTED, "IDX-2", p->event.offset_bytes,
                           "weight_map: a tensor name with a NUL character in it");
    if (swi_names_count(index->tensors) >= p->limits.tensors)
        return swi_fail_at(err, SW_ERR_LIMIT, "IDX-2", p->event.offset_bytes,
                           "weight_map: more than %" PRIu64 " tensors", p->limits.tensors);
    sw_status status =
        swi_names_add(index->tensors, p->event.text, p->event.size, id, &is_new, err);
    if (status == SW_OK && !is_new)
        return swi_fail_at(err, SW_ERR_FORMAT, "IDX-2", p->event.offset_bytes,
                           "weight_map: tensor \"%s\" is there twice",
                           swi_quote(&room, p->event.text, p->event.size));
    return status;
}

/* A new file name: must stay below the folder [IDX-3]. */
static sw_status check_file(const parser *p, uint32_t file, sw_error *err)
{
    swi_quoted room;
    const char *name = swi_names_at(p->index->files, file, NULL);
    if (has_nul(&p->event))
        return swi_fail_at(err, SW_ERR_UNSAFE, "IDX-3", p->event.offset_bytes,
                           "weight_map: file name \"%s\" with a NUL character in it",
                           swi_quote(&room, p->event.text, p->event.size));
    if (file >= p->limits.files)
        return swi_fail_at(err, SW_ERR_LIMIT, "IDX-3", p->event.offset_bytes,
                           "weight_map: more than %" PRIu64 " files", p->limits.files);
    sw_error cause = {0};
    sw_status status = swi_path_check(name, &cause);
    if (status == SW_OK)
        return SW_OK;
    return swi_fail_at(err, status, "IDX-3", p->event.offset_bytes, "weight_map: file name %s",
                       cause.text);
}

static sw_status read_entry(parser *p, sw_error *err)
{
    swi_hf_index *index = p->index;
    uint32_t id, file;
    bool is_new;
    sw_status status = read_name(p, &id, err);
    if (status == SW_OK)
        status = next(p, err);
    if (status != SW_OK)
        return status;
    if (p->event.kind != SWI_JSON_STRING)
        return fail(p, "IDX-2", "weight_map: expected a file name", err);
    void *items = index->file_of;
    status = swi_grow_array(&items, &index->file_of_capacity, (size_t)id + 1,
                            sizeof *index->file_of, err);
    index->file_of = items;
    if (status == SW_OK)
        status = swi_names_add(index->files, p->event.text, p->event.size, &file, &is_new, err);
    if (status != SW_OK)
        return status;
    index->file_of[id] = file;
    return is_new ? check_file(p, file, err) : SW_OK;
}

static sw_status read_map(parser *p, sw_error *err)
{
    if (p->has_map)
        return swi_fail_at(err, SW_ERR_FORMAT, "IDX-1", p->event.offset_bytes,
                           "weight_map is there twice");
    p->has_map = true;
    sw_status status = next(p, err);
    if (status == SW_OK && p->event.kind != SWI_JSON_OBJECT_BEGIN)
        return fail(p, "IDX-1", "weight_map: expected an object", err);
    while (status == SW_OK) {
        status = next(p, err);
        if (status != SW_OK || p->event.kind == SWI_JSON_OBJECT_END)
            return status;
        status = read_entry(p, err);
    }
    return status;
}

/* Some writers counted in floats. What is no whole number counts as absent [IDX-4]. */
static void take_total(parser *p)
{
    const swi_json_event *e = &p->event;
    if (e->kind == SWI_JSON_INT && e->integer >= 0) {
        p->index->total_bytes = (uint64_t)e->integer;
        p->index->has_total = true;
    } else if (e->kind == SWI_JSON_FLOAT && e->number >= 0 && e->number < 0x1p63 &&
               e->number == (double)(uint64_t)e->number) {
        p->index->total_bytes = (uint64_t)e->number;
        p->index->has_total = true;
    }
}

static sw_status read_metadata(parser *p, sw_error *err)
{
    if (p->has_metadata)
        return swi_fail_at(err, SW_ERR_FORMAT, "IDX-1", p->event.offset_bytes,
                           "metadata is there twice");
    p->has_metadata = true;
    sw_status status = next(p, err);
    if (status != SW_OK || p->event.kind == SWI_JSON_NULL)
        return status;
    if (p->event.kind != SWI_JSON_OBJECT_BEGIN)
        return fail(p, "IDX-4", "metadata: expected an object", err);
    while (status == SW_OK) {
        status = next(p, err);
        if (status != SW_OK || p->event.kind == SWI_JSON_OBJECT_END)
            return status;
        bool is_total = text_is(&p->event, "total_size");
        if (is_total && p->index->has_total)
            return swi_fail_at(err, SW_ERR_FORMAT, "IDX-4", p->event.offset_bytes,
                               "metadata: total_size is there twice");
        status = next(p, err);
        if (status == SW_OK && is_total)
            take_total(p);
        if (status == SW_OK)
            status = swi_json_skip_rest(p->json, &p->event, err);
    }
    return status;
}

static sw_status read_all(parser *p, sw_error *err)
{
    sw_status status = next(p, err);
    if (status == SW_OK && p->event.kind != SWI_JSON_OBJECT_BEGIN)
        return fail(p, "IDX-1", "index: expected an object", err);
    while (status == SW_OK) {
        status = next(p, err);
        if (status != SW_OK || p->event.kind == SWI_JSON_OBJECT_END)
            break;
        if (text_is(&p->event, "weight_map"))
            status = read_map(p, err);
        else if (text_is(&p->event, "metadata"))
            status = read_metadata(p, err);
        else
            status = swi_json_skip(p->json, err);
    }
    if (status == SW_OK)
        status = next(p, err); /* only white space behind it */
    if (status == SW_OK && !p->has_map)
        return swi_fail_at(err, SW_ERR_FORMAT, "IDX-1", 0,
                           "not the index of a sharded model: no weight_map");
    return status;
}

static sw_status make_index(swi_hf_index **out, sw_error *err)
{
    void *p;
    sw_status status = swi_alloc_array(1, sizeof(swi_hf_index), &p, err);
    if (status != SW_OK)
        return status;
    swi_hf_index *index = p;
    status = swi_names_make(&index->tensors, err);
    if (status == SW_OK)
        status = swi_names_make(&index->files, err);
    if (status != SW_OK) {
        swi_hf_index_free(index);
        return status;
    }
    *out = index;
    return SW_OK;
}

sw_status swi_hf_index_parse(const void *data, size_t size, const sw_limits *limits,
                             swi_hf_index **out, sw_error *err)
{
    parser p = {.limits = sw_limits_resolve(limits)};
    sw_status status = make_index(&p.index, err);
    if (status == SW_OK)
        status = swi_json_reader_make(data, size, limits, &p.json, err);
    if (status == SW_OK)
        status = read_all(&p, err);
    /* What the JSON reader found wrong is a matter of IDX-1. */
    if (status == SW_ERR_FORMAT && err != NULL && err->clause[0] == '\0')
        status = swi_fail_at(err, status, "IDX-1", err->offset_bytes, "%s", err->text);
    swi_json_reader_free(p.json);
    if (status != SW_OK) {
        swi_hf_index_free(p.index);
        return status;
    }
    swi_names_trim(p.index->tensors);
    *out = p.index;
    return SW_OK;
}

void swi_hf_index_free(swi_hf_index *index)
{
    if (index == NULL)
        return;
    swi_names_free(index->tensors);
    swi_names_free(index->files);
    free(index->file_of);
    free(index);
}

/* ---- getters --------------------------------------------------------------------------------- */

size_t swi_hf_index_count(const swi_hf_index *index)
{
    return swi_names_count(index->tensors);
}

bool swi_hf_index_at(const swi_hf_index *index, size_t i, const char **name, uint32_t *file)
{
    if (i >= swi_names_count(index->tensors))
        return false;
    *name = swi_names_at(index->tensors, (uint32_t)i, NULL);
    *file = index->file_of[i];
    return true;
}

int64_t swi_hf_index_find(const swi_hf_index *index, const char *name)
{
    int64_t id = swi_names_find(index->tensors, name, strlen(name));
    return id >= 0 ? (int64_t)index->file_of[id] : -1;
}

uint32_t swi_hf_index_file_count(const swi_hf_index *index)
{
    return swi_names_count(index->files);
}

const char *swi_hf_index_file(const swi_hf_index *index, uint32_t file)
{
    return swi_names_at(index->files, file, NULL);
}

bool swi_hf_index_total_size(const swi_hf_index *index, uint64_t *bytes)
{
    if (index->has_total)
        *bytes = index->total_bytes;
    return index->has_total;
}

/* ---- writing [IDX-6] ------------------------------------------------------------------------- */

static int compare_entries(const void *a, const void *b)
{
    const swi_hf_index_entry *x = a, *y = b;
    return strcmp(x->name, y->name);
}

static sw_status check_entries(const swi_hf_index_entry *entries, size_t count, sw_error *err)
{
    swi_quoted room;
    for (size_t i = 0; i < count; i++) {
        const char *name = entries[i].name;
        if (!swi_utf8_valid(name, strlen(name)))
            return swi_fail_at(err, SW_ERR_UNSUPPORTED, "IDX-2", 0,
                               "tensor \"%s\": the name is not UTF-8", swi_quote_str(&room, name));
        if (i > 0 && strcmp(name, entries[i - 1].name) == 0)
            return swi_fail_at(err, SW_ERR_CONFLICT, "IDX-2", 0, "tensor \"%s\" is there twice",
                               swi_quote_str(&room, name));
    }
    return SW_OK;
}

sw_status swi_hf_index_write(swi_buf *out, swi_hf_index_entry *entries, size_t count,
                             uint64_t total_size, uint64_t total_parameters, sw_error *err)
{
    size_t start = out->size;
    swi_json_writer w;
    if (count > 0)
        qsort(entries, count, sizeof *entries, compare_entries);
    sw_status status = check_entries(entries, count, err);
    if (status != SW_OK)
        return status;
    swi_json_start(&w, out, SWI_JSON_INDENT | SWI_JSON_ASCII);
    swi_json_begin_object(&w);
    swi_json_key_str(&w, "metadata");
    swi_json_begin_object(&w);
    swi_json_key_str(&w, "total_parameters");
    swi_json_uint(&w, total_parameters);
    swi_json_key_str(&w, "total_size");
    swi_json_uint(&w, total_size);
    swi_json_end(&w);
    swi_json_key_str(&w, "weight_map");
    swi_json_begin_object(&w);
    for (size_t i = 0; i < count; i++) {
        swi_json_key_str(&w, entries[i].name);
        swi_json_str(&w, entries[i].file);
    }
    swi_json_end(&w);
    swi_json_end(&w);
    status = swi_json_finish(&w, err);
    if (status == SW_OK)
        status = swi_buf_u8(out, '\n', err);
    if (status != SW_OK)
        out->size = start;
    return status;
}
