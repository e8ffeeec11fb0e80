#include "harness/harness.h"

#include <stdlib.h>
#include <string.h>

#include <pthread.h>
#include <zstd.h>

#include "codec/chunk_codec.h"
#include "codec/planes.h"

#define KINDS 7
#define GUARD ((size_t)32)

static const uint32_t element_sizes[] = {1, 2, 4, 8, 16};
static const size_t chunk_sizes[] = {1,     2,     3,     7,     15,     17,     127,    128,
                                     255,   256,   257,   1000,  2048,   2049,   4095,   8192,
                                     16385, 65536, 65543, 99999, 131072, 131073, 262144, 524295};
#define CHUNK_SIZES (sizeof(chunk_sizes) / sizeof(chunk_sizes[0]))

/* ---- data -------------------------------------------------------------------------------- */

static double normal(harness_prng *prng)
{
    double sum = -6;
    for (int i = 0; i < 12; i++)
        sum += (double)(harness_random(prng) >> 11) * 0x1p-53;
    return sum;
}

/* Floats of a normal distribution, cut to the upper `keep` bytes of each where keep is 2. */
static void fill_weights(harness_prng *prng, uint8_t *data, size_t size, size_t keep)
{
    for (size_t i = 0; i < size; i += keep) {
        float f = (float)(normal(prng) * 0.02);
        uint8_t bytes[4];
        memcpy(bytes, &f, 4);
        memcpy(data + i, bytes + 4 - keep, size - i < keep ? size - i : keep);
    }
}

static void fill(unsigned kind, uint8_t *data, size_t size)
{
    harness_prng prng = {size * KINDS + kind};
    memset(data, 0, size);
    if (kind == 1)
        harness_random_fill(&prng, data, size);
    if (kind == 2)
        fill_weights(&prng, data, size, 2);
    if (kind == 3)
        fill_weights(&prng, data, size, 4);
    if (kind == 4) /* small numbers of 8 bytes */
        for (size_t i = 0; i < size; i += 8)
            data[i] = (uint8_t)harness_random(&prng);
    if (kind == 6) /* a mask */
        for (size_t i = 0; i < size; i++)
            data[i] = harness_random(&prng) & 1;
    if (kind == 5) { /* random rows that come again */
        harness_random_fill(&prng, data, size < 96 ? size : 96);
        for (size_t i = 96; i < size; i++)
            data[i] = data[i - 96];
    }
}

/* ---- one chunk --------------------------------------------------------------------------- */

typedef struct chunk {
    uint8_t *raw, *stored;
    size_t size, stored_size;
    swi_chunk_codec codec;
} chunk;

static void encode(swi_chunk_coder *coder, chunk *c, swi_chunk_choice choice, uint32_t element)
{
    sw_error err = {0};
    size_t room = SWI_CHUNK_STORED_MAX(c->size);
    c->stored = malloc(room + GUARD);
    assert_non_null(c->stored);
    memset(c->stored + room, 0xA5, GUARD);
    assert_ok(swi_chunk_encode(coder, choice, element, c->raw, c->size, c->stored, &c->stored_size,
                               &c->codec, &err),
              &err);
    for (size_t i = 0; i < GUARD; i++)
        assert_int_equal(c->stored[room + i], 0xA5);
    assert_true(c->stored_size <= c->size);
    assert_true(c->codec == choice.codec || c->codec == SWI_CHUNK_STORED);
    assert_true((c->codec == SWI_CHUNK_STORED) == (c->stored_size == c->size));
}

static void make_chunk(chunk *c, unsigned kind, size_t size)
{
    *c = (chunk){.raw = malloc(size), .size = size};
    assert_non_null(c->raw);
    fill(kind, c->raw, size);
}

static void free_chunk(chunk *c)
{
    free(c->raw);
    free(c->stored);
}

/* Decodes `size` stored bytes, copied to memory of their own, into a guarded buffer. */
static sw_status decode(swi_chunk_coder *coder, const chunk *c, const uint8_t *stored, size_t size,
                        uint8_t *raw, sw_error *err)
{
    uint8_t *copy = malloc(size > 0 ? size : 1);
    assert_non_null(copy);
    memcpy(copy, stored, size);
    memset(raw + c->size, 0xA5, GUARD);
    sw_status st = swi_chunk_decode(coder, (uint8_t)c->codec, copy, size, raw, c->size, err);
    for (size_t i = 0; i < GUARD; i++)
        assert_int_equal(raw[c->size + i], 0xA5);
    free(copy);
    return st;
}

