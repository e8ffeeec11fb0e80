/* Expressions: values, names, errors with their place in the text. */
#include "harness/harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "codec/json.h"
#include "notation/expr.h"

static const char config_text[] =
    "{\"hidden_size\":32,\"head_dim\":null,\"rope_parameters\":{\"rope_theta\":10000.5},"
    "\"mlp_only_layers\":[0,3],\"architectures\":[\"A\",\"B\"],\"bias\":true,\"type\":\"t\","
    "\"empty\":[]}";

typedef struct world {
    sw_value_graph *graph;
    swi_expr_var items[5];
    swi_expr_vars vars;
    swi_expr_scope scope;
} world;

static void open_world(world *w)
{
    sw_value root;
    sw_error err = {0};
    *w = (world){0};
    assert_ok(swi_json_parse(config_text, strlen(config_text), NULL, &w->graph, &root, &err), &err);
    w->items[0] = (swi_expr_var){"config", swi_expr_of_json(w->graph, root)};
    w->items[1] = (swi_expr_var){"H", swi_expr_of_int(32)};
    w->items[2] = (swi_expr_var){"A", swi_expr_of_int(4)};
    w->items[3] = (swi_expr_var){"name", swi_expr_of_text("w")};
    w->items[4] = (swi_expr_var){"nothing", swi_expr_none()};
    w->vars = (swi_expr_vars){.items = w->items, .count = 5};
    w->scope = (swi_expr_scope){.find = swi_expr_find_var, .ctx = &w->vars};
}

/* As "int 7", "float 0.5", "true", "none", "text w", "list 2", "object". */
static void describe(const swi_expr_value *v, char *out, size_t size)
{
    switch (v->kind) {
    case SWI_EXPR_NONE:
        snprintf(out, size, "none");
        break;
    case SWI_EXPR_BOOL:
        snprintf(out, size, v->truth ? "true" : "false");
        break;
    case SWI_EXPR_INT:
        snprintf(out, size, "int %lld", (long long)v->integer);
        break;
    case SWI_EXPR_FLOAT:
        snprintf(out, size, "float %.17g", v->number);
        break;
    case SWI_EXPR_TEXT:
        snprintf(out, size, "text %.*s", (int)v->size, v->text);
        break;
    case SWI_EXPR_LIST:
        snprintf(out, size, "list %zu", v->count);
        break;
    case SWI_EXPR_OBJECT:
        snprintf(out, size, "object");
        break;
    }
}

