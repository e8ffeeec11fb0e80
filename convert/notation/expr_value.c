/* Values of expressions. */
#include <string.h>

#include "model/value.h"
#include "notation/expr.h"

swi_expr_value swi_expr_none(void)
{
    return (swi_expr_value){.kind = SWI_EXPR_NONE};
}

swi_expr_value swi_expr_of_bool(bool truth)
{
    return (swi_expr_value){.kind = SWI_EXPR_BOOL, .truth = truth};
}

swi_expr_value swi_expr_of_int(int64_t integer)
{
    return (swi_expr_value){.kind = SWI_EXPR_INT, .integer = integer};
}

swi_expr_value swi_expr_of_text(const char *text)
{
    return (swi_expr_value){.kind = SWI_EXPR_TEXT, .text = text, .size = strlen(text)};
}

static swi_expr_value text_of_json(const sw_value_graph *graph, sw_value v)
{
    const uint8_t *data = NULL;
    size_t size = 0;
    if (!sw_value_bytes(graph, v, &data, &size))
        return swi_expr_none();
    return (swi_expr_value){.kind = SWI_EXPR_TEXT, .text = (const char *)data, .size = size};
}

swi_expr_value swi_expr_of_json(const sw_value_graph *graph, sw_value v)
{
    swi_expr_value out = swi_expr_none();
    switch (sw_value_get_kind(graph, v)) {
    case SW_VALUE_BOOL:
        out.kind = sw_value_bool(graph, v, &out.truth) ? SWI_EXPR_BOOL : SWI_EXPR_NONE;
        break;
    case SW_VALUE_INT:
        out.kind = sw_value_int(graph, v, &out.integer) ? SWI_EXPR_INT : SWI_EXPR_NONE;
        break;
    case SW_VALUE_FLOAT:
        out.kind = sw_value_float(graph, v, &out.number) ? SWI_EXPR_FLOAT : SWI_EXPR_NONE;
        break;
    case SW_VALUE_STR:
        return text_of_json(graph, v);
    case SW_VALUE_LIST:
        out = (swi_expr_value){
            .kind = SWI_EXPR_LIST, .count = sw_value_size(graph, v), .graph = graph, .json = v};
        break;
    case SW_VALUE_DICT:
        out = (swi_expr_value){.kind = SWI_EXPR_OBJECT, .graph = graph, .json = v};
        break;
    default:
        break;
    }
    return out;
}

swi_expr_value swi_expr_item(const swi_expr_value *list, size_t i)
{
    sw_value v;
    if (list->items != NULL)
        return list->items[i];
    return sw_value_item(list->graph, list->json, i, &v) ? swi_expr_of_json(list->graph, v)
                                                         : swi_expr_none();
}

const char *swi_expr_kind_name(swi_expr_kind kind)
{
    static const char *const names[] = {"none",   "a truth value", "a whole number", "a number",
                                        "a text", "a list",        "an object"};
    return names[kind];
}

sw_status swi_expr_look_up(const swi_expr_scope *scope, const char *name, swi_expr_value *out,
                           bool *found, sw_error *err)
{
    *found = false;
    for (; scope != NULL && !*found; scope = scope->outer) {
        sw_status status = scope->find(scope->ctx, name, out, found, err);
        if (status != SW_OK)
            return status;
    }
    return SW_OK;
}

sw_status swi_expr_find_var(void *vars, const char *name, swi_expr_value *out, bool *found,
                            sw_error *err)
{
    const swi_expr_vars *table = vars;
    (void)err;
    *found = false;
    for (size_t i = 0; i < table->count && !*found; i++) {
        *found = strcmp(table->items[i].name, name) == 0;
        if (*found)
            *out = table->items[i].value;
    }
    return SW_OK;
}
