/*
 * Parameters become rows and states follow (FS-21 to FS-24). Every element of a source tensor is
 * its number times 1000 plus its flat index, so that any other order shows.
 */
#include "convert/optimizer_fixture.h"

#include "flat/flatten.h"
#include "flat/shapes_parts.h"
#include "state/modules.h"

#define NUMBER 1000.0F

typedef struct model {
    sw_checkpoint *source;
    swi_shapes *shapes;
    swi_rows rows;
    int64_t *tensors;
    swi_flat_module flat;
} model;

/* ---- a source -------------------------------------------------------------------------------- */

/* "a.w 4x3, a.b 5": the shape behind the name; returns what follows. */
static const char *next(const char *text, char *name, size_t room, uint32_t *axes, int64_t *shape)
{
    size_t n = strcspn(text, " ,");
    snprintf(name, room, "%.*s", (int)n, text);
    text += n;
    text += strspn(text, " ");
    *axes = 0;
    while (isdigit((unsigned char)*text)) {
        char *end;
        shape[(*axes)++] = strtol(text, &end, 10);
        text = end + (*end == 'x');
    }
    return text + strspn(text, ", ");
}

/* A DCP folder with these tensors, in rows on three ranks. */
static sw_checkpoint *source_of(const char *dir, const char *tensors)
{
    dcp_world *w = dcp_begin();
    for (int number = 0; *tensors != '\0'; number++) {
        char name[96];
        int64_t shape[4];
        uint32_t axes;
        tensors = next(tensors, name, sizeof name, &axes, shape);
        dcp_item *it = dcp_tensor(w, name, axes, shape, NUMBER * (float)number);
        int64_t offset[4] = {0}, length[4];
        memcpy(length, shape, sizeof length);
        const int64_t all = axes > 0 ? shape[0] : 1, each = (all + 2) / 3;
        for (int r = 0; r < (axes > 0 ? 3 : 1) && offset[0] < all; r++) {
            length[0] = all - offset[0] < each ? all - offset[0] : each;
            dcp_chunk(w, it, r, offset, length);
            offset[0] += length[0];
        }
    }
    dcp_end(w, dir);
    return open_good(dir);
}

/* The shapes "a.w 4x3"; "=b.w c.w": another name b.w of c.w; "!x 3": a buffer. */
static swi_shapes *shapes_of(const char *text)
{
    swi_shapes *s = NULL;
    sw_error err = {0};
    must(swi_shapes_make("the test", &s, &err));
    while (*text != '\0') {
        char name[96];
        swi_shape item = {.name = name, .tied_to = -1};
        const char kind = *text;
        text += kind == '=' || kind == '!';
        text = next(text, name, sizeof name, &item.axes, item.shape);
        item.buffer = kind == '!';
        if (kind == '=') {
            char owner[96];
            uint32_t axes;
            int64_t shape[4];
            text = next(text, owner, sizeof owner, &axes, shape);
            const swi_shape *to = &s->items[swi_shapes_find(s, owner)];
            item.axes = to->axes;
            item.tied_to = to - s->items;
            memcpy(item.shape, to->shape, sizeof item.shape);
        }
        must(swi_shapes_add(s, &item, &err));
    }
    return s;
}

/* In place: tensors of the source that are called as a parameter, behind "model.". */
static void model_begin(model *m, const char *dir, const char *tensors, const char *shapes,
                        const char *const *units, size_t count)
{
    sw_error err = {0};
    *m = (model){.source = source_of(dir, tensors), .shapes = shapes_of(shapes)};
    must(swi_rows_of_units(m->shapes, NULL, units, count, &m->rows, &err));
    for (size_t r = 0; r < m->rows.count; r++)
        must(swi_row_place(&m->rows.items[r], 1, 1, &err));
    m->tensors = calloc(m->shapes->count + 1, sizeof *m->tensors);
    assert_non_null(m->tensors);
    for (size_t i = 0; i < m->shapes->count; i++) {
        char name[128];
        snprintf(name, sizeof name, "model.%s", m->shapes->items[i].name);
        m->tensors[i] = sw_catalog_find(sw_checkpoint_catalog(m->source), name);
    }
    m->flat = (swi_flat_module){.shapes = m->shapes, .rows = &m->rows, .tensors = m->tensors};
}

static void model_free(model *m)
{
    swi_rows_free(&m->rows);
    swi_shapes_free(m->shapes);
    free(m->tensors);
    sw_checkpoint_close(m->source);
}

