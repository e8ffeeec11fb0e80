/* Shared by the files that read torch.save archives, and by the DCP items made of them. */
#ifndef SW_CONTAINER_TORCH_INTERNAL_H
#define SW_CONTAINER_TORCH_INTERNAL_H

#include "base/names.h"
#include "codec/zip.h"
#include "container/torch_file.h"

struct swi_torch_file {
    uint32_t file;
    uint64_t offset, bytes;
    swi_zip *zip; /* owned, while it is opened */
    char *root;   /* "archive/": what every record's name begins with */
    size_t root_size;
    uint64_t pickle_offset_bytes; /* of the pickled object in the file */
    const char *pickle_name;      /* "data.pkl"; of the form before 1.6: "the object" */
    bool legacy;
    bool has_crc;       /* of the pickled object */
    uint64_t end_bytes; /* legacy: position behind the last storage */
    bool swapped;
    sw_value_graph *graph;
    sw_value top;
    swi_pickle_unsafe unsafe;
    swi_names *keys; /* of storages: id = index */
    swi_torch_storage *storages;
    size_t storage_count, storage_capacity;
};

/* A storage class of module torch: what its elements are. */
typedef struct swi_torch_class {
    const char *name;
    sw_dtype dtype;
    uint32_t bytes;
} swi_torch_class;
/* NULL: no typed storage class. */
const swi_torch_class *swi_torch_find_class(const char *name);
/* The class that holds the dtype, NULL for those that only untyped storages hold. */
const char *swi_torch_class_of(sw_dtype dtype);

/*
 * The parts of swi_torch_open: takes the archive over in any case. With `keep` not NULL dangerous
 * names that were met are given there even when it fails.
 */
SW_MUST_USE sw_status swi_torch_open_zip(const swi_reader *reader, uint32_t file, uint64_t offset,
                                         uint64_t bytes, swi_zip *zip, swi_pickle_unsafe *keep,
                                         swi_torch_file **out, sw_error *err);
/* Whether the bytes are a zip archive, be it a broken one: by their begin or their end. */
SW_MUST_USE sw_status swi_torch_is_zip(const swi_reader *reader, uint32_t file, uint64_t offset,
                                       uint64_t bytes, bool *is_zip, sw_error *err);

/* A persistent id was met (hook_ctx is the swi_torch_file): notes the storage that it names. */
SW_MUST_USE sw_status swi_torch_on_persistent(void *ctx, sw_value_graph *g, sw_value id,
                                              sw_value *out, sw_error *err);

/* What a check works on. */
typedef struct swi_torch_checking {
    const swi_reader *reader;
    uint32_t file;
    uint64_t offset, bytes;
    const swi_blob_label *label;
    uint8_t *buffer;
    size_t buffer_bytes;
    sw_report *report;
    swi_blob_check *tally;
    bool decoded; /* positions are in decoded bytes, whose frame is at frame_offset */
    uint64_t frame_offset;
    const swi_torch_file *but_storages; /* not NULL: their contents are checked elsewhere */
} swi_torch_checking;
/* As swi_torch_check_open for the records, and what lies between them, alone. */
SW_MUST_USE sw_status swi_torch_check_records(const swi_torch_checking *c, swi_zip *zip,
                                              uint64_t *findings, sw_error *err);
/* As swi_torch_check; *out is the opened file, or NULL when a finding says why not. */
SW_MUST_USE sw_status swi_torch_check_open(const swi_torch_checking *c, swi_torch_file **out,
                                           sw_error *err);
/* Adds an error as a finding; passes those on that are not the file's fault. */
SW_MUST_USE sw_status swi_torch_finding(const swi_torch_checking *c, const char *code,
                                        const sw_error *cause, sw_error *err);

#endif
