/* Runs: which folders are one, their checkpoints, and what points at the latest (specs/cli.md). */
#include "convert/fixture.h"

#include "run/step_name.h"

/* ---- names --------------------------------------------------------------------------------- */

static void numbers_in_names(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        swi_step_unit unit;
        int64_t number;
        bool counted, unfinished;
    } cases[] = {
        {"step-10", SWI_UNIT_STEP, 10, true, false},
        {"step_0000900", SWI_UNIT_STEP, 900, true, false},
        {"global_step100", SWI_UNIT_STEP, 100, true, false},
        {"iter_0000300", SWI_UNIT_STEP, 300, true, false},
        {"checkpoint-500", SWI_UNIT_STEP, 500, false, false},
        {"Checkpoint 7", SWI_UNIT_STEP, 7, false, false},
        {"ckpt-7.pt", SWI_UNIT_STEP, 7, false, false},
        {"epoch=3-step=100.ckpt", SWI_UNIT_STEP, 100, true, false},
        {"epoch=3-step=100-v1.ckpt", SWI_UNIT_STEP, 100, true, false},
        {"epoch=03-val_loss=0.12.ckpt", SWI_UNIT_EPOCH, 3, false, false},
        {"checkpoint-epoch-4", SWI_UNIT_EPOCH, 4, false, false},
        {"checkpoint_4-step_90", SWI_UNIT_STEP, 90, true, false},
        {"steps-12", SWI_UNIT_STEP, 12, true, false},
        {"1000", SWI_UNIT_STEP, 1000, false, false},
        {"tmp-checkpoint-500", SWI_UNIT_STEP, 500, false, true},
        {"tmp_step-3", SWI_UNIT_STEP, 3, true, true},
        {"step-20.tmp", SWI_UNIT_STEP, 20, true, true},
        {"step-20.partial-1f", SWI_UNIT_STEP, 20, true, true},
        {"step-20_incomplete", SWI_UNIT_STEP, 20, true, true},
        {"step-final", SWI_UNIT_NONE, -1, false, false},
        {"step10k", SWI_UNIT_NONE, -1, false, false},
        {"pytorch_model_fsdp_0", SWI_UNIT_NONE, -1, false, false},
        {"best", SWI_UNIT_NONE, -1, false, false},
        {"template", SWI_UNIT_NONE, -1, false, false},
        {"step-9999999999999999999", SWI_UNIT_NONE, -1, false, false},
        {"", SWI_UNIT_NONE, -1, false, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        swi_step_name s;
        swi_step_of_name(cases[i].name, &s);
        if (s.unit != cases[i].unit || s.number != cases[i].number ||
            s.counted != cases[i].counted || s.unfinished != cases[i].unfinished)
            fail_msg("%s: unit %d, number %lld, counted %d, unfinished %d", cases[i].name,
                     (int)s.unit, (long long)s.number, s.counted, s.unfinished);
    }
}

/* ---- audits -------------------------------------------------------------------------------- */

typedef struct audit {
    outcome o;
    sw_run *run;
} audit;

static void audit_free(audit *a)
{
    sw_run_free(a->run);
    outcome_free(&a->o);
}

static void audit_run(const char *path, bool always, audit *a)
{
    a->run = NULL;
    outcome_begin(&a->o);
    a->o.status = sw_run_audit(path, NULL, always, a->o.report, &a->run, &a->o.err);
    sw_report_sort(a->o.report);
}

static void audit_good(const char *path, audit *a)
{
    audit_run(path, false, a);
    assert_ok(a->o.status, &a->o.err);
    assert_non_null(a->run);
}

static void expect_no_run(const char *path)
{
    audit a;
    audit_run(path, false, &a);
    assert_ok(a.o.status, &a.o.err);
    assert_null(a.run);
    audit_free(&a);
}

