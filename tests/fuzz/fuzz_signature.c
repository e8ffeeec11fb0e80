/*
 * Any bytes as a signature file of either kind, as the statement in Shardwright's own, as base64,
 * and as a public key: what is taken is the same after it was written, and no key signs it.
 */
#include <string.h>

#include "check/signature.h"
#include "check/statement.h"
#include "format/signing_keys.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool holds)
{
    if (!holds)
        __builtin_trap();
}

/* Asking libcrypto takes a thousand times as long as all the rest: only for what may be a key. */
static void check_key(const uint8_t *data, size_t size)
{
    char hint[SWI_DIGEST_TEXT];
    swi_key *key = NULL;
    sw_error err;
    if (size < 10 || memcmp(data, "-----BEGIN", 10) != 0)
        return;
    if (swi_key_read_public(data, size, &key, &err) == SW_OK)
        must(swi_key_hint(key, hint, &err) == SW_OK && strlen(hint) == 64);
    swi_key_free(key);
}

static void check_file(const uint8_t *data, size_t size, const swi_key *key)
{
    swi_signature_file file = {0};
    sw_error err;
    bool good = true;
    if (swi_signature_file_read(data, size, NULL, &file, &err) != SW_OK)
        return;
    must(file.envelope.count > 0 && file.envelope.count <= SWI_DSSE_SIGNATURES_MAX);
    must(file.hint[0] == '\0' || strlen(file.hint) == 64);
    must(swi_dsse_check(&file.envelope, key, &good, &err) == SW_OK && !good);
    swi_signature_file_free(&file);
}

static void check_statement(const uint8_t *data, size_t size)
{
    swi_statement statement = {0}, again = {0};
    swi_buf text = {0};
    sw_error err;
    if (swi_statement_read(data, size, NULL, &statement, &err) != SW_OK)
        return;
    must(swi_statement_write(&statement, &text, &err) == SW_OK);
    must(swi_statement_read(text.data, text.size, NULL, &again, &err) == SW_OK);
    must(again.tensors.count == statement.tensors.count &&
         memcmp(&again.tensors.root, &statement.tensors.root, sizeof again.tensors.root) == 0 &&
         again.has_native == statement.has_native &&
         memcmp(&again.values, &statement.values, sizeof again.values) == 0);
    swi_buf_free(&text);
    swi_statement_free(&statement);
    swi_statement_free(&again);
}

static void check_base64(const uint8_t *data, size_t size)
{
    swi_buf bytes = {0}, text = {0};
    sw_error err;
    if (swi_base64_read((const char *)data, size, &bytes, &err) != SW_OK)
        return;
    must(swi_base64_write(bytes.data, bytes.size, &text, &err) == SW_OK);
    must(text.size == size && (size == 0 || memcmp(text.data, data, size) == 0));
    swi_buf_free(&bytes);
    swi_buf_free(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static swi_key *key;
    sw_error err;
    if (key == NULL)
        must(swi_key_read_public(ed25519_public, strlen(ed25519_public), &key, &err) == SW_OK);
    check_key(data, size);
    check_file(data, size, key);
    check_statement(data, size);
    check_base64(data, size);
    return 0;
}
