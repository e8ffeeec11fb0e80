#include "base/nearest.h"

#include <string.h>

/* Hints are for people: long names do without. */
#define SIZE_MOST 255U

swi_nearest swi_nearest_begin(const char *name, size_t size)
{
    return (swi_nearest){.name = name, .size = size, .best = size / 3 + 1};
}

/* Insertions, deletions and replacements that make one of the other. */
static size_t edit_distance(const char *a, size_t size_a, const char *b, size_t size_b)
{
    size_t row[SIZE_MOST + 1];
    for (size_t j = 0; j <= size_b; j++)
        row[j] = j;
    for (size_t i = 1; i <= size_a; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= size_b; j++) {
            size_t replaced = diagonal + (a[i - 1] != b[j - 1]);
            size_t added = (row[j] < row[j - 1] ? row[j] : row[j - 1]) + 1;
            diagonal = row[j];
            row[j] = replaced < added ? replaced : added;
        }
    }
    return row[size_b];
}

void swi_nearest_offer(swi_nearest *nearest, const char *candidate)
{
    size_t size = strlen(candidate);
    if (nearest->size > SIZE_MOST || size > SIZE_MOST)
        return;
    size_t distance = edit_distance(nearest->name, nearest->size, candidate, size);
    if (distance < nearest->best) {
        nearest->best = distance;
        nearest->found = candidate;
    }
}
