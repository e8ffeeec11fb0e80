/* zstd frames as a stream of bounded memory. */
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
                                      uint64_t bytes, uint64_t max_out, swi_sink_fn sink,
                                      void *ctx, sw_error *err);

#endif
