/* Files of ranks as a target (specs/rank_files.md, RF-20 to RF-26): whole commands on the sample.
 */
#include "convert/rank_fixture.h"

#include "format/mem_reader.h"
#include "model/value.h"
#include "torch/torch.h"
#include "torch/torch_values.h"

/* The sample's optimizer has no groups, so its parameters have no numbers. */
#define BY_NAME(options) "fsdp2:" options ",files=ranks,optimizer=nested"

#define GRID                                                                                       \
    "layout: 1\nmesh: {dp: 2, tp: 2}\nrules:\n"                                                    \
    "  - {tensor: '**.up.weight', dims: [tp>dp]}\n"                                                \
    "  - {tensor: '**.down.weight', dims: [dp, tp]}\n"                                             \
    "  - {tensor: 'norm.weight', dims: [_]}\n"                                                     \
    "  - {tensor: '**', dims: [dp]}\n"

static void convert_to(const char *from, const char *to, const char *target, const char *layout)
{
    const sw_convert_options options = {.to = target, .layout = layout, .verify = true};
    outcome o;
    run_convert(from, to, &options, &o);
    assert_fine(&o);
    assert_int_equal(o.converted.verified_tensors, o.converted.tensors);
    outcome_free(&o);
    run_verify(to, &o);
    assert_fine(&o);
    assert_int_equal(o.verified.tally.unchecked_bytes, 0);
    outcome_free(&o);
}

static void assert_same(const char *left, const char *right)
{
    sw_checkpoint *a = open_good(left), *b = open_good(right);
    sw_tensor_info x, y;
    const sw_catalog *of_a = sw_checkpoint_catalog(a);
    assert_int_equal(sw_catalog_tensor_count(of_a),
                     sw_catalog_tensor_count(sw_checkpoint_catalog(b)));
    for (size_t i = 0; sw_catalog_tensor(of_a, i, &x); i++) {
        float *p = read_floats(a, x.name, &x), *q = read_floats(b, x.name, &y);
        assert_int_equal(x.axes, y.axes);
        assert_int_equal(x.elements, y.elements);
        assert_memory_equal(p, q, x.elements * sizeof *p);
        free(p);
        free(q);
    }
    sw_checkpoint_close(a);
    sw_checkpoint_close(b);
}

/* ---- one file ------------------------------------------------------------------------------- */

typedef struct opened {
    uint8_t *data;
    mem_reader reader;
    swi_torch_file *tf;
    swi_torch_object object;
} opened;

static void open_file(const char *path, opened *o)
{
    sw_error err = {0};
    size_t size;
    *o = (opened){.data = harness_read(path, &size)};
    mem_reader_init(&o->reader, o->data, size);
    assert_ok(swi_torch_open(&o->reader.pub, 0, 0, size, &o->tf, &err), &err);
    assert_ok(swi_torch_object_make(o->tf, &o->reader.pub, true, &o->object, &err), &err);
    assert_int_equal(o->object.opaque_count, 0);
}

static void close_file(opened *o)
{
    swi_torch_object_free(&o->object);
    swi_torch_free(o->tf);
    mem_reader_end(&o->reader);
    free(o->data);
}

static const swi_torch_tensor *tensor_at(const opened *o, const char *key, const swi_share **share)
{
    sw_value v;
    uint32_t number;
    assert_true(swi_value_get(o->object.graph, o->object.root, key, &v));
    assert_true(sw_value_tensor(o->object.graph, v, &number));
    *share = swi_torch_share_of(&o->object, number);
    return &o->object.tensors[number];
}

/* Its storage is exactly what it has. */
static void assert_own_storage(const opened *o, const swi_torch_tensor *t)
{
    assert_int_equal(t->start_elements, 0);
    assert_int_equal(swi_torch_storage_at(o->tf, t->storage)->bytes,
                     t->elements * sw_dtype_bytes(t->dtype));
}

/* ---- tests ---------------------------------------------------------------------------------- */

