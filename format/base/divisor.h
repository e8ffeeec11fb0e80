/* The greatest common divisor. */
#ifndef SW_BASE_DIVISOR_H
#define SW_BASE_DIVISOR_H

#include <stdint.h>

/* Of 0 and b it is b. */
static inline uint64_t swi_common_divisor(uint64_t a, uint64_t b)
{
    while (b != 0) {
        uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

#endif
