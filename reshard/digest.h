/*
 * Content digests: one SHA-256 per logical tensor that no layout changes (specs/digest.md): a tree
 * over leaves of 1 MiB of the row-major, little-endian tensor; dtype and shape in the root.
 */
#ifndef SW_RESHARD_DIGEST_H
#define SW_RESHARD_DIGEST_H

#include "digest_tree.h"
#include "plan.h"

typedef struct swi_digest_in {
    const bool *want; /* by index; NULL: all tensors */
    sw_dtype as;      /* floating-point tensors are cast to it where that is possible; or NONE */
    /* Shown every leaf, from several threads at once and in no order; may be NULL. */
    void (*see)(void *ctx, const swi_digest_part *leaf);
    void *see_ctx;
    /*
     * By index: tensors that are damaged or cannot be read are marked here and passed over. NULL:
     * they are the error, of their own status and with their name.
     */
    bool *failed;
} swi_digest_in;

/*
 * Digests of the wanted tensors, in parallel over all their leaves in the order of files, one leaf
 * in memory per thread (besides 32 bytes for each leaf of the tensors that are under way). out[i]
 * by index; those not wanted or failed stay as they are. *tally (may be NULL) is added to.
 */
SW_MUST_USE sw_status swi_catalog_digests(const swi_source *source, const swi_digest_in *in,
                                          const sw_work_options *work, swi_digest *out,
                                          sw_tally *tally, sw_error *err);

/* The type that a tensor has after the cast of `as`. */
sw_dtype swi_digest_dtype(sw_dtype dtype, sw_dtype as);

#endif
