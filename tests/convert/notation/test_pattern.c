/* Patterns of names: reading, matching, making names, overlap; random ones against brute force. */
#include "harness/harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "notation/pattern.h"

static swi_pattern *parse(const char *text)
{
    swi_pattern *p = NULL;
    sw_error err = {0};
    assert_ok(swi_pattern_parse(text, strlen(text), &p, &err), &err);
    assert_string_equal(swi_pattern_text(p), text);
    return p;
}

static const struct {
    const char *pattern, *name, *wanted; /* "n=3 part=1"; NULL: no match */
} matches[] = {
    {"a.b", "a.b", "part=0"},
    {"a.b", "a.bc", NULL},
    {"a.b", "a.", NULL},
    {"layers.{n}.w", "layers.12.w", "n=12 part=0"},
    {"layers.{n}.w", "layers.0.w", "n=0 part=0"},
    {"layers.{n}.w", "layers.01.w", NULL},
    {"layers.{n}.w", "layers..w", NULL},
    {"layers.{n}.w", "layers.-1.w", NULL},
    {"layers.{n}", "layers.999999999999999999", "n=999999999999999999 part=0"},
    {"layers.{n}", "layers.1000000000000000000", NULL},
    {"{n}.e{e}.x", "7.e80.x", "n=7 e=80 part=0"},
    {"w{1,3,2}.weight", "w3.weight", "part=1"},
    {"w{1,3,2}.weight", "w2.weight", "part=2"},
    {"w{1,3,2}.weight", "w4.weight", NULL},
    {"{q,k,v}_proj", "k_proj", "part=1"},
    {"x{,_b}", "x", "part=0"},
    {"x{,_b}", "x_b", "part=1"},
    {"{a,ab}(b)?c", "abc", "part=0"},
    {"{ab,a}(b)?c", "abc", "part=0"},
    {"{ab,a}bc", "abc", "part=1"},
    {"(model.)?norm", "norm", "part=0"},
    {"(model.)?norm", "model.norm", "part=0"},
    {"(model.)?norm", "model.model.norm", NULL},
    {"(a|b|)x", "x", "part=0"},
    {"(a|b).(c|d)?", "b.", "part=0"},
    {"(a|b)", "ab", NULL},
    {"a.*.c", "a.b.c", "part=0"},
    {"a.*.c", "a..c", "part=0"},
    {"a.*.c", "a.b.b.c", NULL},
    {"a.**.c", "a.b.b.c", "part=0"},
    {"**", "", "part=0"},
    {"**", "any.thing", "part=0"},
    {"*", "any.thing", NULL},
    {"**.w", "a.w", "part=0"},
    {"**.w", "w", NULL},
    {"*{n}", "layer12", "n=12 part=0"},
    {"*{n}*", "a12b", "n=12 part=0"},
    {"**{n}", "1.2", "n=2 part=0"},
    {"**{n}.**", "1.2.3.x", "n=3 part=0"},
    {"a\\*b\\\\{n}", "a*b\\5", "n=5 part=0"},
    {"a\\*b\\\\\\{n\\}", "a*b\\{n}", "part=0"},
    {"{a\\,b,c}", "a,b", "part=0"},
    {"a,b", "a,b", "part=0"},
    {"\xC3\xA4{n}",
     "\xC3\xA4"
     "5",
     "n=5 part=0"},
};

static void test_match(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof matches / sizeof matches[0]; i++) {
        swi_pattern *p = parse(matches[i].pattern);
        swi_bindings b;
        char found[128] = "";
        size_t size = 0;
        const char *name = matches[i].name;
        bool is = swi_pattern_match(p, name, strlen(name), &b);
        assert_int_equal(is, swi_pattern_match(p, name, strlen(name), NULL));
        for (size_t k = 0; is && k < b.count; k++)
            size += (size_t)snprintf(found + size, sizeof found - size, "%s=%llu ", b.items[k].name,
                                     (unsigned long long)b.items[k].value);
        if (is)
            snprintf(found + size, sizeof found - size, "part=%u", b.part);
        const char *wanted = matches[i].wanted != NULL ? matches[i].wanted : "";
        if (strcmp(found, wanted) != 0)
            fail_msg("%s in %s: \"%s\", wanted \"%s\"", name, matches[i].pattern, found, wanted);
        swi_pattern_free(p);
    }
}

