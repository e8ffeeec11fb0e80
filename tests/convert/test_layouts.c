/* DCP folders that are written by a layout, and layouts that are found in them. */
#include "convert/state_fixture.h"

#include "model/catalog.h"
#include "notation/division.h"
#include "ranks/file_rank.h"

#define LAYOUT(mesh, rules) "layout: 1\nmesh: {" mesh "}\nrules:\n" rules
#define ROWS "  - {tensor: '**', dims: [dp]}\n"
#define TP                                                                                         \
    "  - {tensor: 'layers.{n}.up.weight', dims: [tp>dp]}\n"                                        \
    "  - {tensor: '**.down.weight', dims: [dp, tp]}\n" ROWS

/* ---- writing --------------------------------------------------------------------------------- */

static char *write_layout(const char *dir, const char *name, const char *text)
{
    char *path = harness_path(dir, "%s.yaml", name);
    harness_write_text(path, text);
    return path;
}

static void convert_by(const char *from, const char *to, const char *target, const char *layout)
{
    outcome o;
    const sw_convert_options options = {.to = target, .layout = layout, .verify = true};
    run_convert(from, to, &options, &o);
    assert_fine(&o);
    outcome_free(&o);
}

/* ---- what a folder has ------------------------------------------------------------------------
 */

/* The name by which rules know a tensor: of a state that of its parameter. */
static bool rule_name(const sw_checkpoint *c, size_t tensor, char *out, size_t size)
{
    sw_tensor_info info;
    const char *section, *name;
    sw_catalog_tensor(sw_checkpoint_catalog(c), tensor, &info);
    sw_checkpoint_split_name(c, tensor, &section, &name);
    const char *state = info.role == SW_ROLE_OPTIMIZER ? strrchr(name, '.') : NULL;
    const char *from = info.role == SW_ROLE_OPTIMIZER ? name + strlen("state.") : name;
    snprintf(out, size, "%.*s", (int)(state ? state - from : (long)strlen(from)), from);
    return info.axes > 0;
}

/* Each piece is the box of the rank whose file holds it, and no box lacks one. */
static void check_pieces(const sw_checkpoint *c, size_t tensor, const swi_cut *cut)
{
    const sw_catalog *catalog = sw_checkpoint_catalog(c);
    static swi_local local;
    uint64_t boxes = 0;
    sw_tensor_info info;
    sw_catalog_tensor(catalog, tensor, &info);
    const size_t bytes = info.axes * sizeof(int64_t);
    for (uint64_t h = 0; h < cut->holdings; h++) {
        swi_cut_local(cut, h, &local);
        boxes += local.count;
    }
    assert_int_equal(info.piece_count, boxes);
    for (uint64_t i = 0; i < info.piece_count; i++) {
        swi_piece piece;
        swi_blob blob;
        swi_tensor_piece(catalog, (uint32_t)tensor, i, &piece);
        swi_catalog_blob(catalog, piece.blob, &blob);
        int64_t rank = swi_file_rank(swi_catalog_path(catalog, blob.file));
        assert_in_range(rank, 0, cut->holdings * cut->copies - 1);
        swi_cut_local(cut, swi_cut_of_rank(cut, (uint64_t)rank), &local);
        size_t p = 0;
        while (p < local.count && (memcmp(piece.offset, local.parts[p].offset, bytes) != 0 ||
                                   memcmp(piece.length, local.parts[p].length, bytes) != 0))
            p++;
        assert_true(p < local.count);
    }
}

