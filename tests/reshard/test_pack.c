/* Packed files: the same bytes however many threads bring their raw bytes, in whatever order. */
#include "harness/harness.h"

#include <stdlib.h>
#include <string.h>

#include <time.h>

#include "base/buf.h"
#include "io/store_ops.h"
#include "pack.h"

#define CHUNKS_MAX 64
#define RAW_MAX (CHUNKS_MAX * 300)
#define HEAD "head!"

/* Each part of the raw bytes is one unit of the pool. */
typedef struct part {
    uint64_t at;
    size_t size;
} part;

typedef struct job {
    harness_prng prng;
    uint8_t raw[RAW_MAX];
    uint64_t ends[CHUNKS_MAX];
    size_t chunks;
    part parts[RAW_MAX];
    size_t part_count, next;
    swi_packer *packer;
    swi_file *file;
    /* what was placed */
    uint64_t offset[CHUNKS_MAX];
    size_t size[CHUNKS_MAX], placed;
    uint64_t end;
    atomic_uint_fast64_t stored;
    atomic_uint encoded;
    size_t fail_at;                         /* this chunk cannot be encoded; SIZE_MAX: all can */
    size_t slow_at;                         /* this one takes long; SIZE_MAX: none does */
    atomic_uint_fast64_t first, ahead_most; /* begin of the first chunk without a place; and how
                                               far before it others were encoded meanwhile */
    atomic_uint asked;                      /* how often progress was */
    bool gathers;                           /* the file is put together in blocks */
    bool cancel; /* when it is asked for the second time, which the slow chunk waits for */
} job;

static uint64_t below(job *j, uint64_t n)
{
    return harness_random_below(&j->prng, n);
}

/* ---- the encoding: some grow, some shrink --------------------------------------------------- */

static size_t room(size_t raw_bytes)
{
    return raw_bytes + 8;
}

static size_t code(size_t chunk, const uint8_t *raw, size_t size, uint8_t *out)
{
    size_t n = chunk % 3 == 0 ? size / 2 : size, made = 0;
    out[made++] = (uint8_t)chunk;
    for (size_t i = 0; i < n; i++)
        out[made++] = (uint8_t)(raw[i] ^ 0x5a);
    if (chunk % 3 == 1)
        memset(out + made, 7, 3), made += 3;
    return made;
}

static void sleep_ms(long ms)
{
    (void)nanosleep(&(struct timespec){.tv_nsec = ms * 1000000L}, NULL);
}

/* The others go on meanwhile, as far as they may. */
static void take_long(job *j)
{
    sleep_ms(15);
    while (j->cancel && atomic_load(&j->asked) < 2)
        sleep_ms(1);
}

static void note_ahead(job *j, size_t chunk)
{
    uint64_t at = chunk > 0 ? j->ends[chunk - 1] : 0, first = atomic_load(&j->first);
    uint64_t ahead = at > first ? at - first : 0, most = atomic_load(&j->ahead_most);
    while (ahead > most && !atomic_compare_exchange_weak(&j->ahead_most, &most, ahead))
        continue;
}

static sw_status encode(void *ctx, size_t chunk, const uint8_t *raw, size_t size, uint8_t *out,
                        size_t *out_size, sw_error *err)
{
    job *j = ctx;
    note_ahead(j, chunk);
    if (chunk == j->slow_at)
        take_long(j);
    if (chunk == j->fail_at)
        return swi_fail(err, SW_ERR_CORRUPT, "chunk %zu cannot be encoded", chunk);
    atomic_fetch_add(&j->encoded, 1);
    *out_size = code(chunk, raw, size, out);
    return SW_OK;
}

static void placed(void *ctx, size_t chunk, uint64_t offset, size_t size)
{
    job *j = ctx;
    assert_int_equal(chunk, j->placed); /* in order */
    j->offset[j->placed] = offset;
    j->size[j->placed++] = size;
    atomic_store(&j->first, j->ends[chunk]);
}

