/* What swi_st_open refuses: status, clause, position and text of each. */
#include "st_recipes.h"

#include <stdio.h>

#define F32X4 "\"dtype\":\"F32\",\"shape\":[4]"
#define A(fields) "{\"a\":{" fields "}}"
#define RANGE(lo, hi) ",\"data_offsets\":[" #lo "," #hi "]"

static const recipe recipes[] = {
    /* ST-3: the header is one JSON object */
    {"bad-not-json", "{\"a\":^}", 0, SW_ERR_FORMAT, "ST-3", -1, "tensor \"a\": JSON: expected"},
    {"bad-cut-json", "{\"a\":{" F32X4 "^", 16, SW_ERR_FORMAT, "ST-3", -1, "found the end"},
    {"bad-text-behind", "{}  ^x", 0, SW_ERR_FORMAT, "ST-3", -1, "expected the end of the document"},
    {"bad-control-behind", "{}  ^\001", 0, SW_ERR_FORMAT, "ST-3", -1, "expected the end"},
    {"bad-trailing-comma", "{\"a\":{" F32X4 RANGE(0, 16) "},^}", 16, SW_ERR_FORMAT, "ST-3", -1,
     "expected a key"},
    {"bad-utf8-name", "{\"a^\xff\":{" F32X4 RANGE(0, 16) "}}", 16, SW_ERR_FORMAT, "ST-3", -1,
     "not UTF-8"},
    {"bad-surrogate-name", "{\"a^\\ud800\":{" F32X4 RANGE(0, 16) "}}", 16, SW_ERR_FORMAT, "ST-3",
     -1, "surrogate"},
    /* ST-4: names */
    {"bad-twice", "{\"a\":{" F32X4 RANGE(0, 16) "},^\"a\":{" F32X4 RANGE(16, 32) "}}", 32,
     SW_ERR_FORMAT, "ST-4", -1, "\"a\": the name is there twice"},
    {"bad-twice-escaped", "{\"a\":{" F32X4 RANGE(0, 16) "},^\"\\u0061\":{" F32X4 RANGE(16, 32) "}}",
     32, SW_ERR_FORMAT, "ST-4", -1, "there twice"},
    {"bad-metadata-twice", "{\"__metadata__\":{},^\"__metadata__\":{}}", 0, SW_ERR_FORMAT, "ST-4",
     -1, "__metadata__ is there twice"},
    {"unsupported-nul-name", "{^\"a\\u0000b\":{" F32X4 RANGE(0, 16) "}}", 16, SW_ERR_UNSUPPORTED,
     "ST-4", -1, "a tensor name with a NUL"},
    /* ST-5: __metadata__ */
    {"bad-metadata-array", "{\"__metadata__\":^[]}", 0, SW_ERR_FORMAT, "ST-5", -1,
     "expected an object, found an array"},
    {"bad-metadata-number", "{\"__metadata__\":{\"a\":^1}}", 0, SW_ERR_FORMAT, "ST-5", -1,
     "expected a string, found an integer"},
    {"bad-metadata-nested", "{\"__metadata__\":{\"a\":^{}}}", 0, SW_ERR_FORMAT, "ST-5", -1,
     "expected a string, found an object"},
    {"bad-metadata-null-value", "{\"__metadata__\":{\"a\":^null}}", 0, SW_ERR_FORMAT, "ST-5", -1,
     "expected a string, found null"},
    {"bad-metadata-key-twice", "{\"__metadata__\":{\"a\":\"1\",^\"a\":\"2\"}}", 0, SW_ERR_FORMAT,
     "ST-5", -1, "a key twice"},
    {"unsupported-metadata-nul-key", "{\"__metadata__\":{^\"\\u0000\":\"\"}}", 0,
     SW_ERR_UNSUPPORTED, "ST-5", -1, "NUL"},
    {"unsupported-metadata-nul-value", "{\"__metadata__\":{\"a\":^\"\\u0000\"}}", 0,
     SW_ERR_UNSUPPORTED, "ST-5", -1, "NUL"},
    /* ST-6: entries */
    {"bad-entry-array", "{\"a\":^[\"F32\",[4],[0,16]]}", 16, SW_ERR_FORMAT, "ST-6", -1,
     "expected an object, found an array"},
    {"bad-entry-string", "{\"a\":^\"b\"}", 0, SW_ERR_FORMAT, "ST-6", -1, "found a string"},
    {"bad-entry-null", "{\"a\":^null}", 0, SW_ERR_FORMAT, "ST-6", -1, "found null"},
    {"bad-no-dtype", "{^\"a\":{\"shape\":[4]" RANGE(0, 16) "}}", 16, SW_ERR_FORMAT, "ST-6", -1,
     "tensor \"a\": no dtype"},
    {"bad-no-shape", "{^\"a\":{\"dtype\":\"F32\"" RANGE(0, 16) "}}", 16, SW_ERR_FORMAT, "ST-6", -1,
     "no shape"},
    {"bad-no-offsets", "{^\"a\":{" F32X4 "}}", 16, SW_ERR_FORMAT, "ST-6", -1, "no data_offsets"},
    {"bad-empty-entry", "{^\"a\":{}}", 0, SW_ERR_FORMAT, "ST-6", -1, "no dtype"},
    {"bad-dtype-twice", A(F32X4 ",^\"dtype\":\"F32\"" RANGE(0, 16)), 16, SW_ERR_FORMAT, "ST-6", -1,
     "dtype is there twice"},
    {"bad-offsets-twice", A(F32X4 RANGE(0, 16) ",^\"data_offsets\":[0,16]"), 16, SW_ERR_FORMAT,
     "ST-6", -1, "data_offsets is there twice"},
    /* ST-7: dtype */
    {"bad-dtype-number", A("\"dtype\":^32,\"shape\":[4]" RANGE(0, 16)), 16, SW_ERR_FORMAT, "ST-7",
     -1, "expected a string, found an integer"},
    {"unsupported-dtype-nul", A("\"dtype\":^\"F\\u0000\",\"shape\":[4]" RANGE(0, 16)), 16,
     SW_ERR_UNSUPPORTED, "ST-7", -1, "NUL"},
    /* ST-8: shape */
    {"bad-shape-number", A("\"dtype\":\"F32\",\"shape\":^4" RANGE(0, 16)), 16, SW_ERR_FORMAT,
     "ST-8", -1, "expected an array"},
    {"bad-shape-float", A("\"dtype\":\"F32\",\"shape\":[^4.0]" RANGE(0, 16)), 16, SW_ERR_FORMAT,
     "ST-8", -1, "expected an integer"},
    {"bad-shape-string", A("\"dtype\":\"F32\",\"shape\":[^\"4\"]" RANGE(0, 16)), 16, SW_ERR_FORMAT,
     "ST-8", -1, "expected an integer"},
    {"bad-shape-nested", A("\"dtype\":\"F32\",\"shape\":[^[4]]" RANGE(0, 16)), 16, SW_ERR_FORMAT,
     "ST-8", -1, "expected an integer"},
    {"bad-shape-negative", A("\"dtype\":\"F32\",\"shape\":[^-4]" RANGE(0, 16)), 16, SW_ERR_FORMAT,
     "ST-8", -1, "-4 is negative"},
    {"bad-shape-2^64", A("\"dtype\":\"F32\",\"shape\":[^18446744073709551616]" RANGE(0, 16)), 16,
     SW_ERR_FORMAT, "ST-8", -1, "expected an integer"},
    {"bad-shape-overflow",
     "{^\"a\":{\"dtype\":\"F32\",\"shape\":[4294967296,4294967296]" RANGE(0, 16) "}}", 16,
     SW_ERR_FORMAT, "ST-8", -1, "too many elements"},
    {"bad-bits-overflow",
     "{^\"a\":{\"dtype\":\"F32\",\"shape\":[2305843009213693952]" RANGE(0, 0) "}}", 0,
     SW_ERR_FORMAT, "ST-8", -1, "too many elements"},
    {"unsupported-11-axes", A("\"dtype\":\"U8\",\"shape\":[1,1,1,1,1,1,1,1,1,1,^1]" RANGE(0, 1)), 1,
     SW_ERR_UNSUPPORTED, "ST-8", -1, "more than 10 dimensions"},
    /* ST-9: data_offsets */
    {"bad-offsets-object", A(F32X4 ",\"data_offsets\":^{}"), 16, SW_ERR_FORMAT, "ST-9", -1,
     "expected an array"},
    {"bad-offsets-one", A(F32X4 ",\"data_offsets\":[0^]"), 16, SW_ERR_FORMAT, "ST-9", -1,
     "expected two integers"},
    {"bad-offsets-three", A(F32X4 ",\"data_offsets\":[0,16,^32]"), 16, SW_ERR_FORMAT, "ST-9", -1,
     "not more"},
    {"bad-offsets-negative", A(F32X4 ",\"data_offsets\":[^-16,0]"), 16, SW_ERR_FORMAT, "ST-9", -1,
     "-16 is negative"},
    {"bad-offsets-float", A(F32X4 ",\"data_offsets\":[0,^16.0]"), 16, SW_ERR_FORMAT, "ST-9", -1,
     "expected two integers"},
    {"bad-offsets-2^63", A(F32X4 ",\"data_offsets\":[0,^9223372036854775808]"), 16, SW_ERR_FORMAT,
     "ST-9", -1, "not a 64-bit integer"},
    {"bad-offsets-backwards", A(F32X4 ",\"data_offsets\":[16,^0]"), 16, SW_ERR_FORMAT, "ST-9", -1,
     "begin 16 lies behind end 0"},
    /* ST-10: sizes */
    {"bad-size-small", "{^\"a\":{" F32X4 RANGE(0, 15) "}}", 15, SW_ERR_FORMAT, "ST-10", -1,
     "tensor \"a\": 4 elements of F32 need 16 bytes, data_offsets [0, 15] hold 15"},
    {"bad-size-large", "{^\"a\":{" F32X4 RANGE(0, 17) "}}", 17, SW_ERR_FORMAT, "ST-10", -1,
     "need 16 bytes"},
    {"bad-size-empty", "{^\"a\":{\"dtype\":\"F32\",\"shape\":[0]" RANGE(0, 4) "}}", 4,
     SW_ERR_FORMAT, "ST-10", -1, "0 elements of F32 need 0 bytes"},
    {"bad-size-scalar", "{^\"a\":{\"dtype\":\"F64\",\"shape\":[]" RANGE(0, 0) "}}", 0,
     SW_ERR_FORMAT, "ST-10", -1, "1 elements of F64 need 8 bytes"},
    {"bad-f4-odd", "{^\"a\":{\"dtype\":\"F4\",\"shape\":[3]" RANGE(0, 2) "}}", 2, SW_ERR_FORMAT,
     "ST-10", -1, "3 elements of F4 do not fill whole bytes"},
    {"bad-f4-scalar", "{^\"a\":{\"dtype\":\"F4\",\"shape\":[]" RANGE(0, 1) "}}", 1, SW_ERR_FORMAT,
     "ST-10", -1, "1 elements of F4"},
    {"bad-f6-bits", "{^\"a\":{\"dtype\":\"F6_E2M3\",\"shape\":[3]" RANGE(0, 3) "}}", 3,
     SW_ERR_FORMAT, "ST-10", -1, "3 elements of F6_E2M3 do not fill"},
    {"bad-f6-size", "{^\"a\":{\"dtype\":\"F6_E3M2\",\"shape\":[4]" RANGE(0, 4) "}}", 4,
     SW_ERR_FORMAT, "ST-10", -1, "4 elements of F6_E3M2 need 3 bytes"},
    /* ST-14 */
    {"unsupported-f4-odd-rows", "{^\"a\":{\"dtype\":\"F4\",\"shape\":[2,3]" RANGE(0, 3) "}}", 3,
     SW_ERR_UNSUPPORTED, "ST-14", -1, "must be even"},
    /* ST-11: ranges; positions are in the data */
    {"bad-hole-first", A(F32X4 RANGE(4, 20)), 20, SW_ERR_FORMAT, "ST-11", 0,
     "tensor \"a\" begins at data byte 4, but 4 bytes before it belong to no tensor"},
    {"bad-hole", "{\"a\":{" F32X4 RANGE(0, 16) "},\"b\":{" F32X4 RANGE(24, 40) "}}", 40,
     SW_ERR_FORMAT, "ST-11", 16, "8 bytes before it belong to no tensor"},
    {"bad-overlap", "{\"a\":{" F32X4 RANGE(0, 16) "},\"b\":{" F32X4 RANGE(8, 24) "}}", 24,
     SW_ERR_CONFLICT, "ST-11", 8, "\"a\" and \"b\" overlap: data bytes [0, 16) and [8, 24)"},
    {"bad-same-range", "{\"b\":{" F32X4 RANGE(0, 16) "},\"a\":{" F32X4 RANGE(0, 16) "}}", 16,
     SW_ERR_CONFLICT, "ST-11", 0, "\"a\" and \"b\" overlap"},
    {"bad-empty-inside",
     "{\"a\":{" F32X4 RANGE(0, 16) "},\"b\":{\"dtype\":\"F32\",\"shape\":[0]" RANGE(8, 8) "}}", 16,
     SW_ERR_CONFLICT, "ST-11", 8, "overlap"},
    {"bad-empty-outside", "{\"b\":{\"dtype\":\"F32\",\"shape\":[0]" RANGE(8, 8) "}}", 8,
     SW_ERR_FORMAT, "ST-11", 0, "8 bytes before it"},
    /* ST-17 */
    {"bad-sharding-text", "{\"__metadata__\":{\"DCP_SHARDING_INFO\":^\"{x\"}}", 0, SW_ERR_FORMAT,
     "ST-17", -1, "DCP_SHARDING_INFO: byte 1 of its text: JSON: expected a key, found 'x'"},
};

