/* zstd frames as a stream of bounded memory, and as a byte space to read from. */
#ifndef SW_CODEC_ZSTD_H
#define SW_CODEC_ZSTD_H

#include "base/reader.h"

/* Takes decoded bytes in order. */
typedef sw_status (*swi_sink_fn)(void *ctx, const uint8_t *data, size_t size, sw_error *err);

/*
 * Decodes all frames in [offset, offset + bytes) of the file. More than max_out decoded bytes is
 * SW_ERR_LIMIT, a frame that needs a window over 128 MiB too; a broken, cut or followed frame is
 * SW_ERR_CORRUPT with its position.
 */
SW_MUST_USE sw_status swi_zstd_decode(const swi_reader *reader, uint32_t file, uint64_t offset,
                                      uint64_t bytes, uint64_t max_out, swi_sink_fn sink, void *ctx,
                                      sw_error *err);

/*
 * The decoded bytes as file 0 of a reader of their own, without room for all of them: reads that go
 * forward cost one decoding, a read far back begins it again (the last bytes are kept). One thread
 * at a time. `reader` is borrowed. The limits are those of swi_zstd_decode.
 */
typedef struct swi_zstd_view swi_zstd_view;
SW_MUST_USE sw_status swi_zstd_view_open(const swi_reader *reader, uint32_t file, uint64_t offset,
                                         uint64_t bytes, uint64_t max_out, swi_zstd_view **out,
                                         sw_error *err);
void swi_zstd_view_free(swi_zstd_view *view);
uint64_t swi_zstd_view_bytes(const swi_zstd_view *view);
const swi_reader *swi_zstd_view_reader(const swi_zstd_view *view);

#endif
