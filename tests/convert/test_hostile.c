/* Folders that mean harm: paths that leave them, links, pickles that would run code. */
#include "convert/fixture.h"

#include "format/recipe.h"

static const int64_t four[] = {4};

static char *out_of(const char *dir)
{
    return harness_path(dir, "../%s-out", strrchr(dir, '/') + 1);
}

static void make_small(const char *dir)
{
    dcp_world *w = dcp_begin();
    dcp_whole(w, "model/w", 0, 1, four, 0);
    dcp_whole(w, "model/v", 1, 1, four, 0);
    dcp_end(w, dir);
}

/* ---- paths ---------------------------------------------------------------------------------- */

/* A payload that the index places outside the folder, where a file really is. */
static void test_paths_that_escape(void **state)
{
    static const char *const paths[] = {
        "../evil.distcp", "a/../../evil.distcp", "./x.distcp", "a//b.distcp", "", "/etc/passwd"};
    char *dir = *state, *folder = harness_path(dir, "step");
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
        dcp_world *w = dcp_begin();
        snprintf(w->names[0], sizeof w->names[0], "%s", paths[i]);
        dcp_whole(w, "model/w", 0, 1, four, 0);
        harness_write(harness_path(dir, "evil.distcp"), w->files[0].data, w->files[0].size);
        dcp_write_index(w, folder, ".metadata", -1);
        dcp_free(w);
        outcome o;
        run_verify(folder, &o);
        const sw_finding *f = assert_found(&o, SW_DANGER, "unsafe", NULL, NULL, "payload file");
        assert_int_equal(f->status, SW_ERR_UNSAFE);
        assert_non_null(strstr(f->message, ".metadata"));
        outcome_free(&o);
        assert_refuses(folder, out_of(dir), NULL, SW_ERR_UNSAFE, ".metadata");
        sw_convert_options drop = {.to = "hf", .drop_unsafe = true};
        assert_refuses(folder, out_of(dir), &drop, SW_ERR_UNSAFE, ".metadata");
    }
}

static void test_paths_of_an_index_that_escape(void **state)
{
    char *dir = *state, *folder = harness_path(dir, "model");
    write_st_one(harness_path(dir, "evil.safetensors"), "w", 2, 2, 0);
    harness_write_text(harness_path(folder, "model.safetensors.index.json"),
                       "{\"weight_map\":{\"w\":\"../evil.safetensors\"}}");
    outcome o;
    run_verify(folder, &o);
    assert_found(&o, SW_DANGER, "unsafe", NULL, NULL, "model.safetensors.index.json");
    outcome_free(&o);
    assert_refuses(folder, out_of(dir), NULL, SW_ERR_UNSAFE, "evil.safetensors");
}

/* ---- links ---------------------------------------------------------------------------------- */

/* A folder inside that is a link elsewhere: nothing behind it is read. */
static void test_payload_behind_a_linked_folder(void **state)
{
    char *dir = *state, *folder = harness_path(dir, "step");
    dcp_world *w = dcp_begin();
    snprintf(w->names[0], sizeof w->names[0], "sub/x.distcp");
    dcp_whole(w, "model/w", 0, 1, four, 0);
    harness_write(harness_path(dir, "outside/x.distcp"), w->files[0].data, w->files[0].size);
    dcp_write_index(w, folder, ".metadata", -1);
    harness_write_text(harness_path(folder, "note.txt"), "x");
    dcp_free(w);
    assert_int_equal(symlink("../outside", harness_path(folder, "sub")), 0);
    outcome o;
    run_verify(folder, &o);
    assert_true(o.status != SW_OK || bad_findings(&o) > 0);
    outcome_free(&o);
    run_convert(folder, out_of(dir), NULL, &o);
    assert_int_not_equal(o.status, SW_OK);
    assert_contains(o.err.text, "sub");
    assert_false(harness_exists(out_of(dir)));
    outcome_free(&o);
    /* the same as a real folder is fine */
    harness_remove(harness_path(folder, "sub"));
    harness_copy_tree(harness_path(dir, "outside"), harness_path(folder, "sub"));
    assert_ramp(folder, "model.w", 1, four, 0);
}

