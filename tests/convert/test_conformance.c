/*
 * What every framework of the registry must keep: it is detected, verified, read and converted
 * right, and any damage to any of its files is named. A newcomer is tested without a line here,
 * when something can be converted to it.
 */
#include "convert/rank_fixture.h"
#include "convert/sample_map.h"

#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "format/recipe.h"
#include "optimizer/optimizer.h"
#include "state/state.h"

typedef struct fixture {
    char framework[32];
    char name[48]; /* of the target, when there is one */
    char *dir;
    bool written; /* by converting to `name` */
    /* What tells that its files belong together: each of the others is a checkpoint by itself. */
    const char *binder;
} fixture;

#define FIXTURES_MAX 16

/* Made once for all tests: the sample, and the sample as everything that is written. */
static struct {
    char *home;
    char *map;
    fixture fixtures[FIXTURES_MAX];
    size_t count;
} all;

/* What is read is `f`, what is written `target` (NULL: something of any names). */
static void for_fixture(const fixture *f, const char *target)
{
    sample_map_use(all.map, f->framework, target);
}

/* The destination to be given so that all of it lies in the folder. */
static char *dest_in(char *folder, const char *target)
{
    sw_framework_info f;
    for (size_t i = 0; sw_framework_at(i, &f); i++)
        if (f.one_file && strncmp(target, f.name, strlen(f.name)) == 0) {
            assert_int_equal(mkdir(folder, 0777), 0);
            return harness_path(folder, "checkpoint.pt");
        }
    return folder;
}

static void add_fixture(const char *framework, const char *target)
{
    assert_true(all.count < FIXTURES_MAX);
    fixture *f = &all.fixtures[all.count];
    snprintf(f->framework, sizeof f->framework, "%s", framework);
    snprintf(f->name, sizeof f->name, "%s", target ? target : framework);
    f->dir = harness_path(all.home, "fixture-%zu/checkpoint", all.count);
    harness_write_text(harness_path(all.home, "fixture-%zu/note", all.count), "beside it\n");
    all.count++;
    if (target == NULL) {
        make_demo(f->dir);
        return;
    }
    outcome o;
    f->written = true;
    if (strcmp(framework, "meta") == 0)
        f->binder = ""; /* each of its files is one of torch.save */
    for_fixture(&all.fixtures[0], target);
    run_convert(all.fixtures[0].dir, dest_in(f->dir, target), &(sw_convert_options){.to = target},
                &o);
    assert_fine(&o);
    outcome_free(&o);
}

/* The sample as files of two ranks, which nothing writes here. */
static void add_ranks(bool series)
{
    fixture *f = &all.fixtures[all.count];
    *f = (fixture){.framework = "ranks",
                   .name = "ranks",
                   .dir = harness_path(all.home, "fixture-%zu/checkpoint", all.count),
                   .binder = series ? NULL : "metadata.pkl"};
    harness_write_text(harness_path(all.home, "fixture-%zu/note", all.count), "beside it\n");
    all.count++;
    rank_copy(all.fixtures[0].dir, f->dir, series);
}

/* The sample in two parts beside each other. What is wrong with their files is said of them. */
static void add_trainer(void)
{
    static const char *const optimizer[] = {"optimizer*", NULL};
    fixture *f = &all.fixtures[all.count];
    outcome o;
    *f = (fixture){.framework = "trainer",
                   .name = "trainer",
                   .dir = harness_path(all.home, "fixture-%zu/checkpoint", all.count)};
    harness_write_text(harness_path(all.home, "fixture-%zu/note", all.count), "beside it\n");
    assert_int_equal(mkdir(f->dir, 0777), 0);
    all.count++;
    for_fixture(&all.fixtures[0], "dcp");
    run_convert(all.fixtures[0].dir, harness_path(f->dir, "pytorch_model_fsdp_0"),
                &(sw_convert_options){.to = "dcp:ranks=2", .drop = optimizer}, &o);
    assert_fine(&o);
    outcome_free(&o);
    run_convert(all.fixtures[0].dir, harness_path(f->dir, "optimizer_0"),
                &(sw_convert_options){.to = "dcp:ranks=2", .only = optimizer}, &o);
    assert_fine(&o);
    outcome_free(&o);
}