static void test_syntax(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t offset;
        const char *message, *clause;
    } cases[] = {
        {"", 0, "an empty pattern", "NT-3.1"},
        {"a\\", 1, "a backslash with nothing", "NT-3.1"},
        {"a.{n", 2, "{...} holds", "NT-3.2"},
        {"a.{}", 2, "{...} holds", "NT-3.2"},
        {"a.{1n}", 2, "{...} holds", "NT-3.2"},
        {"a.{n m}", 2, "{...} holds", "NT-3.2"},
        {"{n}.{n}", 5, "the same variable again", "NT-3.2"},
        {"{n}{m}", 3, "a number right behind a variable", "NT-3.2"},
        {"{n}(.)?{m}", 7, "a number right behind a variable", "NT-3.2"},
        {"{n}0", 3, "a number right behind a variable", "NT-3.2"},
        {"{n}{a,3}", 3, "a number right behind a variable", "NT-3.2"},
        {"w1{n}", 2, "a variable right behind a digit", "NT-3.2"},
        {"w1(a)?{n}", 6, "a variable right behind a digit", "NT-3.2"},
        {"a{q,k", 1, "a bracket that is not closed", "NT-3.3"},
        {"{q,k}{a,b}", 5, "a second group of parts", "NT-3.3"},
        {"{q,k,q}", 5, "the same alternative again", "NT-3.3"},
        {"{q,{n}}", 3, "alternatives are plain text", "NT-3.3"},
        {"{q,*}", 3, "alternatives are plain text", "NT-3.3"},
        {"a(b|c", 1, "a bracket that is not closed", "NT-3.4"},
        {"(a|{n})", 3, "alternatives are plain text", "NT-3.4"},
        {"(a|(b))", 3, "alternatives are plain text", "NT-3.4"},
        {"(a|a)", 3, "the same alternative again", "NT-3.4"},
        {"a?", 1, "a ? that does not follow", "NT-3.4"},
        {"(a)??", 4, "a ? that does not follow", "NT-3.4"},
        {"a|b", 1, "a | outside", "NT-3.4"},
        {"a}", 1, "was not opened", "NT-3.1"},
        {"a)", 1, "was not opened", "NT-3.1"},
        {"a.***", 2, "more than two stars", "NT-3.5"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        swi_pattern *p = NULL;
        sw_error err = {0};
        const char *text = cases[i].text;
        if (swi_pattern_parse(text, strlen(text), &p, &err) != SW_ERR_FORMAT ||
            err.offset_bytes != cases[i].offset || strstr(err.text, cases[i].message) == NULL ||
            strcmp(err.clause, cases[i].clause) != 0)
            fail_msg("%s: %s at %llu", text, err.text, (unsigned long long)err.offset_bytes);
        assert_null(p);
    }
    swi_pattern *p = NULL;
    sw_error err = {0};
    assert_int_equal(swi_pattern_parse("a\0b", 3, &p, &err), SW_ERR_FORMAT);
    assert_error(&err, SW_ERR_FORMAT, "a NUL byte");
    swi_pattern_free(NULL);
}

static void test_limits(void **state)
{
    (void)state;
    static char text[4096];
    swi_pattern *p = NULL;
    sw_error err = {0};
    memset(text, 'a', sizeof text);
    assert_int_equal(swi_pattern_parse(text, 513, &p, &err), SW_ERR_LIMIT);
    assert_error(&err, SW_ERR_LIMIT, "more than 512 bytes [NT-3.8]");
    for (size_t i = 0; i < 40; i++)
        memcpy(text + 2 * i, "a*", 2);
    assert_int_equal(swi_pattern_parse(text, 80, &p, &err), SW_ERR_LIMIT);
    assert_error(&err, SW_ERR_LIMIT, "more than 32 elements [NT-3.8]");
    assert_int_equal(err.offset_bytes, 32);
    assert_int_equal(swi_pattern_parse("{a}.{b}.{c}.{d}.{e}", 19, &p, &err), SW_ERR_LIMIT);
    assert_error(&err, SW_ERR_LIMIT, "more than 4 variables");
    assert_int_equal(err.offset_bytes, 16);
    p = parse("**");
    memset(text, '.', sizeof text);
    assert_true(swi_pattern_match(p, text, SWI_PATTERN_MAX_NAME, NULL));
    assert_false(swi_pattern_match(p, text, SWI_PATTERN_MAX_NAME + 1, NULL));
    swi_pattern_free(p);
    /* What takes a matcher that tries all ways longer than anybody waits. */
    p = parse("**a**a**a**a**a**a**a**a**a**a**a**b");
    memset(text, 'a', sizeof text);
    for (size_t i = 0; i < 1000; i++)
        assert_false(swi_pattern_match(p, text, SWI_PATTERN_MAX_NAME, NULL));
    swi_pattern_free(p);
}

