/* Files of torch.save: what they hold, what is said of them, and where they are found. */
#include "convert/torch_fixture.h"

#include "state/state.h"

static const int64_t two_three[] = {2, 3};

static char *in(void **state, const char *name)
{
    return harness_path(*state, "%s", name);
}

/* {"w": (2, 3) of 0 ..., "b": (3) of 10 ...} */
static torch_world *small(bool legacy)
{
    torch_world *w = torch_begin(legacy);
    torch_say(w, "} (");
    torch_ramp(w, "w", 2, two_three, 0);
    torch_ramp(w, "b", 1, (const int64_t[]){3}, 10);
    torch_say(w, "u");
    return w;
}

static void write_small(const char *path)
{
    torch_world *w = small(false);
    torch_write_zip(w, path, NULL);
    torch_free(w);
}

static void expect_floats(const char *path, const char *name, uint32_t axes, const int64_t *shape,
                          const float *want)
{
    sw_checkpoint *c = open_good(path);
    sw_tensor_info info;
    float *data = read_floats(c, name, &info);
    assert_int_equal(info.axes, axes);
    for (uint32_t k = 0; k < axes; k++)
        assert_int_equal(info.shape[k], shape[k]);
    for (uint64_t i = 0; i < info.elements; i++)
        if (data[i] != want[i])
            fail_msg("%s: element %llu is %g", name, (unsigned long long)i, (double)data[i]);
    free(data);
    sw_checkpoint_close(c);
}

static void expect_error(const char *path, sw_status status, const char *text)
{
    outcome o;
    sw_checkpoint *c = NULL;
    outcome_begin(&o);
    o.status = sw_checkpoint_open(path, NULL, o.report, &c, &o.err);
    assert_run_refused(&o, status, text, NULL);
    assert_null(c);
    outcome_free(&o);
}

static void expect_named(const char *path, const char *name, const char *want)
{
    sw_checkpoint *c = open_good(path);
    const sw_catalog *catalog = sw_checkpoint_catalog(c);
    sw_error err = {0};
    for (size_t i = 0; i < sw_catalog_value_count(catalog); i++) {
        sw_value_info info;
        sw_value_graph *g = NULL;
        sw_value root;
        char *text = NULL;
        sw_catalog_value_at(catalog, i, &info);
        if (strcmp(info.name, name) != 0)
            continue;
        assert_ok(sw_checkpoint_value(c, i, &g, &root, &err), &err);
        assert_ok(sw_value_text(g, root, 200, &text, &err), &err);
        assert_string_equal(text, want);
        free(text);
        sw_value_graph_free(g);
        sw_checkpoint_close(c);
        return;
    }
    fail_msg("no value %s", name);
}

/* ---- views ----------------------------------------------------------------------------------- */

static void say_views(torch_world *w)
{
    float data[12];
    for (int i = 0; i < 12; i++)
        data[i] = (float)i;
    size_t s = torch_storage(w, "FloatStorage", 4, data, sizeof data);
    torch_say(w, "} (");
    torch_key(w, "whole");
    torch_view(w, s, 0, 2, (const int64_t[]){3, 4}, (const int64_t[]){4, 1});
    torch_key(w, "same");
    torch_view(w, s, 0, 2, (const int64_t[]){3, 4}, (const int64_t[]){4, 1});
    torch_key(w, "part");
    torch_view(w, s, 5, 1, (const int64_t[]){3}, (const int64_t[]){1});
    torch_key(w, "turned");
    torch_view(w, s, 0, 2, (const int64_t[]){4, 3}, (const int64_t[]){1, 4});
    torch_key(w, "spread");
    torch_view(w, s, 2, 2, (const int64_t[]){2, 3}, (const int64_t[]){0, 1});
    torch_key(w, "none");
    torch_view(w, s, 0, 2, (const int64_t[]){0, 7}, (const int64_t[]){7, 1});
    torch_say(w, "u");
}

