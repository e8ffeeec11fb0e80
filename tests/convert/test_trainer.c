/* Folders of trainers: parts of one checkpoint beside each other (specs/trainer.md). */
#include "convert/state_fixture.h"
#include "convert/torch_fixture.h"

#include <sys/resource.h>

static const int64_t four[] = {4}, six_by_two[] = {6, 2};

static void make_model(const char *dir, float base)
{
    dcp_world *w = dcp_begin();
    dcp_whole(w, "model/a.weight", 0, 2, six_by_two, base);
    dcp_whole(w, "model/b.bias", 1, 1, four, base + 50);
    dcp_end(w, dir);
}

static void make_optimizer(const char *dir)
{
    dcp_world *w = dcp_begin();
    dcp_whole(w, "optimizer/state/a.weight/exp_avg", 0, 2, six_by_two, 200);
    dcp_whole(w, "optimizer/state/b.bias/exp_avg", 1, 1, four, 300);
    dcp_text(w, "optimizer/param_groups/#0/lr", 0, "BINFLOAT 0.5");
    dcp_text(w, "optimizer/param_groups/#0/params", 0,
             "EMPTY_LIST MARK BINUNICODE 'a.weight' BINUNICODE 'b.bias' APPENDS");
    dcp_end(w, dir);
}

static void make_value(const char *path, const char *recipe_of)
{
    torch_world *w = torch_begin(false);
    torch_say(w, recipe_of);
    torch_write_zip(w, path, NULL);
    torch_free(w);
}

static void make_random(const char *path, float base)
{
    torch_world *w = torch_begin(false);
    torch_say(w, "} ( 'step' 7");
    torch_ramp(w, "torch_manual_seed", 1, four, base);
    torch_say(w, "u");
    torch_write_zip(w, path, NULL);
    torch_free(w);
}

/* What accelerate leaves with SHARDED_STATE_DICT. */
static void make_accelerate(const char *dir)
{
    make_model(harness_path(dir, "pytorch_model_fsdp_0"), 0);
    make_optimizer(harness_path(dir, "optimizer_0"));
    make_value(harness_path(dir, "scheduler.bin"), "} ( 'last_epoch' 3 u");
    make_random(harness_path(dir, "random_states_0.pkl"), 10);
    make_random(harness_path(dir, "random_states_1.pkl"), 20);
}

static void assert_value(const char *path, const char *name, const char *expected)
{
    sw_checkpoint *c = open_good(path);
    sw_value_info info;
    bool found = false;
    for (size_t i = 0; !found && sw_catalog_value_at(sw_checkpoint_catalog(c), i, &info); i++) {
        sw_value_graph *g = NULL;
        sw_value root;
        sw_error err = {0};
        if (strcmp(info.name, name) != 0)
            continue;
        must(sw_checkpoint_value(c, i, &g, &root, &err));
        check_value(g, root, expected);
        sw_value_graph_free(g);
        found = true;
    }
    if (!found)
        fail_msg("%s: no value %s", path, name);
    sw_checkpoint_close(c);
}

static void assert_absent(const char *path, const char *name)
{
    sw_checkpoint *c = open_good(path);
    assert_int_equal(sw_catalog_find(sw_checkpoint_catalog(c), name), -1);
    sw_checkpoint_close(c);
}

static void convert_fine(const char *from, const char *to, const char *target)
{
    outcome o;
    run_convert(from, to, &(sw_convert_options){.to = target}, &o);
    assert_fine(&o);
    outcome_free(&o);
}

/* Model, optimizer and all that lies beside them, in one run. */
static void test_together(void **state)
{
    char *dir = harness_path(*state, "run"), *out = harness_path(*state, "out");
    outcome o;
    make_accelerate(dir);
    run_verify(dir, &o);
    assert_fine(&o);
    assert_string_equal(o.verified.framework, "trainer");
    assert_string_equal(o.verified.root, dir);
    assert_int_equal(o.verified.tensors, 6);
    assert_found(&o, SW_NOTE, "parts", NULL, NULL,
                 "model from pytorch_model_fsdp_0 (dcp), optimizer from optimizer_0 (dcp), "
                 "random_states_0 from random_states_0.pkl (torch)");
    outcome_free(&o);
    convert_fine(dir, out, "fsdp2:dp=2");
    for (int k = 0; k < 2; k++) {
        const char *path = k == 0 ? dir : out;
        assert_ramp(path, "model.a.weight", 2, six_by_two, 0);
        assert_ramp(path, "model.b.bias", 1, four, 50);
        assert_ramp(path, "optimizer.state.a.weight.exp_avg", 2, six_by_two, 200);
        assert_ramp(path, "optimizer.state.b.bias.exp_avg", 1, four, 300);
        assert_ramp(path, "random_states_0.torch_manual_seed", 1, four, 10);
        assert_ramp(path, "random_states_1.torch_manual_seed", 1, four, 20);
        assert_value(path, "optimizer.param_groups.0.lr", "0.5");
        assert_value(path, "scheduler.last_epoch", "3");
        assert_value(path, "random_states_1.step", "7");
    }
    run_verify(out, &o);
    assert_fine(&o);
    assert_string_equal(o.verified.framework, "dcp");
    outcome_free(&o);
}

