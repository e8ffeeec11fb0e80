/* The optimizer hub: lifted from every keying, named by the rule, lowered into every keying. */
#include "codec/pickle.h"
#include "convert/optimizer_fixture.h"
#include "optimizer/optimizer.h"

/* ---- an optimizer as text
 * ------------------------------------------------------------------------ */

static void show_settings(swi_buf *out, const sw_value_graph *g, const swi_opt_setting *settings,
                          size_t count)
{
    sw_error err = {0};
    for (size_t i = 0; i < count; i++) {
        char *key = NULL, *value = NULL;
        must(sw_value_text(g, settings[i].key, 1000, &key, &err));
        must(sw_value_text(g, settings[i].value, 1000, &value, &err));
        must(swi_buf_printf(out, &err, " %s=%s", key, value));
        free(key);
        free(value);
    }
    must(swi_buf_append_str(out, "\n", &err));
}

static int text_order(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void show_members(swi_buf *out, const swi_optimizer *o, const swi_opt_group *group,
                         bool sorted)
{
    const char *names[64];
    sw_error err = {0};
    assert_true(group->parameter_count <= 64);
    for (size_t i = 0; i < group->parameter_count; i++)
        names[i] = o->parameters[group->parameters[i]];
    if (sorted)
        qsort(names, group->parameter_count, sizeof names[0], text_order);
    for (size_t i = 0; i < group->parameter_count; i++)
        must(swi_buf_printf(out, &err, " %s", names[i]));
}

/* Lines: states of each parameter, then groups: settings and members. Free it. */
static char *show(const swi_optimizer *o, bool sorted)
{
    swi_buf out = {0};
    sw_error err = {0};
    const sw_value_graph *g = o->from->graph;
    for (size_t i = 0; i < o->state_count; i++) {
        char *value = NULL;
        must(sw_value_text(g, o->states[i].value, 1000, &value, &err));
        must(swi_buf_printf(&out, &err, "%s %s=%s\n", o->parameters[o->states[i].parameter],
                            o->states[i].name, value));
        free(value);
    }
    for (size_t i = 0; i < o->group_count; i++) {
        must(swi_buf_append_str(&out, "group", &err));
        show_members(&out, o, &o->groups[i], sorted);
        must(swi_buf_append_str(&out, ":", &err));
        show_settings(&out, g, o->groups[i].settings, o->groups[i].setting_count);
    }
    if (o->extra_count > 0) {
        must(swi_buf_append_str(&out, "extra:", &err));
        show_settings(&out, g, o->extras, o->extra_count);
    }
    must(swi_buf_u8(&out, 0, &err));
    return (char *)out.data;
}

static void check_shows(const swi_optimizer *o, const char *expected)
{
    char *text = show(o, false);
    assert_string_equal(text, expected);
    free(text);
}

typedef struct lifted {
    swi_state state;
    swi_optimizer *items;
    size_t count;
    sw_status status;
    sw_error err;
} lifted;

static void run_lift(lifted *l, const sw_checkpoint *c, const char *pickle, bool ordered,
                     const char *const *names, size_t name_count)
{
    *l = (lifted){.state = state_of_text(pickle, 0)};
    l->state.ordered = ordered;
    l->count = 77;
    const swi_opt_naming naming = {.names = names, .name_count = name_count};
    l->status = swi_optimizers_lift(c, &l->state, &naming, &l->items, &l->count, &l->err);
    if (l->status != SW_OK)
        assert_int_equal(l->count, 77);
}

static void lifted_free(lifted *l)
{
    if (l->status == SW_OK)
        swi_optimizers_free(l->items, l->count);
    swi_state_free(&l->state);
}

static void check_lifts(const sw_checkpoint *c, const char *pickle, swi_opt_keying keying,
                        const char *path, const char *expected)
{
    lifted l;
    run_lift(&l, c, pickle, true, NULL, 0);
    assert_ok(l.status, &l.err);
    assert_int_equal(l.count, 1);
    assert_int_equal(l.items[0].keying, keying);
    char joined[100] = "";
    for (size_t i = 0; i < l.items[0].path_parts; i++)
        snprintf(joined + strlen(joined), sizeof joined - strlen(joined), "/%s",
                 l.items[0].path[i]);
    assert_string_equal(joined, path);
    check_shows(&l.items[0], expected);
    lifted_free(&l);
}

static void check_refused(const sw_checkpoint *c, const char *pickle, bool ordered,
                          const char *const *names, size_t name_count, sw_status status,
                          const char *clause, const char *text)
{
    lifted l;
    run_lift(&l, c, pickle, ordered, names, name_count);
    assert_int_equal(l.status, status);
    assert_error(&l.err, status, text);
    assert_string_equal(l.err.clause, clause);
    lifted_free(&l);
}

/* ---- lifting
 * ------------------------------------------------------------------------------------- */

static void test_nested_names(void **state)
{
    sw_checkpoint *c =
        checkpoint_of(harness_path(*state, "ckpt"), "model/a 4x3, opt/x 4x3, opt/lr");
    check_lifts(c,
                PICKLE(DICT(S("model") DICT(S("a") T(0)) S("optimizer") OPTIMIZER(
                    S("_orig_mod.a") DICT(S("step") I(7) S("exp_avg") T(1)) S("_orig_mod.b") DICT(),
                    DICT(S("lr") T(2) S("betas") "BINFLOAT 0.5 ; BINFLOAT 0.75 ; TUPLE2 ; " S(
                        "foreach") "NONE ; " S("params") LIST(S("_orig_mod.a") S("_orig_mod.b")))
                        DICT(S("params") LIST(S("c")) S("lr") "BINFLOAT 0.25 ; ")))),
                SWI_OPT_NESTED_NAMES, "/optimizer",
                "a step=7\na exp_avg=<tensor 1>\n"
                "group a b: \"lr\"=<tensor 2> \"betas\"=(0.5, 0.75) \"foreach\"=None\n"
                "group c: \"lr\"=0.25\n");
    sw_checkpoint_close(c);
}

/* By themselves, without states, in a list, with more beside, prefix of DDP. */
static void test_other_places(void **state)
{
    sw_checkpoint *c = checkpoint_of(harness_path(*state, "ckpt"), "model/a 4x3");
    check_lifts(c, PICKLE(OPTIMIZER("", DICT(S("params") LIST(S("module.a") S("module.b"))))),
                SWI_OPT_NESTED_NAMES, "", "group a b:\n");
    check_lifts(c,
                PICKLE(DICT(S("optimizers") LIST(DICT(S("param_groups") LIST(
                    DICT(S("params") LIST(S("module.a") S("b")))) S("scale") I(3))))),
                SWI_OPT_NESTED_NAMES, "/optimizers/#0", "group module.a b:\nextra: \"scale\"=3\n");
    lifted l;
    run_lift(&l, c, PICKLE(DICT(S("model") DICT(S("a") T(0)) S("param_groups") LIST(I(1)))), true,
             NULL, 0);
    assert_ok(l.status, &l.err);
    assert_int_equal(l.count, 0);
    lifted_free(&l);
    sw_checkpoint_close(c);
}

static void test_two_optimizers(void **state)
{
    sw_checkpoint *c = checkpoint_of(harness_path(*state, "ckpt"), "model/a 4x3, opt/x 4x3");
    lifted l;
    run_lift(&l, c,
             PICKLE(DICT(S("one") OPTIMIZER(S("a") DICT(S("m") T(1)),
                                            DICT(S("params") LIST(S("a")) S("lr") I(1))) S("two")
                             OPTIMIZER("", DICT(S("params") LIST(S("b")) S("lr") I(2))))),
             true, NULL, 0);
    assert_ok(l.status, &l.err);
    assert_int_equal(l.count, 2);
    check_shows(&l.items[0], "a m=<tensor 1>\ngroup a: \"lr\"=1\n");
    check_shows(&l.items[1], "group b: \"lr\"=2\n");
    assert_string_equal(l.items[1].path[0], "two");
    lifted_free(&l);
    sw_checkpoint_close(c);
}

static void test_flat(void **state)
{
    sw_checkpoint *c =
        checkpoint_of(harness_path(*state, "ckpt"), "model/a 4x3, opt/x 4x3, opt/l, opt/m, opt/n");
    /* parameters with the same settings are one group; small tensors count by what they hold */
    check_lifts(c,
                PICKLE(DICT(S("optim") DICT(
                    S("state.a.w.exp_avg") T(1) S("state.a.w.step") I(2) S("state.b.inner.deep")
                        I(5) S("state.x.y.exp_avg") I(9) S("param_groups.a.w.lr") T(2)
                            S("param_groups.b.lr") "BINFLOAT 0.5 ; " S("param_groups.a.w.eps") I(1)
                                S("param_groups.b.eps") I(1) S("param_groups.c.eps") I(1)
                                    S("param_groups.c.lr") T(3)))),
                SWI_OPT_FLAT, "/optim",
                "a.w exp_avg=<tensor 1>\na.w step=2\nb inner.deep=5\nx.y exp_avg=9\n"
                "group a.w c: \"lr\"=<tensor 2> \"eps\"=1\n"
                "group b: \"lr\"=0.5 \"eps\"=1\n");
    check_lifts(c, PICKLE(DICT(S("optim") DICT(S("state.a.w.exp_avg") T(1)))), SWI_OPT_FLAT,
                "/optim", "a.w exp_avg=<tensor 1>\n");
    check_refused(c, PICKLE(DICT(S("optim") DICT(S("state.a") T(1)))), true, NULL, 0, SW_ERR_FORMAT,
                  "OPT-2", "optimizer \"optim\": key \"a\" is not NAME.STATE");
    sw_checkpoint_close(c);
}

static void test_refused(void **state)
{
    sw_checkpoint *c = checkpoint_of(harness_path(*state, "ckpt"), "model/a 4x3, opt/x 4x3");
    check_refused(c, PICKLE(OPTIMIZER("", DICT(S("params") LIST(S("a") S("a"))))), true, NULL, 0,
                  SW_ERR_CONFLICT, "OPT-3", "parameter a is in two groups");
    check_refused(c, PICKLE(OPTIMIZER("", DICT(S("params") LIST(S("a") I(1))))), true, NULL, 0,
                  SW_ERR_UNSUPPORTED, "OPT-1", "some parameters are known by name and some");
    check_refused(c, PICKLE(OPTIMIZER("", DICT(S("params") LIST("NONE ; " I(1))))), true, NULL, 0,
                  SW_ERR_UNSUPPORTED, "OPT-1", "neither by a name nor by a number");
    check_refused(c, PICKLE(OPTIMIZER(I(4) DICT(), DICT(S("params") LIST(I(1))))), true, NULL, 0,
                  SW_ERR_CONFLICT, "OPT-3", "id 4 has states but no group");
    check_refused(c, PICKLE(OPTIMIZER(S("a") I(1), DICT(S("params") LIST(S("a"))))), true, NULL, 0,
                  SW_ERR_UNSUPPORTED, "OPT-1", "the states of a are no dict");
    check_refused(c, PICKLE(OPTIMIZER(S("a") DICT(I(1) I(1)), DICT(S("params") LIST(S("a"))))),
                  true, NULL, 0, SW_ERR_UNSUPPORTED, "OPT-1",
                  "a state of a has a name that is no text");
    check_refused(c, PICKLE(OPTIMIZER("", DICT(S("params") LIST(S("a") S("_orig_mod.a"))))), true,
                  NULL, 0, SW_ERR_CONFLICT, "OPT-4", "two parameters are called \"a\"");
    sw_checkpoint_close(c);
}

/* ---- names for ids
 * ------------------------------------------------------------------------------- */

/* A layer twice, buffers and a tied head among them; states of each size. */
#define MODEL                                                                                      \
    "model/embed 8x2, model/0.w 4x3, model/0.b 4, model/0.running_mean 4, model/1.w 4x3, "         \
    "model/1.b 4, model/1.extra 4, model/head 8x2, s/embed 8x2, s/w 4x3, s/b 4, s/step, "          \
    "s/odd 7"
/* tensors by number: embed 0, 0.w 1, 0.b 2, mean 3, 1.w 4, 1.b 5, extra 6, head 7, s: 8 9 10 11 12
 */

static void test_decay_and_no_decay(void **state)
{
    sw_checkpoint *c = checkpoint_of(harness_path(*state, "ckpt"),
                                     "model/embed 8x2, model/0.w 4x3, model/0.b 4, model/1.w 4x3, "
                                     "model/1.b 4, s/embed 8x2, s/w 4x3, s/b 4, s/step");
    /* keys as torch has them, and as DCP gives them back: text */
    check_lifts(c,
                PICKLE(DICT(S("optimizer") OPTIMIZER(
                    I(0) DICT(S("step") T(8) S("m") T(5)) I(1) DICT(S("step") T(8) S("m") T(6))
                        S("2") DICT(S("m") T(6)) I(3) DICT(S("m") T(7)) I(4) DICT(S("m") T(7)),
                    DICT(S("wd") I(1) S("params") LIST(I(0) I(1) I(2)))
                        DICT(S("wd") I(0) S("params") LIST(I(3) I(4)))))),
                SWI_OPT_NESTED_IDS, "/optimizer",
                "embed step=<tensor 8>\nembed m=<tensor 5>\n0.w step=<tensor 8>\n0.w m=<tensor 6>\n"
                "1.w m=<tensor 6>\n0.b m=<tensor 7>\n1.b m=<tensor 7>\n"
                "group embed 0.w 1.w: \"wd\"=1\ngroup 0.b 1.b: \"wd\"=0\n");
    sw_checkpoint_close(c);
}

static void test_buffers_and_ties_are_left_out(void **state)
{
    sw_checkpoint *c = checkpoint_of(harness_path(*state, "ckpt"), MODEL);
    /* the tied head is no parameter of its own; running_mean is no parameter at all */
    check_lifts(
        c,
        PICKLE(OPTIMIZER(I(0) DICT(S("m") T(8)) I(1) DICT(S("m") T(9)) I(2) DICT(S("m") T(10)) I(3)
                             DICT(S("m") T(9)) I(4) DICT(S("m") T(10)) I(5) DICT(S("m") T(10)),
                         DICT(S("params") LIST(I(0) I(1) I(2) I(3) I(4) I(5))))),
        SWI_OPT_NESTED_IDS, "",
        "embed m=<tensor 8>\n0.w m=<tensor 9>\n0.b m=<tensor 10>\n1.w m=<tensor 9>\n"
        "1.b m=<tensor 10>\n1.extra m=<tensor 10>\ngroup embed 0.w 0.b 1.w 1.b 1.extra:\n");
    sw_checkpoint_close(c);
}

static void test_two_assignments_are_refused(void **state)
{
    sw_checkpoint *c = checkpoint_of(harness_path(*state, "ckpt"), MODEL);
    /* one of 1.b and 1.extra is no parameter: which? */
    const char *const five =
        PICKLE(OPTIMIZER(I(0) DICT(S("m") T(8)) I(1) DICT(S("m") T(9)) I(2) DICT(S("m") T(10)) I(3)
                             DICT(S("m") T(9)) I(4) DICT(S("m") T(10)),
                         DICT(S("params") LIST(I(0) I(1) I(2) I(3) I(4)))));
    check_refused(c, five, true, NULL, 0, SW_ERR_CONFLICT, "OPT-8",
                  "optimizer \"\": its parameters are numbered, and number 4 may be \"1.b\" or "
                  "\"1.extra\": both fit all shapes in order; give the names of all parameters in "
                  "the order of the module with --param-names");
    static const char *const names[] = {"embed", "0.w", "0.b", "1.w", "1.extra"};
    lifted l;
    run_lift(&l, c, five, true, names, 5);
    assert_ok(l.status, &l.err);
    assert_string_equal(l.items[0].parameters[4], "1.extra");
    lifted_free(&l);
    /* a frozen parameter has no state and fits anything */
    check_refused(c, PICKLE(OPTIMIZER(I(0) DICT(S("m") T(8)), DICT(S("params") LIST(I(0) I(1))))),
                  true, NULL, 0, SW_ERR_CONFLICT, "OPT-8", "number 1 may be \"");
    sw_checkpoint_close(c);
}

static void test_frozen_parameters_keep_their_place(void **state)
{
    sw_checkpoint *c = checkpoint_of(harness_path(*state, "ckpt"),
                                     "model/a 4x3, model/b 4x3, model/c 5, s/a 4x3, s/c 5");
    check_lifts(c,
                PICKLE(OPTIMIZER(I(0) DICT(S("m") T(3)) I(2) DICT(S("m") T(4)),
                                 DICT(S("params") LIST(I(0) I(1) I(2))))),
                SWI_OPT_NESTED_IDS, "", "a m=<tensor 3>\nc m=<tensor 4>\ngroup a b c:\n");
    sw_checkpoint_close(c);
}

/* The average of a scalar parameter is a scalar, as every step is. */
static void test_scalars(void **state)
{
    sw_checkpoint *c = checkpoint_of(harness_path(*state, "ckpt"),
                                     "model/a 4, model/scale, model/buffer 4, s/a 4, s/scale");
    check_lifts(c,
                PICKLE(OPTIMIZER(I(0) DICT(S("step") T(4) S("exp_avg") T(3)) I(1)
                                     DICT(S("step") T(4) S("exp_avg") T(4)),
                                 DICT(S("params") LIST(I(0) I(1))))),
                SWI_OPT_NESTED_IDS, "",
                "a step=<tensor 4>\na exp_avg=<tensor 3>\nscale step=<tensor 4>\n"
                "scale exp_avg=<tensor 4>\ngroup a scale:\n");
    sw_checkpoint_close(c);
}

/* Adafactor's sums over one axis, as torch and as transformers keep them. */
static void test_factors(void **state)
{
    sw_checkpoint *c = checkpoint_of(harness_path(*state, "ckpt"),
                                     "model/a 4x3, model/b 3x4, model/c 4, s/a_row 4x1, s/a_col "
                                     "1x3, s/b_row 3, s/b_col 4, s/c 4");
    check_lifts(c,
                PICKLE(OPTIMIZER(I(0) DICT(S("row_var") T(3) S("col_var") T(4)) I(1)
                                     DICT(S("exp_avg_sq_row") T(5) S("exp_avg_sq_col") T(6)) I(2)
                                         DICT(S("variance") T(7)),
                                 DICT(S("params") LIST(I(2))) DICT(S("params") LIST(I(1)))
                                     DICT(S("params") LIST(I(0))))),
                SWI_OPT_NESTED_IDS, "",
                "c variance=<tensor 7>\nb exp_avg_sq_row=<tensor 5>\nb exp_avg_sq_col=<tensor 6>\n"
                "a row_var=<tensor 3>\na col_var=<tensor 4>\ngroup c:\ngroup b:\ngroup a:\n");
    /* a row of one shape and a column of another's: no tensor has both */
    check_refused(c,
                  PICKLE(OPTIMIZER(I(0) DICT(S("row_var") T(3) S("col_var") T(3)),
                                   DICT(S("params") LIST(I(0))))),
                  true, NULL, 0, SW_ERR_INCOMPLETE, "OPT-8", "number 0 (shape 4x1) finds no place");
    sw_checkpoint_close(c);
}

static void test_none_fits(void **state)
{
    sw_checkpoint *c = checkpoint_of(harness_path(*state, "ckpt"), MODEL);
    check_refused(c,
                  PICKLE(OPTIMIZER(I(0) DICT(S("m") T(8)) I(1) DICT(S("m") T(12)),
                                   DICT(S("params") LIST(I(0) I(1))))),
                  true, NULL, 0, SW_ERR_INCOMPLETE, "OPT-8",
                  "no order of the model's 7 tensors fits their shapes: number 1 (shape 7) finds "
                  "no place; give the names");
    /* the right shapes in the wrong order */
    check_refused(
        c,
        PICKLE(OPTIMIZER(I(0) DICT(S("m") T(9)) I(1) DICT(S("m") T(8)) I(2) DICT(S("m") T(9)),
                         DICT(S("params") LIST(I(0) I(1) I(2))))),
        true, NULL, 0, SW_ERR_INCOMPLETE, "OPT-8", "number 1 (shape 8x2) finds no place");
    sw_checkpoint_close(c);
    c = checkpoint_of(harness_path(*state, "alone"), "optimizer/x 4");
    check_refused(c, PICKLE(OPTIMIZER("", DICT(S("params") LIST(I(0))))), true, NULL, 0,
                  SW_ERR_INCOMPLETE, "OPT-8", "there is no model beside them; give the names");
    sw_checkpoint_close(c);
}

static void test_stored_names(void **state)
{
    sw_checkpoint *c = checkpoint_of(harness_path(*state, "ckpt"), MODEL);
    lifted l;
    run_lift(&l, c,
             PICKLE(OPTIMIZER(I(0) DICT(S("m") T(10)),
                              DICT(S("params") LIST(I(0) I(1)) S("param_names")
                                       LIST(S("_orig_mod.z") S("_orig_mod.y"))))),
             false, NULL, 0);
    assert_ok(l.status, &l.err);
    assert_true(l.items[0].has_param_names);
    check_shows(&l.items[0], "z m=<tensor 10>\ngroup z y:\n");
    lifted_free(&l);
    check_refused(
        c, PICKLE(OPTIMIZER("", DICT(S("params") LIST(I(0) I(1)) S("param_names") LIST(S("z"))))),
        true, NULL, 0, SW_ERR_CONFLICT, "OPT-6", "1 names for the 2 parameters");
    sw_checkpoint_close(c);
}

static void test_order_not_known(void **state)
{
    sw_checkpoint *c = checkpoint_of(harness_path(*state, "ckpt"), MODEL);
    lifted l;
    check_refused(c, PICKLE(OPTIMIZER(I(0) DICT(S("m") T(9)), DICT(S("params") LIST(I(0))))), false,
                  NULL, 0, SW_ERR_CONFLICT, "OPT-8",
                  "number 0 may be \"0.w\" or \"1.w\": the order of the model's parameters is not "
                  "known here");
    sw_checkpoint_close(c);
    c = checkpoint_of(harness_path(*state, "other"), "model/a 2, model/b 3, s/x 3, s/y 2, s/z 9");
    run_lift(&l, c,
             PICKLE(OPTIMIZER(I(0) DICT(S("m") T(2)) I(1) DICT(S("m") T(3)),
                              DICT(S("params") LIST(I(0) I(1))))),
             false, NULL, 0);
    assert_ok(l.status, &l.err);
    check_shows(&l.items[0], "b m=<tensor 2>\na m=<tensor 3>\ngroup b a:\n");
    lifted_free(&l);
    check_refused(c, PICKLE(OPTIMIZER(I(0) DICT(S("m") T(4)), DICT(S("params") LIST(I(0))))), false,
                  NULL, 0, SW_ERR_INCOMPLETE, "OPT-8", "number 0 (shape 9) finds no place");
    sw_checkpoint_close(c);
}

static void test_which_model(void **state)
{
    const char *const pickle =
        PICKLE(OPTIMIZER(I(0) DICT(S("m") T(2)), DICT(S("params") LIST(I(0)))));
    sw_checkpoint *c =
        checkpoint_of(harness_path(*state, "ckpt"), "model/a 3, model_ema/b 3, s/x 3");
    check_lifts(c, pickle, SWI_OPT_NESTED_IDS, "", "a m=<tensor 2>\ngroup a:\n");
    sw_checkpoint_close(c);
    c = checkpoint_of(harness_path(*state, "other"), "model_a/a 3, model_b/b 3, s/x 3");
    check_refused(c, pickle, true, NULL, 0, SW_ERR_CONFLICT, "OPT-7",
                  "\"model_a\" or \"model_b\" may be its model");
    sw_checkpoint_close(c);
}

/* Many alike tensors in two groups: the search says "two fit" at once, and "none" without trying
 * all ways. */
static void test_the_search_is_bounded(void **state)
{
    swi_buf tensors = {0}, pickle = {0};
    sw_error err = {0};
    for (int i = 0; i < 40; i++)
        must(swi_buf_printf(&tensors, &err, "model/p%d 4, ", i));
    must(swi_buf_append_str(&tensors, "s/x 4, s/y 5", &err));
    must(swi_buf_u8(&tensors, 0, &err));
    sw_checkpoint *c = checkpoint_of(harness_path(*state, "ckpt"), (const char *)tensors.data);
    for (int wrong = 0; wrong < 2; wrong++) {
        pickle.size = 0;
        must(swi_buf_append_str(&pickle,
                                "PROTO 4 ; EMPTY_DICT ; MARK ; BINUNICODE state ; "
                                "EMPTY_DICT ; MARK ; ",
                                &err));
        for (int i = 0; i < 30; i++)
            must(swi_buf_printf(&pickle, &err,
                                "BININT1 %d ; EMPTY_DICT ; BINUNICODE m ; BININT1 %d ; BINPERSID ; "
                                "SETITEM ; ",
                                i, wrong && i == 29 ? 41 : 40));
        must(swi_buf_append_str(&pickle,
                                "SETITEMS ; BINUNICODE param_groups ; EMPTY_LIST ; MARK ; ", &err));
        for (int g = 0; g < 2; g++) {
            must(swi_buf_append_str(&pickle,
                                    "EMPTY_DICT ; BINUNICODE params ; EMPTY_LIST ; MARK ; ", &err));
            for (int i = 0; i < 15; i++)
                must(swi_buf_printf(&pickle, &err, "BININT1 %d ; ", g * 15 + i));
            must(swi_buf_append_str(&pickle, "APPENDS ; SETITEM ; ", &err));
        }
        must(swi_buf_append_str(&pickle, "APPENDS ; SETITEMS ; STOP", &err));
        must(swi_buf_u8(&pickle, 0, &err));
        check_refused(c, (const char *)pickle.data, true, NULL, 0,
                      wrong ? SW_ERR_INCOMPLETE : SW_ERR_CONFLICT, "OPT-8",
                      wrong ? "number 29 (shape 5) finds no place"
                            : "both fit all shapes in order");
    }
    swi_buf_free(&tensors);
    swi_buf_free(&pickle);
    sw_checkpoint_close(c);
}

/* ---- lowering
 * ------------------------------------------------------------------------------------ */

static void check_lowers(const swi_optimizer *o, swi_opt_keying keying, const char *expected)
{
    sw_value_graph *g;
    sw_value v;
    sw_error err = {0};
    must(swi_graph_make(NULL, &g, &err));
    must(swi_optimizer_lower(o, keying, g, &v, &err));
    check_value(g, v, expected);
    sw_value_graph_free(g);
    must(swi_optimizer_lower(o, keying, o->from->graph, &v, &err));
    check_value(o->from->graph, v, expected);
}

static void test_lower(void **state)
{
    sw_checkpoint *c = checkpoint_of(harness_path(*state, "ckpt"), "model/a 4x3, opt/x 4x3");
    lifted l;
    run_lift(
        &l, c,
        PICKLE(DICT(S("state") DICT(S("b") DICT(S("m") T(1)) S("a") DICT(S("step") I(3)))
                        S("param_groups") LIST(DICT(S("lr") I(1) S("params") LIST(S("b"))) DICT(
                            S("lr") "NONE ; " S("params") LIST(S("a") S("c")))) S("more") I(9))),
        true, NULL, 0);
    assert_ok(l.status, &l.err);
    check_lowers(&l.items[0], SWI_OPT_NESTED_NAMES,
                 "{\"state\": {\"b\": {\"m\": <tensor 1>}, \"a\": {\"step\": 3}}, "
                 "\"param_groups\": [{\"lr\": 1, \"params\": [\"b\"]}, "
                 "{\"lr\": None, \"params\": [\"a\", \"c\"]}], \"more\": 9}");
    check_lowers(&l.items[0], SWI_OPT_NESTED_IDS,
                 "{\"state\": {0: {\"m\": <tensor 1>}, 1: {\"step\": 3}}, "
                 "\"param_groups\": [{\"lr\": 1, \"params\": [0]}, "
                 "{\"lr\": None, \"params\": [1, 2]}], \"more\": 9}");
    check_lowers(&l.items[0], SWI_OPT_FLAT,
                 "{\"state.b.m\": <tensor 1>, \"state.a.step\": 3, \"param_groups.b.lr\": 1, "
                 "\"param_groups.a.lr\": None, \"param_groups.c.lr\": None, \"more\": 9}");
    l.items[0].has_param_names = true;
    check_lowers(&l.items[0], SWI_OPT_NESTED_IDS,
                 "{\"state\": {0: {\"m\": <tensor 1>}, 1: {\"step\": 3}}, "
                 "\"param_groups\": [{\"lr\": 1, \"param_names\": [\"b\"], \"params\": [0]}, "
                 "{\"lr\": None, \"param_names\": [\"a\", \"c\"], \"params\": [1, 2]}], "
                 "\"more\": 9}");
    lifted_free(&l);
    sw_checkpoint_close(c);
}

static void check_lower_refused(const sw_checkpoint *c, const char *pickle, swi_opt_keying keying,
                                sw_status status, const char *text)
{
    lifted l;
    sw_error err = {0};
    sw_value v = {66};
    run_lift(&l, c, pickle, true, NULL, 0);
    assert_ok(l.status, &l.err);
    assert_int_equal(swi_optimizer_lower(&l.items[0], keying, l.state.graph, &v, &err), status);
    assert_error(&err, status, text);
    assert_string_equal(err.clause, "OPT-10");
    assert_true(v.bits == 66);
    lifted_free(&l);
}

static void test_lower_refused(void **state)
{
    sw_checkpoint *c = checkpoint_of(harness_path(*state, "ckpt"), "model/a 4x3");
    check_lower_refused(c, PICKLE(OPTIMIZER(S("a") DICT(S("m") I(1)), DICT(S("params") LIST()))),
                        SWI_OPT_NESTED_IDS, SW_ERR_CONFLICT, "\"a\" has states but is in no group");
    check_lower_refused(c, PICKLE(OPTIMIZER("", DICT(S("a.b") I(1) S("params") LIST(S("a"))))),
                        SWI_OPT_FLAT, SW_ERR_UNSUPPORTED,
                        "a setting of \"a\" has a name that cannot be flattened");
    check_lower_refused(c,
                        PICKLE(OPTIMIZER(S("a") DICT(S("b.c") I(1)) S("a.b") DICT(S("c") I(1)),
                                         DICT(S("params") LIST(S("a") S("a.b"))))),
                        SWI_OPT_FLAT, SW_ERR_CONFLICT, "two things get the key \"state.a.b.c\"");
    sw_checkpoint_close(c);
}

/* ---- there and back ---------------------------------------------------------------------------
 */

static void set_pair(sw_value_graph *g, sw_value dict, const char *key, sw_value v)
{
    sw_value pair[2] = {{0}, v};
    sw_error err = {0};
    must(swi_graph_text(g, SW_VALUE_STR, key, strlen(key), &pair[0], &err));
    must(swi_graph_set_items(g, dict, pair, 1, &err));
}

static sw_value random_value(harness_prng *prng, sw_value_graph *g)
{
    sw_error err = {0};
    sw_value v = swi_value_none(), items[2];
    switch (harness_random_below(prng, 6)) {
    case 0:
        must(swi_graph_int(g, (int64_t)harness_random(prng), &v, &err));
        return v;
    case 1:
        must(swi_graph_float(g, (double)harness_random_below(prng, 1000) / 7, &v, &err));
        return v;
    case 2:
        items[0] = swi_value_of_bool(true);
        must(swi_graph_int(g, 5, &items[1], &err));
        must(swi_graph_sequence(g, SW_VALUE_TUPLE, items, 2, &v, &err));
        return v;
    case 3:
        return swi_value_of_tensor((uint32_t)harness_random_below(prng, 3) + 20);
    case 4:
        return swi_value_of_bool(false);
    default:
        return v;
    }
}

/* An optimizer over the model's 20 parameters, in up to 3 groups; some have no states. */
static sw_value random_optimizer(harness_prng *prng, sw_value_graph *g, bool frozen)
{
    sw_error err = {0};
    sw_value root, states, groups, group[3], params[3];
    size_t count = 1 + harness_random_below(prng, 3);
    must(swi_graph_dict(g, &root, &err));
    must(swi_graph_dict(g, &states, &err));
    must(swi_graph_sequence(g, SW_VALUE_LIST, NULL, 0, &groups, &err));
    for (size_t i = 0; i < count; i++) {
        must(swi_graph_dict(g, &group[i], &err));
        must(swi_graph_sequence(g, SW_VALUE_LIST, NULL, 0, &params[i], &err));
        sw_value number;
        must(swi_graph_int(g, (int64_t)i, &number, &err));
        set_pair(g, group[i], "group", number);
        set_pair(g, group[i], "lr", random_value(prng, g));
        set_pair(g, group[i], "betas", random_value(prng, g));
        must(swi_graph_append(g, groups, &group[i], 1, &err));
    }
    for (size_t i = 0; i < 20; i++) {
        char name[16];
        sw_value dict, key;
        size_t at = i < count ? i : harness_random_below(prng, count);
        snprintf(name, sizeof name, "p%zu.w", i);
        must(swi_graph_text(g, SW_VALUE_STR, name, strlen(name), &key, &err));
        must(swi_graph_append(g, params[at], &key, 1, &err));
        if (frozen && harness_random_below(prng, 5) == 0)
            continue;
        must(swi_graph_dict(g, &dict, &err));
        set_pair(g, dict, "step", random_value(prng, g));
        set_pair(g, dict, "exp_avg", swi_value_of_tensor((uint32_t)i)); /* of the right shape */
        set_pair(g, states, name, dict);
    }
    for (size_t i = 0; i < count; i++)
        set_pair(g, group[i], "params", params[i]);
    set_pair(g, root, "state", states);
    set_pair(g, root, "param_groups", groups);
    return root;
}

/* The lines of show() in order, so that the order of states does not count. */
static char *sorted_lines(char *text)
{
    char *lines[200];
    swi_buf out = {0};
    sw_error err = {0};
    size_t count = 0;
    for (char *line = strtok_r(text, "\n", &text); line != NULL; line = strtok_r(NULL, "\n", &text))
        lines[count++] = line;
    qsort(lines, count, sizeof lines[0], text_order);
    for (size_t i = 0; i < count; i++)
        must(swi_buf_printf(&out, &err, "%s\n", lines[i]));
    must(swi_buf_u8(&out, 0, &err));
    return (char *)out.data;
}

static void test_there_and_back(void **state)
{
    swi_buf tensors = {0};
    sw_error err = {0};
    harness_prng prng = {42};
    for (int i = 0; i < 20; i++)
        must(swi_buf_printf(&tensors, &err, "model/p%d.w %d, ", i, i + 1));
    must(swi_buf_append_str(&tensors, "s/x, s/y 7x9x9, s/z 9x9x9", &err));
    must(swi_buf_u8(&tensors, 0, &err));
    sw_checkpoint *c = checkpoint_of(harness_path(*state, "ckpt"), (const char *)tensors.data);
    for (int round = 0; round < 300; round++) {
        swi_state s = {.ordered = true};
        swi_optimizer *first, *second;
        size_t count;
        must(swi_graph_make(NULL, &s.graph, &err));
        s.root = random_optimizer(&prng, s.graph, round % 2 == 1);
        must(swi_optimizers_lift(c, &s, NULL, &first, &count, &err));
        assert_int_equal(count, 1);
        /* what is frozen is not known by its shape */
        first->has_param_names = round % 2 == 1;
        for (int keying = SWI_OPT_NESTED_NAMES; keying <= SWI_OPT_FLAT; keying++) {
            swi_state t = {.ordered = true};
            must(swi_graph_make(NULL, &t.graph, &err));
            must(swi_optimizer_lower(first, (swi_opt_keying)keying, t.graph, &t.root, &err));
            must(swi_optimizers_lift(c, &t, NULL, &second, &count, &err));
            assert_int_equal(count, 1);
            assert_int_equal(second->keying, keying);
            /* flattened, what has no states stands last */
            bool flat = keying == SWI_OPT_FLAT;
            char *a = show(first, flat), *b = show(second, flat);
            char *x = sorted_lines(a), *y = sorted_lines(b);
            assert_string_equal(x, y);
            free(a);
            free(b);
            free(x);
            free(y);
            swi_optimizers_free(second, count);
            swi_state_free(&t);
        }
        swi_optimizers_free(first, 1);
        swi_state_free(&s);
    }
    swi_buf_free(&tensors);
    sw_checkpoint_close(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        test_in_dir(test_nested_names),
        test_in_dir(test_other_places),
        test_in_dir(test_two_optimizers),
        test_in_dir(test_flat),
        test_in_dir(test_refused),
        test_in_dir(test_decay_and_no_decay),
        test_in_dir(test_buffers_and_ties_are_left_out),
        test_in_dir(test_two_assignments_are_refused),
        test_in_dir(test_frozen_parameters_keep_their_place),
        test_in_dir(test_scalars),
        test_in_dir(test_factors),
        test_in_dir(test_none_fits),
        test_in_dir(test_stored_names),
        test_in_dir(test_order_not_known),
        test_in_dir(test_which_model),
        test_in_dir(test_the_search_is_bounded),
        test_in_dir(test_lower),
        test_in_dir(test_lower_refused),
        test_in_dir(test_there_and_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
