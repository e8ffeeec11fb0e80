#include "base/text.h"

#include <stdio.h>
#include <string.h>

#include "base/cursor.h"

/* ---- UTF-8 --------------------------------------------------------------------------------- */

/*
 * Decodes one character (RFC 3629: shortest form, no surrogates, up to U+10FFFF). Returns its
 * length, or 0 when the bytes at p are not one.
 */
static size_t decode(const uint8_t *p, size_t left, uint32_t *out)
{
    if (left == 0)
        return 0;
    if (p[0] < 0x80) {
        *out = p[0];
        return 1;
    }
    size_t length = p[0] >= 0xf0 ? 4 : p[0] >= 0xe0 ? 3 : 2;
    if (p[0] < 0xc2 || p[0] > 0xf4 || left < length)
        return 0;
    uint32_t c = p[0] & (0xffU >> (length + 1));
    for (size_t i = 1; i < length; i++) {
        if ((p[i] & 0xc0) != 0x80)
            return 0;
        c = c << 6 | (p[i] & 0x3fU);
    }
    static const uint32_t least[5] = {0, 0, 0x80, 0x800, 0x10000};
    if (c < least[length] || c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff))
        return 0;
    *out = c;
    return length;
}

#define HIGH_BITS 0x8080808080808080U

/* Of 32 bytes. */
static bool is_ascii(const uint8_t *p)
{
    const uint64_t all =
        swi_load_u64le(p) | swi_load_u64le(p + 8) | swi_load_u64le(p + 16) | swi_load_u64le(p + 24);
    return (all & HIGH_BITS) == 0;
}

size_t swi_utf8_prefix(const void *text, size_t size)
{
    const uint8_t *p = text;
    size_t i = 0;
    while (i < size) {
        if (size - i >= 32 && is_ascii(p + i)) {
            i += 32;
            continue;
        }
        if (size - i >= 8 && (swi_load_u64le(p + i) & HIGH_BITS) == 0) {
            i += 8;
            continue;
        }
        uint32_t c;
        size_t length = decode(p + i, size - i, &c);
        if (length == 0)
            break;
        i += length;
    }
    return i;
}

bool swi_utf8_valid(const void *text, size_t size)
{
    return swi_utf8_prefix(text, size) == size;
}

void swi_utf8_trim(char *text)
{
    size_t size = strlen(text);
    size_t back = 0;
    while (back < 3 && back < size && ((uint8_t)text[size - 1 - back] & 0xc0) == 0x80)
        back++;
    if (back == size)
        return;
    uint8_t lead = (uint8_t)text[size - 1 - back];
    size_t need = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : lead >= 0xc0 ? 2 : 1;
    if (need > back + 1)
        text[size - 1 - back] = '\0';
}

/* ---- order --------------------------------------------------------------------------------- */

int swi_bytes_order(const void *a, size_t a_size, const void *b, size_t b_size)
{
    size_t common = a_size < b_size ? a_size : b_size;
    int order = common > 0 ? memcmp(a, b, common) : 0;
    if (order != 0)
        return order;
    return a_size < b_size ? -1 : a_size > b_size;
}

/* ---- quoting ------------------------------------------------------------------------------- */

/* Characters that change how the text around them is shown, or are not shown at all. */
static bool is_deceptive(uint32_t c)
{
    return c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0xad || c == 0x61c || c == 0x180e ||
           (c >= 0x200b && c <= 0x200f) || (c >= 0x2028 && c <= 0x202e) ||
           (c >= 0x2060 && c <= 0x206f) || c == 0xfeff || (c >= 0xfff9 && c <= 0xfffb) ||
           (c >= 0xe0000 && c <= 0xe007f);
}

/* The next character or broken byte, escaped, in `unit`; moves *i on; returns unit's length. */
static size_t next_unit(const uint8_t *p, size_t size, size_t *i, char unit[12])
{
    uint32_t c;
    size_t length = decode(p + *i, size - *i, &c);
    int n;
    if (length == 0) {
        n = snprintf(unit, 12, "\\x%02x", (unsigned)p[*i]);
        length = 1;
    } else if (c == '\n' || c == '\r' || c == '\t') {
        n = snprintf(unit, 12, "\\%c", c == '\n' ? 'n' : c == '\r' ? 'r' : 't');
    } else if (c == '"' || c == '\\') {
        n = snprintf(unit, 12, "\\%c", (char)c);
    } else if (!is_deceptive(c)) {
        memcpy(unit, p + *i, length);
        unit[length] = '\0';
        n = (int)length;
    } else if (c < 0x80) {
        n = snprintf(unit, 12, "\\x%02x", (unsigned)c);
    } else {
        n = snprintf(unit, 12, c > 0xffff ? "\\U%08x" : "\\u%04x", (unsigned)c);
    }
    *i += length;
    return (size_t)n;
}

