/* NAT-7: terms that are not added up yet (Partial) are listed, and never taken for the tensor. */
#include "fixture.h"

#include "native/manifest.h"

/* A tensor over two ranks, whose layout is made Partial; and a scalar, which has another. */
static const char *make_partial(void **state)
{
    static const float values[8] = {0, 1, 2, 3, 4, 5, 6, 7};
    const char *path = harness_path(*state, "partial");
    const char *manifest = harness_path(path, SWI_NATIVE_MANIFEST);
    sw_save *s = NULL;
    sw_error err = {0};
    assert_ok(sw_save_begin(NULL, &s, &err), &err);
    for (int i = 0; i < 2; i++) {
        const sw_tensor_data t = {.name = i == 0 ? "model/sum" : "model/scale",
                                  .dtype = SW_F32,
                                  .axes = i == 0,
                                  .shape = {8},
                                  .data = values};
        assert_ok(sw_save_tensor(s, &t, &err), &err);
    }
    const sw_convert_options options = {.to = "native:ranks=2"};
    assert_ok(sw_save_commit(s, path, &options, NULL, NULL, &err), &err);
    sw_save_free(s);
    size_t size;
    uint8_t *text = harness_read(manifest, &size);
    swi_native_manifest m;
    swi_buf out = {0};
    const sw_limits limits = sw_limits_resolve(NULL);
    assert_ok(swi_native_manifest_read(text, size, &limits, &m, &err), &err);
    size_t changed = 0;
    for (size_t i = 0; i < m.layout_count; i++) {
        swi_native_placement *at = &m.layouts[i].at[0];
        if (m.layouts[i].kind != SWI_NATIVE_DTENSOR || at->kind != SWI_NATIVE_SHARD)
            continue;
        *at = (swi_native_placement){.kind = SWI_NATIVE_PARTIAL, .op = "sum"};
        changed++;
    }
    assert_int_equal(changed, 1);
    assert_ok(swi_native_manifest_write(&m, &out, &err), &err);
    harness_write(manifest, out.data, out.size);
    swi_buf_free(&out);
    swi_native_manifest_free(&m);
    free(text);
    return path;
}

static void test_listed_and_not_read(void **state)
{
    const char *path = make_partial(state);
    sw_error err = {0};
    float room[8];
    sw_tensor_info info;
    outcome o;
    run_verify(path, &o);
    assert_fine(&o); /* its bytes are what was written */
    assert_found(&o, SW_WARNING, "partial", NULL, "model.sum", "not added up");
    outcome_free(&o);
    sw_checkpoint *c = open_good(path);
    const int64_t at = sw_catalog_find(sw_checkpoint_catalog(c), "model.sum");
    assert_true(at >= 0 && sw_catalog_tensor(sw_checkpoint_catalog(c), (size_t)at, &info));
    assert_int_equal(sw_checkpoint_read(c, (size_t)at, 0, 8, room, &err), SW_ERR_UNSUPPORTED);
    assert_error(&err, SW_ERR_UNSUPPORTED, "tensor \"model.sum\" holds what is not read");
    sw_checkpoint_close(c);
}

static void test_not_converted(void **state)
{
    const char *path = make_partial(state), *dest = harness_path(*state, "out");
    static const char *const targets[] = {"hf", "torch", "dcp", "native"};
    const char *const drop[] = {"*sum", NULL};
    for (size_t i = 0; i < sizeof targets / sizeof targets[0]; i++)
        assert_refuses(path, dest, &(sw_convert_options){.to = targets[i]}, SW_ERR_UNSUPPORTED,
                       "model.sum");
    outcome o;
    run_convert(path, dest, &(sw_convert_options){.to = "torch", .drop = drop}, &o);
    assert_fine(&o);
    assert_int_equal(o.converted.tensors, 1);
    outcome_free(&o);
}

static void test_no_digest(void **state)
{
    const char *path = make_partial(state);
    sw_digests *digests = NULL;
    sw_error err = {0};
    assert_int_equal(sw_hash(path, NULL, NULL, &digests, NULL, &err), SW_ERR_UNSUPPORTED);
    assert_error(&err, SW_ERR_UNSUPPORTED, "model.sum");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        test_in_dir(test_listed_and_not_read),
        test_in_dir(test_not_converted),
        test_in_dir(test_no_digest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
