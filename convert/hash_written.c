/* The list of what a conversion has written (specs/digest.md, DIG-15). */
#include <stdlib.h>
#include <string.h>

#include "digest.h"
#include "hash.h"

typedef struct listing {
    const swi_written *w;
    const sw_catalog *source, *target;
    sw_dtype *known; /* by tensor of the source: what it was hashed as; NONE: it was not */
    bool *want;      /* to be hashed there */
    swi_digest *digests;
    swi_digest_list list;
} listing;

/* Those of the layout, whose elements passed. */
static sw_status add_layout(listing *l, sw_error *err)
{
    sw_status st = SW_OK;
    for (size_t i = 0; i < sw_catalog_tensor_count(l->target) && st == SW_OK; i++) {
        sw_tensor_info info;
        uint32_t source = swi_layout_source(l->w->layout, (uint32_t)i);
        sw_catalog_tensor(l->target, i, &info);
        l->digests[source] = l->w->digests[i];
        l->known[source] = info.dtype;
        st = swi_digest_list_add(&l->list, info.name, strlen(info.name), &l->w->digests[i], err);
    }
    return st;
}

static sw_dtype source_dtype(const listing *l, uint32_t source)
{
    sw_tensor_info info;
    sw_catalog_tensor(l->source, source, &info);
    return info.dtype;
}

/* Of another name of what passed the digest is known, if both were written as one type. */
static bool is_known(listing *l, const swi_layout_view *view)
{
    sw_tensor_info info;
    if (l->known[view->source] != SW_DTYPE_NONE)
        return true;
    sw_catalog_tensor(l->source, view->source, &info);
    if (info.alias_of < 0 || info.piece_count > 0 || l->known[info.alias_of] != view->dtype)
        return false;
    l->digests[view->source] = l->digests[info.alias_of];
    return true;
}

/* Hashes in the source what views see of it, cast or not: most are known already. */
static sw_status hash_views(listing *l, bool cast, sw_error *err)
{
    const swi_source source = swi_checkpoint_source(l->w->source);
    swi_digest_in in = {.want = l->want};
    bool any = false;
    memset(l->want, 0, sw_catalog_tensor_count(l->source) * sizeof *l->want);
    for (size_t i = 0; i < swi_layout_view_count(l->w->layout); i++) {
        const swi_layout_view *view = swi_layout_view_at(l->w->layout, i);
        if ((view->dtype != source_dtype(l, view->source)) != cast || is_known(l, view))
            continue;
        any = l->want[view->source] = true;
        in.as = cast ? view->dtype : SW_DTYPE_NONE; /* of all that are cast: that of --dtype */
    }
    return any ? swi_catalog_digests(&source, &in, l->w->work, l->digests, NULL, err) : SW_OK;
}

static sw_status add_views(listing *l, sw_error *err)
{
    sw_status st = hash_views(l, false, err);
    if (st == SW_OK)
        st = hash_views(l, true, err);
    for (size_t i = 0; i < swi_layout_view_count(l->w->layout) && st == SW_OK; i++) {
        const swi_layout_view *v = swi_layout_view_at(l->w->layout, i);
        st = swi_digest_list_add(&l->list, v->name, strlen(v->name), &l->digests[v->source], err);
    }
    return st;
}

sw_status swi_digests_of_written(const swi_written *written, swi_digest_list *out, sw_error *err)
{
    listing l = {.w = written,
                 .source = sw_checkpoint_catalog(written->source),
                 .target = swi_layout_catalog(written->layout),
                 .list = {.weights = written->hashed.weights, .as = written->hashed.as}};
    size_t count = sw_catalog_tensor_count(l.source);
    sw_status st = swi_alloc_array(count, sizeof *l.known, (void **)&l.known, err);
    if (st == SW_OK)
        st = swi_alloc_array(count, sizeof *l.want, (void **)&l.want, err);
    if (st == SW_OK)
        st = swi_alloc_array(count, sizeof *l.digests, (void **)&l.digests, err);
    if (st == SW_OK)
        st = add_layout(&l, err);
    if (st == SW_OK)
        st = add_views(&l, err);
    if (st == SW_OK)
        st = swi_digest_list_end(&l.list, err);
    free(l.known);
    free(l.want);
    free(l.digests);
    if (st != SW_OK) {
        swi_digest_list_free(&l.list);
        return st;
    }
    *out = l.list;
    return SW_OK;
}
