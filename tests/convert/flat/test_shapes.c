/* Shapes from state dicts, configurations and documents: what is read, in which order, and what is
 * refused where (SHP-n). */
#include "convert/flat/shapes_fixture.h"

/* ---- documents ---------------------------------------------------------------------------------
 */

typedef struct good {
    const char *text, *shown;
} good;

#define LIST "shapes: 1\nparameters:\n- b.w: [3, 2]\n- a.w: [2, 3]\n- a.b: []\n"

static const good documents[] = {
    {LIST, "b.w [3,2]\na.w [2,3]\na.b []\n"},
    {"shapes: 1\nparameters: [{z: [0, 4]}, {'odd: name': [7]}]\n", "z [0,4]\nodd: name [7]\n"},
    {"shapes: 1\ntensors: [{w: [4]}, {m: [4]}, {v: [4]}]\nbuffers: [m, \"{v,x}\"]\n",
     "w [4] maybe\nm [4] buffer\nv [4] buffer\n"},
    {LIST "units: [\"layers.{n}\", b]\nuse_orig_params: false\nalign: 8\n",
     "b.w [3,2]\na.w [2,3]\na.b []\nunits: layers.{n} b\noriginal: 0\nalign: 8\n"},
    {LIST "units: layers.*\nuse_orig_params: true\n",
     "b.w [3,2]\na.w [2,3]\na.b []\nunits: layers.*\noriginal: 1\n"},
    {LIST "units: []\nalign: 1\n", "b.w [3,2]\na.w [2,3]\na.b []\nunits:\nalign: 1\n"},
    /* other names that are in the list, and one that is not */
    {"shapes: 1\nparameters: [{e: [4, 2]}, {w: [2]}, {head: [4, 2]}]\n"
     "ties: {head: e, also: e}\n",
     "e [4,2]\nw [2]\nhead [4,2] = e\nalso [4,2] = e\n"},
    /* wrapper parts go; module. where all have it */
    {"shapes: 1\nparameters: [{module._fsdp_wrapped_module.a: [1]}, {module.b._orig_mod.c: [2]}]\n"
     "ties: {module.d: module.a}\n",
     "a [1]\nb.c [2]\nd [1] = a\n"},
    {"shapes: 1\nparameters: [{module.a: [1]}, {b: [2]}]\n", "module.a [1]\nb [2]\n"},
};

static void documents_are_read_in_order(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof documents / sizeof documents[0]; i++) {
        swi_shapes *s = NULL;
        sw_error err = {0};
        assert_ok(parse(documents[i].text, &s, &err), &err);
        assert_true(s->ordered);
        assert_string_equal(s->from, "s.yaml");
        assert_shows(s, documents[i].shown);
    }
}

typedef struct wrong {
    const char *text;
    sw_status status;
    const char *says;
} wrong;

