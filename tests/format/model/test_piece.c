/* Every operation of the piece algebra against brute force over single elements. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "model/piece.h"

#define CASES 4000
#define MAX_ELEMENTS 4096
#define ABSENT INT64_MIN

static uint64_t rng_state;

static uint64_t next_random(void)
{
    rng_state ^= rng_state << 13;
    rng_state ^= rng_state >> 7;
    rng_state ^= rng_state << 17;
    return rng_state;
}

static int64_t pick(int64_t lo, int64_t hi) /* inclusive */
{
    return lo + (int64_t)(next_random() % (uint64_t)(hi - lo + 1));
}

/* What a piece means: for each flat index of its tensor the byte it lies at, or ABSENT. */
typedef struct meaning {
    uint64_t elements;
    int64_t byte[MAX_ELEMENTS];
} meaning;

static void clear(meaning *m, uint64_t elements)
{
    assert_true(elements <= MAX_ELEMENTS);
    m->elements = elements;
    for (uint64_t i = 0; i < elements; i++)
        m->byte[i] = ABSENT;
}

static uint64_t elements_of(const int64_t *view, uint32_t axes)
{
    uint64_t n = 1;
    for (uint32_t k = 0; k < axes; k++)
        n *= (uint64_t)view[k];
    return n;
}

static void digits(uint64_t flat, const int64_t *view, uint32_t axes, int64_t *out)
{
    for (uint32_t k = axes; k-- > 0;) {
        out[k] = (int64_t)(flat % (uint64_t)view[k]);
        flat /= (uint64_t)view[k];
    }
}

static uint64_t flat_of(const int64_t *digit, const int64_t *view, uint32_t axes)
{
    uint64_t flat = 0;
    for (uint32_t k = 0; k < axes; k++)
        flat = flat * (uint64_t)view[k] + (uint64_t)digit[k];
    return flat;
}

/* Adds a piece to a meaning by visiting every element of the tensor; each may be given once. */
static void add(meaning *m, const swi_piece *p)
{
    assert_int_equal(elements_of(p->view, p->axes), m->elements);
    for (uint64_t flat = 0; flat < m->elements; flat++) {
        int64_t at[SW_MAX_AXES] = {0};
        int64_t byte = p->base_bytes;
        bool in = true;
        digits(flat, p->view, p->axes, at);
        for (uint32_t k = 0; k < p->axes; k++) {
            in = in && at[k] >= p->offset[k] && at[k] < p->offset[k] + p->length[k];
            byte += (at[k] - p->offset[k]) * (in ? p->stride_bytes[k] : 0);
        }
        if (!in)
            continue;
        assert_int_equal(m->byte[flat], ABSENT);
        m->byte[flat] = byte;
    }
}

static void assert_same(const meaning *a, const meaning *b)
{
    assert_int_equal(a->elements, b->elements);
    assert_memory_equal(a->byte, b->byte, a->elements * sizeof a->byte[0]);
}

static swi_piece random_piece(uint32_t max_axes, bool allow_empty)
{
    swi_piece p = {.blob = 7, .axes = (uint32_t)pick(0, max_axes), .base_bytes = pick(0, 1000)};
    uint64_t n = 1;
    for (uint32_t k = 0; k < p.axes; k++) {
        int64_t size = pick(0, 9) < 3 ? 1 : pick(allow_empty && pick(0, 19) == 0 ? 0 : 1, 6);
        if (n * (uint64_t)size > 400)
            size = 1;
        n *= (uint64_t)size;
        p.view[k] = size;
        p.offset[k] = size == 0 ? 0 : pick(0, size - 1);
        p.length[k] =
            size == 0 ? 0 : pick(allow_empty && pick(0, 19) == 0 ? 0 : 1, size - p.offset[k]);
        if (pick(0, 2) == 0) {
            p.offset[k] = 0;
            p.length[k] = size;
        }
        p.stride_bytes[k] = pick(-300, 300);
    }
    if (pick(0, 1))
        swi_piece_make_dense(&p, 4);
    return p;
}

