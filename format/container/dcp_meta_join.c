/*
 * Chunks and objects find their places in storage_data (DCP-5): by name and offset, as torch does.
 * The index that a key carries is a hint that is tried first; only what it does not settle is
 * sorted and searched.
 */
#include "container/dcp_internal.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/arena.h"
#include "base/checked.h"
#include "base/text.h"

typedef struct join {
    swi_dcp_parsing *p;
    uint32_t *item_of_name; /* 0 none; else index + 1 */
    uint8_t *used;          /* by key: a chunk or an object lies there */
    uint32_t *sorted;       /* keys with an offset, by name and offset */
    size_t sorted_count;
    uint64_t unsettled; /* keys that their hint did not settle */
} join;

#define OBJECT_BIT 0x80000000u

static sw_status fail_duplicate(const swi_dcp_parsing *p, const swi_dcp_key_row *key, sw_error *err)
{
    const swi_dcp_meta *m = p->meta;
    size_t size;
    char room[256];
    swi_quoted q;
    const char *name = swi_names_at(m->names, key->name, &size);
    return swi_dcp_fail(
        err, SW_ERR_CONFLICT, "DCP-5", "DCP index: storage_data has two places for %s at %s",
        swi_quote(&q, name, size),
        key->offset == SWI_DCP_NONE ? "no offset"
                                    : swi_dcp_size_text(m, key->offset, room, sizeof(room)));
}

static sw_status map_names(join *j, sw_error *err)
{
    const swi_dcp_meta *m = j->p->meta;
    void *room;
    sw_status st = swi_alloc_array(swi_names_count(m->names), sizeof(uint32_t), &room, err);
    if (st != SW_OK)
        return st;
    j->item_of_name = room;
    if (m->tensor_count >= OBJECT_BIT - 1 || m->object_count >= OBJECT_BIT - 1)
        return swi_fail(err, SW_ERR_LIMIT, "DCP index: more items than can be kept");
    for (size_t i = 0; i < m->tensor_count; i++)
        j->item_of_name[m->tensors[i].name] = (uint32_t)i + 1;
    for (size_t i = 0; i < m->object_count; i++)
        j->item_of_name[m->objects[i].name] = ((uint32_t)i + 1) | OBJECT_BIT;
    return SW_OK;
}

/* Tries what the key itself says. */
static sw_status settle(join *j, size_t i, sw_error *err)
{
    swi_dcp_meta *m = j->p->meta;
    const swi_dcp_key_row *key = &j->p->keys[i];
    uint32_t item = j->item_of_name[key->name];
    uint32_t *place = NULL;
    if (item & OBJECT_BIT) {
        place = &m->objects[(item & ~OBJECT_BIT) - 1].place;
    } else if (item != 0) {
        const swi_dcp_tensor_row *t = &m->tensors[item - 1];
        uint32_t hint = key->hint == SWI_DCP_NONE ? 0 : key->hint;
        if (key->offset != SWI_DCP_NONE && hint < t->chunk_count) {
            swi_dcp_chunk_row *chunk = &m->chunks[t->chunk_first + hint];
            if (swi_dcp_size_compare(m, chunk->offset, key->offset) == 0)
                place = &chunk->place;
        }
    }
    if (place == NULL) {
        j->unsettled++;
        return SW_OK;
    }
    if (*place != SWI_DCP_NONE)
        return fail_duplicate(j->p, key, err);
    *place = key->info;
    j->used[i] = 1;
    return SW_OK;
}

static int compare_keys(const swi_dcp_parsing *p, const swi_dcp_key_row *x,
                        const swi_dcp_key_row *y)
{
    if (x->name != y->name)
        return x->name < y->name ? -1 : 1;
    return swi_dcp_size_compare(p->meta, x->offset, y->offset);
}

static int by_key(const void *a, const void *b, void *ctx)
{
    const swi_dcp_parsing *p = ctx;
    return compare_keys(p, &p->keys[*(const uint32_t *)a], &p->keys[*(const uint32_t *)b]);
}

