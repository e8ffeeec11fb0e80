#include "native/grid.h"

#include <stdlib.h>
#include <string.h>

#include "harness/harness.h"

#define KIB ((int64_t)1024)
#define MIB (KIB * 1024)

static swi_native_piece piece_of(uint32_t axes, const int64_t *offset, const int64_t *length)
{
    swi_native_piece piece = {.axes = axes};
    for (uint32_t k = 0; k < axes; k++) {
        piece.offset[k] = offset != NULL ? offset[k] : 0;
        piece.length[k] = length[k];
        piece.chunk[k] = length[k];
    }
    return piece;
}

/* ---- the grid ------------------------------------------------------------------------------ */

typedef struct tally {
    const swi_native_piece *piece;
    uint32_t *hits; /* by element of the piece, row-major: 1 + the number of its chunk */
} tally;

/* Index in the piece of the j-th element of a box. */
static size_t element_at(const tally *t, const int64_t *offset, const int64_t *length, uint64_t j)
{
    size_t index = 0, stride = 1;
    for (uint32_t k = t->piece->axes; k-- > 0;) {
        int64_t at = offset[k] + (int64_t)(j % (uint64_t)length[k]) - t->piece->offset[k];
        j /= (uint64_t)length[k];
        assert_in_range(at, 0, t->piece->length[k] - 1);
        index += (size_t)at * stride;
        stride *= (size_t)t->piece->length[k];
    }
    return index;
}

static void mark_box(const tally *t, uint64_t chunk)
{
    int64_t offset[SW_MAX_AXES], length[SW_MAX_AXES];
    uint64_t elements = 1;
    swi_native_grid_box(t->piece, chunk, offset, length);
    for (uint32_t k = 0; k < t->piece->axes; k++) {
        assert_in_range(length[k], 1, t->piece->chunk[k]);
        elements *= (uint64_t)length[k];
    }
    for (uint64_t j = 0; j < elements; j++) {
        size_t at = element_at(t, offset, length, j);
        assert_int_equal(t->hits[at], 0);
        t->hits[at] = (uint32_t)chunk + 1;
    }
}

/* The chunk that element `index` of the piece is in, by what NAT-11 says. */
static uint32_t chunk_of(const swi_native_piece *piece, size_t index)
{
    size_t at[SW_MAX_AXES];
    uint32_t number = 0;
    for (uint32_t k = piece->axes; k-- > 0;) {
        at[k] = index % (size_t)piece->length[k];
        index /= (size_t)piece->length[k];
    }
    for (uint32_t k = 0; k < piece->axes; k++) {
        size_t cells = 0;
        for (int64_t x = 0; x < piece->length[k]; x += piece->chunk[k])
            cells++;
        number = number * (uint32_t)cells + (uint32_t)(at[k] / (size_t)piece->chunk[k]);
    }
    return number;
}

static void boxes_tile_the_piece(void **state)
{
    (void)state;
    harness_prng prng = {11};
    for (int round = 0; round < 3000; round++) {
        swi_native_piece piece = {.axes = (uint32_t)harness_random_below(&prng, 5)};
        size_t elements = 1;
        for (uint32_t k = 0; k < piece.axes; k++) {
            piece.offset[k] = (int64_t)harness_random_below(&prng, 1000);
            piece.length[k] = 1 + (int64_t)harness_random_below(&prng, 9);
            piece.chunk[k] = 1 + (int64_t)harness_random_below(&prng, (uint64_t)piece.length[k]);
            elements *= (size_t)piece.length[k];
        }
        piece.flat = piece.axes == 1 && round % 2 == 0;
        uint64_t count;
        assert_true(swi_native_grid_count(&piece, 4, &count));
        tally t = {.piece = &piece, .hits = calloc(elements, sizeof(uint32_t))};
        assert_non_null(t.hits);
        for (uint64_t i = 0; i < count; i++)
            mark_box(&t, i);
        for (size_t i = 0; i < elements; i++)
            assert_int_equal(t.hits[i], chunk_of(&piece, i) + 1);
        free(t.hits);
    }
}

static void refuse(swi_native_piece piece, uint32_t element_bytes)
{
    uint64_t count = 77;
    assert_false(swi_native_grid_count(&piece, element_bytes, &count));
    assert_int_equal(count, 77);
}

static void unsound_pieces_have_no_grid(void **state)
{
    (void)state;
    const int64_t length[] = {6, 5};
    const swi_native_piece good = piece_of(2, NULL, length);
    uint64_t count;
    assert_true(swi_native_grid_count(&good, 1, &count));
    assert_int_equal(count, 1);
    refuse(good, 0);
    swi_native_piece bad = good;
    bad.length[1] = 0;
    refuse(bad, 1);
    bad = good;
    bad.length[0] = -6;
    refuse(bad, 1);
    bad = good;
    bad.chunk[0] = 0;
    refuse(bad, 1);
    bad = good;
    bad.chunk[0] = 7; /* longer than the piece */
    refuse(bad, 1);
    bad = good;
    bad.offset[1] = -1;
    refuse(bad, 1);
    bad = good;
    bad.offset[1] = INT64_MAX - 4;
    refuse(bad, 1);
    bad = good;
    bad.axes = SW_MAX_AXES + 1;
    refuse(bad, 1);
    bad = good;
    bad.flat = true;
    refuse(bad, 1);
}