static void test_any_number_of_ranks(void **state)
{
    static const char *const targets[] = {BY_NAME("dp=1"), BY_NAME("dp=3"), BY_NAME("ranks=101"),
                                          BY_NAME("dp=2,replicate=3,device=cpu,mesh=none")};
    char *demo = harness_path(*state, "demo");
    make_demo(demo);
    for (size_t i = 0; i < sizeof targets / sizeof targets[0]; i++) {
        char *to = harness_path(*state, "to-%zu", i), *back = harness_path(*state, "back-%zu", i);
        convert_to(demo, to, targets[i], NULL);
        assert_same(demo, to);
        convert_to(to, back, "dcp:ranks=2", NULL);
        assert_same(demo, back);
    }
}

/* RF-21, RF-24 */
static void test_files(void **state)
{
    char *demo = harness_path(*state, "demo"), *to = harness_path(*state, "to");
    char *assets = harness_path(*state, "assets");
    size_t size;
    outcome o;
    make_demo(demo);
    harness_write_text(harness_path(assets, "config.json"), "{}\n");
    const sw_convert_options options = {.to = BY_NAME("dp=2"), .assets = assets};
    run_convert(demo, to, &options, &o);
    assert_fine(&o);
    outcome_free(&o);
    static const char *const names[] = {"extra_state_world_size_2_rank_0.pt",
                                        "extra_state_world_size_2_rank_1.pt",
                                        "fsdp_config.json",
                                        "model_world_size_2_rank_0.pt",
                                        "model_world_size_2_rank_1.pt",
                                        "optim_world_size_2_rank_0.pt",
                                        "optim_world_size_2_rank_1.pt"};
    folder_files files = list_files(to);
    assert_int_equal(files.count, sizeof names / sizeof names[0]);
    for (size_t i = 0; i < files.count; i++)
        assert_string_equal(files.names[i], names[i]);
    assert_true(harness_exists(harness_path(to, "huggingface/config.json")));
    char *config = (char *)harness_read(harness_path(to, "fsdp_config.json"), &size);
    const char *expected = "{\n    \"FSDP_version\": 2,\n    \"world_size\": 2\n}";
    assert_int_equal(size, strlen(expected));
    assert_memory_equal(config, expected, size);
    free(config);
}

/* RF-20, RF-22: a mesh of rows. */
static void test_rows(void **state)
{
    char *demo = harness_path(*state, "demo"), *to = harness_path(*state, "to");
    const swi_share *share;
    opened o;
    make_demo(demo);
    convert_to(demo, to, BY_NAME("dp=4,replicate=2"), NULL);
    open_file(harness_path(to, "model_world_size_8_rank_7.pt"), &o);
    assert_int_equal(o.object.rank, 7);
    assert_int_equal(o.object.meshes.count, 1);
    const swi_torch_tensor *t = tensor_at(&o, "norm.weight", &share);
    assert_non_null(share);
    const swi_mesh *mesh = swi_mesh_of(&o.object.meshes, share);
    assert_int_equal(mesh->axes, 2);
    assert_int_equal(mesh->size[0], 2);
    assert_int_equal(mesh->size[1], 4);
    assert_string_equal(mesh->name[0], "ddp");
    assert_string_equal(mesh->name[1], "fsdp");
    assert_int_equal(share->placements.at[0].kind, SWI_REPLICATE);
    assert_int_equal(share->placements.at[1].kind, SWI_SHARD);
    assert_int_equal(share->shape[0], 3);
    assert_int_equal(t->elements, 0); /* of three rows the fourth rank has none */
    assert_own_storage(&o, t);
    t = tensor_at(&o, "embedding.weight", &share);
    assert_int_equal(t->shape[0], 250 - 3 * 63);
    assert_int_equal(t->shape[1], 48);
    assert_own_storage(&o, t);
    close_file(&o);
}

