#include "codec/json.h"

#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/checked.h"
#include "base/cursor.h"
#include "base/text.h"

/* Longer numbers say nothing that a double could hold. */
#define NUMBER_MAX ((size_t)1024)

typedef enum expect {
    EXPECT_VALUE,
    EXPECT_VALUE_OR_END, /* after [ */
    EXPECT_KEY_OR_END,   /* after { */
    EXPECT_KEY,          /* after a comma in an object */
    EXPECT_COMMA_OR_END,
    EXPECT_NOTHING
} expect;

struct swi_json_reader {
    swi_cursor in;
    uint32_t max_depth;
    uint32_t depth;
    uint64_t *objects; /* bit d: the container at depth d + 1 is an object */
    size_t object_words;
    expect expect;
    bool nonfinite;
    swi_buf text;    /* a string that had escapes, decoded */
    locale_t locale; /* "C", made when the first float comes */
};

sw_status swi_json_reader_make(const void *data, size_t size, const sw_limits *limits,
                               swi_json_reader **out, sw_error *err)
{
    void *p;
    sw_status status = swi_alloc_array(1, sizeof(swi_json_reader), &p, err);
    if (status != SW_OK)
        return status;
    swi_json_reader *r = p;
    r->in = swi_cursor_make(data, size);
    r->max_depth = sw_limits_resolve(limits).depth;
    r->expect = EXPECT_VALUE;
    *out = r;
    return SW_OK;
}

void swi_json_reader_free(swi_json_reader *r)
{
    if (r == NULL)
        return;
    if (r->locale != (locale_t)0)
        freelocale(r->locale);
    swi_buf_free(&r->text);
    free(r->objects);
    free(r);
}

void swi_json_allow_nonfinite(swi_json_reader *r)
{
    r->nonfinite = true;
}

const char *swi_json_kind_name(swi_json_kind kind)
{
    static const char *const names[] = {
        [SWI_JSON_OBJECT_BEGIN] = "an object",
        [SWI_JSON_OBJECT_END] = "the end of an object",
        [SWI_JSON_ARRAY_BEGIN] = "an array",
        [SWI_JSON_ARRAY_END] = "the end of an array",
        [SWI_JSON_KEY] = "a key",
        [SWI_JSON_STRING] = "a string",
        [SWI_JSON_INT] = "an integer",
        [SWI_JSON_FLOAT] = "a number that is not a 64-bit integer",
        [SWI_JSON_TRUE] = "true",
        [SWI_JSON_FALSE] = "false",
        [SWI_JSON_NULL] = "null",
        [SWI_JSON_DONE] = "the end of the document",
    };
    return names[kind];
}

/* ---- errors -------------------------------------------------------------------------------- */

/* "JSON: expected WHAT, found ..." at the byte where the cursor stands. */
static sw_status expected(const swi_json_reader *r, const char *what, sw_error *err)
{
    uint8_t c;
    if (!swi_peek_u8(&r->in, &c))
        return swi_fail_at(err, SW_ERR_FORMAT, NULL, r->in.pos,
                           "JSON: expected %s, found the end of the document", what);
    if (c > 0x20 && c < 0x7f)
        return swi_fail_at(err, SW_ERR_FORMAT, NULL, r->in.pos, "JSON: expected %s, found '%c'",
                           what, c);
    return swi_fail_at(err, SW_ERR_FORMAT, NULL, r->in.pos, "JSON: expected %s, found byte 0x%02x",
                       what, c);
}

static sw_status wrong(size_t pos, const char *what, sw_error *err)
{
    return swi_fail_at(err, SW_ERR_FORMAT, NULL, pos, "JSON: %s", what);
}

/* ---- strings ------------------------------------------------------------------------------- */

/* Steps over bytes that stand for themselves in a string. */
static void skip_plain(swi_cursor *in)
{
    uint8_t c;
    while (swi_peek_u8(in, &c) && c != '"' && c != '\\' && c >= 0x20)
        in->pos++;
}

static sw_status read_hex4(swi_json_reader *r, uint32_t *out, sw_error *err)
{
    uint32_t v = 0;
    for (int i = 0; i < 4; i++) {
        uint8_t c;
        if (!swi_peek_u8(&r->in, &c))
            return expected(r, "four hexadecimal digits", err);
        if (c >= '0' && c <= '9')
            v = v << 4 | (uint32_t)(c - '0');
        else if ((c | 0x20) >= 'a' && (c | 0x20) <= 'f')
            v = v << 4 | (uint32_t)((c | 0x20) - 'a' + 10);
        else
            return expected(r, "four hexadecimal digits", err);
        r->in.pos++;
    }
    *out = v;
    return SW_OK;
}