/* Of the model alone only its weights are taken: random states are none. */
static void test_weights(void **state)
{
    char *dir = harness_path(*state, "run"), *out = harness_path(*state, "out");
    outcome o;
    make_accelerate(dir);
    run_convert(dir, out, NULL, &o);
    assert_fine(&o);
    assert_int_equal(o.converted.tensors, 2);
    assert_int_equal(o.converted.optimizer_tensors, 2);
    assert_int_equal(o.converted.other_tensors, 2);
    outcome_free(&o);
    assert_ramp(out, "a.weight", 2, six_by_two, 0);
}

/* FULL_STATE_DICT: files of torch.save that hold state dicts bare. */
static void test_full(void **state)
{
    char *dir = harness_path(*state, "run"), *out = harness_path(*state, "out");
    torch_world *w = torch_begin(false);
    torch_say(w, "} (");
    torch_ramp(w, "a.weight", 2, six_by_two, 0);
    torch_ramp(w, "model", 1, four, 50); /* a parameter of that name is no section */
    torch_say(w, "u");
    torch_write_zip(w, harness_path(dir, "pytorch_model_fsdp.bin"), NULL);
    torch_free(w);
    w = torch_begin(false);
    torch_say(w, "} ( 'state' } ( 'a.weight' } (");
    torch_ramp(w, "exp_avg", 2, six_by_two, 200);
    torch_say(w, "u u 'param_groups' ] ( } ( 'lr' 3 'params' ] ( 'a.weight' 'model' e u e u");
    torch_write_zip(w, harness_path(dir, "optimizer.bin"), NULL);
    torch_free(w);
    write_st_one(harness_path(dir, "model.safetensors"), "a.weight", 6, 2, 0);
    outcome o;
    run_verify(dir, &o);
    assert_fine(&o);
    assert_found(&o, SW_NOTE, "other-model", "model.safetensors", NULL, "not read");
    outcome_free(&o);
    convert_fine(dir, out, "dcp:ranks=2");
    assert_ramp(out, "model.a.weight", 2, six_by_two, 0);
    assert_ramp(out, "model.model", 1, four, 50);
    assert_ramp(out, "optimizer.state.a.weight.exp_avg", 2, six_by_two, 200);
    assert_value(out, "optimizer.param_groups.0.lr", "3");
}

/* Lightning: a DCP folder with the rest of the state dict in meta.pt. */
static void test_lightning(void **state)
{
    char *dir = harness_path(*state, "run"), *out = harness_path(*state, "out");
    dcp_world *w = dcp_begin();
    dcp_whole(w, "model/a.weight", 0, 2, six_by_two, 0);
    dcp_whole(w, "optimizer_0/state/a.weight/exp_avg", 0, 2, six_by_two, 9);
    dcp_text(w, "optimizer_0/param_groups/#0/params", 0,
             "EMPTY_LIST MARK BINUNICODE 'a.weight' APPENDS");
    dcp_end(w, dir);
    make_value(harness_path(dir, "meta.pt"), "} ( 'epoch' 4 'loops' } ( 'fit' 5 u u");
    convert_fine(dir, out, "fsdp2:dp=2");
    assert_ramp(out, "model.a.weight", 2, six_by_two, 0);
    assert_ramp(out, "optimizer_0.state.a.weight.exp_avg", 2, six_by_two, 9);
    assert_value(out, "epoch", "4");
    assert_value(out, "loops.fit", "5");
    /* a key that both have is nobody's */
    make_value(harness_path(dir, "meta.pt"), "} ( 'model' 4 u");
    assert_refuses(dir, harness_path(*state, "no"), &(sw_convert_options){.to = "dcp:ranks=1"},
                   SW_ERR_CONFLICT, "two parts of the state dict have the same key [TR-6]");
}

