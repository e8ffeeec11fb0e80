/* The simplest kinds of blob: a plain slice of a file, and a constant in no file. */
#include "model/blob.h"

#include <inttypes.h>
#include <string.h>

#include "base/cursor.h"

/* ---- slice ----------------------------------------------------------------------------------- */

static sw_status slice_resolve(const swi_blob *blob, const swi_reader *reader,
                               const swi_blob_want *want, swi_extent *out, sw_error *err)
{
    (void)reader;
    (void)want;
    if (blob->bytes != blob->stored_bytes)
        return swi_fail(err, SW_ERR_CORRUPT,
                        "slice at %" PRIu64 ": needs %" PRIu64 " bytes, holds %" PRIu64,
                        blob->offset_bytes, blob->bytes, blob->stored_bytes);
    *out = (swi_extent){
        .file = blob->file,
        .offset_bytes = blob->offset_bytes,
        .stored_bytes = blob->stored_bytes,
        .dtype = SW_DTYPE_NONE,
    };
    return SW_OK;
}

/* Nothing vouches for the bytes, so there is nothing to read them for. */
static sw_status slice_check(const swi_blob *blob, const swi_reader *reader,
                             const swi_blob_label *label, uint8_t *buffer, size_t buffer_bytes,
                             sw_report *report, swi_blob_check *tally, sw_error *err)
{
    (void)reader;
    (void)label;
    (void)buffer;
    (void)buffer_bytes;
    (void)report;
    (void)err;
    tally->unchecked_bytes += blob->stored_bytes;
    return SW_OK;
}

const swi_blob_ops swi_blob_slice = {
    .kind = "slice",
    .resolve = slice_resolve,
    .check = slice_check,
    .load_value = NULL,
};

/* ---- constant -------------------------------------------------------------------------------- */

/* The pattern is kept where the offset is, its size in aux. */
swi_blob swi_blob_make_constant(const uint8_t *pattern, uint32_t pattern_bytes, uint64_t bytes)
{
    uint8_t all[SWI_PATTERN_MAX] = {0};
    memcpy(all, pattern, pattern_bytes);
    return (swi_blob){.ops = &swi_blob_constant,
                      .file = SWI_NO_FILE,
                      .aux = pattern_bytes,
                      .offset_bytes = swi_load_u64le(all),
                      .bytes = bytes};
}

static sw_status constant_resolve(const swi_blob *blob, const swi_reader *reader,
                                  const swi_blob_want *want, swi_extent *out, sw_error *err)
{
    (void)reader;
    uint32_t size = sw_dtype_bytes(want->dtype);
    if (blob->aux == 0 || blob->aux > SWI_PATTERN_MAX || size % blob->aux != 0)
        return swi_fail(err, SW_ERR_ARG,
                        "a constant of %" PRIu32 " bytes does not fill elements of %" PRIu32,
                        blob->aux, size);
    *out = (swi_extent){.file = SWI_NO_FILE, .dtype = SW_DTYPE_NONE, .pattern_bytes = blob->aux};
    for (uint32_t i = 0; i < SWI_PATTERN_MAX; i++)
        out->pattern[i] = (uint8_t)(blob->offset_bytes >> 8 * i);
    return SW_OK;
}

sw_status swi_blob_check_nothing(const swi_blob *blob, const swi_reader *reader,
                                 const swi_blob_label *label, uint8_t *buffer, size_t buffer_bytes,
                                 sw_report *report, swi_blob_check *tally, sw_error *err)
{
    (void)blob;
    (void)reader;
    (void)label;
    (void)buffer;
    (void)buffer_bytes;
    (void)report;
    (void)tally;
    (void)err;
    return SW_OK;
}

const swi_blob_ops swi_blob_constant = {
    .kind = "constant",
    .resolve = constant_resolve,
    .check = swi_blob_check_nothing,
    .load_value = NULL,
};
