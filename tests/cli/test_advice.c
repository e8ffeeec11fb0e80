/* Every code of a defect or a danger that specs/cli.md lists has something to be done about it. */
#include <stdlib.h>
#include <string.h>

#include "harness/harness.h"

#include "cli.h"

/* The codes of "| `a`, `b` | severity | says |" that can be defects or dangers. */
static void check_row(char *row, size_t *count)
{
    char *rest = row;
    strsep(&rest, "|");
    char *codes = strsep(&rest, "|");
    const char *severity = strsep(&rest, "|");
    assert_non_null(rest);
    bool bad = strstr(severity, "defect") != NULL || strstr(severity, "danger") != NULL;
    strsep(&codes, "`");
    while (bad && codes != NULL) {
        const char *code = strsep(&codes, "`");
        /* of `opaque-tensor`, `bad-tensor` the first is the warning */
        if (advice_of(code) == NULL && strcmp(code, "opaque-tensor") != 0)
            fail_msg("no advice about %s", code);
        *count += 1;
        strsep(&codes, "`");
    }
}

static void every_defect_has_advice(void **state)
{
    (void)state;
    size_t size, count = 0;
    char *text = (char *)harness_read(SW_SOURCE_DIR "/specs/cli.md", &size);
    char *rest = strstr(text, "## Finding codes");
    assert_non_null(rest);
    for (char *line; (line = strsep(&rest, "\n")) != NULL;)
        if (strncmp(line, "| `", 3) == 0)
            check_row(line, &count);
    assert_true(count >= 30);
    free(text);
}

static void what_is_no_code_has_none(void **state)
{
    (void)state;
    static const char *const others[] = {"",    " ",    "file", "missing", "unsafe pickle",
                                         "nan", "short"};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        assert_null(advice_of(others[i]));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_defect_has_advice),
        cmocka_unit_test(what_is_no_code_has_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
