/*
 * FSDP1 as a target: whole commands. The sample's elements are their own coordinates, and each row
 * is held against the sample's parameters one behind the other.
 */
#include "convert/state_fixture.h"
#include "convert/torch_fixture.h"

#include "model/catalog.h"

#define UNITS "layout: 1\nunits: [\"layers.{n}\"]\n"

static const char *const embedding[] = {"embedding.weight", "norm.weight", NULL};
static const char *const layer0[] = {"layers.0.norm.weight", "layers.0.up.weight",
                                     "layers.0.down.weight", NULL};
static const char *const layer1[] = {"layers.1.norm.weight", "layers.1.up.weight",
                                     "layers.1.down.weight", NULL};
static const char *const all[] = {
    "embedding.weight",     "layers.0.norm.weight", "layers.0.up.weight",
    "layers.0.down.weight", "layers.1.norm.weight", "layers.1.up.weight",
    "layers.1.down.weight", "norm.weight",          NULL};

static char *layout_file(const char *dir, const char *text)
{
    char *path = harness_path(dir, "layout.yaml");
    harness_write_text(path, text);
    return path;
}

static void convert_by(const char *from, const char *to, const sw_convert_options *options,
                       const char *note)
{
    outcome o;
    run_convert(from, to, options, &o);
    assert_fine(&o);
    if (note != NULL)
        (void)assert_found(&o, SW_NOTE, "flattened", NULL, NULL, note);
    if (options->verify)
        assert_int_equal(o.converted.verified_tensors, o.converted.tensors);
    outcome_free(&o);
}

static sw_convert_options to_target(const char *target, const char *layout)
{
    return (sw_convert_options){.to = target, .layout = layout, .verify = true};
}

/* The row has the elements of these parameters, and each rank the shard that it would have. */
static void expect_row(const sw_checkpoint *c, const sw_checkpoint *demo, const char *name,
                       const char *const *parameters, uint64_t ranks)
{
    const sw_catalog *catalog = sw_checkpoint_catalog(c);
    sw_tensor_info info, part;
    float *row = read_floats(c, name, &info);
    uint64_t at = 0;
    for (size_t i = 0; parameters[i] != NULL; i++) {
        char full[96];
        snprintf(full, sizeof full, "model.%s", parameters[i]);
        float *want = read_floats(demo, full, &part);
        assert_true(at + part.elements <= info.elements);
        if (memcmp(row + at, want, part.elements * sizeof *row) != 0)
            fail_msg("%s: %s is not at %llu", name, parameters[i], (unsigned long long)at);
        at += part.elements;
        free(want);
    }
    assert_int_equal(at, info.elements);
    const uint64_t each = (info.elements + ranks - 1) / ranks;
    assert_int_equal(info.axes, 1);
    assert_int_equal(info.role, SW_ROLE_PARAMETER);
    assert_int_equal(info.piece_count, (info.elements + each - 1) / each);
    const uint32_t tensor = (uint32_t)sw_catalog_find(catalog, name);
    for (uint64_t p = 0; p < info.piece_count; p++) {
        swi_piece piece;
        swi_blob blob;
        char path[32];
        swi_tensor_piece(catalog, tensor, p, &piece);
        swi_catalog_blob(catalog, piece.blob, &blob);
        snprintf(path, sizeof path, "__%d_0.distcp", (int)p);
        assert_string_equal(swi_catalog_path(catalog, blob.file), path);
        assert_int_equal(piece.offset[0], p * each);
        assert_int_equal(piece.length[0],
                         info.elements - p * each < each ? info.elements - p * each : each);
    }
    free(row);
}

/* ---- rows ------------------------------------------------------------------------------------ */

static void rows_of_any_world(void **state)
{
    static const uint64_t worlds[] = {1, 2, 3, 4, 7, 8, 101};
    char *dir = *state, *demo = harness_path(dir, "demo"), *layout = layout_file(dir, UNITS);
    make_demo(demo);
    sw_checkpoint *from = open_good(demo);
    for (size_t i = 0; i < sizeof worlds / sizeof worlds[0]; i++) {
        char target[64], *to = harness_path(dir, "to-%zu", i);
        snprintf(target, sizeof target, "fsdp1:dp=%d,mode=local", (int)worlds[i]);
        const sw_convert_options options = to_target(target, layout);
        convert_by(demo, to, &options,
                   "8 parameters make 3 flat parameters, in the order of the state dict; the root "
                   "and 2 modules are wrapped, which --layout says");
        const sw_open_options as = {.from = "dcp"};
        sw_checkpoint *c = NULL;
        sw_error err = {0};
        assert_ok(sw_checkpoint_open(to, &as, NULL, &c, &err), &err);
        expect_row(c, from, "model._flat_param", embedding, worlds[i]);
        expect_row(c, from, "model.layers.0._flat_param", layer0, worlds[i]);
        expect_row(c, from, "model.layers.1._flat_param", layer1, worlds[i]);
        /* the optimizer stays as it is, by names: FSDP.optim_state_dict gives no rows */
        assert_int_equal(sw_catalog_tensor_count(sw_checkpoint_catalog(c)), 3 + 24);
        assert_true(sw_catalog_find(sw_checkpoint_catalog(c),
                                    "optimizer.state.layers.0.up.weight.exp_avg") >= 0);
        sw_checkpoint_close(c);
    }
    sw_checkpoint_close(from);
}

