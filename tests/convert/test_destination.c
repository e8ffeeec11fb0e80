/* Where a conversion may write, and what it never removes. */
#include "convert/fixture.h"

#include <sys/stat.h>

static const sw_convert_options overwrite = {.to = "hf", .overwrite = true};

static void refuse_keeping(const char *source, const char *dest, sw_status status, const char *text,
                           const char *kept)
{
    outcome o;
    run_convert(source, dest, &overwrite, &o);
    assert_run_refused(&o, status, text, NULL);
    assert_true(harness_exists(kept));
    outcome_free(&o);
}

static void a_destination_that_holds_the_source_is_refused(void **state)
{
    char *run = harness_path(*state, "run"), *step = harness_path(run, "a/step-1");
    harness_write_text(harness_path(run, "a/log"), "\n");
    make_demo(step);
    refuse_keeping(step, run, SW_ERR_ARG, "the source lies in the destination",
                   harness_path(step, ".metadata"));
    char *link = harness_path(*state, "link");
    assert_int_equal(symlink("run/a/step-1", link), 0);
    refuse_keeping(link, harness_path(*state, "run/a/"), SW_ERR_ARG,
                   "the source lies in the destination", harness_path(step, ".metadata"));
}

static void a_destination_in_the_source_is_refused(void **state)
{
    char *step = harness_path(*state, "step");
    make_demo(step);
    refuse_keeping(step, step, SW_ERR_ARG, "lies in the source folder",
                   harness_path(step, ".metadata"));
    refuse_keeping(step, harness_path(step, "out"), SW_ERR_ARG, "lies in the source folder",
                   harness_path(step, ".metadata"));
    /* a name that begins like the source is another place */
    outcome o;
    run_convert(step, harness_path(*state, "step-hf"), NULL, &o);
    assert_fine(&o);
    outcome_free(&o);
}

static void overwriting_spares_what_is_no_checkpoint(void **state)
{
    char *step = harness_path(*state, "step"), *dest = harness_path(*state, "dest");
    make_demo(step);
    harness_write_text(harness_path(dest, "thesis.txt"), "years\n");
    refuse_keeping(step, dest, SW_ERR_EXISTS, "holds files and no checkpoint",
                   harness_path(dest, "thesis.txt"));
    write_st_one(harness_path(dest, "model.safetensors"), "w", 2, 2, 0);
    harness_write_text(harness_path(dest, "runs/log"), "x\n");
    refuse_keeping(step, dest, SW_ERR_EXISTS, "holds the folder runs",
                   harness_path(dest, "runs/log"));
}

static void a_pipe_is_never_replaced(void **state)
{
    char *step = harness_path(*state, "step"), *pipe = harness_path(*state, "pipe");
    make_demo(step);
    assert_int_equal(mkfifo(pipe, 0600), 0);
    refuse_keeping(step, pipe, SW_ERR_ARG, "is a device, pipe or socket and is never replaced",
                   pipe);
}

static void overwriting_replaces_an_earlier_output(void **state)
{
    char *step = harness_path(*state, "step"), *dest = harness_path(*state, "dest");
    make_demo(step);
    assert_int_equal(mkdir(dest, 0777), 0);
    for (int i = 0; i < 2; i++) { /* an empty folder, then an output */
        outcome o;
        run_convert(step, dest, &overwrite, &o);
        assert_fine(&o);
        outcome_free(&o);
        assert_true(harness_exists(harness_path(dest, "model.safetensors")));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        test_in_dir(a_destination_that_holds_the_source_is_refused),
        test_in_dir(a_destination_in_the_source_is_refused),
        test_in_dir(overwriting_spares_what_is_no_checkpoint),
        test_in_dir(a_pipe_is_never_replaced),
        test_in_dir(overwriting_replaces_an_earlier_output),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
