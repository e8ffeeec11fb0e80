/* Operations on shaped tensors: how many pieces are left, and what is refused. */
#include "harness/harness.h"

#include <stdlib.h>
#include <string.h>

#include "shaped.h"

/* `parts` equal parts of dimension `dim`, each dense in a blob of its own. */
static swi_shaped shards(uint32_t axes, const int64_t *shape, uint32_t dim, int64_t parts)
{
    swi_shaped s = {.dtype = SW_BF16, .axes = axes};
    memcpy(s.shape, shape, axes * sizeof *shape);
    s.pieces = calloc((size_t)parts, sizeof *s.pieces);
    assert_non_null(s.pieces);
    for (int64_t i = 0; i < parts; i++) {
        swi_piece *p = &s.pieces[s.count++];
        p->blob = (uint32_t)i;
        p->axes = axes;
        memcpy(p->view, shape, axes * sizeof *shape);
        memcpy(p->length, shape, axes * sizeof *shape);
        p->length[dim] = shape[dim] / parts;
        p->offset[dim] = i * p->length[dim];
        swi_piece_make_dense(p, 2);
    }
    s.capacity = s.count;
    return s;
}

/* Cut in `parts` intervals of its flat elements. */
static swi_shaped flat_shards(uint32_t axes, const int64_t *shape, int64_t parts)
{
    int64_t n = 1;
    for (uint32_t k = 0; k < axes; k++)
        n *= shape[k];
    int64_t step = (n + parts - 1) / parts;
    swi_shaped s = {.dtype = SW_BF16, .axes = axes};
    memcpy(s.shape, shape, axes * sizeof *shape);
    s.pieces = calloc((size_t)parts, sizeof *s.pieces);
    assert_non_null(s.pieces);
    for (int64_t i = 0; i < parts; i++)
        s.pieces[s.count++] = (swi_piece){
            .blob = (uint32_t)i,
            .axes = 1,
            .view = {n},
            .offset = {i * step},
            .length = {n - i * step < step ? n - i * step : step},
            .stride_bytes = {2},
        };
    s.capacity = s.count;
    return s;
}

#define HEADS 32
#define WIDTH 4096

/* "(a two i) h -> (a i two) h": the order of rotary embeddings. */
static const swi_rearrange rotary = {
    .factors = 4,
    .size = {HEADS, 2, 64, WIDTH},
    .order = {0, 2, 1, 3},
    .in_axes = 2,
    .out_axes = 2,
    .in_count = {3, 1},
    .out_count = {3, 1},
};

static void expect_count(sw_status status, const sw_error *err, swi_shaped *made, size_t most)
{
    assert_ok(status, err);
    assert_in_range(made->count, 1, most);
    swi_shaped_free(made);
}

