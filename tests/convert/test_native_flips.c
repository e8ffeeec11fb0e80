/*
 * A small native checkpoint: whatever bit of whatever file changes, wherever a file ends early, and
 * whichever files change places, verify says so, with the file and, in a chunk, the tensor (NAT-3).
 */
#include "fixture.h"

#include <fcntl.h>

#include "framework.h"

typedef struct chunk {
    char file[64], tensor[64];
    uint64_t begin, end;
} chunk;

typedef struct world {
    char *path;
    folder_files files;
    chunk chunks[32];
    size_t chunk_count;
} world;

/* ---- a checkpoint --------------------------------------------------------------------------- */

static void add(sw_save *s, const char *name, sw_dtype dtype, int64_t rows, int64_t columns,
                const void *data)
{
    sw_error err = {0};
    const sw_tensor_data t = {
        .name = name, .dtype = dtype, .axes = 2, .shape = {rows, columns}, .data = data};
    assert_ok(sw_save_tensor(s, &t, &err), &err);
}

static void make_native(const char *path, const char *to, int64_t step)
{
    static uint16_t many[300]; /* enough to be worth a codec */
    static const float weight[6] = {0.5F, -1, 2, 3, 4, 5};
    static const uint16_t half[4] = {0x3f80, 0x4000, 0xbf80, 0};
    static const int64_t count[2] = {7, -7};
    sw_save *s = NULL;
    sw_error err = {0};
    for (size_t i = 0; i < sizeof many / sizeof many[0]; i++)
        many[i] = (uint16_t)(0x3f80 + i % 7);
    assert_ok(sw_save_begin(NULL, &s, &err), &err);
    add(s, "model/a", SW_F32, 2, 3, weight);
    add(s, "model/b", SW_BF16, 4, 1, half);
    add(s, "model/c", SW_BF16, 3, 100, many);
    add(s, "optimizer/state/a/count", SW_I64, 1, 2, count);
    assert_ok(sw_save_int(s, "step", step, &err), &err);
    assert_ok(sw_save_text(s, "note", "tiny", &err), &err);
    const sw_convert_options options = {.to = to};
    assert_ok(sw_save_commit(s, path, &options, NULL, NULL, &err), &err);
    sw_save_free(s);
}

/* Which bytes of which file are whose. */
static void list_chunks(world *w)
{
    sw_checkpoint *c = open_good(w->path);
    const sw_catalog *catalog = sw_checkpoint_catalog(c);
    sw_tensor_info info;
    for (uint32_t i = 0; sw_catalog_tensor(catalog, i, &info); i++) {
        for (uint64_t k = 0; k < info.piece_count; k++) {
            swi_piece piece;
            swi_blob blob;
            swi_tensor_piece(catalog, i, k, &piece);
            swi_catalog_blob(catalog, piece.blob, &blob);
            assert_true(w->chunk_count < sizeof w->chunks / sizeof w->chunks[0]);
            chunk *to = &w->chunks[w->chunk_count++];
            *to = (chunk){.begin = blob.offset_bytes, .end = blob.offset_bytes + blob.stored_bytes};
            snprintf(to->file, sizeof to->file, "%s", swi_catalog_path(catalog, blob.file));
            snprintf(to->tensor, sizeof to->tensor, "%s", info.name);
        }
    }
    assert_int_equal(info.piece_count > 0 && w->chunk_count >= 3, true);
    sw_checkpoint_close(c);
}

static world *make_world_to(void **state, const char *to)
{
    if (swi_framework_find("native", strlen("native")) == NULL)
        skip();
    world *w = calloc(1, sizeof *w);
    assert_non_null(w);
    w->path = harness_path(*state, "native");
    harness_remove(w->path);
    make_native(w->path, to, 1000);
    w->files = list_files(w->path);
    list_chunks(w);
    return w;
}

static world *make_world(void **state)
{
    return make_world_to(state, "native:ranks=2");
}

static char *path_of(const world *w, const char *file)
{
    return harness_path(w->path, "%s", file);
}

