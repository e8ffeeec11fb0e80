#include "optimizer/param_names.h"

#include <stdlib.h>
#include <string.h>

#include "base/names.h"
#include "base/text.h"
#include "io/store.h"
#include "select/names.h"

void swi_param_names_free(swi_param_names *names)
{
    free(names->items);
    free(names->numbers);
    swi_arena_free(&names->arena);
    *names = (swi_param_names){0};
}

typedef struct reading {
    swi_param_names *out;
    size_t capacity, number_capacity, line;
    swi_names *seen, *numbers;
    bool numbered;
} reading;

/* "12 layers.0.w": the size of what stands before the name; 0: there is no number. */
static size_t number_before(const char *text, size_t size)
{
    size_t n = 0;
    while (n < size && text[n] >= '0' && text[n] <= '9')
        n++;
    const size_t digits = n;
    while (n < size && (text[n] == ' ' || text[n] == '\t'))
        n++;
    return digits > 0 && digits < 19 && n > digits && n < size ? n : 0;
}

static sw_status take_number(reading *r, const char *text, size_t size, sw_error *err)
{
    uint32_t id;
    bool is_new;
    size_t digits = 0;
    if (r->out->count == 0)
        r->numbered = size > 0;
    if (r->numbered != (size > 0))
        return swi_fail(err, SW_ERR_FORMAT, "line %zu %s a number before the name, the first %s",
                        r->line, size > 0 ? "has" : "lacks", size > 0 ? "has not" : "has one");
    if (!r->numbered)
        return SW_OK;
    while (text[digits] >= '0' && text[digits] <= '9')
        digits++;
    while (digits > 1 && *text == '0') {
        text++;
        digits--;
    }
    sw_status st = swi_names_add(r->numbers, text, digits, &id, &is_new, err);
    if (st == SW_OK && !is_new)
        st = swi_fail(err, SW_ERR_CONFLICT, "line %zu: number %.*s was given before", r->line,
                      (int)digits, text);
    if (st == SW_OK)
        st = swi_grow_array((void **)&r->out->numbers, &r->number_capacity, r->out->count + 1,
                            sizeof *r->out->numbers, err);
    if (st == SW_OK)
        r->out->numbers[r->out->count] = strtoull(text, NULL, 10);
    return st;
}

static sw_status take_line(reading *r, const char *text, size_t size, sw_error *err)
{
    bool is_new;
    uint32_t id;
    swi_quoted q;
    r->line++;
    if (size > 0 && text[size - 1] == '\r')
        size--;
    if (size == 0)
        return SW_OK;
    if (!swi_utf8_valid(text, size) || memchr(text, 0, size) != NULL)
        return swi_fail(err, SW_ERR_FORMAT, "line %zu is no text", r->line);
    const size_t before = number_before(text, size);
    sw_status st = take_number(r, text, before, err);
    if (st != SW_OK)
        return st;
    text += before;
    size -= before;
    st = swi_names_add(r->seen, text, size, &id, &is_new, err);
    if (st == SW_OK && !is_new)
        return swi_fail(err, SW_ERR_CONFLICT, "line %zu: \"%s\" was named before", r->line,
                        swi_quote(&q, text, size));
    if (st == SW_OK)
        st = swi_grow_array((void **)&r->out->items, &r->capacity, r->out->count + 1,
                            sizeof *r->out->items, err);
    if (st == SW_OK)
        st = swi_arena_text(&r->out->arena, text, size, &r->out->items[r->out->count], err);
    if (st == SW_OK)
        r->out->count++;
    return st;
}

static sw_status take_lines(reading *r, const char *text, size_t size, sw_error *err)
{
    sw_status st = swi_names_make(&r->seen, err);
    if (st == SW_OK)
        st = swi_names_make(&r->numbers, err);
    while (st == SW_OK && size > 0) {
        const char *end = memchr(text, '\n', size);
        size_t n = end != NULL ? (size_t)(end - text) : size;
        st = take_line(r, text, n, err);
        n += end != NULL;
        text += n;
        size -= n;
    }
    if (st == SW_OK && r->out->count == 0)
        st = swi_fail(err, SW_ERR_FORMAT, "there is no name in it");
    swi_names_free(r->seen);
    swi_names_free(r->numbers);
    return st;
}

sw_status swi_param_names_read(const char *path, const sw_limits *limits, bool keep_prefixes,
                               swi_param_names *out, sw_error *err)
{
    swi_param_names made = {0};
    reading r = {.out = &made};
    uint8_t *data = NULL;
    size_t size = 0;
    uint64_t removed = 0;
    swi_quoted q;
    sw_status st = swi_read_file(path, limits->metadata_bytes, &data, &size, err);
    if (st == SW_OK && (st = take_lines(&r, (const char *)data, size, err)) != SW_OK)
        (void)swi_error_prefix(err, "%s", swi_quote_str(&q, path));
    if (st == SW_OK && !keep_prefixes)
        st = swi_clean_names(made.items, made.count, true, &made.arena, &removed, err);
    if (st != SW_OK)
        (void)swi_error_prefix(err, "--param-names");
    free(data);
    if (st == SW_OK)
        *out = made;
    else
        swi_param_names_free(&made);
    return st;
}
