/*
 * Any bytes as a document of shapes. What is read has distinct names, sizes that can be counted and
 * ties to tensors of the same size before them; it can be
 * written or is refused.
 */
#include <stdlib.h>
#include <string.h>

#include "flat/shapes_parts.h"
#include "model/piece.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool holds)
{
    if (!holds)
        __builtin_trap();
}

static bool same_sizes(const swi_shape *a, const swi_shape *b)
{
    return a->axes == b->axes && memcmp(a->shape, b->shape, a->axes * sizeof *a->shape) == 0;
}

static void check(const swi_shapes *s)
{
    must((s->count > 0 || s->has_units) && s->ordered && s->align <= 4096 && s->unit_count <= 1024);
    must(s->has_units || s->unit_count == 0);
    for (size_t i = 0; i < s->count; i++) {
        const swi_shape *t = &s->items[i];
        uint64_t elements;
        must(swi_shapes_find(s, t->name) == (int64_t)i);
        must(t->axes <= SW_MAX_AXES && swi_shape_elements(t->axes, t->shape, &elements));
        must(t->tied_to < (int64_t)i && !(t->buffer && t->may_be));
        if (t->tied_to >= 0)
            must(s->items[t->tied_to].tied_to < 0 && same_sizes(t, &s->items[t->tied_to]));
    }
}

/* What is written has been read again and found the same. */
static void write_again(const swi_shapes *s)
{
    swi_buf text = {0};
    sw_error err = {0};
    sw_status st = swi_shapes_write(s, &text, &err);
    must(st == SW_OK || st == SW_ERR_UNSUPPORTED);
    must((st == SW_OK) == (text.size > 0));
    swi_buf_free(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const swi_shapes_ask ask = {.alone = true};
    swi_shapes *s = NULL;
    sw_error err = {0};
    if (size > 4096)
        return 0;
    if (swi_shapes_parse(data, size, "fuzz", &ask, &s, &err) != SW_OK) {
        must(s == NULL && err.status != SW_OK && err.text[0] != '\0');
        return 0;
    }
    check(s);
    if (s->count > 0) /* else it is of units alone (SHP-5) */
        write_again(s);
    swi_shapes_free(s);
    return 0;
}