static int make_fixtures(void **state)
{
    (void)state;
    if (harness_dir_setup((void **)&all.home) != 0)
        return -1;
    all.map = harness_path(all.home, "sample.yaml");
    sample_map_write(all.map);
    add_fixture("dcp", NULL);
    sw_framework_info f;
    for (size_t i = 0; sw_framework_at(i, &f); i++)
        if (f.writes)
            add_fixture(f.reader, f.name);
    add_fixture("hf", "hf:shard=50KB");
    add_fixture("torch", "torch:form=legacy");
    add_fixture("vllm", "vllm:part=20KB");
    add_ranks(false);
    add_ranks(true);
    add_trainer();
    return 0;
}

static int remove_fixtures(void **state)
{
    (void)state;
    return harness_dir_teardown((void **)&all.home);
}

static void test_every_reader_has_a_fixture(void **state)
{
    (void)state;
    sw_framework_info f;
    for (size_t i = 0; sw_framework_at(i, &f); i++) {
        bool found = false;
        for (size_t k = 0; k < all.count; k++)
            found = found || strcmp(all.fixtures[k].framework, f.name) == 0;
        if (f.reads && !found)
            fail_msg("no fixture of %s: add one to make_fixtures", f.name);
    }
    assert_false(sw_framework_at(sw_framework_count(), &f));
}

/* ---- detection ----------------------------------------------------------------------------- */

static void expect_detected(const fixture *f, const char *path, bool other)
{
    outcome o;
    for_fixture(f, NULL);
    run_verify(path, &o);
    assert_fine(&o);
    assert_string_equal(o.verified.framework, f->framework);
    assert_string_equal(o.verified.root, f->dir);
    assert_int_equal(sw_report_total(o.report, SW_WARNING), 0);
    size_t parts = find_finding(&o, "parts", NULL, NULL) != NULL;
    assert_int_equal(sw_report_count(o.report), other + parts);
    if (other)
        assert_found(&o, SW_NOTE, "other-folder", NULL, NULL, f->dir);
    outcome_free(&o);
}

static void test_detected_by_content(void **state)
{
    (void)state;
    for (size_t k = 0; k < all.count; k++) {
        const fixture *f = &all.fixtures[k];
        expect_detected(f, f->dir, false);
        expect_detected(f, harness_path(f->dir, "%s", ""), false);
        expect_detected(f, harness_path(all.home, "fixture-%zu", k), true);
        folder_files files = list_files(f->dir);
        for (size_t i = 0; i < files.count; i++)
            if (f->binder == NULL || strcmp(files.names[i], f->binder) == 0)
                expect_detected(f, harness_path(f->dir, "%s", files.names[i]), files.count > 1);
    }
}

/* ---- content ------------------------------------------------------------------------------- */

/* The tensor of the sample that this one came from: the same, or the model's of its name. */
static size_t demo_tensor(const sw_checkpoint *demo, const char *wanted)
{
    const sw_catalog *catalog = sw_checkpoint_catalog(demo);
    int64_t same = sw_catalog_find(catalog, wanted);
    if (same >= 0)
        return (size_t)same;
    for (size_t i = 0; i < sw_catalog_tensor_count(catalog); i++) {
        sw_tensor_info info;
        const char *section, *name;
        sw_catalog_tensor(catalog, i, &info);
        sw_checkpoint_split_name(demo, i, &section, &name);
        if (info.role == SW_ROLE_PARAMETER && strcmp(name, wanted) == 0)
            return i;
    }
    fail_msg("the sample has no tensor %s", wanted);
    return 0;
}

