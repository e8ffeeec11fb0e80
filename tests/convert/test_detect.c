/* Which checkpoint lies at a path: by content, never by a first guess. */
#include "convert/fixture.h"

static void make_small_dcp(const char *dir, float base)
{
    dcp_world *w = dcp_begin();
    dcp_whole(w, "model/w", 0, 1, (const int64_t[]){4}, base);
    dcp_end(w, dir);
}

static void expect_root(const char *path, const char *framework, const char *root, bool said)
{
    outcome o;
    run_verify(path, &o);
    assert_fine(&o);
    assert_string_equal(o.verified.framework, framework);
    assert_string_equal(o.verified.root, root);
    assert_int_equal(find_finding(&o, "other-folder", NULL, NULL) != NULL, said);
    outcome_free(&o);
}

static void expect_error(const char *path, const char *from, sw_status status, const char *text)
{
    sw_checkpoint *c = NULL;
    sw_error err = {0};
    sw_open_options options = {.from = from};
    assert_int_equal(sw_checkpoint_open(path, &options, NULL, &c, &err), status);
    assert_error(&err, status, text);
    assert_null(c);
}

static void test_optimizer_folders_stand_back(void **state)
{
    char *run = *state;
    make_small_dcp(harness_path(run, "optimizer_0"), 100);
    make_small_dcp(harness_path(run, "pytorch_model_fsdp_0"), 0);
    char *model = harness_path(run, "pytorch_model_fsdp_0");
    /* of one trainer they are parts of one checkpoint, else the model is taken */
    expect_root(run, "trainer", run, false);
    assert_ramp(run, "model.w", 1, (const int64_t[]){4}, 0);
    assert_int_equal(rename(model, harness_path(run, "weights")), 0);
    model = harness_path(run, "weights");
    expect_root(run, "dcp", model, true);
    assert_ramp(run, "model.w", 1, (const int64_t[]){4}, 0);
    /* with a model that sorts before, and with the optimizer alone */
    harness_remove(model);
    expect_root(run, "dcp", harness_path(run, "optimizer_0"), true);
    make_small_dcp(harness_path(run, "a-model"), 7);
    expect_root(run, "dcp", harness_path(run, "a-model"), true);
}

static void test_two_models_are_named(void **state)
{
    char *run = *state;
    make_small_dcp(harness_path(run, "step-9"), 0);
    make_small_dcp(harness_path(run, "step-10"), 0);
    expect_error(run, NULL, SW_ERR_CONFLICT, "holds several checkpoints (step-10, step-9)");
    assert_refuses(run, harness_path(run, "out"), NULL, SW_ERR_CONFLICT, "step-10, step-9");
}

static void test_many_models_are_counted(void **state)
{
    char *run = *state;
    for (int i = 0; i < 12; i++)
        make_small_dcp(harness_path(run, "step-%02d", i), 0);
    expect_error(run, NULL, SW_ERR_CONFLICT, "step-07, ...");
}

static void test_two_claims_need_from(void **state)
{
    char *dir = *state;
    make_small_dcp(dir, 5);
    write_st_one(harness_path(dir, "model.safetensors"), "v", 2, 2, 0);
    expect_error(dir, NULL, SW_ERR_CONFLICT, "holds both a dcp and a hf checkpoint");
    expect_error(dir, NULL, SW_ERR_CONFLICT, "--from dcp or --from hf");
    expect_error(dir, "nonsense", SW_ERR_ARG, "--from nonsense: no framework");
    sw_checkpoint *c = NULL;
    sw_error err = {0};
    sw_open_options options = {.from = "hf"};
    assert_ok(sw_checkpoint_open(dir, &options, NULL, &c, &err), &err);
    assert_string_equal(sw_checkpoint_framework(c), "hf");
    assert_string_equal(sw_checkpoint_title(c), "Hugging Face safetensors");
    sw_checkpoint_close(c);
    options.from = "dcp";
    assert_ok(sw_checkpoint_open(dir, &options, NULL, &c, &err), &err);
    assert_string_equal(sw_checkpoint_framework(c), "dcp");
    sw_checkpoint_close(c);
    /* a file is of one kind, whatever lies beside it */
    expect_root(harness_path(dir, ".metadata"), "dcp", dir, true);
    expect_root(harness_path(dir, "model.safetensors"), "hf", dir, false);
    /* and so one level down */
    expect_error(harness_path(dir, ".."), NULL, SW_ERR_CONFLICT, "holds both a dcp and a hf");
}

