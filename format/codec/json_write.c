#include "codec/json_write.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

/* ---- quoting ------------------------------------------------------------------------------- */

static sw_status append_unit(swi_buf *out, uint32_t unit, sw_error *err)
{
    static const char hex[] = "0123456789abcdef";
    char text[6] = {'\\', 'u'};
    for (int i = 0; i < 4; i++)
        text[2 + i] = hex[unit >> (12 - 4 * i) & 15];
    return swi_buf_append(out, text, sizeof text, err);
}

/* One ASCII character that cannot stand for itself. */
static sw_status append_escape(swi_buf *out, uint8_t c, sw_error *err)
{
    static const char from[] = "\"\\\b\f\n\r\t";
    static const char to[] = "\"\\bfnrt";
    const char *at = c != '\0' ? strchr(from, c) : NULL;
    if (at == NULL)
        return append_unit(out, c, err);
    char text[2] = {'\\', to[at - from]};
    return swi_buf_append(out, text, sizeof text, err);
}

/* A character of `size` bytes, known to be valid UTF-8 and not ASCII, as \u escapes. */
static sw_status append_ascii(swi_buf *out, const uint8_t *p, size_t size, sw_error *err)
{
    uint32_t c = p[0] & (0xffU >> (size + 1));
    for (size_t i = 1; i < size; i++)
        c = c << 6 | (p[i] & 0x3fU);
    if (c < 0x10000)
        return append_unit(out, c, err);
    c -= 0x10000;
    sw_status status = append_unit(out, 0xd800 + (c >> 10), err);
    return status == SW_OK ? append_unit(out, 0xdc00 + (c & 0x3ff), err) : status;
}

static bool is_plain(uint8_t c)
{
    return c >= 0x20 && c < 0x7f && c != '"' && c != '\\';
}

static size_t char_size(uint8_t lead)
{
    return lead < 0x80 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
}

/* The character at p, one that is not plain; *used: how many bytes it took. */
static sw_status append_special(swi_buf *out, const uint8_t *p, size_t left, bool ascii,
                                size_t *used, sw_error *err)
{
    *used = 1;
    if (p[0] < 0x80)
        return p[0] == 0x7f ? swi_buf_u8(out, 0x7f, err) : append_escape(out, p[0], err);
    size_t size = char_size(p[0]);
    if (size > left || swi_utf8_prefix(p, size) != size)
        return ascii ? append_unit(out, 0xfffd, err) : swi_buf_append(out, "\xef\xbf\xbd", 3, err);
    *used = size;
    return ascii ? append_ascii(out, p, size, err) : swi_buf_append(out, p, size, err);
}

static sw_status append_quoted(swi_buf *out, const char *text, size_t size, bool ascii,
                               sw_error *err)
{
    const uint8_t *p = (const uint8_t *)text;
    size_t start = out->size;
    sw_status status = swi_buf_u8(out, '"', err);
    for (size_t i = 0; i < size && status == SW_OK;) {
        size_t run = i;
        while (run < size && is_plain(p[run]))
            run++;
        status = swi_buf_append(out, p + i, run - i, err);
        i = run;
        if (i < size && status == SW_OK) {
            size_t used;
            status = append_special(out, p + i, size - i, ascii, &used, err);
            i += used;
        }
    }
    if (status == SW_OK)
        status = swi_buf_u8(out, '"', err);
    if (status != SW_OK)
        out->size = start;
    return status;
}

sw_status swi_json_quote(swi_buf *out, const char *text, size_t size, sw_error *err)
{
    return append_quoted(out, text, size, false, err);
}

/* ---- structure ----------------------------------------------------------------------------- */

static bool has_failed(const swi_json_writer *w)
{
    return w->failure.status != SW_OK;
}

static bool in_object(const swi_json_writer *w)
{
    uint32_t d = w->depth - 1;
    return w->depth > 0 && (w->objects[d / 64] >> (d % 64) & 1) != 0;
}

static void keep(swi_json_writer *w, sw_status status)
{
    w->failure.status = status;
}

static void put(swi_json_writer *w, const void *data, size_t size)
{
    if (!has_failed(w))
        keep(w, swi_buf_append(w->out, data, size, &w->failure));
}

static void new_line(swi_json_writer *w)
{
    if ((w->style & SWI_JSON_INDENT) == 0)
        return;
    put(w, "\n", 1);
    if (!has_failed(w))
        keep(w, swi_buf_fill(w->out, ' ', (size_t)w->depth * 2, &w->failure));
}

static void separate(swi_json_writer *w)
{
    if (w->has_items)
        put(w, ",", 1);
    if (w->depth > 0)
        new_line(w);
    w->has_items = true;
}

static void out_of_order(swi_json_writer *w, const char *what)
{
    if (!has_failed(w))
        keep(w, swi_fail(&w->failure, SW_ERR_ARG, "JSON writer: %s", what));
}

