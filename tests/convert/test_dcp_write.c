/* DCP folders as a target: cut as FSDP2 cuts, everything carried, read back the same. */
#include "convert/fixture.h"

#include "model/catalog.h"

static void convert_to(const char *from, const char *to, const char *target)
{
    outcome o;
    sw_convert_options options = {.to = target, .verify = true};
    run_convert(from, to, &options, &o);
    assert_fine(&o);
    assert_false(o.converted.partial);
    outcome_free(&o);
    run_verify(to, &o);
    assert_fine(&o);
    assert_int_equal(o.verified.tally.unchecked_bytes, 0);
    outcome_free(&o);
}

static void assert_same_value(const sw_checkpoint *a, size_t i, const sw_checkpoint *b)
{
    const sw_catalog *of_a = sw_checkpoint_catalog(a), *of_b = sw_checkpoint_catalog(b);
    sw_value_info x, y;
    size_t k = 0;
    sw_error err = {0};
    sw_value_graph *ga = NULL, *gb = NULL;
    sw_value va, vb;
    char *ta = NULL, *tb = NULL;
    assert_true(sw_catalog_value_at(of_a, i, &x));
    while (sw_catalog_value_at(of_b, k, &y) && strcmp(x.name, y.name) != 0)
        k++;
    assert_true(k < sw_catalog_value_count(of_b));
    assert_ok(sw_checkpoint_value(a, i, &ga, &va, &err), &err);
    assert_ok(sw_checkpoint_value(b, k, &gb, &vb, &err), &err);
    assert_ok(sw_value_text(ga, va, 4096, &ta, &err), &err);
    assert_ok(sw_value_text(gb, vb, 4096, &tb, &err), &err);
    assert_string_equal(ta, tb);
    free(ta);
    free(tb);
    sw_value_graph_free(ga);
    sw_value_graph_free(gb);
}

/* All of it: tensors bit by bit, values, sections and roles. */
static void assert_same_checkpoint(const char *left, const char *right)
{
    sw_checkpoint *a = open_good(left), *b = open_good(right);
    const sw_catalog *of_a = sw_checkpoint_catalog(a), *of_b = sw_checkpoint_catalog(b);
    size_t count = sw_catalog_tensor_count(of_a);
    assert_int_equal(count, sw_catalog_tensor_count(of_b));
    for (size_t i = 0; i < count; i++) {
        sw_tensor_info x, y;
        sw_catalog_tensor(of_a, i, &x);
        float *p = read_floats(a, x.name, &x), *q = read_floats(b, x.name, &y);
        assert_int_equal(x.role, y.role);
        assert_int_equal(x.elements, y.elements);
        assert_memory_equal(p, q, x.elements * sizeof *p);
        free(p);
        free(q);
    }
    assert_int_equal(sw_catalog_value_count(of_a), sw_catalog_value_count(of_b));
    for (size_t i = 0; i < sw_catalog_value_count(of_a); i++)
        assert_same_value(a, i, b);
    sw_checkpoint_close(a);
    sw_checkpoint_close(b);
}

static void test_any_number_of_ranks(void **state)
{
    static const char *const targets[] = {"dcp", "dcp:ranks=2", "fsdp2:dp=3", "dcp:ranks=200",
                                          "dcp:ranks=2,replicate=3"};
    char *dir = *state, *demo = harness_path(dir, "demo"), *weights = harness_path(dir, "hf");
    make_demo(demo);
    outcome o;
    run_convert(demo, weights, NULL, &o);
    assert_fine(&o);
    outcome_free(&o);
    for (size_t i = 0; i < sizeof targets / sizeof targets[0]; i++) {
        char *to = harness_path(dir, "to-%zu", i), *back = harness_path(dir, "back-%zu", i);
        convert_to(demo, to, targets[i]);
        assert_same_checkpoint(demo, to);
        run_convert(to, back, NULL, &o);
        assert_fine(&o);
        outcome_free(&o);
        assert_same_folder(weights, back);
    }
}

