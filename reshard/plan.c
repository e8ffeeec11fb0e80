#include "plan.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/arena.h"
#include "base/text.h"
#include "cast.h"
#include "cover.h"
#include "places.h"
#include "steps.h"
#include "transform.h"

typedef enum need {
    NEED_ALL = 0, /* no file that takes of it is finished */
    NEED_SOME,
    NEED_NONE
} need;

/* What the walk keeps of a destination tensor. */
typedef struct item {
    swi_cover from, to;
    swi_cover scale; /* of the factors; {0}: it is not scaled */
    swi_steps steps;
    need needed;
} item;

struct swi_plan {
    const sw_catalog *source, *target;
    item *items; /* by destination tensor */
    uint32_t count;
    uint32_t *order;  /* tensors by first place in the destination */
    uint8_t *skipped; /* by destination file; NULL: none */
    uint32_t file_count;
    uint64_t bytes;
};

/* ---- making --------------------------------------------------------------------------------- */

/* What is packed is put together in memory: its writes are long whatever windows are. */
static swi_steps choose_windows(const sw_tensor_info *info, bool packed, uint64_t window_bytes,
                                const item *it)
{
    uint64_t from = swi_spread_of(it->from.catalog, it->from.tensor);
    uint64_t to = packed ? 1 : swi_spread_of(it->to.catalog, it->to.tensor);
    return swi_steps_make(info, it->from.element_bytes + it->scale.element_bytes,
                          from > to ? from : to, window_bytes);
}

/* A tensor of the source that is whole and has the shape of `to`. */
static sw_status check_source(const sw_catalog *source, uint32_t tensor, const sw_tensor_info *to,
                              sw_tensor_info *from, sw_error *err)
{
    swi_quoted room;
    const char *name = swi_quote_str(&room, to->name);
    if (!sw_catalog_tensor(source, tensor, from))
        return swi_fail(err, SW_ERR_ARG, "tensor \"%s\": the source has no tensor %" PRIu32, name,
                        tensor);
    sw_status defect = swi_tensor_refuse(source, tensor, err);
    if (defect == SW_OK && from->alias_of >= 0 && from->piece_count == 0)
        defect = swi_tensor_refuse(source, (uint32_t)from->alias_of, err);
    if (defect != SW_OK)
        return swi_error_prefix(err, "in the source");
    bool same = from->axes == to->axes;
    for (uint32_t k = 0; same && k < to->axes; k++)
        same = from->shape[k] == to->shape[k];
    if (!same)
        return swi_fail(err, SW_ERR_CONFLICT,
                        "tensor \"%s\": its shape in the destination is not that of the source",
                        name);
    return SW_OK;
}

static sw_status check_pair(const sw_catalog *source, uint32_t tensor, const sw_tensor_info *to,
                            sw_tensor_info *from, sw_error *err)
{
    swi_quoted room;
    sw_status status = check_source(source, tensor, to, from, err);
    if (status == SW_OK && !swi_cast_possible(from->dtype, to->dtype))
        return swi_fail(err, SW_ERR_UNSUPPORTED, "tensor \"%s\": %s cannot be cast to %s",
                        swi_quote_str(&room, to->name), sw_dtype_name(from->dtype),
                        sw_dtype_name(to->dtype));
    return status;
}

static sw_status check_scaled(const sw_catalog *source, uint32_t tensor, uint32_t scale,
                              const sw_tensor_info *to, sw_tensor_info *from, sw_error *err)
{
    swi_quoted room;
    sw_tensor_info factor;
    sw_status status = check_source(source, tensor, to, from, err);
    if (status == SW_OK)
        status = check_source(source, scale, to, &factor, err);
    if (status == SW_OK && !swi_scale_possible(from->dtype, factor.dtype, to->dtype))
        return swi_fail(err, SW_ERR_UNSUPPORTED, "tensor \"%s\": %s times %s cannot be made to %s",
                        swi_quote_str(&room, to->name), sw_dtype_name(from->dtype),
                        sw_dtype_name(factor.dtype), sw_dtype_name(to->dtype));
    return status;
}

