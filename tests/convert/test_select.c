/* Which tensors go into a weights target, and under which names (specs/names.md). */
#include "convert/fixture.h"

#include "select/select.h"

static const int64_t four[] = {4};

/* What a selection took, as "name<-source name<-source ..." */
static char *selected(const char *dir, const sw_convert_options *options, swi_selection *out)
{
    static char text[4096];
    sw_error err = {0};
    sw_report *report = NULL;
    sw_checkpoint *c = open_good(dir);
    assert_ok(sw_report_make(&report, &err), &err);
    assert_ok(swi_select(c, options, report, out, &err), &err);
    size_t used = 0;
    text[0] = '\0';
    for (size_t i = 0; i < out->count; i++) {
        sw_tensor_info info;
        sw_catalog_tensor(sw_checkpoint_catalog(c), out->items[i].source, &info);
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%s<-%s", i ? " " : "",
                                 out->items[i].name, info.name);
    }
    sw_checkpoint_close(c);
    sw_report_free(report);
    return text;
}

static void expect_selected(const char *dir, const sw_convert_options *options, const char *want,
                            uint64_t dropped, uint64_t optimizer, uint64_t other)
{
    swi_selection s = {0};
    assert_string_equal(selected(dir, options, &s), want);
    assert_int_equal(s.dropped, dropped);
    assert_int_equal(s.optimizer, optimizer);
    assert_int_equal(s.other, other);
    swi_selection_free(&s);
}

static void expect_refused(const char *dir, const sw_convert_options *options, sw_status status,
                           const char *text)
{
    sw_error err = {0};
    swi_selection s = {0};
    sw_report *report = NULL;
    sw_checkpoint *c = open_good(dir);
    assert_ok(sw_report_make(&report, &err), &err);
    assert_int_equal(swi_select(c, options, report, &s, &err), status);
    assert_error(&err, status, text);
    assert_int_equal(s.count, 0);
    assert_null(s.items);
    sw_checkpoint_close(c);
    sw_report_free(report);
}

/* A folder of these keys, each a vector of four. */
static void make_keys(const char *dir, const char *const *paths)
{
    dcp_world *w = dcp_begin();
    for (size_t i = 0; paths[i] != NULL; i++)
        dcp_whole(w, paths[i], 0, 1, four, 10 * (float)i);
    dcp_end(w, dir);
}

static void test_model_section(void **state)
{
    char *dir = *state;
    make_keys(dir, (const char *const[]){"app/model/b", "app/model/a", "app/optim/state.a.exp_avg",
                                         "ema/a", "app/model_ema/a", NULL});
    sw_convert_options o = {0};
    expect_selected(dir, &o, "a<-app.model.a b<-app.model.b", 0, 1, 2);
    o.section = "app.model_ema";
    expect_selected(dir, &o, "a<-app.model_ema.a", 0, 1, 3);
    o.section = "ema";
    expect_selected(dir, &o, "a<-ema.a", 0, 1, 3);
    o.section = "app.optim";
    expect_selected(dir, &o, "state.a.exp_avg<-app.optim.state.a.exp_avg", 0, 0, 4);
    o.section = "absent";
    expect_refused(dir, &o, SW_ERR_NOTFOUND, "--section absent: no tensor");
}

static void test_two_models(void **state)
{
    char *dir = *state;
    make_keys(dir, (const char *const[]){"model_a/w", "model_b/w", "optimizer/state.w.step", NULL});
    sw_convert_options o = {0};
    expect_refused(dir, &o, SW_ERR_CONFLICT, "\"model_a\" and \"model_b\"");
    o.section = "model_b";
    expect_selected(dir, &o, "w<-model_b.w", 0, 1, 1);
}

/* A module saved by itself has its names at the top. */
static void test_top(void **state)
{
    char *dir = *state;
    make_keys(dir, (const char *const[]){"layers.10.w", "layers.9.w", "norm", NULL});
    sw_convert_options o = {0};
    expect_selected(dir, &o, "layers.9.w<-layers.9.w layers.10.w<-layers.10.w norm<-norm", 0, 0, 0);
}

static void test_wrapper_parts(void **state)
{
    char *dir = *state;
    make_keys(dir,
              (const char *const[]){"model/_orig_mod.module.layers.0._checkpoint_wrapped_module.w",
                                    "model/module._fsdp_wrapped_module.module.w",
                                    "model/module.x_orig_mod.w", NULL});
    sw_convert_options o = {0};
    expect_selected(dir, &o,
                    "layers.0.w<-model._orig_mod.module.layers.0._checkpoint_wrapped_module.w "
                    "module.w<-model.module._fsdp_wrapped_module.module.w "
                    "x_orig_mod.w<-model.module.x_orig_mod.w",
                    0, 0, 0);
    o.keep_prefixes = true;
    swi_selection s = {0};
    selected(dir, &o, &s);
    assert_string_equal(s.items[0].name, "_orig_mod.module.layers.0._checkpoint_wrapped_module.w");
    swi_selection_free(&s);
    outcome run;
    run_convert(dir, harness_path(dir, "../%s-out", strrchr(dir, '/') + 1), NULL, &run);
    assert_fine(&run);
    assert_found(&run, SW_NOTE, "names-cleaned", NULL, NULL, "6 parts that wrappers add");
    outcome_free(&run);
    harness_remove(harness_path(dir, "../%s-out", strrchr(dir, '/') + 1));
}

