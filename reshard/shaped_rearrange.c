/* Another order of elements, or only another shape. */
#include <inttypes.h>
#include <string.h>

#include "base/checked.h"
#include "shaped_parts.h"

static sw_status check_order(const swi_rearrange *how, sw_error *err)
{
    uint32_t seen = 0;
    for (uint32_t k = 0; k < how->factors; k++) {
        uint32_t from = how->order[k];
        if (from >= how->factors || (seen >> from & 1) != 0)
            return swi_fail(err, SW_ERR_ARG, "factor %" PRIu32 " has no place of its own", from);
        seen |= UINT32_C(1) << from;
    }
    return SW_OK;
}

/* The factors of each dimension, in order; sizes in that order. */
static sw_status products(const swi_rearrange *how, uint32_t axes, const uint32_t *counts,
                          const uint32_t *order, int64_t *shape, sw_error *err)
{
    uint32_t at = 0;
    for (uint32_t d = 0; d < axes; d++) {
        shape[d] = 1;
        for (uint32_t n = 0; n < counts[d]; n++, at++) {
            if (at >= how->factors)
                return swi_fail(err, SW_ERR_ARG, "dimension %" PRIu32 " has more factors than are",
                                d);
            int64_t size = how->size[order != NULL ? order[at] : at];
            if (size < 0 || !swi_mul_i64(shape[d], size, &shape[d]))
                return swi_fail(err, SW_ERR_ARG, "factors of dimension %" PRIu32 " are too large",
                                d);
        }
    }
    if (at != how->factors)
        return swi_fail(err, SW_ERR_ARG, "%" PRIu32 " of %" PRIu32 " factors are in no dimension",
                        how->factors - at, how->factors);
    return SW_OK;
}

static sw_status check(const swi_shaped *in, const swi_rearrange *how, int64_t *to, sw_error *err)
{
    int64_t from[SW_MAX_AXES];
    if (how->factors > SW_MAX_AXES || how->in_axes > SW_MAX_AXES || how->out_axes > SW_MAX_AXES)
        return swi_fail(err, SW_ERR_LIMIT, "more than %d factors or dimensions", SW_MAX_AXES);
    if (how->in_axes != in->axes)
        return swi_fail(err, SW_ERR_ARG,
                        "a tensor of %" PRIu32 " dimensions, %" PRIu32 " are rearranged", in->axes,
                        how->in_axes);
    sw_status status = check_order(how, err);
    if (status == SW_OK)
        status = products(how, how->in_axes, how->in_count, NULL, from, err);
    if (status == SW_OK)
        status = products(how, how->out_axes, how->out_count, how->order, to, err);
    for (uint32_t d = 0; d < in->axes && status == SW_OK; d++)
        if (from[d] != in->shape[d])
            status =
                swi_fail(err, SW_ERR_ARG,
                         "dimension %" PRIu32 " is %" PRId64 " long, its factors make %" PRId64, d,
                         in->shape[d], from[d]);
    return status;
}

/* The factors that really part: those that stay neighbours are one, those of size 1 are none. */
typedef struct parts {
    uint32_t count;
    int64_t size[SW_MAX_AXES];   /* in the order of the source */
    uint32_t order[SW_MAX_AXES]; /* new part k is part order[k] */
} parts;

static void join_factors(const swi_rearrange *how, parts *out)
{
    uint32_t rank[SW_MAX_AXES]; /* of a factor of the source among those that are not 1 */
    uint32_t kept = 0, head[SW_MAX_AXES], run = 0;
    int64_t size[SW_MAX_AXES];
    for (uint32_t f = 0; f < how->factors; f++) {
        rank[f] = kept;
        if (how->size[f] != 1)
            size[kept++] = how->size[f];
    }
    *out = (parts){0};
    uint32_t before = UINT32_MAX - 1;
    bool begins[SW_MAX_AXES] = {false};
    for (uint32_t k = 0; k < how->factors; k++) {
        uint32_t f = how->order[k];
        if (how->size[f] == 1)
            continue;
        if (rank[f] != before + 1) {
            head[run++] = rank[f];
            begins[rank[f]] = true;
        }
        before = rank[f];
    }
    uint32_t part_of[SW_MAX_AXES] = {0};
    for (uint32_t f = 0; f < kept; f++) {
        if (begins[f])
            out->size[out->count++] = 1;
        part_of[f] = out->count - 1;
        out->size[out->count - 1] *= size[f];
    }
    for (uint32_t k = 0; k < run; k++)
        out->order[k] = part_of[head[k]];
}

