/*
 * A torch.save archive (zip form) in a part of a file: a pickled object whose tensors are views of
 * storages, each a stored record. Strides, storage offsets, shared storages and byte order are
 * kept. Clauses TF-n are those of specs/torch_zip.md.
 */
#ifndef SW_CONTAINER_TORCH_FILE_H
#define SW_CONTAINER_TORCH_FILE_H

#include "codec/pickle.h"
#include "model/blob.h"

typedef struct swi_torch_file swi_torch_file;

typedef struct swi_torch_storage {
    char key[24];   /* data/KEY */
    sw_dtype dtype; /* of the storage class; SW_U8 for untyped ones */
    bool untyped;
    uint32_t element_bytes; /* of the storage class, whatever its dtype */
    uint64_t bytes;         /* as the pickle says; the record holds exactly that */
    uint64_t offset_bytes;  /* of the record's payload in the file */
    bool has_crc;
    uint32_t crc32;
} swi_torch_storage;

typedef struct swi_torch_tensor {
    uint32_t storage; /* index */
    sw_dtype dtype;
    uint32_t axes;
    int64_t shape[SW_MAX_AXES];
    int64_t stride_elements[SW_MAX_AXES];
    uint64_t start_elements; /* storage offset */
    uint64_t elements;
    bool requires_grad;
    bool dense; /* row-major without gaps */
} swi_torch_tensor;

/*
 * Parses the archive: directory, byteorder, data.pkl (its CRC compared), storages resolved.
 * Dangerous globals do not fail it: see swi_torch_unsafe. Deflated records: SW_ERR_UNSUPPORTED.
 * TorchScript (constants.pkl): SW_ERR_UNSUPPORTED by name.
 */
SW_MUST_USE sw_status swi_torch_open(const swi_reader *reader, uint32_t file, uint64_t offset,
                                     uint64_t bytes, swi_torch_file **out, sw_error *err);
/*
 * The same for a whole file, which may also have the form before 1.6 (container/torch_legacy.h).
 * Dangerous names that were met are given in *keep (may be NULL) even when it fails.
 */
SW_MUST_USE sw_status swi_torch_open_file(const swi_reader *reader, uint32_t file, uint64_t bytes,
                                          swi_pickle_unsafe *keep, swi_torch_file **out,
                                          sw_error *err);
/* What a file's first bytes (SWI_TORCH_HEAD are enough) look like. */
#define SWI_TORCH_HEAD 512
typedef enum swi_torch_form {
    SWI_TORCH_NONE = 0,
    SWI_TORCH_ZIP, /* a zip archive whose records lie in a folder */
    SWI_TORCH_LEGACY,
    SWI_TORCH_TAR /* of torch before 0.2; not read */
} swi_torch_form;
swi_torch_form swi_torch_looks(const uint8_t *head, size_t size);
/* Whether data.pkl has a CRC-32. */
bool swi_torch_has_crc(const swi_torch_file *tf);
bool swi_torch_is_legacy(const swi_torch_file *tf);
/* Legacy: the position behind the last storage, where the file must end. */
uint64_t swi_torch_end_bytes(const swi_torch_file *tf);
void swi_torch_free(swi_torch_file *tf);
const sw_value_graph *swi_torch_graph(const swi_torch_file *tf);
/* Gives the graph away (then swi_torch_graph is NULL). */
sw_value_graph *swi_torch_take_graph(swi_torch_file *tf);
sw_value swi_torch_root(const swi_torch_file *tf);
/* What torch called the archive, with a '/' behind it: the name of the file that it saved, without
 * its suffix, or "archive/". NULL: a file of another form. */
const char *swi_torch_saved_as(const swi_torch_file *tf);
const swi_pickle_unsafe *swi_torch_unsafe(const swi_torch_file *tf);
bool swi_torch_swapped(const swi_torch_file *tf);
size_t swi_torch_storage_count(const swi_torch_file *tf);
const swi_torch_storage *swi_torch_storage_at(const swi_torch_file *tf, size_t i);

/* Whether the node is a call that rebuilds a plain tensor (v2, v3, Parameter around it). */
bool swi_torch_is_tensor(const swi_torch_file *tf, sw_value v);
/*
 * What tensor it is, checked: shape, strides and offset lie inside the storage, no overflow.
 * SW_ERR_UNSUPPORTED names conj/neg views, quantised, sparse, meta and subclass tensors.
 */