/* Rows that end at heads, columns, rows that end anywhere, flat intervals that end anywhere. */
static void test_few_stay_few(void **state)
{
    (void)state;
    sw_error err = {0};
    const int64_t shape[] = {HEADS * 128, WIDTH};
    swi_shaped sources[] = {shards(2, shape, 0, 8), shards(2, shape, 1, 8),
                            flat_shards(2, shape, 7)};
    /* A row shard that ends inside a head has a part before, between and behind whole heads. */
    const size_t most[] = {8, 8, 7 * 7};
    for (size_t i = 0; i < 3; i++) {
        const swi_shaped *s = &sources[i];
        swi_shaped made = {0}, parts[3];
        const int64_t from[] = {0, 0}, half[] = {HEADS * 64, WIDTH}, places[] = {HEADS * 64, WIDTH};
        expect_count(swi_shaped_rearrange(s, &rotary, &made, &err), &err, &made, most[i]);
        expect_count(swi_shaped_cut(s, from, half, &made, &err), &err, &made, s->count);
        expect_count(swi_shaped_pad(s, 0, 5000, 99, &made, &err), &err, &made, s->count + 1);
        expect_count(swi_shaped_stack(s, 1, 0, &made, &err), &err, &made, s->count);
        const int64_t sizes[] = {HEADS * 32, HEADS * 32, HEADS * 64};
        assert_ok(swi_shaped_split(s, 0, 1, sizes, 3, parts, &err), &err);
        for (int n = 0; n < 3; n++)
            assert_in_range(parts[n].count, 1, s->count);
        expect_count(swi_shaped_join(parts, 3, 0, 1, &made, &err), &err, &made, s->count);
        expect_count(swi_shaped_join(parts, 3, 0, 8, &made, &err), &err, &made, 3 * most[i]);
        for (int n = 0; n < 3; n++)
            swi_shaped_free(&parts[n]);
        swi_shaped whole = {.dtype = SW_BF16, .axes = 2, .shape = {3 * HEADS * 128, 2 * WIDTH}};
        assert_ok(swi_shaped_embed(&whole, s, places, &err), &err);
        assert_in_range(whole.count, 1, i == 2 ? 3 * s->count : s->count);
        swi_shaped_free(&whole);
        swi_shaped_free(&sources[i]);
    }
}

/* Two tensors joined in 2880 alternating rows are two pieces, and one again when split. */
static void test_alternating_rows(void **state)
{
    (void)state;
    sw_error err = {0};
    const int64_t shape[] = {2880, 64}, sizes[] = {2880, 2880};
    swi_shaped parts[] = {shards(2, shape, 0, 1), shards(2, shape, 0, 1)}, joined, back[2];
    parts[1].pieces[0].blob = 1;
    assert_ok(swi_shaped_join(parts, 2, 0, 2880, &joined, &err), &err);
    assert_int_equal(joined.count, 2);
    assert_ok(swi_shaped_split(&joined, 0, 2880, sizes, 2, back, &err), &err);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(back[i].count, 1);
        assert_int_equal(back[i].pieces[0].axes, 1);
        swi_shaped_free(&parts[i]);
        swi_shaped_free(&back[i]);
    }
    swi_shaped_free(&joined);
}

/* What was cut out of one blob and put together again is one piece. */
static void test_merged_again(void **state)
{
    (void)state;
    sw_error err = {0};
    const int64_t shape[] = {640, 48}, sizes[] = {160, 320, 160};
    swi_shaped whole = shards(2, shape, 0, 1), parts[3], again;
    assert_ok(swi_shaped_split(&whole, 0, 4, sizes, 3, parts, &err), &err);
    assert_ok(swi_shaped_join(parts, 3, 0, 4, &again, &err), &err);
    assert_int_equal(again.count, 1);
    assert_true(swi_piece_is_dense(&again.pieces[0], 2));
    for (int i = 0; i < 3; i++)
        swi_shaped_free(&parts[i]);
    swi_shaped_free(&again);
    swi_shaped_free(&whole);
}

/* A thousand experts of eight columns each: as many pieces, in the time that this takes. */
static void test_stack_is_linear(void **state)
{
    (void)state;
    sw_error err = {0};
    enum { EXPERTS = 1024 };
    static swi_shaped experts[EXPERTS];
    const int64_t shape[] = {512, 256};
    swi_shaped stacked, one;
    for (uint32_t e = 0; e < EXPERTS; e++) {
        experts[e] = shards(2, shape, 1, 8);
        for (uint32_t i = 0; i < 8; i++)
            experts[e].pieces[i].blob += 8 * e;
    }
    assert_ok(swi_shaped_stack(experts, EXPERTS, 0, &stacked, &err), &err);
    assert_int_equal(stacked.count, 8 * EXPERTS);
    assert_ok(swi_shaped_unstack(&stacked, 0, 77, &one, &err), &err);
    assert_int_equal(one.count, 8);
    swi_shaped_free(&one);
    swi_shaped_free(&stacked);
    for (uint32_t e = 0; e < EXPERTS; e++)
        swi_shaped_free(&experts[e]);
}

