#include "base/large.h"

#include <stdint.h>
#include <sys/mman.h>

#define LARGE_PAGE ((uintptr_t)2 << 20)
#define LEAST ((size_t)4 << 20)

void swi_expect_filled(void *block, size_t size)
{
    if (block == NULL || size < LEAST)
        return;
    /* Whole pages of those that are wholly inside: the block's neighbours are not its business. */
    uintptr_t start = ((uintptr_t)block + LARGE_PAGE - 1) & ~(LARGE_PAGE - 1);
    uintptr_t end = ((uintptr_t)block + size) & ~(LARGE_PAGE - 1);
    if (start < end)
        (void)madvise((uint8_t *)block + (start - (uintptr_t)block), end - start, MADV_HUGEPAGE);
}
