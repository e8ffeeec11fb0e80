/*
 * The planes codec beside zstd -1 on the same bytes, by CPU time, in pairs of alternating order.
 *
 *   codec_bench [--mib N] [--chunk-kib N] [--pairs N]
 *
 * One line for each kind of data: what is left of the bytes, and by how much (median of the pairs,
 * least and most) the codec is faster, both ways. Asserts nothing but that bytes come back.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <zstd.h>

#include "codec/chunk_codec.h"

#define PARTS_MAX 4
#define PAIRS_MAX 99

/* ---- data -------------------------------------------------------------------------------- */

/* A tensor of the data: elements of one type. */
typedef struct part {
    uint32_t element_bytes;
    uint32_t share; /* of the data, in parts of all shares */
    void (*fill)(uint64_t *seed, uint8_t *data, size_t count);
} part;

static uint64_t next(uint64_t *seed)
{
    uint64_t z = (*seed += 0x9E3779B97F4A7C15u);
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}

static double normal(uint64_t *seed)
{
    double u = (double)((next(seed) >> 11) + 1) * 0x1p-53;
    double v = (double)(next(seed) >> 11) * 0x1p-53;
    return sqrt(-2 * log(u)) * cos(6.283185307179586 * v);
}

static void put_f32(uint8_t *data, double value)
{
    float f = (float)value;
    memcpy(data, &f, 4);
}

/* Weights of standard deviation 0.02, to the nearest bfloat16. */
static void fill_bf16(uint64_t *seed, uint8_t *data, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        uint32_t bits;
        put_f32((uint8_t *)&bits, normal(seed) * 0.02);
        bits += 0x7FFF + (bits >> 16 & 1);
        const uint8_t top[2] = {(uint8_t)(bits >> 16), (uint8_t)(bits >> 24)};
        memcpy(data + 2 * i, top, 2);
    }
}

static void fill_f32(uint64_t *seed, uint8_t *data, size_t count)
{
    for (size_t i = 0; i < count; i++)
        put_f32(data + 4 * i, normal(seed) * 0.02);
}

/* First moments: small and of both signs. */
static void fill_exp_avg(uint64_t *seed, uint8_t *data, size_t count)
{
    for (size_t i = 0; i < count; i++)
        put_f32(data + 4 * i, normal(seed) * 1e-4);
}

/* Second moments: squares, chi-square of one degree. */
static void fill_exp_avg_sq(uint64_t *seed, uint8_t *data, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        double x = normal(seed);
        put_f32(data + 4 * i, x * x * 1e-8);
    }
}

static void fill_random(uint64_t *seed, uint8_t *data, size_t count)
{
    for (size_t i = 0; i < count; i++)
        data[i] = (uint8_t)(next(seed) >> 32);
}

static void fill_zeros(uint64_t *seed, uint8_t *data, size_t count)
{
    (void)seed;
    memset(data, 0, 4 * count);
}

/* Token numbers of a vocabulary of 50000 as int64. */
static void fill_tokens(uint64_t *seed, uint8_t *data, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        uint64_t token = next(seed) % 50000;
        memcpy(data + 8 * i, &token, 8);
    }
}

typedef struct kind {
    const char *name;
    part parts[PARTS_MAX];
    double share_goal;               /* in percent of the raw bytes; 0: none */
    double encode_goal, decode_goal; /* times as fast as zstd -1; 0: none */
} kind;

static const kind kinds[] = {
    {"bf16", {{2, 1, fill_bf16}}, 66.9, 1.5, 2.1},
    {"fp32", {{4, 1, fill_f32}}, 83.5, 2.2, 3},
    {"adam",
     {{2, 2, fill_bf16}, {4, 4, fill_f32}, {4, 4, fill_exp_avg}, {4, 4, fill_exp_avg_sq}},
     84,
     0,
     0},
    {"random", {{1, 1, fill_random}}, 100.1, 0, 0},
    {"zeros", {{4, 1, fill_zeros}}, 0, 0, 0},
    {"tokens", {{8, 1, fill_tokens}}, 0, 0, 0},
};

/* ---- one run over all chunks ------------------------------------------------------------- */

