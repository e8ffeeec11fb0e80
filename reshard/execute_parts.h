/* What the files of the executor share. */
#ifndef SW_RESHARD_EXECUTE_PARTS_H
#define SW_RESHARD_EXECUTE_PARTS_H

#include "digest_tree.h"
#include "execute.h"
#include "fetch.h"
#include "outputs.h"

/* So many windows or literals go into one unit, and so many slices into one write. */
#define SWI_UNIT_MAX 256U

/* How the budget is split for one thread. */
typedef struct swi_budget {
    uint32_t threads;
    size_t window_bytes;  /* source elements of a window, and their factors */
    size_t out_bytes;     /* room for what is made of them; 0: all is written as it is read */
    size_t bounce_bytes;  /* at least the largest encoded record */
    uint32_t chunk_slots; /* for all threads, of the largest chunk that is encoded; or 0 */
    uint64_t chunk_bytes;
    uint64_t ahead_bytes; /* of packed files: how far ahead of what has its place (pack.h) */
} swi_budget;

swi_budget swi_execute_budget(const sw_work_options *work, const sw_catalog *source,
                              const swi_layout *layout);

/* swi_execute with the budget split by the caller, who knows what is enough (tests). */
typedef struct swi_execute_in {
    const swi_source *source;
    const swi_layout *layout;
    const swi_sink *sink;
    const sw_work_options *work;
    swi_budget budget;
} swi_execute_in;
SW_MUST_USE sw_status swi_execute_job(const swi_execute_in *in, sw_report *report, sw_tally *tally,
                                      sw_error *err);

/* What is the same for all threads. */
typedef struct swi_run {
    const swi_source *source;
    const swi_layout *layout;
    const sw_catalog *target;
    const swi_plan *plan;
    swi_outputs *outputs;
    swi_digest_tree *digests; /* NULL: none are wanted */
    swi_budget budget;
    /* The walk, under the pool's lock: */
    swi_plan_cursor cursor;
    swi_window pending;
    bool has_pending;
    bool at_end; /* no more windows */
    uint32_t literal_file;
    size_t literal_next;
} swi_run;

/* Windows whose elements follow one another in the buffers, or literals of one file. */
typedef struct swi_unit {
    bool literals;
    uint32_t file;
    size_t first_literal;
    uint32_t count; /* literals: may be 0, the file is opened */
    swi_window windows[SWI_UNIT_MAX];
} swi_unit;

typedef struct swi_slot { /* a slice and where it goes */
    uint32_t file;
    uint64_t offset;
} swi_slot;

typedef struct swi_worker {
    swi_run *run;
    uint8_t *memory; /* one block: in, out, bounce */
    uint8_t *in, *out, *bounce;
    swi_fetch fetch;
    swi_moves moves;
    swi_unit unit;
    swi_slice slices[SWI_UNIT_MAX];
    swi_slot slots[SWI_UNIT_MAX];
    size_t slice_count;
    sw_tally tally;
} swi_worker;

/* The next unit of the walk: small neighbours share one. False at the end. */
bool swi_unit_take(swi_run *run, swi_unit *out);
SW_MUST_USE sw_status swi_unit_do(swi_worker *worker, sw_error *err);

#endif
