/* CAT-15: a few bytes repeated to a GiB are a tensor, repeated to more they are a trap. */
#include "harness/harness.h"
#include "model/catalog.h"

static const swi_blob sixteen_bytes = {.ops = &swi_blob_slice, .stored_bytes = 16, .bytes = 16};

/* (rows, 4) float32 of one row. */
static sw_status freeze_expanded(int64_t rows, sw_error *err)
{
    const int64_t shape[] = {rows, 4};
    const swi_tensor_in in = {"expanded", 8, SW_F32, 2, shape, SW_ROLE_PARAMETER};
    swi_piece piece = {.axes = 2, .view = {rows, 4}, .length = {rows, 4}, .stride_bytes = {0, 4}};
    swi_blob blob = sixteen_bytes;
    swi_builder *builder;
    sw_catalog *catalog = NULL;
    uint32_t tensor;
    assert_ok(swi_builder_make(NULL, &builder, err), err);
    assert_ok(swi_builder_file(builder, "file", 16, &blob.file, err), err);
    assert_ok(swi_builder_blob(builder, &blob, &piece.blob, err), err);
    assert_ok(swi_builder_tensor(builder, &in, &tensor, err), err);
    assert_ok(swi_builder_piece(builder, tensor, &piece, err), err);
    sw_status status = swi_builder_freeze(builder, NULL, &catalog, err);
    sw_catalog_free(catalog);
    return status;
}

static void a_gibibyte_is_the_most(void **state)
{
    (void)state;
    sw_error err = {0};
    const int64_t rows = INT64_C(1) << 26;
    assert_ok(freeze_expanded(rows, &err), &err);
    assert_int_equal(freeze_expanded(rows + 1, &err), SW_ERR_LIMIT);
    assert_error(&err, SW_ERR_LIMIT,
                 "tensor \"expanded\" and others repeat 16 stored bytes into 1073741840");
    assert_int_equal(freeze_expanded(INT64_C(1) << 58, &err), SW_ERR_LIMIT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_gibibyte_is_the_most)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
