/* Many tensors or pieces at once: all room is made first, then threads fill ranges of it. */
#include "model/catalog_tables.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <string.h>

#include "base/checked.h"
#include "base/cursor.h"
#include "base/together.h"

#define TENSOR_RANGE 8192
/* Of most records: more or less of either does not matter. */
#define BLOB_BYTES 14
#define PIECE_BYTES 4

/* ---- tensors --------------------------------------------------------------------------------- */

typedef struct filling {
    sw_catalog *c;
    const swi_tensor_columns *columns;
} filling;

static uint32_t number_at(const uint8_t *column, uint64_t i)
{
    return swi_load_u32le(column + 4 * (size_t)i);
}

static uint32_t start_at(const uint8_t *ends, uint64_t i)
{
    return i > 0 ? number_at(ends, i - 1) : 0;
}

/* The shape of tensor i, which begins at number `start`, into its place in the catalog. */
static sw_status fill_shape(const filling *f, uint64_t i, uint32_t start, uint32_t *axes,
                            sw_error *err)
{
    const swi_tensor_columns *from = f->columns;
    const uint32_t end = number_at(from->shape_end, i);
    if (end < start || end > from->shape_numbers || end - start > SW_MAX_AXES)
        return swi_fail(err, SW_ERR_ARG, "tensor %" PRIu64 ": its shape is not in the list", i);
    for (uint32_t k = start; k < end; k++)
        f->c->shapes[k] = (int64_t)swi_load_u64le(from->shapes + 8 * (size_t)k);
    *axes = end - start;
    return SW_OK;
}

static sw_status fill_row(const filling *f, uint64_t i, uint32_t start, uint32_t *end,
                          sw_error *err)
{
    const swi_tensor_columns *from = f->columns;
    const uint32_t name = start_at(from->names.ends, i);
    uint64_t elements;
    swi_tensor_in in = {.name = from->names.text + name,
                        .name_size = number_at(from->names.ends, i) - name - 1,
                        .dtype = (sw_dtype)from->dtype[i],
                        .shape = f->c->shapes + start,
                        .role = (sw_role)from->role[i]};
    sw_status status = fill_shape(f, i, start, &in.axes, err);
    if (status == SW_OK)
        status = swi_check_form(&in, &elements, err);
    if (status != SW_OK)
        return status;
    swi_row_set(&f->c->tensors[i], &in, elements, start);
    *end = start + in.axes;
    return SW_OK;
}

static sw_status fill_rows(void *ctx, uint64_t from, uint64_t to, sw_error *err)
{
    const filling *f = ctx;
    uint32_t shape = start_at(f->columns->shape_end, from);
    sw_status status = SW_OK;
    for (uint64_t i = from; i < to && status == SW_OK; i++)
        status = fill_row(f, i, shape, &shape, err);
    return status;
}

sw_status swi_builder_tensors(swi_builder *builder, const swi_tensor_columns *columns,
                              sw_error *err)
{
    sw_catalog *c = builder->catalog;
    const uint32_t count = columns->names.count;
    filling f = {.c = c, .columns = columns};
    if (c->tensor_count > 0)
        return swi_fail(err, SW_ERR_ARG, "a list of tensors behind others");
    if (count > builder->limits.tensors || count >= UINT32_MAX - 1)
        return swi_fail(err, SW_ERR_LIMIT, "more than %" PRIu64 " tensors",
                        builder->limits.tensors);
    sw_status status = swi_names_borrow(c->names, &columns->names, err);
    if (status == SW_OK)
        status = swi_reserve_array((void **)&c->tensors, &c->tensor_capacity, count,
                                   sizeof *c->tensors, err);
    if (status == SW_OK)
        status = swi_reserve_array((void **)&c->shapes, &c->shape_capacity, columns->shape_numbers,
                                   sizeof *c->shapes, err);
    if (status == SW_OK)
        status = swi_together_ranges(builder->threads, count, TENSOR_RANGE, fill_rows, &f, err);
    if (status != SW_OK)
        return status;
    c->tensor_count = count;
    c->shape_count = columns->shape_numbers;
    return SW_OK;
}

/* ---- pieces ---------------------------------------------------------------------------------- */

/* A block of the packed records of each. Its bytes are at home here while they grow: beside those
 * of other threads each record would cost a transfer of cache lines. */
struct swi_piece_sink {
    swi_builder *builder;
    uint64_t next, end;
    uint32_t files;
    uint8_t kind;
    bool fits; /* every blob lies inside its file */
    const swi_blob_ops *ops;
    swi_buf blobs, pieces;
};

typedef struct putting {
    swi_builder *builder;
    const swi_piece_list *list;
    uint8_t kind;
    atomic_bool misfit; /* a blob does not lie inside its file */
} putting;

static sw_status make_room(swi_buf *block, sw_error *err)
{
    return block->capacity - block->size >= SWI_RECORD_MAX
               ? SW_OK
               : swi_buf_reserve(block, SWI_RECORD_MAX, err);
}

