/* Verifying some tensors, or a part of the work; and the account of what was not checked. */
#include "fixture.h"

#define PARTS 5

typedef struct account {
    uint64_t files, bytes, checked, differing, without, left_out, other;
    char other_path[128]; /* a file of which nothing is anything else */
} account;

static void on_file(void *ctx, const sw_verify_file *file)
{
    account *a = ctx;
    assert_int_equal(file->checked + file->differing + file->without + file->left_out + file->other,
                     file->bytes);
    a->files++;
    a->bytes += file->bytes;
    a->checked += file->checked;
    a->differing += file->differing;
    a->without += file->without;
    a->left_out += file->left_out;
    a->other += file->other;
    if (file->other == file->bytes)
        snprintf(a->other_path, sizeof a->other_path, "%s", file->path);
}

static void verify_with(const char *path, const sw_verify_options *options, account *a, outcome *o)
{
    sw_verify_options given = *options;
    *a = (account){0};
    given.on_file = on_file;
    given.file_ctx = a;
    outcome_begin(o);
    o->status = sw_verify(path, &given, o->report, &o->verified, &o->err);
    sw_report_sort(o->report);
    if (o->status == SW_OK) {
        assert_int_equal(a->without, o->verified.without.bytes);
        assert_int_equal(a->left_out, o->verified.left_out.bytes);
        assert_int_equal(a->other, o->verified.other_bytes);
    }
}

/* A demo in the test's folder. */
static const char *demo_of(void **state)
{
    const char *path = harness_path(*state, "demo");
    make_demo(path);
    return path;
}

/* The demo has CRCs for all its tensors, and an index that nothing vouches for. */
static void test_all_of_it(void **state)
{
    account a;
    outcome o;
    const char *demo = demo_of(state);
    harness_write_text(harness_path(demo, "notes.txt"), "hello");
    verify_with(demo, &(sw_verify_options){0}, &a, &o);
    assert_fine(&o);
    assert_int_equal(o.verified.left_out.bytes + o.verified.left_out.tensors, 0);
    assert_int_equal(o.verified.without.bytes, 0);
    assert_true(a.checked > 0 && a.other > 0);
    assert_string_equal(a.other_path, "notes.txt");
    outcome_free(&o);
    const uint64_t bytes = a.bytes;
    verify_with(demo, &(sw_verify_options){.level = SW_LEVEL_COVERAGE}, &a, &o);
    assert_fine(&o);
    assert_int_equal(a.left_out, bytes);
    assert_int_equal(o.verified.left_out.tensors, o.verified.tensors);
    assert_int_equal(o.verified.left_out.values, o.verified.values);
    outcome_free(&o);
}

/* All parts together check what all of it does, each record once. */
static void test_parts_make_the_whole(void **state)
{
    account a;
    outcome o;
    const char *demo = demo_of(state);
    verify_with(demo, &(sw_verify_options){0}, &a, &o);
    const sw_tally all = o.verified.tally;
    outcome_free(&o);
    uint64_t read = 0, checked = 0;
    for (uint64_t i = 1; i <= PARTS; i++) {
        verify_with(demo, &(sw_verify_options){.part = i, .parts = PARTS}, &a, &o);
        assert_fine(&o);
        assert_true(a.left_out > 0);
        assert_int_equal(a.other > 0, i == 1);
        read += o.verified.tally.read_bytes;
        checked += o.verified.tally.checked_bytes;
        outcome_free(&o);
    }
    assert_int_equal(read, all.read_bytes);
    assert_int_equal(checked, all.checked_bytes);
}

static uint64_t parts_that_find(const char *path)
{
    uint64_t found = 0;
    for (uint64_t i = 1; i <= PARTS; i++) {
        account a;
        outcome o;
        verify_with(path, &(sw_verify_options){.part = i, .parts = PARTS}, &a, &o);
        assert_int_equal(o.status, SW_OK);
        found += bad_findings(&o) > 0;
        assert_int_equal(a.differing > 0, bad_findings(&o) > 0);
        outcome_free(&o);
    }
    return found;
}

/* What is wrong in a record, one part tells. */
static void test_one_part_finds_it(void **state)
{
    const char *demo = demo_of(state);
    harness_flip_bit(harness_path(demo, "__2_0.distcp"), 8 * 2000);
    assert_int_equal(parts_that_find(demo), 1);
}

