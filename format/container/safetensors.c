#include "container/safetensors.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/cursor.h"
#include "base/sniff.h"
#include "base/text.h"
#include "container/safetensors_table.h"

#define LENGTH_BYTES ((uint64_t)8)
/* What is read of a file to tell what it is: enough for a Git LFS pointer. */
#define FRONT_MAX ((size_t)512)

typedef struct front {
    uint8_t data[FRONT_MAX];
    size_t size;
    uint64_t file_bytes;
    uint64_t header_bytes; /* as the first 8 bytes have it; 0 when they are not there */
} front;

/* ---- files that are something else [ST-18] --------------------------------------------------- */

static bool begins(const front *f, const void *magic, size_t size)
{
    return f->size >= size && memcmp(f->data, magic, size) == 0;
}

/* "size 123" of a pointer's lines, as text; "?" when there is none. */
static void lfs_size(const front *f, char out[24])
{
    swi_cursor c = swi_cursor_make(f->data, f->size);
    const uint8_t *line;
    size_t size;
    memcpy(out, "?", 2);
    while (swi_get_line(&c, &line, &size)) {
        size_t n = 0;
        if (size < 6 || memcmp(line, "size ", 5) != 0)
            continue;
        while (n < 23 && 5 + n < size && line[5 + n] >= '0' && line[5 + n] <= '9')
            n++;
        if (n == 0)
            return;
        memcpy(out, line + 5, n);
        out[n] = '\0';
        return;
    }
}

/* ---- the front [ST-1, ST-2] ------------------------------------------------------------------ */

/* Says why the front is not that of a safetensors file. */
static sw_status refuse_foreign(const front *f, sw_error *err)
{
    static const char lfs[] = "version https://git-lfs";
    if (begins(f, lfs, sizeof lfs - 1)) {
        char size[24];
        lfs_size(f, size);
        return swi_fail_at(err, SW_ERR_INCOMPLETE, "ST-18", 0,
                           "a Git LFS pointer of %" PRIu64 " bytes, not the file of %s bytes that "
                           "it stands for: fetch it with \"git lfs pull\"",
                           f->file_bytes, size);
    }
    const char *what = swi_sniff(f->data, f->size);
    if (what != NULL)
        return swi_fail_at(err, SW_ERR_FORMAT, "ST-18", 0,
                           "not a safetensors file but %s, of %" PRIu64 " bytes", what,
                           f->file_bytes);
    return SW_OK;
}

static bool has_brace(const front *f)
{
    return f->size > LENGTH_BYTES && f->data[LENGTH_BYTES] == '{';
}

static sw_status refuse_length(const front *f, sw_error *err)
{
    uint64_t n = f->header_bytes;
    if (n > f->file_bytes - LENGTH_BYTES)
        return swi_fail_at(err, SW_ERR_FORMAT, "ST-2", 0,
                           "not a safetensors file: the first 8 bytes tell of a header of %" PRIu64
                           " bytes, the file holds %" PRIu64,
                           n, f->file_bytes);
    if (n == 0)
        return swi_fail_at(err, SW_ERR_FORMAT, "ST-2", 0,
                           "not a safetensors file: the first 8 bytes, the header's length, are 0");
    return swi_fail_at(err, SW_ERR_FORMAT, "ST-3", LENGTH_BYTES,
                       "not a safetensors file: its header begins with byte 0x%02x, not with '{'",
                       f->data[LENGTH_BYTES]);
}