/* Element i of a tensor of the sample is i plus a number of the tensor over 64; a step is 100. */
static void check_coordinates(const sw_tensor_info *info, const float *data)
{
    if (info->axes == 0) {
        assert_true(data[0] == 100.0F);
        return;
    }
    for (uint64_t i = 0; i < info->elements; i++)
        if (data[i] != (float)i + data[0])
            fail_msg("%s: element %llu is %g", info->name, (unsigned long long)i, (double)data[i]);
    float number = data[0] * 64;
    assert_true(number >= 0 && number < 48 && number == (float)(int)number);
    assert_int_equal(number >= 16, info->role == SW_ROLE_OPTIMIZER);
}

static size_t compare_with_demo(const fixture *f)
{
    for_fixture(f, NULL);
    sw_checkpoint *demo = open_good(all.fixtures[0].dir), *c = open_good(f->dir);
    const sw_catalog *catalog = sw_checkpoint_catalog(c);
    bool numbers[48] = {0};
    for (size_t i = 0; i < sw_catalog_tensor_count(catalog); i++) {
        sw_tensor_info info, was;
        sw_catalog_tensor(catalog, i, &info);
        sw_catalog_tensor(sw_checkpoint_catalog(demo), demo_tensor(demo, info.name), &was);
        assert_int_equal(info.axes, was.axes);
        assert_memory_equal(info.shape, was.shape, info.axes * sizeof info.shape[0]);
        assert_int_equal(info.held_elements, info.elements);
        assert_int_equal(info.role, was.role);
        float *data = read_floats(c, info.name, &info);
        float *wanted = read_floats(demo, was.name, &was);
        assert_memory_equal(data, wanted, info.elements * sizeof *data);
        check_coordinates(&info, data);
        if (info.axes > 0) {
            assert_false(numbers[(int)(data[0] * 64)]);
            numbers[(int)(data[0] * 64)] = true;
        }
        free(data);
        free(wanted);
    }
    size_t count = sw_catalog_tensor_count(catalog);
    sw_checkpoint_close(c);
    sw_checkpoint_close(demo);
    return count;
}

static void test_every_tensor_is_the_samples(void **state)
{
    (void)state;
    assert_int_equal(compare_with_demo(&all.fixtures[0]), 32);
    for (size_t k = 1; k < all.count; k++)
        assert_true(compare_with_demo(&all.fixtures[k]) >= 8);
}

static sw_status count_leaf(void *ctx, const swi_state_leaf *leaf, sw_error *err)
{
    uint8_t *seen = ctx;
    (void)err;
    if (leaf->is_tensor)
        seen[leaf->tensor]++;
    return SW_OK;
}

/* The state dict of every kind has each tensor of the catalog in one place; what it holds of an
 * optimizer is understood. */
/* ---- regions ------------------------------------------------------------------------------- */

/* The middle of a tensor, every other element of the memory left free. */
static void middle_of(const sw_tensor_info *info, sw_region *r)
{
    uint64_t size = sw_dtype_bytes(info->dtype), stride = 2 * size;
    *r = (sw_region){.struct_bytes = sizeof *r,
                     .tensor = info->name,
                     .dtype = info->dtype,
                     .axes = info->axes,
                     .strided = true};
    for (uint32_t k = info->axes; k > 0; k--) {
        r->offset[k - 1] = info->shape[k - 1] / 3;
        r->length[k - 1] = info->shape[k - 1] - 2 * r->offset[k - 1];
        r->stride_bytes[k - 1] = (int64_t)stride;
        stride *= (uint64_t)r->length[k - 1];
    }
    r->out_bytes = stride;
    r->out = calloc(1, stride + 1);
    assert_non_null(r->out);
}