/* Whole units from *i on while they fit into `room`; returns the bytes written. */
static size_t quote_run(const uint8_t *p, size_t size, size_t *i, char *out, size_t room)
{
    size_t used = 0;
    while (*i < size) {
        char unit[12];
        size_t at = *i;
        size_t n = next_unit(p, size, &at, unit);
        if (n > room - used)
            break;
        memcpy(out + used, unit, n);
        used += n;
        *i = at;
    }
    return used;
}

/*
 * The first unit from which on everything fits into `room`. Starts near the end, at a character
 * border: each byte takes at least one, so nothing before the last `room` bytes can fit.
 */
static size_t tail_start(const uint8_t *p, size_t size, size_t from, size_t room)
{
    size_t start = from;
    if (size - from > room) {
        start = size - room;
        for (int k = 0; k < 3 && start < size && (p[start] & 0xc0) == 0x80; k++)
            start++;
    }
    size_t whole = 0;
    for (size_t i = start; i < size;) {
        char unit[12];
        whole += next_unit(p, size, &i, unit);
    }
    while (start < size && whole > room) {
        char unit[12];
        whole -= next_unit(p, size, &start, unit);
    }
    return start;
}

size_t swi_quote_into(char *out, size_t capacity, const void *text, size_t size)
{
    static const char dots[] = "...";
    const uint8_t *p = text;
    size_t i = 0;
    size_t room = capacity - 1;
    size_t used = quote_run(p, size, &i, out, room);
    if (i < size) {
        /* Does not fit: the head again with half of the room, then the end. */
        size_t half = (room - (sizeof dots - 1)) / 2;
        i = 0;
        used = quote_run(p, size, &i, out, half);
        memcpy(out + used, dots, sizeof dots - 1);
        used += sizeof dots - 1;
        size_t start = tail_start(p, size, i, room - used);
        used += quote_run(p, size, &start, out + used, room - used);
    }
    out[used] = '\0';
    return used;
}

const char *swi_quote(swi_quoted *room, const void *text, size_t size)
{
    (void)swi_quote_into(room->text, sizeof room->text, text, size);
    return room->text;
}

const char *swi_quote_str(swi_quoted *room, const char *text)
{
    return text != NULL ? swi_quote(room, text, strlen(text)) : swi_quote(room, "", 0);
}

/* ---- glob ---------------------------------------------------------------------------------- */

/* One character of a terminated text; a broken byte is one too, apart from every character. */
static size_t next_char(const char *text, uint32_t *c)
{
    const uint8_t *p = (const uint8_t *)text;
    size_t length = decode(p, strnlen(text, 4), c);
    if (length == 0) {
        *c = 0x80000000U | p[0];
        length = 1;
    }
    return length;
}

/*
 * A class at `pattern` ("[a-z]", "[!a]"): its length, with *matched saying whether it holds `c`; 0
 * when it is not closed and '[' stands for itself.
 */
static size_t match_class(const char *pattern, uint32_t c, bool *matched)
{
    const char *p = pattern + 1;
    bool negated = *p == '!' || *p == '^';
    bool found = false;
    if (negated)
        p++;
    for (const char *first = p; *p != '\0' && (*p != ']' || p == first);) {
        uint32_t low, high;
        p += next_char(p, &low);
        high = low;
        if (p[0] == '-' && p[1] != ']' && p[1] != '\0')
            p += 1 + next_char(p + 1, &high);
        if (c >= low && c <= high)
            found = true;
    }
    if (*p != ']')
        return 0;
    *matched = found != negated;
    return (size_t)(p + 1 - pattern);
}

/* The length of the pattern's first element when it matches `c`, else 0. */
static size_t match_one(const char *pattern, uint32_t c)
{
    if (*pattern == '?')
        return 1;
    if (*pattern == '[') {
        bool matched = false;
        size_t length = match_class(pattern, c, &matched);
        if (length != 0)
            return matched ? length : 0;
    }
    if (*pattern == '\0')
        return 0;
    uint32_t want;
    size_t length = next_char(pattern, &want);
    return want == c ? length : 0;
}

bool swi_glob_match(const char *pattern, const char *text)
{
    /* Only the last star ever needs to be tried again, with one more character. */
    const char *star = NULL, *star_text = NULL;
    while (*text != '\0') {
        if (*pattern == '*') {
            star = ++pattern;
            star_text = text;
            continue;
        }
        uint32_t c;
        size_t step = next_char(text, &c);
        size_t length = match_one(pattern, c);
        if (length != 0) {
            pattern += length;
            text += step;
        } else if (star != NULL) {
            star_text += next_char(star_text, &c);
            pattern = star;
            text = star_text;
        } else {
            return false;
        }
    }
    while (*pattern == '*')
        pattern++;
    return *pattern == '\0';
}

int swi_hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}
