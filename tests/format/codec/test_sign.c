#include "codec/sign.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/harness.h"

#include "format/signing_keys.h"

typedef struct pair {
    const char *kind, *private_pem, *public_pem, *hint;
} pair;
static const pair pairs[] = {
    {"ed25519", ed25519_private, ed25519_public, ED25519_HINT},
    {"p-256", p256_private, p256_public, P256_HINT},
    {"p-384", p384_private, p384_public, P384_HINT},
    {"p-521", p521_private, p521_public, P521_HINT},
};
#define PAIRS (sizeof pairs / sizeof pairs[0])

static swi_key *private_key(const char *pem)
{
    swi_key *key = NULL;
    sw_error err = {0};
    assert_ok(swi_key_read_private(pem, strlen(pem), NULL, &key, &err), &err);
    return key;
}

static swi_key *public_key(const char *pem)
{
    swi_key *key = NULL;
    sw_error err = {0};
    assert_ok(swi_key_read_public(pem, strlen(pem), &key, &err), &err);
    return key;
}

static bool is_good(const swi_key *key, const char *text, const void *signature, size_t size)
{
    bool good = false;
    sw_error err = {0};
    assert_ok(swi_sign_check(key, text, strlen(text), signature, size, &good, &err), &err);
    return good;
}

static void kinds_and_hints(void **state)
{
    (void)state;
    for (size_t i = 0; i < PAIRS; i++) {
        char hint[SWI_DIGEST_TEXT];
        sw_error err = {0};
        swi_key *secret = private_key(pairs[i].private_pem);
        swi_key *key = public_key(pairs[i].public_pem);
        assert_string_equal(swi_key_kind(key), pairs[i].kind);
        assert_string_equal(swi_key_kind(secret), pairs[i].kind);
        assert_int_equal(swi_key_is_ec(key), i > 0);
        assert_ok(swi_key_hint(key, hint, &err), &err);
        assert_string_equal(hint, pairs[i].hint);
        assert_ok(swi_key_hint(secret, hint, &err), &err);
        assert_string_equal(hint, pairs[i].hint);
        swi_key_free(secret);
        swi_key_free(key);
    }
    swi_key_free(NULL);
}

/* The same key in other clothes: text before it, CRLF, a compressed point. */
static void one_hint_for_one_key(void **state)
{
    (void)state;
    static const char compressed[] =
        "some words\r\n-----BEGIN PUBLIC KEY-----\r\n"
        "MDkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDIgADYP7UuiVanTHJYet0xjVtaMBJuJI7"
        "\r\nYfps5mliLmDyn7Y=\r\n-----END PUBLIC KEY-----\r\n";
    char hint[SWI_DIGEST_TEXT];
    sw_error err = {0};
    swi_key *key = public_key(compressed);
    assert_ok(swi_key_hint(key, hint, &err), &err);
    assert_string_equal(hint, P256_HINT);
    swi_key_free(key);
}

static void signed_and_checked(void **state)
{
    (void)state;
    for (size_t i = 0; i < PAIRS; i++) {
        swi_buf signature = {0};
        sw_error err = {0};
        swi_key *secret = private_key(pairs[i].private_pem);
        swi_key *key = public_key(pairs[i].public_pem);
        assert_ok(swi_buf_append(&signature, "before", 6, &err), &err);
        assert_ok(swi_sign(secret, "sample", 6, &signature, &err), &err);
        assert_memory_equal(signature.data, "before", 6);
        uint8_t *s = signature.data + 6;
        size_t size = signature.size - 6;
        assert_true(is_good(key, "sample", s, size));
        assert_false(is_good(key, "samplf", s, size));
        assert_false(is_good(key, "sampl", s, size));
        assert_false(is_good(key, "sample", s, size - 1));
        assert_false(is_good(key, "sample", s, 0));
        for (size_t at = 0; at < size; at++) {
            s[at] ^= 4;
            assert_false(is_good(key, "sample", s, size));
            s[at] ^= 4;
        }
        for (size_t other = 0; other < PAIRS; other++) {
            swi_key *o = public_key(pairs[other].public_pem);
            assert_int_equal(is_good(o, "sample", s, size), other == i);
            swi_key_free(o);
        }
        swi_buf_free(&signature);
        swi_key_free(secret);
        swi_key_free(key);
    }
}

