/*
 * Signature files (specs/signing.md): Shardwright's own and OMS bundles, told apart by content; and
 * holding a checkpoint against one.
 */
#ifndef SW_CONVERT_SIGNATURE_H
#define SW_CONVERT_SIGNATURE_H

#include "check/oms.h"
#include "container/dsse.h"
#include "framework.h"

#define SWI_SIGNATURE_PAYLOAD_TYPE "application/vnd.shardwright.signature+json"
/* Where they lie in a folder, unless it is said otherwise. */
#define SWI_SIGNATURE_NAME "checkpoint.sig"
#define SWI_SIGNATURE_OMS_NAME "model.sig"

typedef struct swi_signature_file {
    sw_signature_format format;
    char hint[SWI_DIGEST_TEXT]; /* of the key, as the file says; "": it does not */
    swi_envelope envelope;
} swi_signature_file;

/* SW_ERR_FORMAT, SW_ERR_UNSUPPORTED, SW_ERR_LIMIT: no signature file that is known. */
SW_MUST_USE sw_status swi_signature_file_read(const void *data, size_t size,
                                              const sw_limits *limits, swi_signature_file *out,
                                              sw_error *err);
void swi_signature_file_free(swi_signature_file *file);
/* Appends the file with the payload and its signature. */
SW_MUST_USE sw_status swi_signature_file_write(sw_signature_format format, const swi_key *key,
                                               const swi_buf *payload, swi_buf *out, sw_error *err);
const char *swi_signature_format_name(sw_signature_format format);

/* ---- files of users ------------------------------------------------------------------------ */

/* Errors begin with the path. */
SW_MUST_USE sw_status swi_signing_key_read(const char *path, const char *passphrase_file,
                                           swi_key **out, sw_error *err);
SW_MUST_USE sw_status swi_verifying_key_read(const char *path, swi_key **out, sw_error *err);
/*
 * The file appears whole or not at all. SW_ERR_EXISTS when something is there, with `overwrite`
 * only when that is no signature.
 */
SW_MUST_USE sw_status swi_signature_publish(const char *path, bool overwrite, const swi_buf *text,
                                            sw_error *err);
/* The name of what publishing leaves beside the file when it is killed. */
SW_MUST_USE sw_status swi_signature_partial(const char *name, swi_buf *out, sw_error *err);

#endif
