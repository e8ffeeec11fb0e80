/* Many names as few lines: what each line says is what it stands for. */
#include "harness/harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "map/name_groups.h"

/* Names between blanks; those behind '!' are not chosen. `out`: groups as "text:count:elements". */
static void group(const char *names, bool whole, char *out, size_t room)
{
    char text[2048], *rest = text;
    swi_name_in in[128];
    swi_name_groups g = {0};
    sw_error err = {0};
    size_t count = 0, n = 0;
    snprintf(text, sizeof text, "%s", names);
    for (char *word; (word = strsep(&rest, " ")) != NULL; count++) {
        assert_true(count < 128);
        const bool chosen = word[0] != '!';
        in[count] = (swi_name_in){.name = word + !chosen, .chosen = chosen, .elements = 10};
    }
    assert_ok(swi_name_groups_make(in, count, whole, &g, &err), &err);
    out[0] = '\0';
    for (size_t i = 0; i < g.count; i++)
        n += (size_t)snprintf(out + n, room - n, "%s%s:%llu:%llu", i > 0 ? " " : "",
                              g.items[i].text, (unsigned long long)g.items[i].count,
                              (unsigned long long)g.items[i].elements);
    swi_name_groups_free(&g);
}

static void assert_groups(const char *names, bool whole, const char *expected)
{
    char out[2048];
    group(names, whole, out, sizeof out);
    assert_string_equal(out, expected);
}

static void test_numbers(void **state)
{
    (void)state;
    assert_groups("a.b", false, "a.b:1:10");
    assert_groups("l.0.w l.1.w l.2.w", false, "l.{0-2}.w:3:30");
    assert_groups("l.0.w l.2.w l.3.w l.9.w l.10.w", false, "l.{0,2-3,9-10}.w:5:50");
    /* two numbers: a grid is one line, what is none is several */
    assert_groups("l.0.e.2 l.0.e.3 l.1.e.2 l.1.e.3", false, "l.{0-1}.e.{2-3}:4:40");
    assert_groups("l.0.e.2 l.0.e.3 l.1.e.2", false, "l.0.e.{2-3}:2:20 l.1.e.2:1:10");
    /* in the order of the first names */
    assert_groups("z l.0.w a l.1.w", false, "z:1:10 l.{0-1}.w:2:20 a:1:10");
    /* numbers at the end of a part count, others and such as are no indexes do not */
    assert_groups("fc.weight0 fc.weight1", false, "fc.weight{0-1}:2:20");
    assert_groups("w1_a w2_a", false, "w1_a:1:10 w2_a:1:10");
    assert_groups("l.01.w l.02.w", false, "l.01.w:1:10 l.02.w:1:10");
    assert_groups("l.1234567890.w l.1234567891.w", false,
                  "l.1234567890.w:1:10 l.1234567891.w:1:10");
    /* what looks like a group already is a name */
    assert_groups("l.{0-1}.w l.0.w", false, "l.{0-1}.w:1:10 l.0.w:1:10");
    assert_groups("l.0.w l.2.w l.4.w l.6.w l.8.w l.10.w l.12.w l.14.w l.16.w l.18.w l.20.w l.22.w "
                  "l.24.w l.26.w",
                  false, "l.{0,2,4,6,8,10,12,14,16,18,20,22,...}.w:14:140");
}

static void test_whole_parts(void **state)
{
    (void)state;
    assert_groups("!l.0.a !l.0.b l.1.a l.1.b l.2.a l.2.b", true, "l.{1-2}.**:4:40");
    /* the outermost part that is whole */
    assert_groups("!l.0.e.0.w !l.0.e.0.v l.0.e.1.w l.0.e.1.v l.1.e.0.w l.1.e.0.v l.1.e.1.w", true,
                  "l.0.e.1.**:2:20 l.1.**:3:30");
    /* one name is named, a part of which something is there is not whole */
    assert_groups("!l.0.a l.1.a", true, "l.1.a:1:10");
    assert_groups("l.0.a !l.0.b l.1.a !l.1.b", true, "l.{0-1}.a:2:20");
    assert_groups("l.0.a l.0.b", false, "l.0.a:1:10 l.0.b:1:10");
    assert_groups("!a !b", true, "");
}