static sw_status refuse_front(const front *f, uint64_t max_header, sw_error *err)
{
    uint64_t n = f->header_bytes;
    if (f->file_bytes == 0)
        return swi_fail_at(err, SW_ERR_CORRUPT, "ST-1", 0, "the file is empty (0 bytes)");
    /* Before the look at magic numbers: some are the low bytes of an honest length. */
    if (f->file_bytes >= LENGTH_BYTES && n > f->file_bytes - LENGTH_BYTES && n <= max_header &&
        (f->file_bytes == LENGTH_BYTES || has_brace(f)))
        return swi_fail_at(err, SW_ERR_CORRUPT, "ST-2", f->file_bytes,
                           "cut inside its header: a header of %" PRIu64 " bytes ends at %" PRIu64
                           ", the file holds %" PRIu64 " bytes: %" PRIu64
                           " are missing, and all tensor data",
                           n, n + LENGTH_BYTES, f->file_bytes, n + LENGTH_BYTES - f->file_bytes);
    sw_status status = refuse_foreign(f, err);
    if (status != SW_OK)
        return status;
    if (f->file_bytes < LENGTH_BYTES)
        return swi_fail_at(err, SW_ERR_CORRUPT, "ST-1", f->file_bytes,
                           "cut: the file holds %" PRIu64
                           " bytes, not even the 8 of the header's length",
                           f->file_bytes);
    return refuse_length(f, err);
}

static sw_status read_front(const swi_reader *reader, uint32_t file, uint64_t file_bytes,
                            uint64_t max_header, front *f, sw_error *err)
{
    f->file_bytes = file_bytes;
    f->size = file_bytes < FRONT_MAX ? (size_t)file_bytes : FRONT_MAX;
    f->header_bytes = 0;
    sw_status status = SW_OK;
    if (f->size > 0)
        status = reader->read(reader, file, 0, f->data, f->size, err);
    if (status != SW_OK)
        return status;
    swi_cursor c = swi_cursor_make(f->data, f->size);
    uint64_t n = 0;
    bool is_right = swi_get_u64le(&c, &n) && n <= file_bytes - LENGTH_BYTES && has_brace(f);
    f->header_bytes = n;
    if (!is_right || n == 0)
        return refuse_front(f, max_header, err);
    if (n > max_header)
        return swi_fail_at(err, SW_ERR_LIMIT, "ST-2", 0,
                           "a header of %" PRIu64 " bytes, the limit is %" PRIu64
                           " (limits.header_bytes)",
                           n, max_header);
    return SW_OK;
}

/* ---- the proof of the ranges [ST-11, ST-12] -------------------------------------------------- */

static int compare_rows(const void *a, const void *b, void *ctx)
{
    const swi_st_row *x = a, *y = b;
    if (x->begin != y->begin)
        return x->begin < y->begin ? -1 : 1;
    if (x->end != y->end)
        return x->end < y->end ? -1 : 1;
    return strcmp(swi_names_at(ctx, x->name, NULL), swi_names_at(ctx, y->name, NULL));
}

static sw_status sort_rows(swi_st *st, sw_error *err)
{
    bool is_sorted = true;
    for (size_t i = 1; i < st->count && is_sorted; i++)
        is_sorted = compare_rows(&st->rows[i - 1], &st->rows[i], st->names) < 0;
    if (!is_sorted)
        qsort_r(st->rows, st->count, sizeof *st->rows, compare_rows, st->names);
    void *p;
    sw_status status = swi_alloc_array(st->count, sizeof *st->row_of, &p, err);
    if (status != SW_OK)
        return status;
    st->row_of = p;
    for (size_t i = 0; i < st->count; i++)
        st->row_of[st->rows[i].name] = (uint32_t)i;
    return SW_OK;
}

static const char *quoted_name(const swi_st *st, const swi_st_row *row, swi_quoted *room)
{
    size_t size;
    const char *name = swi_names_at(st->names, row->name, &size);
    return swi_quote(room, name, size);
}

