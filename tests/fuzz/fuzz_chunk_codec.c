/*
 * Chunks of the native format: stored bytes from anyone, round trips, and encodings with bytes
 * changed. An input that begins with "hex" holds its bytes in hexadecimal. Byte 0: what to do (2
 * bits), codec (2 bits), size of elements (3 bits).
 */
#include "base/buf.h"
#include "codec/chunk_codec.h"
#include "fuzz/hex.h"
#include "fuzz/patch.h"

#define PATCH_BYTES ((size_t)12)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What to do; the bytes behind are those of the input from the third on. */
typedef struct task {
    swi_chunk_coder *coder;
    swi_chunk_choice choice;
    uint32_t element_bytes;
    uint8_t more; /* byte 1 of the input */
} task;

/* The right number of bytes, or an error with its text. Free what it gives; NULL: an error. */
static uint8_t *decode(const task *t, uint8_t codec, const uint8_t *stored, size_t stored_size,
                       size_t raw_size)
{
    sw_error err = {0};
    uint8_t *raw = malloc(raw_size);
    if (raw == NULL)
        return NULL;
    sw_status st = swi_chunk_decode(t->coder, codec, stored, stored_size, raw, raw_size, &err);
    if (st == SW_OK)
        return raw;
    if ((st != SW_ERR_CORRUPT && st != SW_ERR_UNSUPPORTED) || err.text[0] == 0)
        __builtin_trap();
    free(raw);
    return NULL;
}

static void encode(const task *t, const uint8_t *raw, size_t size, swi_buf *stored,
                   swi_chunk_codec *codec)
{
    sw_error err = {0};
    size_t stored_size;
    if (swi_buf_fill(stored, 0, SWI_CHUNK_STORED_MAX(size), &err) != SW_OK)
        return;
    if (swi_chunk_encode(t->coder, t->choice, t->element_bytes, raw, size, stored->data,
                         &stored_size, codec, &err) != SW_OK ||
        stored_size > size)
        __builtin_trap();
    stored->size = stored_size;
}

static void round_trip(const task *t, const uint8_t *raw, size_t size)
{
    swi_buf stored = {0};
    swi_chunk_codec codec = SWI_CHUNK_STORED;
    encode(t, raw, size, &stored, &codec);
    uint8_t *back = decode(t, (uint8_t)codec, stored.data, stored.size, size);
    if (back == NULL || memcmp(back, raw, size) != 0)
        __builtin_trap();
    free(back);
    swi_buf_free(&stored);
}

/* As many raw bytes as the first two of the rest say. What can be read is written again. */
static void foreign(const task *t, const uint8_t *data, size_t size)
{
    if (size < 2)
        return;
    size_t raw_size = 1 + (size_t)(data[0] | data[1] << 8);
    uint8_t *raw = decode(t, (uint8_t)t->choice.codec, data + 2, size - 2, raw_size);
    if (raw != NULL)
        round_trip(t, raw, raw_size);
    free(raw);
}

/* The rest as often as byte 1 says; `changed`: its first bytes are patches of the encoding. */
static void own(const task *t, bool changed, const uint8_t *data, size_t size)
{
    swi_buf raw = {0}, stored = {0};
    swi_chunk_codec codec = SWI_CHUNK_STORED;
    size_t patches = changed && size > PATCH_BYTES ? PATCH_BYTES : 0;
    bool full = size == patches;
    for (size_t i = 0; i <= t->more && !full; i++)
        full = swi_buf_append(&raw, data + patches, size - patches, NULL) != SW_OK ||
               raw.size > SWI_CHUNK_RAW_MAX / 4;
    if (raw.size > 0 && !changed)
        round_trip(t, raw.data, raw.size);
    if (raw.size > 0 && changed) {
        encode(t, raw.data, raw.size, &stored, &codec);
        patch(&stored, data, patches);
        free(decode(t, (uint8_t)codec, stored.data, stored.size, raw.size));
    }
    swi_buf_free(&raw);
    swi_buf_free(&stored);
}

static void run(const uint8_t *data, size_t size)
{
    task t = {0};
    if (size < 2 || swi_chunk_coder_make(&t.coder, NULL) != SW_OK)
        return;
    t.choice = (swi_chunk_choice){(swi_chunk_codec)(data[0] >> 2 & 3), data[1] % 4};
    t.element_bytes = 1u << (data[0] >> 4) % 5;
    t.more = data[1];
    if ((data[0] & 3) == 0)
        foreign(&t, data + 2, size - 2);
    else if (t.choice.codec <= SWI_CHUNK_PLANES)
        own(&t, (data[0] & 2) != 0, data + 2, size - 2);
    swi_chunk_coder_free(t.coder);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t count;
    uint8_t *bytes = bytes_of_hex(data, size, &count);
    if (bytes != NULL)
        run(bytes, count);
    else
        run(data, size);
    free(bytes);
    return 0;
}
