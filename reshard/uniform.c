#include "uniform.h"

#include <string.h>

#include "view.h"

sw_status swi_uniform(const swi_source *source, uint32_t tensor, uint64_t pattern, void *buffer,
                      size_t buffer_bytes, bool *holds, uint64_t *first, sw_error *err)
{
    swi_view view;
    uint8_t element[16];
    memcpy(element, &pattern, 8);
    memcpy(element + 8, &pattern, 8);
    sw_status st = swi_view_open(source, tensor, &view, err);
    if (st != SW_OK)
        return st;
    const size_t size = sw_dtype_bytes(view.info.dtype);
    const uint64_t step = buffer_bytes / size;
    bool all = true;
    for (uint64_t lo = 0; st == SW_OK && all && lo < view.info.elements; lo += step) {
        const uint64_t left = view.info.elements - lo, n = left < step ? left : step;
        st = swi_view_read(&view, lo, lo + n, buffer, err);
        for (uint64_t i = 0; st == SW_OK && all && i < n; i++) {
            all = memcmp((const uint8_t *)buffer + i * size, element, size) == 0;
            if (!all)
                *first = lo + i;
        }
    }
    swi_view_close(&view);
    if (st == SW_OK)
        *holds = all;
    return st;
}
