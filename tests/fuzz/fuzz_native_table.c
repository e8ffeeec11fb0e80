/*
 * The tensor table of a native checkpoint. What is read is found again under its name, and written
 * back to the same bytes. Input as bytes or, after "hex", in hexadecimal.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz/hex.h"
#include "native/table.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void walk(const swi_native_table *table, const uint8_t *data, size_t size)
{
    swi_native_tensor *tensors = calloc((size_t)table->count + 1, sizeof *tensors);
    swi_buf out = {0};
    sw_error err = {0};
    if (tensors == NULL)
        return;
    for (uint32_t i = 0; i < table->count; i++) {
        swi_native_table_at(table, i, &tensors[i]);
        if (swi_native_table_find(table, tensors[i].name, tensors[i].name_size) != i)
            __builtin_trap();
    }
    if (swi_native_table_write(tensors, table->count, &out, &err) != SW_OK || out.size != size ||
        memcmp(out.data, data, size) != 0)
        __builtin_trap();
    swi_buf_free(&out);
    free(tensors);
}

static void read_table(const uint8_t *data, size_t size)
{
    swi_native_table table;
    sw_error err = {0};
    if (swi_native_table_read(data, size, 1000, 2, &table, &err) == SW_OK)
        walk(&table, data, size);
    else if (err.text[0] == 0)
        __builtin_trap();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t count;
    uint8_t *bytes = bytes_of_hex(data, size, &count);
    if (bytes != NULL)
        read_table(bytes, count);
    else
        read_table(data, size);
    free(bytes);
    return 0;
}
