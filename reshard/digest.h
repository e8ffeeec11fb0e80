/*
 * Content digests: one SHA-256 per logical tensor that no layout changes (specs/digest.md): a tree
 * over leaves of 1 MiB of the row-major, little-endian tensor; dtype and shape in the root.
 */
#ifndef SW_RESHARD_DIGEST_H
#define SW_RESHARD_DIGEST_H

#include "codec/digest.h"
#include "plan.h"

#define SWI_DIGEST_LEAF_BYTES ((uint64_t)1 << 20)

/* The digest of one tensor, read in windows by several threads. `as`: cast first (SW_DTYPE_NONE: as
 * it is). Holes are SW_ERR_INCOMPLETE. */
SW_MUST_USE sw_status swi_tensor_digest(const swi_source *source, uint32_t tensor, sw_dtype as,
                                        const sw_work_options *work, swi_digest *out,
                                        sw_error *err);

/* All tensors with want[i] (NULL: all), in parallel over tensors and leaves; out[i] by index. */
SW_MUST_USE sw_status swi_catalog_digests(const swi_source *source, const bool *want, sw_dtype as,
                                          const sw_work_options *work, swi_digest *out,
                                          sw_tally *tally, sw_error *err);

/* Collects leaves of destination tensors while they pass through the executor (see execute.h). */
typedef struct swi_digest_sink swi_digest_sink;
SW_MUST_USE sw_status swi_digest_sink_make(const swi_layout *layout, swi_digest_sink **out,
                                           sw_error *err);
void swi_digest_sink_free(swi_digest_sink *sink);
/* After the run: the digest of destination tensor i; false when it did not pass whole. */
bool swi_digest_sink_get(const swi_digest_sink *sink, uint32_t tensor, swi_digest *out);

#endif