static need find_need(const swi_plan *plan, uint32_t tensor, uint64_t pieces)
{
    if (plan->skipped == NULL)
        return NEED_ALL;
    bool open = false, finished = false;
    for (uint64_t i = 0; i < pieces && !(open && finished); i++) {
        swi_piece piece;
        swi_blob blob;
        swi_tensor_piece(plan->target, tensor, i, &piece);
        swi_catalog_blob(plan->target, piece.blob, &blob);
        if (plan->skipped[blob.file])
            finished = true;
        else
            open = true;
    }
    return !finished ? NEED_ALL : open ? NEED_SOME : NEED_NONE;
}

static sw_status make_item(swi_plan *plan, const swi_layout *layout, uint32_t tensor,
                           uint64_t window_bytes, sw_error *err)
{
    sw_tensor_info to, from;
    uint32_t source = swi_layout_source(layout, tensor);
    int64_t scale = swi_layout_scale_of(layout, tensor);
    (void)sw_catalog_tensor(plan->target, tensor, &to);
    sw_status status = scale < 0
                           ? check_pair(plan->source, source, &to, &from, err)
                           : check_scaled(plan->source, source, (uint32_t)scale, &to, &from, err);
    if (status != SW_OK)
        return status;
    item *it = &plan->items[tensor];
    it->needed = find_need(plan, tensor, to.piece_count);
    if (to.elements == 0 || it->needed == NEED_NONE)
        return SW_OK;
    status = swi_cover_make(plan->source, source, true, &it->from, err);
    if (status == SW_OK && scale >= 0)
        status = swi_cover_make(plan->source, (uint32_t)scale, true, &it->scale, err);
    if (status == SW_OK)
        status = swi_cover_make(plan->target, tensor, false, &it->to, err);
    if (status != SW_OK)
        return status;
    plan->bytes += from.bytes;
    it->steps = choose_windows(&to, swi_layout_is_packed(layout), window_bytes, it);
    return SW_OK;
}

/* Packed files take tensors in the order of the catalog. */
static sw_status make_order(swi_plan *plan, bool packed, sw_error *err)
{
    void *ids;
    sw_status status = swi_alloc_array(plan->count, sizeof(uint32_t), &ids, err);
    if (status != SW_OK)
        return status;
    plan->order = ids;
    for (uint32_t t = 0; t < plan->count; t++)
        plan->order[t] = t;
    return packed ? SW_OK : swi_sort_by_place(plan->target, plan->order, plan->count, err);
}

static sw_status note_skipped(swi_plan *plan, swi_skip_fn skip, const void *ctx, sw_error *err)
{
    plan->file_count = (uint32_t)sw_catalog_file_count(plan->target);
    if (skip == NULL)
        return SW_OK;
    void *p;
    sw_status status = swi_alloc_array(plan->file_count, 1, &p, err);
    if (status != SW_OK)
        return status;
    plan->skipped = p;
    for (uint32_t f = 0; f < plan->file_count; f++)
        plan->skipped[f] = skip(ctx, f);
    return SW_OK;
}

sw_status swi_plan_make(const sw_catalog *source, const swi_layout *layout, uint64_t window_bytes,
                        swi_skip_fn skip_file, const void *skip_ctx, swi_plan **out, sw_error *err)
{
    void *p;
    sw_status status = swi_alloc_array(1, sizeof(swi_plan), &p, err);
    if (status != SW_OK)
        return status;
    swi_plan *plan = p;
    plan->source = source;
    plan->target = swi_layout_catalog(layout);
    uint32_t count = (uint32_t)sw_catalog_tensor_count(plan->target);
    status = swi_alloc_array(count, sizeof(item), &p, err);
    if (status != SW_OK)
        goto done;
    plan->items = p;
    plan->count = count;
    status = note_skipped(plan, skip_file, skip_ctx, err);
    for (uint32_t t = 0; t < count && status == SW_OK; t++)
        status = make_item(plan, layout, t, window_bytes, err);
    if (status == SW_OK)
        status = make_order(plan, swi_layout_is_packed(layout), err);
    if (status != SW_OK)
        goto done;
    *out = plan;
    plan = NULL;
done:
    swi_plan_free(plan);
    return status;
}

void swi_plan_free(swi_plan *plan)
{
    if (plan == NULL)
        return;
    for (uint32_t t = 0; t < plan->count; t++) {
        swi_cover_end(&plan->items[t].from);
        swi_cover_end(&plan->items[t].scale);
        swi_cover_end(&plan->items[t].to);
    }
    free(plan->items);
    free(plan->order);
    free(plan->skipped);
    free(plan);
}