static void test_kinds(void **state)
{
    (void)state;
    const swi_name_in in[] = {{.name = "l.0.w", .chosen = true, .kind = 1},
                              {.name = "l.1.w", .chosen = true, .kind = 2},
                              {.name = "l.2.w", .chosen = true, .kind = 1}};
    swi_name_groups g = {0};
    sw_error err = {0};
    assert_ok(swi_name_groups_make(in, 3, false, &g, &err), &err);
    assert_int_equal(g.count, 2);
    assert_string_equal(g.items[0].text, "l.{0,2}.w");
    assert_string_equal(g.items[0].first, "l.0.w");
    assert_int_equal(g.items[0].kind, 1);
    assert_string_equal(g.items[1].text, "l.1.w");
    swi_name_groups_free(&g);
    assert_ok(swi_name_groups_make(NULL, 0, true, &g, &err), &err);
    assert_int_equal(g.count, 0);
    swi_name_groups_free(&g);
}

/* ---- against what the lines stand for ---------------------------------------------------------
 */

#define LAYERS 5
#define EXPERTS 4
#define PARTS 3

/* Whether "{0-2,7}" or "3" at *text says the number; *text goes behind it. */
static bool says(const char **text, unsigned long number)
{
    const bool braces = **text == '{';
    bool yes = false;
    do {
        char *end;
        *text += **text == '{' || **text == ',';
        const unsigned long from = strtoul(*text, &end, 10);
        unsigned long to = from;
        if (*end == '-')
            to = strtoul(end + 1, &end, 10);
        yes = yes || (from <= number && number <= to);
        *text = end;
    } while (braces && **text == ',');
    *text += braces;
    return yes;
}

/* Whether a line stands for "l.LAYER.e.EXPERT.wPART". */
static bool stands_for(const char *line, unsigned long layer, unsigned long expert,
                       unsigned long part)
{
    const char *p = line + 2;
    bool yes = says(&p, layer);
    if (strcmp(p, ".**") == 0)
        return yes;
    p += 3;
    yes = says(&p, expert) && yes;
    if (strcmp(p, ".**") == 0)
        return yes;
    p += 2;
    return says(&p, part) && yes;
}

/* Each chosen name is meant by one line, others by none, and the counts are right. */
static void test_random(void **state)
{
    (void)state;
    harness_prng rng = {.state = 5};
    for (int round = 0; round < 300; round++) {
        static char names[LAYERS * EXPERTS * PARTS][32];
        swi_name_in in[LAYERS * EXPERTS * PARTS];
        swi_name_groups g = {0};
        sw_error err = {0};
        const uint64_t share = 1 + harness_random_below(&rng, 9);
        const bool whole = harness_random_below(&rng, 2) == 0;
        for (size_t i = 0; i < LAYERS * EXPERTS * PARTS; i++) {
            snprintf(names[i], sizeof names[i], "l.%zu.e.%zu.w%zu", i / PARTS / EXPERTS,
                     i / PARTS % EXPERTS, i % PARTS);
            in[i] = (swi_name_in){.name = names[i],
                                  .chosen = harness_random_below(&rng, 10) < share,
                                  .elements = i + 1};
            if (i % PARTS > 0 && harness_random_below(&rng, 4) > 0)
                in[i].chosen = in[i - 1].chosen;
        }
        assert_ok(swi_name_groups_make(in, LAYERS * EXPERTS * PARTS, whole, &g, &err), &err);
        for (size_t k = 0; k < g.count; k++) {
            uint64_t count = 0, elements = 0;
            for (size_t i = 0; i < LAYERS * EXPERTS * PARTS; i++) {
                if (!stands_for(g.items[k].text, i / PARTS / EXPERTS, i / PARTS % EXPERTS,
                                i % PARTS))
                    continue;
                if (!in[i].chosen)
                    fail_msg("%s stands for %s, which is not chosen", g.items[k].text, names[i]);
                in[i].kind++; /* met */
                count++;
                elements += in[i].elements;
            }
            assert_int_equal(g.items[k].count, count);
            assert_int_equal(g.items[k].elements, elements);
        }
        for (size_t i = 0; i < LAYERS * EXPERTS * PARTS; i++)
            assert_int_equal(in[i].kind, in[i].chosen ? 1 : 0);
        swi_name_groups_free(&g);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_whole_parts),
        cmocka_unit_test(test_kinds),
        cmocka_unit_test(test_random),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
