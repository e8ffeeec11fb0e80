#include "ranges.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void flush(swi_ranges *r)
{
    char one[64];
    if (!r->open)
        return;
    r->open = false;
    const char *comma = r->used ? ", " : "";
    int n = r->first == r->last
                ? snprintf(one, sizeof one, "%s%" PRIu64, comma, r->first)
                : snprintf(one, sizeof one, "%s%" PRIu64 "-%" PRIu64, comma, r->first, r->last);
    if (n <= 0 || r->used + (size_t)n + 6 > sizeof r->text) {
        if (r->used + 6 <= sizeof r->text) {
            memcpy(r->text + r->used, ", ...", 6);
            r->used = sizeof r->text; /* full */
        }
        return;
    }
    memcpy(r->text + r->used, one, (size_t)n + 1);
    r->used += (size_t)n;
}

void swi_ranges_add(swi_ranges *ranges, uint64_t number)
{
    ranges->count++;
    if (ranges->open && (number == ranges->last || number == ranges->last + 1)) {
        ranges->last = number;
        return;
    }
    flush(ranges);
    ranges->first = ranges->last = number;
    ranges->open = true;
}

static int by_number(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

void swi_ranges_add_all(swi_ranges *ranges, uint64_t *numbers, size_t count)
{
    if (count > 1)
        qsort(numbers, count, sizeof *numbers, by_number);
    for (size_t i = 0; i < count; i++)
        swi_ranges_add(ranges, numbers[i]);
}

const char *swi_ranges_text(swi_ranges *ranges)
{
    flush(ranges);
    return ranges->used ? ranges->text : "(none)";
}
