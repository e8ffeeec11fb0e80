/* Tensors as values of pieces: from a catalog, into one, and what all operations share. */
#include "shaped.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/checked.h"
#include "base/text.h"
#include "shaped_parts.h"

/* ---- lists of pieces ------------------------------------------------------------------------- */

void swi_pieces_free(swi_pieces *list)
{
    free(list->items);
    *list = (swi_pieces){0};
}

static sw_status reserve(swi_pieces *list, size_t more, sw_error *err)
{
    if (more > SWI_SHAPED_PIECES_MAX - list->count)
        return swi_fail(err, SW_ERR_LIMIT,
                        "it falls into more than %zu pieces: the dimensions that are split here do "
                        "not fit how it lies in its files",
                        SWI_SHAPED_PIECES_MAX);
    return swi_grow_raw((void **)&list->items, &list->capacity, list->count + more,
                        sizeof *list->items, err);
}

sw_status swi_pieces_add(swi_pieces *list, const swi_piece *piece, sw_error *err)
{
    sw_status status = reserve(list, 1, err);
    if (status == SW_OK)
        list->items[list->count++] = *piece;
    return status;
}

sw_status swi_pieces_add_singles(swi_pieces *list, const swi_piece *piece, uint32_t axis,
                                 sw_error *err)
{
    sw_status status =
        reserve(list,
                (uint64_t)piece->length[axis] > SWI_SHAPED_PIECES_MAX ? SIZE_MAX
                                                                      : (size_t)piece->length[axis],
                err);
    for (int64_t i = 0; i < piece->length[axis] && status == SW_OK; i++) {
        swi_piece *single = &list->items[list->count++];
        *single = *piece;
        single->offset[axis] += i;
        single->length[axis] = 1;
        if (i > 0)
            single->base_bytes += i * piece->stride_bytes[axis];
    }
    return status;
}

/* ---- one operation under way ----------------------------------------------------------------- */

void swi_shaping_end(swi_shaping *shaping)
{
    swi_pieces_free(&shaping->out);
    swi_pieces_free(&shaping->aligned);
    swi_pieces_free(&shaping->work);
    swi_pieces_free(&shaping->lines);
}

sw_status swi_shaping_out(swi_shaping *shaping, const swi_piece *piece, sw_error *err)
{
    swi_piece simple = *piece;
    swi_piece_simplify(&simple, shaping->element_bytes);
    return swi_pieces_add(&shaping->out, &simple, err);
}

void swi_shaped_finish(swi_shaping *shaping, const swi_shaped *head, swi_shaped *out)
{
    swi_shaped result = *head;
    swi_pieces_merge(&shaping->out, shaping->element_bytes);
    result.pieces = shaping->out.items;
    result.count = shaping->out.count;
    result.capacity = shaping->out.capacity;
    shaping->out = (swi_pieces){0};
    *out = result;
}

sw_status swi_shaped_check(const swi_shaped *shaped, sw_error *err)
{
    uint64_t elements, bytes;
    char shape[SWI_SHAPE_TEXT];
    uint32_t unit = sw_dtype_bytes(shaped->dtype);
    if (unit == 0)
        return swi_fail(err, SW_ERR_ARG, "a tensor without an element type");
    if (shaped->axes > SW_MAX_AXES)
        return swi_fail(err, SW_ERR_LIMIT, "%" PRIu32 " dimensions, at most %d are supported",
                        shaped->axes, SW_MAX_AXES);
    if (swi_shape_elements(shaped->axes, shaped->shape, &elements) &&
        swi_mul_u64(elements, unit, &bytes) && bytes <= INT64_MAX)
        return SW_OK;
    swi_shape_text(shaped->axes, shaped->shape, shape);
    return swi_fail(err, SW_ERR_ARG, "shape %s: a size is negative or too large", shape);
}

sw_status swi_shaped_check_dim(const swi_shaped *shaped, uint32_t dim, sw_error *err)
{
    char shape[SWI_SHAPE_TEXT];
    if (dim < shaped->axes)
        return SW_OK;
    swi_shape_text(shaped->axes, shaped->shape, shape);
    return swi_fail(err, SW_ERR_ARG, "there is no dimension %" PRIu32 " in shape %s", dim, shape);
}

