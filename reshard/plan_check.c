/*
 * The proof of a plan. Shares no code with what makes it (nor the piece algebra): it takes each
 * move apart with divisions of its own.
 */
#include "plan.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/text.h"
#include "plan_marks.h"
#include "pool.h"

/* ---- the pieces of one tensor, by blob ---------------------------------------------------------
 */

typedef struct by_blob {
    uint32_t blob;
    uint64_t piece;
} by_blob;

typedef struct side {
    const sw_catalog *catalog;
    uint32_t tensor; /* that has the pieces */
    uint64_t element_bytes;
    uint64_t piece_count;
    by_blob *sorted;
    size_t capacity;
    uint64_t *taken; /* elements of each piece that moves took so far */
    size_t taken_capacity;
} side;

static int compare_by_blob(const void *left, const void *right)
{
    const by_blob *a = left, *b = right;
    if (a->blob != b->blob)
        return a->blob < b->blob ? -1 : 1;
    return (a->piece > b->piece) - (a->piece < b->piece);
}

static sw_status set_side(side *s, const sw_catalog *catalog, uint32_t tensor, sw_error *err)
{
    sw_tensor_info info = {.alias_of = -1};
    (void)sw_catalog_tensor(catalog, tensor, &info);
    for (uint32_t hops = 0; info.piece_count == 0 && info.alias_of >= 0 && hops < 64; hops++) {
        tensor = (uint32_t)info.alias_of;
        (void)sw_catalog_tensor(catalog, tensor, &info);
    }
    s->catalog = catalog;
    s->tensor = tensor;
    s->element_bytes = sw_dtype_bytes(info.dtype);
    s->piece_count = info.piece_count;
    sw_status status =
        swi_grow_array((void **)&s->sorted, &s->capacity, info.piece_count, sizeof *s->sorted, err);
    if (status == SW_OK)
        status = swi_grow_array((void **)&s->taken, &s->taken_capacity, info.piece_count,
                                sizeof *s->taken, err);
    if (status != SW_OK)
        return status;
    for (uint64_t i = 0; i < info.piece_count; i++) {
        swi_piece piece;
        swi_tensor_piece(catalog, tensor, i, &piece);
        s->sorted[i] = (by_blob){.blob = piece.blob, .piece = i};
        s->taken[i] = 0;
    }
    if (info.piece_count > 1)
        qsort(s->sorted, info.piece_count, sizeof *s->sorted, compare_by_blob);
    return SW_OK;
}

static void free_side(side *s)
{
    free(s->sorted);
    free(s->taken);
}

