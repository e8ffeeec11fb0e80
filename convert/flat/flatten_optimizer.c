/* States of an optimizer follow the parameters into rows. Clauses FS-23, FS-24. */
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/checked.h"
#include "base/text.h"
#include "flat/flatten_parts.h"
#include "model/value.h"
#include "source/derive.h"

#define NONE UINT32_MAX

/* One optimizer under way. */
typedef struct following {
    swi_flattening *f;
    const swi_optimizer *o;
    const swi_flat_module *module;
    uint64_t shards;
    uint32_t *parameter; /* by shape: its place in o->parameters, or NONE */
    uint32_t *group;     /* by parameter of o: its group, or NONE */
    uint32_t *first;     /* by parameter of o: its first state, or NONE */
    /* what it becomes */
    swi_opt_state *states;
    size_t state_count, state_capacity;
    uint32_t *new_group; /* by row */
    const char **names;  /* by row; those that are not trained are left out at the end */
    int64_t *tensors;    /* by shape: the states of one kind */
    uint32_t zero_blob;
    bool has_zero;
} following;

static sw_status refuse(const following *f, uint32_t a, uint32_t b, const char *why, sw_error *err)
{
    const swi_shape *shapes = f->module->shapes->items;
    swi_quoted p, q;
    return swi_fail_at(err, SW_ERR_CONFLICT, "FS-23", 0,
                       "optimizer: \"%s\" and \"%s\" are in one wrapped module, and %s; FSDP1 "
                       "trains a flat parameter as one: wrap them apart (units of --layout), or "
                       "leave the optimizer behind with --drop-role optimizer",
                       swi_quote_str(&p, shapes[a].name), swi_quote_str(&q, shapes[b].name), why);
}

/* ---- what there is --------------------------------------------------------------------------- */

static sw_status find_parameters(following *f, sw_error *err)
{
    const swi_optimizer *o = f->o;
    const size_t shapes = f->module->shapes->count;
    sw_status st = swi_alloc_array(shapes, sizeof *f->parameter, (void **)&f->parameter, err);
    if (st == SW_OK)
        st = swi_alloc_array(o->parameter_count, sizeof *f->group, (void **)&f->group, err);
    if (st == SW_OK)
        st = swi_alloc_array(o->parameter_count, sizeof *f->first, (void **)&f->first, err);
    if (st != SW_OK)
        return st;
    memset(f->parameter, 0xff, shapes * sizeof *f->parameter);
    memset(f->group, 0xff, o->parameter_count * sizeof *f->group);
    memset(f->first, 0xff, o->parameter_count * sizeof *f->first);
    for (size_t i = 0; i < o->parameter_count; i++) {
        const int64_t at = swi_flat_parameter(f->module, o->parameters[i]);
        swi_quoted q;
        if (at < 0)
            return swi_fail_at(err, SW_ERR_CONFLICT, "FS-23", 0,
                               "optimizer: \"%s\" is no parameter of the model (%s)",
                               swi_quote_str(&q, o->parameters[i]), f->module->shapes->from);
        if (f->parameter[at] != NONE)
            return swi_fail_at(err, SW_ERR_CONFLICT, "FS-23", 0,
                               "optimizer: \"%s\" is there twice, under names that are tied",
                               swi_quote_str(&q, o->parameters[i]));
        f->parameter[at] = (uint32_t)i;
    }
    for (uint32_t g = 0; g < o->group_count; g++)
        for (size_t i = 0; i < o->groups[g].parameter_count; i++)
            f->group[o->groups[g].parameters[i]] = g;
    for (uint32_t i = 0; i < o->state_count; i++)
        if (f->first[o->states[i].parameter] == NONE)
            f->first[o->states[i].parameter] = i;
    return SW_OK;
}

static void end(following *f)
{
    free(f->parameter);
    free(f->group);
    free(f->first);
    free(f->states);
    free(f->new_group);
    free(f->names);
    free(f->tensors);
}

static uint32_t group_of(const following *f, uint32_t shape)
{
    return f->parameter[shape] != NONE ? f->group[f->parameter[shape]] : NONE;
}

