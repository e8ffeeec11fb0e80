#include "flat/flatten.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/text.h"
#include "check/coordinates.h"
#include "compare.h"
#include "flat/flatten_parts.h"
#include "model/value.h"
#include "source/derive.h"
#include "state/modules.h"

sw_status swi_flatten_begin(const sw_checkpoint *source, swi_flattening **out, sw_error *err)
{
    swi_flattening *f = NULL;
    sw_status st = swi_alloc_array(1, sizeof *f, (void **)&f, err);
    if (st != SW_OK)
        return st;
    f->source = source;
    f->catalog = sw_checkpoint_catalog(source);
    st = swi_derive_begin(source, &f->builder, err);
    if (st == SW_OK)
        *out = f;
    else
        swi_flatten_free(f);
    return st;
}

void swi_flatten_free(swi_flattening *f)
{
    if (f == NULL)
        return;
    swi_builder_free(f->builder);
    free(f->buffer);
    free(f);
}

sw_status swi_flatten_end(swi_flattening *f, sw_checkpoint **out, sw_error *err)
{
    swi_builder *builder = f->builder;
    f->builder = NULL;
    return swi_derive_end(f->source, builder, out, err);
}

int64_t swi_flat_parameter(const swi_flat_module *module, const char *name)
{
    const swi_shape *items = module->shapes->items;
    int64_t i = swi_shapes_find(module->shapes, name);
    while (i >= 0 && items[i].tied_to >= 0)
        i = items[i].tied_to;
    if (i < 0 || items[i].buffer || (module->left_out != NULL && module->left_out[i]))
        return -1;
    return i;
}

sw_status swi_flatten_name(const swi_row *row, swi_buf *out, sw_error *err)
{
    sw_status st = swi_buf_append_str(out, row->unit, err);
    if (st == SW_OK)
        st = swi_buf_append_str(out, row->unit[0] != '\0' ? "." SWI_FLAT_PARAM : SWI_FLAT_PARAM,
                                err);
    return st == SW_OK ? swi_buf_u8(out, 0, err) : st;
}

sw_status swi_flatten_equal(swi_flattening *f, uint32_t a, uint32_t b, bool *equal, uint64_t *first,
                            sw_error *err)
{
    const swi_source source = swi_checkpoint_source(f->source);
    sw_status st = SW_OK;
    *equal = a == b;
    if (*equal)
        return SW_OK;
    if (f->buffer == NULL)
        st = swi_alloc_array(SWI_FLAT_LOOK_BYTES, 1, (void **)&f->buffer, err);
    const swi_compare_in in = {.a = &source,
                               .b = &source,
                               .tensor_a = a,
                               .tensor_b = b,
                               .buffer = f->buffer,
                               .buffer_bytes = SWI_FLAT_LOOK_BYTES};
    return st == SW_OK ? swi_compare(&in, equal, first, err) : st;
}

/* ---- one row --------------------------------------------------------------------------------- */

/* A parameter's elements in a row of their own. */
static sw_status flatten_one(const swi_flattening *f, uint32_t tensor, swi_shaped *out,
                             sw_error *err)
{
    swi_shaped whole;
    sw_tensor_info info;
    sw_status st = swi_shaped_take(f->catalog, tensor, &whole, err);
    if (st != SW_OK)
        return st;
    (void)sw_catalog_tensor(f->catalog, tensor, &info);
    const int64_t elements = (int64_t)info.elements;
    st = swi_shaped_reshape(&whole, 1, &elements, out, err);
    swi_shaped_free(&whole);
    return st;
}

sw_status swi_flatten_row(swi_flattening *f, const swi_flat_module *module, size_t r,
                          const int64_t *tensors, swi_shaped *out, sw_error *err)
{
    const swi_row *row = &module->rows->items[r];
    swi_shaped *parts = NULL;
    size_t count = 0;
    sw_status st = swi_alloc_array(row->count, sizeof *parts, (void **)&parts, err);
    for (size_t i = 0; st == SW_OK && i < row->count; i++) {
        st = flatten_one(f, (uint32_t)tensors[row->items[i].parameter], &parts[count], err);
        count += st == SW_OK;
    }
    if (st == SW_OK)
        st = swi_shaped_join(parts, count, 0, 1, out, err);
    for (size_t i = 0; i < count; i++)
        swi_shaped_free(&parts[i]);
    free(parts);
    return st;
}

/* ---- the module ------------------------------------------------------------------------------ */

/* FS-22: torch flattens no parameters of different types together. */
static sw_status check_types(const swi_flattening *f, const swi_flat_module *module,
                             const swi_row *row, const int64_t *tensors, sw_error *err)
{
    sw_tensor_info first, info;
    swi_quoted p, q;
    for (size_t i = 0; i < row->count; i++) {
        const uint32_t at = row->items[i].parameter;
        const char *name = module->shapes->items[at].name;
        if (tensors[at] < 0)
            return swi_fail_at(err, SW_ERR_INCOMPLETE, "FS-21", 0,
                               "parameter \"%s\" is not in the source, and the flat parameter of "
                               "module \"%s\" needs it",
                               swi_quote_str(&p, name), swi_quote_str(&q, row->unit));
        (void)sw_catalog_tensor(f->catalog, (size_t)tensors[at], &info);
        if (i == 0)
            first = info;
        if (info.dtype != first.dtype)
            return swi_fail_at(err, SW_ERR_CONFLICT, "FS-22", 0,
                               "parameters \"%s\" (%s) and \"%s\" (%s) are in one wrapped module, "
                               "and FSDP1 flattens only parameters of one type; wrap others "
                               "(units of --layout)",
                               swi_quote_str(&p, first.name), sw_dtype_name(first.dtype),
                               swi_quote_str(&q, name), sw_dtype_name(info.dtype));
    }
    return SW_OK;
}

