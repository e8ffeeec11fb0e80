/* metadata.pkl of torch_checkpointing: what it says of files and tensors is inside its limits. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz/hex.h"
#include "ranks/rank_meta.h"

#define RANKS_MAX 16

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_tensor(const swi_rank_tensor *t)
{
    if (t->axes > SW_MAX_AXES)
        __builtin_trap();
    for (uint32_t k = 0; k < t->axes; k++)
        if (t->shape[k] < 0 || t->offset[k] < 0 || t->length[k] < 0 || t->offset[k] > t->shape[k] ||
            t->length[k] > t->shape[k] - t->offset[k])
            __builtin_trap();
}

static void look(swi_rank_meta *m)
{
    sw_error err = {0};
    swi_rank_tensor t;
    const char *path;
    uint64_t ranks = swi_rank_meta_world(m) < RANKS_MAX ? swi_rank_meta_world(m) : RANKS_MAX;
    for (size_t i = 0; i < swi_rank_meta_item_count(m); i++)
        for (uint64_t r = 0; r < ranks; r++)
            if (swi_rank_meta_file(m, i, r, &path, &err) == SW_OK &&
                swi_path_check(path, &err) != SW_OK)
                __builtin_trap();
    for (size_t i = 0; i < swi_rank_meta_tensor_count(m); i++) {
        const char *parts[64];
        size_t bytes, count = 0;
        const char *at = swi_rank_meta_path(m, i, &bytes);
        for (const char *p = at; p <= at + bytes && count < 64; p += strlen(p) + 1)
            parts[count++] = p;
        if (swi_rank_meta_tensor(m, i, &t, &err) == SW_OK)
            check_tensor(&t);
        for (uint64_t r = 0; r < ranks; r++) {
            bool known = false;
            if (swi_rank_meta_find(m, parts, count, r, &known, &t, &err) == SW_OK && known)
                check_tensor(&t);
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const sw_limits given = {.nodes = 1 << 16, .files = 1 << 12};
    const sw_limits limits = sw_limits_resolve(&given);
    size_t count = size;
    uint8_t *bytes = bytes_of_hex(data, size, &count);
    swi_rank_meta *m = NULL;
    sw_error err = {0};
    if (swi_rank_meta_parse(bytes ? bytes : data, count, &limits, NULL, &m, &err) == SW_OK)
        look(m);
    swi_rank_meta_free(m);
    free(bytes);
    return 0;
}
