/* The files that go beside weights: which are taken, and how config.json is made to agree. */
#include "convert/fixture.h"

#include "target/model_config.h"

static void read_assets(const char *dir, swi_assets *out)
{
    sw_error err = {0};
    sw_limits limits = sw_limits_resolve(NULL);
    assert_ok(swi_assets_read(dir, &limits, out, &err), &err);
}

static const swi_asset *find_asset(const swi_assets *a, const char *path)
{
    for (size_t i = 0; i < a->count; i++)
        if (strcmp(a->items[i].path, path) == 0)
            return &a->items[i];
    return NULL;
}

/* config.json as it is, adjusted, must become `want`. */
static void expect_adjusted(const char *dir, const char *config, const char *dtype, bool untie,
                            const char *want)
{
    swi_assets a = {0};
    sw_error err = {0};
    sw_limits limits = sw_limits_resolve(NULL);
    bool changed = strcmp(config, want) == 0;
    harness_write_text(harness_path(dir, "config.json"), config);
    read_assets(dir, &a);
    assert_ok(swi_assets_adjust(&a, dtype, untie, false, &limits, &changed, &err), &err);
    assert_int_equal(changed, strcmp(config, want) != 0);
    const swi_asset *c = find_asset(&a, "config.json");
    assert_non_null(c);
    assert_int_equal(c->size, strlen(want));
    assert_memory_equal(c->data, want, c->size);
    swi_assets_free(&a);
}

/* One token is replaced; every other byte stays: blanks, order, escapes, line ends, big numbers. */
static void test_splice(void **state)
{
    char *dir = *state;
    expect_adjusted(dir,
                    "{\r\n\t\"b\" : [1.0e-05, 123456789012345678901234567890],\n"
                    "  \"torch_dtype\" :  \"float32\" ,\"u\": \"\\u00e9\\\"\",\"a\":{}}\n\n",
                    "bfloat16", false,
                    "{\r\n\t\"b\" : [1.0e-05, 123456789012345678901234567890],\n"
                    "  \"torch_dtype\" :  \"bfloat16\" ,\"u\": \"\\u00e9\\\"\",\"a\":{}}\n\n");
    expect_adjusted(dir, "{\"dtype\":\"float32\"}", "float16", false, "{\"dtype\":\"float16\"}");
    expect_adjusted(dir, "{\"dtype\":\"float32\",\"torch_dtype\":\"auto\"}", "float16", false,
                    "{\"dtype\":\"float16\",\"torch_dtype\":\"float16\"}");
    /* as it should be already: not a byte */
    expect_adjusted(dir, "{ \"dtype\" : \"bfloat16\" }", "bfloat16", false,
                    "{ \"dtype\" : \"bfloat16\" }");
}

/* Only the key of the outermost object, only where it is said, only a text. */
static void test_what_is_left_alone(void **state)
{
    char *dir = *state;
    static const char *const same[] = {
        "{}",
        "{\"hidden_size\": 8}",
        "{\"dtype\": null}",
        "{\"dtype\": 5}",
        "{\"text\": {\"dtype\": \"float32\"}, \"list\": [\"dtype\", \"float32\"]}",
        "{\"x\": \"\\\"dtype\\\": \\\"float32\\\"\"}",
    };
    for (size_t i = 0; i < sizeof same / sizeof same[0]; i++)
        expect_adjusted(dir, same[i], "bfloat16", false, same[i]);
    expect_adjusted(dir, "{\"dtype\":\"float32\"}", NULL, false, "{\"dtype\":\"float32\"}");
    /* behind a nested one of the same name */
    expect_adjusted(dir, "{\"t\": {\"dtype\": \"float32\"}, \"dtype\": \"float32\"}", "bfloat16",
                    false, "{\"t\": {\"dtype\": \"float32\"}, \"dtype\": \"bfloat16\"}");
    /* a text with escapes is one token */
    expect_adjusted(dir, "{\"dtype\":\"a\\\"b\\\\\",\"z\":1}", "bfloat16", false,
                    "{\"dtype\":\"bfloat16\",\"z\":1}");
    /* a key with escapes is the key */
    expect_adjusted(dir, "{\"dt\\u0079pe\":\"float32\"}", "bfloat16", false,
                    "{\"dt\\u0079pe\":\"bfloat16\"}");
}

