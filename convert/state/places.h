/*
 * The containers of a saved state dict, each once, and how it is reached: dicts, lists and tuples,
 * in the order of a breadth-first walk that the caller leads. Private to convert/.
 */
#ifndef SW_CONVERT_PLACES_H
#define SW_CONVERT_PLACES_H

#include "base/arena.h"
#include "model/value_table.h"

typedef struct swi_place {
    sw_value v;
    size_t parent;    /* index of the place that holds it */
    const char *part; /* key there, "#0" in a list; NULL: the root */
} swi_place;

typedef struct swi_places {
    const sw_value_graph *graph;
    swi_place *items; /* a queue: those below a place are added behind */
    size_t count, capacity;
    swi_value_table seen;
    swi_arena arena;
} swi_places;

/* Begins with `root`, when that is a container. */
SW_MUST_USE sw_status swi_places_begin(swi_places *places, const sw_value_graph *graph,
                                       sw_value root, sw_error *err);
/* Adds the containers that place `at` holds directly and that were not met yet. */
SW_MUST_USE sw_status swi_places_below(swi_places *places, size_t at, sw_error *err);
void swi_places_end(swi_places *places);

/* A LIST or a TUPLE. */
bool swi_value_is_sequence(const sw_value_graph *graph, sw_value v);

#endif