/* One name without it: "module" is a submodule, and stays. */
static void test_real_submodule_called_module(void **state)
{
    char *dir = *state;
    make_keys(dir, (const char *const[]){"model/module.w", "model/head", NULL});
    sw_convert_options o = {0};
    expect_selected(dir, &o, "head<-model.head module.w<-model.module.w", 0, 0, 0);
}

static void test_collision(void **state)
{
    char *dir = *state;
    make_keys(dir, (const char *const[]){"model/_orig_mod.w", "model/w", "model/v", NULL});
    sw_convert_options o = {0};
    expect_refused(dir, &o, SW_ERR_CONFLICT,
                   "tensors \"model._orig_mod.w\" and \"model.w\" would both be called \"w\"");
    o.keep_prefixes = true;
    expect_selected(dir, &o, "_orig_mod.w<-model._orig_mod.w v<-model.v w<-model.w", 0, 0, 0);
    const char *const drop[] = {"_orig_mod.*", NULL};
    o = (sw_convert_options){.drop = drop};
    expect_selected(dir, &o, "v<-model.v w<-model.w", 1, 0, 0);
}

static void test_only_and_drop(void **state)
{
    char *dir = *state;
    make_keys(dir, (const char *const[]){"model/layers.0.w", "model/layers.0.b", "model/layers.1.w",
                                         "model/norm", "optim/state.norm.step", NULL});
    const char *const only[] = {"layers.*", "absent", NULL}, *const drop[] = {"*.b", NULL};
    sw_convert_options o = {.only = only};
    expect_selected(dir, &o,
                    "layers.0.b<-model.layers.0.b layers.0.w<-model.layers.0.w "
                    "layers.1.w<-model.layers.1.w",
                    1, 1, 0);
    o.drop = drop;
    expect_selected(dir, &o, "layers.0.w<-model.layers.0.w layers.1.w<-model.layers.1.w", 2, 1, 0);
    /* by the name in the source too */
    const char *const source[] = {"model.norm", NULL};
    o = (sw_convert_options){.only = source};
    expect_selected(dir, &o, "norm<-model.norm", 3, 1, 0);
    const char *const none[] = {"nothing.*", NULL};
    o = (sw_convert_options){.only = none};
    expect_refused(dir, &o, SW_ERR_ARG,
                   "no tensor is left to write: the checkpoint has 5 tensors, "
                   "1 of the optimizer, 4 dropped");
}

/* A pattern that meets nothing is said: a slip there leaves too much or too little. */
static void test_patterns_that_meet_nothing(void **state)
{
    char *dir = *state, *out = harness_path(dir, "../%s-out", strrchr(dir, '/') + 1);
    make_keys(dir, (const char *const[]){"model/a", "model/b", "optim/state.a.step", NULL});
    const char *const only[] = {"a", "B", NULL}, *const drop[] = {"model.b", "optim.*", NULL};
    sw_convert_options o = {.to = "hf", .only = only, .drop = drop};
    outcome run;
    run_convert(dir, out, &o, &run);
    assert_int_equal(run.status, SW_OK);
    assert_int_equal(sw_report_total(run.report, SW_WARNING), 2);
    assert_string_equal(sw_report_at(run.report, 1)->message,
                        "--only \"B\" meets no tensor of the model");
    assert_string_equal(sw_report_at(run.report, 0)->message,
                        "--drop \"optim.*\" meets no tensor of the model");
    assert_found(&run, SW_WARNING, "unmatched-glob", NULL, NULL, "");
    outcome_free(&run);
    harness_remove(out);
}

static void test_prefixes(void **state)
{
    char *dir = *state;
    make_keys(dir, (const char *const[]){"model/net.a", "model/net.b.c", NULL});
    sw_convert_options o = {.strip_prefix = "net."};
    expect_selected(dir, &o, "a<-model.net.a b.c<-model.net.b.c", 0, 0, 0);
    o.add_prefix = "base.";
    expect_selected(dir, &o, "base.a<-model.net.a base.b.c<-model.net.b.c", 0, 0, 0);
    o.strip_prefix = "net.b.";
    expect_refused(dir, &o, SW_ERR_ARG,
                   "--strip-prefix net.b.: tensor \"net.a\" does not begin with it");
    o.strip_prefix = "net.a"; /* nothing would be left of the name */
    expect_refused(dir, &o, SW_ERR_ARG, "does not begin with it");
}

