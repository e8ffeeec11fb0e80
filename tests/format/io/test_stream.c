/* Files that many threads write from beginning to end: whole whatever the threads do, within their
 * room, and an error reaches everybody. */
#include "harness/harness.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "io/store_ops.h"
#include "io/stream.h"

#define BLOCK ((size_t)4096)
#define ROOM (8 * BLOCK) /* two lanes of four blocks */
#define BYTES ((size_t)300000)
#define THREADS 6

typedef struct job {
    pthread_mutex_t lock;
    harness_prng prng;
    uint8_t want[BYTES];
    size_t end; /* of what has a place */
    size_t most, part;
    swi_stream *stream;
    atomic_int failed;
} job;

static job *make_job(uint64_t seed, size_t most)
{
    job *j = calloc(1, sizeof *j);
    assert_non_null(j);
    assert_int_equal(pthread_mutex_init(&j->lock, NULL), 0);
    j->prng.state = seed;
    j->most = most;
    harness_random_fill(&j->prng, j->want, BYTES);
    return j;
}

static void free_job(job *j)
{
    (void)pthread_mutex_destroy(&j->lock);
    free(j);
}

/* Places in order, as a packer gives them; then the bytes in two slices. */
static void *put_all(void *arg)
{
    job *j = arg;
    for (;;) {
        (void)pthread_mutex_lock(&j->lock);
        size_t from = j->end, left = BYTES - from, n = 0, cut = 0;
        if (left > 0) {
            n = 1 + (size_t)harness_random_below(&j->prng, j->most < left ? j->most : left);
            cut = (size_t)harness_random_below(&j->prng, n + 1);
        }
        j->end += n;
        (void)pthread_mutex_unlock(&j->lock);
        if (n == 0)
            return NULL;
        const swi_slice slices[2] = {{j->want + from, cut}, {j->want + from + cut, n - cut}};
        sw_error err = {0};
        if (swi_stream_put(j->stream, from, slices, 2, &err) != SW_OK) {
            assert_error(&err, SW_ERR_IO, "the disk is full");
            atomic_fetch_add(&j->failed, 1);
            return NULL;
        }
    }
}

static void run(job *j, size_t threads)
{
    pthread_t thread[THREADS];
    for (size_t i = 0; i < threads; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, put_all, j), 0);
    for (size_t i = 0; i < threads; i++)
        (void)pthread_join(thread[i], NULL);
}

static swi_lanes *make_lanes(void)
{
    swi_lanes *lanes = NULL;
    sw_error err = {0};
    assert_ok(swi_lanes_make(ROOM, &lanes, &err), &err);
    return lanes;
}

static void check_file(const swi_store *store, const char *name, const job *j)
{
    uint8_t *data;
    size_t size;
    sw_error err = {0};
    assert_ok(swi_store_read_all(store, name, UINT32_MAX, &data, &size, &err), &err);
    assert_int_equal(size, BYTES);
    assert_memory_equal(data, j->want, BYTES);
    free(data);
}

static void write_some(swi_store *store, swi_lanes *lanes, uint64_t seed)
{
    static const size_t most[] = {100, BLOCK, 3 * BLOCK, 20 * BLOCK};
    job *j = make_job(seed, most[seed % 4]);
    swi_file *file = NULL;
    sw_error err = {0};
    assert_ok(swi_store_create(store, "f", &file, &err), &err);
    assert_ok(swi_stream_open(lanes, file, &j->stream, &err), &err);
    run(j, 1 + seed % THREADS);
    assert_int_equal(atomic_load(&j->failed), 0);
    assert_ok(swi_stream_end(j->stream, BYTES, &err), &err);
    check_file(store, "f", j);
    /* the file is as it was before: any bytes can be written again */
    assert_ok(swi_file_write(file, 7, j->want + 7, 11, &err), &err);
    assert_ok(swi_file_sync(file, &err), &err);
    swi_file_close(file);
    check_file(store, "f", j);
    swi_stream_free(j->stream);
    assert_ok(swi_store_remove(store, "f", &err), &err);
    free_job(j);
}

static void test_any_threads_and_sizes(void **state)
{
    swi_store *memory = NULL, *disk = NULL;
    sw_error err = {0};
    swi_lanes *lanes = make_lanes();
    assert_ok(swi_store_open_memory(&memory, &err), &err);
    assert_ok(swi_store_open_posix(*state, &disk, &err), &err);
    for (uint64_t seed = 0; seed < 48; seed++) {
        write_some(memory, lanes, seed);
        write_some(disk, lanes, seed);
    }
    write_some(memory, NULL, 48);
    swi_lanes_free(lanes);
    swi_store_close(memory);
    swi_store_close(disk);
}

