/*
 * What one run of verify is about: the tensors that were named, a part of the work, a level; and
 * the account of what was not checked (specs/cli.md).
 */
#ifndef SW_CONVERT_VERIFY_PORTION_H
#define SW_CONVERT_VERIFY_PORTION_H

#include "check/vouched.h"
#include "framework.h"
#include "scan.h"

typedef struct swi_verify_portion {
    const sw_checkpoint *checkpoint;
    const sw_verify_options *options;
    bool *chosen;          /* by tensor: it was named, or all are */
    bool *tensors;         /* by tensor: it is chosen, and this part compares it as a whole */
    swi_portion *blobs;    /* that are read and held against what they carry */
    bool reads;            /* the level is one that reads */
    bool rest;             /* what lies in no blob is this part's too */
    swi_blob_check *files; /* for the scan */
    bool *without;
    swi_vouched *vouched; /* what lies in no blob, and files of none */
} swi_verify_portion;

/*
 * SW_ERR_ARG: there is no such part. A pattern that meets no tensor is a warning "unmatched-glob".
 * The checkpoint and the options must outlive it. Free it in any case.
 */
SW_MUST_USE sw_status swi_verify_portion_make(const sw_checkpoint *checkpoint,
                                              const sw_verify_options *options, sw_report *report,
                                              swi_verify_portion *out, sw_error *err);
void swi_verify_portion_free(swi_verify_portion *portion);
/* After the work: fills the summary's account, and tells it by file. */
SW_MUST_USE sw_status swi_verify_account(swi_verify_portion *portion, sw_verify_summary *summary,
                                         sw_error *err);

#endif