/* A link to a file is followed (caches are made of them); to what is no file it is not. */
static void test_links_as_payload(void **state)
{
    char *dir = *state, *folder = harness_path(dir, "step");
    char *file = harness_path(folder, "__1_0.distcp");
    make_small(folder);
    assert_int_equal(rename(file, harness_path(dir, "blob")), 0);
    assert_int_equal(symlink("../blob", file), 0);
    outcome o;
    run_verify(folder, &o);
    assert_fine(&o);
    outcome_free(&o);
    static const char *const targets[] = {"/dev/zero", "/dev/null", "../absent", "__1_0.distcp",
                                          "."};
    for (size_t i = 0; i < sizeof targets / sizeof targets[0]; i++) {
        harness_remove(file);
        assert_int_equal(symlink(targets[i], file), 0);
        run_verify(folder, &o);
        assert_true(o.status != SW_OK || bad_findings(&o) > 0);
        assert_found(&o, SW_DEFECT, "missing-file", "__1_0.distcp", NULL, "is missing");
        outcome_free(&o);
        assert_refuses(folder, out_of(dir), NULL, SW_ERR_INCOMPLETE, "__1_0.distcp");
    }
}

/* Reading a pipe would wait for ever. */
static void test_pipe_in_the_folder(void **state)
{
    char *dir = *state, *folder = harness_path(dir, "step");
    make_small(folder);
    assert_int_equal(mkfifo(harness_path(folder, "pipe.pt"), 0600), 0);
    outcome o;
    run_verify(folder, &o);
    assert_fine(&o);
    outcome_free(&o);
    harness_remove(harness_path(folder, ".metadata"));
    assert_int_equal(mkfifo(harness_path(folder, ".metadata"), 0600), 0);
    run_verify(folder, &o);
    assert_found(&o, SW_DEFECT, "incomplete", NULL, NULL, ".metadata is missing");
    outcome_free(&o);
}

static void test_pipe_as_payload(void **state)
{
    char *dir = *state, *folder = harness_path(dir, "step");
    make_small(folder);
    outcome o;
    harness_remove(harness_path(folder, "__0_0.distcp"));
    assert_int_equal(mkfifo(harness_path(folder, "__0_0.distcp"), 0600), 0);
    run_verify(folder, &o);
    assert_found(&o, SW_DEFECT, "missing-file", "__0_0.distcp", NULL,
                 "__0_0.distcp is no regular file: .metadata places");
    outcome_free(&o);
    char *model = harness_path(dir, "hf");
    harness_write_text(harness_path(model, "model.safetensors.index.json"),
                       "{\"weight_map\": {\"w\": \"a.safetensors\", \"v\": \"b.safetensors\"}}");
    write_st_one(harness_path(model, "a.safetensors"), "w", 2, 2, 0);
    assert_int_equal(mkfifo(harness_path(model, "b.safetensors"), 0600), 0);
    run_verify(model, &o);
    assert_found(&o, SW_DEFECT, "missing-file", "b.safetensors", NULL, "and it is no regular file");
    outcome_free(&o);
}

/* What may not be read beside the checkpoint is said, and keeps nothing from being verified. */
static void test_forbidden_beside(void **state)
{
    char *dir = *state, *folder = harness_path(dir, "step");
    bool root = geteuid() == 0;
    char back[4096];
    outcome o;
    make_small(folder);
    harness_write_text(harness_path(folder, "logs/x.txt"), "x");
    harness_write_text(harness_path(folder, "secret.pt"), "x");
    assert_int_equal(chmod(dir, 0755), 0);
    assert_int_equal(chmod(harness_path(folder, "logs"), 0), 0);
    assert_int_equal(chmod(harness_path(folder, "secret.pt"), 0), 0);
    /* root may read everything, and others may not come here but by a relative path */
    assert_non_null(getcwd(back, sizeof back));
    assert_int_equal(chdir(dir), 0);
    if (root)
        assert_int_equal(seteuid(65534), 0);
    run_verify("step", &o);
    if (root)
        assert_int_equal(seteuid(0), 0);
    assert_int_equal(chdir(back), 0);
    (void)chmod(harness_path(folder, "logs"), 0700);
    assert_fine(&o);
    assert_found(&o, SW_WARNING, "unreadable-file", "logs", NULL, "Permission denied");
    assert_found(&o, SW_WARNING, "unreadable-file", "secret.pt", NULL, "Permission denied");
    outcome_free(&o);
}

/* ---- pickles that would run code ------------------------------------------------------------- */

#define EVIL "proto:2 M:posix/system ( 'true' t R ."