static void test_interval(void **state)
{
    (void)state;
    static meaning whole, want, got;
    for (int i = 0; i < CASES; i++) {
        swi_piece p = random_piece(5, true);
        uint64_t n = elements_of(p.view, p.axes);
        clear(&whole, n);
        add(&whole, &p);
        for (int j = 0; j < 8; j++) {
            uint64_t lo = (uint64_t)pick(0, (int64_t)n);
            uint64_t hi = (uint64_t)pick((int64_t)lo, (int64_t)n + 3);
            swi_piece out[SWI_INTERVAL_MAX];
            size_t count = swi_piece_in_interval(&p, lo, hi, out);
            assert_true(count <= SWI_INTERVAL_MAX);
            clear(&want, n);
            clear(&got, n);
            for (uint64_t f = lo; f < hi && f < n; f++)
                want.byte[f] = whole.byte[f];
            uint64_t end = 0;
            for (size_t k = 0; k < count; k++) {
                assert_true(swi_piece_elements(&out[k]) > 0);
                assert_int_equal(out[k].blob, 7);
                add(&got, &out[k]);
                assert_true(swi_piece_first(&out[k]) >= end); /* ascending, not interleaved */
                end = swi_piece_end(&out[k]);
            }
            assert_same(&want, &got);
        }
    }
}

/* Whole rows of a column shard are one box, however the window falls on whole rows. */
static void test_interval_of_whole_rows_is_one_box(void **state)
{
    (void)state;
    swi_piece p = {.axes = 3, .view = {50, 4, 6}, .offset = {3, 1, 2}, .length = {40, 2, 3}};
    swi_piece out[SWI_INTERVAL_MAX];
    swi_piece_make_dense(&p, 2);
    for (uint64_t lo = 0; lo < 50; lo++)
        for (uint64_t hi = lo + 1; hi <= 50; hi++) {
            size_t n = swi_piece_in_interval(&p, lo * 24, hi * 24, out);
            bool hit = lo < 43 && hi > 3;
            assert_int_equal(n, hit ? 1 : 0);
        }
    /* The dearest case: an odd corner on both sides in ten axes. */
    swi_piece deep = {.axes = 10};
    for (int k = 0; k < 10; k++) {
        deep.view[k] = 3;
        deep.length[k] = 3;
    }
    swi_piece_make_dense(&deep, 2);
    uint64_t n = elements_of(deep.view, 10);
    assert_int_equal(swi_piece_in_interval(&deep, 1, n - 1, out), 19);
}

static void test_interval_of_huge_numbers(void **state)
{
    (void)state;
    swi_piece p = {.axes = 2,
                   .view = {INT64_C(1) << 31, INT64_C(1) << 31},
                   .length = {INT64_C(1) << 31, INT64_C(1) << 30}};
    swi_piece out[SWI_INTERVAL_MAX];
    swi_piece_make_dense(&p, 2);
    size_t n = swi_piece_in_interval(&p, 5, (UINT64_C(1) << 62) - 7, out);
    assert_int_equal(n, 2);
    assert_int_equal(out[0].offset[0], 0);
    assert_int_equal(out[0].offset[1], 5);
    assert_int_equal(out[0].base_bytes, 10);
    assert_int_equal(out[1].offset[0], 1);
    assert_int_equal(out[1].length[0], (INT64_C(1) << 31) - 1);
    assert_int_equal(out[1].base_bytes, INT64_C(1) << 31);
}

static void test_refine(void **state)
{
    (void)state;
    static meaning want, got;
    int split = 0;
    for (int i = 0; i < 2 * CASES; i++) {
        swi_piece p = random_piece(4, true);
        swi_piece out[3];
        if (p.axes == 0) {
            assert_int_equal(swi_piece_refine(&p, 0, 1, out), 0);
            continue;
        }
        uint32_t axis = (uint32_t)pick(0, p.axes - 1);
        int64_t inner = pick(1, 6);
        if (pick(0, 9) > 0)
            while (p.view[axis] % inner != 0)
                inner = pick(1, 6);
        uint64_t n = elements_of(p.view, p.axes);
        size_t count = swi_piece_refine(&p, axis, inner, out);
        if (p.view[axis] % inner != 0) {
            assert_int_equal(count, 0);
            continue;
        }
        assert_true(count >= 1 && count <= 3);
        split += count > 1;
        clear(&want, n);
        clear(&got, n);
        add(&want, &p);
        for (size_t k = 0; k < count; k++) {
            assert_int_equal(out[k].axes, p.axes + 1);
            assert_int_equal(out[k].view[axis], p.view[axis] / inner);
            assert_int_equal(out[k].view[axis + 1], inner);
            add(&got, &out[k]);
        }
        assert_same(&want, &got);
    }
    assert_true(split > CASES / 40);
    swi_piece full = {.axes = SW_MAX_AXES};
    swi_piece out[3];
    assert_int_equal(swi_piece_refine(&full, 0, 1, out), 0);
    full.axes = 1;
    assert_int_equal(swi_piece_refine(&full, 0, 0, out), 0);
    assert_int_equal(swi_piece_refine(&full, 0, -1, out), 0);
    assert_int_equal(swi_piece_refine(&full, 1, 1, out), 0);
}

