/* Files of ranks (specs/sharded.md): what each rank gets, and what is read back of it. */
#include "convert/sharded_fixture.h"

#include "convert/torch_fixture.h"
#include "sharded/rank_name.h"

typedef struct place {
    char *dir, *hf, *map;
} place;

static place begin(void **state)
{
    place p = {.dir = *state};
    p.hf = harness_path(p.dir, "hf");
    p.map = harness_path(p.dir, "small.yaml");
    sharded_write(p.hf);
    return p;
}

static void convert_as(const place *p, const char *from, const char *name, const char *to,
                       outcome *o)
{
    run_convert(from, harness_path(p->dir, "%s", name),
                &(sw_convert_options){.to = to, .assets = p->hf, .open = {.map = p->map}}, o);
}

static char *convert_good(const place *p, const char *from, const char *name, const char *to)
{
    outcome o;
    convert_as(p, from, name, to, &o);
    assert_fine(&o);
    outcome_free(&o);
    return harness_path(p->dir, "%s", name);
}

static void verify_at(const place *p, const char *dir, sw_level level, outcome *o)
{
    outcome_begin(o);
    const sw_verify_options options = {.level = level, .open = {.map = p->map}};
    o->status = sw_verify(dir, &options, o->report, &o->verified, &o->err);
    sw_report_sort(o->report);
}

/* What lies in one rank's file, under the names there. */
static sw_checkpoint *open_rank(const place *p, const char *dir, const char *file)
{
    static int count;
    char *path = harness_path(dir, "%s", file);
    size_t size;
    if (strstr(file, ".safetensors") == NULL)
        return open_good(path);
    uint8_t *data = harness_read(path, &size);
    char *alone = harness_path(p->dir, "alone-%d/model.safetensors", count++);
    harness_write(alone, data, size);
    free(data);
    return open_good(alone);
}

/* Rows [from, to) of a tensor whose element [0, 0] is `base`; -1: zeros. */
typedef struct run {
    int base, from, to;
} run;
#define RUNS 4

static void expect_rows(const sw_checkpoint *c, const char *name, int columns, const run *runs)
{
    sw_tensor_info info;
    float *data = read_floats(c, name, &info);
    int row = 0;
    assert_int_equal(info.axes, 2);
    assert_int_equal(info.shape[1], columns);
    for (size_t i = 0; i < RUNS && runs[i].to > runs[i].from; i++)
        for (int k = runs[i].from; k < runs[i].to; k++, row++)
            for (int j = 0; j < columns; j++) {
                float want = runs[i].base < 0 ? 0 : (float)(runs[i].base + k * columns + j);
                assert_true(row < info.shape[0]);
                if (data[row * columns + j] != want)
                    fail_msg("%s: [%d, %d] is %g, not %g", name, row, j,
                             (double)data[row * columns + j], (double)want);
            }
    assert_int_equal(row, info.shape[0]);
    free(data);
}

/* Columns [from, to) of all rows of a tensor with `width` of them. */
static void expect_columns(const sw_checkpoint *c, const char *name, int base, int width, int from,
                           int to)
{
    sw_tensor_info info;
    float *data = read_floats(c, name, &info);
    assert_int_equal(info.axes, 2);
    assert_int_equal(info.shape[1], to - from);
    for (int64_t i = 0; i < info.shape[0]; i++)
        for (int j = from; j < to; j++)
            assert_true(data[i * (to - from) + j - from] == (float)(base + i * width + j));
    free(data);
}

/* ---- vLLM --------------------------------------------------------------------------------------
 */

typedef struct qkv_case {
    int ranks, rank;
    run runs[RUNS];
} qkv_case;

/* Keys and values of fewer heads than ranks are copies. */
static const qkv_case qkv_cases[] = {
    {1, 0, {{SHARDED_Q, 0, 16}, {SHARDED_K, 0, 8}, {SHARDED_V, 0, 8}}},
    {2, 0, {{SHARDED_Q, 0, 8}, {SHARDED_K, 0, 4}, {SHARDED_V, 0, 4}}},
    {2, 1, {{SHARDED_Q, 8, 16}, {SHARDED_K, 4, 8}, {SHARDED_V, 4, 8}}},
    {4, 0, {{SHARDED_Q, 0, 4}, {SHARDED_K, 0, 4}, {SHARDED_V, 0, 4}}},
    {4, 1, {{SHARDED_Q, 4, 8}, {SHARDED_K, 0, 4}, {SHARDED_V, 0, 4}}},
    {4, 2, {{SHARDED_Q, 8, 12}, {SHARDED_K, 4, 8}, {SHARDED_V, 4, 8}}},
    {4, 3, {{SHARDED_Q, 12, 16}, {SHARDED_K, 4, 8}, {SHARDED_V, 4, 8}}},
};

