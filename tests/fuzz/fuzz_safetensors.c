/* The opening of a safetensors file. What opens is walked through and written again. An input that
 * begins with '{' is a header, to which the length is added, up to the first line end; data follow.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "container/safetensors.h"
#include "format/mem_reader.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void rewrite(const swi_st *st)
{
    size_t count = swi_st_count(st);
    swi_st_tensor *tensors = calloc(count > 0 ? count : 1, sizeof *tensors);
    bool is_writable = true;
    swi_buf out = {0};
    sw_error err = {0};
    if (tensors == NULL)
        return;
    for (size_t i = 0; i < count; i++) {
        swi_st_at(st, i, &tensors[i]);
        is_writable = is_writable && tensors[i].dtype != SW_DTYPE_NONE;
    }
    sw_status status = swi_st_write_header(&out, tensors, count, NULL, 0, &err);
    if (is_writable && status != SW_OK)
        __builtin_trap();
    swi_buf_free(&out);
    free(tensors);
}

static void walk(const swi_st *st, uint64_t size)
{
    const char *key, *value;
    uint64_t end = swi_st_data_offset(st);
    for (size_t i = 0; i < swi_st_count(st); i++) {
        swi_st_tensor t;
        uint32_t axes;
        swi_st_at(st, i, &t);
        if (t.offset_bytes != end || swi_st_find(st, t.name) != (int64_t)i)
            __builtin_trap();
        end += t.bytes;
        const int64_t *offsets = swi_st_saved_offsets(st, i, &axes);
        if (offsets != NULL && (axes != t.axes || (axes > 0 && offsets[axes - 1] < 0)))
            __builtin_trap();
    }
    if (end != size)
        __builtin_trap();
    for (size_t i = 0; swi_st_meta_at(st, i, &key, &value); i++)
        if (swi_st_meta(st, key) != value)
            __builtin_trap();
}

static void open_file(const uint8_t *data, size_t size)
{
    mem_reader reader;
    swi_st *st = NULL;
    sw_error err = {0};
    mem_reader_init(&reader, data, size);
    if (swi_st_open(&reader.pub, 0, size, &st, &err) == SW_OK) {
        walk(st, size);
        rewrite(st);
    }
    swi_st_free(st);
    mem_reader_end(&reader);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0 || data[0] != '{') {
        open_file(data, size);
        return 0;
    }
    const uint8_t *end = memchr(data, '\n', size);
    size_t header = end != NULL ? (size_t)(end - data) : size;
    size_t bytes = end != NULL ? size - header - 1 : 0;
    uint8_t *file = malloc(8 + header + bytes);
    if (file == NULL)
        return 0;
    for (int i = 0; i < 8; i++)
        file[i] = (uint8_t)((uint64_t)header >> (8 * i));
    memcpy(file + 8, data, header);
    if (bytes > 0)
        memcpy(file + 8 + header, end + 1, bytes);
    open_file(file, 8 + header + bytes);
    free(file);
    return 0;
}
