/*
 * A table from nodes of one graph to numbers, for walks: what was met before, and as what. Short
 * text counts as the same node when it says the same, for the graph's cache makes one node of equal
 * texts only by chance and what a walk writes must not depend on that.
 */
#ifndef SW_MODEL_VALUE_TABLE_H
#define SW_MODEL_VALUE_TABLE_H

#include "model/value.h"

typedef struct swi_value_slot {
    sw_value key; /* no bits: free */
    uint64_t number;
} swi_value_slot;

typedef struct swi_value_table {
    const sw_value_graph *graph;
    swi_value_slot *slots;
    size_t count, capacity; /* a power of 2, or 0 */
} swi_value_table;

/* The number of a node, or NULL; valid until the next set. None is never in a table. */
uint64_t *swi_value_table_find(const swi_value_table *table, sw_value key);
SW_MUST_USE sw_status swi_value_table_set(swi_value_table *table, sw_value key, uint64_t number,
                                          sw_error *err);
void swi_value_table_free(swi_value_table *table); /* ends with {0} */

#endif
