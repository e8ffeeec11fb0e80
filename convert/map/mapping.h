/*
 * Tensors of one side of a model become those of another: the one undone into atoms, the other made
 * of them, on pieces alone. The results lie in a derived checkpoint: the source with more tensors
 * in its catalog (those of the source keep their numbers). What must hold of the bytes (padding
 * that is cut off is zero, tied tensors are equal, constants are what the map says) is written down
 * on the way and checked before anything is written.
 *
 * Errors and findings name tensors, rules by file and line, and a next step. Clauses MAP-n are
 * those of specs/notation.md.
 */
#ifndef SW_CONVERT_MAP_MAPPING_H
#define SW_CONVERT_MAP_MAPPING_H

#include "framework.h"
#include "map/model.h"
#include "optimizer/optimizer.h"

typedef struct swi_named {
    const char *name; /* on the side */
    uint32_t tensor;  /* of the catalog */
} swi_named;

/*
 * MAP-13: the side whose names these are: every one known to it, none of its own missing
 * (`partial`: some may be, they were left out by choice). SW_ERR_CONFLICT: several sides fit;
 * SW_ERR_INCOMPLETE or SW_ERR_NOTFOUND: none, with what is wrong in the best. `asked` (NULL: none)
 * decides by its name.
 */
SW_MUST_USE sw_status swi_model_detect(const swi_model *model, const swi_named *have, size_t count,
                                       const char *asked, bool partial, size_t *side,
                                       sw_error *err);

typedef struct swi_mapping swi_mapping;

typedef struct swi_mapping_in {
    const swi_model *model;
    size_t from, to;
    const sw_checkpoint *source;
    bool copies;     /* what is tied gets all the names that the source had for it (MAP-6) */
    bool partial;    /* tensors may have been left out by choice */
    bool dequantise; /* float8 atoms are multiplied by their block scales (MAP-10) */
    sw_report *report;
} swi_mapping_in;

/* All of it must outlive the mapping. */
SW_MUST_USE sw_status swi_mapping_begin(const swi_mapping_in *in, swi_mapping **out, sw_error *err);
void swi_mapping_free(swi_mapping *mapping);

typedef struct swi_mapped {
    const char *name; /* on the side; the model's */
    uint32_t tensor;  /* of the derived catalog */
    int64_t scale;    /* the tensor there that it is to be multiplied by, or -1 */
    sw_dtype dtype;   /* that the map asks for, or SW_DTYPE_NONE */
    bool constant;    /* the map made it; the source has nothing of it */
} swi_mapped;
typedef struct swi_mapped_list {
    swi_mapped *items; /* in the order of the side; free() */
    size_t count;
} swi_mapped_list;

/*
 * The tensors of a module. Findings: "map-unknown", "map-missing", "map-shape" (defects, then the
 * call fails: MAP-12), "map-lost" (what is left behind: a warning where the map says so; a defect,
 * then the call fails, where the map does not say what the side calls it: MAP-2), "map-ignored"
 * (notes).
 */
SW_MUST_USE sw_status swi_mapping_model(swi_mapping *mapping, const swi_named *have, size_t count,
                                        swi_mapped_list *out, sw_error *err);
/* Whether the side of the source has a tensor of this name. */
bool swi_mapping_knows(const swi_mapping *mapping, const char *name);
/*
 * The states of an optimizer follow the parameters, in place: states of a parameter's shape are
 * mapped as it is, others must be equal in all that become one. SW_ERR_CONFLICT: parameters that
 * become one are in different groups, or some have a state and some have none.
 */
SW_MUST_USE sw_status swi_mapping_optimizer(swi_mapping *mapping, swi_optimizer *optimizer,
                                            sw_error *err);
/* The derived checkpoint, which borrows from the source. No more tensors after that. */
SW_MUST_USE sw_status swi_mapping_end(swi_mapping *mapping, sw_checkpoint **out, sw_error *err);
/* Reads what must hold. SW_ERR_CONFLICT with tensor and position when it does not. */
SW_MUST_USE sw_status swi_mapping_check(const swi_mapping *mapping, const sw_checkpoint *derived,
                                        sw_error *err);

/* All that it was made of: the same tensors become the same ones. */
void swi_mapping_identify(const swi_mapping *mapping, swi_identity *identity);

/* What each rule did, for the plan; in the order of the map. */
typedef struct swi_mapping_effect {
    const char *from, *to; /* patterns of the two sides; "" */
    char what[96];         /* "split, rearrange, join"; "" for a rename */
    size_t line;           /* of the map */
    uint64_t tensors;      /* of the target's side */
    uint64_t bytes;        /* of those */
    uint64_t lost;         /* elements that the side cannot hold */
    bool lossy;
} swi_mapping_effect;
size_t swi_mapping_effect_count(const swi_mapping *mapping);
void swi_mapping_effect_at(const swi_mapping *mapping, size_t i, swi_mapping_effect *out);

#endif