static sw_status sort_keys(join *j, sw_error *err)
{
    swi_dcp_parsing *p = j->p;
    void *room;
    sw_status st = swi_alloc_array(p->key_count, sizeof(uint32_t), &room, err);
    if (st != SW_OK)
        return st;
    j->sorted = room;
    for (size_t i = 0; i < p->key_count; i++)
        if (p->keys[i].info != SWI_DCP_NONE && p->keys[i].offset != SWI_DCP_NONE)
            j->sorted[j->sorted_count++] = (uint32_t)i;
    qsort_r(j->sorted, j->sorted_count, sizeof(uint32_t), by_key, p);
    for (size_t i = 1; i < j->sorted_count; i++) {
        const swi_dcp_key_row *key = &p->keys[j->sorted[i]];
        if (compare_keys(p, &p->keys[j->sorted[i - 1]], key) == 0)
            return fail_duplicate(p, key, err);
    }
    return SW_OK;
}

static void search(join *j, uint32_t name, swi_dcp_chunk_row *chunk)
{
    swi_dcp_parsing *p = j->p;
    const swi_dcp_key_row want = {.name = name, .offset = chunk->offset};
    size_t lo = 0, hi = j->sorted_count;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        int way = compare_keys(p, &p->keys[j->sorted[mid]], &want);
        if (way == 0) {
            chunk->place = p->keys[j->sorted[mid]].info;
            j->used[j->sorted[mid]] = 1;
            return;
        }
        if (way < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
}

/* The chunks that no hint led to. */
static sw_status search_missing(join *j, sw_error *err)
{
    swi_dcp_meta *m = j->p->meta;
    bool missing = false;
    for (size_t t = 0; t < m->tensor_count && !missing; t++)
        for (uint32_t i = 0; i < m->tensors[t].chunk_count && !missing; i++)
            missing = m->chunks[m->tensors[t].chunk_first + i].place == SWI_DCP_NONE;
    if (!missing && j->unsettled == 0)
        return SW_OK;
    sw_status st = sort_keys(j, err);
    for (size_t t = 0; t < m->tensor_count && st == SW_OK; t++)
        for (uint32_t i = 0; i < m->tensors[t].chunk_count; i++) {
            swi_dcp_chunk_row *chunk = &m->chunks[m->tensors[t].chunk_first + i];
            if (chunk->place == SWI_DCP_NONE)
                search(j, m->tensors[t].name, chunk);
        }
    return st;
}

/* ---- places in files ------------------------------------------------------------------------ */

/* Whether each file is filled from its begin to its end in the order of the index, as torch does.
 */
static sw_status are_ascending(const swi_dcp_parsing *p, bool *ascending, sw_error *err)
{
    const swi_dcp_meta *m = p->meta;
    void *room;
    *ascending = true;
    sw_status st = swi_alloc_array(swi_names_count(m->files), sizeof(uint64_t), &room, err);
    if (st != SW_OK)
        return st;
    uint64_t *ends = room;
    for (size_t i = 0; i < p->key_count && *ascending; i++) {
        if (p->keys[i].info == SWI_DCP_NONE)
            continue;
        const swi_dcp_info_row *info = &m->infos[p->keys[i].info];
        *ascending = info->offset_bytes >= ends[info->file] &&
                     swi_add_u64(info->offset_bytes, info->stored_bytes, &ends[info->file]);
    }
    free(ends);
    return SW_OK;
}

static int by_place(const void *a, const void *b, void *ctx)
{
    const swi_dcp_parsing *p = ctx;
    const swi_dcp_key_row *k = &p->keys[*(const uint32_t *)a], *l = &p->keys[*(const uint32_t *)b];
    const swi_dcp_info_row *x = &p->meta->infos[k->info], *y = &p->meta->infos[l->info];
    if (x->file != y->file)
        return x->file < y->file ? -1 : 1;
    if (x->offset_bytes != y->offset_bytes)
        return x->offset_bytes < y->offset_bytes ? -1 : 1;
    if (x->stored_bytes != y->stored_bytes)
        return x->stored_bytes < y->stored_bytes ? -1 : 1;
    return k->name < l->name ? -1 : k->name > l->name;
}

/* Of two neighbours: two names may stand for one item, nothing else may share bytes. */
static bool is_shared(const swi_dcp_parsing *p, uint32_t a, uint32_t b)
{
    const swi_dcp_key_row *k = &p->keys[a], *l = &p->keys[b];
    const swi_dcp_info_row *x = &p->meta->infos[k->info], *y = &p->meta->infos[l->info];
    uint64_t end;
    if (x->file != y->file || x->stored_bytes == 0 || y->stored_bytes == 0)
        return false;
    if (x->offset_bytes == y->offset_bytes && x->stored_bytes == y->stored_bytes)
        return k->name == l->name;
    return !swi_add_u64(x->offset_bytes, x->stored_bytes, &end) || y->offset_bytes < end;
}

static sw_status fail_shared(const swi_dcp_parsing *p, uint32_t a, uint32_t b, sw_error *err)
{
    const swi_dcp_meta *m = p->meta;
    const swi_dcp_info_row *info = &m->infos[p->keys[b].info];
    swi_quoted q, r, t;
    return swi_dcp_fail(err, SW_ERR_CONFLICT, "DCP-5",
                        "DCP index: items of %s and %s lie in the same bytes of %s, at %" PRIu64,
                        swi_quote_str(&q, swi_names_at(m->names, p->keys[a].name, NULL)),
                        swi_quote_str(&r, swi_names_at(m->names, p->keys[b].name, NULL)),
                        swi_quote_str(&t, swi_names_at(m->files, info->file, NULL)),
                        info->offset_bytes);
}

/* Each item has bytes of its own: an index that says otherwise has been damaged. */
static sw_status check_places(const swi_dcp_parsing *p, sw_error *err)
{
    bool ascending;
    void *room;
    size_t count = 0;
    sw_status st = are_ascending(p, &ascending, err);
    if (st != SW_OK || ascending)
        return st;
    st = swi_alloc_array(p->key_count, sizeof(uint32_t), &room, err);
    if (st != SW_OK)
        return st;
    uint32_t *order = room;
    for (size_t i = 0; i < p->key_count; i++)
        if (p->keys[i].info != SWI_DCP_NONE)
            order[count++] = (uint32_t)i;
    qsort_r(order, count, sizeof *order, by_place, (void *)p);
    for (size_t i = 1; i < count && st == SW_OK; i++)
        if (is_shared(p, order[i - 1], order[i]))
            st = fail_shared(p, order[i - 1], order[i], err);
    free(order);
    return st;
}

/* ---- all of it ------------------------------------------------------------------------------ */

sw_status swi_dcp_join(swi_dcp_parsing *p, sw_error *err)
{
    join j = {.p = p};
    swi_dcp_meta *m = p->meta;
    void *room;
    sw_status st = map_names(&j, err);
    if (st == SW_OK)
        st = swi_alloc_array(p->key_count, 1, &room, err);
    if (st == SW_OK)
        j.used = room;
    for (size_t i = 0; i < p->key_count && st == SW_OK; i++)
        if (p->keys[i].info != SWI_DCP_NONE)
            st = settle(&j, i, err);
    if (st == SW_OK)
        st = search_missing(&j, err);
    for (size_t i = 0; i < p->key_count && st == SW_OK; i++)
        if (p->keys[i].info != SWI_DCP_NONE && !j.used[i] && m->orphans++ == 0)
            m->first_orphan = p->keys[i].name;
    free(j.item_of_name);
    free(j.used);
    free(j.sorted);
    return st == SW_OK ? check_places(p, err) : st;
}
