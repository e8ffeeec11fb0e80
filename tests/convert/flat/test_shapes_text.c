/* Shapes written as documents (SHP-10). */
#include "convert/flat/shapes_fixture.h"

static sw_status emit(const char *path, const char *map, const char *config, char **text,
                      sw_error *err)
{
    const sw_open_options open = {.map = map, .config = config};
    sw_checkpoint *c = NULL;
    sw_status st = sw_checkpoint_open(path, &open, NULL, &c, err);
    if (st == SW_OK)
        st = sw_checkpoint_shapes(c, &open, text, err);
    sw_checkpoint_close(c);
    return st;
}

/* Where it came from is in its first line. */
static void assert_emits(const char *path, const char *map, const char *config, const char *want)
{
    char *text = NULL;
    sw_error err = {0};
    assert_ok(emit(path, map, config, &text, &err), &err);
    assert_string_equal(strchr(text, '\n') + 1, want);
    free(text);
}

static void assert_emits_nothing(const char *path, const char *map, const char *config,
                                 sw_status status, const char *says)
{
    char *text = NULL;
    sw_error err = {0};
    assert_int_equal(emit(path, map, config, &text, &err), status);
    assert_error(&err, status, says);
    assert_null(text);
}

#define UNSURE                                                                                     \
    "# Floating-point buffers may be among them, and copies of tied parameters: a state dict "     \
    "does\n# not tell. Name them here:\n# buffers: [\"**.running_mean\"]\n# ties: {OTHER: NAME}\n" \
    "tensors:\n"
#define UNITS "# Modules that FSDP wrapped, the root besides:\n# units: [\"layers.{n}\"]\n"

static void documents_of_state_dicts_say_the_same(void **state)
{
    char *text = NULL;
    sw_error err = {0};
    write_module(in(state, "net.pt"), "");
    assert_emits(in(state, "net.pt"), NULL, NULL,
                 "shapes: 1\n" UNSURE "- z.w: [2, 3]\n- a.w: [2, 3]\n- part: [3]\n"
                 "- head.w: [2, 3]\nties:\n  head.w: z.w\n" UNITS);
    assert_ok(emit(in(state, "net.pt"), NULL, NULL, &text, &err), &err);
    harness_write_text(in(state, "net.yaml"), text);
    free(text);
    assert_reads(in(state, "net.yaml"), NULL,
                 "z.w [2,3] maybe\na.w [2,3] maybe\npart [3] maybe\nhead.w [2,3] maybe = z.w\n");
    /* names that need quotes */
    write_module(in(state, "odd.pt"), "it's: {odd} #");
    assert_emits(in(state, "odd.pt"), NULL, NULL,
                 "shapes: 1\n" UNSURE "- 'it''s: {odd} #z.w': [2, 3]\n"
                 "- 'it''s: {odd} #a.w': [2, 3]\n- 'it''s: {odd} #part': [3]\n"
                 "- 'it''s: {odd} #head.w': [2, 3]\nties:\n"
                 "  'it''s: {odd} #head.w': 'it''s: {odd} #z.w'\n" UNITS);
    /* and those that no document can hold, or that would lose a part of it */
    write_module(in(state, "line.pt"), "a\nb");
    assert_emits_nothing(in(state, "line.pt"), NULL, NULL, SW_ERR_UNSUPPORTED,
                         "its shapes cannot be written as a document");
    write_module(in(state, "twice.pt"), "module.module.");
    assert_emits_nothing(in(state, "twice.pt"), NULL, NULL, SW_ERR_UNSUPPORTED,
                         "some names would be read as others; --shapes takes it itself");
}

/* A model of two matrices, a vector and what is known of them; other names tell the other side. */
static const char pair_map[] =
    "map: 1\nname: pair\nmodels: [pair]\nsides: {hf: {config: config.json}, other: {}}\n"
    "tensors:\n"
    "  - {hf: z.w, shape: [2, 3], other: oz}\n"
    "  - {hf: a.w, shape: [2, 3], other: oa}\n"
    "  - {hf: part, shape: [3], buffer: true, other: op}\n"
    "  - {hf: more, shape: [3], optional: true, other: om}\n"
    "  - {hf: a.count, shape: [1], buffer: true, other: oc}\n"
    "  - {hf: head.w, shape: [2, 3], tie: {to: a.w}, other: oh}\n";

static void write_pair(const char *path, const char *const *names, const size_t *rows)
{
    torch_world *w = torch_begin(false);
    torch_say(w, "} (");
    for (size_t i = 0; names[i] != NULL; i++)
        torch_ramp(w, names[i], rows[i] == 0 ? 1 : 2,
                   rows[i] == 0 ? three : (const int64_t[]){(int64_t)rows[i], 3}, (float)i);
    torch_say(w, "u");
    torch_write_zip(w, path, NULL);
    torch_free(w);
}

static void models_tell_what_files_do_not(void **state)
{
    char *map = in(state, "pair.yaml"), *config = in(state, "c/config.json");
    char *run = in(state, "run.pt");
    harness_write_text(map, pair_map);
    harness_write_text(config, "{\"model_type\": \"pair\"}");
    /* the order of the file, buffers and ties of the model */
    write_pair(run, (const char *[]){"z.w", "part", "a.w", "head.w", NULL},
               (const size_t[]){2, 0, 2, 2});
    assert_emits(run, map, config,
                 "shapes: 1\nparameters:\n- z.w: [2, 3]\n- a.w: [2, 3]\n- head.w: [2, 3]\n"
                 "ties:\n  head.w: a.w\n" UNITS);
    /* of two orders none is believed */
    write_pair(run, (const char *[]){"a.w", "z.w", "head.w", NULL}, (const size_t[]){2, 2, 2});
    assert_emits_nothing(run, map, config, SW_ERR_CONFLICT,
                         "has \"a.w\" before \"z.w\", and the map pair the other way round");
    /* files without order have the model's, what is optional if they have it */
    harness_write_text(in(state, "hf/config.json"), "{\"model_type\": \"pair\"}");
    write_st(in(state, "hf/model.safetensors"),
             "{\"a.w\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]},"
             "\"more\":{\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[24,36]},"
             "\"z.w\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[36,60]}}",
             60, 0);
    assert_emits(in(state, "hf"), map, NULL,
                 "shapes: 1\nparameters:\n- z.w: [2, 3]\n- a.w: [2, 3]\n- more: [3]\n"
                 "- head.w: [2, 3]\nties:\n  head.w: a.w\n" UNITS);
    write_st(in(state, "hf/model.safetensors"),
             "{\"a.w\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]},"
             "\"z.w\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[24,48]}}",
             48, 0);
    assert_emits(in(state, "hf"), map, NULL,
                 "shapes: 1\nparameters:\n- z.w: [2, 3]\n- a.w: [2, 3]\n- head.w: [2, 3]\n"
                 "ties:\n  head.w: a.w\n" UNITS);
    /* and without a model nothing tells */
    assert_emits_nothing(in(state, "hf"), NULL, NULL, SW_ERR_UNSUPPORTED,
                         "the order in which the model registers its parameters is not known: "
                         "files of this kind do not keep the order of registration; and of its "
                         "model: config.json: there is no map for model_type \"pair\"");
    assert_emits_nothing(in(state, "hf"), map, in(state, "none"), SW_ERR_NOTFOUND, "none");
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, harness_dir_setup, harness_dir_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(documents_of_state_dicts_say_the_same),
        TEST(models_tell_what_files_do_not),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
