/* Where the shapes of what lies in rows come from. */
#include <stdio.h>

#include "flat/shapes_parts.h"
#include "flat/unflatten_parts.h"
#include "map/model.h"

/* Of published names: what FSDP wraps is mostly a model of them. */
#define FIRST_SIDE "hf"
/* Where verl puts the model's configuration, beside the files of ranks. */
#define ASSETS_FOLDER "huggingface"

/* ---- of a map ---------------------------------------------------------------------------------
 */

static bool has_file(const sw_checkpoint *base, const char *path)
{
    swi_entry entry;
    sw_error ignored = {0};
    return swi_store_stat(swi_checkpoint_store(base), path, &entry, &ignored) == SW_OK &&
           entry.kind == SWI_ENTRY_FILE;
}

static sw_status find_model(const swi_unflat *u, struct swi_model **out, sw_error *err)
{
    const sw_open_options *o = u->in.options;
    swi_buf assets = {0};
    swi_model_ask ask = {.map = o != NULL ? o->map : NULL,
                         .config = o != NULL ? o->config : NULL,
                         .store = swi_checkpoint_store(u->in.base),
                         .limits = &u->in.limits};
    sw_status st = SW_OK;
    if (ask.config == NULL && has_file(u->in.base, ASSETS_FOLDER "/config.json")) {
        st = swi_buf_printf(&assets, err, "%s/" ASSETS_FOLDER, sw_checkpoint_root(u->in.base));
        if (st == SW_OK)
            st = swi_buf_u8(&assets, 0, err);
        ask.config = (const char *)assets.data;
    }
    if (st == SW_OK)
        st = swi_model_find(&ask, out, err);
    swi_buf_free(&assets);
    return st;
}

/* Side number `attempt` of the model, the one of published names before the others. */
static bool side_at(const struct swi_model *model, size_t attempt, size_t *side)
{
    const int64_t first = swi_model_side(model, FIRST_SIDE);
    if (first < 0 || attempt > (size_t)first)
        *side = attempt;
    else
        *side = attempt == 0 ? (size_t)first : attempt - 1;
    return attempt < swi_model_side_count(model);
}

/* A model that is not found is no error here: that is said in the words of the finding. */
static sw_status of_model(const swi_unflat *u, size_t attempt, swi_shapes **out, sw_error *err)
{
    struct swi_model *model = NULL;
    sw_error cause = {0};
    size_t side;
    sw_status st = find_model(u, &model, &cause);
    if (st == SW_ERR_NOMEM)
        return swi_fail_nomem(err);
    if (st == SW_ERR_NOTFOUND)
        return SW_OK;
    if (st != SW_OK) {
        if (err != NULL)
            *err = cause;
        return st;
    }
    if (side_at(model, attempt, &side))
        st = swi_shapes_of_model(model, side, out, err);
    swi_model_free(model);
    return st;
}

/* ---- one after the other ----------------------------------------------------------------------
 */

/* What lies there: the model beside the optimizer, never flattened on disk (FS-10), or its map. */
static sw_status found(const swi_unflat *u, size_t attempt, swi_shapes **out, sw_error *err)
{
    if (!u->has_model && attempt == 0)
        return swi_shapes_of_checkpoint(u->in.base, "the tensors of the model beside it", out, err);
    return of_model(u, u->has_model ? attempt : attempt - 1, out, err);
}

/* SHP-5: a document of units alone is about what is found. */
static sw_status given_units(const swi_unflat *u, size_t attempt, swi_shapes *units,
                             swi_shapes **out, sw_error *err)
{
    swi_shapes *items = NULL;
    sw_status st = found(u, attempt, &items, err);
    for (size_t i = 0; st == SW_OK && items != NULL && i < items->count; i++)
        st = swi_shapes_add(units, &items->items[i], err);
    if (st == SW_OK && items != NULL) {
        units->ordered = items->ordered;
        *out = units;
    } else {
        swi_shapes_free(units);
    }
    swi_shapes_free(items);
    return st;
}

sw_status swi_unflat_shapes(const swi_unflat *u, size_t attempt, swi_shapes **out, bool *given,
                            sw_error *err)
{
    const sw_open_options *o = u->in.options;
    swi_shapes *shapes = NULL;
    *out = NULL;
    *given = false;
    if (o == NULL || o->shapes == NULL)
        return found(u, attempt, out, err);
    sw_status st = swi_shapes_read(o->shapes, o->map, &u->in.limits, &shapes, err);
    if (st != SW_OK)
        return st;
    if (shapes->count == 0)
        return given_units(u, attempt, shapes, out, err);
    *given = true;
    *out = shapes;
    return SW_OK;
}
