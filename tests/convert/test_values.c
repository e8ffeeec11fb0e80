/* verify --level values: what the values of tensors show. */
#include "convert/fixture.h"

#include <fcntl.h>
#include <math.h>

static void verify_values(const char *path, outcome *o)
{
    const sw_verify_options options = {.level = SW_LEVEL_VALUES};
    outcome_begin(o);
    o->status = sw_verify(path, &options, o->report, &o->verified, &o->err);
    sw_report_sort(o->report);
}

/* One tensor "w" of these bytes. */
static char *write_bytes(const char *dir, const char *dtype, size_t elements, const void *data,
                         size_t bytes)
{
    char header[160];
    snprintf(header, sizeof header,
             "{\"w\":{\"dtype\":\"%s\",\"shape\":[%zu],\"data_offsets\":[0,%zu]}}", dtype, elements,
             bytes);
    size_t n = strlen(header);
    uint8_t *file = calloc(1, 8 + n + bytes);
    char *path = harness_path(dir, "x.safetensors");
    assert_non_null(file);
    file[0] = (uint8_t)n;
    memcpy(file + 8, header, n);
    memcpy(file + 8 + n, data, bytes);
    harness_write(path, file, 8 + n + bytes);
    free(file);
    return path;
}

/* ---- NaN and infinity of every type --------------------------------------------------------- */

typedef struct row {
    const char *dtype;
    size_t bytes;
    uint64_t bits;
    const char *code; /* NULL: a number */
} row;

static const row rows[] = {
    {"F32", 4, 0x7f800001, "nan"},
    {"F32", 4, 0xffc00000, "nan"},
    {"F32", 4, 0x7f800000, "infinity"},
    {"F32", 4, 0xff800000, "infinity"},
    {"F32", 4, 0x7f7fffff, NULL},
    {"F64", 8, 0x7ff0000000000001, "nan"},
    {"F64", 8, 0xfff0000000000000, "infinity"},
    {"F64", 8, 0x7fefffffffffffff, NULL},
    {"F16", 2, 0x7c01, "nan"},
    {"F16", 2, 0xfc00, "infinity"},
    {"F16", 2, 0x7bff, NULL},
    {"BF16", 2, 0x7f81, "nan"},
    {"BF16", 2, 0x7f80, "infinity"},
    {"BF16", 2, 0x7f7f, NULL},
    {"F8_E4M3", 1, 0x7f, "nan"},
    {"F8_E4M3", 1, 0xff, "nan"},
    {"F8_E4M3", 1, 0x7e, NULL},
    {"F8_E5M2", 1, 0x7d, "nan"},
    {"F8_E5M2", 1, 0xfc, "infinity"},
    {"F8_E5M2", 1, 0x7b, NULL},
    {"I32", 4, 0x7fc00000, NULL},
    {"U8", 1, 0xff, NULL},
};

static void every_type(void **state)
{
    const size_t count = 5;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const row *r = &rows[i];
        uint8_t data[5 * 8];
        outcome o;
        memset(data, 1, sizeof data);
        for (size_t k = 0; k < r->bytes; k++)
            data[3 * r->bytes + k] = (uint8_t)(r->bits >> (8 * k));
        verify_values(write_bytes(*state, r->dtype, count, data, count * r->bytes), &o);
        assert_fine(&o);
        if (r->code != NULL)
            assert_found(&o, SW_WARNING, r->code, NULL, "w", "1 of 5 elements, the first at [3]");
        if (sw_report_total(o.report, SW_WARNING) != (r->code != NULL)) {
            show_outcome(&o);
            fail_msg("%s %llx", r->dtype, (unsigned long long)r->bits);
        }
        outcome_free(&o);
    }
}

