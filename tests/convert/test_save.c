/* Saving from memory: whatever the target, what is read back is what lay there. */
#include "fixture.h"

#define ROWS 6
#define COLUMNS 5

static float weight[ROWS * COLUMNS], left[ROWS * 2], right[ROWS * 3];
static const double moment[4] = {0.5, -1.0, 2.0, 1e300};

/* The weight holds its own coordinates, and so do its left and right parts. */
static void fill(void)
{
    for (int i = 0; i < ROWS * COLUMNS; i++) {
        const int row = i / COLUMNS, column = i % COLUMNS;
        weight[i] = (float)i;
        if (column < 2)
            left[row * 2 + column] = (float)i;
        else
            right[row * 3 + column - 2] = (float)i;
    }
}

static sw_tensor_data whole(const char *name)
{
    return (sw_tensor_data){
        .name = name, .dtype = SW_F32, .axes = 2, .shape = {ROWS, COLUMNS}, .data = weight};
}

static sw_tensor_data columns(const char *name, int64_t at, int64_t count, const float *data)
{
    sw_tensor_data t = whole(name);
    t.data = data;
    t.part = SW_PART_BOX;
    t.offset[1] = at;
    t.length[0] = ROWS;
    t.length[1] = count;
    return t;
}

static sw_save *begin(void)
{
    sw_save *s = NULL;
    sw_error err = {0};
    fill();
    assert_ok(sw_save_begin(&(sw_save_options){.in_order = true}, &s, &err), &err);
    return s;
}

static void add(sw_save *s, sw_tensor_data t)
{
    sw_error err = {0};
    assert_ok(sw_save_tensor(s, &t, &err), &err);
}

/* A model of whole and of divided tensors, an optimizer's state, and values of each kind. */
static sw_save *sample(void)
{
    sw_save *s = begin();
    sw_error err = {0};
    add(s, whole("model/a.weight"));
    add(s, columns("model/b.weight", 2, 3, right));
    add(s, columns("model/b.weight", 0, 2, left));
    add(s, (sw_tensor_data){.name = "model/scale", .dtype = SW_F32, .data = weight + 7});
    add(s, (sw_tensor_data){
               .name = "model/none", .dtype = SW_F32, .axes = 2, .shape = {0, 3}, .data = NULL});
    add(s, (sw_tensor_data){.name = "optimizer/state/a.weight/exp_avg",
                            .dtype = SW_F64,
                            .axes = 1,
                            .shape = {4},
                            .data = moment});
    assert_ok(sw_save_json(s, "optimizer/param_groups",
                           "[{\"lr\": 0.125, \"params\": [\"a.weight\", \"b.weight\"]}]", &err),
              &err);
    assert_ok(sw_save_int(s, "step", 1000, &err), &err);
    assert_ok(sw_save_float(s, "loss", 2.5, &err), &err);
    assert_ok(sw_save_bool(s, "done", true, &err), &err);
    assert_ok(sw_save_text(s, "note", "caf\xc3\xa9", &err), &err);
    assert_ok(sw_save_bytes(s, "seed", "\0\1\2", 3, &err), &err);
    return s;
}

static void commit(sw_save *s, const char *path, const char *to)
{
    outcome o;
    outcome_begin(&o);
    o.status = sw_save_commit(s, path, &(sw_convert_options){.to = to, .verify = true}, o.report,
                              &o.converted, &o.err);
    assert_fine(&o);
    assert_string_equal(o.converted.framework, "memory");
    assert_int_equal(o.converted.verified_tensors, o.converted.tensors);
    outcome_free(&o);
    run_verify(path, &o);
    assert_fine(&o);
    outcome_free(&o);
}

static void assert_elements(const sw_checkpoint *c, const char *name, const void *want, size_t size)
{
    sw_error err = {0};
    sw_tensor_info info;
    uint8_t room[256];
    const int64_t at = sw_catalog_find(sw_checkpoint_catalog(c), name);
    if (at < 0)
        fail_msg("no tensor %s", name);
    assert_true(sw_catalog_tensor(sw_checkpoint_catalog(c), (size_t)at, &info));
    assert_int_equal(info.bytes, size);
    assert_ok(sw_checkpoint_read(c, (size_t)at, 0, info.elements, room, &err), &err);
    assert_memory_equal(room, want, size);
}

