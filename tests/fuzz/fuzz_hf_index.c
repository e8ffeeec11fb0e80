/* The index of a sharded Hugging Face model. */
#include <stddef.h>
#include <stdint.h>

#include "container/hf_index.h"
#include "io/store.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    swi_hf_index *index = NULL;
    sw_error err = {0};
    if (swi_hf_index_parse(data, size, NULL, &index, &err) != SW_OK)
        return 0;
    for (size_t i = 0; i < swi_hf_index_count(index); i++) {
        const char *name;
        uint32_t file;
        if (!swi_hf_index_at(index, i, &name, &file) ||
            swi_hf_index_find(index, name) != (int64_t)file ||
            swi_path_check(swi_hf_index_file(index, file), &err) != SW_OK)
            __builtin_trap();
    }
    swi_hf_index_free(index);
    return 0;
}
