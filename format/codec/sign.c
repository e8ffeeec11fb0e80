#include "codec/sign.h"

#include <limits.h>
#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/checked.h"
#include "base/text.h"

typedef struct key_kind {
    const char *name;
    const char *curve; /* libcrypto's name; NULL: it is no EC key */
    const char *hash;  /* NULL: the algorithm has its own */
} key_kind;

static const key_kind kinds[] = {{"ed25519", NULL, NULL},
                                 {"p-256", "prime256v1", "SHA256"},
                                 {"p-384", "secp384r1", "SHA384"},
                                 {"p-521", "secp521r1", "SHA512"}};

struct swi_key {
    EVP_PKEY *pkey;
    const key_kind *kind;
};

/* ---- what libcrypto says ------------------------------------------------------------------- */

/* Whether the last failure was one of memory; forgets all of them. */
static bool forget_errors(void)
{
    bool no_memory = false;
    unsigned long code;
    while ((code = ERR_get_error()) != 0)
        no_memory |= ERR_GET_REASON(code) == ERR_R_MALLOC_FAILURE;
    return no_memory;
}

static sw_status fail_crypto(sw_error *err, const char *what)
{
    (void)forget_errors();
    return swi_fail(err, SW_ERR_NOMEM, "libcrypto could not %s, or there is no memory", what);
}

/* Where its context could not be made for want of memory, libcrypto 3.0 fetches from NULL. */
static bool is_ready(void)
{
    return OSSL_LIB_CTX_get0_global_default() != NULL;
}

/* ---- keys ---------------------------------------------------------------------------------- */

static const key_kind *kind_of(const EVP_PKEY *pkey, char curve[64])
{
    size_t size = 0;
    curve[0] = '\0';
    if (EVP_PKEY_is_a(pkey, "ED25519"))
        return &kinds[0];
    if (!EVP_PKEY_is_a(pkey, "EC") || EVP_PKEY_get_group_name(pkey, curve, 64, &size) != 1)
        return NULL;
    for (size_t i = 1; i < sizeof kinds / sizeof kinds[0]; i++) {
        if (strcmp(curve, kinds[i].curve) == 0)
            return &kinds[i];
    }
    return NULL;
}

/* Takes `pkey`, whatever comes of it. */
static sw_status make_key(EVP_PKEY *pkey, swi_key **out, sw_error *err)
{
    char curve[64];
    swi_quoted q;
    void *room = NULL;
    const key_kind *kind = kind_of(pkey, curve);
    const char *type = EVP_PKEY_get0_type_name(pkey);
    sw_status status;
    if (kind == NULL)
        status = swi_fail(err, SW_ERR_UNSUPPORTED,
                          "is a key of kind %s; known are Ed25519 and EC keys on P-256, P-384 and "
                          "P-521",
                          swi_quote_str(&q, curve[0] != '\0' ? curve
                                            : type != NULL   ? type
                                                             : "unknown"));
    else
        status = swi_alloc_array(1, sizeof(swi_key), &room, err);
    (void)forget_errors();
    if (status != SW_OK) {
        EVP_PKEY_free(pkey);
        return status;
    }
    swi_key *key = room;
    *key = (swi_key){.pkey = pkey, .kind = kind};
    *out = key;
    return SW_OK;
}

void swi_key_free(swi_key *key)
{
    if (key == NULL)
        return;
    EVP_PKEY_free(key->pkey);
    free(key);
}

const char *swi_key_kind(const swi_key *key)
{
    return key->kind->name;
}

bool swi_key_is_ec(const swi_key *key)
{
    return key->kind->curve != NULL;
}

typedef struct asking {
    const swi_passphrase *passphrase;
    bool asked; /* the key is encrypted */
} asking;

static int give_passphrase(char *room, int size, int writing, void *ctx)
{
    asking *a = ctx;
    (void)writing;
    a->asked = true;
    if (a->passphrase == NULL || a->passphrase->data == NULL || size < 0 ||
        a->passphrase->size > (size_t)size)
        return -1;
    memcpy(room, a->passphrase->data, a->passphrase->size);
    return (int)a->passphrase->size;
}

static bool holds(const void *pem, size_t size, const char *word)
{
    return memmem(pem, size, word, strlen(word)) != NULL;
}

