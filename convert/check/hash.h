/* Hashing an open checkpoint, and holding it against a list. */
#ifndef SW_CONVERT_HASH_H
#define SW_CONVERT_HASH_H

#include "container/digest_list.h"
#include "framework.h"
#include "io/txn.h"

struct sw_digests {
    swi_digest_list list;
};

/* Which tensors are hashed and how: what a list says of itself. */
typedef struct swi_hash_in {
    bool weights;
    const char *section; /* where the weights lie in this checkpoint; NULL: found */
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

/* A list from its file. Errors begin with the path. `options` may be NULL. */
SW_MUST_USE sw_status swi_digests_read(const char *path, const sw_open_options *options,
                                       swi_digest_list *out, sw_error *err);
/*
 * A list on its way to the file `path`: SW_ERR_EXISTS when something is there, with `overwrite`
 * only when that is no list. Then the list is put and the transaction committed.
 */
SW_MUST_USE sw_status swi_digests_begin(const char *path, const char *id, bool overwrite,
                                        swi_txn **out, sw_error *err);
/* What begin would say, as far as it can be told without writing. */
SW_MUST_USE sw_status swi_digests_look(const char *path, const char *id, bool overwrite,
                                       sw_error *err);
SW_MUST_USE sw_status swi_digests_put(swi_txn *txn, const char *path, const swi_digest_list *list,
                                      sw_error *err);
/* What a conversion has written. */
typedef struct swi_written {
    const sw_checkpoint *source;
    const sw_checkpoint *result; /* what was written, opened */
    const swi_layout *layout;
    const swi_digest *digests; /* of the layout's tensors */
    swi_hash_in hashed;
    const sw_work_options *work;
} swi_written;
/*
 * DIG-15: a list of all tensors of the destination. What did not pass by itself has the digest of
 * its owner, or is hashed in the result.
 */
SW_MUST_USE sw_status swi_digests_of_written(const swi_written *written, swi_digest_list *out,
                                             sw_error *err);
/*
 * DIG-13: hashes as the list says (its weights are options->section here), and what differs from it
 * is a finding. Fills the summary's counts of listed and matched tensors.
 */
SW_MUST_USE sw_status swi_digests_check(const sw_checkpoint *checkpoint,
                                        const swi_digest_list *list,
                                        const sw_verify_options *options, sw_report *report,
                                        sw_verify_summary *summary, sw_error *err);

#endif
