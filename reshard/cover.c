#include "cover.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/text.h"

/* Trying so few pieces costs no more than asking the lookup. */
#define TRY_ALL 4

/* ---- leaving out copies --------------------------------------------------------------------- */

typedef enum relation { DISJOINT, INSIDE, MIXED } relation;

static relation relate_ranges(uint64_t a_lo, uint64_t a_hi, uint64_t b_lo, uint64_t b_hi)
{
    if (a_hi <= b_lo || b_hi <= a_lo)
        return DISJOINT;
    return a_lo >= b_lo && a_hi <= b_hi ? INSIDE : MIXED;
}

/* A box in a view given by the sizes of its axes' elements: strides[0] > strides[1] > ... >= 1. */
typedef struct grid {
    uint32_t axes;
    uint64_t stride[2 * SW_MAX_AXES];
} grid;

/* Adds the flat strides of the piece's axes that are longer than 1. */
static void add_strides(const swi_piece *piece, grid *g)
{
    uint64_t stride = 1;
    for (uint32_t k = piece->axes; k > 0; k--) {
        uint32_t at = 0;
        while (at < g->axes && g->stride[at] > stride)
            at++;
        if (piece->view[k - 1] != 1 && (at == g->axes || g->stride[at] != stride)) {
            memmove(&g->stride[at + 1], &g->stride[at], (g->axes - at) * sizeof g->stride[0]);
            g->stride[at] = stride;
            g->axes++;
        }
        stride *= (uint64_t)piece->view[k - 1];
    }
}

/*
 * The piece's range on each axis of the finer grid. False when it is no box there, or when the grid
 * does not divide its axes.
 */
static bool place_on_grid(const swi_piece *piece, const grid *g, uint64_t low[2 * SW_MAX_AXES],
                          uint64_t high[2 * SW_MAX_AXES])
{
    uint64_t stride = 1;
    uint32_t n = g->axes;
    for (uint32_t k = piece->axes; k > 0; k--) {
        uint64_t next = stride * (uint64_t)piece->view[k - 1];
        uint64_t lo = (uint64_t)piece->offset[k - 1], hi = lo + (uint64_t)piece->length[k - 1];
        /* The grid's axes inside this one, from the inside out. */
        for (; n > 0 && g->stride[n - 1] < next; n--) {
            uint64_t outer = n > 1 && g->stride[n - 2] < next ? g->stride[n - 2] : next;
            uint64_t size = outer / g->stride[n - 1];
            if (outer % g->stride[n - 1] != 0)
                return false;
            if (lo / size == (hi - 1) / size) {
                low[n - 1] = lo % size;
                high[n - 1] = (hi - 1) % size + 1;
            } else if (lo % size == 0 && hi % size == 0) {
                low[n - 1] = 0;
                high[n - 1] = size;
            } else {
                return false;
            }
            hi = (hi - 1) / size + 1;
            lo /= size;
        }
        stride = next;
    }
    return n == 0;
}

/* Whether the elements of a lie outside b, all in b, or neither can be said. */
static relation relate(const swi_piece *a, const swi_piece *b)
{
    grid g = {0};
    uint64_t a_lo[2 * SW_MAX_AXES], a_hi[2 * SW_MAX_AXES];
    uint64_t b_lo[2 * SW_MAX_AXES], b_hi[2 * SW_MAX_AXES];
    relation all =
        relate_ranges(swi_piece_first(a), swi_piece_end(a), swi_piece_first(b), swi_piece_end(b));
    if (all == DISJOINT || swi_piece_is_interval(b))
        return all;
    add_strides(a, &g);
    add_strides(b, &g);
    if (!place_on_grid(a, &g, a_lo, a_hi) || !place_on_grid(b, &g, b_lo, b_hi))
        return MIXED;
    all = INSIDE;
    for (uint32_t k = 0; k < g.axes; k++) {
        relation one = relate_ranges(a_lo[k], a_hi[k], b_lo[k], b_hi[k]);
        if (one == DISJOINT)
            return DISJOINT;
        if (one == MIXED)
            all = MIXED;
    }
    return all;
}

typedef struct sized {
    uint64_t index;
    uint64_t elements;
} sized;

static int by_size(const void *left, const void *right)
{
    const sized *a = left, *b = right;
    if (a->elements != b->elements)
        return a->elements < b->elements ? 1 : -1;
    return (a->index > b->index) - (a->index < b->index);
}

static bool has_bit(const uint8_t *bits, uint64_t i)
{
    return bits[i / 8] >> (i % 8) & 1;
}

