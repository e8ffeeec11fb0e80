#include "fsdp1/fsdp1_module.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/text.h"
#include "flat/shapes_parts.h"
#include "flat/unflatten.h"
#include "map/remap.h"
#include "notation/rules.h"

/* ---- the order of parameters ----------------------------------------------------------------- */

static bool means_unknown(sw_status st)
{
    return st == SW_ERR_NOTFOUND || st == SW_ERR_INCOMPLETE || st == SW_ERR_CONFLICT;
}

static sw_status find_side(const swi_reshape_in *in, const swi_named *have, size_t count,
                           swi_fsdp1_order *o, sw_error *err)
{
    const char *asked = in->convert->from_names;
    const bool partial = in->convert->only != NULL || in->convert->drop != NULL;
    if (asked == NULL)
        asked = swi_checkpoint_framework(in->checkpoint)->side;
    return swi_model_detect(o->model, have, count, asked, partial, &o->side, err);
}

/* The model that the configuration at hand says. */
static sw_status find_model(const swi_reshape_in *in, const swi_named *have, size_t count,
                            swi_fsdp1_order *o, sw_error *err)
{
    const swi_remap_in ask = {.source = in->checkpoint,
                              .target = in->target,
                              .options = in->convert,
                              .limits = &in->limits,
                              .report = in->report};
    const sw_open_options *open = &in->convert->open;
    sw_error cause = {0};
    sw_status st = swi_remap_model(&ask, NULL, &o->model, &cause);
    if (st == SW_OK)
        st = find_side(in, have, count, o, &cause);
    if (st == SW_OK) {
        o->of_model = o->model;
        return SW_OK;
    }
    o->why = cause;
    if (means_unknown(st) && open->config == NULL && open->map == NULL)
        return SW_OK;
    if (err != NULL)
        *err = cause;
    return st;
}

static sw_status read_shapes(const swi_reshape_in *in, swi_fsdp1_order *o, sw_error *err)
{
    const sw_open_options *open = &in->convert->open;
    sw_status st = swi_shapes_read(open->shapes, open->map, &in->limits, &o->shapes, err);
    if (st == SW_OK && o->shapes->count == 0) { /* SHP-5: units alone, for what is read */
        swi_shapes_free(o->shapes);
        o->shapes = NULL;
    }
    return st;
}

sw_status swi_fsdp1_order_find(const swi_reshape_in *in, const swi_named *have, size_t count,
                               swi_fsdp1_order *out, sw_error *err)
{
    swi_fsdp1_order made = {.of_model = in->model, .side = in->side};
    sw_status st = SW_OK;
    if (in->convert->open.shapes != NULL && !in->mapped) /* else they are of the names before */
        st = read_shapes(in, &made, err);
    if (st == SW_OK && made.shapes == NULL && made.of_model == NULL)
        st = find_model(in, have, count, &made, err);
    if (st == SW_OK && made.shapes == NULL && made.of_model != NULL)
        st = swi_shapes_of_model(made.of_model, made.side, &made.shapes, err);
    if (st == SW_OK)
        *out = made;
    else
        swi_fsdp1_order_end(&made);
    return st;
}

void swi_fsdp1_order_end(swi_fsdp1_order *order)
{
    swi_shapes_free(order->shapes);
    swi_model_free(order->model);
    *order = (swi_fsdp1_order){0};
}

/* ---- the dict's own -------------------------------------------------------------------------- */

/* FS-25: torch saves a module in the order of registration. */
static sw_status own_shapes(const sw_catalog *catalog, const swi_named *have, size_t count,
                            swi_shapes **out, sw_error *err)
{
    swi_chosen *items = NULL;
    sw_status st = swi_alloc_array(count, sizeof *items, (void **)&items, err);
    for (size_t i = 0; st == SW_OK && i < count; i++)
        items[i] = (swi_chosen){.source = have[i].tensor, .name = have[i].name};
    if (st == SW_OK)
        st = swi_shapes_of_tensors(catalog, items, count, "the state dict", out, err);
    free(items);
    return st;
}

static sw_status no_order(const swi_fsdp1_order *order, const char *unordered, sw_error *err)
{
    const bool why = order->why.status != SW_OK;
    return swi_fail_at(err, SW_ERR_INCOMPLETE, "FS-25", 0,
                       "the order in which the model registers its parameters is not known, and "
                       "flat parameters are made in it: %s%s%s; --shapes takes a state dict of "
                       "torch.save, or the model's configuration",
                       unordered, why ? "; " : "", why ? order->why.text : "");
}

/* ---- what there is --------------------------------------------------------------------------- */

static sw_status misfit(const swi_fsdp1_module *m, const char *name, const char *why, sw_error *err)
{
    swi_quoted q;
    return swi_fail_at(err, SW_ERR_CONFLICT, "FS-26", 0, "tensor \"%s\" %s %s",
                       swi_quote_str(&q, name), why, m->flat.shapes->from);
}

