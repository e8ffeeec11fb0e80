/* The form that targets want: optimizers in another keying, names of modules without wrappers. */
#include "convert/optimizer_fixture.h"
#include "convert/torch_fixture.h"
#include "model/value.h"
#include "state/state_form.h"

typedef struct reformed {
    swi_state state;
    sw_status status;
    outcome said;
} reformed;

static void run_reform(reformed *r, const sw_checkpoint *c, const char *pickle, swi_state_form form)
{
    outcome_begin(&r->said);
    r->state = state_of_text(pickle, 0);
    r->state.ordered = true;
    r->status = swi_state_reform(c, &form, &r->state, r->said.report, &r->said.err);
    r->said.status = r->status;
}

static void reformed_free(reformed *r)
{
    swi_state_free(&r->state);
    outcome_free(&r->said);
}

static void check_form(const sw_checkpoint *c, const char *pickle, swi_state_form form,
                       const char *expected)
{
    reformed r;
    run_reform(&r, c, pickle, form);
    assert_ok(r.status, &r.said.err);
    check_value(r.state.graph, r.state.root, expected);
    reformed_free(&r);
}

static swi_state_form form_of(swi_opt_form optimizer)
{
    return (swi_state_form){.optimizer = optimizer};
}

/* ---- optimizers ------------------------------------------------------------------------------ */

#define NUMBERED                                                                                   \
    OPTIMIZER(I(0) DICT(S("m") T(2)) I(1) DICT(S("m") T(3)),                                       \
              DICT(S("lr") I(5) S("params") LIST(I(1))) DICT(S("lr") I(6) S("params") LIST(I(0))))
#define NAMED                                                                                      \
    "{\"state\": {\"b\": {\"m\": <tensor 3>}, \"w\": {\"m\": <tensor 2>}}, \"param_groups\": "     \
    "[{\"lr\": 5, \"params\": [\"b\"]}, {\"lr\": 6, \"params\": [\"w\"]}]}"
#define FLATTENED                                                                                  \
    "{\"state.b.m\": <tensor 3>, \"state.w.m\": <tensor 2>, \"param_groups.b.lr\": 5, "            \
    "\"param_groups.w.lr\": 6}"

static void test_numbers_become_what_is_asked_for(void **state)
{
    sw_checkpoint *c =
        checkpoint_of(harness_path(*state, "c"), "model/w 4x3, model/b 4, optim/w 4x3, optim/b 4");
    const char *const pickle =
        PICKLE(DICT(S("model") DICT(S("w") T(0) S("b") T(1)) S("optim") NUMBERED S("step") I(9)));
    const char *const all = "{\"model\": {\"w\": <tensor 0>, \"b\": <tensor 1>}, \"optim\": %s, "
                            "\"step\": 9}";
    const struct {
        swi_opt_form form;
        const char *optim, *note;
    } cases[] = {
        {SWI_FORM_NAMES, NAMED,
         "2 parameters, nested, by name; was by number; the names are the model's"},
        {SWI_FORM_NESTED, NAMED, "optimizer \"optim\": 2 parameters, nested"},
        {SWI_FORM_FLAT, FLATTENED, "2 parameters, flattened; was by number"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char expected[600];
        reformed r;
        snprintf(expected, sizeof expected, all, cases[i].optim);
        run_reform(&r, c, pickle, form_of(cases[i].form));
        assert_ok(r.status, &r.said.err);
        check_value(r.state.graph, r.state.root, expected);
        assert_int_equal(sw_report_count(r.said.report), 1);
        assert_found(&r.said, SW_NOTE, "optimizer-form", NULL, NULL, cases[i].note);
        reformed_free(&r);
    }
    sw_checkpoint_close(c);
}

static void test_what_has_the_form_is_left_alone(void **state)
{
    sw_checkpoint *c =
        checkpoint_of(harness_path(*state, "c"), "model/w 4x3, model/b 4, optim/w 4x3, optim/b 4");
    /* "params" not last, something beside: putting it together would move them */
    const char *const odd = PICKLE(DICT(S("optim") DICT(S("scale") I(3) S("param_groups") LIST(
        DICT(S("params") LIST(S("w")) S("lr") I(5))) S("state") DICT(S("w") DICT(S("m") T(2))))));
    const char *const same = "{\"optim\": {\"scale\": 3, \"param_groups\": [{\"params\": [\"w\"], "
                             "\"lr\": 5}], \"state\": {\"w\": {\"m\": <tensor 2>}}}}";
    const swi_opt_form forms[] = {SWI_FORM_KEEP, SWI_FORM_NAMES, SWI_FORM_NESTED};
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        reformed r;
        run_reform(&r, c, odd, form_of(forms[i]));
        assert_ok(r.status, &r.said.err);
        check_value(r.state.graph, r.state.root, same);
        assert_int_equal(sw_report_count(r.said.report), 0);
        reformed_free(&r);
    }
    check_form(c, odd, form_of(SWI_FORM_FLAT),
               "{\"optim\": {\"state.w.m\": <tensor 2>, \"param_groups.w.lr\": 5, \"scale\": 3}}");
    check_form(c, odd, form_of(SWI_FORM_IDS),
               "{\"optim\": {\"state\": {0: {\"m\": <tensor 2>}}, \"param_groups\": [{\"lr\": 5, "
               "\"params\": [0]}], \"scale\": 3}}");
    sw_checkpoint_close(c);
}

