/* Clauses of specs/digest.md. */
#include "container/digest_list.h"

#include <stdlib.h>
#include <string.h>

#include "base/cursor.h"
#include "base/text.h"

static const char first_line[] = "# shardwright-digests 1";

#define HEX_DIGITS ((size_t)2 * SWI_DIGEST_BYTES)
#define TAG_LIST 3

void swi_digest_list_free(swi_digest_list *list)
{
    swi_arena_free(&list->arena);
    free(list->items);
    free(list->only);
    *list = (swi_digest_list){0};
}

sw_status swi_digest_list_add(swi_digest_list *list, const char *name, size_t size,
                              const swi_digest *digest, sw_error *err)
{
    const char *copy;
    sw_status status = swi_grow_array((void **)&list->items, &list->capacity, list->count + 1,
                                      sizeof *list->items, err);
    if (status == SW_OK)
        status = swi_arena_text(&list->arena, name, size, &copy, err);
    if (status == SW_OK)
        list->items[list->count++] = (swi_digest_entry){.name = copy, .digest = *digest};
    return status;
}

/* The list of patterns ends with a NULL. */
sw_status swi_digest_list_add_only(swi_digest_list *list, const char *glob, size_t size,
                                   sw_error *err)
{
    const char *copy;
    sw_status status = swi_grow_array((void **)&list->only, &list->only_capacity,
                                      list->only_count + 2, sizeof *list->only, err);
    if (status == SW_OK)
        status = swi_arena_text(&list->arena, glob, size, &copy, err);
    if (status == SW_OK) {
        list->only[list->only_count++] = copy;
        list->only[list->only_count] = NULL;
    }
    return status;
}

/* ---- order and root ----------------------------------------------------------------------- */

static int by_name(const void *a, const void *b)
{
    return strcmp(((const swi_digest_entry *)a)->name, ((const swi_digest_entry *)b)->name);
}

static sw_status hash_number(swi_hasher *hasher, uint64_t n, sw_error *err)
{
    uint8_t le[8];
    for (int i = 0; i < 8; i++)
        le[i] = (uint8_t)(n >> (8 * i));
    return swi_hasher_add(hasher, le, sizeof le, err);
}

/* DIG-8 */
static sw_status hash_list(swi_hasher *hasher, const swi_digest_list *list, swi_digest *out,
                           sw_error *err)
{
    const uint8_t tag = TAG_LIST;
    sw_status status = swi_hasher_begin(hasher, err);
    if (status == SW_OK)
        status = swi_hasher_add(hasher, &tag, 1, err);
    if (status == SW_OK)
        status = hash_number(hasher, list->count, err);
    for (size_t i = 0; i < list->count && status == SW_OK; i++) {
        const swi_digest_entry *e = &list->items[i];
        status = hash_number(hasher, strlen(e->name), err);
        if (status == SW_OK)
            status = swi_hasher_add(hasher, e->name, strlen(e->name), err);
        if (status == SW_OK)
            status = swi_hasher_add(hasher, e->digest.bytes, SWI_DIGEST_BYTES, err);
    }
    if (status == SW_OK)
        status = swi_hasher_end(hasher, out, err);
    return status;
}

static sw_status find_root(const swi_digest_list *list, swi_digest *out, sw_error *err)
{
    swi_hasher *hasher = NULL;
    sw_status status = swi_hasher_make(&hasher, err);
    if (status == SW_OK)
        status = hash_list(hasher, list, out, err);
    swi_hasher_free(hasher);
    return status;
}

sw_status swi_digest_list_end(swi_digest_list *list, sw_error *err)
{
    swi_quoted room;
    if (list->count > 1)
        qsort(list->items, list->count, sizeof *list->items, by_name);
    for (size_t i = 1; i < list->count; i++) {
        if (strcmp(list->items[i - 1].name, list->items[i].name) == 0)
            return swi_fail(err, SW_ERR_CONFLICT, "two tensors are called \"%s\"",
                            swi_quote_str(&room, list->items[i].name));
    }
    return find_root(list, &list->root, err);
}

const swi_digest_entry *swi_digest_list_find(const swi_digest_list *list, const char *name)
{
    const swi_digest_entry key = {.name = name};
    if (list->count == 0)
        return NULL;
    return bsearch(&key, list->items, list->count, sizeof *list->items, by_name);
}

/* ---- writing ------------------------------------------------------------------------------ */

/* DIG-11 */
static bool is_plain(uint8_t c)
{
    return c > 0x20 && c < 0x7f && c != '\\';
}

