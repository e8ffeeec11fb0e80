/* Content digests of what passes: while a conversion runs, and part by part from several threads.
 */
#include "reshard/world.h"

#include <pthread.h>

#include "digest.h"

static void assert_same(const swi_digest *got, const swi_digest *want, const char *what)
{
    char a[SWI_DIGEST_TEXT], b[SWI_DIGEST_TEXT];
    swi_digest_text(got, a);
    swi_digest_text(want, b);
    if (strcmp(a, b) != 0)
        fail_msg("%s: %s, expected %s", what, a, b);
}

/* Those of the source, which has the same tensors in the same order. */
static void assert_digests(const world *w, const swi_digest *got)
{
    const swi_digest_in in = {0};
    swi_digest want[WORLD_TENSORS_MAX] = {0};
    sw_error err = {0};
    assert_ok(swi_catalog_digests(&w->source, &in, NULL, want, NULL, &err), &err);
    for (uint32_t id = 0; id < w->count; id++)
        assert_same(&got[id], &want[id], w->tensors[id].name);
}

static bool skip_done(const void *ctx, uint32_t file)
{
    return ((const world_sink *)ctx)->done[file];
}

/* ---- on the way -------------------------------------------------------------------------------
 */

static void convert(world *w, const swi_budget *budget, bool some_done)
{
    swi_digest got[WORLD_TENSORS_MAX] = {0};
    world_sink sink;
    sw_error err = {0};
    swi_layout *layout = world_layout(w);
    world_sink_make(&sink, layout);
    sink.sink.digests = got;
    if (some_done) {
        sink.sink.skip = skip_done;
        for (uint32_t f = 0; f < WORLD_FILES; f++)
            sink.done[f] = world_below(w, 2) == 0;
    }
    const swi_execute_in in = {
        .source = &w->source, .layout = layout, .sink = &sink.sink, .budget = *budget};
    uint64_t left = 0;
    for (uint32_t f = 0; f < WORLD_FILES; f++)
        left += sink.done[f] ? 0 : swi_catalog_file_bytes(swi_layout_catalog(layout), f);
    sw_tally tally = {0};
    assert_ok(swi_execute_job(&in, NULL, &tally, &err), &err);
    assert_int_equal(tally.written_bytes, left);
    assert_digests(w, got);
    if (!some_done)
        world_verify(w, layout, sink.store);
    swi_store_close(sink.store);
    swi_layout_free(layout);
}

static void of_small_tensors(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        world w = {.strided = seed % 3 == 0, .late = seed % 5 == 0};
        world_make(&w, seed + 70000);
        const swi_budget budget = {
            .threads = 1 + (uint32_t)(seed % 4),
            .window_bytes = 16 + (size_t)world_below(&w, 4000),
            .bounce_bytes = 64 + 16 * (size_t)world_below(&w, 64),
        };
        convert(&w, &budget, seed % 2 == 0);
        world_free(&w);
    }
}

/* Three leaves that rows do not divide, cut by columns. */
static world big_world(void)
{
    static const int64_t parts[] = {1, 3};
    world w = {.count = 2, .fixed_parts = parts, .prng = {.state = 5}};
    w.tensors[0] = (world_tensor){
        .name = "t0", .dtype = SW_F32, .axes = 2, .shape = {700, 800}, .elements = 560000};
    w.tensors[1] = (world_tensor){
        .name = "t1", .dtype = SW_BF16, .axes = 2, .shape = {3, 1 << 18}, .elements = 3 << 18};
    world_build(&w);
    return w;
}

/* Windows smaller than a leaf, about as large, and larger. */
static void of_large_tensors(void **state)
{
    static const size_t windows[] = {70000, 500000, 1 << 20, 3 << 20};
    (void)state;
    for (size_t i = 0; i < 4; i++) {
        for (uint32_t threads = 1; threads <= 7; threads += 3) {
            world w = big_world();
            const swi_budget budget = {
                .threads = threads, .window_bytes = windows[i], .bounce_bytes = 65536};
            convert(&w, &budget, threads == 4);
            world_free(&w);
        }
    }
}

/* Threads that wait for one that fails are not left waiting. */
typedef struct broken {
    world_sink sink;
    uint32_t opens;
} broken;

static sw_status open_or_fail(void *ctx, uint32_t file, swi_file **out, sw_error *err)
{
    broken *b = ctx;
    if (b->opens++ == 1)
        return swi_fail(err, SW_ERR_IO, "no second file");
    return world_sink_open(&b->sink, file, out, err);
}

static sw_status finish(void *ctx, uint32_t file, swi_file *written, sw_error *err)
{
    return world_sink_finish(&((broken *)ctx)->sink, file, written, err);
}

