#include "layout.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/text.h"
#include "layout_tables.h"

sw_status swi_layout_make(const sw_limits *limits, swi_layout **out, sw_error *err)
{
    void *p;
    sw_status status = swi_alloc_array(1, sizeof(swi_layout), &p, err);
    if (status != SW_OK)
        return status;
    swi_layout *layout = p;
    status = swi_builder_make(limits, &layout->builder, err);
    if (status != SW_OK) {
        free(layout);
        return status;
    }
    *out = layout;
    return SW_OK;
}

static void free_file(const swi_file_row *file)
{
    if (file->packing != NULL && file->packing->free_ctx != NULL)
        file->packing->free_ctx(file->packing->ctx);
    if (file->made != NULL && file->made->free_ctx != NULL)
        file->made->free_ctx(file->made->ctx);
    free(file->packing);
    free(file->made);
}

void swi_layout_free(swi_layout *layout)
{
    if (layout == NULL)
        return;
    swi_builder_free(layout->builder);
    sw_catalog_free(layout->catalog);
    swi_arena_free(&layout->arena);
    for (size_t i = 0; i < layout->late_count; i++)
        if (layout->lates[i].in.free_ctx != NULL)
            layout->lates[i].in.free_ctx(layout->lates[i].in.ctx);
    free(layout->literals);
    free(layout->first_literal);
    free(layout->targets);
    free(layout->views);
    free(layout->sums);
    free(layout->first_sum);
    free(layout->lates);
    free(layout->first_late);
    for (size_t i = 0; i < layout->file_count; i++)
        free_file(&layout->files[i]);
    free(layout->files);
    swi_region_work_free(&layout->region);
    free(layout->boxes);
    free(layout);
}

static sw_status check_open(const swi_layout *layout, sw_error *err)
{
    if (layout->builder == NULL)
        return swi_fail(err, SW_ERR_ARG, "the layout is frozen");
    return SW_OK;
}

/* [offset, offset + size) must lie in a known file. */
static sw_status check_range(const swi_layout *layout, uint32_t file, uint64_t offset,
                             uint64_t size, sw_error *err)
{
    sw_status status = check_open(layout, err);
    if (status != SW_OK)
        return status;
    if (file >= layout->file_count)
        return swi_fail(err, SW_ERR_ARG, "the layout has no file %" PRIu32, file);
    if (!swi_range_inside(offset, size, layout->files[file].bytes))
        return swi_fail(err, SW_ERR_ARG,
                        "layout: %" PRIu64 " bytes at %" PRIu64 " of file %" PRIu32
                        " pass its end, %" PRIu64,
                        size, offset, file, layout->files[file].bytes);
    return SW_OK;
}

sw_status swi_layout_file(swi_layout *layout, const char *path, uint64_t bytes, uint32_t *file,
                          sw_error *err)
{
    sw_status status = check_open(layout, err);
    if (status != SW_OK)
        return status;
    status = swi_grow_array((void **)&layout->files, &layout->file_capacity, layout->file_count + 1,
                            sizeof *layout->files, err);
    if (status != SW_OK)
        return status;
    uint32_t id;
    status = swi_builder_file(layout->builder, path, bytes, &id, err);
    if (status != SW_OK)
        return status;
    swi_quoted room;
    if (id != layout->file_count)
        return swi_fail(err, SW_ERR_ARG, "layout: file \"%s\" is there twice",
                        swi_quote_str(&room, path));
    layout->files[layout->file_count++] = (swi_file_row){.bytes = bytes};
    *file = id;
    return SW_OK;
}

static sw_status add_literal(swi_layout *layout, const swi_literal_row *in, sw_error *err)
{
    if (in->size == 0)
        return SW_OK;
    sw_status status = swi_grow_array((void **)&layout->literals, &layout->literal_capacity,
                                      layout->literal_count + 1, sizeof *layout->literals, err);
    if (status == SW_OK)
        layout->literals[layout->literal_count++] = *in;
    return status;
}