static sw_status check_ranges(const swi_st *st, sw_error *err)
{
    uint64_t end = 0;
    swi_quoted room, before;
    for (size_t i = 0; i < st->count; i++) {
        const swi_st_row *row = &st->rows[i];
        if (row->begin > end)
            return swi_fail_at(err, SW_ERR_FORMAT, "ST-11", st->data_offset_bytes + end,
                               "tensor \"%s\" begins at data byte %" PRIu64 ", but %" PRIu64
                               " bytes before it belong to no tensor",
                               quoted_name(st, row, &room), row->begin, row->begin - end);
        if (row->begin < end)
            return swi_fail_at(err, SW_ERR_CONFLICT, "ST-11", st->data_offset_bytes + row->begin,
                               "tensors \"%s\" and \"%s\" overlap: data bytes [%" PRIu64
                               ", %" PRIu64 ") and [%" PRIu64 ", %" PRIu64 ")",
                               quoted_name(st, &st->rows[i - 1], &before),
                               quoted_name(st, row, &room), st->rows[i - 1].begin, end, row->begin,
                               row->end);
        end = row->end;
    }
    return SW_OK;
}

/* The file ends where the data do. Rows are in order and contiguous. */
static sw_status check_end(const swi_st *st, uint64_t file_bytes, sw_error *err)
{
    uint64_t data = st->count > 0 ? st->rows[st->count - 1].end : 0;
    uint64_t have = file_bytes - st->data_offset_bytes;
    if (have == data)
        return SW_OK;
    if (have > data)
        return swi_fail_at(err, SW_ERR_CORRUPT, "ST-12", st->data_offset_bytes + data,
                           "%" PRIu64 " extra bytes after the last tensor: data end at %" PRIu64
                           ", the file holds %" PRIu64 " bytes",
                           have - data, st->data_offset_bytes + data, file_bytes);
    size_t whole = 0;
    while (st->rows[whole].end <= have)
        whole++;
    swi_quoted room;
    return swi_fail_at(
        err, SW_ERR_CORRUPT, "ST-12", file_bytes,
        "cut: data end at byte %" PRIu64 ", the file holds %" PRIu64 " bytes: %" PRIu64
        " are missing; %zu of %zu tensors are whole, the first that is not is "
        "\"%s\" (bytes %" PRIu64 " to %" PRIu64 ")",
        st->data_offset_bytes + data, file_bytes, data - have, whole, st->count,
        quoted_name(st, &st->rows[whole], &room), st->data_offset_bytes + st->rows[whole].begin,
        st->data_offset_bytes + st->rows[whole].end);
}

/* ---- open ------------------------------------------------------------------------------------ */

static sw_status make_tables(swi_st **out, sw_error *err)
{
    void *p;
    sw_status status = swi_alloc_array(1, sizeof(swi_st), &p, err);
    if (status != SW_OK)
        return status;
    swi_st *st = p;
    status = swi_names_make(&st->names, err);
    if (status == SW_OK)
        status = swi_names_make(&st->unknown, err);
    if (status != SW_OK) {
        swi_st_free(st);
        return status;
    }
    *out = st;
    return SW_OK;
}

static sw_status read_header(swi_st *st, const swi_reader *reader, uint32_t file, uint64_t bytes,
                             sw_error *err)
{
    size_t size;
    void *data;
    if (!swi_u64_to_size(bytes, &size))
        return swi_fail_nomem(err);
    sw_status status = swi_alloc_array(size, 1, &data, err);
    if (status != SW_OK)
        return status;
    status = reader->read(reader, file, LENGTH_BYTES, data, size, err);
    if (status == SW_OK) {
        status = swi_st_parse_header(st, data, size, &reader->limits, err);
        if (status != SW_OK)
            swi_error_shift(err, LENGTH_BYTES);
    }
    free(data);
    return status;
}

