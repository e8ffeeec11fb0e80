/* The order of a model's parameters, and the side that names are nearest to. */
#include "map_fixture.h"

#include "map/holding.h"
#include "map/registration.h"

static const char text[] =
    "map: 1\nname: m\nlet: {N: config.n}\n"
    "sides: {a: {config: config.json}, b: {}}\ntensors:\n"
    "  - {a: z.late, shape: [N], b: late, tie: {to: embed}}\n"
    "  - {a: embed, shape: [N], b: embed}\n"
    "  - repeat: {n: 2}\n"
    "    tensors:\n"
    "      - {a: 'l.{n}.w', shape: [N], b: 'h.{n}.w'}\n"
    "      - {a: 'l.{n}.mean', shape: [N], buffer: true, b: 'h.{n}.mean'}\n"
    "      - {a: 'l.{n}.scale', shape: [], fill: 1.0, dtype: float32,\n"
    "         b: 'h.{n}.scale'}\n"
    "      - {a: 'l.{n}.bias', shape: [N], optional: true, b: 'h.{n}.bias'}\n"
    "  - {a: head, shape: [N], b: head, tie: {to: embed}}\n"
    "  - {a: only, shape: [N]}\n";

static swi_model *make(void)
{
    swi_model *m = NULL;
    sw_error err = {0};
    assert_ok(make_model(text, "{\"n\": 4}", SIZE_MAX, NULL, &m, &err), &err);
    return m;
}

/* Names between blanks. */
static size_t split(char *names, swi_named *out)
{
    size_t count = 0;
    for (char *word; (word = strsep(&names, " ")) != NULL;) {
        if (word[0] == '\0')
            continue;
        out[count] = (swi_named){.name = word, .tensor = (uint32_t)count};
        count++;
    }
    return count;
}

static void assert_order(const swi_model *m, size_t side, const char *have, const char *expected)
{
    char names[512], got[512] = "";
    swi_named named[32];
    swi_param_names out = {0};
    sw_error err = {0};
    snprintf(names, sizeof names, "%s", have);
    const size_t count = split(names, named);
    assert_ok(swi_registration_of(m, side, named, count, &out, &err), &err);
    for (size_t i = 0; i < out.count; i++)
        snprintf(got + strlen(got), sizeof got - strlen(got), "%s%s", i > 0 ? " " : "",
                 out.items[i]);
    assert_string_equal(got, expected);
    swi_param_names_free(&out);
}

/* No buffers, no constants, the first of what is tied, what is optional where it is there. */
static void test_order(void **state)
{
    (void)state;
    swi_model *m = make();
    assert_order(m, 0, "", "z.late l.0.w l.1.w only");
    assert_order(m, 0, "l.1.bias l.0.mean embed", "z.late l.0.w l.1.w l.1.bias only");
    assert_order(m, 1, "h.0.bias l.1.bias", "late h.0.w h.0.bias h.1.w");
    swi_model_free(m);
}

static void assert_nearest(const swi_model *m, const char *have, size_t expected)
{
    char names[512];
    swi_named named[32];
    sw_error err = {0};
    size_t side = 99;
    snprintf(names, sizeof names, "%s", have);
    const size_t count = split(names, named);
    assert_ok(swi_model_nearest(m, named, count, &side, &err), &err);
    assert_int_equal(side, expected);
}

static void test_nearest(void **state)
{
    (void)state;
    swi_model *m = make();
    assert_nearest(m, "z.late l.0.w l.1.w only", 0);
    assert_nearest(m, "late h.0.w", 1);
    assert_nearest(m, "h.1.w x y z", 1);
    assert_nearest(m, "embed l.0.w h.0.w h.1.w", 1);
    /* both are as near: the first */
    assert_nearest(m, "nothing known", 0);
    assert_nearest(m, "", 0);
    swi_model_free(m);
}

/* One that knows a name is nearer than one that knows none, however small that is. */
static void test_nearest_of_sizes(void **state)
{
    (void)state;
    static const char sizes[] = "map: 1\nname: m\nlet: {N: config.n}\n"
                                "sides: {a: {config: config.json}, b: {}}\ntensors:\n"
                                "  - {a: x, shape: [N]}\n"
                                "  - repeat: {n: 20}\n"
                                "    tensors:\n"
                                "      - {b: 'l.{n}', shape: [N]}\n";
    swi_model *m = NULL;
    sw_error err = {0};
    assert_ok(make_model(sizes, "{\"n\": 4}", SIZE_MAX, NULL, &m, &err), &err);
    assert_nearest(m, "l.0", 1);
    assert_nearest(m, "y", 0);
    assert_nearest(m, "x", 0);
    swi_model_free(m);
}

static void test_holding(void **state)
{
    (void)state;
    swi_model *m = make();
    char names[] = "embed head l.0.w l.0.mean l.1.scale typo";
    swi_named named[8];
    swi_holding h = {0};
    swi_tied_pair pair;
    sw_error err = {0};
    uint32_t atom = 0;
    const size_t count = split(names, named);
    assert_ok(swi_holding_make(m, 0, named, count, &h, &err), &err);
    assert_int_equal(h.known, 5);
    assert_int_equal(h.unknown, 1);
    assert_string_equal(h.first_unknown, "typo");
    /* l.0.scale, l.1.w, l.1.mean, only; z.late is tied to what is there */
    assert_int_equal(h.missing, 4);
    assert_string_equal(h.first_missing, "l.0.scale");
    assert_true(swi_holding_tied(&h, &atom, &pair));
    assert_string_equal(pair.name, "z.late");
    assert_string_equal(pair.other, "embed");
    assert_int_equal(pair.tensor, SWI_NO_TENSOR);
    assert_int_equal(pair.other_tensor, 0);
    assert_true(swi_holding_tied(&h, &atom, &pair));
    assert_string_equal(pair.name, "head");
    assert_int_equal(pair.tensor, 1);
    assert_true(pair.plain);
    assert_false(swi_holding_tied(&h, &atom, &pair));
    swi_holding_free(&h);
    swi_model_free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order),
        cmocka_unit_test(test_nearest),
        cmocka_unit_test(test_nearest_of_sizes),
        cmocka_unit_test(test_holding),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
