/* Foreign text made fit to print, UTF-8 checks, glob patterns. */
#ifndef SW_BASE_TEXT_H
#define SW_BASE_TEXT_H

#include "shardwright_format.h"

/* Of a hexadecimal digit, lower case alone; -1: it is none. */
int swi_hex_digit(char c);

bool swi_utf8_valid(const void *text, size_t size);
/* Bytes of the longest prefix that is valid: where the first wrong character begins. */
size_t swi_utf8_prefix(const void *text, size_t size);
/* As memcmp; of two of which one begins with the other, the shorter one comes first. */
int swi_bytes_order(const void *a, size_t a_size, const void *b, size_t b_size);
/* Takes away a last character that was cut in the middle. */
void swi_utf8_trim(char *text);

#define SWI_QUOTE_MAX 256
/* Room for one escaped name: declare it, pass it to swi_quote, print what comes back. */
typedef struct swi_quoted {
    char text[SWI_QUOTE_MAX];
} swi_quoted;
/*
 * The text with controls, quotes, backslashes, bidi marks and broken UTF-8 escaped (\n, \xNN,
 * \u....), cut in the middle with "..." when it does not fit. Returns room->text.
 */
const char *swi_quote(swi_quoted *room, const void *text, size_t size);
const char *swi_quote_str(swi_quoted *room, const char *text);
/* The same into any room of at least 16 bytes; returns the length. */
size_t swi_quote_into(char *out, size_t capacity, const void *text, size_t size);

/* '*' any run, '?' one character, [a-z]; whole-name match; no recursion, O(n x m). */
bool swi_glob_match(const char *pattern, const char *text);

#endif