/* RF-22, RF-23: a later axis that splits first; a rule that splits nothing. */
static void test_grid(void **state)
{
    char *demo = harness_path(*state, "demo"), *to = harness_path(*state, "to");
    char *layout = harness_path(*state, "layout.yaml"), *back = harness_path(*state, "back");
    const swi_share *share;
    opened o;
    make_demo(demo);
    harness_write_text(layout, GRID);
    convert_to(demo, to, BY_NAME("dp=2,tp=2"), layout);
    assert_same(demo, to);
    convert_to(to, back, "dcp:ranks=3", NULL);
    assert_same(demo, back);
    open_file(harness_path(to, "model_world_size_4_rank_1.pt"), &o);
    const swi_torch_tensor *t = tensor_at(&o, "layers.0.up.weight", &share);
    assert_int_equal(t->shape[0], 25);
    assert_int_equal(share->placements.at[0].kind, SWI_STRIDED_SHARD);
    assert_int_equal(share->placements.at[0].split_factor, 2);
    assert_int_equal(share->placements.at[1].kind, SWI_SHARD);
    assert_string_equal(swi_mesh_of(&o.object.meshes, share)->name[1], "tp");
    t = tensor_at(&o, "layers.0.down.weight", &share);
    assert_int_equal(t->shape[0], 24);
    assert_int_equal(t->shape[1], 50);
    assert_int_equal(share->placements.at[0].kind, SWI_SHARD);
    assert_int_equal(share->placements.at[1].dim, 1);
    t = tensor_at(&o, "layers.0.norm.weight", &share);
    assert_int_equal(share->placements.at[1].kind, SWI_REPLICATE);
    t = tensor_at(&o, "norm.weight", &share);
    assert_null(share);
    assert_int_equal(t->shape[0], 3);
    close_file(&o);
}

/* RF-23, RF-25: tied tensors and integers. */
static void test_tied_and_buffers(void **state)
{
    static const int64_t shape[] = {4, 2}, five[] = {5};
    char *from = harness_path(*state, "from/model.pt"), *to = harness_path(*state, "to");
    const swi_share *share;
    opened o;
    torch_world *w = torch_begin(false);
    torch_say(w, "} ( 'model' } (");
    torch_ramp(w, "tok.weight", 2, shape, 0);
    torch_key(w, "head.weight");
    torch_view(w, 0, 0, 2, shape, (int64_t[]){2, 1});
    torch_key(w, "steps");
    const size_t longs = torch_storage(w, "LongStorage", 8, (int64_t[]){1, 2, 3, 4, 5}, 40);
    torch_view(w, longs, 0, 1, five, (int64_t[]){1});
    torch_say(w, "u u");
    torch_write_zip(w, from, NULL);
    torch_free(w);
    convert_to(from, to, "fsdp2:dp=2,files=ranks", NULL);
    open_file(harness_path(to, "model_world_size_2_rank_1.pt"), &o);
    const uint32_t storage = tensor_at(&o, "tok.weight", &share)->storage;
    assert_non_null(share);
    assert_int_equal(tensor_at(&o, "head.weight", &share)->storage, storage);
    assert_non_null(share);
    assert_int_equal(tensor_at(&o, "steps", &share)->shape[0], 5);
    assert_null(share);
    assert_int_equal(swi_torch_storage_count(o.tf), 3); /* and that of the mesh */
    close_file(&o);
}

/* RF-21: by number, with names. */
static void test_optimizer(void **state)
{
    static const int64_t shape[] = {4, 2};
    char *from = harness_path(*state, "from/all.pt"), *to = harness_path(*state, "to");
    char *named = harness_path(*state, "named");
    opened o;
    sw_value v;
    torch_world *w = torch_begin(false);
    torch_say(w, "} ( 'model' } (");
    torch_ramp(w, "a", 2, shape, 0);
    torch_ramp(w, "b", 2, shape, 8);
    torch_say(w, "u 'optimizer' } ( 'state' } ( 'b' } (");
    torch_ramp(w, "exp_avg", 2, shape, 16);
    torch_say(w, "u u 'param_groups' ] ( } ( 'lr' 1 'params' ] ( 'a' 'b' e u e u u");
    torch_write_zip(w, from, NULL);
    torch_free(w);
    convert_to(from, to, "fsdp2:dp=2,files=ranks", NULL);
    open_file(harness_path(to, "optim_world_size_2_rank_1.pt"), &o);
    assert_true(swi_value_get(o.object.graph, o.object.root, "param_groups", &v));
    char *text = NULL;
    sw_error err = {0};
    assert_ok(sw_value_text(o.object.graph, v, 4096, &text, &err), &err);
    assert_non_null(strstr(text, "[0, 1]"));
    assert_non_null(strstr(text, "param_names"));
    free(text);
    close_file(&o);
    assert_ramp(to, "optimizer.state.1.exp_avg", 2, shape, 16);
    convert_to(from, named, "fsdp2:dp=2,files=ranks,optimizer=nested", NULL);
    assert_ramp(named, "optimizer.state.b.exp_avg", 2, shape, 16);
}