static void ends_when_one_fails(void **state)
{
    (void)state;
    for (uint32_t threads = 1; threads <= 8; threads++) {
        world w = big_world();
        swi_digest got[WORLD_TENSORS_MAX] = {0};
        broken b = {0};
        sw_error err = {0};
        swi_layout *layout = world_layout(&w);
        world_sink_make(&b.sink, layout);
        const swi_sink sink = {.ctx = &b, .open = open_or_fail, .finish = finish, .digests = got};
        const swi_execute_in in = {
            .source = &w.source,
            .layout = layout,
            .sink = &sink,
            .budget = {.threads = threads, .window_bytes = 30000, .bounce_bytes = 4096}};
        assert_int_equal(swi_execute_job(&in, NULL, NULL, &err), SW_ERR_IO);
        assert_error(&err, SW_ERR_IO, "no second file");
        swi_store_close(b.sink.store);
        swi_layout_free(layout);
        world_free(&w);
    }
}

/* ---- part by part -----------------------------------------------------------------------------
 */

typedef struct feed {
    swi_digest_tree *tree;
    pthread_mutex_t lock;
    uint8_t *content;
    uint64_t elements, next, step;
    bool failed;
} feed;

static void *feed_parts(void *arg)
{
    feed *f = arg;
    for (;;) {
        (void)pthread_mutex_lock(&f->lock);
        uint64_t lo = f->next;
        f->next = f->elements - lo < f->step ? f->elements : lo + f->step;
        uint64_t hi = f->next;
        (void)pthread_mutex_unlock(&f->lock);
        if (lo == hi)
            return NULL;
        const swi_digest_part part = {.tensor = 0,
                                      .dtype = SW_F32,
                                      .first_element = lo,
                                      .elements = hi - lo,
                                      .data = f->content + 4 * lo};
        if (swi_digest_tree_add(f->tree, &part, NULL) != SW_OK)
            f->failed = true;
    }
}

static void any_parts(void **state)
{
    static const uint64_t steps[] = {1000, 262144, 262143, 262145, 100000, 560000, 300001};
    (void)state;
    world w = big_world();
    feed f = {.elements = w.tensors[0].elements};
    f.content = malloc(4 * f.elements);
    assert_non_null(f.content);
    for (uint64_t i = 0; i < f.elements; i++)
        world_put(f.content + 4 * i, &w.tensors[0], 0, i);
    assert_int_equal(pthread_mutex_init(&f.lock, NULL), 0);
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        const bool want[] = {true, false};
        const swi_digest_in in = {.want = want};
        swi_digest expected[2], got[2] = {0};
        sw_error err = {0};
        pthread_t threads[5];
        f.next = 0;
        f.step = steps[i];
        assert_ok(swi_digest_tree_make(w.catalog, got, &f.tree, &err), &err);
        for (int k = 0; k < 5; k++)
            assert_int_equal(pthread_create(&threads[k], NULL, feed_parts, &f), 0);
        for (int k = 0; k < 5; k++)
            (void)pthread_join(threads[k], NULL);
        swi_digest_tree_free(f.tree);
        assert_false(f.failed);
        assert_ok(swi_catalog_digests(&w.source, &in, NULL, expected, NULL, &err), &err);
        assert_same(&got[0], &expected[0], "t0");
    }
    (void)pthread_mutex_destroy(&f.lock);
    free(f.content);
    world_free(&w);
}

/* A part whose beginning never comes waits no longer than the work goes on. */
static void *feed_tail(void *arg)
{
    feed *f = arg;
    const swi_digest_part part = {
        .tensor = 0, .dtype = SW_F32, .first_element = 5, .elements = 5, .data = f->content};
    f->failed = swi_digest_tree_add(f->tree, &part, NULL) != SW_OK;
    return NULL;
}

static void stops_waiting(void **state)
{
    (void)state;
    world w = big_world();
    uint8_t content[20] = {0};
    swi_digest got[2] = {0}, zero = {0};
    feed f = {.content = content};
    sw_error err = {0};
    pthread_t thread;
    assert_ok(swi_digest_tree_make(w.catalog, got, &f.tree, &err), &err);
    assert_int_equal(pthread_create(&thread, NULL, feed_tail, &f), 0);
    swi_digest_tree_stop(f.tree);
    (void)pthread_join(thread, NULL);
    assert_false(f.failed);
    assert_memory_equal(&got[0], &zero, sizeof zero);
    swi_digest_tree_free(f.tree);
    world_free(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(of_small_tensors),    cmocka_unit_test(of_large_tensors),
        cmocka_unit_test(ends_when_one_fails), cmocka_unit_test(any_parts),
        cmocka_unit_test(stops_waiting),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
