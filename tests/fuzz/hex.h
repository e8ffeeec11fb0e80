/* Seeds as text: an input that begins with "hex" holds its bytes in hexadecimal. */
#ifndef TESTS_FUZZ_HEX_H
#define TESTS_FUZZ_HEX_H

#include <ctype.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* The bytes, or NULL: the input is no such text. Free them. */
static inline uint8_t *bytes_of_hex(const uint8_t *data, size_t size, size_t *count)
{
    if (size <= 3 || memcmp(data, "hex", 3) != 0)
        return NULL;
    uint8_t *bytes = calloc(1, size);
    *count = 0;
    for (size_t i = 3; bytes != NULL && i + 1 < size; i++) {
        if (isxdigit(data[i]) && isxdigit(data[i + 1])) {
            const char digits[3] = {(char)data[i], (char)data[i + 1], 0};
            bytes[(*count)++] = (uint8_t)strtoul(digits, NULL, 16);
            i++;
        }
    }
    return bytes;
}

#endif
