/* Layouts as they are written: what is read, and what is refused where (LAY-1 to LAY-7, LAY-9). */
#include "harness/harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "notation/division.h"

static sw_status parse(const char *text, swi_rules **out, sw_error *err)
{
    const sw_limits limits = sw_limits_resolve(NULL);
    return swi_rules_parse_text(text, strlen(text), "l.yaml", &limits, out, err);
}

#define HEAD "layout: 1\nmesh: {dp: 2, tp: 2}\n"
#define RULE(text) HEAD "rules:\n  - {" text "}\n"
#define RULES(a, b) HEAD "rules:\n  - {" a "}\n  - {" b "}\n"

typedef struct wrong {
    const char *text;
    sw_status status;
    const char *says;
} wrong;

static const wrong documents[] = {
    {"mesh: {dp: 2}\nrules: [{tensor: '**', dims: [dp]}]\n", SW_ERR_FORMAT,
     "l.yaml:1:1: a layout in a file of its own lacks the key \"layout\""},
    {"layout: 2\n", SW_ERR_UNSUPPORTED, "l.yaml:1:9: this is version 1 of layouts: layout: 1"},
    {"layout: \"1\"\n", SW_ERR_UNSUPPORTED, "l.yaml:1:9: this is version 1"},
    {"layout: 1\nmash: {}\n", SW_ERR_FORMAT,
     "l.yaml:2:1: unknown key \"mash\" in a layout; did you mean \"mesh\"?"},
    {"layout: 1\nmesh: {dp: 2}\n", SW_ERR_FORMAT, "a layout lacks the key \"rules\""},
    {"layout: 1\nrules: []\n", SW_ERR_FORMAT, "a layout lacks the key \"mesh\""},
    {"layout: 1\nmesh: {}\nrules: []\n", SW_ERR_FORMAT,
     "l.yaml:2:7: a mesh has 1 to 8 axes, not 0"},
    {"layout: 1\nmesh: [dp]\nrules: []\n", SW_ERR_FORMAT, "l.yaml:2:7: mesh must be a mapping"},
    {"layout: 1\nmesh: {1dp: 2}\nrules: []\n", SW_ERR_FORMAT, "l.yaml:2:8: \"1dp\" is no name"},
    {"layout: 1\nmesh: {_: 2}\nrules: []\n", SW_ERR_FORMAT, "l.yaml:2:8: \"_\" is no name"},
    {"layout: 1\nlet: {dp: 1}\nmesh: {dp: 2}\nrules: []\n", SW_ERR_FORMAT,
     "l.yaml:3:8: \"dp\" is the name of another axis or value of this layout"},
    {"layout: 1\nmesh: {dp: 2}\nmeshes: {e: {dp: 2}}\nrules: []\n", SW_ERR_FORMAT,
     "l.yaml:3:14: \"dp\" is the name of another axis"},
    {"layout: 1\nmesh: {dp: 2 +}\nrules: []\n", SW_ERR_FORMAT, "l.yaml:2:1"},
    {"layout: 1\nmesh: {dp: [2]}\nrules: []\n", SW_ERR_FORMAT,
     "l.yaml:2:12: the size of an axis must be a text, is a list"},
    {HEAD "rules: []\n", SW_ERR_FORMAT, "l.yaml:3:8: a layout has 1 to 1024 rules, not 0"},
    {HEAD "rules: {}\n", SW_ERR_FORMAT, "l.yaml:3:8: rules must be a list"},
    {"layout: 1\nunits: []\n", SW_ERR_FORMAT, "l.yaml:2:8:"},
    {"layout: 1\nunits: ['a{']\n", SW_ERR_FORMAT, "l.yaml:2:11: {...} holds the name"},
    {"layout: 1\nunits: {a: b}\n", SW_ERR_FORMAT, "l.yaml:2:8:"},
    {"layout: 1\nunits: [a]\nmesh: {dp: 1}\n", SW_ERR_FORMAT, "a layout lacks the key \"rules\""},
    {"layout: 1\nunits: [a]\nrules: []\n", SW_ERR_FORMAT, "a layout lacks the key \"mesh\""},
};

