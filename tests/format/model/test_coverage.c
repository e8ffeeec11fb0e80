/* Are the pieces of a tensor disjoint, and what do they leave out. */
#include "kit.h"

static void test_hole(void **state)
{
    (void)state;
    kit k = start(1000);
    uint32_t w = add_tensor(&k, "w", 2, (int64_t[]){4, 4});
    uint32_t none = add_tensor(&k, "none", 2, (int64_t[]){2, 2});
    uint32_t scalar = add_tensor(&k, "scalar", 0, NULL);
    uint32_t cols = add_tensor(&k, "cols", 2, (int64_t[]){4, 6});
    add_box(&k, w, 2, (int64_t[]){4, 4}, (int64_t[]){0, 0}, (int64_t[]){3, 4});
    add_box(&k, cols, 2, (int64_t[]){4, 6}, (int64_t[]){0, 0}, (int64_t[]){4, 2});
    add_box(&k, cols, 2, (int64_t[]){4, 6}, (int64_t[]){0, 2}, (int64_t[]){3, 4});
    finish(&k);
    assert_int_equal(sw_report_count(k.report), 4);
    expect_finding(&k, 0, "hole", SW_ERR_INCOMPLETE, "w",
                   "shards hold 12 of 16 elements; first missing at [3, 0]");
    expect_finding(&k, 1, "hole", SW_ERR_INCOMPLETE, "none",
                   "shards hold 0 of 4 elements; first missing at [0, 0]");
    expect_finding(&k, 2, "hole", SW_ERR_INCOMPLETE, "scalar",
                   "shards hold 0 of 1 elements; first missing at []");
    expect_finding(&k, 3, "hole", SW_ERR_INCOMPLETE, "cols",
                   "shards hold 20 of 24 elements; first missing at [3, 2]");
    assert_int_equal(swi_tensor_defect(k.c, w), SW_ERR_INCOMPLETE);
    assert_int_equal(swi_tensor_defect(k.c, none), SW_ERR_INCOMPLETE);
    assert_int_equal(info_of(&k, w).held_elements, 12);
    assert_int_equal(info_of(&k, scalar).held_elements, 0);
    end(&k);
}

static void test_overlap_in_a_grid(void **state)
{
    (void)state;
    kit k = start(UINT64_C(1) << 40);
    uint32_t w = add_tensor(&k, "grid", 2, (int64_t[]){30, 30});
    for (int64_t i = 0; i < 10; i++)
        for (int64_t j = 0; j < 10; j++)
            add_box(&k, w, 2, (int64_t[]){30, 30}, (int64_t[]){3 * i, 3 * j},
                    (int64_t[]){3, i == 4 && j == 6 ? 4 : 3});
    finish(&k);
    assert_int_equal(sw_report_count(k.report), 1);
    expect_finding(&k, 0, "overlap", SW_ERR_CONFLICT, "grid",
                   "two pieces hold the same elements, the first at [12, 21]: "
                   "offset [12, 18] sizes [3, 4] in a.distcp, and offset [12, 21] sizes [3, 3]");
    assert_string_equal(sw_report_at(k.report, 0)->file, "a.distcp");
    assert_int_equal(swi_tensor_defect(k.c, w), SW_ERR_CONFLICT);
    assert_int_equal(info_of(&k, w).held_elements, 900);
    end(&k);
}

static void test_copies(void **state)
{
    (void)state;
    static const int64_t view[] = {4, 6};
    kit k = start(1000);
    uint32_t twice = add_tensor(&k, "twice", 2, view);
    uint32_t replicas = add_tensor(&k, "replicas", 2, view);
    uint32_t partly = add_tensor(&k, "partly", 2, view);
    for (int i = 0; i < 2; i++) {
        add_box(&k, twice, 2, view, (int64_t[]){0, 0}, (int64_t[]){4, 6});
        add_box(&k, replicas, 2, view, (int64_t[]){0, 0}, (int64_t[]){4, 3});
        add_box(&k, replicas, 2, view, (int64_t[]){0, 3}, (int64_t[]){4, 3});
    }
    add_box(&k, partly, 2, view, (int64_t[]){0, 0}, (int64_t[]){3, 4});
    add_box(&k, partly, 2, view, (int64_t[]){0, 2}, (int64_t[]){4, 4});
    swi_builder_allow_replicas(k.b, replicas);
    swi_builder_allow_replicas(k.b, partly);
    finish(&k);
    assert_int_equal(sw_report_count(k.report), 2);
    expect_finding(&k, 0, "overlap", SW_ERR_CONFLICT, "twice", "the first at [0, 0]");
    expect_finding(&k, 1, "hole", SW_ERR_INCOMPLETE, "partly",
                   "shards hold 22 of 24 elements; first missing at [3, 0]");
    assert_int_equal(swi_tensor_defect(k.c, replicas), SW_OK);
    assert_int_equal(info_of(&k, replicas).held_elements, 24);
    assert_int_equal(info_of(&k, replicas).piece_count, 4);
    assert_true(swi_tensor_has_replicas(k.c, replicas));
    assert_false(swi_tensor_has_replicas(k.c, twice));
    end(&k);
}