/* Names in order, each with the first letter of its state, in upper case when not complete. */
static void expect_checkpoints(const audit *a, const char *want)
{
    char text[1024] = "";
    sw_run_checkpoint c;
    for (size_t i = 0; sw_run_at(a->run, i, &c); i++) {
        size_t n = strlen(text);
        snprintf(text + n, sizeof text - n, "%s%s%s", i > 0 ? " " : "", c.name,
                 (const char *[]){"?", "", ":incomplete", ":unsafe", ":unfinished",
                                  ":unknown"}[c.state]);
        assert_int_equal(c.why[0] == '\0', c.state == SW_RUN_COMPLETE);
    }
    assert_string_equal(text, want);
}

static void expect_newest(const audit *a, const char *newest, const char *complete)
{
    sw_run_checkpoint c = {.name = "none"};
    if (sw_run_newest(a->run) >= 0)
        assert_true(sw_run_at(a->run, (size_t)sw_run_newest(a->run), &c));
    assert_string_equal(c.name, newest);
    c.name = "none";
    if (sw_run_newest_complete(a->run) >= 0)
        assert_true(sw_run_at(a->run, (size_t)sw_run_newest_complete(a->run), &c));
    assert_string_equal(c.name, complete);
}

static void expect_pointer(const audit *a, const char *name, const char *to,
                           sw_pointer_verdict verdict)
{
    sw_run_pointer p;
    for (size_t i = 0; sw_run_pointer_at(a->run, i, &p); i++) {
        if (strcmp(p.name, name) != 0)
            continue;
        assert_string_equal(p.to, to);
        assert_int_equal(p.verdict, verdict);
        return;
    }
    fail_msg("no pointer %s", name);
}

static void put_step(const char *run, const char *name)
{
    dcp_world *w = dcp_begin();
    dcp_whole(w, "model/w", 0, 1, (const int64_t[]){4}, 0);
    dcp_whole(w, "model/v", 1, 1, (const int64_t[]){4}, 9);
    dcp_end(w, harness_path(run, "%s", name));
}

static void put_folder(const char *run, const char *name)
{
    char *file = harness_path(run, "%s/x", name);
    harness_write_text(file, "");
    harness_remove(file);
}

/* Q1, Q3: numbers are numbers, the newest is not complete, and a pointer runs ahead. */
static void newest_is_not_complete(void **state)
{
    char *run = *state;
    audit a;
    put_step(run, "step-9");
    put_step(run, "step-10");
    put_step(run, "step-2");
    put_step(run, "step-20");
    put_step(run, "step-final");
    put_folder(run, "logs");
    audit_good(run, &a);
    assert_fine(&a.o);
    expect_checkpoints(&a, "step-2 step-9 step-10 step-20 step-final");
    expect_newest(&a, "step-20", "step-20");
    audit_free(&a);

    harness_remove(harness_path(run, "step-20/.metadata"));
    harness_write_text(harness_path(run, "latest"), "step-20\n");
    audit_good(run, &a);
    expect_checkpoints(&a, "step-2 step-9 step-10 step-20:incomplete step-final");
    expect_newest(&a, "step-20", "step-10");
    assert_found(&a.o, SW_DEFECT, "incomplete-checkpoint", "step-20", NULL, ".metadata is missing");
    assert_found(&a.o, SW_DEFECT, "pointer-incomplete", "latest", NULL,
                 "it names step-20, which is not complete; the newest complete one is step-10");
    expect_pointer(&a, "latest", "step-20", SW_POINTER_INCOMPLETE);
    assert_int_equal(bad_findings(&a.o), 2);
    audit_free(&a);
}

