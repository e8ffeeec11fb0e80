/* model.safetensors.index.json: reading and writing. */
#include "harness/harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "container/hf_index.h"

static swi_hf_index *parse_good(const char *text)
{
    swi_hf_index *index = NULL;
    sw_error err = {0};
    assert_ok(swi_hf_index_parse(text, strlen(text), NULL, &index, &err), &err);
    return index;
}

static void test_good(void **state)
{
    (void)state;
    swi_hf_index *index =
        parse_good("{\"metadata\":{\"total_parameters\":3,\"total_size\":12,\"x\":[{}]},\"other\":"
                   "[1,{\"weight_map\":2}],\"weight_map\":{\"b\":\"m-2.safetensors\",\"a\":"
                   "\"m-1.safetensors\",\"c\\u00e9\":\"m-2.safetensors\",\"d\":\"sub/m.bin\"}}\n");
    assert_int_equal(swi_hf_index_count(index), 4);
    assert_int_equal(swi_hf_index_file_count(index), 3);
    assert_string_equal(swi_hf_index_file(index, 0), "m-2.safetensors");
    assert_string_equal(swi_hf_index_file(index, 1), "m-1.safetensors");
    assert_string_equal(swi_hf_index_file(index, 2), "sub/m.bin");
    assert_null(swi_hf_index_file(index, 3));
    static const char *const names[] = {"b", "a", "c\xc3\xa9", "d"};
    static const uint32_t files[] = {0, 1, 0, 2};
    for (size_t i = 0; i < 4; i++) {
        const char *name = NULL;
        uint32_t file = 9;
        assert_true(swi_hf_index_at(index, i, &name, &file));
        assert_string_equal(name, names[i]);
        assert_int_equal(file, files[i]);
        assert_int_equal(swi_hf_index_find(index, name), files[i]);
    }
    const char *name;
    uint32_t file;
    assert_false(swi_hf_index_at(index, 4, &name, &file));
    assert_int_equal(swi_hf_index_find(index, "m-1.safetensors"), -1);
    uint64_t total = 0;
    assert_true(swi_hf_index_total_size(index, &total));
    assert_int_equal(total, 12);
    swi_hf_index_free(index);
}

