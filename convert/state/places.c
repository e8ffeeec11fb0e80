#include "state/places.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool swi_value_is_sequence(const sw_value_graph *graph, sw_value v)
{
    sw_value_kind kind = sw_value_get_kind(graph, v);
    return kind == SW_VALUE_LIST || kind == SW_VALUE_TUPLE;
}

static sw_status reach(swi_places *s, sw_value v, size_t parent, const char *part, sw_error *err)
{
    sw_value dict;
    if ((!sw_value_as_dict(s->graph, v, &dict) && !swi_value_is_sequence(s->graph, v)) ||
        swi_value_table_find(&s->seen, v) != NULL)
        return SW_OK;
    sw_status st = swi_value_table_set(&s->seen, v, 1, err);
    if (st == SW_OK)
        st = swi_grow_array((void **)&s->items, &s->capacity, s->count + 1, sizeof *s->items, err);
    if (st == SW_OK && part != NULL)
        st = swi_arena_text(&s->arena, part, strlen(part), &part, err);
    if (st == SW_OK)
        s->items[s->count++] = (swi_place){v, parent, part};
    return st;
}

sw_status swi_places_begin(swi_places *places, const sw_value_graph *graph, sw_value root,
                           sw_error *err)
{
    *places = (swi_places){.graph = graph, .seen.graph = graph};
    return reach(places, root, 0, NULL, err);
}

sw_status swi_places_below(swi_places *s, size_t at, sw_error *err)
{
    sw_value v = s->items[at].v, dict, key, item;
    sw_status st = SW_OK;
    char number[32];
    int64_t id;
    for (size_t i = 0; st == SW_OK && sw_value_item(s->graph, v, i, &item); i++) {
        (void)snprintf(number, sizeof number, "#%zu", i);
        st = reach(s, item, at, number, err);
    }
    if (!sw_value_as_dict(s->graph, v, &dict))
        return st;
    for (size_t i = 0; st == SW_OK && sw_value_pair(s->graph, dict, i, &key, &item); i++) {
        const uint8_t *text = (const uint8_t *)number;
        size_t size;
        if (sw_value_int(s->graph, key, &id))
            (void)snprintf(number, sizeof number, "%" PRId64, id);
        else if (sw_value_get_kind(s->graph, key) != SW_VALUE_STR ||
                 !sw_value_bytes(s->graph, key, &text, &size))
            continue;
        st = reach(s, item, at, (const char *)text, err);
    }
    return st;
}

void swi_places_end(swi_places *places)
{
    free(places->items);
    swi_value_table_free(&places->seen);
    swi_arena_free(&places->arena);
    *places = (swi_places){0};
}