/* RFC 8032, test 1: what is signed is nothing. */
static void a_published_signature(void **state)
{
    (void)state;
    static const char want[] = "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e06522490155"
                               "5fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b";
    swi_buf signature = {0};
    sw_error err = {0};
    char hex[129];
    swi_key *secret = private_key(ed25519_private);
    assert_ok(swi_sign(secret, "", 0, &signature, &err), &err);
    assert_int_equal(signature.size, 64);
    for (size_t i = 0; i < 64; i++)
        snprintf(hex + 2 * i, 3, "%02x", signature.data[i]);
    assert_string_equal(hex, want);
    swi_buf_free(&signature);
    swi_key_free(secret);
}

typedef struct refusal {
    const char *pem;
    sw_status status;
    const char *says;
} refusal;

static void refused_by_name(void **state)
{
    (void)state;
    static const refusal private_ones[] = {
        {"", SW_ERR_FORMAT, "holds no private key"},
        {"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n", SW_ERR_FORMAT,
         "holds no private key"},
        {p256_public, SW_ERR_FORMAT, "is a public key"},
        {encrypted_pkcs8, SW_ERR_ARG, "is encrypted; name the file with its passphrase"},
        {encrypted_sec1, SW_ERR_ARG, "is encrypted; name the file with its passphrase"},
        {"-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VuBCIEIFh/PXgovCI1AjPMA8DHsXtnO59ggMBq9SKwP81"
         "rwitd\n-----END PRIVATE KEY-----\n",
         SW_ERR_UNSUPPORTED, "a key of kind X25519; known are Ed25519 and EC keys"},
    };
    static const refusal public_ones[] = {
        {"", SW_ERR_FORMAT, "holds no public key"},
        {p256_private, SW_ERR_FORMAT, "is a private key"},
        {p384_private, SW_ERR_FORMAT, "is a private key"},
        {"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", SW_ERR_UNSUPPORTED,
         "is a certificate"},
        {"-----BEGIN PUBLIC KEY-----\n"
         "MFYwEAYHKoZIzj0CAQYFK4EEAAoDQgAEMpvU7p5h+XTJq3JxSJWZuYARLS/odM4h\n"
         "8pT6p0HJzoFRGWWeakYdGczbWWSYc56mApYjfsapQ9x5O8b4wtsWGQ==\n-----END PUBLIC KEY-----\n",
         SW_ERR_UNSUPPORTED, "a key of kind secp256k1"},
        {"-----BEGIN PUBLIC KEY-----\n"
         "MEMwBQYDK2VxAzoAZscYMaLjYsdTuyCAsZJteK0sznTq32edAzoh5Ip/DiyutXti\n"
         "9I/LcGIcdjB0niZKsJwtyWCyAIYA\n-----END PUBLIC KEY-----\n",
         SW_ERR_UNSUPPORTED, "a key of kind ED448"},
    };
    for (size_t i = 0; i < sizeof private_ones / sizeof private_ones[0]; i++) {
        const refusal *r = &private_ones[i];
        sw_error err = {0};
        swi_key *key = NULL;
        assert_int_equal(swi_key_read_private(r->pem, strlen(r->pem), NULL, &key, &err), r->status);
        assert_error(&err, r->status, r->says);
        assert_null(key);
    }
    for (size_t i = 0; i < sizeof public_ones / sizeof public_ones[0]; i++) {
        const refusal *r = &public_ones[i];
        sw_error err = {0};
        swi_key *key = NULL;
        assert_int_equal(swi_key_read_public(r->pem, strlen(r->pem), &key, &err), r->status);
        assert_error(&err, r->status, r->says);
        assert_null(key);
    }
}