/* `kept` has the bits of the larger pieces that stay. */
static relation relate_to_kept(const swi_cover *cover, const uint8_t *kept, const swi_piece *piece)
{
    uint64_t lo = swi_piece_first(piece), hi = swi_piece_end(piece);
    relation all = DISJOINT;
    for (int64_t i = -1; (i = swi_cover_next(cover, lo, hi, (uint64_t)(i + 1))) >= 0;) {
        if (!has_bit(kept, (uint64_t)i))
            continue;
        swi_piece other;
        swi_tensor_piece(cover->catalog, cover->tensor, (uint64_t)i, &other);
        relation r = relate(piece, &other);
        if (r == INSIDE)
            return r;
        if (r == MIXED)
            all = r;
    }
    return all;
}

static sw_status keep_largest(swi_cover *cover, const sized *order, uint8_t *kept, sw_error *err)
{
    for (uint64_t n = 0; n < cover->piece_count; n++) {
        uint64_t i = order[n].index;
        swi_piece piece;
        swi_tensor_piece(cover->catalog, cover->tensor, i, &piece);
        relation r = relate_to_kept(cover, kept, &piece);
        if (r != INSIDE)
            kept[i / 8] = (uint8_t)(kept[i / 8] | 1U << (i % 8));
        cover->again = cover->again || r == MIXED;
    }
    if (cover->again && swi_tensor_defect(cover->catalog, cover->tensor) != SW_OK)
        return swi_fail(err, SW_ERR_UNSUPPORTED,
                        "copies of its elements overlap only in part, and others are missing");
    return SW_OK;
}

/* The largest pieces stay; what lies inside of one that stays is dropped. */
static sw_status drop_copies(swi_cover *cover, sw_error *err)
{
    uint64_t count = cover->piece_count;
    void *p = NULL, *bits = NULL;
    sized *order = NULL;
    sw_status status = swi_alloc_array(count, sizeof(sized), &p, err);
    if (status != SW_OK)
        return status;
    order = p;
    status = swi_alloc_array(count / 8 + 1, 1, &bits, err);
    if (status != SW_OK)
        goto done;
    for (uint64_t i = 0; i < count; i++) {
        swi_piece piece;
        swi_tensor_piece(cover->catalog, cover->tensor, i, &piece);
        order[i] = (sized){.index = i, .elements = swi_piece_elements(&piece)};
    }
    qsort(order, count, sizeof *order, by_size);
    status = keep_largest(cover, order, bits, err);
    if (status != SW_OK)
        goto done;
    uint8_t *dropped = bits;
    for (uint64_t i = 0; i < count / 8 + 1; i++)
        dropped[i] = (uint8_t)~dropped[i];
    cover->dropped = dropped;
    bits = NULL;
done:
    free(bits);
    free(order);
    return status;
}

/* ---- making --------------------------------------------------------------------------------- */

/* Follows aliases to the tensor that has the pieces. */
static bool find_owner(const sw_catalog *catalog, uint32_t *tensor, sw_tensor_info *info)
{
    size_t steps = sw_catalog_tensor_count(catalog);
    if (!sw_catalog_tensor(catalog, *tensor, info))
        return false;
    for (; info->piece_count == 0 && info->alias_of >= 0 && steps > 0; steps--) {
        *tensor = (uint32_t)info->alias_of;
        if (!sw_catalog_tensor(catalog, *tensor, info))
            return false;
    }
    return steps > 0;
}

sw_status swi_cover_make(const sw_catalog *catalog, uint32_t tensor, bool once, swi_cover *out,
                         sw_error *err)
{
    sw_tensor_info info;
    swi_cover cover = {.catalog = catalog, .tensor = tensor};
    if (!find_owner(catalog, &cover.tensor, &info))
        return swi_fail(err, SW_ERR_ARG, "tensor %u does not exist or is its own alias", tensor);
    cover.element_bytes = sw_dtype_bytes(info.dtype);
    cover.piece_count = info.piece_count;
    sw_status status = SW_OK;
    if (cover.piece_count > TRY_ALL)
        status = swi_lookup_make(catalog, cover.tensor, &cover.lookup, err);
    if (status == SW_OK && once && swi_tensor_has_replicas(catalog, cover.tensor))
        status = drop_copies(&cover, err);
    if (status != SW_OK) {
        swi_cover_end(&cover);
        swi_quoted room;
        (void)swi_error_prefix(err, "tensor \"%s\"", swi_quote_str(&room, info.name));
        return status;
    }
    *out = cover;
    return SW_OK;
}

