/*
 * The items of `.distcp` files as blobs. Plain: the torch.save archive lies in the file. zstd: the
 * archive is one frame; tensors are decoded to the scratch file once, values and checks read the
 * frame as a stream.
 */
#include "container/dcp_store.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/checked.h"
#include "codec/zstd.h"
#include "container/torch_internal.h"

/* What a zstd item may decode to beyond its tensor: headers, data.pkl, padding. */
#define SLACK_BYTES ((uint64_t)16 << 20)

/* The archive of an item, wherever its bytes are. */
typedef struct place {
    const swi_reader *reader;
    uint32_t file;
    uint64_t offset, bytes;
    swi_zstd_view *view;
} place;

/* Decoded sizes are bounded by what the index says of the tensor, or by the limit on metadata. */
static uint64_t decoded_max(const swi_blob *blob, const swi_reader *reader)
{
    uint64_t most;
    if (blob->bytes == UINT64_MAX)
        return reader->limits.metadata_bytes;
    if (!swi_mul_u64(blob->bytes, 2, &most) || !swi_add_u64(most, SLACK_BYTES, &most))
        return UINT64_MAX;
    return most;
}

static sw_status check_range(const swi_blob *blob, sw_error *err)
{
    uint64_t end;
    if (blob->aux != SWI_DCP_PLAIN && blob->aux != SWI_DCP_ZSTD)
        return swi_fail(err, SW_ERR_ARG, "a DCP item of unknown kind %" PRIu32, blob->aux);
    if (!swi_add_u64(blob->offset_bytes, blob->stored_bytes, &end))
        return swi_fail_at(err, SW_ERR_CORRUPT, "DCP-11", blob->offset_bytes,
                           "item of %" PRIu64 " bytes at %" PRIu64 " lies outside any file",
                           blob->stored_bytes, blob->offset_bytes);
    return SW_OK;
}

/* Decoded bytes beyond the bound contradict the index. */
static sw_status too_large(const swi_blob *blob, sw_status st, sw_error *err)
{
    if (st != SW_ERR_LIMIT || blob->bytes == UINT64_MAX)
        return st;
    return swi_fail_at(err, SW_ERR_CORRUPT, "DCP-11", blob->offset_bytes,
                       "the item decodes to more than its tensor of %" PRIu64 " bytes can need",
                       blob->bytes);
}

/* Opens the bytes of an item for reading, zstd as a stream. */
static sw_status open_place(const swi_blob *blob, const swi_reader *reader, place *p, sw_error *err)
{
    sw_status st = check_range(blob, err);
    if (st != SW_OK)
        return st;
    *p = (place){.reader = reader,
                 .file = blob->file,
                 .offset = blob->offset_bytes,
                 .bytes = blob->stored_bytes};
    if (blob->aux == SWI_DCP_PLAIN)
        return SW_OK;
    st = swi_zstd_view_open(reader, blob->file, blob->offset_bytes, blob->stored_bytes,
                            decoded_max(blob, reader), &p->view, err);
    if (st != SW_OK)
        return too_large(blob, st, err);
    *p = (place){.reader = swi_zstd_view_reader(p->view),
                 .bytes = swi_zstd_view_bytes(p->view),
                 .view = p->view};
    return SW_OK;
}

/* ---- resolve ----------------------------------------------------------------------------- */

/* Where decoded bytes go. */
typedef struct scratch {
    const swi_reader *reader;
    uint64_t begin, size, used;
} scratch;

static sw_status to_scratch(void *ctx, const uint8_t *data, size_t size, sw_error *err)
{
    scratch *s = ctx;
    if (size > s->size - s->used)
        return swi_fail(err, SW_ERR_CORRUPT, "zstd: the frame changed while it was read");
    sw_status st = s->reader->scratch_write(s->reader, s->begin + s->used, data, size, err);
    s->used += size;
    return st;
}

static sw_status count_only(void *ctx, const uint8_t *data, size_t size, sw_error *err)
{
    (void)data, (void)err;
    *(uint64_t *)ctx += size;
    return SW_OK;
}

/* Decodes the item to the scratch file: once to know its size, once for good. */
static sw_status decode_to_scratch(const swi_blob *blob, const swi_reader *reader, place *p,
                                   sw_error *err)
{
    scratch s = {.reader = reader};
    uint64_t most = decoded_max(blob, reader);
    sw_status st = swi_zstd_decode(reader, blob->file, blob->offset_bytes, blob->stored_bytes, most,
                                   count_only, &s.size, err);
    if (st == SW_OK)
        st = reader->scratch_take(reader, s.size, &s.begin, err);
    if (st == SW_OK)
        st = swi_zstd_decode(reader, blob->file, blob->offset_bytes, blob->stored_bytes, most,
                             to_scratch, &s, err);
    if (st != SW_OK)
        return too_large(blob, st, err);
    *p = (place){.reader = reader, .file = SWI_FILE_SCRATCH, .offset = s.begin, .bytes = s.used};
    return SW_OK;
}