/* Views, transposes and expanded tensors, in both forms; the same view is an alias (O10, G1). */
static void test_views(void **state)
{
    static const float part[] = {5, 6, 7}, spread[] = {2, 3, 4, 2, 3, 4};
    static const float turned[] = {0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11};
    for (int legacy = 0; legacy < 2; legacy++) {
        char *path = harness_path(*state, "views-%d.pt", legacy);
        torch_world *w = torch_begin(legacy == 1);
        say_views(w);
        if (legacy)
            torch_write_legacy(w, path);
        else
            torch_write_zip(w, path, NULL);
        torch_free(w);
        assert_ramp(path, "whole", 2, (const int64_t[]){3, 4}, 0);
        assert_ramp(path, "same", 2, (const int64_t[]){3, 4}, 0);
        expect_floats(path, "part", 1, (const int64_t[]){3}, part);
        expect_floats(path, "turned", 2, (const int64_t[]){4, 3}, turned);
        expect_floats(path, "spread", 2, two_three, spread);
        sw_checkpoint *c = open_good(path);
        const sw_catalog *catalog = sw_checkpoint_catalog(c);
        sw_tensor_info info;
        sw_catalog_tensor(catalog, (size_t)sw_catalog_find(catalog, "same"), &info);
        assert_int_equal(info.alias_of, sw_catalog_find(catalog, "whole"));
        sw_catalog_tensor(catalog, (size_t)sw_catalog_find(catalog, "part"), &info);
        assert_int_equal(info.alias_of, -1);
        sw_catalog_tensor(catalog, (size_t)sw_catalog_find(catalog, "none"), &info);
        assert_int_equal(info.elements, 0);
        sw_checkpoint_close(c);
        outcome o;
        run_convert(path, harness_path(*state, "out-%d", legacy), NULL, &o);
        assert_fine(&o);
        outcome_free(&o);
        expect_floats(harness_path(*state, "out-%d", legacy), "turned", 2, (const int64_t[]){4, 3},
                      turned);
    }
}

/* T1: big-endian storages, swapped by the element, complex ones by the half. */
static void test_big_endian(void **state)
{
    static const uint8_t floats[] = {0x3f, 0x80, 0, 0, 0x40, 0, 0, 0};
    static const uint8_t complex[] = {0x3f, 0x80, 0, 0, 0x40, 0x40, 0, 0};
    const int64_t one[] = {1};
    torch_world *w = torch_begin(false);
    torch_say(w, "} (");
    size_t s = torch_storage(w, "FloatStorage", 4, floats, sizeof floats);
    torch_key(w, "f");
    torch_view(w, s, 0, 1, (const int64_t[]){2}, one);
    s = torch_storage(w, "ComplexFloatStorage", 8, complex, sizeof complex);
    torch_key(w, "c");
    torch_view(w, s, 0, 1, one, one);
    torch_say(w, "u");
    char *path = in(state, "big.pt");
    torch_write_zip(w, path, &(torch_file_options){.byteorder = "big"});
    assert_ramp(path, "f", 1, (const int64_t[]){2}, 1);
    sw_checkpoint *c = open_good(path);
    float pair[2];
    sw_error err = {0};
    assert_ok(sw_checkpoint_read(c, 1, 0, 1, pair, &err), &err);
    assert_true(pair[0] == 1.0F && pair[1] == 3.0F);
    sw_checkpoint_close(c);
    /* an unknown word is refused (P7) */
    torch_write_zip(w, path, &(torch_file_options){.byteorder = "middle"});
    expect_error(path, SW_ERR_CORRUPT, "byteorder is middle");
    torch_free(w);
}

/* ---- names and values ------------------------------------------------------------------------ */

#define MODULE "M:collections/OrderedDict ) R "