/* The tensors that the parameters are, also where the source has them under another name alone. */
static sw_status find_parameters(const swi_flat_module *module, int64_t **out, sw_error *err)
{
    const swi_shapes *s = module->shapes;
    sw_status st = swi_alloc_array(s->count, sizeof **out, (void **)out, err);
    for (size_t i = 0; st == SW_OK && i < s->count; i++)
        (*out)[i] = module->tensors[i];
    for (size_t i = 0; st == SW_OK && i < s->count; i++) {
        const int64_t owner = swi_flat_parameter(module, s->items[i].name);
        if (owner >= 0 && (*out)[owner] < 0)
            (*out)[owner] = module->tensors[i];
    }
    return st;
}

static sw_status check_ties(swi_flattening *f, const swi_flat_module *module,
                            const int64_t *tensors, sw_error *err)
{
    const swi_shapes *s = module->shapes;
    for (size_t i = 0; i < s->count; i++) {
        const int64_t owner = swi_flat_parameter(module, s->items[i].name);
        char at[SWI_COORDINATES_TEXT];
        sw_tensor_info info;
        swi_quoted p, q;
        bool equal = true;
        uint64_t first = 0;
        if (s->items[i].tied_to < 0 || module->tensors[i] < 0 || owner < 0)
            continue;
        sw_status st = swi_flatten_equal(f, (uint32_t)module->tensors[i], (uint32_t)tensors[owner],
                                         &equal, &first, err);
        if (st != SW_OK)
            return st;
        if (equal)
            continue;
        (void)sw_catalog_tensor(f->catalog, (size_t)module->tensors[i], &info);
        swi_coordinates_text(&info, first, at);
        return swi_fail_at(err, SW_ERR_CONFLICT, "FS-21", 0,
                           "\"%s\" and \"%s\" are said to be tied (%s), but they differ, first at "
                           "%s; a flat parameter has them once",
                           swi_quote_str(&p, s->items[i].name),
                           swi_quote_str(&q, s->items[owner].name), s->from, at);
    }
    return SW_OK;
}

static sw_status add_row(swi_flattening *f, const swi_flat_module *module, size_t r,
                         const int64_t *tensors, sw_value_graph *graph, sw_value fresh,
                         sw_error *err)
{
    const swi_row *row = &module->rows->items[r];
    swi_shaped shaped;
    swi_buf name = {0};
    sw_value pair[2];
    uint32_t id = 0;
    sw_status st = check_types(f, module, row, tensors, err);
    if (st == SW_OK)
        st = swi_flatten_row(f, module, r, tensors, &shaped, err);
    if (st != SW_OK)
        return st;
    st = swi_flatten_name(row, &name, err);
    if (st == SW_OK)
        st = swi_derive_put(f->builder, (const char *)name.data, SW_ROLE_PARAMETER, &shaped, &id,
                            err);
    if (st == SW_OK)
        st = swi_graph_text(graph, SW_VALUE_STR, name.data, name.size - 1, &pair[0], err);
    pair[1] = swi_value_of_tensor(id);
    if (st == SW_OK)
        st = swi_graph_set_items(graph, fresh, pair, 1, err);
    swi_shaped_free(&shaped);
    swi_buf_free(&name);
    return st;
}

/* Whether the key is of a parameter, which is in a row now. */
static bool is_flattened(const swi_flat_module *module, const sw_value_graph *graph, sw_value key)
{
    const char *name = swi_key_text(graph, key);
    return name != NULL && swi_flat_parameter(module, name) >= 0;
}

sw_status swi_flatten_module(swi_flattening *f, sw_value_graph *graph, sw_value dict,
                             const swi_flat_module *module, sw_error *err)
{
    int64_t *tensors = NULL;
    sw_value fresh = {0}, pair[2];
    sw_status st = find_parameters(module, &tensors, err);
    if (st == SW_OK)
        st = check_ties(f, module, tensors, err);
    if (st == SW_OK)
        st = swi_graph_dict(graph, &fresh, err);
    for (size_t r = 0; st == SW_OK && r < module->rows->count; r++)
        st = add_row(f, module, r, tensors, graph, fresh, err);
    for (size_t i = 0; st == SW_OK && sw_value_pair(graph, dict, i, &pair[0], &pair[1]); i++)
        if (!is_flattened(module, graph, pair[0]))
            st = swi_graph_set_items(graph, fresh, pair, 1, err);
    if (st == SW_OK)
        swi_graph_dict_swap(graph, dict, fresh);
    free(tensors);
    return st;
}