typedef struct data {
    uint8_t *raw, *stored, *back;
    size_t bytes, chunks, chunk_bytes;
    uint32_t *elements; /* by chunk */
    size_t *sizes;      /* by chunk, stored */
    uint8_t *codecs;    /* by chunk */
    swi_chunk_coder *coder;
    ZSTD_CCtx *pack;
    ZSTD_DCtx *unpack;
} data;

static void fail(const char *what)
{
    fprintf(stderr, "codec_bench: %s\n", what);
    exit(1);
}

/* Seconds of this thread alone: others may be at work. */
static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static uint8_t *place(const data *d, size_t chunk)
{
    return d->stored + chunk * ZSTD_compressBound(d->chunk_bytes);
}

static void encode(data *d)
{
    const swi_chunk_choice choice = {SWI_CHUNK_PLANES, 1};
    for (size_t i = 0; i < d->chunks; i++) {
        swi_chunk_codec codec;
        if (swi_chunk_encode(d->coder, choice, d->elements[i], d->raw + i * d->chunk_bytes,
                             d->chunk_bytes, place(d, i), &d->sizes[i], &codec, NULL) != SW_OK)
            fail("encoding failed");
        d->codecs[i] = (uint8_t)codec;
    }
}

static void decode(data *d)
{
    for (size_t i = 0; i < d->chunks; i++)
        if (swi_chunk_decode(d->coder, d->codecs[i], place(d, i), d->sizes[i],
                             d->back + i * d->chunk_bytes, d->chunk_bytes, NULL) != SW_OK)
            fail("decoding failed");
}

static void zstd_encode(data *d)
{
    for (size_t i = 0; i < d->chunks; i++) {
        d->sizes[i] = ZSTD_compressCCtx(d->pack, place(d, i), ZSTD_compressBound(d->chunk_bytes),
                                        d->raw + i * d->chunk_bytes, d->chunk_bytes, 1);
        if (ZSTD_isError(d->sizes[i]))
            fail(ZSTD_getErrorName(d->sizes[i]));
    }
}

static void zstd_decode(data *d)
{
    for (size_t i = 0; i < d->chunks; i++)
        if (ZSTD_decompressDCtx(d->unpack, d->back + i * d->chunk_bytes, d->chunk_bytes,
                                place(d, i), d->sizes[i]) != d->chunk_bytes)
            fail("zstd did not give the bytes back");
}

typedef struct run {
    double encode_s, decode_s;
    size_t stored;
} run;

static run run_once(data *d, void (*to)(data *), void (*from)(data *))
{
    run r = {0};
    double start = now();
    to(d);
    r.encode_s = now() - start;
    memset(d->back, 0xEE, d->bytes);
    start = now();
    from(d);
    r.decode_s = now() - start;
    if (memcmp(d->raw, d->back, d->bytes) != 0)
        fail("other bytes came back");
    for (size_t i = 0; i < d->chunks; i++)
        r.stored += d->sizes[i];
    return r;
}

/* ---- pairs ------------------------------------------------------------------------------- */

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void say_speed(const char *what, double *times, double *seconds, size_t pairs, double bytes,
                      double goal)
{
    qsort(times, pairs, sizeof *times, by_value);
    qsort(seconds, pairs, sizeof *seconds, by_value);
    printf("  %s %.2f x [%.2f .. %.2f]", what, times[pairs / 2], times[0], times[pairs - 1]);
    if (goal > 0)
        printf(" goal %.2f%s", goal, times[pairs / 2] < goal ? " MISSED" : "");
    printf(", zstd -1 %.0f MB/s (spread %.0f %%)", bytes / seconds[pairs / 2] / 1e6,
           100 * (seconds[pairs - 1] - seconds[0]) / seconds[pairs / 2]);
}

