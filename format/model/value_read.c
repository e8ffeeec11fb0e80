#include "model/value_node.h"

#include <string.h>

sw_value_kind sw_value_get_kind(const sw_value_graph *graph, sw_value v)
{
    static const sw_value_kind kinds[SWI_TAG_COUNT] = {
        [SWI_TAG_NONE] = SW_VALUE_NONE,
        [SWI_TAG_BOOL] = SW_VALUE_BOOL,
        [SWI_TAG_INT] = SW_VALUE_INT,
        [SWI_TAG_INT64] = SW_VALUE_INT,
        [SWI_TAG_BIGINT] = SW_VALUE_BIGINT,
        [SWI_TAG_FLOAT] = SW_VALUE_FLOAT,
        [SWI_TAG_COMPLEX] = SW_VALUE_COMPLEX,
        [SWI_TAG_STR] = SW_VALUE_STR,
        [SWI_TAG_BYTES] = SW_VALUE_BYTES,
        [SWI_TAG_LIST] = SW_VALUE_LIST,
        [SWI_TAG_TUPLE] = SW_VALUE_TUPLE,
        [SWI_TAG_DICT] = SW_VALUE_DICT,
        [SWI_TAG_SET] = SW_VALUE_SET,
        [SWI_TAG_FROZENSET] = SW_VALUE_FROZENSET,
        [SWI_TAG_GLOBAL] = SW_VALUE_GLOBAL,
        [SWI_TAG_OBJECT] = SW_VALUE_OBJECT,
        [SWI_TAG_PERSISTENT] = SW_VALUE_PERSISTENT,
        [SWI_TAG_RECORD] = SW_VALUE_RECORD,
        [SWI_TAG_TENSOR] = SW_VALUE_TENSOR,
    };
    (void)graph;
    unsigned tag = swi_value_tag(v);
    return tag < SWI_TAG_COUNT ? kinds[tag] : SW_VALUE_NONE;
}

bool sw_value_bool(const sw_value_graph *graph, sw_value v, bool *out)
{
    (void)graph;
    if (swi_value_tag(v) != SWI_TAG_BOOL)
        return false;
    *out = v.bits >> SWI_TAG_BITS != 0;
    return true;
}

bool sw_value_int(const sw_value_graph *graph, sw_value v, int64_t *out)
{
    if (swi_value_tag(v) == SWI_TAG_INT)
        *out = swi_int_immediate(v);
    else if (swi_value_tag(v) == SWI_TAG_INT64)
        *out = (int64_t)swi_node(graph, v)[0];
    else
        return false;
    return true;
}

bool sw_value_float(const sw_value_graph *graph, sw_value v, double *out)
{
    if (swi_value_tag(v) != SWI_TAG_FLOAT)
        return false;
    memcpy(out, swi_node(graph, v), sizeof *out);
    return true;
}

bool sw_value_complex(const sw_value_graph *graph, sw_value v, double *re, double *im)
{
    if (swi_value_tag(v) != SWI_TAG_COMPLEX)
        return false;
    memcpy(re, swi_node(graph, v), sizeof *re);
    memcpy(im, swi_node(graph, v) + 1, sizeof *im);
    return true;
}

bool sw_value_bytes(const sw_value_graph *graph, sw_value v, const uint8_t **data, size_t *size)
{
    unsigned tag = swi_value_tag(v);
    if (tag != SWI_TAG_STR && tag != SWI_TAG_BYTES && tag != SWI_TAG_BIGINT)
        return false;
    const uint64_t *node = swi_node(graph, v);
    *data = (const uint8_t *)(node + 1);
    *size = (size_t)(node[0] & SWI_SIZE_MASK);
    return true;
}

bool sw_value_is_bytearray(const sw_value_graph *graph, sw_value v)
{
    return swi_value_tag(v) == SWI_TAG_BYTES && (swi_node(graph, v)[0] & ~SWI_SIZE_MASK) != 0;
}

size_t sw_value_size(const sw_value_graph *graph, sw_value v)
{
    if (!swi_value_has_head(v) || swi_value_tag(v) == SWI_TAG_OBJECT)
        return 0;
    return swi_head_count(swi_node(graph, v)[0]);
}

