/* The modules of a saved state dict: its dicts that hold parameters. Private to convert/. */
#ifndef SW_CONVERT_STATE_MODULES_H
#define SW_CONVERT_STATE_MODULES_H

#include "base/arena.h"
#include "map/mapping.h"
#include "state/state.h"

/* The text of a key that is one, terminated, and holds no zero; else NULL. */
const char *swi_key_text(const sw_value_graph *graph, sw_value key);
/* A tensor of the checkpoint that is a parameter, or a buffer, of a model. */
bool swi_value_is_parameter(const sw_checkpoint *checkpoint, const sw_value_graph *graph,
                            sw_value v);
/* The parameters that a dict holds under names, in its order; free(). */
SW_MUST_USE sw_status swi_module_tensors(const sw_checkpoint *checkpoint,
                                         const sw_value_graph *graph, sw_value dict,
                                         swi_named **out, size_t *count, sw_error *err);

/* Names of parameters and buffers, wrapper parts off, in the order of the state dict's modules. */
typedef struct swi_order {
    const char **names;
    size_t count;
    swi_arena arena;
} swi_order;
SW_MUST_USE sw_status swi_state_order(const sw_checkpoint *checkpoint, const swi_state *state,
                                      swi_order *out, sw_error *err);
void swi_order_free(swi_order *order);

#endif
