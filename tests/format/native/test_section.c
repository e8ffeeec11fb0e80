#include "native/section.h"

#include <stdlib.h>
#include <string.h>

#include "harness/harness.h"

#define MIB ((size_t)1 << 20)

typedef struct kit {
    swi_store *store;
    uint8_t *data;
    size_t size;
    swi_native_file file;
} kit;

static kit start(size_t size)
{
    kit k = {.data = malloc(size + 1), .size = size, .file = {"tensors.swt", size, {{0}}}};
    swi_file *out;
    sw_error err = {0};
    harness_prng prng = {7};
    assert_non_null(k.data);
    harness_random_fill(&prng, k.data, size);
    assert_ok(swi_section_digest(k.data, size, 1, &k.file.digest, &err), &err);
    assert_ok(swi_store_open_memory(&k.store, &err), &err);
    assert_ok(swi_store_create(k.store, "tensors.swt", &out, &err), &err);
    if (size > 0)
        assert_ok(swi_file_write(out, 0, k.data, size, &err), &err);
    swi_file_close(out);
    return k;
}

static void end(kit *k)
{
    swi_store_close(k->store);
    free(k->data);
}

static void files_come_whole(void **state)
{
    (void)state;
    static const size_t sizes[] = {0, 1, MIB - 1, MIB, 3 * MIB + 17, 9 * MIB};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        kit k = start(sizes[i]);
        for (uint32_t threads = 0; threads < 5; threads += 2) {
            uint8_t *data = NULL;
            sw_error err = {0};
            assert_ok(swi_native_file_read(k.store, &k.file, NULL, threads, &data, &err), &err);
            assert_int_equal(data == NULL, sizes[i] == 0);
            if (sizes[i] > 0)
                assert_memory_equal(data, k.data, sizes[i]);
            free(data);
        }
        end(&k);
    }
}

static void parts_come_too(void **state)
{
    (void)state;
    kit k = start(3 * MIB);
    swi_native_section part = {.what = "its part", .at = 1000, .bytes = 2 * MIB + 5};
    swi_file *file;
    uint8_t *data = NULL;
    sw_error err = {0};
    assert_ok(swi_section_digest(k.data + part.at, part.bytes, 0, &part.digest, &err), &err);
    assert_ok(swi_store_open_read(k.store, "tensors.swt", &file, &err), &err);
    assert_ok(swi_native_section_read(file, &part, NULL, 2, &data, &err), &err);
    assert_memory_equal(data, k.data + part.at, part.bytes);
    free(data);
    data = NULL;
    part.at++;
    assert_int_equal(swi_native_section_read(file, &part, NULL, 2, &data, &err), SW_ERR_CORRUPT);
    assert_error(&err, SW_ERR_CORRUPT, "its part has digest");
    assert_int_equal(err.offset_bytes, 1001);
    part.at = k.size - 5;
    assert_int_equal(swi_native_section_read(file, &part, NULL, 2, &data, &err), SW_ERR_CORRUPT);
    assert_error(&err, SW_ERR_CORRUPT, "does not lie in a file");
    assert_null(data);
    swi_file_close(file);
    end(&k);
}

static void what_differs_is_refused(void **state)
{
    (void)state;
    kit k = start(2 * MIB + 1);
    uint8_t *data = NULL;
    sw_error err = {0};
    sw_limits limits = {.metadata_bytes = 2 * MIB};
    assert_int_equal(swi_native_file_read(k.store, &k.file, &limits, 2, &data, &err), SW_ERR_LIMIT);
    assert_error(&err, SW_ERR_LIMIT, "tensors.swt: its content is of 2097153 bytes");
    k.file.digest.bytes[31] ^= 1;
    assert_int_equal(swi_native_file_read(k.store, &k.file, NULL, 2, &data, &err), SW_ERR_CORRUPT);
    assert_error(&err, SW_ERR_CORRUPT, "tensors.swt: its content has digest");
    k.file.bytes++;
    assert_int_equal(swi_native_file_read(k.store, &k.file, NULL, 2, &data, &err), SW_ERR_CORRUPT);
    assert_error(&err, SW_ERR_CORRUPT,
                 "tensors.swt: holds 2097153 bytes, the manifest says 2097154");
    k.file.file = "other";
    assert_int_equal(swi_native_file_read(k.store, &k.file, NULL, 2, &data, &err), SW_ERR_NOTFOUND);
    assert_null(data);
    end(&k);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_come_whole),
        cmocka_unit_test(parts_come_too),
        cmocka_unit_test(what_differs_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
