/* What swi_st_open reads, and what swi_st_write_header writes. */
#include "st_recipes.h"

#include <stdio.h>

#include "base/buf.h"

static swi_st_tensor tensor_at(const swi_st *st, size_t i)
{
    swi_st_tensor t;
    swi_st_at(st, i, &t);
    return t;
}

/* name, dtype name, shape and bytes of tensor i, as one line */
static void assert_tensor(const swi_st *st, size_t i, const char *wanted)
{
    swi_st_tensor t = tensor_at(st, i);
    swi_buf line = {0};
    sw_error err = {0};
    assert_int_equal(strlen(t.name), t.name_size);
    assert_ok(
        swi_buf_printf(&line, &err, "%s %s/%s [", t.name, t.dtype_name, sw_dtype_name(t.dtype)),
        &err);
    for (uint32_t axis = 0; axis < t.axes; axis++)
        assert_ok(
            swi_buf_printf(&line, &err, "%s%lld", axis > 0 ? "," : "", (long long)t.shape[axis]),
            &err);
    assert_ok(swi_buf_printf(&line, &err, "] %llu+%llu",
                             (unsigned long long)(t.offset_bytes - swi_st_data_offset(st)),
                             (unsigned long long)t.bytes),
              &err);
    assert_ok(swi_buf_u8(&line, 0, &err), &err);
    assert_string_equal((const char *)line.data, wanted);
    swi_buf_free(&line);
}

/* ---- good files ------------------------------------------------------------------------------ */

static void test_order(void **state)
{
    (void)state;
    /* Any order in the header, any order of fields, unknown fields, spaces. */
    swi_st *st =
        open_good("{ \"z\" : {\"data_offsets\":[ 0 , 8 ], \"shape\":[2], \"dtype\":\"F32\"},"
                  "\"b\":{\"dtype\":\"I8\",\"shape\":[3],\"data_offsets\":[24,27],"
                  "\"extra\":{\"x\":[1,{}]}},\"a\":{\"dtype\":\"I64\",\"shape\":[2,1],"
                  "\"data_offsets\":[8,24]}}\n ",
                  27);
    assert_int_equal(swi_st_count(st), 3);
    assert_tensor(st, 0, "z F32/float32 [2] 0+8");
    assert_tensor(st, 1, "a I64/int64 [2,1] 8+16");
    assert_tensor(st, 2, "b I8/int8 [3] 24+3");
    assert_int_equal(swi_st_find(st, "z"), 0);
    assert_int_equal(swi_st_find(st, "a"), 1);
    assert_int_equal(swi_st_find(st, "b"), 2);
    assert_int_equal(swi_st_find(st, "c"), -1);
    assert_int_equal(swi_st_find(st, ""), -1);
    assert_int_equal(swi_st_meta_count(st), 0);
    assert_null(swi_st_meta(st, "format"));
    swi_st_free(st);
}

static void test_empty_and_scalar(void **state)
{
    (void)state;
    /* Empty tensors share an offset: then by name. A huge empty shape does not overflow. */
    swi_st *st = open_good("{\"s\":{\"dtype\":\"F64\",\"shape\":[],\"data_offsets\":[0,8]},"
                           "\"y\":{\"dtype\":\"F32\",\"shape\":[0,7],\"data_offsets\":[8,8]},"
                           "\"x\":{\"dtype\":\"F32\",\"shape\":[3,0],\"data_offsets\":[8,8]},"
                           "\"w\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[8,9]},"
                           "\"v\":{\"dtype\":\"BOOL\",\"shape\":[0],\"data_offsets\":[0,0]},"
                           "\"u\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[9,9]}}",
                           9);
    static const char *const wanted[] = {"v BOOL/bool [0] 0+0",     "s F64/float64 [] 0+8",
                                         "x F32/float32 [3,0] 8+0", "y F32/float32 [0,7] 8+0",
                                         "w U8/uint8 [1] 8+1",      "u U8/uint8 [0] 9+0"};
    assert_int_equal(swi_st_count(st), 6);
    for (size_t i = 0; i < 6; i++)
        assert_tensor(st, i, wanted[i]);
    swi_st_free(st);
}

