#include "check/pairing.h"

#include <stdlib.h>
#include <string.h>

#include "base/nearest.h"

/* Hints are for people: long lists do without. */
#define NEAR_NAMES_MAX 256U

static int by_name(const void *a, const void *b)
{
    return strcmp(((const swi_named *)a)->name, ((const swi_named *)b)->name);
}

static size_t next_free(const swi_named *list, size_t count, size_t from)
{
    while (from < count && list[from].other >= 0)
        from++;
    return from;
}

static size_t count_free(const swi_named *list, size_t count)
{
    size_t n = 0;
    for (size_t i = 0; i < count; i++)
        n += list[i].other < 0;
    return n;
}

static void pair_equal(swi_named *a, size_t count_a, swi_named *b, size_t count_b)
{
    for (size_t i = 0, j = 0; i < count_a && j < count_b;) {
        int order = strcmp(a[i].name, b[j].name);
        if (order == 0) {
            a[i].other = (int64_t)j;
            b[j].other = (int64_t)i;
        }
        i += order <= 0;
        j += order >= 0;
    }
}

static bool is_prefixed(const char *longer, const char *prefix, size_t size, const char *shorter)
{
    return strncmp(longer, prefix, size) == 0 && strcmp(longer + size, shorter) == 0;
}

/* One prefix before all of b keeps their order: so the free ones go in step, or it is not so. */
static bool find_prefix(const swi_named *a, size_t count_a, const swi_named *b, size_t count_b,
                        swi_prefix *out)
{
    size_t i = next_free(a, count_a, 0), j = next_free(b, count_b, 0), names = 0;
    if (i == count_a || j == count_b)
        return false;
    size_t size_a = strlen(a[i].name), size_b = strlen(b[j].name);
    if (size_b <= size_a || b[j].name[size_b - size_a - 1] != '.')
        return false;
    const char *prefix = b[j].name;
    size_t size = size_b - size_a;
    while (i < count_a && j < count_b) {
        if (!is_prefixed(b[j].name, prefix, size, a[i].name))
            return false;
        names++;
        i = next_free(a, count_a, i + 1);
        j = next_free(b, count_b, j + 1);
    }
    if (i < count_a || j < count_b)
        return false;
    *out = (swi_prefix){.text = prefix, .size = size, .names = names};
    return true;
}

static bool pair_prefixed(swi_named *a, size_t count_a, swi_named *b, size_t count_b,
                          swi_prefix *out)
{
    if (count_free(a, count_a) != count_free(b, count_b))
        return false;
    if (!find_prefix(a, count_a, b, count_b, out)) {
        if (!find_prefix(b, count_b, a, count_a, out))
            return false;
    } else {
        out->on_b = true;
    }
    for (size_t i = next_free(a, count_a, 0), j = next_free(b, count_b, 0); i < count_a;) {
        a[i].other = (int64_t)j;
        b[j].other = (int64_t)i;
        i = next_free(a, count_a, i);
        j = next_free(b, count_b, j);
    }
    return true;
}

void swi_pair_names(swi_named *a, size_t count_a, swi_named *b, size_t count_b, swi_prefix *out)
{
    *out = (swi_prefix){0};
    if (count_a > 1)
        qsort(a, count_a, sizeof *a, by_name);
    if (count_b > 1)
        qsort(b, count_b, sizeof *b, by_name);
    for (size_t i = 0; i < count_a; i++)
        a[i].other = -1;
    for (size_t i = 0; i < count_b; i++)
        b[i].other = -1;
    if (pair_prefixed(a, count_a, b, count_b, out))
        return;
    pair_equal(a, count_a, b, count_b);
    (void)pair_prefixed(a, count_a, b, count_b, out);
}

/* ---- hints -------------------------------------------------------------------------------- */

const char *swi_nearest_name(const char *name, const swi_named *list, size_t count)
{
    if (count_free(list, count) > NEAR_NAMES_MAX)
        return NULL;
    swi_nearest nearest = swi_nearest_begin(name, strlen(name));
    for (size_t i = next_free(list, count, 0); i < count; i = next_free(list, count, i + 1))
        swi_nearest_offer(&nearest, list[i].name);
    return nearest.found;
}
