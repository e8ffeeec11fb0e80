#include "stats.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "digest.h"

/* How a floating-point type of up to 64 bits encodes what is no finite number. */
typedef struct kind {
    uint32_t bytes; /* of the part that is looked at; 0: integers and opaque bits */
    uint64_t sign;
    uint64_t infinity; /* magnitudes above are NaN, this one is infinite */
    bool finite;       /* no infinity: `infinity` is the largest number */
    bool unsigned_nan; /* NaN is the sign alone */
} kind;

static kind kind_of(sw_dtype dtype)
{
    switch (dtype) {
    case SW_F16:
    case SW_C32:
        return (kind){.bytes = 2, .sign = 0x8000, .infinity = 0x7c00};
    case SW_BF16:
        return (kind){.bytes = 2, .sign = 0x8000, .infinity = 0x7f80};
    case SW_F32:
    case SW_C64:
        return (kind){.bytes = 4, .sign = 0x80000000U, .infinity = 0x7f800000U};
    case SW_F64:
    case SW_C128:
        return (kind){.bytes = 8,
                      .sign = UINT64_C(0x8000000000000000),
                      .infinity = UINT64_C(0x7ff0000000000000)};
    case SW_F8_E4M3FN:
        return (kind){.bytes = 1, .sign = 0x80, .infinity = 0x7e, .finite = true};
    case SW_F8_E5M2:
        return (kind){.bytes = 1, .sign = 0x80, .infinity = 0x7c};
    case SW_F8_E4M3FNUZ:
    case SW_F8_E5M2FNUZ:
        return (kind){
            .bytes = 1, .sign = 0x80, .infinity = 0x7f, .finite = true, .unsigned_nan = true};
    case SW_F8_E8M0FNU: /* exponents alone: no zero, no sign, 255 is NaN */
        return (kind){.bytes = 1, .infinity = 0xfe, .finite = true};
    default:
        return (kind){0};
    }
}

static uint64_t load(const uint8_t *p, uint32_t bytes)
{
    uint64_t v = 0;
    for (uint32_t i = bytes; i > 0; i--)
        v = v << 8 | p[i - 1];
    return v;
}

enum { IS_NAN = 1, IS_INFINITE = 2 };

static int judge(const kind *k, uint64_t bits)
{
    uint64_t magnitude = bits & ~k->sign;
    if (k->unsigned_nan)
        return bits == k->sign ? IS_NAN : 0;
    if (magnitude > k->infinity)
        return IS_NAN;
    return magnitude == k->infinity && !k->finite ? IS_INFINITE : 0;
}

static bool is_zero(const kind *k, sw_dtype dtype, const uint8_t *p, uint32_t size)
{
    uint32_t part = k->bytes ? k->bytes : 1;
    if (dtype == SW_F8_E8M0FNU)
        return false;
    for (uint32_t i = 0; i < size; i += part) {
        uint64_t bits = load(p + i, part);
        if (k->unsigned_nan ? bits != 0 : (bits & ~k->sign) != 0)
            return false;
    }
    return true;
}

static int judge_element(const kind *k, const uint8_t *p, uint32_t size)
{
    int found = 0;
    for (uint32_t i = 0; i < size && k->bytes > 0; i += k->bytes)
        found |= judge(k, load(p + i, k->bytes));
    return found & IS_NAN ? IS_NAN : found;
}

static bool all_zero_bytes(const uint8_t *data, size_t size)
{
    return size == 0 || (data[0] == 0 && memcmp(data, data + 1, size - 1) == 0);
}

/* ---- one leaf ----------------------------------------------------------------------------- */

/* What one leaf shows, and the bits of its first element. */
typedef struct leaf_stats {
    swi_stats stats;
    uint8_t first[16];
} leaf_stats;

