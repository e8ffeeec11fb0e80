/* Two checkpoints side by side. */
#include "convert/fixture.h"

#include <math.h>

#include "check/pairing.h"

#define SEEN_MAX 64

typedef struct seen {
    size_t count;
    sw_difference_kind kind[SEEN_MAX];
    bool expected[SEEN_MAX];
    char name[SEEN_MAX][64], hint[SEEN_MAX][64], text_a[SEEN_MAX][64], text_b[SEEN_MAX][64];
    int64_t at[SEEN_MAX][2];
    uint8_t a[SEEN_MAX][16], b[SEEN_MAX][16];
    sw_diff_summary sum;
    uint64_t notes;
} seen;

static void note(void *ctx, const sw_difference *d)
{
    seen *s = ctx;
    assert_true(s->count < SEEN_MAX);
    size_t i = s->count++;
    s->kind[i] = d->kind;
    s->expected[i] = d->expected;
    snprintf(s->name[i], sizeof s->name[i], "%s", d->name_a ? d->name_a : d->name_b);
    snprintf(s->hint[i], sizeof s->hint[i], "%s", d->hint ? d->hint : "");
    snprintf(s->text_a[i], sizeof s->text_a[i], "%s", d->text_a ? d->text_a : "");
    snprintf(s->text_b[i], sizeof s->text_b[i], "%s", d->text_b ? d->text_b : "");
    memcpy(s->at[i], d->at, sizeof s->at[i]);
    memcpy(s->a[i], d->element_a, 16);
    memcpy(s->b[i], d->element_b, 16);
}

static seen diff(const char *a, const char *b, const sw_diff_options *options)
{
    seen s = {0};
    sw_error err = {0};
    sw_report *report;
    assert_ok(sw_report_make(&report, &err), &err);
    assert_ok(sw_diff(a, b, options, note, &s, report, &s.sum, &err), &err);
    s.notes = sw_report_total(report, SW_NOTE);
    sw_report_free(report);
    return s;
}

static void assert_seen(const seen *s, size_t i, sw_difference_kind kind, const char *name)
{
    assert_true(i < s->count);
    assert_int_equal(s->kind[i], kind);
    assert_string_equal(s->name[i], name);
}

/* Each test works inside its folder. */
static int enter(void **state)
{
    return harness_dir_setup(state) == 0 && chdir(*state) == 0 ? 0 : -1;
}

static int leave(void **state)
{
    return chdir("..") == 0 ? harness_dir_teardown(state) : -1;
}

#define test_here(name) cmocka_unit_test_setup_teardown(name, enter, leave)

/* ---- elements ------------------------------------------------------------------------------- */

static void any_flip_is_found(void **state)
{
    (void)state;
    const char *header = "{\"a\":{\"dtype\":\"F32\",\"shape\":[40],\"data_offsets\":[0,160]},"
                         "\"b\":{\"dtype\":\"F32\",\"shape\":[2,30],\"data_offsets\":[160,400]}}";
    harness_prng prng = {.state = 12};
    size_t size;
    write_st("a.safetensors", header, 400, 1);
    uint8_t *bytes = harness_read("a.safetensors", &size);
    for (int i = 0; i < 1000; i++) {
        uint64_t bit = harness_random_below(&prng, 3200), element = bit / 32;
        size_t at = size - 400 + (size_t)(bit / 8);
        bytes[at] ^= (uint8_t)(1U << bit % 8);
        harness_write("b.safetensors", bytes, size);
        seen s = diff("a.safetensors", "b.safetensors", NULL);
        assert_int_equal(s.count, 1);
        assert_seen(&s, 0, SW_DIFF_ELEMENTS, element < 40 ? "a" : "b");
        assert_int_equal(s.at[0][0], element < 40 ? element : (element - 40) / 30);
        if (element >= 40)
            assert_int_equal(s.at[0][1], (element - 40) % 30);
        assert_memory_equal(s.b[0], bytes + size - 400 + element * 4, 4);
        assert_memory_not_equal(s.a[0], s.b[0], 4);
        assert_int_equal(s.sum.differences, 1);
        assert_int_equal(s.sum.equal, 1);
        bytes[at] ^= (uint8_t)(1U << bit % 8);
    }
    free(bytes);
}

