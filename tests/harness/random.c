#include "harness/harness.h"

uint64_t harness_random(harness_prng *prng)
{
    prng->state += UINT64_C(0x9E3779B97F4A7C15);
    uint64_t z = prng->state;
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

uint64_t harness_random_below(harness_prng *prng, uint64_t limit)
{
    assert_true(limit > 0);
    /* Values above the last whole multiple of the limit would favour small results. */
    uint64_t threshold = (UINT64_MAX - limit + 1) % limit;
    uint64_t value = harness_random(prng);
    while (value < threshold) {
        value = harness_random(prng);
    }
    return value % limit;
}

void harness_random_fill(harness_prng *prng, void *data, size_t size_bytes)
{
    uint8_t *bytes = data;
    uint64_t value = 0;
    for (size_t i = 0; i < size_bytes; i++) {
        if (i % 8 == 0) {
            value = harness_random(prng);
        }
        bytes[i] = (uint8_t)(value >> (i % 8 * 8));
    }
}
