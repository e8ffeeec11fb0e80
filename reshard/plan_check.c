/*
 * The proof of a plan. Shares no code with what makes it (nor the piece algebra): it takes each
 * move apart with divisions of its own.
 *
 * Why few numbers prove a whole box: write the flat index of the move's first element and the flat
 * step of each of its axes as digits in the piece's view. If, in every view axis, the first digit
 * plus all steps taken to their ends stays inside the piece's box, no digit ever carries, so the
 * digits of any element of the move are the first one's plus the steps'. The byte that the catalog
 * gives is linear in the digits; hence the byte of any element is right if the first one's is and
 * the difference along each axis is.
 */
#include "plan.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/text.h"
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

/* ---- one move against one piece -----------------------------------------------------------------
 */

/* A piece with the axes joined that lie and count on as one. */
typedef struct box {
    uint32_t axes;
    int64_t view[SW_MAX_AXES], low[SW_MAX_AXES], length[SW_MAX_AXES], stride[SW_MAX_AXES];
    int64_t base;
} box;

/* From the inside out: axis k joins the one inside of it when that one is whole. */
static void join_axes(const swi_piece *piece, box *out)
{
    *out = (box){.base = piece->base_bytes};
    for (uint32_t k = piece->axes; k > 0; k--) {
        int64_t view = piece->view[k - 1], low = piece->offset[k - 1];
        int64_t length = piece->length[k - 1], stride = piece->stride_bytes[k - 1];
        uint32_t n = out->axes;
        if (n > 0 && out->length[n - 1] == out->view[n - 1] &&
            (length == 1 || stride == out->stride[n - 1] * out->view[n - 1])) {
            out->low[n - 1] = low * out->view[n - 1];
            out->length[n - 1] *= length;
            out->view[n - 1] *= view;
            continue;
        }
        out->view[n] = view;
        out->low[n] = low;
        out->length[n] = length;
        out->stride[n] = stride;
        out->axes++;
    }
}

/* Digits of a flat index in the view, innermost first; false when it is too large for it. */
static bool to_digits(const box *b, int64_t flat, int64_t digits[SW_MAX_AXES])
{
    for (uint32_t k = 0; k < b->axes; k++) {
        digits[k] = flat % b->view[k];
        flat /= b->view[k];
    }
    return flat == 0;
}

static bool move_is_box_of(const swi_move *move, const swi_piece *piece, int64_t lo,
                           int64_t element_bytes)
{
    box b;
    int64_t digit[SW_MAX_AXES] = {0}, last[SW_MAX_AXES];
    join_axes(piece, &b);
    if (move->window_base % element_bytes != 0 ||
        !to_digits(&b, lo + move->window_base / element_bytes, digit))
        return false;
    memcpy(last, digit, sizeof last);
    int64_t byte = b.base;
    for (uint32_t m = 0; m < b.axes; m++)
        byte += (digit[m] - b.low[m]) * b.stride[m];
    if (byte != move->blob_base)
        return false;
    for (uint32_t k = 0; k < move->axes; k++) {
        int64_t step[SW_MAX_AXES];
        if (move->window_stride[k] <= 0 || move->window_stride[k] % element_bytes != 0 ||
            !to_digits(&b, move->window_stride[k] / element_bytes, step))
            return false;
        int64_t blob_step = 0;
        for (uint32_t m = 0; m < b.axes; m++) {
            int64_t run;
            if (__builtin_mul_overflow(move->length[k] - 1, step[m], &run) ||
                __builtin_add_overflow(last[m], run, &last[m]))
                return false;
            blob_step += step[m] * b.stride[m];
        }
        if (blob_step != move->blob_stride[k])
            return false;
    }
    for (uint32_t m = 0; m < b.axes; m++)
        if (digit[m] < b.low[m] || last[m] >= b.low[m] + b.length[m])
            return false;
    return true;
}

/* ---- the elements of a window, each once
 * ---------------------------------------------------------- */

#define WORDS_STEP ((size_t)512)

typedef struct marks {
    uint64_t *bits;
    size_t capacity; /* words */
    uint64_t count;  /* elements of the window */
} marks;

static sw_status clear_marks(marks *m, uint64_t count, sw_error *err)
{
    size_t words = (size_t)(count / 64 + 1);
    sw_status status = swi_grow_array((void **)&m->bits, &m->capacity, words, sizeof *m->bits, err);
    if (status != SW_OK)
        return status;
    memset(m->bits, 0, words * sizeof *m->bits);
    m->count = count;
    return SW_OK;
}

/* Whole words, a few at a time: most of a window is marked by these. */
static bool mark_words(uint64_t *bits, size_t count)
{
    for (size_t i = 0; i < count; i += WORDS_STEP) {
        size_t n = count - i < WORDS_STEP ? count - i : WORDS_STEP;
        uint64_t any = 0;
        for (size_t k = 0; k < n; k++)
            any |= bits[i + k];
        if (any != 0)
            return false;
        memset(bits + i, 0xff, n * sizeof *bits);
    }
    return true;
}