/* All tensors of the folder are divided as the layout says, states as their parameters. */
static void check_divided(const char *folder, const char *text)
{
    const sw_limits limits = sw_limits_resolve(NULL);
    sw_checkpoint *c = open_good(folder);
    swi_rules *rules = NULL;
    swi_division *division = NULL;
    sw_error err = {0};
    char name[128];
    assert_ok(swi_rules_parse_text(text, strlen(text), "l.yaml", &limits, &rules, &err), &err);
    assert_ok(swi_division_make(rules, NULL, NULL, 0, &division, &err), &err);
    for (size_t i = 0; i < sw_catalog_tensor_count(sw_checkpoint_catalog(c)); i++) {
        sw_tensor_info info;
        swi_cut cut;
        sw_catalog_tensor(sw_checkpoint_catalog(c), i, &info);
        if (!rule_name(c, i, name, sizeof name))
            continue;
        assert_ok(swi_divide(division, name, info.axes, info.shape, &cut, &err), &err);
        check_pieces(c, i, &cut);
    }
    swi_division_free(division);
    swi_rules_free(rules);
    sw_checkpoint_close(c);
}

static char *emit(const char *folder, size_t want_untold)
{
    sw_checkpoint *c = NULL;
    sw_error err = {0};
    char *text = NULL;
    size_t untold = 99;
    assert_ok(sw_checkpoint_open(folder, NULL, NULL, &c, &err), &err);
    assert_ok(sw_checkpoint_layout(c, &text, &untold, &err), &err);
    assert_int_equal(untold, want_untold);
    sw_checkpoint_close(c);
    return text;
}

/* ---- both ways ---------------------------------------------------------------------------------
 */

static const char *const layouts[] = {
    LAYOUT("dp: 4", ROWS),
    LAYOUT("dp: 7", ROWS),
    LAYOUT("replicate: 2, dp: 3", ROWS),
    LAYOUT("tp: 4", "  - {tensor: '**.down.weight', dims: [_, tp]}\n"
                    "  - {tensor: '**.norm.**', dims: []}\n  - {tensor: '**', dims: [tp]}\n"),
    LAYOUT("dp: 2, tp: 2", TP),
    LAYOUT("dp: 3, tp: 2", TP),
    LAYOUT("tp: 2, dp: 3", TP),
    LAYOUT("dp: 2, cp: 2, tp: 2", "  - {tensor: '**.up.weight', dims: [tp>cp, dp]}\n"
                                  "  - {tensor: '**.down.weight', dims: [cp>dp, tp]}\n" ROWS),
    LAYOUT("tp: 3", "  - {tensor: 'layers.{n}.up.weight', dims: [tp], parts: [60, 20, 20]}\n"
                    "  - {tensor: 'layers.0.down.weight', dims: [_, tp], parts: [90, 10]}\n"
                    "  - {tensor: '**', dims: [tp]}\n"),
    LAYOUT("dp: 2, tp: 2", "  - {tensor: 'layers.1.up.weight', dims: [dp]}\n" TP),
};

static void layouts_are_written_and_found(void **state)
{
    char *dir = *state, *demo = harness_path(dir, "demo"), *text;
    make_demo(demo);
    for (size_t i = 0; i < sizeof layouts / sizeof layouts[0]; i++) {
        char *to = harness_path(dir, "to-%zu", i), *again = harness_path(dir, "again-%zu", i);
        convert_by(demo, to, "fsdp2", write_layout(dir, "layout", layouts[i]));
        check_divided(to, layouts[i]);
        text = emit(to, 0);
        check_divided(to, text);
        convert_by(demo, again, "fsdp2", write_layout(dir, "found", text));
        check_divided(again, text);
        free(text);
        text = emit(again, 0);
        check_divided(to, text);
        free(text);
    }
}

/* Rows by a layout are the bytes that there are without one; sizes of --to go first. */
static void rows_are_a_layout(void **state)
{
    char *dir = *state, *demo = harness_path(dir, "demo"), *plain = harness_path(dir, "plain"),
         *by = harness_path(dir, "by"), *given = harness_path(dir, "given");
    make_demo(demo);
    convert_by(demo, plain, "dcp:ranks=3,replicate=2", NULL);
    convert_by(demo, by, "dcp", write_layout(dir, "l", LAYOUT("replicate: 2, dp: 3", ROWS)));
    assert_same_folder(plain, by);
    convert_by(demo, given, "fsdp2:dp=3,replicate=2",
               write_layout(dir, "l", LAYOUT("replicate: 7, dp: 1", ROWS)));
    assert_same_folder(plain, given);
    /* copies go to the rank with the least to write: all of them have some */
    for (int rank = 0; rank < 6; rank++)
        assert_true(harness_file_size(harness_path(plain, "__%d_0.distcp", rank)) > 40000);
}

