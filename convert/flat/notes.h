/* What a reader noted of rows (swi_opening_row): kept with the checkpoint. */
#ifndef SW_CONVERT_FLAT_NOTES_H
#define SW_CONVERT_FLAT_NOTES_H

#include "base/arena.h"
#include "base/error.h"

typedef struct swi_row_note {
    uint32_t tensor;
    const char *unit; /* NULL: not known */
    uint64_t shards;
} swi_row_note;

typedef struct swi_slice_note {
    uint32_t tensor; /* the row */
    const char *name;
    uint64_t at, elements;
} swi_slice_note;

typedef struct swi_row_notes {
    swi_row_note *rows;
    size_t row_count, row_capacity;
    swi_slice_note *slices;
    size_t slice_count, slice_capacity;
    swi_arena arena;
} swi_row_notes;

SW_MUST_USE sw_status swi_note_row(swi_row_notes *notes, uint32_t tensor, const char *unit,
                                   uint64_t shards, sw_error *err);
SW_MUST_USE sw_status swi_note_slice(swi_row_notes *notes, uint32_t tensor, const char *name,
                                     uint64_t at, uint64_t elements, sw_error *err);
void swi_row_notes_free(swi_row_notes *notes);

#endif