static void test_flattened(void **state)
{
    sw_checkpoint *c = checkpoint_of(harness_path(*state, "c"), "model/w 4x3, optim/w 4x3");
    const char *const flat =
        PICKLE(DICT(S("optim") DICT(S("state.w.m") T(1) S("param_groups.w.lr") I(5))));
    check_form(c, flat, form_of(SWI_FORM_NAMES),
               "{\"optim\": {\"state.w.m\": <tensor 1>, \"param_groups.w.lr\": 5}}");
    check_form(c, flat, form_of(SWI_FORM_NESTED),
               "{\"optim\": {\"state\": {\"w\": {\"m\": <tensor 1>}}, \"param_groups\": [{\"lr\": "
               "5, \"params\": [\"w\"]}]}}");
    check_form(c, flat, form_of(SWI_FORM_IDS),
               "{\"optim\": {\"state\": {0: {\"m\": <tensor 1>}}, \"param_groups\": [{\"lr\": 5, "
               "\"param_names\": [\"w\"], \"params\": [0]}]}}");
    sw_checkpoint_close(c);
}

/* At two places, under a number, in a list: one dict, changed where it lies. */
static void test_shared_places(void **state)
{
    sw_checkpoint *c =
        checkpoint_of(harness_path(*state, "c"), "model/w 4x3, model/b 4, optim/w 4x3, optim/b 4");
    check_form(c, PICKLE(DICT(S("a") DICT(I(7) NUMBERED "MEMOIZE ; ") S("b") LIST("BINGET 0 ; "))),
               form_of(SWI_FORM_NAMES), "{\"a\": {7: " NAMED "}, \"b\": [" NAMED "]}");
    sw_checkpoint_close(c);
}

static void test_stored_names_stay(void **state)
{
    sw_checkpoint *c = checkpoint_of(harness_path(*state, "c"), "model/w 4x3, optim/w 4x3");
    const char *const stored =
        PICKLE(OPTIMIZER(I(0) DICT(S("m") T(1)), DICT(S("lr") I(5) S("params") LIST(I(0))
                                                          S("param_names") LIST(S("module.w")))));
    check_form(c, stored, form_of(SWI_FORM_NAMES),
               "{\"state\": {\"w\": {\"m\": <tensor 1>}}, \"param_groups\": [{\"lr\": 5, "
               "\"param_names\": [\"w\"], \"params\": [\"w\"]}]}");
    check_form(c, stored, form_of(SWI_FORM_FLAT),
               "{\"state.w.m\": <tensor 1>, \"param_groups.w.param_names\": [\"w\"], "
               "\"param_groups.w.lr\": 5}");
    reformed r;
    run_reform(&r, c, stored, form_of(SWI_FORM_NAMES));
    assert_found(&r.said, SW_NOTE, "optimizer-form", NULL, NULL, "its own param_names");
    assert_found(&r.said, SW_NOTE, "names-cleaned", NULL, NULL, "1 parts that wrappers add");
    reformed_free(&r);
    sw_checkpoint_close(c);
}

