/* Which names of two checkpoints belong together. */
#ifndef SW_CONVERT_PAIRING_H
#define SW_CONVERT_PAIRING_H

#include "shardwright_convert.h"

typedef struct swi_named {
    const char *name;
    uint32_t index; /* the caller's */
    int64_t other;  /* place in the other list, or -1 */
} swi_named;

/* What one side has before every name that was paired by it; size 0: none was needed. */
typedef struct swi_prefix {
    const char *text; /* not terminated */
    size_t size;
    bool on_b;
    size_t names;
} swi_prefix;

/*
 * Sorts both lists by bytes of names and pairs them: by equal names, and where one prefix that ends
 * with a dot makes all names, or all that are left, the same, by that.
 */
void swi_pair_names(swi_named *a, size_t count_a, swi_named *b, size_t count_b, swi_prefix *out);

/* The name without a pair that is most like this one, or NULL: none is much like it. */
const char *swi_nearest_name(const char *name, const swi_named *list, size_t count);

#endif
