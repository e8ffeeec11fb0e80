/*
 * model.safetensors.index.json: which file of a sharded model holds which tensor. Clauses IDX-n are
 * those of specs/hf.md.
 */
#ifndef SW_CONTAINER_HF_INDEX_H
#define SW_CONTAINER_HF_INDEX_H

#include "base/buf.h"

typedef struct swi_hf_index swi_hf_index;

/* Duplicate names, names that are not text and paths that leave the folder are refused. */
SW_MUST_USE sw_status swi_hf_index_parse(const void *data, size_t size, const sw_limits *limits,
                                         swi_hf_index **out, sw_error *err);
void swi_hf_index_free(swi_hf_index *index);
size_t swi_hf_index_count(const swi_hf_index *index);
/* Entry i in the order of the document: tensor name and index of its file. */
bool swi_hf_index_at(const swi_hf_index *index, size_t i, const char **name, uint32_t *file);
/* The file of a tensor, or -1. */
int64_t swi_hf_index_find(const swi_hf_index *index, const char *name);
/* Distinct file names, in order of first use. */
uint32_t swi_hf_index_file_count(const swi_hf_index *index);
const char *swi_hf_index_file(const swi_hf_index *index, uint32_t file);
/* metadata.total_size; false when it is absent or no whole number. */
bool swi_hf_index_total_size(const swi_hf_index *index, uint64_t *bytes);

typedef struct swi_hf_index_entry {
    const char *name;
    const char *file;
} swi_hf_index_entry;
/* The document as transformers writes it: entries sorted by name (the array is sorted here). */
SW_MUST_USE sw_status swi_hf_index_write(swi_buf *out, swi_hf_index_entry *entries, size_t count,
                                         uint64_t total_size, uint64_t total_parameters,
                                         sw_error *err);

#endif
