#include "codec/digest.h"

#include <string.h>

#include "harness/harness.h"

typedef struct vector {
    const char *message;
    unsigned times;
    const char *digest;
} vector;

/* FIPS 180-4's examples. */
static const vector vectors[] = {
    {"", 1, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
    {"abc", 1, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
    {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 1,
     "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
    {"aaaaaaaaaa", 100000, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0"},
};

static void known_messages(void **state)
{
    (void)state;
    swi_hasher *hasher;
    sw_error err = {0};
    assert_ok(swi_hasher_make(&hasher, &err), &err);
    for (size_t i = 0; i < sizeof vectors / sizeof vectors[0]; i++) {
        swi_digest digest;
        char text[SWI_DIGEST_TEXT];
        assert_ok(swi_hasher_begin(hasher, &err), &err);
        for (unsigned n = 0; n < vectors[i].times; n++)
            assert_ok(swi_hasher_add(hasher, vectors[i].message, strlen(vectors[i].message), &err),
                      &err);
        assert_ok(swi_hasher_end(hasher, &digest, &err), &err);
        swi_digest_text(&digest, text);
        assert_string_equal(text, vectors[i].digest);
    }
    swi_hasher_free(hasher);
    swi_hasher_free(NULL);
}

static void text_and_back(void **state)
{
    (void)state;
    swi_digest digest, same;
    char text[SWI_DIGEST_TEXT];
    for (size_t i = 0; i < SWI_DIGEST_BYTES; i++)
        digest.bytes[i] = (uint8_t)(i * 37 + 201);
    swi_digest_text(&digest, text);
    assert_true(swi_digest_parse(text, 64, &same));
    assert_memory_equal(&digest, &same, sizeof same);
    memset(&same, 7, sizeof same);
    assert_false(swi_digest_parse(text, 63, &same));
    assert_false(swi_digest_parse(text, 65, &same));
    for (size_t i = 0; i < 64; i++) {
        char kept = text[i];
        text[i] = i % 2 ? 'g' : 'A';
        assert_false(swi_digest_parse(text, 64, &same));
        text[i] = kept;
    }
    assert_int_equal(same.bytes[0], 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_messages),
        cmocka_unit_test(text_and_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