static sw_status finish(void *ctx, uint64_t end, swi_buf *tail, sw_error *err)
{
    job *j = ctx;
    j->end = end;
    return swi_buf_append(tail, "tail", 4, err);
}

/* ---- the work ------------------------------------------------------------------------------- */

static void make_job(job *j, uint64_t seed)
{
    uint64_t end = 0;
    *j = (job){.prng = {.state = seed}, .fail_at = SIZE_MAX, .slow_at = SIZE_MAX};
    j->chunks = 1 + (size_t)below(j, CHUNKS_MAX);
    for (size_t i = 0; i < j->chunks; i++)
        j->ends[i] = end += 1 + below(j, 299);
    for (uint64_t i = 0; i < end; i++)
        j->raw[i] = (uint8_t)harness_random(&j->prng);
    for (uint64_t at = 0; at < end; j->part_count++) {
        size_t size = 1 + (size_t)below(j, below(j, 4) == 0 ? 900 : 60);
        size = size > end - at ? (size_t)(end - at) : size;
        j->parts[j->part_count] = (part){at, size};
        at += size;
    }
}

/* 0: in order; 1: near it; 2: from the end; 3: anyhow. */
static void shuffle(job *j, int how)
{
    const size_t n = j->part_count;
    for (size_t i = 0; i < n && how > 0; i++) {
        size_t k = how == 1   ? i + (size_t)below(j, n - i < 4 ? n - i : 4)
                   : how == 2 ? n - 1 - i
                              : i + (size_t)below(j, n - i);
        if (how == 2 && k <= i)
            break;
        part swap = j->parts[i];
        j->parts[i] = j->parts[k];
        j->parts[k] = swap;
    }
}

typedef struct worker {
    part unit;
} worker;

static bool take(void *ctx, void *w)
{
    job *j = ctx;
    if (j->next == j->part_count)
        return false;
    ((worker *)w)->unit = j->parts[j->next++];
    return true;
}

static sw_status work(void *ctx, void *w, sw_error *err)
{
    job *j = ctx;
    const part *p = &((worker *)w)->unit;
    size_t half = p->size / 2;
    uint64_t stored = 0;
    /* as two slices, in memory of its own that is gone afterwards */
    uint8_t *copy = malloc(p->size);
    if (copy == NULL)
        return swi_fail_nomem(err);
    memcpy(copy, j->raw + p->at, p->size);
    const swi_slice slices[2] = {{copy, half}, {copy + half, p->size - half}};
    sw_status st = swi_packer_write(j->packer, j->file, p->at, slices, 2, &stored, err);
    free(copy);
    atomic_fetch_add(&j->stored, stored);
    return st;
}

static bool progress(void *ctx, const sw_progress *p)
{
    job *j = ctx;
    (void)p;
    return atomic_fetch_add(&j->asked, 1) == 0 || !j->cancel;
}

/* Closes the file. */
static sw_status run_into(job *j, uint32_t threads, uint64_t ahead, uint32_t align, swi_file *file,
                          sw_error *err)
{
    worker workers[16];
    void *list[16];
    swi_pool pool = {0};
    swi_pack_rooms *rooms = NULL;
    uint64_t bytes = 0;
    const swi_packing packing = {.chunk_ends = j->ends,
                                 .chunks = j->chunks,
                                 .align = align,
                                 .head = (const uint8_t *)HEAD,
                                 .head_bytes = strlen(HEAD),
                                 .room = room,
                                 .encode = encode,
                                 .placed = placed,
                                 .finish = finish,
                                 .ctx = j};
    for (size_t i = 0; i < 16; i++)
        list[i] = &workers[i];
    assert_ok(swi_pool_init(&pool, err), err);
    if (j->gathers)
        assert_ok(swi_pack_rooms_make(0, &rooms, err), err);
    assert_ok(swi_packer_make(&packing, ahead, &pool, rooms, &j->packer, err), err);
    j->file = file;
    const sw_work_options asks = {.progress = progress, .progress_ctx = j};
    const swi_job what = {.ctx = j, .take = take, .work = work};
    sw_status st = swi_pool_run(&pool, &what, list, threads, &asks, 0, err);
    if (st == SW_OK) {
        assert_int_equal(atomic_load(&j->stored), j->ends[j->chunks - 1]);
        st = swi_packer_finish(j->packer, j->file, &bytes, err);
        assert_int_equal(bytes, swi_file_bytes(j->file));
    }
    swi_packer_free(j->packer);
    swi_file_close(j->file);
    swi_pack_rooms_free(rooms);
    swi_pool_end(&pool);
    return st;
}

