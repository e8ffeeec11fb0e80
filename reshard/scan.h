/*
 * Reading every blob of a catalog once to compare all CRCs and digests that it carries: what verify
 * does by default. Parallel, in file order, bounded memory.
 */
#ifndef SW_RESHARD_SCAN_H
#define SW_RESHARD_SCAN_H

#include "plan.h"
#include "portion.h"

typedef struct swi_scan_in {
    const sw_work_options *work;
    const swi_portion *portion; /* of the source's catalog: what is read; NULL: all */
    /* Filled for those who tell what was not checked; NULL: for nobody. */
    swi_blob_check *files; /* by file of the catalog: added to */
    bool *without;         /* by record of the portion: some of it carries no CRC and no digest */
} swi_scan_in;

/*
 * Every defect is a finding with file and tensor (or value) name. Blobs that lie outside their file
 * are skipped (freezing has reported them). Fails only when it could not work. `in` may be NULL.
 */
SW_MUST_USE sw_status swi_scan(const swi_source *source, const swi_scan_in *in, sw_report *report,
                               sw_tally *tally, sw_error *err);

#endif