sw_status swi_layout_literal(swi_layout *layout, uint32_t file, uint64_t offset, const void *data,
                             size_t size, sw_error *err)
{
    sw_status status = check_range(layout, file, offset, size, err);
    if (status != SW_OK || size == 0)
        return status;
    uint8_t *copy;
    status = swi_arena_bytes(&layout->arena, size, &copy, err);
    if (status != SW_OK)
        return status;
    memcpy(copy, data, size);
    swi_literal_row in = {.file = file, .offset = offset, .size = size, .data = copy};
    return add_literal(layout, &in, err);
}

sw_status swi_layout_fill(swi_layout *layout, uint32_t file, uint64_t offset, uint64_t size,
                          uint8_t byte, sw_error *err)
{
    sw_status status = check_range(layout, file, offset, size, err);
    if (status != SW_OK)
        return status;
    swi_literal_row in = {.file = file, .offset = offset, .size = size, .fill = byte};
    return add_literal(layout, &in, err);
}

sw_status swi_layout_sum(swi_layout *layout, uint32_t file, uint64_t offset, uint64_t bytes,
                         uint32_t *out, sw_error *err)
{
    sw_status status = check_range(layout, file, offset, bytes, err);
    if (status != SW_OK)
        return status;
    swi_file_row *f = &layout->files[file];
    if (offset < f->sum_end)
        return swi_fail(err, SW_ERR_ARG,
                        "layout: a sum from %" PRIu64 " on of file %" PRIu32
                        " does not follow the one before it",
                        offset, file);
    status = swi_grow_array((void **)&layout->sums, &layout->sum_capacity, layout->sum_count + 1,
                            sizeof *layout->sums, err);
    if (status != SW_OK)
        return status;
    layout->sums[layout->sum_count++] = (swi_sum_row){.file = file, .range = {offset, bytes}};
    f->sum_end = offset + bytes;
    *out = f->sum_count++;
    return SW_OK;
}

sw_status swi_layout_late(swi_layout *layout, uint32_t file, const swi_late *in, sw_error *err)
{
    sw_status status = check_range(layout, file, in->offset_bytes, in->size, err);
    if (status == SW_OK && in->size == 0)
        return swi_fail(err, SW_ERR_ARG, "layout: a late literal of no bytes");
    if (status == SW_OK)
        status = swi_grow_array((void **)&layout->lates, &layout->late_capacity,
                                layout->late_count + 1, sizeof *layout->lates, err);
    if (status != SW_OK)
        return status;
    layout->lates[layout->late_count++] = (swi_late_row){.file = file, .in = *in};
    layout->files[file].late_bytes += in->size;
    return SW_OK;
}

sw_status swi_layout_pack(swi_layout *layout, uint32_t file, const swi_packing *packing,
                          sw_error *err)
{
    void *p;
    sw_status status = check_range(layout, file, 0, 0, err);
    if (status != SW_OK)
        return status;
    swi_file_row *f = &layout->files[file];
    const uint64_t end = packing->chunks > 0 ? packing->chunk_ends[packing->chunks - 1] : 0;
    if (f->packing != NULL || f->made != NULL || f->late_bytes > 0 || f->sum_count > 0 ||
        end != f->bytes || packing->align > SWI_PACK_ALIGN_MAX)
        return swi_fail(err, SW_ERR_ARG, "layout: file %" PRIu32 " cannot be packed so", file);
    status = swi_alloc_array(1, sizeof(swi_packing), &p, err);
    if (status != SW_OK)
        return status;
    f->packing = p;
    *f->packing = *packing;
    layout->packed = true;
    return SW_OK;
}

