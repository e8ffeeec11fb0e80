/*
 * A blob is a byte space that pieces lie in, addressed from 0 and dense: what the elements would be
 * if they were written out plainly. Where and how they really lie (a slice of a file, a stored zip
 * entry inside an item of a DCP file, behind a compression) is the business of its kind, which
 * resolves it on demand: opening a checkpoint must not open each of a million items.
 */
#ifndef SW_MODEL_BLOB_H
#define SW_MODEL_BLOB_H

#include "base/reader.h"
#include "base/report.h"

typedef struct swi_blob_ops swi_blob_ops;

/* The file of a blob that lies in none. */
#define SWI_NO_FILE UINT32_MAX
/* The most bytes of an encoded extent, stored and decoded: more is refused. */
#define SWI_ENCODED_MAX ((uint64_t)16 << 20)
/* The longest pattern of a constant blob. */
#define SWI_PATTERN_MAX 8U

typedef struct swi_blob {
    const swi_blob_ops *ops;
    uint32_t file;         /* index in its catalog; SWI_NO_FILE */
    uint32_t aux;          /* meaning is the kind's own */
    uint64_t offset_bytes; /* where its bytes begin in the file */
    uint64_t stored_bytes; /* how many bytes of the file are its own */
    uint64_t bytes;        /* dense bytes that it presents; UINT64_MAX until resolved (values) */
} swi_blob;

/* Where a resolved blob's elements lie. */
typedef struct swi_extent {
    uint32_t file;
    uint64_t offset_bytes; /* of the stored record in that file */
    uint64_t stored_bytes; /* of the stored record */
    bool has_crc;          /* crc32 covers the whole stored record */
    uint32_t crc32;
    bool swap; /* stored in the other byte order */
    /*
     * The record must be read whole: `decode` of its kind makes the dense bytes, and vouches for
     * them. Neither swapped nor strided, without a CRC, from its first byte on.
     */
    bool encoded;
    sw_dtype dtype; /* as recorded beside the bytes; SW_DTYPE_NONE: not recorded */
    /*
     * How the dense bytes lie in the record: dense from start_bytes on (axes unused), or strided:
     * dense row-major order over shape, element i at start_bytes + sum i[k] * stride_bytes[k].
     */
    bool strided;
    uint64_t start_bytes;
    /* Not stored at all: these bytes over and over (0: stored). */
    uint32_t pattern_bytes;
    uint8_t pattern[SWI_PATTERN_MAX];
    uint32_t axes;
    int64_t shape[SW_MAX_AXES];
    int64_t stride_bytes[SW_MAX_AXES];
} swi_extent;

/* What a check of a blob found and did; counts are added to. */
typedef struct swi_blob_check {
    uint64_t checked_bytes;   /* bytes whose CRC or digest was compared and right */
    uint64_t differing_bytes; /* whose CRC or digest is another */
    uint64_t unchecked_bytes; /* payload bytes that carry no CRC */
} swi_blob_check;

/* What the catalog says of a blob's elements, and its kind may hold against what is stored. */
typedef struct swi_blob_want {
    sw_dtype dtype; /* SW_DTYPE_NONE: any, or not a tensor's */
    bool has_shape;
    uint32_t axes; /* of the box that is all of the blob */
    int64_t shape[SW_MAX_AXES];
} swi_blob_want;

/* Identifies a blob in messages and findings: file path and tensor or value name, raw. */
typedef struct swi_blob_label {
    const char *file;
    const char *name;
    swi_blob_want want;
} swi_blob_label;

struct swi_blob_ops {
    const char *kind; /* "slice", "dcp-item" */
    /*
     * Finds where the bytes lie, checking what the blob says of itself (headers, sizes, dtype,
     * shape) against blob->bytes and `want`. Errors name the position in the file; the caller adds
     * file and tensor.
     */
    sw_status (*resolve)(const swi_blob *blob, const swi_reader *reader, const swi_blob_want *want,
                         swi_extent *out, sw_error *err);
    /*
     * Reads all of it once and compares every CRC or digest that it carries, reports each
     * difference (and each unsafe name in a pickle) as a finding, and adds to *tally. Fails only
     * when it could not work (I/O, memory). `buffer` is the caller's, for bulk reads.
     */
    sw_status (*check)(const swi_blob *blob, const swi_reader *reader, const swi_blob_label *label,
                       uint8_t *buffer, size_t buffer_bytes, sw_report *report,
                       swi_blob_check *tally, sw_error *err);
    /*
     * Makes the blob's dense bytes, blob->bytes of them, of its stored ones (of an encoded extent),
     * after a comparison with what vouches for these. Called from several threads at once. NULL for
     * kinds that have no encoded extents. Errors name no file, and offsets count from the first
     * stored byte; the caller adds file, tensor and place.
     */
    sw_status (*decode)(const swi_blob *blob, const uint8_t *stored, uint8_t *out, sw_error *err);
    /* What a kind of one checkpoint alone keeps beside its blobs; it outlives their catalogs. */
    const void *ctx;
    /* Reads a value (not a tensor). NULL for kinds that hold none. */
    sw_status (*load_value)(const swi_blob *blob, const swi_reader *reader, sw_value_graph **graph,
                            sw_value *root, sw_error *err);
};

/* The check of kinds of which nothing is stored that could be wrong. */
SW_MUST_USE sw_status swi_blob_check_nothing(const swi_blob *blob, const swi_reader *reader,
                                             const swi_blob_label *label, uint8_t *buffer,
                                             size_t buffer_bytes, sw_report *report,
                                             swi_blob_check *tally, sw_error *err);

/* A plain slice of a file: dense, no CRC. */
extern const swi_blob_ops swi_blob_slice;

/* A pattern of bytes over and over, in no file (CAT-16). Nothing is read for it. */
extern const swi_blob_ops swi_blob_constant;
/* `pattern` is of 1 to SWI_PATTERN_MAX bytes. */
swi_blob swi_blob_make_constant(const uint8_t *pattern, uint32_t pattern_bytes, uint64_t bytes);

#endif
