/*
 * A mapping under way. mapping.c leads and says what is left behind, mapping_side.c finds what
 * there is of the source's side (holding.h holds names and shapes against it), mapping_build.c
 * makes tensors, mapping_optimizer.c follows with states, mapping_check.c looks at the bytes.
 */
#ifndef SW_CONVERT_MAP_MAPPING_PARTS_H
#define SW_CONVERT_MAP_MAPPING_PARTS_H

#include "base/report.h"
#include "base/text.h"
#include "map/mapping.h"
#include "map/model_parts.h"
#include "shaped.h"

/* The next of those that are tied with this atom: a ring. */
static inline uint32_t swi_next_tied(const swi_model *model, uint32_t atom)
{
    return model->atoms[atom].ring;
}

/* What must hold of the derived catalog's tensors. */
typedef enum swi_must_kind {
    SWI_MUST_FILL,
    SWI_MUST_ZERO,
    SWI_MUST_EQUAL,
    SWI_MUST_AGREE
} swi_must_kind;
typedef struct swi_must {
    swi_must_kind kind;
    uint32_t tensor, other; /* EQUAL (tied), AGREE (counters that become one): of two */
    uint64_t pattern;       /* FILL: the element's bytes */
    const char *name, *other_name;
} swi_must;

/* What there is of the side `from`: by its tensors, the catalog's tensor or SWI_NO_TENSOR. */
typedef struct swi_present {
    uint32_t *tensor;
    bool are_scales; /* of blocks: each stands for as many elements as its tensor has (MAP-10) */
} swi_present;

/* Of one rule. */
typedef struct swi_effect {
    uint64_t tensors, bytes, lost, scaled;
} swi_effect;

struct swi_mapping {
    swi_mapping_in in;
    const swi_model *model;
    const swi_side *from, *to;
    const sw_catalog *catalog; /* the source's */
    swi_builder *builder;
    uint32_t *place; /* by atom: its place in its tensor of the side `from` */
    bool *there;     /* by group of the model: the source has something of it */
    uint32_t zero_blob;
    bool has_zero;
    swi_must *musts;
    size_t must_count, must_capacity;
    swi_effect *effects; /* by rule */
    swi_present scales;  /* companions of the tensors of the module under way */
    swi_arena arena;
};

/* ---- mapping_side.c ---------------------------------------------------------------------------
 */

/* The tensor of `from` that has this atom or one that it is tied to, and is there. */
bool swi_mapping_source(const swi_mapping *m, const swi_present *have, uint32_t atom,
                        uint32_t *from_tensor, uint32_t *as_atom);
/* Not left out as a part of a group of which the source has nothing. */
bool swi_mapping_is_there(const swi_mapping *m, uint32_t atom);
/*
 * Fills have->tensor, m->there and m->scales; unknown, missing and misshapen ones are findings and
 * the error. What was there of scales is freed.
 */
SW_MUST_USE sw_status swi_mapping_meet(swi_mapping *m, const swi_named *named, size_t count,
                                       swi_present *have, sw_error *err);

/* ---- mapping_build.c --------------------------------------------------------------------------
 */

/* The tensor of a side is its one atom as it is. */
bool swi_mapping_is_plain(const swi_model *model, size_t side, uint32_t tensor);
/* A tensor of the side `to` is one of the side `from` as it is: which. */
bool swi_mapping_is_same(const swi_mapping *m, const swi_present *have, uint32_t to_tensor,
                         uint32_t *tensor);
/* Makes tensor `to_tensor` of what is there. Its atoms all have a source or are constants. */
SW_MUST_USE sw_status swi_mapping_build(swi_mapping *m, const swi_present *have, uint32_t to_tensor,
                                        swi_shaped *out, sw_error *err);
/* One atom of what is there, which its tensor on the side `from` is undone into. */
SW_MUST_USE sw_status swi_mapping_atom(swi_mapping *m, const swi_present *have,
                                       uint32_t from_tensor, uint32_t atom, swi_shaped *out,
                                       sw_error *err);
/* The bytes of one element of this value. */
uint64_t swi_mapping_pattern(double v, sw_dtype dtype);
/* Adds a tensor; a name that is there already gets another in the derived catalog. */
SW_MUST_USE sw_status swi_mapping_put(swi_mapping *m, const char *name, sw_role role,
                                      const swi_shaped *shaped, uint32_t *tensor, sw_error *err);
/* What pads this tensor of `from` must be zero: written down, for each dimension. */
SW_MUST_USE sw_status swi_mapping_pads(swi_mapping *m, const swi_present *have,
                                       uint32_t from_tensor, sw_error *err);
SW_MUST_USE sw_status swi_mapping_must(swi_mapping *m, const swi_must *must, sw_error *err);

#endif
