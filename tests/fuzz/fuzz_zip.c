/* Any bytes as a zip archive: directory, headers, descriptors, records. */
#include "codec/zip.h"
#include "container/torch_file.h"
#include "format/mem_reader.h"
#include "fuzz/patch.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_entry(const swi_zip *zip, const swi_reader *reader, const swi_zip_entry *e)
{
    uint64_t at, stray;
    swi_buf content = {0};
    sw_error err;
    if (swi_zip_payload(zip, reader, e, &at, &err) == SW_OK)
        (void)!swi_zip_check_descriptor(zip, reader, e, at, &stray, &err);
    (void)!swi_zip_read(zip, reader, e, 1 << 20, &content, &err);
    swi_buf_free(&content);
    if (swi_zip_find(zip, e->name) != e)
        __builtin_trap();
}

static void one_archive(const uint8_t *data, size_t size)
{
    mem_reader m;
    swi_zip *zip = NULL;
    sw_error err;
    mem_reader_init(&m, data, size);
    m.pub.limits.metadata_bytes = 1 << 20;
    if (swi_zip_open(&m.pub, 0, 0, size, &zip, &err) == SW_OK) {
        size_t count = swi_zip_count(zip);
        for (size_t i = 0; i < count && i < 100; i++)
            read_entry(zip, &m.pub, swi_zip_at(zip, i));
    } else if (zip != NULL || err.text[0] == 0) {
        __builtin_trap();
    }
    swi_zip_free(zip);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const int64_t shape[] = {2, 3};
    static const float six[6] = {0, 1, 2, 3, 4, 5};
    swi_buf base = {0};
    if (size == 0 || data[0] != '~') {
        one_archive(data, size);
        return 0;
    }
    if (swi_torch_write_tensor(&base, SW_F32, 2, shape, six, NULL) == SW_OK) {
        patch(&base, data + 1, size - 1);
        one_archive(base.data, base.size);
    }
    swi_buf_free(&base);
    return 0;
}