static void test_dtype(void **state)
{
    char *dir = *state;
    write_st(harness_path(dir, "model.safetensors"),
             "{\"f\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
             "\"i\":{\"dtype\":\"I32\",\"shape\":[1],\"data_offsets\":[4,8]}}",
             8, 0);
    sw_convert_options o = {.dtype = SW_BF16};
    swi_selection s = {0};
    assert_string_equal(selected(dir, &o, &s), "f<-f i<-i");
    assert_int_equal(s.items[0].dtype, SW_BF16);
    assert_int_equal(s.items[1].dtype, SW_I32);
    swi_selection_free(&s);
}

/* An optimizer saved by itself holds no model, and its states are known by their keys. */
static void test_optimizer_by_itself(void **state)
{
    char *dir = *state;
    make_keys(dir, (const char *const[]){"state/layers.0.w/exp_avg", "state/layers.0.w/exp_avg_sq",
                                         "state/layers.0.w/step", NULL});
    sw_convert_options o = {0};
    expect_refused(dir, &o, SW_ERR_ARG,
                   "no tensor is left to write: the checkpoint has 3 tensors, 3 of the optimizer");
}

/* HF-4: what safetensors cannot hold is refused by name, all of it listed. */
static void test_types_that_the_target_cannot_hold(void **state)
{
    char *dir = *state, *out = harness_path(dir, "../%s-out", strrchr(dir, '/') + 1);
    dcp_world *w = dcp_begin();
    dcp_whole(w, "model/fine", 0, 1, four, 0);
    for (int i = 0; i < 2; i++) {
        dcp_item *it = dcp_tensor(w, i ? "model/worse" : "model/bad", 1, four, 0);
        it->dtype = SW_C128;
        dcp_chunk(w, it, 0, (const int64_t[]){0}, four);
    }
    dcp_end(w, dir);
    outcome run;
    run_convert(dir, out, NULL, &run);
    assert_run_refused(&run, SW_ERR_UNSUPPORTED,
                       "tensor \"model.bad\" is complex128, which safetensors cannot hold (2", out);
    assert_string_equal(run.err.clause, "HF-4");
    assert_found(&run, SW_WARNING, "dtype-not-held", NULL, "model.worse", "--drop \"worse\"");
    outcome_free(&run);
    const char *const drop[] = {"bad", "worse", NULL};
    sw_convert_options o = {.to = "hf", .drop = drop};
    run_convert(dir, out, &o, &run);
    assert_int_equal(run.status, SW_OK);
    outcome_free(&run);
    assert_ramp(out, "fine", 1, four, 0);
    harness_remove(out);
}

/* The tensor that is damaged is named; leaving it out is a way. */
static void test_damage_in_what_is_chosen(void **state)
{
    char *dir = *state, *out = harness_path(dir, "../%s-out", strrchr(dir, '/') + 1);
    dcp_world *w = dcp_begin();
    dcp_item *it = dcp_tensor(w, "model/holed", 1, four, 0);
    dcp_chunk(w, it, 0, (const int64_t[]){0}, (const int64_t[]){3});
    dcp_whole(w, "model/whole", 0, 1, four, 0);
    dcp_end(w, dir);
    assert_refuses(dir, out, NULL, SW_ERR_INCOMPLETE, "\"model.holed\"");
    const char *const only[] = {"holed", NULL}, *const drop[] = {"holed", NULL};
    sw_convert_options o = {.to = "hf", .only = only};
    assert_refuses(dir, out, &o, SW_ERR_INCOMPLETE, "tensor \"model.holed\": ");
    o = (sw_convert_options){.to = "hf", .drop = drop};
    outcome run;
    run_convert(dir, out, &o, &run);
    assert_int_equal(run.status, SW_OK);
    assert_int_equal(run.converted.tensors, 1);
    assert_int_equal(run.converted.dropped_tensors, 1);
    outcome_free(&run);
    assert_ramp(out, "whole", 1, four, 0);
    harness_remove(out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        test_in_dir(test_model_section),
        test_in_dir(test_two_models),
        test_in_dir(test_top),
        test_in_dir(test_wrapper_parts),
        test_in_dir(test_real_submodule_called_module),
        test_in_dir(test_collision),
        test_in_dir(test_only_and_drop),
        test_in_dir(test_patterns_that_meet_nothing),
        test_in_dir(test_prefixes),
        test_in_dir(test_dtype),
        test_in_dir(test_optimizer_by_itself),
        test_in_dir(test_types_that_the_target_cannot_hold),
        test_in_dir(test_damage_in_what_is_chosen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
