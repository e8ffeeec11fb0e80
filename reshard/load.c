#include "load.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/arena.h"
#include "base/text.h"
#include "cover.h"
#include "view.h"

#define EXTENT_SLOTS 64U
/* Of decoded chunks, by a view of its own. */
#define DECODED_BYTES ((uint64_t)8 << 20)

/* A damaged tensor can be read where it is whole, but not where its parts contradict each other. */
static sw_status check_tensor(const sw_catalog *catalog, uint32_t tensor, sw_tensor_info *info,
                              sw_error *err)
{
    if (!sw_catalog_tensor(catalog, tensor, info))
        return swi_fail(err, SW_ERR_ARG, "no tensor %" PRIu32, tensor);
    sw_status defect = swi_tensor_defect(catalog, tensor);
    if (defect != SW_OK && defect != SW_ERR_INCOMPLETE)
        return swi_tensor_refuse(catalog, tensor, err);
    return SW_OK;
}

static sw_status make_bounce(swi_view *v, uint64_t stored_bytes, sw_error *err)
{
    size_t need = stored_bytes > SWI_VIEW_BOUNCE ? (size_t)stored_bytes : SWI_VIEW_BOUNCE;
    void *bounce;
    if (v->bounce_bytes >= need)
        return SW_OK;
    sw_status status = swi_alloc_array(need, 1, &bounce, err);
    if (status != SW_OK)
        return status;
    free(v->bounce);
    v->bounce = bounce;
    v->bounce_bytes = need;
    return SW_OK;
}

/* Room for decoded chunks, if no one else keeps them. */
static sw_status make_decoded(swi_view *v, uint64_t raw_bytes, sw_error *err)
{
    if (v->own != NULL) { /* of another tensor */
        swi_decoded_free(v->own);
        v->source.decoded = v->own = NULL;
    }
    if (raw_bytes == 0 || v->source.decoded != NULL)
        return SW_OK;
    uint64_t slots = DECODED_BYTES / raw_bytes;
    slots = slots < v->cover.piece_count ? slots : v->cover.piece_count;
    slots = slots < SWI_DECODED_SLOTS_MAX ? slots : SWI_DECODED_SLOTS_MAX;
    sw_status status = swi_decoded_make(slots > 0 ? (uint32_t)slots : 1, raw_bytes, &v->own, err);
    v->source.decoded = v->own;
    return status;
}

/* The view has its source. */
static sw_status set_tensor(swi_view *v, uint32_t tensor, bool once, sw_error *err)
{
    const sw_catalog *catalog = v->source.catalog;
    sw_status status = check_tensor(catalog, tensor, &v->info, err);
    if (status != SW_OK)
        return status;
    v->tensor = tensor;
    status = swi_cover_make(catalog, tensor, once, &v->cover, err);
    if (status != SW_OK)
        return status;
    const swi_chunk_sizes sizes = swi_chunk_sizes_of_tensor(catalog, tensor);
    status = make_bounce(v, sizes.stored, err);
    return status == SW_OK ? make_decoded(v, sizes.raw, err) : status;
}

static sw_status open_view(const swi_source *source, uint32_t tensor, bool once, swi_view *out,
                           sw_error *err)
{
    swi_view v = {.source = *source};
    sw_status status = set_tensor(&v, tensor, once, err);
    if (status == SW_OK)
        status = swi_extents_make(source, EXTENT_SLOTS, &v.extents, err);
    if (status == SW_OK)
        *out = v;
    else
        swi_view_close(&v);
    return status;
}

sw_status swi_view_open(const swi_source *source, uint32_t tensor, swi_view *out, sw_error *err)
{
    return open_view(source, tensor, true, out, err);
}

sw_status swi_view_open_pieces(const swi_source *source, uint32_t tensor, swi_view *out,
                               sw_error *err)
{
    return open_view(source, tensor, false, out, err);
}

sw_status swi_view_turn(swi_view *view, uint32_t tensor, sw_error *err)
{
    swi_cover_end(&view->cover);
    sw_status status = set_tensor(view, tensor, true, err);
    if (status != SW_OK)
        swi_view_close(view);
    return status;
}