static void test_permute(void **state)
{
    (void)state;
    static meaning old, want, got;
    for (int i = 0; i < CASES; i++) {
        swi_piece p = random_piece(5, true);
        uint32_t order[SW_MAX_AXES];
        int64_t view[SW_MAX_AXES];
        for (uint32_t k = 0; k < p.axes; k++)
            order[k] = k;
        for (uint32_t k = p.axes; k > 1; k--) {
            uint32_t j = (uint32_t)pick(0, k - 1);
            uint32_t t = order[k - 1];
            order[k - 1] = order[j];
            order[j] = t;
        }
        for (uint32_t k = 0; k < p.axes; k++)
            view[k] = p.view[order[k]];
        uint64_t n = elements_of(p.view, p.axes);
        clear(&old, n);
        clear(&want, n);
        clear(&got, n);
        add(&old, &p);
        for (uint64_t f = 0; f < n; f++) {
            int64_t at[SW_MAX_AXES] = {0};
            int64_t to[SW_MAX_AXES] = {0};
            digits(f, p.view, p.axes, at);
            for (uint32_t k = 0; k < p.axes; k++)
                to[k] = at[order[k]];
            want.byte[flat_of(to, view, p.axes)] = old.byte[f];
        }
        swi_piece_permute(&p, order, &p); /* in place */
        add(&got, &p);
        assert_same(&want, &got);
    }
}

static void test_embed(void **state)
{
    (void)state;
    static meaning old, want, got;
    for (int i = 0; i < CASES; i++) {
        swi_piece p = random_piece(4, true);
        swi_piece out;
        if (p.axes == 0) {
            assert_false(swi_piece_embed(&p, 0, 5, 0, &out));
            continue;
        }
        uint32_t axis = (uint32_t)pick(0, p.axes - 1);
        int64_t at = pick(-1, 4);
        int64_t size = pick(0, 12);
        bool ok = swi_piece_embed(&p, axis, size, at, &out);
        assert_int_equal(ok, at >= 0 && at + p.view[axis] <= size);
        if (!ok)
            continue;
        int64_t view[SW_MAX_AXES];
        memcpy(view, p.view, sizeof view);
        view[axis] = size;
        uint64_t n = elements_of(p.view, p.axes);
        clear(&old, n);
        clear(&want, elements_of(view, p.axes));
        clear(&got, elements_of(view, p.axes));
        add(&old, &p);
        for (uint64_t f = 0; f < n; f++) {
            int64_t d[SW_MAX_AXES] = {0};
            digits(f, p.view, p.axes, d);
            d[axis] += at;
            want.byte[flat_of(d, view, p.axes)] = old.byte[f];
        }
        add(&got, &out);
        assert_same(&want, &got);
    }
    swi_piece big = {.axes = 2, .view = {INT64_C(1) << 40, 1}, .length = {1, 1}};
    swi_piece out = {.blob = 99};
    assert_false(swi_piece_embed(&big, 1, INT64_C(1) << 40, 0, &out));
    assert_false(swi_piece_embed(&big, 1, INT64_MAX, INT64_MAX, &out));
    assert_int_equal(out.blob, 99);
}