/* Each way in which a step is not complete, newest and not. */
static void ways_of_not_being_complete(void **state)
{
    char *run = *state;
    audit a;
    put_step(run, "step-1");
    put_step(run, "step-2");
    put_step(run, "step-3");
    harness_truncate(harness_path(run, "step-1/__1_0.distcp"), 0);
    harness_remove(harness_path(run, "step-2/__0_0.distcp"));
    put_folder(run, "step-4");
    harness_write_text(harness_path(run, "step-5/.metadata.tmp"), "x");
    put_step(run, "tmp_step-6");
    put_step(run, "tmp-other");
    put_folder(run, "eval_step-7");
    audit_good(run, &a);
    expect_checkpoints(&a, "step-1:incomplete step-2:incomplete step-3 step-4:incomplete "
                           "step-5:incomplete tmp_step-6:unfinished tmp-other:unfinished");
    expect_newest(&a, "step-5", "step-3");
    assert_found(&a.o, SW_WARNING, "incomplete-checkpoint", "step-1", NULL, "__1_0.distcp");
    assert_found(&a.o, SW_WARNING, "incomplete-checkpoint", "step-2", NULL, "(and 1 more)");
    assert_found(&a.o, SW_WARNING, "incomplete-checkpoint", "step-4", NULL, "no checkpoint");
    assert_found(&a.o, SW_DEFECT, "incomplete-checkpoint", "step-5", NULL, "no checkpoint");
    assert_found(&a.o, SW_NOTE, "unfinished-checkpoint", "tmp_step-6", NULL, "not finished");
    assert_int_equal(bad_findings(&a.o), 1);
    audit_free(&a);
}

static void pointers_of_every_kind(void **state)
{
    char *run = *state;
    audit a;
    put_step(run, "iter_0000100");
    put_step(run, "iter_0000200");
    harness_write_text(harness_path(run, "latest_checkpointed_iteration.txt"), "300");
    harness_write_text(harness_path(run, "latest"), "");
    harness_write_text(harness_path(run, "latest.txt"), "\xEF\xBB\xBF /runs/a/iter_0000200/ \r\n");
    harness_write_text(harness_path(run, "last_checkpoint"), "100");
    harness_write_text(harness_path(run, "latest_universal"), "100");
    harness_write_text(harness_path(run, "latest_loss.txt"), "0.5");
    assert_int_equal(symlink("iter_0000200", harness_path(run, "last")), 0);
    assert_int_equal(symlink("iter_0000100/", harness_path(run, "best")), 0);
    assert_int_equal(symlink("/nowhere/iter_0000200", harness_path(run, "latest-link")), 0);
    assert_int_equal(symlink("/", harness_path(run, "latest-out")), 0);
    assert_int_equal(symlink("/", harness_path(run, "data")), 0);
    audit_good(run, &a);
    expect_checkpoints(&a, "iter_0000100 iter_0000200");
    expect_pointer(&a, "latest_checkpointed_iteration.txt", "", SW_POINTER_MISSING);
    expect_pointer(&a, "latest", "", SW_POINTER_MISSING);
    expect_pointer(&a, "latest.txt", "iter_0000200", SW_POINTER_TRUE);
    expect_pointer(&a, "last_checkpoint", "iter_0000100", SW_POINTER_BEHIND);
    expect_pointer(&a, "latest_universal", "iter_0000100", SW_POINTER_TRUE);
    expect_pointer(&a, "last", "iter_0000200", SW_POINTER_TRUE);
    expect_pointer(&a, "best", "iter_0000100", SW_POINTER_TRUE);
    expect_pointer(&a, "latest-link", "", SW_POINTER_MISSING);
    expect_pointer(&a, "latest-out", "", SW_POINTER_UNKNOWN);
    assert_found(&a.o, SW_DEFECT, "pointer-missing", "latest_checkpointed_iteration.txt", NULL,
                 "it names 300, which is not there; the newest complete one is iter_0000200");
    assert_found(&a.o, SW_DEFECT, "pointer-missing", "latest", NULL, "empty");
    assert_found(&a.o, SW_DEFECT, "pointer-missing", "latest-link", NULL, "not there");
    assert_found(&a.o, SW_DEFECT, "pointer-behind", "last_checkpoint", NULL, "it names 100");
    assert_found(&a.o, SW_WARNING, "pointer-unknown", "latest-out", NULL, "could not be judged");
    assert_int_equal(bad_findings(&a.o), 4);
    sw_run_pointer p;
    assert_true(sw_run_pointer_at(a.run, 8, &p));
    assert_false(sw_run_pointer_at(a.run, 9, &p));
    audit_free(&a);
}

static void put_trainer_state(const char *folder, const char *text)
{
    harness_write_text(harness_path(folder, "trainer_state.json"), text);
}

