#include <inttypes.h>
#include <string.h>

#include "cli.h"

/* Decodes one character; 0 bytes for what is not UTF-8. */
static size_t decode(const unsigned char *p, uint32_t *out)
{
    if (p[0] < 0x80) {
        *out = p[0];
        return 1;
    }
    size_t n = p[0] >= 0xf0 && p[0] < 0xf8 ? 4 : p[0] >= 0xe0 ? 3 : p[0] >= 0xc2 ? 2 : 0;
    if (n == 0 || p[0] >= 0xf8)
        return 0;
    uint32_t c = p[0] & (0xffU >> (n + 1));
    for (size_t i = 1; i < n; i++) {
        if ((p[i] & 0xc0) != 0x80)
            return 0;
        c = c << 6 | (p[i] & 0x3fU);
    }
    *out = c;
    return n;
}

/* Controls, and marks that turn the direction of text. */
static bool must_escape(uint32_t c)
{
    return c < 0x20 || (c >= 0x7f && c < 0xa0) || (c >= 0x200e && c <= 0x200f) ||
           (c >= 0x2028 && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069) || c == 0xfeff ||
           (c >= 0xd800 && c <= 0xdfff) || c > 0x10ffff;
}

void print_name(FILE *to, const char *name)
{
    const unsigned char *p = (const unsigned char *)name;
    while (*p != '\0') {
        uint32_t c;
        size_t n = decode(p, &c);
        if (n == 0) {
            fprintf(to, "\\x%02x", *p++);
            continue;
        }
        if (c == '\\')
            fputs("\\\\", to);
        else if (must_escape(c))
            fprintf(to, c < 0x100 ? "\\x%02" PRIx32 : "\\u%04" PRIx32, c);
        else
            fwrite(p, 1, n, to);
        p += n;
    }
}

void print_bytes(FILE *to, uint64_t bytes)
{
    static const char *const units[] = {"B", "kB", "MB", "GB", "TB", "PB"};
    double v = (double)bytes;
    size_t u = 0;
    while (v >= 999.5 && u + 1 < sizeof units / sizeof units[0]) {
        v /= 1000;
        u++;
    }
    if (u == 0)
        fprintf(to, "%" PRIu64 " B", bytes);
    else
        fprintf(to, v < 10 ? "%.2f %s" : v < 100 ? "%.1f %s" : "%.0f %s", v, units[u]);
}

void print_shape(FILE *to, uint32_t axes, const int64_t *shape)
{
    fputc('[', to);
    for (uint32_t i = 0; i < axes; i++)
        fprintf(to, "%s%" PRId64, i ? ", " : "", shape[i]);
    fputc(']', to);
}

/* ---- JSON ---------------------------------------------------------------------------------- */

static void json_string(FILE *to, const char *text)
{
    const unsigned char *p = (const unsigned char *)text;
    fputc('"', to);
    while (*p != '\0') {
        uint32_t c;
        size_t n = decode(p, &c);
        if (n == 0) {
            fputs("\\ufffd", to);
            p++;
            continue;
        }
        if (c == '"' || c == '\\')
            fprintf(to, "\\%c", (char)c);
        else if (c < 0x20 || c == 0x7f)
            fprintf(to, "\\u%04" PRIx32, c);
        else
            fwrite(p, 1, n, to);
        p += n;
    }
    fputc('"', to);
}

static void json_key(json *j, const char *key)
{
    if (!j->first[j->depth])
        fputc(',', j->to);
    j->first[j->depth] = false;
    fprintf(j->to, "\n%*s", 2 * (j->depth + 1), "");
    if (key != NULL) {
        json_string(j->to, key);
        fputs(": ", j->to);
    }
}

static void json_open(json *j, char bracket)
{
    fputc(bracket, j->to);
    j->depth++;
    j->first[j->depth] = true;
}

static void json_shut(json *j, char bracket)
{
    bool empty = j->first[j->depth];
    j->depth--;
    if (!empty)
        fprintf(j->to, "\n%*s", 2 * (j->depth + 1), "");
    fputc(bracket, j->to);
}

void json_begin(json *j, FILE *to)
{
    *j = (json){.to = to, .depth = -1};
    json_open(j, '{');
}

void json_end(json *j)
{
    json_shut(j, '}');
    fputc('\n', j->to);
}

void json_object(json *j, const char *key)
{
    json_key(j, key);
    json_open(j, '{');
}

void json_array(json *j, const char *key)
{
    json_key(j, key);
    json_open(j, '[');
}

void json_close_object(json *j)
{
    json_shut(j, '}');
}

void json_close_array(json *j)
{
    json_shut(j, ']');
}

void json_text(json *j, const char *key, const char *value)
{
    json_key(j, key);
    json_string(j->to, value);
}

void json_number(json *j, const char *key, uint64_t value)
{
    json_key(j, key);
    fprintf(j->to, "%" PRIu64, value);
}

void json_integer(json *j, const char *key, int64_t value)
{
    json_key(j, key);
    fprintf(j->to, "%" PRId64, value);
}

void json_bool(json *j, const char *key, bool value)
{
    json_key(j, key);
    fputs(value ? "true" : "false", j->to);
}

void json_shape(json *j, const char *key, uint32_t axes, const int64_t *shape)
{
    json_key(j, key);
    print_shape(j->to, axes, shape);
}
