/*
 * Content digests against the definitions of specs/digest.md, over random layouts. The reference is
 * held to the vectors that tests/interop/digest_reference.py prints.
 */
#include "reshard/world.h"

#include "cast.h"
#include "digest.h"

static void put(uint8_t *at, uint64_t v, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        at[i] = (uint8_t)(v >> (8 * i));
}

static void sha(swi_hasher *hasher, const uint8_t *data, size_t size, uint8_t *out)
{
    sw_error err = {0};
    swi_digest digest;
    assert_ok(swi_hasher_begin(hasher, &err), &err);
    assert_ok(swi_hasher_add(hasher, data, size, &err), &err);
    assert_ok(swi_hasher_end(hasher, &digest, &err), &err);
    memcpy(out, digest.bytes, sizeof digest.bytes);
}

/* DIG-3 to DIG-5, from the whole content. */
static swi_digest reference(sw_dtype dtype, uint32_t axes, const int64_t *shape,
                            const uint8_t *content, size_t bytes)
{
    const size_t leaf_bytes = 1048576;
    swi_hasher *hasher;
    sw_error err = {0};
    swi_digest out;
    size_t leaves = (bytes + leaf_bytes - 1) / leaf_bytes, n = strlen(sw_dtype_name(dtype));
    uint8_t *root = calloc(1, 2 + n + 4 + 8 * (size_t)axes + 8 + 32 * leaves);
    uint8_t *leaf = malloc(leaf_bytes + 1);
    assert_non_null(root);
    assert_non_null(leaf);
    assert_ok(swi_hasher_make(&hasher, &err), &err);
    uint8_t *p = root;
    *p++ = 2;
    *p++ = (uint8_t)n;
    memcpy(p, sw_dtype_name(dtype), n);
    p += n;
    put(p, axes, 4);
    p += 4;
    for (uint32_t k = 0; k < axes; k++, p += 8)
        put(p, (uint64_t)shape[k], 8);
    put(p, leaves, 8);
    p += 8;
    for (size_t at = 0; at < bytes; at += leaf_bytes, p += 32) {
        size_t size = bytes - at < leaf_bytes ? bytes - at : leaf_bytes;
        leaf[0] = 0;
        memcpy(leaf + 1, content + at, size);
        sha(hasher, leaf, size + 1, p);
    }
    sha(hasher, root, (size_t)(p - root), out.bytes);
    swi_hasher_free(hasher);
    free(root);
    free(leaf);
    return out;
}

static uint8_t *content_of(const world *w, uint32_t id, size_t *bytes)
{
    const world_tensor *t = &w->tensors[id];
    uint32_t size = sw_dtype_bytes(t->dtype);
    uint8_t *data = calloc(1, t->elements * size + 1);
    assert_non_null(data);
    for (uint64_t i = 0; i < t->elements; i++)
        world_put(data + i * size, t, id, i);
    *bytes = t->elements * size;
    return data;
}

static void assert_digest(const swi_digest *got, const swi_digest *want, const char *what)
{
    char a[SWI_DIGEST_TEXT], b[SWI_DIGEST_TEXT];
    swi_digest_text(got, a);
    swi_digest_text(want, b);
    if (strcmp(a, b) != 0)
        fail_msg("%s: %s, expected %s", what, a, b);
}

static void vectors(void **state)
{
    (void)state;
    static const struct {
        uint32_t axes;
        int64_t shape[2];
        const char *digest;
    } rows[] = {
        {1, {1 << 18}, "ed8996c921c0b11468665ea6c87f3d21b94981f1329d5ea5e2b88ec31a9b4029"},
        {1, {(1 << 18) + 1}, "0678795d62ca2946fd666117a416c075f7a29b83cecb377ef08a0517b4547e46"},
        {2, {3, 1 << 18}, "2ca51c83a19d493c786063b640e53b0737915a07c6899450ea41734b7b345474"},
    };
    size_t count = (size_t)3 << 18;
    int32_t *ramp = malloc(count * 4);
    assert_non_null(ramp);
    for (size_t i = 0; i < count; i++)
        ramp[i] = (int32_t)i;
    for (size_t i = 0; i < 3; i++) {
        swi_digest want, got;
        size_t n = (size_t)rows[i].shape[0] * (rows[i].axes > 1 ? (size_t)rows[i].shape[1] : 1);
        assert_true(swi_digest_parse(rows[i].digest, 64, &want));
        got = reference(SW_I32, rows[i].axes, rows[i].shape, (const uint8_t *)ramp, n * 4);
        assert_digest(&got, &want, "vector");
    }
    swi_digest empty, want;
    const int64_t none[] = {0, 4};
    empty = reference(SW_F32, 2, none, NULL, 0);
    assert_true(swi_digest_parse("c902142bd82b56951ef7befb328c9694fca9a03ec2025c696f08062d50913ab0",
                                 64, &want));
    assert_digest(&empty, &want, "empty");
    free(ramp);
}