static const wrong rules[] = {
    {RULE("dims: [dp]"), SW_ERR_FORMAT, "l.yaml:4:5: a rule lacks the key \"tensor\""},
    {RULE("tensor: []"), SW_ERR_FORMAT, "l.yaml:4:14:"},
    {RULE("tensor: 'a{'"), SW_ERR_FORMAT, "l.yaml:4:1"},
    {RULE("tensor: '**'"), SW_ERR_FORMAT, "l.yaml:4:5: a rule has either dims or flat"},
    {RULE("tensor: '**', dims: [dp], flat: dp"), SW_ERR_FORMAT, "a rule has either dims or flat"},
    {RULE("tensor: '**', dims: [pp]"), SW_ERR_FORMAT,
     "l.yaml:4:27: \"pp\" is no axis of mesh; there are dp, tp, and _ for not split"},
    {RULE("tensor: '**', dims: [dp>]"), SW_ERR_FORMAT, "\"\" is no axis of mesh"},
    {RULE("tensor: '**', dims: [dp>_]"), SW_ERR_FORMAT, "\"_\" is no axis of mesh"},
    {RULE("tensor: '**', dims: [dp, tp>dp]"), SW_ERR_FORMAT,
     "l.yaml:4:31: axis dp splits this tensor twice"},
    {RULE("tensor: '**', dims: [dp>dp]"), SW_ERR_FORMAT, "axis dp splits this tensor twice"},
    {RULE("tensor: '**', dims: {a: b}"), SW_ERR_FORMAT, "l.yaml:4:26: dims must be a list"},
    {RULE("tensor: '**', dims: [_, _, _, _, _, _, _, _, _, _, dp]"), SW_ERR_LIMIT,
     "dims has 11 entries"},
    {RULE("tensor: '**', flat: _"), SW_ERR_FORMAT, "l.yaml:4:26: \"_\" is no axis"},
    {RULE("tensor: '**', flat: [dp]"), SW_ERR_FORMAT, "l.yaml:4:26: flat must be a text"},
    {RULE("tensor: '**', dims: [dp], mesh: x"), SW_ERR_FORMAT, "no mesh is called \"x\""},
    {RULE("tensor: '**', dims: [dp], spit: even"), SW_ERR_FORMAT,
     "l.yaml:4:32: unknown key \"spit\" in a rule of a layout; did you mean \"split\"?"},
    {RULE("tensor: '**', dims: [dp], split: odd"), SW_ERR_FORMAT,
     "split is chunk or even, without quotes, not \"odd\""},
    {RULE("tensor: '**', dims: [dp], split: 'even'"), SW_ERR_FORMAT, "without quotes"},
    {RULE("tensor: '**', dims: [dp], copies: yes"), SW_ERR_FORMAT,
     "copies is true or false, without quotes"},
    {RULE("tensor: '**', dims: [dp], copies: true"), SW_ERR_FORMAT, "copies needs units"},
    {RULE("tensor: '**', dims: [dp], parts: [1, 2], units: [1, 2, 3]"), SW_ERR_FORMAT,
     "units has 3 numbers for 2 parts"},
    {RULE("tensor: '**', dims: [dp], units: [1, 2]"), SW_ERR_FORMAT,
     "units has 2 numbers for 1 parts"},
    {RULE("tensor: '**', dims: [_], parts: [1]"), SW_ERR_FORMAT,
     "parts and units are of the first dimension that dims splits"},
    {RULE("tensor: '**', flat: dp, units: 1"), SW_ERR_FORMAT, "parts and units are of"},
    {RULE("tensor: '**', dims: [dp], parts: [(]"), SW_ERR_FORMAT, "l.yaml:4:4"},
};

