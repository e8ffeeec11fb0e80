/* sw_load: what callers ask for, checked and handed on. */
#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/checked.h"
#include "base/text.h"
#include "framework.h"
#include "regions.h"

/* The members of the first version. */
#define REGION_BYTES sizeof(sw_region)

/* A struct of a later version may not ask for what is not known here. */
static sw_status take_struct(const uint8_t *at, size_t bytes, sw_region *out, sw_error *err)
{
    memcpy(out, at, REGION_BYTES);
    if (out->struct_bytes != bytes)
        return swi_fail(err, SW_ERR_ARG, "struct_bytes is %zu, that of the first one %zu",
                        out->struct_bytes, bytes);
    for (size_t i = REGION_BYTES; i < bytes; i++)
        if (at[i] != 0)
            return swi_fail(err, SW_ERR_UNSUPPORTED,
                            "byte %zu of a region is set, this library knows %zu", i,
                            (size_t)REGION_BYTES);
    return SW_OK;
}

static sw_status check_box(const sw_tensor_info *info, const sw_region *in, sw_error *err)
{
    if (in->axes != info->axes)
        return swi_fail(err, SW_ERR_ARG, "a region of %" PRIu32 " axes, the tensor has %" PRIu32,
                        in->axes, info->axes);
    if (in->dtype != SW_DTYPE_NONE && in->dtype != info->dtype)
        return swi_fail(err, SW_ERR_ARG, "it is %s, not %s", sw_dtype_name(info->dtype),
                        sw_dtype_name(in->dtype));
    for (uint32_t k = 0; k < info->axes; k++)
        if (in->offset[k] < 0 || in->length[k] < 0 || in->offset[k] > info->shape[k] ||
            in->length[k] > info->shape[k] - in->offset[k])
            return swi_fail(err, SW_ERR_ARG,
                            "axis %" PRIu32 ": %" PRId64 " elements from %" PRId64
                            " on, its size is %" PRId64,
                            k, in->length[k], in->offset[k], info->shape[k]);
    return SW_OK;
}

/* Axes that step, the smallest stride first. */
static uint32_t order_axes(const sw_region *in, uint32_t order[SW_MAX_AXES])
{
    uint32_t count = 0;
    for (uint32_t k = 0; k < in->axes; k++) {
        if (in->length[k] <= 1)
            continue;
        uint32_t i = count++;
        for (; i > 0 && in->stride_bytes[order[i - 1]] > in->stride_bytes[k]; i--)
            order[i] = order[i - 1];
        order[i] = k;
    }
    return count;
}

/* The elements are apart from each other and lie in the room. */
static sw_status check_memory(const sw_tensor_info *info, const sw_region *in, sw_error *err)
{
    uint32_t order[SW_MAX_AXES], count = order_axes(in, order);
    uint64_t reach = sw_dtype_bytes(info->dtype), step;
    for (uint32_t i = 0; i < count; i++) {
        int64_t stride = in->stride_bytes[order[i]];
        if (stride < 0 || (uint64_t)stride < reach)
            return swi_fail(err, SW_ERR_ARG,
                            "axis %" PRIu32 ": with a stride of %" PRId64
                            " bytes elements would overlap",
                            order[i], stride);
        if (!swi_mul_u64((uint64_t)stride, (uint64_t)in->length[order[i]] - 1, &step) ||
            !swi_add_u64(reach, step, &reach) || reach > INT64_MAX)
            return swi_fail(err, SW_ERR_ARG, "axis %" PRIu32 ": strides pass all bounds", order[i]);
    }
    if (in->out == NULL || reach > in->out_bytes)
        return swi_fail(err, SW_ERR_ARG, "the region takes %" PRIu64 " bytes, out has %" PRIu64,
                        reach, in->out == NULL ? 0 : in->out_bytes);
    return SW_OK;
}

static sw_status take_region(const sw_catalog *catalog, const sw_region *in, swi_region *out,
                             sw_error *err)
{
    sw_tensor_info info;
    int64_t tensor = in->tensor != NULL ? sw_catalog_find(catalog, in->tensor) : -1;
    if (tensor < 0 || !sw_catalog_tensor(catalog, (size_t)tensor, &info))
        return swi_fail(err, SW_ERR_NOTFOUND, "there is no such tensor");
    sw_status st = check_box(&info, in, err);
    if (st != SW_OK)
        return st;
    sw_region laid = *in;
    *out = (swi_region){.tensor = (uint32_t)tensor, .out = in->out};
    memcpy(out->offset, in->offset, sizeof out->offset);
    memcpy(out->length, in->length, sizeof out->length);
    if (!in->strided)
        swi_region_make_dense(&info, out);
    else
        memcpy(out->stride_bytes, in->stride_bytes, sizeof out->stride_bytes);
    memcpy(laid.stride_bytes, out->stride_bytes, sizeof laid.stride_bytes);
    for (uint32_t k = 0; k < info.axes; k++)
        if (in->length[k] == 0)
            return SW_OK;
    return check_memory(&info, &laid, err);
}

static sw_status take_all(const sw_catalog *catalog, const sw_region *regions, size_t count,
                          swi_region *out, sw_error *err)
{
    const uint8_t *at = (const uint8_t *)regions;
    size_t bytes = count > 0 ? regions->struct_bytes : REGION_BYTES;
    if (bytes < REGION_BYTES)
        return swi_fail(err, SW_ERR_ARG, "struct_bytes of a region is %zu, at least %zu", bytes,
                        (size_t)REGION_BYTES);
    for (size_t i = 0; i < count; i++, at += bytes) {
        sw_region in;
        swi_quoted q;
        sw_status st = take_struct(at, bytes, &in, err);
        if (st == SW_OK)
            st = take_region(catalog, &in, &out[i], err);
        if (st != SW_OK)
            return swi_error_prefix(err, "region %zu: tensor \"%s\"", i,
                                    swi_quote_str(&q, in.tensor != NULL ? in.tensor : ""));
    }
    return SW_OK;
}

sw_status sw_load(const sw_checkpoint *checkpoint, const sw_region *regions, size_t count,
                  const sw_work_options *work, sw_report *report, sw_tally *tally, sw_error *err)
{
    const sw_limits limits = swi_checkpoint_limits(checkpoint);
    const swi_source source = swi_checkpoint_source(checkpoint);
    sw_error room = {0};
    void *taken;
    if (err == NULL)
        err = &room;
    sw_status st = swi_alloc_array(count, sizeof(swi_region), &taken, err);
    if (st != SW_OK)
        return st;
    st = take_all(source.catalog, regions, count, taken, err);
    if (st == SW_OK)
        st = swi_regions_load(&source, taken, count, &limits, work, report, tally, err);
    free(taken);
    return st;
}
