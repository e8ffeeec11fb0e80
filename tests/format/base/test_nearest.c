/* The name that is most like a wrong one. */
#include "harness/harness.h"

#include <string.h>

#include "base/nearest.h"

static const char *nearest(const char *name, const char *const *names, size_t count)
{
    swi_nearest n = swi_nearest_begin(name, strlen(name));
    for (size_t i = 0; i < count; i++)
        swi_nearest_offer(&n, names[i]);
    return n.found;
}

static void test_found(void **state)
{
    (void)state;
    static const char *const names[] = {"dim", "split", "units", "rearrange"};
    assert_string_equal(nearest("spit", names, 4), "split");
    assert_string_equal(nearest("splits", names, 4), "split");
    assert_string_equal(nearest("unite", names, 4), "units");
    assert_string_equal(nearest("rearange", names, 4), "rearrange");
    assert_string_equal(nearest("dim", names, 4), "dim");
    /* The first of those that are as near. */
    static const char *const twins[] = {"ab1", "ab2"};
    assert_string_equal(nearest("ab3", twins, 2), "ab1");
}

static void test_none(void **state)
{
    (void)state;
    static const char *const names[] = {"dim", "split", ""};
    assert_null(nearest("rearrange", names, 3));
    assert_null(nearest("xyz", names, 3));
    assert_null(nearest("split", names, 0));
    char large[300];
    memset(large, 'a', sizeof large - 1);
    large[sizeof large - 1] = '\0';
    const char *const itself[] = {large};
    assert_null(nearest(large, itself, 1));
    assert_null(nearest("a", itself, 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_found),
        cmocka_unit_test(test_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
