/* Plans with one thing changed: each must be refused by the check. */
#ifndef RESHARD_MUTANT_H
#define RESHARD_MUTANT_H

#include "world.h"

#include "base/arena.h"

/* In which moves. */
enum where { IN_READS, IN_WRITES, IN_SCALES, WHERES };

/* A plan in which one thing is wrong. */
typedef struct mutant {
    const swi_plan *plan;
    harness_prng *prng;
    int kind;
    enum where where;
    uint64_t window; /* number of the window in which it happens */
    swi_window at;   /* that window, once it came */
    bool has_window, has_passed;
    bool repeat;
    bool done; /* something was changed */
} mutant;

enum {
    DROP_WINDOW,
    REPEAT_WINDOW,
    SHORTEN_WINDOW,
    DROP_MOVE,
    REPEAT_MOVE,
    BLOB_BASE,
    WINDOW_BASE,
    BLOB_STRIDE,
    WINDOW_STRIDE,
    LENGTH,
    BLOB,
    KINDS
};

static inline uint64_t number_of(const swi_plan *plan, const swi_window *w)
{
    swi_plan_cursor cursor = {0};
    swi_window other;
    uint64_t n = 0;
    while (swi_plan_next(plan, &cursor, &other) && (other.tensor != w->tensor || other.lo != w->lo))
        n++;
    return n;
}

static inline bool mutant_next(const void *ctx, swi_plan_cursor *cursor, swi_window *out)
{
    mutant *m = (mutant *)(uintptr_t)ctx;
    if (m->repeat) {
        m->repeat = false;
        *out = m->at;
        return true;
    }
    if (!swi_plan_next(m->plan, cursor, out))
        return false;
    if (m->has_passed || number_of(m->plan, out) != m->window)
        return true;
    m->has_passed = true;
    m->has_window = true;
    m->at = *out;
    if (m->kind == DROP_WINDOW) {
        m->done = true;
        return swi_plan_next(m->plan, cursor, out);
    }
    if (m->kind == REPEAT_WINDOW)
        m->repeat = m->done = true;
    if (m->kind == SHORTEN_WINDOW && out->hi - out->lo > 1) {
        out->hi--;
        m->done = true;
    }
    return true;
}

static inline int64_t other_number(mutant *m, int64_t v, int64_t unit)
{
    int64_t by = unit * (1 + (int64_t)harness_random_below(m->prng, 3));
    return harness_random(m->prng) & 1 ? v + by : v - by;
}

static inline void change_move(mutant *m, swi_move *move, uint32_t element_bytes)
{
    uint32_t k = move->axes > 0 ? (uint32_t)harness_random_below(m->prng, move->axes) : 0;
    m->done = true;
    switch (m->kind) {
    case BLOB_BASE:
        move->blob_base = other_number(m, move->blob_base, element_bytes);
        return;
    case WINDOW_BASE:
        move->window_base = other_number(m, move->window_base, element_bytes);
        return;
    case BLOB:
        move->blob ^= 1;
        return;
    default:
        break;
    }
    if (move->axes == 0) {
        m->done = false;
        return;
    }
    if (m->kind == BLOB_STRIDE)
        move->blob_stride[k] = other_number(m, move->blob_stride[k], element_bytes);
    else if (m->kind == WINDOW_STRIDE)
        move->window_stride[k] = other_number(m, move->window_stride[k], element_bytes);
    else
        move->length[k] = other_number(m, move->length[k], 1);
}

static inline void mutate_moves(mutant *m, const swi_window *w, swi_moves *moves,
                                uint32_t element_bytes)
{
    sw_error err = {0};
    if (!m->has_window || m->done || w->tensor != m->at.tensor || w->lo != m->at.lo ||
        moves->count == 0)
        return;
    size_t i = (size_t)harness_random_below(m->prng, moves->count);
    if (m->kind == DROP_MOVE) {
        moves->items[i] = moves->items[--moves->count];
        m->done = true;
    } else if (m->kind == REPEAT_MOVE) {
        assert_ok(swi_grow_array((void **)&moves->items, &moves->capacity, moves->count + 1,
                                 sizeof(swi_move), &err),
                  &err);
        moves->items[moves->count++] = moves->items[i];
        m->done = true;
    } else {
        change_move(m, &moves->items[i], element_bytes);
    }
}

static inline sw_status mutant_reads(const void *ctx, const swi_window *w, swi_moves *moves,
                                     sw_error *err)
{
    mutant *m = (mutant *)(uintptr_t)ctx;
    sw_status status = swi_plan_reads(m->plan, w, moves, err);
    if (status == SW_OK && m->where == IN_READS && m->kind >= DROP_MOVE)
        mutate_moves(m, w, moves, 2);
    return status;
}

static inline sw_status mutant_writes(const void *ctx, const swi_window *w, swi_moves *moves,
                                      sw_error *err)
{
    mutant *m = (mutant *)(uintptr_t)ctx;
    sw_status status = swi_plan_writes(m->plan, w, moves, err);
    if (status == SW_OK && m->where == IN_WRITES && m->kind >= DROP_MOVE)
        mutate_moves(m, w, moves, 2);
    return status;
}

static inline sw_status mutant_scales(const void *ctx, const swi_window *w, swi_moves *moves,
                                      sw_error *err)
{
    mutant *m = (mutant *)(uintptr_t)ctx;
    sw_status status = swi_plan_scales(m->plan, w, moves, err);
    if (status == SW_OK && m->where == IN_SCALES && m->kind >= DROP_MOVE)
        mutate_moves(m, w, moves, 2);
    return status;
}

static inline swi_plan_view mutant_view(const mutant *m)
{
    return (swi_plan_view){.ctx = m,
                           .next = mutant_next,
                           .reads = mutant_reads,
                           .writes = mutant_writes,
                           .scales = mutant_scales};
}

static inline void try_mutants(world *w, const swi_plan *plan, const swi_layout *layout,
                               uint32_t *tried)
{
    uint64_t windows = 0;
    swi_plan_cursor cursor = {0};
    swi_window window;
    while (swi_plan_next(plan, &cursor, &window))
        windows++;
    for (int kind = 0; kind < KINDS * WHERES && windows > 0; kind++) {
        sw_error err = {0};
        mutant m = {
            .plan = plan,
            .prng = &w->prng,
            .kind = kind % KINDS,
            .where = (enum where)(kind / KINDS),
            .window = world_below(w, windows),
        };
        const swi_plan_view view = mutant_view(&m);
        sw_status status = swi_plan_check_view(&view, w->catalog, layout, NULL, &err);
        if (!m.done) {
            assert_ok(status, &err);
            continue;
        }
        if (status == SW_OK)
            fail_msg("a plan with mutation %d (in %d) passes", m.kind, (int)m.where);
        assert_error(&err, SW_ERR_CONFLICT, "plan check: tensor \"t");
        tried[kind % KINDS]++;
    }
}

#endif