sw_status swi_layout_made(swi_layout *layout, const char *path, const swi_made *made,
                          uint32_t *file, sw_error *err)
{
    void *p;
    sw_status status = swi_alloc_array(1, sizeof(swi_made), &p, err);
    if (status != SW_OK)
        return status;
    status = swi_layout_file(layout, path, 0, file, err);
    if (status != SW_OK) {
        free(p);
        return status;
    }
    layout->files[*file].made = p;
    *layout->files[*file].made = *made;
    layout->packed = true;
    return SW_OK;
}

sw_status swi_layout_tensor(swi_layout *layout, const swi_tensor_in *in, uint32_t source,
                            uint32_t *tensor, sw_error *err)
{
    sw_status status = check_open(layout, err);
    if (status != SW_OK)
        return status;
    status = swi_grow_array((void **)&layout->targets, &layout->target_capacity,
                            layout->target_count + 1, sizeof *layout->targets, err);
    if (status != SW_OK)
        return status;
    uint32_t id;
    status = swi_builder_tensor(layout->builder, in, &id, err);
    if (status != SW_OK)
        return status;
    layout->targets[layout->target_count++] =
        (swi_target_row){.source = source, .scale = -1, .dtype = in->dtype};
    *tensor = id;
    return SW_OK;
}

/* Whether the box fills `bytes` bytes from 0 on without a gap, whatever the order of its axes. */
static bool fills_range(const swi_piece *piece, uint32_t element_bytes, uint64_t bytes)
{
    uint64_t dense = element_bytes;
    bool used[SW_MAX_AXES] = {false};
    if (piece->base_bytes != 0 || piece->axes > SW_MAX_AXES)
        return false;
    for (uint32_t n = 0; n < piece->axes; n++) {
        /* The next axis outwards is the one that steps by all that is dense so far. */
        uint32_t k = 0;
        while (k < piece->axes &&
               (used[k] || (piece->length[k] != 1 && (uint64_t)piece->stride_bytes[k] != dense)))
            k++;
        if (k == piece->axes || piece->length[k] <= 0 ||
            !swi_mul_u64(dense, (uint64_t)piece->length[k], &dense))
            return false;
        used[k] = true;
    }
    return dense == bytes;
}

sw_status swi_layout_see(swi_layout *layout, const swi_layout_view *view, sw_error *err)
{
    swi_layout_view made = *view;
    sw_status status = check_open(layout, err);
    if (status == SW_OK)
        status = swi_grow_array((void **)&layout->views, &layout->view_capacity,
                                layout->view_count + 1, sizeof *layout->views, err);
    if (status == SW_OK)
        status = swi_arena_text(&layout->arena, view->name, strlen(view->name), &made.name, err);
    if (status == SW_OK)
        layout->views[layout->view_count++] = made;
    return status;
}

sw_status swi_layout_check_tensor(const swi_layout *layout, uint32_t tensor, sw_error *err)
{
    sw_status status = check_open(layout, err);
    if (status == SW_OK && tensor >= layout->target_count)
        return swi_fail(err, SW_ERR_ARG, "the layout has no tensor %" PRIu32, tensor);
    return status;
}

sw_status swi_layout_replicas(swi_layout *layout, uint32_t tensor, sw_error *err)
{
    sw_status status = swi_layout_check_tensor(layout, tensor, err);
    if (status == SW_OK)
        swi_builder_allow_replicas(layout->builder, tensor);
    return status;
}

sw_status swi_layout_scale(swi_layout *layout, uint32_t tensor, uint32_t scale, sw_error *err)
{
    sw_status status = swi_layout_check_tensor(layout, tensor, err);
    if (status == SW_OK)
        layout->targets[tensor].scale = scale;
    return status;
}

sw_status swi_layout_blob(swi_layout *layout, uint32_t tensor, const swi_range *range,
                          uint32_t *blob, sw_error *err)
{
    sw_status status = check_range(layout, range->file, range->offset, range->size, err);
    if (status == SW_OK)
        status = swi_layout_check_tensor(layout, tensor, err);
    if (status != SW_OK || range->size == 0)
        return status;
    const swi_blob made = {
        .ops = &swi_blob_slice,
        .file = range->file,
        .offset_bytes = range->offset,
        .stored_bytes = range->size,
        .bytes = range->size,
    };
    return swi_builder_blob(layout->builder, &made, blob, err);
}