static void write_recipe(const char *path, const char *text, bool archive, size_t cut)
{
    swi_buf pickle = {0}, whole = {0};
    recipe(&pickle, text);
    const recipe_record records[] = {{"archive/data.pkl", pickle.data, pickle.size, false},
                                     {"archive/version", "3\n", 2, false},
                                     {0}};
    if (archive)
        recipe_archive(&whole, records);
    const swi_buf *out = archive ? &whole : &pickle;
    assert_true(out->size > cut);
    harness_write(path, out->data, out->size - cut);
    swi_buf_free(&pickle);
    swi_buf_free(&whole);
}

static void expect_danger(const char *folder, const char *file)
{
    outcome o;
    run_verify(folder, &o);
    assert_int_equal(o.status, SW_OK);
    const sw_finding *f = assert_found(&o, SW_DANGER, "unsafe-pickle", file, NULL, "posix.system");
    assert_true(f->has_offset);
    assert_int_equal(sw_report_total(o.report, SW_DANGER), 1);
    outcome_free(&o);
}

/* Side files at any depth, plain and in archives. */
static void test_unsafe_side_files(void **state)
{
    static const char *const places[] = {"rng_state_0.pth", "a/b/c/d/scheduler.pt",
                                         "training_args.bin", "x/.hidden/noname"};
    char *dir = *state, *folder = harness_path(dir, "step");
    make_small(folder);
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        for (int archive = 0; archive < 2; archive++) {
            char *path = harness_path(folder, "%s", places[i]);
            write_recipe(path, EVIL, archive, 0);
            expect_danger(folder, places[i]);
            harness_remove(path);
        }
    }
    /* harmless ones are no finding */
    write_recipe(harness_path(folder, "ok.pt"),
                 "proto:2 M:collections/OrderedDict ) R ( 'lr' 1.5f u .", true, 0);
    outcome o;
    run_verify(folder, &o);
    assert_fine(&o);
    assert_int_equal(sw_report_count(o.report), 0);
    outcome_free(&o);
}

/* The danger is seen although the archive is cut, and a cut one is said. */
static void test_cut_side_archive(void **state)
{
    char *dir = *state, *folder = harness_path(dir, "step");
    make_small(folder);
    write_recipe(harness_path(folder, "rng.pt"), "proto:2 1 .", true, 30);
    outcome o;
    run_verify(folder, &o);
    assert_int_equal(bad_findings(&o), 0);
    assert_found(&o, SW_WARNING, "bad-archive", "rng.pt", NULL,
                 "the archive is cut after 401 bytes");
    outcome_free(&o);
    write_recipe(harness_path(folder, "rng.pt"), EVIL, true, 30);
    run_verify(folder, &o);
    assert_found(&o, SW_DANGER, "unsafe-pickle", "rng.pt", NULL, "posix.system");
    outcome_free(&o);
}

/* A value of the checkpoint: named, refused, and left behind only when that is said. */
static sw_status emit_evil(void *ctx, swi_pickle_writer *w, sw_error *err)
{
    (void)ctx;
    swi_buf pickle = {0};
    recipe(&pickle, "M:posix/system ( 'true' t R");
    sw_status st = swi_buf_append(w->out, pickle.data, pickle.size, err);
    swi_buf_free(&pickle);
    return st;
}

static void test_unsafe_value(void **state)
{
    char *dir = *state, *folder = harness_path(dir, "step");
    dcp_world *w = dcp_begin();
    dcp_whole(w, "model/w", 0, 1, four, 0);
    dcp_object(w, "trainer/args", 1, emit_evil, NULL);
    dcp_end(w, folder);
    outcome o;
    run_verify(folder, &o);
    const sw_finding *f = assert_found(&o, SW_DANGER, "unsafe-pickle", "__1_0.distcp",
                                       "trainer.args", "posix.system");
    assert_true(f->has_offset);
    outcome_free(&o);
    assert_refuses(folder, out_of(dir), NULL, SW_ERR_UNSAFE, "posix.system");
    assert_refuses(folder, out_of(dir), NULL, SW_ERR_UNSAFE, "--drop-unsafe");
    sw_convert_options drop = {.to = "hf", .drop_unsafe = true};
    run_convert(folder, out_of(dir), &drop, &o);
    assert_int_equal(o.status, SW_OK);
    outcome_free(&o);
    assert_ramp(out_of(dir), "w", 1, four, 0);
    harness_remove(out_of(dir));
    sw_checkpoint *c = open_good(folder);
    sw_value_graph *graph = NULL;
    sw_value root;
    sw_error err = {0};
    assert_int_equal(sw_checkpoint_value(c, 0, &graph, &root, &err), SW_ERR_UNSAFE);
    assert_error(&err, SW_ERR_UNSAFE, "posix.system");
    assert_null(graph);
    sw_checkpoint_close(c);
}

