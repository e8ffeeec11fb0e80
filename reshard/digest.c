/* Clauses of specs/digest.md. */
#include "digest.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/checked.h"
#include "cast.h"
#include "places.h"
#include "pool.h"
#include "view.h"

/* What a leaf may need before it is cast: from float64 to a type of two bytes. */
#define RAW_MAX (4 * SWI_DIGEST_LEAF_BYTES)

typedef struct digest_run {
    swi_source source;
    swi_decoded *decoded; /* that of the source; NULL: none of its own */
    const swi_digest_in *in;
    swi_pool *pool;
    uint32_t *order; /* wanted tensors, by file and offset */
    uint32_t count;
    uint32_t position; /* the walk, under the pool's lock */
    uint64_t leaf;
    swi_digest_tree *tree;
    pthread_mutex_t lock; /* of in->failed */
} digest_run;

typedef struct digest_worker {
    uint32_t tensor;
    uint64_t leaf;
    uint64_t leaf_count;
    swi_view view;
    bool has_view;
    uint8_t *raw;
    uint8_t *cast; /* NULL: nothing is cast */
    sw_tally tally;
} digest_worker;

sw_dtype swi_digest_dtype(sw_dtype dtype, sw_dtype as)
{
    if (as == SW_DTYPE_NONE || !sw_dtype_is_float(dtype))
        return dtype;
    return swi_cast_possible(dtype, as) ? as : dtype;
}

/* ---- the order ---------------------------------------------------------------------------- */

/* Damaged tensors end it, or are marked. */
static sw_status refuse_damaged(const digest_run *r, uint32_t tensor, bool *skip, sw_error *err)
{
    sw_status defect = swi_tensor_defect(r->source.catalog, tensor);
    *skip = defect != SW_OK;
    if (defect == SW_OK)
        return SW_OK;
    if (r->in->failed != NULL) {
        r->in->failed[tensor] = true;
        return SW_OK;
    }
    return swi_tensor_refuse(r->source.catalog, tensor, err);
}

/* The wanted tensors, and their bytes. */
static sw_status fill_order(digest_run *r, uint64_t *bytes, sw_error *err)
{
    const sw_catalog *catalog = r->source.catalog;
    for (uint32_t i = 0; i < sw_catalog_tensor_count(catalog); i++) {
        sw_tensor_info info;
        bool skip;
        if (r->in->want != NULL && !r->in->want[i])
            continue;
        sw_catalog_tensor(catalog, i, &info);
        sw_status status = refuse_damaged(r, i, &skip, err);
        if (status != SW_OK)
            return status;
        if (skip)
            continue;
        r->order[r->count++] = i;
        if (!swi_add_u64(*bytes, info.bytes, bytes))
            *bytes = UINT64_MAX;
    }
    return SW_OK;
}

static sw_status make_order(digest_run *r, uint64_t *bytes, sw_error *err)
{
    void *room;
    sw_status status =
        swi_alloc_array(sw_catalog_tensor_count(r->source.catalog), sizeof *r->order, &room, err);
    if (status != SW_OK)
        return status;
    r->order = room;
    status = fill_order(r, bytes, err);
    return status == SW_OK ? swi_sort_by_place(r->source.catalog, r->order, r->count, err) : status;
}

/* ---- the work ----------------------------------------------------------------------------- */

/* Tensors without elements are a unit without a leaf. */
static bool take(void *ctx, void *arg)
{
    digest_run *r = ctx;
    digest_worker *w = arg;
    sw_tensor_info info;
    if (r->position >= r->count)
        return false;
    w->tensor = r->order[r->position];
    sw_catalog_tensor(r->source.catalog, w->tensor, &info);
    w->leaf_count = swi_digest_leaf_count(&info, swi_digest_dtype(info.dtype, r->in->as));
    w->leaf = r->leaf++;
    if (r->leaf >= w->leaf_count) {
        r->position++;
        r->leaf = 0;
    }
    return true;
}

static sw_status open_view(digest_run *r, digest_worker *w, sw_error *err)
{
    if (w->has_view && w->view.tensor == w->tensor)
        return SW_OK;
    sw_status status = w->has_view ? swi_view_turn(&w->view, w->tensor, err)
                                   : swi_view_open(&r->source, w->tensor, &w->view, err);
    w->has_view = status == SW_OK;
    return status;
}

static sw_status read_leaf(digest_run *r, digest_worker *w, swi_digest_part *leaf, sw_error *err)
{
    sw_status status = open_view(r, w, err);
    if (status != SW_OK)
        return status;
    const sw_tensor_info *info = &w->view.info;
    sw_dtype dtype = swi_digest_dtype(info->dtype, r->in->as);
    uint64_t each = swi_digest_leaf_elements(dtype), lo = w->leaf * each;
    uint64_t count = info->elements - lo < each ? info->elements - lo : each;
    w->view.tally = (sw_tally){0};
    status = swi_view_read(&w->view, lo, lo + count, w->raw, err);
    w->tally.read_bytes += w->view.tally.read_bytes;
    w->tally.checked_bytes += w->view.tally.checked_bytes;
    if (status != SW_OK)
        return status;
    *leaf = (swi_digest_part){.tensor = w->tensor,
                              .dtype = dtype,
                              .first_element = lo,
                              .elements = count,
                              .data = w->raw};
    if (dtype != info->dtype) {
        swi_cast(w->raw, info->dtype, w->cast, dtype, (size_t)count, &w->tally);
        leaf->data = w->cast;
    }
    atomic_fetch_add(&r->pool->done_bytes, count * sw_dtype_bytes(info->dtype));
    return SW_OK;
}