sw_status swi_st_open(const swi_reader *reader, uint32_t file, uint64_t file_bytes, swi_st **out,
                      sw_error *err)
{
    front f;
    swi_st *st = NULL;
    sw_status status = read_front(reader, file, file_bytes, reader->limits.header_bytes, &f, err);
    if (status == SW_OK)
        status = make_tables(&st, err);
    if (status != SW_OK)
        return status;
    st->data_offset_bytes = LENGTH_BYTES + f.header_bytes;
    status = read_header(st, reader, file, f.header_bytes, err);
    if (status == SW_OK)
        status = sort_rows(st, err);
    if (status == SW_OK)
        status = check_ranges(st, err);
    if (status == SW_OK)
        status = check_end(st, file_bytes, err);
    if (status == SW_OK) {
        status = swi_st_parse_sharding(st, &reader->limits, err);
        if (status != SW_OK)
            swi_error_shift(err, LENGTH_BYTES);
    }
    if (status != SW_OK) {
        swi_st_free(st);
        return status;
    }
    swi_names_trim(st->names);
    *out = st;
    return SW_OK;
}

void swi_st_free(swi_st *st)
{
    if (st == NULL)
        return;
    swi_names_free(st->names);
    swi_names_free(st->unknown);
    swi_names_free(st->meta_keys);
    swi_arena_free(&st->meta_text);
    free((void *)st->meta_values);
    free(st->rows);
    free(st->row_of);
    free(st->dims);
    free(st->saved);
    free(st);
}

/* ---- getters --------------------------------------------------------------------------------- */

size_t swi_st_count(const swi_st *st)
{
    return st->count;
}

uint64_t swi_st_data_offset(const swi_st *st)
{
    return st->data_offset_bytes;
}

uint64_t swi_st_memory(const swi_st *st)
{
    return sizeof *st + swi_names_memory(st->names) + swi_names_memory(st->unknown) +
           (st->meta_keys != NULL ? swi_names_memory(st->meta_keys) : 0) +
           st->meta_text.total_bytes + st->meta_capacity * sizeof *st->meta_values +
           st->row_capacity * sizeof *st->rows + st->count * sizeof *st->row_of +
           st->dim_capacity * sizeof *st->dims + st->saved_capacity * sizeof *st->saved;
}

void swi_st_at(const swi_st *st, size_t i, swi_st_tensor *out)
{
    const swi_st_row *row = &st->rows[i];
    *out = (swi_st_tensor){
        .dtype = row->kind < SWI_ST_KINDS ? swi_st_kinds[row->kind].dtype : SW_DTYPE_NONE,
        .dtype_name = swi_st_row_kind(st, row),
        .axes = row->axes,
        .offset_bytes = st->data_offset_bytes + row->begin,
        .bytes = row->end - row->begin,
    };
    out->name = swi_names_at(st->names, row->name, &out->name_size);
    for (uint32_t axis = 0; axis < row->axes; axis++)
        out->shape[axis] = st->dims[row->shape_at + axis];
    if (out->dtype == SW_F4_E2M1FN_X2)
        out->shape[row->axes - 1] /= 2;
}

int64_t swi_st_find(const swi_st *st, const char *name)
{
    int64_t id = swi_names_find(st->names, name, strlen(name));
    return id >= 0 ? (int64_t)st->row_of[id] : -1;
}

size_t swi_st_meta_count(const swi_st *st)
{
    return st->meta_keys != NULL ? swi_names_count(st->meta_keys) : 0;
}

bool swi_st_meta_at(const swi_st *st, size_t i, const char **key, const char **value)
{
    if (i >= swi_st_meta_count(st))
        return false;
    *key = swi_names_at(st->meta_keys, (uint32_t)i, NULL);
    *value = st->meta_values[i];
    return true;
}

const char *swi_st_meta(const swi_st *st, const char *key)
{
    int64_t id = st->meta_keys != NULL ? swi_names_find(st->meta_keys, key, strlen(key)) : -1;
    return id >= 0 ? st->meta_values[id] : NULL;
}

const int64_t *swi_st_saved_offsets(const swi_st *st, size_t i, uint32_t *axes)
{
    static const int64_t none = 0;
    const swi_st_row *row = &st->rows[i];
    if (row->offsets_at == SWI_ST_NO_OFFSETS)
        return NULL;
    *axes = row->axes;
    return row->axes > 0 ? st->saved + row->offsets_at : &none;
}
