/*
 * Names and shapes of a checkpoint held against one side of a model: what is known, unknown,
 * missing, of another shape. One mechanism for conversions, which refuse what differs, and for
 * verify, which tells of it.
 */
#ifndef SW_CONVERT_MAP_HOLDING_H
#define SW_CONVERT_MAP_HOLDING_H

#include "base/report.h"
#include "map/mapping.h"
#include "map/model_parts.h"

typedef struct swi_holding {
    const swi_model *model;
    size_t side;
    const swi_named *have;
    size_t count;
    uint32_t *tensor; /* by the side's tensors: that of the catalog, or SWI_NO_TENSOR */
    bool *there;      /* by group of the model: something of it is there */
    uint64_t known, unknown, missing;
    const char *first_unknown, *first_missing;
} swi_holding;

/* By names alone; `have` must outlive it. */
SW_MUST_USE sw_status swi_holding_make(const swi_model *model, size_t side, const swi_named *have,
                                       size_t count, swi_holding *out, sw_error *err);
void swi_holding_free(swi_holding *holding);

/* Whether the side's tensor should be there and is not. */
bool swi_holding_lacks(const swi_holding *holding, uint32_t id);

/* MAP-10: the tensor of the side that this one holds the block scales of, or -1. */
int64_t swi_model_scaled_by(const swi_model *model, size_t side, const char *name);
/* Whether the side may hold it although it is none of its tensors: scales, what is left out. */
bool swi_model_bears(const swi_model *model, size_t side, const char *name);

typedef struct swi_holding_tell {
    const sw_catalog *catalog; /* that the tensors are of */
    bool partial;              /* what is missing was left out by choice, and is not told */
    sw_report *report;
} swi_holding_tell;

/*
 * Every difference is a finding: "map-unknown", "map-missing", "map-shape" (defects; one for names
 * that differ in numbers alone, with their count), "map-ignored" (a note). *misshapen: tensors of
 * another shape; `first_misshapen` (NULL: not wanted; SW_OK: none) becomes the error of the first.
 */
SW_MUST_USE sw_status swi_holding_say(const swi_holding *holding, const swi_holding_tell *in,
                                      uint64_t *misshapen, sw_error *first_misshapen,
                                      sw_error *err);

/*
 * MAP-17: SW_ERR_CONFLICT for the first tensor that has a part of the elements that the model says,
 * or all of them in one dimension: values of a rank, or of a flat parameter, and no weights.
 */
SW_MUST_USE sw_status swi_holding_refuse_flat(const swi_holding *holding, const sw_catalog *catalog,
                                              sw_error *err);

/* Two names of one tensor, both those of the side. */
typedef struct swi_tied_pair {
    const char *name, *other;
    uint32_t tensor, other_tensor; /* SWI_NO_TENSOR: it is not there */
    bool plain;                    /* both are the tensor as it is, not rearranged or padded */
} swi_tied_pair;
/* The first pair at or behind *atom, which is moved behind it. false: there is none. */
bool swi_holding_tied(const swi_holding *holding, uint32_t *atom, swi_tied_pair *out);

/*
 * The side that is nearest to these names, whether it fits or not; where nothing is known to any,
 * the first.
 */
SW_MUST_USE sw_status swi_model_nearest(const swi_model *model, const swi_named *have, size_t count,
                                        size_t *side, sw_error *err);

#endif