void swi_cover_end(swi_cover *cover)
{
    swi_lookup_free(cover->lookup);
    free(cover->dropped);
    *cover = (swi_cover){0};
}

uint64_t swi_cover_memory(const swi_cover *cover)
{
    return swi_lookup_memory(cover->lookup) +
           (cover->dropped != NULL ? cover->piece_count / 8 + 1 : 0);
}

/* ---- asking --------------------------------------------------------------------------------- */

int64_t swi_cover_next(const swi_cover *cover, uint64_t lo, uint64_t hi, uint64_t from)
{
    uint64_t i = from;
    for (; i < cover->piece_count; i++) {
        if (cover->lookup != NULL) {
            int64_t next = swi_lookup_next(cover->lookup, lo, hi, i);
            if (next < 0)
                return -1;
            i = (uint64_t)next;
        }
        if (cover->dropped == NULL || !has_bit(cover->dropped, i))
            return (int64_t)i;
    }
    return -1;
}

/* Joins axis k into axis k - 1 where both sides step on as if they were one. */
static void merge_axes(swi_move *move)
{
    uint32_t n = 0;
    for (uint32_t k = 0; k < move->axes; k++) {
        if (n > 0 && move->blob_stride[n - 1] == move->blob_stride[k] * move->length[k] &&
            move->window_stride[n - 1] == move->window_stride[k] * move->length[k]) {
            move->length[n - 1] *= move->length[k];
            move->blob_stride[n - 1] = move->blob_stride[k];
            move->window_stride[n - 1] = move->window_stride[k];
            continue;
        }
        move->length[n] = move->length[k];
        move->blob_stride[n] = move->blob_stride[k];
        move->window_stride[n] = move->window_stride[k];
        n++;
    }
    move->axes = n;
}

/* The box is of piece `index`. */
static void make_move(const swi_cover *cover, uint64_t index, const swi_piece *box, uint64_t lo,
                      swi_move *out)
{
    uint32_t element_bytes = cover->element_bytes;
    *out = (swi_move){
        .blob = box->blob,
        .piece = index,
        .blob_base = box->base_bytes,
        .window_base = (int64_t)((swi_piece_first(box) - lo) * element_bytes),
    };
    int64_t flat_stride[SW_MAX_AXES];
    int64_t stride = element_bytes;
    for (uint32_t k = box->axes; k > 0; k--) {
        flat_stride[k - 1] = stride;
        stride *= box->view[k - 1];
    }
    for (uint32_t k = 0; k < box->axes; k++) {
        if (box->length[k] == 1)
            continue;
        out->length[out->axes] = box->length[k];
        out->blob_stride[out->axes] = box->stride_bytes[k];
        out->window_stride[out->axes] = flat_stride[k];
        out->axes++;
    }
    merge_axes(out);
}

sw_status swi_cover_piece_moves(const swi_cover *cover, uint64_t i, uint64_t lo, uint64_t hi,
                                swi_moves *moves, uint64_t *held, sw_error *err)
{
    swi_piece piece, boxes[SWI_INTERVAL_MAX];
    swi_tensor_piece(cover->catalog, cover->tensor, i, &piece);
    size_t count = swi_piece_in_interval(&piece, lo, hi, boxes);
    sw_status status = swi_grow_array((void **)&moves->items, &moves->capacity,
                                      moves->count + count, sizeof(swi_move), err);
    if (status != SW_OK)
        return status;
    for (size_t b = 0; b < count; b++) {
        *held += swi_piece_elements(&boxes[b]);
        make_move(cover, i, &boxes[b], lo, &moves->items[moves->count++]);
    }
    return SW_OK;
}

sw_status swi_cover_moves(const swi_cover *cover, uint64_t lo, uint64_t hi, swi_moves *moves,
                          uint64_t *held, sw_error *err)
{
    uint64_t elements = 0;
    moves->count = 0;
    moves->ordered = cover->again;
    for (int64_t i = -1; (i = swi_cover_next(cover, lo, hi, (uint64_t)(i + 1))) >= 0;) {
        sw_status status = swi_cover_piece_moves(cover, (uint64_t)i, lo, hi, moves, &elements, err);
        if (status != SW_OK)
            return status;
    }
    /* What is moved twice is there, for all is. */
    if (held != NULL)
        *held = cover->again ? hi - lo : elements;
    return SW_OK;
}

bool swi_cover_is_copy(const swi_cover *cover, uint64_t piece)
{
    return cover->again || (cover->dropped != NULL && has_bit(cover->dropped, piece));
}
