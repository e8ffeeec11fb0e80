/* Piece algebra (specs/catalog.md): boxes in views. */
#include "model/piece.h"

#include "base/checked.h"

#include <inttypes.h>
#include <stdio.h>

bool swi_piece_is_empty(const swi_piece *piece)
{
    for (uint32_t k = 0; k < piece->axes; k++)
        if (piece->length[k] == 0)
            return true;
    return false;
}

bool swi_shape_elements(uint32_t axes, const int64_t *shape, uint64_t *out)
{
    int64_t product = 1; /* without the zeros, so that no partial product can overflow either */
    bool zero = false;
    for (uint32_t k = 0; k < axes; k++) {
        if (shape[k] < 0)
            return false;
        if (shape[k] == 0)
            zero = true;
        else if (!swi_mul_i64(product, shape[k], &product))
            return false;
    }
    *out = zero ? 0 : (uint64_t)product;
    return true;
}

/* The longest number takes 20 characters: there is room for SW_MAX_AXES of them. */
void swi_shape_text(uint32_t axes, const int64_t *shape, char text[SWI_SHAPE_TEXT])
{
    size_t at = 0;
    text[at++] = '[';
    for (uint32_t k = 0; k < axes && k < SW_MAX_AXES; k++) {
        int n =
            snprintf(text + at, SWI_SHAPE_TEXT - at, "%s%" PRId64, k == 0 ? "" : ", ", shape[k]);
        at += n > 0 ? (size_t)n : 0;
    }
    (void)snprintf(text + at, SWI_SHAPE_TEXT - at, "]");
}

/* A stride that does not fit is pinned: swi_piece_check refuses it wherever it is used. */
void swi_piece_make_dense(swi_piece *piece, uint32_t element_bytes)
{
    int64_t stride = element_bytes;
    for (uint32_t k = piece->axes; k-- > 0;) {
        piece->stride_bytes[k] = stride;
        if (piece->length[k] > 1 && !swi_mul_i64(stride, piece->length[k], &stride))
            stride = INT64_MAX;
    }
}

bool swi_piece_is_dense(const swi_piece *piece, uint32_t element_bytes)
{
    if (swi_piece_is_empty(piece))
        return true;
    int64_t stride = element_bytes;
    for (uint32_t k = piece->axes; k-- > 0;) {
        if (piece->length[k] == 1)
            continue;
        if (piece->stride_bytes[k] != stride || !swi_mul_i64(stride, piece->length[k], &stride))
            return false;
    }
    return true;
}

static sw_status check_box(const swi_piece *p, uint64_t elements, sw_error *err)
{
    uint64_t count;
    if (p->axes > SW_MAX_AXES)
        return swi_fail(err, SW_ERR_CORRUPT, "%" PRIu32 " axes, at most %d are possible", p->axes,
                        SW_MAX_AXES);
    if (!swi_shape_elements(p->axes, p->view, &count))
        return swi_fail(err, SW_ERR_CORRUPT, "view with a negative or too large size");
    if (count != elements)
        return swi_fail(err, SW_ERR_CORRUPT, "view of %" PRIu64 " elements of a tensor of %" PRIu64,
                        count, elements);
    for (uint32_t k = 0; k < p->axes; k++) {
        if (p->offset[k] < 0 || p->length[k] < 0 || p->offset[k] > p->view[k] ||
            p->length[k] > p->view[k] - p->offset[k])
            return swi_fail(err, SW_ERR_CORRUPT,
                            "axis %" PRIu32 ": offset %" PRId64 " and length %" PRId64
                            " lie outside its size %" PRId64,
                            k, p->offset[k], p->length[k], p->view[k]);
    }
    return SW_OK;
}