static void fill_extent(const swi_torch_file *tf, const swi_torch_tensor *t, uint32_t file,
                        swi_extent *out)
{
    const swi_torch_storage *s = swi_torch_storage_at(tf, t->storage);
    uint32_t element = sw_dtype_bytes(t->dtype);
    *out = (swi_extent){.file = file,
                        .offset_bytes = s->offset_bytes,
                        .stored_bytes = s->bytes,
                        .has_crc = s->has_crc,
                        .crc32 = s->crc32,
                        .swap = swi_torch_swapped(tf) && sw_dtype_swap_bytes(t->dtype) > 1,
                        .dtype = t->dtype,
                        .strided = !t->dense,
                        .start_bytes = t->start_elements * element,
                        .axes = t->axes};
    for (uint32_t k = 0; k < t->axes; k++) {
        out->shape[k] = t->shape[k];
        /* Of an axis of length 1 the stride is never used and may be anything. */
        out->stride_bytes[k] =
            t->shape[k] > 1 && t->elements > 0 ? t->stride_elements[k] * (int64_t)element : 0;
    }
}

static void shape_text(uint32_t axes, const int64_t *shape, char text[256])
{
    size_t at = 0;
    text[at++] = '[';
    for (uint32_t k = 0; k < axes; k++)
        at += (size_t)snprintf(text + at, 256 - at, "%s%" PRId64, k > 0 ? ", " : "", shape[k]);
    text[at++] = ']';
    text[at] = '\0';
}

/* As many bytes in another shape are the elements of another box. */
static sw_status check_shape(const swi_blob *blob, const swi_blob_want *want,
                             const swi_torch_tensor *t, sw_error *err)
{
    char found[256], expected[256];
    bool same = t->axes == want->axes;
    for (uint32_t k = 0; same && k < t->axes; k++)
        same = t->shape[k] == want->shape[k];
    if (same || !want->has_shape)
        return SW_OK;
    shape_text(t->axes, t->shape, found);
    shape_text(want->axes, want->shape, expected);
    return swi_fail_at(err, SW_ERR_CORRUPT, "DCP-8", blob->offset_bytes,
                       "the item holds a tensor of shape %s, the index says %s", found, expected);
}

/* The archive's object is a plain tensor of the dtype, size and shape of the index (DCP-8). */
static sw_status check_tensor(const swi_torch_file *tf, const swi_blob *blob,
                              const swi_blob_want *want, swi_torch_tensor *t, sw_error *err)
{
    const swi_pickle_unsafe *unsafe = swi_torch_unsafe(tf);
    if (unsafe->total > 0)
        return swi_fail_at(err, SW_ERR_UNSAFE, "DCP-8", unsafe->at[0].offset_bytes,
                           "data.pkl of the item calls %s", unsafe->at[0].name);
    sw_status st = swi_torch_get_tensor(tf, swi_torch_root(tf), t, err);
    if (st != SW_OK)
        return st;
    if (want->dtype != SW_DTYPE_NONE && t->dtype != want->dtype)
        return swi_fail_at(err, SW_ERR_CORRUPT, "DCP-8", blob->offset_bytes,
                           "the item holds %s, the index says %s", sw_dtype_name(t->dtype),
                           sw_dtype_name(want->dtype));
    uint64_t bytes = t->elements * sw_dtype_bytes(t->dtype);
    if (blob->bytes != UINT64_MAX && bytes != blob->bytes)
        return swi_fail_at(err, SW_ERR_CORRUPT, "DCP-8", blob->offset_bytes,
                           "the item holds a tensor of %" PRIu64 " bytes, the index says %" PRIu64,
                           bytes, blob->bytes);
    return check_shape(blob, want, t, err);
}

static sw_status item_resolve(const swi_blob *blob, const swi_reader *reader,
                              const swi_blob_want *want, swi_extent *out, sw_error *err)
{
    place p = {.reader = reader,
               .file = blob->file,
               .offset = blob->offset_bytes,
               .bytes = blob->stored_bytes};
    swi_torch_file *tf = NULL;
    swi_torch_tensor t;
    sw_status st = check_range(blob, err);
    if (st == SW_OK && blob->aux == SWI_DCP_ZSTD)
        st = decode_to_scratch(blob, reader, &p, err);
    if (st == SW_OK)
        st = swi_torch_open(reader, p.file, p.offset, p.bytes, &tf, err);
    if (st == SW_OK)
        st = check_tensor(tf, blob, want, &t, err);
    if (st == SW_OK)
        fill_extent(tf, &t, p.file, out);
    swi_torch_free(tf);
    return st;
}

/* ---- check ------------------------------------------------------------------------------- */

