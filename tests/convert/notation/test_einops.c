/* Rearrangements: reading, numbers for a shape, errors with their place; random ones. */
#include "harness/harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "notation/einops.h"

static swi_einops *parse(const char *text)
{
    swi_einops *e = NULL;
    sw_error err = {0};
    assert_ok(swi_einops_parse(text, strlen(text), &e, &err), &err);
    assert_string_equal(swi_einops_text(e), text);
    return e;
}

static const swi_expr_var sizes[] = {
    {"two", {.kind = SWI_EXPR_INT, .integer = 2}},
    {"a", {.kind = SWI_EXPR_INT, .integer = 3}},
    {"zero", {.kind = SWI_EXPR_INT, .integer = 0}},
    {"minus", {.kind = SWI_EXPR_INT, .integer = -1}},
    {"half", {.kind = SWI_EXPR_FLOAT, .number = 0.5}},
    {"huge", {.kind = SWI_EXPR_INT, .integer = INT64_MAX}},
};
static swi_expr_vars vars = {.items = sizes, .count = sizeof sizes / sizeof sizes[0]};
static const swi_expr_scope scope = {.find = swi_expr_find_var, .ctx = &vars};

/* "3 2 4|5 -> 0 2 1|3": sizes by dimension of the source, factors by dimension of the result. */
static void describe(const swi_rearrange *r, char *out, size_t size)
{
    size_t used = 0;
    uint32_t factor = 0;
    out[0] = '\0';
    for (uint32_t d = 0; d < r->in_axes; d++) {
        used += (size_t)snprintf(out + used, size - used, d > 0 ? "|" : "");
        for (uint32_t i = 0; i < r->in_count[d]; i++, factor++)
            used += (size_t)snprintf(out + used, size - used, i > 0 ? " %lld" : "%lld",
                                     (long long)r->size[factor]);
    }
    assert_int_equal(factor, r->factors);
    used += (size_t)snprintf(out + used, size - used, " -> ");
    factor = 0;
    for (uint32_t d = 0; d < r->out_axes; d++) {
        used += (size_t)snprintf(out + used, size - used, d > 0 ? "|" : "");
        for (uint32_t i = 0; i < r->out_count[d]; i++, factor++)
            used +=
                (size_t)snprintf(out + used, size - used, i > 0 ? " %u" : "%u", r->order[factor]);
    }
    assert_int_equal(factor, r->factors);
}

static void test_numbers(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool reverse;
        int64_t shape[3];
        uint32_t axes;
        const char *wanted;
    } cases[] = {
        {"(a two i) h -> (a i two) h", false, {24, 5}, 2, "3 2 4|5 -> 0 2 1|3"},
        {"(a two i) h -> (a i two) h", true, {24, 5}, 2, "3 4 2|5 -> 0 2 1|3"},
        {"h w -> w h", false, {4, 7}, 2, "4|7 -> 1|0"},
        {"h w->w h", true, {7, 4}, 2, "7|4 -> 1|0"},
        {" ( a two ) -> a two ", false, {6}, 1, "3 2 -> 0|1"},
        {"(a two) -> a two", true, {3, 2}, 2, "3|2 -> 0 1"},
        {"x 1 -> 1 x 1", false, {9, 1}, 2, "9| -> |0|"},
        {"x 1 -> 1 x 1", true, {1, 9, 1}, 3, "|9| -> 0|"},
        {"-> 1", false, {0}, 0, " -> "},
        {"x y -> (x y)", false, {0, 5}, 2, "0|5 -> 0 1"},
        {"(two x) -> (x two)", false, {0}, 1, "2 0 -> 1 0"},
        {"(zero two) -> (two zero)", false, {0}, 1, "0 2 -> 1 0"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        swi_einops *e = parse(cases[i].text);
        swi_rearrange r;
        sw_error err = {0};
        char found[256];
        assert_ok(
            swi_einops_solve(e, cases[i].reverse, cases[i].shape, cases[i].axes, &scope, &r, &err),
            &err);
        describe(&r, found, sizeof found);
        assert_string_equal(found, cases[i].wanted);
        swi_einops_free(e);
    }
}

