#include "codec/pickle_machine.h"

#include <inttypes.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

/* ---- binary numbers -------------------------------------------------------------------------- */

static sw_status push_long(swi_pm *m, size_t size)
{
    const uint8_t *data;
    sw_value v;
    if (!swi_get_bytes(m->c, size, &data))
        return swi_pm_cut(m);
    sw_status status = swi_graph_bigint(m->g, data, size, &v, m->err);
    return status != SW_OK ? status : swi_pm_push(m, v);
}

sw_status swi_pm_long1(swi_pm *m)
{
    uint8_t size;
    return swi_get_u8(m->c, &size) ? push_long(m, size) : swi_pm_cut(m);
}

sw_status swi_pm_long4(swi_pm *m)
{
    uint32_t size;
    if (!swi_get_u32le(m->c, &size))
        return swi_pm_cut(m);
    if (size > INT32_MAX)
        return swi_pm_fail(m, SW_ERR_FORMAT, "PKL-8", "a negative size (%" PRId32 ")",
                           (int32_t)size);
    return push_long(m, size);
}

static sw_status push_float(swi_pm *m, double v)
{
    sw_value made;
    sw_status status = swi_graph_float(m->g, v, &made, m->err);
    return status != SW_OK ? status : swi_pm_push(m, made);
}

sw_status swi_pm_binfloat(swi_pm *m)
{
    uint64_t bits;
    double v;
    if (!swi_get_u64be(m->c, &bits))
        return swi_pm_cut(m);
    memcpy(&v, &bits, sizeof v);
    return push_float(m, v);
}

/* ---- numbers as text (protocol 0) --------------------------------------------------------------
 */

bool swi_pm_decimal(const uint8_t *line, size_t size, uint64_t *out)
{
    uint64_t v = 0;
    if (size == 0 || size > 18)
        return false;
    for (size_t i = 0; i < size; i++) {
        if (line[i] < '0' || line[i] > '9')
            return false;
        v = v * 10 + (uint64_t)(line[i] - '0');
    }
    *out = v;
    return true;
}

/* As in Python: longer ones take quadratic time and are refused. */
#define DIGITS_MAX 4300
#define LIMBS_MAX (DIGITS_MAX / 9 + 2)

static sw_status push_decimal(swi_pm *m, const uint8_t *text, size_t size)
{
    uint32_t limbs[LIMBS_MAX] = {0};
    size_t used = 1;
    bool negative = size > 0 && text[0] == '-';
    size_t i = size > 0 && (text[0] == '-' || text[0] == '+') ? 1 : 0;
    if (i == size)
        return swi_pm_fail(m, SW_ERR_FORMAT, "PKL-7", "an integer without digits");
    if (size - i > DIGITS_MAX)
        return swi_pm_fail(m, SW_ERR_LIMIT, "PKL-7", "an integer of %zu digits, at most %d",
                           size - i, DIGITS_MAX);
    while (i < size) {
        uint64_t scale = 1, carry = 0;
        for (size_t end = i + 9; i < end && i < size; i++) {
            if (text[i] < '0' || text[i] > '9')
                return swi_pm_fail(m, SW_ERR_FORMAT, "PKL-7", "an integer that is not decimal");
            carry = carry * 10 + (uint64_t)(text[i] - '0');
            scale *= 10;
        }
        for (size_t k = 0; k < used; k++) {
            carry += limbs[k] * scale;
            limbs[k] = (uint32_t)carry;
            carry >>= 32;
        }
        if (carry != 0)
            limbs[used++] = (uint32_t)carry;
    }
    uint8_t bytes[LIMBS_MAX * 4 + 1] = {0};
    unsigned borrow = 1; /* -x = ~x + 1 */
    for (size_t k = 0; k < used * 4 + 1; k++) {
        uint8_t byte = (uint8_t)(k < used * 4 ? limbs[k / 4] >> k % 4 * 8 : 0);
        unsigned flipped = (uint8_t)~byte + borrow;
        borrow = flipped >> 8;
        bytes[k] = negative ? (uint8_t)flipped : byte;
    }
    sw_value v;
    sw_status status = swi_graph_bigint(m->g, bytes, used * 4 + 1, &v, m->err);
    return status != SW_OK ? status : swi_pm_push(m, v);
}

sw_status swi_pm_int_text(swi_pm *m)
{
    const uint8_t *line;
    size_t size;
    if (!swi_get_line(m->c, &line, &size))
        return swi_pm_cut(m);
    if (size == 2 && line[0] == '0' && (line[1] == '0' || line[1] == '1'))
        return swi_pm_push(m, swi_value_of_bool(line[1] == '1'));
    return push_decimal(m, line, size);
}

sw_status swi_pm_long_text(swi_pm *m)
{
    const uint8_t *line;
    size_t size;
    if (!swi_get_line(m->c, &line, &size))
        return swi_pm_cut(m);
    if (size > 0 && line[size - 1] == 'L')
        size--;
    return push_decimal(m, line, size);
}