static sw_status item_check(const swi_blob *blob, const swi_reader *reader,
                            const swi_blob_label *label, uint8_t *buffer, size_t buffer_bytes,
                            sw_report *report, swi_blob_check *tally, sw_error *err)
{
    place p = {0};
    swi_torch_file *tf = NULL;
    swi_torch_tensor t;
    sw_error cause = {0};
    bool is_zip = true;
    swi_torch_checking c = {.reader = reader,
                            .file = blob->file,
                            .label = label,
                            .buffer = buffer,
                            .buffer_bytes = buffer_bytes,
                            .report = report,
                            .tally = tally,
                            .decoded = blob->aux == SWI_DCP_ZSTD,
                            .frame_offset = blob->offset_bytes};
    sw_status st = open_place(blob, reader, &p, &cause);
    if (st == SW_OK && blob->bytes == UINT64_MAX)
        st = swi_torch_is_zip(p.reader, p.file, p.offset, p.bytes, &is_zip, &cause);
    if (st != SW_OK) {
        st = swi_torch_finding(&c, "bad-item", &cause, err);
        goto done;
    }
    if (!is_zip) {
        tally->unchecked_bytes += p.bytes;
        goto done;
    }
    c.reader = p.reader;
    c.file = p.file;
    c.offset = p.offset;
    c.bytes = p.bytes;
    st = swi_torch_check_open(&c, &tf, err);
    if (st == SW_OK && tf != NULL && blob->bytes != UINT64_MAX &&
        swi_torch_unsafe(tf)->total == 0 &&
        check_tensor(tf, blob, &label->want, &t, &cause) != SW_OK)
        st = swi_torch_finding(&c, "bad-item", &cause, err);
done:
    swi_torch_free(tf);
    swi_zstd_view_free(p.view);
    return st;
}

/* ---- values ------------------------------------------------------------------------------ */

/* An item that is no archive: raw bytes of a custom planner. */
static sw_status load_bytes(const place *p, sw_value_graph **graph, sw_value *root, sw_error *err)
{
    sw_value_graph *g = NULL;
    swi_buf content = {0};
    size_t size;
    if (p->bytes > p->reader->limits.metadata_bytes || !swi_u64_to_size(p->bytes, &size))
        return swi_fail_at(err, SW_ERR_LIMIT, "DCP-10", p->offset,
                           "a value of %" PRIu64 " bytes, the limit is %" PRIu64, p->bytes,
                           p->reader->limits.metadata_bytes);
    sw_status st = swi_buf_reserve(&content, size ? size : 1, err);
    if (st == SW_OK && size > 0)
        st = p->reader->read(p->reader, p->file, p->offset, content.data, size, err);
    if (st == SW_OK)
        st = swi_graph_make(&p->reader->limits, &g, err);
    if (st == SW_OK)
        st = swi_graph_text(g, SW_VALUE_BYTES, content.data, size, root, err);
    swi_buf_free(&content);
    if (st != SW_OK) {
        sw_value_graph_free(g);
        return st;
    }
    *graph = g;
    return SW_OK;
}

/* DCP-10: a value with tensors in it is a copy that carries their bytes. */
static sw_status carry(const place *p, swi_torch_file *tf, sw_value_graph **graph, sw_value *root,
                       sw_error *err)
{
    sw_value_graph *g = NULL;
    swi_torch_carrier carrier = {0};
    sw_status st = swi_graph_make(&p->reader->limits, &g, err);
    if (st == SW_OK)
        st = swi_torch_carry_begin(&carrier, tf, p->reader, SWI_TORCH_CARRIED_MAX, err);
    if (st == SW_OK)
        st = swi_graph_copy(g, swi_torch_graph(tf), swi_torch_root(tf), swi_torch_carry_map,
                            &carrier, root, err);
    swi_torch_carry_end(&carrier);
    if (st != SW_OK) {
        sw_value_graph_free(g);
        return st;
    }
    *graph = g;
    return SW_OK;
}

static sw_status load_archive(const place *p, sw_value_graph **graph, sw_value *root, sw_error *err)
{
    swi_torch_file *tf;
    sw_status st = swi_torch_open(p->reader, p->file, p->offset, p->bytes, &tf, err);
    if (st != SW_OK)
        return st;
    const swi_pickle_unsafe *unsafe = swi_torch_unsafe(tf);
    if (unsafe->total > 0) {
        st = swi_fail_at(err, SW_ERR_UNSAFE, "DCP-10", unsafe->at[0].offset_bytes,
                         "data.pkl of the value calls %s", unsafe->at[0].name);
    } else if (swi_torch_storage_count(tf) > 0) {
        st = carry(p, tf, graph, root, err);
    } else {
        *root = swi_torch_root(tf);
        *graph = swi_torch_take_graph(tf);
    }
    swi_torch_free(tf);
    return st;
}

static sw_status item_load_value(const swi_blob *blob, const swi_reader *reader,
                                 sw_value_graph **graph, sw_value *root, sw_error *err)
{
    place p = {0};
    bool is_zip;
    sw_status st = open_place(blob, reader, &p, err);
    if (st == SW_OK)
        st = swi_torch_is_zip(p.reader, p.file, p.offset, p.bytes, &is_zip, err);
    if (st == SW_OK)
        st = is_zip ? load_archive(&p, graph, root, err) : load_bytes(&p, graph, root, err);
    swi_zstd_view_free(p.view);
    return st;
}

const swi_blob_ops swi_blob_dcp_item = {
    .kind = "dcp-item",
    .resolve = item_resolve,
    .check = item_check,
    .load_value = item_load_value,
};