/* Rows of the padded vocabulary (128) that a rank has: up to 100 are tokens. */
static void expect_vocabulary(const sw_checkpoint *c, const char *name, int base, int ranks,
                              int rank)
{
    int rows = 128 / ranks, from = rank * rows, to = from + rows;
    int last = to < 100 ? to : from > 100 ? from : 100;
    expect_rows(c, name, 16, (const run[RUNS]){{base, from, last}, {-1, last, to}});
}

static void test_vllm_ranks(void **state)
{
    place p = begin(state);
    for (size_t i = 0; i < sizeof qkv_cases / sizeof qkv_cases[0]; i++) {
        const qkv_case *k = &qkv_cases[i];
        char name[16], to[32], file[64];
        snprintf(name, sizeof name, "tp%d", k->ranks);
        snprintf(to, sizeof to, "vllm:tp=%d", k->ranks);
        snprintf(file, sizeof file, "model-rank-%d-part-0.safetensors", k->rank);
        if (k->rank == 0)
            convert_good(&p, p.hf, name, to);
        sw_checkpoint *c = open_rank(&p, harness_path(p.dir, "%s", name), file);
        int f = 12 / k->ranks, h = 16 / k->ranks, r = k->rank;
        expect_rows(c, "layers.0.qkv.weight", 16, k->runs);
        expect_rows(
            c, "layers.0.gate_up.weight", 16,
            (const run[RUNS]){{SHARDED_GATE, r * f, r * f + f}, {SHARDED_UP, r * f, r * f + f}});
        expect_columns(c, "layers.0.down.weight", SHARDED_DOWN, 12, r * f, r * f + f);
        expect_columns(c, "layers.0.o.weight", SHARDED_O, 16, r * h, r * h + h);
        expect_vocabulary(c, "embed.weight", SHARDED_EMBED, k->ranks, r);
        expect_vocabulary(c, "head.weight", SHARDED_HEAD, k->ranks, r);
        sw_tensor_info info;
        float *norm = read_floats(c, "norm.weight", &info);
        assert_true(norm[0] == SHARDED_NORM && norm[15] == SHARDED_NORM + 15);
        float *scale = read_floats(c, "layers.0.scale", &info);
        assert_int_equal(info.axes, 0);
        assert_true(scale[0] == 1.0F);
        assert_int_equal(sw_catalog_tensor_count(sw_checkpoint_catalog(c)), 8);
        free(norm);
        free(scale);
        sw_checkpoint_close(c);
    }
}

/* No metadata, no index; the configuration beside them. */
static void test_vllm_folder(void **state)
{
    place p = begin(state);
    char *dir = convert_good(&p, p.hf, "out", "vllm:tp=2");
    folder_files files = list_files(dir);
    assert_int_equal(files.count, 3);
    assert_string_equal(files.names[0], "config.json");
    assert_string_equal(files.names[1], "model-rank-0-part-0.safetensors");
    assert_string_equal(files.names[2], "model-rank-1-part-0.safetensors");
    size_t size;
    uint8_t *data = harness_read(harness_path(dir, "%s", files.names[1]), &size);
    assert_null(strstr((char *)data + 8, "__metadata__"));
    assert_non_null(strstr((char *)data + 8, "layers.0.qkv.weight"));
    free(data);
}

/* SH-12: a part ends before the tensor that would make it larger. */
static void test_vllm_parts(void **state)
{
    place p = begin(state);
    char *dir = convert_good(&p, p.hf, "out", "vllm:tp=2,part=6KB");
    folder_files files = list_files(dir);
    /* of each rank: embed 4096 bytes; head 4096, down 384, gate_up 768, o 512; the rest */
    assert_int_equal(files.count, 1 + 2 * 3);
    assert_true(harness_exists(harness_path(dir, "model-rank-1-part-2.safetensors")));
    outcome o;
    verify_at(&p, dir, SW_LEVEL_VALUES, &o);
    assert_fine(&o);
    outcome_free(&o);
}

