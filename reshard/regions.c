#include "regions.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/checked.h"
#include "base/text.h"
#include "box.h"
#include "leftovers.h"
#include "places.h"
#include "pool.h"
#include "shaped.h"
#include "steps.h"
#include "view.h"

/* The most that goes straight to its place in one step; more keeps the reads of column shards long.
 */
#define DENSE_MAX ((uint64_t)16 << 20)
/* Of a thread's window where elements do not follow one another in the region's memory. */
#define WINDOW_MIN ((uint64_t)512 << 10)
/* A thread for less is not worth its start. */
#define THREAD_BYTES ((uint64_t)256 << 10)

void swi_region_make_dense(const sw_tensor_info *tensor, swi_region *region)
{
    int64_t stride = sw_dtype_bytes(tensor->dtype);
    for (uint32_t k = tensor->axes; k > 0; k--) {
        region->stride_bytes[k - 1] = stride;
        stride *= region->length[k - 1] > 0 ? region->length[k - 1] : 1;
    }
}

/* ---- the regions as tensors of a catalog ----------------------------------------------------- */

/* A blob that may hold something of a region, and a piece that lies in it. */
typedef struct part {
    uint32_t blob;
    uint32_t tensor;
    uint64_t piece;
} part;

typedef struct parts {
    part *items; /* by blob, each once: their index is their id in the regions' catalog */
    size_t count, capacity;
} parts;

/* The flat interval that the region lies in; empty when it has no elements. */
static void flat_bounds(const sw_tensor_info *info, const swi_region *region, uint64_t *lo,
                        uint64_t *hi)
{
    *lo = *hi = 0;
    for (uint32_t k = 0; k < info->axes; k++) {
        if (region->length[k] == 0) {
            *lo = *hi = 0;
            return;
        }
        uint64_t size = (uint64_t)info->shape[k];
        *lo = *lo * size + (uint64_t)region->offset[k];
        *hi = *hi * size + (uint64_t)(region->offset[k] + region->length[k] - 1);
    }
    ++*hi;
}

static sw_status add_parts(const sw_catalog *catalog, const swi_region *region, parts *p,
                           sw_error *err)
{
    sw_tensor_info info;
    uint64_t lo, hi;
    (void)sw_catalog_tensor(catalog, region->tensor, &info);
    flat_bounds(&info, region, &lo, &hi);
    for (uint64_t i = 0; i < info.piece_count && lo < hi; i++) {
        swi_piece piece;
        swi_tensor_piece(catalog, region->tensor, i, &piece);
        if (swi_piece_is_empty(&piece) || swi_piece_first(&piece) >= hi ||
            swi_piece_end(&piece) <= lo)
            continue;
        sw_status status =
            swi_grow_raw((void **)&p->items, &p->capacity, p->count + 1, sizeof *p->items, err);
        if (status != SW_OK)
            return status;
        p->items[p->count++] = (part){.blob = piece.blob, .tensor = region->tensor, .piece = i};
    }
    return SW_OK;
}

static int by_blob(const void *left, const void *right)
{
    const part *a = left, *b = right;
    return (a->blob > b->blob) - (a->blob < b->blob);
}

/* Every blob once, in the builder under its index. */
static sw_status take_blobs(const sw_catalog *from, parts *p, swi_builder *builder, sw_error *err)
{
    size_t kept = 0;
    if (p->count > 1)
        qsort(p->items, p->count, sizeof *p->items, by_blob);
    for (size_t i = 0; i < p->count; i++) {
        uint32_t id;
        if (kept > 0 && p->items[kept - 1].blob == p->items[i].blob)
            continue;
        sw_status status =
            swi_builder_take(builder, from, p->items[i].tensor, p->items[i].piece, &id, err);
        if (status != SW_OK)
            return status;
        p->items[kept++] = p->items[i];
    }
    p->count = kept;
    return SW_OK;
}