void swi_view_close(swi_view *view)
{
    swi_cover_end(&view->cover);
    swi_extents_free(view->extents);
    swi_moves_free(&view->moves);
    swi_decoded_free(view->own);
    free(view->bounce);
    *view = (swi_view){0};
}

swi_fetch swi_view_fetch(swi_view *view)
{
    return (swi_fetch){
        .source = &view->source,
        .extents = view->extents,
        .track = view->track,
        .only_passing = true,
        .report = view->report,
        .bounce = view->bounce,
        .bounce_bytes = view->bounce_bytes,
        .tally = &view->tally,
    };
}

/* The moves of the view, into `out`. */
static sw_status fetch_moves(swi_view *view, void *out, sw_error *err)
{
    swi_fetch fetch = swi_view_fetch(view);
    return swi_fetch_moves(&fetch, view->tensor, &view->moves, out, err);
}

sw_status swi_view_read(swi_view *view, uint64_t lo, uint64_t hi, void *out, sw_error *err)
{
    swi_quoted room;
    uint64_t held;
    if (lo > hi || hi > view->info.elements)
        return swi_fail(err, SW_ERR_ARG,
                        "tensor \"%s\": elements %" PRIu64 " to %" PRIu64 " of %" PRIu64,
                        swi_quote_str(&room, view->info.name), lo, hi, view->info.elements);
    if (lo == hi)
        return SW_OK;
    sw_status status = swi_cover_moves(&view->cover, lo, hi, &view->moves, &held, err);
    if (status != SW_OK)
        return status;
    if (held != hi - lo)
        return swi_fail(err, SW_ERR_INCOMPLETE,
                        "tensor \"%s\": only %" PRIu64 " of the %" PRIu64 " elements from %" PRIu64
                        " on are there",
                        swi_quote_str(&room, view->info.name), held, hi - lo, lo);
    return fetch_moves(view, out, err);
}

sw_status swi_view_lay(swi_view *view, uint64_t piece, uint64_t lo, uint64_t hi, void *out,
                       sw_error *err)
{
    uint64_t held = 0;
    view->moves.count = 0;
    sw_status status = swi_cover_piece_moves(&view->cover, piece, lo, hi, &view->moves, &held, err);
    return status == SW_OK ? fetch_moves(view, out, err) : status;
}

sw_status swi_load_interval(const swi_source *source, uint32_t tensor, uint64_t lo, uint64_t hi,
                            void *out, sw_error *err)
{
    swi_view view;
    sw_status status = swi_view_open(source, tensor, &view, err);
    if (status != SW_OK)
        return status;
    status = swi_view_read(&view, lo, hi, out, err);
    swi_view_close(&view);
    return status;
}

static sw_status check_records(swi_view *view, sw_report *report, sw_error *err)
{
    const sw_catalog *catalog = view->source.catalog;
    sw_status status = SW_OK;
    swi_fetch fetch = swi_view_fetch(view);
    fetch.report = report;
    for (uint64_t i = 0; i < view->info.piece_count && status == SW_OK; i++) {
        swi_piece piece;
        swi_blob blob;
        swi_blob_label label = {.name = view->info.name};
        swi_tensor_piece(catalog, view->tensor, i, &piece);
        swi_piece_want(catalog, view->tensor, i, &label.want);
        swi_catalog_blob(catalog, piece.blob, &blob);
        label.file = swi_catalog_path(catalog, blob.file);
        status = swi_fetch_check(&fetch, piece.blob, &label, err);
    }
    return status;
}

sw_status swi_load_checked(const swi_source *source, uint32_t tensor, void *out, sw_report *report,
                           sw_error *err)
{
    swi_view view;
    sw_tensor_info info;
    /* Another name of a storage shows its owner's pieces. */
    while (sw_catalog_tensor(source->catalog, tensor, &info) && info.piece_count == 0 &&
           info.alias_of >= 0 && (uint32_t)info.alias_of != tensor)
        tensor = (uint32_t)info.alias_of;
    sw_status status = swi_view_open(source, tensor, &view, err);
    if (status != SW_OK)
        return status;
    status = check_records(&view, report, err);
    if (status == SW_OK)
        status = swi_view_read(&view, 0, view.info.elements, out, err);
    swi_view_close(&view);
    return status;
}
