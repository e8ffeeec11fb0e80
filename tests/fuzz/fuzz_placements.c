/* Bytes as a mesh and placements: the boxes of all ranks tile the tensor, copies counted. */
#include <stddef.h>
#include <stdint.h>

#include "torch/placements.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MESH_AXES 3
#define AXES 2
#define SIDE 13

static void must(bool holds)
{
    if (!holds)
        __builtin_trap();
}

static uint8_t next_byte(const uint8_t **data, const uint8_t *end)
{
    return *data < end ? *(*data)++ : 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *end = data + size;
    swi_placements p = {.axes = MESH_AXES};
    int64_t shape[AXES], offset[AXES], length[AXES];
    uint64_t world = 1, copies = 1;
    uint8_t met[SIDE][SIDE] = {{0}};
    sw_error err = {0};
    for (size_t a = 0; a < MESH_AXES; a++) {
        p.size[a] = 1 + next_byte(&data, end) % 5;
        p.at[a] = (swi_placement){.kind = (swi_placement_kind)(next_byte(&data, end) % 3),
                                  .dim = next_byte(&data, end) % AXES,
                                  .split_factor = 1 + next_byte(&data, end) % 26};
        world *= p.size[a];
        copies *= p.at[a].kind == SWI_REPLICATE ? p.size[a] : 1;
    }
    for (size_t k = 0; k < AXES; k++)
        shape[k] = next_byte(&data, end) % (SIDE + 1);
    for (uint64_t number = 0; number < world; number++) {
        if (swi_placed_box(&p, number, AXES, shape, offset, length, &err) != SW_OK) {
            must(number == 0 && err.status == SW_ERR_UNSUPPORTED);
            return 0;
        }
        for (size_t k = 0; k < AXES; k++)
            must(offset[k] >= 0 && length[k] >= 0 && offset[k] <= shape[k] - length[k]);
        for (int64_t i = 0; i < length[0]; i++)
            for (int64_t k = 0; k < length[1]; k++)
                met[offset[0] + i][offset[1] + k]++;
    }
    for (int64_t i = 0; i < shape[0]; i++)
        for (int64_t k = 0; k < shape[1]; k++)
            must(met[i][k] == copies);
    return 0;
}
