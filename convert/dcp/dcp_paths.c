#include "dcp/dcp_paths.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"

/*
 * A row: count << 1 | is the text in the row; then for each part size << 1 | is it an index, and
 * its bytes if they are in the row, else they are those of the key. Numbers of 7 bits a byte.
 */
typedef struct rows {
    const uint8_t **items; /* NULL: no path */
    size_t capacity;
} rows;

struct swi_dcp_paths {
    rows of[2];
    swi_arena arena;
    swi_buf row; /* being made */
};

sw_status swi_dcp_paths_make(swi_dcp_paths **out, sw_error *err)
{
    return swi_alloc_array(1, sizeof **out, (void **)out, err);
}

void swi_dcp_paths_free(void *paths)
{
    swi_dcp_paths *p = paths;
    if (p == NULL)
        return;
    free(p->of[0].items);
    free(p->of[1].items);
    swi_arena_free(&p->arena);
    swi_buf_free(&p->row);
    free(p);
}

void swi_dcp_path_end(swi_dcp_path *path)
{
    free(path->parts);
    free(path->is_index);
    swi_buf_free(&path->text);
    *path = (swi_dcp_path){0};
}

static sw_status put_number(swi_buf *row, uint64_t v, sw_error *err)
{
    sw_status st = SW_OK;
    for (; st == SW_OK && v >= 0x80; v >>= 7)
        st = swi_buf_u8(row, (uint8_t)(v | 0x80), err);
    return st == SW_OK ? swi_buf_u8(row, (uint8_t)v, err) : st;
}

static uint64_t get_number(const uint8_t **p)
{
    uint64_t v = 0;
    for (unsigned shift = 0;; shift += 7) {
        uint8_t byte = *(*p)++;
        v |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80)
            return v;
    }
}

/* How many parts the key has; *is_key: joined with dots they are the key. */
static size_t count_parts(const swi_dcp_meta *meta, const char *key, bool *is_key)
{
    const char *part, *rest = key;
    bool index;
    size_t count = 0;
    *is_key = true;
    for (; swi_dcp_path_part(meta, key, count, &part, &index); count++) {
        size_t size = strlen(part);
        if (count > 0 && *is_key)
            *is_key = *rest++ == '.';
        *is_key = *is_key && strncmp(rest, part, size) == 0;
        rest += *is_key ? size : 0;
    }
    *is_key = *is_key && *rest == '\0';
    return count;
}

sw_status swi_dcp_paths_add(swi_dcp_paths *paths, const swi_dcp_meta *meta, swi_dcp_of of,
                            size_t index, const char *key, sw_error *err)
{
    bool is_key, is_index;
    const char *part;
    size_t count = count_parts(meta, key, &is_key);
    rows *r = &paths->of[of];
    if (count == 0)
        return SW_OK;
    paths->row.size = 0;
    sw_status st = put_number(&paths->row, (uint64_t)count << 1 | !is_key, err);
    for (size_t i = 0; st == SW_OK && swi_dcp_path_part(meta, key, i, &part, &is_index); i++) {
        size_t size = strlen(part);
        st = put_number(&paths->row, (uint64_t)size << 1 | is_index, err);
        if (st == SW_OK && !is_key)
            st = swi_buf_append(&paths->row, part, size, err);
    }
    uint8_t *kept = NULL;
    if (st == SW_OK)
        st = swi_grow_array((void **)&r->items, &r->capacity, index + 1, sizeof *r->items, err);
    if (st == SW_OK)
        st = swi_arena_bytes(&paths->arena, paths->row.size, &kept, err);
    if (st != SW_OK)
        return st;
    memcpy(kept, paths->row.data, paths->row.size);
    r->items[index] = kept;
    return SW_OK;
}

static sw_status add_part(swi_dcp_path *out, const void *text, size_t size, bool is_index,
                          sw_error *err)
{
    sw_status st = swi_grow_array((void **)&out->is_index, &out->index_capacity, out->count + 1,
                                  sizeof *out->is_index, err);
    if (st == SW_OK)
        st = swi_buf_append(&out->text, text, size, err);
    if (st == SW_OK)
        st = swi_buf_u8(&out->text, 0, err);
    if (st == SW_OK)
        out->is_index[out->count++] = is_index;
    return st;
}

/* The parts lie one behind the other in the text. */
static sw_status point_parts(swi_dcp_path *out, sw_error *err)
{
    sw_status st = swi_grow_array((void **)&out->parts, &out->part_capacity, out->count,
                                  sizeof *out->parts, err);
    const char *text = (const char *)out->text.data;
    for (size_t i = 0; st == SW_OK && i < out->count; i++) {
        out->parts[i] = text;
        text += strlen(text) + 1;
    }
    return st;
}

sw_status swi_dcp_paths_get(const swi_dcp_paths *paths, swi_dcp_of of, size_t index,
                            const char *key, swi_dcp_path *out, sw_error *err)
{
    const rows *r = &paths->of[of];
    const uint8_t *row = index < r->capacity ? r->items[index] : NULL;
    sw_status st = SW_OK;
    out->count = 0;
    out->text.size = 0;
    if (row == NULL) {
        st = add_part(out, key, strlen(key), false, err);
        return st == SW_OK ? point_parts(out, err) : st;
    }
    uint64_t head = get_number(&row);
    for (uint64_t i = 0; st == SW_OK && i < head >> 1; i++) {
        uint64_t part = get_number(&row);
        size_t size = (size_t)(part >> 1);
        const uint8_t *text = (head & 1) != 0 ? row : (const uint8_t *)key;
        st = add_part(out, text, size, (part & 1) != 0, err);
        if ((head & 1) != 0)
            row += size;
        else
            key += size + (i + 1 < head >> 1);
    }
    return st == SW_OK ? point_parts(out, err) : st;
}