/* "NAME[0:2, 8:16]", which names it in errors; with its number where it is asked for again. */
static sw_status put_region(const sw_tensor_info *info, const swi_region *region, size_t number,
                            const swi_shaped *cut, swi_builder *builder, sw_error *err)
{
    swi_buf name = {0};
    uint32_t id;
    sw_status status = swi_buf_append_str(&name, info->name, err);
    for (uint32_t k = 0; k < info->axes && status == SW_OK; k++)
        status = swi_buf_printf(&name, err, "%s%" PRId64 ":%" PRId64 "%s", k == 0 ? "[" : ", ",
                                region->offset[k], region->offset[k] + region->length[k],
                                k + 1 == info->axes ? "]" : "");
    const swi_shaped_name as = {
        .name = (const char *)name.data, .name_size = name.size, .role = info->role};
    if (status == SW_OK)
        status = swi_shaped_put(builder, &as, cut, &id, err);
    if (status == SW_ERR_CONFLICT) {
        status = swi_buf_printf(&name, err, " #%zu", number);
        const swi_shaped_name again = {
            .name = (const char *)name.data, .name_size = name.size, .role = info->role};
        if (status == SW_OK)
            status = swi_shaped_put(builder, &again, cut, &id, err);
    }
    swi_buf_free(&name);
    return status;
}

static sw_status cut_region(const sw_catalog *from, const swi_region *region, size_t number,
                            const parts *p, swi_builder *builder, sw_error *err)
{
    sw_tensor_info info;
    swi_shaped all = {0}, cut = {0};
    uint64_t lo, hi;
    swi_quoted room;
    (void)sw_catalog_tensor(from, region->tensor, &info);
    flat_bounds(&info, region, &lo, &hi);
    sw_status status = swi_shaped_take_near(from, region->tensor, lo, hi, &all, err);
    if (status == SW_OK) {
        status = swi_shaped_cut(&all, region->offset, region->length, &cut, err);
        if (status != SW_OK)
            (void)swi_error_prefix(err, "tensor \"%s\"", swi_quote_str(&room, info.name));
    }
    for (size_t i = 0; i < cut.count && status == SW_OK; i++) {
        const part key = {.blob = cut.pieces[i].blob};
        const part *found = bsearch(&key, p->items, p->count, sizeof key, by_blob);
        if (found == NULL)
            status = swi_fail(err, SW_ERR_CONFLICT, "region %zu lies in an unknown blob", number);
        else
            cut.pieces[i].blob = (uint32_t)(found - p->items);
    }
    if (status == SW_OK)
        status = put_region(&info, region, number, &cut, builder, err);
    swi_shaped_free(&all);
    swi_shaped_free(&cut);
    return status;
}

/* Region i becomes tensor i. */
static sw_status make_catalog(const sw_catalog *from, const swi_region *regions, size_t count,
                              const sw_limits *limits, sw_catalog **out, sw_error *err)
{
    swi_builder *builder = NULL;
    sw_catalog *made = NULL;
    parts p = {0};
    sw_status status = SW_OK;
    for (size_t i = 0; i < count && status == SW_OK; i++)
        status = swi_tensor_refuse(from, regions[i].tensor, err);
    for (size_t i = 0; i < count && status == SW_OK; i++)
        status = add_parts(from, &regions[i], &p, err);
    if (status == SW_OK)
        status = swi_builder_over(from, limits, &builder, err);
    if (status == SW_OK)
        status = take_blobs(from, &p, builder, err);
    for (size_t i = 0; i < count && status == SW_OK; i++)
        status = cut_region(from, &regions[i], i, &p, builder, err);
    if (status == SW_OK) {
        status = swi_builder_freeze(builder, NULL, &made, err);
        builder = NULL;
    }
    for (uint32_t i = 0; i < count && status == SW_OK; i++)
        status = swi_tensor_refuse(made, i, err);
    if (status == SW_OK) {
        *out = made;
        made = NULL;
    }
    swi_builder_free(builder);
    sw_catalog_free(made);
    free(p.items);
    return status;
}

/* ---- the work -------------------------------------------------------------------------------- */

typedef struct regions_run {
    swi_source source;         /* of the regions' catalog */
    const swi_region *regions; /* by its tensors */
    uint32_t *order;
    uint32_t count;
    swi_pool *pool;
    swi_crc_track *track;
    sw_report *report;
    uint64_t window_bytes; /* of a worker's buffer; 0: all regions are dense */
    uint64_t bytes;        /* of all regions */
    /* The walk, under the pool's lock: */
    uint32_t position;
    swi_steps steps; /* of the tensor at `position` */
    bool has_steps;
    uint64_t at;
} regions_run;

typedef struct regions_worker {
    uint32_t tensor;
    uint64_t lo, hi; /* elements of it */
    swi_view view;
    bool has_view;
    uint8_t *buffer;
} regions_worker;