static void test_recipes(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof recipes / sizeof recipes[0]; i++) {
        const recipe *r = &recipes[i];
        made m = make_st(r->header, r->data);
        assert_refused(r->name, m.bytes, m.size, NULL, r->status, r->clause,
                       m.mark >= 0 ? m.mark : (int64_t)(m.size - r->data) + r->at, r->text);
        free(m.bytes);
    }
}

/* DCP_SHARDING_INFO that does not fit its tensor "a" of shape [2, 3]. */
static void test_bad_sharding(void **state)
{
    (void)state;
    static const char *const infos[][2] = {
        {"[]", "it is no JSON object"},
        {"", "JSON: expected a value"},
        {"{\\\"a\\\":[]}", "tensor \"a\": a tensor's entry is no object"},
        {"{\\\"a\\\":{\\\"saved_offsets\\\":1}}", "saved_offsets is no array"},
        {"{\\\"a\\\":{\\\"saved_offsets\\\":[0]}}", "fewer integers than dimensions"},
        {"{\\\"a\\\":{\\\"saved_offsets\\\":[0,0,0]}}", "more integers than dimensions"},
        {"{\\\"a\\\":{\\\"saved_offsets\\\":[0,1.5]}}", "fewer integers"},
        {"{\\\"a\\\":{\\\"saved_offsets\\\":[0,-1]}}", "an offset out of range"},
        {"{\\\"a\\\":{\\\"saved_offsets\\\":[0,9223372036854775807]}}", "an offset out of range"},
        {"{\\\"a\\\":{\\\"saved_offsets\\\":[0,0],\\\"saved_offsets\\\":[0,0]}}", "there twice"},
        {"{\\\"a\\\":{\\\"saved_offsets\\\":[0,0]},\\\"a\\\":{\\\"saved_offsets\\\":[0,0]}}",
         "there twice"},
        {"{} x", "expected the end"},
    };
    for (size_t i = 0; i < sizeof infos / sizeof infos[0]; i++) {
        char header[512];
        (void)snprintf(header, sizeof header,
                       "{\"__metadata__\":{\"DCP_SHARDING_INFO\":^\"%s\"},\"a\":{\"dtype\":\"U8\","
                       "\"shape\":[2,3],\"data_offsets\":[0,6]}}",
                       infos[i][0]);
        made m = make_st(header, 6);
        assert_refused(infos[i][0], m.bytes, m.size, NULL, SW_ERR_FORMAT, "ST-17", m.mark,
                       infos[i][1]);
        free(m.bytes);
    }
}