static void test_names_that_are_given(void **state)
{
    sw_checkpoint *c =
        checkpoint_of(harness_path(*state, "c"), "model/a 4, model/b 4, optim/b 4, optim/c 4");
    static const char *const names[] = {"b"};
    const char *const one = PICKLE(DICT(S("model") DICT(S("a") T(0) S("b") T(1)) S(
        "optim") OPTIMIZER(I(0) DICT(S("m") T(2)), DICT(S("params") LIST(I(0))))));
    reformed r;
    run_reform(&r, c, one, form_of(SWI_FORM_NAMES));
    assert_int_equal(r.status, SW_ERR_CONFLICT);
    assert_error(&r.said.err, SW_ERR_CONFLICT, "number 0 may be \"a\" or \"b\"");
    assert_string_equal(r.said.err.clause, "OPT-8");
    reformed_free(&r);
    check_form(c, one, form_of(SWI_FORM_IDS), /* which need no names */
               "{\"model\": {\"a\": <tensor 0>, \"b\": <tensor 1>}, \"optim\": {\"state\": {0: "
               "{\"m\": <tensor 2>}}, \"param_groups\": [{\"params\": [0]}]}}");
    swi_state_form form = form_of(SWI_FORM_NAMES);
    form.naming = (swi_opt_naming){.names = names, .name_count = 1};
    run_reform(&r, c, one, form);
    assert_ok(r.status, &r.said.err);
    check_value(
        r.state.graph, r.state.root,
        "{\"model\": {\"a\": <tensor 0>, \"b\": <tensor 1>}, \"optim\": {\"state\": {\"b\": "
        "{\"m\": <tensor 2>}}, \"param_groups\": [{\"params\": [\"b\"]}]}}");
    assert_found(&r.said, SW_NOTE, "optimizer-form", NULL, NULL, "those of --param-names");
    assert_null(find_finding(&r.said, "param-names-unused", NULL, NULL));
    reformed_free(&r);
    /* left out, it needs no names */
    form.without_optimizers = true;
    run_reform(&r, c, one, form);
    assert_ok(r.status, &r.said.err);
    assert_found(&r.said, SW_WARNING, "param-names-unused", NULL, NULL, "are not needed");
    reformed_free(&r);
    sw_checkpoint_close(c);
}

/* ---- modules --------------------------------------------------------------------------------- */

static void test_modules_lose_wrappers(void **state)
{
    sw_checkpoint *c =
        checkpoint_of(harness_path(*state, "c"), "model/module._orig_mod.w 4x3, "
                                                 "model/module._orig_mod.b 4, optim/w 4x3, "
                                                 "optim/b 4");
    const char *const pickle =
        PICKLE(DICT(S("model") DICT(S("module._orig_mod.w") T(0) S("module._orig_mod.b") T(1) S(
            "module._orig_mod.l._extra_state") I(1)) S("optim") NUMBERED S("_orig_mod.x") I(2)));
    const char *const cleaned = "{\"model\": {\"w\": <tensor 0>, \"b\": <tensor 1>, "
                                "\"l._extra_state\": 1}, \"optim\": " NAMED ", \"_orig_mod.x\": 2}";
    check_form(c, pickle, form_of(SWI_FORM_NAMES), cleaned);
    swi_state_form form = form_of(SWI_FORM_FLAT);
    form.naming.keep_prefixes = true;
    check_form(c, pickle, form,
               "{\"model\": {\"module._orig_mod.w\": <tensor 0>, \"module._orig_mod.b\": <tensor "
               "1>, \"module._orig_mod.l._extra_state\": 1}, \"optim\": "
               "{\"state.module._orig_mod.b.m\": <tensor 3>, \"state.module._orig_mod.w.m\": "
               "<tensor 2>, \"param_groups.module._orig_mod.b.lr\": 5, "
               "\"param_groups.module._orig_mod.w.lr\": 6}, \"_orig_mod.x\": 2}");
    sw_checkpoint_close(c);
}

/* A key that torch gave an optimizer never has DDP's "module": there it is the model's own. */
static void test_a_module_that_is_called_so(void **state)
{
    sw_checkpoint *c = checkpoint_of(harness_path(*state, "c"), "model/module.w 4x3, optim/w 4x3");
    const char *const own = PICKLE(DICT(S("model") DICT(S("module.w") T(0)) S("optim") OPTIMIZER(
        S("module.w") DICT(S("m") T(1)), DICT(S("params") LIST(S("module.w"))))));
    check_form(c, own, form_of(SWI_FORM_FLAT),
               "{\"model\": {\"module.w\": <tensor 0>}, \"optim\": {\"state.module.w.m\": <tensor "
               "1>}}");
    /* DDP's state dict as it is, beside an optimizer that torch keyed */
    const char *const ddp = PICKLE(DICT(S("model") DICT(S("module.w") T(0)) S("optim") OPTIMIZER(
        S("w") DICT(S("m") T(1)), DICT(S("params") LIST(S("w"))))));
    check_form(c, ddp, form_of(SWI_FORM_FLAT),
               "{\"model\": {\"w\": <tensor 0>}, \"optim\": {\"state.w.m\": <tensor 1>}}");
    sw_checkpoint_close(c);
}