static void test_untie(void **state)
{
    char *dir = *state;
    expect_adjusted(dir, "{\"tie_word_embeddings\": true, \"vocab_size\": 10}\n", NULL, true,
                    "{\"tie_word_embeddings\": false, \"vocab_size\": 10}\n");
    expect_adjusted(dir, "{\"tie_word_embeddings\":true,\"dtype\":\"float32\"}", "float16", true,
                    "{\"tie_word_embeddings\":false,\"dtype\":\"float16\"}");
    expect_adjusted(dir, "{\"tie_word_embeddings\": false}", NULL, true,
                    "{\"tie_word_embeddings\": false}");
    expect_adjusted(dir, "{\"tie_word_embeddings\": true}", NULL, false,
                    "{\"tie_word_embeddings\": true}");
}

static void test_what_is_read_of_it(void **state)
{
    char *dir = *state, *config = harness_path(dir, "config.json");
    swi_assets a = {0};
    harness_write_text(config, "{\"tie_word_embeddings\": true, \"vocab_size\": 32000}");
    read_assets(dir, &a);
    assert_true(a.has_config && a.tied);
    assert_int_equal(a.vocabulary, 32000);
    swi_assets_free(&a);
    harness_write_text(config, "{\"tie_word_embeddings\": 1, \"vocab_size\": \"many\"}");
    read_assets(dir, &a);
    assert_true(a.has_config);
    assert_false(a.tied);
    assert_int_equal(a.vocabulary, 0);
    swi_assets_free(&a);
}

static void test_which_files(void **state)
{
    static const char *const taken[] = {"config.json", "tokenizer.json",
                                        "merges.txt",  "generation_config.json",
                                        "LICENSE",     "model.py"};
    static const char *const left[] = {"model.safetensors",
                                       "pytorch_model.bin",
                                       "x.pt",
                                       "x.pth",
                                       "x.ckpt",
                                       "__0_0.distcp",
                                       ".metadata",
                                       "x.gguf",
                                       "x.h5",
                                       "x.onnx",
                                       "x.msgpack",
                                       "x.npz",
                                       ".gitattributes",
                                       "0.metadata",
                                       "model.safetensors.index.json"};
    char *dir = *state;
    for (size_t i = 0; i < sizeof taken / sizeof taken[0]; i++)
        harness_write_text(harness_path(dir, "%s", taken[i]), "{}");
    for (size_t i = 0; i < sizeof left / sizeof left[0]; i++)
        harness_write_text(harness_path(dir, "%s", left[i]), "{}");
    harness_write_text(harness_path(dir, "sub/inner.json"), "{}");
    swi_assets a = {0};
    read_assets(dir, &a);
    for (size_t i = 0; i < sizeof taken / sizeof taken[0]; i++)
        if (find_asset(&a, taken[i]) == NULL)
            fail_msg("%s was not taken", taken[i]);
    assert_int_equal(a.count, sizeof taken / sizeof taken[0]);
    swi_assets_free(&a);
}

static void expect_bad(const char *dir, const char *config, sw_status status, const char *text)
{
    swi_assets a = {0};
    sw_error err = {0};
    sw_limits limits = sw_limits_resolve(NULL);
    harness_write_text(harness_path(dir, "config.json"), config);
    assert_int_equal(swi_assets_read(dir, &limits, &a, &err), status);
    assert_error(&err, status, "--assets ");
    assert_error(&err, status, "config.json");
    assert_error(&err, status, text);
    assert_int_equal(a.count, 0);
}