static void bench(const kind *k, data *d, size_t pairs)
{
    double encode_times[PAIRS_MAX], decode_times[PAIRS_MAX];
    double encode_s[PAIRS_MAX], decode_s[PAIRS_MAX];
    run ours = {0}, yard = {0};
    (void)run_once(d, encode, decode);
    (void)run_once(d, zstd_encode, zstd_decode);
    for (size_t i = 0; i < pairs; i++) {
        if (i % 2 == 0)
            ours = run_once(d, encode, decode);
        yard = run_once(d, zstd_encode, zstd_decode);
        if (i % 2 != 0)
            ours = run_once(d, encode, decode);
        encode_times[i] = yard.encode_s / ours.encode_s;
        decode_times[i] = yard.decode_s / ours.decode_s;
        encode_s[i] = yard.encode_s;
        decode_s[i] = yard.decode_s;
    }
    double share = 100 * (double)ours.stored / (double)d->bytes;
    printf("%-8s %.2f %%", k->name, share);
    if (k->share_goal > 0)
        printf(" goal %.1f%s", k->share_goal, share > k->share_goal ? " MISSED" : "");
    printf(" (zstd -1 %.2f %%)", 100 * (double)yard.stored / (double)d->bytes);
    say_speed("encode", encode_times, encode_s, pairs, (double)d->bytes, k->encode_goal);
    say_speed("decode", decode_times, decode_s, pairs, (double)d->bytes, k->decode_goal);
    printf("\n");
}

/* Whole chunks of each part, in order. */
static void fill(const kind *k, data *d)
{
    uint64_t seed = 7;
    size_t shares = 0, at = 0;
    for (size_t i = 0; i < PARTS_MAX; i++)
        shares += k->parts[i].share;
    size_t unit = d->chunks / shares;
    d->bytes = unit * shares * d->chunk_bytes;
    for (size_t i = 0; i < PARTS_MAX && k->parts[i].share > 0; i++) {
        const part *p = &k->parts[i];
        size_t chunks = unit * p->share;
        p->fill(&seed, d->raw + at * d->chunk_bytes, chunks * d->chunk_bytes / p->element_bytes);
        for (size_t end = at + chunks; at < end; at++)
            d->elements[at] = p->element_bytes;
    }
    d->chunks = at;
}

static void *room(size_t count, size_t size)
{
    void *p = calloc(count, size);
    if (p == NULL)
        fail("no memory");
    return p;
}

static void run_kind(const kind *k, size_t bytes, size_t chunk_bytes, size_t pairs)
{
    data d = {.chunks = bytes / chunk_bytes, .chunk_bytes = chunk_bytes};
    d.raw = room(bytes, 1);
    d.back = room(bytes, 1);
    d.stored = room(d.chunks, ZSTD_compressBound(chunk_bytes));
    d.elements = room(d.chunks, sizeof *d.elements);
    d.sizes = room(d.chunks, sizeof *d.sizes);
    d.codecs = room(d.chunks, 1);
    d.pack = ZSTD_createCCtx();
    d.unpack = ZSTD_createDCtx();
    if (swi_chunk_coder_make(&d.coder, NULL) != SW_OK || d.pack == NULL || d.unpack == NULL)
        fail("no memory");
    fill(k, &d);
    bench(k, &d, pairs);
    (void)fflush(stdout);
    swi_chunk_coder_free(d.coder);
    ZSTD_freeCCtx(d.pack);
    ZSTD_freeDCtx(d.unpack);
    free(d.raw);
    free(d.back);
    free(d.stored);
    free(d.elements);
    free(d.sizes);
    free(d.codecs);
}

/* The number behind an option, or what it is without. */
static size_t option(int argc, char **argv, const char *name, size_t otherwise, size_t most)
{
    for (int i = 1; i + 1 < argc; i++)
        if (strcmp(argv[i], name) == 0) {
            unsigned long value = strtoul(argv[i + 1], NULL, 10);
            if (value == 0 || value > most)
                fail("a number is out of range");
            return value;
        }
    return otherwise;
}

int main(int argc, char **argv)
{
    size_t chunk_bytes = option(argc, argv, "--chunk-kib", 512, SWI_CHUNK_RAW_MAX >> 10) << 10;
    size_t bytes = option(argc, argv, "--mib", 28, 1 << 12) << 20;
    size_t pairs = option(argc, argv, "--pairs", 9, PAIRS_MAX);
    if (bytes / chunk_bytes < 14)
        fail("--mib must be at least 14 chunks");
    printf("libzstd %s, chunks of %zu KiB, %zu MiB of each, %zu pairs\n", ZSTD_versionString(),
           chunk_bytes >> 10, bytes >> 20, pairs);
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
        run_kind(&kinds[i], bytes, chunk_bytes, pairs);
    return 0;
}
