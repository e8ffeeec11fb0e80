/* Cases from the field that belong to no reader: casts, cut files under a reader, many files. */
#include "convert/fixture.h"

#include <sys/resource.h>
#include <sys/wait.h>

/* ---- K1: casting ---------------------------------------------------------------------------- */

static void write_floats(const char *path, const uint32_t *bits, size_t count)
{
    char header[160];
    size_t n = (size_t)snprintf(header, sizeof header,
                                "{\"w\":{\"dtype\":\"F32\",\"shape\":[%zu],"
                                "\"data_offsets\":[0,%zu]}}",
                                count, 4 * count);
    uint8_t *data = calloc(8 + n + 4 * count, 1);
    assert_non_null(data);
    data[0] = (uint8_t)n;
    memcpy(data + 8, header, n);
    memcpy(data + 8 + n, bits, 4 * count);
    harness_write(path, data, 8 + n + 4 * count);
    free(data);
}

/* 1.00390625 is a tie: to even. Then: tie upwards, -0, infinities, NaN with payload, large, tiny.
 */
static const uint32_t special[] = {0x3f808000, 0x3f818000, 0x80000000, 0x7f800000, 0xff800000,
                                   0x7fc01234, 0x7f800001, 0x7f61b1e6, 0x000116c2, 0x7f7fffff};
#define SPECIALS (sizeof special / sizeof special[0])

static void expect_cast(const char *dir, sw_dtype dtype, const uint16_t *want, uint64_t overflows,
                        uint64_t underflows)
{
    char *source = harness_path(dir, "in"), *out = harness_path(dir, "out");
    write_floats(harness_path(source, "model.safetensors"), special, SPECIALS);
    sw_convert_options o = {.to = "hf", .dtype = dtype, .verify = true};
    outcome run;
    run_convert(source, out, &o, &run);
    assert_fine(&run);
    assert_int_equal(run.converted.tally.cast_elements, SPECIALS);
    assert_int_equal(run.converted.tally.cast_overflows, overflows);
    assert_int_equal(run.converted.tally.cast_underflows, underflows);
    assert_int_equal(run.converted.verified_tensors, 1);
    outcome_free(&run);
    sw_checkpoint *c = open_good(out);
    sw_tensor_info info;
    sw_error err = {0};
    uint16_t got[SPECIALS];
    assert_true(sw_catalog_tensor(sw_checkpoint_catalog(c), 0, &info));
    assert_int_equal(info.dtype, dtype);
    assert_ok(sw_checkpoint_read(c, 0, 0, SPECIALS, got, &err), &err);
    for (size_t i = 0; i < SPECIALS; i++) {
        bool nan = i == 5 || i == 6;
        uint16_t exponent = dtype == SW_BF16 ? 0x7f80 : 0x7c00;
        bool is_nan = (got[i] & exponent) == exponent && (got[i] & (uint16_t) ~(exponent | 0x8000));
        if (nan ? !is_nan : got[i] != want[i])
            fail_msg("element %zu: %04x, wanted %04x", i, got[i], want[i]);
    }
    sw_checkpoint_close(c);
    harness_remove(source);
    harness_remove(out);
}

static void test_casts(void **state)
{
    static const uint16_t bf16[] = {0x3f80, 0x3f82, 0x8000, 0x7f80, 0xff80,
                                    0,      0,      0x7f62, 0x0001, 0x7f80};
    static const uint16_t f16[] = {0x3c04, 0x3c0c, 0x8000, 0x7c00, 0xfc00,
                                   0,      0,      0x7c00, 0x0000, 0x7c00};
    expect_cast(*state, SW_BF16, bf16, 1, 0);
    expect_cast(*state, SW_F16, f16, 2, 1);
}

/* Up and down again gives the bits back. */
static void test_widening_is_exact(void **state)
{
    char *dir = *state, *source = harness_path(dir, "in");
    uint32_t bits[] = {0x3f808001, 0x80000001, 0x00000001, 0x7f7fffff, 0xff800000, 0};
    write_floats(harness_path(source, "model.safetensors"), bits, 6);
    sw_convert_options wide = {.to = "hf", .dtype = SW_F64}, back = {.to = "hf", .dtype = SW_F32};
    outcome run;
    run_convert(source, harness_path(dir, "wide"), &wide, &run);
    assert_fine(&run);
    outcome_free(&run);
    run_convert(harness_path(dir, "wide"), harness_path(dir, "back"), &back, &run);
    assert_fine(&run);
    assert_int_equal(run.converted.tally.cast_overflows, 0);
    assert_int_equal(run.converted.tally.cast_underflows, 0);
    outcome_free(&run);
    sw_checkpoint *c = open_good(harness_path(dir, "back"));
    uint32_t got[6];
    sw_error err = {0};
    assert_ok(sw_checkpoint_read(c, 0, 0, 6, got, &err), &err);
    assert_memory_equal(got, bits, sizeof bits);
    sw_checkpoint_close(c);
}

