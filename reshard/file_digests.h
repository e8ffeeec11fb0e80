/* SHA-256 of whole files, or of parts of files, by many threads. */
#ifndef SW_RESHARD_FILE_DIGESTS_H
#define SW_RESHARD_FILE_DIGESTS_H

#include "codec/digest.h"
#include "io/store.h"
#include "shardwright_reshard.h"

typedef struct swi_file_part {
    const char *path; /* in the store; borrowed */
    uint64_t begin, end;
    uint64_t
        file_bytes; /* the file's size; when it is another one it has changed: SW_ERR_CORRUPT */
} swi_file_part;

/* digests[i] of parts[i]; each is read once, in order. *read_bytes is added to. */
SW_MUST_USE sw_status swi_file_digests(const swi_store *store, const swi_file_part *parts,
                                       size_t count, const sw_work_options *work,
                                       swi_digest *digests, uint64_t *read_bytes, sw_error *err);

#endif