/* Folders of Hugging Face's Trainer: its own step and its best checkpoint. */
static void trainer_folders(void **state)
{
    char *run = *state;
    audit a;
    for (int i = 500; i <= 1500; i += 500) {
        char *folder = harness_path(run, "checkpoint-%d", i);
        write_st_one(harness_path(folder, "model.safetensors"), "w", 2, 2, 0);
    }
    put_trainer_state(harness_path(run, "checkpoint-500"), "{\"global_step\": 400}");
    put_trainer_state(
        harness_path(run, "checkpoint-1000"),
        "{\"log_history\": [{\"loss\": NaN, \"global_step\": 7}], \"global_step\": 1000}");
    put_trainer_state(harness_path(run, "checkpoint-1500"),
                      "{\"best_model_checkpoint\": \"out/checkpoint-500\", \"global_step\": 1400}");
    put_trainer_state(run, "{\"best_model_checkpoint\": \"out/checkpoint-7\"}");
    audit_good(run, &a);
    assert_fine(&a.o);
    expect_checkpoints(&a, "checkpoint-500 checkpoint-1000 checkpoint-1500");
    sw_run_checkpoint c;
    assert_true(sw_run_at(a.run, 1, &c));
    assert_true(c.has_step && c.step == 1000 && c.has_number && c.number == 1000);
    assert_string_equal(c.framework, "hf");
    assert_found(&a.o, SW_WARNING, "step-differs", "checkpoint-1500/trainer_state.json", NULL,
                 "checkpoint-1500 is of step 1500 by its name, and of step 1400");
    expect_pointer(&a, "checkpoint-1500/trainer_state.json", "checkpoint-500", SW_POINTER_TRUE);
    expect_pointer(&a, "trainer_state.json", "", SW_POINTER_MISSING);
    assert_found(&a.o, SW_NOTE, "pointer-missing", "trainer_state.json", NULL, "checkpoint-7");
    audit_free(&a);
    outcome o;
    run_verify(harness_path(run, "checkpoint-500/"), &o);
    assert_fine(&o);
    assert_true(o.verified.has_step && o.verified.step == 400);
    assert_found(&o, SW_WARNING, "step-differs", "trainer_state.json", NULL, "of step 400");
    outcome_free(&o);
    /* a finished model beside them is a checkpoint, unless told otherwise */
    write_st_one(harness_path(run, "model.safetensors"), "w", 2, 2, 0);
    expect_no_run(run);
    audit_run(run, true, &a);
    assert_ok(a.o.status, &a.o.err);
    expect_newest(&a, "checkpoint-1500", "checkpoint-1500");
    audit_free(&a);
}