/* More than one leaf, and the first of many is named for any number of threads. */
static void the_first_of_many(void **state)
{
    const size_t count = 900000, first = 600001;
    float *data = malloc(count * sizeof *data);
    outcome o;
    assert_non_null(data);
    for (size_t i = 0; i < count; i++)
        data[i] = (float)i;
    for (size_t i = first; i < count; i += 1000)
        memset(&data[i], 0xff, 4);
    verify_values(write_bytes(*state, "F32", count, data, count * 4), &o);
    assert_fine(&o);
    assert_found(&o, SW_WARNING, "nan", NULL, "w", "300 of 900000 elements, the first at [600001]");
    outcome_free(&o);
    free(data);
}

/* ---- constants and duplicates --------------------------------------------------------------- */

static void constants(void **state)
{
    static const float zeros[] = {0, -0.0F, 0}, ones[] = {1, 1, 1}, most[] = {1, 1, 2};
    outcome o;
    verify_values(write_bytes(*state, "F32", 3, zeros, 12), &o);
    assert_found(&o, SW_NOTE, "all-zero", NULL, "w", "all 3 elements are zero");
    assert_null(find_finding(&o, "constant", NULL, NULL));
    outcome_free(&o);
    verify_values(write_bytes(*state, "F32", 3, ones, 12), &o);
    assert_found(&o, SW_NOTE, "constant", NULL, "w", "all 3 elements are the same");
    assert_null(find_finding(&o, "all-zero", NULL, NULL));
    outcome_free(&o);
    verify_values(write_bytes(*state, "F32", 3, most, 12), &o);
    assert_int_equal(sw_report_total(o.report, SW_NOTE), 0);
    outcome_free(&o);
    verify_values(write_bytes(*state, "F32", 1, ones, 4), &o);
    assert_int_equal(sw_report_total(o.report, SW_NOTE), 0);
    outcome_free(&o);
}

static void duplicates(void **state)
{
    const int64_t four[] = {4};
    char *dir = harness_path(*state, "dcp");
    outcome o;
    dcp_world *w = dcp_begin();
    dcp_whole(w, "model/a", 0, 1, four, 100);
    dcp_whole(w, "model/b", 0, 1, four, 200);
    dcp_whole(w, "model/c", 0, 1, four, 200);
    dcp_whole(w, "optimizer/state/a/exp_avg", 0, 1, four, 300);
    dcp_whole(w, "optimizer/state/a/exp_avg_sq", 0, 1, four, 300);
    dcp_whole(w, "optimizer/state/b/exp_avg", 0, 1, four, 400);
    dcp_whole(w, "optimizer/state/b/exp_avg_sq", 0, 1, four, 401);
    dcp_whole(w, "optimizer/state/c/exp_avg", 0, 1, four, 400);
    dcp_end(w, dir);
    verify_values(dir, &o);
    assert_fine(&o);
    assert_found(&o, SW_NOTE, "duplicate", NULL, "model.c", "equal to \"model.b\"");
    assert_found(&o, SW_WARNING, "suspicious-duplicate", NULL, "optimizer.state.a.exp_avg_sq",
                 "equal to \"optimizer.state.a.exp_avg\"");
    assert_found(&o, SW_NOTE, "duplicate", NULL, "optimizer.state.c.exp_avg",
                 "equal to \"optimizer.state.b.exp_avg\"");
    assert_int_equal(sw_report_total(o.report, SW_WARNING), 1);
    assert_int_equal(sw_report_total(o.report, SW_NOTE), 2);
    outcome_free(&o);
}

/* What other levels find does not stop this one. */
static void damage_is_passed_over(void **state)
{
    const int64_t shape[] = {8}, low[] = {0}, half[] = {4};
    char *dir = harness_path(*state, "dcp");
    outcome o;
    dcp_world *w = dcp_begin();
    dcp_chunk(w, dcp_tensor(w, "model/w", 1, shape, 0), 0, low, half);
    dcp_whole(w, "model/x", 0, 1, shape, INFINITY);
    dcp_end(w, dir);
    verify_values(dir, &o);
    assert_int_equal(o.status, SW_OK);
    assert_found(&o, SW_DEFECT, "hole", NULL, "model.w", "");
    assert_found(&o, SW_WARNING, "infinity", NULL, "model.x", "8 of 8 elements");
    outcome_free(&o);
}