/* Scales of 128 x 128 blocks: whole blocks are two more axes, a cut block is a piece of its own. */
static void test_spread_counts(void **state)
{
    (void)state;
    sw_error err = {0};
    const int64_t scales[] = {5, 56}, even[] = {640, 7168}, ragged[] = {576, 7168},
                  blocks[] = {128, 128};
    swi_shaped s = shards(2, scales, 0, 1), made;
    assert_ok(swi_shaped_spread(&s, 2, even, blocks, &made, &err), &err);
    assert_int_equal(made.count, 1);
    swi_shaped_free(&made);
    assert_ok(swi_shaped_spread(&s, 2, ragged, blocks, &made, &err), &err);
    assert_int_equal(made.count, 5);
    swi_shaped_free(&made);
    swi_shaped_free(&s);
}

/* Steps that do not fit: taken apart only up to where both meet again. */
static void test_views_that_do_not_fit(void **state)
{
    (void)state;
    sw_error err = {0};
    /* Columns 1 and 2 of rows of 4, seen as rows of 6: six pieces for any number of rows. */
    const int64_t view[] = {600, 4}, shape[] = {400, 6}, from[] = {0, 0}, half[] = {400, 3};
    swi_shaped s = shards(2, view, 0, 1), rows, cut;
    s.pieces[0].offset[1] = 1;
    s.pieces[0].length[1] = 2;
    assert_ok(swi_shaped_reshape(&s, 2, shape, &rows, &err), &err);
    assert_int_equal(rows.count, 1);
    assert_ok(swi_shaped_cut(&rows, from, half, &cut, &err), &err);
    assert_in_range(cut.count, 1, 6);
    swi_shaped_free(&cut);
    swi_shaped_free(&rows);
    swi_shaped_free(&s);
}

/* ---- refusals -------------------------------------------------------------------------------- */

typedef struct refusals {
    sw_error err;
    swi_shaped s, other, made, parts[2];
} refusals;

static int setup(void **state)
{
    static refusals r;
    const int64_t shape[] = {6, 4}, long_one[] = {6, 5};
    r = (refusals){.s = shards(2, shape, 0, 2), .other = shards(2, long_one, 0, 1)};
    r.made.count = 77;
    *state = &r;
    return 0;
}

/* Outputs are as they were. */
static int teardown(void **state)
{
    refusals *r = *state;
    assert_int_equal(r->made.count, 77);
    assert_null(r->made.pieces);
    assert_null(r->parts[0].pieces);
    swi_shaped_free(&r->s);
    swi_shaped_free(&r->other);
    return 0;
}

#define refused(call, status, text)                                                                \
    do {                                                                                           \
        assert_int_equal((call), (status));                                                        \
        assert_error(&r->err, (status), (text));                                                   \
    } while (0)