/* ---- ST-12: cut and long files, cases O1 and O6 -----------------------------------------------
 */

#define TWO                                                                                        \
    "{\"first\":{" F32X4 ",\"data_offsets\":[0,16]},\"second\":{\"dtype\":\"I64\",\"shape\":[2],"  \
    "\"data_offsets\":[16,32]}}   "

static void test_cut_data(void **state)
{
    (void)state;
    made m = make_st(TWO, 32);
    char text[256];
    uint64_t data = m.size - 32;
    for (uint64_t have = 0; have < 32; have++) {
        bool is_first = have < 16;
        (void)snprintf(text, sizeof text,
                       "cut: data end at byte %llu, the file holds %llu bytes: %llu are missing; "
                       "%d of 2 tensors are whole, the first that is not is \"%s\" (bytes %llu to",
                       (unsigned long long)m.size, (unsigned long long)(data + have),
                       (unsigned long long)(32 - have), is_first ? 0 : 1,
                       is_first ? "first" : "second",
                       (unsigned long long)(is_first ? data : data + 16));
        assert_refused("cut", m.bytes, (size_t)(data + have), NULL, SW_ERR_CORRUPT, "ST-12",
                       (int64_t)(data + have), text);
    }
    free(m.bytes);
}

static void test_cut_header(void **state)
{
    (void)state;
    made m = make_st(TWO, 32);
    size_t header = m.size - 40;
    char text[192];
    for (size_t have = 8; have < header + 8; have++) {
        (void)snprintf(text, sizeof text,
                       "cut inside its header: a header of %zu bytes ends at %zu, the file holds "
                       "%zu bytes: %zu are missing",
                       header, header + 8, have, header + 8 - have);
        assert_refused("cut header", m.bytes, have, NULL, SW_ERR_CORRUPT, "ST-2", (int64_t)have,
                       text);
    }
    for (size_t have = 1; have < 8; have++)
        assert_refused("cut length", m.bytes, have, NULL, SW_ERR_CORRUPT, "ST-1", (int64_t)have,
                       "not even the 8");
    assert_refused("empty", m.bytes, 0, NULL, SW_ERR_CORRUPT, "ST-1", 0, "the file is empty");
    free(m.bytes);
}

