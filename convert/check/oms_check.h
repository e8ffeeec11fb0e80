/* A model's files and an OMS statement: making one, and holding the files against one. */
#ifndef SW_CONVERT_OMS_CHECK_H
#define SW_CONVERT_OMS_CHECK_H

#include "check/oms.h"
#include "shardwright_convert.h"

typedef struct swi_oms_in {
    const char *path;      /* the model: a folder, or a file */
    const char *signature; /* where its signature is or goes: not a part of it */
    const sw_limits *limits;
    const sw_work_options *work;
} swi_oms_in;

/*
 * The statement of all files. SW_ERR_UNSAFE: a link, a pipe or the like is in it (OMS-9);
 * SW_ERR_INCOMPLETE: it is empty. *bytes: that were hashed.
 */
SW_MUST_USE sw_status swi_oms_make(const swi_oms_in *in, swi_oms *out, uint64_t *bytes,
                                   sw_error *err);
/*
 * Every file that is not as the statement says, is missing, or is not in it, is a finding; what is
 * there and ignored is a note. Fills files, matched_files and bytes of the summary.
 */
SW_MUST_USE sw_status swi_oms_check(const swi_oms_in *in, const swi_oms *oms, sw_report *report,
                                    sw_signature_summary *summary, sw_error *err);

#endif
