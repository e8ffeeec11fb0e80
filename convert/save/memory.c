/* A save as a checkpoint of its own kind, which is read from memory alone and detected nowhere. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/text.h"
#include "io/lent.h"
#include "save/save.h"

#define FILE_NAME "data"

/* The pieces in order: by tensor, term and box, then by rank. */
typedef struct sorted {
    size_t count;
    const swi_saved_piece **piece;
    uint32_t *rank;   /* of each */
    size_t *part;     /* where each part begins: pieces of one box */
    size_t *first_of; /* by tensor: its first part; and one more: how many there are */
} sorted;

static void sorted_free(void *p)
{
    sorted *by = p;
    if (by == NULL)
        return;
    free(by->piece);
    free(by->rank);
    free(by->part);
    free(by->first_of);
    free(by);
}

static int order(uint64_t a, uint64_t b)
{
    return (a > b) - (a < b);
}

/* Of one tensor. */
static int by_box(const swi_saved_piece *a, const swi_saved_piece *b)
{
    int by = order(a->term, b->term);
    if (by == 0)
        by = order(swi_piece_first(&a->piece), swi_piece_first(&b->piece));
    if (by == 0)
        by = order(a->flat, b->flat);
    for (uint32_t k = 0; by == 0 && k < a->piece.axes; k++)
        by = order((uint64_t)a->piece.offset[k], (uint64_t)b->piece.offset[k]);
    for (uint32_t k = 0; by == 0 && k < a->piece.axes; k++)
        by = order((uint64_t)a->piece.length[k], (uint64_t)b->piece.length[k]);
    return by;
}

static int by_place(const void *left, const void *right)
{
    const swi_saved_piece *a = *(const swi_saved_piece *const *)left;
    const swi_saved_piece *b = *(const swi_saved_piece *const *)right;
    int by = order(a->tensor, b->tensor);
    if (by == 0)
        by = by_box(a, b);
    return by != 0 ? by : order(a->rank, b->rank);
}

static sw_status list_parts(const sw_save *s, sorted *by, sw_error *err)
{
    const uint32_t tensors = swi_names_count(s->names);
    size_t parts = 0;
    uint32_t next = 0;
    for (size_t i = 0; i < by->count; i++) {
        const swi_saved_piece *p = by->piece[i], *before = i > 0 ? by->piece[i - 1] : NULL;
        const bool same = before != NULL && before->tensor == p->tensor && by_box(before, p) == 0;
        swi_quoted q;
        if (same && before->rank == p->rank)
            return swi_fail(err, SW_ERR_CONFLICT,
                            "tensor \"%s\": rank %" PRIu32 " has the same elements twice",
                            swi_quote_str(&q, s->tensors[p->tensor].name), p->rank);
        by->rank[i] = p->rank;
        while (next <= p->tensor)
            by->first_of[next++] = parts;
        if (!same)
            by->part[parts++] = i;
    }
    while (next <= tensors)
        by->first_of[next++] = parts;
    by->part[parts] = by->count;
    return SW_OK;
}

static sw_status sort_pieces(const sw_save *s, sorted *by, sw_error *err)
{
    by->count = s->piece_count;
    sw_status st = swi_alloc_array(by->count, sizeof *by->piece, (void **)&by->piece, err);
    if (st == SW_OK)
        st = swi_alloc_array(by->count, sizeof *by->rank, (void **)&by->rank, err);
    if (st == SW_OK)
        st = swi_alloc_array(by->count + 1, sizeof *by->part, (void **)&by->part, err);
    if (st == SW_OK)
        st = swi_alloc_array((size_t)swi_names_count(s->names) + 1, sizeof *by->first_of,
                             (void **)&by->first_of, err);
    if (st != SW_OK)
        return st;
    for (size_t i = 0; i < by->count; i++)
        by->piece[i] = &s->pieces[i];
    if (by->count > 1)
        qsort(by->piece, by->count, sizeof *by->piece, by_place);
    return list_parts(s, by, err);
}

/* ---- the catalog ----------------------------------------------------------------------------- */

static const swi_saved_layout *layout_of(const sw_save *s, const swi_saved_tensor *t)
{
    return t->layout != SWI_SAVED_NO_LAYOUT ? &s->layouts[t->layout] : NULL;
}

