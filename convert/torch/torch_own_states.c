/*
 * A tensor that an optimizer has for the state of several parameters (torch pickles one step for
 * all that FSDP had in a row) is each one's own: counted up in place it would count for all of
 * them.
 */
#include <string.h>

#include "model/value.h"
#include "state/places.h"
#include "torch/torch.h"

static bool is_state(const sw_catalog *catalog, size_t i, sw_tensor_info *info)
{
    return sw_catalog_tensor(catalog, i, info) && info->role == SW_ROLE_OPTIMIZER;
}

/* "optimizer.state.0", in the order of the parts. */
static sw_status name_place(const swi_places *places, size_t at, swi_buf *out, sw_error *err)
{
    const char *parts[SWI_TORCH_DEPTH_MAX];
    size_t count = 0;
    sw_status st = SW_OK;
    for (; places->items[at].part != NULL && count < SWI_TORCH_DEPTH_MAX;
         at = places->items[at].parent)
        parts[count++] = places->items[at].part + (places->items[at].part[0] == '#');
    out->size = 0;
    while (st == SW_OK && count-- > 0)
        st = swi_buf_printf(out, err, "%s.", parts[count]);
    return st;
}

/* The tensor of the catalog that has the name of this place; `tensor` where that is none. */
static sw_status named_here(const sw_catalog *catalog, swi_buf *name, const char *key,
                            uint32_t tensor, uint32_t *out, sw_error *err)
{
    const size_t size = name->size;
    sw_tensor_info here, there;
    sw_status st = swi_buf_append(name, key, strlen(key) + 1, err);
    if (st != SW_OK)
        return st;
    const int64_t id = sw_catalog_find(catalog, (const char *)name->data);
    *out = tensor;
    if (id >= 0 && is_state(catalog, (size_t)id, &here) && is_state(catalog, tensor, &there) &&
        here.dtype == there.dtype && here.axes == there.axes &&
        memcmp(here.shape, there.shape, here.axes * sizeof *here.shape) == 0)
        *out = (uint32_t)id;
    name->size = size;
    return SW_OK;
}

static sw_status own_in_dict(const sw_catalog *catalog, sw_value_graph *g, sw_value dict,
                             swi_buf *name, sw_error *err)
{
    sw_value pair[2];
    sw_status st = SW_OK;
    for (size_t i = 0; st == SW_OK && sw_value_pair(g, dict, i, &pair[0], &pair[1]); i++) {
        const uint8_t *key;
        size_t size;
        uint32_t tensor, own = 0;
        if (!sw_value_tensor(g, pair[1], &tensor) ||
            sw_value_get_kind(g, pair[0]) != SW_VALUE_STR ||
            !sw_value_bytes(g, pair[0], &key, &size) || memchr(key, 0, size) != NULL)
            continue;
        st = named_here(catalog, name, (const char *)key, tensor, &own, err);
        pair[1] = swi_value_of_tensor(own);
        if (st == SW_OK && own != tensor)
            st = swi_graph_set_items(g, dict, pair, 1, err);
    }
    return st;
}

sw_status swi_torch_own_states(const sw_catalog *catalog, swi_state *state, sw_error *err)
{
    swi_places places = {0};
    swi_buf name = {0};
    sw_value dict;
    bool any = false;
    sw_tensor_info info;
    for (size_t i = 0; !any && i < sw_catalog_tensor_count(catalog); i++)
        any = is_state(catalog, i, &info);
    if (!any)
        return SW_OK;
    sw_status st = swi_places_begin(&places, state->graph, state->root, err);
    for (size_t i = 0; st == SW_OK && i < places.count; i++) {
        if (sw_value_as_dict(state->graph, places.items[i].v, &dict)) {
            st = name_place(&places, i, &name, err);
            if (st == SW_OK)
                st = own_in_dict(catalog, state->graph, dict, &name, err);
        }
        if (st == SW_OK)
            st = swi_places_below(&places, i, err);
    }
    swi_places_end(&places);
    swi_buf_free(&name);
    return st;
}