static sw_status open_text(const void *pem, size_t size, BIO **out, sw_error *err)
{
    if (size > INT_MAX)
        return swi_fail(err, SW_ERR_LIMIT, "is too large for a key");
    BIO *bio = is_ready() ? BIO_new_mem_buf(pem, (int)size) : NULL;
    if (bio == NULL)
        return fail_crypto(err, "read a key");
    *out = bio;
    return SW_OK;
}

static sw_status no_private_key(const void *pem, size_t size, const asking *a, sw_error *err)
{
    if (forget_errors())
        return swi_fail_nomem(err);
    if (a->asked && a->passphrase != NULL)
        return swi_fail(err, SW_ERR_ARG, "is encrypted, and the passphrase does not open it");
    if (a->asked)
        return swi_fail(err, SW_ERR_ARG,
                        "is encrypted; name the file with its passphrase (--passphrase-file)");
    if (holds(pem, size, "-----BEGIN PUBLIC KEY"))
        return swi_fail(err, SW_ERR_FORMAT, "is a public key; signing needs the private one");
    return swi_fail(err, SW_ERR_FORMAT, "holds no private key in PEM (PKCS#8 or SEC1)");
}

sw_status swi_key_read_private(const void *pem, size_t size, const swi_passphrase *passphrase,
                               swi_key **out, sw_error *err)
{
    BIO *bio = NULL;
    asking a = {.passphrase = passphrase};
    sw_status status = open_text(pem, size, &bio, err);
    if (status != SW_OK)
        return status;
    EVP_PKEY *pkey = PEM_read_bio_PrivateKey(bio, NULL, give_passphrase, &a);
    BIO_free(bio);
    return pkey != NULL ? make_key(pkey, out, err) : no_private_key(pem, size, &a, err);
}

static sw_status no_public_key(const void *pem, size_t size, sw_error *err)
{
    if (forget_errors())
        return swi_fail_nomem(err);
    if (holds(pem, size, "PRIVATE KEY-----"))
        return swi_fail(err, SW_ERR_FORMAT,
                        "is a private key; verifying needs the public one alone "
                        "(openssl pkey -in KEY.pem -pubout)");
    if (holds(pem, size, "-----BEGIN CERTIFICATE"))
        return swi_fail(err, SW_ERR_UNSUPPORTED,
                        "is a certificate; take its key out (openssl x509 -noout -pubkey)");
    return swi_fail(err, SW_ERR_FORMAT, "holds no public key in PEM (\"PUBLIC KEY\")");
}

sw_status swi_key_read_public(const void *pem, size_t size, swi_key **out, sw_error *err)
{
    BIO *bio = NULL;
    sw_status status = open_text(pem, size, &bio, err);
    if (status != SW_OK)
        return status;
    EVP_PKEY *pkey = PEM_read_bio_PUBKEY(bio, NULL, NULL, NULL);
    BIO_free(bio);
    return pkey != NULL ? make_key(pkey, out, err) : no_public_key(pem, size, err);
}

/* ---- the hint ------------------------------------------------------------------------------ */

/* So that every file of one key is written as the same PEM. */
static bool set_usual_form(EVP_PKEY *pkey)
{
    return EVP_PKEY_set_utf8_string_param(pkey, OSSL_PKEY_PARAM_EC_POINT_CONVERSION_FORMAT,
                                          "uncompressed") == 1 &&
           EVP_PKEY_set_utf8_string_param(pkey, OSSL_PKEY_PARAM_EC_ENCODING, "named_curve") == 1;
}

sw_status swi_key_hint(const swi_key *key, char hint[SWI_DIGEST_TEXT], sw_error *err)
{
    char *text = NULL;
    swi_digest digest;
    BIO *bio = is_ready() ? BIO_new(BIO_s_mem()) : NULL;
    bool good = bio != NULL && (!swi_key_is_ec(key) || set_usual_form(key->pkey)) &&
                PEM_write_bio_PUBKEY(bio, key->pkey) == 1;
    long size = good ? BIO_get_mem_data(bio, &text) : 0;
    sw_status status = size > 0 ? SW_OK : fail_crypto(err, "write a public key");
    if (status == SW_OK)
        status = swi_digest_bytes(&(swi_bytes){text, (size_t)size}, 1, &digest, err);
    if (status == SW_OK)
        swi_digest_text(&digest, hint);
    BIO_free(bio);
    return status;
}

/* ---- signing and checking ------------------------------------------------------------------ */