static const wrong bad_documents[] = {
    {"parameters: [{a: [1]}]\n", SW_ERR_FORMAT,
     "s.yaml:1:1: a document of shapes lacks the key \"shapes\""},
    {"shapes: 2\nparameters: [{a: [1]}]\n", SW_ERR_UNSUPPORTED,
     "s.yaml:1:9: this is version 1 of documents of shapes: shapes: 1 [SHP-5]"},
    {"shapes: \"1\"\n", SW_ERR_FORMAT, "s.yaml:1:9: shapes must be a whole number"},
    {"shapes: 1\nparams: []\n", SW_ERR_FORMAT,
     "s.yaml:2:1: unknown key \"params\" in a document of shapes"},
    {"shapes: 1\n", SW_ERR_FORMAT,
     "s.yaml:1:1: a document of shapes lacks one of the keys parameters, tensors and model"},
    {"shapes: 1\nparameters: [{a: [1]}]\nmodel: x\n", SW_ERR_FORMAT,
     "s.yaml:3:8: parameters and model: a document has one of"},
    {"shapes: 1\nparameters: {a: [1], b: [1]}\n", SW_ERR_FORMAT,
     "s.yaml:2:13: parameters is a mapping, which has no order; make it a list: \"- NAME:"},
    {"shapes: 1\ntensors:\n  a: [1]\n", SW_ERR_FORMAT,
     "s.yaml:3:3: tensors is a mapping, which has no order"},
    {"shapes: 1\nparameters: []\n", SW_ERR_FORMAT, "s.yaml:2:13: parameters is an empty list"},
    {"shapes: 1\nparameters: a\n", SW_ERR_FORMAT, "s.yaml:2:13: parameters must be a list"},
    {"shapes: 1\nparameters: [a]\n", SW_ERR_FORMAT,
     "s.yaml:2:14: each entry is one name with its sizes: \"- NAME: [size, size]\" [SHP-6]"},
    {"shapes: 1\nparameters:\n- a: [1]\n- b: [1]\n  c: [1]\n", SW_ERR_FORMAT,
     "s.yaml:4:3: each entry is one name with its sizes"},
    {"shapes: 1\nparameters:\n- a: [1]\n- a: [2]\n", SW_ERR_CONFLICT,
     "s.yaml:4:3: \"a\" is there twice"},
    {"shapes: 1\nparameters:\n- a: [1]\n- _orig_mod.a: [2]\n", SW_ERR_CONFLICT,
     "s.yaml:4:3: \"a\" is there twice"},
    {"shapes: 1\nparameters:\n- '': [1]\n", SW_ERR_FORMAT, "s.yaml:3:3: a name is empty"},
    {"shapes: 1\nparameters:\n- a: 3\n", SW_ERR_FORMAT, "s.yaml:3:6: the sizes must be a list"},
    {"shapes: 1\nparameters:\n- a: [-1]\n", SW_ERR_FORMAT,
     "s.yaml:3:7: a size must be a whole number, is \"-1\""},
    {"shapes: 1\nparameters:\n- a: [2, '3']\n", SW_ERR_FORMAT, "s.yaml:3:10: a size must be"},
    {"shapes: 1\nparameters:\n- a: [9223372036854775808]\n", SW_ERR_LIMIT, "s.yaml:3:7: a size of"},
    {"shapes: 1\nparameters:\n- a: [4294967296, 4294967296]\n", SW_ERR_LIMIT,
     "s.yaml:3:6: more elements than can be counted"},
    {"shapes: 1\nparameters:\n- a: [1,1,1,1,1,1,1,1,1,1,1]\n", SW_ERR_LIMIT,
     "s.yaml:3:6: 11 dimensions"},
    {"shapes: 1\nmodel: other.pt\n", SW_ERR_UNSUPPORTED, "s.yaml:2:8: a document that is not read"},
    {LIST "ties: [a]\n", SW_ERR_FORMAT, "s.yaml:6:7: ties must be a mapping"},
    {LIST "ties: {x: a.ww}\n", SW_ERR_NOTFOUND,
     "s.yaml:6:11: \"a.ww\" is not there; did you mean \"a.w\"? [SHP-8]"},
    {LIST "ties: {a.w: b.w}\n", SW_ERR_CONFLICT,
     "s.yaml:6:8: \"a.w\" and \"b.w\" have not the same sizes"},
    {LIST "ties: {b.w: a.w}\n", SW_ERR_CONFLICT, "s.yaml:6:8: \"b.w\" comes before \"a.w\""},
    {LIST "ties: {b.w: b.w}\n", SW_ERR_CONFLICT, "s.yaml:6:8: \"b.w\" is \"b.w\""},
    {LIST "ties: {c: b.w, d: c}\n", SW_ERR_CONFLICT,
     "s.yaml:6:19: \"c\" is another name itself, of \"b.w\""},
    {"shapes: 1\nparameters: [{a: [1]}, {b: [1]}, {c: [1]}]\nties: {c: a, _orig_mod.c: b}\n",
     SW_ERR_CONFLICT, "s.yaml:3:14: \"c\" is another name of \"a\" already"},
    {LIST "buffers: ['a.{n}']\n", SW_ERR_NOTFOUND, "s.yaml:6:11: no tensor is called \"a.{n}\""},
    {LIST "buffers: ['a{']\n", SW_ERR_FORMAT, "s.yaml:6:1"},
    {LIST "units: [a, {b: c}]\n", SW_ERR_FORMAT, "s.yaml:6:12: units must be a text"},
    {LIST "units: ['(a']\n", SW_ERR_FORMAT, "s.yaml:6:"},
    {LIST "units: {a: b}\n", SW_ERR_FORMAT, "s.yaml:6:8: units"},
    {LIST "use_orig_params: yes\n", SW_ERR_FORMAT,
     "s.yaml:6:18: use_orig_params must be true or false, is \"yes\""},
    {LIST "align: 0\n", SW_ERR_FORMAT, "s.yaml:6:8: align is a number of elements from 1 to 4096"},
    {LIST "align: 4097\n", SW_ERR_FORMAT, "s.yaml:6:8: align is"},
    {LIST "align: many\n", SW_ERR_FORMAT, "s.yaml:6:8: align must be a whole number"},
    {"shapes: 1\nparameters: &x [{a: [1]}]\n", SW_ERR_UNSUPPORTED, "s.yaml:2:13:"},
};

