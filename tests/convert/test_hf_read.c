/* Hugging Face folders as they are found: index and files that disagree, names, parts, links. */
#include "convert/fixture.h"

static const int64_t two_by_two[] = {2, 2};

/* Files of one tensor each, w1 .. wN, in the usual names; no index. */
static void make_shards(const char *dir, int count, int of)
{
    for (int i = 1; i <= count; i++) {
        char name[16];
        snprintf(name, sizeof name, "w%d", i);
        write_st_one(harness_path(dir, "model-%05d-of-%05d.safetensors", i, of), name, 2, 2,
                     10 * (float)i);
    }
}

static void write_index(const char *dir, const char *total, const char *map)
{
    char text[1024];
    snprintf(text, sizeof text, "{\"metadata\":{\"total_size\":%s},\"weight_map\":{%s}}", total,
             map);
    harness_write_text(harness_path(dir, "model.safetensors.index.json"), text);
}

#define SHARD(i) "model-0000" #i "-of-00003.safetensors"
#define MAP "\"w1\":\"" SHARD(1) "\",\"w2\":\"" SHARD(2) "\",\"w3\":\"" SHARD(3) "\""

static void expect(const char *dir, sw_severity severity, const char *code, const char *file,
                   const char *tensor, const char *text)
{
    outcome o;
    run_verify(dir, &o);
    assert_int_equal(o.status, SW_OK);
    assert_found(&o, severity, code, file, tensor, text);
    assert_int_equal(sw_report_count(o.report), 1);
    outcome_free(&o);
}

static void test_index_and_files_agree(void **state)
{
    char *dir = *state;
    make_shards(dir, 3, 3);
    write_index(dir, "48", MAP);
    outcome o;
    run_verify(dir, &o);
    assert_fine(&o);
    assert_int_equal(sw_report_count(o.report), 0);
    assert_int_equal(o.verified.files, 3);
    assert_true(o.verified.nothing_to_check);
    assert_int_equal(o.verified.tally.unchecked_bytes, 48);
    outcome_free(&o);
    for (int i = 1; i <= 3; i++) {
        char name[16];
        snprintf(name, sizeof name, "w%d", i);
        assert_ramp(dir, name, 2, two_by_two, 10 * (float)i);
    }
}

/* O3: the four ways in which they disagree. */
static void test_index_names_an_absent_file(void **state)
{
    char *dir = *state, *out = harness_path(dir, "../%s-out", strrchr(dir, '/') + 1);
    make_shards(dir, 3, 3);
    write_index(dir, "64", MAP ",\"w4\":\"model-00004-of-00004.safetensors\"");
    outcome o;
    run_verify(dir, &o);
    assert_found(&o, SW_DEFECT, "missing-file", "model-00004-of-00004.safetensors", NULL,
                 "the index places 1 tensor in this file, \"w4\" first");
    outcome_free(&o);
    assert_refuses(dir, out, NULL, SW_ERR_INCOMPLETE, "model-00004-of-00004.safetensors");
}

static void test_index_names_an_absent_tensor(void **state)
{
    char *dir = *state, *out = harness_path(dir, "../%s-out", strrchr(dir, '/') + 1);
    make_shards(dir, 3, 3);
    write_index(dir, "48", MAP ",\"gone\":\"" SHARD(2) "\"");
    expect(dir, SW_DEFECT, "missing-tensor", SHARD(2), "gone", "places this tensor in this file");
    assert_refuses(dir, out, NULL, SW_ERR_INCOMPLETE, "\"gone\"");
}

static void test_index_places_a_tensor_in_another_file(void **state)
{
    char *dir = *state;
    make_shards(dir, 3, 3);
    write_index(dir, "48",
                "\"w1\":\"" SHARD(2) "\",\"w2\":\"" SHARD(2) "\",\"w3\":\"" SHARD(3) "\"");
    outcome o;
    run_verify(dir, &o);
    assert_found(&o, SW_DEFECT, "missing-tensor", SHARD(2), "w1", "is not there");
    assert_found(&o, SW_WARNING, "stray-file", SHARD(1), NULL, "does not name this file");
    outcome_free(&o);
}

static void test_unlisted_tensor(void **state)
{
    char *dir = *state, *out = harness_path(dir, "../%s-out", strrchr(dir, '/') + 1);
    make_shards(dir, 2, 3);
    write_st(harness_path(dir, SHARD(3)),
             "{\"w3\":{\"dtype\":\"F32\",\"shape\":[2,2],\"data_offsets\":[0,16]},"
             "\"extra\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[16,20]}}",
             20, 0);
    write_index(dir, "52", MAP);
    expect(dir, SW_DEFECT, "unlisted-tensor", SHARD(3), "extra", "the index does not name");
    assert_refuses(dir, out, NULL, SW_ERR_CONFLICT, "\"extra\"");
}

