/* Clauses of specs/digest.md. */
#include "digest_tree.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/monitor.h"

enum { TAG_LEAF = 0, TAG_TENSOR = 2 };

/* A leaf of which the first bytes are hashed, or a running hash that is free. */
typedef struct open_leaf {
    struct open_leaf *next;
    swi_hasher *hasher;
    uint32_t tensor;
    uint64_t leaf;
    uint64_t done_bytes;
} open_leaf;

typedef struct tensor_state { /* of a tensor that is under way */
    swi_digest *leaves;
    uint64_t done;
} tensor_state;

struct swi_digest_tree {
    const sw_catalog *catalog;
    swi_digest *out;
    pthread_mutex_t lock; /* of all that follows */
    pthread_cond_t changed;
    bool stopped;
    tensor_state *states; /* by index */
    open_leaf *open;      /* about as many as there are threads */
    open_leaf *idle;
};

uint64_t swi_digest_leaf_elements(sw_dtype dtype)
{
    uint32_t bytes = sw_dtype_bytes(dtype);
    return bytes == 0 ? 0 : SWI_DIGEST_LEAF_BYTES / bytes;
}

uint64_t swi_digest_leaf_count(const sw_tensor_info *info, sw_dtype dtype)
{
    uint64_t each = swi_digest_leaf_elements(dtype);
    return each == 0 ? 0 : info->elements / each + (info->elements % each != 0);
}

/* ---- making ------------------------------------------------------------------------------- */

sw_status swi_digest_tree_make(const sw_catalog *catalog, swi_digest *out, swi_digest_tree **tree,
                               sw_error *err)
{
    void *room, *states;
    sw_status status = swi_alloc_array(1, sizeof(swi_digest_tree), &room, err);
    if (status != SW_OK)
        return status;
    swi_digest_tree *made = room;
    *made = (swi_digest_tree){.catalog = catalog, .out = out};
    status = swi_alloc_array(sw_catalog_tensor_count(catalog), sizeof *made->states, &states, err);
    if (status == SW_OK) {
        made->states = states;
        status = swi_monitor_make(&made->lock, &made->changed, err);
    }
    if (status != SW_OK) {
        free(made->states);
        free(made);
        return status;
    }
    *tree = made;
    return SW_OK;
}

static void free_list(open_leaf *list)
{
    for (open_leaf *next; list != NULL; list = next) {
        next = list->next;
        swi_hasher_free(list->hasher);
        free(list);
    }
}

void swi_digest_tree_free(swi_digest_tree *tree)
{
    if (tree == NULL)
        return;
    for (size_t i = 0; i < sw_catalog_tensor_count(tree->catalog); i++)
        free(tree->states[i].leaves);
    free(tree->states);
    free_list(tree->open);
    free_list(tree->idle);
    swi_monitor_end(&tree->lock, &tree->changed);
    free(tree);
}

/* ---- encoding ----------------------------------------------------------------------------- */

static sw_status add_number(swi_hasher *hasher, uint64_t n, size_t bytes, sw_error *err)
{
    uint8_t le[8];
    for (size_t i = 0; i < bytes; i++)
        le[i] = (uint8_t)(n >> (8 * i));
    return swi_hasher_add(hasher, le, bytes, err);
}

static sw_status begin_tag(swi_hasher *hasher, uint8_t tag, sw_error *err)
{
    sw_status status = swi_hasher_begin(hasher, err);
    return status == SW_OK ? swi_hasher_add(hasher, &tag, 1, err) : status;
}