static void wrong_documents_are_refused_at_the_place(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof bad_documents / sizeof bad_documents[0]; i++) {
        swi_shapes *s = NULL;
        sw_error err = {0};
        sw_status st = parse(bad_documents[i].text, &s, &err);
        if (st != bad_documents[i].status)
            print_error("%s: %s\n", bad_documents[i].text, err.text);
        assert_int_equal(st, bad_documents[i].status);
        assert_error(&err, bad_documents[i].status, bad_documents[i].says);
        assert_null(s);
    }
}

/* ---- state dicts -------------------------------------------------------------------------------
 */

static void state_dicts_have_their_own_order(void **state)
{
    write_module(in(state, "net.pt"), "");
    assert_reads(in(state, "net.pt"), NULL, MODULE);
    write_module(in(state, "odd.name"), "");
    assert_reads(in(state, "odd.name"), NULL, MODULE);
    torch_world *w = torch_begin(true);
    torch_say(w, "} (");
    say_module(w, "");
    torch_say(w, "u");
    torch_write_legacy(w, in(state, "old.bin"));
    assert_reads(in(state, "old.bin"), NULL, MODULE);
    torch_free(w);
}

/* Two of the model are one tensor that another part has too, and has first. */
static void ties_across_parts_are_ties_of_the_model(void **state)
{
    torch_world *w = torch_begin(false);
    static const float data[3] = {1, 2, 3};
    size_t s = torch_storage(w, "FloatStorage", 4, data, sizeof data);
    torch_say(w, "} ( 'ema' } (");
    torch_key(w, "x");
    torch_view(w, s, 0, 1, three, one);
    torch_say(w, "u 'model' } (");
    torch_ramp(w, "first", 1, three, 0);
    torch_key(w, "x");
    torch_view(w, s, 0, 1, three, one);
    torch_key(w, "y");
    torch_view(w, s, 0, 1, three, one);
    torch_say(w, "u u");
    torch_write_zip(w, in(state, "run.pt"), NULL);
    torch_free(w);
    assert_reads(in(state, "run.pt"), NULL, "first [3] maybe\nx [3] maybe\ny [3] maybe = x\n");
}

/* Of a training checkpoint the model alone, however it is wrapped. */
static void the_model_of_a_checkpoint_is_taken(void **state)
{
    torch_world *w = torch_begin(false);
    torch_say(w, "} ( 'ema' } (");
    torch_ramp(w, "z.w", 2, two_three, 0);
    torch_say(w, "u 'optimizer' } ( 'state' } ( 0 } (");
    torch_ramp(w, "exp_avg", 2, two_three, 0);
    torch_say(w, "u u u 'model' } (");
    say_module(w, "module._fsdp_wrapped_module.");
    torch_say(w, "u u");
    torch_write_zip(w, in(state, "run.ckpt"), NULL);
    torch_free(w);
    assert_reads(in(state, "run.ckpt"), NULL, MODULE);
}

static void write_numbered(const char *path, const char *const *names, size_t count)
{
    torch_world *w = torch_begin(false);
    torch_say(w, "} (");
    for (size_t i = 0; i < count; i++)
        torch_ramp(w, names[i], 1, three, 0);
    torch_say(w, "u");
    torch_write_zip(w, path, NULL);
    torch_free(w);
}

/* What was converted from files without order is sorted. */
static void sorted_names_are_no_order(void **state)
{
    const char *names[20];
    char text[20][16];
    swi_shapes *s = NULL;
    sw_error err = {0};
    for (size_t i = 0; i < 20; i++) {
        snprintf(text[i], sizeof text[i], "l.%zu.w", i);
        names[i] = text[i];
    }
    write_numbered(in(state, "few.pt"), names, 15);
    assert_ok(swi_shapes_read(in(state, "few.pt"), NULL, NULL, &s, &err), &err);
    assert_true(s->ordered);
    swi_shapes_free(s);
    write_numbered(in(state, "sorted.pt"), names, 20);
    assert_ok(swi_shapes_read(in(state, "sorted.pt"), NULL, NULL, &s, &err), &err);
    assert_false(s->ordered);
    assert_contains(s->unordered, "its names are sorted");
    swi_shapes_free(s);
    names[3] = text[4];
    names[4] = text[3];
    write_numbered(in(state, "other.pt"), names, 20);
    assert_ok(swi_shapes_read(in(state, "other.pt"), NULL, NULL, &s, &err), &err);
    assert_true(s->ordered);
    swi_shapes_free(s);
}