static const struct {
    const char *text, *wanted;
} values[] = {
    {"1", "int 1"},
    {" 1 + 2 * 3 ", "int 7"},
    {"(1 + 2) * 3", "int 9"},
    {"10 - 3 - 2", "int 5"},
    {"24 / 4 / 2", "int 3"},
    {"-2 * 3", "int -6"},
    {"2 - -3", "int 5"},
    {"--3", "int 3"},
    {"7 // 2", "int 3"},
    {"-7 // 2", "int -4"},
    {"7 // -2", "int -4"},
    {"7 % 3", "int 1"},
    {"-7 % 3", "int 2"},
    {"7 % -3", "int -2"},
    {"-7 % -3", "int -1"},
    {"-6 % 3", "int 0"},
    {"8 / 2", "int 4"},
    {"9223372036854775807", "int 9223372036854775807"},
    {"-9223372036854775807 - 1", "int -9223372036854775808"},
    {"0.5", "float 0.5"},
    {"0.1", "float 0.10000000000000001"},
    {"123456789.012345", "float 123456789.012345"},
    {"1 / 2.0", "float 0.5"},
    {"7.5 // 2", "float 3"},
    {"-7.5 % 2", "float 0.5"},
    {"1.5 + 1", "float 2.5"},
    {"1.5 * 2 - 1", "float 2"},
    {"true", "true"},
    {"none", "none"},
    {"'a b'", "text a b"},
    {"\"it's\"", "text it's"},
    {"''", "text "},
    {"[]", "list 0"},
    {"[1, 'a', -2.5, none]", "list 4"},
    {"1 == 1.0", "true"},
    {"1 == '1'", "false"},
    {"1 != '1'", "true"},
    {"'a' == \"a\"", "true"},
    {"'a' == 'ab'", "false"},
    {"none == none", "true"},
    {"0 == none", "false"},
    {"true == true", "true"},
    {"true == false", "false"},
    {"1 < 2", "true"},
    {"2 < 2", "false"},
    {"2 <= 2", "true"},
    {"2 >= 2.5", "false"},
    {"3 > 2.5", "true"},
    {"1 + 1 == 2", "true"},
    {"not 1 == 2", "true"},
    {"not none", "true"},
    {"not not true", "true"},
    {"true and false", "false"},
    {"true and none", "false"},
    {"none or true", "true"},
    {"false or false", "false"},
    {"true or false and false", "true"},
    {"false and unknown / 0", "false"},
    {"true or unknown", "true"},
    {"false and 1 or true", "true"},
    {"2 in [1, 2.0]", "true"},
    {"'a' in [1, 'b']", "false"},
    {"'a' not in [1, 'b']", "true"},
    {"not 1 in [1]", "false"},
    {"none in [none]", "true"},
    {"1 in nothing", "false"},
    {"1 not in config.absent", "true"},
    {"3 in config.mlp_only_layers", "true"},
    {"2 in config.mlp_only_layers", "false"},
    {"'B' in config.architectures", "true"},
    {"1 in config.empty", "false"},
    {"len(config.mlp_only_layers)", "int 2"},
    {"len([])", "int 0"},
    {"H / A", "int 8"},
    {"config.hidden_size", "int 32"},
    {"config.head_dim", "none"},
    {"config.head_dim ?? H / A", "int 8"},
    {"config.hidden_size ?? 1 / 0", "int 32"},
    {"none ?? none ?? 3", "int 3"},
    {"none ?? false or true", "true"},
    {"(none ?? 2) + 1", "int 3"},
    {"config.rope_parameters.rope_theta", "float 10000.5"},
    {"config.rope_parameters", "object"},
    {"config.rope_parameters != none", "true"},
    {"config.rope_parameters == none", "false"},
    {"config.absent.deeper.still", "none"},
    {"config.bias", "true"},
    {"config.type == 't'", "true"},
    {"name", "text w"},
    {"ceil(10, 8)", "int 16"},
    {"ceil(16, 8)", "int 16"},
    {"ceil(-3, 8)", "int 0"},
    {"ceil(H + 1, 2 * A)", "int 40"},
    {"int(7.9)", "int 7"},
    {"int(-7.9)", "int -7"},
    {"int(7)", "int 7"},
    {"min(3, 1.5, 2)", "float 1.5"},
    {"max(3, 1.5, min(4, 5)) + 1", "int 5"},
    {"max(1)", "int 1"},
    {"min ( 2 , 3 )", "int 2"},
    {"inner", "none"},
    {"nota", "none"},
    {"int", "none"},
};

static void test_values(void **state)
{
    (void)state;
    world w;
    open_world(&w);
    static const swi_expr_var more[] = {{.name = "inner"}, {.name = "nota"}, {.name = "int"}};
    swi_expr_vars vars = {.items = more, .count = 3};
    swi_expr_scope inside = {.find = swi_expr_find_var, .ctx = &vars, .outer = &w.scope};
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        swi_expr *e = NULL;
        swi_expr_value v;
        sw_error err = {0};
        char found[128];
        const char *text = values[i].text;
        if (swi_expr_compile(text, strlen(text), &e, &err) != SW_OK ||
            swi_expr_eval(e, &inside, &v, &err) != SW_OK)
            fail_msg("%s: %s", text, err.text);
        describe(&v, found, sizeof found);
        if (strcmp(found, values[i].wanted) != 0)
            fail_msg("%s: %s, wanted %s", text, found, values[i].wanted);
        assert_string_equal(swi_expr_text(e), text);
        swi_expr_free(e);
    }
    sw_value_graph_free(w.graph);
}