static bool has_states(const following *f, uint32_t shape)
{
    return f->parameter[shape] != NONE && f->first[f->parameter[shape]] != NONE;
}

/* The state of this name that a parameter has, or NULL. */
static const swi_opt_state *state_of(const following *f, uint32_t shape, const char *name)
{
    if (!has_states(f, shape))
        return NULL;
    const uint32_t parameter = f->parameter[shape];
    for (size_t i = f->first[parameter];
         i < f->o->state_count && f->o->states[i].parameter == parameter; i++)
        if (strcmp(f->o->states[i].name, name) == 0)
            return &f->o->states[i];
    return NULL;
}

/* FS-23. */
static sw_status check_row(const following *f, const swi_row *row, sw_error *err)
{
    const uint32_t a = row->items[0].parameter;
    for (size_t i = 1; i < row->count; i++) {
        const uint32_t b = row->items[i].parameter;
        const bool may_be = f->module->shapes->items[a].may_be;
        if ((group_of(f, a) == NONE) != (group_of(f, b) == NONE))
            return refuse(f, a, b,
                          may_be ? "only one of them is trained (if the other is a buffer, say so "
                                   "with --shapes)"
                                 : "only one of them is trained",
                          err);
        if (group_of(f, a) != group_of(f, b))
            return refuse(f, a, b, "they are in different groups", err);
        if (has_states(f, a) != has_states(f, b))
            return refuse(f, a, b, "only one of them has states (frozen ones have none)", err);
    }
    return SW_OK;
}

sw_status swi_flatten_check(const swi_optimizer *optimizer, const swi_flat_module *module,
                            sw_error *err)
{
    following f = {.o = optimizer, .module = module};
    sw_status st = find_parameters(&f, err);
    for (size_t r = 0; st == SW_OK && r < module->rows->count; r++)
        st = check_row(&f, &module->rows->items[r], err);
    end(&f);
    return st;
}

/* ---- the states of one row ------------------------------------------------------------------- */

/* A state of the parameter's own shape. */
static bool is_shaped(const following *f, uint32_t shape, const swi_opt_state *s, uint32_t *tensor)
{
    const swi_shape *own = &f->module->shapes->items[shape];
    sw_tensor_info info;
    return sw_value_tensor(f->o->from->graph, s->value, tensor) &&
           sw_catalog_tensor(f->f->catalog, *tensor, &info) && info.axes == own->axes &&
           own->axes > 0 && memcmp(info.shape, own->shape, own->axes * sizeof own->shape[0]) == 0;
}

static sw_status add_state(following *f, uint32_t row, const char *name, sw_value value,
                           sw_error *err)
{
    sw_status st = swi_grow_array((void **)&f->states, &f->state_capacity, f->state_count + 1,
                                  sizeof *f->states, err);
    if (st == SW_OK)
        f->states[f->state_count++] =
            (swi_opt_state){.parameter = row, .name = name, .value = value};
    return st;
}

/* FS-5: all shards are of one size, and what the last ones lack is zero. */
static sw_status pad(following *f, const swi_shaped *row, swi_shaped *out, sw_error *err)
{
    static const uint8_t zero[16];
    const uint64_t each = swi_row_shard((uint64_t)row->shape[0], f->shards);
    uint64_t size = 0;
    if (!swi_mul_u64(each, f->shards, &size) || size > (uint64_t)INT64_MAX)
        return swi_fail(err, SW_ERR_LIMIT, "a row of states would be too large");
    if (size == (uint64_t)row->shape[0])
        return swi_shaped_copy(row, out, err);
    sw_status st = SW_OK;
    if (!f->has_zero)
        st = swi_builder_constant(f->f->builder, zero, 1, sizeof zero, &f->zero_blob, err);
    f->has_zero = f->has_zero || st == SW_OK;
    return st == SW_OK ? swi_shaped_pad(row, 0, (int64_t)size, f->zero_blob, out, err) : st;
}