static uint64_t terms_of(const sw_save *s, const swi_saved_tensor *t)
{
    const swi_saved_layout *l = layout_of(s, t);
    return l != NULL ? l->terms : 1;
}

/* Terms lie one behind the other (swi_held.partial). */
static sw_status stack_shape(const sw_save *s, const swi_saved_tensor *t, uint32_t *axes,
                             int64_t *shape, sw_error *err)
{
    const uint64_t terms = terms_of(s, t);
    swi_quoted q;
    uint64_t rows;
    *axes = t->axes;
    memcpy(shape, t->shape, sizeof t->shape);
    if (terms == 1)
        return SW_OK;
    if (t->axes == 0)
        shape[(*axes)++] = 1;
    if (!swi_mul_u64((uint64_t)shape[0], terms, &rows) || rows > (uint64_t)INT64_MAX)
        return swi_fail(err, SW_ERR_LIMIT, "tensor \"%s\": its terms are too large",
                        swi_quote_str(&q, t->name));
    shape[0] = (int64_t)rows;
    return SW_OK;
}

static sw_status add_tensor(swi_opening *o, const sw_save *s, const swi_saved_tensor *t,
                            sw_error *err)
{
    const swi_saved_layout *layout = layout_of(s, t);
    int64_t shape[SW_MAX_AXES];
    uint32_t axes, id;
    sw_status st = stack_shape(s, t, &axes, shape, err);
    const swi_tensor_in in = {.name = t->name,
                              .name_size = strlen(t->name),
                              .dtype = t->dtype,
                              .axes = axes,
                              .shape = shape,
                              .role = t->role};
    if (st == SW_OK)
        st = swi_builder_tensor(o->builder, &in, &id, err);
    if (st == SW_OK && layout != NULL && layout->replicated && layout->computed)
        swi_builder_allow_replicas(o->builder, id);
    return st == SW_OK ? swi_opening_section(o, id, t->section, t->inner, err) : st;
}

/* Of the catalog's tensor: behind the terms before it. */
static swi_piece stacked(const sw_save *s, const swi_saved_piece *p)
{
    const swi_saved_tensor *t = &s->tensors[p->tensor];
    const int64_t terms = (int64_t)terms_of(s, t);
    swi_piece made = p->piece;
    if (terms == 1)
        return made;
    if (made.axes == 0) {
        made.axes = 1;
        made.view[0] = made.length[0] = 1;
        made.offset[0] = 0;
        made.stride_bytes[0] = sw_dtype_bytes(t->dtype);
    }
    made.offset[0] += (int64_t)p->term * made.view[0];
    made.view[0] *= terms;
    return made;
}

static sw_status add_pieces(const swi_opening *o, const sw_save *s, uint32_t file, sw_error *err)
{
    uint64_t at = 0;
    sw_status st = SW_OK;
    for (size_t i = 0; st == SW_OK && i < s->piece_count; i++) {
        const swi_blob blob = {.ops = &swi_blob_slice,
                               .file = file,
                               .offset_bytes = at,
                               .stored_bytes = s->memory[i].size,
                               .bytes = s->memory[i].size};
        swi_piece piece = stacked(s, &s->pieces[i]);
        at += blob.bytes; /* that the sum fits the store has checked */
        st = swi_builder_blob(o->builder, &blob, &piece.blob, err);
        if (st == SW_OK)
            st = swi_builder_piece(o->builder, s->pieces[i].tensor, &piece, err);
    }
    return st;
}

static sw_status open_memory(swi_opening *o, sw_error *err)
{
    const sw_save *s = o->given;
    sorted *by = NULL;
    swi_entry entry;
    uint32_t file;
    sw_status st = swi_alloc_array(1, sizeof *by, (void **)&by, err);
    if (st != SW_OK)
        return st;
    swi_opening_keep(o, by, sorted_free);
    st = sort_pieces(s, by, err);
    if (st == SW_OK)
        st = swi_store_stat(o->store, FILE_NAME, &entry, err);
    if (st == SW_OK)
        st = swi_builder_file(o->builder, FILE_NAME, entry.bytes, &file, err);
    for (uint32_t i = 0; st == SW_OK && i < swi_names_count(s->names); i++)
        st = add_tensor(o, s, &s->tensors[i], err);
    return st == SW_OK ? add_pieces(o, s, file, err) : st;
}

