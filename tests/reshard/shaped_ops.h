/* The operations by their definitions, and random programs of them (shaped_model.h). */
#ifndef RESHARD_SHAPED_OPS_H
#define RESHARD_SHAPED_OPS_H

#include "shaped_model.h"

typedef struct tracked {
    swi_shaped s;
    array a;
} tracked;

static inline void tracked_free(tracked *x)
{
    swi_shaped_free(&x->s);
    free(x->a.v);
    *x = (tracked){0};
}

/* What the library made of it, checked against the array, takes the place of x. LIMIT is no fault:
 * x stays. */
static inline bool tracked_take(model *m, tracked *x, sw_status status, swi_shaped *made, array *a)
{
    if (status != SW_OK) {
        if (status != SW_ERR_LIMIT && !m->full)
            MODEL_FAIL("an operation on good numbers is refused");
        m->refused++;
        free(a->v);
        return false;
    }
    model_check(m, made, a);
    m->done++;
    tracked_free(x);
    *x = (tracked){*made, *a};
    if (made->count > m->most_pieces)
        m->most_pieces = made->count;
    return true;
}

/* The inverse of something gives back what there was. */
static inline void same_again(model *m, sw_status status, swi_shaped *back, const array *a)
{
    if (status == SW_ERR_LIMIT) {
        m->refused++;
        return;
    }
    MODEL_PROMISE(status == SW_OK || m->full);
    model_check(m, back, a);
    swi_shaped_free(back);
}

static inline int64_t divisor_of(model *m, int64_t n)
{
    if (n <= 1 || model_below(m, 3) == 0)
        return 1;
    int64_t d = 1 + model_below(m, n);
    while (n % d != 0)
        d--;
    return d;
}

static inline bool fits(const int64_t *shape, uint32_t axes)
{
    int64_t n = 1;
    for (uint32_t k = 0; k < axes; k++) {
        n *= shape[k];
        if (n > MODEL_ELEMENTS_MAX)
            return false;
    }
    return true;
}

/* ---- rearrange and reshape ------------------------------------------------------------------- */

static inline swi_rearrange random_rearrange(model *m, const array *a)
{
    swi_rearrange r = {.in_axes = a->axes};
    for (uint32_t d = 0; d < a->axes; d++) {
        int64_t left = a->shape[d];
        uint32_t room = SW_MAX_AXES - r.factors - (a->axes - d), n = (uint32_t)model_below(m, 4);
        for (; n > 0 && room > 0 && left > 1; n--, room--) {
            int64_t f = divisor_of(m, left);
            r.size[r.factors++] = f;
            r.in_count[d]++;
            left /= f;
        }
        if (left != 1 || model_below(m, 4) == 0) {
            r.size[r.factors++] = left;
            r.in_count[d]++;
        }
    }
    for (uint32_t k = 0; k < r.factors; k++)
        r.order[k] = k;
    for (uint32_t k = 0; k + 1 < r.factors; k++) {
        uint32_t j = k + (uint32_t)model_below(m, r.factors - k), swap = r.order[k];
        r.order[k] = r.order[j];
        r.order[j] = swap;
    }
    for (uint32_t k = 0; k < r.factors;) {
        uint32_t n = 1 + (uint32_t)model_below(m, r.factors - k);
        r.out_count[r.out_axes++] = n;
        k += n;
    }
    if (r.out_axes < 6 && model_below(m, 4) == 1)
        r.out_axes++; /* a dimension of no factor */
    return r;
}