static void test_names_of_a_training_checkpoint(void **state)
{
    torch_world *w = torch_begin(false);
    torch_say(w, "} ( 'model' " MODULE "(");
    torch_ramp(w, "module.l.weight", 2, two_three, 0);
    torch_say(w, "u 'optimizer' } ( 'state' } ( 0 } (");
    torch_ramp(w, "exp_avg", 2, two_three, 50);
    torch_say(w, "'step' 7 u u 'param_groups' ] } ( 'lr' 0.5f 'betas' 0.5f 0.25f tuple2 'params' ] "
                 "0 a u a u 'epoch' 3 'args' M:argparse/Namespace ) new } 'lr' 1 s b "
                 "'none' N 'list' ] ( 1 2 e 'states' ] (");
    torch_ramp(w, NULL, 1, (const int64_t[]){3}, 80);
    torch_say(w, "4 e u");
    char *path = in(state, "ckpt.pt");
    torch_write_zip(w, path, NULL);
    torch_free(w);
    assert_ramp(path, "model.module.l.weight", 2, two_three, 0);
    assert_ramp(path, "optimizer.state.0.exp_avg", 2, two_three, 50);
    assert_ramp(path, "states.0", 1, (const int64_t[]){3}, 80);
    expect_named(path, "optimizer.state.0.step", "7");
    expect_named(path, "optimizer.param_groups.0.betas", "(0.5, 0.25)");
    expect_named(path, "optimizer.param_groups.0.params", "[0]");
    expect_named(path, "epoch", "3");
    expect_named(path, "args", "<argparse.Namespace state {\"lr\": 1}>");
    expect_named(path, "none", "None");
    expect_named(path, "list", "[1, 2]");
    expect_named(path, "states.1", "4");
    outcome o;
    run_convert(path, in(state, "out"), NULL, &o);
    assert_fine(&o);
    assert_int_equal(o.converted.optimizer_tensors, 1);
    assert_int_equal(o.converted.tensors, 1);
    outcome_free(&o);
    assert_ramp(in(state, "out"), "l.weight", 2, two_three, 0);
}

/* A module that was saved whole gives the names of its state dict. */
static void test_whole_module(void **state)
{
    torch_world *w = torch_begin(false);
    torch_say(w, "M:my.code/Net ) new } ( 'training' true '_parameters' } '_buffers' } '_modules' "
                 "} ( 'layers' M:torch.nn/ModuleList ) new } ( '_parameters' } '_modules' } ( '0' "
                 "M:torch.nn/Linear ) new } ( 'in' 3 '_parameters' } (");
    torch_ramp(w, "weight", 2, two_three, 4);
    torch_say(w, "u '_modules' } u b u u b u u b");
    char *path = in(state, "net.pt");
    torch_write_zip(w, path, NULL);
    assert_ramp(path, "layers.0.weight", 2, two_three, 4);
    sw_checkpoint *c = open_good(path);
    const char *section, *name;
    sw_checkpoint_split_name(c, 0, &section, &name);
    assert_string_equal(section, "");
    assert_string_equal(name, "layers.0.weight");
    assert_int_equal(sw_catalog_value_count(sw_checkpoint_catalog(c)), 0);
    sw_checkpoint_close(c);
    torch_free(w);
}

static void test_state_is_what_was_saved(void **state)
{
    torch_world *w = torch_begin(false);
    sw_error err = {0};
    torch_say(w, "} ( 'step' 5 'model' } (");
    torch_ramp(w, "a", 2, two_three, 0);
    torch_say(w, "u u");
    char *path = in(state, "s.pt");
    torch_write_zip(w, path, NULL);
    torch_free(w);
    sw_checkpoint *c = open_good(path);
    swi_state s;
    sw_value v;
    uint32_t index;
    int64_t step;
    assert_ok(swi_checkpoint_state(c, &s, &err), &err);
    assert_true(s.ordered);
    assert_true(swi_state_find(&s, (const char *[]){"step"}, 1, &v));
    assert_true(sw_value_int(s.graph, v, &step) && step == 5);
    assert_true(swi_state_find(&s, (const char *[]){"model", "a"}, 2, &v));
    assert_true(sw_value_tensor(s.graph, v, &index));
    assert_int_equal(index, sw_catalog_find(sw_checkpoint_catalog(c), "model.a"));
    swi_state_free(&s);
    sw_checkpoint_close(c);
}

