/* CRCs of records whose parts pass in any order. */
#include "harness/harness.h"

#include <stdlib.h>
#include <string.h>

#include "codec/crc32.h"
#include "crc_track.h"

#define SIZE 5000U

typedef struct fixture {
    uint8_t bytes[SIZE];
    uint32_t crc;
    swi_crc_track *track;
} fixture;

static int setup(void **state)
{
    sw_error err = {0};
    fixture *f = calloc(1, sizeof *f);
    harness_prng prng = {.state = 3};
    assert_non_null(f);
    harness_random_fill(&prng, f->bytes, SIZE);
    f->crc = swi_crc32(0, f->bytes, SIZE);
    assert_ok(swi_crc_track_make(40000, &f->track, &err), &err);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    fixture *f = *state;
    swi_crc_track_free(f->track);
    free(f);
    return 0;
}

static swi_crc_result add(fixture *f, uint32_t blob, uint64_t at, uint64_t end, uint32_t *found)
{
    sw_error err = {0};
    swi_crc_result result;
    const swi_crc_part part = {
        .blob = blob,
        .expected = f->crc,
        .record_bytes = SIZE,
        .at = at,
        .size = end - at,
        .crc = swi_crc32(0, f->bytes + at, (size_t)(end - at)),
    };
    assert_ok(swi_crc_track_add(f->track, &part, &result, found, &err), &err);
    return result;
}

/* Cuts the record at random places and adds the parts in random order; some twice. */
static void add_shuffled(fixture *f, harness_prng *prng, uint32_t blob, bool wrong)
{
    uint32_t cuts[64], count = 1 + (uint32_t)harness_random_below(prng, 60), found = 0;
    uint32_t rights = 0, wrongs = 0;
    for (uint32_t i = 0; i < count; i++)
        cuts[i] = i * SIZE / count;
    cuts[count] = SIZE;
    uint32_t order[64];
    for (uint32_t i = 0; i < count; i++) {
        uint32_t j = (uint32_t)harness_random_below(prng, i + 1);
        order[i] = order[j];
        order[j] = i;
    }
    if (wrong)
        f->bytes[0] ^= 1;
    for (uint32_t n = 0; n < count; n++) {
        uint32_t i = order[n];
        swi_crc_result r = add(f, blob, cuts[i], cuts[i + 1], &found);
        assert_true(r == SWI_CRC_MORE || n == count - 1);
        rights += r == SWI_CRC_RIGHT;
        wrongs += r == SWI_CRC_WRONG;
        if (harness_random_below(prng, 4) == 0)
            assert_int_equal(add(f, blob, cuts[i], cuts[i + 1], &found), SWI_CRC_MORE);
    }
    assert_int_equal(rights, !wrong);
    assert_int_equal(wrongs, wrong);
    if (wrong) {
        assert_int_equal(found, swi_crc32(0, f->bytes, SIZE));
        f->bytes[0] ^= 1;
    }
}

static sw_status count_left(void *ctx, uint32_t blob, bool partial, uint64_t seen, sw_error *err)
{
    uint64_t *sums = ctx; /* partial records, their bytes, given up */
    (void)blob;
    (void)err;
    sums[0] += partial;
    sums[1] += seen;
    sums[2] += !partial;
    return SW_OK;
}

static void left(fixture *f, uint64_t partial, uint64_t bytes, uint64_t given_up)
{
    sw_error err = {0};
    uint64_t sums[3] = {0};
    assert_ok(swi_crc_track_left(f->track, count_left, sums, &err), &err);
    assert_int_equal(sums[0], partial);
    assert_int_equal(sums[1], bytes);
    assert_int_equal(sums[2], given_up);
}

static void test_any_order(void **state)
{
    harness_prng prng = {.state = 17};
    for (uint32_t blob = 0; blob < 400; blob++)
        add_shuffled(*state, &prng, blob, blob % 5 == 0);
    left(*state, 0, 0, 0);
}

static void test_interleaved_records(void **state)
{
    fixture *f = *state;
    uint32_t found;
    for (uint64_t at = 0; at < SIZE; at += 50)
        for (uint32_t blob = 0; blob < 3000; blob += 7)
            assert_int_equal(add(f, blob, SIZE - at - 50, SIZE - at, &found),
                             at + 50 == SIZE ? SWI_CRC_RIGHT : SWI_CRC_MORE);
    left(f, 0, 0, 0);
}

static void test_partial(void **state)
{
    fixture *f = *state;
    uint32_t found;
    assert_int_equal(add(f, 1, 0, 100, &found), SWI_CRC_MORE);
    assert_int_equal(add(f, 1, 200, 300, &found), SWI_CRC_MORE);
    assert_int_equal(add(f, 2, 4000, SIZE, &found), SWI_CRC_MORE);
    left(f, 2, 1200, 0);
}

static void test_overlap_is_given_up(void **state)
{
    fixture *f = *state;
    uint32_t found;
    assert_int_equal(add(f, 1, 0, 3000, &found), SWI_CRC_MORE);
    assert_int_equal(add(f, 1, 2000, SIZE, &found), SWI_CRC_MORE);
    assert_int_equal(add(f, 1, 3000, SIZE, &found), SWI_CRC_MORE);
    left(f, 0, 0, 1);
}

/* More at once than there is room for: none is lost, what has no room is listed. */
static void bounded(fixture *f, uint32_t records, uint64_t parts, uint64_t most_kept)
{
    uint32_t found;
    uint64_t sums[3] = {0};
    sw_error err = {0};
    for (uint32_t blob = 0; blob < records; blob++)
        for (uint64_t at = 0; at < parts * 2; at += 2)
            assert_int_equal(add(f, blob, at, at + 1, &found), SWI_CRC_MORE);
    assert_ok(swi_crc_track_left(f->track, count_left, sums, &err), &err);
    assert_int_equal(sums[0] + sums[2], records);
    assert_true(sums[0] > 0 && sums[0] <= most_kept);
}

static void test_bounded_records(void **state)
{
    bounded(*state, 40000, 1, 16384);
}

static void test_bounded_parts(void **state)
{
    bounded(*state, 40, 2400, 65536 / 2400 + 1);
}

static void test_whole_in_one_and_claims(void **state)
{
    fixture *f = *state;
    uint32_t found;
    assert_int_equal(add(f, 1, 0, SIZE, &found), SWI_CRC_RIGHT);
    assert_int_equal(add(f, 1, 0, SIZE, &found), SWI_CRC_MORE);
    assert_int_equal(add(f, 2, 0, 10, &found), SWI_CRC_MORE);
    assert_int_equal(add(f, 2, 0, SIZE, &found), SWI_CRC_RIGHT);
    assert_true(swi_crc_track_claim(f->track, 9));
    assert_false(swi_crc_track_claim(f->track, 9));
    assert_int_equal(add(f, 9, 0, SIZE, &found), SWI_CRC_MORE);
    left(f, 0, 0, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_any_order),
        TEST(test_interleaved_records),
        TEST(test_partial),
        TEST(test_overlap_is_given_up),
        TEST(test_bounded_records),
        TEST(test_bounded_parts),
        TEST(test_whole_in_one_and_claims),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