static void test_join_refuses(void **state)
{
    refusals *r = *state;
    swi_shaped two[] = {r->s, r->other}, ten = r->s;
    int64_t sizes[] = {2, 4}, negative[] = {-6, 12}, short_one[] = {2, 2};
    refused(swi_shaped_join(two, 2, 0, 1, &r->made, &r->err), SW_ERR_ARG,
            "part 1 of shape [6, 5] does not fit part 0 of shape [6, 4] outside of dimension 0");
    refused(swi_shaped_join(two, 2, 1, 2, &r->made, &r->err), SW_ERR_ARG,
            "part 1 is 5 long, not 2 equal groups");
    refused(swi_shaped_join(two, 2, 1, 0, &r->made, &r->err), SW_ERR_ARG,
            "part 0 is 4 long, not 0 equal groups");
    refused(swi_shaped_join(two, 2, 2, 1, &r->made, &r->err), SW_ERR_ARG,
            "there is no dimension 2 in shape [6, 4]");
    refused(swi_shaped_join(two, 0, 0, 1, &r->made, &r->err), SW_ERR_ARG, "nothing to join");
    two[1].dtype = SW_F32;
    refused(swi_shaped_join(two, 2, 1, 1, &r->made, &r->err), SW_ERR_ARG,
            "part 1 is float32, part 0 is bfloat16");
    refused(swi_shaped_split(&r->s, 0, 1, short_one, 2, r->parts, &r->err), SW_ERR_ARG,
            "parts of 4 in all do not make up dimension 0 of 6");
    refused(swi_shaped_split(&r->s, 0, 4, sizes, 2, r->parts, &r->err), SW_ERR_ARG,
            "part 0 is 2 long, not 4 equal groups");
    refused(swi_shaped_split(&r->s, 0, 1, negative, 2, r->parts, &r->err), SW_ERR_ARG,
            "part 0: -6 is no size");
    two[1] = r->other;
    refused(swi_shaped_stack(two, 2, 0, &r->made, &r->err), SW_ERR_ARG,
            "part 1 has shape [6, 5], part 0 has [6, 4]");
    refused(swi_shaped_stack(two, 1, 3, &r->made, &r->err), SW_ERR_ARG,
            "no place for a dimension 3 among 2");
    ten.axes = SW_MAX_AXES;
    refused(swi_shaped_stack(&ten, 1, 0, &r->made, &r->err), SW_ERR_LIMIT,
            "it would have more than 10 dimensions");
    refused(swi_shaped_unstack(&r->s, 1, 4, &r->made, &r->err), SW_ERR_ARG,
            "no part 4 in dimension 1 of 4");
}

static void test_rearrange_refuses(void **state)
{
    refusals *r = *state;
    const swi_rearrange good = {.factors = 2,
                                .size = {6, 4},
                                .order = {1, 0},
                                .in_axes = 2,
                                .out_axes = 2,
                                .in_count = {1, 1},
                                .out_count = {1, 1}};
    swi_rearrange how = good;
    how.size[1] = 5;
    refused(swi_shaped_rearrange(&r->s, &how, &r->made, &r->err), SW_ERR_ARG,
            "dimension 1 is 4 long, its factors make 5");
    how = good;
    how.order[0] = 0;
    refused(swi_shaped_rearrange(&r->s, &how, &r->made, &r->err), SW_ERR_ARG,
            "factor 0 has no place of its own");
    how.order[0] = 2;
    refused(swi_shaped_rearrange(&r->s, &how, &r->made, &r->err), SW_ERR_ARG,
            "factor 2 has no place of its own");
    how = good;
    how.in_axes = 1;
    refused(swi_shaped_rearrange(&r->s, &how, &r->made, &r->err), SW_ERR_ARG,
            "a tensor of 2 dimensions, 1 are rearranged");
    how = good;
    how.out_axes = 1;
    refused(swi_shaped_rearrange(&r->s, &how, &r->made, &r->err), SW_ERR_ARG,
            "1 of 2 factors are in no dimension");
    how = good;
    how.out_count[1] = 2;
    refused(swi_shaped_rearrange(&r->s, &how, &r->made, &r->err), SW_ERR_ARG,
            "dimension 1 has more factors than are");
    how = good;
    how.size[0] = -6;
    refused(swi_shaped_rearrange(&r->s, &how, &r->made, &r->err), SW_ERR_ARG,
            "factors of dimension 0 are too large");
    how.factors = SW_MAX_AXES + 1;
    refused(swi_shaped_rearrange(&r->s, &how, &r->made, &r->err), SW_ERR_LIMIT,
            "more than 10 factors or dimensions");
    refused(swi_shaped_reshape(&r->s, 2, (int64_t[]){5, 5}, &r->made, &r->err), SW_ERR_ARG,
            "shape [6, 4] cannot become [5, 5]: other element counts");
}