static bool is_dense(const sw_tensor_info *info, const swi_region *region)
{
    int64_t stride = sw_dtype_bytes(info->dtype);
    for (uint32_t k = info->axes; k > 0; k--) {
        if (region->length[k - 1] > 1 && region->stride_bytes[k - 1] != stride)
            return false;
        stride *= region->length[k - 1];
    }
    return true;
}

static swi_steps steps_of(const regions_run *r, uint32_t tensor)
{
    sw_tensor_info info;
    (void)sw_catalog_tensor(r->source.catalog, tensor, &info);
    if (info.elements == 0)
        return (swi_steps){0};
    uint64_t most = is_dense(&info, &r->regions[tensor]) ? DENSE_MAX : r->window_bytes;
    return swi_steps_make(&info, sw_dtype_bytes(info.dtype),
                          swi_spread_of(r->source.catalog, tensor), most);
}

static bool take(void *ctx, void *arg)
{
    regions_run *r = ctx;
    regions_worker *w = arg;
    while (r->position < r->count) {
        w->tensor = r->order[r->position];
        if (!r->has_steps)
            r->steps = steps_of(r, w->tensor);
        r->has_steps = true;
        if (swi_steps_next(&r->steps, &r->at, &w->lo, &w->hi))
            return true;
        r->position++;
        r->has_steps = false;
        r->at = 0;
    }
    return false;
}

static sw_status turn_view(regions_run *r, regions_worker *w, sw_error *err)
{
    if (w->has_view && w->view.tensor == w->tensor)
        return SW_OK;
    sw_status status = w->has_view ? swi_view_turn(&w->view, w->tensor, err)
                                   : swi_view_open(&r->source, w->tensor, &w->view, err);
    w->has_view = status == SW_OK;
    w->view.track = r->track;
    w->view.report = r->report;
    return status;
}

/* The worker's elements from its buffer to where they belong. */
static void spread(const regions_worker *w, const swi_region *region)
{
    const sw_tensor_info *info = &w->view.info;
    swi_piece whole = {.axes = info->axes}, boxes[SWI_INTERVAL_MAX];
    uint32_t size = sw_dtype_bytes(info->dtype);
    for (uint32_t k = 0; k < info->axes; k++) {
        whole.view[k] = whole.length[k] = info->shape[k];
        whole.stride_bytes[k] = region->stride_bytes[k];
    }
    size_t count = swi_piece_in_interval(&whole, w->lo, w->hi, boxes);
    for (size_t i = 0; i < count; i++) {
        const swi_piece *p = &boxes[i];
        swi_box box = {.axes = p->axes,
                       .element_bytes = size,
                       .far_base = (int64_t)((swi_piece_first(p) - w->lo) * size),
                       .near_base = p->base_bytes};
        int64_t far = size;
        for (uint32_t k = p->axes; k > 0; k--) {
            box.length[k - 1] = p->length[k - 1];
            box.near_stride[k - 1] = p->stride_bytes[k - 1];
            box.far_stride[k - 1] = far;
            far *= p->view[k - 1];
        }
        swi_box_normalise(&box);
        swi_box_copy_near(&box, region->out, w->buffer);
    }
}

static sw_status work_window(void *ctx, void *arg, sw_error *err)
{
    regions_run *r = ctx;
    regions_worker *w = arg;
    const swi_region *region = &r->regions[w->tensor];
    sw_status status = turn_view(r, w, err);
    if (status != SW_OK)
        return status;
    uint32_t size = sw_dtype_bytes(w->view.info.dtype);
    bool dense = is_dense(&w->view.info, region);
    uint8_t *out = dense ? region->out + w->lo * size : w->buffer;
    status = swi_view_read(&w->view, w->lo, w->hi, out, err);
    if (status == SW_OK && !dense)
        spread(w, region);
    atomic_fetch_add(&r->pool->done_bytes, (w->hi - w->lo) * size);
    return status;
}

/* ---- the run --------------------------------------------------------------------------------- */