static void any_layout_is_equal(void **state)
{
    (void)state;
    const sw_convert_options shards = {.to = "hf:shard=20kB"};
    const sw_diff_options all = {.state = true};
    outcome o;
    make_demo("dcp");
    run_convert("dcp", "hf", &shards, &o);
    assert_fine(&o);
    outcome_free(&o);
    seen s = diff("dcp", "hf", NULL);
    assert_int_equal(s.count, 0);
    assert_int_equal(s.sum.compared, 8);
    assert_int_equal(s.sum.equal, 8);
    assert_string_equal(s.sum.framework_a, "dcp");
    assert_string_equal(s.sum.framework_b, "hf");
    s = diff("dcp", "dcp", &all);
    assert_int_equal(s.count, 0);
    assert_int_equal(s.sum.compared, 32);
    assert_true(s.sum.values > 0);
    s = diff("dcp", "hf", &all);
    assert_int_equal(s.sum.differences, 24 + 2);
    assert_int_equal(s.sum.equal, 8);
}

static void write_floats(const char *path, const float *v, size_t count)
{
    char header[128];
    snprintf(header, sizeof header,
             "{\"w\":{\"dtype\":\"F32\",\"shape\":[%zu],\"data_offsets\":[0,%zu]}}", count,
             count * 4);
    size_t n = strlen(header);
    uint8_t *data = calloc(1, 8 + n + count * 4);
    assert_non_null(data);
    data[0] = (uint8_t)n;
    memcpy(data + 8, header, n);
    memcpy(data + 8 + n, v, count * 4);
    harness_write(path, data, 8 + n + count * 4);
    free(data);
}

static void tolerances(void **state)
{
    (void)state;
    const float base[] = {1, 100, NAN, INFINITY, -0.0F};
    static const struct {
        size_t at;
        float value;
        double atol, rtol;
        bool equal;
    } rows[] = {
        {0, 1.5F, 0.5, 0, true},         {0, 1.5F, 0.4, 0, false}, {1, 101, 0, 0.01, true},
        {1, 101, 0, 0.009, false},       {2, 1, 1e9, 0, false},    {3, 1e30F, 1e38, 1, false},
        {3, -INFINITY, 1e38, 1, false},  {4, 0, 0, 0, true},       {0, NAN, 1e9, 0, false},
        {1, INFINITY, 1e38, 0.5, false},
    };
    write_floats("a.safetensors", base, 5);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const sw_diff_options o = {.tolerant = true, .atol = rows[i].atol, .rtol = rows[i].rtol};
        float other[5];
        memcpy(other, base, sizeof other);
        other[rows[i].at] = rows[i].value;
        write_floats("b.safetensors", other, 5);
        seen s = diff("a.safetensors", "b.safetensors", &o);
        assert_int_equal(s.count, rows[i].equal ? 0 : 1);
        if (!rows[i].equal)
            assert_int_equal(s.at[0][0], rows[i].at);
        s = diff("a.safetensors", "b.safetensors", NULL);
        assert_int_equal(s.count, 1); /* to the bit all differ */
    }
}

static void other_types_as_numbers(void **state)
{
    (void)state;
    const sw_convert_options bf16 = {.to = "hf", .dtype = SW_BF16};
    const sw_diff_options close = {.tolerant = true, .rtol = 1.0 / 128};
    const sw_diff_options closer = {.tolerant = true, .rtol = 1.0 / 4096};
    outcome o;
    make_demo("dcp");
    run_convert("dcp", "bf16", &bf16, &o);
    assert_fine(&o);
    outcome_free(&o);
    seen s = diff("dcp", "bf16", &close);
    assert_int_equal(s.count, 0);
    assert_int_equal(s.sum.equal, 8);
    s = diff("dcp", "bf16", &closer);
    assert_true(s.count > 0);
    assert_seen(&s, 0, SW_DIFF_ELEMENTS, "embedding.weight");
    s = diff("dcp", "bf16", NULL);
    assert_int_equal(s.count, 8);
    for (size_t i = 0; i < 8; i++)
        assert_int_equal(s.kind[i], SW_DIFF_DTYPE);
}

