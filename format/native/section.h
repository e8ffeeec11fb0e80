/* Reading what a digest vouches for as a section (NAT-4): parts of files, and whole ones. */
#ifndef SW_NATIVE_SECTION_H
#define SW_NATIVE_SECTION_H

#include "codec/section_digest.h"
#include "io/store.h"
#include "native/manifest.h"

typedef struct swi_native_section {
    const char *what; /* "its index": for messages */
    uint64_t at, bytes;
    swi_digest digest;
} swi_native_section;

/*
 * Reads it, by up to `threads` threads, and compares its digest: SW_ERR_CORRUPT at its beginning.
 * SW_ERR_LIMIT: larger than limits->metadata_bytes. *out: free() it; NULL for one of no bytes.
 */
SW_MUST_USE sw_status swi_native_section_read(const swi_file *file,
                                              const swi_native_section *section,
                                              const sw_limits *limits, uint32_t threads,
                                              uint8_t **out, sw_error *err);

/*
 * All of a file that the manifest names, as one section: the table, the state, an asset.
 * SW_ERR_CORRUPT: of another size, too. SW_ERR_NOTFOUND. Errors begin with its name.
 */
SW_MUST_USE sw_status swi_native_file_read(const swi_store *store, const swi_native_file *file,
                                           const sw_limits *limits, uint32_t threads, uint8_t **out,
                                           sw_error *err);

/* SW_ERR_CORRUPT: "WHAT has digest ..., expected ...". */
sw_status swi_native_digest_differs(const char *clause, uint64_t at, const char *what,
                                    const swi_digest *found, const swi_digest *expected,
                                    sw_error *err);

#endif