static sw_status make_order(regions_run *r, sw_error *err)
{
    void *room;
    r->count = (uint32_t)sw_catalog_tensor_count(r->source.catalog);
    sw_status status = swi_alloc_array(r->count, sizeof *r->order, &room, err);
    if (status != SW_OK)
        return status;
    r->order = room;
    for (uint32_t i = 0; i < r->count; i++) {
        sw_tensor_info info;
        r->order[i] = i;
        (void)sw_catalog_tensor(r->source.catalog, i, &info);
        if (!swi_add_u64(r->bytes, info.bytes, &r->bytes))
            r->bytes = UINT64_MAX;
        if (!is_dense(&info, &r->regions[i]))
            r->window_bytes = WINDOW_MIN;
    }
    return swi_sort_by_place(r->source.catalog, r->order, r->count, err);
}

static sw_status run_workers(regions_run *r, regions_worker *workers, uint32_t threads,
                             const sw_work_options *work, sw_error *err)
{
    void *list, *buffer;
    sw_status status = swi_alloc_array(threads, sizeof(void *), &list, err);
    if (status != SW_OK)
        return status;
    for (uint32_t i = 0; i < threads && status == SW_OK; i++) {
        ((void **)list)[i] = &workers[i];
        if (r->window_bytes == 0)
            continue;
        status = swi_alloc_array((size_t)r->window_bytes, 1, &buffer, err);
        if (status == SW_OK)
            workers[i].buffer = buffer;
    }
    const swi_job job = {.ctx = r, .take = take, .work = work_window};
    if (status == SW_OK)
        status = swi_pool_run(r->pool, &job, list, threads, work, r->bytes, err);
    for (uint32_t i = 0; i < threads && status == SW_OK; i++) {
        if (!workers[i].has_view)
            continue;
        swi_fetch fetch = swi_view_fetch(&workers[i].view);
        status = swi_fetch_leftovers(&fetch, false, err);
        break;
    }
    free(list);
    return status;
}

static sw_status run_regions(regions_run *r, const sw_work_options *work, sw_tally *tally,
                             sw_error *err)
{
    const swi_chunk_sizes sizes = swi_chunk_sizes_of(r->source.catalog);
    uint64_t bounce = sizes.stored > SWI_VIEW_BOUNCE ? 0 : SWI_VIEW_BOUNCE - sizes.stored;
    uint64_t wanted = r->bytes / THREAD_BYTES + 1;
    uint32_t threads = swi_work_threads(work);
    void *workers = NULL;
    const swi_decoded_share share =
        swi_decoded_divide(&sizes, swi_work_memory(work),
                           wanted < threads ? (uint32_t)wanted : threads, bounce + r->window_bytes);
    if (r->window_bytes > 0) {
        uint64_t room = share.each_bytes - bounce - sizes.stored;
        r->window_bytes = room < SWI_WINDOW_USUAL ? room : SWI_WINDOW_USUAL;
    }
    swi_decoded *decoded = NULL;
    sw_status status = swi_decoded_make(share.slots, sizes.raw, &decoded, err);
    r->source.decoded = decoded;
    if (status == SW_OK)
        status = swi_crc_track_make(swi_catalog_blob_count(r->source.catalog), &r->track, err);
    if (status == SW_OK)
        status = swi_alloc_array(share.threads, sizeof(regions_worker), &workers, err);
    if (status == SW_OK)
        status = run_workers(r, workers, share.threads, work, err);
    for (uint32_t i = 0; i < share.threads && workers != NULL; i++) {
        regions_worker *w = (regions_worker *)workers + i;
        if (tally != NULL && w->has_view)
            swi_tally_add(tally, &w->view.tally);
        if (w->has_view)
            swi_view_close(&w->view);
        free(w->buffer);
    }
    free(workers);
    swi_crc_track_free(r->track);
    swi_decoded_free(decoded);
    return status;
}

sw_status swi_regions_load(const swi_source *source, const swi_region *regions, size_t count,
                           const sw_limits *limits, const sw_work_options *work, sw_report *report,
                           sw_tally *tally, sw_error *err)
{
    swi_pool pool = {0};
    sw_catalog *catalog = NULL;
    sw_status status = make_catalog(source->catalog, regions, count, limits, &catalog, err);
    if (status != SW_OK)
        return status;
    regions_run r = {.source = {.catalog = catalog, .reader = source->reader},
                     .regions = regions,
                     .pool = &pool,
                     .report = report};
    status = swi_pool_init(&pool, err);
    if (status == SW_OK)
        status = make_order(&r, err);
    if (status == SW_OK)
        status = run_regions(&r, work, tally, err);
    free(r.order);
    swi_pool_end(&pool);
    sw_catalog_free(catalog);
    return status;
}