static void test_total_size(void **state)
{
    (void)state;
    static const struct {
        const char *metadata;
        bool has;
        uint64_t total;
    } cases[] = {
        {"{\"total_size\":0}", true, 0},
        {"{\"total_size\":13476835328.0}", true, 13476835328},
        {"{\"total_size\":1.5}", false, 0},
        {"{\"total_size\":-1}", false, 0},
        {"{\"total_size\":1e30}", false, 0},
        {"{\"total_size\":9223372036854775808}", false, 0},
        {"{\"total_size\":\"12\"}", false, 0},
        {"{\"total_size\":{\"a\":[1]}}", false, 0},
        {"{\"size\":12}", false, 0},
        {"{}", false, 0},
        {"null", false, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[128];
        uint64_t total = 99;
        (void)snprintf(text, sizeof text, "{\"weight_map\":{},\"metadata\":%s}", cases[i].metadata);
        swi_hf_index *index = parse_good(text);
        assert_int_equal(swi_hf_index_total_size(index, &total), cases[i].has);
        assert_int_equal(total, cases[i].has ? cases[i].total : 99);
        swi_hf_index_free(index);
    }
    swi_hf_index *index = parse_good("{\"weight_map\":{}}");
    uint64_t total;
    assert_false(swi_hf_index_total_size(index, &total));
    assert_int_equal(swi_hf_index_count(index), 0);
    swi_hf_index_free(index);
}

/* '^' marks the position; it is left out. */
static void test_bad(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        sw_status status;
        const char *clause;
        const char *message;
    } cases[] = {
        {"^", SW_ERR_FORMAT, "IDX-1", "found the end"},
        {"^[]", SW_ERR_FORMAT, "IDX-1", "expected an object, found an array"},
        {"^{}", SW_ERR_FORMAT, "IDX-1", "no weight_map"},
        {"^{\"metadata\":{\"total_size\":1}}", SW_ERR_FORMAT, "IDX-1", "no weight_map"},
        {"{\"weight_map\":{}}^x", SW_ERR_FORMAT, "IDX-1", "expected the end of the document"},
        {"{\"weight_map\":{\"a\":\"f\"^", SW_ERR_FORMAT, "IDX-1", "found the end"},
        {"{\"weight_map\":^[]}", SW_ERR_FORMAT, "IDX-1", "weight_map: expected an object"},
        {"{\"weight_map\":{},^\"weight_map\":{}}", SW_ERR_FORMAT, "IDX-1",
         "weight_map is there twice"},
        {"{\"metadata\":{},^\"metadata\":{}}", SW_ERR_FORMAT, "IDX-1", "metadata is there twice"},
        {"{\"weight_map\":{\"a\":^1}}", SW_ERR_FORMAT, "IDX-2",
         "expected a file name, found an int"},
        {"{\"weight_map\":{\"a\":^null}}", SW_ERR_FORMAT, "IDX-2",
         "expected a file name, found null"},
        {"{\"weight_map\":{\"a\":^[\"f\"]}}", SW_ERR_FORMAT, "IDX-2", "found an array"},
        {"{\"weight_map\":{\"a\":\"f\",^\"a\":\"f\"}}", SW_ERR_FORMAT, "IDX-2",
         "tensor \"a\" is there twice"},
        {"{\"weight_map\":{\"a\":\"f\",^\"\\u0061\":\"g\"}}", SW_ERR_FORMAT, "IDX-2",
         "there twice"},
        {"{\"weight_map\":{^\"a\\u0000\":\"f\"}}", SW_ERR_UNSUPPORTED, "IDX-2", "NUL"},
        {"{\"weight_map\":{\"a\":^\"../f\"}}", SW_ERR_UNSAFE, "IDX-3", "../f"},
        {"{\"weight_map\":{\"a\":\"f\",\"b\":^\"/etc/passwd\"}}", SW_ERR_UNSAFE, "IDX-3",
         "/etc/passwd"},
        {"{\"weight_map\":{\"a\":^\"x/../../f\"}}", SW_ERR_UNSAFE, "IDX-3", "x/../../f"},
        {"{\"weight_map\":{\"a\":^\"\"}}", SW_ERR_UNSAFE, "IDX-3", "file name"},
        {"{\"weight_map\":{\"a\":^\".\"}}", SW_ERR_UNSAFE, "IDX-3", "file name"},
        {"{\"weight_map\":{\"a\":^\"f\\u0000\"}}", SW_ERR_UNSAFE, "IDX-3", "NUL"},
        {"{\"metadata\":^[],\"weight_map\":{}}", SW_ERR_FORMAT, "IDX-4", "expected an object"},
        {"{\"metadata\":{\"total_size\":1,^\"total_size\":2},\"weight_map\":{}}", SW_ERR_FORMAT,
         "IDX-4", "total_size is there twice"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[128];
        const char *mark = strchr(cases[i].text, '^');
        assert_non_null(mark);
        size_t before = (size_t)(mark - cases[i].text);
        (void)snprintf(text, sizeof text, "%.*s%s", (int)before, cases[i].text, mark + 1);
        swi_hf_index *index = NULL;
        sw_error err = {0};
        sw_status got = swi_hf_index_parse(text, strlen(text), NULL, &index, &err);
        if (got != cases[i].status || err.offset_bytes != before)
            print_error("%s: %s at %llu\n", text, err.text, (unsigned long long)err.offset_bytes);
        assert_error(&err, cases[i].status, cases[i].message);
        assert_int_equal(got, cases[i].status);
        assert_string_equal(err.clause, cases[i].clause);
        assert_int_equal(err.offset_bytes, before);
        assert_null(index);
    }
}

static void test_limits(void **state)
{
    (void)state;
    static const char text[] = "{\"weight_map\":{\"a\":\"f\",\"b\":\"g\"}}";
    const sw_limits one_tensor = {.tensors = 1}, one_file = {.files = 1}, flat = {.depth = 1};
    swi_hf_index *index = NULL;
    sw_error err = {0};
    assert_int_equal(swi_hf_index_parse(text, sizeof text - 1, &one_tensor, &index, &err),
                     SW_ERR_LIMIT);
    assert_error(&err, SW_ERR_LIMIT, "more than 1 tensors");
    assert_int_equal(swi_hf_index_parse(text, sizeof text - 1, &one_file, &index, &err),
                     SW_ERR_LIMIT);
    assert_error(&err, SW_ERR_LIMIT, "more than 1 files");
    assert_int_equal(swi_hf_index_parse(text, sizeof text - 1, &flat, &index, &err), SW_ERR_LIMIT);
    assert_null(index);
}

static void test_every_cut_and_byte(void **state)
{
    (void)state;
    static const char text[] =
        "{\"metadata\":{\"total_size\":12},\"weight_map\":{\"a\":\"m-1\",\"b\":"
        "\"m/2\"}}";
    char changed[sizeof text];
    for (size_t size = 0; size < sizeof text - 1; size++) {
        swi_hf_index *index = NULL;
        sw_error err = {0};
        assert_int_equal(swi_hf_index_parse(text, size, NULL, &index, &err), SW_ERR_FORMAT);
        for (unsigned byte = 0; byte < 256; byte++) {
            memcpy(changed, text, sizeof text);
            changed[size] = (char)byte;
            index = NULL;
            sw_status status = swi_hf_index_parse(changed, sizeof text - 1, NULL, &index, &err);
            assert_true((status == SW_OK) == (index != NULL));
            swi_hf_index_free(index);
        }
    }
}

/* json.dumps(index, indent=2, sort_keys=True) + "\n", as transformers does. */
static void test_write(void **state)
{
    (void)state;
    swi_hf_index_entry entries[] = {{"b\xc3\xa9", "model-00002-of-00002.safetensors"},
                                    {"a\"q", "model-00001-of-00002.safetensors"},
                                    {"\xf0\x9f\x98\x80", "model-00002-of-00002.safetensors"},
                                    {"b.10", "model-00001-of-00002.safetensors"},
                                    {"b.2", "model-00001-of-00002.safetensors"},
                                    {"\xef\xbf\xa0", "model-00001-of-00002.safetensors"},
                                    {"B", "model-00001-of-00002.safetensors"}};
    static const char wanted[] =
        "{\n  \"metadata\": {\n    \"total_parameters\": 7,\n    \"total_size\": "
        "18446744073709551615\n  },\n  \"weight_map\": {\n"
        "    \"B\": \"model-00001-of-00002.safetensors\",\n"
        "    \"a\\\"q\": \"model-00001-of-00002.safetensors\",\n"
        "    \"b.10\": \"model-00001-of-00002.safetensors\",\n"
        "    \"b.2\": \"model-00001-of-00002.safetensors\",\n"
        "    \"b\\u00e9\": \"model-00002-of-00002.safetensors\",\n"
        "    \"\\uffe0\": \"model-00001-of-00002.safetensors\",\n"
        "    \"\\ud83d\\ude00\": \"model-00002-of-00002.safetensors\"\n  }\n}\n";
    swi_buf out = {0};
    sw_error err = {0};
    assert_ok(swi_hf_index_write(&out, entries, 7, UINT64_MAX, 7, &err), &err);
    assert_ok(swi_buf_u8(&out, 0, &err), &err);
    assert_string_equal((const char *)out.data, wanted);
    swi_hf_index *index = parse_good((const char *)out.data);
    assert_int_equal(swi_hf_index_count(index), 7);
    assert_int_equal(swi_hf_index_find(index, "b\xc3\xa9"), 1);
    swi_hf_index_free(index);
    swi_buf_free(&out);
    assert_ok(swi_hf_index_write(&out, NULL, 0, 0, 0, &err), &err);
    assert_ok(swi_buf_u8(&out, 0, &err), &err);
    assert_string_equal(
        (const char *)out.data,
        "{\n  \"metadata\": {\n    \"total_parameters\": 0,\n    \"total_size\": 0\n"
        "  },\n  \"weight_map\": {}\n}\n");
    swi_buf_free(&out);
}

static void test_write_refuses(void **state)
{
    (void)state;
    swi_buf out = {0};
    sw_error err = {0};
    swi_hf_index_entry twice[] = {{"a", "f"}, {"b", "f"}, {"a", "g"}};
    assert_int_equal(swi_hf_index_write(&out, twice, 3, 0, 0, &err), SW_ERR_CONFLICT);
    assert_error(&err, SW_ERR_CONFLICT, "tensor \"a\" is there twice");
    swi_hf_index_entry broken[] = {{"a\xff", "f"}};
    assert_int_equal(swi_hf_index_write(&out, broken, 1, 0, 0, &err), SW_ERR_UNSUPPORTED);
    assert_error(&err, SW_ERR_UNSUPPORTED, "not UTF-8");
    assert_int_equal(out.size, 0);
    swi_buf_free(&out);
}

static void test_many(void **state)
{
    (void)state;
    enum { COUNT = 100000 };
    swi_hf_index_entry *entries = calloc(COUNT, sizeof *entries);
    char(*names)[32] = calloc(COUNT, sizeof *names);
    assert_true(entries != NULL && names != NULL);
    for (size_t i = 0; i < COUNT; i++) {
        (void)snprintf(names[i], sizeof names[i], "layer.%zu.weight", (i * 7919) % COUNT);
        entries[i] = (swi_hf_index_entry){names[i], i % 2 == 0 ? "even" : "odd"};
    }
    swi_buf out = {0};
    sw_error err = {0};
    assert_ok(swi_hf_index_write(&out, entries, COUNT, 1, 2, &err), &err);
    swi_hf_index *index = NULL;
    assert_ok(swi_hf_index_parse(out.data, out.size, NULL, &index, &err), &err);
    assert_int_equal(swi_hf_index_count(index), COUNT);
    for (size_t i = 0; i < COUNT; i++)
        assert_string_equal(swi_hf_index_file(index, (uint32_t)swi_hf_index_find(index, names[i])),
                            i % 2 == 0 ? "even" : "odd");
    swi_hf_index_free(index);
    swi_buf_free(&out);
    free(names);
    free(entries);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good),
        cmocka_unit_test(test_total_size),
        cmocka_unit_test(test_bad),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_every_cut_and_byte),
        cmocka_unit_test(test_write),
        cmocka_unit_test(test_write_refuses),
        cmocka_unit_test(test_many),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
