/* The order in which the modules of a state dict have their parameters. */
#include <stdlib.h>
#include <string.h>

#include "select/names.h"
#include "state/modules.h"
#include "state/places.h"

typedef struct listing {
    const sw_checkpoint *checkpoint;
    const swi_state *state;
    swi_order *out;
    size_t capacity;
} listing;

static sw_status add_module(listing *l, sw_value dict, sw_error *err)
{
    swi_named *tensors = NULL;
    size_t count = 0;
    sw_status st = swi_module_tensors(l->checkpoint, l->state->graph, dict, &tensors, &count, err);
    for (size_t i = 0; st == SW_OK && i < count; i++) {
        st = swi_grow_array((void **)&l->out->names, &l->capacity, l->out->count + 1,
                            sizeof *l->out->names, err);
        if (st == SW_OK)
            st = swi_arena_text(&l->out->arena, tensors[i].name, strlen(tensors[i].name),
                                &l->out->names[l->out->count], err);
        l->out->count += st == SW_OK;
    }
    free(tensors);
    return st;
}

sw_status swi_state_order(const sw_checkpoint *checkpoint, const swi_state *state, swi_order *out,
                          sw_error *err)
{
    swi_order made = {0};
    listing l = {.checkpoint = checkpoint, .state = state, .out = &made};
    swi_places places = {0};
    sw_value dict;
    uint64_t removed = 0;
    sw_status st = swi_places_begin(&places, state->graph, state->root, err);
    for (size_t i = 0; st == SW_OK && i < places.count; i++) {
        if (sw_value_as_dict(state->graph, places.items[i].v, &dict))
            st = add_module(&l, dict, err);
        if (st == SW_OK)
            st = swi_places_below(&places, i, err);
    }
    swi_places_end(&places);
    if (st == SW_OK)
        st = swi_clean_names(made.names, made.count, true, &made.arena, &removed, err);
    if (st == SW_OK)
        *out = made;
    else
        swi_order_free(&made);
    return st;
}

void swi_order_free(swi_order *order)
{
    free(order->names);
    swi_arena_free(&order->arena);
    *order = (swi_order){0};
}
