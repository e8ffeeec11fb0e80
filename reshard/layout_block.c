/* Arrays of a file that are made of several boxes of one tensor. */
#include <inttypes.h>
#include <string.h>

#include "base/checked.h"
#include "layout_tables.h"

/* What the proof of one block may cost beyond sorting its parts. */
#define SORTS_EACH 256U
#define PAIRS_MAX ((uint64_t)1 << 26)

static sw_status fail_block(uint32_t tensor, const char *what, sw_error *err)
{
    return swi_fail(err, SW_ERR_ARG, "layout: a block of tensor %" PRIu32 ": %s", tensor, what);
}

static bool is_empty(const swi_block *block, const swi_block_part *part)
{
    for (uint32_t k = 0; k < block->axes; k++)
        if (part->length[k] == 0)
            return true;
    return false;
}

/* The part lies in the array; that it lies in the tensor is seen when the layout is frozen. */
static bool lies_inside(const swi_block *block, const swi_block_part *part)
{
    for (uint32_t k = 0; k < block->axes; k++)
        if (part->place[k] < 0 || part->length[k] < 0 || part->place[k] > block->shape[k] ||
            part->length[k] > block->shape[k] - part->place[k])
            return false;
    return true;
}

/* The parts that are not empty as boxes of the array, and what they hold together. */
static sw_status load_boxes(swi_layout *layout, uint32_t tensor, const swi_block *block,
                            swi_boxes *out, uint64_t *held, sw_error *err)
{
    size_t room;
    /* Not without room, even for scalars. */
    if (!swi_mul_size(block->part_count, (size_t)2 * block->axes, &room) ||
        !swi_add_size(room, 1, &room))
        return swi_fail_nomem(err);
    sw_status status = swi_grow_array((void **)&layout->boxes, &layout->box_capacity, room,
                                      sizeof *layout->boxes, err);
    if (status != SW_OK)
        return status;
    int64_t *place = layout->boxes, *length = place + block->part_count * block->axes;
    *out =
        (swi_boxes){.axes = block->axes, .view = block->shape, .offset = place, .length = length};
    *held = 0;
    for (size_t i = 0; i < block->part_count; i++) {
        const swi_block_part *part = &block->parts[i];
        uint64_t elements = 1;
        if (!lies_inside(block, part))
            return fail_block(tensor, "a part lies outside of it", err);
        if (is_empty(block, part))
            continue;
        for (uint32_t k = 0; k < block->axes; k++) {
            place[out->count * block->axes + k] = part->place[k];
            length[out->count * block->axes + k] = part->length[k];
            elements *= (uint64_t)part->length[k];
        }
        out->count++;
        if (!swi_add_u64(*held, elements, held))
            *held = UINT64_MAX;
    }
    return SW_OK;
}

/* Disjoint, and together as many elements as the array has. */
static sw_status check_parts(swi_layout *layout, uint32_t tensor, const swi_block *block,
                             uint64_t elements, sw_error *err)
{
    swi_boxes boxes;
    uint64_t held = 0, missing = 0;
    swi_disjoint disjoint = SWI_DISJOINT;
    size_t a = 0, b = 0;
    sw_status status = load_boxes(layout, tensor, block, &boxes, &held, err);
    layout->region.sort_budget = SORTS_EACH * (uint64_t)block->part_count;
    layout->region.pair_budget = PAIRS_MAX;
    if (status == SW_OK)
        status = swi_boxes_disjoint(&layout->region, &boxes, &disjoint, &a, &b, err);
    if (status != SW_OK)
        return status;
    if (disjoint == SWI_UNPROVEN)
        return fail_block(tensor, "its parts are too irregular to be proven disjoint", err);
    if (disjoint != SWI_DISJOINT)
        return fail_block(tensor, "two of its parts overlap in the array", err);
    if (held == elements)
        return SW_OK;
    status = swi_boxes_missing(&layout->region, &boxes, &missing, err);
    if (status != SW_OK)
        return status;
    return swi_fail(err, SW_ERR_ARG,
                    "layout: a block of tensor %" PRIu32 ": no part fills element %" PRIu64
                    " of the array",
                    tensor, missing);
}

static sw_status add_parts(swi_layout *layout, uint32_t tensor, const swi_block *block,
                           uint32_t blob, sw_error *err)
{
    swi_piece array = {.axes = block->axes};
    sw_status status = SW_OK;
    memcpy(array.length, block->shape, block->axes * sizeof *block->shape);
    swi_piece_make_dense(&array, sw_dtype_bytes(layout->targets[tensor].dtype));
    for (size_t i = 0; i < block->part_count && status == SW_OK; i++) {
        const swi_block_part *part = &block->parts[i];
        swi_piece piece = {.blob = blob, .axes = block->axes};
        if (is_empty(block, part))
            continue;
        for (uint32_t k = 0; k < block->axes; k++) {
            piece.view[k] = block->view[k];
            piece.offset[k] = part->offset[k];
            piece.length[k] = part->length[k];
            piece.stride_bytes[k] = array.stride_bytes[k];
            piece.base_bytes += part->place[k] * array.stride_bytes[k];
        }
        status = swi_builder_piece(layout->builder, tensor, &piece, err);
    }
    return status;
}

sw_status swi_layout_block(swi_layout *layout, uint32_t tensor, uint32_t file, uint64_t offset,
                           const swi_block *block, sw_error *err)
{
    swi_range range = {.file = file, .offset = offset};
    uint64_t elements;
    uint32_t blob = 0;
    sw_status status = swi_layout_check_tensor(layout, tensor, err);
    if (status != SW_OK)
        return status;
    if (block->axes > SW_MAX_AXES)
        return fail_block(tensor, "it has too many axes", err);
    if (!swi_shape_elements(block->axes, block->shape, &elements) ||
        !swi_mul_u64(elements, sw_dtype_bytes(layout->targets[tensor].dtype), &range.size) ||
        range.size > INT64_MAX)
        return fail_block(tensor, "its array has no size", err);
    status = check_parts(layout, tensor, block, elements, err);
    if (status == SW_OK)
        status = swi_layout_blob(layout, tensor, &range, &blob, err);
    if (status != SW_OK || range.size == 0)
        return status;
    return add_parts(layout, tensor, block, blob, err);
}
