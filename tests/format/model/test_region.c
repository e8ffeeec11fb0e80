/* Many boxes of one view: disjoint or not, and what they leave out, against brute force. */
#include "harness/harness.h"

#include <stdlib.h>
#include <string.h>

#include "model/region.h"

#define MAX_BOXES 90000

typedef struct set {
    swi_boxes boxes;
    int64_t view[4];
    int64_t *offset;
    int64_t *length;
} set;

static uint64_t rng_state = 88172645463325252u;

static int64_t pick(int64_t lo, int64_t hi)
{
    rng_state ^= rng_state << 13;
    rng_state ^= rng_state >> 7;
    rng_state ^= rng_state << 17;
    return lo + (int64_t)(rng_state % (uint64_t)(hi - lo + 1));
}

static void set_make(set *s, uint32_t axes)
{
    *s = (set){0};
    s->offset = calloc(MAX_BOXES * 4, sizeof(int64_t));
    s->length = calloc(MAX_BOXES * 4, sizeof(int64_t));
    assert_non_null(s->offset);
    assert_non_null(s->length);
    s->boxes = (swi_boxes){.axes = axes, .view = s->view, .offset = s->offset, .length = s->length};
}

static void set_free(set *s)
{
    free(s->offset);
    free(s->length);
}

static void add(set *s, const int64_t *offset, const int64_t *length)
{
    size_t at = s->boxes.count++ * s->boxes.axes;
    assert_true(s->boxes.count <= MAX_BOXES);
    for (uint32_t k = 0; k < s->boxes.axes; k++) {
        s->offset[at + k] = offset[k];
        s->length[at + k] = length[k];
    }
}

static void remove_box(set *s, size_t i)
{
    uint32_t r = s->boxes.axes;
    size_t last = --s->boxes.count;
    memmove(s->offset + i * r, s->offset + last * r, r * sizeof(int64_t));
    memmove(s->length + i * r, s->length + last * r, r * sizeof(int64_t));
}

static swi_region_work fresh(void)
{
    return (swi_region_work){.sort_budget = 1 << 26, .pair_budget = 1 << 22};
}

static swi_disjoint disjoint(const set *s, size_t *a, size_t *b)
{
    sw_error err = {0};
    swi_region_work work = fresh();
    swi_disjoint verdict;
    assert_ok(swi_boxes_disjoint(&work, &s->boxes, &verdict, a, b, &err), &err);
    swi_region_work_free(&work);
    return verdict;
}

static uint64_t missing(const set *s)
{
    sw_error err = {0};
    swi_region_work work = fresh();
    uint64_t flat;
    assert_ok(swi_boxes_missing(&work, &s->boxes, &flat, &err), &err);
    swi_region_work_free(&work);
    return flat;
}

/* Elements of the view: how often each is held. */
static uint64_t brute(const set *s, uint8_t *held)
{
    uint64_t n = 1;
    uint32_t r = s->boxes.axes;
    for (uint32_t k = 0; k < r; k++)
        n *= (uint64_t)s->view[k];
    for (uint64_t f = 0; f < n; f++) {
        held[f] = 0;
        for (size_t i = 0; i < s->boxes.count; i++) {
            uint64_t rest = f;
            bool in = true;
            for (uint32_t k = r; k-- > 0;) {
                int64_t at = (int64_t)(rest % (uint64_t)s->view[k]) - s->offset[i * r + k];
                rest /= (uint64_t)s->view[k];
                in = in && at >= 0 && at < s->length[i * r + k];
            }
            held[f] = (uint8_t)(held[f] + in);
        }
    }
    return n;
}

static bool meet(const set *s, size_t a, size_t b)
{
    uint32_t r = s->boxes.axes;
    for (uint32_t k = 0; k < r; k++) {
        int64_t p = s->offset[a * r + k];
        int64_t q = s->offset[b * r + k];
        if (p >= q + s->length[b * r + k] || q >= p + s->length[a * r + k])
            return false;
    }
    return true;
}

/* Cuts random boxes further: a partition that no grid explains. */
static void random_partition(set *s, int cuts)
{
    int64_t zero[4] = {0};
    add(s, zero, s->view);
    for (int c = 0; c < cuts; c++) {
        size_t i = (size_t)pick(0, (int64_t)s->boxes.count - 1);
        uint32_t k = (uint32_t)pick(0, s->boxes.axes - 1);
        int64_t *offset = &s->offset[i * s->boxes.axes];
        int64_t *length = &s->length[i * s->boxes.axes];
        if (length[k] < 2)
            continue;
        int64_t at = pick(1, length[k] - 1);
        int64_t o[4];
        int64_t l[4];
        memcpy(o, offset, s->boxes.axes * sizeof(int64_t));
        memcpy(l, length, s->boxes.axes * sizeof(int64_t));
        length[k] = at;
        o[k] += at;
        l[k] -= at;
        add(s, o, l);
    }
}