static void expect_middle(const sw_checkpoint *c, size_t tensor, const sw_tensor_info *info,
                          sw_region *r)
{
    uint64_t size = sw_dtype_bytes(info->dtype), left = r->out_bytes / (2 * size);
    uint8_t *whole = malloc(info->bytes + 1), *at = r->out;
    sw_error err = {0};
    assert_non_null(whole);
    assert_ok(sw_checkpoint_read(c, tensor, 0, info->elements, whole, &err), &err);
    for (uint64_t e = 0; e < left; e++, at += 2 * size) {
        uint64_t rest = e, flat = 0, step = 1;
        for (uint32_t k = info->axes; k > 0; k--) {
            uint64_t length = (uint64_t)r->length[k - 1];
            flat += (rest % length + (uint64_t)r->offset[k - 1]) * step;
            rest /= length;
            step *= (uint64_t)info->shape[k - 1];
        }
        assert_memory_equal(at, whole + flat * size, size);
        for (uint64_t i = 0; i < size; i++)
            assert_int_equal(at[size + i], 0);
    }
    free(whole);
    free(r->out);
}

static void test_regions_of_every_tensor(void **state)
{
    (void)state;
    for (size_t i = 0; i < all.count; i++) {
        sw_checkpoint *c = NULL;
        sw_error err = {0};
        sw_tally tally = {0};
        for_fixture(&all.fixtures[i], NULL);
        const sw_open_options options = {.map = fixture_model.map};
        assert_ok(sw_checkpoint_open(all.fixtures[i].dir, &options, NULL, &c, &err), &err);
        const sw_catalog *catalog = sw_checkpoint_catalog(c);
        size_t count = sw_catalog_tensor_count(catalog);
        sw_tensor_info info;
        sw_region *regions = calloc(count, sizeof *regions);
        assert_non_null(regions);
        for (size_t t = 0; t < count; t++) {
            assert_true(sw_catalog_tensor(catalog, t, &info));
            middle_of(&info, &regions[t]);
        }
        assert_ok(sw_load(c, regions, count, NULL, NULL, &tally, &err), &err);
        assert_true(tally.read_bytes > 0);
        for (size_t t = 0; t < count; t++) {
            assert_true(sw_catalog_tensor(catalog, t, &info));
            expect_middle(c, t, &info, &regions[t]);
        }
        free(regions);
        sw_checkpoint_close(c);
    }
}

static void test_state_has_every_tensor(void **state)
{
    (void)state;
    for (size_t k = 0; k < all.count; k++) {
        sw_error err = {0};
        swi_state s;
        swi_optimizer *optimizers;
        size_t count;
        for_fixture(&all.fixtures[k], NULL);
        sw_checkpoint *c = open_good(all.fixtures[k].dir);
        size_t tensors = sw_catalog_tensor_count(sw_checkpoint_catalog(c));
        uint8_t *seen = calloc(tensors + 1, 1);
        assert_non_null(seen);
        assert_ok(swi_checkpoint_state(c, &s, &err), &err);
        assert_ok(swi_state_walk(&s, count_leaf, seen, &err), &err);
        for (size_t i = 0; i < tensors; i++)
            assert_int_equal(seen[i], 1);
        assert_ok(swi_optimizers_lift(c, &s, NULL, &optimizers, &count, &err), &err);
        swi_optimizers_free(optimizers, count);
        swi_state_free(&s);
        free(seen);
        sw_checkpoint_close(c);
    }
}

/* ---- damage -------------------------------------------------------------------------------- */

typedef struct damage {
    const char *what;
    const char *content; /* that the file has instead; NULL: see `size` */
    int64_t size;        /* cut or zero-extended to it; -1: half; -2: one byte less */
    uint64_t extra;      /* bytes added */
    bool zeros, removed;
} damage;

static const damage damages[] = {
    {.what = "removed", .removed = true},
    {.what = "empty", .size = 0},
    {.what = "cut to one byte", .size = 1},
    {.what = "cut to half", .size = -1},
    {.what = "cut by one byte", .size = -2},
    {.what = "one byte more", .extra = 1},
    {.what = "100 bytes more", .extra = 100},
    {.what = "zeros", .zeros = true},
    {.what = "an LFS pointer",
     .content = "version https://git-lfs.github.com/spec/v1\noid sha256:"
                "4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\nsize 12345\n"},
    {.what = "a web page", .content = "<!DOCTYPE html>\n<html><body>404</body></html>\n"},
};

