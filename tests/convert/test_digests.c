/* Digest lists that convert writes, and the section that is hashed (specs/digest.md, DIG-15, 16).
 */
#include "convert/fixture.h"

#include "convert/sample_map.h"
#include "convert/torch_fixture.h"

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

static void convert_good(const char *source, const char *dest, const sw_convert_options *options)
{
    outcome o;
    run_convert(source, dest, options, &o);
    assert_fine(&o);
    if (options->digests != NULL)
        assert_int_equal(strlen(o.converted.digests_root), 64);
    else
        assert_string_equal(o.converted.digests_root, "");
    outcome_free(&o);
}

static void verify_listed(const char *path, const sw_verify_options *options, outcome *o)
{
    outcome_begin(o);
    o->status = sw_verify(path, options, o->report, &o->verified, &o->err);
    sw_report_sort(o->report);
}

/* Every tensor of the list is there, and with `whole` no other is. */
static void assert_listed(const char *path, const char *list, bool whole)
{
    const sw_verify_options options = {
        .level = SW_LEVEL_STRUCTURE, .digests = list, .open = {.map = fixture_model.map}};
    outcome o;
    verify_listed(path, &options, &o);
    assert_fine(&o);
    assert_true(o.verified.listed_tensors > 0);
    assert_int_equal(o.verified.matched_tensors, o.verified.listed_tensors);
    if (whole)
        assert_int_equal(o.verified.listed_tensors, o.verified.tensors);
    outcome_free(&o);
}

static char *text_of(const char *path)
{
    size_t size;
    return (char *)harness_read(path, &size);
}

static void assert_same_text(const char *path, const sw_hash_options *options, const char *list)
{
    sw_digests *d = NULL;
    sw_error err = {0};
    char *text, *want = text_of(list);
    assert_ok(sw_hash(path, options, NULL, &d, NULL, &err), &err);
    assert_ok(sw_digests_text(d, &text, &err), &err);
    assert_string_equal(text, want);
    free(text);
    free(want);
    sw_digests_free(d);
}

/* ---- what is in the list --------------------------------------------------------------------- */

/* Whatever is written: its list is of what `hash` then reads, and the source has the same. */
static void of_every_target(void **state)
{
    (void)state;
    sw_framework_info f;
    make_demo("sample");
    sample_map_write("map.yaml");
    for (size_t i = 0; sw_framework_at(i, &f); i++) {
        if (!f.writes)
            continue;
        sample_map_use("./map.yaml", "dcp", f.name);
        const sw_convert_options options = {.to = f.name, .digests = "list"};
        convert_good("sample", "dest", &options);
        assert_listed("dest", "list", true);
        assert_listed("sample", "list", false);
        /* And from there to every target. */
        sw_framework_info g;
        for (size_t k = 0; sw_framework_at(k, &g); k++) {
            if (!g.writes)
                continue;
            const sw_convert_options on = {.to = g.name, .digests = "list2"};
            sample_map_use("./map.yaml", f.name, g.name);
            convert_good("dest", "dest2", &on);
            assert_listed("dest2", "list2", true);
            harness_remove("dest2");
            harness_remove("list2");
        }
        harness_remove("dest");
        harness_remove("list");
    }
    fixture_model.map = fixture_model.from_names = NULL;
}

static void as_hash_says(void **state)
{
    (void)state;
    make_demo("sample");
    convert_good("sample", "hf", &(sw_convert_options){.to = "hf", .digests = "list"});
    assert_same_text("sample", &(sw_hash_options){.weights = true}, "list");
    convert_good("sample", "half",
                 &(sw_convert_options){.to = "hf", .dtype = SW_BF16, .digests = "half-list"});
    assert_same_text("sample", &(sw_hash_options){.weights = true, .as = SW_BF16}, "half-list");
    assert_listed("half", "half-list", true);
    convert_good("sample", "dcp",
                 &(sw_convert_options){.to = "dcp:ranks=3", .digests = "dcp-list"});
    assert_same_text("dcp", NULL, "dcp-list");
}

static void of_any_threads_and_memory(void **state)
{
    (void)state;
    static const uint32_t threads[] = {1, 2, 7, 16};
    static const uint64_t memory[] = {1, 1 << 20, 5 << 20, 0};
    make_demo("sample");
    convert_good("sample", "hf", &(sw_convert_options){.to = "hf", .digests = "list"});
    for (size_t i = 0; i < 4; i++) {
        const sw_convert_options options = {
            .to = "hf:shard=20kB",
            .digests = "again",
            .overwrite = true,
            .work = {.threads = threads[i], .memory_bytes = memory[3 - i]}};
        convert_good("sample", "shards", &options);
        assert_true(same_file("list", "again"));
    }
}