/* Copies of boxes that no budget could cut into runs. */
static void test_copies_of_huge_columns(void **state)
{
    (void)state;
    int64_t n = INT64_C(1) << 40;
    kit k = start(UINT64_MAX);
    uint32_t t = add_tensor(&k, "huge", 2, (int64_t[]){n, 16});
    for (int rank = 0; rank < 3; rank++)
        for (int64_t c = 0; c < 4; c++)
            add_box(&k, t, 2, (int64_t[]){n, 16}, (int64_t[]){0, 4 * c},
                    (int64_t[]){c == 3 ? n - 1 : n, 4});
    swi_builder_allow_replicas(k.b, t);
    finish(&k);
    assert_int_equal(sw_report_count(k.report), 1);
    expect_finding(&k, 0, "hole", SW_ERR_INCOMPLETE, "huge",
                   "shards hold 17592186044412 of 17592186044416 elements; first missing at "
                   "[1099511627775, 12]");
    end(&k);
}

/* Pieces in different views of one tensor: flat buffers beside boxes. */
static void test_mixed_views(void **state)
{
    (void)state;
    static const int64_t view[] = {4, 6};
    kit k = start(1000);
    uint32_t good = add_tensor(&k, "good", 2, view);
    uint32_t clash = add_tensor(&k, "clash", 2, view);
    uint32_t open = add_tensor(&k, "open", 2, view);
    uint32_t flat = add_tensor(&k, "flat", 2, view);
    const uint32_t ids[] = {good, clash, open};
    for (int i = 0; i < 3; i++) {
        add_box(&k, ids[i], 1, (int64_t[]){24}, (int64_t[]){0}, (int64_t[]){12});
        add_box(&k, ids[i], 2, view, (int64_t[]){2, 0}, (int64_t[]){2, i == 1 ? 3 : 2});
        add_box(&k, ids[i], 3, (int64_t[]){4, 3, 2}, (int64_t[]){2, 1, 0},
                (int64_t[]){2, i == 2 ? 1 : 2, 2});
    }
    add_box(&k, flat, 1, (int64_t[]){24}, (int64_t[]){0}, (int64_t[]){13});
    add_box(&k, flat, 2, view, (int64_t[]){2, 0}, (int64_t[]){2, 6});
    finish(&k);
    assert_int_equal(sw_report_count(k.report), 3);
    expect_finding(&k, 0, "overlap", SW_ERR_CONFLICT, "clash", "the first at [2, 2]");
    expect_finding(&k, 1, "hole", SW_ERR_INCOMPLETE, "open",
                   "shards hold 20 of 24 elements; first missing at [2, 4]");
    expect_finding(&k, 2, "overlap", SW_ERR_CONFLICT, "flat",
                   "the first at [2, 0]: elements 0 to 13 in a.distcp, and offset [2, 0] sizes "
                   "[2, 6]");
    assert_int_equal(info_of(&k, good).held_elements, 24);
    end(&k);
}

/* Views that differ but have a common refinement: proven without a look at single runs. */
static void test_views_of_one_refinement(void **state)
{
    (void)state;
    int64_t n = INT64_C(1) << 28;
    const int64_t shape[] = {n, 16};
    kit k = start(UINT64_MAX);
    uint32_t sound = add_tensor(&k, "sound", 2, shape);
    uint32_t clash = add_tensor(&k, "clash", 2, shape);
    uint32_t open = add_tensor(&k, "open", 2, shape);
    const uint32_t ids[] = {sound, clash, open};
    for (int i = 0; i < 3; i++) {
        add_box(&k, ids[i], 2, shape, (int64_t[]){0, 0}, (int64_t[]){n - 1, 8});
        add_box(&k, ids[i], 3, (int64_t[]){n, 4, 4}, (int64_t[]){0, i == 1 ? 1 : 2, 0},
                (int64_t[]){n - 1, i == 2 ? 1 : 2, 4});
        add_box(&k, ids[i], 1, (int64_t[]){16 * n}, (int64_t[]){16 * n - 16}, (int64_t[]){16});
    }
    finish(&k);
    assert_int_equal(sw_report_count(k.report), 2);
    expect_finding(&k, 0, "overlap", SW_ERR_CONFLICT, "clash", "the first at [0, 4]");
    expect_finding(&k, 1, "hole", SW_ERR_INCOMPLETE, "open", "first missing at [0, 12]");
    assert_int_equal(info_of(&k, sound).held_elements, 16 * n);
    end(&k);
}

