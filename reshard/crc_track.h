/*
 * CRC-32 of records that pass in parts, in any order: neighbouring parts are combined as they come
 * and the result is compared when a record has passed whole. Bounded: what would take too much is
 * given up and listed, to be read once more.
 */
#ifndef SW_RESHARD_CRC_TRACK_H
#define SW_RESHARD_CRC_TRACK_H

#include "base/error.h"

typedef struct swi_crc_track swi_crc_track;

SW_MUST_USE sw_status swi_crc_track_make(uint32_t blob_count, swi_crc_track **out, sw_error *err);
void swi_crc_track_free(swi_crc_track *track);

typedef struct swi_crc_part {
    uint32_t blob;         /* whose record it is */
    uint32_t expected;     /* CRC of the whole record */
    uint64_t record_bytes; /* its size */
    uint64_t at, size;     /* the part */
    uint32_t crc;
} swi_crc_part;

typedef enum swi_crc_result {
    SWI_CRC_MORE = 0, /* not whole yet, or compared before, or given up */
    SWI_CRC_RIGHT,
    SWI_CRC_WRONG /* *found is the CRC that came out */
} swi_crc_result;

/* Thread-safe. RIGHT or WRONG comes once a blob. */
SW_MUST_USE sw_status swi_crc_track_add(swi_crc_track *track, const swi_crc_part *part,
                                        swi_crc_result *result, uint32_t *found, sw_error *err);
/* True for the first caller for this blob only, who then sees to it otherwise. */
bool swi_crc_track_claim(swi_crc_track *track, uint32_t blob);

/* When all is read: calls fn for each blob that passed only in part (partial true) or was given up.
 */
typedef sw_status (*swi_crc_left_fn)(void *ctx, uint32_t blob, bool partial, uint64_t seen_bytes,
                                     sw_error *err);
SW_MUST_USE sw_status swi_crc_track_left(const swi_crc_track *track, swi_crc_left_fn fn, void *ctx,
                                         sw_error *err);

#endif
