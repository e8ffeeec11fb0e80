/*
 * Rules on meshes whose sizes are known (swi_division), how one tensor is cut (swi_cut) and what of
 * it one rank holds (swi_local). A division is immutable and may be shared by threads. Errors name
 * the tensor and the rule's place: CONFLICT for sizes that do not fit, NOTFOUND where no rule
 * matches. Clauses LAY-n are those of specs/notation.md.
 */
#ifndef SW_CONVERT_NOTATION_DIVISION_H
#define SW_CONVERT_NOTATION_DIVISION_H

#include "layout.h"
#include "notation/chunk.h"
#include "notation/expr.h"
#include "notation/rules.h"

#define SWI_MESH_RANKS_MAX ((uint64_t)1 << 20)

typedef struct swi_axis_size {
    const char *name;
    uint64_t size; /* at least 1 */
} swi_axis_size;

typedef struct swi_division swi_division;
/*
 * `scope` (NULL: none) is asked for the names that the layout does not define itself; it is not
 * needed afterwards. `given`: sizes that are put in place of the layout's; one that no mesh has is
 * SW_ERR_ARG. The rules must outlive it. Expressions of a rule that fail do so when a tensor meets
 * it.
 */
SW_MUST_USE sw_status swi_division_make(const swi_rules *rules, const swi_expr_scope *scope,
                                        const swi_axis_size *given, size_t given_count,
                                        swi_division **out, sw_error *err);
void swi_division_free(swi_division *division);
const swi_rules *swi_division_rules(const swi_division *division);
uint64_t swi_division_ranks(const swi_division *division);
/* The axes of the first mesh, the slowest first. */
size_t swi_division_axis_count(const swi_division *division);
swi_axis_size swi_division_axis(const swi_division *division, size_t i);

/* ---- one tensor ----------------------------------------------------------------------------- */

/*
 * How one tensor is cut. It has `holdings` distinct parts (some may be empty); each is held by
 * `copies` ranks: ranks = holdings x copies. Borrows from the division. Plain data.
 */
typedef struct swi_cut {
    size_t rule;
    uint64_t holdings, copies;
    bool overlap; /* of parts with units of their own: some elements are in several holdings */
    /* Private: */
    const swi_division *division;
    uint32_t axes, split_axes; /* of the view; mesh axes that split */
    int64_t view[SW_MAX_AXES];
    struct {
        uint32_t dim, axis;  /* of the view; of the rule's mesh */
        uint64_t ranks, per; /* so many ranks hold the same */
    } splits[SWI_MESH_AXES_MAX];
} swi_cut;

/* What of a tensor one rank holds: a dense row-major array made of boxes of a view of it. */
typedef struct swi_local {
    uint32_t axes;              /* of the view and of the array: the tensor's, or 1 when flat */
    int64_t view[SW_MAX_AXES];  /* the tensor's shape, or all its elements in a row */
    int64_t shape[SW_MAX_AXES]; /* of the array */
    swi_block_part parts[SWI_RULE_PARTS_MAX]; /* not empty, in the order of the array */
    size_t count;                             /* 0: nothing */
} swi_local;

/*
 * Finds the rule for this name and proves that it can divide this shape: then every rank's part
 * can be told. Sizes are >= 0, axes <= SW_MAX_AXES.
 */
SW_MUST_USE sw_status swi_divide(const swi_division *division, const char *name, uint32_t axes,
                                 const int64_t *shape, swi_cut *out, sw_error *err);
/* The same by a rule of this number, whatever it matches. */
SW_MUST_USE sw_status swi_divide_by(const swi_division *division, size_t rule, const char *name,
                                    uint32_t axes, const int64_t *shape, swi_cut *out,
                                    sw_error *err);
/* An axis of the mesh that cuts the tensor. */
typedef struct swi_cut_axis {
    const char *name;
    uint64_t size;
    bool splits;   /* the tensor; then: */
    uint32_t dim;  /* of the view */
    uint32_t turn; /* 0: first of all axes, 1: what that leaves ... */
} swi_cut_axis;
/* All of them, the slowest first; the number of that mesh in *mesh. */
uint32_t swi_cut_axes(const swi_cut *cut, swi_cut_axis out[SWI_MESH_AXES_MAX], uint32_t *mesh);
/* The number of the holding that a rank (< ranks of the division) has. */
uint64_t swi_cut_of_rank(const swi_cut *cut, uint64_t rank);
/* The ranks of a holding, ascending: k < copies. */
uint64_t swi_cut_rank(const swi_cut *cut, uint64_t holding, uint64_t k);
void swi_cut_local(const swi_cut *cut, uint64_t holding, swi_local *out);
/* For swi_layout_block; borrows from `local`. */
swi_block swi_local_block(const swi_local *local);

#endif
