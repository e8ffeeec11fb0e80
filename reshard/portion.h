/*
 * A portion of the blobs of a catalog: those that one of several machines, or one of several
 * nights, has to read. Blobs that lie in the same record are one piece of work.
 */
#ifndef SW_RESHARD_PORTION_H
#define SW_RESHARD_PORTION_H

#include "model/catalog.h"

typedef struct swi_portion_in {
    const bool *wanted; /* by blob; NULL: all */
    /*
     * Of what is wanted, in the order of files and of places in them: part `part` (from 0) of
     * `parts` of as good as equal bytes. Every record is in exactly one of them, the same whenever
     * the catalog and `wanted` are. 0: all of it.
     */
    uint64_t part, parts;
} swi_portion_in;

typedef struct swi_portion swi_portion;

/* `in` may be NULL: all. The catalog must outlive it. Immutable; shared by threads. */
SW_MUST_USE sw_status swi_portion_make(const sw_catalog *catalog, const swi_portion_in *in,
                                       swi_portion **out, sw_error *err);
void swi_portion_free(swi_portion *portion);
/* The records in it, each by its first blob, in order. */
uint32_t swi_portion_count(const swi_portion *portion);
uint32_t swi_portion_at(const swi_portion *portion, uint32_t i);
/* That they have in their files. */
uint64_t swi_portion_bytes(const swi_portion *portion);

#define SWI_NOT_IN_PORTION UINT32_MAX
/*
 * Which record of the portion the blob is of; SWI_NOT_IN_PORTION: of none, or outside of its file,
 * which freezing has reported.
 */
uint32_t swi_portion_find(const swi_portion *portion, uint32_t blob);
/* Bytes of records inside this file of the catalog that are not in the portion. */
uint64_t swi_portion_left_out(const swi_portion *portion, uint32_t file);

#endif