static sw_status put_row(following *f, uint32_t r, const char *name, const swi_shaped *row,
                         uint32_t *tensor, sw_error *err)
{
    swi_buf full = {0};
    swi_shaped padded;
    sw_status st = pad(f, row, &padded, err);
    if (st != SW_OK)
        return st;
    st = swi_buf_printf(&full, err, "optimizer.state.%s.%s", f->names[r], name);
    if (st == SW_OK)
        st = swi_buf_u8(&full, 0, err);
    if (st == SW_OK)
        st = swi_derive_put(f->f->builder, (const char *)full.data, SW_ROLE_OPTIMIZER, &padded,
                            tensor, err);
    swi_shaped_free(&padded);
    swi_buf_free(&full);
    return st;
}

static sw_status refuse_state(const following *f, uint32_t shape, const char *name, const char *why,
                              sw_error *err)
{
    swi_quoted p, q;
    return swi_fail_at(err, SW_ERR_CONFLICT, "FS-24", 0,
                       "optimizer: parameter \"%s\": state \"%s\" %s; --drop-role optimizer leaves "
                       "the optimizer behind",
                       swi_quote_str(&p, f->module->shapes->items[shape].name),
                       swi_quote_str(&q, name), why);
}

/* Whether all of a row have this state in the shape of the parameter; their tensors. */
static sw_status find_shaped(following *f, const swi_row *row, const char *name, bool *shaped,
                             sw_error *err)
{
    sw_dtype dtype = SW_DTYPE_NONE;
    for (size_t i = 0; i < row->count; i++) {
        const uint32_t at = row->items[i].parameter;
        const swi_opt_state *s = state_of(f, at, name);
        sw_tensor_info info;
        uint32_t tensor = 0;
        if (s == NULL)
            return refuse_state(f, at, name, "is missing, and others of its module have it", err);
        const bool fits = is_shaped(f, at, s, &tensor);
        if (i > 0 && fits != *shaped)
            return refuse_state(f, at, name, "has another form than in others of its module", err);
        *shaped = fits;
        if (!fits)
            continue;
        (void)sw_catalog_tensor(f->f->catalog, tensor, &info);
        if (i > 0 && info.dtype != dtype)
            return refuse_state(f, at, name, "has another type than in others of its module", err);
        dtype = info.dtype;
        f->tensors[at] = tensor;
    }
    return SW_OK;
}

/* A counter: a value or one element, the same in all of the row. */
static sw_status check_same(following *f, const swi_row *row, const char *name, sw_error *err)
{
    const sw_value_graph *g = f->o->from->graph;
    const swi_opt_state *a = state_of(f, row->items[0].parameter, name);
    uint32_t t, u;
    sw_tensor_info x, y;
    const bool is_tensor = sw_value_tensor(g, a->value, &t);
    sw_status st = SW_OK;
    if (is_tensor && (!sw_catalog_tensor(f->f->catalog, t, &x) || x.elements != 1))
        return refuse_state(f, row->items[0].parameter, name,
                            "has neither the parameter's shape nor one element, so it cannot be "
                            "flattened with it",
                            err);
    for (size_t i = 1; st == SW_OK && i < row->count; i++) {
        const uint32_t at = row->items[i].parameter;
        const swi_opt_state *b = state_of(f, at, name);
        bool equal = false;
        uint64_t first;
        if (is_tensor && sw_value_tensor(g, b->value, &u) &&
            sw_catalog_tensor(f->f->catalog, u, &y) && y.dtype == x.dtype && y.elements == 1)
            st = swi_flatten_equal(f->f, t, u, &equal, &first, err);
        else if (!is_tensor)
            st = swi_value_same(g, a->value, g, b->value, &equal, err);
        if (st == SW_OK && !equal)
            return refuse_state(f, at, name, "differs from that of others of its module", err);
    }
    return st;
}

static sw_status follow_state(following *f, uint32_t r, const swi_opt_state *s, sw_error *err)
{
    const swi_row *row = &f->module->rows->items[r];
    swi_shaped shaped;
    uint32_t tensor = 0;
    bool fits = false;
    sw_status st = find_shaped(f, row, s->name, &fits, err);
    if (st == SW_OK && !fits) {
        st = check_same(f, row, s->name, err);
        return st == SW_OK ? add_state(f, r, s->name, s->value, err) : st;
    }
    if (st == SW_OK)
        st = swi_flatten_row(f->f, f->module, r, f->tensors, &shaped, err);
    if (st != SW_OK)
        return st;
    st = put_row(f, r, s->name, &shaped, &tensor, err);
    swi_shaped_free(&shaped);
    return st == SW_OK ? add_state(f, r, s->name, swi_value_of_tensor(tensor), err) : st;
}