static void large_numbers_are_counted_or_refused(void **state)
{
    (void)state;
    const int64_t huge[] = {INT64_MAX, 2, 2};
    swi_native_piece piece = piece_of(1, NULL, huge);
    uint64_t count;
    refuse(piece, 1); /* a chunk of more than 4 MiB */
    piece.chunk[0] = 4 * MIB;
    assert_true(swi_native_grid_count(&piece, 1, &count));
    assert_int_equal(count, (uint64_t)1 << (63 - 22));
    piece.chunk[0] = 4 * MIB + 1;
    refuse(piece, 1);
    piece.chunk[0] = 2 * MIB;
    refuse(piece, 2); /* more bytes than a number holds */
    piece = piece_of(3, NULL, huge);
    piece.chunk[0] = 1;
    refuse(piece, 1);
}

/* ---- the rule ------------------------------------------------------------------------------ */

static void expect_chunks(uint32_t axes, const int64_t *shape, const int64_t *length,
                          uint32_t element_bytes, const int64_t *want)
{
    swi_native_piece piece = piece_of(axes, NULL, length);
    memset(piece.chunk, 0, sizeof piece.chunk);
    swi_native_chunk_lengths(&piece, shape, element_bytes);
    for (uint32_t k = 0; k < axes; k++)
        assert_int_equal(piece.chunk[k], want[k]);
}

#define L(...) ((const int64_t[]){__VA_ARGS__})

static void chunks_of_well_known_shapes(void **state)
{
    (void)state;
    /* Small: one chunk. */
    expect_chunks(0, L(0), L(0), 4, L(0));
    expect_chunks(2, L(512, 512), L(512, 512), 4, L(512, 512));
    expect_chunks(1, L(5 * MIB), L(5 * MIB), 2, L(320 * KIB));
    /* A weight of 32 MiB: 64 x 4. */
    expect_chunks(2, L(4096, 4096), L(4096, 4096), 2, L(64, 1024));
    /* One of 64 MiB likewise, one of 128 MiB: 64 x 8. */
    expect_chunks(2, L(8192, 4096), L(8192, 4096), 2, L(128, 1024));
    expect_chunks(2, L(8192, 8192), L(8192, 8192), 2, L(128, 1024));
    /* An embedding of 2 GiB: 2 MiB of rows, in 8 columns. */
    expect_chunks(2, L(128256, 8192), L(128256, 8192), 2, L(126, 1024));
    /* A rank's rows of it are cut alike. */
    expect_chunks(2, L(4096, 4096), L(256, 4096), 2, L(64, 1024));
    /* A rank's columns need no more cuts of columns; rows are bounded by what lies between. */
    expect_chunks(2, L(8192, 8192), L(8192, 1024), 2, L(128, 1024));
    /* Experts: each its own; the kernel of a convolution stays whole. */
    expect_chunks(3, L(64, 1024, 1024), L(64, 1024, 1024), 2, L(1, 256, 256));
    expect_chunks(4, L(512, 512, 3, 3), L(512, 512, 3, 3), 4, L(32, 128, 3, 3));
    /* A row of more than 2 MiB. */
    expect_chunks(2, L(4, 8 * MIB), L(4, 8 * MIB), 1, L(1, MIB));
}

static void flat_chunks_have_a_mebibyte(void **state)
{
    (void)state;
    swi_native_piece piece = piece_of(1, NULL, L(3 * MIB + 1));
    piece.flat = true;
    swi_native_chunk_lengths(&piece, NULL, 4);
    assert_int_equal(piece.chunk[0], (3 * MIB + 1 + 15) / 16);
}

static void random_shape(harness_prng *prng, uint32_t axes, int64_t *shape, swi_native_piece *piece)
{
    *piece = (swi_native_piece){.axes = axes};
    for (uint32_t k = 0; k < axes; k++) {
        shape[k] = 1 + (int64_t)harness_random_below(prng, (uint64_t)1 << (40 / axes));
        piece->offset[k] = (int64_t)harness_random_below(prng, (uint64_t)shape[k]);
        piece->length[k] =
            1 + (int64_t)harness_random_below(prng, (uint64_t)(shape[k] - piece->offset[k]));
    }
}

static void chunks_keep_their_bounds(void **state)
{
    (void)state;
    harness_prng prng = {5};
    for (int round = 0; round < 20000; round++) {
        int64_t shape[SW_MAX_AXES];
        swi_native_piece piece;
        uint32_t bytes = (uint32_t)1 << harness_random_below(&prng, 4);
        random_shape(&prng, 1 + (uint32_t)harness_random_below(&prng, SW_MAX_AXES), shape, &piece);
        swi_native_chunk_lengths(&piece, shape, bytes);
        uint64_t count;
        assert_true(swi_native_grid_count(&piece, bytes, &count));
        int64_t size = bytes, span = bytes, stride = bytes;
        for (uint32_t k = piece.axes; k-- > 0;) {
            size *= piece.chunk[k];
            span += (piece.chunk[k] - 1) * stride;
            stride *= shape[k];
        }
        assert_in_range(size, 1, MIB);
        assert_in_range(span, 1, 2 * MIB);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(boxes_tile_the_piece),
        cmocka_unit_test(unsound_pieces_have_no_grid),
        cmocka_unit_test(large_numbers_are_counted_or_refused),
        cmocka_unit_test(chunks_of_well_known_shapes),
        cmocka_unit_test(flat_chunks_have_a_mebibyte),
        cmocka_unit_test(chunks_keep_their_bounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