/* The low bytes of a header length of 640 are the magic number of a pickle. */
static void test_cut_header_like_a_pickle(void **state)
{
    (void)state;
    static const uint8_t bytes[16] = {0x80, 0x02, 0,   0,   0,   0,   0,   0,
                                      '{',  '"',  'a', '"', ':', '{', '"', 'd'};
    assert_refused("like a pickle", bytes, sizeof bytes, NULL, SW_ERR_CORRUPT, "ST-2", 16,
                   "cut inside its header: a header of 640 bytes");
    assert_refused("like a pickle, 8 bytes", bytes, 8, NULL, SW_ERR_CORRUPT, "ST-2", 8,
                   "640 are missing");
}

static void test_extra_bytes(void **state)
{
    (void)state;
    made m = make_st(TWO, 48);
    assert_refused("extra", m.bytes, m.size, NULL, SW_ERR_CORRUPT, "ST-12", (int64_t)m.size - 16,
                   "16 extra bytes after the last tensor");
    assert_refused("one extra", m.bytes, m.size - 15, NULL, SW_ERR_CORRUPT, "ST-12",
                   (int64_t)m.size - 16, "1 extra bytes after the last tensor");
    free(m.bytes);
    m = make_st("{\"__metadata__\":{\"a\":\"b\"}}", 1);
    assert_refused("extra, no tensors", m.bytes, m.size, NULL, SW_ERR_CORRUPT, "ST-12",
                   (int64_t)m.size - 1, "1 extra bytes");
    free(m.bytes);
}

