/*
 * How much of each file of a checkpoint something vouches for: what verify has read and held
 * against a CRC or a digest, what it has read and nothing vouches for, and what it was told to
 * leave out. For one thread at a time.
 */
#ifndef SW_CONVERT_VOUCHED_H
#define SW_CONVERT_VOUCHED_H

#include "base/error.h"

/* Bytes of one file; what is in none of them nobody has looked at, and nothing vouches for. */
typedef struct swi_vouched_file {
    const char *path;   /* in the checkpoint's folder; borrowed */
    uint64_t bytes;     /* of the file; 0 until it is known */
    uint64_t checked;   /* held against a CRC or digest */
    uint64_t differing; /* held against one that is another: a finding tells of them */
    uint64_t without;   /* read, and nothing vouches for them */
    uint64_t left_out;
} swi_vouched_file;

typedef struct swi_vouched swi_vouched;

SW_MUST_USE sw_status swi_vouched_make(swi_vouched **out, sw_error *err);
void swi_vouched_free(swi_vouched *vouched);
/* Adds to the numbers of the file `add->path` (copied); the greater of its sizes counts. */
SW_MUST_USE sw_status swi_vouched_add(swi_vouched *vouched, const swi_vouched_file *add,
                                      sw_error *err);
size_t swi_vouched_count(const swi_vouched *vouched);
/* In the order of their first mention. */
void swi_vouched_at(const swi_vouched *vouched, size_t i, swi_vouched_file *out);

#endif