static void test_names(void **state)
{
    (void)state;
    swi_einops *e = parse("(b a_1) 1 -> a_1 1 b");
    size_t offset = 0;
    assert_int_equal(swi_einops_axes(e, false), 2);
    assert_int_equal(swi_einops_axes(e, true), 3);
    assert_int_equal(swi_einops_name_count(e), 2);
    assert_string_equal(swi_einops_name(e, 0, NULL), "b");
    assert_string_equal(swi_einops_name(e, 1, &offset), "a_1");
    assert_int_equal(offset, 3);
    swi_einops_free(e);
}

static void test_syntax(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        sw_status status;
        uint64_t offset;
        const char *message, *clause;
    } cases[] = {
        {"", SW_ERR_FORMAT, 0, "expected ->", "NT-4.1"},
        {"a b", SW_ERR_FORMAT, 3, "expected ->", "NT-4.1"},
        {"a -> a -> a", SW_ERR_FORMAT, 7, "a second ->", "NT-4.1"},
        {"(a b -> a b", SW_ERR_FORMAT, 5, "expected a name", "NT-4.1"},
        {"a b -> (a b", SW_ERR_FORMAT, 7, "a ( without its )", "NT-4.1"},
        {"(a (b)) -> a b", SW_ERR_FORMAT, 3, "expected a name", "NT-4.1"},
        {"a) -> a", SW_ERR_FORMAT, 1, "expected a name", "NT-4.1"},
        {"() a -> a", SW_ERR_FORMAT, 0, "an empty group; write 1", "NT-4.1"},
        {"(a 1) -> a", SW_ERR_FORMAT, 3, "expected a name", "NT-4.1"},
        {"a 2 -> a", SW_ERR_FORMAT, 2, "expected a name", "NT-4.1"},
        {"a 1x -> a", SW_ERR_FORMAT, 2, "expected a name", "NT-4.1"},
        {"a 12 -> a", SW_ERR_FORMAT, 2, "expected a name", "NT-4.1"},
        {"a ... -> a", SW_ERR_FORMAT, 2, "expected a name", "NT-4.1"},
        {"a - > a", SW_ERR_FORMAT, 2, "expected a name", "NT-4.1"},
        {"a a -> a", SW_ERR_FORMAT, 2, "again on this side", "NT-4.2"},
        {"a (b b) -> a b", SW_ERR_FORMAT, 5, "again on this side", "NT-4.2"},
        {"a b -> (a b) a", SW_ERR_FORMAT, 13, "again on this side", "NT-4.2"},
        {"a b -> a c", SW_ERR_FORMAT, 9, "not on the left side", "NT-4.2"},
        {"a (b c) -> c a", SW_ERR_FORMAT, 3, "not on the right side", "NT-4.2"},
        {"a b c d e f g h i j k -> a", SW_ERR_LIMIT, 20, "more than 10 dimensions", "NT-4.4"},
        {"(a b c d e f g h i j k) -> a", SW_ERR_LIMIT, 21, "more than 10 names", "NT-4.4"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        swi_einops *e = NULL;
        sw_error err = {0};
        const char *text = cases[i].text;
        if (swi_einops_parse(text, strlen(text), &e, &err) != cases[i].status ||
            err.offset_bytes != cases[i].offset || strstr(err.text, cases[i].message) == NULL ||
            strcmp(err.clause, cases[i].clause) != 0)
            fail_msg("%s: %s at %llu", text, err.text, (unsigned long long)err.offset_bytes);
        assert_null(e);
    }
    static char large[300];
    swi_einops *e = NULL;
    sw_error err = {0};
    assert_int_equal(swi_einops_parse("a\0", 2, &e, &err), SW_ERR_FORMAT);
    assert_error(&err, SW_ERR_FORMAT, "a NUL byte");
    assert_int_equal(swi_einops_parse(large, sizeof large, &e, &err), SW_ERR_LIMIT);
    assert_error(&err, SW_ERR_LIMIT, "more than 256 bytes");
    swi_einops_free(NULL);
}

