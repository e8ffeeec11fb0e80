/*
 * safetensors: 8 bytes of header length, a JSON header, tensor bytes. Clauses ST-n are those of
 * specs/safetensors.md.
 */
#ifndef SW_CONTAINER_SAFETENSORS_H
#define SW_CONTAINER_SAFETENSORS_H

#include "base/buf.h"
#include "base/reader.h"
#include "base/report.h"
#include "model/piece.h"

/* The longest header that the official library reads, and so the longest that we write. */
#define SWI_ST_HEADER_MAX ((uint64_t)100000000)

typedef struct swi_st swi_st;

typedef struct swi_st_tensor {
    const char *name; /* valid UTF-8, terminated; no NUL inside */
    size_t name_size;
    sw_dtype dtype;         /* SW_DTYPE_NONE: known to nobody here; dtype_name tells */
    const char *dtype_name; /* "BF16"; ignored by the writer */
    uint32_t axes;
    int64_t shape[SW_MAX_AXES]; /* F4 is halved: as sw_dtype counts */
    uint64_t offset_bytes;      /* in the file */
    uint64_t bytes;
} swi_st_tensor;

/*
 * Reads and proves the header of file `file` of `file_bytes` bytes: ranges contiguous from 0
 * without holes or overlaps, sizes exact, the end at the file's end. A cut file is SW_ERR_CORRUPT
 * with the declared end, the actual size, the bytes missing and the first tensor hit; a Git LFS
 * pointer (SW_ERR_INCOMPLETE), an HTML page, other containers and an empty file are told apart.
 * A header longer than limits.header_bytes is SW_ERR_LIMIT. Memory: what the tables need, and the
 * header's bytes while it is read. The caller adds the file's name to errors.
 */
SW_MUST_USE sw_status swi_st_open(const swi_reader *reader, uint32_t file, uint64_t file_bytes,
                                  swi_st **out, sw_error *err);
void swi_st_free(swi_st *st);
size_t swi_st_count(const swi_st *st);
void swi_st_at(const swi_st *st, size_t i, swi_st_tensor *out); /* by offset, then name */
/* The index for swi_st_at, or -1. */
int64_t swi_st_find(const swi_st *st, const char *name);
/* Where tensor data begin in the file; not a multiple of 8 in files of some writers. */
uint64_t swi_st_data_offset(const swi_st *st);
uint64_t swi_st_memory(const swi_st *st);
/* __metadata__: pairs of text, in order. */
size_t swi_st_meta_count(const swi_st *st);
bool swi_st_meta_at(const swi_st *st, size_t i, const char **key, const char **value);
/* NULL when absent. */
const char *swi_st_meta(const swi_st *st, const char *key);
/*
 * DCP_SHARDING_INFO of a shard that torch's HF storage wrote: the saved offsets of tensor i, one
 * per axis of it (in *axes). NULL: none recorded. Parsed and checked at open.
 */
const int64_t *swi_st_saved_offsets(const swi_st *st, size_t i, uint32_t *axes);

/* safetensors' name of a dtype, NULL when the format cannot hold it. */
const char *swi_st_dtype_name(sw_dtype dtype);
/* The order in which its writer sorts dtypes (larger alignments first): compare descending. */
int swi_st_dtype_rank(sw_dtype dtype);

/*
 * Appends the whole front of a file: length and header, padded with spaces so that data begin at a
 * multiple of 8. Tensors in the order of their bytes; offsets are made here, back to back, and
 * given back in offset_bytes (from the file's start). `metadata`: pairs key, value ... of count
 * 2 x pairs, written first when there are any. A dtype without a name in the format is
 * SW_ERR_UNSUPPORTED, a header over SWI_ST_HEADER_MAX SW_ERR_LIMIT: spread over more files.
 */
SW_MUST_USE sw_status swi_st_write_header(swi_buf *out, swi_st_tensor *tensors, size_t count,
                                          const char *const *metadata, size_t pairs, sw_error *err);

#endif
