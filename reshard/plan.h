/*
 * The plan: destination ∩ source, as a walk over windows, never a list of all operations.
 *
 * A window is a flat interval of one destination tensor, at most window_bytes of source elements
 * (with their factors, if it is scaled) and usually no more than SWI_WINDOW_USUAL (larger ones keep
 * the reads of many column shards long); whole rows where a row fits. In it, each source piece is
 * cut to the interval: moves from a blob's dense byte space into the window (a dense row-major
 * buffer of the interval, source dtype), and each destination piece likewise: moves from the window
 * (destination dtype) to a blob. Row and column shards, joins and permutations all take this path.
 */
#ifndef SW_RESHARD_PLAN_H
#define SW_RESHARD_PLAN_H

#include "decoded.h"
#include "layout.h"
#include "shardwright_reshard.h"

/* Where bytes come from. */
typedef struct swi_source {
    const sw_catalog *catalog;
    const swi_reader *reader;
    /* Shared by all who read with it; NULL: each reader of encoded blobs makes its own. */
    swi_decoded *decoded;
} swi_source;

/* A box of elements between a blob and a window; strides in bytes, innermost axis last. */
typedef struct swi_move {
    uint32_t blob;
    uint64_t piece; /* of the tensor that is read or written */
    uint32_t axes;
    int64_t length[SW_MAX_AXES];
    int64_t blob_base, blob_stride[SW_MAX_AXES];
    int64_t window_base, window_stride[SW_MAX_AXES];
} swi_move;

typedef struct swi_window {
    uint32_t tensor; /* in the destination's catalog */
    uint64_t lo, hi; /* flat elements */
} swi_window;

#define SWI_WINDOW_USUAL ((uint64_t)2 << 20)
/* Reads and writes of column shards are kept at least so long where the budget allows. */
#define SWI_RUN_WANTED ((uint64_t)256 << 10)

typedef struct swi_plan swi_plan;

/*
 * `skip_file` (may be NULL) says which destination files are finished already: windows that only
 * serve those are left out. Fails when a source tensor has a defect, another shape, or a dtype that
 * cannot be cast (or scaled), naming it.
 */
typedef bool (*swi_skip_fn)(const void *ctx, uint32_t file);
SW_MUST_USE sw_status swi_plan_make(const sw_catalog *source, const swi_layout *layout,
                                    uint64_t window_bytes, swi_skip_fn skip_file,
                                    const void *skip_ctx, swi_plan **out, sw_error *err);
void swi_plan_free(swi_plan *plan);
/* Elements that will move, in source bytes. */
uint64_t swi_plan_bytes(const swi_plan *plan);
/* Memory of the plan itself. */
uint64_t swi_plan_memory(const swi_plan *plan);
/* Whether the destination file was finished already when the plan was made. */
bool swi_plan_skips(const swi_plan *plan, uint32_t file);
/* The windows in the order of the destination's files and offsets; false at the end. */
typedef struct swi_plan_cursor {
    uint32_t position; /* in the order of tensors; {0} to begin */
    uint64_t at;
} swi_plan_cursor;
bool swi_plan_next(const swi_plan *plan, swi_plan_cursor *cursor, swi_window *out);

/* The moves of one window, reused from window to window. */
typedef struct swi_moves {
    swi_move *items;
    size_t count, capacity;
    bool ordered; /* some bring the same elements: the later one is the last */
} swi_moves;
void swi_moves_free(swi_moves *moves);
/* Thread-safe on one plan. Moves are merged to the fewest axes. */
SW_MUST_USE sw_status swi_plan_reads(const swi_plan *plan, const swi_window *window,
                                     swi_moves *moves, sw_error *err);
SW_MUST_USE sw_status swi_plan_writes(const swi_plan *plan, const swi_window *window,
                                      swi_moves *moves, sw_error *err);
/* As the reads, of the factors of a scaled tensor (swi_layout_scale); none of any other. */
SW_MUST_USE sw_status swi_plan_scales(const swi_plan *plan, const swi_window *window,
                                      swi_moves *moves, sw_error *err);

/*
 * Proves the plan, streaming and sharing no code with it: the windows tile every destination
 * tensor; in each, the reads fill every element of the window exactly once from the place that the
 * source catalog gives for that very element, and so do the reads of its factors when it is scaled;
 * the writes put each where the destination's catalog says, in every copy. What only files that are
 * skipped take may be left out. SW_ERR_CONFLICT with tensor and element when not (a defect of this
 * program). Large plans are proven by work's threads, each taking some of the tensors.
 */
SW_MUST_USE sw_status swi_plan_check(const swi_plan *plan, const sw_catalog *source,
                                     const swi_layout *layout, const sw_work_options *work,
                                     sw_error *err);

/* The same for any source of windows and moves: what the check sees of a plan (and its tests). */
typedef struct swi_plan_view {
    const void *ctx;
    bool (*next)(const void *ctx, swi_plan_cursor *cursor, swi_window *out);
    sw_status (*reads)(const void *ctx, const swi_window *window, swi_moves *moves, sw_error *err);
    sw_status (*writes)(const void *ctx, const swi_window *window, swi_moves *moves, sw_error *err);
    bool (*skips)(const void *ctx, uint32_t file);
    /* May be NULL when the layout scales nothing. */
    sw_status (*scales)(const void *ctx, const swi_window *window, swi_moves *moves, sw_error *err);
} swi_plan_view;
SW_MUST_USE sw_status swi_plan_check_view(const swi_plan_view *view, const sw_catalog *source,
                                          const swi_layout *layout, const sw_work_options *work,
                                          sw_error *err);

#endif
