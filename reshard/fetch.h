/* Reading moves: bytes of source blobs into a window. Shared by execute, load and compare. */
#ifndef SW_RESHARD_FETCH_H
#define SW_RESHARD_FETCH_H

#include "crc_track.h"
#include "extents.h"
#include "plan.h"

/* What one thread reads with. */
typedef struct swi_fetch {
    const swi_source *source; /* with `decoded` when some of its blobs are encoded */
    swi_extents *extents;
    swi_crc_track *track; /* NULL: CRCs are left alone */
    bool only_passing;    /* nothing is read for a CRC alone: what does not pass is unchecked */
    sw_report *report;    /* for CRCs that differ; may be NULL */
    uint8_t *bounce;      /* this thread's own */
    size_t bounce_bytes;  /* at least SWI_BOUNCE_MIN, and the largest encoded record */
    sw_tally *tally;      /* added to */
} swi_fetch;

#define SWI_BOUNCE_MIN ((size_t)16 << 10)

/*
 * Makes the moves, and leaves them in any state. Those of chunks that another thread is decoding
 * come last. `tensor` is the source's, for its type and for messages. Errors name file and tensor;
 * a CRC that differs or a record that cannot be decoded is also a finding.
 */
SW_MUST_USE sw_status swi_fetch_moves(swi_fetch *fetch, uint32_t tensor, swi_moves *moves,
                                      uint8_t *window, sw_error *err);
/*
 * Reads a blob once more, as a whole, to compare what it carries (see swi_blob_ops.check). A
 * difference is SW_ERR_CORRUPT besides the finding.
 */
SW_MUST_USE sw_status swi_fetch_check(swi_fetch *fetch, uint32_t blob_id,
                                      const swi_blob_label *label, sw_error *err);

#endif