static void one_row_of_the_root(void **state)
{
    char *dir = *state, *demo = harness_path(dir, "demo"), *to = harness_path(dir, "to");
    make_demo(demo);
    const sw_convert_options options = to_target("fsdp1:dp=3,mode=local", NULL);
    convert_by(demo, to, &options, "only the root is wrapped, as nothing says more");
    sw_checkpoint *from = open_good(demo), *c = NULL;
    sw_error err = {0};
    assert_ok(sw_checkpoint_open(to, &(sw_open_options){.from = "dcp"}, NULL, &c, &err), &err);
    expect_row(c, from, "model._flat_param", all, 3);
    sw_checkpoint_close(c);
    sw_checkpoint_close(from);
}

static void expect_equal(const char *a, const char *b, uint64_t tensors, uint64_t values)
{
    const sw_diff_options all_of_it = {.state = true};
    sw_diff_summary sum;
    sw_error err = {0};
    sw_report *report = NULL;
    assert_ok(sw_report_make(&report, &err), &err);
    assert_ok(sw_diff(a, b, &all_of_it, NULL, NULL, report, &sum, &err), &err);
    assert_int_equal(sum.differences, 0);
    assert_int_equal(sum.compared, tensors);
    assert_int_equal(sum.values, values);
    sw_report_free(report);
}

/* There and back, by what --shapes says: the sample again, tensor for tensor. */
static void there_and_back(void **state)
{
    char *dir = *state, *demo = harness_path(dir, "demo"), *to = harness_path(dir, "to"),
         *back = harness_path(dir, "back"), *again = harness_path(dir, "again"),
         *shapes = harness_path(dir, "shapes.yaml");
    make_demo(demo);
    harness_write_text(shapes, "shapes: 1\n"
                               "parameters:\n"
                               "  - embedding.weight: [250, 48]\n"
                               "  - layers.0.norm.weight: [48]\n"
                               "  - layers.0.up.weight: [100, 48]\n"
                               "  - layers.0.down.weight: [48, 100]\n"
                               "  - layers.1.norm.weight: [48]\n"
                               "  - layers.1.up.weight: [100, 48]\n"
                               "  - layers.1.down.weight: [48, 100]\n"
                               "  - norm.weight: [3]\n"
                               "units: [\"layers.{n}\"]\n");
    sw_convert_options options = to_target("fsdp1:dp=5,mode=local", NULL);
    options.open.shapes = shapes;
    convert_by(demo, to, &options, "the root and 2 modules are wrapped");
    options.to = "fsdp1:dp=2,mode=local";
    convert_by(to, again, &options, "the root and 2 modules are wrapped");
    options.to = "dcp:ranks=4";
    convert_by(again, back, &options, NULL);
    expect_equal(demo, back, 32, 2);
}

/* Another number of ranks: the modules that were wrapped stay so. */
static void units_of_the_source(void **state)
{
    char *dir = *state, *demo = harness_path(dir, "demo"), *to = harness_path(dir, "to"),
         *again = harness_path(dir, "again");
    make_demo(demo);
    sw_convert_options options = to_target("fsdp1:dp=4,mode=local", layout_file(dir, UNITS));
    convert_by(demo, to, &options, NULL);
    options.to = "fsdp1:dp=3,mode=local";
    options.layout = NULL;
    options.open.shapes = demo;
    convert_by(to, again, &options, "the root and 2 modules are wrapped, which the source says");
    sw_checkpoint *from = open_good(demo), *c = NULL;
    sw_error err = {0};
    assert_ok(sw_checkpoint_open(again, &(sw_open_options){.from = "dcp"}, NULL, &c, &err), &err);
    expect_row(c, from, "model._flat_param", embedding, 3);
    expect_row(c, from, "model.layers.1._flat_param", layer1, 3);
    sw_checkpoint_close(c);
    sw_checkpoint_close(from);
}