/* A file that is a checkpoint by itself is not mixed with its neighbours. */
static void test_lone_file(void **state)
{
    char *dir = *state;
    write_st_one(harness_path(dir, "a.safetensors"), "w", 2, 2, 0);
    write_st_one(harness_path(dir, "b.safetensors"), "w", 2, 2, 50);
    assert_ramp(harness_path(dir, "b.safetensors"), "w", 2, (const int64_t[]){2, 2}, 50);
    assert_ramp(harness_path(dir, "a.safetensors"), "w", 2, (const int64_t[]){2, 2}, 0);
    outcome o;
    run_verify(harness_path(dir, "b.safetensors"), &o);
    assert_fine(&o);
    assert_int_equal(o.verified.files, 1);
    outcome_free(&o);
    run_verify(dir, &o);
    assert_found(&o, SW_DEFECT, "duplicate-tensor", "b.safetensors", "w", "a.safetensors");
    outcome_free(&o);
}

static void test_in_the_working_directory(void **state)
{
    char *dir = *state;
    char back[4096];
    assert_non_null(getcwd(back, sizeof back));
    write_st_one(harness_path(dir, "a.safetensors"), "w", 2, 2, 3);
    make_small_dcp(harness_path(dir, "sub"), 0);
    assert_int_equal(chdir(dir), 0);
    expect_root("a.safetensors", "hf", ".", false);
    expect_root("./a.safetensors", "hf", ".", false);
    expect_root("sub", "dcp", "sub", false);
    expect_root("sub///", "dcp", "sub", false);
    expect_root("sub//.metadata", "dcp", "sub", true);
    assert_int_equal(chdir(back), 0);
}

static void test_nothing_there(void **state)
{
    char *dir = *state;
    expect_error(harness_path(dir, "absent"), NULL, SW_ERR_NOTFOUND, "absent");
    expect_error(dir, NULL, SW_ERR_FORMAT, "no checkpoint of a known kind here");
    expect_error(dir, "hf", SW_ERR_INCOMPLETE, "none of its safetensors files is there");
    harness_write_text(harness_path(dir, "sub/readme.txt"), "no weights\n");
    expect_error(harness_path(dir, "sub/readme.txt"), NULL, SW_ERR_FORMAT, "readme.txt");
    expect_error("", NULL, SW_ERR_ARG, "empty");
    outcome o;
    run_verify(dir, &o);
    assert_run_refused(&o, SW_ERR_FORMAT, "no checkpoint of a known kind", NULL);
    outcome_free(&o);
}

/* A link to the folder is the user's own path; a folder behind a link is no child. */
static void test_links(void **state)
{
    char *dir = *state;
    make_small_dcp(harness_path(dir, "real"), 0);
    assert_int_equal(symlink("real", harness_path(dir, "link")), 0);
    expect_root(harness_path(dir, "link"), "dcp", harness_path(dir, "link"), false);
    expect_root(dir, "dcp", harness_path(dir, "real"), true);
    assert_int_equal(symlink("loop", harness_path(dir, "loop")), 0);
    expect_error(harness_path(dir, "loop"), NULL, SW_ERR_IO, "loop");
}

/* What lies beside a whole checkpoint is not asked. */
static void test_whole_here_wins_over_children(void **state)
{
    char *dir = *state;
    make_small_dcp(dir, 0);
    make_small_dcp(harness_path(dir, "older"), 9);
    expect_root(dir, "dcp", dir, false);
    /* but remains give way to a whole child */
    harness_remove(harness_path(dir, ".metadata"));
    expect_root(dir, "dcp", harness_path(dir, "older"), true);
    harness_remove(harness_path(dir, "older"));
    expect_error(dir, NULL, SW_ERR_INCOMPLETE, ".metadata is missing");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        test_in_dir(test_optimizer_folders_stand_back),
        test_in_dir(test_two_models_are_named),
        test_in_dir(test_many_models_are_counted),
        test_in_dir(test_two_claims_need_from),
        test_in_dir(test_lone_file),
        test_in_dir(test_in_the_working_directory),
        test_in_dir(test_nothing_there),
        test_in_dir(test_links),
        test_in_dir(test_whole_here_wins_over_children),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
