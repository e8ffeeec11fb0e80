#include "model/value_table.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "model/value_node.h"

#define FIRST_SLOTS 64

static bool by_content(const swi_value_table *t, sw_value v, const uint8_t **data, size_t *size)
{
    return swi_value_tag(v) == SWI_TAG_STR && sw_value_bytes(t->graph, v, data, size) &&
           *size <= SWI_INTERN_MAX_BYTES;
}

static uint64_t hash(const swi_value_table *t, sw_value v)
{
    const uint8_t *data;
    size_t size;
    if (by_content(t, v, &data, &size))
        return swi_hash_bytes(t->graph->key, data, size);
    return swi_hash_bytes(t->graph->key, &v.bits, sizeof v.bits);
}

static bool same(const swi_value_table *t, sw_value a, sw_value b)
{
    const uint8_t *p, *q;
    size_t n, m;
    if (a.bits == b.bits)
        return true;
    return by_content(t, a, &p, &n) && by_content(t, b, &q, &m) && n == m &&
           (n == 0 || memcmp(p, q, n) == 0);
}

/* The slot of the key, or the free one where it would go. */
static swi_value_slot *slot_of(const swi_value_table *t, sw_value key)
{
    size_t mask = t->capacity - 1;
    size_t i = (size_t)hash(t, key) & mask;
    while (t->slots[i].key.bits != 0 && !same(t, t->slots[i].key, key))
        i = (i + 1) & mask;
    return &t->slots[i];
}

uint64_t *swi_value_table_find(const swi_value_table *table, sw_value key)
{
    if (table->capacity == 0 || key.bits == 0)
        return NULL;
    swi_value_slot *slot = slot_of(table, key);
    return slot->key.bits != 0 ? &slot->number : NULL;
}

static sw_status grow(swi_value_table *t, sw_error *err)
{
    swi_value_table fresh = {.graph = t->graph};
    fresh.capacity = t->capacity == 0 ? FIRST_SLOTS : t->capacity * 2;
    void *slots;
    sw_status status = swi_alloc_array(fresh.capacity, sizeof *fresh.slots, &slots, err);
    if (status != SW_OK)
        return status;
    fresh.slots = slots;
    fresh.count = t->count;
    for (size_t i = 0; i < t->capacity; i++) {
        if (t->slots[i].key.bits != 0)
            *slot_of(&fresh, t->slots[i].key) = t->slots[i];
    }
    free(t->slots);
    *t = fresh;
    return SW_OK;
}

sw_status swi_value_table_set(swi_value_table *table, sw_value key, uint64_t number, sw_error *err)
{
    if (key.bits == 0)
        return swi_fail(err, SW_ERR_ARG, "values: None is no node of a table");
    if (table->count >= table->capacity / 2) {
        sw_status status = grow(table, err);
        if (status != SW_OK)
            return status;
    }
    swi_value_slot *slot = slot_of(table, key);
    table->count += slot->key.bits == 0;
    *slot = (swi_value_slot){.key = key, .number = number};
    return SW_OK;
}

void swi_value_table_free(swi_value_table *table)
{
    free(table->slots);
    *table = (swi_value_table){0};
}
