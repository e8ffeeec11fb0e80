#include "state/modules.h"

#include <string.h>

#include "base/arena.h"
#include "model/value.h"

const char *swi_key_text(const sw_value_graph *graph, sw_value key)
{
    const uint8_t *data;
    size_t size;
    if (sw_value_get_kind(graph, key) != SW_VALUE_STR ||
        !sw_value_bytes(graph, key, &data, &size) || memchr(data, 0, size) != NULL)
        return NULL;
    return (const char *)data;
}

bool swi_value_is_parameter(const sw_checkpoint *checkpoint, const sw_value_graph *graph,
                            sw_value v)
{
    uint32_t tensor;
    sw_tensor_info info;
    return sw_value_tensor(graph, v, &tensor) &&
           sw_catalog_tensor(sw_checkpoint_catalog(checkpoint), tensor, &info) &&
           info.role == SW_ROLE_PARAMETER;
}

sw_status swi_module_tensors(const sw_checkpoint *checkpoint, const sw_value_graph *graph,
                             sw_value dict, swi_named **out, size_t *count, sw_error *err)
{
    sw_value key, v;
    *count = 0;
    sw_status st = swi_alloc_array(sw_value_size(graph, dict), sizeof **out, (void **)out, err);
    for (size_t i = 0; st == SW_OK && sw_value_pair(graph, dict, i, &key, &v); i++) {
        swi_named *n = &(*out)[*count];
        n->name = swi_value_is_parameter(checkpoint, graph, v) ? swi_key_text(graph, key) : NULL;
        if (n->name != NULL && sw_value_tensor(graph, v, &n->tensor))
            *count += 1;
    }
    return st;
}
