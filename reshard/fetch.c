#include "fetch.h"

#include <inttypes.h>
#include <string.h>

#include "base/report.h"
#include "base/text.h"
#include "box.h"
#include "codec/crc32.h"
#include "model/dtype.h"

/* Contiguous reads go in steps that stay in the cache between the read and the CRC. */
#define READ_STEP ((size_t)512 << 10)
/* Runs from this size on are read straight into their place, one by one. */
#define DIRECT_RUN ((uint64_t)64 << 10)
/* Reading over a gap this small costs no more than another call. */
#define GAP_MAX ((size_t)4 << 10)

/* One move under way. */
typedef struct job {
    swi_fetch *fetch;
    const char *name; /* of the tensor */
    sw_dtype dtype;
    uint32_t element_bytes;
    uint32_t blob_id;
    const swi_blob *blob;
    const swi_blob_want *want;
    const swi_extent *extent;
    bool tracked; /* the record's CRC is followed */
    bool apart;   /* or it is compared apart from this, or not looked at: not counted here */
    bool wait;    /* for what another thread decodes; else the move is left: */
    bool left;
} job;

/* ---- CRCs ----------------------------------------------------------------------------------- */

static sw_status report_mismatch(const job *j, uint32_t found, sw_error *err)
{
    const sw_catalog *catalog = j->fetch->source->catalog;
    const swi_finding_in in = {
        .severity = SW_DEFECT,
        .status = SW_ERR_CORRUPT,
        .code = "crc-mismatch",
        .file = swi_catalog_path(catalog, j->blob->file),
        .tensor = j->name,
        .has_offset = true,
        .offset_bytes = j->extent->offset_bytes,
    };
    sw_status status = swi_report_add(j->fetch->report, &in, err,
                                      "CRC-32 of the record's %" PRIu64 " bytes is %08" PRIx32
                                      ", expected %08" PRIx32,
                                      j->extent->stored_bytes, found, j->extent->crc32);
    if (status != SW_OK)
        return status;
    return swi_fail_at(err, SW_ERR_CORRUPT, "", j->extent->offset_bytes,
                       "CRC-32 of its record at %" PRIu64 " is %08" PRIx32 ", expected %08" PRIx32,
                       j->extent->offset_bytes, found, j->extent->crc32);
}

/* `size` bytes of the record from `at` on passed, with this CRC. */
static sw_status note_passed(const job *j, uint64_t at, uint64_t size, uint32_t crc, sw_error *err)
{
    j->fetch->tally->read_bytes += size;
    if (!j->tracked) {
        if (!j->apart)
            j->fetch->tally->unchecked_bytes += size;
        return SW_OK;
    }
    const swi_crc_part part = {
        .blob = j->blob_id,
        .expected = j->extent->crc32,
        .record_bytes = j->extent->stored_bytes,
        .at = at,
        .size = size,
        .crc = crc,
    };
    swi_crc_result result;
    uint32_t found;
    sw_status status = swi_crc_track_add(j->fetch->track, &part, &result, &found, err);
    if (status != SW_OK || result == SWI_CRC_MORE)
        return status;
    if (result == SWI_CRC_WRONG)
        return report_mismatch(j, found, err);
    j->fetch->tally->checked_bytes += j->extent->stored_bytes;
    return SW_OK;
}

/* ---- dense records --------------------------------------------------------------------------- */

static sw_status read_file(const job *j, uint64_t offset, void *data, size_t size, sw_error *err)
{
    const swi_reader *reader = j->fetch->source->reader;
    return reader->read(reader, j->extent->file, offset, data, size, err);
}

/* A contiguous run of the record straight into its place. */
static sw_status read_run(const job *j, uint64_t at, uint8_t *out, uint64_t size, sw_error *err)
{
    uint32_t crc = 0;
    for (uint64_t done = 0; done < size;) {
        size_t n = size - done < READ_STEP ? (size_t)(size - done) : READ_STEP;
        sw_status status = read_file(j, j->extent->offset_bytes + at + done, out + done, n, err);
        if (status != SW_OK)
            return status;
        if (j->tracked)
            crc = swi_crc32(crc, out + done, n);
        if (j->extent->swap)
            swi_swap_elements(out + done, n, j->dtype);
        done += n;
    }
    return note_passed(j, at, size, crc, err);
}