static void files_without_order_say_so(void **state)
{
    write_st_one(in(state, "hf/model.safetensors"), "b.w", 2, 3, 0);
    assert_reads(in(state, "hf"), NULL,
                 "b.w [2,3] maybe\nunordered: files of this kind do not keep the order of "
                 "registration\n");
    assert_reads(in(state, "hf/model.safetensors"), NULL,
                 "b.w [2,3] maybe\nunordered: files of this kind do not keep the order of "
                 "registration\n");
}

static void what_holds_no_whole_model_is_refused(void **state)
{
    torch_world *w = torch_begin(false);
    torch_say(w, "} (");
    torch_ramp(w, "net._flat_param", 1, three, 0);
    torch_ramp(w, "net.w", 1, three, 0);
    torch_say(w, "u");
    torch_write_zip(w, in(state, "flat.pt"), NULL);
    torch_free(w);
    assert_no_read(in(state, "flat.pt"), NULL, SW_ERR_ARG,
                   "\"net._flat_param\" is a flat parameter itself");
    w = torch_begin(false);
    torch_say(w, "} ( 'lr' 3 u");
    torch_write_zip(w, in(state, "none.pt"), NULL);
    torch_free(w);
    assert_no_read(in(state, "none.pt"), NULL, SW_ERR_ARG, "it holds no tensors of a model");
    harness_write_text(in(state, "page.bin"), "<html>sign in</html>");
    assert_no_read(in(state, "page.bin"), NULL, SW_ERR_ARG,
                   "page.bin: is an HTML or XML page; shapes come from a state dict");
    harness_write(in(state, "noise"), "\x01\x02\xff\xfe\x00\x80noise", 11);
    assert_no_read(in(state, "noise"), NULL, SW_ERR_ARG, "noise: is nothing known here");
    harness_write_text(in(state, "empty"), "");
    assert_no_read(in(state, "empty"), NULL, SW_ERR_ARG, "empty: is an empty file");
    assert_no_read(in(state, "nowhere"), NULL, SW_ERR_NOTFOUND, "nowhere");
}

/* ---- models ------------------------------------------------------------------------------------
 */

/* Tied to what comes behind it and to each other; a buffer, a constant, one that may be absent. */
static const char net_map[] =
    "map: 1\nname: net\nmodels: [net]\nlet: {H: config.h}\n"
    "sides: {hf: {config: config.json}, other: {config: params.json}}\n"
    "tensors:\n"
    "  - {hf: z, shape: [H, 2], other: oz}\n"
    "  - {hf: head, shape: [H], tie: {to: last}, other: ohead}\n"
    "  - {hf: mean, shape: [H], buffer: true, other: omean}\n"
    "  - {hf: const, shape: [1], fill: 1, dtype: float32, other: oconst}\n"
    "  - {hf: extra, shape: [H], optional: true, other: oextra}\n"
    "  - {hf: a, shape: [2], other: oa}\n"
    "  - {hf: last, shape: [H], other: olast}\n"
    "  - {hf: third, shape: [H], tie: {to: last}, other: othird}\n";

#define NET                                                                                        \
    "z [3,2]\nhead [3]\nmean [3] buffer\nconst [1] buffer\nextra [3] maybe\na [2]\n"               \
    "last [3] = head\nthird [3] = head\n"

static void models_register_in_the_order_of_the_map(void **state)
{
    char *map = in(state, "net.yaml");
    harness_write_text(map, net_map);
    harness_write_text(in(state, "hf/config.json"), "{\"model_type\": \"net\", \"h\": 3}");
    harness_write_text(in(state, "any.name"), " { \"h\": 3}");
    assert_reads(in(state, "hf"), map, NET);
    assert_reads(in(state, "hf/config.json"), map, NET);
    assert_reads(in(state, "any.name"), map, NET);
    /* the side whose configuration it is */
    harness_write_text(in(state, "meta/params.json"), "{\"h\": 4}");
    assert_reads(in(state, "meta"), map,
                 "oz [4,2]\nohead [4]\nomean [4] buffer\noconst [1] buffer\noextra [4] maybe\n"
                 "oa [2]\nolast [4] = ohead\nothird [4] = ohead\n");
    swi_shapes *s = NULL;
    sw_error err = {0};
    assert_ok(swi_shapes_read(in(state, "hf/config.json"), map, NULL, &s, &err), &err);
    assert_true(s->ordered);
    assert_contains(s->from, "hf/config.json by the map net");
    swi_shapes_free(s);
}

