/* Moving a proven layout to its place: the transaction, the executor, the read-back. */
#ifndef SW_CONVERT_PUBLISH_H
#define SW_CONVERT_PUBLISH_H

#include "check/hash.h"
#include "framework.h"

typedef struct swi_publish_in {
    const sw_checkpoint *source;
    const swi_layout *layout;
    const char *dest;
    bool one_file;        /* the layout's only file is to be called `dest` */
    sw_open_options open; /* how the result is read back */
    bool by_pieces; /* who opens it may see tensors of other names or shapes than the layout's */
    const char *id; /* of the partial folder */
    bool once;      /* the same again may be of other data: it goes on from nothing, and leaves
                       nothing to go on from */
    swi_hash_in hashed; /* what a digest list says of itself */
    const sw_convert_options *options;
    sw_report *report;
} swi_publish_in;

/* Refuses what swi_publish would refuse before it writes, and writes nothing. */
SW_MUST_USE sw_status swi_publish_check(const swi_publish_in *in, sw_error *err);

/*
 * Refuses what swi_destination_check refuses, and a destination for which there is no space
 * (SW_ERR_IO, ENOSPC), before anything is written. Fills resumed_files, verified_tensors, tally,
 * digests_root.
 */
SW_MUST_USE sw_status swi_publish(const swi_publish_in *in, sw_convert_summary *sum, sw_error *err);

#endif
