/* Any bytes as a torch.save file of the form before 1.6: opened, its storages held to the input. */
#include "container/torch_file.h"
#include "format/mem_reader.h"
#include "fuzz/patch.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The head, {"w": a tensor of 2 float32}, the list of keys, the storage. */
static const char whole[] =
    "\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.\x80\x02M\xe9\x03.\x80\x02}."
    "\x80\x02}X\x01\x00\x00\x00wctorch._utils\n_rebuild_tensor_v2\n((X\x07\x00\x00\x00storage"
    "ctorch\nFloatStorage\nX\x01\x00\x00\x00"
    "0X\x03\x00\x00\x00"
    "cpuK\x02Nt"
    "QK\x00K\x02\x85K\x01\x85\x89"
    "ccollections\nOrderedDict\n)RtRs."
    "\x80\x02]X\x01\x00\x00\x00"
    "0a.\x02\x00\x00\x00\x00\x00\x00\x00\x01\x02\x03\x04\x05\x06\x07\x08";

/* Of it, what comes before the object. */
#define HEAD_BYTES 25

/* Storages lie inside the file, one behind another, and its end is theirs. */
static void check_storages(const swi_torch_file *tf, size_t size)
{
    if (swi_torch_end_bytes(tf) > size)
        __builtin_trap();
    for (size_t i = 0; i < swi_torch_storage_count(tf); i++) {
        const swi_torch_storage *s = swi_torch_storage_at(tf, i);
        if (s->offset_bytes > swi_torch_end_bytes(tf) ||
            s->bytes > swi_torch_end_bytes(tf) - s->offset_bytes)
            __builtin_trap();
    }
}

static void check_tensors(const swi_torch_file *tf)
{
    sw_value root = swi_torch_root(tf), key, value;
    const sw_value_graph *g = swi_torch_graph(tf);
    for (size_t i = 0; i < 1000; i++) {
        swi_torch_tensor t;
        if (!sw_value_pair(g, root, i, &key, &value) && !sw_value_item(g, root, i, &value))
            break;
        if (swi_torch_get_tensor(tf, value, &t, NULL) != SW_OK || t.elements == 0)
            continue;
        uint64_t last = t.start_elements;
        for (uint32_t k = 0; k < t.axes; k++)
            last += (uint64_t)(t.shape[k] - 1) * (uint64_t)t.stride_elements[k];
        if ((last + 1) * sw_dtype_bytes(t.dtype) > swi_torch_storage_at(tf, t.storage)->bytes)
            __builtin_trap();
    }
}

static void one_file(const uint8_t *data, size_t size, bool must_open)
{
    mem_reader m;
    swi_torch_file *tf = NULL;
    swi_pickle_unsafe unsafe = {0};
    sw_error err = {0};
    mem_reader_init(&m, data, size);
    m.pub.limits.metadata_bytes = 1 << 20;
    m.pub.limits.nodes = 1 << 16;
    sw_status st = swi_torch_open_file(&m.pub, 0, size, &unsafe, &tf, &err);
    if (st == SW_OK && swi_torch_is_legacy(tf)) {
        check_storages(tf, size);
        check_tensors(tf);
    }
    if (must_open && st != SW_OK)
        __builtin_trap();
    if (st != SW_OK && err.text[0] == '\0')
        __builtin_trap();
    swi_torch_free(tf);
    mem_reader_end(&m);
}

/* '~': patches of a file that is whole; '=': an object in one; else the bytes as they are. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    swi_buf base = {0};
    sw_status st = SW_ERR_ARG;
    if (size > 0 && data[0] == '~')
        st = swi_buf_append(&base, whole, sizeof whole - 1, NULL);
    if (st == SW_OK)
        patch(&base, data + 1, size - 1);
    if (size > 0 && data[0] == '=') {
        st = swi_buf_append(&base, whole, HEAD_BYTES, NULL);
        if (st == SW_OK)
            st = swi_buf_append(&base, data + 1, size - 1, NULL);
    }
    if (st == SW_OK)
        one_file(base.data, base.size, size == 1 && data[0] == '~');
    else
        one_file(data, size, false);
    swi_buf_free(&base);
    return 0;
}