static sw_status find_broken(void *ctx, const char *name, swi_expr_value *out, bool *found,
                             sw_error *err)
{
    (void)ctx;
    (void)name;
    (void)out;
    (void)found;
    return swi_fail(err, SW_ERR_CONFLICT, "m.yaml:1:1: broke");
}

static void test_shapes(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool reverse;
        int64_t shape[3];
        uint32_t axes;
        sw_status status;
        uint64_t offset;
        const char *message;
    } cases[] = {
        {"h (a two) -> h a two",
         false,
         {5, 7},
         2,
         SW_ERR_CONFLICT,
         2,
         "dimension 1 has 7 elements, \"(a two)\" has 6 [NT-4.3]"},
        {"h (a i) -> h a i",
         false,
         {5, 7},
         2,
         SW_ERR_CONFLICT,
         2,
         "dimension 1 has 7 elements, \"(a i)\" has a multiple of 3"},
        {"h a -> (h a)", true, {7}, 1, SW_ERR_CONFLICT, 7, "\"(h a)\" has a multiple of 3"},
        {"h (x y) -> h x y",
         false,
         {5, 7},
         2,
         SW_ERR_FORMAT,
         5,
         "neither \"x\" nor \"y\" has a size"},
        {"x y -> (x y)", true, {7}, 1, SW_ERR_FORMAT, 10, "neither \"x\" nor \"y\""},
        {"h 1 -> h", false, {5, 2}, 2, SW_ERR_CONFLICT, 2, "has 2 elements, \"1\" has 1"},
        {"h w -> w h",
         false,
         {5},
         1,
         SW_ERR_CONFLICT,
         0,
         "the tensor has 1 dimensions, the left side of \"h w -> w h\" has 2"},
        {"h w -> (w h)", true, {5, 6}, 2, SW_ERR_CONFLICT, 0, "the right side"},
        {"(zero x) -> x zero", false, {0}, 1, SW_ERR_CONFLICT, 0, "has a multiple of 0"},
        {"(minus x) -> x minus", false, {5}, 1, SW_ERR_CONFLICT, 1, "\"minus\" is below 0"},
        {"(x half) -> x half", false, {5}, 1, SW_ERR_CONFLICT, 3, "no whole number"},
        {"(huge two) -> two huge", false, {5}, 1, SW_ERR_CONFLICT, 0, "has more than"},
    };
    sw_error err = {0};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        swi_einops *e = parse(cases[i].text);
        swi_rearrange r = {.factors = 77};
        if (swi_einops_solve(e, cases[i].reverse, cases[i].shape, cases[i].axes, &scope, &r,
                             &err) != cases[i].status ||
            err.offset_bytes != cases[i].offset || strstr(err.text, cases[i].message) == NULL)
            fail_msg("%s: %s at %llu", cases[i].text, err.text,
                     (unsigned long long)err.offset_bytes);
        assert_int_equal(r.factors, 77);
        swi_einops_free(e);
    }
    const swi_expr_scope broken = {.find = find_broken};
    swi_einops *e = parse("h (a b) -> h a b");
    swi_rearrange r;
    const int64_t shape[] = {1, 1};
    assert_int_equal(swi_einops_solve(e, false, shape, 2, &broken, &r, &err), SW_ERR_CONFLICT);
    assert_string_equal(err.text, "h: m.yaml:1:1: broke");
    assert_true(err.has_offset);
    swi_einops_free(e);
}

/* ---- random ones ----------------------------------------------------------------------------- */

#define FACTORS 6
static const char *const factor_names[] = {"p", "q", "r", "s", "t", "u"};