static void test_total_size(void **state)
{
    char *dir = *state;
    make_shards(dir, 3, 3);
    write_index(dir, "47", MAP);
    expect(dir, SW_WARNING, "total-size", "model.safetensors.index.json", "",
           "says 47 bytes and the tensors have 48");
}

/* O4: one name in two files, and a file that the index does not name. */
static void test_duplicate_tensor(void **state)
{
    char *dir = *state, *out = harness_path(dir, "../%s-out", strrchr(dir, '/') + 1);
    make_shards(dir, 3, 3);
    write_st(harness_path(dir, SHARD(2)),
             "{\"w1\":{\"dtype\":\"F32\",\"shape\":[2,2],\"data_offsets\":[0,16]},"
             "\"w2\":{\"dtype\":\"F32\",\"shape\":[2,2],\"data_offsets\":[16,32]}}",
             32, 0);
    write_index(dir, "64", MAP);
    outcome o;
    run_verify(dir, &o);
    assert_found(&o, SW_DEFECT, "duplicate-tensor", SHARD(2), "w1", "also in " SHARD(1));
    outcome_free(&o);
    assert_refuses(dir, out, NULL, SW_ERR_CONFLICT, "\"w1\"");
}

static void test_stray_file(void **state)
{
    char *dir = *state;
    make_shards(dir, 3, 3);
    write_index(dir, "48", MAP);
    write_st_one(harness_path(dir, "old.safetensors"), "w1", 2, 2, 99);
    expect(dir, SW_WARNING, "stray-file", "old.safetensors", "", "it is not read");
    assert_ramp(dir, "w1", 2, two_by_two, 10);
}

/* Without an index the numbers in the names must be complete. */
static void test_numbered_without_index(void **state)
{
    char *dir = *state, *out = harness_path(dir, "../%s-out", strrchr(dir, '/') + 1);
    make_shards(dir, 3, 3);
    expect(dir, SW_WARNING, "no-index", "model.safetensors.index.json", "", "loaders");
    assert_ramp(dir, "w3", 2, two_by_two, 30);
    harness_remove(harness_path(dir, SHARD(2)));
    outcome o;
    run_verify(dir, &o);
    assert_found(&o, SW_DEFECT, "missing-file", SHARD(1), NULL, "there are 3 files and 2 are here");
    outcome_free(&o);
    assert_refuses(dir, out, NULL, SW_ERR_INCOMPLETE, "3 files and 2 are here");
    /* the first of the row, too */
    harness_remove(harness_path(dir, SHARD(1)));
    run_verify(dir, &o);
    assert_found(&o, SW_DEFECT, "missing-file", SHARD(3), NULL, "3 files and 1 are here");
    outcome_free(&o);
}

/* Files of two saves, and a number twice in place of another. */
static void test_numbers_of_two_saves(void **state)
{
    char *dir = *state, *out = harness_path(dir, "../%s-out", strrchr(dir, '/') + 1);
    make_shards(dir, 2, 2);
    write_st_one(harness_path(dir, "model-00003-of-00003.safetensors"), "w3", 2, 2, 0);
    outcome o;
    run_verify(dir, &o);
    assert_found(&o, SW_DEFECT, "mixed-files", "model-00001-of-00002.safetensors", NULL,
                 "files of 2 and files of 3 are here");
    outcome_free(&o);
    assert_refuses(dir, out, NULL, SW_ERR_CONFLICT, "two saves in one folder");
    harness_remove(harness_path(dir, "model-00003-of-00003.safetensors"));
    harness_remove(harness_path(dir, "model-00002-of-00002.safetensors"));
    write_st_one(harness_path(dir, "model-1-of-2.safetensors"), "w2", 2, 2, 0);
    run_verify(dir, &o);
    assert_found(&o, SW_DEFECT, "missing-file", NULL, NULL, "missing: 2");
    outcome_free(&o);
}

/* Numbers are numbers: without leading zeros they do not lie in order. */
static void test_unpadded_numbers(void **state)
{
    char *dir = *state;
    for (int i = 1; i <= 11; i++) {
        char name[16];
        snprintf(name, sizeof name, "w%d", i);
        write_st_one(harness_path(dir, "model-%d-of-11.safetensors", i), name, 2, 2, (float)i);
    }
    outcome o;
    run_verify(dir, &o);
    assert_fine(&o);
    assert_int_equal(o.verified.tensors, 11);
    outcome_free(&o);
    for (int i = 2; i <= 9; i++)
        if (i != 5)
            harness_remove(harness_path(dir, "model-%d-of-11.safetensors", i));
    run_verify(dir, &o);
    assert_found(&o, SW_DEFECT, "missing-file", NULL, NULL, "missing: 2-4, 6-9");
    outcome_free(&o);
    write_st_one(harness_path(dir, "x-1-of-999999999.safetensors"), "x", 2, 2, 0);
    run_verify(dir, &o);
    assert_found(&o, SW_DEFECT, "missing-file", "x-1-of-999999999.safetensors", NULL,
                 "999999999 files and 1 are here");
    outcome_free(&o);
}