/* ---- ST-2 and ST-18: lengths, limits, other files ---------------------------------------------
 */

static void test_lengths(void **state)
{
    (void)state;
    made m = make_st(TWO, 32);
    static const uint64_t lengths[] = {(uint64_t)1 << 63, UINT64_MAX, UINT64_MAX - 7,
                                       (uint64_t)1 << 40, 100000001};
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        put_length(m.bytes, lengths[i]);
        assert_refused("length", m.bytes, m.size, NULL, SW_ERR_FORMAT, "ST-2", 0,
                       "not a safetensors file: the first 8 bytes tell of a header of");
    }
    put_length(m.bytes, 0);
    assert_refused("length 0", m.bytes, m.size, NULL, SW_ERR_FORMAT, "ST-2", 0, "length, are 0");
    put_length(m.bytes, 1);
    assert_refused("length 1", m.bytes, m.size, NULL, SW_ERR_FORMAT, "ST-3", 9, "found the end");
    put_length(m.bytes, m.size - 40);
    m.bytes[8] = ' ';
    assert_refused("space first", m.bytes, m.size, NULL, SW_ERR_FORMAT, "ST-3", 8,
                   "header begins with byte 0x20");
    free(m.bytes);
}

static void test_limits(void **state)
{
    (void)state;
    made m = make_st(TWO, 32);
    const sw_limits at = {.header_bytes = m.size - 40}, under = {.header_bytes = m.size - 41};
    swi_st *st = NULL;
    sw_error err = {0};
    assert_ok(open_bytes(m.bytes, m.size, &at, &st, &err), &err);
    swi_st_free(st);
    assert_refused("limit", m.bytes, m.size, &under, SW_ERR_LIMIT, "ST-2", 0,
                   "limits.header_bytes");
    const sw_limits one = {.tensors = 1}, shallow = {.depth = 2};
    assert_refused("tensors", m.bytes, m.size, &one, SW_ERR_LIMIT, "ST-4", -1,
                   "more than 1 tensors");
    assert_refused("depth", m.bytes, m.size, &shallow, SW_ERR_LIMIT, "", -1,
                   "nested deeper than 2");
    free(m.bytes);
}