/* LAY-6 */
static const wrong unreachable[] = {
    {RULES("tensor: '**', dims: [dp]", "tensor: a, dims: [tp]"), SW_ERR_FORMAT,
     "l.yaml:5:5: no tensor can reach this rule: \"**\" in line 4 matches all that it matches"},
    {RULES("tensor: 'a.{n}.b', dims: [dp]", "tensor: 'a.10.b', dims: [tp]"), SW_ERR_FORMAT,
     "no tensor can reach this rule"},
    {RULES("tensor: 'a.{n}.*', dims: [dp]", "tensor: 'a.{k}.{q,v}.weight', dims: [tp]"), SW_OK, ""},
    {RULES("tensor: 'a.{n}.**', dims: [dp]", "tensor: 'a.{k}.{q,v}.weight', dims: [tp]"),
     SW_ERR_FORMAT, "no tensor can reach this rule"},
    {RULES("tensor: 'a.{n}.**', dims: [dp]", "tensor: 'a.*.q', dims: [tp]"), SW_OK, ""},
    {RULES("tensor: ['a.*', 'b.**'], dims: [dp]", "tensor: ['b.c.*', 'a.{n}'], dims: [tp]"),
     SW_ERR_FORMAT, "no tensor can reach this rule"},
    {RULES("tensor: ['a.*', 'b.**'], dims: [dp]", "tensor: ['b.c.*', 'a.**'], dims: [tp]"), SW_OK,
     ""},
    {RULES("tensor: '*.*', dims: [dp]", "tensor: '**', dims: [tp]"), SW_OK, ""},
    {RULES("tensor: '{q,k}', dims: [dp]", "tensor: '(q|k)', dims: [tp]"), SW_ERR_FORMAT,
     "no tensor can reach this rule"},
    {RULES("tensor: '{q,k}', dims: [dp]", "tensor: '(q|k)?', dims: [tp]"), SW_OK, ""},
    {RULES("tensor: 'x*', dims: [dp]", "tensor: 'x{n}', dims: [tp]"), SW_ERR_FORMAT,
     "no tensor can reach this rule"},
    {RULES("tensor: 'x{n}', dims: [dp]", "tensor: 'x*', dims: [tp]"), SW_OK, ""},
};

static void check_table(const wrong *table, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        swi_rules *made = NULL;
        sw_error err = {0};
        sw_status st = parse(table[i].text, &made, &err);
        if (st != table[i].status || strstr(err.text, table[i].says) == NULL)
            print_error("%s", table[i].text);
        if (table[i].status == SW_OK) {
            assert_ok(st, &err);
        } else {
            assert_null(made);
            assert_error(&err, table[i].status, table[i].says);
        }
        swi_rules_free(made);
    }
}

static void bad_documents(void **state)
{
    (void)state;
    check_table(documents, sizeof documents / sizeof documents[0]);
}

static void bad_rules(void **state)
{
    (void)state;
    check_table(rules, sizeof rules / sizeof rules[0]);
}

static void unreachable_rules(void **state)
{
    (void)state;
    check_table(unreachable, sizeof unreachable / sizeof unreachable[0]);
}

static const char good[] =
    "layout: 1\n"
    "let: {A: heads, D: A / 2}\n"
    "mesh: {dp: 2, tp: 2}\n"
    "meshes: {e: {ep: dp * tp}}\n"
    "rules:\n"
    "  - {tensor: ['{q,k}.{n}', o], dims: [_, 'tp > dp'], parts: [D, D], units: A}\n"
    "  - {tensor: e, mesh: e, flat: ep}\n"
    "  - {tensor: s, dims: _}\n"
    "  - {tensor: '**', dims: [], split: even}\n";

static void shown(const swi_rules *r, size_t rule, const char *want)
{
    swi_buf out = {0};
    sw_error err = {0};
    assert_ok(swi_rules_show(r, rule, &out, &err), &err);
    assert_ok(swi_buf_u8(&out, 0, &err), &err);
    assert_string_equal((const char *)out.data, want);
    swi_buf_free(&out);
}

static void rules_are_told(void **state)
{
    (void)state;
    swi_rules *r = NULL;
    sw_error err = {0};
    sw_report *report = NULL;
    const bool used[4] = {true, false, true, true};
    assert_ok(parse(good, &r, &err), &err);
    assert_int_equal(swi_rules_count(r), 4);
    assert_string_equal(swi_rules_pattern(r, 0), "{q,k}.{n}");
    shown(r, 0, "dims: [_, tp>dp]");
    shown(r, 1, "flat: ep");
    shown(r, 2, "dims: [_]");
    shown(r, 3, "dims: []");
    assert_true(swi_rules_has_axis(r, "ep") && !swi_rules_has_axis(r, "A"));
    assert_true(swi_rules_uses(r, "heads") && swi_rules_uses(r, "A") && swi_rules_uses(r, "D"));
    assert_false(swi_rules_uses(r, "K"));
    assert_ok(sw_report_make(&report, &err), &err);
    assert_ok(swi_rules_say_unused(r, used, report, &err), &err);
    assert_int_equal(sw_report_count(report), 1);
    assert_string_equal(sw_report_at(report, 0)->code, "unused-rule");
    assert_contains(sw_report_at(report, 0)->message, "no tensor met the rule \"e\" in line 7");
    sw_report_free(report);
    swi_rules_free(r);
}