/* Rows as torch.chunk cuts them: 250 rows in 3 ranks are 84, 84 and 82. */
static void test_rows_are_cut_like_chunk(void **state)
{
    char *dir = *state, *demo = harness_path(dir, "demo"), *to = harness_path(dir, "to");
    make_demo(demo);
    convert_to(demo, to, "dcp:ranks=3");
    sw_checkpoint *c = open_good(to);
    const sw_catalog *catalog = sw_checkpoint_catalog(c);
    for (uint32_t i = 0; i < sw_catalog_tensor_count(catalog); i++) {
        sw_tensor_info info;
        sw_catalog_tensor(catalog, i, &info);
        int64_t step = info.axes > 0 ? (info.shape[0] + 2) / 3 : 1, at = 0;
        for (uint64_t k = 0; k < info.piece_count; k++) {
            swi_piece p;
            swi_tensor_piece(catalog, i, k, &p);
            if (info.axes == 0)
                continue;
            assert_int_equal(p.offset[0], at);
            assert_int_equal(p.length[0], info.shape[0] - at < step ? info.shape[0] - at : step);
            at += p.length[0];
        }
        if (info.axes == 0)
            assert_int_equal(info.piece_count, 1);
        else
            assert_int_equal(at, info.shape[0]);
    }
    sw_checkpoint_close(c);
}

static void test_weights_alone_keep_their_names(void **state)
{
    char *dir = *state, *demo = harness_path(dir, "demo"), *weights = harness_path(dir, "hf");
    char *to = harness_path(dir, "to"), *back = harness_path(dir, "back");
    outcome o;
    make_demo(demo);
    run_convert(demo, weights, NULL, &o);
    assert_fine(&o);
    outcome_free(&o);
    convert_to(weights, to, "dcp:ranks=4");
    assert_same_checkpoint(weights, to);
    run_convert(to, back, NULL, &o);
    assert_fine(&o);
    outcome_free(&o);
    assert_same_folder(weights, back);
}

static void test_filters(void **state)
{
    char *dir = *state, *demo = harness_path(dir, "demo"), *to = harness_path(dir, "to");
    static const char *const drop[] = {"trainer.*", "model.norm*", NULL};
    outcome o;
    make_demo(demo);
    sw_convert_options options = {.to = "dcp", .drop = drop, .drop_optimizer = true};
    run_convert(demo, to, &options, &o);
    assert_fine(&o);
    assert_int_equal(o.converted.tensors, 7);
    assert_int_equal(o.converted.dropped_tensors, 25);
    outcome_free(&o);
    sw_checkpoint *c = open_good(to);
    assert_int_equal(sw_catalog_value_count(sw_checkpoint_catalog(c)), 0);
    sw_checkpoint_close(c);
}

/* Weights are cast, what the optimizer keeps is not. */
static void test_cast(void **state)
{
    char *dir = *state, *demo = harness_path(dir, "demo"), *to = harness_path(dir, "to");
    outcome o;
    make_demo(demo);
    sw_convert_options options = {.to = "dcp:ranks=2", .dtype = SW_BF16};
    run_convert(demo, to, &options, &o);
    assert_fine(&o);
    outcome_free(&o);
    run_verify(to, &o);
    assert_fine(&o);
    outcome_free(&o);
    sw_checkpoint *c = open_good(to);
    const sw_catalog *catalog = sw_checkpoint_catalog(c);
    for (size_t i = 0; i < sw_catalog_tensor_count(catalog); i++) {
        sw_tensor_info info;
        sw_catalog_tensor(catalog, i, &info);
        assert_int_equal(info.dtype, info.role == SW_ROLE_PARAMETER ? SW_BF16 : SW_F32);
    }
    sw_checkpoint_close(c);
}

static void test_refused(void **state)
{
    char *dir = *state, *demo = harness_path(dir, "demo"), *to = harness_path(dir, "to");
    static const char *const none[] = {"nothing", NULL};
    make_demo(demo);
    const struct {
        sw_convert_options options;
        const char *text;
    } cases[] = {
        {{.to = "dcp:ranks="}, "--to dcp:ranks=: not an option"},
        {{.to = "dcp:ranks=4,size=1"}, "--to dcp:size=1: not an option"},
        {{.to = "dcp:ranks=16385"}, "not an option"},
        {{.to = "dcp:ranks=4294967298"}, "not an option"},
        {{.to = "dcp:ranks=9000,replicate=2"}, "more than 16384 ranks"},
        {{.to = "dcp", .strip_prefix = "model."}, "--strip-prefix is for targets"},
        {{.to = "dcp", .section = "model"}, "--section is for targets"},
        {{.to = "dcp", .assets = dir}, "--assets is for targets"},
        {{.to = "dcp", .only = none}, "no tensor is left to write"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_refuses(demo, to, &cases[i].options, SW_ERR_ARG, cases[i].text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        test_in_dir(test_any_number_of_ranks),
        test_in_dir(test_rows_are_cut_like_chunk),
        test_in_dir(test_weights_alone_keep_their_names),
        test_in_dir(test_filters),
        test_in_dir(test_cast),
        test_in_dir(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
