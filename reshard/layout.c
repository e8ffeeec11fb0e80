#include "layout.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/checked.h"
#include "base/report.h"
#include "base/text.h"

typedef struct literal {
    uint32_t file;
    uint8_t fill;
    uint64_t offset;
    uint64_t size;
    const uint8_t *data;
} literal;

typedef struct target {
    uint32_t source;
    sw_dtype dtype;
} target;

typedef struct sum {
    uint32_t file;
    swi_sum range;
} sum;

typedef struct late {
    uint32_t file;
    swi_late in;
} late;

typedef struct layout_file {
    uint64_t bytes, late_bytes;
    uint64_t sum_end; /* of the last sum */
    uint32_t sum_count;
} layout_file;

struct swi_layout {
    swi_builder *builder; /* until frozen */
    sw_catalog *catalog;  /* from then on */
    swi_arena arena;      /* the literals' bytes */
    literal *literals;    /* once frozen: by file and offset */
    size_t literal_count, literal_capacity;
    size_t *first_literal; /* of each file, and one past the last */
    sum *sums;             /* once frozen: by file, in the order asked */
    size_t sum_count, sum_capacity;
    size_t *first_sum;
    late *lates; /* as the literals */
    size_t late_count, late_capacity;
    size_t *first_late;
    target *targets; /* by tensor */
    size_t target_count, target_capacity;
    swi_layout_view *views;
    size_t view_count, view_capacity;
    layout_file *files;
    size_t file_count, file_capacity;
};

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
    free(layout->files);
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
    layout->files[layout->file_count++] = (layout_file){.bytes = bytes};
    *file = id;
    return SW_OK;
}

static sw_status add_literal(swi_layout *layout, const literal *in, sw_error *err)
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
    literal in = {.file = file, .offset = offset, .size = size, .data = copy};
    return add_literal(layout, &in, err);
}

sw_status swi_layout_fill(swi_layout *layout, uint32_t file, uint64_t offset, uint64_t size,
                          uint8_t byte, sw_error *err)
{
    sw_status status = check_range(layout, file, offset, size, err);
    if (status != SW_OK)
        return status;
    literal in = {.file = file, .offset = offset, .size = size, .fill = byte};
    return add_literal(layout, &in, err);
}

sw_status swi_layout_sum(swi_layout *layout, uint32_t file, uint64_t offset, uint64_t bytes,
                         uint32_t *out, sw_error *err)
{
    sw_status status = check_range(layout, file, offset, bytes, err);
    if (status != SW_OK)
        return status;
    layout_file *f = &layout->files[file];
    if (offset < f->sum_end)
        return swi_fail(err, SW_ERR_ARG,
                        "layout: a sum from %" PRIu64 " on of file %" PRIu32
                        " does not follow the one before it",
                        offset, file);
    status = swi_grow_array((void **)&layout->sums, &layout->sum_capacity, layout->sum_count + 1,
                            sizeof *layout->sums, err);
    if (status != SW_OK)
        return status;
    layout->sums[layout->sum_count++] = (sum){.file = file, .range = {offset, bytes}};
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
    layout->lates[layout->late_count++] = (late){.file = file, .in = *in};
    layout->files[file].late_bytes += in->size;
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
    layout->targets[layout->target_count++] = (target){.source = source, .dtype = in->dtype};
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

sw_status swi_layout_piece(swi_layout *layout, uint32_t tensor, uint32_t file, uint64_t offset,
                           uint64_t bytes, const swi_piece *piece, sw_error *err)
{
    sw_status status = check_range(layout, file, offset, bytes, err);
    if (status != SW_OK)
        return status;
    if (tensor >= layout->target_count)
        return swi_fail(err, SW_ERR_ARG, "the layout has no tensor %" PRIu32, tensor);
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
    swi_blob blob = {
        .ops = &swi_blob_slice,
        .file = file,
        .offset_bytes = offset,
        .stored_bytes = bytes,
        .bytes = bytes,
    };
    swi_piece placed = *piece;
    status = swi_builder_blob(layout->builder, &blob, &placed.blob, err);
    if (status != SW_OK)
        return status;
    return swi_builder_piece(layout->builder, tensor, &placed, err);
}

/* ---- freezing ------------------------------------------------------------------------------- */

typedef struct range {
    uint32_t file;
    uint64_t offset;
    uint64_t size;
} range;

static int by_place(const void *left, const void *right)
{
    const range *a = left, *b = right;
    if (a->file != b->file)
        return a->file < b->file ? -1 : 1;
    return (a->offset > b->offset) - (a->offset < b->offset);
}

static int literal_by_place(const void *left, const void *right)
{
    const literal *a = left, *b = right;
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
static sw_status check_tiling(const swi_layout *layout, const range *ranges, size_t count,
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
    sw_status status =
        swi_alloc_array(blobs + layout->literal_count + layout->late_count, sizeof(range), &p, err);
    if (status != SW_OK)
        return status;
    range *ranges = p;
    size_t count = 0;
    for (uint32_t i = 0; i < blobs; i++) {
        swi_blob blob;
        swi_catalog_blob(layout->catalog, i, &blob);
        ranges[count++] = (range){blob.file, blob.offset_bytes, blob.stored_bytes};
    }
    for (size_t i = 0; i < layout->literal_count; i++) {
        const literal *l = &layout->literals[i];
        ranges[count++] = (range){l->file, l->offset, l->size};
    }
    for (size_t i = 0; i < layout->late_count; i++) {
        const late *l = &layout->lates[i];
        ranges[count++] = (range){l->file, l->in.offset_bytes, l->in.size};
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
    const sum *a = left, *b = right;
    if (a->file != b->file)
        return a->file < b->file ? -1 : 1;
    if (a->range.offset_bytes != b->range.offset_bytes)
        return a->range.offset_bytes < b->range.offset_bytes ? -1 : 1;
    return (a->range.bytes > b->range.bytes) - (a->range.bytes < b->range.bytes);
}

static int late_by_place(const void *left, const void *right)
{
    const late *a = left, *b = right;
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
    sw_status status = check_open(layout, err);
    if (status != SW_OK)
        return status;
    status = sw_report_make(&report, err);
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

/* ---- after freezing ------------------------------------------------------------------------- */

const sw_catalog *swi_layout_catalog(const swi_layout *layout)
{
    return layout->catalog;
}

uint32_t swi_layout_source(const swi_layout *layout, uint32_t tensor)
{
    return layout->targets[tensor].source;
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
    const literal *l = &layout->literals[layout->first_literal[file] + i];
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
