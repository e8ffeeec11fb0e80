/* Putting pieces together that operations have split: fewer pieces, the same elements and bytes. */
#include <stdlib.h>
#include <string.h>

#include "shaped_parts.h"

/* A piece is tried against so many before it, in the order of blob and first element. */
#define LOOK_BACK 4
/* Merged pieces can merge again; no more than a few rounds bring anything. */
#define ROUNDS_MAX 4

static int by_place(const void *left, const void *right)
{
    const swi_piece *a = left, *b = right;
    uint64_t first_a = swi_piece_first(a), first_b = swi_piece_first(b);
    if (a->blob != b->blob)
        return a->blob < b->blob ? -1 : 1;
    if (first_a != first_b)
        return first_a < first_b ? -1 : 1;
    if (a->base_bytes != b->base_bytes)
        return a->base_bytes < b->base_bytes ? -1 : 1;
    uint64_t end_a = swi_piece_end(a), end_b = swi_piece_end(b);
    return (end_a > end_b) - (end_a < end_b);
}

/* Refines p by every step of the other's view; false when that splits it, or is not possible. */
static bool refine_like(swi_piece *p, const swi_piece *other)
{
    int64_t step = 1;
    for (uint32_t k = other->axes; k-- > 1;) {
        swi_piece parts[3];
        int64_t own = 1;
        uint32_t n = p->axes;
        step *= other->view[k];
        while (n > 0 && own * p->view[n - 1] <= step)
            own *= p->view[--n];
        if (own == step)
            continue;
        if (n == 0 || step % own != 0 || swi_piece_refine(p, n - 1, step / own, parts) != 1)
            return false;
        *p = parts[0];
    }
    return true;
}

/* The only axis on which two boxes of one view differ; false when they differ on more or none. */
static bool find_axis(const swi_piece *a, const swi_piece *b, uint32_t *axis)
{
    uint32_t differ = 0;
    for (uint32_t k = 0; k < a->axes; k++) {
        if (a->offset[k] == b->offset[k] && a->length[k] == b->length[k]) {
            if (a->length[k] > 1 && a->stride_bytes[k] != b->stride_bytes[k])
                return false;
            continue;
        }
        *axis = k;
        differ++;
    }
    return differ == 1;
}

/* Appends b to a where a ends on that axis and the bytes go on in the same steps. */
static bool append(swi_piece *a, const swi_piece *b, uint32_t k)
{
    int64_t distance = b->base_bytes - a->base_bytes;
    if (b->offset[k] != a->offset[k] + a->length[k] || distance % a->length[k] != 0)
        return false;
    int64_t stride = distance / a->length[k];
    if ((a->length[k] > 1 && a->stride_bytes[k] != stride) ||
        (b->length[k] > 1 && b->stride_bytes[k] != stride))
        return false;
    a->stride_bytes[k] = stride;
    a->length[k] += b->length[k];
    return true;
}

static bool merge_two(swi_piece *into, const swi_piece *piece, uint32_t element_bytes)
{
    swi_piece a = *into, b = *piece;
    uint32_t axis = 0;
    if (a.blob != b.blob || !refine_like(&b, &a) || !refine_like(&a, &b) || a.axes != b.axes ||
        memcmp(a.view, b.view, a.axes * sizeof a.view[0]) != 0 || !find_axis(&a, &b, &axis))
        return false;
    if (!append(&a, &b, axis)) {
        if (!append(&b, &a, axis))
            return false;
        a = b;
    }
    swi_piece_simplify(&a, element_bytes);
    *into = a;
    return true;
}

static size_t merge_round(swi_piece *items, size_t count, uint32_t element_bytes)
{
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        size_t back = kept < LOOK_BACK ? kept : LOOK_BACK;
        bool merged = false;
        for (size_t n = 1; n <= back && !merged; n++)
            merged = merge_two(&items[kept - n], &items[i], element_bytes);
        if (!merged && kept != i)
            items[kept] = items[i];
        kept += merged ? 0 : 1;
    }
    return kept;
}

void swi_pieces_merge(swi_pieces *list, uint32_t element_bytes)
{
    size_t before = 0;
    for (int round = 0; round < ROUNDS_MAX && list->count > 1 && list->count != before; round++) {
        before = list->count;
        qsort(list->items, list->count, sizeof *list->items, by_place);
        list->count = merge_round(list->items, list->count, element_bytes);
    }
}
