/*
 * Programs of operations on shaped tensors, whose choices are the input's bytes: every element lies
 * at the bytes that the definition of the operations says.
 */
#include "base/cursor.h"

#define MODEL_FAIL(text) __builtin_trap()
#include "reshard/shaped_ops.h"

/* The end of the input is all zeros. */
static uint64_t choose(void *ctx, uint64_t below)
{
    uint8_t v = 0;
    (void)swi_get_u8(ctx, &v);
    return v % below;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    swi_cursor cursor = swi_cursor_make(data, size);
    (void)model_program(choose, &cursor, 6);
    return 0;
}
