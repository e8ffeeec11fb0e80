/*
 * The manifest of a native checkpoint: the bytes as they are and, so that a fuzzer gets past the
 * root, with the root that they should have. What is read is written; with no members but those of
 * this version it is the same text.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "native/manifest.h"
#include "native/manifest_internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool write_again(swi_native_manifest *m, swi_buf *out)
{
    sw_error err = {0};
    swi_digest root = m->root;
    if (swi_native_manifest_write(m, out, &err) != SW_OK)
        __builtin_trap();
    return memcmp(&root, &m->root, sizeof root) == 0;
}

/* Reads it; sw_status of that. */
static sw_status read_one(const uint8_t *data, size_t size)
{
    swi_native_manifest m;
    swi_buf first = {0}, second = {0};
    sw_error err = {0};
    sw_status status = swi_native_manifest_read(data, size, NULL, &m, &err);
    if (status != SW_OK) {
        if (err.text[0] == 0)
            __builtin_trap();
        return status;
    }
    bool is_same = write_again(&m, &first);
    swi_native_manifest_free(&m);
    if (is_same && (first.size != size || memcmp(first.data, data, size) != 0))
        __builtin_trap();
    if (!swi_native_manifest_looks(data, size))
        __builtin_trap();
    if (swi_native_manifest_read(first.data, first.size, NULL, &m, &err) != SW_OK ||
        !write_again(&m, &second) || second.size != first.size ||
        memcmp(first.data, second.data, first.size) != 0)
        __builtin_trap();
    swi_native_manifest_free(&m);
    swi_buf_free(&first);
    swi_buf_free(&second);
    return SW_OK;
}

static void read_with_root(const uint8_t *data, size_t size)
{
    static const char key[] = ",\"root\":\"";
    const uint8_t *at = memmem(data, size, key, sizeof key - 1);
    char digits[SWI_DIGEST_TEXT];
    swi_digest root;
    sw_error err = {0};
    if (at == NULL || size - (size_t)(at - data) <= SWI_MANIFEST_ROOT_BYTES)
        return;
    size_t root_at = (size_t)(at - data);
    uint8_t *copy = malloc(size);
    if (copy == NULL)
        return;
    memcpy(copy, data, size);
    if (swi_manifest_root(data, size, root_at, &root, &err) == SW_OK) {
        swi_digest_text(&root, digits);
        memcpy(copy + root_at + sizeof key - 1, digits, SWI_DIGEST_TEXT - 1);
        (void)read_one(copy, size);
    }
    free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    (void)swi_native_manifest_looks(data, size);
    if (read_one(data, size) == SW_ERR_CORRUPT)
        read_with_root(data, size);
    return 0;
}