/* A tensor that no budget can cut into runs: it is said, not guessed. */
static void test_unproven(void **state)
{
    (void)state;
    int64_t n = INT64_C(3) << 26;
    kit k = start(UINT64_MAX);
    uint32_t t = add_tensor(&k, "wild", 2, (int64_t[]){n, 16});
    add_box(&k, t, 2, (int64_t[]){n, 16}, (int64_t[]){0, 0}, (int64_t[]){n, 8});
    add_box(&k, t, 2, (int64_t[]){n / 3 * 4, 12}, (int64_t[]){0, 8}, (int64_t[]){n / 3 * 4, 2});
    finish(&k);
    assert_int_equal(sw_report_count(k.report), 1);
    expect_finding(&k, 0, "unproven", SW_ERR_LIMIT, "wild", "its 2 pieces lie too irregularly");
    assert_int_equal(swi_tensor_defect(k.c, t), SW_ERR_LIMIT);
    end(&k);
}

/* ---- against brute force --------------------------------------------------------------------- */

static uint64_t rng_state = 88172645463325252u;

static int64_t pick(int64_t lo, int64_t hi)
{
    rng_state ^= rng_state << 13;
    rng_state ^= rng_state >> 7;
    rng_state ^= rng_state << 17;
    return lo + (int64_t)(rng_state % (uint64_t)(hi - lo + 1));
}

static void hold(uint8_t *held, const swi_piece *p, uint64_t elements)
{
    for (uint64_t f = 0; f < elements; f++) {
        uint64_t rest = f;
        bool in = true;
        for (uint32_t k = p->axes; k-- > 0;) {
            int64_t at = (int64_t)(rest % (uint64_t)p->view[k]);
            rest /= (uint64_t)p->view[k];
            in = in && at >= p->offset[k] && at < p->offset[k] + p->length[k];
        }
        held[f] = (uint8_t)(held[f] + in);
    }
}

/* Factorisations of 48 elements; all but the last have a common refinement. */
static void random_box(int form, swi_piece *p)
{
    static const int64_t views[4][3] = {{4, 3, 4}, {2, 24, 1}, {48, 1, 1}, {6, 8, 1}};
    *p = (swi_piece){.axes = form == 0 ? 3 : form == 2 ? 1 : 2};
    for (uint32_t k = 0; k < p->axes; k++) {
        p->view[k] = views[form][k];
        p->offset[k] = pick(0, p->view[k] - 1);
        p->length[k] = pick(1, p->view[k] - p->offset[k]);
    }
    swi_piece_make_dense(p, 4);
}

static void test_coverage_against_brute_force(void **state)
{
    (void)state;
    int overlaps = 0;
    int holes = 0;
    int whole = 0;
    for (int c = 0; c < 4000; c++) {
        uint8_t held[48] = {0};
        kit k = start(1000);
        uint32_t t = add_tensor(&k, "t", 3, (int64_t[]){4, 3, 4});
        bool replicas = pick(0, 1) == 1;
        int form = (int)pick(0, 5); /* of one view, of 0 to 2, of any */
        uint32_t blob = add_blob(&k, 0, 1000);
        if (replicas)
            swi_builder_allow_replicas(k.b, t);
        for (int64_t n = pick(0, replicas ? 40 : 3); n > 0; n--) {
            swi_piece p;
            random_box(form < 4 ? form : (int)pick(0, form == 4 ? 2 : 3), &p);
            p.blob = blob;
            add_piece(&k, t, &p);
            hold(held, &p, 48);
        }
        uint64_t count = 0;
        uint64_t first = 48;
        bool twice = false;
        for (uint64_t f = 48; f-- > 0;) {
            first = held[f] == 0 ? f : first;
            count += held[f] > 0;
            twice = twice || held[f] > 1;
        }
        finish(&k);
        bool conflict = twice && !replicas;
        size_t at = 0;
        char text[160];
        (void)snprintf(text, sizeof text,
                       "hold %" PRIu64 " of 48 elements; first missing at [%" PRIu64 ", %" PRIu64
                       ", %" PRIu64 "]",
                       count, first / 12, first / 4 % 3, first % 4);
        if (conflict)
            expect_finding(&k, at++, "overlap", SW_ERR_CONFLICT, "t", "hold the same elements");
        if (count < 48)
            expect_finding(&k, at++, "hole", SW_ERR_INCOMPLETE, "t", text);
        assert_int_equal(sw_report_count(k.report), at);
        assert_int_equal(info_of(&k, t).held_elements, count);
        overlaps += conflict;
        holes += count < 48;
        whole += count == 48;
        end(&k);
    }
    assert_true(overlaps > 500 && holes > 500 && whole > 200);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hole),        cmocka_unit_test(test_overlap_in_a_grid),
        cmocka_unit_test(test_copies),      cmocka_unit_test(test_copies_of_huge_columns),
        cmocka_unit_test(test_mixed_views), cmocka_unit_test(test_views_of_one_refinement),
        cmocka_unit_test(test_unproven),    cmocka_unit_test(test_coverage_against_brute_force),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