/* The dict "model" of the state. */
static sw_value module_dict(const swi_state *s)
{
    sw_value dict;
    assert_true(swi_value_get(s->graph, s->root, "model", &dict));
    return dict;
}

static sw_status flatten(const model *m, swi_state *s, sw_checkpoint **out, sw_error *err)
{
    swi_flattening *f = NULL;
    sw_error bad = {0};
    assert_ok(swi_flatten_begin(m->source, &f, &bad), &bad);
    sw_status st = swi_flatten_module(f, s->graph, module_dict(s), &m->flat, err);
    if (st == SW_OK)
        st = swi_flatten_end(f, out, err);
    swi_flatten_free(f);
    return st;
}

/* Runs of "number first count", all of a tensor. */
static void expect_elements(const sw_checkpoint *c, uint32_t tensor, const float *want,
                            size_t count)
{
    sw_tensor_info info;
    sw_error err = {0};
    assert_true(sw_catalog_tensor(sw_checkpoint_catalog(c), tensor, &info));
    assert_int_equal(info.axes, 1);
    assert_int_equal(info.elements, count);
    assert_int_equal(info.held_elements, count);
    float *data = calloc(count + 1, sizeof *data);
    assert_non_null(data);
    must(sw_checkpoint_read(c, tensor, 0, count, data, &err));
    for (size_t i = 0; i < count; i++)
        if (data[i] != want[i])
            fail_msg("%s: element %zu is %g, not %g", info.name, i, (double)data[i],
                     (double)want[i]);
    free(data);
}

static size_t put_ramp(float *out, size_t at, int number, size_t count)
{
    for (size_t i = 0; i < count; i++)
        out[at + i] = NUMBER * (float)number + (float)i;
    return at + count;
}

static uint32_t tensor_in(const swi_state *s, sw_value dict, const char *key)
{
    sw_value v;
    uint32_t tensor = 0;
    if (!swi_value_get(s->graph, dict, key, &v))
        fail_msg("no key %s", key);
    assert_true(sw_value_tensor(s->graph, v, &tensor));
    return tensor;
}

/* ---- modules --------------------------------------------------------------------------------- */

#define TENSORS                                                                                    \
    "model/embed 4x3, model/layers.0.w 5x2, model/layers.0.b 7, model/layers.1.w 2x2x2, "          \
    "model/layers.1.count, model/head 4x3, model/norm 1"
#define SHAPES "embed 4x3, layers.0.w 5x2, layers.0.b 7, layers.1.w 2x2x2, !layers.1.count, norm 1"
#define STATE                                                                                      \
    PICKLE(DICT(S("model") DICT(S("embed") T(0) S("layers.0.w") T(1) S("layers.0.b") T(2) S(       \
        "layers.1.w") T(3) S("layers.1.count") T(4) S("head") T(5) S("norm") T(6))))

static void rows_are_made(void **state)
{
    static const char *const units[] = {"layers.0", "layers.1"};
    model m;
    model_begin(&m, *state, TENSORS, SHAPES ", head 4x3", units, 2);
    swi_state s = state_of_text(STATE, 0);
    sw_checkpoint *c = NULL;
    sw_error err = {0};
    float want[64];
    must(flatten(&m, &s, &c, &err));
    const sw_value dict = module_dict(&s);
    /* the root first: it is above the others; the buffer stays, behind the rows */
    assert_int_equal(sw_value_size(s.graph, dict), 4);
    size_t n = put_ramp(want, 0, 0, 12);
    n = put_ramp(want, n, 6, 1);
    n = put_ramp(want, n, 5, 12);
    expect_elements(c, tensor_in(&s, dict, "_flat_param"), want, n);
    n = put_ramp(want, 0, 1, 10);
    n = put_ramp(want, n, 2, 7);
    expect_elements(c, tensor_in(&s, dict, "layers.0._flat_param"), want, n);
    n = put_ramp(want, 0, 3, 8);
    expect_elements(c, tensor_in(&s, dict, "layers.1._flat_param"), want, n);
    assert_int_equal(tensor_in(&s, dict, "layers.1.count"), 4);
    /* those of the source keep their numbers, and the result says how many they are */
    assert_int_equal(swi_checkpoint_own_tensors(c), 7);
    assert_int_equal(sw_catalog_tensor_count(sw_checkpoint_catalog(c)), 10);
    sw_checkpoint_close(c);
    swi_state_free(&s);
    model_free(&m);
}

/* The other name of a tied one is in no row and nowhere; where the source has it alone it is taken.
 */