/* Case O7: no tensors, only metadata; or nothing at all. */
static void test_only_metadata(void **state)
{
    (void)state;
    swi_st *st = open_good("{\"__metadata__\":{\"a\":\"b\",\"\":\"\",\"c\":\"\\\"\\u00e9\"}}", 0);
    const char *key, *value;
    assert_int_equal(swi_st_count(st), 0);
    assert_int_equal(swi_st_meta_count(st), 3);
    assert_true(swi_st_meta_at(st, 0, &key, &value));
    assert_string_equal(key, "a");
    assert_string_equal(value, "b");
    assert_true(swi_st_meta_at(st, 2, &key, &value));
    assert_string_equal(value, "\"\xc3\xa9");
    assert_false(swi_st_meta_at(st, 3, &key, &value));
    assert_string_equal(swi_st_meta(st, "c"), "\"\xc3\xa9");
    assert_string_equal(swi_st_meta(st, ""), "");
    assert_null(swi_st_meta(st, "b"));
    assert_int_equal(swi_st_find(st, "a"), -1);
    swi_st_free(st);
    st = open_good("{}", 0);
    assert_int_equal(swi_st_count(st), 0);
    swi_st_free(st);
    st = open_good("{\"__metadata__\":null}", 0);
    assert_int_equal(swi_st_meta_count(st), 0);
    swi_st_free(st);
}

/* Case K3: kinds that we or even the format do not know are listed as they are. */
static void test_dtypes(void **state)
{
    (void)state;
    swi_st *st = open_good("{\"a\":{\"dtype\":\"F8_E4M3\",\"shape\":[3],\"data_offsets\":[0,3]},"
                           "\"b\":{\"dtype\":\"F4\",\"shape\":[2,6],\"data_offsets\":[3,9]},"
                           "\"c\":{\"dtype\":\"U16\",\"shape\":[1],\"data_offsets\":[9,11]},"
                           "\"d\":{\"dtype\":\"F6_X\",\"shape\":[5],\"data_offsets\":[11,18]},"
                           "\"e\":{\"dtype\":\"F6_E2M3\",\"shape\":[4],\"data_offsets\":[18,21]},"
                           "\"f\":{\"dtype\":\"C64\",\"shape\":[1],\"data_offsets\":[21,29]},"
                           "\"g\":{\"dtype\":\"f32\",\"shape\":[],\"data_offsets\":[29,30]},"
                           "\"h\":{\"dtype\":\"F6_X\",\"shape\":[1],\"data_offsets\":[30,30]},"
                           "\"i\":{\"dtype\":\"F4\",\"shape\":[0,4],\"data_offsets\":[30,30]}}",
                           30);
    static const char *const wanted[] = {"a F8_E4M3/float8_e4m3fn [3] 0+3",
                                         "b F4/float4_e2m1fn_x2 [2,3] 3+6",
                                         "c U16/uint16 [1] 9+2",
                                         "d F6_X/none [5] 11+7",
                                         "e F6_E2M3/none [4] 18+3",
                                         "f C64/complex64 [1] 21+8",
                                         "g f32/none [] 29+1",
                                         "h F6_X/none [1] 30+0",
                                         "i F4/float4_e2m1fn_x2 [0,2] 30+0"};
    for (size_t i = 0; i < 9; i++)
        assert_tensor(st, i, wanted[i]);
    swi_st_free(st);
}

static void test_every_kind(void **state)
{
    (void)state;
    static const char *const names[] = {
        "BOOL",    "F4",          "F6_E2M3",     "F6_E3M2", "U8",  "I8",  "F8_E5M2", "F8_E4M3",
        "F8_E8M0", "F8_E4M3FNUZ", "F8_E5M2FNUZ", "I16",     "U16", "F16", "BF16",    "I32",
        "U32",     "F32",         "C64",         "F64",     "I64", "U64"};
    int seen = 0;
    for (int d = SW_DTYPE_NONE; d < SW_DTYPE_COUNT; d++) {
        const char *name = swi_st_dtype_name((sw_dtype)d);
        int rank = swi_st_dtype_rank((sw_dtype)d);
        assert_true((name == NULL) == (rank < 0));
        if (name == NULL)
            continue;
        seen++;
        assert_string_equal(name, names[rank]);
    }
    assert_int_equal(seen, 20);
    assert_null(swi_st_dtype_name(SW_C128));
    assert_null(swi_st_dtype_name(SW_C32));
    assert_null(swi_st_dtype_name(SW_BITS8));
    assert_null(swi_st_dtype_name(SW_DTYPE_NONE));
    assert_true(swi_st_dtype_rank(SW_I64) > swi_st_dtype_rank(SW_F32));
}