/* Number `next` is next: its blob, and room for a record of its piece. */
static sw_status sink_blob(swi_piece_sink *sink, uint32_t tensor, const swi_blob *blob,
                           sw_error *err)
{
    sw_catalog *c = sink->builder->catalog;
    if (sink->next >= sink->end || tensor >= c->tensor_count || blob->file >= sink->files ||
        blob->ops != sink->ops)
        return swi_fail(err, SW_ERR_ARG,
                        "piece %" PRIu64 ", of tensor %" PRIu32 " in file %" PRIu32
                        ": no such thing",
                        sink->next, tensor, blob->file);
    sw_status status = make_room(&sink->blobs, err);
    if (status == SW_OK)
        status = make_room(&sink->pieces, err);
    if (status != SW_OK)
        return status;
    if (!swi_range_inside(blob->offset_bytes, blob->stored_bytes, c->file_bytes[blob->file]))
        sink->fits = false;
    c->blobs.at[sink->next] = (uint32_t)sink->blobs.size;
    sink->blobs.size += swi_pack_blob(blob, sink->kind, sink->blobs.data + sink->blobs.size);
    return SW_OK;
}

/* The record of its piece is `size` bytes long. */
static void end_piece(swi_piece_sink *sink, uint32_t tensor, size_t size)
{
    sink->builder->catalog->pieces.at[sink->next] = (uint32_t)sink->pieces.size;
    sink->builder->tensor_of[sink->next] = tensor;
    sink->pieces.size += size;
    sink->next++;
}

static sw_status refuse_empty(uint32_t tensor, sw_error *err)
{
    return swi_fail(err, SW_ERR_ARG, "a piece of tensor %" PRIu32 " has no elements", tensor);
}

sw_status swi_sink_piece(swi_piece_sink *sink, uint32_t tensor, const swi_piece *piece,
                         const swi_blob *blob, sw_error *err)
{
    sw_catalog *c = sink->builder->catalog;
    if (piece->axes > SW_MAX_AXES || swi_piece_is_empty(piece))
        return refuse_empty(tensor, err);
    sw_status status = sink_blob(sink, tensor, blob, err);
    if (status != SW_OK)
        return status;
    swi_piece made = *piece;
    made.blob = (uint32_t)sink->next;
    const swi_pack_context form = swi_context_of(c, &c->tensors[tensor]);
    uint8_t *record = sink->pieces.data + sink->pieces.size;
    end_piece(sink, tensor, swi_pack_piece(&form, &made, record));
    return SW_OK;
}

sw_status swi_sink_whole(swi_piece_sink *sink, uint32_t tensor, const swi_blob *blob, sw_error *err)
{
    sw_catalog *c = sink->builder->catalog;
    sw_status status = sink_blob(sink, tensor, blob, err);
    if (status != SW_OK)
        return status;
    if (c->tensors[tensor].elements == 0)
        return refuse_empty(tensor, err);
    const swi_pack_context form = swi_context_of(c, &c->tensors[tensor]);
    uint8_t *record = sink->pieces.data + sink->pieces.size;
    end_piece(sink, tensor, swi_pack_whole(&form, (uint32_t)sink->next, record));
    return SW_OK;
}

/* A range is a block of the packed records. */
static sw_status put_block(void *ctx, uint64_t from, uint64_t to, sw_error *err)
{
    putting *p = ctx;
    sw_catalog *c = p->builder->catalog;
    const size_t block = (size_t)(from / SWI_PACKED_BLOCK), count = (size_t)(to - from);
    swi_piece_sink sink = {.builder = p->builder,
                           .next = from,
                           .end = to,
                           .files = swi_names_count(c->paths),
                           .kind = p->kind,
                           .fits = true,
                           .ops = p->list->ops};
    sw_status status = swi_buf_reserve(&sink.blobs, BLOB_BYTES * count, err);
    if (status == SW_OK)
        status = swi_buf_reserve(&sink.pieces, PIECE_BYTES * count, err);
    if (status == SW_OK)
        status = p->list->put(p->list->ctx, from, to, &sink, err);
    if (status == SW_OK && sink.next != to)
        status = swi_fail(err, SW_ERR_ARG, "%" PRIu64 " pieces where %zu were said",
                          sink.next - from, count);
    if (!sink.fits)
        atomic_store(&p->misfit, true);
    c->blobs.blocks[block] = sink.blobs;
    c->pieces.blocks[block] = sink.pieces;
    return status;
}

sw_status swi_builder_pieces(swi_builder *builder, const swi_piece_list *list, sw_error *err)
{
    sw_catalog *c = builder->catalog;
    putting p = {.builder = builder, .list = list};
    size_t count;
    if (c->pieces.count > 0 || c->blobs.count > 0)
        return swi_fail(err, SW_ERR_ARG, "a list of pieces behind others");
    if (list->count > builder->limits.pieces || list->count >= UINT32_MAX - 1)
        return swi_fail(err, SW_ERR_LIMIT, "more than %" PRIu64 " pieces", builder->limits.pieces);
    count = (size_t)list->count;
    atomic_init(&p.misfit, false);
    sw_status status = swi_builder_kind(c, list->ops, &p.kind, err);
    if (status == SW_OK)
        status = swi_packed_begin(&c->blobs, count, err);
    if (status == SW_OK)
        status = swi_packed_begin(&c->pieces, count, err);
    if (status == SW_OK)
        status = swi_reserve_array((void **)&builder->tensor_of, &builder->tensor_of_capacity,
                                   count, sizeof *builder->tensor_of, err);
    if (status == SW_OK)
        status = swi_together_ranges(builder->threads, count, SWI_PACKED_BLOCK, put_block, &p, err);
    if (status != SW_OK)
        return status;
    c->blobs.count = c->pieces.count = count;
    builder->fitting = atomic_load(&p.misfit) ? 0 : count;
    return SW_OK;
}