static void opened_by_a_passphrase(void **state)
{
    (void)state;
    static const char *const pems[] = {encrypted_pkcs8, encrypted_sec1};
    const swi_passphrase right = {.data = ENCRYPTED_WITH, .size = strlen(ENCRYPTED_WITH)};
    const swi_passphrase wrong = {.data = ENCRYPTED_WITH, .size = 4};
    for (size_t i = 0; i < 2; i++) {
        char hint[SWI_DIGEST_TEXT];
        sw_error err = {0};
        swi_key *key = NULL;
        const char *pem = pems[i];
        assert_int_equal(swi_key_read_private(pem, strlen(pem), &wrong, &key, &err), SW_ERR_ARG);
        assert_error(&err, SW_ERR_ARG, "the passphrase does not open it");
        assert_ok(swi_key_read_private(pem, strlen(pem), &right, &key, &err), &err);
        assert_ok(swi_key_hint(key, hint, &err), &err);
        assert_string_equal(hint, P384_HINT);
        swi_key_free(key);
    }
}

/* ---- base64 ------------------------------------------------------------------------------- */

static void base64_vectors(void **state)
{
    (void)state;
    static const char *const vectors[][2] = {{"", ""},
                                             {"f", "Zg=="},
                                             {"fo", "Zm8="},
                                             {"foo", "Zm9v"},
                                             {"foob", "Zm9vYg=="},
                                             {"fooba", "Zm9vYmE="},
                                             {"foobar", "Zm9vYmFy"},
                                             {"\xfb\xff", "+/8="}};
    for (size_t i = 0; i < sizeof vectors / sizeof vectors[0]; i++) {
        swi_buf text = {0}, back = {0};
        sw_error err = {0};
        size_t size = strlen(vectors[i][0]);
        assert_ok(swi_base64_write(vectors[i][0], size, &text, &err), &err);
        assert_int_equal(text.size, strlen(vectors[i][1]));
        if (text.size > 0)
            assert_memory_equal(text.data, vectors[i][1], text.size);
        assert_ok(swi_base64_read(vectors[i][1], strlen(vectors[i][1]), &back, &err), &err);
        assert_int_equal(back.size, size);
        if (size > 0)
            assert_memory_equal(back.data, vectors[i][0], size);
        swi_buf_free(&text);
        swi_buf_free(&back);
    }
}

static void base64_is_strict(void **state)
{
    (void)state;
    static const char *const wrong[] = {
        "Z",          "Zg",       "Zg=",      "Zg===",   "=",           "====", "Zh==",
        "Zm9=",       "Zm9v\n",   "Zm 9v===", "Z=9v",    "-_8=",        " Zg=", "Zg==Zg==",
        "Zm\n9vYg==", "Zm9v====", "Zm9vZg=a", "Zm9\xc3", "Zm9vYmFy=== "};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        swi_buf out = {0};
        sw_error err = {0};
        if (swi_base64_read(wrong[i], strlen(wrong[i]), &out, &err) != SW_ERR_FORMAT)
            fail_msg("\"%s\" was taken", wrong[i]);
        assert_error(&err, SW_ERR_FORMAT, "is no base64");
        swi_buf_free(&out);
    }
}

/* More than libcrypto is given at once, of every remainder. */
static void base64_of_many_bytes(void **state)
{
    (void)state;
    for (size_t more = 0; more < 4; more++) {
        size_t size = 3 * ((size_t)1 << 20) + more;
        swi_buf text = {0}, back = {0};
        sw_error err = {0};
        uint8_t *bytes = malloc(size);
        assert_non_null(bytes);
        for (size_t i = 0; i < size; i++)
            bytes[i] = (uint8_t)(i * 131 + (i >> 8));
        assert_ok(swi_base64_write(bytes, size, &text, &err), &err);
        assert_int_equal(text.size, (size + 2) / 3 * 4);
        assert_ok(swi_base64_read((char *)text.data, text.size, &back, &err), &err);
        assert_int_equal(back.size, size);
        assert_memory_equal(back.data, bytes, size);
        free(bytes);
        swi_buf_free(&text);
        swi_buf_free(&back);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kinds_and_hints),      cmocka_unit_test(one_hint_for_one_key),
        cmocka_unit_test(signed_and_checked),   cmocka_unit_test(a_published_signature),
        cmocka_unit_test(refused_by_name),      cmocka_unit_test(opened_by_a_passphrase),
        cmocka_unit_test(base64_vectors),       cmocka_unit_test(base64_is_strict),
        cmocka_unit_test(base64_of_many_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