/* ---- the other modes ------------------------------------------------------------------------- */

/* Sharded is a DCP folder in rows, as the target of FSDP2 writes it. */
static void sharded_is_in_rows(void **state)
{
    char *dir = *state, *demo = harness_path(dir, "demo"), *a = harness_path(dir, "a"),
         *b = harness_path(dir, "b"), *c = harness_path(dir, "c");
    make_demo(demo);
    const sw_convert_options sharded = to_target("fsdp1:dp=3,replicate=2", NULL);
    const sw_convert_options dcp = to_target("dcp:ranks=3,replicate=2", NULL);
    const sw_convert_options named = to_target("fsdp1:replicate=2,mode=sharded,dp=3", NULL);
    convert_by(demo, a, &sharded, NULL);
    convert_by(demo, b, &dcp, NULL);
    convert_by(demo, c, &named, NULL);
    assert_same_folder(a, b);
    assert_same_folder(a, c);
}

/* Full is one file, whatever its name is, and a path that names a folder is none. */
static void full_is_one_file(void **state)
{
    char *dir = *state, *demo = harness_path(dir, "demo"), *a = harness_path(dir, "a.pt"),
         *b = harness_path(dir, "b.pt");
    make_demo(demo);
    const sw_convert_options full = to_target("fsdp1:mode=full", NULL);
    const sw_convert_options torch = to_target("torch:optimizer=flat", NULL);
    convert_by(demo, a, &full, NULL);
    convert_by(demo, b, &torch, NULL);
    assert_true(harness_file_size(a) > 0);
    assert_true(same_file(a, b));
    outcome o;
    const char *folder = harness_path(dir, "folder");
    assert_int_equal(mkdir(folder, 0777), 0);
    run_convert(demo, folder, &full, &o);
    assert_run_refused(&o, SW_ERR_ARG, "is a folder, and this target is one file", NULL);
    outcome_free(&o);
}

/* ---- refusals -------------------------------------------------------------------------------- */

static void refused_options(void **state)
{
    static const struct {
        const char *target, *clause, *says;
    } cases[] = {
        {"fsdp1:mode=lokal", "FS-31",
         "\"lokal\" is no mode; there are sharded, full, local; did you mean local?"},
        {"fsdp1:mode=", "FS-31", "\"\" is no mode; there are sharded, full, local"},
        {"fsdp1:dq=2", "FS-31",
         "\"dq\" is no option; there are dp, mode, use_orig_params, files, replicate, device"},
        {"fsdp1:dp=0", "FS-31", "dp=0: a number of ranks from 1 to 16384 is wanted"},
        {"fsdp1:dp=16385", "FS-31", "dp=16385: a number of ranks from 1 to 16384 is wanted"},
        {"fsdp1:dp=99999999999999999999", "FS-31", "a number of ranks from 1 to 16384"},
        {"fsdp1:dp=2x", "FS-31", "dp=2x: a number of ranks"},
        {"fsdp1:dp", "FS-31", "dp=: a number of ranks"},
        {"fsdp1:use_orig_params=yes", "FS-31",
         "\"yes\" is no value of use_orig_params; there are false, true"},
        {"fsdp1:files=pickle", "FS-31", "\"pickle\" is no kind of files; there are dcp, ranks"},
        {"fsdp1:dp=2,mode=local,use_orig_params=true", "FS-32",
         "mode=local with use_orig_params=true: torch cannot load LOCAL_STATE_DICT"},
        {"fsdp1:dp=2,mode=local,replicate=2", "FS-32",
         "mode=local with replicate: torch has no LOCAL_STATE_DICT of a model with a mesh"},
        {"fsdp1:mode=full,replicate=2", "FS-32", "mode=full is one file for any number of ranks"},
        {"fsdp1:mode=full,files=ranks", "FS-32", "mode=full is one file; leave files=ranks out"},
        {"fsdp1:files=ranks,use_orig_params=true", "FS-32",
         "files=ranks with use_orig_params=true"},
        {"fsdp1:mode=local,optimizer=keep", "FS-31", "optimizer=keep cannot keep"},
        {"fsdp1:mode=local,optimizer=ids", "FS-31",
         "optimizer=ids is for mode=full and for files=ranks"},
    };
    char *dir = *state, *demo = harness_path(dir, "demo"), *to = harness_path(dir, "to");
    make_demo(demo);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        outcome o;
        const sw_convert_options options = to_target(cases[i].target, NULL);
        run_convert(demo, to, &options, &o);
        assert_run_refused(&o, SW_ERR_ARG, cases[i].says, to);
        assert_string_equal(o.err.clause, cases[i].clause);
        outcome_free(&o);
    }
}

