/*
 * Bytes in order through a window that moves on: how a parser reads a file that it need not hold.
 * The parser takes from `cursor` and asks for more before it runs short; pointers into the cursor
 * end with that call. One thread.
 */
#ifndef SW_BASE_FEED_H
#define SW_BASE_FEED_H

#include "base/buf.h"
#include "base/cursor.h"

/* Exactly `size` bytes from `offset` of the input on. */
typedef sw_status (*swi_feed_fn)(void *ctx, uint64_t offset, void *data, size_t size,
                                 sw_error *err);

typedef struct swi_feed {
    swi_cursor cursor;
    uint64_t passed;     /* bytes of the input before the cursor's first */
    uint64_t behind;     /* bytes of the input behind the cursor's last, still to be read */
    size_t window_bytes; /* how much to hold at once, if less will do */
    swi_feed_fn read;
    void (*end)(void *ctx); /* NULL: nothing is to be ended */
    void *ctx;
    swi_buf held;
} swi_feed;

/* What lies in memory already; borrowed. Needs no end. */
swi_feed swi_feed_of_memory(const void *data, size_t size);
/* Nothing is read yet. Ended by swi_feed_end. */
swi_feed swi_feed_of(swi_feed_fn read, void *ctx, uint64_t bytes);
void swi_feed_end(swi_feed *feed);

/*
 * Makes at least `want` bytes, or all that are left, lie in front of the cursor. Memory: the larger
 * of the window (256 KiB if not set otherwise) and twice `want`.
 */
SW_MUST_USE sw_status swi_feed_more(swi_feed *feed, size_t want, sw_error *err);

/* In the whole input. */
static inline uint64_t swi_feed_position(const swi_feed *feed)
{
    return feed->passed + feed->cursor.pos;
}

static inline uint64_t swi_feed_left(const swi_feed *feed)
{
    return feed->behind + swi_cursor_left(&feed->cursor);
}

#endif