/* The text that the value of this name has in the checkpoint. */
static void assert_value(const sw_checkpoint *c, const char *name, const char *want)
{
    sw_error err = {0};
    sw_value_info info;
    char *text = NULL;
    for (size_t i = 0; sw_catalog_value_at(sw_checkpoint_catalog(c), i, &info); i++) {
        sw_value_graph *g = NULL;
        sw_value v;
        if (strcmp(info.name, name) != 0)
            continue;
        assert_ok(sw_checkpoint_value(c, i, &g, &v, &err), &err);
        assert_ok(sw_value_text(g, v, 200, &text, &err), &err);
        assert_string_equal(text, want);
        free(text);
        sw_value_graph_free(g);
        return;
    }
    fail_msg("no value %s", name);
}

static void test_every_target(void **state)
{
    static const char *const targets[] = {"dcp:ranks=3", "torch", "native",
                                          "native:codec=zstd,ranks=3"};
    sw_save *s = sample();
    for (size_t i = 0; i < sizeof targets / sizeof targets[0]; i++) {
        const char *path = harness_path(*state, "out-%zu", i);
        commit(s, path, targets[i]);
        sw_checkpoint *c = open_good(path);
        assert_elements(c, "model.a.weight", weight, sizeof weight);
        assert_elements(c, "model.b.weight", weight, sizeof weight);
        assert_elements(c, "model.scale", weight + 7, sizeof weight[0]);
        assert_elements(c, "model.none", NULL, 0);
        assert_elements(c, "optimizer.state.a.weight.exp_avg", moment, sizeof moment);
        assert_value(c, "step", "1000");
        assert_value(c, "loss", "2.5");
        assert_value(c, "done", "True");
        sw_checkpoint_close(c);
    }
    sw_save_free(s);
}

/* Of a target of weights what is under "model" is written, by its names there. */
static void test_weights(void **state)
{
    sw_save *s = sample();
    const char *path = harness_path(*state, "hf");
    commit(s, path, "hf");
    sw_checkpoint *c = open_good(path);
    assert_int_equal(sw_catalog_tensor_count(sw_checkpoint_catalog(c)), 4);
    assert_elements(c, "a.weight", weight, sizeof weight);
    assert_elements(c, "b.weight", weight, sizeof weight);
    sw_checkpoint_close(c);
    sw_save_free(s);
}

static void digests_of(const char *path, const char *to, char root[SW_DIGEST_TEXT])
{
    sw_save *s = sample();
    sw_error err = {0};
    sw_digests *d = NULL;
    commit(s, path, to);
    assert_ok(sw_hash(path, NULL, NULL, &d, NULL, &err), &err);
    sw_digests_root(d, root);
    sw_digests_free(d);
    sw_save_free(s);
}

static void test_same_content(void **state)
{
    char a[SW_DIGEST_TEXT], b[SW_DIGEST_TEXT];
    digests_of(harness_path(*state, "dcp"), "dcp:ranks=2", a);
    digests_of(harness_path(*state, "torch"), "torch", b);
    assert_string_equal(a, b);
    digests_of(harness_path(*state, "native"), "native:codec=planes,ranks=2", b);
    assert_string_equal(a, b);
}

static void assert_commit_fails(sw_save *s, const char *path, sw_status status, const char *text)
{
    sw_error err = {0};
    assert_int_equal(
        sw_save_commit(s, path, &(sw_convert_options){.to = "torch"}, NULL, NULL, &err), status);
    assert_error(&err, status, text);
    assert_false(harness_exists(path));
}

/* What the boxes lack or hold twice is told by commit, and more boxes may mend it. */
static void test_boxes(void **state)
{
    const char *path = harness_path(*state, "out");
    sw_save *s = begin();
    add(s, columns("w", 2, 3, right));
    assert_commit_fails(s, path, SW_ERR_INCOMPLETE, "\"w\"");
    add(s, columns("w", 0, 2, left));
    commit(s, path, "torch");
    add(s, columns("w", 1, 1, left));
    assert_commit_fails(s, harness_path(*state, "again"), SW_ERR_CONFLICT, "\"w\"");
    sw_save_free(s);
}

