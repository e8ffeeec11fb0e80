/* Keys and signatures as files that a user names. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/text.h"
#include "check/real_path.h"
#include "check/signature.h"
#include "io/txn.h"

#define KEY_MAX ((uint64_t)1 << 20)
/* One name for all that may lie beside a signature that is being written: "sign". */
#define PARTIAL_ID "7369676e"

/* ---- keys ---------------------------------------------------------------------------------- */

/* Secrets do not stay in memory that others get. */
static void forget(uint8_t *data, size_t size)
{
    if (data != NULL)
        explicit_bzero(data, size);
    free(data);
}

/* The first line of the file. */
static sw_status read_passphrase(const char *path, uint8_t **data, size_t *size,
                                 swi_passphrase *out, sw_error *err)
{
    sw_status status = swi_read_file(path, KEY_MAX, data, size, err);
    if (status != SW_OK)
        return status;
    size_t end = 0;
    while (end < *size && (*data)[end] != '\n' && (*data)[end] != '\r')
        end++;
    *out = (swi_passphrase){.data = (const char *)*data, .size = end};
    return SW_OK;
}

sw_status swi_signing_key_read(const char *path, const char *passphrase_file, swi_key **out,
                               sw_error *err)
{
    uint8_t *pem = NULL, *secret = NULL;
    size_t pem_size = 0, secret_size = 0;
    swi_passphrase passphrase = {0};
    swi_quoted q;
    sw_status status = SW_OK;
    if (passphrase_file != NULL)
        status = read_passphrase(passphrase_file, &secret, &secret_size, &passphrase, err);
    if (status == SW_OK)
        status = swi_read_file(path, KEY_MAX, &pem, &pem_size, err);
    if (status == SW_OK) {
        status =
            swi_key_read_private(pem, pem_size, passphrase_file ? &passphrase : NULL, out, err);
        if (status != SW_OK)
            (void)swi_error_prefix(err, "%s", swi_quote_str(&q, path));
    }
    forget(pem, pem_size);
    forget(secret, secret_size);
    return status;
}

sw_status swi_verifying_key_read(const char *path, swi_key **out, sw_error *err)
{
    uint8_t *pem = NULL;
    size_t size = 0;
    swi_quoted q;
    sw_status status = swi_read_file(path, KEY_MAX, &pem, &size, err);
    if (status == SW_OK) {
        status = swi_key_read_public(pem, size, out, err);
        if (status != SW_OK)
            (void)swi_error_prefix(err, "%s", swi_quote_str(&q, path));
    }
    forget(pem, size);
    return status;
}

/* ---- publishing ---------------------------------------------------------------------------- */

/* What --overwrite replaces is a signature: anything else there is a slip of the hand. */
static sw_status keep_others(const char *path, sw_error *err)
{
    const sw_limits limits = sw_limits_resolve(NULL);
    swi_signature_file file = {0};
    sw_error cause = {0};
    swi_quoted q;
    uint8_t *data = NULL;
    size_t size = 0;
    struct stat found;
    if (lstat(path, &found) != 0)
        return SW_OK;
    sw_status status = SW_ERR_EXISTS;
    if (S_ISREG(found.st_mode))
        status = swi_read_file(path, limits.metadata_bytes, &data, &size, &cause);
    if (status == SW_OK)
        status = swi_signature_file_read(data, size, &limits, &file, &cause);
    swi_signature_file_free(&file);
    free(data);
    if (status == SW_OK)
        return SW_OK;
    if (status != SW_ERR_NOMEM && status != SW_ERR_IO)
        return swi_fail(err, SW_ERR_EXISTS,
                        "%s: is no signature, and is not replaced by one; remove it yourself, or "
                        "choose another name",
                        swi_quote_str(&q, path));
    if (err != NULL)
        *err = cause;
    return status;
}

sw_status swi_signature_publish(const char *path, bool overwrite, const swi_buf *text,
                                sw_error *err)
{
    const swi_txn_options options = {.id = PARTIAL_ID, .overwrite = overwrite, .single_file = true};
    swi_txn *txn = NULL;
    sw_status status = overwrite ? keep_others(path, err) : SW_OK;
    if (status == SW_OK)
        status = swi_txn_begin(path, &options, &txn, err);
    if (status == SW_OK)
        status = swi_txn_put(txn, swi_last_part(path), text->data, text->size, err);
    if (status == SW_OK)
        status = swi_txn_commit(txn, err);
    swi_txn_end(txn, false);
    return status;
}

sw_status swi_signature_partial(const char *name, swi_buf *out, sw_error *err)
{
    return swi_buf_printf(out, err, "%s.partial-" PARTIAL_ID, name);
}
