/*
 * Files that threads write once from their beginning to their end. What is put is gathered in
 * large aligned blocks, which a thread of the stream writes: past the system's cache where the file
 * system is good at that, so that the kernel copies nothing, threads do not wait for one another's
 * turn at the file, and no other program's pages are pushed out of memory.
 */
#ifndef SW_IO_STREAM_H
#define SW_IO_STREAM_H

#include "io/store.h"

/* Room for the streams of a run, handed on from file to file. Thread-safe. */
typedef struct swi_lanes swi_lanes;
/* `memory_bytes`: what all the room may take. */
SW_MUST_USE sw_status swi_lanes_make(uint64_t memory_bytes, swi_lanes **out, sw_error *err);
void swi_lanes_free(swi_lanes *lanes); /* after all streams; NULL is allowed */

typedef struct swi_stream swi_stream;

/*
 * `file` was opened for writing; it is borrowed until swi_stream_end, the lanes until
 * swi_stream_free. When as many streams are open as there is room for, and without lanes (NULL),
 * what is put goes to the file at once.
 */
SW_MUST_USE sw_status swi_stream_open(swi_lanes *lanes, swi_file *file, swi_stream **out,
                                      sw_error *err);
/*
 * The slices one after another from `offset` on. Each byte of the file once; thread-safe. Waits
 * while earlier bytes are missing and it is too far ahead of them, so a thread brings what it owes
 * in ascending order, and waits for nobody in between.
 */
SW_MUST_USE sw_status swi_stream_put(swi_stream *stream, uint64_t offset, const swi_slice *slices,
                                     size_t count, sw_error *err);
/* All bytes below `end` were put: when it returns the file has them (not durably yet). */
SW_MUST_USE sw_status swi_stream_end(swi_stream *stream, uint64_t end, sw_error *err);
/* Without swi_stream_end before: what is not written yet is dropped. NULL is allowed. */
void swi_stream_free(swi_stream *stream);

#endif