static void ties_are_there_once(void **state)
{
    static const char *const of[] = {"tied", "alone"};
    for (int i = 0; i < 2; i++) {
        model m;
        model_begin(&m, harness_path(*state, "%s", of[i]),
                    "model/embed 4x3, model/norm 2, model/head 4x3",
                    "embed 4x3, norm 2, =head embed", NULL, 0);
        swi_state s = state_of_text(
            i == 0 ? PICKLE(DICT(S("model") DICT(S("embed") T(0) S("norm") T(1) S("head") T(0))))
                   : PICKLE(DICT(S("model") DICT(S("norm") T(1) S("head") T(2)))),
            0);
        sw_checkpoint *c = NULL;
        sw_error err = {0};
        float want[14];
        m.tensors[2] = i == 0 ? m.tensors[0] : m.tensors[2];
        m.tensors[0] = i == 0 ? m.tensors[0] : -1;
        must(flatten(&m, &s, &c, &err));
        assert_int_equal(sw_value_size(s.graph, module_dict(&s)), 1);
        (void)put_ramp(want, put_ramp(want, 0, i == 0 ? 0 : 2, 12), 1, 2);
        expect_elements(c, tensor_in(&s, module_dict(&s), "_flat_param"), want, 14);
        sw_checkpoint_close(c);
        swi_state_free(&s);
        model_free(&m);
    }
}