/* What goes before a value. False: nothing may be written. */
static bool before_value(swi_json_writer *w)
{
    if (w->is_done)
        out_of_order(w, "a second value at the top");
    else if (in_object(w) && !w->has_key)
        out_of_order(w, "a value without a key");
    if (has_failed(w))
        return false;
    if (!w->has_key)
        separate(w);
    w->has_key = false;
    w->is_done = w->depth == 0;
    return true;
}

static void scalar(swi_json_writer *w, const char *text)
{
    if (before_value(w))
        put(w, text, strlen(text));
}

static void begin(swi_json_writer *w, bool is_object)
{
    if (!before_value(w))
        return;
    if (w->depth >= SWI_JSON_WRITE_DEPTH) {
        keep(w, swi_fail(&w->failure, SW_ERR_LIMIT, "JSON writer: nested deeper than %d containers",
                         SWI_JSON_WRITE_DEPTH));
        return;
    }
    uint64_t bit = (uint64_t)1 << (w->depth % 64);
    uint64_t *word = &w->objects[w->depth / 64];
    *word = is_object ? *word | bit : *word & ~bit;
    w->depth++;
    w->has_items = false;
    w->is_done = false;
    put(w, is_object ? "{" : "[", 1);
}

void swi_json_start(swi_json_writer *w, swi_buf *out, unsigned style)
{
    *w = (swi_json_writer){.out = out, .style = style};
}

void swi_json_begin_object(swi_json_writer *w)
{
    begin(w, true);
}

void swi_json_begin_array(swi_json_writer *w)
{
    begin(w, false);
}

void swi_json_end(swi_json_writer *w)
{
    if (w->depth == 0 || w->has_key)
        out_of_order(w, "nothing to end here");
    if (has_failed(w))
        return;
    bool is_object = in_object(w);
    bool had_items = w->has_items;
    w->depth--;
    if (had_items)
        new_line(w);
    put(w, is_object ? "}" : "]", 1);
    w->has_items = true;
    w->is_done = w->depth == 0;
}

void swi_json_key(swi_json_writer *w, const char *text, size_t size)
{
    if (!in_object(w) || w->has_key)
        out_of_order(w, "a key that is not in an object");
    if (has_failed(w))
        return;
    separate(w);
    if (!has_failed(w))
        keep(w, append_quoted(w->out, text, size, (w->style & SWI_JSON_ASCII) != 0, &w->failure));
    if ((w->style & SWI_JSON_INDENT) != 0)
        put(w, ": ", 2);
    else
        put(w, ":", 1);
    w->has_key = true;
}

void swi_json_key_str(swi_json_writer *w, const char *text)
{
    swi_json_key(w, text, strlen(text));
}

/* ---- values -------------------------------------------------------------------------------- */

void swi_json_text(swi_json_writer *w, const char *text, size_t size)
{
    if (before_value(w) && !has_failed(w))
        keep(w, append_quoted(w->out, text, size, (w->style & SWI_JSON_ASCII) != 0, &w->failure));
}

void swi_json_str(swi_json_writer *w, const char *text)
{
    swi_json_text(w, text, strlen(text));
}

void swi_json_int(swi_json_writer *w, int64_t v)
{
    char text[24];
    (void)snprintf(text, sizeof text, "%" PRId64, v);
    scalar(w, text);
}

void swi_json_uint(swi_json_writer *w, uint64_t v)
{
    char text[24];
    (void)snprintf(text, sizeof text, "%" PRIu64, v);
    scalar(w, text);
}

void swi_json_bool(swi_json_writer *w, bool v)
{
    scalar(w, v ? "true" : "false");
}

void swi_json_null(swi_json_writer *w)
{
    scalar(w, "null");
}

/* The decimal point of the locale, of whatever bytes, becomes '.'. */
static void plain_point(char *text)
{
    char *to = text;
    bool in_point = false;
    for (const char *from = text; *from != '\0'; from++) {
        bool is_ours =
            (*from >= '0' && *from <= '9') || *from == '-' || *from == '+' || *from == 'e';
        if (is_ours)
            *to++ = *from;
        else if (!in_point)
            *to++ = '.';
        in_point = !is_ours;
    }
    *to = '\0';
}

void swi_json_float(swi_json_writer *w, double v)
{
    if (!isfinite(v)) {
        swi_json_null(w);
        return;
    }
    char text[48];
    for (int digits = 15; digits <= 17; digits++) {
        (void)snprintf(text, sizeof text - 2, "%.*g", digits, v);
        double back = strtod(text, NULL);
        if (memcmp(&back, &v, sizeof v) == 0)
            break;
    }
    plain_point(text);
    size_t size = strlen(text);
    /* So that it reads back as a float, not as an integer. */
    if (strpbrk(text, ".e") == NULL)
        memcpy(text + size, ".0", 3);
    scalar(w, text);
}

sw_status swi_json_finish(swi_json_writer *w, sw_error *err)
{
    if (!w->is_done)
        out_of_order(w, "the document is not complete");
    if (has_failed(w) && err != NULL)
        *err = w->failure;
    return w->failure.status;
}
