#include "base/buf.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/error.h"

#define FIRST_CAPACITY 64

void swi_buf_free(swi_buf *buf)
{
    if (buf == NULL)
        return;
    free(buf->data);
    *buf = (swi_buf){0};
}

sw_status swi_buf_reserve(swi_buf *buf, size_t more, sw_error *err)
{
    size_t need;
    if (!swi_add_size(buf->size, more, &need) || need > PTRDIFF_MAX)
        return swi_fail_nomem(err);
    if (need <= buf->capacity)
        return SW_OK;
    size_t capacity = buf->capacity < FIRST_CAPACITY ? FIRST_CAPACITY : buf->capacity;
    while (capacity < need)
        capacity = capacity > PTRDIFF_MAX / 2 ? need : capacity * 2;
    uint8_t *data = realloc(buf->data, capacity);
    if (data == NULL)
        return swi_fail_nomem(err);
    buf->data = data;
    buf->capacity = capacity;
    return SW_OK;
}

sw_status swi_buf_append(swi_buf *buf, const void *data, size_t size, sw_error *err)
{
    if (size == 0)
        return SW_OK;
    sw_status status = swi_buf_reserve(buf, size, err);
    if (status != SW_OK)
        return status;
    memcpy(buf->data + buf->size, data, size);
    buf->size += size;
    return SW_OK;
}

sw_status swi_buf_append_str(swi_buf *buf, const char *text, sw_error *err)
{
    return swi_buf_append(buf, text, strlen(text), err);
}

sw_status swi_buf_printf(swi_buf *buf, sw_error *err, const char *fmt, ...)
{
    va_list args, again;
    va_start(args, fmt);
    va_copy(again, args);
    sw_status status = SW_OK;
    int n = vsnprintf(NULL, 0, fmt, args);
    if (n < 0)
        status = swi_fail(err, SW_ERR_ARG, "cannot format \"%s\"", fmt);
    else
        status = swi_buf_reserve(buf, (size_t)n + 1, err); /* vsnprintf ends with a zero */
    if (status == SW_OK) {
        (void)vsnprintf((char *)buf->data + buf->size, (size_t)n + 1, fmt, again);
        buf->size += (size_t)n;
    }
    va_end(again);
    va_end(args);
    return status;
}

sw_status swi_buf_fill(swi_buf *buf, uint8_t byte, size_t count, sw_error *err)
{
    if (count == 0)
        return SW_OK;
    sw_status status = swi_buf_reserve(buf, count, err);
    if (status != SW_OK)
        return status;
    memset(buf->data + buf->size, byte, count);
    buf->size += count;
    return SW_OK;
}

static sw_status append_le(swi_buf *buf, uint64_t v, size_t size, sw_error *err)
{
    uint8_t bytes[8];
    for (size_t i = 0; i < size; i++)
        bytes[i] = (uint8_t)(v >> (8 * i));
    return swi_buf_append(buf, bytes, size, err);
}

sw_status swi_buf_u8(swi_buf *buf, uint8_t v, sw_error *err)
{
    return append_le(buf, v, 1, err);
}

sw_status swi_buf_u16le(swi_buf *buf, uint16_t v, sw_error *err)
{
    return append_le(buf, v, 2, err);
}

sw_status swi_buf_u32le(swi_buf *buf, uint32_t v, sw_error *err)
{
    return append_le(buf, v, 4, err);
}

sw_status swi_buf_u64le(swi_buf *buf, uint64_t v, sw_error *err)
{
    return append_le(buf, v, 8, err);
}