static const struct {
    const char *text;
    uint64_t offset;
    const char *message;
} wrong[] = {
    {"", 0, "expected a value"},
    {"1 +", 3, "expected a value"},
    {"1 2", 2, "expected an operator"},
    {"1 = 2", 2, "expected an operator"},
    {"a b", 2, "expected an operator"},
    {"* 2", 0, "expected a value"},
    {"1 + * 2", 4, "expected a value"},
    {"(1", 0, "a ( without its )"},
    {"1 + (2 * (3)", 4, "a ( without its )"},
    {"1)", 1, "a ) without its ("},
    {"()", 1, "expected a value"},
    {"(1, 2)", 2, "a comma is only between"},
    {"1, 2", 1, "a comma is only between"},
    {"max(1", 0, "a ( without its )"},
    {"max()", 4, "expected a value"},
    {"max(1,)", 6, "expected a value"},
    {"1 + ceil(1)", 4, "ceil takes 2 arguments, not 1 [NT-2.9]"},
    {"int(1, 2)", 0, "int takes 1 argument, not 2"},
    {"len(1, 2, 3)", 0, "len takes 1 argument, not 3"},
    {"other(1)", 5, "expected an operator"},
    {"1 < 2 < 3", 6, "comparisons do not chain"},
    {"1 == 2 != 3", 7, "comparisons do not chain"},
    {"1 + 2 in [1] == true", 13, "comparisons do not chain"},
    {"1 not 2", 2, "expected an operator"},
    {"1 not", 2, "expected an operator"},
    {"'a", 0, "closing quote"},
    {"1 + \"a'", 4, "closing quote"},
    {"[1, a]", 4, "a list holds"},
    {"[1", 2, "expected , or ]"},
    {"[1,", 3, "a list holds"},
    {"[- 'a']", 1, "a list holds"},
    {"[1 2]", 3, "expected , or ]"},
    {"[[1]]", 1, "a list holds"},
    {"1x", 0, "a number that cannot be read"},
    {"1.", 0, "a number that cannot be read"},
    {"1.2.3", 0, "a number that cannot be read"},
    {"1e5", 0, "a number that cannot be read"},
    {"1234567890.123456", 0, "at most 15"},
    {"2 + 9223372036854775808", 4, "a number over 9223372036854775807"},
    {"99999999999999999999.5", 0, "a number that cannot be read"},
    {"config.", 6, "a dot must be between"},
    {"config.1", 6, "a dot must be between"},
    {"config . a", 7, "expected an operator"},
    {"a.b.", 3, "a dot must be between"},
    {"and", 0, "expected a value"},
    {"1 and or 2", 6, "expected a value"},
    {"\xC3\xA4", 0, "expected a value"},
    {"1 @ 2", 2, "expected an operator"},
    {"1 ? 2", 2, "expected an operator"},
};

static void test_syntax(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        swi_expr *e = NULL;
        sw_error err = {0};
        const char *text = wrong[i].text;
        if (swi_expr_compile(text, strlen(text), &e, &err) != SW_ERR_FORMAT ||
            err.offset_bytes != wrong[i].offset || strstr(err.text, wrong[i].message) == NULL)
            fail_msg("%s: %s at %llu", text, err.text, (unsigned long long)err.offset_bytes);
        assert_true(err.has_offset);
        assert_memory_equal(err.clause, "NT-2.", 5);
        assert_null(e);
    }
    swi_expr *e = NULL;
    sw_error err = {0};
    assert_int_equal(swi_expr_compile("1\0+2", 4, &e, &err), SW_ERR_FORMAT);
    assert_error(&err, SW_ERR_FORMAT, "a NUL byte");
    assert_int_equal(err.offset_bytes, 1);
    swi_expr_free(NULL);
}

