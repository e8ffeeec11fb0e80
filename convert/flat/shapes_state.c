/* The shapes of the model's part of a checkpoint, in the order of its state dict. */
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/text.h"
#include "flat/shapes_parts.h"
#include "select/names.h"
#include "select/select.h"
#include "state/state.h"

/* So many names do not happen to be registered in the order of the alphabet. */
#define SORTED_BY_CHANCE 16

static int by_source(const void *a, const void *b)
{
    const uint32_t x = ((const swi_chosen *)a)->source, y = ((const swi_chosen *)b)->source;
    return (x > y) - (x < y);
}

/* SHP-4: integers cannot be trained; of floating-point buffers a state dict does not tell. */
static bool is_buffer(sw_dtype dtype)
{
    switch (dtype) {
    case SW_C32:
    case SW_C64:
    case SW_C128:
        return false;
    default:
        return !sw_dtype_is_float(dtype);
    }
}

static sw_status check_flat(const char *name, sw_error *err)
{
    static const char flat[] = "_flat_param";
    const char *dot = strrchr(name, '.');
    swi_quoted q;
    if (strncmp(dot != NULL ? dot + 1 : name, flat, sizeof flat - 1) != 0)
        return SW_OK;
    return swi_fail(err, SW_ERR_ARG,
                    "\"%s\" is a flat parameter itself: what it is made of is not in this file; "
                    "give the state dict of a whole model",
                    swi_quote_str(&q, name));
}

/* Ties are aliases of one owner, which may be no part of the model itself. */
static sw_status add_items(swi_shapes *s, const sw_catalog *catalog, const swi_chosen *items,
                           size_t count, sw_error *err)
{
    int64_t *first = NULL; /* by tensor: the item that has it, and 1 more */
    sw_status st =
        swi_alloc_array(sw_catalog_tensor_count(catalog), sizeof *first, (void **)&first, err);
    for (size_t i = 0; st == SW_OK && i < count; i++) {
        sw_tensor_info info;
        sw_catalog_tensor(catalog, items[i].source, &info);
        const size_t owner = info.alias_of >= 0 ? (size_t)info.alias_of : (size_t)items[i].source;
        swi_shape item = {.name = items[i].name,
                          .axes = info.axes,
                          .buffer = is_buffer(info.dtype),
                          .may_be = !is_buffer(info.dtype),
                          .tied_to = first[owner] - 1};
        memcpy(item.shape, info.shape, sizeof item.shape);
        st = check_flat(item.name, err);
        if (st == SW_OK)
            st = swi_shapes_add(s, &item, err);
        if (first[owner] == 0)
            first[owner] = (int64_t)i + 1;
    }
    free(first);
    return st;
}

static bool is_sorted(const swi_shapes *s)
{
    bool natural = true, by_bytes = true;
    for (size_t i = 1; i < s->count; i++) {
        natural = natural && swi_name_order(s->items[i - 1].name, s->items[i].name) < 0;
        by_bytes = by_bytes && strcmp(s->items[i - 1].name, s->items[i].name) < 0;
    }
    return s->count >= SORTED_BY_CHANCE && (natural || by_bytes);
}

static const char sorted[] = "its names are sorted, which is no order of registration";

sw_status swi_shapes_of_tensors(const sw_catalog *catalog, const swi_chosen *items, size_t count,
                                const char *from, swi_shapes **out, sw_error *err)
{
    swi_shapes *s = NULL;
    sw_status st = swi_shapes_make(from, &s, err);
    if (st == SW_OK)
        st = add_items(s, catalog, items, count, err);
    if (st == SW_OK && is_sorted(s)) {
        s->ordered = false;
        s->unordered = sorted;
    }
    if (st == SW_OK)
        *out = s;
    else
        swi_shapes_free(s);
    return st;
}

/* SHP-3 */
static sw_status find_order(swi_shapes *s, const sw_checkpoint *checkpoint, sw_error *err)
{
    swi_state state = {0};
    sw_error cause = {0};
    sw_status st = swi_checkpoint_state(checkpoint, &state, &cause);
    const bool ordered = st == SW_OK && state.ordered;
    swi_state_free(&state);
    if (st == SW_ERR_NOMEM)
        return swi_fail_nomem(err);
    if (ordered)
        return SW_OK; /* unless it is sorted, which was looked at */
    s->ordered = false;
    return swi_shapes_text(
        s, st != SW_OK ? cause.text : "files of this kind do not keep the order of registration",
        &s->unordered, err);
}

static sw_status check_whole(const sw_checkpoint *checkpoint, const char *from, sw_error *err)
{
    swi_quoted q;
    if (!swi_checkpoint_incomplete(checkpoint) && !swi_checkpoint_opaque(checkpoint))
        return SW_OK;
    return swi_fail(err, SW_ERR_INCOMPLETE,
                    "%s: not all tensors of the model can be read; verify lists what is wrong",
                    swi_quote_str(&q, from));
}

sw_status swi_shapes_of_checkpoint(const sw_checkpoint *checkpoint, const char *from,
                                   swi_shapes **out, sw_error *err)
{
    const sw_convert_options options = {0};
    swi_selection chosen = {0};
    swi_shapes *s = NULL;
    swi_quoted q;
    sw_status st = check_whole(checkpoint, from, err);
    if (st != SW_OK)
        return st;
    st = swi_select_any(checkpoint, &options, NULL, &chosen, err);
    if (st == SW_ERR_ARG)
        st = swi_fail(err, st, "it holds no tensors of a model");
    if (st == SW_OK)
        qsort(chosen.items, chosen.count, sizeof *chosen.items, by_source);
    if (st == SW_OK)
        st = swi_shapes_of_tensors(sw_checkpoint_catalog(checkpoint), chosen.items, chosen.count,
                                   from, &s, err);
    if (st == SW_OK)
        st = find_order(s, checkpoint, err);
    swi_selection_free(&chosen);
    if (st == SW_OK) {
        *out = s;
        return SW_OK;
    }
    swi_shapes_free(s);
    (void)swi_error_prefix(err, "%s", swi_quote_str(&q, from));
    return st;
}
