/*
 * For each case of tests/golden/maps: the tensors of every side, by name, shape and order, are
 * those that another program made of the same map and configuration (tests/golden/make_maps.py).
 */
#include "harness/harness.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "map/model.h"

#define CASES SW_SOURCE_DIR "/tests/golden/maps"

/* As make_maps.py writes it: "NAME [1,2] bc". */
static void describe(const swi_model_tensor *tensor, char *out, size_t size)
{
    int used = snprintf(out, size, "%s [", tensor->name);
    for (uint32_t i = 0; i < tensor->axes; i++)
        used += snprintf(out + used, size - (size_t)used, "%s%" PRId64, i > 0 ? "," : "",
                         tensor->shape[i]);
    used += snprintf(out + used, size - (size_t)used, "]");
    if (tensor->buffer || tensor->constant || tensor->optional)
        snprintf(out + used, size - (size_t)used, " %s%s%s", tensor->buffer ? "b" : "",
                 tensor->constant ? "c" : "", tensor->optional ? "o" : "");
}

static void compare(const swi_model *model, char *expected)
{
    int64_t side = -1;
    size_t next = 0;
    char *rest = NULL;
    for (char *line = strtok_r(expected, "\n", &rest); line != NULL;
         line = strtok_r(NULL, "\n", &rest)) {
        if (strncmp(line, "side ", 5) == 0) {
            if (side >= 0)
                assert_int_equal(next, swi_model_tensor_count(model, (size_t)side));
            side = swi_model_side(model, line + 5);
            assert_true(side >= 0);
            next = 0;
            continue;
        }
        swi_model_tensor tensor;
        char got[4096];
        assert_true(swi_model_tensor_at(model, (size_t)side, next++, &tensor));
        describe(&tensor, got, sizeof got);
        assert_string_equal(got, line);
        assert_int_equal(swi_model_tensor_find(model, (size_t)side, tensor.name), next - 1);
    }
    assert_int_equal(next, swi_model_tensor_count(model, (size_t)side));
}

static void check_case(const char *name)
{
    char *config = harness_path(CASES, "%s", name);
    const swi_model_ask ask = {.config = config,
                               .map = strcmp(name, "llama-params") == 0 ? "llama" : NULL};
    sw_error err;
    swi_model *model = NULL;
    assert_ok(swi_model_find(&ask, &model, &err), &err);
    size_t size;
    char *path = harness_path(CASES, "%s/sides.txt", name);
    char *expected = (char *)harness_read(path, &size);
    compare(model, expected);
    swi_model_free(model);
    free(expected);
    free(path);
    free(config);
}

static void sides_are_what_they_were(void **state)
{
    (void)state;
    DIR *folder = opendir(CASES);
    assert_non_null(folder);
    size_t count = 0;
    for (const struct dirent *entry; (entry = readdir(folder)) != NULL;) {
        if (entry->d_name[0] == '.')
            continue;
        print_message("%s\n", entry->d_name);
        check_case(entry->d_name);
        count++;
    }
    closedir(folder);
    assert_true(count >= 14);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(sides_are_what_they_were)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
