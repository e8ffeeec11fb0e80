/* What bytes look like when they are not what they should be. */
#ifndef SW_BASE_SNIFF_H
#define SW_BASE_SNIFF_H

#include <stddef.h>

/*
 * A name for people of what the first bytes of a file show ("a Git LFS pointer (the data was not
 * downloaded)", "an HTML page", "an empty file", "a zip archive", "a pickle" ...), or NULL.
 */
const char *swi_sniff(const void *data, size_t size);

#endif
