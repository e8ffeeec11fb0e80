/* Tied embeddings: never dropped on the flag alone, never twice when proven equal. */
#include "convert/torch_fixture.h"

#define VOCABULARY 10

static const int64_t shape[] = {VOCABULARY, 4};

typedef struct world {
    char *source, *base, *out;
} world;

/* emb and head (where not NULL), the optimizer's state of `stated`; config.json as text. */
static world make_world(char *dir, const float *head, const char *stated, const char *config)
{
    world w = {harness_path(dir, "source"), harness_path(dir, "base"), harness_path(dir, "out")};
    dcp_world *d = dcp_begin();
    dcp_whole(d, "model/emb.weight", 0, 2, shape, 0);
    if (head != NULL)
        dcp_whole(d, "model/head.weight", 1, 2, shape, *head);
    dcp_whole(d, "model/other.weight", 1, 2, (const int64_t[]){4, 4}, 0);
    if (stated != NULL) {
        char key[96];
        snprintf(key, sizeof key, "optim/state.%s.exp_avg", stated);
        dcp_whole(d, key, 0, 2, shape, 7);
    }
    harness_remove(w.source);
    harness_remove(w.out);
    dcp_end(d, w.source);
    harness_write_text(harness_path(w.base, "config.json"), config);
    return w;
}

#define TIED "{\"tie_word_embeddings\": true, \"vocab_size\": 10}"
#define NOT_TIED "{\"tie_word_embeddings\": false, \"vocab_size\": 10}"
static const float zero = 0, two = 2;

/* Converts; the result has emb, or head, or both. */
static void expect_written(const world *w, const sw_convert_options *more, bool emb, bool head,
                           uint64_t tied, const char *code)
{
    sw_convert_options o = more ? *more : (sw_convert_options){0};
    outcome run;
    o.to = "hf";
    o.assets = w->base;
    run_convert(w->source, w->out, &o, &run);
    assert_fine(&run);
    assert_int_equal(run.converted.tied_tensors, tied);
    assert_int_equal(run.converted.tensors, 1U + emb + head);
    assert_int_equal(find_finding(&run, "tied", NULL, NULL) != NULL,
                     code != NULL && strcmp(code, "tied") == 0);
    assert_int_equal(find_finding(&run, "tied-kept", NULL, NULL) != NULL,
                     code != NULL && strcmp(code, "tied-kept") == 0);
    outcome_free(&run);
    sw_checkpoint *c = open_good(w->out);
    const sw_catalog *catalog = sw_checkpoint_catalog(c);
    assert_int_equal(sw_catalog_find(catalog, "emb.weight") >= 0, emb);
    assert_int_equal(sw_catalog_find(catalog, "head.weight") >= 0, head);
    assert_true(sw_catalog_find(catalog, "other.weight") >= 0);
    sw_checkpoint_close(c);
}

static void test_one_only(void **state)
{
    world w = make_world(*state, NULL, NULL, TIED);
    expect_written(&w, NULL, true, false, 0, NULL);
    w = make_world(*state, NULL, NULL, NOT_TIED);
    expect_written(&w, NULL, true, false, 0, NULL);
}

/* Equal and tied: the one that the optimizer knows is written once. */
static void test_equal_pair(void **state)
{
    world w = make_world(*state, &zero, "emb.weight", TIED);
    expect_written(&w, NULL, true, false, 1, "tied");
    assert_ramp(w.out, "emb.weight", 2, shape, 0);
    w = make_world(*state, &zero, "head.weight", TIED);
    expect_written(&w, NULL, false, true, 1, "tied");
    outcome run;
    harness_remove(w.out);
    run_convert(w.source, w.out, &(sw_convert_options){.to = "hf", .assets = w.base}, &run);
    assert_found(&run, SW_NOTE, "tied", NULL, "emb.weight",
                 "\"emb.weight\" is tied to \"head.weight\" and equal to it bit by bit");
    outcome_free(&run);
}

/* Nothing tells which name loaders expect: both. */
static void test_equal_pair_without_a_hint(void **state)
{
    world w = make_world(*state, &zero, NULL, TIED);
    expect_written(&w, NULL, true, true, 0, "tied-kept");
    /* a name that only contains the other's is no hint */
    w = make_world(*state, &zero, "my_emb.weight", TIED);
    expect_written(&w, NULL, true, true, 0, "tied-kept");
}