static bool is_decimal(const char *text)
{
    return text[strspn(text, "0123456789+-.eE")] == '\0' || strcmp(text, "nan") == 0 ||
           strcmp(text, "inf") == 0 || strcmp(text, "-inf") == 0 || strcmp(text, "-nan") == 0;
}

sw_status swi_pm_float_text(swi_pm *m)
{
    const uint8_t *line;
    size_t size;
    char text[64];
    if (!swi_get_line(m->c, &line, &size))
        return swi_pm_cut(m);
    if (size == 0 || size >= sizeof text)
        return swi_pm_fail(m, SW_ERR_FORMAT, "PKL-7", "a number of %zu characters", size);
    memcpy(text, line, size);
    text[size] = '\0';
    /* The caller's locale may want another decimal point. */
    locale_t c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (c_locale == (locale_t)0)
        return swi_fail_nomem(m->err);
    char *end;
    double v = strtod_l(text, &end, c_locale);
    freelocale(c_locale);
    if (!is_decimal(text) || end != text + size)
        return swi_pm_fail(m, SW_ERR_FORMAT, "PKL-7", "not a decimal number");
    return push_float(m, v);
}

/* ---- text ---------------------------------------------------------------------------------------
 */

/* UTF-8 in which lone surrogates are allowed (Python's surrogatepass). */
static bool text_valid(const uint8_t *data, size_t size)
{
    if (swi_utf8_valid(data, size))
        return true;
    size_t from = 0;
    for (size_t i = 0; i + 3 <= size;) {
        if (data[i] != 0xed || data[i + 1] < 0xa0 || data[i + 1] > 0xbf ||
            (data[i + 2] & 0xc0) != 0x80) {
            i++;
            continue;
        }
        if (!swi_utf8_valid(data + from, i - from))
            return false;
        i += 3;
        from = i;
    }
    return swi_utf8_valid(data + from, size - from);
}

static sw_status push_text(swi_pm *m, sw_value_kind kind, const uint8_t *data, size_t size)
{
    sw_value v;
    sw_status status = swi_graph_text(m->g, kind, data, size, &v, m->err);
    return status != SW_OK ? status : swi_pm_push(m, v);
}

/* A str of Python 2: text when it is text. */
static sw_status push_old_string(swi_pm *m, const uint8_t *data, size_t size)
{
    bool is_text = swi_utf8_valid(data, size);
    return push_text(m, is_text ? SW_VALUE_STR : SW_VALUE_BYTES, data, size);
}

static bool get_count(swi_pm *m, uint64_t *size)
{
    uint8_t u8;
    uint32_t u32;
    switch (m->op) {
    case 'U':
    case 'C':
    case 0x8c:
        if (!swi_get_u8(m->c, &u8))
            return false;
        *size = u8;
        return true;
    case 'T':
    case 'X':
    case 'B':
        if (!swi_get_u32le(m->c, &u32))
            return false;
        *size = u32;
        return true;
    default:
        return swi_get_u64le(m->c, size);
    }
}

sw_status swi_pm_counted(swi_pm *m)
{
    uint64_t size;
    const uint8_t *data;
    sw_value v;
    sw_status status;
    if (!get_count(m, &size))
        return swi_pm_cut(m);
    if (m->op == 'T' && size > INT32_MAX)
        return swi_pm_fail(m, SW_ERR_FORMAT, "PKL-10", "a negative size");
    uint64_t left = swi_feed_left(m->feed);
    if (size > left)
        return swi_pm_fail(m, SW_ERR_FORMAT, "PKL-10",
                           "%" PRIu64 " bytes of text, %" PRIu64 " are left", size, left);
    if (!swi_get_bytes(m->c, (size_t)size, &data))
        return swi_pm_cut(m);
    switch (m->op) {
    case 'T':
    case 'U':
        return push_old_string(m, data, (size_t)size);
    case 'B':
    case 'C':
    case 0x8e:
        return push_text(m, SW_VALUE_BYTES, data, (size_t)size);
    case 0x96:
        status = swi_graph_bytearray(m->g, data, (size_t)size, &v, m->err);
        return status != SW_OK ? status : swi_pm_push(m, v);
    default:
        if (!text_valid(data, (size_t)size))
            return swi_pm_fail(m, SW_ERR_FORMAT, "PKL-9", "the text is not valid UTF-8");
        return push_text(m, SW_VALUE_STR, data, (size_t)size);
    }
}

/* ---- text of protocol 0
 * --------------------------------------------------------------------------- */

