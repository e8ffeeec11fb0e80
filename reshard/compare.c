#include "compare.h"

#include <string.h>

#include "base/text.h"
#include "cast.h"
#include "transform.h"
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

/* ---- what is expected ----------------------------------------------------------------------- */

/* What is to be found: elements of a, cast or scaled to the type of b. */
typedef struct expected {
    swi_view elements, factors; /* factors: open when scaled */
    bool scaled;
    sw_dtype dtype;
    uint64_t step;        /* elements that are compared at a time */
    uint8_t *out, *found; /* so many of b's type each: what is expected, what is there */
    uint8_t *room;        /* so many elements of a as they lie, behind them the factors */
} expected;

static bool can_be(const expected *e)
{
    sw_dtype from = e->elements.info.dtype;
    if (e->scaled)
        return e->factors.info.elements == e->elements.info.elements &&
               swi_scale_possible(from, e->factors.info.dtype, e->dtype);
    return from == e->dtype || swi_cast_possible(from, e->dtype);
}

/* Opened in part when it fails: to be closed in any case. */
static sw_status open_expected(const swi_compare_in *in, const sw_tensor_info *b, expected *e,
                               sw_error *err)
{
    swi_quoted quoted;
    *e = (expected){.scaled = in->scaled, .dtype = b->dtype};
    sw_status status = swi_view_open(in->a, in->tensor_a, &e->elements, err);
    if (status == SW_OK && in->scaled)
        status = swi_view_open(in->a, in->scale, &e->factors, err);
    if (status != SW_OK)
        return status;
    if (e->elements.info.elements != b->elements || !can_be(e))
        return swi_fail(err, SW_ERR_ARG, "tensor \"%s\": other type or size on the other side",
                        swi_quote_str(&quoted, e->elements.info.name));
    uint64_t bytes = sw_dtype_bytes(e->dtype), from = sw_dtype_bytes(e->elements.info.dtype);
    e->step = in->buffer_bytes / (from + sw_dtype_bytes(e->factors.info.dtype) + 2 * bytes);
    if (e->step == 0)
        return swi_fail(err, SW_ERR_ARG, "compare: a buffer of %zu bytes", in->buffer_bytes);
    e->out = in->buffer;
    e->found = e->out + e->step * bytes;
    e->room = e->found + e->step * bytes;
    return SW_OK;
}

static void close_expected(expected *e)
{
    swi_view_close(&e->elements);
    swi_view_close(&e->factors);
}

/* Elements [lo, lo + count) into e->out. */
static sw_status read_expected(expected *e, uint64_t lo, uint64_t count, sw_error *err)
{
    sw_tally ignored = {0};
    sw_dtype from = e->elements.info.dtype;
    bool as_is = !e->scaled && from == e->dtype;
    uint8_t *factors = e->room + count * sw_dtype_bytes(from);
    sw_status status = swi_view_read(&e->elements, lo, lo + count, as_is ? e->out : e->room, err);
    if (status == SW_OK && e->scaled)
        status = swi_view_read(&e->factors, lo, lo + count, factors, err);
    if (status != SW_OK || as_is)
        return status;
    const swi_scale_in in = {
        .elements = e->room, .from = from, .factors = factors, .factor = e->factors.info.dtype};
    if (e->scaled)
        swi_scale(&in, e->out, e->dtype, (size_t)count, &ignored);
    else
        swi_cast(e->room, from, e->out, e->dtype, (size_t)count, &ignored);
    return SW_OK;
}

/* ---- as one tensor -------------------------------------------------------------------------- */

static sw_status compare_views(expected *e, swi_view *b, bool *equal, uint64_t *first,
                               sw_error *err)
{
    uint64_t elements = b->info.elements;
    for (uint64_t lo = 0; lo < elements; lo += e->step) {
        uint64_t count = elements - lo < e->step ? elements - lo : e->step;
        sw_status status = read_expected(e, lo, count, err);
        if (status == SW_OK)
            status = swi_view_read(b, lo, lo + count, e->found, err);
        if (status != SW_OK)
            return status;
        uint64_t at = first_difference(e->out, e->found, count, sw_dtype_bytes(e->dtype));
        if (at < count) {
            *equal = false;
            *first = lo + at;
            return SW_OK;
        }
    }
    *equal = true;
    return SW_OK;
}

sw_status swi_compare(const swi_compare_in *in, bool *equal, uint64_t *first, sw_error *err)
{
    swi_view b = {0};
    expected e = {0};
    sw_status status = swi_view_open(in->b, in->tensor_b, &b, err);
    if (status == SW_OK)
        status = open_expected(in, &b.info, &e, err);
    if (status == SW_OK)
        status = compare_views(&e, &b, equal, first, err);
    close_expected(&e);
    swi_view_close(&b);
    return status;
}

/* ---- piece by piece ------------------------------------------------------------------------- */

/* The pieces of b in [lo, lo + count), each laid over what is expected there. */
static sw_status compare_window(expected *e, swi_view *b, uint64_t lo, uint64_t count, bool *equal,
                                uint64_t *first, uint32_t *blob, sw_error *err)
{
    uint32_t size = sw_dtype_bytes(e->dtype);
    sw_status status = read_expected(e, lo, count, err);
    for (int64_t i = -1; status == SW_OK;) {
        i = swi_cover_next(&b->cover, lo, lo + count, (uint64_t)(i + 1));
        if (i < 0)
            break;
        memcpy(e->found, e->out, (size_t)count * size);
        status = swi_view_lay(b, (uint64_t)i, lo, lo + count, e->found, err);
        uint64_t at = status == SW_OK ? first_difference(e->out, e->found, count, size) : count;
        if (at == count)
            continue;
        swi_piece piece;
        swi_tensor_piece(b->cover.catalog, b->cover.tensor, (uint64_t)i, &piece);
        *equal = false;
        *first = lo + at;
        *blob = piece.blob;
        return SW_OK;
    }
    return status;
}

sw_status swi_compare_pieces(const swi_compare_in *in, bool *equal, uint64_t *first, uint32_t *blob,
                             sw_error *err)
{
    swi_view b = {0};
    expected e = {0};
    bool same = true;
    sw_status status = swi_view_open_pieces(in->b, in->tensor_b, &b, err);
    if (status == SW_OK)
        status = open_expected(in, &b.info, &e, err);
    for (uint64_t lo = 0; status == SW_OK && same && lo < b.info.elements; lo += e.step) {
        uint64_t left = b.info.elements - lo;
        status = compare_window(&e, &b, lo, left < e.step ? left : e.step, &same, first, blob, err);
    }
    if (status == SW_OK)
        *equal = same;
    close_expected(&e);
    swi_view_close(&b);
    return status;
}