/* DIG-5 */
static sw_status hash_tensor(swi_hasher *hasher, const sw_tensor_info *info, sw_dtype dtype,
                             const swi_digest *leaves, swi_digest *out, sw_error *err)
{
    const char *name = sw_dtype_name(dtype);
    uint64_t count = swi_digest_leaf_count(info, dtype);
    sw_status status = begin_tag(hasher, TAG_TENSOR, err);
    if (status == SW_OK)
        status = add_number(hasher, strlen(name), 1, err);
    if (status == SW_OK)
        status = swi_hasher_add(hasher, name, strlen(name), err);
    if (status == SW_OK)
        status = add_number(hasher, info->axes, 4, err);
    for (uint32_t k = 0; k < info->axes && status == SW_OK; k++)
        status = add_number(hasher, (uint64_t)info->shape[k], 8, err);
    if (status == SW_OK)
        status = add_number(hasher, count, 8, err);
    for (uint64_t i = 0; i < count && status == SW_OK; i++)
        status = swi_hasher_add(hasher, leaves[i].bytes, SWI_DIGEST_BYTES, err);
    if (status == SW_OK)
        status = swi_hasher_end(hasher, out, err);
    return status;
}

/* ---- running hashes ------------------------------------------------------------------------- */

static sw_status begin_leaf(swi_digest_tree *tree, open_leaf **out, sw_error *err)
{
    void *room;
    (void)pthread_mutex_lock(&tree->lock);
    open_leaf *found = tree->idle;
    if (found != NULL)
        tree->idle = found->next;
    (void)pthread_mutex_unlock(&tree->lock);
    if (found == NULL) {
        sw_status status = swi_alloc_array(1, sizeof *found, &room, err);
        if (status != SW_OK)
            return status;
        found = room;
        *found = (open_leaf){0};
        status = swi_hasher_make(&found->hasher, err);
        if (status != SW_OK) {
            free(found);
            return status;
        }
    }
    found->next = NULL;
    found->done_bytes = 0;
    *out = found;
    return SW_OK;
}

/* *out is NULL when there is nothing to wait for any more. */
static void wait_leaf(swi_digest_tree *tree, uint32_t tensor, uint64_t leaf, uint64_t done_bytes,
                      open_leaf **out)
{
    *out = NULL;
    (void)pthread_mutex_lock(&tree->lock);
    while (!tree->stopped && *out == NULL) {
        open_leaf **at = &tree->open;
        while (*at != NULL &&
               ((*at)->tensor != tensor || (*at)->leaf != leaf || (*at)->done_bytes != done_bytes))
            at = &(*at)->next;
        if (*at != NULL) {
            *out = *at;
            *at = (*at)->next;
        } else {
            (void)pthread_cond_wait(&tree->changed, &tree->lock);
        }
    }
    (void)pthread_mutex_unlock(&tree->lock);
}

static void put_leaf(swi_digest_tree *tree, open_leaf **list, open_leaf *leaf)
{
    (void)pthread_mutex_lock(&tree->lock);
    leaf->next = *list;
    *list = leaf;
    (void)pthread_cond_broadcast(&tree->changed);
    (void)pthread_mutex_unlock(&tree->lock);
}

/* ---- tensors -------------------------------------------------------------------------------- */

/* Keeps the digest. With the last one of a tensor *leaves holds all, and is the caller's. */
static sw_status keep_leaf(swi_digest_tree *tree, uint32_t tensor, uint64_t leaf, uint64_t count,
                           const swi_digest *digest, swi_digest **leaves, sw_error *err)
{
    sw_status status = SW_OK;
    tensor_state *s = &tree->states[tensor];
    (void)pthread_mutex_lock(&tree->lock);
    if (s->leaves == NULL) {
        void *room;
        status = swi_alloc_array((size_t)count, sizeof *s->leaves, &room, err);
        if (status == SW_OK)
            s->leaves = room;
    }
    if (status == SW_OK) {
        s->leaves[leaf] = *digest;
        if (++s->done == count) {
            *leaves = s->leaves;
            s->leaves = NULL;
        }
    }
    (void)pthread_mutex_unlock(&tree->lock);
    return status;
}

