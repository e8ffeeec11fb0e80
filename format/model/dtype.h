/* Element types: the table behind the public functions. */
#ifndef SW_MODEL_DTYPE_H
#define SW_MODEL_DTYPE_H

#include "shardwright_format.h"

/* Swaps the byte order of `bytes` bytes of elements in place (a whole number of elements). */
void swi_swap_elements(void *data, size_t bytes, sw_dtype dtype);

#endif