static void refused_layouts(void **state)
{
    char *dir = *state, *demo = harness_path(dir, "demo"), *to = harness_path(dir, "to");
    make_demo(demo);
    sw_convert_options options = to_target(
        "fsdp1:dp=2,mode=local",
        layout_file(dir, "layout: 1\nmesh: {dp: 2}\nrules: [{tensor: '**', dims: [dp]}]\n"));
    assert_refuses(demo, to, &options, SW_ERR_ARG,
                   "--to fsdp1 divides in its own way: of a layout it takes the units");
    options.layout = layout_file(dir, "layout: 1\nunits: [\"blocks.{n}\"]\n");
    assert_refuses(demo, to, &options, SW_ERR_ARG,
                   "no module that holds parameters is called \"blocks.{n}\"");
    options.to = "dcp:ranks=2";
    assert_refuses(demo, to, &options, SW_ERR_ARG,
                   "units are the modules that a target wraps, and --to dcp wraps none");
}

/* Safetensors keep no order of registration, and sorted names are none. */
static void refused_without_an_order(void **state)
{
    char *dir = *state, *demo = harness_path(dir, "demo"), *hf = harness_path(dir, "hf"),
         *to = harness_path(dir, "to");
    make_demo(demo);
    convert_by(demo, hf, &(sw_convert_options){.to = "hf"}, NULL);
    sw_convert_options options = to_target("fsdp1:dp=2,mode=local", NULL);
    outcome o;
    run_convert(hf, to, &options, &o);
    assert_run_refused(&o, SW_ERR_INCOMPLETE,
                       "the order in which the model registers its parameters is not known", to);
    assert_string_equal(o.err.clause, "FS-25");
    outcome_free(&o);
    options.open.shapes = demo;
    convert_by(hf, to, &options, "8 parameters make 1 flat parameter");
    sw_checkpoint *from = open_good(demo), *c = NULL;
    sw_error err = {0};
    assert_ok(sw_checkpoint_open(to, &(sw_open_options){.from = "dcp"}, NULL, &c, &err), &err);
    expect_row(c, from, "_flat_param", all, 2);
    sw_checkpoint_close(c);
    sw_checkpoint_close(from);
}

/* A torch file {"a": ..., "b": ...} of floats, with an integer and a scalar among them. */
static void buffers_stay(void **state)
{
    static const int64_t six[] = {6}, two_by_three[] = {2, 3};
    static const int64_t seven = 7;
    char *dir = *state, *file = harness_path(dir, "m.pt"), *to = harness_path(dir, "to");
    torch_world *w = torch_begin(false);
    torch_say(w, "} (");
    torch_ramp(w, "z.weight", 2, two_by_three, 100);
    torch_ramp(w, "z.scale", 0, NULL, 5);
    torch_key(w, "z.count");
    torch_view(w, torch_storage(w, "LongStorage", 8, &seven, sizeof seven), 0, 0, NULL, NULL);
    torch_ramp(w, "a.bias", 1, six, 200);
    torch_say(w, "u");
    torch_write_zip(w, file, NULL);
    torch_free(w);
    const sw_convert_options options = to_target("fsdp1:dp=4,mode=local", NULL);
    convert_by(file, to, &options, "2 parameters make 1 flat parameter");
    sw_checkpoint *c = NULL;
    sw_error err = {0};
    assert_ok(sw_checkpoint_open(to, &(sw_open_options){.from = "dcp"}, NULL, &c, &err), &err);
    sw_tensor_info info;
    assert_int_equal(sw_catalog_tensor_count(sw_checkpoint_catalog(c)), 3);
    float *row = read_floats(c, "_flat_param", &info); /* as registered, not as sorted */
    assert_int_equal(info.elements, 12);
    for (int i = 0; i < 12; i++)
        assert_true(row[i] == (i < 6 ? 100.0F + (float)i : 200.0F + (float)(i - 6)));
    free(row);
    free(read_floats(c, "z.scale", &info));
    assert_true(sw_catalog_find(sw_checkpoint_catalog(c), "z.count") >= 0);
    sw_checkpoint_close(c);
}

