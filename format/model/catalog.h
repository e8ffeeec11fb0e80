/*
 * The catalog: built by a reader or a target layout, then frozen. Freezing proves what can be
 * proven without reading tensor bytes and lists what is wrong as findings; a tensor with a defect
 * is kept and marked, so that verify can list everything and convert can refuse it.
 *
 * Memory: at most 160 bytes per piece and tensor, plus names.
 */
#ifndef SW_MODEL_CATALOG_H
#define SW_MODEL_CATALOG_H

#include "base/names.h"
#include "model/blob.h"
#include "model/piece.h"

typedef struct swi_builder swi_builder;

SW_MUST_USE sw_status swi_builder_make(const sw_limits *limits, swi_builder **out, sw_error *err);
void swi_builder_free(swi_builder *builder);
/*
 * A builder with the files, blobs and values of `from`, each under its old id, and no tensors:
 * pieces of `from` can be put into tensors of a new catalog, which the same reader reads.
 */
SW_MUST_USE sw_status swi_builder_from(const sw_catalog *from, const sw_limits *limits,
                                       swi_builder **out, sw_error *err);

/*
 * A builder with the files of `from`, each under its old id, and nothing else: for a catalog of few
 * of its pieces. swi_builder_take adds the blob behind a piece of it, as that catalog wants it;
 * such a builder has no other blobs.
 */
SW_MUST_USE sw_status swi_builder_over(const sw_catalog *from, const sw_limits *limits,
                                       swi_builder **out, sw_error *err);
SW_MUST_USE sw_status swi_builder_take(swi_builder *builder, const sw_catalog *from,
                                       uint32_t tensor, uint64_t piece, uint32_t *id,
                                       sw_error *err);

/* How many threads large catalogs are filled and frozen by; 1 unless it is said. */
void swi_builder_threads(swi_builder *builder, uint32_t threads);

/* How the parts of one checkpoint become one catalog. */
typedef struct swi_append {
    const char *folder; /* where its files lie, "part"; "": not in one of their own */
    const char *prefix; /* before names of its tensors and values, "part."; "": none */
    bool has_role;      /* its tensors are of this role, whatever their own is */
    sw_role role;
} swi_append;
/*
 * All of another catalog behind what is there, in the same order: files, blobs, tensors with
 * defects, replicas and aliases, values. SW_ERR_CONFLICT: a name that is there already, a file of
 * another size. What was put in when it fails stays in.
 */
SW_MUST_USE sw_status swi_builder_append(swi_builder *builder, const sw_catalog *from,
                                         const swi_append *how, uint32_t *first_tensor,
                                         sw_error *err);

/*
 * The same path twice gives the same id; SW_ERR_CONFLICT when the size differs. UINT64_MAX: the
 * size is not known and blobs are not held against it.
 */
SW_MUST_USE sw_status swi_builder_file(swi_builder *builder, const char *path, uint64_t bytes,
                                       uint32_t *id, sw_error *err);
SW_MUST_USE sw_status swi_builder_blob(swi_builder *builder, const swi_blob *blob, uint32_t *id,
                                       sw_error *err);
/*
 * A blob of no file that presents `bytes` bytes: the pattern of 1 to 8 bytes over and over. Pieces
 * of it may have strides of zero. CAT-16.
 */
SW_MUST_USE sw_status swi_builder_constant(swi_builder *builder, const void *pattern,
                                           uint32_t pattern_bytes, uint64_t bytes, uint32_t *id,
                                           sw_error *err);

typedef struct swi_tensor_in {
    const char *name;
    size_t name_size;
    sw_dtype dtype;
    uint32_t axes;
    const int64_t *shape;
    sw_role role;
} swi_tensor_in;
/* SW_ERR_CONFLICT for a name that is there already, SW_ERR_FORMAT for one that is not UTF-8. */
SW_MUST_USE sw_status swi_builder_tensor(swi_builder *builder, const swi_tensor_in *in,
                                         uint32_t *id, sw_error *err);
/* Whether tensor `id` was added with this dtype and shape. */
bool swi_builder_same(const swi_builder *builder, uint32_t id, sw_dtype dtype, uint32_t axes,
                      const int64_t *shape);
/* Pieces may come in any order of tensors. Empty ones are dropped. */
SW_MUST_USE sw_status swi_builder_piece(swi_builder *builder, uint32_t tensor,
                                        const swi_piece *piece, sw_error *err);
/* Overlapping pieces of this tensor are copies of the same elements, not a conflict. */
void swi_builder_allow_replicas(swi_builder *builder, uint32_t tensor);
/* `alias` is another name of `owner`'s storage: it needs no pieces of its own, and shows those of
 * its owner unless it has some. */
void swi_builder_alias(swi_builder *builder, uint32_t alias, uint32_t owner);
/* Marks a tensor as damaged: see swi_tensor_defect. The first mark stays. */
void swi_builder_mark(swi_builder *builder, uint32_t tensor, sw_status defect);

/* ---- many at once, by the threads of the builder */

