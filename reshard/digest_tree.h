/*
 * The content digests of many tensors while their bytes pass through memory (specs/digest.md), in
 * parts of any size and from several threads at once.
 */
#ifndef SW_RESHARD_DIGEST_TREE_H
#define SW_RESHARD_DIGEST_TREE_H

#include "codec/digest.h"
#include "model/catalog.h"

/* DIG-3 */
#define SWI_DIGEST_LEAF_BYTES ((uint64_t)1 << 20)

typedef struct swi_digest_tree swi_digest_tree;

/*
 * Shapes are those of `catalog`. out[tensor] is set when the last part of that tensor is in. Kept
 * meanwhile: 16 bytes for each tensor, 32 for each leaf of those under way, and one running hash
 * for each leaf that is hashed in part.
 */
SW_MUST_USE sw_status swi_digest_tree_make(const sw_catalog *catalog, swi_digest *out,
                                           swi_digest_tree **tree, sw_error *err);
void swi_digest_tree_free(swi_digest_tree *tree);

/* A part of a tensor while it is in memory. */
typedef struct swi_digest_part {
    uint32_t tensor;
    sw_dtype dtype;         /* after the cast; the same for all parts of a tensor */
    uint64_t first_element; /* flat */
    uint64_t elements;
    const uint8_t *data;
} swi_digest_part;

/*
 * Thread-safe; each element once, and a tensor of no elements in one part without any. A part that
 * begins inside a leaf waits for those before it in that leaf, so threads take the parts of a
 * tensor in ascending order, and each adds what it has taken or calls swi_digest_tree_stop.
 */
SW_MUST_USE sw_status swi_digest_tree_add(swi_digest_tree *tree, const swi_digest_part *part,
                                          sw_error *err);
/* Something failed elsewhere: whoever waits goes on, and from now on nothing is hashed. */
void swi_digest_tree_stop(swi_digest_tree *tree);

/* How many leaves a tensor of that shape has in that type. */
uint64_t swi_digest_leaf_count(const sw_tensor_info *info, sw_dtype dtype);
/* How many elements of that type a leaf has. */
uint64_t swi_digest_leaf_elements(sw_dtype dtype);

#endif