static inline array array_rearrange(const array *a, const swi_rearrange *r)
{
    int64_t shape[SW_MAX_AXES], sizes[SW_MAX_AXES], to[SW_MAX_AXES], from[SW_MAX_AXES];
    uint32_t at = 0;
    for (uint32_t d = 0; d < r->out_axes; d++) {
        shape[d] = 1;
        for (uint32_t n = 0; n < r->out_count[d]; n++)
            shape[d] *= r->size[r->order[at++]];
    }
    array out = array_make(r->out_axes, shape);
    array factors = {.axes = r->factors}, moved = {.axes = r->factors};
    for (uint32_t k = 0; k < r->factors; k++) {
        sizes[k] = r->size[r->order[k]];
        factors.shape[k] = r->size[k];
        moved.shape[k] = sizes[k];
    }
    for (size_t i = 0; i < out.count; i++) {
        array_index(&moved, i, to);
        for (uint32_t k = 0; k < r->factors; k++)
            from[r->order[k]] = to[k];
        out.v[i] = a->v[array_flat(&factors, from)];
    }
    return out;
}

static inline void do_rearrange(model *m, tracked *x)
{
    swi_rearrange r = random_rearrange(m, &x->a), back;
    array a = array_rearrange(&x->a, &r), before = x->a;
    swi_shaped made = {0}, again = {0};
    before.v = malloc((before.count + 1) * sizeof *before.v);
    MODEL_PROMISE(before.v != NULL);
    memcpy(before.v, x->a.v, before.count * sizeof *before.v);
    if (tracked_take(m, x, swi_shaped_rearrange(&x->s, &r, &made, NULL), &made, &a)) {
        swi_rearrange_inverse(&r, &back);
        same_again(m, swi_shaped_rearrange(&x->s, &back, &again, NULL), &again, &before);
    }
    free(before.v);
}

static inline void do_reshape(model *m, tracked *x)
{
    int64_t shape[SW_MAX_AXES], left = (int64_t)x->a.count;
    uint32_t axes = 0;
    swi_shaped made = {0};
    while (axes < 4 && left > 1) {
        int64_t f = divisor_of(m, left);
        shape[axes++] = f;
        left /= f;
    }
    shape[axes++] = left;
    array a = array_make(axes, shape);
    memcpy(a.v, x->a.v, a.count * sizeof *a.v);
    (void)tracked_take(m, x, swi_shaped_reshape(&x->s, axes, shape, &made, NULL), &made, &a);
}

/* ---- join and split -------------------------------------------------------------------------- */

/* Element `index` of a join: which part, and its index there (changed in place). */
static inline size_t join_part(const array *parts, uint32_t dim, int64_t groups, int64_t *index)
{
    int64_t at = index[dim];
    size_t i;
    int64_t all = 0;
    for (i = 0; parts[i].v != NULL; i++)
        all += parts[i].shape[dim] / groups;
    int64_t group = at / all, rest = at % all;
    for (i = 0; rest >= parts[i].shape[dim] / groups; i++)
        rest -= parts[i].shape[dim] / groups;
    index[dim] = group * (parts[i].shape[dim] / groups) + rest;
    return i;
}

/* `parts` end with one without elements' room. */
static inline array array_join(const array *parts, uint32_t dim, int64_t groups)
{
    int64_t shape[SW_MAX_AXES], index[SW_MAX_AXES] = {0};
    memcpy(shape, parts[0].shape, sizeof shape);
    shape[dim] = 0;
    for (size_t i = 0; parts[i].v != NULL; i++)
        shape[dim] += parts[i].shape[dim];
    array out = array_make(parts[0].axes, shape);
    for (size_t e = 0; e < out.count; e++) {
        array_index(&out, e, index);
        size_t i = join_part(parts, dim, groups, index);
        out.v[e] = parts[i].v[array_flat(&parts[i], index)];
    }
    return out;
}

#define PARTS_MAX 4