static void test_evaluation_fails(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        sw_status status;
        uint64_t offset;
        const char *message;
    } cases[] = {
        {"2 * 10 / 3", SW_ERR_CONFLICT, 7, "20 / 3: does not divide; // would round down [NT-2.6]"},
        {"H / A / 3", SW_ERR_CONFLICT, 6, "8 / 3: does not divide"},
        {"1 / 0", SW_ERR_CONFLICT, 2, "1 / 0: a division by 0"},
        {"1 // (A - 4)", SW_ERR_CONFLICT, 2, "1 // 0: a division by 0"},
        {"1 % 0", SW_ERR_CONFLICT, 2, "a division by 0"},
        {"1.0 / 0", SW_ERR_CONFLICT, 4, "gives no finite number"},
        {"1.5 % 0", SW_ERR_CONFLICT, 4, "gives no finite number"},
        {"9223372036854775807 + 1", SW_ERR_CONFLICT, 20, "does not fit 64 bits"},
        {"-9223372036854775807 - 2", SW_ERR_CONFLICT, 21, "does not fit 64 bits"},
        {"9223372036854775807 * 2", SW_ERR_CONFLICT, 20, "does not fit 64 bits"},
        {"(-9223372036854775807 - 1) / -1", SW_ERR_CONFLICT, 27, "does not fit 64 bits"},
        {"-(-9223372036854775807 - 1)", SW_ERR_CONFLICT, 0, "does not fit 64 bits"},
        {"ceil(9223372036854775807, 2)", SW_ERR_CONFLICT, 0, "does not fit 64 bits"},
        {"int(9223372036854775807 * 4.0)", SW_ERR_CONFLICT, 0, "does not fit 64 bits"},
        {"ceil(1, 0)", SW_ERR_CONFLICT, 0, "1 ceil 0: needs two whole numbers"},
        {"1 + ceil(1.5, 2)", SW_ERR_CONFLICT, 4, "needs two whole numbers"},
        {"int('a')", SW_ERR_CONFLICT, 0, "int of \"a\": is only for numbers"},
        {"min(1, none)", SW_ERR_CONFLICT, 0, "min of none: is only for numbers"},
        {"len(1)", SW_ERR_CONFLICT, 0, "len of 1: is only for lists"},
        {"1 + none", SW_ERR_CONFLICT, 2, "1 + none: is only for numbers"},
        {"config.head_dim * 2", SW_ERR_CONFLICT, 16, "none * 2: is only for numbers"},
        {"'a' + 'b'", SW_ERR_CONFLICT, 4, "\"a\" + \"b\": is only for numbers"},
        {"-'a'", SW_ERR_CONFLICT, 0, "- of \"a\": is only for numbers"},
        {"1 < 'a'", SW_ERR_CONFLICT, 2, "1 < \"a\": is only for numbers"},
        {"none < 1", SW_ERR_CONFLICT, 5, "none < 1: is only for numbers"},
        {"[1] == [1]", SW_ERR_CONFLICT, 4, "a list == a list: is not for lists"},
        {"1 in 2", SW_ERR_CONFLICT, 2, "1 in 2: is only for lists"},
        {"1 and true", SW_ERR_CONFLICT, 2, "and of 1: is neither true nor false"},
        {"true and 1", SW_ERR_CONFLICT, 5, "and, or of 1: is neither"},
        {"'a' or true", SW_ERR_CONFLICT, 4, "or of \"a\": is neither"},
        {"not 1", SW_ERR_CONFLICT, 0, "not of 1: is neither"},
        {"1 + Hh", SW_ERR_FORMAT, 4, "nothing defines the name \"Hh\" [NT-2.3]"},
        {"H.x", SW_ERR_CONFLICT, 1, "32 has no member \"x\" [NT-2.4]"},
        {"config.type.x", SW_ERR_CONFLICT, 11, "\"t\" has no member \"x\""},
    };
    world w;
    open_world(&w);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        swi_expr *e = NULL;
        swi_expr_value v = swi_expr_of_int(77);
        sw_error err = {0};
        const char *text = cases[i].text;
        assert_ok(swi_expr_compile(text, strlen(text), &e, &err), &err);
        if (swi_expr_eval(e, &w.scope, &v, &err) != cases[i].status ||
            err.offset_bytes != cases[i].offset || strstr(err.text, cases[i].message) == NULL)
            fail_msg("%s: %s at %llu", text, err.text, (unsigned long long)err.offset_bytes);
        assert_int_equal(v.integer, 77);
        swi_expr_free(e);
    }
    swi_expr *e = NULL;
    swi_expr_value v;
    sw_error err = {0};
    assert_ok(swi_expr_compile("H", 1, &e, &err), &err);
    assert_int_equal(swi_expr_eval(e, NULL, &v, &err), SW_ERR_FORMAT);
    swi_expr_free(e);
    sw_value_graph_free(w.graph);
}

