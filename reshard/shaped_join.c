/* Several tensors as one, and the way back. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/checked.h"
#include "shaped_parts.h"

/* Equal in type and in all dimensions but `dim` (SW_MAX_AXES: in all). */
static sw_status check_like(const swi_shaped *first, const swi_shaped *part, size_t i, uint32_t dim,
                            sw_error *err)
{
    char a[SWI_SHAPE_TEXT], b[SWI_SHAPE_TEXT];
    bool like = part->axes == first->axes;
    if (part->dtype != first->dtype)
        return swi_fail(err, SW_ERR_ARG, "part %zu is %s, part 0 is %s", i,
                        sw_dtype_name(part->dtype), sw_dtype_name(first->dtype));
    for (uint32_t k = 0; k < first->axes && like; k++)
        like = k == dim || part->shape[k] == first->shape[k];
    if (like)
        return SW_OK;
    swi_shape_text(part->axes, part->shape, a);
    swi_shape_text(first->axes, first->shape, b);
    if (dim < SW_MAX_AXES)
        return swi_fail(err, SW_ERR_ARG,
                        "part %zu of shape %s does not fit part 0 of shape %s outside of "
                        "dimension %" PRIu32,
                        i, a, b, dim);
    return swi_fail(err, SW_ERR_ARG, "part %zu has shape %s, part 0 has %s", i, a, b);
}

static sw_status check_groups(int64_t size, int64_t groups, const char *what, size_t i,
                              sw_error *err)
{
    if (groups > 0 && size % groups == 0)
        return SW_OK;
    return swi_fail(err, SW_ERR_ARG, "%s %zu is %" PRId64 " long, not %" PRId64 " equal groups",
                    what, i, size, groups);
}

/* The result of a join without its pieces. */
static sw_status join_head(const swi_shaped *parts, size_t count, uint32_t dim, int64_t groups,
                           swi_shaped *head, sw_error *err)
{
    if (count == 0)
        return swi_fail(err, SW_ERR_ARG, "nothing to join");
    *head = parts[0];
    sw_status status = swi_shaped_check_dim(head, dim, err);
    if (status != SW_OK)
        return status;
    head->shape[dim] = 0;
    for (size_t i = 0; i < count && status == SW_OK; i++) {
        status = check_like(&parts[0], &parts[i], i, dim, err);
        if (status == SW_OK)
            status = check_groups(parts[i].shape[dim], groups, "part", i, err);
        if (status == SW_OK &&
            !swi_add_i64(head->shape[dim], parts[i].shape[dim], &head->shape[dim]))
            status = swi_fail(err, SW_ERR_ARG, "the joined dimension is too large");
        head->replicas = head->replicas || parts[i].replicas;
        head->defect = head->defect != SW_OK ? head->defect : parts[i].defect;
    }
    return status == SW_OK ? swi_shaped_check(head, err) : status;
}

sw_status swi_shaped_join(const swi_shaped *parts, size_t count, uint32_t dim, int64_t groups,
                          swi_shaped *out, sw_error *err)
{
    swi_shaped head;
    sw_status status = join_head(parts, count, dim, groups, &head, err);
    if (status != SW_OK)
        return status;
    swi_shaping s = {.element_bytes = sw_dtype_bytes(head.dtype)};
    int64_t at = 0;
    for (size_t i = 0; i < count && status == SW_OK; i++) {
        int64_t run = parts[i].shape[dim] / groups;
        if (parts[i].count > 0) {
            const swi_line line = {.size = run,
                                   .inner = swi_shaped_inner(&head, dim),
                                   .new_size = head.shape[dim] / groups,
                                   .hi = run,
                                   .at = at};
            status = swi_shaping_line(&s, parts[i].pieces, parts[i].count, &line, err);
        }
        at += run;
    }
    if (status == SW_OK)
        swi_shaped_finish(&s, &head, out);
    swi_shaping_end(&s);
    return status;
}

/* ---- split ----------------------------------------------------------------------------------- */

static sw_status check_sizes(const swi_shaped *in, uint32_t dim, int64_t groups,
                             const int64_t *sizes, size_t count, sw_error *err)
{
    int64_t sum = 0;
    sw_status status = swi_shaped_check_dim(in, dim, err);
    for (size_t i = 0; i < count && status == SW_OK; i++) {
        status = check_groups(sizes[i], groups, "part", i, err);
        if (status == SW_OK && (sizes[i] < 0 || !swi_add_i64(sum, sizes[i], &sum)))
            status = swi_fail(err, SW_ERR_ARG, "part %zu: %" PRId64 " is no size", i, sizes[i]);
    }
    if (status == SW_OK && sum != in->shape[dim])
        status =
            swi_fail(err, SW_ERR_ARG,
                     "parts of %" PRId64 " in all do not make up dimension %" PRIu32 " of %" PRId64,
                     sum, dim, in->shape[dim]);
    return status;
}