static void a_found_layout_is_short(void **state)
{
    char *dir = *state, *demo = harness_path(dir, "demo"), *to = harness_path(dir, "to");
    make_demo(demo);
    convert_by(demo, to, "fsdp2", write_layout(dir, "l", layouts[4]));
    char *text = emit(to, 0);
    assert_string_equal(strchr(strchr(text, '\n') + 1, '\n') + 1,
                        "layout: 1\n"
                        "mesh: {dp: 2, tp: 2}\n"
                        "rules:\n"
                        "  - tensor: \"layers.{n}.up.weight\"\n"
                        "    dims: [tp>dp]\n"
                        "  - tensor: \"layers.{n}.down.weight\"\n"
                        "    dims: [dp, tp]\n"
                        "  - tensor: \"**\"\n"
                        "    dims: [dp]\n");
    free(text);
}

/* ---- states ------------------------------------------------------------------------------------
 */

static size_t pieces_of(const sw_checkpoint *c, const char *name)
{
    const sw_catalog *catalog = sw_checkpoint_catalog(c);
    for (size_t i = 0; i < sw_catalog_tensor_count(catalog); i++) {
        sw_tensor_info info;
        sw_catalog_tensor(catalog, i, &info);
        if (strcmp(info.name, name) == 0)
            return info.piece_count;
    }
    fail_msg("no tensor %s", name);
    return 0;
}

/* A state of another shape than its parameter is one piece, whatever the rule would do to it. */
static void states_follow_their_parameters(void **state)
{
    char *dir = *state, *from = harness_path(dir, "from"), *to = harness_path(dir, "to");
    const int64_t shape[2] = {8, 6}, row[2] = {8, 1};
    dcp_world *w = dcp_begin();
    dcp_whole(w, "model/w", 0, 2, shape, 0);
    dcp_whole(w, "optimizer/state/w/exp_avg", 0, 2, shape, 0);
    dcp_whole(w, "optimizer/state/w/row_var", 0, 2, row, 0);
    dcp_text(w, "optimizer/param_groups/#0/params", 0, "EMPTY_LIST ; BINUNICODE w ; APPEND ; ");
    dcp_end(w, from);
    convert_by(from, to, "fsdp2:dp=4",
               write_layout(dir, "l", LAYOUT("dp: 1", "  - {tensor: 'w', dims: [_, dp]}\n")));
    sw_checkpoint *c = open_good(to);
    assert_int_equal(pieces_of(c, "model.w"), 3);
    assert_int_equal(pieces_of(c, "optimizer.state.w.exp_avg"), 3);
    assert_int_equal(pieces_of(c, "optimizer.state.w.row_var"), 1);
    sw_checkpoint_close(c);
}

/* ---- refused -----------------------------------------------------------------------------------
 */

