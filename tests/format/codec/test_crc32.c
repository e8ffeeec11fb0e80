#include "harness/harness.h"

#include "codec/crc32.h"

/* The definition, bit by bit. */
static uint32_t slow_crc(uint32_t crc, const uint8_t *p, size_t size)
{
    crc = ~crc;
    for (size_t i = 0; i < size; i++) {
        crc ^= p[i];
        for (int b = 0; b < 8; b++)
            crc = crc & 1 ? crc >> 1 ^ 0xEDB88320u : crc >> 1;
    }
    return ~crc;
}

static void known_values(void **state)
{
    (void)state;
    assert_int_equal(swi_crc32(0, "", 0), 0);
    assert_int_equal(swi_crc32(0, "123456789", 9), 0xCBF43926u);
    assert_int_equal(swi_crc32(0, "3\n", 2), 0x55679ed1u); /* the version record of torch.save */
}

static void all_lengths_and_alignments(void **state)
{
    (void)state;
    static uint8_t data[700];
    harness_prng prng = {1};
    harness_random_fill(&prng, data, sizeof(data));
    for (size_t start = 0; start < 17; start++)
        for (size_t size = 0; size < 600; size += 1 + size / 40)
            assert_int_equal(swi_crc32(0, data + start, size), slow_crc(0, data + start, size));
}

static void continues_and_combines(void **state)
{
    (void)state;
    static uint8_t data[5000];
    harness_prng prng = {2};
    harness_random_fill(&prng, data, sizeof(data));
    uint32_t whole = slow_crc(0, data, sizeof(data));
    for (size_t cut = 0; cut <= sizeof(data); cut += 97) {
        uint32_t a = swi_crc32(0, data, cut);
        uint32_t b = swi_crc32(0, data + cut, sizeof(data) - cut);
        assert_int_equal(swi_crc32(a, data + cut, sizeof(data) - cut), whole);
        assert_int_equal(swi_crc32_combine(a, b, sizeof(data) - cut), whole);
    }
}

/* A length beyond 4 GiB: 2^33 zero bytes by doubling, against the combination in one step. */
static void combines_over_large_lengths(void **state)
{
    (void)state;
    static const uint8_t zeros[1024];
    uint32_t run = swi_crc32(0, zeros, sizeof(zeros));
    for (uint64_t size = sizeof(zeros); size < (uint64_t)1 << 33; size *= 2)
        run = swi_crc32_combine(run, run, size);
    uint32_t a = swi_crc32(0, "abc", 3);
    uint32_t joined = swi_crc32_combine(a, run, (uint64_t)1 << 33);
    for (int i = 0; i < 8; i++) {
        uint32_t part = swi_crc32(0, zeros, sizeof(zeros));
        for (uint64_t size = sizeof(zeros); size < (uint64_t)1 << 30; size *= 2)
            part = swi_crc32_combine(part, part, size);
        a = swi_crc32_combine(a, part, (uint64_t)1 << 30);
    }
    assert_int_equal(joined, a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_values),
        cmocka_unit_test(all_lengths_and_alignments),
        cmocka_unit_test(continues_and_combines),
        cmocka_unit_test(combines_over_large_lengths),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
