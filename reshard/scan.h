/*
 * Reading every blob of a catalog once to compare all CRCs and digests that it carries: what verify
 * does by default. Parallel, in file order, bounded memory.
 */
#ifndef SW_RESHARD_SCAN_H
#define SW_RESHARD_SCAN_H

#include "plan.h"

/*
 * Every defect is a finding with file and tensor (or value) name. Blobs that lie outside their file
 * are skipped (freezing has reported them). Fails only when it could not work.
 */
SW_MUST_USE sw_status swi_scan(const swi_source *source, const sw_work_options *work,
                               sw_report *report, sw_tally *tally, sw_error *err);

#endif