static void round_trip(swi_chunk_coder *coder, swi_chunk_choice choice, uint32_t element,
                       unsigned kind, size_t size)
{
    sw_error err = {0};
    chunk c;
    make_chunk(&c, kind, size);
    encode(coder, &c, choice, element);
    uint8_t *got = calloc(1, size + GUARD);
    assert_non_null(got);
    assert_ok(decode(coder, &c, c.stored, c.stored_size, got, &err), &err);
    assert_memory_equal(got, c.raw, size);
    chunk again = {.raw = c.raw, .size = size};
    encode(coder, &again, choice, element);
    assert_int_equal(again.stored_size, c.stored_size);
    assert_memory_equal(again.stored, c.stored, c.stored_size);
    free(again.stored);
    free(got);
    free_chunk(&c);
}

static swi_chunk_coder *make_coder(void)
{
    sw_error err = {0};
    swi_chunk_coder *coder;
    assert_ok(swi_chunk_coder_make(&coder, &err), &err);
    return coder;
}

/* ---- tests ------------------------------------------------------------------------------- */

static void good_round_trips(void **state)
{
    (void)state;
    swi_chunk_coder *coder = make_coder();
    for (size_t s = 0; s < CHUNK_SIZES; s++)
        for (unsigned kind = 0; kind < KINDS; kind++)
            for (size_t e = 0; e < 5; e++) {
                const swi_chunk_choice planes = {SWI_CHUNK_PLANES, (int)(s % 4)};
                round_trip(coder, planes, element_sizes[e], kind, chunk_sizes[s]);
                if (e == 0) {
                    const swi_chunk_choice zstd = {SWI_CHUNK_ZSTD, (int)(s % 4)};
                    const swi_chunk_choice stored = {SWI_CHUNK_STORED, 0};
                    round_trip(coder, zstd, 1, kind, chunk_sizes[s]);
                    round_trip(coder, stored, 1, kind, chunk_sizes[s]);
                }
            }
    swi_chunk_coder_free(coder);
}

static void good_largest(void **state)
{
    (void)state;
    swi_chunk_coder *coder = make_coder();
    const swi_chunk_choice planes = {SWI_CHUNK_PLANES, 0}, zstd = {SWI_CHUNK_ZSTD, 22};
    round_trip(coder, planes, 4, 3, SWI_CHUNK_RAW_MAX);
    round_trip(coder, planes, 16, 5, SWI_CHUNK_RAW_MAX - 3);
    round_trip(coder, zstd, 4, 5, SWI_CHUNK_RAW_MAX);
    swi_chunk_coder_free(coder);
}

/* Stored size in thousandths of the raw size. */
static size_t thousandths(swi_chunk_codec codec, uint32_t element, unsigned kind)
{
    chunk c;
    swi_chunk_coder *coder = make_coder();
    const swi_chunk_choice choice = {codec, 0};
    make_chunk(&c, kind, 256 * 1024);
    encode(coder, &c, choice, element);
    size_t result = (c.stored_size * 1000 + c.size - 1) / c.size;
    free_chunk(&c);
    swi_chunk_coder_free(coder);
    return result;
}

static void good_sizes(void **state)
{
    (void)state;
    assert_true(thousandths(SWI_CHUNK_PLANES, 2, 2) <= 669);
    assert_true(thousandths(SWI_CHUNK_PLANES, 4, 3) <= 835);
    assert_true(thousandths(SWI_CHUNK_PLANES, 8, 4) <= 127);
    assert_true(thousandths(SWI_CHUNK_PLANES, 4, 0) <= 1);
    assert_true(thousandths(SWI_CHUNK_PLANES, 4, 5) <= 5);
    assert_true(thousandths(SWI_CHUNK_PLANES, 1, 6) <= 127);
    assert_true(thousandths(SWI_CHUNK_PLANES, 2, 1) == 1000);
    assert_true(thousandths(SWI_CHUNK_ZSTD, 2, 2) <= 790);
}