/* Two ranks that saved different values of one name. */
static void write_ranks(const char *dir)
{
    for (int r = 0; r < 2; r++) {
        int64_t from, part[] = {0};
        torch_world *w = torch_begin(false);
        torch_say(w, "} (");
        rank_rows(4, r, &from, &part[0]);
        rank_ramp(w, "w", 4, part[0], (float)from, r);
        torch_say(w, "u");
        torch_write_zip(w, harness_path(dir, "model_world_size_2_rank_%d.pt", r), NULL);
        torch_free(w);
        w = torch_begin(false);
        torch_say(w, r == 0 ? "} ( 'seed' 11 'both' 7 'in' } ( 'a' 1 u u"
                            : "} ( 'seed' 22 'both' 7 'in' } ( 'a' 2 u u");
        torch_write_zip(w, harness_path(dir, "extra_state_world_size_2_rank_%d.pt", r), NULL);
        torch_free(w);
    }
}

static void assert_values(const char *path, const char *expected)
{
    opened o;
    char *text = NULL;
    sw_error err = {0};
    open_file(path, &o);
    assert_ok(sw_value_text(o.object.graph, o.object.root, 4096, &text, &err), &err);
    assert_string_equal(text, expected);
    free(text);
    close_file(&o);
}

/* RF-24 */
static void test_values_of_ranks(void **state)
{
    char *from = harness_path(*state, "from"), *two = harness_path(*state, "two");
    char *three = harness_path(*state, "three");
    outcome o;
    write_ranks(from);
    convert_to(from, two, "fsdp2:dp=2,files=ranks", NULL);
    assert_values(harness_path(two, "extra_state_world_size_2_rank_0.pt"),
                  "{\"seed\": 11, \"both\": 7, \"in\": {\"a\": 1}}");
    assert_values(harness_path(two, "extra_state_world_size_2_rank_1.pt"),
                  "{\"seed\": 22, \"both\": 7, \"in\": {\"a\": 2}}");
    run_convert(from, three, &(sw_convert_options){.to = "fsdp2:dp=3,files=ranks"}, &o);
    assert_fine(&o);
    assert_found(&o, SW_WARNING, "rank-values", NULL, NULL, "there are 3 ranks now, not 2");
    outcome_free(&o);
    assert_values(harness_path(three, "extra_state_world_size_3_rank_2.pt"),
                  "{\"seed\": 11, \"both\": 7, \"in\": {\"a\": 1}}");
}

