/* Files of ranks with metadata.pkl, as torch_checkpointing writes them (specs/rank_files.md). */
#include "convert/rank_fixture.h"

#include "torch/placements.h"

/* ---- placements ---------------------------------------------------------------------------- */

static void box_of(const swi_placements *p, uint64_t number, uint32_t axes, const int64_t *shape,
                   int64_t *offset, int64_t *length)
{
    sw_error err = {0};
    assert_ok(swi_placed_box(p, number, axes, shape, offset, length, &err), &err);
}

/* Each element is in as many boxes as the axes that replicate have ranks. */
static void boxes_cover_once(void **state)
{
    (void)state;
    harness_prng prng = {7};
    for (int round = 0; round < 2000; round++) {
        swi_placements p = {.axes = 1 + (uint32_t)harness_random_below(&prng, 3)};
        const int64_t shape[2] = {(int64_t)harness_random_below(&prng, 9),
                                  (int64_t)harness_random_below(&prng, 9)};
        uint8_t count[81] = {0};
        uint64_t world = 1, copies = 1;
        for (uint32_t a = p.axes; a-- > 0;) {
            p.size[a] = 1 + harness_random_below(&prng, 3);
            world *= p.size[a];
            p.at[a].dim = (uint32_t)harness_random_below(&prng, 2);
            p.at[a].kind = (swi_placement_kind)harness_random_below(&prng, 3);
            p.at[a].split_factor = 1;
            for (uint32_t b = a + 1; b < p.axes; b++)
                if (p.at[b].kind != SWI_REPLICATE && p.at[b].dim == p.at[a].dim)
                    p.at[a].split_factor *= p.size[b];
            copies *= p.at[a].kind == SWI_REPLICATE ? p.size[a] : 1;
        }
        for (uint64_t r = 0; r < world; r++) {
            int64_t o[2], n[2];
            box_of(&p, r, 2, shape, o, n);
            for (int64_t i = o[0]; i < o[0] + n[0]; i++)
                for (int64_t j = o[1]; j < o[1] + n[1]; j++)
                    count[i * shape[1] + j]++;
        }
        for (int64_t i = 0; i < shape[0] * shape[1]; i++)
            assert_int_equal(count[i], copies);
    }
}

/* A8: FSDP over TP divides what TP has divided; rows 0-3 are of tp 0, and dp cuts them again. */
static void strided_rows(void **state)
{
    (void)state;
    swi_placements p = {.axes = 2,
                        .size = {2, 2},
                        .at = {{SWI_STRIDED_SHARD, 0, 2, NULL}, {SWI_SHARD, 0, 0, NULL}}};
    static const int64_t shape[] = {8, 2};
    static const int64_t first[] = {0, 4, 2, 6};
    int64_t o[2], n[2];
    sw_error err = {0};
    for (uint64_t r = 0; r < 4; r++) {
        box_of(&p, r, 2, shape, o, n);
        assert_int_equal(o[0], first[r]);
        assert_int_equal(n[0], 2);
        assert_int_equal(n[1], 2);
    }
    p.at[0].split_factor = 4;
    assert_int_equal(swi_placed_box(&p, 0, 2, shape, o, n, &err), SW_ERR_UNSUPPORTED);
    assert_error(&err, SW_ERR_UNSUPPORTED, "a strided placement of 4 over 2 parts");
}