/* Writes the factors in this order, in random groups; the shape that they make. */
static uint32_t write_side(harness_prng *prng, const swi_rearrange *r, const uint32_t *order,
                           uint32_t *counts, int64_t *shape, char *out, size_t size)
{
    uint32_t axes = 0;
    size_t used = 0;
    out[0] = '\0';
    for (uint32_t i = 0; i < r->factors; axes++) {
        counts[axes] = 1 + (uint32_t)harness_random_below(prng, r->factors - i);
        shape[axes] = 1;
        used += (size_t)snprintf(out + used, size - used, " (");
        for (uint32_t k = 0; k < counts[axes]; k++, i++) {
            used += (size_t)snprintf(out + used, size - used, " %s", factor_names[order[i]]);
            shape[axes] *= r->size[order[i]];
        }
        used += (size_t)snprintf(out + used, size - used, ")");
    }
    return axes;
}

/* All sizes but one of each group of a side, in random order. */
static size_t tell_sizes(harness_prng *prng, const swi_rearrange *r, const uint32_t *order,
                         const uint32_t *counts, uint32_t axes, swi_expr_var *out)
{
    size_t count = 0;
    for (uint32_t d = 0, first = 0; d < axes; first += counts[d], d++) {
        uint64_t hidden = harness_random_below(prng, counts[d]);
        for (uint32_t k = 0; k < counts[d]; k++) {
            uint32_t factor = order[first + k];
            if (k != hidden)
                out[count++] =
                    (swi_expr_var){factor_names[factor], swi_expr_of_int(r->size[factor])};
        }
    }
    return count;
}

static void check_solved(const swi_einops *e, bool reverse, const int64_t *shape, uint32_t axes,
                         swi_expr_vars *known, const swi_rearrange *wanted)
{
    const swi_expr_scope names = {.find = swi_expr_find_var, .ctx = known};
    swi_rearrange found;
    sw_error err = {0};
    char a[256], b[256];
    assert_ok(swi_einops_solve(e, reverse, shape, axes, &names, &found, &err), &err);
    describe(wanted, a, sizeof a);
    describe(&found, b, sizeof b);
    assert_string_equal(b, a);
}

static void test_random(void **state)
{
    (void)state;
    static const uint32_t straight[FACTORS] = {0, 1, 2, 3, 4, 5};
    harness_prng prng = {.state = 3};
    for (size_t round = 0; round < 3000; round++) {
        swi_rearrange r = {.factors = 1 + (uint32_t)harness_random_below(&prng, FACTORS)}, back;
        for (uint32_t i = 0; i < r.factors; i++) {
            uint32_t k = (uint32_t)harness_random_below(&prng, i + 1);
            r.size[i] = 1 + (int64_t)harness_random_below(&prng, 5);
            r.order[i] = r.order[k];
            r.order[k] = i;
        }
        int64_t in[FACTORS], out[FACTORS];
        char left[100], right[100], text[256];
        r.in_axes = write_side(&prng, &r, straight, r.in_count, in, left, sizeof left);
        r.out_axes = write_side(&prng, &r, r.order, r.out_count, out, right, sizeof right);
        snprintf(text, sizeof text, "%s ->%s", left, right);
        swi_einops *e = parse(text);
        swi_expr_var told[FACTORS];
        swi_expr_vars known = {.items = told};
        known.count = tell_sizes(&prng, &r, straight, r.in_count, r.in_axes, told);
        check_solved(e, false, in, r.in_axes, &known, &r);
        known.count = tell_sizes(&prng, &r, r.order, r.out_count, r.out_axes, told);
        swi_rearrange_inverse(&r, &back);
        check_solved(e, true, out, r.out_axes, &known, &back);
        swi_einops_free(e);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbers), cmocka_unit_test(test_names),
        cmocka_unit_test(test_syntax),  cmocka_unit_test(test_shapes),
        cmocka_unit_test(test_random),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
