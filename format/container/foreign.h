/*
 * Files that lie in a checkpoint's folder without being part of what is read (random states,
 * schedulers, training arguments): looked through for content that would run code when loaded by
 * Python, and for archives whose CRCs are wrong.
 */
#ifndef SW_CONTAINER_FOREIGN_H
#define SW_CONTAINER_FOREIGN_H

#include "io/store.h"
#include "model/blob.h"

/*
 * By content: torch archives and pickles are looked into, anything else is left alone. Unsafe
 * globals are findings "unsafe-pickle"; wrong CRCs "crc-mismatch"; what looks like one but cannot
 * be read is a warning "unreadable-file". Fails only when it could not work.
 */
SW_MUST_USE sw_status swi_foreign_check(const swi_store *store, const char *path,
                                        const sw_limits *limits, uint8_t *buffer,
                                        size_t buffer_bytes, sw_report *report,
                                        swi_blob_check *tally, sw_error *err);

#endif