static void assert_refused(sw_save *s, sw_tensor_data t, sw_status status, const char *text)
{
    sw_error err = {0};
    assert_int_equal(sw_save_tensor(s, &t, &err), status);
    assert_error(&err, status, text);
}

static void test_refused(void **state)
{
    sw_error err = {0};
    sw_save *s = begin();
    sw_tensor_data t = whole("model/w");
    add(s, t);
    assert_ok(sw_save_int(s, "step", 1, &err), &err);
    assert_refused(s, whole(""), SW_ERR_ARG, "a name is needed");
    assert_refused(s, whole("a//b"), SW_ERR_ARG, "none of them empty");
    assert_refused(s, whole("a/"), SW_ERR_ARG, "none of them empty");
    assert_refused(s, whole("a\xff"), SW_ERR_FORMAT, "UTF-8");
    assert_refused(s, whole("step"), SW_ERR_CONFLICT, "something of that name");
    assert_refused(s, whole("step/w"), SW_ERR_CONFLICT, "no dict");
    assert_refused(s, whole("model"), SW_ERR_CONFLICT, "something of that name");
    assert_refused(s, whole("model.w"), SW_ERR_CONFLICT, "called alike");
    t.dtype = SW_I32;
    assert_refused(s, t, SW_ERR_CONFLICT, "different types or shapes");
    t = whole("x");
    t.data = NULL;
    assert_refused(s, t, SW_ERR_ARG, "its data is needed");
    t = whole("x");
    t.dtype = SW_DTYPE_NONE;
    assert_refused(s, t, SW_ERR_ARG, "a known type");
    t = whole("x");
    t.shape[0] = -1;
    assert_refused(s, t, SW_ERR_ARG, "a known type");
    t = columns("x", 3, 3, right);
    assert_refused(s, t, SW_ERR_ARG, "leaves the tensor on axis 1");
    assert_int_equal(sw_save_int(s, "step", 2, &err), SW_ERR_CONFLICT);
    assert_int_equal(sw_save_text(s, "t", NULL, &err), SW_ERR_ARG);
    assert_int_equal(sw_save_text(s, "t", "\xff", &err), SW_ERR_FORMAT);
    assert_int_equal(sw_save_json(s, "t", "{\"a\": }", &err), SW_ERR_FORMAT);
    assert_int_equal(sw_save_json(s, "t", NULL, &err), SW_ERR_ARG);
    assert_int_equal(sw_save_int(NULL, "t", 1, &err), SW_ERR_ARG);
    assert_int_equal(sw_save_commit(s, "out", &(sw_convert_options){0}, NULL, NULL, &err),
                     SW_ERR_ARG);
    assert_int_equal(sw_save_begin(NULL, NULL, &err), SW_ERR_ARG);
    commit(s, harness_path(*state, "out"), "torch"); /* what was refused is not in it */
    sw_checkpoint *c = open_good(harness_path(*state, "out"));
    assert_int_equal(sw_catalog_tensor_count(sw_checkpoint_catalog(c)), 1);
    sw_checkpoint_close(c);
    sw_save_free(s);
}

static bool stop(void *ctx, const sw_progress *progress)
{
    (void)ctx, (void)progress;
    return false;
}

/* What is stopped leaves nothing: the memory may be another when it is called again. */
static void test_nothing_is_left(void **state)
{
    const char *path = harness_path(*state, "folder/out");
    sw_error err = {0};
    sw_save *s = sample();
    const sw_convert_options options = {.to = "dcp:ranks=2", .work = {.progress = stop}};
    harness_write_text(harness_path(*state, "folder/other"), "");
    assert_int_equal(sw_save_commit(s, path, &options, NULL, NULL, &err), SW_ERR_CANCELED);
    harness_remove(harness_path(*state, "folder/other"));
    assert_int_equal(rmdir(harness_path(*state, "folder")), 0);
    sw_save_free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        test_in_dir(test_every_target), test_in_dir(test_weights),
        test_in_dir(test_same_content), test_in_dir(test_boxes),
        test_in_dir(test_refused),      test_in_dir(test_nothing_is_left),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
