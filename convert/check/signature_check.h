/* Holding a checkpoint against a signature: the key and the signature first, then what it says. */
#ifndef SW_CONVERT_SIGNATURE_CHECK_H
#define SW_CONVERT_SIGNATURE_CHECK_H

#include "check/oms.h"
#include "check/statement.h"

typedef struct swi_signed {
    const char *path; /* of the signature; borrowed */
    sw_signature_format format;
    bool good; /* it is signed with the key, and what it says can be read: */
    swi_statement statement;
    swi_oms oms;
} swi_signed;

/*
 * Reads options->signature with options->key. What speaks against the signature itself is a finding
 * (then `good` is false), what keeps either file from being read is the error.
 */
SW_MUST_USE sw_status swi_signed_open(const sw_verify_options *options, sw_report *report,
                                      swi_signed *out, sw_signature_summary *summary,
                                      sw_error *err);
void swi_signed_close(swi_signed *s); /* ends with {0} */
/* An OMS bundle: the files at `path`. */
SW_MUST_USE sw_status swi_signed_check_files(const swi_signed *s, const char *path,
                                             const sw_verify_options *options, sw_report *report,
                                             sw_signature_summary *summary, sw_error *err);
/*
 * Shardwright's own. `proven`: every byte of the checkpoint's files was found to be as its manifest
 * says.
 */
SW_MUST_USE sw_status swi_signed_check_content(const swi_signed *s, const sw_checkpoint *checkpoint,
                                               bool proven, const sw_verify_options *options,
                                               sw_report *report, sw_signature_summary *summary,
                                               sw_error *err);

#endif
