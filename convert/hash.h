/* Hashing an open checkpoint, and holding it against a list. */
#ifndef SW_CONVERT_HASH_H
#define SW_CONVERT_HASH_H

#include "container/digest_list.h"
#include "framework.h"

struct sw_digests {
    swi_digest_list list;
};

/* Which tensors are hashed and how: what a list says of itself. */
typedef struct swi_hash_in {
    bool weights;
    const char *const *only;
    sw_dtype as;
} swi_hash_in;

/*
 * The names and digests of the chosen tensors. Damaged ones are the error, or with `damaged` (not
 * NULL) go there, without a digest, where the choice itself does not need them.
 */
SW_MUST_USE sw_status swi_hash(const sw_checkpoint *checkpoint, const swi_hash_in *in,
                               const sw_work_options *work, sw_report *report, swi_digest_list *out,
                               swi_digest_list *damaged, sw_tally *tally, sw_error *err);

/* A list from its file. Errors begin with the path. */
SW_MUST_USE sw_status swi_digests_read(const char *path, const sw_open_options *options,
                                       swi_digest_list *out, sw_error *err);
/*
 * DIG-13: hashes as the list says, and what differs from it is a finding. Fills the summary's
 * counts of listed and matched tensors.
 */
SW_MUST_USE sw_status swi_digests_check(const sw_checkpoint *checkpoint,
                                        const swi_digest_list *list, const sw_work_options *work,
                                        sw_report *report, sw_verify_summary *summary,
                                        sw_error *err);

#endif