static inline void do_join(model *m, tracked *x)
{
    swi_shaped parts[PARTS_MAX] = {{0}}, made = {0}, back[PARTS_MAX] = {{0}};
    array arrays[PARTS_MAX + 1] = {{0}};
    int64_t shape[SW_MAX_AXES], sizes[PARTS_MAX];
    if (x->a.axes == 0)
        return;
    uint32_t dim = (uint32_t)model_below(m, x->a.axes);
    size_t count = 1 + (size_t)model_below(m, PARTS_MAX),
           own = (size_t)model_below(m, (int64_t)count);
    int64_t groups = x->a.shape[dim] > 0 ? divisor_of(m, x->a.shape[dim]) : 1 + model_below(m, 3);
    memcpy(shape, x->a.shape, sizeof shape);
    for (size_t i = 0; i < count; i++) {
        shape[dim] = groups * model_below(m, 4);
        if (i == own || !fits(shape, x->a.axes)) {
            MODEL_PROMISE(swi_shaped_copy(&x->s, &parts[i], NULL) == SW_OK);
            arrays[i] = array_make(x->a.axes, x->a.shape);
            memcpy(arrays[i].v, x->a.v, x->a.count * sizeof *x->a.v);
        } else {
            model_source(m, x->a.axes, shape, 100000 * (i + 1) + x->a.count, &parts[i], &arrays[i]);
        }
        sizes[i] = arrays[i].shape[dim];
    }
    array joined = array_join(arrays, dim, groups);
    bool done = joined.count <= MODEL_ELEMENTS_MAX;
    if (done)
        done = tracked_take(m, x, swi_shaped_join(parts, count, dim, groups, &made, NULL), &made,
                            &joined);
    else
        free(joined.v);
    sw_status status = SW_OK;
    if (done)
        status = swi_shaped_split(&x->s, dim, groups, sizes, count, back, NULL);
    for (size_t i = 0; i < count; i++) {
        if (done)
            same_again(m, status, &back[i], &arrays[i]);
        swi_shaped_free(&parts[i]);
        free(arrays[i].v);
    }
}

/* The part of a split that begins at `at` in each group. */
static inline array array_part(const array *a, uint32_t dim, int64_t groups, int64_t at,
                               int64_t size)
{
    int64_t shape[SW_MAX_AXES], index[SW_MAX_AXES] = {0};
    memcpy(shape, a->shape, sizeof shape);
    shape[dim] = size;
    array out = array_make(a->axes, shape);
    int64_t run = size / groups, all = a->shape[dim] / groups;
    for (size_t e = 0; e < out.count; e++) {
        array_index(&out, e, index);
        index[dim] = index[dim] / run * all + at + index[dim] % run;
        out.v[e] = a->v[array_flat(a, index)];
    }
    return out;
}

static inline void do_split(model *m, tracked *x)
{
    swi_shaped parts[PARTS_MAX] = {{0}}, again = {0};
    int64_t sizes[PARTS_MAX], at = 0;
    if (x->a.axes == 0)
        return;
    uint32_t dim = (uint32_t)model_below(m, x->a.axes);
    int64_t groups = divisor_of(m, x->a.shape[dim]), left = x->a.shape[dim] / groups;
    size_t count = 1 + (size_t)model_below(m, PARTS_MAX),
           keep = (size_t)model_below(m, (int64_t)count);
    for (size_t i = 0; i < count; i++) {
        int64_t run = i + 1 == count ? left : model_below(m, left + 1);
        sizes[i] = run * groups;
        left -= run;
    }
    sw_status status = swi_shaped_split(&x->s, dim, groups, sizes, count, parts, NULL);
    if (status == SW_OK)
        same_again(m, swi_shaped_join(parts, count, dim, groups, &again, NULL), &again, &x->a);
    for (size_t i = 0; i < keep; i++)
        at += sizes[i] / groups;
    array kept = array_part(&x->a, dim, groups, at, sizes[keep]);
    for (size_t i = 0; i < count; i++)
        if (i != keep)
            swi_shaped_free(&parts[i]);
    (void)tracked_take(m, x, status, &parts[keep], &kept);
}

/* ---- stack ----------------------------------------------------------------------------------- */

