/* "Did you mean ...?": the one of some names that is most like a wrong one. */
#ifndef SW_BASE_NEAREST_H
#define SW_BASE_NEAREST_H

#include <stddef.h>

/* Offer names one after the other; `found` is then the best so far, NULL: none is much like it. */
typedef struct swi_nearest {
    const char *name; /* borrowed */
    size_t size;
    size_t best; /* edits; a name that needs as many is not taken */
    const char *found;
} swi_nearest;

swi_nearest swi_nearest_begin(const char *name, size_t size);
/* A name or candidate of more than 255 bytes is like none. `candidate` stays borrowed. */
void swi_nearest_offer(swi_nearest *nearest, const char *candidate);

#endif