sw_status swi_piece_check(const swi_piece *piece, uint64_t elements, uint32_t element_bytes,
                          uint64_t blob_bytes, sw_error *err)
{
    sw_status status = check_box(piece, elements, err);
    if (status != SW_OK)
        return status;
    if (swi_piece_is_empty(piece))
        return SW_OK;
    int64_t low = piece->base_bytes;
    int64_t high = piece->base_bytes;
    for (uint32_t k = 0; k < piece->axes; k++) {
        int64_t span;
        int64_t *side = piece->stride_bytes[k] < 0 ? &low : &high;
        if (piece->length[k] == 1)
            continue;
        if (!swi_mul_i64(piece->length[k] - 1, piece->stride_bytes[k], &span) ||
            !swi_add_i64(*side, span, side))
            return swi_fail(err, SW_ERR_CORRUPT,
                            "axis %" PRIu32 ": length %" PRId64 " and stride %" PRId64
                            " overflow the byte offset",
                            k, piece->length[k], piece->stride_bytes[k]);
    }
    if (!swi_add_i64(high, element_bytes, &high))
        return swi_fail(err, SW_ERR_CORRUPT, "byte offset overflows");
    if (low < 0 || (uint64_t)high > blob_bytes)
        return swi_fail(err, SW_ERR_CORRUPT,
                        "needs bytes %" PRId64 " to %" PRId64 " of %" PRIu64 " that are there", low,
                        high, blob_bytes);
    return SW_OK;
}

uint64_t swi_piece_elements(const swi_piece *piece)
{
    uint64_t count = 1;
    if (swi_piece_is_empty(piece))
        return 0;
    for (uint32_t k = 0; k < piece->axes; k++)
        count *= (uint64_t)piece->length[k];
    return count;
}

uint64_t swi_piece_first(const swi_piece *piece)
{
    uint64_t flat = 0;
    for (uint32_t k = 0; k < piece->axes; k++)
        flat = flat * (uint64_t)piece->view[k] + (uint64_t)piece->offset[k];
    return flat;
}

uint64_t swi_piece_end(const swi_piece *piece)
{
    uint64_t flat = 0;
    for (uint32_t k = 0; k < piece->axes; k++)
        flat =
            flat * (uint64_t)piece->view[k] + (uint64_t)(piece->offset[k] + piece->length[k] - 1);
    return flat + 1;
}

bool swi_piece_is_interval(const swi_piece *piece)
{
    uint64_t count = swi_piece_elements(piece);
    return count > 0 && swi_piece_end(piece) - swi_piece_first(piece) == count;
}

/* Narrows axis k of the box to [at, at + length), which lies inside it. */
static void narrow(swi_piece *p, uint32_t k, int64_t at, int64_t length)
{
    if (at != p->offset[k])
        p->base_bytes += (at - p->offset[k]) * p->stride_bytes[k];
    p->offset[k] = at;
    p->length[k] = length;
}

/* Narrows axis k to its part inside [lo, hi); false when that is nothing. */
static bool clip(swi_piece *p, uint32_t k, int64_t lo, int64_t hi)
{
    int64_t end = p->offset[k] + p->length[k];
    int64_t at = p->offset[k] > lo ? p->offset[k] : lo;
    if (end > hi)
        end = hi;
    if (at >= end)
        return false;
    narrow(p, k, at, end - at);
    return true;
}

/* ---- box ∩ flat interval --------------------------------------------------------------------- */

/*
 * One corner of the interval: the digits of a flat index, and how deep they matter: past axis
 * `depth` all elements of the box lie on the right side of it, whatever their digits there.
 */
typedef struct corner {
    int64_t digit[SW_MAX_AXES];
    uint32_t depth;
} corner;

static void digits_of(const swi_piece *p, uint64_t flat, int64_t *digit)
{
    for (uint32_t k = p->axes; k-- > 0;) {
        digit[k] = (int64_t)(flat % (uint64_t)p->view[k]);
        flat /= (uint64_t)p->view[k];
    }
}

/* The first element wanted. Digits past the depth are below the box's own, so they bind nothing. */
static void low_corner(const swi_piece *p, uint64_t lo, corner *c)
{
    digits_of(p, lo, c->digit);
    c->depth = p->axes - 1;
    for (uint32_t k = p->axes - 1; k > 0 && c->digit[k] <= p->offset[k]; k--)
        c->depth = k - 1;
}