/* A7: as torch.chunk, also with empty parts and sizes near the end of 64 bits. */
static void uneven_rows(void **state)
{
    (void)state;
    static const struct {
        int64_t rows;
        uint64_t parts, part;
        int64_t offset, length;
    } cases[] = {{5, 4, 0, 0, 2},
                 {5, 4, 2, 4, 1},
                 {5, 4, 3, 5, 0},
                 {8, 32, 7, 7, 1},
                 {8, 32, 31, 8, 0},
                 {0, 3, 1, 0, 0},
                 {128256, 10, 9, 115434, 12822},
                 {INT64_MAX, 2, 1, INT64_MAX / 2 + 1, INT64_MAX / 2},
                 {3, UINT64_MAX, UINT64_MAX - 1, 3, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const swi_placements p = {
            .axes = 1, .size = {cases[i].parts}, .at = {{SWI_SHARD, 0, 0, NULL}}};
        int64_t o[1], n[1];
        box_of(&p, cases[i].part, 1, &cases[i].rows, o, n);
        assert_int_equal(o[0], cases[i].offset);
        assert_int_equal(n[0], cases[i].length);
    }
}

/* ---- folders ------------------------------------------------------------------------------- */

typedef struct part {
    int64_t rows;
    float base;
    int rank; /* that the file says saved it */
    bool lacks;
} part;

/* model_0.pt and model_1.pt: "w" of 5 x 2 in rows, "v" of 3 on both, and a list of values. */
static void write_ranks(const char *dir, const part parts[2])
{
    swi_buf tensors = {0};
    rank_tensor(&tensors, "[\"layers\",\"w\"]", "5 2", RANK_SHARD);
    rank_tensor(&tensors, "[\"v\"]", "3", RANK_COPY);
    rank_meta(dir, &tensors, NULL);
    swi_buf_free(&tensors);
    for (int r = 0; r < 2; r++) {
        torch_world *w = torch_begin(false);
        torch_say(w, "} ( 'layers' } (");
        rank_ramp(w, "w", 5, parts[r].rows, parts[r].base, parts[r].rank);
        torch_say(w, "u");
        torch_ramp(w, "v", 1, (const int64_t[]){3}, 50);
        torch_say(w, r == 0 ? "'lr' 1.5f 'rank' 0 u" : "'lr' 1.5f 'rank' 1 u");
        if (!parts[r].lacks)
            torch_write_zip(w, harness_path(dir, "model_%d.pt", r), NULL);
        torch_free(w);
        w = torch_begin(false);
        torch_say(w, "} ( 'step' 7");
        torch_ramp(w, "rng", 1, (const int64_t[]){2}, (float)(100 * r));
        torch_say(w, "u");
        torch_write_zip(w, harness_path(dir, "train_state_%d.pt", r), NULL);
        torch_free(w);
    }
}

static const part good[2] = {{3, 0, 0, false}, {2, 6, 1, false}};

static void read_whole(void **state)
{
    char *dir = *state;
    outcome o;
    write_ranks(dir, good);
    run_verify(dir, &o);
    assert_fine(&o);
    assert_string_equal(o.verified.framework, "ranks");
    assert_int_equal(o.verified.tensors, 4);
    assert_int_equal(o.verified.files, 4);
    assert_true(o.verified.has_step && o.verified.step == 7);
    assert_int_equal(sw_report_total(o.report, SW_WARNING), 0);
    outcome_free(&o);
    assert_ramp(dir, "model.layers.w", 2, (const int64_t[]){5, 2}, 0);
    assert_ramp(dir, "model.v", 1, (const int64_t[]){3}, 50);
    assert_ramp(dir, "train_state.rng", 1, (const int64_t[]){2}, 0);
    assert_ramp(dir, "train_state.rng.rank1", 1, (const int64_t[]){2}, 100);
    /* values: one each, and what a later rank has otherwise */
    sw_checkpoint *c = open_good(dir);
    static const struct {
        const char *name;
        int64_t rank;
    } want[] = {{"model.lr", -1}, {"model.rank", -1}, {"train_state.step", -1}, {"model.rank", 1}};
    assert_int_equal(sw_catalog_value_count(sw_checkpoint_catalog(c)), 4);
    for (size_t i = 0; i < 4; i++) {
        sw_value_info info;
        assert_true(sw_catalog_value_at(sw_checkpoint_catalog(c), i, &info));
        assert_string_equal(info.name, want[i].name);
        assert_int_equal(info.rank, want[i].rank);
    }
    const char *section, *name;
    int64_t w = sw_catalog_find(sw_checkpoint_catalog(c), "model.layers.w");
    sw_checkpoint_split_name(c, (size_t)w, &section, &name);
    assert_string_equal(section, "model");
    assert_string_equal(name, "layers.w");
    sw_checkpoint_close(c);
}

static void write_others(void **state)
{
    char *dir = harness_path(*state, "in");
    write_ranks(dir, good);
    static const char *const targets[] = {"hf", "dcp:ranks=3"};
    for (size_t i = 0; i < 2; i++) {
        char *out = harness_path(*state, "out%zu", i);
        const sw_convert_options options = {.to = targets[i]};
        outcome o;
        run_convert(dir, out, &options, &o);
        assert_fine(&o);
        if (i == 1)
            assert_found(&o, SW_WARNING, "rank-values", NULL, NULL, "2 values");
        outcome_free(&o);
        assert_ramp(out, i == 0 ? "layers.w" : "model.layers.w", 2, (const int64_t[]){5, 2}, 0);
    }
}

static void expect_defect(const char *dir, const char *code, const char *file, const char *tensor,
                          const char *text)
{
    outcome o;
    run_verify(dir, &o);
    assert_found(&o, SW_DEFECT, code, file, tensor, text);
    outcome_free(&o);
    run_convert(dir, harness_path(dir, "../out"), NULL, &o);
    assert_true(o.status != SW_OK);
    outcome_free(&o);
}

static void damaged(void **state)
{
    static const struct {
        part parts[2];
        const char *code, *file, *tensor, *text;
    } cases[] = {
        {{{3, 0, 0, false}, {2, 6, 1, true}}, "missing-file", "model_1.pt", NULL, "of rank 1"},
        {{{3, 0, 0, false}, {2, 6, 1, true}}, "hole", NULL, "model.layers.w", "6 of 10"},
        {{{3, 0, 0, true}, {2, 6, 1, true}}, "hole", NULL, "model.layers.w", "0 of 10"},
        {{{3, 0, 0, false}, {3, 6, 1, false}},
         "bad-tensor",
         "model_1.pt",
         "model.layers.w",
         "has not the shape that its placements give it"},
        {{{3, 0, 1, false}, {2, 6, 0, false}},
         "wrong-rank",
         "model_0.pt",
         NULL,
         "it stands for rank 0, and rank 1 saved it"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char *dir = harness_path(*state, "%zu/in", i);
        write_ranks(dir, cases[i].parts);
        expect_defect(dir, cases[i].code, cases[i].file, cases[i].tensor, cases[i].text);
    }
    char *dir = harness_path(*state, "more/in");
    write_ranks(dir, good);
    harness_truncate(harness_path(dir, "model_1.pt"), 300);
    expect_defect(dir, "unreadable-file", "model_1.pt", NULL, "zip");
    write_ranks(dir, good);
    harness_flip_bit(harness_path(dir, "model_0.pt"),
                     8 * (harness_file_size(harness_path(dir, "model_0.pt")) / 2));
    outcome o;
    run_verify(dir, &o);
    assert_true(bad_findings(&o) > 0);
    outcome_free(&o);
    /* copies that differ, and a rank too many */
    write_ranks(dir, good);
    harness_write_text(harness_path(dir, "model_2.pt"), "old");
    torch_world *w = torch_begin(false);
    torch_say(w, "} (");
    torch_ramp(w, "v", 1, (const int64_t[]){3}, 51);
    torch_say(w, "'layers' } (");
    rank_ramp(w, "w", 5, 2, 6, 1);
    torch_say(w, "u u");
    torch_write_zip(w, harness_path(dir, "model_1.pt"), NULL);
    torch_free(w);
    run_verify(dir, &o);
    assert_found(&o, SW_DEFECT, "replicas-differ", "model_1.pt", "model.v", "first at [0]");
    assert_found(&o, SW_WARNING, "stale-file", "model_2.pt", NULL, "beyond the 2");
    outcome_free(&o);
}

/* ---- metadata ------------------------------------------------------------------------------ */

#define REST "'world_size' 2 'version' '2.0' u"
#define ITEM(tensors, files)                                                                       \
    "} ( 'metadata' } ( 'model' } ( 'nested_path_to_metadata' } ( " tensors                        \
    " u 'rank_to_layout_info' } ( " files " u u u " REST

static void malformed(void **state)
{
    static const struct {
        const char *all;
        sw_status status;
        const char *text;
    } cases[] = {
        {"] 'metadata' a", SW_ERR_FORMAT, "no items, or no number of ranks"},
        {"} ( 'metadata' } 'world_size' 0 'version' '2.0' u", SW_ERR_FORMAT, "number of ranks"},
        {"} ( 'metadata' } 'world_size' 2 'version' '1.0' u", SW_ERR_UNSUPPORTED,
         "another version"},
        {"} ( 'metadata' } 'world_size' 99999999 'version' '2.0' u", SW_ERR_LIMIT, "99999999"},
        {"} ( 'metadata' } ( 3 } u " REST, SW_ERR_FORMAT, "an item without a name"},
        {"} ( 'metadata' } ( 'model' } u " REST, SW_ERR_FORMAT, "without tensors or files"},
        {ITEM("'w' ]", "0 N 1 N"), SW_ERR_FORMAT, ""},
        {ITEM("'{}' ]", "0 N 1 N"), SW_ERR_FORMAT, "no list"},
        {ITEM("'[null]' ]", "0 N 1 N"), SW_ERR_FORMAT, "neither texts nor numbers"},
        {ITEM("'[\"w\"]' }", "0 N 1 N"), SW_ERR_FORMAT, "without a list of groups"},
        {ITEM("'[\"w\"]' ] '[\"\\u0077\"]' ]", "0 N 1 N"), SW_ERR_FORMAT, "one path twice"},
        {ITEM("", "0 N"), SW_ERR_CONFLICT, "no file of rank 1 for \"model\""},
        {ITEM("", "0 } 1 N"), SW_ERR_FORMAT, "a file without a path"},
        {ITEM("", "0 } ( 'file_path' '../x' 'serialization_format' } ( 'type' "
                  "'TorchSerialization' u u 1 N"),
         SW_ERR_UNSAFE, "names a file"},
        {ITEM("", "0 } ( 'file_path' 'x' 'serialization_format' } ( 'type' 'JsonSerialization' u u "
                  "1 N"),
         SW_ERR_UNSUPPORTED, "another form than TorchSerialization"},
        {"} ( 'metadata' M:posix/system ( 'true' t R " REST, SW_ERR_UNSAFE, "posix.system"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char *dir = harness_path(*state, "%zu", i);
        sw_checkpoint *c = NULL;
        sw_error err = {0};
        harness_write_text(harness_path(dir, "model_0.pt"), "x");
        rank_meta(dir, NULL, cases[i].all);
        sw_status st = sw_checkpoint_open(dir, NULL, NULL, &c, &err);
        if (st != cases[i].status || strstr(err.text, cases[i].text) == NULL)
            fail_msg("case %zu: %s: %s", i, sw_status_name(st), err.text);
        assert_null(c);
    }
}

/* Geometry that is not understood is a finding about that tensor, and the rest is read. */
static void malformed_geometry(void **state)
{
    static const struct {
        const char *shape, *placements, *text;
    } cases[] = {
        {"5 2", "( } ( 'type' 'Partial' u t", "not understood"},
        {"5 2", "( } ( 'type' 'Shard' 'dim' 2 u t", "not understood"},
        {"5 2", "( } ( 'type' 'Shard' 'dim' -3 u t", "not understood"},
        {"5 2", "( t", "not understood"},
        {"5 -2", RANK_SHARD, "not understood"},
        {"5 2", "( } ( 'type' 'StridedShard' 'dim' 0 'split_factor' 2 u t", "strided placement"},
        {"7 2", RANK_SHARD, "has not the shape"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char *dir = harness_path(*state, "%zu", i);
        swi_buf tensors = {0};
        outcome o;
        write_ranks(dir, good);
        rank_tensor(&tensors, "[\"layers\",\"w\"]", cases[i].shape, cases[i].placements);
        rank_tensor(&tensors, "[\"v\"]", "3", RANK_COPY);
        rank_meta(dir, &tensors, NULL);
        swi_buf_free(&tensors);
        run_verify(dir, &o);
        assert_int_equal(o.status, SW_OK);
        assert_found(&o, SW_DEFECT, "bad-tensor", NULL, "model.layers.w", cases[i].text);
        outcome_free(&o);
    }
    /* a negative dimension counts from the end; what metadata does not tell of is refused */
    char *dir = harness_path(*state, "end");
    swi_buf tensors = {0};
    outcome o;
    write_ranks(dir, good);
    rank_tensor(&tensors, "[\"layers\",\"w\"]", "5 2", "( } ( 'type' 'Shard' 'dim' -2 u t");
    rank_meta(dir, &tensors, NULL);
    assert_ramp(dir, "model.layers.w", 2, (const int64_t[]){5, 2}, 0);
    tensors.size = 0;
    rank_meta(dir, &tensors, NULL);
    swi_buf_free(&tensors);
    run_verify(dir, &o);
    assert_found(&o, SW_DEFECT, "bad-tensor", "model_1.pt", "model.layers.w", "does not tell");
    outcome_free(&o);
}

/* Other files of that name claim nothing. */
static void claims(void **state)
{
    char *dir = *state;
    outcome o;
    write_st_one(harness_path(dir, "model.safetensors"), "w", 2, 2, 0);
    rank_meta(dir, NULL, "} ( 'author' 'me' u");
    run_verify(dir, &o);
    assert_fine(&o);
    assert_string_equal(o.verified.framework, "hf");
    outcome_free(&o);
    char *lone = harness_path(dir, "lone");
    rank_meta(lone, NULL, ITEM("", "0 N 1 N"));
    run_verify(lone, &o);
    assert_found(&o, SW_DEFECT, "missing-file", "model_0.pt", NULL, "not there");
    outcome_free(&o);
    rank_meta(lone, NULL, ITEM("'[\"w\"]' ]", "0 N 1 N"));
    run_verify(lone, &o);
    assert_found(&o, SW_DEFECT, "bad-tensor", "metadata.pkl", "model.w", "that no rank has");
    outcome_free(&o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(boxes_cover_once),
        cmocka_unit_test(strided_rows),
        cmocka_unit_test(uneven_rows),
        test_in_dir(read_whole),
        test_in_dir(write_others),
        test_in_dir(damaged),
        test_in_dir(malformed),
        test_in_dir(malformed_geometry),
        test_in_dir(claims),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
