/*
 * Ending a layout: its tensors are covered and its files tiled, or the first fault is named; then
 * what belongs to each file is sorted.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "base/report.h"
#include "base/text.h"
#include "layout_tables.h"

static int by_place(const void *left, const void *right)
{
    const swi_range *a = left, *b = right;
    if (a->file != b->file)
        return a->file < b->file ? -1 : 1;
    return (a->offset > b->offset) - (a->offset < b->offset);
}

static int literal_by_place(const void *left, const void *right)
{
    const swi_literal_row *a = left, *b = right;
    if (a->file != b->file)
        return a->file < b->file ? -1 : 1;
    return (a->offset > b->offset) - (a->offset < b->offset);
}

static sw_status fail_untiled(const swi_layout *layout, uint32_t file, uint64_t at, uint64_t next,
                              sw_error *err)
{
    swi_quoted room;
    const char *path = swi_quote_str(&room, swi_catalog_path(layout->catalog, file));
    if (next > at)
        return swi_fail(err, SW_ERR_ARG, "layout: %s: nothing fills bytes %" PRIu64 " to %" PRIu64,
                        path, at, next);
    return swi_fail(err, SW_ERR_ARG, "layout: %s: bytes from %" PRIu64 " on are there twice", path,
                    next);
}

/* Sorted ranges must follow one another from 0 to the end of each file. */
static sw_status check_tiling(const swi_layout *layout, const swi_range *ranges, size_t count,
                              sw_error *err)
{
    size_t i = 0;
    for (uint32_t file = 0; file < layout->file_count; file++) {
        uint64_t at = 0;
        for (; i < count && ranges[i].file == file; i++) {
            if (ranges[i].offset != at)
                return fail_untiled(layout, file, at, ranges[i].offset, err);
            at += ranges[i].size;
        }
        if (at != layout->files[file].bytes)
            return fail_untiled(layout, file, at, layout->files[file].bytes, err);
    }
    return SW_OK;
}

static sw_status prove_tiling(const swi_layout *layout, sw_error *err)
{
    uint32_t blobs = swi_catalog_blob_count(layout->catalog);
    void *p;
    sw_status status = swi_alloc_array(blobs + layout->literal_count + layout->late_count,
                                       sizeof(swi_range), &p, err);
    if (status != SW_OK)
        return status;
    swi_range *ranges = p;
    size_t count = 0;
    for (uint32_t i = 0; i < blobs; i++) {
        swi_blob blob;
        swi_catalog_blob(layout->catalog, i, &blob);
        ranges[count++] = (swi_range){blob.file, blob.offset_bytes, blob.stored_bytes};
    }
    for (size_t i = 0; i < layout->literal_count; i++) {
        const swi_literal_row *l = &layout->literals[i];
        ranges[count++] = (swi_range){l->file, l->offset, l->size};
    }
    for (size_t i = 0; i < layout->late_count; i++) {
        const swi_late_row *l = &layout->lates[i];
        ranges[count++] = (swi_range){l->file, l->in.offset_bytes, l->in.size};
    }
    qsort(ranges, count, sizeof *ranges, by_place);
    status = check_tiling(layout, ranges, count, err);
    free(ranges);
    return status;
}

/* The first defect of a tensor, in the words of the catalog. */
static sw_status check_tensors(const swi_layout *layout, const sw_report *report, sw_error *err)
{
    for (uint32_t t = 0; t < layout->target_count; t++) {
        if (swi_tensor_defect(layout->catalog, t) == SW_OK)
            continue;
        sw_tensor_info info;
        swi_quoted room;
        const sw_finding *why = sw_report_at(report, 0);
        (void)sw_catalog_tensor(layout->catalog, t, &info);
        return swi_fail(err, SW_ERR_ARG, "layout: tensor \"%s\": %s",
                        swi_quote_str(&room, info.name), why != NULL ? why->message : "defective");
    }
    return SW_OK;
}