/* The bytes of an example of the specification's byte tables, by hand. */
static void good_by_hand(void **state)
{
    (void)state;
    static const uint8_t stored[] = {2, 1, 0,    0,    3,    0,    0,    0,    3,   0,
                                     0, 0, 0x01, 0x02, 0xFF, 0x80, 0x00, 0xFF, 0x77};
    static const uint8_t want[] = {0x00, 0xC0, 0x01, 0x00, 0xFF, 0xFF, 0x77};
    uint8_t raw[7];
    sw_error err = {0};
    swi_chunk_coder *coder = make_coder();
    assert_ok(swi_chunk_decode(coder, SWI_CHUNK_PLANES, stored, sizeof stored, raw, 7, &err), &err);
    assert_memory_equal(raw, want, 7);
    swi_chunk_coder_free(coder);
}

static void bad_heads(void **state)
{
    (void)state;
    static const struct {
        uint8_t bytes[24];
        size_t size;
        const char *complaint;
    } cases[] = {
        {{2, 1, 0}, 3, "the head is cut"},
        {{2, 1, 0, 0, 3, 0, 0, 0, 3, 0, 0}, 11, "the head is cut"},
        {{3, 0, 0, 0, 2, 0, 0, 0, 2, 0, 0, 0, 2, 0, 0, 0}, 24, "1, 2, 4, 8 or 16 planes"},
        {{0, 0, 0, 0}, 4, "1, 2, 4, 8 or 16 planes"},
        {{32, 0, 0, 0}, 24, "1, 2, 4, 8 or 16 planes"},
        {{2, 1, 1, 0, 3, 0, 0, 0, 3, 0, 0, 0}, 19, "1, 2, 4, 8 or 16 planes"},
        {{2, 2, 0, 0, 3, 0, 0, 0, 3, 0, 0, 0}, 19, "a transform"},
        {{1, 1, 0, 0, 7, 0, 0, 0}, 15, "a transform"},
        {{2, 1, 0, 0, 4, 0, 0, 0, 2, 0, 0, 0}, 19, "longer than the chunk"},
        {{2, 1, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0}, 16, "is empty"},
        {{16, 0, 0, 0, 1, 0, 0, 0}, 24, "longer than the chunk"},
        {{2, 1, 0, 0, 3, 0, 0, 0, 3, 0, 0, 0}, 18, "longer or shorter"},
        {{2, 1, 0, 0, 3, 0, 0, 0, 3, 0, 0, 0}, 20, "longer or shorter"},
        {{2, 1, 0, 0, 3, 0, 0, 0, 3, 0, 0, 0}, 17, "it is cut"},
        {{2, 1, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0}, 18, "plane 0: no zstd frame"},
    };
    swi_chunk_coder *coder = make_coder();
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        sw_error err = {0};
        uint8_t raw[7];
        assert_int_equal(SW_ERR_CORRUPT, swi_chunk_decode(coder, SWI_CHUNK_PLANES, cases[i].bytes,
                                                          cases[i].size, raw, 7, &err));
        assert_error(&err, SW_ERR_CORRUPT, cases[i].complaint);
    }
    swi_chunk_coder_free(coder);
}

static void bad_calls(void **state)
{
    (void)state;
    sw_error err = {0};
    uint8_t raw[100] = {0}, out[164];
    size_t size = 77;
    swi_chunk_codec codec = SWI_CHUNK_ZSTD;
    const swi_chunk_choice choice = {SWI_CHUNK_PLANES, 0};
    swi_chunk_coder *coder = make_coder();
    assert_int_equal(SW_ERR_UNSUPPORTED, swi_chunk_decode(coder, 3, raw, 9, out, 9, &err));
    assert_error(&err, SW_ERR_UNSUPPORTED, "codec 3 is not known");
    assert_int_equal(SW_ERR_CORRUPT, swi_chunk_decode(coder, 0, raw, 9, out, 10, &err));
    assert_error(&err, SW_ERR_CORRUPT, "a stored chunk of 9 bytes, expected 10");
    assert_int_equal(SW_ERR_CORRUPT, swi_chunk_decode(coder, 0, raw, 0, out, 0, &err));
    assert_error(&err, SW_ERR_CORRUPT, "a chunk of 0 bytes");
    assert_int_equal(SW_ERR_CORRUPT,
                     swi_chunk_decode(coder, 0, raw, 9, out, SWI_CHUNK_RAW_MAX + 1, &err));
    assert_int_equal(SW_ERR_ARG,
                     swi_chunk_encode(coder, choice, 3, raw, 99, out, &size, &codec, &err));
    assert_error(&err, SW_ERR_ARG, "elements of 3");
    assert_int_equal(SW_ERR_ARG,
                     swi_chunk_encode(coder, choice, 2, raw, 0, out, &size, &codec, &err));
    assert_int_equal(size, 77);
    assert_int_equal(codec, SWI_CHUNK_ZSTD);
    swi_chunk_coder_free(coder);
}

