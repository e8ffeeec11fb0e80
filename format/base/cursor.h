/*
 * The only way to read foreign bytes. A cursor is a window over memory with a position; every get
 * either delivers all of what was asked and moves on, or delivers nothing, moves nowhere and
 * returns false. It cannot run over.
 */
#ifndef SW_BASE_CURSOR_H
#define SW_BASE_CURSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef struct swi_cursor {
    const uint8_t *data;
    size_t size;
    size_t pos;
} swi_cursor;

static inline swi_cursor swi_cursor_make(const void *data, size_t size)
{
    /* Even "NULL + 0" is undefined: nothing gets a place, too. */
    const void *start = data != NULL ? data : "";
    return (swi_cursor){.data = start, .size = size, .pos = 0};
}

static inline size_t swi_cursor_left(const swi_cursor *c)
{
    return c->size - c->pos;
}

static inline bool swi_get_bytes(swi_cursor *c, size_t count, const uint8_t **out)
{
    if (count > swi_cursor_left(c))
        return false;
    *out = c->data + c->pos;
    c->pos += count;
    return true;
}

static inline bool swi_skip(swi_cursor *c, size_t count)
{
    if (count > swi_cursor_left(c))
        return false;
    c->pos += count;
    return true;
}

static inline bool swi_seek(swi_cursor *c, size_t pos)
{
    if (pos > c->size)
        return false;
    c->pos = pos;
    return true;
}

/* A cursor over the next `count` bytes, which the outer one skips. */
static inline bool swi_get_sub(swi_cursor *c, size_t count, swi_cursor *out)
{
    const uint8_t *p;
    if (!swi_get_bytes(c, count, &p))
        return false;
    *out = swi_cursor_make(p, count);
    return true;
}

static inline bool swi_get_u8(swi_cursor *c, uint8_t *out)
{
    if (swi_cursor_left(c) < 1)
        return false;
    *out = c->data[c->pos++];
    return true;
}

static inline bool swi_peek_u8(const swi_cursor *c, uint8_t *out)
{
    if (swi_cursor_left(c) < 1)
        return false;
    *out = c->data[c->pos];
    return true;
}

static inline uint16_t swi_load_u16le(const uint8_t *p)
{
    return (uint16_t)(p[0] | (p[1] << 8));
}

static inline uint32_t swi_load_u32le(const uint8_t *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static inline uint64_t swi_load_u64le(const uint8_t *p)
{
    return (uint64_t)swi_load_u32le(p) | (uint64_t)swi_load_u32le(p + 4) << 32;
}

static inline bool swi_get_u16le(swi_cursor *c, uint16_t *out)
{
    const uint8_t *p;
    if (!swi_get_bytes(c, 2, &p))
        return false;
    *out = swi_load_u16le(p);
    return true;
}

static inline bool swi_get_u32le(swi_cursor *c, uint32_t *out)
{
    const uint8_t *p;
    if (!swi_get_bytes(c, 4, &p))
        return false;
    *out = swi_load_u32le(p);
    return true;
}

static inline bool swi_get_u64le(swi_cursor *c, uint64_t *out)
{
    const uint8_t *p;
    if (!swi_get_bytes(c, 8, &p))
        return false;
    *out = swi_load_u64le(p);
    return true;
}

static inline bool swi_get_u64be(swi_cursor *c, uint64_t *out)
{
    const uint8_t *p;
    if (!swi_get_bytes(c, 8, &p))
        return false;
    uint64_t v = 0;
    for (int i = 0; i < 8; i++)
        v = v << 8 | p[i];
    *out = v;
    return true;
}

/* The bytes up to and without the next '\n', which is skipped. */
static inline bool swi_get_line(swi_cursor *c, const uint8_t **line, size_t *size)
{
    const uint8_t *start = c->data + c->pos;
    const uint8_t *nl = swi_cursor_left(c) ? memchr(start, '\n', swi_cursor_left(c)) : NULL;
    if (nl == NULL)
        return false;
    *line = start;
    *size = (size_t)(nl - start);
    c->pos += *size + 1;
    return true;
}

#endif
