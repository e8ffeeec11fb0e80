#include "torch/torch_lay.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/checked.h"

/* What is made when the CRCs are known; the layout owns it, by the first of its parts. */
typedef struct ending ending;
typedef struct late_part {
    ending *of;
    uint32_t number;
} late_part;
struct ending {
    swi_torch_out out;
    late_part *parts; /* behind it in memory */
    swi_torch_out_storage *storages;
};

typedef struct laying {
    swi_layout *layout;
    const swi_torch_out *out;
    const uint8_t *const *data;
    swi_torch_lay_object *object; /* NULL: it is there */
    swi_torch_laid laid;
    uint64_t at;
    ending *end;
    bool end_given; /* it is the layout's */
} laying;

/* ---- what is made late -------------------------------------------------------------------------
 */

static sw_status make_late(void *ctx, const uint32_t *sums, uint8_t *out, size_t size,
                           sw_error *err)
{
    const late_part *part = ctx;
    return swi_torch_write_late(&part->of->out, sums, part->number, out, size, err);
}

static void free_ending(ending *e)
{
    if (e != NULL)
        free(e->storages);
    free(e);
}

static void free_by_part(void *ctx)
{
    free_ending(((late_part *)ctx)->of);
}

/* What late parts need lives as long as the layout, which the object does not. */
static sw_status make_ending(laying *l, sw_error *err)
{
    size_t count = l->out->storage_count, bytes;
    void *room = NULL;
    if (!swi_mul_size(count + 1, sizeof(late_part), &bytes) ||
        !swi_add_size(bytes, sizeof(ending), &bytes))
        return swi_fail_nomem(err);
    sw_status st = swi_alloc_array(bytes, 1, &room, err);
    if (st != SW_OK)
        return st;
    ending *e = room;
    *e = (ending){.out = *l->out, .parts = (late_part *)(e + 1)};
    st = swi_alloc_array(count, sizeof *e->storages, (void **)&e->storages, err);
    if (st != SW_OK) {
        free_ending(e);
        return st;
    }
    if (count > 0)
        memcpy(e->storages, l->out->storages, count * sizeof *e->storages);
    e->out.object = NULL;
    e->out.storages = e->storages;
    for (uint32_t i = 0; i <= count; i++)
        e->parts[i] = (late_part){.of = e, .number = i};
    l->end = e;
    return SW_OK;
}

/* ---- parts of the file -------------------------------------------------------------------------
 */

static sw_status count_part(void *ctx, const swi_torch_part *part, sw_error *err)
{
    laying *l = ctx;
    if (swi_add_u64(l->at, part->bytes, &l->at) && l->at <= (uint64_t)INT64_MAX)
        return SW_OK;
    return swi_fail(err, SW_ERR_LIMIT, "a file would be too large");
}

static sw_status lay_late(laying *l, const swi_torch_part *part, sw_error *err)
{
    const swi_late late = {.offset_bytes = l->at,
                           .size = (size_t)part->bytes,
                           .make = make_late,
                           .ctx = &l->end->parts[part->number],
                           .free_ctx = l->end_given ? NULL : free_by_part};
    sw_status st = swi_layout_late(l->layout, l->laid.file, &late, err);
    l->end_given = l->end_given || st == SW_OK;
    return st;
}

static sw_status lay_storage(laying *l, const swi_torch_part *part, sw_error *err)
{
    uint32_t sum; /* has the storage's number */
    sw_status st = SW_OK;
    l->laid.storage_at[part->number] = l->at;
    if (l->out->form == SWI_TORCH_ZIP)
        st = swi_layout_sum(l->layout, l->laid.file, l->at, part->bytes, &sum, err);
    if (st == SW_OK && l->data[part->number] != NULL)
        st = swi_layout_literal(l->layout, l->laid.file, l->at, l->data[part->number],
                                (size_t)part->bytes, err);
    return st;
}

static sw_status lay_bytes(laying *l, const swi_torch_part *part, sw_error *err)
{
    const size_t size = (size_t)part->bytes;
    if (part->data != NULL)
        return swi_layout_literal(l->layout, l->laid.file, l->at, part->data, size, err);
    const swi_late late = {.offset_bytes = l->at,
                           .size = size,
                           .make = l->object->make,
                           .ctx = l->object->ctx,
                           .free_ctx = l->object->free_ctx};
    sw_status st = swi_layout_late(l->layout, l->laid.file, &late, err);
    l->object->given = st == SW_OK;
    return st;
}

static sw_status lay_part(void *ctx, const swi_torch_part *part, sw_error *err)
{
    laying *l = ctx;
    sw_status st = SW_OK;
    switch (part->kind) {
    case SWI_TORCH_PART_BYTES:
        st = lay_bytes(l, part, err);
        break;
    case SWI_TORCH_PART_STORAGE:
        st = lay_storage(l, part, err);
        break;
    case SWI_TORCH_PART_LATE:
        st = lay_late(l, part, err);
        break;
    }
    l->at += part->bytes;
    return st;
}

/* ---- the file ----------------------------------------------------------------------------------
 */

sw_status swi_torch_lay(swi_layout *layout, const swi_torch_lay_in *in, swi_torch_laid *laid,
                        sw_error *err)
{
    laying l = {.layout = layout, .out = in->out, .data = in->data, .object = in->object};
    sw_status st = swi_alloc_array(in->out->storage_count, sizeof *l.laid.storage_at,
                                   (void **)&l.laid.storage_at, err);
    if (st == SW_OK)
        st = make_ending(&l, err);
    if (st == SW_OK)
        st = swi_torch_write(in->out, NULL, count_part, &l, err);
    if (st == SW_OK)
        st = swi_layout_file(layout, in->path, l.at, &l.laid.file, err);
    l.at = 0;
    if (st == SW_OK)
        st = swi_torch_write(in->out, NULL, lay_part, &l, err);
    if (!l.end_given)
        free_ending(l.end);
    if (st == SW_OK)
        *laid = l.laid;
    else
        swi_torch_laid_free(&l.laid);
    return st;
}

void swi_torch_laid_free(swi_torch_laid *laid)
{
    free(laid->storage_at);
    *laid = (swi_torch_laid){0};
}