sw_status swi_sign(const swi_key *key, const void *data, size_t size, swi_buf *out, sw_error *err)
{
    size_t need = 0;
    sw_status status = SW_OK;
    EVP_MD_CTX *context = is_ready() ? EVP_MD_CTX_new() : NULL;
    if (context == NULL ||
        EVP_DigestSignInit_ex(context, NULL, key->kind->hash, NULL, NULL, key->pkey, NULL) != 1 ||
        EVP_DigestSign(context, NULL, &need, data, size) != 1)
        status = fail_crypto(err, "sign");
    if (status == SW_OK)
        status = swi_buf_reserve(out, need, err);
    if (status == SW_OK) {
        if (EVP_DigestSign(context, out->data + out->size, &need, data, size) == 1)
            out->size += need;
        else
            status = fail_crypto(err, "sign");
    }
    EVP_MD_CTX_free(context);
    return status;
}

sw_status swi_sign_check(const swi_key *key, const void *data, size_t size, const void *signature,
                         size_t signature_size, bool *good, sw_error *err)
{
    sw_status status = SW_OK;
    EVP_MD_CTX *context = is_ready() ? EVP_MD_CTX_new() : NULL;
    if (context == NULL ||
        EVP_DigestVerifyInit_ex(context, NULL, key->kind->hash, NULL, NULL, key->pkey, NULL) != 1) {
        status = fail_crypto(err, "check a signature");
    } else {
        bool right = EVP_DigestVerify(context, signature, signature_size, data, size) == 1;
        if (forget_errors() && !right)
            status = swi_fail_nomem(err);
        else
            *good = right;
    }
    EVP_MD_CTX_free(context);
    return status;
}

/* ---- base64 -------------------------------------------------------------------------------- */

/* libcrypto counts in int: so many groups of 3 bytes and 4 letters go at once. */
#define GROUPS ((size_t)1 << 20)

sw_status swi_base64_write(const void *data, size_t size, swi_buf *out, sw_error *err)
{
    const uint8_t *from = data;
    size_t groups = size / 3 + (size % 3 != 0), letters, more;
    if (!swi_mul_size(groups, 4, &letters) || !swi_add_size(letters, 1, &more))
        return swi_fail(err, SW_ERR_LIMIT, "too many bytes for base64");
    sw_status status = swi_buf_reserve(out, more, err); /* it writes a terminator */
    if (status != SW_OK)
        return status;
    for (size_t done = 0; done < size;) {
        size_t now = size - done < 3 * GROUPS ? size - done : 3 * GROUPS;
        out->size += (size_t)EVP_EncodeBlock(out->data + out->size, from + done, (int)now);
        done += now;
    }
    return SW_OK;
}

/* The value of a letter, or -1. */
static int letter(char c)
{
    static const char letters[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const char *at = c != '\0' ? strchr(letters, c) : NULL;
    return at != NULL ? (int)(at - letters) : -1;
}

/* How many letters there are before the padding; SIZE_MAX: the text is not canonical. */
static size_t count_letters(const char *text, size_t size)
{
    size_t letters = size;
    if (size % 4 != 0)
        return SIZE_MAX;
    while (letters > 0 && size - letters < 2 && text[letters - 1] == '=')
        letters--;
    for (size_t i = 0; i < letters; i++) {
        if (letter(text[i]) < 0)
            return SIZE_MAX;
    }
    /* bits of the last letter that stand for nothing */
    const int unused = size - letters == 2 ? 15 : size - letters == 1 ? 3 : 0;
    if (letters > 0 && (letter(text[letters - 1]) & unused) != 0)
        return SIZE_MAX;
    return letters;
}

sw_status swi_base64_read(const char *text, size_t size, swi_buf *out, sw_error *err)
{
    size_t letters = count_letters(text, size);
    if (letters == SIZE_MAX)
        return swi_fail(err, SW_ERR_FORMAT,
                        "is no base64 (letters of the standard alphabet alone, padded with =)");
    sw_status status = swi_buf_reserve(out, size / 4 * 3, err);
    if (status != SW_OK)
        return status;
    for (size_t done = 0; done < size;) {
        size_t now = size - done < 4 * GROUPS ? size - done : 4 * GROUPS;
        int n = EVP_DecodeBlock(out->data + out->size, (const uint8_t *)text + done, (int)now);
        if (n < 0)
            return swi_fail(err, SW_ERR_FORMAT, "is no base64");
        out->size += (size_t)n;
        done += now;
    }
    out->size -= size - letters; /* it counts padding as bytes */
    return SW_OK;
}