static void check_world(world *w, uint32_t threads)
{
    const sw_work_options work = {.threads = threads};
    const swi_digest_in in = {0};
    swi_digest out[WORLD_TENSORS_MAX] = {0};
    sw_error err = {0};
    sw_tally tally = {0};
    uint64_t total = 0;
    assert_ok(swi_catalog_digests(&w->source, &in, &work, out, &tally, &err), &err);
    for (uint32_t id = 0; id < w->count; id++) {
        size_t bytes;
        uint8_t *data = content_of(w, id, &bytes);
        swi_digest want =
            reference(w->tensors[id].dtype, w->tensors[id].axes, w->tensors[id].shape, data, bytes);
        assert_digest(&out[id], &want, w->tensors[id].name);
        total += bytes;
        free(data);
    }
    assert_true(tally.read_bytes >= total);
}

static void any_layout(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        world w = {.strided = seed % 3 == 0, .replicas = seed % 4 == 0, .crc = seed % 5 == 0};
        world_make(&w, seed);
        check_world(&w, 1 + (uint32_t)(seed % 4));
        world_free(&w);
    }
}

/* Three leaves, the last short, cut by columns. */
static world big_world(void)
{
    static const int64_t parts[] = {1, 3};
    world w = {.count = 2, .fixed_parts = parts, .prng = {.state = 5}};
    w.tensors[0] = (world_tensor){
        .name = "t0", .dtype = SW_F32, .axes = 2, .shape = {700, 800}, .elements = 560000};
    w.tensors[1] = (world_tensor){
        .name = "t1", .dtype = SW_F64, .axes = 2, .shape = {1, 1 << 17}, .elements = 1 << 17};
    world_build(&w);
    return w;
}

static void several_leaves(void **state)
{
    (void)state;
    for (uint32_t threads = 1; threads <= 7; threads += 3) {
        world w = big_world();
        check_world(&w, threads);
        world_free(&w);
    }
}

static void cast_first(void **state)
{
    (void)state;
    world w = big_world();
    const swi_digest_in in = {.as = SW_BF16};
    swi_digest out[WORLD_TENSORS_MAX] = {0};
    sw_error err = {0};
    sw_tally tally = {0}, ignored = {0};
    assert_ok(swi_catalog_digests(&w.source, &in, NULL, out, &tally, &err), &err);
    assert_int_equal(tally.cast_elements, 560000 + (1 << 17));
    for (uint32_t id = 0; id < w.count; id++) {
        const world_tensor *t = &w.tensors[id];
        size_t bytes;
        uint8_t *data = content_of(&w, id, &bytes), *cast = malloc(t->elements * 2);
        assert_non_null(cast);
        swi_cast(data, t->dtype, cast, SW_BF16, t->elements, &ignored);
        swi_digest want = reference(SW_BF16, t->axes, t->shape, cast, t->elements * 2);
        assert_digest(&out[id], &want, t->name);
        free(data);
        free(cast);
    }
    world_free(&w);
}

static void only_the_wanted(void **state)
{
    (void)state;
    world w = big_world();
    const bool want[] = {false, true};
    const swi_digest_in in = {.want = want};
    swi_digest out[WORLD_TENSORS_MAX] = {0}, zero = {0};
    sw_error err = {0};
    assert_ok(swi_catalog_digests(&w.source, &in, NULL, out, NULL, &err), &err);
    assert_memory_equal(&out[0], &zero, sizeof zero);
    assert_memory_not_equal(&out[1], &zero, sizeof zero);
    world_free(&w);
}

static bool stop(void *ctx, const sw_progress *progress)
{
    (void)ctx, (void)progress;
    return false;
}

static void stops_as_asked(void **state)
{
    (void)state;
    world w = big_world();
    const swi_digest_in in = {0};
    const sw_work_options work = {.threads = 2, .progress = stop};
    swi_digest out[WORLD_TENSORS_MAX] = {0};
    sw_error err = {0};
    assert_int_equal(swi_catalog_digests(&w.source, &in, &work, out, NULL, &err), SW_ERR_CANCELED);
    assert_error(&err, SW_ERR_CANCELED, "stopped");
    world_free(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(vectors),         cmocka_unit_test(any_layout),
        cmocka_unit_test(several_leaves),  cmocka_unit_test(cast_first),
        cmocka_unit_test(only_the_wanted), cmocka_unit_test(stops_as_asked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