/* O12: names decide nothing; a variant beside the model is a conflict when names meet. */
static void test_names_of_files(void **state)
{
    char *dir = *state;
    write_st_one(harness_path(dir, "weights.part1.safetensors"), "a", 2, 2, 0);
    write_st_one(harness_path(dir, "weights.part2.safetensors"), "b", 2, 2, 10);
    outcome o;
    run_verify(dir, &o);
    assert_fine(&o);
    assert_int_equal(o.verified.tensors, 2);
    outcome_free(&o);
    write_st_one(harness_path(dir, "weights.fp16.safetensors"), "a", 2, 2, 0);
    run_verify(dir, &o);
    assert_found(&o, SW_DEFECT, "duplicate-tensor", "weights.part1.safetensors", "a",
                 "weights.fp16.safetensors");
    outcome_free(&o);
    assert_ramp(harness_path(dir, "weights.part2.safetensors"), "b", 2, two_by_two, 10);
}

/* Parts of torch's HF storage: each file says where its part begins; HF-7. */
static void write_part(const char *path, int row, int rows, int column, int columns, int of)
{
    char header[512];
    snprintf(
        header, sizeof header,
        "{\"__metadata__\":{\"DCP_SHARDING_INFO\":\"{\\\"w\\\":{\\\"saved_offsets\\\":[%d,%d]}}\","
        "\"DCP_VERSION\":\"1.0\",\"format\":\"pt\"},"
        "\"w\":{\"dtype\":\"F32\",\"shape\":[%d,%d],\"data_offsets\":[0,%d]}}",
        row, column, rows, columns, rows * columns * 4);
    size_t n = strlen(header), size = 8 + n + (size_t)(rows * columns) * 4;
    uint8_t *data = calloc(size, 1);
    assert_non_null(data);
    for (int i = 0; i < 8; i++)
        data[i] = (uint8_t)((uint64_t)n >> (8 * i));
    memcpy(data + 8, header, n);
    for (int r = 0; r < rows; r++)
        for (int c = 0; c < columns; c++) {
            float v = (float)((row + r) * of + column + c);
            memcpy(data + 8 + n + (size_t)(r * columns + c) * 4, &v, 4);
        }
    harness_write(path, data, size);
    free(data);
}

static char *part_path(const char *dir, int rank)
{
    return harness_path(dir, "shard-%05d-model-00001-of-00001.safetensors", rank + 1);
}

static void test_parts(void **state)
{
    char *dir = *state, *out = harness_path(dir, "../%s-out", strrchr(dir, '/') + 1);
    write_part(part_path(dir, 0), 0, 3, 0, 4, 7);
    write_part(part_path(dir, 1), 0, 3, 4, 3, 7);
    write_part(part_path(dir, 2), 3, 2, 0, 4, 7);
    write_part(part_path(dir, 3), 3, 2, 4, 3, 7);
    outcome o;
    run_verify(dir, &o);
    assert_fine(&o);
    assert_int_equal(sw_report_count(o.report), 0);
    assert_int_equal(o.verified.tensors, 1);
    assert_int_equal(o.verified.pieces, 4);
    outcome_free(&o);
    assert_ramp(dir, "w", 2, (const int64_t[]){5, 7}, 0);
    run_convert(dir, out, NULL, &o);
    assert_fine(&o);
    outcome_free(&o);
    assert_ramp(out, "w", 2, (const int64_t[]){5, 7}, 0);
    harness_remove(out);
}

static void test_parts_with_a_hole_or_overlap(void **state)
{
    char *dir = *state, *out = harness_path(dir, "../%s-out", strrchr(dir, '/') + 1);
    write_part(part_path(dir, 0), 0, 2, 0, 3, 3);
    write_part(part_path(dir, 1), 4, 2, 0, 3, 3);
    outcome o;
    run_verify(dir, &o);
    assert_found(&o, SW_DEFECT, "hole", NULL, "w", "");
    outcome_free(&o);
    assert_refuses(dir, out, NULL, SW_ERR_INCOMPLETE, "\"w\"");
    write_part(part_path(dir, 1), 1, 5, 0, 3, 3);
    run_verify(dir, &o);
    assert_found(&o, SW_DEFECT, "overlap", NULL, "w", "");
    outcome_free(&o);
    assert_refuses(dir, out, NULL, SW_ERR_CONFLICT, "\"w\"");
}