sw_status swi_digest_list_escape(swi_buf *out, const char *name, sw_error *err)
{
    sw_status status = SW_OK;
    for (const char *p = name; *p != '\0' && status == SW_OK; p++) {
        uint8_t c = (uint8_t)*p;
        status = is_plain(c) ? swi_buf_u8(out, c, err) : swi_buf_printf(out, err, "\\x%02x", c);
    }
    return status;
}

static sw_status put_header(const swi_digest_list *list, swi_buf *out, sw_error *err)
{
    char root[SWI_DIGEST_TEXT];
    swi_digest_text(&list->root, root);
    sw_status status =
        swi_buf_printf(out, err, "%s\n# names %s\n", first_line, list->weights ? "weights" : "all");
    if (status == SW_OK && list->as != SW_DTYPE_NONE)
        status = swi_buf_printf(out, err, "# as %s\n", sw_dtype_name(list->as));
    for (size_t i = 0; i < list->only_count && status == SW_OK; i++) {
        status = swi_buf_append_str(out, "# only ", err);
        if (status == SW_OK)
            status = swi_digest_list_escape(out, list->only[i], err);
        if (status == SW_OK)
            status = swi_buf_u8(out, '\n', err);
    }
    if (status == SW_OK)
        status = swi_buf_printf(out, err, "# root %s\n", root);
    return status;
}

sw_status swi_digest_list_text(const swi_digest_list *list, swi_buf *out, sw_error *err)
{
    sw_status status = put_header(list, out, err);
    for (size_t i = 0; i < list->count && status == SW_OK; i++) {
        char digest[SWI_DIGEST_TEXT];
        swi_digest_text(&list->items[i].digest, digest);
        status = swi_buf_printf(out, err, "%s  ", digest);
        if (status == SW_OK)
            status = swi_digest_list_escape(out, list->items[i].name, err);
        if (status == SW_OK)
            status = swi_buf_u8(out, '\n', err);
    }
    return status;
}

/* ---- reading ------------------------------------------------------------------------------ */

typedef struct parser {
    swi_cursor in;
    size_t line_at; /* offset of the current line */
    swi_buf text;   /* an unescaped name */
    swi_digest root;
    bool has_names, has_root;
    swi_digest_list *list;
} parser;

static sw_status bad_line(const parser *p, const char *clause, const char *what, sw_error *err)
{
    return swi_fail_at(err, SW_ERR_FORMAT, clause, p->line_at, "digest list: %s", what);
}

static bool get_line(parser *p, swi_cursor *line)
{
    p->line_at = p->in.pos;
    size_t left = swi_cursor_left(&p->in), size = 0;
    while (size < left && p->in.data[p->in.pos + size] != '\n')
        size++;
    return size < left && swi_get_sub(&p->in, size, line) && swi_skip(&p->in, 1);
}

static bool get_word(swi_cursor *line, const char *word)
{
    const uint8_t *at;
    swi_cursor c = *line;
    size_t size = strlen(word);
    if (!swi_get_bytes(&c, size, &at) || memcmp(at, word, size) != 0)
        return false;
    *line = c;
    return true;
}

/* DIG-11: the rest of the line, unescaped, into p->text. */
static sw_status get_name(parser *p, swi_cursor *line, sw_error *err)
{
    uint8_t c;
    p->text.size = 0;
    sw_status status = swi_buf_reserve(&p->text, 1, err);
    while (status == SW_OK && swi_get_u8(line, &c)) {
        const uint8_t *code;
        if (c == '\\') {
            if (!swi_get_bytes(line, 3, &code) || code[0] != 'x' ||
                swi_hex_digit((char)code[1]) < 0 || swi_hex_digit((char)code[2]) < 0)
                return bad_line(p, "DIG-11", "a backslash that is no \\xNN", err);
            c = (uint8_t)(swi_hex_digit((char)code[1]) << 4 | swi_hex_digit((char)code[2]));
            if (is_plain(c) || c == '\0')
                return bad_line(p, "DIG-11", "an escaped byte that needs none", err);
        } else if (!is_plain(c)) {
            return bad_line(p, "DIG-11", "a byte that must be escaped", err);
        }
        status = swi_buf_u8(&p->text, c, err);
    }
    if (status == SW_OK && !swi_utf8_valid(p->text.data, p->text.size))
        return bad_line(p, "DIG-11", "a name that is not UTF-8", err);
    return status;
}

