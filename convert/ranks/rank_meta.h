/*
 * metadata.pkl of torch_checkpointing: which files of torch.save the ranks wrote, and how the
 * tensors in them divide the global ones. Clauses RF-n are those of specs/rank_files.md.
 */
#ifndef SW_CONVERT_RANK_META_H
#define SW_CONVERT_RANK_META_H

#include "framework.h"
#include "torch/placements.h"

#define SWI_RANK_META_NAME "metadata.pkl"

typedef struct swi_rank_meta swi_rank_meta;

/* Dangerous names are findings, and SW_ERR_UNSAFE. */
SW_MUST_USE sw_status swi_rank_meta_parse(const uint8_t *data, size_t size, const sw_limits *limits,
                                          sw_report *report, swi_rank_meta **out, sw_error *err);
void swi_rank_meta_free(swi_rank_meta *meta);
/* Memory that it takes, in bytes. */
uint64_t swi_rank_meta_memory(const swi_rank_meta *meta);
uint64_t swi_rank_meta_world(const swi_rank_meta *meta);
size_t swi_rank_meta_item_count(const swi_rank_meta *meta);
const char *swi_rank_meta_item(const swi_rank_meta *meta, size_t i);
/* The file of this item that a rank wrote, in the folder: valid until the next call. */
SW_MUST_USE sw_status swi_rank_meta_file(swi_rank_meta *meta, size_t item, uint64_t rank,
                                         const char **path, sw_error *err);

/* What is known of a tensor of an item. */
typedef struct swi_rank_tensor {
    sw_dtype dtype; /* SW_DTYPE_NONE: not known here */
    uint32_t axes;
    int64_t shape[SW_MAX_AXES];
    bool replicated; /* several ranks hold the same elements */
    /* of the rank that was asked for: */
    int64_t offset[SW_MAX_AXES], length[SW_MAX_AXES];
} swi_rank_tensor;

/*
 * The tensor at this path (its first part is the item) and the box of a rank. *known: false when
 * the metadata does not tell of it, or not of that rank.
 */
SW_MUST_USE sw_status swi_rank_meta_find(const swi_rank_meta *meta, const char *const *path,
                                         size_t parts, uint64_t rank, bool *known,
                                         swi_rank_tensor *out, sw_error *err);
/* Every tensor that the metadata tells of, by number. */
size_t swi_rank_meta_tensor_count(const swi_rank_meta *meta);
/* Its path, as swi_rank_meta_find takes it, with zeros between the parts. */
const char *swi_rank_meta_path(const swi_rank_meta *meta, size_t i, size_t *size);
/* The tensor itself, by its first group; offset and length are those of some rank. */
SW_MUST_USE sw_status swi_rank_meta_tensor(const swi_rank_meta *meta, size_t i,
                                           swi_rank_tensor *out, sw_error *err);

#endif
