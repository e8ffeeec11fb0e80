#include "base/feed.h"

#include <string.h>

#define WINDOW ((size_t)256 << 10)

swi_feed swi_feed_of_memory(const void *data, size_t size)
{
    return (swi_feed){.cursor = swi_cursor_make(data, size)};
}

swi_feed swi_feed_of(swi_feed_fn read, void *ctx, uint64_t bytes)
{
    return (swi_feed){.cursor = swi_cursor_make(NULL, 0),
                      .behind = bytes,
                      .window_bytes = WINDOW,
                      .read = read,
                      .ctx = ctx};
}

void swi_feed_end(swi_feed *feed)
{
    if (feed->end != NULL)
        feed->end(feed->ctx);
    swi_buf_free(&feed->held);
    *feed = (swi_feed){.cursor = swi_cursor_make(NULL, 0)};
}

sw_status swi_feed_more(swi_feed *feed, size_t want, sw_error *err)
{
    size_t held = swi_cursor_left(&feed->cursor), size = want;
    if (held >= want || feed->behind == 0)
        return SW_OK;
    swi_buf *window = &feed->held;
    size_t from = feed->cursor.pos;
    sw_status status = SW_OK;
    if (size < feed->window_bytes)
        size = feed->window_bytes;
    if (size > held + feed->behind)
        size = held + (size_t)feed->behind;
    if (size > window->capacity)
        status = swi_buf_reserve(window, size, err);
    if (status != SW_OK)
        return status;
    if (held > 0)
        memmove(window->data, window->data + from, held);
    feed->passed += from;
    feed->cursor = swi_cursor_make(window->data, held);
    status = feed->read(feed->ctx, feed->passed + held, window->data + held, size - held, err);
    if (status != SW_OK)
        return status;
    feed->behind -= size - held;
    feed->cursor.size = size;
    return SW_OK;
}