/* One file a step, as Lightning writes. */
static void files_of_torch(void **state)
{
    char *run = *state;
    audit a;
    sw_error err = {0};
    const float data[2] = {1, 2};
    swi_buf out = {0};
    assert_ok(swi_torch_write_tensor(&out, SW_F32, 1, (const int64_t[]){2}, data, &err), &err);
    static const char *const names[] = {"epoch=1-step=90.ckpt", "epoch=2-step=180.ckpt",
                                        "last.ckpt", "other.pt"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        harness_write(harness_path(run, "%s", names[i]), out.data, out.size);
    harness_write_text(harness_path(run, "hparams.yaml"), "lr: 1\n");
    audit_good(run, &a);
    assert_fine(&a.o);
    expect_checkpoints(&a, "epoch=1-step=90.ckpt epoch=2-step=180.ckpt last.ckpt");
    expect_newest(&a, "epoch=2-step=180.ckpt", "epoch=2-step=180.ckpt");
    audit_free(&a);
    harness_truncate(harness_path(run, "%s", names[1]), out.size / 2);
    audit_good(run, &a);
    expect_newest(&a, names[1], names[0]);
    assert_found(&a.o, SW_DEFECT, "incomplete-checkpoint", names[1], NULL, "");
    audit_free(&a);
    swi_buf_free(&out);
}

static void what_is_a_run(void **state)
{
    char *dir = *state;
    audit a;
    expect_no_run(dir);
    put_step(dir, "a/checkpoint/step-5");
    put_folder(dir, "a/tb");
    char *one = harness_path(dir, "a/checkpoint");
    expect_no_run(one); /* one step: it is seen through */
    expect_no_run(harness_path(one, "step-5"));
    harness_write_text(harness_path(one, "latest"), "step-5");
    audit_good(one, &a); /* but for a pointer */
    expect_checkpoints(&a, "step-5");
    audit_free(&a);
    harness_remove(harness_path(one, "latest"));
    put_step(dir, "a/checkpoint/step-6");
    audit_good(harness_path(dir, "a"), &a); /* one level too high */
    expect_newest(&a, "step-6", "step-6");
    assert_string_equal(sw_run_root(a.run), one);
    assert_found(&a.o, SW_NOTE, "other-folder", NULL, NULL, "using");
    audit_free(&a);
    /* optimizer folders stand back, names without numbers count all */
    put_step(dir, "b/model_0");
    put_step(dir, "b/optimizer_0");
    expect_no_run(harness_path(dir, "b"));
    put_step(dir, "b/best");
    audit_good(harness_path(dir, "b/"), &a);
    expect_checkpoints(&a, "best model_0");
    expect_newest(&a, "none", "none");
    audit_free(&a);
    harness_remove(harness_path(dir, "b/best/__1_0.distcp"));
    audit_good(harness_path(dir, "b"), &a);
    assert_found(&a.o, SW_DEFECT, "incomplete-checkpoint", "best", NULL, "");
    audit_free(&a);
    /* the parts of one checkpoint are no run of several */
    put_step(dir, "c/pytorch_model_fsdp_0");
    put_step(dir, "c/optimizer_0");
    put_step(dir, "c/best");
    expect_no_run(harness_path(dir, "c"));
    audit_run(harness_path(dir, "a/tb"), true, &a);
    assert_error(&a.o.err, SW_ERR_FORMAT, "no checkpoints are in it");
    audit_free(&a);
    audit_run(harness_path(dir, "absent"), false, &a);
    assert_error(&a.o.err, SW_ERR_NOTFOUND, "absent");
    audit_free(&a);
}

/* What could not be judged is no verdict on the checkpoint; what is unsafe is one on the run. */
static void unknown_and_unsafe(void **state)
{
    char *run = *state;
    audit a;
    put_step(run, "step-1");
    put_step(run, "step-2");
    harness_write_text(harness_path(run, "step-3/a.pt"), "x");
    harness_write_text(harness_path(run, "step-3/b.pt"), "x");
    harness_write_text(harness_path(run, "latest"), "step-3");
    audit_good(run, &a);
    expect_checkpoints(&a, "step-1 step-2 step-3:unknown");
    assert_found(&a.o, SW_WARNING, "unknown-checkpoint", "step-3", NULL, "several files");
    expect_pointer(&a, "latest", "step-3", SW_POINTER_UNKNOWN);
    assert_int_equal(bad_findings(&a.o), 0);
    audit_free(&a);
    static const uint8_t evil[] = "\x80\x02"
                                  "cposix\nsystem\nX\x04\x00\x00\x00true\x85R.";
    harness_write(harness_path(run, "step-1/.metadata"), evil, sizeof evil - 1);
    audit_good(run, &a);
    expect_checkpoints(&a, "step-1:unsafe step-2 step-3:unknown");
    assert_found(&a.o, SW_DANGER, "unsafe-checkpoint", "step-1", NULL, "posix.system");
    assert_found(&a.o, SW_DANGER, "unsafe-pickle", "step-1/.metadata", NULL, "posix.system");
    audit_free(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_in_names),
        test_in_dir(newest_is_not_complete),
        test_in_dir(ways_of_not_being_complete),
        test_in_dir(pointers_of_every_kind),
        test_in_dir(trainer_folders),
        test_in_dir(files_of_torch),
        test_in_dir(what_is_a_run),
        test_in_dir(unknown_and_unsafe),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
