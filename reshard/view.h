/* One tensor opened for reading in parts, one thread at a time. */
#ifndef SW_RESHARD_VIEW_H
#define SW_RESHARD_VIEW_H

#include "cover.h"
#include "fetch.h"

/* A view's room for records; the largest encoded one where that is more. */
#define SWI_VIEW_BOUNCE ((size_t)256 << 10)

typedef struct swi_view {
    swi_source source;
    swi_decoded *own; /* source.decoded where the source came without; or NULL */
    uint32_t tensor;
    sw_tensor_info info;
    swi_cover cover;
    swi_extents *extents;
    swi_moves moves;
    uint8_t *bounce;
    size_t bounce_bytes;
    sw_tally tally;
    /* Set by the owner where records are to be checked as they pass (swi_fetch); NULL: not. */
    swi_crc_track *track;
    sw_report *report;
} swi_view;

SW_MUST_USE sw_status swi_view_open(const swi_source *source, uint32_t tensor, swi_view *out,
                                    sw_error *err);
/* With copies, whatever they share: for swi_view_lay alone. */
SW_MUST_USE sw_status swi_view_open_pieces(const swi_source *source, uint32_t tensor, swi_view *out,
                                           sw_error *err);
/* The same for another tensor of its source, with what it has. A failure closes the view. */
SW_MUST_USE sw_status swi_view_turn(swi_view *view, uint32_t tensor, sw_error *err);
void swi_view_close(swi_view *view); /* ends with {0} */
/* What the view reads with, for what else is to be read of its source. */
swi_fetch swi_view_fetch(swi_view *view);
/* Elements [lo, hi) into `out`. Holes are SW_ERR_INCOMPLETE, then `out` is untouched. */
SW_MUST_USE sw_status swi_view_read(swi_view *view, uint64_t lo, uint64_t hi, void *out,
                                    sw_error *err);
/* Lays the elements of piece i that are in [lo, hi) over `out`, which begins with element lo. */
SW_MUST_USE sw_status swi_view_lay(swi_view *view, uint64_t piece, uint64_t lo, uint64_t hi,
                                   void *out, sw_error *err);

#endif
