#include "codec/digest.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <stdlib.h>

#include "base/arena.h"
#include "base/text.h"

struct swi_hasher {
    EVP_MD *algorithm; /* fetched once: a fetch costs more than a small message */
    EVP_MD_CTX *context;
};

sw_status swi_hasher_make(swi_hasher **out, sw_error *err)
{
    void *room;
    sw_status status = swi_alloc_array(1, sizeof(swi_hasher), &room, err);
    if (status != SW_OK)
        return status;
    swi_hasher *hasher = room;
    hasher->context = NULL;
    /* Where its context could not be made for want of memory, libcrypto 3.0 fetches from NULL. */
    bool ready = OSSL_LIB_CTX_get0_global_default() != NULL;
    hasher->algorithm = ready ? EVP_MD_fetch(NULL, "SHA256", NULL) : NULL;
    if (hasher->algorithm != NULL)
        hasher->context = EVP_MD_CTX_new();
    if (hasher->context == NULL) {
        swi_hasher_free(hasher);
        return swi_fail(err, SW_ERR_NOMEM, "libcrypto offers no SHA-256, or there is no memory");
    }
    *out = hasher;
    return SW_OK;
}

void swi_hasher_free(swi_hasher *hasher)
{
    if (hasher == NULL)
        return;
    EVP_MD_CTX_free(hasher->context);
    EVP_MD_free(hasher->algorithm);
    free(hasher);
}

static sw_status failed(sw_error *err)
{
    return swi_fail(err, SW_ERR_NOMEM, "libcrypto failed to compute a SHA-256");
}

sw_status swi_hasher_begin(swi_hasher *hasher, sw_error *err)
{
    return EVP_DigestInit_ex2(hasher->context, hasher->algorithm, NULL) == 1 ? SW_OK : failed(err);
}

sw_status swi_hasher_add(swi_hasher *hasher, const void *data, size_t size, sw_error *err)
{
    if (size == 0)
        return SW_OK;
    return EVP_DigestUpdate(hasher->context, data, size) == 1 ? SW_OK : failed(err);
}

sw_status swi_hasher_end(swi_hasher *hasher, swi_digest *out, sw_error *err)
{
    swi_digest digest;
    unsigned size = 0;
    if (EVP_DigestFinal_ex(hasher->context, digest.bytes, &size) != 1 || size != SWI_DIGEST_BYTES)
        return failed(err);
    *out = digest;
    return SW_OK;
}

sw_status swi_digest_bytes(const swi_bytes *parts, size_t count, swi_digest *out, sw_error *err)
{
    swi_hasher *hasher = NULL;
    sw_status status = swi_hasher_make(&hasher, err);
    if (status == SW_OK)
        status = swi_hasher_begin(hasher, err);
    for (size_t i = 0; i < count && status == SW_OK; i++)
        status = swi_hasher_add(hasher, parts[i].data, parts[i].size, err);
    if (status == SW_OK)
        status = swi_hasher_end(hasher, out, err);
    swi_hasher_free(hasher);
    return status;
}

void swi_digest_text(const swi_digest *digest, char text[SWI_DIGEST_TEXT])
{
    static const char hex[] = "0123456789abcdef";
    for (size_t i = 0; i < SWI_DIGEST_BYTES; i++) {
        text[2 * i] = hex[digest->bytes[i] >> 4];
        text[2 * i + 1] = hex[digest->bytes[i] & 15];
    }
    text[2 * SWI_DIGEST_BYTES] = '\0';
}

bool swi_digest_parse(const char *text, size_t size, swi_digest *out)
{
    swi_digest digest;
    if (size != 2 * (size_t)SWI_DIGEST_BYTES)
        return false;
    for (size_t i = 0; i < SWI_DIGEST_BYTES; i++) {
        int high = swi_hex_digit(text[2 * i]), low = swi_hex_digit(text[2 * i + 1]);
        if (high < 0 || low < 0)
            return false;
        digest.bytes[i] = (uint8_t)(high << 4 | low);
    }
    *out = digest;
    return true;
}
