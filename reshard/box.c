#include "box.h"

#include <string.h>

static void swap_axes(swi_box *box, uint32_t a, uint32_t b)
{
    int64_t length = box->length[a], far = box->far_stride[a], near = box->near_stride[a];
    box->length[a] = box->length[b];
    box->far_stride[a] = box->far_stride[b];
    box->near_stride[a] = box->near_stride[b];
    box->length[b] = length;
    box->far_stride[b] = far;
    box->near_stride[b] = near;
}

/* Far strides that run backwards are walked from their other end. */
static void drop_and_flip(swi_box *box)
{
    uint32_t n = 0;
    for (uint32_t k = 0; k < box->axes; k++) {
        if (box->length[k] == 1)
            continue;
        int64_t far = box->far_stride[k], near = box->near_stride[k];
        if (far < 0) {
            box->far_base += far * (box->length[k] - 1);
            box->near_base += near * (box->length[k] - 1);
            far = -far;
            near = -near;
        }
        box->length[n] = box->length[k];
        box->far_stride[n] = far;
        box->near_stride[n] = near;
        n++;
    }
    box->axes = n;
}

void swi_box_normalise(swi_box *box)
{
    drop_and_flip(box);
    for (uint32_t i = 1; i < box->axes; i++)
        for (uint32_t k = i; k > 0 && box->far_stride[k - 1] < box->far_stride[k]; k--)
            swap_axes(box, k - 1, k);
    uint32_t n = 0;
    for (uint32_t k = 0; k < box->axes; k++) {
        int64_t length = box->length[k];
        if (n > 0 && box->far_stride[n - 1] == box->far_stride[k] * length &&
            box->near_stride[n - 1] == box->near_stride[k] * length)
            length *= box->length[--n];
        box->length[n] = length;
        box->far_stride[n] = box->far_stride[k];
        box->near_stride[n] = box->near_stride[k];
        n++;
    }
    box->axes = n;
}

bool swi_box_has_runs(const swi_box *box)
{
    if (box->axes == 0)
        return true;
    uint32_t inner = box->axes - 1;
    return box->far_stride[inner] == (int64_t)box->element_bytes &&
           box->near_stride[inner] == (int64_t)box->element_bytes;
}

uint64_t swi_box_run_bytes(const swi_box *box)
{
    if (box->axes == 0 || !swi_box_has_runs(box))
        return box->element_bytes;
    return (uint64_t)box->length[box->axes - 1] * box->element_bytes;
}

/* ---- spans ---------------------------------------------------------------------------------- */

/* Far bytes from the first element to the end of the last one of the axes from `from` on. */
static int64_t reach(const swi_box *box, uint32_t from)
{
    int64_t bytes = box->element_bytes;
    for (uint32_t k = from; k < box->axes; k++)
        bytes += box->far_stride[k] * (box->length[k] - 1);
    return bytes;
}

void swi_spans_begin(swi_spans *walk, const swi_box *box, size_t max_bytes, size_t gap_bytes,
                     bool runs)
{
    *walk = (swi_spans){.box = *box, .split = box->axes, .chunk = 1, .max_bytes = max_bytes};
    int64_t span = box->element_bytes, most = (int64_t)max_bytes, gap = (int64_t)gap_bytes;
    for (; walk->split > 0 && !(runs && walk->split < box->axes); walk->split--) {
        uint32_t k = walk->split - 1;
        int64_t stride = box->far_stride[k];
        if (stride > span && stride - span > gap)
            return;
        int64_t whole = span + stride * (box->length[k] - 1);
        if (whole > most) {
            walk->chunk = most > span ? (most - span) / stride + 1 : 1;
            return;
        }
        span = whole;
    }
}

static bool is_gapless(const swi_box *part, size_t bytes)
{
    uint64_t own = part->element_bytes;
    for (uint32_t k = 0; k < part->axes; k++)
        if (part->far_stride[k] != 0)
            own *= (uint64_t)part->length[k];
    return own == bytes;
}