static void test_names(void **state)
{
    (void)state;
    static const struct {
        const char *pattern, *wanted;
    } cases[] = {
        {"layers.{n}.w{1,3,2}.e{e}", "layers.12.w3.e0"},
        {"a\\*{e}", "a*0"},
        {"plain", "plain"},
    };
    const swi_bindings b = {.items = {{"e", 0}, {"n", 12}, {"z", 1}}, .count = 3, .part = 1};
    sw_error err = {0};
    for (size_t i = 0; i < 3; i++) {
        swi_pattern *p = parse(cases[i].pattern);
        swi_buf buf = {0};
        assert_ok(swi_buf_append_str(&buf, ">", &err), &err);
        assert_true(swi_pattern_is_invertible(p));
        assert_ok(swi_pattern_instantiate(p, &b, &buf, &err), &err);
        assert_int_equal(buf.size, strlen(cases[i].wanted) + 1);
        assert_memory_equal(buf.data + 1, cases[i].wanted, buf.size - 1);
        swi_bindings back;
        assert_true(swi_pattern_match(p, (char *)buf.data + 1, buf.size - 1, &back));
        swi_buf_free(&buf);
        swi_pattern_free(p);
    }
    static const struct {
        const char *pattern, *message;
    } bad[] = {
        {"a.{m}", "no value for {m}"}, {"a.{big}", "{big} has more than 18 digits"},
        {"a.{x,y}", "has no part 2"},  {"a.*", "makes no names"},
        {"a.**", "makes no names"},    {"a.(b)", "makes no names"},
        {"a.(b)?", "makes no names"},
    };
    const swi_bindings other = {
        .items = {{"big", UINT64_C(1000000000000000000)}}, .count = 1, .part = 2};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        swi_pattern *p = parse(bad[i].pattern);
        swi_buf buf = {0};
        assert_int_equal(swi_pattern_instantiate(p, &other, &buf, &err), SW_ERR_ARG);
        assert_error(&err, SW_ERR_ARG, bad[i].message);
        assert_int_equal(buf.size, 0);
        swi_buf_free(&buf);
        swi_pattern_free(p);
    }
}

static void test_contents(void **state)
{
    (void)state;
    swi_pattern *p = parse("layers.{n}.{q,k,v}.{expert_2}");
    size_t offset = 0;
    const char *name = NULL;
    assert_int_equal(swi_pattern_var_count(p), 2);
    assert_string_equal(swi_pattern_var(p, 0, NULL), "n");
    assert_string_equal(swi_pattern_var(p, 1, &offset), "expert_2");
    assert_int_equal(offset, 20);
    assert_true(swi_pattern_has_var(p, "n"));
    assert_false(swi_pattern_has_var(p, "q"));
    assert_int_equal(swi_pattern_part_count(p), 3);
    assert_string_equal(swi_pattern_part(p, 1), "k");
    assert_false(swi_pattern_is_name(p, &name));
    swi_pattern_free(p);
    p = parse("a\\?b");
    assert_int_equal(swi_pattern_part_count(p), 1);
    assert_string_equal(swi_pattern_part(p, 0), "");
    assert_true(swi_pattern_is_name(p, &name));
    assert_string_equal(name, "a?b");
    swi_pattern_free(p);
    p = parse("(a)");
    assert_false(swi_pattern_is_name(p, &name));
    swi_pattern_free(p);
}

