/* What is done only in part says so; what resumed work must not be taken for. */
#include "convert/fixture.h"

#include <fcntl.h>

#include "source/identity.h"

static const char *const everything[] = {"*", NULL};

/* Narrowing a conversion excuses damage, but tensors may be missing that nothing tells of. */
static void assert_in_part(const char *source, const char *dest, const sw_convert_options *options)
{
    outcome o;
    run_convert(source, dest, options, &o);
    if (o.status != SW_OK)
        show_outcome(&o);
    assert_int_equal(o.status, SW_OK);
    assert_true(o.converted.incomplete);
    assert_true(o.converted.partial);
    outcome_free(&o);
}

static void a_missing_rank_index(void **state)
{
    static const int64_t shape[] = {4, 4};
    char *dir = harness_path(*state, "source"), *dest = harness_path(*state, "dest");
    dcp_world *w = dcp_begin();
    dcp_whole(w, "a.weight", 0, 2, shape, 0);
    dcp_whole(w, "b.weight", 2, 2, shape, 100);
    dcp_write_files(w, dir);
    dcp_write_index(w, dir, "__0.metadata", 0);
    dcp_write_index(w, dir, "__2.metadata", 2);
    dcp_free(w);
    assert_refuses(dir, dest, NULL, SW_ERR_INCOMPLETE, "the index files (__R.metadata) of ranks 1");
    assert_in_part(dir, dest, &(sw_convert_options){.to = "hf", .only = everything});
    assert_in_part(dir, harness_path(*state, "dest-2"),
                   &(sw_convert_options){.to = "hf", .drop_optimizer = true});
}

static void a_missing_or_unreadable_shard(void **state)
{
    char *dir = harness_path(*state, "source");
    const sw_convert_options options = {.to = "hf", .drop_optimizer = true};
    write_st_one(harness_path(dir, "model-00001-of-00002.safetensors"), "a", 2, 2, 0);
    assert_in_part(dir, harness_path(*state, "dest-1"), &options);
    harness_write_text(harness_path(dir, "model-00002-of-00002.safetensors"), "x");
    assert_in_part(dir, harness_path(*state, "dest-2"), &options);
    harness_write_text(harness_path(dir, "model.safetensors.index.json"),
                       "{\"weight_map\":{\"a\":\"model-00001-of-00002.safetensors\","
                       "\"b\":\"model-00001-of-00002.safetensors\"}}");
    assert_in_part(dir, harness_path(*state, "dest-3"), &options);
    harness_remove(harness_path(dir, "model.safetensors.index.json"));
    write_st_one(harness_path(dir, "model-00002-of-00002.safetensors"), "b", 2, 2, 0);
    outcome o;
    run_convert(dir, harness_path(*state, "dest-4"), &options, &o);
    assert_fine(&o);
    assert_false(o.converted.incomplete);
    outcome_free(&o);
}

static void casts_that_are_none(void **state)
{
    char *dir = *state, *dest = harness_path(*state, "dest");
    write_st(harness_path(dir, "source/model.safetensors"),
             "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},"
             "\"b\":{\"dtype\":\"F8_E4M3\",\"shape\":[4],\"data_offsets\":[8,12]}}",
             12, 0);
    dir = harness_path(*state, "source");
    assert_refuses(dir, dest, &(sw_convert_options){.to = "hf", .dtype = SW_F8_E4M3FN}, SW_ERR_ARG,
                   "bf16, f16, f32 or f64");
    outcome o;
    run_convert(dir, dest, &(sw_convert_options){.to = "hf", .dtype = SW_BF16}, &o);
    assert_fine(&o);
    assert_found(&o, SW_WARNING, "not-cast", NULL, "b", "1 tensors of float8");
    outcome_free(&o);
}

static void identify(const char *dir, char text[SWI_IDENTITY_TEXT])
{
    sw_error err = {0};
    swi_identity id;
    sw_checkpoint *c = open_good(dir);
    swi_identity_begin(&id);
    assert_ok(swi_identity_source(&id, c, &err), &err);
    swi_identity_end(&id, text);
    sw_checkpoint_close(c);
}

/* A mended index makes other work of the same payload files. */
static void the_index_is_part_of_the_identity(void **state)
{
    char *dir = harness_path(*state, "source"), before[SWI_IDENTITY_TEXT], after[SWI_IDENTITY_TEXT];
    make_demo(dir);
    identify(dir, before);
    identify(dir, after);
    assert_string_equal(before, after);
    const struct timespec times[2] = {{.tv_sec = 1}, {.tv_sec = 1}};
    assert_int_equal(utimensat(AT_FDCWD, harness_path(dir, ".metadata"), times, 0), 0);
    identify(dir, after);
    assert_string_not_equal(before, after);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        test_in_dir(a_missing_rank_index),
        test_in_dir(a_missing_or_unreadable_shard),
        test_in_dir(casts_that_are_none),
        test_in_dir(the_index_is_part_of_the_identity),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