static void test_crop(void **state)
{
    (void)state;
    static meaning old, want, got;
    int hits = 0;
    for (int i = 0; i < CASES; i++) {
        swi_piece p = random_piece(4, true);
        if (p.axes == 0)
            continue;
        uint32_t axis = (uint32_t)pick(0, p.axes - 1);
        int64_t lo = pick(0, p.view[axis]);
        int64_t hi = pick(lo, p.view[axis]);
        int64_t view[SW_MAX_AXES];
        memcpy(view, p.view, sizeof view);
        view[axis] = hi - lo;
        uint64_t n = elements_of(p.view, p.axes);
        clear(&old, n);
        clear(&want, elements_of(view, p.axes));
        clear(&got, elements_of(view, p.axes));
        add(&old, &p);
        bool any = false;
        for (uint64_t f = 0; f < n; f++) {
            int64_t d[SW_MAX_AXES] = {0};
            digits(f, p.view, p.axes, d);
            if (d[axis] < lo || d[axis] >= hi || old.byte[f] == ABSENT)
                continue;
            d[axis] -= lo;
            want.byte[flat_of(d, view, p.axes)] = old.byte[f];
            any = true;
        }
        assert_int_equal(swi_piece_crop(&p, axis, lo, hi, &p), any);
        if (!any)
            continue;
        hits++;
        add(&got, &p);
        assert_same(&want, &got);
    }
    assert_true(hits > CASES / 4);
    swi_piece p = {.axes = 1, .view = {4}, .length = {4}};
    assert_false(swi_piece_crop(&p, 0, -1, 3, &p));
    assert_false(swi_piece_crop(&p, 0, 0, 5, &p));
    assert_false(swi_piece_crop(&p, 1, 0, 1, &p));
}

static void test_simplify(void **state)
{
    (void)state;
    static meaning want, got;
    int merged = 0;
    for (int i = 0; i < CASES; i++) {
        swi_piece p = random_piece(5, true);
        uint64_t n = elements_of(p.view, p.axes);
        uint32_t axes = p.axes;
        clear(&want, n);
        clear(&got, n);
        add(&want, &p);
        swi_piece_simplify(&p, 4);
        add(&got, &p);
        assert_same(&want, &got);
        assert_true(p.axes <= axes);
        merged += p.axes < axes;
        swi_piece again = p;
        swi_piece_simplify(&again, 4);
        assert_int_equal(again.axes, p.axes);
    }
    assert_true(merged > CASES / 4);
    swi_piece rows = {.axes = 3, .view = {8, 4, 6}, .offset = {2, 0, 0}, .length = {3, 4, 6}};
    swi_piece_make_dense(&rows, 2);
    swi_piece_simplify(&rows, 2);
    assert_int_equal(rows.axes, 1);
    assert_int_equal(rows.view[0], 192);
    assert_int_equal(rows.offset[0], 48);
    assert_int_equal(rows.length[0], 72);
    assert_int_equal(rows.stride_bytes[0], 2);
    swi_piece one = {.axes = 2, .view = {1, 1}, .length = {1, 1}};
    swi_piece_simplify(&one, 2);
    assert_int_equal(one.axes, 0);
}

static void test_first_end_interval_dense(void **state)
{
    (void)state;
    static meaning m;
    for (int i = 0; i < CASES; i++) {
        swi_piece p = random_piece(5, true);
        uint64_t n = elements_of(p.view, p.axes);
        clear(&m, n);
        add(&m, &p);
        uint64_t count = 0;
        uint64_t first = UINT64_MAX;
        uint64_t end = 0;
        bool dense = true;
        for (uint64_t f = 0; f < n; f++) {
            if (m.byte[f] == ABSENT)
                continue;
            first = count == 0 ? f : first;
            dense = dense && m.byte[f] == p.base_bytes + 4 * (int64_t)count;
            end = f + 1;
            count++;
        }
        assert_int_equal(swi_piece_elements(&p), count);
        assert_int_equal(swi_piece_is_dense(&p, 4), dense);
        if (count == 0) {
            assert_false(swi_piece_is_interval(&p));
            continue;
        }
        assert_int_equal(swi_piece_first(&p), first);
        assert_int_equal(swi_piece_end(&p), end);
        assert_int_equal(swi_piece_is_interval(&p), end - first == count);
    }
}

/* Chains as maps make them: each operation on what the one before left. */
typedef struct chain {
    swi_piece set[81];
    size_t count;
    uint32_t axes;
    int64_t view[SW_MAX_AXES];
    meaning want;
} chain;

static void chain_refine(chain *c, uint32_t axis)
{
    static swi_piece fresh[81];
    size_t made = 0;
    int64_t inner = pick(1, 4);
    if (c->axes >= 6 || c->count * 3 > 81 || c->view[axis] % inner != 0)
        return;
    for (size_t k = 0; k < c->count; k++)
        made += swi_piece_refine(&c->set[k], axis, inner, &fresh[made]);
    memcpy(c->set, fresh, made * sizeof fresh[0]);
    c->count = made;
    memmove(&c->view[axis + 1], &c->view[axis], (c->axes - axis) * sizeof c->view[0]);
    c->view[axis] /= inner;
    c->view[axis + 1] = inner;
    c->axes++; /* and the meaning stays */
}