static sw_status append_utf8(swi_buf *out, uint32_t c, sw_error *err)
{
    uint8_t b[4];
    size_t n;
    if (c < 0x80) {
        b[0] = (uint8_t)c;
        n = 1;
    } else if (c < 0x800) {
        b[0] = (uint8_t)(0xc0 | c >> 6);
        n = 2;
    } else if (c < 0x10000) {
        b[0] = (uint8_t)(0xe0 | c >> 12);
        n = 3;
    } else {
        b[0] = (uint8_t)(0xf0 | c >> 18);
        n = 4;
    }
    for (size_t i = 1; i < n; i++)
        b[i] = (uint8_t)(0x80 | (c >> (6 * (n - 1 - i)) & 0x3f));
    return swi_buf_append(out, b, n, err);
}

/* After "\u", whose backslash is at `start`. */
static sw_status read_unicode(swi_json_reader *r, size_t start, sw_error *err)
{
    uint32_t c;
    sw_status status = read_hex4(r, &c, err);
    if (status != SW_OK)
        return status;
    if (c >= 0xdc00 && c <= 0xdfff)
        return wrong(start, "a low surrogate without a high one before it", err);
    if (c >= 0xd800 && c <= 0xdbff) {
        const uint8_t *p;
        uint32_t low;
        if (!swi_get_bytes(&r->in, 2, &p) || p[0] != '\\' || p[1] != 'u')
            return wrong(start, "a high surrogate without a low one behind it", err);
        status = read_hex4(r, &low, err);
        if (status != SW_OK)
            return status;
        if (low < 0xdc00 || low > 0xdfff)
            return wrong(start, "a high surrogate without a low one behind it", err);
        c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
    }
    return append_utf8(&r->text, c, err);
}

/* After the backslash. */
static sw_status read_escape(swi_json_reader *r, sw_error *err)
{
    static const char from[] = "\"\\/bfnrt";
    static const char to[] = "\"\\/\b\f\n\r\t";
    uint8_t c;
    if (!swi_peek_u8(&r->in, &c))
        return expected(r, "an escape", err);
    if (c == 'u') {
        size_t start = r->in.pos - 1;
        r->in.pos++;
        return read_unicode(r, start, err);
    }
    const char *at = c != '\0' ? strchr(from, c) : NULL;
    if (at == NULL)
        return expected(r, "an escape", err);
    r->in.pos++;
    return swi_buf_u8(&r->text, (uint8_t)to[at - from], err);
}

/* The rest of a string whose opening quote was taken. Plain ones are given out in place. */
static sw_status read_string(swi_json_reader *r, swi_json_event *event, sw_error *err)
{
    r->text.size = 0;
    bool is_copy = false;
    for (;;) {
        const uint8_t *run = r->in.data + r->in.pos;
        size_t start = r->in.pos;
        skip_plain(&r->in);
        size_t size = r->in.pos - start;
        size_t valid = swi_utf8_prefix(run, size);
        if (valid != size)
            return wrong(start + valid, "a string is not UTF-8", err);
        uint8_t c = 0;
        if (!swi_peek_u8(&r->in, &c) || c < 0x20)
            return expected(r, "the rest of a string", err);
        r->in.pos++;
        if (c == '"' && !is_copy) {
            event->text = (const char *)run;
            event->size = size;
            return SW_OK;
        }
        sw_status status = swi_buf_append(&r->text, run, size, err);
        if (status == SW_OK && c == '\\')
            status = read_escape(r, err);
        if (status != SW_OK)
            return status;
        is_copy = true;
        if (c == '"') {
            event->text = r->text.size > 0 ? (const char *)r->text.data : "";
            event->size = r->text.size;
            return SW_OK;
        }
    }
}

/* ---- numbers ------------------------------------------------------------------------------- */

static bool skip_digits(swi_cursor *in)
{
    size_t start = in->pos;
    uint8_t c;
    while (swi_peek_u8(in, &c) && c >= '0' && c <= '9')
        in->pos++;
    return in->pos > start;
}

static bool skip_byte(swi_cursor *in, uint8_t wanted)
{
    uint8_t c;
    if (!swi_peek_u8(in, &c) || c != wanted)
        return false;
    in->pos++;
    return true;
}