/* The last element wanted. */
static void high_corner(const swi_piece *p, uint64_t last, corner *c)
{
    digits_of(p, last, c->digit);
    c->depth = p->axes - 1;
    for (uint32_t k = p->axes - 1; k > 0 && c->digit[k] >= p->offset[k] + p->length[k] - 1; k--)
        c->depth = k - 1;
}

/* Adds the part of p with the first k digits fixed and digit k in [lo, hi), when there is any. */
static size_t add_part(const swi_piece *p, const int64_t *fixed, uint32_t k, int64_t lo, int64_t hi,
                       swi_piece *out)
{
    swi_piece part = *p;
    for (uint32_t j = 0; j < k; j++)
        if (!clip(&part, j, fixed[j], fixed[j] + 1))
            return 0;
    if (!clip(&part, k, lo, hi))
        return 0;
    *out = part;
    return 1;
}

size_t swi_piece_in_interval(const swi_piece *piece, uint64_t lo, uint64_t hi,
                             swi_piece out[SWI_INTERVAL_MAX])
{
    if (swi_piece_is_empty(piece) || lo >= hi)
        return 0;
    uint64_t first = swi_piece_first(piece);
    uint64_t end = swi_piece_end(piece);
    if (hi <= first || lo >= end)
        return 0;
    if (lo <= first && hi >= end) {
        out[0] = *piece;
        return 1;
    }
    corner a;
    corner b;
    low_corner(piece, lo > first ? lo : first, &a);
    high_corner(piece, (hi < end ? hi : end) - 1, &b);
    uint32_t d = 0; /* the first axis on which the corners differ */
    while (d < a.depth && d < b.depth && a.digit[d] == b.digit[d])
        d++;
    size_t n = 0;
    for (uint32_t k = a.depth; k > d; k--)
        n += add_part(piece, a.digit, k, a.digit[k] + (k < a.depth ? 1 : 0), piece->view[k],
                      &out[n]);
    n += add_part(piece, a.digit, d, a.digit[d] + (d < a.depth ? 1 : 0),
                  b.digit[d] + (d < b.depth ? 0 : 1), &out[n]);
    for (uint32_t k = d + 1; k <= b.depth; k++)
        n += add_part(piece, b.digit, k, 0, b.digit[k] + (k < b.depth ? 0 : 1), &out[n]);
    return n;
}

/* ---- refine, permute, embed, crop ------------------------------------------------------------ */

/* Makes room for one more axis after `axis`: it becomes outer x inner. */
static void split_axis(const swi_piece *p, uint32_t axis, int64_t inner, swi_piece *out)
{
    *out = *p;
    for (uint32_t k = p->axes; k > axis + 1; k--) {
        out->view[k] = p->view[k - 1];
        out->offset[k] = p->offset[k - 1];
        out->length[k] = p->length[k - 1];
        out->stride_bytes[k] = p->stride_bytes[k - 1];
    }
    out->axes = p->axes + 1;
    out->view[axis] = p->view[axis] / inner;
    out->view[axis + 1] = inner;
    out->stride_bytes[axis + 1] = p->stride_bytes[axis];
    out->stride_bytes[axis] = 0;
}

/* The part of axis `axis` from `at` on that lies in whole blocks, or inside one block. */
static size_t add_block(const swi_piece *p, uint32_t axis, int64_t inner, int64_t at,
                        int64_t length, swi_piece *out)
{
    if (length <= 0)
        return 0;
    split_axis(p, axis, inner, out);
    if (at != p->offset[axis])
        out->base_bytes += (at - p->offset[axis]) * p->stride_bytes[axis];
    out->offset[axis] = at / inner;
    out->offset[axis + 1] = at % inner;
    if (length < inner) {
        out->length[axis] = 1;
        out->length[axis + 1] = length;
        return 1;
    }
    out->length[axis] = length / inner;
    out->length[axis + 1] = inner;
    if (out->length[axis] > 1)
        out->stride_bytes[axis] = p->stride_bytes[axis] * inner;
    return 1;
}

