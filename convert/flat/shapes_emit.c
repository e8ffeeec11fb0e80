/* The shapes of a checkpoint, from all that is known of it: its own order, its model. */
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/text.h"
#include "flat/shapes_parts.h"
#include "framework.h"
#include "map/remap.h"

/* The model whose names its tensors have; *model NULL: none, and *why says so. */
static sw_status find_model(const sw_checkpoint *checkpoint, const sw_open_options *open,
                            swi_model **model, size_t *side, sw_error *why, sw_error *err)
{
    const sw_limits limits = swi_checkpoint_limits(checkpoint);
    const swi_model_ask ask = {.map = open->map,
                               .config = open->config,
                               .store = swi_checkpoint_store(checkpoint),
                               .limits = &limits};
    const sw_convert_options options = {0};
    swi_selection weights = {0};
    swi_named *names = NULL;
    sw_status st = swi_model_find(&ask, model, why);
    if (st == SW_OK)
        st = swi_select_any(checkpoint, &options, NULL, &weights, why);
    if (st == SW_OK)
        st = swi_remap_names(&weights, &names, why);
    if (st == SW_OK)
        st = swi_model_detect(*model, names, weights.count, NULL, true, side, why);
    free(names);
    swi_selection_free(&weights);
    if (st == SW_OK)
        return SW_OK;
    swi_model_free(*model);
    *model = NULL;
    if (st != SW_ERR_NOMEM && open->map == NULL && open->config == NULL)
        return SW_OK;
    if (err != NULL)
        *err = *why;
    return st;
}

/* Other names and buffers have no place in the order. */
static sw_status check_orders(const swi_shapes *s, const swi_shapes *model, sw_error *err)
{
    int64_t last = -1;
    swi_quoted p, q;
    for (size_t i = 0; i < s->count; i++) {
        const int64_t at = swi_shapes_find(model, s->items[i].name);
        if (at < 0 || model->items[at].buffer || model->items[at].tied_to >= 0)
            continue;
        if (at < last)
            return swi_fail(err, SW_ERR_CONFLICT,
                            "%s has \"%s\" before \"%s\", and %s the other way round: one of them "
                            "is not in the order of registration; give the right one, checkpoint "
                            "or configuration, as --shapes",
                            s->from, swi_quote_str(&p, model->items[last].name),
                            swi_quote_str(&q, s->items[i].name), model->from);
        last = at;
    }
    return SW_OK;
}

/* The order of a state dict, with what a model tells of each. */
static sw_status refine(swi_shapes *s, const swi_shapes *model, sw_error *err)
{
    sw_status st = check_orders(s, model, err);
    if (st != SW_OK)
        return st;
    for (size_t i = 0; i < s->count; i++) {
        const int64_t at = swi_shapes_find(model, s->items[i].name);
        if (at < 0)
            continue;
        const swi_shape *known = &model->items[at];
        s->items[i].may_be = false;
        s->items[i].buffer = known->buffer;
        const int64_t to =
            known->tied_to >= 0 ? swi_shapes_find(s, model->items[known->tied_to].name) : -1;
        if (to >= 0)
            swi_shapes_tie(s, (int64_t)i, to);
    }
    swi_shapes_settle_ties(s);
    return SW_OK;
}

/* The order of a model, of those that the checkpoint has or must have. */
static sw_status order_by(const swi_shapes *model, const swi_shapes *have, swi_shapes **out,
                          sw_error *err)
{
    swi_shapes *s = NULL;
    sw_status st = swi_shapes_make(model->from, &s, err);
    for (size_t i = 0; st == SW_OK && i < model->count; i++) {
        swi_shape item = model->items[i];
        if (item.may_be && swi_shapes_find(have, item.name) < 0)
            continue;
        item.may_be = false;
        if (item.tied_to >= 0)
            item.tied_to = swi_shapes_find(s, model->items[item.tied_to].name);
        st = swi_shapes_add(s, &item, err);
    }
    if (st == SW_OK)
        *out = s;
    else
        swi_shapes_free(s);
    return st;
}

/* *own is taken where it is the answer; `known` NULL: no model is known, and `why`. */
static sw_status choose(swi_shapes **own, const swi_shapes *known, const sw_error *why,
                        swi_shapes **out, sw_error *err)
{
    swi_shapes *s = *own;
    if (!s->ordered && known != NULL)
        return order_by(known, s, out, err);
    if (!s->ordered)
        return swi_fail(err, SW_ERR_UNSUPPORTED,
                        "%s: the order in which the model registers its parameters is not known: "
                        "%s; and of its model: %s",
                        s->from, s->unordered, why->text);
    sw_status st = known != NULL ? refine(s, known, err) : SW_OK;
    if (st != SW_OK)
        return st;
    *out = s;
    *own = NULL;
    return SW_OK;
}

static sw_status find_shapes(const sw_checkpoint *checkpoint, const sw_open_options *open,
                             swi_shapes **out, sw_error *err)
{
    swi_model *model = NULL;
    swi_shapes *own = NULL, *known = NULL;
    sw_error why = {0};
    size_t side = 0;
    sw_status st = swi_shapes_of_checkpoint(checkpoint, sw_checkpoint_root(checkpoint), &own, err);
    if (st == SW_OK)
        st = find_model(checkpoint, open, &model, &side, &why, err);
    if (st == SW_OK && model != NULL)
        st = swi_shapes_of_model(model, side, &known, err);
    if (st == SW_OK)
        st = choose(&own, known, &why, out, err);
    swi_model_free(model);
    swi_shapes_free(known);
    swi_shapes_free(own);
    return st;
}

sw_status sw_checkpoint_shapes(const sw_checkpoint *checkpoint, const sw_open_options *options,
                               char **text, sw_error *err)
{
    const sw_open_options none = {0};
    swi_shapes *shapes = NULL;
    swi_buf out = {0};
    sw_status st = find_shapes(checkpoint, options != NULL ? options : &none, &shapes, err);
    if (st == SW_OK)
        st = swi_shapes_write(shapes, &out, err);
    swi_shapes_free(shapes);
    if (st == SW_OK)
        *text = (char *)out.data;
    return st;
}