SW_MUST_USE sw_status swi_torch_get_tensor(const swi_torch_file *tf, sw_value v,
                                           swi_torch_tensor *out, sw_error *err);

/*
 * The bytes of a storage as a blob: dense, in the file. blob->aux is the record's CRC-32, 0: there
 * is none. _swapped: its elements are in the other byte order, which a catalog's dtype undoes.
 */
extern const swi_blob_ops swi_blob_torch_storage;
extern const swi_blob_ops swi_blob_torch_storage_swapped;
/*
 * All of an archive that is no storage of its object: headers, data.pkl, small records, directory.
 * Only checked. blob->bytes is the size of the file, stored_bytes how much of it that is.
 */
extern const swi_blob_ops swi_blob_torch_frame;
/* Values of the object, whose bytes are the frame's: nothing is read or checked there. */
extern const swi_blob_ops swi_blob_torch_value;

/* Compares the CRC of every record by streaming; findings "crc-mismatch" name the record. */
SW_MUST_USE sw_status swi_torch_check(const swi_reader *reader, uint32_t file, uint64_t offset,
                                      uint64_t bytes, const swi_blob_label *label, uint8_t *buffer,
                                      size_t buffer_bytes, sw_report *report, swi_blob_check *tally,
                                      sw_error *err);

/* dtype of a torch global: module "torch", "bfloat16" ...; SW_DTYPE_NONE when it is none. */
sw_dtype swi_torch_dtype(const char *name);
/* The attribute of module torch: "float32"; NULL for none. */
const char *swi_torch_dtype_name(sw_dtype dtype);
/* Whether there is a class of storages for it. The others lie in untyped ones. */
bool swi_torch_has_class(sw_dtype dtype);

/*
 * Copies of values of the file, in other graphs, whose storages carry their bytes, compared with
 * their CRC-32: of values that are read without their file. A storage stays as it is when all that
 * are carried would be more than max_bytes, and when it is in the other byte order.
 */
#define SWI_TORCH_CARRIED_MAX ((uint64_t)16 << 20)
typedef struct swi_torch_carrier {
    const swi_torch_file *tf;
    const swi_reader *reader;
    uint64_t left_bytes;
    sw_value *made; /* by storage */
} swi_torch_carrier;
SW_MUST_USE sw_status swi_torch_carry_begin(swi_torch_carrier *carrier, const swi_torch_file *tf,
                                            const swi_reader *reader, uint64_t max_bytes,
                                            sw_error *err);
/* For swi_graph_copy, ctx being the carrier; all copies into one graph. */
SW_MUST_USE sw_status swi_torch_carry_map(void *ctx, const sw_value_graph *from, sw_value v,
                                          sw_value_graph *to, bool *replaced, sw_value *out,
                                          sw_error *err);
void swi_torch_carry_end(swi_torch_carrier *carrier);

/*
 * A dense tensor as part of a value: the call that rebuilds it from a storage that carries these
 * bytes. SW_ERR_UNSUPPORTED: torch does not have the dtype.
 */
typedef struct swi_torch_dense {
    sw_dtype dtype;
    uint32_t axes;
    const int64_t *shape;
    const void *data; /* elements x size bytes; copied */
} swi_torch_dense;
SW_MUST_USE sw_status swi_torch_carry_dense(sw_value_graph *graph, const swi_torch_dense *tensor,
                                            sw_value *out, sw_error *err);

/* ---- writing ---------------------------------------------------------------------------------
 * A file is a pickled object and storages, whose bytes the caller has elsewhere. Storage number i
 * has the key that swi_torch_key gives.
 */

typedef struct swi_torch_out_storage {
    sw_dtype dtype; /* of its class; of dtypes without one it is untyped */
    uint64_t elements;
} swi_torch_out_storage;
uint64_t swi_torch_out_storage_bytes(const swi_torch_out_storage *storage);
#define SWI_TORCH_KEY_BYTES 12
void swi_torch_key(uint32_t storage, char out[SWI_TORCH_KEY_BYTES]);

/* A tensor as a view of a storage of its dtype; nothing is checked. */
typedef struct swi_torch_out_tensor {
    sw_dtype dtype;
    uint32_t storage;
    uint64_t storage_elements, start_elements;
    uint32_t axes;
    const int64_t *shape, *stride_elements;
} swi_torch_out_tensor;

