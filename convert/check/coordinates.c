#include "check/coordinates.h"

#include <inttypes.h>
#include <stdio.h>

void swi_coordinates(uint32_t axes, const int64_t *shape, uint64_t flat, int64_t *at)
{
    for (uint32_t k = axes; k > 0; k--) {
        at[k - 1] = (int64_t)(flat % (uint64_t)shape[k - 1]);
        flat /= (uint64_t)shape[k - 1];
    }
}

void swi_coordinates_text(const sw_tensor_info *info, uint64_t flat,
                          char text[SWI_COORDINATES_TEXT])
{
    const size_t size = SWI_COORDINATES_TEXT;
    int64_t at[SW_MAX_AXES];
    size_t used = 1;
    swi_coordinates(info->axes, info->shape, flat, at);
    text[0] = '[';
    for (uint32_t k = 0; k < info->axes && used < size; k++) {
        int n = snprintf(text + used, size - used, "%s%" PRId64, k ? ", " : "", at[k]);
        used += n > 0 ? (size_t)n : 0;
    }
    if (used < size)
        snprintf(text + used, size - used, "]");
}