static void test_names_that_become_one(void **state)
{
    sw_checkpoint *c = checkpoint_of(harness_path(*state, "c"), "model/w 4, model/_orig_mod.w 4");
    const char *const two = PICKLE(DICT(S("model") DICT(S("w") T(0) S("_orig_mod.w") T(1))));
    reformed r;
    run_reform(&r, c, two, form_of(SWI_FORM_NAMES));
    assert_error(&r.said.err, SW_ERR_CONFLICT, "two names of a module would become \"w\"");
    reformed_free(&r);
    check_form(c, two, form_of(SWI_FORM_KEEP),
               "{\"model\": {\"w\": <tensor 0>, \"_orig_mod.w\": <tensor 1>}}");
    sw_checkpoint_close(c);
}

/* ---- whole conversions ----------------------------------------------------------------------- */

/* As torch.save leaves a run in DDP: numbers, two groups, a scheduler. `twins`: two of the model's
 * tensors have one shape, and only one is trained. */
static char *write_run(const char *dir, bool twins)
{
    static const int64_t matrix[] = {6, 2}, vector[] = {6};
    char *path = harness_path(dir, twins ? "twins.pt" : "run.pt");
    torch_world *w = torch_begin(false);
    torch_say(w, "} ( 'model' } (");
    torch_ramp(w, "module.w", 2, matrix, 0);
    torch_ramp(w, "module.b", 1, vector, 100);
    if (twins)
        torch_ramp(w, "module.c", 1, vector, 200);
    torch_say(w, "u 'optimizer' } ( 'state' } ( 0 } (");
    torch_ramp(w, "exp_avg", 2, matrix, 300);
    torch_say(w, "'step' 4 u 1 } (");
    torch_ramp(w, "exp_avg", 1, vector, 400);
    torch_say(w, "'step' 4 u u 'param_groups' ] ( } ( 'lr' 0.5f 'params' ] ( 0 e u } ( 'lr' 0.25f "
                 "'params' ] ( 1 e u e u 'scheduler' } ( 'last_epoch' 4 u u");
    torch_write_zip(w, path, NULL);
    torch_free(w);
    return path;
}

static void check_written(const char *path, const char *const *names, size_t count)
{
    static const int64_t matrix[] = {6, 2}, vector[] = {6};
    const float base[] = {0, 100, 300, 400};
    assert_int_equal(count, 4);
    for (size_t i = 0; i < count; i++)
        assert_ramp(path, names[i], i % 2 == 0 ? 2 : 1, i % 2 == 0 ? matrix : vector, base[i]);
}

/* Parameters and moments are cut by ranks, whatever they were called. */
static void test_a_run_of_ddp(void **state)
{
    static const char *const names[] = {"model.w", "model.b", "optimizer.state.w.exp_avg",
                                        "optimizer.state.b.exp_avg"};
    char *run = write_run(*state, false), *to = harness_path(*state, "to");
    static const char *const forms[] = {"dcp:ranks=3", "dcp:optimizer=flat,ranks=3",
                                        "fsdp2:dp=3,optimizer=nested"};
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        outcome o;
        const sw_convert_options options = {.to = forms[i], .overwrite = true, .verify = true};
        run_convert(run, to, &options, &o);
        assert_fine(&o);
        assert_false(o.converted.partial);
        assert_found(&o, SW_NOTE, "names-cleaned", NULL, NULL, "2 parts");
        assert_found(&o, SW_NOTE, "optimizer-form", NULL, NULL, "was by number");
        outcome_free(&o);
        check_written(to, names, 4);
        sw_checkpoint *c = open_good(to);
        const sw_catalog *catalog = sw_checkpoint_catalog(c);
        for (size_t k = 0; k < 4; k++) {
            sw_tensor_info info;
            sw_catalog_tensor(catalog, (size_t)sw_catalog_find(catalog, names[k]), &info);
            assert_int_equal(info.piece_count, 3);
        }
        sw_checkpoint_close(c);
    }
}

static void test_keep(void **state)
{
    static const char *const names[] = {"model.module.w", "model.module.b",
                                        "optimizer.state.0.exp_avg", "optimizer.state.1.exp_avg"};
    char *run = write_run(*state, true), *to = harness_path(*state, "to");
    outcome o;
    const sw_convert_options options = {.to = "dcp:optimizer=keep"};
    run_convert(run, to, &options, &o);
    assert_fine(&o);
    assert_int_equal(sw_report_count(o.report), 0);
    outcome_free(&o);
    check_written(to, names, 4);
}

