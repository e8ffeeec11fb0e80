/* The list of what a conversion has written (specs/digest.md, DIG-15). */
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/names.h"
#include "check/hash.h"
#include "digest.h"

typedef struct listing {
    const swi_written *w;
    const sw_catalog *source, *target;
    sw_dtype *known;     /* by tensor of the source: what it was hashed as; NONE: it was not */
    swi_digest *digests; /* likewise */
    swi_names *listed;
    swi_digest_list list;
} listing;

static sw_status add(listing *l, const char *name, const swi_digest *digest, sw_error *err)
{
    uint32_t id;
    sw_status st = swi_names_add(l->listed, name, strlen(name), &id, NULL, err);
    return st == SW_OK ? swi_digest_list_add(&l->list, name, strlen(name), digest, err) : st;
}

/* Those of the layout, whose elements passed. */
static sw_status add_layout(listing *l, sw_error *err)
{
    sw_status st = SW_OK;
    for (size_t i = 0; i < sw_catalog_tensor_count(l->target) && st == SW_OK; i++) {
        sw_tensor_info info;
        uint32_t source = swi_layout_source(l->w->layout, (uint32_t)i);
        sw_catalog_tensor(l->target, i, &info);
        /* What is scaled is not what other names of the source see. */
        if (swi_layout_scale_of(l->w->layout, (uint32_t)i) < 0) {
            l->digests[source] = l->w->digests[i];
            l->known[source] = info.dtype;
        }
        st = add(l, info.name, &l->w->digests[i], err);
    }
    return st;
}

/* Of other names of what passed, if both were written as one type. */
static sw_status add_views(listing *l, sw_error *err)
{
    sw_status st = SW_OK;
    for (size_t i = 0; i < swi_layout_view_count(l->w->layout) && st == SW_OK; i++) {
        const swi_layout_view *view = swi_layout_view_at(l->w->layout, i);
        uint32_t source = view->source;
        sw_tensor_info info;
        sw_catalog_tensor(l->source, source, &info);
        if (l->known[source] == SW_DTYPE_NONE && info.alias_of >= 0 && info.piece_count == 0)
            source = (uint32_t)info.alias_of;
        if (l->known[source] == view->dtype)
            st = add(l, view->name, &l->digests[source], err);
    }
    return st;
}

/* All others: views of a part of a storage, tensors that were part of a value. */
static sw_status add_rest(listing *l, sw_error *err)
{
    const swi_source result = swi_checkpoint_source(l->w->result);
    size_t count = sw_catalog_tensor_count(result.catalog), rest = 0;
    sw_tensor_info info;
    bool *want = NULL;
    swi_digest *digests = NULL;
    sw_status st = swi_alloc_array(count, sizeof *want, (void **)&want, err);
    if (st == SW_OK)
        st = swi_alloc_array(count, sizeof *digests, (void **)&digests, err);
    for (size_t i = 0; i < count && st == SW_OK; i++) {
        sw_catalog_tensor(result.catalog, i, &info);
        want[i] = swi_names_find(l->listed, info.name, strlen(info.name)) < 0;
        rest += want[i];
    }
    const swi_digest_in in = {.want = want};
    if (st == SW_OK && rest > 0)
        st = swi_catalog_digests(&result, &in, l->w->work, digests, NULL, err);
    for (size_t i = 0; i < count && st == SW_OK && rest > 0; i++) {
        sw_catalog_tensor(result.catalog, i, &info);
        if (want[i])
            st = add(l, info.name, &digests[i], err);
    }
    free(want);
    free(digests);
    return st;
}

sw_status swi_digests_of_written(const swi_written *written, swi_digest_list *out, sw_error *err)
{
    listing l = {.w = written,
                 .source = sw_checkpoint_catalog(written->source),
                 .target = swi_layout_catalog(written->layout),
                 .list = {.weights = written->hashed.weights, .as = written->hashed.as}};
    size_t count = sw_catalog_tensor_count(l.source);
    sw_status st = swi_names_make(&l.listed, err);
    if (st == SW_OK)
        st = swi_alloc_array(count, sizeof *l.known, (void **)&l.known, err);
    if (st == SW_OK)
        st = swi_alloc_array(count, sizeof *l.digests, (void **)&l.digests, err);
    if (st == SW_OK)
        st = add_layout(&l, err);
    if (st == SW_OK)
        st = add_views(&l, err);
    if (st == SW_OK)
        st = add_rest(&l, err);
    if (st == SW_OK)
        st = swi_digest_list_end(&l.list, err);
    swi_names_free(l.listed);
    free(l.known);
    free(l.digests);
    if (st != SW_OK) {
        swi_digest_list_free(&l.list);
        return st;
    }
    *out = l.list;
    return SW_OK;
}