/* What a codec of zstd must refuse though libzstd would take it (COD-3). */
static void bad_frames(void **state)
{
    (void)state;
    static const uint8_t skippable[] = {0x50, 0x2A, 0x4D, 0x18, 0, 0, 0, 0};
    uint8_t plain[600] = {0}, frame[800], out[600];
    sw_error err = {0};
    swi_chunk_coder *coder = make_coder();
    size_t n = ZSTD_compress(frame, sizeof frame, plain, 600, 1);
    assert_ok(swi_chunk_decode(coder, SWI_CHUNK_ZSTD, frame, n, out, 600, &err), &err);
    assert_int_equal(SW_ERR_CORRUPT,
                     swi_chunk_decode(coder, SWI_CHUNK_ZSTD, frame, n, out, 599, &err));
    assert_error(&err, SW_ERR_CORRUPT, "does not say that it holds 599 bytes");
    memcpy(frame + n, skippable, 8);
    assert_int_equal(SW_ERR_CORRUPT,
                     swi_chunk_decode(coder, SWI_CHUNK_ZSTD, frame, n + 8, out, 600, &err));
    assert_error(&err, SW_ERR_CORRUPT, "8 bytes follow the zstd frame");
    assert_int_equal(err.offset_bytes, n);
    memmove(frame + 8, frame, n);
    memcpy(frame, skippable, 8);
    assert_int_equal(SW_ERR_CORRUPT,
                     swi_chunk_decode(coder, SWI_CHUNK_ZSTD, frame, n + 8, out, 600, &err));
    assert_error(&err, SW_ERR_CORRUPT, "no zstd frame where one should begin");
    swi_chunk_coder_free(coder);
}

/* Every truncation, and flips of every byte of the heads and of some bytes behind: no overrun, and
 * an error or bytes of the right number. */
static void bad_cuts_and_flips(void **state)
{
    (void)state;
    swi_chunk_coder *coder = make_coder();
    for (unsigned kind = 2; kind < KINDS; kind++) {
        const swi_chunk_choice choice = {kind == 5 ? SWI_CHUNK_ZSTD : SWI_CHUNK_PLANES, 0};
        sw_error err = {0};
        chunk c;
        make_chunk(&c, kind, 3001);
        encode(coder, &c, choice, kind == 2 ? 2 : 4);
        assert_int_equal(c.codec, choice.codec);
        uint8_t *got = malloc(c.size + GUARD);
        assert_non_null(got);
        for (size_t cut = 0; cut < c.stored_size; cut++) {
            assert_int_equal(decode(coder, &c, c.stored, cut, got, &err), SW_ERR_CORRUPT);
            assert_true(err.text[0] != 0);
        }
        for (size_t at = 0; at < c.stored_size; at++) {
            c.stored[at] ^= (uint8_t)(1 << at % 8);
            sw_status st = decode(coder, &c, c.stored, c.stored_size, got, &err);
            assert_true(st == SW_OK || st == SW_ERR_CORRUPT);
            c.stored[at] ^= (uint8_t)(1 << at % 8);
        }
        assert_ok(decode(coder, &c, c.stored, c.stored_size, got, &err), &err);
        free(got);
        free_chunk(&c);
    }
    swi_chunk_coder_free(coder);
}

