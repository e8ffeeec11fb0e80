/*
 * How the bytes of one chunk are stored (specs/chunk_codecs.md): as they are, by zstd, or in
 * planes: the n-th bytes of all elements together, each plane coded or stored, whichever is
 * shorter. What is written is the same on every processor and for every number of threads. Never
 * more than SWI_CHUNK_STORED_MAX(raw bytes).
 */
#ifndef SW_CODEC_CHUNK_CODEC_H
#define SW_CODEC_CHUNK_CODEC_H

#include "base/error.h"

#define SWI_CHUNK_RAW_MAX ((size_t)4 << 20)
/* Room for any encoding of so many bytes. */
#define SWI_CHUNK_STORED_MAX(raw) ((raw) + 64)

/* As written in indexes. */
typedef enum swi_chunk_codec {
    SWI_CHUNK_STORED = 0, /* the bytes themselves */
    SWI_CHUNK_ZSTD = 1,
    SWI_CHUNK_PLANES = 2
} swi_chunk_codec;

/* What a writer asks for; a chunk that does not get shorter by it is stored. */
typedef struct swi_chunk_choice {
    swi_chunk_codec codec;
    int level; /* of zstd; 0: 1 */
} swi_chunk_choice;

/*
 * What coding needs: contexts of zstd and room for planes, as many as there ever were calls at
 * once, lent from thread to thread until the coder is freed. Each takes about as much as its
 * largest chunk and, for writing, the tables of its level: under 1 MiB for 1, tens of MiB from 16
 * on. Thread-safe.
 */
typedef struct swi_chunk_coder swi_chunk_coder;
SW_MUST_USE sw_status swi_chunk_coder_make(swi_chunk_coder **out, sw_error *err);
void swi_chunk_coder_free(swi_chunk_coder *coder);

/*
 * Encodes `size` (1 .. SWI_CHUNK_RAW_MAX) bytes of elements of `element_bytes` bytes each (1, 2, 4,
 * 8, 16) into `out`, which has room for SWI_CHUNK_STORED_MAX(size). *codec is what was used.
 */
SW_MUST_USE sw_status swi_chunk_encode(swi_chunk_coder *coder, swi_chunk_choice choice,
                                       uint32_t element_bytes, const uint8_t *raw, size_t size,
                                       uint8_t *out, size_t *out_size, swi_chunk_codec *codec,
                                       sw_error *err);
/*
 * Exactly `raw_size` bytes or SW_ERR_CORRUPT; an unknown codec is SW_ERR_UNSUPPORTED. Hostile input
 * is fine. What is stored says itself how many planes it has.
 */
SW_MUST_USE sw_status swi_chunk_decode(swi_chunk_coder *coder, uint8_t codec, const uint8_t *stored,
                                       size_t stored_size, uint8_t *raw, size_t raw_size,
                                       sw_error *err);

#endif
