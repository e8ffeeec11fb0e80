#include "native/grid.h"

#include "base/checked.h"

#define CHUNK_MAX ((uint64_t)4 << 20)  /* NAT-11 */
#define CHUNK_GOOD ((uint64_t)1 << 20) /* what this writer makes at most */
#define CHUNK_LEAST ((uint64_t)128 << 10)
#define CHUNK_LESS ((uint64_t)192 << 10) /* for slices that are rare no smaller than this */
#define SPAN_GOOD ((uint64_t)2 << 20)
#define ROW_CUTS 64
#define COLUMN_CUTS_FIRST 4
#define COLUMN_CUTS 8
#define COLUMN_LEAST 64 /* a shorter axis (of a convolution, say) is not cut for slices */

/* ---- the writer's rule --------------------------------------------------------------------- */

/* What does not fit is as large as can be. */
static uint64_t times(uint64_t a, uint64_t b)
{
    uint64_t product;
    return swi_mul_u64(a, b, &product) ? product : UINT64_MAX;
}

static uint64_t chunk_bytes(const swi_native_piece *piece, uint32_t element_bytes)
{
    uint64_t bytes = element_bytes;
    for (uint32_t k = 0; k < piece->axes; k++)
        bytes = times(bytes, (uint64_t)piece->chunk[k]);
    return bytes;
}

/* From the first byte of a chunk to its last one in the whole tensor. */
static uint64_t chunk_span(const swi_native_piece *piece, const int64_t *shape,
                           uint32_t element_bytes)
{
    uint64_t span = element_bytes, stride = element_bytes;
    for (uint32_t k = piece->axes; k-- > 0;) {
        uint64_t reach = times(stride, (uint64_t)piece->chunk[k] - 1);
        if (!swi_add_u64(span, reach, &span))
            return UINT64_MAX;
        if (shape != NULL)
            stride = times(stride, (uint64_t)shape[k]);
    }
    return span;
}

/* Half of it, rounded up: after j halvings of n that is n / 2^j rounded up. */
static void halve(int64_t *chunk)
{
    *chunk = *chunk / 2 + *chunk % 2;
}

static void halve_outermost(swi_native_piece *piece)
{
    uint32_t k = 0;
    while (k + 1 < piece->axes && piece->chunk[k] == 1)
        k++;
    halve(&piece->chunk[k]);
}

/* Cuts axis k until a chunk is 1/cuts of the tensor or as small as is good. */
static void cut_for_slices(swi_native_piece *piece, uint32_t k, int64_t whole, int64_t cuts,
                           uint64_t least, uint32_t element_bytes)
{
    while (piece->chunk[k] > 1 && piece->chunk[k] > whole / cuts &&
           chunk_bytes(piece, element_bytes) / 2 >= least)
        halve(&piece->chunk[k]);
}

static void cut_columns(swi_native_piece *piece, const int64_t *shape, int64_t cuts, uint64_t least,
                        uint32_t element_bytes)
{
    for (uint32_t k = piece->axes; k-- > 1;)
        if (shape[k] >= COLUMN_LEAST)
            cut_for_slices(piece, k, shape[k], cuts, least, element_bytes);
}

/* Four columns, then all the rows, then what is left of the columns: as far as the tensor is large
 * enough. */
void swi_native_chunk_lengths(swi_native_piece *piece, const int64_t *shape, uint32_t element_bytes)
{
    for (uint32_t k = 0; k < piece->axes; k++)
        piece->chunk[k] = piece->length[k];
    bool is_large = chunk_bytes(piece, element_bytes) > CHUNK_GOOD;
    while (chunk_span(piece, shape, element_bytes) > SPAN_GOOD)
        halve_outermost(piece);
    if (is_large && shape != NULL && piece->axes > 1) {
        cut_columns(piece, shape, COLUMN_CUTS_FIRST, CHUNK_LEAST, element_bytes);
        cut_for_slices(piece, 0, shape[0], ROW_CUTS, CHUNK_LEAST, element_bytes);
        cut_columns(piece, shape, COLUMN_CUTS, CHUNK_LESS, element_bytes);
    }
    while (chunk_bytes(piece, element_bytes) > CHUNK_GOOD)
        halve_outermost(piece);
}

/* ---- the grid of any writer ---------------------------------------------------------------- */

static uint64_t cells_of(const swi_native_piece *piece, uint32_t k)
{
    if (piece->chunk[k] == piece->length[k])
        return 1; /* a division takes longer */
    return ((uint64_t)piece->length[k] - 1) / (uint64_t)piece->chunk[k] + 1;
}

static bool axis_is_sound(const swi_native_piece *piece, uint32_t k)
{
    int64_t end;
    return piece->offset[k] >= 0 && piece->length[k] > 0 && piece->chunk[k] > 0 &&
           piece->chunk[k] <= piece->length[k] &&
           swi_add_i64(piece->offset[k], piece->length[k], &end);
}

bool swi_native_grid_count(const swi_native_piece *piece, uint32_t element_bytes, uint64_t *out)
{
    uint64_t count = 1, chunk = element_bytes, whole = element_bytes;
    if (element_bytes == 0 || piece->axes > SW_MAX_AXES || (piece->flat && piece->axes != 1))
        return false;
    for (uint32_t k = 0; k < piece->axes; k++) {
        if (!axis_is_sound(piece, k) || !swi_mul_u64(count, cells_of(piece, k), &count) ||
            !swi_mul_u64(chunk, (uint64_t)piece->chunk[k], &chunk) ||
            !swi_mul_u64(whole, (uint64_t)piece->length[k], &whole))
            return false;
    }
    if (chunk > CHUNK_MAX || whole > INT64_MAX)
        return false;
    *out = count;
    return true;
}

void swi_native_grid_box(const swi_native_piece *piece, uint64_t i, int64_t *offset,
                         int64_t *length)
{
    for (uint32_t k = piece->axes; k-- > 0;) {
        uint64_t cells = cells_of(piece, k);
        int64_t start = (int64_t)(i % cells) * piece->chunk[k];
        int64_t left = piece->length[k] - start;
        i /= cells;
        offset[k] = piece->offset[k] + start;
        length[k] = left < piece->chunk[k] ? left : piece->chunk[k];
    }
}
