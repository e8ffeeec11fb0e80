/*
 * Signatures with keys of PEM files, and base64 (libcrypto behind it): Ed25519, and ECDSA over
 * P-256, P-384 and P-521, whose hash goes with the curve (SHA-256, SHA-384, SHA-512) and whose
 * signatures are DER (specs/signing.md).
 */
#ifndef SW_CODEC_SIGN_H
#define SW_CODEC_SIGN_H

#include "base/buf.h"
#include "codec/digest.h"

/* A private or a public key. Immutable; not shared by threads. */
typedef struct swi_key swi_key;

/* What opens an encrypted private key; borrowed. data NULL: none is known. */
typedef struct swi_passphrase {
    const char *data;
    size_t size;
} swi_passphrase;

/*
 * The first private key of a PEM text (PKCS#8, or SEC1: "EC PRIVATE KEY"). SW_ERR_FORMAT: it holds
 * none; SW_ERR_UNSUPPORTED: of another kind, by name; SW_ERR_ARG: encrypted, and `passphrase` (may
 * be NULL) does not open it.
 */
SW_MUST_USE sw_status swi_key_read_private(const void *pem, size_t size,
                                           const swi_passphrase *passphrase, swi_key **out,
                                           sw_error *err);
/* The first public key of a PEM text ("PUBLIC KEY"). A private key is refused, and said to be one.
 */
SW_MUST_USE sw_status swi_key_read_public(const void *pem, size_t size, swi_key **out,
                                          sw_error *err);
void swi_key_free(swi_key *key);
/* "ed25519", "p-256", "p-384", "p-521". */
const char *swi_key_kind(const swi_key *key);
bool swi_key_is_ec(const swi_key *key);
/*
 * SHA-256 over the public key, written anew as PEM (named curve, uncompressed point, LF): for a
 * file from `openssl pkey -pubout` that of the file. It names a key and proves nothing.
 */
SW_MUST_USE sw_status swi_key_hint(const swi_key *key, char hint[SWI_DIGEST_TEXT], sw_error *err);

/* Appends the signature of the bytes to `out`. */
SW_MUST_USE sw_status swi_sign(const swi_key *key, const void *data, size_t size, swi_buf *out,
                               sw_error *err);
/* Whether it is this key's signature of these bytes. Fails only for want of memory. */
SW_MUST_USE sw_status swi_sign_check(const swi_key *key, const void *data, size_t size,
                                     const void *signature, size_t signature_size, bool *good,
                                     sw_error *err);

/* Appends: standard alphabet, padded, one line. */
SW_MUST_USE sw_status swi_base64_write(const void *data, size_t size, swi_buf *out, sw_error *err);
/* Appends what it stands for. SW_ERR_FORMAT for anything that `write` would not give. */
SW_MUST_USE sw_status swi_base64_read(const char *text, size_t size, swi_buf *out, sw_error *err);

#endif