/* Case O2: a header of exactly 100 000 000 bytes is read, one byte more is over the limit. */
static void test_header_of_100_million(void **state)
{
    (void)state;
    size_t n = 100000001;
    uint8_t *bytes = malloc(n + 8);
    assert_non_null(bytes);
    memset(bytes, ' ', n + 8);
    memcpy(bytes + 8, "{}", 2);
    put_length(bytes, n - 1);
    swi_st *st = NULL;
    sw_error err = {0};
    assert_ok(open_bytes(bytes, n + 7, NULL, &st, &err), &err);
    assert_int_equal(swi_st_count(st), 0);
    swi_st_free(st);
    put_length(bytes, n);
    assert_refused("100 000 001", bytes, n + 8, NULL, SW_ERR_LIMIT, "ST-2", 0,
                   "a header of 100000001 bytes, the limit is 100000000");
    free(bytes);
}

static void test_other_files(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        sw_status status;
        const char *text;
    } files[] = {
        {"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 4976698672\n",
         SW_ERR_INCOMPLETE, "a Git LFS pointer of 75 bytes, not the file of 4976698672 bytes"},
        {"version https://git-lfs.github.com/spec/v1\nsize x\n", SW_ERR_INCOMPLETE,
         "not the file of ? bytes"},
        {"<!DOCTYPE html>\n<html><head><title>403</title>", SW_ERR_FORMAT, "HTML"},
        {"  \n<HTML><body>gone</body></HTML>", SW_ERR_FORMAT, "HTML"},
        {"PK\003\004________________", SW_ERR_FORMAT, "but a zip archive"},
        {"\x80\002}q\001.______________", SW_ERR_FORMAT, "but a pickle"},
        {"\x89HDF\r\n\x1a\n________", SW_ERR_FORMAT, "but an HDF5 file"},
        {"GGUF\003____________", SW_ERR_FORMAT, "but a GGUF file"},
        {"{\"error\":\"Repository not found\"}", SW_ERR_FORMAT, "but a JSON text"},
    };
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++)
        assert_refused("other", files[i].bytes, strlen(files[i].bytes), NULL, files[i].status,
                       "ST-18", 0, files[i].text);
    assert_refused("text", "Entry not found or so", 21, NULL, SW_ERR_FORMAT, "ST-2", 0,
                   "not a safetensors file: the first 8 bytes tell");
}