static void refused_types(void **state)
{
    static const int64_t two[] = {2};
    static const uint16_t halves[] = {1, 2};
    char *dir = *state, *file = harness_path(dir, "m.pt"), *to = harness_path(dir, "to");
    torch_world *w = torch_begin(false);
    const int64_t stride[] = {1};
    torch_say(w, "} (");
    torch_ramp(w, "x.w", 1, two, 0);
    torch_key(w, "y.w");
    torch_view(w, torch_storage(w, "HalfStorage", 2, halves, sizeof halves), 0, 1, two, stride);
    torch_say(w, "u");
    torch_write_zip(w, file, NULL);
    torch_free(w);
    sw_convert_options options = to_target("fsdp1:dp=2,mode=local", NULL);
    outcome o;
    run_convert(file, to, &options, &o);
    assert_run_refused(&o, SW_ERR_CONFLICT,
                       "\"x.w\" (float32) and \"y.w\" (float16) are in one wrapped module", to);
    assert_string_equal(o.err.clause, "FS-22");
    outcome_free(&o);
    options.layout = layout_file(dir, "layout: 1\nunits: y\n");
    convert_by(file, to, &options, "2 parameters make 2 flat parameters");
}

/* Names that are sorted may be anybody's order. */
static void refused_sorted_names(void **state)
{
    static const int64_t two[] = {2};
    char *dir = *state, *file = harness_path(dir, "m.pt"), *to = harness_path(dir, "to");
    torch_world *w = torch_begin(false);
    torch_say(w, "} (");
    for (int i = 0; i < 16; i++) {
        char name[16];
        snprintf(name, sizeof name, "p%02d", i);
        torch_ramp(w, name, 1, two, 0);
    }
    torch_say(w, "u");
    torch_write_zip(w, file, NULL);
    torch_free(w);
    const sw_convert_options options = to_target("fsdp1:dp=2,mode=local", NULL);
    assert_refuses(file, to, &options, SW_ERR_INCOMPLETE,
                   "its names are sorted, which is no order of registration");
}

#define THREE "shapes: 1\nparameters:\n- e.w: [2]\n- m.w: [3]\n"

/* What --shapes says and the source has must be the same model. */
static void refused_shapes(void **state)
{
    static const struct {
        const char *shapes;
        sw_status status;
        const char *clause, *says;
    } cases[] = {
        {THREE, SW_ERR_CONFLICT, "FS-26", "tensor \"h.w\" is in the source and not known to"},
        {THREE "- h.w: [1, 2]\n", SW_ERR_CONFLICT, "FS-26",
         "tensor \"h.w\" has another shape in the source than in"},
        {THREE "- h.w: [2]\n- lost: [2]\n", SW_ERR_INCOMPLETE, "FS-21",
         "parameter \"lost\" is not in the source"},
        {THREE "ties: {h.w: e.w}\nunits: [e]\n", SW_ERR_CONFLICT, "FS-27",
         "\"e.w\" and \"h.w\" are tied"},
        {THREE "ties: {h.w: e.w}\nunits: [m]\n", SW_ERR_CONFLICT, "FS-21",
         "\"h.w\" and \"e.w\" are said to be tied"},
    };
    static const int64_t two[] = {2}, three[] = {3};
    char *dir = *state, *file = harness_path(dir, "m.pt"), *to = harness_path(dir, "to"),
         *shapes = harness_path(dir, "shapes.yaml");
    torch_world *w = torch_begin(false);
    torch_say(w, "} (");
    torch_ramp(w, "e.w", 1, two, 0);
    torch_ramp(w, "m.w", 1, three, 10);
    torch_ramp(w, "h.w", 1, two, 20);
    torch_say(w, "u");
    torch_write_zip(w, file, NULL);
    torch_free(w);
    sw_convert_options options = to_target("fsdp1:dp=2,mode=local", NULL);
    options.open.shapes = shapes;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        outcome o;
        harness_write_text(shapes, cases[i].shapes);
        run_convert(file, to, &options, &o);
        assert_run_refused(&o, cases[i].status, cases[i].says, to);
        assert_string_equal(o.err.clause, cases[i].clause);
        outcome_free(&o);
    }
}

