#include "cast.h"

#include <string.h>

#include "cast_bits.h"

static bool is_castable(sw_dtype dtype)
{
    return dtype == SW_F16 || dtype == SW_BF16 || dtype == SW_F32 || dtype == SW_F64;
}

bool swi_cast_possible(sw_dtype from, sw_dtype to)
{
    return from == to ? sw_dtype_bytes(from) > 0 : is_castable(from) && is_castable(to);
}

/* ---- any to any, by way of float64 bits ------------------------------------------------------ */

static uint64_t load_f64(const uint8_t *in, sw_dtype from)
{
    uint16_t half;
    uint32_t word;
    uint64_t whole;
    switch (from) {
    case SW_F16:
        memcpy(&half, in, sizeof half);
        return swi_bits_widen(half, swi_f16_bits);
    case SW_BF16:
        memcpy(&half, in, sizeof half);
        return swi_bits_widen(half, swi_bf16_bits);
    case SW_F32:
        memcpy(&word, in, sizeof word);
        return swi_bits_widen(word, swi_f32_bits);
    default:
        memcpy(&whole, in, sizeof whole);
        return whole;
    }
}

static void store_f64(uint64_t bits, uint8_t *out, sw_dtype to, swi_cast_counts *count)
{
    uint16_t half;
    uint32_t word;
    switch (to) {
    case SW_F16:
    case SW_BF16:
        half = (uint16_t)swi_bits_narrow(bits, to == SW_F16 ? swi_f16_bits : swi_bf16_bits, count);
        memcpy(out, &half, sizeof half);
        break;
    case SW_F32:
        word = (uint32_t)swi_bits_narrow(bits, swi_f32_bits, count);
        memcpy(out, &word, sizeof word);
        break;
    default:
        memcpy(out, &bits, sizeof bits);
        break;
    }
}

static void cast_any(const uint8_t *in, sw_dtype from, uint8_t *out, sw_dtype to, size_t elements,
                     swi_cast_counts *count)
{
    size_t in_bytes = sw_dtype_bytes(from), out_bytes = sw_dtype_bytes(to);
    for (size_t i = 0; i < elements; i++)
        store_f64(load_f64(in + i * in_bytes, from), out + i * out_bytes, to, count);
}

/* ---- the pairs that matter, in blocks that compilers make vectors of ---------------------------
 */

#define BLOCK 16
#define F32_MAGNITUDE UINT32_C(0x7fffffff)
#define F32_INFINITE UINT32_C(0x7f800000)

static void f32_to_bf16_block(const uint32_t in[restrict BLOCK], uint16_t out[restrict BLOCK],
                              swi_cast_counts *count)
{
    uint32_t overflows = 0, underflows = 0;
    for (size_t i = 0; i < BLOCK; i++) {
        uint32_t x = in[i], magnitude = x & F32_MAGNITUDE;
        uint32_t rounded = (x + 0x7fff + (x >> 16 & 1)) >> 16;
        uint32_t r = magnitude > F32_INFINITE ? (x >> 16 | 0x40) : rounded;
        overflows += (magnitude < F32_INFINITE) & ((r & 0x7fff) == 0x7f80);
        underflows += (magnitude != 0) & ((r & 0x7fff) == 0);
        out[i] = (uint16_t)r;
    }
    count->overflows += overflows;
    count->underflows += underflows;
}

static void bf16_to_f32_block(const uint16_t in[restrict BLOCK], uint32_t out[restrict BLOCK])
{
    for (size_t i = 0; i < BLOCK; i++) {
        uint32_t x = (uint32_t)in[i] << 16;
        out[i] = (x & F32_MAGNITUDE) > F32_INFINITE ? x | UINT32_C(0x400000) : x;
    }
}

/* Whole blocks; returns how many elements they were. */
static size_t f32_to_bf16(const uint8_t *in, uint8_t *out, size_t elements, swi_cast_counts *count)
{
    size_t done = 0;
    for (; elements - done >= BLOCK; done += BLOCK) {
        uint32_t from[BLOCK];
        uint16_t to[BLOCK];
        memcpy(from, in + done * sizeof from[0], sizeof from);
        f32_to_bf16_block(from, to, count);
        memcpy(out + done * sizeof to[0], to, sizeof to);
    }
    return done;
}

static size_t bf16_to_f32(const uint8_t *in, uint8_t *out, size_t elements)
{
    size_t done = 0;
    for (; elements - done >= BLOCK; done += BLOCK) {
        uint16_t from[BLOCK];
        uint32_t to[BLOCK];
        memcpy(from, in + done * sizeof from[0], sizeof from);
        bf16_to_f32_block(from, to);
        memcpy(out + done * sizeof to[0], to, sizeof to);
    }
    return done;
}

void swi_cast(const void *in, sw_dtype from, void *out, sw_dtype to, size_t count, sw_tally *tally)
{
    if (from == to) {
        memcpy(out, in, count * sw_dtype_bytes(from));
        return;
    }
    const uint8_t *src = in;
    uint8_t *dst = out;
    swi_cast_counts seen = {0, 0};
    size_t done = 0;
    if (from == SW_F32 && to == SW_BF16)
        done = f32_to_bf16(src, dst, count, &seen);
    else if (from == SW_BF16 && to == SW_F32)
        done = bf16_to_f32(src, dst, count);
    cast_any(src + done * sw_dtype_bytes(from), from, dst + done * sw_dtype_bytes(to), to,
             count - done, &seen);
    tally->cast_elements += count;
    tally->cast_overflows += seen.overflows;
    tally->cast_underflows += seen.underflows;
}
