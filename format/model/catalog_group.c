#include "model/catalog_group.h"

#include "base/checked.h"
#include "base/together.h"

void swi_held_bytes_add(swi_held_bytes *all, uint32_t tensor, uint64_t bytes)
{
    if (!swi_add_u64(all->bytes, bytes, &all->bytes))
        all->bytes = UINT64_MAX;
    if (bytes > all->most) {
        all->most = bytes;
        all->most_tensor = tensor;
    }
}

/* ---- any order ------------------------------------------------------------------------------- */

sw_status swi_order_make(sw_catalog *c, sw_error *err)
{
    sw_status status = swi_grow_array((void **)&c->order, &c->order_capacity, c->pieces.count,
                                      sizeof *c->order, err);
    for (size_t i = 0; i < c->pieces.count && status == SW_OK; i++)
        c->order[i] = (uint32_t)i;
    return status;
}

/* Counting sort: first_piece runs ahead as places are taken, then moves back. */
static sw_status sort_pieces(sw_catalog *c, const uint32_t *tensor_of, sw_error *err)
{
    uint32_t at = 0;
    sw_status status = swi_order_make(c, err);
    if (status != SW_OK)
        return status;
    for (size_t i = 0; i < c->pieces.count; i++)
        c->tensors[tensor_of[i]].piece_count++;
    for (size_t t = 0; t < c->tensor_count; t++) {
        c->tensors[t].first_piece = at;
        at += c->tensors[t].piece_count;
    }
    for (size_t i = 0; i < c->pieces.count; i++)
        c->order[c->tensors[tensor_of[i]].first_piece++] = (uint32_t)i;
    for (size_t t = 0; t < c->tensor_count; t++)
        c->tensors[t].first_piece -= c->tensors[t].piece_count;
    return SW_OK;
}

/* ---- tensor by tensor ------------------------------------------------------------------------ */

typedef struct grouping {
    sw_catalog *c;
    const uint32_t *tensor_of;
    bool prove;
    swi_proven *proven;
} grouping;

static bool is_grouped(const sw_catalog *c, const uint32_t *tensor_of)
{
    for (size_t i = 1; i < c->pieces.count; i++)
        if (tensor_of[i - 1] > tensor_of[i])
            return false;
    return true;
}

bool swi_needs_no_piece(const swi_tensor_row *t)
{
    return t->piece_count == 0 && (t->alias_of != SWI_NO_ALIAS || t->elements == 0);
}

bool swi_has_whole_piece(const sw_catalog *c, const swi_tensor_row *t, uint64_t *held_bytes)
{
    swi_blob blob;
    uint32_t id;
    if (t->piece_count != 1 || !swi_unpack_whole(swi_packed_at(&c->pieces, t->first_piece), &id))
        return false;
    swi_catalog_blob(c, id, &blob);
    const uint64_t bytes = t->elements * sw_dtype_bytes((sw_dtype)t->dtype);
    *held_bytes = blob.file != SWI_NO_FILE ? bytes : 0;
    return bytes <= blob.bytes;
}

/* The first piece of this tensor, or of one behind it. */
static uint32_t first_piece_of(const grouping *g, uint64_t tensor)
{
    size_t low = 0, high = g->c->pieces.count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (g->tensor_of[middle] < tensor)
            low = middle + 1;
        else
            high = middle;
    }
    return (uint32_t)low;
}

static sw_status group_range(void *ctx, uint64_t from, uint64_t to, sw_error *err)
{
    const grouping *g = ctx;
    const sw_catalog *c = g->c;
    uint32_t at = first_piece_of(g, from);
    swi_proven p = {.all = g->prove, .first_piece = at};
    (void)err;
    for (uint32_t i = (uint32_t)from; i < to; i++) {
        swi_tensor_row *t = &c->tensors[i];
        uint64_t bytes = 0;
        t->first_piece = at;
        while (at < c->pieces.count && g->tensor_of[at] == i)
            at++;
        t->piece_count = at - t->first_piece;
        if (!p.all || swi_needs_no_piece(t))
            continue;
        p.all = swi_has_whole_piece(c, t, &bytes);
        t->held = p.all ? t->elements : 0;
        swi_held_bytes_add(&p.held, i, bytes);
    }
    p.piece_count = at - p.first_piece;
    g->proven[from / SWI_PROOF_RANGE] = p;
    return SW_OK;
}

sw_status swi_group_pieces(const swi_builder *builder, bool prove, swi_proven **out, sw_error *err)
{
    grouping g = {.c = builder->catalog, .tensor_of = builder->tensor_of, .prove = prove};
    const size_t count = g.c->tensor_count;
    *out = NULL;
    if (!is_grouped(g.c, g.tensor_of))
        return sort_pieces(g.c, g.tensor_of, err);
    sw_status status =
        swi_alloc_array(count / SWI_PROOF_RANGE + 1, sizeof *g.proven, (void **)&g.proven, err);
    if (status == SW_OK)
        status =
            swi_together_ranges(builder->threads, count, SWI_PROOF_RANGE, group_range, &g, err);
    *out = g.proven;
    return status;
}