static sw_status do_leaf(digest_run *r, digest_worker *w, sw_error *err)
{
    sw_tensor_info info;
    sw_catalog_tensor(r->source.catalog, w->tensor, &info);
    swi_digest_part leaf = {.tensor = w->tensor, .dtype = swi_digest_dtype(info.dtype, r->in->as)};
    sw_status status = w->leaf_count > 0 ? read_leaf(r, w, &leaf, err) : SW_OK;
    if (status == SW_OK)
        status = swi_digest_tree_add(r->tree, &leaf, err);
    if (status == SW_OK && r->in->see != NULL && w->leaf_count > 0)
        r->in->see(r->in->see_ctx, &leaf);
    return status;
}

/* Whether an error is of the tensor, which may be passed over, and not of this program. */
static bool is_of_tensor(sw_status status)
{
    return status == SW_ERR_CORRUPT || status == SW_ERR_INCOMPLETE || status == SW_ERR_CONFLICT ||
           status == SW_ERR_FORMAT || status == SW_ERR_UNSUPPORTED || status == SW_ERR_UNSAFE;
}

static sw_status work_leaf(void *ctx, void *arg, sw_error *err)
{
    digest_run *r = ctx;
    digest_worker *w = arg;
    if (r->in->failed == NULL)
        return do_leaf(r, w, err);
    (void)pthread_mutex_lock(&r->lock);
    bool failed = r->in->failed[w->tensor];
    (void)pthread_mutex_unlock(&r->lock);
    if (failed)
        return SW_OK;
    sw_status status = do_leaf(r, w, err);
    if (!is_of_tensor(status))
        return status;
    (void)pthread_mutex_lock(&r->lock);
    r->in->failed[w->tensor] = true;
    (void)pthread_mutex_unlock(&r->lock);
    return SW_OK;
}

/* ---- the run ------------------------------------------------------------------------------ */

static sw_status worker_begin(digest_worker *w, bool casts, sw_error *err)
{
    void *room;
    uint64_t bytes = casts ? RAW_MAX : SWI_DIGEST_LEAF_BYTES;
    sw_status status = swi_alloc_array((size_t)bytes, 1, &room, err);
    if (status != SW_OK)
        return status;
    w->raw = room;
    if (!casts)
        return SW_OK;
    status = swi_alloc_array((size_t)SWI_DIGEST_LEAF_BYTES, 1, &room, err);
    if (status == SW_OK)
        w->cast = room;
    return status;
}

static void worker_end(digest_worker *w, sw_tally *tally)
{
    if (w->has_view)
        swi_view_close(&w->view);
    free(w->raw);
    free(w->cast);
    if (tally != NULL)
        swi_tally_add(tally, &w->tally);
}

/* What a thread needs besides its share of decoded chunks. */
static uint64_t thread_bytes(bool casts)
{
    uint64_t each = SWI_DIGEST_LEAF_BYTES + (SWI_DIGEST_LEAF_BYTES >> 1);
    return each + (casts ? RAW_MAX : 0);
}

static sw_status run_all(digest_run *r, const sw_work_options *work, uint64_t bytes,
                         sw_tally *tally, sw_error *err)
{
    bool casts = r->in->as != SW_DTYPE_NONE;
    const swi_chunk_sizes sizes = swi_chunk_sizes_of(r->source.catalog);
    const swi_decoded_share share = swi_decoded_divide(&sizes, swi_work_memory(work),
                                                       swi_work_threads(work), thread_bytes(casts));
    uint32_t threads = share.threads;
    void *workers = NULL, *list = NULL;
    sw_status status = swi_decoded_make(share.slots, sizes.raw, &r->decoded, err);
    r->source.decoded = r->decoded;
    if (status == SW_OK)
        status = swi_alloc_array(threads, sizeof(digest_worker), &workers, err);
    if (status == SW_OK)
        status = swi_alloc_array(threads, sizeof(void *), &list, err);
    for (uint32_t i = 0; i < threads && status == SW_OK; i++) {
        ((void **)list)[i] = (digest_worker *)workers + i;
        status = worker_begin((digest_worker *)workers + i, casts, err);
    }
    const swi_job job = {.ctx = r, .take = take, .work = work_leaf};
    if (status == SW_OK)
        status = swi_pool_run(r->pool, &job, list, threads, work, bytes, err);
    for (uint32_t i = 0; i < threads && workers != NULL; i++)
        worker_end((digest_worker *)workers + i, tally);
    free(list);
    free(workers);
    return status;
}

sw_status swi_catalog_digests(const swi_source *source, const swi_digest_in *in,
                              const sw_work_options *work, swi_digest *out, sw_tally *tally,
                              sw_error *err)
{
    swi_pool pool = {0};
    digest_run r = {.source = *source, .in = in, .pool = &pool};
    uint64_t bytes = 0;
    int rc = pthread_mutex_init(&r.lock, NULL);
    if (rc != 0)
        return swi_fail_errno(err, rc, "pthread_mutex_init");
    sw_status status = swi_pool_init(&pool, err);
    if (status == SW_OK)
        status = make_order(&r, &bytes, err);
    if (status == SW_OK)
        status = swi_digest_tree_make(source->catalog, out, &r.tree, err);
    if (status == SW_OK)
        status = run_all(&r, work, bytes, tally, err);
    swi_digest_tree_free(r.tree);
    swi_decoded_free(r.decoded);
    free(r.order);
    swi_pool_end(&pool);
    (void)pthread_mutex_destroy(&r.lock);
    return status;
}
