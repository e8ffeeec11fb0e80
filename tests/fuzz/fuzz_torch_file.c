/* Any bytes as a torch.save archive and as a DCP item: opened, its values walked, checked. */
#include "container/dcp_store.h"
#include "container/torch_file.h"
#include "format/mem_reader.h"
#include "fuzz/archive.h"
#include "fuzz/patch.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Every element that the extent says must lie inside the input. */
static void touch(const swi_reader *reader, const swi_extent *e)
{
    uint8_t byte;
    sw_error err = {0};
    if (e->stored_bytes > 0 && reader->read(reader, e->file, e->offset_bytes + e->stored_bytes - 1,
                                            &byte, 1, &err) != SW_OK)
        __builtin_trap();
    if (!e->strided)
        return;
    uint64_t last = e->start_bytes;
    for (uint32_t k = 0; k < e->axes; k++)
        last += (uint64_t)(e->shape[k] - 1) * (uint64_t)e->stride_bytes[k];
    if (last >= e->stored_bytes)
        __builtin_trap();
}

static void open_file(const swi_reader *reader, size_t size)
{
    swi_torch_file *tf = NULL;
    swi_torch_tensor t;
    sw_error err = {0};
    if (swi_torch_open(reader, 0, 0, size, &tf, &err) != SW_OK)
        return;
    sw_value root = swi_torch_root(tf), key, value;
    const sw_value_graph *g = swi_torch_graph(tf);
    (void)!swi_torch_get_tensor(tf, root, &t, &err);
    size_t count = sw_value_size(g, root);
    for (size_t i = 0; i < count && i < 1000; i++) {
        if (!sw_value_pair(g, root, i, &key, &value) && !sw_value_item(g, root, i, &value))
            break;
        if (swi_torch_is_tensor(tf, value) && swi_torch_get_tensor(tf, value, &t, &err) == SW_OK &&
            t.storage >= swi_torch_storage_count(tf))
            __builtin_trap();
    }
    swi_torch_free(tf);
}

static void one_file(const uint8_t *data, size_t size)
{
    mem_reader m;
    sw_report *report;
    sw_error err = {0};
    uint8_t buffer[512];
    swi_blob_check tally = {0};
    static const swi_blob_label label = {.file = "file", .name = "name"};
    mem_reader_init(&m, data, size);
    m.pub.limits.metadata_bytes = 1 << 20;
    m.pub.limits.nodes = 1 << 16;
    open_file(&m.pub, size);
    if (sw_report_make(&report, &err) != SW_OK)
        return;
    for (uint32_t aux = SWI_DCP_PLAIN; aux <= SWI_DCP_ZSTD; aux++) {
        swi_blob blob = {.ops = &swi_blob_dcp_item, .aux = aux, .stored_bytes = size, .bytes = 24};
        swi_extent e;
        sw_value_graph *g = NULL;
        sw_value root;
        if (blob.ops->resolve(&blob, &m.pub, &(swi_blob_want){.dtype = SW_DTYPE_NONE}, &e, &err) ==
            SW_OK)
            touch(&m.pub, &e);
        (void)!blob.ops->check(&blob, &m.pub, &label, buffer, sizeof(buffer), report, &tally, &err);
        blob.bytes = UINT64_MAX;
        if (blob.ops->load_value(&blob, &m.pub, &g, &root, &err) == SW_OK)
            sw_value_graph_free(g);
    }
    sw_report_free(report);
    mem_reader_end(&m);
}

/* '~': patches of an archive that is whole; '=': a data.pkl; else the bytes as they are. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const int64_t shape[] = {2, 3};
    static const float six[6] = {0, 1, 2, 3, 4, 5};
    swi_buf base = {0};
    sw_status st = SW_ERR_ARG;
    if (size > 0 && data[0] == '~')
        st = swi_torch_write_tensor(&base, SW_F32, 2, shape, six, NULL);
    if (st == SW_OK)
        patch(&base, data + 1, size - 1);
    if (size > 0 && data[0] == '=')
        st = archive_around(&base, data + 1, size - 1, 1);
    if (st == SW_OK)
        one_file(base.data, base.size);
    else
        one_file(data, size);
    swi_buf_free(&base);
    return 0;
}