static void test_param_names(void **state)
{
    static const char *const right[] = {"model.w", "model.b", "optimizer.state.w.exp_avg",
                                        "optimizer.state.c.exp_avg"};
    char *run = write_run(*state, true), *to = harness_path(*state, "to");
    char *list = harness_path(*state, "names.txt");
    sw_convert_options options = {.to = "dcp:ranks=2"};
    assert_refuses(run, to, &options, SW_ERR_CONFLICT, "number 1 may be \"b\" or \"c\"");
    options.param_names = list;
    assert_refuses(run, to, &options, SW_ERR_NOTFOUND, "--param-names: ");
    const struct {
        const char *text;
        sw_status status;
        const char *message;
    } bad[] = {
        {"", SW_ERR_FORMAT, "names.txt: there is no name in it"},
        {"\n\r\n", SW_ERR_FORMAT, "there is no name in it"},
        {"w\n\xff\n", SW_ERR_FORMAT, "line 2 is no text"},
        {"w\n\nw\n", SW_ERR_CONFLICT, "line 3: \"w\" was named before"},
        {"w\nb\nc\nd\n", SW_ERR_CONFLICT, "number 1 may be \"b\" or \"c\""},
        {"w\n", SW_ERR_INCOMPLETE, "2 of them cannot be 1 tensors"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        harness_write(list, bad[i].text, strlen(bad[i].text));
        assert_refuses(run, to, &options, bad[i].status, bad[i].message);
    }
    static const char *const good[] = {"w\nc", "module.w\r\n\r\nmodule.c\r\n"};
    options.overwrite = true;
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        outcome o;
        harness_write(list, good[i], strlen(good[i]));
        run_convert(run, to, &options, &o);
        assert_fine(&o);
        outcome_free(&o);
        check_written(to, right, 4);
    }
    char *hf = harness_path(*state, "hf");
    options.to = "hf";
    assert_refuses(run, hf, &options, SW_ERR_ARG, "--param-names is for targets that hold");
}

/* An optimizer that is left out needs no names; names of both sides are met by the filters. */
static void test_filters(void **state)
{
    char *run = write_run(*state, true), *to = harness_path(*state, "to");
    static const char *const models[] = {"model.*", NULL}, *const optimizers[] = {"optimizer*",
                                                                                  NULL};
    static const char *const numbers[] = {"*.1.exp_avg", NULL}, *const named[] = {"*.b.exp_avg",
                                                                                  NULL};
    const struct {
        sw_convert_options options;
        bool twins;
        uint64_t tensors;
    } cases[] = {
        {{.to = "dcp", .only = models}, true, 3},
        {{.to = "dcp", .drop = optimizers}, true, 3},
        {{.to = "dcp", .drop_optimizer = true}, true, 3},
        {{.to = "dcp", .drop = numbers}, false, 3},
        {{.to = "dcp", .drop = named}, false, 3},
        {{.to = "dcp", .only = named}, false, 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        outcome o;
        sw_convert_options options = cases[i].options;
        options.overwrite = true;
        run_convert(cases[i].twins ? run : write_run(*state, false), to, &options, &o);
        assert_fine(&o);
        assert_int_equal(o.converted.tensors, cases[i].tensors);
        outcome_free(&o);
    }
}

static void test_forms_that_a_target_has(void **state)
{
    char *run = write_run(*state, false), *to = harness_path(*state, "to");
    const struct {
        const char *to, *text;
    } cases[] = {
        {"dcp:optimizer=ids", "--to dcp: no such form of an optimizer: optimizer=ids; there are "
                              "nested, flat and keep"},
        {"fsdp2:dp=2,optimizer=", "no such form of an optimizer: optimizer="},
        {"dcp:optimizer=names", "no such form"},
        {"hf:optimizer=flat", "--to hf:optimizer=flat: not an option"},
        {"dcp:ranks=2,,optimizer=flat", "--to dcp: an option is empty"},
        {"dcp:ranks=2,", "--to dcp: an option is empty"},
        {"hf:", "--to hf: an option is empty"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const sw_convert_options options = {.to = cases[i].to};
        assert_refuses(run, to, &options, SW_ERR_ARG, cases[i].text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        test_in_dir(test_numbers_become_what_is_asked_for),
        test_in_dir(test_what_has_the_form_is_left_alone),
        test_in_dir(test_flattened),
        test_in_dir(test_shared_places),
        test_in_dir(test_stored_names_stay),
        test_in_dir(test_names_that_are_given),
        test_in_dir(test_modules_lose_wrappers),
        test_in_dir(test_a_module_that_is_called_so),
        test_in_dir(test_names_that_become_one),
        test_in_dir(test_a_run_of_ddp),
        test_in_dir(test_keep),
        test_in_dir(test_param_names),
        test_in_dir(test_filters),
        test_in_dir(test_forms_that_a_target_has),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