/* Containers that hold themselves and each other over and over end. */
static void test_cycles(void **state)
{
    torch_world *w = torch_begin(false);
    torch_say(w, "} put:0 ( 'self' get:0 'l' ] put:1 ( get:1 get:0 e");
    torch_ramp(w, "w", 2, two_three, 0);
    torch_say(w, "u");
    char *path = in(state, "cycle.pt");
    torch_write_zip(w, path, NULL);
    torch_free(w);
    assert_ramp(path, "w", 2, two_three, 0);
    /* 2^40 paths to one tensor */
    w = torch_begin(false);
    torch_say(w, "( } ");
    torch_ramp(w, "t", 2, two_three, 0);
    torch_say(w, "s put:0");
    for (int i = 1; i <= 40; i++) {
        char text[80];
        snprintf(text, sizeof text, "} ( 'a' get:%d 'b' get:%d u put:%d", i - 1, i - 1, i);
        torch_say(w, text);
    }
    torch_say(w, "t");
    torch_write_zip(w, path, NULL);
    torch_free(w);
    sw_checkpoint *c = NULL;
    sw_error err = {0};
    assert_int_equal(sw_checkpoint_open(path, NULL, NULL, &c, &err), SW_ERR_LIMIT);
    assert_error(&err, SW_ERR_LIMIT, "they unfold into more than any genuine file holds");
}

/* ---- what is no plain tensor ------------------------------------------------------------------
 */

static void test_opaque_tensors(void **state)
{
    torch_world *w = torch_begin(false);
    torch_say(w, "} (");
    torch_ramp(w, "w", 2, two_three, 0);
    torch_say(w, "'meta' M:torch._utils/_rebuild_meta_tensor_no_storage ( M:torch/float32 3 tuple1 "
                 "1 tuple1 false t R 'sparse' M:torch._utils/_rebuild_sparse_tensor 'coo' ");
    torch_ramp(w, NULL, 1, (const int64_t[]){3}, 0);
    torch_say(w, "tuple2 R u");
    char *path = in(state, "odd.pt");
    torch_write_zip(w, path, NULL);
    torch_free(w);
    outcome o;
    run_verify(path, &o);
    assert_fine(&o);
    assert_found(&o, SW_WARNING, "opaque-tensor", "odd.pt", "meta", "_rebuild_meta_tensor");
    assert_found(&o, SW_WARNING, "opaque-tensor", "odd.pt", "sparse", "_rebuild_sparse_tensor");
    assert_int_equal(o.verified.tensors, 1);
    assert_int_equal(o.verified.values, 2);
    outcome_free(&o);
    /* weights without them are a part of what was saved */
    run_convert(path, in(state, "weights"), NULL, &o);
    assert_fine(&o);
    assert_true(o.converted.incomplete);
    outcome_free(&o);
}

static void test_a_tensor_outside_its_storage(void **state)
{
    torch_world *w = torch_begin(false);
    float four[4] = {0};
    torch_say(w, "} (");
    torch_ramp(w, "w", 2, two_three, 0);
    size_t s = torch_storage(w, "FloatStorage", 4, four, sizeof four);
    torch_key(w, "long");
    torch_view(w, s, 1, 1, (const int64_t[]){4}, (const int64_t[]){1});
    torch_say(w, "u");
    char *path = in(state, "long.pt");
    torch_write_zip(w, path, NULL);
    torch_free(w);
    outcome o;
    run_verify(path, &o);
    assert_found(&o, SW_DEFECT, "bad-tensor", "long.pt", "long", "reaches to element 4");
    outcome_free(&o);
    assert_refuses(path, in(state, "out"), NULL, SW_ERR_CORRUPT, "reaches to element 4");
}