bool sw_value_item(const sw_value_graph *graph, sw_value v, size_t i, sw_value *out)
{
    unsigned tag = swi_value_tag(v);
    if (i >= sw_value_size(graph, v) || tag == SWI_TAG_DICT)
        return false;
    const uint64_t *node = swi_node(graph, v);
    bool is_inline = tag == SWI_TAG_TUPLE || tag == SWI_TAG_FROZENSET;
    *out = (sw_value){is_inline ? node[1 + i] : swi_words(graph, node[2])[i]};
    return true;
}

bool swi_value_ints(const sw_value_graph *g, sw_value v, size_t max, int64_t *out, size_t *count)
{
    if (swi_value_tag(v) != SWI_TAG_TUPLE)
        return false;
    if (v.bits == SWI_EMPTY_TUPLE.bits) {
        *count = 0;
        return true;
    }
    const uint64_t *node = swi_node(g, v);
    size_t size = swi_head_count(node[0]);
    if (size > max)
        return false;
    for (size_t i = 0; i < size; i++)
        if (!sw_value_int(g, (sw_value){node[1 + i]}, &out[i]))
            return false;
    *count = size;
    return true;
}

bool sw_value_pair(const sw_value_graph *graph, sw_value v, size_t i, sw_value *key,
                   sw_value *value)
{
    if (swi_value_tag(v) != SWI_TAG_DICT || i >= sw_value_size(graph, v))
        return false;
    const uint64_t *pairs = swi_words(graph, swi_node(graph, v)[2]);
    *key = (sw_value){pairs[2 * i]};
    *value = (sw_value){pairs[2 * i + 1]};
    return true;
}

bool sw_value_global(const sw_value_graph *graph, sw_value v, const char **module,
                     const char **name)
{
    if (swi_value_tag(v) != SWI_TAG_GLOBAL)
        return false;
    const uint64_t *node = swi_node(graph, v);
    *module = (const char *)(swi_words(graph, node[1]) + 1);
    *name = (const char *)(swi_words(graph, node[2]) + 1);
    return true;
}

bool sw_value_get_object(const sw_value_graph *graph, sw_value v, sw_value_object *out)
{
    if (swi_value_tag(v) != SWI_TAG_OBJECT)
        return false;
    const uint64_t *node = swi_node(graph, v);
    *out = (sw_value_object){
        .callable = {node[1]},
        .args = {node[2]},
        .state = {node[3]},
        .items = {node[4]},
        .is_new = (node[0] & SWI_OBJECT_NEW) != 0,
        .has_state = (node[0] & SWI_OBJECT_STATE) != 0,
        .has_items = (node[0] & SWI_OBJECT_ITEMS) != 0,
    };
    return true;
}

bool sw_value_persistent(const sw_value_graph *graph, sw_value v, sw_value *id)
{
    if (swi_value_tag(v) != SWI_TAG_PERSISTENT)
        return false;
    *id = (sw_value){swi_node(graph, v)[0]};
    return true;
}

bool sw_value_tensor(const sw_value_graph *graph, sw_value v, uint32_t *index)
{
    (void)graph;
    if (swi_value_tag(v) != SWI_TAG_TENSOR)
        return false;
    *index = (uint32_t)(v.bits >> SWI_TAG_BITS);
    return true;
}

bool sw_value_as_dict(const sw_value_graph *graph, sw_value v, sw_value *dict)
{
    sw_value_object object;
    if (sw_value_get_object(graph, v, &object) && object.has_items)
        v = object.items;
    if (swi_value_tag(v) != SWI_TAG_DICT)
        return false;
    *dict = v;
    return true;
}

bool swi_value_record(sw_value v, uint64_t *payload)
{
    if (swi_value_tag(v) != SWI_TAG_RECORD)
        return false;
    *payload = v.bits >> SWI_TAG_BITS;
    return true;
}

bool swi_value_is_call(const sw_value_graph *g, sw_value v, const char *module, const char *name)
{
    sw_value_object object;
    const char *has_module, *has_name;
    return sw_value_get_object(g, v, &object) &&
           sw_value_global(g, object.callable, &has_module, &has_name) &&
           strcmp(has_module, module) == 0 && strcmp(has_name, name) == 0;
}
