#include "flat/notes.h"

#include <stdlib.h>
#include <string.h>

sw_status swi_note_row(swi_row_notes *notes, uint32_t tensor, const char *unit, uint64_t shards,
                       sw_error *err)
{
    swi_row_note note = {.tensor = tensor, .shards = shards};
    sw_status st = swi_grow_array((void **)&notes->rows, &notes->row_capacity, notes->row_count + 1,
                                  sizeof note, err);
    if (st == SW_OK && unit != NULL)
        st = swi_arena_text(&notes->arena, unit, strlen(unit), &note.unit, err);
    if (st == SW_OK)
        notes->rows[notes->row_count++] = note;
    return st;
}

sw_status swi_note_slice(swi_row_notes *notes, uint32_t tensor, const char *name, uint64_t at,
                         uint64_t elements, sw_error *err)
{
    swi_slice_note note = {.tensor = tensor, .at = at, .elements = elements};
    sw_status st = swi_grow_array((void **)&notes->slices, &notes->slice_capacity,
                                  notes->slice_count + 1, sizeof note, err);
    if (st == SW_OK)
        st = swi_arena_text(&notes->arena, name, strlen(name), &note.name, err);
    if (st == SW_OK)
        notes->slices[notes->slice_count++] = note;
    return st;
}

void swi_row_notes_free(swi_row_notes *notes)
{
    free(notes->rows);
    free(notes->slices);
    swi_arena_free(&notes->arena);
    *notes = (swi_row_notes){0};
}
