/* Large blocks of memory that will be filled. */
#ifndef SW_BASE_LARGE_H
#define SW_BASE_LARGE_H

#include <stddef.h>

/*
 * Asks for large pages behind a block of some megabytes, so that filling it takes some faults
 * instead of thousands. A hint: nothing is lost where the system has none. Not for memory of which
 * parts may stay untouched.
 */
void swi_expect_filled(void *block, size_t size);

#endif
