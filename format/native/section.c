#include "native/section.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/checked.h"
#include "base/text.h"

sw_status swi_native_digest_differs(const char *clause, uint64_t at, const char *what,
                                    const swi_digest *found, const swi_digest *expected,
                                    sw_error *err)
{
    char is[SWI_DIGEST_TEXT], must[SWI_DIGEST_TEXT];
    swi_digest_text(found, is);
    swi_digest_text(expected, must);
    return swi_fail_at(err, SW_ERR_CORRUPT, clause, at, "%s has digest %s, expected %s", what, is,
                       must);
}

typedef struct place {
    const swi_file *file;
    uint64_t at;
} place;

static sw_status read_part(const void *ctx, uint64_t offset, void *data, size_t size, sw_error *err)
{
    const place *from = ctx;
    return swi_file_read(from->file, from->at + offset, data, size, err);
}

sw_status swi_native_section_read(const swi_file *file, const swi_native_section *section,
                                  const sw_limits *limits, uint32_t threads, uint8_t **out,
                                  sw_error *err)
{
    const sw_limits resolved = sw_limits_resolve(limits);
    const place from = {.file = file, .at = section->at};
    void *data = NULL;
    size_t size;
    swi_digest digest;
    if (section->bytes > resolved.metadata_bytes || !swi_u64_to_size(section->bytes, &size))
        return swi_fail_at(err, SW_ERR_LIMIT, "NAT-10", section->at,
                           "%s is of %" PRIu64 " bytes, the limit is %" PRIu64, section->what,
                           section->bytes, resolved.metadata_bytes);
    if (!swi_range_inside(section->at, section->bytes, swi_file_bytes(file)))
        return swi_fail_at(err, SW_ERR_CORRUPT, "NAT-4", section->at,
                           "%s of %" PRIu64 " bytes does not lie in a file of %" PRIu64,
                           section->what, section->bytes, swi_file_bytes(file));
    sw_status status = size > 0 ? swi_alloc_array(size, 1, &data, err) : SW_OK;
    if (status != SW_OK)
        return status;
    status = swi_section_load(read_part, &from, data, size, threads, &digest, err);
    if (status == SW_OK && memcmp(&digest, &section->digest, sizeof digest) != 0)
        status = swi_native_digest_differs("NAT-4", section->at, section->what, &digest,
                                           &section->digest, err);
    if (status != SW_OK) {
        free(data);
        return status;
    }
    *out = data;
    return SW_OK;
}

static sw_status read_all(const swi_file *opened, const swi_native_file *file,
                          const sw_limits *limits, uint32_t threads, uint8_t **out, sw_error *err)
{
    const swi_native_section all = {
        .what = "its content", .bytes = file->bytes, .digest = file->digest};
    uint64_t bytes = swi_file_bytes(opened);
    if (bytes != file->bytes)
        return swi_fail_at(err, SW_ERR_CORRUPT, "NAT-3", bytes,
                           "holds %" PRIu64 " bytes, the manifest says %" PRIu64, bytes,
                           file->bytes);
    return swi_native_section_read(opened, &all, limits, threads, out, err);
}

sw_status swi_native_file_read(const swi_store *store, const swi_native_file *file,
                               const sw_limits *limits, uint32_t threads, uint8_t **out,
                               sw_error *err)
{
    swi_file *opened;
    swi_quoted q;
    sw_status status = swi_store_open_read(store, file->file, &opened, err);
    if (status != SW_OK)
        return status; /* names the file itself */
    status = read_all(opened, file, limits, threads, out, err);
    swi_file_close(opened);
    if (status != SW_OK)
        return swi_error_prefix(err, "%s", swi_quote_str(&q, file->file));
    return SW_OK;
}