bool swi_shaped_has_elements(const swi_shaped *shaped)
{
    for (uint32_t k = 0; k < shaped->axes; k++)
        if (shaped->shape[k] == 0)
            return false;
    return true;
}

int64_t swi_shaped_inner(const swi_shaped *shaped, uint32_t dim)
{
    int64_t product = 1;
    for (uint32_t k = dim + 1; k < shaped->axes; k++)
        product *= shaped->shape[k];
    return product;
}

/* ---- from a catalog and into one ------------------------------------------------------------- */

sw_status swi_shaped_take(const sw_catalog *catalog, uint32_t tensor, swi_shaped *out,
                          sw_error *err)
{
    return swi_shaped_take_near(catalog, tensor, 0, UINT64_MAX, out, err);
}

sw_status swi_shaped_take_near(const sw_catalog *catalog, uint32_t tensor, uint64_t lo, uint64_t hi,
                               swi_shaped *out, sw_error *err)
{
    sw_tensor_info info;
    swi_quoted q;
    swi_piece piece;
    if (!sw_catalog_tensor(catalog, tensor, &info))
        return swi_fail(err, SW_ERR_ARG, "tensor %" PRIu32 " is not in the catalog", tensor);
    swi_shaped head = {.dtype = info.dtype,
                       .axes = info.axes,
                       .replicas = swi_tensor_has_replicas(catalog, tensor),
                       .defect = swi_tensor_defect(catalog, tensor)};
    memcpy(head.shape, info.shape, info.axes * sizeof info.shape[0]);
    swi_shaping s = {.element_bytes = sw_dtype_bytes(info.dtype)};
    sw_status status = SW_OK;
    for (uint64_t i = 0; i < info.piece_count && status == SW_OK; i++) {
        swi_tensor_piece(catalog, tensor, i, &piece);
        bool far = swi_piece_is_empty(&piece)
                       ? lo > 0
                       : swi_piece_first(&piece) >= hi || swi_piece_end(&piece) <= lo;
        if (!far)
            status = swi_shaping_out(&s, &piece, err);
    }
    if (status == SW_OK)
        swi_shaped_finish(&s, &head, out);
    else
        (void)swi_error_prefix(err, "tensor \"%s\"", swi_quote_str(&q, info.name));
    swi_shaping_end(&s);
    return status;
}

sw_status swi_shaped_copy(const swi_shaped *in, swi_shaped *out, sw_error *err)
{
    void *pieces = NULL;
    sw_status status = swi_alloc_array(in->count, sizeof *in->pieces, &pieces, err);
    if (status != SW_OK)
        return status;
    if (in->count > 0)
        memcpy(pieces, in->pieces, in->count * sizeof *in->pieces);
    *out = *in;
    out->pieces = pieces;
    out->capacity = in->count;
    return SW_OK;
}

void swi_shaped_free(swi_shaped *shaped)
{
    free(shaped->pieces);
    *shaped = (swi_shaped){0};
}

sw_status swi_shaped_put(swi_builder *builder, const swi_shaped_name *name,
                         const swi_shaped *shaped, uint32_t *id, sw_error *err)
{
    const swi_tensor_in in = {.name = name->name,
                              .name_size = name->name_size,
                              .dtype = shaped->dtype,
                              .axes = shaped->axes,
                              .shape = shaped->shape,
                              .role = name->role};
    uint32_t tensor;
    sw_status status = swi_builder_tensor(builder, &in, &tensor, err);
    for (size_t i = 0; i < shaped->count && status == SW_OK; i++)
        status = swi_builder_piece(builder, tensor, &shaped->pieces[i], err);
    if (status != SW_OK)
        return status;
    if (shaped->replicas)
        swi_builder_allow_replicas(builder, tensor);
    if (shaped->defect != SW_OK)
        swi_builder_mark(builder, tensor, shaped->defect);
    *id = tensor;
    return SW_OK;
}