static sw_status end_leaf(swi_digest_tree *tree, const sw_tensor_info *info, sw_dtype dtype,
                          const open_leaf *at, sw_error *err)
{
    swi_digest digest, *leaves = NULL;
    sw_status status = swi_hasher_end(at->hasher, &digest, err);
    if (status == SW_OK)
        status = keep_leaf(tree, at->tensor, at->leaf, swi_digest_leaf_count(info, dtype), &digest,
                           &leaves, err);
    if (status == SW_OK && leaves != NULL)
        status = hash_tensor(at->hasher, info, dtype, leaves, &tree->out[at->tensor], err);
    free(leaves);
    return status;
}

/* ---- parts ---------------------------------------------------------------------------------- */

typedef struct adding {
    swi_digest_tree *tree;
    const swi_digest_part *part;
    sw_tensor_info info;
    uint64_t tensor_bytes;
    uint64_t from, to; /* bytes of the tensor */
} adding;

/* The bytes of the part that lie in one leaf. DIG-4 */
static sw_status add_to_leaf(const adding *a, uint64_t leaf, sw_error *err)
{
    uint64_t begin = leaf * SWI_DIGEST_LEAF_BYTES;
    uint64_t end = a->tensor_bytes - begin < SWI_DIGEST_LEAF_BYTES ? a->tensor_bytes
                                                                   : begin + SWI_DIGEST_LEAF_BYTES;
    uint64_t from = a->from > begin ? a->from : begin, to = a->to < end ? a->to : end;
    open_leaf *at = NULL;
    sw_status status = SW_OK;
    if (from == begin)
        status = begin_leaf(a->tree, &at, err);
    else
        wait_leaf(a->tree, a->part->tensor, leaf, from - begin, &at);
    if (status != SW_OK || at == NULL)
        return status;
    at->tensor = a->part->tensor;
    at->leaf = leaf;
    if (from == begin)
        status = begin_tag(at->hasher, TAG_LEAF, err);
    if (status == SW_OK)
        status =
            swi_hasher_add(at->hasher, a->part->data + (from - a->from), (size_t)(to - from), err);
    at->done_bytes = to - begin;
    bool whole = to == end;
    if (status == SW_OK && whole)
        status = end_leaf(a->tree, &a->info, a->part->dtype, at, err);
    put_leaf(a->tree, whole || status != SW_OK ? &a->tree->idle : &a->tree->open, at);
    return status;
}

static sw_status add_empty(const adding *a, sw_error *err)
{
    open_leaf *at = NULL;
    sw_status status = begin_leaf(a->tree, &at, err);
    if (status != SW_OK)
        return status;
    status = hash_tensor(at->hasher, &a->info, a->part->dtype, NULL, &a->tree->out[a->part->tensor],
                         err);
    put_leaf(a->tree, &a->tree->idle, at);
    return status;
}

/* What others wait for comes first, what waits for others last. */
sw_status swi_digest_tree_add(swi_digest_tree *tree, const swi_digest_part *part, sw_error *err)
{
    uint64_t size = sw_dtype_bytes(part->dtype);
    adding a = {.tree = tree, .part = part};
    (void)sw_catalog_tensor(tree->catalog, part->tensor, &a.info);
    if (part->elements == 0)
        return add_empty(&a, err);
    a.tensor_bytes = a.info.elements * size;
    a.from = part->first_element * size;
    a.to = a.from + part->elements * size;
    uint64_t first = a.from / SWI_DIGEST_LEAF_BYTES, last = (a.to - 1) / SWI_DIGEST_LEAF_BYTES;
    sw_status status = SW_OK;
    for (uint64_t leaf = last; leaf > first && status == SW_OK; leaf--)
        status = add_to_leaf(&a, leaf, err);
    return status == SW_OK ? add_to_leaf(&a, first, err) : status;
}

void swi_digest_tree_stop(swi_digest_tree *tree)
{
    (void)pthread_mutex_lock(&tree->lock);
    tree->stopped = true;
    (void)pthread_cond_broadcast(&tree->changed);
    (void)pthread_mutex_unlock(&tree->lock);
}
