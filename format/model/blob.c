/* The simplest kind of blob: a plain slice of a file. */
#include "model/blob.h"

#include <inttypes.h>

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
