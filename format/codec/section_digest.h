/* The digest of a section of a native checkpoint (NAT-4): over blocks of 1 MiB, so that threads can
 * share the work. */
#ifndef SW_CODEC_SECTION_DIGEST_H
#define SW_CODEC_SECTION_DIGEST_H

#include "codec/digest.h"

#define SWI_SECTION_BLOCK ((size_t)1 << 20)

/* By up to `threads` threads (0: by this one). */
SW_MUST_USE sw_status swi_section_digest(const void *data, size_t size, uint32_t threads,
                                         swi_digest *out, sw_error *err);

/* Exactly `size` bytes of the section from `offset` on; called by several threads at once. */
typedef sw_status (*swi_section_read)(const void *ctx, uint64_t offset, void *data, size_t size,
                                      sw_error *err);
/* The same while it is read into `data`: each block is hashed where it has just come in. */
SW_MUST_USE sw_status swi_section_load(swi_section_read read, const void *ctx, void *data,
                                       size_t size, uint32_t threads, swi_digest *out,
                                       sw_error *err);

#endif