static void apply_damage(const char *path, const uint8_t *data, size_t size, const damage *d)
{
    if (d->removed) {
        harness_remove(path);
    } else if (d->content != NULL) {
        harness_write_text(path, d->content);
    } else if (d->zeros || d->extra > 0) {
        size_t n = size + (size_t)d->extra;
        uint8_t *other = calloc(n + 1, 1);
        assert_non_null(other);
        if (!d->zeros)
            memcpy(other, data, size);
        harness_write(path, other, n);
        free(other);
    } else {
        harness_truncate(path, d->size >= 0    ? (uint64_t)d->size
                               : d->size == -1 ? size / 2
                                               : size - 1);
    }
}

/* Whether the run failed or found something that bad, and this file is named in what it says. */
static bool says_of(const outcome *o, const char *file, sw_severity severity)
{
    if (o->status != SW_OK && strstr(o->err.text, file) != NULL)
        return true;
    for (size_t i = 0; i < sw_report_count(o->report); i++) {
        const sw_finding *f = sw_report_at(o->report, i);
        if (f->severity >= severity &&
            (strcmp(f->file, file) == 0 || strstr(f->message, file) != NULL))
            return true;
    }
    return false;
}

/* True: it is whole without the file, which is no part of the data, and that is said. Nothing names
 * a `lone` file that is not there. */
static bool expect_named(const char *dir, const char *file, const char *what, bool removed,
                         bool lone)
{
    outcome o;
    run_verify(dir, &o);
    bool bad = o.status != SW_OK || bad_findings(&o) > 0;
    bool named = says_of(&o, file, SW_DEFECT) || (lone && removed);
    bool spare = removed && !bad && says_of(&o, file, SW_WARNING);
    if ((!bad || !named) && !spare) {
        show_outcome(&o);
        fail_msg("verify of %s: %s is %s and that is not said", dir, file, what);
    }
    assert_int_not_equal(o.status, SW_ERR_ARG);
    outcome_free(&o);
    return spare;
}

static void expect_no_conversion(const char *dir, const char *what, const char *dest)
{
    outcome o;
    run_convert(dir, dest, NULL, &o);
    if (o.status == SW_OK)
        fail_msg("%s: %s, and it was converted", dir, what);
    assert_true(o.err.text[0] != '\0');
    assert_false(harness_exists(dest));
    outcome_free(&o);
}

/* The other files of the copy are as they were. */
static void assert_untouched(const fixture *f, const char *copy, const char *but)
{
    folder_files files = list_files(f->dir), now = list_files(copy);
    for (size_t i = 0; i < files.count; i++)
        if (strcmp(files.names[i], but) != 0)
            assert_true(same_file(harness_path(f->dir, "%s", files.names[i]),
                                  harness_path(copy, "%s", files.names[i])));
    assert_true(now.count <= files.count);
}

/* Cutting off the line end of a text takes nothing. */
static bool is_spare(const uint8_t *data, size_t size, size_t cut)
{
    return cut == size - 1 && data[cut] == '\n';
}

static void damage_file(const fixture *f, const char *copy, const char *file, bool lone)
{
    size_t size;
    char *path = harness_path(copy, "%s", file);
    char *dest = harness_path(all.home, "refused");
    uint8_t *data = harness_read(path, &size);
    for (size_t d = 0; d < sizeof damages / sizeof damages[0]; d++) {
        if (damages[d].size == -2 && is_spare(data, size, size - 1))
            continue;
        apply_damage(path, data, size, &damages[d]);
        if (!expect_named(copy, file, damages[d].what, damages[d].removed, lone))
            expect_no_conversion(copy, damages[d].what, dest);
        assert_int_equal(count_partials(all.home, "refused"), 0);
        harness_write(path, data, size);
    }
    assert_untouched(f, copy, file);
    /* every length of a small file, and some of a large one */
    size_t step = size <= 2048 ? 1 : size / 100 + 1;
    for (size_t cut = is_spare(data, size, size - 1); cut < size; cut += step) {
        harness_truncate(path, size - 1 - cut);
        (void)expect_named(copy, file, "cut", false, lone);
    }
    harness_write(path, data, size);
    free(data);
}