/* Names that would be chosen anew go as weights, others as they are. */
static void names_of_the_destination(void **state)
{
    (void)state;
    static const char *const only[] = {"*norm*", NULL};
    static const struct {
        sw_convert_options options;
        const char *names;
    } rows[] = {
        {{.to = "hf"}, "# names weights\n"},
        {{.to = "hf", .only = only}, "# names weights\n"},
        {{.to = "hf", .add_prefix = "model."}, "# names weights\n"},
        {{.to = "hf", .add_prefix = "module."}, "# names all\n"},
        {{.to = "hf", .add_prefix = "_orig_mod."}, "# names all\n"},
        {{.to = "dcp"}, "# names all\n"},
        {{.to = "hf", .dtype = SW_BF16}, "# as bfloat16\n"},
        /* The parameters alone are cast: what is there then is hashed as it is. */
        {{.to = "dcp", .dtype = SW_BF16}, "# names all\n"},
    };
    make_demo("sample");
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        sw_convert_options options = rows[i].options;
        options.digests = "list";
        options.overwrite = true;
        convert_good("sample", "dest", &options);
        char *text = text_of("list");
        assert_contains(text, rows[i].names);
        free(text);
        assert_listed("dest", "list", true);
    }
}

/* No elements, no axes, odd types, several leaves. */
static void of_odd_tensors(void **state)
{
    (void)state;
    const char *header = "{\"a\":{\"dtype\":\"F32\",\"shape\":[0,4],\"data_offsets\":[0,0]},"
                         "\"b\":{\"dtype\":\"F64\",\"shape\":[],\"data_offsets\":[0,8]},"
                         "\"c\":{\"dtype\":\"BOOL\",\"shape\":[8],\"data_offsets\":[8,16]},"
                         "\"d\":{\"dtype\":\"F8_E4M3\",\"shape\":[2,2],\"data_offsets\":[16,20]},"
                         "\"e\":{\"dtype\":\"F32\",\"shape\":[3,200001],"
                         "\"data_offsets\":[20,2400032]}}";
    write_st("model.safetensors", header, 2400032, 1);
    convert_good("model.safetensors", "hf", &(sw_convert_options){.to = "hf", .digests = "list"});
    assert_listed("hf", "list", true);
    assert_same_text("model.safetensors", &(sw_hash_options){.weights = true}, "list");
    const sw_convert_options half = {.to = "hf",
                                     .digests = "half-list",
                                     .dtype = SW_BF16,
                                     .work = {.threads = 4, .memory_bytes = 1 << 20}};
    convert_good("model.safetensors", "half", &half);
    assert_listed("half", "half-list", true);
    assert_listed("model.safetensors", "half-list", true);
}

/* What only sees the elements of others is in the list, too. */
static void of_shared_storages(void **state)
{
    (void)state;
    static const char *const targets[] = {"torch", "dcp:ranks=2", "hf"};
    float data[12];
    for (int i = 0; i < 12; i++)
        data[i] = (float)i;
    torch_world *w = torch_begin(false);
    size_t s = torch_storage(w, "FloatStorage", 4, data, sizeof data);
    torch_say(w, "} (");
    torch_key(w, "whole");
    torch_view(w, s, 0, 2, (const int64_t[]){3, 4}, (const int64_t[]){4, 1});
    torch_key(w, "tied");
    torch_view(w, s, 0, 2, (const int64_t[]){3, 4}, (const int64_t[]){4, 1});
    torch_key(w, "part");
    torch_view(w, s, 5, 1, (const int64_t[]){3}, (const int64_t[]){1});
    torch_key(w, "turned");
    torch_view(w, s, 0, 2, (const int64_t[]){4, 3}, (const int64_t[]){1, 4});
    torch_say(w, "u");
    torch_write_zip(w, "shared.pt", NULL);
    torch_free(w);
    for (size_t i = 0; i < 3; i++) {
        const sw_convert_options options = {.to = targets[i], .digests = "list"};
        convert_good("shared.pt", "dest", &options);
        assert_listed("dest", "list", true);
        assert_listed("shared.pt", "list", true);
        harness_remove("dest");
        harness_remove("list");
    }
}

/* ---- how it is published --------------------------------------------------------------------- */