/* Case O11. */
static void test_unaligned(void **state)
{
    (void)state;
    swi_st *st =
        open_good("{\"w\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[0,16]}}  ", 16);
    assert_int_equal(swi_st_data_offset(st), 8 + 57);
    assert_int_equal(tensor_at(st, 0).offset_bytes, 65);
    swi_st_free(st);
}

/* ---- DCP_SHARDING_INFO [ST-17] --------------------------------------------------------------- */

static void test_sharding(void **state)
{
    (void)state;
    swi_st *st = open_good(
        "{\"__metadata__\":{\"DCP_SHARDING_INFO\":\"{\\\"w\\\": {\\\"saved_offsets\\\": [4, 0],"
        " \\\"more\\\": {}}, \\\"s\\\": {\\\"saved_offsets\\\": []}, \\\"elsewhere\\\":"
        " {\\\"saved_offsets\\\": [1, 2, 3]}, \\\"q\\\\\\\"\\\": {\\\"saved_offsets\\\": [7]},"
        " \\\"p\\\": {}}\",\"DCP_VERSION\":\"1.0\",\"format\":\"pt\"},"
        "\"s\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[8,12]},"
        "\"w\":{\"dtype\":\"F16\",\"shape\":[2,2],\"data_offsets\":[0,8]},"
        "\"p\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[13,14]},"
        "\"q\\\"\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[12,13]}}",
        14);
    uint32_t axes = 9;
    const int64_t *at = swi_st_saved_offsets(st, (size_t)swi_st_find(st, "w"), &axes);
    assert_non_null(at);
    assert_int_equal(axes, 2);
    assert_int_equal(at[0], 4);
    assert_int_equal(at[1], 0);
    at = swi_st_saved_offsets(st, (size_t)swi_st_find(st, "q\""), &axes);
    assert_non_null(at);
    assert_int_equal(axes, 1);
    assert_int_equal(at[0], 7);
    assert_non_null(swi_st_saved_offsets(st, (size_t)swi_st_find(st, "s"), &axes));
    assert_int_equal(axes, 0);
    assert_null(swi_st_saved_offsets(st, (size_t)swi_st_find(st, "p"), &axes));
    swi_st_free(st);
    st = open_good("{\"w\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1);
    assert_null(swi_st_saved_offsets(st, 0, &axes));
    swi_st_free(st);
}

/* ---- writing [ST-15, ST-16] ------------------------------------------------------------------ */

/* What the safetensors library 0.8 writes for the same tensors, byte for byte. */
static void test_write_as_the_library(void **state)
{
    (void)state;
    static const char wanted[] =
        "\xd0\1\0\0\0\0\0\0{\"__metadata__\":{\"format\":\"pt\"},\"a\":{\"dtype\":\"I64\","
        "\"shape\":"
        "[],\"data_offsets\":[0,8]},\"b.weight\":{\"dtype\":\"F32\",\"shape\":[2,3],"
        "\"data_offsets\":[8,32]},\"empty\":{\"dtype\":\"BF16\",\"shape\":[0,4],\"data_offsets\":"
        "[32,32]},\"half\":{\"dtype\":\"F16\",\"shape\":[3],\"data_offsets\":[32,38]},\"f8\":"
        "{\"dtype\":\"F8_E4M3\",\"shape\":[5],\"data_offsets\":[38,43]},\"f4\":{\"dtype\":\"F4\","
        "\"shape\":[2,6],\"data_offsets\":[43,49]},\"q\\\"\\\\\\n\xc3\xa9\xf0\x9f\x98\x80\\u0001\":"
        "{\"dtype\":\"BOOL\",\"shape\":[1],\"data_offsets\":[49,50]}}      ";
    static const char *const metadata[] = {"format", "pt"};
    static const char odd[] = "q\"\\\n\xc3\xa9\xf0\x9f\x98\x80\x01";
    swi_st_tensor tensors[] = {
        {.name = "a", .name_size = 1, .dtype = SW_I64, .bytes = 8},
        {.name = "b.weight",
         .name_size = 8,
         .dtype = SW_F32,
         .axes = 2,
         .shape = {2, 3},
         .bytes = 24},
        {.name = "empty", .name_size = 5, .dtype = SW_BF16, .axes = 2, .shape = {0, 4}},
        {.name = "half", .name_size = 4, .dtype = SW_F16, .axes = 1, .shape = {3}, .bytes = 6},
        {.name = "f8", .name_size = 2, .dtype = SW_F8_E4M3FN, .axes = 1, .shape = {5}, .bytes = 5},
        {.name = "f4",
         .name_size = 2,
         .dtype = SW_F4_E2M1FN_X2,
         .axes = 2,
         .shape = {2, 3},
         .bytes = 6},
        {.name = odd,
         .name_size = sizeof odd - 1,
         .dtype = SW_BOOL,
         .axes = 1,
         .shape = {1},
         .bytes = 1},
    };
    swi_buf out = {0};
    sw_error err = {0};
    assert_ok(swi_st_write_header(&out, tensors, 7, metadata, 1, &err), &err);
    assert_int_equal(out.size, sizeof wanted - 1);
    assert_memory_equal(out.data, wanted, out.size);
    assert_int_equal(out.size % 8, 0);
    assert_int_equal(tensors[0].offset_bytes, out.size);
    assert_int_equal(tensors[6].offset_bytes, out.size + 49);

    assert_ok(swi_buf_fill(&out, 7, 50, &err), &err);
    swi_st *st = NULL;
    assert_ok(open_bytes(out.data, out.size, NULL, &st, &err), &err);
    assert_int_equal(swi_st_count(st), 7);
    for (size_t i = 0; i < 7; i++) {
        swi_st_tensor t = tensor_at(st, i);
        assert_string_equal(t.name, tensors[i].name);
        assert_int_equal(t.dtype, tensors[i].dtype);
        assert_int_equal(t.axes, tensors[i].axes);
        assert_memory_equal(t.shape, tensors[i].shape, sizeof t.shape);
        assert_int_equal(t.offset_bytes, tensors[i].offset_bytes);
        assert_int_equal(t.bytes, tensors[i].bytes);
    }
    assert_string_equal(swi_st_meta(st, "format"), "pt");
    swi_st_free(st);
    swi_buf_free(&out);
}

static void test_write_nothing(void **state)
{
    (void)state;
    swi_buf out = {0};
    sw_error err = {0};
    assert_ok(swi_st_write_header(&out, NULL, 0, NULL, 0, &err), &err);
    assert_int_equal(out.size, 16);
    assert_memory_equal(out.data, "\10\0\0\0\0\0\0\0{}      ", 16);
    swi_buf_free(&out);
}

static void test_write_refuses(void **state)
{
    (void)state;
    static const struct {
        swi_st_tensor t;
        sw_status status;
        const char *clause;
        const char *text;
    } cases[] = {
        {{.name = "c", .name_size = 1, .dtype = SW_C128, .bytes = 16},
         SW_ERR_UNSUPPORTED,
         "ST-7",
         "tensor \"c\": safetensors cannot hold complex128"},
        {{.name = "c", .name_size = 1, .dtype = SW_DTYPE_NONE},
         SW_ERR_UNSUPPORTED,
         "ST-7",
         "cannot hold none"},
        {{.name = "c", .name_size = 1, .dtype = SW_F32, .axes = 1, .shape = {2}, .bytes = 7},
         SW_ERR_ARG,
         "ST-10",
         "7 bytes are not those of its shape"},
        {{.name = "c\xff", .name_size = 2, .dtype = SW_U8, .bytes = 1},
         SW_ERR_UNSUPPORTED,
         "ST-4",
         "\"c\\xff\": the name is not UTF-8"},
        {{.name = "c\0d", .name_size = 3, .dtype = SW_U8, .bytes = 1},
         SW_ERR_UNSUPPORTED,
         "ST-4",
         "holds a NUL"},
        {{.name = "__metadata__", .name_size = 12, .dtype = SW_U8, .bytes = 1},
         SW_ERR_UNSUPPORTED,
         "ST-4",
         "a tensor named \"__metadata__\""},
        {{.name = "ok", .name_size = 2, .dtype = SW_U8, .bytes = 1},
         SW_ERR_CONFLICT,
         "ST-4",
         "\"ok\" is there twice"},
        {{.name = "f", .name_size = 1, .dtype = SW_F4_E2M1FN_X2, .bytes = 1},
         SW_ERR_UNSUPPORTED,
         "ST-14",
         "cannot hold its float4"},
        {{.name = "c",
          .name_size = 1,
          .dtype = SW_U8,
          .axes = 1,
          .shape = {INT64_MAX},
          .bytes = INT64_MAX},
         SW_ERR_LIMIT,
         "",
         "more than 2^63 bytes"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        swi_st_tensor tensors[2] = {
            {.name = "ok", .name_size = 2, .dtype = SW_U8, .bytes = 1, .offset_bytes = 99},
            cases[i].t};
        swi_buf out = {0};
        sw_error err = {0};
        assert_ok(swi_buf_u8(&out, 'x', &err), &err);
        assert_int_equal(swi_st_write_header(&out, tensors, 2, NULL, 0, &err), cases[i].status);
        assert_error(&err, cases[i].status, cases[i].text);
        assert_string_equal(err.clause, cases[i].clause);
        assert_int_equal(out.size, 1);
        assert_int_equal(tensors[0].offset_bytes, 99);
        swi_buf_free(&out);
    }
}

static void test_write_too_long(void **state)
{
    (void)state;
    size_t n = 100 * 1000 * 1000;
    char *name = malloc(n);
    assert_non_null(name);
    memset(name, 'n', n);
    swi_st_tensor t = {.name = name, .name_size = n, .dtype = SW_U8, .bytes = 1};
    swi_buf out = {0};
    sw_error err = {0};
    assert_int_equal(swi_st_write_header(&out, &t, 1, NULL, 0, &err), SW_ERR_LIMIT);
    assert_error(&err, SW_ERR_LIMIT, "spread the tensors over more files");
    assert_int_equal(out.size, 0);
    t.name_size = n - 53; /* {"":{"dtype":"U8","shape":[],"data_offsets":[0,1]}} and 2 of padding */
    assert_ok(swi_st_write_header(&out, &t, 1, NULL, 0, &err), &err);
    assert_int_equal(out.size, 8 + n);
    swi_buf_free(&out);
    free(name);
}

/* Written and read again, many tensors; then the memory per tensor. */
static void test_many(void **state)
{
    (void)state;
    enum { COUNT = 100000 };
    swi_st_tensor *tensors = calloc(COUNT, sizeof *tensors);
    char(*names)[24] = calloc(COUNT, sizeof *names);
    assert_true(tensors != NULL && names != NULL);
    for (size_t i = 0; i < COUNT; i++) {
        (void)snprintf(names[i], sizeof names[i], "layer.%zu.weight", (i * 7919) % COUNT);
        tensors[i] = (swi_st_tensor){.name = names[i],
                                     .name_size = strlen(names[i]),
                                     .dtype = SW_U8,
                                     .axes = 2,
                                     .shape = {1, (int64_t)(i % 3)},
                                     .bytes = i % 3};
    }
    swi_buf out = {0};
    sw_error err = {0};
    assert_ok(swi_st_write_header(&out, tensors, COUNT, NULL, 0, &err), &err);
    assert_ok(swi_buf_fill(&out, 0, COUNT - 1, &err), &err);
    swi_st *st = NULL;
    assert_ok(open_bytes(out.data, out.size, NULL, &st, &err), &err);
    assert_int_equal(swi_st_count(st), COUNT);
    for (size_t i = 0; i < COUNT; i++) {
        int64_t at = swi_st_find(st, names[i]);
        assert_in_range(at, 0, COUNT - 1);
        swi_st_tensor t = tensor_at(st, (size_t)at);
        assert_string_equal(t.name, names[i]);
        assert_int_equal(t.offset_bytes, tensors[i].offset_bytes);
        assert_int_equal(t.bytes, i % 3);
    }
    assert_in_range(swi_st_memory(st) / COUNT, 32, 160);
    swi_st_free(st);
    swi_buf_free(&out);
    free(names);
    free(tensors);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order),          cmocka_unit_test(test_empty_and_scalar),
        cmocka_unit_test(test_only_metadata),  cmocka_unit_test(test_dtypes),
        cmocka_unit_test(test_every_kind),     cmocka_unit_test(test_unaligned),
        cmocka_unit_test(test_sharding),       cmocka_unit_test(test_write_as_the_library),
        cmocka_unit_test(test_write_nothing),  cmocka_unit_test(test_write_refuses),
        cmocka_unit_test(test_write_too_long), cmocka_unit_test(test_many),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