static void test_limits(void **state)
{
    (void)state;
    static char text[2048];
    swi_expr *e = NULL;
    sw_error err = {0};
    memset(text, '(', 100);
    assert_int_equal(swi_expr_compile(text, 100, &e, &err), SW_ERR_LIMIT);
    assert_error(&err, SW_ERR_LIMIT, "more than 64 levels [NT-2.10]");
    assert_int_equal(err.offset_bytes, 64);
    memset(text, ' ', sizeof text);
    assert_int_equal(swi_expr_compile(text, sizeof text, &e, &err), SW_ERR_LIMIT);
    assert_error(&err, SW_ERR_LIMIT, "more than 1024 bytes");
    for (size_t i = 0; i < 512; i++)
        memcpy(text + 2 * i, "1+", 2);
    assert_int_equal(swi_expr_compile(text, 1023, &e, &err), SW_ERR_LIMIT);
    assert_error(&err, SW_ERR_LIMIT, "more than 256 operands");
    assert_ok(swi_expr_compile(text, 255, &e, &err), &err);
    int64_t sum = 0;
    assert_ok(swi_expr_eval_int(e, NULL, &sum, &err), &err);
    assert_int_equal(sum, 128);
    swi_expr_free(e);
    /* Values that wait: 64 arguments are as deep as it goes. */
    e = NULL;
    memcpy(text, "max(", 4);
    for (size_t i = 0; i < 70; i++)
        memcpy(text + 4 + 2 * i, "1,", 2);
    assert_int_equal(swi_expr_compile(text, 4 + 2 * 70, &e, &err), SW_ERR_LIMIT);
    assert_int_equal(err.offset_bytes, 4 + 2 * 64);
    text[4 + 2 * 64 - 1] = ')';
    assert_ok(swi_expr_compile(text, 4 + 2 * 64, &e, &err), &err);
    assert_ok(swi_expr_eval_int(e, NULL, &sum, &err), &err);
    assert_int_equal(sum, 1);
    swi_expr_free(e);
}

static sw_status find_broken(void *ctx, const char *name, swi_expr_value *out, bool *found,
                             sw_error *err)
{
    (void)ctx;
    (void)out;
    *found = false;
    if (strcmp(name, "D") != 0)
        return SW_OK;
    return swi_fail_at(err, SW_ERR_CONFLICT, "NT-2.6", 1000, "m.yaml:4:10: it broke");
}

static void test_results(void **state)
{
    (void)state;
    world w;
    open_world(&w);
    swi_expr *e = NULL;
    sw_error err = {0};
    int64_t n = 5;
    bool truth = false;
    assert_ok(swi_expr_compile("config.head_dim", 15, &e, &err), &err);
    assert_int_equal(swi_expr_eval_int(e, &w.scope, &n, &err), SW_ERR_CONFLICT);
    assert_error(&err, SW_ERR_CONFLICT,
                 "\"config.head_dim\" must give a whole number, gives none [NT-2.1]");
    assert_int_equal(n, 5);
    truth = true;
    assert_ok(swi_expr_eval_truth(e, &w.scope, &truth, &err), &err);
    assert_false(truth);
    swi_expr_free(e);
    assert_ok(swi_expr_compile("config.bias", 11, &e, &err), &err);
    assert_ok(swi_expr_eval_truth(e, &w.scope, &truth, &err), &err);
    assert_true(truth);
    swi_expr_free(e);
    assert_ok(swi_expr_compile("1.5", 3, &e, &err), &err);
    assert_int_equal(swi_expr_eval_truth(e, &w.scope, &truth, &err), SW_ERR_CONFLICT);
    assert_error(&err, SW_ERR_CONFLICT, "must give true or false, gives 1.5");
    assert_int_equal(swi_expr_eval_int(e, &w.scope, &n, &err), SW_ERR_CONFLICT);
    swi_expr_free(e);
    /* What fails in a scope keeps its own place in its text; the offset is that of the use. */
    const swi_expr_scope broken = {.find = find_broken, .outer = &w.scope};
    assert_ok(swi_expr_compile("H * D", 5, &e, &err), &err);
    assert_int_equal(swi_expr_eval_int(e, &broken, &n, &err), SW_ERR_CONFLICT);
    assert_string_equal(err.text, "D: m.yaml:4:10: it broke [NT-2.6]");
    assert_int_equal(err.offset_bytes, 4);
    swi_expr_free(e);
    sw_value_graph_free(w.graph);
}