static inline void do_stack(model *m, tracked *x)
{
    swi_shaped parts[PARTS_MAX] = {{0}}, made = {0}, again = {0};
    array arrays[PARTS_MAX] = {{0}};
    int64_t shape[SW_MAX_AXES], index[SW_MAX_AXES] = {0}, inside[SW_MAX_AXES];
    size_t count = 1 + (size_t)model_below(m, PARTS_MAX);
    uint32_t dim = (uint32_t)model_below(m, x->a.axes + 1), n = 0;
    if (x->a.axes > 5 || x->a.count * count > MODEL_ELEMENTS_MAX)
        return;
    for (size_t i = 0; i < count; i++)
        model_source(m, x->a.axes, x->a.shape, 100000 * (i + 1), &parts[i], &arrays[i]);
    for (uint32_t k = 0; k < x->a.axes + 1; k++)
        shape[k] = k == dim ? (int64_t)count : x->a.shape[n++];
    array stacked = array_make(x->a.axes + 1, shape);
    for (size_t e = 0; e < stacked.count; e++) {
        array_index(&stacked, e, index);
        n = 0;
        for (uint32_t k = 0; k < stacked.axes; k++)
            if (k != dim)
                inside[n++] = index[k];
        stacked.v[e] = arrays[index[dim]].v[array_flat(&arrays[index[dim]], inside)];
    }
    size_t one = (size_t)model_below(m, (int64_t)count);
    if (tracked_take(m, x, swi_shaped_stack(parts, count, dim, &made, NULL), &made, &stacked))
        same_again(m, swi_shaped_unstack(&x->s, dim, (int64_t)one, &again, NULL), &again,
                   &arrays[one]);
    for (size_t i = 0; i < count; i++) {
        swi_shaped_free(&parts[i]);
        free(arrays[i].v);
    }
}

static inline void do_unstack(model *m, tracked *x)
{
    swi_shaped made = {0};
    uint32_t dim = x->a.axes == 0 ? 0 : (uint32_t)model_below(m, x->a.axes);
    if (x->a.axes == 0 || x->a.shape[dim] == 0)
        return;
    int64_t index = model_below(m, x->a.shape[dim]);
    array a = array_part(&x->a, dim, 1, index, 1);
    a.axes--;
    for (uint32_t k = dim; k < a.axes; k++)
        a.shape[k] = a.shape[k + 1];
    (void)tracked_take(m, x, swi_shaped_unstack(&x->s, dim, index, &made, NULL), &made, &a);
}

/* ---- boxes ----------------------------------------------------------------------------------- */

static inline void do_pad(model *m, tracked *x)
{
    swi_shaped made = {0};
    int64_t shape[SW_MAX_AXES], index[SW_MAX_AXES] = {0};
    if (x->a.axes == 0)
        return;
    uint32_t dim = (uint32_t)model_below(m, x->a.axes);
    memcpy(shape, x->a.shape, sizeof shape);
    shape[dim] += model_below(m, 6);
    if (!fits(shape, x->a.axes))
        return;
    array a = array_make(x->a.axes, shape);
    for (size_t e = 0; e < a.count; e++) {
        array_index(&a, e, index);
        a.v[e] = index[dim] < x->a.shape[dim] ? x->a.v[array_flat(&x->a, index)] : MODEL_PAD;
    }
    (void)tracked_take(m, x, swi_shaped_pad(&x->s, dim, shape[dim], 0, &made, NULL), &made, &a);
}

static inline array array_cut(const array *a, const int64_t *offset, const int64_t *length)
{
    int64_t index[SW_MAX_AXES];
    array out = array_make(a->axes, length);
    for (size_t e = 0; e < out.count; e++) {
        array_index(&out, e, index);
        for (uint32_t k = 0; k < a->axes; k++)
            index[k] += offset[k];
        out.v[e] = a->v[array_flat(a, index)];
    }
    return out;
}

static inline void do_cut(model *m, tracked *x)
{
    swi_shaped made = {0};
    int64_t offset[SW_MAX_AXES], length[SW_MAX_AXES];
    for (uint32_t k = 0; k < x->a.axes; k++) {
        offset[k] = model_below(m, 2) == 0 ? 0 : model_below(m, x->a.shape[k] + 1);
        length[k] = x->a.shape[k] - offset[k];
        if (model_below(m, 2) == 0)
            length[k] -= model_below(m, length[k] + 1) / 2;
    }
    array a = array_cut(&x->a, offset, length);
    (void)tracked_take(m, x, swi_shaped_cut(&x->s, offset, length, &made, NULL), &made, &a);
}

