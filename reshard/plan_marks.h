/*
 * What the proof of a plan asks of single moves: whether one is a box of a piece, and which
 * elements of a window it takes. For plan_check.c alone.
 */
#ifndef SW_RESHARD_PLAN_MARKS_H
#define SW_RESHARD_PLAN_MARKS_H

#include "plan.h"

/*
 * Whether every element of the move lies, in the window from flat element `lo` on, where the piece
 * has the same byte of its blob.
 */
bool swi_move_is_box_of(const swi_move *move, const swi_piece *piece, int64_t lo,
                        int64_t element_bytes);

/* A bit for each element of a window; {0} to begin with. */
typedef struct swi_marks {
    uint64_t *bits;
    size_t capacity; /* words */
    uint64_t count;  /* elements of the window */
    bool again;      /* whether to mark an element twice is no fault */
} swi_marks;

/* None is marked, nor may be twice. */
SW_MUST_USE sw_status swi_marks_clear(swi_marks *marks, uint64_t count, sw_error *err);
void swi_marks_free(swi_marks *marks);
/* All elements of the move; false when one is outside of the window or was marked before. */
bool swi_mark_move(swi_marks *marks, const swi_move *move, uint64_t element_bytes);
uint64_t swi_marks_count(const swi_marks *marks);

#endif