/* ---- Meta --------------------------------------------------------------------------------------
 */

static void test_meta_ranks(void **state)
{
    place p = begin(state);
    char *dir = convert_good(&p, p.hf, "out", "meta:tp=2");
    assert_true(harness_exists(harness_path(dir, "params.json")));
    for (int r = 0; r < 2; r++) {
        char file[32];
        snprintf(file, sizeof file, "consolidated.%02d.pth", r);
        sw_checkpoint *c = open_rank(&p, dir, file);
        sw_tensor_info info;
        float *q = read_floats(c, "layers.0.wq.weight", &info);
        assert_int_equal(info.shape[0], 8);
        /* rows of a head of 4: 0 2 1 3 */
        for (int i = 0; i < 8; i++) {
            static const int from[] = {0, 2, 1, 3};
            int row = r * 8 + i / 4 * 4 + from[i % 4];
            assert_true(q[i * 16] == (float)(SHARDED_Q + row * 16));
        }
        free(q);
        expect_rows(c, "layers.0.wv.weight", 16, (const run[RUNS]){{SHARDED_V, r * 4, r * 4 + 4}});
        expect_columns(c, "layers.0.wo.weight", SHARDED_O, 16, r * 8, r * 8 + 8);
        expect_columns(c, "layers.0.w2.weight", SHARDED_DOWN, 12, r * 6, r * 6 + 6);
        expect_rows(c, "layers.0.w1.weight", 16,
                    (const run[RUNS]){{SHARDED_GATE, r * 6, r * 6 + 6}});
        expect_rows(c, "layers.0.w3.weight", 16, (const run[RUNS]){{SHARDED_UP, r * 6, r * 6 + 6}});
        /* a small vocabulary: the form that divides the other dimension */
        expect_columns(c, "tok.weight", SHARDED_EMBED, 16, r * 8, r * 8 + 8);
        expect_rows(c, "output.weight", 16, (const run[RUNS]){{SHARDED_HEAD, r * 50, r * 50 + 50}});
        sw_checkpoint_close(c);
    }
}

/* Fewer heads than ranks: rank r has head r * K // ranks. */
static void test_meta_copies(void **state)
{
    place p = begin(state);
    char *dir = convert_good(&p, p.hf, "out", "meta:tp=4");
    for (int r = 0; r < 4; r++) {
        char file[32];
        snprintf(file, sizeof file, "consolidated.%02d.pth", r);
        sw_checkpoint *c = open_rank(&p, dir, file);
        int head = r / 2;
        expect_rows(c, "layers.0.wv.weight", 16,
                    (const run[RUNS]){{SHARDED_V, head * 4, head * 4 + 4}});
        sw_checkpoint_close(c);
    }
}

/* ---- and back ----------------------------------------------------------------------------------
 */

static void test_back_again(void **state)
{
    static const char *const targets[] = {"vllm:tp=1",          "vllm:tp=2", "vllm:tp=4",
                                          "vllm:tp=2,part=1KB", "meta:tp=1", "meta:tp=2",
                                          "meta:tp=4"};
    place p = begin(state);
    char *want = convert_good(&p, p.hf, "want", "hf");
    for (size_t i = 0; i < sizeof targets / sizeof targets[0]; i++) {
        char *dir = convert_good(&p, p.hf, "ranks", targets[i]);
        char *back = convert_good(&p, dir, "back", "hf");
        assert_true(same_file(harness_path(want, "model.safetensors"),
                              harness_path(back, "model.safetensors")));
        harness_remove(dir);
        harness_remove(back);
    }
}

/* From one kind and number of ranks to another, without a detour. */
static void test_ranks_to_ranks(void **state)
{
    static const char *const pairs[][2] = {{"vllm:tp=2", "vllm:tp=4"},
                                           {"vllm:tp=4", "vllm:tp=1"},
                                           {"vllm:tp=4", "meta:tp=2"},
                                           {"meta:tp=2", "vllm:tp=2"}};
    place p = begin(state);
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        char *want = convert_good(&p, p.hf, "want", pairs[i][1]);
        char *from = convert_good(&p, p.hf, "from", pairs[i][0]);
        char *there = convert_good(&p, from, "there", pairs[i][1]);
        assert_same_folder(want, there);
        harness_remove(want);
        harness_remove(from);
        harness_remove(there);
    }
}