static void test_damage_is_named_and_refused(void **state)
{
    (void)state;
    for (size_t k = 0; k < all.count; k++) {
        const fixture *f = &all.fixtures[k];
        char *copy = harness_path(all.home, "damaged");
        for_fixture(f, "hf");
        harness_copy_tree(f->dir, copy);
        folder_files files = list_files(f->dir);
        for (size_t i = 0; i < files.count; i++)
            damage_file(f, copy, files.names[i],
                        files.count == 1 ||
                            (f->binder != NULL && strcmp(files.names[i], f->binder) == 0));
        assert_same_folder(f->dir, copy);
        harness_remove(copy);
    }
}

/* ---- flipped bits --------------------------------------------------------------------------- */

#define FLIPS 200

/* A flip in a file of records with CRCs that verify does not report must change nothing in what is
 * converted. */
static void expect_harmless(const char *copy, const char *want)
{
    char *dest = harness_path(all.home, "flipped");
    outcome o;
    run_convert(copy, dest, NULL, &o);
    if (o.status == SW_OK) {
        assert_same_folder(dest, want);
        harness_remove(dest);
    }
    outcome_free(&o);
}

static void flip_one(const char *copy, const char *file, uint64_t bit, const char *want)
{
    char *path = harness_path(copy, "%s", file);
    size_t size;
    uint8_t *data = harness_read(path, &size);
    bool archive = size > 4 && memcmp(data, "PK\003\004", 4) == 0;
    harness_flip_bit(path, bit);
    outcome o;
    run_verify(copy, &o);
    bool found = o.status != SW_OK || bad_findings(&o) > 0;
    if (found && archive && !says_of(&o, file, SW_DEFECT)) {
        show_outcome(&o);
        fail_msg("bit %llu of %s was flipped and another file is named", (unsigned long long)bit,
                 file);
    }
    if (!found && archive)
        expect_harmless(copy, want);
    outcome_free(&o);
    harness_flip_bit(path, bit);
    if (archive && !found && !recipe_uncovered(data, size, (size_t)(bit / 8)))
        fail_msg("bit %llu of %s of %s was flipped and not found", (unsigned long long)bit, file,
                 copy);
    free(data);
}

static void test_flipped_bits(void **state)
{
    (void)state;
    harness_prng prng = {.state = 20240607};
    for (size_t k = 0; k < all.count; k++) {
        const fixture *f = &all.fixtures[k];
        char *copy = harness_path(all.home, "flips"), *want = harness_path(all.home, "want");
        for_fixture(f, "hf");
        harness_copy_tree(f->dir, copy);
        outcome o;
        run_convert(f->dir, want, NULL, &o);
        assert_fine(&o);
        outcome_free(&o);
        folder_files files = list_files(f->dir);
        for (int i = 0; i < FLIPS && files.count > 0; i++) {
            const char *file = files.names[harness_random_below(&prng, files.count)];
            uint64_t bits = 8 * harness_file_size(harness_path(copy, "%s", file));
            flip_one(copy, file, harness_random_below(&prng, bits), want);
        }
        assert_same_folder(f->dir, copy);
        harness_remove(copy);
        harness_remove(want);
    }
}

/* ---- the same bytes, and memory -------------------------------------------------------------- */

static void convert_as(const fixture *f, const char *target, uint32_t threads, uint64_t memory,
                       const char *want)
{
    char *dest = harness_path(all.home, "again");
    sw_convert_options options = {.to = target,
                                  .work = {.threads = threads, .memory_bytes = memory}};
    outcome o;
    run_convert(f->dir, dest_in(dest, target), &options, &o);
    assert_fine(&o);
    outcome_free(&o);
    assert_same_folder(dest, want);
    harness_remove(dest);
}