/* A value that cannot be told fails where it is used, and names of the scope are found. */
static void names_come_from_the_scope(void **state)
{
    (void)state;
    const swi_expr_var vars[] = {{"heads", swi_expr_of_int(4)}};
    swi_expr_vars table = {vars, 1};
    const swi_expr_scope scope = {.find = swi_expr_find_var, .ctx = &table};
    const int64_t shape[2] = {3, 4};
    swi_rules *r = NULL;
    swi_division *d = NULL;
    swi_cut cut;
    sw_error err = {0};
    assert_ok(parse(good, &r, &err), &err);
    assert_ok(swi_division_make(r, &scope, NULL, 0, &d, &err), &err);
    assert_int_equal(swi_divide(d, "o", 2, shape, &cut, &err), SW_ERR_CONFLICT);
    assert_error(&err, SW_ERR_CONFLICT, "a part of 2 elements is not made of 4 equal units");
    swi_division_free(d);
    d = NULL;
    assert_ok(swi_division_make(r, NULL, NULL, 0, &d, &err), &err);
    assert_ok(swi_divide(d, "e", 2, shape, &cut, &err), &err);
    assert_int_equal(swi_divide(d, "o", 2, shape, &cut, &err), SW_ERR_FORMAT);
    assert_error(&err, SW_ERR_FORMAT, "tensor \"o\": l.yaml:6:");
    assert_contains(err.text, "heads");
    swi_division_free(d);
    swi_rules_free(r);
}

static void meshes_have_limits(void **state)
{
    (void)state;
    static const wrong cases[] = {
        {"layout: 1\nmesh: {dp: 0}\nrules: [{tensor: '**', dims: []}]\n", SW_ERR_CONFLICT,
         "l.yaml:2:12: 0 is 0, and must be at least 1"},
        {"layout: 1\nmesh: {dp: 1048577}\nrules: [{tensor: '**', dims: []}]\n", SW_ERR_LIMIT,
         "axis dp has 1048577 ranks"},
        {"layout: 1\nmesh: {dp: 65536, tp: 65536}\nrules: [{tensor: '**', dims: []}]\n",
         SW_ERR_LIMIT, "l.yaml:2:7: a mesh of more than 1048576 ranks"},
        {"layout: 1\nmesh: {dp: x}\nrules: [{tensor: '**', dims: []}]\n", SW_ERR_FORMAT,
         "l.yaml:2:12:"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        swi_rules *r = NULL;
        swi_division *d = NULL;
        sw_error err = {0};
        assert_ok(parse(cases[i].text, &r, &err), &err);
        assert_int_equal(swi_division_make(r, NULL, NULL, 0, &d, &err), cases[i].status);
        assert_error(&err, cases[i].status, cases[i].says);
        assert_null(d);
        swi_rules_free(r);
    }
}

/* LAY-9. */
static void test_units(void **state)
{
    swi_rules *r = NULL;
    swi_division *d = NULL;
    sw_error err = {0};
    size_t count = 0;
    (void)state;
    assert_ok(parse("layout: 1\nunits: ['layers.{n}', head]\n", &r, &err), &err);
    assert_int_equal(swi_rules_count(r), 0);
    swi_pattern *const *units = swi_rules_units(r, &count);
    assert_int_equal(count, 2);
    assert_string_equal(swi_pattern_text(units[0]), "layers.{n}");
    assert_string_equal(swi_pattern_text(units[1]), "head");
    assert_int_equal(swi_division_make(r, NULL, NULL, 0, &d, &err), SW_ERR_ARG);
    assert_string_equal(err.clause, "LAY-9");
    swi_rules_free(r);
    assert_ok(parse("layout: 1\nunits: head\nmesh: {dp: 2}\nrules: [{tensor: '**', dims: [dp]}]\n",
                    &r, &err),
              &err);
    (void)swi_rules_units(r, &count);
    assert_int_equal(count, 1);
    assert_int_equal(swi_rules_count(r), 1);
    swi_rules_free(r);
    assert_ok(parse("layout: 1\nmesh: {dp: 2}\nrules: [{tensor: '**', dims: [dp]}]\n", &r, &err),
              &err);
    (void)swi_rules_units(r, &count);
    assert_int_equal(count, 0);
    swi_rules_free(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_units),         cmocka_unit_test(bad_documents),
        cmocka_unit_test(bad_rules),          cmocka_unit_test(unreachable_rules),
        cmocka_unit_test(rules_are_told),     cmocka_unit_test(names_come_from_the_scope),
        cmocka_unit_test(meshes_have_limits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