/* SH-4: files that divide the embedding the other way are read by the other layout. */
static void test_other_layout(void **state)
{
    place p = begin(state);
    char *other = harness_path(p.dir, "other.yaml"), *text = strdup(sharded_map);
    assert_non_null(text);
    memcpy(strstr(text, "V >= 1000"), "V >=   10", 9);
    harness_write_text(other, text);
    place q = p;
    q.map = other;
    char *dir = convert_good(&q, p.hf, "out", "meta:tp=2");
    sw_checkpoint *c = open_rank(&p, dir, "consolidated.01.pth");
    expect_rows(c, "tok.weight", 16, (const run[RUNS]){{SHARDED_EMBED, 50, 100}});
    sw_checkpoint_close(c);
    char *back = convert_good(&p, dir, "back", "hf");
    char *want = convert_good(&p, p.hf, "want", "hf");
    assert_true(same_file(harness_path(want, "model.safetensors"),
                          harness_path(back, "model.safetensors")));
    free(text);
}

/* ---- what is refused ---------------------------------------------------------------------------
 */

static void expect_refused(const place *p, const char *to, sw_status status, const char *text)
{
    outcome o;
    convert_as(p, p->hf, "refused", to, &o);
    assert_run_refused(&o, status, text, harness_path(p->dir, "refused"));
    outcome_free(&o);
}

static void test_refused_targets(void **state)
{
    place p = begin(state);
    expect_refused(&p, "vllm:tp=3", SW_ERR_CONFLICT, "3 ranks");
    expect_refused(&p, "vllm:tp=8", SW_ERR_CONFLICT, "8 ranks");
    expect_refused(&p, "meta:tp=3", SW_ERR_CONFLICT, "3 ranks");
    expect_refused(&p, "vllm:tp=0", SW_ERR_ARG, "tp=0");
    expect_refused(&p, "vllm:tp=x", SW_ERR_ARG, "tp=x");
    expect_refused(&p, "vllm:tp=99999999999999999999", SW_ERR_ARG, "tp=9999");
    expect_refused(&p, "vllm:ep=2", SW_ERR_ARG, "ep=2");
    expect_refused(&p, "vllm:part=0", SW_ERR_ARG, "part=0");
    expect_refused(&p, "meta:part=1KB", SW_ERR_ARG, "part=1KB");
    expect_refused(&p, "vllm:tp", SW_ERR_ARG, "not an option: tp");
}

/* ---- what is found -----------------------------------------------------------------------------
 */

#define RANK0 "model-rank-0-part-0.safetensors"
#define RANK1 "model-rank-1-part-0.safetensors"

static void expect_found(const place *p, const char *dir, const char *code, const char *file,
                         const char *tensor, const char *text)
{
    outcome o;
    verify_at(p, dir, 0, &o);
    assert_int_equal(o.status, SW_OK);
    assert_found(&o, SW_DEFECT, code, file, tensor, text);
    outcome_free(&o);
    convert_as(p, dir, "refused", "hf", &o);
    assert_int_not_equal(o.status, SW_OK);
    assert_false(harness_exists(harness_path(p->dir, "refused")));
    outcome_free(&o);
}

static void test_missing_ranks(void **state)
{
    place p = begin(state);
    char *dir = convert_good(&p, p.hf, "out", "vllm:tp=4");
    static const int gone[] = {0, 2, 3};
    for (size_t i = 0; i < 3; i++) {
        char file[64], text[64];
        char *copy = harness_path(p.dir, "copy");
        snprintf(file, sizeof file, "model-rank-%d-part-0.safetensors", gone[i]);
        snprintf(text, sizeof text, "rank %d of 4", gone[i]);
        harness_copy_tree(dir, copy);
        harness_remove(harness_path(copy, "%s", file));
        expect_found(&p, copy, "missing-file", file, NULL, text);
        harness_remove(copy);
    }
}