/* ---- steps --------------------------------------------------------------------------------- */

static void put_step(dcp_world *w, const char *parameter, int rank, float step)
{
    static const int64_t none[4] = {0};
    char path[64];
    snprintf(path, sizeof path, "optimizer/state/%s/step", parameter);
    dcp_whole(w, path, rank, 0, none, step);
}

/* Q8: every counter of a file says one step, and those of another file a later one. */
static void files_of_two_saves(void **state)
{
    char *dir = harness_path(*state, "dcp");
    outcome o;
    for (int late = 0; late < 2; late++) {
        dcp_world *w = dcp_begin();
        put_step(w, "a", 0, 10);
        put_step(w, "b", 1, late ? 11 : 10);
        put_step(w, "c", 0, 10);
        put_step(w, "d", 1, late ? 11 : 10);
        dcp_end(w, dir);
        verify_values(dir, &o);
        assert_fine(&o);
        if (late)
            assert_found(&o, SW_WARNING, "mixed-steps", "__1_0.distcp", NULL,
                         "every optimizer step in this file is 11, and in __0_0.distcp 10");
        assert_int_equal(sw_report_total(o.report, SW_WARNING), late);
        assert_int_equal(sw_report_total(o.report, SW_NOTE), 0);
        outcome_free(&o);
    }
}

/* A parameter that was trained less is no mixture: within a file, or where a file has too few. */
static void parameters_trained_less(void **state)
{
    static const float steps[][4] = {{10, 10, 7, 10}, {10, 9, 10, 9}};
    for (int i = 0; i < 2; i++) {
        char *dir = harness_path(*state, "dcp%d", i);
        outcome o;
        dcp_world *w = dcp_begin();
        put_step(w, "a", 0, steps[i][0]);
        put_step(w, "b", i == 0 ? 0 : 1, steps[i][1]);
        put_step(w, "c", i == 0 ? 1 : 2, steps[i][2]);
        put_step(w, "d", i == 0 ? 1 : 3, steps[i][3]);
        dcp_end(w, dir);
        verify_values(dir, &o);
        assert_fine(&o);
        assert_found(&o, SW_NOTE, "steps-vary", NULL, NULL, i == 0 ? "from 7 (" : "from 9 (");
        assert_int_equal(sw_report_total(o.report, SW_WARNING), 0);
        outcome_free(&o);
    }
}

