#include "torch/attributes.h"

#include <string.h>

#include "model/value.h"

#define DISTRIBUTED "torch.distributed."

bool swi_attribute_in(const sw_value_graph *g, sw_value state, const char *name, sw_value *out)
{
    sw_value part;
    if (sw_value_get_kind(g, state) == SW_VALUE_DICT)
        return swi_value_get(g, state, name, out);
    for (size_t i = 0; i < 2 && sw_value_item(g, state, i, &part); i++)
        if (swi_value_get(g, part, name, out))
            return true;
    return false;
}

bool swi_attribute(const sw_value_graph *g, sw_value object, const char *name, sw_value *out)
{
    sw_value_object o;
    return sw_value_get_object(g, object, &o) && o.has_state &&
           swi_attribute_in(g, o.state, name, out);
}

const char *swi_distributed_class(const sw_value_graph *g, sw_value v, const char **module)
{
    sw_value_object o;
    const char *from, *name;
    if (sw_value_get_object(g, v, &o)) {
        if (!o.is_new)
            return NULL;
        v = o.callable;
    }
    if (!sw_value_global(g, v, &from, &name) ||
        strncmp(from, DISTRIBUTED, strlen(DISTRIBUTED)) != 0)
        return NULL;
    if (module != NULL)
        *module = from;
    const char *dot = strrchr(name, '.');
    return dot != NULL ? dot + 1 : name;
}

bool swi_sizes(const sw_value_graph *g, sw_value v, uint32_t max, int64_t *out, uint32_t *count)
{
    sw_value_object o;
    sw_value item;
    if (swi_value_is_call(g, v, "torch", "Size") &&
        (!sw_value_get_object(g, v, &o) || !sw_value_item(g, o.args, 0, &v)))
        return false;
    sw_value_kind kind = sw_value_get_kind(g, v);
    size_t size = sw_value_size(g, v);
    if ((kind != SW_VALUE_TUPLE && kind != SW_VALUE_LIST) || size > max)
        return false;
    for (size_t i = 0; i < size; i++)
        if (!sw_value_item(g, v, i, &item) || !sw_value_int(g, item, &out[i]) || out[i] < 0)
            return false;
    *count = (uint32_t)size;
    return true;
}