/* A span through the bounce buffer. With gaps in it, it says nothing about the record's CRC. */
static sw_status read_span(const job *j, const swi_span *span, uint8_t *bounce, uint8_t *window,
                           sw_error *err)
{
    uint64_t at = (uint64_t)span->far;
    sw_status status = read_file(j, j->extent->offset_bytes + at, bounce, span->bytes, err);
    if (status != SW_OK)
        return status;
    if (j->tracked && span->gapless) {
        status = note_passed(j, at, span->bytes, swi_crc32(0, bounce, span->bytes), err);
    } else {
        j->fetch->tally->read_bytes += span->bytes;
        if (!j->apart)
            j->fetch->tally->unchecked_bytes += span->bytes;
    }
    if (status != SW_OK)
        return status;
    if (j->extent->swap)
        swi_swap_elements(bounce, span->bytes / j->element_bytes * j->element_bytes, j->dtype);
    swi_box_copy_near(&span->part, window, bounce);
    return SW_OK;
}

/* Whether the box's elements lie whole elements apart, so that a span is made of such. */
static bool steps_whole(const swi_box *box)
{
    for (uint32_t k = 0; k < box->axes; k++)
        if (box->far_stride[k] % box->element_bytes != 0)
            return false;
    return true;
}

/* A box whose far side counts from the start of the record. */
static sw_status read_box(const job *j, swi_box *box, uint8_t *bounce, size_t bounce_bytes,
                          uint8_t *window, sw_error *err)
{
    swi_spans walk;
    swi_span span;
    sw_status status = SW_OK;
    swi_box_normalise(box);
    bool direct = swi_box_has_runs(box) && (box->axes <= 1 || swi_box_run_bytes(box) >= DIRECT_RUN);
    if (direct)
        swi_spans_begin(&walk, box, SIZE_MAX / 2, 0, true);
    else if (j->extent->swap && !steps_whole(box))
        swi_spans_begin(&walk, box, j->element_bytes, 0, false);
    else
        swi_spans_begin(&walk, box, bounce_bytes, GAP_MAX, false);
    while (status == SW_OK && swi_spans_next(&walk, &span)) {
        if (direct)
            status = read_run(j, (uint64_t)span.far, window + span.part.near_base, span.bytes, err);
        else
            status = read_span(j, &span, bounce, window, err);
    }
    return status;
}

/* ---- strided records --------------------------------------------------------------------------
 */

/* The dense bytes [at, at + size) of a strided record, gathered into `out`. */
static sw_status gather(const job *j, uint64_t at, uint64_t size, uint8_t *bounce,
                        size_t bounce_bytes, uint8_t *out, sw_error *err)
{
    swi_piece whole, boxes[SWI_INTERVAL_MAX];
    uint64_t lo = at / j->element_bytes, hi = lo + size / j->element_bytes;
    swi_extent_piece(j->extent, &whole);
    size_t count = swi_piece_in_interval(&whole, lo, hi, boxes);
    sw_status status = SW_OK;
    for (size_t i = 0; i < count && status == SW_OK; i++) {
        const swi_piece *p = &boxes[i];
        swi_box box = {
            .axes = p->axes,
            .element_bytes = j->element_bytes,
            .far_base = p->base_bytes,
            .near_base = (int64_t)((swi_piece_first(p) - lo) * j->element_bytes),
        };
        int64_t near = j->element_bytes;
        for (uint32_t k = p->axes; k > 0; k--) {
            box.length[k - 1] = p->length[k - 1];
            box.far_stride[k - 1] = p->stride_bytes[k - 1];
            box.near_stride[k - 1] = near;
            near *= p->view[k - 1];
        }
        status = read_box(j, &box, bounce, bounce_bytes, out, err);
    }
    return status;
}