/* The step that a value tells, against the name of the folder. */
static void step_of_the_name(void **state)
{
    static const struct {
        const char *folder, *value;
        int64_t step;
        bool told, said;
    } cases[] = {
        {"step-20", "train_state/step", 20, true, false},
        {"step-21", "train_state/step", 20, true, false}, /* counted from 0 */
        {"step-300", "train_state/step", 200, true, true},
        {"iter_0000300", "iteration", 200, true, true},
        {"checkpoint-3", "global_step", 3000, true, false}, /* the third one */
        {"epoch-3", "global_step", 3000, true, false},
        {"step-300", "lr_scheduler/step", 200, false, false},
        {"step-300", "a/b/step", 200, false, false},
        {"step-300", "step", -1, false, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char *dir = harness_path(*state, "%zu/%s", i, cases[i].folder);
        int64_t step = cases[i].step;
        outcome o;
        dcp_world *w = dcp_begin();
        dcp_whole(w, "model/w", 0, 1, (const int64_t[]){4}, 100);
        dcp_object(w, cases[i].value, 0, emit_int, &step);
        dcp_end(w, dir);
        verify_values(dir, &o);
        assert_fine(&o);
        assert_int_equal(o.verified.has_step, cases[i].told);
        if (cases[i].told)
            assert_int_equal(o.verified.step, step);
        if ((find_finding(&o, "step-differs", NULL, NULL) != NULL) != cases[i].said)
            fail_msg("%s with %s", cases[i].folder, cases[i].value);
        if (cases[i].said)
            assert_found(&o, SW_NOTE, "step-differs", NULL, NULL, "and of step 200 by");
        outcome_free(&o);
    }
}

/* ---- times ------------------------------------------------------------------------------------
 */

static void set_time(const char *dir, const char *name, long seconds)
{
    const struct timespec times[2] = {{.tv_sec = seconds}, {.tv_sec = seconds}};
    assert_int_equal(utimensat(AT_FDCWD, harness_path(dir, "%s", name), times, 0), 0);
}

static void files_of_two_times(void **state)
{
    enum { OLD = 1000000000, NEW = OLD + 7200 };
    static const struct {
        long data[3], index;
        const char *file, *text; /* NULL: nothing is said */
    } cases[] = {
        {{NEW, NEW + 3, NEW + 5}, NEW + 6, NULL, NULL},
        {{OLD, NEW + 3, NEW + 5}, NEW + 6, "__0_0.distcp", "1 files were written 7203 s before"},
        {{NEW, OLD, OLD}, OLD + 1, "__0_0.distcp", "1 files were written 7199 s after the index"},
        {{NEW, NEW, NEW}, OLD, "__0_0.distcp", "3 files were written 7200 s after the index"},
        {{OLD, OLD, OLD}, NEW, NULL, NULL},            /* the index took its time */
        {{OLD, OLD + 3600, NEW}, NEW + 1, NULL, NULL}, /* as a slow copy leaves them */
        {{NEW - 300, NEW, NEW}, NEW + 1, NULL, NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char *dir = harness_path(*state, "%zu", i);
        outcome o;
        dcp_world *w = dcp_begin();
        for (int r = 0; r < 3; r++)
            put_step(w, r == 0 ? "a" : r == 1 ? "b" : "c", r, 10);
        dcp_end(w, dir);
        set_time(dir, ".metadata", cases[i].index);
        for (int r = 0; r < 3; r++)
            set_time(dir, harness_path("", "__%d_0.distcp", r) + 1, cases[i].data[r]);
        verify_values(dir, &o);
        assert_fine(&o);
        if (cases[i].file != NULL)
            assert_found(&o, SW_NOTE, "files-of-two-times", cases[i].file, NULL, cases[i].text);
        else
            assert_null(find_finding(&o, "files-of-two-times", NULL, NULL));
        outcome_free(&o);
    }
}

/* Copies that ranks saved are compared at this level too. */
static void copies_that_differ(void **state)
{
    char *dir = harness_path(*state, "dcp");
    outcome o;
    dcp_world *w = dcp_begin();
    const int64_t four[] = {4}, zero[] = {0};
    dcp_item *it = dcp_tensor(w, "model/w", 1, four, 0);
    dcp_chunk(w, it, 0, zero, four);
    it->base = 5;
    dcp_chunk(w, it, 1, zero, four);
    dcp_write_files(w, dir);
    dcp_write_index(w, dir, "__0.metadata", 0);
    dcp_write_index(w, dir, "__1.metadata", 1);
    dcp_free(w);
    verify_values(dir, &o);
    assert_int_equal(o.status, SW_OK);
    assert_found(&o, SW_DEFECT, "replicas-differ", NULL, "model.w", "first at [0]");
    outcome_free(&o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        test_in_dir(every_type),
        test_in_dir(the_first_of_many),
        test_in_dir(constants),
        test_in_dir(duplicates),
        test_in_dir(damage_is_passed_over),
        test_in_dir(files_of_two_saves),
        test_in_dir(parameters_trained_less),
        test_in_dir(step_of_the_name),
        test_in_dir(files_of_two_times),
        test_in_dir(copies_that_differ),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