/* Steps the axes outside of a span on, the innermost of them by a chunk. */
static void step(swi_spans *walk)
{
    uint32_t k = walk->split;
    int64_t by = walk->chunk;
    for (; k > 0; k--, by = 1) {
        walk->index[k - 1] += by;
        if (walk->index[k - 1] < walk->box.length[k - 1])
            return;
        walk->index[k - 1] = 0;
    }
    walk->done = true;
}

bool swi_spans_next(swi_spans *walk, swi_span *out)
{
    if (walk->done)
        return false;
    const swi_box *box = &walk->box;
    swi_box *part = &out->part;
    *part = (swi_box){.element_bytes = box->element_bytes, .near_base = box->near_base};
    out->far = box->far_base;
    for (uint32_t k = 0; k < walk->split; k++) {
        out->far += walk->index[k] * box->far_stride[k];
        part->near_base += walk->index[k] * box->near_stride[k];
    }
    uint32_t first = walk->split;
    if (walk->chunk > 1)
        first--;
    for (uint32_t k = first; k < box->axes; k++) {
        uint32_t n = part->axes++;
        part->length[n] = box->length[k];
        part->far_stride[n] = box->far_stride[k];
        part->near_stride[n] = box->near_stride[k];
    }
    if (walk->chunk > 1) {
        int64_t left = box->length[first] - walk->index[first];
        part->length[0] = left < walk->chunk ? left : walk->chunk;
    }
    out->bytes = (size_t)reach(part, 0);
    out->gapless = is_gapless(part, out->bytes);
    step(walk);
    return true;
}

/* ---- copies --------------------------------------------------------------------------------- */

#define COPY_ROW(type)                                                                             \
    for (int64_t i = 0; i < count; i++) {                                                          \
        type v;                                                                                    \
        memcpy(&v, from + i * from_stride, sizeof v);                                              \
        memcpy(to + i * to_stride, &v, sizeof v);                                                  \
    }

static void copy_row(uint8_t *to, int64_t to_stride, const uint8_t *from, int64_t from_stride,
                     int64_t count, uint32_t element_bytes)
{
    if (to_stride == (int64_t)element_bytes && from_stride == (int64_t)element_bytes) {
        memcpy(to, from, (size_t)count * element_bytes);
        return;
    }
    switch (element_bytes) {
    case 1:
        COPY_ROW(uint8_t)
        break;
    case 2:
        COPY_ROW(uint16_t)
        break;
    case 4:
        COPY_ROW(uint32_t)
        break;
    case 8:
        COPY_ROW(uint64_t)
        break;
    default:
        for (int64_t i = 0; i < count; i++)
            memcpy(to + i * to_stride, from + i * from_stride, element_bytes);
        break;
    }
}

static void copy_box(const swi_box *box, uint8_t *to, const int64_t *to_stride, const uint8_t *from,
                     const int64_t *from_stride)
{
    int64_t index[SW_MAX_AXES] = {0};
    if (box->axes == 0) {
        memcpy(to, from, box->element_bytes);
        return;
    }
    uint32_t inner = box->axes - 1;
    for (;;) {
        copy_row(to, to_stride[inner], from, from_stride[inner], box->length[inner],
                 box->element_bytes);
        uint32_t k = inner;
        for (; k > 0; k--) {
            to += to_stride[k - 1];
            from += from_stride[k - 1];
            if (++index[k - 1] < box->length[k - 1])
                break;
            to -= to_stride[k - 1] * box->length[k - 1];
            from -= from_stride[k - 1] * box->length[k - 1];
            index[k - 1] = 0;
        }
        if (k == 0)
            return;
    }
}

void swi_box_copy_near(const swi_box *box, uint8_t *near, const uint8_t *far)
{
    copy_box(box, near + box->near_base, box->near_stride, far + box->far_base, box->far_stride);
}

void swi_box_copy_far(const swi_box *box, uint8_t *far, const uint8_t *near)
{
    copy_box(box, far + box->far_base, box->far_stride, near + box->near_base, box->near_stride);
}