/* ---- O8, R7: files that change under a reader ------------------------------------------------ */

static void test_file_cut_while_open(void **state)
{
    char *dir = *state, *path = harness_path(dir, "model.safetensors");
    write_st_one(path, "w", 64, 64, 0);
    sw_checkpoint *c = open_good(dir);
    float value = 0;
    sw_error err = {0};
    harness_truncate(path, 4096);
    assert_ok(sw_checkpoint_read(c, 0, 10, 11, &value, &err), &err);
    assert_true(value == 10);
    value = -1;
    assert_int_equal(sw_checkpoint_read(c, 0, 4000, 4001, &value, &err), SW_ERR_CORRUPT);
    assert_error(&err, SW_ERR_CORRUPT, "model.safetensors");
    sw_checkpoint_close(c);
}

/* Wrong calls are said, and nothing is written. */
static void test_reads_outside(void **state)
{
    char *dir = *state;
    write_st_one(harness_path(dir, "model.safetensors"), "w", 2, 2, 0);
    sw_checkpoint *c = open_good(dir);
    float value = -1;
    sw_error err = {0};
    assert_int_equal(sw_checkpoint_read(c, 0, 3, 5, &value, &err), SW_ERR_ARG);
    assert_error(&err, SW_ERR_ARG, "elements 3 to 5 of 4");
    assert_int_equal(sw_checkpoint_read(c, 0, 2, 1, &value, &err), SW_ERR_ARG);
    assert_int_equal(sw_checkpoint_read(c, 1, 0, 1, &value, &err), SW_ERR_ARG);
    assert_error(&err, SW_ERR_ARG, "tensor 1 is not in the catalog");
    assert_true(value == -1);
    assert_ok(sw_checkpoint_read(c, 0, 4, 4, &value, &err), &err);
    const char *key, *text;
    assert_true(sw_checkpoint_fact(c, 0, &key, &text));
    assert_string_equal(key, "shards");
    assert_string_equal(text, "1");
    assert_false(sw_checkpoint_fact(c, 1, &key, &text));
    sw_checkpoint_close(c);
    sw_checkpoint_close(NULL);
}

/* ---- S3: more files than may be open ----------------------------------------------------------
 */

#define SHARDS 300

static void test_few_descriptors(void **state)
{
    char *dir = *state, *source = harness_path(dir, "in"), *out = harness_path(dir, "out");
    for (int i = 0; i < SHARDS; i++) {
        char name[16];
        snprintf(name, sizeof name, "w%d", i);
        write_st_one(harness_path(source, "part%d.safetensors", i), name, 2, 2, (float)i);
    }
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct rlimit few = {48, 48};
        sw_limits limits = {.open_files = 16};
        sw_convert_options o = {
            .to = "hf:shard=1KB", .open = {.limits = &limits}, .work = {.threads = 4}};
        outcome run, check;
        if (setrlimit(RLIMIT_NOFILE, &few) != 0)
            _exit(77);
        run_convert(source, out, &o, &run);
        if (run.status != SW_OK)
            show_outcome(&run);
        run_verify(out, &check);
        _exit(run.status == SW_OK && check.status == SW_OK && bad_findings(&check) == 0 ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    sw_checkpoint *c = open_good(out);
    assert_int_equal(sw_catalog_tensor_count(sw_checkpoint_catalog(c)), SHARDS);
    sw_checkpoint_close(c);
    assert_ramp(out, "w299", 2, (const int64_t[]){2, 2}, 299);
}

/* ---- Q1: a run's newest step is not whole ------------------------------------------------------
 */

static void test_step_that_was_never_committed(void **state)
{
    char *dir = *state, *good = harness_path(dir, "step-10"), *bad = harness_path(dir, "step-20");
    make_demo(good);
    make_demo(bad);
    harness_remove(harness_path(bad, ".metadata"));
    harness_truncate(harness_path(bad, "__3_0.distcp"), 50);
    harness_write_text(harness_path(dir, "latest"), "step-20");
    outcome o;
    run_verify(bad, &o);
    assert_found(&o, SW_DEFECT, "incomplete", NULL, NULL, ".metadata is missing");
    outcome_free(&o);
    assert_refuses(bad, harness_path(dir, "out"), NULL, SW_ERR_INCOMPLETE, ".metadata is missing");
    run_verify(good, &o);
    assert_fine(&o);
    outcome_free(&o);
    /* the run as a whole: the older step is not taken in silence */
    run_verify(dir, &o);
    assert_run_refused(&o, SW_ERR_CONFLICT, "step-10) and what is left of another (step-20)", NULL);
    outcome_free(&o);
    char *text = (char *)harness_read(harness_path(dir, "latest"), NULL);
    assert_string_equal(text, "step-20");
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        test_in_dir(test_casts),
        test_in_dir(test_widening_is_exact),
        test_in_dir(test_file_cut_while_open),
        test_in_dir(test_reads_outside),
        test_in_dir(test_few_descriptors),
        test_in_dir(test_step_that_was_never_committed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