static void test_against_brute_force(void **state)
{
    (void)state;
    static uint8_t held[4096];
    int overlaps = 0;
    int holes = 0;
    for (int c = 0; c < 4000; c++) {
        set s;
        size_t a = SIZE_MAX;
        size_t b = SIZE_MAX;
        set_make(&s, (uint32_t)pick(1, 4));
        for (uint32_t k = 0; k < s.boxes.axes; k++)
            s.view[k] = pick(1, 6);
        random_partition(&s, (int)pick(0, 12));
        if (pick(0, 2) > 0)
            for (int64_t drop = pick(0, 2); drop > 0 && s.boxes.count > 0; drop--)
                remove_box(&s, (size_t)pick(0, (int64_t)s.boxes.count - 1));
        if (pick(0, 2) == 0) {
            int64_t o[4];
            int64_t l[4];
            for (uint32_t k = 0; k < s.boxes.axes; k++) {
                o[k] = pick(0, s.view[k] - 1);
                l[k] = pick(1, s.view[k] - o[k]);
            }
            add(&s, o, l);
        }
        uint64_t n = brute(&s, held);
        uint64_t first = n;
        bool twice = false;
        for (uint64_t f = n; f-- > 0;) {
            first = held[f] == 0 ? f : first;
            twice = twice || held[f] > 1;
        }
        swi_disjoint verdict = disjoint(&s, &a, &b);
        assert_int_equal(verdict, twice ? SWI_OVERLAP : SWI_DISJOINT);
        if (twice) {
            overlaps++;
            assert_true(a < b && b < s.boxes.count && meet(&s, a, b));
        } else {
            holes += first < n;
            assert_int_equal(missing(&s), first);
        }
        set_free(&s);
    }
    assert_true(overlaps > 400 && holes > 400);
}

static void test_grid(void **state)
{
    (void)state;
    set s;
    size_t a;
    size_t b;
    set_make(&s, 2);
    s.view[0] = s.view[1] = INT64_C(300) << 20;
    for (int64_t i = 0; i < 300; i++)
        for (int64_t j = 0; j < 300; j++)
            add(&s, (int64_t[]){i << 20, (j * 7 % 300) << 20}, (int64_t[]){1 << 20, 1 << 20});
    assert_int_equal(disjoint(&s, &a, &b), SWI_DISJOINT);
    assert_int_equal(missing(&s), (uint64_t)s.view[0] * (uint64_t)s.view[1]);
    /* One box that reaches one element into its neighbour. */
    s.length[2 * (300 * 17 + 5) + 1]++;
    assert_int_equal(disjoint(&s, &a, &b), SWI_OVERLAP);
    assert_true(a == 300 * 17 + 5 || b == 300 * 17 + 5);
    assert_true(meet(&s, a, b));
    s.length[2 * (300 * 17 + 5) + 1] -= 2;
    assert_int_equal(disjoint(&s, &a, &b), SWI_DISJOINT);
    assert_int_equal(missing(&s),
                     (UINT64_C(17) << 20) * (uint64_t)s.view[1] + ((UINT64_C(36) << 20) - 1));
    set_free(&s);
}

static void test_columns(void **state)
{
    (void)state;
    set s;
    size_t a;
    size_t b;
    set_make(&s, 3);
    s.view[0] = 1 << 20;
    s.view[1] = 2000;
    s.view[2] = 64;
    for (int64_t i = 0; i < 2000; i++)
        add(&s, (int64_t[]){0, 1999 - i, 0}, (int64_t[]){1 << 20, 1, 64});
    assert_int_equal(disjoint(&s, &a, &b), SWI_DISJOINT);
    remove_box(&s, 1000); /* column 999 */
    assert_int_equal(missing(&s), 999 * 64);
    set_free(&s);
}

/* Five boxes around a middle: disjoint, though no cut separates any of them. */
static void add_pinwheel(set *s, int64_t x, int64_t y)
{
    static const int64_t at[5][4] = {
        {0, 0, 1, 2}, {0, 2, 2, 1}, {2, 1, 1, 2}, {1, 0, 2, 1}, {1, 1, 1, 1}};
    for (int i = 0; i < 5; i++)
        add(s, (int64_t[]){x + at[i][0], y + at[i][1]}, (int64_t[]){at[i][2], at[i][3]});
}

static void test_pinwheels(void **state)
{
    (void)state;
    set s;
    size_t a;
    size_t b;
    set_make(&s, 2);
    s.view[0] = s.view[1] = 90;
    for (int64_t i = 0; i < 30; i++)
        for (int64_t j = 0; j < 30; j++)
            add_pinwheel(&s, 3 * i, 3 * j);
    assert_int_equal(disjoint(&s, &a, &b), SWI_DISJOINT);
    assert_int_equal(missing(&s), 8100);
    remove_box(&s, 4);
    assert_int_equal(missing(&s), 91);
    add(&s, (int64_t[]){40, 40}, (int64_t[]){2, 2});
    assert_int_equal(disjoint(&s, &a, &b), SWI_OVERLAP);
    assert_int_equal(b, s.boxes.count - 1);
    set_free(&s);
}