/* An optimizer that is left behind still tells that one of two is no parameter by itself. */
static void the_optimizer_left_behind_tells(void **state)
{
    static const int64_t two[] = {2};
    char *dir = *state, *from = harness_path(dir, "from"), *to = harness_path(dir, "to");
    dcp_world *w = dcp_begin();
    dcp_whole(w, "model/e.w", 0, 1, two, 0);
    dcp_whole(w, "model/h.w", 0, 1, two, 0);
    dcp_whole(w, "optimizer/state/e.w/exp_avg", 0, 1, two, 0);
    dcp_text(w, "optimizer/param_groups/#0/params", 0, "EMPTY_LIST ; BINUNICODE e.w ; APPEND ; ");
    dcp_end(w, from);
    sw_convert_options options = to_target("fsdp1:dp=2,mode=local", NULL);
    options.drop_optimizer = true;
    outcome o;
    run_convert(from, to, &options, &o);
    assert_run_refused(&o, SW_ERR_CONFLICT,
                       "\"e.w\" has states in the optimizer of the dcp checkpoint and \"h.w\" has "
                       "none",
                       to);
    assert_string_equal(o.err.clause, "FS-28");
    outcome_free(&o);
    harness_write_text(harness_path(dir, "shapes.yaml"),
                       "shapes: 1\nparameters:\n- e.w: [2]\nties: {h.w: e.w}\n");
    options.open.shapes = harness_path(dir, "shapes.yaml");
    convert_by(from, to, &options, "1 parameters make 1 flat parameter");
}

/* A tensor that is chosen away leaves a hole in a row; what rows are made of is not chosen by its
 * name. */
static void refused_choices(void **state)
{
    char *dir = *state, *demo = harness_path(dir, "demo"), *to = harness_path(dir, "to");
    const char *const drop[] = {"layers.0.up.weight", NULL};
    make_demo(demo);
    sw_convert_options options = to_target("fsdp1:dp=2,mode=local", NULL);
    options.drop = drop;
    assert_refuses(demo, to, &options, SW_ERR_ARG, "the target makes other tensors of");
    const char *const only[] = {"model._flat_param", NULL};
    options.drop = NULL;
    options.only = only;
    options.layout = layout_file(dir, UNITS);
    convert_by(demo, to, &options, NULL);
    sw_checkpoint *c = NULL;
    sw_error err = {0};
    assert_ok(sw_checkpoint_open(to, &(sw_open_options){.from = "dcp"}, NULL, &c, &err), &err);
    assert_int_equal(sw_catalog_tensor_count(sw_checkpoint_catalog(c)), 1);
    sw_checkpoint_close(c);
}

/* --shapes goes before the order of the state dict. */
static void shapes_say_the_order(void **state)
{
    static const int64_t two[] = {2};
    static const char *const names[] = {"a", "b"};
    char *dir = *state, *files[2];
    for (int i = 0; i < 2; i++) {
        torch_world *w = torch_begin(false);
        files[i] = harness_path(dir, "m%d.pt", i);
        torch_say(w, "} (");
        torch_ramp(w, names[i], 1, two, 100.0F * (float)i);
        torch_ramp(w, names[1 - i], 1, two, 100.0F * (float)(1 - i));
        torch_say(w, "u");
        torch_write_zip(w, files[i], NULL);
        torch_free(w);
    }
    for (int i = 0; i < 2; i++) {
        sw_convert_options options = to_target("fsdp1:dp=1,mode=local", NULL);
        char *to = harness_path(dir, "to%d", i);
        sw_checkpoint *c = NULL;
        sw_tensor_info info;
        sw_error err = {0};
        options.open.shapes = files[i];
        convert_by(files[0], to, &options, "2 parameters make 1 flat parameter");
        assert_ok(sw_checkpoint_open(to, &(sw_open_options){.from = "dcp"}, NULL, &c, &err), &err);
        float *row = read_floats(c, "_flat_param", &info);
        assert_int_equal(info.elements, 4);
        assert_true(row[0] == 100.0F * (float)i && row[2] == 100.0F * (float)(1 - i));
        free(row);
        sw_checkpoint_close(c);
    }
}

/* ---- files of ranks --------------------------------------------------------------------------
 */

typedef struct trained {
    const char *name;
    uint32_t axes;
    int64_t shape[2];
    float base; /* of its elements; those of exp_avg are 1000 more */
} trained;

static const trained trained_parameters[] = {
    {"r.w", 2, {3, 2}, 100}, {"u.a", 2, {5, 3}, 200}, {"u.b", 1, {4, 0}, 300}};

/* A DCP folder with an optimizer of two groups: u's, and the rest. */
static void make_trained(const char *dir)
{
    dcp_world *w = dcp_begin();
    for (size_t i = 0; i < 3; i++) {
        const trained *p = &trained_parameters[i];
        char path[64];
        snprintf(path, sizeof path, "model/%s", p->name);
        dcp_whole(w, path, 0, p->axes, p->shape, p->base);
        snprintf(path, sizeof path, "optimizer/state/%s/exp_avg", p->name);
        dcp_whole(w, path, 0, p->axes, p->shape, p->base + 1000);
        snprintf(path, sizeof path, "optimizer/state/%s/step", p->name);
        dcp_whole(w, path, 0, 0, NULL, 7);
    }
    dcp_text(w, "optimizer/param_groups/#0/lr", 0, "BINFLOAT 0.5");
    dcp_text(w, "optimizer/param_groups/#0/params", 0,
             "EMPTY_LIST ; MARK ; BINUNICODE u.a ; BINUNICODE u.b ; APPENDS ; ");
    dcp_text(w, "optimizer/param_groups/#1/lr", 0, "BINFLOAT 0.25");
    dcp_text(w, "optimizer/param_groups/#1/params", 0, "EMPTY_LIST ; BINUNICODE r.w ; APPEND ; ");
    dcp_end(w, dir);
}

