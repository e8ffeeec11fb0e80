#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "framework.h"

struct swi_listing {
    swi_arena arena;
    swi_listing_entry *items;
    size_t count, capacity;
    const char *only; /* the one name to take; NULL: all */
};

static sw_status add_entry(void *ctx, const swi_entry *entry, sw_error *err)
{
    swi_listing *l = ctx;
    const char *slash = strrchr(entry->path, '/');
    const char *name = slash ? slash + 1 : entry->path;
    if (l->only != NULL && strcmp(l->only, name) != 0)
        return SW_OK;
    sw_status st =
        swi_grow_array((void **)&l->items, &l->capacity, l->count + 1, sizeof *l->items, err);
    if (st != SW_OK)
        return st;
    swi_listing_entry *e = &l->items[l->count];
    st = swi_arena_text(&l->arena, name, strlen(name), &e->name, err);
    if (st != SW_OK)
        return st;
    e->kind = entry->kind;
    e->is_link = entry->is_link;
    e->bytes = entry->bytes;
    e->mtime_ns = entry->mtime_ns;
    l->count++;
    return SW_OK;
}

sw_status swi_listing_make(const swi_store *store, const char *only, const sw_limits *limits,
                           swi_listing **out, sw_error *err)
{
    swi_listing *l = NULL;
    sw_status st = swi_alloc_array(1, sizeof *l, (void **)&l, err);
    if (st != SW_OK)
        return st;
    l->only = only;
    st = swi_store_list(store, "", limits->files, add_entry, l, err);
    l->only = NULL;
    if (st != SW_OK) {
        swi_listing_free(l);
        return st;
    }
    *out = l;
    return SW_OK;
}

void swi_listing_free(swi_listing *listing)
{
    if (listing == NULL)
        return;
    swi_arena_free(&listing->arena);
    free(listing->items);
    free(listing);
}

size_t swi_listing_count(const swi_listing *listing)
{
    return listing->count;
}

const swi_listing_entry *swi_listing_at(const swi_listing *listing, size_t i)
{
    return i < listing->count ? &listing->items[i] : NULL;
}

const swi_listing_entry *swi_listing_find(const swi_listing *listing, const char *name)
{
    size_t lo = 0, hi = listing->count; /* sorted bytewise by the store */
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        int order = strcmp(listing->items[mid].name, name);
        if (order == 0)
            return &listing->items[mid];
        if (order < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    return NULL;
}

bool swi_has_suffix(const char *name, const char *suffix)
{
    size_t n = strlen(name), s = strlen(suffix);
    return n >= s && memcmp(name + n - s, suffix, s) == 0;
}
