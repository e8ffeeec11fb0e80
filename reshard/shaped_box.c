/* Boxes of tensors: cut out, put in, filled, grown, spread. */
#include <inttypes.h>
#include <string.h>

#include "base/checked.h"
#include "shaped_parts.h"

/* ---- one dimension after the other ----------------------------------------------------------- */

/* What happens to dimension k; size and neighbours are filled in by the walk. */
typedef struct change {
    bool any;
    swi_line line;
} change;

/*
 * Fills shaping->out with the tensor's pieces after the changes. Dimensions before k have their new
 * sizes when k is changed.
 */
static sw_status change_dims(swi_shaping *s, const swi_shaped *in, const change *changes,
                             sw_error *err)
{
    swi_shaped now = *in;
    swi_pieces pieces = {0};
    sw_status status = SW_OK;
    for (size_t i = 0; i < in->count && status == SW_OK; i++)
        status = swi_pieces_add(&s->out, &in->pieces[i], err);
    for (uint32_t k = 0; k < in->axes && status == SW_OK; k++) {
        swi_line line = changes[k].line;
        if (!changes[k].any || s->out.count == 0)
            continue;
        swi_pieces_free(&pieces);
        pieces = s->out;
        s->out = (swi_pieces){0};
        line.size = now.shape[k];
        line.inner = swi_shaped_inner(&now, k);
        status = swi_shaping_line(s, pieces.items, pieces.count, &line, err);
        now.shape[k] = line.new_size;
    }
    swi_pieces_free(&pieces);
    return status;
}

/* The same as a tensor of its own. */
static sw_status change_shaped(const swi_shaped *in, const change *changes, const swi_shaped *head,
                               swi_shaped *out, sw_error *err)
{
    swi_shaping s = {.element_bytes = sw_dtype_bytes(in->dtype)};
    sw_status status = change_dims(&s, in, changes, err);
    if (status == SW_OK)
        swi_shaped_finish(&s, head, out);
    swi_shaping_end(&s);
    return status;
}

/* ---- cut and embed --------------------------------------------------------------------------- */

static sw_status check_box(const swi_shaped *whole, const int64_t *offset, const int64_t *length,
                           sw_error *err)
{
    for (uint32_t k = 0; k < whole->axes; k++)
        if (offset[k] < 0 || length[k] < 0 || offset[k] > whole->shape[k] ||
            length[k] > whole->shape[k] - offset[k])
            return swi_fail(err, SW_ERR_ARG,
                            "dimension %" PRIu32 ": %" PRId64 " from %" PRId64
                            " on lie outside its size %" PRId64,
                            k, length[k], offset[k], whole->shape[k]);
    return SW_OK;
}

sw_status swi_shaped_cut(const swi_shaped *in, const int64_t *offset, const int64_t *length,
                         swi_shaped *out, sw_error *err)
{
    change changes[SW_MAX_AXES] = {0};
    swi_shaped head = *in;
    sw_status status = check_box(in, offset, length, err);
    if (status != SW_OK)
        return status;
    for (uint32_t k = 0; k < in->axes; k++) {
        head.shape[k] = length[k];
        changes[k].any = length[k] != in->shape[k];
        changes[k].line =
            (swi_line){.new_size = length[k], .lo = offset[k], .hi = offset[k] + length[k]};
    }
    return change_shaped(in, changes, &head, out, err);
}

static sw_status check_embed(const swi_shaped *global, const swi_shaped *local, const int64_t *at,
                             sw_error *err)
{
    sw_status status = swi_shaped_check(global, err);
    if (status != SW_OK)
        return status;
    if (global->dtype != local->dtype)
        return swi_fail(err, SW_ERR_ARG, "a part of %s in a tensor of %s",
                        sw_dtype_name(local->dtype), sw_dtype_name(global->dtype));
    if (global->axes != local->axes)
        return swi_fail(err, SW_ERR_ARG, "a part of %" PRIu32 " dimensions in a tensor of %" PRIu32,
                        local->axes, global->axes);
    return check_box(global, at, local->shape, err);
}

sw_status swi_shaped_embed(swi_shaped *global, const swi_shaped *local, const int64_t *at,
                           sw_error *err)
{
    change changes[SW_MAX_AXES] = {0};
    sw_status status = check_embed(global, local, at, err);
    if (status != SW_OK)
        return status;
    for (uint32_t k = 0; k < local->axes; k++) {
        changes[k].any = local->shape[k] != global->shape[k];
        changes[k].line =
            (swi_line){.new_size = global->shape[k], .hi = local->shape[k], .at = at[k]};
    }
    swi_shaping s = {.element_bytes = sw_dtype_bytes(local->dtype)};
    swi_pieces all = {global->pieces, global->count, global->capacity};
    status = change_dims(&s, local, changes, err);
    if (status == SW_OK)
        swi_pieces_merge(&s.out, s.element_bytes);
    for (size_t i = 0; i < s.out.count && status == SW_OK; i++)
        status = swi_pieces_add(&all, &s.out.items[i], err);
    /* The room may have moved even where the rest failed. */
    global->pieces = all.items;
    global->capacity = all.capacity;
    if (status == SW_OK) {
        global->count = all.count;
        global->replicas = global->replicas || local->replicas;
        global->defect = global->defect != SW_OK ? global->defect : local->defect;
    }
    swi_shaping_end(&s);
    return status;
}

