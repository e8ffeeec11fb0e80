/* Arithmetic on numbers that came from a file. Each returns false on overflow, *out untouched. */
#ifndef SW_BASE_CHECKED_H
#define SW_BASE_CHECKED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

static inline bool swi_add_u64(uint64_t a, uint64_t b, uint64_t *out)
{
    uint64_t r;
    if (__builtin_add_overflow(a, b, &r))
        return false;
    *out = r;
    return true;
}

static inline bool swi_sub_u64(uint64_t a, uint64_t b, uint64_t *out)
{
    if (b > a)
        return false;
    *out = a - b;
    return true;
}

static inline bool swi_mul_u64(uint64_t a, uint64_t b, uint64_t *out)
{
    uint64_t r;
    if (__builtin_mul_overflow(a, b, &r))
        return false;
    *out = r;
    return true;
}

static inline bool swi_add_i64(int64_t a, int64_t b, int64_t *out)
{
    int64_t r;
    if (__builtin_add_overflow(a, b, &r))
        return false;
    *out = r;
    return true;
}

static inline bool swi_mul_i64(int64_t a, int64_t b, int64_t *out)
{
    int64_t r;
    if (__builtin_mul_overflow(a, b, &r))
        return false;
    *out = r;
    return true;
}

static inline bool swi_add_size(size_t a, size_t b, size_t *out)
{
    size_t r;
    if (__builtin_add_overflow(a, b, &r))
        return false;
    *out = r;
    return true;
}

static inline bool swi_mul_size(size_t a, size_t b, size_t *out)
{
    size_t r;
    if (__builtin_mul_overflow(a, b, &r))
        return false;
    *out = r;
    return true;
}

static inline bool swi_u64_to_size(uint64_t a, size_t *out)
{
    if (a > SIZE_MAX)
        return false;
    *out = (size_t)a;
    return true;
}

static inline bool swi_u64_to_i64(uint64_t a, int64_t *out)
{
    if (a > (uint64_t)INT64_MAX)
        return false;
    *out = (int64_t)a;
    return true;
}

/* [offset, offset + length) lies inside [0, whole). */
static inline bool swi_range_inside(uint64_t offset, uint64_t length, uint64_t whole)
{
    return offset <= whole && length <= whole - offset;
}

#endif