/* Tensors in a tuple are part of a value in DCP, and tensors again in a torch file. */
static void of_parts_of_values(void **state)
{
    (void)state;
    float data[6] = {1, 2, 3, 4, 5, 6};
    torch_world *w = torch_begin(false);
    size_t s = torch_storage(w, "FloatStorage", 4, data, sizeof data);
    size_t t = torch_storage(w, "FloatStorage", 4, data, sizeof data);
    torch_say(w, "} (");
    torch_key(w, "w");
    torch_view(w, s, 0, 2, (const int64_t[]){2, 3}, (const int64_t[]){3, 1});
    torch_key(w, "pair");
    torch_say(w, "(");
    torch_view(w, t, 0, 2, (const int64_t[]){3, 2}, (const int64_t[]){1, 3});
    torch_view(w, t, 1, 1, (const int64_t[]){4}, (const int64_t[]){1});
    torch_say(w, "t u");
    torch_write_zip(w, "tuple.pt", NULL);
    torch_free(w);
    convert_good("tuple.pt", "dcp", &(sw_convert_options){.to = "dcp:ranks=2", .digests = "one"});
    assert_listed("dcp", "one", true);
    convert_good("dcp", "back.pt", &(sw_convert_options){.to = "torch", .digests = "all"});
    assert_listed("back.pt", "all", true);
    assert_listed("tuple.pt", "all", true);
}

static void both_or_none(void **state)
{
    (void)state;
    sw_convert_options options = {.to = "hf", .digests = "list"};
    make_demo("sample");
    harness_write_text("list", "mine");
    assert_refuses("sample", "hf", &options, SW_ERR_EXISTS, "list: exists");
    options.overwrite = true;
    assert_refuses("sample", "hf", &options, SW_ERR_EXISTS, "list: is no digest list");
    harness_remove("list");
    harness_write_text("list/kept", "mine");
    assert_refuses("sample", "hf", &options, SW_ERR_EXISTS, "list: is no digest list");
    assert_true(harness_exists("list/kept"));
    harness_remove("list");
    options.overwrite = false;
    options.digests = "nowhere/list";
    assert_refuses("sample", "hf", &options, SW_ERR_NOTFOUND, "nowhere");
    /* What exists is not touched, and nothing stays of the list. */
    harness_write_text("hf/kept", "mine");
    options.digests = "list";
    outcome o;
    run_convert("sample", "hf", &options, &o);
    assert_run_refused(&o, SW_ERR_EXISTS, "hf: exists", "list");
    outcome_free(&o);
    assert_int_equal(count_partials(".", "list"), 0);
    harness_remove("hf");
    convert_good("sample", "hf", &options);
    options.overwrite = true;
    convert_good("sample", "hf", &options);
    assert_int_equal(count_partials(".", "list"), 0);
    assert_int_equal(count_partials(".", "hf"), 0);
}

static void not_inside(void **state)
{
    (void)state;
    make_demo("sample");
    convert_good("sample", "hf", &(sw_convert_options){.to = "hf"});
    sw_convert_options options = {.to = "hf", .digests = "new", .overwrite = true};
    assert_refuses("sample", "new", &options, SW_ERR_ARG, "new lies in the destination");
    options.digests = "sample/list";
    assert_refuses("sample", "new", &options, SW_ERR_ARG, "lies in the source folder");
    options.digests = "hf/../hf/list";
    outcome o;
    run_convert("sample", "hf", &options, &o);
    assert_run_refused(&o, SW_ERR_ARG, "lies in the destination", "hf/list");
    outcome_free(&o);
    assert_true(harness_exists("hf/model.safetensors"));
}

static void nothing_in_a_dry_run(void **state)
{
    (void)state;
    make_demo("sample");
    convert_good("sample", NULL, &(sw_convert_options){.to = "hf", .dry_run = true});
    outcome o;
    run_convert("sample", NULL,
                &(sw_convert_options){.to = "hf", .dry_run = true, .digests = "list"}, &o);
    assert_fine(&o);
    outcome_free(&o);
    assert_false(harness_exists("list"));
    /* With a destination it says what the run would. */
    sw_convert_options look = {.to = "hf", .dry_run = true, .digests = "list"};
    convert_good("sample", "hf", &(sw_convert_options){.to = "hf", .dry_run = true});
    harness_write_text("list", "mine");
    assert_refuses("sample", "hf", &look, SW_ERR_EXISTS, "list: exists");
    look.overwrite = true;
    assert_refuses("sample", "hf", &look, SW_ERR_EXISTS, "is no digest list");
    look.digests = "sample/list";
    assert_refuses("sample", "hf", &look, SW_ERR_ARG, "lies in the source folder");
}

