#include "extents.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/checked.h"
#include "base/text.h"

#define LOCKS 16U

typedef struct slot {
    uint64_t key; /* blob id + 1, 0: empty */
    swi_blob_want want;
    swi_extent extent;
} slot;

struct swi_extents {
    const swi_source *source;
    pthread_mutex_t locks[LOCKS]; /* slot s is under lock s % LOCKS, also while it is resolved */
    uint32_t lock_count;
    slot *slots;
    uint32_t slot_count;
};

sw_status swi_extents_make(const swi_source *source, uint32_t slots, swi_extents **out,
                           sw_error *err)
{
    void *p;
    sw_status status = swi_alloc_array(1, sizeof(swi_extents), &p, err);
    if (status != SW_OK)
        return status;
    swi_extents *extents = p;
    extents->source = source;
    extents->slot_count = slots;
    status = swi_alloc_array(slots, sizeof(slot), &p, err);
    if (status != SW_OK)
        goto done;
    extents->slots = p;
    for (uint32_t i = 0; i < LOCKS; i++) {
        int rc = pthread_mutex_init(&extents->locks[i], NULL);
        if (rc != 0) {
            status = swi_fail_errno(err, rc, "pthread_mutex_init");
            goto done;
        }
        extents->lock_count++;
    }
    *out = extents;
    extents = NULL;
done:
    swi_extents_free(extents);
    return status;
}

void swi_extents_free(swi_extents *extents)
{
    if (extents == NULL)
        return;
    for (uint32_t i = 0; i < extents->lock_count; i++)
        (void)pthread_mutex_destroy(&extents->locks[i]);
    free(extents->slots);
    free(extents);
}

void swi_extent_piece(const swi_extent *extent, swi_piece *out)
{
    *out = (swi_piece){.axes = extent->axes, .base_bytes = (int64_t)extent->start_bytes};
    for (uint32_t k = 0; k < extent->axes && k < SW_MAX_AXES; k++) {
        out->view[k] = extent->shape[k];
        out->length[k] = extent->shape[k];
        out->stride_bytes[k] = extent->stride_bytes[k];
    }
}

static sw_status check_encoded(const swi_blob *blob, const swi_extent *extent, sw_error *err)
{
    if (blob->ops->decode == NULL || extent->strided || extent->swap || extent->has_crc ||
        extent->start_bytes != 0)
        return swi_fail(err, SW_ERR_UNSUPPORTED, "record at %" PRIu64 " is encoded, and more",
                        extent->offset_bytes);
    if (extent->stored_bytes > SWI_ENCODED_MAX || blob->bytes > SWI_ENCODED_MAX)
        return swi_fail(err, SW_ERR_LIMIT,
                        "encoded record at %" PRIu64 ": %" PRIu64 " bytes stored, %" PRIu64
                        " decoded, more than %" PRIu64,
                        extent->offset_bytes, extent->stored_bytes, blob->bytes, SWI_ENCODED_MAX);
    return SW_OK;
}

/* What a kind says of a record is not believed where it would be read from. */
static sw_status check_extent(const swi_blob *blob, sw_dtype dtype, const swi_extent *extent,
                              sw_error *err)
{
    uint64_t end, elements;
    uint32_t element_bytes = sw_dtype_bytes(dtype);
    if (extent->pattern_bytes > 0)
        return SW_OK;
    if (!swi_add_u64(extent->offset_bytes, extent->stored_bytes, &end) || end > INT64_MAX ||
        extent->start_bytes > extent->stored_bytes)
        return swi_fail(err, SW_ERR_CORRUPT, "record at %" PRIu64 " passes all bounds",
                        extent->offset_bytes);
    if (extent->encoded)
        return check_encoded(blob, extent, err);
    if (extent->strided) {
        swi_piece piece;
        swi_extent_piece(extent, &piece);
        if (extent->axes > SW_MAX_AXES ||
            !swi_shape_elements(extent->axes, extent->shape, &elements) ||
            elements != blob->bytes / element_bytes || blob->bytes % element_bytes != 0)
            return swi_fail(err, SW_ERR_CORRUPT,
                            "record at %" PRIu64 " does not have the shape of its %" PRIu64
                            " bytes",
                            extent->offset_bytes, blob->bytes);
        return swi_piece_check(&piece, elements, element_bytes, extent->stored_bytes, err);
    }
    if (!swi_range_inside(extent->start_bytes, blob->bytes, extent->stored_bytes))
        return swi_fail(
            err, SW_ERR_CORRUPT,
            "record at %" PRIu64 ": needs %" PRIu64 " bytes from %" PRIu64 " on, holds %" PRIu64,
            extent->offset_bytes, blob->bytes, extent->start_bytes, extent->stored_bytes);
    return SW_OK;
}

sw_status swi_prefix_file(const sw_catalog *catalog, uint32_t file, sw_error *err)
{
    if (err == NULL || err->status == SW_OK || file >= sw_catalog_file_count(catalog))
        return err != NULL ? err->status : SW_OK;
    swi_quoted room;
    const char *path = swi_quote_str(&room, swi_catalog_path(catalog, file));
    if (strncmp(err->text, path, strlen(path)) == 0)
        return err->status;
    return swi_error_prefix(err, "%s", path);
}

static bool same_want(const swi_blob_want *a, const swi_blob_want *b)
{
    return a->dtype == b->dtype && a->has_shape == b->has_shape && a->axes == b->axes &&
           memcmp(a->shape, b->shape, a->axes * sizeof a->shape[0]) == 0;
}

sw_status swi_extents_get(swi_extents *extents, uint32_t blob_id, const swi_blob_want *want,
                          swi_blob *blob, swi_extent *out, sw_error *err)
{
    const sw_catalog *catalog = extents->source->catalog;
    uint32_t s = blob_id % extents->slot_count;
    slot *entry = &extents->slots[s];
    pthread_mutex_t *lock = &extents->locks[s % LOCKS];
    sw_status status = SW_OK;
    swi_catalog_blob(catalog, blob_id, blob);
    (void)pthread_mutex_lock(lock);
    if (entry->key != (uint64_t)blob_id + 1 || !same_want(&entry->want, want)) {
        swi_extent extent;
        entry->key = 0;
        status = blob->ops->resolve(blob, extents->source->reader, want, &extent, err);
        if (status == SW_OK)
            status = check_extent(blob, want->dtype, &extent, err);
        if (status == SW_OK)
            *entry = (slot){.key = (uint64_t)blob_id + 1, .want = *want, .extent = extent};
    }
    if (status == SW_OK)
        *out = entry->extent;
    (void)pthread_mutex_unlock(lock);
    if (status != SW_OK)
        (void)swi_prefix_file(catalog, blob->file, err);
    return status;
}