/* ---- fill and pad ---------------------------------------------------------------------------- */

sw_status swi_shaped_fill(sw_dtype dtype, uint32_t axes, const int64_t *shape,
                          uint32_t constant_blob, swi_shaped *out, sw_error *err)
{
    swi_shaped head = {.dtype = dtype, .axes = axes};
    swi_piece all = {.blob = constant_blob, .axes = axes};
    if (axes > 0 && axes <= SW_MAX_AXES)
        memcpy(head.shape, shape, axes * sizeof *shape);
    sw_status status = swi_shaped_check(&head, err);
    if (status != SW_OK)
        return status;
    memcpy(all.view, head.shape, sizeof all.view);
    memcpy(all.length, head.shape, sizeof all.length);
    swi_shaping s = {.element_bytes = sw_dtype_bytes(dtype)};
    if (swi_shaped_has_elements(&head))
        status = swi_shaping_out(&s, &all, err);
    if (status == SW_OK)
        swi_shaped_finish(&s, &head, out);
    swi_shaping_end(&s);
    return status;
}

sw_status swi_shaped_pad(const swi_shaped *in, uint32_t dim, int64_t size, uint32_t constant_blob,
                         swi_shaped *out, sw_error *err)
{
    swi_shaped parts[2] = {*in, {0}};
    int64_t shape[SW_MAX_AXES];
    sw_status status = swi_shaped_check_dim(in, dim, err);
    if (status != SW_OK)
        return status;
    if (size < in->shape[dim])
        return swi_fail(err, SW_ERR_ARG,
                        "dimension %" PRIu32 " of %" PRId64 " is padded to %" PRId64
                        ", which is less",
                        dim, in->shape[dim], size);
    memcpy(shape, in->shape, sizeof shape);
    shape[dim] = size - in->shape[dim];
    status = swi_shaped_fill(in->dtype, in->axes, shape, constant_blob, &parts[1], err);
    if (status == SW_OK)
        status = swi_shaped_join(parts, 2, dim, 1, out, err);
    swi_shaped_free(&parts[1]);
    return status;
}

/* ---- spread ---------------------------------------------------------------------------------- */

static sw_status check_spread(const swi_shaped *in, const swi_shaped *head, const int64_t *blocks,
                              sw_error *err)
{
    sw_status status = swi_shaped_check(head, err);
    if (status != SW_OK)
        return status;
    if (head->axes != in->axes)
        return swi_fail(err, SW_ERR_ARG, "a tensor of %" PRIu32 " dimensions spread over %" PRIu32,
                        in->axes, head->axes);
    for (uint32_t k = 0; k < in->axes; k++) {
        if (blocks[k] < 1)
            return swi_fail(err, SW_ERR_ARG, "dimension %" PRIu32 ": blocks of %" PRId64, k,
                            blocks[k]);
        int64_t need = head->shape[k] / blocks[k] + (head->shape[k] % blocks[k] != 0);
        if (need != in->shape[k])
            return swi_fail(err, SW_ERR_ARG,
                            "dimension %" PRIu32 ": %" PRId64 " in blocks of %" PRId64
                            " takes %" PRId64 " elements, not %" PRId64,
                            k, head->shape[k], blocks[k], need, in->shape[k]);
    }
    return SW_OK;
}

sw_status swi_shaped_spread(const swi_shaped *in, uint32_t axes, const int64_t *shape,
                            const int64_t *blocks, swi_shaped *out, sw_error *err)
{
    change changes[SW_MAX_AXES] = {0};
    swi_shaped head = *in;
    head.axes = axes;
    if (axes > 0 && axes <= SW_MAX_AXES)
        memcpy(head.shape, shape, axes * sizeof *shape);
    sw_status status = check_spread(in, &head, blocks, err);
    if (status != SW_OK)
        return status;
    for (uint32_t k = 0; k < in->axes; k++) {
        changes[k].any = blocks[k] > 1;
        changes[k].line = (swi_line){.new_size = shape[k], .block = blocks[k]};
    }
    return change_shaped(in, changes, &head, out, err);
}