/* Two gather; the third writes at once, and so does not wait for a lane. */
static void test_more_streams_than_lanes(void **state)
{
    static const char *const names[] = {"a", "b", "c", "d"};
    static const uint8_t x[10] = "0123456789";
    const swi_slice slice = {x, sizeof x};
    (void)state;
    swi_lanes *lanes = make_lanes();
    swi_store *store = NULL;
    swi_file *file[4];
    swi_stream *stream[4];
    sw_error err = {0};
    assert_ok(swi_store_open_memory(&store, &err), &err);
    for (size_t i = 0; i < 4; i++) {
        if (i == 3) /* the lane of `a` is free again */
            assert_ok(swi_stream_end(stream[0], sizeof x, &err), &err);
        assert_ok(swi_store_create(store, names[i], &file[i], &err), &err);
        assert_ok(swi_stream_open(lanes, file[i], &stream[i], &err), &err);
        assert_ok(swi_stream_put(stream[i], 0, &slice, 1, &err), &err);
        assert_int_equal(swi_file_bytes(file[i]), i == 2 ? sizeof x : 0);
    }
    for (size_t i = 0; i < 4; i++) {
        if (i > 0)
            assert_ok(swi_stream_end(stream[i], sizeof x, &err), &err);
        assert_int_equal(swi_file_bytes(file[i]), sizeof x);
        swi_stream_free(stream[i]);
        swi_file_close(file[i]);
    }
    swi_lanes_free(lanes);
    swi_store_close(store);
}

/* Bytes that never come: what waits to be written is dropped, and the lane serves the next one. */
static void test_dropped(void **state)
{
    static const uint8_t x[3 * BLOCK];
    const swi_slice slice = {x, sizeof x};
    (void)state;
    swi_lanes *lanes = make_lanes();
    swi_store *store = NULL;
    sw_error err = {0};
    assert_ok(swi_store_open_memory(&store, &err), &err);
    for (int round = 0; round < 5; round++) {
        swi_file *file = NULL;
        swi_stream *stream = NULL;
        assert_ok(swi_store_create(store, "f", &file, &err), &err);
        assert_ok(swi_stream_open(lanes, file, &stream, &err), &err);
        assert_ok(swi_stream_put(stream, 1, &slice, 1, &err), &err);
        swi_stream_free(stream);
        assert_int_equal(swi_file_bytes(file), 0);
        swi_file_close(file);
        assert_ok(swi_store_remove(store, "f", &err), &err);
    }
    swi_lanes_free(lanes);
    swi_store_close(store);
}

/* A file whose `left`-th write fails. */
typedef struct failing_file {
    swi_file base; /* first */
    atomic_int left;
} failing_file;

static sw_status failing_writev(swi_file *file, uint64_t offset, const swi_slice *slices,
                                size_t count, sw_error *err)
{
    failing_file *f = (failing_file *)file;
    (void)offset, (void)slices, (void)count;
    return atomic_fetch_sub(&f->left, 1) == 1 ? swi_fail(err, SW_ERR_IO, "the disk is full")
                                              : SW_OK;
}

static void failing_behind(swi_file *file, uint64_t offset, uint64_t size)
{
    (void)file, (void)offset, (void)size;
}

static const swi_file_ops failing_ops = {.writev = failing_writev, .write_behind = failing_behind};

/* Whoever puts learns it, or who ends the stream; nobody waits on. */
static void test_a_write_that_fails(void **state)
{
    char label[] = "f";
    (void)state;
    for (int at = 1; at <= 16; at++) {
        job *j = make_job((uint64_t)at, 2 * BLOCK);
        failing_file f = {.base = {.ops = &failing_ops, .label = label, .writable = true}};
        swi_lanes *lanes = make_lanes();
        sw_error err = {0};
        atomic_init(&f.left, at);
        assert_ok(swi_stream_open(lanes, &f.base, &j->stream, &err), &err);
        run(j, 1 + (size_t)at % THREADS);
        assert_int_equal(swi_stream_end(j->stream, BYTES, &err), SW_ERR_IO);
        assert_error(&err, SW_ERR_IO, "the disk is full");
        swi_stream_free(j->stream);
        swi_lanes_free(lanes);
        free_job(j);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_any_threads_and_sizes, harness_dir_setup,
                                        harness_dir_teardown),
        cmocka_unit_test(test_more_streams_than_lanes),
        cmocka_unit_test(test_dropped),
        cmocka_unit_test(test_a_write_that_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
