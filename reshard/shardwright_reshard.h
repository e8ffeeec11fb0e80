/*
 * Shardwright: geometry and movement. Public types of the reshard layer, which names no format and
 * no framework: everything is a catalog on both sides.
 */
#ifndef SHARDWRIGHT_RESHARD_H
#define SHARDWRIGHT_RESHARD_H

#include "shardwright_format.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sw_progress {
    uint64_t done_bytes;
    uint64_t total_bytes;
} sw_progress;

/* Called from one thread at a time, a few times a second. false: stop with SW_ERR_CANCELED. */
typedef bool (*sw_progress_fn)(void *ctx, const sw_progress *progress);

/* How to work. Zero in a field means its default. */
typedef struct sw_work_options {
    uint32_t threads;      /* default: the processors that this process may use, at most 16 */
    uint64_t memory_bytes; /* for buffers, all threads together; default 40 MiB */
    sw_progress_fn progress;
    void *progress_ctx;
} sw_work_options;

/* What was done. */
typedef struct sw_tally {
    uint64_t read_bytes;      /* tensor bytes read from the source */
    uint64_t written_bytes;   /* to the destination, headers included */
    uint64_t checked_bytes;   /* source bytes whose CRC or digest was compared and right */
    uint64_t unchecked_bytes; /* source bytes that carry none, or were read only in part */
    uint64_t cast_elements;   /* elements converted to another type */
    uint64_t cast_overflows;  /* finite values that became infinite */
    uint64_t cast_underflows; /* values that became zero and were not */
} sw_tally;

#ifdef __cplusplus
}
#endif

#endif