static int hex_digit(uint8_t c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

static bool hex_number(const uint8_t *p, size_t count, uint32_t *out)
{
    uint32_t v = 0;
    for (size_t i = 0; i < count; i++) {
        int digit = hex_digit(p[i]);
        if (digit < 0)
            return false;
        v = v << 4 | (uint32_t)digit;
    }
    *out = v;
    return true;
}

/* One escape of a string literal at p (behind the backslash); the bytes taken, 0: broken. */
static size_t unescape(const uint8_t *p, size_t left, uint8_t *out)
{
    static const char names[] = "\\'\"abfnrtv";
    static const char values[] = "\\'\"\a\b\f\n\r\t\v";
    uint32_t v = 0;
    if (left == 0)
        return 0;
    const char *name = p[0] != 0 ? strchr(names, p[0]) : NULL;
    if (name != NULL) {
        *out = (uint8_t)values[name - names];
        return 1;
    }
    if (p[0] == 'x') {
        if (left < 3 || !hex_number(p + 1, 2, &v))
            return 0;
        *out = (uint8_t)v;
        return 3;
    }
    size_t digits = 0;
    while (digits < 3 && digits < left && p[digits] >= '0' && p[digits] <= '7')
        v = v * 8 + (uint32_t)(p[digits++] - '0');
    *out = (uint8_t)v;
    return digits;
}

sw_status swi_pm_string(swi_pm *m)
{
    const uint8_t *line;
    size_t size;
    if (!swi_get_line(m->c, &line, &size))
        return swi_pm_cut(m);
    if (size < 2 || (line[0] != '\'' && line[0] != '"') || line[size - 1] != line[0])
        return swi_pm_fail(m, SW_ERR_FORMAT, "PKL-9", "the string is not quoted");
    m->scratch.size = 0;
    for (size_t i = 1; i < size - 1;) {
        uint8_t byte = line[i++];
        if (byte == '\\') {
            size_t taken = unescape(line + i, size - 1 - i, &byte);
            if (taken == 0)
                return swi_pm_fail(m, SW_ERR_FORMAT, "PKL-9", "a broken escape in the string");
            i += taken;
        }
        sw_status status = swi_buf_u8(&m->scratch, byte, m->err);
        if (status != SW_OK)
            return status;
    }
    return push_old_string(m, m->scratch.data, m->scratch.size);
}

static size_t encode_utf8(uint32_t c, uint8_t out[4])
{
    size_t length = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    static const uint8_t leads[5] = {0, 0, 0xc0, 0xe0, 0xf0};
    for (size_t i = length; i-- > 1; c >>= 6)
        out[i] = (uint8_t)(0x80 | (c & 0x3f));
    out[0] = (uint8_t)(leads[length] | c);
    return length;
}

/* The next character of a raw-unicode-escape text at *i; false: a broken escape. */
static bool raw_character(const uint8_t *line, size_t size, size_t *i, bool *escaped, uint32_t *out)
{
    *out = line[(*i)++];
    if (*out != '\\') {
        *escaped = false;
        return true;
    }
    /* Of a run of backslashes only an odd last one escapes. */
    bool starts = !*escaped && *i < size && (line[*i] == 'u' || line[*i] == 'U');
    *escaped = !*escaped;
    if (!starts)
        return true;
    size_t digits = line[*i] == 'u' ? 4 : 8;
    *escaped = false;
    if (size - *i - 1 < digits || !hex_number(line + *i + 1, digits, out) || *out > 0x10ffff)
        return false;
    *i += 1 + digits;
    return true;
}

sw_status swi_pm_unicode(swi_pm *m)
{
    const uint8_t *line;
    size_t size;
    bool escaped = false;
    if (!swi_get_line(m->c, &line, &size))
        return swi_pm_cut(m);
    m->scratch.size = 0;
    for (size_t i = 0; i < size;) {
        uint32_t c;
        uint8_t bytes[4];
        if (!raw_character(line, size, &i, &escaped, &c))
            return swi_pm_fail(m, SW_ERR_FORMAT, "PKL-9", "a broken \\u escape in the text");
        sw_status status = swi_buf_append(&m->scratch, bytes, encode_utf8(c, bytes), m->err);
        if (status != SW_OK)
            return status;
    }
    return push_text(m, SW_VALUE_STR, m->scratch.data, m->scratch.size);
}

sw_status swi_pm_latin1(swi_pm *m, sw_value text, bool *ok)
{
    const uint8_t *data = NULL;
    size_t size = 0;
    *ok = false;
    m->scratch.size = 0;
    if (swi_value_tag(text) != SWI_TAG_STR || !sw_value_bytes(m->g, text, &data, &size))
        return SW_OK;
    sw_status status = swi_buf_reserve(&m->scratch, size, m->err);
    for (size_t i = 0; status == SW_OK && i < size; i++) {
        uint8_t byte = data[i];
        if (byte >= 0x80) {
            if ((byte & 0xfc) != 0xc0 || i + 1 == size)
                return SW_OK;
            byte = (uint8_t)(byte << 6 | (data[++i] & 0x3f));
        }
        m->scratch.data[m->scratch.size++] = byte;
    }
    *ok = status == SW_OK;
    return status;
}