/* ---- every byte -------------------------------------------------------------------------------
 */

/* Any header of this length, right or wrong, is opened or refused; never worse. */
static void test_every_changed_byte(void **state)
{
    (void)state;
    made m = make_st("{\"__metadata__\":{\"DCP_SHARDING_INFO\":\"{\\\"a\\\":{\\\"saved_offsets\\\""
                     ":[1,2]}}\"},\"a\":{\"dtype\":\"F16\",\"shape\":[2,2],\"data_offsets\":[0,8]},"
                     "\"b\\u00e9\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[8,9]}}",
                     9);
    swi_st *st = NULL;
    sw_error err = {0};
    assert_ok(open_bytes(m.bytes, m.size, NULL, &st, &err), &err);
    swi_st_free(st);
    for (size_t i = 0; i < m.size - 9; i++)
        for (unsigned byte = 0; byte < 256; byte++) {
            uint8_t was = m.bytes[i];
            m.bytes[i] = (uint8_t)byte;
            st = NULL;
            sw_status status = open_bytes(m.bytes, m.size, NULL, &st, &err);
            assert_true((status == SW_OK) == (st != NULL));
            swi_st_free(st);
            m.bytes[i] = was;
        }
    free(m.bytes);
}

static void test_every_cut(void **state)
{
    (void)state;
    made m = make_st(TWO, 32);
    for (size_t size = 0; size < m.size; size++) {
        uint8_t *copy = malloc(size > 0 ? size : 1);
        assert_non_null(copy);
        memcpy(copy, m.bytes, size);
        swi_st *st = NULL;
        sw_error err = {0};
        assert_int_equal(open_bytes(copy, size, NULL, &st, &err), SW_ERR_CORRUPT);
        assert_true(err.has_offset && err.offset_bytes <= size);
        free(copy);
    }
    free(m.bytes);
}

/* Nested containers in a field that is skipped. */
static void test_nesting_bomb(void **state)
{
    (void)state;
    enum { DEPTH = 100000 };
    char *header = malloc(DEPTH + 64);
    assert_non_null(header);
    memcpy(header, "{\"a\":{\"x\":", 10);
    memset(header + 10, '[', DEPTH);
    header[DEPTH + 10] = '\0';
    made m = make_st(header, 0);
    assert_refused("bomb", m.bytes, m.size, NULL, SW_ERR_LIMIT, "", 8 + 10 + 510,
                   "nested deeper than 512");
    free(m.bytes);
    free(header);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_recipes),
        cmocka_unit_test(test_bad_sharding),
        cmocka_unit_test(test_cut_data),
        cmocka_unit_test(test_cut_header),
        cmocka_unit_test(test_cut_header_like_a_pickle),
        cmocka_unit_test(test_extra_bytes),
        cmocka_unit_test(test_lengths),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_header_of_100_million),
        cmocka_unit_test(test_other_files),
        cmocka_unit_test(test_every_changed_byte),
        cmocka_unit_test(test_every_cut),
        cmocka_unit_test(test_nesting_bomb),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