static void test_boxes_refuse(void **state)
{
    refusals *r = *state;
    swi_shaped global = {.dtype = SW_F32, .axes = 2, .shape = {6, 8}};
    const int64_t at[] = {0, 5}, zero[] = {0, 0}, blocks[] = {2, 0}, twos[] = {2, 2};
    const int64_t huge[] = {INT64_MAX, 2};
    refused(swi_shaped_cut(&r->s, at, r->s.shape, &r->made, &r->err), SW_ERR_ARG,
            "dimension 1: 4 from 5 on lie outside its size 4");
    refused(swi_shaped_embed(&global, &r->s, at, &r->err), SW_ERR_ARG,
            "a part of bfloat16 in a tensor of float32");
    global.dtype = SW_BF16;
    refused(swi_shaped_embed(&global, &r->s, at, &r->err), SW_ERR_ARG,
            "dimension 1: 4 from 5 on lie outside its size 8");
    global.axes = 1;
    refused(swi_shaped_embed(&global, &r->s, zero, &r->err), SW_ERR_ARG,
            "a part of 2 dimensions in a tensor of 1");
    assert_int_equal(global.count, 0);
    refused(swi_shaped_pad(&r->s, 1, 3, 0, &r->made, &r->err), SW_ERR_ARG,
            "dimension 1 of 4 is padded to 3, which is less");
    refused(swi_shaped_pad(&r->s, 2, 3, 0, &r->made, &r->err), SW_ERR_ARG,
            "there is no dimension 2 in shape [6, 4]");
    refused(swi_shaped_fill(SW_F32, 2, huge, 0, &r->made, &r->err), SW_ERR_ARG,
            "shape [9223372036854775807, 2]: a size is negative or too large");
    refused(swi_shaped_fill(SW_DTYPE_NONE, 2, zero, 0, &r->made, &r->err), SW_ERR_ARG,
            "a tensor without an element type");
    refused(swi_shaped_spread(&r->s, 2, r->s.shape, blocks, &r->made, &r->err), SW_ERR_ARG,
            "dimension 0: 6 in blocks of 2 takes 3 elements, not 6");
    refused(swi_shaped_spread(&r->s, 2, (int64_t[]){12, 4}, blocks, &r->made, &r->err), SW_ERR_ARG,
            "dimension 1: blocks of 0");
    refused(swi_shaped_spread(&r->s, 1, r->s.shape, twos, &r->made, &r->err), SW_ERR_ARG,
            "a tensor of 2 dimensions spread over 1");
}

/* Columns of a view that has nothing in common with the shape: too many pieces to hold. */
static void test_too_many_pieces(void **state)
{
    refusals *r = *state;
    const int64_t rows = INT64_C(524287), view[] = {rows * 2, 3}, shape[] = {6, rows},
                  from[] = {0, 0}, half[] = {6, 1000};
    swi_shaped s = shards(2, view, 0, 1), other;
    s.pieces[0].length[1] = 1;
    assert_ok(swi_shaped_reshape(&s, 2, shape, &other, &r->err), &r->err);
    refused(swi_shaped_cut(&other, from, half, &r->made, &r->err), SW_ERR_LIMIT,
            "it falls into more than 262144 pieces");
    swi_shaped_free(&other);
    swi_shaped_free(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_few_stay_few),
        cmocka_unit_test(test_alternating_rows),
        cmocka_unit_test(test_merged_again),
        cmocka_unit_test(test_stack_is_linear),
        cmocka_unit_test(test_spread_counts),
        cmocka_unit_test(test_views_that_do_not_fit),
        cmocka_unit_test_setup_teardown(test_join_refuses, setup, teardown),
        cmocka_unit_test_setup_teardown(test_rearrange_refuses, setup, teardown),
        cmocka_unit_test_setup_teardown(test_boxes_refuse, setup, teardown),
        cmocka_unit_test_setup_teardown(test_too_many_pieces, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