/* Marks `count` elements from `at` on in steps; false when one is outside or marked already. */
static bool mark_steps(marks *m, uint64_t at, uint64_t count, uint64_t step)
{
    if (at >= m->count || (count - 1) > (m->count - 1 - at) / step)
        return false;
    if (step != 1) {
        for (; count > 0; count--, at += step) {
            uint64_t bit = UINT64_C(1) << (at % 64);
            if (m->bits[at / 64] & bit)
                return false;
            m->bits[at / 64] |= bit;
        }
        return true;
    }
    while (count > 0) {
        if (at % 64 == 0 && count >= 64) {
            uint64_t words = count / 64;
            if (!mark_words(m->bits + at / 64, (size_t)words))
                return false;
            at += words * 64;
            count -= words * 64;
            continue;
        }
        uint64_t n = 64 - at % 64;
        n = n < count ? n : count;
        uint64_t mask = (n == 64 ? ~UINT64_C(0) : (UINT64_C(1) << n) - 1) << (at % 64);
        if (m->bits[at / 64] & mask)
            return false;
        m->bits[at / 64] |= mask;
        at += n;
        count -= n;
    }
    return true;
}

/* All elements of the move; false when one is outside or was marked before. */
static bool mark_move(marks *m, const swi_move *move, uint64_t element_bytes)
{
    uint64_t index[SW_MAX_AXES] = {0};
    uint64_t at = (uint64_t)move->window_base / element_bytes;
    if (move->axes == 0)
        return mark_steps(m, at, 1, 1);
    uint32_t inner = move->axes - 1;
    uint64_t inner_step = (uint64_t)move->window_stride[inner] / element_bytes;
    for (;;) {
        if (!mark_steps(m, at, (uint64_t)move->length[inner], inner_step))
            return false;
        uint32_t k = inner;
        for (; k > 0; k--) {
            uint64_t step = (uint64_t)move->window_stride[k - 1] / element_bytes;
            at += step;
            if (++index[k - 1] < (uint64_t)move->length[k - 1])
                break;
            at -= step * (uint64_t)move->length[k - 1];
            index[k - 1] = 0;
        }
        if (k == 0)
            return true;
    }
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
    marks marked;
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
            found = move_is_box_of(move, &piece, (int64_t)w->lo, (int64_t)s->element_bytes);
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

/* Every element of the window is filled exactly once from this side, by c->moves. */
static sw_status check_filled(check *c, side *s, const swi_window *w, sw_error *err)
{
    uint64_t elements = w->hi - w->lo, sum = 0;
    sw_status status = match_moves(c, s, w, "is not read from where it lies", err);
    if (status != SW_OK)
        return status;
    if (c->moves.count == 1 &&
        covers_whole(&c->moves.items[0], elements * s->element_bytes, s->element_bytes))
        return SW_OK;
    status = clear_marks(&c->marked, elements, err);
    if (status != SW_OK)
        return status;
    for (size_t i = 0; i < c->moves.count; i++) {
        if (!mark_move(&c->marked, &c->moves.items[i], s->element_bytes))
            return fail_check(c, w->tensor, w->lo, "a window is read twice in some place", err);
        sum += move_elements(&c->moves.items[i]);
    }
    if (sum != elements)
        return fail_check(c, w->tensor, w->lo, "a window is not read in some place", err);
    return SW_OK;
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

static int compare_matched(const void *left, const void *right)
{
    const matched *a = left, *b = right;
    if (a->piece != b->piece)
        return a->piece < b->piece ? -1 : 1;
    return (a->move > b->move) - (a->move < b->move);
}

/* None of these moves takes what another one does. */
static sw_status check_apart(check *c, const matched *moves, size_t count, const swi_window *w,
                             sw_error *err)
{
    uint64_t element_bytes = c->to.element_bytes, elements = w->hi - w->lo;
    if (count == 1 &&
        covers_whole(&c->moves.items[moves->move], elements * element_bytes, element_bytes))
        return SW_OK;
    sw_status status = clear_marks(&c->marked, elements, err);
    for (size_t i = 0; i < count && status == SW_OK; i++)
        if (!mark_move(&c->marked, &c->moves.items[moves[i].move], element_bytes))
            status = fail_check(c, w->tensor, w->lo, "is written twice", err);
    return status;
}

/*
 * No element is taken twice; where there are copies, by none of them, each looked at by itself.
 * That every piece takes all of its elements is seen at the end of the tensor.
 */
static sw_status check_writes(check *c, const swi_window *w, sw_error *err)
{
    sw_status status = c->view->writes(c->view->ctx, w, &c->moves, err);
    if (status == SW_OK)
        status = match_moves(c, &c->to, w, "is not written to where it belongs", err);
    if (status != SW_OK || !swi_tensor_has_replicas(c->target, c->to.tensor))
        return status == SW_OK ? check_apart(c, c->matched, c->moves.count, w, err) : status;
    if (c->moves.count > 1)
        qsort(c->matched, c->moves.count, sizeof *c->matched, compare_matched);
    for (size_t i = 0, n; i < c->moves.count && status == SW_OK; i += n) {
        for (n = 1; i + n < c->moves.count; n++)
            if (c->matched[i + n].piece != c->matched[i].piece)
                break;
        status = check_apart(c, c->matched + i, n, w, err);
    }
    return status;
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
    free(c.marked.bits);
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