/* Steps over a number; *is_integer: it has neither fraction nor exponent. */
static sw_status scan_number(swi_json_reader *r, bool *is_integer, sw_error *err)
{
    swi_cursor *in = &r->in;
    *is_integer = true;
    (void)skip_byte(in, '-');
    /* No digit may follow a leading zero; what comes next finds it. */
    if (!skip_byte(in, '0') && !skip_digits(in))
        return expected(r, "a digit", err);
    if (skip_byte(in, '.')) {
        *is_integer = false;
        if (!skip_digits(in))
            return expected(r, "a digit", err);
    }
    if (skip_byte(in, 'e') || skip_byte(in, 'E')) {
        *is_integer = false;
        if (!skip_byte(in, '+'))
            (void)skip_byte(in, '-');
        if (!skip_digits(in))
            return expected(r, "a digit", err);
    }
    return SW_OK;
}

/* False when it does not fit. Counted downwards: INT64_MIN has no positive counterpart. */
static bool integer_of(const uint8_t *p, size_t size, int64_t *out)
{
    bool negative = p[0] == '-';
    int64_t v = 0;
    for (size_t i = negative; i < size; i++)
        if (!swi_mul_i64(v, 10, &v) || !swi_add_i64(v, -(int64_t)(p[i] - '0'), &v))
            return false;
    if (!negative && v == INT64_MIN)
        return false;
    *out = negative ? v : -v;
    return true;
}

static sw_status float_of(swi_json_reader *r, const uint8_t *p, size_t size, double *out,
                          sw_error *err)
{
    char copy[NUMBER_MAX + 1];
    size_t start = r->in.pos - size;
    if (size > NUMBER_MAX)
        return swi_fail_at(err, SW_ERR_LIMIT, NULL, start,
                           "JSON: a number of %zu characters, "
                           "at most %zu are read",
                           size, NUMBER_MAX);
    if (r->locale == (locale_t)0)
        r->locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (r->locale == (locale_t)0)
        return swi_fail_nomem(err);
    memcpy(copy, p, size);
    copy[size] = '\0';
    double v = strtod_l(copy, NULL, r->locale);
    if (!isfinite(v))
        return wrong(start, "a number is too large for a double", err);
    *out = v;
    return SW_OK;
}

static sw_status read_number(swi_json_reader *r, swi_json_event *event, sw_error *err)
{
    size_t start = r->in.pos;
    bool is_integer;
    sw_status status = scan_number(r, &is_integer, err);
    if (status != SW_OK)
        return status;
    const uint8_t *p = r->in.data + start;
    size_t size = r->in.pos - start;
    event->kind = SWI_JSON_INT;
    if (is_integer && integer_of(p, size, &event->integer))
        return SW_OK;
    event->kind = SWI_JSON_FLOAT;
    return float_of(r, p, size, &event->number, err);
}

/* ---- structure ----------------------------------------------------------------------------- */

static bool take_word(swi_json_reader *r, const char *word)
{
    size_t size = strlen(word);
    if (size > swi_cursor_left(&r->in) || memcmp(r->in.data + r->in.pos, word, size) != 0)
        return false;
    r->in.pos += size;
    return true;
}

static sw_status read_word(swi_json_reader *r, swi_json_event *event, sw_error *err)
{
    event->kind = SWI_JSON_FLOAT;
    if (r->nonfinite && take_word(r, "NaN")) {
        event->number = NAN;
        return SW_OK;
    }
    if (r->nonfinite && (take_word(r, "Infinity") || take_word(r, "-Infinity"))) {
        event->number = r->in.data[event->offset_bytes] == '-' ? -INFINITY : INFINITY;
        return SW_OK;
    }
    if (take_word(r, "true"))
        event->kind = SWI_JSON_TRUE;
    else if (take_word(r, "false"))
        event->kind = SWI_JSON_FALSE;
    else if (take_word(r, "null"))
        event->kind = SWI_JSON_NULL;
    else
        return expected(r, "a value", err);
    return SW_OK;
}

static bool in_object(const swi_json_reader *r)
{
    uint32_t d = r->depth - 1;
    return (r->objects[d / 64] >> (d % 64) & 1) != 0;
}

static sw_status open_container(swi_json_reader *r, bool is_object, sw_error *err)
{
    if (r->depth >= r->max_depth)
        return swi_fail_at(err, SW_ERR_LIMIT, NULL, r->in.pos,
                           "JSON: nested deeper than %u containers", r->max_depth);
    uint32_t d = r->depth;
    void *p = r->objects;
    sw_status status =
        swi_grow_array(&p, &r->object_words, (size_t)d / 64 + 1, sizeof *r->objects, err);
    if (status != SW_OK)
        return status;
    r->objects = p;
    uint64_t bit = (uint64_t)1 << (d % 64);
    r->objects[d / 64] = is_object ? r->objects[d / 64] | bit : r->objects[d / 64] & ~bit;
    r->depth++;
    r->in.pos++;
    r->expect = is_object ? EXPECT_KEY_OR_END : EXPECT_VALUE_OR_END;
    return SW_OK;
}