/* Elements [0, count) are base, base + 1 ...; of what follows in `more` likewise; then zeros. */
static void expect_flat(const sw_checkpoint *c, const char *name, const float *bases,
                        const uint64_t *counts, uint64_t total)
{
    sw_tensor_info info;
    float *data = read_floats(c, name, &info);
    uint64_t at = 0;
    assert_int_equal(info.axes, 1);
    assert_int_equal(info.elements, total);
    for (int k = 0; k < 2; k++)
        for (uint64_t i = 0; i < counts[k]; i++, at++)
            assert_true(data[at] == bases[k] + (float)i);
    for (; at < total; at++)
        assert_true(data[at] == 0.0F);
    free(data);
}

/* Raw: rows by number, padded to shards of one size; as read without knowing what is in them. */
static void files_of_ranks_hold_rows(void **state)
{
    static const uint64_t worlds[] = {1, 2, 3, 4, 7, 25};
    char *dir = *state, *from = harness_path(dir, "from"),
         *layout = layout_file(dir, "layout: 1\nunits: u\n");
    make_trained(from);
    for (size_t i = 0; i < sizeof worlds / sizeof worlds[0]; i++) {
        const uint64_t n = worlds[i];
        char target[64], *to = harness_path(dir, "to-%zu", i);
        snprintf(target, sizeof target, "fsdp1:dp=%d,mode=local,files=ranks", (int)n);
        const sw_convert_options options = to_target(target, layout);
        convert_by(from, to, &options, "3 parameters make 2 flat parameters");
        for (int r = 0; r < (int)n; r++) {
            assert_true(
                harness_exists(harness_path(to, "model_world_size_%d_rank_%d.pt", (int)n, r)));
            assert_true(
                harness_exists(harness_path(to, "optim_world_size_%d_rank_%d.pt", (int)n, r)));
        }
        sw_checkpoint *c = open_good(to);
        assert_string_equal(sw_checkpoint_framework(c), "ranks");
        expect_flat(c, "model._flat_param", (const float[]){100, 0}, (const uint64_t[]){6, 0}, 6);
        expect_flat(c, "model.u._flat_param", (const float[]){200, 300}, (const uint64_t[]){15, 4},
                    19);
        /* u is in the first group, so it is number 0 */
        expect_flat(c, "optimizer.state.0.exp_avg", (const float[]){1200, 1300},
                    (const uint64_t[]){15, 4}, (19 + n - 1) / n * n);
        expect_flat(c, "optimizer.state.1.exp_avg", (const float[]){1100, 0},
                    (const uint64_t[]){6, 0}, (6 + n - 1) / n * n);
        sw_checkpoint_close(c);
    }
}

/* Every way of writing it is the source again, when it is known what is in the rows. */
static void files_of_ranks_and_back(void **state)
{
    static const char *const targets[] = {
        "fsdp1:dp=3,mode=local,files=ranks",
        "fsdp1:dp=3,files=ranks",
        "fsdp1:dp=3,files=ranks,optimizer=nested",
        "fsdp1:dp=3,mode=local,files=ranks,optimizer=nested",
        "fsdp1:dp=2,replicate=2,files=ranks",
        "fsdp1:dp=8,mode=local,files=ranks,optimizer=ids",
    };
    char *dir = *state, *from = harness_path(dir, "from"),
         *shapes = harness_path(dir, "shapes.yaml");
    make_trained(from);
    harness_write_text(shapes, "shapes: 1\nparameters:\n- r.w: [3, 2]\n- u.a: [5, 3]\n"
                               "- u.b: [4]\nunits: [u]\nuse_orig_params: false\n");
    for (size_t i = 0; i < sizeof targets / sizeof targets[0]; i++) {
        char *to = harness_path(dir, "to-%zu", i), *back = harness_path(dir, "back-%zu", i);
        sw_convert_options options = to_target(targets[i], NULL);
        options.open.shapes = shapes;
        convert_by(from, to, &options, NULL);
        options.to = "dcp:ranks=2";
        convert_by(to, back, &options, NULL);
        expect_equal(from, back, 9, 4);
    }
}