/* ---- who holds what -------------------------------------------------------------------------- */

static uint32_t held_ranks(const sw_checkpoint *checkpoint)
{
    const sw_save *s = swi_checkpoint_given(checkpoint);
    return s->ranks;
}

static void held_tensor(const sw_checkpoint *checkpoint, uint32_t tensor, swi_held *out)
{
    const sw_save *s = swi_checkpoint_given(checkpoint);
    const sorted *by = swi_checkpoint_kept(checkpoint);
    const swi_saved_tensor *t = &s->tensors[tensor];
    const swi_saved_layout *layout = layout_of(s, t);
    *out = (swi_held){.kind = t->flat && !t->boxes ? SWI_HELD_FLAT : SWI_HELD_BOXES,
                      .terms = terms_of(s, t),
                      .axes = t->axes,
                      .part_count = by->first_of[tensor + 1] - by->first_of[tensor]};
    memcpy(out->shape, t->shape, sizeof out->shape);
    if (layout == NULL)
        return;
    out->kind = SWI_HELD_PLACED;
    out->placements = layout->placements;
    out->names = layout->names;
    out->partial = layout->partial;
}

static void held_part(const sw_checkpoint *checkpoint, uint32_t tensor, size_t i,
                      swi_held_part *out)
{
    const sorted *by = swi_checkpoint_kept(checkpoint);
    const size_t part = by->first_of[tensor] + i, begin = by->part[part];
    const swi_saved_piece *p = by->piece[begin];
    *out = (swi_held_part){.term = p->term,
                           .flat = p->flat,
                           .axes = p->piece.axes,
                           .ranks = by->rank + begin,
                           .rank_count = by->part[part + 1] - begin};
    memcpy(out->offset, p->piece.offset, sizeof out->offset);
    memcpy(out->length, p->piece.length, sizeof out->length);
}

static const swi_held_ops held = {.ranks = held_ranks, .tensor = held_tensor, .part = held_part};

/* ---- the state dict -------------------------------------------------------------------------- */

static sw_status copy_scoped(const sw_save *s, swi_state *state, sw_error *err)
{
    const uint32_t count = swi_names_count(s->scoped_names);
    sw_status st = swi_alloc_array(count, sizeof *state->scoped, (void **)&state->scoped, err);
    for (uint32_t i = 0; st == SW_OK && i < count; i++) {
        swi_state_scoped made = s->scoped[i].of;
        if (s->scoped[i].call == 0)
            continue;
        st = swi_graph_copy(state->graph, s->graph, s->scoped[i].of.value, NULL, NULL, &made.value,
                            err);
        if (st == SW_OK)
            state->scoped[state->scoped_count++] = made;
    }
    return st;
}

static sw_status state_of_memory(const sw_checkpoint *checkpoint, swi_state *out, sw_error *err)
{
    const sw_save *s = swi_checkpoint_given(checkpoint);
    const sw_limits limits = swi_checkpoint_limits(checkpoint);
    swi_state state = {.ordered = s->in_order};
    sw_status st = swi_graph_make(&limits, &state.graph, err);
    if (st == SW_OK)
        st = swi_graph_copy(state.graph, s->graph, s->root, NULL, NULL, &state.root, err);
    if (st == SW_OK)
        st = copy_scoped(s, &state, err);
    if (st == SW_OK)
        *out = state;
    else
        swi_state_free(&state);
    return st;
}

static const swi_framework memory = {
    .name = "memory",
    .title = "what a program saves",
    .open = open_memory,
    .state = state_of_memory,
    .held = &held,
};

sw_status swi_save_open(const sw_save *save, sw_report *report, sw_checkpoint **out, sw_error *err)
{
    swi_store *store = NULL;
    sw_status st =
        swi_store_open_lent("memory:", FILE_NAME, save->memory, save->piece_count, &store, err);
    return st == SW_OK
               ? swi_checkpoint_open_given(&memory, store, save, &save->limits, report, out, err)
               : st;
}