/* Grids and columns are settled by sorting alone: no pair is compared. */
static void test_no_pairs_in_a_grid(void **state)
{
    (void)state;
    sw_error err = {0};
    set s;
    size_t a;
    size_t b;
    swi_disjoint verdict;
    swi_region_work work = {.sort_budget = 6 * 8000};
    set_make(&s, 3);
    s.view[0] = s.view[1] = s.view[2] = 20;
    for (int64_t i = 0; i < 8000; i++)
        add(&s, (int64_t[]){i % 20, i / 20 % 20, i / 400}, (int64_t[]){1, 1, 1});
    assert_ok(swi_boxes_disjoint(&work, &s.boxes, &verdict, &a, &b, &err), &err);
    assert_int_equal(verdict, SWI_DISJOINT);
    /* A column beside two rows cut unevenly: only after the cut on axis 1 does axis 0 split. */
    s.boxes.count = 0;
    s.boxes.axes = 2;
    add(&s, (int64_t[]){0, 0}, (int64_t[]){20, 10});
    add(&s, (int64_t[]){0, 10}, (int64_t[]){10, 5});
    add(&s, (int64_t[]){0, 15}, (int64_t[]){10, 5});
    add(&s, (int64_t[]){10, 10}, (int64_t[]){10, 3});
    add(&s, (int64_t[]){10, 13}, (int64_t[]){10, 7});
    work.sort_budget = 100;
    assert_ok(swi_boxes_disjoint(&work, &s.boxes, &verdict, &a, &b, &err), &err);
    assert_int_equal(verdict, SWI_DISJOINT);
    swi_region_work_free(&work);
    set_free(&s);
}

/* With nothing left to spend it says so, or that there cannot be room for all. */
static void test_budgets(void **state)
{
    (void)state;
    sw_error err = {0};
    set s;
    size_t a = 0;
    size_t b = 0;
    swi_disjoint verdict;
    swi_region_work work = {0};
    set_make(&s, 2);
    s.view[0] = s.view[1] = 3;
    add_pinwheel(&s, 0, 0);
    assert_ok(swi_boxes_disjoint(&work, &s.boxes, &verdict, &a, &b, &err), &err);
    assert_int_equal(verdict, SWI_UNPROVEN);
    add(&s, (int64_t[]){0, 0}, (int64_t[]){3, 3});
    assert_ok(swi_boxes_disjoint(&work, &s.boxes, &verdict, &a, &b, &err), &err);
    assert_int_equal(verdict, SWI_OVERLAP_SOME);
    swi_region_work_free(&work);
    set_free(&s);
}

/* Each box cuts one strip off what is left: the sweep gains one box a sort, and must end. */
static void test_staircase_ends(void **state)
{
    (void)state;
    set s;
    size_t a;
    size_t b;
    int64_t n = 20000;
    set_make(&s, 2);
    s.view[0] = s.view[1] = n;
    for (int64_t i = 0; i + 1 < n; i++) {
        add(&s, (int64_t[]){i, i}, (int64_t[]){1, n - i});
        add(&s, (int64_t[]){i + 1, i}, (int64_t[]){n - i - 1, 1});
    }
    swi_disjoint verdict = disjoint(&s, &a, &b);
    assert_true(verdict == SWI_DISJOINT || verdict == SWI_UNPROVEN);
    assert_int_equal(missing(&s), (uint64_t)n * (uint64_t)n - 1);
    set_free(&s);
}

static void test_none_and_scalar(void **state)
{
    (void)state;
    set s;
    size_t a;
    size_t b;
    set_make(&s, 2);
    s.view[0] = 4;
    s.view[1] = 5;
    assert_int_equal(disjoint(&s, &a, &b), SWI_DISJOINT);
    assert_int_equal(missing(&s), 0);
    s.view[1] = 0;
    assert_int_equal(missing(&s), 0);
    s.boxes.axes = 0;
    assert_int_equal(missing(&s), 0);
    add(&s, NULL, NULL);
    assert_int_equal(missing(&s), 1);
    assert_int_equal(disjoint(&s, &a, &b), SWI_DISJOINT);
    add(&s, NULL, NULL);
    assert_int_equal(disjoint(&s, &a, &b), SWI_OVERLAP);
    set_free(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_against_brute_force),
        cmocka_unit_test(test_grid),
        cmocka_unit_test(test_columns),
        cmocka_unit_test(test_pinwheels),
        cmocka_unit_test(test_budgets),
        cmocka_unit_test(test_staircase_ends),
        cmocka_unit_test(test_none_and_scalar),
        cmocka_unit_test(test_no_pairs_in_a_grid),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