/* ---- sections -------------------------------------------------------------------------------- */

static const int64_t shape[] = {2, 3};

/* Two models in one file: neither is the one. */
static void write_two(const char *path)
{
    torch_world *w = torch_begin(false);
    torch_say(w, "} (");
    torch_key(w, "model_a");
    torch_say(w, "} (");
    torch_ramp(w, "w", 2, shape, 1);
    torch_say(w, "u");
    torch_key(w, "model_b");
    torch_say(w, "} (");
    torch_ramp(w, "w", 2, shape, 2);
    torch_say(w, "u u");
    torch_write_zip(w, path, NULL);
    torch_free(w);
}

static void hash_of_a_section(void **state)
{
    (void)state;
    sw_digests *d = NULL;
    sw_error err = {0};
    write_two("two.pt");
    assert_int_equal(sw_hash("two.pt", &(sw_hash_options){.weights = true}, NULL, &d, NULL, &err),
                     SW_ERR_CONFLICT);
    assert_error(&err, SW_ERR_CONFLICT, "--section");
    assert_int_equal(sw_hash("two.pt", &(sw_hash_options){.section = "c"}, NULL, &d, NULL, &err),
                     SW_ERR_NOTFOUND);
    assert_error(&err, SW_ERR_NOTFOUND, "--section c");
    const sw_convert_options options = {.to = "hf", .section = "model_b", .digests = "list"};
    convert_good("two.pt", "b", &options);
    assert_same_text("two.pt", &(sw_hash_options){.section = "model_b"}, "list");
    assert_same_text("b", &(sw_hash_options){.weights = true}, "list");
    assert_listed("b", "list", true);
    /* The list does not say where the weights lie in a checkpoint. */
    sw_verify_options verify = {.digests = "list", .section = "model_b"};
    outcome o;
    verify_listed("two.pt", &verify, &o);
    assert_fine(&o);
    assert_int_equal(o.verified.matched_tensors, 1);
    outcome_free(&o);
    verify.section = "model_a";
    verify_listed("two.pt", &verify, &o);
    assert_int_equal(o.status, SW_OK);
    (void)assert_found(&o, SW_DEFECT, "digest-mismatch", NULL, "w", "not those of");
    outcome_free(&o);
}

static uint64_t differences(const char *a, const char *b, const char *section)
{
    const sw_diff_options options = {.section = section};
    sw_diff_summary sum = {0};
    sw_error err = {0};
    assert_ok(sw_diff(a, b, &options, NULL, NULL, NULL, &sum, &err), &err);
    assert_int_equal(sum.compared, 1);
    return sum.differences;
}

static void diff_of_a_section(void **state)
{
    (void)state;
    sw_diff_summary sum;
    sw_error err = {0};
    write_two("two.pt");
    convert_good("two.pt", "b", &(sw_convert_options){.to = "hf", .section = "model_b"});
    assert_int_equal(differences("two.pt", "b", "model_b"), 0);
    assert_int_equal(differences("b", "two.pt", "model_b"), 0);
    assert_int_equal(differences("two.pt", "b", "model_a"), 1);
    assert_int_equal(differences("two.pt", "two.pt", "model_a"), 0);
    const sw_diff_options nowhere = {.section = "nope"};
    assert_int_equal(sw_diff("b", "b", &nowhere, NULL, NULL, NULL, &sum, &err), SW_ERR_NOTFOUND);
    assert_error(&err, SW_ERR_NOTFOUND, "neither side");
    /* Another section is not taken for it. */
    make_demo("sample");
    const sw_diff_options b = {.section = "model_b"};
    assert_int_equal(sw_diff("two.pt", "sample", &b, NULL, NULL, NULL, &sum, &err),
                     SW_ERR_NOTFOUND);
    assert_error(&err, SW_ERR_NOTFOUND, "--section model_b");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        test_here(of_every_target),
        test_here(as_hash_says),
        test_here(of_any_threads_and_memory),
        test_here(names_of_the_destination),
        test_here(of_odd_tensors),
        test_here(of_shared_storages),
        test_here(of_parts_of_values),
        test_here(both_or_none),
        test_here(not_inside),
        test_here(nothing_in_a_dry_run),
        test_here(hash_of_a_section),
        test_here(diff_of_a_section),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