static int sum_by_place(const void *left, const void *right)
{
    const swi_sum_row *a = left, *b = right;
    if (a->file != b->file)
        return a->file < b->file ? -1 : 1;
    if (a->range.offset_bytes != b->range.offset_bytes)
        return a->range.offset_bytes < b->range.offset_bytes ? -1 : 1;
    return (a->range.bytes > b->range.bytes) - (a->range.bytes < b->range.bytes);
}

static int late_by_place(const void *left, const void *right)
{
    const swi_late_row *a = left, *b = right;
    if (a->file != b->file)
        return a->file < b->file ? -1 : 1;
    return (a->in.offset_bytes > b->in.offset_bytes) - (a->in.offset_bytes < b->in.offset_bytes);
}

/* Where each file's elements begin in a sorted array that begins each with its file. */
static sw_status index_files(const swi_layout *layout, const void *items, size_t count, size_t size,
                             size_t **out, sw_error *err)
{
    void *p;
    sw_status status = swi_alloc_array(layout->file_count + 1, sizeof(size_t), &p, err);
    if (status != SW_OK)
        return status;
    *out = p;
    size_t i = 0;
    for (uint32_t file = 0; file <= layout->file_count; file++) {
        while (i < count && *(const uint32_t *)((const char *)items + i * size) < file)
            i++;
        (*out)[file] = i;
    }
    return SW_OK;
}

/* Sums and late literals are both sorted: none of a file's sums may hold a byte of a late one. */
static sw_status check_sums(const swi_layout *layout, uint32_t file, sw_error *err)
{
    size_t l = 0, lates = swi_layout_late_count(layout, file);
    for (size_t i = 0; i < swi_layout_sum_count(layout, file); i++) {
        swi_sum sum_at = swi_layout_sum_at(layout, file, i);
        const swi_late *in = NULL;
        for (; l < lates; l++) {
            in = swi_layout_late_at(layout, file, l);
            if (in->offset_bytes + in->size > sum_at.offset_bytes)
                break;
        }
        if (l < lates && in->offset_bytes < sum_at.offset_bytes + sum_at.bytes)
            return swi_fail(err, SW_ERR_ARG,
                            "layout: the sum from %" PRIu64 " on of file %" PRIu32
                            " reaches into bytes that are made late",
                            sum_at.offset_bytes, file);
    }
    return SW_OK;
}

static sw_status index_lates(swi_layout *layout, sw_error *err)
{
    if (layout->sum_count > 1)
        qsort(layout->sums, layout->sum_count, sizeof *layout->sums, sum_by_place);
    if (layout->late_count > 1)
        qsort(layout->lates, layout->late_count, sizeof *layout->lates, late_by_place);
    sw_status status = index_files(layout, layout->sums, layout->sum_count, sizeof *layout->sums,
                                   &layout->first_sum, err);
    if (status == SW_OK)
        status = index_files(layout, layout->lates, layout->late_count, sizeof *layout->lates,
                             &layout->first_late, err);
    for (uint32_t file = 0; status == SW_OK && file < layout->file_count; file++)
        status = check_sums(layout, file, err);
    return status;
}

static sw_status index_literals(swi_layout *layout, sw_error *err)
{
    if (layout->literal_count > 1)
        qsort(layout->literals, layout->literal_count, sizeof *layout->literals, literal_by_place);
    sw_status status = index_files(layout, layout->literals, layout->literal_count,
                                   sizeof *layout->literals, &layout->first_literal, err);
    return status == SW_OK ? index_lates(layout, err) : status;
}

sw_status swi_layout_freeze(swi_layout *layout, sw_error *err)
{
    sw_report *report = NULL;
    if (layout->builder == NULL)
        return swi_fail(err, SW_ERR_ARG, "the layout is frozen");
    sw_status status = sw_report_make(&report, err);
    if (status != SW_OK)
        return status;
    swi_builder *builder = layout->builder;
    layout->builder = NULL;
    status = swi_builder_freeze(builder, report, &layout->catalog, err);
    if (status != SW_OK)
        goto done;
    status = check_tensors(layout, report, err);
    if (status != SW_OK)
        goto done;
    status = prove_tiling(layout, err);
    if (status == SW_OK)
        status = index_literals(layout, err);
done:
    sw_report_free(report);
    return status;
}
