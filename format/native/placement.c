/* Placements as text (NAT-6): R, S(0), SS(0,2), P(sum). */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/checked.h"
#include "base/cursor.h"
#include "native/manifest_internal.h"

void swi_placement_write(const swi_native_placement *p, char text[SWI_PLACEMENT_TEXT])
{
    switch (p->kind) {
    case SWI_NATIVE_REPLICATE:
        (void)snprintf(text, SWI_PLACEMENT_TEXT, "R");
        return;
    case SWI_NATIVE_SHARD:
        (void)snprintf(text, SWI_PLACEMENT_TEXT, "S(%" PRIu32 ")", p->dim);
        return;
    case SWI_NATIVE_STRIDED_SHARD:
        (void)snprintf(text, SWI_PLACEMENT_TEXT, "SS(%" PRIu32 ",%" PRIu64 ")", p->dim, p->factor);
        return;
    case SWI_NATIVE_PARTIAL:
        (void)snprintf(text, SWI_PLACEMENT_TEXT, "P(%.*s)", SWI_NATIVE_OP_MAX, p->op);
        return;
    }
}

static bool take(swi_cursor *in, const char *text)
{
    const uint8_t *p;
    size_t size = strlen(text), pos = in->pos;
    if (swi_get_bytes(in, size, &p) && memcmp(p, text, size) == 0)
        return true;
    in->pos = pos;
    return false;
}

/* A number as it is written: no sign, no zeros before it. */
static bool take_number(swi_cursor *in, uint64_t *out)
{
    uint64_t value = 0;
    uint8_t c;
    size_t start = in->pos;
    while (swi_peek_u8(in, &c) && c >= '0' && c <= '9') {
        if ((in->pos > start && value == 0) || !swi_mul_u64(value, 10, &value) ||
            !swi_add_u64(value, (uint64_t)(c - '0'), &value))
            return false;
        in->pos++;
    }
    *out = value;
    return in->pos > start;
}

static bool take_dim(swi_cursor *in, uint32_t *out)
{
    uint64_t dim;
    if (!take_number(in, &dim) || dim >= SW_MAX_AXES)
        return false;
    *out = (uint32_t)dim;
    return true;
}

static bool is_op_char(uint8_t c)
{
    return c == '_' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

bool swi_native_is_op(const char *text, size_t size)
{
    size_t n = 0;
    while (n < size && is_op_char((uint8_t)text[n]))
        n++;
    return n == size && n > 0 && n <= SWI_NATIVE_OP_MAX;
}

static bool take_op(swi_cursor *in, const char **op, size_t *size)
{
    const char *start = (const char *)in->data + in->pos;
    uint8_t c;
    size_t n = 0;
    while (swi_peek_u8(in, &c) && is_op_char(c)) {
        in->pos++;
        n++;
    }
    *op = start;
    *size = n;
    return swi_native_is_op(start, n);
}

bool swi_placement_read(const char *text, size_t size, swi_native_placement *out, const char **op,
                        size_t *op_size)
{
    swi_cursor in = swi_cursor_make(text, size);
    swi_native_placement p = {.kind = SWI_NATIVE_REPLICATE};
    bool good;
    if (take(&in, "R")) {
        good = true;
    } else if (take(&in, "S(")) {
        p.kind = SWI_NATIVE_SHARD;
        good = take_dim(&in, &p.dim) && take(&in, ")");
    } else if (take(&in, "SS(")) {
        p.kind = SWI_NATIVE_STRIDED_SHARD;
        good = take_dim(&in, &p.dim) && take(&in, ",") && take_number(&in, &p.factor) &&
               p.factor > 0 && take(&in, ")");
    } else {
        p.kind = SWI_NATIVE_PARTIAL;
        good = take(&in, "P(") && take_op(&in, op, op_size) && take(&in, ")");
    }
    if (!good || swi_cursor_left(&in) != 0)
        return false;
    *out = p;
    return true;
}