static sw_status run(job *j, uint32_t threads, uint64_t ahead, uint32_t align, swi_store *store,
                     sw_error *err)
{
    swi_file *file = NULL;
    assert_ok(swi_store_create(store, "f", &file, err), err);
    return run_into(j, threads, ahead, align, file, err);
}

/* By the definition: head, chunks at multiples of `align`, zeros between, tail. */
static void check_file(const job *j, const swi_store *store, uint32_t align)
{
    uint8_t *data, want[512];
    size_t size, end = strlen(HEAD);
    sw_error err = {0};
    assert_ok(swi_store_read_all(store, "f", UINT32_MAX, &data, &size, &err), &err);
    assert_memory_equal(data, HEAD, end);
    assert_int_equal(j->placed, j->chunks);
    for (size_t i = 0; i < j->chunks; i++) {
        uint64_t at = i > 0 ? j->ends[i - 1] : 0;
        size_t place = (end + align - 1) / align * align;
        size_t n = code(i, j->raw + at, (size_t)(j->ends[i] - at), want);
        for (; end < place; end++)
            assert_int_equal(data[end], 0);
        assert_int_equal(j->offset[i], place);
        assert_int_equal(j->size[i], n);
        assert_memory_equal(data + place, want, n);
        end = place + n;
    }
    assert_int_equal(j->end, end);
    assert_int_equal(size, end + 4);
    assert_memory_equal(data + end, "tail", 4);
    free(data);
}

static void test_any_order_and_threads(void **state)
{
    static const uint64_t ahead[] = {0, 500, 1 << 20};
    (void)state;
    for (uint64_t seed = 1; seed <= 120; seed++) {
        job *j = malloc(sizeof *j);
        swi_store *store = NULL;
        sw_error err = {0};
        assert_non_null(j);
        make_job(j, seed);
        shuffle(j, (int)(seed % 4));
        const uint32_t align = 1U << seed % 7;
        j->gathers = seed % 2 == 0;
        assert_ok(swi_store_open_memory(&store, &err), &err);
        assert_ok(run(j, 1 + (uint32_t)(seed / 4 % 8), ahead[seed % 3], align, store, &err), &err);
        check_file(j, store, align);
        assert_int_equal(atomic_load(&j->encoded), j->chunks);
        swi_store_close(store);
        free(j);
    }
}

/* The error is the encoder's own, nobody waits for the chunk that never comes. */
static void test_a_chunk_that_cannot_be_encoded(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        job *j = malloc(sizeof *j);
        swi_store *store = NULL;
        sw_error err = {0};
        assert_non_null(j);
        make_job(j, seed);
        shuffle(j, (int)(seed % 4));
        j->fail_at = (size_t)below(j, j->chunks);
        assert_ok(swi_store_open_memory(&store, &err), &err);
        assert_int_equal(run(j, 1 + (uint32_t)(seed % 5), 0, 1, store, &err), SW_ERR_CORRUPT);
        assert_non_null(strstr(err.text, "cannot be encoded"));
        assert_true(j->placed <= j->fail_at);
        swi_store_close(store);
        free(j);
    }
}

/* A file whose `left`-th write fails. */
typedef struct failing_file {
    swi_file base; /* first */
    swi_file *real;
    atomic_int left;
} failing_file;