/* The tensor cut in two along a dimension and put together the other way round. */
static inline void do_embed(model *m, tracked *x)
{
    if (x->a.axes == 0)
        return;
    uint32_t dim = (uint32_t)model_below(m, x->a.axes);
    int64_t size = x->a.shape[dim], cut = model_below(m, size + 1), index[SW_MAX_AXES] = {0};
    swi_shaped made = {.dtype = m->dtype, .axes = x->a.axes};
    memcpy(made.shape, x->a.shape, sizeof made.shape);
    array a = array_make(x->a.axes, x->a.shape);
    for (size_t e = 0; e < a.count; e++) {
        array_index(&a, e, index);
        index[dim] = (index[dim] + cut) % size;
        a.v[e] = x->a.v[array_flat(&x->a, index)];
    }
    sw_status status = SW_OK;
    for (int side = 0; side < 2 && status == SW_OK; side++) {
        int64_t offset[SW_MAX_AXES] = {0}, length[SW_MAX_AXES], at[SW_MAX_AXES] = {0};
        swi_shaped box = {0};
        memcpy(length, x->a.shape, sizeof length);
        offset[dim] = side == 0 ? cut : 0;
        length[dim] = side == 0 ? size - cut : cut;
        at[dim] = side == 0 ? 0 : size - cut;
        status = swi_shaped_cut(&x->s, offset, length, &box, NULL);
        if (status == SW_OK)
            status = swi_shaped_embed(&made, &box, at, NULL);
        swi_shaped_free(&box);
    }
    if (status != SW_OK)
        swi_shaped_free(&made);
    (void)tracked_take(m, x, status, &made, &a);
}

static inline void do_spread(model *m, tracked *x)
{
    swi_shaped made = {0};
    int64_t shape[SW_MAX_AXES], blocks[SW_MAX_AXES], index[SW_MAX_AXES];
    for (uint32_t k = 0; k < x->a.axes; k++) {
        blocks[k] = 1 + model_below(m, 4);
        shape[k] = x->a.shape[k] * blocks[k];
        if (shape[k] > 0)
            shape[k] -= model_below(m, 2) * model_below(m, blocks[k]);
    }
    if (!fits(shape, x->a.axes))
        return;
    array a = array_make(x->a.axes, shape);
    for (size_t e = 0; e < a.count; e++) {
        array_index(&a, e, index);
        for (uint32_t k = 0; k < a.axes; k++)
            index[k] /= blocks[k];
        a.v[e] = x->a.v[array_flat(&x->a, index)];
    }
    (void)tracked_take(m, x, swi_shaped_spread(&x->s, x->a.axes, shape, blocks, &made, NULL), &made,
                       &a);
}

/* ---- a program ------------------------------------------------------------------------------- */

static inline void model_step(model *m, tracked *x)
{
    typedef void (*operation)(model *, tracked *);
    static const operation all[] = {do_rearrange, do_rearrange, do_reshape, do_join,
                                    do_join,      do_split,     do_stack,   do_unstack,
                                    do_pad,       do_cut,       do_embed,   do_spread};
    all[model_below(m, 12)](m, x);
}

/* A tensor, and up to `steps` operations on it. */
static inline model model_program(model_choose choose, void *ctx, int64_t steps)
{
    model m;
    tracked x = {0};
    int64_t shape[SW_MAX_AXES] = {0};
    model_make(&m, choose, ctx);
    uint32_t axes = (uint32_t)model_below(&m, 5);
    model_shape(&m, axes, shape);
    if (fits(shape, axes)) {
        model_source(&m, axes, shape, 0, &x.s, &x.a);
        model_check(&m, &x.s, &x.a);
        for (int64_t n = 1 + model_below(&m, steps); n > 0 && !m.full; n--)
            model_step(&m, &x);
    }
    tracked_free(&x);
    model_free(&m);
    return m;
}

#endif
