/* Patterns that leave nothing to others, against all short names. */
#include "harness/harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "notation/pattern_cover.h"

#define LETTERS 6
#define LONGEST 5

static swi_pattern *random_pattern(harness_prng *prng)
{
    static const char *const parts[] = {"a",     "b",    ".",     "*", "**",     "{n}",
                                        "(a|b)", "(a)?", "{a,b}", "1", "(ab|.)", "(a|b)?"};
    const uint64_t part_count = sizeof parts / sizeof parts[0];
    swi_pattern *made = NULL;
    while (made == NULL) {
        char text[64];
        size_t used = 0;
        sw_error err = {0};
        uint64_t count = 1 + harness_random_below(prng, 3);
        for (uint64_t i = 0; i < count; i++)
            used += (size_t)snprintf(text + used, sizeof text - used, "%s",
                                     parts[harness_random_below(prng, part_count)]);
        if (swi_pattern_parse(text, strlen(text), &made, &err) != SW_OK)
            made = NULL; /* two groups of parts, or a digit beside a number */
    }
    return made;
}

/* Of all names of up to LONGEST letters. */
static bool leaves_nothing(const swi_pattern *by, const swi_pattern *pattern)
{
    static const char letters[] = "ab.10x";
    for (size_t size = 0; size <= LONGEST; size++) {
        size_t count = 1;
        for (size_t i = 0; i < size; i++)
            count *= LETTERS;
        for (size_t n = 0; n < count; n++) {
            char name[LONGEST + 1];
            size_t left = n;
            for (size_t i = 0; i < size; i++, left /= LETTERS)
                name[i] = letters[left % LETTERS];
            if (swi_pattern_match(pattern, name, size, NULL) &&
                !swi_pattern_match(by, name, size, NULL))
                return false;
        }
    }
    return true;
}

static void covers_is_exact(void **state)
{
    (void)state;
    harness_prng prng = {31};
    int covering = 0;
    for (int round = 0; round < 1500; round++) {
        swi_pattern *a = random_pattern(&prng), *b = random_pattern(&prng);
        sw_error err = {0};
        bool covered;
        assert_ok(swi_pattern_covers(a, b, &covered, &err), &err);
        if (covered != leaves_nothing(a, b))
            print_error("%s over %s: %d\n", swi_pattern_text(a), swi_pattern_text(b), covered);
        assert_int_equal(covered, leaves_nothing(a, b));
        covering += covered;
        swi_pattern_free(a);
        swi_pattern_free(b);
    }
    assert_true(covering > 50);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(covers_is_exact)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
