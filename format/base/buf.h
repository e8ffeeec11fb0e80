/* A growing byte buffer. After a failed append the buffer is unchanged. Not shared by threads. */
#ifndef SW_BASE_BUF_H
#define SW_BASE_BUF_H

#include "shardwright_format.h"

typedef struct swi_buf {
    uint8_t *data; /* NULL while empty */
    size_t size;
    size_t capacity;
} swi_buf;

void swi_buf_free(swi_buf *buf); /* ends with {0} */
SW_MUST_USE sw_status swi_buf_reserve(swi_buf *buf, size_t more, sw_error *err);
SW_MUST_USE sw_status swi_buf_append(swi_buf *buf, const void *data, size_t size, sw_error *err);
SW_MUST_USE sw_status swi_buf_append_str(swi_buf *buf, const char *text, sw_error *err);
SW_MUST_USE sw_status swi_buf_printf(swi_buf *buf, sw_error *err, const char *fmt, ...)
    SW_PRINTF(3, 4);
SW_MUST_USE sw_status swi_buf_fill(swi_buf *buf, uint8_t byte, size_t count, sw_error *err);
SW_MUST_USE sw_status swi_buf_u8(swi_buf *buf, uint8_t v, sw_error *err);
SW_MUST_USE sw_status swi_buf_u16le(swi_buf *buf, uint16_t v, sw_error *err);
SW_MUST_USE sw_status swi_buf_u32le(swi_buf *buf, uint32_t v, sw_error *err);
SW_MUST_USE sw_status swi_buf_u64le(swi_buf *buf, uint64_t v, sw_error *err);

#endif