static const char *tensor_at(const world *w, const char *file, uint64_t offset)
{
    for (size_t i = 0; i < w->chunk_count; i++) {
        const chunk *c = &w->chunks[i];
        if (strcmp(c->file, file) == 0 && offset >= c->begin && offset < c->end)
            return c->tensor;
    }
    return NULL;
}

/* ---- what verify says ----------------------------------------------------------------------- */

static void verify_one(const char *path, outcome *o)
{
    const sw_verify_options options = {.work = {.threads = 1}};
    outcome_begin(o);
    o->status = sw_verify(path, &options, o->report, &o->verified, &o->err);
}

/* Something at least so severe names the file, and the tensor (NULL: any). */
static bool is_named(const outcome *o, sw_severity least, const char *file, const char *tensor)
{
    if (o->status != SW_OK) /* another version, or what is no checkpoint any more */
        return tensor == NULL && strstr(o->err.text, file) != NULL;
    for (size_t i = 0; i < sw_report_count(o->report); i++) {
        const sw_finding *f = sw_report_at(o->report, i);
        if (f->severity >= least &&
            (strcmp(f->file, file) == 0 || strstr(f->message, file) != NULL) &&
            (tensor == NULL || strcmp(f->tensor, tensor) == 0))
            return true;
    }
    return false;
}

static void assert_named(const world *w, const char *file, const char *tensor, const char *what,
                         uint64_t at)
{
    outcome o;
    verify_one(w->path, &o);
    if (!is_named(&o, SW_DEFECT, file, tensor)) {
        show_outcome(&o);
        fail_msg("%s: %s %llu is not told (tensor %s)", file, what, (unsigned long long)at,
                 tensor ? tensor : "none");
    }
    /* of what a digest contradicts nobody says that nothing vouches for it */
    assert_int_equal(o.verified.other_bytes + o.verified.without.bytes, 0);
    outcome_free(&o);
}

static void assert_sound(const world *w)
{
    outcome o;
    verify_one(w->path, &o);
    assert_fine(&o);
    outcome_free(&o);
}

static void test_sound(void **state)
{
    world *w = make_world(state);
    outcome o;
    verify_one(w->path, &o);
    assert_fine(&o);
    assert_int_equal(o.verified.other_bytes, 0); /* everything is under a digest */
    assert_int_equal(o.verified.without.bytes, 0);
    assert_int_equal(o.verified.left_out.bytes, 0);
    assert_true(o.verified.tally.checked_bytes > 0);
    outcome_free(&o);
    free(w);
}

static void flip_all(const world *w, const char *file)
{
    const int fd = open(path_of(w, file), O_RDWR);
    uint8_t byte, changed;
    assert_true(fd >= 0);
    for (uint64_t at = 0; pread(fd, &byte, 1, (off_t)at) == 1; at++) {
        for (unsigned bit = 0; bit < 8; bit++) {
            changed = (uint8_t)(byte ^ 1U << bit);
            assert_int_equal(pwrite(fd, &changed, 1, (off_t)at), 1);
            assert_named(w, file, tensor_at(w, file, at), "bit", at * 8 + bit);
        }
        assert_int_equal(pwrite(fd, &byte, 1, (off_t)at), 1);
    }
    close(fd);
    assert_sound(w);
}

static void test_every_bit(void **state)
{
    static const char *const targets[] = {"native:ranks=2", "native:codec=zstd,ranks=1",
                                          "native:codec=planes,ranks=3", "native:codec=stored"};
    for (size_t t = 0; t < sizeof targets / sizeof targets[0]; t++) {
        world *w = make_world_to(state, targets[t]);
        for (size_t i = 0; i < w->files.count; i++)
            flip_all(w, w->files.names[i]);
        free(w);
    }
}

static void test_every_end(void **state)
{
    world *w = make_world(state);
    for (size_t i = 0; i < w->files.count; i++) {
        const char *path = path_of(w, w->files.names[i]);
        size_t size;
        uint8_t *data = harness_read(path, &size);
        for (size_t end = size; end-- > 0;) {
            harness_truncate(path, end);
            assert_named(w, w->files.names[i], NULL, "end", end);
        }
        harness_write(path, data, size);
        harness_write(harness_path(*state, "longer"), data, size + 1); /* a zero behind it */
        assert_int_equal(rename(harness_path(*state, "longer"), path), 0);
        assert_named(w, w->files.names[i], NULL, "end", size + 1);
        harness_write(path, data, size);
        free(data);
    }
    assert_sound(w);
    free(w);
}

