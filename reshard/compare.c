#include "compare.h"

#include <string.h>

#include "base/text.h"
#include "cast.h"
#include "view.h"

/* The first element in which two dense runs differ, or `count`. */
static uint64_t first_difference(const uint8_t *a, const uint8_t *b, uint64_t count,
                                 uint32_t element_bytes)
{
    uint64_t i = 0;
    if (memcmp(a, b, count * element_bytes) == 0)
        return count;
    while (memcmp(a + i * element_bytes, b + i * element_bytes, element_bytes) == 0)
        i++;
    return i;
}

/*
 * Elements [lo, lo + count) of `view` as `dtype` into `out`; `room` holds them before the cast.
 * Dense, of the element size of `dtype`.
 */
static sw_status read_as(swi_view *view, uint64_t lo, uint64_t count, sw_dtype dtype, uint8_t *room,
                         uint8_t *out, sw_error *err)
{
    sw_tally ignored = {0};
    bool same = view->info.dtype == dtype;
    sw_status status = swi_view_read(view, lo, lo + count, same ? out : room, err);
    if (status == SW_OK && !same)
        swi_cast(room, view->info.dtype, out, dtype, count, &ignored);
    return status;
}

static sw_status compare_views(swi_view *a, swi_view *b, uint8_t *buffer, size_t buffer_bytes,
                               bool *equal, uint64_t *first, sw_error *err)
{
    sw_dtype dtype = b->info.dtype;
    uint32_t bytes_a = sw_dtype_bytes(a->info.dtype);
    uint32_t bytes = sw_dtype_bytes(dtype);
    swi_quoted quoted;
    if (a->info.elements != b->info.elements ||
        (a->info.dtype != dtype && !swi_cast_possible(a->info.dtype, dtype)))
        return swi_fail(err, SW_ERR_ARG, "tensor \"%s\": other type or size on the other side",
                        swi_quote_str(&quoted, a->info.name));
    uint64_t step = buffer_bytes / (bytes_a + 2 * bytes);
    uint8_t *other = buffer + step * bytes;
    uint8_t *room = other + step * bytes;
    for (uint64_t lo = 0; lo < a->info.elements; lo += step) {
        uint64_t count = a->info.elements - lo < step ? a->info.elements - lo : step;
        sw_status status = read_as(a, lo, count, dtype, room, buffer, err);
        if (status == SW_OK)
            status = swi_view_read(b, lo, lo + count, other, err);
        if (status != SW_OK)
            return status;
        uint64_t at = first_difference(buffer, other, count, bytes);
        if (at < count) {
            *equal = false;
            *first = lo + at;
            return SW_OK;
        }
    }
    *equal = true;
    return SW_OK;
}

sw_status swi_compare(const swi_source *a, uint32_t tensor_a, const swi_source *b,
                      uint32_t tensor_b, uint8_t *buffer, size_t buffer_bytes, bool *equal,
                      uint64_t *first, sw_error *err)
{
    swi_view view_a = {0}, view_b = {0};
    if (buffer_bytes < 64)
        return swi_fail(err, SW_ERR_ARG, "compare: a buffer of %zu bytes", buffer_bytes);
    sw_status status = swi_view_open(a, tensor_a, &view_a, err);
    if (status == SW_OK)
        status = swi_view_open(b, tensor_b, &view_b, err);
    if (status == SW_OK)
        status = compare_views(&view_a, &view_b, buffer, buffer_bytes, equal, first, err);
    swi_view_close(&view_a);
    swi_view_close(&view_b);
    return status;
}