/* N1: named, refused, and the tensors to be had all the same. */
static void test_unsafe(void **state)
{
    for (int legacy = 0; legacy < 2; legacy++) {
        torch_world *w = torch_begin(legacy == 1);
        torch_say(w, "} (");
        torch_ramp(w, "w", 2, two_three, 0);
        torch_say(w, "'x' M:os/system 'true' tuple1 R u");
        char *path = harness_path(*state, "evil-%d.pt", legacy);
        if (legacy)
            torch_write_legacy(w, path);
        else
            torch_write_zip(w, path, NULL);
        torch_free(w);
        outcome o;
        run_verify(path, &o);
        assert_int_equal(o.status, SW_OK);
        assert_found(&o, SW_DANGER, "unsafe-pickle", NULL, NULL, "os.system");
        assert_int_equal(sw_report_total(o.report, SW_DANGER), 1);
        outcome_free(&o);
        char *dest = harness_path(*state, "out-%d", legacy);
        assert_refuses(path, dest, NULL, SW_ERR_UNSAFE, "os.system");
        run_convert(path, dest, &(sw_convert_options){.to = "hf", .drop_unsafe = true}, &o);
        assert_int_equal(o.status, SW_OK);
        outcome_free(&o);
        assert_ramp(dest, "w", 2, two_three, 0);
        sw_checkpoint *c = open_good(path);
        swi_state s;
        sw_error err = {0};
        assert_int_equal(swi_checkpoint_state(c, &s, &err), SW_ERR_UNSAFE);
        sw_checkpoint_close(c);
    }
}

/* ---- damage -----------------------------------------------------------------------------------
 */

/* P3: read, counted as unchecked, no defect; storages alone without CRC are a warning. */
static void test_without_crc(void **state)
{
    torch_world *w = small(false);
    char *path = in(state, "bare.pt");
    torch_write_zip(w, path, &(torch_file_options){.no_crc = true});
    outcome o;
    run_verify(path, &o);
    assert_fine(&o);
    assert_true(o.verified.nothing_to_check);
    assert_true(o.verified.tally.unchecked_bytes >= 36);
    assert_int_equal(sw_report_count(o.report), 0);
    outcome_free(&o);
    assert_ramp(path, "w", 2, two_three, 0);
    torch_write_zip(w, path, &(torch_file_options){.skip_data = true});
    run_verify(path, &o);
    assert_fine(&o);
    assert_found(&o, SW_WARNING, "crc-missing", "bare.pt", NULL, "2 storages have no CRC-32");
    assert_int_equal(o.verified.tally.unchecked_bytes, 36);
    outcome_free(&o);
    torch_free(w);
}

/* P2: a flipped bit in a storage is named with the tensor, and stops a conversion. */
static void test_flipped_storage(void **state)
{
    char *path = in(state, "flip.pt");
    write_small(path);
    size_t size;
    uint8_t *data = harness_read(path, &size);
    static const float ten = 10;
    size_t at = 0;
    while (at + 4 <= size && (memcmp(data + at, &ten, 4) != 0 || at % 64 != 0))
        at++;
    free(data);
    harness_flip_bit(path, 8 * at + 3);
    outcome o;
    run_verify(path, &o);
    const sw_finding *f = assert_found(&o, SW_DEFECT, "crc-mismatch", "flip.pt", "b", "CRC-32");
    assert_int_equal(f->offset_bytes, at);
    outcome_free(&o);
    assert_refuses(path, in(state, "out"), NULL, SW_ERR_CORRUPT, "CRC-32");
}

/* P1: cut in the directory, in a storage, behind the first header. */
static void test_cut_archives(void **state)
{
    char *path = in(state, "cut.pt");
    write_small(path);
    uint64_t size = harness_file_size(path);
    const uint64_t cuts[] = {size - 30, size / 2, 60};
    for (size_t i = 0; i < 3; i++) {
        write_small(path);
        harness_truncate(path, cuts[i]);
        expect_error(path, SW_ERR_CORRUPT, "cut.pt: ");
        outcome o;
        run_verify(path, &o);
        assert_int_equal(o.status, SW_OK);
        assert_true(bad_findings(&o) > 0);
        outcome_free(&o);
    }
}

static void test_broken_streams(void **state)
{
    char *path = in(state, "old.pt");
    torch_world *w = small(true);
    torch_write_legacy(w, path);
    uint64_t size = harness_file_size(path);
    harness_truncate(path, size - 1);
    expect_error(path, SW_ERR_CORRUPT, "the file is cut: storage 1 needs 12 bytes");
    torch_write_legacy(w, path);
    harness_truncate(path, 100);
    expect_error(path, SW_ERR_FORMAT, "the object: ");
    torch_write_legacy(w, path);
    harness_truncate(path, size + 4);
    outcome o;
    run_verify(path, &o);
    assert_found(&o, SW_DEFECT, "long-file", "old.pt", NULL, "4 bytes follow its last storage");
    outcome_free(&o);
    torch_free(w);
}

