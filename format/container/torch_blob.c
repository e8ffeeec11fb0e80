/* The parts of a torch.save file as blobs: storages, and the frame around them. */
#include <inttypes.h>

#include "codec/crc32.h"
#include "container/torch_internal.h"
#include "model/dtype.h"

static sw_status resolve(const swi_blob *blob, sw_dtype dtype, bool swapped, swi_extent *out,
                         sw_error *err)
{
    if (blob->bytes != blob->stored_bytes)
        return swi_fail_at(err, SW_ERR_CORRUPT, "TF-6", blob->offset_bytes,
                           "a storage of %" PRIu64 " bytes in a record of %" PRIu64, blob->bytes,
                           blob->stored_bytes);
    *out = (swi_extent){.file = blob->file,
                        .offset_bytes = blob->offset_bytes,
                        .stored_bytes = blob->stored_bytes,
                        .has_crc = blob->aux != 0,
                        .crc32 = blob->aux,
                        .swap = swapped && sw_dtype_swap_bytes(dtype) > 1};
    return SW_OK;
}

static sw_status storage_resolve(const swi_blob *blob, const swi_reader *reader,
                                 const swi_blob_want *want, swi_extent *out, sw_error *err)
{
    (void)reader;
    return resolve(blob, want->dtype, false, out, err);
}

static sw_status swapped_resolve(const swi_blob *blob, const swi_reader *reader,
                                 const swi_blob_want *want, swi_extent *out, sw_error *err)
{
    (void)reader;
    return resolve(blob, want->dtype, true, out, err);
}

static sw_status crc_of(const swi_blob *blob, const swi_reader *reader, uint8_t *buffer,
                        size_t buffer_bytes, uint32_t *out, sw_error *err)
{
    uint32_t crc = 0;
    for (uint64_t done = 0; done < blob->stored_bytes;) {
        uint64_t left = blob->stored_bytes - done;
        size_t n = left < buffer_bytes ? (size_t)left : buffer_bytes;
        sw_status st = reader->read(reader, blob->file, blob->offset_bytes + done, buffer, n, err);
        if (st != SW_OK)
            return st;
        crc = swi_crc32(crc, buffer, n);
        done += n;
    }
    *out = crc;
    return SW_OK;
}

static sw_status storage_check(const swi_blob *blob, const swi_reader *reader,
                               const swi_blob_label *label, uint8_t *buffer, size_t buffer_bytes,
                               sw_report *report, swi_blob_check *tally, sw_error *err)
{
    const swi_torch_checking c = {
        .reader = reader, .file = blob->file, .label = label, .report = report};
    uint32_t real;
    sw_error cause = {0};
    if (blob->aux == 0) {
        tally->unchecked_bytes += blob->stored_bytes;
        return SW_OK;
    }
    if (crc_of(blob, reader, buffer, buffer_bytes, &real, &cause) != SW_OK)
        return swi_torch_finding(&c, "bad-archive", &cause, err);
    if (real == blob->aux) {
        tally->checked_bytes += blob->stored_bytes;
        return SW_OK;
    }
    tally->differing_bytes += blob->stored_bytes;
    swi_finding_in in = {.severity = SW_DEFECT,
                         .status = SW_ERR_CORRUPT,
                         .code = "crc-mismatch",
                         .file = label->file,
                         .tensor = label->name,
                         .has_offset = true,
                         .offset_bytes = blob->offset_bytes};
    return swi_report_add(report, &in, err,
                          "its storage (%" PRIu64 " bytes at %" PRIu64 "): its CRC-32 is %08" PRIx32
                          ", the archive says %08" PRIx32,
                          blob->stored_bytes, blob->offset_bytes, real, blob->aux);
}

/* The frame holds no elements. */
static sw_status frame_resolve(const swi_blob *blob, const swi_reader *reader,
                               const swi_blob_want *want, swi_extent *out, sw_error *err)
{
    (void)blob;
    (void)reader;
    (void)want;
    (void)out;
    return swi_fail(err, SW_ERR_ARG, "the frame of a torch.save file holds no elements");
}

static sw_status frame_check(const swi_blob *blob, const swi_reader *reader,
                             const swi_blob_label *label, uint8_t *buffer, size_t buffer_bytes,
                             sw_report *report, swi_blob_check *tally, sw_error *err)
{
    swi_torch_checking c = {.reader = reader,
                            .file = blob->file,
                            .bytes = blob->bytes,
                            .label = label,
                            .buffer = buffer,
                            .buffer_bytes = buffer_bytes,
                            .report = report,
                            .tally = tally};
    swi_torch_file *tf = NULL;
    swi_zip *zip = NULL;
    uint64_t findings = 0;
    sw_error cause = {0};
    swi_pickle_unsafe seen;
    sw_status st = swi_torch_open_file(reader, blob->file, blob->bytes, &seen, &tf, &cause);
    if (st == SW_OK && tf->legacy) {
        tally->unchecked_bytes += blob->stored_bytes;
        goto done;
    }
    if (st == SW_OK)
        st = swi_zip_open(reader, blob->file, 0, blob->bytes, &zip, &cause);
    c.but_storages = tf;
    if (st != SW_OK)
        st = swi_torch_finding(&c, "bad-archive", &cause, err);
    else
        st = swi_torch_check_records(&c, zip, &findings, err);
done:
    swi_zip_free(zip);
    swi_torch_free(tf);
    return st;
}

const swi_blob_ops swi_blob_torch_storage = {
    .kind = "torch-storage",
    .resolve = storage_resolve,
    .check = storage_check,
};

const swi_blob_ops swi_blob_torch_storage_swapped = {
    .kind = "torch-storage-swapped",
    .resolve = swapped_resolve,
    .check = storage_check,
};

const swi_blob_ops swi_blob_torch_frame = {
    .kind = "torch-frame",
    .resolve = frame_resolve,
    .check = frame_check,
};

const swi_blob_ops swi_blob_torch_value = {
    .kind = "torch-value",
    .resolve = frame_resolve,
    .check = swi_blob_check_nothing,
};
