/* The read-back of what a layout has besides what the reader of its files shows: copies, and
 * tensors under names of their own. A byte is changed between writing and looking back. */
#include "convert/fixture.h"

#include "base/text.h"
#include "check/hash.h"
#include "target/publish.h"

/* A tensor of four floats in a file of one, and the same bytes in a second file. */
#define HEADER "{\"a\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[0,16]}}"
#define HEADER_BYTES 64

typedef struct meddler {
    const char *dir;
    int file; /* whose copy is changed; -1: none */
} meddler;

/* The last bytes of the last file are made when all else is written. */
static sw_status meddle(void *ctx, const uint32_t *sums, uint8_t *out, size_t size, sw_error *err)
{
    static const char *const names[] = {"model.safetensors", "copy.dat"};
    static const long at[] = {HEADER_BYTES + 9, 9};
    const meddler *m = ctx;
    char *partial = NULL;
    (void)sums;
    (void)err;
    memset(out, 0, size);
    if (m->file < 0)
        return SW_OK;
    DIR *d = opendir(m->dir);
    assert_non_null(d);
    for (struct dirent *e = readdir(d); e != NULL; e = readdir(d))
        if (strncmp(e->d_name, "out.partial-", 12) == 0)
            partial = harness_path(m->dir, "%s/%s", e->d_name, names[m->file]);
    closedir(d);
    FILE *f = fopen(partial, "r+b");
    assert_non_null(f);
    assert_int_equal(fseek(f, at[m->file], SEEK_SET), 0);
    assert_int_equal(fputc(0x77, f), 0x77);
    assert_int_equal(fclose(f), 0);
    return SW_OK;
}

static swi_layout *make_layout(const char *name, meddler *m)
{
    static const int64_t shape[] = {4};
    char header[HEADER_BYTES + 1];
    sw_error err = {0};
    swi_layout *layout = NULL;
    uint32_t file, copy, tensor;
    swi_tensor_in in = {name, strlen(name), SW_F32, 1, shape, SW_ROLE_PARAMETER};
    swi_piece p = {.axes = 1, .view = {4}, .length = {4}, .stride_bytes = {4}};
    const swi_late late = {.offset_bytes = 16, .size = 1, .make = meddle, .ctx = m};
    (void)snprintf(header, sizeof header, "%c%7s%-56s", HEADER_BYTES - 8, "", HEADER);
    memset(header + 1, 0, 7);
    assert_ok(swi_layout_make(NULL, &layout, &err), &err);
    assert_ok(swi_layout_file(layout, "model.safetensors", HEADER_BYTES + 16, &file, &err), &err);
    assert_ok(swi_layout_file(layout, "copy.dat", 17, &copy, &err), &err);
    assert_ok(swi_layout_literal(layout, file, 0, header, HEADER_BYTES, &err), &err);
    assert_ok(swi_layout_late(layout, copy, &late, &err), &err);
    assert_ok(swi_layout_tensor(layout, &in, 0, &tensor, &err), &err);
    assert_ok(swi_layout_replicas(layout, tensor, &err), &err);
    assert_ok(swi_layout_piece(layout, tensor, file, HEADER_BYTES, 16, &p, &err), &err);
    assert_ok(swi_layout_piece(layout, tensor, copy, 0, 16, &p, &err), &err);
    assert_ok(swi_layout_freeze(layout, &err), &err);
    return layout;
}

static sw_status publish(const char *dir, const char *name, bool by_pieces, int changed,
                         sw_convert_summary *sum, sw_error *err)
{
    meddler m = {.dir = dir, .file = changed};
    char *from = harness_path(dir, "from"), *dest = harness_path(dir, "out");
    const sw_convert_options options = {.to = "hf", .verify = true};
    if (!harness_exists(from))
        write_st(harness_path(from, "model.safetensors"), HEADER, 16, 1);
    sw_checkpoint *source = open_good(from);
    swi_layout *layout = make_layout(name, &m);
    sw_report *report = NULL;
    assert_ok(sw_report_make(&report, err), err);
    const swi_publish_in in = {.source = source,
                               .layout = layout,
                               .dest = dest,
                               .by_pieces = by_pieces,
                               .id = "0123456789abcdef",
                               .options = &options,
                               .report = report};
    harness_remove(dest);
    sw_status status = swi_publish(&in, sum, err);
    assert_int_equal(harness_exists(dest), status == SW_OK);
    sw_report_free(report);
    swi_layout_free(layout);
    sw_checkpoint_close(source);
    return status;
}

static void test_copies_are_read_back(void **state)
{
    sw_convert_summary sum = {0};
    sw_error err = {0};
    assert_ok(publish(*state, "a", false, -1, &sum, &err), &err);
    assert_int_equal(sum.verified_tensors, 1);
    assert_int_equal(publish(*state, "a", false, 0, &sum, &err), SW_ERR_CORRUPT);
    assert_error(&err, SW_ERR_CORRUPT, "tensor \"a\" differs from the source at element 2");
    assert_int_equal(publish(*state, "a", false, 1, &sum, &err), SW_ERR_CORRUPT);
    assert_error(&err, SW_ERR_CORRUPT,
                 "copy.dat: read back, tensor \"a\" differs from the source at element 2");
}

/* A tensor that the reader does not show by that name: a fault, unless files are of ranks. */
static void test_names_of_the_layout_alone(void **state)
{
    sw_convert_summary sum = {0};
    sw_error err = {0};
    assert_int_equal(publish(*state, "b", false, -1, &sum, &err), SW_ERR_CORRUPT);
    assert_error(&err, SW_ERR_CORRUPT, "tensor \"b\" differs from the source at element 0");
    assert_ok(publish(*state, "b", true, -1, &sum, &err), &err);
    assert_int_equal(sum.verified_tensors, 1);
    assert_int_equal(publish(*state, "b", true, 0, &sum, &err), SW_ERR_CORRUPT);
    assert_error(&err, SW_ERR_CORRUPT, "model.safetensors: read back, tensor \"b\" differs");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        test_in_dir(test_copies_are_read_back),
        test_in_dir(test_names_of_the_layout_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