static void test_missing_files(void **state)
{
    world *w = make_world(state);
    for (size_t i = 0; i < w->files.count; i++) {
        const char *path = path_of(w, w->files.names[i]);
        size_t size;
        uint8_t *data = harness_read(path, &size);
        harness_remove(path);
        assert_named(w, w->files.names[i], NULL, "absence", 0);
        harness_write(path, data, size);
        free(data);
    }
    assert_sound(w);
    free(w);
}

static void test_shards_change_places(void **state)
{
    static const char first[] = "rank-00000-of-00002.sws", second[] = "rank-00001-of-00002.sws";
    world *w = make_world(state);
    size_t a_size, b_size;
    uint8_t *a = harness_read(path_of(w, first), &a_size);
    uint8_t *b = harness_read(path_of(w, second), &b_size);
    harness_write(path_of(w, first), b, b_size);
    assert_named(w, first, NULL, "copy", 0);
    harness_write(path_of(w, second), a, a_size);
    assert_named(w, first, NULL, "swap", 0);
    assert_named(w, second, NULL, "swap", 1);
    harness_write(path_of(w, first), a, a_size);
    assert_named(w, second, NULL, "copy", 1);
    harness_write(path_of(w, second), b, b_size);
    assert_sound(w);
    free(a);
    free(b);
    free(w);
}

/* NAT-3: what is not listed is told, but for names that begin with a dot. */
static void test_extra_files(void **state)
{
    static const struct {
        const char *name;
        sw_severity severity;
    } extra[] = {{"rank-00002-of-00003.sws", SW_DEFECT},
                 {"rank-00000-of-00001.sws", SW_DEFECT},
                 {"notes.txt", SW_WARNING},
                 {"weights.bin", SW_WARNING}};
    world *w = make_world(state);
    size_t size;
    uint8_t *data = harness_read(path_of(w, "rank-00000-of-00002.sws"), &size);
    for (size_t i = 0; i < sizeof extra / sizeof extra[0]; i++) {
        outcome o;
        harness_write(path_of(w, extra[i].name), data, size);
        verify_one(w->path, &o);
        assert_true(o.status == SW_OK && is_named(&o, extra[i].severity, extra[i].name, NULL));
        assert_int_equal(o.verified.other_bytes, size);
        outcome_free(&o);
        harness_remove(path_of(w, extra[i].name));
    }
    harness_write(path_of(w, ".nfs1"), "x", 1);
    assert_sound(w);
    free(data);
    free(w);
}

/* A file of another save of the same shape, each in its turn. */
static void test_files_of_another_save(void **state)
{
    world *w = make_world(state);
    const char *other = harness_path(*state, "other");
    make_native(other, "native:ranks=2", 1001);
    for (size_t i = 0; i < w->files.count; i++) {
        size_t size, other_size;
        uint8_t *data = harness_read(path_of(w, w->files.names[i]), &size);
        uint8_t *theirs = harness_read(harness_path(other, "%s", w->files.names[i]), &other_size);
        if (size != other_size || memcmp(data, theirs, size) != 0) {
            outcome o;
            harness_write(path_of(w, w->files.names[i]), theirs, other_size);
            verify_one(w->path, &o);
            assert_true(o.status == SW_OK && bad_findings(&o) > 0);
            outcome_free(&o);
        }
        harness_write(path_of(w, w->files.names[i]), data, size);
        free(data);
        free(theirs);
    }
    assert_sound(w);
    free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        test_in_dir(test_sound),
        test_in_dir(test_every_bit),
        test_in_dir(test_every_end),
        test_in_dir(test_missing_files),
        test_in_dir(test_shards_change_places),
        test_in_dir(test_extra_files),
        test_in_dir(test_files_of_another_save),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