/* Tensors as columns: numbers are little-endian, columns need no alignment. */
typedef struct swi_tensor_columns {
    swi_name_list names;      /* UTF-8 without 0, ascending: the caller knows that they are */
    const uint8_t *dtype;     /* a byte each: sw_dtype */
    const uint8_t *role;      /* a byte each: sw_role */
    const uint8_t *shape_end; /* 32 bits each: where its shape ends in `shapes`, the next begins */
    const uint8_t *shapes;    /* 64 bits each, slowest axis first */
    uint32_t shape_numbers;
} swi_tensor_columns;
/*
 * The same as swi_builder_tensor for each in order, into a builder that has no tensors yet: ids
 * from 0 on. Names stay where they are: they must outlive the catalog. After a failure the builder
 * is only to be freed.
 */
SW_MUST_USE sw_status swi_builder_tensors(swi_builder *builder, const swi_tensor_columns *columns,
                                          sw_error *err);

typedef struct swi_piece_sink swi_piece_sink;
typedef struct swi_piece_list {
    uint64_t count;
    const swi_blob_ops *ops; /* of all blobs */
    /*
     * Puts pieces [from, to), each with its blob, in order into the sink. Called by several threads
     * at once, each with a range and a sink of its own.
     */
    sw_status (*put)(const void *ctx, uint64_t from, uint64_t to, swi_piece_sink *sink,
                     sw_error *err);
    const void *ctx;
} swi_piece_list;
/*
 * Blobs with one piece each, the same as swi_builder_blob and swi_builder_piece for each in order,
 * into a builder that has neither yet. Of several errors the first piece's is returned; after a
 * failure the builder is only to be freed. SW_ERR_ARG: a piece without elements, another number of
 * pieces than was said.
 */
SW_MUST_USE sw_status swi_builder_pieces(swi_builder *builder, const swi_piece_list *list,
                                         sw_error *err);
/* The blob in piece->blob does not count. */
SW_MUST_USE sw_status swi_sink_piece(swi_piece_sink *sink, uint32_t tensor, const swi_piece *piece,
                                     const swi_blob *blob, sw_error *err);
/* The piece that is all of the tensor, dense from the blob's first byte on: the same, sooner. */
SW_MUST_USE sw_status swi_sink_whole(swi_piece_sink *sink, uint32_t tensor, const swi_blob *blob,
                                     sw_error *err);

/* ---- values and the end */

typedef struct swi_value_in {
    const char *name;
    size_t name_size;
    int64_t rank;  /* -1: global */
    uint32_t blob; /* read from there on demand */
} swi_value_in;
SW_MUST_USE sw_status swi_builder_value(swi_builder *builder, const swi_value_in *in,
                                        sw_error *err);

/*
 * Ends the builder in any case. Findings (specs/catalog.md), each with the tensor's name: "outside"
 * (CORRUPT: pieces outside their tensor or blob, which are taken out), "overlap" (CONFLICT), "hole"
 * (INCOMPLETE, with the first missing element), "unproven" (LIMIT: too irregular to prove), "alias"
 * (CONFLICT), and "short-file" (CORRUPT: blobs outside their file, once a file). `report` may be
 * NULL.
 */
SW_MUST_USE sw_status swi_builder_freeze(swi_builder *builder, sw_report *report, sw_catalog **out,
                                         sw_error *err);

uint32_t swi_catalog_blob_count(const sw_catalog *catalog);
void swi_catalog_blob(const sw_catalog *catalog, uint32_t id, swi_blob *out);
/* "" and UINT64_MAX for SWI_NO_FILE. */
const char *swi_catalog_path(const sw_catalog *catalog, uint32_t file);
uint64_t swi_catalog_file_bytes(const sw_catalog *catalog, uint32_t file);
/* How many axes it has: sooner than all of sw_catalog_tensor, for a look at a million. */
uint32_t swi_tensor_axes(const sw_catalog *catalog, uint32_t tensor);
/* SW_OK, or the class of the first defect found in this tensor. */
sw_status swi_tensor_defect(const sw_catalog *catalog, uint32_t tensor);
/* The same as a failure that names the tensor. */
SW_MUST_USE sw_status swi_tensor_refuse(const sw_catalog *catalog, uint32_t tensor, sw_error *err);
/* Piece i of the tensor, 0 .. piece_count-1, ascending by first flat index. */
void swi_tensor_piece(const sw_catalog *catalog, uint32_t tensor, uint64_t i, swi_piece *out);
/*
 * What that piece says of its blob's elements; its shape only when it is all of the blob. In a
 * catalog made from another, the shape is what the other one said of the blob.
 */
void swi_piece_want(const sw_catalog *catalog, uint32_t tensor, uint64_t i, swi_blob_want *out);
bool swi_tensor_has_replicas(const sw_catalog *catalog, uint32_t tensor);
/* The blob of value i. */
uint32_t swi_value_blob(const sw_catalog *catalog, size_t i);

/* As a path_of function for io/filecache. */
const char *swi_catalog_path_of(const void *catalog, uint32_t file);

#endif