/* ---- names ---------------------------------------------------------------------------------- */

#define T(name, shape, from, to)                                                                   \
    "\"" name "\":{\"dtype\":\"F32\",\"shape\":" shape ",\"data_offsets\":[" #from "," #to "]}"

static void names_and_shapes(void **state)
{
    (void)state;
    write_st(
        "a.safetensors",
        "{" T("final_norm", "[1]", 0, 4) "," T("w", "[2,1]", 4, 12) "," T("x", "[1]", 12, 16) "}",
        16, 1);
    write_st(
        "b.safetensors",
        "{" T("final_nrom", "[1]", 0, 4) "," T("w", "[1,2]", 4, 12) "," T("x", "[1]", 12, 16) "}",
        16, 1);
    seen s = diff("a.safetensors", "b.safetensors", NULL);
    assert_int_equal(s.count, 3);
    assert_seen(&s, 0, SW_DIFF_ONLY_A, "final_norm");
    assert_string_equal(s.hint[0], "final_nrom");
    assert_seen(&s, 1, SW_DIFF_ONLY_B, "final_nrom");
    assert_string_equal(s.hint[1], "final_norm");
    assert_seen(&s, 2, SW_DIFF_SHAPE, "w");
    assert_int_equal(s.sum.compared, 2);
    assert_int_equal(s.sum.equal, 1);
    const char *const only[] = {"x", NULL};
    const sw_diff_options options = {.only = only};
    s = diff("a.safetensors", "b.safetensors", &options);
    assert_int_equal(s.count, 0);
    assert_int_equal(s.sum.compared, 1);
}

static void one_prefix(void **state)
{
    (void)state;
    write_st("a.safetensors", "{" T("b.w", "[1]", 0, 4) "," T("w", "[1]", 4, 8) "}", 8, 1);
    write_st("b.safetensors", "{" T("b.b.w", "[1]", 0, 4) "," T("b.w", "[1]", 4, 8) "}", 8, 1);
    seen s = diff("a.safetensors", "b.safetensors", NULL);
    assert_int_equal(s.count, 0); /* b.w with b.b.w, not b.w with b.w */
    assert_int_equal(s.sum.equal, 2);
    assert_int_equal(s.notes, 1);
    s = diff("b.safetensors", "a.safetensors", NULL);
    assert_int_equal(s.count, 0);
    assert_int_equal(s.notes, 1);
}

static void pair(const char *const *a, size_t count_a, const char *const *b, size_t count_b,
                 const char *want, size_t size, bool on_b, size_t names)
{
    swi_named left[8], right[8];
    swi_prefix prefix;
    for (size_t i = 0; i < count_a; i++)
        left[i] = (swi_named){.name = a[i], .index = (uint32_t)i};
    for (size_t i = 0; i < count_b; i++)
        right[i] = (swi_named){.name = b[i], .index = (uint32_t)i};
    swi_pair_names(left, count_a, right, count_b, &prefix);
    assert_int_equal(prefix.names, names);
    assert_int_equal(prefix.size, size);
    assert_int_equal(prefix.on_b, on_b);
    if (size > 0)
        assert_memory_equal(prefix.text, want, size);
    for (size_t i = 0; i < count_a; i++)
        if (left[i].other >= 0)
            assert_int_equal(right[left[i].other].other, i);
}

static void pairs_of_names(void **state)
{
    (void)state;
    static const char *const plain[] = {"y", "x", "head"};
    static const char *const most[] = {"head", "m.x", "m.y"};
    static const char *const joined[] = {"mx", "my", "head"};
    static const char *const two[] = {"m.x", "n.y", "head"};
    static const char *const fewer[] = {"m.x", "head"};
    pair(plain, 3, plain, 3, "", 0, false, 0);
    pair(plain, 3, most, 3, "m.", 2, true, 2);
    pair(most, 3, plain, 3, "m.", 2, false, 2);
    pair(plain, 3, joined, 3, "", 0, false, 0);
    pair(plain, 3, two, 3, "", 0, false, 0);
    pair(plain, 3, fewer, 2, "", 0, false, 0);
    pair(plain, 3, NULL, 0, "", 0, false, 0);
    pair(NULL, 0, NULL, 0, "", 0, false, 0);
}