/* What a rank has of its own is copied once, not once a value. */
static void test_many_values_of_ranks(void **state)
{
    enum { COUNT = 3000 };
    const sw_limits limits = {.nodes = 200000};
    char *from = harness_path(*state, "from"), *to = harness_path(*state, "to"), word[32];
    outcome o;
    write_ranks(from);
    for (int r = 0; r < 2; r++) {
        torch_world *w = torch_begin(false);
        torch_say(w, "} ( 'list' ] (");
        for (int i = 0; i < COUNT; i++) {
            snprintf(word, sizeof word, "%d", 2 * i + r);
            torch_say(w, word);
        }
        torch_say(w, "e 'dict' } (");
        for (int i = 0; i < COUNT; i++) {
            snprintf(word, sizeof word, "'%d' %d", i, 2 * i + r);
            torch_say(w, word);
        }
        torch_say(w, "u u");
        torch_write_zip(w, harness_path(from, "extra_state_world_size_2_rank_%d.pt", r), NULL);
        torch_free(w);
    }
    run_convert(from, to,
                &(sw_convert_options){.to = "fsdp2:dp=2,files=ranks", .open.limits = &limits}, &o);
    assert_fine(&o);
    outcome_free(&o);
    for (int r = 0; r < 2; r++) {
        const char *const names[] = {"list", "dict"};
        opened at;
        open_file(harness_path(to, "extra_state_world_size_2_rank_%d.pt", r), &at);
        const sw_value_graph *g = at.object.graph;
        for (int n = 0; n < 2; n++) {
            sw_value in, key, v;
            int64_t number;
            assert_true(swi_value_get(g, at.object.root, names[n], &in));
            assert_int_equal(sw_value_size(g, in), COUNT);
            for (size_t i = 0; i < COUNT; i++) {
                assert_true(n == 0 ? sw_value_item(g, in, i, &v)
                                   : sw_value_pair(g, in, i, &key, &v));
                assert_true(sw_value_int(g, v, &number));
                assert_int_equal(number, 2 * (int64_t)i + r);
            }
        }
        close_file(&at);
    }
}

/* The same files for the same input: objects are made twice. */
static void test_same_bytes(void **state)
{
    char *demo = harness_path(*state, "demo");
    char *a = harness_path(*state, "a"), *b = harness_path(*state, "b");
    make_demo(demo);
    convert_to(demo, a, BY_NAME("dp=3"), NULL);
    convert_to(demo, b, BY_NAME("dp=3"), NULL);
    assert_same_folder(a, b);
}

static void test_refusals(void **state)
{
    static const struct {
        const char *to, *layout;
        sw_status status;
        const char *text;
    } cases[] = {
        {"fsdp2:dp=2,files=rank", NULL, SW_ERR_ARG, "did you mean ranks?"},
        {"fsdp2:dp=2,files=x", NULL, SW_ERR_ARG, "there are files=dcp (the usual ones)"},
        {BY_NAME("dp=2,mesh=a+b"), NULL, SW_ERR_ARG, "has 1 axes of more than one rank"},
        {BY_NAME("dp=2,replicate=2,mesh=a"), NULL, SW_ERR_ARG, "has 2 axes"},
        {BY_NAME("dp=2,device="), NULL, SW_ERR_ARG, "device"},
        {BY_NAME("dp=2,part=3"), NULL, SW_ERR_ARG, "part=3"},
        {BY_NAME("dp=5000"), NULL, SW_ERR_LIMIT, "at most 4096"},
        {BY_NAME("dp=2"),
         "layout: 1\nmesh: {dp: 2}\nrules:\n"
         "  - {tensor: '**.up.weight', dims: [dp], parts: [60, 40]}\n"
         "  - {tensor: '**', dims: [dp]}\n",
         SW_ERR_UNSUPPORTED, "up.weight\" is divided as no placements of a DTensor say"},
    };
    char *demo = harness_path(*state, "demo"), *to = harness_path(*state, "to");
    char *layout = harness_path(*state, "layout.yaml");
    make_demo(demo);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        if (cases[i].layout != NULL)
            harness_write_text(layout, cases[i].layout);
        const sw_convert_options options = {.to = cases[i].to,
                                            .layout = cases[i].layout != NULL ? layout : NULL};
        assert_refuses(demo, to, &options, cases[i].status, cases[i].text);
    }
    convert_to(demo, to, "fsdp2:dp=2,files=dcp", NULL);
    assert_true(harness_exists(harness_path(to, ".metadata")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        test_in_dir(test_any_number_of_ranks),
        test_in_dir(test_files),
        test_in_dir(test_rows),
        test_in_dir(test_grid),
        test_in_dir(test_tied_and_buffers),
        test_in_dir(test_optimizer),
        test_in_dir(test_values_of_ranks),
        test_in_dir(test_many_values_of_ranks),
        test_in_dir(test_same_bytes),
        test_in_dir(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
