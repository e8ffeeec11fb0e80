/*
 * The pickle machine: protocols 0 to 5, interpreted, never executed. Nothing is imported and
 * nothing is called: REDUCE, NEWOBJ, BUILD and their kin make OBJECT nodes that say what would have
 * been done. Clauses PKL-n are those of specs/pickle.md.
 *
 * Bounded: no recursion, counts checked against the bytes left, nodes against sw_limits.nodes,
 * depth does not matter (nodes are flat).
 */
#ifndef SW_CODEC_PICKLE_H
#define SW_CODEC_PICKLE_H

#include "base/buf.h"
#include "base/feed.h"
#include "base/report.h"
#include "model/value.h"

/*
 * A constructor hook folds objects of one class as they appear, so that a million of them never
 * become graph nodes. `module` may be NULL for any.
 */
typedef struct swi_pickle_hook {
    const char *module; /* exact */
    const char *name;
    /*
     * The object is made (REDUCE, NEWOBJ) with these arguments (a TUPLE). Sets *out (often a
     * RECORD: then the tuple, and a lone tuple in it, are dropped afterwards as below; the hook
     * drops nothing itself). NULL: an ordinary OBJECT.
     */
    sw_status (*make)(void *ctx, sw_value_graph *g, sw_value args, sw_value *out, sw_error *err);
    /*
     * The object that `make` gave is BUILT with this state; sets *out, which replaces it in the
     * stack and in the memo. When *out is a RECORD, the object and a state dict that the pickle
     * made for it are dropped afterwards: a later reference to them is refused as SW_ERR_FORMAT.
     */
    sw_status (*build)(void *ctx, sw_value_graph *g, sw_value object, sw_value state, sw_value *out,
                       sw_error *err);
    /*
     * The same for a state dict that was never made, because the pickle fills it and uses it at
     * once: its items (key, value, key ...; a later one of equal keys counts). May be NULL.
     */
    sw_status (*build_items)(void *ctx, sw_value_graph *g, sw_value object, const sw_value *items,
                             size_t pairs, sw_value *out, sw_error *err);
} swi_pickle_hook;

typedef struct swi_pickle_options {
    const swi_pickle_hook *hooks; /* may be NULL */
    size_t hook_count;
    void *hook_ctx;
    /*
     * A persistent id was met; sets *out (with swi_graph_persistent, or a RECORD). NULL: a
     * PERSISTENT node. Called with hook_ctx.
     */
    sw_status (*persistent)(void *ctx, sw_value_graph *g, sw_value id, sw_value *out,
                            sw_error *err);
    uint64_t base_offset_bytes; /* added to positions in errors and findings */
    bool protocol0_persid;      /* take PERSID (text ids) too */
} swi_pickle_options;

/* A global that would run or reach something dangerous if the pickle were loaded by Python. */
#define SWI_PICKLE_UNSAFE_MAX 8
typedef struct swi_pickle_unsafe {
    uint64_t total;  /* dangerous globals met */
    uint32_t listed; /* the first ones, in order */
    struct {
        char name[128]; /* "os.system", escaped */
        uint64_t offset_bytes;
    } at[SWI_PICKLE_UNSAFE_MAX];
} swi_pickle_unsafe;

/*
 * Runs the machine on the next pickle of the cursor up to its STOP and leaves the cursor behind it;
 * *root is the object. Dangerous globals do not fail the parse: they are listed in *unsafe (may be
 * NULL: then SW_ERR_UNSAFE at the first).
 */
SW_MUST_USE sw_status swi_pickle_read(swi_cursor *cursor, const swi_pickle_options *options,
                                      sw_value_graph *graph, sw_value *root,
                                      swi_pickle_unsafe *unsafe, sw_error *err);

/* The same from a feed, which is left behind the STOP. */
SW_MUST_USE sw_status swi_pickle_read_feed(swi_feed *feed, const swi_pickle_options *options,
                                           sw_value_graph *graph, sw_value *root,
                                           swi_pickle_unsafe *unsafe, sw_error *err);

/* Whether loading this global by name would be dangerous (os.system, builtins.eval ...). */
bool swi_pickle_global_unsafe(const char *module, const char *name);
/* Each dangerous global as a finding of severity SW_DANGER, code "unsafe-pickle". */
SW_MUST_USE sw_status swi_pickle_report(const swi_pickle_unsafe *unsafe, const char *file,
                                        const char *name, sw_report *report, sw_error *err);

/*
 * Writing: an emitter of single opcodes for protocols 2 and 4, so that a writer's code reads like
 * the object it writes. Unmemoised except where asked.
 */
typedef struct swi_pickle_writer {
    swi_buf *out;
    int protocol; /* 2 or 4 */
    uint32_t memo_count;
} swi_pickle_writer;

SW_MUST_USE sw_status swi_pickle_begin(swi_pickle_writer *w, swi_buf *out, int protocol,
                                       sw_error *err);
/* A bare opcode: '(' MARK, 't' TUPLE, 'u' SETITEMS, 'R' REDUCE, 'b' BUILD, '.' STOP ... */
SW_MUST_USE sw_status swi_pickle_op(swi_pickle_writer *w, char opcode, sw_error *err);
SW_MUST_USE sw_status swi_pickle_int(swi_pickle_writer *w, int64_t v, sw_error *err);
SW_MUST_USE sw_status swi_pickle_float(swi_pickle_writer *w, double v, sw_error *err);
SW_MUST_USE sw_status swi_pickle_str(swi_pickle_writer *w, const void *text, size_t size,
                                     sw_error *err);
SW_MUST_USE sw_status swi_pickle_global(swi_pickle_writer *w, const char *module, const char *name,
                                        sw_error *err);
/* Puts the top of the stack in the memo; its index in *memo; and gets it back. */
SW_MUST_USE sw_status swi_pickle_put(swi_pickle_writer *w, uint32_t *memo, sw_error *err);
SW_MUST_USE sw_status swi_pickle_get(swi_pickle_writer *w, uint32_t memo, sw_error *err);

/*
 * What only the caller knows how to write: called for each TENSOR, PERSISTENT and RECORD met;
 * leaves one value on the pickle's stack. It is memoised: each node is asked for once.
 */
typedef sw_status (*swi_pickle_leaf_fn)(void *ctx, swi_pickle_writer *w,
                                        const sw_value_graph *graph, sw_value v, sw_error *err);
/*
 * Writes the value and leaves it on the pickle's stack (the caller writes STOP), so that reading it
 * gives the same graph: what is shared is shared, cycles are cycles. The same value gives the same
 * bytes. `leaf` NULL: such nodes are SW_ERR_UNSUPPORTED, as is what protocol 2 has no form for.
 * Under protocol 2 torch.load(weights_only=True) takes what ordinary state dicts hold.
 */
SW_MUST_USE sw_status swi_pickle_emit(swi_pickle_writer *w, const sw_value_graph *graph, sw_value v,
                                      swi_pickle_leaf_fn leaf, void *ctx, sw_error *err);

#endif