/* The part that lies from `at` on in each group. */
static sw_status split_one(const swi_shaped *in, uint32_t dim, int64_t groups, int64_t at,
                           int64_t size, swi_shaped *out, sw_error *err)
{
    swi_shaping s = {.element_bytes = sw_dtype_bytes(in->dtype)};
    swi_shaped head = *in;
    sw_status status = SW_OK;
    head.shape[dim] = size;
    if (in->count > 0) {
        const swi_line line = {.size = in->shape[dim] / groups,
                               .inner = swi_shaped_inner(in, dim),
                               .new_size = size / groups,
                               .lo = at,
                               .hi = at + size / groups};
        status = swi_shaping_line(&s, in->pieces, in->count, &line, err);
    }
    if (status == SW_OK)
        swi_shaped_finish(&s, &head, out);
    swi_shaping_end(&s);
    return status;
}

sw_status swi_shaped_split(const swi_shaped *in, uint32_t dim, int64_t groups, const int64_t *sizes,
                           size_t count, swi_shaped *parts, sw_error *err)
{
    void *room = NULL;
    sw_status status = check_sizes(in, dim, groups, sizes, count, err);
    if (status == SW_OK)
        status = swi_alloc_array(count, sizeof *parts, &room, err);
    if (status != SW_OK)
        return status;
    swi_shaped *made = room;
    int64_t at = 0;
    for (size_t i = 0; i < count && status == SW_OK; i++) {
        status = split_one(in, dim, groups, at, sizes[i], &made[i], err);
        at += sizes[i] / groups;
    }
    if (status == SW_OK && count > 0)
        memcpy(parts, made, count * sizeof *parts);
    for (size_t i = 0; i < count && status != SW_OK; i++)
        swi_shaped_free(&made[i]);
    free(made);
    return status;
}

/* ---- stack ----------------------------------------------------------------------------------- */

/* The result of a stack without its pieces. */
static sw_status stack_head(const swi_shaped *parts, size_t count, uint32_t dim, swi_shaped *head,
                            sw_error *err)
{
    sw_status status = SW_OK;
    if (count == 0)
        return swi_fail(err, SW_ERR_ARG, "nothing to stack");
    *head = parts[0];
    if (dim > head->axes)
        return swi_fail(err, SW_ERR_ARG, "no place for a dimension %" PRIu32 " among %" PRIu32, dim,
                        head->axes);
    if (head->axes == SW_MAX_AXES)
        return swi_fail(err, SW_ERR_LIMIT, "it would have more than %d dimensions", SW_MAX_AXES);
    for (uint32_t k = head->axes++; k > dim; k--)
        head->shape[k] = head->shape[k - 1];
    head->shape[dim] = (int64_t)count;
    for (size_t i = 0; i < count && status == SW_OK; i++) {
        status = check_like(&parts[0], &parts[i], i, SW_MAX_AXES, err);
        head->replicas = head->replicas || parts[i].replicas;
        head->defect = head->defect != SW_OK ? head->defect : parts[i].defect;
    }
    return status == SW_OK ? swi_shaped_check(head, err) : status;
}

sw_status swi_shaped_stack(const swi_shaped *parts, size_t count, uint32_t dim, swi_shaped *out,
                           sw_error *err)
{
    swi_shaped head;
    sw_status status = stack_head(parts, count, dim, &head, err);
    if (status != SW_OK)
        return status;
    swi_shaping s = {.element_bytes = sw_dtype_bytes(head.dtype)};
    for (size_t i = 0; i < count && status == SW_OK; i++) {
        if (parts[i].count == 0)
            continue;
        const swi_line line = {.size = 1,
                               .inner = swi_shaped_inner(&head, dim),
                               .new_size = (int64_t)count,
                               .hi = 1,
                               .at = (int64_t)i};
        status = swi_shaping_line(&s, parts[i].pieces, parts[i].count, &line, err);
    }
    if (status == SW_OK)
        swi_shaped_finish(&s, &head, out);
    swi_shaping_end(&s);
    return status;
}

sw_status swi_shaped_unstack(const swi_shaped *in, uint32_t dim, int64_t index, swi_shaped *out,
                             sw_error *err)
{
    int64_t offset[SW_MAX_AXES] = {0}, length[SW_MAX_AXES];
    swi_shaped cut;
    sw_status status = swi_shaped_check_dim(in, dim, err);
    if (status != SW_OK)
        return status;
    if (index < 0 || index >= in->shape[dim])
        return swi_fail(err, SW_ERR_ARG, "no part %" PRId64 " in dimension %" PRIu32 " of %" PRId64,
                        index, dim, in->shape[dim]);
    memcpy(length, in->shape, sizeof length);
    offset[dim] = index;
    length[dim] = 1;
    status = swi_shaped_cut(in, offset, length, &cut, err);
    if (status != SW_OK)
        return status;
    cut.axes--;
    for (uint32_t k = dim; k < cut.axes; k++)
        cut.shape[k] = cut.shape[k + 1];
    *out = cut;
    return SW_OK;
}