/* What a model has and a map knows as computed anew: a buffer. */
static bool is_ignored(const swi_fsdp1_order *order, const char *name)
{
    return order->of_model != NULL && swi_model_ignores(order->of_model, order->side, name);
}

static sw_status hold(const sw_catalog *catalog, const swi_fsdp1_order *order, swi_fsdp1_module *m,
                      const swi_named *have, size_t count, sw_error *err)
{
    const swi_shapes *s = m->flat.shapes;
    sw_status st = swi_alloc_array(s->count, sizeof *m->tensors, (void **)&m->tensors, err);
    if (st == SW_OK)
        st = swi_alloc_array(s->count, sizeof *m->left_out, (void **)&m->left_out, err);
    for (size_t i = 0; st == SW_OK && i < s->count; i++)
        m->tensors[i] = -1;
    for (size_t i = 0; st == SW_OK && i < count; i++) {
        sw_tensor_info info;
        const int64_t at = swi_shapes_find(s, have[i].name);
        (void)sw_catalog_tensor(catalog, have[i].tensor, &info);
        if (at < 0 && (!sw_dtype_is_float(info.dtype) || is_ignored(order, have[i].name)))
            continue;
        if (at < 0)
            return misfit(m, have[i].name, "is in the source and not known to", err);
        if (info.axes != s->items[at].axes ||
            memcmp(info.shape, s->items[at].shape, info.axes * sizeof *info.shape) != 0)
            return misfit(m, have[i].name, "has another shape in the source than in", err);
        m->tensors[at] = have[i].tensor;
    }
    return st;
}

/* What a map says that a model may lack; and scalars, which FSDP1 does not take for parameters. */
static void leave_out(const swi_fsdp1_order *order, swi_fsdp1_module *m)
{
    const swi_shapes *s = m->flat.shapes;
    for (size_t i = 0; i < s->count; i++)
        m->left_out[i] = s->items[i].may_be &&
                         (s->items[i].axes == 0 || (order->of_model != NULL && m->tensors[i] < 0));
}

/* ---- rows ------------------------------------------------------------------------------------ */

/* The deepest of the units that this name is below; "": the root. */
static const char *unit_above(const char *const *units, size_t count, const char *name)
{
    const char *best = "";
    for (size_t i = 0; i < count; i++) {
        const size_t n = strlen(units[i]);
        if (n > strlen(best) && strncmp(units[i], name, n) == 0 && name[n] == '.')
            best = units[i];
    }
    return best;
}

/* FS-27: two modules would flatten it, each for itself, and nothing ties them any more. */
static sw_status check_ties(const swi_fsdp1_module *m, const char *const *units, size_t count,
                            sw_error *err)
{
    const swi_shapes *s = m->flat.shapes;
    for (size_t i = 0; i < s->count; i++) {
        const int64_t owner = s->items[i].tied_to;
        swi_quoted p, q;
        if (owner < 0 || strcmp(unit_above(units, count, s->items[i].name),
                                unit_above(units, count, s->items[owner].name)) == 0)
            continue;
        return swi_fail_at(err, SW_ERR_CONFLICT, "FS-27", 0,
                           "\"%s\" and \"%s\" are tied (%s) and in two wrapped modules, of which "
                           "FSDP1 makes two parameters; let one unit hold both",
                           swi_quote_str(&p, s->items[owner].name),
                           swi_quote_str(&q, s->items[i].name), s->from);
    }
    return SW_OK;
}

/* The modules that the source had wrapped, where they are still called so. */
static sw_status units_of_source(const swi_reshape_in *in, swi_fsdp1_module *m, const char ***units,
                                 size_t *count, sw_error *err)
{
    const swi_unflat *unflat = swi_checkpoint_unflat(in->checkpoint);
    const swi_rows *rows = unflat != NULL ? swi_unflat_rows(unflat) : NULL;
    void *room;
    if (rows == NULL || in->model != NULL)
        return SW_OK;
    sw_status st = swi_arena_alloc(&m->arena, rows->count * sizeof **units, &room, err);
    if (st != SW_OK)
        return st;
    *units = room;
    for (size_t i = 0; i < rows->count; i++)
        if (rows->items[i].unit[0] != '\0')
            (*units)[(*count)++] = rows->items[i].unit;
    m->units_from = *count > 0 ? "the source" : NULL;
    return SW_OK;
}