static void chain_permute(chain *c, uint32_t by)
{
    static meaning next;
    uint32_t order[SW_MAX_AXES];
    int64_t moved[SW_MAX_AXES] = {0};
    for (uint32_t k = 0; k < c->axes; k++) {
        order[k] = (k + by) % c->axes;
        moved[k] = c->view[order[k]];
    }
    for (size_t k = 0; k < c->count; k++)
        swi_piece_permute(&c->set[k], order, &c->set[k]);
    clear(&next, c->want.elements);
    for (uint64_t f = 0; f < c->want.elements; f++) {
        int64_t d[SW_MAX_AXES] = {0};
        int64_t to[SW_MAX_AXES] = {0};
        digits(f, c->view, c->axes, d);
        for (uint32_t k = 0; k < c->axes; k++)
            to[k] = d[order[k]];
        next.byte[flat_of(to, moved, c->axes)] = c->want.byte[f];
    }
    memcpy(c->view, moved, sizeof moved);
    c->want = next;
}

static void chain_embed(chain *c, uint32_t axis)
{
    static meaning next;
    int64_t at = pick(0, 2);
    int64_t grown[SW_MAX_AXES];
    memcpy(grown, c->view, sizeof grown);
    grown[axis] += at + pick(0, 2);
    if (elements_of(grown, c->axes) > MAX_ELEMENTS)
        return;
    for (size_t k = 0; k < c->count; k++)
        assert_true(swi_piece_embed(&c->set[k], axis, grown[axis], at, &c->set[k]));
    clear(&next, elements_of(grown, c->axes));
    for (uint64_t f = 0; f < c->want.elements; f++) {
        int64_t d[SW_MAX_AXES] = {0};
        digits(f, c->view, c->axes, d);
        d[axis] += at;
        next.byte[flat_of(d, grown, c->axes)] = c->want.byte[f];
    }
    memcpy(c->view, grown, sizeof grown);
    c->want = next;
}

static void test_chains(void **state)
{
    (void)state;
    static chain c;
    static meaning got;
    for (int i = 0; i < CASES; i++) {
        c.count = 1;
        c.set[0] = random_piece(3, false);
        c.axes = c.set[0].axes;
        memcpy(c.view, c.set[0].view, sizeof c.view);
        clear(&c.want, elements_of(c.view, c.axes));
        add(&c.want, &c.set[0]);
        for (int step = 0; step < 5 && c.axes > 0; step++) {
            uint32_t axis = (uint32_t)pick(0, c.axes - 1);
            int64_t what = pick(0, 3);
            if (what == 0)
                chain_refine(&c, axis);
            else if (what == 1)
                chain_permute(&c, axis);
            else
                chain_embed(&c, axis);
        }
        clear(&got, c.want.elements);
        for (size_t k = 0; k < c.count; k++) {
            swi_piece_simplify(&c.set[k], 4);
            add(&got, &c.set[k]);
        }
        assert_same(&c.want, &got);
    }
}

static void expect_bad(const swi_piece *p, uint64_t elements, uint64_t blob, const char *part)
{
    sw_error err = {0};
    assert_int_equal(swi_piece_check(p, elements, 4, blob, &err), SW_ERR_CORRUPT);
    assert_int_equal(err.status, SW_ERR_CORRUPT);
    if (strstr(err.text, part) == NULL)
        fail_msg("\"%s\" lacks \"%s\"", err.text, part);
}