static void permute_groups(const swi_piece *aligned, const parts *p, swi_piece *out)
{
    uint32_t first[SW_MAX_AXES + 1], order[SW_MAX_AXES], n = 0;
    swi_aligned_groups(aligned, p->count, p->size, first);
    for (uint32_t k = 0; k < p->count; k++)
        for (uint32_t a = first[p->order[k]]; a < first[p->order[k] + 1]; a++)
            order[n++] = a;
    swi_piece_permute(aligned, order, out);
}

static sw_status rearrange_piece(swi_shaping *s, const swi_piece *piece, const parts *p,
                                 sw_error *err)
{
    sw_status status = swi_shaping_align(s, piece, p->count, p->size, err);
    for (size_t a = 0; a < s->aligned.count && status == SW_OK; a++) {
        swi_piece moved;
        permute_groups(&s->aligned.items[a], p, &moved);
        status = swi_shaping_out(s, &moved, err);
    }
    return status;
}

sw_status swi_shaped_rearrange(const swi_shaped *in, const swi_rearrange *how, swi_shaped *out,
                               sw_error *err)
{
    swi_shaped head = *in;
    sw_status status = check(in, how, head.shape, err);
    if (status != SW_OK)
        return status;
    swi_shaping s = {.element_bytes = sw_dtype_bytes(in->dtype)};
    parts p = {0};
    head.axes = how->out_axes;
    status = swi_shaped_check(&head, err);
    if (in->count > 0)
        join_factors(how, &p);
    for (size_t i = 0; i < in->count && status == SW_OK; i++)
        status = rearrange_piece(&s, &in->pieces[i], &p, err);
    if (status == SW_OK)
        swi_shaped_finish(&s, &head, out);
    swi_shaping_end(&s);
    return status;
}

void swi_rearrange_inverse(const swi_rearrange *how, swi_rearrange *out)
{
    swi_rearrange back = {
        .factors = how->factors, .in_axes = how->out_axes, .out_axes = how->in_axes};
    for (uint32_t k = 0; k < how->factors; k++) {
        back.size[k] = how->size[how->order[k]];
        back.order[how->order[k]] = k;
    }
    memcpy(back.in_count, how->out_count, sizeof back.in_count);
    memcpy(back.out_count, how->in_count, sizeof back.out_count);
    *out = back;
}

sw_status swi_shaped_reshape(const swi_shaped *in, uint32_t axes, const int64_t *shape,
                             swi_shaped *out, sw_error *err)
{
    uint64_t before = 0, after = 0;
    char from[SWI_SHAPE_TEXT], to[SWI_SHAPE_TEXT];
    swi_shaped head = {.dtype = in->dtype, .axes = axes};
    if (axes <= SW_MAX_AXES && axes > 0)
        memcpy(head.shape, shape, axes * sizeof *shape);
    sw_status status = swi_shaped_check(&head, err);
    if (status != SW_OK)
        return status;
    (void)swi_shape_elements(in->axes, in->shape, &before);
    (void)swi_shape_elements(axes, shape, &after);
    if (before != after) {
        swi_shape_text(in->axes, in->shape, from);
        swi_shape_text(axes, shape, to);
        return swi_fail(err, SW_ERR_ARG, "shape %s cannot become %s: other element counts", from,
                        to);
    }
    swi_shaped result;
    status = swi_shaped_copy(in, &result, err);
    if (status != SW_OK)
        return status;
    result.axes = axes;
    memcpy(result.shape, head.shape, sizeof result.shape);
    *out = result;
    return SW_OK;
}
