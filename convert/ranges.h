/* Sets of ranks as people read them: "0-3, 7, 9-12". Equal numbers count once in the text. */
#ifndef SW_CONVERT_RANGES_H
#define SW_CONVERT_RANGES_H

#include "shardwright_format.h"

typedef struct swi_ranges {
    uint64_t count;
    uint64_t first, last; /* of the range that grows */
    bool open;
    size_t used;
    char text[256];
} swi_ranges;

void swi_ranges_add(swi_ranges *ranges, uint64_t number);
/* Sorts the numbers and adds each. */
void swi_ranges_add_all(swi_ranges *ranges, uint64_t *numbers, size_t count);
/* The text so far; "..." at the end when there is no room for more; "(none)". */
const char *swi_ranges_text(swi_ranges *ranges);

#endif
