/* Any bytes as text to print, and as pattern and name; the first byte says where to part them. */
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool holds)
{
    if (!holds)
        __builtin_trap();
}

static void check_quote(const uint8_t *data, size_t size, size_t capacity)
{
    char room[400];
    must(capacity >= 16 && capacity <= sizeof room);
    size_t n = swi_quote_into(room, capacity, data, size);
    must(n < capacity && strlen(room) == n);
    must(swi_utf8_valid(room, n));
    for (size_t i = 0; i < n; i++)
        must((unsigned char)room[i] >= 0x20 && room[i] != 0x7f);
}

static void check_glob(const uint8_t *data, size_t size, size_t split)
{
    char *pattern = malloc(size + 2);
    must(pattern != NULL);
    memcpy(pattern, data, split);
    pattern[split] = '\0';
    char *text = pattern + split + 1;
    memcpy(text, data + split, size - split);
    text[size - split] = '\0';
    bool matches = swi_glob_match(pattern, text);
    if (strpbrk(pattern, "*?[") == NULL)
        must(matches == (strcmp(pattern, text) == 0));
    must(swi_glob_match("*", text) && swi_glob_match("**", pattern));
    free(pattern);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0 || size > 4096)
        return 0;
    size_t split = data[0] % size;
    data++;
    size--;
    check_quote(data, size, SWI_QUOTE_MAX);
    check_quote(data, size, 16 + split % 384);
    check_glob(data, size, split <= size ? split : size);
    return 0;
}
