#include "sharded/rank_list.h"

#include <stdlib.h>

#include "base/arena.h"
#include "base/text.h"
#include "sharded/kinds.h"

bool swi_sharded_parse(const swi_sharded_kind *kind, const char *name, swi_rank_name *out)
{
    for (size_t i = 0; i < SWI_SHARDED_NAMES && kind->names[i] != NULL; i++)
        if (swi_rank_name_parse(kind->names[i], name, out))
            return true;
    return false;
}

static int compare(uint64_t a, uint64_t b)
{
    return a < b ? -1 : a > b;
}

static int by_numbers(const void *left, const void *right)
{
    const swi_rank_name *a = &((const swi_rank_file *)left)->is;
    const swi_rank_name *b = &((const swi_rank_file *)right)->is;
    int c = compare(a->rank, b->rank);
    if (c == 0)
        c = compare(a->stage, b->stage);
    return c != 0 ? c : compare(a->part, b->part);
}

static sw_status add(swi_rank_list *l, const swi_listing_entry *e, swi_rank_name is, sw_error *err)
{
    swi_quoted q;
    if (is.rank >= SWI_RANKS_MAX)
        return swi_fail(err, SW_ERR_LIMIT, "%s: rank %llu is beyond what any run has",
                        swi_quote_str(&q, e->name), (unsigned long long)is.rank);
    sw_status st =
        swi_grow_array((void **)&l->items, &l->capacity, l->count + 1, sizeof *l->items, err);
    if (st != SW_OK)
        return st;
    l->items[l->count++] = (swi_rank_file){e->name, e->bytes, is};
    if (is.rank >= l->ranks)
        l->ranks = is.rank + 1;
    return SW_OK;
}

sw_status swi_rank_list_find(const swi_sharded_kind *kind, const swi_listing *listing,
                             swi_rank_list *out, sw_error *err)
{
    swi_rank_list l = {0};
    sw_status st = SW_OK;
    for (size_t i = 0; st == SW_OK && i < swi_listing_count(listing); i++) {
        const swi_listing_entry *e = swi_listing_at(listing, i);
        swi_rank_name is;
        if (e->kind == SWI_ENTRY_FILE && swi_sharded_parse(kind, e->name, &is))
            st = add(&l, e, is, err);
    }
    if (st == SW_OK && l.count == 0)
        st = swi_fail(err, SW_ERR_INCOMPLETE, "none of its files is there");
    if (st != SW_OK) {
        swi_rank_list_free(&l);
        return st;
    }
    qsort(l.items, l.count, sizeof *l.items, by_numbers);
    *out = l;
    return SW_OK;
}

void swi_rank_list_free(swi_rank_list *list)
{
    free(list->items);
    *list = (swi_rank_list){0};
}

size_t swi_rank_list_first(const swi_rank_list *list, uint64_t rank)
{
    size_t i = 0;
    while (i < list->count && list->items[i].is.rank < rank)
        i++;
    return i;
}

const char *swi_rank_list_path(const void *list, uint32_t i)
{
    const swi_rank_list *l = list;
    return l->items[i].path;
}
