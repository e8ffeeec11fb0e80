/*
 * What Shardwright's own signature says (specs/signing.md, SIG-6 to SIG-9): digests of all tensors,
 * of the values beside them, and of a native checkpoint its root.
 */
#ifndef SW_CONVERT_STATEMENT_H
#define SW_CONVERT_STATEMENT_H

#include "container/digest_list.h"
#include "framework.h"

typedef struct swi_statement {
    swi_arena arena;
    const char *name; /* what was signed was called so: for people */
    swi_digest_list tensors;
    swi_digest values; /* SIG-8 */
    bool has_native;
    swi_digest native; /* root of its manifest */
} swi_statement;

void swi_statement_free(swi_statement *statement); /* ends with {0} */
/* Of this checkpoint, which people call `name`; all of its tensors are read. *tally (may be NULL)
 * is added to. */
SW_MUST_USE sw_status swi_statement_make(const sw_checkpoint *checkpoint, const char *name,
                                         const sw_work_options *work, sw_report *report,
                                         swi_statement *out, sw_tally *tally, sw_error *err);
/* Appends the payload. */
SW_MUST_USE sw_status swi_statement_write(const swi_statement *statement, swi_buf *out,
                                          sw_error *err);
/* SW_ERR_FORMAT; SW_ERR_UNSUPPORTED: of another version; SW_ERR_CORRUPT: a root that does not fit.
 */
SW_MUST_USE sw_status swi_statement_read(const void *data, size_t size, const sw_limits *limits,
                                         swi_statement *out, sw_error *err);

/* The digest of its values (SIG-8). */
SW_MUST_USE sw_status swi_statement_values(const sw_checkpoint *checkpoint, swi_digest *out,
                                           sw_error *err);
/* The root of its manifest; false: it is no native checkpoint. */
bool swi_statement_native(const sw_checkpoint *checkpoint, swi_digest *out);

#endif