static void refused_layouts(void **state)
{
    char *dir = *state, *demo = harness_path(dir, "demo"), *to = harness_path(dir, "to");
    static const struct {
        const char *target, *layout;
        sw_status status;
        const char *says;
    } cases[] = {
        {"fsdp2:tp=2", NULL, SW_ERR_ARG, "how tensors are split is not known without --layout"},
        {"fsdp2:pp=2", NULL, SW_ERR_ARG, "--to dcp:pp=2: not an option"},
        {"fsdp2:pp=2", LAYOUT("dp: 2", ROWS), SW_ERR_ARG, "has no axis \"pp\""},
        {"hf", LAYOUT("dp: 2", ROWS), SW_ERR_ARG, "--layout is for targets whose ranks hold parts"},
        {"dcp", LAYOUT("dp: 2", "  - {tensor: x, dims: []}\n"), SW_ERR_NOTFOUND, "[LAY-6]"},
        {"dcp", LAYOUT("dp: 2", "  - {tensor: '**', flat: dp}\n"), SW_ERR_UNSUPPORTED,
         "a flat row of elements is no box"},
        {"dcp", LAYOUT("dp: 4", "  - {tensor: '**', dims: [dp], split: even}\n"), SW_ERR_CONFLICT,
         "250 elements cannot be divided evenly among 4 ranks (axis dp)"},
        {"dcp",
         LAYOUT("dp: 4", "  - {tensor: 'embedding.weight', dims: [dp], parts: [200, 50], units: "
                         "[200, 2], copies: true}\n" ROWS),
         SW_ERR_UNSUPPORTED, "ranks hold some of the same elements beside others"},
        {"dcp:ranks=16384,tp=2", LAYOUT("dp: 1, tp: 1", ROWS), SW_ERR_ARG, "more than 16384 ranks"},
        {"dcp", "layout: 1\nmesh: {dp: 2}\n", SW_ERR_FORMAT, "--layout: "},
    };
    make_demo(demo);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *path = cases[i].layout ? write_layout(dir, "l", cases[i].layout) : NULL;
        const sw_convert_options options = {.to = cases[i].target, .layout = path};
        assert_refuses(demo, to, &options, cases[i].status, cases[i].says);
    }
    const sw_convert_options missing = {.to = "dcp", .layout = "nowhere.yaml"};
    assert_refuses(demo, to, &missing, SW_ERR_NOTFOUND, "nowhere.yaml");
}

/* Pieces that no rule gives are named, and the rest is told. */
static void what_no_rule_gives_is_named(void **state)
{
    char *dir = *state, *from = harness_path(dir, "from");
    const int64_t shape[1] = {8}, zero[1] = {0}, one[1] = {1}, seven[1] = {7}, four[1] = {4};
    dcp_world *w = dcp_begin();
    dcp_item *odd = dcp_tensor(w, "model/odd", 1, shape, 0);
    dcp_chunk(w, odd, 0, zero, one);
    dcp_chunk(w, odd, 1, one, seven);
    dcp_item *hole = dcp_tensor(w, "model/hole", 1, shape, 0);
    dcp_chunk(w, hole, 0, zero, four);
    dcp_item *half = dcp_tensor(w, "model/half.weight", 1, shape, 0);
    dcp_chunk(w, half, 0, zero, four);
    dcp_chunk(w, half, 1, four, four);
    dcp_end(w, from);
    char *text = emit(from, 2);
    assert_contains(text, "# no rule describes the pieces of \"hole\"\n");
    assert_contains(text, "# no rule describes the pieces of \"odd\"\n");
    assert_contains(text, "mesh: {dp: 2}\n");
    free(text);
}

static void files_have_ranks(void **state)
{
    (void)state;
    static const struct {
        const char *path;
        int64_t rank;
    } cases[] = {
        {"__3_0.distcp", 3},
        {"a/b/__12_1.distcp", 12},
        {"shard-00004-model-00001-of-00001.safetensors", 3},
        {"shard-00000-model.safetensors", -1},
        {"model_3.pt", 3},
        {"train_state_10.pt", 10},
        {"consolidated.03.pth", 3},
        {"model-rank-3-part-0.safetensors", 3},
        {"model-00001-of-00002.safetensors", -1},
        {"pytorch_model.bin", -1},
        {"__x_0.distcp", -1},
        {"__12345678901_0.distcp", -1},
        {"model_.pt", -1},
        {"model_world_size_8_rank_3.pt", 3},
        {"", -1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_int_equal(swi_file_rank(cases[i].path), cases[i].rank);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        test_in_dir(layouts_are_written_and_found),
        test_in_dir(rows_are_a_layout),
        test_in_dir(a_found_layout_is_short),
        test_in_dir(states_follow_their_parameters),
        test_in_dir(refused_layouts),
        test_in_dir(what_no_rule_gives_is_named),
        cmocka_unit_test(files_have_ranks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