/* A box whose far side counts dense bytes: each dense run of it is gathered, then spread out. */
static sw_status read_strided(const job *j, swi_box *box, uint8_t *window, sw_error *err)
{
    size_t half = j->fetch->bounce_bytes / 2;
    uint8_t *dense = j->fetch->bounce + half;
    swi_spans walk;
    swi_span span;
    sw_status status = SW_OK;
    swi_box_normalise(box);
    if (box->far_base % j->element_bytes != 0 || !steps_whole(box))
        return swi_fail(err, SW_ERR_UNSUPPORTED, "part of a strided record off its elements");
    bool direct = swi_box_has_runs(box) && box->axes <= 1;
    swi_spans_begin(&walk, box, direct ? SIZE_MAX / 2 : half / 16 * 16, 0, false);
    while (status == SW_OK && swi_spans_next(&walk, &span)) {
        uint8_t *out = direct ? window + span.part.near_base : dense;
        status = gather(j, (uint64_t)span.far, span.bytes, j->fetch->bounce, half, out, err);
        if (status == SW_OK && !direct)
            swi_box_copy_near(&span.part, window, dense);
    }
    return status;
}

/* ---- encoded records --------------------------------------------------------------------------
 */

/* Also a finding, when it is the record that is at fault. */
static sw_status report_undecoded(const job *j, sw_error *err)
{
    sw_error cause = *err;
    (void)swi_error_prefix(&cause, "record of %" PRIu64 " bytes at %" PRIu64,
                           j->extent->stored_bytes, j->extent->offset_bytes);
    swi_error_shift(&cause, j->extent->offset_bytes);
    if (!cause.has_offset) {
        cause.has_offset = true;
        cause.offset_bytes = j->extent->offset_bytes;
    }
    sw_status status = SW_OK;
    if (!swi_could_not_work(cause.status)) {
        const swi_finding_in in = {
            .severity = SW_DEFECT,
            .status = cause.status,
            .code = "undecodable",
            .file = swi_catalog_path(j->fetch->source->catalog, j->blob->file),
            .tensor = j->name,
            .has_offset = true,
            .offset_bytes = cause.offset_bytes,
        };
        status = swi_report_add(j->fetch->report, &in, err, "%s", cause.text);
    }
    if (status == SW_OK)
        *err = cause;
    return err->status;
}

/* All of it, into `out` of blob->bytes. */
static sw_status decode_record(const job *j, uint8_t *out, sw_error *err)
{
    swi_fetch *f = j->fetch;
    sw_error error = {0};
    size_t size = (size_t)j->extent->stored_bytes;
    if (size > f->bounce_bytes)
        return swi_fail(err, SW_ERR_LIMIT, "encoded record of %zu bytes, room for %zu", size,
                        f->bounce_bytes);
    sw_status status = read_file(j, j->extent->offset_bytes, f->bounce, size, err);
    if (status != SW_OK)
        return status;
    f->tally->read_bytes += size;
    if (j->blob->ops->decode(j->blob, f->bounce, out, &error) != SW_OK) {
        status = report_undecoded(j, &error);
        if (err != NULL)
            *err = error;
        return status;
    }
    /* Counted once, however often it is decoded. */
    if (f->track == NULL || swi_crc_track_claim(f->track, j->blob_id))
        f->tally->checked_bytes += size;
    return SW_OK;
}

/* Whether the box is all of the dense bytes, in one run near. */
static bool is_whole(const job *j, const swi_box *box)
{
    return box->axes <= 1 && box->far_base == 0 && swi_box_run_bytes(box) == j->blob->bytes;
}

static uint64_t box_bytes(const swi_box *box)
{
    uint64_t bytes = box->element_bytes;
    for (uint32_t k = 0; k < box->axes; k++)
        bytes *= (uint64_t)box->length[k];
    return bytes;
}

