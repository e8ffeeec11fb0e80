/* What each side of the known maps is for small configurations: names, shapes, order. */
#include "convert/fixture.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "io/store.h"
#include "map/map.h"
#include "map/model.h"
#include "model/piece.h"

static void add_side(const swi_model *m, size_t side, swi_buf *out)
{
    sw_error err = {0};
    swi_model_tensor t;
    assert_int_equal(swi_buf_printf(out, &err, "side %s\n", swi_model_side_name(m, side)), SW_OK);
    for (size_t i = 0; swi_model_tensor_at(m, side, i, &t); i++) {
        assert_int_equal(swi_buf_printf(out, &err, "%s [", t.name), SW_OK);
        for (uint32_t k = 0; k < t.axes; k++)
            assert_int_equal(
                swi_buf_printf(out, &err, "%s%lld", k > 0 ? "," : "", (long long)t.shape[k]),
                SW_OK);
        const char *some = t.buffer || t.constant || t.optional ? " " : "";
        assert_int_equal(swi_buf_printf(out, &err, "]%s%s%s%s\n", some, t.buffer ? "b" : "",
                                        t.constant ? "c" : "", t.optional ? "o" : ""),
                         SW_OK);
    }
}

static void check_golden(const char *folder, const char *config)
{
    char path[1024];
    uint8_t *expected;
    size_t size;
    swi_model *m = NULL;
    swi_buf text = {0};
    sw_error err = {0};
    snprintf(path, sizeof path, "%s/tests/golden/maps/%s/%s", SW_SOURCE_DIR, folder, config);
    const swi_model_ask ask = {.config = path};
    sw_status st = swi_model_find(&ask, &m, &err);
    if (st != SW_OK)
        fail_msg("%s: %s", folder, err.text);
    for (size_t i = 0; i < swi_model_side_count(m); i++)
        if (swi_model_tensor_count(m, i) > 0)
            add_side(m, i, &text);
    snprintf(path, sizeof path, "%s/tests/golden/maps/%s/sides.txt", SW_SOURCE_DIR, folder);
    assert_int_equal(swi_read_file(path, 1 << 20, &expected, &size, &err), SW_OK);
    size_t at = 0, line = 1;
    while (at < size && at < text.size && expected[at] == text.data[at])
        line += expected[at++] == '\n';
    if (at < size || at < text.size)
        fail_msg("%s/sides.txt differs from line %zu on: \"%.80s\"", folder, line,
                 at < text.size ? (const char *)text.data + at : "");
    free(expected);
    swi_buf_free(&text);
    swi_model_free(m);
}

static void test_sides(void **state)
{
    (void)state;
    static const char *const folders[] = {
        "deepseek-v3",  "deepseek-v3-plain", "gemma2",  "gpt2",    "gpt2-untied", "llama",
        "llama-biases", "llama-tied",        "mistral", "mixtral", "qwen2-tied",  "qwen3",
        "qwen3-moe"};
    for (size_t i = 0; i < sizeof folders / sizeof folders[0]; i++)
        check_golden(folders[i], "config.json");
    check_golden("llama-params", "params.json");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_sides)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