/* A checkpoint of which every byte is under a digest: each part leaves out what another has. */
static void test_native(void **state)
{
    const char *demo = demo_of(state), *native = harness_path(*state, "native");
    const char *shard = harness_path(native, "rank-00001-of-00002.sws");
    account a;
    outcome o;
    run_convert(demo, native, &(sw_convert_options){.to = "native:ranks=2"}, &o);
    assert_fine(&o);
    outcome_free(&o);
    uint64_t checked = 0, files = 0;
    for (uint64_t i = 1; i <= PARTS; i++) {
        verify_with(native, &(sw_verify_options){.part = i, .parts = PARTS}, &a, &o);
        assert_fine(&o);
        assert_int_equal(a.other + a.without, 0);
        assert_int_equal(a.checked + a.left_out, a.bytes);
        checked += a.checked;
        files = a.bytes;
        outcome_free(&o);
    }
    assert_int_equal(checked, files);                          /* each byte once */
    harness_flip_bit(shard, 8 * harness_file_size(shard) / 2); /* in a chunk */
    assert_int_equal(parts_that_find(native), 1);
}

/* A damaged tensor is found where it is named, and nowhere else. */
static void test_tensors(void **state)
{
    account a;
    outcome o;
    const char *demo = demo_of(state);
    harness_flip_bit(harness_path(demo, "__0_0.distcp"), 8 * 2000);
    verify_with(demo, &(sw_verify_options){0}, &a, &o);
    assert_int_equal(bad_findings(&o), 1);
    char damaged[256];
    snprintf(damaged, sizeof damaged, "%s", sw_report_at(o.report, 0)->tensor);
    const uint64_t tensors = o.verified.tensors;
    outcome_free(&o);
    sw_checkpoint *c = open_good(demo);
    for (size_t i = 0; i < tensors; i++) {
        sw_tensor_info info;
        assert_true(sw_catalog_tensor(sw_checkpoint_catalog(c), i, &info));
        const char *const one[] = {info.name, NULL};
        verify_with(demo, &(sw_verify_options){.tensors = one}, &a, &o);
        assert_int_equal(o.status, SW_OK);
        assert_int_equal(bad_findings(&o), strcmp(info.name, damaged) == 0);
        assert_int_equal(a.differing > 0, strcmp(info.name, damaged) == 0);
        assert_int_equal(o.verified.chosen_tensors, 1);
        assert_int_equal(o.verified.left_out.tensors, tensors - 1);
        assert_int_equal(o.verified.left_out.values, o.verified.values);
        assert_int_equal(a.other, 0);
        outcome_free(&o);
    }
    sw_checkpoint_close(c);
}

static void test_patterns_that_meet_nothing(void **state)
{
    account a;
    outcome o;
    const char *demo = demo_of(state);
    const char *const globs[] = {"*", "nowhere.*", NULL};
    verify_with(demo, &(sw_verify_options){.tensors = globs}, &a, &o);
    assert_fine(&o);
    assert_found(&o, SW_WARNING, "unmatched-glob", NULL, NULL, "--tensors \"nowhere.*\"");
    assert_false(o.verified.nothing_chosen);
    outcome_free(&o);
    verify_with(demo, &(sw_verify_options){.tensors = globs + 1}, &a, &o);
    assert_fine(&o);
    assert_true(o.verified.nothing_chosen);
    assert_int_equal(o.verified.tally.read_bytes, 0);
    outcome_free(&o);
}

static void test_refused(void **state)
{
    const char *const all[] = {"*", NULL};
    account a;
    outcome o;
    const char *demo = demo_of(state);
    verify_with(demo, &(sw_verify_options){.part = 4, .parts = 3}, &a, &o);
    assert_run_refused(&o, SW_ERR_ARG, "no such part", NULL);
    outcome_free(&o);
    verify_with(demo, &(sw_verify_options){.part = 0, .parts = 3}, &a, &o);
    assert_run_refused(&o, SW_ERR_ARG, "no such part", NULL);
    outcome_free(&o);
    verify_with(demo, &(sw_verify_options){.tensors = all, .digests = "list"}, &a, &o);
    assert_run_refused(&o, SW_ERR_ARG, "of a whole checkpoint", NULL);
    outcome_free(&o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        test_in_dir(test_all_of_it),         test_in_dir(test_parts_make_the_whole),
        test_in_dir(test_one_part_finds_it), test_in_dir(test_native),
        test_in_dir(test_tensors),           test_in_dir(test_patterns_that_meet_nothing),
        test_in_dir(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
