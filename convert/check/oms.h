/*
 * What an OpenSSF Model Signing (OMS) v1.0 bundle says: the files of a model and their digests, as
 * an in-toto statement (specs/signing.md, OMS-1 and on). Read strictly, in both spellings of
 * shards; written as `files`.
 */
#ifndef SW_CONVERT_OMS_H
#define SW_CONVERT_OMS_H

#include "base/arena.h"
#include "base/buf.h"
#include "codec/digest.h"

#define SWI_OMS_PAYLOAD_TYPE "application/vnd.in-toto+json"
/* The name of a model that is one file. */
#define SWI_OMS_SINGLE "."

/* A file, or a part of one. */
typedef struct swi_oms_resource {
    const char *name;    /* of the file, in the model */
    uint64_t begin, end; /* of a shard; 0, 0: all of the file */
    swi_digest digest;
} swi_oms_resource;

typedef struct swi_oms {
    swi_arena arena;     /* of names */
    const char *subject; /* what the model was called: for people */
    uint64_t shard_size; /* of the method `shards`; 0: `files` */
    const char **ignored;
    size_t ignored_count, ignored_capacity;
    swi_oms_resource *items; /* as listed */
    size_t count, capacity;
} swi_oms;

void swi_oms_free(swi_oms *oms); /* ends with {0} */
/* Copies; whole files only. */
SW_MUST_USE sw_status swi_oms_add(swi_oms *oms, const char *name, const swi_digest *digest,
                                  sw_error *err);
SW_MUST_USE sw_status swi_oms_add_ignored(swi_oms *oms, const char *path, sw_error *err);
/* Whether it is one of the ignored paths, or below one. */
bool swi_oms_ignores(const swi_oms *oms, const char *path);
/* SHA-256 over the digests as listed. */
SW_MUST_USE sw_status swi_oms_root(const swi_oms *oms, swi_digest *out, sw_error *err);

/* Appends the statement. */
SW_MUST_USE sw_status swi_oms_write(const swi_oms *oms, swi_buf *out, sw_error *err);
/*
 * SW_ERR_FORMAT, SW_ERR_UNSUPPORTED (another version, hash or method, by name), SW_ERR_UNSAFE (a
 * name that leaves the model, or all of it ignored), SW_ERR_CONFLICT (a name twice), SW_ERR_CORRUPT
 * (the root is not that of the resources), SW_ERR_INCOMPLETE (nothing is listed).
 */
SW_MUST_USE sw_status swi_oms_read(const void *data, size_t size, const sw_limits *limits,
                                   swi_oms *out, sw_error *err);

#endif
