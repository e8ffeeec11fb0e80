/* Many files through few descriptors, from many threads. */
#include "harness/harness.h"

#include <dirent.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/filecache.h"

enum { FILES = 300, FILE_BYTES = 4096 };

static char paths[FILES + 1][16];

static const char *path_of(const void *ctx, uint32_t id)
{
    (void)ctx;
    return paths[id];
}

static swi_store *make_files(const char *dir)
{
    sw_error err = {0};
    swi_store *store = NULL;
    uint32_t words[FILE_BYTES / 4];
    for (uint32_t i = 0; i < FILES; i++) {
        (void)snprintf(paths[i], sizeof paths[i], "f%u", i);
        for (uint32_t k = 0; k < FILE_BYTES / 4; k++)
            words[k] = i << 16 | k;
        harness_write(harness_path(dir, "%s", paths[i]), words, sizeof words);
    }
    (void)snprintf(paths[FILES], sizeof paths[FILES], "missing");
    assert_ok(swi_store_open_posix(dir, &store, &err), &err);
    return store;
}

static size_t open_descriptors(void)
{
    DIR *dir = opendir("/proc/self/fd");
    size_t count = 0;
    if (dir == NULL)
        skip();
    while (readdir(dir) != NULL)
        count++;
    closedir(dir);
    return count;
}

typedef struct job {
    const swi_reader *reader;
    uint64_t seed;
    size_t most_open;
    atomic_uint *wrong;
} job;

static void *read_many(void *arg)
{
    job *j = arg;
    harness_prng prng = {j->seed};
    for (int i = 0; i < 5000; i++) {
        uint32_t id = (uint32_t)harness_random_below(&prng, FILES + 1);
        uint32_t k = (uint32_t)harness_random_below(&prng, FILE_BYTES / 4);
        uint32_t word = 0;
        sw_error err = {0};
        sw_status status = j->reader->read(j->reader, id, k * 4, &word, 4, &err);
        bool right = id == FILES ? status == SW_ERR_NOTFOUND && strstr(err.text, "missing") != NULL
                                 : status == SW_OK && word == (id << 16 | k);
        if (!right)
            atomic_fetch_add(j->wrong, 1);
        if (i % 7 == 0)
            j->reader->read_ahead(j->reader, id, 0, 100);
        if (i % 100 == 0) {
            size_t open_now = open_descriptors();
            if (open_now > j->most_open)
                j->most_open = open_now;
        }
    }
    return NULL;
}

static void check_threads(const char *dir, uint32_t max_open)
{
    sw_error err = {0};
    swi_store *store = make_files(dir);
    swi_filecache *cache = NULL;
    sw_limits limits = {.open_files = max_open};
    assert_ok(swi_filecache_make(store, FILES + 1, path_of, NULL, &limits, &cache, &err), &err);
    const swi_reader *reader = swi_filecache_reader(cache);
    assert_int_equal(reader->limits.open_files, max_open);
    assert_int_equal(reader->limits.depth, 512);
    size_t before = open_descriptors();
    pthread_t threads[4];
    job jobs[4];
    atomic_uint wrong = 0;
    for (uint64_t t = 0; t < 4; t++) {
        jobs[t] = (job){.reader = reader, .seed = t, .wrong = &wrong};
        assert_int_equal(pthread_create(&threads[t], NULL, read_many, &jobs[t]), 0);
    }
    for (int t = 0; t < 4; t++) {
        assert_int_equal(pthread_join(threads[t], NULL), 0);
        /* Each thread may have its /proc/self/fd open besides. */
        assert_in_range(jobs[t].most_open, before, before + max_open + 4);
    }
    assert_int_equal(wrong, 0);
    assert_in_range(open_descriptors(), before, before + max_open);
    swi_filecache_free(cache);
    assert_int_equal(open_descriptors(), before);
    swi_store_close(store);
}

static void test_eight(void **state)
{
    check_threads(*state, 8);
}

/* Fewer slots than threads: they wait for each other and all go on. */
static void test_one(void **state)
{
    check_threads(*state, 1);
}

static void test_errors_name_the_file(void **state)
{
    sw_error err = {0};
    char got[8];
    swi_store *store = make_files(*state);
    swi_filecache *cache = NULL;
    assert_ok(swi_filecache_make(store, FILES + 1, path_of, NULL, NULL, &cache, &err), &err);
    const swi_reader *reader = swi_filecache_reader(cache);
    assert_int_equal(reader->read(reader, 3, FILE_BYTES - 1, got, 2, &err), SW_ERR_CORRUPT);
    assert_error(&err, SW_ERR_CORRUPT,
                 "/f3: needs 2 bytes at offset 4095, but the file holds 4096 bytes");
    assert_int_equal(reader->read(reader, FILES + 1, 0, got, 1, &err), SW_ERR_ARG);
    assert_error(&err, SW_ERR_ARG, "no file 301: there are 301");
    uint64_t offset = 7;
    assert_int_equal(reader->scratch_take(reader, 1, &offset, &err), SW_ERR_UNSUPPORTED);
    assert_int_equal(reader->scratch_write(reader, 0, "x", 1, &err), SW_ERR_UNSUPPORTED);
    assert_int_equal(reader->read(reader, SWI_FILE_SCRATCH, 0, got, 1, &err), SW_ERR_UNSUPPORTED);
    assert_int_equal(offset, 7);
    swi_filecache_free(cache);
    swi_filecache_free(NULL);
    swi_store_close(store);
}