/* LAY-9, or what --shapes says, or as it was. */
static sw_status find_units(const swi_reshape_in *in, swi_fsdp1_module *m, const char ***units,
                            size_t *count, sw_error *err)
{
    const swi_shapes *s = m->flat.shapes;
    swi_pattern *const *patterns = NULL;
    size_t given = 0;
    if (in->rules != NULL) {
        patterns = swi_rules_units(in->rules, &given);
        m->units_from = "--layout";
    } else if (s->has_units && s->unit_count > 0) {
        patterns = s->units;
        given = s->unit_count;
        m->units_from = s->from;
    }
    *count = 0;
    if (given > 0)
        return swi_units_matching(s, patterns, given, &m->arena, units, count, err);
    return s->has_units ? SW_OK : units_of_source(in, m, units, count, err);
}

/*
 * FS-28: where the dict alone says what the parameters are, the source's optimizer may know better:
 * other names of tied ones, buffers and frozen ones have no states.
 */
static sw_status check_known(const swi_reshape_in *in, const swi_fsdp1_module *m,
                             const swi_row *row, const bool *known, sw_error *err)
{
    const swi_shape *items = m->flat.shapes->items;
    for (size_t i = 1; i < row->count; i++) {
        const uint32_t a = row->items[0].parameter, b = row->items[i].parameter;
        swi_quoted p, q;
        if (known[a] == known[b])
            continue;
        return swi_fail_at(
            err, SW_ERR_CONFLICT, "FS-28", 0,
            "\"%s\" has states in the optimizer of the %s checkpoint and \"%s\" has none, so it "
            "may be a buffer or another name of a tied parameter, which are in no "
            "flat parameter: --shapes or --config tells what the model has",
            swi_quote_str(&p, items[known[a] ? a : b].name),
            swi_checkpoint_framework(in->checkpoint)->name,
            swi_quote_str(&q, items[known[a] ? b : a].name));
    }
    return SW_OK;
}

static sw_status ask_optimizers(const swi_reshape_in *in, const swi_fsdp1_module *m, sw_error *err)
{
    const swi_shapes *s = m->flat.shapes;
    const char **names = NULL;
    bool *known = NULL;
    sw_status st = swi_alloc_array(s->count, sizeof *names, (void **)&names, err);
    if (st == SW_OK)
        st = swi_alloc_array(s->count, sizeof *known, (void **)&known, err);
    for (size_t i = 0; st == SW_OK && i < s->count; i++)
        names[i] = s->items[i].name;
    if (st == SW_OK)
        st = swi_optimizers_know(in->checkpoint, names, s->count, known, err);
    for (size_t r = 0; st == SW_OK && r < m->rows.count; r++)
        st = check_known(in, m, &m->rows.items[r], known, err);
    free(names);
    free(known);
    return st;
}

static sw_status make_rows(const swi_reshape_in *in, swi_fsdp1_module *m, sw_error *err)
{
    const char **units = NULL;
    size_t count = 0;
    sw_status st = find_units(in, m, &units, &count, err);
    if (st == SW_OK)
        st = check_ties(m, units, count, err);
    if (st == SW_OK)
        st = swi_rows_of_units(m->flat.shapes, m->left_out, units, count, &m->rows, err);
    for (size_t r = 0; st == SW_OK && r < m->rows.count; r++)
        st = swi_row_place(&m->rows.items[r], 1, 1, err);
    m->unit_count = count;
    return st == SW_OK && m->own != NULL ? ask_optimizers(in, m, err) : st;
}

static sw_status make(const swi_reshape_in *in, const swi_fsdp1_order *order, const swi_named *have,
                      size_t count, swi_fsdp1_module *m, sw_error *err)
{
    const sw_catalog *catalog = sw_checkpoint_catalog(in->checkpoint);
    sw_status st = SW_OK;
    if (order->shapes == NULL)
        st = own_shapes(catalog, have, count, &m->own, err);
    if (st != SW_OK)
        return st;
    m->flat.shapes = order->shapes != NULL ? order->shapes : m->own;
    if (!m->flat.shapes->ordered)
        return no_order(order, m->flat.shapes->unordered, err);
    st = hold(catalog, order, m, have, count, err);
    if (st != SW_OK)
        return st;
    leave_out(order, m);
    m->flat.tensors = m->tensors;
    m->flat.left_out = m->left_out;
    m->flat.rows = &m->rows;
    return make_rows(in, m, err);
}

sw_status swi_fsdp1_module_make(const swi_reshape_in *in, const swi_fsdp1_order *order,
                                const swi_named *have, size_t count, bool ordered,
                                swi_fsdp1_module *out, sw_error *err)
{
    if (order->shapes == NULL && !ordered)
        return no_order(order, "the source does not keep it", err);
    sw_status st = make(in, order, have, count, out, err);
    if (st != SW_OK)
        swi_fsdp1_module_free(out);
    return st;
}

void swi_fsdp1_module_free(swi_fsdp1_module *m)
{
    swi_rows_free(&m->rows);
    swi_shapes_free(m->own);
    free(m->tensors);
    free(m->left_out);
    swi_arena_free(&m->arena);
    *m = (swi_fsdp1_module){0};
}
