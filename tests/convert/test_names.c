/* Wrapper parts of names, the order of names, ranges of ranks (specs/names.md). */
#include "harness/harness.h"

#include <string.h>

#include "ranges.h"
#include "select/names.h"

static const char *cleaned(const char *name, bool drop_module, uint64_t *removed)
{
    static char text[256];
    swi_buf buf = {0};
    sw_error err = {0};
    *removed = 0;
    assert_ok(swi_clean_name(name, drop_module, &buf, removed, &err), &err);
    assert_true(buf.size <= sizeof text && buf.data[buf.size - 1] == '\0');
    memcpy(text, buf.data, buf.size);
    swi_buf_free(&buf);
    return text;
}

static void wrapper_parts_go(void **state)
{
    (void)state;
    static const struct {
        const char *name, *clean;
        bool drop_module;
        uint64_t removed;
    } cases[] = {
        {"a.b.weight", "a.b.weight", false, 0},
        {"_orig_mod.a.w", "a.w", false, 1},
        {"_orig_mod.module.layers.0._checkpoint_wrapped_module.w", "layers.0.w", true, 3},
        {"_orig_mod.module.layers.0._checkpoint_wrapped_module.w", "module.layers.0.w", false, 2},
        {"module.module.w", "module.w", true, 1},
        {"a._fsdp_wrapped_module._fpw_module.w", "a.w", false, 2},
        /* whole parts only, and never the last */
        {"my_orig_mod.w", "my_orig_mod.w", false, 0},
        {"_orig_modx.w", "_orig_modx.w", false, 0},
        {"a._orig_mod", "a._orig_mod", false, 0},
        {"a.module.w", "a.module.w", true, 0},
        {"module", "module", true, 0},
        {"", "", false, 0},
        {"..w", "..w", false, 0},
        {"_orig_mod..w.", ".w.", false, 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint64_t removed;
        assert_string_equal(cleaned(cases[i].name, cases[i].drop_module, &removed), cases[i].clean);
        assert_int_equal(removed, cases[i].removed);
    }
}

static void module_prefix(void **state)
{
    (void)state;
    assert_true(swi_has_module_prefix("module.w"));
    assert_true(swi_has_module_prefix("_orig_mod.module.w"));
    assert_false(swi_has_module_prefix("modules.w"));
    assert_false(swi_has_module_prefix("a.module.w"));
    assert_false(swi_has_module_prefix("module"));
    assert_false(swi_has_module_prefix("_orig_mod"));
}

static void digits_are_numbers(void **state)
{
    (void)state;
    static const char *const ascending[] = {"",        "a",     "a.2.w", "a.9.w", "a.10.w",
                                            "a.010.x", "a.100", "ab",    "b1",    "b01c"};
    size_t n = sizeof ascending / sizeof ascending[0];
    for (size_t i = 0; i < n; i++) {
        for (size_t k = 0; k < n; k++) {
            int order = swi_name_order(ascending[i], ascending[k]);
            assert_true(i == k ? order == 0 : i < k ? order < 0 : order > 0);
        }
    }
    assert_true(swi_name_order("a.01", "a.1") != 0);
    assert_true(swi_name_order("x18446744073709551616", "x18446744073709551617") < 0);
}

static void ranges(void **state)
{
    (void)state;
    uint64_t numbers[] = {9, 0, 1, 2, 12, 10, 11, 7, 2};
    swi_ranges r = {0};
    swi_ranges_add_all(&r, numbers, sizeof numbers / sizeof numbers[0]);
    assert_string_equal(swi_ranges_text(&r), "0-2, 7, 9-12");
    assert_int_equal(r.count, 9);
    swi_ranges none = {0};
    assert_string_equal(swi_ranges_text(&none), "(none)");
    swi_ranges many = {0};
    for (uint64_t i = 0; i < 2000; i += 2)
        swi_ranges_add(&many, i);
    const char *text = swi_ranges_text(&many);
    assert_true(strlen(text) < sizeof many.text);
    assert_string_equal(text + strlen(text) - 5, ", ...");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wrapper_parts_go),
        cmocka_unit_test(module_prefix),
        cmocka_unit_test(digits_are_numbers),
        cmocka_unit_test(ranges),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