/* SH-4: a rank of a larger run is left over. */
static void test_left_over(void **state)
{
    place p = begin(state);
    char *dir = convert_good(&p, p.hf, "out", "vllm:tp=2");
    char *more = convert_good(&p, p.hf, "more", "vllm:tp=4");
    size_t size;
    uint8_t *data = harness_read(harness_path(more, "model-rank-3-part-0.safetensors"), &size);
    harness_write(harness_path(dir, "model-rank-3-part-0.safetensors"), data, size);
    free(data);
    expect_found(&p, dir, "mixed-files", "model-rank-3-part-0.safetensors", NULL, "the 2 that");
}

/* A copy of a folder in whose file of a rank the text is replaced by another as long. */
static char *edited(const place *p, const char *dir, const char *file, const char *from,
                    const char *to)
{
    size_t size, n = strlen(from);
    char *copy = harness_path(p->dir, "edited");
    assert_int_equal(n, strlen(to));
    harness_remove(copy);
    harness_copy_tree(dir, copy);
    uint8_t *data = harness_read(harness_path(copy, "%s", file), &size);
    size_t at = 0;
    while (at + n <= size && memcmp(data + at, from, n) != 0)
        at++;
    assert_true(at + n <= size);
    memcpy(data + at, to, n);
    harness_write(harness_path(copy, "%s", file), data, size);
    free(data);
    return copy;
}

static void test_wrong_content(void **state)
{
    place p = begin(state);
    char *dir = convert_good(&p, p.hf, "out", "vllm:tp=2");
    char *copy = edited(&p, dir, RANK1, "layers.0.o.weight", "layers.0.x.weight");
    expect_found(&p, copy, "unknown-tensor", RANK1, "layers.0.x.weight", "layers.0.o.weight");
    expect_found(&p, copy, "missing-tensor", RANK1, "layers.0.o.weight",
                 "model-rank-1-part-1.safetensors");
}

static void test_wrong_shape(void **state)
{
    place p = begin(state);
    char *dir = convert_good(&p, p.hf, "out", "vllm:tp=2");
    /* down: [16, 6] */
    char *copy = edited(&p, dir, RANK1, "[16,6]", "[6,16]");
    expect_found(&p, copy, "bad-shape", RANK1, "layers.0.down.weight",
                 "[6, 16]; rank 1 of 2 has [16, 6] of [16, 12]");
    copy = edited(&p, dir, RANK1, "F32\",\"shape\":[16,6]", "I32\",\"shape\":[16,6]");
    expect_found(&p, copy, "bad-tensor", RANK1, "layers.0.down.weight", "int32");
}

static void test_twice_in_parts(void **state)
{
    place p = begin(state);
    char *dir = convert_good(&p, p.hf, "out", "vllm:tp=2");
    size_t size;
    uint8_t *data = harness_read(harness_path(dir, RANK0), &size);
    harness_write(harness_path(dir, "model-rank-0-part-7.safetensors"), data, size);
    free(data);
    expect_found(&p, dir, "duplicate-tensor", "model-rank-0-part-7.safetensors", "norm.weight",
                 RANK0);
}

/* Copies of a head that differ: nothing tells which is right. */
static void test_unequal_copies(void **state)
{
    place p = begin(state);
    char *dir = convert_good(&p, p.hf, "out", "vllm:tp=4");
    size_t size;
    char *path = harness_path(dir, RANK1);
    uint8_t *data = harness_read(path, &size);
    float value = SHARDED_K + 5; /* row 0 of the keys, which ranks 0 and 1 have */
    size_t at = 8;
    while (at + 4 <= size && memcmp(data + at, &value, 4) != 0)
        at++;
    assert_true(at + 4 <= size);
    data[at] ^= 1;
    harness_write(path, data, size);
    free(data);
    outcome o;
    verify_at(&p, dir, SW_LEVEL_VALUES, &o);
    assert_found(&o, SW_DEFECT, "replicas-differ", NULL, "layers.0.qkv.weight", "");
    outcome_free(&o);
    convert_as(&p, dir, "refused", "hf", &o);
    assert_run_refused(&o, SW_ERR_CONFLICT, "differ", harness_path(p.dir, "refused"));
    outcome_free(&o);
}