static void test_uses(void **state)
{
    (void)state;
    static const char text[] = "config.a.b ?? max(n, 'x') + n * [1] and config";
    static const swi_expr_use wanted[] = {
        {"config", "a.b", 0}, {"n", "", 18}, {"n", "", 28}, {"config", "", 40}};
    swi_expr *e = NULL;
    sw_error err = {0};
    assert_ok(swi_expr_compile(text, strlen(text), &e, &err), &err);
    assert_int_equal(swi_expr_use_count(e), 4);
    for (size_t i = 0; i < 4; i++) {
        swi_expr_use use = swi_expr_use_at(e, i);
        assert_string_equal(use.name, wanted[i].name);
        assert_string_equal(use.path, wanted[i].path);
        assert_int_equal(use.offset_bytes, wanted[i].offset_bytes);
    }
    swi_expr_free(e);
}

/* ---- random arithmetic against plain recursion --------------------------------------------------
 */

static const char *const signs[] = {"+", "-", "*", "//", "%"};
#define TERMS 6

/* One operation; false: it is not defined or does not fit. */
static bool apply(int64_t a, size_t sign, int64_t b, int64_t *out)
{
    if (sign >= 3 && b == 0)
        return false;
    int64_t q = b == 0 ? 0 : a / b - (a % b != 0 && (a < 0) != (b < 0));
    switch (sign) {
    case 0:
        return !__builtin_add_overflow(a, b, out);
    case 1:
        return !__builtin_sub_overflow(a, b, out);
    case 2:
        return !__builtin_mul_overflow(a, b, out);
    default:
        *out = sign == 3 ? q : a - q * b;
        return true;
    }
}

/* Products first, then sums, from the left. */
static bool by_hand(const int64_t *terms, const size_t *ops, int64_t *out)
{
    int64_t sum = 0, product = terms[0];
    size_t pending = 0;
    for (size_t i = 1; i < TERMS; i++) {
        if (ops[i - 1] >= 2) {
            if (!apply(product, ops[i - 1], terms[i], &product))
                return false;
            continue;
        }
        if (!apply(sum, pending, product, &sum))
            return false;
        pending = ops[i - 1];
        product = terms[i];
    }
    return apply(sum, pending, product, out);
}

static void test_random(void **state)
{
    (void)state;
    harness_prng prng = {.state = 5};
    for (size_t round = 0; round < 20000; round++) {
        char text[256];
        int64_t terms[TERMS], wanted = 0, found = 0;
        size_t ops[TERMS - 1], size = 0;
        for (size_t i = 0; i < TERMS; i++) {
            terms[i] = (int64_t)harness_random_below(&prng, 20) - 6;
            size += (size_t)snprintf(text + size, sizeof text - size, "%lld", (long long)terms[i]);
            if (i + 1 == TERMS)
                break;
            ops[i] = (size_t)harness_random_below(&prng, 5);
            size += (size_t)snprintf(text + size, sizeof text - size, "%s", signs[ops[i]]);
        }
        swi_expr *e = NULL;
        sw_error err = {0};
        assert_ok(swi_expr_compile(text, size, &e, &err), &err);
        bool defined = by_hand(terms, ops, &wanted);
        sw_status status = swi_expr_eval_int(e, NULL, &found, &err);
        if (status != (defined ? SW_OK : SW_ERR_CONFLICT) || (defined && found != wanted))
            fail_msg("%s: %lld, wanted %lld: %s", text, (long long)found, (long long)wanted,
                     err.text);
        swi_expr_free(e);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values),           cmocka_unit_test(test_syntax),
        cmocka_unit_test(test_evaluation_fails), cmocka_unit_test(test_limits),
        cmocka_unit_test(test_results),          cmocka_unit_test(test_uses),
        cmocka_unit_test(test_random),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