static void refused_modules(void **state)
{
    static const struct {
        const char *shapes;
        sw_status status;
        const char *says;
    } cases[] = {
        {"embed 4x3, layers.0.w 5x2, layers.0.b 7, layers.1.w 2x2x2, !layers.1.count, norm 1, "
         "=head embed",
         SW_ERR_CONFLICT,
         "\"head\" and \"embed\" are said to be tied (the test), but they differ, first at [0, 0]"},
        {SHAPES ", head 4x3, lost 3", SW_ERR_INCOMPLETE,
         "parameter \"lost\" is not in the source, and the flat parameter of module \"\" needs it"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        model m;
        model_begin(&m, harness_path(*state, "%zu", i), TENSORS, cases[i].shapes, NULL, 0);
        swi_state s = state_of_text(STATE, 0);
        sw_checkpoint *c = NULL;
        sw_error err = {0};
        assert_int_equal(flatten(&m, &s, &c, &err), cases[i].status);
        assert_error(&err, cases[i].status, cases[i].says);
        assert_string_equal(err.clause, "FS-21");
        assert_null(c);
        assert_int_equal(sw_value_size(s.graph, module_dict(&s)), 7); /* untouched */
        swi_state_free(&s);
        model_free(&m);
    }
}

/* Any parameters in any units: each row is theirs, one behind the other. */
static void any_module(void **state)
{
    harness_prng prng = {.state = 61};
    for (int round = 0; round < 60; round++) {
        char tensors[1024] = "", shapes[1024] = "",
             pickle[2048] = "PROTO 4 ; EMPTY_DICT ; MARK ; "
                            "BINUNICODE 'model' ; "
                            "EMPTY_DICT ; MARK ; ";
        static const char *const units[] = {"u0", "u1", "u2"};
        const size_t count = 1 + harness_random_below(&prng, 9);
        const size_t wrapped = harness_random_below(&prng, 4);
        size_t elements[10], unit[10];
        for (size_t i = 0; i < count; i++) {
            char one[96];
            unit[i] = harness_random_below(&prng, 4);
            const size_t a = 1 + harness_random_below(&prng, 5), b = harness_random_below(&prng, 4);
            const bool flat = b == 0;
            snprintf(one, sizeof one, flat ? "%s%zu.p%zu %zu, " : "%s%zu.p%zu %zux%zu, ", "u",
                     unit[i], i, a, b);
            elements[i] = flat ? a : a * b;
            snprintf(shapes + strlen(shapes), sizeof shapes - strlen(shapes), "%s", one);
            snprintf(tensors + strlen(tensors), sizeof tensors - strlen(tensors), "model/%s", one);
            snprintf(pickle + strlen(pickle), sizeof pickle - strlen(pickle),
                     "BINUNICODE 'u%zu.p%zu' ; BININT1 %zu ; BINPERSID ; ", unit[i], i, i);
        }
        snprintf(pickle + strlen(pickle), sizeof pickle - strlen(pickle),
                 "SETITEMS ; SETITEMS ; STOP");
        model m;
        model_begin(&m, harness_path(*state, "r%d", round), tensors, shapes, units, wrapped);
        swi_state s = state_of_text(pickle, 0);
        sw_checkpoint *c = NULL;
        sw_error err = {0};
        must(flatten(&m, &s, &c, &err));
        size_t rows = 0;
        for (size_t u = 0; u <= wrapped; u++) { /* the last: the root, and what is in no unit */
            float want[256];
            char key[64] = "_flat_param";
            size_t n = 0;
            for (size_t i = 0; i < count; i++)
                if (u < wrapped ? unit[i] == u : unit[i] >= wrapped)
                    n = put_ramp(want, n, (int)i, elements[i]);
            if (n == 0)
                continue;
            if (u < wrapped)
                snprintf(key, sizeof key, "u%zu._flat_param", u);
            expect_elements(c, tensor_in(&s, module_dict(&s), key), want, n);
            rows++;
        }
        assert_int_equal(sw_value_size(s.graph, module_dict(&s)), rows);
        sw_checkpoint_close(c);
        swi_state_free(&s);
        model_free(&m);
    }
}

/* ---- optimizers ------------------------------------------------------------------------------ */

#define OPT_TENSORS                                                                                \
    "model/a 2x3, model/u.b 5, model/u.c 2, m/a 2x3, m/b 5, m/c 2, s/a, s/b, s/c, v/c 3, s/two 2"
#define OPT_SHAPES "a 2x3, u.b 5, u.c 2"
#define MODEL S("model") DICT(S("a") T(0) S("u.b") T(1) S("u.c") T(2))
#define ONE(name, m, s) S(name) DICT(S("step") s S("exp_avg") m)
#define GROUP(wd, params) DICT(S("weight_decay") I(wd) S("params") LIST(params))
#define OPT(states, groups) PICKLE(DICT(MODEL S("optimizer") OPTIMIZER(states, groups)))
#define GOOD_GROUPS GROUP(1, S("u.c") S("u.b")) GROUP(2, S("a"))
#define GOOD_STATES ONE("u.b", T(4), I(7)) ONE("u.c", T(5), I(7)) ONE("a", T(3), I(9))

typedef struct trained {
    model m;
    swi_state s;
    swi_optimizer *o;
    size_t count;
} trained;

/* In place: an optimizer knows the state that it is from. */
static void trained_begin(trained *t, const char *dir, const char *pickle)
{
    static const char *const units[] = {"u"};
    sw_error err = {0};
    *t = (trained){.s = state_of_text(pickle, 0)};
    model_begin(&t->m, dir, OPT_TENSORS, OPT_SHAPES, units, 1);
    must(swi_optimizers_lift(t->m.source, &t->s, NULL, &t->o, &t->count, &err));
    assert_int_equal(t->count, 1);
}

static void trained_free(trained *t)
{
    swi_optimizers_free(t->o, t->count);
    swi_state_free(&t->s);
    model_free(&t->m);
}

/* Moments become rows with zeros up to shards of one size; groups and numbers are those of rows. */
static void states_follow(void **state)
{
    trained t;
    swi_flattening *f = NULL;
    sw_checkpoint *c = NULL;
    sw_error err = {0};
    sw_value dict, v;
    trained_begin(&t, *state, OPT(GOOD_STATES, GOOD_GROUPS));
    must(swi_flatten_check(t.o, &t.m.flat, &err));
    must(swi_flatten_begin(t.m.source, &f, &err));
    must(swi_flatten_optimizer(f, t.o, &t.m.flat, 4, &err));
    must(swi_flatten_end(f, &c, &err));
    swi_flatten_free(f);
    must(swi_optimizer_lower(t.o, SWI_OPT_NESTED_IDS, t.s.graph, &dict, &err));
    assert_true(swi_value_get(t.s.graph, dict, "param_groups", &v));
    check_value(t.s.graph, v,
                "[{\"weight_decay\": 1, \"params\": [0]}, {\"weight_decay\": 2, \"params\": [1]}]");
    assert_true(swi_value_get(t.s.graph, dict, "state", &v));
    check_value(t.s.graph, v,
                "{1: {\"step\": 9, \"exp_avg\": <tensor 11>}, "
                "0: {\"step\": 7, \"exp_avg\": <tensor 12>}}");
    float want[8];
    size_t n = put_ramp(want, 0, 3, 6);
    want[n++] = 0;
    want[n++] = 0;
    expect_elements(c, 11, want, n); /* 6 of 4 shards of 2 */
    n = put_ramp(want, put_ramp(want, 0, 4, 5), 5, 2);
    want[n++] = 0;
    expect_elements(c, 12, want, n); /* 7 of 4 shards of 2 */
    sw_checkpoint_close(c);
    trained_free(&t);
}

/* Tensors of one element that are equal are one counter. */
static void counters_are_compared(void **state)
{
    sw_error err = {0};
    trained t;
    swi_flattening *f = NULL;
    trained_begin(&t, *state, OPT(ONE("u.b", T(4), T(6)) ONE("u.c", T(5), T(6)), GOOD_GROUPS));
    must(swi_flatten_begin(t.m.source, &f, &err));
    must(swi_flatten_optimizer(f, t.o, &t.m.flat, 2, &err));
    assert_int_equal(t.o->state_count, 2);
    swi_flatten_free(f);
    trained_free(&t);
}

static void refused_optimizers(void **state)
{
    static const struct {
        const char *pickle, *clause, *says;
    } cases[] = {
        {OPT(GOOD_STATES, GROUP(1, S("u.c")) GROUP(2, S("u.b") S("a"))), "FS-23",
         "\"u.b\" and \"u.c\" are in one wrapped module, and they are in different groups"},
        {OPT(ONE("a", T(3), I(9)), GROUP(1, S("u.c") S("a"))), "FS-23",
         "\"u.b\" and \"u.c\" are in one wrapped module, and only one of them is trained"},
        {OPT(ONE("u.b", T(4), I(7)), GOOD_GROUPS), "FS-23",
         "\"u.b\" and \"u.c\" are in one wrapped module, and only one of them has states"},
        {OPT(ONE("zz", T(4), I(7)), GROUP(1, S("zz"))), "FS-23",
         "\"zz\" is no parameter of the model (the test)"},
        {OPT(ONE("u.b", T(4), I(7)) ONE("u.c", T(5), I(8)), GOOD_GROUPS), "FS-24",
         "parameter \"u.c\": state \"step\" differs from that of others of its module"},
        {OPT(ONE("u.b", T(4), T(7)) ONE("u.c", T(5), T(8)), GOOD_GROUPS), "FS-24",
         "parameter \"u.c\": state \"step\" differs from that of others of its module"},
        {OPT(ONE("u.b", T(4), T(7)) ONE("u.c", T(5), I(7)), GOOD_GROUPS), "FS-24",
         "parameter \"u.c\": state \"step\" differs"},
        {OPT(ONE("u.b", T(4), I(7)) ONE("u.c", T(9), I(7)), GOOD_GROUPS), "FS-24",
         "parameter \"u.c\": state \"exp_avg\" has another form than in others of its module"},
        {OPT(ONE("u.b", T(9), I(7)) ONE("u.c", T(9), I(7)), GOOD_GROUPS), "FS-24",
         "parameter \"u.b\": state \"exp_avg\" has neither the parameter's shape nor one element"},
        {OPT(ONE("u.b", T(4), I(7)) S("u.c") DICT(S("step") I(7)), GOOD_GROUPS), "FS-24",
         "parameter \"u.c\": state \"exp_avg\" is missing, and others of its module have it"},
        {OPT(S("u.b") DICT(S("step") I(7)) ONE("u.c", T(5), I(7)), GOOD_GROUPS), "FS-24",
         "parameter \"u.b\": state \"exp_avg\" is missing, and others of its module have it"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        trained t;
        swi_flattening *f = NULL;
        sw_error err = {0};
        trained_begin(&t, harness_path(*state, "%zu", i), cases[i].pickle);
        if (strcmp(cases[i].clause, "FS-23") == 0) {
            assert_int_equal(swi_flatten_check(t.o, &t.m.flat, &err), SW_ERR_CONFLICT);
            assert_error(&err, SW_ERR_CONFLICT, cases[i].says);
        }
        err = (sw_error){0};
        must(swi_flatten_begin(t.m.source, &f, &err));
        assert_int_equal(swi_flatten_optimizer(f, t.o, &t.m.flat, 2, &err), SW_ERR_CONFLICT);
        assert_error(&err, SW_ERR_CONFLICT, cases[i].says);
        assert_string_equal(err.clause, cases[i].clause);
        swi_flatten_free(f);
        trained_free(&t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        test_in_dir(rows_are_made),      test_in_dir(ties_are_there_once),
        test_in_dir(refused_modules),    test_in_dir(any_module),
        test_in_dir(states_follow),      test_in_dir(counters_are_compared),
        test_in_dir(refused_optimizers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