/* What cannot be one row is named; by names it may go. */
static void refused_raw(void **state)
{
    char *dir = *state, *from = harness_path(dir, "from"), *to = harness_path(dir, "to");
    make_trained(from);
    sw_convert_options options = to_target("fsdp1:dp=2,files=ranks", NULL); /* the root alone */
    outcome o;
    run_convert(from, to, &options, &o);
    assert_run_refused(&o, SW_ERR_CONFLICT,
                       "\"r.w\" and \"u.a\" are in one wrapped module, and they are in different "
                       "groups",
                       to);
    assert_string_equal(o.err.clause, "FS-23");
    outcome_free(&o);
    options.to = "fsdp1:dp=2,mode=local";
    assert_refuses(from, to, &options, SW_ERR_CONFLICT, "they are in different groups");
    options.drop_optimizer = true;
    convert_by(from, to, &options, "3 parameters make 1 flat parameter");
    options.drop_optimizer = false;
    options.to = "fsdp1:dp=2,files=ranks,optimizer=nested";
    convert_by(from, harness_path(dir, "named"), &options, NULL);
}

/*
 * A run that divides by columns has some parameters whole on all ranks. They are no buffers, which
 * the optimizer's numbers of rows do not tell; an integer is one, also when no shapes name it.
 */
static void whole_parameters_are_divided(void **state)
{
    static const int64_t cut[] = {4, 2}, half[] = {2, 2}, zero[] = {0, 0}, low[] = {2, 0},
                         four[] = {4};
    static const char *const divided[] = {"model.a", "model.b"};
    static const char *const targets[] = {"fsdp1:dp=2,files=ranks",
                                          "fsdp1:dp=2,files=ranks,optimizer=nested"};
    char *dir = *state, *from = harness_path(dir, "from"),
         *shapes = harness_path(dir, "shapes.yaml");
    dcp_world *w = dcp_begin();
    dcp_item *a = dcp_tensor(w, "model/a", 2, cut, 0);
    dcp_chunk(w, a, 0, zero, half);
    dcp_chunk(w, a, 1, low, half);
    dcp_whole(w, "model/b", 0, 1, four, 100);
    dcp_item *seen = dcp_tensor(w, "model/seen", 0, NULL, 0);
    seen->dtype = SW_I64;
    dcp_chunk(w, seen, 0, zero, zero);
    dcp_whole(w, "optimizer/state/a/exp_avg", 0, 2, cut, 200);
    dcp_whole(w, "optimizer/state/b/exp_avg", 0, 1, four, 300);
    dcp_text(w, "optimizer/param_groups/#0/params", 0,
             "EMPTY_LIST ; MARK ; BINUNICODE a ; BINUNICODE b ; APPENDS ; ");
    dcp_end(w, from);
    harness_write_text(shapes, "shapes: 1\nparameters:\n- a: [4, 2]\n- b: [4]\n");
    for (size_t t = 0; t < 2; t++) {
        char *to = harness_path(dir, "to-%zu", t);
        sw_convert_options options = to_target(targets[t], NULL);
        options.open.shapes = shapes;
        convert_by(from, to, &options, NULL);
        sw_checkpoint *c = open_good(to);
        const sw_catalog *catalog = sw_checkpoint_catalog(c);
        for (size_t i = 0; i < 2; i++) {
            const int64_t at = sw_catalog_find(catalog, divided[i]);
            assert_true(at >= 0);
            assert_false(swi_tensor_has_replicas(catalog, (uint32_t)at));
        }
        assert_true(sw_catalog_find(catalog, "model.seen") >= 0);
        sw_checkpoint_close(c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        test_in_dir(rows_of_any_world),
        test_in_dir(one_row_of_the_root),
        test_in_dir(there_and_back),
        test_in_dir(sharded_is_in_rows),
        test_in_dir(full_is_one_file),
        test_in_dir(refused_options),
        test_in_dir(refused_layouts),
        test_in_dir(refused_without_an_order),
        test_in_dir(buffers_stay),
        test_in_dir(refused_types),
        test_in_dir(refused_choices),
        test_in_dir(shapes_say_the_order),
        test_in_dir(files_of_ranks_hold_rows),
        test_in_dir(files_of_ranks_and_back),
        test_in_dir(refused_raw),
        test_in_dir(whole_parameters_are_divided),
        test_in_dir(units_of_the_source),
        test_in_dir(refused_sorted_names),
        test_in_dir(refused_shapes),
        test_in_dir(the_optimizer_left_behind_tells),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