/* A DDP file: names behind "module.", one storage, and an optimizer that numbers its parameters. */
static void test_numbered_optimizer(void **state)
{
    world w = {harness_path(*state, "run.pt"), harness_path(*state, "base"),
               harness_path(*state, "out")};
    static const int64_t other[] = {4, 4}, stride[] = {4, 1};
    float data[VOCABULARY * 4] = {0};
    torch_world *t = torch_begin(false);
    torch_say(t, "} ( 'model' } (");
    size_t shared = torch_storage(t, "FloatStorage", 4, data, sizeof data);
    torch_key(t, "module.emb.weight");
    torch_view(t, shared, 0, 2, shape, stride);
    torch_ramp(t, "module.other.weight", 2, other, 0);
    torch_key(t, "module.head.weight");
    torch_view(t, shared, 0, 2, shape, stride);
    torch_say(t, "u 'optimizer' } ( 'state' } ( 0 } (");
    torch_ramp(t, "exp_avg", 2, shape, 7);
    torch_say(t, "u u 'param_groups' ] ( } ( 'params' ] ( 0 1 e u e u u");
    torch_write_zip(t, w.source, NULL);
    torch_free(t);
    harness_write_text(harness_path(w.base, "config.json"), TIED);
    expect_written(&w, NULL, true, false, 1, "tied");
}

/* Equal but not tied: no reason to drop anything. */
static void test_equal_pair_not_tied(void **state)
{
    world w = make_world(*state, &zero, "emb.weight", NOT_TIED);
    expect_written(&w, NULL, true, true, 0, NULL);
    w = make_world(*state, &zero, "emb.weight", "{\"vocab_size\": 10}");
    expect_written(&w, NULL, true, true, 0, NULL);
    /* tied, but of another vocabulary */
    w = make_world(*state, &zero, "emb.weight",
                   "{\"tie_word_embeddings\": true, \"vocab_size\": 11}");
    expect_written(&w, NULL, true, true, 0, NULL);
}

/* Tied by the flag and different: refused, with the place; --untie writes both and says so. */
static void test_pair_that_differs(void **state)
{
    world w = make_world(*state, &two, "emb.weight", TIED);
    sw_convert_options o = {.to = "hf", .assets = w.base};
    assert_refuses(w.source, w.out, &o, SW_ERR_CONFLICT,
                   "\"emb.weight\" and \"head.weight\" differ, first at [0, 0]");
    o.untie = true;
    expect_written(&w, &o, true, true, 0, NULL);
    assert_ramp(w.out, "head.weight", 2, shape, 2);
    char *config = (char *)harness_read(harness_path(w.out, "config.json"), NULL);
    assert_string_equal(config, "{\"tie_word_embeddings\": false, \"vocab_size\": 10}");
    free(config);
}

/* In one row only, far from the first. */
static void test_place_of_the_difference(void **state)
{
    world w = make_world(*state, &zero, "emb.weight", TIED);
    dcp_world *d = dcp_begin();
    dcp_whole(d, "model/emb.weight", 0, 2, shape, 0);
    dcp_item *head = dcp_tensor(d, "model/head.weight", 2, shape, 0);
    dcp_chunk(d, head, 1, (const int64_t[]){0, 0}, (const int64_t[]){7, 4});
    head->base = 0.5F;
    dcp_chunk(d, head, 1, (const int64_t[]){7, 0}, (const int64_t[]){3, 4});
    harness_remove(w.source);
    dcp_end(d, w.source);
    sw_convert_options o = {.to = "hf", .assets = w.base};
    assert_refuses(w.source, w.out, &o, SW_ERR_CONFLICT, "differ, first at [7, 0]");
}

/* Without assets nothing is known of ties: both are written. */
static void test_without_assets(void **state)
{
    world w = make_world(*state, &zero, "emb.weight", TIED);
    outcome run;
    run_convert(w.source, w.out, NULL, &run);
    assert_fine(&run);
    assert_int_equal(run.converted.tensors, 3);
    outcome_free(&run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        test_in_dir(test_one_only),
        test_in_dir(test_equal_pair),
        test_in_dir(test_equal_pair_without_a_hint),
        test_in_dir(test_numbered_optimizer),
        test_in_dir(test_equal_pair_not_tied),
        test_in_dir(test_pair_that_differs),
        test_in_dir(test_place_of_the_difference),
        test_in_dir(test_without_assets),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