/* A6: two that could be meant are both named. */
static void test_two_of_a_kind(void **state)
{
    char *dir = harness_path(*state, "run"), *out = harness_path(*state, "out");
    make_accelerate(dir);
    make_model(harness_path(dir, "pytorch_model_fsdp_1"), 7);
    assert_refuses(dir, out, NULL, SW_ERR_CONFLICT,
                   "pytorch_model_fsdp_0 and pytorch_model_fsdp_1 are both a model here");
    /* each alone is still to be had */
    assert_ramp(harness_path(dir, "pytorch_model_fsdp_1"), "model.a.weight", 2, six_by_two, 7);
    harness_remove(harness_path(dir, "pytorch_model_fsdp_1"));
    make_value(harness_path(dir, "optimizer.bin"), "} ( 'state' } u");
    assert_refuses(dir, out, NULL, SW_ERR_CONFLICT,
                   "optimizer.bin and optimizer_0 are both the same optimizer here");
    /* but two optimizers of two numbers are two */
    harness_remove(harness_path(dir, "optimizer.bin"));
    dcp_world *w = dcp_begin();
    dcp_whole(w, "optimizer/state/b.bias/exp_avg", 0, 1, four, 1);
    dcp_end(w, harness_path(dir, "optimizer_1"));
    outcome o;
    run_verify(dir, &o);
    assert_fine(&o);
    outcome_free(&o);
    assert_ramp(dir, "optimizer_1.optimizer.state.b.bias.exp_avg", 1, four, 1);
}

/* A6: one level too high, one too low, and by name. */
static void test_levels(void **state)
{
    char *run = harness_path(*state, "run"), *dir = harness_path(run, "checkpoint-7");
    make_accelerate(dir);
    harness_write_text(harness_path(dir, "trainer_state.json"), "{\"global_step\": 7}\n");
    outcome o;
    run_convert(run, harness_path(*state, "out"), NULL, &o);
    assert_fine(&o);
    assert_found(&o, SW_NOTE, "other-folder", NULL, NULL, "using ");
    outcome_free(&o);
    sw_checkpoint *c = NULL;
    sw_error err = {0};
    assert_ok(sw_checkpoint_open(run, NULL, NULL, &c, &err), &err);
    assert_string_equal(sw_checkpoint_root(c), dir);
    assert_string_equal(sw_checkpoint_framework(c), "trainer");
    sw_checkpoint_close(c);
    assert_absent(harness_path(dir, "pytorch_model_fsdp_0"), "optimizer.state.a.weight.exp_avg");
    sw_open_options from = {.from = "dcp"};
    assert_ok(sw_checkpoint_open(dir, &from, NULL, &c, &err), &err);
    assert_string_equal(sw_checkpoint_root(c), harness_path(dir, "pytorch_model_fsdp_0"));
    sw_checkpoint_close(c);
    from.from = "trainer";
    assert_int_equal(sw_checkpoint_open(harness_path(dir, "optimizer_0"), &from, NULL, &c, &err),
                     SW_ERR_INCOMPLETE);
    assert_error(&err, SW_ERR_INCOMPLETE, "no part of it holds a model");
}

/* What is wrong with a part is said with where it lies, and not twice. */
static void test_damage(void **state)
{
    char *dir = harness_path(*state, "run"), *out = harness_path(*state, "out");
    outcome o;
    size_t size, holes = 0;
    make_accelerate(dir);
    char *file = harness_path(dir, "optimizer_0/__1_0.distcp");
    uint8_t *data = harness_read(file, &size);
    harness_write(file, data, size / 2);
    free(data);
    run_verify(dir, &o);
    assert_found(&o, SW_DEFECT, "short-file", "optimizer_0/__1_0.distcp", NULL, "bytes");
    for (size_t i = 0; i < sw_report_count(o.report); i++)
        holes += strcmp(sw_report_at(o.report, i)->code, "short-file") == 0;
    assert_int_equal(holes, 1);
    outcome_free(&o);
    assert_refuses(dir, out, &(sw_convert_options){.to = "dcp:ranks=1"}, SW_ERR_CORRUPT,
                   "optimizer.state.b.bias.exp_avg");
    /* an optimizer that was not committed; its model is still to be had by itself */
    harness_remove(harness_path(dir, "optimizer_0/.metadata"));
    assert_refuses(dir, out, NULL, SW_ERR_INCOMPLETE, "optimizer_0: not a complete DCP folder");
    assert_ramp(harness_path(dir, "pytorch_model_fsdp_0"), "model.a.weight", 2, six_by_two, 0);
    harness_remove(harness_path(dir, "pytorch_model_fsdp_0/.metadata"));
    assert_refuses(dir, out, NULL, SW_ERR_INCOMPLETE, "pytorch_model_fsdp_0: not a complete DCP");
    make_model(harness_path(dir, "pytorch_model_fsdp_0"), 0);
    make_optimizer(harness_path(dir, "optimizer_0"));
    harness_write_text(harness_path(dir, "scheduler.bin"), "{}");
    assert_refuses(dir, out, NULL, SW_ERR_FORMAT, "scheduler.bin");
}