size_t swi_piece_refine(const swi_piece *piece, uint32_t axis, int64_t inner, swi_piece out[3])
{
    swi_piece p = *piece;
    if (axis >= p.axes || p.axes >= SW_MAX_AXES || inner < 1 || p.view[axis] % inner != 0)
        return 0;
    if (swi_piece_is_empty(&p)) {
        split_axis(&p, axis, inner, &out[0]);
        out[0].offset[axis] = p.offset[axis] / inner;
        out[0].offset[axis + 1] = p.offset[axis] % inner;
        out[0].length[axis] = 0;
        out[0].length[axis + 1] = 0;
        return 1;
    }
    int64_t at = p.offset[axis];
    int64_t left = p.length[axis];
    int64_t head = at % inner == 0 ? 0 : inner - at % inner;
    if (head > left)
        head = left;
    int64_t tail = (left - head) % inner;
    int64_t middle = left - head - tail;
    size_t n = add_block(&p, axis, inner, at, head, &out[0]);
    n += add_block(&p, axis, inner, at + head, middle, &out[n]);
    n += add_block(&p, axis, inner, at + head + middle, tail, &out[n]);
    return n;
}

void swi_piece_permute(const swi_piece *piece, const uint32_t *order, swi_piece *out)
{
    swi_piece p = *piece;
    for (uint32_t k = 0; k < p.axes; k++) {
        uint32_t from = order[k];
        p.view[k] = piece->view[from];
        p.offset[k] = piece->offset[from];
        p.length[k] = piece->length[from];
        p.stride_bytes[k] = piece->stride_bytes[from];
    }
    *out = p;
}

bool swi_piece_embed(const swi_piece *piece, uint32_t axis, int64_t size, int64_t at,
                     swi_piece *out)
{
    swi_piece p = *piece;
    uint64_t elements;
    if (axis >= p.axes || at < 0 || size < at || size - at < p.view[axis])
        return false;
    p.view[axis] = size;
    p.offset[axis] += at;
    if (!swi_shape_elements(p.axes, p.view, &elements))
        return false;
    *out = p;
    return true;
}

bool swi_piece_crop(const swi_piece *piece, uint32_t axis, int64_t lo, int64_t hi, swi_piece *out)
{
    swi_piece p = *piece;
    if (axis >= p.axes || lo < 0 || hi > p.view[axis] || swi_piece_is_empty(&p) ||
        !clip(&p, axis, lo, hi))
        return false;
    p.view[axis] = hi - lo;
    p.offset[axis] -= lo;
    *out = p;
    return true;
}

/* ---- simplify -------------------------------------------------------------------------------- */

/* Merges axis `from` into axis `to`, which comes just before it in the view, if that is exact. */
static bool merge_axes(swi_piece *p, uint32_t to, uint32_t from)
{
    int64_t view = p->view[from];
    bool full = p->offset[from] == 0 && p->length[from] == view;
    if (p->length[to] > 1) {
        int64_t step;
        if (!full)
            return false;
        if (view > 1 &&
            (!swi_mul_i64(p->stride_bytes[from], view, &step) || step != p->stride_bytes[to]))
            return false;
    }
    if (p->length[from] > 1)
        p->stride_bytes[to] = p->stride_bytes[from];
    p->offset[to] = p->offset[to] * view + p->offset[from];
    p->length[to] *= p->length[from];
    p->view[to] *= view;
    return true;
}

void swi_piece_simplify(swi_piece *piece, uint32_t element_bytes)
{
    if (swi_piece_is_empty(piece) || piece->axes == 0)
        return;
    uint32_t top = 0;
    for (uint32_t k = 1; k < piece->axes; k++) {
        if (merge_axes(piece, top, k))
            continue;
        top++;
        piece->view[top] = piece->view[k];
        piece->offset[top] = piece->offset[k];
        piece->length[top] = piece->length[k];
        piece->stride_bytes[top] = piece->stride_bytes[k];
    }
    piece->axes = piece->view[0] == 1 && top == 0 ? 0 : top + 1;
    for (uint32_t k = 0; k < piece->axes; k++)
        if (piece->length[k] == 1)
            piece->stride_bytes[k] = element_bytes;
}