/* ---- where it is found ------------------------------------------------------------------------
 */

static void expect_framework(const char *path, const char *framework)
{
    sw_checkpoint *c = open_good(path);
    assert_string_equal(sw_checkpoint_framework(c), framework);
    sw_checkpoint_close(c);
}

static void test_beside_other_checkpoints(void **state)
{
    make_demo(in(state, "dcp"));
    write_small(in(state, "dcp/rng_state.pt"));
    expect_framework(in(state, "dcp"), "dcp");
    expect_framework(in(state, "dcp/rng_state.pt"), "torch");
    write_st_one(in(state, "hf/model.safetensors"), "w", 2, 3, 0);
    write_small(in(state, "hf/optimizer.pt"));
    write_small(in(state, "hf/pytorch_model.bin"));
    expect_framework(in(state, "hf"), "hf");
    expect_framework(in(state, "hf/optimizer.pt"), "torch");
    /* remains of a DCP folder stay remains */
    harness_remove(in(state, "dcp/.metadata"));
    expect_error(in(state, "dcp"), SW_ERR_INCOMPLETE, ".metadata is missing");
}

static void test_one_file_in_a_folder(void **state)
{
    write_small(in(state, "run/model.pt"));
    harness_write_text(in(state, "run/log.txt"), "epoch 1\n");
    expect_framework(in(state, "run"), "torch");
    expect_framework(*state, "torch"); /* one level too high */
    write_small(in(state, "run/other.pth"));
    expect_error(in(state, "run"), SW_ERR_CONFLICT, "(model.pt, other.pth); name one of them");
    outcome o; /* no checkpoint was judged, as when one is converted */
    run_verify(in(state, "run"), &o);
    assert_run_refused(&o, SW_ERR_CONFLICT, "name one of them", NULL);
    assert_int_equal(bad_findings(&o), 0);
    outcome_free(&o);
    /* a model's own name settles it */
    write_small(in(state, "run/pytorch_model.bin"));
    expect_framework(in(state, "run"), "torch");
    /* content counts, not the name */
    assert_int_equal(rename(in(state, "run/model.pt"), in(state, "plain")), 0);
    expect_framework(in(state, "plain"), "torch");
}

static void test_not_torch(void **state)
{
    harness_write_text(in(state, "a/page.pt"), "<!DOCTYPE html><html></html>\n");
    expect_error(in(state, "a/page.pt"), SW_ERR_FORMAT, "it is an HTML or XML page");
    expect_error(in(state, "a"), SW_ERR_FORMAT, "it is an HTML or XML page");
    harness_write_text(in(state, "b/notes.bin"), "no weights\n");
    expect_error(in(state, "b/notes.bin"), SW_ERR_FORMAT, "no checkpoint of a known kind");
    uint8_t tar[1024] = "sys_info";
    memcpy(tar + 257, "ustar", 5);
    harness_write(in(state, "c/old.tar"), tar, sizeof tar);
    expect_error(in(state, "c/old.tar"), SW_ERR_UNSUPPORTED, "a tar file");
    swi_buf out = {0};
    recipe_archive(&out, (const recipe_record[]){{"a/constants.pkl", "x", 1, false},
                                                 {"a/data.pkl", "x", 1, false},
                                                 {NULL, NULL, 0, false}});
    harness_write(in(state, "d/script.pt"), out.data, out.size);
    swi_buf_free(&out);
    expect_error(in(state, "d/script.pt"), SW_ERR_UNSUPPORTED, "a TorchScript archive");
}

/* ---- shards of a model -------------------------------------------------------------------------
 */

static void write_shard(const char *dir, int number, const char *name, float base)
{
    torch_world *w = torch_begin(false);
    torch_say(w, MODULE "(");
    torch_ramp(w, name, 2, two_three, base);
    torch_say(w, "u");
    torch_write_zip(w, harness_path(dir, "pytorch_model-%05d-of-00002.bin", number), NULL);
    torch_free(w);
}

