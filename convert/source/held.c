#include "source/held.h"

static const swi_held_ops *ops_of(const sw_checkpoint *checkpoint)
{
    return swi_checkpoint_framework(checkpoint)->held;
}

uint32_t swi_held_ranks(const sw_checkpoint *checkpoint)
{
    const swi_held_ops *ops = ops_of(checkpoint);
    return ops != NULL ? ops->ranks(checkpoint) : 0;
}

bool swi_held_tensor(const sw_checkpoint *checkpoint, uint32_t tensor, swi_held *out)
{
    if (swi_held_ranks(checkpoint) == 0 || tensor >= swi_checkpoint_own_tensors(checkpoint))
        return false;
    ops_of(checkpoint)->tensor(checkpoint, tensor, out);
    return true;
}

void swi_held_part_at(const sw_checkpoint *checkpoint, uint32_t tensor, size_t i,
                      swi_held_part *out)
{
    ops_of(checkpoint)->part(checkpoint, tensor, i, out);
}