/* The index itself. */
static void test_unsafe_index(void **state)
{
    char *dir = *state, *folder = harness_path(dir, "step");
    make_small(folder);
    write_recipe(harness_path(folder, ".metadata"), EVIL, false, 0);
    outcome o;
    run_verify(folder, &o);
    const sw_finding *f =
        assert_found(&o, SW_DANGER, "unsafe-pickle", ".metadata", NULL, "posix.system");
    assert_int_equal(f->offset_bytes, 2);
    outcome_free(&o);
    sw_convert_options drop = {.to = "hf", .drop_unsafe = true};
    assert_refuses(folder, out_of(dir), &drop, SW_ERR_UNSAFE, "posix.system");
}

/* ---- bombs ---------------------------------------------------------------------------------- */

/* Limits of the caller hold for what is opened. */
static void test_limits(void **state)
{
    char *dir = *state, *demo = harness_path(dir, "demo");
    make_demo(demo);
    static const struct {
        sw_limits limits;
        const char *text;
    } rows[] = {
        {{.tensors = 31}, "31"},
        {{.pieces = 100}, "more than 100 chunks"},
        {{.files = 3}, "3"},
        {{.metadata_bytes = 1000}, ".metadata"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        sw_checkpoint *c = NULL;
        sw_error err = {0};
        sw_open_options options = {.limits = &rows[i].limits};
        assert_int_equal(sw_checkpoint_open(demo, &options, NULL, &c, &err), SW_ERR_LIMIT);
        assert_error(&err, SW_ERR_LIMIT, rows[i].text);
        assert_null(c);
    }
    sw_limits enough = {.tensors = 32, .pieces = 103, .files = 5, .metadata_bytes = 20000};
    sw_checkpoint *c = NULL;
    sw_error err = {0};
    sw_open_options options = {.limits = &enough};
    assert_ok(sw_checkpoint_open(demo, &options, NULL, &c, &err), &err);
    sw_checkpoint_close(c);
}

/* A tensor that says it is huge costs nothing until somebody reads it. */
static void test_huge_shapes(void **state)
{
    char *dir = *state, *folder = harness_path(dir, "step");
    dcp_world *w = dcp_begin();
    dcp_item *it = dcp_tensor(w, "model/w", 2, (const int64_t[]){4, 2}, 0);
    dcp_chunk(w, it, 0, (const int64_t[]){0, 0}, (const int64_t[]){4, 2});
    it->shape[0] = INT64_C(1) << 40;
    dcp_end(w, folder);
    outcome o;
    run_verify(folder, &o);
    assert_found(&o, SW_DEFECT, "hole", NULL, "model.w", "8 of 2199023255552");
    outcome_free(&o);
    w = dcp_begin();
    it = dcp_tensor(w, "model/w", 2, (const int64_t[]){4, 2}, 0);
    dcp_chunk(w, it, 0, (const int64_t[]){0, 0}, (const int64_t[]){4, 2});
    it->shape[0] = it->shape[1] = INT64_C(1) << 40;
    dcp_end(w, folder);
    run_verify(folder, &o);
    assert_true(o.status != SW_OK || bad_findings(&o) > 0);
    outcome_free(&o);
    run_convert(folder, out_of(dir), NULL, &o);
    assert_int_not_equal(o.status, SW_OK);
    assert_contains(o.err.text, "model.w");
    outcome_free(&o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        test_in_dir(test_paths_that_escape),
        test_in_dir(test_paths_of_an_index_that_escape),
        test_in_dir(test_payload_behind_a_linked_folder),
        test_in_dir(test_links_as_payload),
        test_in_dir(test_pipe_in_the_folder),
        test_in_dir(test_pipe_as_payload),
        test_in_dir(test_forbidden_beside),
        test_in_dir(test_unsafe_side_files),
        test_in_dir(test_cut_side_archive),
        test_in_dir(test_unsafe_value),
        test_in_dir(test_unsafe_index),
        test_in_dir(test_limits),
        test_in_dir(test_huge_shapes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