static bool get_digest(swi_cursor *line, swi_digest *out)
{
    const uint8_t *at;
    return swi_get_bytes(line, HEX_DIGITS, &at) &&
           swi_digest_parse((const char *)at, HEX_DIGITS, out);
}

static sw_status parse_as(parser *p, swi_cursor *line, sw_error *err)
{
    sw_status status = get_name(p, line, err);
    if (status == SW_OK)
        status = swi_buf_u8(&p->text, '\0', err);
    if (status != SW_OK)
        return status;
    const char *name = (const char *)p->text.data;
    sw_dtype dtype = sw_dtype_from_name(name);
    if (dtype == SW_DTYPE_NONE || p->list->as != SW_DTYPE_NONE ||
        strcmp(sw_dtype_name(dtype), name) != 0)
        return bad_line(p, "DIG-10", "\"as\" twice, or with a type that is not known", err);
    p->list->as = dtype;
    return SW_OK;
}

/* One line of '#', behind the first. */
static sw_status parse_header_line(parser *p, swi_cursor *line, sw_error *err)
{
    if (p->has_root)
        return bad_line(p, "DIG-10", "a header line behind the root", err);
    if (get_word(line, "# root ")) {
        p->has_root = get_digest(line, &p->root) && swi_cursor_left(line) == 0;
        return p->has_root ? SW_OK : bad_line(p, "DIG-10", "a root of other than 64 digits", err);
    }
    if (get_word(line, "# as "))
        return parse_as(p, line, err);
    if (get_word(line, "# only ")) {
        sw_status status = get_name(p, line, err);
        if (status == SW_OK)
            status =
                swi_digest_list_add_only(p->list, (const char *)p->text.data, p->text.size, err);
        return status;
    }
    bool weights = get_word(line, "# names weights");
    if (p->has_names || (!weights && !get_word(line, "# names all")) || swi_cursor_left(line) > 0)
        return bad_line(p, "DIG-10", "a header line that is not known", err);
    p->has_names = true;
    p->list->weights = weights;
    return SW_OK;
}

static sw_status parse_entry(parser *p, swi_cursor *line, sw_error *err)
{
    swi_digest digest;
    if (!p->has_root)
        return bad_line(p, "DIG-10", "no root before the digests", err);
    if (!get_digest(line, &digest) || !get_word(line, "  "))
        return bad_line(p, "DIG-10", "a line that is not 64 digits, two spaces and a name", err);
    sw_status status = get_name(p, line, err);
    if (status == SW_OK)
        status =
            swi_digest_list_add(p->list, (const char *)p->text.data, p->text.size, &digest, err);
    if (status != SW_OK)
        return status;
    const swi_digest_entry *items = p->list->items;
    size_t n = p->list->count;
    if (n > 1 && by_name(&items[n - 2], &items[n - 1]) >= 0)
        return bad_line(p, "DIG-12", "names that are not in ascending order", err);
    return SW_OK;
}

static sw_status parse_lines(parser *p, sw_error *err)
{
    swi_cursor line;
    if (!get_line(p, &line) || !get_word(&line, first_line) || swi_cursor_left(&line) > 0)
        return bad_line(p, "DIG-10", "it does not begin with \"# shardwright-digests 1\"", err);
    while (swi_cursor_left(&p->in) > 0) {
        uint8_t c;
        if (!get_line(p, &line))
            return bad_line(p, "DIG-10", "the last line has no end", err);
        bool header = swi_peek_u8(&line, &c) && c == '#';
        sw_status status = header ? parse_header_line(p, &line, err) : parse_entry(p, &line, err);
        if (status != SW_OK)
            return status;
    }
    p->line_at = p->in.pos;
    return p->has_root ? SW_OK : bad_line(p, "DIG-10", "it has no root", err);
}

sw_status swi_digest_list_parse(const void *data, size_t size, swi_digest_list *out, sw_error *err)
{
    swi_digest_list made = {0};
    parser p = {.in = swi_cursor_make(data, size), .list = &made};
    sw_status status = parse_lines(&p, err);
    if (status == SW_OK)
        status = find_root(&made, &made.root, err);
    if (status == SW_OK && memcmp(&made.root, &p.root, sizeof p.root) != 0)
        status = swi_fail_at(err, SW_ERR_CORRUPT, "DIG-12", 0,
                             "digest list: its lines do not give the root that it states");
    swi_buf_free(&p.text);
    if (status != SW_OK) {
        swi_digest_list_free(&made);
        return status;
    }
    *out = made;
    return SW_OK;
}