/* For the tensors of one pickle; begins with the form, and otherwise zeroed. */
#define SWI_TORCH_EMITTER_SLOTS 64
typedef struct swi_torch_emitter {
    swi_torch_form form;
    bool remembers; /* names that come up again are written once */
    uint32_t memo[SWI_TORCH_EMITTER_SLOTS];
} swi_torch_emitter;
/* The call that rebuilds the tensor, without gradient and hooks; left on the pickle's stack. */
SW_MUST_USE sw_status swi_torch_emit(swi_torch_emitter *emitter, swi_pickle_writer *w,
                                     const swi_torch_out_tensor *tensor, sw_error *err);

/*
 * A PERSISTENT node that carries the bytes of its storage (swi_torch_carry); false: it is none. One
 * storage is one node, however often it is referred to.
 */
typedef struct swi_torch_carried {
    swi_torch_out_storage is;  /* of U8 when untyped, and for quantised bytes */
    const char *module, *name; /* of the class */
    bool untyped;
    const uint8_t *data; /* the graph's, like the names */
} swi_torch_carried;
bool swi_torch_carried_storage(const sw_value_graph *graph, sw_value v, swi_torch_carried *out);
/* The persistent id of storage `number` with these bytes; left on the pickle's stack. */
SW_MUST_USE sw_status swi_torch_emit_carried(swi_torch_emitter *emitter, swi_pickle_writer *w,
                                             const swi_torch_carried *storage, uint32_t number,
                                             sw_error *err);

typedef struct swi_torch_out {
    swi_torch_form form; /* SWI_TORCH_ZIP or SWI_TORCH_LEGACY */
    const void *object;  /* a whole pickle; for swi_torch_write_late it may be NULL */
    size_t object_size;
    uint32_t object_crc32;
    const swi_torch_out_storage *storages;
    uint32_t storage_count;
} swi_torch_out;

typedef enum swi_torch_part_kind {
    SWI_TORCH_PART_BYTES,
    SWI_TORCH_PART_STORAGE, /* the bytes of storage `number`; there may be none */
    SWI_TORCH_PART_LATE     /* late part `number`: see swi_torch_write_late */
} swi_torch_part_kind;
typedef struct swi_torch_part {
    swi_torch_part_kind kind;
    uint32_t number;
    const void *data; /* of BYTES; borrowed for the call */
    uint64_t bytes;
} swi_torch_part;
typedef sw_status (*swi_torch_part_fn)(void *ctx, const swi_torch_part *part, sw_error *err);
/*
 * Gives all parts of the file in their order. Without the CRCs of the storages (NULL) what depends
 * on them is late: of the zip form something behind each storage that is not empty, and the end.
 */
SW_MUST_USE sw_status swi_torch_write(const swi_torch_out *out, const uint32_t *crcs,
                                      swi_torch_part_fn fn, void *ctx, sw_error *err);
SW_MUST_USE sw_status swi_torch_write_late(const swi_torch_out *out, const uint32_t *crcs,
                                           uint32_t number, uint8_t *to, size_t size,
                                           sw_error *err);

/*
 * Writing one item as DCP stores it: a complete torch.save archive, root "archive", of one bare
 * dense tensor (data: elements x size bytes), or of a value that `emit` pickles.
 */
SW_MUST_USE sw_status swi_torch_write_tensor(swi_buf *out, sw_dtype dtype, uint32_t axes,
                                             const int64_t *shape, const void *data, sw_error *err);
/*
 * The same around a tensor's data that lies elsewhere: appends what comes before it to *head and
 * what comes behind it to *tail. How long they are does not depend on crc32, that of the data.
 */
typedef struct swi_torch_around {
    sw_dtype dtype;
    uint32_t axes;
    const int64_t *shape;
    uint32_t crc32;
} swi_torch_around;
SW_MUST_USE sw_status swi_torch_write_around(swi_buf *head, swi_buf *tail,
                                             const swi_torch_around *in, sw_error *err);
typedef sw_status (*swi_emit_fn)(void *ctx, swi_pickle_writer *w, sw_error *err);
SW_MUST_USE sw_status swi_torch_write_value(swi_buf *out, swi_emit_fn emit, void *ctx,
                                            sw_error *err);
/* A value of a graph, with the storages that it carries. */
SW_MUST_USE sw_status swi_torch_write_graph(swi_buf *out, const sw_value_graph *graph, sw_value v,
                                            sw_error *err);

#endif