static void test_check(void **state)
{
    (void)state;
    sw_error err = {0};
    swi_piece good = {.axes = 2, .view = {4, 4}, .offset = {2, 0}, .length = {2, 4}};
    swi_piece_make_dense(&good, 4);
    assert_int_equal(swi_piece_check(&good, 16, 4, 32, &err), SW_OK);
    expect_bad(&good, 16, 31, "needs bytes 0 to 32 of 31 that are there");
    expect_bad(&good, 15, 32, "view of 16 elements of a tensor of 15");

    swi_piece p = good;
    p.axes = 11;
    expect_bad(&p, 16, 32, "11 axes");
    p = good;
    p.view[0] = -4;
    expect_bad(&p, 16, 32, "negative or too large size");
    p.view[0] = INT64_MAX;
    expect_bad(&p, 16, 32, "negative or too large size");
    p = good;
    p.offset[0] = 3;
    expect_bad(&p, 16, 32, "axis 0: offset 3 and length 2 lie outside its size 4");
    p.offset[0] = -1;
    expect_bad(&p, 16, 32, "axis 0: offset -1");
    p.offset[0] = INT64_MAX;
    expect_bad(&p, 16, 32, "axis 0: offset");
    p = good;
    p.length[1] = -1;
    expect_bad(&p, 16, 32, "axis 1: offset 0 and length -1");
    p = good;
    p.stride_bytes[1] = -4;
    expect_bad(&p, 16, 32, "needs bytes -12 to 20");
    p.base_bytes = 12;
    assert_int_equal(swi_piece_check(&p, 16, 4, 32, &err), SW_OK);
    p.stride_bytes[1] = INT64_MIN;
    expect_bad(&p, 16, 32, "overflow the byte offset");
    p.stride_bytes[1] = INT64_MAX / 3;
    expect_bad(&p, 16, UINT64_MAX, "overflow");
    p = good;
    p.base_bytes = INT64_MAX;
    expect_bad(&p, 16, UINT64_MAX, "overflow");
    p.base_bytes = -1;
    expect_bad(&p, 16, 32, "needs bytes -1 to 31");
    p = good;
    p.stride_bytes[0] = 0; /* expanded: the same bytes more than once */
    assert_int_equal(swi_piece_check(&p, 16, 4, 16, &err), SW_OK);
    p = good;
    p.length[0] = 0;
    p.base_bytes = -5; /* no element, no byte */
    assert_int_equal(swi_piece_check(&p, 16, 4, 0, &err), SW_OK);
    swi_piece scalar = {.base_bytes = 4};
    assert_int_equal(swi_piece_check(&scalar, 1, 4, 8, &err), SW_OK);
    expect_bad(&scalar, 1, 7, "needs bytes 4 to 8 of 7");
}

static void test_shape_elements(void **state)
{
    (void)state;
    uint64_t n = 77;
    assert_true(swi_shape_elements(0, NULL, &n));
    assert_int_equal(n, 1);
    assert_true(swi_shape_elements(3, (int64_t[]){5, 0, 7}, &n));
    assert_int_equal(n, 0);
    assert_true(swi_shape_elements(1, (int64_t[]){INT64_MAX}, &n));
    assert_int_equal(n, INT64_MAX);
    n = 77;
    assert_false(swi_shape_elements(2, (int64_t[]){INT64_MAX, 2}, &n));
    assert_false(swi_shape_elements(3, (int64_t[]){0, INT64_MAX, 2}, &n));
    assert_false(swi_shape_elements(2, (int64_t[]){0, -1}, &n));
    assert_int_equal(n, 77);
}

/* Lengths that no memory could hold must not wrap into something small. */
static void test_dense_of_hostile_lengths(void **state)
{
    (void)state;
    swi_piece p = {
        .axes = 2, .view = {INT64_MAX / 2, 2}, .length = {INT64_MAX / 2, 2}, .offset = {0, 0}};
    swi_piece_make_dense(&p, 16);
    expect_bad(&p, (uint64_t)(INT64_MAX / 2 * 2), UINT64_MAX, "overflow");
    p = (swi_piece){.axes = 3, .view = {4, INT64_MAX, 4}, .length = {4, INT64_MAX, 4}};
    swi_piece_make_dense(&p, 16);
    assert_int_equal(p.stride_bytes[0], INT64_MAX);
    assert_false(swi_piece_is_dense(&p, 4));
}

static int seed(void **state)
{
    (void)state;
    rng_state = UINT64_C(0x9E3779B97F4A7C15);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_interval, seed),
        cmocka_unit_test(test_interval_of_whole_rows_is_one_box),
        cmocka_unit_test(test_interval_of_huge_numbers),
        cmocka_unit_test_setup(test_refine, seed),
        cmocka_unit_test_setup(test_permute, seed),
        cmocka_unit_test_setup(test_embed, seed),
        cmocka_unit_test_setup(test_crop, seed),
        cmocka_unit_test_setup(test_simplify, seed),
        cmocka_unit_test_setup(test_first_end_interval_dense, seed),
        cmocka_unit_test_setup(test_chains, seed),
        cmocka_unit_test(test_check),
        cmocka_unit_test(test_shape_elements),
        cmocka_unit_test(test_dense_of_hostile_lengths),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