static void expected_changes(void **state)
{
    (void)state;
    static const char *const b_only[] = {"b", NULL}, *const both[] = {"?", NULL};
    static const char *const none[] = {"nope", NULL};
    write_st("a.safetensors", "{" T("a", "[1]", 0, 4) "," T("b", "[1]", 4, 8) "}", 8, 1);
    float v[] = {1, 7};
    size_t size;
    uint8_t *bytes = harness_read("a.safetensors", &size);
    memcpy(bytes + size - 8, v, 8);
    harness_write("b.safetensors", bytes, size);
    free(bytes);
    const sw_diff_options as_said = {.expect_change = b_only};
    seen s = diff("a.safetensors", "b.safetensors", &as_said);
    assert_int_equal(s.count, 1);
    assert_true(s.expected[0]);
    assert_int_equal(s.sum.differences, 0);
    assert_int_equal(s.sum.expected, 1);
    const sw_diff_options too_much = {.expect_change = both};
    s = diff("a.safetensors", "b.safetensors", &too_much);
    assert_int_equal(s.count, 2);
    assert_seen(&s, 0, SW_DIFF_UNCHANGED, "a");
    assert_int_equal(s.sum.differences, 1);
    const sw_diff_options nothing = {.expect_change = none};
    s = diff("a.safetensors", "b.safetensors", &nothing);
    assert_true(s.sum.nothing_expected);
    assert_int_equal(s.sum.differences, 1);
}

/* ---- values and damage ---------------------------------------------------------------------- */

static void make_values(const char *dir, int64_t step)
{
    static const int64_t four[] = {4};
    dcp_world *w = dcp_begin();
    dcp_whole(w, "model/w", 0, 1, four, 0);
    dcp_object(w, "epoch", 0, emit_int, &step);
    dcp_end(w, dir);
}

static void values_differ(void **state)
{
    (void)state;
    const sw_diff_options all = {.state = true};
    make_values("a", 41);
    make_values("b", 42);
    seen s = diff("a", "b", NULL);
    assert_int_equal(s.count, 0);
    s = diff("a", "b", &all);
    assert_int_equal(s.count, 1);
    assert_seen(&s, 0, SW_DIFF_VALUE, "epoch");
    assert_string_equal(s.text_a[0], "41");
    assert_string_equal(s.text_b[0], "42");
    s = diff("a", "a", &all);
    assert_int_equal(s.count, 0);
    assert_int_equal(s.sum.values, 1);
}

static void damage_is_the_error(void **state)
{
    (void)state;
    const int64_t shape[] = {8}, low[] = {0}, half[] = {4};
    sw_diff_summary sum;
    sw_error err = {0};
    dcp_world *w = dcp_begin();
    dcp_chunk(w, dcp_tensor(w, "model/w", 1, shape, 0), 0, low, half);
    dcp_end(w, "bad");
    w = dcp_begin();
    dcp_whole(w, "model/w", 0, 1, shape, 0);
    dcp_end(w, "good");
    assert_int_equal(sw_diff("good", "bad", NULL, NULL, NULL, NULL, &sum, &err), SW_ERR_INCOMPLETE);
    assert_error(&err, SW_ERR_INCOMPLETE, "model.w");
    assert_int_equal(sw_diff("good", "nowhere", NULL, NULL, NULL, NULL, &sum, &err),
                     SW_ERR_NOTFOUND);
    assert_error(&err, SW_ERR_NOTFOUND, "nowhere");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        test_here(any_flip_is_found),      test_here(any_layout_is_equal), test_here(tolerances),
        test_here(other_types_as_numbers), test_here(names_and_shapes),    test_here(one_prefix),
        cmocka_unit_test(pairs_of_names),  test_here(expected_changes),    test_here(values_differ),
        test_here(damage_is_the_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