#define INDEX                                                                                      \
    "{\"metadata\":{\"total_size\":48},\"weight_map\":{"                                           \
    "\"a\":\"pytorch_model-00001-of-00002.bin\",\"b\":\"pytorch_model-00002-of-00002.bin\"}}"

static void test_shards(void **state)
{
    char *dir = in(state, "model");
    write_shard(dir, 1, "a", 0);
    write_shard(dir, 2, "b", 30);
    outcome o;
    run_verify(dir, &o);
    assert_fine(&o);
    assert_found(&o, SW_WARNING, "no-index", "pytorch_model.bin.index.json", NULL, "it is not");
    outcome_free(&o);
    harness_write_text(harness_path(dir, "pytorch_model.bin.index.json"), INDEX);
    run_verify(dir, &o);
    assert_fine(&o);
    assert_int_equal(sw_report_count(o.report), 0);
    outcome_free(&o);
    run_convert(dir, in(state, "out"), NULL, &o);
    assert_fine(&o);
    outcome_free(&o);
    assert_ramp(in(state, "out"), "b", 2, two_three, 30);
    /* a shard by its own name stands for all */
    assert_ramp(harness_path(dir, "pytorch_model-00002-of-00002.bin"), "a", 2, two_three, 0);
    sw_checkpoint *c = open_good(dir);
    swi_state s;
    sw_value v;
    sw_error err = {0};
    assert_ok(swi_checkpoint_state(c, &s, &err), &err);
    assert_true(swi_state_find(&s, (const char *[]){"a"}, 1, &v));
    assert_true(swi_state_find(&s, (const char *[]){"b"}, 1, &v));
    swi_state_free(&s);
    sw_checkpoint_close(c);
}

static void test_damaged_shards(void **state)
{
    char *dir = in(state, "model");
    outcome o;
    write_shard(dir, 1, "a", 0);
    write_shard(dir, 2, "a", 30);
    run_verify(dir, &o);
    assert_found(&o, SW_DEFECT, "duplicate-tensor", "pytorch_model-00002-of-00002.bin", "a",
                 "also in pytorch_model-00001-of-00002.bin");
    outcome_free(&o);
    write_shard(dir, 2, "c", 30);
    harness_write_text(harness_path(dir, "pytorch_model.bin.index.json"), INDEX);
    run_verify(dir, &o);
    assert_found(&o, SW_DEFECT, "missing-tensor", "pytorch_model-00002-of-00002.bin", "b", "index");
    assert_found(&o, SW_DEFECT, "unlisted-tensor", "pytorch_model-00002-of-00002.bin", "c",
                 "index");
    outcome_free(&o);
    harness_write_text(harness_path(dir, "pytorch_model-00002-of-00002.bin"), "");
    run_verify(dir, &o);
    assert_found(&o, SW_DEFECT, "unreadable-file", "pytorch_model-00002-of-00002.bin", NULL,
                 "an empty file");
    outcome_free(&o);
    harness_remove(harness_path(dir, "pytorch_model-00002-of-00002.bin"));
    run_verify(dir, &o);
    assert_found(&o, SW_DEFECT, "missing-file", "pytorch_model-00002-of-00002.bin", NULL, "index");
    outcome_free(&o);
    assert_refuses(dir, in(state, "out"), NULL, SW_ERR_INCOMPLETE, "00002-of-00002");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        test_in_dir(test_views),
        test_in_dir(test_big_endian),
        test_in_dir(test_names_of_a_training_checkpoint),
        test_in_dir(test_whole_module),
        test_in_dir(test_state_is_what_was_saved),
        test_in_dir(test_cycles),
        test_in_dir(test_opaque_tensors),
        test_in_dir(test_a_tensor_outside_its_storage),
        test_in_dir(test_unsafe),
        test_in_dir(test_without_crc),
        test_in_dir(test_flipped_storage),
        test_in_dir(test_cut_archives),
        test_in_dir(test_broken_streams),
        test_in_dir(test_beside_other_checkpoints),
        test_in_dir(test_one_file_in_a_folder),
        test_in_dir(test_not_torch),
        test_in_dir(test_shards),
        test_in_dir(test_damaged_shards),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
