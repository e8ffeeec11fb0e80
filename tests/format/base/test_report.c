/* Findings: escaped, counted, kept up to a bound, in an order that no thread can change. */
#include "harness/harness.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/report.h"
#include "base/text.h"

static sw_report *make_report(void)
{
    sw_error err = {0};
    sw_report *report = NULL;
    assert_ok(sw_report_make(&report, &err), &err);
    return report;
}

static void add(sw_report *report, sw_severity severity, const char *file, uint64_t offset,
                const char *code)
{
    sw_error err = {0};
    swi_finding_in in = {.severity = severity,
                         .status = SW_ERR_CORRUPT,
                         .code = code,
                         .file = file,
                         .has_offset = true,
                         .offset_bytes = offset};
    assert_ok(swi_report_add(report, &in, &err, "message of %s", code), &err);
}

static void test_fields(void **state)
{
    (void)state;
    sw_error err = {0};
    sw_report *report = make_report();
    swi_finding_in in = {.severity = SW_DEFECT,
                         .status = SW_ERR_CORRUPT,
                         .code = "crc-mismatch",
                         .file = "a\nb",
                         .tensor = "t\x1b[0m"};
    assert_ok(swi_report_add(report, &in, &err, "expected %d, found %d", 1, 2), &err);
    const sw_finding *f = sw_report_at(report, 0);
    assert_int_equal(f->severity, SW_DEFECT);
    assert_int_equal(f->status, SW_ERR_CORRUPT);
    assert_string_equal(f->code, "crc-mismatch");
    assert_string_equal(f->file, "a\\nb");
    assert_string_equal(f->tensor, "t\\x1b[0m");
    assert_string_equal(f->message, "expected 1, found 2");
    assert_false(f->has_offset);
    swi_finding_in none = {.severity = SW_NOTE};
    assert_ok(swi_report_add(report, &none, &err, "%s", "only text"), &err);
    f = sw_report_at(report, 1);
    assert_string_equal(f->code, "");
    assert_string_equal(f->file, "");
    assert_string_equal(f->tensor, "");
    assert_null(sw_report_at(report, 2));
    assert_ok(swi_report_add(NULL, &in, &err, "dropped"), &err);
    in.severity = (sw_severity)9;
    assert_int_equal(swi_report_add(report, &in, &err, "x"), SW_ERR_ARG);
    assert_error(&err, SW_ERR_ARG, "no such severity: 9");
    sw_report_free(report);
}

static void test_error_becomes_finding(void **state)
{
    (void)state;
    sw_error err = {0};
    sw_report *report = make_report();
    swi_fail_at(&err, SW_ERR_FORMAT, "PK-2", 17, "opcode 0xff");
    swi_finding_in in = {.severity = SW_DEFECT, .code = "bad-pickle", .file = "m"};
    assert_ok(swi_report_error(report, &in, &err, &err), &err);
    const sw_finding *f = sw_report_at(report, 0);
    assert_string_equal(f->message, "opcode 0xff [PK-2]");
    assert_int_equal(f->status, SW_ERR_FORMAT);
    assert_true(f->has_offset);
    assert_int_equal(f->offset_bytes, 17);
    sw_report_free(report);
}

static void test_order(void **state)
{
    (void)state;
    sw_report *report = make_report();
    add(report, SW_NOTE, "a", 0, "n");
    add(report, SW_DEFECT, "b", 9, "x");
    add(report, SW_DEFECT, "b", 9, "w");
    add(report, SW_DEFECT, "b", 10, "a");
    add(report, SW_DEFECT, "a", 99, "z");
    add(report, SW_DANGER, "z", 0, "d");
    add(report, SW_WARNING, "a", 0, "v");
    sw_report_sort(report);
    static const char order[] = "dzwxavn";
    for (size_t i = 0; i < 7; i++)
        assert_int_equal(sw_report_at(report, i)->code[0], order[i]);
    sw_report_free(report);
}

/* Ten thousand are kept, all are counted, and a flood of notes cannot hide a danger. */
static void test_cap(void **state)
{
    (void)state;
    sw_report *report = make_report();
    for (uint64_t i = 0; i < 12000; i++)
        add(report, SW_NOTE, "f", i, "note");
    assert_int_equal(sw_report_count(report), 10000);
    assert_int_equal(sw_report_total(report, SW_NOTE), 12000);
    add(report, SW_DANGER, "f", 1, "danger");
    add(report, SW_DEFECT, "f", 2, "defect");
    assert_int_equal(sw_report_count(report), 10000);
    assert_int_equal(sw_report_total(report, SW_DANGER), 1);
    assert_int_equal(sw_report_total(report, SW_NOTE), 12000);
    assert_int_equal(sw_report_total(report, (sw_severity)7), 0);
    sw_report_sort(report);
    assert_string_equal(sw_report_at(report, 0)->code, "danger");
    assert_string_equal(sw_report_at(report, 1)->code, "defect");
    assert_int_equal(sw_report_at(report, 9999)->offset_bytes, 9997);
    assert_null(sw_report_at(report, 10000));
    sw_report_free(report);
}

static void test_long_texts(void **state)
{
    (void)state;
    sw_error err = {0};
    sw_report *report = make_report();
    static char name[100000];
    memset(name, 'n', sizeof name - 1);
    swi_finding_in in = {.severity = SW_DEFECT, .code = "c", .file = name, .tensor = name};
    assert_ok(swi_report_add(report, &in, &err, "%s", name), &err);
    const sw_finding *f = sw_report_at(report, 0);
    assert_in_range(strlen(f->file), 1000, 1024);
    assert_non_null(strstr(f->file, "n...n"));
    assert_int_equal(strlen(f->message), SW_ERROR_TEXT_MAX - 1);
    sw_report_free(report);
}

static void *add_many(void *arg)
{
    for (uint64_t i = 0; i < 1000; i++)
        add(arg, i % 2 ? SW_DEFECT : SW_NOTE, "f", i, "x");
    return NULL;
}

static void test_threads(void **state)
{
    (void)state;
    sw_report *report = make_report();
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, add_many, report), 0);
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_int_equal(sw_report_count(report), 4000);
    assert_int_equal(sw_report_total(report, SW_DEFECT), 2000);
    sw_report_sort(report);
    for (size_t i = 0; i < 4000; i++)
        assert_int_equal(sw_report_at(report, i)->offset_bytes,
                         i < 2000 ? i / 4 * 2 + 1 : (i - 2000) / 4 * 2);
    sw_report_free(report);
    sw_report_free(NULL);
    assert_int_equal(sw_report_count(NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fields),     cmocka_unit_test(test_error_becomes_finding),
        cmocka_unit_test(test_order),      cmocka_unit_test(test_cap),
        cmocka_unit_test(test_long_texts), cmocka_unit_test(test_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