static sw_status failing_writev(swi_file *file, uint64_t offset, const swi_slice *slices,
                                size_t count, sw_error *err)
{
    failing_file *f = (failing_file *)file;
    if (atomic_fetch_sub(&f->left, 1) == 1)
        return swi_fail(err, SW_ERR_IO, "the disk is full");
    return swi_file_writev(f->real, offset, slices, count, err);
}

static void failing_close(swi_file *file)
{
    failing_file *f = (failing_file *)file;
    swi_file_close(f->real);
    free(f->base.label);
    free(f);
}

static const swi_file_ops failing_ops = {.writev = failing_writev, .close = failing_close};

static swi_file *make_failing(swi_store *store, int at)
{
    sw_error err = {0};
    failing_file *f = calloc(1, sizeof *f);
    assert_non_null(f);
    assert_ok(swi_store_create(store, "f", &f->real, &err), &err);
    f->base = (swi_file){.ops = &failing_ops, .label = strdup("f"), .writable = true};
    atomic_init(&f->left, at);
    return &f->base;
}

/* Every write once: the error comes back as it is, whoever waits at the gate goes home. */
static void test_a_write_that_fails(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        job *j = malloc(sizeof *j);
        swi_store *store = NULL;
        sw_error err = {0};
        assert_non_null(j);
        make_job(j, seed);
        shuffle(j, (int)(seed % 4));
        /* one write of each chunk, then head and tail, which only a whole run comes to */
        int at = 1 + (int)below(j, j->chunks);
        assert_ok(swi_store_open_memory(&store, &err), &err);
        const uint32_t threads = 1 + (uint32_t)(seed % 8);
        assert_int_equal(run_into(j, threads, 0, 1, make_failing(store, at), &err), SW_ERR_IO);
        assert_error(&err, SW_ERR_IO, "the disk is full");
        swi_store_close(store);
        free(j);
    }
}

/* While one chunk takes long, the others are at most so far ahead of it, and come back to it. */
static void test_who_is_ahead_waits(void **state)
{
    (void)state;
    static const uint64_t ahead[] = {0, 300, 1500};
    uint64_t most = 0;
    for (uint64_t seed = 1; seed <= 12; seed++) {
        job *j = malloc(sizeof *j);
        swi_store *store = NULL;
        sw_error err = {0};
        assert_non_null(j);
        make_job(j, seed);
        j->slow_at = (size_t)below(j, j->chunks / 2 + 1);
        assert_ok(swi_store_open_memory(&store, &err), &err);
        const uint64_t bound = ahead[seed % 3];
        assert_ok(run(j, 2 + (uint32_t)(seed % 4), bound, 1, store, &err), &err);
        assert_true(atomic_load(&j->ahead_most) <= bound);
        most = most > atomic_load(&j->ahead_most) ? most : atomic_load(&j->ahead_most);
        check_file(j, store, 1);
        swi_store_close(store);
        free(j);
    }
    assert_true(most > 0); /* nobody waits without need */
}

/* Asked to stop while one encodes and the others wait for it. */
static void test_canceled_at_the_gate(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 4; seed++) {
        job *j = malloc(sizeof *j);
        swi_store *store = NULL;
        sw_error err = {0};
        assert_non_null(j);
        make_job(j, seed);
        j->slow_at = 0;
        j->cancel = true;
        assert_ok(swi_store_open_memory(&store, &err), &err);
        assert_int_equal(run(j, 1 + (uint32_t)seed, 0, 1, store, &err), SW_ERR_CANCELED);
        assert_error(&err, SW_ERR_CANCELED, "stopped as asked");
        swi_store_close(store);
        free(j);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_any_order_and_threads),
        cmocka_unit_test(test_a_chunk_that_cannot_be_encoded),
        cmocka_unit_test(test_a_write_that_fails),
        cmocka_unit_test(test_who_is_ahead_waits),
        cmocka_unit_test(test_canceled_at_the_gate),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