static void test_same_bytes_for_any_threads_and_memory(void **state)
{
    (void)state;
    static const uint32_t threads[] = {1, 2, 7, 16};
    static const uint64_t memory[] = {1, 1 << 20, 5 << 20, 0};
    for (size_t k = 0; k < all.count; k++) {
        for (size_t t = 1; t < all.count; t++) {
            const char *target = all.fixtures[t].name;
            if (!all.fixtures[t].written)
                continue;
            char *want = harness_path(all.home, "want");
            outcome o;
            for_fixture(&all.fixtures[k], target);
            run_convert(all.fixtures[k].dir, dest_in(want, target),
                        &(sw_convert_options){.to = target}, &o);
            assert_fine(&o);
            outcome_free(&o);
            if (k == 0)
                assert_same_folder(want, all.fixtures[t].dir);
            for (size_t i = 0; i < 4; i++)
                convert_as(&all.fixtures[k], target, threads[i], memory[i], want);
            convert_as(&all.fixtures[k], target, 16, 1, want);
            harness_remove(want);
        }
    }
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#define SANITIZED __has_feature(address_sanitizer)
#else
#define SANITIZED 0
#endif

#define BIG_BYTES (UINT64_C(96) << 20)

/* In a child of its own, whose memory nobody else has used: its peak in bytes, or 0. */
static uint64_t peak_of_conversion(const char *source, const char *dest, uint64_t memory)
{
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        sw_convert_options options = {.to = "hf", .work = {.threads = 2, .memory_bytes = memory}};
        sw_convert_summary sum;
        sw_report *report = NULL;
        sw_error err = {0};
        sw_status st = sw_report_make(&report, &err);
        if (st == SW_OK)
            st = sw_convert(source, dest, &options, NULL, NULL, report, &sum, &err);
        sw_report_free(report);
        _exit(st == SW_OK ? 0 : 1);
    }
    struct rusage usage;
    int status = 0;
    assert_int_equal(wait4(child, &status, 0, &usage), child);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? (uint64_t)usage.ru_maxrss << 10 : 0;
}

static void test_memory_does_not_grow_with_a_tensor(void **state)
{
    (void)state;
    if (SANITIZED)
        skip();
    for_fixture(&all.fixtures[0], "hf");
    char *source = harness_path(all.home, "big/model.safetensors");
    char *dest = harness_path(all.home, "big-out");
    char header[160];
    snprintf(header, sizeof header,
             "{\"w\":{\"dtype\":\"F32\",\"shape\":[6144,4096],\"data_offsets\":[0,%llu]}}",
             (unsigned long long)BIG_BYTES);
    write_st(source, header, 0, 0);
    harness_truncate(source, 8 + strlen(header) + BIG_BYTES);
    uint64_t peak = peak_of_conversion(source, dest, UINT64_C(4) << 20);
    assert_true(peak > 0);
    assert_int_equal(harness_file_size(harness_path(dest, "model.safetensors")) > BIG_BYTES, 1);
    if (peak > UINT64_C(32) << 20)
        fail_msg("%llu bytes of memory for a budget of 4 MiB", (unsigned long long)peak);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_reader_has_a_fixture),
        cmocka_unit_test(test_detected_by_content),
        cmocka_unit_test(test_every_tensor_is_the_samples),
        cmocka_unit_test(test_regions_of_every_tensor),
        cmocka_unit_test(test_state_has_every_tensor),
        cmocka_unit_test(test_damage_is_named_and_refused),
        cmocka_unit_test(test_flipped_bits),
        cmocka_unit_test(test_same_bytes_for_any_threads_and_memory),
        cmocka_unit_test(test_memory_does_not_grow_with_a_tensor),
    };
    return cmocka_run_group_tests(tests, make_fixtures, remove_fixtures);
}
