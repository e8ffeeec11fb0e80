/* Adding findings. The list is public (sw_report). */
#ifndef SW_BASE_REPORT_H
#define SW_BASE_REPORT_H

#include "base/error.h"

/* What swi_report_add copies; NULL strings count as "". file and tensor are raw: escaped inside. */
typedef struct swi_finding_in {
    sw_severity severity;
    sw_status status;
    const char *code;
    const char *file;
    const char *tensor;
    bool has_offset;
    uint64_t offset_bytes;
} swi_finding_in;

/* Thread-safe. A NULL report drops the finding. Fails only with SW_ERR_NOMEM. */
SW_MUST_USE sw_status swi_report_add(sw_report *report, const swi_finding_in *in, sw_error *err,
                                     const char *fmt, ...) SW_PRINTF(4, 5);

/* An error turned into a finding of that code; message = cause's text. */
SW_MUST_USE sw_status swi_report_error(sw_report *report, const swi_finding_in *in,
                                       const sw_error *cause, sw_error *err);

/* The same of an error that says what is wrong with a file or checkpoint: its status gives severity
 * (a danger where it is UNSAFE, else a defect) and code ("corrupt", "untrusted" ...). */
SW_MUST_USE sw_status swi_report_defect(sw_report *report, const sw_error *cause, sw_error *err);
/* Whether an error is of that kind, rather than of this program's circumstances. */
bool swi_status_is_defect(sw_status status);

#endif
