/*
 * Which storages a torch file that is written has, and which tensors lie where in them: those that
 * share one in the source share one again (TS-10 to TS-12 of specs/torch.md).
 */
#ifndef SW_CONVERT_TORCH_STORAGES_H
#define SW_CONVERT_TORCH_STORAGES_H

#include "container/torch_file.h"
#include "framework.h"

typedef struct swi_torch_placed {
    uint32_t source; /* tensor of the source catalog */
    sw_dtype dtype;  /* in the destination */
    /* The rest is found by swi_torch_place: */
    uint32_t storage;
    uint64_t start_elements;
    bool strided; /* its strides are those that it has in the source; else row-major */
    bool fills;   /* its elements are written to the storage; else others' are seen */
} swi_torch_placed;

/* A tensor whose elements are a part of a storage. */
typedef struct swi_torch_filler {
    uint32_t storage, tensor;
    uint64_t start_elements;
} swi_torch_filler;

typedef struct swi_torch_storages {
    swi_torch_out_storage *items; /* numbered as they come up among the tensors */
    uint32_t count;
    swi_torch_filler *fillers; /* by storage and place; they do not overlap */
    size_t filler_count;
} swi_torch_storages;

/*
 * Shared storages are cut to what tensors see of them; the rest between is not filled. What cannot
 * be shared without bytes being written twice has its own copy: finding "sharing-lost". Only the
 * first `own` tensors of the catalog are the source's; one that a map made shares with none.
 */
SW_MUST_USE sw_status swi_torch_place(const sw_catalog *source, uint32_t own,
                                      swi_torch_placed *tensors, size_t count, sw_report *report,
                                      swi_torch_storages *out, sw_error *err);
/* The storage that a node carries. SW_ERR_UNSUPPORTED: it carries none that is at hand. */
SW_MUST_USE sw_status swi_torch_need_carried(const sw_value_graph *graph, sw_value v,
                                             swi_torch_carried *out, sw_error *err);
void swi_torch_storages_free(swi_torch_storages *storages);
/* Strides of a placed tensor with these sizes, in elements. */
void swi_torch_placed_strides(const sw_catalog *source, const swi_torch_placed *placed,
                              const sw_tensor_info *info, int64_t stride_elements[SW_MAX_AXES]);

#endif