uint64_t swi_plan_bytes(const swi_plan *plan)
{
    return plan->bytes;
}

uint64_t swi_plan_memory(const swi_plan *plan)
{
    uint64_t sum = sizeof *plan + plan->count * (sizeof(item) + sizeof(uint32_t));
    for (uint32_t t = 0; t < plan->count; t++)
        sum += swi_cover_memory(&plan->items[t].from) + swi_cover_memory(&plan->items[t].scale) +
               swi_cover_memory(&plan->items[t].to);
    return sum;
}

bool swi_plan_skips(const swi_plan *plan, uint32_t file)
{
    return plan->skipped != NULL && file < plan->file_count && plan->skipped[file];
}

/* ---- walking -------------------------------------------------------------------------------- */

static bool piece_skipped(const swi_plan *plan, uint32_t blob_id)
{
    swi_blob blob;
    swi_catalog_blob(plan->target, blob_id, &blob);
    return plan->skipped[blob.file];
}

/* Whether an unfinished file can take something of the window. */
static bool window_needed(const swi_plan *plan, const item *it, uint64_t lo, uint64_t hi)
{
    if (it->needed != NEED_SOME)
        return it->needed == NEED_ALL;
    for (int64_t i = -1; (i = swi_cover_next(&it->to, lo, hi, (uint64_t)(i + 1))) >= 0;) {
        swi_piece piece;
        swi_tensor_piece(plan->target, it->to.tensor, (uint64_t)i, &piece);
        if (swi_piece_first(&piece) < hi && swi_piece_end(&piece) > lo &&
            !piece_skipped(plan, piece.blob))
            return true;
    }
    return false;
}

bool swi_plan_next(const swi_plan *plan, swi_plan_cursor *cursor, swi_window *out)
{
    while (cursor->position < plan->count) {
        uint32_t tensor = plan->order[cursor->position];
        const item *it = &plan->items[tensor];
        uint64_t lo, hi;
        if (it->needed == NEED_NONE || !swi_steps_next(&it->steps, &cursor->at, &lo, &hi)) {
            cursor->position++;
            cursor->at = 0;
            continue;
        }
        if (!window_needed(plan, it, lo, hi))
            continue;
        *out = (swi_window){.tensor = tensor, .lo = lo, .hi = hi};
        return true;
    }
    return false;
}

void swi_moves_free(swi_moves *moves)
{
    free(moves->items);
    *moves = (swi_moves){0};
}

/* All elements of the window must be there. */
static sw_status reads_of(const swi_plan *plan, const swi_cover *cover, const swi_window *window,
                          swi_moves *moves, sw_error *err)
{
    uint64_t held;
    sw_status status = swi_cover_moves(cover, window->lo, window->hi, moves, &held, err);
    if (status == SW_OK && held != window->hi - window->lo) {
        sw_tensor_info info;
        swi_quoted room;
        (void)sw_catalog_tensor(plan->target, window->tensor, &info);
        return swi_fail(err, SW_ERR_INCOMPLETE,
                        "tensor \"%s\": the source holds %" PRIu64 " of the %" PRIu64
                        " elements from %" PRIu64 " on",
                        swi_quote_str(&room, info.name), held, window->hi - window->lo, window->lo);
    }
    return status;
}

sw_status swi_plan_reads(const swi_plan *plan, const swi_window *window, swi_moves *moves,
                         sw_error *err)
{
    return reads_of(plan, &plan->items[window->tensor].from, window, moves, err);
}

sw_status swi_plan_scales(const swi_plan *plan, const swi_window *window, swi_moves *moves,
                          sw_error *err)
{
    const swi_cover *scale = &plan->items[window->tensor].scale;
    moves->count = 0;
    return scale->catalog != NULL ? reads_of(plan, scale, window, moves, err) : SW_OK;
}

sw_status swi_plan_writes(const swi_plan *plan, const swi_window *window, swi_moves *moves,
                          sw_error *err)
{
    const item *it = &plan->items[window->tensor];
    sw_status status = swi_cover_moves(&it->to, window->lo, window->hi, moves, NULL, err);
    if (status != SW_OK || it->needed != NEED_SOME)
        return status;
    size_t kept = 0;
    for (size_t i = 0; i < moves->count; i++)
        if (!piece_skipped(plan, moves->items[i].blob))
            moves->items[kept++] = moves->items[i];
    moves->count = kept;
    return SW_OK;
}