/* The first entry of that blob, or piece_count. */
static uint64_t find_blob(const side *s, uint32_t blob)
{
    uint64_t lo = 0, hi = s->piece_count;
    while (lo < hi) {
        uint64_t mid = lo + (hi - lo) / 2;
        if (s->sorted[mid].blob < blob)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

/* ---- a window
 * ------------------------------------------------------------------------------------- */

/* Which piece a move is a box of. */
typedef struct matched {
    uint64_t piece;
    size_t move;
} matched;

typedef struct check {
    const swi_plan_view *view;
    uint32_t part, parts; /* this one checks every parts-th tensor */
    const sw_catalog *target;
    side from, scale, to;
    bool scaled;
    swi_moves moves;
    matched *matched; /* one for each move */
    size_t matched_capacity;
    swi_marks marked;
} check;

static sw_status fail_check(const check *c, uint32_t tensor, uint64_t element, const char *what,
                            sw_error *err)
{
    sw_tensor_info info;
    swi_quoted room;
    (void)sw_catalog_tensor(c->target, tensor, &info);
    return swi_fail(err, SW_ERR_CONFLICT,
                    "plan check: tensor \"%s\", element %" PRIu64
                    ": %s (a defect of this program, nothing was published)",
                    swi_quote_str(&room, info.name), element, what);
}

static bool move_is_sane(const swi_move *move)
{
    bool sane = move->axes <= SW_MAX_AXES && move->window_base >= 0;
    for (uint32_t k = 0; sane && k < move->axes; k++)
        sane = move->length[k] > 0;
    return sane;
}

static uint64_t move_elements(const swi_move *move)
{
    uint64_t n = 1;
    for (uint32_t k = 0; k < move->axes; k++)
        n *= (uint64_t)move->length[k];
    return n;
}

/* Finds the one piece that each move is a box of. */
static sw_status match_moves(check *c, side *s, const swi_window *w, const char *what,
                             sw_error *err)
{
    sw_status status = swi_grow_array((void **)&c->matched, &c->matched_capacity, c->moves.count,
                                      sizeof *c->matched, err);
    if (status != SW_OK)
        return status;
    for (size_t i = 0; i < c->moves.count; i++) {
        const swi_move *move = &c->moves.items[i];
        bool found = false;
        for (uint64_t n = move_is_sane(move) ? find_blob(s, move->blob) : s->piece_count;
             !found && n < s->piece_count && s->sorted[n].blob == move->blob; n++) {
            swi_piece piece;
            swi_tensor_piece(s->catalog, s->tensor, s->sorted[n].piece, &piece);
            found = swi_move_is_box_of(move, &piece, (int64_t)w->lo, (int64_t)s->element_bytes);
            c->matched[i] = (matched){.piece = s->sorted[n].piece, .move = i};
        }
        if (!found)
            return fail_check(c, w->tensor, w->lo + (uint64_t)move->window_base / s->element_bytes,
                              what, err);
        s->taken[c->matched[i].piece] += move_elements(move);
    }
    return SW_OK;
}

static bool covers_whole(const swi_move *move, uint64_t bytes, uint64_t element_bytes)
{
    return move->axes == 1 && move->window_base == 0 &&
           move->window_stride[0] == (int64_t)element_bytes &&
           (uint64_t)move->length[0] * element_bytes == bytes;
}

static int compare_matched(const void *left, const void *right)
{
    const matched *a = left, *b = right;
    if (a->piece != b->piece)
        return a->piece < b->piece ? -1 : 1;
    return (a->move > b->move) - (a->move < b->move);
}

/* None of these moves takes what another one does. */
static sw_status check_apart(check *c, const side *s, const matched *moves, size_t count,
                             const swi_window *w, const char *what, sw_error *err)
{
    uint64_t elements = w->hi - w->lo;
    if (count == 1 &&
        covers_whole(&c->moves.items[moves->move], elements * s->element_bytes, s->element_bytes))
        return SW_OK;
    sw_status status = swi_marks_clear(&c->marked, elements, err);
    for (size_t i = 0; i < count && status == SW_OK; i++)
        if (!swi_mark_move(&c->marked, &c->moves.items[moves[i].move], s->element_bytes))
            status = fail_check(c, w->tensor, w->lo, what, err);
    return status;
}

/*
 * No element is moved twice; where there are copies, by none of them, each looked at by itself.
 * c->matched is sorted by pieces then.
 */
static sw_status check_once(check *c, const side *s, const swi_window *w, const char *what,
                            sw_error *err)
{
    sw_status status = SW_OK;
    if (!swi_tensor_has_replicas(s->catalog, s->tensor))
        return check_apart(c, s, c->matched, c->moves.count, w, what, err);
    if (c->moves.count > 1)
        qsort(c->matched, c->moves.count, sizeof *c->matched, compare_matched);
    for (size_t i = 0, n; i < c->moves.count && status == SW_OK; i += n) {
        for (n = 1; i + n < c->moves.count; n++)
            if (c->matched[i + n].piece != c->matched[i].piece)
                break;
        status = check_apart(c, s, c->matched + i, n, w, what, err);
    }
    return status;
}

/* Whether the moves, none of which passes the window, fill it; copies do so together. */
static sw_status check_full(check *c, const side *s, const swi_window *w, sw_error *err)
{
    uint64_t elements = w->hi - w->lo, sum = 0;
    for (size_t i = 0; i < c->moves.count; i++)
        sum += move_elements(&c->moves.items[i]);
    if (c->moves.count > 1 && swi_tensor_has_replicas(s->catalog, s->tensor)) {
        sw_status status = swi_marks_clear(&c->marked, elements, err);
        if (status != SW_OK)
            return status;
        c->marked.again = true;
        for (size_t i = 0; i < c->moves.count; i++)
            (void)swi_mark_move(&c->marked, &c->moves.items[i], s->element_bytes);
        sum = swi_marks_count(&c->marked);
    }
    if (sum != elements)
        return fail_check(c, w->tensor, w->lo, "a window is not read in some place", err);
    return SW_OK;
}

/* Every element of the window is filled from this side, by c->moves. */
static sw_status check_filled(check *c, side *s, const swi_window *w, sw_error *err)
{
    sw_status status = match_moves(c, s, w, "is not read from where it lies", err);
    if (status == SW_OK)
        status = check_once(c, s, w, "a window is read twice in some place", err);
    return status == SW_OK ? check_full(c, s, w, err) : status;
}

static sw_status check_reads(check *c, const swi_window *w, sw_error *err)
{
    sw_status status = c->view->reads(c->view->ctx, w, &c->moves, err);
    if (status == SW_OK)
        status = check_filled(c, &c->from, w, err);
    if (status != SW_OK || !c->scaled)
        return status;
    if (c->view->scales == NULL)
        return fail_check(c, w->tensor, w->lo, "its factors are not read", err);
    status = c->view->scales(c->view->ctx, w, &c->moves, err);
    return status == SW_OK ? check_filled(c, &c->scale, w, err) : status;
}

/* That every piece takes all of its elements is seen at the end of the tensor. */
static sw_status check_writes(check *c, const swi_window *w, sw_error *err)
{
    sw_status status = c->view->writes(c->view->ctx, w, &c->moves, err);
    if (status == SW_OK)
        status = match_moves(c, &c->to, w, "is not written to where it belongs", err);
    return status == SW_OK ? check_once(c, &c->to, w, "is written twice", err) : status;
}

/* ---- the walk
 * ------------------------------------------------------------------------------------- */

static bool piece_is_skipped(const check *c, const swi_piece *piece)
{
    swi_blob blob;
    swi_catalog_blob(c->target, piece->blob, &blob);
    return c->view->skips != NULL && c->view->skips(c->view->ctx, blob.file);
}

/* Every piece of an unfinished file got all of its elements, every other one none. */
static sw_status check_taken(const check *c, uint32_t tensor, const side *to, sw_error *err)
{
    for (uint64_t i = 0; i < to->piece_count; i++) {
        swi_piece piece;
        uint64_t elements = 1;
        swi_tensor_piece(to->catalog, to->tensor, i, &piece);
        for (uint32_t k = 0; k < piece.axes; k++)
            elements *= (uint64_t)piece.length[k];
        if (to->taken[i] != (piece_is_skipped(c, &piece) ? 0 : elements))
            return fail_check(c, tensor, 0, "a part of it is not written", err);
    }
    return SW_OK;
}

/* A tensor without windows may only lie in finished files. */
static sw_status check_unvisited(check *c, const bool *seen, sw_error *err)
{
    size_t count = sw_catalog_tensor_count(c->target);
    for (uint32_t t = 0; t < count; t++) {
        sw_tensor_info info;
        (void)sw_catalog_tensor(c->target, t, &info);
        if (seen[t])
            continue;
        for (uint64_t i = 0; i < info.piece_count; i++) {
            swi_piece piece;
            swi_tensor_piece(c->target, t, i, &piece);
            if (!piece_is_skipped(c, &piece))
                return fail_check(c, t, 0, "is not in the plan", err);
        }
    }
    return SW_OK;
}

static sw_status check_window(check *c, const swi_window *w, uint64_t *end, sw_error *err)
{
    sw_tensor_info info;
    (void)sw_catalog_tensor(c->target, w->tensor, &info);
    if (w->lo < *end || w->hi <= w->lo || w->hi > info.elements)
        return fail_check(c, w->tensor, w->lo, "windows overlap or pass the end", err);
    *end = w->hi;
    sw_status status = check_reads(c, w, err);
    return status == SW_OK ? check_writes(c, w, err) : status;
}

static sw_status start_tensor(const check *c, uint32_t tensor, bool *seen, sw_error *err)
{
    if (tensor >= sw_catalog_tensor_count(c->target))
        return swi_fail(err, SW_ERR_CONFLICT, "plan check: no tensor %" PRIu32, tensor);
    if (seen[tensor])
        return fail_check(c, tensor, 0, "windows of other tensors come between", err);
    seen[tensor] = true;
    return SW_OK;
}

static sw_status set_sides(check *c, const sw_catalog *source, const swi_layout *layout,
                           uint32_t tensor, sw_error *err)
{
    int64_t scale = swi_layout_scale_of(layout, tensor);
    c->scaled = scale >= 0;
    sw_status status = set_side(&c->from, source, swi_layout_source(layout, tensor), err);
    if (status == SW_OK && c->scaled)
        status = set_side(&c->scale, source, (uint32_t)scale, err);
    return status == SW_OK ? set_side(&c->to, c->target, tensor, err) : status;
}

static sw_status walk(check *c, const sw_catalog *source, const swi_layout *layout, bool *seen,
                      sw_error *err)
{
    swi_plan_cursor cursor = {0};
    swi_window w;
    uint32_t tensor = UINT32_MAX, met = UINT32_MAX;
    bool mine = false;
    uint64_t end = 0;
    sw_status status = SW_OK;
    while (status == SW_OK && c->view->next(c->view->ctx, &cursor, &w)) {
        if (w.tensor != tensor) {
            if (mine)
                status = check_taken(c, tensor, &c->to, err);
            mine = ++met % c->parts == c->part;
            if (status == SW_OK)
                status = start_tensor(c, w.tensor, seen, err);
            if (status == SW_OK && mine)
                status = set_sides(c, source, layout, w.tensor, err);
            tensor = w.tensor;
            end = 0;
        }
        if (status == SW_OK && mine)
            status = check_window(c, &w, &end, err);
    }
    if (status == SW_OK && mine)
        status = check_taken(c, tensor, &c->to, err);
    return status == SW_OK && c->part == 0 ? check_unvisited(c, seen, err) : status;
}

static sw_status check_part(const swi_plan_view *view, const sw_catalog *source,
                            const swi_layout *layout, uint32_t part, uint32_t parts, sw_error *err)
{
    check c = {.view = view, .part = part, .parts = parts, .target = swi_layout_catalog(layout)};
    void *seen;
    sw_status status = swi_alloc_array(sw_catalog_tensor_count(c.target), sizeof(bool), &seen, err);
    if (status != SW_OK)
        return status;
    status = walk(&c, source, layout, seen, err);
    free(seen);
    free_side(&c.from);
    free_side(&c.scale);
    free_side(&c.to);
    swi_moves_free(&c.moves);
    free(c.matched);
    swi_marks_free(&c.marked);
    return status;
}

/* ---- in parts, each by a thread -------------------------------------------------------------- */

/* Below this a second thread does not pay. */
#define PIECES_PER_PART 8192U
#define PARTS_MAX 16U

typedef struct all_parts {
    const swi_plan_view *view;
    const sw_catalog *source;
    const swi_layout *layout;
    uint32_t next, parts;
} all_parts;

static bool take_part(void *ctx, void *worker)
{
    all_parts *all = ctx;
    uint32_t *part = worker;
    if (all->next >= all->parts)
        return false;
    *part = all->next++;
    return true;
}

static sw_status do_part(void *ctx, void *worker, sw_error *err)
{
    const all_parts *all = ctx;
    const uint32_t *part = worker;
    return check_part(all->view, all->source, all->layout, *part, all->parts, err);
}

static uint32_t parts_for(const sw_catalog *source, const sw_work_options *work)
{
    uint64_t pay = 1 + sw_catalog_piece_count(source) / PIECES_PER_PART;
    uint32_t threads = swi_work_threads(work);
    if (threads > PARTS_MAX)
        threads = PARTS_MAX;
    return pay < threads ? (uint32_t)pay : threads;
}

sw_status swi_plan_check_view(const swi_plan_view *view, const sw_catalog *source,
                              const swi_layout *layout, const sw_work_options *work, sw_error *err)
{
    static const swi_job job = {.take = take_part, .work = do_part};
    all_parts all = {
        .view = view, .source = source, .layout = layout, .parts = parts_for(source, work)};
    uint32_t part_of[PARTS_MAX];
    void *workers[PARTS_MAX];
    swi_pool pool;
    if (all.parts == 1)
        return check_part(view, source, layout, 0, 1, err);
    for (uint32_t i = 0; i < all.parts; i++)
        workers[i] = &part_of[i];
    swi_job with_ctx = job;
    with_ctx.ctx = &all;
    sw_status status = swi_pool_init(&pool, err);
    if (status != SW_OK)
        return status;
    status = swi_pool_run(&pool, &with_ctx, workers, all.parts, NULL, 0, err);
    swi_pool_end(&pool);
    return status;
}

static bool plan_next(const void *ctx, swi_plan_cursor *cursor, swi_window *out)
{
    return swi_plan_next(ctx, cursor, out);
}

static sw_status plan_reads(const void *ctx, const swi_window *window, swi_moves *moves,
                            sw_error *err)
{
    return swi_plan_reads(ctx, window, moves, err);
}

static sw_status plan_writes(const void *ctx, const swi_window *window, swi_moves *moves,
                             sw_error *err)
{
    return swi_plan_writes(ctx, window, moves, err);
}

static sw_status plan_scales(const void *ctx, const swi_window *window, swi_moves *moves,
                             sw_error *err)
{
    return swi_plan_scales(ctx, window, moves, err);
}

static bool plan_skips(const void *ctx, uint32_t file)
{
    return swi_plan_skips(ctx, file);
}

sw_status swi_plan_check(const swi_plan *plan, const sw_catalog *source, const swi_layout *layout,
                         const sw_work_options *work, sw_error *err)
{
    const swi_plan_view view = {
        .ctx = plan,
        .next = plan_next,
        .reads = plan_reads,
        .writes = plan_writes,
        .skips = plan_skips,
        .scales = plan_scales,
    };
    return swi_plan_check_view(&view, source, layout, work, err);
}