/* What is asked for as a whole is decoded into its place, unless it is there already. */
static sw_status read_encoded(job *j, swi_box *box, uint8_t *window, sw_error *err)
{
    swi_decoded *decoded = j->fetch->source->decoded;
    uint8_t *bytes = NULL;
    uint32_t slot = 0;
    sw_status status = SW_OK;
    if (decoded == NULL)
        return swi_fail(err, SW_ERR_ARG, "no room for decoded records");
    swi_box_normalise(box);
    const swi_decoded_ask ask = {
        .blob = j->blob_id,
        .raw_bytes = j->blob->bytes,
        .find_only = is_whole(j, box),
        .wait = j->wait,
    };
    switch (swi_decoded_get(decoded, &ask, &slot, &bytes)) {
    case SWI_DECODED_BUSY:
        j->left = true;
        return SW_OK;
    case SWI_DECODED_ABSENT:
        return decode_record(j, window + box->near_base, err);
    case SWI_DECODED_TO_FILL:
        status = decode_record(j, bytes, err);
        swi_decoded_filled(decoded, slot, status == SW_OK);
        break;
    case SWI_DECODED_HELD:
        break;
    }
    if (status != SW_OK)
        return status;
    swi_box_copy_near(box, window, bytes);
    swi_decoded_release(decoded, slot, box_bytes(box));
    return SW_OK;
}

/* ---- constants --------------------------------------------------------------------------------
 */

/* Every element is the same where the box steps whole patterns. */
static sw_status fill_constant(const job *j, swi_box *box, uint8_t *window, sw_error *err)
{
    uint8_t element[16]; /* the largest type */
    const int64_t period = j->extent->pattern_bytes;
    for (uint32_t k = 0; k < box->axes; k++) {
        if (box->length[k] > 1 && box->far_stride[k] % period != 0)
            return swi_fail(err, SW_ERR_UNSUPPORTED, "part of a constant off its pattern");
        box->far_stride[k] = 0;
    }
    for (uint32_t i = 0; i < j->element_bytes; i++)
        element[i] = j->extent->pattern[(box->far_base + i) % period];
    box->far_base = 0;
    swi_box_normalise(box);
    swi_box_copy_near(box, window, element);
    return SW_OK;
}

/* ---- a move -----------------------------------------------------------------------------------
 */

static sw_status run_move(job *j, const swi_move *move, uint8_t *window, sw_error *err)
{
    const swi_extent *extent = j->extent;
    swi_fetch *f = j->fetch;
    swi_box box = {
        .axes = move->axes,
        .element_bytes = j->element_bytes,
        .far_base = move->blob_base,
        .near_base = move->window_base,
    };
    memcpy(box.length, move->length, sizeof box.length);
    memcpy(box.far_stride, move->blob_stride, sizeof box.far_stride);
    memcpy(box.near_stride, move->window_stride, sizeof box.near_stride);
    if (extent->pattern_bytes > 0)
        return fill_constant(j, &box, window, err);
    if (extent->encoded)
        return read_encoded(j, &box, window, err);
    /* A strided record, or a part of a larger one, does not pass in pieces that add up. */
    j->tracked = f->track != NULL && extent->has_crc && !extent->strided &&
                 extent->start_bytes == 0 && j->blob->bytes == extent->stored_bytes;
    j->apart = extent->has_crc && !j->tracked && !(f->track != NULL && f->only_passing);
    if (j->apart && f->track != NULL && swi_crc_track_claim(f->track, j->blob_id)) {
        const swi_blob_label label = {
            .file = swi_catalog_path(f->source->catalog, j->blob->file),
            .name = j->name,
            .want = *j->want,
        };
        sw_status status = swi_fetch_check(f, j->blob_id, &label, err);
        if (status != SW_OK)
            return status;
    }
    if (extent->strided)
        return read_strided(j, &box, window, err);
    box.far_base += (int64_t)extent->start_bytes;
    return read_box(j, &box, f->bounce, f->bounce_bytes, window, err);
}