/* SH-3 */
static void test_without_configuration(void **state)
{
    place p = begin(state);
    char *dir = convert_good(&p, p.hf, "out", "vllm:tp=2");
    harness_remove(harness_path(dir, "config.json"));
    outcome o;
    run_verify(dir, &o);
    assert_found(&o, SW_DEFECT, "incomplete", NULL, NULL, "--config");
    outcome_free(&o);
    outcome_begin(&o);
    const sw_verify_options options = {.open = {.map = p.map, .config = p.hf}};
    o.status = sw_verify(dir, &options, o.report, &o.verified, &o.err);
    assert_fine(&o);
    assert_int_equal(o.verified.files, 2);
    outcome_free(&o);
}

/* SH-1: one name for each triple of numbers. */
static void test_names(void **state)
{
    static const struct {
        const char *pattern, *name;
        bool is;
        uint64_t rank, part, stage;
    } cases[] = {
        {"model-rank-%r-part-%p.st", "model-rank-0-part-0.st", true, 0, 0, 0},
        {"model-rank-%r-part-%p.st", "model-rank-12-part-345.st", true, 12, 345, 0},
        {"model-rank-%r-part-%p.st", "model-rank-999999999-part-1.st", true, 999999999, 1, 0},
        {"model-rank-%r-part-%p.st", "model-rank-1000000000-part-1.st", false, 0, 0, 0},
        {"model-rank-%r-part-%p.st", "model-rank-01-part-0.st", false, 0, 0, 0},
        {"model-rank-%r-part-%p.st", "model-rank-1-part-.st", false, 0, 0, 0},
        {"model-rank-%r-part-%p.st", "model-rank--1-part-0.st", false, 0, 0, 0},
        {"model-rank-%r-part-%p.st", "model-rank-1-part-0.stx", false, 0, 0, 0},
        {"model-rank-%r-part-%p.st", "model-rank-1-part-0.s", false, 0, 0, 0},
        {"model-rank-%r-part-%p.st", "", false, 0, 0, 0},
        {"p%s-t%r-%p", "p3-t2-1", true, 2, 1, 3},
        {"c.%R.pth", "c.00.pth", true, 0, 0, 0},
        {"c.%R.pth", "c.07.pth", true, 7, 0, 0},
        {"c.%R.pth", "c.123.pth", true, 123, 0, 0},
        {"c.%R.pth", "c.7.pth", false, 0, 0, 0},
        {"c.%R.pth", "c.007.pth", false, 0, 0, 0},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        swi_rank_name is = {99, 99, 99};
        char again[SWI_RANK_NAME_BYTES];
        assert_int_equal(swi_rank_name_parse(cases[i].pattern, cases[i].name, &is), cases[i].is);
        if (!cases[i].is) {
            assert_int_equal(is.rank, 99);
            continue;
        }
        assert_int_equal(is.rank, cases[i].rank);
        assert_int_equal(is.part, cases[i].part);
        assert_int_equal(is.stage, cases[i].stage);
        swi_rank_name_print(cases[i].pattern, &is, again);
        assert_string_equal(again, cases[i].name);
    }
}

/* SH-1 */
static void test_whose_files(void **state)
{
    place p = begin(state);
    char *dir = convert_good(&p, p.hf, "out", "vllm:tp=2");
    size_t size;
    uint8_t *data = harness_read(harness_path(p.hf, "model.safetensors"), &size);
    harness_write(harness_path(dir, "model.safetensors"), data, size);
    free(data);
    outcome o;
    verify_at(&p, dir, 0, &o);
    assert_error(&o.err, SW_ERR_CONFLICT, "--from hf or --from vllm");
    outcome_free(&o);
}

static void rename_in(const char *dir, const char *from, const char *to)
{
    assert_int_equal(rename(harness_path(dir, "%s", from), harness_path(dir, "%s", to)), 0);
}