static void after_value(swi_json_reader *r)
{
    r->expect = r->depth > 0 ? EXPECT_COMMA_OR_END : EXPECT_NOTHING;
}

static sw_status close_container(swi_json_reader *r, swi_json_event *event)
{
    event->kind = in_object(r) ? SWI_JSON_OBJECT_END : SWI_JSON_ARRAY_END;
    r->depth--;
    r->in.pos++;
    after_value(r);
    return SW_OK;
}

static void skip_space(swi_cursor *in)
{
    uint8_t c;
    while (swi_peek_u8(in, &c) && (c == ' ' || c == '\n' || c == '\t' || c == '\r'))
        in->pos++;
}

static sw_status read_key(swi_json_reader *r, swi_json_event *event, sw_error *err)
{
    if (!skip_byte(&r->in, '"'))
        return expected(r, "a key", err);
    event->kind = SWI_JSON_KEY;
    sw_status status = read_string(r, event, err);
    if (status != SW_OK)
        return status;
    skip_space(&r->in);
    if (!skip_byte(&r->in, ':'))
        return expected(r, "':'", err);
    r->expect = EXPECT_VALUE;
    return SW_OK;
}

static sw_status read_value(swi_json_reader *r, uint8_t c, swi_json_event *event, sw_error *err)
{
    sw_status status;
    if (c == '{' || c == '[') {
        event->kind = c == '{' ? SWI_JSON_OBJECT_BEGIN : SWI_JSON_ARRAY_BEGIN;
        return open_container(r, c == '{', err);
    }
    if (c == '"') {
        r->in.pos++;
        event->kind = SWI_JSON_STRING;
        status = read_string(r, event, err);
    } else if ((c >= '0' && c <= '9') ||
               (c == '-' && !(r->nonfinite && swi_cursor_left(&r->in) > 1 &&
                              r->in.data[r->in.pos + 1] == 'I'))) {
        status = read_number(r, event, err);
    } else {
        status = read_word(r, event, err);
    }
    if (status == SW_OK)
        after_value(r);
    return status;
}

/* Takes the comma between elements; *closed: the container ended instead. */
static sw_status read_comma(swi_json_reader *r, uint8_t c, swi_json_event *event, bool *closed,
                            sw_error *err)
{
    bool is_object = in_object(r);
    *closed = c == (is_object ? '}' : ']');
    if (*closed)
        return close_container(r, event);
    if (c != ',')
        return expected(r, is_object ? "',' or '}'" : "',' or ']'", err);
    r->in.pos++;
    skip_space(&r->in);
    event->offset_bytes = r->in.pos;
    r->expect = is_object ? EXPECT_KEY : EXPECT_VALUE;
    return SW_OK;
}

sw_status swi_json_next(swi_json_reader *r, swi_json_event *event, sw_error *err)
{
    skip_space(&r->in);
    *event = (swi_json_event){.offset_bytes = r->in.pos};
    uint8_t c = 0;
    bool is_end = !swi_peek_u8(&r->in, &c);
    if (r->expect == EXPECT_NOTHING) {
        event->kind = SWI_JSON_DONE;
        return is_end ? SW_OK : expected(r, "the end of the document", err);
    }
    if (r->expect == EXPECT_COMMA_OR_END) {
        bool closed;
        sw_status status = read_comma(r, c, event, &closed, err);
        if (status != SW_OK || closed)
            return status;
        if (!swi_peek_u8(&r->in, &c))
            c = 0;
    }
    if ((r->expect == EXPECT_KEY_OR_END && c == '}') ||
        (r->expect == EXPECT_VALUE_OR_END && c == ']'))
        return close_container(r, event);
    if (r->expect == EXPECT_KEY_OR_END || r->expect == EXPECT_KEY)
        return read_key(r, event, err);
    return read_value(r, c, event, err);
}

sw_status swi_json_skip_rest(swi_json_reader *r, const swi_json_event *first, sw_error *err)
{
    if (first->kind != SWI_JSON_OBJECT_BEGIN && first->kind != SWI_JSON_ARRAY_BEGIN)
        return SW_OK;
    for (uint32_t around = r->depth - 1; r->depth > around;) {
        swi_json_event event;
        sw_status status = swi_json_next(r, &event, err);
        if (status != SW_OK)
            return status;
    }
    return SW_OK;
}

sw_status swi_json_skip(swi_json_reader *r, sw_error *err)
{
    swi_json_event event;
    sw_status status = swi_json_next(r, &event, err);
    return status == SW_OK ? swi_json_skip_rest(r, &event, err) : status;
}
