#include "harness/harness.h"

#include <string.h>

void harness_assert_error(const sw_error *err, sw_status status, const char *text, const char *file,
                          int line)
{
    if (err->status != status || strstr(err->text, text) == NULL) {
        print_error("error is %s \"%s\"\nexpected %s with \"%s\"\n", sw_status_name(err->status),
                    err->text, sw_status_name(status), text);
        _fail(file, line);
    }
}

void harness_assert_ok(sw_status status, const sw_error *err, const char *call, const char *file,
                       int line)
{
    if (status != SW_OK) {
        print_error("%s: %s: %s\n", call, sw_status_name(status), err != NULL ? err->text : "");
        _fail(file, line);
    }
}

void harness_assert_contains(const char *text, const char *part, const char *file, int line)
{
    if (strstr(text, part) == NULL) {
        print_error("\"%s\"\nis not in \"%s\"\n", part, text);
        _fail(file, line);
    }
}