static void test_parts_of_another_shape(void **state)
{
    char *dir = *state;
    write_part(part_path(dir, 0), 0, 2, 0, 3, 3);
    write_st(
        part_path(dir, 1),
        "{\"__metadata__\":{\"DCP_SHARDING_INFO\":\"{\\\"w\\\":{\\\"saved_offsets\\\":[2]}}\"},"
        "\"w\":{\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[0,12]}}",
        12, 0);
    outcome o;
    run_verify(dir, &o);
    assert_true(bad_findings(&o) > 0);
    assert_found(&o, SW_DEFECT, "duplicate-tensor", NULL, "w", "axes");
    outcome_free(&o);
}

/* O13: the cache's links are followed for reading; one that dangles is named. */
static void test_links(void **state)
{
    char *dir = *state, *snap = harness_path(dir, "snapshots/r");
    write_st_one(harness_path(dir, "blobs/0a1b2c"), "w", 2, 2, 4);
    harness_write_text(harness_path(snap, "README.md"), "a model\n");
    assert_int_equal(symlink("../../blobs/0a1b2c", harness_path(snap, "model.safetensors")), 0);
    assert_ramp(snap, "w", 2, two_by_two, 4);
    outcome o;
    run_verify(snap, &o);
    assert_fine(&o);
    outcome_free(&o);
    harness_remove(harness_path(dir, "blobs/0a1b2c"));
    run_verify(snap, &o);
    assert_true(o.status != SW_OK || bad_findings(&o) > 0);
    if (o.status != SW_OK)
        assert_contains(o.err.text, "snapshots/r");
    outcome_free(&o);
}

/* O1, O6: what stands where a file should be; the status and the numbers. */
static void test_what_is_no_safetensors_file(void **state)
{
    static const struct {
        const char *content;
        size_t size;
        sw_status status;
        const char *text;
    } rows[] = {
        {"", 0, SW_ERR_CORRUPT, "empty"},
        {"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n", 64,
         SW_ERR_INCOMPLETE, "LFS"},
        {"<!DOCTYPE html><html>gone</html>", 32, SW_ERR_FORMAT, "HTML"},
        {"PK\003\004abcdefgh", 12, SW_ERR_FORMAT, ""},
        {"\377\377\377\377\377\377\377\177{", 9, SW_ERR_FORMAT, ""},
    };
    char *dir = *state, *path = harness_path(dir, "model.safetensors");
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        outcome o;
        harness_write(path, rows[i].content, rows[i].size);
        run_verify(dir, &o);
        const sw_finding *f = find_finding(&o, "unreadable-file", "model.safetensors", NULL);
        if (f == NULL || f->severity != SW_DEFECT || strstr(f->message, rows[i].text) == NULL) {
            show_outcome(&o);
            fail_msg("row %zu", i);
        }
        assert_int_equal(o.status, SW_OK);
        outcome_free(&o);
        run_convert(dir, harness_path(dir, "../refused"), NULL, &o);
        assert_int_not_equal(o.status, SW_OK);
        outcome_free(&o);
    }
}

/* A type that is not known is said and left out of the catalog; nothing is guessed. */
static void test_unknown_dtype(void **state)
{
    char *dir = *state;
    write_st(harness_path(dir, "model.safetensors"),
             "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
             "\"b\":{\"dtype\":\"F6_X\",\"shape\":[2],\"data_offsets\":[4,8]}}",
             8, 0);
    outcome o;
    run_verify(dir, &o);
    assert_found(&o, SW_WARNING, "unknown-dtype", "model.safetensors", "b", "not known here");
    outcome_free(&o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        test_in_dir(test_index_and_files_agree),
        test_in_dir(test_index_names_an_absent_file),
        test_in_dir(test_index_names_an_absent_tensor),
        test_in_dir(test_index_places_a_tensor_in_another_file),
        test_in_dir(test_unlisted_tensor),
        test_in_dir(test_total_size),
        test_in_dir(test_duplicate_tensor),
        test_in_dir(test_stray_file),
        test_in_dir(test_numbered_without_index),
        test_in_dir(test_numbers_of_two_saves),
        test_in_dir(test_unpadded_numbers),
        test_in_dir(test_names_of_files),
        test_in_dir(test_parts),
        test_in_dir(test_parts_with_a_hole_or_overlap),
        test_in_dir(test_parts_of_another_shape),
        test_in_dir(test_links),
        test_in_dir(test_what_is_no_safetensors_file),
        test_in_dir(test_unknown_dtype),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