/* Bytes that changed are found through the part's own checks. */
static void test_flipped(void **state)
{
    char *dir = *state;
    outcome o;
    size_t size;
    make_accelerate(dir);
    char *file = harness_path(dir, "pytorch_model_fsdp_0/__0_0.distcp");
    uint8_t *data = harness_read(file, &size);
    float needle = 11; /* the last element of a.weight */
    for (size_t i = 0; i + 4 <= size; i++)
        if (memcmp(data + i, &needle, 4) == 0)
            data[i] ^= 1;
    harness_write(file, data, size);
    free(data);
    run_verify(dir, &o);
    assert_found(&o, SW_DEFECT, "crc-mismatch", "pytorch_model_fsdp_0/__0_0.distcp",
                 "model.a.weight", "CRC");
    outcome_free(&o);
}

/* Names that only look like those of parts are none, and a model by itself is what it is. */
static void test_other_names(void **state)
{
    static const char *const others[] = {
        "optimizer_.bin",     "optimizer_a.bin", "optimizers.bin",         "optimizer_0",
        "scheduler.bin.tmp",  "scheduler_1.",    "random_states_1x.pkl",   "random_states_-1.pkl",
        "xrandom_states.pkl", "meta.pt",         "pytorch_model_fsdp.txt",
    };
    char *dir = *state, *model = harness_path(dir, "pytorch_model_fsdp_0");
    make_model(model, 0);
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        harness_write_text(harness_path(dir, "%s", others[i]), "no checkpoint\n");
    outcome o;
    run_verify(dir, &o);
    assert_fine(&o);
    assert_string_equal(o.verified.framework, "dcp");
    assert_string_equal(o.verified.root, model);
    outcome_free(&o);
    make_value(harness_path(dir, "scheduler_12.pt"), "} ( 'last_epoch' 3 u");
    run_verify(dir, &o);
    assert_string_equal(o.verified.framework, "trainer");
    outcome_free(&o);
    assert_value(dir, "scheduler_12.last_epoch", "3");
}

/* U1: which ranks have no random states is said; nobody gets another's. */
static void test_missing_random_states(void **state)
{
    char *dir = harness_path(*state, "run"), *out = harness_path(*state, "out");
    outcome o;
    make_accelerate(dir);
    make_random(harness_path(dir, "random_states_5.pkl"), 50);
    run_convert(dir, out, &(sw_convert_options){.to = "fsdp2:dp=8"}, &o);
    assert_fine(&o);
    assert_found(&o, SW_WARNING, "missing-part", NULL, NULL, "no random states of ranks 2-4");
    outcome_free(&o);
    assert_ramp(out, "random_states_5.torch_manual_seed", 1, four, 50);
    assert_absent(out, "random_states_2.torch_manual_seed");
}

/* A file of a rank each: more of them than descriptors. */
static void test_many_random_states(void **state)
{
    char *dir = *state;
    make_accelerate(dir);
    const struct rlimit few = {64, 64};
    for (int i = 2; i < 300; i++)
        make_value(harness_path(dir, "random_states_%d.pkl", i), "} ( 'step' 7 u");
    outcome o;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    run_verify(dir, &o);
    assert_fine(&o);
    assert_found(&o, SW_NOTE, "parts", NULL, NULL, " more");
    outcome_free(&o);
    assert_value(dir, "random_states_299.step", "7");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        test_in_dir(test_together),
        test_in_dir(test_weights),
        test_in_dir(test_full),
        test_in_dir(test_lightning),
        test_in_dir(test_two_of_a_kind),
        test_in_dir(test_levels),
        test_in_dir(test_damage),
        test_in_dir(test_flipped),
        test_in_dir(test_other_names),
        test_in_dir(test_missing_random_states),
        test_in_dir(test_many_random_states),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