static void test_scratch(void **state)
{
    (void)state;
    sw_error err = {0};
    swi_store *store = NULL;
    swi_file *scratch = NULL;
    swi_filecache *cache = NULL;
    uint64_t a, b;
    char got[4] = "";
    assert_ok(swi_store_open_memory(&store, &err), &err);
    assert_ok(swi_store_create(store, "s", &scratch, &err), &err);
    assert_ok(swi_filecache_make(store, 0, path_of, NULL, NULL, &cache, &err), &err);
    const swi_reader *reader = swi_filecache_reader(cache);
    swi_filecache_set_scratch(cache, scratch);
    assert_ok(reader->scratch_take(reader, 3, &a, &err), &err);
    assert_ok(reader->scratch_take(reader, 5000, &b, &err), &err);
    assert_int_equal(a, 0);
    assert_int_equal(b, 4096);
    assert_ok(reader->scratch_write(reader, b, "abc", 3, &err), &err);
    assert_ok(reader->read(reader, SWI_FILE_SCRATCH, b, got, 3, &err), &err);
    assert_string_equal(got, "abc");
    assert_int_equal(reader->scratch_take(reader, UINT64_MAX - 9, &a, &err), SW_ERR_LIMIT);
    assert_ok(reader->scratch_take(reader, 0, &a, &err), &err);
    assert_int_equal(a, 12288);
    swi_filecache_set_scratch(cache, NULL);
    assert_int_equal(reader->scratch_take(reader, 1, &a, &err), SW_ERR_UNSUPPORTED);
    swi_file_close(scratch);
    swi_filecache_free(cache);
    swi_store_close(store);
}

/* Without a lent file the cache makes one that has no name. */
static void test_scratch_of_its_own(void **state)
{
    const char *dir = *state;
    sw_error err = {0};
    swi_store *store = NULL;
    swi_filecache *cache = NULL;
    uint64_t at;
    char got[4] = "";
    assert_ok(swi_store_open_memory(&store, &err), &err);
    assert_ok(swi_filecache_make(store, 0, path_of, NULL, NULL, &cache, &err), &err);
    const swi_reader *reader = swi_filecache_reader(cache);
    swi_filecache_set_temp_dir(cache, "/no/such/directory");
    assert_int_equal(reader->scratch_take(reader, 3, &at, &err), SW_ERR_NOTFOUND);
    assert_error(&err, SW_ERR_NOTFOUND, "room for decoded bytes (TMPDIR says where)");
    swi_filecache_set_temp_dir(cache, dir);
    assert_ok(reader->scratch_take(reader, 3, &at, &err), &err);
    assert_ok(reader->scratch_write(reader, at, "abc", 3, &err), &err);
    assert_ok(reader->read(reader, SWI_FILE_SCRATCH, at, got, 3, &err), &err);
    assert_string_equal(got, "abc");
    assert_int_equal(rmdir(dir), 0); /* nothing lies in it */
    swi_filecache_free(cache);
    swi_store_close(store);
    assert_int_equal(mkdir(dir, 0700), 0);
}

/* Descriptors run out before the cache is full: idle files are given up, and it goes on. */
static void test_descriptors_run_out(void **state)
{
    sw_error err = {0};
    struct rlimit old, low;
    char got[4];
    swi_store *store = make_files(*state);
    swi_filecache *cache = NULL;
    assert_ok(swi_filecache_make(store, FILES + 1, path_of, NULL, NULL, &cache, &err), &err);
    const swi_reader *reader = swi_filecache_reader(cache);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
    low = old;
    low.rlim_cur = open_descriptors() + 10;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
    sw_status status = SW_OK;
    for (uint32_t i = 0; i < FILES && status == SW_OK; i++)
        status = reader->read(reader, i, 0, got, 4, &err);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
    assert_ok(status, &err);
    swi_filecache_free(cache);
    swi_store_close(store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_eight, harness_dir_setup, harness_dir_teardown),
        cmocka_unit_test_setup_teardown(test_one, harness_dir_setup, harness_dir_teardown),
        cmocka_unit_test_setup_teardown(test_errors_name_the_file, harness_dir_setup,
                                        harness_dir_teardown),
        cmocka_unit_test(test_scratch),
        cmocka_unit_test_setup_teardown(test_scratch_of_its_own, harness_dir_setup,
                                        harness_dir_teardown),
        cmocka_unit_test_setup_teardown(test_descriptors_run_out, harness_dir_setup,
                                        harness_dir_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