/* Meta's own files hold a table that every model makes itself. */
static void test_ignored(void **state)
{
    static const char *const rest[] = {
        "layers.0.wq.weight", "layers.0.wk.weight", "layers.0.wv.weight",
        "layers.0.wo.weight", "layers.0.w1.weight", "layers.0.w2.weight",
        "layers.0.w3.weight", "tok.weight",         "output.weight"};
    static const int64_t shapes[][2] = {{16, 16}, {8, 16},  {8, 16},   {16, 16}, {12, 16},
                                        {16, 12}, {12, 16}, {100, 16}, {100, 16}};
    static const int64_t one[1] = {16}, two[1] = {2};
    place p = begin(state);
    char *dir = harness_path(p.dir, "own");
    torch_world *w = torch_begin(false);
    torch_say(w, "} (");
    for (size_t i = 0; i < sizeof rest / sizeof rest[0]; i++)
        torch_ramp(w, rest[i], 2, shapes[i], 0);
    torch_ramp(w, "norm.weight", 1, one, 0);
    torch_ramp(w, "rope.freqs", 1, two, 0);
    torch_say(w, "u");
    torch_write_zip(w, harness_path(dir, "consolidated.00.pth"), NULL);
    torch_free(w);
    harness_write_text(harness_path(dir, "params.json"),
                       "{\"dim\": 16, \"n_heads\": 4, \"n_kv_heads\": 2, \"ffn\": 12,"
                       " \"vocab_size\": 100, \"n_layers\": 1}\n");
    outcome o;
    verify_at(&p, dir, 0, &o);
    assert_fine(&o);
    assert_string_equal(o.verified.framework, "meta");
    assert_int_equal(o.verified.tensors, 10);
    assert_found(&o, SW_NOTE, "map-ignored", "consolidated.00.pth", "rope.freqs", "left out");
    outcome_free(&o);
    char *back = harness_path(p.dir, "back");
    run_convert(dir, back, &(sw_convert_options){.to = "hf", .open = {.map = p.map}}, &o);
    assert_fine(&o);
    assert_int_equal(o.converted.tensors, 10);
    outcome_free(&o);
}

/* VL-1: stages of a pipeline hold one rank's tensors together. */
static void test_stages(void **state)
{
    place p = begin(state);
    char *want = convert_good(&p, p.hf, "want", "hf");
    char *dir = convert_good(&p, p.hf, "out", "vllm:tp=2,part=6KB");
    for (int rank = 0; rank < 2; rank++)
        for (int part = 0; part < 3; part++) {
            char from[64], to[64];
            snprintf(from, sizeof from, "model-rank-%d-part-%d.safetensors", rank, part);
            snprintf(to, sizeof to, "model-pp-%d-tp-%d-part-%d.safetensors", part > 1, rank,
                     part > 1 ? 0 : part);
            rename_in(dir, from, to);
        }
    char *back = convert_good(&p, dir, "back", "hf");
    assert_true(same_file(harness_path(want, "model.safetensors"),
                          harness_path(back, "model.safetensors")));
}

/* A rank far beyond the others costs neither time nor lines. */
static void test_far_rank(void **state)
{
    place p = begin(state);
    char *dir = convert_good(&p, p.hf, "out", "vllm:tp=1");
    rename_in(dir, RANK0, "model-rank-65535-part-0.safetensors");
    outcome o;
    verify_at(&p, dir, 0, &o);
    assert_found(&o, SW_DEFECT, "missing-file", RANK0, NULL, "rank 0 of 65536");
    assert_found(&o, SW_DEFECT, "missing-file", "", NULL, "65535 of 65536 ranks");
    assert_true(sw_report_count(o.report) < 64);
    outcome_free(&o);
    rename_in(dir, "model-rank-65535-part-0.safetensors", "model-rank-65536-part-0.safetensors");
    verify_at(&p, dir, 0, &o);
    assert_error(&o.err, SW_ERR_LIMIT, "rank 65536");
    outcome_free(&o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        test_in_dir(test_vllm_ranks),      test_in_dir(test_vllm_folder),
        test_in_dir(test_vllm_parts),      test_in_dir(test_meta_ranks),
        test_in_dir(test_meta_copies),     test_in_dir(test_back_again),
        test_in_dir(test_ranks_to_ranks),  test_in_dir(test_other_layout),
        test_in_dir(test_refused_targets), test_in_dir(test_missing_ranks),
        test_in_dir(test_left_over),       test_in_dir(test_wrong_content),
        test_in_dir(test_wrong_shape),     test_in_dir(test_twice_in_parts),
        test_in_dir(test_unequal_copies),  test_in_dir(test_without_configuration),
        cmocka_unit_test(test_names),      test_in_dir(test_whose_files),
        test_in_dir(test_stages),          test_in_dir(test_far_rank),
        test_in_dir(test_ignored),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