static void known_models_need_no_map(void **state)
{
    swi_shapes *s = NULL;
    sw_error err = {0};
    harness_write_text(in(state, "config.json"),
                       "{\"model_type\": \"llama\", \"hidden_size\": 8, \"num_attention_heads\": 2,"
                       " \"vocab_size\": 16, \"num_hidden_layers\": 2, \"intermediate_size\": 12,"
                       " \"tie_word_embeddings\": true}");
    assert_ok(swi_shapes_read(in(state, "config.json"), NULL, NULL, &s, &err), &err);
    assert_string_equal(s->items[0].name, "model.embed_tokens.weight");
    assert_true(s->ordered);
    assert_string_equal(s->items[s->count - 1].name, "lm_head.weight");
    assert_int_equal(s->items[s->count - 1].tied_to, 0);
    assert_int_equal(s->items[s->count - 1].shape[0], 16);
    swi_shapes_free(s);
}

static void configurations_that_help_nobody_are_refused(void **state)
{
    harness_write_text(in(state, "config.json"), "{\"model_type\": \"unheard\"}");
    assert_no_read(in(state, "config.json"), NULL, SW_ERR_NOTFOUND,
                   "there is no map for model_type \"unheard\"");
    assert_no_read(*state, NULL, SW_ERR_NOTFOUND, "there is no map for model_type \"unheard\"");
    /* but weights beside it have shapes */
    write_module(in(state, "pytorch_model.bin"), "");
    assert_reads(*state, NULL, MODULE);
    harness_write_text(in(state, "broken.json"), "{\"h\": ");
    assert_no_read(in(state, "broken.json"), NULL, SW_ERR_FORMAT, "broken.json");
}

/* ---- documents that name another file ----------------------------------------------------------
 */

static void documents_name_models_beside_them(void **state)
{
    write_module(in(state, "doc/sub/net.pt"), "");
    harness_write_text(in(state, "doc/s.yaml"),
                       "shapes: 1\nmodel: sub/net.pt\nties: {a.w: z.w}\nbuffers: part\n"
                       "units: [\"a\"]\nalign: 8\n");
    assert_reads(in(state, "doc/s.yaml"), NULL,
                 "z.w [2,3] maybe\na.w [2,3] maybe = z.w\na.count [1] buffer\npart [3] buffer\n"
                 "head.w [2,3] maybe = z.w\nunits: a\nalign: 8\n");
    harness_write_text(in(state, "doc/plain"), "shapes: 1\nmodel: sub/none.pt\n");
    assert_no_read(in(state, "doc/plain"), NULL, SW_ERR_NOTFOUND, "doc/plain:2:8: ");
    harness_write_text(in(state, "doc/loop.yml"), "shapes: 1\nmodel: s.yaml\n");
    assert_no_read(in(state, "doc/loop.yml"), NULL, SW_ERR_UNSUPPORTED,
                   "s.yaml: is a document of shapes itself; name a state dict");
    harness_write_text(in(state, "doc/abs.yml"), "");
    char *absolute = harness_path(*state, "doc/sub/net.pt"), text[4096];
    snprintf(text, sizeof text, "shapes: 1\nmodel: %s\n", absolute);
    harness_write_text(in(state, "doc/abs.yml"), text);
    assert_reads(in(state, "doc/abs.yml"), NULL, MODULE);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, harness_dir_setup, harness_dir_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(documents_are_read_in_order),
        TEST(wrong_documents_are_refused_at_the_place),
        TEST(state_dicts_have_their_own_order),
        TEST(ties_across_parts_are_ties_of_the_model),
        TEST(the_model_of_a_checkpoint_is_taken),
        TEST(sorted_names_are_no_order),
        TEST(files_without_order_say_so),
        TEST(what_holds_no_whole_model_is_refused),
        TEST(models_register_in_the_order_of_the_map),
        TEST(known_models_need_no_map),
        TEST(configurations_that_help_nobody_are_refused),
        TEST(documents_name_models_beside_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
