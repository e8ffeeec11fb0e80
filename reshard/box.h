/*
 * A box of elements between two places: far (a file) and near (memory). Far bytes are read or
 * written in spans, each of which one call moves; the box says how a span's elements lie near.
 */
#ifndef SW_RESHARD_BOX_H
#define SW_RESHARD_BOX_H

#include <shardwright_format.h>

typedef struct swi_box {
    uint32_t axes;
    uint32_t element_bytes;
    int64_t far_base, near_base;
    int64_t length[SW_MAX_AXES];
    int64_t far_stride[SW_MAX_AXES];
    int64_t near_stride[SW_MAX_AXES];
} swi_box;

/*
 * The same elements with all far strides positive or zero, the largest first, and the fewest axes.
 */
void swi_box_normalise(swi_box *box);
/* Whether the innermost axis runs without gaps on both sides, or there is one element. */
bool swi_box_has_runs(const swi_box *box);
/* Bytes of the innermost run, far and near. */
uint64_t swi_box_run_bytes(const swi_box *box);

typedef struct swi_span {
    int64_t far;  /* first byte */
    size_t bytes; /* far bytes, gaps included */
    bool gapless; /* every one of them belongs to the box */
    swi_box part; /* far_base 0: its elements, counted from the span's first byte */
} swi_span;

typedef struct swi_spans {
    swi_box box;
    uint32_t split; /* axes from here on go whole into a span */
    int64_t chunk;  /* steps of axis split - 1 in one span; 1: just one */
    size_t max_bytes;
    int64_t index[SW_MAX_AXES];
    bool done;
} swi_spans;

/*
 * Walks a normalised box in spans of at most max_bytes (or one element). Gaps of up to gap_bytes
 * are taken in. With `runs` a span is never more than a part of the innermost axis.
 */
void swi_spans_begin(swi_spans *walk, const swi_box *box, size_t max_bytes, size_t gap_bytes,
                     bool runs);
bool swi_spans_next(swi_spans *walk, swi_span *out);

/* Moves the elements of a box whose near and far are both in memory. */
void swi_box_copy_near(const swi_box *box, uint8_t *near, const uint8_t *far);
void swi_box_copy_far(const swi_box *box, uint8_t *far, const uint8_t *near);

#endif
