/* The list of what a conversion has written (specs/digest.md, DIG-15). */
#include <stdlib.h>
#include <string.h>

#include "digest.h"
#include "hash.h"

typedef struct listing {
    const swi_written *w;
    const sw_catalog *source, *target;
    bool *known; /* by tensor of the source */
    bool *want;  /* to be hashed there */
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
        l->known[source] = true;
        st = swi_digest_list_add(&l->list, info.name, strlen(info.name), &l->w->digests[i], err);
    }
    return st;
}

/* Of another name of what passed the digest is known. */
static void find_views(listing *l, bool *any)
{
    *any = false;
    for (size_t i = 0; i < swi_layout_view_count(l->w->layout); i++) {
        sw_tensor_info info;
        uint32_t source = swi_layout_view_at(l->w->layout, i)->source;
        if (l->known[source])
            continue;
        sw_catalog_tensor(l->source, source, &info);
        bool same = info.alias_of >= 0 && info.piece_count == 0 && l->known[info.alias_of];
        if (same)
            l->digests[source] = l->digests[info.alias_of];
        l->want[source] = !same;
        *any |= !same;
    }
}

static sw_status add_views(listing *l, sw_error *err)
{
    bool any;
    sw_status st = SW_OK;
    find_views(l, &any);
    if (any) {
        const swi_source source = swi_checkpoint_source(l->w->source);
        const swi_digest_in in = {.want = l->want, .as = l->w->hashed.as};
        st = swi_catalog_digests(&source, &in, l->w->work, l->digests, NULL, err);
    }
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
