/* A save as a checkpoint of its own kind, which is read from memory alone and detected nowhere. */
#include <string.h>

#include "io/lent.h"
#include "save/save.h"
#include "state/state.h"

#define FILE_NAME "data"

static sw_status add_tensors(swi_opening *o, const sw_save *s, sw_error *err)
{
    sw_status st = SW_OK;
    for (uint32_t i = 0; st == SW_OK && i < swi_names_count(s->names); i++) {
        const swi_saved_tensor *t = &s->tensors[i];
        const swi_tensor_in in = {.name = t->name,
                                  .name_size = strlen(t->name),
                                  .dtype = t->dtype,
                                  .axes = t->axes,
                                  .shape = t->shape,
                                  .role = t->role};
        uint32_t id;
        st = swi_builder_tensor(o->builder, &in, &id, err);
        if (st == SW_OK)
            st = swi_opening_section(o, id, t->section, t->inner, err);
    }
    return st;
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
        swi_piece piece = s->pieces[i].piece;
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
    swi_entry entry;
    uint32_t file;
    sw_status st = swi_store_stat(o->store, FILE_NAME, &entry, err);
    if (st == SW_OK)
        st = swi_builder_file(o->builder, FILE_NAME, entry.bytes, &file, err);
    if (st == SW_OK)
        st = add_tensors(o, s, err);
    return st == SW_OK ? add_pieces(o, s, file, err) : st;
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
