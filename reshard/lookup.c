#include "lookup.h"

#include <stdlib.h>

#include "base/arena.h"

#define FAN 16
#define LEVELS 16 /* 16^16 pieces */

struct swi_lookup {
    uint64_t count;
    uint64_t *first; /* ascending */
    /* level 0: the ends; an entry of level k + 1 is the largest of FAN entries of level k */
    uint64_t *end[LEVELS];
    uint32_t levels;
};

/* first, ends and their maxima are one block. */
static sw_status allocate(swi_lookup *lookup, sw_error *err)
{
    uint64_t whole = lookup->count, n = lookup->count;
    for (;; n = (n + FAN - 1) / FAN) {
        whole += n;
        lookup->levels++;
        if (n <= 1)
            break;
    }
    void *p;
    sw_status status = swi_alloc_array(whole, sizeof(uint64_t), &p, err);
    if (status != SW_OK)
        return status;
    lookup->first = p;
    lookup->end[0] = lookup->first + lookup->count;
    n = lookup->count;
    for (uint32_t k = 1; k < lookup->levels; k++) {
        lookup->end[k] = lookup->end[k - 1] + n;
        n = (n + FAN - 1) / FAN;
    }
    return SW_OK;
}

static void fill(swi_lookup *lookup, const sw_catalog *catalog, uint32_t tensor)
{
    swi_piece piece;
    for (uint64_t i = 0; i < lookup->count; i++) {
        swi_tensor_piece(catalog, tensor, i, &piece);
        lookup->first[i] = swi_piece_first(&piece);
        lookup->end[0][i] = swi_piece_end(&piece);
    }
    uint64_t n = lookup->count;
    for (uint32_t k = 1; k < lookup->levels; k++) {
        for (uint64_t i = 0; i < n; i++)
            if (lookup->end[k - 1][i] > lookup->end[k][i / FAN])
                lookup->end[k][i / FAN] = lookup->end[k - 1][i];
        n = (n + FAN - 1) / FAN;
    }
}

sw_status swi_lookup_make(const sw_catalog *catalog, uint32_t tensor, swi_lookup **out,
                          sw_error *err)
{
    sw_tensor_info info;
    if (!sw_catalog_tensor(catalog, tensor, &info))
        return swi_fail(err, SW_ERR_ARG, "lookup: no tensor %u", tensor);
    void *p;
    sw_status status = swi_alloc_array(1, sizeof(swi_lookup), &p, err);
    if (status != SW_OK)
        return status;
    swi_lookup *lookup = p;
    lookup->count = info.piece_count;
    status = allocate(lookup, err);
    if (status != SW_OK) {
        free(lookup);
        return status;
    }
    fill(lookup, catalog, tensor);
    *out = lookup;
    return SW_OK;
}

void swi_lookup_free(swi_lookup *lookup)
{
    if (lookup == NULL)
        return;
    free(lookup->first);
    free(lookup);
}

uint64_t swi_lookup_memory(const swi_lookup *lookup)
{
    return lookup == NULL ? 0 : sizeof *lookup + lookup->count * 17;
}

int64_t swi_lookup_next(const swi_lookup *lookup, uint64_t lo, uint64_t hi, uint64_t from)
{
    uint64_t i = from;
    while (i < lookup->count && lookup->first[i] < hi) {
        if (lookup->end[0][i] > lo)
            return (int64_t)i;
        /* The largest aligned block from here on that ends before lo is passed over at once. */
        uint64_t step = 1, next = FAN;
        for (uint32_t k = 1; k < lookup->levels && i % next == 0; k++, next *= FAN) {
            if (lookup->end[k][i / next] > lo)
                break;
            step = next;
        }
        i += step;
    }
    return -1;
}