sw_status swi_layout_piece(swi_layout *layout, uint32_t tensor, uint32_t file, uint64_t offset,
                           uint64_t bytes, const swi_piece *piece, sw_error *err)
{
    sw_status status = check_range(layout, file, offset, bytes, err);
    if (status == SW_OK)
        status = swi_layout_check_tensor(layout, tensor, err);
    if (status != SW_OK)
        return status;
    bool empty = false;
    for (uint32_t k = 0; k < piece->axes && k < SW_MAX_AXES; k++)
        empty = empty || piece->length[k] == 0;
    if (empty && bytes == 0)
        return SW_OK;
    if (!fills_range(piece, sw_dtype_bytes(layout->targets[tensor].dtype), bytes))
        return swi_fail(err, SW_ERR_ARG,
                        "layout: a piece of tensor %" PRIu32 " does not fill the %" PRIu64
                        " bytes at %" PRIu64 " of file %" PRIu32,
                        tensor, bytes, offset, file);
    const swi_range range = {.file = file, .offset = offset, .size = bytes};
    swi_piece placed = *piece;
    status = swi_layout_blob(layout, tensor, &range, &placed.blob, err);
    if (status != SW_OK)
        return status;
    return swi_builder_piece(layout->builder, tensor, &placed, err);
}

/* ---- after freezing ------------------------------------------------------------------------- */

const sw_catalog *swi_layout_catalog(const swi_layout *layout)
{
    return layout->catalog;
}

uint32_t swi_layout_source(const swi_layout *layout, uint32_t tensor)
{
    return layout->targets[tensor].source;
}

int64_t swi_layout_scale_of(const swi_layout *layout, uint32_t tensor)
{
    return layout->targets[tensor].scale;
}

size_t swi_layout_view_count(const swi_layout *layout)
{
    return layout->view_count;
}

const swi_layout_view *swi_layout_view_at(const swi_layout *layout, size_t i)
{
    return &layout->views[i];
}

size_t swi_layout_literal_count(const swi_layout *layout, uint32_t file)
{
    return layout->first_literal[file + 1] - layout->first_literal[file];
}

void swi_layout_literal_at(const swi_layout *layout, uint32_t file, size_t i, swi_literal *out)
{
    const swi_literal_row *l = &layout->literals[layout->first_literal[file] + i];
    *out = (swi_literal){
        .offset_bytes = l->offset,
        .data = l->data,
        .size = l->size,
        .fill = l->fill,
    };
}

size_t swi_layout_sum_count(const swi_layout *layout, uint32_t file)
{
    return layout->files[file].sum_count;
}

size_t swi_layout_sum_first(const swi_layout *layout, uint32_t file)
{
    return layout->first_sum[file];
}

swi_sum swi_layout_sum_at(const swi_layout *layout, uint32_t file, size_t i)
{
    return layout->sums[layout->first_sum[file] + i].range;
}

const swi_packing *swi_layout_packing(const swi_layout *layout, uint32_t file)
{
    return layout->files[file].packing;
}

const swi_made *swi_layout_made_at(const swi_layout *layout, uint32_t file)
{
    return layout->files[file].made;
}

bool swi_layout_is_packed(const swi_layout *layout)
{
    return layout->packed;
}

size_t swi_layout_late_count(const swi_layout *layout, uint32_t file)
{
    return layout->first_late[file + 1] - layout->first_late[file];
}

const swi_late *swi_layout_late_at(const swi_layout *layout, uint32_t file, size_t i)
{
    return &layout->lates[layout->first_late[file] + i].in;
}

uint64_t swi_layout_late_bytes(const swi_layout *layout, uint32_t file)
{
    return layout->files[file].late_bytes;
}
