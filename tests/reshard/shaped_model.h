/*
 * What a shaped tensor must be, element by element: arrays that every operation is done on by its
 * definition, one index at a time. And random programs: a tensor that lies in its files in some
 * way, and operations on it, whose results are held against the arrays. The choices come from a
 * function, so that tests draw them and a fuzzer feeds them.
 *
 * The including file defines MODEL_FAIL(text), which does not return.
 */
#ifndef RESHARD_SHAPED_MODEL_H
#define RESHARD_SHAPED_MODEL_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shaped.h"

#define MODEL_ELEMENTS_MAX 4096
#define MODEL_BLOBS_MAX 512
#define MODEL_BLOB_BYTES_MAX 65536
#define MODEL_PAD (UINT64_C(1) << 60)

#define MODEL_PROMISE(x)                                                                           \
    do {                                                                                           \
        if (!(x))                                                                                  \
            MODEL_FAIL(#x);                                                                        \
    } while (0)

/* ---- arrays ---------------------------------------------------------------------------------- */

typedef struct array {
    uint32_t axes;
    int64_t shape[SW_MAX_AXES];
    size_t count;
    uint64_t *v; /* which element of the beginning it is */
} array;

static inline array array_make(uint32_t axes, const int64_t *shape)
{
    array a = {.axes = axes, .count = 1};
    for (uint32_t k = 0; k < axes; k++) {
        a.shape[k] = shape[k];
        a.count *= (size_t)shape[k];
    }
    a.v = calloc(a.count + 1, sizeof *a.v);
    MODEL_PROMISE(a.v != NULL);
    return a;
}

static inline size_t array_flat(const array *a, const int64_t *index)
{
    size_t flat = 0;
    for (uint32_t k = 0; k < a->axes; k++)
        flat = flat * (size_t)a->shape[k] + (size_t)index[k];
    return flat;
}

static inline void array_index(const array *a, size_t flat, int64_t *index)
{
    for (uint32_t k = a->axes; k-- > 0;) {
        index[k] = (int64_t)(flat % (size_t)a->shape[k]);
        flat /= (size_t)a->shape[k];
    }
}

/* ---- where elements lie ---------------------------------------------------------------------- */

typedef uint64_t (*model_choose)(void *ctx, uint64_t below);

typedef struct model {
    model_choose choose;
    void *ctx;
    uint32_t element_bytes;
    sw_dtype dtype;
    uint32_t blobs;
    uint64_t *content[MODEL_BLOBS_MAX]; /* by byte: 1 + which element begins there */
    bool full; /* a blob found no room: what was made since has holes, nothing is promised */
    size_t most_pieces;
    size_t done, refused; /* operations, and those refused for a limit */
} model;

static inline int64_t model_below(model *m, int64_t below)
{
    return below <= 1 ? 0 : (int64_t)m->choose(m->ctx, (uint64_t)below);
}

/* Blob 0 is the constant that pads. */
static inline void model_make(model *m, model_choose choose, void *ctx)
{
    static const sw_dtype types[] = {SW_U8, SW_BF16, SW_F32, SW_I64, SW_C128};
    *m = (model){.choose = choose, .ctx = ctx, .blobs = 1};
    m->dtype = types[model_below(m, 5)];
    m->element_bytes = sw_dtype_bytes(m->dtype);
    m->content[0] = calloc(16, sizeof *m->content[0]);
    MODEL_PROMISE(m->content[0] != NULL);
    m->content[0][0] = 1 + MODEL_PAD;
}

static inline void model_free(model *m)
{
    for (uint32_t b = 0; b < m->blobs; b++)
        free(m->content[b]);
}

/* Calls fn for every element of a piece. */
typedef void (*model_element)(void *ctx, uint64_t flat, int64_t byte);
static inline void model_each(const swi_piece *p, model_element fn, void *ctx)
{
    int64_t at[SW_MAX_AXES] = {0};
    for (;;) {
        uint64_t flat = 0;
        int64_t byte = p->base_bytes;
        for (uint32_t k = 0; k < p->axes; k++) {
            flat = flat * (uint64_t)p->view[k] + (uint64_t)(p->offset[k] + at[k]);
            byte += at[k] * p->stride_bytes[k];
        }
        fn(ctx, flat, byte);
        uint32_t k = p->axes;
        while (k > 0 && ++at[k - 1] == p->length[k - 1])
            at[--k] = 0;
        if (k == 0)
            return;
    }
}

typedef struct model_look {
    const model *m;
    const array *a;
    const swi_piece *p;
    uint8_t *seen;
    bool replicas;
} model_look;

static inline void model_look_at(void *ctx, uint64_t flat, int64_t byte)
{
    model_look *l = ctx;
    MODEL_PROMISE(flat < l->a->count);
    MODEL_PROMISE(byte >= 0 && byte < MODEL_BLOB_BYTES_MAX);
    MODEL_PROMISE(!l->seen[flat] || l->replicas);
    l->seen[flat] = 1;
    if (l->m->content[l->p->blob][byte] != 1 + l->a->v[flat])
        MODEL_FAIL("an element lies at other bytes than it should");
}

/* The shaped tensor is the array: each element once (copies: at least), at the right bytes. */
static inline void model_check(model *m, const swi_shaped *s, const array *a)
{
    model_look look = {.m = m, .a = a, .replicas = s->replicas};
    if (m->full)
        return;
    MODEL_PROMISE(s->axes == a->axes && s->dtype == m->dtype);
    MODEL_PROMISE(memcmp(s->shape, a->shape, a->axes * sizeof a->shape[0]) == 0);
    look.seen = calloc(a->count + 1, 1);
    MODEL_PROMISE(look.seen != NULL);
    for (size_t i = 0; i < s->count; i++) {
        uint64_t elements;
        look.p = &s->pieces[i];
        MODEL_PROMISE(look.p->blob < m->blobs && !swi_piece_is_empty(look.p));
        MODEL_PROMISE(swi_shape_elements(look.p->axes, look.p->view, &elements));
        MODEL_PROMISE(elements == a->count);
        MODEL_PROMISE(swi_piece_check(look.p, a->count, m->element_bytes, MODEL_BLOB_BYTES_MAX,
                                      NULL) == SW_OK);
        model_each(look.p, model_look_at, &look);
    }
    for (size_t i = 0; i < a->count; i++)
        MODEL_PROMISE(look.seen[i]);
    free(look.seen);
}

/* ---- a tensor that lies somehow -------------------------------------------------------------- */

typedef struct model_store {
    uint64_t *content;
    const array *a;
} model_store;

static inline void model_store_one(void *ctx, uint64_t flat, int64_t byte)
{
    model_store *s = ctx;
    MODEL_PROMISE(byte >= 0 && byte < MODEL_BLOB_BYTES_MAX);
    s->content[byte] = 1 + s->a->v[flat];
}

/* Gives the piece's axes strides in some order, now and then with gaps or backwards. */
static inline int64_t model_strides(model *m, swi_piece *p)
{
    uint32_t order[SW_MAX_AXES];
    int64_t bytes = m->element_bytes;
    bool plain = model_below(m, 2) == 0;
    for (uint32_t k = 0; k < p->axes; k++)
        order[k] = p->axes - 1 - k;
    for (uint32_t k = 0; k + 1 < p->axes && !plain; k++) {
        uint32_t j = k + (uint32_t)model_below(m, p->axes - k), swap = order[k];
        order[k] = order[j];
        order[j] = swap;
    }
    p->base_bytes = 0;
    for (uint32_t n = 0; n < p->axes; n++) {
        uint32_t k = order[n];
        if (!plain && model_below(m, 8) == 0)
            bytes += m->element_bytes;
        p->stride_bytes[k] = bytes;
        bytes *= p->length[k];
        if (!plain && model_below(m, 8) == 0) {
            p->base_bytes += p->stride_bytes[k] * (p->length[k] - 1);
            p->stride_bytes[k] = -p->stride_bytes[k];
        }
    }
    if (bytes <= MODEL_BLOB_BYTES_MAX)
        return bytes;
    swi_piece_make_dense(p, (uint32_t)m->element_bytes); /* gaps in so much have no room */
    p->base_bytes = 0;
    return (int64_t)swi_piece_elements(p) * m->element_bytes;
}

/* The box in a new blob of its own. */
static inline void model_add(model *m, swi_shaped *s, const array *a, swi_piece p)
{
    if (swi_piece_is_empty(&p))
        return;
    m->full = m->full || m->blobs == MODEL_BLOBS_MAX;
    if (m->full)
        return;
    MODEL_PROMISE(model_strides(m, &p) <= MODEL_BLOB_BYTES_MAX);
    model_store store = {calloc(MODEL_BLOB_BYTES_MAX, sizeof *store.content), a};
    MODEL_PROMISE(store.content != NULL);
    m->content[m->blobs] = store.content;
    p.blob = m->blobs++;
    model_each(&p, model_store_one, &store);
    swi_piece *items = realloc(s->pieces, (s->count + 1) * sizeof *items);
    MODEL_PROMISE(items != NULL);
    s->pieces = items;
    s->pieces[s->count++] = p;
    s->capacity = s->count;
}

/* Boxes of a grid, ragged at the ends; with copies some twice. */
static inline void model_grid(model *m, swi_shaped *s, const array *a)
{
    int64_t parts[SW_MAX_AXES], total = 1;
    for (uint32_t k = 0; k < a->axes; k++) {
        parts[k] = model_below(m, 2) == 0 ? 1 : 1 + model_below(m, 4);
        total *= parts[k];
    }
    for (int64_t n = 0; n < total; n++) {
        swi_piece p = {.axes = a->axes};
        int64_t left = n;
        for (uint32_t k = 0; k < a->axes; k++) {
            int64_t step = (a->shape[k] + parts[k] - 1) / parts[k], at = left % parts[k] * step;
            left /= parts[k];
            p.view[k] = a->shape[k];
            p.offset[k] = at < a->shape[k] ? at : a->shape[k];
            p.length[k] = a->shape[k] - p.offset[k] < step ? a->shape[k] - p.offset[k] : step;
        }
        model_add(m, s, a, p);
        if (s->replicas && model_below(m, 2) == 0)
            model_add(m, s, a, p);
    }
}

/* Intervals of the flat tensor, as flat optimizers cut. */
static inline void model_flat(model *m, swi_shaped *s, const array *a)
{
    int64_t size = (int64_t)a->count, parts = 1 + model_below(m, 5);
    for (int64_t n = 0; n < parts; n++) {
        int64_t step = (size + parts - 1) / parts, at = n * step < size ? n * step : size;
        swi_piece p = {.axes = 1, .view = {size}, .offset = {at}};
        p.length[0] = size - at < step ? size - at : step;
        model_add(m, s, a, p);
    }
}

/* Columns, and each part of them flat in intervals: a first row in part, rows, a last in part. */
static inline void model_columns_flat(model *m, swi_shaped *s, const array *a)
{
    int64_t columns = a->axes > 0 ? a->shape[a->axes - 1] : 1, rows = (int64_t)a->count / columns;
    int64_t cuts = 1 + model_below(m, 3), step = (columns + cuts - 1) / cuts;
    for (int64_t at = 0; at < columns; at += step) {
        int64_t width = columns - at < step ? columns - at : step, size = width * rows;
        int64_t piece = size / (1 + model_below(m, 3)) + 1;
        for (int64_t lo = 0; lo < size; lo += piece) {
            int64_t hi = lo + piece < size ? lo + piece : size;
            while (lo / width < hi / width && lo % width != 0 && lo < hi) {
                int64_t n = width - lo % width;
                swi_piece head = {.axes = 2,
                                  .view = {rows, columns},
                                  .offset = {lo / width, at + lo % width},
                                  .length = {1, n}};
                model_add(m, s, a, head);
                lo += n;
            }
            int64_t whole = (hi - lo) / width;
            swi_piece middle = {.axes = 2,
                                .view = {rows, columns},
                                .offset = {lo / width, at},
                                .length = {whole, width}};
            if (lo % width == 0 && whole > 0) {
                model_add(m, s, a, middle);
                lo += whole * width;
            }
            swi_piece tail = {.axes = 2,
                              .view = {rows, columns},
                              .offset = {lo / width, at + lo % width},
                              .length = {1, hi - lo}};
            if (hi > lo)
                model_add(m, s, a, tail);
            lo = hi - piece;
        }
    }
}

/* Whole, in a view that has nothing to do with the shape. */
static inline void model_odd_view(model *m, swi_shaped *s, const array *a)
{
    int64_t left = (int64_t)a->count;
    swi_piece p = {.axes = 0};
    while (left > 1 && p.axes < 4) {
        int64_t f = 2 + model_below(m, 5);
        if (left % f != 0)
            f = left;
        p.view[p.axes] = p.length[p.axes] = f;
        p.axes++;
        left /= f;
    }
    if (left > 1) {
        p.view[p.axes] = p.length[p.axes] = left;
        p.axes++;
    }
    uint32_t k = p.axes > 0 ? (uint32_t)model_below(m, p.axes) : 0;
    if (p.axes > 0 && p.length[k] > 1) {
        swi_piece rest = p;
        p.length[k] = 1 + model_below(m, p.view[k] - 1);
        rest.offset[k] = p.length[k];
        rest.length[k] = p.view[k] - p.length[k];
        model_add(m, s, a, rest);
    }
    model_add(m, s, a, p);
}

static inline void model_shape(model *m, uint32_t axes, int64_t *shape)
{
    for (uint32_t k = 0; k < axes; k++) {
        shape[k] = 1 + model_below(m, axes < 4 ? 12 : 5);
        if (model_below(m, 40) == 1)
            shape[k] = 0;
    }
}

/* A tensor of that shape whose elements are numbered from `first` on. */
static inline void model_source(model *m, uint32_t axes, const int64_t *shape, uint64_t first,
                                swi_shaped *s, array *a)
{
    *a = array_make(axes, shape);
    *s = (swi_shaped){.dtype = m->dtype, .axes = axes};
    memcpy(s->shape, shape, axes * sizeof *shape);
    for (size_t i = 0; i < a->count; i++)
        a->v[i] = first + i;
    uint64_t how = (uint64_t)model_below(m, 6);
    s->replicas = how == 5;
    if (a->count == 0)
        return;
    if (how == 0)
        model_flat(m, s, a);
    else if (how == 1)
        model_columns_flat(m, s, a);
    else if (how == 2)
        model_odd_view(m, s, a);
    else
        model_grid(m, s, a);
}

#endif