static void count_elements(const swi_digest_part *leaf, uint32_t size, swi_stats *s)
{
    const kind k = kind_of(leaf->dtype);
    for (uint64_t i = 0; i < leaf->elements; i++) {
        const uint8_t *p = leaf->data + i * size;
        int found = judge_element(&k, p, size);
        if (found == IS_NAN && s->nans++ == 0)
            s->first_nan = leaf->first_element + i;
        if (found == IS_INFINITE && s->infinities++ == 0)
            s->first_infinity = leaf->first_element + i;
        s->zeros += found == 0 && is_zero(&k, leaf->dtype, p, size);
    }
}

static leaf_stats look_at(const swi_digest_part *leaf)
{
    leaf_stats out = {0};
    uint32_t size = sw_dtype_bytes(leaf->dtype);
    size_t bytes = (size_t)leaf->elements * size;
    memcpy(out.first, leaf->data, size);
    out.stats.constant = memcmp(leaf->data, leaf->data + size, bytes - size) == 0;
    if (all_zero_bytes(leaf->data, bytes) && leaf->dtype != SW_F8_E8M0FNU)
        out.stats.zeros = leaf->elements;
    else
        count_elements(leaf, size, &out.stats);
    return out;
}

/* ---- all of them -------------------------------------------------------------------------- */

typedef struct gather {
    pthread_mutex_t lock;
    leaf_stats *all; /* by index; known: some leaf has been seen */
} gather;

static void merge(leaf_stats *into, const leaf_stats *leaf, uint32_t size)
{
    swi_stats *a = &into->stats;
    const swi_stats *b = &leaf->stats;
    if (!a->known) {
        *into = *leaf;
        a->known = true;
        return;
    }
    if (b->nans > 0 && (a->nans == 0 || b->first_nan < a->first_nan))
        a->first_nan = b->first_nan;
    if (b->infinities > 0 && (a->infinities == 0 || b->first_infinity < a->first_infinity))
        a->first_infinity = b->first_infinity;
    a->nans += b->nans;
    a->infinities += b->infinities;
    a->zeros += b->zeros;
    a->constant = a->constant && b->constant && memcmp(into->first, leaf->first, size) == 0;
}

static void see(void *ctx, const swi_digest_part *leaf)
{
    gather *g = ctx;
    const leaf_stats found = look_at(leaf);
    (void)pthread_mutex_lock(&g->lock);
    merge(&g->all[leaf->tensor], &found, sw_dtype_bytes(leaf->dtype));
    (void)pthread_mutex_unlock(&g->lock);
}

static sw_status run(const swi_source *source, gather *g, const bool *want,
                     const sw_work_options *work, swi_stats *out, sw_error *err)
{
    size_t count = sw_catalog_tensor_count(source->catalog);
    void *all = NULL, *failed = NULL, *digests = NULL;
    sw_status status = swi_alloc_array(count, sizeof(leaf_stats), &all, err);
    if (status == SW_OK)
        status = swi_alloc_array(count, sizeof(bool), &failed, err);
    if (status == SW_OK)
        status = swi_alloc_array(count, sizeof(swi_digest), &digests, err);
    g->all = all;
    const swi_digest_in in = {.want = want, .see = see, .see_ctx = g, .failed = failed};
    if (status == SW_OK)
        status = swi_catalog_digests(source, &in, work, digests, NULL, err);
    for (size_t i = 0; i < count && status == SW_OK; i++) {
        out[i] = (swi_stats){0};
        if (((const bool *)failed)[i] || (want != NULL && !want[i]))
            continue;
        out[i] = g->all[i].stats;
        out[i].known = true;
        out[i].content = ((const swi_digest *)digests)[i];
    }
    free(all);
    free(failed);
    free(digests);
    return status;
}

sw_status swi_catalog_stats(const swi_source *source, const bool *want, const sw_work_options *work,
                            swi_stats *out, sw_error *err)
{
    gather g = {0};
    int rc = pthread_mutex_init(&g.lock, NULL);
    if (rc != 0)
        return swi_fail_errno(err, rc, "pthread_mutex_init");
    sw_status status = run(source, &g, want, work, out, err);
    (void)pthread_mutex_destroy(&g.lock);
    return status;
}