static void test_overlap(void **state)
{
    (void)state;
    static const struct {
        const char *a, *b, *witness; /* NULL: none */
    } cases[] = {
        {"a.b", "a.b", "a.b"},
        {"a.b", "a.c", NULL},
        {"layers.{n}.w", "layers.3.w", "layers.3.w"},
        {"layers.{n}.w", "layers.03.w", NULL},
        {"layers.{n}.w", "layers.{e}.w", "layers.0.w"},
        {"layers.{n}.w", "layers.*.w", "layers.0.w"},
        {"layers.{n}.w", "layers.x*.w", NULL},
        {"w{1,3,2}", "w(4|2)", "w2"},
        {"w{1,3}", "w(4|2)", NULL},
        {"(a)?b", "a*", "ab"},
        {"**.weight", "**.bias", NULL},
        {"**.weight", "lm.*", "lm.weight"},
        {"*.*", "a**", "a."},
        {"*", "a.**", NULL},
        {"**", "**", ""},
        {"*a", "b*", "ba"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        swi_pattern *a = parse(cases[i].a), *b = parse(cases[i].b);
        for (size_t turn = 0; turn < 2; turn++) {
            swi_buf name = {0};
            bool found = cases[i].witness == NULL;
            sw_error err = {0};
            assert_ok(swi_pattern_overlap(turn ? b : a, turn ? a : b, &found, &name, &err), &err);
            if (found != (cases[i].witness != NULL))
                fail_msg("%s and %s", cases[i].a, cases[i].b);
            assert_int_equal(name.size, found ? strlen(cases[i].witness) : 0);
            if (name.size > 0)
                assert_memory_equal(name.data, cases[i].witness, name.size);
            assert_ok(swi_pattern_overlap(a, b, &found, NULL, &err), &err);
            swi_buf_free(&name);
        }
        swi_pattern_free(a);
        swi_pattern_free(b);
    }
}

/* ---- random patterns over the letters a . 0 1 --------------------------------------------------
 */

#define TOKENS 4
#define NAME_MAX_SIZE 5
static const char letters[] = "a.01";

typedef struct piece {
    enum { WORD, OPTION, PARTS, NUMBER, STAR, ANYTHING } kind;
    char words[3][3];
} piece;

typedef struct shape {
    piece pieces[TOKENS];
    size_t count;
    char text[64];
} shape;

static void random_word(harness_prng *prng, char *out, size_t least)
{
    size_t size = least + (size_t)harness_random_below(prng, 3 - least);
    for (size_t i = 0; i < size; i++)
        out[i] = letters[harness_random_below(prng, 4)];
    out[size] = '\0';
}

static void add_text(shape *s, const char *format, const char *a, const char *b)
{
    size_t size = strlen(s->text);
    snprintf(s->text + size, sizeof s->text - size, format, a, b);
}

static void random_shape(harness_prng *prng, shape *s)
{
    static const char *const names[] = {"n", "m", "o", "p"};
    *s = (shape){.count = 1 + (size_t)harness_random_below(prng, TOKENS)};
    for (size_t i = 0; i < s->count; i++) {
        piece *p = &s->pieces[i];
        bool beside_star = i > 0 && s->pieces[i - 1].kind >= STAR;
        p->kind = (unsigned)harness_random_below(prng, beside_star ? STAR : ANYTHING + 1);
        random_word(prng, p->words[0], p->kind == WORD);
        random_word(prng, p->words[1], 0);
        if (p->kind == WORD)
            add_text(s, "%s%s", p->words[0], "");
        else if (p->kind == OPTION)
            add_text(s, "(%s|%s)?", p->words[0], p->words[1]);
        else if (p->kind == PARTS)
            add_text(s, "{%s,%s}", p->words[0], p->words[1]);
        else if (p->kind == NUMBER)
            add_text(s, "{%s%s}", names[i], "");
        else
            add_text(s, "%s%s", p->kind == STAR ? "*" : "**", "");
    }
}

static bool fits(const shape *s, size_t i, const char *name, size_t at);

static bool word_fits(const shape *s, size_t i, const char *name, size_t at, const char *word)
{
    size_t size = strlen(word);
    return strncmp(name + at, word, size) == 0 && fits(s, i + 1, name, at + size);
}

static bool number_fits(const shape *s, size_t i, const char *name, size_t at)
{
    size_t size = strspn(name + at, "01");
    bool whole = at == 0 || strchr("01", name[at - 1]) == NULL;
    return whole && size > 0 && (size == 1 || name[at] == '1') && fits(s, i + 1, name, at + size);
}

static bool star_fits(const shape *s, size_t i, const char *name, size_t at)
{
    for (size_t end = at; end <= strlen(name); end++) {
        if (fits(s, i + 1, name, end))
            return true;
        if (s->pieces[i].kind == STAR && name[end] == '.')
            return false;
    }
    return false;
}

/* By trying all ways. */
static bool fits(const shape *s, size_t i, const char *name, size_t at)
{
    if (i == s->count)
        return name[at] == '\0';
    const piece *p = &s->pieces[i];
    switch (p->kind) {
    case WORD:
        return word_fits(s, i, name, at, p->words[0]);
    case OPTION:
        return word_fits(s, i, name, at, p->words[0]) || word_fits(s, i, name, at, p->words[1]) ||
               fits(s, i + 1, name, at);
    case PARTS:
        return word_fits(s, i, name, at, p->words[0]) || word_fits(s, i, name, at, p->words[1]);
    case NUMBER:
        return number_fits(s, i, name, at);
    default:
        return star_fits(s, i, name, at);
    }
}

/* The k-th name: counted in base 4, shorter ones first. */
static bool nth_name(size_t k, char *out)
{
    size_t size = 0, count = 1;
    for (; k >= count; count *= 4, size++)
        k -= count;
    out[size] = '\0';
    for (size_t i = 0; i < size; i++, k /= 4)
        out[i] = letters[k % 4];
    return size <= NAME_MAX_SIZE;
}

static swi_pattern *random_pattern(harness_prng *prng, shape *s)
{
    for (;;) {
        swi_pattern *p = NULL;
        sw_error err = {0};
        random_shape(prng, s);
        sw_status status = swi_pattern_parse(s->text, strlen(s->text), &p, &err);
        if (status == SW_OK)
            return p;
        if (status != SW_ERR_FORMAT)
            fail_msg("%s: %s", s->text, err.text);
    }
}

/* A number beside a star makes overlap true for numbers with leading zeros. */
static bool is_exact(const shape *s)
{
    bool number = false, star = false;
    for (size_t i = 0; i < s->count; i++) {
        number = number || s->pieces[i].kind == NUMBER;
        star = star || s->pieces[i].kind >= STAR;
    }
    return !number || !star;
}

static void check_pair(const shape *x, const swi_pattern *a, const shape *y, const swi_pattern *b)
{
    char name[16];
    bool common = false, found = false;
    sw_error err = {0};
    swi_buf witness = {0};
    for (size_t k = 0; nth_name(k, name); k++) {
        bool in_a = fits(x, 0, name, 0), in_b = fits(y, 0, name, 0);
        if (swi_pattern_match(a, name, strlen(name), NULL) != in_a ||
            swi_pattern_match(b, name, strlen(name), NULL) != in_b)
            fail_msg("\"%s\" in %s %d, in %s %d", name, x->text, in_a, y->text, in_b);
        common = common || (in_a && in_b);
    }
    assert_ok(swi_pattern_overlap(a, b, &found, &witness, &err), &err);
    if (common && !found)
        fail_msg("%s and %s", x->text, y->text);
    const char *text = witness.size > 0 ? (const char *)witness.data : "";
    if (found && is_exact(x) && is_exact(y) &&
        !(swi_pattern_match(a, text, witness.size, NULL) &&
          swi_pattern_match(b, text, witness.size, NULL)))
        fail_msg("%s and %s: %.*s", x->text, y->text, (int)witness.size, text);
    swi_buf_free(&witness);
}

static void test_random(void **state)
{
    (void)state;
    harness_prng prng = {.state = 11};
    for (size_t round = 0; round < 1000; round++) {
        shape x, y;
        swi_pattern *a = random_pattern(&prng, &x), *b = random_pattern(&prng, &y);
        check_pair(&x, a, &y, b);
        swi_pattern_free(a);
        swi_pattern_free(b);
    }
}

/* A name that is made of bindings gives them back. */
static void test_round_trip(void **state)
{
    (void)state;
    harness_prng prng = {.state = 12};
    size_t made = 0;
    while (made < 2000) {
        shape s;
        swi_pattern *p = random_pattern(&prng, &s);
        if (swi_pattern_is_invertible(p)) {
            swi_bindings in = {.count = swi_pattern_var_count(p)}, out;
            swi_buf buf = {0};
            sw_error err = {0};
            in.part = (uint32_t)harness_random_below(&prng, swi_pattern_part_count(p));
            for (size_t i = 0; i < in.count; i++) {
                in.items[i].name = swi_pattern_var(p, i, NULL);
                in.items[i].value = harness_random_below(&prng, 1000000000000000000U);
            }
            assert_ok(swi_pattern_instantiate(p, &in, &buf, &err), &err);
            const char *name = buf.size > 0 ? (const char *)buf.data : "";
            assert_true(swi_pattern_match(p, name, buf.size, &out));
            assert_int_equal(out.count, in.count);
            assert_int_equal(out.part, in.part);
            for (size_t i = 0; i < in.count; i++)
                assert_true(out.items[i].value == in.items[i].value);
            swi_buf_free(&buf);
            made++;
        }
        swi_pattern_free(p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_match),    cmocka_unit_test(test_syntax),
        cmocka_unit_test(test_limits),   cmocka_unit_test(test_names),
        cmocka_unit_test(test_contents), cmocka_unit_test(test_overlap),
        cmocka_unit_test(test_random),   cmocka_unit_test(test_round_trip),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