/* *left (NULL: it is made in any case): another thread is at what it needs. */
static sw_status fetch_move(swi_fetch *fetch, uint32_t tensor, const swi_move *move,
                            uint8_t *window, bool *left, sw_error *err)
{
    const sw_catalog *catalog = fetch->source->catalog;
    sw_tensor_info info;
    swi_blob blob;
    swi_extent extent;
    swi_quoted room;
    (void)sw_catalog_tensor(catalog, tensor, &info);
    swi_blob_want want;
    swi_piece_want(catalog, tensor, move->piece, &want);
    sw_status status = swi_extents_get(fetch->extents, move->blob, &want, &blob, &extent, err);
    if (status != SW_OK) {
        (void)swi_error_prefix(err, "tensor \"%s\"", swi_quote_str(&room, info.name));
        return status;
    }
    job j = {
        .fetch = fetch,
        .name = info.name,
        .dtype = info.dtype,
        .element_bytes = sw_dtype_bytes(info.dtype),
        .blob_id = move->blob,
        .blob = &blob,
        .want = &want,
        .extent = &extent,
        .wait = left == NULL,
    };
    status = run_move(&j, move, window, err);
    if (left != NULL)
        *left = j.left;
    if (status != SW_OK) {
        (void)swi_prefix_file(catalog, blob.file, err);
        (void)swi_error_prefix(err, "tensor \"%s\"", swi_quote_str(&room, info.name));
    }
    return status;
}

sw_status swi_fetch_moves(swi_fetch *fetch, uint32_t tensor, swi_moves *moves, uint8_t *window,
                          sw_error *err)
{
    sw_status status = SW_OK;
    size_t left_count = 0;
    for (size_t i = 0; i < moves->count && status == SW_OK; i++) {
        bool left = false;
        status =
            fetch_move(fetch, tensor, &moves->items[i], window, moves->ordered ? NULL : &left, err);
        if (left)
            moves->items[left_count++] = moves->items[i];
    }
    for (size_t i = 0; i < left_count && status == SW_OK; i++)
        status = fetch_move(fetch, tensor, &moves->items[i], window, NULL, err);
    return status;
}

/* ---- once more ---------------------------------------------------------------------------------
 */

/* Findings of a check go to the real report; the first defect becomes the error. */
static sw_status pass_on(swi_fetch *f, const sw_report *found, const swi_blob_label *label,
                         sw_error *err)
{
    sw_error first = {0};
    for (size_t i = 0; i < sw_report_count(found); i++) {
        const sw_finding *finding = sw_report_at(found, i);
        const swi_finding_in in = {
            .severity = finding->severity,
            .status = finding->status,
            .code = finding->code,
            .file = label->file,
            .tensor = label->name,
            .has_offset = finding->has_offset,
            .offset_bytes = finding->offset_bytes,
        };
        sw_status status = swi_report_add(f->report, &in, err, "%s", finding->message);
        if (status != SW_OK)
            return status;
        if (finding->severity >= SW_DEFECT && first.status == SW_OK)
            (void)swi_fail_at(&first, finding->status != SW_OK ? finding->status : SW_ERR_CORRUPT,
                              "", finding->offset_bytes, "%s: %s", finding->file, finding->message);
    }
    if (first.status != SW_OK && err != NULL)
        *err = first;
    return first.status;
}

sw_status swi_fetch_check(swi_fetch *fetch, uint32_t blob_id, const swi_blob_label *label,
                          sw_error *err)
{
    const sw_catalog *catalog = fetch->source->catalog;
    sw_report *found = NULL;
    swi_blob blob;
    swi_blob_check tally = {0};
    swi_catalog_blob(catalog, blob_id, &blob);
    sw_status status = sw_report_make(&found, err);
    if (status != SW_OK)
        return status;
    status = blob.ops->check(&blob, fetch->source->reader, label, fetch->bounce,
                             fetch->bounce_bytes, found, &tally, err);
    if (status == SW_OK)
        status = pass_on(fetch, found, label, err);
    if (status != SW_OK)
        (void)swi_prefix_file(catalog, blob.file, err);
    fetch->tally->checked_bytes += tally.checked_bytes;
    fetch->tally->unchecked_bytes += tally.unchecked_bytes;
    sw_report_free(found);
    return status;
}