/* Every implementation against the definition, element by element. */
static void check_planes(const swi_planes_ops *ops, swi_planes_shape shape, size_t count,
                         size_t shift)
{
    uint32_t bytes = shape.element_bytes;
    uint8_t *raw = malloc(count * bytes + shift + 1), *back = malloc(count * bytes + shift + 1);
    uint8_t *room = malloc(count * bytes + shift + 1), *planes[SWI_PLANES_MAX];
    const uint8_t *sources[SWI_PLANES_MAX];
    harness_prng prng = {count};
    assert_true(raw != NULL && back != NULL && room != NULL);
    harness_random_fill(&prng, raw, count * bytes + shift);
    for (uint32_t k = 0; k < bytes; k++)
        sources[k] = planes[k] = room + shift + k * count;
    ops->split(shape, raw + shift, count, planes);
    for (size_t i = 0; i < count; i++) {
        uint32_t x = 0;
        for (uint32_t k = 0; k < bytes && k < 4; k++)
            x |= (uint32_t)raw[shift + i * bytes + k] << 8 * k;
        if (shape.rotated)
            x = x << 1 | x >> (8 * bytes - 1);
        for (uint32_t k = 0; k < bytes; k++)
            assert_int_equal(planes[k][i], k < 4 ? x >> 8 * k & 0xFF : raw[shift + i * bytes + k]);
    }
    ops->merge(shape, sources, count, back + shift);
    if (count > 0)
        assert_memory_equal(back + shift, raw + shift, count * bytes);
    free(raw);
    free(back);
    free(room);
}

static void good_planes(void **state)
{
    (void)state;
    const swi_planes_ops *all[] = {swi_planes_portable(), swi_planes_avx2(), swi_planes_best()};
    for (size_t i = 0; i < 3; i++)
        for (size_t count = 0; count < 200 && all[i] != NULL; count++)
            for (size_t e = 0; e < 5; e++)
                for (int rotated = 0; rotated <= swi_planes_can_rotate(element_sizes[e]); rotated++)
                    check_planes(all[i], (swi_planes_shape){element_sizes[e], rotated != 0}, count,
                                 count % 7);
}

/* Many threads with one coder. */
typedef struct worker {
    pthread_t thread;
    swi_chunk_coder *coder;
    chunk c;
    bool same;
} worker;

static void *work(void *ctx)
{
    worker *w = ctx;
    const swi_chunk_choice choice = {SWI_CHUNK_PLANES, 0};
    size_t room = SWI_CHUNK_STORED_MAX(w->c.size);
    uint8_t *stored = malloc(room), *raw = malloc(w->c.size);
    w->same = stored != NULL && raw != NULL;
    for (int i = 0; i < 20 && w->same; i++) {
        size_t size;
        swi_chunk_codec codec;
        w->same = swi_chunk_encode(w->coder, choice, 2, w->c.raw, w->c.size, stored, &size, &codec,
                                   NULL) == SW_OK &&
                  size == w->c.stored_size && memcmp(stored, w->c.stored, size) == 0 &&
                  swi_chunk_decode(w->coder, (uint8_t)codec, stored, size, raw, w->c.size, NULL) ==
                      SW_OK &&
                  memcmp(raw, w->c.raw, w->c.size) == 0;
    }
    free(stored);
    free(raw);
    return NULL;
}

static void good_threads(void **state)
{
    (void)state;
    worker workers[4] = {0};
    const swi_chunk_choice choice = {SWI_CHUNK_PLANES, 0};
    swi_chunk_coder *coder = make_coder();
    for (size_t i = 0; i < 4; i++) {
        workers[i].coder = coder;
        make_chunk(&workers[i].c, 2, 50000 + 10000 * i);
        encode(coder, &workers[i].c, choice, 2);
    }
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(pthread_join(workers[i].thread, NULL), 0);
        assert_true(workers[i].same);
        free_chunk(&workers[i].c);
    }
    swi_chunk_coder_free(coder);
    swi_chunk_coder_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(good_round_trips), cmocka_unit_test(good_largest),
        cmocka_unit_test(good_sizes),       cmocka_unit_test(good_by_hand),
        cmocka_unit_test(bad_heads),        cmocka_unit_test(bad_calls),
        cmocka_unit_test(bad_frames),       cmocka_unit_test(bad_cuts_and_flips),
        cmocka_unit_test(good_planes),      cmocka_unit_test(good_threads),
    };
    return cmocka_run_group_tests_name("chunk_codec", tests, NULL, NULL);
}
