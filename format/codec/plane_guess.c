#include "codec/plane_guess.h"

#include <stdbool.h>
#include <string.h>

#define LOG_ONE 256u      /* a bit */
#define STORE_FROM 1984u  /* bits of a byte (7.75) from which coding does not pay */
#define MILLER_MADOW 185u /* 1 / (2 ln 2): what samples have too few, by value */
#define WORD 8
#define SEEN_LOG 10

/* Base 2 logarithm of x > 0 in 1/256; off by less than 3. */
static uint32_t log2_of(uint32_t x)
{
    uint32_t whole = 31 - (uint32_t)__builtin_clz(x);
    uint32_t part = (uint32_t)(((uint64_t)x << 8 >> whole) & 0xFF);
    return whole * LOG_ONE + part + ((part * (256 - part) * 88) >> 16);
}

/* Bits (in 1/256) that a byte of the plane has by how often each value comes in the sample. */
static uint32_t bits_of(const uint8_t *sample, size_t count)
{
    uint16_t often[4][256] = {{0}};
    size_t i = 0;
    for (; i + 4 <= count; i += 4)
        for (size_t k = 0; k < 4; k++)
            often[k][sample[i + k]]++;
    for (; i < count; i++)
        often[0][sample[i]]++;
    uint32_t sum = 0, values = 0;
    for (size_t v = 0; v < 256; v++) {
        uint32_t n = (uint32_t)often[0][v] + often[1][v] + often[2][v] + often[3][v];
        if (n > 0) {
            sum += n * log2_of(n);
            values++;
        }
    }
    uint32_t unseen = (values - 1) * MILLER_MADOW / (uint32_t)count;
    return log2_of((uint32_t)count) - sum / (uint32_t)count + unseen;
}

/* Whether one in eight words of the sample has come before. */
static bool repeats(const uint8_t *sample, size_t count)
{
    uint16_t seen[1 << SEEN_LOG] = {0};
    size_t again = 0, words = 0;
    for (size_t i = 0; i + WORD <= count; i += 2, words++) {
        uint64_t word;
        memcpy(&word, sample + i, WORD);
        uint16_t *slot = &seen[word * 0x9E3779B97F4A7C15u >> (64 - SEEN_LOG)];
        again += i > 0 && memcmp(sample + *slot, sample + i, WORD) == 0;
        *slot = (uint16_t)i;
    }
    return again * 8 > words;
}

swi_plane_guess swi_plane_guess_of(const uint8_t *sample, size_t count)
{
    uint32_t bits = bits_of(sample, count);
    swi_plane_how how = bits < STORE_FROM ? SWI_PLANE_HUFFMAN : SWI_PLANE_STORE;
    if (repeats(sample, count))
        how = SWI_PLANE_SEARCH;
    return (swi_plane_guess){how, bits > LOG_ONE ? bits : LOG_ONE};
}