/* A state that only others of the row have, and the first has not. */
static sw_status check_kinds(const following *f, const swi_row *row, sw_error *err)
{
    const uint32_t first = row->items[0].parameter;
    for (size_t i = 1; i < row->count; i++) {
        const uint32_t parameter = f->parameter[row->items[i].parameter];
        for (size_t k = f->first[parameter];
             k < f->o->state_count && f->o->states[k].parameter == parameter; k++)
            if (state_of(f, first, f->o->states[k].name) == NULL)
                return refuse_state(f, first, f->o->states[k].name,
                                    "is missing, and others of its module have it", err);
    }
    return SW_OK;
}

static sw_status follow_row(following *f, uint32_t r, sw_error *err)
{
    const swi_row *row = &f->module->rows->items[r];
    const uint32_t first = row->items[0].parameter;
    sw_status st = check_row(f, row, err);
    f->new_group[r] = group_of(f, first);
    if (st != SW_OK || !has_states(f, first))
        return st;
    st = check_kinds(f, row, err);
    const uint32_t parameter = f->parameter[first];
    for (size_t i = f->first[parameter];
         st == SW_OK && i < f->o->state_count && f->o->states[i].parameter == parameter; i++)
        st = follow_state(f, r, &f->o->states[i], err);
    return st;
}

/* ---- what it becomes ------------------------------------------------------------------------- */

static sw_status make_room(following *f, swi_arena *arena, sw_error *err)
{
    const swi_rows *rows = f->module->rows;
    sw_status st = swi_alloc_array(rows->count, sizeof *f->names, (void **)&f->names, err);
    if (st == SW_OK)
        st = swi_alloc_array(rows->count, sizeof *f->new_group, (void **)&f->new_group, err);
    if (st == SW_OK)
        st = swi_alloc_array(f->module->shapes->count, sizeof *f->tensors, (void **)&f->tensors,
                             err);
    swi_buf name = {0};
    for (size_t r = 0; st == SW_OK && r < rows->count; r++) {
        name.size = 0;
        st = swi_flatten_name(&rows->items[r], &name, err);
        if (st == SW_OK)
            st = swi_arena_text(arena, (const char *)name.data, name.size - 1, &f->names[r], err);
    }
    swi_buf_free(&name);
    return st;
}

/* The rows of each group, in the order in which the module has them. */
static sw_status set_groups(const following *f, swi_optimizer *o, sw_error *err)
{
    const size_t rows = f->module->rows->count;
    for (uint32_t g = 0; g < o->group_count; g++) {
        swi_opt_group *group = &o->groups[g];
        uint32_t *room;
        sw_status st = swi_alloc_array(rows, sizeof *room, (void **)&room, err);
        if (st != SW_OK)
            return st;
        free(group->parameters);
        group->parameters = room;
        group->parameter_count = 0;
        for (uint32_t r = 0; r < rows; r++)
            if (f->new_group[r] == g)
                group->parameters[group->parameter_count++] = r;
    }
    return SW_OK;
}

sw_status swi_flatten_optimizer(swi_flattening *flattening, swi_optimizer *o,
                                const swi_flat_module *module, uint64_t shards, sw_error *err)
{
    following f = {.f = flattening, .o = o, .module = module, .shards = shards};
    sw_status st = find_parameters(&f, err);
    if (st == SW_OK)
        st = make_room(&f, &o->arena, err);
    for (uint32_t r = 0; st == SW_OK && r < module->rows->count; r++)
        st = follow_row(&f, r, err);
    if (st == SW_OK)
        st = set_groups(&f, o, err);
    if (st == SW_OK) {
        free(o->parameters);
        free(o->states);
        o->parameters = f.names;
        o->parameter_count = module->rows->count;
        o->states = f.states;
        o->state_count = f.state_count;
        o->has_param_names = false;
        f.names = NULL;
        f.states = NULL;
    }
    end(&f);
    return st;
}
