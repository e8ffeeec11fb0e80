/* SHA-256 (libcrypto behind it). */
#ifndef SW_CODEC_DIGEST_H
#define SW_CODEC_DIGEST_H

#include "base/error.h"

#define SWI_DIGEST_BYTES 32
#define SWI_DIGEST_TEXT 65

typedef struct swi_digest {
    uint8_t bytes[SWI_DIGEST_BYTES];
} swi_digest;

/* A running hash; reused from message to message. Not shared by threads. */
typedef struct swi_hasher swi_hasher;
SW_MUST_USE sw_status swi_hasher_make(swi_hasher **out, sw_error *err);
void swi_hasher_free(swi_hasher *hasher);
SW_MUST_USE sw_status swi_hasher_begin(swi_hasher *hasher, sw_error *err);
SW_MUST_USE sw_status swi_hasher_add(swi_hasher *hasher, const void *data, size_t size,
                                     sw_error *err);
SW_MUST_USE sw_status swi_hasher_end(swi_hasher *hasher, swi_digest *out, sw_error *err);

/* Of these bytes, one after the other. */
typedef struct swi_bytes {
    const void *data;
    size_t size;
} swi_bytes;
SW_MUST_USE sw_status swi_digest_bytes(const swi_bytes *parts, size_t count, swi_digest *out,
                                       sw_error *err);

void swi_digest_text(const swi_digest *digest, char text[SWI_DIGEST_TEXT]); /* lower-case hex */
bool swi_digest_parse(const char *text, size_t size, swi_digest *out);

#endif