static void test_bad_configs(void **state)
{
    char *dir = *state;
    expect_bad(dir, "", SW_ERR_FORMAT, "");
    expect_bad(dir, "{\"dtype\": }", SW_ERR_FORMAT, "");
    expect_bad(dir, "{\"dtype\": \"a\", \"dtype\": \"b\"}", SW_ERR_FORMAT, "dtype");
    expect_bad(dir, "{} {}", SW_ERR_FORMAT, "");
    sw_error err = {0};
    swi_assets a = {0};
    sw_limits limits = sw_limits_resolve(NULL);
    assert_int_equal(swi_assets_read(harness_path(dir, "absent"), &limits, &a, &err),
                     SW_ERR_NOTFOUND);
    assert_error(&err, SW_ERR_NOTFOUND, "absent");
}

/* As a whole: the cast is seen in config.json of the result, other files are copied bit by bit. */
static void test_in_a_conversion(void **state)
{
    char *dir = *state, *source = harness_path(dir, "demo"), *base = harness_path(dir, "base");
    char *out = harness_path(dir, "out");
    static const char config[] = "{ \"torch_dtype\": \"float32\",\n \"hidden_size\": 48 }";
    make_demo(source);
    harness_write_text(harness_path(base, "config.json"), config);
    harness_write(harness_path(base, "tokenizer.model"), "\0\1\2\xff", 4);
    harness_write_text(harness_path(base, "empty.txt"), "");
    write_st_one(harness_path(base, "model.safetensors"), "other", 2, 2, 0);
    sw_convert_options o = {.to = "hf", .assets = base, .dtype = SW_BF16, .verify = false};
    outcome run;
    run_convert(source, out, &o, &run);
    assert_fine(&run);
    assert_found(&run, SW_NOTE, "config-changed", "config.json", NULL, "dtype");
    assert_int_equal(run.converted.files, 4);
    assert_int_equal(run.converted.tally.cast_elements, 31299);
    outcome_free(&run);
    folder_files files = list_files(out);
    assert_int_equal(files.count, 4);
    assert_true(
        same_file(harness_path(base, "tokenizer.model"), harness_path(out, "tokenizer.model")));
    assert_int_equal(harness_file_size(harness_path(out, "empty.txt")), 0);
    char *now = (char *)harness_read(harness_path(out, "config.json"), NULL);
    assert_string_equal(now, "{ \"torch_dtype\": \"bfloat16\",\n \"hidden_size\": 48 }");
    free(now);
    now = (char *)harness_read(harness_path(base, "config.json"), NULL);
    assert_string_equal(now, config);
    free(now);
    /* without a configuration: said */
    harness_remove(harness_path(base, "config.json"));
    run_convert(source, harness_path(dir, "out2"), &o, &run);
    assert_fine(&run);
    assert_found(&run, SW_WARNING, "no-config", NULL, NULL, "no config.json");
    outcome_free(&run);
}

/* An asset may not take the place of what is written. */
static void test_asset_called_as_a_shard(void **state)
{
    char *dir = *state, *base = harness_path(dir, "base");
    make_demo(harness_path(dir, "demo"));
    harness_write_text(harness_path(base, "config.json"), "{\"dtype\": \"float32\"}");
    harness_write_text(harness_path(base, ".journal"), "no\n");
    sw_convert_options o = {.to = "hf:shard=50KB", .assets = base};
    outcome run;
    run_convert(harness_path(dir, "demo"), harness_path(dir, "out"), &o, &run);
    assert_fine(&run);
    assert_null(find_finding(&run, "config-changed", NULL, NULL));
    outcome_free(&run);
    assert_false(harness_exists(harness_path(dir, "out/.journal")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        test_in_dir(test_splice),          test_in_dir(test_what_is_left_alone),
        test_in_dir(test_untie),           test_in_dir(test_what_is_read_of_it),
        test_in_dir(test_which_files),     test_in_dir(test_bad_configs),
        test_in_dir(test_in_a_conversion), test_in_dir(test_asset_called_as_a_shard),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
