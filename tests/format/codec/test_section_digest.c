#include "codec/section_digest.h"

#include <stdlib.h>
#include <string.h>

#include "harness/harness.h"

#define MIB ((size_t)1 << 20)

/* What NAT-4 says, by Python's hashlib: section(b"") and so on; bytes i * 31 + i // 4093 mod 256.
 */
static const struct {
    size_t size;
    const char *digest;
} vectors[] = {
    {0, "93e60f669b99ad3e3ee6284b139e57adfb419960f390858e46ea565bbf82d001"},
    {1, "3a034b256c056609a522ad5416adcb05bc47a19a886f993a21732bccf6784e08"},
    {100, "856bde7f8fe0d4c964331e050967cf26cd5362b1f017f4ea6ce8c4df94336cb2"},
    {MIB - 1, "c37cb3aeacdf9911176741271726f1c695449c14281c209bd29df0124d89f195"},
    {MIB, "3fbc8b5af022cf8130b5e8fa71622d9163cecc04928ff0ab91632c70ba0ef55a"},
    {MIB + 1, "f76624c78c9afe5e90fd9c39ecbe1a2c68620989ff485dcd903914749075e93e"},
    {3 * MIB + 7, "ff476565c12d13b11f55249df997b4352d83fc0f75d04f6b30d2cb703b37f192"},
};

static void as_the_specification_says(void **state)
{
    (void)state;
    static const uint32_t threads[] = {0, 1, 2, 3, 1000};
    uint8_t *data = malloc(3 * MIB + 7);
    assert_non_null(data);
    for (size_t i = 0; i < 3 * MIB + 7; i++)
        data[i] = (uint8_t)(i * 31 + i / 4093);
    for (size_t i = 0; i < sizeof vectors / sizeof vectors[0]; i++) {
        for (size_t k = 0; k < sizeof threads / sizeof threads[0]; k++) {
            swi_digest digest;
            char text[SWI_DIGEST_TEXT];
            sw_error err = {0};
            const void *start = vectors[i].size != 0 ? data : NULL;
            assert_ok(swi_section_digest(start, vectors[i].size, threads[k], &digest, &err), &err);
            swi_digest_text(&digest, text);
            assert_string_equal(text, vectors[i].digest);
        }
    }
    free(data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_the_specification_says),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
